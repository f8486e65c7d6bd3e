//! Binds statements that change rows. This file has what they share: names, defaults, checks, RETURNING.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::write::{ColumnValue, NewRow, Write, WriteAction, WriteCheck, WriteConflict, WriteSource};
use rowmill_plan::{Constant, ScalarExpr};
use rowmill_query::binder::target::{BoundReturning, ReturnedItems, TargetRows, bind_target, bind_target_returning};
use rowmill_query::binder::{self, BoundExprs, BoundQuery, ExprColumn};
use rowmill_query::syntax_walk::any_expr;
use rowmill_storage::{ColumnDef, TableDef};
use rowmill_txn::Snapshot;
use sqlparser::ast::{self, Expr, Ident, SelectItem, Statement as Sql};

use super::{BoundWrite, ChangeSyntax, ValueRows};
use crate::access::Access;
use crate::names::{QualifiedName, lower};
use crate::query_catalog::ContextCatalog;
use crate::session::Work;
use crate::statement::default_value;
use crate::statement::generated_column::GeneratedExprs;
use crate::statement::relation;
use crate::statement::sql_text;

/// Binds one statement over a snapshot, for parameters of given types. A statement should be bound once, and its plan
/// should then be run or made a program.
pub(crate) struct WriteBinder<'a> {
    pub(crate) work: &'a Work<'a>,
    pub(crate) snapshot: &'a Arc<Snapshot>,
    /// The types of the parameters, the type NULL for a parameter whose value is NULL.
    kinds: &'a [DataType],
    reads_clock: Cell<bool>,
    /// The types of the parameters that have become known so far, by number.
    parameters: RefCell<Vec<Option<DataType>>>,
}

impl<'a> WriteBinder<'a> {
    pub(crate) fn new(work: &'a Work<'a>, snapshot: &'a Arc<Snapshot>, kinds: &'a [DataType]) -> WriteBinder<'a> {
        let parameters = RefCell::new(vec![None; kinds.len()]);
        WriteBinder { work, snapshot, kinds, reads_clock: Cell::new(false), parameters }
    }

    /// Returns the types that the statement has given its parameters so far, by number.
    pub(crate) fn parameters(&self) -> Vec<Option<DataType>> {
        self.parameters.borrow().clone()
    }

    fn note_parameters(&self, found: &[Option<DataType>]) {
        for (known, found) in self.parameters.borrow_mut().iter_mut().zip(found) {
            if known.is_none() {
                known.clone_from(found);
            }
        }
    }

    fn noted(&self, bound: BoundQuery) -> BoundQuery {
        self.note_parameters(&bound.parameters);
        bound
    }

    /// Binds the rows of `VALUES` to the columns that they go into, so that the parameters among them get the types of
    /// these columns. The executor binds the rows itself.
    pub(crate) fn bind_values(&self, table: &TableDef, values: &ValueRows<'_>) -> Result<()> {
        let kinds: Vec<DataType> = values.targets.iter().map(|target| table.columns[*target].kind.arrow()).collect();
        for row in &values.rows {
            let cells = row.iter().zip(&kinds).filter(|(cell, _)| has_placeholder(cell));
            let cells: Vec<_> = cells.map(|(cell, kind)| (cell, Some(kind))).collect();
            if !cells.is_empty() {
                self.exprs(&cells, &[], "VALUES")?;
            }
        }
        Ok(())
    }

    /// Binds a statement.
    pub(crate) fn bind<'s>(&self, syntax: ChangeSyntax<'s>) -> Result<BoundWrite<'s>> {
        let ChangeSyntax { with, change } = syntax;
        match change {
            Sql::Insert(insert) => self.insert(with, insert),
            Sql::Update(update) => self.update(with, update),
            Sql::Delete(delete) => self.delete(with, delete),
            Sql::Merge(merge) => self.merge(with, merge),
            _ => Err(Error::internal("only changes of rows have a plan of a change")),
        }
    }

    /// Returns the plan of a change, with the checks of its table.
    pub(in crate::statement) fn plan<'s>(
        &self,
        tag: &'static str,
        table: Arc<TableDef>,
        source: WriteSource<BoundQuery>,
        actions: Vec<WriteAction>,
        returning: Option<BoundReturning>,
    ) -> Result<BoundWrite<'s>> {
        let (returning, beside) = returning.map(|found| (found.query, found.beside)).unzip();
        let has_rows = actions.iter().any(|action| !matches!(action, WriteAction::Delete(_)));
        let checks = if has_rows { self.checks(&table)? } else { Vec::new() };
        let plan = Write {
            table: table.id,
            source,
            actions,
            conflict: None,
            checks,
            returning,
            beside: beside.unwrap_or_default(),
        };
        self.access().check_write(&table, &plan)?;
        Ok(BoundWrite { tag, table, plan, values: None, reads_clock: self.reads_clock.get() })
    }

    /// Returns `write` with an ON CONFLICT clause and the rows of VALUES.
    pub(in crate::statement) fn insertion<'s>(
        &self,
        mut write: BoundWrite<'s>,
        conflict: Option<WriteConflict>,
        values: Option<ValueRows<'s>>,
    ) -> Result<BoundWrite<'s>> {
        write.plan.conflict = conflict;
        self.access().check_write(&write.table, &write.plan)?;
        write.values = values;
        write.reads_clock = self.reads_clock.get();
        Ok(write)
    }

    pub(in crate::statement) fn table(&self, name: &QualifiedName) -> Result<Arc<TableDef>> {
        relation::table(self.snapshot.catalog(), name)
    }

    /// Returns the place of a column that the statement names.
    pub(in crate::statement) fn column(&self, table: &TableDef, name: &Ident) -> Result<usize> {
        relation::column(table, self.work.statement.spell(name))
    }

    fn access(&self) -> Access<'_> {
        Access::of(self.snapshot.catalog(), self.work.actor())
    }

    fn catalog(&self) -> ContextCatalog {
        ContextCatalog::new(self.work.context(Arc::clone(self.snapshot)))
    }

    fn spelling(&self, ident: &Ident) -> String {
        self.work.statement.spell(ident).to_owned()
    }

    pub(in crate::statement) fn query(&self, query: &ast::Query) -> Result<BoundQuery> {
        let bound = binder::bind(query, &self.catalog(), &|ident| self.spelling(ident), self.kinds)?;
        Ok(self.noted(bound))
    }

    pub(in crate::statement) fn target(&self, rows: &TargetRows<'_>, clause: &'static str) -> Result<BoundQuery> {
        let bound = bind_target(rows, clause, &self.catalog(), &|ident| self.spelling(ident), self.kinds)?;
        Ok(self.noted(bound))
    }

    /// Returns the columns of a table under a name. The schema must come before the name of the table only, but not
    /// before an alias.
    fn columns<'t>(&self, name: &str, table: &'t TableDef) -> impl Iterator<Item = ExprColumn> + use<'t> {
        let schema = self.snapshot.catalog().schema_by_id(table.schema).filter(|_| lower(&table.name) == name);
        columns(schema.map(|schema| lower(&schema.name)), name, table)
    }

    /// Binds expressions over rows of tables, each row under a name.
    pub(crate) fn exprs(
        &self,
        exprs: &[(&Expr, Option<&DataType>)],
        rows: &[(&str, &TableDef)],
        clause: &'static str,
    ) -> Result<BoundExprs> {
        let scope: Vec<ExprColumn> = rows.iter().flat_map(|(name, table)| self.columns(name, table)).collect();
        let catalog = self.catalog();
        let bound = binder::bind_exprs(exprs, &scope, clause, &catalog, &|ident| self.spelling(ident), self.kinds)?;
        self.reads_clock.set(self.reads_clock.get() || bound.reads_clock);
        self.note_parameters(&bound.parameters);
        Ok(bound)
    }

    /// Binds `RETURNING items` over rows of the table, which the statement calls `alias`.
    pub(in crate::statement) fn returning(
        &self,
        table: &TableDef,
        alias: &str,
        items: Option<&[SelectItem]>,
    ) -> Result<Option<BoundQuery>> {
        let Some(items) = items else { return Ok(None) };
        let scope: Vec<ExprColumn> = self.columns(alias, table).collect();
        let catalog = self.catalog();
        let bound =
            binder::bind_items(items, &scope, "RETURNING", &catalog, &|ident| self.spelling(ident), self.kinds)?;
        Ok(Some(self.noted(bound)))
    }

    /// Binds the rows of a table that a statement changes, and `RETURNING items` over the changed rows and those that
    /// are joined to them. The table is called `alias`.
    pub(in crate::statement) fn target_returning(
        &self,
        rows: &TargetRows<'_>,
        clause: &'static str,
        (table, alias): (&TableDef, &str),
        items: Option<&[SelectItem]>,
    ) -> Result<(BoundQuery, Option<BoundReturning>)> {
        let Some(items) = items.filter(|_| !rows.others.is_empty()) else {
            let returning = self.returning(table, alias, items)?;
            return Ok((self.target(rows, clause)?, returning.map(BoundReturning::of_row)));
        };
        let row: Vec<ExprColumn> = self.columns(alias, table).collect();
        let returned = ReturnedItems { items, row: &row };
        let (catalog, spelling) = (self.catalog(), |ident: &Ident| self.spelling(ident));
        let (rows, returning) = bind_target_returning(rows, &returned, clause, &catalog, &spelling, self.kinds)?;
        let query = self.noted(returning.query);
        Ok((self.noted(rows), Some(BoundReturning { query, ..returning })))
    }

    /// Binds the conditions of a table.
    pub(in crate::statement) fn checks(&self, table: &TableDef) -> Result<Vec<WriteCheck>> {
        let defs = &table.rules.checks;
        if defs.is_empty() {
            return Ok(Vec::new());
        }
        let parse = |sql: &str| sql_text::expr(sql, self.work.settings());
        let exprs = defs.iter().map(|check| parse(&check.sql)).collect::<Result<Vec<Expr>>>()?;
        let wanted: Vec<_> = exprs.iter().map(|expr| (expr, Some(&DataType::Boolean))).collect();
        let bound = self.exprs(&wanted, &[(&lower(&table.name), table)], "CHECK")?;
        let checks = defs.iter().zip(bound.exprs);
        let check = |(def, condition): (&rowmill_storage::CheckDef, ScalarExpr)| WriteCheck {
            name: def.name.clone(),
            sql: def.sql.clone(),
            condition,
        };
        Ok(checks.map(check).collect())
    }

    /// Binds the default of a column: NULL if it declares none.
    pub(crate) fn default(&self, column: &ColumnDef) -> Result<ScalarExpr> {
        if let Some(value) = default_value::literal_default(self.work, column)? {
            return Ok(ScalarExpr::literal(Constant::new(value)));
        }
        let expr = default_value::computed_default(self.work, column)?;
        let mut bound = self.exprs(&[(&expr, None)], &[], "DEFAULT")?;
        bound.exprs.pop().ok_or_else(|| Error::internal("one default was bound"))
    }

    /// Returns the value of a column that the statement does not name.
    pub(in crate::statement) fn absent(&self, table: &TableDef, column: &ColumnDef) -> Result<ColumnValue> {
        match table.identity(column.id) {
            Some(identity) => Ok(ColumnValue::Sequence(identity.sequence)),
            None => self.default(column).map(ColumnValue::Default),
        }
    }

    /// Binds the generated columns of a table.
    pub(in crate::statement) fn generated(&self, table: &TableDef) -> Result<GeneratedExprs> {
        GeneratedExprs::of(self.work, self.snapshot, table)
    }

    /// Returns the row whose columns `targets` come from the source, in that order. The others get their defaults.
    /// Generated columns are always computed.
    pub(in crate::statement) fn row_of(&self, table: &TableDef, targets: &[usize]) -> Result<NewRow> {
        let generated = self.generated(table)?;
        let columns = table.columns.iter().enumerate().map(|(index, column)| {
            let input = targets.iter().position(|target| *target == index);
            match (generated.at(index), input) {
                (Some(expr), _) => Ok(ColumnValue::Generated(expr.clone())),
                (None, Some(input)) => Ok(ColumnValue::Source(input)),
                (None, None) => self.absent(table, column),
            }
        });
        Ok(NewRow { columns: columns.collect::<Result<_>>()?, assigned: targets.to_vec() })
    }

    /// Returns the places of the columns `names`, or of all columns if there are no names.
    pub(in crate::statement) fn targets(&self, table: &TableDef, names: &[&Ident]) -> Result<Vec<usize>> {
        match names {
            [] => Ok((0..table.columns.len()).collect()),
            names => targets(table, names.iter().map(|name| self.work.statement.spell(name))),
        }
    }

    /// Returns the places of the columns that rows of `width` values fill. Without a list of columns, rows may leave
    /// out the generated columns.
    pub(in crate::statement) fn targets_of_width(
        &self,
        table: &TableDef,
        names: &[&Ident],
        width: usize,
    ) -> Result<Vec<usize>> {
        let targets = self.targets(table, names)?;
        if !names.is_empty() || width == targets.len() {
            return Ok(targets);
        }
        let own = given_columns(table);
        Ok(if own.len() == width { own } else { targets })
    }
}

/// Returns the places of the columns of a table that are not generated.
pub(in crate::statement) fn given_columns(table: &TableDef) -> Vec<usize> {
    let columns = table.columns.iter().enumerate();
    columns.filter(|(_, column)| table.generated(column.id).is_none()).map(|(place, _)| place).collect()
}

/// Returns the places of the columns `names`. A name must not occur twice.
pub(in crate::statement) fn targets<'n>(
    table: &TableDef,
    names: impl IntoIterator<Item = &'n str>,
) -> Result<Vec<usize>> {
    let mut targets = Vec::new();
    for name in names {
        let index = relation::column(table, name)?;
        if targets.contains(&index) {
            let column = &table.columns[index].name;
            return Err(Error::new(ErrorKind::DuplicateColumn, format!("column \"{column}\" is named twice")));
        }
        targets.push(index);
    }
    Ok(targets)
}

/// Returns the columns of a table under a name, and under the schema if there is one.
fn columns<'t>(schema: Option<String>, name: &str, table: &'t TableDef) -> impl Iterator<Item = ExprColumn> + use<'t> {
    let name = name.to_owned();
    table.columns.iter().map(move |column| ExprColumn {
        schema: schema.clone(),
        table: Some(name.clone()),
        name: column.name.clone(),
        kind: column.kind.arrow(),
    })
}

/// Whether an expression contains a parameter.
fn has_placeholder(expr: &Expr) -> bool {
    any_expr(expr, |part| matches!(part, Expr::Value(value) if matches!(value.value, ast::Value::Placeholder(_))))
}
