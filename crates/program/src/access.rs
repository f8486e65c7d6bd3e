//! Rows of one table by a key: rows of whole primary keys, or ranges of the primary key or of an index in its order.
//!
//! ```text
//! key (a, b, c)     a = 1, (b, c) < (5, 6)     one range:  (1) .. (1, 5, 6)
//!                   a = 1, b in [7, 3, 7]      two ranges, in the order of the key:  (1, 3), (1, 7)
//!                   a begins as 'x%y'          one range:  ('x') .. ('y')
//! ```
//!
//! Of an index whose columns, with those of the primary key behind them, are all that is asked for, rows are not fetched, but
//! where an entry's values were too long to be in it.

use std::ops::Bound;
use std::sync::Arc;

use rowmill_base::{Cancel, ColumnId, Error, ErrorKind, IndexId, Result, SqlType};
use rowmill_expr::kernels::like::{LikeRange, literal_prefix};
use rowmill_plan::program::{self, Scalar};
use rowmill_storage::TableDef;
use rowmill_storage::keyed::{KeyCodec, KeyRange, ValueRef};
use rowmill_txn::Catalog;
use rowmill_txn::keyed::{IndexEntry, IndexOrder, IndexScan, RangeScan, Reader, TableCodec};

use crate::expr::{Compiler, Env, Expr, Layout};
use crate::key_value::{KeyValue, Side};
use crate::recycled::recycled;
use crate::texts::Texts;

/// An access that is ready to run.
#[derive(Debug)]
pub(crate) struct Access {
    codec: Arc<TableCodec>,
    index: Option<IndexId>,
    equal: Box<[KeyValue]>,
    alternatives: Box<[Box<[KeyValue]>]>,
    limit: Limit,
    backward: bool,
    is_point: bool,
    /// Whether all of the index's columns are given and no two rows have them.
    is_single: bool,
    columns: Columns,
    texts: usize,
}

/// What is asked of the column of a key after those with known values.
#[derive(Debug)]
enum Limit {
    Nothing,
    NotNull,
    Range {
        from: Option<End>,
        to: Option<End>,
    },
    /// That it begins as all matches of a pattern do; which column of the table it is.
    Prefix {
        pattern: Expr,
        escape: Option<char>,
        column: usize,
    },
}

/// An end of a range: a value, or values that are compared as a row.
#[derive(Debug)]
struct End {
    values: Box<[KeyValue]>,
    inclusive: bool,
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
    /// A range with more values of the key, of which an end of `range` is taken.
    longer: KeyRange,
    /// Those of alternatives.
    ranges: Vec<KeyRange>,
    scan: RangeScan,
    index_scan: IndexScan,
    /// Values of the key that is looked for.
    equal: Vec<ValueRef<'static>>,
    /// Bytes of values that a key has otherwise.
    values: Vec<Vec<u8>>,
    texts: Texts,
}

/// Rows at the beginning that are passed over: all that is asked of them is that they are there.
pub(crate) struct Unread<'c> {
    /// How many are left.
    pub(crate) rows: usize,
    cancel: &'c Cancel,
}

/// Rows that are passed over between two looks at the flag and the clock.
const ROWS_PASSED_AT_ONCE: usize = 4096;

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
    /// Of `access`, whose scalars may name the first `row` rows of `layout`. The columns `wanted` of its own rows are read.
    /// With `whole` rows are always fetched.
    pub(crate) fn new(
        access: &program::Access,
        catalog: &Catalog,
        parameters: &[SqlType],
        layout: &Layout,
        row: usize,
        wanted: &[usize],
        whole: bool,
    ) -> Result<Access> {
        let codec = catalog.codec(access.table)?;
        let key = Key::of(&codec, access.index)?;
        let mut compiler = Compiler::new(parameters, layout, row);
        let given = access.equal.len() + access.alternatives.first().map_or(0, Vec::len);
        let mut values = |scalars: &[Scalar], first: usize| key.values(scalars, first, &mut compiler);
        let equal = values(&access.equal, 0)?;
        let alternatives = access.alternatives.iter().map(|list| values(list, access.equal.len()));
        let alternatives: Box<[Box<[KeyValue]>]> = alternatives.collect::<Result<_>>()?;
        if alternatives.iter().any(|list| list.len() != alternatives[0].len()) {
            return Err(Error::internal("a program with alternatives of different lengths"));
        }
        let mut end = |bound: &Option<program::Bound>| {
            let end = |bound: &program::Bound| {
                Ok::<_, Error>(End { values: values(&bound.values, given)?, inclusive: bound.inclusive })
            };
            bound.as_ref().map(end).transpose()
        };
        let (from, to) = (end(&access.from)?, end(&access.to)?);
        let limit = match &access.prefix {
            Some(prefix) => {
                key.check_text(given)?;
                let (pattern, escape) = (compiler.expr(&prefix.pattern)?, prefix.escape);
                Limit::Prefix { pattern, escape, column: key.columns[given] }
            }
            None if from.is_some() || to.is_some() => Limit::Range { from, to },
            None if access.not_null => Limit::NotNull,
            None => Limit::Nothing,
        };
        let is_point = access.index.is_none() && given == key.columns.len();
        let is_single = key.unique_parts.is_some_and(|parts| given >= parts);
        let columns = match access.index.is_some() && !whole {
            true => key.entry_columns(wanted).unwrap_or_else(|| Columns::OfRow(wanted.into())),
            false => Columns::OfRow(wanted.into()),
        };
        let (index, backward, texts) = (access.index, access.backward, compiler.texts());
        Ok(Access { index, equal, alternatives, limit, backward, is_point, is_single, columns, texts, codec })
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

    /// The column by whose beginning rows are found, by its place in the table.
    pub(crate) fn prefix_column(&self) -> Option<usize> {
        match &self.limit {
            Limit::Prefix { column, .. } => Some(*column),
            _ => None,
        }
    }

    /// Whether rows are found by the prefix of a pattern that asks for more than that.
    pub(crate) fn finds_more_than_prefix(&self, env: Env<'_>) -> Result<bool> {
        let Limit::Prefix { pattern, escape, .. } = &self.limit else { return Ok(false) };
        Ok(match pattern.value(env)? {
            ValueRef::Text(pattern) => !matches!(LikeRange::of(pattern, *escape), Some(LikeRange::Prefix(_))),
            _ => true,
        })
    }

    /// Calls `each` with all rows after those that are `unread`, in order, until it says `false`; whether it never did. `env`
    /// has the columns of the rows before, and `first` is how many rows are wanted, as far as is known.
    pub(crate) fn run(
        &self,
        env: Env<'_>,
        reader: &Reader<'_>,
        scratch: &mut AccessScratch,
        first: usize,
        unread: &mut Unread<'_>,
        mut each: impl FnMut(Found<'_>) -> Result<bool>,
    ) -> Result<bool> {
        if self.alternatives.is_empty() {
            return match self.find(env, scratch)? {
                true => self.run_range(reader, scratch, first, unread, &mut each),
                false => Ok(true),
            };
        }
        let ranges = self.find_ranges(env, scratch)?;
        for at in 0..ranges {
            let at = if self.backward { ranges - 1 - at } else { at };
            let AccessScratch { key, range, ranges, .. } = &mut *scratch;
            std::mem::swap(range, &mut ranges[at]);
            if self.is_point {
                std::mem::swap(key, &mut range.start);
            }
            if !self.run_range(reader, scratch, first, unread, &mut each)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The rows of the key, or of the range, of `scratch`.
    fn run_range(
        &self,
        reader: &Reader<'_>,
        scratch: &mut AccessScratch,
        first: usize,
        unread: &mut Unread<'_>,
        each: &mut impl FnMut(Found<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let AccessScratch { key, row, range, scan, index_scan, values, .. } = scratch;
        // All rows of a table are counted once.
        let counted = (self.is_whole() && unread.rows == usize::MAX).then(|| self.codec.row_index());
        if let Some(rows) = counted.and_then(|table| reader.row_count(table)) {
            unread.rows -= usize::try_from(rows).unwrap_or(usize::MAX);
            return Ok(true);
        }
        if self.is_point {
            return match reader.get(key, row)? {
                true if unread.rows > 0 => {
                    unread.rows -= 1;
                    Ok(true)
                }
                true => each(self.found(key, Some(row), values)),
                false => Ok(true),
            };
        }
        let first = if self.is_single { 1 } else { first };
        let Some(index) = self.index else {
            scan.start(&range.start, &range.end, self.backward, first);
            unread.pass(|rows| scan.pass(reader, rows))?;
            if let Some(table) = counted {
                reader.note_row_count(table, (usize::MAX - unread.rows) as u64);
            }
            while let Some((key, row)) = scan.next(reader)? {
                if !each(self.found(key, Some(row), values))? {
                    return Ok(false);
                }
            }
            return Ok(true);
        };
        // Rows that are only counted are in any order.
        let order = if unread.rows == usize::MAX { IndexOrder::Kept } else { IndexOrder::FewAlike };
        index_scan.start(&self.codec, index, range, self.backward, first, order)?;
        unread.pass(|rows| index_scan.pass(&self.codec, reader, rows))?;
        if let Some(table) = counted {
            reader.note_row_count(table, (usize::MAX - unread.rows) as u64);
        }
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

    /// Whether it finds all rows of its table.
    fn is_whole(&self) -> bool {
        self.equal.is_empty() && self.alternatives.is_empty() && matches!(self.limit, Limit::Nothing)
    }

    fn found<'a>(&'a self, key: &'a [u8], row: Option<&'a [u8]>, scratch: &'a mut Vec<Vec<u8>>) -> Found<'a> {
        let columns = FoundColumns { access: self, key, row, scratch };
        Found { key, row: row.unwrap_or_default(), columns }
    }

    /// Makes the key or the range that is looked for; `false` if nothing can be there.
    fn find(&self, env: Env<'_>, scratch: &mut AccessScratch) -> Result<bool> {
        let AccessScratch { key, range, longer, equal, texts, .. } = scratch;
        texts.clear(self.texts);
        let env = Env { texts, ..env };
        let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(equal));
        let is_found =
            push_equal(&self.equal, env, &mut values)? && self.encode(&mut values, env, key, [range, longer])?;
        *equal = recycled(values);
        Ok(is_found)
    }

    /// Makes the ranges of all alternatives, of points keys as their starts, in the order of the key, each once. How many
    /// there are.
    fn find_ranges(&self, env: Env<'_>, scratch: &mut AccessScratch) -> Result<usize> {
        let AccessScratch { key, ranges, longer, equal, texts, .. } = scratch;
        texts.clear(self.texts);
        let env = Env { texts, ..env };
        let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(equal));
        let mut count = 0;
        if push_equal(&self.equal, env, &mut values)? {
            ranges.resize_with(ranges.len().max(self.alternatives.len()), KeyRange::default);
            for list in &self.alternatives {
                values.truncate(self.equal.len());
                let range = &mut ranges[count];
                if push_equal(list, env, &mut values)? && self.encode(&mut values, env, key, [range, longer])? {
                    if self.is_point {
                        range.start.clone_from(key);
                        range.end.clear();
                    }
                    count += 1;
                }
            }
        }
        *equal = recycled(values);
        Ok(in_order(&mut ranges[..count]))
    }

    /// Makes the key or the range of the first values, which may be added to; `false` if nothing can be there.
    fn encode<'a>(
        &'a self,
        values: &mut Vec<ValueRef<'a>>,
        env: Env<'a>,
        key: &mut Vec<u8>,
        [range, longer]: [&mut KeyRange; 2],
    ) -> Result<bool> {
        if self.is_point {
            return match self.codec.encode_key(None, values, key) {
                // No row has a key that the base does not keep.
                Err(error) if error.kind() == ErrorKind::KeyTooLong => Ok(false),
                encoded => encoded.map(|()| true),
            };
        }
        let (head, codec) = self.codec.keys(self.index)?;
        match &self.limit {
            Limit::Nothing => codec.range(head, values, Bound::Unbounded, Bound::Unbounded, range)?,
            Limit::NotNull => {
                codec.range(head, values, Bound::Unbounded, Bound::Unbounded, range)?;
                if !codec.parts()[values.len()].nullable {
                    return Ok(true);
                }
                values.push(ValueRef::Null);
                codec.range(head, values, Bound::Unbounded, Bound::Unbounded, longer)?;
                match codec.parts()[values.len() - 1].descending {
                    true => std::mem::swap(&mut range.start, &mut longer.end),
                    false => std::mem::swap(&mut range.end, &mut longer.start),
                }
            }
            Limit::Range { from, to } => {
                let Some(from) = range_end(from, Side::Lower, env)? else { return Ok(false) };
                let Some(to) = range_end(to, Side::Upper, env)? else { return Ok(false) };
                codec.range(head, values, from.first, to.first, range)?;
                let given = values.len();
                for (end, side) in [(from, Side::Lower), (to, Side::Upper)] {
                    let Some((equal, last)) = end.row else { continue };
                    values.truncate(given);
                    values.extend(equal);
                    let (lower, upper) = match side {
                        Side::Lower => (last, Bound::Unbounded),
                        Side::Upper => (Bound::Unbounded, last),
                    };
                    codec.range(head, values, lower, upper, longer)?;
                    match (side == Side::Lower) == codec.parts()[given].descending {
                        true => std::mem::swap(&mut range.end, &mut longer.end),
                        false => std::mem::swap(&mut range.start, &mut longer.start),
                    }
                }
            }
            Limit::Prefix { pattern, escape, .. } => {
                let ValueRef::Text(pattern) = pattern.value(env)? else { return Ok(false) };
                let prefix = literal_prefix(pattern, *escape);
                let beyond = text_beyond(&prefix);
                let upper =
                    beyond.as_deref().map_or(Bound::Unbounded, |beyond| Bound::Excluded(ValueRef::Text(beyond)));
                // The values of the key outlive these texts.
                let values: &[ValueRef<'_>] = values;
                codec.range(head, values, Bound::Included(ValueRef::Text(&prefix)), upper, range)?;
            }
        }
        Ok(!range.is_empty())
    }

    #[cold]
    fn without_row(&self) -> Error {
        let (table, index) = (&self.codec.def().name, self.index);
        Error::corrupt(format!("table {table}: an entry of its index {index:?} names a row that is not there"))
    }
}

impl<'c> Unread<'c> {
    /// Passes over the first `rows` rows.
    pub(crate) fn new(rows: usize, cancel: &'c Cancel) -> Unread<'c> {
        Unread { rows, cancel }
    }

    /// Passes over rows of a scan by `pass`, which takes how many to pass at most and says how many it has passed.
    fn pass(&mut self, mut pass: impl FnMut(usize) -> Result<usize>) -> Result<()> {
        while self.rows > 0 {
            let passed = pass(self.rows.min(ROWS_PASSED_AT_ONCE))?;
            if passed == 0 {
                break;
            }
            self.rows -= passed;
            self.cancel.check()?;
        }
        Ok(())
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
    /// `scalars` as values of the columns from `first` on.
    fn values(&self, scalars: &[Scalar], first: usize, compiler: &mut Compiler<'_>) -> Result<Box<[KeyValue]>> {
        let value = |(at, scalar)| KeyValue::new(scalar, self.part(first + at)?, compiler);
        scalars.iter().enumerate().map(value).collect()
    }

    fn part(&self, at: usize) -> Result<&SqlType> {
        let missing = || Error::internal("a program with more values than a key has columns");
        self.codec.parts().get(at).map(|part| &part.kind).ok_or_else(missing)
    }

    fn check_text(&self, at: usize) -> Result<()> {
        match self.part(at)? {
            SqlType::Text { .. } => Ok(()),
            kind => Err(Error::internal(format!("a program with the prefix of a key of {kind}"))),
        }
    }

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

/// Appends the values of a key that equal `values`; `false` if one has none.
fn push_equal<'a>(values: &'a [KeyValue], env: Env<'a>, out: &mut Vec<ValueRef<'a>>) -> Result<bool> {
    for value in values {
        let Some(value) = value.equal(env)? else { return Ok(false) };
        out.push(value);
    }
    Ok(true)
}

/// Puts ranges in order and leaves each once; how many that are. Two of them are the same or have no key in common.
fn in_order(ranges: &mut [KeyRange]) -> usize {
    ranges.sort_unstable_by(|left, right| left.start.cmp(&right.start));
    let mut kept = 0;
    for at in 0..ranges.len() {
        if kept == 0 || ranges[at].start != ranges[kept - 1].start {
            ranges.swap(at, kept);
            kept += 1;
        }
    }
    kept
}

/// An end of a range of a key.
struct RangeEnd<'a> {
    /// Of the first column.
    first: Bound<ValueRef<'a>>,
    /// Of a comparison of rows: values of the first columns, and the end of the range of the next column among rows that
    /// have these.
    row: Option<(Vec<ValueRef<'a>>, Bound<ValueRef<'a>>)>,
}

/// `None` if nothing is in the range.
fn range_end<'a>(of: &'a Option<End>, side: Side, env: Env<'a>) -> Result<Option<RangeEnd<'a>>> {
    let Some(End { values, inclusive }) = of else { return Ok(Some(RangeEnd { first: Bound::Unbounded, row: None })) };
    let mut equal = Vec::new();
    let mut last = None;
    for (at, of_key) in values.iter().enumerate() {
        let is_last = at + 1 == values.len();
        let value = of_key.value(env)?;
        match of_key.equal_to(value) {
            Some(value) if !is_last => equal.push(value),
            // Where no row has the value, this column decides.
            _ => {
                last = of_key.bound_at(value, *inclusive && is_last, side);
                break;
            }
        }
    }
    // Where all of a column, or none, is on one side of the value, or that is NULL, the column before decides.
    let Some(last) = last.or_else(|| equal.pop().map(Bound::Excluded)) else { return Ok(None) };
    let first = equal.first().map_or(last, |first| Bound::Included(*first));
    Ok(Some(RangeEnd { first, row: (!equal.is_empty()).then_some((equal, last)) }))
}

/// The first text that is greater than all that begin with `prefix`, if there is one.
fn text_beyond(prefix: &str) -> Option<String> {
    let mut beyond = prefix.to_owned();
    while let Some(last) = beyond.pop() {
        // The next character in the order of bytes, which is that of code points without surrogates.
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            char::MAX => None,
            last => char::from_u32(last as u32 + 1),
        };
        if let Some(next) = next {
            beyond.push(next);
            return Some(beyond);
        }
    }
    None
}

fn position(def: &TableDef, id: ColumnId) -> Result<usize> {
    def.column_by_id(id).ok_or_else(|| Error::internal(format!("a key of a column {id} that is not there")))
}
