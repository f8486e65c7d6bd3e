//! Writes and reads a column of strings: connects the bytes of strings with the codes of rows.

use arrow::array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow::compute::take;
use rowmill_base::{Error, Result};

use super::fixed_decode::{DecodedRows, read_codes};
use super::head::{Facts, NewSection, SectionKind, StoredZone, assemble};
use super::kinds::Physical;
use super::{Chunk, Encoding, codes, nulls as null_section, zone};
use crate::encoding;
use crate::row_mask::RowMask;
use crate::strings::{
    ByteStrings, Dictionary, StringKind, StringPlan, StringRows, StringWindow, encode_grams, encode_list, encode_rows,
    plan,
};

/// Sets the entry of each string of a window that passes. All entries are false before the call.
pub type StringTest<'t> = dyn FnMut(StringWindow<'_>, &mut [bool]) + 't;

/// The kind of array that strings of this type decode to.
pub(super) fn kind_of(physical: Physical) -> StringKind {
    if physical == Physical::Text { StringKind::Text } else { StringKind::Binary }
}

/// Encodes `array` as a chunk. Returns `None` if the forced encoding does not suit it.
pub(super) fn encode(array: &dyn Array, physical: Physical, forced: Option<Encoding>) -> Result<Option<Vec<u8>>> {
    let strings = ByteStrings::new(array)?;
    let null_count = strings.nulls().map_or(0, |nulls| nulls.null_count());
    let facts = Facts::new(physical, strings.len(), null_count);
    let planned = match forced {
        None => plan(&strings),
        Some(Encoding::Rows) => StringPlan::Rows,
        Some(encoding) if encoding.has_list() || encoding == Encoding::Constant => {
            StringPlan::List(Dictionary::build(&strings))
        }
        Some(_) => return Ok(None),
    };
    match planned {
        StringPlan::Rows => as_rows(&strings, facts).map(Some),
        StringPlan::List(dictionary) => as_list(&dictionary, facts, forced),
    }
}

fn as_rows(strings: &ByteStrings, mut facts: Facts) -> Result<Vec<u8>> {
    facts.encoding = Encoding::Rows;
    facts.zone = zone_of_rows(strings, facts.physical);
    let mut sections = vec![NewSection { kind: SectionKind::Rows, count: strings.len(), bytes: encode_rows(strings)? }];
    sections.extend(strings.nulls().map(null_section::encode));
    Ok(assemble(&facts, sections))
}

fn zone_of_rows(strings: &ByteStrings, physical: Physical) -> Option<StoredZone> {
    let valid = |row: &usize| strings.nulls().is_none_or(|nulls| nulls.is_valid(*row));
    let values = || (0..strings.len()).filter(valid).map(|row| strings.value(row));
    Some(zone::of_strings(values().min()?, values().max()?, physical == Physical::Text))
}

fn as_list(found: &Dictionary<'_>, mut facts: Facts, forced: Option<Encoding>) -> Result<Option<Vec<u8>>> {
    facts.distinct = Some(found.values.len());
    // The dictionary is sorted, so its ends are the bounds.
    if let [low, .., high] | [low @ high] = found.values[..] {
        facts.zone = Some(zone::of_strings(low, high, facts.physical == Physical::Text));
    }
    let list = |found: &Dictionary<'_>| -> Result<NewSection> {
        Ok(NewSection { kind: SectionKind::Values, count: found.values.len(), bytes: encode_list(&found.values)? })
    };
    // One value without NULLs, or only NULLs.
    let same = found.values.len() + usize::from(facts.null_count > 0) <= 1;
    if same && forced.is_none_or(|forced| forced == Encoding::Constant) {
        return Ok(Some(assemble(&facts, vec![list(found)?])));
    }
    let mut counts = found.counts.clone();
    counts.push(facts.null_count as u32);
    let Some(planned) = codes::plan(&found.codes, &counts, forced) else { return Ok(None) };
    let stored = planned.build(&found.codes);
    (facts.encoding, facts.common) = (stored.encoding, stored.common);
    let counts =
        NewSection { kind: SectionKind::Counts, count: found.counts.len(), bytes: encoding::encode(&found.counts) };
    let mut sections = vec![list(found)?, counts];
    sections.extend(stored.sections);
    // Binary strings are rarely searched for parts, so they get no grams.
    if facts.physical == Physical::Text {
        let grams = encode_grams(&found.values);
        sections.extend(grams.map(|grams| NewSection {
            kind: SectionKind::Grams,
            count: grams.bits,
            bytes: grams.bytes,
        }));
    }
    Ok(Some(assemble(&facts, sections)))
}

/// Reads the rows as an array.
pub(super) fn read(chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
    let facts = &chunk.head.facts;
    match facts.encoding {
        Encoding::Constant if facts.null_count > 0 => return Ok(new_null_array(&chunk.kind.arrow(), rows.len())),
        Encoding::Rows => return read_rows(chunk, rows),
        _ => {}
    }
    let codes = read_codes(&chunk.row_codes()?, rows)?;
    if chunk.is_list_decoded() {
        return chunk.string_list()?.views(&codes);
    }
    // The list is not decoded yet: read only the values that these rows use.
    let (values, codes) = chunk.listed(codes)?;
    take(&values, &UInt32Array::from(codes), None).map_err(|error| Error::internal(error.to_string()))
}

fn read_rows(chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
    let (bytes, _) = chunk.section_bytes(SectionKind::Rows)?;
    let (kind, nulls) = (kind_of(chunk.head.facts.physical), chunk.nulls(rows)?);
    let read = StringRows::open(bytes, chunk.rows()).and_then(|stored| match rows {
        DecodedRows::Range(range) => stored.read(range.clone(), kind, nulls.as_ref()),
        DecodedRows::List(rows) => stored.take(rows, kind, nulls.as_ref()),
    });
    read.map_err(|error| chunk.in_section(SectionKind::Rows, error))
}

/// Leaves the rows in `mask` whose string passes `test`, or with `negated` the rows whose string does not. For chunks
/// that store strings in row order. A NULL row has an arbitrary string, so the caller must handle NULLs.
pub(super) fn retain_rows(chunk: &Chunk, mask: &mut RowMask, negated: bool, test: &mut StringTest<'_>) -> Result<()> {
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
