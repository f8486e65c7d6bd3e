//! How far a statement goes: until it is cancelled, and no farther than what it holds in memory is little.
//!
//! Programs are for few rows. What they hold is not asked for from the broker, so that it has a bound of its own; a statement
//! that comes to it is one for the general engine, which can spill.

use rowmill_base::{Cancel, Result};

use crate::expr::unsupported;

/// Rows between two looks at the flag and the clock.
const ROWS_UNWATCHED: u32 = 256;

/// Bytes of rows, keys or distinct values that a statement holds at most.
pub(crate) const HELD_BYTES_MAX: usize = 64 << 20;

/// Counts rows that are come upon.
#[derive(Debug)]
pub(crate) struct Pace<'c> {
    cancel: &'c Cancel,
    rows: u32,
}

impl<'c> Pace<'c> {
    pub(crate) fn new(cancel: &'c Cancel) -> Self {
        Pace { cancel, rows: 0 }
    }

    /// One more row. `Cancelled` or `Deadline` if the statement is to end.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<()> {
        self.rows += 1;
        if self.rows < ROWS_UNWATCHED {
            return Ok(());
        }
        self.rows = 0;
        self.cancel.check()
    }
}

/// `Unsupported` of more bytes than a statement may hold.
#[inline]
pub(crate) fn bounded(bytes: usize) -> Result<()> {
    match bytes <= HELD_BYTES_MAX {
        true => Ok(()),
        false => Err(unsupported(format_args!("a statement that holds more than {HELD_BYTES_MAX} bytes of rows"))),
    }
}
