//! `sum` and `avg` of intervals, from the sums of their months, days and nanoseconds.

use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_exec::aggregate;
use rowmill_expr::{functions, typing};
use rowmill_plan::logical::AggregateCall;
use rowmill_plan::{AggregateRole, ScalarExpr};

use super::place::unsupported;
use super::walk::is_volatile_expr;

/// The parts of an interval: months, days and nanoseconds.
const PARTS: i64 = 3;

/// The aggregates that a sum or an average of intervals is computed from.
pub(super) struct IntervalTotal {
    pub(super) calls: Vec<AggregateCall>,
    is_average: bool,
}

impl IntervalTotal {
    /// The aggregates for `call`. `None` if it is no sum or average of intervals.
    pub(super) fn of(call: &AggregateCall) -> Result<Option<IntervalTotal>> {
        let is_average = call.function.role == AggregateRole::Average;
        let (true, [value]) = (is_average || call.function.role == AggregateRole::Sum, &call.arguments[..]) else {
            return Ok(None);
        };
        let DataType::Interval(_) = value.kind else { return Ok(None) };
        let name = call.function.name;
        if call.distinct {
            return Err(unsupported(format!("{name}(DISTINCT ...) of intervals"))
                .hint(format!("{name} the rows of a subquery with SELECT DISTINCT")));
        }
        // The parts of a volatile value would be those of different values.
        if is_volatile_expr(value) || call.filter.as_ref().is_some_and(is_volatile_expr) {
            return Err(unsupported(format!("{name} of intervals that change from call to call"))
                .hint("compute them in a subquery"));
        }
        let aggregate = |name: &str, argument: ScalarExpr| {
            let function = aggregate::named(name);
            let kinds = function.kinds(std::slice::from_ref(&argument.kind)).expect("the aggregate takes the value");
            AggregateCall { function, arguments: vec![argument], kind: kinds.1, ..call.clone() }
        };
        let mut calls = Vec::new();
        for part in 0..PARTS {
            let part = function_call("interval_part", vec![value.clone(), ScalarExpr::literal(part)])?;
            calls.push(aggregate("sum", part));
        }
        if is_average {
            calls.push(aggregate("count", value.clone()));
        }
        Ok(Some(IntervalTotal { calls, is_average }))
    }

    /// The sum or average, from the results of the aggregates.
    pub(super) fn result(&self, mut results: Vec<ScalarExpr>) -> Result<ScalarExpr> {
        let count = if self.is_average { results.pop() } else { None };
        let parts = results.into_iter().map(|part| typing::cast(part, &DataType::Int64, false));
        let sum = function_call("interval_of_parts", parts.collect::<Result<_>>()?)?;
        match count {
            None => Ok(sum),
            Some(count) => function_call("interval_divided_by_number", vec![sum, count]),
        }
    }
}

fn function_call(name: &str, arguments: Vec<ScalarExpr>) -> Result<ScalarExpr> {
    typing::call(functions::find(name).expect("the function exists"), arguments)
}
