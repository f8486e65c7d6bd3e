//! Table functions about the log and the space of the database. `rowmill_log()` shows the work of the log since the
//! database was opened. `rowmill_readers()` shows which process reads which commit and so holds back space that later
//! commits have freed. `rowmill_snapshots()` shows the older snapshots that are held, and the bytes that each of them
//! holds back. `rowmill_held_space()` shows how much space of the database waits for them. `rowmill_space()` shows what
//! each byte of the directory is used for. `rowmill_expired()` shows which rows were deleted because they were older
//! than the time to live of their table.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Constant;
use rowmill_txn::{DiskPart, Engine, ExpiredRows, HeldBack, LogStatus, SnapshotInfo};

use crate::catalog::StatementContext;
use crate::outcome::nullable_batch;

const FUNCTIONS: [(&str, Rows); 6] = [
    ("rowmill_log", log),
    ("rowmill_readers", readers),
    ("rowmill_snapshots", snapshots),
    ("rowmill_held_space", held_space),
    ("rowmill_space", space),
    ("rowmill_expired", expired),
];

/// Returns the rows of the function `name`, or `None` if this module has no such function.
pub(crate) fn rows(context: &StatementContext, name: &str, arguments: &[Constant]) -> Result<Option<RecordBatch>> {
    let Some((_, rows)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else { return Ok(None) };
    if !arguments.is_empty() {
        return Err(takes_no_argument(name));
    }
    let engine = context.engine.upgrade();
    rows(&*engine.ok_or_else(|| Error::internal("a statement of a database that is closed"))?).map(Some)
}

/// The error for a table function that got arguments although it takes none.
pub(crate) fn takes_no_argument(name: &str) -> Error {
    Error::new(ErrorKind::UndefinedFunction, format!("{name} takes no argument"))
        .hint(format!("SELECT * FROM {name}()"))
}

/// Computes the rows of a function.
type Rows = fn(&Engine) -> Result<RecordBatch>;

fn log(engine: &Engine) -> Result<RecordBatch> {
    let LogStatus { durability, commit, stored, bytes_behind, work, checkpoints } = engine.log_status();
    let work = work.as_ref();
    let number = |value: Option<u64>| Arc::new(UInt64Array::from(vec![value])) as ArrayRef;
    let millis = |value: Option<f64>| Arc::new(Float64Array::from(vec![value])) as ArrayRef;
    let text = |value: Option<String>| Arc::new(StringArray::from(vec![value])) as ArrayRef;
    let has_run = checkpoints.count > 0;
    let columns = vec![
        ("durability", text(Some(durability.name().to_owned()))),
        ("commit", number(Some(commit.0))),
        ("stored_commit", number(Some(stored.0))),
        ("commits", number(work.map(|work| work.records))),
        ("bytes", number(work.map(|work| work.bytes))),
        ("syncs", number(work.map(|work| work.syncs))),
        ("commits_per_sync", millis(work.map(|work| work.records as f64 / work.syncs.max(1) as f64))),
        ("bytes_behind", number(Some(bytes_behind))),
        ("segments", number(work.map(|work| work.segments as u64))),
        ("checkpoints", number(Some(checkpoints.count))),
        ("last_checkpoint_ms", millis(has_run.then_some(checkpoints.last.as_secs_f64() * 1e3))),
        ("longest_checkpoint_ms", millis(has_run.then_some(checkpoints.longest.as_secs_f64() * 1e3))),
        ("failure", text(work.and_then(|work| work.failure.as_ref()).map(|error| error.message().to_owned()))),
    ];
    nullable_batch(columns)
}

fn expired(engine: &Engine) -> Result<RecordBatch> {
    let expired = engine.expired_rows();
    let numbers = |number: fn(&ExpiredRows) -> u64| Arc::new(expired.iter().map(number).collect::<UInt64Array>());
    let moments = |moment: fn(&ExpiredRows) -> i64| {
        let moments: TimestampMicrosecondArray = expired.iter().map(|report| Some(moment(report))).collect();
        Arc::new(moments.with_timezone("UTC"))
    };
    let names = StringArray::from_iter_values(expired.iter().map(|report| &report.name));
    let columns: Vec<(&'static str, ArrayRef)> = vec![
        ("table", Arc::new(names)),
        ("at", moments(|report| report.at_us)),
        ("older_than", moments(|report| report.before_us)),
        ("rows", numbers(|report| report.rows)),
        ("whole_blocks", numbers(|report| report.blocks)),
    ];
    nullable_batch(columns)
}

fn readers(engine: &Engine) -> Result<RecordBatch> {
    let last = engine.log_status().commit;
    let readers = engine.readers()?;
    let columns = vec![
        ("process", Arc::new(readers.iter().map(|reader| reader.process).collect::<UInt32Array>()) as ArrayRef),
        ("commit", Arc::new(readers.iter().map(|reader| reader.commit.0).collect::<UInt64Array>()) as ArrayRef),
        (
            "commits_behind",
            Arc::new(readers.iter().map(|reader| last.0.saturating_sub(reader.commit.0)).collect::<UInt64Array>()),
        ),
    ];
    nullable_batch(columns)
}

fn snapshots(engine: &Engine) -> Result<RecordBatch> {
    let held = engine.held_back()?.snapshots;
    let numbers = |number: fn(&SnapshotInfo) -> u64| Arc::new(held.iter().map(number).collect::<UInt64Array>());
    let ages = held.iter().map(|snapshot| snapshot.age.map(|age| age.as_secs_f64() * 1e3));
    let columns: Vec<(&'static str, ArrayRef)> = vec![
        ("process", Arc::new(held.iter().map(|snapshot| snapshot.process).collect::<UInt32Array>())),
        ("commit", numbers(|snapshot| snapshot.commit.0)),
        ("commits_since", numbers(|snapshot| snapshot.commits_since)),
        ("age_ms", Arc::new(ages.collect::<Float64Array>())),
        ("held_bytes", numbers(|snapshot| snapshot.held_bytes)),
    ];
    nullable_batch(columns)
}

fn space(engine: &Engine) -> Result<RecordBatch> {
    let parts = engine.disk_use()?;
    let texts = |text: fn(&DiskPart) -> &'static str| Arc::new(StringArray::from_iter_values(parts.iter().map(text)));
    let columns: Vec<(&'static str, ArrayRef)> = vec![
        ("part", texts(|part| part.part)),
        ("bytes", Arc::new(parts.iter().map(|part| part.bytes).collect::<UInt64Array>())),
        ("about", texts(|part| part.about)),
    ];
    nullable_batch(columns)
}

fn held_space(engine: &Engine) -> Result<RecordBatch> {
    let HeldBack { snapshots, waiting_bytes, version_bytes, versions_from, base } = engine.held_back()?;
    let numbers = [
        ("oldest_commit", snapshots.first().map(|oldest| oldest.commit.0)),
        ("waiting_bytes", Some(waiting_bytes)),
        ("version_bytes", Some(version_bytes)),
        ("versions_from", Some(versions_from.0)),
        ("base_bytes", Some(base.file_bytes)),
        ("base_free_bytes", Some(base.free_bytes)),
        ("base_held_bytes", Some(base.held_bytes)),
        ("base_older_bytes", Some(base.older_bytes)),
    ];
    nullable_batch(numbers.map(|(name, number)| (name, Arc::new(UInt64Array::from(vec![number])) as ArrayRef)))
}
