//! Random plans must give the same rows before and after all rewrites.

use crate::binder::BoundQuery;
use crate::optimizer::optimize;
use crate::optimizer::walk::{each_operator, exprs, free, has_subquery, output};

use super::interpreter::{Interpreter, PlanFailure};
use super::key_tables::key_tables;
use super::random_plan::PlanMaker;
use rowmill_base::ErrorKind;
use rowmill_plan::Logical;

/// Checks the plan of one seed. Returns whether it could be checked.
fn check(seed: u64, depth: usize, failing: bool) -> bool {
    let mut maker = PlanMaker::new(seed);
    maker.failing = failing;
    let query = maker.query(depth);
    let mut bound = BoundQuery {
        query: query.clone(),
        tables: key_tables(),
        sources: Vec::new(),
        parameters: Vec::new(),
        reads_clock: false,
    };
    match optimize(&mut bound) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::Unsupported => return false,
        Err(error) => panic!("seed {seed}: {error}"),
    }
    assert!(free(&bound.query.root).is_empty(), "seed {seed}: columns from nowhere\n{:#?}", bound.query.root);
    each_operator(&bound.query.root, &mut |plan| {
        assert!(!exprs(plan).into_iter().any(has_subquery), "seed {seed}: a subquery is left");
        if let Logical::Join(join) = plan {
            let is_dependent = free(&join.right).intersects(&output(&join.left));
            assert!(!is_dependent, "seed {seed}: a dependent join is left");
        }
    });
    let mut compared = false;
    for _ in 0..3 {
        let tables = maker.tables();
        let expected = match Interpreter::new(&tables).run(&query) {
            Ok(rows) => rows,
            Err(_) => continue,
        };
        match Interpreter::new(&tables).run(&bound.query) {
            Ok(rows) => {
                assert!(
                    rows == expected,
                    "seed {seed} depth {depth}: rows differ\nexpected {expected:?}\nfound {rows:?}\n{tables:?}"
                );
                compared = true;
            }
            Err(PlanFailure::Budget) => {}
            Err(error) => panic!("seed {seed} depth {depth}: {error:?}"),
        }
    }
    compared
}

fn check_all(seeds: std::ops::Range<u64>, depth: usize, failing: bool) {
    // To test more and other plans: `FIRST_SEED=100000 SEEDS=20000 cargo test random_queries`.
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let first = number("FIRST_SEED").unwrap_or(seeds.start);
    let count = number("SEEDS").unwrap_or(seeds.end - seeds.start);
    let seeds = first..first + count;
    let (mut checked, mut failed) = (0, Vec::new());
    for seed in seeds {
        match std::panic::catch_unwind(|| check(seed, depth, failing)) {
            Ok(is_checked) => checked += u64::from(is_checked),
            Err(_) => failed.push(seed),
        }
    }
    assert!(
        failed.is_empty(),
        "{} seeds fail at depth {depth}, such as {:?}",
        failed.len(),
        &failed[..failed.len().min(8)]
    );
    assert!(checked * 2 > count, "only {checked} of {count} plans could be checked");
}

#[test]
fn small_plans_keep_their_meaning() {
    check_all(0..4000, 2, false);
}

#[test]
fn nested_plans_keep_their_meaning() {
    check_all(0..3000, 3, false);
}

#[test]
fn deep_plans_keep_their_meaning() {
    check_all(0..150, 4, false);
}

#[test]
fn plans_that_can_fail_do_not_fail_more_often() {
    check_all(0..2000, 2, true);
    check_all(0..2000, 3, true);
}

/// Prints one plan before and after: `SEED=1 DEPTH=2 cargo test shows_one_plan -- --ignored --nocapture`.
#[test]
#[ignore]
fn shows_one_plan() {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let (Some(seed), Some(depth)) = (number("SEED"), number("DEPTH")) else { return };
    let mut maker = PlanMaker::new(seed);
    maker.failing = number("FAILING").is_some();
    let query = maker.query(depth as usize);
    println!("{:?}\n{}", query.output, super::text::text(&query.root));
    let mut bound =
        BoundQuery { query, tables: key_tables(), sources: Vec::new(), parameters: Vec::new(), reads_clock: false };
    optimize(&mut bound).unwrap();
    println!("{:?}\n{}", bound.query.output, super::text::text(&bound.query.root));
    check(seed, depth as usize, number("FAILING").is_some());
}
