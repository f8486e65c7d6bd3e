//! `INSERT`, `UPDATE` and `DELETE` as programs.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast;
use rowmill_base::{Result, SqlType};
use rowmill_plan::program::{
    Access, Body, Check, ConflictAction, Delete, Insert, OnConflict, Scalar, ScalarOp, Update, Value,
};
use rowmill_storage::TableDef;

use super::access::{choices, split_ranges};
use super::read::{Block, all_of};
use super::rows::BaseColumns;
use super::scalar::{assigned, scalar, value_of};
use super::{Analysed, Compiler, StatementProgram};
use crate::query::named_schema;
use crate::statement::program_parts::{self, InsertedRows, InsertedValue};

/// Which rows of a table a statement changes, and what is computed of each.
struct Found {
    access: Access,
    filter: Option<Scalar>,
    /// At most one row.
    is_point: bool,
    /// Behind the row's number.
    items: Vec<Expr>,
    columns: BaseColumns,
}

/// What `RETURNING` gives.
#[derive(Default)]
struct Returning {
    columns: Vec<Scalar>,
    schema: Option<SchemaRef>,
}

impl Compiler<'_> {
    fn changed(&self, body: Body, tag: &'static str, schema: Option<SchemaRef>) -> Option<StatementProgram> {
        Some(StatementProgram { program: self.program(body), schema, tag })
    }

    /// What a query of a table's own rows finds: if a key narrows it down, or the statement is one that only programs do.
    fn found(&self, query: &ast::Query) -> Result<Option<Found>> {
        let Analysed { plan, .. } = self.analysed(query)?;
        let Some(block) = Block::of(&plan) else { return Ok(None) };
        let Some((columns, conditions)) = block.single_table() else { return Ok(None) };
        let mut conditions: Vec<Option<Expr>> = split_ranges(conditions.to_vec()).into_iter().map(Some).collect();
        let known: Vec<Expr> = conditions.iter().flatten().cloned().collect();
        let is_for_program = self.work.statement.is_for_program();
        let best = choices(0, &known, columns).into_iter().next();
        let Some(chosen) = best.filter(|choice| choice.narrows() || is_for_program) else { return Ok(None) };
        chosen.answered.iter().for_each(|answered| conditions[*answered] = None);
        let left: Vec<Expr> = conditions.into_iter().flatten().collect();
        let Some(filter) = all_of(&left, columns) else { return Ok(None) };
        let items = block.exprs[1..].to_vec();
        let is_point = chosen.is_point;
        Ok(Some(Found { access: chosen.access, filter, is_point, items, columns: columns.clone() }))
    }

    pub(super) fn delete(&self, delete: &ast::Delete) -> Result<Option<StatementProgram>> {
        let mut plain = delete.clone();
        let returning = plain.returning.take();
        let Some((table, query)) = program_parts::delete(self.work, self.snapshot, &plain)? else { return Ok(None) };
        let Some(Found { access, filter, .. }) = self.found(&query)? else { return Ok(None) };
        let Some(returning) = self.returning(&table, returning)? else { return Ok(None) };
        let delete = Delete { access, filter, returning: returning.columns };
        Ok(self.changed(Body::Delete(delete), "DELETE", returning.schema))
    }

    pub(super) fn update(&self, update: &ast::Update) -> Result<Option<StatementProgram>> {
        let mut plain = update.clone();
        let returning = plain.returning.take();
        let Some((table, query)) = program_parts::update(self.work, self.snapshot, &plain)? else { return Ok(None) };
        let Some(found) = self.found(&query)? else { return Ok(None) };
        let mut assignments = Vec::new();
        for (column, item) in found.items.iter().enumerate() {
            let is_itself = match item {
                Expr::Column(read) => found.columns.place(read) == Some((0, column)),
                _ => false,
            };
            if !is_itself {
                let Some(value) = assigned_scalar(item, &table, column, &found.columns) else { return Ok(None) };
                assignments.push((column, value));
            }
        }
        // A program changes one row after the other, and keys have to be unique when all are changed.
        if !found.is_point && assignments.iter().any(|(column, _)| is_unique(&table, *column)) {
            return Ok(None);
        }
        let Some(checks) = self.checks(&table)? else { return Ok(None) };
        let Some(returning) = self.returning(&table, returning)? else { return Ok(None) };
        let Found { access, filter, .. } = found;
        let update = Update { access, filter, assignments, checks, returning: returning.columns };
        Ok(self.changed(Body::Update(update), "UPDATE", returning.schema))
    }

    pub(super) fn insert(&self, insert: &ast::Insert) -> Result<Option<StatementProgram>> {
        let mut plain = insert.clone();
        let (on, returning) = (plain.on.take(), plain.returning.take());
        let Some(InsertedRows { table, rows }) = program_parts::insert(self.work, self.snapshot, &plain)? else {
            return Ok(None);
        };
        let mut scalars = Vec::with_capacity(rows.len());
        let mut sequences = Vec::new();
        for (number, row) in rows.into_iter().enumerate() {
            let counted = row.iter().enumerate().filter_map(|(column, value)| match value {
                InsertedValue::Sequence(sequence) => Some((number, column, *sequence)),
                _ => None,
            });
            sequences.extend(counted);
            let Some(row) = self.inserted_row(&table, row)? else { return Ok(None) };
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
        let insert =
            Insert { table: table.id, rows: scalars, sequences, on_conflict, checks, returning: returning.columns };
        Ok(self.changed(Body::Insert(insert), "INSERT", returning.schema))
    }

    /// `RETURNING items`, over rows of the table.
    fn returning(&self, table: &TableDef, items: Option<Vec<ast::SelectItem>>) -> Result<Option<Returning>> {
        let Some(items) = items else { return Ok(Some(Returning::default())) };
        if table.keyed.is_none() {
            return Ok(None);
        }
        let Analysed { plan, names } =
            self.analysed(&program_parts::of_rows(self.work, self.snapshot, table, items)?)?;
        let schema = named_schema(plan.schema().as_arrow(), &names);
        let Some(block) = Block::of(&plan) else { return Ok(None) };
        let columns = block.single_table().and_then(|_| block.scalars());
        Ok(columns.map(|columns| Returning { columns, schema: Some(schema) }))
    }

    fn on_conflict(&self, table: &TableDef, on: &ast::OnInsert) -> Result<Option<OnConflict>> {
        let ast::OnInsert::OnConflict(ast::OnConflict { conflict_target, action }) = on else { return Ok(None) };
        let target = program_parts::conflict_target(self.work, table, conflict_target.as_ref())?;
        let action = match action {
            ast::OnConflictAction::DoNothing => ConflictAction::Nothing,
            ast::OnConflictAction::DoUpdate(update) => {
                let (assigned, query) = program_parts::conflict_update(self.work, self.snapshot, table, update)?;
                let Analysed { plan, .. } = self.analysed(&query)?;
                let Some(block) = Block::of(&plan) else { return Ok(None) };
                let Some(columns) = block.tables(2) else { return Ok(None) };
                let (values, conditions) = block.exprs.split_at(assigned.len());
                let assigned = assigned.into_iter().zip(values);
                let assigned =
                    assigned.map(|(column, value)| Some((column, assigned_scalar(value, table, column, columns)?)));
                let Some(assignments) = assigned.collect() else { return Ok(None) };
                let Some(filter) = all_of(conditions, columns) else { return Ok(None) };
                ConflictAction::Update { assignments, filter }
            }
        };
        Ok(Some(OnConflict { target, action }))
    }

    /// The values of one row of a `VALUES` list.
    fn inserted_row(&self, table: &TableDef, row: Vec<InsertedValue>) -> Result<Option<Vec<Scalar>>> {
        let mut scalars = Vec::with_capacity(row.len());
        for (column, value) in row.into_iter().enumerate() {
            let kind = &table.columns[column].kind;
            let scalar = match value {
                InsertedValue::Known(value) => value_of(&value, kind),
                InsertedValue::Parameter(number) => self.parameter(number, kind),
                InsertedValue::Sequence(_) => Some(Scalar::literal(kind.clone(), Value::Null)),
                InsertedValue::Computed(query) => {
                    let Analysed { plan, .. } = self.analysed(&query)?;
                    match &plan {
                        LogicalPlan::Projection(projection) => {
                            assigned_scalar(&projection.expr[0], table, column, &BaseColumns::none())
                        }
                        _ => None,
                    }
                }
            };
            let Some(scalar) = scalar else { return Ok(None) };
            scalars.push(scalar);
        }
        Ok(Some(scalars))
    }

    fn parameter(&self, number: usize, kind: &SqlType) -> Option<Scalar> {
        match self.parameters.get(number)? {
            Some(given) => Some(Scalar::new(given.clone(), ScalarOp::Parameter(number))),
            None => Some(Scalar::literal(kind.clone(), Value::Null)),
        }
    }

    /// The conditions of a table, over the columns of its rows.
    fn checks(&self, table: &Arc<TableDef>) -> Result<Option<Vec<Check>>> {
        let Some(keyed) = table.keyed.as_ref().filter(|keyed| !keyed.checks.is_empty()) else {
            return Ok(Some(Vec::new()));
        };
        let query = program_parts::checks(self.work, self.snapshot, table, &keyed.checks)?;
        let Analysed { plan, .. } = self.analysed(&query)?;
        let Some(block) = Block::of(&plan) else { return Ok(None) };
        let Some(conditions) = block.single_table().and_then(|_| block.scalars()) else { return Ok(None) };
        let checks = keyed.checks.iter().zip(conditions);
        Ok(Some(checks.map(|(check, condition)| Check { name: check.name.clone(), condition }).collect()))
    }
}

/// Whether a column is in a key that no two rows have.
fn is_unique(table: &TableDef, column: usize) -> bool {
    let Some(keyed) = &table.keyed else { return false };
    let unique = keyed.indexes.iter().filter(|index| index.unique).flat_map(|index| &index.parts);
    keyed.key.iter().chain(unique).any(|part| part.column == table.columns[column].id)
}

/// What is assigned to a column. A literal is turned into a value of the column here.
fn assigned_scalar(expr: &Expr, table: &TableDef, column: usize, columns: &BaseColumns) -> Option<Scalar> {
    match expr {
        Expr::Alias(alias) => assigned_scalar(&alias.expr, table, column, columns),
        Expr::Literal(value, _) => assigned(value, &table.columns[column].kind),
        other => scalar(other, columns),
    }
}
