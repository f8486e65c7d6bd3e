//! The logical plan: the meaning of a query, without decisions about how it runs.
//!
//! Every column that an operator makes has its own [`ColumnId`]. The id must be unique within the statement, and the
//! column keeps it through every operator above. Expressions name columns by id. A rewrite can therefore move
//! expressions and operators without renumbering. A subplan is correlated exactly if it names a column that it does not
//! make; nothing else marks correlation.
//!
//! The inputs of a join must make disjoint columns, and so must all uses of a view or a common table expression.

mod ordered_join;

use arrow::datatypes::{DataType, Field};

pub use self::ordered_join::{LogicalOrderBound, LogicalOrderedChoice, LogicalOrderedJoin};
use crate::{AggregateFunction, CompareOp, Constant, ScalarExpr};

/// A column of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub usize);

/// The properties of a column that hold in every operator that it passes through.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnInfo {
    /// The name as EXPLAIN shows it.
    pub name: String,
    /// The type.
    pub kind: DataType,
    /// The name of the type that the column had where it was made, if `kind` cannot tell it. For example, tables of
    /// `pg_catalog` have numbers of the type `oid`. Only those who send results to others read it.
    pub declared: Option<&'static str>,
}

/// The key of [`ColumnInfo::declared`] in the metadata of a field.
pub const DECLARED_TYPE: &str = "declared_type";

/// The types that [`ColumnInfo::declared`] may name.
const DECLARED_TYPES: [&str; 8] = ["oid", "name", "char", "int2vector", "oidvector", "oid[]", "name[]", "json"];

/// The declared type of the column that a field describes.
pub fn declared_type(field: &Field) -> Option<&'static str> {
    let name = field.metadata().get(DECLARED_TYPE)?;
    DECLARED_TYPES.into_iter().find(|known| known == name)
}

/// The columns of a statement, by their ids.
#[derive(Clone, Debug, Default)]
pub struct ColumnNames(Vec<ColumnInfo>);

impl ColumnNames {
    /// A new column.
    pub fn add(&mut self, name: impl Into<String>, kind: DataType) -> ColumnId {
        self.0.push(ColumnInfo { name: name.into(), kind, declared: None });
        ColumnId(self.0.len() - 1)
    }

    /// Sets the declared type of a column.
    pub fn declare(&mut self, id: ColumnId, declared: Option<&'static str>) {
        self.0[id.0].declared = declared;
    }

    /// A field of a result for a column.
    pub fn field(&self, id: ColumnId, name: &str, nullable: bool) -> Field {
        let info = self.get(id);
        let field = Field::new(name, info.kind.clone(), nullable);
        match info.declared {
            Some(declared) => field.with_metadata([(DECLARED_TYPE.to_owned(), declared.to_owned())].into()),
            None => field,
        }
    }

    /// The properties of a column.
    pub fn get(&self, id: ColumnId) -> &ColumnInfo {
        &self.0[id.0]
    }

    /// A column as an expression.
    pub fn expr(&self, id: ColumnId) -> ScalarExpr {
        ScalarExpr::id(id, self.get(id).kind.clone())
    }
}

/// A query.
#[derive(Clone, Debug)]
pub struct LogicalQuery {
    /// The operators.
    pub root: Logical,
    /// The result's columns in order, with their names as spelled. One column may appear several times.
    pub output: Vec<(ColumnId, String)>,
    /// The columns of all operators.
    pub columns: ColumnNames,
}

/// An operator and its inputs.
#[derive(Clone, Debug, PartialEq)]
pub enum Logical {
    /// Rows of a stored table.
    Scan(LogicalScan),
    /// Rows of something else: a file, a table function, a system view.
    Source(LogicalSource),
    /// Rows that the statement contains: `VALUES`. `SELECT 1` reads one row without columns.
    Values {
        /// The columns.
        columns: Vec<ColumnId>,
        /// The rows, each with an expression per column.
        rows: Vec<Vec<ScalarExpr>>,
    },
    /// Rows for which every condition is true.
    Filter {
        /// The rows.
        input: Box<Logical>,
        /// The conditions, evaluated in order where one can fail.
        conditions: Vec<ScalarExpr>,
    },
    /// The same rows with more columns. The columns of the input stay.
    Map {
        /// The rows.
        input: Box<Logical>,
        /// The new columns, over the columns of the input.
        exprs: Vec<(ColumnId, ScalarExpr)>,
    },
    /// Pairs of rows. The right side may name columns of the left side (LATERAL). It must then be evaluated for each
    /// row of the left side, until unnesting has removed that.
    Join(LogicalJoin),
    /// Rows of one side with the rows of another one that are next to them in an order.
    OrderedJoin(LogicalOrderedJoin),
    /// Rows grouped by keys. The result has the keys and the aggregates.
    Group(LogicalGroup),
    /// The same rows with values computed over other rows. The columns of the input stay.
    Window(LogicalWindow),
    /// Rows in order.
    Sort {
        /// The rows.
        input: Box<Logical>,
        /// The keys that they are ordered by.
        keys: Vec<LogicalSortKey>,
    },
    /// Some of the rows, in the order in which they come.
    Limit {
        /// The rows.
        input: Box<Logical>,
        /// Rows to leave out at the front: a BIGINT without columns. NULL is 0.
        skip: Option<ScalarExpr>,
        /// Rows to give at most after those: a BIGINT without columns. NULL is no limit.
        rows: Option<ScalarExpr>,
    },
    /// One row for each distinct combination of values in `columns`, which are the only columns of the result. With
    /// `on` (`DISTINCT ON`), the first row in the order of the input for each combination of `columns`; all columns
    /// stay.
    Distinct {
        /// The rows.
        input: Box<Logical>,
        /// The columns that are compared; without `on` also the columns of the result.
        columns: Vec<ColumnId>,
        /// Whether it is `DISTINCT ON`.
        on: bool,
    },
    /// `UNION`, `INTERSECT` and `EXCEPT`.
    SetOperation(LogicalSetOperation),
    /// `WITH RECURSIVE`.
    Recursive {
        /// Names the query for its [`Logical::RecursiveRows`].
        number: usize,
        /// The rows of the first round.
        base: Box<Logical>,
        /// The columns of `base`, in the order of `columns`.
        base_columns: Vec<ColumnId>,
        /// The rows of each later round, over those of the round before.
        step: Box<Logical>,
        /// The columns of `step`, in the order of `columns`.
        step_columns: Vec<ColumnId>,
        /// Whether a row that was given before is left out: `UNION` rather than `UNION ALL`.
        distinct: bool,
        /// The columns of the result.
        columns: Vec<ColumnId>,
    },
    /// The rows of the previous round of the recursive query around it.
    RecursiveRows {
        /// Which query.
        number: usize,
        /// The columns.
        columns: Vec<ColumnId>,
    },
    /// The row of the left side of an enclosing join for which this side is evaluated: the columns that this side
    /// reads of it. The conditions of that join compare them with the columns of the left side. Only programs, which
    /// evaluate a right side row by row, can read it.
    OuterRow {
        /// The columns.
        columns: Vec<ColumnId>,
    },
    /// Rows of a subplan that is computed once and read in several places.
    Shared {
        /// The number of the shared plan. Uses with equal numbers must have equal inputs.
        number: usize,
        /// The subplan. Every reader carries it until lowering, which builds it once.
        input: std::sync::Arc<Logical>,
        /// The columns of `input`, in the order of `columns`.
        input_columns: Vec<ColumnId>,
        /// The columns of this use.
        columns: Vec<ColumnId>,
    },
    /// The row of the input once for each item of its lists: `UNNEST`, `generate_series`. Shorter lists are filled with
    /// NULL.
    Unnest {
        /// The rows.
        input: Box<Logical>,
        /// The lists, and the columns for their items.
        lists: Vec<(ColumnId, ScalarExpr)>,
        /// A column that counts the items from 1, a BIGINT: `WITH ORDINALITY`.
        ordinality: Option<ColumnId>,
        /// Whether a row without items is given once, with NULL in the new columns: `LEFT JOIN UNNEST(...) ON true`.
        outer: bool,
    },
    /// Rows of buckets of time, with rows for the buckets that have none.
    Fill(crate::LogicalFill),
    /// At most one row per combination of the columns `by`, otherwise an error (21000): a scalar subquery. The binder
    /// leaves `by` empty, and unnesting adds columns to it.
    SingleRow {
        /// The rows.
        input: Box<Logical>,
        /// The columns within whose combinations at most one row is allowed; empty for all rows together.
        by: Vec<ColumnId>,
    },
}

/// Rows of a stored table.
#[derive(Clone, Debug, PartialEq)]
pub struct LogicalScan {
    /// The table, by its number among those of the statement.
    pub table: usize,
    /// The columns, with their positions in the table's definition. Pruning removes those that are not read.
    pub columns: Vec<(ColumnId, usize)>,
    /// Conditions on the rows, over the columns of the table that are in `columns`.
    pub conditions: Vec<ScalarExpr>,
    /// A column with the numbers of the rows (BIGINT UNSIGNED), for UPDATE and DELETE.
    pub row_number: Option<ColumnId>,
}

/// Rows of something that is not a stored table.
#[derive(Clone, Debug, PartialEq)]
pub struct LogicalSource {
    /// The source, by its number among those of the statement.
    pub source: usize,
    /// The columns, with their positions in the source.
    pub columns: Vec<(ColumnId, usize)>,
    /// Conditions on the rows, over `columns`.
    pub conditions: Vec<ScalarExpr>,
}

/// Pairs of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct LogicalJoin {
    /// Which rows are given.
    pub kind: LogicalJoinKind,
    /// The left side.
    pub left: Box<Logical>,
    /// The right side.
    pub right: Box<Logical>,
    /// The conditions that must be true of a pair, over the columns of both sides.
    pub conditions: Vec<ScalarExpr>,
    /// For `Mark` and `Anti`: comparisons in three-valued logic for the pairs that meet `conditions`, as `IN` and
    /// `NOT IN` do. A pair matches if all of it is true; it may match if it is NULL. A mark is NULL if a pair may match
    /// and none does; an anti join gives the rows of the left side without a pair that matches or may match. Empty for
    /// the other kinds.
    pub compared: Vec<ScalarExpr>,
}

/// Which rows a join gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogicalJoinKind {
    /// Every pair that matches. Without conditions every pair.
    Inner,
    /// Every pair that matches, and the rows of the left side without a match, with NULL in the columns of the right.
    Left,
    /// Every pair that matches, and the rows of both sides without a match.
    Full,
    /// The rows of the left side with a match; the columns of the left side.
    Semi,
    /// The rows of the left side without a match; the columns of the left side.
    Anti,
    /// All rows of the left side, and a BOOLEAN that says whether the row has a match: true; NULL if
    /// [`LogicalJoin::compared`] is NULL for a pair and true for none; otherwise false. The columns of the left side
    /// and the mark.
    Mark(ColumnId),
    /// All rows of the left side with the columns of the one row of the right side that matches, or NULL. More than one
    /// match is an error (21000): a scalar subquery.
    Single,
}

/// Rows grouped by keys.
#[derive(Clone, Debug, PartialEq)]
pub struct LogicalGroup {
    /// The rows.
    pub input: Box<Logical>,
    /// The keys, over the columns of the input. A key that is a column of the input still gets a new id.
    pub keys: Vec<(ColumnId, ScalarExpr)>,
    /// The sets of `GROUPING SETS`, each as positions in `keys`; absent for a plain GROUP BY. A key that is not in a
    /// set is NULL in the groups of that set. Without keys and without sets, all rows are one group, even if the input
    /// is empty.
    pub sets: Option<Vec<Vec<usize>>>,
    /// A column with the position in `sets` of the set that a group belongs to (BIGINT UNSIGNED), for `GROUPING()`.
    pub set: Option<ColumnId>,
    /// The aggregates.
    pub aggregates: Vec<(ColumnId, AggregateCall)>,
}

/// An aggregate over the rows of a group, or over a frame of a window.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateCall {
    /// The aggregate to compute.
    pub function: AggregateFunction,
    /// The values that it reads; empty for `count(*)`. Further arguments follow, such as the second one of `corr`.
    pub arguments: Vec<ScalarExpr>,
    /// A constant that the function needs in addition to its arguments: the separator of `string_agg`, the share of
    /// `percentile_cont`, or the place of `nth_value`.
    pub parameter: Option<Constant>,
    /// Whether each value counts once.
    pub distinct: bool,
    /// The order in which the values come.
    pub order: Vec<LogicalSortKey>,
    /// `IGNORE NULLS`
    pub skips_nulls: bool,
    /// The rows that count: `FILTER (WHERE ...)`.
    pub filter: Option<ScalarExpr>,
    /// The type of the result.
    pub kind: DataType,
}

/// Values computed over other rows.
#[derive(Clone, Debug, PartialEq)]
pub struct LogicalWindow {
    /// The rows.
    pub input: Box<Logical>,
    /// The expressions whose values put rows into one partition.
    pub partition: Vec<ScalarExpr>,
    /// The order within a partition.
    pub order: Vec<LogicalSortKey>,
    /// The values, all over this partition and order.
    pub calls: Vec<(ColumnId, LogicalWindowCall)>,
    /// A limit that a filter above puts on one of the calls: the window need not give rows beyond it.
    pub top: Option<WindowTop>,
}

/// Which rows of each partition a filter above a window keeps at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowTop {
    /// `row_number`, `rank` or `dense_rank`.
    pub call: ColumnId,
    /// The greatest value of the call that the filter keeps.
    pub most: u64,
}

/// A value computed over a frame of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct LogicalWindowCall {
    /// The function to compute.
    pub function: LogicalWindowFunction,
    /// The frame.
    pub frame: WindowFrame<ScalarExpr>,
}

impl LogicalWindowCall {
    /// `row_number()`
    pub fn row_number() -> LogicalWindowCall {
        let function = LogicalWindowFunction::Rank(RankFunction::RowNumber);
        LogicalWindowCall { function, frame: WindowFrame::up_to_current(FrameUnit::Rows) }
    }
}

/// The function that a window computes.
#[derive(Clone, Debug, PartialEq)]
pub enum LogicalWindowFunction {
    /// An aggregate over the frame.
    Aggregate(AggregateCall),
    /// `row_number`, `rank`, `dense_rank`, `percent_rank` or `cume_dist`.
    Rank(RankFunction),
    /// `ntile(parts)`
    Ntile(ScalarExpr),
    /// `lag` and `lead`: the value `offset` rows before or after, or the default where there is no such row.
    Shift {
        /// The value.
        value: ScalarExpr,
        /// How far: a BIGINT.
        offset: Option<ScalarExpr>,
        /// The value where there is no such row, of the type of `value`.
        default: Option<ScalarExpr>,
        /// `lead`
        forward: bool,
        /// `IGNORE NULLS`
        skips_nulls: bool,
    },
    /// `first_value`, `last_value` and `nth_value` over the frame.
    Nth {
        /// The value.
        value: ScalarExpr,
        /// Which row of the frame.
        nth: FrameRow<ScalarExpr>,
        /// `IGNORE NULLS`
        skips_nulls: bool,
    },
}

/// The position of a row in its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RankFunction {
    /// `row_number()`: a BIGINT from 1.
    RowNumber,
    /// `rank()`: a BIGINT, equal for peers, with gaps.
    Rank,
    /// `dense_rank()`: a BIGINT, equal for peers, without gaps.
    DenseRank,
    /// `percent_rank()`: a DOUBLE, `(rank - 1) / (rows - 1)`.
    PercentRank,
    /// `cume_dist()`: a DOUBLE, the share of rows up to the last peer.
    CumulativeShare,
}

/// The percent rank of a row with `before` rows before its peers, among `rows` rows.
pub fn share_of_rank(before: usize, rows: usize) -> f64 {
    match rows {
        0 | 1 => 0.0,
        rows => before as f64 / (rows - 1) as f64,
    }
}

/// The part of `ntile(parts)` that a row belongs to, counted from 1. `row` counts from 0.
pub fn tile_of_row(row: i64, rows: i64, parts: i64) -> i64 {
    let (size, larger) = (rows / parts, rows % parts);
    // The first `larger` parts have `size + 1` rows, and the others have `size`.
    let rows_of_larger = larger * (size + 1);
    match row < rows_of_larger {
        true => row / (size + 1) + 1,
        false => larger + (row - rows_of_larger) / size.max(1) + 1,
    }
}

/// A row of a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameRow<T> {
    /// The first.
    First,
    /// The last.
    Last,
    /// The nth, a BIGINT from 1.
    Nth(T),
}

/// Which rows around a row a window function reads.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowFrame<T> {
    /// How bounds count.
    pub unit: FrameUnit,
    /// The first row.
    pub start: FrameBound<T>,
    /// The last row.
    pub end: FrameBound<T>,
    /// Which rows are left out of the frame.
    pub exclude: FrameExclude,
}

impl<T> WindowFrame<T> {
    /// All rows of the partition.
    pub const fn whole() -> WindowFrame<T> {
        WindowFrame {
            unit: FrameUnit::Rows,
            start: FrameBound::Unbounded,
            end: FrameBound::Unbounded,
            exclude: FrameExclude::NoOthers,
        }
    }

    /// The rows from the start of the partition to the current row, or with RANGE and GROUPS to its last peer.
    pub const fn up_to_current(unit: FrameUnit) -> WindowFrame<T> {
        WindowFrame { unit, start: FrameBound::Unbounded, end: FrameBound::CurrentRow, exclude: FrameExclude::NoOthers }
    }
}

/// How the bounds of a frame count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameUnit {
    /// Rows.
    Rows,
    /// Groups of peers.
    Groups,
    /// Distances of the one ORDER BY value.
    Range,
}

/// A bound of a frame. An offset must not be negative or NULL; the window checks that when it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameBound<T> {
    /// `UNBOUNDED PRECEDING` as a start, `UNBOUNDED FOLLOWING` as an end.
    Unbounded,
    /// `offset PRECEDING`: a BIGINT for rows and groups; for RANGE the distance that is subtracted from the ORDER BY
    /// value.
    Preceding(T),
    /// `CURRENT ROW`: the row itself, or with RANGE and GROUPS its first or last peer.
    CurrentRow,
    /// `offset FOLLOWING`
    Following(T),
}

/// Which rows are left out of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameExclude {
    /// None.
    NoOthers,
    /// The row itself.
    CurrentRow,
    /// The row and its peers.
    Group,
    /// The peers of the row, but not the row.
    Ties,
}

/// One of the values that rows are ordered by.
#[derive(Clone, Debug, PartialEq)]
pub struct LogicalSortKey {
    /// The value.
    pub expr: ScalarExpr,
    /// `DESC`
    pub descending: bool,
    /// `NULLS FIRST`
    pub nulls_first: bool,
}

/// `UNION`, `INTERSECT` and `EXCEPT`. Column `i` of the result comes from column `i` of each input, of the same type.
#[derive(Clone, Debug, PartialEq)]
pub struct LogicalSetOperation {
    /// Which operation.
    pub kind: SetOperationKind,
    /// Whether duplicates are kept: `ALL`.
    pub all: bool,
    /// The inputs with their columns, two or more for `UNION`, otherwise two.
    pub inputs: Vec<(Logical, Vec<ColumnId>)>,
    /// The columns of the result.
    pub columns: Vec<ColumnId>,
}

/// A set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetOperationKind {
    /// `UNION`
    Union,
    /// `INTERSECT`
    Intersect,
    /// `EXCEPT`
    Except,
}

/// A subquery within an expression. The columns of two subqueries of a statement always differ, so only copies of one
/// subquery are equal.
#[derive(Clone, Debug, PartialEq)]
pub struct Subquery {
    /// The rows. A column that the plan names but does not make belongs to a query around it.
    pub plan: Logical,
    /// The columns of its rows, in order.
    pub columns: Vec<ColumnId>,
    /// The question that the subquery answers, for example EXISTS.
    pub kind: SubqueryKind,
    /// The values that rows are compared with, for `Quantified`.
    pub left: Vec<ScalarExpr>,
}

/// The question that a subquery answers, for example EXISTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubqueryKind {
    /// The value of the only column of the only row; NULL without a row.
    Scalar,
    /// Whether there is a row: `EXISTS`. `NOT EXISTS` negates it.
    Exists,
    /// `left op ANY (...)`, or with `all` `left op ALL (...)`. `IN` is `= ANY`, `NOT IN` is `<> ALL`.
    Quantified {
        /// How rows are compared.
        op: CompareOp,
        /// Whether it must be true of all rows.
        all: bool,
    },
    /// `ARRAY(SELECT ...)`: the values of the only column as a list, which is empty without rows.
    Array,
}

impl Logical {
    /// One row without columns, as `SELECT` without FROM reads it.
    pub fn one_row() -> Logical {
        Logical::Values { columns: Vec::new(), rows: vec![Vec::new()] }
    }

    /// A join without [`LogicalJoin::compared`].
    pub fn join(kind: LogicalJoinKind, left: Logical, right: Logical, conditions: Vec<ScalarExpr>) -> Logical {
        let (left, right) = (Box::new(left), Box::new(right));
        Logical::Join(LogicalJoin { kind, left, right, conditions, compared: Vec::new() })
    }

    /// The rows of `input` for which every condition is true. Without conditions, `input` itself.
    pub fn filter(input: Logical, conditions: Vec<ScalarExpr>) -> Logical {
        match conditions.is_empty() {
            true => input,
            false => Logical::Filter { input: Box::new(input), conditions },
        }
    }

    /// The rows of `input` with more columns. Without new columns, `input` itself.
    pub fn map(input: Logical, exprs: Vec<(ColumnId, ScalarExpr)>) -> Logical {
        match exprs.is_empty() {
            true => input,
            false => Logical::Map { input: Box::new(input), exprs },
        }
    }

    /// An empty result with these columns.
    pub fn no_rows(columns: Vec<ColumnId>) -> Logical {
        Logical::Values { columns, rows: Vec::new() }
    }
}
