//! Cells: the words of a fold in the rows of groups, for code that does not know the fold.
//!
//! A call costs one virtual dispatch for a batch or block of rows. The loops over the rows know the fold.

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};

use super::fold::{Fold, merge};
use crate::group::{
    BitOrder, Grouped, Groups, NumberForm, Rank, StateNumbers, ValuePlaces, array_of, float_rank, signed_array,
    wide_array, width_of,
};
use crate::window::{FoldedNumbers, Frames, fold_words, folded_numbers};

/// Some words of a group that take numbers one after another.
pub(crate) trait CellFold: Sync {
    /// Tells folds apart.
    fn id(&self) -> TypeId;

    /// The words of a cell that has taken no number.
    fn initial(&self) -> &'static [u64];

    /// The form in which the cell takes values of `kind`; `None` if it only counts them.
    fn form(&self, kind: &DataType) -> Option<NumberForm>;

    /// Adds the numbers of rows to the cells at `offset` of their groups. Returns whether a total left its type.
    fn add(
        &self,
        numbers: &StateNumbers,
        places: &ValuePlaces<'_>,
        rows: &Grouped<'_>,
        groups: &mut Groups<'_>,
        offset: usize,
    ) -> Result<bool>;

    /// Adds the cells at `at` of rows to those of their groups. Returns whether a total left its type.
    fn merge(&self, pairs: &[(u32, u32)], rows: &[u64], groups: &mut [u64], stride: usize, at: usize) -> bool;

    /// Calls `take` with the words of each frame of a window, in the order of the rows. `before` has the words of the
    /// rows before those of the first partition, if there were any.
    fn fold_frames(
        &self,
        numbers: &StateNumbers,
        mask: Option<&BooleanBuffer>,
        frames: &Frames<'_>,
        before: Option<&[u64]>,
        take: &mut dyn FnMut(&[u64]),
    ) -> Result<()>;

    /// Keeps the numbers of rows so that any ranges of those of `mask` can be folded.
    fn folded(&self, numbers: StateNumbers, mask: Option<BooleanBuffer>) -> Result<Box<dyn FoldedNumbers>>;
}

impl fmt::Debug for dyn CellFold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CellFold({:?})", self.id())
    }
}

impl PartialEq for dyn CellFold {
    fn eq(&self, other: &dyn CellFold) -> bool {
        self.id() == other.id()
    }
}

impl Eq for dyn CellFold {}

/// The cell of a fold.
pub(crate) struct FoldCell<F>(PhantomData<fn() -> F>);

impl<F> FoldCell<F> {
    /// The only value.
    pub(crate) const NEW: FoldCell<F> = FoldCell(PhantomData);
}

fn unlike() -> Error {
    Error::internal("an aggregate got numbers of another form")
}

impl<F: Fold> CellFold for FoldCell<F> {
    fn id(&self) -> TypeId {
        TypeId::of::<F>()
    }

    fn initial(&self) -> &'static [u64] {
        F::INITIAL
    }

    fn form(&self, kind: &DataType) -> Option<NumberForm> {
        F::form(kind)
    }

    fn add(
        &self,
        numbers: &StateNumbers,
        places: &ValuePlaces<'_>,
        rows: &Grouped<'_>,
        groups: &mut Groups<'_>,
        offset: usize,
    ) -> Result<bool> {
        Ok(places.add::<F>(F::numbers(numbers).ok_or_else(unlike)?, rows, groups, offset))
    }

    fn merge(&self, pairs: &[(u32, u32)], rows: &[u64], groups: &mut [u64], stride: usize, at: usize) -> bool {
        merge::<F>(pairs, rows, groups, stride, at)
    }

    fn fold_frames(
        &self,
        numbers: &StateNumbers,
        mask: Option<&BooleanBuffer>,
        frames: &Frames<'_>,
        before: Option<&[u64]>,
        take: &mut dyn FnMut(&[u64]),
    ) -> Result<()> {
        fold_words::<F>(F::numbers(numbers).ok_or_else(unlike)?, mask, frames, before, take);
        Ok(())
    }

    fn folded(&self, numbers: StateNumbers, mask: Option<BooleanBuffer>) -> Result<Box<dyn FoldedNumbers>> {
        folded_numbers::<F>(numbers, mask).ok_or_else(unlike)
    }
}

/// How the result of an aggregate is read from the words of its cell.
#[derive(Clone, Copy)]
pub(crate) enum CellResult {
    /// A DOUBLE, or NULL.
    Float(fn(words: &[u64]) -> Option<f64>),
    /// A BIGINT that is never NULL.
    Integer(fn(words: &[u64]) -> i64),
    /// The first word has the bits of the value.
    Bits,
    /// The first word has the number of the value in the order of its type.
    Ordered,
    /// The first two words have the number of the value in the order of its type.
    OrderedWide,
}

impl fmt::Debug for CellResult {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            CellResult::Float(_) => "Float",
            CellResult::Integer(_) => "Integer",
            CellResult::Bits => "Bits",
            CellResult::Ordered => "Ordered",
            CellResult::OrderedWide => "OrderedWide",
        })
    }
}

impl CellResult {
    /// The results of groups, whose cells start with these words. `nulls` says which groups have values, if the words
    /// do not.
    pub(crate) fn column<'w>(
        self,
        cells: impl Iterator<Item = &'w [u64]>,
        nulls: Option<NullBuffer>,
        kind: &DataType,
    ) -> Result<ArrayRef> {
        match self {
            CellResult::Float(value) => {
                let values = cells.map(value);
                Ok(match nulls {
                    None => Arc::new(Float64Array::from_iter(values)),
                    Some(nulls) => {
                        let values = values.zip(&nulls).map(|(value, is_valid)| value.filter(|_| is_valid));
                        Arc::new(Float64Array::from_iter(values))
                    }
                })
            }
            CellResult::Integer(value) => Ok(Arc::new(Int64Array::from_iter_values(cells.map(value)))),
            CellResult::Bits => array_of(kind, cells.map(|words| words[0].into()), nulls),
            CellResult::Ordered => signed_array(cells.map(|words| words[0] as i64), nulls, kind),
            CellResult::OrderedWide => wide_array(cells.map(i128_of), nulls, kind),
        }
    }

    /// Whether groups of equal rank are also equal in the result.
    pub(crate) fn has_exact_ranks(self) -> bool {
        !matches!(self, CellResult::OrderedWide)
    }

    /// The rank of a result of type `kind`, for a group that has a value.
    pub(crate) fn rank(self, words: &[u64], kind: &DataType, rank: Rank) -> i128 {
        match self {
            CellResult::Float(value) => value(words).map_or(rank.of_null(), |value| rank.of(float_rank(value))),
            CellResult::Integer(value) => rank.of(value(words).into()),
            // A cell keeps the bits without their sign. Ranks must have the order of the result's type.
            CellResult::Bits => {
                rank.of(BitOrder::of(kind, width_of(kind).unwrap_or(u64::BITS)).number(words[0]).into())
            }
            CellResult::Ordered => rank.of((words[0] as i64).into()),
            // We drop the lowest bit because a rank must never be the least or greatest `i128`, the ranks of NULL.
            CellResult::OrderedWide => rank.of(i128_of(words) >> 1),
        }
    }
}

/// The 128 bits of the first two words.
pub(crate) fn i128_of(words: &[u64]) -> i128 {
    (u128::from(words[0]) | u128::from(words[1]) << 64) as i128
}
