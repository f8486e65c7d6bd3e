//! The distribution of the aggregate values of groups.
//!
//! We assume that the number of rows per group follows a Poisson distribution, and that values are spread evenly
//! between the bounds of the column. A count, a sum and an average are then nearly normal. Their mean and variance
//! follow from those of both distributions (the compound Poisson distribution).

use rowmill_plan::{Aggregate, AggregateRole, CompareOp, Expr, ExprOp, Group, Node, ScalarExpr};

use super::distinct::origin;
use super::zones::number;
use super::{Estimator, Positions};

/// A normal distribution of the values of an aggregate.
#[derive(Clone, Copy, Debug)]
struct ValueSpread {
    mean: f64,
    deviation: f64,
}

impl Estimator<'_> {
    /// The share of the groups for which a comparison of an aggregate with a number is true, if we know anything about
    /// it.
    pub(super) fn share_by_aggregate(
        &self,
        input: &Node,
        op: CompareOp,
        pair: &[ScalarExpr; 2],
        positions: Positions<'_>,
    ) -> Option<f64> {
        let (aggregate, number, op) = match (number_of(&pair[0]), number_of(&pair[1])) {
            (None, Some(number)) => (&pair[0], number, op),
            (Some(number), None) => (&pair[1], number, op.flipped()),
            _ => return None,
        };
        let column = positions(without_cast(aggregate).as_column()?)?;
        let spread = self.spread_of(input, column)?;
        let above = share_above((number - spread.mean) / spread.deviation.max(f64::MIN_POSITIVE));
        Some(match op {
            CompareOp::Greater | CompareOp::GreaterOrEqual => above,
            CompareOp::Less | CompareOp::LessOrEqual => 1.0 - above,
            CompareOp::Equal | CompareOp::NotEqual => return None,
        })
    }

    /// The number of distinct values of an aggregate of `input`, which has `groups` groups.
    pub(super) fn distinct_of_aggregate(
        &self,
        input: &Node,
        group: &Group,
        aggregate: usize,
        groups: f64,
    ) -> Option<f64> {
        let of = &group.aggregates[aggregate];
        match of.function.role {
            AggregateRole::Count => {
                let spread = self.spread(input, of, groups)?;
                // The expected distance between the least and the greatest of `groups` normally distributed values.
                Some(1.0 + 2.0 * spread.deviation * (2.0 * groups.max(1.0).ln()).sqrt())
            }
            AggregateRole::Min | AggregateRole::Max => match of.argument.as_ref()?.0 {
                Expr::Column(column) => self.distinct_left(input, column),
                Expr::Function(_) => None,
            },
            AggregateRole::Sum | AggregateRole::Average => Some(groups),
            _ => None,
        }
    }

    /// The distribution of a column, if it is an aggregate of groups below.
    fn spread_of(&self, node: &Node, column: usize) -> Option<ValueSpread> {
        match node {
            Node::Filter { input, .. }
            | Node::Sort { input, .. }
            | Node::Limit { input, .. }
            | Node::Shared { input, .. } => self.spread_of(input, column),
            Node::Project { input, exprs, .. } => match exprs[column] {
                Expr::Column(column) => self.spread_of(input, column),
                Expr::Function(_) => None,
            },
            Node::Group { input, group, .. } if !group.keys.is_empty() => {
                let aggregate = column.checked_sub(group.keys.len())?;
                self.spread(input, &group.aggregates[aggregate], self.row_count(node))
            }
            _ => None,
        }
    }

    /// The distribution of an aggregate, if the rows of `input` form `groups` groups.
    fn spread(&self, input: &Node, aggregate: &Aggregate, groups: f64) -> Option<ValueSpread> {
        if aggregate.of_parts.is_some() || aggregate.distinct || aggregate.filter.is_some() {
            return None;
        }
        let rows = self.row_count(input) / groups.max(1.0);
        if aggregate.function.is_count() {
            return Some(ValueSpread { mean: rows, deviation: rows.sqrt() });
        }
        let (Expr::Column(column), _) = *aggregate.argument.as_ref()? else { return None };
        let (scan, column) = origin(input, column)?;
        let (least, greatest) = self.facts(scan.table).statistics(column).bounds?;
        // Mean and variance of a uniform distribution between the bounds.
        let (mean, variance) = (least.midpoint(greatest), (greatest - least).powi(2) / 12.0);
        match aggregate.function.role {
            AggregateRole::Sum => {
                Some(ValueSpread { mean: rows * mean, deviation: (rows * (variance + mean * mean)).sqrt() })
            }
            AggregateRole::Average => Some(ValueSpread { mean, deviation: (variance / rows.max(1.0)).sqrt() }),
            _ => None,
        }
    }
}

/// The number of a literal.
fn number_of(expr: &ScalarExpr) -> Option<f64> {
    match &without_cast(expr).op {
        ExprOp::Literal(value) if !value.is_null() => number(value.array()),
        _ => None,
    }
}

fn without_cast(expr: &ScalarExpr) -> &ScalarExpr {
    match &expr.op {
        ExprOp::Cast { value, .. } => without_cast(value),
        _ => expr,
    }
}

/// The share of normally distributed values that are more than `deviations` standard deviations above the mean
/// (Abramowitz and Stegun, "Handbook of Mathematical Functions", 1964, 26.2.17).
fn share_above(deviations: f64) -> f64 {
    const TERMS: [f64; 5] = [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_530];
    let distance = deviations.abs();
    let t = 1.0 / (1.0 + 0.231_641_9 * distance);
    let series = TERMS.iter().fold(0.0, |sum, term| (sum + term) * t);
    let above = (-distance * distance / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * series;
    if deviations < 0.0 { 1.0 - above } else { above }
}

#[cfg(test)]
mod tests {
    use super::share_above;

    #[test]
    fn shares_of_normal_values_match_the_tables() {
        for (deviations, share) in [(0.0, 0.5), (1.0, 0.158_655), (-1.0, 0.841_345), (3.0, 0.001_349_9), (9.0, 0.0)] {
            assert!((share_above(deviations) - share).abs() < 1e-6, "{deviations}: {}", share_above(deviations));
        }
    }
}
