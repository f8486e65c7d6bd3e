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
//! code per row. See [`Encoding`] for the other forms. [`encode`] measures and chooses (`choice.rs` explains how).
//!
//! [`Chunk::open`] checks the head. The first access to anything else checks every checksum. Even then we do not trust
//! the bytes: lengths and offsets are checked where they are used. So crafted bytes may give an error or wrong values,
//! but must never cause a panic, nor take more memory than a genuine chunk of that many rows.

mod borders;
mod bytes;
mod check;
mod choice;
mod code_set;
mod codes;
mod decimals;
mod distinct;
mod filter;
mod fixed_decode;
mod fixed_encode;
mod head;
mod kinds;
mod nested;
mod nulls;
mod open;
mod pick;
mod read_meter;
mod slice;
mod text;
mod value_set;
mod zone;

#[cfg(test)]
mod bench;
#[cfg(test)]
mod conformance;

use arrow::array::Array;
use rowmill_base::{Error, Result, SqlType};

pub use bytes::ChunkBytes;
pub use code_set::CodeSet;
pub use filter::Verdict;
pub(crate) use head::set_owner;
pub use open::{Chunk, ChunkHead};
pub use read_meter::ReadMeter;
pub use text::StringTest;
pub use value_set::ValueSet;
pub use zone::{Zone, ZoneBound};

use kinds::{Physical, with_kind};

/// The maximum number of rows of a chunk.
pub const ROWS_MAX: usize = crate::ROWS_PER_BLOCK_MAX;

/// How a chunk stores its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// All rows are the same value, or all are NULL.
    Constant = 0,
    /// A value list and a bit-packed code per row.
    ListCodes = 1,
    /// A value list and runs of codes.
    ListRuns = 2,
    /// A value list, the rows that do not have the most common code, and the codes of these rows.
    ListRows = 3,
    /// Bit-packed distances from the least value of each vector of 1,024.
    Frame = 4,
    /// Bit-packed steps from value to value, with a new base every 1,024.
    Delta = 5,
    /// The values themselves.
    Plain = 6,
    /// Floats as integers over a power of ten, with exceptions.
    Decimal = 7,
    /// Strings in row order.
    Rows = 8,
    /// Chunks within the chunk, for lists and structs.
    Nested = 9,
}

impl Encoding {
    /// All encodings.
    pub const ALL: [Encoding; 10] = [
        Encoding::Constant,
        Encoding::ListCodes,
        Encoding::ListRuns,
        Encoding::ListRows,
        Encoding::Frame,
        Encoding::Delta,
        Encoding::Plain,
        Encoding::Decimal,
        Encoding::Rows,
        Encoding::Nested,
    ];

    fn from_number(number: u8) -> Option<Encoding> {
        Encoding::ALL.into_iter().find(|encoding| *encoding as u8 == number)
    }

    /// The name that reports show.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Constant => "constant",
            Encoding::ListCodes => "list+codes",
            Encoding::ListRuns => "list+runs",
            Encoding::ListRows => "list+rows",
            Encoding::Frame => "frame",
            Encoding::Delta => "delta",
            Encoding::Plain => "plain",
            Encoding::Decimal => "decimal",
            Encoding::Rows => "rows",
            Encoding::Nested => "nested",
        }
    }

    /// Whether rows are codes into a value list that has its own section.
    fn has_list(self) -> bool {
        matches!(self, Encoding::ListCodes | Encoding::ListRuns | Encoding::ListRows)
    }
}

/// Encodes a column as a chunk, in the encoding that suits it best. `column` must have the Arrow type of `kind` and at
/// most [`ROWS_MAX`] rows.
pub fn encode(column: &dyn Array, kind: &SqlType) -> Result<Vec<u8>> {
    encode_as(column, kind, None)?.ok_or_else(|| Error::internal(format!("no encoding suits a column of {kind}")))
}

/// Encodes a column as a chunk. With `forced`, only that encoding is allowed, and `None` means that it does not suit
/// the column.
fn encode_as(column: &dyn Array, kind: &SqlType, forced: Option<Encoding>) -> Result<Option<Vec<u8>>> {
    if *column.data_type() != kind.arrow() || column.len() > ROWS_MAX {
        // Everything below relies on the type and on the maximum number of rows.
        let (rows, found) = (column.len(), column.data_type());
        return Err(Error::internal(format!("{rows} rows of {found} cannot be stored as a chunk of {kind}")));
    }
    match Physical::of(kind) {
        Physical::Float32 => fixed_encode::encode_floats::<kinds::Float32>(column, Physical::Float32, forced),
        Physical::Float64 => fixed_encode::encode_floats::<kinds::Float64>(column, Physical::Float64, forced),
        physical @ (Physical::Text | Physical::Blob) => text::encode(column, physical, forced),
        Physical::Nested => match forced {
            None | Some(Encoding::Nested) => nested::encode(column, kind).map(Some),
            Some(_) => Ok(None),
        },
        physical => with_kind!(
            physical,
            K => fixed_encode::encode::<K>(column, physical, None, forced),
            else Err(Error::internal(format!("{kind} has no fixed size")))
        ),
    }
}
