//! Programs that are ready to run: tables found, columns placed, types looked at.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result, SqlType, TableId};
use rowmill_plan::program::{self, Program};
use rowmill_storage::TableDef;
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::keyed::Reader;
use rowmill_txn::{Catalog, Transaction};

use crate::change::{Delete, Update};
use crate::expr::is_of;
use crate::insert::Insert;
use crate::read::Read;
use crate::result_rows::ResultRows;
use crate::scratch::Scratch;

/// A program, made once for the definitions of one catalog and run as often as it is executed, by any thread.
#[derive(Debug)]
pub struct Compiled {
    /// Of the catalog that it was made for.
    version: u64,
    tables: Box<[Arc<TableDef>]>,
    parameters: Box<[SqlType]>,
    output: Arc<[SqlType]>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Read(Read),
    Insert(Insert),
    Update(Update),
    Delete(Delete),
}

impl Compiled {
    /// The program for the definitions of `catalog`.
    ///
    /// `Unsupported` of what is not compiled: the statement has to be run in another way, and gives the same there.
    /// `UndefinedTable` and `UndefinedObject` of tables and indexes that are gone, `WrongObject` of a table without keys
    /// that is read.
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
                Body::Read(Read::new(read, catalog, parameters)?)
            }
            program::Body::Insert(insert) => {
                table(insert.table)?;
                insert.source.iter().flat_map(program::Read::tables).try_for_each(&mut table)?;
                Body::Insert(Insert::new(insert, catalog, parameters)?)
            }
            program::Body::Update(update) => {
                update.target.tables().into_iter().try_for_each(&mut table)?;
                Body::Update(Update::new(update, catalog, parameters)?)
            }
            program::Body::Delete(delete) => {
                delete.target.tables().into_iter().try_for_each(&mut table)?;
                Body::Delete(Delete::new(delete, catalog, parameters)?)
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

    /// Whether it does with `catalog` what it does with the one that it was made for: its tables are defined as they were.
    pub fn is_valid_for(&self, catalog: &Catalog) -> bool {
        let is_same = |def: &Arc<TableDef>| catalog.table_by_id(def.id).is_some_and(|now| Arc::ptr_eq(now, def));
        self.version == catalog.version() || self.tables.iter().all(is_same)
    }

    /// The types of the values that it is executed with.
    pub fn parameters(&self) -> &[SqlType] {
        &self.parameters
    }

    /// The types of the columns that it gives.
    pub fn output(&self) -> &Arc<[SqlType]> {
        &self.output
    }

    /// Whether it changes nothing and is run by [`Compiled::run_read`].
    pub fn is_read(&self) -> bool {
        matches!(&self.body, Body::Read(read) if !read.for_update)
    }

    /// Sets `out` to the rows that a read gives of what `reader` sees. `parameters` are values of
    /// [`Compiled::parameters`] in that order. `scratch` is anybody's, one at a time.
    ///
    /// Errors are those of the expressions; `Cancelled` and `Deadline`; `Unsupported` of a read that holds many rows, which is to
    /// be run by the general engine; `ReadOnly` of a program that changes something, or reads `FOR UPDATE`.
    pub fn run_read(
        &self,
        reader: &Reader<'_>,
        parameters: &[ValueRef<'_>],
        scratch: &mut Scratch,
        out: &mut ResultRows,
    ) -> Result<()> {
        self.start(parameters, out)?;
        match &self.body {
            Body::Read(read) if !read.for_update => {
                read.run(reader, parameters, &mut scratch.read, &scratch.cancel, out)
            }
            _ => Err(Error::new(ErrorKind::ReadOnly, "a statement that changes rows or locks them is run as a read")),
        }
    }

    /// Runs any program within a transaction, whose own writes it sees, but for those of the statement itself. Sets `out` to
    /// the rows that it gives; returns how many rows were changed, of a read how many it gives.
    ///
    /// Errors are those of the expressions and of the table: `UniqueViolation`, `NotNullViolation`, `CheckViolation`,
    /// `StringTooLong`, `NumericOutOfRange`, `KeyTooLong`; and `SerializationFailure` if the transaction has other definitions
    /// than the program was made for; `Cancelled`, `Deadline` and `Unsupported` as of reads. A statement that fails leaves the transaction as it was.
    pub fn run_write(
        &self,
        transaction: &mut Transaction,
        parameters: &[ValueRef<'_>],
        scratch: &mut Scratch,
        out: &mut ResultRows,
    ) -> Result<u64> {
        self.start(parameters, out)?;
        match &self.body {
            Body::Read(read) => {
                read.run(&transaction.reader(), parameters, &mut scratch.read, &scratch.cancel, out)?;
                scratch.read.keys.iter().for_each(|key| transaction.validate_read(key));
                Ok(out.len() as u64)
            }
            Body::Insert(insert) => insert.run(transaction, parameters, scratch, out),
            Body::Update(update) => update.run(transaction, parameters, scratch, out),
            Body::Delete(delete) => delete.run(transaction, parameters, scratch, out),
        }
    }

    fn start(&self, parameters: &[ValueRef<'_>], out: &mut ResultRows) -> Result<()> {
        out.start(&self.output);
        if parameters.len() != self.parameters.len() {
            let (wanted, given) = (self.parameters.len(), parameters.len());
            let what = format!("the statement takes {wanted} parameters, {given} were given");
            return Err(Error::new(ErrorKind::CardinalityViolation, what));
        }
        for (number, (value, kind)) in parameters.iter().zip(&self.parameters).enumerate() {
            if !is_of(*value, kind) {
                let what = format!("parameter ${} is {value:?}, and has to be of the type {kind}", number + 1);
                return Err(Error::new(ErrorKind::DatatypeMismatch, what));
            }
        }
        Ok(())
    }
}

/// The types of a table's columns.
pub(crate) fn column_kinds(catalog: &Catalog, table: TableId) -> Result<Vec<SqlType>> {
    let def = catalog.table_by_id(table).ok_or_else(gone)?;
    Ok(def.columns.iter().map(|column| column.kind.clone()).collect())
}

/// A table that was dropped.
#[cold]
pub(crate) fn gone() -> Error {
    Error::new(ErrorKind::UndefinedTable, "the table is gone")
}
