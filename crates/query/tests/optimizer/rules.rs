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

#[test]
fn a_case_in_an_aggregate_becomes_its_filter() {
    check(
        "select b, sum(case when c > 3 then a end) as s from x group by b",
        "Output: b#4 AS b, sum#3 AS s
Group: by [b#4 = b#1], sum#3 = sum(a#0) FILTER (WHERE c#2 > 3)
  Scan: table 0 [a#0, b#1, c#2]
",
    );
    check(
        "select b, count(case when c > 3 then 1 end) as s from x group by b",
        "Output: b#4 AS b, count#3 AS s
Group: by [b#4 = b#1], count#3 = count(*) FILTER (WHERE c#2 > 3)
  Scan: table 0 [b#1, c#2]
",
    );
    check(
        "select b, sum(case when c > 3 then 1 else 0 end) as s from x group by b",
        "Output: b#4 AS b, sum#3 AS s
Map: sum#3 = CAST(count#5 AS DECIMAL(38,0))
  Group: by [b#4 = b#1], count#5 = count(*) FILTER (WHERE c#2 > 3)
    Scan: table 0 [b#1, c#2]
",
    );
    check(
        "select sum(case when c > 3 then 1 else 0 end) as s from x",
        "Output: sum#3 AS s
Map: sum#3 = CASE WHEN count#5 <> 0 THEN CAST(count#4 AS DECIMAL(38,0)) END
  Group: by [], count#4 = count(*) FILTER (WHERE c#2 > 3), count#5 = count(*)
    Scan: table 0 [c#2]
",
    );
    check(
        "select sum(case when c > 3 then a else 0 end) as s from x",
        "Output: sum#3 AS s
Group: by [], sum#3 = sum(CASE WHEN c#2 > 3 THEN a#0 ELSE 0 END)
  Scan: table 0 [a#0, c#2]
",
    );
    check(
        "select sum(distinct case when c > 3 then a end) as s from x",
        "Output: sum#3 AS s
Group: by [], sum#3 = sum(DISTINCT CASE WHEN c#2 > 3 THEN a#0 END)
  Scan: table 0 [a#0, c#2]
",
    );
}

#[test]
fn the_row_of_a_scalar_subquery_is_joined_like_others() {
    check(
        "select x.a from x, y where x.b = y.b and y.a = (select z.a from z where z.b = 3)",
        "Output: a#0 AS a
Inner join: a#3 = a#6
  Inner join: b#1 = b#4
    Scan: table 0 [a#0, b#1]
    Scan: table 1 [a#3, b#4]
  Single row
    Scan: table 2 [a#6, b#7] where b#7 = 3
",
    );
    // The condition is true for NULL, so the row without a value must stay.
    check(
        "select x.a from x where (select z.a from z where z.b = 3) is null",
        "Output: a#0 AS a
Filter: a#3 IS NULL
  Single join: every pair
    Scan: table 0 [a#0]
    Scan: table 1 [a#3, b#4] where b#4 = 3
",
    );
}

#[test]
fn conditions_with_folded_literals_are_on_columns() {
    check(
        "select a from x where a = 3 and a in (2 + 1, 4) and b < 5 + 5",
        "Output: a#0 AS a
Scan: table 0 [a#0, b#1] where a#0 = 3 AND b#1 < 10
",
    );
    check(
        "select a from x where a = 3 and a in (4, 5)",
        "Output: a#0 AS a
Values: [a#0] 
",
    );
    check(
        "select n from (select 'x' as k, count(*) as n from x union all select 'y', count(*) from y) q where k = 'y'",
        "Output: n#11 AS n
Map: n#11 = count#9
  Group: by [], count#9 = count(*)
    Scan: table 1 []
",
    );
}
