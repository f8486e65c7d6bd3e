//! Tests that equal subplans are computed once.

use crate::check;

#[test]
fn equal_scalar_subqueries_are_computed_once() {
    check(
        "select x.a from x where x.b > (select avg(b) from y where c > 1) or x.c > (select avg(b) from y where c > 1)",
        "Output: a#0 AS a
Filter: (CAST(b#1 AS DOUBLE) > avg#6) OR (CAST(c#2 AS DOUBLE) > avg#10)
  Left join: every pair
    Left join: every pair
      Scan: table 0 [a#0, b#1, c#2]
      Shared 0: [avg#6] from [avg#11]
        Group: by [], avg#11 = avg(b#13)
          Scan: table 1 [b#13, c#14] where c#14 > 1
    Shared 0: [avg#10] from [avg#11]
      Group: by [], avg#11 = avg(b#13)
        Scan: table 1 [b#13, c#14] where c#14 > 1
",
    );
}

#[test]
fn a_view_that_is_joined_with_itself_is_grouped_once() {
    check(
        "select l.a, l.n, r.n from (select a, count(*) as n from x join y using (a) where x.b = 1 group by a) l \
         join (select a, count(*) as n from x join y using (a) where x.b = 1 group by a) r on l.n = r.n",
        "Output: a#7 AS a, count#6 AS n, count#14 AS n
Inner join: count#6 = count#14
  Shared 0: [count#6, a#7] from [count#17, a#16]
    Group: by [a#16 = a#18], count#17 = count(*)
      Inner join: a#18 = a#21
        Scan: table 0 [a#18, b#19] where b#19 = 1
        Scan: table 1 [a#21]
  Shared 0: [count#14] from [count#17]
    Group: by [a#16 = a#18], count#17 = count(*)
      Inner join: a#18 = a#21
        Scan: table 0 [a#18, b#19] where b#19 = 1
        Scan: table 1 [a#21]
",
    );
}

#[test]
fn a_join_below_different_groupings_is_computed_once() {
    check(
        "select x.a, sum(y.b) from x join y on x.a = y.a where x.b = 1 group by x.a \
         having sum(y.b) > (select sum(y.b) / 2 from x join y on x.a = y.a where x.b = 1)",
        "Output: a#15 AS a, sum#6 AS sum(b)
Inner join: CAST(sum#6 AS DOUBLE) > sum(b) / 2#14
  Group: by [a#15 = a#0], sum#6 = sum(b#4)
    Shared 0: [a#0, b#4] from [a#16, b#20]
      Inner join: a#16 = a#19
        Scan: table 0 [a#16, b#17] where b#17 = 1
        Scan: table 1 [a#19, b#20]
  Map: sum(b) / 2#14 = sum#13 / 2
    Group: by [], sum#13 = sum(b#11)
      Shared 0: [b#11] from [b#20]
        Inner join: a#16 = a#19
          Scan: table 0 [a#16, b#17] where b#17 = 1
          Scan: table 1 [a#19, b#20]
",
    );
}

#[test]
fn subplans_that_are_filtered_differently_stay_apart() {
    check(
        "select l.n, r.n from (select a, count(*) as n from x group by a) l \
         join (select a, count(*) as n from x group by a) r on l.a = 1 and r.a = 2",
        "Output: count#3 AS n, count#8 AS n
Inner join: every pair
  Group: by [a#4 = a#0], count#3 = count(*)
    Scan: table 0 [a#0] where a#0 = 1
  Group: by [a#9 = a#5], count#8 = count(*)
    Scan: table 0 [a#5] where a#5 = 2
",
    );
}
