//! Which key of a keyed table a scan reads by, and how much of it.
//!
//! ```text
//! key (a, b, c)    a = 1 AND b >= 5 AND b < 9 AND c = 3    ->    equal (1), next part from 5 to 9; c is checked by row
//! ```
//!
//! A key serves the better the more of its first parts are equal to something. The primary key has the rows themselves; by an
//! index each row is looked up, which is worth it if some part is given, and for a range of the primary key is not.

use std::ops::Bound;

use arrow::array::ArrayRef;
use rowmill_base::{IndexId, Result, SqlType};
use rowmill_plan::{CompareOp, Predicate};
use rowmill_storage::keyed::{ColumnValues, ValueRef};
use rowmill_storage::{KeyBounds, KeyColumn, TableDef};

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
    /// The best key of `table` for rows for which all of `predicates` are true.
    pub(super) fn of(table: &TableDef, predicates: &[Predicate]) -> Result<ChosenKey> {
        let Some(keyed) = &table.keyed else { return Ok(ChosenKey::default()) };
        let mut comparisons = Vec::new();
        predicates.iter().for_each(|predicate| gather(predicate, &mut comparisons));
        let mut best = ChosenKey::with(table, None, &keyed.key, &comparisons)?;
        for index in &keyed.indexes {
            let other = ChosenKey::with(table, Some(index.id), &index.parts, &comparisons)?;
            if other.equal.len() > best.equal.len() {
                best = other;
            }
        }
        Ok(best)
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
