//! Which types the operators take and what they make of them, where DataFusion would decide otherwise.
//!
//! Decided when an operator is bound, so that everything planned above it sees the type that it will have; and once
//! more over the whole plan for the few expressions that are not bound one by one ([`super::rules::typing`]).

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::{DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::expr::{BinaryExpr, Cast, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, ReturnFieldArgs};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::alike::{needs_cast, type_of_all};
use super::arithmetic::{checked, digits_of, digits_of_integer};
use super::functions;

/// The operators of statements, bound by our rules.
#[derive(Debug)]
pub(super) struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let Some(op) = operator(&expr.op) else { return Ok(PlannerResult::Original(expr)) };
        Ok(match retype(expr.left, op, expr.right, schema) {
            Retyped::Yes(planned) => PlannerResult::Planned(planned),
            Retyped::No(left, right) => PlannerResult::Original(RawBinaryExpr { op: expr.op, left, right }),
        })
    }
}

/// The operators that have rules of ours.
fn operator(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Plus => Operator::Plus,
        BinaryOperator::Minus => Operator::Minus,
        BinaryOperator::Multiply => Operator::Multiply,
        BinaryOperator::Divide => Operator::Divide,
        BinaryOperator::Modulo => Operator::Modulo,
        BinaryOperator::StringConcat => Operator::StringConcat,
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => return None,
    })
}

/// An operator by our rules, or its operands back where DataFusion's rules are ours.
pub(super) enum Retyped {
    Yes(Expr),
    No(Expr, Expr),
}

/// Binds `left op right`.
pub(super) fn retype(left: Expr, op: Operator, right: Expr, schema: &dyn ExprSchema) -> Retyped {
    // A parameter has no type yet, and a name that cannot be resolved is reported later with its candidates.
    let (Ok(first), Ok(second)) = (type_of(&left, schema), type_of(&right, schema)) else {
        return Retyped::No(left, right);
    };
    if op == Operator::StringConcat && (first.is_null() || second.is_null()) && !is_list(&first) && !is_list(&second) {
        return Retyped::Yes(Expr::Literal(ScalarValue::Utf8View(None), None));
    }
    if is_arithmetic(op) {
        return arithmetic((left, first), op, (right, second));
    }
    if is_comparison(op) {
        return comparison((left, first), op, (right, second));
    }
    Retyped::No(left, right)
}

fn is_list(kind: &DataType) -> bool {
    matches!(kind, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
}

/// The type of `expr`, for a choice between rules.
///
/// DataFusion names every call below a call on the way to its type, which takes time cubic in their depth; an operator
/// is bound at each level, so here nothing is named.
fn type_of(expr: &Expr, schema: &dyn ExprSchema) -> Result<DataType> {
    match expr {
        Expr::Negative(operand) => type_of(operand, schema),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, right) = (type_of(left, schema)?, type_of(right, schema)?);
            if left == right && (left.is_integer() || left.is_floating()) && is_arithmetic(*op) {
                return Ok(left);
            }
            BinaryTypeCoercer::new(&left, op, &right).get_result_type()
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            let field = |arg| Ok(Arc::new(Field::new("", type_of(arg, schema)?, true)));
            let fields = args.iter().map(field).collect::<Result<Vec<_>>>()?;
            let fields = fields_with_udf(&fields, func.as_ref())?;
            let literals: Vec<_> = args.iter().map(Expr::as_literal).collect();
            let arguments = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &literals };
            Ok(func.return_field_from_args(arguments)?.data_type().clone())
        }
        other => other.get_type(schema),
    }
}

fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

fn is_arithmetic(op: Operator) -> bool {
    matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo)
}

fn arithmetic((left, first): (Expr, DataType), op: Operator, (right, second): (Expr, DataType)) -> Retyped {
    let is_exact = |kind: &DataType| is_decimal(kind) || kind.is_integer() || kind.is_null();
    if (is_decimal(&first) || is_decimal(&second)) && is_exact(&first) && is_exact(&second) {
        return Retyped::Yes(checked(exact(left, &first), op, exact(right, &second)));
    }
    let is_mixed = |a: &DataType, b: &DataType| *a == DataType::UInt64 && b.is_signed_integer();
    let mixed = is_mixed(&first, &second) || is_mixed(&second, &first);
    if mixed && matches!(op, Operator::Divide | Operator::Modulo) {
        // No integer type has all values of both.
        let (left, right) = (exact(left, &first), exact(right, &second));
        return Retyped::Yes(match op {
            Operator::Divide => functions::integer_quotient(left, right),
            _ => checked(left, op, right),
        });
    }
    match (op, &first, &second) {
        // A date is the midnight it begins with: an interval of hours leads away from it.
        (Operator::Plus | Operator::Minus, DataType::Date32, DataType::Interval(_)) => {
            Retyped::Yes(binary(to_timestamp(left), op, right))
        }
        (Operator::Plus, DataType::Interval(_), DataType::Date32) => {
            Retyped::Yes(binary(left, op, to_timestamp(right)))
        }
        (Operator::Minus, DataType::Timestamp(..), DataType::Timestamp(..)) => {
            Retyped::Yes(functions::interval_of(binary(left, op, right)))
        }
        (Operator::Minus, DataType::Timestamp(unit, zone), DataType::Date32) => {
            let midnight = cast(right, DataType::Timestamp(*unit, zone.clone()));
            Retyped::Yes(functions::interval_of(binary(left, op, midnight)))
        }
        (Operator::Minus, DataType::Date32, DataType::Timestamp(unit, zone)) => {
            let midnight = cast(left, DataType::Timestamp(*unit, zone.clone()));
            Retyped::Yes(functions::interval_of(binary(midnight, op, right)))
        }
        (Operator::Multiply | Operator::Divide, DataType::Interval(_), number) if number.is_numeric() => {
            Retyped::Yes(functions::interval_scaled(left, right, op == Operator::Divide))
        }
        (Operator::Multiply, number, DataType::Interval(_)) if number.is_numeric() => {
            Retyped::Yes(functions::interval_scaled(right, left, false))
        }
        _ => Retyped::No(left, right),
    }
}

fn comparison((left, first): (Expr, DataType), op: Operator, (right, second): (Expr, DataType)) -> Retyped {
    let Some(kind) = type_of_all([&first, &second].into_iter()) else { return Retyped::No(left, right) };
    if needs_cast(&first, &kind) {
        return Retyped::Yes(binary(cast(left, kind), op, right));
    }
    if needs_cast(&second, &kind) {
        return Retyped::Yes(binary(left, op, cast(right, kind)));
    }
    Retyped::No(left, right)
}

/// The type that holds a UUID.
pub(super) fn is_uuid(kind: &DataType) -> bool {
    *kind == DataType::FixedSizeBinary(16)
}

pub(super) fn is_decimal(kind: &DataType) -> bool {
    matches!(kind, DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..))
}

/// An operand of decimal arithmetic. A literal integer needs only its own digits, not those of its type.
fn exact(operand: Expr, kind: &DataType) -> Expr {
    if let Expr::Literal(ScalarValue::Int64(Some(value)), _) = operand {
        let value = i128::from(value);
        return Expr::Literal(ScalarValue::Decimal128(Some(value), digits_of(value), 0), None);
    }
    match kind {
        DataType::Decimal32(digits, scale) | DataType::Decimal64(digits, scale) => {
            cast(operand, DataType::Decimal128(*digits, *scale))
        }
        kind => match digits_of_integer(kind) {
            Some(digits) => cast(operand, DataType::Decimal128(digits, 0)),
            None => operand,
        },
    }
}

fn to_timestamp(date: Expr) -> Expr {
    cast(date, DataType::Timestamp(TimeUnit::Microsecond, None))
}

pub(super) fn cast(expr: Expr, kind: DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), kind))
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}
