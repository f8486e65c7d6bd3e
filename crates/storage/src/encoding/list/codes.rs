//! A value list and a bit-packed code per row.

use rowmill_base::Result;

use super::new_list::{NewCodes, StoredCodes};
use super::retain_packed;
use crate::chunk::{Chunk, CodeSet, DecodedRows, NewSection, Physical, SectionKind, for_each_of};
use crate::encoding::scaled::each_width;
use crate::encoding::{Analysis, Cheapest, Encoding, ListPlace, NewColumn};
use crate::row_mask::RowMask;
use crate::sequence::{self, SequenceLayout, frame_bytes};

pub(in crate::encoding) struct ListCodes;

impl Encoding for ListCodes {
    fn number(&self) -> u8 {
        1
    }

    fn name(&self) -> &'static str {
        "list+codes"
    }

    fn analyse(&self, column: &NewColumn<'_>, _: &Cheapest) -> Result<Option<Analysis>> {
        let Some(codes) = column.codes() else { return Ok(None) };
        let bytes = each_width!(&codes.words, words => frame_bytes(words)).expect("a code has 32 bits at most");
        Ok(Some(codes.packed(bytes, pack)))
    }

    fn list_place(&self, _: Physical) -> ListPlace {
        ListPlace::Section
    }

    fn has_code_per_row(&self) -> bool {
        true
    }

    fn codes(&self, chunk: &Chunk, rows: DecodedRows<'_>, each: &mut dyn FnMut(&[u32])) -> Result<()> {
        for_each_of(chunk.ints(SectionKind::Codes)?, rows, each)
    }

    fn retain_codes(&self, chunk: &Chunk, set: &CodeSet, mask: &mut RowMask) -> Result<()> {
        retain_packed(chunk.ints(SectionKind::Codes)?, set, mask)
    }
}

fn pack(codes: &NewCodes) -> StoredCodes {
    let bytes = each_width!(&codes.words, words => sequence::encode_as(SequenceLayout::Frame, words));
    let bytes = bytes.expect("a code has 32 bits at most");
    StoredCodes { common: 0, sections: vec![NewSection { kind: SectionKind::Codes, count: codes.len(), bytes }] }
}
