//! The result of a read: its rows as they come, its rows in another order, or groups.
//!
//! If the access does not give the order that the statement asks for, the rows are collected. With a LIMIT, the
//! collection is sorted and cut back to the limit each time it holds twice as many rows, so its size stays
//! bounded. If the access gives a part of the order, collecting ends at the first row after that part of the last
//! wanted row.

use std::cmp::Ordering;
use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result, SqlType, recycled};
use rowmill_plan::program::{self, Scalar};
use rowmill_storage::keyed::ValueRef;

use crate::expr::{Env, Expr, ExprCompiler, unsupported};
use crate::groups::{CompiledGroups, GroupsScratch};
use crate::late_columns::LateColumns;
use crate::pace::bounded;
use crate::result_rows::ResultRows;
use crate::texts::ComputedTexts;
use crate::way::Way;

/// Rows that are collected at least before they are sorted and cut.
const SORTED_MIN: usize = 32;

/// An output that is ready to be filled.
#[derive(Debug)]
pub(crate) struct CompiledOutput {
    filter: Option<Expr>,
    of: Of,
    texts: usize,
}

#[derive(Debug)]
enum Of {
    Rows(OrderedOutput),
    Groups(CompiledGroups),
}

/// The columns of the result, their order, and OFFSET and LIMIT.
#[derive(Debug)]
pub(crate) struct OrderedOutput {
    columns: Box<[Expr]>,
    /// If set, the columns of the result, which are made of `columns` when all rows are known.
    late: Option<LateColumns>,
    /// The values to order by. They come after the columns in a collected row.
    order: Box<[Expr]>,
    ways: Box<[Way]>,
    /// The number of leading values to order by in whose order the rows come.
    presorted: usize,
    /// The types of a collected row: its columns and the values to order by.
    sorted: Arc<[SqlType]>,
    skip: Option<Expr>,
    limit: Option<Expr>,
}

/// Memory that an output needs, kept from one run to the next.
#[derive(Debug, Default)]
pub(crate) struct OutputScratch {
    rows: RowsScratch,
    groups: GroupsScratch,
    texts: ComputedTexts,
}

/// Memory that collected rows need.
#[derive(Debug, Default)]
pub(crate) struct RowsScratch {
    kept: ResultRows,
    spare: ResultRows,
    /// The rows of `kept`. After a cut, the first `limit` of them are in order.
    ranked: Vec<RankedRow>,
    /// The values by which the newest row is ordered.
    order: Vec<ValueRef<'static>>,
    /// Whether the rows were sorted and cut, so row `limit - 1` is the last one that is still wanted.
    is_cut: bool,
}

/// A collected row, and the rank of the first value that it is ordered by. Most comparisons need no other value.
#[derive(Clone, Copy, Debug)]
struct RankedRow {
    rank: u64,
    row: usize,
}

/// Takes the rows of one run.
pub(crate) struct Sink<'s> {
    output: &'s CompiledOutput,
    out: &'s mut ResultRows,
    texts: &'s mut ComputedTexts,
    taker: Taker<'s>,
}

enum Taker<'s> {
    Rows(RowSink<'s>),
    Groups(&'s CompiledGroups, &'s mut GroupsScratch, &'s mut RowsScratch),
}

/// Takes rows and gives them in the order that the statement asks for.
pub(crate) struct RowSink<'s> {
    rows: &'s OrderedOutput,
    scratch: &'s mut RowsScratch,
    skip: usize,
    limit: usize,
}

impl CompiledOutput {
    /// All scalars of an output that are computed for the rows of the lookups.
    pub(crate) fn scalars(output: &program::ReadOutput) -> Vec<&Scalar> {
        match output {
            program::ReadOutput::Rows(rows) => {
                let order = rows.order.iter().map(|order| &order.value);
                rows.columns.iter().chain(order).collect()
            }
            program::ReadOutput::Groups(groups) => {
                let of_aggregates = groups.aggregates.iter();
                let of_aggregates = of_aggregates.flat_map(|one| {
                    let order = one.order.iter().map(|by| &by.value);
                    std::iter::once(&one.argument).chain(&one.filter).chain(order)
                });
                groups.keys.iter().chain(of_aggregates).collect()
            }
        }
    }

    pub(crate) fn new(
        output: &program::ReadOutput,
        filter: &Option<Scalar>,
        mut compiler: ExprCompiler<'_>,
    ) -> Result<CompiledOutput> {
        let filter = filter.as_ref().map(|filter| compiler.condition(filter)).transpose()?;
        let of = match output {
            program::ReadOutput::Rows(rows) => Of::Rows(OrderedOutput::new(rows, &mut compiler)?),
            program::ReadOutput::Groups(groups) => Of::Groups(CompiledGroups::new(groups, &mut compiler)?),
        };
        Ok(CompiledOutput { filter, of, texts: compiler.texts() })
    }
}

impl OrderedOutput {
    pub(crate) fn new(rows: &program::RowOutput, compiler: &mut ExprCompiler<'_>) -> Result<OrderedOutput> {
        if let Some(by) = rows.order.iter().find(|by| !by.value.kind.is_ordered()) {
            return Err(unsupported(format_args!("an order by {}", by.value.kind)));
        }
        let order = rows.order.iter().map(|order| compiler.expr(&order.value)).collect::<Result<_>>()?;
        let ways = rows.order.iter().map(Way::of);
        let mut number = |scalar: &Option<Scalar>| match scalar {
            Some(scalar) if scalar.kind != SqlType::Int64 => {
                Err(Error::internal(format!("the program has a LIMIT or OFFSET of type {}", scalar.kind)))
            }
            scalar => scalar.as_ref().map(|scalar| compiler.expr(scalar)).transpose(),
        };
        let (skip, limit) = (number(&rows.skip)?, number(&rows.limit)?);
        let kinds = rows.columns.iter().map(|column| column.kind.clone()).collect();
        let (columns, mut kinds, late) = LateColumns::split(compiler.exprs(&rows.columns)?, kinds);
        kinds.extend(rows.order.iter().map(|order| order.value.kind.clone()));
        let presorted = rows.presorted.min(rows.order.len());
        Ok(OrderedOutput { columns, late, order, ways: ways.collect(), presorted, sorted: kinds.into(), skip, limit })
    }

    /// Prepares for the rows of a run. `places` is the number of texts that the expressions may make.
    pub(crate) fn sink<'s>(
        &'s self,
        parameters: &[ValueRef<'_>],
        texts: &mut ComputedTexts,
        places: usize,
        scratch: &'s mut RowsScratch,
    ) -> Result<RowSink<'s>> {
        texts.clear(places);
        let env = Env { columns: &[], parameters, texts };
        // The numbers may be parameters, so they are only known now.
        let skip = rows_asked(&self.skip, env, "OFFSET")?.unwrap_or(0);
        let limit = rows_asked(&self.limit, env, "LIMIT")?.unwrap_or(usize::MAX);
        scratch.kept.start(&self.sorted);
        scratch.ranked.clear();
        scratch.is_cut = false;
        Ok(RowSink { rows: self, scratch, skip, limit })
    }

    fn compare(&self, rows: &ResultRows, left: usize, right: usize) -> Ordering {
        for (column, way) in (self.columns.len()..).zip(&self.ways) {
            let order = way.compare(rows.get(left, column), rows.get(right, column));
            if order.is_ne() {
                return order;
            }
        }
        // Rows that compare equal keep the order in which they came.
        left.cmp(&right)
    }

    fn sort(&self, kept: &ResultRows, ranked: &mut [RankedRow]) {
        ranked.sort_unstable_by(|left, right| {
            left.rank.cmp(&right.rank).then_with(|| self.compare(kept, left.row, right.row))
        });
    }

    /// Whether the newest row, which has these values to order by, does not sort before row `at` of `kept`. Equal rows
    /// keep their order, so it sorts after that row.
    fn is_after(&self, kept: &ResultRows, at: usize, order: &[ValueRef<'_>]) -> bool {
        self.compare_to(kept, at, order) != Ordering::Less
    }

    /// Whether all rows from the newest one on, which has these values to order by, sort after row `at` of `kept`.
    fn is_beyond(&self, kept: &ResultRows, at: usize, order: &[ValueRef<'_>]) -> bool {
        self.compare_to(kept, at, &order[..self.presorted]) == Ordering::Greater
    }

    /// Compares leading values to order by with those of row `at` of `kept`.
    fn compare_to(&self, kept: &ResultRows, at: usize, order: &[ValueRef<'_>]) -> Ordering {
        let pairs = (self.columns.len()..).zip(self.ways.iter().zip(order));
        let mut orders = pairs.map(|(column, (way, value))| way.compare(*value, kept.get(at, column)));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl RowSink<'_> {
    /// Whether any row is wanted at all. With LIMIT 0 the run should not start.
    pub(crate) fn wants_rows(&self) -> bool {
        self.limit > 0
    }

    /// How many rows are wanted, as far as we know.
    fn rows_wanted(&self) -> usize {
        let is_sorted = self.rows.order.is_empty() || self.rows.presorted > 0;
        if is_sorted { self.skip.saturating_add(self.limit) } else { usize::MAX }
    }

    /// Takes a row. Returns whether it wants more rows.
    pub(crate) fn take(&mut self, env: Env<'_>, out: &mut ResultRows) -> Result<bool> {
        let RowSink { rows, scratch, skip, limit } = self;
        if rows.order.is_empty() {
            if *skip > 0 {
                *skip -= 1;
                return Ok(true);
            }
            let out = if rows.late.is_some() { &mut scratch.kept } else { out };
            put(out, rows.columns.iter(), env)?;
            bounded(out.bytes())?;
            *limit -= 1;
            return Ok(*limit > 0);
        }
        let most = skip.saturating_add(*limit);
        let RowsScratch { kept, ranked, order, is_cut, .. } = &mut **scratch;
        let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(order));
        for value in &rows.order {
            values.push(value.value(env)?);
        }
        let rank = rows.ways[0].rank(values[0]);
        // If `most` rows that sort before this one are already there, it can not be in the result.
        let (is_wanted, is_last) = match ranked.get(most - 1).filter(|_| *is_cut) {
            None => (true, false),
            Some(last) => {
                let is_wanted = match last.rank == rank {
                    true => !rows.is_after(kept, last.row, &values),
                    false => rank < last.rank,
                };
                (is_wanted, !is_wanted && rows.is_beyond(kept, last.row, &values))
            }
        };
        if is_wanted {
            ranked.push(RankedRow { rank, row: kept.len() });
            for column in &rows.columns {
                kept.push(column.value(env)?);
            }
            values.iter().for_each(|value| kept.push(*value));
            kept.end_row();
        }
        *order = recycled(values);
        if !is_wanted {
            return Ok(!is_last);
        }
        bounded(kept.bytes())?;
        // Sorting only at twice the limit keeps the cost per row low.
        if kept.len() >= most.saturating_mul(2).max(SORTED_MIN) {
            self.cut(most);
        }
        Ok(true)
    }

    /// Sorts the collected rows and keeps the first `most`.
    fn cut(&mut self, most: usize) {
        let (rows, RowsScratch { kept, spare, ranked, is_cut, .. }) = (self.rows, &mut *self.scratch);
        *is_cut = true;
        rows.sort(kept, ranked);
        ranked.truncate(most);
        spare.start(&rows.sorted);
        // Copy the kept rows into the spare buffer, then swap, so no memory is allocated.
        for (at, RankedRow { row, .. }) in ranked.iter_mut().enumerate() {
            (0..rows.sorted.len()).for_each(|column| spare.push(kept.get(*row, column)));
            spare.end_row();
            *row = at;
        }
        std::mem::swap(kept, spare);
    }

    /// Gives the collected rows.
    pub(crate) fn finish(self, out: &mut ResultRows) -> Result<()> {
        let RowSink { rows, scratch: RowsScratch { kept, ranked, .. }, skip, limit } = self;
        if rows.order.is_empty() {
            return rows.late.as_ref().map_or(Ok(()), |late| late.give(kept, 0..kept.len(), out));
        }
        rows.sort(kept, ranked);
        let places = ranked.iter().skip(skip).take(limit).map(|ranked| ranked.row);
        if let Some(late) = &rows.late {
            return late.give(kept, places, out);
        }
        for row in places {
            (0..rows.columns.len()).for_each(|column| out.push(kept.get(row, column)));
            out.end_row();
        }
        Ok(())
    }
}

impl<'s> Sink<'s> {
    pub(crate) fn new(
        output: &'s CompiledOutput,
        parameters: &[ValueRef<'_>],
        scratch: &'s mut OutputScratch,
        out: &'s mut ResultRows,
    ) -> Result<Sink<'s>> {
        let OutputScratch { rows: of_rows, groups: of_groups, texts } = scratch;
        let taker = match &output.of {
            Of::Rows(rows) => Taker::Rows(rows.sink(parameters, texts, output.texts, of_rows)?),
            Of::Groups(groups) => {
                groups.start(of_groups);
                Taker::Groups(groups, of_groups, of_rows)
            }
        };
        Ok(Sink { output, out, texts, taker })
    }

    /// Whether any row is wanted at all.
    pub(crate) fn wants_rows(&self) -> bool {
        match &self.taker {
            Taker::Rows(rows) => rows.wants_rows(),
            Taker::Groups(..) => true,
        }
    }

    /// How many rows are wanted, as far as we know.
    pub(crate) fn rows_wanted(&self) -> usize {
        match &self.taker {
            Taker::Rows(rows) => rows.rows_wanted(),
            Taker::Groups(groups, ..) if groups.ends_at_value() => 1,
            Taker::Groups(..) => usize::MAX,
        }
    }

    /// The number of rows that are enough for the result: more of them would not change it.
    pub(crate) fn rows_at_most(&self) -> usize {
        match &self.taker {
            Taker::Rows(rows) if rows.rows.order.is_empty() && self.output.filter.is_none() => rows.rows_wanted(),
            _ => usize::MAX,
        }
    }

    /// How many of the next rows need not be read, because it is enough to know that they exist. The caller skips them,
    /// [reports how many it skipped](Self::pass), and then hands over the rows that follow.
    pub(crate) fn begin_unread(&mut self) -> usize {
        match &mut self.taker {
            // A filter must see the rows, so none may be skipped unread.
            _ if self.output.filter.is_some() => 0,
            Taker::Rows(sink) if sink.rows.order.is_empty() => std::mem::take(&mut sink.skip),
            Taker::Rows(_) => 0,
            // `usize::MAX` means that all rows are only counted.
            Taker::Groups(groups, ..) if groups.counts_rows() => usize::MAX,
            Taker::Groups(..) => 0,
        }
    }

    /// Takes note of `passed` rows that the caller skipped. `left` is how many rows must still be skipped.
    pub(crate) fn pass(&mut self, passed: usize, left: usize) {
        match &mut self.taker {
            Taker::Rows(sink) => sink.skip = left,
            Taker::Groups(groups, scratch, _) => groups.count(scratch, passed),
        }
    }

    /// Whether a row passes the filter. The caller must [hand over](Self::take) a row that passes before it tests the
    /// next.
    pub(crate) fn passes(&mut self, columns: &[ValueRef<'_>], parameters: &[ValueRef<'_>]) -> Result<bool> {
        self.texts.clear(self.output.texts);
        let env = Env { columns, parameters, texts: self.texts };
        self.output.filter.as_ref().map_or(Ok(true), |filter| filter.is_true(env))
    }

    /// Takes a row that passed the filter. Returns whether it wants more rows.
    pub(crate) fn take(&mut self, columns: &[ValueRef<'_>], parameters: &[ValueRef<'_>]) -> Result<bool> {
        let env = Env { columns, parameters, texts: self.texts };
        match &mut self.taker {
            Taker::Rows(rows) => rows.take(env, self.out),
            Taker::Groups(groups, scratch, _) => groups.take(scratch, env),
        }
    }

    /// Gives the rows that are known only at the end: collected rows and groups.
    pub(crate) fn finish(self, parameters: &[ValueRef<'_>]) -> Result<()> {
        match self.taker {
            Taker::Rows(rows) => rows.finish(self.out)?,
            Taker::Groups(groups, scratch, rows) => groups.finish(scratch, rows, parameters, self.out)?,
        }
        Ok(())
    }
}

/// Appends one row: the values of `exprs`.
#[inline]
pub(crate) fn put<'a>(out: &mut ResultRows, exprs: impl Iterator<Item = &'a Expr>, env: Env<'a>) -> Result<()> {
    for expr in exprs {
        out.push(expr.value(env)?);
    }
    out.end_row();
    Ok(())
}

/// The number of rows of a LIMIT or OFFSET. NULL means that there is none.
fn rows_asked(number: &Option<Expr>, env: Env<'_>, clause: &str) -> Result<Option<usize>> {
    let Some(number) = number else { return Ok(None) };
    match number.value(env)? {
        ValueRef::Int(rows) if rows < 0 => {
            Err(Error::new(ErrorKind::InvalidParameter, format!("{clause} must not be negative, but is {rows}")))
        }
        ValueRef::Int(rows) => Ok(Some(usize::try_from(rows).unwrap_or(usize::MAX))),
        _ => Ok(None),
    }
}
