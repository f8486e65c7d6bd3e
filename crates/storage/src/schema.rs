//! Definitions of tables: what the catalog stores and what every reader of a block needs.

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema, SchemaRef};
use std::sync::Arc;

use rowmill_base::{ColumnId, IndexId, SchemaId, SqlType, TableId};

/// A table as one snapshot sees it.
#[derive(Clone, Debug)]
pub struct TableDef {
    /// Never reused.
    pub id: TableId,
    /// The schema (namespace) it lives in.
    pub schema: SchemaId,
    /// The name as spelled; looked up without case.
    pub name: String,
    /// Counts the changes of this definition; a write made under another version is refused at commit.
    pub version: u32,
    /// The columns in the order of `SELECT *`.
    pub columns: Vec<ColumnDef>,
    /// The id of the next column to be added.
    pub next_column: ColumnId,
    /// How its rows are found by key; without, the table is columnar.
    pub keyed: Option<Arc<KeyedDef>>,
}

/// The keys of a table whose rows lie under them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedDef {
    /// Of the rows, by primary key. Never reused.
    pub index: IndexId,
    /// The columns of the primary key in its order, all of them NOT NULL.
    pub key: Vec<KeyColumn>,
    /// The columns outside of the primary key in the order in which they were added, with those that were dropped: what
    /// the bytes of a row are read by.
    pub stored: Vec<(ColumnId, SqlType)>,
    /// The secondary indexes.
    pub indexes: Vec<IndexDef>,
    /// What every row has to meet.
    pub checks: Vec<CheckDef>,
    /// Whose rows its own refer to.
    pub foreign_keys: Vec<ForeignKeyDef>,
    /// Whose foreign keys refer to its rows.
    pub referrers: Vec<Referrer>,
    /// Columns that get the next value of a sequence of their own.
    pub identities: Vec<IdentityDef>,
    /// What it counts, if it is a sequence: its one row has the last value.
    pub sequence: Option<SequenceDef>,
}

/// A `CHECK` constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckDef {
    /// The name as spelled.
    pub name: String,
    /// The condition as SQL text, over the table's columns. A row for which it is false is refused.
    pub sql: String,
}

/// A `FOREIGN KEY`: each row has a parent with the same values, unless one of its own is NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKeyDef {
    /// The name as spelled.
    pub name: String,
    /// Columns of the table that has it.
    pub columns: Vec<ColumnId>,
    /// The table of the parents, which may be the same.
    pub parent: TableId,
    /// Its columns in the same order: those of its primary key or of a unique index.
    pub parent_columns: Vec<ColumnId>,
    /// What becomes of rows whose parent is deleted.
    pub on_delete: ReferentialAction,
    /// What becomes of rows whose parent gets other values.
    pub on_update: ReferentialAction,
}

/// What a change of a parent does to the rows that refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferentialAction {
    /// They forbid it.
    Restrict,
    /// They are changed, or deleted, with it.
    Cascade,
    /// They refer to none from then on.
    SetNull,
}

/// A table whose foreign keys refer to another one, which has this in its definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referrer {
    /// The table that has the foreign keys.
    pub table: TableId,
    /// The columns of the other one that they refer to.
    pub columns: Vec<ColumnId>,
}

/// A column that gets the next value of a sequence where none is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentityDef {
    /// Which column.
    pub column: ColumnId,
    /// The sequence, which is dropped with the column.
    pub sequence: TableId,
    /// Whether no other value can be given.
    pub always: bool,
}

/// How a sequence counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceDef {
    /// The first value.
    pub start: i64,
    /// What is added to a value for the next; not 0.
    pub increment: i64,
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
    /// Whether it begins anew at its end.
    pub cycle: bool,
}

impl SequenceDef {
    /// The value behind `last`, or the first one. `None` at the end.
    pub fn value_after(&self, last: Option<i64>) -> Option<i64> {
        let Some(last) = last else { return Some(self.start) };
        let next = last.checked_add(self.increment).filter(|next| (self.min..=self.max).contains(next));
        let again = if self.increment > 0 { self.min } else { self.max };
        next.or(self.cycle.then_some(again))
    }

    /// How many values there are from `first` on before the end, at most `most`.
    pub fn values_from(&self, first: i64, most: u64) -> u64 {
        let room = if self.increment > 0 { self.max.abs_diff(first) } else { first.abs_diff(self.min) };
        (room / self.increment.unsigned_abs()).saturating_add(1).min(most)
    }
}

impl KeyedDef {
    /// All keys of the table: those of its rows and of each index.
    pub fn index_ids(&self) -> impl Iterator<Item = IndexId> + '_ {
        std::iter::once(self.index).chain(self.indexes.iter().map(|index| index.id))
    }

    /// Whether a condition or a foreign key is called `name`, in whatever case.
    pub fn has_constraint(&self, name: &str) -> bool {
        let checks = self.checks.iter().map(|check| &check.name);
        let mut names = checks.chain(self.foreign_keys.iter().map(|key| &key.name));
        names.any(|other| other.to_lowercase() == name.to_lowercase())
    }

    /// Whether the primary key or an index needs the column.
    pub fn has_key_of(&self, column: ColumnId) -> bool {
        let parts = self.indexes.iter().flat_map(|index| &index.parts);
        self.key.iter().chain(parts).any(|part| part.column == column)
    }
}

/// A column of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// Which column.
    pub column: ColumnId,
    /// Whether greater values come first, and NULL before them.
    pub descending: bool,
}

/// A secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDef {
    /// Never reused.
    pub id: IndexId,
    /// The name as spelled; looked up without case.
    pub name: String,
    /// Its columns in order.
    pub parts: Vec<KeyColumn>,
    /// Whether no two rows have the same values in all its columns, NULL being no value.
    pub unique: bool,
    /// Whether long keys are shortened; those of indexes that older versions have made are refused.
    pub shortens: bool,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct ColumnDef {
    /// Never reused within the table.
    pub id: ColumnId,
    /// The name as spelled; looked up without case.
    pub name: String,
    /// The type of its values.
    pub kind: SqlType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// The expression behind `DEFAULT`, as SQL text.
    pub default: Option<String>,
    /// The value (one row) of rows that are older than the column; without one they read as NULL.
    pub missing: Option<ArrayRef>,
}

/// A column to be added: a [`ColumnDef`] that has no id yet.
#[derive(Clone, Debug)]
pub struct ColumnSpec {
    /// The name as spelled.
    pub name: String,
    /// The type of its values.
    pub kind: SqlType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// The expression behind `DEFAULT`, as SQL text.
    pub default: Option<String>,
    /// The value (one row) of rows that are older than the column.
    pub missing: Option<ArrayRef>,
}

impl ColumnSpec {
    /// A nullable column without a default.
    pub fn new(name: impl Into<String>, kind: SqlType) -> Self {
        ColumnSpec { name: name.into(), kind, nullable: true, default: None, missing: None }
    }
}

impl ColumnDef {
    /// The column of `spec` under its new id.
    pub fn from_spec(id: ColumnId, spec: ColumnSpec) -> Self {
        let ColumnSpec { name, kind, nullable, default, missing } = spec;
        ColumnDef { id, name, kind, nullable, default, missing }
    }
}

impl TableDef {
    /// Whether it is a sequence.
    pub fn is_sequence(&self) -> bool {
        self.keyed.as_ref().is_some_and(|keyed| keyed.sequence.is_some())
    }

    /// The sequence that a column has its values from, if there is one.
    pub fn identity(&self, column: ColumnId) -> Option<&IdentityDef> {
        self.keyed.as_ref()?.identities.iter().find(|identity| identity.column == column)
    }

    /// The position of the column called `name`, compared without case.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        let name = name.to_lowercase();
        self.columns.iter().position(|column| column.name.to_lowercase() == name)
    }

    /// The position of the column with `id`.
    pub fn column_by_id(&self, id: ColumnId) -> Option<usize> {
        self.columns.iter().position(|column| column.id == id)
    }

    /// The Arrow schema of a batch that holds whole rows, with the names as spelled.
    pub fn arrow_schema(&self) -> SchemaRef {
        Arc::new(Schema::new(
            self.columns
                .iter()
                .map(|column| Field::new(&column.name, column.kind.arrow(), column.nullable))
                .collect::<Vec<_>>(),
        ))
    }
}
