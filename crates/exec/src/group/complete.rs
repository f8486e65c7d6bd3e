//! The groups of the only part of a table.
//!
//! No other part can have rows of the same groups, so these are complete when the part was read: they are neither put
//! into partitions nor merged, and their keys stay in the arrays that they came from.

use std::mem::size_of;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use rowmill_base::{Broker, Error, Reservation, Result};

use super::bits::{Bits, array_of, bits_of};
use super::gather::Recipe;
use super::local::LocalGroups;
use super::rows::{PartRows, PartValues, take};
use super::state::{Beside, Finished, Grouped, Groups};
use super::texts::TextStore;
use super::{GroupRequest, OWNER, batch_of};

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
    /// The memory of all that.
    memory: Reservation,
    /// The texts of the aggregates.
    texts: TextStore,
}

impl CompleteGroups {
    /// Whether groups with these keys can be made without a merge.
    pub(super) fn are_possible(recipe: &Recipe, keys: &[PartValues]) -> bool {
        let mut columns = recipe.layout.columns.iter().zip(keys);
        columns.all(|(column, key)| column.kind() == key.values.data_type())
    }

    /// Makes the groups of a part, to which `rows` belong. Takes their memory from `broker`.
    pub(super) fn of(
        recipe: &Recipe,
        local: &LocalGroups,
        keys: &[PartValues],
        rows: &PartRows<'_>,
        broker: &Broker,
    ) -> Result<CompleteGroups> {
        let mut memory = broker.reservation(OWNER);
        let (groups, initial) = (local.first_rows.len(), recipe.states.initial());
        // Aggregates that keep all values in logs have no words, but the groups are counted by words.
        let stride = initial.len().max(1);
        memory.grow((groups * stride * size_of::<u64>()) as u64)?;
        let mut words = vec![0; groups * stride];
        if initial.iter().any(|word| *word != 0) {
            words.chunks_exact_mut(stride).for_each(|group| group.copy_from_slice(initial));
        }
        let keys = keys.iter().map(|key| first_values(key, &local.first_rows)).collect::<Result<Vec<_>>>()?;
        memory.grow(keys.iter().map(|key| key.get_array_memory_size() as u64).sum())?;
        let states = &recipe.states;
        let parts = 0..states.parts();
        let inputs = states.inputs(rows, parts.clone())?;
        let grouped = Grouped { rows: 0..rows.len(), groups: Some(&local.groups), weights: rows.weights() };
        let mut beside = Beside::new(states, || broker.reservation(OWNER));
        states.add(parts, &inputs, &grouped, &mut Groups { words: &mut words, stride, at: 0 }, &mut beside)?;
        let Beside { mut texts, logs, .. } = beside;
        let mut logged = Vec::with_capacity(logs.len());
        for (log, mut rows) in states.logs().iter().zip(logs) {
            rows.settle(log, &mut texts)?;
            logged.push(log.finish(vec![rows.take_rows()], groups, &texts, &mut memory)?);
        }
        Ok(CompleteGroups { keys, words, stride, groups, logged, memory, texts })
    }

    /// The groups as columns. The memory of the groups is given back.
    pub(super) fn into_batch(self, recipe: &Recipe, request: &GroupRequest) -> Result<RecordBatch> {
        let CompleteGroups { keys, words, stride, groups, logged, memory, texts } = self;
        let mut columns = recipe.layout.outputs(&keys, groups, &request.functions)?;
        let finished = Finished { rows: &words, stride, at: 0 };
        columns.extend(recipe.states.finish(finished, &logged, &texts)?);
        drop(memory);
        batch_of(request, columns, groups)
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
