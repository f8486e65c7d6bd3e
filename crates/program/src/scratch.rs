//! The memory of running statements, kept from one statement to the next.

use rowmill_base::Cancel;
use rowmill_storage::keyed::{ByteRows, ValueRef};

use crate::access::AccessScratch;
use crate::insert::TakenScratch;
use crate::read::ReadScratch;
use crate::result_rows::ResultRows;
use crate::texts::ComputedTexts;

/// All memory that running a program needs. Any program can run with any scratch; a connection should keep one.
#[derive(Debug, Default)]
pub struct ProgramScratch {
    pub(crate) cancel: Cancel,
    pub(crate) read: ReadScratch,
    pub(crate) write: WriteScratch,
}

impl ProgramScratch {
    /// Sets the flag that cancels the statements that run after this call.
    pub fn set_cancel(&mut self, cancel: Cancel) {
        self.cancel = cancel;
    }
}

/// Memory that changing rows needs.
#[derive(Debug, Default)]
pub(crate) struct WriteScratch {
    pub(crate) access: AccessScratch,
    /// For targets that are found by several lookups.
    pub(crate) read: ReadScratch,
    /// The values that are assigned to the rows of such targets.
    pub(crate) assigned: ResultRows,
    /// The keys and the rows that the statement changes.
    pub(crate) keys: ByteRows,
    pub(crate) rows: ByteRows,
    /// The values of a row before and after its change.
    pub(crate) before: Vec<ValueRef<'static>>,
    pub(crate) after: Vec<ValueRef<'static>>,
    /// The values of a row after its change, with those of its generated columns.
    pub(crate) whole: Vec<ValueRef<'static>>,
    /// Buffers for values that a key stores in another form.
    pub(crate) values: Vec<Vec<u8>>,
    pub(crate) texts: ComputedTexts,
    /// Texts of generated columns.
    pub(crate) generated_texts: ComputedTexts,
    /// Texts of expressions over the changed row.
    pub(crate) after_texts: ComputedTexts,
    /// For the search of `INSERT ... ON CONFLICT`.
    pub(crate) taken: TakenScratch,
}
