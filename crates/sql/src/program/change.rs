//! `INSERT`, `UPDATE` and `DELETE` as programs.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, SchemaRef};
use rowmill_base::{Result, SqlType};
use rowmill_plan::program::{
    Body, ConflictAction, Delete, Insert, OnConflict, ReadPlan, RowColumn, Scalar, ScalarOp, ScalarValue, TableCheck,
    Update,
};
use rowmill_plan::{Constant, ScalarExpr};
use rowmill_query::binder::{self, BoundExprs, ExprColumn};
use rowmill_query::program::{self, changed_rows, computed_values, constant, row_values};
use rowmill_storage::TableDef;
use sqlparser::ast;

use super::{ProgramCompiler, StatementProgram, schema_of};
use crate::names::lower;
use crate::query_catalog::ContextCatalog;
use crate::statement::program_parts::{self, InsertedRows, InsertedValue};

/// The values and columns of a `RETURNING` clause.
#[derive(Default)]
struct Returning {
    columns: Vec<Scalar>,
    schema: Option<SchemaRef>,
}

impl ProgramCompiler<'_> {
    fn changed(&self, body: Body, tag: &'static str, schema: Option<SchemaRef>) -> Option<StatementProgram> {
        Some(StatementProgram { program: self.program(body), schema, tag })
    }

    pub(super) fn delete(&self, delete: &ast::Delete) -> Result<Option<StatementProgram>> {
        let mut plain = delete.clone();
        let returning = plain.returning.take();
        let Some((table, query)) = program_parts::delete(self.work, self.snapshot, &plain)? else { return Ok(None) };
        let found = changed_rows(&self.planned(&query)?, self.work.statement.is_for_program());
        let Some(found) = found else { return Ok(None) };
        let Some(returning) = self.returning(&table, returning)? else { return Ok(None) };
        let delete = Delete { target: found.target, returning: returning.columns };
        Ok(self.changed(Body::Delete(delete), "DELETE", returning.schema))
    }

    pub(super) fn update(&self, update: &ast::Update) -> Result<Option<StatementProgram>> {
        let mut plain = update.clone();
        let returning = plain.returning.take();
        let Some((table, query)) = program_parts::update(self.work, self.snapshot, &plain)? else { return Ok(None) };
        let found = changed_rows(&self.planned(&query)?, self.work.statement.is_for_program());
        let Some(found) = found else { return Ok(None) };
        let mut assignments = Vec::new();
        for (column, value) in found.values.into_iter().enumerate() {
            // The plan gives all columns of the row. A column that keeps its own value needs no assignment.
            let itself = ScalarOp::Column(RowColumn { row: found.target.row, column });
            if value.op != itself {
                assignments.push((column, value));
            }
        }
        // A program changes one row after the other, so a key could be taken for a moment. SQL requires unique keys
        // only after all rows are changed, so the engine must run this statement.
        if !found.is_point && assignments.iter().any(|(column, _)| is_unique(&table, *column)) {
            return Ok(None);
        }
        let Some(checks) = self.checks(&table)? else { return Ok(None) };
        let Some(returning) = self.returning(&table, returning)? else { return Ok(None) };
        let update = Update { target: found.target, assignments, checks, returning: returning.columns };
        Ok(self.changed(Body::Update(update), "UPDATE", returning.schema))
    }

    pub(super) fn insert(&self, insert: &ast::Insert) -> Result<Option<StatementProgram>> {
        let mut plain = insert.clone();
        let (on, returning) = (plain.on.take(), plain.returning.take());
        let Some(InsertedRows { table, rows, query }) = program_parts::insert(self.work, self.snapshot, &plain)? else {
            return Ok(None);
        };
        let source = match query {
            None => None,
            Some(query) => match program::read(&self.planned(query)?) {
                None => return Ok(None),
                source => source,
            },
        };
        let of_source = source.as_ref().map(ReadPlan::output).unwrap_or_default();
        let mut scalars = Vec::with_capacity(rows.len());
        let mut sequences = Vec::new();
        for (number, row) in rows.into_iter().enumerate() {
            // The program asks sequences for their values in each run, so it needs to know their places.
            let counted = row.iter().enumerate().filter_map(|(column, value)| match value {
                InsertedValue::Sequence(sequence) => Some((number, column, *sequence)),
                _ => None,
            });
            sequences.extend(counted);
            let Some(row) = self.inserted_row(&table, row, &of_source)? else { return Ok(None) };
            scalars.push(row);
        }
        let Some(checks) = self.checks(&table)? else { return Ok(None) };
        let Some(returning) = self.returning(&table, returning)? else { return Ok(None) };
        let on_conflict = match on {
            None => None,
            Some(on) => match self.on_conflict(&table, &on)? {
                None => return Ok(None),
                on_conflict => on_conflict,
            },
        };
        let insert = Insert {
            table: table.id,
            rows: scalars,
            source,
            sequences,
            on_conflict,
            checks,
            returning: returning.columns,
        };
        Ok(self.changed(Body::Insert(insert), "INSERT", returning.schema))
    }

    /// Binds expressions over rows of tables, each row under its own name.
    fn bound(
        &self,
        exprs: &[(&ast::Expr, Option<&DataType>)],
        rows: &[(&str, &TableDef)],
        clause: &'static str,
    ) -> Result<BoundExprs> {
        let scope: Vec<ExprColumn> = rows.iter().flat_map(|(name, table)| columns(name, table)).collect();
        let catalog = ContextCatalog::new(self.context());
        let spelling = |ident: &ast::Ident| self.work.statement.spellings().of(ident).to_owned();
        let mut bound = binder::bind_exprs(exprs, &scope, clause, &catalog, &spelling, &self.kinds())?;
        bound.set_null_parameters(&|parameter| self.is_null(parameter));
        Ok(bound)
    }

    /// Binds `RETURNING items` over rows of the table.
    fn returning(&self, table: &TableDef, items: Option<Vec<ast::SelectItem>>) -> Result<Option<Returning>> {
        let Some(items) = items else { return Ok(Some(Returning::default())) };
        if table.keyed.is_none() {
            return Ok(None);
        }
        let catalog = ContextCatalog::new(self.context());
        let spelling = |ident: &ast::Ident| self.work.statement.spellings().of(ident).to_owned();
        let scope: Vec<ExprColumn> = columns(&lower(&table.name), table).collect();
        let mut bound = binder::bind_items(&items, &scope, "RETURNING", &catalog, &spelling, &self.kinds())?;
        bound.set_null_parameters(&|parameter| self.is_null(parameter));
        let schema = schema_of(&bound);
        Ok(computed_values(&bound, table).map(|columns| Returning { columns, schema: Some(schema) }))
    }

    fn on_conflict(&self, table: &TableDef, on: &ast::OnInsert) -> Result<Option<OnConflict>> {
        let ast::OnInsert::OnConflict(ast::OnConflict { conflict_target, action }) = on else { return Ok(None) };
        let target = program_parts::conflict_target(self.work, table, conflict_target.as_ref())?;
        let action = match action {
            ast::OnConflictAction::DoNothing => ConflictAction::Nothing,
            ast::OnConflictAction::DoUpdate(update) => {
                let assigned = program_parts::conflict_update(self.work, table, update)?;
                let mut exprs: Vec<(&ast::Expr, Option<&DataType>)> =
                    assigned.iter().map(|(_, expr)| (*expr, None)).collect();
                exprs.extend(update.selection.iter().map(|condition| (condition, Some(&DataType::Boolean))));
                let rows = [(&*lower(&table.name), table), ("excluded", table)];
                let mut bound = self.bound(&exprs, &rows, "ON CONFLICT")?;
                for ((column, _), expr) in assigned.iter().zip(&mut bound.exprs) {
                    give_type(expr, &table.columns[*column].kind);
                }
                let Some(mut values) = values_of(&bound, &[table, table]) else { return Ok(None) };
                // The assigned values come first, and the condition, if any, after them.
                let conditions = values.split_off(assigned.len());
                let assignments = assigned.into_iter().zip(values);
                let assignments = assignments.map(|((column, _), value)| (column, value)).collect();
                ConflictAction::Update { assignments, filter: Scalar::all_of(conditions) }
            }
        };
        Ok(Some(OnConflict { target, action }))
    }

    /// Returns the values of one inserted row. A query that supplies values gives columns of the types `of_source`.
    fn inserted_row(
        &self,
        table: &TableDef,
        row: Vec<InsertedValue>,
        of_source: &[SqlType],
    ) -> Result<Option<Vec<Scalar>>> {
        let columns = row.iter().filter(|value| matches!(value, InsertedValue::Column(_))).count();
        if columns != of_source.len() {
            return Ok(None);
        }
        let mut scalars = Vec::with_capacity(row.len());
        for (column, value) in row.into_iter().enumerate() {
            let kind = &table.columns[column].kind;
            let scalar = match value {
                InsertedValue::Known(value) => known(value),
                InsertedValue::Parameter(number) => self.parameter(number, kind),
                InsertedValue::Column(number) => {
                    of_source.get(number).map(|kind| Scalar::column(kind.clone(), 0, number))
                }
                InsertedValue::Sequence(_) => Some(Scalar::literal(kind.clone(), ScalarValue::Null)),
                InsertedValue::Computed(expr) => {
                    let mut bound = self.bound(&[(&*expr, None)], &[], "VALUES")?;
                    bound.exprs.iter_mut().for_each(|expr| give_type(expr, kind));
                    values_of(&bound, &[]).and_then(|mut values| values.pop())
                }
            };
            let Some(scalar) = scalar else { return Ok(None) };
            scalars.push(scalar);
        }
        Ok(Some(scalars))
    }

    fn parameter(&self, number: usize, kind: &SqlType) -> Option<Scalar> {
        match self.parameters.get(number)? {
            Some(given) => Some(Scalar::parameter(given.clone(), number)),
            None => Some(Scalar::literal(kind.clone(), ScalarValue::Null)),
        }
    }

    /// Returns the CHECK conditions of a table, over the columns of its rows.
    fn checks(&self, table: &Arc<TableDef>) -> Result<Option<Vec<TableCheck>>> {
        let Some(keyed) = table.keyed.as_ref().filter(|keyed| !keyed.checks.is_empty()) else {
            return Ok(Some(Vec::new()));
        };
        let exprs = keyed.checks.iter().map(|check| program_parts::check(self.work, &check.sql));
        let exprs: Vec<ast::Expr> = exprs.collect::<Result<_>>()?;
        let wanted: Vec<_> = exprs.iter().map(|expr| (expr, Some(&DataType::Boolean))).collect();
        let bound = self.bound(&wanted, &[(&lower(&table.name), table)], "CHECK")?;
        let Some(conditions) = values_of(&bound, &[table]) else { return Ok(None) };
        let checks = keyed.checks.iter().zip(conditions);
        Ok(Some(checks.map(|(check, condition)| TableCheck { name: check.name.clone(), condition }).collect()))
    }
}

/// Returns the columns of a table under a name.
fn columns<'t>(name: &str, table: &'t TableDef) -> impl Iterator<Item = ExprColumn> + use<'t> {
    let name = name.to_owned();
    table.columns.iter().map(move |column| ExprColumn {
        table: Some(name.clone()),
        name: column.name.clone(),
        kind: column.kind.arrow(),
    })
}

/// Gives an expression without a type (which is NULL) the type of its column, because programs hold only values with
/// SQL types.
fn give_type(expr: &mut ScalarExpr, kind: &SqlType) {
    if expr.kind == DataType::Null {
        let value = std::mem::replace(expr, ScalarExpr::null(kind.arrow()));
        if value.as_constant().is_none() {
            *expr = value.cast(kind.arrow());
        }
    }
}

/// Returns expressions as program values, or `None` if they read the clock: a program outlives the transaction whose
/// time it would keep.
fn values_of(bound: &BoundExprs, rows: &[&TableDef]) -> Option<Vec<Scalar>> {
    // A program is kept and run again later, when the time is different.
    if bound.reads_clock { None } else { row_values(&bound.exprs, rows) }
}

/// Returns the only value of an array as a literal.
fn known(value: ArrayRef) -> Option<Scalar> {
    constant(&Constant::new(value))
}

/// Whether a column is part of the primary key or of a unique index.
fn is_unique(table: &TableDef, column: usize) -> bool {
    let Some(keyed) = &table.keyed else { return false };
    let unique = keyed.indexes.iter().filter(|index| index.unique).flat_map(|index| &index.parts);
    keyed.key.iter().chain(unique).any(|part| part.column == table.columns[column].id)
}
