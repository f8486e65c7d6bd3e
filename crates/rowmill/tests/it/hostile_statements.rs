//! Hostile statements. Each must end with an answer or an error, memory must stay bounded, and the next statement must
//! work. They run in a process of their own, so that we measure only their memory.

use std::process::Command;
use std::time::{Duration, Instant};

use rowmill::{Connection, Database, Options};

const CHILD: &str = "ROWMILL_HOSTILE_STATEMENTS";

/// The most time that a statement may take.
const PATIENCE: Duration = Duration::from_secs(12);

/// The memory limit of the database, and the limit of the whole process, which also holds code, parser, planner and
/// files.
const MEMORY_LIMIT: &str = "512MB";
const PEAK_KB_MAX: u64 = 2 << 20;

#[test]
fn every_statement_ends() {
    let program = std::env::current_exe().expect("the test's own path");
    let output = Command::new(program)
        .args(["--exact", "hostile_statements::child", "--nocapture"])
        .env(CHILD, "yes")
        // The C library keeps freed memory for every thread that has ever allocated. The allocator of the binaries does
        // not.
        .env("MALLOC_ARENA_MAX", "2")
        .output()
        .expect("the test must be able to start itself");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}\n{text}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
}

/// The process that runs the statements. It does nothing in an ordinary run of the tests.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let options = Options::new().set("memory_limit", MEMORY_LIMIT).expect("a setting");
    let mut connection = Database::memory_with(options).and_then(|database| database.connect()).expect("a database");
    // Half of the statements run until this ends them.
    let timeout_ms = if std::env::var_os("ROWMILL_LONG").is_some() { 3_000 } else { 1_500 };
    run(&mut connection, &format!("SET statement_timeout_ms = {timeout_ms}")).expect("a setting");
    run(&mut connection, "CREATE TABLE t AS SELECT value AS n, 'row ' || value AS s FROM generate_series(1, 100000)")
        .expect("a table");
    let statements = statements();
    assert!(statements.len() >= 35);
    for statement in statements {
        let begun = Instant::now();
        let outcome = run(&mut connection, &statement);
        let (took, peak) = (begun.elapsed(), peak_kb());
        let shown: String = statement.chars().take(80).collect();
        let told = match &outcome {
            Ok(rows) => format!("{rows} rows"),
            Err(error) => format!("{} {}", error.sqlstate(), error.message().chars().take(100).collect::<String>()),
        };
        println!("{:6.2} s {:5} MB  {shown} -> {told}", took.as_secs_f64(), peak >> 10);
        assert!(took < PATIENCE, "{shown} took {took:?}");
        assert!(peak < PEAK_KB_MAX, "{shown} took {peak} KB");
        assert_eq!(run(&mut connection, "SELECT count(*) FROM t").expect("the next statement works"), 1);
    }
}

fn run(connection: &mut Connection, sql: &str) -> rowmill::Result<usize> {
    connection.query(sql)?.try_fold(0, |rows, batch| Ok(rows + batch?.num_rows()))
}

/// The peak of this process's memory, in KB.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn statements() -> Vec<String> {
    let repeat = |text: &str, times: usize| text.repeat(times);
    let list = |item: &str, times: usize| vec![item; times].join(", ");
    let nested = |open: &str, inner: &str, close: &str, times: usize| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    let mut statements: Vec<String> = [
        // Results of functions.
        "SELECT lpad('x', 2147483647)",
        "SELECT length(rpad(s, 2147483647, s)) FROM t",
        "SELECT repeat('x', 2000000000)",
        "SELECT length(repeat(s, 1000000)) FROM t",
        "SELECT replace(repeat('a', 1000000), 'a', repeat('b', 1000000))",
        "SELECT length(s || repeat(s, 10000) || repeat(s, 10000)) FROM t",
        "SELECT count(*) FROM generate_series(1, 100000000000)",
        "SELECT range(1, 100000000000)",
        "SELECT array_repeat(1, 9000000000000000000)",
        "SELECT array_repeat(array_repeat(array_repeat(1, 10000), 10000), 10000)",
        "SELECT concat(repeat('x', 1000000000), repeat('x', 1000000000), repeat('x', 1000000000))",
        "SELECT translate(repeat('x', 20000000), 'x', 'y') FROM t",
        "SELECT regexp_replace(repeat('x', 10000000), 'x', repeat('y', 1000), 'g')",
        "SELECT s ~ '((a{1,1000}){1,1000}){1,1000}' FROM t",
        "SELECT s ~ '(x+x+)+y' FROM t",
        "SELECT count(*) FROM t WHERE repeat(s, 200) LIKE '%%%a%%%b%%%c%%%d%%%e%%%f%%%g'",
        // Groups, sorts and joins that do not fit into memory.
        "SELECT count(*) FROM (SELECT DISTINCT a.n * 100000 + b.n FROM t AS a, t AS b) AS d",
        "SELECT string_agg(a.s, ',') FROM t AS a, t AS b",
        "SELECT array_agg(a.s) FROM t AS a, t AS b",
        "SELECT a.s FROM t AS a, t AS b ORDER BY b.s || a.s",
        "SELECT a.n, b.n, row_number() OVER (ORDER BY a.n + b.n) FROM t AS a, t AS b",
        "SELECT count(*) FROM t AS a, t AS b, t AS c, t AS d WHERE a.n + b.n + c.n + d.n = 0",
        "SELECT count(*) FROM t AS a FULL JOIN t AS b ON a.n < b.n",
        "CREATE TABLE big AS SELECT a.n, a.s, b.s AS s2 FROM t AS a, t AS b",
        "INSERT INTO t SELECT a.n, a.s FROM t AS a, t AS b",
        // Operators that get endless input in batches.
        "SELECT n % 3, count(*) FROM (SELECT value AS n, row_number() OVER () AS r FROM generate_series(1, \
         100000000000)) GROUP BY 1",
        "SELECT a.n, count(*) FROM t AS a JOIN generate_series(1, 100000000000) AS g ON a.n = g.value GROUP BY 1",
        // Recursion.
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
        "WITH RECURSIVE r AS (SELECT 'x' AS s UNION ALL SELECT s || s FROM r) SELECT count(*) FROM r",
        "WITH RECURSIVE r AS (SELECT n FROM t UNION ALL SELECT r.n FROM r, t) SELECT count(*) FROM r",
        // Values.
        "SELECT 1 / 0, 9223372036854775807 + 1",
        "SELECT CAST('9e37' AS DECIMAL(38,0)) * 99999999999",
        "SELECT 1e308 * 10, -1e308 * 10",
        "SELECT TIMESTAMP '9999-12-31 00:00:00' + INTERVAL '99999999 years'",
        "SELECT DATE '2013-07-31' + 9223372036854775807",
        "SELECT '\\x00\\xff'::BLOB::TEXT, chr(0), chr(1114112)",
        "SELECT * FROM t LIMIT 9223372036854775807 OFFSET 9223372036854775807",
        "SELECT * FROM '/dev/zero'",
        "SELECT * FROM '/proc/self/mem'",
    ]
    .map(str::to_owned)
    .to_vec();
    statements.extend([
        // Length and depth.
        format!("SELECT 1{}", repeat(" + 1", 2_000)),
        format!("SELECT 1{}", repeat(" + 1", 100_000)),
        format!("SELECT {}", nested("(", "1", ")", 5_000)),
        format!("SELECT {}", nested("abs(", "1", ")", 2_000)),
        format!("SELECT {}", nested("NOT ", "true", "", 5_000)),
        format!("SELECT {}", nested("- ", "1", "", 5_000)),
        format!("SELECT {}", nested("INTERVAL ", "'1 day'", "", 100_000)),
        format!("SELECT {}", nested("", "n", " NOTNULL", 100_000) + " FROM t"),
        format!("SELECT {}", nested("PRIOR ", "n", "", 100_000) + " FROM t"),
        format!("SELECT {}", nested("EXISTS ", "n", "", 100_000) + " FROM t"),
        format!("SELECT {}", nested("CASE WHEN n > 1 THEN 1 ELSE ", "1", " END", 500) + " FROM t"),
        format!("SELECT {}", nested("coalesce(n, ", "1", ", 2)", 100) + " FROM t"),
        nested("SELECT * FROM (", "SELECT 1 AS x", ") AS q", 500),
        format!("SELECT {}", nested("CAST(", "1", " AS BIGINT)", 1_000)),
        format!("SELECT count(*) FROM t WHERE n IN ({})", list("7", 100_000)),
        format!("SELECT count(*) FROM t WHERE {}", vec!["s = 'x'"; 10_000].join(" OR ")),
        format!("SELECT {}", list("1", 100_000)),
        format!(
            "SELECT {} FROM t LIMIT 1",
            (0..5_000).map(|at| format!("n + {at} AS c{at}")).collect::<Vec<_>>().join(", ")
        ),
        vec!["SELECT 1"; 2_000].join(" UNION ALL "),
        format!("SELECT count(*) FROM {}", (0..60).map(|at| format!("t AS t{at}")).collect::<Vec<_>>().join(", ")),
        format!(
            "SELECT n, count(*) FROM t GROUP BY CUBE ({})",
            (0..30).map(|at| format!("n + {at}")).collect::<Vec<_>>().join(", ")
        ),
        format!("SELECT '{}'", repeat("x", 20_000_000)),
        format!("SELECT 1 AS {}", repeat("x", 1_000_000)),
        format!("SELECT 1{}", repeat("0", 10_000)),
        format!("SELECT [{}]", nested("[", "1", "]", 1_000)),
        format!("INSERT INTO t VALUES {}", list("(1, 'x')", 200_000)),
        format!("SELECT {}", repeat("(", 1_000_000)),
        format!(
            "WITH {} SELECT count(*) FROM c19",
            (1..20).fold("c0 AS (SELECT n FROM t)".to_owned(), |text, at| {
                format!("{text}, c{at} AS (SELECT a.n FROM c{} AS a JOIN c{} AS b ON a.n = b.n)", at - 1, at - 1)
            })
        ),
    ]);
    statements
}
