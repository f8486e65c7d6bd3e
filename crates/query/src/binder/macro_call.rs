//! Calls of macros: the arguments take the places of the parameters in the expression or query of the macro.

use rowmill_base::{Error, ErrorKind, Result};
use sqlparser::ast::{
    self, CastKind, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, TableAlias,
    Value,
};

use super::from::FromPart;
use super::place::unsupported;
use super::scope::ScopeRelation;
use super::{Binder, QUERY_DEPTH};
use crate::catalog::{CatalogMacro, MacroBody, ViewSpelling};
use crate::syntax_walk::{SyntaxTree, each_expr_mut};
use rowmill_plan::ScalarExpr;

/// Macros that a statement may call. One that is called twice counts twice.
const MACROS_MAX: usize = 10_000;

impl Binder<'_> {
    /// Binds a call of a macro in an expression.
    pub(super) fn macro_call(
        &mut self,
        found: &CatalogMacro,
        ident: &Ident,
        call: &ast::Function,
    ) -> Result<ScalarExpr> {
        let MacroBody::Expr(body) = &found.body else {
            let message = format!("the macro \"{}\" gives rows, so it is called in FROM", found.name);
            return Err(self.at(Error::new(ErrorKind::UndefinedFunction, message), ident.span));
        };
        let args = match &call.args {
            FunctionArguments::List(FunctionArgumentList { args, duplicate_treatment: None, clauses })
                if clauses.is_empty() =>
            {
                args.as_slice()
            }
            FunctionArguments::None => &[],
            _ => return Err(unsupported(format!("a clause in the call of the macro {}", found.name))),
        };
        if call.filter.is_some() || call.over.is_some() {
            return Err(unsupported(format!("FILTER or OVER after the macro {}", found.name)));
        }
        let arguments = self.macro_arguments(found, ident, args)?;
        let mut body = Expr::Nested(body.clone());
        replace_parameters(&mut body, found, &arguments);
        if let Some(kind) = &found.result {
            body = cast(body, kind.clone());
        }
        self.within_macro(found, |binder| binder.deeper(QUERY_DEPTH, |binder| binder.expr(&body)))
    }

    /// Binds a call of a macro in FROM.
    pub(super) fn macro_rows(
        &mut self,
        found: &CatalogMacro,
        ident: &Ident,
        args: &[FunctionArg],
        alias: Option<&TableAlias>,
    ) -> Result<FromPart> {
        let MacroBody::Query(body) = &found.body else {
            let message = format!("the macro \"{}\" gives a value, so it is called in an expression", found.name);
            return Err(self.at(Error::new(ErrorKind::UndefinedFunction, message), ident.span));
        };
        let arguments = self.macro_arguments(found, ident, args)?;
        let mut query = body.clone();
        replace_parameters(&mut *query, found, &arguments);
        let was_hidden = std::mem::replace(&mut self.level().is_hidden, true);
        let rows = self.within_macro(found, |binder| binder.query(&query));
        self.level().is_hidden = was_hidden;
        let rows = self.with_own_columns(rows?);
        self.aliased(rows.plan, ScopeRelation::new(Some(&ident.value), rows.columns), alias)
    }

    /// Runs `step`, whose errors are not at places of the statement.
    fn within_macro<T>(&mut self, found: &CatalogMacro, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.expansions += 1;
        if self.expansions > MACROS_MAX {
            let message = format!("the statement calls more than {MACROS_MAX} macros in total");
            return Err(Error::new(ErrorKind::StatementTooComplex, message));
        }
        // The texts of macros are in no statement, so errors within them have no place.
        let spelling = ViewSpelling::new(|ident| ident.value.clone());
        self.views.push((format!("macro {}", found.name), spelling));
        let done = step(self);
        self.views.pop();
        done
    }

    /// The argument of each parameter: by position, then by name, then the default.
    fn macro_arguments(&mut self, found: &CatalogMacro, ident: &Ident, args: &[FunctionArg]) -> Result<Vec<Expr>> {
        let wrong = |binder: &Self, message: String| {
            let names: Vec<String> = found.parameters.iter().map(|parameter| parameter.name.clone()).collect();
            let hint = format!("its parameters are ({})", names.join(", "));
            Err(binder.at(Error::new(ErrorKind::UndefinedFunction, message).hint(hint), ident.span))
        };
        let mut given: Vec<Option<Expr>> = vec![None; found.parameters.len()];
        for (place, arg) in args.iter().enumerate() {
            let (place, value) = match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (place, value),
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                    match found.parameters.iter().position(|parameter| parameter.name == name.value) {
                        Some(place) => (place, value),
                        None => return wrong(self, format!("the macro {} has no parameter \"{name}\"", found.name)),
                    }
                }
                other => return Err(unsupported(format!("the argument {other} of a macro"))),
            };
            match given.get_mut(place) {
                Some(slot @ None) => *slot = Some(value.clone()),
                Some(Some(_)) => {
                    let name = &found.parameters[place].name;
                    return wrong(self, format!("the macro {} gets the parameter \"{name}\" twice", found.name));
                }
                None => return wrong(self, format!("the macro {} gets too many arguments", found.name)),
            }
        }
        let mut arguments = Vec::with_capacity(given.len());
        for (parameter, given) in found.parameters.iter().zip(given) {
            let Some(value) = given.or_else(|| parameter.default.clone()) else {
                return wrong(self, format!("the macro {} needs the parameter \"{}\"", found.name, parameter.name));
            };
            let value = Expr::Nested(Box::new(value));
            arguments.push(match &parameter.kind {
                Some(kind) => cast(value, kind.clone()),
                None => value,
            });
        }
        Ok(arguments)
    }
}

fn cast(expr: Expr, data_type: ast::DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// Puts arguments in place of parameters, which are written as names or as `$1`.
fn replace_parameters(tree: &mut impl SyntaxTree, found: &CatalogMacro, arguments: &[Expr]) {
    let place_of = |name: &Ident| found.parameters.iter().position(|parameter| parameter.name == name.value);
    each_expr_mut(tree, |expr| {
        let place = match expr {
            Expr::Identifier(name) => place_of(name),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                // `f.a`: a parameter of the function f, as in PostgreSQL.
                [table, name] if table.value == found.name.to_lowercase() => place_of(name),
                _ => None,
            },
            Expr::Value(value) => match &value.value {
                Value::Placeholder(text) => {
                    text.trim_start_matches('$').parse::<usize>().ok().and_then(|number| number.checked_sub(1))
                }
                _ => None,
            },
            _ => None,
        };
        if let Some(argument) = place.and_then(|place| arguments.get(place)) {
            *expr = argument.clone();
        }
    });
}
