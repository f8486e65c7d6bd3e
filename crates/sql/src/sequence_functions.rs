//! `nextval('name')`, `setval('name', value[, is_given])`, `currval('name')` and `lastval()`.
//!
//! A rollback does not give numbers of a sequence back, so two rows never get the same number.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use rowmill_base::{Error, ErrorKind, Result, SqlType, TableId};
use rowmill_plan::{DynamicFunction, Volatility};
use rowmill_txn::Engine;
use rowmill_txn::roles::{ObjectId, Rights};

use crate::catalog::StatementContext;

/// Returns the function `name` with this number of arguments and the type of its values, or `None` if it is neither of
/// these.
pub(crate) fn function(
    context: &Arc<StatementContext>,
    name: &str,
    arguments: usize,
) -> Option<(Arc<dyn DynamicFunction>, SqlType)> {
    let (name, runs) = match (name, arguments) {
        ("nextval", 1) => ("nextval", next as Runs),
        ("setval", 2 | 3) => ("setval", set as Runs),
        ("currval", 1) => ("currval", current as Runs),
        ("lastval", 0) => ("lastval", last as Runs),
        _ => return None,
    };
    let function = SequenceFunction { name, runs, context: Arc::clone(context) };
    Some((Arc::new(function), SqlType::Int64))
}

impl DynamicFunction for SequenceFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn volatility(&self) -> Volatility {
        Volatility::Volatile
    }

    fn evaluate(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let kinds = [DataType::Utf8, DataType::Int64, DataType::Boolean];
        let arguments = arguments.iter().zip(&kinds).map(|(values, kind)| cast(values, kind));
        let arguments = arguments
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Error::new(ErrorKind::UndefinedFunction, format!("{}: {error}", self.name)))?;
        Ok(Arc::new(Int64Array::from((self.runs)(self, &arguments, rows)?)))
    }
}

/// Computes a function for this number of rows of arguments.
type Runs = fn(&SequenceFunction, &[ArrayRef], usize) -> Result<Vec<i64>>;

#[derive(Debug)]
struct SequenceFunction {
    name: &'static str,
    runs: Runs,
    context: Arc<StatementContext>,
}

impl SequenceFunction {
    fn engine(&self) -> Result<Arc<Engine>> {
        self.context.engine.upgrade().ok_or_else(|| Error::internal("a statement of a database that is closed"))
    }

    /// Returns the sequence that a text names.
    fn sequence(&self, text: &str) -> Result<TableId> {
        let (schema, name) = self.context.relation_named(text);
        let catalog = self.context.snapshot.catalog();
        let found = catalog.schema(&schema).and_then(|schema| catalog.table(schema.id, &name));
        let Some(found) = found else {
            return Err(Error::new(ErrorKind::UndefinedTable, format!("there is no sequence \"{text}\"")));
        };
        let right = match self.name {
            "setval" => Rights::UPDATE,
            "currval" => Rights::SELECT,
            _ => Rights::USAGE,
        };
        let (access, object) = (self.context.access(), ObjectId::Table(found.id));
        if !access.may(Rights::UPDATE, object, None) {
            access.require(right, object, None)?;
        }
        if self.name == "currval" {
            return Ok(found.id);
        }
        if self.context.taken_numbers.is_recounted(found.id) {
            let what =
                format!("this transaction has changed sequence \"{text}\", but {} works outside of it", self.name);
            return Err(Error::new(ErrorKind::Unsupported, what).hint("COMMIT first"));
        }
        // Sequences run outside of transactions, so the engine can only find one that is committed.
        let is_committed = self.engine()?.snapshot()?.catalog().table_by_id(found.id).is_some();
        if !is_committed {
            let what = format!("sequence \"{text}\" is new in this transaction, but {} works outside of it", self.name);
            return Err(Error::new(ErrorKind::Unsupported, what).hint("COMMIT first"));
        }
        Ok(found.id)
    }
}

fn next(function: &SequenceFunction, arguments: &[ArrayRef], rows: usize) -> Result<Vec<i64>> {
    let names = texts(&arguments[0], rows)?;
    let mut values = Vec::with_capacity(rows);
    while values.len() < rows {
        // Nearly always all rows name the same sequence, so we take a run of equal names with one call.
        let name = names[values.len()];
        let same = names[values.len()..].iter().take_while(|other| **other == name).count();
        // The values are taken at once and for good, whatever becomes of the transaction.
        let sequence = function.sequence(name)?;
        values.extend(function.engine()?.next_values(sequence, same)?);
        if let Some(last) = values.last() {
            function.context.taken_numbers.note(sequence, *last);
        }
    }
    Ok(values)
}

fn current(function: &SequenceFunction, arguments: &[ArrayRef], rows: usize) -> Result<Vec<i64>> {
    let names = texts(&arguments[0], rows)?;
    let of = |name: &&str| {
        let found = function.context.taken_numbers.last_of(function.sequence(name)?);
        found.ok_or_else(|| not_taken(&format!("from the sequence \"{name}\"")))
    };
    names.iter().map(of).collect()
}

fn last(function: &SequenceFunction, _arguments: &[ArrayRef], rows: usize) -> Result<Vec<i64>> {
    let last = function.context.taken_numbers.last();
    last.map(|last| vec![last; rows]).ok_or_else(|| not_taken("from a sequence"))
}

fn not_taken(whence: &str) -> Error {
    Error::new(ErrorKind::NoSequenceNumber, format!("this connection has not taken a number {whence} yet"))
        .hint("nextval('name') takes the next number, and so does an INSERT into a table with an identity column")
}

fn set(function: &SequenceFunction, arguments: &[ArrayRef], rows: usize) -> Result<Vec<i64>> {
    let names = texts(&arguments[0], rows)?;
    let numbers = arguments[1].as_primitive::<Int64Type>();
    let given = arguments.get(2).map(|given| given.as_boolean());
    (0..rows)
        .map(|row| {
            if arguments[1..].iter().any(|argument| argument.is_null(row)) {
                return Err(Error::new(ErrorKind::InvalidParameter, "setval of NULL"));
            }
            let is_given = given.is_none_or(|given| given.value(row));
            let sequence = function.sequence(names[row])?;
            function.engine()?.set_sequence(sequence, numbers.value(row), is_given)?;
            if is_given {
                function.context.taken_numbers.note(sequence, numbers.value(row));
            }
            Ok(numbers.value(row))
        })
        .collect()
}

fn texts(names: &ArrayRef, rows: usize) -> Result<Vec<&str>> {
    let names = names.as_string::<i32>();
    let name = |row| match names.is_valid(row) {
        true => Ok(names.value(row)),
        false => Err(Error::new(ErrorKind::InvalidParameter, "the name of a sequence is NULL")),
    };
    (0..rows).map(name).collect()
}
