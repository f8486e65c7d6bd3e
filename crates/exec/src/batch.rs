//! Batches of rows between operators.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use rowmill_base::Result;

use crate::key_filter::KeyFilter;

/// A worker's share of the batches of a source. After an error or the end it returns nothing. Dropping it ends it
/// early.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// A source of batches: an operator, or a foreign plan. Any number of workers share its batches.
///
/// Every batch goes to exactly one worker. A worker's share ends when no batch is left for workers that have not asked
/// yet. Therefore one worker can read a source to its end just as many workers can, and a late worker finds nothing. A
/// share may wait for other workers, but only for workers that have begun their share. A worker that has begun a share
/// must read it to its end or drop it, because others may wait for it.
pub trait BatchSource: Send + Sync + fmt::Debug {
    /// The columns of every batch. The types are binding, but names and nullability are not.
    fn schema(&self) -> &SchemaRef;

    /// The most workers that would have something to do. A caller should not start more.
    fn parallelism(&self) -> usize;

    /// Returns one worker's share.
    fn worker(self: Arc<Self>) -> Batches;

    /// The input and its column whose values are those of `column`, if the reader's filters on `column` may leave out
    /// rows of that input. It is what [`BatchSource::accepts`], [`BatchSource::offer`] and [`BatchSource::narrows`] ask
    /// unless the source has an answer of its own.
    fn passes(&self, _column: usize) -> Option<(&dyn BatchSource, usize)> {
        None
    }

    /// Whether a filter on a column would be useful: see [`BatchSource::offer`].
    fn accepts(&self, column: usize) -> bool {
        self.passes(column).is_some_and(|(input, column)| input.accepts(column))
    }

    /// Offers a filter on a column: the reader does not need rows whose value `filter` does not keep, so the source
    /// may leave out any of them. Must be called before the first batch is asked for.
    fn offer(&self, column: usize, filter: &Arc<KeyFilter>) {
        if let Some((input, column)) = self.passes(column) {
            input.offer(column, filter);
        }
    }

    /// Whether a filter with few values on a column would let the source skip most of its rows, because it can find
    /// these values by a key of a table. The filter must be offered before the first batch is asked for.
    fn narrows(&self, column: usize) -> bool {
        self.passes(column).is_some_and(|(input, column)| input.narrows(column))
    }
}
