//! `ALTER SEQUENCE`, and `ALTER TABLE ... ALTER COLUMN` with an option of the column's sequence.
//!
//! The change belongs to its transaction. The next number follows the last one that was given out, unless `RESTART`
//! names another. `OWNED BY` lets the sequence be dropped with a column; it does not fill the column, which a DEFAULT
//! with `nextval` does.

use std::sync::Arc;

use rowmill_base::{ColumnId, Error, ErrorKind, Result, SqlType, TableId};
use rowmill_query::binder::type_name::built_in_type;
use rowmill_storage::{IdentityDef, SequenceDef, TableDef};
use rowmill_txn::{Catalog, Transaction};
use sqlparser::ast::{Ident, ObjectName};

use super::clause::unsupported;
use super::column_spec::check_name;
use super::relation::{self, NamedRelation, RelationKind};
use super::sequence::{bounds, counted_range};
use crate::names::{QualifiedName, qualified};
use crate::outcome::Outcome;
use crate::parse::{AlterSequence, AlteredSequence, SequenceChange, SequenceChanges};
use crate::session::Work;

const STATEMENT: &str = "ALTER SEQUENCE";

/// The least and the greatest value of each type that a sequence can have.
const COUNTED: [(i64, i64); 4] = [
    (i8::MIN as i64, i8::MAX as i64),
    (i16::MIN as i64, i16::MAX as i64),
    (i32::MIN as i64, i32::MAX as i64),
    (i64::MIN, i64::MAX),
];

/// Runs the statement.
pub(crate) fn run(work: &mut Work<'_>, alter: &AlterSequence) -> Result<Outcome> {
    let AlterSequence { of, if_exists, change } = alter;
    let tag = match of {
        AlteredSequence::Named(_) => STATEMENT,
        AlteredSequence::OfColumn { .. } => super::alter_table::STATEMENT,
    };
    work.write(|work, transaction| {
        let view = transaction.view()?;
        let sequence = match sequence_of(work, view.catalog(), of) {
            Ok(sequence) => sequence,
            Err(error) if *if_exists && error.kind() == ErrorKind::UndefinedTable => {
                work.notice(error.message());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        match change {
            SequenceChange::Rename(name) => rename(work, transaction, view.catalog(), &sequence, name),
            SequenceChange::Options(changes) => change_options(work, transaction, view.catalog(), &sequence, changes),
        }
    })?;
    Ok(Outcome::Done { tag })
}

/// The sequence that the statement is about.
fn sequence_of(work: &Work<'_>, catalog: &Catalog, of: &AlteredSequence) -> Result<Arc<TableDef>> {
    match of {
        AlteredSequence::Named(name) => {
            let name = qualified(name, work.statement.spellings())?;
            relation::schema(catalog, &name.schema)?;
            match relation::find(catalog, &name) {
                Some(NamedRelation::Sequence(sequence)) => Ok(sequence),
                Some(found) => Err(relation::wrong_kind(found.name(), found.kind(), RelationKind::Sequence)),
                None => Err(relation::unknown(catalog, &name, &[RelationKind::Sequence])),
            }
        }
        AlteredSequence::OfColumn { table, column } => {
            let table = relation::table(catalog, &qualified(table, work.statement.spellings())?)?;
            let column = &table.columns[relation::column(&table, work.statement.spell(column))?];
            let identity = table.identity(column.id);
            let sequence = identity.and_then(|identity| catalog.table_by_id(identity.sequence));
            sequence.cloned().ok_or_else(|| {
                let what = format!("column \"{}\" of table \"{}\" is no identity column", column.name, table.name);
                Error::new(ErrorKind::InvalidDefinition, what).hint("SERIAL and GENERATED ... AS IDENTITY make one")
            })
        }
    }
}

fn rename(
    work: &Work<'_>,
    transaction: &mut Transaction,
    catalog: &Catalog,
    sequence: &TableDef,
    name: &Ident,
) -> Result<()> {
    let spelled = work.statement.spell(name);
    check_name(spelled)?;
    let schema = catalog.schema_by_id(sequence.schema).expect("a sequence lives in a schema");
    let name = QualifiedName { schema: schema.name.clone(), name: name.value.clone(), spelled: spelled.to_owned() };
    if let Some(found) = relation::find(catalog, &name).filter(|found| found.name() != sequence.name) {
        let what = format!("there is a {} \"{}\" already", found.kind().name(), found.name());
        return Err(Error::new(ErrorKind::DuplicateTable, what));
    }
    transaction.rename_table(sequence.id, &name.spelled).map(|_| ())
}

fn change_options(
    work: &Work<'_>,
    transaction: &mut Transaction,
    catalog: &Catalog,
    sequence: &TableDef,
    changes: &SequenceChanges,
) -> Result<()> {
    let SequenceChanges { kind, increment, min, max, start, restart, cache: _, cycle, owner } = changes;
    if let Some(owner) = owner {
        set_owner(work, transaction, catalog, sequence, owner.as_ref())?;
    }
    let counts = kind.is_some()
        || increment.is_some()
        || min.is_some()
        || max.is_some()
        || start.is_some()
        || restart.is_some()
        || cycle.is_some();
    if !counts {
        return Ok(());
    }
    let old = sequence.keyed.as_ref().and_then(|keyed| keyed.sequence).expect("the relation is a sequence");
    let (kind, is_new_kind) = match kind {
        Some(kind) => (built_in_type(kind)?, true),
        None => (kind_of(catalog, sequence.id), false),
    };
    let increment = increment.unwrap_or(old.increment);
    // A bound of the old type becomes that of the new one.
    let of_type = |bound: i64| is_new_kind && COUNTED.iter().any(|(least, most)| [*least, *most].contains(&bound));
    let kept = |bound: i64, of_new: fn((i64, i64)) -> i64| match of_type(bound) {
        true => counted_range(&kind).map(of_new),
        false => Some(bound),
    };
    let min = min.unwrap_or_else(|| kept(old.min, |(least, _)| least));
    let max = max.unwrap_or_else(|| kept(old.max, |(_, most)| most));
    let (min, max) = bounds(STATEMENT, &kind, increment, [min, max])?;
    let def = SequenceDef { start: start.unwrap_or(old.start), increment, min, max, cycle: cycle.unwrap_or(old.cycle) };
    if !(def.min..=def.max).contains(&def.start) {
        let what = format!(
            "{STATEMENT}: START WITH {} is not between MINVALUE {} and MAXVALUE {}",
            def.start, def.min, def.max
        );
        return Err(Error::new(ErrorKind::InvalidParameter, what));
    }
    let restart = restart.map(|restart| restart.unwrap_or(def.start));
    transaction.alter_sequence(sequence.id, def, restart)
}

/// The type that bounds a sequence: that of the column which it fills, or BIGINT.
fn kind_of(catalog: &Catalog, sequence: TableId) -> SqlType {
    let columns = catalog.all_tables().flat_map(|table| {
        let identities = table.rules.identities.iter().filter(|identity| identity.sequence == sequence);
        identities.filter_map(|identity| Some(&table.columns[table.column_by_id(identity.column)?].kind))
    });
    columns.into_iter().find(|kind| counted_range(kind).is_some()).cloned().unwrap_or(SqlType::Int64)
}

/// `OWNED BY table.column` and `OWNED BY NONE`.
pub(super) fn set_owner(
    work: &Work<'_>,
    transaction: &mut Transaction,
    catalog: &Catalog,
    sequence: &TableDef,
    owner: Option<&ObjectName>,
) -> Result<()> {
    let old = catalog.all_tables().find_map(|table| {
        let identity = table.rules.identities.iter().find(|identity| identity.sequence == sequence.id)?;
        Some((table, *identity))
    });
    let new = owner.map(|owner| owner_of(work, catalog, sequence, owner)).transpose()?;
    match (&old, &new) {
        (Some((table, identity)), new) if identity.fills => {
            // A sequence that fills a column belongs to it, and a dump says so once more.
            if *new == Some((table.id, identity.column)) {
                return Ok(());
            }
            let what = format!("sequence \"{}\" fills a column of table \"{}\"", sequence.name, table.name);
            return Err(unsupported(STATEMENT, "OWNED BY of the sequence of an identity column").context(what));
        }
        (Some((table, _)), _) => transaction.disown_sequence(table.id, sequence.id)?,
        (None, _) => {}
    }
    match new {
        None => Ok(()),
        Some((table, column)) => {
            let identity = IdentityDef { column, sequence: sequence.id, always: false, fills: false };
            transaction.add_identity(table, identity)
        }
    }
}

/// The table and the column of `OWNED BY`.
fn owner_of(
    work: &Work<'_>,
    catalog: &Catalog,
    sequence: &TableDef,
    owner: &ObjectName,
) -> Result<(TableId, ColumnId)> {
    let mut table = owner.clone();
    let column = table.0.pop().and_then(|part| part.as_ident().cloned()).filter(|_| !table.0.is_empty());
    let Some(column) = column else {
        let what = format!("OWNED BY {owner} does not name a column");
        return Err(Error::new(ErrorKind::Syntax, what).hint("write OWNED BY table.column, or OWNED BY NONE"));
    };
    let table = relation::table(catalog, &qualified(&table, work.statement.spellings())?)?;
    if table.schema != sequence.schema {
        let what = format!("sequence \"{}\" and table \"{}\" are in different schemas", sequence.name, table.name);
        return Err(Error::new(ErrorKind::InvalidDefinition, what));
    }
    let column = &table.columns[relation::column(&table, work.statement.spell(&column))?];
    Ok((table.id, column.id))
}
