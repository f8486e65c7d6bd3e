//! The prompt: lines, keys and commands.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
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
    for (open, prompt, rest, value) in [
        ("SELECT 'one;", "rowmill'> ", "two';", "one;↵two"),
        ("SELECT $$", "rowmill$> ", "\\q;$$;", "\\q;"),
        ("/* ;", "rowmill/*> ", "*/ SELECT 7;", "7"),
        ("SELECT 1 AS \"a", "rowmill\"> ", "b\";", "a↵b"),
        ("SELECT (3", "rowmill(> ", "+ 4);", "7"),
    ] {
        shell.type_text(&format!("{open}\r"));
        shell.wait_for(prompt);
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
    for (typed, completed) in [("selec", "select"), (" stripe", "stripes"), (" fro", "from"), (" zeb", "zebras")] {
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
    shell.wait_for("rowmill'> ");
    shell.type_text("and more");
    shell.wait_for("more");
    shell.type_text(CTRL_C);
    shell.wait_for("rowmill> ");
    assert!(shell.run("SELECT 2 AS two;").contains("(1 row)"));
}

#[test]
fn ctrl_c_between_two_runs_of_a_watch_ends_the_watch_and_not_the_shell() {
    let home = home();
    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    // Without a pause, Ctrl-C arrives in, before and after a statement.
    for _ in 0..20 {
        shell.type_text("SELECT 1 AS one \\watch 0\r");
        shell.wait_for("(1 row)");
        shell.type_text(CTRL_C);
        shell.wait_for("rowmill> ");
    }
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
    assert!(shell.run("\\timig").contains("did you mean \\timing?"));
    assert!(shell.run("\\plt").contains("did you mean \\plot?"));
    assert!(shell.run("\\mode csv").is_empty());
    assert_eq!(shell.run("SELECT a FROM made;"), "a\n5\n");
    assert!(shell.run("\\mode nothing").contains("the modes are table, csv, json, ndjson, markdown and line"));
    assert!(shell.run("\\timing").contains("Timing is on."));
    assert!(shell.run("SELECT a FROM made;").contains("Time: 0."));
    assert!(shell.run("\\timing").contains("Timing is off."));
}

#[test]
fn the_place_of_an_error_is_underlined() {
    let home = home();
    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    let shown = shell.run("SELECT 1 AS one, oen + 1 FROM generate_series(1, 2) AS g (one);");
    let lines: Vec<&str> = shown.lines().collect();
    let mark = lines.iter().position(|line| line.trim() == "^^^").unwrap_or_else(|| panic!("no mark: {shown}"));
    assert_eq!(lines[mark].find('^'), lines[mark - 1].find("oen"), "{shown}");
    // In a statement of several lines, the line with the error is shown.
    shell.type_text("SELECT 1,\r");
    shell.wait_for("rowmill- ");
    shell.type_text("  nothing;\r");
    let shown = shell.wait_for("rowmill> ");
    assert!(shown.contains("    nothing;\n    ^^^^^^^"), "{shown}");
}

#[test]
fn commands_end_a_statement() {
    let home = home();
    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    assert!(shell.run("SELECT 40 + 2 AS answer \\gx").contains("answer = 42"));
    // Without a statement, the last one runs again.
    assert!(shell.run("\\g").contains("(1 row)"));
    assert_eq!(shell.run("SELECT 1 AS a \\g result.txt"), "");
    let table = std::fs::read_to_string(home.path().join("result.txt")).expect("written");
    assert!(table.contains("a") && table.contains("1"), "{table}");
    shell.run_to("SELECT 5 +", "rowmill- ");
    assert_eq!(shell.run_to("\\p", "rowmill- "), "SELECT 5 +\n");
    shell.run("\\r");
    assert!(shell.run("\\x").contains("one value per line"));
    assert!(shell.run("SELECT 7 AS seven;").contains("seven = 7"));
}

#[test]
fn the_statement_is_edited_in_the_editor_of_the_user() {
    let home = home();
    let editor = home.path().join("editor");
    std::fs::write(&editor, "#!/bin/sh\nsed -i s/1/2/ \"$1\"\n").expect("written");
    std::fs::set_permissions(&editor, Permissions::from_mode(0o755)).expect("executable");
    let env = [("EDITOR", editor.to_str().expect("UTF-8"))];
    let mut shell = TerminalOptions { env: &env, ..TerminalOptions::new(home.path()) }.open_at_prompt();
    shell.run("SELECT 10 + 1 AS sum;");
    // The editor makes 20 of 10, and the statement runs.
    assert!(shell.run("\\e").contains("21"));
    shell.type_text("SELECT 1 \\e\r");
    // Without a semicolon the statement waits for more.
    shell.wait_for("SELECT 2");
    shell.wait_for("rowmill- ");
    shell.type_text("AS two;\r");
    assert!(shell.wait_for("(1 row)").contains("2"));
}

#[test]
fn watch_repeats_a_statement_until_ctrl_c() {
    let home = home();
    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    shell.type_text("SELECT 1 AS one \\watch 0.05\r");
    shell.wait_for("\n");
    for _ in 0..3 {
        shell.wait_for("(1 row)");
    }
    shell.type_text(CTRL_C);
    shell.wait_for("rowmill> ");
    assert!(shell.run("SELECT 2 AS two;").contains("(1 row)"));
}

#[test]
fn variables_commands_of_the_system_and_copies_work() {
    let home = home();
    let mut shell = TerminalOptions { args: &["db"], ..TerminalOptions::new(home.path()) }.open_at_prompt();
    shell.run("\\set limit 2");
    assert!(shell.run("SELECT * FROM generate_series(1, 9) LIMIT :limit;").contains("(2 rows)"));
    assert_eq!(shell.run("\\echo limit is :limit"), "limit is 2\n");
    assert_eq!(shell.run("\\! echo from the system"), "from the system\n");
    assert!(shell.run("\\conninfo").contains("database db"));
    assert!(shell.run("\\l").contains("db"));
    shell.run("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT UNIQUE, CHECK (a > 0));");
    shell.run_to("COPY t FROM STDIN;", ">> ");
    // The rows after a wrong one are no statements.
    shell.run_to("1\\N", ">> ");
    shell.run_to("SELECT 2", ">> ");
    assert!(shell.run("\\.").contains("ERROR 22P04"));
    shell.run_to("COPY t (a) FROM STDIN;", ">> ");
    shell.run_to("7", ">> ");
    shell.type_text(CTRL_D);
    assert!(shell.wait_for("rowmill> ").contains("COPY 1"));
    std::fs::write(home.path().join("t.csv"), "a,b\n1,x\n2,y\n").expect("written");
    assert!(shell.run("\\copy t from t.csv").contains("COPY 2"));
    let described = shell.run("\\d t");
    for part in ["t_pkey: PRIMARY KEY (a)", "UNIQUE (b)", "CHECK (a > 0)"] {
        assert!(described.contains(part), "{part}: {described}");
    }
    assert!(shell.run("\\dt").contains("rows"));
    assert!(shell.run("\\di").contains("t_pkey"));
    assert!(shell.run("\\df date_tr*").contains("date_trunc"));
    assert!(shell.run("SELECT a FROM t \\plot").contains("a by row"));
}

#[test]
fn commands_of_other_shells_are_answered_with_a_hint() {
    let home = home();
    let mut shell = TerminalOptions::new(home.path()).open_at_prompt();
    for (typed, hint) in [(".tables", "\\dt"), (".schema t", "SHOW CREATE TABLE"), ("\\c other", "rowmill FOLDER")] {
        let shown = shell.run(typed);
        assert!(shown.contains("HINT") && shown.contains(hint), "{typed}: {shown}");
    }
}

#[test]
fn colours_are_used_only_where_they_are_wanted() {
    let home = home();
    for (name, is_coloured) in [("OTHER", true), ("NO_COLOR", false)] {
        let env = [(name, "1")];
        let mut shell = TerminalOptions { env: &env, ..TerminalOptions::new(home.path()) }.open_at_prompt();
        shell.run("SELECT NULL AS nothing, 'x' || (1 + 2);");
        shell.type_text("\\q\r");
        let raw = String::from_utf8_lossy(&shell.raw_to_end()).into_owned();
        // The colours of SQL while it is typed, and NULL in grey.
        assert_eq!(raw.contains("\x1b[34m") || raw.contains("\x1b[1m"), is_coloured, "{raw:?}");
        assert_eq!(raw.contains("NULL\x1b[0m"), is_coloured, "{raw:?}");
    }
}
