//! Reads: the rows of one lookup, and for each of them those of the next, as loops within loops.
//!
//! A row is all columns that are asked for of the lookups so far, one behind the other, each borrowed from where the lookup's
//! row lies; the innermost loop hands it to the [`Sink`]. A lookup in another read runs that first and keeps what it gives:
//! once, unless it names columns of the lookups before.

use std::collections::HashSet;
use std::sync::Arc;

use rowmill_base::{Cancel, Error, ErrorKind, Result, SqlType};
use rowmill_plan::program::{self, Column, LookupKind, LookupSource, Scalar, ScalarOp, TextPrefix};
use rowmill_storage::keyed::{ByteRows, ValueRef};
use rowmill_txn::Catalog;
use rowmill_txn::keyed::{Reader, TableCodec};

use crate::access::{Access, AccessScratch, Unread};
use crate::compiled::column_kinds;
use crate::expr::{Compiler, Env, Expr, Layout, unsupported};
use crate::output::{Output, OutputScratch, Sink};
use crate::pace::{Pace, bounded};
use crate::recycled::recycled;
use crate::result_rows::ResultRows;
use crate::texts::Texts;
use crate::windows::{WindowScratch, Windows};

/// Rounds of a recursion. One of more is run by the general engine.
pub const ROUNDS_MAX: u64 = 1_000;

/// A read that is ready to run.
#[derive(Debug)]
pub(crate) struct Read {
    lookups: Box<[Lookup]>,
    output: Output,
    /// The types of what it gives.
    kinds: Arc<[SqlType]>,
    pub(crate) for_update: bool,
    rows_max: u64,
}

/// A source of rows.
#[derive(Debug)]
struct Lookup {
    kind: LookupKind,
    source: Source,
    condition: Option<Expr>,
    /// The LIKE by whose pattern the access finds rows: a part of the condition that need not be asked where the pattern is no
    /// more than a prefix.
    like: Option<Expr>,
    compared: Option<Expr>,
    texts: usize,
    /// Columns of the source that are asked for.
    columns: usize,
    /// Whether a mark is asked for behind them.
    has_mark: bool,
}

#[derive(Debug)]
enum Source {
    Table(Access),
    Reads(NestedReads),
}

/// Rows in memory that are those of a lookup.
#[derive(Debug)]
struct NestedReads {
    of: NestedSource,
    /// The columns that are asked for.
    wanted: Box<[usize]>,
    /// Whether they name columns of the lookups before.
    are_correlated: bool,
}

/// What the rows of a lookup in memory are made of.
#[derive(Debug)]
enum NestedSource {
    Reads(Box<[Read]>),
    Windows(Box<(Read, Windows)>),
    Recursion(Box<Recursion>),
    /// The rows of the last round of the recursion that is this number of recursions out.
    LastRound(usize),
}

/// `WITH RECURSIVE`
#[derive(Debug)]
struct Recursion {
    base: Box<[Read]>,
    step: Read,
    distinct: bool,
}

/// The rows of the last rounds of the recursions around a read, the innermost first.
#[derive(Clone, Copy, Debug)]
struct LastRounds<'r> {
    rows: &'r ResultRows,
    outer: Option<&'r LastRounds<'r>>,
}

/// What a read takes, kept from one to the next.
#[derive(Debug, Default)]
pub(crate) struct ReadScratch {
    levels: Vec<Level>,
    output: OutputScratch,
    /// Keys of rows that were given `FOR UPDATE`.
    pub(crate) keys: ByteRows,
    rows: ByteRows,
}

/// What a loop takes.
#[derive(Debug, Default)]
struct Level {
    access: AccessScratch,
    columns: Vec<ValueRef<'static>>,
    texts: Texts,
    compared_texts: Texts,
    nested: Option<Box<NestedRows>>,
}

/// The rows of nested reads.
#[derive(Debug, Default)]
struct NestedRows {
    scratch: Vec<ReadScratch>,
    windows: WindowScratch,
    rows: ResultRows,
    /// Whether they were read in this run.
    are_there: bool,
}

/// The rows of one table that a run comes upon and gives.
struct Captured<'r> {
    /// Which of the lookups.
    lookup: usize,
    /// The row that its loop is at.
    key: Vec<u8>,
    row: Vec<u8>,
    /// Those that were given.
    keys: &'r mut ByteRows,
    rows: &'r mut ByteRows,
}

/// What is the same for all loops of a run.
struct Run<'r> {
    reader: &'r Reader<'r>,
    parameters: &'r [ValueRef<'r>],
    sink: Sink<'r>,
    captured: Option<Captured<'r>>,
    lookups: usize,
    /// Rows of the first lookup that are wanted, as far as is known.
    first: usize,
    /// Rows that it may still come upon.
    rows_left: u64,
    cancel: &'r Cancel,
    pace: Pace<'r>,
    last_rounds: Option<&'r LastRounds<'r>>,
}

impl Read {
    pub(crate) fn new(read: &program::Read, catalog: &Catalog, parameters: &[SqlType]) -> Result<Read> {
        let whole = read.for_update.then_some(0);
        if read.for_update
            && !matches!(&read.lookups[..], [program::NestedLookup { source: LookupSource::Table(_), .. }])
        {
            return Err(unsupported("FOR UPDATE of anything but one table"));
        }
        Read::within(read, catalog, parameters, &Layout::default(), whole)
    }

    /// Of a read whose lookup `whole` gives whole rows, to be [gathered](Self::gather).
    pub(crate) fn of_target(
        read: &program::Read,
        catalog: &Catalog,
        parameters: &[SqlType],
        whole: usize,
    ) -> Result<Read> {
        match read.lookups.get(whole) {
            Some(program::NestedLookup { kind: LookupKind::Inner, source: LookupSource::Table(_), .. }) => {
                Read::within(read, catalog, parameters, &Layout::default(), Some(whole))
            }
            _ => Err(Error::internal("a program that changes rows of something that is no table")),
        }
    }

    /// Of a read within others, whose rows are `outer`.
    fn within(
        read: &program::Read,
        catalog: &Catalog,
        parameters: &[SqlType],
        outer: &Layout,
        whole: Option<usize>,
    ) -> Result<Read> {
        let layout = layout(read, catalog, outer)?;
        let mut lookups = Vec::with_capacity(read.lookups.len());
        for (at, lookup) in read.lookups.iter().enumerate() {
            let row = outer.len() + at;
            let of_source = source_columns(lookup, catalog)?;
            let wanted = layout.wanted(row);
            let columns = wanted.iter().take_while(|column| **column < of_source).count();
            let has_mark = columns < wanted.len();
            let wanted = &wanted[..columns];
            let source = match &lookup.source {
                LookupSource::Table(access) => {
                    let whole = whole == Some(at);
                    Source::Table(Access::new(access, catalog, parameters, &layout, row, wanted, whole)?)
                }
                nested => {
                    let before = layout.first_rows(row);
                    let within = |read: &program::Read| Read::within(read, catalog, parameters, &before, None);
                    let all = |reads: &[program::Read]| reads.iter().map(within).collect::<Result<Box<[Read]>>>();
                    let of = match nested {
                        LookupSource::Windows(of) => {
                            NestedSource::Windows(Box::new((within(&of.read)?, Windows::new(of, parameters)?)))
                        }
                        LookupSource::Recursion(of) => NestedSource::Recursion(Box::new(Recursion {
                            base: all(&of.base)?,
                            step: within(&of.step)?,
                            distinct: of.distinct,
                        })),
                        LookupSource::LastRound(outwards, _) => NestedSource::LastRound(*outwards),
                        LookupSource::Reads(reads) => NestedSource::Reads(all(reads)?),
                        LookupSource::Table(_) => unreachable!("a table is not in memory"),
                    };
                    let are_correlated = nested.reads().into_iter().any(|read| names_rows_before(read, row));
                    Source::Reads(NestedReads { of, wanted: wanted.into(), are_correlated })
                }
            };
            let mut compiler = Compiler::new(parameters, &layout, row + 1);
            let mut condition = |scalar: &Option<Scalar>| {
                let scalar = scalar.as_ref();
                scalar.map(|condition| compiler.condition(condition)).transpose()
            };
            let (like, others) = match (&lookup.source, &source) {
                (LookupSource::Table(of), Source::Table(access)) => {
                    let column = access.prefix_column().map(|column| Column { row, column });
                    split_like(lookup.condition.as_ref(), of.prefix.as_ref(), column)
                }
                _ => (None, lookup.condition.clone()),
            };
            let (like, compared) = (condition(&like)?, condition(&lookup.compared)?);
            let condition = condition(&others)?;
            let texts = compiler.texts();
            lookups.push(Lookup { kind: lookup.kind, source, condition, like, compared, texts, columns, has_mark });
        }
        let compiler = Compiler::new(parameters, &layout, layout.len());
        let output = Output::new(&read.output, &read.filter, compiler)?;
        let rows_max = read.rows_max.unwrap_or(u64::MAX);
        let kinds = read.output().into();
        Ok(Read { lookups: lookups.into(), output, kinds, for_update: read.for_update, rows_max })
    }

    /// The types of the values that it gives.
    pub(crate) fn kinds(&self) -> &Arc<[SqlType]> {
        &self.kinds
    }

    /// What makes and reads the rows of the table that a lookup reads.
    pub(crate) fn codec(&self, lookup: usize) -> Option<&Arc<TableCodec>> {
        match &self.lookups.get(lookup)?.source {
            Source::Table(access) => Some(access.codec()),
            Source::Reads(_) => None,
        }
    }

    /// Fills `out`, which was started.
    pub(crate) fn run(
        &self,
        reader: &Reader<'_>,
        parameters: &[ValueRef<'_>],
        scratch: &mut ReadScratch,
        cancel: &Cancel,
        out: &mut ResultRows,
    ) -> Result<()> {
        let ReadScratch { levels, output, keys, rows } = scratch;
        keys.clear();
        let captured = self.for_update.then(|| Captured::new(0, keys, rows));
        self.run_over(&[], captured, None, reader, parameters, (levels, output), cancel, out)
    }

    /// Fills `out`, which was started, and puts the rows of the table that lookup `of` reads into `keys` and `rows`: one for
    /// each row that is given.
    #[expect(clippy::too_many_arguments, reason = "what a run takes, and where its rows go")]
    pub(crate) fn gather(
        &self,
        of: usize,
        [keys, rows]: [&mut ByteRows; 2],
        reader: &Reader<'_>,
        parameters: &[ValueRef<'_>],
        scratch: &mut ReadScratch,
        cancel: &Cancel,
        out: &mut ResultRows,
    ) -> Result<()> {
        let captured = Captured::new(of, keys, rows);
        let scratch = (&mut scratch.levels, &mut scratch.output);
        self.run_over(&[], Some(captured), None, reader, parameters, scratch, cancel, out)
    }

    /// Runs within the loops of others, which are at the row `outer`.
    #[expect(clippy::too_many_arguments, reason = "what a run takes, and where its rows go")]
    fn run_over<'r>(
        &'r self,
        outer: &[ValueRef<'_>],
        captured: Option<Captured<'r>>,
        last_rounds: Option<&'r LastRounds<'r>>,
        reader: &'r Reader<'r>,
        parameters: &'r [ValueRef<'r>],
        (levels, output): (&mut Vec<Level>, &'r mut OutputScratch),
        cancel: &'r Cancel,
        out: &'r mut ResultRows,
    ) -> Result<()> {
        if levels.len() < self.lookups.len() {
            levels.resize_with(self.lookups.len(), Level::default);
        }
        for nested in levels.iter_mut().filter_map(|level| level.nested.as_mut()) {
            nested.are_there = false;
        }
        let sink = Sink::new(&self.output, parameters, output, out)?;
        let (lookups, rows_left, first) = (self.lookups.len(), self.rows_max, sink.rows_wanted());
        let pace = Pace::new(cancel);
        let mut run = Run { reader, parameters, sink, captured, lookups, first, rows_left, cancel, pace, last_rounds };
        if run.sink.wants_rows() {
            run.loop_over(&self.lookups, levels, outer)?;
        }
        run.sink.finish(parameters)
    }
}

impl<'r> Captured<'r> {
    fn new(lookup: usize, keys: &'r mut ByteRows, rows: &'r mut ByteRows) -> Captured<'r> {
        keys.clear();
        rows.clear();
        Captured { lookup, key: Vec::new(), row: Vec::new(), keys, rows }
    }
}

/// A row of a lookup: where that is a table with its key, and if asked for whole.
struct Match<'m> {
    values: &'m [ValueRef<'m>],
    key: &'m [u8],
    row: &'m [u8],
}

impl Run<'_> {
    /// Whether more rows are wanted after all that match the row of `outer`.
    fn loop_over(&mut self, lookups: &[Lookup], levels: &mut [Level], outer: &[ValueRef<'_>]) -> Result<bool> {
        let Some((lookup, lookups)) = lookups.split_first() else { return self.give(outer) };
        let (level, levels) = levels.split_first_mut().expect("there is a level for each lookup");
        match lookup.kind {
            LookupKind::Inner | LookupKind::Left | LookupKind::Single => {
                let number = self.lookups - lookups.len() - 1;
                let mut matches = 0;
                let is_unread = lookups.is_empty() && self.captured.is_none() && lookup.gives_every_row();
                let unread = match is_unread && !lookup.asks_like(outer, self.parameters)? {
                    true => self.sink.begin_unread(),
                    false => 0,
                };
                let goes_on = self.each_match(lookup, level, outer, unread, |run, found| {
                    matches += 1;
                    if matches > 1 && lookup.kind == LookupKind::Single {
                        return Err(more_than_one_row());
                    }
                    if let Some(captured) = run.captured.as_mut().filter(|captured| captured.lookup == number) {
                        captured.key.clear();
                        captured.key.extend_from_slice(found.key);
                        captured.row.clear();
                        captured.row.extend_from_slice(found.row);
                    }
                    run.loop_over(lookups, levels, found.values)
                })?;
                match matches == 0 && lookup.kind != LookupKind::Inner {
                    true => {
                        self.without_values(lookup, level, outer, None, |run, row| run.loop_over(lookups, levels, row))
                    }
                    false => Ok(goes_on),
                }
            }
            LookupKind::Semi | LookupKind::Anti | LookupKind::Mark => {
                let is_match = self.probe(lookup, level, outer)?;
                let passes = match lookup.kind {
                    LookupKind::Semi => is_match == Some(true),
                    LookupKind::Anti => is_match == Some(false),
                    _ => true,
                };
                if !passes {
                    return Ok(true);
                }
                let mark = lookup.has_mark.then(|| is_match.map_or(ValueRef::Null, ValueRef::Bool));
                self.without_values(lookup, level, outer, mark, |run, row| run.loop_over(lookups, levels, row))
            }
        }
    }

    /// Whether a row matches; `None` if one may.
    fn probe(&mut self, lookup: &Lookup, level: &mut Level, outer: &[ValueRef<'_>]) -> Result<Option<bool>> {
        let mut is_match = Some(false);
        let parameters = self.parameters;
        let mut texts = std::mem::take(&mut level.compared_texts);
        self.each_match(lookup, level, outer, 0, |_, found| {
            let compared = match &lookup.compared {
                None => ValueRef::Bool(true),
                Some(compared) => {
                    texts.clear(lookup.texts);
                    compared.value(Env { columns: found.values, parameters, texts: &texts })?
                }
            };
            match compared {
                ValueRef::Bool(true) => is_match = Some(true),
                ValueRef::Null => is_match = None,
                _ => {}
            }
            Ok(is_match != Some(true))
        })?;
        level.compared_texts = texts;
        Ok(is_match)
    }

    /// Goes on with NULL in all columns of a lookup, and the mark.
    fn without_values(
        &mut self,
        lookup: &Lookup,
        level: &mut Level,
        outer: &[ValueRef<'_>],
        mark: Option<ValueRef<'static>>,
        go_on: impl FnOnce(&mut Self, &[ValueRef<'_>]) -> Result<bool>,
    ) -> Result<bool> {
        let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(&mut level.columns));
        values.extend_from_slice(outer);
        values.resize(outer.len() + lookup.columns, ValueRef::Null);
        values.extend(mark);
        let goes_on = go_on(self, &values)?;
        level.columns = recycled(values);
        Ok(goes_on)
    }

    /// Calls `each` with all matches until it says `false`; whether it never did. The first `unread` of a table are passed
    /// over, and the output is told of them.
    fn each_match(
        &mut self,
        lookup: &Lookup,
        level: &mut Level,
        outer: &[ValueRef<'_>],
        unread: usize,
        mut each: impl FnMut(&mut Self, Match<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let Level { access: scratch, columns, texts, nested, .. } = level;
        let (reader, parameters) = (self.reader, self.parameters);
        match &lookup.source {
            Source::Table(access) => {
                let first = match lookup.kind {
                    LookupKind::Semi | LookupKind::Anti | LookupKind::Mark => match lookup.condition {
                        Some(_) => CONDITIONED_FIRST,
                        None => 1,
                    },
                    LookupKind::Single => 2,
                    _ => std::mem::replace(&mut self.first, usize::MAX),
                };
                let env = Env { columns: outer, parameters, texts: &Texts::default() };
                let asks_like = lookup.asks_like(outer, parameters)?;
                let mut left = Unread::new(unread, self.cancel);
                let goes_on = access.run(env, reader, scratch, first, &mut left, |found| {
                    self.come_upon_row()?;
                    let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(columns));
                    values.extend_from_slice(outer);
                    found.columns.read(&mut values)?;
                    let is_match = lookup.matches(&values, parameters, texts)?
                        && (!asks_like || lookup.is_like(&values, parameters, texts)?);
                    let goes_on = !is_match || each(self, Match { values: &values, key: found.key, row: found.row })?;
                    *columns = recycled(values);
                    Ok(goes_on)
                })?;
                if unread > 0 {
                    self.sink.pass(unread - left.rows, left.rows);
                }
                Ok(goes_on)
            }
            Source::Reads(nested_reads) => {
                let nested = nested.get_or_insert_default();
                let NestedRows { scratch, windows, rows, are_there } = &mut **nested;
                if !std::mem::replace(are_there, true) || nested_reads.are_correlated {
                    let within = Within { outer, reader, parameters, cancel: self.cancel, rounds: self.last_rounds };
                    nested_reads.run(within, (scratch, windows), rows)?;
                }
                for row in 0..rows.len() {
                    self.come_upon_row()?;
                    let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(columns));
                    values.extend_from_slice(outer);
                    values.extend(nested_reads.wanted.iter().map(|column| rows.get(row, *column)));
                    let goes_on = !lookup.matches(&values, parameters, texts)?
                        || each(self, Match { values: &values, key: &[], row: &[] })?;
                    *columns = recycled(values);
                    if !goes_on {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn come_upon_row(&mut self) -> Result<()> {
        match self.rows_left.checked_sub(1) {
            Some(left) => self.rows_left = left,
            None => return Err(unsupported("a statement that reads a table that has grown")),
        }
        self.pace.step()
    }

    /// Gives a row of all lookups if it passes; whether more are wanted.
    fn give(&mut self, row: &[ValueRef<'_>]) -> Result<bool> {
        if !self.sink.passes(row, self.parameters)? {
            return Ok(true);
        }
        if let Some(Captured { key, row, keys, rows, .. }) = &mut self.captured {
            keys.push(key);
            rows.push(row);
            bounded(keys.total_bytes() + rows.total_bytes())?;
        }
        self.sink.take(row, self.parameters)
    }
}

/// Rows that are asked for at first where one that meets a condition is enough.
const CONDITIONED_FIRST: usize = 4;

/// What reads within the loops of others are run with.
#[derive(Clone, Copy)]
struct Within<'r> {
    /// The rows that the loops are at.
    outer: &'r [ValueRef<'r>],
    reader: &'r Reader<'r>,
    parameters: &'r [ValueRef<'r>],
    cancel: &'r Cancel,
    rounds: Option<&'r LastRounds<'r>>,
}

impl Within<'_> {
    /// Appends the rows of a read to `rows`.
    fn add(self, read: &Read, scratch: &mut ReadScratch, rows: &mut ResultRows) -> Result<()> {
        let Within { outer, reader, parameters, cancel, rounds } = self;
        let scratch = (&mut scratch.levels, &mut scratch.output);
        read.run_over(outer, None, rounds, reader, parameters, scratch, cancel, rows)
    }

    /// Appends the rows of several reads to `rows`, which are started.
    fn add_all(self, reads: &[Read], scratch: &mut Vec<ReadScratch>, rows: &mut ResultRows) -> Result<()> {
        scratch.resize_with(scratch.len().max(reads.len()), ReadScratch::default);
        if let Some(first) = reads.first() {
            rows.start(first.kinds());
        }
        reads.iter().zip(scratch).try_for_each(|(read, scratch)| self.add(read, scratch, rows))
    }
}

impl NestedReads {
    /// Has `rows` hold the rows.
    fn run(
        &self,
        within: Within<'_>,
        (scratch, windows): (&mut Vec<ReadScratch>, &mut WindowScratch),
        rows: &mut ResultRows,
    ) -> Result<()> {
        match &self.of {
            NestedSource::Reads(reads) => within.add_all(reads, scratch, rows),
            NestedSource::Windows(of) => {
                let (read, of) = &**of;
                let mut read_rows = std::mem::take(&mut windows.rows);
                let read = within.add_all(std::slice::from_ref(read), scratch, &mut read_rows);
                windows.rows = read_rows;
                read?;
                rows.start(of.kinds());
                of.run(within.parameters, windows, &mut Pace::new(within.cancel), rows)
            }
            NestedSource::Recursion(recursion) => recursion.run(within, scratch, rows),
            NestedSource::LastRound(outwards) => {
                let mut rounds = within.rounds;
                for _ in 0..*outwards {
                    rounds = rounds.and_then(|rounds| rounds.outer);
                }
                let last = rounds.ok_or_else(|| Error::internal("a program that reads the round of no recursion"))?;
                rows.start(last.rows.kinds());
                rows.append(last.rows);
                Ok(())
            }
        }
    }
}

impl Recursion {
    /// Has `rows` hold the rows of all rounds.
    fn run(&self, within: Within<'_>, scratch: &mut Vec<ReadScratch>, rows: &mut ResultRows) -> Result<()> {
        let mut met = HashSet::new();
        let (mut last, mut next) = (ResultRows::default(), ResultRows::default());
        let mut step_scratch = ReadScratch::default();
        within.add_all(&self.base, scratch, &mut next)?;
        rows.start(next.kinds());
        for _ in 0..ROUNDS_MAX {
            std::mem::swap(&mut last, &mut next);
            if self.distinct {
                next.start(last.kinds());
                next.append_new(&last, &mut met);
                std::mem::swap(&mut last, &mut next);
            }
            if last.is_empty() {
                return Ok(());
            }
            rows.append(&last);
            bounded(rows.bytes())?;
            within.cancel.check()?;
            let rounds = LastRounds { rows: &last, outer: within.rounds };
            next.start(self.step.kinds());
            Within { rounds: Some(&rounds), ..within }.add(&self.step, &mut step_scratch, &mut next)?;
        }
        Err(unsupported(format_args!("a recursion of more than {ROUNDS_MAX} rounds")))
    }
}

impl Lookup {
    /// Whether it gives each row of a table that its access finds.
    fn gives_every_row(&self) -> bool {
        self.kind == LookupKind::Inner && self.condition.is_none() && matches!(self.source, Source::Table(_))
    }

    fn matches(&self, row: &[ValueRef<'_>], parameters: &[ValueRef<'_>], texts: &mut Texts) -> Result<bool> {
        self.is_true(self.condition.as_ref(), row, parameters, texts)
    }

    fn is_like(&self, row: &[ValueRef<'_>], parameters: &[ValueRef<'_>], texts: &mut Texts) -> Result<bool> {
        self.is_true(self.like.as_ref(), row, parameters, texts)
    }

    fn is_true(
        &self,
        condition: Option<&Expr>,
        row: &[ValueRef<'_>],
        parameters: &[ValueRef<'_>],
        texts: &mut Texts,
    ) -> Result<bool> {
        let Some(condition) = condition else { return Ok(true) };
        texts.clear(self.texts);
        condition.is_true(Env { columns: row, parameters, texts })
    }

    /// Whether the LIKE must be asked of the rows that the access finds for the rows `outer`.
    fn asks_like(&self, outer: &[ValueRef<'_>], parameters: &[ValueRef<'_>]) -> Result<bool> {
        match (&self.like, &self.source) {
            (Some(_), Source::Table(access)) => {
                let texts = Texts::default();
                access.finds_more_than_prefix(Env { columns: outer, parameters, texts: &texts })
            }
            _ => Ok(false),
        }
    }
}

/// Takes the LIKE of `column` by whose pattern an access finds rows out of their condition.
fn split_like(
    condition: Option<&Scalar>,
    prefix: Option<&TextPrefix>,
    column: Option<Column>,
) -> (Option<Scalar>, Option<Scalar>) {
    let parts = match condition {
        None => &[],
        Some(Scalar { op: ScalarOp::And(parts), .. }) => parts.as_slice(),
        Some(condition) => std::slice::from_ref(condition),
    };
    let is_its = |part: &Scalar| match (&part.op, prefix, column) {
        (ScalarOp::Like { operands, escape, negated: false, ignore_case: false }, Some(prefix), Some(column)) => {
            operands[0].op == ScalarOp::Column(column) && operands[1] == prefix.pattern && *escape == prefix.escape
        }
        _ => false,
    };
    let (like, others): (Vec<Scalar>, Vec<Scalar>) = parts.iter().cloned().partition(is_its);
    (Scalar::all_of(like), Scalar::all_of(others))
}

#[cold]
fn more_than_one_row() -> Error {
    let message = "a subquery that stands for a value returned more than one row";
    Error::new(ErrorKind::CardinalityViolation, message)
        .hint("make it one row with an aggregate, a narrower condition, or ORDER BY ... LIMIT 1")
}

/// The rows of a read and of those around it, with the columns that are asked for.
fn layout(read: &program::Read, catalog: &Catalog, outer: &Layout) -> Result<Layout> {
    let mut layout = outer.clone();
    for lookup in &read.lookups {
        let mut kinds = match &lookup.source {
            LookupSource::Table(access) => column_kinds(catalog, access.table)?,
            source => columns_in_memory(source)?,
        };
        if lookup.kind == LookupKind::Mark {
            kinds.push(SqlType::Boolean);
        }
        layout.add_row(kinds);
    }
    let rows = layout.len();
    each_scalar(read, outer.len(), &mut |scalar, at| layout.want_within(scalar, at.min(rows)))?;
    Ok(layout)
}

/// The types of the columns of a source that is no table.
fn columns_in_memory(source: &LookupSource) -> Result<Vec<SqlType>> {
    source.columns().ok_or_else(|| Error::internal("a program that puts together rows of different types"))
}

/// How many columns the source of a lookup has.
fn source_columns(lookup: &program::NestedLookup, catalog: &Catalog) -> Result<usize> {
    Ok(match &lookup.source {
        LookupSource::Table(access) => column_kinds(catalog, access.table)?.len(),
        source => columns_in_memory(source)?.len(),
    })
}

/// Calls `each` with every scalar of a read, whose lookups are numbered from `first`, and of the reads within it; and with
/// how many rows are known beside that scalar that are not those of a read within.
fn each_scalar(read: &program::Read, first: usize, each: &mut dyn FnMut(&Scalar, usize) -> Result<()>) -> Result<()> {
    for (at, lookup) in read.lookups.iter().enumerate() {
        match &lookup.source {
            LookupSource::Table(access) => access.scalars().try_for_each(|scalar| each(scalar, usize::MAX))?,
            source => {
                let row = first + at;
                for nested in source.reads() {
                    each_scalar(nested, row, &mut |scalar, known| each(scalar, known.min(row)))?;
                }
            }
        }
        lookup.condition.iter().chain(&lookup.compared).try_for_each(|scalar| each(scalar, usize::MAX))?;
    }
    read.filter.iter().chain(Output::scalars(&read.output)).try_for_each(|scalar| each(scalar, usize::MAX))
}

/// Whether a read whose lookups are numbered from `first` names columns of those before.
fn names_rows_before(read: &program::Read, first: usize) -> bool {
    let mut names = false;
    let each = &mut |scalar: &Scalar, _| {
        scalar.each_column(&mut |column| names |= column.row < first);
        Ok(())
    };
    each_scalar(read, first, each).is_ok() && names
}
