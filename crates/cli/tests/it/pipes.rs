//! The shell in scripts: arguments, files and pipes.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use crate::SHELL;
use crate::formats::check_golden;
use crate::screen::memory_peak_mib;

/// A line that does not come within this time does not come at all. The machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Runs the shell in `folder` with `input` as its standard input.
fn run(folder: &Path, args: &[&str], input: &str) -> Output {
    let mut child = start(folder, args);
    let mut stdin = child.stdin.take().expect("piped");
    // The shell may end before it has read everything.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("the shell has ended")
}

fn start(folder: &Path, args: &[&str]) -> Child {
    let mut command = Command::new(SHELL);
    command.args(args).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the shell starts")
}

#[track_caller]
fn printed(ran: &Output) -> &str {
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    std::str::from_utf8(&ran.stdout).expect("UTF-8")
}

/// Returns the error output of a run that must fail.
#[track_caller]
fn failed(ran: &Output) -> &str {
    assert!(!ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    std::str::from_utf8(&ran.stderr).expect("UTF-8")
}

/// A shell that a script talks to over pipes.
struct Conversation {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Conversation {
    fn begin(folder: &Path, args: &[&str]) -> Conversation {
        let mut child = start(folder, args);
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        // A bound, so that a long result waits for us and not in our memory.
        let (sender, lines) = sync_channel(1024);
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Conversation { child, stdin, lines }
    }

    fn say(&mut self, text: &str) {
        self.stdin.write_all(text.as_bytes()).expect("the shell reads");
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the shell answers before its input ends")
    }

    fn end(self) -> Output {
        drop(self.stdin);
        self.child.wait_with_output().expect("the shell has ended")
    }
}

#[test]
fn each_result_arrives_when_its_statement_is_done() {
    let folder = folder();
    let mut shell = Conversation::begin(folder.path(), &["db"]);
    shell.say("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2);\nSELECT SUM(a) AS s");
    shell.say(" FROM t;");
    assert_eq!((shell.line(), shell.line()), ("s".into(), "3".into()));
    // What comes next depends on the answer.
    shell.say("INSERT INTO t VALUES (3);\nSELECT SUM(a) AS s FROM t; SELECT 'two;\n");
    assert_eq!((shell.line(), shell.line()), ("s".into(), "6".into()));
    shell.say("lines' AS x;\n");
    assert_eq!((shell.line(), shell.line(), shell.line()), ("x".into(), "\"two;".into(), "lines\"".into()));
    // The last statement needs no semicolon.
    shell.say("SELECT 'the end' AS last");
    let ran = shell.end();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn every_format_for_programs_can_be_used_in_a_conversation() {
    let folder = folder();
    for (format, lines) in [("csv", &["a", "1"][..]), ("ndjson", &["{\"a\":1}"]), ("json", &["[", "{\"a\":1}", "]"])] {
        let mut shell = Conversation::begin(folder.path(), &["--format", format]);
        for _ in 0..3 {
            shell.say("SELECT 1 AS a;\n");
            lines.iter().for_each(|line| assert_eq!(shell.line(), *line, "{format}"));
        }
        assert!(shell.end().status.success());
    }
}

#[test]
fn a_reader_that_leaves_ends_the_shell_quietly() {
    let folder = folder();
    for format in ["csv", "json", "table"] {
        let sql = "SELECT * FROM generate_series(1, 1000000000)";
        let mut child = start(folder.path(), &["--format", format, "-c", sql, "-c", "SELECT 1"]);
        let mut stdout = child.stdout.take().expect("piped");
        stdout.read_exact(&mut [0; 100]).expect("the first rows arrive");
        drop(stdout);
        let ran = child.wait_with_output().expect("the shell has ended");
        assert!(ran.status.success(), "{format}: {:?}", ran.status);
        assert_eq!(String::from_utf8_lossy(&ran.stderr), "", "{format}");
    }
}

#[test]
fn a_long_result_is_streamed_in_little_memory() {
    let folder = folder();
    let mut shell = Conversation::begin(folder.path(), &[]);
    shell.say("SELECT 1 AS one;\n");
    assert_eq!((shell.line(), shell.line()), ("one".into(), "1".into()));
    let before = memory_peak_mib(shell.child.id());
    shell.say("SELECT repeat('x', 500) AS t FROM generate_series(1, 1000000);\n");
    assert_eq!(shell.line(), "t");
    for _ in 0..1_000_000 {
        assert_eq!(shell.line().len(), 500);
    }
    let after = memory_peak_mib(shell.child.id());
    assert!(after < before + 150, "the shell held {before} MiB before and {after} MiB after a result of 500 MB");
    assert!(shell.end().status.success());
}

#[test]
fn tables_in_pipes_are_never_cut() {
    let folder = folder();
    let ran = run(
        folder.path(),
        &["--format", "table", "-c", "SELECT repeat('x', 3000) AS t, * FROM generate_series(1, 200)"],
        "",
    );
    let rows = printed(&ran).lines().filter(|line| line.contains(&"x".repeat(3000))).count();
    assert_eq!(rows, 200);
}

#[test]
fn a_statement_may_follow_the_folder() {
    let folder = folder();
    printed(&run(folder.path(), &["db", "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (7)"], ""));
    assert_eq!(printed(&run(folder.path(), &["db", "SELECT a FROM t"], "")), "a\n7\n");
    assert_eq!(printed(&run(folder.path(), &["db", "SELECT 1 AS x", "-c", "SELECT a FROM t"], "")), "x\n1\na\n7\n");
}

#[test]
fn a_missing_file_creates_no_database() {
    let folder = folder();
    let ran = run(folder.path(), &["db", "-c", "CREATE TABLE t (a INTEGER)", "-f", "missing.sql"], "");
    assert!(failed(&ran).contains("missing.sql"), "{}", failed(&ran));
    assert!(!folder.path().join("db").exists());
    let ran = run(folder.path(), &["db", "-f", "."], "");
    assert!(failed(&ran).contains("it is a directory"), "{}", failed(&ran));
    assert!(!folder.path().join("db").exists());
}

#[test]
fn files_and_the_standard_input_run_in_order() {
    let folder = folder();
    std::fs::write(folder.path().join("one.sql"), "\u{feff}SELECT 1 AS one;").expect("written");
    let args = ["-f", "one.sql", "-f", "-", "-c", "SELECT 3 AS three"];
    assert_eq!(printed(&run(folder.path(), &args, "SELECT 2 AS two")), "one\n1\ntwo\n2\nthree\n3\n");
}

#[test]
fn commands_work_in_files_and_pipes() {
    let folder = folder();
    let inner = "SELECT 'inner' AS x;\n\\q\nSELECT 'never';";
    std::fs::write(folder.path().join("inner.sql"), inner).expect("written");
    let mut shell = Conversation::begin(folder.path(), &[]);
    shell.say("CREATE TABLE t (a INTEGER); \\d\n");
    assert_eq!((shell.line(), shell.line()), ("schema,name,kind".into(), "main,t,table".into()));
    shell.say("-- a comment\n  \\d t;\n\\mode ndjson\n");
    assert_eq!((shell.line(), shell.line()), ("column_name,column_type,null,default".into(), "a,INTEGER,YES,".into()));
    // A command in the middle of a line begins after its statement. `\q` ends only its own file.
    shell.say("SELECT 1 AS a; \\i inner.sql\nSELECT 2 AS a;\n\\timing\nSELECT 3 AS a;\n");
    for expected in ["{\"a\":1}", "{\"x\":\"inner\"}", "{\"a\":2}", "{\"a\":3}"] {
        assert_eq!(shell.line(), expected);
    }
    let time = shell.line();
    assert!(time.starts_with("Time: "), "{time}");
    shell.say("\\q\nSELECT 'never';\n");
    assert_eq!(shell.end().status.code(), Some(0));
    assert_eq!(printed(&run(folder.path(), &["-c", "\\i inner.sql", "-c", "SELECT 1 AS a"], "")), "x\ninner\na\n1\n");
}

#[test]
fn errors_of_commands_in_files_name_the_line() {
    let folder = folder();
    std::fs::write(folder.path().join("self.sql"), "SELECT 1;\n\\i self.sql\n").expect("written");
    let text = failed(&run(folder.path(), &["-f", "self.sql"], "")).to_owned();
    assert!(text.contains("self.sql, line 2, statement 2: ") && text.contains("100 deep"), "{text}");
    std::fs::write(folder.path().join("bad.sql"), "\n\nSELECT 1 + );\n").expect("written");
    let text = failed(&run(folder.path(), &[], "SELECT 1;\n \\i bad.sql\n")).to_owned();
    assert!(text.contains("the standard input, line 2, statement 2: bad.sql, line 3, statement 1: "), "{text}");
    assert!(text.contains("line 3, column"), "{text}");
    let text = failed(&run(folder.path(), &[], "\\nonsense\n")).to_owned();
    assert!(text.contains("line 1, statement 1: there is no command \\nonsense"), "{text}");
}

#[test]
fn an_error_names_its_file_line_and_statement() {
    let folder = folder();
    let sql = "CREATE TABLE t (a INTEGER);\n-- more;\n\n  INSERT INTO t\n  SELECT * FROM nowhere;\nSELECT 1;";
    std::fs::write(folder.path().join("load.sql"), sql).expect("written");
    let error = run(folder.path(), &["db", "-f", "load.sql"], "");
    assert!(failed(&error).starts_with("ERROR 42P01: load.sql, line 4, statement 2: "), "{}", failed(&error));
    // The statements before the error have run, and the ones after it have not.
    assert_eq!(printed(&run(folder.path(), &["db", "SELECT COUNT(*) AS n FROM t"], "")), "n\n0\n");
    assert_eq!(error.stdout, b"");

    let error = run(folder.path(), &[], "SELECT 1 AS a;\n\n   SELECT 2 +\n );");
    let text = failed(&error);
    assert!(text.starts_with("ERROR 42601: the standard input, line 3, statement 2: "), "{text}");
    // Places inside of the statement count from the beginning of the input too.
    assert!(text.contains("line 4, column"), "{text}");
    assert_eq!(error.stdout, b"a\n1\n");

    let error = run(folder.path(), &[], "SELECT 1 AS a;\nSELECT 1 / 0;");
    assert!(failed(&error).starts_with("ERROR 22012: the standard input, line 2, statement 2: "), "{}", failed(&error));
}

#[test]
fn a_folder_of_other_files_is_not_turned_into_a_database() {
    let folder = folder();
    std::fs::write(folder.path().join("letter.txt"), "dear").expect("written");
    let ran = run(folder.path(), &[".", "SELECT 1"], "");
    assert!(failed(&ran).contains("letter.txt"), "{}", failed(&ran));
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).expect("listed").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names, ["letter.txt"]);
}

#[test]
fn the_demo_ends_quietly_when_its_reader_leaves() {
    let folder = folder();
    let mut child = start(folder.path(), &["demo", "demo"]);
    let mut stdout = child.stdout.take().expect("piped");
    stdout.read_exact(&mut [0; 10]).expect("the first line arrives");
    drop(stdout);
    let ran = child.wait_with_output().expect("the shell has ended");
    assert!(ran.status.success(), "{:?}: {}", ran.status, String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn copies_go_through_the_streams() {
    let folder = folder();
    let script = "CREATE TABLE t (a INTEGER, b TEXT);\nCOPY t FROM STDIN;\n1\tone; two\n2\t\\N\n\\.\n\
                  COPY t FROM STDIN CSV;\n3,\"x\"\n\\.\nCOPY (SELECT * FROM t ORDER BY a) TO STDOUT;\n\
                  SELECT COUNT(*) AS n FROM t;\n";
    let ran = run(folder.path(), &["db"], script);
    assert_eq!(printed(&ran), "1\tone; two\n2\t\\N\n3\tx\nn\n3\n");
    // A statement of the command line takes the whole standard input.
    printed(&run(folder.path(), &["db", "COPY t FROM STDIN CSV HEADER"], "a,b\n4,y\n5,z\n"));
    let ran = run(folder.path(), &["db", "COPY (SELECT a, b FROM t WHERE a > 3) TO STDOUT CSV HEADER"], "");
    assert_eq!(printed(&ran), "a,b\n4,y\n5,z\n");
    let text = run(folder.path(), &["db"], "SELECT 1 AS a;\nCOPY t FROM STDIN;\nnot a number\tx\n\\.\n");
    assert!(failed(&text).contains("the standard input, line 2, statement 2: "), "{}", failed(&text));
    assert_eq!(printed(&run(folder.path(), &["db", "SELECT COUNT(*) AS n FROM t"], "")), "n\n5\n");
}

#[test]
fn a_command_may_end_a_statement_in_a_script() {
    let folder = folder();
    let ran = run(folder.path(), &[], "\\set n 3\nSELECT :n AS a,\n 2 AS b \\g out.csv\nSELECT 4 AS c;\n");
    assert_eq!(printed(&ran), "c\n4\n");
    assert_eq!(std::fs::read_to_string(folder.path().join("out.csv")).expect("written"), "a,b\n3,2\n");
    let ran = run(folder.path(), &["--format", "table", "-c", "SELECT 1 AS a \\gx"], "");
    assert_eq!(printed(&ran), "a = 1\n");
    // Other commands must not be inside of a statement.
    assert!(failed(&run(folder.path(), &[], "SELECT 1\n\\timing\n;")).contains("ERROR 42601"));
}

#[test]
fn results_go_to_a_file_until_it_is_closed() {
    let folder = folder();
    let script = "\\o out.csv\nSELECT 1 AS a;\nSELECT 2 AS b;\n\\o\nSELECT 3 AS c;\n";
    assert_eq!(printed(&run(folder.path(), &[], script)), "c\n3\n");
    assert_eq!(std::fs::read_to_string(folder.path().join("out.csv")).expect("written"), "a\n1\nb\n2\n");
    let ran = run(folder.path(), &[], "\\o nowhere/out.csv\n");
    assert!(failed(&ran).contains("nowhere/out.csv"), "{}", failed(&ran));
}

#[test]
fn the_exit_code_says_what_has_happened() {
    let folder = folder();
    for (args, code) in [
        (&["-c", "SELECT 1"][..], 0),
        (&["-c", "SELECT nothing"], 1),
        (&["-f", "missing.sql"], 1),
        (&["--no-such-option"], 2),
        (&["-c", "\\q"], 0),
    ] {
        assert_eq!(run(folder.path(), args, "").status.code(), Some(code), "{args:?}");
    }
}

#[test]
fn charts_are_as_their_golden_file_says() {
    let folder = folder();
    let script = "SELECT x, x * x AS square, 50 * x AS line FROM generate_series(-10, 60) AS g (x) \\plot\n\
        SELECT TIMESTAMP '2026-01-01' + INTERVAL '1 hour' * x AS at, x % 24 AS load \
        FROM generate_series(0, 71) AS g (x) \\plot\n\
        SELECT c AS country, n FROM (VALUES ('DE', 12), ('FR', 7.5), ('漢字', NULL), ('US', -3)) AS v (c, n) \\plot\n";
    check_golden("plot.txt", printed(&run(folder.path(), &["--format", "table"], script)));
    for (wrong, message) in [
        ("\\plot\n", "there is no result to draw"),
        ("SELECT 'a' AS t \\plot\n", "no column of numbers"),
        ("SELECT 1 AS a \\plot line b\n", "no column \"b\""),
        ("SELECT 1 AS a WHERE false \\plot\n", "no rows to draw"),
    ] {
        let text = failed(&run(folder.path(), &[], wrong)).to_owned();
        assert!(text.contains(message), "{wrong}: {text}");
    }
}

#[test]
fn the_path_memory_is_a_database_in_memory() {
    let folder = folder();
    let ran = run(folder.path(), &[":memory:"], "CREATE TABLE t (a INT); INSERT INTO t VALUES (7); SELECT a FROM t;");
    assert!(printed(&ran).contains('7'));
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "no file is made");
}
