//! Documents by path: skeletons and parts are chunks within the chunk (`documents.rs` of this crate).
//!
//! ```text
//!   inner chunk 0     the skeletons, a text for each row
//!   inner chunk 1..   the parts by their numbers, a value or NULL for each row
//!   paths             the path and the type of each part
//! ```
//!
//! Sealed blocks store their documents so. Runs and rows of keyed tables are short, so they store whole texts.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringViewArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::compute::nullif;
use arrow::datatypes::DataType;
use rowmill_base::{Cancel, Error, Result, SqlType};

use super::choice::EncodedColumn;
use super::{Analysis, Cheapest, Encoding, NewColumn};
use crate::chunk::{self, Chunk, DecodedRows, Facts, NewSection, Physical, SectionKind, assemble, null_section};
use crate::documents::PathDirectory;
use crate::documents::cut::{CutDocuments, cut};
use crate::documents::restore::DocumentParts;
use crate::shared_work::each_piece;

pub(super) struct Documents;

impl Encoding for Documents {
    fn number(&self) -> u8 {
        11
    }

    fn name(&self) -> &'static str {
        "documents"
    }

    fn since(&self) -> u16 {
        4
    }

    fn analyse(&self, column: &NewColumn<'_>, _: &Cheapest) -> Result<Option<Analysis>> {
        let NewColumn::Nested { array, kind: SqlType::Json } = column else { return Ok(None) };
        // The price is above that of whole texts, so that only callers who ask for parts get them.
        Ok(Some(Analysis::of(array.len() + 1, 200, |column| match column {
            NewColumn::Nested { array, .. } => {
                let cut = cut(&visible_texts(array.as_struct())?, 1)?;
                encode(cut, array.nulls(), 1)
            }
            _ => unreachable!("a column of documents was analysed"),
        })))
    }

    fn read(&self, chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
        match chunk.physical() {
            Physical::Nested if *chunk.kind() == SqlType::Json => read(chunk, rows),
            _ => Err(chunk.unsuited()),
        }
    }

    fn check(&self, chunk: &Chunk) -> Result<()> {
        // Queries read parts without the documents, so each part must be right by itself.
        chunk.inner()?.iter().try_for_each(|inner| inner.check(&Cancel::new()))
    }

    #[cfg(test)]
    fn example(&self) -> Option<(SqlType, ArrayRef)> {
        let DataType::Struct(fields) = SqlType::Json.arrow() else { return None };
        let document = |row: usize| match row % 50 {
            7 => None,
            8 => Some(format!(r#"{{"other": [{row}], "kind": {row}}}"#)),
            _ => Some(format!(r#"{{"kind": "kind {}", "n": {row}, "at": {{"x": {}}}}}"#, row % 3, row as f64 / 8.0)),
        };
        let texts: StringViewArray = (0..3_000).map(document).collect();
        let nulls = texts.nulls().cloned();
        Some((SqlType::Json, Arc::new(StructArray::new(fields, vec![Arc::new(texts)], nulls))))
    }
}

/// Encodes documents as a chunk, with `threads` workers.
pub(crate) fn encode_documents(array: ArrayRef, threads: usize) -> Result<Vec<u8>> {
    let nulls = array.nulls().cloned();
    let texts = visible_texts(array.as_struct())?;
    drop(array);
    let cut = cut(&texts, threads)?;
    // The documents take as much memory as their skeletons and parts, so they must go before those are encoded.
    drop(texts);
    let EncodedColumn { mut facts, sections } = encode(cut, nulls.as_ref(), threads)?;
    facts.encoding = &Documents;
    Ok(assemble(&facts, sections))
}

fn encode(cut: CutDocuments, nulls: Option<&NullBuffer>, threads: usize) -> Result<EncodedColumn> {
    let CutDocuments { directory, skeletons, parts } = cut;
    let rows = skeletons.len();
    let mut sections: Vec<NewSection> = nulls.map(null_section::encode).into_iter().collect();
    let mut columns: Vec<(ArrayRef, SqlType)> = vec![(Arc::new(skeletons), SqlType::TEXT)];
    columns.extend(parts.into_iter().zip(directory.paths()).map(|(part, path)| (part, path.kind.sql())));
    let encode = |column: usize| chunk::encode(&columns[column].0, &columns[column].1);
    for bytes in each_piece(columns.len(), threads, "encoding a part of documents", encode)? {
        sections.push(NewSection { kind: SectionKind::Inner, count: rows, bytes });
    }
    let count = directory.paths().len();
    sections.push(NewSection { kind: SectionKind::Paths, count, bytes: directory.encode() });
    let null_count = nulls.map_or(0, NullBuffer::null_count);
    Ok(EncodedColumn { facts: Facts::new(Physical::Nested, rows, null_count), sections })
}

/// The texts of documents, NULL where the document is.
fn visible_texts(documents: &StructArray) -> Result<StringViewArray> {
    let failed = |error| Error::internal(format!("texts of documents: {error}"));
    let texts = documents.column(0);
    let texts = match documents.nulls() {
        Some(nulls) if nulls.null_count() > texts.null_count() => {
            &nullif(texts, &BooleanArray::new(!nulls.inner(), None)).map_err(failed)?
        }
        _ => texts,
    };
    texts.as_string_view_opt().cloned().ok_or_else(|| Error::internal("documents that are no texts"))
}

/// Reads the paths of a chunk of documents.
pub(crate) fn directory(chunk: &Chunk) -> Result<PathDirectory> {
    let section = chunk.head.section(SectionKind::Paths)?;
    // The section has a checksum of its own, so those of the whole chunk are not needed.
    let bytes = chunk.bytes.fetch(section.offset..section.offset + section.len)?;
    PathDirectory::read(bytes, section.count as usize).map_err(|error| chunk.in_section(SectionKind::Paths, error))
}

/// Opens a part of a chunk of documents by its number. Checks only its head.
pub(crate) fn open_part(chunk: &Chunk, part: usize, kind: &SqlType) -> Result<Chunk> {
    open_inner_at(chunk, part + 1, kind)
}

fn open_inner_at(chunk: &Chunk, index: usize, kind: &SqlType) -> Result<Chunk> {
    let mut sections = chunk.head.sections.iter().filter(|section| section.kind == SectionKind::Inner);
    let section = sections.nth(index).ok_or_else(|| damaged(chunk))?;
    let inner = Chunk::open(chunk.bytes.part(section.offset..section.offset + section.len)?, kind)
        .map_err(|error| error.context(format_args!("byte {} of the chunk", section.offset)))?;
    match inner.rows() == chunk.rows() {
        true => Ok(chunk.share_accounts(inner)),
        false => Err(damaged(chunk)),
    }
}

/// Opens the skeletons and the parts, in the order of their sections.
pub(super) fn open_all(chunk: &Chunk) -> Result<Vec<Chunk>> {
    let directory = directory(chunk)?;
    let kinds = std::iter::once(SqlType::TEXT).chain(directory.paths().iter().map(|path| path.kind.sql()));
    let inner = kinds.enumerate().map(|(index, kind)| {
        let inner = open_inner_at(chunk, index, &kind)?;
        // The checksums of the outer chunk cover these bytes, and they are verified.
        inner.assume_verified();
        Ok(inner)
    });
    inner.collect()
}

fn damaged(chunk: &Chunk) -> Error {
    let body = chunk.head.body.start;
    Error::corrupt(format!("byte {body} of the chunk: the inner chunks do not make up a column of documents"))
}

fn read(chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
    let inner = chunk.inner()?;
    let [skeletons, parts @ ..] = inner else { return Err(damaged(chunk)) };
    let skeletons = skeletons.decode(rows)?;
    let values = parts.iter().map(|part| part.decode(rows)).collect::<Result<Vec<_>>>()?;
    let directory = directory(chunk)?;
    let kinds = directory.paths().iter().map(|path| path.kind);
    let skeletons = skeletons.as_string_view_opt().ok_or_else(|| damaged(chunk))?;
    let texts = DocumentParts::new(kinds.zip(&values))?.restore(skeletons)?;
    let DataType::Struct(fields) = chunk.kind().arrow() else { return Err(chunk.unsuited()) };
    let nulls = chunk.nulls(rows)?;
    let documents = StructArray::try_new_with_length(fields, vec![Arc::new(texts)], nulls, rows.len());
    let documents = documents.map_err(|error| Error::internal(format!("a column of documents: {error}")))?;
    Ok(Arc::new(documents))
}
