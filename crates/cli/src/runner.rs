//! Runs statements and prints their outcomes.

use std::io::{BufWriter, Write};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use rowmill::arrow::datatypes::Schema;
use rowmill::{CancelHandle, Connection, Error, ErrorKind, Outcome, Result, RowStream};

use crate::commands::{self, Next};
use crate::input::{OpenInput, SqlStream};
use crate::output::{Format, Printer};
use crate::pager::Pager;
use crate::progress::Bar;
use crate::stopwatch::Stopwatch;
use crate::terminal::{self, Output, complain, output_error, say};

/// A connection, and the way in which we print its results.
pub(crate) struct Runner {
    pub(crate) connection: Connection,
    pub(crate) view: ResultView,
    pub(crate) timing: bool,
    bar: Bar,
    /// Files and standard inputs that are being run. A file can run another one.
    open_streams: usize,
}

/// The most streams that are open at a time. A file that runs itself must not use up the stack.
const OPEN_STREAMS_MAX: usize = 100;

/// The way in which results are printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultView {
    pub(crate) format: Format,
    /// Whether a table on a terminal has all rows and columns.
    pub(crate) all: bool,
    /// Whether long results are shown through a pager.
    pub(crate) paged: bool,
}

/// The statement that Ctrl-C cancels. It must be global, because the signal handler has no other access to it.
static RUNNING: OnceLock<Mutex<Option<CancelHandle>>> = OnceLock::new();

impl Runner {
    pub(crate) fn new(mut connection: Connection, view: ResultView) -> Result<Self> {
        let bar = Bar::new();
        let after = Duration::from_millis(connection.settings().number("progress_ms"));
        connection.set_progress(bar.reporter(after));
        cancel_on_interrupt()?;
        Ok(Runner { connection, view, timing: false, bar, open_streams: 0 })
    }

    /// Runs a source of SQL. The first error ends it.
    pub(crate) fn run_input(&mut self, input: OpenInput) -> Result<()> {
        match input {
            OpenInput::Text(sql) if sql.trim_start().starts_with('\\') => commands::run(&sql, self).map(|_| ()),
            OpenInput::Text(sql) => self.run_text(&sql),
            OpenInput::Stream(stream) => self.run_stream(stream),
        }
    }

    /// Runs each statement and command of a stream as soon as it is complete. The command that quits ends the stream.
    pub(crate) fn run_stream(&mut self, mut stream: SqlStream) -> Result<()> {
        if self.open_streams == OPEN_STREAMS_MAX {
            let message = format!("files that run each other are nested more than {OPEN_STREAMS_MAX} deep");
            return Err(Error::new(ErrorKind::StatementTooComplex, message));
        }
        self.open_streams += 1;
        let result = self.run_to_end(&mut stream);
        self.open_streams -= 1;
        result
    }

    fn run_to_end(&mut self, stream: &mut SqlStream) -> Result<()> {
        while let Some(statement) = stream.next()? {
            let ran = match statement.is_shell_command() {
                true => commands::run(&statement.text, self),
                false => self.run_text(&statement.text).map(|()| Next::Continue),
            };
            if ran.map_err(|error| stream.locate(&error, &statement))? == Next::Quit {
                break;
            }
        }
        Ok(())
    }

    /// Tells a person that something was done. A person types at the prompt, or reads the output of a script in a
    /// format for people. Programs that read the output of a script want only results.
    pub(crate) fn tell(&self, text: &str) -> Result<()> {
        let is_at_prompt = self.open_streams == 0;
        if is_at_prompt || self.view.format.is_for_people() { say(text) } else { Ok(()) }
    }

    /// Runs the statements of `sql` and prints each outcome as soon as it is there. If one of them cannot be parsed,
    /// none is run.
    pub(crate) fn run_text(&mut self, sql: &str) -> Result<()> {
        let Runner { connection, view, timing, bar, .. } = self;
        let running = RunningStatement::begin(connection.cancel_handle());
        let mut watch = Stopwatch::started();
        let result = connection.run(sql, |outcome| {
            watch.stop();
            view.print(outcome, bar, &mut watch)?;
            if *timing {
                say(&format!("Time: {:.3} s\n", watch.spent().as_secs_f64()))?;
            }
            // The next statement of the text starts now, so each one gets its own time.
            watch = Stopwatch::started();
            Ok(())
        });
        drop(running);
        // The bar must be gone before we print the notices, because both go to the error output.
        bar.clear();
        for notice in connection.take_notices() {
            complain(&format!("NOTICE: {notice}"));
        }
        result
    }
}

impl ResultView {
    fn print(self, outcome: Outcome, bar: &Bar, watch: &mut Stopwatch) -> Result<()> {
        let (tag, rows) = match outcome {
            Outcome::Rows(rows) => return self.print_result(rows, bar, watch),
            Outcome::Changed { tag, rows } => (tag, Some(rows)),
            Outcome::Done { tag } => (tag, None),
        };
        bar.clear();
        match rows {
            _ if !self.format.is_for_people() => Ok(()),
            Some(rows) => say(&format!("{tag} {rows}\n")),
            None => say(&format!("{tag}\n")),
        }
    }

    fn print_result(self, rows: RowStream, bar: &Bar, watch: &mut Stopwatch) -> Result<()> {
        match terminal::screen_size().filter(|_| self.paged) {
            Some(screen) => {
                let mut pager = Pager::new(screen, bar);
                let printed = self.print_rows(rows, &mut pager, bar, watch);
                // Leaving the pager before the end of the result is no error.
                let result = if pager.is_left() { Ok(()) } else { printed };
                let finished = pager.finish();
                result.and(finished.map_err(|error| output_error(&error)))
            }
            None => {
                let mut out: BufWriter<Output> = Output::buffered();
                self.print_rows(rows, &mut out, bar, watch)?;
                // The reader of the output may wait for this result before it sends the next statement.
                out.flush().map_err(|error| output_error(&error))
            }
        }
    }

    fn print_rows(self, mut rows: RowStream, out: &mut dyn Write, bar: &Bar, watch: &mut Stopwatch) -> Result<()> {
        let mut printer = self.printer(&rows.schema());
        while let Some(batch) = watch.count(|| rows.next()) {
            let batch = batch?;
            // The bar and the rows share the terminal, so we remove the bar before we print. A later report shows it
            // again.
            bar.clear();
            printer.batch(&batch, out)?;
        }
        bar.clear();
        printer.finish(out)
    }

    fn printer(self, schema: &Schema) -> Box<dyn Printer> {
        match terminal::screen_size() {
            Some(screen) if !self.all => self.format.screen_printer(schema, screen.columns),
            _ => self.format.printer(schema),
        }
    }
}

/// While it exists, Ctrl-C cancels the statement instead of the program.
struct RunningStatement;

impl RunningStatement {
    fn begin(handle: CancelHandle) -> RunningStatement {
        *RUNNING.get_or_init(Mutex::default).lock().expect("no thread panics with the handle") = Some(handle);
        RunningStatement
    }
}

impl Drop for RunningStatement {
    fn drop(&mut self) {
        *RUNNING.get_or_init(Mutex::default).lock().expect("no thread panics with the handle") = None;
    }
}

/// Makes Ctrl-C cancel the running statement. It ends the program if no statement runs, or if it comes twice within a
/// second.
fn cancel_on_interrupt() -> Result<()> {
    static IS_SET: OnceLock<()> = OnceLock::new();
    // The process can have only one handler.
    if IS_SET.set(()).is_err() {
        return Ok(());
    }
    let last = Arc::new(Mutex::new(None::<Instant>));
    let on_interrupt = move || {
        let mut last = last.lock().expect("no thread panics with the time");
        // A statement may not notice the cancellation soon enough, so the user needs a way out. For example, it may be
        // waiting for a disk.
        let is_repeated = last.is_some_and(|last| last.elapsed() < Duration::from_secs(1));
        *last = Some(Instant::now());
        match RUNNING.get_or_init(Mutex::default).lock().expect("no thread panics with the handle").clone() {
            Some(handle) if !is_repeated => handle.cancel(),
            _ => std::process::exit(130),
        }
    };
    ctrlc::set_handler(on_interrupt).map_err(|error| Error::internal(format!("Ctrl-C cannot be caught: {error}")))
}
