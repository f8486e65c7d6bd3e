//! Memory of statements, kept from one to the next.

use rowmill_base::Cancel;
use rowmill_storage::keyed::{ByteRows, ValueRef};

use crate::access::AccessScratch;
use crate::insert::TakenScratch;
use crate::read::ReadScratch;
use crate::result_rows::ResultRows;
use crate::texts::Texts;

/// What running a program takes. Any program runs with any scratch; a connection has one.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) cancel: Cancel,
    pub(crate) read: ReadScratch,
    pub(crate) write: WriteScratch,
}

impl Scratch {
    /// The flag that ends the statements to come.
    pub fn set_cancel(&mut self, cancel: Cancel) {
        self.cancel = cancel;
    }
}

/// What changing rows takes.
#[derive(Debug, Default)]
pub(crate) struct WriteScratch {
    pub(crate) access: AccessScratch,
    /// Of rows that several lookups find.
    pub(crate) read: ReadScratch,
    /// Values that are assigned to those.
    pub(crate) assigned: ResultRows,
    /// Rows that are to be changed.
    pub(crate) keys: ByteRows,
    pub(crate) rows: ByteRows,
    /// The values of a row before and after.
    pub(crate) before: Vec<ValueRef<'static>>,
    pub(crate) after: Vec<ValueRef<'static>>,
    /// Bytes of values that a key has otherwise.
    pub(crate) values: Vec<Vec<u8>>,
    pub(crate) texts: Texts,
    /// Of expressions over the row after the change.
    pub(crate) after_texts: Texts,
    /// Of an insert.
    pub(crate) taken: TakenScratch,
}
