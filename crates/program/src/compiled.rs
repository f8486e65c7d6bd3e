//! Programs that are ready to run: their tables are known, their columns have places, and their types are checked.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result, SqlType, TableId};
use rowmill_plan::program::{self, Program};
use rowmill_storage::TableDef;
use rowmill_storage::keyed::{ColumnValues, ValueRef};
use rowmill_txn::keyed::KeyedReader;
use rowmill_txn::{Catalog, Transaction};

use crate::change::{Delete, Update};
use crate::expr::is_of;
use crate::insert::Insert;
use crate::pace::end_of;
use crate::read::CompiledRead;
use crate::result_rows::ResultRows;
use crate::scratch::ProgramScratch;

/// A compiled program. It is made once for the definitions of one catalog, and any thread may run it at any time.
#[derive(Debug)]
pub struct Compiled {
    /// The version of that catalog.
    version: u64,
    tables: Box<[Arc<TableDef>]>,
    parameters: Box<[SqlType]>,
    output: Arc<[SqlType]>,
    body: CompiledBody,
}

#[derive(Debug)]
enum CompiledBody {
    Read(CompiledRead),
    Insert(Insert),
    Update(Update),
    Delete(Delete),
}

/// The end of a run that has not failed.
#[derive(Debug)]
#[must_use]
pub enum RunEnd {
    /// The program has changed this many rows. If it is a read, it has found this many.
    Done(u64),
    /// There are more rows than a program may hold. It has changed nothing, so the caller should run the statement with
    /// the general engine. A caller without one can report this error.
    GivenUp(Error),
}

impl RunEnd {
    /// The number of rows, or the error of a program that has given up.
    pub fn rows(self) -> Result<u64> {
        match self {
            RunEnd::Done(rows) => Ok(rows),
            RunEnd::GivenUp(error) => Err(error),
        }
    }
}

impl Compiled {
    /// Compiles the program for the definitions of `catalog`.
    ///
    /// Returns `Unsupported` if a program cannot run the statement; the general engine can and gives the same result.
    /// Returns `UndefinedTable` or `UndefinedObject` if a table or an index no longer exists, and `WrongObject` if the
    /// program reads a table without keys.
    pub fn new(program: &Program, catalog: &Catalog) -> Result<Compiled> {
        let parameters = &program.parameters;
        let mut tables = Vec::new();
        let mut table = |id: TableId| {
            let def = catalog.table_by_id(id).ok_or_else(gone)?;
            tables.push(Arc::clone(def));
            Ok::<(), Error>(())
        };
        let body = match &program.body {
            program::Body::Read(read) => {
                read.tables().into_iter().try_for_each(&mut table)?;
                CompiledBody::Read(CompiledRead::new(read, catalog, parameters)?)
            }
            program::Body::Insert(insert) => {
                table(insert.table)?;
                insert.source.iter().flat_map(program::ReadPlan::tables).try_for_each(&mut table)?;
                CompiledBody::Insert(Insert::new(insert, catalog, parameters)?)
            }
            program::Body::Update(update) => {
                update.target.tables().into_iter().try_for_each(&mut table)?;
                CompiledBody::Update(Update::new(update, catalog, parameters)?)
            }
            program::Body::Delete(delete) => {
                delete.target.tables().into_iter().try_for_each(&mut table)?;
                CompiledBody::Delete(Delete::new(delete, catalog, parameters)?)
            }
        };
        Ok(Compiled {
            version: catalog.version(),
            tables: tables.into(),
            parameters: parameters.as_slice().into(),
            output: program.body.output().into(),
            body,
        })
    }

    /// Whether the program may still run with `catalog`: the definitions of all its tables must be unchanged.
    /// Otherwise the caller should compile the program again.
    pub fn is_valid_for(&self, catalog: &Catalog) -> bool {
        let is_same = |def: &Arc<TableDef>| catalog.table_by_id(def.id).is_some_and(|now| Arc::ptr_eq(now, def));
        // An unchanged catalog is the usual case. Otherwise only our own tables matter.
        self.version == catalog.version() || self.tables.iter().all(is_same)
    }

    /// The types of the parameters that the caller must pass.
    pub fn parameters(&self) -> &[SqlType] {
        &self.parameters
    }

    /// The types of the columns of its result.
    pub fn output(&self) -> &Arc<[SqlType]> {
        &self.output
    }

    /// Whether the program changes nothing, so [`Compiled::run_read`] can run it.
    pub fn is_read(&self) -> bool {
        matches!(&self.body, CompiledBody::Read(read) if !read.for_update)
    }

    /// Whether the program only appends rows to a columnar table.
    pub fn is_append(&self) -> bool {
        matches!(&self.body, CompiledBody::Insert(insert) if insert.is_append())
    }

    /// Runs a read with the data that `reader` sees and sets `out` to its rows. `parameters` must have the types of
    /// [`Compiled::parameters`], in that order. Any `scratch` will do, but only one run may use it at a time.
    ///
    /// Returns the errors of the expressions, `Cancelled`, or `Deadline`. Returns `ReadOnly` if the program changes
    /// rows or reads `FOR UPDATE`.
    pub fn run_read(
        &self,
        reader: &KeyedReader<'_>,
        parameters: &[ValueRef<'_>],
        scratch: &mut ProgramScratch,
        out: &mut ResultRows,
    ) -> Result<RunEnd> {
        self.start(parameters, out)?;
        match &self.body {
            CompiledBody::Read(read) if !read.for_update => {
                let run = read.run(reader, parameters, &mut scratch.read, &scratch.cancel, out);
                end_of(run.map(|()| out.len() as u64))
            }
            _ => Err(Error::new(ErrorKind::ReadOnly, "the statement changes or locks rows and must not run as a read")),
        }
    }

    /// Runs any program in a transaction. The statement sees the earlier writes of the transaction, but not its own.
    /// Sets `out` to the rows that it gives. Returns the number of rows that it changed, or, for a read, the number of
    /// its rows.
    ///
    /// Returns the errors of the expressions and of the table: `UniqueViolation`, `NotNullViolation`, `CheckViolation`,
    /// `StringTooLong`, `NumericOutOfRange` and `KeyTooLong`. Returns `SerializationFailure` if the definitions that
    /// the transaction sees are not those that the program was compiled for. `Cancelled` and `Deadline` are returned as
    /// by [`Compiled::run_read`]. A statement that fails or gives up leaves the transaction unchanged.
    pub fn run_write(
        &self,
        transaction: &mut Transaction,
        parameters: &[ValueRef<'_>],
        scratch: &mut ProgramScratch,
        out: &mut ResultRows,
    ) -> Result<RunEnd> {
        self.start(parameters, out)?;
        end_of(match &self.body {
            CompiledBody::Read(read) => {
                let run = read.run(&transaction.reader(), parameters, &mut scratch.read, &scratch.cancel, out);
                run.map(|()| {
                    // FOR UPDATE takes no locks: commit checks that no other transaction has written these keys.
                    scratch.read.keys.iter().for_each(|key| transaction.validate_read(key));
                    out.len() as u64
                })
            }
            CompiledBody::Insert(insert) => insert.run(transaction, parameters, scratch, out),
            CompiledBody::Update(update) => update.run(transaction, parameters, scratch, out),
            CompiledBody::Delete(delete) => delete.run(transaction, parameters, scratch, out),
        })
    }

    /// Runs an INSERT of one row into a keyed table once for each row of `batches`, as one statement. A batch has one
    /// column for each parameter, which must have its type, and a number of rows. Otherwise like
    /// [`Compiled::run_write`].
    pub fn run_for_rows(
        &self,
        transaction: &mut Transaction,
        batches: &[(Vec<ColumnValues>, usize)],
        scratch: &mut ProgramScratch,
        out: &mut ResultRows,
    ) -> Result<u64> {
        out.start(&self.output);
        match &self.body {
            CompiledBody::Insert(insert) => insert.run_for_rows(transaction, batches, scratch, out),
            _ => Err(Error::internal("only an INSERT runs for rows")),
        }
    }

    fn start(&self, parameters: &[ValueRef<'_>], out: &mut ResultRows) -> Result<()> {
        out.start(&self.output);
        if parameters.len() != self.parameters.len() {
            let (wanted, given) = (self.parameters.len(), parameters.len());
            let what = format!("the statement takes {wanted} parameters, but {given} values were given");
            return Err(Error::new(ErrorKind::CardinalityViolation, what));
        }
        for (number, (value, kind)) in parameters.iter().zip(&self.parameters).enumerate() {
            if !is_of(*value, kind) {
                let what = format!("parameter ${} is {value:?}, but must be of the type {kind}", number + 1);
                return Err(Error::new(ErrorKind::DatatypeMismatch, what));
            }
        }
        Ok(())
    }
}

/// The types of the columns of a table.
pub(crate) fn column_kinds(catalog: &Catalog, table: TableId) -> Result<Vec<SqlType>> {
    let def = catalog.table_by_id(table).ok_or_else(gone)?;
    Ok(def.columns.iter().map(|column| column.kind.clone()).collect())
}

/// The error for a table that was dropped.
#[cold]
pub(crate) fn gone() -> Error {
    Error::new(ErrorKind::UndefinedTable, "the table is gone")
}
