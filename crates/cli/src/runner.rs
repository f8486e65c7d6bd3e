//! Runs statements and prints their outcomes.

use std::time::Duration;

use rowmill::text::SqlSplitter;
use rowmill::{Connection, Database, Error, ErrorKind, Result};
use rowmill_server::StreamCopy;

use crate::buffer::split_command;
use crate::commands::{self, Next};
use crate::data_lines::{DataLines, StandardLines};
use crate::error_view::{excerpt, show};
use crate::input::{OpenInput, SqlStream};
use crate::interrupt::{RunningStatement, handle_interrupts};
use crate::outcome_printer::{OutcomePrinter, ResultView};
use crate::plot::PlotSample;
use crate::progress::Bar;
use crate::result_target::ResultTarget;
use crate::stopwatch::Stopwatch;
use crate::terminal::{complain, say};
use crate::variables::Variables;

/// A connection, and the way in which we print its results.
pub(crate) struct Runner {
    pub(crate) database: Database,
    pub(crate) connection: Connection,
    pub(crate) view: ResultView,
    pub(crate) timing: bool,
    pub(crate) variables: Variables,
    /// Where results go.
    pub(crate) target: ResultTarget,
    /// A statement that was typed and has not run. Commands can run, show or edit it.
    pub(crate) buffer: String,
    /// The text that ran last.
    pub(crate) last_sql: String,
    /// Some values of the last result, for a chart.
    pub(crate) last_result: Option<PlotSample>,
    /// The place of the last error in its text, for the user to see.
    pub(crate) error_excerpt: Option<String>,
    bar: Bar,
    /// Files and standard inputs that are being run. A file can run another one.
    open_streams: usize,
}

/// The most streams that are open at a time. A file that runs itself must not use up the stack.
const OPEN_STREAMS_MAX: usize = 100;

impl Runner {
    pub(crate) fn new(database: &Database, view: ResultView) -> Result<Self> {
        let mut connection = database.connect()?;
        let bar = Bar::new();
        let after = Duration::from_millis(connection.settings().number("progress_ms"));
        connection.set_progress(bar.reporter(after));
        handle_interrupts()?;
        Ok(Runner {
            database: database.clone(),
            connection,
            view,
            timing: false,
            variables: Variables::default(),
            target: ResultTarget::Screen,
            buffer: String::new(),
            last_sql: String::new(),
            last_result: None,
            error_excerpt: None,
            bar,
            open_streams: 0,
        })
    }

    /// Runs a source of SQL. The first error ends it.
    pub(crate) fn run_input(&mut self, input: OpenInput) -> Result<()> {
        match input {
            OpenInput::Text(sql) => self.run_statement(&sql, &mut StandardLines::default()).map(drop),
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
            let ran = self.run_statement(&statement.text, stream);
            if ran.map_err(|error| stream.locate(&error, &statement))? == Next::Quit {
                break;
            }
        }
        Ok(())
    }

    /// Runs a command, or statements that may end with a command: `SELECT 1 \gx`.
    pub(crate) fn run_statement(&mut self, text: &str, data: &mut dyn DataLines) -> Result<Next> {
        match split_command(text) {
            Some((sql, command)) if !sql.trim().is_empty() && commands::takes_statement(command) => {
                self.buffer = sql.trim().to_owned();
                let ran = commands::run(command, self);
                self.buffer.clear();
                ran
            }
            _ if commands::is_command(text) => commands::run(text, self),
            _ => self.run_with_data(text, data).map(|()| Next::Continue),
        }
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
        self.run_with_data(sql, &mut StandardLines::default())
    }

    /// Runs statements, which may take the data of a `COPY ... FROM STDIN` from `data`.
    pub(crate) fn run_with_data(&mut self, sql: &str, data: &mut dyn DataLines) -> Result<()> {
        self.error_excerpt = None;
        self.last_sql = sql.trim().to_owned();
        let sql = self.variables.expand(sql);
        let result = if StreamCopy::is_in(&sql) { self.run_copies(&sql, data) } else { self.run_query(&sql) };
        // The bar must be gone before we print the notices, because both go to the error output.
        self.bar.clear();
        for notice in self.connection.take_notices() {
            complain(&format!("NOTICE: {notice}"));
        }
        result
    }

    /// Runs statements one by one, because some of them are a COPY through the shell.
    fn run_copies(&mut self, sql: &str, data: &mut dyn DataLines) -> Result<()> {
        let mut splitter = SqlSplitter::default();
        splitter.push(sql);
        while let Some(statement) = splitter.next_complete().or_else(|| splitter.rest()) {
            match StreamCopy::of(&statement.text)? {
                Some(copy) => self.run_copy(&copy, data)?,
                None => self.run_query(&statement.text)?,
            }
        }
        Ok(())
    }

    fn run_copy(&mut self, copy: &StreamCopy, data: &mut dyn DataLines) -> Result<()> {
        let running = RunningStatement::begin(self.connection.cancel_handle());
        let mut watch = Stopwatch::started();
        let rows = match copy.takes_data() {
            true => self.load(copy, data)?,
            false => self.target.write(|out| copy.write(&mut self.connection, out))?,
        };
        watch.stop();
        drop(running);
        // Standard output has the data, so a message between the rows would spoil them.
        if copy.takes_data() && self.view.format.is_for_people() {
            say(&format!("COPY {rows}\n"))?;
        }
        self.tell_time(&watch)
    }

    fn load(&mut self, copy: &StreamCopy, data: &mut dyn DataLines) -> Result<u64> {
        let mut has_begun = false;
        let loaded = copy.load(&mut self.connection, &mut || {
            // The statement is right by now, so we can ask for its data.
            if !std::mem::replace(&mut has_begun, true) {
                data.begin()?;
            }
            data.next_lines()
        });
        if loaded.is_err() && has_begun {
            // The rest of the data must not be taken for statements.
            while data.next_lines()?.is_some() {}
        }
        loaded
    }

    fn run_query(&mut self, sql: &str) -> Result<()> {
        let Runner { connection, view, timing, bar, target, last_result, .. } = self;
        let running = RunningStatement::begin(connection.cancel_handle());
        let mut watch = Stopwatch::started();
        let result = connection.run(sql, |outcome| {
            watch.stop();
            OutcomePrinter { view: *view, target, bar, last_result }.print(outcome, &mut watch)?;
            if *timing {
                say(&watch.line())?;
            }
            // The next statement of the text starts now, so each one gets its own time.
            watch = Stopwatch::started();
            Ok(())
        });
        drop(running);
        if let Err(error) = &result {
            self.error_excerpt = error.position().and_then(|place| excerpt(sql, place));
        }
        result
    }

    /// Runs a query of a command. It is not the statement that the user ran last.
    pub(crate) fn run_own(&mut self, sql: &str) -> Result<()> {
        let (was_sampled, was_timed) = (self.view.sampled, self.timing);
        (self.view.sampled, self.timing) = (false, false);
        let result = self.run_query(sql);
        (self.view.sampled, self.timing) = (was_sampled, was_timed);
        self.error_excerpt = None;
        result
    }

    /// Runs the statement that was typed without printing its result, for a chart.
    pub(crate) fn run_for_chart(&mut self) -> Result<()> {
        let sql = std::mem::take(&mut self.buffer);
        let target = std::mem::replace(&mut self.target, ResultTarget::Nowhere);
        let result = self.run_text(&sql);
        self.target = target;
        result
    }

    /// Prints an error of the statement that ran last, with its place.
    pub(crate) fn show_error(&mut self, error: &Error) {
        let excerpt = self.error_excerpt.take();
        show(error, excerpt.as_deref());
    }

    fn tell_time(&self, watch: &Stopwatch) -> Result<()> {
        if self.timing { say(&watch.line()) } else { Ok(()) }
    }
}
