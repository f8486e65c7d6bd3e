//! Storing and reading a column of strings: the glue between the bytes of strings and the codes of rows.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, BinaryViewBuilder, StringViewBuilder, UInt32Array, new_null_array};
use arrow::compute::take;
use rowmill_base::{Error, Result};

use super::fixed_decode::{Rows, read_codes};
use super::head::{Facts, NewSection, SectionKind, StoredZone, assemble};
use super::kinds::Physical;
use super::{Chunk, Encoding, codes, nulls as null_section, zone};
use crate::encoding;
use crate::strings::{ByteStrings, Dictionary, StringKind, StringPlan, StringRows, encode_list, encode_rows, plan};

/// What strings of this type come out as.
pub(super) fn kind_of(physical: Physical) -> StringKind {
    if physical == Physical::Text { StringKind::Text } else { StringKind::Binary }
}

/// The chunk of `array`, or `None` if the forced encoding does not suit it.
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
    if let [low, .., high] | [low @ high] = found.values[..] {
        facts.zone = Some(zone::of_strings(low, high, facts.physical == Physical::Text));
    }
    let list = |found: &Dictionary<'_>| -> Result<NewSection> {
        Ok(NewSection { kind: SectionKind::Values, count: found.values.len(), bytes: encode_list(&found.values)? })
    };
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
    Ok(Some(assemble(&facts, sections)))
}

/// The rows as an array.
pub(super) fn read(chunk: &Chunk, rows: Rows<'_>) -> Result<ArrayRef> {
    let facts = &chunk.head.facts;
    match facts.encoding {
        Encoding::Constant if facts.null_count > 0 => return Ok(new_null_array(&chunk.kind.arrow(), rows.len())),
        Encoding::Rows => return read_rows(chunk, rows),
        _ => {}
    }
    let codes = read_codes(&chunk.row_codes()?, rows)?;
    if !is_list_wanted(chunk, rows.len()) {
        return look_up(chunk, &codes).map_err(|error| chunk.in_section(SectionKind::Values, error));
    }
    chunk.string_list()?.views(&codes)
}

fn read_rows(chunk: &Chunk, rows: Rows<'_>) -> Result<ArrayRef> {
    let (bytes, _) = chunk.section_bytes(SectionKind::Rows)?;
    let (kind, nulls) = (kind_of(chunk.head.facts.physical), chunk.nulls(rows)?);
    let read = StringRows::open(bytes, chunk.rows()).and_then(|stored| match rows {
        Rows::Range(range) => stored.read(range.clone(), kind, nulls.as_ref()),
        Rows::List(rows) => stored.take(rows, kind, nulls.as_ref()),
    });
    read.map_err(|error| chunk.in_section(SectionKind::Rows, error))
}

/// Whether the whole list should be decoded to read so many rows, or is already.
///
/// Looking a string up takes a few times as long as decoding it with its neighbours. So the first rows are looked up, for
/// a query that wants only those, and once so many were that decoding would have cost as much, the list is decoded.
fn is_list_wanted(chunk: &Chunk, rows: usize) -> bool {
    let looked_up = chunk.looked_up.fetch_add(rows, Ordering::Relaxed);
    chunk.strings.get().is_some() || (looked_up + rows) * LOOK_UP_COST > chunk.distinct().unwrap_or_default()
}

/// Strings that are decoded with their neighbours in the time that one is looked up.
const LOOK_UP_COST: usize = 4;

fn look_up(chunk: &Chunk, codes: &[u32]) -> Result<ArrayRef> {
    let list = chunk.stored_strings()?;
    let mut wanted: Vec<u32> = codes.iter().copied().filter(|code| (*code as usize) < list.len()).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut text = StringViewBuilder::new();
    let mut blob = BinaryViewBuilder::new();
    let mut bytes = Vec::new();
    for code in &wanted {
        bytes.clear();
        list.get(*code as usize, &mut bytes)?;
        match kind_of(chunk.head.facts.physical) {
            StringKind::Text => text.append_value(
                std::str::from_utf8(&bytes).map_err(|_| Error::corrupt(format!("value {code} is not UTF-8")))?,
            ),
            StringKind::Binary => blob.append_value(&bytes),
        }
    }
    let found: ArrayRef = match kind_of(chunk.head.facts.physical) {
        StringKind::Text => Arc::new(text.finish()),
        StringKind::Binary => Arc::new(blob.finish()),
    };
    let places = UInt32Array::from_iter(codes.iter().map(|code| Some(wanted.binary_search(code).ok()? as u32)));
    take(&found, &places, None).map_err(|error| Error::internal(format!("rows of looked-up strings: {error}")))
}
