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
    let (one, other, connection) = match tree {
        JoinTree::Relation { relation, .. } => return (RelationSet::of(*relation), 0.0),
        JoinTree::Join(join) => (&join.build, &join.probe, Connection::Inner),
        JoinTree::Operator(join) => {
            (&join.left, &join.right, Connection::Operator { number: join.operator, flipped: false })
        }
    };
    let ((one_set, one_cost), (other_set, other_cost)) =
        (cost_of_tree(cardinality, one), cost_of_tree(cardinality, other));
    let sides = [(one_set, one.rows()), (other_set, other.rows())];
    let cost = one_cost + other_cost + cost_of_join(cardinality, sides, connection, tree.rows());
    (one_set.with(other_set), cost)
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
