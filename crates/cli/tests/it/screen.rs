//! Results on a terminal: width, length, the pager, and the time.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::formats::check_golden;
use crate::terminal::TerminalOptions;

fn home() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// The most memory that a process has held, in MiB.
pub(crate) fn memory_peak_mib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("its peak");
    line.split_whitespace().nth(1).expect("a number").parse::<u64>().expect("a number") / 1024
}

const WIDE: &str = "SELECT 1 AS id, 'a text of some length, which must be cut' AS note, 123456789012345678 AS big, \
                    'another text of some length' AS note2, 'a third text that is long' AS note3, NULL AS last;";

#[test]
fn a_wide_result_fits_the_terminal() {
    let home = home();
    let mut shown = String::new();
    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    for columns in [200, 120, 100, 60, 30] {
        shell.resize(60, columns);
        // A line that wraps on the screen is shown in pieces, so the statement comes from a file.
        std::fs::write(home.path().join("q"), WIDE).expect("written");
        let table = shell.run("\\i q");
        let widest = table.lines().map(|line| line.chars().count()).max().expect("lines");
        assert!(widest <= usize::from(columns) || columns < 40, "{columns} columns:\n{table}");
        shown.push_str(&format!("{columns} columns:\n{table}"));
    }
    check_golden("screen.txt", &shown);
}

#[test]
fn a_long_result_shows_its_first_and_last_rows_in_little_memory() {
    let home = home();
    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    shell.run("SELECT 1;");
    let before = memory_peak_mib(shell.process_id());
    let table = shell.run("SELECT value, repeat('x', 500) AS t FROM generate_series(1, 1000000);");
    assert!(table.contains("1,000,000 rows, 40 shown"), "{table}");
    let first_cells: Vec<&str> =
        table.lines().filter_map(|line| line.split(['│', '┆']).nth(1)).map(str::trim).collect();
    let expected: Vec<String> = (1..=20).map(|value| value.to_string()).chain(["…".to_owned()]).collect();
    // The first lines have the name and the type.
    assert_eq!(first_cells[..2], ["value", "bigint"]);
    assert_eq!(first_cells[2..23], expected);
    assert_eq!(first_cells[23..], (999_981..=1_000_000).map(|value| value.to_string()).collect::<Vec<_>>());
    let after = memory_peak_mib(shell.process_id());
    assert!(after < before + 150, "the shell held {before} MiB before and {after} MiB after a result of 500 MB");
    assert!(shell.run("SELECT * FROM generate_series(1, 40);").contains("(40 rows)"));
}

#[test]
fn all_rows_are_shown_on_request() {
    let home = home();
    for args in [&["--all"][..], &[]] {
        let mut shell = TerminalOptions { args, ..TerminalOptions::new(home.path()) }.open_at_prompt();
        if args.is_empty() {
            assert!(shell.run("\\all").contains("all rows and columns"));
        }
        let table = shell.run("SELECT value, repeat('x', 200) AS t FROM generate_series(1, 100);");
        let rows = table.lines().filter(|line| line.contains(&"x".repeat(200))).count();
        assert_eq!(rows, 100, "{args:?}: {table}");
    }
}

fn pager(folder: &Path, script: &str) -> String {
    let path = folder.join("pager");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("executable");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_result_longer_than_the_screen_goes_through_the_pager() {
    let home = home();
    let pager = pager(home.path(), "echo PAGED; cat");
    let mut shell = TerminalOptions { lines: 20, pager: &pager, ..TerminalOptions::new(home.path()) }.open_at_prompt();
    let long = shell.run("SELECT * FROM generate_series(1, 30);");
    assert!(long.starts_with("PAGED") && long.contains("(30 rows)"), "{long}");
    let short = shell.run("SELECT * FROM generate_series(1, 10);");
    assert!(!short.contains("PAGED") && short.contains("(10 rows)"), "{short}");
}

#[test]
fn leaving_the_pager_early_ends_the_result_without_an_error() {
    let home = home();
    let pager = pager(home.path(), "head -3");
    let options =
        TerminalOptions { lines: 20, pager: &pager, args: &["--format", "csv"], ..TerminalOptions::new(home.path()) };
    let mut shell = options.open_at_prompt();
    assert_eq!(shell.run("SELECT * FROM generate_series(1, 100000000);"), "value\n1\n2\n");
    assert_eq!(shell.run("SELECT 7 AS seven;"), "seven\n7\n");
}

#[test]
fn a_missing_pager_is_no_error() {
    let home = home();
    let options = TerminalOptions { lines: 20, pager: "/nowhere/pager", ..TerminalOptions::new(home.path()) };
    let mut shell = options.open_at_prompt();
    assert!(shell.run("SELECT * FROM generate_series(1, 30);").contains("(30 rows)"));
}

#[test]
fn the_time_of_a_query_does_not_count_the_pager() {
    let home = home();
    let pager = pager(home.path(), "sleep 2; cat");
    let mut shell = TerminalOptions { lines: 20, pager: &pager, ..TerminalOptions::new(home.path()) }.open_at_prompt();
    shell.run("\\timing");
    let shown = shell.run("SELECT * FROM generate_series(1, 30);");
    let time = shown.lines().find_map(|line| line.strip_prefix("Time: ")?.strip_suffix(" s")).expect("a time");
    assert!(time.parse::<f64>().expect("seconds") < 1.9, "{shown}");
}

#[test]
fn a_statement_of_the_command_line_fits_the_terminal_without_a_pager() {
    let home = home();
    let args = ["-c", "SELECT * FROM generate_series(1, 1000)"];
    let pager = pager(home.path(), "echo PAGED; cat");
    let options = TerminalOptions { lines: 20, args: &args, pager: &pager, ..TerminalOptions::new(home.path()) };
    let (status, shown) = options.open().end();
    assert!(status.success());
    assert!(!shown.contains("PAGED") && shown.contains("1,000 rows, 40 shown"), "{shown}");
}
