//! A code per row, in the form that suits the column.
//!
//! ```text
//!   codes     0 0 3 1 0 0 0 0 0 2 2 2 2 0 ...          3 = NULL in a column of three values
//!   packed    every code, bit-packed in vectors
//!   runs      ends 2 3 4 9 13, codes 0 3 1 0 2         the row behind the last of each run, and its code
//!   rows      common 0; single rows 2 3, their codes 3 1; run starts 9, lengths 4, codes 2
//! ```
//!
//! *Rows* is for columns that one value nearly fills: only the others are listed, rows that stand alone apart from runs
//! of rows, so that a lone row pays for no length. Both lists are in row order rather than by value, because readers ask
//! for a range of rows: one search finds the part of a list that they need, however many values there are.

use std::ops::Range;

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;
use rowmill_base::{Error, Result};

use super::Encoding;
use super::head::{NewSection, SectionKind};
use crate::encoding::{self, Ints, Layout, SortedCursor, Word, frame_bytes};

/// Rows from which on equal neighbours are a run rather than single rows, where both can be stored.
const RUN_ROWS_MIN: usize = 4;
/// Bytes that an entry of a run or a row costs its readers, in the terms of the size: finding it again takes longer than
/// unpacking a code.
const ENTRY_PRICE: usize = 1;
/// Rows that are expanded in the time that one is searched for.
const ROWS_PER_SEARCH: usize = 16;
/// Rows that are expanded at a time.
const PIECE_ROWS: usize = 16 << 10;
/// Rows of a run that are written at once, whether it has as many or not: most runs are short, and a loop of unknown
/// length costs more than writing what the next run overwrites.
const RUN_STRIDE: usize = 16;

/// Codes in one form, ready to be stored.
pub(super) struct StoredCodes {
    pub(super) encoding: Encoding,
    pub(super) common: u32,
    pub(super) sections: Vec<NewSection>,
}

impl StoredCodes {
    fn bytes(&self) -> usize {
        self.sections.iter().map(|section| section.bytes.len()).sum()
    }

    /// Runs and rows.
    fn entries(&self) -> usize {
        let is_code = |kind| matches!(kind, SectionKind::RunCodes | SectionKind::SingleCodes);
        self.sections.iter().filter(|section| is_code(section.kind)).map(|section| section.count).sum()
    }
}

fn section<W: Word>(kind: SectionKind, values: &[W]) -> NewSection {
    NewSection { kind, count: values.len(), bytes: encoding::encode(values) }
}

/// The smallest form of `codes`, measured. `forced` asks for one form.
///
/// `counts` are the rows of each code, NULL's among them.
pub(super) fn plan<C: Word>(codes: &[C], counts: &[u32], forced: Option<Encoding>) -> Option<PlannedCodes> {
    let tries = |encoding: Encoding| forced.is_none_or(|forced| forced == encoding);
    let runs = 1 + codes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let mut best = Cheapest { price: usize::MAX, planned: None };
    if tries(Encoding::ListCodes) {
        best.offer(frame_bytes(codes).expect("a code has 32 bits at most"), None);
    }
    if tries(Encoding::ListRuns) && best.may_be_beaten_with(runs, codes.len()) {
        let stored = as_runs(codes, runs);
        best.offer(stored.bytes(), Some(stored));
    }
    if tries(Encoding::ListRows) {
        let (common, common_rows) = counts.iter().enumerate().max_by_key(|(_, rows)| **rows)?;
        // Every run of another code has an entry, and of two neighbouring runs one is of another code.
        let entries_min = (runs / 2).max(runs.saturating_sub(*common_rows as usize));
        let common_enough = forced.is_some() || *common_rows as usize * 2 >= codes.len();
        if common_enough && best.may_be_beaten_with(entries_min, codes.len()) {
            let stored = as_rows(codes, C::truncate(common as u128));
            best.offer(stored.bytes(), Some(stored));
        }
    }
    best.planned
}

/// Codes whose form is chosen.
pub(super) struct PlannedCodes {
    /// What they will take.
    pub(super) bytes: usize,
    /// Packed codes are measured without being built.
    built: Option<StoredCodes>,
}

/// The best form so far.
struct Cheapest {
    price: usize,
    planned: Option<PlannedCodes>,
}

impl Cheapest {
    fn offer(&mut self, bytes: usize, built: Option<StoredCodes>) {
        let price = bytes + built.as_ref().map_or(0, |built| built.entries() * ENTRY_PRICE);
        if price < self.price {
            *self = Cheapest { price, planned: Some(PlannedCodes { bytes, built }) };
        }
    }

    /// Whether so many entries are worth building. Each takes about as many bits for its code as a row does so far, and a
    /// few more for its place.
    fn may_be_beaten_with(&self, entries: usize, rows: usize) -> bool {
        let codes = self.price as f64 / rows as f64 * entries as f64;
        codes + (entries * ENTRY_PRICE) as f64 + entries as f64 / 4.0 < self.price as f64
    }
}

impl PlannedCodes {
    pub(super) fn build<C: Word>(self, codes: &[C]) -> StoredCodes {
        self.built.unwrap_or_else(|| {
            let bytes = encoding::encode_as(Layout::Frame, codes).expect("a code has 32 bits at most");
            let sections = vec![NewSection { kind: SectionKind::Codes, count: codes.len(), bytes }];
            StoredCodes { encoding: Encoding::ListCodes, common: 0, sections }
        })
    }
}

/// Calls `each` with the rows of each run of equal codes.
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

/// Stored codes of any form.
#[expect(clippy::large_enum_variant, reason = "one lives on the stack of a read; a box would be an allocation")]
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
    /// Calls `each` with the codes of `range`, some rows at a time, in order.
    pub(super) fn for_each(&self, range: Range<usize>, mut each: impl FnMut(&[u32])) -> Result<()> {
        if let Codes::Packed(ints) = self {
            return ints.for_each(range, each);
        }
        let mut buffer = vec![0; PIECE_ROWS.min(range.len()) + RUN_STRIDE];
        for start in range.clone().step_by(PIECE_ROWS) {
            let piece = start..range.end.min(start + PIECE_ROWS);
            match self {
                Codes::Constant => {}
                Codes::Packed(_) => unreachable!("returned above"),
                Codes::Runs { ends, codes } => expand_runs(*ends, *codes, &piece, &mut buffer)?,
                Codes::Rows { common, rows, row_codes, starts, lengths, run_codes } => {
                    let buffer = &mut buffer[..piece.len()];
                    buffer.fill(*common);
                    scatter_rows(*rows, *row_codes, &piece, buffer)?;
                    scatter_runs([*starts, *lengths, *run_codes], &piece, buffer)?;
                }
            }
            each(&buffer[..piece.len()]);
        }
        Ok(())
    }

    /// Which of `range` have a code whose truth is set. `truth` has one for each code there is.
    pub(super) fn select(&self, range: Range<usize>, truth: &[bool]) -> Result<BooleanBuffer> {
        let truth_of = |code: u32| -> Result<bool> {
            truth.get(code as usize).copied().ok_or_else(|| Error::corrupt(format!("a code above {}", truth.len())))
        };
        let mut bits = BooleanBufferBuilder::new(range.len());
        if range.is_empty() {
            return Ok(bits.finish());
        }
        match self {
            Codes::Constant => bits.append_n(range.len(), truth_of(0)?),
            Codes::Runs { ends, codes } => {
                let (runs, first) = (runs_of(*ends, &range)?, range.start);
                let (ends, codes) = (ends.read::<u32>(runs.clone())?, codes.read::<u32>(runs)?);
                for (end, code) in ends.iter().zip(&codes) {
                    let end = (*end as usize).clamp(first, range.end) - first;
                    bits.append_n(end.saturating_sub(bits.len()), truth_of(*code)?);
                }
                if bits.len() != range.len() {
                    return Err(Error::corrupt(format!("the runs of codes end at row {}", first + bits.len())));
                }
            }
            Codes::Rows { common, rows, row_codes, starts, lengths, run_codes } => {
                bits.append_n(range.len(), truth_of(*common)?);
                each_stored_row(*rows, *row_codes, &range, |row, code| {
                    bits.set_bit(row, truth_of(code)?);
                    Ok(())
                })?;
                each_stored_run([*starts, *lengths, *run_codes], &range, |run, code| {
                    let truth = truth_of(code)?;
                    run.for_each(|row| bits.set_bit(row, truth));
                    Ok(())
                })?;
            }
            Codes::Packed(_) => {
                let mut is_above = false;
                self.for_each(range, |codes| {
                    for group in codes.chunks(64) {
                        let mut word = 0_u64;
                        for (bit, code) in group.iter().enumerate() {
                            let truth = truth.get(*code as usize).copied();
                            is_above |= truth.is_none();
                            word |= u64::from(truth.unwrap_or_default()) << bit;
                        }
                        bits.append_packed_range(0..group.len(), &word.to_le_bytes());
                    }
                })?;
                if is_above {
                    return Err(Error::corrupt(format!("a code above {}", truth.len())));
                }
            }
        }
        Ok(bits.finish())
    }

    /// Calls `each` with the code of each of `rows`, in their order.
    pub(super) fn gather(&self, rows: &[u32], mut each: impl FnMut(u32)) -> Result<()> {
        if let ([first, .., last], Codes::Runs { .. } | Codes::Rows { .. }) = (rows, self)
            && (last - first) as usize <= rows.len() * ROWS_PER_SEARCH
        {
            let (mut left, mut start) = (rows, *first as usize);
            return self.for_each(start..*last as usize + 1, |codes| {
                let here = left.partition_point(|row| (*row as usize) < start + codes.len());
                left[..here].iter().for_each(|row| each(codes[*row as usize - start]));
                (left, start) = (&left[here..], start + codes.len());
            });
        }
        match self {
            Codes::Constant => rows.iter().for_each(|_| each(0)),
            Codes::Packed(ints) => return ints.gather(rows, each),
            Codes::Runs { ends, codes } => {
                let mut ends = SortedCursor::new(*ends);
                let runs = rows.iter().map(|row| Ok(ends.at_most(*row)?.0 as u32)).collect::<Result<Vec<u32>>>()?;
                codes.gather(&runs, each)?;
            }
            Codes::Rows { common, rows: singles, row_codes, starts, lengths, run_codes } => {
                let (mut singles, mut starts) = (SortedCursor::new(*singles), SortedCursor::new(*starts));
                for row in rows {
                    let (place, last) = singles.at_most(*row)?;
                    if last == Some(*row) {
                        each(row_codes.get(place - 1)?);
                        continue;
                    }
                    let (place, start) = starts.at_most(*row)?;
                    match start {
                        Some(start) if row - start < lengths.get(place - 1)? => each(run_codes.get(place - 1)?),
                        _ => each(*common),
                    }
                }
            }
        }
        Ok(())
    }
}

/// Fills the front of `out`, which has room for [`RUN_STRIDE`] codes more than `rows`.
fn expand_runs(ends: Ints<'_>, codes: Ints<'_>, rows: &Range<usize>, out: &mut [u32]) -> Result<()> {
    let runs = runs_of(ends, rows)?;
    let (ends, codes) = (ends.read::<u32>(runs.clone())?, codes.read::<u32>(runs)?);
    let mut at = 0;
    for (end, code) in ends.iter().zip(&codes) {
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

/// The runs that hold `rows`, of which there is one at least.
fn runs_of(ends: Ints<'_>, rows: &Range<usize>) -> Result<Range<usize>> {
    let mut cursor = SortedCursor::new(ends);
    let first = cursor.at_most(rows.start as u32)?.0;
    // The run that holds the last row ends behind it.
    let behind = (cursor.at_most(rows.end as u32 - 1)?.0 + 1).clamp(first, ends.len().max(first));
    Ok(first..behind)
}

fn scatter_rows(singles: Ints<'_>, codes: Ints<'_>, rows: &Range<usize>, out: &mut [u32]) -> Result<()> {
    each_stored_row(singles, codes, rows, |row, code| {
        out[row] = code;
        Ok(())
    })
}

/// Calls `each` with the single rows that lie in `rows`, counted from their first, and their codes.
fn each_stored_row(
    singles: Ints<'_>,
    codes: Ints<'_>,
    rows: &Range<usize>,
    mut each: impl FnMut(usize, u32) -> Result<()>,
) -> Result<()> {
    let places = places(singles, rows)?;
    let (singles, codes) = (singles.read::<u32>(places.clone())?, codes.read::<u32>(places)?);
    for (row, code) in singles.iter().zip(&codes) {
        if rows.contains(&(*row as usize)) {
            each(*row as usize - rows.start, *code)?;
        }
    }
    Ok(())
}

fn scatter_runs(runs: [Ints<'_>; 3], rows: &Range<usize>, out: &mut [u32]) -> Result<()> {
    each_stored_run(runs, rows, |run, code| {
        out[run].fill(code);
        Ok(())
    })
}

/// Calls `each` with the part of each run (starts, lengths, codes) that lies in `rows`, counted from their first.
fn each_stored_run(
    [starts, lengths, codes]: [Ints<'_>; 3],
    rows: &Range<usize>,
    mut each: impl FnMut(Range<usize>, u32) -> Result<()>,
) -> Result<()> {
    let mut places = places(starts, rows)?;
    // The run before may reach into the range.
    places.start = places.start.saturating_sub(1);
    let starts = starts.read::<u32>(places.clone())?;
    let (lengths, codes) = (lengths.read::<u32>(places.clone())?, codes.read::<u32>(places)?);
    for ((start, length), code) in starts.iter().zip(&lengths).zip(&codes) {
        let (start, end) = (*start as usize, *start as usize + *length as usize);
        let (start, end) = (start.max(rows.start), end.min(rows.end));
        if start < end {
            each(start - rows.start..end - rows.start, *code)?;
        }
    }
    Ok(())
}

/// The places in an ascending sequence of rows that lie in `range`.
fn places(sequence: Ints<'_>, range: &Range<usize>) -> Result<Range<usize>> {
    let mut cursor = SortedCursor::new(sequence);
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
