//! What is made of the rows that a read finds: the rows themselves, as they come or in another order, or groups.
//!
//! Rows in another order than that of the access are kept, and where there is a limit cut to it whenever they have become
//! twice as many.

use std::cmp::Ordering;
use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_plan::program::{self, Scalar};
use rowmill_storage::keyed::ValueRef;

use crate::expr::{Compiler, Env, Expr, compare_values, unsupported};
use crate::groups::{Groups, GroupsScratch};
use crate::pace::bounded;
use crate::result_rows::ResultRows;
use crate::texts::Texts;

/// Rows that are sorted before any is left out.
const SORTED_MIN: usize = 32;

/// An output that is ready to be filled.
#[derive(Debug)]
pub(crate) struct Output {
    filter: Option<Expr>,
    of: Of,
    texts: usize,
}

#[derive(Debug)]
enum Of {
    Rows(Rows),
    Groups(Groups),
}

/// Values of rows, in an order, from one row to another.
#[derive(Debug)]
pub(crate) struct Rows {
    columns: Box<[Expr]>,
    /// Behind the columns of a row that is kept.
    order: Box<[Expr]>,
    ways: Box<[Way]>,
    /// Types of the columns and of what is ordered by, if anything is.
    sorted: Arc<[SqlType]>,
    skip: Option<Expr>,
    limit: Option<Expr>,
}

/// How values are ordered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// What an output takes, kept from one to the next.
#[derive(Debug, Default)]
pub(crate) struct OutputScratch {
    rows: RowsScratch,
    groups: GroupsScratch,
    texts: Texts,
}

/// What rows that are given take.
#[derive(Debug, Default)]
pub(crate) struct RowsScratch {
    kept: ResultRows,
    spare: ResultRows,
    places: Vec<usize>,
    /// Whether the kept rows were sorted and cut, so that the last one that is wanted is known.
    is_cut: bool,
}

/// Takes the rows of one run.
pub(crate) struct Sink<'s> {
    output: &'s Output,
    out: &'s mut ResultRows,
    texts: &'s mut Texts,
    taker: Taker<'s>,
}

enum Taker<'s> {
    Rows(RowSink<'s>),
    Groups(&'s Groups, &'s mut GroupsScratch, &'s mut RowsScratch),
}

/// Takes rows that are given, in the order that is asked for.
pub(crate) struct RowSink<'s> {
    rows: &'s Rows,
    scratch: &'s mut RowsScratch,
    skip: usize,
    limit: usize,
}

impl Output {
    /// All scalars over the rows that are found.
    pub(crate) fn scalars(output: &program::Output) -> Vec<&Scalar> {
        match output {
            program::Output::Rows(rows) => {
                let order = rows.order.iter().map(|order| &order.value);
                rows.columns.iter().chain(order).collect()
            }
            program::Output::Groups(groups) => {
                let of_aggregates = groups.aggregates.iter();
                let of_aggregates = of_aggregates.flat_map(|one| std::iter::once(&one.argument).chain(&one.filter));
                groups.keys.iter().chain(of_aggregates).collect()
            }
        }
    }

    pub(crate) fn new(output: &program::Output, filter: &Option<Scalar>, mut compiler: Compiler<'_>) -> Result<Output> {
        let filter = filter.as_ref().map(|filter| compiler.condition(filter)).transpose()?;
        let of = match output {
            program::Output::Rows(rows) => Of::Rows(Rows::new(rows, &mut compiler)?),
            program::Output::Groups(groups) => Of::Groups(Groups::new(groups, &mut compiler)?),
        };
        Ok(Output { filter, of, texts: compiler.texts() })
    }
}

impl Rows {
    pub(crate) fn new(rows: &program::Rows, compiler: &mut Compiler<'_>) -> Result<Rows> {
        let kinds = rows.columns.iter().chain(rows.order.iter().map(|order| &order.value));
        if let Some(by) = rows.order.iter().find(|by| !by.value.kind.is_ordered()) {
            return Err(unsupported(format_args!("an order by {}", by.value.kind)));
        }
        let order = rows.order.iter().map(|order| compiler.expr(&order.value)).collect::<Result<_>>()?;
        let ways = rows.order.iter().map(|by| Way { descending: by.descending, nulls_first: by.nulls_first });
        let mut number = |scalar: &Option<Scalar>| match scalar {
            Some(scalar) if scalar.kind != SqlType::Int64 => {
                Err(Error::internal(format!("a program with a number of rows of the type {}", scalar.kind)))
            }
            scalar => scalar.as_ref().map(|scalar| compiler.expr(scalar)).transpose(),
        };
        let (skip, limit) = (number(&rows.skip)?, number(&rows.limit)?);
        Ok(Rows {
            columns: compiler.exprs(&rows.columns)?,
            order,
            ways: ways.collect(),
            sorted: kinds.map(|scalar| scalar.kind.clone()).collect(),
            skip,
            limit,
        })
    }

    /// Takes rows of a run. `texts` has as many places as the expressions need.
    pub(crate) fn sink<'s>(
        &'s self,
        parameters: &[ValueRef<'_>],
        texts: &mut Texts,
        places: usize,
        scratch: &'s mut RowsScratch,
    ) -> Result<RowSink<'s>> {
        texts.clear(places);
        let env = Env { columns: &[], parameters, texts };
        let skip = rows_asked(&self.skip, env, "OFFSET")?.unwrap_or(0);
        let limit = rows_asked(&self.limit, env, "LIMIT")?.unwrap_or(usize::MAX);
        scratch.kept.start(&self.sorted);
        scratch.is_cut = false;
        Ok(RowSink { rows: self, scratch, skip, limit })
    }

    fn compare(&self, rows: &ResultRows, left: usize, right: usize) -> Ordering {
        let orders = self.ways.iter().enumerate().map(|(at, way)| {
            let column = self.columns.len() + at;
            way.compare(rows.get(left, column), rows.get(right, column))
        });
        // In the order in which they came, where nothing else decides.
        orders.fold(Ordering::Equal, Ordering::then).then(left.cmp(&right))
    }

    /// Whether the row of `env`, which is the last one that came, is not before the row `at` of `kept`.
    fn is_after(&self, kept: &ResultRows, at: usize, env: Env<'_>) -> Result<bool> {
        for (column, (way, order)) in (self.columns.len()..).zip(self.ways.iter().zip(&self.order)) {
            match way.compare(order.value(env)?, kept.get(at, column)) {
                Ordering::Less => return Ok(false),
                Ordering::Greater => return Ok(true),
                Ordering::Equal => {}
            }
        }
        Ok(true)
    }
}

impl Way {
    /// The order of two values of one type, NULL among them.
    pub(crate) fn compare(self, left: ValueRef<'_>, right: ValueRef<'_>) -> Ordering {
        match (left.is_null(), right.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if self.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if self.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if self.descending => compare_values(right, left),
            (false, false) => compare_values(left, right),
        }
    }
}

impl RowSink<'_> {
    /// Whether any row is wanted.
    pub(crate) fn wants_rows(&self) -> bool {
        self.limit > 0
    }

    /// How many rows are wanted, as far as is known.
    fn rows_wanted(&self) -> usize {
        if self.rows.order.is_empty() { self.skip.saturating_add(self.limit) } else { usize::MAX }
    }

    /// Takes a row; whether more are wanted.
    pub(crate) fn take(&mut self, env: Env<'_>, out: &mut ResultRows) -> Result<bool> {
        let RowSink { rows, scratch, skip, limit } = self;
        if rows.order.is_empty() {
            if *skip > 0 {
                *skip -= 1;
                return Ok(true);
            }
            put(out, rows.columns.iter(), env)?;
            bounded(out.bytes())?;
            *limit -= 1;
            return Ok(*limit > 0);
        }
        let most = skip.saturating_add(*limit);
        let RowsScratch { kept, is_cut, .. } = &mut **scratch;
        if *is_cut && rows.is_after(kept, most - 1, env)? {
            return Ok(true);
        }
        put(kept, rows.columns.iter().chain(&rows.order), env)?;
        bounded(kept.bytes())?;
        if kept.len() >= most.saturating_mul(2).max(SORTED_MIN) {
            self.cut(most);
        }
        Ok(true)
    }

    /// Leaves the first rows of those that are kept.
    fn cut(&mut self, most: usize) {
        let (rows, RowsScratch { kept, spare, places, is_cut }) = (self.rows, &mut *self.scratch);
        *is_cut = true;
        sort(rows, kept, places);
        spare.start(&rows.sorted);
        for place in places.iter().take(most) {
            (0..rows.sorted.len()).for_each(|column| spare.push(kept.get(*place, column)));
            spare.end_row();
        }
        std::mem::swap(kept, spare);
    }

    /// Gives the rows that were kept.
    pub(crate) fn finish(self, out: &mut ResultRows) {
        let RowSink { rows, scratch: RowsScratch { kept, places, .. }, skip, limit } = self;
        if rows.order.is_empty() {
            return;
        }
        sort(rows, kept, places);
        for place in places.iter().skip(skip).take(limit) {
            (0..rows.columns.len()).for_each(|column| out.push(kept.get(*place, column)));
            out.end_row();
        }
    }
}

impl<'s> Sink<'s> {
    pub(crate) fn new(
        output: &'s Output,
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

    /// Whether any row is wanted.
    pub(crate) fn wants_rows(&self) -> bool {
        match &self.taker {
            Taker::Rows(rows) => rows.wants_rows(),
            Taker::Groups(..) => true,
        }
    }

    /// How many rows are wanted, as far as is known.
    pub(crate) fn rows_wanted(&self) -> usize {
        match &self.taker {
            Taker::Rows(rows) => rows.rows_wanted(),
            Taker::Groups(groups, ..) if groups.ends_at_value() => 1,
            Taker::Groups(..) => usize::MAX,
        }
    }

    /// How many of the rows to come need not be read: all that counts is that they are there. The caller passes over them,
    /// and says [how many there were](Self::pass) when it has given those that follow.
    pub(crate) fn begin_unread(&mut self) -> usize {
        match &mut self.taker {
            _ if self.output.filter.is_some() => 0,
            Taker::Rows(sink) if sink.rows.order.is_empty() => std::mem::take(&mut sink.skip),
            Taker::Rows(_) => 0,
            Taker::Groups(groups, ..) if groups.counts_rows() => usize::MAX,
            Taker::Groups(..) => 0,
        }
    }

    /// Takes `passed` rows that were passed over; `left` more should be.
    pub(crate) fn pass(&mut self, passed: usize, left: usize) {
        match &mut self.taker {
            Taker::Rows(sink) => sink.skip = left,
            Taker::Groups(groups, scratch, _) => groups.count(scratch, passed),
        }
    }

    /// Whether a row passes the filter. Rows that do are to be [taken](Self::take) at once.
    pub(crate) fn passes(&mut self, columns: &[ValueRef<'_>], parameters: &[ValueRef<'_>]) -> Result<bool> {
        self.texts.clear(self.output.texts);
        let env = Env { columns, parameters, texts: self.texts };
        self.output.filter.as_ref().map_or(Ok(true), |filter| filter.is_true(env))
    }

    /// Takes a row that has passed; whether more are wanted.
    pub(crate) fn take(&mut self, columns: &[ValueRef<'_>], parameters: &[ValueRef<'_>]) -> Result<bool> {
        let env = Env { columns, parameters, texts: self.texts };
        match &mut self.taker {
            Taker::Rows(rows) => rows.take(env, self.out),
            Taker::Groups(groups, scratch, _) => groups.take(scratch, env),
        }
    }

    /// Gives what is only known at the end.
    pub(crate) fn finish(self, parameters: &[ValueRef<'_>]) -> Result<()> {
        match self.taker {
            Taker::Rows(rows) => rows.finish(self.out),
            Taker::Groups(groups, scratch, rows) => groups.finish(scratch, rows, parameters, self.out)?,
        }
        Ok(())
    }
}

/// Adds a row of the values of `exprs`.
#[inline]
pub(crate) fn put<'a>(out: &mut ResultRows, exprs: impl Iterator<Item = &'a Expr>, env: Env<'a>) -> Result<()> {
    for expr in exprs {
        out.push(expr.value(env)?);
    }
    out.end_row();
    Ok(())
}

fn sort(rows: &Rows, kept: &ResultRows, places: &mut Vec<usize>) {
    places.clear();
    places.extend(0..kept.len());
    places.sort_unstable_by(|left, right| rows.compare(kept, *left, *right));
}

/// A number of rows; NULL is none.
fn rows_asked(number: &Option<Expr>, env: Env<'_>, clause: &str) -> Result<Option<usize>> {
    let Some(number) = number else { return Ok(None) };
    match number.value(env)? {
        ValueRef::Int(rows) if rows < 0 => {
            Err(Error::new(ErrorKind::InvalidParameter, format!("{clause} of {rows} rows: it cannot be negative")))
        }
        ValueRef::Int(rows) => Ok(Some(usize::try_from(rows).unwrap_or(usize::MAX))),
        _ => Ok(None),
    }
}
