//! Parts of columns: what documents have at one path, as a column of its own.
//!
//! The catalog has no such columns. The optimizer adds them at the end of a definition that a statement reads a table
//! with, where the statement asks for a path of documents. Blocks answer with the chunk of the part that they store
//! (`documents.rs`), and open runs read their documents.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::ArrayRef;
use parking_lot::Mutex;
use rowmill_base::{Reservation, Result, SqlType};

use crate::documents::{PartAnswer, PartType};
use crate::open_run::value_bytes;
use crate::schema::TableDef;
use crate::source::TableSource;

/// A column that is a part of another one, whose id it has.
#[derive(Clone, Debug)]
pub struct ColumnPart {
    /// The keys from the document inwards.
    pub keys: Vec<String>,
    /// Which of the values at the path.
    pub form: PartForm,
    /// Reads the part of documents that no block stores as parts.
    pub reader: Arc<dyn PartReader>,
}

impl ColumnPart {
    /// Whether both are the same part of the same documents.
    fn is_same(&self, other: &ColumnPart) -> bool {
        self.keys == other.keys && self.form == other.form
    }
}

/// Which of the values at a path are a part. The others are NULL there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartForm {
    /// Those of a type, in this type. For TEXT all values as `->>` gives them.
    Values(PartType),
    /// The text of those that are not of a type.
    Rest(PartType),
}

impl PartForm {
    /// The type of the column.
    pub fn sql(self) -> SqlType {
        match self {
            PartForm::Values(kind) => kind.sql(),
            PartForm::Rest(_) => SqlType::TEXT,
        }
    }
}

/// Reads a part of documents.
pub trait PartReader: Debug + Send + Sync {
    /// The value of each document, NULL if it has none.
    fn read(&self, documents: &ArrayRef) -> Result<ArrayRef>;
}

/// Most parts that a run keeps.
const KEPT_MAX: usize = 16;

/// The parts that were read from the documents of one run.
#[derive(Debug, Default)]
pub(crate) struct KeptParts(Mutex<Vec<KeptPart>>);

#[derive(Debug)]
struct KeptPart {
    part: ColumnPart,
    column: u32,
    values: ArrayRef,
    _memory: Reservation,
}

impl KeptParts {
    /// The part of `documents`, the values of column `column` of the run. Keeps it if memory allows it, and only for a
    /// run with an account, which is `memory`.
    pub(crate) fn values(
        &self,
        column: u32,
        part: &ColumnPart,
        documents: &ArrayRef,
        memory: Option<&Reservation>,
    ) -> Result<ArrayRef> {
        let is_it = |kept: &&KeptPart| kept.column == column && kept.part.is_same(part);
        if let Some(kept) = self.0.lock().iter().find(is_it) {
            return Ok(Arc::clone(&kept.values));
        }
        // Two threads may read the same part at the same time, which costs less than to wait with the lock held.
        let values = part.reader.read(documents)?;
        let Some(mut account) = memory.map(Reservation::another) else { return Ok(values) };
        let fits = account.grow(value_bytes(&values)).is_ok();
        let mut all = self.0.lock();
        if fits && all.len() < KEPT_MAX && !all.iter().any(|kept| is_it(&kept)) {
            all.push(KeptPart { part: part.clone(), column, values: Arc::clone(&values), _memory: account });
        }
        Ok(values)
    }
}

/// The parts that a plan reads of one table, and those that it would read if all blocks stored them. A plan for
/// another snapshot must be made again if that differs there.
#[derive(Debug)]
pub struct PlannedParts {
    /// The definition of the table, with a column for each part at its end.
    pub table: Arc<TableDef>,
    /// The paths that the statement asks for.
    pub wanted: Vec<WantedPart>,
}

/// A path of documents that a statement asks for.
#[derive(Clone, Debug)]
pub struct WantedPart {
    /// The position of the documents among the columns of the table.
    pub column: usize,
    /// The keys from the document inwards.
    pub keys: Vec<String>,
    /// The part, if the plan reads it.
    pub found: Option<FoundPart>,
}

/// What the blocks of a table store at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundPart {
    /// The type of the values.
    pub kind: PartType,
    /// Whether recent rows may have values of other types.
    pub has_rest: bool,
}

impl PlannedParts {
    /// Whether a plan over `rows` would read the same parts.
    pub fn still_hold(&self, rows: &dyn TableSource) -> bool {
        let is_same = |wanted: &WantedPart| {
            stored_part(rows, wanted.column, &wanted.keys).is_ok_and(|found| found == wanted.found)
        };
        self.wanted.iter().all(is_same)
    }
}

/// What the blocks store at the path of `keys` of the documents in column `column`. `None` if the documents must be
/// read for it: if a block does not store it, or if blocks store different types.
pub fn stored_part(rows: &dyn TableSource, column: usize, keys: &[String]) -> Result<Option<FoundPart>> {
    let table = rows.table();
    if rows.keyed().is_some() || rows.blocks().is_empty() {
        return Ok(None);
    }
    let mut found = None;
    for block in rows.blocks() {
        match (block.path_answer(table, column, keys)?, found) {
            // Rows that are older than the documents have the default, which a block does not store.
            (None, _) if table.columns[column].missing.is_some() => return Ok(None),
            (None | Some(PartAnswer::Missing), _) => {}
            (Some(PartAnswer::Stored(_, kind)), None) => found = Some(kind),
            (Some(PartAnswer::Stored(_, kind)), Some(known)) if known == kind => {}
            (Some(PartAnswer::Stored(..) | PartAnswer::Unknown), _) => return Ok(None),
        }
    }
    let kind = found.unwrap_or(PartType::Text);
    let has_rest = kind != PartType::Text && rows.runs().iter().any(|run| run.live_rows() > 0);
    Ok(Some(FoundPart { kind, has_rest }))
}
