//! ORDER BY, with or without LIMIT.
//!
//! ```text
//! entry.rs    what is sorted in place of rows: the bits of a key above the place of its row
//! key.rs      the bits of keys, of numbers (numbers.rs) and of what is longer (long.rs)
//! order.rs    the order of entries, by digits (radix.rs) and by the bytes behind them
//! run.rs      rows of a worker's share in order
//! top.rs      the same for the first rows only, with a bound (bound.rs) that the workers share
//! ranges.rs   all runs cut at the same keys, and what lies between two cuts in order
//! sorting.rs  who does what when
//! places.rs   the order of rows that are in memory as a whole
//! ```
//!
//! So keys are compared as numbers; each other column is moved twice, into a run and out of it, and both times from one
//! end to the other or within a core's caches. Rows with equal keys come in any order.

mod bound;
mod entry;
mod held;
mod key;
mod long;
mod numbers;
mod order;
mod places;
mod radix;
mod ranges;
mod run;
mod sorting;
#[cfg(test)]
mod tests;
mod top;

use std::fmt;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use rowmill_base::{Broker, Cancel, Result};
use rowmill_plan::SortKey;

use self::entry::Wide;
pub(crate) use self::held::HeldBuffers;
use self::key::KeyLayout;
pub(crate) use self::long::canonical;
pub(crate) use self::numbers::{Numbers, numbers_of, width_of};
pub(crate) use self::places::places_in_order;
use self::run::RunFormat;
use self::sorting::Sorting;
use crate::batch::{BatchSource, Batches};
use crate::share::{share, with_nulls};

/// The name of the operator in errors.
const OWNER: &str = "ORDER BY";

/// First rows up to which a worker only keeps as many; if more are asked for, it keeps all.
const TOP_ROWS_MAX: usize = 1 << 16;

/// How Arrow says it.
fn options(key: &SortKey) -> SortOptions {
    SortOptions { descending: key.descending, nulls_first: key.nulls_first }
}

/// An order of rows, and which of them are given.
///
/// Texts and blobs are ordered by their bytes, floats with NaN above all others, -0.0 as 0.0.
#[derive(Clone, Debug)]
pub struct SortRequest {
    /// What rows are ordered by, at least one.
    pub keys: Vec<SortKey>,
    /// How many of the first rows are left out.
    pub skip: usize,
    /// How many rows are given at most.
    pub rows: Option<usize>,
    /// The columns, whose types are those of the input.
    pub schema: SchemaRef,
    /// Rows of a batch at most, at least one.
    pub batch_rows: usize,
    /// Ends the work early; asked once per batch and per range of some ten thousand rows.
    pub cancel: Cancel,
    /// Grants the memory.
    pub broker: Broker,
}

/// Gives the rows of its input in order: all of them in the share of one worker, while the work is everybody's.
pub struct Sort {
    schema: SchemaRef,
    request: SortRequest,
    input: Arc<dyn BatchSource>,
    form: Form,
}

/// Entries have one of two sizes.
enum Form {
    Narrow(Arc<Sorting<u128>>),
    Wide(Arc<Sorting<Wide>>),
}

impl Sort {
    /// Prepares to sort `input`; reads nothing. Fails for a key of a type that has no order.
    pub fn new(input: Arc<dyn BatchSource>, request: SortRequest) -> Result<Arc<Sort>> {
        let schema = with_nulls(&request.schema);
        let layout = KeyLayout::new(request.keys.clone(), &schema)?;
        let is_narrow = layout.is_narrow();
        let format = RunFormat { schema: Arc::clone(&schema), layout, broker: request.broker.clone() };
        let form = match is_narrow {
            true => Form::Narrow(Sorting::new(Arc::clone(&input), format, &request)),
            false => Form::Wide(Sorting::new(Arc::clone(&input), format, &request)),
        };
        Ok(Arc::new(Sort { schema, request, input, form }))
    }
}

impl SortRequest {
    /// How many of the first rows matter, if that is few enough to keep only those.
    fn top_rows(&self) -> Option<usize> {
        self.rows.and_then(|rows| self.skip.checked_add(rows)).filter(|rows| *rows <= TOP_ROWS_MAX)
    }
}

impl fmt::Debug for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sort").field("input", &self.input).field("request", &self.request).finish_non_exhaustive()
    }
}

impl BatchSource for Sort {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        match self.request.top_rows() {
            Some(_) => self.input.parallelism(),
            None if self.input.parallelism() == 0 => 0,
            // However few read the input, others can put ranges in order.
            None => usize::MAX,
        }
    }

    fn worker(self: Arc<Self>) -> Batches {
        match &self.form {
            _ if self.request.rows == Some(0) => share(|| Ok(None)),
            Form::Narrow(sorting) => Arc::clone(sorting).share(),
            Form::Wide(sorting) => Arc::clone(sorting).share(),
        }
    }
}
