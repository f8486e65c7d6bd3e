//! `ALTER TABLE`.
//!
//! `ALTER COLUMN ... TYPE` and `ADD PRIMARY KEY` write all rows of the table again (`refill`). No other operation does:
//! rows that are older than an added column read as the one value that its default had
//! at that moment. A dropped column only leaves the definition; its bytes go when their blocks are next rewritten. The
//! operations of one statement happen in order, and all of them or none.
//!
//! At the end we plan the views over the table again. An operation that breaks a view is refused.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_storage::{TableDef, TableSource};
use rowmill_txn::{Catalog, ColumnSpec, Transaction};
use sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, DropBehavior, GeneratedAs, Ident, ObjectName,
    RenameTableNameKind, TableConstraint,
};

use super::clause::{refuse, unsupported};
use super::column_spec::{check_name, column_spec};
use super::default_value::{self, DefaultValue};
use super::dependents::Dependents;
use super::generated_column;
use super::key_clauses::{KeyClauses, def_of};
use super::refill;
use super::relation::{self, RelationId};
use super::renamed_column;
use super::sequence;
use super::sql_text::quoted;
use super::write::binder::given_columns;
use crate::names::{QualifiedName, identifiers, lower, qualified};
use crate::outcome::Outcome;
use crate::session::Work;

pub(super) const STATEMENT: &str = "ALTER TABLE";
const ADD_CONSTRAINT: &str = "ALTER TABLE ADD CONSTRAINT";

pub(crate) fn run(work: &mut Work<'_>, alter: &AlterTable) -> Result<Outcome> {
    // No table inherits from another, so ONLY changes nothing.
    let AlterTable { name, if_exists, only: _, operations, location, on_cluster, table_type, end_token: _ } = alter;
    let clauses = [
        (location.is_some(), "LOCATION"),
        (on_cluster.is_some(), "ON CLUSTER"),
        (table_type.is_some(), "a kind of table"),
    ];
    refuse(STATEMENT, clauses)?;
    let name = qualified(name, work.statement.spellings())?;
    let done = Outcome::Done { tag: STATEMENT };
    work.write(|work, transaction| {
        let before = transaction.view()?;
        let table = match relation::table(before.catalog(), &name) {
            Ok(table) => table,
            Err(error) if *if_exists && error.kind() == ErrorKind::UndefinedTable => {
                work.notice(error.message());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // The views must be found before the change: afterwards the names that they use may be gone.
        let dependents = Dependents::of(before.catalog(), [RelationId::Table(table.id)]);
        for operation in operations {
            // Each operation sees the result of the operations before it.
            let view = transaction.view()?;
            let table = view.catalog().table_by_id(table.id).expect("the table is altered, not dropped");
            alter_once(work, transaction, table, &name, operation)?;
        }
        if operations.iter().any(refill::is_refill) {
            // The rows have new numbers, so a refresh cannot tell which of them are new.
            dependents.forget_refresh_points(transaction)?;
        }
        dependents.check(work, &transaction.view()?)
    })?;
    Ok(done)
}

fn alter_once(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    table: &Arc<TableDef>,
    name: &QualifiedName,
    operation: &AlterTableOperation,
) -> Result<()> {
    match operation {
        AlterTableOperation::AddColumn { column_keyword: _, if_not_exists, column_def, column_position } => {
            refuse("ALTER TABLE ADD COLUMN", [(column_position.is_some(), "FIRST or AFTER")])?;
            add_column(work, transaction, table, column_def, *if_not_exists)
        }
        AlterTableOperation::DropColumn { has_column_keyword: _, column_names, if_exists, drop_behavior } => {
            let cascade = matches!(drop_behavior, Some(DropBehavior::Cascade));
            refuse("ALTER TABLE DROP COLUMN", [(cascade, "CASCADE")])?;
            drop_columns(work, transaction, table, column_names, *if_exists)
        }
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            rename_column(work, transaction, table, old_column_name, new_column_name)
        }
        AlterTableOperation::RenameTable { table_name: RenameTableNameKind::To(new_name) } => {
            rename_table(work, transaction, table, name, new_name)
        }
        AlterTableOperation::AlterColumn { column_name, op } => {
            alter_column(work, transaction, (name, table), column_name, op)
        }
        AlterTableOperation::AddConstraint { constraint, not_valid } => {
            refuse(ADD_CONSTRAINT, [(*not_valid, "NOT VALID")])?;
            match constraint {
                TableConstraint::PrimaryKey(_) => refill::add_primary_key(work, transaction, table, constraint),
                _ => add_constraint(work, transaction, table, constraint),
            }
        }
        AlterTableOperation::RenameConstraint { old_name, new_name } => {
            let (old, new) = (work.statement.spell(old_name), work.statement.spell(new_name));
            check_name(new)?;
            match transaction.rename_constraint(table.id, old, new)? {
                true => Ok(()),
                false => Err(no_constraint(table, old)),
            }
        }
        AlterTableOperation::DropConstraint { if_exists, name, drop_behavior } => {
            let cascade = matches!(drop_behavior, Some(DropBehavior::Cascade));
            refuse("ALTER TABLE DROP CONSTRAINT", [(cascade, "CASCADE")])?;
            drop_constraint(work, transaction, table, name, *if_exists)
        }
        other => {
            let text = other.to_string();
            let clause: Vec<&str> = text.split_whitespace().take(3).collect();
            Err(unsupported(STATEMENT, &clause.join(" ")).hint(
                "there are ADD and DROP COLUMN, ADD, DROP and RENAME CONSTRAINT, RENAME COLUMN, RENAME TO \
                 and ALTER COLUMN TYPE, SET or DROP DEFAULT or NOT NULL; for tables with a time column also SET and \
                 DROP TTL, DROP PARTITION LIST and WHERE, DEDUP ENABLE and DISABLE",
            ))
        }
    }
}

fn add_column(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    table: &Arc<TableDef>,
    column: &ColumnDef,
    if_not_exists: bool,
) -> Result<()> {
    let mut spec = column_spec(work, transaction.catalog(), "ALTER TABLE ADD COLUMN", column)?;
    if let Err(error) = check_free(table, &spec.name) {
        if if_not_exists {
            work.notice(error.message());
            return Ok(());
        }
        return Err(error);
    }
    if let Some(expr) = generated_column::expression(column) {
        return refill::add_generated(work, transaction, table, spec, expr);
    }
    let empty = transaction.view()?.table(table.id).is_none_or(|table| table.row_count() == 0);
    // An empty table needs no value for old rows, so any default and NOT NULL are allowed there.
    if !empty {
        spec.missing = missing_value(work, table, &spec)?;
    }
    transaction.add_column(table.id, spec).map(|_| ())
}

fn add_constraint(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &Arc<TableDef>,
    constraint: &TableConstraint,
) -> Result<()> {
    KeyClauses::of_addition(ADD_CONSTRAINT, constraint, table)?.apply(work, transaction, table.id)?;
    if !matches!(constraint, TableConstraint::Check(_)) {
        return Ok(());
    }
    // Keys and foreign keys were checked when they were created, so only a CHECK condition still needs to read the
    // rows.
    let changed = def_of(transaction, table.id)?;
    let Some(added) = changed.rules.checks.last() else {
        return Err(Error::internal("a condition that was just made is not there"));
    };
    let view = transaction.view()?;
    let sql = format!("SELECT count(*) FROM {} WHERE NOT ({})", table_text(view.catalog(), table), added.sql);
    let refused = work.number(view, &sql)?;
    // The rows that we just read must not change before the condition is committed.
    transaction.validate_rows(table.id)?;
    if refused == 0 {
        return Ok(());
    }
    let what = format!("{refused} rows of table \"{}\" do not meet the constraint \"{}\"", table.name, added.name);
    Err(Error::new(ErrorKind::CheckViolation, what).hint(format!("they must meet {}", added.sql)))
}

fn drop_constraint(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    table: &TableDef,
    name: &Ident,
    if_exists: bool,
) -> Result<()> {
    let name = work.statement.spell(name).to_owned();
    if transaction.drop_foreign_key(table.id, &name)? || transaction.drop_check(table.id, &name)? {
        return Ok(());
    }
    let mut indexes = table.keyed.iter().flat_map(|keyed| &keyed.indexes);
    if let Some(index) = indexes.find(|index| index.unique && lower(&index.name) == lower(&name)) {
        return transaction.drop_index(table.id, index.id);
    }
    if table.primary_key_name().is_some_and(|key| lower(&key) == lower(&name)) {
        let what = format!("\"{name}\" is the primary key of table \"{}\", which orders its rows", table.name);
        return Err(unsupported("ALTER TABLE DROP CONSTRAINT", "of a primary key").context(what).hint(
            "copy the rows to a new table with CREATE TABLE ... AS SELECT, drop this one, and rename the new one",
        ));
    }
    let unknown = no_constraint(table, &name);
    if if_exists {
        work.notice(unknown.message());
        return Ok(());
    }
    Err(unknown)
}

fn no_constraint(table: &TableDef, name: &str) -> Error {
    let what = format!("table \"{}\" has no constraint \"{name}\"", table.name);
    Error::new(ErrorKind::UndefinedObject, what).hint("SHOW CREATE TABLE shows what it has")
}

/// Returns the value of the new column in the rows that already exist.
fn missing_value(work: &Work<'_>, table: &TableDef, spec: &ColumnSpec) -> Result<Option<ArrayRef>> {
    let value = match &spec.default {
        None => None,
        Some(text) => {
            let default = DefaultValue::of(work, text, &spec.name, &spec.kind)?;
            // Old rows share one stored value, but a volatile default promises each row its own.
            if default.is_volatile() {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!(
                        "column \"{}\" cannot be added with DEFAULT {text}: the rows of table \"{}\" would share one \
                         value",
                        spec.name, table.name
                    ),
                )
                .hint("add the column without a default, UPDATE the table, then ALTER COLUMN ... SET DEFAULT"));
            }
            let value = default.rows(1)?;
            (!value.is_null(0)).then_some(value)
        }
    };
    if value.is_none() && !spec.nullable {
        return Err(Error::new(
            ErrorKind::NotNullViolation,
            format!(
                "column \"{}\" cannot be added as NOT NULL: table \"{}\" has rows, and they would hold NULL there",
                spec.name, table.name
            ),
        )
        .hint("give the column a DEFAULT"));
    }
    Ok(value)
}

/// Returns an error if `table` already has a column of this name.
fn check_free(table: &TableDef, name: &str) -> Result<()> {
    match table.column_index(name) {
        None => Ok(()),
        Some(index) => Err(Error::new(
            ErrorKind::DuplicateColumn,
            format!("table \"{}\" has a column \"{}\" already", table.name, table.columns[index].name),
        )),
    }
}

pub(super) fn drop_columns(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    table: &TableDef,
    names: &[Ident],
    if_exists: bool,
) -> Result<()> {
    let named: Vec<Option<usize>> = names.iter().map(|name| table.column_index(work.statement.spell(name))).collect();
    let is_dropped = |place: usize| named.contains(&Some(place));
    let mut left = table.columns.len();
    let mut dropped = Vec::new();
    for name in names {
        let index = match relation::column(table, work.statement.spell(name)) {
            Ok(index) => index,
            Err(error) if if_exists => {
                work.notice(error.message());
                continue;
            }
            Err(error) => return Err(error),
        };
        let id = table.columns[index].id;
        if dropped.contains(&id) {
            continue;
        }
        // A table must keep at least one column, also when one statement drops several.
        left -= 1;
        if left == 0 {
            return Err(Error::new(
                ErrorKind::InvalidDefinition,
                format!("column \"{}\" is the last one of table \"{}\"", table.columns[index].name, table.name),
            )
            .hint("a table needs a column; DROP TABLE drops it whole"));
        }
        if !table.rules.generated.is_empty() {
            let view = transaction.view()?;
            generated_column::check_drop(work, &view, table, index, is_dropped)?;
            if given_columns(table).into_iter().all(is_dropped) {
                let what = format!("all other columns of table \"{}\" are generated", table.name);
                return Err(Error::new(ErrorKind::InvalidDefinition, what).hint("a row needs a column that is given"));
            }
        }
        renamed_column::drop_checks(work, transaction, table, index)?;
        transaction.drop_column(table.id, id)?;
        dropped.push(id);
    }
    Ok(())
}

fn rename_column(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    table: &TableDef,
    old: &Ident,
    new: &Ident,
) -> Result<()> {
    let index = relation::column(table, work.statement.spell(old))?;
    let new = work.statement.spell(new);
    check_name(new)?;
    // A rename that only changes the case would find the column itself.
    if lower(&table.columns[index].name) != lower(new) {
        check_free(table, new)?;
    }
    renamed_column::rename(work, transaction, table, index, new)?;
    transaction.rename_column(table.id, table.columns[index].id, new).map(|_| ())
}

fn rename_table(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    table: &TableDef,
    name: &QualifiedName,
    new: &ObjectName,
) -> Result<()> {
    let schema = match identifiers(new)?.len() {
        1 => name.schema.clone(),
        _ => qualified(new, work.statement.spellings())?.schema,
    };
    // Only the last part of the new name may differ; without a schema it stays in the table's own.
    let new = QualifiedName { schema, ..qualified(new, work.statement.spellings())? };
    if new.schema != name.schema {
        return Err(unsupported("ALTER TABLE RENAME TO", "moving a table to another schema"));
    }
    check_name(&new.spelled)?;
    let view = transaction.view()?;
    match relation::find(view.catalog(), &new) {
        Some(found) if RelationId::from(&found) != RelationId::Table(table.id) => Err(Error::new(
            ErrorKind::DuplicateTable,
            format!("there is a {} \"{}\" already", found.kind().name(), found.name()),
        )),
        _ => transaction.rename_table(table.id, &new.spelled).map(|_| ()),
    }
}

fn alter_column(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    (table_name, table): (&QualifiedName, &Arc<TableDef>),
    name: &Ident,
    operation: &AlterColumnOperation,
) -> Result<()> {
    let column = &table.columns[relation::column(table, work.statement.spell(name))?];
    let changed = match operation {
        AlterColumnOperation::SetDefault { value } => {
            generated_column::refuse_clause(table, column, "DEFAULT")?;
            let text = default_value::check(work, value, &column.name, &column.kind)?;
            transaction.set_default(table.id, column.id, Some(text))
        }
        AlterColumnOperation::DropDefault => {
            generated_column::refuse_clause(table, column, "DEFAULT")?;
            transaction.set_default(table.id, column.id, None)
        }
        AlterColumnOperation::DropNotNull => transaction.set_nullable(table.id, column.id, true),
        AlterColumnOperation::SetNotNull => {
            // The rows must be checked before the definition changes, because readers rely on it.
            check_no_nulls(work, transaction, table, &column.name)?;
            transaction.set_nullable(table.id, column.id, false)
        }
        AlterColumnOperation::SetDataType { data_type, using, had_set: _ } => {
            if using.is_some() {
                generated_column::refuse_clause(table, column, "USING")?;
            }
            refill::set_type(work, transaction, table, column, data_type, using.as_ref())
        }
        AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
            generated_column::refuse_clause(table, column, "sequence")?;
            let always = matches!(generated_as, Some(GeneratedAs::Always));
            check_no_nulls(work, transaction, table, &column.name)?;
            let options = sequence_options.as_deref().unwrap_or_default();
            return sequence::add_identity(transaction, STATEMENT, (table_name, table), column, (always, options));
        }
    };
    changed.map(|_| ())
}

fn check_no_nulls(work: &Work<'_>, transaction: &mut Transaction, table: &TableDef, column: &str) -> Result<()> {
    let view = transaction.view()?;
    let column_text = quoted(column);
    let sql = format!("SELECT count(*) FROM {} WHERE {column_text} IS NULL", table_text(view.catalog(), table));
    let nulls = work.number(Arc::clone(&view), &sql)?;
    if nulls == 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::NotNullViolation,
        format!("column \"{column}\" of table \"{}\" holds NULL in {nulls} rows", table.name),
    )
    .hint(format!("UPDATE {} SET {column_text} = ... WHERE {column_text} IS NULL first", table.name)))
}

/// Returns the text that names a table in a query.
pub(super) fn table_text(catalog: &Catalog, table: &TableDef) -> String {
    let schema = catalog.schema_by_id(table.schema).expect("a table lives in a schema");
    format!("{}.{}", quoted(&schema.name), quoted(&table.name))
}
