//! How often a query asks the heap for memory hardly depends on how many rows it reads.
//!
//! Every query runs on a table of `n` rows and on one of `10 n` whose values come from the same few, after two runs that
//! fill the caches of plans and threads. From plan to last row it may ask for memory
//!
//! ```text
//! A(10 n) - A(n)  <=  PER_BLOCK * blocks + PER_BATCH * batches + PER_PARTITION * partitions + PER_TENFOLD
//! ```
//!
//! times more often, where
//!
//! * `blocks` are those that the larger table has more. A block is opened, its value lists decoded, its groups found in
//!   tables of its own, and frames of it, of which there is a bounded number, read into arrays;
//! * `batches` are those of the result that the larger table has more, and of a query whose rows go from operator to
//!   operator those of the rows that pass the scan: `rows / batch_rows`, rounded up in every frame. A batch is an array
//!   of a few buffers for each of its columns;
//! * `partitions` are those that a grouping with many groups has more: one for each 2^14 rows of the table, as a power of
//!   two, and never more than 256. In each of them both workers have lists that double from nothing until they hold its
//!   groups, about fourteen times, and what they gathered is merged in a table of its own;
//! * `PER_TENFOLD` are the doublings, four at most, of each of the tables, lists and arenas that grow with the query,
//!   and what two threads share out in another way from run to run.
//!
//! None of these terms is near a row: a block has 2^18 of them, a partition 2^14, a batch 2^13.

// A test stops at what is not as it should be.
#![allow(clippy::unwrap_used)]

use rowmill::{Connection, Database};
use rowmill_allocator::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ROWS_PER_BLOCK: u64 = 1 << 18;
const BATCH_ROWS: u64 = 1 << 13;
/// Rows of a block that a scan reads at a time.
const FRAME_ROWS: u64 = 1 << 16;

/// Rows of the table for which a grouping has another partition, and partitions at most.
const PARTITION_ROWS: u64 = 1 << 14;
const PARTITIONS_MAX: u64 = 256;

const PER_BLOCK: u64 = 300;
const PER_BATCH: u64 = 24;
const PER_PARTITION: u64 = 144;
const PER_TENFOLD: u64 = 1_000;

/// Which rows go from operator to operator.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    /// Those of the result alone: whoever stands on the table reads its blocks itself.
    Result,
    /// As [`Flow::Result`], of groups in partitions. A count of distinct values is one of groups.
    Groups,
    /// This share of the table, in hundredths.
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

/// A table `t` of `blocks` whole blocks and a small one, `d`.
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
        connection.execute(&statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let plan = connection.query("EXPLAIN SELECT n FROM t").unwrap().rows().unwrap();
    let scan: String = plan[1].get(0).unwrap();
    assert!(scan.contains(&format!(", {blocks} blocks, {rows} rows")), "{scan}");
    (database, connection)
}

/// Allocations from plan to last row when all is warm, and batches of the result.
fn run(connection: &mut Connection, query: &str) -> (u64, u64) {
    let mut last = (0, 0);
    for _ in 0..3 {
        let before = allocations();
        let batches = connection.query(query).unwrap().inspect(|batch| assert!(batch.is_ok(), "{query}")).count();
        last = (allocations() - before, batches as u64);
    }
    last
}

/// Batches between operators while `share` hundredths of a table of so many blocks pass a scan.
fn batches_between(blocks: u64, share: u64) -> u64 {
    let frames = blocks * ROWS_PER_BLOCK / FRAME_ROWS;
    frames * (FRAME_ROWS * share / 100).div_ceil(BATCH_ROWS)
}

/// Partitions of a grouping of a table of so many blocks.
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
        let line = format!("{few} and {many}, which may be {bound} more: {query}");
        if many.saturating_sub(few) > bound {
            broken.push(line);
        }
    }
    assert!(broken.is_empty(), "allocations of a table and of one ten times as large:\n{}", broken.join("\n"));
}
