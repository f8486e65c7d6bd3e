//! The compiled statements of a connection.
//!
//! A statement that is run again is made a program, if it is one that a program does: then it runs without a planner. There is
//! one for each list of types that its parameters are given; a NULL goes with any of them. When definitions or settings change
//! programs are made anew.
//!
//! A text with literals in it is the statement without them and their values, so that texts which differ in those alone are run again too.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use rowmill_base::{ErrorKind, Result};
use rowmill_program::{Compiled, ResultRows, Scratch};
use rowmill_sql::{Lifted, Outcome, ParameterKind, RowStream, Session, Statement, lift};
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::{Snapshot, Transaction};

use crate::Param;

/// Statements that are kept at most. When there are more all are forgotten.
const STATEMENTS_MAX: usize = 1024;

/// So many values of parameters lie on the stack: of most statements, and of all but those with very many.
const FEW_PARAMETERS: usize = 8;
const PARAMETERS_ON_STACK: usize = 24;

/// Programs of one statement at most. With parameters of yet other types it runs as other statements do.
const PROGRAMS_MAX: usize = 8;

/// Compiled statements, and the memory that they run in.
#[derive(Default)]
pub(crate) struct Programs {
    statements: Statements,
    /// Statements whose literals were taken out, by their texts; none where that cannot be parsed.
    lifted: HashMap<String, Option<Statement>>,
    scratch: Scratch,
    rows: ResultRows,
}

/// What is known of statements, by the hashes of their texts.
#[derive(Default)]
struct Statements(HashMap<u64, Known, BuildHasherDefault<IsHashed>>);

/// The hash of what is a hash.
#[derive(Default)]
struct IsHashed(u64);

impl Hasher for IsHashed {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a hash is one number")
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What is known of one statement.
#[derive(Default)]
struct Known {
    text: Arc<str>,
    /// Times that it was run before it was compiled.
    runs: u32,
    /// For which the programs were made.
    made_for: MadeFor,
    programs: Vec<Made>,
}

/// A program for parameters of some types, or that there is none.
struct Made {
    kinds: Box<[ParameterKind]>,
    program: Option<Program>,
}

impl Made {
    fn fits(&self, parameters: &[Param<'_>]) -> bool {
        let mut pairs = self.kinds.iter().zip(parameters);
        pairs.all(|(kind, value)| matches!(value, Param::Null) || *kind == value.kind())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MadeFor {
    catalog: u64,
    settings: u64,
}

/// A statement that is ready to run.
struct Program {
    compiled: Compiled,
    schema: Option<SchemaRef>,
    tag: &'static str,
}

/// What a program has done.
pub(crate) enum Done {
    /// Its rows are [`Programs::rows`], with these columns.
    Rows(SchemaRef),
    /// It changed so many rows.
    Changed { tag: &'static str, rows: u64 },
}

/// Whether an error may come from a literal that is no value of the type that is asked for.
fn is_of_a_value(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::InvalidText | ErrorKind::InvalidDatetime | ErrorKind::NumericOutOfRange)
}

impl Programs {
    /// Runs `statement` if it is a program; `None` if it has to be run in another way. `eagerly`: although it was not run before.
    pub(crate) fn run(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        parameters: &[Param<'_>],
        eagerly: bool,
    ) -> Result<Option<Done>> {
        if parameters.len() != statement.parameter_count() || !statement.is_repeated() {
            return Ok(None);
        }
        // One look at what is committed, for the program and for what it reads.
        let snapshot = session.begin_reading()?;
        let Programs { statements, scratch, rows, .. } = self;
        let Some(program) = statements.program(session, snapshot.as_ref(), statement, parameters, eagerly)? else {
            return Ok(None);
        };
        if let Some(cancel) = session.begin_program() {
            scratch.set_cancel(cancel);
        }
        let mut run =
            |parameters: &[ValueRef<'_>]| run(session, snapshot.as_ref(), &program.compiled, parameters, scratch, rows);
        let ran = if parameters.len() <= FEW_PARAMETERS {
            run(on_stack(parameters, &mut [ValueRef::Null; FEW_PARAMETERS]))
        } else if parameters.len() <= PARAMETERS_ON_STACK {
            run(on_stack(parameters, &mut [ValueRef::Null; PARAMETERS_ON_STACK]))
        } else {
            run(&parameters.iter().map(|parameter| parameter.to_ref()).collect::<Vec<_>>())
        };
        let changed = match ran {
            // More rows than a program holds. It has done nothing.
            Err(error) if error.kind() == ErrorKind::Unsupported && !statement.is_for_program() => return Ok(None),
            // A literal is no value: the statement fails once more without a program, with an error that says where.
            Err(error) if parameters.is_empty() && is_of_a_value(error.kind()) => return Ok(None),
            ran => ran?,
        };
        Ok(Some(match &program.schema {
            Some(schema) => Done::Rows(Arc::clone(schema)),
            None => Done::Changed { tag: program.tag, rows: changed },
        }))
    }

    /// Runs a text as the program of the statement without its literals, if there is one; `None` if it has to be run in another way.
    pub(crate) fn run_text(&mut self, session: &mut Session, sql: &str) -> Result<Option<Done>> {
        let Some(Lifted { text, literals }) = lift(sql) else { return Ok(None) };
        if self.lifted.len() >= STATEMENTS_MAX && !self.lifted.contains_key(&text) {
            self.lifted.clear();
        }
        let parsed = self.lifted.entry(text).or_insert_with_key(|text| {
            let mut statements = session.parse(text).ok()?;
            statements.pop().filter(|_| statements.is_empty())
        });
        let Some(statement) = parsed.clone() else { return Ok(None) };
        let parameters: Vec<Param<'_>> = literals.iter().map(Param::from).collect();
        match self.run(session, &statement, &parameters, false) {
            // The program has undone what it did, and does not know where in the text the value stands. The statement fails
            // once more as itself, and its error says where.
            Err(error) if is_of_a_value(error.kind()) => Ok(None),
            ran => ran,
        }
    }

    /// The rows of the last program.
    pub(crate) fn rows(&self) -> &ResultRows {
        &self.rows
    }

    /// Takes the rows of a statement that is no program.
    pub(crate) fn keep(&mut self, outcome: Outcome) -> Result<u64> {
        let (batches, changed) = match outcome {
            Outcome::Rows(stream) => (stream.collect::<Result<Vec<_>>>()?, 0),
            Outcome::Changed { rows, .. } => (Vec::new(), rows),
            Outcome::Done { .. } => (Vec::new(), 0),
        };
        self.rows.set_batches(&batches)?;
        Ok(changed)
    }

    /// What a program has done, as every statement answers.
    pub(crate) fn outcome(&self, done: &Done) -> Result<Outcome> {
        Ok(match done {
            Done::Rows(schema) => Outcome::Rows(RowStream::ready(self.rows.to_batch(schema)?)),
            Done::Changed { tag, rows } => Outcome::Changed { tag, rows: *rows },
        })
    }
}

impl Statements {
    /// The program of a statement with such parameters, which is made if there is none.
    fn program(
        &mut self,
        session: &mut Session,
        snapshot: Option<&Arc<Snapshot>>,
        statement: &Statement,
        parameters: &[Param<'_>],
        eagerly: bool,
    ) -> Result<Option<&Program>> {
        let settings = session.settings_version();
        let catalog = match snapshot {
            Some(snapshot) => snapshot.catalog().version(),
            None => open_transaction(session).catalog().version(),
        };
        let made_for = MadeFor { catalog, settings };
        if self.0.len() >= STATEMENTS_MAX && !self.0.contains_key(&statement.text_hash()) {
            self.0.clear();
        }
        let known = self.0.entry(statement.text_hash()).or_default();
        let text = statement.shared_text();
        if !Arc::ptr_eq(&known.text, text) && known.text != *text {
            *known = Known { text: Arc::clone(text), ..Known::default() };
        }
        if known.made_for != made_for {
            known.programs.clear();
            known.made_for = made_for;
        }
        if let Some(at) = known.programs.iter().position(|made| made.fits(parameters)) {
            return Ok(known.programs[at].program.as_ref());
        }
        known.runs += 1;
        if (known.runs == 1 && !eagerly && !statement.is_for_program()) || known.programs.len() >= PROGRAMS_MAX {
            return Ok(None);
        }
        let kinds: Box<[ParameterKind]> = parameters.iter().map(Param::kind).collect();
        let program = match compile(session, snapshot, statement, &kinds) {
            Ok(program) => program,
            Err(error) if statement.is_for_program() => return Err(error),
            // What is wrong with the statement is said when it is run in the other way.
            Err(_) => None,
        };
        known.programs.push(Made { kinds, program });
        Ok(known.programs.last().and_then(|made| made.program.as_ref()))
    }
}

/// The values of parameters, in the first of `values`.
fn on_stack<'v, 'p>(parameters: &[Param<'p>], values: &'v mut [ValueRef<'p>]) -> &'v [ValueRef<'p>] {
    let values = &mut values[..parameters.len()];
    values.iter_mut().zip(parameters).for_each(|(value, parameter)| *value = parameter.to_ref());
    values
}

/// Where a statement sees no snapshot of its own a transaction is open.
fn open_transaction(session: &mut Session) -> &mut Transaction {
    session.transaction().expect("a transaction is open, or the statement has a snapshot")
}

fn compile(
    session: &mut Session,
    snapshot: Option<&Arc<Snapshot>>,
    statement: &Statement,
    kinds: &[ParameterKind],
) -> Result<Option<Program>> {
    let view = match snapshot {
        Some(snapshot) => Arc::clone(snapshot),
        None => open_transaction(session).view()?,
    };
    let Some(made) = session.program(statement, &view, kinds)? else { return Ok(None) };
    let compiled = Compiled::new(&made.program, view.catalog())?;
    Ok(Some(Program { compiled, schema: made.schema, tag: made.tag }))
}

fn run(
    session: &mut Session,
    snapshot: Option<&Arc<Snapshot>>,
    compiled: &Compiled,
    parameters: &[ValueRef<'_>],
    scratch: &mut Scratch,
    rows: &mut ResultRows,
) -> Result<u64> {
    if compiled.is_read() {
        match snapshot {
            Some(snapshot) => compiled.run_read(&snapshot.reader(), parameters, scratch, rows)?,
            None => compiled.run_read(&open_transaction(session).reader(), parameters, scratch, rows)?,
        }
        return Ok(0);
    }
    if let Some(transaction) = session.transaction_to_write()? {
        return compiled.run_write(transaction, parameters, scratch, rows);
    }
    let mut transaction = session.engine().begin()?;
    transaction.set_isolation(session.isolation());
    let changed = compiled.run_write(&mut transaction, parameters, scratch, rows)?;
    transaction.commit()?;
    Ok(changed)
}
