//! The first rows of an order that an index entry can tell: entries are sorted first, and only the rows of the page are
//! looked up.
//!
//! ```text
//! SELECT * FROM orders WHERE status IN ('new', 'paid') ORDER BY created DESC LIMIT 20     by (status, created)
//!
//! entries of both values -> sort by created, first 20 primary keys -> their rows
//! ```
//!
//! An entry holds the columns of its index and the primary key. A read is split if the conditions that no key answers
//! and the order need only these columns. The rows are then looked up in the order of the keys.

use rowmill_base::IndexId;
use rowmill_plan::ColumnId;
use rowmill_plan::program::{
    Access, LookupKind, LookupSource, NestedLookup, ReadOutput, ReadPlan, RowOutput, Scalar, ScalarOp, ScalarValue,
};
use rowmill_storage::TableDef;

use super::ProgramBuilder;
use super::scalar::Scope;
use super::stage::Stage;

impl ProgramBuilder<'_> {
    /// Splits the read of a stage, whose lookups are numbered from `first_row`, into a read of primary keys and lookups
    /// of their rows. Returns `None` if the entries cannot tell which rows are wanted, or if they hold all columns.
    pub(super) fn with_late_rows(
        &self,
        stage: &Stage<'_>,
        outer: &Scope,
        first_row: usize,
        ids: &[ColumnId],
        read: &ReadPlan,
    ) -> Option<ReadPlan> {
        let scan = stage.only_scan()?;
        let def = self.tables[scan.table].table();
        let ([lookup], ReadOutput::Rows(rows), None) = (&read.lookups[..], &read.output, &read.few) else {
            return None;
        };
        if rows.order.is_empty() || rows.limit.is_none() || lookup.kind != LookupKind::Inner {
            return None;
        }
        let key = key_columns(def, None)?;
        let kinds = key.iter().map(|column| def.columns[*column].kind.clone());
        let order = rows.order.iter().map(|by| &by.value);
        let needed = columns_of(lookup.condition.iter().chain(&read.filter).chain(order), first_row);
        let (source, first_of_key) = match &lookup.source {
            LookupSource::Table(access) => {
                let given = columns_of(&rows.columns, first_row);
                holds_all_but(def, access, &needed, &given)?;
                (lookup.source.clone(), None)
            }
            LookupSource::Reads(reads) => {
                let keys = kinds.clone().zip(&key).map(|(kind, column)| Scalar::column(kind, first_row, *column));
                let keys: Vec<Scalar> = keys.collect();
                let reads = reads.iter().map(|read| with_keys(read, def, &needed, &keys, first_row));
                let reads: Vec<ReadPlan> = reads.collect::<Option<_>>()?;
                (LookupSource::Reads(reads), Some(scan.columns.len()))
            }
            _ => return None,
        };
        // The primary key comes after the other columns of reads, and is in its place in a table.
        let place = |at: usize| first_of_key.map_or(key[at], |first| first + at);
        let columns = kinds.clone().enumerate().map(|(at, kind)| Scalar::column(kind, first_row, place(at)));
        let keys = ReadPlan {
            lookups: vec![NestedLookup { source, ..lookup.clone() }],
            output: ReadOutput::Rows(RowOutput { columns: columns.collect(), ..rows.clone() }),
            ..read.clone()
        };
        let equal = kinds.enumerate().map(|(at, kind)| Scalar::column(kind, first_row, at)).collect();
        let mut scope = outer.clone();
        self.add_columns(scan, first_row + 1, &mut scope);
        let (of_rows, _) = self.rows(stage, &scope, ids, true)?;
        let of_keys = LookupSource::Reads(vec![keys]);
        let lookups = vec![
            NestedLookup { kind: LookupKind::Inner, source: of_keys, condition: None, compared: None },
            NestedLookup::inner(Access { equal, ..Access::all(def.id) }, None),
        ];
        let output = ReadOutput::Rows(RowOutput::all(of_rows.columns));
        Some(ReadPlan { lookups, filter: None, output, for_update: false, rows_max: None, few: None })
    }
}

/// The read of one table by an index, with the primary key as further columns. It gives NULL in place of each column
/// that is not at one of the places `needed`. Returns `None` if the entries of the index are not sufficient.
fn with_keys(read: &ReadPlan, def: &TableDef, needed: &[usize], keys: &[Scalar], row: usize) -> Option<ReadPlan> {
    let ([lookup], ReadOutput::Rows(rows), None) = (&read.lookups[..], &read.output, &read.few) else { return None };
    let LookupSource::Table(access) = &lookup.source else { return None };
    let wanted = needed.iter().map(|place| rows.columns.get(*place)).collect::<Option<Vec<_>>>()?;
    let order = rows.order.iter().map(|by| &by.value);
    let tested = lookup.condition.iter().chain(&read.filter).chain(order).chain(wanted);
    holds_all_but(def, access, &columns_of(tested, row), &columns_of(&rows.columns, row))?;
    let columns = rows.columns.iter().enumerate().map(|(place, column)| match needed.contains(&place) {
        true => column.clone(),
        false => Scalar::new(column.kind.clone(), ScalarOp::Literal(ScalarValue::Null)),
    });
    let columns = columns.chain(keys.iter().cloned()).collect();
    Some(ReadPlan { output: ReadOutput::Rows(RowOutput { columns, ..rows.clone() }), ..read.clone() })
}

/// Checks that the entries of an index hold the columns `needed`, and not all of the columns `given`.
fn holds_all_but(def: &TableDef, access: &Access, needed: &[usize], given: &[usize]) -> Option<()> {
    let Access { index: index @ Some(_), distinct: None, .. } = access else { return None };
    let held = key_columns(def, *index)?;
    let holds = |columns: &[usize]| columns.iter().all(|column| held.contains(column));
    (holds(needed) && !holds(given)).then_some(())
}

/// The columns of row `row` to which scalars refer.
fn columns_of<'s>(scalars: impl IntoIterator<Item = &'s Scalar>, row: usize) -> Vec<usize> {
    let mut columns = Vec::new();
    for scalar in scalars {
        scalar.each_column(&mut |column| {
            if column.row == row {
                columns.push(column.column);
            }
        });
    }
    columns
}

/// The columns of a key by their positions in the table. The key of an index includes the primary key.
pub(super) fn key_columns(def: &TableDef, index: Option<IndexId>) -> Option<Vec<usize>> {
    let keyed = def.keyed.as_ref()?;
    let parts = match index {
        None => &[][..],
        Some(id) => &keyed.indexes.iter().find(|index| index.id == id)?.parts,
    };
    parts.iter().chain(&keyed.key).map(|part| def.column_by_id(part.column)).collect()
}
