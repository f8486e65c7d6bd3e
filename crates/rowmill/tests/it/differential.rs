//! Random queries over random tables, run by the engine's own operators and by DataFusion's: the answers are the same.
//!
//! `ROWMILL_SEED` repeats a failure; `ROWMILL_LONG=1` runs more tables.

use rowmill::text::format_value;
use rowmill::{Connection, Database, ErrorKind};

/// Numbers that depend on a seed alone.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    /// Some of `all`, in their order, `least` of them or more.
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

/// Rows `$from` to `$to` of a table; NULLs, runs, few and many values.
const ROWS: &str = "SELECT CASE WHEN n % 11 = 0 THEN NULL ELSE n / 50 % 9 - 4 END, \
                    CASE WHEN n % 3 = 0 THEN NULL ELSE n % 200 - 100 END, \
                    n * 7919 % 1000003 - 500000, \
                    CASE WHEN n % 13 = 0 THEN NULL ELSE 18446744073709551615 - n % 40 END, \
                    CASE WHEN n % 17 = 0 THEN NULL ELSE (n * 31 % 9973) / 100.0 END, \
                    (n % 7) * 1000000000000000000000.5, \
                    DATE '2020-01-01' + CAST(n / 100 % 60 AS INTEGER), \
                    CASE WHEN n % 29 = 0 THEN NULL ELSE TIMESTAMP '2020-01-01 00:00:00' + n * 37 * INTERVAL '1 second' END, \
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

fn random_query(random: &mut Random) -> String {
    let conditions = random.some_of(CONDITIONS, 0, 2);
    let condition = match conditions.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", conditions.join(random.one_of(&[" AND ", " AND ", " OR "]))),
    };
    if random.below(4) == 0 {
        // Of rows that are equal in the order any may come, so only the order is asked for.
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
        false => format!(" GROUP BY {}", keys.join(", ")),
    };
    format!("SELECT {} FROM t{condition}{group}", items.join(", "))
}

/// The rows of a query as text, in any order, or the kind of its error.
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
        found.sort();
        Ok(found)
    });
    rows.map_err(|error| error.kind())
}

fn random_table(random: &mut Random) -> (Database, Connection) {
    let database = Database::memory().expect("opens");
    let mut connection = database.connect().expect("connects");
    let mut run = |sql: String| connection.execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    run(format!("SET rows_per_block = {}", [3, 100, 512, 4096, 524_288][random.below(5)]));
    run(format!("SET threads = {}", 1 + random.below(4)));
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
    (database, connection)
}

#[test]
fn native_operators_answer_like_the_others() {
    let long = std::env::var_os("ROWMILL_LONG").is_some();
    let seed = std::env::var("ROWMILL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(1..if long { 400 } else { 9 }, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let (_database, mut connection) = random_table(&mut random);
        for number in 0..40 {
            let sql = random_query(&mut random);
            let mut by = |native: bool| {
                connection.execute(&format!("SET native_operators = {native}")).expect("a setting");
                answer(&mut connection, &sql)
            };
            let (ours, theirs) = (by(true), by(false));
            // Sums of wide decimals may leave their type; nothing else is wrong with these queries.
            let is_expected = ours.as_ref().err().is_none_or(|kind| *kind == ErrorKind::NumericOutOfRange);
            assert!(is_expected, "{sql}: {ours:?}");
            assert!(ours == theirs, "ROWMILL_SEED={seed}, query {number}: {sql}\n{ours:?}\n{theirs:?}");
        }
    }
}
