//! Commands that show what the database holds.

use rowmill::{Result, TransactionState};

use super::Next;
use crate::runner::Runner;
use crate::terminal::say;

/// Writes a text as a literal of SQL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn show(sql: &str, runner: &mut Runner) -> Result<Next> {
    runner.run_own(sql)?;
    Ok(Next::Continue)
}

pub(super) fn describe(name: &str, runner: &mut Runner) -> Result<Next> {
    if name.is_empty() {
        return show("SHOW TABLES", runner);
    }
    runner.run_own(&format!("DESCRIBE {name}"))?;
    // Programs that read the output want one result.
    if runner.view.format.is_for_people() {
        say(&keys(name, runner)?)?;
    }
    Ok(Next::Continue)
}

/// Returns the keys, indexes and conditions of a table, one in each line.
fn keys(name: &str, runner: &mut Runner) -> Result<String> {
    let name = literal(name);
    let mut text = String::new();
    for (title, sql) in [
        (
            "Indexes",
            format!(
                "SELECT c.relname || ': ' || CASE WHEN indisprimary THEN 'PRIMARY KEY ' \
                 WHEN indisunique THEN 'UNIQUE ' ELSE '' END \
                 || split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) \
                 FROM pg_catalog.pg_index JOIN pg_catalog.pg_class AS c ON c.oid = indexrelid \
                 WHERE indrelid = {name}::regclass ORDER BY NOT indisprimary, 1"
            ),
        ),
        (
            "Constraints",
            format!(
                "SELECT conname || ': ' || pg_get_constraintdef(oid) FROM pg_catalog.pg_constraint \
                 WHERE conrelid = {name}::regclass AND contype IN ('c', 'f') ORDER BY 1"
            ),
        ),
    ] {
        let rows = runner.connection.query(&sql)?.rows()?;
        for (place, row) in rows.iter().enumerate() {
            if place == 0 {
                text.push_str(&format!("{title}:\n"));
            }
            text.push_str(&format!("  {}\n", row.get::<String>(0)?));
        }
    }
    Ok(text)
}

/// The condition on a schema that leaves out those of other databases, and those that every database has.
const OWN_SCHEMAS: &str = "NOT IN ('information_schema', 'pg_catalog') AND table_catalog = current_database()";

pub(super) fn tables(_: &str, runner: &mut Runner) -> Result<Next> {
    let sql = format!(
        "SELECT table_schema AS schema, table_name AS name, table_rows AS rows FROM information_schema.tables \
         WHERE table_type = 'BASE TABLE' AND table_schema {OWN_SCHEMAS} ORDER BY 1, 2"
    );
    show(&sql, runner)
}

pub(super) fn views(_: &str, runner: &mut Runner) -> Result<Next> {
    let sql = format!(
        "SELECT table_schema AS schema, table_name AS name, view_definition AS query FROM information_schema.views \
         WHERE table_schema {OWN_SCHEMAS} ORDER BY 1, 2"
    );
    show(&sql, runner)
}

pub(super) fn indexes(_: &str, runner: &mut Runner) -> Result<Next> {
    let sql = "SELECT schemaname AS schema, tablename AS table, indexname AS name, indexdef AS definition \
               FROM pg_catalog.pg_indexes ORDER BY 1, 2, 3";
    show(sql, runner)
}

pub(super) fn sequences(_: &str, runner: &mut Runner) -> Result<Next> {
    let sql = "SELECT nspname AS schema, relname AS name FROM pg_catalog.pg_class AS c \
               JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE relkind = 'S' ORDER BY 1, 2";
    show(sql, runner)
}

pub(super) fn schemas(_: &str, runner: &mut Runner) -> Result<Next> {
    show("SHOW SCHEMAS", runner)
}

pub(super) fn types(_: &str, runner: &mut Runner) -> Result<Next> {
    let sql = "SELECT typname AS name, list(enumlabel ORDER BY enumsortorder) AS labels \
               FROM pg_catalog.pg_type AS t LEFT JOIN pg_catalog.pg_enum ON enumtypid = t.oid \
               WHERE typtype = 'e' GROUP BY 1 ORDER BY 1";
    show(sql, runner)
}

pub(super) fn functions(pattern: &str, runner: &mut Runner) -> Result<Next> {
    let like = literal(&pattern.to_lowercase().replace('*', "%").replace('?', "_"));
    let filter = if pattern.is_empty() { String::new() } else { format!(" WHERE lower(name) LIKE {like}") };
    show(&format!("SELECT name, family, description, example FROM rowmill_functions(){filter}"), runner)
}

/// The place of the database.
fn place(runner: &Runner) -> String {
    runner.database.path().map_or_else(|| "memory".to_owned(), |path| path.display().to_string())
}

pub(super) fn databases(_: &str, runner: &mut Runner) -> Result<Next> {
    show("SHOW DATABASES", runner)
}

pub(super) fn connection(_: &str, runner: &mut Runner) -> Result<Next> {
    let transaction = match runner.connection.transaction_state() {
        TransactionState::Idle => "No transaction is open.",
        TransactionState::Active => "A transaction is open.",
        TransactionState::Failed => "A transaction is open and has failed.",
    };
    let (version, process) = (env!("CARGO_PKG_VERSION"), std::process::id());
    say(&format!("Rowmill {version}, database {}, process {process}. {transaction}\n", place(runner)))?;
    Ok(Next::Continue)
}
