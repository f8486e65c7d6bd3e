//! `COLUMNS(...)`: all columns of FROM that a star, a regular expression, a list or a lambda choose.
//!
//! In a select list, an expression with COLUMNS stands for one expression per column: `min(COLUMNS(*))`. In WHERE, the
//! condition must be true for all of the columns.

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::fold;
use rowmill_plan::ScalarExpr;
use sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, OneOrManyWithParens};

use super::Binder;
use super::built_query::{as_call, call, column, text};
use super::literal::text_of;
use super::place::{start_of, suggest};
use super::scope::{FromNames, NamedColumn};
use crate::syntax_walk::{each_expr, each_expr_mut};

const COLUMNS: &str = "columns";

impl Binder<'_> {
    /// Returns the expressions that an expression with COLUMNS stands for, each with the column that it is made of.
    /// `None` if it has none.
    pub(super) fn expanded_columns(&mut self, expr: &Expr) -> Result<Option<Vec<(Expr, NamedColumn)>>> {
        let mut calls: Vec<Function> = Vec::new();
        each_expr(expr, |part| calls.extend(as_call(part, COLUMNS).cloned()));
        let Some(first) = calls.first() else { return Ok(None) };
        if let Some(other) = calls.iter().find(|other| other.args != first.args) {
            let message = "an expression takes the same columns in every COLUMNS";
            return Err(self.at(Error::new(ErrorKind::Unsupported, message), start_of(&Expr::Function(other.clone()))));
        }
        let mut names = FromNames::default();
        for more in &self.level().names {
            names = names.and(more.clone());
        }
        let columns = self.matching_columns(first, &names)?;
        let expanded = columns.into_iter().map(|one| {
            let mut expr = expr.clone();
            let by = reference(&names, &one);
            each_expr_mut(&mut expr, |part| {
                if as_call(part, COLUMNS).is_some() {
                    *part = by.clone();
                }
            });
            (expr, one)
        });
        Ok(Some(expanded.collect()))
    }

    /// The condition of WHERE. One with COLUMNS must be true for all of the columns.
    pub(super) fn where_condition(&mut self, condition: &Expr) -> Result<ScalarExpr> {
        match self.expanded_columns(condition)? {
            None => self.condition(condition),
            Some(all) => {
                let all = all.iter().map(|(one, _)| self.condition(one)).collect::<Result<_>>()?;
                Ok(ScalarExpr::and(all))
            }
        }
    }

    /// The columns that a call of COLUMNS chooses.
    pub(super) fn matching_columns(&mut self, columns: &Function, names: &FromNames) -> Result<Vec<NamedColumn>> {
        let place = start_of(&Expr::Function(columns.clone()));
        let argument = match &columns.args {
            FunctionArguments::List(list) => match list.args.as_slice() {
                [FunctionArg::Unnamed(argument)] => Some(argument),
                _ => None,
            },
            _ => None,
        };
        let all = &names.visible;
        let found = match argument {
            Some(FunctionArgExpr::Wildcard) => all.clone(),
            Some(FunctionArgExpr::WildcardWithOptions(options)) => {
                let excluded = self.excluded(options)?;
                for ident in &excluded {
                    self.check_star_name(all, ident, "EXCLUDE")?;
                }
                let is_kept = |column: &&NamedColumn| !excluded.iter().any(|ident| *ident.value == *column.name);
                all.iter().filter(is_kept).cloned().collect()
            }
            Some(FunctionArgExpr::Expr(Expr::Array(list))) => self.listed_columns(&list.elem, all)?,
            Some(FunctionArgExpr::Expr(Expr::Lambda(lambda))) => {
                let OneOrManyWithParens::One(parameter) = &lambda.params else {
                    let error = Error::new(ErrorKind::Syntax, "the function in COLUMNS takes the name of a column");
                    return Err(self.at(error, place));
                };
                self.chosen_columns(all, |name| {
                    let mut body = (*lambda.body).clone();
                    each_expr_mut(&mut body, |part| {
                        if matches!(part, Expr::Identifier(ident) if ident.value == parameter.name.value) {
                            *part = text(name);
                        }
                    });
                    body
                })?
            }
            Some(FunctionArgExpr::Expr(pattern @ Expr::Value(_))) => {
                self.chosen_columns(all, |name| call("regexp_like", vec![text(name), pattern.clone()]))?
            }
            _ => {
                let message = "COLUMNS takes *, a regular expression, a list of names, or a function of a name";
                return Err(self.at(Error::new(ErrorKind::Syntax, message).hint("for example COLUMNS('_id$')"), place));
            }
        };
        if found.is_empty() {
            let error = Error::new(ErrorKind::UndefinedColumn, "COLUMNS matches no column of FROM");
            let known: Vec<&str> = all.iter().map(|column| &*column.spelled).collect();
            return Err(self.at(error.hint(format!("the columns are {}", known.join(", "))), place));
        }
        Ok(found)
    }

    fn listed_columns(&self, items: &[Expr], all: &[NamedColumn]) -> Result<Vec<NamedColumn>> {
        let mut found = Vec::with_capacity(items.len());
        for item in items {
            let name = match item {
                Expr::Value(value) => text_of(&value.value),
                Expr::Identifier(ident) => Some(ident.value.as_str()),
                _ => None,
            };
            let name = name.unwrap_or_default().to_lowercase();
            match all.iter().find(|column| *column.name == *name) {
                Some(column) => found.push(column.clone()),
                None => {
                    let message = format!("there is no column {item}, which COLUMNS names");
                    let error = Error::new(ErrorKind::UndefinedColumn, message);
                    let error = suggest(error, &name, all.iter().map(|column| &*column.spelled));
                    return Err(self.at(error, start_of(item)));
                }
            }
        }
        Ok(found)
    }

    /// The columns for whose names the condition is true.
    fn chosen_columns(&mut self, all: &[NamedColumn], condition: impl Fn(&str) -> Expr) -> Result<Vec<NamedColumn>> {
        let mut found = Vec::new();
        for column in all {
            let condition = condition(&column.spelled);
            let mut bound = self.condition(&condition)?;
            fold::fold(&mut bound);
            let Some(value) = bound.as_constant() else {
                let error = Error::new(ErrorKind::Unsupported, "the condition in COLUMNS must depend on the name only");
                return Err(self.at(error, start_of(&condition)));
            };
            if value.as_bool() == Some(true) {
                found.push(column.clone());
            }
        }
        Ok(found)
    }
}

/// An expression that names a column, with its table if another table has a column of that name.
fn reference(names: &FromNames, one: &NamedColumn) -> Expr {
    let is_unique = names.visible.iter().filter(|other| other.name == one.name).count() == 1;
    let owner = names.relations.iter().find(|relation| relation.columns.iter().any(|column| column.id == one.id));
    match owner.and_then(|relation| relation.name.as_deref()) {
        Some(table) if !is_unique => {
            Expr::CompoundIdentifier(vec![Ident::with_quote('"', table), Ident::with_quote('"', &*one.name)])
        }
        _ => column(&one.name),
    }
}
