//! The order in which relations are joined.
//!
//! Relations that are linked by conditions are joined without cross products. We compare all such trees if the number
//! of pairs of sets that can be joined stays below a limit (`hypergraph.rs`). Above the limit we join greedily: we
//! always join the two relations whose join has the fewest rows (Fegaras, "A New Heuristic for Optimizing Large
//! Queries", 1998). Then we compare all trees with the same order of leaves, as in Neumann and Radke, "Adaptive
//! Optimization of Very Large Join Queries", 2018. Relations without a linking condition are multiplied last, again
//! those with the fewest rows first.
//!
//! Outer, semi, anti and mark joins are operators with one relation on the right. We order them together with the inner
//! joins as far as that does not change the result (`conflicts.rs`).
//!
//! The cost of a tree is the number of rows of all its joins, plus, for each join, its probe rows once and its build
//! rows twice (`cost.rs`). The estimated number of rows of a join (`cardinality.rs`) must depend only on the joined
//! set, not on its tree, so the cheapest tree of a set consists of the cheapest trees of its parts.

mod cardinality;
mod conflicts;
mod cost;
mod enumeration;
mod hypergraph;
mod relation_set;
#[cfg(test)]
mod tests;

use self::cardinality::Cardinality;
use self::enumeration::join_all;
use self::relation_set::RelationSet;

/// Relations that can be ordered together at most, because a set of relations is a bit mask.
pub const JOINED_RELATIONS_MAX: usize = 128;

/// One of the relations that are joined.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinRelation {
    /// Estimated rows that meet the relation's own conditions.
    pub rows: f64,
    /// Estimated rows without any condition.
    pub rows_unfiltered: f64,
    /// Sets of its columns that are unique: no two rows have equal values in all of them.
    pub keys: Vec<Vec<usize>>,
    /// Columns with an index that finds their rows without reading the other rows.
    pub found_by: Vec<usize>,
}

/// A column that is used in an equality.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JoinColumn {
    /// Its relation, by its position in the graph.
    pub relation: usize,
    /// Its number, which must be unique within the relation.
    pub column: usize,
    /// Estimated number of distinct values in all rows of the relation.
    pub distinct: f64,
}

/// An equality of columns of two relations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JoinEdge {
    /// One column.
    pub left: JoinColumn,
    /// A column of another relation.
    pub right: JoinColumn,
}

/// Any other condition on at least two relations, or on the right side of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinPredicate {
    /// The relations that it needs, by their positions in the graph.
    pub relations: Vec<usize>,
    /// The share of rows that meet it, from 0 to 1.
    pub selectivity: f64,
    /// If it is an equality that a hash table can look up, the relations of each side.
    pub sides: Option<(Vec<usize>, Vec<usize>)>,
}

/// The result of a join that is not inner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorKind {
    /// Every pair that matches, and the rows of the left side without a match, with NULL in the columns of the right.
    Left,
    /// Each row of the left side at most once, possibly with a mark: a semi, anti or mark join.
    AtMostOnce,
}

/// A join that is not inner. Its left side consists of relations that are joined before it.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinOperator {
    /// The result of the join.
    pub kind: OperatorKind,
    /// The relation on its right.
    pub right: usize,
    /// The other relations that its conditions read; there must be at least one. If the conditions read none, all
    /// relations to the left of it in the statement.
    pub reads: Vec<usize>,
    /// The relations of `reads` for which the conditions are never true if all columns of the relation are NULL.
    pub rejects_nulls_of: Vec<usize>,
    /// Rows of the result per row of the left side.
    pub growth: f64,
    /// Whether the right side must be the build side of the hash join.
    pub builds_right: bool,
    /// Whether an index finds the rows of the right side for a row of the left one.
    pub finds_right: bool,
}

/// The input of the search: relations and the conditions between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JoinGraph {
    /// The relations.
    pub relations: Vec<JoinRelation>,
    /// The equalities between relations. Implied ones may be missing: for example, a = c follows from a = b and b = c.
    pub edges: Vec<JoinEdge>,
    /// The other conditions.
    pub predicates: Vec<JoinPredicate>,
    /// The joins that are not inner, in an order in which they can be computed. A relation may be the right side of at
    /// most one of them, and then no edge may contain it. At least one relation must be the right side of none.
    pub operators: Vec<JoinOperator>,
}

/// The result of the search: a tree of joins.
#[derive(Clone, Debug, PartialEq)]
pub enum JoinTree {
    /// A single relation.
    Relation {
        /// Its position in the graph.
        relation: usize,
        /// Estimated rows of the relation.
        rows: f64,
    },
    /// An inner join of two trees.
    Join(Box<OrderedJoin>),
    /// An operator over two trees.
    Operator(Box<OperatorJoin>),
}

/// An inner join.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderedJoin {
    /// The side with fewer rows, for the hash table.
    pub build: JoinTree,
    /// The other side.
    pub probe: JoinTree,
    /// Equal columns of the build and the probe side. Together with the joins below they must imply all equalities of
    /// the graph. Empty for a cross product.
    pub on: Vec<(JoinColumn, JoinColumn)>,
    /// Conditions of the graph, by position, that this join is the first to have all relations for.
    pub predicates: Vec<usize>,
    /// Estimated rows of the result.
    pub rows: f64,
}

/// A join that is not inner.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorJoin {
    /// The left side.
    pub left: JoinTree,
    /// The right side: the relation of the operator, possibly with outer joins of its own.
    pub right: JoinTree,
    /// The position of the operator in the graph.
    pub operator: usize,
    /// Conditions of the graph, by position, that rows of the result must meet.
    pub predicates: Vec<usize>,
    /// Estimated rows of the result that meet the conditions.
    pub rows: f64,
}

impl JoinTree {
    /// Estimated rows of the result.
    pub fn rows(&self) -> f64 {
        match self {
            JoinTree::Relation { rows, .. } => *rows,
            JoinTree::Join(join) => join.rows,
            JoinTree::Operator(join) => join.rows,
        }
    }

    /// The relations of the tree, by their positions in the graph.
    pub fn relations(&self) -> Vec<usize> {
        let mut relations = Vec::new();
        self.each_part(&mut |part| {
            if let JoinTree::Relation { relation, .. } = part {
                relations.push(*relation);
            }
        });
        relations
    }

    /// The conditions that are checked in the tree, by their positions in the graph.
    pub fn predicates(&self) -> Vec<usize> {
        let mut predicates = Vec::new();
        self.each_part(&mut |part| match part {
            JoinTree::Relation { .. } => {}
            JoinTree::Join(join) => predicates.extend(&join.predicates),
            JoinTree::Operator(join) => predicates.extend(&join.predicates),
        });
        predicates
    }

    fn each_part(&self, each: &mut dyn FnMut(&JoinTree)) {
        each(self);
        let sides = match self {
            JoinTree::Relation { .. } => return,
            JoinTree::Join(join) => [&join.build, &join.probe],
            JoinTree::Operator(join) => [&join.left, &join.right],
        };
        sides.into_iter().for_each(|side| side.each_part(each));
    }
}

/// The cost of all joins of a tree, in rows that are looked up in a hash table.
pub fn tree_cost(graph: &JoinGraph, tree: &JoinTree) -> f64 {
    cost::cost_of_tree(&Cardinality::new(graph), tree).1
}

/// The cost of the joins of a tree above one of its parts, if the part gives only `share` of its rows. The part
/// consists of the relations `part`, by their positions in the graph.
pub fn tree_cost_above(graph: &JoinGraph, tree: &JoinTree, part: &[usize], share: f64) -> f64 {
    let reduced = cost::ReducedPart { relations: RelationSet::of_all(part), share };
    cost::cost_above(&Cardinality::new(graph), tree, &reduced).cost
}

/// Finds the best order for `graph`, or a good one if it has many relations. Returns `None` if it has no relations or
/// more than [`JOINED_RELATIONS_MAX`].
///
/// # Panics
///
/// Panics if an edge has both columns in one relation, or if a predicate has fewer than two relations and that relation
/// is not the right side of an operator. These are conditions of the relation itself, and the search would lose them.
/// Panics if an operator reads no relation.
pub fn join_order(graph: &JoinGraph) -> Option<JoinTree> {
    for edge in &graph.edges {
        assert_ne!(edge.left.relation, edge.right.relation, "an edge must join two relations");
    }
    let is_right = |relation: &usize| graph.operators.iter().any(|operator| operator.right == *relation);
    for predicate in &graph.predicates {
        let first = predicate.relations.first();
        let is_of_two = predicate.relations.iter().any(|other| Some(other) != first);
        assert!(is_of_two || first.is_some_and(is_right), "a predicate must have two relations");
    }
    for operator in &graph.operators {
        assert!(operator.reads.iter().any(|read| *read != operator.right), "an operator must have a left side");
    }
    if graph.relations.is_empty() || graph.relations.len() > JOINED_RELATIONS_MAX {
        return None;
    }
    let cardinality = Cardinality::new(graph);
    let mut tree = join_all(&cardinality);
    // The search only needs the shape. Conditions are placed once, in the tree that won.
    cardinality.place_conditions(&mut tree);
    Some(tree)
}
