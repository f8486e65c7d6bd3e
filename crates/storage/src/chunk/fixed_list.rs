//! The value list of a type with a fixed size: decoded as a whole or in part, and searched without decoding it.

use std::ops::Range;
use std::sync::OnceLock;

use arrow::array::ArrayRef;
use arrow::buffer::Buffer;
use arrow::datatypes::ArrowNativeType;
use rowmill_base::Result;

use super::Chunk;
use super::borders::Borders;
use super::even_steps::EvenSteps;
use super::head::SectionKind;
use super::kinds::Kind;
use super::stored_keys::{DecodedRows, Scale, append_keys, constant_key, low_scale};
use crate::encoding::ListPlace;
use crate::sequence::{Ints, Word};

/// A decoded value list.
#[derive(Debug)]
pub(crate) struct FixedList {
    /// The values, and one more for NULL, so that looking up the code of NULL stays within the list.
    natives: Buffer,
    /// The values, in the same memory.
    pub(super) array: ArrayRef,
    steps: OnceLock<Option<EvenSteps>>,
}

impl FixedList {
    /// The values, and one more for NULL.
    pub(crate) fn natives<K: Kind>(&self) -> &[K::Native] {
        self.natives.typed_data()
    }

    /// The steps between the values, which must be integers. `None` if they are not evenly spaced.
    pub(crate) fn steps<K: Kind>(&self) -> Option<EvenSteps> {
        let values = &self.natives::<K>()[..self.array.len()];
        *self.steps.get_or_init(|| EvenSteps::of(values.iter().map(|value| value.as_usize() as i64)))
    }
}

/// The low 64 bits of the values of a list of decimals.
#[derive(Debug)]
pub(crate) struct LowWords {
    pub(crate) words: Vec<i64>,
    /// `None` if the words are not evenly spaced.
    pub(crate) steps: Option<EvenSteps>,
}

/// The memory that [`list`] takes, in bytes.
pub(super) fn list_bytes<K: Kind>(chunk: &Chunk) -> usize {
    let values = chunk.distinct().unwrap_or_default().min(chunk.rows());
    (values + 1) * size_of::<K::Native>()
}

/// Decodes the distinct values.
pub(super) fn list<K: Kind>(chunk: &Chunk) -> Result<FixedList> {
    let mut natives = Vec::new();
    match chunk.list_place() {
        ListPlace::Head if chunk.null_count() < chunk.rows() => natives.push(K::native(constant_key::<K>(chunk))),
        ListPlace::Head => {}
        _ => {
            let values = chunk.ints(SectionKind::Values)?;
            natives.reserve_exact(values.len() + 1);
            append_keys::<K, _>(chunk, values, DecodedRows::Range(&(0..values.len())), &mut natives, K::native)?;
        }
    }
    let value_bytes = natives.len() * size_of::<K::Native>();
    // This last native is for the code of NULL. The array must not include it.
    natives.push(K::Native::default());
    let natives = Buffer::from_vec(natives);
    let array = K::array(natives.slice_with_length(0, value_bytes), None, &chunk.kind.arrow())?;
    Ok(FixedList { natives, array, steps: OnceLock::new() })
}

/// Decodes the values of a range of codes.
pub(super) fn list_slice<K: Kind>(chunk: &Chunk, codes: Range<usize>) -> Result<ArrayRef> {
    some_of::<K>(chunk, DecodedRows::Range(&codes))
}

/// Decodes the values of `codes`, which must ascend.
pub(super) fn picked_list<K: Kind>(chunk: &Chunk, codes: &[u32]) -> Result<ArrayRef> {
    some_of::<K>(chunk, DecodedRows::List(codes))
}

fn some_of<K: Kind>(chunk: &Chunk, codes: DecodedRows<'_>) -> Result<ArrayRef> {
    let values = chunk.ints(SectionKind::Values)?;
    chunk.check_list(values.len())?;
    let mut natives = Vec::with_capacity(codes.len());
    append_keys::<K, _>(chunk, values, codes, &mut natives, K::native)?;
    K::array(Buffer::from_vec(natives), None, &chunk.kind.arrow())
}

/// The places of `keys` in the value list, which must not be empty. Decodes only the values that the search meets.
pub(super) fn places<K: Kind>(chunk: &Chunk, keys: &Borders<u128>) -> Result<Borders<u32>> {
    if chunk.list_place() == ListPlace::Head {
        let is_in = keys.contains(&constant_key::<K>(chunk).widen());
        return Ok(if is_in { Borders::all() } else { Borders::none() });
    }
    let values = chunk.ints(SectionKind::Values)?;
    chunk.check_list(values.len())?;
    let scale = Scale::<K::Key>::of(chunk);
    let end = values.len() as u32;
    let mut search = values.search();
    keys.try_map(&end, |key| match scale.stored_from(*key) {
        // No stored value is that large, so the border is after the last one.
        Some(stored) => search.lower_bound(stored).map(|place| place as u32),
        None => Ok(end),
    })
}

/// Decodes the low words of a list of decimals.
pub(super) fn low_words(chunk: &Chunk, values: Ints<'_>) -> Result<LowWords> {
    let scale = low_scale(chunk);
    let mut words = Vec::with_capacity(values.len());
    values.for_each(0..values.len(), |stored| scale.apply(stored, &mut words, |key| key as i64))?;
    Ok(LowWords { steps: EvenSteps::of(words.iter().copied()), words })
}
