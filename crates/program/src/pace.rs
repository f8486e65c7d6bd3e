//! Limits of a running statement: it must stop when it is cancelled, and it must not hold much memory.
//!
//! Programs are for statements with few rows. Their memory is not requested from the broker, so it needs a limit
//! of its own. A statement that reaches the limit should run in the general engine, which can spill to disk.

use rowmill_base::{Cancel, Result};

use crate::expr::unsupported;

/// Rows between two checks for cancellation and the deadline.
const ROWS_UNWATCHED: u32 = 256;

/// Bytes of rows, keys or distinct values that a statement may hold at most.
pub(crate) const HELD_BYTES_MAX: usize = 64 << 20;

/// Counts the rows that a statement visits, and checks for cancellation from time to time.
#[derive(Debug)]
pub(crate) struct Pace<'c> {
    cancel: &'c Cancel,
    rows: u32,
}

impl<'c> Pace<'c> {
    pub(crate) fn new(cancel: &'c Cancel) -> Self {
        Pace { cancel, rows: 0 }
    }

    /// Counts one more row. Returns `Cancelled` or `Deadline` if the statement must end.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<()> {
        self.rows += 1;
        // Reading the clock for every row should be avoided.
        if self.rows < ROWS_UNWATCHED {
            return Ok(());
        }
        self.rows = 0;
        self.cancel.check()
    }
}

/// Returns `Unsupported` if `bytes` is more than a statement may hold.
#[inline]
pub(crate) fn bounded(bytes: usize) -> Result<()> {
    match bytes <= HELD_BYTES_MAX {
        true => Ok(()),
        false => Err(unsupported(format_args!("a statement that holds more than {HELD_BYTES_MAX} bytes of rows"))),
    }
}
