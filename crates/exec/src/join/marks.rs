//! Marks for rows that have a match.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rowmill_base::{Reservation, Result};

/// Rows of a word.
const WORD_ROWS: usize = u64::BITS as usize;

/// A bit for each row. All workers set bits.
#[derive(Debug)]
pub(super) struct Marks {
    words: Box<[AtomicU64]>,
    /// Whether all bits are set.
    are_all: AtomicBool,
}

impl Marks {
    /// Makes unset marks for `rows` rows.
    pub(super) fn new(rows: usize, memory: &mut Reservation) -> Result<Marks> {
        let words = rows.div_ceil(WORD_ROWS);
        memory.grow((words * size_of::<u64>()) as u64)?;
        Ok(Marks { words: (0..words).map(|_| AtomicU64::new(0)).collect(), are_all: AtomicBool::new(false) })
    }

    #[inline]
    fn place(row: impl Into<u64>) -> (usize, u64) {
        let row = row.into() as usize;
        (row / WORD_ROWS, 1 << (row % WORD_ROWS))
    }

    #[inline]
    pub(super) fn set(&self, row: impl Into<u64>) {
        let (word, bit) = Marks::place(row);
        // Most rows with a match have many. A write would take the cache line from other workers, so we only write a
        // bit that is not set.
        if self.words[word].load(Ordering::Relaxed) & bit == 0 {
            self.words[word].fetch_or(bit, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn is_set(&self, row: impl Into<u64>) -> bool {
        let (word, bit) = Marks::place(row);
        self.words[word].load(Ordering::Relaxed) & bit != 0
    }

    pub(super) fn set_all(&self) {
        if !self.are_all.swap(true, Ordering::Relaxed) {
            self.words.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        }
    }
}
