//! The files of `packaging`: the unit of systemd, and the variables that its page names.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use crate::SHELL;

fn packaging() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    PathBuf::from(package).join("../../packaging")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(packaging().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn systemd_accepts_the_unit() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let unit = folder.path().join("rowmill.service");
    // The program is not installed on this machine.
    std::fs::write(&unit, read("rowmill.service").replace("/usr/local/bin/rowmill", SHELL)).expect("written");
    let Ok(checked) = Command::new("systemd-analyze").arg("verify").arg(&unit).output() else {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("skipped: systemd-analyze is not installed");
        }
        return;
    };
    let complaints = String::from_utf8_lossy(&checked.stderr);
    // Units of this machine may be wrong.
    let own: Vec<&str> = complaints.lines().filter(|line| line.contains("rowmill.service")).collect();
    assert!(own.is_empty(), "{}", own.join("\n"));
}

#[test]
fn the_variables_of_the_page_are_settings_of_the_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let checked = Command::new(SHELL).arg("serve").arg(folder.path()).arg("--check").output().expect("it runs");
    let known = String::from_utf8(checked.stdout).expect("UTF-8");
    let known: BTreeSet<&str> = known.lines().filter_map(|line| line.split(" = ").next()).collect();
    let page = read("README.md");
    let variables = page.split("ROWMILL_SERVE_").skip(1);
    for variable in variables {
        let end = variable.find(|end: char| !end.is_ascii_uppercase() && end != '_').unwrap_or(variable.len());
        let name = variable[..end].to_lowercase();
        assert!(name == "config" || known.contains(&*name), "there is no setting {name}");
    }
}
