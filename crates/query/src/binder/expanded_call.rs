//! Calls that are short forms of other expressions: those of `rowmill_plan::expansion`, and `list_aggregate`.

use std::collections::HashMap;
use std::sync::LazyLock;

use arrow::array::{Array as _, AsArray};
use arrow::datatypes::{DataType, Float64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_exec::aggregate;
use rowmill_expr::fold::fold;
use rowmill_plan::expansion::{self, EXPANSIONS, ExpansionSpec};
use rowmill_plan::{AggregateFunction, AggregateParameter, ScalarExpr};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    Array, BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Value,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Tokenizer;

use super::Binder;
use super::aggregate::takes_extreme;
use super::call::{argument_list, arguments_of, refuse_clauses_of_rows};
use super::place::unsupported;
use crate::syntax_walk::each_expr_mut;

/// The names of `list_aggregate`.
const LIST_AGGREGATE: &[&str] = &["list_aggregate", "list_aggr", "array_aggregate", "array_aggr", "aggregate"];

/// The parsed expressions by their texts.
static BODIES: LazyLock<HashMap<&'static str, Expr>> =
    LazyLock::new(|| EXPANSIONS.iter().map(|spec| (spec.body, parsed(spec.body))).collect());

/// Parses an expression of this program. Its parts have no places, so that errors point at the call.
fn parsed(text: &str) -> Expr {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize();
    let tokens = tokens.unwrap_or_else(|error| panic!("the expansion {text} has no tokens: {error}"));
    let expr = Parser::new(&PostgreSqlDialect {}).with_tokens(tokens).parse_expr();
    expr.unwrap_or_else(|error| panic!("the expansion {text} is no expression: {error}"))
}

impl Binder<'_> {
    /// Binds a call that stands for another expression. Returns `None` for any other function.
    pub(super) fn expanded_call(&mut self, name: &str, call: &Function) -> Result<Option<ScalarExpr>> {
        if let Some(expr) = like_call(name, call)? {
            return self.expr(&expr).map(Some);
        }
        if let Some(value) = self.quantiles(name, call)? {
            return Ok(Some(value));
        }
        if LIST_AGGREGATE.contains(&name) {
            refuse_clauses_of_rows(name, call)?;
            return self.list_aggregate(name, &arguments_of(call)?).map(Some);
        }
        if !expansion::is_name(name) {
            return Ok(None);
        }
        let count = argument_list(call).map_or(0, |list| list.args.len());
        let Some(spec) = expansion::find(name, count) else {
            // Another function may have the same name and other arguments, as `age` and `max` have.
            let has_other = rowmill_expr::functions::find(name).is_some()
                || aggregate::find(name).is_some()
                || takes_extreme(name).is_some();
            return if has_other { Ok(None) } else { Err(wrong_count(name, count)) };
        };
        let arguments = arguments_of(call)?;
        if !spec.is_aggregate {
            refuse_clauses_of_rows(name, call)?;
            if call.over.is_some() {
                return Err(unsupported(format!("{name} is not a window function: OVER with it")));
            }
        }
        let expr = expand(spec, call, &arguments)?;
        self.expr(&expr).map(Some)
    }

    /// `quantile_cont(x, [0.1, 0.5])` and `percentile_cont([0.1, 0.5]) WITHIN GROUP (ORDER BY x)`: the quantiles of a
    /// list of shares. Returns `None` for any other call.
    fn quantiles(&mut self, name: &str, call: &Function) -> Result<Option<ScalarExpr>> {
        let takes_share = |function: AggregateFunction| function.parameter == AggregateParameter::Share;
        if !aggregate::find(name).is_some_and(takes_share) {
            return Ok(None);
        }
        let FunctionArguments::List(list) = &call.args else { return Ok(None) };
        let place = if call.within_group.is_empty() { 1 } else { 0 };
        let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(shares))) = list.args.get(place) else { return Ok(None) };
        let mut plain = shares;
        while let Expr::Nested(inner) | Expr::Cast { expr: inner, .. } = plain {
            plain = inner;
        }
        // Only a list can be several shares, and only a literal or a cast of one can be a list here.
        if matches!(plain, Expr::Value(value) if matches!(value.value, Value::Number(..)) ) || is_name(plain) {
            return Ok(None);
        }
        let mut bound = self.expr(shares)?;
        fold(&mut bound);
        let DataType::List(_) = bound.kind else { return Ok(None) };
        let wrong = |what: &str| Error::new(ErrorKind::InvalidParameter, format!("the shares of {name} {what}"));
        let Some(constant) = bound.as_constant().filter(|constant| !constant.is_null()) else {
            return Err(wrong("must be a constant list"));
        };
        let items = constant.array().as_list::<i32>().value(0);
        let items = arrow::compute::cast(&items, &DataType::Float64).map_err(|error| wrong(&error.to_string()))?;
        let items = items.as_primitive::<Float64Type>();
        if items.is_empty() || items.null_count() > 0 {
            return Err(wrong("must be numbers from 0 to 1, at least one"));
        }
        let quantile = |share: f64| {
            let mut call = call.clone();
            if let FunctionArguments::List(list) = &mut call.args {
                let share = Expr::value(Value::Number(format!("{share:e}"), false));
                list.args[place] = FunctionArg::Unnamed(FunctionArgExpr::Expr(share));
            }
            Expr::Function(call)
        };
        let quantiles: Vec<Expr> = items.values().iter().map(|share| quantile(*share)).collect();
        let first = Box::new(quantiles[0].clone());
        let result = Expr::Array(Array { elem: quantiles, named: false });
        // Without values there is no list.
        let when = CaseWhen { condition: Expr::IsNotNull(first), result };
        let case = Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![when],
            else_result: None,
        };
        self.expr(&case).map(Some)
    }

    /// `list_aggregate(list, 'name', ...)`: an aggregate of the items of a list.
    fn list_aggregate(&mut self, name: &str, arguments: &[&Expr]) -> Result<ScalarExpr> {
        let [list, function, more @ ..] = arguments else {
            let message = format!("{name} takes a list, the name of an aggregate and its further arguments");
            return Err(
                Error::new(ErrorKind::UndefinedFunction, message).hint(format!("for example {name}([1, 2], 'sum')"))
            );
        };
        let Some(aggregate) = text_literal(function) else {
            return Err(unsupported(format!("a name of an aggregate in {name} that is no literal text")));
        };
        let aggregate = aggregate.to_lowercase();
        if aggregate::find(&aggregate).is_none()
            && !EXPANSIONS.iter().any(|spec| spec.is_aggregate && spec.name == aggregate)
        {
            let message = format!("{name}: there is no aggregate \"{aggregate}\"");
            return Err(Error::new(ErrorKind::UndefinedFunction, message).hint("SHOW FUNCTIONS lists the aggregates"));
        }
        let further: String = (0..more.len()).map(|place| format!(", arg{}", place + 2)).collect();
        let mut expr = parsed(&format!("(SELECT {aggregate}(_item{further}) FROM unnest(arg1) AS _items(_item))"));
        let replaced: Vec<&Expr> = std::iter::once(*list).chain(more.iter().copied()).collect();
        replace_arguments(&mut expr, &replaced);
        self.expr(&expr)
    }
}

/// Returns the LIKE that a function such as `like_escape(text, pattern, escape)` stands for.
fn like_call(name: &str, call: &Function) -> Result<Option<Expr>> {
    let (negated, ignores_case) = match name {
        "like_escape" => (false, false),
        "not_like_escape" => (true, false),
        "ilike_escape" => (false, true),
        "not_ilike_escape" => (true, true),
        _ => return Ok(None),
    };
    refuse_clauses_of_rows(name, call)?;
    let arguments = arguments_of(call)?;
    let [text, pattern, escape] = arguments.as_slice() else {
        let message =
            format!("{name} takes a text, a pattern and an escape, but {} arguments were given", arguments.len());
        return Err(Error::new(ErrorKind::UndefinedFunction, message));
    };
    let Expr::Value(escape) = escape else {
        return Err(unsupported(format!("an escape of {name} that is no literal")));
    };
    let (expr, pattern) = (Box::new((*text).clone()), Box::new((*pattern).clone()));
    let escape_char = Some(escape.clone());
    Ok(Some(match ignores_case {
        false => Expr::Like { negated, any: false, expr, pattern, escape_char },
        true => Expr::ILike { negated, any: false, expr, pattern, escape_char },
    }))
}

fn wrong_count(name: &str, given: usize) -> Error {
    let counts: Vec<String> = EXPANSIONS
        .iter()
        .filter(|spec| spec.name == name || spec.aliases.contains(&name))
        .map(|spec| format!("{} argument{}", spec.arguments, if spec.arguments == 1 { "" } else { "s" }))
        .collect();
    let message = format!("{name} takes {}, but {given} were given", counts.join(" or "));
    Error::new(ErrorKind::UndefinedFunction, message)
}

/// Whether an expression is the name of a column, or a parameter.
fn is_name(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::Value(value) => matches!(value.value, Value::Placeholder(_)),
        _ => false,
    }
}

fn text_literal(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the expression that a call stands for.
fn expand(spec: &ExpansionSpec, call: &Function, arguments: &[&Expr]) -> Result<Expr> {
    let mut expr = BODIES[spec.body].clone();
    if spec.is_aggregate {
        give_clauses(&mut expr, call)?;
    }
    replace_arguments(&mut expr, arguments);
    Ok(Expr::Nested(Box::new(expr)))
}

/// Replaces `arg1`, `arg2` and so on by the arguments.
fn replace_arguments(expr: &mut Expr, arguments: &[&Expr]) {
    // Expressions are visited after their parts, so the arguments themselves are not searched.
    each_expr_mut(expr, |part| {
        if let Expr::Identifier(Ident { value, .. }) = part
            && let Some(place) = value.strip_prefix("arg").and_then(|number| number.parse::<usize>().ok())
            && let Some(argument) = arguments.get(place.wrapping_sub(1))
        {
            *part = Expr::Nested(Box::new((*argument).clone()));
        }
    });
}

/// Gives FILTER, OVER and DISTINCT of a call to the aggregates that it stands for.
fn give_clauses(expr: &mut Expr, call: &Function) -> Result<()> {
    let list = argument_list(call);
    if list.is_some_and(|list| !list.clauses.is_empty())
        || !call.within_group.is_empty()
        || call.null_treatment.is_some()
    {
        return Err(unsupported(format!("ORDER BY, WITHIN GROUP and IGNORE NULLS in {}", call.name)));
    }
    let distinct = list.and_then(|list| list.duplicate_treatment);
    each_expr_mut(expr, |part| {
        if let Expr::Function(inner) = part
            && aggregate::find(&inner.name.to_string()).is_some()
        {
            let own = inner.filter.take();
            inner.filter = match (own, call.filter.clone()) {
                (Some(own), Some(given)) => Some(Box::new(Expr::BinaryOp {
                    left: Box::new(Expr::Nested(own)),
                    op: BinaryOperator::And,
                    right: Box::new(Expr::Nested(given)),
                })),
                (own, given) => own.or(given),
            };
            inner.over.clone_from(&call.over);
            if let FunctionArguments::List(list) = &mut inner.args {
                list.duplicate_treatment = distinct;
            }
        }
    });
    Ok(())
}

/// Makes the arguments of a call with named arguments positional: `make_interval(days => 10)`. Returns `None` if the
/// function has no named arguments.
pub(super) fn positional(name: &str, call: &Function) -> Result<Option<Vec<Expr>>> {
    const PARTS: &[&str] = &["years", "months", "weeks", "days", "hours", "mins", "secs"];
    if name != "make_interval" {
        return Ok(None);
    }
    let FunctionArguments::List(list) = &call.args else { return Ok(None) };
    let zero = || parsed("0");
    let mut values: Vec<Expr> = PARTS.iter().map(|_| zero()).collect();
    for (place, arg) in list.args.iter().enumerate() {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) if place < PARTS.len() => values[place] = value.clone(),
            FunctionArg::Named { name: part, arg: FunctionArgExpr::Expr(value), .. } => {
                match PARTS.iter().position(|known| *known == part.value) {
                    Some(place) => values[place] = value.clone(),
                    None => {
                        let message = format!("make_interval has no part \"{}\"", part.value);
                        let error = Error::new(ErrorKind::UndefinedFunction, message);
                        return Err(error.hint(format!("it has {}", PARTS.join(", "))));
                    }
                }
            }
            other => return Err(unsupported(format!("the argument {other} of make_interval"))),
        }
    }
    Ok(Some(values))
}
