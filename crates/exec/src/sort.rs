//! ORDER BY, with or without LIMIT.
//!
//! ```text
//! entry.rs    entries, which are sorted in place of rows: the bits of a key above the place of its row
//! key.rs      the bits of keys, for numbers (numbers.rs) and for longer keys (long.rs)
//! order.rs    the order of entries, by digits (radix.rs) and by the bytes that do not fit the entry
//! run.rs      sorted rows of one worker's share
//! gather.rs   the runs of one worker's share, in memory or on disk
//! top.rs      the first rows of one worker's share, with a bound (bound.rs) that the workers share
//! ranges.rs   all runs cut at the same keys, and the sorted rows between two cuts
//! spilled.rs  sorted runs on disk, and their merge
//! sorting.rs  the distribution of the work among the workers
//! places.rs   the order of rows that are in memory as a whole
//! ```
//!
//! Keys are therefore compared as numbers. Every other column is moved twice, into a run and out of it, both times
//! from front to back or inside a core's caches. Rows with equal keys come in any order.

mod bound;
mod entry;
mod gather;
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
mod spilled;
#[cfg(test)]
mod tests;
mod top;

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use rowmill_base::{Broker, Cancel, Result};
use rowmill_plan::SortKey;
use rowmill_storage::spill::TempSpace;

use self::entry::Wide;
use self::gather::RunGatherer;
pub(crate) use self::held::{HeldBuffers, copied};
use self::key::KeyLayout;
pub(crate) use self::long::canonical;
pub(crate) use self::numbers::{SortNumbers, numbers_of, width_of};
pub(crate) use self::places::{places_in_groups, places_in_order};
pub(crate) use self::ranges::SAMPLES_PER_RANGE;
use self::run::RunFormat;
use self::sorting::Sorting;
use crate::batch::{BatchSource, Batches};
use crate::late_sort::LateRows;
use crate::share::{share, with_nulls};

/// The name of the operator in errors.
const OWNER: &str = "ORDER BY";

/// A worker keeps only the first rows if at most this many are asked for. Otherwise it keeps all rows.
pub(crate) const TOP_ROWS_MAX: usize = 1 << 16;

/// The options of a sort key in Arrow's terms.
fn options(key: &SortKey) -> SortOptions {
    SortOptions { descending: key.descending, nulls_first: key.nulls_first }
}

/// An order of rows, and the part of them to return.
///
/// Texts and blobs sort by their bytes. Among floats, NaN sorts above all others, and -0.0 equals 0.0.
#[derive(Clone, Debug)]
pub struct SortRequest {
    /// The sort keys, at least one.
    pub keys: Vec<SortKey>,
    /// The number of first rows to leave out.
    pub skip: usize,
    /// The most rows to return, if limited.
    pub rows: Option<usize>,
    /// The schema of the result. Its types must be the types of the input.
    pub schema: SchemaRef,
    /// The most rows of a batch, at least one.
    pub batch_rows: usize,
    /// Ends the work early. Workers check it once per batch and once per range of some ten thousand rows.
    pub cancel: Cancel,
    /// Grants the memory.
    pub broker: Broker,
    /// The place of temporary files.
    pub temp: TempSpace,
}

/// Returns the rows of its input in order. One worker returns all of them, but all workers share the work.
pub struct Sort {
    schema: SchemaRef,
    request: SortRequest,
    input: Arc<dyn BatchSource>,
    form: EntryForm,
}

/// The sort with one of two sizes of entries.
enum EntryForm {
    Narrow(Arc<Sorting<u128>>),
    Wide(Arc<Sorting<Wide>>),
}

impl Sort {
    /// Prepares to sort `input`. Reads nothing. Fails for a key of a type that has no order.
    pub fn new(input: Arc<dyn BatchSource>, request: SortRequest) -> Result<Arc<Sort>> {
        Sort::prepared(input, request, None)
    }

    /// Prepares to sort `input`, whose rows `late` turns into rows of the schema after they are in order. The keys are
    /// columns of `input`.
    pub(crate) fn with_late_rows(
        input: Arc<dyn BatchSource>,
        request: SortRequest,
        late: Arc<LateRows>,
    ) -> Result<Arc<Sort>> {
        Sort::prepared(input, request, Some(late))
    }

    fn prepared(input: Arc<dyn BatchSource>, request: SortRequest, late: Option<Arc<LateRows>>) -> Result<Arc<Sort>> {
        let schema = with_nulls(&request.schema);
        let sorted = if late.is_some() { with_nulls(input.schema()) } else { Arc::clone(&schema) };
        let layout = KeyLayout::new(request.keys.clone(), &sorted)?;
        // The size of entries is fixed here, once, so that the loops are compiled for it.
        let is_narrow = layout.is_narrow();
        let held = request.broker.spillable();
        let (layout, broker) = (Arc::new(layout), held.broker().clone());
        let format = RunFormat { schema: sorted, layout, broker };
        let form = match is_narrow {
            true => EntryForm::Narrow(Sorting::new(Arc::clone(&input), format, (held, late), &request)),
            false => EntryForm::Wide(Sorting::new(Arc::clone(&input), format, (held, late), &request)),
        };
        Ok(Arc::new(Sort { schema, request, input, form }))
    }
}

/// Gathers rows for a sort beside its input.
pub(crate) struct SortFeeder<'a>(FeederForm<'a>);

enum FeederForm<'a> {
    Narrow(RunGatherer<'a, u128>),
    Wide(RunGatherer<'a, Wide>),
}

impl Sort {
    /// A feeder for one thread. All feeders must have finished before a worker asks for the first row.
    pub(crate) fn feeder(&self) -> SortFeeder<'_> {
        SortFeeder(match &self.form {
            EntryForm::Narrow(sorting) => FeederForm::Narrow(RunGatherer::new(sorting)),
            EntryForm::Wide(sorting) => FeederForm::Wide(RunGatherer::new(sorting)),
        })
    }
}

impl SortFeeder<'_> {
    /// Adds the rows of a batch, whose columns must have the types of the sort's schema.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.0 {
            FeederForm::Narrow(gatherer) => gatherer.add(batch),
            FeederForm::Wide(gatherer) => gatherer.add(batch),
        }
    }

    /// Makes the sort return the rows.
    pub(crate) fn finish(self) -> Result<()> {
        match self.0 {
            FeederForm::Narrow(gatherer) => gatherer.finish(),
            FeederForm::Wide(gatherer) => gatherer.finish(),
        }
    }
}

impl SortRequest {
    /// The number of first rows that matter, if it is small enough to keep only these.
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
            // Even if few workers read the input, others can sort ranges.
            None => usize::MAX,
        }
    }

    fn worker(self: Arc<Self>) -> Batches {
        match &self.form {
            _ if self.request.rows == Some(0) => share(|| Ok(None)),
            EntryForm::Narrow(sorting) => Arc::clone(sorting).share(),
            EntryForm::Wide(sorting) => Arc::clone(sorting).share(),
        }
    }
}
