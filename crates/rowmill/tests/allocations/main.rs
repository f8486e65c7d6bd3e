//! The number of heap allocations of a query must hardly depend on the number of rows that it reads.
//!
//! Every query runs on a table of `n` rows and on one of `10 n` whose values come from the same small set. We run it
//! twice before we measure, to fill the caches of plans and threads. From plan to last row the larger table may cost
//!
//! ```text
//! A(10 n) - A(n)  <=  PER_BLOCK * blocks + PER_BATCH * batches + PER_PARTITION * partitions + PER_TENFOLD
//! ```
//!
//! more allocations, where
//!
//! * `blocks` is the number of additional blocks of the larger table. We open each block, decode its value lists, find
//!   its groups in tables of its own, and read a bounded number of its frames into arrays;
//! * `batches` is the number of additional batches of the result. If rows of the query go from operator to operator, we
//!   add the batches of the rows that pass the scan: `rows / batch_rows`, rounded up in every frame. A batch is an
//!   array with a few buffers for each of its columns;
//! * `partitions` is the number of additional partitions of a grouping with many groups: one for each 2^14 rows of the
//!   table, as a power of two, and at most 256. In each partition both workers have lists that double from nothing
//!   until they hold its groups, about fourteen times. Then the lists are merged in a table of its own;
//! * `PER_TENFOLD` allows for the doublings, at most four, of each of the tables, lists and arenas that grow with the
//!   query, and for the work that two threads share differently from run to run.
//!
//! None of these terms comes near one allocation per row: a block has 2^18 rows, a partition 2^14, a batch 2^13.

// A test should stop at the first surprise.
#![allow(clippy::unwrap_used)]

use rowmill::{Connection, Database};
use rowmill_allocator::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ROWS_PER_BLOCK: u64 = 1 << 18;
const BATCH_ROWS: u64 = 1 << 13;
/// The rows of a block that a scan reads at a time.
const FRAME_ROWS: u64 = 1 << 16;

/// A grouping gets one more partition for each of this number of rows, up to a maximum.
const PARTITION_ROWS: u64 = 1 << 14;
const PARTITIONS_MAX: u64 = 256;

const PER_BLOCK: u64 = 300;
const PER_BATCH: u64 = 24;
const PER_PARTITION: u64 = 144;
const PER_TENFOLD: u64 = 1_000;

/// The rows that go from operator to operator.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    /// Only the rows of the result, because the operator above the table reads its blocks itself.
    Result,
    /// Only the rows of the result, of a grouping that works in partitions. A count of distinct values is such a
    /// grouping too.
    Groups,
    /// This share of the table's rows, in percent.
    Rows(u64),
}

const QUERIES: &[(Flow, &str)] = &[
    (Flow::Result, "SELECT count(*), sum(few), avg(amount), min(word), max(line) FROM t"),
    (Flow::Result, "SELECT few, count(*), sum(many) FROM t GROUP BY few"),
    (Flow::Groups, "SELECT many, count(*), avg(amount) FROM t GROUP BY many ORDER BY 2 DESC, 1 LIMIT 10"),
    (Flow::Groups, "SELECT few, many, count(*) FROM t GROUP BY few, many"),
    (Flow::Result, "SELECT word, count(*), max(few) FROM t GROUP BY word"),
    (Flow::Groups, "SELECT line, count(*) FROM t GROUP BY line ORDER BY 2 DESC, 1 LIMIT 10"),
    (Flow::Groups, "SELECT word, line, min(n) FROM t GROUP BY word, line"),
    (Flow::Groups, "SELECT n, count(*) FROM t GROUP BY n ORDER BY 2 DESC, 1 LIMIT 10"),
    (Flow::Groups, "SELECT count(DISTINCT many) FROM t"),
    (Flow::Result, "SELECT count(DISTINCT word) FROM t"),
    (Flow::Groups, "SELECT few, count(DISTINCT line) FROM t GROUP BY few"),
    (Flow::Result, "SELECT count(*) FROM t WHERE few = 3 AND many < 5000"),
    (Flow::Result, "SELECT count(*) FROM t WHERE line LIKE '%99%'"),
    (Flow::Result, "SELECT word, count(*) FROM t WHERE line LIKE '%9%' AND few <> 2 GROUP BY word"),
    (Flow::Rows(1), "SELECT n, line FROM t WHERE word = 'word 7'"),
    (Flow::Rows(100), "SELECT n, word FROM t ORDER BY many, n LIMIT 10"),
    (Flow::Rows(100), "SELECT few, many FROM t ORDER BY many, few"),
    (Flow::Rows(100), "SELECT sum(d.weight) FROM t JOIN d ON t.many = d.k"),
    (Flow::Rows(100), "SELECT d.name, count(*) FROM t JOIN d ON t.word = d.name GROUP BY d.name"),
    (Flow::Rows(100), "SELECT count(*) FROM t WHERE many IN (SELECT k FROM d WHERE weight > 2)"),
];

/// Makes a database with a table `t` of `blocks` whole blocks, and a small table `d`.
fn database(blocks: u64) -> (Database, Connection) {
    let database = Database::memory().unwrap();
    let mut connection = database.connect().unwrap();
    let rows = blocks * ROWS_PER_BLOCK;
    for statement in [
        "SET threads = 2".to_owned(),
        format!("SET rows_per_block = {ROWS_PER_BLOCK}"),
        format!("SET batch_rows = {BATCH_ROWS}"),
        format!(
            "CREATE TABLE t AS SELECT value AS n, value % 10 AS few, value * 7919 % 20011 AS many,
             'word ' || value % 100 AS word, 'a line of text, number ' || value * 7919 % 20011 AS line,
             CAST(value % 1000 AS DOUBLE) / 8 AS amount FROM generate_series(1, {rows})"
        ),
        "CREATE TABLE d AS SELECT value * 4 AS k, value % 7 AS weight, 'word ' || value AS name
         FROM generate_series(1, 1000)"
            .to_owned(),
    ] {
        connection.execute_batch(&statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let plan = connection.query("EXPLAIN SELECT n FROM t").unwrap().rows().unwrap();
    let scan: String = plan[1].get(0).unwrap();
    let unit = if blocks == 1 { "block" } else { "blocks" };
    assert!(scan.contains(&format!(", {blocks} {unit}, {rows} rows")), "{scan}");
    (database, connection)
}

/// Returns the allocations from plan to last row once all caches are warm, and the batches of the result.
fn run(connection: &mut Connection, query: &str) -> (u64, u64) {
    let mut last = (0, 0);
    for _ in 0..3 {
        let before = allocations();
        let batches = connection.query(query).unwrap().inspect(|batch| assert!(batch.is_ok(), "{query}")).count();
        last = (allocations() - before, batches as u64);
    }
    last
}

/// The number of batches between operators if `share` percent of a table with `blocks` blocks pass a scan.
fn batches_between(blocks: u64, share: u64) -> u64 {
    let frames = blocks * ROWS_PER_BLOCK / FRAME_ROWS;
    frames * (FRAME_ROWS * share / 100).div_ceil(BATCH_ROWS)
}

/// The number of partitions of a grouping over a table with `blocks` blocks.
fn partitions(blocks: u64) -> u64 {
    (blocks * ROWS_PER_BLOCK / PARTITION_ROWS).clamp(1, PARTITIONS_MAX).next_power_of_two()
}

#[test]
fn allocations_grow_with_blocks_and_batches_but_not_with_rows() {
    const SMALL: u64 = 1;
    const LARGE: u64 = 10 * SMALL;
    let ((_small, mut small), (_large, mut large)) = (database(SMALL), database(LARGE));
    let mut broken = Vec::new();
    for (flow, query) in QUERIES {
        let (few, few_batches) = run(&mut small, query);
        let (many, many_batches) = run(&mut large, query);
        let (between, partitions) = match flow {
            Flow::Result => (0, 0),
            Flow::Groups => (0, partitions(LARGE) - partitions(SMALL)),
            Flow::Rows(share) => (batches_between(LARGE, *share) - batches_between(SMALL, *share), 0),
        };
        let batches = many_batches.saturating_sub(few_batches) + between;
        let bound = PER_BLOCK * (LARGE - SMALL) + PER_BATCH * batches + PER_PARTITION * partitions + PER_TENFOLD;
        let line = format!("{few} and {many} allocations, at most {bound} more allowed: {query}");
        if many.saturating_sub(few) > bound {
            broken.push(line);
        }
    }
    assert!(broken.is_empty(), "too many allocations for ten times the rows:\n{}", broken.join("\n"));
}
