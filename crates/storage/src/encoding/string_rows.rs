//! Strings in the order of rows, for columns in which hardly any string repeats.

use arrow::array::ArrayRef;
use rowmill_base::Result;

use super::{Analysis, Cheapest, Encoding, NewColumn};
use crate::chunk::{Chunk, DecodedRows, SectionKind, StringTest};
use crate::row_mask::RowMask;
use crate::strings::StringRows;

pub(super) struct StringsInRowOrder;

impl Encoding for StringsInRowOrder {
    fn number(&self) -> u8 {
        8
    }

    fn name(&self) -> &'static str {
        "rows"
    }

    fn analyse(&self, column: &NewColumn<'_>, _: &Cheapest) -> Result<Option<Analysis>> {
        // The plan of the strings has compared this encoding with a value list already.
        let NewColumn::Strings(strings) = column else { return Ok(None) };
        Ok((!strings.has_list()).then(|| {
            Analysis::of(strings.strings.len(), 100, |column| match column {
                NewColumn::Strings(strings) => strings.in_row_order(),
                _ => unreachable!("strings were analysed"),
            })
        }))
    }

    fn read(&self, chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
        let kind = chunk.string_kind()?;
        let (bytes, _) = chunk.section_bytes(SectionKind::Rows)?;
        let nulls = chunk.nulls(rows)?;
        let read = StringRows::open(bytes, chunk.rows()).and_then(|stored| match rows {
            DecodedRows::Range(range) => stored.read(range.clone(), kind, nulls.as_ref()),
            DecodedRows::List(rows) => stored.take(rows, kind, nulls.as_ref()),
        });
        read.map_err(|error| chunk.in_section(SectionKind::Rows, error))
    }

    fn retain_strings(
        &self,
        chunk: &Chunk,
        negated: bool,
        test: &mut StringTest<'_>,
        mask: &mut RowMask,
    ) -> Result<()> {
        let (bytes, _) = chunk.section_bytes(SectionKind::Rows)?;
        let extent = mask.extent();
        let mut truth = Vec::new();
        let read = StringRows::open(bytes, chunk.rows()).and_then(|stored| {
            // Windows cover the whole extent, so rows outside the mask are tested too. Removing them again is harmless.
            stored.for_each_window(extent.clone(), |window| {
                truth.clear();
                truth.resize(window.len(), false);
                test(window, &mut truth);
                let first = extent.start + window.first();
                let out = truth.iter().enumerate().filter(|(_, passed)| **passed == negated);
                out.for_each(|(row, _)| mask.remove(first + row));
                Ok(())
            })
        });
        read.map_err(|error| chunk.in_section(SectionKind::Rows, error))
    }
}
