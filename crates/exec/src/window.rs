//! Window functions: values computed over other rows of the same partition.
//!
//! ```text
//! gather      every worker holds the batches of its share of the input, and notes the ranges of the keys (held.rs)
//! scatter     the keys of every row become an entry above the place of the row (code.rs, entry.rs), which goes into a
//!             bucket by its partition; where only first rows are needed, most others are left out here (prune.rs)
//! compute     a worker takes a bucket, puts its entries in order (sorted.rs), finds frames (frame.rs, range.rs), and
//!             computes the calls (evaluate.rs and what it calls) on the columns that they read
//! give        the batches of the input as they came, with the results beside them (cells.rs); or the first rows of
//!             each partition
//! ```
//!
//! So only keys are sorted, and of the other columns only those that a call reads are moved: results go to the places
//! of their rows instead. That takes all rows into memory, as any sort does.
//!
//! Rows without PARTITION BY are put in order by [`Sort`], which all workers share, and each call is computed by one
//! worker.

mod cells;
mod code;
mod entry;
mod evaluate;
mod extreme;
mod fixed;
mod frame;
mod held;
mod nth;
mod offset;
mod prune;
mod range;
mod rank;
mod regroup;
mod shift;
mod sorted;
#[cfg(test)]
mod tests;
mod total;
mod tree;
mod windowing;

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use rowmill_base::{Broker, Cancel, Error};
use rowmill_plan::{SortKey, WindowCall};

use self::windowing::Windowing;
use crate::batch::{BatchSource, Batches};
use crate::share::with_nulls;
#[cfg(doc)]
use crate::sort::Sort;

/// The name of the operator in errors.
const OWNER: &str = "a window";

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("{OWNER}: {error}"))
}

/// The computation of a window: see [`rowmill_plan::Window`].
#[derive(Clone, Debug)]
pub struct WindowRequest {
    /// The columns that are equal within a partition.
    pub partition: Vec<usize>,
    /// The order of the rows of a partition.
    pub order: Vec<SortKey>,
    /// The calls to compute.
    pub calls: Vec<WindowCall>,
    /// Only rows whose result of the first call is at most this are given; all rows if absent.
    pub limit: Option<usize>,
    /// The columns of the input, then one for each call.
    pub schema: SchemaRef,
    /// Rows of a batch at most, where rows are moved; batches of the input stay as they are.
    pub batch_rows: usize,
    /// Ends the work early; asked once per batch and per bucket.
    pub cancel: Cancel,
    /// Grants the memory.
    pub broker: Broker,
}

/// Gives the rows of its input, in any order, with values computed over other rows.
pub struct Window {
    schema: SchemaRef,
    windowing: Arc<Windowing>,
}

impl Window {
    /// Prepares to compute over the rows of `input`; reads nothing.
    pub fn new(input: Arc<dyn BatchSource>, mut request: WindowRequest) -> Arc<Window> {
        let columns = input.schema().fields().len() + request.calls.len();
        assert_eq!(columns, request.schema.fields().len(), "a window adds a column for each call");
        request.schema = with_nulls(&request.schema);
        Arc::new(Window { schema: Arc::clone(&request.schema), windowing: Arc::new(Windowing::new(input, request)) })
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window").field("windowing", &self.windowing).finish_non_exhaustive()
    }
}

impl BatchSource for Window {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        match self.windowing.input().parallelism() {
            0 => 0,
            // However few read the input, others can compute.
            _ => usize::MAX,
        }
    }

    fn worker(self: Arc<Self>) -> Batches {
        Arc::clone(&self.windowing).share()
    }
}
