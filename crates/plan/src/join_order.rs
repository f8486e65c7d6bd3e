//! The order in which relations are joined.
//!
//! Up to [`EXACT_RELATIONS_MAX`] relations that conditions link, all trees without cross products are compared, by dynamic
//! programming over subsets (Vance and Maier, "Rapid Bushy Join-order Optimization with Cartesian Products", 1996). More
//! are joined greedily: always the two whose join has the fewest rows (Fegaras, "A New Heuristic for Optimizing Large
//! Queries", 1998). Relations that no condition links are multiplied last, again those with the fewest rows first.
//!
//! A tree costs the rows of all its joins, and for each join its probe rows once and its build rows twice, since a row
//! that is put into a hash table is copied before it is looked up. How many rows a join has (`cardinality.rs`) depends on
//! the joined set only and not on its tree, so that the cheapest tree of a set is made of the cheapest trees of its parts.

mod cardinality;
mod enumeration;
#[cfg(test)]
mod tests;

use self::cardinality::Cardinality;
use self::enumeration::join_all;

/// Linked relations up to which every tree is compared.
pub const EXACT_RELATIONS_MAX: usize = 10;

/// Relations that can be ordered together at most.
pub const JOINED_RELATIONS_MAX: usize = 128;

/// What a build row costs, in probe rows.
const BUILD_COST: f64 = 2.0;

/// One of the relations.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinRelation {
    /// Rows that pass its own conditions, about.
    pub rows: f64,
    /// All its rows, about.
    pub rows_unfiltered: f64,
    /// Sets of its columns in which no two rows agree.
    pub keys: Vec<Vec<usize>>,
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

/// Any other condition on at least two relations.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinPredicate {
    /// The relations that it needs, by their positions in the graph.
    pub relations: Vec<usize>,
    /// The share of rows that pass, from 0 to 1.
    pub selectivity: f64,
}

/// Relations to be joined, all of them inner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JoinGraph {
    /// The relations.
    pub relations: Vec<JoinRelation>,
    /// Their equalities. Those that follow from others, such as a = c from a = b and b = c, need not be there.
    pub edges: Vec<JoinEdge>,
    /// Their other conditions.
    pub predicates: Vec<JoinPredicate>,
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
    /// A join of two trees.
    Join(Box<Join>),
}

/// A join.
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

impl JoinTree {
    /// Rows of the result, about.
    pub fn rows(&self) -> f64 {
        match self {
            JoinTree::Relation { rows, .. } => *rows,
            JoinTree::Join(join) => join.rows,
        }
    }
}

/// The best order for `graph`, or a good one if it has many relations. `None` if it has no relations, or more than
/// [`JOINED_RELATIONS_MAX`].
///
/// # Panics
///
/// If an edge has both columns in one relation, or a predicate has fewer than two relations: those are conditions of a
/// relation's own, and would be lost.
pub fn join_order(graph: &JoinGraph) -> Option<JoinTree> {
    for edge in &graph.edges {
        assert_ne!(edge.left.relation, edge.right.relation, "an edge joins two relations");
    }
    for predicate in &graph.predicates {
        let first = predicate.relations.first();
        assert!(predicate.relations.iter().any(|other| Some(other) != first), "a predicate needs two relations");
    }
    if graph.relations.is_empty() || graph.relations.len() > JOINED_RELATIONS_MAX {
        return None;
    }
    let cardinality = Cardinality::new(graph);
    let mut tree = join_all(&cardinality);
    cardinality.place_conditions(&mut tree);
    Some(tree)
}
