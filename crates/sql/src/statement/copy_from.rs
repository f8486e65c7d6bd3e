//! `COPY ... FROM`: loads the rows of files into a table.
//!
//! Text files and Arrow files arrive as batches, which other threads decode ahead. Parquet files arrive block by block:
//! each encoder thread decodes the column that it is about to encode, so a load holds a few columns of a block rather
//! than whole blocks. If the last block is too small for its own block in the table, it is written as a batch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::ArrayRef;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::write::{ColumnValue, NewRow, WriteAction, WriteSource};
use rowmill_storage::{BlockSource, TableDef};
use rowmill_txn::Transaction;

use super::copy::{STATEMENT, check_once, option_text};
use super::default_value::{DefaultValue, default_of};
use super::reject_table::{self, RejectTable};
use super::row_sink::{self, ColumnSource};
use super::write::BoundWrite;
use super::write::binder::{WriteBinder, given_columns};
use super::write::executor::WriteExecutor;
use crate::files::{FileSet, OnError, ParquetBlock, ParquetBlocks, ReadOptions, TargetColumn, unknown_option};
use crate::names::qualified;
use crate::outcome::{Progress, ProgressFn};
use crate::parse::{CopyOption, CopySource};
use crate::session::Work;

/// Loads the files. Returns the number of rows that they gave.
pub(super) fn run(work: &mut Work<'_>, source: &CopySource, path: &str, options: &[CopyOption]) -> Result<u64> {
    let mut options = CopyFromOptions::read(options)?;
    options.allow(work);
    work.write(|work, transaction| {
        let view = transaction.view()?;
        let binder = WriteBinder::new(work, &view, &[]);
        let target = CopyTarget::of(&binder, source)?;
        // The reject table is opened first, so that a wrong one fails before any row is loaded.
        let rejects = match &options.reject_table {
            Some(name) => Some(reject_table::open(work, transaction, name)?),
            None => None,
        };
        let (files, load) = Load::bind(&binder, target, path, &options)?;
        for notice in files.notices() {
            work.notice(notice);
        }
        load.run(work, transaction, &files, rejects, &options)
    })
}

/// Returns the plan of the statement, for EXPLAIN.
pub(super) fn plan(
    binder: &WriteBinder<'_>,
    source: &CopySource,
    path: &str,
    options: &[CopyOption],
) -> Result<BoundWrite<'static>> {
    let mut options = CopyFromOptions::read(options)?;
    options.allow(binder.work);
    Ok(Load::bind(binder, CopyTarget::of(binder, source)?, path, &options)?.1.write)
}

/// The table that the files are loaded into, and the columns that the statement names.
struct CopyTarget {
    table: Arc<TableDef>,
    columns: Vec<usize>,
}

impl CopyTarget {
    fn of(binder: &WriteBinder<'_>, source: &CopySource) -> Result<CopyTarget> {
        let CopySource::Table { name, columns } = source else {
            return Err(Error::internal("the parser reads a query only in front of TO"));
        };
        let table = binder.table(&qualified(name, binder.work.statement.spellings())?)?;
        let columns = match columns.as_slice() {
            [] => given_columns(&table),
            names => binder.targets(&table, &names.iter().collect::<Vec<_>>())?,
        };
        if let Some(generated) =
            columns.iter().map(|at| &table.columns[*at]).find(|of| table.generated(of.id).is_some())
        {
            return Err(row_sink::generated(&table, generated));
        }
        Ok(CopyTarget { table, columns })
    }
}

/// The options of `COPY ... FROM`.
struct CopyFromOptions {
    read: ReadOptions,
    reject_table: Option<String>,
}

impl CopyFromOptions {
    fn read(options: &[CopyOption]) -> Result<CopyFromOptions> {
        check_once(options)?;
        let mut read = ReadOptions::default();
        let mut reject_table = None;
        for option in options {
            match option_text(option)? {
                ("reject_table", "") => {
                    return Err(Error::new(
                        ErrorKind::InvalidParameter,
                        "the option reject_table takes the name of a table",
                    ));
                }
                ("reject_table", name) => reject_table = Some(name.to_string()),
                (name, value) => read.set(name, value).map_err(|error| with_reject_table(name, error))?,
            }
        }
        if reject_table.is_some() && read.on_error != OnError::Skip {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                "the option reject_table needs on_error 'skip': otherwise the first bad line ends the statement",
            )
            .hint("add on_error 'skip'"));
        }
        Ok(CopyFromOptions { read, reject_table })
    }
}

impl CopyFromOptions {
    /// Sets what the statement may read.
    fn allow(&mut self, work: &Work<'_>) {
        self.read.cancel = work.cancel.clone();
        self.read.folders = work.folders();
        self.read.secrets = work.session.secrets().clone();
        self.read.memory = Some(work.engine().broker().clone());
    }
}

/// The file reader does not know the option that we read here, so we add its name to the suggestions.
fn with_reject_table(name: &str, error: Error) -> Error {
    if error.kind() != ErrorKind::UndefinedObject {
        return error;
    }
    let known: Vec<&str> = ReadOptions::NAMES.iter().copied().chain(["reject_table"]).collect();
    unknown_option(name, &known)
}

/// The plan of a load, and the columns that the files fill.
struct Load {
    write: BoundWrite<'static>,
    columns: Vec<TargetColumn>,
}

impl Load {
    fn bind(
        binder: &WriteBinder<'_>,
        target: CopyTarget,
        path: &str,
        options: &CopyFromOptions,
    ) -> Result<(FileSet, Load)> {
        let CopyTarget { table, columns: targets } = target;
        let files = FileSet::open(path, &options.read)?;
        let mut columns = Vec::new();
        let mut row = NewRow { columns: Vec::new(), assigned: targets.clone() };
        let mut inputs = vec![None; table.columns.len()];
        for target in targets {
            let column = &table.columns[target];
            let default = default_of(binder.work, column)?;
            // A constant default can fill gaps of the file here. A volatile one must give each row its own value, so it
            // is evaluated when rows are written.
            if default.is_volatile() && !has(&files, &column.name) {
                continue;
            }
            inputs[target] = Some(columns.len());
            columns.push(target_column(column, &default)?);
        }
        let generated = binder.generated(&table)?;
        for (place, (column, input)) in table.columns.iter().zip(inputs).enumerate() {
            row.columns.push(match (generated.at(place), input) {
                (Some(expr), _) => ColumnValue::Generated(expr.clone()),
                (None, Some(input)) => ColumnValue::Source(input),
                (None, None) => binder.absent(&table, column)?,
            });
        }
        let source = WriteSource::Files(path.to_owned());
        let write = binder.plan(STATEMENT, table, source, vec![WriteAction::Insert(row)], None)?;
        Ok((files, Load { write, columns }))
    }

    fn run(
        self,
        work: &mut Work<'_>,
        transaction: &mut Transaction,
        files: &FileSet,
        rejects: Option<RejectTable>,
        options: &CopyFromOptions,
    ) -> Result<u64> {
        let Load { write: BoundWrite { tag, table, plan, .. }, columns } = self;
        // A keyed table stores each row at its key, so it cannot take whole blocks. Conditions, sequences and generated
        // columns need the rows in batches, too.
        let blocks = match table.keyed.is_none() && table.rules.is_empty() {
            true => files.parquet_blocks(&columns)?,
            false => None,
        };
        let mut load = RunningLoad { executor: WriteExecutor::new(work, tag, table, &plan)?, files };
        match blocks {
            Some(blocks) => load.run_blocks(work, transaction, blocks),
            None => load.run_batches(work, transaction, &columns, rejects, options),
        }
    }
}

/// A load that writes.
struct RunningLoad<'a> {
    executor: WriteExecutor,
    files: &'a FileSet,
}

impl RunningLoad<'_> {
    fn run_batches(
        &mut self,
        work: &mut Work<'_>,
        transaction: &mut Transaction,
        columns: &[TargetColumn],
        mut rejects: Option<RejectTable>,
        options: &CopyFromOptions,
    ) -> Result<u64> {
        let threads = work.settings().number("threads") as usize;
        let skipped = reject_table::Skipped::new(rejects.is_some());
        let sink = (options.read.on_error == OnError::Skip).then(|| skipped.sink());
        let batches = self.files.batches(columns, threads, sink)?;
        let read = batches.progress();
        let mut report = Report::new(work);
        for batch in batches {
            work.cancel.check()?;
            let batch = batch?;
            self.executor.insert(transaction, batch.columns(), batch.num_rows())?;
            if let Some(table) = &mut rejects {
                table.write(transaction, skipped.take())?;
            }
            let (rows, done, total) = (self.executor.changed(), read.bytes_read(), self.files.bytes());
            report.make(rows, self.files.rows().or_else(|| rows_total(rows, done, total)));
        }
        if let Some(table) = &mut rejects {
            table.write(transaction, skipped.take())?;
        }
        // All batches are read, so the number of skipped lines is final.
        if let Some(notice) = skipped.notice(options.reject_table.as_deref()) {
            work.notice(notice);
        }
        Ok(self.executor.changed())
    }

    fn run_blocks(
        &mut self,
        work: &mut Work<'_>,
        transaction: &mut Transaction,
        mut blocks: ParquetBlocks,
    ) -> Result<u64> {
        let settings = work.engine().settings();
        let rows_per_block = settings.number("rows_per_block") as usize;
        let small_block_rows = settings.number("small_block_rows") as usize;
        let mut report = Report::new(work);
        let total = blocks.rows();
        let mut rows_done = 0;
        while let Some(block) = blocks.next_block(rows_per_block) {
            work.cancel.check()?;
            // A small last block goes to the open run, where later rows join it; as a block of its own it would stay
            // small.
            if block.rows() < rows_per_block && block.rows() <= small_block_rows {
                let rest = block.batch()?;
                self.executor.insert(transaction, rest.columns(), rest.num_rows())?;
                break;
            }
            rows_done += block.rows() as u64;
            let sources = self.executor.inserted()?.sources();
            transaction.insert_block(self.executor.table().id, &TableBlock { block, sources })?;
            report.make(rows_done, Some(total));
        }
        Ok(rows_done + self.executor.changed())
    }
}

/// Whether the files have a column of this name.
fn has(files: &FileSet, name: &str) -> bool {
    let name = name.to_lowercase();
    files.columns().iter().any(|column| column.name.to_lowercase() == name)
}

fn target_column(column: &rowmill_storage::ColumnDef, default: &DefaultValue) -> Result<TargetColumn> {
    // Only a column that the files have reaches this code with a volatile default. Where a JSON object omits the
    // column, the rows of the statement share one value.
    let missing = column.default.is_some().then(|| default.rows(1)).transpose()?;
    Ok(TargetColumn { name: column.name.clone(), kind: column.kind.clone(), nullable: column.nullable, missing })
}

/// A block of Parquet files as a block of the table: the columns in the table's order, with defaults for the missing
/// ones.
struct TableBlock<'a> {
    block: ParquetBlock,
    sources: &'a [ColumnSource],
}

impl BlockSource for TableBlock<'_> {
    fn rows(&self) -> usize {
        self.block.rows()
    }

    fn column(&self, index: usize) -> Result<ArrayRef> {
        match &self.sources[index] {
            ColumnSource::Input(input) => self.block.column(*input),
            ColumnSource::Default(default) => default.rows(self.block.rows()),
            ColumnSource::Kept | ColumnSource::Sequence(_) | ColumnSource::Generated(_) => {
                Err(Error::internal("a table whose rows have rules takes no whole blocks"))
            }
        }
    }
}

/// Estimates the total rows of text files from the share of bytes that were read, because their rows cannot be known
/// before.
fn rows_total(rows_done: u64, bytes_read: u64, bytes_total: u64) -> Option<u64> {
    let share = bytes_read as f64 / bytes_total as f64;
    (bytes_read > 0 && share.is_finite()).then(|| (rows_done as f64 / share) as u64)
}

/// The least time between two reports of progress.
const REPORT: Duration = Duration::from_millis(100);

/// Reports the progress of a load.
struct Report {
    tell: Option<ProgressFn>,
    started: Instant,
    last: Instant,
}

impl Report {
    fn new(work: &Work<'_>) -> Self {
        Report { tell: work.progress().cloned(), started: work.started, last: work.started }
    }

    fn make(&mut self, rows_done: u64, rows_total: Option<u64>) {
        let Some(tell) = &self.tell else { return };
        if self.last.elapsed() < REPORT {
            return;
        }
        self.last = Instant::now();
        let share = rows_total.filter(|total| *total > 0).map(|total| (rows_done as f64 / total as f64).min(1.0));
        tell(Progress { rows_done, rows_total, share, elapsed: self.started.elapsed(), ..Progress::default() });
    }
}
