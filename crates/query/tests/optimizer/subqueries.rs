//! Tests that subqueries become the joins that one would write by hand.

use crate::check;

#[test]
fn exists_and_not_exists_with_other_conditions_are_semi_and_anti_joins() {
    check(
        "select x.a from x where exists (select * from y where y.a = x.a and y.b <> x.b) \
         and not exists (select * from z where z.a = x.a and z.b > 1)",
        "Output: a#0 AS a
Anti join: a#6 = a#0
  Semi join: a#3 = a#0 AND b#4 <> b#1
    Scan: table 0 [a#0, b#1]
    Scan: table 1 [a#3, b#4]
  Scan: table 2 [a#6, b#7] where b#7 > 1
",
    );
}

#[test]
fn a_correlated_aggregate_is_grouped_by_the_key_of_the_correlation() {
    check(
        "select sum(l_extendedprice) as total from lineitem, part where p_partkey = l_partkey and p_brand = 'B' \
         and l_quantity < (select 0.2 * avg(l_quantity) from lineitem where l_partkey = p_partkey)",
        "Output: sum#43 AS total
Group: by [], sum#43 = sum(l_extendedprice#5)
  Inner join: key#44 = p_partkey#16 AND CAST(l_quantity#4 AS DOUBLE) < (0.2 * avg#41)
    Inner join: p_partkey#16 = l_partkey#1
      Scan: table 0 [l_partkey#1, l_quantity#4, l_extendedprice#5]
      Scan: table 1 [p_partkey#16, p_brand#19] where p_brand#19 = 'B'
    Group: by [key#44 = l_partkey#26], avg#41 = avg(l_quantity#29)
      Scan: table 0 [l_partkey#26, l_quantity#29]
",
    );
}

#[test]
fn a_count_of_no_rows_is_zero() {
    check(
        "select (select count(*) from y where y.a = x.a) as n from x",
        "Output: count#6 AS n
Map: count#6 = coalesce(count#9, 0)
  Left join: key#8 = a#0
    Scan: table 0 [a#0]
    Group: by [key#8 = a#3], count#9 = count(*)
      Scan: table 1 [a#3]
",
    );
}

#[test]
fn the_first_rows_of_each_outer_row_are_numbered() {
    check(
        "select x.a from x, lateral (select * from y where y.a = x.a order by y.b desc limit 2) l",
        "Output: a#0 AS a
Inner join: a#3 = a#0
  Scan: table 0 [a#0]
  Filter: row_number#6 <= 2
    Window: row_number#6 = row_number() ROWS UNBOUNDED TO CURRENT ROW over [a#3] ordered by [b#4 DESC], up to 2
      Scan: table 1 [a#3, b#4]
",
    );
}

#[test]
fn not_in_uses_three_valued_logic_only_for_nullable_columns() {
    check(
        "select x.a from x where x.a not in (select b from z)",
        "Output: a#0 AS a
Anti join: every pair, comparing a#0 = b#4
  Scan: table 0 [a#0]
  Scan: table 1 [b#4]
",
    );
    check(
        "select n.a from n where n.a not in (select b from n)",
        "Output: a#0 AS a
Anti join: a#0 = b#4
  Scan: table 0 [a#0]
  Scan: table 0 [b#4]
",
    );
}

#[test]
fn correlation_over_two_levels_needs_a_domain() {
    check(
        "select x.a from x where exists (select 1 from y where y.a = x.a \
         and y.b > (select avg(z.b) from z where z.c = x.c and z.a = y.c))",
        "Output: a#0 AS a
Semi join: a#0 = a#16 AND c#2 = c#17
  Scan: table 0 [a#0, c#2]
  Inner join: key#11 = c#17 AND key#12 = c#5 AND CAST(b#4 AS DOUBLE) > avg#9
    Inner join: a#3 = a#16
      Distinct: a#16, c#17
        Scan: table 0 [a#16, c#17]
      Scan: table 1 [a#3, b#4, c#5]
    Group: by [key#11 = c#8, key#12 = a#6], avg#9 = avg(b#7)
      Scan: table 2 [a#6, b#7, c#8]
",
    );
}

#[test]
fn an_array_of_no_rows_is_empty() {
    check(
        "select array(select b from y where y.a = x.a order by b) as l from x",
        "Output: l#6 AS l
Map: l#6 = coalesce(array#7, [])
  Left join: key#8 = a#0
    Scan: table 0 [a#0]
    Group: by [key#8 = a#3], array#7 = array_agg(b#4 ORDER BY b#4)
      Scan: table 1 [a#3, b#4]
",
    );
}

#[test]
fn a_limit_matters_where_values_are_compared() {
    check(
        "select x.a from x where x.a in (select y.a from y where y.b = x.b limit 1)",
        "Output: a#0 AS a
Semi join: b#4 = b#1 AND a#0 = a#3
  Scan: table 0 [a#0, b#1]
  Filter: row_number#6 <= 1
    Window: row_number#6 = row_number() ROWS UNBOUNDED TO CURRENT ROW over [b#4] ordered by [], up to 1
      Scan: table 1 [a#3, b#4]
",
    );
    check(
        "select x.a from x where exists (select y.a from y where y.b = x.b limit 1)",
        "Output: a#0 AS a
Semi join: b#4 = b#1
  Scan: table 0 [a#0, b#1]
  Scan: table 1 [b#4]
",
    );
}
