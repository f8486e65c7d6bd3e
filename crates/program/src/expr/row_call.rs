//! Calls of functions that compute the value of one row without arrays: see [`rowmill_plan::FunctionSpec::row`].

use arrow::datatypes::DataType;
use rowmill_base::{Result, SqlType};
use rowmill_plan::function::{RowKernel, RowValue};
use rowmill_plan::program::ScalarValue;
use rowmill_plan::{ExprOp, ScalarExpr};
use rowmill_storage::keyed::{ColumnValues, ValueRef};

use super::{Env, Expr, borrowed};

/// Arguments at most, so that their values need no allocation.
const ARGUMENTS_MAX: usize = 3;

/// A call of a function, whose arguments are operands of the expression, literals, and other such calls.
#[derive(Debug)]
pub(super) struct RowCall {
    kernel: RowKernel,
    arguments: Box<[RowArgument]>,
    kinds: Box<[DataType]>,
    kind: DataType,
}

#[derive(Debug)]
enum RowArgument {
    Operand(usize),
    Literal(ScalarValue),
    Call(RowCall),
}

impl RowCall {
    /// The call that `expr` is, over operands as columns. `None` if a function in it needs arrays.
    pub(super) fn of(expr: &ScalarExpr) -> Option<RowCall> {
        let ExprOp::Call(function, arguments) = &expr.op else { return None };
        let kernel = function.row.filter(|_| function.strict && arguments.len() <= ARGUMENTS_MAX)?;
        let argument = |argument: &ScalarExpr| match &argument.op {
            ExprOp::Column(operand) => Some(RowArgument::Operand(*operand)),
            ExprOp::Literal(value) => {
                let values = ColumnValues::new(value.array(), &SqlType::from_arrow(value.kind())?).ok()?;
                Some(RowArgument::Literal(match values.get(0) {
                    ValueRef::Int(value) => ScalarValue::Int(value),
                    ValueRef::Float(value) => ScalarValue::Float(value),
                    ValueRef::Interval(value) => ScalarValue::Interval(value),
                    ValueRef::Text(value) => ScalarValue::Text(value.to_owned()),
                    _ => return None,
                }))
            }
            _ => RowCall::of(argument).map(RowArgument::Call),
        };
        Some(RowCall {
            kernel,
            kinds: arguments.iter().map(|argument| argument.kind.clone()).collect(),
            arguments: arguments.iter().map(argument).collect::<Option<_>>()?,
            kind: expr.kind.clone(),
        })
    }

    /// The value for a row. `None` if the kernel for arrays must compute it.
    pub(super) fn value<'a>(&'a self, operands: &'a [(Expr, SqlType)], env: Env<'a>) -> Result<Option<ValueRef<'a>>> {
        let mut values = [RowValue::Int(0); ARGUMENTS_MAX];
        let mut has_null = false;
        for (argument, to) in self.arguments.iter().zip(&mut values) {
            let value = match argument {
                RowArgument::Operand(operand) => operands[*operand].0.value(env)?,
                RowArgument::Literal(value) => borrowed(value),
                RowArgument::Call(call) => match call.value(operands, env)? {
                    Some(value) => value,
                    None => return Ok(None),
                },
            };
            *to = match value {
                ValueRef::Int(value) => RowValue::Int(value),
                ValueRef::Float(value) => RowValue::Float(value),
                ValueRef::Interval(value) => RowValue::Interval(value),
                ValueRef::Text(value) => RowValue::Text(value),
                // We must compute all arguments before we return NULL, because a later one may be an error.
                ValueRef::Null => {
                    has_null = true;
                    continue;
                }
                _ => return Ok(None),
            };
        }
        if has_null {
            return Ok(Some(ValueRef::Null));
        }
        Ok((self.kernel)(&values[..self.arguments.len()], &self.kinds, &self.kind).map(|value| match value {
            RowValue::Int(value) => ValueRef::Int(value),
            RowValue::Float(value) => ValueRef::Float(value),
            RowValue::Interval(value) => ValueRef::Interval(value),
            RowValue::Text(value) => ValueRef::Text(value),
        }))
    }
}
