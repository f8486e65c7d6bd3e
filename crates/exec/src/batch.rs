//! Batches of rows between operators.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use rowmill_base::Result;

use crate::key_filter::KeyFilter;

/// A worker's share of the batches of a source; after an error or the end, nothing. Dropping it ends the share early.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// An operator, or a foreign plan, as what it gives: batches of rows that any number of workers share.
///
/// Every batch goes to exactly one worker. A worker's share ends when no batch is left for anybody who has not asked
/// yet, so that a source can be read to its end by one worker as well as by many, and workers that come late find
/// nothing. A share may wait for other workers, but only for those that have begun theirs; whoever begins a share drives
/// it to its end or drops it.
pub trait BatchSource: Send + Sync + fmt::Debug {
    /// The columns of every batch. Types are binding; names and whether a column can be NULL are not.
    fn schema(&self) -> &SchemaRef;

    /// Workers that have something to do at most.
    fn parallelism(&self) -> usize;

    /// A worker's share.
    fn worker(self: Arc<Self>) -> Batches;

    /// Whether a filter on a column would be of use: see [`BatchSource::offer`].
    fn accepts(&self, _column: usize) -> bool {
        false
    }

    /// Nobody needs rows that `filter` does not keep by their values in a column: the source may leave out any of them.
    /// To be offered before the first batch is asked for.
    fn offer(&self, _column: usize, _filter: &Arc<KeyFilter>) {}

    /// Whether a filter of few values on a column would spare the source reading most of its rows, if it is offered before
    /// the first batch is asked for: by a key of a table those values are found one by one.
    fn narrows(&self, _column: usize) -> bool {
        false
    }
}
