//! The names that an expression can use: tables and columns of its query and of the enclosing queries.
//!
//! Every SELECT has a level of names. A name is looked up from the innermost level outwards. A name that matches
//! several columns of one level is an error. We never look for it further out in that case.

use std::collections::HashSet;
use std::rc::Rc;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::logical::{AggregateCall, LogicalSortKey, LogicalWindowCall};
use rowmill_plan::{ColumnId, ScalarExpr};
use sqlparser::ast;

use super::gapfill::{FilledCall, GapFillCall};
use super::place::{at, suggest};

/// A column with its name.
#[derive(Clone, Debug)]
pub(crate) struct NamedColumn {
    /// The column.
    pub(crate) id: ColumnId,
    /// The name in lower case.
    pub(crate) name: Rc<str>,
    /// The name as spelled where it was given.
    pub(crate) spelled: Rc<str>,
}

impl NamedColumn {
    /// A column whose name is spelled `spelled`.
    pub(crate) fn new(id: ColumnId, spelled: &str) -> NamedColumn {
        let lower = spelled.to_lowercase();
        let spelled: Rc<str> = spelled.into();
        let name = if lower == *spelled { Rc::clone(&spelled) } else { lower.into() };
        NamedColumn { id, name, spelled }
    }
}

/// The name before a dot: a table or an alias of the FROM clause.
#[derive(Clone, Debug)]
pub(crate) struct ScopeRelation {
    /// The database, if it is another one than that of the statement.
    pub(crate) database: Option<Rc<str>>,
    /// The schema, if the name may be written with one.
    pub(crate) schema: Option<Rc<str>>,
    /// The name or alias in lower case; none for a subquery without an alias.
    pub(crate) name: Option<Rc<str>>,
    /// The columns.
    pub(crate) columns: Vec<NamedColumn>,
    /// Whether the name also refers to the single column. This is so for an alias of a function in FROM.
    pub(crate) is_value: bool,
}

/// The names that an item of a FROM clause gives.
#[derive(Clone, Debug, Default)]
pub(crate) struct FromNames {
    /// The names that may come before a dot.
    pub(crate) relations: Vec<ScopeRelation>,
    /// The columns that can be named without a table, in the order of `SELECT *`. USING and NATURAL merge columns here.
    pub(crate) visible: Vec<NamedColumn>,
}

impl FromNames {
    /// The names of one relation.
    pub(crate) fn of(relation: ScopeRelation) -> FromNames {
        FromNames { visible: relation.columns.clone(), relations: vec![relation] }
    }

    /// The names of both.
    pub(crate) fn and(mut self, other: FromNames) -> FromNames {
        self.relations.extend(other.relations);
        self.visible.extend(other.visible);
        self
    }
}

/// The part of a SELECT that is being bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    /// `FROM`, `ON`
    From,
    /// `WHERE`
    Where,
    /// The list after SELECT.
    Select,
    /// `GROUP BY`
    GroupBy,
    /// `HAVING`
    Having,
    /// `QUALIFY`
    Qualify,
    /// `ORDER BY`, `DISTINCT ON`
    OrderBy,
    /// Anything that is not part of a SELECT, named for messages.
    Other(&'static str),
}

impl Clause {
    /// The name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Clause::From => "FROM and ON",
            Clause::Where => "WHERE",
            Clause::Select => "SELECT",
            Clause::GroupBy => "GROUP BY",
            Clause::Having => "HAVING",
            Clause::Qualify => "QUALIFY",
            Clause::OrderBy => "ORDER BY",
            Clause::Other(name) => name,
        }
    }
}

/// How expressions of the level may use names of the select list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AliasUse {
    /// Not at all.
    Never,
    /// If no column has the name: the expression then replaces the name.
    Fallback,
    /// Before columns: the name refers to the computed column.
    First,
}

/// A name of the select list.
#[derive(Clone, Debug)]
pub(crate) struct SelectAlias {
    /// The name in lower case.
    pub(crate) name: Rc<str>,
    /// The expression that it refers to, over the columns of FROM.
    pub(crate) expr: ScalarExpr,
    /// The column that it becomes.
    pub(crate) reference: ScalarExpr,
    /// Whether `AS` gives the name.
    pub(crate) is_alias: bool,
}

/// A call of a window function in an expression.
#[derive(Clone, Debug)]
pub(crate) struct PendingWindow {
    pub(crate) id: ColumnId,
    pub(crate) partition: Vec<ScalarExpr>,
    pub(crate) order: Vec<LogicalSortKey>,
    pub(crate) call: LogicalWindowCall,
}

/// A WINDOW JOIN of FROM, whose aggregates are computed for each left row if there is no GROUP BY.
#[derive(Clone, Debug)]
pub(crate) struct WindowJoin {
    /// The columns of its right side.
    pub(crate) right_columns: HashSet<usize>,
}

/// The names and the pending calls of one SELECT.
#[derive(Debug)]
pub(crate) struct SelectLevel {
    /// The names of FROM. While FROM is being bound, the names of its items so far.
    pub(crate) names: Vec<FromNames>,
    /// The place in `names` of those that win over others. Without it, a name in several of them is ambiguous.
    pub(crate) preferred: Option<usize>,
    /// Whether its names are hidden: while a subquery of FROM without LATERAL is bound.
    pub(crate) is_hidden: bool,
    /// The first column that FROM may have made, and the one after the last; absent while FROM is being bound.
    pub(crate) first: usize,
    pub(crate) end: Option<usize>,
    pub(crate) clause: Clause,
    /// The condition of WHERE.
    pub(crate) conditions: Vec<ScalarExpr>,
    /// The time of a row in a SELECT with SAMPLE BY.
    pub(crate) sampled_time: Option<ScalarExpr>,
    pub(crate) aliases: Vec<SelectAlias>,
    pub(crate) alias_use: AliasUse,
    pub(crate) aggregates: Vec<(ColumnId, AggregateCall)>,
    /// Calls of `GROUPING`.
    pub(crate) groupings: Vec<(ColumnId, Vec<ScalarExpr>)>,
    pub(crate) windows: Vec<PendingWindow>,
    pub(crate) window_joins: Vec<WindowJoin>,
    pub(crate) gapfill: Option<GapFillCall>,
    /// Calls of `locf` and `interpolate`.
    pub(crate) filled_calls: Vec<FilledCall>,
    /// Calls of `unnest` in the select list.
    pub(crate) unnests: Vec<(ColumnId, ScalarExpr)>,
    pub(crate) named_windows: Vec<(String, ast::NamedWindowExpr)>,
}

impl SelectLevel {
    /// A level whose columns have ids from `first` on.
    pub(crate) fn new(first: usize) -> SelectLevel {
        SelectLevel {
            names: Vec::new(),
            preferred: None,
            is_hidden: false,
            first,
            end: None,
            clause: Clause::From,
            conditions: Vec::new(),
            sampled_time: None,
            aliases: Vec::new(),
            alias_use: AliasUse::Never,
            aggregates: Vec::new(),
            groupings: Vec::new(),
            windows: Vec::new(),
            window_joins: Vec::new(),
            gapfill: None,
            filled_calls: Vec::new(),
            unnests: Vec::new(),
            named_windows: Vec::new(),
        }
    }

    /// Whether FROM makes the column.
    pub(crate) fn reads(&self, id: usize) -> bool {
        id >= self.first && self.end.is_none_or(|end| id < end)
    }

    /// Whether the level makes the column from its groups or windows.
    pub(crate) fn computes(&self, id: usize) -> bool {
        self.aggregates.iter().any(|(made, _)| made.0 == id)
            || self.groupings.iter().any(|(made, _)| made.0 == id)
            || self.windows.iter().any(|window| window.id.0 == id)
            || self.filled_calls.iter().any(|call| call.id.0 == id)
    }

    /// Finds the column of FROM that is named without a table.
    pub(crate) fn column(&self, ident: &ast::Ident) -> Result<Option<ColumnId>> {
        let preferred = self.preferred.and_then(|place| {
            self.names[place].visible.iter().find(|one| *one.name == *ident.value).map(|column| column.id)
        });
        if preferred.is_some() {
            return Ok(preferred);
        }
        let mut found = self.names.iter().flat_map(|names| &names.visible).filter(|one| *one.name == *ident.value);
        let first = found.next();
        match (first, found.next()) {
            (Some(_), Some(_)) => {
                let error = Error::new(
                    ErrorKind::AmbiguousColumn,
                    format!("column \"{}\" is in more than one table", ident.value),
                );
                Err(at(error.hint("write the table before it: table.column"), ident.span))
            }
            (Some(column), None) => Ok(Some(column.id)),
            (None, _) => {
                let mut values = self.names.iter().flat_map(|names| &names.relations).filter(|one| one.is_value);
                let value = values.find(|relation| relation.name.as_deref() == Some(ident.value.as_str()));
                Ok(value.map(|relation| relation.columns[0].id))
            }
        }
    }

    /// Finds a relation by its database, schema and name. The database `own` is that of the statement.
    pub(crate) fn relation_of(
        &self,
        own: &str,
        database: &str,
        schema: &str,
        table: &ast::Ident,
    ) -> Option<&ScopeRelation> {
        let fits = |relation: &&ScopeRelation| {
            relation.name.as_deref() == Some(table.value.as_str())
                && relation.schema.as_deref() == Some(schema)
                && relation.database.as_deref().unwrap_or(own) == database
        };
        self.names.iter().flat_map(|names| &names.relations).find(fits)
    }

    /// Finds a relation by name. Several relations may have the same name in different schemas.
    pub(crate) fn relation(&self, schema: Option<&str>, table: &ast::Ident) -> Result<Option<&ScopeRelation>> {
        let fits = |relation: &&ScopeRelation| {
            relation.name.as_deref() == Some(table.value.as_str())
                && (schema.is_none() || relation.schema.as_deref() == schema)
        };
        let mut found = self.names.iter().flat_map(|names| &names.relations).filter(fits);
        let first = found.next();
        if first.is_some() && found.next().is_some() {
            let error =
                Error::new(ErrorKind::AmbiguousColumn, format!("the FROM clause has \"{}\" twice", table.value));
            return Err(at(error.hint("give one of them another name with AS"), table.span));
        }
        Ok(first)
    }

    /// All columns that a message may suggest.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = &str> {
        self.names.iter().flat_map(|names| &names.visible).map(|column| &*column.spelled)
    }

    /// `table.column` of a column of FROM, for messages.
    pub(crate) fn qualified_name(&self, id: usize) -> Option<String> {
        let relations = self.names.iter().flat_map(|names| &names.relations);
        for relation in relations {
            if let Some(column) = relation.columns.iter().find(|column| column.id.0 == id) {
                return Some(match &relation.name {
                    Some(name) => format!("{name}.{}", column.spelled),
                    None => column.spelled.to_string(),
                });
            }
        }
        let mut visible = self.names.iter().flat_map(|names| &names.visible);
        visible.find(|column| column.id.0 == id).map(|column| column.spelled.to_string())
    }
}

impl ScopeRelation {
    /// A relation with or without a name.
    pub(crate) fn new(name: Option<&str>, columns: Vec<NamedColumn>) -> ScopeRelation {
        ScopeRelation { database: None, schema: None, name: name.map(Rc::from), columns, is_value: false }
    }

    /// Finds the column with this name.
    pub(crate) fn column(&self, ident: &ast::Ident) -> Result<Option<ColumnId>> {
        let mut found = self.columns.iter().filter(|one| *one.name == *ident.value);
        let first = found.next();
        if first.is_some() && found.next().is_some() {
            let table = self.name.as_deref().unwrap_or("the subquery");
            let message = format!("\"{table}\" has several columns \"{}\"", ident.value);
            return Err(at(Error::new(ErrorKind::AmbiguousColumn, message), ident.span));
        }
        Ok(first.map(|column| column.id))
    }

    /// The error for an unknown column.
    pub(crate) fn no_column(&self, ident: &ast::Ident) -> Error {
        let message = match &self.name {
            Some(table) => format!("there is no column \"{}\" in table \"{table}\"", ident.value),
            None => format!("there is no column \"{}\"", ident.value),
        };
        let error = Error::new(ErrorKind::UndefinedColumn, message);
        at(suggest(error, &ident.value, self.columns.iter().map(|column| &*column.spelled)), ident.span)
    }
}
