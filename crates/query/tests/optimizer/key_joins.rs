//! Tests that joins which declared keys make redundant are removed.

use crate::check;

#[test]
fn parents_are_not_joined_if_only_their_key_is_read() {
    check(
        "select o_orderkey, c_custkey from orders join customer on o_custkey = c_custkey where c_custkey > 5",
        "Output: o_orderkey#0 AS o_orderkey, c_custkey#9 AS c_custkey
Map: c_custkey#9 = o_custkey#1
  Scan: table 0 [o_orderkey#0, o_custkey#1] where o_custkey#1 > 5
",
    );
    // A row without a parent is not part of the result.
    check(
        "select a.b from n a join n p on a.c = p.a",
        "Output: b#1 AS b
Scan: table 0 [b#1, c#2] where c#2 IS NOT NULL
",
    );
}

#[test]
fn a_semi_join_with_the_parents_becomes_a_not_null_test() {
    check(
        "select b from n where c in (select a from n)",
        "Output: b#1 AS b
Scan: table 0 [b#1, c#2] where c#2 IS NOT NULL
",
    );
}

#[test]
fn parents_that_are_read_or_filtered_stay() {
    check(
        "select o_orderkey from orders join customer on o_custkey = c_custkey where c_acctbal > 0",
        "Output: o_orderkey#0 AS o_orderkey
Inner join: o_custkey#1 = c_custkey#9
  Scan: table 0 [o_orderkey#0, o_custkey#1]
  Scan: table 1 [c_custkey#9, c_acctbal#14] where c_acctbal#14 > 0.00
",
    );
    check(
        "select o_orderkey, c_name from orders join customer on o_custkey = c_custkey",
        "Output: o_orderkey#0 AS o_orderkey, c_name#10 AS c_name
Inner join: o_custkey#1 = c_custkey#9
  Scan: table 0 [o_orderkey#0, o_custkey#1]
  Scan: table 1 [c_custkey#9, c_name#10]
",
    );
}

#[test]
fn a_self_join_by_key_reads_the_table_once() {
    check(
        "select x.b, y.c from n x join n y on x.a = y.a where y.b > 3 and x.c < y.b",
        "Output: b#1 AS b, c#5 AS c
Map: c#5 = c#2
  Scan: table 0 [b#1, c#2] where c#2 < b#1 AND b#1 > 3
",
    );
    check(
        "select x.b, y.c from n x left join n y on x.a = y.a",
        "Output: b#1 AS b, c#5 AS c
Scan: table 0 [b#1, c#5]
",
    );
    check(
        "select x.b from n x where exists (select 1 from n y where y.a = x.a and y.c = 1)",
        "Output: b#1 AS b
Scan: table 0 [b#1, c#5] where c#5 = 1
",
    );
}

#[test]
fn a_chain_of_parents_is_removed_from_its_end() {
    check(
        "select s_suppkey from supplier, nation, region where s_nationkey = n_nationkey and n_regionkey = r_regionkey",
        "Output: s_suppkey#0 AS s_suppkey
Scan: table 0 [s_suppkey#0]
",
    );
}
