//! Statements that change rows.

use rowmill_base::{IndexId, TableId};

use super::{Access, NestedLookup, Read, Scalar};

/// The rows of a keyed table that a statement changes: each at most once.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeTarget {
    /// The table, and what else decides.
    pub lookups: Vec<NestedLookup>,
    /// Which of the lookups is the table: one of the kind [`LookupKind::Inner`](super::LookupKind::Inner).
    pub row: usize,
    /// Rows are changed for which it is true, over the columns of all lookups.
    pub filter: Option<Scalar>,
    /// Whether the lookups may give a row of the table more than once. A DELETE removes it once; an UPDATE fails, because
    /// no one of its new values is the right one.
    pub may_repeat: bool,
}

impl ChangeTarget {
    /// The rows of one access.
    pub fn new(access: Access, filter: Option<Scalar>) -> ChangeTarget {
        ChangeTarget { lookups: vec![NestedLookup::inner(access, None)], row: 0, filter, may_repeat: false }
    }

    /// The tables that are read to find the rows.
    pub fn tables(&self) -> Vec<TableId> {
        self.lookups.iter().flat_map(NestedLookup::tables).collect()
    }
}

/// `INSERT`
///
/// Values become values of their columns as an assignment makes them. NOT NULL, lengths and keys are checked by the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// The table, keyed or columnar.
    pub table: TableId,
    /// The rows, each with a value for every column of the table, defaults included. With a `source` there is one, over
    /// the columns of a row of the source, which is row 0.
    pub rows: Vec<Vec<Scalar>>,
    /// The query whose rows are inserted: `INSERT ... SELECT`. It sees nothing of what the statement inserts. Only of a
    /// keyed table.
    pub source: Option<Read>,
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
    pub target: ChangeTarget,
    /// Columns and their new values, over the columns of the lookups, among them those of the row before the change. They
    /// are assigned, as those of [`Insert`] are.
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
    pub target: ChangeTarget,
    /// `RETURNING`, over the columns of the row that is gone.
    pub returning: Vec<Scalar>,
}
