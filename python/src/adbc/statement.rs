//! Statements of ADBC: a query with its parameters, or data that goes into a table.

use std::sync::Arc;

use adbc_core::options::{OptionStatement, OptionValue};
use adbc_core::{CancelHandle, Optionable, PartitionedResult, Statement};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use rowmill::{CellRef, FromValue, Outcome, Param, ParamValue, Rows, SqlType, ToParam, Value};

use crate::adbc::connection::{BoxedReader, SharedSession};
use crate::adbc::database::text_of;
use crate::adbc::errors::{AdbcResult, adbc_error, no_option, not_implemented, wrong_argument, wrong_state};
use crate::adbc::ingest::Ingestion;
use crate::capsule::{known_batches, outside_batches, outside_schema};

/// A statement.
pub(super) struct AdbcStatement {
    session: SharedSession,
    sql: Option<String>,
    prepared: Option<rowmill::Statement>,
    bound: Option<BoxedReader>,
    ingestion: Option<Ingestion>,
}

/// One value of a batch as a parameter.
struct BoundCell {
    array: ArrayRef,
    /// The value, if it is of a type that needs no array. A statement with arrays runs without a program.
    value: Option<Value>,
}

impl BoundCell {
    fn new(column: &ArrayRef, row: usize) -> rowmill::Result<BoundCell> {
        let array = column.slice(row, 1);
        let cell = CellRef::new(column, row);
        let value = match column.data_type() {
            _ if cell.is_null() => Some(Value::Null),
            DataType::Boolean => Some(Value::Boolean(FromValue::from_value(cell)?)),
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
                Some(Value::Integer(FromValue::from_value(cell)?))
            }
            DataType::Float32 | DataType::Float64 => Some(Value::Double(FromValue::from_value(cell)?)),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Some(Value::Text(FromValue::from_value(cell)?))
            }
            _ => None,
        };
        Ok(BoundCell { array, value })
    }
}

impl ToParam for BoundCell {
    fn to_param(&self) -> ParamValue<'_> {
        match &self.value {
            Some(value) => value.to_param(),
            None => ParamValue::Borrowed(Param::Array(&self.array)),
        }
    }
}

/// The columns of a batch in the types of the engine.
fn own_columns(batch: &RecordBatch) -> Result<Vec<ArrayRef>, ArrowError> {
    let own = |column: &ArrayRef| match SqlType::from_arrow(column.data_type()) {
        Some(kind) => cast(column, &kind.arrow()),
        None => Ok(Arc::clone(column)),
    };
    batch.columns().iter().map(own).collect()
}

/// The values of a row as parameters.
fn bound_row(columns: &[ArrayRef], row: usize) -> rowmill::Result<Vec<BoundCell>> {
    columns.iter().map(|column| BoundCell::new(column, row)).collect()
}

impl AdbcStatement {
    pub(super) fn new(session: SharedSession) -> AdbcStatement {
        AdbcStatement { session, sql: None, prepared: None, bound: None, ingestion: None }
    }

    fn sql(&self) -> AdbcResult<&str> {
        self.sql.as_deref().ok_or_else(|| wrong_state("the statement has no query yet"))
    }

    /// Runs the statement for each row of the bound data, or once.
    fn outcomes(&mut self) -> AdbcResult<Vec<Outcome>> {
        let sql = self.sql()?.to_owned();
        let Some(bound) = self.bound.take() else {
            return Ok(vec![self.session.run(|connection| connection.run_values(&sql, ()))?]);
        };
        let (_, batches) = known_batches(bound)?;
        let parts = batches.iter().map(|batch| Ok((own_columns(batch)?, batch.num_rows())));
        let parts = parts.collect::<Result<Vec<_>, ArrowError>>()?;
        self.session.run(|connection| {
            let mut outcomes = Vec::new();
            for (columns, rows) in &parts {
                for row in 0..*rows {
                    outcomes.push(connection.run_values(&sql, &bound_row(columns, row)?)?);
                }
            }
            Ok(outcomes)
        })
    }

    fn prepared(&mut self) -> AdbcResult<&rowmill::Statement> {
        if self.prepared.is_none() {
            let sql = self.sql()?.to_owned();
            self.prepared = Some(self.session.run(|connection| connection.prepare(&sql))?);
        }
        self.prepared.as_ref().ok_or_else(|| wrong_state("the statement is not prepared"))
    }
}

fn no_rows() -> BoxedReader {
    Box::new(RecordBatchIterator::new(std::iter::empty::<Result<RecordBatch, ArrowError>>(), Arc::new(Schema::empty())))
}

/// The rows of all outcomes as one stream. Outcomes without rows add nothing.
fn reader_of_outcomes(outcomes: Vec<Outcome>) -> BoxedReader {
    let rows: Vec<Rows> = outcomes.into_iter().filter(|it| matches!(it, Outcome::Rows(_))).map(Rows::from).collect();
    let Some(first) = rows.first() else { return no_rows() };
    let schema = outside_schema(first.schema());
    let failed = |error: rowmill::Error| ArrowError::ExternalError(Box::new(error));
    let batches = rows.into_iter().flatten().map(move |batch| batch.map_err(failed));
    Box::new(outside_batches(&schema, batches))
}

impl Statement for AdbcStatement {
    fn bind(&mut self, batch: RecordBatch) -> AdbcResult<()> {
        let schema = batch.schema();
        self.bind_stream(Box::new(RecordBatchIterator::new(std::iter::once(Ok(batch)), schema)))
    }

    fn bind_stream(&mut self, reader: Box<dyn RecordBatchReader + Send>) -> AdbcResult<()> {
        self.bound = Some(reader);
        Ok(())
    }

    fn execute(&mut self) -> AdbcResult<BoxedReader> {
        if self.ingestion.is_some() {
            self.execute_update()?;
            return Ok(no_rows());
        }
        Ok(reader_of_outcomes(self.outcomes()?))
    }

    fn execute_update(&mut self) -> AdbcResult<Option<i64>> {
        if let Some(ingestion) = &self.ingestion {
            let bound = self.bound.take().ok_or_else(|| wrong_state("no data is bound to the statement"))?;
            return ingestion.run(&self.session, bound).map(Some);
        }
        let mut changed = None;
        for outcome in self.outcomes()? {
            match outcome {
                Outcome::Changed { rows, .. } => *changed.get_or_insert(0) += rows as i64,
                // An error may come with any batch.
                Outcome::Rows(mut rows) => {
                    rows.try_for_each(|batch| batch.map(drop)).map_err(|error| adbc_error(&error))?;
                }
                Outcome::Done { .. } => {}
            }
        }
        Ok(changed)
    }

    fn execute_schema(&mut self) -> AdbcResult<Schema> {
        let schema = self.prepared()?.schema().cloned();
        Ok(schema.map_or_else(Schema::empty, |schema| outside_schema(&schema).as_ref().clone()))
    }

    fn execute_partitions(&mut self) -> AdbcResult<PartitionedResult> {
        Err(not_implemented("execute_partitions"))
    }

    fn get_parameter_schema(&self) -> AdbcResult<Schema> {
        let prepared = self.prepared.as_ref().ok_or_else(|| wrong_state("the statement is not prepared"))?;
        let fields = prepared.parameters().iter().map(|parameter| {
            let kind = parameter.kind.as_ref().map_or(DataType::Null, SqlType::arrow);
            Field::new(parameter.name.clone().unwrap_or_default(), kind, true)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(outside_schema(&schema).as_ref().clone())
    }

    fn prepare(&mut self) -> AdbcResult<()> {
        self.prepared().map(drop)
    }

    fn set_sql_query(&mut self, query: impl AsRef<str>) -> AdbcResult<()> {
        (self.sql, self.prepared, self.ingestion) = (Some(query.as_ref().to_owned()), None, None);
        Ok(())
    }

    fn set_substrait_plan(&mut self, _plan: impl AsRef<[u8]>) -> AdbcResult<()> {
        Err(not_implemented("set_substrait_plan"))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        self.session.cancel_handle()
    }
}

impl Optionable for AdbcStatement {
    type Option = OptionStatement;

    fn set_option(&mut self, key: OptionStatement, value: OptionValue) -> AdbcResult<()> {
        let name = key.as_ref().to_owned();
        let text = text_of(&name, value)?;
        let ingestion = match key {
            OptionStatement::TargetTable
            | OptionStatement::IngestMode
            | OptionStatement::TargetDbSchema
            | OptionStatement::TargetCatalog
            | OptionStatement::Temporary => {
                (self.sql, self.prepared) = (None, None);
                self.ingestion.get_or_insert_default()
            }
            OptionStatement::Incremental if text == "false" => return Ok(()),
            _ => return Err(no_option(&name)),
        };
        match key {
            OptionStatement::TargetTable => ingestion.table = Some(text),
            OptionStatement::TargetDbSchema => ingestion.schema = Some(text),
            OptionStatement::IngestMode => ingestion.mode = Ingestion::mode_of(&text)?,
            OptionStatement::Temporary => ingestion.is_temporary = bool::try_from(OptionValue::String(text))?,
            _ if text.is_empty() => {}
            _ => {
                return Err(wrong_argument(format!(
                    "the option {name}: a database has one catalog, which is not named"
                )));
            }
        }
        Ok(())
    }

    fn get_option_string(&self, key: OptionStatement) -> AdbcResult<String> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_bytes(&self, key: OptionStatement) -> AdbcResult<Vec<u8>> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_int(&self, key: OptionStatement) -> AdbcResult<i64> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_double(&self, key: OptionStatement) -> AdbcResult<f64> {
        Err(no_option(key.as_ref()))
    }
}
