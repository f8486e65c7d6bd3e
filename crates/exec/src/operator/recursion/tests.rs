use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill_base::{Broker, Cancel, Result};
use rowmill_plan::{Foreign, Join, JoinKind, Node, Recursive};
use rowmill_storage::spill::TempSpace;

use crate::batch::{BatchSource, Batches};
use crate::collect::collect;
use crate::operator::{Environment, RunningPlan};
use crate::test_input::{number_batch, number_pairs, number_schema, numbers_of};

fn pair_schema() -> SchemaRef {
    Arc::new(Schema::new(["n", "m"].map(|name| Field::new(name, DataType::Int64, true)).to_vec()))
}

fn pairs(rows: &[(i64, i64)]) -> Arc<Node> {
    let batches = number_pairs(rows.iter().copied(), rows.len().max(1)).worker();
    let mut batches = batches.map(|batch| batch.expect("no error"));
    let rows = batches.next().unwrap_or_else(|| RecordBatch::new_empty(pair_schema()));
    Arc::new(Node::Values { rows })
}

fn base(numbers: &[i64]) -> Arc<Node> {
    Arc::new(Node::Values { rows: number_batch(numbers.iter().copied()) })
}

fn last_round() -> Arc<Node> {
    Arc::new(Node::RecursiveRows { number: 7, schema: number_schema() })
}

/// Joins `build` and `probe` on equal numbers and returns the columns `output`.
fn join(build: Arc<Node>, probe: Arc<Node>, output: &[usize]) -> Arc<Node> {
    let fields = output.iter().map(|_| Field::new("n", DataType::Int64, true));
    Arc::new(Node::Join(Join {
        build,
        probe,
        kind: JoinKind::Inner,
        on: vec![(0, 0)],
        nulls_equal: false,
        null_aware: false,
        condition: None,
        bounds: Vec::new(),
        output: output.to_vec(),
        rows: None,
        schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
    }))
}

fn recursive(base: Arc<Node>, step: Arc<Node>, distinct: bool) -> Node {
    Node::Recursive(Recursive { number: 7, base, step, distinct, schema: number_schema() })
}

/// Runs `root` and returns its numbers, sorted.
fn run(root: &Node, foreign: &BTreeMap<usize, Arc<dyn BatchSource>>, workers: usize, batch_rows: usize) -> Vec<i64> {
    let (cancel, broker) = (Cancel::new(), Broker::new(1 << 26));
    let environment = Environment {
        tables: &[],
        functions: &[],
        foreign,
        batch_rows,
        threads: workers,
        cancel: &cancel,
        broker: &broker,
        temp: &TempSpace::in_memory(),
        recursion_max: 1_000,
        early_filters: true,
    };
    let running = RunningPlan::new(root, &environment).expect("a plan");
    let mut found = numbers_of(&collect(&running.source, workers).expect("nothing fails"));
    drop(running);
    assert_eq!(broker.used_bytes(), 0);
    found.sort_unstable();
    found
}

/// Returns pairs, and counts the workers that begin to read them.
#[derive(Debug)]
struct CountedReads {
    pairs: Arc<dyn BatchSource>,
    shares: Arc<AtomicUsize>,
}

impl BatchSource for CountedReads {
    fn schema(&self) -> &SchemaRef {
        self.pairs.schema()
    }

    fn parallelism(&self) -> usize {
        1
    }

    fn worker(self: Arc<Self>) -> Batches {
        self.shares.fetch_add(1, Ordering::Relaxed);
        Arc::clone(&self.pairs).worker()
    }
}

const EDGES: [(i64, i64); 9] = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (5, 5), (8, 9), (9, 8), (2, 5)];

fn reachable(from: &[i64]) -> Vec<i64> {
    let mut all: BTreeSet<i64> = from.iter().copied().collect();
    loop {
        let next: Vec<i64> = EDGES.iter().filter(|(start, _)| all.contains(start)).map(|(_, end)| *end).collect();
        let before = all.len();
        all.extend(next);
        if all.len() == before {
            return all.into_iter().collect();
        }
    }
}

#[test]
fn a_graph_is_walked_to_its_end() {
    for from in [&[1][..], &[8], &[4, 9], &[], &[77]] {
        for (workers, batch_rows) in [(1, 1), (4, 1), (1, 3), (4, 3), (1, 1024), (4, 1024)] {
            // Either side of the join may be the one that changes from round to round.
            for step in [join(pairs(&EDGES), last_round(), &[1]), join(last_round(), pairs(&EDGES), &[2])] {
                let found = run(&recursive(base(from), step, true), &BTreeMap::new(), workers, batch_rows);
                assert_eq!(found, reachable(from), "{from:?} {workers} {batch_rows}");
            }
        }
    }
}

#[test]
fn input_that_does_not_change_is_read_once_for_all_rounds() {
    for workers in [1, 4] {
        let shares = Arc::new(AtomicUsize::new(0));
        let source = CountedReads { pairs: number_pairs(EDGES, 2), shares: Arc::clone(&shares) };
        let foreign: BTreeMap<usize, Arc<dyn BatchSource>> = [(3, Arc::new(source) as Arc<dyn BatchSource>)].into();
        let edges = Arc::new(Node::Foreign(Foreign { plan: 3, rows: 9, schema: pair_schema() }));
        // We join the edges with themselves, which walks two steps at a time. This does not change from round to
        // round.
        let shared = |node: &Arc<Node>| Arc::new(Node::Shared { number: 1, input: Arc::clone(node) });
        let of_two = join(join(shared(&edges), shared(&edges), &[0, 1]), last_round(), &[1]);
        let found = run(&recursive(base(&[1]), of_two, true), &foreign, workers, 2);
        assert_eq!(found, reachable(&[1]));
        assert!(shares.load(Ordering::Relaxed) <= workers, "the edges must be read only once");
        let shares_before = shares.swap(0, Ordering::Relaxed);
        assert!(shares_before > 0);
    }
}

#[test]
fn rows_shared_within_a_round_are_those_of_the_round() {
    for workers in [1, 4] {
        let ends = join(pairs(&EDGES), last_round(), &[1]);
        let shared = || Arc::new(Node::Shared { number: 2, input: Arc::clone(&ends) });
        let step = join(shared(), shared(), &[0]);
        assert_eq!(run(&recursive(base(&[2]), step, true), &BTreeMap::new(), workers, 3), reachable(&[2]));
    }
}

#[test]
fn shared_rows_are_joined_with_themselves() {
    for (workers, batch_rows) in [(1, 1), (4, 1), (4, 3), (1, 1024)] {
        let rows: Vec<(i64, i64)> = (0..50).map(|number| (number, number)).collect();
        let input = join(pairs(&rows), pairs(&rows), &[0]);
        let shared = || Arc::new(Node::Shared { number: 4, input: Arc::clone(&input) });
        let found = run(&join(shared(), shared(), &[0]), &BTreeMap::new(), workers, batch_rows);
        assert_eq!(found, (0..50).collect::<Vec<_>>());
    }
}

#[test]
fn a_step_may_contain_a_recursive_query() -> Result<()> {
    // The inner query finds everything reachable by edges. The outer one then adds nothing new.
    let inner = Recursive {
        number: 8,
        base: last_round(),
        step: join(pairs(&EDGES), Arc::new(Node::RecursiveRows { number: 8, schema: number_schema() }), &[1]),
        distinct: true,
        schema: number_schema(),
    };
    for workers in [1, 4] {
        let step = Arc::new(Node::Recursive(inner.clone()));
        let found = run(&recursive(base(&[4, 8]), step, true), &BTreeMap::new(), workers, 3);
        assert_eq!(found, reachable(&[4, 8]));
    }
    Ok(())
}
