//! `sum` and `avg` of decimals of more than 38 digits, as aggregates that groups and windows know.
//!
//! `crates/expr/src/functions/math/wide_sum.rs` explains the functions and why they are exact.

use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_exec::aggregate;
use rowmill_expr::kinds::is_wide_decimal;
use rowmill_expr::{functions, typing};
use rowmill_plan::logical::AggregateCall;
use rowmill_plan::{AggregateRole, ScalarExpr};

use super::walk::is_volatile_expr;

/// The parts of a value whose sums are computed.
const PARTS: i64 = 3;

/// The aggregates that a sum or an average is computed from.
pub(super) struct WideTotal {
    pub(super) calls: Vec<AggregateCall>,
    scale: i64,
    is_average: bool,
    /// Whether one list has the values. Otherwise there is a sum of each part.
    is_list: bool,
}

impl WideTotal {
    /// The aggregates for `call`. `None` if it is no sum or average of decimals of more than 38 digits.
    pub(super) fn of(call: &AggregateCall) -> Result<Option<WideTotal>> {
        let is_average = call.function.role == AggregateRole::Average;
        let (true, [value]) = (is_average || call.function.role == AggregateRole::Sum, &call.arguments[..]) else {
            return Ok(None);
        };
        let (true, DataType::Decimal256(_, scale)) = (is_wide_decimal(&value.kind), &value.kind) else {
            return Ok(None);
        };
        let aggregate = |name: &str, argument: ScalarExpr| {
            let function = aggregate::named(name);
            let kinds = function.kinds(std::slice::from_ref(&argument.kind)).expect("the aggregate takes the value");
            AggregateCall { function, arguments: vec![argument], kind: kinds.1, ..call.clone() }
        };
        let mut calls = Vec::new();
        // Different values may have equal parts, and a volatile value would differ from part to part, so such values
        // are kept whole.
        let is_list = call.distinct || is_volatile_expr(value) || call.filter.as_ref().is_some_and(is_volatile_expr);
        if is_list {
            calls.push(aggregate("array_agg", value.clone()));
        } else {
            for part in 0..PARTS {
                calls.push(aggregate(
                    "sum",
                    function_call("wide_sum_part", vec![value.clone(), ScalarExpr::literal(part)])?,
                ));
            }
            if is_average {
                calls.push(aggregate("count", value.clone()));
            }
        }
        Ok(Some(WideTotal { calls, scale: i64::from(*scale), is_average, is_list }))
    }

    /// The sum or average, from the results of the aggregates.
    pub(super) fn result(&self, mut results: Vec<ScalarExpr>) -> Result<ScalarExpr> {
        if self.is_list {
            return function_call(if self.is_average { "wide_list_average" } else { "wide_list_sum" }, results);
        }
        results.push(ScalarExpr::literal(self.scale));
        function_call(if self.is_average { "wide_average" } else { "wide_sum" }, results)
    }
}

fn function_call(name: &str, arguments: Vec<ScalarExpr>) -> Result<ScalarExpr> {
    typing::call(functions::find(name).expect("the function exists"), arguments)
}
