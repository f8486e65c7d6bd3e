//! What a zone map says about a predicate before a row is read.

use arrow::array::{Array, ArrayRef, BooleanArray, Scalar};
use arrow::compute::kernels::cmp;
use arrow::error::ArrowError;
use rowmill_base::Result;
use rowmill_plan::{CompareOp, Predicate};
use rowmill_storage::chunk::Zone;
use std::sync::Arc;

/// What is known of all rows of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The predicate is true for no row.
    Nothing,
    /// The predicate is true for every row.
    Everything,
    /// The rows have to be looked at.
    Unknown,
}

/// What the head of a chunk says.
pub(crate) struct ColumnFacts {
    pub(crate) rows: usize,
    pub(crate) null_count: usize,
    pub(crate) zone: Option<Zone>,
}

/// The verdict on `predicate`, given the facts of the columns; `None` for a column that has none.
pub(crate) fn verdict(predicate: &Predicate, facts: &dyn Fn(usize) -> Result<Option<ColumnFacts>>) -> Result<Verdict> {
    Ok(match predicate {
        Predicate::Compare { column, op, value } => match facts(*column)? {
            Some(facts) => compare(&facts, *op, value),
            None => Verdict::Unknown,
        },
        Predicate::In { column, values, negated: false } => match facts(*column)? {
            Some(facts) if facts.null_count == facts.rows => Verdict::Nothing,
            Some(ColumnFacts { zone: Some(zone), .. }) => {
                match (0..values.len()).all(|row| outside(&zone, &values.slice(row, 1))) {
                    true => Verdict::Nothing,
                    false => Verdict::Unknown,
                }
            }
            _ => Verdict::Unknown,
        },
        Predicate::IsNull { column, negated } => match facts(*column)? {
            Some(facts) if facts.null_count == 0 => everything_if(*negated),
            Some(facts) if facts.null_count == facts.rows => everything_if(!negated),
            _ => Verdict::Unknown,
        },
        Predicate::In { .. } | Predicate::Like { .. } => Verdict::Unknown,
        Predicate::And(parts) => {
            let mut all = Verdict::Everything;
            for part in parts {
                match verdict(part, facts)? {
                    Verdict::Nothing => return Ok(Verdict::Nothing),
                    Verdict::Everything => {}
                    Verdict::Unknown => all = Verdict::Unknown,
                }
            }
            all
        }
        Predicate::Or(parts) => {
            let mut any = Verdict::Nothing;
            for part in parts {
                match verdict(part, facts)? {
                    Verdict::Everything => return Ok(Verdict::Everything),
                    Verdict::Nothing => {}
                    Verdict::Unknown => any = Verdict::Unknown,
                }
            }
            any
        }
        // "True for no row" may be NULL for some, and the opposite of NULL is not true either.
        Predicate::Not(part) => match verdict(part, facts)? {
            Verdict::Everything => Verdict::Nothing,
            Verdict::Nothing | Verdict::Unknown => Verdict::Unknown,
        },
    })
}

fn everything_if(all: bool) -> Verdict {
    if all { Verdict::Everything } else { Verdict::Nothing }
}

fn compare(facts: &ColumnFacts, op: CompareOp, value: &ArrayRef) -> Verdict {
    if facts.null_count == facts.rows {
        return Verdict::Nothing;
    }
    let Some(zone) = &facts.zone else { return Verdict::Unknown };
    let min = &zone.min.value;
    let max = zone.max.as_ref().map(|max| &max.value);
    let above = |bound: Option<&ArrayRef>| bound.is_some_and(|bound| holds(cmp::gt, value, bound));
    let at_least = |bound: Option<&ArrayRef>| bound.is_some_and(|bound| holds(cmp::gt_eq, value, bound));
    let (nothing, everything) = match op {
        CompareOp::Equal => (outside(zone, value), constant(zone, value)),
        CompareOp::NotEqual => (constant(zone, value), outside(zone, value)),
        CompareOp::Less => (holds(cmp::lt_eq, value, min), above(max)),
        CompareOp::LessOrEqual => (holds(cmp::lt, value, min), at_least(max)),
        CompareOp::Greater => (at_least(max), holds(cmp::lt, value, min)),
        CompareOp::GreaterOrEqual => (above(max), holds(cmp::lt_eq, value, min)),
    };
    match (nothing, everything && facts.null_count == 0) {
        (true, _) => Verdict::Nothing,
        (_, true) => Verdict::Everything,
        _ => Verdict::Unknown,
    }
}

type Comparison = fn(&dyn arrow::array::Datum, &dyn arrow::array::Datum) -> Result<BooleanArray, ArrowError>;

/// Whether the comparison of two values is known to hold.
fn holds(compare: Comparison, left: &ArrayRef, right: &ArrayRef) -> bool {
    let result = compare(&Scalar::new(Arc::clone(left)), &Scalar::new(Arc::clone(right)));
    result.is_ok_and(|result| result.len() == 1 && result.is_valid(0) && result.value(0))
}

fn outside(zone: &Zone, value: &ArrayRef) -> bool {
    holds(cmp::lt, value, &zone.min.value) || zone.max.as_ref().is_some_and(|max| holds(cmp::gt, value, &max.value))
}

/// Whether every value of the zone equals `value`.
fn constant(zone: &Zone, value: &ArrayRef) -> bool {
    let equals = |bound: &rowmill_storage::chunk::Bound| bound.exact && holds(cmp::eq, value, &bound.value);
    equals(&zone.min) && zone.max.as_ref().is_some_and(equals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;
    use rowmill_storage::chunk::Bound;

    fn int(value: i64) -> ArrayRef {
        Arc::new(Int64Array::from(vec![value]))
    }

    fn of(op: CompareOp, value: i64, nulls: usize) -> Verdict {
        let bound = |value| Bound { value: int(value), exact: true };
        let facts = |_| {
            Ok(Some(ColumnFacts {
                rows: 10,
                null_count: nulls,
                zone: Some(Zone { min: bound(5), max: Some(bound(9)) }),
            }))
        };
        verdict(&Predicate::Compare { column: 0, op, value: int(value) }, &facts).expect("no reading")
    }

    #[test]
    fn bounds_settle_what_lies_outside() {
        use CompareOp::*;
        use Verdict::*;
        assert_eq!([4, 5, 9, 10].map(|value| of(Equal, value, 0)), [Nothing, Unknown, Unknown, Nothing]);
        assert_eq!([5, 6, 9, 10].map(|value| of(Less, value, 0)), [Nothing, Unknown, Unknown, Everything]);
        assert_eq!([4, 5, 8, 9].map(|value| of(LessOrEqual, value, 0)), [Nothing, Unknown, Unknown, Everything]);
        assert_eq!([4, 5, 8, 9].map(|value| of(Greater, value, 0)), [Everything, Unknown, Unknown, Nothing]);
        assert_eq!([5, 6, 9, 10].map(|value| of(GreaterOrEqual, value, 0)), [Everything, Unknown, Unknown, Nothing]);
        assert_eq!(of(NotEqual, 1, 0), Everything);
    }

    #[test]
    fn nulls_are_never_everything() {
        assert_eq!(of(CompareOp::Less, 10, 1), Verdict::Unknown);
        assert_eq!(of(CompareOp::Less, 10, 10), Verdict::Nothing);
    }
}
