//! Rows of one table by a key: the row of a whole primary key, or a range of the primary key or of an index in its order.
//!
//! Of an index whose columns, with those of the primary key behind them, are all that is asked for, rows are not fetched, but
//! where an entry's values were too long to be in it.

use std::ops::Bound;
use std::sync::Arc;

use rowmill_base::{ColumnId, Error, ErrorKind, IndexId, Result, SqlType};
use rowmill_plan::program::{self, Scalar};
use rowmill_storage::TableDef;
use rowmill_storage::keyed::{KeyCodec, KeyRange, ValueRef};
use rowmill_txn::Catalog;
use rowmill_txn::keyed::{IndexEntry, IndexOrder, IndexScan, RangeScan, Reader, TableCodec};

use crate::expr::{Compiler, Env, Layout};
use crate::key_value::{KeyValue, Side};
use crate::recycled::recycled;
use crate::texts::Texts;

/// An access that is ready to run.
#[derive(Debug)]
pub(crate) struct Access {
    codec: Arc<TableCodec>,
    index: Option<IndexId>,
    equal: Box<[KeyValue]>,
    from: Option<(KeyValue, bool)>,
    to: Option<(KeyValue, bool)>,
    backward: bool,
    is_point: bool,
    /// Whether all of the index's columns are given and no two rows have them.
    is_single: bool,
    columns: Columns,
    texts: usize,
}

/// The columns that are read of a row.
#[derive(Debug)]
enum Columns {
    /// By their places in the table, out of key and row.
    OfRow(Box<[usize]>),
    /// Out of an entry of an index: for each part up to the last that is read the column of the result, if it is one; and as
    /// of a row where the entry does not have its values.
    OfEntry { parts: Box<[Option<usize>]>, of_row: Box<[usize]> },
}

/// What reading one table takes, kept from one statement to the next.
#[derive(Debug, Default)]
pub(crate) struct AccessScratch {
    pub(crate) key: Vec<u8>,
    pub(crate) row: Vec<u8>,
    range: KeyRange,
    scan: RangeScan,
    index_scan: IndexScan,
    /// Values of the key that is looked for.
    equal: Vec<ValueRef<'static>>,
    /// Bytes of values that a key has otherwise.
    values: Vec<Vec<u8>>,
    texts: Texts,
}

/// What a statement can come upon.
pub(crate) struct Found<'a> {
    /// Of the row, or of the entry where the rows are not fetched.
    pub(crate) key: &'a [u8],
    pub(crate) row: &'a [u8],
    /// The columns that were asked for.
    pub(crate) columns: FoundColumns<'a>,
}

/// The columns of a row that was found, to be read once.
pub(crate) struct FoundColumns<'a> {
    access: &'a Access,
    key: &'a [u8],
    /// None of an entry, which is the key then.
    row: Option<&'a [u8]>,
    scratch: &'a mut Vec<Vec<u8>>,
}

/// A key of a table: its codec and, for each of its parts, the column of the table.
struct Key<'c> {
    codec: &'c KeyCodec,
    columns: Vec<usize>,
    /// Parts that tell rows apart, if no two rows have the same.
    unique_parts: Option<usize>,
}

impl Access {
    /// Of `access`, whose scalars may name the first `row` rows of `layout`, and whose own row is the next. With `whole`
    /// rows are always fetched.
    pub(crate) fn new(
        access: &program::Access,
        catalog: &Catalog,
        parameters: &[SqlType],
        layout: &Layout,
        row: usize,
        whole: bool,
    ) -> Result<Access> {
        let codec = catalog.codec(access.table)?;
        let key = Key::of(&codec, access.index)?;
        let mut compiler = Compiler::new(parameters, layout, row);
        let part = |at: usize| {
            let missing = || Error::internal("a program with more values than a key has columns");
            key.codec.parts().get(at).map(|part| &part.kind).ok_or_else(missing)
        };
        let mut value = |scalar: &Scalar, at: usize| KeyValue::new(scalar, part(at)?, &mut compiler);
        let equal =
            access.equal.iter().enumerate().map(|(at, scalar)| value(scalar, at)).collect::<Result<Box<_>>>()?;
        let mut bound = |bound: &Option<program::Bound>| {
            let bound = bound.as_ref();
            bound.map(|bound| Ok((value(&bound.value, access.equal.len())?, bound.inclusive))).transpose()
        };
        let (from, to) = (bound(&access.from)?, bound(&access.to)?);
        let is_point = access.index.is_none() && equal.len() == key.columns.len();
        let is_single = key.unique_parts.is_some_and(|parts| equal.len() >= parts);
        let wanted = layout.wanted(row);
        let columns = match access.index.is_some() && !whole {
            true => key.entry_columns(wanted).unwrap_or_else(|| Columns::OfRow(wanted.into())),
            false => Columns::OfRow(wanted.into()),
        };
        let (index, backward, texts) = (access.index, access.backward, compiler.texts());
        Ok(Access { index, equal, from, to, backward, is_point, is_single, columns, texts, codec })
    }

    /// What makes and reads the table's rows.
    pub(crate) fn codec(&self) -> &Arc<TableCodec> {
        &self.codec
    }

    /// How many columns are read of a row.
    pub(crate) fn columns(&self) -> usize {
        match &self.columns {
            Columns::OfRow(columns) => columns.len(),
            Columns::OfEntry { of_row, .. } => of_row.len(),
        }
    }

    /// Calls `each` with all rows, in order, until it says `false`; whether it never did. `env` has the columns of the rows
    /// before, and `first` is how many rows are wanted, as far as is known.
    pub(crate) fn run(
        &self,
        env: Env<'_>,
        reader: &Reader<'_>,
        scratch: &mut AccessScratch,
        first: usize,
        mut each: impl FnMut(Found<'_>) -> Result<bool>,
    ) -> Result<bool> {
        if !self.find(env, scratch)? {
            return Ok(true);
        }
        let AccessScratch { key, row, range, scan, index_scan, values, .. } = scratch;
        if self.is_point {
            return match reader.get(key, row)? {
                true => each(self.found(key, Some(row), values)),
                false => Ok(true),
            };
        }
        let first = if self.is_single { 1 } else { first };
        let Some(index) = self.index else {
            scan.start(&range.start, &range.end, self.backward, first);
            while let Some((key, row)) = scan.next(reader)? {
                if !each(self.found(key, Some(row), values))? {
                    return Ok(false);
                }
            }
            return Ok(true);
        };
        index_scan.start(&self.codec, index, range, self.backward, first, IndexOrder::FewAlike)?;
        while let Some(entry) = index_scan.next(&self.codec, reader)? {
            let goes_on = match (entry, &self.columns) {
                (IndexEntry::Row(key, row), _) => each(self.found(key, Some(row), values))?,
                (IndexEntry::Whole(entry), Columns::OfEntry { .. }) => each(self.found(entry, None, values))?,
                (IndexEntry::Whole(entry), Columns::OfRow(_)) => {
                    self.codec.row_key(index, entry, key)?;
                    if !reader.get(key, row)? {
                        return Err(self.without_row());
                    }
                    each(self.found(key, Some(row), values))?
                }
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn found<'a>(&'a self, key: &'a [u8], row: Option<&'a [u8]>, scratch: &'a mut Vec<Vec<u8>>) -> Found<'a> {
        let columns = FoundColumns { access: self, key, row, scratch };
        Found { key, row: row.unwrap_or_default(), columns }
    }

    /// Makes the key or the range that is looked for; `false` if nothing can be there.
    fn find(&self, env: Env<'_>, scratch: &mut AccessScratch) -> Result<bool> {
        let AccessScratch { key, range, equal, texts, .. } = scratch;
        texts.clear(self.texts);
        let env = Env { texts, ..env };
        let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(equal));
        for value in &self.equal {
            let Some(value) = value.equal(env)? else { break };
            values.push(value);
        }
        let is_found = values.len() == self.equal.len() && self.encode(&values, env, key, range)?;
        *equal = recycled(values);
        Ok(is_found)
    }

    fn encode(&self, values: &[ValueRef<'_>], env: Env<'_>, key: &mut Vec<u8>, range: &mut KeyRange) -> Result<bool> {
        if self.is_point {
            return match self.codec.encode_key(None, values, key) {
                // No row has a key that the base does not keep.
                Err(error) if error.kind() == ErrorKind::KeyTooLong => Ok(false),
                encoded => encoded.map(|()| true),
            };
        }
        let Some(from) = end(&self.from, Side::Lower, env)? else { return Ok(false) };
        let Some(to) = end(&self.to, Side::Upper, env)? else { return Ok(false) };
        let (head, codec) = self.codec.keys(self.index)?;
        codec.range(head, values, from, to, range)?;
        Ok(!range.is_empty())
    }

    #[cold]
    fn without_row(&self) -> Error {
        let (table, index) = (&self.codec.def().name, self.index);
        Error::corrupt(format!("table {table}: an entry of its index {index:?} names a row that is not there"))
    }
}

impl<'a> FoundColumns<'a> {
    /// Appends the values of the columns that were asked for.
    #[inline]
    pub(crate) fn read(self, out: &mut Vec<ValueRef<'a>>) -> Result<()> {
        let FoundColumns { access, key, row, scratch } = self;
        let columns = access.columns();
        if scratch.len() < columns {
            scratch.resize_with(columns, Vec::new);
        }
        let scratch = &mut scratch[..columns];
        let (parts, of_row) = match &access.columns {
            Columns::OfRow(of_row) => (&[][..], of_row),
            Columns::OfEntry { parts, of_row } => (&parts[..], of_row),
        };
        if let Some(row) = row {
            let row = access.codec.row(key, row)?;
            for (column, scratch) in of_row.iter().zip(scratch) {
                out.push(row.get(*column, scratch)?);
            }
            return Ok(());
        }
        let (head, codec) = access.codec.keys(access.index)?;
        let mut reader = codec.reader(&key[head.len()..]);
        let first = out.len();
        out.resize(first + columns, ValueRef::Null);
        let mut scratch = scratch.iter_mut();
        for part in parts {
            match part {
                None => reader.skip()?,
                Some(column) => {
                    let scratch = scratch.next().expect("one for each column");
                    let ends_early = || Error::corrupt("an entry of an index that ends too early");
                    out[first + column] = reader.next(scratch)?.ok_or_else(ends_early)?;
                }
            }
        }
        Ok(())
    }
}

impl Key<'_> {
    fn of(codec: &TableCodec, index: Option<IndexId>) -> Result<Key<'_>> {
        let def = codec.def();
        let keyed = def.keyed.as_ref().ok_or_else(|| Error::internal("a codec of a table without keys"))?;
        let (_, key) = codec.keys(index)?;
        let index = index.and_then(|id| keyed.indexes.iter().find(|index| index.id == id));
        let parts = index.map_or(&[][..], |index| &index.parts);
        let columns = parts.iter().chain(&keyed.key).map(|part| position(def, part.column)).collect::<Result<_>>()?;
        let unique_parts = match index {
            None => Some(keyed.key.len()),
            Some(index) => index.unique.then_some(index.parts.len()),
        };
        Ok(Key { codec: key, columns, unique_parts })
    }

    /// How the columns `wanted` are read out of an entry; `None` if it does not have all.
    fn entry_columns(&self, wanted: &[usize]) -> Option<Columns> {
        let mut parts = vec![None; self.columns.len()];
        for (at, column) in wanted.iter().enumerate() {
            parts[self.columns.iter().position(|part| part == column)?] = Some(at);
        }
        let read = parts.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        parts.truncate(read);
        Some(Columns::OfEntry { parts: parts.into(), of_row: wanted.into() })
    }
}

/// An end of a range; `None` if nothing is in the range.
fn end<'a>(of: &'a Option<(KeyValue, bool)>, side: Side, env: Env<'a>) -> Result<Option<Bound<ValueRef<'a>>>> {
    match of {
        None => Ok(Some(Bound::Unbounded)),
        Some((value, inclusive)) => value.bound(*inclusive, side, env),
    }
}

fn position(def: &TableDef, id: ColumnId) -> Result<usize> {
    def.column_by_id(id).ok_or_else(|| Error::internal(format!("a key of a column {id} that is not there")))
}
