//! Rows without SQL: the plan of an INSERT whose rows come as columns.
//!
//! An appender plans once and then inserts batches of rows. A prepared `INSERT INTO t VALUES ($1, $2)` into a columnar
//! table does the same inside of a transaction: its rows wait in builders until another statement needs them
//! (`crate::open_transaction`). Planning each of them would take many times as long as storing it.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema, SchemaRef};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::write::WriteAction;
use rowmill_storage::{ColumnDef, TableDef};
use rowmill_txn::Transaction;

use super::cell::LiteralCell;
use super::check_clause::RowChecks;
use super::row_sink::{ColumnSource, RowSink};
use super::write::ChangeSyntax;
use super::write::binder::WriteBinder;
use crate::cell_builder::{CellBuilder, Conversion};
use crate::names::DEFAULT_SCHEMA;
use crate::outside::outside_schema;
use crate::parse::StatementBody;
use crate::row_builder::RowBuilder;
use crate::session::{Session, Work};

/// The plan of an INSERT whose rows come as columns.
pub struct AppendPlan {
    table: Arc<TableDef>,
    /// The places of the columns that get values.
    targets: Vec<usize>,
    /// For a prepared INSERT: the parameter for each target.
    parameters: Vec<usize>,
    sink: RowSink,
}

impl std::fmt::Debug for AppendPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppendPlan").field("table", &self.table.name).finish_non_exhaustive()
    }
}

impl AppendPlan {
    /// The table.
    pub fn table(&self) -> &TableDef {
        &self.table
    }

    /// The columns that get values, in order.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = &ColumnDef> {
        self.targets.iter().map(|target| &self.table.columns[*target])
    }

    /// The number of the parameter for each column.
    pub(crate) fn parameters(&self) -> &[usize] {
        &self.parameters
    }

    /// Returns an empty builder of the rows.
    pub fn builder(&self, conversion: Conversion) -> RowBuilder {
        let cell = |column: &ColumnDef| CellBuilder::new(&column.name, &column.kind, column.nullable, conversion);
        RowBuilder::new(self.columns().map(cell).collect())
    }

    /// Inserts rows into the table. After an error the caller must undo what was inserted.
    pub(crate) fn insert(&self, transaction: &mut Transaction, columns: &[ArrayRef], rows: usize) -> Result<()> {
        let batch = self.sink.assigned(transaction, columns, rows)?;
        transaction.insert(self.table.id, &batch)
    }

    /// Returns the first row that cannot be inserted, for an error message. Rows that it inserts stay in the
    /// transaction, and the caller must undo them.
    fn first_refused(&self, transaction: &mut Transaction, columns: &[ArrayRef], rows: usize) -> usize {
        let (mut from, mut to) = (0, rows);
        while to - from > 1 {
            let middle = from + (to - from) / 2;
            let half: Vec<ArrayRef> = columns.iter().map(|values| values.slice(from, middle - from)).collect();
            let savepoint = transaction.savepoint();
            let done = self.insert(transaction, &half, middle - from).and_then(|()| transaction.settle_references());
            match done {
                Ok(()) => from = middle,
                Err(_) => {
                    transaction.rollback_to(&savepoint);
                    to = middle;
                }
            }
        }
        from
    }
}

impl Session {
    /// Plans to insert rows into a table. `columns` are the names of the columns that get values, or none for all
    /// columns. The others get their defaults.
    ///
    /// Without a schema, the name means what it means in a statement: a temporary table, or one of the search path.
    pub fn plan_append(&mut self, schema: Option<&str>, table: &str, columns: &[&str]) -> Result<AppendPlan> {
        self.check_append(schema.unwrap_or(DEFAULT_SCHEMA), table, Some(columns))?;
        let quote = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let name = match schema {
            None => quote(table),
            Some(schema) => format!("{}.{}", quote(schema), quote(table)),
        };
        let names = match columns {
            [] => String::new(),
            names => format!(" ({})", names.iter().map(|name| quote(name)).collect::<Vec<_>>().join(", ")),
        };
        // The code of INSERT binds the names. The query only makes a whole statement of them, and is never bound.
        let statement = self.parse_one(&format!("INSERT INTO {name}{names} SELECT 1"))?;
        self.work_on(&statement, &[], |work| work.append_plan())
    }

    /// The columns that get values when rows are added to a table, as [`Session::plan_append`] plans it, with the types
    /// that other programs see. It takes no right to read them.
    pub fn append_schema(&mut self, schema: Option<&str>, table: &str, columns: &[&str]) -> Result<SchemaRef> {
        let plan = self.plan_append(schema, table, columns)?;
        let field = |column: &ColumnDef| Field::new(&column.name, column.kind.arrow(), true);
        let schema = Arc::new(Schema::new(plan.columns().map(field).collect::<Vec<_>>()));
        Ok(outside_schema(&schema, None).unwrap_or(schema))
    }

    /// Inserts columns of rows in the open transaction. If that fails, none of them is inserted; the error names the
    /// row, counted from `rows_before`.
    pub fn append_rows(
        &mut self,
        plan: &AppendPlan,
        columns: &[ArrayRef],
        rows: usize,
        rows_before: u64,
    ) -> Result<()> {
        let done = self.change(|transaction| plan.insert(transaction, columns, rows));
        let Err(error) = done else { return Ok(()) };
        if matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Deadline) || rows == 0 {
            return Err(error);
        }
        let mut refused = 0;
        // The search inserts rows, so it must fail to be undone.
        let _ = self.change(|transaction| -> Result<()> {
            refused = plan.first_refused(transaction, columns, rows);
            Err(Error::internal("a search for a row"))
        });
        Err(error.context(format_args!("row {}", rows_before + refused as u64)))
    }
}

impl Work<'_> {
    fn append_plan(&mut self) -> Result<AppendPlan> {
        let StatementBody::Sql(sql) = self.statement.body() else { return Err(not_an_insert()) };
        let Some(ChangeSyntax { change: sqlparser::ast::Statement::Insert(insert), .. }) = ChangeSyntax::of(sql) else {
            return Err(not_an_insert());
        };
        let view = self.view()?;
        let binder = WriteBinder::new(self, &view, &[]);
        let (table, targets) = binder.insert_targets(insert)?;
        let row = binder.row_of(&table, &targets)?;
        let checks = Arc::new(RowChecks::new(self, &binder.checks(&table)?)?);
        let sink = RowSink::new(self, &table, &row, &checks)?;
        Ok(AppendPlan { table, targets, parameters: Vec::new(), sink })
    }

    /// Returns the plan of a prepared INSERT of one row of parameters into a columnar table, or `None` if the statement
    /// is another one or needs more than its parameters.
    pub(crate) fn row_plan(&mut self, parameters: usize) -> Result<Option<AppendPlan>> {
        let StatementBody::Sql(sql) = self.statement.body() else { return Ok(None) };
        let Some(change @ ChangeSyntax { with: None, .. }) = ChangeSyntax::of(sql) else { return Ok(None) };
        let view = self.view()?;
        let kinds = vec![arrow::datatypes::DataType::Null; parameters];
        let write = self.with_planning_room(|| WriteBinder::new(self, &view, &kinds).bind(change))?;
        let (plan, Some(values)) = (&write.plan, &write.values) else { return Ok(None) };
        let ([WriteAction::Insert(row)], [cells]) = (plan.actions.as_slice(), values.rows.as_slice()) else {
            return Ok(None);
        };
        let is_plain = write.table.keyed.is_none()
            && plan.conflict.is_none()
            && plan.returning.is_none()
            && plan.checks.is_empty()
            // Such a default has another value in the next transaction.
            && !write.reads_clock;
        let place = |(cell, target): (&sqlparser::ast::Expr, &usize)| match LiteralCell::of(
            cell,
            &write.table.columns[*target].kind,
        ) {
            LiteralCell::Parameter(place) => Some(place),
            _ => None,
        };
        let places: Option<Vec<usize>> = cells.iter().zip(&values.targets).map(place).collect();
        let Some(places) = places.filter(|places| is_plain && !places.is_empty()) else { return Ok(None) };
        let sink = RowSink::new(self, &write.table, row, &Arc::default())?;
        let is_constant = sink.sources().iter().all(|source| match source {
            ColumnSource::Input(_) | ColumnSource::Generated(_) => true,
            ColumnSource::Default(default) => !default.is_volatile(),
            ColumnSource::Kept | ColumnSource::Sequence(_) => false,
        });
        let (table, targets) = (Arc::clone(&write.table), values.targets.clone());
        Ok(is_constant.then_some(AppendPlan { table, targets, parameters: places, sink }))
    }
}

fn not_an_insert() -> Error {
    Error::internal("rows are appended by the plan of an INSERT")
}
