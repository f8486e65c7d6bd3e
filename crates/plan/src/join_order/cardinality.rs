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

use super::conflicts::{OperatorPlace, closure, places};
use super::relation_set::RelationSet;
use super::{JoinColumn, JoinGraph, JoinOperator, JoinTree};

/// What is known of one graph: its links, and estimates.
pub(super) struct Cardinality<'a> {
    graph: &'a JoinGraph,
    /// The relations that no operator has on its right.
    inner: RelationSet,
    /// Columns that are equal, each once.
    classes: Vec<Vec<JoinColumn>>,
    /// Pairs of relations that share classes, those that share most first.
    links: Vec<Link>,
    /// The relations that each predicate needs.
    needed: Vec<RelationSet>,
    /// Where each operator may stand.
    places: Vec<OperatorPlace>,
    /// By relation, those that an inner join links with it.
    linked: Vec<RelationSet>,
    /// Links of more than two relations: equalities of expressions over several.
    linked_sets: Vec<(RelationSet, RelationSet)>,
    /// By relation, those that anything links with it.
    adjacent: Vec<RelationSet>,
    /// Sets that anything links, one of them with more than one relation.
    adjacent_sets: Vec<(RelationSet, RelationSet)>,
}

/// How two sets of relations are joined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Connection {
    /// By conditions of inner joins.
    Inner,
    /// By an operator. The first set is its left side, or with `flipped` the second.
    Operator { number: usize, flipped: bool },
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
    relations: RelationSet,
    distinct: f64,
}

impl<'a> Cardinality<'a> {
    pub(super) fn new(graph: &'a JoinGraph) -> Cardinality<'a> {
        let classes = classes_of(graph);
        let count = graph.relations.len();
        let places = places(&graph.operators);
        let of_operators = RelationSet::of_all(graph.operators.iter().map(|operator| &operator.right));
        let all = (0..count).fold(RelationSet::EMPTY, |all, relation| all.with(RelationSet::of(relation)));
        let needed = graph.predicates.iter();
        let needed = needed.map(|predicate| closure(RelationSet::of_all(&predicate.relations), &places)).collect();
        let mut cardinality = Cardinality {
            inner: all.without(of_operators),
            links: links_of(graph, &classes),
            graph,
            classes,
            needed,
            places,
            linked: vec![RelationSet::EMPTY; count],
            linked_sets: Vec::new(),
            adjacent: Vec::new(),
            adjacent_sets: Vec::new(),
        };
        for link in &cardinality.links {
            let [one, other] = link.relations;
            add_link(&mut cardinality.linked, one, other);
        }
        for sides in graph.predicates.iter().filter_map(|predicate| predicate.sides.as_ref()) {
            let [one, other] = [&sides.0, &sides.1].map(RelationSet::of_all);
            let is_link = !one.meets(other) && one.with(other).is_within(cardinality.inner);
            match (one.len(), other.len()) {
                _ if !is_link => {}
                (1, 1) => add_link(&mut cardinality.linked, one.first(), other.first()),
                _ => cardinality.linked_sets.push((one, other)),
            }
        }
        cardinality.adjacent = cardinality.linked.clone();
        cardinality.adjacent_sets = cardinality.linked_sets.clone();
        for place in &cardinality.places {
            match place.left.len() {
                1 => add_link(&mut cardinality.adjacent, place.left.first(), place.right.first()),
                _ => cardinality.adjacent_sets.push((place.left, place.right)),
            }
        }
        cardinality
    }

    /// An operator.
    pub(super) fn operator(&self, number: usize) -> &JoinOperator {
        &self.graph.operators[number]
    }

    /// How two sets that have no relation in common can be joined; `None` if only by a cross product, or not at all.
    pub(super) fn connection(&self, one: RelationSet, other: RelationSet) -> Option<Connection> {
        let are_linked = one.iter().any(|relation| self.linked[relation].meets(other))
            || self.linked_sets.iter().any(|(left, right)| {
                (left.is_within(one) && right.is_within(other)) || (left.is_within(other) && right.is_within(one))
            });
        let mut found = are_linked.then_some(Connection::Inner);
        for (number, place) in self.places.iter().enumerate() {
            let flipped = place.right.is_within(one);
            let (left, right) = if flipped { (other, one) } else { (one, other) };
            if place.fits(left, right) {
                if found.is_some() {
                    // One join cannot do both.
                    return None;
                }
                found = Some(Connection::Operator { number, flipped });
            }
        }
        found
    }

    /// Whether the rows of a set may be multiplied with others: no operator waits for them.
    pub(super) fn may_multiply(&self, set: RelationSet) -> bool {
        set.meets(self.inner)
    }

    /// Relations that a condition links with `set`, without those of `excluded`. A set that is linked as a whole is
    /// represented by its first relation.
    pub(super) fn neighbours(&self, set: RelationSet, excluded: RelationSet) -> RelationSet {
        let single = set.iter().fold(RelationSet::EMPTY, |all, relation| all.with(self.adjacent[relation]));
        let excluded = excluded.with(set);
        let mut neighbours = single.without(excluded);
        for (one, other) in &self.adjacent_sets {
            for (here, there) in [(one, other), (other, one)] {
                if here.is_within(set) && !there.meets(excluded) {
                    neighbours = neighbours.with(RelationSet::of(there.first()));
                }
            }
        }
        neighbours
    }

    /// The relations in parts that conditions link.
    pub(super) fn components(&self) -> Vec<RelationSet> {
        let mut components: Vec<RelationSet> = Vec::new();
        let single = self.adjacent.iter().enumerate().map(|(relation, linked)| linked.with(RelationSet::of(relation)));
        for linked in single.chain(self.adjacent_sets.iter().map(|(one, other)| one.with(*other))) {
            let mut all = linked;
            components.retain(|component| {
                let meets = component.meets(linked);
                if meets {
                    all = all.with(*component);
                }
                !meets
            });
            components.push(all);
        }
        components
    }

    /// Rows of the join of a set of relations, at least one. Logarithms are added so that no product leaves the floats.
    pub(super) fn rows(&self, set: RelationSet) -> f64 {
        let rows = |relation: usize| at_least_one(self.graph.relations[relation].rows).log2();
        let product: f64 = set.common(self.inner).iter().map(rows).sum();
        let operators = self.places.iter().zip(&self.graph.operators).filter(|(_, operator)| set.has(operator.right));
        let grown: f64 = operators
            .map(|(place, operator)| match place.left.is_within(set) {
                true => growth(operator.growth).log2(),
                false => rows(operator.right),
            })
            .sum();
        let predicates = self.graph.predicates.iter().zip(&self.needed).filter(|(_, needed)| needed.is_within(set));
        let passing: f64 = predicates.map(|(predicate, _)| share(predicate.selectivity).log2()).sum();
        (product + grown + passing - self.reduction(set)).clamp(0.0, f64::MAX.log2() / 2.0).exp2()
    }

    /// The rows that are read of `many` if they are found by the keys of `few`; `None` if they cannot be. `rows` are
    /// those of the join.
    pub(super) fn rows_by_key(
        &self,
        few: RelationSet,
        many: RelationSet,
        connection: Connection,
        rows: f64,
    ) -> Option<f64> {
        let relation = Some(many.first()).filter(|_| many.len() == 1)?;
        let info = &self.graph.relations[relation];
        let is_found = match connection {
            Connection::Operator { number, .. } => {
                let operator = self.operator(number);
                operator.right == relation && operator.finds_right
            }
            Connection::Inner => self.classes.iter().any(|class| {
                let is_key =
                    |column: &JoinColumn| column.relation == relation && info.found_by.contains(&column.column);
                class.iter().any(is_key) && class.iter().any(|column| few.has(column.relation))
            }),
        };
        // Rows that the relation's own conditions take away are read before that.
        let read = rows * at_least_one(info.rows_unfiltered) / at_least_one(info.rows);
        is_found.then(|| read.min(info.rows_unfiltered))
    }

    /// How many times fewer rows the classes leave of the product of a set, as a binary logarithm.
    fn reduction(&self, set: RelationSet) -> f64 {
        // Classes are read when a link has them: most links of a large graph are not within a set.
        let mut equal: Vec<Vec<Equal>> = std::iter::repeat_with(Vec::new).take(self.classes.len()).collect();
        let mut reduction = 0.0;
        for link in &self.links {
            if !link.relations.iter().all(|relation| set.has(*relation)) {
                continue;
            }
            let united = link.classes.iter().filter_map(|class| {
                let equal = &mut equal[*class];
                if equal.is_empty() {
                    *equal = apart(&self.classes[*class], set);
                }
                unite(equal, link.relations)
            });
            let mut reductions: Vec<f64> = united.collect();
            reduction += match link.key_rows {
                Some(rows) if reductions.len() == link.classes.len() => rows.log2(),
                _ => self.bounded(damped(&mut reductions), link.relations),
            };
        }
        reduction
    }

    /// A reduction of the product of two relations, as a binary logarithm. If their columns have more combinations of values than
    /// either has rows, the values of the smaller are taken to be those that the larger refers to.
    fn bounded(&self, reduction: f64, relations: [usize; 2]) -> f64 {
        let [one, other] =
            relations.map(|relation| at_least_one(self.graph.relations[relation].rows_unfiltered).log2());
        if reduction > one.max(other) { one.min(other) } else { reduction }
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
                Placed { set: RelationSet::of(*relation), columns: self.classes.iter().map(own).collect() }
            }
            JoinTree::Join(join) => {
                let (build, probe) = (self.place(&mut join.build), self.place(&mut join.probe));
                let set = build.set.with(probe.set);
                let is_new = |needed: &RelationSet| {
                    needed.is_within(set) && !needed.is_within(build.set) && !needed.is_within(probe.set)
                };
                join.predicates = (0..self.needed.len()).filter(|predicate| is_new(&self.needed[*predicate])).collect();
                let both = build.columns.into_iter().zip(probe.columns);
                let columns = both.map(|(build, probe)| equate(build, probe, &mut join.on)).collect();
                Placed { set, columns }
            }
            JoinTree::Operator(join) => {
                let (left, right) = (self.place(&mut join.left), self.place(&mut join.right));
                let set = left.set.with(right.set);
                let is_new = |needed: &RelationSet| needed.is_within(set) && !needed.is_within(left.set);
                join.predicates = (0..self.needed.len()).filter(|predicate| is_new(&self.needed[*predicate])).collect();
                Placed { set, columns: left.columns }
            }
        }
    }
}

/// What is known of a tree whose conditions are placed.
struct Placed {
    set: RelationSet,
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

fn add_link(linked: &mut [RelationSet], one: usize, other: usize) {
    linked[one] = linked[one].with(RelationSet::of(other));
    linked[other] = linked[other].with(RelationSet::of(one));
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
            let distinct_of = |column: usize| {
                let mut members = shared.iter().flat_map(|class| &classes[*class]);
                let member = members.find(|member| member.relation == *relation && member.column == column);
                member.map(|member| member.distinct)
            };
            let relation = &graph.relations[*relation];
            let keys = relation.keys.iter().filter(|key| key.iter().all(|column| columns.contains(column)));
            // A key of one column has a row for each of the values that conditions on it leave.
            let rows = keys.map(|key| match key[..] {
                [only] => distinct_of(only).unwrap_or(relation.rows_unfiltered).min(relation.rows_unfiltered),
                _ => relation.rows_unfiltered,
            });
            rows.map(at_least_one).reduce(f64::min)
        });
        Link { relations, key_rows: key_rows.reduce(f64::max), classes: shared }
    };
    let mut links: Vec<Link> = shared.into_iter().map(link).collect();
    links.sort_by_key(|link| std::cmp::Reverse(link.classes.len()));
    links
}

/// The columns of a class in a set of relations, before any join.
fn apart(class: &[JoinColumn], set: RelationSet) -> Vec<Equal> {
    let columns = class.iter().filter(|column| set.has(column.relation));
    columns
        .map(|column| Equal { relations: RelationSet::of(column.relation), distinct: at_least_one(column.distinct) })
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

/// An estimate of the rows of a result per row that can be calculated with.
fn growth(estimate: f64) -> f64 {
    if estimate.is_nan() { 1.0 } else { estimate.clamp(f64::MIN_POSITIVE, f64::MAX) }
}
