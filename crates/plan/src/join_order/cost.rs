//! The cost of a join.
//!
//! The unit is one probe row. A build row costs two units, because it must be copied before it can be looked up. A row
//! of the result costs one. If only a few keys of a relation are read, the relation is not read as a whole; each key
//! then costs a lookup.

use super::JoinTree;
use super::cardinality::{Cardinality, Connection};
use super::relation_set::RelationSet;

/// The cost of a build row, in probe rows.
const BUILD_COST: f64 = 2.0;

/// The cost of a lookup in an index tree, and of each row that it finds, in probe rows.
const LOOKUP_COST: f64 = 10.0;

/// Keys up to which an index is read by key. With more keys, the engine reads the whole relation.
const KEYS_MAX: f64 = 1_000.0;

/// The relations of a tree, and the cost of its joins.
pub(super) fn cost_of_tree(cardinality: &Cardinality<'_>, tree: &JoinTree) -> (RelationSet, f64) {
    let nothing = ReducedPart { relations: RelationSet::EMPTY, share: 1.0 };
    let costs = cost_above(cardinality, tree, &nothing);
    (costs.relations, costs.cost)
}

/// A part of a tree that gives only a share of its rows.
pub(super) struct ReducedPart {
    pub(super) relations: RelationSet,
    pub(super) share: f64,
}

/// The relations of a tree, the rows that it gives, and the cost of its joins.
pub(super) struct TreeCosts {
    relations: RelationSet,
    rows: f64,
    pub(super) cost: f64,
}

/// The costs of a tree without those within a part that gives fewer rows than estimated.
pub(super) fn cost_above(cardinality: &Cardinality<'_>, tree: &JoinTree, reduced: &ReducedPart) -> TreeCosts {
    let (one, other, connection) = match tree {
        JoinTree::Relation { relation, rows } => {
            let relations = RelationSet::of(*relation);
            let share = if relations == reduced.relations { reduced.share } else { 1.0 };
            return TreeCosts { relations, rows: rows * share, cost: 0.0 };
        }
        JoinTree::Join(join) => (&join.build, &join.probe, Connection::Inner),
        JoinTree::Operator(join) => {
            (&join.left, &join.right, Connection::Operator { number: join.operator, flipped: false })
        }
    };
    let (one, other) = (cost_above(cardinality, one, reduced), cost_above(cardinality, other, reduced));
    let relations = one.relations.with(other.relations);
    if relations == reduced.relations {
        return TreeCosts { relations, rows: tree.rows() * reduced.share, cost: 0.0 };
    }
    let is_reduced = reduced.relations != RelationSet::EMPTY && reduced.relations.is_within(relations);
    let rows = if is_reduced { tree.rows() * reduced.share } else { tree.rows() };
    let sides = [(one.relations, one.rows), (other.relations, other.rows)];
    let cost = one.cost + other.cost + cost_of_join(cardinality, sides, connection, rows);
    TreeCosts { relations, rows, cost }
}

/// The cost of a join of two sides, without the cost of the sides. Each side has its estimated rows.
pub(super) fn cost_of_join(
    cardinality: &Cardinality<'_>,
    sides: [(RelationSet, f64); 2],
    connection: Connection,
    rows: f64,
) -> f64 {
    let [(one, one_rows), (other, other_rows)] = sides;
    // The smaller side should be the build side, unless the operator fixes it.
    let whole = match connection {
        Connection::Operator { number, flipped } if cardinality.operator(number).builds_right => {
            let (left, right) = if flipped { (other_rows, one_rows) } else { (one_rows, other_rows) };
            BUILD_COST * right + left
        }
        _ => BUILD_COST * one_rows.min(other_rows) + one_rows.max(other_rows),
    };
    // Alternatively, look up the rows of one side by the keys of the other.
    let narrowed = [(one, other, one_rows), (other, one, other_rows)].into_iter().filter_map(|(few, many, keys)| {
        let read = cardinality.rows_by_key(few, many, connection, rows).filter(|_| keys <= KEYS_MAX)?;
        Some(LOOKUP_COST * (keys + read))
    });
    narrowed.fold(whole, f64::min) + rows
}
