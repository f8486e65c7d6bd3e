//! The trees that are compared.

use std::cmp::Ordering;

use super::cardinality::{Cardinality, Set};
use super::{BUILD_COST, EXACT_RELATIONS_MAX, Join, JoinTree};

/// Relations that are joined already.
struct Joined {
    set: Set,
    tree: JoinTree,
}

impl Joined {
    fn relation(relation: usize, rows: f64) -> Joined {
        Joined { set: Set::of(relation), tree: JoinTree::Relation { relation, rows } }
    }

    /// A join of `rows` rows; the side with fewer rows is the build side.
    fn join(one: Joined, other: Joined, rows: f64) -> Joined {
        let set = one.set.with(other.set);
        let (build, probe) =
            if one.tree.rows() <= other.tree.rows() { (one.tree, other.tree) } else { (other.tree, one.tree) };
        let join = Join { build, probe, on: Vec::new(), predicates: Vec::new(), rows };
        Joined { set, tree: JoinTree::Join(Box::new(join)) }
    }
}

/// What a join costs besides its sides.
pub(super) fn cost_of_join(one_rows: f64, other_rows: f64, rows: f64) -> f64 {
    BUILD_COST * one_rows.min(other_rows) + one_rows.max(other_rows) + rows
}

/// A tree of all relations, of which there is at least one.
pub(super) fn join_all(cardinality: &Cardinality<'_>) -> JoinTree {
    let components = components(cardinality).into_iter().map(|relations| match relations.len() {
        0..=EXACT_RELATIONS_MAX => best(&relations, cardinality),
        _ => {
            let single = |relation: usize| Joined::relation(relation, cardinality.rows(Set::of(relation)));
            greedy(relations.into_iter().map(single).collect(), cardinality)
        }
    });
    greedy(components.collect(), cardinality).tree
}

/// The relations in parts that conditions link.
fn components(cardinality: &Cardinality<'_>) -> Vec<Vec<usize>> {
    let mut components: Vec<(Set, Vec<usize>)> = Vec::new();
    for relation in 0..cardinality.relations() {
        let mut set = Set::of(relation);
        let mut relations = vec![relation];
        components.retain(|(other, others)| {
            let are_linked = cardinality.are_linked(*other, Set::of(relation));
            if are_linked {
                set = set.with(*other);
                relations.extend(others);
            }
            !are_linked
        });
        components.push((set, relations));
    }
    components.into_iter().map(|(_, relations)| relations).collect()
}

/// The cheapest tree of linked relations without cross products.
fn best(relations: &[usize], cardinality: &Cardinality<'_>) -> Joined {
    let sets: Vec<Set> = relations.iter().map(|relation| Set::of(*relation)).collect();
    let mut search = Search { relations, neighbours: neighbours(&sets, cardinality), cheapest: Vec::new() };
    // A subset has one bit for each relation, so that the subsets of a set come before it.
    for subset in 0..1_usize << sets.len() {
        let members = (0..sets.len()).filter(|relation| subset >> relation & 1 == 1).map(|relation| sets[relation]);
        let set = members.reduce(Set::with);
        let found = set.and_then(|set| search.cheapest_of(subset, || cardinality.rows(set)));
        search.cheapest.push(found);
    }
    search.tree_of(search.cheapest.len() - 1)
}

/// For each set, those of the sets that are linked with it.
fn neighbours(sets: &[Set], cardinality: &Cardinality<'_>) -> Vec<usize> {
    let linked = |one: &Set| {
        let linked = (0..sets.len()).filter(|other| cardinality.are_linked(*one, sets[*other]));
        linked.fold(0, |linked, other| linked | 1 << other)
    };
    sets.iter().map(linked).collect()
}

/// The search for the cheapest tree of each subset of some relations.
struct Search<'a> {
    relations: &'a [usize],
    neighbours: Vec<usize>,
    /// By subset; none where a tree would need a cross product.
    cheapest: Vec<Option<Cheapest>>,
}

/// The cheapest tree of a subset.
#[derive(Clone, Copy)]
struct Cheapest {
    cost: f64,
    rows: f64,
    /// The relations of one side; none for a single relation.
    side: usize,
}

impl Search<'_> {
    /// The cheapest tree of a subset, of which `rows` estimates the rows, by those of all smaller ones.
    fn cheapest_of(&self, subset: usize, rows: impl Fn() -> f64) -> Option<Cheapest> {
        if subset.is_power_of_two() {
            return Some(Cheapest { cost: 0.0, rows: rows(), side: 0 });
        }
        let mut cheapest: Option<Cheapest> = None;
        for side in splits(subset) {
            let other = subset ^ side;
            let (Some(left), Some(right)) = (self.cheapest[side], self.cheapest[other]) else { continue };
            if !self.are_linked(side, other) {
                continue;
            }
            let rows = cheapest.map_or_else(&rows, |cheapest| cheapest.rows);
            let cost = left.cost + right.cost + cost_of_join(left.rows, right.rows, rows);
            if cheapest.is_none_or(|cheapest| cost < cheapest.cost) {
                cheapest = Some(Cheapest { cost, rows, side });
            }
        }
        cheapest
    }

    fn are_linked(&self, one: usize, other: usize) -> bool {
        self.neighbours.iter().enumerate().any(|(relation, linked)| one >> relation & 1 == 1 && linked & other != 0)
    }

    /// The tree that was found for a subset.
    fn tree_of(&self, subset: usize) -> Joined {
        let cheapest = self.cheapest[subset].expect("linked relations have a tree without cross products");
        match cheapest.side {
            0 => Joined::relation(self.relations[subset.trailing_zeros() as usize], cheapest.rows),
            side => Joined::join(self.tree_of(side), self.tree_of(subset ^ side), cheapest.rows),
        }
    }
}

/// One side of each way to split a subset in two: the one with the lowest bit.
fn splits(subset: usize) -> impl Iterator<Item = usize> {
    let lowest = subset & subset.wrapping_neg();
    let others = subset ^ lowest;
    let parts = std::iter::successors(Some(others), move |part| part.checked_sub(1).map(|part| part & others));
    parts.skip(1).map(move |part| part | lowest)
}

/// Joins the two whose join has the fewest rows, again and again; those that no condition links last.
fn greedy(joined: Vec<Joined>, cardinality: &Cardinality<'_>) -> Joined {
    let mut joined: Vec<Option<Joined>> = joined.into_iter().map(Some).collect();
    let mut pairs: Vec<Pair> = Vec::new();
    for number in 0..joined.len() {
        add_pairs(&joined[..=number], &mut pairs, cardinality);
    }
    while let Some(pair) = pairs.iter().min_by(|left, right| left.compare(right)).copied() {
        let [one, other] = pair.sides.map(|side| joined[side].take().expect("sides of pairs are there"));
        pairs.retain(|left| !left.sides.iter().any(|side| pair.sides.contains(side)));
        joined.push(Some(Joined::join(one, other, pair.rows)));
        add_pairs(&joined, &mut pairs, cardinality);
    }
    joined.into_iter().flatten().next().expect("one relation is left")
}

/// Two trees that could be joined next.
#[derive(Clone, Copy)]
struct Pair {
    sides: [usize; 2],
    is_linked: bool,
    rows: f64,
    cost: f64,
}

impl Pair {
    /// Which of two pairs is better.
    fn compare(&self, other: &Pair) -> Ordering {
        let by_rows = self.rows.total_cmp(&other.rows).then(self.cost.total_cmp(&other.cost));
        other.is_linked.cmp(&self.is_linked).then(by_rows)
    }
}

/// Adds the pairs of the last tree with those before it.
fn add_pairs(joined: &[Option<Joined>], pairs: &mut Vec<Pair>, cardinality: &Cardinality<'_>) {
    let Some((Some(last), before)) = joined.split_last() else { return };
    for (side, other) in before.iter().enumerate() {
        let Some(other) = other else { continue };
        let rows = cardinality.rows(last.set.with(other.set));
        pairs.push(Pair {
            sides: [side, before.len()],
            is_linked: cardinality.are_linked(last.set, other.set),
            rows,
            cost: cost_of_join(last.tree.rows(), other.tree.rows(), rows),
        });
    }
}
