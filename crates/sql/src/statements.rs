//! The list of statements: for the shell's help and completion, and for `docs/statements.md`. `dispatch.rs` runs them.

/// A statement that a session runs.
#[derive(Clone, Copy, Debug)]
pub struct StatementInfo {
    /// The words that begin it.
    pub name: &'static str,
    /// A sentence that says what it does.
    pub doc: &'static str,
    /// A short statement of this kind.
    pub example: &'static str,
}

const fn info(name: &'static str, doc: &'static str, example: &'static str) -> StatementInfo {
    StatementInfo { name, doc, example }
}

/// All statements, in the order in which a new user meets them.
pub const STATEMENTS: &[StatementInfo] = &[
    info("SELECT", "Returns rows of tables, views and files.", "SELECT page, COUNT(*) FROM visits GROUP BY page"),
    info("INSERT", "Adds rows to a table.", "INSERT INTO visits VALUES ('/docs', 40)"),
    info("UPDATE", "Changes the rows that meet a condition.", "UPDATE visits SET seconds = 0 WHERE page = '/'"),
    info("DELETE", "Removes the rows that meet a condition.", "DELETE FROM visits WHERE seconds = 0"),
    info(
        "MERGE",
        "Inserts, updates or deletes rows of a table, by whether they match rows of a query.",
        "MERGE INTO stock s USING news n ON s.item = n.item WHEN MATCHED THEN UPDATE SET pieces = n.pieces",
    ),
    info("TRUNCATE", "Removes all rows of a table.", "TRUNCATE TABLE visits"),
    info("COPY", "Loads a file into a table, or writes a table or a query to a file.", "COPY visits FROM 'visits.csv'"),
    info("CREATE TABLE", "Makes a table.", "CREATE TABLE visits (page TEXT NOT NULL, seconds INTEGER)"),
    info(
        "CREATE INDEX",
        "Makes an index of a table with a primary key. Another table only lists it.",
        "CREATE INDEX by_pieces ON stock (pieces)",
    ),
    info("CREATE VIEW", "Gives a query a name.", "CREATE VIEW long_visits AS SELECT * FROM visits WHERE seconds > 60"),
    info(
        "CREATE MATERIALIZED VIEW",
        "Keeps the rows of a query.",
        "CREATE MATERIALIZED VIEW views AS SELECT page, COUNT(*) AS n FROM visits GROUP BY page",
    ),
    info(
        "REFRESH MATERIALIZED VIEW",
        "Brings the rows of a materialized view up to date.",
        "REFRESH MATERIALIZED VIEW views",
    ),
    info(
        "CREATE MACRO",
        "Gives an expression with parameters a name; AS TABLE gives one to a query. CREATE FUNCTION does the same.",
        "CREATE MACRO minutes(s, digits := 1) AS round(s / 60.0, digits)",
    ),
    info("DROP MACRO", "Removes a macro.", "DROP MACRO minutes"),
    info("CREATE SEQUENCE", "Makes a source of ascending numbers.", "CREATE SEQUENCE ticket START WITH 100"),
    info("ALTER SEQUENCE", "Changes how a sequence counts, or its name.", "ALTER SEQUENCE ticket RESTART WITH 500"),
    info(
        "ATTACH",
        "Opens another database, or a file of SQLite, under a name.",
        "ATTACH 'archive' AS archive (READ_ONLY)",
    ),
    info("DETACH", "Closes an attached database.", "DETACH archive"),
    info(
        "CREATE SECRET",
        "Keeps keys for files of S3, or a token for files over HTTP, as long as the connection lasts.",
        "CREATE SECRET (TYPE s3, KEY_ID 'AKIA', SECRET 'xyz', REGION 'eu-central-1')",
    ),
    info("DROP SECRET", "Forgets a secret.", "DROP SECRET warehouse"),
    info("CREATE SCHEMA", "Makes a space of names for tables and views.", "CREATE SCHEMA archive"),
    info("CREATE TYPE", "Makes a type of labels in an order.", "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')"),
    info(
        "ALTER TYPE",
        "Adds or renames a label of a type, or renames the type.",
        "ALTER TYPE mood ADD VALUE 'fine' BEFORE 'happy'",
    ),
    info("ALTER TABLE", "Changes the definition of a table.", "ALTER TABLE visits ADD COLUMN country TEXT"),
    info(
        "COMMENT ON",
        "Describes a table, view, column, sequence, type or macro for people; NULL removes the comment.",
        "COMMENT ON COLUMN visits.page IS 'the path, without the host'",
    ),
    info("DROP", "Removes a table, view, materialized view, index, sequence, type or schema.", "DROP TABLE visits"),
    info("CREATE ROLE", "Makes a role: a group of users.", "CREATE ROLE readers"),
    info("CREATE USER", "Makes a role that clients log in as.", "CREATE USER ann PASSWORD 'secret' IN ROLE readers"),
    info("ALTER ROLE", "Changes a role, for example its password.", "ALTER ROLE ann VALID UNTIL '2027-01-31'"),
    info("DROP ROLE", "Removes a role that owns nothing and has no rights.", "DROP ROLE ann"),
    info(
        "CREATE TOKEN",
        "Makes a secret by which a program logs in as a role, and returns it.",
        "CREATE TOKEN ci FOR ann VALID UNTIL '2027-01-31'",
    ),
    info("DROP TOKEN", "Ends a token.", "DROP TOKEN ci FOR ann"),
    info(
        "GRANT",
        "Gives roles a right on an object, or makes them members of a role.",
        "GRANT SELECT, INSERT ON visits TO readers",
    ),
    info("REVOKE", "Takes a right or a membership away.", "REVOKE INSERT ON visits FROM readers"),
    info("BEGIN", "Begins a transaction.", "BEGIN"),
    info("COMMIT", "Ends the transaction and keeps its changes.", "COMMIT"),
    info("ROLLBACK", "Ends the transaction, or goes back to a savepoint, and undoes the changes.", "ROLLBACK"),
    info("SAVEPOINT", "Marks a point of the transaction that ROLLBACK TO can go back to.", "SAVEPOINT before"),
    info("RELEASE SAVEPOINT", "Forgets a savepoint and keeps the changes since.", "RELEASE SAVEPOINT before"),
    info("EXPLAIN", "Shows how a statement would run; EXPLAIN ANALYZE also runs it.", "EXPLAIN SELECT 1"),
    info("DESCRIBE", "Lists the columns of a table or view.", "DESCRIBE visits"),
    info(
        "SUMMARIZE",
        "Shows counts, bounds, quantiles and the share of NULLs of every column of a table or query.",
        "SUMMARIZE visits",
    ),
    info("PIVOT", "Turns the values of columns into columns.", "PIVOT visits ON page USING sum(seconds)"),
    info("UNPIVOT", "Turns columns into rows.", "UNPIVOT visits ON seconds INTO NAME measure VALUE number"),
    info("SHOW", "Shows the value of a setting; SHOW ALL shows all of them.", "SHOW memory_limit"),
    info("SHOW TABLES", "Lists tables and views.", "SHOW TABLES"),
    info("SHOW VIEWS", "Lists views.", "SHOW VIEWS"),
    info("SHOW SCHEMAS", "Lists schemas.", "SHOW SCHEMAS"),
    info("SHOW COLUMNS", "Lists the columns of a table or view.", "SHOW COLUMNS FROM visits"),
    info("SHOW FUNCTIONS", "Lists the functions that queries may call.", "SHOW FUNCTIONS"),
    info("SHOW CREATE", "Shows the statement that makes a table or view.", "SHOW CREATE TABLE visits"),
    info("SET", "Changes a setting.", "SET threads = 2"),
    info("SET VARIABLE", "Keeps a value for this connection, which getvariable gives.", "SET VARIABLE least = 30"),
    info("SHOW DATABASES", "Lists the database and those that are attached.", "SHOW DATABASES"),
    info("USE", "Chooses the schema or the attached database of names without one.", "USE main"),
    info("RESET", "Gives a setting its first value again.", "RESET threads"),
    info(
        "PREPARE",
        "Keeps a query or a change of rows under a name, for this connection.",
        "PREPARE long_visits (INTEGER) AS SELECT page FROM visits WHERE seconds > $1",
    ),
    info("EXECUTE", "Runs a prepared statement with values for its parameters.", "EXECUTE long_visits (60)"),
    info("DEALLOCATE", "Ends a prepared statement, or all of them.", "DEALLOCATE long_visits"),
    info(
        "DISCARD",
        "Ends what a connection keeps: prepared statements, variables, temporary tables, locks and settings.",
        "DISCARD ALL",
    ),
    info("ANALYZE", "Measures how the values of a table with a primary key are spread.", "ANALYZE stock"),
    info("CHECKPOINT", "Brings the log into the ordered base now.", "CHECKPOINT"),
    info("VACUUM", "Gives back free space, of all or of some tables; VACUUM ANALYZE also runs ANALYZE.", "VACUUM"),
    info("CHECK DATABASE", "Compares everything that is stored with itself.", "CHECK DATABASE"),
    info(
        "BACKUP DATABASE",
        "Copies one state of the database to a new folder.",
        "BACKUP DATABASE TO '/backups/monday'",
    ),
    info(
        "RESTORE DATABASE",
        "Makes a database from a backup.",
        "RESTORE DATABASE FROM '/backups/monday' TO '/data/events'",
    ),
    info(
        "EXPORT DATABASE",
        "Writes all definitions and rows to a new folder, as SQL and files.",
        "EXPORT DATABASE '/exports/monday' (FORMAT csv)",
    ),
    info("IMPORT DATABASE", "Runs the statements of an export.", "IMPORT DATABASE '/exports/monday'"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rowmill_base::Settings;

    use super::*;
    use crate::parse::{self, StatementBody};

    /// Returns the name of an enum's variant, as `Debug` prints it.
    fn variant(value: &impl std::fmt::Debug) -> String {
        format!("{value:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
    }

    fn parsed(info: &StatementInfo) -> String {
        let statements = parse::parse(info.example, &Settings::default());
        let statements = statements.unwrap_or_else(|error| panic!("the example of {}: {error}", info.name));
        match statements[0].body() {
            StatementBody::Sql(sql) => variant(&**sql),
            other => variant(other),
        }
    }

    /// Returns the variants that dispatch names: `Sql::Insert(insert) => ...`.
    fn dispatched() -> BTreeSet<String> {
        let source = include_str!("dispatch.rs");
        let source =
            &source[source.find("fn run(").expect("dispatch")..source.find("fn first_words").expect("a helper")];
        let word = |text: &str| -> String { text.chars().take_while(char::is_ascii_alphanumeric).collect() };
        let names = source.split("Sql::").skip(1).chain(source.split("StatementBody::").skip(1)).map(word);
        // `EXPLAIN COPY` is a form of EXPLAIN, and operations on time tables are forms of ALTER TABLE.
        names.filter(|name| !["Sql", "ExplainCopy", "AlterTimeTable"].contains(&name.as_str())).collect()
    }

    #[test]
    fn the_list_has_an_example_of_every_statement_that_is_dispatched() {
        let listed: BTreeSet<String> = STATEMENTS.iter().map(parsed).collect();
        assert_eq!(listed, dispatched(), "the list of statements and `dispatch.rs` differ");
    }

    #[test]
    fn every_example_begins_with_the_name_of_its_statement() {
        for info in STATEMENTS {
            assert!(info.example.starts_with(info.name), "{}: {}", info.name, info.example);
        }
    }

    #[test]
    fn every_statement_is_on_the_page_of_statements() {
        let page = include_str!("../../../docs/statements.md");
        for StatementInfo { name, doc, example } in STATEMENTS {
            let line = format!("| `{name}` | {doc} | `{example}` |");
            assert!(page.contains(&line), "docs/statements.md lacks this line:\n{line}");
        }
    }
}
