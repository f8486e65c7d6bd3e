//! Functions in FROM: `unnest`, `generate_series`, and the table functions of the database.

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result, map_kinds};
use rowmill_expr::{fold, functions, typing};
use rowmill_plan::{Constant, Logical, ScalarExpr};
use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, ObjectName, ObjectNamePart, TableAlias};

use super::Binder;
use super::from::{FromPart, item_kind};
use super::json::{gives_records, structs_of_document};
use super::place::{start_of, suggest, type_name, unsupported};
use super::rows_of_list::{EXPAND_ARRAY, is_rows_of_list};
use super::scope::{NamedColumn, ScopeRelation};
use super::summarize::SUMMARIZE;

impl Binder<'_> {
    /// Binds a function in FROM.
    pub(super) fn table_function(
        &mut self,
        name: &ObjectName,
        args: &[FunctionArg],
        ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> Result<FromPart> {
        let [.., ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
            return Err(unsupported(format!("{name}(...) in FROM")));
        };
        if functions::find(&ident.value).is_none()
            && let Some(found) = self.catalog.macro_named(&ident.value)?
        {
            if ordinality {
                return Err(unsupported(format!("WITH ORDINALITY of {}", ident.value)));
            }
            return self.macro_rows(&found, ident, args, alias);
        }
        if self.catalog.reads_files(&ident.value) {
            return self.file_function(ident, args, ordinality, alias);
        }
        if ident.value == "unnest" && args.iter().any(|arg| matches!(arg, FunctionArg::Named { .. })) {
            let list = self.deep_list(args)?;
            return self.unnest_values(vec![(list, "unnest".into())], ordinality, alias, "unnest");
        }
        let mut arguments = Vec::with_capacity(args.len());
        for arg in args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => arguments.push(expr),
                other => return Err(unsupported(format!("the argument {other} of a table function"))),
            }
        }
        match ident.value.as_str() {
            "unnest" => {
                let lists: Vec<ast::Expr> = arguments.into_iter().cloned().collect();
                self.unnest(&lists, ordinality, alias)
            }
            "generate_series" | "range" => {
                let function = functions::find(&ident.value).ok_or_else(|| self.no_table_function(ident))?;
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(self.expr(argument)?);
                }
                let list = self.placed(ident.span, |_| typing::call(function, values))?;
                self.unnest_values(vec![(list, "value".into())], ordinality, alias, &ident.value)
            }
            SUMMARIZE => self.summarize(&arguments, alias),
            EXPAND_ARRAY => self.expanded_list(&arguments, ordinality, alias),
            function if gives_records(function).is_some() && !ordinality => {
                self.placed(ident.span, |binder| binder.records_of_document(function, &arguments, alias))
            }
            function if structs_of_document(function).is_some() && !ordinality => {
                self.placed(ident.span, |binder| binder.structs_of_document(function, &arguments, alias))
            }
            function if is_rows_of_list(function) => {
                let list = self.rows_of_list(function, &arguments)?;
                let column = if function.contains("_array_elements") { "value" } else { function };
                self.unnest_values(vec![(list, column.into())], ordinality, alias, function)
            }
            function if functions::find(function).is_some() => {
                self.scalar_in_from(ident, &arguments, ordinality, alias)
            }
            function => {
                let mut constants = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    constants.push(self.constant_argument(argument)?);
                }
                let found = self.catalog.table_function(function, &constants);
                let Some(source) = found.map_err(|error| self.at(error, ident.span))? else {
                    return Err(self.no_table_function(ident));
                };
                if ordinality {
                    return Err(unsupported(format!("WITH ORDINALITY of {function}")));
                }
                self.sources.push(source);
                let (plan, columns) = self.source(self.sources.len() - 1);
                let relation = ScopeRelation::new(Some(function), columns);
                self.aliased(plan, relation, alias)
            }
        }
    }

    /// A scalar function in FROM: one row with its value, as in PostgreSQL.
    fn scalar_in_from(
        &mut self,
        ident: &ast::Ident,
        arguments: &[&ast::Expr],
        ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> Result<FromPart> {
        let function = functions::find(&ident.value).ok_or_else(|| self.no_table_function(ident))?;
        let arguments: Vec<ast::Expr> = arguments.iter().map(|argument| (*argument).clone()).collect();
        let values = self.exprs(&arguments)?;
        let value = self.placed(ident.span, |_| typing::call(function, values))?;
        // A list of one item is one row, and the unnest may name columns of the tables before it.
        let list = self.call_named("make_array", vec![value])?;
        self.unnest_values(vec![(list, ident.value.clone())], ordinality, alias, &ident.value)
    }

    pub(super) fn constant_argument(&mut self, argument: &ast::Expr) -> Result<Constant> {
        // A bare word is the name of an object, as in rowmill_storage(hits).
        let mut bound = match argument {
            ast::Expr::Identifier(name) if name.quote_style.is_none() => {
                return Ok(Constant::from(name.value.as_str()));
            }
            _ => self.expr(argument)?,
        };
        if bound.as_constant().is_none() {
            fold::fold(&mut bound);
        }
        bound.as_constant().cloned().ok_or_else(|| {
            let error = Error::new(ErrorKind::Unsupported, "the arguments of a table function must be constants");
            self.at(error.hint("unnest(range(...)) in a select list takes columns"), start_of(argument))
        })
    }

    fn no_table_function(&self, ident: &ast::Ident) -> Error {
        // PRAGMA x is a call of this function.
        if let Some(name) = ident.value.strip_prefix("pragma_") {
            let error = Error::new(ErrorKind::UndefinedFunction, format!("there is no PRAGMA {name}"));
            return error.hint("PRAGMA table_info('t') is supported; SHOW ALL lists the settings, SET changes one");
        }
        let message = format!("there is no table function \"{}\"", ident.value);
        let names = [
            "unnest",
            "generate_series",
            "generate_subscripts",
            "range",
            "json_each",
            "json_tree",
            "json_array_elements",
            "json_object_keys",
            "rowmill_storage",
            "rowmill_table_order",
            "rowmill_log",
        ];
        self.at(suggest(Error::new(ErrorKind::UndefinedFunction, message), &ident.value, names), ident.span)
    }

    /// `UNNEST(list, ...)`
    pub(super) fn unnest(
        &mut self,
        lists: &[ast::Expr],
        ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> Result<FromPart> {
        let mut values = Vec::with_capacity(lists.len());
        for list in lists {
            let value = self.expr(list)?;
            let value = self.list_value(value).map_err(|error| self.at(error, start_of(list)))?;
            values.push((value, "unnest".to_string()));
        }
        self.unnest_values(values, ordinality, alias, "unnest")
    }

    /// `_pg_expandarray(list)` in FROM: the columns `x`, an item, and `n`, its position.
    fn expanded_list(
        &mut self,
        arguments: &[&ast::Expr],
        ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> Result<FromPart> {
        let [list] = arguments else {
            return Err(Error::new(ErrorKind::UndefinedFunction, format!("{EXPAND_ARRAY} takes a list")));
        };
        let list = self.expr(list)?;
        let list = self.list_value(list)?;
        let positions = self.positions(list.clone(), ScalarExpr::literal(1_i64), false)?;
        self.unnest_values(vec![(list, "x".into()), (positions, "n".into())], ordinality, alias, EXPAND_ARRAY)
    }

    /// Checks that `value` is a list. NULL counts as an empty list.
    pub(super) fn list_value(&self, value: ScalarExpr) -> Result<ScalarExpr> {
        match &value.kind {
            DataType::List(_) if map_kinds(&value.kind).is_none() => Ok(value),
            DataType::Null => {
                let item = arrow::datatypes::Field::new("item", DataType::Null, true);
                self.coerce(value, &DataType::List(item.into()))
            }
            other => {
                let message = format!("unnest takes a list, not {}", type_name(other));
                Err(Error::new(ErrorKind::UndefinedFunction, message))
            }
        }
    }

    fn unnest_values(
        &mut self,
        lists: Vec<(ScalarExpr, String)>,
        ordinality: bool,
        alias: Option<&TableAlias>,
        function: &str,
    ) -> Result<FromPart> {
        if lists.is_empty() {
            return Err(Error::new(ErrorKind::UndefinedFunction, "unnest takes at least one list"));
        }
        let mut columns = Vec::with_capacity(lists.len() + 1);
        let mut bound = Vec::with_capacity(lists.len());
        for (list, name) in lists {
            let Some(kind) = item_kind(&list.kind) else {
                return Err(Error::internal(format!("{function} in FROM gives {} and no list", list.kind)));
            };
            let id = self.add_column(&name, kind);
            columns.push(NamedColumn::new(id, &name));
            bound.push((id, list));
        }
        let ordinality = ordinality.then(|| {
            let id = self.add_column("ordinality", DataType::Int64);
            columns.push(NamedColumn::new(id, "ordinality"));
            id
        });
        let plan = Logical::Unnest { input: Box::new(Logical::one_row()), lists: bound, ordinality, outer: false };
        let is_single = columns.len() == 1;
        let relation = ScopeRelation::new(Some(function), columns);
        let mut part = self.aliased(plan, relation, alias)?;
        // In `FROM generate_series(1, 3) AS i` the column is called i as well.
        if let Some(alias) = alias
            && is_single
            && alias.columns.is_empty()
        {
            part.names.relations[0].is_value = true;
        }
        Ok(part)
    }
}
