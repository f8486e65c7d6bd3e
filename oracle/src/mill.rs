//! Rowmill in this process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rowmill::arrow::datatypes::DataType;
use rowmill::text::format_value;
use rowmill::{CancelHandle, Connection, Database, Outcome, Value};

use crate::cell::{Answer, Cell};
use crate::engine::{ROWS_MAX, SECONDS_MAX};

/// A database in memory, and a connection to it.
pub struct Mill {
    connection: Connection,
    #[cfg_attr(not(feature = "datafusion"), expect(dead_code, reason = "keeps the tables"))]
    database: Database,
    watchdog: Watchdog,
}

impl Mill {
    /// Makes an empty database.
    pub fn new() -> Mill {
        let database = Database::memory().expect("a database in memory opens");
        let connection = database.connect().expect("a database in memory takes connections");
        let watchdog = Watchdog::new(connection.cancel_handle());
        Mill { connection, database, watchdog }
    }

    /// The database, so that the caller can open other connections.
    #[cfg(feature = "datafusion")]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Runs one statement. A panic is an answer with a class of its own.
    pub fn run(&mut self, sql: &str) -> Answer {
        self.answer(|connection| rows(connection, sql))
    }

    /// Runs one statement with parameters. It runs as a program if it has one.
    pub fn run_prepared(&mut self, sql: &str, values: &[Value]) -> Answer {
        self.answer(|connection| {
            let mut found = Vec::new();
            let outcome = connection.prepare(sql)?.run(connection, values)?;
            add_rows(outcome, &mut found)?;
            Ok(found)
        })
    }

    fn answer(&mut self, run: impl FnOnce(&mut Connection) -> rowmill::Result<Vec<Vec<Cell>>>) -> Answer {
        self.watchdog.begin();
        let caught = catch_unwind(AssertUnwindSafe(|| run(&mut self.connection)));
        self.watchdog.end();
        match caught {
            Ok(Ok(rows)) if rows.len() > ROWS_MAX => Answer::TooMuch,
            Ok(Ok(rows)) => Answer::Rows(rows),
            Ok(Err(error)) => Answer::Failed { class: error.kind().sqlstate().to_owned(), message: error.to_string() },
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let message = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                Answer::Failed { class: "panic".to_owned(), message: message.unwrap_or_default() }
            }
        }
    }
}

fn rows(connection: &mut Connection, sql: &str) -> rowmill::Result<Vec<Vec<Cell>>> {
    let mut found = Vec::new();
    connection.run(sql, |outcome| add_rows(outcome, &mut found))?;
    Ok(found)
}

fn add_rows(outcome: Outcome, found: &mut Vec<Vec<Cell>>) -> rowmill::Result<()> {
    let stream = match outcome {
        Outcome::Rows(stream) => stream,
        Outcome::Changed { rows, .. } => {
            found.push(vec![Cell::exact(&rows.to_string())]);
            return Ok(());
        }
        Outcome::Done { .. } => return Ok(()),
    };
    for batch in stream {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|values| {
                Ok(match format_value(values, row)? {
                    None => Cell::Null,
                    Some(text) => cell(values.data_type(), text),
                })
            });
            found.push(cells.collect::<rowmill::Result<Vec<Cell>>>()?);
        }
        if found.len() > ROWS_MAX {
            break;
        }
    }
    Ok(())
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

/// Cancels a statement that runs for too long.
struct Watchdog {
    signals: Option<Sender<bool>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    fn new(cancel: CancelHandle) -> Watchdog {
        let (signals, received) = channel::<bool>();
        let thread = std::thread::spawn(move || {
            while let Ok(begun) = received.recv() {
                // This is the end of a statement that we have cancelled already. We wait for the next beginning.
                if !begun {
                    continue;
                }
                match received.recv_timeout(Duration::from_secs(SECONDS_MAX)) {
                    Err(RecvTimeoutError::Timeout) => cancel.cancel(),
                    Err(RecvTimeoutError::Disconnected) => return,
                    Ok(_) => {}
                }
            }
        });
        Watchdog { signals: Some(signals), thread: Some(thread) }
    }

    fn signal(&self, begun: bool) {
        let signals = self.signals.as_ref().expect("the watchdog lives until it is dropped");
        signals.send(begun).expect("the thread of the watchdog waits for signals");
    }

    fn begin(&self) {
        self.signal(true);
    }

    fn end(&self) {
        self.signal(false);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Dropping the sender ends the thread's loop, so that join does not wait forever.
        self.signals = None;
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, there is nothing to cancel, so we ignore the error.
            thread.join().ok();
        }
    }
}
