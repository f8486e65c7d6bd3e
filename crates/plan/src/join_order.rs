//! The order in which relations are joined.
//!
//! Relations that conditions link are joined without cross products. All such trees are compared up to a number of pairs
//! of sets that can be joined (`hypergraph.rs`). Beyond it relations are joined greedily: always the two whose join has
//! the fewest rows (Fegaras, "A New Heuristic for Optimizing Large Queries", 1998); then all trees with the same order of
//! leaves are compared, as in Neumann and Radke, "Adaptive Optimization of Very Large Join Queries", 2018. Relations that
//! no condition links are multiplied last, again those with the fewest rows first.
//!
//! Outer, semi, anti and mark joins are operators with one relation on the right. They are ordered with the inner joins,
//! as far as that leaves the result as it is (`conflicts.rs`).
//!
//! A tree costs the rows of all its joins, and for each join its probe rows once and its build rows twice (`cost.rs`).
//! How many rows a join has (`cardinality.rs`) depends on the joined set only and not on its tree, so that the cheapest
//! tree of a set is made of the cheapest trees of its parts.

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

/// Relations that can be ordered together at most.
pub const JOINED_RELATIONS_MAX: usize = 128;

/// One of the relations.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinRelation {
    /// Rows that pass its own conditions, about.
    pub rows: f64,
    /// All its rows, about.
    pub rows_unfiltered: f64,
    /// Sets of its columns in which no two rows agree.
    pub keys: Vec<Vec<usize>>,
    /// Columns by whose values an index finds its rows, without reading the others.
    pub found_by: Vec<usize>,
}

/// A column that is joined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JoinColumn {
    /// Its relation, by its position in the graph.
    pub relation: usize,
    /// Its number; columns of one relation have different ones.
    pub column: usize,
    /// Distinct values in all rows of the relation, about.
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
    /// The share of rows that pass, from 0 to 1.
    pub selectivity: f64,
    /// If it is an equality by which rows can be looked up, the relations of each side.
    pub sides: Option<(Vec<usize>, Vec<usize>)>,
}

/// What a join that is not inner gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorKind {
    /// Every pair that matches, and the rows of the left side without a match, with NULL in the columns of the right.
    Left,
    /// Each row of the left side at most once, perhaps with a mark: a semi, anti or mark join.
    AtMostOnce,
}

/// A join that is not inner. Its left side are relations that are joined before it.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinOperator {
    /// What it gives.
    pub kind: OperatorKind,
    /// The relation on its right.
    pub right: usize,
    /// The other relations that its conditions read, at least one. Where they read none, all that it was written after.
    pub reads: Vec<usize>,
    /// Those of `reads` for which the conditions are never true if all columns of the relation are NULL.
    pub rejects_nulls_of: Vec<usize>,
    /// Rows of the result per row of the left side.
    pub growth: f64,
    /// Whether only its right side can be put into the hash table.
    pub builds_right: bool,
    /// Whether an index finds the rows of the right side for a row of the left one.
    pub finds_right: bool,
}

/// Relations to be joined.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JoinGraph {
    /// The relations.
    pub relations: Vec<JoinRelation>,
    /// Their equalities. Those that follow from others, such as a = c from a = b and b = c, need not be there.
    pub edges: Vec<JoinEdge>,
    /// Their other conditions.
    pub predicates: Vec<JoinPredicate>,
    /// The joins that are not inner, in an order in which they can be computed. Each relation is the right side of at
    /// most one, and then no edge has it; at least one relation is the right side of none.
    pub operators: Vec<JoinOperator>,
}

/// In which order relations are joined.
#[derive(Clone, Debug, PartialEq)]
pub enum JoinTree {
    /// A relation as it is.
    Relation {
        /// Its position in the graph.
        relation: usize,
        /// Its rows, about.
        rows: f64,
    },
    /// An inner join of two trees.
    Join(Box<Join>),
    /// An operator over two trees.
    Operator(Box<OperatorJoin>),
}

/// An inner join.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    /// The side with fewer rows, for the hash table.
    pub build: JoinTree,
    /// The other side.
    pub probe: JoinTree,
    /// Equal columns of the build and of the probe side, as many as are needed for all equalities of the graph to hold
    /// when all relations are joined; none for a cross product.
    pub on: Vec<(JoinColumn, JoinColumn)>,
    /// Conditions of the graph, by their positions, that this join is the first to have all relations for.
    pub predicates: Vec<usize>,
    /// Rows of the result, about.
    pub rows: f64,
}

/// A join that is not inner.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorJoin {
    /// The left side.
    pub left: JoinTree,
    /// The right side: the relation of the operator, perhaps with outer joins of its own.
    pub right: JoinTree,
    /// The position of the operator in the graph.
    pub operator: usize,
    /// Conditions of the graph, by their positions, that rows of the result must meet.
    pub predicates: Vec<usize>,
    /// Rows of the result that meet the conditions, about.
    pub rows: f64,
}

impl JoinTree {
    /// Rows of the result, about.
    pub fn rows(&self) -> f64 {
        match self {
            JoinTree::Relation { rows, .. } => *rows,
            JoinTree::Join(join) => join.rows,
            JoinTree::Operator(join) => join.rows,
        }
    }
}

/// What the joins of a tree cost, in rows that are looked up in a hash table.
pub fn tree_cost(graph: &JoinGraph, tree: &JoinTree) -> f64 {
    cost::cost_of_tree(&Cardinality::new(graph), tree).1
}

/// The best order for `graph`, or a good one if it has many relations. `None` if it has no relations, or more than
/// [`JOINED_RELATIONS_MAX`].
///
/// # Panics
///
/// If an edge has both columns in one relation, or a predicate has fewer than two relations none of which is the right
/// side of an operator: those are conditions of a relation's own, and would be lost. If an operator reads no relation.
pub fn join_order(graph: &JoinGraph) -> Option<JoinTree> {
    for edge in &graph.edges {
        assert_ne!(edge.left.relation, edge.right.relation, "an edge joins two relations");
    }
    let is_right = |relation: &usize| graph.operators.iter().any(|operator| operator.right == *relation);
    for predicate in &graph.predicates {
        let first = predicate.relations.first();
        let is_of_two = predicate.relations.iter().any(|other| Some(other) != first);
        assert!(is_of_two || first.is_some_and(is_right), "a predicate needs two relations");
    }
    for operator in &graph.operators {
        assert!(operator.reads.iter().any(|read| *read != operator.right), "an operator has a left side");
    }
    if graph.relations.is_empty() || graph.relations.len() > JOINED_RELATIONS_MAX {
        return None;
    }
    let cardinality = Cardinality::new(graph);
    let mut tree = join_all(&cardinality);
    cardinality.place_conditions(&mut tree);
    Some(tree)
}
