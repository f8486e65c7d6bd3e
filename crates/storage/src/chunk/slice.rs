//! Reads neighbouring values of a value list without the rest of it. For work that goes through the lists of many
//! blocks together, from the least value to the greatest. Nothing is kept, so only the requested values need memory.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::concat;
use rowmill_base::{Error, Result};

use super::head::SectionKind;
use super::kinds::{Physical, with_kind};
use super::stored_keys::DecodedRows;
use super::{Chunk, fixed_list};
use crate::encoding::ListPlace;

impl Chunk {
    /// The values of a range of codes, ascending. The last code may be the code of NULL, which equals the number of
    /// values. Returns an error if the encoding has no value list.
    pub fn values_in(&self, codes: Range<usize>) -> Result<ArrayRef> {
        let values = self.check_codes(&codes)?;
        self.count_decoded(codes.len());
        // The code of NULL is not in the list, so it is added afterwards.
        let found = self.finished(self.listed_in(codes.start.min(values)..codes.end.min(values))?)?;
        if codes.end <= values || codes.is_empty() {
            return Ok(found);
        }
        let null = new_null_array(found.data_type(), 1);
        concat(&[&found as &dyn Array, &null]).map_err(|error| Error::internal(error.to_string()))
    }

    /// The number of rows of each of a range of codes, which may end with the code of NULL like that of
    /// [`Chunk::values_in`].
    pub fn counts_in(&self, codes: Range<usize>) -> Result<Vec<u32>> {
        let values = self.check_codes(&codes)?;
        let listed = codes.start.min(values)..codes.end.min(values);
        let mut counts = Vec::with_capacity(codes.len());
        self.encoding().counts(self, DecodedRows::Range(&listed), &mut |piece| counts.extend_from_slice(piece))?;
        if codes.end > values && !codes.is_empty() {
            counts.push(self.null_count() as u32);
        }
        Ok(counts)
    }

    /// Estimates the memory in bytes that an array of `values` values of the list takes.
    pub fn value_bytes(&self, values: usize) -> Result<usize> {
        if !self.is_string() {
            return Ok(values * size_of::<u128>());
        }
        let list = self.stored_strings()?;
        Ok((list.memory_bytes() as u64 * values as u64 / list.len().max(1) as u64) as usize)
    }

    /// Checks that `codes` is within the codes of the chunk, and returns the number of listed values.
    fn check_codes(&self, codes: &Range<usize>) -> Result<usize> {
        let values = self.distinct().filter(|_| self.has_values()).ok_or_else(|| self.unsuited())?;
        let known = values + usize::from(self.null_count() > 0);
        match codes.start <= codes.end && codes.end <= known {
            true => Ok(values),
            false => Err(Error::internal(format!("codes {codes:?} are outside of a chunk with {known} codes"))),
        }
    }

    fn listed_in(&self, codes: Range<usize>) -> Result<ArrayRef> {
        if self.list_place() == ListPlace::Head || self.is_list_decoded() {
            let values = self.values()?.ok_or_else(|| self.unsuited())?;
            return Ok(values.slice(codes.start, codes.len()));
        }
        match self.head.facts.physical {
            Physical::Text | Physical::Blob | Physical::Wide => {
                let list = self.stored_strings()?.decode_range(codes, self.string_kind()?);
                list.map(|list| list.array().clone()).map_err(|error| self.in_section(SectionKind::Values, error))
            }
            physical => with_kind!(
                physical,
                K => fixed_list::list_slice::<K>(self, codes),
                else Err(self.unsuited())
            ),
        }
    }
}
