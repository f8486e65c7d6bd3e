//! The two passes over a plan: types before DataFusion brings operands together, checks after.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::functions_nested::expr_fn::array_remove_all;
use datafusion::logical_expr::expr::{
    Between, BinaryExpr, Cast, InList, InSubquery, Like, ScalarFunction, TryCast, WindowFunctionParams,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, WindowFrame, WindowFrameBound,
    WindowFrameUnits, lit,
};
use datafusion::optimizer::AnalyzerRule;
use rowmill_base::{Error, ErrorKind};

use super::alike::{CHOOSERS, make_alike, needs_cast, type_of_all};
use super::arithmetic::{checked, digits_of_integer};
use super::functions;
use super::typing::{Retyped, cast, is_uuid, retype};
use crate::errors::{to_datafusion, type_name};
use crate::logical::rule;
use crate::types::{CHARS_MAX_KEY, is_text};

/// The pass before types are brought together.
pub(super) fn typing() -> Arc<dyn AnalyzerRule + Send + Sync> {
    rule("rowmill_typing", |plan| rewrite_all(plan, give_types))
}

/// The pass after.
pub(super) fn checking() -> Arc<dyn AnalyzerRule + Send + Sync> {
    rule("rowmill_checking", |plan| rewrite_all(plan, give_checks))
}

/// A rewrite of one expression whose parts are rewritten already.
type Rewrite = fn(Expr, &DFSchema) -> Result<Transformed<Expr>>;

fn rewrite_all(plan: LogicalPlan, rewrite: Rewrite) -> Result<LogicalPlan> {
    Ok(plan.transform_up_with_subqueries(|plan| rewrite_node(plan, rewrite))?.data)
}

/// Rewrites the expressions of one node, which keep their names, and its schema after them.
fn rewrite_node(plan: LogicalPlan, rewrite: Rewrite) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|expr| rewrite(expr, &schema))?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })?;
    if rewritten.transformed { rewritten.map_data(LogicalPlan::recompute_schema) } else { Ok(rewritten) }
}

fn give_types(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => Ok(match retype(*left, op, *right, schema) {
            Retyped::Yes(expr) => Transformed::yes(expr),
            Retyped::No(left, right) => {
                Transformed::no(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
            }
        }),
        Expr::Like(like) => escape(like),
        Expr::InList(InList { mut expr, mut list, negated }) => {
            let is_changed = make_alike(std::iter::once(&mut *expr).chain(&mut list), schema);
            Ok(Transformed::new_transformed(Expr::InList(InList { expr, list, negated }), is_changed))
        }
        Expr::Between(Between { mut expr, negated, mut low, mut high }) => {
            let is_changed = make_alike([&mut *expr, &mut *low, &mut *high].into_iter(), schema);
            Ok(Transformed::new_transformed(Expr::Between(Between::new(expr, negated, low, high)), is_changed))
        }
        Expr::Case(mut case) => {
            let (whens, thens): (Vec<_>, Vec<_>) =
                case.when_then_expr.iter_mut().map(|(when, then)| (&mut **when, &mut **then)).unzip();
            let results = thens.into_iter().chain(case.else_expr.as_deref_mut());
            let mut is_changed = make_alike(results, schema);
            if let Some(compared) = case.expr.as_deref_mut() {
                is_changed |= make_alike(std::iter::once(compared).chain(whens), schema);
            }
            Ok(Transformed::new_transformed(Expr::Case(case), is_changed))
        }
        Expr::InSubquery(InSubquery { mut expr, mut subquery, negated }) => {
            let is_changed = alike_subquery(&mut expr, &mut subquery, schema)?;
            Ok(Transformed::new_transformed(Expr::InSubquery(InSubquery { expr, subquery, negated }), is_changed))
        }
        Expr::ScalarFunction(mut call) if CHOOSERS.contains(&call.func.name()) => {
            let is_changed = make_alike(call.args.iter_mut(), schema);
            Ok(Transformed::new_transformed(Expr::ScalarFunction(call), is_changed))
        }
        Expr::ScalarFunction(call) if is_length_of_bytes(&call, schema) => {
            Ok(Transformed::yes(functions::length_of_bytes(call.args)))
        }
        Expr::ScalarFunction(call) if call.func.name() == "to_char" && has_no_field(&call) => {
            let error = Error::new(ErrorKind::InvalidParameter, "the pattern of to_char has no field of a time");
            Err(to_datafusion(error.hint("fields begin with a percent sign: '%Y-%m-%d %H:%M:%S'")))
        }
        Expr::ScalarFunction(mut call) if call.func.name() == "array_remove" && call.args.len() == 2 => {
            let (element, list) = (call.args.pop(), call.args.pop());
            let (Some(list), Some(element)) = (list, element) else { return internal_err!("both were there") };
            Ok(Transformed::yes(array_remove_all(list, element)))
        }
        Expr::ScalarFunction(mut call) if call.func.name() == "regexp_replace" && call.args.len() > 2 => {
            // Only \1 stands for a group, so that the other sign for one is doubled.
            let Expr::Literal(value, _) = &call.args[2] else { return Ok(Transformed::no(Expr::ScalarFunction(call))) };
            let Some(Some(text)) = value.try_as_str().filter(|text| text.is_some_and(|text| text.contains('$'))) else {
                return Ok(Transformed::no(Expr::ScalarFunction(call)));
            };
            let doubled = ScalarValue::try_from_string(text.replace('$', "$$"), &value.data_type())?;
            call.args[2] = Expr::Literal(doubled, None);
            Ok(Transformed::yes(Expr::ScalarFunction(call)))
        }
        Expr::SimilarTo(like) => similar_to(like),
        Expr::WindowFunction(mut call) => {
            let is_changed = frame_of_peers(&mut call.params, schema);
            Ok(Transformed::new_transformed(Expr::WindowFunction(call), is_changed))
        }
        Expr::ScalarFunction(mut call) if call.func.name() == "date_trunc" && call.args.len() == 2 => {
            // Truncating a date gives a timestamp, of the unit that timestamps have.
            let is_date = call.args[1].get_type(schema).is_ok_and(|kind| kind == DataType::Date32);
            if is_date && let Some(date) = call.args.pop() {
                call.args.push(cast(date, DataType::Timestamp(TimeUnit::Microsecond, None)));
            }
            Ok(Transformed::new_transformed(Expr::ScalarFunction(call), is_date))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether the pattern of a call of `to_char` is a constant that would be its result as it is.
fn has_no_field(call: &ScalarFunction) -> bool {
    match call.args.get(1) {
        Some(Expr::Literal(pattern, _)) => {
            pattern.try_as_str().flatten().is_some_and(|pattern| !pattern.is_empty() && !pattern.contains('%'))
        }
        _ => false,
    }
}

fn is_length_of_bytes(call: &ScalarFunction, schema: &DFSchema) -> bool {
    let is_bytes = |kind: DataType| matches!(kind, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    call.func.name() == "character_length" && call.args.len() == 1 && call.args[0].get_type(schema).is_ok_and(is_bytes)
}

/// Counts the frame in groups of peers where it is a range without distances, which is the same: the planner asks for a
/// type that distances can be added to. Whether it was one.
fn frame_of_peers(params: &mut WindowFunctionParams, schema: &DFSchema) -> bool {
    let WindowFunctionParams { order_by, window_frame: frame, .. } = params;
    let has_distance = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => !distance.is_null(),
        WindowFrameBound::CurrentRow => false,
    };
    let is_range = frame.units == WindowFrameUnits::Range;
    let [key] = order_by.as_slice() else { return false };
    let has_no_distances = |kind: DataType| !kind.is_numeric() && !is_text(&kind) && !matches!(kind, DataType::Null);
    if !is_range || has_distance(&frame.start_bound) || has_distance(&frame.end_bound) {
        return false;
    }
    let is_changed = key.expr.get_type(schema).is_ok_and(has_no_distances);
    if is_changed {
        *frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, frame.start_bound.clone(), frame.end_bound.clone());
    }
    is_changed
}

/// Makes the column of a subquery and what is looked for in it alike.
fn alike_subquery(expr: &mut Expr, subquery: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let inner = subquery.subquery.schema();
    let [field] = inner.fields().as_ref() else { return Ok(false) };
    let from = expr.get_type(schema)?;
    let Some(kind) = type_of_all([&from, field.data_type()].into_iter()) else { return Ok(false) };
    if needs_cast(field.data_type(), &kind) {
        let column = Expr::Column(inner.columns().remove(0));
        let name = column.schema_name().to_string();
        let plan =
            LogicalPlanBuilder::from(Arc::clone(&subquery.subquery)).project([cast(column, kind).alias(name)])?;
        subquery.subquery = Arc::new(plan.build()?);
        return Ok(true);
    }
    if needs_cast(&from, &kind) {
        *expr = cast(std::mem::take(expr), kind);
        return Ok(true);
    }
    Ok(false)
}

/// `SIMILAR TO` as the regular expression that it means.
fn similar_to(like: Like) -> Result<Transformed<Expr>> {
    let Like { negated, expr, pattern, escape_char, .. } = like;
    let text = match pattern.as_ref() {
        Expr::Literal(value, _) => value.try_as_str().map(|text| text.map(str::to_owned)),
        _ => None,
    };
    let Some(text) = text else {
        let error = Error::new(ErrorKind::Unsupported, "SIMILAR TO needs a pattern that is written out");
        return Err(to_datafusion(error.hint("x ~ pattern takes any regular expression")));
    };
    let Some(text) = text else { return Ok(Transformed::yes(lit(ScalarValue::Boolean(None)))) };
    let escape = escape_char.unwrap_or('\\');
    let mut regex = String::from("^(?s:");
    let mut chars = text.chars();
    while let Some(next) = chars.next() {
        match next {
            next if next == escape => regex.extend(chars.next().map(|next| regex::escape(&next.to_string()))),
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '.' | '^' | '$' | '\\' => regex.extend(['\\', next]),
            next => regex.push(next),
        }
    }
    regex.push_str(")$");
    let op = if negated { Operator::RegexNotMatch } else { Operator::RegexMatch };
    Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(expr, op, Box::new(lit(regex))))))
}

/// `LIKE ... ESCAPE '!'` with the backslash instead, which is the escape that the operators know.
fn escape(mut like: Like) -> Result<Transformed<Expr>> {
    let Some(escape) = like.escape_char.take() else { return Ok(Transformed::no(Expr::Like(like))) };
    if escape == '\\' {
        return Ok(Transformed::yes(Expr::Like(like)));
    }
    let Expr::Literal(pattern, metadata) = like.pattern.as_ref() else {
        let error = Error::new(ErrorKind::Unsupported, "ESCAPE needs a pattern that is written out");
        return Err(to_datafusion(error));
    };
    let Some(Some(text)) = pattern.try_as_str() else { return Ok(Transformed::yes(Expr::Like(like))) };
    let mut escaped = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(next) = chars.next() {
        match next {
            next if next == escape => match chars.next() {
                Some(literal) => escaped.extend(['\\', literal]),
                None => {
                    let error = Error::new(ErrorKind::InvalidParameter, "a LIKE pattern cannot end with its escape");
                    return Err(to_datafusion(error));
                }
            },
            '\\' => escaped.push_str("\\\\"),
            next => escaped.push(next),
        }
    }
    let kind = pattern.data_type();
    let pattern = ScalarValue::try_from_string(escaped, &kind)?;
    like.pattern = Box::new(Expr::Literal(pattern, metadata.clone()));
    Ok(Transformed::yes(Expr::Like(like)))
}

fn give_checks(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => Ok(check_operator(*left, op, *right, schema)),
        Expr::Negative(inner) if inner.get_type(schema)?.is_floating() => {
            Ok(Transformed::yes(functions::canonical(Expr::Negative(inner))))
        }
        Expr::Negative(inner) if inner.get_type(schema)?.is_signed_integer() => {
            // The least number has no opposite.
            let zero = Expr::Literal(ScalarValue::new_zero(&inner.get_type(schema)?)?, None);
            Ok(Transformed::yes(checked(zero, Operator::Minus, *inner)))
        }
        Expr::Cast(inner) => check_cast(inner, schema),
        Expr::TryCast(inner) => check_try_cast(inner, schema),
        Expr::ScalarFunction(call) if FLOAT_FUNCTIONS.contains(&call.func.name()) => {
            let expr = Expr::ScalarFunction(call);
            if expr.get_type(schema)?.is_floating() {
                return Ok(Transformed::yes(functions::canonical(expr)));
            }
            Ok(Transformed::no(expr))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Functions whose result can be a NaN of either sign, or -0.0.
const FLOAT_FUNCTIONS: &[&str] = &[
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "cos", "cosh", "cot", "degrees",
    "exp", "floor", "ln", "log", "log10", "log2", "nanvl", "power", "radians", "round", "signum", "sin", "sinh",
    "sqrt", "tan", "tanh", "trunc",
];

fn check_operator(left: Expr, op: Operator, right: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let same = |left, right| Transformed::no(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))));
    let (Ok(first), Ok(second)) = (left.get_type(schema), right.get_type(schema)) else {
        return same(left, right);
    };
    if op == Operator::StringConcat && is_text(&first) && is_text(&second) {
        return Transformed::yes(functions::joined(left, right));
    }
    let is_sum = matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply);
    let is_arithmetic = is_sum || matches!(op, Operator::Divide | Operator::Modulo);
    if first != second || !is_arithmetic {
        return same(left, right);
    }
    if first.is_floating() && first != DataType::Float16 {
        return Transformed::yes(checked(left, op, right));
    }
    // Division of integers is checked by the operator itself.
    if is_sum && first.is_integer() && !fits(&left, op, &right, &first, schema) {
        return Transformed::yes(checked(left, op, right));
    }
    same(left, right)
}

/// Whether no values of the operands lead out of `kind`.
fn fits(left: &Expr, op: Operator, right: &Expr, kind: &DataType, schema: &DFSchema) -> bool {
    let (Some(left), Some(right)) = (bounds(left, schema, DEPTH_MAX), bounds(right, schema, DEPTH_MAX)) else {
        return false;
    };
    let (Some(all), Some(result)) = (bounds_of(kind), bounds_of_result(left, op, right)) else { return false };
    all.0 <= result.0 && result.1 <= all.1
}

/// How far down the bounds of an expression are looked for; a longer chain is checked at run time.
const DEPTH_MAX: usize = 6;

/// The smallest and the largest value that an integer expression can have.
fn bounds(expr: &Expr, schema: &DFSchema, depth: usize) -> Option<(i128, i128)> {
    let kind = expr.get_type(schema).ok()?;
    let all = bounds_of(&kind)?;
    if depth == 0 {
        return Some(all);
    }
    Some(match expr {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Decimal128(38, 0)) {
            Ok(ScalarValue::Decimal128(Some(value), ..)) => (value, value),
            _ => all,
        },
        Expr::Cast(Cast { expr, .. }) => match bounds(expr, schema, depth - 1) {
            Some(inner) if all.0 <= inner.0 && inner.1 <= all.1 => inner,
            _ => all,
        },
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let result = bounds(left, schema, depth - 1)
                .zip(bounds(right, schema, depth - 1))
                .and_then(|(left, right)| bounds_of_result(left, *op, right));
            result.filter(|result| all.0 <= result.0 && result.1 <= all.1).unwrap_or(all)
        }
        _ => all,
    })
}

fn bounds_of(kind: &DataType) -> Option<(i128, i128)> {
    Some(match kind {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

fn bounds_of_result(left: (i128, i128), op: Operator, right: (i128, i128)) -> Option<(i128, i128)> {
    let corners = match op {
        Operator::Plus => [left.0.checked_add(right.0)?, left.1.checked_add(right.1)?].to_vec(),
        Operator::Minus => [left.0.checked_sub(right.1)?, left.1.checked_sub(right.0)?].to_vec(),
        Operator::Multiply => [
            left.0.checked_mul(right.0)?,
            left.0.checked_mul(right.1)?,
            left.1.checked_mul(right.0)?,
            left.1.checked_mul(right.1)?,
        ]
        .to_vec(),
        _ => return None,
    };
    Some((*corners.iter().min()?, *corners.iter().max()?))
}

fn check_cast(Cast { expr, field }: Cast, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let from = expr.get_type(schema)?;
    let to = field.data_type().clone();
    if let Some(function) = uuid_cast(&from, &to) {
        return Ok(Transformed::yes(function(*expr)));
    }
    refuse_cast(&from, &to)?;
    if let Some(own) = own_cast(&expr, &from, &field)? {
        return Ok(Transformed::yes(own));
    }
    if let Some(chars_max) = chars_max(&field) {
        return Ok(Transformed::yes(functions::first_chars(cast(*expr, to), chars_max)));
    }
    if is_text(&from) && to.is_floating() {
        return Ok(Transformed::yes(functions::canonical(cast(*expr, to))));
    }
    if from == DataType::Float64 && to == DataType::Float32 {
        return Ok(Transformed::yes(functions::real(*expr)));
    }
    match rounded(expr.as_ref(), &from, &to) {
        Some(rounded) => Ok(Transformed::yes(Expr::Cast(Cast::new_from_field(Box::new(rounded), field)))),
        None if loses(&from, &to) && expr.as_literal().is_none() => {
            Ok(Transformed::yes(functions::kept(Expr::Cast(Cast::new_from_field(expr, field)))))
        }
        None => Ok(Transformed::no(Expr::Cast(Cast::new_from_field(expr, field)))),
    }
}

fn check_try_cast(TryCast { expr, field }: TryCast, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let from = expr.get_type(schema)?;
    let to = field.data_type().clone();
    if is_text(&from) && is_uuid(&to) {
        return Ok(Transformed::yes(functions::try_uuid_of_text(*expr)));
    }
    if let Some(function) = uuid_cast(&from, &to) {
        return Ok(Transformed::yes(function(*expr)));
    }
    refuse_cast(&from, &to)?;
    if let Some(own) = own_cast(&expr, &from, &field)? {
        return Ok(Transformed::yes(own));
    }
    let try_cast = |expr: Expr, kind| Expr::TryCast(TryCast::new(Box::new(expr), kind));
    if let Some(chars_max) = chars_max(&field) {
        return Ok(Transformed::yes(functions::first_chars(try_cast(*expr, to), chars_max)));
    }
    if is_text(&from) && to.is_floating() {
        return Ok(Transformed::yes(functions::canonical(try_cast(*expr, to))));
    }
    match rounded(expr.as_ref(), &from, &to) {
        Some(rounded) => Ok(Transformed::yes(try_cast(rounded, to))),
        None if loses(&from, &to) && expr.as_literal().is_none() => {
            Ok(Transformed::yes(functions::kept(Expr::TryCast(TryCast::new_from_field(expr, field)))))
        }
        None => Ok(Transformed::no(Expr::TryCast(TryCast::new_from_field(expr, field)))),
    }
}

/// The casts that never fail and that Arrow makes otherwise.
fn own_cast(expr: &Expr, from: &DataType, field: &Field) -> Result<Option<Expr>> {
    use DataType::{Binary, BinaryView, Date32, Interval, LargeBinary, List, Struct, Time64, Timestamp};
    let to = field.data_type();
    let is_coarser = matches!((from, to), (Timestamp(fine, _), Timestamp(coarse, _)) if coarse < fine);
    if is_coarser {
        return functions::timestamp_floor(expr.clone(), to).map(Some).map_err(to_datafusion);
    }
    let is_shown_otherwise = from.is_floating()
        || matches!(from, Binary | BinaryView | LargeBinary | Date32 | Interval(_))
        || matches!(from, List(_) | Struct(_) | Time64(_) | Timestamp(..));
    if !is_text(to) || !is_shown_otherwise {
        return Ok(None);
    }
    let text = functions::text_of(expr.clone());
    Ok(Some(match chars_max(field) {
        Some(chars_max) => functions::first_chars(text, chars_max),
        None => text,
    }))
}

/// Whether a cast between exact numbers has values that it changes or refuses.
fn loses(from: &DataType, to: &DataType) -> bool {
    let digits = |kind: &DataType| match kind {
        DataType::Decimal128(digits, scale) => Some((i16::from(*digits) - i16::from(*scale), *scale)),
        kind => digits_of_integer(kind).map(|digits| (digits.into(), 0)),
    };
    if let (Some(from), Some(to)) = (bounds_of(from), bounds_of(to)) {
        return from.0 < to.0 || from.1 > to.1;
    }
    digits(from).zip(digits(to)).is_some_and(|(from, to)| from.0 > to.0 || from.1 > to.1)
}

fn uuid_cast(from: &DataType, to: &DataType) -> Option<fn(Expr) -> Expr> {
    match (from, to) {
        (from, to) if is_text(from) && is_uuid(to) => Some(functions::uuid_of_text),
        (from, to) if is_uuid(from) && is_text(to) => Some(functions::text_of_uuid),
        _ => None,
    }
}

/// A number is no point in time: only its reader knows from when and in what unit it counts.
fn refuse_cast(from: &DataType, to: &DataType) -> Result<()> {
    let is_time = |kind: &DataType| {
        matches!(kind, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 | DataType::Time64(_))
    };
    let hint = if from.is_numeric() && is_time(to) {
        "to_timestamp_seconds(n), to_timestamp_millis(n) and DATE '1970-01-01' + n make one of a number"
    } else if is_time(from) && to.is_numeric() {
        "extract(epoch FROM t) and d - DATE '1970-01-01' make a number of it"
    } else {
        return Ok(());
    };
    let message = format!("{} cannot be cast to {}", type_name(from), type_name(to));
    Err(to_datafusion(Error::new(ErrorKind::DatatypeMismatch, message).hint(hint)))
}

fn chars_max(field: &Field) -> Option<u32> {
    field.metadata().get(CHARS_MAX_KEY)?.parse().ok()
}

/// The number to cast to an integer, rounded: floats to the nearest, ties to even; decimals with ties away from zero.
fn rounded(expr: &Expr, from: &DataType, to: &DataType) -> Option<Expr> {
    match from {
        _ if !to.is_integer() => None,
        DataType::Float32 | DataType::Float64 => Some(functions::round_even(expr.clone())),
        DataType::Decimal128(digits, scale) if *scale > 0 => {
            let whole = (i16::from(*digits) - i16::from(*scale) + 1).clamp(1, 38) as u8;
            Some(functions::kept(cast(expr.clone(), DataType::Decimal128(whole, 0))))
        }
        _ => None,
    }
}
