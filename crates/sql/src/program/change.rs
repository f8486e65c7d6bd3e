//! The plan of a change as a program.

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use rowmill_base::{Result, SqlType, TableId};
use rowmill_plan::program::{
    Body, ChangeTarget, ConflictAction, Delete, Insert, OnConflict, Program, ReadPlan, RowColumn, Scalar, ScalarOp,
    ScalarValue, TableCheck, Update,
};
use rowmill_plan::write::{
    ColumnValue, ConflictAssignments, NewRow, Write, WriteAction, WriteCheck, WriteConflict, WriteSource,
};
use rowmill_plan::{Constant, ScalarExpr};
use rowmill_query::binder::BoundQuery;
use rowmill_query::parameters::{set_null_parameters, set_parameters};
use rowmill_query::program::{self, changed_rows, computed_values, constant, row_values};
use rowmill_query::syntax_walk::has_query;
use rowmill_storage::{ColumnDef, TableDef};

use sqlparser::ast;

use super::{ProgramCompiler, StatementProgram, schema_of};
use crate::engine_query::bind;
use crate::statement::cell::LiteralCell;
use crate::statement::on_conflict::give_type;
use crate::statement::value_rows::row_query;
use crate::statement::write::binder::WriteBinder;
use crate::statement::write::{BoundWrite, ValueRows};

/// What a program does with each row that it writes or removes.
struct AfterRow {
    checks: Vec<TableCheck>,
    returning: Vec<Scalar>,
    schema: Option<SchemaRef>,
}

/// The rows of an `UPDATE`, and the columns that change with their values.
type AssignedRows = (ChangeTarget, Vec<(usize, Scalar)>);

/// The rows of an `INSERT`.
struct InsertedRows {
    rows: Vec<Vec<Scalar>>,
    source: Option<ReadPlan>,
    /// The number of the row, the column, and the sequence that it takes its value from.
    sequences: Vec<(usize, usize, TableId)>,
}

/// The values of a `VALUES` list that have subqueries.
struct QueriedValues {
    /// The values by the addresses of their expressions in the syntax tree, which does not move.
    exprs: Vec<*const ast::Expr>,
    /// Reads one row of all of them.
    read: ReadPlan,
}

impl QueriedValues {
    fn value(&self, expr: &ast::Expr) -> Option<Scalar> {
        let number = self.exprs.iter().position(|known| std::ptr::eq(*known, expr))?;
        Some(Scalar::column(self.read.output().get(number)?.clone(), 0, number))
    }
}

impl ProgramCompiler<'_> {
    /// Returns the program of a change of rows, if it has one.
    pub(super) fn change(&self, binder: &WriteBinder<'_>, write: BoundWrite<'_>) -> Result<Option<StatementProgram>> {
        let BoundWrite { tag, table, mut plan, values, reads_clock } = write;
        // A program outlives the transaction whose time it would keep.
        if reads_clock {
            return Ok(None);
        }
        plan.each_expr(&mut |expr| set_null_parameters(expr, &|parameter| self.is_null(parameter)));
        if let Some(returning) = &mut plan.returning {
            returning.set_null_parameters(&|parameter| self.is_null(parameter));
        }
        let is_keyed = table.keyed.is_some();
        let Some(after) = after_row(&table, &plan) else { return Ok(None) };
        let AfterRow { checks, returning, schema } = after;
        let [action] = plan.actions.as_slice() else { return Ok(None) };
        let generated = match action {
            WriteAction::Insert(row) | WriteAction::Update(row) => generated_values(&table, row),
            WriteAction::Delete(_) => Some(Vec::new()),
        };
        // A row of a columnar table goes into a batch, which only the engine completes.
        let Some(generated) = generated.filter(|generated| is_keyed || generated.is_empty()) else { return Ok(None) };
        let body = match (action, plan.source) {
            (WriteAction::Insert(row), source) => {
                let inserted = match (source, values) {
                    (WriteSource::Values(_), Some(values)) => self.value_rows(binder, &table, row, &values)?,
                    (WriteSource::Query(query), None) if is_keyed => self.query_rows(&table, row, query)?,
                    _ => None,
                };
                let Some(InsertedRows { rows, source, sequences }) = inserted else { return Ok(None) };
                let on_conflict = match &plan.conflict {
                    None => None,
                    Some(conflict) => match conflict_of(&table, conflict) {
                        None => return Ok(None),
                        on_conflict => on_conflict,
                    },
                };
                let table = table.id;
                Body::Insert(Insert { table, rows, source, sequences, generated, on_conflict, checks, returning })
            }
            (WriteAction::Update(row), WriteSource::Target { rows, .. }) if is_keyed => {
                let Some((target, assignments)) = self.assigned_rows(row, rows)? else { return Ok(None) };
                Body::Update(Update { target, assignments, generated, checks, returning })
            }
            (WriteAction::Delete(_), WriteSource::Target { rows, .. }) if is_keyed => {
                let Some(found) = changed_rows(&self.optimized(rows)?) else { return Ok(None) };
                Body::Delete(Delete { target: found.target, returning })
            }
            _ => return Ok(None),
        };
        Ok(Some(StatementProgram { program: self.program(body), schema, tag }))
    }

    /// Returns the rows of an `UPDATE`, and the values of the columns that change.
    fn assigned_rows(&self, row: &NewRow, rows: BoundQuery) -> Result<Option<AssignedRows>> {
        let Some(found) = changed_rows(&self.optimized(rows)?) else { return Ok(None) };
        let mut assignments = Vec::new();
        for (column, value) in row.columns.iter().enumerate() {
            if matches!(value, ColumnValue::Generated(_)) {
                continue;
            }
            let Some(value) = source_value(value, &found.values) else { return Ok(None) };
            // The plan gives all columns of the row. A column that keeps its own value needs no assignment.
            if value.op != ScalarOp::Column(RowColumn { row: found.target.row, column }) {
                assignments.push((column, value));
            }
        }
        Ok(Some((found.target, assignments)))
    }

    fn query_rows(&self, table: &TableDef, row: &NewRow, query: BoundQuery) -> Result<Option<InsertedRows>> {
        let Some(source) = program::read(&self.optimized(query)?) else { return Ok(None) };
        let columns = source.output().into_iter().enumerate();
        let columns: Vec<Scalar> = columns.map(|(number, kind)| Scalar::column(kind, 0, number)).collect();
        let mut sequences = Vec::new();
        let mut scalars = Vec::with_capacity(row.columns.len());
        for (column, value) in row.columns.iter().enumerate() {
            scalars.push(match value {
                ColumnValue::Sequence(sequence) => {
                    sequences.push((0, column, *sequence));
                    Some(null(&table.columns[column].kind))
                }
                ColumnValue::Generated(_) => Some(null(&table.columns[column].kind)),
                value => source_value(value, &columns),
            });
        }
        let row: Option<Vec<Scalar>> = scalars.into_iter().collect();
        Ok(row.map(|row| InsertedRows { rows: vec![row], source: Some(source), sequences }))
    }

    fn value_rows(
        &self,
        binder: &WriteBinder<'_>,
        table: &TableDef,
        row: &NewRow,
        values: &ValueRows<'_>,
    ) -> Result<Option<InsertedRows>> {
        let queried = self.queried_values(values)?;
        let mut inserted = InsertedRows { rows: Vec::new(), source: None, sequences: Vec::new() };
        for (number, given) in values.rows.iter().enumerate() {
            let mut scalars = Vec::with_capacity(row.columns.len());
            for (place, value) in row.columns.iter().enumerate() {
                let column = &table.columns[place];
                let cell = match value {
                    ColumnValue::Source(input) => LiteralCell::of(&given[*input], &column.kind),
                    _ => LiteralCell::Default,
                };
                let scalar = match (value, cell, table.identity(column.id)) {
                    (ColumnValue::Generated(_), ..) => Some(null(&column.kind)),
                    // The program asks sequences for their values in each run, so it needs to know their places.
                    (_, LiteralCell::Default, Some(identity)) => {
                        inserted.sequences.push((number, place, identity.sequence));
                        Some(null(&column.kind))
                    }
                    (ColumnValue::Default(default), ..) => scalar_of(default, &column.kind),
                    (_, LiteralCell::Default, None) => scalar_of(&binder.default(column)?, &column.kind),
                    (_, LiteralCell::Computed(expr), _)
                        if let Some(value) = queried.as_ref().and_then(|queried| queried.value(expr)) =>
                    {
                        Some(if value.kind == column.kind { value } else { value.cast(column.kind.clone()) })
                    }
                    (_, cell, _) => self.cell(binder, cell, column)?,
                };
                let Some(scalar) = scalar else { return Ok(None) };
                scalars.push(scalar);
            }
            inserted.rows.push(scalars);
        }
        inserted.source = queried.map(|queried| queried.read);
        Ok(Some(inserted))
    }

    /// Reads the values of the only row of a `VALUES` list that have subqueries, in one query. Returns `None` if there
    /// are none, if there are more rows, or if the query has no program.
    fn queried_values(&self, values: &ValueRows<'_>) -> Result<Option<QueriedValues>> {
        let [row] = &values.rows[..] else { return Ok(None) };
        let exprs: Vec<&ast::Expr> = row.iter().filter(|cell| has_query(*cell)).collect();
        if exprs.is_empty() {
            return Ok(None);
        }
        let query = row_query(&exprs, self.work.settings())?;
        let bound = bind(&self.context(), &query, self.work.statement.spellings(), &self.kinds())?;
        let read = program::read(&self.optimized(bound)?);
        Ok(read.map(|read| QueriedValues { exprs: exprs.into_iter().map(std::ptr::from_ref).collect(), read }))
    }

    /// Returns a value of a `VALUES` list that is not DEFAULT.
    fn cell(&self, binder: &WriteBinder<'_>, cell: LiteralCell<'_>, column: &ColumnDef) -> Result<Option<Scalar>> {
        Ok(match cell {
            LiteralCell::Parameter(number) => self.parameter(number, &column.kind),
            LiteralCell::Computed(expr) => {
                let mut bound = binder.exprs(&[(expr, None)], &[], "VALUES")?;
                let is_null = |parameter| self.is_null(parameter);
                bound.exprs.iter_mut().for_each(|expr| set_null_parameters(expr, &is_null));
                let value = bound.exprs.first().filter(|_| !bound.reads_clock);
                value.and_then(|value| scalar_of(value, &column.kind))
            }
            // If the literal is wrong, the engine will find it too and name its place.
            cell => cell.value(&column.kind, &column.name).ok().and_then(known),
        })
    }

    fn parameter(&self, number: usize, kind: &SqlType) -> Option<Scalar> {
        match self.parameters.get(number)? {
            Some(given) => Some(Scalar::parameter(given.clone(), number)),
            None => Some(null(kind)),
        }
    }
}

/// Returns the program that inserts one row of a table, whose columns are its parameters, with the conflict clause of
/// `plan`. `values` are those of the statement's own parameters.
pub(crate) fn insert_of_row(
    table: &TableDef,
    plan: &Write<BoundQuery>,
    values: &[Constant],
) -> Result<Option<StatementProgram>> {
    let mut plan = Write { source: WriteSource::Values(1), ..plan.clone() };
    let mut failed = Ok(());
    plan.each_expr(&mut |expr| {
        if let Err(error) = set_parameters(expr, values) {
            failed = Err(error);
        }
    });
    failed?;
    if let Some(returning) = &mut plan.returning {
        returning.set_parameters(values)?;
    }
    let on_conflict = plan.conflict.as_ref().and_then(|conflict| conflict_of(table, conflict));
    let (Some(on_conflict), Some(after)) = (on_conflict, after_row(table, &plan)) else { return Ok(None) };
    let generated = match plan.actions.as_slice() {
        [WriteAction::Insert(row)] => generated_values(table, row),
        _ => None,
    };
    let Some(generated) = generated else { return Ok(None) };
    let AfterRow { checks, returning, schema } = after;
    let parameters: Vec<SqlType> = table.columns.iter().map(|column| column.kind.clone()).collect();
    let row = parameters.iter().enumerate().map(|(number, kind)| Scalar::parameter(kind.clone(), number)).collect();
    let insert = Insert {
        table: table.id,
        rows: vec![row],
        source: None,
        sequences: Vec::new(),
        generated,
        on_conflict: Some(on_conflict),
        checks,
        returning,
    };
    Ok(Some(StatementProgram { program: Program { parameters, body: Body::Insert(insert) }, schema, tag: "INSERT" }))
}

fn after_row(table: &TableDef, plan: &Write<BoundQuery>) -> Option<AfterRow> {
    let conditions = row_values(plan.checks.iter().map(|check| &check.condition), &[table])?;
    let check = |(check, condition): (&WriteCheck, Scalar)| TableCheck { name: check.name.clone(), condition };
    let checks = plan.checks.iter().zip(conditions).map(check).collect();
    let Some(returning) = &plan.returning else { return Some(AfterRow { checks, returning: vec![], schema: None }) };
    // A program knows only the row of the target.
    if !plan.beside.is_empty() {
        return None;
    }
    table.keyed.as_ref()?;
    let schema = Some(schema_of(returning));
    Some(AfterRow { checks, returning: computed_values(returning, table)?, schema })
}

/// Returns the generated columns of a row with their values over the columns of the row.
fn generated_values(table: &TableDef, row: &NewRow) -> Option<Vec<(usize, Scalar)>> {
    let values = row_values(row.generated().map(|(_, expr)| expr), &[table])?;
    Some(row.generated().map(|(place, _)| place).zip(values).collect())
}

fn conflict_of(table: &TableDef, conflict: &WriteConflict) -> Option<OnConflict> {
    let WriteConflict { target, update } = conflict;
    let action = match update {
        None => ConflictAction::Nothing,
        Some(ConflictAssignments { values, filter }) => {
            let rows = [table, table];
            let scalars = row_values(values.iter().map(|(_, value)| value), &rows)?;
            let assignments = values.iter().map(|(column, _)| *column).zip(scalars).collect();
            ConflictAction::Update { assignments, filter: Scalar::all_of(row_values(filter, &rows)?) }
        }
    };
    Some(OnConflict { target: *target, action })
}

/// Returns the value of a column, where `source` has the values of the source's columns.
fn source_value(value: &ColumnValue, source: &[Scalar]) -> Option<Scalar> {
    match value {
        ColumnValue::Source(number) => source.get(*number).cloned(),
        ColumnValue::Default(expr) => row_values([expr], &[])?.pop(),
        ColumnValue::Kept | ColumnValue::Sequence(_) | ColumnValue::Generated(_) => None,
    }
}

/// Returns an expression that reads no columns as a value for a column of the type `kind`.
fn scalar_of(expr: &ScalarExpr, kind: &SqlType) -> Option<Scalar> {
    let mut expr = expr.clone();
    give_type(&mut expr, &kind.arrow());
    row_values([&expr], &[])?.pop()
}

fn null(kind: &SqlType) -> Scalar {
    Scalar::literal(kind.clone(), ScalarValue::Null)
}

/// Returns the only value of an array as a literal.
fn known(value: ArrayRef) -> Option<Scalar> {
    constant(&Constant::new(value))
}
