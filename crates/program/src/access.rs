//! Finds rows of one table by a key: by whole primary keys, or by ranges of the primary key or of an index, in key
//! order.
//!
//! ```text
//! key (a, b, c)     a = 1, (b, c) < (5, 6)     one range:  (1) .. (1, 5, 6)
//!                   a = 1, b in [7, 3, 7]      two ranges, in the order of the key:  (1, 3), (1, 7)
//!                   a begins as 'x%y'          one range:  ('x') .. ('y')
//! ```
//!
//! An index entry holds the index columns and the primary key. If the statement needs no other columns, we read them
//! from the entry and do not fetch the row, unless the entry holds a short key because its values were too long.

mod columns;
mod distinct;

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::ArrayRef;
use rowmill_base::{Cancel, ColumnId, Error, ErrorKind, IndexId, Result, SqlType, recycled};
use rowmill_expr::kernels::like::{LikeRange, literal_prefix};
use rowmill_plan::program::{self, DistinctKeys, Scalar};
use rowmill_storage::TableDef;
use rowmill_storage::keyed::{KeyCodec, KeyRange, ValueRef};
use rowmill_txn::Catalog;
use rowmill_txn::keyed::{IndexEntry, IndexOrder, IndexScan, KeyedReader, RangeScan, RowLookups, RowTest, TableCodec};

pub(crate) use self::columns::FoundColumns;
use self::columns::{ColumnReads, FoundBytes};
use crate::expr::{Env, Expr, ExprCompiler, RowsLayout};
use crate::key_value::{KeyValue, RangeSide};
use crate::read::CONDITIONED_FIRST;
use crate::texts::ComputedTexts;

/// An access that is ready to run.
#[derive(Debug)]
pub(crate) struct CompiledAccess {
    codec: Arc<TableCodec>,
    index: Option<IndexId>,
    equal: Box<[KeyValue]>,
    alternatives: Box<[Box<[KeyValue]>]>,
    limit: NextColumn,
    backward: bool,
    is_point: bool,
    /// Whether at most one row can match: all columns of a unique key are given.
    is_single: bool,
    /// The columns of the condition.
    tested: ColumnReads,
    /// The other columns that the statement needs.
    others: ColumnReads,
    /// Both, for rows whose columns are all needed.
    all: ColumnReads,
    /// Whether each row that is given must have its bytes.
    whole: bool,
    distinct: Option<DistinctKeys>,
    /// The columns of an index entry, by their positions in the table. Empty without an index.
    entry_columns: Box<[usize]>,
    texts: usize,
}

/// The condition on the key column that follows the columns with known values.
#[derive(Debug)]
enum NextColumn {
    Nothing,
    NotNull,
    Range {
        from: Option<ValueEnd>,
        to: Option<ValueEnd>,
    },
    /// The text must begin as all matches of a pattern do. `column` is the column's place in the table.
    Prefix {
        pattern: Expr,
        escape: Option<char>,
        column: usize,
    },
}

/// An end of a range: one value, or several values that are compared with the key columns as a row.
#[derive(Debug)]
struct ValueEnd {
    values: Box<[KeyValue]>,
    inclusive: bool,
}

/// Memory that reading one table needs, kept from one statement to the next.
#[derive(Debug, Default)]
pub(crate) struct AccessScratch {
    pub(crate) key: Vec<u8>,
    pub(crate) row: Vec<u8>,
    range: KeyRange,
    /// A range that gives more key columns a value. One of its ends replaces an end of `range`.
    longer: KeyRange,
    /// The ranges of the alternatives.
    ranges: Vec<KeyRange>,
    scan: RangeScan,
    index_scan: IndexScan,
    pub(crate) lookups: RowLookups,
    /// The values of the key columns that are compared for equality.
    equal: Vec<ValueRef<'static>>,
    /// Buffers for values that the key stores in another form and that must be decoded.
    values: Vec<Vec<u8>>,
    /// The first entry after the rows with the same values.
    next: Vec<u8>,
    next_row: Vec<u8>,
    texts: ComputedTexts,
}

/// Skips the first rows of an access without reading them. The statement only needs to know that they exist.
pub(crate) struct Unread<'c> {
    /// How many rows are still to be skipped.
    pub(crate) rows: usize,
    /// Whether the access ends when they are skipped.
    is_all: bool,
    cancel: &'c Cancel,
}

/// Rows that are skipped between two checks for cancellation and the deadline.
const ROWS_PASSED_AT_ONCE: usize = 4096;

/// The columns that a statement needs of a table, by their positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedColumns<'w> {
    pub(crate) all: &'w [usize],
    /// Those of them that the condition needs.
    pub(crate) tested: &'w [usize],
}

/// Receives the rows that an access finds.
pub(crate) trait RowTaker {
    /// Whether rows must meet a condition. If not, [`test`](Self::test) need not be called.
    fn has_test(&self) -> bool {
        false
    }

    /// Whether a row meets the condition. It is called before [`take`](Self::take), for rows and for index entries
    /// that hold the columns of the condition.
    fn test(&mut self, _columns: FoundColumns<'_>) -> Result<bool> {
        Ok(true)
    }

    /// Tests many rows at once: appends the places of the matching ones to `wanted`, ascending. Returns `false` if it
    /// cannot, and then has done nothing.
    fn test_run(&mut self, _access: &CompiledAccess, _rows: RunRows<'_>, _wanted: &mut Vec<u32>) -> Result<bool> {
        Ok(false)
    }

    /// Takes a row. If it was not tested, tests it first. Returns whether more rows are wanted.
    fn take(&mut self, found: FoundEntry<'_>, is_tested: bool) -> Result<bool>;
}

impl<F: FnMut(FoundEntry<'_>) -> Result<bool>> RowTaker for F {
    fn take(&mut self, found: FoundEntry<'_>, _is_tested: bool) -> Result<bool> {
        self(found)
    }
}

/// Consecutive rows or index entries that an access found.
#[derive(Clone, Copy)]
pub(crate) enum RunRows<'a> {
    /// The keys and the bytes of rows.
    Rows(&'a [&'a [u8]], &'a [&'a [u8]]),
    /// Index entries with the values of all their columns.
    Entries(&'a [&'a [u8]]),
}

impl RunRows<'_> {
    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        match self {
            RunRows::Rows(keys, _) | RunRows::Entries(keys) => keys.len(),
        }
    }
}

/// The test of a scan's rows or index entries by a taker.
struct TakerTest<'t, T> {
    access: &'t CompiledAccess,
    taker: &'t mut T,
    values: &'t mut Vec<Vec<u8>>,
    /// Whether the scan gives index entries.
    is_of_entries: bool,
}

impl<T: RowTaker> RowTest for TakerTest<'_, T> {
    fn test(&mut self, key: &[u8], row: &[u8]) -> Result<bool> {
        let bytes = if self.is_of_entries { FoundBytes::Entry(key) } else { FoundBytes::Row(key, row) };
        self.taker.test(self.access.found(bytes, self.values).columns)
    }

    fn test_run(&mut self, keys: &[&[u8]], rows: &[&[u8]], wanted: &mut Vec<u32>) -> Result<bool> {
        let run = if self.is_of_entries { RunRows::Entries(keys) } else { RunRows::Rows(keys, rows) };
        self.taker.test_run(self.access, run, wanted)
    }
}

/// A row or an index entry that an access found.
pub(crate) struct FoundEntry<'a> {
    /// The key of the row, or the index entry if the row was not fetched.
    pub(crate) key: &'a [u8],
    pub(crate) row: &'a [u8],
    /// The columns that the statement needs.
    pub(crate) columns: FoundColumns<'a>,
    /// Number of rows that the entry is given for, if the access counts them.
    pub(crate) rows: usize,
}

/// A key of a table: its codec and, for each of its parts, the place of the column in the table.
struct AccessKey<'c> {
    codec: &'c KeyCodec,
    columns: Vec<usize>,
    /// How many leading parts identify a row, or `None` if the key is not unique.
    unique_parts: Option<usize>,
}

impl CompiledAccess {
    /// Compiles `access`. Its scalars may refer to the first `row` rows of `layout`. It reads the columns `wanted` of
    /// its own rows. If `whole` is set, it always fetches the row, even if an index entry would be enough.
    pub(crate) fn new(
        access: &program::Access,
        catalog: &Catalog,
        parameters: &[SqlType],
        layout: &RowsLayout,
        row: usize,
        wanted: WantedColumns<'_>,
        whole: bool,
    ) -> Result<CompiledAccess> {
        let codec = catalog.codec(access.table)?;
        let key = AccessKey::of(&codec, access.index)?;
        let mut compiler = ExprCompiler::new(parameters, layout, row);
        let given = access.equal.len() + access.alternatives.first().map_or(0, Vec::len);
        let mut values = |scalars: &[Scalar], first: usize| key.values(scalars, first, &access.nulls, &mut compiler);
        let equal = values(&access.equal, 0)?;
        let alternatives = access.alternatives.iter().map(|list| values(list, access.equal.len()));
        let alternatives: Box<[Box<[KeyValue]>]> = alternatives.collect::<Result<_>>()?;
        if alternatives.iter().any(|list| list.len() != alternatives[0].len()) {
            return Err(Error::internal("the program has alternatives with different numbers of values"));
        }
        let mut end = |bound: &Option<program::AccessBound>| {
            let end = |bound: &program::AccessBound| {
                Ok::<_, Error>(ValueEnd { values: values(&bound.values, given)?, inclusive: bound.inclusive })
            };
            bound.as_ref().map(end).transpose()
        };
        let (from, to) = (end(&access.from)?, end(&access.to)?);
        let limit = match &access.prefix {
            Some(prefix) => {
                key.check_text(given)?;
                let (pattern, escape) = (compiler.expr(&prefix.pattern)?, prefix.escape);
                NextColumn::Prefix { pattern, escape, column: key.columns[given] }
            }
            None if from.is_some() || to.is_some() => NextColumn::Range { from, to },
            None if access.not_null => NextColumn::NotNull,
            None => NextColumn::Nothing,
        };
        // All columns of the primary key have values, so we can build the key itself.
        let is_point = access.index.is_none() && given == key.columns.len();
        let is_single = key.unique_parts.is_some_and(|parts| given >= parts) && access.nulls.is_empty();
        let of_index = access.index.is_some().then_some(&key);
        let is_of_key = |column: usize| codec.is_of_key(column);
        let is_tested = |column: usize| wanted.tested.contains(&column);
        let tested = ColumnReads::new(wanted.all, is_tested, is_of_key, of_index);
        let others = ColumnReads::new(wanted.all, |column| !is_tested(column), is_of_key, of_index);
        let all = ColumnReads::new(wanted.all, |_| true, is_of_key, of_index);
        let needs_rows = whole || !all.are_in_entry();
        let distinct = access.distinct;
        if let Some(distinct) = distinct
            && (is_point || distinct.columns < given || distinct.columns > key.columns.len())
        {
            return Err(Error::internal("the program compares other columns of a key than it has"));
        }
        if distinct.is_some() && access.index.is_some() && needs_rows {
            return Err(Error::internal("the program reads distinct entries of an index for columns that it lacks"));
        }
        let (index, backward, texts) = (access.index, access.backward, compiler.texts());
        let entry_columns = if index.is_some() { key.columns.as_slice().into() } else { Box::default() };
        Ok(CompiledAccess {
            index,
            equal,
            alternatives,
            limit,
            backward,
            is_point,
            is_single,
            tested,
            others,
            all,
            whole,
            distinct,
            entry_columns,
            texts,
            codec,
        })
    }

    /// The codec of the table's keys and rows.
    pub(crate) fn codec(&self) -> &Arc<TableCodec> {
        &self.codec
    }

    /// Whether it gives one row for several rows with the same values.
    pub(crate) fn is_distinct(&self) -> bool {
        self.distinct.is_some()
    }

    /// The column whose prefix gives the range of keys, by its place in the table.
    pub(crate) fn prefix_column(&self) -> Option<usize> {
        match &self.limit {
            NextColumn::Prefix { column, .. } => Some(*column),
            _ => None,
        }
    }

    /// Whether the range of keys may hold rows that do not match, because the pattern asks for more than a prefix.
    pub(crate) fn finds_more_than_prefix(&self, env: Env<'_>) -> Result<bool> {
        let NextColumn::Prefix { pattern, escape, .. } = &self.limit else { return Ok(false) };
        // The pattern may be a text that is made of others, such as `$1 || '%'`.
        let mut texts = ComputedTexts::default();
        texts.clear(self.texts);
        Ok(match pattern.value(Env { texts: &texts, ..env })? {
            ValueRef::Text(pattern) => !matches!(LikeRange::of(pattern, *escape), Some(LikeRange::Prefix(_))),
            _ => true,
        })
    }

    /// Skips the rows that `unread` asks for, then hands all further rows in order to `taker` until it wants no more.
    /// Returns whether it wants more. `env` has the columns of the lookups before this one. `first` is the
    /// number of rows that the caller will probably need, so the scan fetches no more at first.
    pub(crate) fn run(
        &self,
        env: Env<'_>,
        reader: &KeyedReader<'_>,
        scratch: &mut AccessScratch,
        first: usize,
        unread: &mut Unread<'_>,
        taker: &mut impl RowTaker,
    ) -> Result<bool> {
        if self.alternatives.is_empty() {
            return match self.find(env, scratch)? {
                true => self.run_range(reader, scratch, first, unread, taker),
                false => Ok(true),
            };
        }
        let ranges = self.find_ranges(env, scratch)?;
        // A backward access must give its ranges in descending order as well.
        if self.backward {
            scratch.ranges[..ranges].reverse();
        }
        if self.is_point {
            return self.run_points(ranges, reader, scratch, first, unread, taker);
        }
        for at in 0..ranges {
            let AccessScratch { range, ranges, .. } = &mut *scratch;
            std::mem::swap(range, &mut ranges[at]);
            if !self.run_range(reader, scratch, first, unread, taker)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the rows of the first `points` ranges of `scratch`, whose starts are keys of rows.
    fn run_points(
        &self,
        points: usize,
        reader: &KeyedReader<'_>,
        scratch: &mut AccessScratch,
        first: usize,
        unread: &mut Unread<'_>,
        taker: &mut impl RowTaker,
    ) -> Result<bool> {
        let AccessScratch { ranges, lookups, values, .. } = scratch;
        let mut rest = &ranges[..points];
        let mut pace = RowPace::new(first);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(pace.next().min(rest.len()));
            rest = later;
            lookups.clear();
            now.iter().for_each(|range| lookups.push(&range.start));
            reader.look_up(lookups)?;
            for at in 0..lookups.len() {
                let (key, Some(row)) = lookups.get(at) else { continue };
                if unread.rows > 0 {
                    unread.rows -= 1;
                    if unread.is_over() {
                        return Ok(false);
                    }
                } else if !taker.take(self.found(FoundBytes::Row(key, row), values), false)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Reads the rows of the entries of a scan that was started. The entries lack columns that the statement needs. If
    /// they have those of the condition, we look up only the rows of entries that meet it.
    fn run_rows(
        &self,
        index: IndexId,
        reader: &KeyedReader<'_>,
        scratch: &mut AccessScratch,
        first: usize,
        taker: &mut impl RowTaker,
    ) -> Result<bool> {
        let AccessScratch { key, index_scan, lookups, values, .. } = scratch;
        let mut pace = RowPace::new(first);
        let tests_entries = taker.has_test() && self.tested.are_in_entry() && index_scan.is_plain();
        loop {
            let wanted = pace.next();
            lookups.clear();
            while lookups.len() < wanted {
                match self.next_entry(tests_entries, reader, index_scan, values, taker)? {
                    None => break,
                    Some(IndexEntry::Row(key, row)) => lookups.push_found(key, row),
                    Some(IndexEntry::Whole(entry)) => {
                        self.codec.row_key(index, entry, key)?;
                        lookups.push(key);
                    }
                }
            }
            reader.look_up(lookups)?;
            for at in 0..lookups.len() {
                let (key, row) = lookups.get(at);
                let row = row.ok_or_else(|| self.without_row())?;
                if !taker.take(self.found(FoundBytes::Row(key, row), values), tests_entries)? {
                    return Ok(false);
                }
            }
            if lookups.len() < wanted {
                return Ok(true);
            }
        }
    }

    /// Returns the next entry of a scan that was started. With `tests_entries`, entries that do not meet the condition
    /// are passed over where they are stored.
    #[inline]
    fn next_entry<'s>(
        &self,
        tests_entries: bool,
        reader: &KeyedReader<'_>,
        scan: &'s mut IndexScan,
        values: &mut Vec<Vec<u8>>,
        taker: &mut impl RowTaker,
    ) -> Result<Option<IndexEntry<'s>>> {
        if !tests_entries {
            return scan.next(&self.codec, reader);
        }
        let mut test = TakerTest { access: self, taker, values, is_of_entries: true };
        Ok(scan.next_passing(reader, &mut test)?.map(IndexEntry::Whole))
    }

    /// Reads the rows of the key or the range that `scratch` holds.
    fn run_range(
        &self,
        reader: &KeyedReader<'_>,
        scratch: &mut AccessScratch,
        first: usize,
        unread: &mut Unread<'_>,
        taker: &mut impl RowTaker,
    ) -> Result<bool> {
        if let Some(distinct) = self.distinct {
            return self.run_distinct(distinct, reader, scratch, unread.cancel, taker);
        }
        let AccessScratch { key, row, range, scan, index_scan, values, .. } = scratch;
        // A full count of a table is looked up in the cache of the reader, or computed once and then cached.
        let counted = (self.is_whole() && unread.rows == usize::MAX).then(|| self.codec.row_index());
        if let Some(rows) = counted.and_then(|table| reader.row_count(table)) {
            // `rows` is `usize::MAX` here; the caller takes the difference as the count.
            unread.rows -= usize::try_from(rows).unwrap_or(usize::MAX);
            return Ok(true);
        }
        if self.is_point {
            return match reader.get(key, row)? {
                true if unread.rows > 0 => {
                    unread.rows -= 1;
                    Ok(!unread.is_over())
                }
                true => taker.take(self.found(FoundBytes::Row(key, row), values), false),
                false => Ok(true),
            };
        }
        // At most one row can match, so the scan should not fetch more.
        let first = if self.is_single { 1 } else { first };
        let Some(index) = self.index else {
            scan.start(&range.start, &range.end, self.backward, first);
            unread.pass(|rows| scan.pass(reader, rows))?;
            if unread.is_all {
                return Ok(unread.rows > 0);
            }
            if let Some(table) = counted {
                reader.note_row_count(table, (usize::MAX - unread.rows) as u64);
            }
            let has_test = taker.has_test();
            loop {
                let next = match has_test {
                    false => scan.next(reader)?,
                    true => {
                        let mut test = TakerTest { access: self, taker, values, is_of_entries: false };
                        scan.next_passing(reader, &mut test)?
                    }
                };
                let Some((key, row)) = next else { return Ok(true) };
                if !taker.take(self.found(FoundBytes::Row(key, row), values), has_test)? {
                    return Ok(false);
                }
            }
        };
        // The caller only counts the rows, so any order will do.
        let order = if unread.rows == usize::MAX { IndexOrder::Kept } else { IndexOrder::FewAlike };
        index_scan.start(&self.codec, index, range, self.backward, first, order)?;
        unread.pass(|rows| index_scan.pass(&self.codec, reader, rows))?;
        if unread.is_all {
            return Ok(unread.rows > 0);
        }
        if let Some(table) = counted {
            reader.note_row_count(table, (usize::MAX - unread.rows) as u64);
        }
        if self.whole || !self.all.are_in_entry() {
            return self.run_rows(index, reader, scratch, first, taker);
        }
        let tests_entries = taker.has_test() && index_scan.is_plain();
        loop {
            let found = match self.next_entry(tests_entries, reader, index_scan, values, taker)? {
                None => return Ok(true),
                Some(IndexEntry::Row(key, row)) => FoundBytes::Row(key, row),
                Some(IndexEntry::Whole(entry)) => FoundBytes::Entry(entry),
            };
            if !taker.take(self.found(found, values), tests_entries)? {
                return Ok(false);
            }
        }
    }

    /// Decodes the columns `columns` of the table, each as one array. Entries must have all of them.
    pub(crate) fn decode(&self, rows: RunRows<'_>, columns: &[usize]) -> Result<Vec<ArrayRef>> {
        let entries = match rows {
            RunRows::Rows(keys, rows) => return self.codec.decode(keys, rows, columns),
            RunRows::Entries(entries) => entries,
        };
        let (head, codec) = self.codec.keys(self.index)?;
        let lacks = || Error::internal("an index entry lacks a column of the program");
        let parts: Option<Vec<usize>> =
            columns.iter().map(|column| self.entry_columns.iter().position(|part| part == column)).collect();
        let parts = parts.ok_or_else(lacks)?;
        let mut wanted = vec![false; codec.parts().len()];
        parts.iter().for_each(|part| wanted[*part] = true);
        let decoded = codec.decode_columns(entries, head.len(), &wanted)?;
        parts.iter().map(|part| decoded[*part].clone().ok_or_else(lacks)).collect()
    }

    /// Whether the access finds every row of its table.
    fn is_whole(&self) -> bool {
        self.equal.is_empty() && self.alternatives.is_empty() && matches!(self.limit, NextColumn::Nothing)
    }

    #[inline]
    fn found<'a>(&'a self, bytes: FoundBytes<'a>, scratch: &'a mut Vec<Vec<u8>>) -> FoundEntry<'a> {
        let columns = self.all.len();
        if scratch.len() < columns {
            scratch.resize_with(columns, Vec::new);
        }
        let columns = FoundColumns::new(self, bytes, &mut scratch[..columns]);
        let (key, row) = match bytes {
            FoundBytes::Row(key, row) => (key, row),
            FoundBytes::Entry(entry) => (entry, &[][..]),
        };
        FoundEntry { key, row, columns, rows: 1 }
    }

    /// Whether it finds the row of one primary key.
    pub(crate) fn is_one_point(&self) -> bool {
        self.is_point && self.alternatives.is_empty() && self.distinct.is_none()
    }

    /// Whether it finds at most one row.
    pub(crate) fn is_one_row(&self) -> bool {
        self.is_single && self.alternatives.is_empty()
    }

    /// The key of the only row that an access by [one primary key](Self::is_one_point) can find.
    pub(crate) fn find_point<'s>(&self, env: Env<'_>, scratch: &'s mut AccessScratch) -> Result<Option<&'s [u8]>> {
        Ok(self.find(env, scratch)?.then_some(&scratch.key[..]))
    }

    /// A row that was looked up by its key.
    pub(crate) fn found_row<'a>(
        &'a self,
        key: &'a [u8],
        row: &'a [u8],
        scratch: &'a mut AccessScratch,
    ) -> FoundEntry<'a> {
        self.found(FoundBytes::Row(key, row), &mut scratch.values)
    }

    /// Builds the key or the range to read. Returns `false` if no row can be in it.
    fn find(&self, env: Env<'_>, scratch: &mut AccessScratch) -> Result<bool> {
        let AccessScratch { key, range, longer, equal, texts, .. } = scratch;
        texts.clear(self.texts);
        let env = Env { texts, ..env };
        let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(equal));
        // Equal values first: if one of them can not occur in its column, no row matches.
        let is_found =
            push_equal(&self.equal, env, &mut values)? && self.encode(&mut values, env, key, [range, longer])?;
        *equal = recycled(values);
        Ok(is_found)
    }

    /// Builds the range of each alternative, sorted by key and without duplicates, and returns their number. A point
    /// lookup has its key as the start of the range.
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

    /// Builds the key or the range for `values`, the leading columns of the key; it may append to them. Returns `false`
    /// if no row can be in it.
    fn encode<'a>(
        &'a self,
        values: &mut Vec<ValueRef<'a>>,
        env: Env<'a>,
        key: &mut Vec<u8>,
        [range, longer]: [&mut KeyRange; 2],
    ) -> Result<bool> {
        if self.is_point {
            return match self.codec.encode_key(None, values, key) {
                // No row can have a key that is too long for the base to store.
                Err(error) if error.kind() == ErrorKind::KeyTooLong => Ok(false),
                encoded => encoded.map(|()| true),
            };
        }
        let (head, codec) = self.codec.keys(self.index)?;
        match &self.limit {
            NextColumn::Nothing => codec.range(head, values, Bound::Unbounded, Bound::Unbounded, range)?,
            NextColumn::NotNull => {
                codec.range(head, values, Bound::Unbounded, Bound::Unbounded, range)?;
                if !codec.parts()[values.len()].nullable {
                    return Ok(true);
                }
                values.push(ValueRef::Null);
                codec.range(head, values, Bound::Unbounded, Bound::Unbounded, longer)?;
                // NULLs sort last, or first in a descending column: cut the range at the edge of the NULLs.
                match codec.parts()[values.len() - 1].descending {
                    true => std::mem::swap(&mut range.start, &mut longer.end),
                    false => std::mem::swap(&mut range.end, &mut longer.start),
                }
            }
            NextColumn::Range { from, to } => {
                let Some(from) = range_end(from, RangeSide::Lower, env)? else { return Ok(false) };
                let Some(to) = range_end(to, RangeSide::Upper, env)? else { return Ok(false) };
                codec.range(head, values, from.first, to.first, range)?;
                let given = values.len();
                for (end, side) in [(from, RangeSide::Lower), (to, RangeSide::Upper)] {
                    // A row bound such as (b, c) < (5, 6) gives more columns a value, so its end of the range is the
                    // tighter one.
                    let Some((equal, last)) = end.row else { continue };
                    values.truncate(given);
                    values.extend(equal);
                    let (lower, upper) = match side {
                        RangeSide::Lower => (last, Bound::Unbounded),
                        RangeSide::Upper => (Bound::Unbounded, last),
                    };
                    codec.range(head, values, lower, upper, longer)?;
                    match (side == RangeSide::Lower) == codec.parts()[given].descending {
                        true => std::mem::swap(&mut range.end, &mut longer.end),
                        false => std::mem::swap(&mut range.start, &mut longer.start),
                    }
                }
            }
            NextColumn::Prefix { pattern, escape, .. } => {
                let ValueRef::Text(pattern) = pattern.value(env)? else { return Ok(false) };
                let prefix = literal_prefix(pattern, *escape);
                let beyond = text_beyond(&prefix);
                let upper =
                    beyond.as_deref().map_or(Bound::Unbounded, |beyond| Bound::Excluded(ValueRef::Text(beyond)));
                // The values of the key live longer than these two texts, so the list must be borrowed with a
                // shorter lifetime.
                let values: &[ValueRef<'_>] = values;
                codec.range(head, values, Bound::Included(ValueRef::Text(&prefix)), upper, range)?;
            }
        }
        Ok(!range.is_empty())
    }

    #[cold]
    fn without_row(&self) -> Error {
        let (table, index) = (&self.codec.def().name, self.index);
        Error::corrupt(format!("table {table}: index {index:?} has an entry whose row does not exist"))
    }
}

/// The most rows that are looked up together.
const LOOKUPS_AT_ONCE: usize = 16;

/// The factor by which more rows are looked up if the first ones were not sufficient. Four rows together take little
/// longer than one.
const PACE_GROWTH: usize = 4;

/// How many rows to look up together. A statement that needs few rows should not look up many.
#[derive(Debug, Default)]
pub(crate) struct RowPace {
    /// Rows that the statement will probably still need.
    wanted: usize,
    next: usize,
}

impl RowPace {
    /// `first` is the number of rows that the statement will probably need. If it needs very few, already the first one
    /// may be sufficient.
    pub(crate) fn new(first: usize) -> RowPace {
        RowPace { wanted: first, next: if first <= CONDITIONED_FIRST { 1 } else { LOOKUPS_AT_ONCE } }
    }

    pub(crate) fn next(&mut self) -> usize {
        let next = if self.wanted == 0 { self.next } else { self.next.min(self.wanted) };
        self.wanted -= self.wanted.min(next);
        self.next = (PACE_GROWTH * self.next).min(LOOKUPS_AT_ONCE);
        next
    }
}

impl<'c> Unread<'c> {
    /// Prepares to skip the first `rows` rows.
    pub(crate) fn new(rows: usize, cancel: &'c Cancel) -> Unread<'c> {
        Unread { rows, is_all: false, cancel }
    }

    /// Skips one row if there is one, and ends then.
    pub(crate) fn any(cancel: &'c Cancel) -> Unread<'c> {
        Unread::more_than(0, cancel)
    }

    /// Skips one row more than `rows` if there are that many, and ends then. Otherwise some of its rows are left.
    pub(crate) fn more_than(rows: usize, cancel: &'c Cancel) -> Unread<'c> {
        Unread { rows: rows.saturating_add(1), is_all: true, cancel }
    }

    /// Whether the access has skipped everything that it should find.
    fn is_over(&self) -> bool {
        self.is_all && self.rows == 0
    }

    /// Skips rows of a scan. `pass` is given the number of rows to skip at most and returns how many it skipped.
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

impl AccessKey<'_> {
    /// Compiles `scalars` as values of the key columns from `first` on. Those at the places `nulls` of the key may be
    /// NULL.
    fn values(
        &self,
        scalars: &[Scalar],
        first: usize,
        nulls: &[usize],
        compiler: &mut ExprCompiler<'_>,
    ) -> Result<Box<[KeyValue]>> {
        let value = |(at, scalar)| {
            let place = first + at;
            Ok(KeyValue::new(scalar, self.part(place)?, compiler)?.finding_null(nulls.contains(&place)))
        };
        scalars.iter().enumerate().map(value).collect()
    }

    fn part(&self, at: usize) -> Result<&SqlType> {
        let missing = || Error::internal("the program gives a key more values than it has columns");
        self.codec.parts().get(at).map(|part| &part.kind).ok_or_else(missing)
    }

    fn check_text(&self, at: usize) -> Result<()> {
        match self.part(at)? {
            SqlType::Text { .. } => Ok(()),
            kind => Err(Error::internal(format!("the program asks for a text prefix of a key column of type {kind}"))),
        }
    }

    fn of(codec: &TableCodec, index: Option<IndexId>) -> Result<AccessKey<'_>> {
        let def = codec.def();
        let keyed = def.keyed.as_ref().ok_or_else(|| Error::internal("the codec belongs to a table without keys"))?;
        let (_, key) = codec.keys(index)?;
        let index = index.and_then(|id| keyed.indexes.iter().find(|index| index.id == id));
        let parts = index.map_or(&[][..], |index| &index.parts);
        let columns = parts.iter().chain(&keyed.key).map(|part| position(def, part.column)).collect::<Result<_>>()?;
        let unique_parts = match index {
            None => Some(keyed.key.len()),
            Some(index) => index.unique.then_some(index.parts.len()),
        };
        Ok(AccessKey { codec: key, columns, unique_parts })
    }
}

/// Appends the key values that equal `values`. Returns `false` if the column can have no value that equals one of them.
fn push_equal<'a>(values: &'a [KeyValue], env: Env<'a>, out: &mut Vec<ValueRef<'a>>) -> Result<bool> {
    for value in values {
        let Some(value) = value.equal(env)? else { return Ok(false) };
        out.push(value);
    }
    Ok(true)
}

/// Sorts ranges and removes duplicates. Returns how many remain. Any two ranges must be identical or disjoint.
fn in_order(ranges: &mut [KeyRange]) -> usize {
    ranges.sort_unstable_by(|left, right| left.start.cmp(&right.start));
    let mut kept = 0;
    for at in 0..ranges.len() {
        // Equal starts mean equal ranges, because two ranges are identical or disjoint.
        if kept == 0 || ranges[at].start != ranges[kept - 1].start {
            ranges.swap(at, kept);
            kept += 1;
        }
    }
    kept
}

/// One end of a range of keys.
struct RangeEnd<'a> {
    /// The bound of the first column of the range.
    first: Bound<ValueRef<'a>>,
    /// For a comparison of rows: the values of the leading columns, and the bound of the next column among the keys
    /// that have these values.
    row: Option<(Vec<ValueRef<'a>>, Bound<ValueRef<'a>>)>,
}

/// Computes an end of a range from its values. Returns `None` if the range is empty, for example because of a NULL.
fn range_end<'a>(of: &'a Option<ValueEnd>, side: RangeSide, env: Env<'a>) -> Result<Option<RangeEnd<'a>>> {
    let Some(ValueEnd { values, inclusive }) = of else {
        return Ok(Some(RangeEnd { first: Bound::Unbounded, row: None }));
    };
    let mut equal = Vec::new();
    let mut last = None;
    // Find the first column whose value decides: values before it must be equal, values after it are irrelevant.
    for (at, of_key) in values.iter().enumerate() {
        let is_last = at + 1 == values.len();
        let value = of_key.value(env)?;
        match of_key.equal_to(value) {
            Some(value) if !is_last => equal.push(value),
            // No row has this value, so this column decides and the columns after it do not matter.
            _ => {
                last = of_key.bound_at(value, *inclusive && is_last, side);
                break;
            }
        }
    }
    // If all values of a column, or none, are on one side of the value, or the value is NULL, the column before
    // decides.
    let Some(last) = last.or_else(|| equal.pop().map(Bound::Excluded)) else { return Ok(None) };
    let first = equal.first().map_or(last, |first| Bound::Included(*first));
    Ok(Some(RangeEnd { first, row: (!equal.is_empty()).then_some((equal, last)) }))
}

/// The smallest text that is greater than every text that begins with `prefix`, if one exists.
fn text_beyond(prefix: &str) -> Option<String> {
    let mut beyond = prefix.to_owned();
    while let Some(last) = beyond.pop() {
        // The next character in byte order. UTF-8 sorts by code point, and surrogates are not characters, so we step
        // over them.
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
    def.column_by_id(id).ok_or_else(|| Error::internal(format!("a key has the unknown column {id}")))
}
