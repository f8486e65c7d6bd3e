//! A value list, for columns in which one value dominates: the rows with other values, and their codes.
//!
//! Single rows are in one list and runs of equal codes in another, so that a single row needs no length. Both lists are
//! sorted by row and not by value, because readers ask for ranges of rows: one search finds the part of a list that
//! they need, for any number of values.

use std::ops::Range;

use rowmill_base::Result;

use super::new_list::{NewCodes, StoredCodes, section};
use super::runs::for_each_run;
use super::{PIECE_ROWS, expand_pieces, gather_of, places, retain_packed};
use crate::chunk::{Chunk, CodeSet, DecodedRows, NewSection, Physical, SectionKind};
use crate::encoding::scaled::each_width;
use crate::encoding::{Analysis, Cheapest, Encoding, ListPlace, NewColumn};
use crate::row_mask::RowMask;
use crate::sequence::{Ints, SortedCursor, Word};

pub(in crate::encoding) struct ListRows;

/// Equal neighbours become a run instead of single rows from this many rows on.
const RUN_ROWS_MIN: usize = 4;
/// How many rows with the common code, or listed entries, a reader passes over in the time of one search.
const COMMON_ROWS_PER_SEARCH: usize = 64;
const LISTED_PER_SEARCH: usize = 8;

/// The listed rows of a chunk.
#[derive(Clone, Copy)]
struct ListedRows<'a> {
    common: u32,
    rows: Ints<'a>,
    row_codes: Ints<'a>,
    starts: Ints<'a>,
    lengths: Ints<'a>,
    run_codes: Ints<'a>,
}

impl Encoding for ListRows {
    fn number(&self) -> u8 {
        3
    }

    fn name(&self) -> &'static str {
        "list+rows"
    }

    fn analyse(&self, column: &NewColumn<'_>, offered: &Cheapest) -> Result<Option<Analysis>> {
        let Some(codes) = column.codes() else { return Ok(None) };
        let common = codes.counts.iter().enumerate().max_by_key(|(_, rows)| **rows);
        let (common, common_rows) = common.expect("NULL has a count");
        // Every run of another code needs an entry, and of two neighbouring runs at most one has the common code.
        let entries_min = (codes.runs / 2).max(codes.runs.saturating_sub(*common_rows as usize));
        let common_enough = column.is_forced() || *common_rows as usize * 2 >= codes.len();
        let may_win = common_enough && codes.may_win_with(entries_min, offered);
        Ok(may_win.then(|| codes.built(encode(codes, common as u32))))
    }

    fn list_place(&self, _: Physical) -> ListPlace {
        ListPlace::Section
    }

    fn codes(&self, chunk: &Chunk, rows: DecodedRows<'_>, each: &mut dyn FnMut(&[u32])) -> Result<()> {
        let listed = ListedRows::open(chunk)?;
        match rows {
            DecodedRows::Range(range) => expand_pieces(range, 0, |piece, out| listed.expand(piece, out), each),
            DecodedRows::List(rows) => listed.gather(rows, each),
        }
    }

    fn retain_codes(&self, chunk: &Chunk, set: &CodeSet, mask: &mut RowMask) -> Result<()> {
        match mask.is_empty() {
            true => Ok(()),
            false => ListedRows::open(chunk)?.retain(set, mask),
        }
    }
}

fn encode(codes: &NewCodes, common: u32) -> StoredCodes {
    StoredCodes {
        common,
        sections: each_width!(&codes.words, words => sections_of(words, Word::truncate(common.into()))),
    }
}

fn sections_of<C: Word>(codes: &[C], common: C) -> Vec<NewSection> {
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
    vec![
        section(SectionKind::SingleRows, &rows),
        section(SectionKind::SingleCodes, &row_codes),
        section(SectionKind::RunStarts, &starts),
        section(SectionKind::RunLengths, &lengths),
        section(SectionKind::RunCodes, &run_codes),
    ]
}

impl<'a> ListedRows<'a> {
    fn open(chunk: &'a Chunk) -> Result<ListedRows<'a>> {
        Ok(ListedRows {
            common: chunk.facts().common,
            rows: chunk.ints(SectionKind::SingleRows)?,
            row_codes: chunk.ints(SectionKind::SingleCodes)?,
            starts: chunk.ints(SectionKind::RunStarts)?,
            lengths: chunk.ints(SectionKind::RunLengths)?,
            run_codes: chunk.ints(SectionKind::RunCodes)?,
        })
    }

    /// Expands the codes of `rows` into `out`.
    fn expand(&self, rows: &Range<usize>, out: &mut [u32]) -> Result<()> {
        // Begin with the common code everywhere, and then overwrite the listed rows.
        out.fill(self.common);
        self.scatter_rows(rows, out)?;
        self.scatter_runs(rows, out)
    }

    fn scatter_rows(&self, rows: &Range<usize>, out: &mut [u32]) -> Result<()> {
        let places = places(self.rows, rows)?;
        let (singles, codes) = (self.rows.read::<u32>(places.clone())?, self.row_codes.read::<u32>(places)?);
        for (row, code) in singles.iter().zip(&codes) {
            if let Some(out) = (*row as usize).checked_sub(rows.start).and_then(|row| out.get_mut(row)) {
                *out = *code;
            }
        }
        Ok(())
    }

    fn scatter_runs(&self, rows: &Range<usize>, out: &mut [u32]) -> Result<()> {
        let places = self.places_of_runs(rows)?;
        let starts = self.starts.read::<u32>(places.clone())?;
        let (lengths, codes) = (self.lengths.read::<u32>(places.clone())?, self.run_codes.read::<u32>(places)?);
        for ((start, length), code) in starts.iter().zip(&lengths).zip(&codes) {
            let (start, end) = (*start as usize, *start as usize + *length as usize);
            let (start, end) = (start.max(rows.start), end.min(rows.end));
            if start < end {
                out[start - rows.start..end - rows.start].fill(*code);
            }
        }
        Ok(())
    }

    /// The positions of the runs that may reach into `range`: the run before the first start in the range may do so
    /// too.
    fn places_of_runs(&self, range: &Range<usize>) -> Result<Range<usize>> {
        let places = places(self.starts, range)?;
        Ok(places.start.saturating_sub(1)..places.end)
    }

    /// Calls `each` with the codes of `rows`, which must ascend, a piece at a time.
    fn gather(&self, rows: &[u32], each: &mut dyn FnMut(&[u32])) -> Result<()> {
        // Dense rows: expand everything between the first and the last row and pick from it. Sparse rows: search each.
        let listed = self.rows.len() + self.starts.len();
        if let [first, .., last] = rows
            && (last - first) as usize / COMMON_ROWS_PER_SEARCH + listed / LISTED_PER_SEARCH <= rows.len()
        {
            return self.pick(rows, *first as usize..*last as usize + 1, each);
        }
        // We collect the list positions of all rows and look them up together, because a single lookup unpacks 1,024
        // values.
        let (mut singles, mut starts) = (SortedCursor::new(self.rows), SortedCursor::new(self.starts));
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
        let mut codes = vec![self.common; rows.len()];
        of_singles.look_up(self.row_codes, |at, code| codes[at] = code)?;
        let mut is_inside = vec![false; rows.len()];
        let mut first_rows = Vec::with_capacity(of_runs.places.len());
        of_runs.look_up(self.starts, |_, first| first_rows.push(first))?;
        let mut firsts = first_rows.into_iter();
        of_runs.look_up(self.lengths, |at, length| {
            // Damaged starts may be after the row.
            let passed = firsts.next().and_then(|first| rows[at].checked_sub(first));
            is_inside[at] = passed.is_some_and(|passed| passed < length);
        })?;
        of_runs.look_up(self.run_codes, |at, code| {
            if is_inside[at] {
                codes[at] = code;
            }
        })?;
        each(&codes);
        Ok(())
    }

    /// Calls `each` with the codes of `rows`, picked from those of all rows in `span`.
    fn pick(&self, rows: &[u32], span: Range<usize>, each: &mut dyn FnMut(&[u32])) -> Result<()> {
        let (mut left, mut start) = (rows, span.start);
        let mut picked = Vec::with_capacity(PIECE_ROWS.min(rows.len()));
        expand_pieces(&span, 0, |piece, out| self.expand(piece, out), &mut |codes| {
            let here = left.partition_point(|row| (*row as usize) < start + codes.len());
            picked.clear();
            picked.extend(left[..here].iter().map(|row| codes[*row as usize - start]));
            each(&picked);
            (left, start) = (&left[here..], start + codes.len());
        })
    }

    /// Leaves the rows in `mask` whose code is in `set`. Sets listed rows and runs as bits, without expanding a code
    /// per row.
    fn retain(&self, set: &CodeSet, mask: &mut RowMask) -> Result<()> {
        let is_common_in = set.contains(self.common);
        // The listed rows for which `set` gives another answer than for the common code.
        let mut others = RowMask::none(mask.rows());
        let extent = mask.extent();
        let selected = |codes: Ints<'_>, places: Range<usize>| -> Result<RowMask> {
            // The list says which codes are in `set`. If the common code is in, we need the listed rows that are not.
            let mut places = RowMask::all(places);
            retain_packed(codes, set, &mut places)?;
            if is_common_in {
                places.invert();
            }
            Ok(places)
        };
        insert_rows(self.rows, &selected(self.row_codes, places(self.rows, &extent)?)?, &mut others)?;
        let runs = selected(self.run_codes, self.places_of_runs(&extent)?)?;
        insert_listed_runs(self.starts, self.lengths, &runs, &mut others)?;
        match is_common_in {
            true => mask.and_not(&others),
            false => mask.and(&others),
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
