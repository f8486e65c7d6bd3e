//! Loads Parquet into a Rowmill database, and reports time, size and memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rowmill::{Database, ProgressFn};
use rowmill_base::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use crate::process::{cpu_s, disk_bytes, peak_rss_mb};

/// The parameters of a load.
pub struct Load<'a> {
    /// The directory of the database, made if it does not exist.
    pub directory: &'a Path,
    /// A Parquet file, or a folder in which every file `NAME.parquet` becomes the table NAME.
    pub data: &'a Path,
    /// The name of the table if `data` is a file.
    pub table: &'a str,
    /// The statement that creates the table; without it, the table gets the columns of the file.
    pub create: Option<&'a str>,
    /// Threads to load with.
    pub threads: usize,
}

/// Loads the data and makes the report. The times include the checkpoint at the end.
pub fn load(load: &Load<'_>, progress: Option<ProgressFn>) -> Result<Value> {
    let (started, cpu) = (Instant::now(), cpu_s());
    let database = Database::open(load.directory)?;
    let mut connection = database.connect()?;
    connection.execute_batch(&format!("SET threads = {}", load.threads))?;
    connection.set_progress(progress);
    let mut rows = 0;
    for (table, file) in tables(load)? {
        connection.execute_batch(&create(load, &table, &file))?;
        rows += connection.execute_batch(&format!("COPY {} FROM {}", name(&table), text(&file)))?;
    }
    // The load is only complete when everything is in the base, so the checkpoint belongs to the measured time.
    connection.execute_batch("CHECKPOINT")?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(json!({
        "engine": "rowmill",
        "version": env!("CARGO_PKG_VERSION"),
        "threads": load.threads,
        "rows": rows,
        "load_s": (seconds * 1e3).round() / 1e3,
        "load_cpu_s": cpu_s().zip(cpu).map(|(after, before)| ((after - before) * 1e3).round() / 1e3),
        "bytes": disk_bytes(load.directory)?,
        "load_peak_rss_mb": peak_rss_mb(),
        "load_peak_granted_mb": megabytes(database.memory_peak_bytes()),
    }))
}

/// Converts to megabytes (10^6 bytes), rounded to one digit after the point.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    (bytes as f64 / 1e5).round() / 10.0
}

/// Returns the tables and their files.
fn tables(load: &Load<'_>) -> Result<Vec<(String, PathBuf)>> {
    if !load.data.is_dir() {
        return Ok(vec![(load.table.to_owned(), load.data.to_owned())]);
    }
    let failed = |error: std::io::Error| Error::io(load.data.display(), &error);
    let mut tables = Vec::new();
    for entry in fs::read_dir(load.data).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if let (Some("parquet"), Some(stem)) = (extension(&path), path.file_stem()) {
            tables.push((stem.to_string_lossy().into_owned(), path));
        }
    }
    tables.sort();
    match tables.is_empty() {
        true => Err(Error::new(ErrorKind::UndefinedFile, format!("{} has no Parquet files", load.data.display()))),
        false => Ok(tables),
    }
}

fn extension(path: &Path) -> Option<&str> {
    path.extension()?.to_str()
}

fn create(load: &Load<'_>, table: &str, file: &Path) -> String {
    match load.create {
        Some(create) => create.to_owned(),
        None => format!("CREATE TABLE {} AS SELECT * FROM {} LIMIT 0", name(table), text(file)),
    }
}

fn name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn text(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "''"))
}
