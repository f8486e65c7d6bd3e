//! Expressions of analysed plans as scalars of programs.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{Case, InList, Placeholder, ScalarFunction};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, Operator};
use rowmill_base::SqlType;
use rowmill_plan::CompareOp;
use rowmill_plan::program::{ArithmeticOp, Scalar, ScalarOp, TextFunction, Value};
use rowmill_storage::keyed::{ColumnValues, ValueRef};

use super::rows::BaseColumns;
use crate::assign::assign;
use crate::predicate::compare_op;
use crate::semantics::arithmetic_operator;

/// Values of a list that is compared one by one.
const LIST_MAX: usize = 16;

/// The number of a parameter from 0.
pub(super) fn parameter_number(placeholder: &Placeholder) -> Option<usize> {
    placeholder.id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

/// `expr`, whose columns are those of `columns`, as a scalar; `None` if there is something in it that programs do not compute.
pub(super) fn scalar(expr: &Expr, columns: &BaseColumns) -> Option<Scalar> {
    let kind = kind_of(expr, columns.schema())?;
    let lowered = |expr: &Expr| scalar(expr, columns);
    let boxed = |expr: &Expr| Some(Box::new(scalar(expr, columns)?));
    let op = match expr {
        Expr::Alias(alias) => return lowered(&alias.expr),
        Expr::Column(column) => return columns.scalar(column),
        Expr::Placeholder(placeholder) => ScalarOp::Parameter(parameter_number(placeholder)?),
        Expr::Literal(value, _) => return literal(value),
        Expr::Cast(cast) => ScalarOp::Cast(boxed(&cast.expr)?),
        Expr::Not(inner) => ScalarOp::Not(boxed(inner)?),
        Expr::Negative(inner) => ScalarOp::Negate(boxed(inner)?),
        Expr::IsNull(inner) => ScalarOp::IsNull { value: boxed(inner)?, negated: false },
        Expr::IsNotNull(inner) => ScalarOp::IsNull { value: boxed(inner)?, negated: true },
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => binary(lowered(left)?, *op, lowered(right)?)?,
        Expr::Between(between) => return range(between, columns),
        Expr::InList(list) => return in_list(list, columns),
        Expr::Case(case) => case_of(case, columns)?,
        Expr::ScalarFunction(call) => return function(call, kind, columns),
        _ => return None,
    };
    Some(Scalar { kind, op })
}

/// The type of an expression.
fn kind_of(expr: &Expr, schema: &DFSchema) -> Option<SqlType> {
    SqlType::from_arrow(&expr.get_type(schema).ok()?)
}

fn binary(left: Scalar, op: Operator, right: Scalar) -> Option<ScalarOp> {
    if let Some(op) = compare_op(op) {
        return Some(ScalarOp::Compare(op, Box::new([left, right])));
    }
    Some(match op {
        Operator::And => ScalarOp::And(vec![left, right]),
        Operator::Or => ScalarOp::Or(vec![left, right]),
        op => ScalarOp::Arithmetic(arithmetic_op(op)?, Box::new([left, right])),
    })
}

fn arithmetic_op(op: Operator) -> Option<ArithmeticOp> {
    Some(match op {
        Operator::Plus => ArithmeticOp::Plus,
        Operator::Minus => ArithmeticOp::Minus,
        Operator::Multiply => ArithmeticOp::Times,
        Operator::Divide => ArithmeticOp::Divide,
        Operator::Modulo => ArithmeticOp::Remainder,
        _ => return None,
    })
}

fn range(between: &Between, columns: &BaseColumns) -> Option<Scalar> {
    let value = scalar(&between.expr, columns)?;
    let (low, high) = (scalar(&between.low, columns)?, scalar(&between.high, columns)?);
    let lower = Scalar::compare(value.clone(), CompareOp::GreaterOrEqual, low);
    let upper = Scalar::compare(value, CompareOp::LessOrEqual, high);
    let both = Scalar::new(SqlType::Boolean, ScalarOp::And(vec![lower, upper]));
    Some(if between.negated { not(both) } else { both })
}

fn in_list(list: &InList, columns: &BaseColumns) -> Option<Scalar> {
    if list.list.is_empty() || list.list.len() > LIST_MAX {
        return None;
    }
    let value = scalar(&list.expr, columns)?;
    let equal = |item| Some(Scalar::compare(value.clone(), CompareOp::Equal, scalar(item, columns)?));
    let any = Scalar::new(SqlType::Boolean, ScalarOp::Or(list.list.iter().map(equal).collect::<Option<_>>()?));
    Some(if list.negated { not(any) } else { any })
}

fn not(of: Scalar) -> Scalar {
    Scalar::new(SqlType::Boolean, ScalarOp::Not(Box::new(of)))
}

fn case_of(case: &Case, columns: &BaseColumns) -> Option<ScalarOp> {
    let compared = match &case.expr {
        Some(compared) => Some(scalar(compared, columns)?),
        None => None,
    };
    let whens = case.when_then_expr.iter().map(|(when, then)| {
        let when = scalar(when, columns)?;
        let when = match &compared {
            Some(compared) => Scalar::compare(compared.clone(), CompareOp::Equal, when),
            None => when,
        };
        Some((when, scalar(then, columns)?))
    });
    let whens = whens.collect::<Option<_>>()?;
    let otherwise = match &case.else_expr {
        Some(otherwise) => Some(Box::new(scalar(otherwise, columns)?)),
        None => None,
    };
    Some(ScalarOp::Case { whens, otherwise })
}

fn function(call: &ScalarFunction, kind: SqlType, columns: &BaseColumns) -> Option<Scalar> {
    let arguments = || call.args.iter().map(|argument| scalar(argument, columns)).collect::<Option<Vec<_>>>();
    if let Some(op) = arithmetic_operator(&call.func) {
        let pair = <[Scalar; 2]>::try_from(arguments()?).ok()?;
        return Some(Scalar::new(kind, ScalarOp::Arithmetic(arithmetic_op(op)?, Box::new(pair))));
    }
    let text = |function| Some(ScalarOp::Text(function, arguments()?));
    let op = match call.name() {
        // What only keeps the optimiser from looking into it.
        "kept" => return scalar(call.args.first()?, columns),
        "coalesce" => ScalarOp::Coalesce(arguments()?),
        "||" => text(TextFunction::Concat)?,
        "lower" => text(TextFunction::Lower)?,
        "upper" => text(TextFunction::Upper)?,
        "substr" => text(TextFunction::Substring)?,
        "character_length" => text(TextFunction::Length)?,
        _ => return None,
    };
    Some(Scalar::new(kind, op))
}

/// A literal with its type.
pub(super) fn literal(value: &ScalarValue) -> Option<Scalar> {
    let kind = SqlType::from_arrow(&value.data_type())?;
    if value.is_null() {
        return Some(Scalar::literal(kind, Value::Null));
    }
    value_of(&value.to_array().ok()?, &kind)
}

/// A literal as a column of type `kind` stores it; `None` if it cannot.
pub(super) fn assigned(literal: &ScalarValue, kind: &SqlType) -> Option<Scalar> {
    value_of(&assign(&literal.to_array().ok()?, kind, "").ok()?, kind)
}

/// The one value of an array.
pub(super) fn value_of(values: &ArrayRef, kind: &SqlType) -> Option<Scalar> {
    let wanted = kind.arrow();
    let values = match *values.data_type() == wanted {
        true => ArrayRef::clone(values),
        false => datafusion::arrow::compute::cast(values, &wanted).ok()?,
    };
    let values = ColumnValues::new(&values, kind).ok()?;
    let value = match values.get(0) {
        ValueRef::Null => Value::Null,
        ValueRef::Bool(value) => Value::Bool(value),
        ValueRef::Int(value) => Value::Int(value),
        ValueRef::UInt(value) => Value::UInt(value),
        ValueRef::Float(value) => Value::Float(value),
        ValueRef::Decimal(value) => Value::Decimal(value),
        ValueRef::Interval(value) => Value::Interval(value),
        ValueRef::Text(value) => Value::Text(value.to_owned()),
        ValueRef::Bytes(value) => Value::Bytes(value.to_owned()),
    };
    Some(Scalar::literal(kind.clone(), value))
}

/// `expr` without casts that lose nothing and do not change how values compare.
pub(super) fn without_widening<'e>(expr: &'e Expr, schema: &DFSchema) -> &'e Expr {
    let Expr::Cast(cast) = expr else { return expr };
    let (Some(from), Some(to)) = (kind_of(&cast.expr, schema), SqlType::from_arrow(cast.field.data_type())) else {
        return expr;
    };
    match is_widening(&from, &to) {
        true => without_widening(&cast.expr, schema),
        false => expr,
    }
}

/// Whether every value of `from` is one of `to` that compares alike.
fn is_widening(from: &SqlType, to: &SqlType) -> bool {
    let digits = |kind: &SqlType| {
        Some(match kind {
            SqlType::Int8 | SqlType::UInt8 => (3, 0),
            SqlType::Int16 | SqlType::UInt16 => (5, 0),
            SqlType::Int32 | SqlType::UInt32 => (10, 0),
            SqlType::Int64 => (19, 0),
            SqlType::UInt64 => (20, 0),
            SqlType::Decimal { precision, scale } => (precision - scale, *scale),
            _ => return None,
        })
    };
    let is_signed =
        |kind: &SqlType| !matches!(kind, SqlType::UInt8 | SqlType::UInt16 | SqlType::UInt32 | SqlType::UInt64);
    match (from, to) {
        (SqlType::Text { .. }, SqlType::Text { .. }) => true,
        (SqlType::Float32, SqlType::Float64) => true,
        (from, SqlType::Decimal { .. }) => {
            digits(from).zip(digits(to)).is_some_and(|(from, to)| from.0 <= to.0 && from.1 <= to.1)
        }
        (SqlType::Decimal { .. }, _) => false,
        (from, to) => digits(from).zip(digits(to)).is_some_and(|(narrow, wide)| {
            let fits = if is_signed(from) == is_signed(to) { narrow <= wide } else { narrow < wide };
            fits && (is_signed(to) || !is_signed(from))
        }),
    }
}

/// A column of a table that a statement reads, by the number of the table.
pub(super) fn base_column(table: usize, name: &str) -> Column {
    Column::new(Some(format!("#{table}")), name)
}
