//! How many rows joins have, and which conditions hold where.
//!
//! Columns that edges make equal form a class. Among relations that are joined, a class takes away all rows in which its
//! columns differ: with each column after the first, one row in as many as the column has distinct values, the more of
//! both sides, since the values of the smaller side are taken to be among those of the larger (Selinger et al., "Access
//! Path Selection in a Relational Database Management System", 1979). So edges that follow from others count once.
//!
//! Several classes between the same two relations are hardly independent. If their columns have a key of one of the
//! relations, a row of the other meets one row of it; otherwise the second class counts with its square root, the third
//! with its fourth root, and so on. For that, classes are taken as links of two relations, pairs that share many first: a
//! pair of columns is one join, although each of its columns may be equal to others elsewhere.

use std::collections::BTreeMap;

use super::{JoinColumn, JoinGraph, JoinTree};

/// Some relations, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Set(u128);

impl Set {
    pub(super) fn of(relation: usize) -> Set {
        Set(1 << relation)
    }

    pub(super) fn has(self, relation: usize) -> bool {
        self.0 >> relation & 1 == 1
    }

    pub(super) fn with(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }

    pub(super) fn meets(self, other: Set) -> bool {
        self.0 & other.0 != 0
    }

    fn is_within(self, other: Set) -> bool {
        self.0 & !other.0 == 0
    }
}

/// Estimates for one graph.
pub(super) struct Cardinality<'a> {
    graph: &'a JoinGraph,
    /// Columns that are equal, each once.
    classes: Vec<Vec<JoinColumn>>,
    /// Pairs of relations that share classes, those that share most first.
    links: Vec<Link>,
    /// The relations that each predicate needs.
    needed: Vec<Set>,
}

/// Two relations that share classes.
struct Link {
    relations: [usize; 2],
    classes: Vec<usize>,
    /// Rows of the relation that has a key among the columns of the classes, more if both have.
    key_rows: Option<f64>,
}

/// Columns of a class that hold equal values, and how many.
struct Equal {
    relations: Set,
    distinct: f64,
}

impl<'a> Cardinality<'a> {
    pub(super) fn new(graph: &'a JoinGraph) -> Cardinality<'a> {
        let classes = classes_of(graph);
        let set = |relations: &Vec<usize>| relations.iter().fold(Set(0), |set, relation| set.with(Set::of(*relation)));
        let needed = graph.predicates.iter().map(|predicate| set(&predicate.relations)).collect();
        Cardinality { links: links_of(graph, &classes), graph, classes, needed }
    }

    /// The number of relations.
    pub(super) fn relations(&self) -> usize {
        self.graph.relations.len()
    }

    /// Whether a condition links two sets of relations.
    pub(super) fn are_linked(&self, left: Set, right: Set) -> bool {
        self.links.iter().any(|link| {
            let [one, other] = link.relations.map(Set::of);
            (one.meets(left) && other.meets(right)) || (one.meets(right) && other.meets(left))
        })
    }

    /// Rows of the join of a set of relations, at least one. Logarithms are added so that no product leaves the floats.
    pub(super) fn rows(&self, set: Set) -> f64 {
        let relations = self.graph.relations.iter().enumerate().filter(|(relation, _)| set.has(*relation));
        let product: f64 = relations.map(|(_, relation)| at_least_one(relation.rows).log2()).sum();
        let predicates = self.graph.predicates.iter().zip(&self.needed).filter(|(_, needed)| needed.is_within(set));
        let passing: f64 = predicates.map(|(predicate, _)| share(predicate.selectivity).log2()).sum();
        (product + passing - self.reduction(set)).clamp(0.0, f64::MAX.log2() / 2.0).exp2()
    }

    /// How many times fewer rows the classes leave of the product of a set, as a binary logarithm.
    fn reduction(&self, set: Set) -> f64 {
        let mut equal: Vec<Vec<Equal>> = self.classes.iter().map(|class| apart(class, set)).collect();
        let mut reduction = 0.0;
        for link in &self.links {
            if !link.relations.iter().all(|relation| set.has(*relation)) {
                continue;
            }
            let mut reductions: Vec<f64> =
                link.classes.iter().filter_map(|class| unite(&mut equal[*class], link.relations)).collect();
            reduction += match link.key_rows {
                Some(rows) if reductions.len() == link.classes.len() => rows.log2(),
                _ => damped(&mut reductions),
            };
        }
        reduction
    }

    /// Says of each join of a tree which conditions it checks.
    pub(super) fn place_conditions(&self, tree: &mut JoinTree) {
        self.place(tree);
    }

    fn place(&self, tree: &mut JoinTree) -> Placed {
        match tree {
            JoinTree::Relation { relation, .. } => {
                let own = |class: &Vec<JoinColumn>| {
                    class.iter().filter(|column| column.relation == *relation).copied().collect()
                };
                Placed { set: Set::of(*relation), columns: self.classes.iter().map(own).collect() }
            }
            JoinTree::Join(join) => {
                let (build, probe) = (self.place(&mut join.build), self.place(&mut join.probe));
                let set = build.set.with(probe.set);
                let is_new = |needed: &Set| {
                    needed.is_within(set) && !needed.is_within(build.set) && !needed.is_within(probe.set)
                };
                join.predicates = (0..self.needed.len()).filter(|predicate| is_new(&self.needed[*predicate])).collect();
                let both = build.columns.into_iter().zip(probe.columns);
                let columns = both.map(|(build, probe)| equate(build, probe, &mut join.on)).collect();
                Placed { set, columns }
            }
        }
    }
}

/// What is known of a tree whose conditions are placed.
struct Placed {
    set: Set,
    /// Of each class, columns that are not known to be equal to one another yet.
    columns: Vec<Vec<JoinColumn>>,
}

/// Makes all columns of a class equal to one another, if both sides have some, and leaves one to stand for them.
fn equate(
    mut build: Vec<JoinColumn>,
    probe: Vec<JoinColumn>,
    on: &mut Vec<(JoinColumn, JoinColumn)>,
) -> Vec<JoinColumn> {
    let (Some(first_build), Some(first_probe)) = (build.first(), probe.first()) else {
        build.extend(probe);
        return build;
    };
    on.extend(build.iter().map(|column| (*column, *first_probe)));
    on.extend(probe[1..].iter().map(|column| (*first_build, *column)));
    build.truncate(1);
    build
}

/// Columns that edges make equal.
fn classes_of(graph: &JoinGraph) -> Vec<Vec<JoinColumn>> {
    let is_same = |one: &JoinColumn, other: &JoinColumn| (one.relation, one.column) == (other.relation, other.column);
    let mut classes: Vec<Vec<JoinColumn>> = Vec::new();
    for edge in &graph.edges {
        let (met, mut rest): (Vec<_>, Vec<_>) = classes
            .into_iter()
            .partition(|class| class.iter().any(|column| is_same(column, &edge.left) || is_same(column, &edge.right)));
        let mut class = met.concat();
        for column in [edge.left, edge.right] {
            if !class.iter().any(|known| is_same(known, &column)) {
                class.push(column);
            }
        }
        rest.push(class);
        classes = rest;
    }
    classes
}

fn links_of(graph: &JoinGraph, classes: &[Vec<JoinColumn>]) -> Vec<Link> {
    let mut shared: BTreeMap<[usize; 2], Vec<usize>> = BTreeMap::new();
    for (number, class) in classes.iter().enumerate() {
        let mut relations: Vec<usize> = class.iter().map(|column| column.relation).collect();
        relations.sort_unstable();
        relations.dedup();
        for (place, one) in relations.iter().enumerate() {
            for other in &relations[place + 1..] {
                shared.entry([*one, *other]).or_default().push(number);
            }
        }
    }
    let link = |(relations, shared): ([usize; 2], Vec<usize>)| {
        let key_rows = relations.iter().filter_map(|relation| {
            let columns = shared.iter().flat_map(|class| &classes[*class]);
            let columns: Vec<usize> =
                columns.filter(|column| column.relation == *relation).map(|column| column.column).collect();
            let relation = &graph.relations[*relation];
            let has_key = relation.keys.iter().any(|key| key.iter().all(|column| columns.contains(column)));
            has_key.then(|| at_least_one(relation.rows_unfiltered))
        });
        Link { relations, key_rows: key_rows.reduce(f64::max), classes: shared }
    };
    let mut links: Vec<Link> = shared.into_iter().map(link).collect();
    links.sort_by_key(|link| std::cmp::Reverse(link.classes.len()));
    links
}

/// The columns of a class in a set of relations, before any join.
fn apart(class: &[JoinColumn], set: Set) -> Vec<Equal> {
    let columns = class.iter().filter(|column| set.has(column.relation));
    columns
        .map(|column| Equal { relations: Set::of(column.relation), distinct: at_least_one(column.distinct) })
        .collect()
}

/// Makes columns of two relations equal. By how much that reduces a join of them, as a binary logarithm; `None` if they
/// are equal already.
fn unite(equal: &mut Vec<Equal>, relations: [usize; 2]) -> Option<f64> {
    let place = |equal: &[Equal], relation| equal.iter().position(|columns| columns.relations.has(relation));
    let (one, other) = (place(equal, relations[0])?, place(equal, relations[1])?);
    if one == other {
        return None;
    }
    let taken = equal.swap_remove(one.max(other));
    let kept = &mut equal[one.min(other)];
    let most = kept.distinct.max(taken.distinct);
    kept.relations = kept.relations.with(taken.relations);
    kept.distinct = kept.distinct.min(taken.distinct);
    Some(most.log2())
}

/// All reductions together, each counting half as much as the one before, the greatest first.
fn damped(reductions: &mut [f64]) -> f64 {
    reductions.sort_by(|left, right| right.total_cmp(left));
    reductions.iter().rev().fold(0.0, |rest, reduction| reduction + rest / 2.0)
}

/// An estimate of rows or of values that can be calculated with.
fn at_least_one(estimate: f64) -> f64 {
    if estimate.is_nan() { 1.0 } else { estimate.clamp(1.0, f64::MAX) }
}

/// An estimate of a share that can be calculated with.
fn share(estimate: f64) -> f64 {
    if estimate.is_nan() { 1.0 } else { estimate.clamp(f64::MIN_POSITIVE, 1.0) }
}
