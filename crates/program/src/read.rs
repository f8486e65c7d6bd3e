//! Reads: nested loops over lookups. The first lookup gives rows, and each of them is joined with the rows of the next
//! lookup.
//!
//! A row of the loops is a flat list of values: for each lookup so far, the columns that the statement needs, one
//! lookup after another. Each value is borrowed from the place where the lookup's row is stored, so it must not outlive
//! that row. The innermost loop hands the list to the [`Sink`]. A lookup whose source is another read runs that read
//! first and keeps its rows. It does this once per run, unless the nested read refers to columns of the lookups before
//! it: then it must run again for rows of those lookups with new values in these columns.

mod outer_columns;
mod pending;
mod remembered;

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;

use rowmill_base::{Cancel, Error, ErrorKind, Result, SqlType, recycled};
use rowmill_plan::program::{self, LookupKind, LookupSource, ReadOutput, RowColumn, Scalar, ScalarOp, TextPrefix};
use rowmill_storage::keyed::{ByteRows, ValueRef};
use rowmill_txn::Catalog;
use rowmill_txn::keyed::{KeyedReader, TableCodec};

use self::outer_columns::OuterColumns;
use self::pending::PendingRows;
use self::remembered::RememberedRows;
use crate::access::{
    AccessScratch, CompiledAccess, FoundColumns, FoundEntry, RowTaker, RunRows, Unread, WantedColumns,
};
use crate::compiled::column_kinds;
use crate::expr::{Env, Expr, ExprCompiler, RowsLayout, unsupported};
use crate::nested_index::{Candidates, EqualColumn, NestedIndex};
use crate::output::{CompiledOutput, OutputScratch, Sink};
use crate::pace::{Pace, bounded, given_up};
use crate::result_rows::ResultRows;
use crate::run_condition::{PreparedCondition, RunCondition};
use crate::texts::ComputedTexts;
use crate::windows::{WindowScratch, Windows};

/// Rounds of a recursion at most. If a recursion needs more, the statement should run in the general engine.
pub const ROUNDS_MAX: u64 = 1_000;

/// A read that is ready to run.
#[derive(Debug)]
pub(crate) struct CompiledRead {
    lookups: Box<[Lookup]>,
    output: CompiledOutput,
    /// The types of the columns of its result.
    kinds: Arc<[SqlType]>,
    pub(crate) for_update: bool,
    rows_max: u64,
    few: Option<Box<CompiledFewRows>>,
}

/// A read that runs in place of another one if few rows match.
#[derive(Debug)]
struct CompiledFewRows {
    plan: program::FewRows,
    counted: Box<[CompiledAccess]>,
    needed: Expr,
    texts: usize,
    read: CompiledRead,
}

/// One level of the nested loops: a source of rows, and how they are joined with the rows of the levels before.
#[derive(Debug)]
struct Lookup {
    kind: LookupKind,
    source: CompiledSource,
    condition: Option<Expr>,
    /// The LIKE whose pattern gives the access its range of keys. It is one part of the condition, kept apart because
    /// the range alone already proves it when the pattern is only a prefix. For example, `a LIKE 'x%'` needs no check
    /// per row.
    like: Option<Expr>,
    /// The condition and the LIKE, for many rows at once, where the evaluator of batches has them.
    run_condition: Option<RunCondition>,
    run_like: Option<RunCondition>,
    compared: Option<Expr>,
    texts: usize,
    /// Number of columns of the source that the statement needs.
    columns: usize,
    /// If the next lookup finds one row by a primary key for each row of this one: the types of the values of a row, so
    /// that rows can wait for each other.
    pending: Option<Arc<[SqlType]>>,
    /// Whether the statement needs a further value after those columns: the mark of a mark join, or the number of rows
    /// of an access with distinct keys.
    has_more: bool,
}

#[derive(Debug)]
enum CompiledSource {
    Table(CompiledAccess),
    Reads(NestedReads),
}

/// The rows of a lookup that are held in memory and not read from a table.
#[derive(Debug)]
struct NestedReads {
    of: NestedSource,
    /// The columns that the statement needs, by their places in the nested rows.
    wanted: Box<[usize]>,
    /// The columns of the lookups before that the nested reads refer to.
    outer: OuterColumns,
    /// The equality by which rows are found, for reads that run once.
    equal: Option<EqualColumn>,
}

/// Where the rows of a lookup in memory come from.
#[derive(Debug)]
enum NestedSource {
    Reads(Box<[CompiledRead]>),
    Windows(Box<(CompiledRead, Windows)>),
    Recursion(Box<CompiledRecursion>),
    /// The rows of the previous round of a recursion. The number says which recursion: 0 is the innermost one around
    /// this read, 1 the next one outwards.
    LastRound(usize),
}

/// `WITH RECURSIVE`
#[derive(Debug)]
struct CompiledRecursion {
    base: Box<[CompiledRead]>,
    step: CompiledRead,
    distinct: bool,
}

/// The rows of the previous round of each recursion around a read, innermost first, as a linked list on the stack.
#[derive(Clone, Copy, Debug)]
struct LastRounds<'r> {
    rows: &'r ResultRows,
    outer: Option<&'r LastRounds<'r>>,
}

/// Memory that a read needs, kept from one run to the next so that a run allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct ReadScratch {
    levels: Vec<LoopLevel>,
    output: OutputScratch,
    /// Keys of the rows that the read gave `FOR UPDATE`. The caller must validate them at commit.
    pub(crate) keys: ByteRows,
    rows: ByteRows,
}

/// Memory that one level of the loops needs.
#[derive(Debug, Default)]
struct LoopLevel {
    access: AccessScratch,
    columns: Vec<ValueRef<'static>>,
    texts: ComputedTexts,
    compared_texts: ComputedTexts,
    pending: PendingRows,
    nested: Option<Box<NestedRows>>,
}

/// The rows of the nested reads of one level.
#[derive(Debug, Default)]
struct NestedRows {
    scratch: Vec<ReadScratch>,
    windows: WindowScratch,
    rows: ResultRows,
    index: NestedIndex,
    /// The values of the last outer row, in the columns that the nested reads refer to.
    outer: ResultRows,
    remembered: RememberedRows,
    /// The place among the remembered rows of those for the last outer row. `None` if they are in `rows`.
    place: Option<Range<usize>>,
    /// Whether the nested reads already ran in this run of the outer read.
    are_there: bool,
}

/// Collects keys and rows of one table: one pair for each row that the run gives.
struct Captured<'r> {
    /// The lookup whose rows are collected, by its number.
    lookup: usize,
    /// The row at which the loop of that lookup is now.
    key: Vec<u8>,
    row: Vec<u8>,
    /// The rows that were given so far.
    keys: &'r mut ByteRows,
    rows: &'r mut ByteRows,
}

/// The state that all loops of one run share.
struct ReadRun<'r> {
    reader: &'r KeyedReader<'r>,
    parameters: &'r [ValueRef<'r>],
    sink: Sink<'r>,
    captured: Option<Captured<'r>>,
    lookups: usize,
    /// How many rows the run may still visit before it gives up.
    rows_left: u64,
    cancel: &'r Cancel,
    pace: Pace<'r>,
    last_rounds: Option<&'r LastRounds<'r>>,
}

impl CompiledRead {
    pub(crate) fn new(read: &program::ReadPlan, catalog: &Catalog, parameters: &[SqlType]) -> Result<CompiledRead> {
        // FOR UPDATE reports keys to the transaction, so its lookup must fetch whole rows.
        let whole = read.for_update.then_some(0);
        if read.for_update
            && !matches!(&read.lookups[..], [program::NestedLookup { source: LookupSource::Table(_), .. }])
        {
            return Err(unsupported("FOR UPDATE on anything but a single table"));
        }
        CompiledRead::within(read, catalog, parameters, &RowsLayout::default(), whole)
    }

    /// Compiles a read whose lookup `whole` must read whole rows of a table, because [`gather`](Self::gather) collects
    /// them.
    pub(crate) fn of_target(
        read: &program::ReadPlan,
        catalog: &Catalog,
        parameters: &[SqlType],
        whole: usize,
    ) -> Result<CompiledRead> {
        match read.lookups.get(whole) {
            Some(program::NestedLookup { kind: LookupKind::Inner, source: LookupSource::Table(_), .. }) => {
                CompiledRead::within(read, catalog, parameters, &RowsLayout::default(), Some(whole))
            }
            _ => Err(Error::internal("the program changes rows of a source that is not a table")),
        }
    }

    /// Compiles a read that is nested in others. `outer` is the layout of the rows around it.
    fn within(
        read: &program::ReadPlan,
        catalog: &Catalog,
        parameters: &[SqlType],
        outer: &RowsLayout,
        whole: Option<usize>,
    ) -> Result<CompiledRead> {
        let layout = layout(read, catalog, outer)?;
        let mut lookups = Vec::with_capacity(read.lookups.len());
        for (at, lookup) in read.lookups.iter().enumerate() {
            let row = outer.len() + at;
            let of_source = source_columns(lookup, catalog)?;
            let wanted = layout.wanted(row);
            // The mark or the number of rows is the column after those of the source. Everything before it is read from
            // the row.
            let columns = wanted.iter().take_while(|column| **column < of_source).count();
            let has_more = columns < wanted.len();
            let wanted = &wanted[..columns];
            let source = match &lookup.source {
                LookupSource::Table(access) => {
                    let whole = whole == Some(at);
                    let mut tested = Vec::new();
                    let mut note = |column: RowColumn| {
                        if column.row == row {
                            tested.push(column.column);
                        }
                    };
                    lookup.condition.iter().for_each(|condition| condition.each_column(&mut note));
                    let wanted = WantedColumns { all: wanted, tested: &tested };
                    let access = CompiledAccess::new(access, catalog, parameters, &layout, row, wanted, whole)?;
                    CompiledSource::Table(access)
                }
                nested => {
                    // Rows in memory should have no column that the statement does not need.
                    let narrow = match nested {
                        LookupSource::Reads(reads) => {
                            let reads = reads.iter().map(|read| with_columns(read, wanted));
                            reads.collect::<Option<_>>().map(LookupSource::Reads)
                        }
                        _ => None,
                    };
                    let before = layout.first_rows(row);
                    let within =
                        |read: &program::ReadPlan| CompiledRead::within(read, catalog, parameters, &before, None);
                    let all =
                        |reads: &[program::ReadPlan]| reads.iter().map(within).collect::<Result<Box<[CompiledRead]>>>();
                    let source = narrow.as_ref().unwrap_or(nested);
                    let of = match source {
                        LookupSource::Windows(of) => {
                            NestedSource::Windows(Box::new((within(&of.read)?, Windows::new(of, parameters)?)))
                        }
                        LookupSource::Recursion(of) => NestedSource::Recursion(Box::new(CompiledRecursion {
                            base: all(&of.base)?,
                            step: within(&of.step)?,
                            distinct: of.distinct,
                        })),
                        LookupSource::LastRound(outwards, _) => NestedSource::LastRound(*outwards),
                        LookupSource::Reads(reads) => NestedSource::Reads(all(reads)?),
                        LookupSource::Table(_) => unreachable!("a table source was handled above"),
                    };
                    let outer = OuterColumns::new(&columns_before(source, row)?, &layout)?;
                    let equal = match (outer.is_empty(), &lookup.compared, &lookup.condition) {
                        (false, ..) => None,
                        (true, compared @ Some(_), None) => Some((compared, true)),
                        (true, _, condition) => Some((condition, false)),
                    };
                    let compiler = || ExprCompiler::new(parameters, &layout, row);
                    let equal = equal.map(|(of, meets_null)| EqualColumn::of(of.as_ref(), row, meets_null, compiler()));
                    let mut equal = equal.transpose()?.flatten();
                    let mut given: Box<[usize]> = wanted.into();
                    if narrow.is_some() {
                        given = (0..wanted.len()).collect();
                        if let Some(equal) = &mut equal {
                            equal.column = wanted.partition_point(|column| *column < equal.column);
                        }
                    }
                    CompiledSource::Reads(NestedReads { of, wanted: given, outer, equal })
                }
            };
            let mut compiler = ExprCompiler::new(parameters, &layout, row + 1);
            let mut condition = |scalar: &Option<Scalar>| {
                let scalar = scalar.as_ref();
                scalar.map(|condition| compiler.condition(condition)).transpose()
            };
            // Keep the LIKE apart: the range of the access may already imply it.
            let (like, others) = match (&lookup.source, &source) {
                (LookupSource::Table(of), CompiledSource::Table(access)) => {
                    let column = access.prefix_column().map(|column| RowColumn { row, column });
                    split_like(lookup.condition.as_ref(), of.prefix.as_ref(), column)
                }
                _ => (None, lookup.condition.clone()),
            };
            let (like_scalar, kind) = (like, lookup.kind);
            let (like, compared) = (condition(&like_scalar)?, condition(&lookup.compared)?);
            let condition = condition(&others)?;
            let mut given = ExprCompiler::new(parameters, &layout, row);
            let mut of_run = |scalar: Option<Scalar>| RunCondition::new(&scalar?, row, &mut given);
            let (run_condition, run_like) = match &source {
                CompiledSource::Table(access) if !access.is_one_row() => (of_run(others), of_run(like_scalar)),
                _ => (None, None),
            };
            let texts = compiler.texts();
            lookups.push(Lookup {
                kind,
                source,
                condition,
                like,
                run_condition,
                run_like,
                compared,
                texts,
                columns,
                pending: None,
                has_more,
            });
        }
        for at in 1..lookups.len() {
            if lookups[at].finds_one_by_key() && lookups[at - 1].gives_several() {
                lookups[at - 1].pending = Some(layout.first_rows(outer.len() + at).wanted_kinds());
            }
        }
        let compiler = ExprCompiler::new(parameters, &layout, layout.len());
        let output = CompiledOutput::new(&read.output, &read.filter, compiler)?;
        let rows_max = read.rows_max.unwrap_or(u64::MAX);
        let kinds = read.output().into();
        let few =
            read.few.as_ref().map(|few| CompiledFewRows::new(few, catalog, parameters, outer, whole)).transpose()?;
        let few = few.map(Box::new);
        Ok(CompiledRead { lookups: lookups.into(), output, kinds, for_update: read.for_update, rows_max, few })
    }

    /// The types of the columns of its result.
    pub(crate) fn kinds(&self) -> &Arc<[SqlType]> {
        &self.kinds
    }

    /// The codec of the table that a lookup reads, or `None` if its source is not a table.
    pub(crate) fn codec(&self, lookup: usize) -> Option<&Arc<TableCodec>> {
        match &self.lookups.get(lookup)?.source {
            CompiledSource::Table(access) => Some(access.codec()),
            CompiledSource::Reads(_) => None,
        }
    }

    /// Runs the read and appends its rows to `out`, which the caller must have started with the types of this read.
    pub(crate) fn run(
        &self,
        reader: &KeyedReader<'_>,
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

    /// Runs the read, and also collects the rows of the table that lookup `of` reads: `keys` and `rows` get one entry
    /// for each row that goes to `out`.
    #[expect(clippy::too_many_arguments, reason = "what a run takes, and where its rows go")]
    pub(crate) fn gather(
        &self,
        of: usize,
        [keys, rows]: [&mut ByteRows; 2],
        reader: &KeyedReader<'_>,
        parameters: &[ValueRef<'_>],
        scratch: &mut ReadScratch,
        cancel: &Cancel,
        out: &mut ResultRows,
    ) -> Result<()> {
        let captured = Captured::new(of, keys, rows);
        let scratch = (&mut scratch.levels, &mut scratch.output);
        self.run_over(&[], Some(captured), None, reader, parameters, scratch, cancel, out)
    }

    /// Runs the read inside the loops of other reads. `outer` holds the values of the rows at which those loops are.
    #[expect(clippy::too_many_arguments, reason = "what a run takes, and where its rows go")]
    fn run_over<'r>(
        &'r self,
        outer: &[ValueRef<'_>],
        captured: Option<Captured<'r>>,
        last_rounds: Option<&'r LastRounds<'r>>,
        reader: &'r KeyedReader<'r>,
        parameters: &'r [ValueRef<'r>],
        (levels, output): (&mut Vec<LoopLevel>, &'r mut OutputScratch),
        cancel: &'r Cancel,
        out: &'r mut ResultRows,
    ) -> Result<()> {
        if levels.len() < self.lookups.len() {
            levels.resize_with(self.lookups.len(), LoopLevel::default);
        }
        if let Some(few) = &self.few
            && few.are_few(outer, reader, parameters, &mut levels[0].access, cancel, self.rows_max)?
        {
            return few.read.run_over(outer, captured, last_rounds, reader, parameters, (levels, output), cancel, out);
        }
        for nested in levels.iter_mut().filter_map(|level| level.nested.as_mut()) {
            // Rows of nested reads are valid for one run only, because a snapshot and parameters are.
            nested.are_there = false;
            nested.remembered.clear();
        }
        let sink = Sink::new(&self.output, parameters, output, out)?;
        let (lookups, rows_left) = (self.lookups.len(), self.rows_max);
        let pace = Pace::new(cancel);
        let mut run = ReadRun { reader, parameters, sink, captured, lookups, rows_left, cancel, pace, last_rounds };
        if run.sink.wants_rows() {
            run.loop_over(&self.lookups, levels, outer)?;
        }
        run.sink.finish(parameters)
    }
}

impl CompiledFewRows {
    fn new(
        few: &program::FewRows,
        catalog: &Catalog,
        parameters: &[SqlType],
        outer: &RowsLayout,
        whole: Option<usize>,
    ) -> Result<CompiledFewRows> {
        let nothing = || WantedColumns { all: &[], tested: &[] };
        let counted = few
            .counted
            .iter()
            .map(|counted| CompiledAccess::new(counted, catalog, parameters, outer, outer.len(), nothing(), false));
        let counted = counted.collect::<Result<_>>()?;
        let mut compiler = ExprCompiler::new(parameters, outer, 0);
        let needed = compiler.expr(&few.needed)?;
        let texts = compiler.texts();
        let read = CompiledRead::within(&few.read, catalog, parameters, outer, whole)?;
        Ok(CompiledFewRows { plan: few.clone(), counted, needed, texts, read })
    }

    /// Counts the matching rows, up to a number that is too large. `searched_max` is the number of rows that the other
    /// read may visit.
    fn are_few(
        &self,
        outer: &[ValueRef<'_>],
        reader: &KeyedReader<'_>,
        parameters: &[ValueRef<'_>],
        scratch: &mut AccessScratch,
        cancel: &Cancel,
        searched_max: u64,
    ) -> Result<bool> {
        let mut texts = ComputedTexts::default();
        texts.clear(self.texts);
        let needed = match self.needed.value(Env { columns: &[], parameters, texts: &texts })? {
            ValueRef::Int(needed) => u64::try_from(needed).unwrap_or(0),
            _ => u64::MAX,
        };
        let few = usize::try_from(self.plan.rows_max(needed, searched_max)).unwrap_or(usize::MAX);
        let mut more = Unread::more_than(few, cancel);
        let env = Env { columns: outer, parameters, texts: &texts };
        for counted in &self.counted {
            counted.run(env, reader, scratch, 1, &mut more, &mut |_: FoundEntry<'_>| Ok(false))?;
        }
        Ok(more.rows > 0)
    }
}

impl<'r> Captured<'r> {
    fn new(lookup: usize, keys: &'r mut ByteRows, rows: &'r mut ByteRows) -> Captured<'r> {
        keys.clear();
        rows.clear();
        Captured { lookup, key: Vec::new(), row: Vec::new(), keys, rows }
    }
}

/// A row of a lookup: its values, and, if its source is a table, its key. `row` is empty unless whole rows are read.
struct Match<'m> {
    values: &'m [ValueRef<'m>],
    key: &'m [u8],
    row: &'m [u8],
}

impl ReadRun<'_> {
    /// Runs the loops of `lookups` for the row `outer` of the loops around them. Returns whether the sink wants more
    /// rows.
    fn loop_over(&mut self, lookups: &[Lookup], levels: &mut [LoopLevel], outer: &[ValueRef<'_>]) -> Result<bool> {
        let Some((lookup, lookups)) = lookups.split_first() else { return self.give(outer) };
        let (level, levels) = levels.split_first_mut().expect("there is a level for each lookup");
        match lookup.kind {
            LookupKind::Inner | LookupKind::Left | LookupKind::Single => {
                // The slice shrinks by one per level, so the difference is the number of this lookup.
                let number = self.lookups - lookups.len() - 1;
                let mut matches = 0;
                // In the innermost loop, rows that pass unconditionally need not be read if the sink only counts or
                // skips them.
                let is_unread = lookups.is_empty() && self.captured.is_none() && lookup.gives_every_row();
                let unread = match is_unread && !lookup.asks_like(outer, self.parameters)? {
                    true => self.sink.begin_unread(),
                    false => 0,
                };
                let waits = lookup.pending.as_ref().filter(|_| self.captured.is_none());
                let mut pending = std::mem::take(&mut level.pending);
                if let Some(kinds) = waits {
                    pending.start(kinds, self.sink.rows_wanted());
                }
                let goes_on = self.each_match(lookup, level, outer, unread, |run, found| {
                    matches += 1;
                    // A scalar subquery may give at most one row.
                    if matches > 1 && lookup.kind == LookupKind::Single {
                        return Err(more_than_one_row());
                    }
                    if let Some(captured) = run.captured.as_mut().filter(|captured| captured.lookup == number) {
                        // Copy the key and row: the scan reuses its buffers before the innermost loop may need them.
                        captured.key.clear();
                        captured.key.extend_from_slice(found.key);
                        captured.row.clear();
                        captured.row.extend_from_slice(found.row);
                    }
                    match waits {
                        None => run.loop_over(lookups, levels, found.values),
                        Some(_) if pending.push(found.values) => run.go_on(&mut pending, lookups, levels),
                        Some(_) => Ok(true),
                    }
                })?;
                let goes_on = match goes_on && waits.is_some() && !pending.is_empty() {
                    true => self.go_on(&mut pending, lookups, levels)?,
                    false => goes_on,
                };
                level.pending = pending;
                // An outer join still gives a row, with NULL in the columns of this lookup.
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
                let mark = lookup.has_more.then(|| is_match.map_or(ValueRef::Null, ValueRef::Bool));
                self.without_values(lookup, level, outer, mark, |run, row| run.loop_over(lookups, levels, row))
            }
        }
    }

    /// Tests whether a row of a lookup matches `outer`, with the three values of SQL's logic: `None` (unknown) if no
    /// comparison was true but one was NULL.
    fn probe(&mut self, lookup: &Lookup, level: &mut LoopLevel, outer: &[ValueRef<'_>]) -> Result<Option<bool>> {
        let mut is_match = Some(false);
        let parameters = self.parameters;
        // Any row that the access finds is a match, so no row needs to be read.
        if let (CompiledSource::Table(access), None, None) = (&lookup.source, &lookup.condition, &lookup.compared)
            && !access.is_distinct()
            && !lookup.asks_like(outer, parameters)?
        {
            let env = Env { columns: outer, parameters, texts: &ComputedTexts::default() };
            let mut any = Unread::any(self.cancel);
            access.run(env, self.reader, &mut level.access, 1, &mut any, &mut |_: FoundEntry<'_>| Ok(false))?;
            if any.rows == 0 {
                self.come_upon_row()?;
            }
            return Ok(Some(any.rows == 0));
        }
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
                // The row may match. We go on, because a later row may match for certain.
                ValueRef::Null => is_match = None,
                _ => {}
            }
            Ok(is_match != Some(true))
        })?;
        level.compared_texts = texts;
        Ok(is_match)
    }

    /// Continues with the next loop, with NULL in all columns of this lookup, and with the mark if the statement needs
    /// it.
    fn without_values(
        &mut self,
        lookup: &Lookup,
        level: &mut LoopLevel,
        outer: &[ValueRef<'_>],
        mark: Option<ValueRef<'static>>,
        go_on: impl FnOnce(&mut Self, &[ValueRef<'_>]) -> Result<bool>,
    ) -> Result<bool> {
        let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(&mut level.columns));
        values.extend_from_slice(outer);
        let columns = lookup.columns + usize::from(lookup.has_more && mark.is_none());
        values.resize(outer.len() + columns, ValueRef::Null);
        values.extend(mark);
        let goes_on = go_on(self, &values)?;
        level.columns = recycled(values);
        Ok(goes_on)
    }

    /// Calls `each` with every matching row until it returns `false`. Returns whether it never did. The first `unread`
    /// rows of a table are skipped without being read, and the sink is told how many there were.
    fn each_match(
        &mut self,
        lookup: &Lookup,
        level: &mut LoopLevel,
        outer: &[ValueRef<'_>],
        unread: usize,
        mut each: impl FnMut(&mut Self, Match<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let LoopLevel { access: scratch, columns, texts, nested, .. } = level;
        let (reader, parameters) = (self.reader, self.parameters);
        match &lookup.source {
            CompiledSource::Table(access) => {
                let first = match lookup.kind {
                    LookupKind::Semi | LookupKind::Anti | LookupKind::Mark => match lookup.condition {
                        Some(_) => CONDITIONED_FIRST,
                        None => 1,
                    },
                    LookupKind::Single => 2,
                    // No lookup needs more rows than the result.
                    _ => self.sink.rows_wanted(),
                };
                let env = Env { columns: outer, parameters, texts: &ComputedTexts::default() };
                let asks_like = lookup.asks_like(outer, parameters)?;
                let mut left = Unread::new(unread, self.cancel);
                let of_run = RunTests::Unknown;
                let mut taker = MatchTaker { run: self, lookup, outer, asks_like, columns, texts, of_run, each };
                let goes_on = access.run(env, reader, scratch, first, &mut left, &mut taker)?;
                if unread > 0 {
                    self.sink.pass(unread - left.rows, left.rows);
                }
                Ok(goes_on)
            }
            CompiledSource::Reads(nested_reads) => {
                let nested = nested.get_or_insert_default();
                let NestedRows { scratch, windows, rows, index, outer: last, remembered, place, are_there } =
                    &mut **nested;
                let of_outer = &nested_reads.outer;
                // A program has no expression whose value changes from call to call, so equal values give equal rows. A
                // source that refers to no outer column keeps its rows for the rest of the run.
                if !std::mem::replace(are_there, true) || !of_outer.are_those_of(last, 0, outer) {
                    *place = remembered.find(of_outer, outer);
                    if place.is_none() {
                        // Each row of the only lookup is a row of the result, so a page needs no more of them.
                        let is_plain = matches!(&nested_reads.of, NestedSource::Reads(_)) && lookup.condition.is_none();
                        let gives_each = self.lookups == 1 && is_plain;
                        let is_test = matches!(lookup.kind, LookupKind::Semi | LookupKind::Anti | LookupKind::Mark);
                        let enough = match lookup.kind {
                            LookupKind::Inner if gives_each => self.sink.rows_at_most(),
                            // Any row is a match.
                            _ if is_test && is_plain && lookup.compared.is_none() => 1,
                            _ => usize::MAX,
                        };
                        let (cancel, rounds) = (self.cancel, self.last_rounds);
                        let within = Within { outer, reader, parameters, cancel, rounds, enough };
                        nested_reads.run(within, (scratch, windows), rows)?;
                        remembered.note_run(of_outer, outer, rows);
                        index.clear();
                    }
                    of_outer.start(last);
                    of_outer.append(outer, last);
                }
                let (rows, candidates) = match (&nested_reads.equal, &*place) {
                    (_, Some(place)) => (remembered.rows(), Candidates::All(place.clone())),
                    (None, None) => (&*rows, Candidates::All(0..rows.len())),
                    (Some(equal), None) => {
                        let texts = &ComputedTexts::default();
                        (&*rows, index.find(equal, rows, Env { columns: outer, parameters, texts })?)
                    }
                };
                let mut at = 0;
                while let Some(row) = index.row(&candidates, at) {
                    at += 1;
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
        self.come_upon_rows(1)
    }

    fn come_upon_rows(&mut self, rows: u32) -> Result<()> {
        match self.rows_left.checked_sub(u64::from(rows)) {
            Some(left) => self.rows_left = left,
            None => return Err(given_up("a statement that reads a table that has grown")),
        }
        self.pace.steps(rows)
    }

    /// Hands the row of all lookups to the sink if it passes the filter. Returns whether the sink wants more rows.
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

/// Takes the rows that the access of a lookup finds: tests its condition, and calls `each` with the matching ones.
struct MatchTaker<'t, 'r, E> {
    run: &'t mut ReadRun<'r>,
    lookup: &'t Lookup,
    outer: &'t [ValueRef<'t>],
    asks_like: bool,
    columns: &'t mut Vec<ValueRef<'static>>,
    texts: &'t mut ComputedTexts,
    of_run: RunTests,
    each: E,
}

/// The conditions of a lookup for many rows at once.
enum RunTests {
    /// No run of rows was tested yet.
    Unknown,
    /// Each row must be tested by itself.
    Unusable,
    /// A row matches if it meets all of them. There is at least one.
    Prepared(Vec<PreparedCondition>),
}

/// With fewer rows, a test of each row is faster than the evaluator of batches.
const RUN_ROWS_MIN: usize = 64;

impl<E> MatchTaker<'_, '_, E> {
    /// Prepares the conditions for many rows.
    fn prepare_run(&self) -> Result<RunTests> {
        let (lookup, parameters) = (self.lookup, self.run.parameters);
        let mut texts = ComputedTexts::default();
        texts.clear(lookup.texts);
        let env = Env { columns: self.outer, parameters, texts: &texts };
        let asked = [(&lookup.condition, &lookup.run_condition), (&lookup.like, &lookup.run_like)];
        let mut prepared = Vec::new();
        for (condition, of_run) in &asked[..1 + usize::from(self.asks_like)] {
            match (condition, of_run) {
                (None, _) => {}
                (Some(_), Some(of_run)) => match of_run.prepare(env)? {
                    Some(of_run) => prepared.push(of_run),
                    None => return Ok(RunTests::Unusable),
                },
                (Some(_), None) => return Ok(RunTests::Unusable),
            }
        }
        Ok(if prepared.is_empty() { RunTests::Unusable } else { RunTests::Prepared(prepared) })
    }

    #[inline]
    fn is_match(&mut self, values: &[ValueRef<'_>]) -> Result<bool> {
        let (lookup, parameters) = (self.lookup, self.run.parameters);
        Ok(lookup.matches(values, parameters, self.texts)?
            && (!self.asks_like || lookup.is_like(values, parameters, self.texts)?))
    }
}

impl<'r, E: FnMut(&mut ReadRun<'r>, Match<'_>) -> Result<bool>> RowTaker for MatchTaker<'_, 'r, E> {
    fn has_test(&self) -> bool {
        self.lookup.condition.is_some() || self.asks_like
    }

    fn test(&mut self, columns: FoundColumns<'_>) -> Result<bool> {
        self.run.come_upon_row()?;
        let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(self.columns));
        values.extend_from_slice(self.outer);
        values.resize(self.outer.len() + self.lookup.columns, ValueRef::Null);
        columns.read_tested(&mut values[self.outer.len()..])?;
        let is_match = self.is_match(&values)?;
        *self.columns = recycled(values);
        Ok(is_match)
    }

    fn test_run(&mut self, access: &CompiledAccess, rows: RunRows<'_>, wanted: &mut Vec<u32>) -> Result<bool> {
        if rows.len() < RUN_ROWS_MIN {
            return Ok(false);
        }
        if matches!(self.of_run, RunTests::Unknown) {
            self.of_run = self.prepare_run()?;
        }
        let RunTests::Prepared(conditions) = &self.of_run else { return Ok(false) };
        self.run.come_upon_rows(rows.len() as u32)?;
        let matching = conditions.iter().map(|condition| condition.selected(access, rows));
        let matching = matching.reduce(|all, one| Ok(&all? & &one?)).transpose()?;
        wanted.extend(matching.iter().flat_map(|matching| matching.set_indices()).map(|at| at as u32));
        Ok(true)
    }

    fn take(&mut self, found: FoundEntry<'_>, is_tested: bool) -> Result<bool> {
        let FoundEntry { key, row, columns, rows } = found;
        let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(self.columns));
        values.extend_from_slice(self.outer);
        values.resize(self.outer.len() + self.lookup.columns, ValueRef::Null);
        if self.lookup.has_more && self.lookup.kind != LookupKind::Mark {
            values.push(ValueRef::Int(i64::try_from(rows).unwrap_or(i64::MAX)));
        }
        if !is_tested {
            self.run.come_upon_row()?;
        }
        let is_match = if is_tested || !self.has_test() || columns.are_of_entry() {
            columns.read_all(&mut values[self.outer.len()..])?;
            is_tested || self.is_match(&values)?
        } else {
            let others = columns.read_tested(&mut values[self.outer.len()..])?;
            let is_match = self.is_match(&values)?;
            if is_match {
                others.read_others(&mut values[self.outer.len()..])?;
            }
            is_match
        };
        let goes_on = !is_match || (self.each)(self.run, Match { values: &values, key, row })?;
        *self.columns = recycled(values);
        Ok(goes_on)
    }
}

/// Rows that we fetch first where one row that meets a condition is enough. The first row may fail the condition.
pub(crate) const CONDITIONED_FIRST: usize = 4;

/// Everything that nested reads need to run inside the loops of others.
#[derive(Clone, Copy)]
struct Within<'r> {
    /// The values of the rows at which the loops are.
    outer: &'r [ValueRef<'r>],
    reader: &'r KeyedReader<'r>,
    parameters: &'r [ValueRef<'r>],
    cancel: &'r Cancel,
    rounds: Option<&'r LastRounds<'r>>,
    /// After this number of rows, further reads need not run.
    enough: usize,
}

impl Within<'_> {
    /// Runs a read and appends its rows to `rows`.
    fn add(self, read: &CompiledRead, scratch: &mut ReadScratch, rows: &mut ResultRows) -> Result<()> {
        let Within { outer, reader, parameters, cancel, rounds, .. } = self;
        let scratch = (&mut scratch.levels, &mut scratch.output);
        read.run_over(outer, None, rounds, reader, parameters, scratch, cancel, rows)
    }

    /// Starts `rows` with the types of the first read, then appends the rows of the reads to it until there are enough.
    fn add_all(self, reads: &[CompiledRead], scratch: &mut Vec<ReadScratch>, rows: &mut ResultRows) -> Result<()> {
        scratch.resize_with(scratch.len().max(reads.len()), ReadScratch::default);
        if let Some(first) = reads.first() {
            rows.start(first.kinds());
        }
        for (read, scratch) in reads.iter().zip(scratch) {
            if rows.len() >= self.enough {
                break;
            }
            self.add(read, scratch, rows)?;
        }
        Ok(())
    }
}

impl NestedReads {
    /// Fills `rows` with the rows of the source.
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
                let last = rounds.ok_or_else(|| Error::internal("the program reads the rounds of no recursion"))?;
                rows.start(last.rows.kinds());
                rows.append(last.rows);
                Ok(())
            }
        }
    }
}

impl CompiledRecursion {
    /// Fills `rows` with the rows of all rounds of the recursion. Each round runs the step over the rows of the round
    /// before, until a round gives no rows.
    fn run(&self, within: Within<'_>, scratch: &mut Vec<ReadScratch>, rows: &mut ResultRows) -> Result<()> {
        let mut met = HashSet::new();
        let (mut last, mut next) = (ResultRows::default(), ResultRows::default());
        let mut step_scratch = ReadScratch::default();
        within.add_all(&self.base, scratch, &mut next)?;
        rows.start(next.kinds());
        for _ in 0..ROUNDS_MAX {
            std::mem::swap(&mut last, &mut next);
            // UNION: keep only rows that no round before has given. They are the input of the next round.
            if self.distinct {
                next.start(last.kinds());
                next.append_new(&last, &mut met);
                std::mem::swap(&mut last, &mut next);
            }
            // The fixed point: a round without new rows can produce no more.
            if last.is_empty() {
                return Ok(());
            }
            rows.append(&last);
            // A recursion can grow without end, so its size and the cancel flag should be checked in every round.
            bounded(rows.bytes())?;
            within.cancel.check()?;
            let rounds = LastRounds { rows: &last, outer: within.rounds };
            next.start(self.step.kinds());
            Within { rounds: Some(&rounds), enough: usize::MAX, ..within }.add(
                &self.step,
                &mut step_scratch,
                &mut next,
            )?;
        }
        Err(given_up(format_args!("a recursion of more than {ROUNDS_MAX} rounds")))
    }
}

impl Lookup {
    /// Whether every row that its access finds in the table is a match.
    fn gives_every_row(&self) -> bool {
        self.kind == LookupKind::Inner
            && self.condition.is_none()
            && matches!(&self.source, CompiledSource::Table(access) if !access.is_distinct())
    }

    fn matches(&self, row: &[ValueRef<'_>], parameters: &[ValueRef<'_>], texts: &mut ComputedTexts) -> Result<bool> {
        self.is_true(self.condition.as_ref(), row, parameters, texts)
    }

    fn is_like(&self, row: &[ValueRef<'_>], parameters: &[ValueRef<'_>], texts: &mut ComputedTexts) -> Result<bool> {
        self.is_true(self.like.as_ref(), row, parameters, texts)
    }

    fn is_true(
        &self,
        condition: Option<&Expr>,
        row: &[ValueRef<'_>],
        parameters: &[ValueRef<'_>],
        texts: &mut ComputedTexts,
    ) -> Result<bool> {
        let Some(condition) = condition else { return Ok(true) };
        texts.clear(self.texts);
        condition.is_true(Env { columns: row, parameters, texts })
    }

    /// Whether each row that the access finds for `outer` must also be tested with the LIKE.
    fn asks_like(&self, outer: &[ValueRef<'_>], parameters: &[ValueRef<'_>]) -> Result<bool> {
        match (&self.like, &self.source) {
            (Some(_), CompiledSource::Table(access)) => {
                let texts = ComputedTexts::default();
                access.finds_more_than_prefix(Env { columns: outer, parameters, texts: &texts })
            }
            _ => Ok(false),
        }
    }
}

/// A read that gives only the columns `wanted` of `read`, so that the others are neither computed nor copied. Returns
/// `None` if it gives groups.
fn with_columns(read: &program::ReadPlan, wanted: &[usize]) -> Option<program::ReadPlan> {
    let ReadOutput::Rows(rows) = &read.output else { return None };
    let columns = wanted.iter().map(|column| rows.columns.get(*column).cloned()).collect::<Option<_>>()?;
    let few = match &read.few {
        None => None,
        Some(few) => {
            let read = with_columns(&few.read, wanted)?;
            Some(Box::new(program::FewRows { read, ..(**few).clone() }))
        }
    };
    let output = ReadOutput::Rows(program::RowOutput { columns, ..rows.clone() });
    Some(program::ReadPlan { output, few, ..read.clone() })
}

/// Splits the condition of an access into the LIKE of `column` whose pattern gives the range, and all other parts.
fn split_like(
    condition: Option<&Scalar>,
    prefix: Option<&TextPrefix>,
    column: Option<RowColumn>,
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

/// Builds the layout of the rows around a read and of its own lookups, with the columns that any of its scalars needs.
fn layout(read: &program::ReadPlan, catalog: &Catalog, outer: &RowsLayout) -> Result<RowsLayout> {
    let mut layout = outer.clone();
    for lookup in &read.lookups {
        let mut kinds = match &lookup.source {
            LookupSource::Table(access) => column_kinds(catalog, access.table)?,
            source => columns_in_memory(source)?,
        };
        match &lookup.source {
            _ if lookup.kind == LookupKind::Mark => kinds.push(SqlType::Boolean),
            LookupSource::Table(access) if access.distinct.is_some_and(|distinct| distinct.counts) => {
                kinds.push(SqlType::Int64);
            }
            _ => {}
        }
        layout.add_row(kinds);
    }
    let rows = layout.len();
    each_scalar(read, outer.len(), &mut |scalar, at| layout.want_within(scalar, at.min(rows)))?;
    Ok(layout)
}

/// The types of the columns of a source that is not a table.
fn columns_in_memory(source: &LookupSource) -> Result<Vec<SqlType>> {
    source.columns().ok_or_else(|| Error::internal("the program combines reads whose columns have different types"))
}

/// Number of columns that the source of a lookup has.
fn source_columns(lookup: &program::NestedLookup, catalog: &Catalog) -> Result<usize> {
    Ok(match &lookup.source {
        LookupSource::Table(access) => column_kinds(catalog, access.table)?.len(),
        source => columns_in_memory(source)?.len(),
    })
}

/// Calls `each` with every scalar of a read and of the reads nested in it. The lookups of the read are numbered from
/// `first`. The second argument of `each` says how many rows the scalar may refer to by numbers that have the same
/// meaning in the outermost read: rows with higher numbers belong to a nested read.
fn each_scalar(
    read: &program::ReadPlan,
    first: usize,
    each: &mut dyn FnMut(&Scalar, usize) -> Result<()>,
) -> Result<()> {
    if let Some(few) = &read.few {
        // The rows of the other read have the same numbers as those of this read.
        few.counted.iter().flat_map(program::Access::scalars).try_for_each(|scalar| each(scalar, first))?;
        each_scalar(&few.read, first, &mut |scalar, known| each(scalar, known.min(first)))?;
    }
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
    read.filter.iter().chain(CompiledOutput::scalars(&read.output)).try_for_each(|scalar| each(scalar, usize::MAX))
}

/// The columns of lookups before `first` to which the reads of a source refer, whose lookups are numbered from `first`.
fn columns_before(source: &LookupSource, first: usize) -> Result<BTreeSet<RowColumn>> {
    let mut columns = BTreeSet::new();
    for read in source.reads() {
        each_scalar(read, first, &mut |scalar, _| {
            scalar.each_column(&mut |column| {
                if column.row < first {
                    columns.insert(column);
                }
            });
            Ok(())
        })?;
    }
    Ok(columns)
}
