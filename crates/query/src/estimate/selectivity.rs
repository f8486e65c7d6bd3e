//! The share of rows that pass a condition, by zone maps and by what ANALYZE has found out.

use arrow::array::ArrayRef;
use rowmill_plan::{CompareOp, Predicate};
use rowmill_storage::{EQUAL_SHARE, RANGE_SHARE, TableSource};

use super::known_values::{self, Ranges};
use super::zones::{ZoneStatistics, column_statistics, number};

/// The share of rows that a pattern matches.
const LIKE_SHARE: f64 = 0.15;
/// No estimate goes below this: joins suffer more from an estimate that is too low.
const LEAST: f64 = 1e-6;

/// The share of rows that pass all of `predicates`.
pub(super) fn selectivity(source: &dyn TableSource, predicates: &[Predicate]) -> f64 {
    share_of_all(source, predicates).clamp(LEAST, 1.0)
}

/// The share of rows that pass all of `predicates`, as if those were independent that are no bounds of one column.
fn share_of_all(source: &dyn TableSource, predicates: &[Predicate]) -> f64 {
    let (mut ranges, mut others) = (Ranges::default(), 1.0);
    let mut bounds: Vec<ColumnRange> = Vec::new();
    gather(source, predicates, &mut ranges, &mut bounds, &mut others);
    let bounded: f64 = bounds.iter().map(|range| range.share(source)).product();
    others * bounded * ranges.share(source).unwrap_or(RANGE_SHARE)
}

/// Bounds of one column of a columnar table.
struct ColumnRange {
    column: usize,
    lower: Option<f64>,
    upper: Option<f64>,
}

impl ColumnRange {
    fn share(&self, source: &dyn TableSource) -> f64 {
        let statistics = column_statistics(source, self.column);
        let Some((least, greatest)) = statistics.bounds.filter(|(least, greatest)| greatest > least) else {
            return RANGE_SHARE;
        };
        let width = greatest - least;
        let lower = self.lower.map_or(0.0, |lower| ((lower - least) / width).clamp(0.0, 1.0));
        let upper = self.upper.map_or(1.0, |upper| ((upper - least) / width).clamp(0.0, 1.0));
        (upper - lower).max(0.0)
    }
}

fn gather<'p>(
    source: &dyn TableSource,
    predicates: &'p [Predicate],
    ranges: &mut Ranges<'p>,
    bounds: &mut Vec<ColumnRange>,
    others: &mut f64,
) {
    for predicate in predicates {
        match predicate {
            Predicate::And(parts) => gather(source, parts, ranges, bounds, others),
            bound if ranges.take(source, bound) => {}
            Predicate::Compare { column, op, value } if is_bound(*op) && number(value).is_some() => {
                let place = bounds.iter().position(|range| range.column == *column).unwrap_or_else(|| {
                    bounds.push(ColumnRange { column: *column, lower: None, upper: None });
                    bounds.len() - 1
                });
                let (range, value) = (&mut bounds[place], number(value));
                match op {
                    CompareOp::Less | CompareOp::LessOrEqual => range.upper = range.upper.or(value),
                    _ => range.lower = range.lower.or(value),
                }
            }
            other => *others *= share(source, other),
        }
    }
}

fn is_bound(op: CompareOp) -> bool {
    !matches!(op, CompareOp::Equal | CompareOp::NotEqual)
}

fn share(source: &dyn TableSource, predicate: &Predicate) -> f64 {
    if let Some(share) = known_values::share(source, predicate) {
        return share;
    }
    match predicate {
        Predicate::Compare { column, op, value } => comparison(source, *column, *op, value),
        Predicate::In { column, values, negated } => {
            let each = equality(&column_statistics(source, *column));
            negate_if(*negated, (each * values.len() as f64).min(1.0))
        }
        Predicate::IsNull { column, negated } => {
            let nulls = column_statistics(source, *column).nulls.unwrap_or(0.0);
            negate_if(*negated, (nulls / (source.row_count() as f64).max(1.0)).min(1.0))
        }
        Predicate::Like { negated, .. } => negate_if(*negated, LIKE_SHARE),
        Predicate::And(parts) => share_of_all(source, parts),
        Predicate::Or(parts) => 1.0 - parts.iter().map(|part| 1.0 - share(source, part)).product::<f64>(),
        Predicate::Not(inner) => 1.0 - share(source, inner),
    }
}

fn negate_if(negated: bool, share: f64) -> f64 {
    if negated { 1.0 - share } else { share }
}

fn equality(statistics: &ZoneStatistics) -> f64 {
    statistics.distinct.map_or(EQUAL_SHARE, |distinct| 1.0 / distinct.max(1.0))
}

fn comparison(source: &dyn TableSource, column: usize, op: CompareOp, value: &ArrayRef) -> f64 {
    match op {
        CompareOp::Equal => equality(&column_statistics(source, column)),
        CompareOp::NotEqual => 1.0 - equality(&column_statistics(source, column)),
        CompareOp::Less | CompareOp::LessOrEqual if number(value).is_some() => {
            ColumnRange { column, lower: None, upper: number(value) }.share(source)
        }
        CompareOp::Greater | CompareOp::GreaterOrEqual if number(value).is_some() => {
            ColumnRange { column, lower: number(value), upper: None }.share(source)
        }
        _ => RANGE_SHARE,
    }
}
