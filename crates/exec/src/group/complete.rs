//! The groups of the only part of a table.
//!
//! No other part can have rows of the same groups, so these are complete when the part was read: they are neither put
//! into partitions nor merged, and their keys stay in the arrays that they came from.

use std::mem::size_of;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::DataType;
use rowmill_base::{Error, Reservation, Result};

use super::bits::{Bits, array_of, bits_of};
use super::gather::Recipe;
use super::local::LocalGroups;
use super::rows::{PartValues, take};
use super::state::{Beside, Finished, Groups};
use super::texts::TextStore;
use super::{GroupRequest, OWNER};

/// Groups that have all of their rows.
#[derive(Debug)]
pub(super) struct CompleteGroups {
    /// The columns of the layout, with a value for each group.
    keys: Vec<ArrayRef>,
    /// The words of the aggregates, group by group.
    words: Vec<u64>,
    /// The words of a group.
    stride: usize,
    groups: usize,
    /// The results of the logs, by log, then by aggregate of the log.
    logged: Vec<Vec<ArrayRef>>,
}

impl CompleteGroups {
    /// Whether groups with these keys can be made without a merge.
    pub(super) fn are_possible(recipe: &Recipe, keys: &[PartValues]) -> bool {
        let mut columns = recipe.layout.columns.iter().zip(keys);
        columns.all(|(column, key)| column.kind() == key.values.data_type())
    }

    /// Makes the groups of a part without their aggregates. Takes their memory from `memory`.
    pub(super) fn of(
        recipe: &Recipe,
        local: &LocalGroups,
        keys: &[PartValues],
        memory: &mut Reservation,
    ) -> Result<CompleteGroups> {
        let (groups, initial) = (local.first_rows.len(), recipe.states.initial());
        // A grouping without aggregates has no words.
        let stride = initial.len();
        memory.grow((groups * stride * size_of::<u64>()) as u64)?;
        let mut words = vec![0; groups * stride];
        if initial.iter().any(|word| *word != 0) {
            words.chunks_exact_mut(stride).for_each(|group| group.copy_from_slice(initial));
        }
        let keys = keys.iter().map(|key| first_values(key, &local.first_rows)).collect::<Result<Vec<_>>>()?;
        memory.grow(keys.iter().map(|key| key.get_array_memory_size() as u64).sum())?;
        Ok(CompleteGroups { keys, words, stride, groups, logged: Vec::new() })
    }

    /// Computes the results of the logs from their rows in `beside`, after all rows were added.
    pub(super) fn finish_logs(&mut self, recipe: &Recipe, beside: &mut Beside, memory: &mut Reservation) -> Result<()> {
        for (log, rows) in recipe.states.logs().iter().zip(&mut beside.logs) {
            rows.settle(log, &mut beside.texts)?;
            self.logged.push(log.finish(vec![rows.take_rows()], self.groups, &beside.texts, memory)?);
        }
        Ok(())
    }

    /// The aggregates, to add rows to them.
    pub(super) fn groups(&mut self) -> Groups<'_> {
        Groups { words: &mut self.words, stride: self.stride, at: 0 }
    }

    /// The groups as columns. `texts` has the texts of their aggregates.
    pub(super) fn batch(&self, recipe: &Recipe, request: &GroupRequest, texts: &TextStore) -> Result<RecordBatch> {
        let mut columns = recipe.layout.outputs(&self.keys, self.groups, &request.functions)?;
        let finished = Finished { rows: &self.words, stride: self.stride.max(1), at: 0 };
        columns.extend(recipe.states.finish(finished, &self.logged, texts)?);
        let options = RecordBatchOptions::new().with_row_count(Some(self.groups));
        RecordBatch::try_new_with_options(request.schema.clone(), columns, &options)
            .map_err(|error| Error::internal(format!("the groups of {OWNER}: {error}")))
    }
}

/// The values of a key in the first row of each group.
fn first_values(key: &PartValues, first_rows: &[u32]) -> Result<ArrayRef> {
    let values = match &key.codes {
        Some(codes) => {
            let codes: Vec<u32> = first_rows.iter().map(|row| codes[*row as usize]).collect();
            take(&key.values, &codes)?
        }
        None if first_rows.len() == key.values.len() => key.values.clone(),
        None => take(&key.values, first_rows)?,
    };
    match values.data_type() {
        // A group has one of several zeros or NaNs, whatever row comes first.
        DataType::Float32 | DataType::Float64 => match bits_of(&values)? {
            Bits::Narrow { numbers, .. } => {
                array_of(values.data_type(), numbers.iter().map(|bits| u128::from(*bits)), values.nulls().cloned())
            }
            Bits::Wide(_) => Err(Error::internal("a float of 128 bits")),
        },
        _ => Ok(values),
    }
}
