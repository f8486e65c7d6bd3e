//! Programs: prepared statements on keyed tables, as data. A program says which rows are read by which key, and how the
//! result is made of them.
//!
//! A program is made once from a bound statement. It can then run many times, with different parameter values and
//! without a planner. It has one of four shapes:
//!
//! ```text
//! Read      lookups within lookups  ->  filter  ->  rows in order | groups
//! Insert    rows of scalars  ->  generated columns  ->  action if a key is taken  ->  checks  ->  RETURNING
//! Update    lookups within lookups  ->  filter  ->  assignments  ->  generated columns  ->  checks  ->  RETURNING
//! Delete    lookups within lookups  ->  filter  ->  RETURNING
//! ```
//!
//! Tables and indexes are named by ids, columns by their positions in the table's definition. A program is therefore
//! valid only for the definitions that it was made for.

mod access;
mod change;
mod read;
mod scalar;
mod text;
mod window;

use rowmill_base::{SqlType, TableId};

pub use access::{Access, AccessBound, DistinctKeys, TextPrefix};
pub use change::{ChangeTarget, ConflictAction, ConflictTarget, Delete, Insert, OnConflict, TableCheck, Update};
pub use read::{
    FewRows, GroupOutput, LookupKind, LookupSource, NestedLookup, OutputOrder, ReadOutput, ReadPlan, Recursion,
    RowAggregate, RowFunction, RowOutput, sum_kind,
};
pub use scalar::{ArithmeticOp, RowColumn, Scalar, ScalarOp, ScalarValue, TextFunction};
pub use text::ProgramNames;
pub use window::{ColumnOrder, FrameEnd, RowFrame, WindowRows, WindowValue};

/// A statement as a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The types of the parameters, by number from 0. Any parameter may be NULL.
    pub parameters: Vec<SqlType>,
    /// The action.
    pub body: Body,
}

/// The action of a program.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one for a statement")]
pub enum Body {
    /// `SELECT`
    Read(ReadPlan),
    /// `INSERT`
    Insert(Insert),
    /// `UPDATE`
    Update(Update),
    /// `DELETE`
    Delete(Delete),
}

impl Body {
    /// Whether any part of it is a recursion.
    pub fn is_recursive(&self) -> bool {
        let of_target = |target: &ChangeTarget| {
            let sources = target.lookups.iter().flat_map(|lookup| lookup.source.reads());
            let is_recursion = |lookup: &NestedLookup| matches!(lookup.source, LookupSource::Recursion(_));
            target.lookups.iter().any(is_recursion) || sources.into_iter().any(ReadPlan::is_recursive)
        };
        match self {
            Body::Read(read) => read.is_recursive(),
            Body::Insert(insert) => insert.source.as_ref().is_some_and(ReadPlan::is_recursive),
            Body::Update(update) => of_target(&update.target),
            Body::Delete(delete) => of_target(&delete.target),
        }
    }

    /// The types of the columns of its result.
    pub fn output(&self) -> Vec<SqlType> {
        let scalars = match self {
            Body::Read(read) => return read.output(),
            Body::Insert(insert) => &insert.returning,
            Body::Update(update) => &update.returning,
            Body::Delete(delete) => &delete.returning,
        };
        scalars.iter().map(|scalar| scalar.kind.clone()).collect()
    }

    /// All tables that it reads or changes.
    pub fn tables(&self) -> Vec<TableId> {
        match self {
            Body::Read(read) => read.tables(),
            Body::Insert(insert) => vec![insert.table],
            Body::Update(update) => update.target.tables(),
            Body::Delete(delete) => delete.target.tables(),
        }
    }
}
