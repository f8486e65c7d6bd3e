//! Estimates of joins and groupings over the tables of TPC-H at scale 1, for which we know the true numbers of rows.

use rowmill_plan::Node;
use rowmill_query::estimate::row_count;
use rowmill_query::lower;
use rowmill_query::optimizer::optimize;

use crate::bound_in;
use crate::catalog::TpchCatalog;

/// The estimated rows of a query.
fn estimate(sql: &str, keyed: bool) -> f64 {
    let mut bound = bound_in(sql, &TpchCatalog { keyed, sized: true });
    optimize(&mut bound).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let physical = lower(&bound).unwrap_or_else(|error| panic!("{sql}: {error}"));
    row_count(&physical.root, &physical.tables)
}

/// Queries with their true numbers of rows, and the factor by which an estimate may be wrong.
const QUERIES: &[(&str, f64, f64)] = &[
    ("select l_tax from lineitem, orders where l_orderkey = o_orderkey", 6_001_215.0, 1.1),
    ("select l_tax from lineitem, partsupp where l_partkey = ps_partkey and l_suppkey = ps_suppkey", 6_001_215.0, 1.5),
    (
        "select l_tax from lineitem, partsupp, part, supplier, orders, nation where l_partkey = ps_partkey \
         and l_suppkey = ps_suppkey and p_partkey = l_partkey and s_suppkey = l_suppkey and o_orderkey = l_orderkey \
         and s_nationkey = n_nationkey",
        6_001_215.0,
        1.5,
    ),
    ("select c_name from customer, supplier where c_nationkey = s_nationkey", 60_000_000.0, 1.1),
    (
        "select c_name from customer, orders, lineitem, supplier where c_custkey = o_custkey \
         and l_orderkey = o_orderkey and l_suppkey = s_suppkey and c_nationkey = s_nationkey",
        240_000.0,
        1.5,
    ),
    ("select c_name from customer where exists (select * from orders where o_custkey = c_custkey)", 99_996.0, 1.1),
    ("select c_name from customer where not exists (select * from orders where o_custkey = c_custkey)", 50_004.0, 1.1),
    ("select c_name from customer left join orders on o_custkey = c_custkey", 1_550_004.0, 1.1),
    ("select o_clerk from orders where o_orderkey = 5", 1.0, 1.01),
    ("select o_clerk from orders, customer where o_custkey = c_custkey and c_custkey = 5", 15.0, 1.5),
    ("select o_clerk from orders, lineitem where o_orderkey = l_orderkey and o_orderkey in (1, 2, 3)", 12.0, 2.0),
    ("select l_orderkey from lineitem group by l_orderkey", 1_500_000.0, 1.1),
    ("select l_returnflag, l_linestatus, count(*) from lineitem group by 1, 2", 4.0, 1.6),
    (
        "select l_orderkey, o_orderdate, o_shippriority, sum(l_tax) from lineitem, orders \
         where l_orderkey = o_orderkey group by 1, 2, 3",
        1_500_000.0,
        1.1,
    ),
    (
        "select c_custkey, c_name, c_acctbal, n_name, sum(o_totalprice) from customer, orders, nation \
         where c_custkey = o_custkey and c_nationkey = n_nationkey group by 1, 2, 3, 4",
        99_996.0,
        1.1,
    ),
    ("select p_brand, p_type, p_size, count(*) from part group by 1, 2, 3", 123_000.0, 1.1),
    ("select o_custkey, count(*) from orders where o_clerk = 'Clerk#1' group by 1", 1_490.0, 1.1),
    ("select n_name, count(*) from nation, supplier where n_nationkey = s_nationkey group by 1", 25.0, 1.1),
    ("select case when p_size < 10 then 'small' else 'large' end, count(*) from part group by 1", 2.0, 1.1),
    ("select l_shipmode from lineitem where l_commitdate < l_receiptdate", 3_793_296.0, 2.0),
    ("select p_name from part where p_type like 'PROMO%'", 33_000.0, 3.0),
];

#[test]
fn joins_and_groupings_are_estimated_well() {
    let mut errors = Vec::new();
    let mut wrong = Vec::new();
    for (sql, expected, most) in QUERIES {
        let found = estimate(sql, true);
        let error = (found / expected).max(expected / found);
        errors.push(error);
        if error > *most {
            wrong.push(format!("{found:.0} for {expected:.0}: {sql}"));
        }
    }
    errors.sort_by(f64::total_cmp);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(errors[errors.len() / 2] < 1.5);
}

#[test]
fn tables_without_declared_keys_are_estimated_by_their_distinct_values() {
    for (sql, expected) in [
        ("select l_tax from lineitem, orders where l_orderkey = o_orderkey", 6_001_215.0),
        (
            "select l_orderkey, o_orderdate, count(*) from lineitem, orders where l_orderkey = o_orderkey group by 1, \
             2",
            1_500_000.0,
        ),
    ] {
        let found = estimate(sql, false);
        assert!((found / expected).max(expected / found) < 1.1, "{found:.0} for {expected:.0}: {sql}");
    }
}

#[test]
fn every_join_has_an_estimate() {
    let mut bound = bound_in(
        "select c_name from customer left join orders on o_custkey = c_custkey where c_custkey in (select c_custkey \
         from customer)",
        &TpchCatalog { keyed: true, sized: true },
    );
    optimize(&mut bound).unwrap();
    let physical = lower(&bound).unwrap();
    physical.root.each(&mut |node| {
        if let Node::Join(join) = node {
            assert!(join.rows.is_some());
        }
    });
}
