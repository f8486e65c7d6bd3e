//! The search for a tree: all trees are compared if there are few, otherwise good candidates.

use std::cmp::Ordering;

use super::cardinality::{Cardinality, Connection};
use super::cost::cost_of_join;
use super::relation_set::RelationSet;
use super::{JoinTree, OperatorJoin, OrderedJoin, hypergraph};

/// Relations up to which we improve a greedy tree. The time grows with the third power.
const IMPROVED_RELATIONS_MAX: usize = 32;

/// Relations that are already joined, and their tree.
#[derive(Clone)]
pub(super) struct Joined {
    set: RelationSet,
    tree: JoinTree,
}

impl Joined {
    pub(super) fn relation(relation: usize, rows: f64) -> Joined {
        Joined { set: RelationSet::of(relation), tree: JoinTree::Relation { relation, rows } }
    }

    /// Joins two trees. The join has `rows` rows. The side of an inner join with fewer rows becomes the build side.
    pub(super) fn join(one: Joined, other: Joined, connection: Connection, rows: f64) -> Joined {
        let set = one.set.with(other.set);
        let (one, other) = (one.tree, other.tree);
        let predicates = Vec::new();
        let tree = match connection {
            Connection::Inner => {
                let (build, probe) = if one.rows() <= other.rows() { (one, other) } else { (other, one) };
                JoinTree::Join(Box::new(OrderedJoin { build, probe, on: Vec::new(), predicates, rows }))
            }
            Connection::Operator { number, flipped } => {
                let (left, right) = if flipped { (other, one) } else { (one, other) };
                JoinTree::Operator(Box::new(OperatorJoin { left, right, operator: number, predicates, rows }))
            }
        };
        Joined { set, tree }
    }
}

/// Finds a tree of all relations. There must be at least one.
pub(super) fn join_all(cardinality: &Cardinality<'_>) -> JoinTree {
    let components = cardinality.components().into_iter().map(|relations| {
        hypergraph::best(relations, cardinality).unwrap_or_else(|| {
            let single = |relation: usize| Joined::relation(relation, cardinality.rows(RelationSet::of(relation)));
            improved(greedy(relations.iter().map(single).collect(), cardinality), cardinality)
        })
    });
    greedy(components.collect(), cardinality).tree
}

/// Always joins the two trees whose join has the fewest rows. Uses cross products only when no condition links any two.
fn greedy(joined: Vec<Joined>, cardinality: &Cardinality<'_>) -> Joined {
    let mut joined: Vec<Option<Joined>> = joined.into_iter().map(Some).collect();
    let linked = |one: &Joined, other: &Joined| cardinality.connection(one.set, other.set);
    let product = |one: &Joined, other: &Joined| {
        let may_multiply = cardinality.may_multiply(one.set) && cardinality.may_multiply(other.set);
        may_multiply.then_some(Connection::Inner)
    };
    let mut pairs: Vec<Pair> = Vec::new();
    for number in 0..joined.len() {
        add_pairs(&joined[..=number], &mut pairs, &linked, cardinality);
    }
    loop {
        // Cross products are considered only when no linked pair is left.
        let is_linked = !pairs.is_empty();
        if !is_linked {
            for number in 0..joined.len() {
                add_pairs(&joined[..=number], &mut pairs, &product, cardinality);
            }
        }
        let Some(pair) = pairs.iter().min_by(|left, right| left.compare(right)).copied() else { break };
        let [one, other] = pair.sides.map(|side| joined[side].take().expect("a pair names unjoined trees"));
        if is_linked {
            // Both sides are used up, so all other pairs with them are obsolete.
            pairs.retain(|left| !left.sides.iter().any(|side| pair.sides.contains(side)));
        } else {
            // The result of the product may now be linked with other trees. Those joins must come before further
            // products.
            pairs.clear();
        }
        joined.push(Some(Joined::join(one, other, pair.connection, pair.rows)));
        add_pairs(&joined, &mut pairs, &linked, cardinality);
    }
    joined.into_iter().flatten().next().expect("at least one tree is left")
}

/// Two trees that may be joined next.
#[derive(Clone, Copy)]
struct Pair {
    sides: [usize; 2],
    connection: Connection,
    rows: f64,
    cost: f64,
}

impl Pair {
    /// Orders pairs; the better one is less.
    fn compare(&self, other: &Pair) -> Ordering {
        self.rows.total_cmp(&other.rows).then(self.cost.total_cmp(&other.cost))
    }
}

/// Adds the pairs of the last tree with every earlier tree that it can be joined with.
fn add_pairs(
    joined: &[Option<Joined>],
    pairs: &mut Vec<Pair>,
    connection: &dyn Fn(&Joined, &Joined) -> Option<Connection>,
    cardinality: &Cardinality<'_>,
) {
    let Some((Some(last), before)) = joined.split_last() else { return };
    for (side, other) in before.iter().enumerate() {
        let Some(other) = other else { continue };
        let Some(connection) = connection(other, last) else { continue };
        let rows = cardinality.rows(last.set.with(other.set));
        let sides = [(other.set, other.tree.rows()), (last.set, last.tree.rows())];
        pairs.push(Pair {
            sides: [side, before.len()],
            connection,
            rows,
            cost: cost_of_join(cardinality, sides, connection, rows),
        });
    }
}

/// Finds the cheapest of all trees that have the same relations in the same order from left to right.
fn improved(joined: Joined, cardinality: &Cardinality<'_>) -> Joined {
    let mut order = Vec::new();
    leaves(&joined.tree, &mut order);
    if order.len() > IMPROVED_RELATIONS_MAX {
        return joined;
    }
    // The cheapest tree for each part of the order, by its length minus one and its start.
    let mut cheapest: Vec<Vec<Option<CheapestPart>>> = Vec::with_capacity(order.len());
    let set_of = |start: usize, count: usize| RelationSet::of_all(&order[start..start + count]);
    let single = |at: usize| Some(CheapestPart { cost: 0.0, first: 0, rows: cardinality.rows(set_of(at, 1)) });
    cheapest.push((0..order.len()).map(single).collect());
    for count in 2..=order.len() {
        let of_count = (0..=order.len() - count).map(|start| {
            let mut best: Option<CheapestPart> = None;
            for first in 1..count {
                let sides = (cheapest[first - 1][start], cheapest[count - first - 1][start + first]);
                let (Some(one), Some(other)) = sides else { continue };
                let (one_set, other_set) = (set_of(start, first), set_of(start + first, count - first));
                let Some(connection) = cardinality.connection(one_set, other_set) else { continue };
                // All splits of the same leaves have the same estimate, so we compute it once.
                let rows = best.map_or_else(|| cardinality.rows(one_set.with(other_set)), |best| best.rows);
                let sides = [(one_set, one.rows), (other_set, other.rows)];
                let cost = one.cost + other.cost + cost_of_join(cardinality, sides, connection, rows);
                if best.is_none_or(|best| cost < best.cost) {
                    best = Some(CheapestPart { cost, first, rows });
                }
            }
            best
        });
        let of_count = of_count.collect();
        cheapest.push(of_count);
    }
    // If the greedy tree has a cross product, no fully linked tree exists, and we keep the greedy one.
    tree_of(0, &order, &cheapest, cardinality).unwrap_or(joined)
}

/// The cheapest tree of consecutive leaves.
#[derive(Clone, Copy)]
struct CheapestPart {
    cost: f64,
    /// Number of leaves of its first side; 0 for a single relation.
    first: usize,
    rows: f64,
}

/// Builds the tree that was found for the leaves `order`, which start at `start`.
fn tree_of(
    start: usize,
    order: &[usize],
    cheapest: &[Vec<Option<CheapestPart>>],
    cardinality: &Cardinality<'_>,
) -> Option<Joined> {
    let CheapestPart { first, rows, .. } = cheapest[order.len() - 1][start]?;
    if first == 0 {
        return Some(Joined::relation(order[0], rows));
    }
    let (of_one, of_other) = order.split_at(first);
    let one = tree_of(start, of_one, cheapest, cardinality)?;
    let other = tree_of(start + first, of_other, cheapest, cardinality)?;
    let connection = cardinality.connection(one.set, other.set)?;
    Some(Joined::join(one, other, connection, rows))
}

fn leaves(tree: &JoinTree, order: &mut Vec<usize>) {
    match tree {
        JoinTree::Relation { relation, .. } => order.push(*relation),
        JoinTree::Join(join) => {
            leaves(&join.build, order);
            leaves(&join.probe, order);
        }
        JoinTree::Operator(join) => {
            leaves(&join.left, order);
            leaves(&join.right, order);
        }
    }
}
