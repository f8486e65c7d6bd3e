//! The values of a fixed size in the order of rows, as one sequence of integers: plain, as distances from a base, or as
//! steps from value to value. Three encodings, one for each layout of a sequence.

use arrow::array::ArrayRef;
use arrow::buffer::Buffer;
use rowmill_base::Result;

use super::{Analysis, Cheapest, Encoding, NewColumn};
use crate::chunk::{Borders, Chunk, DecodedRows, Kind, append_integers, read_stored, retain_stored, with_kind};
use crate::row_mask::RowMask;
use crate::sequence::SequenceLayout;

/// An encoding that is one sequence.
pub(super) struct RowSequence {
    number: u8,
    name: &'static str,
    layout: SequenceLayout,
    /// The price, in hundredths.
    hundredths: usize,
}

/// Bit-packed distances from the least value of each vector of 1,024. They unpack at memory speed.
pub(super) static FRAME: RowSequence =
    RowSequence { number: 4, name: "frame", layout: SequenceLayout::Frame, hundredths: 100 };
/// Bit-packed steps from value to value, with a new base every 1,024. The price is high because a row needs all rows of
/// its vector before it.
pub(super) static DELTA: RowSequence =
    RowSequence { number: 5, name: "delta", layout: SequenceLayout::Delta, hundredths: 110 };
/// The values themselves, which are only copied. A saving that is smaller than the discount is not worth unpacking.
pub(super) static PLAIN: RowSequence =
    RowSequence { number: 6, name: "plain", layout: SequenceLayout::Plain, hundredths: 97 };

impl Encoding for RowSequence {
    fn number(&self) -> u8 {
        self.number
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn analyse(&self, column: &NewColumn<'_>, _: &Cheapest) -> Result<Option<Analysis>> {
        let NewColumn::Fixed(column) = column else { return Ok(None) };
        let layout = self.layout;
        Ok(column.scaled.words.bytes_as(layout).map(|bytes| {
            Analysis::of(bytes + column.valid_bytes(), self.hundredths, move |column| {
                let column = column.into_fixed();
                let rows = column.scaled.words.rows_as(layout);
                let scale = (column.scaled.base, column.scaled.factor);
                Ok(column.in_row_order(rows, scale, []))
            })
        }))
    }

    fn read(&self, chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
        with_kind!(
            chunk.physical(),
            K => {
                let natives = read_stored::<K, _>(chunk, rows, K::native)?;
                K::array(Buffer::from_vec(natives), chunk.nulls(rows)?, &chunk.stored_kind().arrow())
            },
            else Err(chunk.unsuited())
        )
    }

    fn integers(&self, chunk: &Chunk, rows: DecodedRows<'_>, out: &mut Vec<i64>) -> Result<()> {
        with_kind!(chunk.physical(), K => append_integers::<K>(chunk, rows, out), else Err(chunk.unsuited()))
    }

    fn retain_keys(&self, chunk: &Chunk, keys: &Borders<u128>, mask: &mut RowMask) -> Result<()> {
        with_kind!(chunk.physical(), K => retain_stored::<K>(chunk, keys, mask), else Err(chunk.unsuited()))
    }
}
