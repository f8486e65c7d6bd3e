//! Statements that change rows.

use rowmill_base::{IndexId, TableId};

use super::{Access, NestedLookup, ProgramNames, ReadPlan, Scalar};

/// The rows of a keyed table that a statement changes. Each row is changed at most once.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeTarget {
    /// The table, and other sources of rows that decide which rows match.
    pub lookups: Vec<NestedLookup>,
    /// The number of the lookup that reads the table. It must be [`LookupKind::Inner`](super::LookupKind::Inner).
    pub row: usize,
    /// Only rows for which it is true are changed. It may refer to the columns of all lookups.
    pub filter: Option<Scalar>,
    /// Whether the lookups may give a row of the table more than once. A DELETE then removes it once. An UPDATE must
    /// fail, because it cannot choose between several new values.
    pub may_repeat: bool,
}

impl ChangeTarget {
    /// The rows of a single access.
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
/// Values are converted to the types of their columns as in an assignment. The table itself checks NOT NULL, lengths
/// and keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// The table, keyed or columnar.
    pub table: TableId,
    /// The rows, each with a value for every column of the table, including defaults. With a `source` there must be
    /// exactly one, over the columns of a row of the source, which is row 0.
    pub rows: Vec<Vec<Scalar>>,
    /// The query whose rows are inserted: `INSERT ... SELECT`. It must not see the rows that the statement inserts.
    /// Only for keyed tables.
    pub source: Option<ReadPlan>,
    /// Values that come from a sequence: the number of the row, the column, and the sequence. The row holds NULL in
    /// that column.
    pub sequences: Vec<(usize, usize, TableId)>,
    /// Generated columns and their values, over the columns of the new row that are not generated. The row holds
    /// NULL in these columns. They are computed again for a row that `on_conflict` changes. Only for keyed tables.
    pub generated: Vec<(usize, Scalar)>,
    /// The action if a key is taken; without it, a taken key is an error. Only for keyed tables.
    pub on_conflict: Option<OnConflict>,
    /// Conditions that must not be false, over the columns of the new row.
    pub checks: Vec<TableCheck>,
    /// `RETURNING`, over the columns of the new row.
    pub returning: Vec<Scalar>,
}

/// `ON CONFLICT`
#[derive(Clone, Debug, PartialEq)]
pub struct OnConflict {
    /// The key that is checked. A conflict with any other key is an error.
    pub target: ConflictTarget,
    /// The action.
    pub action: ConflictAction,
}

/// A key that another row may already have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConflictTarget {
    /// Any key of the table. Allowed only with `DO NOTHING`.
    Any,
    /// The primary key.
    PrimaryKey,
    /// A unique index.
    Index(IndexId),
}

impl ConflictTarget {
    /// The key's name for EXPLAIN.
    pub(crate) fn name(self, table: TableId, names: &dyn ProgramNames) -> String {
        match self {
            ConflictTarget::Any => "any key".to_owned(),
            ConflictTarget::PrimaryKey => names.key(table, None).0,
            ConflictTarget::Index(index) => names.key(table, Some(index)).0,
        }
    }
}

/// The action for a row whose key is taken.
#[derive(Clone, Debug, PartialEq)]
pub enum ConflictAction {
    /// The row is not inserted.
    Nothing,
    /// The existing row is changed. Row 0 is that row, row 1 the one that should be inserted (`excluded`).
    Update {
        /// Columns and their new values.
        assignments: Vec<(usize, Scalar)>,
        /// The row is changed only if this is true.
        filter: Option<Scalar>,
    },
}

/// A condition of a table, `CHECK (...)`.
#[derive(Clone, Debug, PartialEq)]
pub struct TableCheck {
    /// Its name, for the error.
    pub name: String,
    /// The condition, which must not be false, over the columns of the new row.
    pub condition: Scalar,
}

/// `UPDATE`
///
/// The statement does not see its own changes, because it finds all rows before it changes the first one.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The rows.
    pub target: ChangeTarget,
    /// Columns and their new values, over the columns of the lookups, which include those of the old row. The values
    /// are converted to the types of their columns as in an assignment.
    pub assignments: Vec<(usize, Scalar)>,
    /// Generated columns and their values, over the columns of the new row that are not generated.
    pub generated: Vec<(usize, Scalar)>,
    /// Conditions that must not be false, over the columns of the new row.
    pub checks: Vec<TableCheck>,
    /// `RETURNING`, over the columns of the new row.
    pub returning: Vec<Scalar>,
}

/// `DELETE`
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// The rows.
    pub target: ChangeTarget,
    /// `RETURNING`, over the columns of the deleted row.
    pub returning: Vec<Scalar>,
}
