//! `pg_sequence`, `pg_sequences` and `pg_depend`: sequences, and the columns that own them.

use std::sync::Arc;

use rowmill_storage::{SequenceDef, TableDef};
use rowmill_txn::roles::ObjectId;

use super::oids::{PG_CLASS_OID, owner_name, table_oid};
use super::relations::each_table;
use super::rows::{PgCell, PgRows};
use super::type_oids::{PgScalar, PgType};
use crate::catalog::StatementContext;

fn sequence_of(table: &TableDef) -> Option<&SequenceDef> {
    table.keyed.as_ref()?.sequence.as_ref()
}

pub(super) fn pg_sequence(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_sequence");
    each_table(context, |_, table| {
        let Some(sequence) = sequence_of(table) else { return };
        rows.push([
            ("seqrelid", table_oid(table.id).into()),
            ("seqtypid", PgType::scalar(PgScalar::Int8).oid().into()),
            ("seqstart", sequence.start.into()),
            ("seqincrement", sequence.increment.into()),
            ("seqmax", sequence.max.into()),
            ("seqmin", sequence.min.into()),
            ("seqcache", 1_i64.into()),
            ("seqcycle", sequence.cycle.into()),
        ]);
    });
    rows
}

pub(super) fn pg_sequences(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_sequences");
    each_table(context, |schema, table| {
        let Some(sequence) = sequence_of(table) else { return };
        rows.push([
            ("schemaname", schema.name.as_str().into()),
            ("sequencename", table.name.as_str().into()),
            ("sequenceowner", owner_name(context.snapshot.catalog(), ObjectId::Table(table.id)).into()),
            ("data_type", "bigint".into()),
            ("start_value", sequence.start.into()),
            ("min_value", sequence.min.into()),
            ("max_value", sequence.max.into()),
            ("increment_by", sequence.increment.into()),
            ("cycle", sequence.cycle.into()),
            ("cache_size", 1_i64.into()),
            ("last_value", PgCell::Null),
        ]);
    });
    rows
}

/// Lists only which column owns which sequence. Tools find the sequences of identity columns by it.
pub(super) fn pg_depend(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_depend");
    each_table(context, |_, table| {
        for identity in &table.rules.identities {
            let Some(column) = table.column_by_id(identity.column) else { continue };
            rows.push([
                ("classid", PG_CLASS_OID.into()),
                ("objid", table_oid(identity.sequence).into()),
                ("objsubid", 0_i64.into()),
                ("refclassid", PG_CLASS_OID.into()),
                ("refobjid", table_oid(table.id).into()),
                ("refobjsubid", (column as i64 + 1).into()),
                ("deptype", if identity.fills { "i" } else { "a" }.into()),
            ]);
        }
    });
    rows
}
