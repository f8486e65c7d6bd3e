//! Ranks of texts: a number for each text of a column of a table, in the order of the texts.
//!
//! ```text
//!             range 0        range 1
//!   block 0   a=0 c=2      | f=5 h=7           each value of a list gets the rank of its text
//!   block 1   b=1 c=2 d=3  | h=7
//!   run 0     d=3          | e=4 g=6
//! ```
//!
//! Each block lists its distinct values in order. The lists are cut at the same values, and workers take the ranges
//! between two cuts: they decode a slice of each list, sort the values of all slices together, and number the distinct
//! ones. Once the distinct values of all ranges are counted, the numbers before a range are added to its own.
//! So each value is compared once for its whole block, and a row needs only its code. A rank has 32 bits, whatever the
//! length of the text.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Error, Reservation, Result};
use rowmill_storage::TableSource;
use rowmill_storage::chunk::{Chunk, ReadMeter};

use super::OWNER;
use crate::group::{CutLists, ValueList};
use crate::phase::Phase;
use crate::scan::{PartOfTable, TablePart};
use crate::sort::places_in_order;

/// The values of a range. A worker holds its values while it sorts them.
const RANGE_VALUES: usize = if cfg!(test) { 1 << 5 } else { 1 << 14 };

/// The ranks of the texts of some columns of a table, which all workers of a sort make together.
pub(super) struct TextRanks {
    table: Arc<dyn TableSource>,
    columns: Vec<RankedColumn>,
    cutting: Mutex<()>,
    /// The next range to rank, counted over all columns.
    next: AtomicUsize,
    phase: Arc<Phase<Vec<RankedRange>, RanksOfColumns>>,
    /// The memory of the ranks. Taken by the worker that puts them together.
    memory: Mutex<Option<Reservation>>,
    broker: Broker,
    reads: Arc<ReadMeter>,
    cancel: Cancel,
}

struct RankedColumn {
    /// The position in the table's definition.
    column: usize,
    lists: OnceLock<CutLists>,
}

/// The ranks of all columns, in the order in which they were asked for.
pub(super) struct RanksOfColumns {
    /// For each column, the ranks of each part of the table.
    columns: Vec<Vec<PartRanks>>,
    _memory: Reservation,
}

/// The ranks of the texts of a part.
enum PartRanks {
    /// The ranks of the codes of a block.
    Codes(Vec<u32>),
    /// The ranks of the rows of an open run, and its NULLs.
    Rows(Vec<u32>, Option<NullBuffer>),
}

/// The ranks within one range.
struct RankedRange {
    column: usize,
    range: usize,
    /// The number of distinct texts.
    distinct: u32,
    /// For each part: the ranks of some codes, or of some rows.
    slices: Vec<RankedSlice>,
}

enum RankedSlice {
    Codes { part: usize, first: usize, ranks: Vec<u32> },
    Rows { part: usize, rows: Vec<u32>, ranks: Vec<u32> },
}

/// The number of values that must be ranked for a column of a table, if all blocks list theirs. `None` if some do not.
pub(super) fn values_to_rank(table: &dyn TableSource, column: usize) -> Result<Option<usize>> {
    let mut values = table.runs().iter().map(|run| run.rows()).sum();
    for block in table.blocks() {
        let Some(head) = block.chunk_head(table.table(), column)?.filter(Chunk::has_values) else { return Ok(None) };
        values += head.distinct().unwrap_or_default() + 1;
    }
    Ok(Some(values).filter(|values| *values < u32::MAX as usize))
}

/// The bytes of memory that ranks of `values` values need while they are put together.
pub(super) fn bytes_of_ranks(values: usize) -> u64 {
    (2 * values * size_of::<u32>()) as u64
}

impl TextRanks {
    /// Prepares the ranks of `columns`, positions in the table's definition. `memory` must have the bytes that they
    /// need. Reads nothing.
    pub(super) fn new(
        table: &Arc<dyn TableSource>,
        columns: &[usize],
        memory: Reservation,
        broker: &Broker,
        reads: &Arc<ReadMeter>,
        cancel: &Cancel,
    ) -> TextRanks {
        let ranked = |column: &usize| RankedColumn { column: *column, lists: OnceLock::new() };
        TextRanks {
            table: Arc::clone(table),
            columns: columns.iter().map(ranked).collect(),
            cutting: Mutex::new(()),
            next: AtomicUsize::new(0),
            phase: Arc::default(),
            memory: Mutex::new(Some(memory)),
            broker: broker.clone(),
            reads: Arc::clone(reads),
            cancel: cancel.clone(),
        }
    }

    /// Makes the ranks together with the other workers. `None` if they were freed, which means that the sort has no
    /// row left to rank.
    pub(super) fn make(&self) -> Result<Option<Arc<RanksOfColumns>>> {
        self.phase.run(&self.cancel, || self.ranked_ranges(), |ranges| self.whole(ranges))
    }

    /// Frees the ranks, as soon as no worker uses them any longer.
    pub(super) fn free(&self) {
        self.phase.end();
    }

    /// Opens the lists of a column, or waits for the worker that does.
    fn lists(&self, number: usize) -> Result<&CutLists> {
        let column = &self.columns[number];
        let _cutting = self.cutting.lock();
        if let Some(lists) = column.lists.get() {
            return Ok(lists);
        }
        let (source, table) = (&*self.table, self.table.table());
        let (mut lists, mut values) = (Vec::with_capacity(source.blocks().len()), 0);
        for block in source.blocks() {
            let chunk = block.chunk(table, column.column)?.filter(Chunk::has_values);
            let chunk = chunk.ok_or_else(|| Error::internal("a block without a list of the values to rank"))?;
            lists.push(ValueList::of_chunk(Arc::new(chunk.metered(&self.reads)), None));
            values += lists[lists.len() - 1].len();
        }
        let runs = source.runs().iter().map(|run| run.values(table, column.column)).collect::<Result<Vec<_>>>()?;
        values += runs.iter().map(|run| run.len()).sum::<usize>();
        let ranges = values.div_ceil(RANGE_VALUES);
        let lists = CutLists::new(lists, &runs, &table.columns[column.column].kind, ranges)?;
        Ok(column.lists.get_or_init(|| lists))
    }

    /// Takes ranges until none are left, and ranks their values.
    fn ranked_ranges(&self) -> Result<Vec<RankedRange>> {
        let mut ranked = Vec::new();
        // The texts of a range are state of the sort. Memory for them is refused only if nothing else can be spilled.
        let held = self.broker.spillable();
        let mut memory = held.broker().reservation(OWNER);
        loop {
            self.cancel.check()?;
            let Some((column, range)) = self.next_range()? else { return Ok(ranked) };
            ranked.push(self.rank(column, range, &mut memory)?);
            memory.recount(0);
        }
    }

    /// The next column and range.
    fn next_range(&self) -> Result<Option<(usize, usize)>> {
        let mut range = self.next.fetch_add(1, Ordering::Relaxed);
        for column in 0..self.columns.len() {
            let ranges = self.lists(column)?.ranges();
            if range < ranges {
                return Ok(Some((column, range)));
            }
            range -= ranges;
        }
        Ok(None)
    }

    fn rank(&self, column: usize, range: usize, memory: &mut Reservation) -> Result<RankedRange> {
        let lists = self.lists(column)?;
        let (mut texts, mut slices) = (Vec::new(), Vec::new());
        for (part, (list, places)) in lists.lists().iter().zip(lists.slices(range)?).enumerate() {
            if !places.is_empty() {
                texts.push(list.values(places.clone())?);
                slices.push(RankedSlice::Codes { part, first: places.start, ranks: Vec::new() });
            }
        }
        for (part, (values, rows)) in lists.loose(range).enumerate().filter(|(_, (values, _))| !values.is_empty()) {
            texts.push(values);
            let part = TablePart::run(&*self.table, part).number();
            slices.push(RankedSlice::Rows { part, rows: rows.to_vec(), ranks: Vec::new() });
        }
        let (ranks, distinct) = ranks_of(&texts, memory)?;
        let mut start = 0;
        for (slice, texts) in slices.iter_mut().zip(&texts) {
            let (RankedSlice::Codes { ranks: own, .. } | RankedSlice::Rows { ranks: own, .. }) = slice;
            *own = ranks[start..start + texts.len()].to_vec();
            start += texts.len();
        }
        Ok(RankedRange { column, range, distinct, slices })
    }

    /// Puts the ranks of all ranges together.
    fn whole(&self, ranges: Vec<Vec<RankedRange>>) -> Result<RanksOfColumns> {
        let mut ranges: Vec<RankedRange> = ranges.into_iter().flatten().collect();
        ranges.sort_unstable_by_key(|ranked| (ranked.column, ranked.range));
        let mut columns = Vec::with_capacity(self.columns.len());
        for number in 0..self.columns.len() {
            columns.push(self.empty(number)?);
        }
        let (mut before, mut of_column) = (0, 0);
        for ranked in ranges {
            if std::mem::replace(&mut of_column, ranked.column) != ranked.column {
                before = 0;
            }
            ranked.slices.into_iter().for_each(|slice| slice.put(before, &mut columns[ranked.column]));
            before += ranked.distinct;
        }
        let mut memory = self.memory.lock().take().expect("the ranks are put together once");
        memory.recount(columns.iter().flatten().map(PartRanks::bytes).sum());
        Ok(RanksOfColumns { columns, _memory: memory })
    }

    /// Room for the ranks of a column.
    fn empty(&self, number: usize) -> Result<Vec<PartRanks>> {
        let mut parts = Vec::new();
        for list in self.lists(number)?.lists() {
            parts.push(PartRanks::Codes(vec![0; list.len()]));
        }
        for run in self.table.runs() {
            let nulls = run.values(self.table.table(), self.columns[number].column)?.nulls().cloned();
            parts.push(PartRanks::Rows(vec![0; run.rows()], nulls));
        }
        Ok(parts)
    }

    /// Appends a column of ranks for each ranked column to `columns`, for rows of one part. The rows must ascend.
    /// `chunks` keeps open chunks for the next rows of the part.
    pub(super) fn append(
        &self,
        ranks: &RanksOfColumns,
        (part, rows): (TablePart, &[u32]),
        chunks: &mut OpenChunks,
        columns: &mut Vec<ArrayRef>,
    ) -> Result<()> {
        if chunks.part != Some(part) {
            *chunks = OpenChunks { part: Some(part), chunks: self.open(part)? };
        }
        let mut codes = Vec::new();
        for (number, ranks) in ranks.columns.iter().enumerate() {
            let ranks = match &ranks[part.number()] {
                PartRanks::Codes(ranks) => {
                    codes.clear();
                    let chunk = &chunks.chunks[number];
                    read_codes(chunk, rows, &mut codes)?;
                    let null = chunk.distinct().unwrap_or_default() as u32;
                    let nulls = (chunk.null_count() > 0).then(|| codes.iter().map(|code| *code < null).collect());
                    let ranks = codes.iter().map(|code| ranks[*code as usize]);
                    UInt32Array::new(ranks.collect(), nulls)
                }
                PartRanks::Rows(ranks, nulls) => {
                    let nulls = nulls.as_ref().map(|nulls| rows.iter().map(|row| nulls.is_valid(*row as usize)));
                    let ranks = rows.iter().map(|row| ranks[*row as usize]);
                    UInt32Array::new(ranks.collect(), nulls.map(Iterator::collect))
                }
            };
            columns.push(Arc::new(ranks));
        }
        Ok(())
    }

    /// Opens the chunks of all ranked columns in a block.
    fn open(&self, part: TablePart) -> Result<Vec<Chunk>> {
        let PartOfTable::Block(block) = part.of(&*self.table) else { return Ok(Vec::new()) };
        let chunk = |ranked: &RankedColumn| {
            let chunk = block.chunk(self.table.table(), ranked.column)?;
            chunk.ok_or_else(|| Error::internal("a block lost a column while its texts were ranked"))
        };
        self.columns.iter().map(|ranked| chunk(ranked).map(|chunk| chunk.metered(&self.reads))).collect()
    }
}

/// The chunks of the ranked columns of the block that a worker reads.
#[derive(Default)]
pub(super) struct OpenChunks {
    part: Option<TablePart>,
    chunks: Vec<Chunk>,
}

impl PartRanks {
    fn bytes(&self) -> u64 {
        let (PartRanks::Codes(ranks) | PartRanks::Rows(ranks, _)) = self;
        (ranks.capacity() * size_of::<u32>()) as u64
    }
}

impl RankedSlice {
    /// Puts the ranks in their places. `before` is the number of distinct texts in the ranges before.
    fn put(self, before: u32, parts: &mut [PartRanks]) {
        match self {
            RankedSlice::Codes { part, first, ranks } => {
                let PartRanks::Codes(all) = &mut parts[part] else { unreachable!("blocks have codes") };
                for (to, rank) in all[first..].iter_mut().zip(ranks) {
                    *to = before + rank;
                }
            }
            RankedSlice::Rows { part, rows, ranks } => {
                let PartRanks::Rows(all, _) = &mut parts[part] else { unreachable!("open runs have no codes") };
                for (row, rank) in rows.into_iter().zip(ranks) {
                    all[row as usize] = before + rank;
                }
            }
        }
    }
}

/// Appends the codes of some rows, which must ascend.
fn read_codes(chunk: &Chunk, rows: &[u32], codes: &mut Vec<u32>) -> Result<()> {
    match rows {
        [first, .., last] if (last - first) as usize + 1 == rows.len() => {
            chunk.codes(*first as usize..*last as usize + 1, codes)
        }
        _ => chunk.take_codes(rows, codes),
    }
}

/// The rank of each of the texts of all arrays among their distinct texts, one array after the other, and the number of
/// distinct texts. The ranks of NULLs have no meaning. Their memory is taken from `memory`.
fn ranks_of(texts: &[ArrayRef], memory: &mut Reservation) -> Result<(Vec<u32>, u32)> {
    if texts.is_empty() {
        return Ok((Vec::new(), 0));
    }
    let bytes: usize = texts.iter().map(|texts| texts.get_buffer_memory_size()).sum();
    memory.recount(bytes as u64);
    let all: Vec<&dyn Array> = texts.iter().map(AsRef::as_ref).collect();
    let all = arrow::compute::concat(&all).map_err(|error| Error::internal(format!("cannot rank texts: {error}")))?;
    let key = rowmill_plan::SortKey { column: 0, descending: false, nulls_first: false };
    let places = places_in_order(std::slice::from_ref(&all), &[key], memory)?;
    let bytes = match all.data_type() {
        DataType::Utf8View => all.as_string_view().clone().to_binary_view(),
        _ => all.as_binary_view().clone(),
    };
    let mut ranks = vec![0; all.len()];
    let (mut distinct, mut last) = (0, None);
    // NULLs come last.
    for place in &places[..all.len() - all.null_count()] {
        let text = bytes.value(*place as usize);
        if last.replace(text) != Some(text) {
            distinct += 1;
        }
        ranks[*place as usize] = distinct - 1;
    }
    Ok((ranks, distinct))
}
