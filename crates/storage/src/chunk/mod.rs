//! The chunk: one column of one block, as a self-contained sequence of bytes.
//!
//! ```text
//!   head                                     body
//!   ┌────────────────┬──────┬──────────────┬─┬───────────┬─────────┬──────────┬─ ─ ─ ─ ─ ┐
//!   │ encoding, type │ zone │ offset of    │C│ value     │ rows of │ code per │ padding
//!   │ rows, NULLs    │ map  │ each section │ │ list      │ each    │ row      │ (zero)   │
//!   └────────────────┴──────┴──────────────┴─┴───────────┴─────────┴──────────┴─ ─ ─ ─ ─ ┘
//!                                           C: a CRC-32 per 64 KiB of the body
//! ```
//!
//! If values repeat enough, a chunk stores its distinct values once, in order, with the number of rows of each, and a
//! code per row. [`encode`] measures this and the other encodings (`encoding/mod.rs` lists them) and chooses.
//!
//! [`Chunk::open`] checks the head. The first access to anything else checks every checksum. Even then we do not trust
//! the bytes: lengths and offsets are checked where they are used. So crafted bytes may give an error or wrong values,
//! but must never cause a panic, nor take more memory than a genuine chunk of that many rows.

mod borders;
mod bytes;
mod check;
mod code_set;
mod even_steps;
mod filter;
mod fixed_list;
mod head;
pub(crate) mod kinds;
pub(crate) mod nulls;
mod open;
mod pick;
mod read_meter;
mod slice;
pub(crate) mod stored_keys;
mod value_set;
pub(crate) mod zone;

#[cfg(test)]
mod bench;
#[cfg(test)]
mod conformance;

use arrow::array::{Array, ArrayRef};
use rowmill_base::{Error, Result, SqlType};

pub use bytes::ChunkBytes;
pub use code_set::CodeSet;
pub use filter::{StringTest, Verdict};
pub(crate) use head::set_owner;
pub use open::{Chunk, ChunkHead};
pub use read_meter::ReadMeter;
pub use value_set::ValueSet;
pub use zone::{Zone, ZoneBound};

// For the encodings.
pub(crate) use borders::Borders;
pub(crate) use head::{Facts, NewSection, SectionKind, StoredZone, assemble};
pub(crate) use kinds::{FloatKind, Kind, Physical, with_kind};
pub(crate) use nulls as null_section;
pub(crate) use stored_keys::{DecodedRows, append_integers, constant_key, for_each_of, read_stored, retain_stored};

use crate::encoding::{EncodingRef, FixedColumn, NewColumn, StringColumn, encode_cheapest, encode_documents};
use crate::strings::ByteStrings;
use crate::wide;

/// The maximum number of rows of a chunk.
pub const ROWS_MAX: usize = crate::ROWS_PER_BLOCK_MAX;

/// Encodes a column as a chunk, in the encoding that suits it best. `column` must have the Arrow type of `kind` and at
/// most [`ROWS_MAX`] rows.
pub fn encode(column: &dyn Array, kind: &SqlType) -> Result<Vec<u8>> {
    encode_as(column, kind, None)?.ok_or_else(|| Error::internal(format!("no encoding suits a column of {kind}")))
}

/// Encodes a column of a sealed block as a chunk, like [`encode`], but stores documents by path. May use `threads`
/// workers.
pub(crate) fn encode_sealed(column: ArrayRef, kind: &SqlType, threads: usize) -> Result<Vec<u8>> {
    match *kind == SqlType::Json && *column.data_type() == kind.arrow() && column.len() <= ROWS_MAX {
        true => encode_documents(column, threads),
        false => encode(&column, kind),
    }
}

/// Encodes a column as a chunk. With `forced`, only that encoding is allowed, and `None` means that it does not suit
/// the column.
fn encode_as(column: &dyn Array, kind: &SqlType, forced: Option<EncodingRef>) -> Result<Option<Vec<u8>>> {
    if *column.data_type() != kind.arrow() || column.len() > ROWS_MAX {
        // Everything below relies on the type and on the maximum number of rows.
        let (rows, found) = (column.len(), column.data_type());
        return Err(Error::internal(format!("{rows} rows of {found} cannot be stored as a chunk of {kind}")));
    }
    match Physical::of(kind) {
        physical @ (Physical::Text | Physical::Blob) => {
            let strings = ByteStrings::new(column)?;
            encode_cheapest(NewColumn::Strings(Box::new(StringColumn::new(&strings, physical, forced))), forced)
        }
        Physical::Wide => {
            if let Some(narrow) = wide::narrowed(column) {
                let column = FixedColumn::new::<kinds::Decimal>(&narrow, Physical::Decimal, forced.is_some())?;
                if let Some(bytes) = encode_cheapest(NewColumn::Fixed(Box::new(column)), forced)? {
                    return Ok(Some(bytes));
                }
            }
            let strings = ByteStrings::new(&wide::compact_strings(column)?)?;
            encode_cheapest(NewColumn::Strings(Box::new(StringColumn::new(&strings, Physical::Wide, forced))), forced)
        }
        Physical::Nested => encode_cheapest(NewColumn::Nested { array: column, kind }, forced),
        physical => {
            let column = with_kind!(
                physical,
                K => FixedColumn::new::<K>(column, physical, forced.is_some())?,
                else return Err(Error::internal(format!("{kind} has no fixed size")))
            );
            encode_cheapest(NewColumn::Fixed(Box::new(column)), forced)
        }
    }
}
