//! Functions with a lambda. For example, `array_transform(list, x -> x + 1)`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::item_function::ItemFunctionSpec;
use rowmill_plan::{ExprOp, ItemFunction, ScalarExpr};
use sqlparser::ast::{Expr, Ident, LambdaFunction, OneOrManyWithParens};

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
        let (parameters, body) = self.lambda(spec, lambda, &item)?;
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
            ItemFunction::First => item,
        };
        let op = ExprOp::EachItem { function: spec.function, list: Box::new(list), parameters, body: Box::new(body) };
        Ok(ScalarExpr::new(kind, op))
    }

    /// Binds a lambda. Returns the numbers of its parameters and its body.
    fn lambda(
        &mut self,
        spec: &ItemFunctionSpec,
        lambda: &LambdaFunction,
        item: &DataType,
    ) -> Result<(Vec<usize>, ScalarExpr)> {
        let parameters = match &lambda.params {
            OneOrManyWithParens::One(parameter) => std::slice::from_ref(parameter),
            OneOrManyWithParens::Many(parameters) => parameters,
        };
        if parameters.is_empty() || parameters.len() > 2 {
            let what = format!("the function of {} takes an item and optionally its position", spec.name);
            return Err(Error::new(ErrorKind::UndefinedFunction, what)
                .hint(format!("for example {}, or with (x, i) -> ...", spec.example.0)));
        }
        let outer = self.item_parameters.len();
        let kinds = [item.clone(), DataType::Int64];
        for (parameter, kind) in parameters.iter().zip(kinds) {
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
