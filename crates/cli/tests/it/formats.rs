//! The output formats, each beside a golden file. `ROWMILL_GOLDEN=write` writes the files instead.

use std::path::Path;
use std::process::Command;

use crate::SHELL;

/// Compares `found` with a golden file.
#[track_caller]
pub(crate) fn check_golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden").join(name);
    if std::env::var_os("ROWMILL_GOLDEN").is_some_and(|mode| mode == "write") {
        std::fs::write(&path, found).expect("the golden file is written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(found == expected, "{name} should be:\n{expected}\nand is:\n{found}");
}

const STATEMENTS: &str = r#"
    CREATE TABLE t (id INTEGER, "a b" TEXT, amount DECIMAL(8, 2), at TIMESTAMP, day DATE, yes BOOLEAN, list INTEGER[]);
    INSERT INTO t VALUES
        (1, 'plain', 1.50, TIMESTAMP '2026-01-02 03:04:05.6', DATE '2026-01-02', true, [1, NULL, 3]),
        (2, 'with "quotes", a comma | and a bar', -20.00, NULL, NULL, false, []),
        (3, E'two\nlines\tand a tab', NULL, NULL, NULL, NULL, NULL),
        (-4, '', 0, NULL, DATE '0001-01-01', NULL, NULL),
        (NULL, 'Größe 漢字 😀', 123456.78, NULL, NULL, NULL, NULL);
    SELECT * FROM t;
    SELECT * FROM t WHERE false;
    SELECT 'long ' || repeat('text ', 40) AS t;
"#;

#[test]
fn each_format_is_as_its_golden_file_says() {
    for format in ["table", "csv", "json", "ndjson", "markdown", "line"] {
        let ran = Command::new(SHELL).args(["--format", format, "-c", STATEMENTS]).output().expect("the shell runs");
        assert!(ran.status.success(), "{format}: {}", String::from_utf8_lossy(&ran.stderr));
        check_golden(&format!("{format}.txt"), &String::from_utf8(ran.stdout).expect("UTF-8"));
    }
}

#[test]
fn the_help_of_the_command_line_lists_every_format() {
    let ran = Command::new(SHELL).arg("--help").output().expect("the shell runs");
    let help = String::from_utf8(ran.stdout).expect("UTF-8");
    for format in ["table", "csv", "json", "ndjson", "markdown", "line"] {
        assert!(help.contains(format), "{format}: {help}");
    }
}
