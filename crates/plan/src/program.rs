//! Programs: prepared statements on keyed tables, as what is read by which key and what is made of it.
//!
//! A program is made once of a bound statement and runs as often as it is executed, with values for its parameters and
//! without a planner. It has one of four shapes:
//!
//! ```text
//! Read      access, joined with further accesses  ->  filter  ->  rows in order | aggregates
//! Insert    rows of scalars  ->  what is done where a key is taken  ->  checks  ->  RETURNING
//! Update    access  ->  filter  ->  assignments  ->  checks  ->  RETURNING
//! Delete    access  ->  filter  ->  RETURNING
//! ```
//!
//! Tables and indexes are named by ids, columns by their positions in the table's definition: a program is for the
//! definitions that it was made of.

mod scalar;

use std::fmt;

use rowmill_base::{IndexId, SqlType, TableId};

use crate::aggregate_kinds;

pub use scalar::{ArithmeticOp, Column, Scalar, ScalarOp, TextFunction, Value};

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The types of the values that it is executed with, by number from 0; each of them may be NULL.
    pub parameters: Vec<SqlType>,
    /// What it does.
    pub body: Body,
}

/// What a program does.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// `SELECT`
    Read(Read),
    /// `INSERT`
    Insert(Insert),
    /// `UPDATE`
    Update(Update),
    /// `DELETE`
    Delete(Delete),
}

/// Rows of a keyed table by the primary key or by an index, in its order.
///
/// Scalars are compared with columns of a key as SQL compares them. One that is NULL, or that no value of the column's type
/// equals, finds nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The table.
    pub table: TableId,
    /// The index, or the primary key.
    pub index: Option<IndexId>,
    /// What the first columns of the key are equal to. A row, or none, if these are all columns of the primary key.
    pub equal: Vec<Scalar>,
    /// What the next column is at least, or more than: whichever way it is ordered.
    pub from: Option<Bound>,
    /// What the next column is at most, or less than.
    pub to: Option<Bound>,
    /// Against the order of the key.
    pub backward: bool,
}

/// An end of a range of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The value. Never a column of the row that is read.
    pub value: Scalar,
    /// Whether the value itself is in.
    pub inclusive: bool,
}

/// `SELECT`
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The rows of the first table. Their scalars have no columns.
    pub access: Access,
    /// For each row of the tables before the rows of one more, in this order.
    pub joins: Vec<NestedLookup>,
    /// Rows pass for which it is true.
    pub filter: Option<Scalar>,
    /// What is given of them.
    pub output: Output,
    /// `FOR UPDATE`: whoever has written a row that was given, before this transaction commits, has this one fail.
    pub for_update: bool,
}

/// One more table beside those before it.
#[derive(Clone, Debug, PartialEq)]
pub struct NestedLookup {
    /// Whether rows without a match are kept.
    pub kind: LookupKind,
    /// The rows that match, by scalars over the columns of the tables before.
    pub access: Access,
    /// What else has to be true of a match, over the columns of the tables before and of this one.
    pub condition: Option<Scalar>,
}

/// Which rows a lookup gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupKind {
    /// Every match.
    Inner,
    /// Every match; and where there is none, NULL in all columns.
    Left,
}

/// What is given of the rows that were found.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Values of each.
    Rows(Rows),
    /// One row about all.
    Aggregates(Aggregates),
}

/// Values of each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// The values.
    pub columns: Vec<Scalar>,
    /// What they are ordered by; nothing if they are given as they are found.
    pub order: Vec<Order>,
    /// `OFFSET`: a BIGINT without columns, at least 0.
    pub skip: Option<Scalar>,
    /// `LIMIT`: a BIGINT without columns, at least 0; NULL is no limit.
    pub limit: Option<Scalar>,
}

/// What rows are ordered by.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The value.
    pub value: Scalar,
    /// `DESC`
    pub descending: bool,
    /// `NULLS FIRST`
    pub nulls_first: bool,
}

/// One row about all rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregates {
    /// What is computed.
    pub aggregates: Vec<RowAggregate>,
    /// The row: in these, column `n` of row 0 is the `n`th aggregate.
    pub columns: Vec<Scalar>,
}

/// What is computed of all rows.
#[derive(Clone, Debug, PartialEq)]
pub struct RowAggregate {
    /// How.
    pub function: RowFunction,
    /// Of what; NULLs are left out.
    pub argument: Scalar,
}

/// How rows are aggregated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowFunction {
    /// `COUNT(*)`, whatever the argument: a BIGINT.
    CountRows,
    /// `COUNT(x)`: a BIGINT.
    Count,
    /// `COUNT(DISTINCT x)`: a BIGINT.
    CountDistinct,
    /// `SUM(x)`, exact: a BIGINT of integers up to 32 bits, `DECIMAL(38, 0)` of longer ones, `DECIMAL(38, s)` of a
    /// `DECIMAL(p, s)`, a DOUBLE of a REAL or DOUBLE.
    Sum,
    /// `AVG(x)`: the DOUBLE nearest to total over count.
    Average,
    /// `MIN(x)`
    Min,
    /// `MAX(x)`
    Max,
}

impl RowAggregate {
    /// The type of the result; `None` if the function does not take such an argument.
    pub fn kind(&self) -> Option<SqlType> {
        let argument = &self.argument.kind;
        match self.function {
            RowFunction::CountRows | RowFunction::Count => Some(SqlType::Int64),
            RowFunction::CountDistinct => argument.is_ordered().then_some(SqlType::Int64),
            RowFunction::Min | RowFunction::Max => argument.is_ordered().then(|| argument.clone()),
            RowFunction::Sum => sum_kind(argument),
            RowFunction::Average => sum_kind(argument).map(|_| SqlType::Float64),
        }
    }
}

/// The type of the exact total of values of a type; `None` if they are not added.
pub fn sum_kind(argument: &SqlType) -> Option<SqlType> {
    aggregate_kinds::total_kind(&argument.arrow()).as_ref().and_then(SqlType::from_arrow)
}

/// `INSERT`
///
/// Values become values of their columns as an assignment makes them. NOT NULL, lengths and keys are checked by the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// The table, keyed or columnar.
    pub table: TableId,
    /// The rows, each with a value for every column of the table, defaults included.
    pub rows: Vec<Vec<Scalar>>,
    /// Values that are those of a sequence: of which row, which column, and the sequence. NULL stands in their place.
    pub sequences: Vec<(usize, usize, TableId)>,
    /// What is done where a key is taken; without, that is an error. Only of a keyed table.
    pub on_conflict: Option<OnConflict>,
    /// What must not be false, over the columns of the new row.
    pub checks: Vec<Check>,
    /// `RETURNING`, over the columns of the new row.
    pub returning: Vec<Scalar>,
}

/// `ON CONFLICT`
#[derive(Clone, Debug, PartialEq)]
pub struct OnConflict {
    /// Which key is looked at. One that is taken elsewhere is an error.
    pub target: ConflictTarget,
    /// What is done.
    pub action: ConflictAction,
}

/// A key that may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConflictTarget {
    /// Any of the table: only with `DO NOTHING`.
    Any,
    /// The primary key.
    PrimaryKey,
    /// A unique index.
    Index(IndexId),
}

/// What is done with a row whose key is taken.
#[derive(Clone, Debug, PartialEq)]
pub enum ConflictAction {
    /// Nothing.
    Nothing,
    /// The row that has the key is changed. Row 0 is that row, row 1 the one that was to be inserted (`excluded`).
    Update {
        /// Columns and their new values.
        assignments: Vec<(usize, Scalar)>,
        /// The row is changed only if this is true.
        filter: Option<Scalar>,
    },
}

/// A condition of a table, `CHECK (...)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Its name, for the error.
    pub name: String,
    /// What must not be false, over the columns of the new row.
    pub condition: Scalar,
}

/// `UPDATE`
///
/// The statement does not see its own changes: all rows are found before the first is changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The rows.
    pub access: Access,
    /// Those of them for which it is true.
    pub filter: Option<Scalar>,
    /// Columns and their new values, over the columns of the row before. They are assigned, as those of [`Insert`] are.
    pub assignments: Vec<(usize, Scalar)>,
    /// What must not be false, over the columns of the row after.
    pub checks: Vec<Check>,
    /// `RETURNING`, over the columns of the row after.
    pub returning: Vec<Scalar>,
}

/// `DELETE`
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// The rows.
    pub access: Access,
    /// Those of them for which it is true.
    pub filter: Option<Scalar>,
    /// `RETURNING`, over the columns of the row that is gone.
    pub returning: Vec<Scalar>,
}

impl Body {
    /// The types of the values that it gives.
    pub fn output(&self) -> Vec<SqlType> {
        let scalars = match self {
            Body::Read(Read { output: Output::Rows(rows), .. }) => &rows.columns,
            Body::Read(Read { output: Output::Aggregates(all), .. }) => &all.columns,
            Body::Insert(insert) => &insert.returning,
            Body::Update(update) => &update.returning,
            Body::Delete(delete) => &delete.returning,
        };
        scalars.iter().map(|scalar| scalar.kind.clone()).collect()
    }
}

impl fmt::Display for RowFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RowFunction::CountRows | RowFunction::Count | RowFunction::CountDistinct => "count",
            RowFunction::Sum => "sum",
            RowFunction::Average => "avg",
            RowFunction::Min => "min",
            RowFunction::Max => "max",
        })
    }
}
