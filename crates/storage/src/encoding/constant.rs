//! One value in all rows, or NULL in all rows. A value of a fixed size is the base in the head, and the chunk has no
//! sections. A string is the only value of a value list.

use arrow::array::{ArrayRef, new_null_array};
use arrow::buffer::Buffer;
use arrow::datatypes::ArrowNativeType;
use rowmill_base::Result;

use super::{Analysis, Cheapest, Encoding, ListPlace, NewColumn, list};
use crate::chunk::{Chunk, CodeSet, DecodedRows, Facts, Kind, Physical, constant_key, with_kind};
use crate::row_mask::RowMask;

pub(super) struct Constant;

/// Codes handed out at a time. They take 64 KiB, a sixteenth of the second-level cache.
const PIECE_ROWS: usize = 16 << 10;

impl Encoding for Constant {
    fn number(&self) -> u8 {
        0
    }

    fn name(&self) -> &'static str {
        "constant"
    }

    fn analyse(&self, column: &NewColumn<'_>, _: &Cheapest) -> Result<Option<Analysis>> {
        // A single value with some NULLs is not constant: it needs to know which rows are NULL.
        Ok(column.is_constant().then(|| {
            Analysis::of(0, 0, |column| match column {
                NewColumn::Strings(strings) => strings.constant(),
                NewColumn::Fixed(column) => Ok(column.constant()),
                NewColumn::Nested { .. } => unreachable!("lists and structs are never constant"),
            })
        }))
    }

    fn list_place(&self, physical: Physical) -> ListPlace {
        match physical {
            // Never written, but a damaged head may claim it.
            Physical::Nested => ListPlace::Missing,
            Physical::Text | Physical::Blob | Physical::Wide => ListPlace::Section,
            _ => ListPlace::Head,
        }
    }

    fn fits(&self, facts: &Facts) -> bool {
        let no_or_all_nulls = facts.null_count == 0 || facts.null_count == facts.rows;
        facts.distinct.is_some_and(|distinct| distinct <= 1) && no_or_all_nulls
    }

    fn read(&self, chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
        let kind = chunk.stored_kind().arrow();
        if chunk.null_count() > 0 {
            return Ok(new_null_array(&kind, rows.len()));
        }
        match chunk.physical() {
            Physical::Text | Physical::Blob | Physical::Wide => list::read(chunk, rows),
            physical => with_kind!(
                physical,
                K => K::array(Buffer::from_vec(vec![K::native(constant_key::<K>(chunk)); rows.len()]), None, &kind),
                else Err(chunk.unsuited())
            ),
        }
    }

    fn integers(&self, chunk: &Chunk, rows: DecodedRows<'_>, out: &mut Vec<i64>) -> Result<()> {
        let value = with_kind!(
            chunk.physical(),
            K => K::native(constant_key::<K>(chunk)).as_usize() as i64,
            else return Err(chunk.unsuited())
        );
        out.resize(out.len() + rows.len(), if chunk.null_count() > 0 { 0 } else { value });
        Ok(())
    }

    fn codes(&self, _: &Chunk, rows: DecodedRows<'_>, each: &mut dyn FnMut(&[u32])) -> Result<()> {
        repeat(0, rows.len(), each);
        Ok(())
    }

    fn retain_codes(&self, _: &Chunk, set: &CodeSet, mask: &mut RowMask) -> Result<()> {
        if !set.contains(0) {
            mask.clear();
        }
        Ok(())
    }

    fn counts(&self, chunk: &Chunk, codes: DecodedRows<'_>, each: &mut dyn FnMut(&[u32])) -> Result<()> {
        repeat((chunk.rows() - chunk.null_count()) as u32, codes.len(), each);
        Ok(())
    }
}

/// Calls `each` with `number` as often as `times` says.
fn repeat(number: u32, times: usize, each: &mut dyn FnMut(&[u32])) {
    let buffer = vec![number; times.min(PIECE_ROWS)];
    (0..times).step_by(PIECE_ROWS).for_each(|start| each(&buffer[..PIECE_ROWS.min(times - start)]));
}
