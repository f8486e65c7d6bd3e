//! Which key of a keyed table a scan reads by, and how much of it.
//!
//! ```text
//! key (a, b, c)    a = 1 AND b >= 5 AND b < 9 AND c = 3    ->    equal (1), next part from 5 to 9; c is checked by row
//! ```
//!
//! The primary key has the rows themselves, in their order; by an index each row is looked up. Of a table that ANALYZE has looked
//! through it is known about how large a share of the rows each key leaves over, and the key is taken by which they cost the least:
//! a value that most rows have is no reason to read by an index, and a narrow range is. Of any other table a key serves the
//! better the more of its first parts are equal to something: an index is worth it if some part is given, and for a range it is not.

use std::ops::Bound;

use arrow::array::ArrayRef;
use rowmill_base::{IndexId, Result, SqlType};
use rowmill_plan::{CompareOp, Predicate};
use rowmill_storage::keyed::{ColumnValues, ValueRef};
use rowmill_storage::{EQUAL_SHARE, KeyBounds, KeyColumn, LOOKED_UP_ROWS, RANGE_SHARE, TableDef, TableStatistics};

/// A key with the values that its parts are compared to.
#[derive(Debug, Default)]
pub(super) struct ChosenKey {
    index: Option<IndexId>,
    equal: Vec<ColumnValues>,
    lower: Option<End>,
    upper: Option<End>,
}

/// A bound of the part behind the equal ones.
#[derive(Debug)]
struct End {
    value: ColumnValues,
    inclusive: bool,
}

impl End {
    fn bound(end: Option<&End>) -> Bound<ValueRef<'_>> {
        match end {
            None => Bound::Unbounded,
            Some(End { value, inclusive: true }) => Bound::Included(value.get(0)),
            Some(End { value, inclusive: false }) => Bound::Excluded(value.get(0)),
        }
    }
}

/// A comparison of a column with one value that has to hold.
struct Comparison<'a> {
    column: usize,
    op: CompareOp,
    value: &'a ArrayRef,
}

impl ChosenKey {
    /// The best key of `table` for rows for which all of `predicates` are true, by what is known of its values.
    pub(super) fn of(
        table: &TableDef,
        statistics: Option<&TableStatistics>,
        predicates: &[Predicate],
    ) -> Result<ChosenKey> {
        let Some(keyed) = &table.keyed else { return Ok(ChosenKey::default()) };
        let mut comparisons = Vec::new();
        predicates.iter().for_each(|predicate| gather(predicate, &mut comparisons));
        let cost = |chosen: &ChosenKey, parts: &[KeyColumn], is_unique| {
            statistics.map(|statistics| chosen.cost(table, parts, is_unique, statistics))
        };
        let mut best = ChosenKey::with(table, None, &keyed.key, &comparisons)?;
        let mut best_cost = cost(&best, &keyed.key, true);
        for index in &keyed.indexes {
            let other = ChosenKey::with(table, Some(index.id), &index.parts, &comparisons)?;
            let other_cost = cost(&other, &index.parts, index.unique);
            let is_better = match (other_cost, best_cost) {
                (Some(other), Some(best)) => other < best,
                _ => other.equal.len() > best.equal.len(),
            };
            if is_better {
                (best, best_cost) = (other, other_cost);
            }
        }
        Ok(best)
    }

    /// What it costs to read the rows that it leaves over: 1 for all by the primary key, whose parts or those of the index are
    /// `parts`.
    fn cost(&self, table: &TableDef, parts: &[KeyColumn], is_unique: bool, statistics: &TableStatistics) -> f64 {
        let one_row = 1.0 / statistics.rows.max(1) as f64;
        let column = |part: usize| table.column_by_id(parts[part].column).map(|at| &table.columns[at]);
        let of_equal = self.equal.iter().enumerate().map(|(part, value)| {
            column(part).and_then(|column| statistics.share_equal(column, value.get(0))).unwrap_or(EQUAL_SHARE)
        });
        let mut share: f64 = of_equal.product();
        if self.lower.is_some() || self.upper.is_some() {
            let (lower, upper) = (End::bound(self.lower.as_ref()), End::bound(self.upper.as_ref()));
            let within = |column| statistics.share_within(column, lower, upper);
            share *= column(self.equal.len()).and_then(within).unwrap_or(RANGE_SHARE);
        }
        if is_unique && self.equal.len() == parts.len() {
            share = one_row;
        }
        share.max(one_row) * if self.index.is_some() { LOOKED_UP_ROWS } else { 1.0 }
    }

    fn with(
        table: &TableDef,
        index: Option<IndexId>,
        parts: &[KeyColumn],
        comparisons: &[Comparison<'_>],
    ) -> Result<ChosenKey> {
        let mut chosen = ChosenKey { index, ..ChosenKey::default() };
        for part in parts {
            let Some(column) = table.column_by_id(part.column) else { break };
            let kind = &table.columns[column].kind;
            let of_column = || comparisons.iter().filter(|comparison| comparison.column == column);
            if let Some(equal) = of_column().find(|comparison| comparison.op == CompareOp::Equal) {
                chosen.equal.push(one_value(equal.value, kind)?);
                continue;
            }
            for Comparison { op, value, .. } in of_column() {
                let end = |inclusive| Ok(Some(End { value: one_value(value, kind)?, inclusive }));
                match op {
                    CompareOp::Greater | CompareOp::GreaterOrEqual if chosen.lower.is_none() => {
                        chosen.lower = end(*op == CompareOp::GreaterOrEqual)?;
                    }
                    CompareOp::Less | CompareOp::LessOrEqual if chosen.upper.is_none() => {
                        chosen.upper = end(*op == CompareOp::LessOrEqual)?;
                    }
                    // Every condition is checked by row too.
                    _ => {}
                }
            }
            break;
        }
        Ok(chosen)
    }

    /// The rows to be read.
    pub(super) fn bounds(&self) -> KeyBounds<'_> {
        KeyBounds {
            index: self.index,
            equal: self.equal.iter().map(|value| value.get(0)).collect(),
            lower: End::bound(self.lower.as_ref()),
            upper: End::bound(self.upper.as_ref()),
        }
    }
}

fn one_value(value: &ArrayRef, kind: &SqlType) -> Result<ColumnValues> {
    ColumnValues::new(value, kind)
}

/// The comparisons that have to hold for `predicate` to be true.
fn gather<'a>(predicate: &'a Predicate, comparisons: &mut Vec<Comparison<'a>>) {
    match predicate {
        Predicate::Compare { column, op, value } => comparisons.push(Comparison { column: *column, op: *op, value }),
        Predicate::In { column, values, negated: false } if values.len() == 1 => {
            comparisons.push(Comparison { column: *column, op: CompareOp::Equal, value: values });
        }
        Predicate::And(parts) => parts.iter().for_each(|part| gather(part, comparisons)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringViewArray};
    use rowmill_base::{ColumnId, SchemaId, TableId};
    use rowmill_storage::{ColumnDef, ColumnSpec, IndexDef, KeyedDef, StatisticsCollector};

    use super::*;

    /// The numbers of the indexes on the columns behind the primary key.
    const BY_STATE: IndexId = IndexId(10);
    const BY_STATE_AND_TIME: IndexId = IndexId(11);
    const BY_TIME: IndexId = IndexId(12);
    const BY_CODE: IndexId = IndexId(13);
    const ID: usize = 0;
    const STATE: usize = 1;
    const TIME: usize = 2;
    const CODE: usize = 3;
    const ROWS: i64 = 20_000;

    /// Orders under a number, with a state, the time at which they were made and a code of their own.
    fn orders(indexes: &[IndexId]) -> TableDef {
        let names =
            [("id", SqlType::Int64), ("state", SqlType::TEXT), ("time", SqlType::Int64), ("code", SqlType::Int64)];
        let columns =
            (0..).zip(names).map(|(id, (name, kind))| ColumnDef::from_spec(ColumnId(id), ColumnSpec::new(name, kind)));
        let columns: Vec<ColumnDef> = columns.collect();
        let part = |column: usize| KeyColumn { column: ColumnId(column as u32), descending: false };
        let index = |id: &IndexId| {
            let parts = match *id {
                BY_STATE => vec![part(STATE)],
                BY_STATE_AND_TIME => vec![part(STATE), part(TIME)],
                BY_TIME => vec![part(TIME)],
                _ => vec![part(CODE)],
            };
            IndexDef { id: *id, name: id.to_string(), parts, unique: *id == BY_CODE, shortens: true }
        };
        let keyed = KeyedDef {
            index: IndexId(1),
            key: vec![part(ID)],
            stored: columns[1..].iter().map(|column| (column.id, column.kind.clone())).collect(),
            indexes: indexes.iter().map(index).collect(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            referrers: Vec::new(),
            identities: Vec::new(),
            sequence: None,
        };
        TableDef {
            id: TableId(1),
            schema: SchemaId(0),
            name: "orders".into(),
            version: 1,
            next_column: ColumnId(columns.len() as u32),
            columns,
            keyed: Some(Arc::new(keyed)),
        }
    }

    /// Nine orders of ten are done, and one of a thousand is lost.
    fn statistics(table: &TableDef) -> TableStatistics {
        let mut collector = StatisticsCollector::new(&table.columns);
        for row in 0..ROWS {
            let state = match row % 1_000 {
                0 => "lost",
                1..100 => "open",
                _ => "done",
            };
            collector.push([ValueRef::Int(row), ValueRef::Text(state), ValueRef::Int(row * 10), ValueRef::Int(-row)]);
        }
        collector.finish(IndexId(1))
    }

    fn compare(column: usize, op: CompareOp, value: i64) -> Predicate {
        Predicate::Compare { column, op, value: Arc::new(Int64Array::from(vec![value])) }
    }

    fn is_state(state: &str) -> Predicate {
        let value: ArrayRef = Arc::new(StringViewArray::from(vec![state]));
        Predicate::Compare { column: STATE, op: CompareOp::Equal, value }
    }

    fn chosen(table: &TableDef, statistics: Option<&TableStatistics>, predicates: &[Predicate]) -> Option<IndexId> {
        ChosenKey::of(table, statistics, predicates).expect("values of the columns' types").bounds().index
    }

    #[test]
    fn a_frequent_value_is_found_by_a_scan_and_a_rare_one_by_the_index() {
        let table = orders(&[BY_STATE]);
        let known = statistics(&table);
        assert_eq!(chosen(&table, Some(&known), &[is_state("done")]), None);
        assert_eq!(chosen(&table, Some(&known), &[is_state("lost")]), Some(BY_STATE));
        assert_eq!(chosen(&table, Some(&known), &[is_state("never seen")]), Some(BY_STATE));
        // Of which nothing is known.
        assert_eq!(chosen(&table, None, &[is_state("done")]), Some(BY_STATE));
        // Half of the table by its own key is less than an eleventh of it by an index, row by row.
        let half = compare(ID, CompareOp::Less, ROWS / 2);
        assert_eq!(chosen(&table, Some(&known), &[is_state("open"), half]), None);
        assert_eq!(chosen(&table, Some(&known), &[is_state("open")]), Some(BY_STATE));
    }

    #[test]
    fn narrow_ranges_are_read_by_an_index_and_wide_ones_by_the_primary_key() {
        let table = orders(&[BY_TIME]);
        let known = statistics(&table);
        let within = |from: i64, to: i64| {
            [compare(TIME, CompareOp::GreaterOrEqual, from * 10), compare(TIME, CompareOp::Less, to * 10)]
        };
        assert_eq!(chosen(&table, Some(&known), &within(100, 200)), Some(BY_TIME));
        assert_eq!(chosen(&table, Some(&known), &within(100, ROWS / 2)), None);
        assert_eq!(chosen(&table, None, &within(100, 200)), None);
    }

    #[test]
    fn the_index_that_leaves_the_fewest_rows_is_chosen() {
        let table = orders(&[BY_STATE, BY_STATE_AND_TIME, BY_TIME, BY_CODE]);
        let known = statistics(&table);
        let at = |time: i64| compare(TIME, CompareOp::Equal, time);
        let after = |time: i64| compare(TIME, CompareOp::Greater, time);
        assert_eq!(chosen(&table, Some(&known), &[is_state("lost"), after(ROWS * 5)]), Some(BY_STATE_AND_TIME));
        assert_eq!(chosen(&table, Some(&known), &[is_state("done"), after(ROWS * 5)]), None);
        assert_eq!(
            chosen(&table, Some(&known), &[is_state("done"), compare(CODE, CompareOp::Equal, -5)]),
            Some(BY_CODE)
        );
        // Each has one row at most, and the primary key needs no other look-up.
        let by_id = compare(ID, CompareOp::Equal, 5);
        assert_eq!(chosen(&table, Some(&known), &[compare(CODE, CompareOp::Equal, -5), by_id, at(50)]), None);
    }

    #[test]
    fn a_column_that_was_added_later_is_guessed() {
        let table = orders(&[BY_STATE, BY_TIME]);
        let mut known = statistics(&table);
        known.columns.retain(|column| column.column != ColumnId(TIME as u32));
        assert_eq!(chosen(&table, Some(&known), &[compare(TIME, CompareOp::Equal, 5)]), Some(BY_TIME));
        assert_eq!(chosen(&table, Some(&known), &[compare(TIME, CompareOp::Greater, 5)]), None);
        assert_eq!(
            chosen(&table, Some(&known), &[compare(TIME, CompareOp::Equal, 5), is_state("lost")]),
            Some(BY_STATE)
        );
    }
}
