//! Queries: nested loops over lookups, and the output that is made of their rows.

use std::fmt;

use rowmill_base::{SqlType, TableId};

use super::{Access, Scalar, WindowRows};
use crate::aggregate;

/// `SELECT`
#[derive(Clone, Debug, PartialEq)]
pub struct ReadPlan {
    /// The sources of rows, as nested loops: for each row of the lookups before, the rows of the next one. Without
    /// lookups there is one row without columns. Scalars refer to the columns of a lookup by its number.
    ///
    /// The lookups of a nested read are numbered after the lookups of the outer read that come before it.
    pub lookups: Vec<NestedLookup>,
    /// Keeps only rows for which it is true.
    pub filter: Option<Scalar>,
    /// The output that is made of the rows.
    pub output: ReadOutput,
    /// `FOR UPDATE`: this transaction must fail at commit if another one has written a given row since its snapshot.
    pub for_update: bool,
    /// How many rows of its lookups the read may visit before it gives up, if it was planned for a small table.
    pub rows_max: Option<u64>,
    /// Another read with the same result, for values of the parameters with which few rows match.
    pub few: Option<Box<FewRows>>,
}

/// A read by a key that answers conditions, in place of one that finds rows in the wanted order and stops early. With
/// few matching rows, a search in that order takes long and this read is short. For example, few orders may have the
/// status of a parameter, while an index on the moment of the order gives the order of the page. The matching rows must
/// be counted when the read runs, because the plan does not know the parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct FewRows {
    /// The accesses whose rows are counted.
    pub counted: Vec<Access>,
    /// The number of rows that the statement needs: a BIGINT without columns, or NULL if it needs all.
    pub needed: Scalar,
    /// The number of rows of the table.
    pub table_rows: u64,
    /// The read for few rows.
    pub read: ReadPlan,
}

/// One lookup: a source of rows that are joined with the rows of the lookups before.
#[derive(Clone, Debug, PartialEq)]
pub struct NestedLookup {
    /// How the rows are joined.
    pub kind: LookupKind,
    /// The rows that may match. Its scalars may refer to the columns of the lookups before.
    pub source: LookupSource,
    /// A further condition on a match, over the columns of the lookups before and of this one.
    pub condition: Option<Scalar>,
    /// For [`LookupKind::Anti`] and [`LookupKind::Mark`], a comparison in three-valued logic: if it is NULL, the row
    /// may be a match. An anti lookup must then give no row, and a mark is NULL if no row certainly matches.
    pub compared: Option<Scalar>,
}

/// The source of the rows of a lookup.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "most lookups read a table")]
pub enum LookupSource {
    /// A table.
    Table(Access),
    /// The rows of several reads, one read after another. Their columns must have the same types, except for the
    /// lengths of texts. They are the columns of the source.
    Reads(Vec<ReadPlan>),
    /// The rows of a read with values computed over other rows.
    Windows(Box<WindowRows>),
    /// `WITH RECURSIVE`
    Recursion(Box<Recursion>),
    /// The rows of the previous round of an enclosing recursion, with columns of these types. The number counts
    /// recursions outwards; 0 is the innermost one.
    LastRound(usize, Vec<SqlType>),
}

/// A recursion. `base` gives the rows of the first round, and `step` computes each later round from the round before,
/// until a round has no rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Recursion {
    /// The rows of the first round. They must have the same column types as those of `step`.
    pub base: Vec<ReadPlan>,
    /// The rows of each later round.
    pub step: ReadPlan,
    /// Whether a row that was given before is left out: `UNION` rather than `UNION ALL`.
    pub distinct: bool,
}

/// Which rows a lookup gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupKind {
    /// Every match.
    Inner,
    /// Every match, or one row with NULL in all columns if no row matches.
    Left,
    /// The only match, or one row with NULL in all columns if no row matches. A second match is an error.
    Single,
    /// One row without values if a row matches.
    Semi,
    /// One row without values if no row matches.
    Anti,
    /// One row with a BOOLEAN, after the columns of the source, that says whether a row matches.
    Mark,
}

/// The output that is made of the rows.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadOutput {
    /// Values of each row.
    Rows(RowOutput),
    /// Rows grouped by keys.
    Groups(GroupOutput),
}

/// Values of each row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowOutput {
    /// The values.
    pub columns: Vec<Scalar>,
    /// The order of the rows; empty to keep the order in which they are found.
    pub order: Vec<OutputOrder>,
    /// The number of leading values of `order` in whose order the rows are found already. With a limit, reading ends at
    /// the first row that differs from the last wanted row in these values.
    pub presorted: usize,
    /// `OFFSET`: a BIGINT without columns, at least 0.
    pub skip: Option<Scalar>,
    /// `LIMIT`: a BIGINT without columns, at least 0; NULL is no limit.
    pub limit: Option<Scalar>,
}

/// One of the values that rows are ordered by.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputOrder {
    /// The value.
    pub value: Scalar,
    /// `DESC`
    pub descending: bool,
    /// `NULLS FIRST`
    pub nulls_first: bool,
}

/// Rows grouped by keys.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupOutput {
    /// The keys, in which NULL equals NULL. Without keys, all rows are one group, even if the input is empty.
    pub keys: Vec<Scalar>,
    /// The aggregates of each group.
    pub aggregates: Vec<RowAggregate>,
    /// Whether the read may stop at the first value that is not NULL. That holds if the only aggregate is a minimum or
    /// maximum and the lookups give rows in the order of its argument.
    pub ends_at_value: bool,
    /// `HAVING`: keeps only groups for which it is true. Here and in `rows`, the columns of row 0 are the keys followed
    /// by the aggregates.
    pub filter: Option<Scalar>,
    /// The output that is made of the groups.
    pub rows: RowOutput,
}

/// An aggregate over rows.
#[derive(Clone, Debug, PartialEq)]
pub struct RowAggregate {
    /// The function.
    pub function: RowFunction,
    /// The argument. NULLs are skipped.
    pub argument: Scalar,
    /// `FILTER`: only rows for which it is true count.
    pub filter: Option<Scalar>,
    /// The order of the texts that are joined. Without it they come in the order of the rows.
    pub order: Vec<OutputOrder>,
    /// The text between two texts that are joined.
    pub separator: String,
}

/// The function of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowFunction {
    /// `COUNT(*)`: a BIGINT. The argument is ignored.
    CountRows,
    /// `COUNT(x)`: a BIGINT.
    Count,
    /// `COUNT(DISTINCT x)`: a BIGINT.
    CountDistinct,
    /// `SUM(x)`, exact: a BIGINT for integers up to 32 bits, `DECIMAL(38, 0)` for longer ones, `DECIMAL(38, s)` for a
    /// `DECIMAL(p, s)`, a DOUBLE for a REAL or DOUBLE.
    Sum,
    /// `AVG(x)`: the DOUBLE nearest to sum / count.
    Average,
    /// `MIN(x)`
    Min,
    /// `MAX(x)`
    Max,
    /// `STRING_AGG(x, separator)`: a text.
    Join,
}

impl ReadPlan {
    /// A read of the rows of one access.
    pub fn of_table(access: Access, filter: Option<Scalar>, output: ReadOutput) -> ReadPlan {
        let lookups = vec![NestedLookup::inner(access, None)];
        ReadPlan { lookups, filter, output, for_update: false, rows_max: None, few: None }
    }

    /// A read of one row with these values: `VALUES`.
    pub fn of_values(columns: Vec<Scalar>) -> ReadPlan {
        let output = ReadOutput::Rows(RowOutput::all(columns));
        ReadPlan { lookups: Vec::new(), filter: None, output, for_update: false, rows_max: None, few: None }
    }

    /// The types of the columns of its result.
    pub fn output(&self) -> Vec<SqlType> {
        let rows = match &self.output {
            ReadOutput::Rows(rows) => rows,
            ReadOutput::Groups(groups) => &groups.rows,
        };
        rows.columns.iter().map(|scalar| scalar.kind.clone()).collect()
    }

    /// All tables that it reads.
    pub fn tables(&self) -> Vec<TableId> {
        self.lookups.iter().flat_map(NestedLookup::tables).collect()
    }

    /// Whether any part of it is a recursion.
    pub fn is_recursive(&self) -> bool {
        self.lookups.iter().any(|lookup| {
            matches!(lookup.source, LookupSource::Recursion(_))
                || lookup.source.reads().into_iter().any(ReadPlan::is_recursive)
        })
    }
}

impl FewRows {
    /// Whether `rows` matching rows are few. A search that needs `needed` rows visits about `table_rows / rows` rows
    /// for each of them, so it is longer than a read of all matching rows if `rows * rows` is less than
    /// `needed * table_rows`. It must also end before it has visited `searched_max` rows.
    pub fn rows_max(&self, needed: u64, searched_max: u64) -> u64 {
        let searched = needed as f64 * self.table_rows as f64;
        searched.sqrt().max(searched / searched_max.max(1) as f64) as u64
    }
}

impl NestedLookup {
    /// A lookup of the rows of an access that meet a condition.
    pub fn inner(access: Access, condition: Option<Scalar>) -> NestedLookup {
        NestedLookup { kind: LookupKind::Inner, source: LookupSource::Table(access), condition, compared: None }
    }

    /// All tables that it reads.
    pub fn tables(&self) -> Vec<TableId> {
        match &self.source {
            LookupSource::Table(access) => vec![access.table],
            source => source.reads().into_iter().flat_map(ReadPlan::tables).collect(),
        }
    }
}

impl LookupSource {
    /// The reads that make the rows of the source; empty for a table.
    pub fn reads(&self) -> Vec<&ReadPlan> {
        match self {
            LookupSource::Table(_) | LookupSource::LastRound(..) => Vec::new(),
            LookupSource::Reads(reads) => reads.iter().collect(),
            LookupSource::Windows(windows) => vec![&windows.read],
            LookupSource::Recursion(recursion) => recursion.base.iter().chain([&recursion.step]).collect(),
        }
    }

    /// The types of the columns of a source that is not a table. Returns `None` if its reads do not agree on them.
    pub fn columns(&self) -> Option<Vec<SqlType>> {
        if let LookupSource::LastRound(_, kinds) = self {
            return Some(kinds.clone());
        }
        if let LookupSource::Windows(windows) = self {
            return windows.output();
        }
        let reads = self.reads();
        let columns = reads.first()?.output();
        // Texts of different lengths share one Arrow type, so this comparison ignores the lengths.
        let is_same = |output: Vec<SqlType>| {
            output.len() == columns.len()
                && output.iter().zip(&columns).all(|(own, first)| own.arrow() == first.arrow())
        };
        reads.iter().all(|read| is_same(read.output())).then_some(columns)
    }
}

impl RowOutput {
    /// These values of each row, in the order in which the rows are found.
    pub fn all(columns: Vec<Scalar>) -> RowOutput {
        RowOutput { columns, order: Vec::new(), presorted: 0, skip: None, limit: None }
    }
}

impl RowAggregate {
    /// An aggregate without a filter.
    pub fn new(function: RowFunction, argument: Scalar) -> RowAggregate {
        RowAggregate { function, argument, filter: None, order: Vec::new(), separator: String::new() }
    }

    /// The type of the result, or `None` if the function does not take such an argument.
    pub fn kind(&self) -> Option<SqlType> {
        let argument = &self.argument.kind;
        match self.function {
            RowFunction::CountRows | RowFunction::Count => Some(SqlType::Int64),
            RowFunction::CountDistinct => argument.is_ordered().then_some(SqlType::Int64),
            RowFunction::Min | RowFunction::Max => argument.is_ordered().then(|| argument.clone()),
            RowFunction::Sum => sum_kind(argument),
            RowFunction::Average => sum_kind(argument).map(|_| SqlType::Float64),
            RowFunction::Join => matches!(argument, SqlType::Text { .. }).then_some(SqlType::TEXT),
        }
    }
}

/// The type of the exact sum of values of a type, or `None` if such values cannot be added.
pub fn sum_kind(argument: &SqlType) -> Option<SqlType> {
    aggregate::total_kind(&argument.arrow()).as_ref().and_then(SqlType::from_arrow)
}

impl fmt::Display for RowFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RowFunction::CountRows | RowFunction::Count | RowFunction::CountDistinct => "count",
            RowFunction::Sum => "sum",
            RowFunction::Average => "avg",
            RowFunction::Min => "min",
            RowFunction::Max => "max",
            RowFunction::Join => "string_agg",
        })
    }
}
