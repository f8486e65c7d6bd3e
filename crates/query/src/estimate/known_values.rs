//! The share of rows of a keyed table that meet a condition, by the statistics of ANALYZE.

use std::ops::Bound;

use arrow::array::{Array, ArrayRef};
use rowmill_plan::{CompareOp, Predicate};
use rowmill_storage::keyed::{ColumnValues, ValueRef};
use rowmill_storage::{ColumnDef, ColumnStatistics, TableSource, TableStatistics};

/// Values of a list that we look up. We assume that further values are equally frequent.
const LISTED_MAX: usize = 1_000;

/// A column that has statistics.
struct Known<'t> {
    column: &'t ColumnDef,
    table: &'t TableStatistics,
    values: &'t ColumnStatistics,
}

impl<'t> Known<'t> {
    fn new(source: &'t dyn TableSource, column: usize) -> Option<Known<'t>> {
        let (column, table) = (&source.table().columns[column], source.statistics()?);
        Some(Known { column, table, values: table.column(column.id)? })
    }

    /// Reads `values`, unless they have another type than the column.
    fn read(&self, values: &ArrayRef) -> Option<ColumnValues> {
        ColumnValues::new(values, &self.column.kind).ok()
    }

    fn equal(&self, value: ValueRef<'_>) -> Option<f64> {
        self.table.share_equal(self.column, value)
    }

    fn within(&self, lower: Bound<ValueRef<'_>>, upper: Bound<ValueRef<'_>>) -> Option<f64> {
        self.table.share_within(self.column, lower, upper)
    }

    /// The share of rows that have a value, without `share`.
    fn others(&self, share: f64) -> f64 {
        (1.0 - self.values.null_share - share).max(0.0)
    }
}

/// The share of rows for which a condition on one column is true. Returns `None` for any other condition and for a
/// column without statistics.
pub(super) fn share(source: &dyn TableSource, predicate: &Predicate) -> Option<f64> {
    match predicate {
        Predicate::Compare { column, op, value } => comparison(&Known::new(source, *column)?, *op, value),
        Predicate::In { column, values, negated } => {
            let known = Known::new(source, *column)?;
            let share = among(&known, values)?;
            Some(if *negated { known.others(share) } else { share })
        }
        Predicate::IsNull { column, negated } => {
            let nulls = Known::new(source, *column)?.values.null_share;
            Some(if *negated { 1.0 - nulls } else { nulls })
        }
        _ => None,
    }
}

/// The estimated number of distinct values of a column in `rows` rows. If each value has few rows, the number of values
/// should grow with the number of rows.
pub(super) fn distinct_values(source: &dyn TableSource, column: usize, rows: f64) -> Option<f64> {
    /// Up to this number of rows per value, a value has few rows.
    const FEW: f64 = 10.0;
    let known = Known::new(source, column)?;
    let (distinct, rows_then) = (known.values.distinct as f64, known.table.rows.max(1) as f64);
    Some(if distinct * FEW > rows_then { distinct / rows_then * rows } else { distinct })
}

fn comparison(known: &Known<'_>, op: CompareOp, value: &ArrayRef) -> Option<f64> {
    let read = known.read(value)?;
    let value = read.get(0);
    if value.is_null() {
        return Some(0.0);
    }
    match op {
        CompareOp::Equal => known.equal(value),
        CompareOp::NotEqual => known.equal(value).map(|share| known.others(share)),
        CompareOp::Less => known.within(Bound::Unbounded, Bound::Excluded(value)),
        CompareOp::LessOrEqual => known.within(Bound::Unbounded, Bound::Included(value)),
        CompareOp::Greater => known.within(Bound::Excluded(value), Bound::Unbounded),
        CompareOp::GreaterOrEqual => known.within(Bound::Included(value), Bound::Unbounded),
    }
}

fn among(known: &Known<'_>, values: &ArrayRef) -> Option<f64> {
    let read = known.read(values)?;
    // Look up the first values, and scale their share up to the whole list.
    let looked_up = values.len().min(LISTED_MAX);
    let shares = (0..looked_up).map(|at| known.equal(read.get(at)));
    let share = shares.sum::<Option<f64>>()? * (values.len() as f64 / looked_up.max(1) as f64);
    Some(share.min(known.others(0.0)))
}

/// Bounds of columns that have statistics. All bounds of a column form one range. For example, the two comparisons of
/// `BETWEEN`.
#[derive(Debug, Default)]
pub(super) struct KnownRanges<'p> {
    ranges: Vec<KnownRange<'p>>,
}

#[derive(Debug)]
struct KnownRange<'p> {
    column: usize,
    lower: Bound<&'p ArrayRef>,
    upper: Bound<&'p ArrayRef>,
}

impl<'p> KnownRanges<'p> {
    /// Adds a condition if it is a bound, and returns whether it was. We ignore a second bound at the same end of a
    /// range, because mostly the same rows meet it.
    pub(super) fn take(&mut self, source: &dyn TableSource, predicate: &'p Predicate) -> bool {
        let Predicate::Compare { column, op, value } = predicate else { return false };
        let (lower, upper) = match op {
            CompareOp::Less => (Bound::Unbounded, Bound::Excluded(value)),
            CompareOp::LessOrEqual => (Bound::Unbounded, Bound::Included(value)),
            CompareOp::Greater => (Bound::Excluded(value), Bound::Unbounded),
            CompareOp::GreaterOrEqual => (Bound::Included(value), Bound::Unbounded),
            CompareOp::Equal | CompareOp::NotEqual => return false,
        };
        if Known::new(source, *column).is_none_or(|known| known.read(value).is_none()) {
            return false;
        }
        let of_column = self.ranges.iter_mut().find(|range| range.column == *column);
        let Some(range) = of_column else {
            self.ranges.push(KnownRange { column: *column, lower, upper });
            return true;
        };
        if matches!(range.lower, Bound::Unbounded) {
            range.lower = lower;
        }
        if matches!(range.upper, Bound::Unbounded) {
            range.upper = upper;
        }
        true
    }

    /// The share of rows within all ranges, assuming that the columns are independent.
    pub(super) fn share(&self, source: &dyn TableSource) -> Option<f64> {
        self.ranges.iter().map(|range| range.share(source)).product()
    }
}

impl KnownRange<'_> {
    fn share(&self, source: &dyn TableSource) -> Option<f64> {
        let known = Known::new(source, self.column)?;
        let read = |bound: Bound<&ArrayRef>| match bound {
            Bound::Unbounded => Some(Bound::Unbounded),
            Bound::Included(value) => known.read(value).map(Bound::Included),
            Bound::Excluded(value) => known.read(value).map(Bound::Excluded),
        };
        let (lower, upper) = (read(self.lower)?, read(self.upper)?);
        known.within(lower.as_ref().map(|value| value.get(0)), upper.as_ref().map(|value| value.get(0)))
    }
}
