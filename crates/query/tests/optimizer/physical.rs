//! Decisions that the planner makes by cost, over the tables of TPC-H at scale 1.

use rowmill_plan::Node;
use rowmill_query::optimizer::optimize;
use rowmill_query::{PhysicalQuery, lower};

use crate::bound_in;
use crate::catalog::TpchCatalog;

/// Joins, groups and scans of a query, indented by their depth.
fn shape(sql: &str) -> String {
    let mut bound = bound_in(sql, &TpchCatalog { keyed: true, sized: true });
    optimize(&mut bound).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let physical = lower(&bound).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut text = String::new();
    add(&physical.root, &physical, 0, &mut text);
    text
}

/// The number of bounds by which the only join of a query finds its rows.
fn bounds(condition: &str) -> usize {
    fn of(node: &Node) -> usize {
        let own = if let Node::Join(join) = node { join.bounds.len() } else { 0 };
        own + node.inputs().into_iter().map(of).sum::<usize>()
    }
    let sql = format!("select count(*) from orders join lineitem on {condition}");
    let mut bound = bound_in(&sql, &TpchCatalog { keyed: true, sized: true });
    optimize(&mut bound).unwrap_or_else(|error| panic!("{sql}: {error}"));
    of(&lower(&bound).unwrap_or_else(|error| panic!("{sql}: {error}")).root)
}

#[test]
fn a_bound_may_overflow_but_not_fail_otherwise() {
    assert_eq!(bounds("l_shipdate >= o_orderdate and l_shipdate < o_orderdate + interval '3 days'"), 2);
    assert_eq!(bounds("l_partkey > o_custkey * 10 - 7"), 1);
    assert_eq!(bounds("l_partkey > 1000000 / o_custkey"), 0);
    assert_eq!(bounds("l_partkey > o_custkey + random()"), 0);
}

fn add(node: &Node, query: &PhysicalQuery, depth: usize, text: &mut String) {
    let line = match node {
        Node::Scan(scan) => Some(query.tables[scan.table].table().name.clone()),
        Node::Join(join) => Some(format!("{:?}", join.kind)),
        Node::Group { group, .. } => Some(format!("Group by {}", group.keys.len())),
        _ => None,
    };
    let below = depth + usize::from(line.is_some());
    if let Some(line) = line {
        text.push_str(&format!("{}{line}\n", "  ".repeat(depth)));
    }
    node.inputs().into_iter().for_each(|input| add(input, query, below, text));
}

/// Checks the shape of the plan of a statement.
fn check(sql: &str, expected: &str) {
    let found = shape(sql);
    assert!(found == expected, "{sql}\nPLAN<<<\n{found}>>>PLAN\nexpected\n{expected}");
}

#[test]
fn rows_are_grouped_below_a_join_that_leaves_many() {
    check(
        "select n_name, sum(l_quantity) from lineitem, supplier, nation where l_suppkey = s_suppkey \
         and s_nationkey = n_nationkey group by n_name",
        "Group by 1
  Inner
    nation
    Inner
      Group by 1
        lineitem
      supplier
",
    );
}

#[test]
fn rows_are_grouped_above_a_join_that_leaves_few() {
    check(
        "select c_name, sum(l_quantity) from lineitem, orders, customer where l_orderkey = o_orderkey \
         and o_custkey = c_custkey and o_orderkey in (1, 2, 3) group by c_name",
        "Group by 1
  Inner
    Inner
      orders
      customer
    lineitem
",
    );
}

#[test]
fn a_semi_join_that_leaves_few_rows_comes_before_other_joins() {
    check(
        "select o_orderkey from orders, lineitem where o_orderkey = l_orderkey \
         and o_custkey in (select c_custkey from customer where c_name = 'a')",
        "Inner
  ProbeSemi
    customer
    orders
  lineitem
",
    );
}

#[test]
fn an_outer_join_that_only_adds_columns_comes_after_a_join_that_leaves_few_rows() {
    check(
        "select c_name, o_clerk from customer left join orders on o_custkey = c_custkey \
         join nation on n_nationkey = c_nationkey where n_name = 'FRANCE'",
        "BuildOuter
  Inner
    nation
    customer
  orders
",
    );
}

/// Prints how long it takes to plan joins of many tables: `cargo test --release shows_planning_times -- --ignored
/// --nocapture`.
#[test]
#[ignore]
fn shows_planning_times() {
    let aliases = |count: usize, table: &str| (0..count).map(|at| format!("{table} t{at}")).collect::<Vec<_>>();
    let query = |shape: &str, count: usize| match shape {
        "chain" => {
            let on: Vec<_> = (1..count).map(|at| format!("t{}.o_custkey = t{at}.o_orderkey", at - 1)).collect();
            format!("select t0.o_clerk from {} where {}", aliases(count, "orders").join(", "), on.join(" and "))
        }
        "star" => {
            let on: Vec<_> = (1..count).map(|at| format!("l.l_suppkey = t{at}.s_suppkey")).collect();
            let tables = aliases(count, "supplier");
            format!("select l.l_tax from lineitem l, {} where {}", tables[1..].join(", "), on.join(" and "))
        }
        "left" => {
            let on: Vec<_> = (1..count)
                .map(|at| format!("left join orders t{at} on t{at}.o_orderkey = t0.o_custkey + {at}"))
                .collect();
            format!("select t0.o_clerk, t1.o_clerk from orders t0 {}", on.join(" "))
        }
        _ => {
            let names: Vec<_> = (1..count).map(|at| format!("t{at}.n_name")).collect();
            let on: Vec<_> = (1..count).map(|at| format!("t{}.n_nationkey = c{at}.c_nationkey", at)).collect();
            let keys: Vec<_> = (1..count).map(|at| format!("c{at}.c_custkey = t.o_custkey")).collect();
            let tables: Vec<_> = (1..count).map(|at| format!("customer c{at}, nation t{at}")).collect();
            let conditions = on.iter().chain(&keys).cloned().collect::<Vec<_>>().join(" and ");
            format!("select {} from orders t, {} where {conditions}", names.join(", "), tables.join(", "))
        }
    };
    for shape in ["chain", "star", "left", "snowflake"] {
        for count in [3, 5, 8, 10, 12, 15, 20] {
            let sql = query(shape, count);
            let catalog = TpchCatalog { keyed: true, sized: true };
            let times: Vec<_> = (0..5)
                .map(|_| {
                    let start = std::time::Instant::now();
                    let mut bound = bound_in(&sql, &catalog);
                    let bind = start.elapsed();
                    optimize(&mut bound).unwrap();
                    let optimized = start.elapsed();
                    lower(&bound).unwrap();
                    (start.elapsed(), bind, optimized - bind)
                })
                .collect();
            let (all, bind, optimized) = times.into_iter().min().unwrap();
            println!("{shape} {count}: {all:?}, bound in {bind:?}, optimized in {optimized:?}");
        }
    }
}

#[test]
fn columns_that_only_the_first_rows_show_are_read_after_them() {
    check(
        "select c_custkey, c_name, c_address, sum(o_totalprice) from customer, orders where c_custkey = o_custkey \
         group by c_custkey, c_name, c_address order by 4 desc limit 10",
        "Inner
  Group by 1
    Inner
      Group by 1
        orders
      customer
  customer
",
    );
    check(
        "select o_orderdate, c_name, c_address from customer, orders where c_custkey = o_custkey \
         order by o_totalprice desc limit 10",
        "Inner
  Inner
    customer
    orders
  customer
",
    );
}

#[test]
fn columns_are_carried_if_the_order_reads_them_or_hardly_more_rows_carry_them_than_are_shown() {
    check(
        "select c_custkey, c_name, sum(o_totalprice) from customer, orders where c_custkey = o_custkey \
         group by c_custkey, c_name order by 3 desc, c_name limit 10",
        "Group by 2
  Inner
    Group by 1
      orders
    customer
",
    );
    check(
        "select c_custkey, c_name, sum(o_totalprice) from customer, orders where c_custkey = o_custkey \
         and o_orderkey in (1, 2, 3) group by c_custkey, c_name order by 3 desc limit 10",
        "Group by 2
  Inner
    orders
    customer
",
    );
}

#[test]
fn a_plan_that_was_lowered_for_trial_leaves_no_functions() {
    let functions = |limit: usize| {
        let sql = format!(
            "select c_custkey, c_name, sum(o_totalprice * o_custkey) from customer, orders \
             where c_custkey = o_custkey and o_orderkey in (1, 2, 3) and length(o_clerk) > o_custkey + 1 \
             group by c_custkey, c_name order by 3 desc limit {limit}"
        );
        let mut bound = bound_in(&sql, &TpchCatalog { keyed: true, sized: true });
        optimize(&mut bound).expect("the query can be optimized");
        lower(&bound).expect("the query can be lowered").functions.len()
    };
    // Columns are never read late for more than some thousand rows, so that there is no trial.
    assert!(functions(20_000) > 0);
    assert_eq!(functions(10), functions(20_000));
}
