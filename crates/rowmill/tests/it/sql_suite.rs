//! Runs the files of `tests/slt`. Each file gets a database of its own.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rowmill::text::format_value;
use rowmill::{Connection, Database, Error, ErrorKind, Options, Outcome, Result, TransactionState};
use rowmill_base::CommitId;
use sqllogictest::{DB, DBOutput, DefaultColumnType, Record, Runner};

use crate::each::scripts;
use crate::hostile_settings::{Hostility, plain, selection};
use crate::source_root;

/// Returns all files of the suite, sorted by name.
fn files() -> Vec<PathBuf> {
    fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("the folder of the SQL suite") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                collect(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "slt") {
                files.push(path);
            }
        }
    }
    let mut files = Vec::new();
    collect(&source_root().join("tests/slt"), &mut files);
    // A developer can select some files.
    if let Ok(part) = std::env::var("ROWMILL_SUITE_FILES") {
        files.retain(|file| file.to_string_lossy().contains(&part));
    }
    files.sort();
    assert!(!files.is_empty(), "the folder of the SQL suite has no matching file");
    files
}

/// The number of statements that write before a directory is opened again. Each opening replays the whole log, so with
/// every statement the reopened runs take most of the time of the gate.
fn written_before_reopening() -> usize {
    if std::env::var_os("ROWMILL_LONG").is_some() { 1 } else { 3 }
}

/// With this number of refused runs of a statement that each leave more memory in use, the statement leaks memory.
const GROWN_MAX: usize = 5;

/// A database on which we run the suite under hostile settings.
struct Suite {
    hostility: Hostility,
    folder: tempfile::TempDir,
    database: Option<Database>,
    connection: Option<Connection>,
    /// Older snapshots that we hold open.
    held: Vec<std::sync::Arc<rowmill_txn::Snapshot>>,
    /// The last commit when the directory was opened.
    opened_at: Option<CommitId>,
    /// The number of statements since then that wrote.
    written: usize,
}

impl Suite {
    fn new(hostility: &Hostility) -> Result<Self> {
        let mut suite = Suite {
            hostility: hostility.clone(),
            folder: tempfile::tempdir().expect("a temporary folder"),
            database: None,
            connection: None,
            held: Vec::new(),
            opened_at: None,
            written: 0,
        };
        suite.open()?;
        if suite.hostility.in_transaction {
            suite.connection().execute_batch("BEGIN")?;
        }
        Ok(suite)
    }

    fn open(&mut self) -> Result<()> {
        self.connection = None;
        self.database = None;
        let mut options = Options::new().set("rows_per_block", &self.hostility.rows_per_block.to_string())?;
        options = options.set("small_block_rows", &(self.hostility.rows_per_block / 2).max(1).to_string())?;
        options = options.set("threads", &self.hostility.threads.to_string())?;
        // Plans in the files must not depend on how long the statements before them took.
        options = options.set("auto_analyze", "off")?;
        if self.hostility.small_batches {
            options = options.set("batch_rows", "3")?;
        }
        let database = match self.hostility.reopen {
            true => Database::open_with(self.folder.path(), options)?,
            false => Database::memory_with(options)?,
        };
        if self.hostility.column_copies {
            database.engine().set("column_copy_rows", "1")?;
            database.engine().wait_for_column_copies();
        }
        self.connection = Some(database.connect()?);
        self.opened_at = Some(database.engine().snapshot()?.commit());
        self.database = Some(database);
        Ok(())
    }

    fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("the suite is open")
    }

    /// Applies the hostile settings after every statement: holds a snapshot, deletes rows, reopens the directory.
    fn after_statement(&mut self, sql: &str) -> Result<()> {
        let idle = self.connection().transaction_state() == TransactionState::Idle;
        let database = self.database.as_ref().expect("the suite is open");
        if self.hostility.old_snapshots {
            self.held.push(database.engine().snapshot()?);
            if self.held.len() > 8 {
                self.held.remove(0);
            }
        }
        let writes = ["insert", "update", "copy", "create table"].iter().any(|word| sql.to_lowercase().contains(word));
        if self.hostility.deleted_rows && idle && writes {
            self.hostility.scatter_deleted_rows(database.engine())?;
        }
        if self.hostility.reopen && idle {
            // A directory that was not written since it was opened would only be read in the same way again.
            let commit = self.database.as_ref().expect("the suite is open").engine().snapshot()?.commit();
            if self.opened_at != Some(commit) || sql.to_lowercase().contains("nextval") {
                self.written += 1;
            }
            if self.written >= written_before_reopening() {
                self.written = 0;
                self.open()?;
            }
        }
        Ok(())
    }
}

impl Suite {
    /// Runs a statement with its first request for memory refused, then with its second one, and so on. Each run fails
    /// as a whole, or does what it should do. Returns the outcome of a run that changed something or failed otherwise;
    /// `None` if the statement must run once more.
    fn run_with_refusals(&mut self, sql: &str) -> Option<Result<DBOutput<DefaultColumnType>>> {
        let broker = self.database.as_ref().expect("the suite is open").engine().broker().clone();
        let lower = sql.trim_start().to_lowercase();
        let is_query = ["select", "with", "values"].iter().any(|word| lower.starts_with(word))
            && !["insert", "update", "delete", "merge"].iter().any(|word| lower.contains(word));
        let mut expected: Option<Vec<String>> = None;
        let (mut request, mut grown) = (1, 0);
        loop {
            let before = broker.used_bytes();
            broker.refuse_request(request);
            let output = output(self.connection(), sql, false);
            let is_refused = broker.refuse_request(0) == 0;
            match output {
                Err(error) if is_refused && error.kind() == ErrorKind::MemoryLimit => {
                    // A busy machine ends the threads of the statement late, and background jobs hold memory too. Only
                    // a leak holds more after each run.
                    let until = Instant::now() + Duration::from_secs(2);
                    while is_query && broker.used_bytes() > before && Instant::now() < until {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    let used = broker.used_bytes();
                    if is_query && used > before {
                        grown += 1;
                        assert!(grown < GROWN_MAX, "{sql}: {used} bytes are held, {before} before");
                        continue;
                    }
                    grown = 0;
                }
                Ok(rows) if is_query => {
                    let rows = lines(rows);
                    let expected = expected.get_or_insert_with(|| rows.clone());
                    assert_eq!(rows, *expected, "{sql}: another answer after the refusal of request {request}");
                }
                output => return Some(output),
            }
            if !is_refused {
                return None;
            }
            request += refusal_step(request);
        }
    }
}

/// Returns the number of requests from one refused request to the next. A statement over many blocks repeats the same
/// requests for each block. So the gate refuses each of the first requests, and few of the later ones.
fn refusal_step(request: u64) -> u64 {
    const EACH_UNTIL: u64 = 32;
    if std::env::var_os("ROWMILL_LONG").is_some() { 1 } else { request.div_ceil(EACH_UNTIL) }
}

/// The rows of an output in any order, because most queries leave it open.
fn lines(output: DBOutput<DefaultColumnType>) -> Vec<String> {
    let mut lines: Vec<String> = match output {
        DBOutput::Rows { rows, .. } => rows.iter().map(|row| row.join("\t")).collect(),
        _ => Vec::new(),
    };
    lines.sort_unstable();
    lines
}

impl DB for Suite {
    type Error = Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Error> {
        let prepared = self.hostility.prepared;
        if self.hostility.refuses_memory
            && self.connection().transaction_state() == TransactionState::Idle
            && let Some(output) = self.run_with_refusals(sql)
        {
            return output;
        }
        let output = output(self.connection(), sql, prepared);
        self.after_statement(sql)?;
        output
    }
}

/// Returns the outcome of the last statement of `sql` in the form that the suite compares.
fn output(connection: &mut Connection, sql: &str, prepared: bool) -> Result<DBOutput<DefaultColumnType>> {
    let mut last = DBOutput::StatementComplete(0);
    let mut take = |outcome: Outcome| -> Result<()> {
        last = match outcome {
            Outcome::Changed { rows, .. } => DBOutput::StatementComplete(rows),
            Outcome::Done { .. } => DBOutput::StatementComplete(0),
            Outcome::Rows(stream) => {
                let columns = stream.schema().fields().len();
                let mut rows = Vec::new();
                for batch in stream {
                    let batch = batch?;
                    for row in 0..batch.num_rows() {
                        let texts = batch.columns().iter().map(|values| {
                            Ok(match format_value(values, row)? {
                                None => "NULL".to_owned(),
                                Some(text) if text.is_empty() => "(empty)".to_owned(),
                                Some(text) => text,
                            })
                        });
                        rows.push(texts.collect::<Result<Vec<String>>>()?);
                    }
                }
                DBOutput::Rows { types: vec![DefaultColumnType::Text; columns], rows }
            }
        };
        Ok(())
    };
    match connection.prepare(sql) {
        Ok(statement) if prepared => take(statement.run(connection, &[])?)?,
        _ => connection.run(sql, &mut take)?,
    }
    Ok(last)
}

/// Returns the records of each script of a file.
fn records(file: &Path, text: &str) -> Vec<Vec<Record<DefaultColumnType>>> {
    let scripts = scripts(text).into_iter().map(|(of, script)| {
        let name = format!("{} {of}", file.display());
        sqllogictest::parse_with_name(&script, name.trim_end()).expect("a file of the suite parses")
    });
    scripts.collect()
}

/// Runs every file under `hostility` and returns the failures.
pub(crate) fn run_all(hostility: &Hostility) -> Vec<String> {
    run_files(&files(), hostility)
}

/// Runs every second file under `hostility`, those with even or with odd numbers, and returns the failures. With
/// `ROWMILL_LONG` it runs all files.
pub(crate) fn run_half(hostility: &Hostility, is_odd: bool) -> Vec<String> {
    let is_long = std::env::var_os("ROWMILL_LONG").is_some();
    let is_in = |number: usize| is_long || number.is_multiple_of(2) != is_odd;
    let half = files().into_iter().enumerate().filter(|(number, _)| is_in(*number));
    run_files(&half.map(|(_, file)| file).collect::<Vec<_>>(), hostility)
}

/// Runs files under `hostility` and returns the failures. Two threads take the files in turns, because this takes long
/// and ends after all other tests.
fn run_files(files: &[PathBuf], hostility: &Hostility) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let run_some = || {
        let mut failures = Vec::new();
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            run_file(file, hostility, &mut failures);
        }
        failures
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(run_some), scope.spawn(run_some)];
        threads.into_iter().flat_map(|thread| thread.join().expect("failures are returned")).collect()
    })
}

fn run_file(file: &Path, hostility: &Hostility, failures: &mut Vec<String>) {
    let text = std::fs::read_to_string(file).expect("a file of the SQL suite");
    if hostility.passes_over(&text) {
        return;
    }
    let hostility = &hostility.for_rows_of(&text);
    for records in records(file, &text) {
        let mut runner = Runner::new(|| async { Suite::new(hostility) });
        if let Err(error) = runner.run_multi(records) {
            failures.push(format!("{} under {hostility}: {}", file.display(), error.display(false)));
        }
    }
}

/// Writes the current answers into the files, with `ROWMILL_SUITE_UPDATE=1`. A person must review them before they are
/// kept. Files that run for several types must be edited by hand.
fn update_all() {
    for file in files() {
        let text = std::fs::read_to_string(&file).expect("a file of the SQL suite");
        if scripts(&text).len() > 1 {
            continue;
        }
        let hostility = plain();
        let mut runner = Runner::new(|| async { Suite::new(&hostility) });
        let update = runner.update_test_file(
            &file,
            " ",
            sqllogictest::default_validator,
            sqllogictest::default_normalizer,
            sqllogictest::default_column_validator,
        );
        if let Err(error) = block_on(update) {
            panic!("{}: {error}", file.display());
        }
    }
}

/// Runs a future that never has to wait.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

/// Runs every record of the files whose paths contain `ROWMILL_SUITE_FILES`, and prints every record that fails, not
/// only the first of each file. This is a tool for work on the front end.
#[test]
#[ignore = "prints the records that fail, and never fails itself"]
fn every_record_that_fails() {
    let only = std::env::var("ROWMILL_SUITE_FILES").unwrap_or_default();
    let (mut count, mut failed) = (0, 0);
    for file in files().into_iter().filter(|file| file.to_string_lossy().contains(&only)) {
        let hostility = plain();
        let text = std::fs::read_to_string(&file).expect("a file of the SQL suite");
        let before = failed;
        for script in records(&file, &text) {
            let mut runner = Runner::new(|| async { Suite::new(&hostility) });
            for record in script {
                count += 1;
                if let Err(error) = block_on(runner.run_async(record)) {
                    failed += 1;
                    println!("{}", error.display(false));
                }
            }
        }
        println!("== {}: {}", file.display(), failed - before);
    }
    println!("{failed} of {count} records fail");
}

#[test]
fn the_suite_passes() {
    if std::env::var_os("ROWMILL_SUITE_UPDATE").is_some() {
        update_all();
    }
    let failures = run_all(&plain());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_suite_passes_when_any_request_for_memory_is_refused() {
    let failures = run_all(&Hostility { refuses_memory: true, rows_per_block: 512, ..plain() });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Each file meets every second combination of settings, and all of them with `ROWMILL_LONG`.
#[test]
fn the_suite_passes_under_hostile_settings() {
    let mut failures = Vec::new();
    for (number, hostility) in selection().into_iter().enumerate() {
        let start = Instant::now();
        failures.extend(run_half(&hostility, number.is_multiple_of(2)));
        println!("{:6.1} s: {hostility}", start.elapsed().as_secs_f64());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
