//! Estimates of the rows of joins, and the places where conditions are checked.
//!
//! Columns that edges make equal form a class. When relations are joined, a class removes all rows in which its columns
//! differ. Each column after the first keeps one row in `d`, where `d` is the number of distinct values of the side
//! that has more, because we assume that the values of the smaller side are among those of the larger one (Selinger et
//! al., "Access Path Selection in a Relational Database Management System", 1979). Implied edges therefore count only
//! once.
//!
//! Several classes between the same two relations are rarely independent. If their columns contain a key of one
//! relation, each row of the other relation meets one row of it. Otherwise the second class counts with its square
//! root, the third with its fourth root, and so on. For this we treat classes as links between two relations, and we
//! start with the pairs that share the most classes. A pair of columns is then one join, although each of its columns
//! may be equal to columns elsewhere.

use std::collections::BTreeMap;

use super::conflicts::{OperatorPlace, closure, places};
use super::relation_set::RelationSet;
use super::{JoinColumn, JoinGraph, JoinOperator, JoinTree};

/// The facts that are computed once per graph: links, and places of the operators.
pub(super) struct Cardinality<'a> {
    graph: &'a JoinGraph,
    /// The relations that are not the right side of an operator.
    inner: RelationSet,
    /// The classes: groups of equal columns. A column is in at most one class.
    classes: Vec<Vec<JoinColumn>>,
    /// Pairs of relations that share classes. Pairs that share the most come first.
    links: Vec<Link>,
    /// The relations that must be joined before each predicate can be checked.
    needed: Vec<RelationSet>,
    /// The places that each operator may take.
    places: Vec<OperatorPlace>,
    /// For each relation, the relations that an inner join links with it.
    linked: Vec<RelationSet>,
    /// Links between sets of more than two relations, from equalities of expressions over several relations.
    linked_sets: Vec<(RelationSet, RelationSet)>,
    /// For each relation, the relations that any condition links with it.
    adjacent: Vec<RelationSet>,
    /// Pairs of sets that any condition links, if one of them has more than one relation.
    adjacent_sets: Vec<(RelationSet, RelationSet)>,
}

/// How two sets of relations can be joined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Connection {
    /// By conditions of inner joins.
    Inner,
    /// By an operator. The first set is its left side, or, with `flipped`, the second one.
    Operator { number: usize, flipped: bool },
}

/// Two relations that share classes.
struct Link {
    relations: [usize; 2],
    classes: Vec<usize>,
    /// Rows of the relation whose key is among the columns of the classes. If both relations have one, the larger
    /// number.
    key_rows: Option<f64>,
}

/// Columns of a class that are known to be equal, and their number of distinct values.
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
        // A predicate on an operator's right side must wait for everything that the operator needs.
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
        // Equalities of expressions can link relations like edges, but only between inner relations.
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

    /// The operator with this number.
    pub(super) fn operator(&self, number: usize) -> &JoinOperator {
        &self.graph.operators[number]
    }

    /// How two disjoint sets can be joined. Returns `None` if that takes a cross product or is not possible.
    pub(super) fn connection(&self, one: RelationSet, other: RelationSet) -> Option<Connection> {
        // Check cheap links of single relations before links of sets.
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
                    // A join can not apply two operators, or an operator and an inner condition, at the same time.
                    return None;
                }
                found = Some(Connection::Operator { number, flipped });
            }
        }
        found
    }

    /// Whether a cross product with the set is allowed: an operator's right side alone must wait for the operator.
    pub(super) fn may_multiply(&self, set: RelationSet) -> bool {
        set.meets(self.inner)
    }

    /// The relations that a condition links with `set`, without those in `excluded`. If the set is linked with a whole
    /// set, that set is represented by its first relation, because DPhyp must visit each set only once.
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

    /// Splits the relations into connected components.
    pub(super) fn components(&self) -> Vec<RelationSet> {
        let mut components: Vec<RelationSet> = Vec::new();
        let single = self.adjacent.iter().enumerate().map(|(relation, linked)| linked.with(RelationSet::of(relation)));
        for linked in single.chain(self.adjacent_sets.iter().map(|(one, other)| one.with(*other))) {
            let mut all = linked;
            // Merge every component that shares a relation with this link.
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

    /// Estimated rows of the join of a set of relations, at least one. We add logarithms because a product could
    /// overflow.
    pub(super) fn rows(&self, set: RelationSet) -> f64 {
        // Inner relations multiply; operators scale the result by their growth.
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

    /// Estimated rows that are read of `many` if an index finds them by the keys of `few`, or `None` if no index can.
    /// `rows` are the estimated rows of the join.
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
        // The index also reads rows that the relation's own conditions remove afterwards.
        let read = rows * at_least_one(info.rows_unfiltered) / at_least_one(info.rows);
        is_found.then(|| read.min(info.rows_unfiltered))
    }

    /// The factor by which the classes reduce the product of a set, as a binary logarithm.
    fn reduction(&self, set: RelationSet) -> f64 {
        // Classes are filled in when a link needs them, because most links of a large graph are not within the set.
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
                // Without a key, or with some classes already equal, the columns are damped as dependent.
                _ => self.bounded(damped(&mut reductions), link.relations),
            };
        }
        reduction
    }

    /// Limits the reduction of the product of two relations, as a binary logarithm. If their columns have more
    /// combinations of values than either has rows, we assume a foreign key: the values of the smaller side are those
    /// that the larger refers to.
    fn bounded(&self, reduction: f64, relations: [usize; 2]) -> f64 {
        let [one, other] =
            relations.map(|relation| at_least_one(self.graph.relations[relation].rows_unfiltered).log2());
        if reduction > one.max(other) { one.min(other) } else { reduction }
    }

    /// Determines for each join of a tree which conditions it checks.
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
                // A condition belongs to the lowest join that has all of its relations.
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

/// The facts about a tree whose conditions are placed.
struct Placed {
    set: RelationSet,
    /// For each class, its columns in the tree that are not known to be equal to each other yet.
    columns: Vec<Vec<JoinColumn>>,
}

/// Makes all columns of a class equal, if both sides have some, by adding the equalities to `on`. Keeps one column as
/// the representative of the class.
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

/// Groups the columns that edges make equal, directly or through other columns.
fn classes_of(graph: &JoinGraph) -> Vec<Vec<JoinColumn>> {
    let is_same = |one: &JoinColumn, other: &JoinColumn| (one.relation, one.column) == (other.relation, other.column);
    let mut classes: Vec<Vec<JoinColumn>> = Vec::new();
    for edge in &graph.edges {
        // An edge may connect two classes, which then become one.
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
            // A key of a single column has one row for each value that the conditions on it leave.
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

/// The columns of a class in a set of relations, each on its own, before any join.
fn apart(class: &[JoinColumn], set: RelationSet) -> Vec<Equal> {
    let columns = class.iter().filter(|column| set.has(column.relation));
    columns
        .map(|column| Equal { relations: RelationSet::of(column.relation), distinct: at_least_one(column.distinct) })
        .collect()
}

/// Joins the columns of two relations in a class. Returns by how much that reduces their join, as a binary logarithm,
/// or `None` if they are already equal.
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

/// Sums the reductions, the greatest first. Each one counts half of the one before it.
fn damped(reductions: &mut [f64]) -> f64 {
    reductions.sort_by(|left, right| right.total_cmp(left));
    reductions.iter().rev().fold(0.0, |rest, reduction| reduction + rest / 2.0)
}

/// Makes an estimate of rows or values safe to calculate with.
fn at_least_one(estimate: f64) -> f64 {
    if estimate.is_nan() { 1.0 } else { estimate.clamp(1.0, f64::MAX) }
}

/// Makes an estimate of a share safe to calculate with.
fn share(estimate: f64) -> f64 {
    if estimate.is_nan() { 1.0 } else { estimate.clamp(f64::MIN_POSITIVE, 1.0) }
}

/// Makes an estimate of rows per row safe to calculate with.
fn growth(estimate: f64) -> f64 {
    if estimate.is_nan() { 1.0 } else { estimate.clamp(f64::MIN_POSITIVE, f64::MAX) }
}
