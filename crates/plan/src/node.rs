//! The native physical plan: a tree of operators.
//!
//! The columns of an operator's result are numbered from 0. An [`Expr`] of an operator refers to the columns of its
//! input. Tables and functions are named by their positions in lists that travel beside the plan, so a plan can
//! outlive the snapshot and the statement for which it was made.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;

use crate::{CompareOp, Expr, Fill, Group, OrderedJoin, Predicate, Window};

/// An operator and its inputs.
#[derive(Clone, Debug)]
pub enum Node {
    /// Rows of a stored table.
    Scan(Scan),
    /// The newest row of each combination of keys of a stored table.
    Latest(Latest),
    /// Rows for which a condition is true.
    Filter {
        /// The rows.
        input: Arc<Node>,
        /// The condition, a boolean.
        condition: Expr,
        /// Estimated rows of the result, if the planner could estimate the condition.
        rows: Option<f64>,
    },
    /// New columns for the same rows.
    Project {
        /// The rows.
        input: Arc<Node>,
        /// The columns.
        exprs: Vec<Expr>,
        /// The result.
        schema: SchemaRef,
    },
    /// Each row once per set of keys, so one grouping computes all sets.
    Expand(Expand),
    /// Rows grouped by keys: the result has the keys, then the aggregates.
    Group {
        /// The rows.
        input: Arc<Node>,
        /// Keys and aggregates.
        group: Group,
        /// Estimated number of groups, if the planner could estimate the keys.
        rows: Option<f64>,
        /// The result.
        schema: SchemaRef,
    },
    /// Pairs of rows of two inputs.
    Join(Join),
    /// Rows with rows of another input that an order chooses.
    OrderedJoin(OrderedJoin),
    /// Rows with values computed over other rows.
    Window(Window),
    /// Rows in order.
    Sort {
        /// The rows.
        input: Arc<Node>,
        /// The columns that the rows are ordered by.
        keys: Vec<SortKey>,
        /// Rows to skip at the front.
        skip: usize,
        /// Rows to give at most after those; absent for no limit.
        rows: Option<usize>,
        /// Estimated number of rows of the input, if it is a scan with conditions.
        rows_below: Option<f64>,
    },
    /// The rows of all inputs.
    Union {
        /// The inputs, whose columns must have the types of `schema`.
        inputs: Vec<Arc<Node>>,
        /// The result.
        schema: SchemaRef,
    },
    /// The rows of a plan that the engine does not run itself.
    Foreign(Foreign),
    /// Some of the rows, in the order in which they come.
    Limit {
        /// The rows.
        input: Arc<Node>,
        /// Rows to skip at the front.
        skip: usize,
        /// Rows to give at most after those; absent for no limit.
        rows: Option<usize>,
    },
    /// `INTERSECT ALL` and `EXCEPT ALL`.
    SetAll(SetAll),
    /// Rows that the plan contains.
    Values {
        /// The rows, whose schema is that of the result.
        rows: RecordBatch,
    },
    /// The rows, with at most one row per combination of values; otherwise an error (21000).
    SingleRow {
        /// The rows.
        input: Arc<Node>,
        /// The columns within whose combinations at most one row is allowed; empty for all rows together. NULL equals
        /// NULL.
        by: Vec<usize>,
    },
    /// The first row of each combination of values, in the order in which they come: `DISTINCT ON` above a sort.
    FirstRows {
        /// The rows.
        input: Arc<Node>,
        /// The columns that are compared. NULL equals NULL.
        by: Vec<usize>,
    },
    /// Each row once for each item of lists.
    Unnest(Unnest),
    /// Each row once for each number or point in time of a series.
    Series(Series),
    /// Rows of buckets of time, with rows for the buckets that have none.
    Fill(Fill),
    /// Rows that are computed once and read in several places.
    Shared {
        /// The number of the shared plan. Nodes with equal numbers must have equal inputs.
        number: usize,
        /// The plan that computes the rows.
        input: Arc<Node>,
    },
    /// `WITH RECURSIVE`.
    Recursive(Recursive),
    /// The rows of the previous round of the recursive query around it.
    RecursiveRows {
        /// Which query, by [`Recursive::number`].
        number: usize,
        /// The result.
        schema: SchemaRef,
    },
}

/// Rows of one input, kept by how often they occur in another one. NULL equals NULL.
#[derive(Clone, Debug)]
pub struct SetAll {
    /// The rows that the result takes.
    pub left: Arc<Node>,
    /// The rows that are counted. Their columns must have the types of `left`.
    pub right: Arc<Node>,
    /// `EXCEPT ALL`: if a row occurs `m` times in `left` and `n` times in `right`, the result has it `m - n` times.
    /// Otherwise `INTERSECT ALL`: the result has it `min(m, n)` times.
    pub except: bool,
}

/// Each row once for each item of lists. Shorter lists are filled with NULL, and NULL counts as an empty list.
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

/// Each row once for each number or point in time of a series: BIGINTs with BIGINT steps, or timestamps with INTERVAL
/// steps. A row gives nothing if a bound or the step is NULL.
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
    /// The column of the last value or its bound.
    pub stop: usize,
    /// The column of the step, which may be negative but must not be zero. Without it, the step is 1.
    pub step: Option<usize>,
    /// Whether the bound is in the series: `generate_series` rather than `range`.
    pub inclusive: bool,
    /// The result.
    pub schema: SchemaRef,
}

/// A recursive query: `base` gives the rows of the first round, and `step` computes each later round from the round
/// before, until a round has no rows.
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
    /// The result. The columns of `base` and of `step` must have its types.
    pub schema: SchemaRef,
}

/// Rows of a stored table.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The table, by its position in the list of the plan.
    pub table: usize,
    /// The result's columns, by their positions in the table's definition.
    pub columns: Vec<usize>,
    /// Conditions that must all be true. Their columns are positions in the table's definition.
    pub predicates: Vec<Predicate>,
    /// Whether the last column holds the row numbers (BIGINT UNSIGNED), or, for a keyed table, the row keys (BLOB).
    pub row_number: bool,
    /// The result.
    pub schema: SchemaRef,
}

/// The newest row of each combination of keys of a columnar table: the one with the greatest time, and of those the one
/// with the greatest row number. NULL is a key.
#[derive(Clone, Debug)]
pub struct Latest {
    /// The rows, without conditions.
    pub scan: Scan,
    /// The keys, by their positions in the result of the scan.
    pub keys: Vec<usize>,
    /// The time, by its position in the result of the scan: a date or timestamp that is never NULL.
    pub time: usize,
}

/// Rows of a plan that the engine does not run.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// The plan, by its number in the list that travels beside this plan.
    pub plan: usize,
    /// Estimated rows.
    pub rows: u64,
    /// The result.
    pub schema: SchemaRef,
}

/// Each row once per set of keys, with NULL in place of the keys that are not in the set.
///
/// The result has the columns of the input and then the number of the set. The number must be a grouping key too,
/// because only it tells a NULL of a set from a NULL of a key.
#[derive(Clone, Debug)]
pub struct Expand {
    /// The rows; their first columns are the keys.
    pub input: Arc<Node>,
    /// The sets.
    pub sets: Vec<KeySet>,
    /// The result. Its last column is an unsigned integer.
    pub schema: SchemaRef,
}

/// One set of `GROUPING SETS`, over the first columns of the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet {
    /// For each key column, whether it is in the set.
    pub columns: Vec<bool>,
    /// The number of the set, which must be unique.
    pub number: u64,
}

/// A join of two inputs by equal keys.
#[derive(Clone, Debug)]
pub struct Join {
    /// The build side: its rows are kept in memory, in a hash table by their keys.
    pub build: Arc<Node>,
    /// The probe side: each of its rows is looked up in the hash table.
    pub probe: Arc<Node>,
    /// Which rows are given.
    pub kind: JoinKind,
    /// The keys: pairs of a column of `build` and a column of `probe`, which must have the same type or be signed
    /// integers.
    pub on: Vec<(usize, usize)>,
    /// Whether NULL equals NULL.
    pub nulls_equal: bool,
    /// Whether an anti join computes `NOT IN`: it gives no row at all if a key of `build` is NULL.
    pub null_aware: bool,
    /// A further condition, over the columns of `build` followed by those of `probe`.
    pub condition: Option<Expr>,
    /// Bounds that every pair meets because of the condition, if there are no keys. They need not be all of them.
    pub bounds: Vec<JoinBound>,
    /// The columns of the result, as positions in the columns of `build` followed by those of `probe`.
    pub output: Vec<usize>,
    /// Estimated rows of the result, if a join order was chosen by it.
    pub rows: Option<f64>,
    /// The result.
    pub schema: SchemaRef,
}

/// A comparison of a column of the build side with one of the probe side, which have the same type or are signed
/// integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinBound {
    /// A column of the build side.
    pub build: usize,
    /// How the column of the build side compares with the one of the probe side. It is no equality.
    pub op: CompareOp,
    /// A column of the probe side.
    pub probe: usize,
}

/// Which rows a join gives. Two rows match if their keys are equal and the condition is true for the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JoinKind {
    /// Every pair of rows that match.
    Inner,
    /// Every pair that matches, and rows of the probe side without a match, with NULL in the columns of the build side.
    ProbeOuter,
    /// Every pair that matches, and rows of the build side without a match, with NULL in the columns of the probe side.
    BuildOuter,
    /// Every pair that matches, and rows of both sides without a match.
    FullOuter,
    /// Rows of the probe side with a match.
    ProbeSemi,
    /// Rows of the probe side without a match.
    ProbeAnti,
    /// Rows of the build side with a match.
    BuildSemi,
    /// Rows of the build side without a match.
    BuildAnti,
    /// All rows of the probe side, with a last column (Boolean) that says whether the row has a match.
    ProbeMark,
    /// All rows of the probe side, with a last column (Boolean) that says in three-valued logic whether the row has a
    /// match: true if keys and condition are true for a pair, otherwise NULL if they are NULL for a pair, otherwise
    /// false. Keys are compared by `=` unless `nulls_equal` is set. `null_aware` has no effect.
    ProbeTruth,
    /// Every pair that matches, and rows of the probe side without a match, with NULL in the columns of the build side.
    /// A second match of a row is an error (21000). This computes a scalar subquery.
    ProbeSingle,
}

impl JoinKind {
    /// Whether a row of the result has columns of both sides.
    pub fn gives_pairs(self) -> bool {
        self == JoinKind::Inner || self.fills_build() || self.fills_probe()
    }

    /// Whether the result has rows with NULL in all columns of the build side, for probe rows without a match.
    pub(crate) fn fills_build(self) -> bool {
        matches!(self, JoinKind::ProbeOuter | JoinKind::ProbeSingle | JoinKind::FullOuter)
    }

    /// Whether the result has rows with NULL in all columns of the probe side, for build rows without a match.
    pub(crate) fn fills_probe(self) -> bool {
        matches!(self, JoinKind::BuildOuter | JoinKind::FullOuter)
    }

    /// Whether the last column of the result says which rows have a match.
    pub fn has_mark(self) -> bool {
        matches!(self, JoinKind::ProbeMark | JoinKind::ProbeTruth)
    }

    /// Whether the result can have rows of the probe side without a match.
    pub fn keeps_probe(self) -> bool {
        self.fills_build() || self.has_mark() || self == JoinKind::ProbeAnti
    }

    /// Whether the join must remember for each build row if it has a match.
    pub fn marks_build(self) -> bool {
        matches!(self, JoinKind::BuildOuter | JoinKind::FullOuter | JoinKind::BuildSemi | JoinKind::BuildAnti)
    }

    /// Whether the join only needs to know for each probe row if it has a match, so it can stop at the first one.
    pub fn asks_of_probe(self) -> bool {
        self.has_mark() || matches!(self, JoinKind::ProbeSemi | JoinKind::ProbeAnti)
    }

    /// Whether the result has columns of the build side.
    pub fn has_build_columns(self) -> bool {
        self.gives_pairs() || matches!(self, JoinKind::BuildSemi | JoinKind::BuildAnti)
    }

    /// Whether the result has columns of the probe side.
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
            Node::Scan(scan) | Node::Latest(Latest { scan, .. }) => &scan.schema,
            Node::Project { schema, .. } | Node::Group { schema, .. } | Node::Union { schema, .. } => schema,
            Node::Expand(Expand { schema, .. })
            | Node::Join(Join { schema, .. })
            | Node::OrderedJoin(OrderedJoin { schema, .. })
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
            | Node::Fill(Fill { schema, .. })
            | Node::Recursive(Recursive { schema, .. })
            | Node::RecursiveRows { schema, .. } => schema,
        }
    }

    /// Whether a column of the result can be NULL. We assume that every function can return NULL.
    pub fn is_nullable(&self, column: usize) -> bool {
        let of = |input: &Node, expr: Expr| match expr {
            Expr::Column(column) => input.is_nullable(column),
            Expr::Function(_) => true,
        };
        match self {
            Node::Scan(scan) | Node::Latest(Latest { scan, .. }) => scan.schema.field(column).is_nullable(),
            Node::Project { input, exprs, .. } => of(input, exprs[column]),
            Node::Group { group, .. } => match column.checked_sub(group.keys.len()) {
                None => group.keys[column].nullable,
                Some(aggregate) => !group.aggregates[aggregate].function.is_zero_of_nothing,
            },
            Node::Expand(expand) => expand.is_nullable(column),
            Node::Join(join) => join.is_nullable(join.output[column]),
            Node::OrderedJoin(join) => join.is_nullable(column),
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
            // A key has the values of the input. Other columns may be NULL in the rows that are added.
            Node::Fill(fill) => {
                let column = fill.keep[column];
                let stays = fill.keys.contains(&column) || column == fill.bucket;
                !stays || fill.input.is_nullable(column)
            }
            // A later round may give NULL even if the first one does not.
            Node::Recursive(_) | Node::RecursiveRows { .. } => true,
        }
    }

    /// Calls `each` with this operator and all operators below it, an operator before its inputs.
    pub fn each<'a>(&'a self, each: &mut dyn FnMut(&'a Node)) {
        each(self);
        self.inputs().into_iter().for_each(|input| input.each(each));
    }

    /// The inputs of the operator.
    pub fn inputs(&self) -> Vec<&Node> {
        match self {
            Node::Scan(_) | Node::Latest(_) | Node::Foreign(_) => Vec::new(),
            Node::Filter { input, .. }
            | Node::Project { input, .. }
            | Node::Group { input, .. }
            | Node::Sort { input, .. }
            | Node::Limit { input, .. } => vec![input],
            Node::Expand(expand) => vec![&expand.input],
            Node::Window(window) => vec![&window.input],
            Node::Join(join) => vec![&join.build, &join.probe],
            Node::OrderedJoin(join) => vec![&join.left, &join.right],
            Node::Union { inputs, .. } => inputs.iter().map(|input| &**input).collect(),
            Node::SingleRow { input, .. } | Node::FirstRows { input, .. } | Node::Shared { input, .. } => vec![input],
            Node::SetAll(set) => vec![&set.left, &set.right],
            Node::Unnest(unnest) => vec![&unnest.input],
            Node::Series(series) => vec![&series.input],
            Node::Fill(fill) => vec![&fill.input],
            Node::Recursive(recursive) => vec![&recursive.base, &recursive.step],
            Node::Values { .. } | Node::RecursiveRows { .. } => Vec::new(),
        }
    }
}

impl Unnest {
    fn is_nullable(&self, column: usize) -> bool {
        match self.keep.get(column) {
            Some(kept) => self.input.is_nullable(*kept),
            // The items of a list can be NULL. The ordinality is NULL only in a row that `outer` adds.
            None => self.outer || !self.ordinality || column + 1 < self.schema.fields().len(),
        }
    }
}

impl Expand {
    fn is_nullable(&self, column: usize) -> bool {
        let is_set = column + 1 == self.schema.fields().len();
        // A key is NULL in the rows of every set that does not contain it.
        let is_left_out = self.sets.iter().any(|set| set.columns.get(column) == Some(&false));
        is_left_out || !is_set && self.input.is_nullable(column)
    }
}

impl Join {
    /// Number of columns of `build` and `probe` together. If the join has a mark, it comes after them.
    pub fn columns(&self) -> usize {
        self.build.schema().fields().len() + self.probe.schema().fields().len()
    }

    /// Whether a column can be NULL in the result. `column` is a position in the columns of `build` followed by
    /// `probe`.
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
