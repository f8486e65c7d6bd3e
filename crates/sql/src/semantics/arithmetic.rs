//! `+ - * / %` that never wrap, never lose digits and know one NaN.
//!
//! DataFusion's own operators wrap on integers. Where a rule of ours differs, the operator becomes a function of this
//! module; where no value of the operands' types can tell the difference (`CAST(smallint AS BIGINT) + 1`) it stays
//! DataFusion's, which its optimiser understands better. The functions are called like the operators, so that columns
//! keep their names.
//!
//! One loop makes all results with plain instructions and gathers in one variable whether any of them was wrong; only
//! then a second loop looks for the row, so that the check costs next to nothing and NULL rows, whose values are
//! arbitrary, cannot raise it.

mod decimals;
mod floats;
mod integers;
mod operands;

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::interval_arithmetic::{Interval, apply_operator};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use rowmill_base::{Error, ErrorKind};

use crate::errors::{to_datafusion, type_name};

pub(crate) use decimals::{digits_of, digits_of_integer};

/// The largest number of digits of a decimal.
pub(crate) const DIGITS_MAX: u8 = 38;

/// `left op right` as a call of the checked function, for operands of one of the kinds it takes: equal integers, equal
/// floats, decimals and integers with at least one decimal.
pub(crate) fn checked(left: Expr, op: Operator, right: Expr) -> Expr {
    Arc::new(ScalarUDF::from(Arithmetic::new(op))).call(vec![left, right])
}

/// The operator that `function` stands for, if it is one of this module.
pub fn arithmetic_operator(function: &ScalarUDF) -> Option<Operator> {
    function.inner().downcast_ref::<Arithmetic>().map(|arithmetic| arithmetic.op)
}

/// The function behind an operator.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Arithmetic {
    op: Operator,
    signature: Signature,
}

impl Arithmetic {
    fn new(op: Operator) -> Arithmetic {
        Arithmetic { op, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn symbol(&self) -> &'static str {
        match self.op {
            Operator::Plus => "+",
            Operator::Minus => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            _ => "%",
        }
    }
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        self.symbol()
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(format!("{} {} {}", arguments[0], self.symbol(), arguments[1]))
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(format!("{} {} {}", arguments[0].schema_name(), self.symbol(), arguments[1].schema_name()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = types else {
            return internal_err!("{} takes two arguments", self.symbol());
        };
        let pair = match (left, right) {
            (DataType::Null, other) | (other, DataType::Null) => (other.clone(), other.clone()),
            _ => (left.clone(), right.clone()),
        };
        let widen = |kind: DataType| digits_of_integer(&kind).map_or(kind, |digits| DataType::Decimal128(digits, 0));
        Ok(match pair {
            (left @ DataType::Decimal128(..), right) | (left, right @ DataType::Decimal128(..)) => {
                vec![widen(left), widen(right)]
            }
            (left, right) => vec![left, right],
        })
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match self.coerce_types(types)?.as_slice() {
            [DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)] => {
                decimals::result_type(self.op, (*p1, *s1), (*p2, *s2)).map_err(to_datafusion)
            }
            [left, right] if left == right && (left.is_integer() || left.is_floating()) => Ok(left.clone()),
            _ => internal_err!("{} of {} and {}", self.symbol(), type_name(&types[0]), type_name(&types[1])),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let [left, right] = arguments.args.as_slice() else {
            return internal_err!("{} takes two arguments", self.symbol());
        };
        // Two constants make a constant: one row is enough.
        let constant = matches!((left, right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { rows };
        let kind = arguments.return_field.data_type();
        let result: rowmill_base::Result<ArrayRef> = match left.data_type() {
            kind if kind.is_integer() => integers::apply(self.op, left, right, rows),
            kind if kind.is_floating() => floats::apply(self.op, left, right, rows),
            _ if self.op == Operator::Divide => decimals::divide(left, right, rows),
            _ => decimals::apply(self.op, left, right, kind, rows),
        };
        let result = result.map_err(to_datafusion)?;
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }

    /// `x + 0`, `x - 0` and `x * 1` are `x`, where the type stays the same.
    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let neutral = match self.op {
            Operator::Plus | Operator::Minus => 0,
            Operator::Multiply => 1,
            _ => return Ok(ExprSimplifyResult::Original(arguments)),
        };
        let is_neutral = |expr: &Expr| match expr {
            Expr::Literal(value, _) if value.data_type().is_integer() => {
                value.cast_to(&DataType::Int64).is_ok_and(|value| value == ScalarValue::Int64(Some(neutral)))
            }
            _ => false,
        };
        // The type costs a walk over the whole operand, so it is asked for last.
        if is_neutral(&arguments[1]) && info.get_data_type(&arguments[0])?.is_integer() {
            let first = arguments.into_iter().next();
            return Ok(ExprSimplifyResult::Simplified(first.expect("an operator has two operands")));
        }
        Ok(ExprSimplifyResult::Original(arguments))
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        let whole = Interval::make_unbounded(&self.return_type(&[inputs[0].data_type(), inputs[1].data_type()])?)?;
        if inputs[0].data_type().is_integer() && matches!(self.op, Operator::Plus | Operator::Minus) {
            return apply_operator(&self.op, inputs[0], inputs[1]).or(Ok(whole));
        }
        Ok(whole)
    }

    /// A sum that cannot wrap is ordered as its operands are.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let (left, right) = (&inputs[0].sort_properties, &inputs[1].sort_properties);
        Ok(match self.op {
            Operator::Plus => left.add(right),
            Operator::Minus => left.sub(right),
            _ if *left == SortProperties::Singleton && *right == SortProperties::Singleton => SortProperties::Singleton,
            _ => SortProperties::Unordered,
        })
    }
}

/// The error of a result that its type cannot hold.
pub(crate) fn out_of_range(what: impl std::fmt::Display, kind: &DataType) -> Error {
    Error::new(ErrorKind::NumericOutOfRange, format!("number out of range: {what} does not fit {}", type_name(kind)))
}

/// The error of a division by zero.
pub(crate) fn division_by_zero() -> Error {
    Error::new(ErrorKind::DivisionByZero, "division by zero")
}

#[cfg(test)]
mod tests;
