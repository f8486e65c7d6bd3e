//! Lists and structs are stored as chunks within the chunk.
//!
//! A struct has one chunk per field, and each has as many rows as the struct. A list has the end of each row's items,
//! and the items of all rows one after another, in chunks of [`ROWS_MAX`] items (the last one may be shorter). So some
//! rows can be read without the others, and the inner chunks can use every encoding. A section of the outer chunk says
//! which rows are NULL. For such a row the content of the inner chunks is arbitrary. JSON has one inner chunk, of its
//! texts.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray, new_empty_array};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result, SqlType};

use super::choice::EncodedColumn;
use super::{Analysis, Cheapest, Encoding, NewColumn, documents};
use crate::chunk::{self, Chunk, DecodedRows, Facts, NewSection, Physical, ROWS_MAX, SectionKind, null_section};
use crate::sequence;

pub(super) struct Nested;

impl Encoding for Nested {
    fn number(&self) -> u8 {
        9
    }

    fn name(&self) -> &'static str {
        "nested"
    }

    fn analyse(&self, column: &NewColumn<'_>, _: &Cheapest) -> Result<Option<Analysis>> {
        let NewColumn::Nested { array, .. } = column else { return Ok(None) };
        // Lists and structs have no other encoding, so the price does not matter.
        Ok(Some(Analysis::of(array.len(), 100, |column| match column {
            NewColumn::Nested { array, kind } => encode(array, kind),
            _ => unreachable!("a list or struct was analysed"),
        })))
    }

    fn read(&self, chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
        match chunk.physical() {
            Physical::Nested => read(chunk, rows),
            _ => Err(chunk.unsuited()),
        }
    }
}

fn encode(array: &dyn Array, kind: &SqlType) -> Result<EncodedColumn> {
    let mut sections: Vec<NewSection> = array.nulls().map(null_section::encode).into_iter().collect();
    let mut inner = |array: &dyn Array, kind: &SqlType| {
        let bytes = chunk::encode(array, kind)?;
        sections.push(NewSection { kind: SectionKind::Inner, count: array.len(), bytes });
        Ok::<(), Error>(())
    };
    match kind {
        SqlType::Struct(fields) => {
            for (column, (_, kind)) in array.as_struct().columns().iter().zip(fields) {
                inner(column, kind)?;
            }
        }
        SqlType::Json => inner(array.as_struct().column(0), &SqlType::TEXT)?,
        SqlType::List(kind) => {
            let list = array.as_list::<i32>();
            // The array may be a slice of a larger one, so its offsets need not start at 0.
            let (first, last) = (list.value_offsets()[0], list.value_offsets()[list.len()]);
            let items = list.values().slice(first as usize, (last - first) as usize);
            for start in (0..items.len()).step_by(ROWS_MAX) {
                inner(&items.slice(start, ROWS_MAX.min(items.len() - start)), kind)?;
            }
            let ends: Vec<u32> = list.value_offsets()[1..].iter().map(|end| (end - first) as u32).collect();
            sections.push(NewSection {
                kind: SectionKind::ListEnds,
                count: ends.len(),
                bytes: sequence::encode(&ends),
            });
        }
        _ => return Err(Error::internal(format!("{kind} is not nested"))),
    }
    // The head counts sections with 16 bits.
    if sections.len() > usize::from(u16::MAX) {
        return Err(Error::internal(format!("a chunk of {kind} cannot have {} sections", sections.len())));
    }
    Ok(EncodedColumn { facts: Facts::new(Physical::Nested, array.len(), array.null_count()), sections })
}

/// Opens the inner chunks.
pub(crate) fn open_inner(chunk: &Chunk) -> Result<Vec<Chunk>> {
    chunk.verify()?;
    if chunk.head.find(SectionKind::Paths).is_some() && *chunk.kind() == SqlType::Json {
        return documents::open_all(chunk);
    }
    let sections: Vec<_> = chunk.head.sections.iter().filter(|section| section.kind == SectionKind::Inner).collect();
    let inner: Vec<Chunk> = sections
        .iter()
        .enumerate()
        .map(|(index, section)| {
            let kind = match chunk.kind() {
                SqlType::List(item) => item,
                SqlType::Json if index == 0 => &SqlType::TEXT,
                SqlType::Struct(fields) => &fields.get(index).ok_or_else(|| damaged(chunk))?.1,
                _ => return Err(chunk.unsuited()),
            };
            let inner = Chunk::open(chunk.bytes.part(section.offset..section.offset + section.len)?, kind)
                .map_err(|error| error.context(format_args!("byte {} of the chunk", section.offset)))?;
            // The checksums of the outer chunk cover these bytes, and they are verified.
            inner.assume_verified();
            Ok(chunk.share_accounts(inner))
        })
        .collect::<Result<_>>()?;
    // A struct must have a chunk of all rows for each field. Every chunk of a list but the last one must be full,
    // because readers compute an item's chunk from its number.
    let fits = match chunk.kind() {
        SqlType::Json => inner.len() == 1 && inner[0].rows() == chunk.rows(),
        SqlType::Struct(fields) => {
            inner.len() == fields.len() && inner.iter().all(|inner| inner.rows() == chunk.rows())
        }
        _ => inner.iter().rev().skip(1).all(|inner| inner.rows() == ROWS_MAX),
    };
    if fits { Ok(inner) } else { Err(damaged(chunk)) }
}

fn damaged(chunk: &Chunk) -> Error {
    let body = chunk.head.body.start;
    Error::corrupt(format!("byte {body} of the chunk: the inner chunks do not make up a column of {}", chunk.kind()))
}

/// Reads the rows as an array.
fn read(chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
    let inner = chunk.inner()?;
    let failed = |error| Error::internal(format!("a column of {}: {error}", chunk.kind()));
    let nulls = chunk.nulls(rows)?;
    match (chunk.kind(), chunk.kind().arrow()) {
        (SqlType::Struct(_) | SqlType::Json, DataType::Struct(fields)) => {
            let columns = inner.iter().map(|inner| inner.decode(rows)).collect::<Result<_>>()?;
            let array = StructArray::try_new_with_length(fields, columns, nulls, rows.len()).map_err(failed)?;
            Ok(Arc::new(array))
        }
        (SqlType::List(item), DataType::List(field)) => {
            let places = item_places(chunk, rows)?;
            let items: usize = inner.iter().map(Chunk::rows).sum();
            let mut offsets = Vec::with_capacity(places.len() + 1);
            offsets.push(0);
            for place in &places {
                // The stored ends may be damaged, so we check that each row's items exist before we read any.
                let end = offsets[offsets.len() - 1] + place.len() as i64;
                if place.start > place.end || place.end as usize > items || end > i64::from(i32::MAX) {
                    return Err(damaged(chunk));
                }
                offsets.push(end);
            }
            let items = read_items(inner, &places, rows, &item.arrow())?;
            let offsets = OffsetBuffer::new(ScalarBuffer::from_iter(offsets.iter().map(|offset| *offset as i32)));
            Ok(Arc::new(ListArray::try_new(field, offsets, items, nulls).map_err(failed)?))
        }
        _ => Err(chunk.unsuited()),
    }
}

/// The range of each row's items.
fn item_places(chunk: &Chunk, rows: DecodedRows<'_>) -> Result<Vec<Range<u32>>> {
    let ends = chunk.ints(SectionKind::ListEnds)?;
    match rows {
        DecodedRows::Range(range) => {
            // The items of a row start where those of the row before end.
            let first = if range.start == 0 { 0 } else { ends.get(range.start - 1)? };
            let ends: Vec<u32> = ends.read(range.clone())?;
            let starts = std::iter::once(first).chain(ends.iter().copied());
            Ok(starts.zip(&ends).map(|(start, end)| start..*end).collect())
        }
        DecodedRows::List(rows) => rows
            .iter()
            .map(|row| {
                let start = if *row == 0 { 0 } else { ends.get(*row as usize - 1)? };
                Ok(start..ends.get(*row as usize)?)
            })
            .collect(),
    }
}

/// Reads the items at `places`, the ranges of the items of `rows`.
fn read_items(inner: &[Chunk], places: &[Range<u32>], rows: DecodedRows<'_>, kind: &DataType) -> Result<ArrayRef> {
    let mut parts: Vec<ArrayRef> = Vec::new();
    match (rows, places) {
        // The rows are neighbours, so their items are too, and one range has all of them.
        (DecodedRows::Range(_), [first, .., last] | [first @ last]) => {
            let wanted = first.start as usize..last.end as usize;
            for (index, inner) in inner.iter().enumerate() {
                // All inner chunks before this one are full.
                let before = index * ROWS_MAX;
                let (start, end) = (wanted.start.max(before), wanted.end.min(before + inner.rows()));
                if start < end {
                    parts.push(inner.read(start - before..end - before)?);
                }
            }
        }
        _ => {
            // Single rows: collect their items and read each inner chunk once.
            let items: Vec<u32> = places.iter().cloned().flatten().collect();
            for items in items.chunk_by(|a, b| *a as usize / ROWS_MAX == *b as usize / ROWS_MAX) {
                let inner = &inner[items[0] as usize / ROWS_MAX];
                parts.push(inner.take(&items.iter().map(|item| item % ROWS_MAX as u32).collect::<Vec<_>>())?);
            }
        }
    }
    match &parts[..] {
        [] => Ok(new_empty_array(kind)),
        [part] => Ok(Arc::clone(part)),
        parts => concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())
            .map_err(|error| Error::internal(format!("cannot join the parts of a list's items: {error}"))),
    }
}
