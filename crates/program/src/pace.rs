//! Limits of a running statement: it must stop when it is cancelled, and it must not hold much memory.
//!
//! Programs are for statements with few rows. Their memory is not requested from the broker, so it needs a limit
//! of its own. A statement that reaches the limit should run in the general engine, which can spill to disk.

use std::error::Error as _;
use std::fmt;

use rowmill_base::{Cancel, Error, ErrorKind, Result};

use crate::compiled::RunEnd;

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
        self.steps(1)
    }

    /// Counts `rows` more rows. Returns `Cancelled` or `Deadline` if the statement must end.
    #[inline]
    pub(crate) fn steps(&mut self, rows: u32) -> Result<()> {
        self.rows += rows;
        // Reading the clock for every row should be avoided.
        if self.rows < ROWS_UNWATCHED {
            return Ok(());
        }
        self.rows = 0;
        self.cancel.check()
    }
}

/// Returns the error of [`given_up`] if `bytes` is more than a statement may hold.
#[inline]
pub(crate) fn bounded(bytes: usize) -> Result<()> {
    match bytes <= HELD_BYTES_MAX {
        true => Ok(()),
        false => Err(given_up(format_args!("a statement that holds more than {HELD_BYTES_MAX} bytes of rows"))),
    }
}

/// Tells an error of [`given_up`] from all others.
#[derive(Debug)]
struct GivenUp;

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the program has given up")
    }
}

impl std::error::Error for GivenUp {}

/// The error that ends a run which has come to more rows than a program is made for.
#[cold]
pub(crate) fn given_up(what: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what} does not run as a program")).caused_by(GivenUp)
}

/// The end of a run with this result.
#[inline]
pub(crate) fn end_of(run: Result<u64>) -> Result<RunEnd> {
    match run {
        Ok(rows) => Ok(RunEnd::Done(rows)),
        Err(error) if error.source().is_some_and(|source| source.is::<GivenUp>()) => Ok(RunEnd::GivenUp(error)),
        Err(error) => Err(error),
    }
}
