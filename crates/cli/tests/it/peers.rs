//! The shell's answers beside those of other engines, where the machine has them.

use std::path::Path;
use std::process::Command;

use crate::SHELL;

/// The script names each difference that is not intended, and each engine that it skips because the machine lacks it.
#[test]
fn time_clauses_agree_with_questdb_and_duckdb() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/timeseries/differences.py");
    let seeds = if std::env::var_os("ROWMILL_LONG").is_some() { "20" } else { "1" };
    let compared = match Command::new("python3").arg(&script).args([SHELL, "--seeds", seeds]).output() {
        Ok(compared) => compared,
        Err(error) => return eprintln!("skipped: python3 does not start: {error}"),
    };
    let (told, failed) = (String::from_utf8_lossy(&compared.stdout), String::from_utf8_lossy(&compared.stderr));
    assert!(compared.status.success(), "{told}\n{failed}");
    eprintln!("{told}");
}
