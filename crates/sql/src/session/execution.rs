//! Decides which executor runs a statement: a program, or the engine.
//!
//! ```text
//! statement ── has a program for its types? ── yes ──> the program, over the snapshot or the transaction
//!                                          └─ no ───> dispatch: the engine, and all other code of statements
//! ```
//!
//! We compile a statement that was prepared, or that was given with values for its parameters, at its first run. We
//! compile any other statement when its text runs for the second time, because compiling takes about as long as
//! planning, and a text that runs only once would pay for both. Texts that differ only in literals are one statement,
//! whose parameters are those literals.
//!
//! This crate is compiled for size, because most of it runs once for a statement. The functions that every run of a
//! program passes are `#[inline]`, so that the crates that call them compile them for speed: points take 2 to 10 % less
//! time, texts with literals up to a fifth less.
//!
//! A program that meets more rows than it can hold must not have changed anything, so the engine can run the statement
//! instead.

use std::sync::Arc;

use rowmill_base::{ErrorKind, Result, Settings};
use rowmill_expr::session_zone::{SessionZone, with_session_zone};
use rowmill_plan::Constant;
use rowmill_program::{Compiled, ProgramScratch, ResultRows, RunEnd};
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::{Engine, KeyedMark, Snapshot, TakenNumbers};

use super::Session;
use super::lost_rows::LostRows;
use crate::exhausted::in_statement;
use crate::lifted::{Lifted, lift};
use crate::open_transaction::{OpenTransaction, now_us};
use crate::outcome::{Outcome, RowStream};
use crate::param::Param;
use crate::parse::Statement;
use crate::program::ParameterKind;
use crate::statement::append::AppendPlan;
use crate::statement_cache::{KnownRun, MadeFor, ParsedText, ProgramPlace, TEXT_BYTES_MAX};

/// The number of parameter values that are kept on the stack: enough for most statements, and for nearly all
/// statements.
const FEW_PARAMETERS: usize = 8;
const PARAMETERS_ON_STACK: usize = 24;

/// Where a statement comes from, which tells whether it will run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatementOrigin {
    /// It was prepared, so it will run again.
    Prepared,
    /// It was given as text with values for its parameters. Programs give such texts, and they give them again and
    /// again.
    TextWithValues,
    /// It was given as text, so it may run only once.
    Text,
}

/// The answer of a statement whose rows may stay where its program has put them.
#[derive(Debug)]
pub enum PlacedOutcome {
    /// A program has run. [`Session::rows`] has its rows.
    Rows,
    /// Any other answer.
    Other(Outcome),
}

/// The result of a program. Its rows are in the session's [`ResultRows`].
struct Ran {
    program: ProgramPlace,
    changed: u64,
}

impl Session {
    /// Runs a prepared statement.
    #[inline]
    pub fn run(&mut self, statement: &Statement, parameters: &[Param<'_>]) -> Result<Outcome> {
        self.run_from(StatementOrigin::Prepared, statement, parameters)
    }

    /// Runs the only statement of a text.
    #[inline]
    pub fn run_text(&mut self, sql: &str, parameters: &[Param<'_>]) -> Result<Outcome> {
        // Texts with explicit parameters already share one statement.
        if parameters.is_empty()
            && let Some(outcome) = self.run_lifted(sql)?
        {
            return Ok(outcome);
        }
        let statement = self.parse_one(sql)?;
        let origin = if parameters.is_empty() { StatementOrigin::Text } else { StatementOrigin::TextWithValues };
        self.run_from(origin, &statement, parameters)
    }

    /// Runs the statements of a text in order and passes each outcome to `each`, with the time zone in which the
    /// session shows instants. If one of them cannot be parsed, none runs.
    #[inline]
    pub fn run_all(
        &mut self,
        sql: &str,
        mut each: impl FnMut(Outcome, Option<SessionZone>) -> Result<()>,
    ) -> Result<()> {
        if let Some(outcome) = self.run_lifted(sql)? {
            return each(outcome, self.zone);
        }
        for statement in self.parse(sql)? {
            let outcome = self.run_from(StatementOrigin::Text, &statement, &[])?;
            each(outcome, self.zone)?;
        }
        Ok(())
    }

    /// Runs a prepared statement. Returns the number of changed rows; [`Session::rows`] has the result.
    #[inline]
    pub fn ask(&mut self, statement: &Statement, parameters: &[Param<'_>]) -> Result<u64> {
        if let Some(ran) = self.run_program(StatementOrigin::Prepared, statement, parameters)? {
            return Ok(ran.changed);
        }
        if self.add_row(statement, parameters)? {
            self.rows.set_batches(&[])?;
            return Ok(1);
        }
        let (batches, changed) = match self.run_in_engine(statement, &constants(parameters))? {
            Outcome::Rows(stream) => (stream.collect::<Result<Vec<_>>>()?, 0),
            Outcome::Changed { rows, .. } => (Vec::new(), rows),
            Outcome::Done { .. } => (Vec::new(), 0),
        };
        self.rows.set_batches(&batches)?;
        Ok(changed)
    }

    /// Runs a prepared statement, as [`Session::run`] does, but leaves the rows of a program where they are.
    #[inline]
    pub fn run_in_place(&mut self, statement: &Statement, parameters: &[Param<'_>]) -> Result<PlacedOutcome> {
        let Some(ran) = self.run_program(StatementOrigin::Prepared, statement, parameters)? else {
            return Ok(PlacedOutcome::Other(self.run_without_program(statement, parameters)?));
        };
        let program = self.statements.program(ran.program);
        Ok(match program.schema {
            Some(_) => PlacedOutcome::Rows,
            None => PlacedOutcome::Other(Outcome::Changed { tag: program.tag, rows: ran.changed }),
        })
    }

    /// Returns the rows of the last statement that [`Session::ask`] or [`Session::run_in_place`] ran.
    #[inline]
    pub fn rows(&self) -> &ResultRows {
        &self.rows
    }

    #[inline]
    fn run_from(
        &mut self,
        origin: StatementOrigin,
        statement: &Statement,
        parameters: &[Param<'_>],
    ) -> Result<Outcome> {
        match self.run_program(origin, statement, parameters)? {
            Some(ran) => Ok(self.outcome(&ran)),
            None => self.run_without_program(statement, parameters),
        }
    }

    fn run_without_program(&mut self, statement: &Statement, parameters: &[Param<'_>]) -> Result<Outcome> {
        match self.add_row(statement, parameters)? {
            true => Ok(Outcome::Changed { tag: "INSERT", rows: 1 }),
            false => self.run_in_engine(statement, &constants(parameters)),
        }
    }

    /// Adds the row of an `INSERT INTO t VALUES ($1, $2)` to the open transaction, if `t` is a columnar table. Returns
    /// whether the statement was one.
    fn add_row(&mut self, statement: &Statement, parameters: &[Param<'_>]) -> Result<bool> {
        let Some(open) = &self.transaction else { return Ok(false) };
        if self.runs_elsewhere(statement)?
            || open.read_only
            || parameters.is_empty()
            || parameters.len() != statement.parameter_count()
        {
            return Ok(false);
        }
        let made_for = self.made_for(None);
        let plan = match self.statements.row_plan(statement, made_for) {
            Some(plan) => plan,
            None => self.make_row_plan(statement, made_for),
        };
        let (Some(plan), Some(open)) = (plan, &mut self.transaction) else { return Ok(false) };
        with_session_zone(self.zone, || open.add_row(&plan, parameters))?;
        Ok(true)
    }

    #[cold]
    fn make_row_plan(&mut self, statement: &Statement, made_for: MadeFor) -> Option<Arc<AppendPlan>> {
        let parameters = statement.parameter_count();
        let plan = match self.engine.is_read_only() || !statement.is_repeated() {
            true => Ok(None),
            false => self.work_on(statement, &[], |work| work.row_plan(parameters)),
        };
        // After an error, the engine runs the statement and reports the error again.
        let plan = plan.unwrap_or_default().map(Arc::new);
        self.statements.keep_row_plan(statement, plan.clone(), made_for);
        plan
    }

    /// Runs a text as the program of the statement without its literals, if that statement has one.
    #[inline]
    fn run_lifted(&mut self, sql: &str) -> Result<Option<Outcome>> {
        let Some(Lifted { text, literals }) = lift(sql) else { return Ok(None) };
        let Some(statement) = self.parse_lifted(&text) else { return Ok(None) };
        let parameters: Vec<Param<'_>> = literals.iter().map(Param::from).collect();
        let ran = self.run_program_of(StatementOrigin::Text, &statement, &parameters);
        match ran.map_err(|error| in_statement(error, sql)) {
            // The program has undone its changes, but it does not know where in the text the bad value is. So we let
            // the statement run again with its literals: it fails again, and that error names the place.
            Err(error) if is_of_a_value(error.kind()) => Ok(None),
            ran => Ok(ran?.map(|ran| self.outcome(&ran))),
        }
    }

    /// Returns the statement of a text whose literals were taken out, or `None` if the text is not one statement.
    #[inline]
    fn parse_lifted(&mut self, text: &str) -> Option<Statement> {
        match self.statements.parsed(text, self.settings_version) {
            Some(ParsedText::Statement(statement)) => return Some(statement),
            Some(ParsedText::Other) => return None,
            None => {}
        }
        let statement = self.parse_one(text).ok();
        if statement.is_none() {
            self.statements.keep_other(text);
        }
        statement
    }

    /// Returns the result of a program as an outcome.
    #[inline]
    fn outcome(&mut self, ran: &Ran) -> Outcome {
        let program = self.statements.program(ran.program);
        match &program.schema {
            Some(schema) => Outcome::Rows(RowStream::of_program(Arc::clone(schema), self.rows.take())),
            None => Outcome::Changed { tag: program.tag, rows: ran.changed },
        }
    }

    /// Runs `statement` if it has a program. Returns `None` if the engine must run it.
    #[inline]
    fn run_program(
        &mut self,
        origin: StatementOrigin,
        statement: &Statement,
        parameters: &[Param<'_>],
    ) -> Result<Option<Ran>> {
        let ran = self.run_program_of(origin, statement, parameters);
        ran.map_err(|error| in_statement(error, statement.text()))
    }

    /// Does the work of [`Session::run_program`]. Its errors of exhausted limits do not name the statement.
    #[inline]
    fn run_program_of(
        &mut self,
        origin: StatementOrigin,
        statement: &Statement,
        parameters: &[Param<'_>],
    ) -> Result<Option<Ran>> {
        self.in_zone(|session| {
            session.until_rows_are_kept(|session| session.run_program_once(origin, statement, parameters))
        })
    }

    #[inline]
    fn run_program_once(
        &mut self,
        origin: StatementOrigin,
        statement: &Statement,
        parameters: &[Param<'_>],
    ) -> Result<Option<Ran>> {
        if parameters.len() != statement.parameter_count() || !statement.is_repeated() {
            return Ok(None);
        }
        if self.runs_elsewhere(statement)? {
            return Ok(None);
        }
        // The program and the rows that it reads must belong to one snapshot.
        let snapshot = self.begin_reading()?;
        // No program: nothing has run yet, so the engine can start from the beginning.
        let Some(place) = self.program(origin, snapshot.as_ref(), statement, parameters)? else { return Ok(None) };
        if let Some(cancel) = self.begin_program() {
            self.scratch.set_cancel(cancel);
        }
        // Rows of a prepared INSERT into a columnar table wait in the open transaction, and go into it as one batch.
        let waits = self.transaction.is_some() && self.statements.program(place).compiled.is_append();
        if waits && self.add_row(statement, parameters)? {
            self.rows.set_batches(&[])?;
            return Ok(Some(Ran { program: place, changed: 1 }));
        }
        let Session { engine, settings, transaction, statements, scratch, rows, lost_row, taken_numbers, .. } = self;
        let program = statements.program(place);
        let began_us = transaction.as_ref().map(|open| open.began_us);
        let mut data =
            ProgramData { engine, settings, transaction, snapshot: snapshot.as_ref(), lost_row, taken_numbers };
        let mut run = |values: &[ValueRef<'_>]| data.run(&program.compiled, values, scratch, rows);
        let clock = program.reads_clock.then(|| ValueRef::Int(began_us.unwrap_or_else(now_us)));
        let count = parameters.len() + usize::from(program.reads_clock);
        let ran = if count <= FEW_PARAMETERS {
            run(on_stack(parameters, clock, &mut [ValueRef::Null; FEW_PARAMETERS]))
        } else if count <= PARAMETERS_ON_STACK {
            run(on_stack(parameters, clock, &mut [ValueRef::Null; PARAMETERS_ON_STACK]))
        } else {
            run(&parameters.iter().map(|parameter| parameter.to_ref()).chain(clock).collect::<Vec<_>>())
        };
        match ran {
            // More rows than a program can hold. The program has not changed anything, so the engine runs the
            // statement.
            Ok(RunEnd::GivenUp(_)) => Ok(None),
            // A literal does not fit its type. We let the statement run again in the engine, whose error names the
            // place.
            Err(error) if parameters.is_empty() && is_of_a_value(error.kind()) => Ok(None),
            ran => {
                let changed = ran?.rows()?;
                Ok(Some(Ran { program: place, changed: if program.schema.is_some() { 0 } else { changed } }))
            }
        }
    }

    /// Returns the program of a statement for parameters of these kinds, and compiles it if that is worth it.
    #[inline]
    fn program(
        &mut self,
        origin: StatementOrigin,
        snapshot: Option<&Arc<Snapshot>>,
        statement: &Statement,
        parameters: &[Param<'_>],
    ) -> Result<Option<ProgramPlace>> {
        // A long text that was not prepared is usually an INSERT of many rows that never comes again. Keeping such
        // texts would fill the memory.
        let is_kept = origin == StatementOrigin::Prepared || statement.text().len() <= TEXT_BYTES_MAX;
        if !is_kept {
            return Ok(None);
        }
        let made_for = self.made_for(snapshot);
        match self.statements.known_run(statement, parameters, made_for) {
            KnownRun::Program(place) => Ok(Some(place)),
            KnownRun::NoProgram => Ok(None),
            KnownRun::Uncompiled { runs } => {
                let is_worth_it = origin != StatementOrigin::Text || runs > 1;
                if is_worth_it { self.compile(snapshot, statement, parameters) } else { Ok(None) }
            }
        }
    }

    /// Compiles the program of a statement for parameters of these kinds, or remembers that it has none.
    #[cold]
    fn compile(
        &mut self,
        snapshot: Option<&Arc<Snapshot>>,
        statement: &Statement,
        parameters: &[Param<'_>],
    ) -> Result<Option<ProgramPlace>> {
        let kinds: Box<[ParameterKind]> = parameters.iter().map(Param::kind).collect();
        let view = match (snapshot, &mut self.transaction) {
            (Some(snapshot), _) => Arc::clone(snapshot),
            (None, open) => open.as_mut().expect(OPEN).settled()?.view()?,
        };
        // The result is kept even if there is none, so that we do not compile again in every run.
        let compiled = self.work_on(statement, &[], |work| work.compiled_statement(&view, &kinds));
        // After an error, the engine runs the statement and reports the error again.
        let program = compiled.unwrap_or_default();
        let made_for = self.made_for(snapshot);
        Ok(self.statements.keep_program(statement, kinds, program, made_for))
    }

    /// Returns the versions that a program or plan of this moment depends on.
    #[inline]
    fn made_for(&self, snapshot: Option<&Arc<Snapshot>>) -> MadeFor {
        let catalog = match (snapshot, &self.transaction) {
            (Some(snapshot), _) => snapshot.catalog().version(),
            (None, open) => open.as_ref().expect(OPEN).catalog_version(),
        };
        MadeFor { catalog, settings: self.settings_version }
    }
}

/// The reason why [`ProgramData`] always has something to read.
const OPEN: &str = "a transaction is open, or the statement has a snapshot";

/// The data that a program reads and writes.
struct ProgramData<'s> {
    engine: &'s Arc<Engine>,
    settings: &'s Settings,
    transaction: &'s mut Option<OpenTransaction>,
    /// The snapshot to read outside of a transaction.
    snapshot: Option<&'s Arc<Snapshot>>,
    lost_row: &'s mut LostRows,
    taken_numbers: &'s Arc<TakenNumbers>,
}

impl ProgramData<'_> {
    /// Runs a program.
    #[inline]
    fn run(
        &mut self,
        compiled: &Compiled,
        values: &[ValueRef<'_>],
        scratch: &mut ProgramScratch,
        rows: &mut ResultRows,
    ) -> Result<RunEnd> {
        if compiled.is_read() {
            return match (self.snapshot, &mut self.transaction) {
                (Some(snapshot), _) => compiled.run_read(&snapshot.reader(), values, scratch, rows),
                (None, open) => {
                    let reader = open.as_mut().expect(OPEN).settled()?.reader();
                    compiled.run_read(&reader, values, scratch, rows)
                }
            };
        }
        if let Some(open) = self.transaction {
            let transaction = open.for_writing()?;
            let mark = transaction.keyed_mark();
            let end = compiled.run_write(transaction, values, scratch, rows)?;
            return match self.lost_row.keep_rows(transaction, mark) {
                Ok(()) => Ok(end),
                Err(lost) => {
                    transaction.undo_keyed_to(mark);
                    Err(lost)
                }
            };
        }
        // Outside of a transaction a writing program has its own, which is committed only after the program has
        // succeeded.
        let mut transaction = self.lost_row.begin_own(self.engine, self.settings)?;
        transaction.note_numbers_in(self.taken_numbers);
        let end = compiled.run_write(&mut transaction, values, scratch, rows)?;
        if let RunEnd::Done(_) = end {
            self.lost_row.keep_rows(&mut transaction, KeyedMark::default())?;
            transaction.commit()?;
        }
        Ok(end)
    }
}

/// Fills `values` with the values of the parameters, and after them the time if the program reads it. Returns that
/// part.
#[inline]
fn on_stack<'v, 'p>(
    parameters: &[Param<'p>],
    clock: Option<ValueRef<'p>>,
    values: &'v mut [ValueRef<'p>],
) -> &'v [ValueRef<'p>] {
    let values = &mut values[..parameters.len() + usize::from(clock.is_some())];
    values.iter_mut().zip(parameters).for_each(|(value, parameter)| *value = parameter.to_ref());
    if let (Some(clock), Some(last)) = (clock, values.last_mut()) {
        *last = clock;
    }
    values
}

/// Converts the values of parameters to the form that the engine takes.
fn constants(parameters: &[Param<'_>]) -> Vec<Constant> {
    parameters.iter().map(|parameter| parameter.to_constant()).collect()
}

/// Whether an error may come from a literal that is not a value of the type that is needed.
fn is_of_a_value(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::InvalidText | ErrorKind::InvalidDatetime | ErrorKind::NumericOutOfRange)
}
