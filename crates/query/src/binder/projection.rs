//! The list after SELECT: expressions, aliases, stars.

use std::rc::Rc;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::{ColumnId, ScalarExpr};
use sqlparser::ast::{
    self, ExcludeSelectItem, Ident, ObjectName, ObjectNamePart, RenameSelectItem, SelectItem,
    SelectItemQualifiedWildcardKind, Spanned, WildcardAdditionalOptions,
};
use sqlparser::tokenizer::Span;

use super::Binder;
use super::from::DEFAULT_SCHEMA;
use super::place::{start_of, suggest, unsupported};
use super::result_name::result_name;
use super::scope::{AliasUse, Clause, NamedColumn, SelectAlias};

/// One column of a select list.
#[derive(Debug)]
pub(super) struct SelectedItem {
    /// The value.
    pub(super) expr: ScalarExpr,
    /// The name in lower case.
    pub(super) name: Rc<str>,
    /// The name as the result shows it.
    pub(super) spelled: Rc<str>,
    /// Whether `AS` gives the name.
    pub(super) is_alias: bool,
    /// The column that the value becomes; absent if the value is already a column.
    pub(super) made: Option<ColumnId>,
    /// The position where it is written.
    pub(super) span: Span,
}

impl SelectedItem {
    /// The name as other clauses see it.
    pub(super) fn alias(&self) -> SelectAlias {
        SelectAlias {
            name: Rc::clone(&self.name),
            expr: self.expr.clone(),
            reference: self.reference(),
            is_alias: self.is_alias,
        }
    }

    /// The column that has the value above the select list.
    pub(super) fn reference(&self) -> ScalarExpr {
        match self.made {
            Some(id) => ScalarExpr::id(id, self.expr.kind.clone()),
            None => self.expr.clone(),
        }
    }
}

impl Binder<'_> {
    /// Binds a select list.
    pub(super) fn projection(&mut self, list: &[SelectItem]) -> Result<Vec<SelectedItem>> {
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            match item {
                SelectItem::UnnamedExpr(expr) => match self.expanded_columns(expr)? {
                    None => items.push(self.unnamed_item(expr)?),
                    Some(columns) => {
                        for (expr, NamedColumn { name, spelled, .. }) in columns {
                            items.push(SelectedItem { name, spelled, ..self.unnamed_item(&expr)? });
                        }
                    }
                },
                SelectItem::ExprWithAlias { expr, alias } => match self.expanded_columns(expr)? {
                    None => items.push(self.named_item(expr, alias)?),
                    Some(columns) => {
                        for (expr, _) in columns {
                            items.push(self.named_item(&expr, alias)?);
                        }
                    }
                },
                SelectItem::ExprWithAliases { .. } => return Err(unsupported("several names for one column")),
                SelectItem::Wildcard(options) => {
                    let columns = self.level().names.iter().flat_map(|names| names.visible.clone()).collect::<Vec<_>>();
                    if self.level().names.iter().all(|names| names.relations.is_empty()) {
                        let error = Error::new(ErrorKind::Syntax, "SELECT * needs a FROM clause");
                        return Err(self.at(error, options.wildcard_token.0.span));
                    }
                    self.star(columns, options, &mut items)?;
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    match self.columns_of_table(name) {
                        Ok(columns) => self.star(columns, options, &mut items)?,
                        Err(error) => {
                            let of_struct = self.struct_named(name).ok_or(error)?;
                            self.struct_star(&of_struct, options, &mut items)?;
                        }
                    }
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(expr), options) => {
                    self.struct_star(expr, options, &mut items)?;
                }
            }
            if let Some(named) = items.last().filter(|item| item.is_alias)
                && self.level().alias_use == AliasUse::Fallback
            {
                let alias = named.alias();
                self.level().aliases.push(alias);
            }
        }
        Ok(items)
    }

    fn unnamed_item(&mut self, expr: &ast::Expr) -> Result<SelectedItem> {
        let bound = self.expr(expr)?;
        let spelled = self.name_of(expr, &bound);
        let item = self.item(bound, NamedColumn::new(ColumnId(0), &spelled), false);
        Ok(SelectedItem { span: start_of(expr), ..item })
    }

    fn named_item(&mut self, expr: &ast::Expr, alias: &Ident) -> Result<SelectedItem> {
        let bound = self.expr(expr)?;
        let named = NamedColumn::new(ColumnId(0), &self.spelled(alias));
        Ok(SelectedItem { span: start_of(expr), ..self.item(bound, named, true) })
    }

    /// The name of a column without an alias.
    pub(super) fn name_of(&self, expr: &ast::Expr, bound: &ScalarExpr) -> String {
        // A plain column keeps the spelling that its table gives it.
        if let (ast::Expr::Identifier(ident), Some(column)) = (expr, bound.as_column())
            && let Some(spelled) = self.spelling_of_column(column, &ident.value)
        {
            return spelled;
        }
        if let ast::Expr::Subquery(_) = expr
            && let rowmill_plan::ExprOp::Subquery(subquery) = &bound.op
            && let [id] = subquery.columns.as_slice()
        {
            return self.columns.get(*id).name.clone();
        }
        result_name(expr, &|name| self.spelling_of_name(name))
    }

    /// The spelling of `column`, if its name is `name`.
    fn spelling_of_column(&self, column: usize, name: &str) -> Option<String> {
        let mut all = self.levels.iter().rev().flat_map(|level| &level.names).flat_map(|names| {
            names.visible.iter().chain(names.relations.iter().flat_map(|relation| &relation.columns))
        });
        all.find(|one| one.id.0 == column && *one.name == *name).map(|one| one.spelled.to_string())
    }

    /// The spelling of the first column with this name.
    fn spelling_of_name(&self, name: &str) -> Option<String> {
        let mut all = self.levels.iter().rev().flat_map(|level| &level.names).flat_map(|names| {
            names.visible.iter().chain(names.relations.iter().flat_map(|relation| &relation.columns))
        });
        all.find(|one| *one.name == *name).map(|one| one.spelled.to_string())
    }

    fn item(&mut self, expr: ScalarExpr, named: NamedColumn, is_alias: bool) -> SelectedItem {
        let is_plain = expr.as_column().is_some_and(|column| self.is_own(column));
        let made = (!is_plain).then(|| self.add_column(&named.spelled, expr.kind.clone()));
        if let Some(made) = made {
            self.columns.declare(made, self.declared_of(&expr));
        }
        SelectedItem { expr, name: named.name, spelled: named.spelled, is_alias, made, span: Span::empty() }
    }

    /// The columns of rows as items, for an ORDER BY after them.
    pub(super) fn items_of_columns(&self, columns: &[NamedColumn]) -> Vec<SelectedItem> {
        columns
            .iter()
            .map(|column| SelectedItem {
                expr: self.columns.expr(column.id),
                name: Rc::clone(&column.name),
                spelled: Rc::clone(&column.spelled),
                is_alias: false,
                made: None,
                span: Span::empty(),
            })
            .collect()
    }

    /// The column of a struct that a name before a star means, if it is none of a table.
    fn struct_named(&mut self, name: &ObjectName) -> Option<ast::Expr> {
        let parts: Option<Vec<Ident>> = name.0.iter().map(|part| part.as_ident().cloned()).collect();
        let expr = match parts?.as_slice() {
            [one] => ast::Expr::Identifier(one.clone()),
            parts => ast::Expr::CompoundIdentifier(parts.to_vec()),
        };
        let value = self.expr(&expr).ok()?;
        matches!(value.kind, arrow::datatypes::DataType::Struct(_)).then_some(expr)
    }

    fn columns_of_table(&mut self, name: &ObjectName) -> Result<Vec<NamedColumn>> {
        let mut parts = Vec::with_capacity(name.0.len());
        for part in &name.0 {
            match part {
                ObjectNamePart::Identifier(ident) => parts.push(ident),
                ObjectNamePart::Function(_) => return Err(unsupported(format!("{name}.*"))),
            }
        }
        let (place, table) = match parts.as_slice() {
            [place @ .., table] if place.len() <= 2 => (place, *table),
            _ => return Err(self.no_relation_in_from(parts[0])),
        };
        let own = self.catalog.database_name();
        // A star may also name a table of an enclosing query.
        for level in self.levels.iter().rev().filter(|level| !level.is_hidden) {
            let found = match place {
                [] => level.relation(None, table)?,
                [first] => match level.relation(Some(&first.value), table)? {
                    None => level.relation_of(own, &first.value, DEFAULT_SCHEMA, table),
                    found => found,
                },
                [database, schema, ..] => level.relation_of(own, &database.value, &schema.value, table),
            };
            if let Some(relation) = found {
                return Ok(relation.columns.clone());
            }
        }
        Err(self.no_relation_in_from(table))
    }

    /// The error for an unknown name before a dot.
    pub(super) fn no_relation_in_from(&self, table: &Ident) -> Error {
        let message = format!("\"{}\" is not a table or alias of the FROM clause", table.value);
        let is_hidden = self.levels.iter().filter(|level| level.is_hidden).any(|level| {
            let relations = level.names.iter().flat_map(|names| &names.relations);
            relations.into_iter().any(|relation| relation.name.as_deref() == Some(table.value.as_str()))
        });
        if is_hidden {
            let message = format!("\"{}\" is not visible in a subquery beside it", table.value);
            let error = Error::new(ErrorKind::UndefinedTable, message);
            return self.at(error.hint("write LATERAL (SELECT ...)"), table.span);
        }
        let relations = self.levels.iter().flat_map(|level| &level.names).flat_map(|names| &names.relations);
        let names: Vec<&str> = relations.filter_map(|relation| relation.name.as_deref()).collect();
        self.at(suggest(Error::new(ErrorKind::UndefinedTable, message), &table.value, names), table.span)
    }

    /// Binds `*` or `t.*` with its modifiers.
    fn star(
        &mut self,
        columns: Vec<NamedColumn>,
        options: &WildcardAdditionalOptions,
        items: &mut Vec<SelectedItem>,
    ) -> Result<()> {
        if options.opt_ilike.is_some() {
            return Err(unsupported("ILIKE after *"));
        }
        if options.opt_alias.is_some() {
            return Err(unsupported("AS after *"));
        }
        let excluded = self.excluded(options)?;
        for ident in &excluded {
            self.check_star_name(&columns, ident, "EXCLUDE")?;
        }
        let replaced = options.opt_replace.as_ref().map_or(&[][..], |replace| &replace.items);
        for element in replaced {
            self.check_star_name(&columns, &element.column_name, "REPLACE")?;
        }
        let renamed: Vec<(&Ident, &Ident)> = match &options.opt_rename {
            None => Vec::new(),
            Some(RenameSelectItem::Single(one)) => vec![(&one.ident, &one.alias)],
            Some(RenameSelectItem::Multiple(all)) => all.iter().map(|one| (&one.ident, &one.alias)).collect(),
        };
        for (ident, _) in &renamed {
            self.check_star_name(&columns, ident, "RENAME")?;
        }
        let before = items.len();
        for column in columns {
            if excluded.iter().any(|ident| *ident.value == *column.name) {
                continue;
            }
            let replacement = replaced.iter().find(|element| *element.column_name.value == *column.name);
            let (expr, is_alias) = match replacement {
                Some(element) => (self.expr(&element.expr)?, true),
                None => (self.columns.expr(column.id), false),
            };
            let named = match renamed.iter().find(|(ident, _)| *ident.value == *column.name) {
                Some((_, alias)) => NamedColumn::new(column.id, &self.spelled(alias)),
                None => column,
            };
            items.push(self.item(expr, named, is_alias));
        }
        if items.len() == before {
            return Err(self.at(
                Error::new(ErrorKind::Syntax, "EXCLUDE leaves no column of the *"),
                options.wildcard_token.0.span,
            ));
        }
        Ok(())
    }

    pub(super) fn excluded(&self, options: &WildcardAdditionalOptions) -> Result<Vec<Ident>> {
        let mut excluded = Vec::new();
        let names: &[ObjectName] = match &options.opt_exclude {
            None => &[],
            Some(ExcludeSelectItem::Single(name)) => std::slice::from_ref(name),
            Some(ExcludeSelectItem::Multiple(names)) => names,
        };
        for name in names {
            match name.0.last() {
                Some(ObjectNamePart::Identifier(ident)) => excluded.push(ident.clone()),
                _ => return Err(self.at(unsupported(format!("EXCLUDE ({name})")), name.span())),
            }
        }
        if let Some(except) = &options.opt_except {
            excluded.push(except.first_element.clone());
            excluded.extend(except.additional_elements.iter().cloned());
        }
        Ok(excluded)
    }

    pub(super) fn check_star_name(&self, columns: &[NamedColumn], ident: &Ident, clause: &str) -> Result<()> {
        if columns.iter().any(|column| *column.name == *ident.value) {
            return Ok(());
        }
        let message = format!("there is no column \"{}\" that {clause} could change", ident.value);
        let candidates = columns.iter().map(|column| &*column.spelled);
        Err(self.at(suggest(Error::new(ErrorKind::UndefinedColumn, message), &ident.value, candidates), ident.span))
    }

    /// Binds `(expression).*`: all fields of a struct.
    fn struct_star(
        &mut self,
        expr: &ast::Expr,
        options: &WildcardAdditionalOptions,
        items: &mut Vec<SelectedItem>,
    ) -> Result<()> {
        if *options != WildcardAdditionalOptions::default() {
            return Err(unsupported("EXCLUDE, REPLACE and RENAME of the fields of a struct"));
        }
        let value = self.expr(expr)?;
        let arrow::datatypes::DataType::Struct(fields) = value.kind.clone() else {
            return Err(self.no_fields(expr, &value));
        };
        if rowmill_base::is_json(&value.kind) {
            return Err(self.no_fields(expr, &value).hint("json_each(document) in FROM gives its members as rows"));
        }
        for field in &fields {
            let part = self.field(value.clone(), field.name())?;
            items.push(self.item(part, NamedColumn::new(ColumnId(0), field.name()), false));
        }
        Ok(())
    }

    fn no_fields(&self, expr: &ast::Expr, value: &ScalarExpr) -> Error {
        let message = format!("{expr} is {} and has no fields", super::place::type_name(&value.kind));
        self.at(Error::new(ErrorKind::DatatypeMismatch, message), start_of(expr))
    }

    /// The clause that is being bound, for messages.
    pub(super) fn clause(&self) -> Clause {
        self.levels.last().map_or(Clause::Other("this place"), |level| level.clause)
    }
}
