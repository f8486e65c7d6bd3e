//! Eager grouping: a grouping above joins that begins below them.
//!
//! If all aggregates read some of the joined relations, we can group these relations first, by those of their columns
//! that the other joins, conditions and the grouping keys read. All rows of such a group match the same rows of the
//! other relations. The aggregates of the query can therefore be combined from those of the joined groups (Yan and
//! Larson, "Eager Aggregation and Lazy Aggregation", 1995). We do this if the groups are far fewer than the rows and
//! the joins and groupings together should cost less.
//!
//! ```text
//!   group by i.name, sum(s.price)            ->        group by i.name, sum(price)
//!   └─ join s.item = i.id                              └─ join s.item = i.id
//!      ├─ items i                                         ├─ items i
//!      └─ join s.day = d.id                               └─ group by s.item, sum(s.price) AS price
//!         ├─ days d                                          └─ join s.day = d.id
//!         └─ sales s                                            ├─ days d
//!                                                               └─ sales s
//! ```
//!
//! The relations that are grouped first are one relation, or a part of the best tree of joins without eager grouping.

use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_expr::fold::can_fail;
use rowmill_plan::join_order::{self, JoinTree, join_order, tree_cost, tree_cost_above};
use rowmill_plan::logical::{AggregateCall, LogicalGroup};
use rowmill_plan::{self as plan, ColumnId, Node, ScalarExpr, Volatility};

use super::Lowerer;
use super::group::call_exprs;
use super::grouping_sets::{is_of_parts, of_parts};
use super::join_graph::JoinGraph;
use super::relation::{LoweredRelation, RelationSource};
use crate::column_set::{ColumnSet, columns_of};

/// The cost of grouping a row by short keys. The unit is a row that is looked up in a hash table, which takes about 8
/// ns.
const GROUP_COST: f64 = 2.0;
/// Groups from which they leave the cache, so that grouping a row costs more.
const CACHED_GROUPS_MAX: f64 = 4096.0;
/// The additional cost of grouping a row if the groups leave the cache: 40 ns a row for 9,000 and for 61,000 groups.
const UNCACHED_COST: f64 = 3.0;
/// The cost of a text among the keys of a row. Grouping by one and by three texts takes 8 to 35 and 34 ns more than by
/// numbers.
const TEXT_COST: f64 = 2.5;
/// The cost of a text among the keys of a row if there are few groups, because workers number the texts that they have
/// met. 6 million joined rows with two texts of 5 and 7 values are joined and grouped in 26 ns a row.
const FEW_TEXTS_COST: f64 = 1.0;
/// The cost of merging a group of a block: 20 to 25 ns for 210,000 groups in each of 12 blocks.
const MERGED_COST: f64 = 3.0;
/// The bytes of the groups of a block from which they leave the cache, and those that we assume for a key or an
/// aggregate.
const CACHED_BYTES_MAX: f64 = 1_048_576.0;
const WORD_BYTES: f64 = 8.0;
/// The cost of one more grouping, without its rows.
const OPERATOR_COST: f64 = 1_000.0;
/// Groups per row, up to which relations may be grouped first.
const GROUPS_MAX: f64 = 0.5;
/// The cost of the new plan, as a share of the old one, up to which we choose it. It is less than 1 because estimates
/// of groups are uncertain. Joins that both plans have do not count.
const COST_MAX: f64 = 0.8;

/// Rows of joined relations that may be grouped first.
struct EagerGroup {
    /// The joins that remain. One of their relations stands for the rows.
    graph: JoinGraph,
    /// The position of this relation.
    relation: usize,
    /// The rows.
    rows: LoweredRelation,
    /// Their columns that are read above the grouping.
    keys: Vec<ColumnId>,
    /// The estimated cost of the query.
    cost: f64,
}

/// The rows of a part of the joins, before they are grouped.
struct GroupedPart {
    /// The joins that remain. Their first relation stands for the rows.
    graph: JoinGraph,
    rows: LoweredRelation,
    /// The columns of the rows by which they are grouped.
    keys: Vec<ColumnId>,
    /// The estimated number of groups.
    groups: f64,
}

/// The facts about a grouping above joins that decide where it begins.
struct EagerSearch<'g> {
    graph: &'g JoinGraph,
    /// The facts about the graph that decide the order of the joins.
    shape: join_order::JoinGraph,
    /// The keys of the query.
    keys: Vec<ScalarExpr>,
    /// The expressions that the aggregates read.
    exprs: Vec<ScalarExpr>,
    /// The cost of grouping a joined row.
    row_cost: f64,
    /// The cost of the query without eager grouping.
    without: f64,
    /// The cost of the cheapest eager grouping so far.
    cheapest: f64,
}

/// An aggregate that combines the aggregates of groups.
pub(super) struct TotalAggregate {
    /// The aggregate. Its columns are positions in `parts`.
    aggregate: plan::Aggregate,
    /// The partial aggregates of the groups, and the columns that hold them.
    parts: Vec<(plan::Aggregate, ColumnId)>,
}

impl TotalAggregate {
    /// The aggregate over the columns of `rows`.
    fn over(self, rows: &LoweredRelation) -> plan::Aggregate {
        let mut aggregate = self.aggregate;
        each_column(&mut aggregate, |part| position_of(rows, self.parts[part].1));
        aggregate
    }

    /// The aggregate over columns that hold its parts, from the column `first` on.
    pub(super) fn over_columns(self, first: usize) -> plan::Aggregate {
        let mut aggregate = self.aggregate;
        each_column(&mut aggregate, |part| first + part);
        aggregate
    }

    /// The parts of larger groups, combined from the parts in the columns of `rows`.
    pub(super) fn parts_over(&self, rows: &LoweredRelation) -> impl Iterator<Item = plan::Aggregate> {
        self.parts.iter().map(|(part, id)| {
            // A part is itself combined from one part.
            let mut combined = of_parts(part.clone(), 0, &mut Vec::new());
            each_column(&mut combined, |_| position_of(rows, *id));
            combined
        })
    }
}

/// The position of a column that holds a part of an aggregate.
fn position_of(rows: &LoweredRelation, part: ColumnId) -> usize {
    rows.position(part).expect("the rows have all parts of an aggregate")
}

/// Renumbers the columns that a combining aggregate reads.
fn each_column(aggregate: &mut plan::Aggregate, to: impl Fn(usize) -> usize) {
    let argument = aggregate.argument.as_mut().map(|(expr, _)| expr);
    for expr in [argument, aggregate.of_parts.as_mut()].into_iter().flatten() {
        if let plan::Expr::Column(column) = expr {
            *column = to(*column);
        }
    }
}

/// Joined groups, and the aggregates of the query over them.
pub(super) struct EagerRows {
    pub(super) joined: LoweredRelation,
    pub(super) aggregates: Vec<TotalAggregate>,
}

impl EagerSearch<'_> {
    /// Whether `relations` have all columns that the aggregates read.
    fn has_arguments(&self, relations: &[usize]) -> bool {
        let has = |column: usize| {
            relations.iter().any(|relation| self.graph.relations()[*relation].position(ColumnId(column)).is_some())
        };
        !self.exprs.iter().any(|expr| expr.any(&|part| part.as_column().is_some_and(|column| !has(column))))
    }

    /// Whether a query of this cost is cheaper than the cheapest one so far, and than the query without eager grouping.
    /// Both have joins of the cost `common`.
    fn is_cheap(&self, cost: f64, common: f64) -> bool {
        cost < self.cheapest && cost + OPERATOR_COST - common < (self.without - common) * COST_MAX
    }

    /// The columns that are read by joins of `graph`, by conditions or by the keys of the query.
    fn read(&self, graph: &JoinGraph) -> ColumnSet {
        let mut read = graph.read();
        read.add_all(&columns_of(&self.keys));
        read
    }
}

/// The cost of grouping a row by `keys` into `groups` groups.
fn grouping_cost(keys: &[ScalarExpr], groups: f64) -> f64 {
    let texts = keys.iter().filter(|key| matches!(key.kind, DataType::Utf8View | DataType::BinaryView));
    let (uncached, text) = match groups > CACHED_GROUPS_MAX {
        true => (UNCACHED_COST, TEXT_COST),
        false => (0.0, FEW_TEXTS_COST),
    };
    GROUP_COST + uncached + text * texts.count() as f64
}

/// Adds the parts of a tree that have several relations and are not on the right side of an operator.
fn add_parts<'t>(tree: &'t JoinTree, parts: &mut Vec<&'t JoinTree>) {
    let sides = match tree {
        JoinTree::Relation { .. } => return,
        JoinTree::Join(join) => vec![&join.build, &join.probe],
        JoinTree::Operator(join) => vec![&join.left],
    };
    for side in sides {
        if !matches!(side, JoinTree::Relation { .. }) {
            parts.push(side);
            add_parts(side, parts);
        }
    }
}

impl Lowerer<'_> {
    /// Groups some of the joined relations of `input` before the other joins, if that is cheaper. Otherwise returns
    /// `input` unchanged.
    pub(super) fn eager_group(
        &mut self,
        group: &LogicalGroup,
        input: LoweredRelation,
    ) -> Result<std::result::Result<EagerRows, LoweredRelation>> {
        let LoweredRelation { source, ids, derived } = input;
        let RelationSource::Joins(mut graph) = source else { return Ok(Err(LoweredRelation { source, ids, derived })) };
        self.apply_single(&mut graph)?;
        let input = LoweredRelation { source: RelationSource::Joins(graph), ids, derived };
        let Some(eager) = self.cheapest_eager(group, &input)? else { return Ok(Err(input)) };
        let (grouped, aggregates) = self.first_group(group, &input, &eager.rows, &eager.keys)?;
        let mut graph = eager.graph;
        graph.replace(eager.relation, grouped);
        let mut needed: ColumnSet = aggregates.iter().flat_map(|total| total.parts.iter().map(|(_, id)| *id)).collect();
        group.keys.iter().for_each(|(_, key)| needed.add_columns_of(key));
        let ids = graph.ids();
        let joined = LoweredRelation { source: RelationSource::Joins(Box::new(graph)), ids, derived: input.derived };
        let joined = self.settled(joined, &needed)?;
        Ok(Ok(EagerRows { joined, aggregates }))
    }

    /// Chooses the rows whose early grouping makes the query cheapest, if any does.
    fn cheapest_eager(&mut self, group: &LogicalGroup, input: &LoweredRelation) -> Result<Option<EagerGroup>> {
        let RelationSource::Joins(graph) = &input.source else { return Ok(None) };
        let calls = || group.aggregates.iter().map(|(_, call)| call);
        // Only aggregates that combine from parts can be split in two.
        let is_plain = calls().all(|call| is_of_parts(call) && call.order.is_empty());
        let exprs: Vec<ScalarExpr> = calls().flat_map(call_exprs).map(|expr| input.resolve(expr)).collect();
        let keys: Vec<ScalarExpr> = group.keys.iter().map(|(_, key)| input.resolve(key)).collect();
        let may_move = |expr: &ScalarExpr| expr.volatility() < Volatility::Volatile && !can_fail(expr);
        let has_columns = |expr: &ScalarExpr| expr.any(&|part| part.as_column().is_some());
        if !is_plain || graph.relations().len() < 2 || !exprs.iter().all(may_move) || !keys.iter().all(has_columns) {
            return Ok(None);
        }
        let shape = self.shape_of(graph);
        let Some(tree) = join_order(&shape) else { return Ok(None) };
        let values = |key: &ScalarExpr| Some(self.distinct_of(&graph.relations()[graph.relation_of(key)?], key).0);
        let groups = keys.iter().map(|key| values(key).unwrap_or(tree.rows())).product::<f64>().min(tree.rows());
        let row_cost = grouping_cost(&keys, groups);
        let without = tree_cost(&shape, &tree) + row_cost * tree.rows();
        let mut search = EagerSearch { graph, shape, keys, exprs, row_cost, without, cheapest: f64::INFINITY };
        let mut cheapest = None;
        for relation in graph.inner_relations() {
            let eager = self.eager_relation(&search, relation);
            search.cheapest = eager.as_ref().map_or(search.cheapest, |eager| eager.cost);
            cheapest = eager.or(cheapest);
        }
        let mut parts = Vec::new();
        add_parts(&tree, &mut parts);
        for part in parts {
            let relations = part.relations();
            // The cost if the part had no groups.
            let within = tree_cost(&search.shape, part);
            let least = within + GROUP_COST * part.rows() + tree_cost_above(&search.shape, &tree, &relations, 0.0);
            if !search.is_cheap(least, within) || !search.has_arguments(&relations) {
                continue;
            }
            let Some(grouped) = self.grouped_part(&search, part)? else { continue };
            let GroupedPart { graph, rows, keys, groups } = grouped;
            let share = groups / part.rows();
            let columns: Vec<ScalarExpr> = keys.iter().map(|id| self.columns.expr(*id)).collect();
            let cost = within
                + grouping_cost(&columns, groups) * part.rows()
                + tree_cost_above(&search.shape, &tree, &relations, share)
                + row_cost * tree.rows() * share;
            if search.is_cheap(cost, within) {
                search.cheapest = cost;
                cheapest = Some(EagerGroup { graph, relation: 0, rows, keys, cost });
            }
        }
        Ok(cheapest)
    }

    /// The grouping of one relation before all joins, if it is cheap enough.
    fn eager_relation(&self, search: &EagerSearch<'_>, relation: usize) -> Option<EagerGroup> {
        let rows = &search.graph.relations()[relation];
        if !search.has_arguments(&[relation]) {
            return None;
        }
        let read = search.read(search.graph);
        let keys: Vec<ColumnId> = rows.ids.iter().copied().filter(|id| read.contains(*id)).collect();
        let (before, groups) = (self.rows_of(rows), self.groups_of(rows, &keys));
        if keys.is_empty() || groups > before * GROUPS_MAX {
            return None;
        }
        let mut shape = search.shape.clone();
        shape.relations[relation].rows = groups;
        shape.relations[relation].rows_unfiltered = shape.relations[relation].rows_unfiltered.min(groups);
        let tree = join_order(&shape)?;
        let columns: Vec<ScalarExpr> = keys.iter().map(|id| self.columns.expr(*id)).collect();
        let grouping = match &**rows.node() {
            Node::Scan(scan) => self.scan_grouping_cost(scan, rows, &keys, before, search.exprs.len()),
            _ => grouping_cost(&columns, groups) * before,
        };
        let cost = tree_cost(&shape, &tree) + search.row_cost * tree.rows() + grouping;
        let (graph, rows) = (search.graph.clone(), rows.clone());
        search.is_cheap(cost, 0.0).then_some(EagerGroup { graph, relation, rows, keys, cost })
    }

    /// The cost of grouping `before` rows of a scan by the columns `keys`. Blocks are grouped by their codes, and the
    /// groups of all blocks are merged.
    fn scan_grouping_cost(
        &self,
        scan: &plan::Scan,
        rows: &LoweredRelation,
        keys: &[ColumnId],
        before: f64,
        arguments: usize,
    ) -> f64 {
        let places: Option<Vec<usize>> = keys.iter().map(|key| rows.position(*key)).collect();
        let groups = places.and_then(|places| self.estimator.groups_by_block(scan, &places));
        let Some((groups, blocks)) = groups else { return GROUP_COST * before };
        let bytes = groups / blocks * (WORD_BYTES * (keys.len() + arguments) as f64);
        let of_row = GROUP_COST + if bytes > CACHED_BYTES_MAX { UNCACHED_COST } else { 0.0 };
        of_row * before + MERGED_COST * groups
    }

    /// The rows of a part of the joins, to be grouped. `None` if there are too many groups.
    fn grouped_part(&mut self, search: &EagerSearch<'_>, part: &JoinTree) -> Result<Option<GroupedPart>> {
        let any = search.graph.relations()[part.relations()[0]].clone();
        let mut graph = search.graph.contracted(part, any);
        let read = search.read(&graph);
        let mut wanted = read.clone();
        wanted.add_all(&columns_of(&search.exprs));
        let rows = self.in_order(part, search.graph, &wanted)?;
        let keys: Vec<ColumnId> = rows.ids.iter().copied().filter(|id| read.contains(*id)).collect();
        let groups = self.groups_of(&rows, &keys);
        if keys.is_empty() || groups > part.rows() * GROUPS_MAX {
            return Ok(None);
        }
        graph.replace(0, rows.clone());
        Ok(Some(GroupedPart { graph, rows, keys, groups }))
    }

    /// The estimated number of groups of `rows` by columns.
    fn groups_of(&self, rows: &LoweredRelation, keys: &[ColumnId]) -> f64 {
        let columns: Vec<ScalarExpr> = keys.iter().map(|id| self.columns.expr(*id)).collect();
        self.estimator.group_count(rows.node(), &columns, &|id| rows.position(ColumnId(id)))
    }

    /// Groups the relation `own` by the columns `key_ids`. Returns the groups, and the aggregates of the query
    /// over them.
    pub(super) fn first_group(
        &mut self,
        group: &LogicalGroup,
        input: &LoweredRelation,
        own: &LoweredRelation,
        key_ids: &[ColumnId],
    ) -> Result<(LoweredRelation, Vec<TotalAggregate>)> {
        let mut keys = Vec::with_capacity(key_ids.len());
        let columns: Vec<ScalarExpr> = key_ids.iter().map(|id| self.columns.expr(*id)).collect();
        for column in &columns {
            keys.push(self.key(column, own)?);
        }
        let (mut parts, mut aggregates, mut ids) = (Vec::new(), Vec::new(), key_ids.to_vec());
        for (_, call) in &group.aggregates {
            let mut call = AggregateCall::clone(call);
            call.arguments.iter_mut().chain(&mut call.filter).for_each(|expr| *expr = input.resolve(expr));
            let first = parts.len();
            let mut aggregate = of_parts(self.aggregate(&call, own)?, 0, &mut parts);
            each_column(&mut aggregate, |part| part - first);
            let made: Vec<(plan::Aggregate, ColumnId)> =
                parts[first..].iter().map(|part| (part.clone(), self.columns.add("", part.kind.clone()))).collect();
            ids.extend(made.iter().map(|(_, id)| *id));
            aggregates.push(TotalAggregate { aggregate, parts: made });
        }
        let resolved: Vec<ScalarExpr> = columns.iter().map(|column| own.resolve(column)).collect();
        let groups = self.estimator.group_count(own.node(), &resolved, &|id| own.position(ColumnId(id)));
        let mut grouped = self.group_node(keys, parts, Vec::new(), ids, own);
        grouped.set_groups(groups);
        Ok((grouped, aggregates))
    }

    /// Computes the groups of the query from the joined groups.
    pub(super) fn last_group(
        &mut self,
        group: &LogicalGroup,
        joined: &LoweredRelation,
        aggregates: Vec<TotalAggregate>,
    ) -> Result<LoweredRelation> {
        let mut keys = Vec::with_capacity(group.keys.len());
        for (_, key) in &group.keys {
            keys.push(self.key(key, joined)?);
        }
        let wholes = aggregates.into_iter().map(|total| total.over(joined)).collect();
        let ids = group.keys.iter().map(|(id, _)| *id).chain(group.aggregates.iter().map(|(id, _)| *id)).collect();
        let resolved: Vec<ScalarExpr> = group.keys.iter().map(|(_, key)| joined.resolve(key)).collect();
        let groups = self.estimator.group_count(joined.node(), &resolved, &|id| joined.position(ColumnId(id)));
        let mut grouped = self.group_node(keys, wholes, Vec::new(), ids, joined);
        grouped.set_groups(groups);
        Ok(grouped)
    }
}
