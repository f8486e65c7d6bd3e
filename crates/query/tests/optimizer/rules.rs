//! Tests of single rules: conditions move, unread columns and operators without an effect are removed.

use crate::check;

#[test]
fn conditions_follow_equalities_to_other_tables() {
    check(
        "select x.b from x join y on x.a = y.a where x.a = 5 and x.b in (select b from z where z.a = x.a)",
        "Output: b#1 AS b
Semi join: a#6 = a#0 AND b#1 = b#7
  Inner join: a#0 = a#3
    Scan: table 0 [a#0, b#1] where a#0 = 5
    Scan: table 1 [a#3] where a#3 = 5
  Scan: table 2 [a#6, b#7] where a#6 = 5
",
    );
}

#[test]
fn an_outer_join_whose_added_rows_are_dropped_is_an_inner_join() {
    check(
        "select x.a from x left join y on y.a = x.a where y.b > 3",
        "Output: a#0 AS a
Inner join: a#3 = a#0
  Scan: table 0 [a#0]
  Scan: table 1 [a#3, b#4] where b#4 > 3
",
    );
    check(
        "select x.a, y.b from x full join y on x.a = y.a where x.b > 1",
        "Output: a#0 AS a, b#4 AS b
Left join: a#0 = a#3
  Scan: table 0 [a#0, b#1] where b#1 > 1
  Scan: table 1 [a#3, b#4]
",
    );
}

#[test]
fn an_outer_join_with_an_unread_unique_side_is_removed() {
    check(
        "select x.a from x left join n on n.a = x.b",
        "Output: a#0 AS a
Scan: table 0 [a#0]
",
    );
    check(
        "select x.a from x left join n on n.b = x.b",
        "Output: a#0 AS a
Left join: b#4 = b#1
  Scan: table 0 [a#0, b#1]
  Scan: table 1 [b#4]
",
    );
}

#[test]
fn distinct_rows_of_a_key_are_distinct_already() {
    check(
        "select distinct a, b from n where c = 1 limit 3",
        "Output: a#0 AS a, b#1 AS b
Limit: 3 rows
  Scan: table 0 [a#0, b#1, c#2] where c#2 = 1
",
    );
}

#[test]
fn redundant_group_keys_are_removed() {
    check(
        "select a, 1 as one, count(*) as n from x group by a, 2, a",
        "Output: a#5 AS a, key#6 AS one, count#4 AS n
Map: key#6 = 1
  Group: by [a#5 = a#0], count#4 = count(*)
    Scan: table 0 [a#0]
",
    );
}

#[test]
fn a_filter_on_a_rank_limits_the_window() {
    check(
        "select a from (select a, b, row_number() over (partition by a order by b) r from x) s where r <= 3",
        "Output: a#0 AS a
Filter: row_number#3 <= 3
  Window: row_number#3 = row_number() RANGE UNBOUNDED TO CURRENT ROW over [a#0] ordered by [b#1], up to 3
    Scan: table 0 [a#0, b#1]
",
    );
}

#[test]
fn a_false_condition_leaves_no_rows() {
    check(
        "select x.a from x, y where x.a = y.a and 1 = 0",
        "Output: a#0 AS a
Values: [a#0] 
",
    );
    check(
        "select x.a, s.b from x left join (select * from y where 1 = 0) s on s.a = x.a",
        "Output: a#0 AS a, b#4 AS b
Map: b#4 = NULL
  Scan: table 0 [a#0]
",
    );
}

#[test]
fn common_parts_of_a_disjunction_become_separate_conditions() {
    check(
        "select x.a from x, y where (x.a = y.a and x.b = 1) or (x.a = y.a and x.b = 2 and y.b = 3)",
        "Output: a#0 AS a
Inner join: a#0 = a#3 AND (b#1 = 1) OR ((b#1 = 2) AND (b#4 = 3))
  Scan: table 0 [a#0, b#1] where b#1 IN (1, 2)
  Scan: table 1 [a#3, b#4]
",
    );
}

#[test]
fn a_condition_that_can_fail_stays_after_the_others() {
    check(
        "select x.a from x join y on x.a = y.a where 10 / x.b > 1 and x.c = 2 and y.b = 3",
        "Output: a#0 AS a
Filter: (10 / b#1) > 1
  Inner join: a#0 = a#3
    Scan: table 0 [a#0, b#1, c#2] where c#2 = 2
    Scan: table 1 [a#3, b#4] where b#4 = 3
",
    );
}

#[test]
fn a_limit_goes_into_the_inputs_of_a_union() {
    check(
        "select a from x union all select b from y limit 5",
        "Output: a#6 AS a
Limit: 5 rows
  Union all: [a#6] from [a#0], [b#4]
    Limit: 5 rows
      Scan: table 0 [a#0]
    Limit: 5 rows
      Scan: table 1 [b#4]
",
    );
}

#[test]
fn a_constant_condition_stays_above_an_aggregate_of_all_rows() {
    check(
        "select * from (select count(*) as n from x) s where $1 = 1",
        "Output: count#3 AS n
Filter: $1 = 1
  Group: by [], count#3 = count(*)
    Scan: table 0 []
",
    );
}
