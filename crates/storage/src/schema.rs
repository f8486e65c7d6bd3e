//! Definitions of tables: the catalog stores them, and every reader of a block needs them.

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema, SchemaRef};
use std::sync::Arc;

use rowmill_base::{ColumnId, IndexId, SchemaId, SqlType, TableId};

use crate::column_part::ColumnPart;
use crate::time_table::TimeTableDef;

/// A table as one snapshot sees it.
#[derive(Clone, Debug)]
pub struct TableDef {
    /// The id. Never reused.
    pub id: TableId,
    /// The schema (namespace) of the table.
    pub schema: SchemaId,
    /// The name as the user wrote it. Lookups ignore case.
    pub name: String,
    /// The version of this definition. A commit is refused if it wrote with another version.
    pub version: u32,
    /// The columns in the order of `SELECT *`.
    pub columns: Vec<ColumnDef>,
    /// The id that the next new column gets.
    pub next_column: ColumnId,
    /// The keys, if this is a keyed table. Without them, the table is columnar.
    pub keyed: Option<Arc<KeyedDef>>,
    /// The time column and its clauses, if this is a time table. A keyed table is never one.
    pub time: Option<Arc<TimeTableDef>>,
    /// The rules for the values of new rows, which both kinds of tables can have.
    pub rules: RowRules,
}

/// The rules for the values of the rows that a statement writes, and the indexes that are only listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowRules {
    /// The conditions that every row must meet.
    pub checks: Vec<CheckDef>,
    /// The columns that take their values from a sequence of their own.
    pub identities: Vec<IdentityDef>,
    /// The columns whose values are computed from the other columns of their row.
    pub generated: Vec<GeneratedDef>,
    /// The indexes that were asked for on a columnar table. They have no entries, because zone maps and value lists
    /// skip blocks as an index would. Tools that made them find them again, and they become indexes with entries when
    /// the table gets a primary key.
    pub listed_indexes: Vec<IndexDef>,
}

impl RowRules {
    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        let RowRules { checks, identities, generated, listed_indexes } = self;
        checks.is_empty() && identities.is_empty() && generated.is_empty() && listed_indexes.is_empty()
    }
}

/// The keys and constraints of a keyed table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedDef {
    /// The id of the primary key's index, which has the rows. Never reused.
    pub index: IndexId,
    /// The columns of the primary key in key order. All of them must be NOT NULL.
    pub key: Vec<KeyColumn>,
    /// The name of the primary key as the user wrote it. [`TableDef::primary_key_name`] has the name without one.
    pub key_name: Option<String>,
    /// The columns outside of the primary key, in the order in which they were added, including dropped ones. The bytes
    /// of a row are read by this list.
    pub stored: Vec<(ColumnId, SqlType)>,
    /// The secondary indexes.
    pub indexes: Vec<IndexDef>,
    /// The foreign keys of this table's rows.
    pub foreign_keys: Vec<ForeignKeyDef>,
    /// The tables whose foreign keys refer to this one.
    pub referrers: Vec<Referrer>,
    /// The definition of the sequence, if this table is one. Its one row has the last value.
    pub sequence: Option<SequenceDef>,
}

/// A `CHECK` constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckDef {
    /// The name as the user wrote it.
    pub name: String,
    /// The condition as SQL text over the table's columns. A row is refused if the condition is false.
    pub sql: String,
}

/// A `FOREIGN KEY`. Each row must have a parent row with the same values, unless one of its own values is NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKeyDef {
    /// The name as the user wrote it.
    pub name: String,
    /// The columns of the referring table.
    pub columns: Vec<ColumnId>,
    /// The table of the parent rows. It may be the same table.
    pub parent: TableId,
    /// The parent's columns in the same order. They must be a primary key or a unique index.
    pub parent_columns: Vec<ColumnId>,
    /// The action when a parent row is deleted.
    pub on_delete: ReferentialAction,
    /// The action when the values of a parent row change.
    pub on_update: ReferentialAction,
}

/// The effect of a change to a parent row on the rows that refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferentialAction {
    /// The change is refused.
    Restrict,
    /// The referring rows are changed or deleted too.
    Cascade,
    /// The referring columns become NULL.
    SetNull,
}

/// A table with foreign keys that refer to another table. The other table's definition has this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referrer {
    /// The referring table.
    pub table: TableId,
    /// The columns that it refers to.
    pub columns: Vec<ColumnId>,
}

/// A column that takes the next value of a sequence if an INSERT gives none, or that a sequence only belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentityDef {
    /// The id of the column.
    pub column: ColumnId,
    /// The sequence, which is dropped together with the column.
    pub sequence: TableId,
    /// Whether an INSERT must not give another value (`GENERATED ALWAYS`).
    pub always: bool,
    /// Whether the column takes the values of the sequence. If not, the sequence is only `OWNED BY` the column.
    pub fills: bool,
}

/// A generated column: `GENERATED ALWAYS AS (expression)`. Every statement that writes a row computes and stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedDef {
    /// The id of the column.
    pub column: ColumnId,
    /// The expression as SQL text over the other columns of the table. It reads no generated column.
    pub sql: String,
}

/// The parameters of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceDef {
    /// The first value.
    pub start: i64,
    /// The distance from one value to the next. Must not be 0.
    pub increment: i64,
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
    /// Whether the sequence starts over after its last value.
    pub cycle: bool,
}

impl SequenceDef {
    /// The value after `last`, or the first value without `last`. `None` at the end of the sequence.
    pub fn value_after(&self, last: Option<i64>) -> Option<i64> {
        let Some(last) = last else { return Some(self.start) };
        let next = last.checked_add(self.increment).filter(|next| (self.min..=self.max).contains(next));
        // A cycling sequence continues at its other end, not at `start`.
        let again = if self.increment > 0 { self.min } else { self.max };
        next.or(self.cycle.then_some(again))
    }

    /// The number of values from `first` to the end of the sequence, at most `most`.
    pub fn values_from(&self, first: i64, most: u64) -> u64 {
        let room = if self.increment > 0 { self.max.abs_diff(first) } else { first.abs_diff(self.min) };
        (room / self.increment.unsigned_abs()).saturating_add(1).min(most)
    }
}

impl KeyedDef {
    /// A primary key of a table with these columns, without other keys.
    pub fn of_columns(index: IndexId, key: &[KeyColumn], columns: &[ColumnDef]) -> KeyedDef {
        let is_key = |column: &&ColumnDef| key.iter().any(|part| part.column == column.id);
        let stored = columns.iter().filter(|column| !is_key(column));
        KeyedDef {
            index,
            key: key.to_vec(),
            key_name: None,
            stored: stored.map(|column| (column.id, column.kind.clone())).collect(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            referrers: Vec::new(),
            sequence: None,
        }
    }

    /// The ids of all keys of the table: the primary key's and those of its indexes.
    pub fn index_ids(&self) -> impl Iterator<Item = IndexId> + '_ {
        std::iter::once(self.index).chain(self.indexes.iter().map(|index| index.id))
    }

    /// Whether the column is part of the primary key or of an index.
    pub fn has_key_of(&self, column: ColumnId) -> bool {
        let parts = self.indexes.iter().flat_map(|index| &index.parts);
        self.key.iter().chain(parts).any(|part| part.column == column)
    }
}

/// A column of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// The id of the column.
    pub column: ColumnId,
    /// Whether greater values come first, and NULL before them.
    pub descending: bool,
}

/// A secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDef {
    /// The id. Never reused.
    pub id: IndexId,
    /// The name as the user wrote it. Lookups ignore case.
    pub name: String,
    /// The columns in key order.
    pub parts: Vec<KeyColumn>,
    /// Whether two rows must not have the same values in all columns. NULL equals no value.
    pub unique: bool,
    /// Whether a unique index was declared as a constraint of its table, and not made by `CREATE UNIQUE INDEX`.
    pub is_constraint: bool,
    /// Whether long keys are shortened. Indexes made by older versions do not shorten: they refuse long keys.
    pub shortens: bool,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct ColumnDef {
    /// The id. Never reused within the table.
    pub id: ColumnId,
    /// The name as the user wrote it. Lookups ignore case.
    pub name: String,
    /// The type of its values.
    pub kind: SqlType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// The expression of the `DEFAULT` clause, as SQL text.
    pub default: Option<String>,
    /// The value (one row) that rows older than the column have. Without it, they read as NULL.
    pub missing: Option<ArrayRef>,
    /// What this column is a part of. Only definitions that a statement reads with have such columns, at their end.
    pub part: Option<Arc<ColumnPart>>,
}

/// A column to be added: a [`ColumnDef`] without an id.
#[derive(Clone, Debug)]
pub struct ColumnSpec {
    /// The name as the user wrote it.
    pub name: String,
    /// The type of its values.
    pub kind: SqlType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// The expression of the `DEFAULT` clause, as SQL text.
    pub default: Option<String>,
    /// The value (one row) that rows older than the column have.
    pub missing: Option<ArrayRef>,
}

impl ColumnSpec {
    /// A nullable column without a default.
    pub fn new(name: impl Into<String>, kind: SqlType) -> Self {
        ColumnSpec { name: name.into(), kind, nullable: true, default: None, missing: None }
    }
}

impl ColumnDef {
    /// Makes the column of `spec` with its new id.
    pub fn from_spec(id: ColumnId, spec: ColumnSpec) -> Self {
        let ColumnSpec { name, kind, nullable, default, missing } = spec;
        ColumnDef { id, name, kind, nullable, default, missing, part: None }
    }
}

impl TableDef {
    /// Whether the table is a sequence.
    pub fn is_sequence(&self) -> bool {
        self.keyed.as_ref().is_some_and(|keyed| keyed.sequence.is_some())
    }

    /// The position of the time column among the columns, if this is a time table.
    pub fn time_column(&self) -> Option<usize> {
        self.column_by_id(self.time.as_ref()?.column)
    }

    /// The part that a column has in the clauses of a time table, as messages name it. `None` if it has none.
    pub fn part_in_time_table(&self, column: ColumnId) -> Option<&'static str> {
        let time = self.time.as_ref()?;
        match column == time.column {
            true => Some("the time column"),
            false => time.dedup_keys.contains(&column).then_some("a key of DEDUP UPSERT KEYS"),
        }
    }

    /// Whether the primary key, a CHECK or a foreign key has the name `name`, ignoring case.
    pub fn has_constraint(&self, name: &str) -> bool {
        let checks = self.rules.checks.iter().map(|check| &check.name);
        let foreign = self.keyed.iter().flat_map(|keyed| &keyed.foreign_keys).map(|key| &key.name);
        let is_named = |other: &String| other.to_lowercase() == name.to_lowercase();
        checks.chain(foreign).chain(&self.primary_key_name()).any(is_named)
    }

    /// The name of the primary key: the one that the user wrote, or one that is made of the name of the table. `None`
    /// for a columnar table and for a sequence.
    pub fn primary_key_name(&self) -> Option<String> {
        let keyed = self.keyed.as_ref().filter(|keyed| keyed.sequence.is_none())?;
        Some(keyed.key_name.clone().unwrap_or_else(|| format!("{}_pkey", self.name)))
    }

    /// The indexes that have names of their own: those of a keyed table, and those that a columnar table only lists.
    pub fn named_indexes(&self) -> impl Iterator<Item = &IndexDef> {
        self.keyed.iter().flat_map(|keyed| &keyed.indexes).chain(&self.rules.listed_indexes)
    }

    /// The identity of a column that takes its values from a sequence.
    pub fn identity(&self, column: ColumnId) -> Option<&IdentityDef> {
        self.rules.identities.iter().find(|identity| identity.column == column && identity.fills)
    }

    /// The expression of a generated column, as SQL text.
    pub fn generated(&self, column: ColumnId) -> Option<&str> {
        self.rules.generated.iter().find(|generated| generated.column == column).map(|generated| &*generated.sql)
    }

    /// The index of the column named `name`, ignoring case.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        let name = name.to_lowercase();
        self.columns.iter().position(|column| column.name.to_lowercase() == name)
    }

    /// The index of the column with `id`.
    pub fn column_by_id(&self, id: ColumnId) -> Option<usize> {
        self.columns.iter().position(|column| column.id == id)
    }

    /// The Arrow schema of a batch of whole rows, with the names as the user wrote them.
    pub fn arrow_schema(&self) -> SchemaRef {
        Arc::new(Schema::new(
            self.columns
                .iter()
                .map(|column| Field::new(&column.name, column.kind.arrow(), column.nullable))
                .collect::<Vec<_>>(),
        ))
    }
}
