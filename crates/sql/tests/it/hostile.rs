//! Statements that ask for too much. Each must end in time with an answer or an error, and the session must go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rowmill_base::{ErrorKind, Result, Settings};
use rowmill_sql::{Outcome, Session, query_threads};
use rowmill_txn::Engine;

use crate::support::run;

/// The most time that a statement may take. Statements that would run for ever have a deadline of [`DEADLINE_MS`]. Most
/// statements should end much sooner.
const TIME_MAX: Duration = Duration::from_secs(12);
const DEADLINE_MS: u64 = 1_000;
/// The most memory that the process may use while they run, and the most that operators may hold of it.
const PROCESS_BYTES_MAX: u64 = 3 << 30;
const MEMORY_LIMIT: &str = "200MB";

enum Expected {
    /// An answer of any number of rows.
    Answer,
    /// An error of one of these kinds.
    Error(&'static [ErrorKind]),
    /// An answer or an error. The statement must only end.
    End,
}

use Expected::{Answer, End, Error};

struct Hostile {
    name: &'static str,
    sql: String,
    expected: Expected,
    has_deadline: bool,
}

fn hostile(name: &'static str, expected: Expected, sql: impl Into<String>) -> Hostile {
    Hostile { name, sql: sql.into(), expected, has_deadline: false }
}

fn endless(name: &'static str, sql: impl Into<String>) -> Hostile {
    let kinds = &[ErrorKind::Deadline, ErrorKind::MemoryLimit, ErrorKind::ResultTooLarge];
    Hostile { name, sql: sql.into(), expected: Error(kinds), has_deadline: true }
}

fn joined(count: usize, separator: &str, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(separator)
}

fn nested(depth: usize, open: &str, core: &str, close: &str) -> String {
    format!("{}{core}{}", open.repeat(depth), close.repeat(depth))
}

const TOO_COMPLEX: Expected = Error(&[ErrorKind::StatementTooComplex]);
const TOO_LARGE: Expected = Error(&[ErrorKind::ResultTooLarge]);
const OUT_OF_RANGE: Expected = Error(&[ErrorKind::NumericOutOfRange]);
const OUT_OF_MEMORY: Expected = Error(&[ErrorKind::MemoryLimit, ErrorKind::ResultTooLarge]);

/// Statements whose text is hostile.
fn texts() -> Vec<Hostile> {
    let series = |table: usize| format!("generate_series(1, 2) t{table}(x)");
    vec![
        hostile("900 terms", Answer, format!("SELECT {}", joined(900, "+", |_| "1".into()))),
        hostile("2,000 terms", TOO_COMPLEX, format!("SELECT {}", joined(2_000, "+", |_| "1".into()))),
        hostile("a million terms", TOO_COMPLEX, format!("SELECT {}", joined(1_000_000, "+", |_| "1".into()))),
        hostile("a long text", TOO_COMPLEX, format!("SELECT '{}'", "x".repeat(17 << 20))),
        hostile("900 parentheses", Answer, format!("SELECT {}", nested(900, "(", "1", ")"))),
        hostile("100,000 parentheses", TOO_COMPLEX, format!("SELECT {}", nested(100_000, "(", "1", ")"))),
        hostile("a million open parentheses", TOO_COMPLEX, format!("SELECT {}", "(".repeat(1_000_000))),
        hostile("900 NOT", End, format!("SELECT {} true", "NOT ".repeat(900))),
        hostile("100,000 NOT", TOO_COMPLEX, format!("SELECT {} true", "NOT ".repeat(100_000))),
        hostile("200 signs", Answer, format!("SELECT {} 1", "- ".repeat(200))),
        hostile(
            "200 nested CASE",
            Answer,
            format!("SELECT {}", nested(200, "CASE WHEN true THEN ", "1", " ELSE 0 END")),
        ),
        hostile(
            "50,000 nested CASE",
            TOO_COMPLEX,
            format!("SELECT {}", nested(50_000, "CASE WHEN true THEN ", "1", " END")),
        ),
        hostile("5,000 branches", End, {
            format!("SELECT CASE x {} END FROM {}", joined(5_000, " ", |i| format!("WHEN {i} THEN {i}")), series(0))
        }),
        hostile("60 nested lists", End, format!("SELECT {}", nested(60, "[", "1", "]"))),
        hostile("5,000 nested lists", TOO_COMPLEX, format!("SELECT {}", nested(5_000, "[", "1", "]"))),
        hostile("100 nested calls", Answer, format!("SELECT {}", nested(100, "abs(", "1", ")"))),
        hostile("10 nested subqueries", Answer, format!("SELECT {}", nested(10, "(SELECT ", "1", ")"))),
        hostile("5,000 nested subqueries", TOO_COMPLEX, format!("SELECT {}", nested(5_000, "(SELECT ", "1", ")"))),
        hostile("1,000 UNION ALL", Answer, joined(1_000, " UNION ALL ", |i| format!("SELECT {i}"))),
        hostile("2,000 EXCEPT", TOO_COMPLEX, joined(2_000, " EXCEPT ", |i| format!("SELECT {i}"))),
        hostile("20,000 OR", Answer, {
            format!("SELECT 1 FROM {} WHERE {}", series(0), joined(20_000, " OR ", |i| format!("x = {i}")))
        }),
        hostile("10,000 values in a list", Answer, {
            format!("SELECT 1 FROM {} WHERE x IN ({})", series(0), joined(10_000, ",", |i| i.to_string()))
        }),
        hostile("100,000 rows of VALUES", Answer, {
            format!("SELECT count(*) FROM (VALUES {}) t(a, b)", joined(100_000, ",", |i| format!("({i}, 'x')")))
        }),
        hostile("3,000 columns", Answer, format!("SELECT {}", joined(3_000, ",", |i| format!("{i} AS c{i}")))),
        hostile("5,000 joins", TOO_COMPLEX, {
            format!("SELECT 1 FROM {}", joined(5_000, " JOIN ", |i| format!("{} ON true", series(i))))
        }),
        hostile("5,000 tables", TOO_COMPLEX, format!("SELECT 1 FROM {}", joined(5_000, ",", series))),
        hostile("40 joins", Answer, {
            let joins = joined(39, " ", |i| format!("JOIN generate_series(1, 2) t{0}(x) ON t{0}.x = t0.x", i + 1));
            format!("SELECT count(*) FROM generate_series(1, 2) t0(x) {joins}")
        }),
        hostile("queries that double in each WITH", TOO_COMPLEX, {
            let doubled = joined(40, ", ", |i| format!("c{} AS (SELECT a.x FROM c{i} a, c{i} b)", i + 1));
            format!("WITH c0 AS (SELECT 1 AS x), {doubled} SELECT count(*) FROM c40")
        }),
        hostile("columns that double in each subquery", End, {
            nested(60, "SELECT x + x AS x FROM (", "SELECT 1 AS x", ") t")
        }),
        hostile("all groupings of 25 columns", End, {
            let columns = joined(25, ",", |i| format!("c{i}"));
            let values = joined(25, ",", |i| format!("{i} AS c{i}"));
            format!("SELECT count(*) FROM (SELECT {values}) t GROUP BY CUBE({columns})")
        }),
        hostile("a type of 500 lists", End, format!("SELECT CAST(NULL AS INT{})", "[]".repeat(500))),
        hostile("a name of a megabyte", End, format!("SELECT 1 AS \"{}\"", "n".repeat(1 << 20))),
        hostile("a number of 10,000 digits", OUT_OF_RANGE, format!("SELECT {}", "9".repeat(10_000))),
        hostile("a number of no type", OUT_OF_RANGE, "SELECT 1e400"),
    ]
}

/// Functions that are asked for too large a result.
fn functions() -> Vec<Hostile> {
    vec![
        hostile("repeat", TOO_LARGE, "SELECT length(repeat('a', 2147483647))"),
        hostile("repeat in repeat", TOO_LARGE, "SELECT length(repeat(repeat('a', 100000), 100000))"),
        hostile("lpad", TOO_LARGE, "SELECT length(lpad('a', 2147483647, 'x'))"),
        hostile("rpad", TOO_LARGE, "SELECT length(rpad('ä', 900000000, 'ö'))"),
        hostile(
            "repeat of many rows",
            Answer,
            "SELECT sum(length(repeat('abc', 100000))) FROM generate_series(1, 8000)",
        ),
        hostile("repeat that fits", Answer, "SELECT sum(length(repeat('abc', 1000))) FROM generate_series(1, 8000)"),
        hostile("replace", TOO_LARGE, "SELECT length(replace(repeat('a', 100000), 'a', repeat('b', 100000)))"),
        hostile(
            "regexp_replace",
            TOO_LARGE,
            "SELECT length(regexp_replace(repeat('a', 100000), 'a', repeat('b', 100000), 'g'))",
        ),
        hostile(
            "concat",
            TOO_LARGE,
            format!("SELECT length(concat({}))", joined(30, ",", |_| "repeat('a', 10000000)".into())),
        ),
        hostile("||", TOO_LARGE, format!("SELECT length({})", joined(30, "||", |_| "repeat('a', 10000000)".into()))),
        hostile("array_repeat", TOO_LARGE, "SELECT array_repeat(1, 10000000000)"),
        hostile("nested array_repeat", TOO_LARGE, "SELECT array_repeat(array_repeat(1, 100000), 100000)"),
        hostile("range", TOO_LARGE, "SELECT range(1, 100000000000)"),
        hostile("series of seconds", TOO_LARGE, {
            "SELECT generate_series(TIMESTAMP '1700-01-01', TIMESTAMP '2200-01-01', INTERVAL '1 second')"
        }),
        hostile("array_to_string", TOO_LARGE, "SELECT array_to_string(range(1, 100000), repeat('x', 100000))"),
        hostile("levenshtein", TOO_LARGE, "SELECT levenshtein(repeat('a', 10000000), repeat('b', 10000000))"),
        hostile("a large regular expression", End, "SELECT regexp_like('a', '((a{100}){100}){100}')"),
        hostile("a slow regular expression", Answer, "SELECT regexp_like(repeat('a', 100000), '(a+)+$b')"),
        hostile("a slow LIKE", Answer, format!("SELECT repeat('a', 100000) LIKE '{}b'", "%a".repeat(50))),
        hostile("a text of digits", Error(&[ErrorKind::NumericOutOfRange]), "SELECT CAST(repeat('9', 1000) AS BIGINT)"),
        hostile("list of all rows before, per row", OUT_OF_MEMORY, {
            "SELECT max(cardinality(l)) FROM (SELECT array_agg(x) OVER (ORDER BY x) AS l FROM generate_series(1, \
             100000) t(x)) s"
        }),
        hostile("one list of everything", OUT_OF_MEMORY, {
            "SELECT cardinality(array_agg(x)) FROM generate_series(1, 1000000000) t(x)"
        }),
        hostile("one text of everything", OUT_OF_MEMORY, {
            "SELECT length(string_agg(CAST(x AS TEXT), ',')) FROM generate_series(1, 1000000000) t(x)"
        }),
        hostile("rows of a list", End, "SELECT count(*) FROM (SELECT unnest(range(1, 30000000)), repeat('x', 1000)) t"),
    ]
}

/// Queries that would never end, or would hold too much memory.
fn queries() -> Vec<Hostile> {
    vec![
        endless("a long series", "SELECT count(*) FROM generate_series(1, 1000000000000)"),
        endless("a cross join", {
            "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b, generate_series(1, \
             100000) c"
        }),
        endless("a join whose condition is never true", {
            "SELECT count(*) FROM generate_series(1, 1000000) a(x) JOIN generate_series(1, 1000000) b(y) ON x * y = -1"
        }),
        endless("an outer join of unequals", {
            "SELECT count(*) FROM generate_series(1, 1000000) a(x) LEFT JOIN generate_series(1, 1000000) b(y) ON x - \
             y < -2000000"
        }),
        endless("a join on one key", {
            "SELECT count(*) FROM (SELECT x, 1 AS k FROM generate_series(1, 1000000) t(x)) a \
             JOIN (SELECT x AS y, 1 AS k FROM generate_series(1, 1000000) t(x)) b ON a.k = b.k AND a.x + b.y < 0"
        }),
        endless("a correlated subquery", {
            "SELECT count(*) FROM generate_series(1, 1000000) a(x) \
             WHERE EXISTS (SELECT 1 FROM generate_series(1, 1000000) b(y) WHERE b.y + a.x = -1 AND a.x < b.y)"
        }),
        endless("recursion without end", {
            "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t"
        }),
        endless("recursion that doubles its rows", {
            "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT a.x FROM t a CROSS JOIN (VALUES (1), (2)) v) \
             SELECT count(*) FROM t"
        }),
        endless("recursion that doubles a text", {
            "WITH RECURSIVE t AS (SELECT 'x' AS x UNION ALL SELECT x || x FROM t) SELECT max(length(x)) FROM t"
        }),
        endless("recursion over the same rows", {
            "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x FROM t) SELECT count(*) FROM t"
        }),
        hostile("recursion that ends", Answer, {
            "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM t WHERE x < 1000) SELECT count(*) FROM t"
        }),
        endless("a sort of everything", {
            "SELECT x FROM generate_series(1, 10000000000) t(x) ORDER BY x * 7919 % 1000003, x"
        }),
        endless("a group per row", {
            "SELECT count(*) FROM (SELECT x % 999999999989 AS k, count(*) FROM generate_series(1, 10000000000) t(x) \
             GROUP BY 1) s"
        }),
        endless("distinct values of everything", {
            "SELECT count(DISTINCT x * 3) FROM generate_series(1, 10000000000) t(x)"
        }),
        endless("the build side of a join", {
            "SELECT count(*) FROM generate_series(1, 10000000000) a(x) JOIN generate_series(1, 10000000000) b(y) ON x \
             = y"
        }),
        endless("a window over everything", {
            "SELECT max(r) FROM (SELECT rank() OVER (ORDER BY x % 10) AS r FROM generate_series(1, 10000000000) t(x)) s"
        }),
        endless("a minimum per frame", {
            "SELECT max(m) FROM (SELECT median(x) OVER (ORDER BY x ROWS BETWEEN 100000 PRECEDING AND CURRENT ROW) AS m \
             FROM generate_series(1, 10000000) t(x)) s"
        }),
    ]
}

/// Values at the limits of their types, where operators and functions could panic.
fn edges() -> Vec<Hostile> {
    let min = "(-9223372036854775808)";
    [
        format!("SELECT {min} / -1"),
        format!("SELECT {min} % -1"),
        format!("SELECT abs({min})"),
        format!("SELECT - {min}"),
        format!("SELECT gcd({min}, -1), lcm({min}, 2)"),
        format!("SELECT gcd({min}, 0)"),
        format!("SELECT repeat('a', {min})"),
        format!("SELECT lpad('abc', {min}), rpad('abc', -1)"),
        format!("SELECT left('abc', {min}), right('abc', {min})"),
        format!("SELECT substr('abc', {min}), substr('abc', {min}, 9223372036854775807)"),
        "SELECT substr('abc', 9223372036854775807, 9223372036854775807)".into(),
        format!("SELECT split_part('a,b', ',', {min})"),
        format!("SELECT overlay('abcdef' PLACING 'x' FROM {min} FOR 9223372036854775807)"),
        format!("SELECT array_slice([1, 2, 3], {min}, 9223372036854775807)"),
        format!("SELECT array_element([1, 2, 3], {min}), array_element([1], 9223372036854775807)"),
        format!("SELECT array_slice([1, 2, 3], 1, 3, {min})"),
        format!(
            "SELECT lag(x, {min}) OVER (ORDER BY x), lead(x, 9223372036854775807) OVER (ORDER BY x) FROM \
            generate_series(1, 3) t(x)"
        ),
        "SELECT ntile(9223372036854775807) OVER (ORDER BY x) FROM generate_series(1, 3) t(x)".into(),
        format!("SELECT nth_value(x, {min}) OVER (ORDER BY x) FROM generate_series(1, 3) t(x)"),
        "SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN 9223372036854775807 PRECEDING AND 9223372036854775807 FOLLOWING) \
         FROM generate_series(1, 3) t(x)"
            .into(),
        "SELECT sum(x) OVER (ORDER BY x RANGE BETWEEN 9223372036854775807 PRECEDING AND CURRENT ROW) FROM (VALUES \
         (-9223372036854775808), (0)) t(x)"
            .into(),
        "SELECT x FROM generate_series(1, 3) t(x) LIMIT 9223372036854775807 OFFSET 9223372036854775807".into(),
        format!("SELECT * FROM generate_series({min}, {min})"),
        "SELECT count(*) FROM generate_series(9223372036854775800, 9223372036854775807, 3)".into(),
        format!("SELECT count(*) FROM generate_series(9223372036854775807, {min}, {min})"),
        "SELECT * FROM generate_series(1, 10, 0)".into(),
        "SELECT to_timestamp_seconds(9223372036854775807)".into(),
        "SELECT to_timestamp(9223372036854775807)".into(),
        "SELECT to_timestamp_millis(9223372036854775807) + INTERVAL '1 day'".into(),
        "SELECT CAST(to_timestamp_seconds(99999999999999) AS TEXT)".into(),
        "SELECT DATE '9999-12-31' + INTERVAL '2000000 years'".into(),
        "SELECT DATE '2020-01-01' + 9223372036854775807".into(),
        "SELECT DATE '2020-01-01' + 2147483647".into(),
        "SELECT DATE '2020-01-01' - 9223372036854775807".into(),
        "SELECT TIMESTAMP '2020-01-01' + INTERVAL '2147483647 months'".into(),
        "SELECT INTERVAL '2147483647 months' + INTERVAL '1 month'".into(),
        "SELECT INTERVAL '1 month' * 9223372036854775807".into(),
        "SELECT make_date(2147483647, 1, 1)".into(),
        "SELECT date_trunc('year', DATE '-262000-01-01')".into(),
        "SELECT date_trunc('century', TIMESTAMP '2020-01-01')".into(),
        "SELECT date_bin(INTERVAL '0 seconds', TIMESTAMP '2020-01-01', TIMESTAMP '2000-01-01')".into(),
        "SELECT date_bin(INTERVAL '1 month', TIMESTAMP '1500-01-01', TIMESTAMP '2000-01-01')".into(),
        "SELECT extract(epoch FROM to_timestamp_seconds(-9223372036854775807))".into(),
        "SELECT factorial(9223372036854775807)".into(),
        "SELECT factorial(-1)".into(),
        "SELECT power(10, 1000), exp(1000), power(0, -1)".into(),
        "SELECT round(1.5, 2147483647), round(1.5, -2147483648), trunc(1.5::DOUBLE, 400)".into(),
        "SELECT 1 << 64, 1 << 9223372036854775807, 1 >> -1, 1 << -1".into(),
        "SELECT chr(0), chr(55296), chr(9223372036854775807)".into(),
        "SELECT to_hex(-9223372036854775808), ascii('')".into(),
        "SELECT encode(decode('ZZ', 'hex'), 'hex')".into(),
        "SELECT log(0, 0), log(1, 10), ln(-1), sqrt(-1)".into(),
        "SELECT CAST('NaN' AS DOUBLE)::BIGINT".into(),
        "SELECT CAST(1e300 AS DECIMAL(38,0))".into(),
        "SELECT CAST('1e9999999' AS DECIMAL(10,2))".into(),
        "SELECT CAST(99999999999999999999999999999999999999 AS DECIMAL(38,10))".into(),
        "SELECT approx_percentile_cont(x, 1.5) FROM generate_series(1, 3) t(x)".into(),
        "SELECT stddev(x), corr(x, x), var_pop(x) FROM (VALUES (1e308), (-1e308)) t(x)".into(),
        "SELECT avg(x), sum(x) FROM (VALUES (1e308), (1e308)) t(x)".into(),
        "SELECT first_value(x ORDER BY x) FROM generate_series(1, 0) t(x)".into(),
        "SELECT string_agg(NULL, NULL)".into(),
        "SELECT array_agg(x ORDER BY x DESC) FROM generate_series(1, 0) t(x)".into(),
        "SELECT [1, NULL, 3][-1], [][1], [[]][1][1]".into(),
        "SELECT struct(1, 2)['c9']".into(),
        "SELECT map([1], [2, 3])".into(),
        "SELECT unnest(NULL), unnest([])".into(),
        "SELECT regexp_match('a', '(?P<n>'), regexp_count('', '')".into(),
        "SELECT regexp_replace('a', '', 'b', 'zz')".into(),
        "SELECT 'a' LIKE '\\', 'a' LIKE 'a\\'".into(),
        "SELECT to_char(TIMESTAMP '2020-01-01', '%Q %')".into(),
        "SELECT to_date('2020', '%Y'), to_timestamp('x', '%')".into(),
        "SELECT substring('äöü' FROM 2147483648), strpos('', ''), translate('', '', '')".into(),
        "SELECT uuid() = CAST('x' AS UUID)".into(),
        "SELECT (SELECT x FROM generate_series(1, 3) t(x))".into(),
        "SELECT * FROM (SELECT 1) t(a, b)".into(),
        "SELECT count(*) FILTER (WHERE NULL), sum(NULL), avg(NULL), min(NULL)".into(),
        "SELECT CASE WHEN NULL THEN 1 END, COALESCE(NULL), NULLIF(NULL, NULL)".into(),
        "SELECT x FROM generate_series(1, 3) t(x) GROUP BY GROUPING SETS ((), (x), ())".into(),
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM generate_series(1, 0))".into(),
        "SELECT DISTINCT ON (x) x FROM generate_series(1, 3) t(x) ORDER BY x + 1".into(),
    ]
    .into_iter()
    .map(|sql| hostile("an edge", End, sql))
    .collect()
}

/// Returns the bytes of memory that the process uses.
fn process_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Measures the peak memory of the process until it is dropped.
struct Watch {
    ends: Arc<AtomicBool>,
    peak: Arc<AtomicU64>,
}

impl Watch {
    fn start() -> Watch {
        let watch = Watch { ends: Arc::default(), peak: Arc::default() };
        let (ends, peak) = (watch.ends.clone(), watch.peak.clone());
        std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                peak.fetch_max(process_bytes(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        watch
    }

    fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// Opens a session with two threads.
fn session(engine: &Arc<Engine>) -> Session {
    let mut session = Session::new(Arc::clone(engine), query_threads()).unwrap();
    run(&mut session, "SET threads = 2").unwrap();
    session
}

/// Runs a statement and drops its rows. Returns their number.
fn count(session: &mut Session, sql: &str) -> Result<usize> {
    let mut rows = 0;
    if let Outcome::Rows(stream) = run(session, sql)? {
        for batch in stream {
            rows += batch?.num_rows();
        }
    }
    Ok(rows)
}

/// Returns a description of the failure if a statement did not behave.
fn complaint(session: &mut Session, hostile: &Hostile) -> Option<String> {
    let timeout_ms = if hostile.has_deadline { DEADLINE_MS } else { 0 };
    run(session, &format!("SET statement_timeout_ms = {timeout_ms}")).unwrap();
    let watch = Watch::start();
    let started = Instant::now();
    let found = count(session, &hostile.sql);
    let took = started.elapsed();
    let sql: String = hostile.sql.chars().take(100).collect();
    let what = format!("{} ({sql}): {found:?} after {took:?} with {} MiB", hostile.name, watch.peak() >> 20);
    if std::env::var("HOSTILE_SHOW").is_ok() {
        #[allow(clippy::print_stdout)]
        {
            println!("{what}");
        }
    }
    let as_expected = match (&hostile.expected, &found) {
        (End, Err(error)) => error.kind() != ErrorKind::Internal,
        (End, Ok(_)) | (Answer, Ok(_)) => true,
        (Error(kinds), Err(error)) => kinds.contains(&error.kind()),
        _ => false,
    };
    let goes_on = count(session, "SELECT 1") == Ok(1);
    let fails = !as_expected || took > TIME_MAX || watch.peak() > PROCESS_BYTES_MAX || !goes_on;
    fails.then_some(what)
}

/// Runs the statements one by one. Only one test runs at a time, because each is judged by the time and the memory of
/// the whole process.
fn all_end(statements: Vec<Hostile>) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    let mut settings = Settings::default();
    settings.set("memory_limit", MEMORY_LIMIT).unwrap();
    let engine = Engine::memory(settings).unwrap();
    let mut session = session(&engine);
    let used_bytes = engine.broker().used_bytes();
    let complaints: Vec<String> = statements.iter().filter_map(|hostile| complaint(&mut session, hostile)).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    // Workers release their memory at their next frame.
    let until = Instant::now() + Duration::from_secs(5);
    while engine.broker().used_bytes() > used_bytes && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(engine.broker().used_bytes(), used_bytes, "memory that ended statements still hold");
}

#[test]
fn hostile_texts_end_in_time() {
    all_end(texts());
}

#[test]
fn functions_asked_for_too_much_end_in_time() {
    all_end(functions());
}

#[test]
fn endless_queries_end_at_their_deadline() {
    all_end(queries());
}

#[test]
fn values_at_the_limits_of_their_types_end_in_time() {
    all_end(edges());
}

#[test]
fn chains_longer_than_the_default_work_once_the_limit_is_raised() {
    let mut session = session(&Engine::memory(Settings::default()).unwrap());
    run(&mut session, "SET expression_depth_max = 100000").unwrap();
    let sum = format!("SELECT {}", joined(2_000, "+", |_| "1".into()));
    assert_eq!(crate::support::rows(&mut session, &sum)[1], "2000");
}

#[test]
fn a_cancelled_statement_ends_at_once() {
    let engine = Engine::memory(Settings::default()).unwrap();
    for hostile in queries().into_iter().filter(|hostile| hostile.has_deadline) {
        let mut session = session(&engine);
        let cancel = session.cancel_handle();
        let sql = hostile.sql.clone();
        let waiting = std::thread::spawn(move || count(&mut session, &sql));
        std::thread::sleep(Duration::from_millis(150));
        let asked = Instant::now();
        cancel.cancel();
        let found = waiting.join().unwrap();
        let took = asked.elapsed();
        let kind = found.map_err(|error| error.kind());
        let ended_before = matches!(kind, Err(ErrorKind::MemoryLimit | ErrorKind::ResultTooLarge));
        assert!(kind == Err(ErrorKind::Cancelled) || ended_before, "{}: {kind:?}", hostile.name);
        // Ten times the promised time, because the machine of a test may run other tests too.
        assert!(took < Duration::from_millis(1000), "{}: {took:?}", hostile.name);
    }
}
