//! Queries: lookups as loops within loops, and what is made of their rows.

use std::fmt;

use rowmill_base::{SqlType, TableId};

use super::{Access, Scalar, WindowRows};
use crate::aggregate_kinds;

/// `SELECT`
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// Where rows come from: for each row of the lookups before those of the next, in this order. Without any there is one
    /// row without columns. Scalars name the columns of a lookup by its number.
    ///
    /// Of a read within another one, the lookups of the other before it are numbered first, then its own.
    pub lookups: Vec<NestedLookup>,
    /// Rows pass for which it is true.
    pub filter: Option<Scalar>,
    /// What is given of them.
    pub output: Output,
    /// `FOR UPDATE`: whoever has written a row that was given, before this transaction commits, has this one fail.
    pub for_update: bool,
    /// How many rows of its lookups it may come upon before it is given up, if it is meant for a table that is small.
    pub rows_max: Option<u64>,
}

/// One more source of rows beside those before it.
#[derive(Clone, Debug, PartialEq)]
pub struct NestedLookup {
    /// What a match is for.
    pub kind: LookupKind,
    /// The rows that may match, by scalars over the columns of the lookups before.
    pub source: LookupSource,
    /// What else has to be true of a match, over the columns of the lookups before and of this one.
    pub condition: Option<Scalar>,
    /// Of [`LookupKind::Anti`] and [`LookupKind::Mark`], a comparison that is asked of matches: where it is NULL there may be
    /// a match. An anti lookup then gives no row, a mark is NULL if there is no certain match.
    pub compared: Option<Scalar>,
}

/// Where the rows of a lookup come from.
#[derive(Clone, Debug, PartialEq)]
pub enum LookupSource {
    /// A table.
    Table(Access),
    /// The rows of other reads, one read after the other. They give columns of the same types, but for the
    /// lengths of texts; these are the columns of the source.
    Reads(Vec<Read>),
    /// The rows of a read with values computed over other rows.
    Windows(Box<WindowRows>),
    /// `WITH RECURSIVE`
    Recursion(Box<Recursion>),
    /// The rows of the last round of the recursion around it, as many recursions out as this says, with columns of these
    /// types.
    LastRound(usize, Vec<SqlType>),
}

/// Rows of rounds: those of the first round, then those that each round makes of the round before, up to one that makes
/// none.
#[derive(Clone, Debug, PartialEq)]
pub struct Recursion {
    /// The rows of the first round. They and those of `step` have columns of the same types.
    pub base: Vec<Read>,
    /// The rows of each later round.
    pub step: Read,
    /// Whether a row that was given before is left out: `UNION` rather than `UNION ALL`.
    pub distinct: bool,
}

/// Which rows a lookup gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupKind {
    /// Every match.
    Inner,
    /// Every match; and where there is none, NULL in all columns.
    Left,
    /// The match, or NULL in all columns; a second match is an error.
    Single,
    /// One row without values if there is a match.
    Semi,
    /// One row without values if there is no match.
    Anti,
    /// One row, with a BOOLEAN behind the columns of the source that says whether there is a match.
    Mark,
}

/// What is given of the rows that were found.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Values of each.
    Rows(Rows),
    /// Rows put together.
    Groups(Groups),
}

/// Values of each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// The values.
    pub columns: Vec<Scalar>,
    /// What they are ordered by; nothing if they are given as they are found.
    pub order: Vec<Order>,
    /// `OFFSET`: a BIGINT without columns, at least 0.
    pub skip: Option<Scalar>,
    /// `LIMIT`: a BIGINT without columns, at least 0; NULL is no limit.
    pub limit: Option<Scalar>,
}

/// What rows are ordered by.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The value.
    pub value: Scalar,
    /// `DESC`
    pub descending: bool,
    /// `NULLS FIRST`
    pub nulls_first: bool,
}

/// Rows put together by keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups {
    /// The keys, in which NULL equals NULL. Without any all rows are one group, also if there are none.
    pub keys: Vec<Scalar>,
    /// What is computed of the rows of a group.
    pub aggregates: Vec<RowAggregate>,
    /// Whether one value is all there is to know: the one aggregate is a minimum or maximum, and the lookups give rows in
    /// the order of its argument.
    pub ends_at_value: bool,
    /// `HAVING`: groups pass for which it is true. In this and in `rows` column `n` of row 0 is the `n`th key, or the `n`th
    /// aggregate, which are counted behind the keys.
    pub filter: Option<Scalar>,
    /// What is given of each group.
    pub rows: Rows,
}

/// What is computed of all rows.
#[derive(Clone, Debug, PartialEq)]
pub struct RowAggregate {
    /// How.
    pub function: RowFunction,
    /// Of what; NULLs are left out.
    pub argument: Scalar,
    /// `FILTER`: of the rows for which it is true.
    pub filter: Option<Scalar>,
}

/// How rows are aggregated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowFunction {
    /// `COUNT(*)`, whatever the argument: a BIGINT.
    CountRows,
    /// `COUNT(x)`: a BIGINT.
    Count,
    /// `COUNT(DISTINCT x)`: a BIGINT.
    CountDistinct,
    /// `SUM(x)`, exact: a BIGINT of integers up to 32 bits, `DECIMAL(38, 0)` of longer ones, `DECIMAL(38, s)` of a
    /// `DECIMAL(p, s)`, a DOUBLE of a REAL or DOUBLE.
    Sum,
    /// `AVG(x)`: the DOUBLE nearest to total over count.
    Average,
    /// `MIN(x)`
    Min,
    /// `MAX(x)`
    Max,
}

impl Read {
    /// Values of the rows of an access.
    pub fn of_table(access: Access, filter: Option<Scalar>, output: Output) -> Read {
        let lookups = vec![NestedLookup::inner(access, None)];
        Read { lookups, filter, output, for_update: false, rows_max: None }
    }

    /// Rows of values that no table has: `VALUES`.
    pub fn of_values(columns: Vec<Scalar>) -> Read {
        let output = Output::Rows(Rows::all(columns));
        Read { lookups: Vec::new(), filter: None, output, for_update: false, rows_max: None }
    }

    /// The types of the values that it gives.
    pub fn output(&self) -> Vec<SqlType> {
        let rows = match &self.output {
            Output::Rows(rows) => rows,
            Output::Groups(groups) => &groups.rows,
        };
        rows.columns.iter().map(|scalar| scalar.kind.clone()).collect()
    }

    /// The tables that it reads.
    pub fn tables(&self) -> Vec<TableId> {
        self.lookups.iter().flat_map(NestedLookup::tables).collect()
    }

    /// Whether a part of it is a recursion.
    pub fn is_recursive(&self) -> bool {
        self.lookups.iter().any(|lookup| {
            matches!(lookup.source, LookupSource::Recursion(_))
                || lookup.source.reads().into_iter().any(Read::is_recursive)
        })
    }
}

impl NestedLookup {
    /// All rows of an access that meet a condition.
    pub fn inner(access: Access, condition: Option<Scalar>) -> NestedLookup {
        NestedLookup { kind: LookupKind::Inner, source: LookupSource::Table(access), condition, compared: None }
    }

    /// The tables that it reads.
    pub fn tables(&self) -> Vec<TableId> {
        match &self.source {
            LookupSource::Table(access) => vec![access.table],
            source => source.reads().into_iter().flat_map(Read::tables).collect(),
        }
    }
}

impl LookupSource {
    /// The reads that its rows come from.
    pub fn reads(&self) -> Vec<&Read> {
        match self {
            LookupSource::Table(_) | LookupSource::LastRound(..) => Vec::new(),
            LookupSource::Reads(reads) => reads.iter().collect(),
            LookupSource::Windows(windows) => vec![&windows.read],
            LookupSource::Recursion(recursion) => recursion.base.iter().chain([&recursion.step]).collect(),
        }
    }

    /// The types of the columns of a source that is no table; `None` if its reads do not agree on them.
    pub fn columns(&self) -> Option<Vec<SqlType>> {
        if let LookupSource::LastRound(_, kinds) = self {
            return Some(kinds.clone());
        }
        if let LookupSource::Windows(windows) = self {
            return windows.output();
        }
        let reads = self.reads();
        let columns = reads.first()?.output();
        let is_same = |output: Vec<SqlType>| {
            output.len() == columns.len()
                && output.iter().zip(&columns).all(|(own, first)| own.arrow() == first.arrow())
        };
        reads.iter().all(|read| is_same(read.output())).then_some(columns)
    }
}

impl Rows {
    /// These values of all rows, as they are found.
    pub fn all(columns: Vec<Scalar>) -> Rows {
        Rows { columns, order: Vec::new(), skip: None, limit: None }
    }
}

impl RowAggregate {
    /// An aggregate over all rows.
    pub fn new(function: RowFunction, argument: Scalar) -> RowAggregate {
        RowAggregate { function, argument, filter: None }
    }

    /// The type of the result; `None` if the function does not take such an argument.
    pub fn kind(&self) -> Option<SqlType> {
        let argument = &self.argument.kind;
        match self.function {
            RowFunction::CountRows | RowFunction::Count => Some(SqlType::Int64),
            RowFunction::CountDistinct => argument.is_ordered().then_some(SqlType::Int64),
            RowFunction::Min | RowFunction::Max => argument.is_ordered().then(|| argument.clone()),
            RowFunction::Sum => sum_kind(argument),
            RowFunction::Average => sum_kind(argument).map(|_| SqlType::Float64),
        }
    }
}

/// The type of the exact total of values of a type; `None` if they are not added.
pub fn sum_kind(argument: &SqlType) -> Option<SqlType> {
    aggregate_kinds::total_kind(&argument.arrow()).as_ref().and_then(SqlType::from_arrow)
}

impl fmt::Display for RowFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RowFunction::CountRows | RowFunction::Count | RowFunction::CountDistinct => "count",
            RowFunction::Sum => "sum",
            RowFunction::Average => "avg",
            RowFunction::Min => "min",
            RowFunction::Max => "max",
        })
    }
}
