//! The results of calls, stored by the places of their rows in the input.
//!
//! Workers compute partitions, but return whole batches of the input, so that no column of the input has to move. They
//! write their results into cells, one for each row and call, in any order. A batch must be read only after all
//! workers have written.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};

use super::failed;
use super::fixed::{narrow_array, validity, wide_array};
use super::held::HeldPlace;
use crate::group::{Bits, bits_of, width_of};

/// The form in which the results of a call are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellForm {
    /// The bits of the results, up to 64.
    Narrow,
    /// The 128 bits of the results.
    Wide,
    /// The places of the results in other arrays: see [`Pick`].
    Picked,
    /// Nothing is stored, because every result is NULL.
    Nothing,
}

impl CellForm {
    pub(super) fn of(kind: &DataType) -> CellForm {
        match width_of(kind) {
            _ if *kind == DataType::Null => CellForm::Nothing,
            Some(128) => CellForm::Wide,
            Some(_) => CellForm::Narrow,
            None => CellForm::Picked,
        }
    }
}

/// Refers to one item of one of several arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pick(u64);

impl Pick {
    /// NULL.
    pub(super) const NULL: Pick = Pick(u64::MAX);

    /// An item of an array. Both numbers must be below 2^32.
    #[inline]
    pub(super) fn new(array: usize, item: usize) -> Pick {
        Pick((array as u64) << 32 | item as u64)
    }

    fn get(self) -> Option<(usize, usize)> {
        (self != Pick::NULL).then_some(((self.0 >> 32) as usize, self.0 as u32 as usize))
    }
}

/// Makes an array of the picked items of `arrays`.
pub(super) fn picked(kind: &DataType, arrays: &[&dyn Array], picks: impl Iterator<Item = Pick>) -> Result<ArrayRef> {
    // We pass only the arrays that are used, because each one costs time and may keep its texts alive.
    let mut numbers = vec![usize::MAX; arrays.len()];
    let null = new_null_array(kind, 1);
    let mut used: Vec<&dyn Array> = vec![&*null];
    let items = picks.map(|pick| {
        let Some((array, item)) = pick.get() else { return (0, 0) };
        if numbers[array] == usize::MAX {
            numbers[array] = used.len();
            used.push(arrays[array]);
        }
        (numbers[array], item)
    });
    let items: Vec<HeldPlace> = items.collect();
    if items.is_empty() {
        return Ok(arrow::array::new_empty_array(kind));
    }
    interleave(&used, &items).map_err(failed)
}

/// The results of a call for the rows of one batch.
#[derive(Debug)]
pub(super) struct CallCells {
    form: CellForm,
    words: Vec<AtomicU64>,
    /// By row, 1 for NULL. Allocated at the first NULL.
    nulls: OnceLock<Vec<AtomicU8>>,
}

impl CallCells {
    pub(super) fn new(form: CellForm, rows: usize) -> CallCells {
        let words = match form {
            CellForm::Narrow | CellForm::Picked => rows,
            CellForm::Wide => 2 * rows,
            CellForm::Nothing => 0,
        };
        CallCells { form, words: zeros(words), nulls: OnceLock::new() }
    }

    /// The bytes of the cells of a row: the words, and one byte for NULL.
    pub(super) fn bytes_of_row(form: CellForm) -> usize {
        match form {
            CellForm::Narrow | CellForm::Picked => 9,
            CellForm::Wide => 17,
            CellForm::Nothing => 0,
        }
    }

    #[inline(always)]
    fn put(&self, cell: usize, word: u64) {
        self.words[cell].store(word, Ordering::Relaxed);
    }

    fn put_null(&self, row: usize) {
        // Several workers may come here at once. Only one of them allocates.
        self.nulls.get_or_init(|| zeros(self.rows()))[row].store(1, Ordering::Relaxed);
    }

    fn rows(&self) -> usize {
        if self.form == CellForm::Wide { self.words.len() / 2 } else { self.words.len() }
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        self.words.iter().map(|word| word.load(Ordering::Relaxed))
    }

    /// Makes the array of a batch's results. `arrays` are the arrays that results were picked from.
    pub(super) fn array(&self, kind: &DataType, rows: usize, arrays: &[&dyn Array]) -> Result<ArrayRef> {
        let nulls = self.nulls.get();
        let nulls = nulls.and_then(|nulls| validity(nulls.iter().map(|null| null.load(Ordering::Relaxed) == 0)));
        match self.form {
            CellForm::Nothing => Ok(new_null_array(kind, rows)),
            CellForm::Narrow => narrow_array(kind, self.words().collect(), nulls),
            CellForm::Wide => {
                let word = |word: &AtomicU64| u128::from(word.load(Ordering::Relaxed));
                let words = self.words.as_chunks().0.iter().map(|[low, high]| word(low) | word(high) << 64);
                wide_array(kind, words.collect(), nulls)
            }
            CellForm::Picked => picked(kind, arrays, self.words().map(Pick)),
        }
    }
}

fn zeros<T: Default>(count: usize) -> Vec<T> {
    (0..count).map(|_| T::default()).collect()
}

/// Writes results into the cells of call number `call`. `places` are the places of the rows in the input.
pub(super) fn write_values(
    cells: &[Vec<CallCells>],
    call: usize,
    places: &[HeldPlace],
    values: &ArrayRef,
) -> Result<()> {
    if let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) {
        let is_null = places.iter().zip(nulls).filter(|(_, is_valid)| !is_valid);
        is_null.for_each(|((batch, row), _)| cells[*batch][call].put_null(*row));
    }
    if *values.data_type() == DataType::Null {
        return Ok(());
    }
    match bits_of(values)? {
        Bits::Narrow { numbers, .. } => {
            // No two workers write the same cell, so relaxed stores are enough. The end of the phase orders them
            // before reads.
            for ((batch, row), bits) in places.iter().zip(numbers.iter()) {
                cells[*batch][call].put(*row, *bits);
            }
        }
        Bits::Wide(numbers) => {
            for ((batch, row), bits) in places.iter().zip(numbers.iter()) {
                let cells = &cells[*batch][call];
                cells.put(2 * row, *bits as u64);
                cells.put(2 * row + 1, (*bits >> 64) as u64);
            }
        }
    }
    Ok(())
}

/// Writes `picks` into the cells of call number `call`. `places` are the places of the rows in the input.
pub(super) fn write_picks(cells: &[Vec<CallCells>], call: usize, places: &[HeldPlace], picks: &[Pick]) -> Result<()> {
    for ((batch, row), pick) in places.iter().zip(picks) {
        let cells = &cells[*batch][call];
        if cells.form != CellForm::Picked {
            return Err(Error::internal("a window must not pick values of a fixed size"));
        }
        cells.put(*row, pick.0);
    }
    Ok(())
}
