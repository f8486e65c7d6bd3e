//! `ALTER TABLE` of time tables: their time to live, their keys, and dropping their partitions.
//!
//! A partition is a calendar range of the time column, so dropping it is a DELETE of that range. Blocks that lie in the
//! range are dropped as a whole.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_query::syntax_walk::each_expr_mut;
use rowmill_storage::{CalendarUnit, TableDef, TimeTableDef, TimeToLive};
use rowmill_txn::Transaction;
use sqlparser::ast::{Expr, Ident, Statement as Sql};

use super::alter_table::{STATEMENT, drop_columns, table_text};
use super::partition_range::{moment_text, partition_range};
use super::relation;
use super::sql_text::{expr, quoted, statement};
use super::time_clause::dedup_key_ids;
use super::write::{self, ChangeSyntax};
use crate::names::qualified;
use crate::outcome::Outcome;
use crate::parse::{AlterTimeTable, TimeTableOperation};
use crate::session::Work;

const DROP_PARTITION: &str = "ALTER TABLE DROP PARTITION";

pub(crate) fn run(work: &mut Work<'_>, alter: &AlterTimeTable) -> Result<Outcome> {
    let AlterTimeTable { name, if_exists, operation } = alter;
    let name = qualified(name, work.statement.spellings())?;
    let table = match relation::table(work.view()?.catalog(), &name) {
        Ok(table) => table,
        Err(error) if *if_exists && error.kind() == ErrorKind::UndefinedTable => {
            work.notice(error.message());
            return Ok(Outcome::Done { tag: STATEMENT });
        }
        Err(error) => return Err(error),
    };
    match operation {
        TimeTableOperation::SetTimeToLive(life) => {
            time_def(&table, "SET TTL")?;
            change(work, &table, |time| time.time_to_live = Some(*life))
        }
        TimeTableOperation::DisableDedup => {
            time_def(&table, "DEDUP DISABLE")?;
            change(work, &table, |time| time.dedup_keys.clear())
        }
        TimeTableOperation::EnableDedup(keys) => {
            let keys = dedup_key_ids(work, &table, time_def(&table, "DEDUP ENABLE")?, keys)?;
            change(work, &table, |time| time.dedup_keys = keys)
        }
        TimeTableOperation::DropTimeToLive(column) => drop_time_to_live(work, &table, column),
        TimeTableOperation::DropPartitions(texts) => {
            let unit = partition_unit(&table)?;
            let condition = within_partitions(work, &table, texts, unit)?;
            delete(work, &table, condition)
        }
        TimeTableOperation::DropPartitionsWhere(condition) => {
            let unit = partition_unit(&table)?;
            let condition = of_partition_starts(work, &table, condition, unit)?;
            delete(work, &table, condition)
        }
    }
}

/// Returns the clauses of a time table, or an error that says what needs them.
fn time_def<'t>(table: &'t TableDef, operation: &str) -> Result<&'t TimeTableDef> {
    table.time.as_deref().ok_or_else(|| {
        Error::new(
            ErrorKind::WrongObject,
            format!("{STATEMENT} {operation}: table \"{}\" has no time column", table.name),
        )
        .hint("CREATE TABLE ... (columns) TIMESTAMP(column) makes a table with one")
    })
}

/// Returns the length of the partitions of a table.
fn partition_unit(table: &TableDef) -> Result<CalendarUnit> {
    time_def(table, "DROP PARTITION")?.partition.ok_or_else(|| {
        Error::new(ErrorKind::WrongObject, format!("{DROP_PARTITION}: table \"{}\" has no partitions", table.name))
            .hint("CREATE TABLE ... TIMESTAMP(column) PARTITION BY DAY declares them; DELETE removes any rows")
    })
}

/// Changes the clauses of a time table.
fn change(work: &mut Work<'_>, table: &Arc<TableDef>, change: impl FnOnce(&mut TimeTableDef)) -> Result<Outcome> {
    work.write(|_, transaction: &mut Transaction| {
        // The definition may have changed since, so the clauses are those of the transaction.
        let view = transaction.view()?;
        let now = view.catalog().table_by_id(table.id).and_then(|table| table.time.as_deref());
        let mut time = now.cloned().ok_or_else(|| Error::internal("a time table keeps its time column"))?;
        change(&mut time);
        transaction.set_time_table(table.id, time)
    })?;
    Ok(Outcome::Done { tag: STATEMENT })
}

/// `DROP TTL`. Without a time column it drops the column of this name, as `DROP` of any other name does.
fn drop_time_to_live(work: &mut Work<'_>, table: &Arc<TableDef>, column: &Ident) -> Result<Outcome> {
    let has_column = table.column_index(&column.value).is_some();
    match (&table.time, has_column) {
        (Some(_), true) => {
            let what = format!("{STATEMENT}: DROP TTL of table \"{}\", which also has a column \"ttl\"", table.name);
            Err(Error::new(ErrorKind::Syntax, what).hint("DROP COLUMN ttl drops the column; rename it to DROP TTL"))
        }
        (Some(_), false) => change(work, table, |time| time.time_to_live = None::<TimeToLive>),
        (None, true) => {
            work.write(|work, transaction| {
                drop_columns(work, transaction, table, std::slice::from_ref(column), false)
            })?;
            Ok(Outcome::Done { tag: STATEMENT })
        }
        (None, false) => time_def(table, "DROP TTL").map(|_| Outcome::Done { tag: STATEMENT }),
    }
}

/// Deletes the rows that meet a condition.
fn delete(work: &mut Work<'_>, table: &TableDef, condition: Expr) -> Result<Outcome> {
    let text = format!("DELETE FROM {}", table_text(work.view()?.catalog(), table));
    let mut sql = statement(&text, work.settings())?;
    if let Sql::Delete(delete) = &mut sql {
        delete.selection = Some(condition);
    }
    match write::run(work, ChangeSyntax { with: None, change: &sql })? {
        Outcome::Changed { rows, .. } => Ok(Outcome::Changed { tag: STATEMENT, rows }),
        other => Ok(other),
    }
}

/// Returns the condition that a row is in one of the partitions.
fn within_partitions(work: &Work<'_>, table: &TableDef, texts: &[String], unit: CalendarUnit) -> Result<Expr> {
    let column = time_column(table)?;
    let name = quoted(&column.name);
    let moment = |moment_us: i128| match &column.kind {
        // The text of an instant needs its zone.
        SqlType::Timestamp { zoned: true, .. } if moment_text(moment_us).len() > 10 => {
            format!("CAST('{}+00' AS {})", moment_text(moment_us), column.kind)
        }
        SqlType::Timestamp { zoned: true, .. } => {
            format!("CAST('{} 00:00:00+00' AS {})", moment_text(moment_us), column.kind)
        }
        kind => format!("CAST('{}' AS {kind})", moment_text(moment_us)),
    };
    let within = |text: &String| {
        let range = partition_range(text, unit)?;
        Ok(format!("({name} >= {} AND {name} < {})", moment(range.start), moment(range.end)))
    };
    let conditions = texts.iter().map(within).collect::<Result<Vec<_>>>()?;
    expr(&conditions.join(" OR "), work.settings())
}

/// Returns a condition over the time column as one over the start of each row's partition.
fn of_partition_starts(work: &Work<'_>, table: &TableDef, condition: &Expr, unit: CalendarUnit) -> Result<Expr> {
    let column = time_column(table)?;
    let name = column.name.to_lowercase();
    let start = format!("date_trunc('{}', {})", unit.word().to_lowercase(), quoted(&column.name));
    let start = expr(&start, work.settings())?;
    let mut condition = condition.clone();
    let mut refused = None;
    each_expr_mut(&mut condition, |part| {
        let last = match part {
            Expr::Identifier(ident) => Some(&*ident),
            Expr::CompoundIdentifier(parts) => parts.last(),
            Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } => {
                refused.get_or_insert_with(|| "a subquery".to_owned());
                None
            }
            _ => None,
        };
        match last {
            Some(ident) if ident.value == name => *part = start.clone(),
            Some(ident) => drop(refused.get_or_insert_with(|| format!("\"{}\"", ident.value))),
            None => {}
        }
    });
    match refused {
        None => Ok(condition),
        Some(refused) => {
            let what = format!("{DROP_PARTITION} WHERE has {refused}, but a partition has only a time");
            Err(Error::new(ErrorKind::Unsupported, what)
                .hint(format!("the condition may use \"{}\"; DELETE removes any rows", column.name)))
        }
    }
}

fn time_column(table: &TableDef) -> Result<&rowmill_storage::ColumnDef> {
    let column = table.time_column().map(|column| &table.columns[column]);
    column.ok_or_else(|| Error::internal("a time table keeps its time column"))
}
