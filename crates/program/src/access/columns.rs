//! How the columns of a found row are read: from the bytes of the row, or from an index entry.
//!
//! The columns of the condition come first. The others are read only for rows that meet it. If the condition needs only
//! columns of the key, the bytes of a row that fails it are never looked at.

use rowmill_base::{Error, Result};
use rowmill_storage::keyed::ValueRef;

use super::{AccessKey, CompiledAccess};

/// Some columns that the statement needs, and where they are found.
#[derive(Debug, Default)]
pub(super) struct ColumnReads {
    /// Columns of the table, each with its place among the columns that the statement needs.
    of_row: Box<[PlacedColumn]>,
    /// For each part of an index entry up to the last one that is needed, the place that it fills, if any. `None` if
    /// the entry lacks a column.
    of_entry: Option<Box<[Option<usize>]>>,
    /// Whether the bytes of the row are needed, because a column is not part of the primary key.
    needs_row: bool,
}

/// A column of the table, and its place among the columns that the statement needs.
#[derive(Clone, Copy, Debug)]
struct PlacedColumn {
    place: usize,
    column: usize,
}

/// A row or an index entry that was found.
#[derive(Clone, Copy)]
pub(super) enum FoundBytes<'a> {
    /// The key and the bytes of a row.
    Row(&'a [u8], &'a [u8]),
    /// An index entry with the values of all its columns.
    Entry(&'a [u8]),
}

/// The columns of a found row, not yet decoded.
pub(crate) struct FoundColumns<'a> {
    access: &'a CompiledAccess,
    bytes: FoundBytes<'a>,
    /// A buffer for each column that is still to be read.
    scratch: &'a mut [Vec<u8>],
}

impl ColumnReads {
    /// Reads of those of the columns `wanted` that pass `is_chosen`.
    pub(super) fn new(
        wanted: &[usize],
        is_chosen: impl Fn(usize) -> bool,
        is_of_key: impl Fn(usize) -> bool,
        key: Option<&AccessKey<'_>>,
    ) -> ColumnReads {
        let of_row = wanted.iter().enumerate().map(|(place, column)| PlacedColumn { place, column: *column });
        let of_row: Box<[PlacedColumn]> = of_row.filter(|of| is_chosen(of.column)).collect();
        let needs_row = of_row.iter().any(|of| !is_of_key(of.column));
        let of_entry = key.and_then(|key| {
            let mut parts = vec![None; key.columns.len()];
            for PlacedColumn { place, column } in &of_row {
                parts[key.columns.iter().position(|part| part == column)?] = Some(*place);
            }
            let read = parts.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
            parts.truncate(read);
            Some(parts.into())
        });
        ColumnReads { of_row, of_entry, needs_row }
    }

    /// Number of columns.
    pub(super) fn len(&self) -> usize {
        self.of_row.len()
    }

    /// Whether an index entry holds all columns.
    pub(super) fn are_in_entry(&self) -> bool {
        self.of_entry.is_some()
    }

    /// Sets the places of these columns in `out`. There must be a buffer in `scratch` for each of them.
    #[inline]
    fn read<'a>(
        &self,
        access: &'a CompiledAccess,
        bytes: FoundBytes<'a>,
        scratch: &'a mut [Vec<u8>],
        out: &mut [ValueRef<'a>],
    ) -> Result<()> {
        match bytes {
            FoundBytes::Row(key, row) if self.needs_row => {
                let row = access.codec.row(key, row)?;
                for (PlacedColumn { place, column }, scratch) in self.of_row.iter().zip(scratch) {
                    out[*place] = row.get(*column, scratch)?;
                }
                Ok(())
            }
            FoundBytes::Row(key, _) => {
                for (PlacedColumn { place, column }, scratch) in self.of_row.iter().zip(scratch) {
                    out[*place] = access.codec.key_column(key, *column, scratch)?;
                }
                Ok(())
            }
            FoundBytes::Entry(entry) => self.read_entry(access, entry, scratch, out),
        }
    }

    fn read_entry<'a>(
        &self,
        access: &'a CompiledAccess,
        entry: &'a [u8],
        scratch: &'a mut [Vec<u8>],
        out: &mut [ValueRef<'a>],
    ) -> Result<()> {
        let parts = self.of_entry.as_deref();
        let parts = parts.ok_or_else(|| Error::internal("an index entry lacks a column of the program"))?;
        let (head, codec) = access.codec.keys(access.index)?;
        let mut reader = codec.reader(&entry[head.len()..]);
        let mut scratch = scratch.iter_mut();
        for part in parts {
            match part {
                None => reader.skip()?,
                Some(place) => {
                    let scratch = scratch.next().expect("there is one buffer for each column");
                    let ends_early = || Error::corrupt("an index entry ends before its last column");
                    out[*place] = reader.next(scratch)?.ok_or_else(ends_early)?;
                }
            }
        }
        Ok(())
    }
}

impl<'a> FoundColumns<'a> {
    pub(super) fn new(
        access: &'a CompiledAccess,
        bytes: FoundBytes<'a>,
        scratch: &'a mut [Vec<u8>],
    ) -> FoundColumns<'a> {
        FoundColumns { access, bytes, scratch }
    }

    /// Number of columns that the statement needs.
    pub(crate) fn len(&self) -> usize {
        self.access.all.len()
    }

    /// Whether the columns are those of an index entry, which are read fastest all at once.
    pub(crate) fn are_of_entry(&self) -> bool {
        matches!(self.bytes, FoundBytes::Entry(_))
    }

    /// Sets all columns that the statement needs.
    #[inline]
    pub(crate) fn read_all(self, out: &mut [ValueRef<'a>]) -> Result<()> {
        self.access.all.read(self.access, self.bytes, self.scratch, out)
    }

    /// Sets the columns of the condition in `out`, which has a place for each column that the statement needs. Returns
    /// the other columns.
    #[inline]
    pub(crate) fn read_tested(self, out: &mut [ValueRef<'a>]) -> Result<FoundColumns<'a>> {
        let FoundColumns { access, bytes, scratch } = self;
        let (now, scratch) = scratch.split_at_mut(access.tested.len());
        access.tested.read(access, bytes, now, out)?;
        Ok(FoundColumns { access, bytes, scratch })
    }

    /// Sets the columns that the condition does not need. The others must have been read before.
    #[inline]
    pub(crate) fn read_others(self, out: &mut [ValueRef<'a>]) -> Result<()> {
        self.access.others.read(self.access, self.bytes, self.scratch, out)
    }
}
