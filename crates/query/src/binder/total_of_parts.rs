//! Sums and averages that the binder computes from several aggregates, which groups and windows know.

use rowmill_base::Result;
use rowmill_plan::ScalarExpr;
use rowmill_plan::logical::AggregateCall;

use super::interval_total::IntervalTotal;
use super::wide_total::WideTotal;

/// A sum or an average of values for which there is no aggregate.
pub(super) enum TotalOfParts {
    /// Of decimals of more than 38 digits.
    Wide(WideTotal),
    /// Of intervals.
    Intervals(IntervalTotal),
}

impl TotalOfParts {
    /// The parts of `call`. `None` if an aggregate computes it.
    pub(super) fn of(call: &AggregateCall) -> Result<Option<TotalOfParts>> {
        Ok(match WideTotal::of(call)? {
            Some(total) => Some(TotalOfParts::Wide(total)),
            None => IntervalTotal::of(call)?.map(TotalOfParts::Intervals),
        })
    }

    /// The aggregates.
    pub(super) fn calls(&self) -> &[AggregateCall] {
        match self {
            TotalOfParts::Wide(total) => &total.calls,
            TotalOfParts::Intervals(total) => &total.calls,
        }
    }

    /// The sum or average, from the results of the aggregates.
    pub(super) fn result(&self, results: Vec<ScalarExpr>) -> Result<ScalarExpr> {
        match self {
            TotalOfParts::Wide(total) => total.result(results),
            TotalOfParts::Intervals(total) => total.result(results),
        }
    }
}
