//! Runs statements and prints their outcomes.

use std::io::{BufWriter, Write};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use rowmill::{CancelHandle, Connection, Error, Outcome, Result, RowStream};

use crate::output::Format;
use crate::pager;
use crate::progress::Bar;

/// A connection, and the way in which we print its results.
pub(crate) struct Runner {
    pub(crate) connection: Connection,
    pub(crate) format: Format,
    pub(crate) timing: bool,
    /// Whether we collect results and show them through a pager.
    pub(crate) paged: bool,
    bar: Bar,
}

/// The statement that Ctrl-C cancels. It must be global, because the signal handler has no other access to it.
static RUNNING: OnceLock<Mutex<Option<CancelHandle>>> = OnceLock::new();

impl Runner {
    pub(crate) fn new(mut connection: Connection, format: Format) -> Result<Self> {
        let bar = Bar::new();
        let after = Duration::from_millis(connection.settings().number("progress_ms"));
        connection.set_progress(bar.reporter(after));
        cancel_on_interrupt(connection.cancel_handle())?;
        Ok(Runner { connection, format, timing: false, paged: false, bar })
    }

    /// Runs the statements of `sql` and prints each outcome as soon as it is there.
    pub(crate) fn run_text(&mut self, sql: &str) -> Result<()> {
        let Runner { connection, format, timing, paged, bar } = self;
        let mut started = Instant::now();
        let result = connection.run(sql, |outcome| {
            let outcome = print(outcome, *format, *paged, bar);
            if *timing {
                // The next statement of the text starts now, so each one gets its own time.
                println!("Time: {:.3} s", started.elapsed().as_secs_f64());
                started = Instant::now();
            }
            outcome
        });
        // The bar must be gone before we print the notices, because both go to the error output.
        bar.clear();
        for notice in connection.take_notices() {
            eprintln!("NOTICE: {notice}");
        }
        result
    }
}

fn print(outcome: Outcome, format: Format, paged: bool, bar: &Bar) -> Result<()> {
    match outcome {
        Outcome::Rows(rows) if paged => {
            let mut text = Vec::new();
            let count = print_rows(rows, format, &mut text, bar)?;
            let mut text = String::from_utf8_lossy(&text).into_owned();
            if format == Format::Table {
                text.push_str(&format!("({count} row{})\n", if count == 1 { "" } else { "s" }));
            }
            pager::show(&text).map_err(|error| Error::io("the output", &error))
        }
        Outcome::Rows(rows) => {
            let mut out = BufWriter::new(std::io::stdout().lock());
            print_rows(rows, format, &mut out, bar)?;
            // We must flush here, because dropping the writer would hide an error.
            out.flush().map_err(|error| Error::io("the output", &error))
        }
        Outcome::Changed { tag, rows } => {
            bar.clear();
            if format.is_for_people() {
                println!("{tag} {rows}");
            }
            Ok(())
        }
        Outcome::Done { tag } => {
            bar.clear();
            if format.is_for_people() {
                println!("{tag}");
            }
            Ok(())
        }
    }
}

fn print_rows(rows: RowStream, format: Format, out: &mut dyn Write, bar: &Bar) -> Result<usize> {
    let mut printer = format.printer(&rows.schema());
    let mut count = 0;
    for batch in rows {
        let batch = batch?;
        // The bar and the rows share the terminal, so we remove the bar before we print. A later report shows it again.
        bar.clear();
        count += batch.num_rows();
        printer.batch(&batch, out)?;
    }
    bar.clear();
    printer.finish(out)?;
    Ok(count)
}

/// Makes Ctrl-C cancel the running statement. A second Ctrl-C within a second ends the program.
fn cancel_on_interrupt(handle: CancelHandle) -> Result<()> {
    let running = RUNNING.get_or_init(Mutex::default);
    let first = running.lock().expect("no thread panics with the handle").replace(handle).is_none();
    // The process can have only one handler. Later runners only replace the handle.
    if !first {
        return Ok(());
    }
    let last = Arc::new(Mutex::new(None::<Instant>));
    let on_interrupt = move || {
        let mut last = last.lock().expect("no thread panics with the time");
        // A statement may not notice the cancellation soon enough, so the user needs a way out. For example, it may be
        // waiting for a disk.
        if last.is_some_and(|last| last.elapsed() < Duration::from_secs(1)) {
            std::process::exit(130);
        }
        *last = Some(Instant::now());
        if let Some(handle) = RUNNING.get().and_then(|running| running.lock().ok()?.clone()) {
            handle.cancel();
        }
    };
    ctrlc::set_handler(on_interrupt).map_err(|error| Error::internal(format!("Ctrl-C cannot be caught: {error}")))
}
