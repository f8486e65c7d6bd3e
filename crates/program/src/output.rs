//! What is made of the rows that a read finds: the rows themselves, as they come or in another order, or aggregates.
//!
//! Rows in another order than that of the access are kept, and where there is a limit cut to it whenever they have become
//! twice as many.

use std::cmp::Ordering;
use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_plan::program::{self, Scalar};
use rowmill_storage::keyed::ValueRef;

use crate::aggregate::{Aggregates, Total};
use crate::expr::{Compiler, Env, Expr, compare_values};
use crate::pace::bounded;
use crate::result_rows::ResultRows;
use crate::texts::Texts;

/// Rows that are sorted before any is left out.
const SORTED_MIN: usize = 256;

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
    Aggregates(Aggregates),
}

#[derive(Debug)]
struct Rows {
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
struct Way {
    descending: bool,
    nulls_first: bool,
}

/// What an output takes, kept from one to the next.
#[derive(Debug, Default)]
pub(crate) struct OutputScratch {
    kept: ResultRows,
    spare: ResultRows,
    places: Vec<usize>,
    totals: Vec<Total>,
    texts: Texts,
}

/// Takes the rows of one run.
pub(crate) struct Sink<'s> {
    output: &'s Output,
    scratch: &'s mut OutputScratch,
    out: &'s mut ResultRows,
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
            program::Output::Aggregates(all) => all.aggregates.iter().map(|aggregate| &aggregate.argument).collect(),
        }
    }

    pub(crate) fn new(output: &program::Output, filter: &Option<Scalar>, mut compiler: Compiler<'_>) -> Result<Output> {
        let filter = filter.as_ref().map(|filter| compiler.condition(filter)).transpose()?;
        let of = match output {
            program::Output::Rows(rows) => Of::Rows(Rows::new(rows, &mut compiler)?),
            program::Output::Aggregates(all) => Of::Aggregates(Aggregates::new(all, &mut compiler)?),
        };
        Ok(Output { filter, of, texts: compiler.texts() })
    }
}

impl Rows {
    fn new(rows: &program::Rows, compiler: &mut Compiler<'_>) -> Result<Rows> {
        let kinds = rows.columns.iter().chain(rows.order.iter().map(|order| &order.value));
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

    fn compare(&self, rows: &ResultRows, left: usize, right: usize) -> Ordering {
        let orders = self.ways.iter().enumerate().map(|(at, way)| {
            let column = self.columns.len() + at;
            way.compare(rows.get(left, column), rows.get(right, column))
        });
        // In the order in which they came, where nothing else decides.
        orders.fold(Ordering::Equal, Ordering::then).then(left.cmp(&right))
    }
}

impl Way {
    fn compare(self, left: ValueRef<'_>, right: ValueRef<'_>) -> Ordering {
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

impl<'s> Sink<'s> {
    pub(crate) fn new(
        output: &'s Output,
        parameters: &[ValueRef<'_>],
        scratch: &'s mut OutputScratch,
        out: &'s mut ResultRows,
    ) -> Result<Sink<'s>> {
        scratch.texts.clear(output.texts);
        let env = Env { columns: &[], parameters, texts: &scratch.texts };
        let (mut skip, mut limit) = (0, usize::MAX);
        match &output.of {
            Of::Rows(rows) => {
                skip = rows_asked(&rows.skip, env, "OFFSET")?.unwrap_or(0);
                limit = rows_asked(&rows.limit, env, "LIMIT")?.unwrap_or(usize::MAX);
                scratch.kept.start(&rows.sorted);
            }
            Of::Aggregates(all) => all.start(&mut scratch.totals),
        }
        Ok(Sink { output, scratch, out, skip, limit })
    }

    /// Whether any row is wanted.
    pub(crate) fn wants_rows(&self) -> bool {
        self.limit > 0
    }

    /// How many rows are wanted, as far as is known.
    pub(crate) fn rows_wanted(&self) -> usize {
        match &self.output.of {
            Of::Rows(rows) if rows.order.is_empty() && self.output.filter.is_none() => {
                self.skip.saturating_add(self.limit)
            }
            _ => usize::MAX,
        }
    }

    /// Whether a row passes the filter. Rows that do are to be [taken](Self::take) at once.
    pub(crate) fn passes(&mut self, columns: &[ValueRef<'_>], parameters: &[ValueRef<'_>]) -> Result<bool> {
        self.scratch.texts.clear(self.output.texts);
        let env = Env { columns, parameters, texts: &self.scratch.texts };
        self.output.filter.as_ref().map_or(Ok(true), |filter| filter.is_true(env))
    }

    /// Takes a row that has passed; whether more are wanted.
    pub(crate) fn take(&mut self, columns: &[ValueRef<'_>], parameters: &[ValueRef<'_>]) -> Result<bool> {
        let OutputScratch { kept, totals, texts, .. } = &mut *self.scratch;
        let env = Env { columns, parameters, texts };
        match &self.output.of {
            Of::Aggregates(all) => all.take(totals, env)?,
            Of::Rows(rows) if rows.order.is_empty() => {
                if self.skip > 0 {
                    self.skip -= 1;
                    return Ok(true);
                }
                put(self.out, rows.columns.iter(), env)?;
                bounded(self.out.bytes())?;
                self.limit -= 1;
                return Ok(self.limit > 0);
            }
            Of::Rows(rows) => {
                put(kept, rows.columns.iter().chain(&rows.order), env)?;
                bounded(kept.bytes())?;
                let most = self.skip.saturating_add(self.limit);
                if kept.len() >= most.saturating_mul(2).max(SORTED_MIN) {
                    self.cut(rows, most);
                }
            }
        }
        Ok(true)
    }

    /// Leaves the first rows of those that are kept.
    fn cut(&mut self, rows: &Rows, most: usize) {
        let OutputScratch { kept, spare, places, .. } = &mut *self.scratch;
        sort(rows, kept, places);
        spare.start(&rows.sorted);
        for place in places.iter().take(most) {
            (0..rows.sorted.len()).for_each(|column| spare.push(kept.get(*place, column)));
            spare.end_row();
        }
        std::mem::swap(kept, spare);
    }

    /// Gives what is only known at the end.
    pub(crate) fn finish(self, parameters: &[ValueRef<'_>]) -> Result<()> {
        let OutputScratch { kept, places, totals, texts, .. } = self.scratch;
        match &self.output.of {
            Of::Rows(rows) if rows.order.is_empty() => Ok(()),
            Of::Rows(rows) => {
                sort(rows, kept, places);
                for place in places.iter().skip(self.skip).take(self.limit) {
                    (0..rows.columns.len()).for_each(|column| self.out.push(kept.get(*place, column)));
                    self.out.end_row();
                }
                Ok(())
            }
            Of::Aggregates(all) => all.finish(totals, parameters, texts, self.out),
        }
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
