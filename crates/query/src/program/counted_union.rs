//! The primary keys of the rows that meet one of several conditions, when each condition has its own key: for rows that
//! are counted, or changed.
//!
//! ```text
//! SELECT count(*) FROM orders WHERE user_id = $1 OR product_id = $2     with an index on each column
//! ```
//!
//! An index entry holds the primary key of its row. So the entries of all conditions, with each primary key once, give
//! the number of rows, and no row is read. If the entries of one condition also have the columns of the conditions
//! before it, they are tested on the entries, and no primary key must be remembered: `name LIKE 'A%' OR name LIKE
//! 'B%'`.

use rowmill_plan::logical::LogicalScan;
use rowmill_plan::program::{
    Access, GroupOutput, LookupKind, LookupSource, NestedLookup, ReadOutput, ReadPlan, RowOutput, Scalar,
};
use rowmill_plan::{ExprOp, ScalarExpr};
use rowmill_storage::TableDef;

use super::ProgramBuilder;
use super::late_rows::key_columns;
use super::lookups::{ListedReads, WAYS_MAX, Wanted};
use super::scalar::Scope;
use crate::optimizer::facts::{is_movable, is_true_of, split_and};

impl ProgramBuilder<'_> {
    /// Plans reads of the primary keys, each given once, of the rows that meet `conditions`, among them an OR. Its
    /// lookups are numbered from `row`. Returns `None` if a part of the OR has no key. With `entries_only`, the entries
    /// of that key must answer all conditions, so that no row is read.
    pub(super) fn keys_of_any(
        &self,
        scan: &LogicalScan,
        conditions: &[ScalarExpr],
        known: &Scope,
        row: usize,
        entries_only: bool,
    ) -> Option<ListedReads> {
        let def = self.tables[scan.table].table();
        let key = key_columns(def, None)?;
        let kind = |column: usize| def.columns[column].kind.clone();
        let (at, parts) = conditions.iter().enumerate().find_map(|(at, condition)| match &condition.op {
            ExprOp::Or(parts) if parts.len() <= WAYS_MAX && is_movable(condition) => Some((at, parts)),
            _ => None,
        })?;
        let others = conditions.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| other);
        // The entries of each part without those of the parts before, or with them.
        let entries = |leaves_out_before: bool| {
            let (mut reads, mut rows, mut cost) = (Vec::with_capacity(parts.len()), 0.0, 0.0);
            for (number, part) in parts.iter().enumerate() {
                let before = parts[..if leaves_out_before { number } else { 0 }].iter();
                let own: Vec<ScalarExpr> = split_and(vec![part.clone()])
                    .into_iter()
                    .chain(others.clone().cloned())
                    .chain(before.map(|before| is_true_of(before.clone()).negated()))
                    .collect();
                let wanted = Wanted { is_count: true, ..Wanted::default() };
                let choice = self.choice(scan, &own, known, Some(wanted))?.key;
                rows += choice.rows;
                cost += choice.cost;
                let lookup = self.lookup_by(choice, scan, &own, row, &mut known.clone())?;
                if entries_only && !is_answered_by_entries(&lookup, def, row) {
                    return None;
                }
                let columns = key.iter().map(|column| Scalar::column(kind(*column), row, *column)).collect();
                reads.push(read(lookup, ReadOutput::Rows(RowOutput::all(columns))));
            }
            Some(ListedReads { reads, rows, cost })
        };
        if let Some(listed) = entries(true) {
            return Some(listed);
        }
        let mut listed = entries(false)?;
        let columns = |row| key.iter().enumerate().map(|(at, column)| Scalar::column(kind(*column), row, at)).collect();
        let groups = GroupOutput {
            keys: columns(row),
            aggregates: Vec::new(),
            ends_at_value: false,
            filter: None,
            rows: RowOutput::all(columns(0)),
        };
        let source = LookupSource::Reads(listed.reads);
        let all = NestedLookup { kind: LookupKind::Inner, source, condition: None, compared: None };
        listed.reads = vec![read(all, ReadOutput::Groups(groups))];
        Some(listed)
    }
}

/// Whether what a lookup of a table reads by its key has all columns of its condition: the entries of an index, or the
/// rows.
fn is_answered_by_entries(lookup: &NestedLookup, def: &TableDef, row: usize) -> bool {
    let LookupSource::Table(Access { index, .. }) = &lookup.source else { return false };
    if index.is_none() {
        return true;
    }
    let Some(columns) = key_columns(def, *index) else { return false };
    let mut has_all = true;
    lookup.condition.iter().for_each(|condition| {
        condition.each_column(&mut |column| has_all &= column.row != row || columns.contains(&column.column));
    });
    has_all
}

fn read(lookup: NestedLookup, output: ReadOutput) -> ReadPlan {
    ReadPlan { lookups: vec![lookup], filter: None, output, for_update: false, rows_max: None, few: None }
}
