//! Analysts beside TPC-C's clients at a small scale. Every question must have an answer, one thread and several must
//! give the same answer, and all answers of a transaction must come from one state.

use std::path::Path;
use std::time::Duration;

use rowmill::Database;
use rowmill_bench::tpcc::client::Engine;
use rowmill_bench::tpcc::consistency::check;
use rowmill_bench::tpcc::deck::Kind;
use rowmill_bench::tpcc::driver::{self, Run};
use rowmill_bench::tpcc::loader::Loader;
use rowmill_bench::tpcc::questions;
use rowmill_bench::tpcc::random::{Constants, Random};
use rowmill_bench::tpcc::rowmill_client::Rowmill;
use rowmill_bench::tpcc::scale::Scale;
use rowmill_bench::tpcc::sqlite_client::Sqlite;
use rowmill_bench::tpcc::suppliers;
use rowmill_bench::tpcc::world::World;

const SCALE: Scale = Scale::TINY;
const WAREHOUSES: i64 = 2;
/// At least this number of questions must have rows in the answer, even with so small tables.
const WITH_ROWS_MIN: usize = 14;

fn loaded(path: &Path) -> Rowmill {
    let rowmill = Rowmill::open(path, false, None).unwrap();
    let loader =
        Loader { scale: SCALE, warehouses: WAREHOUSES, seed: 1, now: 1_700_000_000_000_000, progress: &|_| {} };
    loader.load(&rowmill).unwrap();
    suppliers::load(&rowmill).unwrap();
    // A second load must leave the existing tables alone.
    suppliers::load(&rowmill).unwrap();
    rowmill
}

fn run(rowmill: &Rowmill, analysts: usize, time: Duration) -> driver::Measured {
    let world = World { scale: SCALE, warehouses: WAREHOUSES, constants: Constants::of_run(&mut Random::new(1, 0)) };
    let run =
        Run { world, clients: 2, rate: None, analysts, warmup: Duration::from_millis(50), time, max_retry: 5, seed: 1 };
    driver::run(rowmill, &run).unwrap()
}

#[test]
fn analysts_see_one_state_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let rowmill = loaded(&folder.path().join("rowmill"));
    let measured = run(&rowmill, 2, Duration::from_secs(1));
    let findings = &measured.findings;
    assert!(findings.answered() > 0 && findings.checks > 0);
    assert!(measured.tallies[Kind::NewOrder as usize].committed > 0);
    assert_eq!(findings.differences, [""; 0]);
    let errors: Vec<_> = findings.questions.iter().filter_map(|asked| asked.error.as_deref()).collect();
    assert_eq!(errors, [""; 0]);
    assert_eq!(check(&rowmill, &SCALE).unwrap(), [0; 12]);
}

#[test]
fn questions_have_the_same_answer_either_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rowmill");
    {
        let rowmill = loaded(&path);
        run(&rowmill, 0, Duration::from_millis(300));
    }
    let mut connection = Database::open(&path).unwrap().connect().unwrap();
    let mut with_rows = 0;
    for (number, question) in (1..).zip(questions::ALL) {
        let [one, other] = [(1, 8192), (3, 100)].map(|(threads, batch_rows)| {
            connection.execute_batch(&format!("SET threads = {threads}; SET batch_rows = {batch_rows}")).unwrap();
            let rows = connection.query(question.sql).unwrap().rows().unwrap();
            let texts = rows.iter().map(|row| {
                let values = (0..row.len()).map(|column| row.get::<Option<String>>(column).unwrap());
                values.map(Option::unwrap_or_default).collect::<Vec<_>>().join("|")
            });
            texts.collect::<Vec<_>>()
        });
        assert_eq!(one, other, "{number}, {}", question.about);
        with_rows += usize::from(!one.is_empty());
    }
    assert!(with_rows >= WITH_ROWS_MIN, "{with_rows}");
}

#[test]
fn an_engine_without_analysts_refuses_them() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = Sqlite::open(&folder.path().join("tpcc.sqlite"), false);
    let error = sqlite.reader().err().unwrap();
    assert!(error.message().contains("sqlite has no analysts"), "{error}");
}
