//! DataFusion in this process.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::{SessionConfig, SessionContext};
use tokio::runtime::{Builder, Runtime};

use crate::cell::{Answer, Cell};
use crate::engine::{Oracle, ROWS_MAX, SECONDS_MAX};

/// A session of DataFusion with tables in memory.
pub struct Fusion {
    runtime: Runtime,
    context: SessionContext,
}

impl Fusion {
    /// Makes a session without tables.
    pub fn new() -> Fusion {
        // DataFusion walks the plans of deep queries recursively, so its threads need large stacks.
        let runtime = Builder::new_multi_thread().worker_threads(2).thread_stack_size(64 << 20).enable_all().build();
        Fusion { runtime: runtime.expect("threads for DataFusion"), context: context() }
    }

    /// Makes `name` a table of `batches`. There must be at least one batch.
    pub fn register(&mut self, name: &str, batches: Vec<RecordBatch>) -> Result<()> {
        self.context.deregister_table(name)?;
        let Some(first) = batches.first() else { return Ok(()) };
        let table = MemTable::try_new(first.schema(), vec![batches])?;
        self.context.register_table(name, Arc::new(table))?;
        Ok(())
    }
}

fn context() -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(1)
        .with_information_schema(false)
        .set_str("datafusion.sql_parser.dialect", "DuckDB");
    SessionContext::new_with_config(config)
}

impl Oracle for Fusion {
    fn name(&self) -> &'static str {
        "datafusion"
    }

    fn reset(&mut self) {
        self.context = context();
    }

    fn run(&mut self, sql: &str) -> Answer {
        let context = self.context.clone();
        let sql = sql.replace("INTEGER UNSIGNED", "INT UNSIGNED");
        // We run it in a task of its own, so that a panic of DataFusion becomes a refusal like any other error.
        let task = self.runtime.spawn(async move { context.sql(&sql).await?.collect().await });
        let limit = Duration::from_secs(SECONDS_MAX);
        let joined = self.runtime.block_on(async { tokio::time::timeout(limit, task).await });
        match joined {
            Err(_) => Answer::TooMuch,
            Ok(Err(panic)) => Answer::Failed { class: "panic".to_owned(), message: panic.to_string() },
            Ok(Ok(Err(error))) => failed(&error),
            Ok(Ok(Ok(batches))) => match rows(&batches) {
                Ok(rows) if rows.len() > ROWS_MAX => Answer::TooMuch,
                Ok(rows) => Answer::Rows(rows),
                Err(error) => failed(&error),
            },
        }
    }

    fn changes_rows(&self) -> bool {
        false
    }
}

fn failed(error: &DataFusionError) -> Answer {
    let message = error.to_string();
    let class = message.split(':').next().unwrap_or_default().to_owned();
    Answer::Failed { class, message }
}

fn rows(batches: &[RecordBatch]) -> Result<Vec<Vec<Cell>>> {
    let options = FormatOptions::default().with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"));
    let mut found = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|values| ArrayFormatter::try_new(values.as_ref(), &options));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().zip(&columns).map(|(values, texts)| match values.is_null(row) {
                true => Cell::Null,
                false => cell(values.data_type(), texts.value(row).to_string()),
            });
            found.push(cells.collect());
        }
    }
    Ok(found)
}

fn cell(kind: &DataType, text: String) -> Cell {
    if kind.is_integer() || matches!(kind, DataType::Decimal128(..) | DataType::Decimal256(..)) {
        return Cell::exact(&text);
    }
    if kind.is_floating() {
        return Cell::Double(text.parse().unwrap_or(f64::NAN));
    }
    match kind {
        DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) => Cell::time(&text),
        _ => Cell::Text(text),
    }
}
