//! The values that a path selects. Values are pieces of the document's text, or texts of their own that were computed.

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;

use rowmill_base::{Error, ErrorKind};

use super::{PathAccess, PathComparison, PathExpr, PathMethod, PathOp, SqlPath};
use crate::json::parts::{items, members};
use crate::json::plain_string;
use crate::json::tree::JsonNode;
use crate::text::json::JsonKind;

/// The most steps that one evaluation may take, because filters inside of filters multiply.
const STEPS_MAX: u64 = 10_000_000;

/// What a path is evaluated over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathInput<'d> {
    pub(crate) document: &'d str,
    /// An object with the values of `$name`.
    pub(crate) variables: Option<&'d str>,
}

/// Why a path has no result.
#[derive(Debug)]
pub(crate) enum PathFailure {
    /// The document does not fit the path. A filter takes this for unknown, and a silent function for no result.
    Misfit(Error),
    /// The evaluation takes too long.
    TooLong(Error),
}

impl PathFailure {
    /// The error that a user sees.
    pub(crate) fn into_error(self) -> Error {
        match self {
            PathFailure::Misfit(error) | PathFailure::TooLong(error) => error,
        }
    }
}

type Found<T> = Result<T, PathFailure>;
type Value<'d> = Cow<'d, str>;

impl SqlPath {
    /// The values that the path selects. A comparison selects its truth value, or null if that is unknown.
    pub(crate) fn values<'d>(&self, input: PathInput<'d>) -> Found<Vec<Value<'d>>> {
        let evaluation = Evaluation { input, is_lax: self.is_lax, steps: Cell::new(0) };
        let root = Cow::Borrowed(input.document);
        evaluation.values(&self.root, &Scope { current: &root, last: None })
    }
}

struct Evaluation<'d> {
    input: PathInput<'d>,
    is_lax: bool,
    steps: Cell<u64>,
}

/// What `@` and `last` mean at a place.
#[derive(Clone, Copy)]
struct Scope<'s, 'd> {
    current: &'s Value<'d>,
    last: Option<i64>,
}

fn misfit<T>(what: impl Into<String>) -> Found<T> {
    Err(PathFailure::Misfit(Error::new(ErrorKind::InvalidParameter, format!("a path of JSON: {}", what.into()))))
}

impl<'d> Evaluation<'d> {
    fn step(&self) -> Found<()> {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > STEPS_MAX {
            let message = format!("a path takes more than {STEPS_MAX} steps in one document");
            return Err(PathFailure::TooLong(Error::new(ErrorKind::ResultTooLarge, message)));
        }
        Ok(())
    }

    fn values(&self, expr: &PathExpr, scope: &Scope<'_, 'd>) -> Found<Vec<Value<'d>>> {
        self.step()?;
        Ok(match expr {
            PathExpr::Root => vec![Cow::Borrowed(self.input.document)],
            PathExpr::Current => vec![scope.current.clone()],
            PathExpr::Variable(name) => {
                let variables = self.input.variables.filter(|text| JsonKind::of(text) == JsonKind::Object);
                let found = variables.and_then(|variables| member(&Cow::Borrowed(variables), name));
                match found {
                    Some(value) => vec![value],
                    // PostgreSQL does not suppress this error either.
                    None => {
                        let message = format!("a path of JSON has no variable \"{name}\"");
                        return Err(PathFailure::TooLong(Error::new(ErrorKind::UndefinedObject, message)));
                    }
                }
            }
            PathExpr::Last => match scope.last {
                Some(last) => vec![number(last)],
                None => return misfit("last is used outside of brackets"),
            },
            PathExpr::Literal(text) => vec![Cow::Owned(text.clone())],
            PathExpr::Access(of, access) => self.accessed(self.values(of, scope)?, access, scope)?,
            PathExpr::Negated(of) | PathExpr::Positive(of) => {
                let is_negated = matches!(expr, PathExpr::Negated(_));
                let mut values = Vec::new();
                for value in self.unwrapped(self.values(of, scope)?) {
                    let Some(read) = PathNumber::of(&value) else { return misfit("+ and - take numbers") };
                    values.push(if is_negated { Cow::Owned(read.negated().to_string()) } else { value });
                }
                values
            }
            PathExpr::Arithmetic(op, sides) => {
                let mut numbers = Vec::with_capacity(2);
                for side in sides.iter() {
                    let values = self.unwrapped(self.values(side, scope)?);
                    match values.as_slice() {
                        [one] if PathNumber::of(one).is_some() => numbers.extend(PathNumber::of(one)),
                        _ => return misfit(format!("an operand of {op:?} is no single number")),
                    }
                }
                match numbers[0].combined(*op, &numbers[1]) {
                    Some(result) => vec![Cow::Owned(result.to_string())],
                    None => return misfit("a division by zero, or a number out of range"),
                }
            }
            predicate => {
                let text = match self.truth(predicate, scope)? {
                    Some(true) => "true",
                    Some(false) => "false",
                    None => "null",
                };
                vec![Cow::Borrowed(text)]
            }
        })
    }

    /// In lax mode, arrays stand for their items.
    fn unwrapped(&self, values: Vec<Value<'d>>) -> Vec<Value<'d>> {
        if !self.is_lax || !values.iter().any(|value| JsonKind::of(value) == JsonKind::Array) {
            return values;
        }
        let unwrap = |value: Value<'d>| match JsonKind::of(&value) {
            JsonKind::Array => items_of(&value),
            _ => vec![value],
        };
        values.into_iter().flat_map(unwrap).collect()
    }

    fn accessed(&self, of: Vec<Value<'d>>, access: &PathAccess, scope: &Scope<'_, 'd>) -> Found<Vec<Value<'d>>> {
        let keeps_arrays = matches!(
            access,
            PathAccess::Items
                | PathAccess::Positions(_)
                | PathAccess::Deep { .. }
                | PathAccess::Method(PathMethod::Type | PathMethod::Size)
        );
        let of = if keeps_arrays { of } else { self.unwrapped(of) };
        let mut found = Vec::new();
        for value in of {
            self.step()?;
            let kind = JsonKind::of(&value);
            match access {
                PathAccess::Key(key) => match (kind == JsonKind::Object).then(|| member(&value, key)).flatten() {
                    Some(member) => found.push(member),
                    None if self.is_lax => {}
                    None => return misfit(format!("there is no member \"{key}\"")),
                },
                PathAccess::Members if kind == JsonKind::Object => found.extend(members_of(&value)),
                PathAccess::Items if kind == JsonKind::Array => found.extend(items_of(&value)),
                PathAccess::Items if self.is_lax => found.push(value),
                PathAccess::Members if self.is_lax => {}
                PathAccess::Members => return misfit(".* takes an object"),
                PathAccess::Items => return misfit("[*] takes an array"),
                PathAccess::Positions(positions) => self.at_positions(&value, positions, scope, &mut found)?,
                PathAccess::Deep { first, last } => self.deep(value, 0, (*first, *last), &mut found)?,
                PathAccess::Filter(condition) => {
                    let inner = Scope { current: &value, last: scope.last };
                    if self.truth(condition, &inner)? == Some(true) {
                        found.push(value);
                    }
                }
                PathAccess::Method(method) => self.method(&value, *method, &mut found)?,
            }
        }
        Ok(found)
    }

    fn at_positions(
        &self,
        value: &Value<'d>,
        positions: &[(PathExpr, Option<PathExpr>)],
        scope: &Scope<'_, 'd>,
        found: &mut Vec<Value<'d>>,
    ) -> Found<()> {
        let list = match JsonKind::of(value) {
            JsonKind::Array => items_of(value),
            _ if self.is_lax => vec![value.clone()],
            _ => return misfit("a position takes an array"),
        };
        let inner = Scope { current: scope.current, last: Some(list.len() as i64 - 1) };
        let position = |expr: &PathExpr| match self.values(expr, &inner)?.as_slice() {
            [one] => match PathNumber::of(one).and_then(|number| number.whole()) {
                Some(position) => Ok(position),
                None => misfit("a position is no number of 64 bits"),
            },
            _ => misfit("a position is no single number"),
        };
        for (first, last) in positions {
            let first = position(first)?;
            let last = last.as_ref().map_or(Ok(first), position)?;
            let is_inside = first >= 0 && first <= last && last < list.len() as i64;
            if !is_inside && !self.is_lax {
                return misfit("a position is outside of the array");
            }
            let (first, end) = (first.max(0) as usize, (last.saturating_add(1).max(0) as usize).min(list.len()));
            for item in list.get(first..end).unwrap_or_default() {
                self.step()?;
                found.push(item.clone());
            }
        }
        Ok(())
    }

    fn deep(
        &self,
        value: Value<'d>,
        level: usize,
        (first, last): (usize, usize),
        found: &mut Vec<Value<'d>>,
    ) -> Found<()> {
        self.step()?;
        let children = match JsonKind::of(&value) {
            JsonKind::Array if level < last => items_of(&value),
            JsonKind::Object if level < last => members_of(&value),
            _ => Vec::new(),
        };
        // `last` as the first level means the values that have no others in them.
        let is_leaf = first == usize::MAX && children.is_empty();
        if (level >= first && level <= last) || is_leaf {
            found.push(value);
        }
        children.into_iter().try_for_each(|child| self.deep(child, level + 1, (first, last), found))
    }

    fn method(&self, value: &Value<'d>, method: PathMethod, found: &mut Vec<Value<'d>>) -> Found<()> {
        let kind = JsonKind::of(value);
        let mut scratch = String::new();
        let text = match kind {
            JsonKind::String => plain_string(&value[1..value.len() - 1], &mut scratch),
            _ => value,
        };
        let as_number = || match kind {
            JsonKind::Number | JsonKind::String => PathNumber::of(text.trim()),
            _ => None,
        };
        let of_number = |result: &dyn Fn(&PathNumber) -> Option<PathNumber>| {
            let number = (kind == JsonKind::Number).then(|| PathNumber::of(text)).flatten();
            number.and_then(|number| result(&number)).map(|number| number.to_string())
        };
        let result = match method {
            PathMethod::Type => Some(format!("\"{}\"", kind_name(kind))),
            PathMethod::Size => match kind {
                JsonKind::Array => Some(items(value).count().to_string()),
                _ if self.is_lax => Some("1".to_owned()),
                _ => None,
            },
            PathMethod::Number | PathMethod::Double => as_number().map(|number| number.to_string()),
            PathMethod::Integer => as_number().and_then(|number| number.rounded()).map(|number| number.to_string()),
            PathMethod::Ceiling => of_number(&|number| number.cut(true)),
            PathMethod::Floor => of_number(&|number| number.cut(false)),
            PathMethod::Abs => of_number(&|number| Some(number.absolute())),
            PathMethod::String => match kind {
                JsonKind::String => Some(value.to_string()),
                JsonKind::Number | JsonKind::Boolean => Some(format!("\"{value}\"")),
                _ => None,
            },
            PathMethod::Boolean => {
                let truth = match kind {
                    JsonKind::Boolean => Some(text == "true"),
                    JsonKind::String => crate::text::reader::parse_bool(text.trim()).ok(),
                    JsonKind::Number => {
                        PathNumber::of(text).and_then(|number| number.whole()).map(|number| number != 0)
                    }
                    _ => None,
                };
                truth.map(|truth| truth.to_string())
            }
            PathMethod::KeyValue if kind == JsonKind::Object => {
                let pairs = members(value);
                let pairs = pairs.map(|(key, value)| format!("{{\"id\": 0, \"key\": \"{key}\", \"value\": {value}}}"));
                found.extend(pairs.map(Cow::Owned));
                return Ok(());
            }
            PathMethod::KeyValue => None,
        };
        match result {
            Some(result) => found.push(Cow::Owned(result)),
            None => return misfit(format!("a value does not fit the method {method:?}")),
        }
        Ok(())
    }

    /// Whether a predicate is true, or `None` if that is unknown.
    fn truth(&self, predicate: &PathExpr, scope: &Scope<'_, 'd>) -> Found<Option<bool>> {
        self.step()?;
        Ok(match predicate {
            PathExpr::And(sides) => match self.truth(&sides[0], scope)? {
                Some(false) => Some(false),
                left => match (left, self.truth(&sides[1], scope)?) {
                    (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                },
            },
            PathExpr::Or(sides) => match self.truth(&sides[0], scope)? {
                Some(true) => Some(true),
                left => match (left, self.truth(&sides[1], scope)?) {
                    (_, Some(true)) => Some(true),
                    (Some(false), Some(false)) => Some(false),
                    _ => None,
                },
            },
            PathExpr::Not(of) => self.truth(of, scope)?.map(|truth| !truth),
            PathExpr::IsUnknown(of) => Some(self.truth(of, scope)?.is_none()),
            PathExpr::Exists(of) => self.known(of, scope)?.map(|values| !values.is_empty()),
            PathExpr::Compare(op, sides) => {
                let left = self.known(&sides[0], scope)?.map(|values| self.unwrapped(values));
                let right = self.known(&sides[1], scope)?.map(|values| self.unwrapped(values));
                match (left, right) {
                    (Some(left), Some(right)) => self.any_pair(&left, &right, |a, b| compared(*op, a, b))?,
                    _ => None,
                }
            }
            PathExpr::StartsWith(sides) => {
                let left = self.known(&sides[0], scope)?.map(|values| self.unwrapped(values));
                match (left, self.known(&sides[1], scope)?) {
                    (Some(left), Some(right)) => self.any_pair(&left, &right, starts_with)?,
                    _ => None,
                }
            }
            PathExpr::LikeRegex(of, regex) => match self.known(of, scope)?.map(|values| self.unwrapped(values)) {
                Some(values) => {
                    let none = [Cow::Borrowed("null")];
                    self.any_pair(&values, &none, |value, _| with_text(value, |text| regex.is_match(text)))?
                }
                None => None,
            },
            // A value in place of a predicate is one that the reader refuses.
            _ => None,
        })
    }

    /// The values, or `None` if the document does not fit.
    fn known(&self, expr: &PathExpr, scope: &Scope<'_, 'd>) -> Found<Option<Vec<Value<'d>>>> {
        match self.values(expr, scope) {
            Ok(values) => Ok(Some(values)),
            Err(PathFailure::Misfit(_)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Whether the predicate is true for any pair. In strict mode, an unknown one makes the whole unknown.
    fn any_pair(
        &self,
        left: &[Value<'d>],
        right: &[Value<'d>],
        predicate: impl Fn(&str, &str) -> Option<bool>,
    ) -> Found<Option<bool>> {
        let (mut is_found, mut is_unknown) = (false, false);
        for a in left {
            for b in right {
                self.step()?;
                match predicate(a, b) {
                    Some(true) if self.is_lax => return Ok(Some(true)),
                    Some(true) => is_found = true,
                    Some(false) => {}
                    None if !self.is_lax => return Ok(None),
                    None => is_unknown = true,
                }
            }
        }
        Ok(match (is_found, is_unknown) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        })
    }
}

fn number<'d>(value: i64) -> Value<'d> {
    Cow::Owned(value.to_string())
}

fn items_of<'d>(value: &Value<'d>) -> Vec<Value<'d>> {
    match value {
        Cow::Borrowed(text) => items(text).map(Cow::Borrowed).collect(),
        Cow::Owned(text) => items(text).map(|item| Cow::Owned(item.to_owned())).collect(),
    }
}

fn members_of<'d>(value: &Value<'d>) -> Vec<Value<'d>> {
    match value {
        Cow::Borrowed(text) => members(text).map(|(_, member)| Cow::Borrowed(member)).collect(),
        Cow::Owned(text) => members(text).map(|(_, member)| Cow::Owned(member.to_owned())).collect(),
    }
}

fn member<'d>(value: &Value<'d>, key: &str) -> Option<Value<'d>> {
    match value {
        Cow::Borrowed(text) => crate::json::parts::member(text, key).map(Cow::Borrowed),
        Cow::Owned(text) => crate::json::parts::member(text, key).map(|member| Cow::Owned(member.to_owned())),
    }
}

fn kind_name(kind: JsonKind) -> &'static str {
    match kind {
        JsonKind::Null => "null",
        JsonKind::Boolean => "boolean",
        JsonKind::Number => "number",
        JsonKind::String => "string",
        JsonKind::Array => "array",
        JsonKind::Object => "object",
    }
}

/// Applies a test to the meaning of a string. `None` for other values.
fn with_text(value: &str, test: impl FnOnce(&str) -> bool) -> Option<bool> {
    let mut scratch = String::new();
    (JsonKind::of(value) == JsonKind::String).then(|| test(plain_string(&value[1..value.len() - 1], &mut scratch)))
}

fn starts_with(text: &str, start: &str) -> Option<bool> {
    with_text(start, |_| true)?;
    let mut scratch = String::new();
    let start = plain_string(&start[1..start.len() - 1], &mut scratch).to_owned();
    with_text(text, |text| text.starts_with(&start))
}

/// Compares two values. Values of different types are not comparable, except that nothing else equals null.
fn compared(op: PathComparison, a: &str, b: &str) -> Option<bool> {
    let (left, right) = (JsonKind::of(a), JsonKind::of(b));
    let order = match (left, right) {
        (JsonKind::Null, JsonKind::Null) => Some(Ordering::Equal),
        (JsonKind::Null, _) | (_, JsonKind::Null) => return Some(op == PathComparison::NotEqual),
        (JsonKind::Boolean, JsonKind::Boolean) => Some((a == "true").cmp(&(b == "true"))),
        (JsonKind::Number, JsonKind::Number) => order_of_numbers(a, b),
        (JsonKind::String, JsonKind::String) => {
            let (mut left, mut right) = (String::new(), String::new());
            let inside = |value: &str| value[1..value.len() - 1].to_owned();
            Some(plain_string(&inside(a), &mut left).cmp(plain_string(&inside(b), &mut right)))
        }
        _ => None,
    }?;
    Some(match op {
        PathComparison::Equal => order.is_eq(),
        PathComparison::NotEqual => order.is_ne(),
        PathComparison::Less => order.is_lt(),
        PathComparison::LessOrEqual => order.is_le(),
        PathComparison::Greater => order.is_gt(),
        PathComparison::GreaterOrEqual => order.is_ge(),
    })
}

fn order_of_numbers(a: &str, b: &str) -> Option<Ordering> {
    if JsonNode::Scalar(a).equals(&JsonNode::Scalar(b)) {
        return Some(Ordering::Equal);
    }
    let (left, right) = (PathNumber::of(a)?, PathNumber::of(b)?);
    match left.combined(PathOp::Subtract, &right)? {
        PathNumber::Exact(difference, _) => Some(difference.cmp(&0)),
        PathNumber::Double(difference) => difference.partial_cmp(&0.0),
    }
}

/// A number: exact if it has few digits, and otherwise a double.
#[derive(Clone, Copy, Debug)]
enum PathNumber {
    /// An integer, and how many of its digits come after the point.
    Exact(i128, u32),
    Double(f64),
}

impl PathNumber {
    fn of(text: &str) -> Option<PathNumber> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let is_plain = !whole.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
        if is_plain
            && text.len() <= 38
            && let Ok(digits) = format!("{whole}{fraction}").parse()
        {
            return Some(PathNumber::Exact(digits, fraction.len() as u32));
        }
        let is_number = text.starts_with(|ch: char| ch.is_ascii_digit() || matches!(ch, '-' | '+' | '.'));
        text.parse().ok().filter(|number: &f64| is_number && number.is_finite()).map(PathNumber::Double)
    }

    fn double(&self) -> f64 {
        match self {
            PathNumber::Exact(digits, scale) => *digits as f64 / 10_f64.powi(*scale as i32),
            PathNumber::Double(number) => *number,
        }
    }

    fn combined(&self, op: PathOp, other: &PathNumber) -> Option<PathNumber> {
        if let (PathNumber::Exact(a, scale), PathNumber::Exact(b, of_other)) = (self, other)
            && let Some(exact) = exact(op, (*a, *scale), (*b, *of_other))
        {
            return Some(exact);
        }
        let (a, b) = (self.double(), other.double());
        let result = match op {
            PathOp::Add => a + b,
            PathOp::Subtract => a - b,
            PathOp::Multiply => a * b,
            PathOp::Divide => a / b,
            PathOp::Remainder => a % b,
        };
        result.is_finite().then_some(PathNumber::Double(result))
    }

    fn negated(&self) -> PathNumber {
        match self {
            PathNumber::Exact(digits, scale) => PathNumber::Exact(-digits, *scale),
            PathNumber::Double(number) => PathNumber::Double(-number),
        }
    }

    fn absolute(&self) -> PathNumber {
        if self.double() < 0.0 { self.negated() } else { *self }
    }

    /// The number cut to a whole one, upward or downward.
    fn cut(&self, up: bool) -> Option<PathNumber> {
        match self {
            PathNumber::Exact(digits, scale) => {
                let unit = 10_i128.checked_pow(*scale)?;
                let floor = digits.div_euclid(unit);
                Some(PathNumber::Exact(floor + i128::from(up && digits.rem_euclid(unit) != 0), 0))
            }
            PathNumber::Double(number) => Some(PathNumber::Double(if up { number.ceil() } else { number.floor() })),
        }
    }

    /// The nearest whole number of 64 bits; a half goes away from zero.
    fn rounded(&self) -> Option<i64> {
        let number = match self {
            PathNumber::Exact(digits, scale) => {
                let unit = 10_i128.checked_pow(*scale)?;
                let (whole, rest) = (digits / unit, digits % unit);
                whole + if rest.abs() * 2 >= unit { digits.signum() } else { 0 }
            }
            PathNumber::Double(number) if number.abs() < 1e18 => number.round() as i128,
            PathNumber::Double(_) => return None,
        };
        i64::try_from(number).ok()
    }

    /// The number without what comes after the point.
    fn whole(&self) -> Option<i64> {
        match self {
            PathNumber::Exact(digits, scale) => i64::try_from(digits / 10_i128.checked_pow(*scale)?).ok(),
            PathNumber::Double(number) => (number.abs() < 1e18).then_some(*number as i64),
        }
    }
}

impl std::fmt::Display for PathNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PathNumber::Exact(digits, 0) => write!(f, "{digits}"),
            PathNumber::Exact(digits, scale) => {
                let (width, sign) = (*scale as usize + 1, if *digits < 0 { "-" } else { "" });
                let text = format!("{:0>width$}", digits.unsigned_abs());
                let (whole, fraction) = text.split_at(text.len() - *scale as usize);
                write!(f, "{sign}{whole}.{fraction}")
            }
            PathNumber::Double(number) => write!(f, "{number}"),
        }
    }
}

/// An exact result, if the numbers have few digits.
fn exact(op: PathOp, (a, a_scale): (i128, u32), (b, b_scale): (i128, u32)) -> Option<PathNumber> {
    let scale = a_scale.max(b_scale);
    let scaled = |value: i128, own: u32| value.checked_mul(10_i128.checked_pow(scale - own)?);
    let digits = match op {
        PathOp::Multiply => return Some(PathNumber::Exact(a.checked_mul(b)?, a_scale + b_scale)),
        PathOp::Add => scaled(a, a_scale)?.checked_add(scaled(b, b_scale)?)?,
        PathOp::Subtract => scaled(a, a_scale)?.checked_sub(scaled(b, b_scale)?)?,
        PathOp::Remainder => scaled(a, a_scale)?.checked_rem(scaled(b, b_scale)?)?,
        PathOp::Divide => {
            let (a, b) = (scaled(a, a_scale)?, scaled(b, b_scale)?);
            return (b != 0 && a % b == 0).then(|| PathNumber::Exact(a / b, 0));
        }
    };
    Some(PathNumber::Exact(digits, scale))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn query(path: &str, document: &str) -> String {
        let path = match SqlPath::read(path) {
            Ok(path) => path,
            Err(error) => return format!("refused: {}", error.message()),
        };
        let variables = Some(r#"{"x": 2, "s": "b"}"#);
        match path.values(PathInput { document, variables }) {
            Ok(values) => values.join(" "),
            Err(failure) => format!("failed: {}", failure.into_error().message()),
        }
    }

    #[test]
    fn paths_select_what_postgresql_selects() {
        let document = r#"{"a": [1, 2, {"b": 3}], "s": "abc", "n": null, "o": {"k": 1.5, "l": [4, 5]}, "t": true}"#;
        for (path, expected) in [
            ("$.a[*]", "1 2 {\"b\": 3}"),
            ("lax $.a.b", "3"),
            ("$.a[*] ? (@ > 1)", "2"),
            ("$.a[0, 1]", "1 2"),
            ("$.a[last].b", "3"),
            ("$.a[last - 1]", "2"),
            ("$.a[1 to last]", "2 {\"b\": 3}"),
            ("$.a.size()", "3"),
            ("$.o.*", "1.5 [4, 5]"),
            ("$.o.l[*] ? (@ == 4 || @ == 5)", "4 5"),
            ("$.\"s\"", "\"abc\""),
            ("$.s ? (@ starts with \"ab\")", "\"abc\""),
            ("$.s ? (@ like_regex \"^A.C$\" flag \"i\")", "\"abc\""),
            ("$.s ? (@ like_regex \"^B\")", ""),
            ("$.n ? (@ == null)", "null"),
            ("$.a[*] ? (exists (@.b))", "{\"b\": 3}"),
            ("$.a[*] ? (!(@ < 2))", "2"),
            ("$.a[*] ? ((@ < 2) is unknown)", "{\"b\": 3}"),
            ("$.a[*] ? (@ == $x)", "2"),
            ("$.a[0] + $.a[1] * 3", "7"),
            ("-$.o.l", "-4 -5"),
            ("$.o.k.ceiling()", "2"),
            ("$.o.k.floor()", "1"),
            ("(-$.o.k).abs()", "1.5"),
            ("$.*.type()", "\"array\" \"string\" \"null\" \"object\" \"boolean\""),
            ("$.o.keyvalue().key", "\"k\" \"l\""),
            // In lax mode the filter takes the items of [4, 5], and then `.**` gives them once more.
            ("$.**{2 to last} ? (@.type() == \"number\")", "1 2 3 1.5 4 5 4 5"),
            ("$.a[*] == 2", "true"),
            ("$.missing == 2", "false"),
            ("$.s > 1", "null"),
            ("$.missing", ""),
            ("$.a[7]", ""),
            ("$[0].s", "\"abc\""),
            ("$.t.string()", "\"true\""),
            ("0.1 + 0.2", "0.3"),
            ("7 % 4", "3"),
            ("1 / 4", "0.25"),
            ("\"12\".number() + 1", "13"),
            ("strict $.a[*] ? (@ > 1)", "2"),
            ("strict $.missing", "failed: a path of JSON: there is no member \"missing\""),
            ("strict $.a[7]", "failed: a path of JSON: a position is outside of the array"),
            ("$.s + 1", "failed: a path of JSON: an operand of Add is no single number"),
            ("1 / 0", "failed: a path of JSON: a division by zero, or a number out of range"),
            ("$nope", "failed: a path of JSON has no variable \"nope\""),
        ] {
            assert_eq!(query(path, document), expected, "{path}");
        }
    }

    #[test]
    fn damaged_paths_are_refused_and_never_panic() {
        let filter = r#"(@.b >= 1.5e1 && !exists(@."c\u0041") || (@ like_regex "^a" flag "i") is unknown)"#;
        let whole = format!("strict $.a[*, 1 to last - 1] ? {filter}.**{{1 to 2}}.size() + -$x % 3");
        let document = r#"{"a": [{"b": 20}, 2]}"#;
        for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            query(&whole[..end], document);
            query(&whole[end..], document);
            for sign in ["(", ")", "[", "\"", "\\", "?", "@", "**", "é", "", "9", ".", "!", "&&"] {
                query(&format!("{}{sign}{}", &whole[..end], &whole[(end + 1).min(whole.len())..]), document);
            }
        }
        for wrong in
            ["", "$.", "$[", "$ ? @ > 1", "a", "$.a(", "$.f()", "$..a", "1 +", "($", "$ ? (@)", "\"a", "$ == 1 == 2"]
        {
            assert!(query(wrong, document).starts_with("refused"), "{wrong}");
        }
        let deep = format!("{}1{}", "(".repeat(5_000), ")".repeat(5_000));
        assert!(query(&deep, document).contains("inside of each other"));
        assert!(query(&"-".repeat(5_000), document).starts_with("refused"));
        assert!(query(&format!("${}", ".a".repeat(5_000)), document).starts_with("refused"));
    }

    #[test]
    fn filters_in_filters_have_a_bound() {
        let document = format!("[{}]", vec!["1"; 3_000].join(","));
        let path = "$[*] ? (exists($[*] ? (exists($[*] ? (@ == 2)))))";
        assert!(query(path, &document).contains("steps"));
    }
}
