use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::cardinality::Set;
use super::enumeration::cost_of_join;
use super::*;

/// A graph whose relations have names and whose columns are spelled `relation.column`.
#[derive(Default)]
struct Named {
    names: Vec<&'static str>,
    columns: Vec<String>,
    graph: JoinGraph,
}

impl Named {
    /// Adds a relation with `rows` rows, of which a share passes, and the columns of its keys.
    fn relation(mut self, name: &'static str, rows: f64, passing: f64, keys: &[&[&str]]) -> Named {
        self.names.push(name);
        let keys = keys.iter().map(|key| key.iter().map(|column| self.column(&format!("{name}.{column}"))).collect());
        let keys = keys.collect();
        self.graph.relations.push(JoinRelation { rows: rows * passing, rows_unfiltered: rows, keys });
        self
    }

    fn column(&mut self, name: &str) -> usize {
        self.columns.iter().position(|known| known == name).unwrap_or_else(|| {
            self.columns.push(name.to_owned());
            self.columns.len() - 1
        })
    }

    /// Adds an equality of columns that have as many distinct values each.
    fn equal(mut self, left: (&str, f64), right: (&str, f64)) -> Named {
        let [left, right] = [left, right].map(|(name, distinct)| {
            let relation = name.split('.').next().expect("a relation");
            let relation = self.names.iter().position(|known| *known == relation).expect("a known relation");
            JoinColumn { relation, column: self.column(name), distinct }
        });
        self.graph.edges.push(JoinEdge { left, right });
        self
    }

    fn predicate(mut self, relations: &[usize], selectivity: f64) -> Named {
        self.graph.predicates.push(JoinPredicate { relations: relations.to_vec(), selectivity });
        self
    }

    fn order(&self) -> JoinTree {
        join_order(&self.graph).expect("some relations")
    }

    /// A tree with the build side in front.
    fn show(&self, tree: &JoinTree) -> String {
        match tree {
            JoinTree::Relation { relation, .. } => self.names[*relation].to_owned(),
            JoinTree::Join(join) => format!("({} {})", self.show(&join.build), self.show(&join.probe)),
        }
    }
}

fn relations_of(tree: &JoinTree) -> Vec<usize> {
    match tree {
        JoinTree::Relation { relation, .. } => vec![*relation],
        JoinTree::Join(join) => [relations_of(&join.build), relations_of(&join.probe)].concat(),
    }
}

fn joins_of(tree: &JoinTree) -> Vec<&Join> {
    match tree {
        JoinTree::Relation { .. } => Vec::new(),
        JoinTree::Join(join) => [vec![&**join], joins_of(&join.build), joins_of(&join.probe)].concat(),
    }
}

fn cost_of(tree: &JoinTree) -> f64 {
    joins_of(tree).iter().map(|join| cost_of_join(join.build.rows(), join.probe.rows(), join.rows)).sum()
}

const ORDERS: f64 = 1_500_000.0;
const LINES: f64 = 6_000_000.0;
const CUSTOMERS: f64 = 150_000.0;
const SUPPLIERS: f64 = 10_000.0;
const PARTS: f64 = 200_000.0;
const OFFERS: f64 = 800_000.0;

fn q5() -> Named {
    Named::default()
        .relation("customer", CUSTOMERS, 1.0, &[&["key"]])
        .relation("orders", ORDERS, 0.15, &[&["key"]])
        .relation("lineitem", LINES, 1.0, &[])
        .relation("supplier", SUPPLIERS, 1.0, &[&["key"]])
        .relation("nation", 25.0, 1.0, &[&["key"]])
        .relation("region", 5.0, 0.2, &[&["key"]])
        .equal(("customer.key", CUSTOMERS), ("orders.customer", 100_000.0))
        .equal(("lineitem.order", ORDERS), ("orders.key", ORDERS))
        .equal(("lineitem.supplier", SUPPLIERS), ("supplier.key", SUPPLIERS))
        .equal(("customer.nation", 25.0), ("supplier.nation", 25.0))
        .equal(("supplier.nation", 25.0), ("nation.key", 25.0))
        .equal(("nation.region", 5.0), ("region.key", 5.0))
}

fn q7() -> Named {
    Named::default()
        .relation("supplier", SUPPLIERS, 1.0, &[&["key"]])
        .relation("lineitem", LINES, 0.3, &[])
        .relation("orders", ORDERS, 1.0, &[&["key"]])
        .relation("customer", CUSTOMERS, 1.0, &[&["key"]])
        .relation("n1", 25.0, 0.08, &[&["key"]])
        .relation("n2", 25.0, 0.08, &[&["key"]])
        .equal(("supplier.key", SUPPLIERS), ("lineitem.supplier", SUPPLIERS))
        .equal(("orders.key", ORDERS), ("lineitem.order", ORDERS))
        .equal(("customer.key", CUSTOMERS), ("orders.customer", 100_000.0))
        .equal(("supplier.nation", 25.0), ("n1.key", 25.0))
        .equal(("customer.nation", 25.0), ("n2.key", 25.0))
        .predicate(&[4, 5], 0.5)
}

fn q8() -> Named {
    Named::default()
        .relation("part", PARTS, 1.0 / 150.0, &[&["key"]])
        .relation("supplier", SUPPLIERS, 1.0, &[&["key"]])
        .relation("lineitem", LINES, 1.0, &[])
        .relation("orders", ORDERS, 0.3, &[&["key"]])
        .relation("customer", CUSTOMERS, 1.0, &[&["key"]])
        .relation("n1", 25.0, 1.0, &[&["key"]])
        .relation("n2", 25.0, 1.0, &[&["key"]])
        .relation("region", 5.0, 0.2, &[&["key"]])
        .equal(("part.key", PARTS), ("lineitem.part", PARTS))
        .equal(("supplier.key", SUPPLIERS), ("lineitem.supplier", SUPPLIERS))
        .equal(("lineitem.order", ORDERS), ("orders.key", ORDERS))
        .equal(("orders.customer", 100_000.0), ("customer.key", CUSTOMERS))
        .equal(("customer.nation", 25.0), ("n1.key", 25.0))
        .equal(("n1.region", 5.0), ("region.key", 5.0))
        .equal(("supplier.nation", 25.0), ("n2.key", 25.0))
}

fn q9() -> Named {
    Named::default()
        .relation("part", PARTS, 0.05, &[&["key"]])
        .relation("supplier", SUPPLIERS, 1.0, &[&["key"]])
        .relation("lineitem", LINES, 1.0, &[])
        .relation("partsupp", OFFERS, 1.0, &[&["part", "supplier"]])
        .relation("orders", ORDERS, 1.0, &[&["key"]])
        .relation("nation", 25.0, 1.0, &[&["key"]])
        .equal(("supplier.key", SUPPLIERS), ("lineitem.supplier", SUPPLIERS))
        .equal(("partsupp.supplier", SUPPLIERS), ("lineitem.supplier", SUPPLIERS))
        .equal(("partsupp.part", PARTS), ("lineitem.part", PARTS))
        .equal(("part.key", PARTS), ("lineitem.part", PARTS))
        .equal(("orders.key", ORDERS), ("lineitem.order", ORDERS))
        .equal(("supplier.nation", 25.0), ("nation.key", 25.0))
}

fn q2() -> Named {
    Named::default()
        .relation("part", PARTS, 0.004, &[&["key"]])
        .relation("supplier", SUPPLIERS, 1.0, &[&["key"]])
        .relation("partsupp", OFFERS, 1.0, &[&["part", "supplier"]])
        .relation("nation", 25.0, 1.0, &[&["key"]])
        .relation("region", 5.0, 0.2, &[&["key"]])
        .equal(("part.key", PARTS), ("partsupp.part", PARTS))
        .equal(("supplier.key", SUPPLIERS), ("partsupp.supplier", SUPPLIERS))
        .equal(("supplier.nation", 25.0), ("nation.key", 25.0))
        .equal(("nation.region", 5.0), ("region.key", 5.0))
}

fn q21() -> Named {
    Named::default()
        .relation("supplier", SUPPLIERS, 1.0, &[&["key"]])
        .relation("lineitem", LINES, 0.6, &[])
        .relation("orders", ORDERS, 0.49, &[&["key"]])
        .relation("nation", 25.0, 0.04, &[&["key"]])
        .equal(("supplier.key", SUPPLIERS), ("lineitem.supplier", SUPPLIERS))
        .equal(("orders.key", ORDERS), ("lineitem.order", ORDERS))
        .equal(("supplier.nation", 25.0), ("nation.key", 25.0))
}

#[test]
fn known_queries_filter_early_and_never_build_the_fact_table() {
    for (query, fact, expected) in [
        (q2(), "partsupp", "(((region nation) supplier) (part partsupp))"),
        (q5(), "lineitem", "(supplier ((((region nation) customer) orders) lineitem))"),
        (q7(), "lineitem", "(((n2 customer) orders) ((n1 supplier) lineitem))"),
        (q8(), "lineitem", "(n2 (((region n1) (((part lineitem) orders) customer)) supplier))"),
        (q9(), "lineitem", "((((nation supplier) (part partsupp)) lineitem) orders)"),
        (q21(), "lineitem", "(((nation supplier) lineitem) orders)"),
    ] {
        let tree = query.order();
        assert_eq!(query.show(&tree), expected);
        let fact = query.names.iter().position(|name| *name == fact).expect("it is there");
        assert!(joins_of(&tree).iter().all(|join| relations_of(&join.build) != [fact]), "{expected}");
        check(&query.graph, &tree);
    }
}

/// Every relation is in the tree once, all conditions are in it, and the smaller sides are built.
fn check(graph: &JoinGraph, tree: &JoinTree) {
    let mut relations = relations_of(tree);
    relations.sort_unstable();
    assert_eq!(relations, (0..graph.relations.len()).collect::<Vec<_>>());
    let joins = joins_of(tree);
    for join in &joins {
        assert!(join.build.rows() <= join.probe.rows());
        assert!(join.rows >= 1.0 && join.rows.is_finite());
        let (build, probe) = (relations_of(&join.build), relations_of(&join.probe));
        for (left, right) in &join.on {
            assert!(build.contains(&left.relation) || probe.contains(&left.relation));
            assert!(probe.contains(&right.relation));
        }
        for predicate in &join.predicates {
            let needed = &graph.predicates[*predicate].relations;
            assert!(needed.iter().all(|relation| build.contains(relation) || probe.contains(relation)));
            assert!(!needed.iter().all(|relation| build.contains(relation)));
            assert!(!needed.iter().all(|relation| probe.contains(relation)));
        }
    }
    let mut placed: Vec<usize> = joins.iter().flat_map(|join| &join.predicates).copied().collect();
    placed.sort_unstable();
    assert_eq!(placed, (0..graph.predicates.len()).collect::<Vec<_>>());
    for edge in &graph.edges {
        assert!(follows(edge, &joins), "{edge:?} from {tree:?}");
    }
}

/// Whether the columns of an edge are equal where all joins hold.
fn follows(edge: &JoinEdge, joins: &[&Join]) -> bool {
    let mut equal = vec![(edge.left.relation, edge.left.column)];
    loop {
        let known = equal.len();
        for (left, right) in joins.iter().flat_map(|join| &join.on) {
            let (left, right) = ((left.relation, left.column), (right.relation, right.column));
            match (equal.contains(&left), equal.contains(&right)) {
                (true, false) => equal.push(right),
                (false, true) => equal.push(left),
                _ => {}
            }
        }
        if equal.len() == known {
            return equal.contains(&(edge.right.relation, edge.right.column));
        }
    }
}

/// Relations of which most are linked, by few or many columns.
fn random_graph(relations: usize, random: &mut SmallRng) -> JoinGraph {
    let mut graph = JoinGraph::default();
    for _ in 0..relations {
        let rows = 10_f64.powf(random.random_range(0.0..7.0));
        let keys = if random.random() { vec![vec![0]] } else { Vec::new() };
        graph.relations.push(JoinRelation { rows: rows * random.random_range(0.01..1.0), rows_unfiltered: rows, keys });
    }
    let columns = random.random_range(1..4);
    for number in 1..relations + random.random_range(0..relations) {
        let left = number % relations;
        let right = if number < relations { random.random_range(0..number) } else { random.random_range(0..relations) };
        if left == right || random.random_range(0..20) == 0 {
            continue;
        }
        let mut column = |relation: usize| {
            let rows = graph.relations[relation].rows_unfiltered;
            let column = random.random_range(0..columns);
            JoinColumn { relation, column, distinct: rows.powf([1.0, 0.3, 0.6][column]) }
        };
        let edge = JoinEdge { left: column(left), right: column(right) };
        graph.edges.push(edge);
    }
    if relations > 1 && random.random() {
        let (one, other) = (random.random_range(1..relations), 0);
        graph
            .predicates
            .push(JoinPredicate { relations: vec![one, other], selectivity: random.random_range(0.0..1.0) });
    }
    graph
}

/// All trees without cross products.
fn all_trees(relations: &[usize], cardinality: &Cardinality<'_>) -> Vec<JoinTree> {
    let set =
        |relations: &[usize]| relations.iter().map(|relation| Set::of(*relation)).reduce(Set::with).expect("some");
    let rows = cardinality.rows(set(relations));
    if let [relation] = relations {
        return vec![JoinTree::Relation { relation: *relation, rows }];
    }
    let mut trees = Vec::new();
    for split in 1..(1 << relations.len()) - 1_usize {
        let (one, other): (Vec<_>, Vec<_>) = (0..relations.len()).partition(|place| split >> place & 1 == 1);
        let side = |places: Vec<usize>| places.into_iter().map(|place| relations[place]).collect::<Vec<_>>();
        let (one, other) = (side(one), side(other));
        if !cardinality.are_linked(set(&one), set(&other)) {
            continue;
        }
        for build in all_trees(&one, cardinality) {
            for probe in all_trees(&other, cardinality) {
                let (build, on) = (build.clone(), Vec::new());
                trees.push(JoinTree::Join(Box::new(Join { build, probe, on, predicates: Vec::new(), rows })));
            }
        }
    }
    trees
}

#[test]
fn no_tree_of_a_few_linked_relations_is_cheaper() {
    let mut random = SmallRng::seed_from_u64(21);
    let mut compared = 0;
    for round in 0..120 {
        let graph = random_graph(1 + round % 6, &mut random);
        let tree = join_order(&graph).expect("some relations");
        check(&graph, &tree);
        let cardinality = Cardinality::new(&graph);
        let trees = all_trees(&(0..graph.relations.len()).collect::<Vec<_>>(), &cardinality);
        let Some(cheapest) = trees.iter().map(cost_of).reduce(f64::min) else { continue };
        assert!((cost_of(&tree) - cheapest).abs() <= cheapest * 1e-9, "{} for {cheapest}", cost_of(&tree));
        compared += 1;
    }
    assert!(compared > 60, "{compared} graphs are linked");
}

#[test]
fn many_relations_take_milliseconds() {
    let mut random = SmallRng::seed_from_u64(22);
    for relations in [10, 11, 40] {
        for _ in 0..20 {
            let graph = random_graph(relations, &mut random);
            let start = Instant::now();
            let tree = join_order(&graph).expect("some relations");
            assert!(start.elapsed() < Duration::from_millis(500), "{relations} took {:?}", start.elapsed());
            check(&graph, &tree);
        }
    }
}

#[test]
fn a_star_of_many_dimensions_never_builds_the_facts() {
    let mut star = Named::default().relation("facts", 1e8, 1.0, &[]);
    let names: [&str; 20] = std::array::from_fn(|number| &"abcdefghijklmnopqrst"[number..=number]);
    for (number, name) in names.into_iter().enumerate() {
        let (rows, passing) = (10_f64.powi(1 + number as i32 % 5), if number == 7 { 0.01 } else { 1.0 });
        star = star.relation(name, rows, passing, &[&["key"]]);
        let (key, foreign) = (format!("{name}.key"), format!("facts.{name}"));
        star = star.equal((&foreign, rows), (&key, rows));
    }
    let tree = star.order();
    check(&star.graph, &tree);
    let joins = joins_of(&tree);
    assert!(joins.iter().all(|join| !relations_of(&join.build).contains(&0)));
    // The one that filters comes first, which is the innermost.
    assert_eq!(relations_of(&JoinTree::Join(Box::new((*joins[joins.len() - 1]).clone()))), [8, 0]);
}

#[test]
fn what_follows_from_equalities_links_and_is_counted_once() {
    let chain = |edges: &[(usize, usize)]| {
        let relation = JoinRelation { rows: 1_000.0, rows_unfiltered: 1_000.0, keys: Vec::new() };
        let column = |relation| JoinColumn { relation, column: 0, distinct: 100.0 };
        let edges = edges.iter().map(|(left, right)| JoinEdge { left: column(*left), right: column(*right) });
        JoinGraph { relations: vec![relation; 3], edges: edges.collect(), predicates: Vec::new() }
    };
    let (open, closed) = (chain(&[(0, 1), (1, 2)]), chain(&[(0, 1), (1, 2), (2, 0)]));
    let all = Set::of(0).with(Set::of(1)).with(Set::of(2));
    for graph in [open, closed] {
        let cardinality = Cardinality::new(&graph);
        assert!(cardinality.are_linked(Set::of(0), Set::of(2)));
        assert!((cardinality.rows(all) - 1e9 / 1e4).abs() < 1.0);
        let tree = join_order(&graph).expect("three relations");
        check(&graph, &tree);
        assert_eq!(joins_of(&tree).iter().map(|join| join.on.len()).sum::<usize>(), 2);
    }
}

#[test]
fn several_columns_between_two_relations_are_not_taken_for_independent() {
    let graph = |keys: &[&[&str]]| {
        Named::default()
            .relation("l", 1e6, 1.0, &[])
            .relation("r", 1e4, 0.5, keys)
            .equal(("l.a", 1e3), ("r.a", 1e3))
            .equal(("l.b", 1e2), ("r.b", 1e2))
    };
    let rows = |named: Named| Cardinality::new(&named.graph).rows(Set::of(0).with(Set::of(1)));
    assert!((rows(graph(&[])) - 1e6 * 5e3 / 1e3 / 1e1).abs() < 1.0);
    // A row of l meets one row of all of r.
    assert!((rows(graph(&[&["b", "a"]])) - 1e6 * 0.5).abs() < 1.0);
}

#[test]
fn columns_of_one_relation_that_equal_the_same_are_all_compared() {
    let graph = Named::default()
        .relation("l", 1e3, 1.0, &[])
        .relation("r", 1e2, 1.0, &[])
        .relation("s", 1e4, 1.0, &[])
        .equal(("l.a", 1e3), ("r.a", 1e2))
        .equal(("l.b", 1e3), ("r.a", 1e2))
        .equal(("l.b", 1e3), ("s.a", 1e4));
    let tree = graph.order();
    check(&graph.graph, &tree);
    assert_eq!(joins_of(&tree).iter().map(|join| join.on.len()).sum::<usize>(), 3);
}

#[test]
fn what_nothing_links_is_multiplied_last() {
    let graph = Named::default()
        .relation("a", 1e6, 1.0, &[])
        .relation("b", 1e3, 1.0, &[&["key"]])
        .relation("one", 1.0, 1.0, &[])
        .relation("c", 1e2, 1.0, &[&["key"]])
        .relation("d", 50.0, 1.0, &[])
        .equal(("a.b", 1e3), ("b.key", 1e3))
        .equal(("d.c", 50.0), ("c.key", 1e2))
        .predicate(&[2, 0], 0.1);
    let tree = graph.order();
    check(&graph.graph, &tree);
    assert_eq!(graph.show(&tree), "((one (d c)) (b a))");
    let JoinTree::Join(top) = &tree else { unreachable!("five relations are joined") };
    assert!(top.on.is_empty() && top.predicates == [0]);
}

#[test]
fn the_ends_of_what_can_be_asked() {
    assert_eq!(join_order(&JoinGraph::default()), None);
    let relation = |rows| JoinRelation { rows, rows_unfiltered: rows, keys: vec![vec![0]] };
    let graph = |rows: f64, count| JoinGraph { relations: vec![relation(rows); count], ..JoinGraph::default() };
    assert_eq!(join_order(&graph(7.0, 1)), Some(JoinTree::Relation { relation: 0, rows: 7.0 }));
    assert_eq!(join_order(&graph(7.0, JOINED_RELATIONS_MAX + 1)), None);

    // Estimates that are none still give a tree.
    for rows in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
        let mut graph = graph(rows, JOINED_RELATIONS_MAX);
        let column = |relation| JoinColumn { relation, column: 0, distinct: rows };
        graph.edges = (1..40).map(|other| JoinEdge { left: column(0), right: column(other) }).collect();
        graph.predicates = vec![JoinPredicate { relations: vec![1, 2, 3], selectivity: rows }];
        check(&graph, &join_order(&graph).expect("some relations"));
    }
}
