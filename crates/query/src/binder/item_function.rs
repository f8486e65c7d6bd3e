//! Functions with a lambda. For example, `array_transform(list, x -> x + 1)`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::typing;
use rowmill_plan::item_function::ItemFunctionSpec;
use rowmill_plan::{ExprOp, ItemFunction, ScalarExpr};
use sqlparser::ast::{Expr, Ident, LambdaFunction, LambdaFunctionParameter, OneOrManyWithParens};

use super::Binder;
use super::place::{type_name, unsupported};

/// A parameter of a lambda.
#[derive(Clone, Debug)]
pub(super) struct ItemParameter {
    name: String,
    number: usize,
    kind: DataType,
}

impl Binder<'_> {
    /// Binds a call of a function with a lambda.
    pub(super) fn item_function_call(&mut self, spec: &ItemFunctionSpec, arguments: &[&Expr]) -> Result<ScalarExpr> {
        if spec.function == ItemFunction::Reduce {
            return self.reduce(spec, arguments);
        }
        let [list, Expr::Lambda(lambda)] = arguments else {
            let what = format!("{} takes a list and a function of its items", spec.name);
            return Err(Error::new(ErrorKind::UndefinedFunction, what).hint(format!("for example {}", spec.example.0)));
        };
        let list = self.expr(list)?;
        let item = match &list.kind {
            DataType::List(item) => item.data_type().clone(),
            DataType::Null => DataType::Null,
            other => {
                let what = format!("{} takes a list, not {}", spec.name, type_name(other));
                return Err(Error::new(ErrorKind::DatatypeMismatch, what));
            }
        };
        let (parameters, body) = self.lambda(spec, lambda, &[item.clone(), DataType::Int64])?;
        let body = match spec.function {
            ItemFunction::Transform => body,
            _ if matches!(body.kind, DataType::Boolean | DataType::Null) => self.coerce(body, &DataType::Boolean)?,
            _ => {
                let what =
                    format!("the function of {} must be a condition, but it is {}", spec.name, type_name(&body.kind));
                return Err(Error::new(ErrorKind::DatatypeMismatch, what));
            }
        };
        let list_of = |kind: &DataType| DataType::List(Arc::new(Field::new_list_field(kind.clone(), true)));
        let kind = match spec.function {
            ItemFunction::Transform => list_of(&body.kind),
            ItemFunction::Filter => list_of(&item),
            ItemFunction::AnyMatch | ItemFunction::AllMatch => DataType::Boolean,
            ItemFunction::First | ItemFunction::Reduce => item,
        };
        let op = ExprOp::EachItem { function: spec.function, list: Box::new(list), parameters, body: Box::new(body) };
        Ok(ScalarExpr::new(kind, op))
    }

    /// `array_reduce(list, (so_far, item) -> ... [, first])`. A value to begin with is put before the items.
    fn reduce(&mut self, spec: &ItemFunctionSpec, arguments: &[&Expr]) -> Result<ScalarExpr> {
        let [list, Expr::Lambda(lambda), first @ ..] = arguments else { return Err(wrong_reduce(spec)) };
        if first.len() > 1 {
            return Err(wrong_reduce(spec));
        }
        let mut list = self.expr(list)?;
        if let [first] = first {
            if parameters_of(lambda).len() > 2 {
                return Err(unsupported(format!(
                    "a position in the function of {} with a value to begin with",
                    spec.name
                )));
            }
            let first = self.expr(first)?;
            // Of a NULL list the result is NULL, whatever the value to begin with.
            let is_null = ExprOp::IsNull { value: Box::new(list.clone()), negated: false };
            let is_null = ScalarExpr::new(DataType::Boolean, is_null);
            let begun = self.call_named("array_prepend", vec![first, list])?;
            let kind = begun.kind.clone();
            let whens = vec![(is_null, ScalarExpr::null(kind.clone()))];
            list = ScalarExpr::new(kind, ExprOp::Case { whens, otherwise: Some(Box::new(begun)) });
        }
        let DataType::List(item) = &list.kind else {
            let what = format!("{} takes a list, not {}", spec.name, type_name(&list.kind));
            return Err(Error::new(ErrorKind::DatatypeMismatch, what));
        };
        let mut item = item.data_type().clone();
        let (mut parameters, mut body) = self.lambda(spec, lambda, &[item.clone(), item.clone(), DataType::Int64])?;
        if body.kind != item {
            // The value so far has the type of the expression, so the items take a type that holds both.
            let common = typing::common_kind([&item, &body.kind]).filter(|common| *common != DataType::Null);
            item = common.ok_or_else(|| {
                let (of_item, of_body) = (type_name(&item), type_name(&body.kind));
                let what = format!("the function of {} gives {of_body} for items of {of_item}", spec.name);
                Error::new(ErrorKind::DatatypeMismatch, what).hint("CAST gives both one type")
            })?;
            list = self.coerce(list, &list_kind(&item))?;
            (parameters, body) = self.lambda(spec, lambda, &[item.clone(), item.clone(), DataType::Int64])?;
            body = self.coerce(body, &item)?;
        }
        let function = ItemFunction::Reduce;
        let op = ExprOp::EachItem { function, list: Box::new(list), parameters, body: Box::new(body) };
        Ok(ScalarExpr::new(item, op))
    }

    /// Binds a lambda, whose parameters have these types; the last ones may be left out. Returns the numbers of its
    /// parameters and its body.
    fn lambda(
        &mut self,
        spec: &ItemFunctionSpec,
        lambda: &LambdaFunction,
        kinds: &[DataType],
    ) -> Result<(Vec<usize>, ScalarExpr)> {
        let parameters = parameters_of(lambda);
        if spec.function == ItemFunction::Reduce && parameters.len() < 2 {
            return Err(wrong_reduce(spec));
        }
        if parameters.is_empty() || parameters.len() > kinds.len() {
            let what = format!("the function of {} takes an item and optionally its position", spec.name);
            return Err(Error::new(ErrorKind::UndefinedFunction, what)
                .hint(format!("for example {}, or with (x, i) -> ...", spec.example.0)));
        }
        let outer = self.item_parameters.len();
        for (parameter, kind) in parameters.iter().zip(kinds.iter().cloned()) {
            if parameter.data_type.is_some() {
                return Err(unsupported("a type of a parameter of a function of items"));
            }
            let (name, number) = (parameter.name.value.clone(), self.item_parameter_count);
            self.item_parameter_count += 1;
            self.item_parameters.push(ItemParameter { name, number, kind });
        }
        let numbers = self.item_parameters[outer..].iter().map(|parameter| parameter.number).collect();
        let body = self.expr(&lambda.body);
        self.item_parameters.truncate(outer);
        Ok((numbers, body?))
    }

    /// The lambda parameter that a name refers to.
    pub(super) fn item_parameter(&self, ident: &Ident) -> Option<ScalarExpr> {
        let parameter = self.item_parameters.iter().rev().find(|parameter| parameter.name == ident.value)?;
        Some(ScalarExpr::new(parameter.kind.clone(), ExprOp::ItemParameter(parameter.number)))
    }

    /// Returns an error if the current position is inside of a lambda.
    pub(super) fn refuse_in_lambda(&self, what: &str) -> Result<()> {
        match self.item_parameters.is_empty() {
            true => Ok(()),
            false => Err(unsupported(format!("{what} in a function of items"))
                .hint("turn the items into rows with unnest(list), which a subquery can group")),
        }
    }
}

/// The parameters of a lambda.
fn parameters_of(lambda: &LambdaFunction) -> &[LambdaFunctionParameter] {
    match &lambda.params {
        OneOrManyWithParens::One(parameter) => std::slice::from_ref(parameter),
        OneOrManyWithParens::Many(parameters) => parameters,
    }
}

fn list_kind(item: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item.clone(), true)))
}

fn wrong_reduce(spec: &ItemFunctionSpec) -> Error {
    let what =
        format!("{} takes a list, a function of a value and an item, and maybe a value to begin with", spec.name);
    Error::new(ErrorKind::UndefinedFunction, what).hint(format!("for example {}", spec.example.0))
}
