//! Reads lists as ranges of items, and makes lists of items from other arrays.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, NullBufferBuilder, UInt32Array, new_empty_array};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{interleave, take};
use arrow::datatypes::{DataType, Field};
use rowmill_base::Result;
use rowmill_plan::function::ArgumentKind;
use rowmill_plan::{Constant, Operand};

use crate::functions::result_limit::ResultLimit;
use crate::functions::time::columns::failed;
use crate::kinds::integer_bounds;
use crate::typing::common_kind;

/// Returns the type of a list of such items.
pub(in crate::functions) fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

/// Returns the type of a list's items. NULL counts as a list of NULLs.
pub(in crate::functions) fn item_kind(kind: &DataType) -> Option<DataType> {
    match kind {
        DataType::List(item) => Some(item.data_type().clone()),
        DataType::Null => Some(DataType::Null),
        _ => None,
    }
}

/// Returns the common type of items that go into one list.
pub(in crate::functions) fn common_item(kinds: &[DataType]) -> Option<DataType> {
    let mut known = kinds.iter().filter(|kind| **kind != DataType::Null);
    let Some(first) = known.next() else { return Some(DataType::Null) };
    if known.all(|kind| kind == first) { Some(first.clone()) } else { common_kind(kinds) }
}

/// Returns the common type of a list's items and of one value, for example in `array_append(list, value)`.
pub(in crate::functions) fn item_and_value(list: &ArgumentKind<'_>, value: &ArgumentKind<'_>) -> Option<DataType> {
    let item = item_kind(list.kind)?;
    let value = kind_beside(value, &item);
    common_item(&[item, value])
}

/// Returns the type of a value beside items. An integer literal takes the items' type if it fits, so that the list
/// needs no cast.
pub(in crate::functions) fn kind_beside(value: &ArgumentKind<'_>, item: &DataType) -> DataType {
    let literal = value.constant.and_then(Constant::as_bigint).map(i128::from);
    match (literal, integer_bounds(item)) {
        (Some(literal), Some((least, most))) if (least..=most).contains(&literal) => item.clone(),
        _ => value.kind.clone(),
    }
}

/// The lists of an operand.
pub(in crate::functions) struct ListRanges<'a> {
    lists: &'a ListArray,
    offsets: &'a [i32],
    items: ArrayRef,
    is_constant: bool,
}

impl<'a> ListRanges<'a> {
    /// Reads an operand, which must have a list type.
    pub(in crate::functions) fn of(operand: &'a Operand) -> ListRanges<'a> {
        let lists = operand.values.as_list::<i32>();
        let offsets = lists.value_offsets();
        // A sliced array keeps all items. We cut out those of its own lists, so that kernels do not read the others.
        let (first, last) = (offsets[0] as usize, offsets[lists.len()] as usize);
        ListRanges {
            lists,
            offsets,
            items: lists.values().slice(first, last - first),
            is_constant: operand.is_constant,
        }
    }

    /// Returns the range of a row's items among all items, or `None` if the list is NULL.
    #[inline]
    pub(in crate::functions) fn at(&self, row: usize) -> Option<Range<usize>> {
        let row = if self.is_constant { 0 } else { row };
        let place = |offset: i32| (offset - self.offsets[0]) as usize;
        self.lists.is_valid(row).then(|| place(self.offsets[row])..place(self.offsets[row + 1]))
    }

    /// Returns the items of all lists.
    pub(in crate::functions) fn items(&self) -> &ArrayRef {
        &self.items
    }
}

/// Builds lists from items that are given by their source and index.
pub(in crate::functions) struct ListMaker<'a> {
    function: &'static str,
    sources: Vec<&'a dyn Array>,
    /// The source of each item. Empty if only one source exists.
    origins: Vec<u32>,
    indices: Vec<u32>,
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
    bytes_per_item: u64,
}

impl<'a> ListMaker<'a> {
    /// Creates a maker without lists. The items come from `sources`, which must all have one type.
    pub(in crate::functions) fn new(function: &'static str, sources: &[&'a ArrayRef], rows: usize) -> ListMaker<'a> {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        ListMaker {
            function,
            sources: sources.iter().map(|&source| source.as_ref()).collect(),
            origins: Vec::new(),
            indices: Vec::new(),
            offsets,
            nulls: NullBufferBuilder::new(rows),
            bytes_per_item: sources.iter().map(|source| bytes_per_item(source)).max().unwrap_or(1),
        }
    }

    /// Adds an item to the current list.
    #[inline]
    pub(in crate::functions) fn push(&mut self, source: usize, index: usize) {
        self.add(source, std::iter::once(index as u32));
    }

    /// Adds consecutive items to the current list.
    pub(in crate::functions) fn extend(&mut self, source: usize, items: Range<usize>) {
        self.add(source, items.map(|index| index as u32));
    }

    /// Adds one item repeatedly.
    pub(in crate::functions) fn fill(&mut self, source: usize, index: usize, times: u64) -> Result<()> {
        self.reserve(times)?;
        self.add(source, std::iter::repeat_n(index as u32, times as usize));
        Ok(())
    }

    #[inline(always)]
    fn add(&mut self, source: usize, indices: impl Iterator<Item = u32>) {
        self.indices.extend(indices);
        if self.sources.len() > 1 {
            self.origins.resize(self.indices.len(), source as u32);
        }
    }

    /// Returns an error if `more` further items would exceed the limit.
    pub(in crate::functions) fn reserve(&mut self, more: u64) -> Result<()> {
        check_size(self.function, more.saturating_add(self.indices.len() as u64), self.bytes_per_item)
    }

    /// Ends the current list.
    pub(in crate::functions) fn finish_list(&mut self) {
        self.nulls.append_non_null();
        self.offsets.push(self.indices.len() as i32);
    }

    /// Adds a NULL in place of a list.
    pub(in crate::functions) fn finish_null(&mut self) {
        self.nulls.append_null();
        self.offsets.push(self.indices.len() as i32);
    }

    /// Returns the lists as an array of the list type `kind`.
    pub(in crate::functions) fn finish(mut self, kind: &DataType) -> Result<ArrayRef> {
        // Offsets of lists have 32 bits.
        if i32::try_from(self.indices.len()).is_err() {
            return Err(failed("more items in a batch than a list can address"));
        }
        let items = match self.sources.as_slice() {
            _ if self.indices.is_empty() => new_empty_array(&item_kind(kind).unwrap_or(DataType::Null)),
            [source] => take(*source, &UInt32Array::from(self.indices), None).map_err(failed)?,
            sources => {
                let origins = self.origins.into_iter().zip(self.indices);
                let picks: Vec<(usize, usize)> =
                    origins.map(|(source, index)| (source as usize, index as usize)).collect();
                interleave(sources, &picks).map_err(failed)?
            }
        };
        lists_of(kind, self.offsets, items, self.nulls.finish())
    }
}

/// Makes lists of `items`, divided by `offsets`.
pub(in crate::functions) fn lists_of(
    kind: &DataType,
    offsets: Vec<i32>,
    items: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let DataType::List(field) = kind else { return Err(failed(format!("a list of type {kind}"))) };
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    ListArray::try_new(field.clone(), offsets, items, nulls).map(|lists| Arc::new(lists) as ArrayRef).map_err(failed)
}

/// Returns the average bytes of an item, rounded up.
pub(in crate::functions) fn bytes_per_item(items: &ArrayRef) -> u64 {
    match items.data_type().primitive_width() {
        Some(bytes) => bytes as u64,
        None => items.to_data().get_slice_memory_size().unwrap_or(0) as u64 / items.len().max(1) as u64 + 1,
    }
}

/// Returns an error if `items` items of `bytes_per_item` bytes exceed the limit of a function's result.
pub(in crate::functions) fn check_size(function: &'static str, items: u64, bytes_per_item: u64) -> Result<()> {
    let is_addressable = items < i32::MAX as u64;
    let bytes = if is_addressable { u128::from(items) * u128::from(bytes_per_item) } else { u128::from(u64::MAX) };
    ResultLimit::of(function).check(bytes)
}
