//! The prompt: lines, keys and commands.

use std::time::Duration;

use crate::terminal::{CTRL_C, CTRL_D, ENTER, TAB, TerminalOptions, UP};

/// A statement that runs for hours.
const ENDLESS: &str = "SELECT COUNT(*) FROM generate_series(1, 1000000) AS a (x), \
    generate_series(1, 1000000) AS b (y), generate_series(1, 1000000) AS c (z) WHERE x * y % 7 = z % 3;";

fn home() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn a_statement_runs_when_its_semicolon_is_typed() {
    let home = home();
    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    shell.type_text("SELECT 40 +\r");
    shell.wait_for("rowmill- ");
    shell.type_text(ENTER);
    shell.wait_for("rowmill- ");
    shell.type_text("2 -- not yet;\r");
    shell.wait_for("not yet");
    shell.wait_for("rowmill- ");
    shell.type_text("AS answer;\r");
    shell.wait_for("42");
    shell.wait_for("(1 row)");
    shell.wait_for("rowmill> ");
}

#[test]
fn quotes_and_comments_hide_semicolons_and_backslashes() {
    let home = home();
    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    let shown = shell.run("SELECT $$a;b$$ AS x, E'c\\';d' AS y, $t$\\q;$t$ AS z /* ; /* ; */ */;");
    for value in ["a;b", "c';d", "\\q;"] {
        assert!(shown.contains(value), "{value}: {shown}");
    }
    for (open, rest, value) in
        [("SELECT 'one;", "two';", "one;↵two"), ("SELECT $$", "\\q;$$;", "\\q;"), ("/* ;", "*/ SELECT 7;", "7")]
    {
        shell.type_text(&format!("{open}\r"));
        shell.wait_for("rowmill- ");
        shell.type_text(&format!("{rest}\r"));
        let shown = shell.wait_for("(1 row)");
        assert!(shown.contains(value), "{shown}");
        shell.wait_for("rowmill> ");
    }
}

#[test]
fn an_error_is_shown_and_the_shell_continues() {
    let home = home();
    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    assert!(shell.run("SELECT * FROM nowhere;").contains("ERROR 42P01"));
    assert!(shell.run("SELEC 1;").contains("ERROR 42601"));
    assert!(shell.run("SELECT 3 AS three;").contains("(1 row)"));
}

#[test]
fn history_is_kept_for_the_next_shell() {
    let home = home();
    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    shell.run("SELECT 1 AS first;");
    shell.type_text("SELECT 41 +\r");
    shell.wait_for("rowmill- ");
    shell.type_text("1 AS answer;\r");
    shell.wait_for("(1 row)");
    shell.wait_for("rowmill> ");
    shell.run("\\timing");
    shell.type_text("\\q\r");
    assert!(shell.end().0.success());

    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    for command in ["\\q", "\\timing"] {
        shell.type_text(UP);
        shell.wait_for(command);
    }
    shell.type_text(UP);
    shell.wait_for("AS answer;");
    shell.type_text(ENTER);
    assert!(shell.wait_for("(1 row)").contains("42"));
    shell.wait_for("rowmill> ");
}

#[test]
fn words_are_completed_with_the_tab_key() {
    let home = home();
    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    shell.run("CREATE TABLE zebras (stripes INTEGER);");
    for (typed, completed) in [("selec", "select"), (" stri", "stripes"), (" fro", "from"), (" zeb", "zebras")] {
        shell.type_text(typed);
        shell.type_text(TAB);
        shell.wait_for(completed);
    }
    shell.type_text(";\r");
    shell.wait_for("(0 rows)");
    shell.wait_for("rowmill> ");
}

#[test]
fn ctrl_c_cancels_the_statement_and_not_the_shell() {
    let home = home();
    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    shell.type_text(ENDLESS);
    shell.wait_for("z % 3;");
    shell.type_text(ENTER);
    shell.wait_for("\n");
    std::thread::sleep(Duration::from_secs(1));
    shell.type_text(CTRL_C);
    shell.wait_for("ERROR 57014");
    shell.wait_for("rowmill> ");
    assert!(shell.run("SELECT 1 AS one;").contains("(1 row)"));
}

#[test]
fn ctrl_c_at_the_prompt_discards_what_is_typed() {
    let home = home();
    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    shell.type_text("SELECT 'open\r");
    shell.wait_for("rowmill- ");
    shell.type_text("and more");
    shell.wait_for("more");
    shell.type_text(CTRL_C);
    shell.wait_for("rowmill> ");
    assert!(shell.run("SELECT 2 AS two;").contains("(1 row)"));
}

#[test]
fn ctrl_d_ends_the_shell_and_rolls_back() {
    let home = home();
    let mut shell = TerminalOptions { args: &["db"], ..TerminalOptions::new(home.path()) }.open_at_prompt();
    shell.run("CREATE TABLE t (a INTEGER);");
    shell.type_text("BEGIN;\r");
    shell.wait_for("rowmill*> ");
    shell.type_text("INSERT INTO t VALUES (1);\r");
    shell.wait_for("INSERT 1");
    shell.wait_for("rowmill*> ");
    shell.type_text(CTRL_D);
    let (status, shown) = shell.end();
    assert!(status.success());
    assert!(shown.contains("The open transaction was rolled back."), "{shown}");
    let mut shell = TerminalOptions { args: &["db"], ..TerminalOptions::new(home.path()) }.open_at_prompt();
    assert!(shell.run("SELECT * FROM t;").contains("(0 rows)"));
}

#[test]
fn quit_exit_and_help_are_understood() {
    let home = home();
    for word in ["quit", "EXIT;", "\\q", "\\quit", "\\exit"] {
        let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
        shell.type_text(&format!("{word}\r"));
        assert!(shell.end().0.success(), "{word}");
    }
    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    let help = shell.run("\\?");
    for command in ["\\d", "\\d NAME", "\\mode FORMAT", "\\all", "\\timing", "\\i FILE", "\\h STATEMENT", "\\?", "\\q"]
    {
        assert!(help.lines().any(|line| line.starts_with(&format!("{command} "))), "{command} is missing: {help}");
    }
    assert_eq!(shell.run("help"), help);
    assert_eq!(shell.run("\\help"), help);
}

#[test]
fn commands_do_what_the_help_says() {
    let home = home();
    std::fs::write(home.path().join("make.sql"), "CREATE TABLE made (a INTEGER);\nINSERT INTO made VALUES (5);")
        .expect("written");
    std::fs::write(home.path().join("bad.sql"), "SELECT 1;\n\nSELECT * FROM nowhere;").expect("written");
    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    assert!(shell.run("\\i make.sql").contains("INSERT 1"));
    assert!(shell.run("\\i bad.sql").contains("ERROR 42P01: bad.sql, line 3, statement 2"));
    assert!(shell.run("\\i missing.sql").contains("ERROR"));
    assert!(shell.run("\\d").contains("made"));
    assert!(shell.run("\\d made;").contains("INTEGER"));
    assert!(shell.run("\\h").contains("BACKUP DATABASE"));
    assert!(shell.run("\\h create t").contains("CREATE TABLE visits"));
    assert!(shell.run("\\h sing").contains("there is no statement \"sing\""));
    assert!(shell.run("\\nonsense").contains("there is no command \\nonsense"));
    assert!(shell.run("\\mode csv").is_empty());
    assert_eq!(shell.run("SELECT a FROM made;"), "a\n5\n");
    assert!(shell.run("\\mode nothing").contains("the modes are table, csv, json, ndjson, markdown and line"));
    assert!(shell.run("\\timing").contains("Timing is on."));
    assert!(shell.run("SELECT a FROM made;").contains("Time: 0."));
    assert!(shell.run("\\timing").contains("Timing is off."));
}
