//! The share of rows that meet a condition of a scan, by zone maps and by the statistics of ANALYZE.

use arrow::array::ArrayRef;
use rowmill_plan::{CompareOp, Predicate};
use rowmill_storage::{EQUAL_SHARE, RANGE_SHARE};

use super::TableFacts;
use super::known_values::{self, KnownRanges};
use super::zones::number;

/// The share of texts that we assume to contain a piece of a pattern.
const PIECE_SHARE: f64 = 0.05;
/// The share of texts that we assume to begin with a pattern.
const PREFIX_SHARE: f64 = 0.02;
/// The least share that we estimate. A join suffers more from an estimate that is too low than from one that is too
/// high.
const LEAST: f64 = 1e-6;

/// The share of rows that meet all of `predicates`.
pub(super) fn selectivity(table: TableFacts<'_>, predicates: &[Predicate]) -> f64 {
    share_of_all(table, predicates).clamp(LEAST, 1.0)
}

/// The share of rows that meet all of `predicates`. We assume that they are independent, except for bounds of one
/// column.
fn share_of_all(table: TableFacts<'_>, predicates: &[Predicate]) -> f64 {
    let (mut ranges, mut others) = (KnownRanges::default(), 1.0);
    let mut bounds: Vec<ColumnRange> = Vec::new();
    gather(table, predicates, &mut ranges, &mut bounds, &mut others);
    let bounded: f64 = bounds.iter().map(|range| range.share(table)).product();
    others * bounded * ranges.share(table.source()).unwrap_or(RANGE_SHARE)
}

/// The bounds of one column of a columnar table.
struct ColumnRange {
    column: usize,
    lower: Option<f64>,
    upper: Option<f64>,
}

impl ColumnRange {
    fn share(&self, table: TableFacts<'_>) -> f64 {
        let statistics = table.statistics(self.column);
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
    table: TableFacts<'_>,
    predicates: &'p [Predicate],
    ranges: &mut KnownRanges<'p>,
    bounds: &mut Vec<ColumnRange>,
    others: &mut f64,
) {
    for predicate in predicates {
        match predicate {
            Predicate::And(parts) => gather(table, parts, ranges, bounds, others),
            bound if ranges.take(table.source(), bound) => {}
            // Collect the bounds of a column, so BETWEEN counts as one range and not as two conditions.
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
            other => *others *= share(table, other),
        }
    }
}

fn is_bound(op: CompareOp) -> bool {
    !matches!(op, CompareOp::Equal | CompareOp::NotEqual)
}

fn share(table: TableFacts<'_>, predicate: &Predicate) -> f64 {
    if let Some(share) = known_values::share(table.source(), predicate) {
        return share;
    }
    match predicate {
        Predicate::Compare { column, op, value } => comparison(table, *column, *op, value),
        Predicate::In { column, values, negated } => {
            let each = equality(table, *column);
            negate_if(*negated, (each * values.len() as f64).min(1.0))
        }
        Predicate::IsNull { column, negated } => {
            let nulls = table.statistics(*column).nulls.unwrap_or(0.0);
            negate_if(*negated, (nulls / (table.source().row_count() as f64).max(1.0)).min(1.0))
        }
        Predicate::Like { column, pattern, negated, .. } => {
            negate_if(*negated, like_share(pattern, table.distinct(*column)))
        }
        Predicate::And(parts) => share_of_all(table, parts),
        Predicate::Or(parts) => 1.0 - parts.iter().map(|part| 1.0 - share(table, part)).product::<f64>(),
        Predicate::Not(inner) => 1.0 - share(table, inner),
        Predicate::Computed(condition) => condition.share(),
    }
}

fn negate_if(negated: bool, share: f64) -> f64 {
    if negated { 1.0 - share } else { share }
}

fn equality(table: TableFacts<'_>, column: usize) -> f64 {
    table.distinct(column).map_or(EQUAL_SHARE, |distinct| 1.0 / distinct.max(1.0))
}

/// The share of texts that match a pattern. Each piece between wildcards reduces it. If there are few distinct texts,
/// we assume that a pattern matches more of them, at least the square root of their number.
pub(super) fn like_share(pattern: &str, distinct: Option<f64>) -> f64 {
    let pieces = pattern.split('%').filter(|piece| piece.chars().any(|letter| letter != '_')).count();
    let share = match (pattern.starts_with('%'), pieces) {
        (_, 0) => 1.0,
        (false, 1) if !pattern.contains('%') => {
            return distinct.map_or(EQUAL_SHARE, |distinct| 1.0 / distinct.max(1.0));
        }
        (false, pieces) => PREFIX_SHARE * PIECE_SHARE.powi(pieces as i32 - 1),
        (true, pieces) => PIECE_SHARE.powi(pieces as i32),
    };
    share.max(distinct.map_or(0.0, |distinct| 1.0 / distinct.max(1.0).sqrt())).min(1.0)
}

fn comparison(table: TableFacts<'_>, column: usize, op: CompareOp, value: &ArrayRef) -> f64 {
    match op {
        CompareOp::Equal => equality(table, column),
        CompareOp::NotEqual => 1.0 - equality(table, column),
        CompareOp::Less | CompareOp::LessOrEqual if number(value).is_some() => {
            ColumnRange { column, lower: None, upper: number(value) }.share(table)
        }
        CompareOp::Greater | CompareOp::GreaterOrEqual if number(value).is_some() => {
            ColumnRange { column, lower: number(value), upper: None }.share(table)
        }
        _ => RANGE_SHARE,
    }
}
