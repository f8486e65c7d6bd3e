//! Stores one code per row, in the form that suits the column.
//!
//! ```text
//!   codes     0 0 3 1 0 0 0 0 0 2 2 2 2 0 ...          3 = NULL in a column of three values
//!   packed    every code, bit-packed in vectors
//!   runs      ends 2 3 4 9 13, codes 0 3 1 0 2         for each run the row after its last one, and its code
//!   rows      common 0; single rows 2 3, their codes 3 1; run starts 9, lengths 4, codes 2
//! ```
//!
//! *Rows* is for columns in which one value dominates. It lists only the rows with other values: single rows in one
//! list and runs of equal codes in another, so that a single row needs no length. Both lists are sorted by row and not
//! by value, because readers ask for ranges of rows: one search finds the part of a list that they need, for any number
//! of values.

use std::ops::Range;

use rowmill_base::{Error, Result};

use super::Encoding;
use super::code_set::CodeSet;
use super::head::{NewSection, SectionKind};
use crate::encoding::{self, Ints, SequenceLayout, SortedCursor, Span, Word, frame_bytes};
use crate::row_mask::RowMask;

/// Equal neighbours become a run instead of single rows from this many rows on.
const RUN_ROWS_MIN: usize = 4;
/// Bytes that we add to the size for each run or single row, because finding an entry takes readers longer than
/// unpacking a code.
const ENTRY_PRICE: usize = 1;
/// How many runs, rows with the common code, or listed entries a reader passes over in the time of one search.
const RUNS_PER_SEARCH: usize = 16;
const COMMON_ROWS_PER_SEARCH: usize = 64;
const LISTED_PER_SEARCH: usize = 8;
/// Rows expanded at a time.
const PIECE_ROWS: usize = 16 << 10;
/// Codes written for each run at once, even if the run is shorter. Most runs are short, and a loop of unknown length
/// costs more than codes that the next run overwrites.
const RUN_STRIDE: usize = 16;

/// Codes in one form, ready to be written.
pub(super) struct StoredCodes {
    pub(super) encoding: Encoding,
    pub(super) common: u32,
    pub(super) sections: Vec<NewSection>,
}

impl StoredCodes {
    fn bytes(&self) -> usize {
        self.sections.iter().map(|section| section.bytes.len()).sum()
    }

    /// The number of runs and single rows.
    fn entries(&self) -> usize {
        let is_code = |kind| matches!(kind, SectionKind::RunCodes | SectionKind::SingleCodes);
        self.sections.iter().filter(|section| is_code(section.kind)).map(|section| section.count).sum()
    }
}

fn section<W: Word>(kind: SectionKind, values: &[W]) -> NewSection {
    NewSection { kind, count: values.len(), bytes: encoding::encode(values) }
}

/// Measures the forms of `codes` and returns the cheapest. `forced` allows only one form.
///
/// `counts` has the rows of each code, and at its end the rows of NULL.
pub(super) fn plan<C: Word>(codes: &[C], counts: &[u32], forced: Option<Encoding>) -> Option<PlannedCodes> {
    let tries = |encoding: Encoding| forced.is_none_or(|forced| forced == encoding);
    // Counting runs is cheap and tells whether the other two forms may pay.
    let runs = 1 + codes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let mut best = CheapestCodes { price: usize::MAX, planned: None };
    if tries(Encoding::ListCodes) {
        best.offer(frame_bytes(codes).expect("a code has 32 bits at most"), None);
    }
    if tries(Encoding::ListRuns) && best.may_be_beaten_with(runs, codes.len()) {
        let stored = as_runs(codes, runs);
        best.offer(stored.bytes(), Some(stored));
    }
    if tries(Encoding::ListRows) {
        let (common, common_rows) = counts.iter().enumerate().max_by_key(|(_, rows)| **rows)?;
        // Every run of another code needs an entry, and of two neighbouring runs at most one has the common code.
        let entries_min = (runs / 2).max(runs.saturating_sub(*common_rows as usize));
        let common_enough = forced.is_some() || *common_rows as usize * 2 >= codes.len();
        if common_enough && best.may_be_beaten_with(entries_min, codes.len()) {
            let stored = as_rows(codes, C::truncate(common as u128));
            best.offer(stored.bytes(), Some(stored));
        }
    }
    best.planned
}

/// Codes whose form is already chosen.
pub(super) struct PlannedCodes {
    /// The size of the stored form.
    pub(super) bytes: usize,
    /// `None` for packed codes: they are measured without being built.
    built: Option<StoredCodes>,
}

/// The cheapest form so far.
struct CheapestCodes {
    price: usize,
    planned: Option<PlannedCodes>,
}

impl CheapestCodes {
    fn offer(&mut self, bytes: usize, built: Option<StoredCodes>) {
        // Packed codes have no entries that a reader would need to search.
        let price = bytes + built.as_ref().map_or(0, |built| built.entries() * ENTRY_PRICE);
        if price < self.price {
            *self = CheapestCodes { price, planned: Some(PlannedCodes { bytes, built }) };
        }
    }

    /// Whether a form with this many entries may be cheaper, so that we should build it. An entry needs about as many
    /// bits for its code as a row does in the best form so far, plus about two bits for its row.
    fn may_be_beaten_with(&self, entries: usize, rows: usize) -> bool {
        let codes = self.price as f64 / rows as f64 * entries as f64;
        codes + (entries * ENTRY_PRICE) as f64 + entries as f64 / 4.0 < self.price as f64
    }
}

impl PlannedCodes {
    pub(super) fn build<C: Word>(self, codes: &[C]) -> StoredCodes {
        self.built.unwrap_or_else(|| {
            let bytes = encoding::encode_as(SequenceLayout::Frame, codes).expect("a code has 32 bits at most");
            let sections = vec![NewSection { kind: SectionKind::Codes, count: codes.len(), bytes }];
            StoredCodes { encoding: Encoding::ListCodes, common: 0, sections }
        })
    }
}

/// Calls `each` with the rows and the code of each run of equal codes.
fn for_each_run<C: Word>(codes: &[C], mut each: impl FnMut(Range<usize>, C)) {
    let mut start = 0;
    for run in codes.chunk_by(|a, b| a == b) {
        each(start..start + run.len(), run[0]);
        start += run.len();
    }
}

fn as_runs<C: Word>(codes: &[C], runs: usize) -> StoredCodes {
    let (mut ends, mut run_codes) = (Vec::with_capacity(runs), Vec::with_capacity(runs));
    for_each_run(codes, |rows, code| {
        ends.push(rows.end as u32);
        run_codes.push(code);
    });
    let sections = vec![section(SectionKind::RunEnds, &ends), section(SectionKind::RunCodes, &run_codes)];
    StoredCodes { encoding: Encoding::ListRuns, common: 0, sections }
}

fn as_rows<C: Word>(codes: &[C], common: C) -> StoredCodes {
    let (mut rows, mut row_codes) = (Vec::new(), Vec::new());
    let (mut starts, mut lengths, mut run_codes) = (Vec::new(), Vec::new(), Vec::new());
    for_each_run(codes, |run, code| {
        if code == common {
            return;
        }
        if run.len() < RUN_ROWS_MIN {
            rows.extend(run.clone().map(|row| row as u32));
            row_codes.resize(rows.len(), code);
        } else {
            starts.push(run.start as u32);
            lengths.push(run.len() as u32);
            run_codes.push(code);
        }
    });
    let sections = vec![
        section(SectionKind::SingleRows, &rows),
        section(SectionKind::SingleCodes, &row_codes),
        section(SectionKind::RunStarts, &starts),
        section(SectionKind::RunLengths, &lengths),
        section(SectionKind::RunCodes, &run_codes),
    ];
    StoredCodes { encoding: Encoding::ListRows, common: common.low() as u32, sections }
}

/// Stored codes in any form.
#[expect(clippy::large_enum_variant, reason = "a read keeps one on its stack, and a box would cost an allocation")]
pub(super) enum Codes<'a> {
    /// All rows have the code 0.
    Constant,
    Packed(Ints<'a>),
    Runs {
        ends: Ints<'a>,
        codes: Ints<'a>,
    },
    Rows {
        common: u32,
        rows: Ints<'a>,
        row_codes: Ints<'a>,
        starts: Ints<'a>,
        lengths: Ints<'a>,
        run_codes: Ints<'a>,
    },
}

impl Codes<'_> {
    /// Calls `each` with the codes of `range`, in order and a piece at a time.
    pub(super) fn for_each(&self, range: Range<usize>, mut each: impl FnMut(&[u32])) -> Result<()> {
        if let Codes::Packed(ints) = self {
            return ints.for_each(range, each);
        }
        // The extra codes let `expand_runs` write a full stride at the end. For constant codes the buffer stays 0.
        let mut buffer = vec![0; PIECE_ROWS.min(range.len()) + RUN_STRIDE];
        for start in range.clone().step_by(PIECE_ROWS) {
            let piece = start..range.end.min(start + PIECE_ROWS);
            match self {
                Codes::Constant => {}
                Codes::Packed(_) => unreachable!("returned above"),
                Codes::Runs { ends, codes } => expand_runs(*ends, *codes, &piece, &mut buffer)?,
                Codes::Rows { common, rows, row_codes, starts, lengths, run_codes } => {
                    let buffer = &mut buffer[..piece.len()];
                    // Begin with the common code everywhere, and then overwrite the listed rows.
                    buffer.fill(*common);
                    scatter_rows(*rows, *row_codes, &piece, buffer)?;
                    scatter_runs([*starts, *lengths, *run_codes], &piece, buffer)?;
                }
            }
            each(&buffer[..piece.len()]);
        }
        Ok(())
    }

    /// Leaves the rows in `mask` whose code is in `set`. Sets whole runs and listed rows as bits, without expanding a
    /// code per row.
    pub(super) fn retain(&self, set: &CodeSet, mask: &mut RowMask) -> Result<()> {
        match self {
            Codes::Constant if set.contains(0) => {}
            Codes::Constant => mask.clear(),
            Codes::Packed(codes) => retain_packed(*codes, set, mask)?,
            _ if mask.is_empty() => {}
            Codes::Runs { ends, codes } => {
                // First choose runs by their code, as if each run were a row. Then turn the chosen runs into rows.
                let mut runs = RowMask::all(runs_of(*ends, &mask.extent())?);
                retain_packed(*codes, set, &mut runs)?;
                let mut held = RowMask::none(mask.rows());
                insert_runs(*ends, &runs, mask.extent().end, &mut held)?;
                mask.and(&held);
            }
            Codes::Rows { common, rows, row_codes, starts, lengths, run_codes } => {
                let is_common_in = set.contains(*common);
                // The listed rows for which `set` gives another answer than for the common code.
                let mut others = RowMask::none(mask.rows());
                let extent = mask.extent();
                let selected = |codes: Ints<'_>, places: Range<usize>| -> Result<RowMask> {
                    // The list says which codes are in `set`. If the common code is in, we need the listed rows that
                    // are not.
                    let mut places = RowMask::all(places);
                    retain_packed(codes, set, &mut places)?;
                    if is_common_in {
                        places.invert();
                    }
                    Ok(places)
                };
                insert_rows(*rows, &selected(*row_codes, places(*rows, &extent)?)?, &mut others)?;
                let runs = selected(*run_codes, places_of_runs(*starts, &extent)?)?;
                insert_listed_runs(*starts, *lengths, &runs, &mut others)?;
                match is_common_in {
                    true => mask.and_not(&others),
                    false => mask.and(&others),
                }
            }
        }
        Ok(())
    }

    /// Calls `each` with the codes of `rows`, a piece at a time. The rows must ascend.
    pub(super) fn gather(&self, rows: &[u32], mut each: impl FnMut(&[u32])) -> Result<()> {
        // How many searches cost as much as going through everything between the first and the last row.
        let searches = |span: usize| match self {
            Codes::Constant | Codes::Packed(_) => usize::MAX,
            Codes::Runs { ends, .. } => ends.len().min(span) / RUNS_PER_SEARCH,
            Codes::Rows { rows, starts, .. } => {
                span / COMMON_ROWS_PER_SEARCH + (rows.len() + starts.len()) / LISTED_PER_SEARCH
            }
        };
        // Dense rows: expand everything between the first and the last row and pick from it. Sparse rows: search each.
        if let [first, .., last] = rows
            && searches((last - first) as usize) <= rows.len()
        {
            if let Codes::Runs { ends, codes } = self {
                return pick_of_runs(*ends, *codes, rows, each);
            }
            let (mut left, mut start) = (rows, *first as usize);
            let mut picked = Vec::with_capacity(PIECE_ROWS.min(rows.len()));
            return self.for_each(start..*last as usize + 1, |codes| {
                let here = left.partition_point(|row| (*row as usize) < start + codes.len());
                picked.clear();
                picked.extend(left[..here].iter().map(|row| codes[*row as usize - start]));
                each(&picked);
                (left, start) = (&left[here..], start + codes.len());
            });
        }
        match self {
            Codes::Constant => rows.chunks(PIECE_ROWS).for_each(|rows| each(&[0; PIECE_ROWS][..rows.len()])),
            Codes::Packed(ints) => return ints.gather(rows, each),
            Codes::Runs { ends, codes } => {
                let mut ends = SortedCursor::new(*ends);
                let runs = rows.iter().map(|row| Ok(ends.at_most(*row)?.0 as u32)).collect::<Result<Vec<u32>>>()?;
                codes.gather_repeated(&runs, each)?;
            }
            Codes::Rows { common, rows: singles, row_codes, starts, lengths, run_codes } => {
                // We collect the list positions of all rows and look them up together, because a single lookup unpacks
                // 1,024 values.
                let (mut singles, mut starts) = (SortedCursor::new(*singles), SortedCursor::new(*starts));
                let (mut of_singles, mut of_runs) = (FoundCodes::default(), FoundCodes::default());
                for (at, row) in rows.iter().enumerate() {
                    let (place, last) = singles.at_most(*row)?;
                    if last == Some(*row) {
                        of_singles.push(at, place - 1);
                    } else if let (place, Some(_)) = starts.at_most(*row)? {
                        // The last run that starts at or before the row may contain it. Its length decides that below.
                        of_runs.push(at, place - 1);
                    }
                }
                let mut codes = vec![*common; rows.len()];
                of_singles.look_up(*row_codes, |at, code| codes[at] = code)?;
                let mut is_inside = vec![false; rows.len()];
                let mut first_rows = Vec::with_capacity(of_runs.places.len());
                of_runs.look_up(starts.ints(), |_, first| first_rows.push(first))?;
                let mut firsts = first_rows.into_iter();
                of_runs.look_up(*lengths, |at, length| {
                    is_inside[at] = firsts.next().is_some_and(|first| rows[at] - first < length);
                })?;
                of_runs.look_up(*run_codes, |at, code| {
                    if is_inside[at] {
                        codes[at] = code;
                    }
                })?;
                each(&codes);
            }
        }
        Ok(())
    }
}

/// Positions in a sequence that some of the rows lead to, each with the index of its row.
#[derive(Default)]
struct FoundCodes {
    at: Vec<usize>,
    places: Vec<u32>,
}

impl FoundCodes {
    fn push(&mut self, at: usize, place: usize) {
        self.at.push(at);
        self.places.push(place as u32);
    }

    /// Calls `each` with the index of every row and the value at its position in `sequence`.
    fn look_up(&self, sequence: Ints<'_>, mut each: impl FnMut(usize, u32)) -> Result<()> {
        let mut at = self.at.iter();
        sequence.gather_repeated(&self.places, |values| {
            values.iter().zip(&mut at).for_each(|(value, at)| each(*at, *value));
        })
    }
}

/// Expands the codes of `rows` into the front of `out`, which must have room for [`RUN_STRIDE`] more codes.
fn expand_runs(ends: Ints<'_>, codes: Ints<'_>, rows: &Range<usize>, out: &mut [u32]) -> Result<()> {
    let runs = runs_of(ends, rows)?;
    let (ends, codes) = (ends.read::<u32>(runs.clone())?, codes.read::<u32>(runs)?);
    let mut at = 0;
    for (end, code) in ends.iter().zip(&codes) {
        // Ends that do not ascend are damage. The bounds keep `end` within `out`, and the check below reports it.
        let end = (*end as usize).min(rows.end).saturating_sub(rows.start).max(at);
        out[at..at + RUN_STRIDE].fill(*code);
        if end - at > RUN_STRIDE {
            out[at + RUN_STRIDE..end].fill(*code);
        }
        at = end;
    }
    match at == rows.len() {
        true => Ok(()),
        false => Err(Error::corrupt(format!("the runs of codes end at row {}", rows.start + at))),
    }
}

/// Calls `each` with the codes of `rows`, a piece at a time, and passes over every run between the first row and the
/// last. The rows must ascend.
fn pick_of_runs(ends: Ints<'_>, codes: Ints<'_>, rows: &[u32], mut each: impl FnMut(&[u32])) -> Result<()> {
    let ([first, .., last] | [first @ last]) = rows else { return Ok(()) };
    let runs = runs_of(ends, &(*first as usize..*last as usize + 1))?;
    let (mut picked, mut taken) = (Vec::with_capacity(PIECE_ROWS.min(rows.len())), 0);
    for start in runs.clone().step_by(PIECE_ROWS) {
        let piece = start..runs.end.min(start + PIECE_ROWS);
        let (ends, codes) = (ends.read::<u32>(piece.clone())?, codes.read::<u32>(piece)?);
        picked.clear();
        for (end, code) in ends.iter().zip(&codes) {
            // A run holds every row below its end that no earlier run has taken.
            while rows.get(taken).is_some_and(|row| row < end) {
                picked.push(*code);
                taken += 1;
            }
        }
        each(&picked);
    }
    match taken == rows.len() {
        true => Ok(()),
        false => Err(Error::corrupt(format!("the runs of codes end before row {last}"))),
    }
}

/// The runs that contain `rows`, which must not be empty.
fn runs_of(ends: Ints<'_>, rows: &Range<usize>) -> Result<Range<usize>> {
    let mut cursor = SortedCursor::new(ends);
    let first = cursor.at_most(rows.start as u32)?.0;
    // The run of the last row is the one after all runs that end at or before that row. We clamp, because damaged ends
    // may not ascend.
    let behind = (cursor.at_most(rows.end as u32 - 1)?.0 + 1).clamp(first, ends.len().max(first));
    Ok(first..behind)
}

fn scatter_rows(singles: Ints<'_>, codes: Ints<'_>, rows: &Range<usize>, out: &mut [u32]) -> Result<()> {
    let places = places(singles, rows)?;
    let (singles, codes) = (singles.read::<u32>(places.clone())?, codes.read::<u32>(places)?);
    for (row, code) in singles.iter().zip(&codes) {
        if let Some(out) = (*row as usize).checked_sub(rows.start).and_then(|row| out.get_mut(row)) {
            *out = *code;
        }
    }
    Ok(())
}

fn scatter_runs([starts, lengths, codes]: [Ints<'_>; 3], rows: &Range<usize>, out: &mut [u32]) -> Result<()> {
    let places = places_of_runs(starts, rows)?;
    let starts = starts.read::<u32>(places.clone())?;
    let (lengths, codes) = (lengths.read::<u32>(places.clone())?, codes.read::<u32>(places)?);
    for ((start, length), code) in starts.iter().zip(&lengths).zip(&codes) {
        let (start, end) = (*start as usize, *start as usize + *length as usize);
        let (start, end) = (start.max(rows.start), end.min(rows.end));
        if start < end {
            out[start - rows.start..end - rows.start].fill(*code);
        }
    }
    Ok(())
}

/// The positions of the runs that may reach into `range`: the run before the first start in the range may do so too.
fn places_of_runs(starts: Ints<'_>, range: &Range<usize>) -> Result<Range<usize>> {
    let places = places(starts, range)?;
    Ok(places.start.saturating_sub(1)..places.end)
}

/// Leaves the positions in `mask` whose code is in `set`.
fn retain_packed(codes: Ints<'_>, set: &CodeSet, mask: &mut RowMask) -> Result<()> {
    match set.table() {
        Some(truth) => codes.retain_where(|code: u32| truth.get(code as usize).copied().unwrap_or(false), mask),
        None => codes.retain(&set.ranges().collect::<Vec<Span<u32>>>(), mask),
    }
}

/// Calls `each` with the values at the positions in `mask`, in order.
fn gather_of(values: Ints<'_>, mask: &RowMask, mut each: impl FnMut(u32)) -> Result<()> {
    match mask.is_full() {
        true => values.for_each(mask.rows(), |values| values.iter().for_each(|value| each(*value))),
        false => values.gather(&mask.positions(), |values| values.iter().for_each(|value| each(*value))),
    }
}

/// Inserts the rows of the runs in `runs` into `held`. The runs together must reach `end`.
fn insert_runs(ends: Ints<'_>, runs: &RowMask, end: usize, held: &mut RowMask) -> Result<()> {
    let all = runs.rows();
    // Without this check, rows after damaged runs would silently pass or fail.
    let reached = if all.is_empty() { 0 } else { ends.get::<u32>(all.end - 1)? as usize };
    if reached < end {
        return Err(Error::corrupt(format!("the runs of codes end at row {reached}")));
    }
    // A run starts at the end of the run before it, so we read both ends. Two neighbouring runs share one of them.
    let mut read = RowMask::none(all.start.saturating_sub(1)..all.end);
    runs.for_each(|run| read.insert_range(run.saturating_sub(1)..run + 1));
    let mut found = Vec::with_capacity(read.count());
    gather_of(ends, &read, |end| found.push(end as usize))?;
    // `start` is the end of the run before. The first run of all starts at row 0.
    let (mut found, mut start) = (found.into_iter(), 0);
    read.for_each(|run| {
        let end = found.next().expect("an end for each run that was asked for");
        if all.contains(&run) && runs.contains(run) {
            held.insert_range(start..end);
        }
        start = end;
    });
    Ok(())
}

/// Inserts the rows at `places` of a list into `held` if they are in its range.
fn insert_rows(rows: Ints<'_>, places: &RowMask, held: &mut RowMask) -> Result<()> {
    let range = held.rows();
    gather_of(rows, places, |row| {
        if range.contains(&(row as usize)) {
            held.insert(row as usize);
        }
    })
}

/// Inserts the rows of the listed runs in `runs` into `held`.
fn insert_listed_runs(starts: Ints<'_>, lengths: Ints<'_>, runs: &RowMask, held: &mut RowMask) -> Result<()> {
    let mut first_rows = Vec::with_capacity(runs.count());
    gather_of(starts, runs, |start| first_rows.push(start as usize))?;
    let mut first_rows = first_rows.into_iter();
    gather_of(lengths, runs, |length| {
        let start = first_rows.next().expect("a start for each length");
        held.insert_range(start..start + length as usize);
    })
}

/// The positions of those entries of an ascending sequence of rows that are in `range`.
fn places(sequence: Ints<'_>, range: &Range<usize>) -> Result<Range<usize>> {
    let mut cursor = SortedCursor::new(sequence);
    // The entries in the range are those at most its last row, without those at most the row before it.
    let before = match range.start.checked_sub(1) {
        None => 0,
        Some(row) => cursor.at_most(row as u32)?.0,
    };
    let behind = match range.end.checked_sub(1) {
        None => 0,
        Some(row) => cursor.at_most(row as u32)?.0,
    };
    Ok(before..behind.max(before))
}
