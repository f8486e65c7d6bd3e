//! Random queries over random tables. One thread with large batches and several threads with small batches must give
//! the same answers. The workspace `oracle` compares random queries with other engines.
//!
//! `ROWMILL_SEED` repeats a failure. `ROWMILL_LONG=1` tests more tables.

use rowmill::text::format_value;
use rowmill::{Connection, Database, ErrorKind};

/// A generator of numbers that depend only on a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }

    pub(crate) fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    /// Chooses between `least` and `most` items of `all`, and keeps their order.
    fn some_of<'a>(&mut self, all: &[&'a str], least: usize, most: usize) -> Vec<&'a str> {
        let mut left = least + self.below(most - least + 1);
        let mut chosen = Vec::new();
        for (index, item) in all.iter().enumerate() {
            if left > 0 && self.below(all.len() - index) < left {
                chosen.push(*item);
                left -= 1;
            }
        }
        chosen
    }
}

const COLUMNS: &str = "few INTEGER, tiny TINYINT, many BIGINT NOT NULL, big BIGINT UNSIGNED, amount DECIMAL(12, 2), \
                       wide DECIMAL(38, 4), day DATE, at TIMESTAMP, flag BOOLEAN, word TEXT, line TEXT NOT NULL";

/// The columns of a row with number `n`: NULLs, runs, few and many distinct values.
const ROWS: &str = "SELECT CASE WHEN n % 11 = 0 THEN NULL ELSE n / 50 % 9 - 4 END, \
                    CASE WHEN n % 3 = 0 THEN NULL ELSE n % 200 - 100 END, \
                    n * 7919 % 1000003 - 500000, \
                    CASE WHEN n % 13 = 0 THEN NULL ELSE 18446744073709551615 - n % 40 END, \
                    CASE WHEN n % 17 = 0 THEN NULL ELSE (n * 31 % 9973) / 100.0 END, \
                    (n % 7) * 1000000000000000000000.5, \
                    DATE '2020-01-01' + CAST(n / 100 % 60 AS INTEGER), \
                    CASE WHEN n % 29 = 0 THEN NULL ELSE TIMESTAMP '2020-01-01 00:00:00' + n * 37 * INTERVAL '1 \
                    second' END, \
                    CASE WHEN n % 5 = 0 THEN NULL ELSE n % 2 = 0 END, \
                    CASE WHEN n % 10 < 6 THEN '' WHEN n % 10 = 6 THEN NULL ELSE 'word ' || (n * 13 % 50) END, \
                    'a line of text, number ' || (n * 7919 % 100003)";

const KEYS: &[&str] = &[
    "few",
    "tiny",
    "many",
    "big",
    "amount",
    "wide",
    "day",
    "at",
    "flag",
    "word",
    "line",
    "few + 1",
    "many % 10",
    "extract(year FROM at)",
    "date_trunc('hour', at)",
    "length(line)",
    "upper(word)",
    "few + tiny",
    "CASE WHEN flag THEN word ELSE line END",
    "substr(line, 1, 25)",
];

const AGGREGATES: &[&str] = &[
    "count(*)",
    "count(few)",
    "count(word)",
    "hll_sketch_agg(many, 8)",
    "theta_sketch_agg(line, 6)",
    "kll_sketch_count(kll_sketch_agg(few))",
    "sum(few)",
    "sum(many)",
    "sum(big)",
    "sum(amount)",
    "sum(wide)",
    "avg(tiny)",
    "avg(many)",
    "avg(amount)",
    "min(few)",
    "max(big)",
    "min(amount)",
    "max(wide)",
    "min(day)",
    "max(at)",
    "min(flag)",
    "sum(length(line))",
    "count(DISTINCT few)",
    "count(DISTINCT line)",
    "min(word)",
    "max(line)",
    "sum(few + tiny)",
    "count(DISTINCT few)",
    "count(DISTINCT many)",
    "count(DISTINCT word)",
    "sum(DISTINCT tiny)",
    "avg(DISTINCT amount)",
    "sum(amount * (1 - amount))",
    "sum(amount * tiny * 2.5)",
    "avg(amount * 2 + tiny)",
    "min(amount - tiny)",
    "sum(many * 3 - few)",
    "sum(many * many * many * many)",
    "sum(big * 2)",
    "sum(wide * 2)",
    "sum(big + 1)",
    "min(word)",
    "max(line)",
    "count(*) FILTER (WHERE few > 0)",
    "sum(many) FILTER (WHERE flag)",
    "count(DISTINCT few) FILTER (WHERE tiny > 0)",
    "bool_and(flag)",
    "bool_or(tiny > 90)",
    "string_agg(word, ',' ORDER BY many)",
    "array_agg(few ORDER BY many DESC)",
    "first_value(word ORDER BY many)",
    "last_value(line ORDER BY tiny DESC, many)",
];

const CONDITIONS: &[&str] = &[
    "few = 2",
    "few <> 2",
    "few IS NULL",
    "tiny > 50",
    "many < 0",
    "many BETWEEN 100 AND 5000",
    "word <> ''",
    "word = ''",
    "word > 'word 3'",
    "word <= 'word 7'",
    "word LIKE '%1%'",
    "line LIKE '%99%'",
    "line NOT LIKE '%00%'",
    "line LIKE '%, number 1%'",
    "line LIKE '%, nu%9%'",
    "word LIKE '%d 1%'",
    "line >= 'a line of text, number 5'",
    "flag",
    "NOT flag",
    "day >= DATE '2020-02-01'",
    "amount < 10",
    "few IN (1, 3, 5)",
    "length(line) > 27",
    "few > 100",
    "word = 'no such word'",
];

const ORDERS: &[&str] = &[
    "few",
    "tiny DESC",
    "many",
    "many DESC",
    "big",
    "amount DESC NULLS LAST",
    "day DESC",
    "at NULLS FIRST",
    "word",
    "word DESC",
    "line",
    "line DESC",
    "flag",
];

/// Equalities between `t` and `u`, and conditions that can be added to an equality.
const EQUALITIES: &[&str] = &[
    "t.few = u.few",
    "t.tiny = u.tiny",
    "t.word = u.word",
    "t.many = u.many",
    "t.day = u.day",
    "t.amount = u.amount",
    "t.few + 1 = u.few",
    "t.few IS NOT DISTINCT FROM u.few AND t.tiny = u.tiny",
];
const BESIDES: &[&str] =
    &["t.many < u.many", "u.word <> ''", "t.tiny + u.tiny > 0", "t.flag", "u.few > 0", "t.day <> u.day"];

const JOINED: &[&str] = &[
    "count(*)",
    "count(u.few)",
    "count(t.few)",
    "sum(t.tiny)",
    "sum(u.tiny)",
    "min(u.word)",
    "max(t.line)",
    "count(DISTINCT u.word)",
    "max(u.many)",
];

/// Makes a query of `t` and `u`, a table with the same columns and few rows.
fn random_join(random: &mut Random) -> String {
    let equalities = random.some_of(EQUALITIES, 1, 2).join(" AND ");
    let besides = random.some_of(BESIDES, 0, 1);
    let on = [equalities].into_iter().chain(besides.into_iter().map(String::from)).collect::<Vec<_>>().join(" AND ");
    let aggregates = random.some_of(JOINED, 1, 3).join(", ");
    let of_t = "count(*), sum(t.tiny), min(t.many), max(t.line)";
    let key = random.one_of(&["t.few", "t.word", "t.flag", "t.day"]);
    match random.below(10) {
        0 => {
            let not = random.one_of(&["", "NOT "]);
            format!("SELECT {key}, {of_t} FROM t WHERE {not}EXISTS (SELECT 1 FROM u WHERE {on}) GROUP BY {key}")
        }
        1 => {
            let (not, column) = (random.one_of(&["", "NOT "]), random.one_of(&["few", "word", "tiny", "many"]));
            let condition = random.one_of(&["", " WHERE u.few IS NOT NULL AND u.word <> ''", " WHERE u.few > 100"]);
            format!(
                "SELECT {key}, {of_t} FROM t WHERE t.{column} {not}IN (SELECT u.{column} FROM u{condition}) GROUP BY \
                 {key}"
            )
        }
        2 => format!("SELECT {key}, {of_t} FROM t WHERE t.tiny > (SELECT avg(tiny) FROM u) GROUP BY {key}"),
        3 => format!(
            "SELECT {key}, {aggregates} FROM t, u, u AS w WHERE {on} AND u.few = w.few AND w.many < 0 GROUP BY {key}"
        ),
        4 => {
            format!("SELECT {aggregates} FROM u CROSS JOIN (SELECT * FROM t WHERE many % 50 = 0) AS t WHERE u.few = 1")
        }
        5 => {
            let (key, join) =
                (random.one_of(&["few", "word", "tiny", "many", "line"]), random.one_of(&["JOIN", "LEFT JOIN"]));
            let of = random.one_of(&["sum(amount)", "sum(amount * 2 - tiny)", "min(many)", "count(DISTINCT tiny)"]);
            let condition = random.one_of(&["u.many < -400000", "u.few = 2", "u.word <> ''", "u.tiny > 90"]);
            format!(
                "SELECT u.flag, count(*), sum(g.of), max(g.of), sum(g.c) FROM u {join} (SELECT {key} AS k, {of} AS of, \
                 count(*) AS c FROM t GROUP BY {key}) AS g ON u.{key} = g.k WHERE {condition} GROUP BY u.flag"
            )
        }
        6 => {
            let key = random.one_of(&["few", "word", "tiny", "day"]);
            let of = random.one_of(&["avg(t.tiny)", "min(t.tiny)", "sum(t.tiny) / 100"]);
            format!(
                "SELECT {key}, count(*) FROM u WHERE u.tiny <= (SELECT {of} FROM t WHERE t.{key} = u.{key}) GROUP BY \
                 {key}"
            )
        }
        _ => {
            let kind = random.one_of(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
            let group = random.one_of(&["t.few", "u.few", "t.word", "coalesce(u.word, t.word)"]);
            format!("SELECT {group}, {aggregates} FROM t {kind} u ON {on} GROUP BY {group}")
        }
    }
}

/// Makes a GROUP BY list of `keys`: usually plain keys, sometimes grouping sets.
fn random_sets(random: &mut Random, keys: &[&str]) -> String {
    let all = keys.join(", ");
    match random.below(16) {
        0 => format!("ROLLUP ({all})"),
        1 => format!("CUBE ({all})"),
        2 => format!("GROUPING SETS (({all}), ({}), ())", keys[0]),
        3 => format!("GROUPING SETS (({}), ({all}))", keys[keys.len() - 1]),
        _ => all,
    }
}

fn random_query(random: &mut Random) -> String {
    if random.below(4) == 0 {
        return random_join(random);
    }
    let conditions = random.some_of(CONDITIONS, 0, 2);
    let condition = match conditions.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", conditions.join(random.one_of(&[" AND ", " AND ", " OR "]))),
    };
    if random.below(4) == 0 {
        // Rows that are equal in the order may come in any order, so we only select the ordered columns.
        let orders = random.some_of(ORDERS, 1, 2);
        let columns: Vec<&str> = orders.iter().filter_map(|order| order.split(' ').next()).collect();
        let (columns, orders) = (columns.join(", "), orders.join(", "));
        let limit = 1 + random.below(40);
        let offset = random.below(3) * 5;
        return format!("SELECT {columns} FROM t{condition} ORDER BY {orders} LIMIT {limit} OFFSET {offset}");
    }
    let keys = random.some_of(KEYS, 0, 3);
    let aggregates = random.some_of(AGGREGATES, usize::from(keys.is_empty()), 3);
    let items: Vec<&str> = keys.iter().chain(&aggregates).copied().collect();
    let group = match keys.is_empty() {
        true => String::new(),
        false => format!(" GROUP BY {}", random_sets(random, &keys)),
    };
    let having = match random.below(6) {
        0 if !keys.is_empty() => " HAVING count(*) > 3",
        _ => "",
    };
    // An order by all columns leaves no freedom, so that a LIMIT must give the same rows.
    let order = match random.below(3) {
        0 if !keys.is_empty() => {
            let places = (1..=items.len()).rev().map(|place| format!("{place}{}", random.one_of(&["", " DESC"])));
            let places = places.collect::<Vec<_>>().join(", ");
            let limit = random.one_of(&["", " LIMIT 1", " LIMIT 10", " LIMIT 7 OFFSET 3", " LIMIT 2000"]);
            format!(" ORDER BY {places}{limit}")
        }
        _ => String::new(),
    };
    let distinct = random.one_of(&["", "", "", "DISTINCT "]);
    format!("SELECT {distinct}{} FROM t{condition}{group}{having}{order}", items.join(", "))
}

/// Returns the rows of a query as text, sorted unless the query has an order, or the kind of its error.
fn answer(connection: &mut Connection, sql: &str) -> Result<Vec<String>, ErrorKind> {
    let rows = connection.query(sql).and_then(|rows| {
        let mut found = Vec::new();
        for batch in rows {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let values = batch.columns().iter().map(|values| format_value(values, row));
                found.push(format!("{:?}", values.collect::<rowmill::Result<Vec<_>>>()?));
            }
        }
        // An ORDER BY inside of an aggregate does not order the result, so we only look after the last parenthesis.
        if !sql.rsplit(')').next().is_some_and(|end| end.contains("ORDER BY")) {
            found.sort();
        }
        Ok(found)
    });
    rows.map_err(|error| error.kind())
}

fn random_table(random: &mut Random) -> (Database, Connection) {
    let database = Database::memory().expect("opens");
    let mut connection = database.connect().expect("connects");
    let mut run = |sql: String| connection.execute_batch(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    run(format!("SET rows_per_block = {}", [3, 100, 512, 4096, 524_288][random.below(5)]));
    run(format!("CREATE TABLE t ({COLUMNS})"));
    let mut from = 0;
    for _ in 0..1 + random.below(4) {
        let rows = [1, 30, 700, 3_000, 12_000][random.below(5)];
        run(format!("INSERT INTO t {ROWS} FROM generate_series({from}, {}) AS s(n)", from + rows - 1));
        from += rows;
        match random.below(4) {
            0 => run("DELETE FROM t WHERE many % 7 = 3".into()),
            1 => run("CHECKPOINT".into()),
            2 => run("DELETE FROM t WHERE few = 1".into()),
            _ => 0,
        };
    }
    run(format!("CREATE TABLE u ({COLUMNS})"));
    let rows = [0, 1, 10, 60][random.below(4)];
    run(format!("INSERT INTO u {ROWS} FROM (SELECT m * 37 AS n FROM generate_series(1, {rows}) AS s(m)) AS few"));
    (database, connection)
}

#[test]
fn answers_depend_on_neither_threads_nor_batches() {
    let long = std::env::var_os("ROWMILL_LONG").is_some();
    let seed = std::env::var("ROWMILL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(1..if long { 400 } else { 9 }, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let (_database, mut connection) = random_table(&mut random);
        for number in 0..40 {
            let sql = random_query(&mut random);
            let (threads, batch_rows) = (2 + random.below(3), [3, 100][random.below(2)]);
            let mut by = |threads: usize, batch_rows: usize| {
                let settings = format!("SET threads = {threads}; SET batch_rows = {batch_rows}");
                connection.execute_batch(&settings).expect("settings");
                answer(&mut connection, &sql)
            };
            let (ours, theirs) = (by(1, 8192), by(threads, batch_rows));
            // Sums of wide decimals may overflow. No other error should come from these queries.
            let is_expected = ours.as_ref().err().is_none_or(|kind| *kind == ErrorKind::NumericOutOfRange);
            assert!(is_expected, "{sql}: {ours:?}");
            assert!(ours == theirs, "ROWMILL_SEED={seed}, query {number}: {sql}\n{ours:?}\n{theirs:?}");
        }
    }
}
