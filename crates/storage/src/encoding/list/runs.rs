//! A value list and runs of equal codes: for each run the row after its last one, and its code.

use std::ops::Range;

use rowmill_base::{Error, Result};

use super::new_list::{NewCodes, StoredCodes, section};
use super::{PIECE_ROWS, expand_pieces, gather_of, retain_packed};
use crate::chunk::{Chunk, CodeSet, DecodedRows, Physical, SectionKind};
use crate::encoding::scaled::each_width;
use crate::encoding::{Analysis, Cheapest, Encoding, ListPlace, NewColumn};
use crate::row_mask::RowMask;
use crate::sequence::{Ints, SortedCursor, Word};

pub(in crate::encoding) struct ListRuns;

/// How many runs a reader passes over in the time of one search.
const RUNS_PER_SEARCH: usize = 16;
/// Codes written for each run at once, even if the run is shorter. Most runs are short, and a loop of unknown length
/// costs more than codes that the next run overwrites.
const RUN_STRIDE: usize = 16;

/// The runs of a chunk.
#[derive(Clone, Copy)]
struct StoredRuns<'a> {
    ends: Ints<'a>,
    codes: Ints<'a>,
}

impl Encoding for ListRuns {
    fn number(&self) -> u8 {
        2
    }

    fn name(&self) -> &'static str {
        "list+runs"
    }

    fn analyse(&self, column: &NewColumn<'_>, offered: &Cheapest) -> Result<Option<Analysis>> {
        let Some(codes) = column.codes() else { return Ok(None) };
        Ok(codes.may_win_with(codes.runs, offered).then(|| codes.built(encode(codes))))
    }

    fn list_place(&self, _: Physical) -> ListPlace {
        ListPlace::Section
    }

    fn codes(&self, chunk: &Chunk, rows: DecodedRows<'_>, each: &mut dyn FnMut(&[u32])) -> Result<()> {
        let runs = StoredRuns::open(chunk)?;
        match rows {
            // The extra codes let `expand` write a full stride at the end.
            DecodedRows::Range(range) => expand_pieces(range, RUN_STRIDE, |piece, out| runs.expand(piece, out), each),
            DecodedRows::List(rows) => runs.gather(rows, each),
        }
    }

    fn retain_codes(&self, chunk: &Chunk, set: &CodeSet, mask: &mut RowMask) -> Result<()> {
        match mask.is_empty() {
            true => Ok(()),
            false => StoredRuns::open(chunk)?.retain(set, mask),
        }
    }
}

fn encode(codes: &NewCodes) -> StoredCodes {
    let sections = each_width!(&codes.words, words => {
        let (mut ends, mut run_codes) = (Vec::with_capacity(codes.runs), Vec::with_capacity(codes.runs));
        for_each_run(words, |rows, code| {
            ends.push(rows.end as u32);
            run_codes.push(code);
        });
        vec![section(SectionKind::RunEnds, &ends), section(SectionKind::RunCodes, &run_codes)]
    });
    StoredCodes { common: 0, sections }
}

/// Calls `each` with the rows and the code of each run of equal codes.
pub(super) fn for_each_run<C: Word>(codes: &[C], mut each: impl FnMut(Range<usize>, C)) {
    let mut start = 0;
    for run in codes.chunk_by(|a, b| a == b) {
        each(start..start + run.len(), run[0]);
        start += run.len();
    }
}

impl<'a> StoredRuns<'a> {
    fn open(chunk: &'a Chunk) -> Result<StoredRuns<'a>> {
        Ok(StoredRuns { ends: chunk.ints(SectionKind::RunEnds)?, codes: chunk.ints(SectionKind::RunCodes)? })
    }

    /// Expands the codes of `rows` into the front of `out`, which must have room for [`RUN_STRIDE`] more codes.
    fn expand(&self, rows: &Range<usize>, out: &mut [u32]) -> Result<()> {
        let runs = self.runs_of(rows)?;
        let (ends, codes) = (self.ends.read::<u32>(runs.clone())?, self.codes.read::<u32>(runs)?);
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

    /// The runs that contain `rows`, which must not be empty.
    fn runs_of(&self, rows: &Range<usize>) -> Result<Range<usize>> {
        let mut cursor = SortedCursor::new(self.ends);
        let first = cursor.at_most(rows.start as u32)?.0;
        // The run of the last row is the one after all runs that end at or before that row. We clamp, because damaged
        // ends may not ascend.
        let behind = (cursor.at_most(rows.end as u32 - 1)?.0 + 1).clamp(first, self.ends.len().max(first));
        Ok(first..behind)
    }

    /// Calls `each` with the codes of `rows`, which must ascend, a piece at a time.
    fn gather(&self, rows: &[u32], mut each: &mut dyn FnMut(&[u32])) -> Result<()> {
        // Dense rows: pass over everything between the first and the last row. Sparse rows: search each.
        if let [first, .., last] = rows
            && self.ends.len().min((last - first) as usize) / RUNS_PER_SEARCH <= rows.len()
        {
            return self.pick(rows, each);
        }
        let mut ends = SortedCursor::new(self.ends);
        let runs = rows.iter().map(|row| Ok(ends.at_most(*row)?.0 as u32)).collect::<Result<Vec<u32>>>()?;
        self.codes.gather_repeated(&runs, &mut each)
    }

    /// Calls `each` with the codes of `rows`, a piece at a time, and passes over every run between the first row and
    /// the last. The rows must ascend.
    fn pick(&self, rows: &[u32], each: &mut dyn FnMut(&[u32])) -> Result<()> {
        let ([first, .., last] | [first @ last]) = rows else { return Ok(()) };
        let runs = self.runs_of(&(*first as usize..*last as usize + 1))?;
        let (mut picked, mut taken) = (Vec::with_capacity(PIECE_ROWS.min(rows.len())), 0);
        for start in runs.clone().step_by(PIECE_ROWS) {
            let piece = start..runs.end.min(start + PIECE_ROWS);
            let (ends, codes) = (self.ends.read::<u32>(piece.clone())?, self.codes.read::<u32>(piece)?);
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

    /// Leaves the rows in `mask` whose code is in `set`. Sets whole runs as bits, without expanding a code per row.
    fn retain(&self, set: &CodeSet, mask: &mut RowMask) -> Result<()> {
        // First choose runs by their code, as if each run were a row. Then turn the chosen runs into rows.
        let mut runs = RowMask::all(self.runs_of(&mask.extent())?);
        retain_packed(self.codes, set, &mut runs)?;
        let mut held = RowMask::none(mask.rows());
        self.insert(&runs, mask.extent().end, &mut held)?;
        mask.and(&held);
        Ok(())
    }

    /// Inserts the rows of the runs in `runs` into `held`. The runs together must reach `end`.
    fn insert(&self, runs: &RowMask, end: usize, held: &mut RowMask) -> Result<()> {
        let all = runs.rows();
        // Without this check, rows after damaged runs would silently pass or fail.
        let reached = if all.is_empty() { 0 } else { self.ends.get::<u32>(all.end - 1)? as usize };
        if reached < end {
            return Err(Error::corrupt(format!("the runs of codes end at row {reached}")));
        }
        // A run starts at the end of the run before it, so we read both ends. Two neighbouring runs share one of them.
        let mut read = RowMask::none(all.start.saturating_sub(1)..all.end);
        runs.for_each(|run| read.insert_range(run.saturating_sub(1)..run + 1));
        let mut found = Vec::with_capacity(read.count());
        gather_of(self.ends, &read, |end| found.push(end as usize))?;
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
}
