//! The binder: turns a syntax tree into a logical plan, and resolves names, types and scopes.
//!
//! The files follow the parts of a query:
//!
//! - `query`: WITH, set operations, VALUES, LIMIT; `with`: common table expressions; `from`: tables and joins;
//!   `table_function`: functions in FROM; `rows_of_list`: functions that give a row for each item of a list;
//!   `deep_unnest`: rows for the items of lists in lists
//!   `pivot`, `unpivot`, `summarize`: queries that their clauses stand for; `built_query`: how those are put together
//!   `file_function`: `read_csv` and others; `table_sample`: TABLESAMPLE; `macro_call`: macros;
//!   `matching_columns`: `COLUMNS(...)`
//! - `select`: one SELECT; `projection`: its list; `grouping`: GROUP BY; `ordering`: ORDER BY and DISTINCT ON; `window`
//! - `expression` with `operator`, `literal`, `call`, `conditional`, `aggregate`, `subquery`, `access`
//! - `expanded_call`: functions that stand for other expressions
//! - `gapfill`: `time_bucket_gapfill`, `locf` and `interpolate`
//! - `ordered_join`: ASOF, LT, SPLICE, WINDOW and HORIZON JOIN
//! - `sample`: SAMPLE BY and FILL; `latest`: LATEST ON; `duration`: lengths of time such as `15m`
//! - `time_interval`: `ts IN '2026-11'`
//! - `target`: the rows that UPDATE, DELETE and MERGE change
//! - `reads`: the tables, columns and views that a statement reads, for the check of rights
//! - `declared`: types of columns that only others know
//! - `scope`: visible names; `result_name`: names of computed columns; `place`: positions of errors
//!
//! An expression is bound over the columns of FROM. While the expressions of a SELECT are bound, its [`Level`] collects
//! the aggregates and window calls, and a column replaces each of them. When all of them are known, `grouping` replaces
//! the keys in every expression after GROUP BY and reports columns that are not grouped.

mod access;
mod aggregate;
mod built_query;
mod call;
mod conditional;
mod declared;
mod deep_unnest;
pub(crate) mod duration;
mod expanded_call;
mod expression;
mod file_function;
mod from;
mod gapfill;
mod grouping;
mod interval_total;
mod item_function;
mod json;
mod latest;
mod literal;
mod macro_call;
mod matching_columns;
mod operator;
mod ordered_join;
mod ordering;
mod pivot;
mod place;
mod projection;
mod query;
mod reads;
mod result_name;
mod rows_of_list;
mod sample;
mod scope;
mod select;
mod subquery;
mod summarize;
mod table_function;
mod table_sample;
pub mod target;
mod ties;
mod time_interval;
mod total_of_parts;
pub mod type_name;
mod unpivot;
pub(crate) mod walk;
mod where_alias;
mod wide_total;
mod window;
mod window_join;
mod with;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::typing;
use rowmill_plan::{ColumnId, ColumnNames, ExprOp, Logical, LogicalQuery, ScalarExpr};
use rowmill_storage::TableSource;
use sqlparser::ast;
use sqlparser::tokenizer::Span;

use crate::catalog::{CatalogView, QueryCatalog, RelationName, RowSource, ViewSpelling};
use grouping::KeyedScan;
use item_function::ItemParameter;
use reads::BinderReads;
use scope::{Clause, FromNames, NamedColumn, ScopeRelation, SelectLevel};
use with::WithQuery;

pub use reads::{ReadRelation, RelationRead};

/// A query whose names and types are resolved.
#[derive(Clone, Debug)]
pub struct BoundQuery {
    /// The plan.
    pub query: LogicalQuery,
    /// The tables that it names by number.
    pub tables: Vec<Arc<dyn TableSource>>,
    /// The other sources that it names by number.
    pub sources: Vec<Arc<dyn RowSource>>,
    /// The types of the parameters, by number; `None` if the statement does not determine the type.
    pub parameters: Vec<Option<DataType>>,
    /// Whether the plan contains the time of the transaction, so another transaction must bind the query again.
    pub reads_clock: bool,
}

/// A column that an expression of [`bind_exprs`] can name.
#[derive(Clone, Debug)]
pub struct ExprColumn {
    /// The schema that may come before the table, in lower case.
    pub schema: Option<String>,
    /// The table that may qualify it, in lower case.
    pub table: Option<String>,
    /// The name as spelled.
    pub name: String,
    /// The type.
    pub kind: DataType,
}

/// Expressions over given columns.
#[derive(Clone, Debug)]
pub struct BoundExprs {
    /// The expressions in order. Column `i` of the given columns is [`ColumnId`] `i`.
    pub exprs: Vec<ScalarExpr>,
    /// The columns: the given ones first, then those that subqueries make.
    pub columns: ColumnNames,
    /// The tables that subqueries name by number.
    pub tables: Vec<Arc<dyn TableSource>>,
    /// The other sources that subqueries name by number.
    pub sources: Vec<Arc<dyn RowSource>>,
    /// The types of the parameters, by number; `None` if the statement does not determine the type.
    pub parameters: Vec<Option<DataType>>,
    /// Whether the expressions contain the time of the transaction.
    pub reads_clock: bool,
}

/// Binds `query`. `parameters` are the types of the parameters, by number, as far as they are known.
pub fn bind(
    query: &ast::Query,
    catalog: &dyn QueryCatalog,
    spelling: &dyn Fn(&ast::Ident) -> String,
    parameters: &[DataType],
) -> Result<BoundQuery> {
    let mut binder = Binder::new(catalog, spelling, parameters);
    let rows = binder.query(query)?;
    binder.finish_checked(rows)
}

/// Binds expressions over `scope`. Each is cast to the type at its position in `wanted`, if there is one. `clause`
/// names the place in messages, for example `CHECK` or `RETURNING`. Aggregates and window functions are not allowed.
pub fn bind_exprs(
    exprs: &[(&ast::Expr, Option<&DataType>)],
    scope: &[ExprColumn],
    clause: &'static str,
    catalog: &dyn QueryCatalog,
    spelling: &dyn Fn(&ast::Ident) -> String,
    parameters: &[DataType],
) -> Result<BoundExprs> {
    let mut binder = Binder::new(catalog, spelling, parameters);
    let names = binder.given_names(scope);
    let mut level = SelectLevel::new(0);
    level.names = names.relations.into_iter().map(FromNames::of).collect();
    // A name of several tables is that of the first one, which is the row that the statement changes.
    level.preferred = (level.names.len() > 1).then_some(0);
    level.end = Some(binder.columns_end());
    level.clause = Clause::Other(clause);
    binder.levels.push(level);
    let mut bound = Vec::with_capacity(exprs.len());
    for (expr, wanted) in exprs {
        let value = binder.expr(expr)?;
        let value = match wanted {
            Some(kind) => binder.placed(place::start_of(expr), |binder| binder.coerce(value, kind))?,
            None => value,
        };
        bound.push(value);
    }
    binder.check_reads(None, &bound)?;
    binder.settle_parameters(&mut |each| {
        for expr in &mut bound {
            walk::rewrite_deep(expr, each);
        }
    });
    Ok(BoundExprs {
        exprs: bound,
        columns: binder.columns,
        tables: binder.tables,
        sources: binder.sources,
        parameters: binder.parameters,
        reads_clock: binder.reads_clock,
    })
}

/// Binds one expression over `scope`. See [`bind_exprs`] for the rules.
pub fn bind_expr(
    expr: &ast::Expr,
    scope: &[ExprColumn],
    clause: &'static str,
    catalog: &dyn QueryCatalog,
    spelling: &dyn Fn(&ast::Ident) -> String,
    parameters: &[DataType],
) -> Result<BoundExprs> {
    bind_exprs(&[(expr, None)], scope, clause, catalog, spelling, parameters)
}

/// Binds `SELECT items` over the columns of `scope`, as RETURNING needs it: with `*`, `t.*` and names for the result.
/// The root of the plan is a [`Logical::Map`] over `input`, which makes the columns 0 to `scope.len()`.
pub fn bind_items(
    items: &[ast::SelectItem],
    scope: &[ExprColumn],
    clause: &'static str,
    catalog: &dyn QueryCatalog,
    spelling: &dyn Fn(&ast::Ident) -> String,
    parameters: &[DataType],
) -> Result<BoundQuery> {
    let mut binder = Binder::new(catalog, spelling, parameters);
    let names = binder.given_names(scope);
    let columns = (0..scope.len()).map(ColumnId).collect();
    let rows = binder.items_over(vec![names], None, items, clause, columns)?;
    binder.finish_checked(rows)
}

/// A rewrite that must be applied to every expression.
type ExprRewrite<'r> = dyn FnMut(&mut ScalarExpr) + 'r;

/// Rows with named columns.
#[derive(Debug)]
struct BoundRows {
    plan: Logical,
    columns: Vec<NamedColumn>,
}

impl BoundRows {
    /// The columns that the plan and its result name, wherever they come from.
    fn named_columns(&self) -> HashSet<usize> {
        reads::named_columns(&self.plan, self.columns.iter().map(|column| column.id))
    }

    /// Lets the input of a select list, which has no rows yet, give these columns.
    fn give_rows_of(&mut self, columns: Vec<ColumnId>) {
        if let Logical::Map { input, .. } = &mut self.plan {
            **input = Logical::no_rows(columns);
        }
    }
}

/// The relation that a name of the catalog refers to, by its number in the statement.
#[derive(Clone)]
enum KnownRelation {
    Table(usize),
    Source(usize),
    View(Rc<CatalogView>),
}

/// Levels of nested expressions and queries at most. The binder and all later stages are recursive and must stay within
/// a small stack.
const DEPTH_MAX: usize = 400;

/// A nested query counts as several levels, because each one needs more of the stack.
const QUERY_DEPTH: usize = 4;

struct Binder<'a> {
    catalog: &'a dyn QueryCatalog,
    spelling: &'a dyn Fn(&ast::Ident) -> String,
    columns: ColumnNames,
    column_count: usize,
    tables: Vec<Arc<dyn TableSource>>,
    sources: Vec<Arc<dyn RowSource>>,
    parameters: Vec<Option<DataType>>,
    relations: HashMap<RelationName, KnownRelation>,
    /// The SELECTs around the current position, innermost last.
    levels: Vec<SelectLevel>,
    /// The parts of expressions that names of select lists have been replaced by so far.
    alias_parts: Cell<usize>,
    /// The visible names of WITH, innermost last.
    withs: Vec<Rc<WithQuery>>,
    /// The views around the current position.
    views: Vec<(String, ViewSpelling)>,
    /// For each of these views, its database, if that is another one than that of the statement.
    databases: Vec<Option<String>>,
    reads: BinderReads,
    depth: usize,
    /// Number of shared and recursive plans so far, which is the next free number.
    plan_count: usize,
    /// Number of queries of WITH and of views that were bound so far.
    expansions: usize,
    reads_clock: bool,
    /// The columns that order the rows of their tables in time.
    time_columns: HashSet<ColumnId>,
    /// The scans of tables with a primary key so far.
    keyed_scans: Vec<KeyedScan>,
    /// The lambda parameters around the current position, innermost last.
    item_parameters: Vec<ItemParameter>,
    /// Number of lambda parameters so far, which is the next free number.
    item_parameter_count: usize,
}

impl<'a> Binder<'a> {
    fn new(
        catalog: &'a dyn QueryCatalog,
        spelling: &'a dyn Fn(&ast::Ident) -> String,
        parameters: &[DataType],
    ) -> Binder<'a> {
        Binder {
            catalog,
            spelling,
            columns: ColumnNames::default(),
            column_count: 0,
            tables: Vec::new(),
            sources: Vec::new(),
            parameters: parameters.iter().map(|kind| (*kind != DataType::Null).then(|| kind.clone())).collect(),
            relations: HashMap::new(),
            levels: Vec::new(),
            alias_parts: Cell::new(0),
            withs: Vec::new(),
            views: Vec::new(),
            databases: Vec::new(),
            reads: BinderReads::default(),
            depth: 0,
            plan_count: 0,
            expansions: 0,
            reads_clock: false,
            time_columns: HashSet::new(),
            keyed_scans: Vec::new(),
            item_parameters: Vec::new(),
            item_parameter_count: 0,
        }
    }

    /// Finishes a query whose result reads all of its columns.
    /// Binds a select list over given names. The columns are those of the rows that the list will be computed for.
    fn items_over(
        &mut self,
        names: Vec<FromNames>,
        preferred: Option<usize>,
        items: &[ast::SelectItem],
        clause: &'static str,
        columns: Vec<ColumnId>,
    ) -> Result<BoundRows> {
        let mut level = SelectLevel::new(0);
        level.names = names;
        level.preferred = preferred;
        level.end = Some(self.columns_end());
        level.clause = Clause::Other(clause);
        self.levels.push(level);
        let items = self.projection(items)?;
        let (exprs, output) = self.output(items);
        let plan = Logical::Map { input: Box::new(Logical::no_rows(columns)), exprs };
        Ok(BoundRows { plan, columns: output })
    }

    fn finish_checked(mut self, rows: BoundRows) -> Result<BoundQuery> {
        self.note_results(rows.columns.iter().map(|column| column.id));
        self.check_reads(Some(&rows.plan), &[])?;
        Ok(self.finish(rows))
    }

    fn finish(mut self, rows: BoundRows) -> BoundQuery {
        let BoundRows { mut plan, columns } = rows;
        self.settle_parameters(&mut |each| walk::rewrite_plan(&mut plan, each));
        BoundQuery {
            query: LogicalQuery {
                root: plan,
                output: columns.into_iter().map(|column| (column.id, column.spelled.to_string())).collect(),
                columns: self.columns,
            },
            tables: self.tables,
            sources: self.sources,
            parameters: self.parameters,
            reads_clock: self.reads_clock,
        }
    }

    /// Gives each parameter without a known type the type to which it is cast. `all` must call its argument with every
    /// expression, operands first.
    fn settle_parameters(&mut self, all: &mut dyn FnMut(&mut ExprRewrite<'_>)) {
        if self.parameters.is_empty() {
            return;
        }
        let known = &mut self.parameters;
        all(&mut |expr| {
            let ExprOp::Cast { value, .. } = &mut expr.op else { return };
            let ExprOp::Parameter(number) = value.op else { return };
            if value.kind != DataType::Null {
                return;
            }
            let kind = known[number].get_or_insert_with(|| expr.kind.clone());
            value.kind = kind.clone();
            if *kind == expr.kind {
                *expr = std::mem::replace(value, ScalarExpr::null(DataType::Null));
            }
        });
    }

    fn given_names(&mut self, scope: &[ExprColumn]) -> FromNames {
        let mut names = FromNames::default();
        for column in scope {
            let id = self.add_column(&column.name, column.kind.clone());
            let named = NamedColumn::new(id, &column.name);
            let table = column.table.as_deref();
            match names.relations.iter_mut().find(|relation| relation.name.as_deref() == table) {
                Some(relation) => relation.columns.push(named.clone()),
                None => {
                    let mut relation = ScopeRelation::new(table, vec![named.clone()]);
                    relation.schema = column.schema.as_deref().map(Rc::from);
                    names.relations.push(relation);
                }
            }
            names.visible.push(named);
        }
        names
    }

    /// Adds a column.
    fn add_column(&mut self, name: &str, kind: DataType) -> ColumnId {
        self.column_count += 1;
        self.columns.add(name, kind)
    }

    /// A new column with the names of `column`. It keeps the declared type if it has the same type.
    fn copy_of(&mut self, column: &NamedColumn, kind: DataType) -> NamedColumn {
        let of = self.columns.get(column.id);
        let declared = of.declared.filter(|_| of.kind == kind);
        let id = self.add_column(&column.spelled, kind);
        self.columns.declare(id, declared);
        NamedColumn { id, ..column.clone() }
    }

    /// The number of the next column.
    fn columns_end(&self) -> usize {
        self.column_count
    }

    fn kind(&self, id: ColumnId) -> &DataType {
        &self.columns.get(id).kind
    }

    /// A new number for a shared or recursive plan.
    fn next_plan(&mut self) -> usize {
        self.plan_count += 1;
        self.plan_count - 1
    }

    /// The level of the SELECT that is being bound.
    fn level(&mut self) -> &mut SelectLevel {
        self.levels.last_mut().expect("an expression is bound within a level")
    }

    /// The name as spelled in the statement, or in the text of the view that is being bound.
    fn spelled(&self, ident: &ast::Ident) -> String {
        match self.views.last() {
            None => (self.spelling)(ident),
            Some((_, spelling)) => spelling.of(ident),
        }
    }

    /// Runs `step` and adds the position to its error.
    fn placed<T>(&mut self, span: Span, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        step(self).map_err(|error| self.at(error, span))
    }

    /// Adds the position in the statement to `error`, unless the error is in the text of a view.
    fn at(&self, error: Error, span: Span) -> Error {
        match self.views.last() {
            None => place::at(error, span),
            Some(_) => error,
        }
    }

    /// Runs `step` one level deeper.
    fn deeper<T>(&mut self, levels: usize, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += levels;
        if self.depth > DEPTH_MAX {
            return Err(too_deep(DEPTH_MAX));
        }
        let result = step(self);
        self.depth -= levels;
        result
    }

    fn coerce(&self, expr: ScalarExpr, kind: &DataType) -> Result<ScalarExpr> {
        typing::coerce(expr, kind)
    }

    /// Binds a condition, for example of WHERE.
    fn condition(&mut self, expr: &ast::Expr) -> Result<ScalarExpr> {
        let bound = self.expr(expr)?;
        match bound.kind {
            DataType::Boolean => Ok(bound),
            DataType::Null => self.coerce(bound, &DataType::Boolean),
            _ => {
                let message = format!("a condition must be BOOLEAN, but {expr} is {}", place::type_name(&bound.kind));
                Err(self.at(Error::new(ErrorKind::DatatypeMismatch, message), place::start_of(expr)))
            }
        }
    }
}

fn too_deep(levels_max: usize) -> Error {
    Error::new(ErrorKind::StatementTooComplex, format!("the statement nests more than {levels_max} levels deep"))
        .hint("compute a part of it in a subquery of FROM or in a WITH clause, or split the statement")
}
