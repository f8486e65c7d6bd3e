//! Joins of all kinds must give the same rows in the planner's order as in the order in which they are written.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::run;

/// Generates a query over several small tables, one join after another.
struct QueryMaker {
    random: StdRng,
    /// The columns of the query so far.
    columns: Vec<String>,
}

impl QueryMaker {
    fn pick(&mut self, of: &[&str]) -> String {
        of[self.random.random_range(0..of.len())].to_owned()
    }

    fn column(&mut self) -> String {
        self.columns[self.random.random_range(0..self.columns.len())].clone()
    }

    /// A table of rows that the query contains, with columns `a` and `b`.
    fn table(&mut self) -> String {
        let rows: Vec<String> = (0..self.random.random_range(1..7))
            .map(|_| {
                let mut value = || match self.random.random_range(0..6) {
                    0 => "NULL".to_owned(),
                    other => (other % 4).to_string(),
                };
                format!("({}, {})", value(), value())
            })
            .collect();
        format!("(SELECT CAST(x AS BIGINT) AS a, CAST(y AS BIGINT) AS b FROM (VALUES {}) v(x, y))", rows.join(", "))
    }

    /// A condition on the columns of the query so far and the columns of the table `t`.
    fn condition(&mut self) -> String {
        let one = match self.random.random_range(0..5) {
            0 => format!("coalesce(p.{}, 1)", self.column()),
            _ => format!("p.{}", self.column()),
        };
        let equal = format!("{one} = t.a");
        match self.random.random_range(0..6) {
            0 => format!("{equal} AND p.{} < t.b", self.column()),
            1 => format!("{equal} AND p.{} = t.b", self.column()),
            2 => format!("{equal} AND t.b > 1"),
            3 => format!("p.{} IS NOT DISTINCT FROM t.a", self.column()),
            _ => equal,
        }
    }

    /// The query with one more join.
    fn step(&mut self, number: usize, before: &str) -> String {
        let table = self.table();
        let kind =
            self.pick(&["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "FULL JOIN", "semi", "anti", "in", "mark", "filter"]);
        let condition = self.condition();
        let column = self.column();
        match &kind[..] {
            "semi" => format!("SELECT p.* FROM ({before}) p WHERE EXISTS (SELECT 1 FROM {table} t WHERE {condition})"),
            "anti" => {
                format!("SELECT p.* FROM ({before}) p WHERE NOT EXISTS (SELECT 1 FROM {table} t WHERE {condition})")
            }
            "in" => format!(
                "SELECT p.* FROM ({before}) p WHERE p.{column} NOT IN (SELECT t.a FROM {table} t WHERE t.a IS NOT NULL)"
            ),
            "mark" => format!(
                "SELECT p.* FROM ({before}) p WHERE p.{column} = 1 OR EXISTS (SELECT 1 FROM {table} t WHERE \
                 {condition})"
            ),
            "filter" => {
                let filter = self.pick(&["IS NULL", "> 1", "IN (1, 2)", "IS DISTINCT FROM 2"]);
                format!("SELECT p.* FROM ({before}) p WHERE p.{column} {filter}")
            }
            kind => {
                let (a, b) = (format!("a{number}"), format!("b{number}"));
                let text =
                    format!("SELECT p.*, t.a AS {a}, t.b AS {b} FROM ({before}) p {kind} {table} t ON {condition}");
                self.columns.extend([a, b]);
                text
            }
        }
    }
}

/// The same query twice: once with freely ordered joins, and once with each join kept apart.
fn queries(seed: u64) -> (String, String) {
    let query = |wall: &str| {
        let mut maker = QueryMaker { random: StdRng::seed_from_u64(seed), columns: vec!["a".into(), "b".into()] };
        let steps = maker.random.random_range(2..7);
        let mut text = format!("SELECT a, b FROM {} t", maker.table());
        for number in 0..steps {
            text = format!("{}{wall}", maker.step(number, &text));
        }
        text
    };
    (query(""), query(" LIMIT 100000"))
}

#[test]
fn joins_in_any_order_give_the_same_rows() {
    let seeds = std::env::var("SEEDS").ok().and_then(|value| value.parse().ok()).unwrap_or(600);
    let mut with_rows = 0;
    for seed in 0..seeds {
        let (free, walled) = queries(seed);
        let sorted = |sql: &str| {
            run(sql, 1, 1024).map(|mut rows| {
                rows.sort();
                rows
            })
        };
        match (sorted(&free), sorted(&walled)) {
            (Ok(found), Ok(expected)) => {
                with_rows += usize::from(!expected.is_empty());
                assert!(found == expected, "seed {seed}: {found:?} instead of {expected:?}\n{free}");
            }
            (found, expected) => panic!("seed {seed}: {found:?} and {expected:?}\n{free}"),
        }
    }
    assert!(with_rows * 3 > seeds as usize, "only {with_rows} of {seeds} queries give rows");
}
