//! The results of calls, by the places of their rows in the input.
//!
//! Workers compute partitions and give whole batches of the input back, so that no column of the input is moved. They
//! write their results to cells, one for each row and call, in any order. All workers must have written before one
//! reads.

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

/// How the results of a call are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellForm {
    /// By their bits, up to 64.
    Narrow,
    /// By their 128 bits.
    Wide,
    /// By where they are among other arrays: see [`Pick`].
    Picked,
    /// Not at all: every result is NULL.
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

/// An item of one of some arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pick(u64);

impl Pick {
    /// NULL.
    pub(super) const NULL: Pick = Pick(u64::MAX);

    /// An item of an array. Both numbers have less than 32 bits.
    #[inline]
    pub(super) fn new(array: usize, item: usize) -> Pick {
        Pick((array as u64) << 32 | item as u64)
    }

    fn get(self) -> Option<(usize, usize)> {
        (self != Pick::NULL).then_some(((self.0 >> 32) as usize, self.0 as u32 as usize))
    }
}

/// The items of `arrays` that are picked.
pub(super) fn picked(kind: &DataType, arrays: &[&dyn Array], picks: impl Iterator<Item = Pick>) -> Result<ArrayRef> {
    // Only arrays that are used take part, because each costs time and may keep its texts alive.
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

/// The results of a call for the rows of a batch.
#[derive(Debug)]
pub(super) struct CallCells {
    form: CellForm,
    words: Vec<AtomicU64>,
    /// By row, 1 for NULL; unset as long as there is none.
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

    /// Bytes of the cells of a row.
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
        self.nulls.get_or_init(|| zeros(self.rows()))[row].store(1, Ordering::Relaxed);
    }

    fn rows(&self) -> usize {
        if self.form == CellForm::Wide { self.words.len() / 2 } else { self.words.len() }
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        self.words.iter().map(|word| word.load(Ordering::Relaxed))
    }

    /// The results of a batch of `rows` rows; `arrays` are those that results were picked from.
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

/// Writes the results of rows, which are held at `places`, into the cells of call `call`.
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

/// Writes the `picks`, which are rows of other batches, to the cells of `call` at `places`.
pub(super) fn write_picks(cells: &[Vec<CallCells>], call: usize, places: &[HeldPlace], picks: &[Pick]) -> Result<()> {
    for ((batch, row), pick) in places.iter().zip(picks) {
        let cells = &cells[*batch][call];
        if cells.form != CellForm::Picked {
            return Err(Error::internal("a window picks values of a fixed size"));
        }
        cells.put(*row, pick.0);
    }
    Ok(())
}
