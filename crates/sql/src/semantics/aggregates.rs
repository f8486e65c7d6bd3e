//! SUM and AVG over exact totals.
//!
//! | argument | total | SUM | AVG |
//! | --- | --- | --- | --- |
//! | integers up to 32 bits | 64 bits | BIGINT | DOUBLE |
//! | BIGINT, BIGINT UNSIGNED | 128 bits | DECIMAL(38,0) | DOUBLE |
//! | DECIMAL(p,s) | 128 bits | DECIMAL(38,s) | DOUBLE |
//! | REAL, DOUBLE | DOUBLE | DOUBLE | DOUBLE |
//!
//! A total that leaves its type is an error, never a wrapped number. AVG divides once, at the end, and gives the double
//! nearest to the exact quotient, so that it does not depend on the order of the rows or the number of threads.
//!
//! Both functions share everything but the last step: [`total`] says how values are added, [`groups`] keeps one total
//! per group for GROUP BY, [`single`] one total without groups or in a window that moves, [`distinct`] the values
//! themselves.

mod distinct;
mod groups;
mod single;
mod total;

use std::sync::Arc;

use arrow::array::ArrowPrimitiveType;
use arrow::datatypes::{
    DataType, Field, FieldRef, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use arrow::datatypes::{Decimal128Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::functions_aggregate::approx_distinct::approx_distinct_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, Cast};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, GroupsAccumulator, Operator, ReversedUDAF, Signature, Volatility,
};

use self::distinct::Distinct;
use self::groups::Groups;
use self::single::{Moving, Single};
use self::total::{Finish, Summand};
use super::arithmetic::checked;
use crate::errors::type_name;

/// `sum` and `avg`, and `approx_distinct` with the name that it has elsewhere.
pub(crate) fn functions() -> Vec<Arc<AggregateUDF>> {
    let totaling = [Finish::Sum, Finish::Average].map(|finish| AggregateUDF::from(Totaling::new(finish)));
    let estimate = AggregateUDF::clone(&approx_distinct_udaf()).with_aliases(["approx_count_distinct"]);
    totaling.into_iter().chain([estimate]).map(Arc::new).collect()
}

/// What the error says of a total of values of `kind` that `function` cannot hold.
pub(crate) fn total_error(function: &str, kind: &DataType) -> String {
    let finish = if function == "avg" { Finish::Average } else { Finish::Sum };
    total::total_out_of_range(finish, kind).message().to_owned()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Totaling {
    finish: Finish,
    signature: Signature,
    aliases: Vec<String>,
}

impl Totaling {
    fn new(finish: Finish) -> Totaling {
        let aliases = match finish {
            Finish::Sum => vec![],
            Finish::Average => vec!["mean".to_string()],
        };
        Totaling { finish, signature: Signature::user_defined(Volatility::Immutable), aliases }
    }
}

/// Calls `$run::<S>()` with the summand type of the argument.
macro_rules! with_summand {
    ($kind:expr, $run:ident $arguments:tt) => {
        match $kind {
            DataType::Int8 => with_summand!(@ Int8Type, $run $arguments),
            DataType::Int16 => with_summand!(@ Int16Type, $run $arguments),
            DataType::Int32 => with_summand!(@ Int32Type, $run $arguments),
            DataType::Int64 => with_summand!(@ Int64Type, $run $arguments),
            DataType::UInt8 => with_summand!(@ UInt8Type, $run $arguments),
            DataType::UInt16 => with_summand!(@ UInt16Type, $run $arguments),
            DataType::UInt32 => with_summand!(@ UInt32Type, $run $arguments),
            DataType::UInt64 => with_summand!(@ UInt64Type, $run $arguments),
            DataType::Decimal128(..) => with_summand!(@ Decimal128Type, $run $arguments),
            DataType::Float32 => with_summand!(@ Float32Type, $run $arguments),
            DataType::Float64 => with_summand!(@ Float64Type, $run $arguments),
            other => internal_err!("a total of {other}"),
        }
    };
    (@ $summand:ty, $run:ident ($($argument:expr),*)) => { Ok($run::<$summand>($($argument),*)) };
}

fn new_single<S: Summand>(finish: Finish, kind: DataType) -> Box<dyn Accumulator> {
    Box::new(Single::<S>::new(finish, kind))
}

fn new_moving<S: Summand>(finish: Finish, kind: DataType) -> Box<dyn Accumulator> {
    // Taking a float away again does not undo having added it, so a moving window of floats keeps its values.
    if S::Total::DATA_TYPE == DataType::Float64 {
        Box::new(Moving::<S>::new(finish, kind))
    } else {
        Box::new(Single::<S>::new(finish, kind))
    }
}

fn new_distinct<S: Summand>(finish: Finish, kind: DataType) -> Box<dyn Accumulator> {
    Box::new(Distinct::<S>::new(finish, kind))
}

fn new_groups<S: Summand>(finish: Finish, kind: DataType) -> Box<dyn GroupsAccumulator> {
    Box::new(Groups::<S>::new(finish, kind))
}

fn argument(arguments: &AccumulatorArgs) -> DataType {
    arguments.expr_fields[0].data_type().clone()
}

impl AggregateUDFImpl for Totaling {
    fn name(&self) -> &str {
        match self.finish {
            Finish::Sum => "sum",
            Finish::Average => "avg",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [kind] = types else {
            return plan_err!("{} takes 1 argument, {} were given", self.name(), types.len());
        };
        Ok(vec![match kind {
            kind if total::total_type(kind).is_some() => kind.clone(),
            DataType::Null => DataType::Int32,
            DataType::Float16 => DataType::Float32,
            DataType::Decimal32(digits, scale) | DataType::Decimal64(digits, scale) => {
                DataType::Decimal128(*digits, *scale)
            }
            DataType::Dictionary(_, value) => return self.coerce_types(&[value.as_ref().clone()]),
            other => return plan_err!("there is no {}({})", self.name(), type_name(other)),
        }])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let types = self.coerce_types(types)?;
        match self.finish {
            Finish::Average => Ok(DataType::Float64),
            Finish::Sum => match total::total_type(&types[0]) {
                Some(kind) => Ok(kind),
                None => internal_err!("a sum of {}", types[0]),
            },
        }
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let Some(kind) = total::total_type(arguments.input_fields[0].data_type()) else {
            return internal_err!("a total of {}", arguments.input_fields[0].data_type());
        };
        if arguments.is_distinct {
            let item = Field::new_list_field(kind, true);
            return Ok(vec![Field::new_list(format_state_name(arguments.name, "distinct"), item, true).into()]);
        }
        let total = Field::new(format_state_name(arguments.name, "total"), kind, true);
        Ok(match self.finish {
            Finish::Sum => vec![total.into()],
            Finish::Average => {
                let count = Field::new(format_state_name(arguments.name, "count"), DataType::UInt64, true);
                vec![total.into(), count.into()]
            }
        })
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let kind = argument(&arguments);
        if arguments.is_distinct {
            return with_summand!(kind.clone(), new_distinct(self.finish, kind));
        }
        with_summand!(kind.clone(), new_single(self.finish, kind))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let kind = argument(&arguments);
        if arguments.is_distinct {
            return with_summand!(kind.clone(), new_distinct(self.finish, kind));
        }
        with_summand!(kind.clone(), new_moving(self.finish, kind))
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        !arguments.is_distinct
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let kind = argument(&arguments);
        with_summand!(kind.clone(), new_groups(self.finish, kind))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    /// `sum(x + 1), sum(x + 2), ...` read `x` once: each is `sum(x) + 1 * count(x)`.
    ///
    /// Only additions that cannot leave their type are still DataFusion's operators when the optimiser gets here, so
    /// nothing that would have been an error is lost. Floats keep their order of additions.
    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        value: &Expr,
        op: Operator,
        literal: &Expr,
        _value_is_left: bool,
    ) -> Result<Option<Expr>> {
        let Expr::Literal(constant, _) = literal else { return Ok(None) };
        if self.finish != Finish::Sum || op != Operator::Plus || constant.data_type() != DataType::Int64 {
            return Ok(None);
        }
        // The constant made a BIGINT of a narrower column; its own sum is cheaper.
        let narrow = match value {
            Expr::Cast(Cast { expr, .. }) => expr.as_ref(),
            other => other,
        };
        let exact = |expr: Expr| Expr::Cast(Cast::new(Box::new(expr), DataType::Decimal128(19, 0)));
        let mut sum = function.clone();
        sum.params.args = vec![narrow.clone()];
        let sum = Expr::Cast(Cast::new(Box::new(Expr::AggregateFunction(sum)), DataType::Decimal128(38, 0)));
        let count = count_udaf().call(vec![narrow.clone()]);
        let added = checked(exact(literal.clone()), Operator::Multiply, exact(count));
        Ok(Some(checked(sum, Operator::Plus, added)))
    }
}

#[cfg(test)]
mod tests;
