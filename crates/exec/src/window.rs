//! Window functions: values computed over other rows of the same partition.
//!
//! ```text
//! gather      every worker holds the batches of its share of the input, and notes the ranges of the keys (held.rs)
//! scatter     the keys of every row become an entry above the place of the row (code.rs, entry.rs), which goes into a
//!             bucket by its partition. If only first rows are needed, most others are left out here (prune.rs)
//! compute     a worker takes a bucket, sorts its entries (sorted.rs), finds frames (frame.rs, range.rs), and computes
//!             the calls (evaluate.rs and the files that it uses) on the columns that they read
//! give        workers return the batches of the input unchanged, with the results as further columns (cells.rs), or
//!             the first rows of each partition
//! ```
//!
//! Therefore we sort only keys, and move only the columns that a call reads: results go to the places of their rows
//! instead. If the rows do not fit into memory, they go to disk, and parts of them are computed in turn (spilled.rs).
//!
//! Without PARTITION BY, all workers together sort the rows with [`Sort`], and one worker computes each call. If these
//! rows do not fit into memory, one worker computes them in stretches (stretch.rs), or in two passes (passes.rs).
//!
//! Ordered joins compute aggregates over frames too (frame_aggregate.rs).

mod buckets;
mod cells;
mod code;
mod entry;
mod evaluate;
mod exact_floats;
mod extreme;
mod fixed;
mod frame;
mod frame_aggregate;
mod held;
mod nth;
mod offset;
mod passes;
mod prune;
mod range;
mod rank;
mod regroup;
mod running;
mod shift;
mod sorted;
mod sorted_partitions;
mod spilled;
mod stretch;
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
use rowmill_storage::spill::TempSpace;

pub(crate) use self::entry::{WindowEntry, sort_entries};
pub(crate) use self::frame::Frames;
pub(crate) use self::frame_aggregate::{FrameAggregate, FrameColumns};
pub(crate) use self::tree::{FoldedNumbers, fold_words, folded_numbers};
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

/// A request for a window: see [`rowmill_plan::Window`].
#[derive(Clone, Debug)]
pub struct WindowRequest {
    /// The columns that are equal in all rows of a partition.
    pub partition: Vec<usize>,
    /// The order of the rows in a partition.
    pub order: Vec<SortKey>,
    /// The calls to compute.
    pub calls: Vec<WindowCall>,
    /// If present, only rows whose result of the first call is at most this are returned.
    pub limit: Option<usize>,
    /// The schema of the result: the columns of the input, then one column for each call.
    pub schema: SchemaRef,
    /// The most rows of a batch that we make. Batches of the input stay as they are.
    pub batch_rows: usize,
    /// Ends the work early. Workers check it once per batch and per bucket.
    pub cancel: Cancel,
    /// Grants the memory.
    pub broker: Broker,
    /// The place of temporary files.
    pub temp: TempSpace,
}

/// Returns the rows of its input in any order, together with values computed over other rows.
pub struct WindowOperator {
    schema: SchemaRef,
    windowing: Arc<Windowing>,
}

impl WindowOperator {
    /// Prepares a window over the rows of `input`. Reads nothing.
    pub fn new(input: Arc<dyn BatchSource>, mut request: WindowRequest) -> Arc<WindowOperator> {
        let columns = input.schema().fields().len() + request.calls.len();
        assert_eq!(columns, request.schema.fields().len(), "a window must add one column for each call");
        request.schema = with_nulls(&request.schema);
        Arc::new(WindowOperator {
            schema: Arc::clone(&request.schema),
            windowing: Arc::new(Windowing::new(input, request)),
        })
    }
}

impl fmt::Debug for WindowOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window").field("windowing", &self.windowing).finish_non_exhaustive()
    }
}

impl BatchSource for WindowOperator {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        match self.windowing.input().parallelism() {
            0 => 0,
            // Even if few workers read the input, others can compute.
            _ => usize::MAX,
        }
    }

    fn worker(self: Arc<Self>) -> Batches {
        Arc::clone(&self.windowing).share()
    }
}
