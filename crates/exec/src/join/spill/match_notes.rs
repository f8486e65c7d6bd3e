//! Notes on the probe rows of a bucket whose build rows are joined in pieces.
//!
//! A probe row is read once for each piece. A row without a match in one piece may have one in the next, so only the
//! last piece can tell which rows have none. The notes carry what earlier pieces found.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::UInt64Type;
use rowmill_base::{Reservation, Result};

use super::super::marks::Marks;

/// What the pieces so far found about each probe row.
#[derive(Debug)]
pub(super) struct MatchNotes {
    matched: Marks,
    uncertain: Marks,
    _memory: Reservation,
}

/// The notes, and the position of the piece that uses them.
#[derive(Clone, Debug)]
pub(in super::super) struct PieceNotes {
    pub(super) notes: Arc<MatchNotes>,
    /// Whether this is the last piece, which returns the rows that depend on all pieces.
    pub(in super::super) is_last: bool,
}

impl MatchNotes {
    /// Notes for `rows` rows.
    pub(super) fn new(rows: u64, mut memory: Reservation) -> Result<MatchNotes> {
        let matched = Marks::new(rows as usize, &mut memory)?;
        let uncertain = Marks::new(rows as usize, &mut memory)?;
        Ok(MatchNotes { matched, uncertain, _memory: memory })
    }
}

impl PieceNotes {
    /// Sets the flags of the rows with these numbers that earlier pieces set. Leaves `uncertain` as it is if no row is.
    pub(in super::super) fn read(&self, numbers: &ArrayRef, matched: &mut [bool], uncertain: &mut Vec<bool>) {
        let numbers = numbers.as_primitive::<UInt64Type>().values();
        for (matched, number) in matched.iter_mut().zip(numbers) {
            *matched |= self.notes.matched.is_set(*number);
        }
        if numbers.iter().any(|number| self.notes.uncertain.is_set(*number)) {
            uncertain.clear();
            uncertain.extend(numbers.iter().map(|number| self.notes.uncertain.is_set(*number)));
        }
    }

    /// Notes the flags of the rows with these numbers.
    pub(in super::super) fn write(&self, numbers: &ArrayRef, matched: &[bool], uncertain: &[bool]) {
        let numbers = numbers.as_primitive::<UInt64Type>().values();
        let set = |marks: &Marks, flags: &[bool]| {
            let flagged = numbers.iter().zip(flags).filter(|(_, is_set)| **is_set);
            flagged.for_each(|(number, _)| marks.set(*number));
        };
        set(&self.notes.matched, matched);
        set(&self.notes.uncertain, uncertain);
    }
}
