//! The fourth step of a join: batches of the probe side are matched against the index.
//!
//! A batch is cut into slices of at most as many rows as a result batch may have. If keys are unique, one slice
//! therefore gives at most one batch. The keys of a slice are looked up together. A slice then goes through some of
//! these steps:
//!
//! ```text
//! whether      the lookup says of each row whether it has a match: semi and anti joins without a condition
//! unique       each row has at most one match: all pairs form one batch
//! candidates   pairs are listed, at most one batch at a time, and the condition is evaluated for them
//! uncertain    for IN, pairs whose keys may be equal are listed and evaluated                         uncertain.rs
//! aggregates   of an ordered join: each row with the aggregates over the rows that it meets
//! remaining    rows that are returned because they have a match, or because they have none
//! ```

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::take;
use rowmill_base::{Error, Reservation, Result};

use super::emit::{BuildSide, ProbeSide, columns, failed};
use super::index::{Index, NONE};
use super::keys::KeyForm;
use super::list_bounds::LIST_ROWS_MIN;
use super::long_keys::LongKeys;
use super::metrics::add;
use super::packing::PackScratch;
use super::prepare::{Built, ReadyBuild};
use super::{HashJoin, JoinKind, OWNER};
use crate::batch::Batches;
use crate::ordered_join::{OrderedAggregates, PlaceCursors, PlaceRanges, RowsMet};
use crate::phase::Turn;
use crate::scan::block_state::selected;
use crate::single_row::more_than_one_row;
use crate::text_memo::{TextMemo, ViewedTexts};

/// The reason why rows with notes have numbers.
const NUMBERED: &str = "the probe rows of a piece have numbers";

/// A worker's share of the probe side.
pub(super) struct Prober {
    pub(super) join: Arc<HashJoin>,
    pub(super) built: Arc<Built>,
    turn: Turn<(), ()>,
    share: Batches,
    /// The batch that is being cut; `next_row` is the start of the next slice.
    batch: Option<RecordBatch>,
    next_row: usize,
    pub(super) slice: Slice,
    firsts: Vec<u32>,
    pack: PackScratch,
    /// The entries of texts that were looked up before, if the only key is a text.
    memo: Option<TextMemo>,
    _memory: Reservation,
    /// If the join is an ordered one.
    ordered: Option<OrderedProbe>,
}

/// What a worker of an ordered join needs to find the rows that a row of the probe side meets.
struct OrderedProbe {
    cursors: PlaceCursors,
    /// The aggregates, if the join returns them.
    aggregates: Option<Arc<OrderedAggregates>>,
    /// The rows that the rows of the slice meet, as places in the order. `None` if each meets at most one.
    ranges: Option<PlaceRanges>,
}

/// Rows of the probe side that are joined together.
#[derive(Default)]
pub(super) struct Slice {
    pub(super) columns: Vec<ArrayRef>,
    pub(super) rows: usize,
    /// The numbers of the rows, if there are notes on them.
    numbers: Option<ArrayRef>,
    pub(super) words: Vec<u64>,
    /// The keys, if a word is only the hash of a key.
    pub(super) keys: Option<LongKeys>,
    /// The entry of each row in the index. Empty if all rows match by their keys.
    entries: Vec<u32>,
    /// The number of rows of each entry. Empty if keys are unique.
    counts: Vec<u32>,
    /// If the join has bounds, the places of the build rows that each row may match: of its key if the key has many
    /// rows, and of all rows if the join has no keys.
    ranges: Vec<Range<u32>>,
    /// Whether a match of each row was found so far.
    pub(super) matched: Vec<bool>,
    /// Whether each row may have a match by `IN`.
    pub(super) uncertain: Vec<bool>,
    pub(super) cursor: PairCursor,
    step: ProbeStep,
}

/// The place up to which the pairs of a slice were listed.
#[derive(Clone, Copy, Default)]
pub(super) struct PairCursor {
    row: usize,
    /// Candidates of the row that were listed.
    listed: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum ProbeStep {
    Unique,
    Candidates,
    Uncertain,
    Aggregates,
    Remaining,
    #[default]
    Done,
}

/// Rows of the build side that a row may match.
pub(super) enum Candidates<'a> {
    Rows(&'a [u32]),
    /// All rows; the number says how many they are.
    All(usize),
}

/// Pairs of rows: the row of each side.
#[derive(Default)]
pub(super) struct RowPairs {
    pub(super) build: Vec<u32>,
    pub(super) probe: Vec<u32>,
}

impl Prober {
    pub(super) fn new(join: Arc<HashJoin>, ready: ReadyBuild, turn: Turn<(), ()>) -> Result<Prober> {
        let ReadyBuild { built, aggregates } = ready;
        let ordered = match &built.ordered {
            None => None,
            Some(rows) => {
                let cursors = rows.cursors(join.broker().reservation(OWNER))?;
                Some(OrderedProbe { cursors, aggregates, ranges: None })
            }
        };
        let share = Arc::clone(&join.probe).worker();
        let mut memory = join.broker().reservation(OWNER);
        let memo = match join.may_repeat_texts(&built) && memory.grow(TextMemo::bytes(built.stored.rows)).is_ok() {
            true => Some(TextMemo::new(built.stored.rows)),
            false => None,
        };
        Ok(Prober {
            join,
            built,
            turn,
            share,
            batch: None,
            next_row: 0,
            slice: Slice::default(),
            firsts: Vec::new(),
            pack: PackScratch::default(),
            memo,
            _memory: memory,
            ordered,
        })
    }

    /// Ends this worker's share. Returns the build side for the next step.
    pub(super) fn leave(self) -> Arc<Built> {
        self.turn.leave(());
        self.built
    }

    /// The next batch of the result. `None` if this share is done or another worker failed.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            // Finish the current slice before cutting the next one, because its pairs refer to its rows.
            if let Some(batch) = self.advance()? {
                return Ok(Some(batch));
            }
            self.join.request.cancel.check()?;
            if !self.next_slice()? {
                return Ok(None);
            }
        }
    }

    /// The current batch if it has rows left, otherwise the next one.
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(batch) = self.batch.take().filter(|batch| self.next_row < batch.num_rows()) {
            return Ok(Some(batch));
        }
        self.next_row = 0;
        while !self.join.probing.is_over() {
            self.join.request.cancel.check()?;
            match self.share.next().transpose()? {
                Some(batch) if batch.num_rows() == 0 => {}
                batch => return Ok(batch),
            }
        }
        Ok(None)
    }

    /// Cuts the next slice and looks up its keys.
    fn next_slice(&mut self) -> Result<bool> {
        let Some(batch) = self.batch()? else { return Ok(false) };
        let rows = self.join.batch_rows().min(batch.num_rows() - self.next_row);
        let is_whole = rows == batch.num_rows();
        self.slice.columns = match is_whole {
            true => batch.columns().to_vec(),
            false => batch.columns().iter().map(|column| column.slice(self.next_row, rows)).collect(),
        };
        self.slice.rows = rows;
        self.slice.numbers = self.join.part.notes.as_ref().and_then(|_| self.slice.columns.pop());
        self.next_row += rows;
        self.batch = Some(batch);
        add(&self.join.metrics.probe_rows, rows);
        self.look_up()?;
        self.begin();
        Ok(true)
    }

    /// Finds the entry of each row in the index.
    fn look_up(&mut self) -> Result<()> {
        let Prober { join, built, slice, firsts, pack, memo, .. } = self;
        let Some(index) = &built.index else {
            if let Some(rows) = &built.range_rows {
                slice.ranges = rows.ranges(slice.rows, |column| Arc::clone(&slice.columns[column]))?;
            }
            return Ok(());
        };
        let keys: Vec<ArrayRef> = join.layout.probe_keys.iter().map(|key| Arc::clone(&slice.columns[*key])).collect();
        if let Some(memo) = memo.as_mut().filter(|memo| memo.is_useful())
            && let Some(texts) = ViewedTexts::of(&keys[0])
        {
            let unknown = UInt32Array::from(memo.look_up(&texts, &mut slice.entries));
            let mut entries = Vec::new();
            if !unknown.is_empty() {
                let unknown_keys = [take(&keys[0], &unknown, None).map_err(failed)?];
                find_keys(built, index, &unknown_keys, unknown.len(), (pack, firsts), slice, &mut entries)?;
            }
            for (row, entry) in unknown.values().iter().zip(entries) {
                slice.entries[*row as usize] = entry;
                memo.note(&texts, *row, entry);
            }
        } else {
            let (rows, mut entries) = (slice.rows, std::mem::take(&mut slice.entries));
            find_keys(built, index, &keys, rows, (pack, firsts), slice, &mut entries)?;
            slice.entries = entries;
        }
        if built.ordered.is_some() {
            return self.meet();
        }
        if !index.is_unique() {
            index.count(&slice.entries, &mut slice.counts);
            if let Some(bounds) = &built.list_bounds {
                index.long_ranges(&slice.entries, &slice.counts, LIST_ROWS_MIN, &mut slice.ranges);
                bounds.narrow(&mut slice.ranges, |column| Arc::clone(&slice.columns[column]))?;
            }
        }
        Ok(())
    }

    /// Finds the rows that each row of an ordered join meets.
    fn meet(&mut self) -> Result<()> {
        let (Some(rows), Some(ordered)) = (&self.built.ordered, &mut self.ordered) else { return Ok(()) };
        let (keys, columns) = (std::mem::take(&mut self.slice.entries), &self.slice.columns);
        match rows.meet(keys, |column| &columns[column], &mut ordered.cursors)? {
            RowsMet::One(rows) => (self.slice.entries, ordered.ranges) = (rows, None),
            RowsMet::Ranges(ranges) => ordered.ranges = Some(ranges),
        }
        Ok(())
    }

    /// Chooses the first step of a slice, and settles everything that needs no pairs.
    fn begin(&mut self) {
        let (kind, has_residual) = (self.join.request.kind, self.join.request.residual.is_some());
        let notes = self.join.part.notes.as_ref();
        let slice = &mut self.slice;
        slice.cursor = PairCursor::default();
        slice.matched.clear();
        slice.uncertain.clear();
        let step = match &self.built.index {
            _ if self.join.gives_aggregates() => ProbeStep::Aggregates,
            _ if self.ordered.as_ref().is_some_and(|ordered| ordered.ranges.is_none()) => ProbeStep::Unique,
            _ if self.ordered.is_some() => {
                slice.matched.resize(slice.rows, false);
                ProbeStep::Candidates
            }
            // A row without a match here may have one in another piece of the build side.
            Some(index) if !has_residual && kind.gives_pairs() && index.is_unique() && notes.is_none() => {
                ProbeStep::Unique
            }
            // Without keys, every row meets the only row of the build side, such as the value of a scalar subquery.
            None if !has_residual && kind.gives_pairs() && self.built.stored.rows == 1 && notes.is_none() => {
                slice.entries.clear();
                slice.entries.resize(slice.rows, 0);
                ProbeStep::Unique
            }
            // Without a condition, the lookup alone decides whether a row has a match.
            Some(_) if !has_residual && kind.asks_of_probe() => {
                slice.matched.extend(slice.entries.iter().map(|entry| *entry != NONE));
                ProbeStep::Uncertain
            }
            Some(index) if !has_residual && !kind.gives_pairs() => {
                self.mark_entries(index);
                ProbeStep::Uncertain
            }
            _ => {
                slice.matched.resize(slice.rows, false);
                ProbeStep::Candidates
            }
        };
        self.slice.step = step;
        if let Some(notes) = notes {
            let Slice { numbers, matched, uncertain, .. } = &mut self.slice;
            notes.read(numbers.as_ref().expect(NUMBERED), matched, uncertain);
        }
    }

    /// Marks all rows of the build side that the slice matches.
    fn mark_entries(&self, index: &Index) {
        let Some(marks) = &self.built.marks else { return };
        for (row, entry) in self.slice.entries.iter().enumerate().filter(|(_, entry)| **entry != NONE) {
            let count = self.slice.count(row);
            // All rows of an entry are marked together, so its first row tells whether the others must be read.
            if !marks.is_set(index.first(*entry)) {
                index.rows(entry, count).iter().for_each(|row| marks.set(*row));
            }
        }
    }

    /// The next batch from the slice.
    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let (batch, next) = match self.slice.step {
                ProbeStep::Unique => (self.unique()?, ProbeStep::Done),
                ProbeStep::Candidates => match self.candidates()? {
                    Some(batch) => return Ok(Some(batch)),
                    None => (None, ProbeStep::Uncertain),
                },
                ProbeStep::Uncertain => {
                    self.find_uncertain()?;
                    (None, ProbeStep::Remaining)
                }
                ProbeStep::Aggregates => (Some(self.aggregates()?), ProbeStep::Done),
                ProbeStep::Remaining => (self.remaining()?, ProbeStep::Done),
                ProbeStep::Done => return Ok(None),
            };
            self.slice.step = next;
            if batch.is_some() {
                return Ok(batch);
            }
        }
    }

    /// The pairs of a slice whose rows have at most one match.
    fn unique(&mut self) -> Result<Option<RecordBatch>> {
        let Prober { join, built, slice, .. } = self;
        let rows = slice.rows;
        let matches = slice.entries.iter().filter(|entry| **entry != NONE).count();
        if let Some(marks) = &built.marks {
            slice.entries.iter().filter(|entry| **entry != NONE).for_each(|row| marks.set(*row));
        }
        let probe = ProbeSide::All(&slice.columns);
        // Every row has its match, so the columns of the probe side are passed on without a copy.
        if matches == rows {
            let build = UInt32Array::from(std::mem::take(&mut slice.entries));
            return join.emit(&built.stored, BuildSide::Rows(&build), probe, None, rows).map(Some);
        }
        // Rows without a match are returned too, with NULLs for the build side. Their row number 0 is never read.
        if join.request.kind.keeps_probe() {
            let valid = NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| slice.entries[row] != NONE));
            let entries = slice.entries.iter().map(|entry| if *entry == NONE { 0 } else { *entry });
            let build = UInt32Array::new(entries.collect::<Vec<u32>>().into(), Some(valid));
            return join.emit(&built.stored, BuildSide::Rows(&build), probe, None, rows).map(Some);
        }
        if matches == 0 {
            return Ok(None);
        }
        let pairs = RowPairs::of_entries(&slice.entries, matches);
        self.emit_pairs(pairs).map(Some)
    }

    /// The rows of the slice of an ordered join with their aggregates.
    fn aggregates(&self) -> Result<RecordBatch> {
        let Some(OrderedProbe { aggregates: Some(aggregates), ranges: Some(ranges), .. }) = &self.ordered else {
            return Err(Error::internal("only an ordered join that chooses all rows returns aggregates"));
        };
        let rows = self.built.ordered.as_ref().ok_or_else(|| Error::internal("an ordered join has ordered rows"))?;
        let (results, probe) = (aggregates.results(rows, ranges)?, ProbeSide::All(&self.slice.columns));
        self.join.emit_with(&self.built.stored, BuildSide::Null, probe, results, self.slice.rows)
    }

    /// The next pairs with equal keys for which the condition is true.
    fn candidates(&mut self) -> Result<Option<RecordBatch>> {
        let kind = self.join.request.kind;
        loop {
            let slice = &self.slice;
            let ranges = self.ordered.as_ref().and_then(|ordered| ordered.ranges.as_ref());
            let pairs = slice.cursor.list(slice.rows, self.join.batch_rows(), |row| match &self.built.index {
                // One match is enough.
                _ if kind.asks_of_probe() && slice.matched[row] => Candidates::Rows(&[]),
                Some(index) => Candidates::Rows(match (&self.built.ordered, ranges, &self.built.list_bounds) {
                    (Some(rows), Some(ranges), _) => &rows.rows()[ranges.of(row)],
                    (_, _, Some(_)) if slice.count(row) as usize >= LIST_ROWS_MIN => index.listed(&slice.ranges[row]),
                    _ => index.rows(&slice.entries[row], slice.count(row)),
                }),
                None => match &self.built.range_rows {
                    Some(rows) => Candidates::Rows(rows.rows(&slice.ranges[row])),
                    None => Candidates::All(self.built.stored.rows),
                },
            });
            let (mut pairs, cursor) = pairs;
            self.slice.cursor = cursor;
            if pairs.build.is_empty() {
                return Ok(None);
            }
            self.join.request.cancel.check()?;
            let unknown = self.keep_true(&mut pairs)?;
            self.slice.note_unknown(unknown);
            // A single join must fail if a row gets a second match, in these pairs or in earlier ones.
            if kind == JoinKind::ProbeSingle {
                self.slice.note_only(&pairs.probe)?;
            }
            pairs.probe.iter().for_each(|row| self.slice.matched[*row as usize] = true);
            if let Some(marks) = &self.built.marks {
                pairs.build.iter().for_each(|row| marks.set(*row));
            }
            if kind.gives_pairs() && !pairs.build.is_empty() {
                return self.emit_pairs(pairs).map(Some);
            }
        }
    }

    /// Keeps the pairs for which the condition is true. Returns the probe rows of the pairs for which it is NULL, if
    /// the kind of the join needs them.
    pub(super) fn keep_true(&self, pairs: &mut RowPairs) -> Result<Vec<u32>> {
        let Some(residual) = &self.join.request.residual else { return Ok(Vec::new()) };
        if pairs.build.is_empty() {
            return Ok(Vec::new());
        }
        let build = UInt32Array::from(std::mem::take(&mut pairs.build));
        let probe = UInt32Array::from(std::mem::take(&mut pairs.probe));
        let (sides, rows) = ((BuildSide::Rows(&build), self.probe_side(&probe)), build.len());
        let read = columns(&self.built.stored, &self.join.layout.residual, sides.0, sides.1, rows)?;
        let truth = residual.evaluate(&read, rows)?;
        let Some(truth) = truth.as_boolean_opt().filter(|truth| truth.len() == rows) else {
            let (found, kind) = (truth.len(), truth.data_type());
            return Err(Error::internal(format!("a join condition returned {found} of {kind} for {rows} rows")));
        };
        let unknown = match truth.nulls() {
            Some(nulls) if self.join.request.kind == JoinKind::ProbeTruth => {
                (0..rows).filter(|pair| nulls.is_null(*pair)).map(|pair| probe.value(pair)).collect()
            }
            _ => Vec::new(),
        };
        let truth = selected(truth);
        pairs.build.extend(truth.set_indices().map(|pair| build.value(pair)));
        pairs.probe.extend(truth.set_indices().map(|pair| probe.value(pair)));
        Ok(unknown)
    }

    fn emit_pairs(&self, pairs: RowPairs) -> Result<RecordBatch> {
        let rows = pairs.build.len();
        let (build, probe) = (UInt32Array::from(pairs.build), UInt32Array::from(pairs.probe));
        self.join.emit(&self.built.stored, BuildSide::Rows(&build), self.probe_side(&probe), None, rows)
    }

    /// The rows `probe` of the slice. If they are all of its rows, their columns need not be copied.
    fn probe_side<'s>(&'s self, probe: &'s UInt32Array) -> ProbeSide<'s> {
        let columns = &self.slice.columns;
        let is_all = probe.len() == self.slice.rows && probe.values().iter().copied().eq(0..probe.len() as u32);
        if is_all { ProbeSide::All(columns) } else { ProbeSide::Rows(columns, probe) }
    }

    /// The rows of the slice that are returned because they have a match or none, now that all matches are known.
    fn remaining(&mut self) -> Result<Option<RecordBatch>> {
        let slice = &self.slice;
        if let Some(notes) = self.join.part.notes.as_ref().filter(|notes| !notes.is_last) {
            notes.write(slice.numbers.as_ref().expect(NUMBERED), &slice.matched, &slice.uncertain);
            return Ok(None);
        }
        let is_in = |row: usize| match self.join.request.kind {
            JoinKind::ProbeSemi => slice.matched[row],
            // For NOT IN, a row that may have a match is not returned either.
            JoinKind::ProbeAnti => !slice.matched[row] && !slice.uncertain.get(row).is_some_and(|is| *is),
            JoinKind::ProbeOuter | JoinKind::ProbeSingle | JoinKind::FullOuter => !slice.matched[row],
            JoinKind::ProbeMark | JoinKind::ProbeTruth => true,
            JoinKind::Inner | JoinKind::BuildOuter | JoinKind::BuildSemi | JoinKind::BuildAnti => false,
        };
        let rows: Vec<u32> = (0..slice.rows as u32).filter(|row| is_in(*row as usize)).collect();
        let count = rows.len();
        if count == 0 {
            return Ok(None);
        }
        let mark = self.join.request.kind.has_mark().then(|| slice.mark());
        let probe = match count == slice.rows {
            true => ProbeSide::All(&slice.columns),
            false => ProbeSide::Rows(&slice.columns, &UInt32Array::from(rows)),
        };
        self.join.emit(&self.built.stored, BuildSide::Null, probe, mark, count).map(Some)
    }
}

impl HashJoin {
    /// Whether entries of texts may be remembered: the only key is a text, and rows need nothing of it but its entry.
    fn may_repeat_texts(&self, built: &Built) -> bool {
        let is_long = matches!(built.stored.form, KeyForm::Long { .. });
        is_long && self.layout.probe_keys.len() == 1 && built.ordered.is_none() && !self.request.is_uncertain()
    }
}

impl Slice {
    /// The number of build rows whose keys equal the key of a row.
    #[inline]
    fn count(&self, row: usize) -> u32 {
        self.counts.get(row).copied().unwrap_or_else(|| u32::from(self.entries[row] != NONE))
    }

    /// Notes rows for which the condition was NULL.
    fn note_unknown(&mut self, rows: Vec<u32>) {
        if !rows.is_empty() {
            self.uncertain.resize(self.rows, false);
            rows.into_iter().for_each(|row| self.uncertain[row as usize] = true);
        }
    }

    /// Notes one match for each of the rows. Fails if a row already has one.
    fn note_only(&mut self, rows: &[u32]) -> Result<()> {
        for row in rows {
            if std::mem::replace(&mut self.matched[*row as usize], true) {
                return Err(more_than_one_row());
            }
        }
        Ok(())
    }

    /// Whether each row has a match; NULL if it only may have one.
    fn mark(&self) -> BooleanArray {
        let truth = BooleanBuffer::collect_bool(self.rows, |row| self.matched[row]);
        let nulls = self.uncertain.contains(&true).then(|| {
            let is_certain = |row: usize| self.matched[row] || !self.uncertain[row];
            NullBuffer::new(BooleanBuffer::collect_bool(self.rows, is_certain))
        });
        BooleanArray::new(truth, nulls)
    }
}

/// Looks up keys in the index and puts their entries into `entries`. Keeps the words and the long keys in the slice.
fn find_keys(
    built: &Built,
    index: &Index,
    keys: &[ArrayRef],
    rows: usize,
    (pack, firsts): (&mut PackScratch, &mut Vec<u32>),
    slice: &mut Slice,
    entries: &mut Vec<u32>,
) -> Result<()> {
    let stored = &built.stored;
    // Long keys stay in the slice: an equal hash alone does not prove an equal key.
    slice.keys = stored.form.words(keys, rows, pack, &mut slice.words)?;
    index.find(&slice.words, entries);
    if let (Some(keys), Some(stored)) = (&slice.keys, &stored.keys) {
        confirm(index, keys, stored, &slice.words, entries, firsts);
    }
    Ok(())
}

/// Replaces entries that were found by hashes alone by the entries of the keys.
fn confirm(
    index: &Index,
    keys: &LongKeys,
    stored: &LongKeys,
    words: &[u64],
    entries: &mut [u32],
    firsts: &mut Vec<u32>,
) {
    firsts.clear();
    firsts.extend(entries.iter().map(|entry| if *entry == NONE { 0 } else { index.first(*entry) }));
    // Most entries are right. We compare all keys column by column first and search again only for the wrong ones.
    let mut same: Vec<bool> = entries.iter().map(|entry| *entry != NONE).collect();
    keys.compare(firsts, stored, &mut same);
    let wrong = |(row, entry): &(usize, &mut u32)| **entry != NONE && !same[*row];
    for (row, entry) in entries.iter_mut().enumerate().filter(wrong) {
        *entry = index.find_one(words[row], |first| keys.is_same(row, stored, first as usize));
    }
}

impl PairCursor {
    /// Lists the next pairs, at most `most`, and returns them with the cursor after them. No pairs means that none are
    /// left.
    pub(super) fn list<'a>(
        mut self,
        rows: usize,
        most: usize,
        candidates: impl Fn(usize) -> Candidates<'a>,
    ) -> (RowPairs, PairCursor) {
        let mut pairs = RowPairs { build: Vec::with_capacity(most), probe: Vec::with_capacity(most) };
        // A row whose candidates do not fit goes on in the next call, from `listed` on.
        while self.row < rows && pairs.build.len() < most {
            let (room, row) = (most - pairs.build.len(), self.row as u32);
            let (listed, all) = match candidates(self.row) {
                Candidates::Rows(list) => {
                    let next = &list[self.listed.min(list.len())..];
                    let next = &next[..next.len().min(room)];
                    pairs.extend(next, row);
                    (self.listed + next.len(), list.len())
                }
                Candidates::All(all) => {
                    let end = (self.listed + room).min(all);
                    pairs.build.extend(self.listed as u32..end as u32);
                    pairs.probe.resize(pairs.build.len(), row);
                    (end, all)
                }
            };
            match listed >= all {
                true => self = PairCursor { row: self.row + 1, listed: 0 },
                false => self.listed = listed,
            }
        }
        (pairs, self)
    }
}

impl RowPairs {
    /// Adds pairs of several build rows with one probe row.
    #[inline]
    fn extend(&mut self, build: &[u32], probe: u32) {
        self.build.extend_from_slice(build);
        self.probe.resize(self.build.len(), probe);
    }

    /// The pairs of entries that are rows. `matches` is the number of rows with a match.
    fn of_entries(entries: &[u32], matches: usize) -> RowPairs {
        // One place more than needed, because rows without a match are written too and then overwritten.
        let (mut build, mut probe) = (vec![0; matches + 1], vec![0; matches + 1]);
        let mut count = 0;
        for (row, entry) in entries.iter().enumerate() {
            build[count] = *entry;
            probe[count] = row as u32;
            count += usize::from(*entry != NONE);
        }
        build.truncate(matches);
        probe.truncate(matches);
        RowPairs { build, probe }
    }
}
