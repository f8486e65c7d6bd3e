//! Operators: arithmetic, comparisons, logic, patterns.

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::kinds::is_number;
use rowmill_expr::typing;
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{CompareOp, ExprOp, ScalarExpr};
use sqlparser::ast::{self, BinaryOperator, Expr, UnaryOperator, Value};

use super::Binder;
use super::place::{type_name, unsupported};
use super::time_interval::interval_text;

impl Binder<'_> {
    /// `left op right`
    pub(super) fn binary(&mut self, left: &Expr, op: &BinaryOperator, right: &Expr) -> Result<ScalarExpr> {
        if let Some(compare) = compare_op(op)
            && let (Some(left), Some(right)) = (row_of(left), row_of(right))
        {
            let left = self.exprs(left)?;
            let right = self.exprs(right)?;
            return self.compare_rows(compare, left, right);
        }
        if let Some(compare) = compare_op(op)
            && let (Some(row), Expr::Subquery(query)) = (row_of(left), right)
        {
            return self.row_beside_subquery(compare, row, query);
        }
        if let (BinaryOperator::Overlaps, Some([start, end]), Some([other_start, other_end])) =
            (op, row_of(left), row_of(right))
        {
            return self.overlaps([start, end, other_start, other_end]);
        }
        let left = self.expr(left)?;
        self.binary_over(left, op, right)
    }

    /// `(start, end) OVERLAPS (start, end)` of two periods, whose ends may also be intervals after their starts. A
    /// period does not contain its end, unless it is a single point.
    fn overlaps(&mut self, bounds: [&Expr; 4]) -> Result<ScalarExpr> {
        let mut values = Vec::with_capacity(4);
        for bound in bounds {
            let value = self.expr(bound)?;
            values.push(match (values.len() % 2, &value.kind) {
                (1, DataType::Interval(_)) => {
                    let start = values.last().cloned().expect("an end follows a start");
                    typing::arithmetic(ArithmeticOp::Plus, start, value)?
                }
                _ => value,
            });
        }
        self.bring_together(values.iter_mut().collect())?;
        let mut extremes = |name: &str| -> Result<Vec<ScalarExpr>> {
            values.chunks(2).map(|pair| self.call_named(name, pair.to_vec())).collect()
        };
        let (first, last) = (extremes("least")?, extremes("greatest")?);
        let before = |one: &ScalarExpr, op, other: &ScalarExpr| typing::compare(op, one.clone(), other.clone());
        let meet = ScalarExpr::and(vec![
            before(&first[0], CompareOp::Less, &last[1])?,
            before(&first[1], CompareOp::Less, &last[0])?,
        ]);
        Ok(ScalarExpr::or(vec![before(&first[0], CompareOp::Equal, &first[1])?, meet]))
    }

    /// Binds expressions.
    pub(super) fn exprs(&mut self, exprs: &[Expr]) -> Result<Vec<ScalarExpr>> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    /// `left op right` with a left side that is bound.
    pub(super) fn binary_over(&mut self, left: ScalarExpr, op: &BinaryOperator, right: &Expr) -> Result<ScalarExpr> {
        // `a IS DISTINCT FROM b AND c`: the parser takes everything after FROM as the right side.
        let right = self.expr(right)?;
        self.binary_of(left, op, right)
    }

    /// `left op right` for operands that are already bound.
    pub(super) fn binary_of(&mut self, left: ScalarExpr, op: &BinaryOperator, right: ScalarExpr) -> Result<ScalarExpr> {
        let (left, right) = match self.json_operator(left, op, right)? {
            Ok(value) => return Ok(value),
            Err(operands) => operands,
        };
        let (left, right) = self.typed_pair(left, right);
        if let Some(compare) = compare_op(op) {
            return typing::compare(compare, left, right);
        }
        let arithmetic = match op {
            BinaryOperator::Plus => Some(ArithmeticOp::Plus),
            BinaryOperator::Minus => Some(ArithmeticOp::Minus),
            BinaryOperator::Multiply => Some(ArithmeticOp::Times),
            BinaryOperator::Divide => Some(ArithmeticOp::Divide),
            BinaryOperator::Modulo => Some(ArithmeticOp::Remainder),
            _ => None,
        };
        if let Some(arithmetic) = arithmetic {
            return typing::arithmetic(arithmetic, left, right);
        }
        match op {
            BinaryOperator::And | BinaryOperator::Or => {
                let (left, right) = (self.boolean(left, op)?, self.boolean(right, op)?);
                Ok(logic(*op == BinaryOperator::And, left, right))
            }
            BinaryOperator::Xor => {
                let (left, right) = (self.boolean(left, op)?, self.boolean(right, op)?);
                typing::compare(CompareOp::NotEqual, left, right)
            }
            BinaryOperator::StringConcat => {
                let left = self.typed_parameter(left, &DataType::Utf8View);
                let right = self.typed_parameter(right, &DataType::Utf8View);
                typing::concat(left, right)
            }
            BinaryOperator::PGRegexMatch => self.matches(left, right, false, false),
            BinaryOperator::PGRegexIMatch => self.matches(left, right, true, false),
            BinaryOperator::PGRegexNotMatch => self.matches(left, right, false, true),
            BinaryOperator::PGRegexNotIMatch => self.matches(left, right, true, true),
            BinaryOperator::PGLikeMatch => self.like(left, right, Some('\\'), false, false),
            BinaryOperator::PGILikeMatch => self.like(left, right, Some('\\'), false, true),
            BinaryOperator::PGNotLikeMatch => self.like(left, right, Some('\\'), true, false),
            BinaryOperator::PGNotILikeMatch => self.like(left, right, Some('\\'), true, true),
            BinaryOperator::DuckIntegerDivide | BinaryOperator::MyIntegerDivide => {
                // As in DuckDB, only whole numbers are cut.
                let is_whole = |side: &ScalarExpr| side.kind.is_integer() || side.kind == DataType::Null;
                match is_whole(&left) && is_whole(&right) {
                    true => self.operator_call(op, "div", left, right),
                    false => {
                        let left = typing::cast(left, &DataType::Float64, false)?;
                        typing::arithmetic(ArithmeticOp::Divide, left, right)
                    }
                }
            }
            BinaryOperator::BitwiseAnd => self.operator_call(op, "bitwise_and", left, right),
            BinaryOperator::BitwiseOr => self.operator_call(op, "bitwise_or", left, right),
            BinaryOperator::PGBitwiseXor => self.operator_call(op, "bitwise_xor", left, right),
            BinaryOperator::BitwiseXor | BinaryOperator::PGExp => self.operator_call(op, "power", left, right),
            BinaryOperator::PGBitwiseShiftLeft => self.operator_call(op, "bitwise_shift_left", left, right),
            BinaryOperator::PGBitwiseShiftRight => self.operator_call(op, "bitwise_shift_right", left, right),
            BinaryOperator::PGStartsWith => self.operator_call(op, "starts_with", left, right),
            BinaryOperator::PGOverlap => self.operator_call(op, "array_has_any", left, right),
            BinaryOperator::AtArrow => self.operator_call(op, "array_has_all", left, right),
            BinaryOperator::ArrowAt => self.operator_call(op, "array_has_all", right, left),
            other => Err(no_operator(&left, other, &right)),
        }
    }

    /// An operator that a function of the registry computes.
    pub(super) fn operator_call(
        &mut self,
        op: &BinaryOperator,
        function: &str,
        left: ScalarExpr,
        right: ScalarExpr,
    ) -> Result<ScalarExpr> {
        let error = no_operator(&left, op, &right);
        self.call_named(function, vec![left, right]).map_err(|found| match found.kind() {
            ErrorKind::UndefinedFunction => error,
            _ => found,
        })
    }

    /// Checks that an operand of `op` is a condition.
    pub(super) fn boolean(&mut self, value: ScalarExpr, op: &impl std::fmt::Display) -> Result<ScalarExpr> {
        match value.kind {
            DataType::Boolean => Ok(value),
            DataType::Null => {
                let value = self.typed_parameter(value, &DataType::Boolean);
                self.coerce(value, &DataType::Boolean)
            }
            DataType::Utf8View if value.as_constant().is_some() => self.coerce(value, &DataType::Boolean),
            _ => {
                let message =
                    format!("a condition must be BOOLEAN, but an operand of {op} is {}", type_name(&value.kind));
                Err(Error::new(ErrorKind::DatatypeMismatch, message))
            }
        }
    }

    /// A prefix operator, for example `-a`.
    pub(super) fn unary(&mut self, op: UnaryOperator, expr: &Expr) -> Result<ScalarExpr> {
        if op == UnaryOperator::Minus
            && let Expr::Value(value) = expr
            && let Value::Number(digits, _) = &value.value
        {
            // The least integer has no positive counterpart, so we must read the sign together with the digits.
            return self.number(&format!("-{digits}"));
        }
        let value = self.expr(expr)?;
        match op {
            UnaryOperator::Minus => typing::negate(value),
            UnaryOperator::Plus => {
                match is_number(&value.kind) || matches!(value.kind, DataType::Interval(_) | DataType::Null) {
                    true => Ok(value),
                    false => {
                        let message = format!("there is no +{}", type_name(&value.kind));
                        Err(Error::new(ErrorKind::DatatypeMismatch, message))
                    }
                }
            }
            UnaryOperator::Not | UnaryOperator::BangNot => {
                let value = self.boolean(value, &"NOT")?;
                Ok(value.negated())
            }
            UnaryOperator::BitwiseNot => self.call_named("bitwise_not", vec![value]),
            UnaryOperator::PGAbs => self.call_named("abs", vec![value]),
            UnaryOperator::PGSquareRoot => self.call_named("sqrt", vec![value]),
            UnaryOperator::PGCubeRoot => self.call_named("cbrt", vec![value]),
            UnaryOperator::PGPrefixFactorial | UnaryOperator::PGPostfixFactorial => {
                self.call_named("factorial", vec![value])
            }
            other => Err(unsupported(format!("the operator {other} in front of a value"))),
        }
    }

    /// `x IS ...`
    pub(super) fn is_form(&mut self, expr: &Expr) -> Result<ScalarExpr> {
        let (value, wanted, negated) = match expr {
            Expr::IsNull(value) => return self.is_null(value, false),
            Expr::IsNotNull(value) => return self.is_null(value, true),
            Expr::IsUnknown(value) | Expr::IsNotUnknown(value) => {
                let value = self.expr(value)?;
                let value = Box::new(self.boolean(value, &"IS UNKNOWN")?);
                let negated = matches!(expr, Expr::IsNotUnknown(_));
                return Ok(ScalarExpr::new(DataType::Boolean, ExprOp::IsNull { value, negated }));
            }
            Expr::IsDistinctFrom(left, right) => return self.is_distinct(left, right, false),
            Expr::IsNotDistinctFrom(left, right) => return self.is_distinct(left, right, true),
            Expr::IsTrue(value) => (value, true, true),
            Expr::IsNotTrue(value) => (value, true, false),
            Expr::IsFalse(value) => (value, false, true),
            Expr::IsNotFalse(value) => (value, false, false),
            other => return Err(unsupported(format!("{other}"))),
        };
        let value = self.expr(value)?;
        let value = self.boolean(value, &"IS")?;
        typing::is_distinct(value, ScalarExpr::literal(wanted), negated)
    }

    fn is_null(&mut self, value: &Expr, negated: bool) -> Result<ScalarExpr> {
        if let Some(row) = row_of(value) {
            // A row is NULL if all of its values are, and not NULL if none is.
            let parts = self.exprs(row)?;
            let parts = parts.into_iter().map(|part| null_test(part, negated)).collect();
            return Ok(ScalarExpr::and(parts));
        }
        let value = self.expr(value)?;
        Ok(null_test(value, negated))
    }

    /// `left IS [NOT] DISTINCT FROM right`. The parser takes everything after FROM as the right side: `a IS DISTINCT
    /// FROM b AND c` is read as `a IS DISTINCT FROM (b AND c)`. An expression in parentheses is a node of its own,
    /// so that AND and OR without them can be turned round here.
    fn is_distinct(&mut self, left: &Expr, right: &Expr, negated: bool) -> Result<ScalarExpr> {
        let mut looser = Vec::new();
        let mut operand = right;
        while let Expr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } = operand {
            looser.push((op, &**right));
            operand = left;
        }
        let mut bound = match (row_of(left), row_of(operand)) {
            (Some(left), Some(right)) if left.len() == right.len() => {
                let (left, right) = (self.exprs(left)?, self.exprs(right)?);
                let mut parts = Vec::with_capacity(left.len());
                for (left, right) in left.into_iter().zip(right) {
                    let (left, right) = self.typed_pair(left, right);
                    parts.push(typing::is_distinct(left, right, negated)?);
                }
                if negated { ScalarExpr::and(parts) } else { ScalarExpr::or(parts) }
            }
            _ => {
                let (left, right) = (self.expr(left)?, self.expr(operand)?);
                let (left, right) = self.typed_pair(left, right);
                typing::is_distinct(left, right, negated)?
            }
        };
        while let Some((op, right)) = looser.pop() {
            bound = self.binary_over(bound, op, right)?;
        }
        Ok(bound)
    }

    /// `(a, b) op (x, y)`
    pub(super) fn compare_rows(
        &mut self,
        op: CompareOp,
        left: Vec<ScalarExpr>,
        right: Vec<ScalarExpr>,
    ) -> Result<ScalarExpr> {
        if left.len() != right.len() {
            let message = format!("a row of {} values is compared with one of {}", left.len(), right.len());
            return Err(Error::new(ErrorKind::CardinalityViolation, message));
        }
        let mut pairs = (Vec::with_capacity(left.len()), Vec::with_capacity(left.len()));
        for (left, right) in left.into_iter().zip(right) {
            let (mut left, mut right) = self.typed_pair(left, right);
            let Some(kind) = typing::comparison_kind(&[&left, &right]) else {
                return typing::compare(op, left, right);
            };
            left = self.coerce(left, &kind)?;
            right = self.coerce(right, &kind)?;
            pairs.0.push(left);
            pairs.1.push(right);
        }
        let (mut left, mut right) = pairs;
        if left.len() == 1 {
            return Ok(ScalarExpr::compare(left.remove(0), op, right.remove(0)));
        }
        Ok(ScalarExpr::new(DataType::Boolean, ExprOp::CompareRows(op, left, right)))
    }

    /// `x [NOT] BETWEEN low AND high`
    pub(super) fn between(&mut self, expr: &Expr, negated: bool, low: &Expr, high: &Expr) -> Result<ScalarExpr> {
        let above = self.binary(expr, &BinaryOperator::GtEq, low)?;
        let below = self.binary(expr, &BinaryOperator::LtEq, high)?;
        let both = logic(true, above, below);
        Ok(if negated { both.negated() } else { both })
    }

    /// `x [NOT] IN (a, b, ...)`
    pub(super) fn in_list(&mut self, expr: &Expr, list: &[Expr], negated: bool) -> Result<ScalarExpr> {
        if let Some(row) = row_of(expr) {
            return self.row_in_list(row, list, negated);
        }
        if let Some(text) = interval_text(list) {
            return self.in_time_interval(expr, text, negated);
        }
        let value = self.expr(expr)?;
        if list.is_empty() {
            return Ok(ScalarExpr::literal(negated));
        }
        let items = self.exprs(list)?;
        self.in_values(value, items, negated)
    }

    /// `value [NOT] IN (items)` of bound values.
    pub(super) fn in_values(
        &mut self,
        value: ScalarExpr,
        mut items: Vec<ScalarExpr>,
        negated: bool,
    ) -> Result<ScalarExpr> {
        let kind_of_items = items.iter().map(|item| &item.kind).find(|kind| **kind != DataType::Null).cloned();
        let value = self.typed_parameter(value, &kind_of_items.unwrap_or(DataType::Null));
        let kind = value.kind.clone();
        items = items.into_iter().map(|item| self.typed_parameter(item, &kind)).collect();
        let all: Vec<&ScalarExpr> = std::iter::once(&value).chain(&items).collect();
        let Some(kind) = typing::comparison_kind(&all) else {
            // We report the error for the first item that cannot be compared with the value.
            for item in items {
                typing::compare(CompareOp::Equal, value.clone(), item)?;
            }
            let message = format!("the values of IN have no common type with {}", type_name(&value.kind));
            return Err(Error::new(ErrorKind::DatatypeMismatch, message));
        };
        let value = self.coerce(value, &kind)?;
        let list = items.into_iter().map(|item| self.coerce(item, &kind)).collect::<Result<Vec<_>>>()?;
        Ok(ScalarExpr::new(DataType::Boolean, ExprOp::InList { value: Box::new(value), list, negated }))
    }

    /// `(a, b) [NOT] IN ((1, 2), ...)`
    fn row_in_list(&mut self, row: &[Expr], list: &[Expr], negated: bool) -> Result<ScalarExpr> {
        let left = self.exprs(row)?;
        let mut parts = Vec::with_capacity(list.len());
        for item in list {
            let Some(item) = row_of(item) else {
                let message = format!("a row of {} values is compared with the value {item}", left.len());
                return Err(Error::new(ErrorKind::CardinalityViolation, message));
            };
            let right = self.exprs(item)?;
            parts.push(self.compare_rows(CompareOp::Equal, left.clone(), right)?);
        }
        let any = ScalarExpr::or(parts);
        Ok(if negated { any.negated() } else { any })
    }

    /// Binds LIKE, ILIKE and SIMILAR forms.
    pub(super) fn like_form(&mut self, expr: &Expr) -> Result<ScalarExpr> {
        match expr {
            Expr::Like { any: true, negated, expr: value, pattern, escape_char }
            | Expr::ILike { any: true, negated, expr: value, pattern, escape_char } => {
                let escape = escape_of(escape_char.as_ref())?;
                let ignores_case = matches!(expr, Expr::ILike { .. });
                let patterns = match &**pattern {
                    Expr::Nested(inner) => inner,
                    other => other,
                };
                let (Expr::Array(ast::Array { elem: patterns, .. }) | Expr::Tuple(patterns)) = patterns else {
                    let error = unsupported("LIKE ANY with patterns that are not written in the statement");
                    return Err(error.hint("write LIKE ANY (ARRAY['a%', 'b%'])"));
                };
                let value = self.expr(value)?;
                let mut any = Vec::with_capacity(patterns.len());
                for pattern in patterns {
                    let pattern = self.expr(pattern)?;
                    any.push(self.like(value.clone(), pattern, escape, *negated, ignores_case)?);
                }
                Ok(if any.is_empty() { ScalarExpr::literal(false) } else { ScalarExpr::or(any) })
            }
            Expr::Like { negated, expr: value, pattern, escape_char, .. }
            | Expr::ILike { negated, expr: value, pattern, escape_char, .. } => {
                let escape = escape_of(escape_char.as_ref())?;
                let (value, pattern) = (self.expr(value)?, self.expr(pattern)?);
                self.like(value, pattern, escape, *negated, matches!(expr, Expr::ILike { .. }))
            }
            Expr::SimilarTo { negated, expr: value, pattern, escape_char } => {
                let mut arguments = vec![self.expr(value)?, self.expr(pattern)?];
                if let Some(escape) = escape_of(escape_char.as_ref())?.filter(|escape| *escape != '\\') {
                    arguments.push(ScalarExpr::literal(escape.to_string().as_str()));
                }
                let found = self.call_named("similar_to", arguments)?;
                Ok(if *negated { found.negated() } else { found })
            }
            Expr::RLike { negated, expr: value, pattern, .. } => {
                let (value, pattern) = (self.expr(value)?, self.expr(pattern)?);
                self.matches(value, pattern, false, *negated)
            }
            other => Err(unsupported(format!("{other}"))),
        }
    }

    fn like(
        &mut self,
        value: ScalarExpr,
        pattern: ScalarExpr,
        escape: Option<char>,
        negated: bool,
        ignore_case: bool,
    ) -> Result<ScalarExpr> {
        let value = self.text_operand(value, "LIKE")?;
        let pattern = self.text_operand(pattern, "LIKE")?;
        let op = ExprOp::Like { value: Box::new(value), pattern: Box::new(pattern), escape, negated, ignore_case };
        Ok(ScalarExpr::new(DataType::Boolean, op))
    }

    fn text_operand(&mut self, value: ScalarExpr, operator: &str) -> Result<ScalarExpr> {
        match value.kind {
            DataType::Utf8View => Ok(value),
            DataType::Null => {
                let value = self.typed_parameter(value, &DataType::Utf8View);
                self.coerce(value, &DataType::Utf8View)
            }
            _ => {
                let message = format!("{operator} takes texts, not {}", type_name(&value.kind));
                Err(Error::new(ErrorKind::DatatypeMismatch, message).hint("convert it with CAST(... AS TEXT)"))
            }
        }
    }

    /// `value ~ pattern`
    fn matches(
        &mut self,
        value: ScalarExpr,
        pattern: ScalarExpr,
        ignore_case: bool,
        negated: bool,
    ) -> Result<ScalarExpr> {
        let mut arguments = vec![self.text_operand(value, "~")?, self.text_operand(pattern, "~")?];
        if ignore_case {
            arguments.push(ScalarExpr::literal("i"));
        }
        let found = self.call_named("regexp_like", arguments)?;
        Ok(if negated { found.negated() } else { found })
    }
}

/// Builds `left AND right` or `left OR right` without nesting one AND in another.
pub(super) fn logic(is_and: bool, left: ScalarExpr, right: ScalarExpr) -> ScalarExpr {
    let mut parts = Vec::new();
    for side in [left, right] {
        match (side.op, is_and) {
            (ExprOp::And(inner), true) | (ExprOp::Or(inner), false) => match parts.is_empty() {
                true => parts = inner,
                false => parts.extend(inner),
            },
            (op, _) => parts.push(ScalarExpr::new(side.kind, op)),
        }
    }
    ScalarExpr::new(DataType::Boolean, if is_and { ExprOp::And(parts) } else { ExprOp::Or(parts) })
}

fn null_test(value: ScalarExpr, negated: bool) -> ScalarExpr {
    ScalarExpr::new(DataType::Boolean, ExprOp::IsNull { value: Box::new(value), negated })
}

/// The comparison for an operator, if it is one.
pub(super) fn compare_op(op: &BinaryOperator) -> Option<CompareOp> {
    Some(match op {
        BinaryOperator::Eq => CompareOp::Equal,
        BinaryOperator::NotEq => CompareOp::NotEqual,
        BinaryOperator::Lt => CompareOp::Less,
        BinaryOperator::LtEq => CompareOp::LessOrEqual,
        BinaryOperator::Gt => CompareOp::Greater,
        BinaryOperator::GtEq => CompareOp::GreaterOrEqual,
        _ => return None,
    })
}

/// The values of a row: `(a, b)` or `ROW(a, b)`.
pub(super) fn row_of(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(values) => Some(values),
        Expr::Nested(inner) => row_of(inner),
        _ => None,
    }
}

/// The character after ESCAPE, or the backslash by default.
fn escape_of(escape: Option<&ast::ValueWithSpan>) -> Result<Option<char>> {
    let Some(escape) = escape else { return Ok(Some('\\')) };
    let text = match &escape.value {
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => text,
        other => return Err(unsupported(format!("ESCAPE {other}"))),
    };
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (first, None) => Ok(first),
        _ => {
            let message = format!("ESCAPE takes one character or none, not '{text}'");
            Err(Error::new(ErrorKind::InvalidParameter, message))
        }
    }
}

fn no_operator(left: &ScalarExpr, op: &BinaryOperator, right: &ScalarExpr) -> Error {
    let message = format!("there is no {} {op} {}", type_name(&left.kind), type_name(&right.kind));
    Error::new(ErrorKind::DatatypeMismatch, message)
}
