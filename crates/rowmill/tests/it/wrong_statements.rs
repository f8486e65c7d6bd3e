//! Statements that are wrong, of every kind: each error says where, and says it in the words of SQL.
//!
//! `wrong_statements.sql` has one statement in each line. `«` is the place that its error must have. A line that
//! begins with `~` has an error without a place, because it is not about the text. ` -- hint` at the end means that the
//! error must have a hint. `ROWMILL_GOLDEN=write` writes the places and hints that the errors have; read them then.

use rowmill::{Connection, Database, Error, ErrorKind};

const STATEMENTS: &str = include_str!("wrong_statements.sql");

const SCHEMA: &str = "CREATE TABLE towns (id INTEGER PRIMARY KEY, name TEXT NOT NULL, people INTEGER, founded DATE);
    CREATE TABLE plain (a INTEGER, b TEXT, c DOUBLE, d BOOLEAN, e DATE);
    CREATE TABLE visits (at TIMESTAMP NOT NULL, page TEXT, ms INTEGER, amount DECIMAL(8, 2))
        TIMESTAMP(at) PARTITION BY DAY;
    CREATE VIEW big AS SELECT * FROM towns WHERE people > 1000;
    CREATE SEQUENCE ticket;
    CREATE INDEX by_people ON towns (people);
    CREATE MATERIALIZED VIEW pages AS SELECT page, COUNT(*) AS n FROM visits GROUP BY page";

/// Texts of the implementation, which no user should have to read.
const OF_THE_IMPLEMENTATION: &[&str] = &[
    "Some(", "None", "Ident", "Expr", "Value(", "Span", "EOF", "unwrap", " { ", "binder", "subplan", "planner",
    "lowering", "DataType", "Utf8", "Int64",
];

/// A statement and what its error must be.
struct WrongStatement {
    sql: String,
    /// The column of the place. `None` if the error has none.
    column: Option<u64>,
    needs_hint: bool,
}

fn wrong_statements() -> Vec<WrongStatement> {
    let lines = STATEMENTS.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    lines
        .map(|line| {
            let (line, needs_hint) = line.strip_suffix(" -- hint").map_or((line, false), |line| (line, true));
            let sql = line.trim_start_matches('~').replace('«', "");
            let column = line.split_once('«').map(|(before, _)| before.chars().count() as u64 + 1);
            assert!(column.is_some() != line.starts_with('~'), "{line}: it needs either a place or no place");
            WrongStatement { sql, column, needs_hint }
        })
        .collect()
}

fn error_of(connection: &mut Connection, sql: &str) -> Option<Error> {
    connection.query(sql).and_then(|rows| rows.batches()).err()
}

/// The faults of the error of a statement.
fn faults(wrong: &WrongStatement, error: &Error) -> Vec<String> {
    let mut faults = Vec::new();
    let found = error.position().map(|place| (place.line, place.column));
    let wanted = wrong.column.map(|column| (1, column));
    if found != wanted {
        faults.push(format!("its place is {found:?}, not {wanted:?}"));
    }
    if error.kind() == ErrorKind::Internal {
        faults.push("it is a bug".to_owned());
    }
    if wrong.needs_hint && error.hint_text().is_none() {
        faults.push("it has no hint".to_owned());
    }
    let text = error.to_string();
    let technical = OF_THE_IMPLEMENTATION.iter().filter(|part| text.contains(*part) && !wrong.sql.contains(*part));
    faults.extend(technical.map(|part| format!("it says \"{part}\"")));
    faults
}

/// Returns the lines of the file with the places and the hints that the errors have.
fn as_found(connection: &mut Connection) -> String {
    let mut text = String::new();
    for line in STATEMENTS.lines() {
        let sql = line.trim_start_matches('~').replace('«', "");
        let sql = sql.strip_suffix(" -- hint").unwrap_or(&sql);
        match error_of(connection, sql).filter(|_| !line.is_empty() && !line.starts_with("# ")) {
            None => text.push_str(line),
            Some(error) => {
                let place = error.position().map(|place| place.column as usize - 1);
                let (before, after): (String, String) = match place {
                    Some(place) => (sql.chars().take(place).collect(), sql.chars().skip(place).collect()),
                    None => ("~".to_owned(), sql.to_owned()),
                };
                let mark = if place.is_some() { "«" } else { "" };
                let hint = if error.hint_text().is_some() { " -- hint" } else { "" };
                text.push_str(&format!("{before}{mark}{after}{hint}"));
            }
        }
        text.push('\n');
    }
    text
}

#[test]
fn every_wrong_statement_has_an_error_that_helps() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = Database::open(folder.path().join("db")).expect("a database");
    let mut connection = database.connect().expect("connected");
    connection.execute_batch(SCHEMA).expect("made");
    if std::env::var_os("ROWMILL_GOLDEN").is_some_and(|mode| mode == "write") {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/wrong_statements.sql");
        std::fs::write(path, as_found(&mut connection)).expect("written");
        return;
    }
    let statements = wrong_statements();
    assert!(statements.len() >= 230, "only {} statements are left", statements.len());
    let mut wrong = Vec::new();
    for statement in &statements {
        match error_of(&mut connection, &statement.sql) {
            None => wrong.push(format!("{}\n  it has no error", statement.sql)),
            Some(error) => {
                let faults = faults(statement, &error);
                if !faults.is_empty() {
                    wrong.push(format!("{}\n  {error}\n  {}", statement.sql, faults.join("\n  ")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), statements.len(), wrong.join("\n"));
}

#[test]
fn places_count_from_the_beginning_of_a_text_with_several_statements() {
    let mut connection = Database::memory().expect("a database").connect().expect("connected");
    for sql in ["SELECT 1;\n  SELECT nme;", "SELECT 1;\n  DROP TABLE nme;", "SELECT 1;\n  SELECT 2 +;"] {
        let error = connection.execute_batch(sql).expect_err("it is wrong");
        let place = error.position().unwrap_or_else(|| panic!("{sql}: {error}"));
        let line = sql.lines().nth(1).expect("two lines");
        let column = line.find("nme").unwrap_or(line.len() - 1) as u64 + 1;
        assert_eq!((place.line, place.column), (2, column), "{sql}: {error}");
    }
}

#[test]
fn an_error_in_the_text_of_a_view_does_not_point_into_the_statement() {
    let mut connection = Database::memory().expect("a database").connect().expect("connected");
    connection.execute_batch("CREATE TABLE t (a TEXT); CREATE VIEW v AS SELECT a || 'x' AS b FROM t").expect("made");
    let error = connection.execute_batch("ALTER TABLE t DROP COLUMN a").expect_err("the view needs it");
    assert!(!error.message().contains("(line"), "{error}");
    let error =
        connection.execute_batch("CREATE MATERIALIZED VIEW m AS SELECT b, nothing FROM v").expect_err("it is wrong");
    assert_eq!(error.position().map(|place| place.column), Some(41), "{error}");
    assert!(!error.message().contains("(line"), "{error}");
}
