//! The native physical plan: a tree of operators.
//!
//! The columns of an operator's result are numbered from 0, and an [`Expr`] of an operator speaks of the columns of its
//! input. Tables and functions are named by their places in lists that travel beside the plan, so that a plan outlives
//! the snapshot and the statement that it was made for.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;

use crate::{AggregateFunction, Expr, Group, Predicate, Window};

/// An operator and what it works on.
#[derive(Clone, Debug)]
pub enum Node {
    /// Rows of a stored table.
    Scan(Scan),
    /// Rows for which a condition is true.
    Filter {
        /// The rows.
        input: Arc<Node>,
        /// The condition, a boolean.
        condition: Expr,
        /// Rows of the result, about, where the planner knew the condition.
        rows: Option<f64>,
    },
    /// Other columns for the same rows.
    Project {
        /// The rows.
        input: Arc<Node>,
        /// The columns.
        exprs: Vec<Expr>,
        /// The result.
        schema: SchemaRef,
    },
    /// Rows as often as there are sets of keys, to be grouped by all of them at once.
    Expand(Expand),
    /// Rows put together by keys: the keys, then the aggregates.
    Group {
        /// The rows.
        input: Arc<Node>,
        /// Keys and aggregates.
        group: Group,
        /// Groups, about, where the planner knew the keys.
        rows: Option<f64>,
        /// The result.
        schema: SchemaRef,
    },
    /// Rows of two inputs side by side.
    Join(Join),
    /// Rows with values computed over other rows.
    Window(Window),
    /// Rows in order.
    Sort {
        /// The rows.
        input: Arc<Node>,
        /// What they are ordered by.
        keys: Vec<SortKey>,
        /// Rows that are left out at the front.
        skip: usize,
        /// Rows behind those that are given at most.
        rows: Option<usize>,
    },
    /// The rows of all inputs.
    Union {
        /// Inputs, whose columns have the types of `schema`.
        inputs: Vec<Arc<Node>>,
        /// The result.
        schema: SchemaRef,
    },
    /// What a plan gives that the engine does not run.
    Foreign(Foreign),
    /// Some of the rows, in the order in which they come.
    Limit {
        /// The rows.
        input: Arc<Node>,
        /// Rows that are left out at the front.
        skip: usize,
        /// Rows behind those that are given at most.
        rows: Option<usize>,
    },
    /// `INTERSECT ALL` and `EXCEPT ALL`.
    SetAll(SetAll),
    /// Rows that the plan contains.
    Values {
        /// The rows, whose schema is that of the result.
        rows: RecordBatch,
    },
    /// The rows, of which at most one is allowed per combination of values; more are an error (21000).
    SingleRow {
        /// The rows.
        input: Arc<Node>,
        /// The columns within whose combinations at most one row is allowed; none for all rows together. NULL equals NULL.
        by: Vec<usize>,
    },
    /// The first row of each combination of values, in the order in which they come: `DISTINCT ON` above a sort.
    FirstRows {
        /// The rows.
        input: Arc<Node>,
        /// The columns that are compared. NULL equals NULL.
        by: Vec<usize>,
    },
    /// Rows once for each item of lists.
    Unnest(Unnest),
    /// Rows once for each number or point in time of a series.
    Series(Series),
    /// Rows that are computed once and read in several places.
    Shared {
        /// Which rows: nodes of equal numbers have equal inputs.
        number: usize,
        /// What computes them.
        input: Arc<Node>,
    },
    /// `WITH RECURSIVE`.
    Recursive(Recursive),
    /// The rows of the last round of the recursive query around it.
    RecursiveRows {
        /// Which query, by [`Recursive::number`].
        number: usize,
        /// The result.
        schema: SchemaRef,
    },
}

/// Rows of one input by how often they are in another one. NULL equals NULL.
#[derive(Clone, Debug)]
pub struct SetAll {
    /// The rows that are given.
    pub left: Arc<Node>,
    /// The rows that are counted, whose columns have the types of `left`.
    pub right: Arc<Node>,
    /// `EXCEPT ALL`: a row is given as often as it is more often in `left` than in `right`. Otherwise `INTERSECT ALL`: as
    /// often as it is in both.
    pub except: bool,
}

/// Rows once for each item of lists. Shorter lists are filled with NULL; NULL is an empty list.
///
/// The result has the columns that are kept, then the items of each list, then the ordinality if there is one.
#[derive(Clone, Debug)]
pub struct Unnest {
    /// The rows.
    pub input: Arc<Node>,
    /// The columns of the input that stay.
    pub keep: Vec<usize>,
    /// The columns of the input that are lists.
    pub lists: Vec<usize>,
    /// Whether a last column (BIGINT) counts the items of each row from 1.
    pub ordinality: bool,
    /// Whether a row without items is given once, with NULL in the new columns.
    pub outer: bool,
    /// The result.
    pub schema: SchemaRef,
}

/// Rows once for each number or point in time of a series: BIGINT with steps of BIGINT, or timestamps with steps of
/// INTERVAL. A row with a NULL among the bounds and the step has none.
///
/// The result has the columns that are kept, then the value.
#[derive(Clone, Debug)]
pub struct Series {
    /// The rows.
    pub input: Arc<Node>,
    /// The columns of the input that stay.
    pub keep: Vec<usize>,
    /// The column of the first value.
    pub start: usize,
    /// The column of the bound.
    pub stop: usize,
    /// The column of what is added from value to value, which may be negative and must not be zero; 1 if absent.
    pub step: Option<usize>,
    /// Whether the bound is in the series: `generate_series` rather than `range`.
    pub inclusive: bool,
    /// The result.
    pub schema: SchemaRef,
}

/// A query over its own rows: `base` gives those of the first round, and `step` those of each later one, until a round
/// gives none.
#[derive(Clone, Debug)]
pub struct Recursive {
    /// Names the query for its [`Node::RecursiveRows`].
    pub number: usize,
    /// The rows of the first round.
    pub base: Arc<Node>,
    /// The rows of each later round, over those of the round before.
    pub step: Arc<Node>,
    /// Whether a row that was given before is left out: `UNION` rather than `UNION ALL`.
    pub distinct: bool,
    /// The result; the columns of `base` and of `step` have its types.
    pub schema: SchemaRef,
}

/// Rows of a stored table.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The table, by its place among those of the plan.
    pub table: usize,
    /// The result's columns, by their positions in the table's definition.
    pub columns: Vec<usize>,
    /// Conditions that all have to be true; their columns are positions in the table's definition.
    pub predicates: Vec<Predicate>,
    /// Whether the numbers of the rows are a last column (BIGINT UNSIGNED); of a keyed table its keys (BLOB).
    pub row_number: bool,
    /// The result.
    pub schema: SchemaRef,
}

/// Rows of a plan that the engine does not run.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// The plan, by its number among those that travel beside this one.
    pub plan: usize,
    /// Rows that are expected.
    pub rows: u64,
    /// The result.
    pub schema: SchemaRef,
}

/// Rows as often as there are sets of keys, each time with NULL in place of the keys that are not in the set.
///
/// The result has the columns of the input and behind them the number of the set, which tells the NULLs of sets from
/// those of keys.
#[derive(Clone, Debug)]
pub struct Expand {
    /// The rows; their first columns are the keys.
    pub input: Arc<Node>,
    /// The sets.
    pub sets: Vec<KeySet>,
    /// The result. The last column is of integers without a sign.
    pub schema: SchemaRef,
}

/// Some of the first columns of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet {
    /// By column whether it is in the set.
    pub columns: Vec<bool>,
    /// The number of the set, which no other one has.
    pub number: u64,
}

/// Rows of two inputs side by side, where keys are equal.
#[derive(Clone, Debug)]
pub struct Join {
    /// The rows that are kept in memory, by their keys.
    pub build: Arc<Node>,
    /// The rows that are looked up among them.
    pub probe: Arc<Node>,
    /// Which rows are given.
    pub kind: JoinKind,
    /// What has to be equal: columns of `build` and of `probe`, of the same types.
    pub on: Vec<(usize, usize)>,
    /// Whether NULL equals NULL.
    pub nulls_equal: bool,
    /// Whether an anti join answers `NOT IN`: no row is given once there is a NULL among the keys of `build`.
    pub null_aware: bool,
    /// What has to be true besides, over the columns of `build` and, behind them, of `probe`.
    pub condition: Option<Expr>,
    /// The result's columns, among those of `build` and, behind them, of `probe`.
    pub output: Vec<usize>,
    /// Rows of the result, about, where an order of joins was chosen by it.
    pub rows: Option<f64>,
    /// The result.
    pub schema: SchemaRef,
}

/// Which rows a join gives. Two rows match if their keys are equal and the condition is true of both together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JoinKind {
    /// Every pair of rows that match.
    Inner,
    /// Every pair, and rows of the probe side without a match, with NULL beside them.
    ProbeOuter,
    /// Every pair, and rows of the build side without a match, with NULL beside them.
    BuildOuter,
    /// Every pair, and rows of both sides without a match.
    FullOuter,
    /// Rows of the probe side with a match.
    ProbeSemi,
    /// Rows of the probe side without a match.
    ProbeAnti,
    /// Rows of the build side with a match.
    BuildSemi,
    /// Rows of the build side without a match.
    BuildAnti,
    /// All rows of the probe side, and as a last column (Boolean) whether each has a match.
    ProbeMark,
    /// All rows of the probe side, and as a last column (Boolean) whether each has a match in three-valued logic: true if
    /// equality of keys and condition are true of a pair, otherwise NULL if they are NULL for one, otherwise false. Keys are
    /// compared by `=` unless `nulls_equal` is set; `null_aware` says nothing more.
    ProbeTruth,
    /// As [`JoinKind::ProbeOuter`], but a second match of a row of the probe side is an error (21000): a scalar subquery.
    ProbeSingle,
}

impl JoinKind {
    /// Whether rows of both sides stand side by side in the result.
    pub fn gives_pairs(self) -> bool {
        self == JoinKind::Inner || self.fills_build() || self.fills_probe()
    }

    /// Whether NULLs stand in the columns of the build side beside rows of the probe side without a match.
    pub fn fills_build(self) -> bool {
        matches!(self, JoinKind::ProbeOuter | JoinKind::ProbeSingle | JoinKind::FullOuter)
    }

    /// Whether NULLs stand in the columns of the probe side beside rows of the build side without a match.
    pub fn fills_probe(self) -> bool {
        matches!(self, JoinKind::BuildOuter | JoinKind::FullOuter)
    }

    /// Whether the last column says which rows have a match.
    pub fn has_mark(self) -> bool {
        matches!(self, JoinKind::ProbeMark | JoinKind::ProbeTruth)
    }

    /// Whether rows of the probe side may come out that have no match.
    pub fn keeps_probe(self) -> bool {
        self.fills_build() || self.has_mark() || self == JoinKind::ProbeAnti
    }

    /// Whether it has to be known of each row of the build side if it has a match.
    pub fn marks_build(self) -> bool {
        matches!(self, JoinKind::BuildOuter | JoinKind::FullOuter | JoinKind::BuildSemi | JoinKind::BuildAnti)
    }

    /// Whether it has to be known of each row of the probe side if it has a match, and no more.
    pub fn asks_of_probe(self) -> bool {
        self.has_mark() || matches!(self, JoinKind::ProbeSemi | JoinKind::ProbeAnti)
    }

    /// Whether columns of the build side are in the result.
    pub fn has_build_columns(self) -> bool {
        self.gives_pairs() || matches!(self, JoinKind::BuildSemi | JoinKind::BuildAnti)
    }

    /// Whether columns of the probe side are in the result.
    pub fn has_probe_columns(self) -> bool {
        self.gives_pairs() || self.asks_of_probe()
    }
}

/// One of the columns that rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SortKey {
    /// The column.
    pub column: usize,
    /// `DESC`
    pub descending: bool,
    /// `NULLS FIRST`
    pub nulls_first: bool,
}

impl Node {
    /// The columns of the result.
    pub fn schema(&self) -> &SchemaRef {
        match self {
            Node::Scan(scan) => &scan.schema,
            Node::Project { schema, .. } | Node::Group { schema, .. } | Node::Union { schema, .. } => schema,
            Node::Expand(Expand { schema, .. })
            | Node::Join(Join { schema, .. })
            | Node::Window(Window { schema, .. })
            | Node::Foreign(Foreign { schema, .. }) => schema,
            Node::Filter { input, .. } | Node::Sort { input, .. } | Node::Limit { input, .. } => input.schema(),
            Node::SingleRow { input, .. } | Node::FirstRows { input, .. } | Node::Shared { input, .. } => {
                input.schema()
            }
            Node::Values { rows } => rows.schema_ref(),
            Node::SetAll(set) => set.left.schema(),
            Node::Unnest(Unnest { schema, .. })
            | Node::Series(Series { schema, .. })
            | Node::Recursive(Recursive { schema, .. })
            | Node::RecursiveRows { schema, .. } => schema,
        }
    }

    /// Whether a column of the result can be NULL. Of what a function gives nothing is believed.
    pub fn is_nullable(&self, column: usize) -> bool {
        let of = |input: &Node, expr: Expr| match expr {
            Expr::Column(column) => input.is_nullable(column),
            Expr::Function(_) => true,
        };
        match self {
            Node::Scan(scan) => scan.schema.field(column).is_nullable(),
            Node::Project { input, exprs, .. } => of(input, exprs[column]),
            Node::Group { group, .. } => match column.checked_sub(group.keys.len()) {
                None => group.keys[column].nullable,
                Some(aggregate) => group.aggregates[aggregate].function != AggregateFunction::Count,
            },
            Node::Expand(expand) => expand.is_nullable(column),
            Node::Join(join) => join.is_nullable(join.output[column]),
            Node::Window(window) => window.is_nullable(column),
            Node::Union { inputs, .. } => inputs.iter().any(|input| input.is_nullable(column)),
            Node::Foreign(foreign) => foreign.schema.field(column).is_nullable(),
            Node::Filter { input, .. } | Node::Sort { input, .. } | Node::Limit { input, .. } => {
                input.is_nullable(column)
            }
            Node::SingleRow { input, .. } | Node::FirstRows { input, .. } | Node::Shared { input, .. } => {
                input.is_nullable(column)
            }
            Node::SetAll(set) => set.left.is_nullable(column),
            Node::Values { rows } => rows.column(column).logical_null_count() > 0,
            Node::Unnest(unnest) => unnest.is_nullable(column),
            Node::Series(series) => series.keep.get(column).is_some_and(|column| series.input.is_nullable(*column)),
            Node::Recursive(_) | Node::RecursiveRows { .. } => true,
        }
    }

    /// Calls `each` with this operator and all below it, an operator before its inputs.
    pub fn each<'a>(&'a self, each: &mut dyn FnMut(&'a Node)) {
        each(self);
        self.inputs().into_iter().for_each(|input| input.each(each));
    }

    /// What the operator works on.
    pub fn inputs(&self) -> Vec<&Node> {
        match self {
            Node::Scan(_) | Node::Foreign(_) => Vec::new(),
            Node::Filter { input, .. }
            | Node::Project { input, .. }
            | Node::Group { input, .. }
            | Node::Sort { input, .. }
            | Node::Limit { input, .. } => vec![input],
            Node::Expand(expand) => vec![&expand.input],
            Node::Window(window) => vec![&window.input],
            Node::Join(join) => vec![&join.build, &join.probe],
            Node::Union { inputs, .. } => inputs.iter().map(|input| &**input).collect(),
            Node::SingleRow { input, .. } | Node::FirstRows { input, .. } | Node::Shared { input, .. } => vec![input],
            Node::SetAll(set) => vec![&set.left, &set.right],
            Node::Unnest(unnest) => vec![&unnest.input],
            Node::Series(series) => vec![&series.input],
            Node::Recursive(recursive) => vec![&recursive.base, &recursive.step],
            Node::Values { .. } | Node::RecursiveRows { .. } => Vec::new(),
        }
    }
}

impl Unnest {
    fn is_nullable(&self, column: usize) -> bool {
        match self.keep.get(column) {
            Some(kept) => self.input.is_nullable(*kept),
            // Items can be NULL, and an ordinality where there is none.
            None => self.outer || !self.ordinality || column + 1 < self.schema.fields().len(),
        }
    }
}

impl Expand {
    fn is_nullable(&self, column: usize) -> bool {
        let is_set = column + 1 == self.schema.fields().len();
        let is_left_out = self.sets.iter().any(|set| set.columns.get(column) == Some(&false));
        is_left_out || !is_set && self.input.is_nullable(column)
    }
}

impl Join {
    /// Columns of `build` and of `probe`; the mark, if there is one, is behind them.
    pub fn columns(&self) -> usize {
        self.build.schema().fields().len() + self.probe.schema().fields().len()
    }

    /// Whether a column can be NULL in the result, by its place among those of `build` and `probe`.
    fn is_nullable(&self, column: usize) -> bool {
        let of_build = self.build.schema().fields().len();
        let of_probe = self.probe.schema().fields().len();
        match self.kind {
            kind if kind.has_mark() && column == of_build + of_probe => true,
            kind if kind.fills_build() && column < of_build => true,
            kind if kind.fills_probe() && column >= of_build => true,
            _ if column < of_build => self.build.is_nullable(column),
            _ => self.probe.is_nullable(column - of_build),
        }
    }
}
