//! TPC-C at a small scale on SQLite. The loaded tables, and the tables after transactions, must meet the consistency
//! conditions; and the conditions must notice violations.

use std::path::Path;
use std::time::{Duration, Instant};

use rowmill_base::Result;
use rowmill_bench::tpcc::client::{Access, Client, Engine, Param};
use rowmill_bench::tpcc::consistency::check;
use rowmill_bench::tpcc::deck::Kind;
use rowmill_bench::tpcc::driver::{self, Run};
use rowmill_bench::tpcc::loader::Loader;
use rowmill_bench::tpcc::random::{Constants, Random};
use rowmill_bench::tpcc::scale::Scale;
use rowmill_bench::tpcc::sqlite_client::{Sqlite, SqliteClient, SqliteRow};
use rowmill_bench::tpcc::statement::Sql;
use rowmill_bench::tpcc::terminal::{Tallies, Terminal};
use rowmill_bench::tpcc::world::World;

const SCALE: Scale = Scale::TINY;
const WAREHOUSES: i64 = 2;

fn loaded(folder: &Path) -> Sqlite {
    let sqlite = Sqlite::open(&folder.join("tpcc.sqlite"), false);
    let loader =
        Loader { scale: SCALE, warehouses: WAREHOUSES, seed: 1, now: 1_700_000_000_000_000, progress: &|_| {} };
    loader.load(&sqlite).unwrap();
    sqlite
}

fn world() -> World {
    World { scale: SCALE, warehouses: WAREHOUSES, constants: Constants::of_run(&mut Random::new(1, 0)) }
}

/// Runs this number of transactions of one client.
fn run(sqlite: &Sqlite, transactions: usize) -> Tallies {
    let mut terminal = Terminal::new(world(), 0, 1, 5, 1);
    sqlite.with_client(|client| (0..transactions).try_for_each(|_| terminal.step(client, Instant::now()))).unwrap();
    terminal.into_tallies()
}

#[test]
fn the_population_has_its_cardinalities() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = loaded(folder.path());
    assert_eq!(check(&sqlite, &SCALE).unwrap(), [0; 12]);
    let counts = [
        ("warehouse", 2),
        ("district", 20),
        ("customer", 600),
        ("history", 600),
        ("orders", 600),
        ("new_order", 180),
        ("item", 200),
        ("stock", 400),
    ];
    let mut rows = 0;
    for (table, expected) in counts {
        let found = sqlite.number(&format!("SELECT COUNT(*) FROM {table}")).unwrap();
        assert_eq!(found, expected, "{table}");
        rows += found;
    }
    assert_eq!(rows, SCALE.rows(WAREHOUSES));
    let lines = sqlite.number("SELECT COUNT(*) FROM order_line").unwrap();
    assert!((5_000..7_000).contains(&lines), "{lines}");
    // Every last name must occur, and each order must belong to another customer.
    assert_eq!(sqlite.number("SELECT COUNT(DISTINCT c_last) FROM customer").unwrap(), SCALE.last_names());
    assert_eq!(sqlite.number("SELECT COUNT(DISTINCT o_c_id) FROM orders WHERE o_w_id = 2 AND o_d_id = 3").unwrap(), 30);
}

#[test]
fn transactions_leave_consistent_tables() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = loaded(folder.path());
    let tallies = run(&sqlite, 1_000);
    assert_eq!(check(&sqlite, &SCALE).unwrap(), [0; 12]);

    let of = |kind: Kind| &tallies[kind as usize];
    assert_eq!(of(Kind::NewOrder).committed + of(Kind::NewOrder).rolled_back, 450);
    assert!((1..20).contains(&of(Kind::NewOrder).rolled_back), "{}", of(Kind::NewOrder).rolled_back);
    assert_eq!(of(Kind::Payment).committed, 430);
    let others = [Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];
    assert!(others.into_iter().all(|kind| of(kind).committed == 40));
    assert!(tallies.iter().all(|tally| tally.failed + tally.retries == 0));

    let orders = sqlite.number("SELECT COUNT(*) FROM orders").unwrap();
    assert_eq!(orders - 600, of(Kind::NewOrder).committed as i64);
    assert_eq!(sqlite.number("SELECT COUNT(*) FROM history").unwrap() - 600, of(Kind::Payment).committed as i64);
    // A district starts with ten new orders, so forty deliveries must leave few of the first ones.
    assert!(sqlite.number("SELECT COUNT(*) FROM new_order WHERE no_o_id = 22").unwrap() < 20);
    assert!(sqlite.number("SELECT SUM(s_remote_cnt) FROM stock").unwrap() > 0);
    assert!(sqlite.number("SELECT MAX(LENGTH(c_data)) FROM customer").unwrap() <= 500);
}

#[test]
fn the_same_seed_gives_the_same_database() {
    let sums = [(); 2].map(|()| {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = loaded(folder.path());
        run(&sqlite, 200);
        ["SELECT SUM(ol_amount * ol_i_id) FROM order_line", "SELECT SUM(s_quantity * s_i_id) FROM stock"]
            .map(|sql| sqlite.number(sql).unwrap())
    });
    assert_eq!(sums[0], sums[1]);
}

#[test]
fn clients_run_concurrently() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = loaded(folder.path());
    let run = Run {
        world: world(),
        clients: 3,
        rate: None,
        analysts: 0,
        warmup: Duration::from_millis(50),
        time: Duration::from_millis(300),
        max_retry: 5,
        seed: 1,
    };
    let measured = driver::run(&sqlite, &run).unwrap();
    assert!(measured.tallies[Kind::NewOrder as usize].committed > 0);
    assert!(measured.tallies.iter().all(|tally| tally.failed == 0 && tally.latencies.count() == tally.ended()));
    assert_eq!(check(&sqlite, &SCALE).unwrap(), [0; 12]);
}

#[test]
fn clients_keep_a_rate_and_count_the_time_since_a_transaction_was_due() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = loaded(folder.path());
    let (warmup, time) = (Duration::ZERO, Duration::from_millis(500));
    let run = Run { world: world(), clients: 2, rate: Some(100.0), analysts: 0, warmup, time, max_retry: 5, seed: 1 };
    let slow = driver::run(&sqlite, &run).unwrap();
    let ended: u64 = slow.tallies.iter().map(|tally| tally.ended()).sum();
    assert!((30..=52).contains(&ended), "{ended} transactions in half a second");
    // No engine keeps this rate, so the last transactions were due long before they began.
    let hurried = driver::run(&sqlite, &Run { rate: Some(1e6), ..run }).unwrap();
    let longest = hurried.tallies.iter().map(|tally| tally.latencies.longest()).max().unwrap();
    assert!(longest > Duration::from_millis(300), "{longest:?}");
}

#[test]
fn each_condition_notices_a_violation() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = loaded(folder.path());
    run(&sqlite, 200);
    let breaks: [(usize, &str); 12] = [
        (1, "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1"),
        (2, "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 1"),
        (3, "DELETE FROM new_order WHERE no_o_id = (SELECT MIN(no_o_id) + 1 FROM new_order) AND no_d_id = 1"),
        (4, "DELETE FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 1 AND ol_number = 1"),
        (5, "UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 1"),
        (6, "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 1"),
        (7, "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 1"),
        (8, "DELETE FROM history WHERE h_w_id = 1 AND h_c_id = 1"),
        (9, "UPDATE district SET d_ytd = d_ytd + 1 WHERE d_w_id = 1 AND d_id = 1"),
        (10, "UPDATE history SET h_amount = h_amount + 1 WHERE h_w_id = 1 AND h_c_id = 1"),
        (11, "UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1"),
        (12, "UPDATE customer SET c_balance = c_balance + 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1"),
    ];
    let path = folder.path().join("tpcc.sqlite");
    for (number, sql) in breaks {
        let copy = folder.path().join(format!("copy_{number}"));
        std::fs::copy(&path, &copy).unwrap();
        let broken = Sqlite::open(&copy, false);
        broken.execute(sql).unwrap();
        assert!(check(&broken, &SCALE).unwrap()[number - 1] > 0, "condition {number}");
    }
}

/// Forwards every call to SQLite, and checks that each statement gets a value for each of its parameters.
struct Checked<'a, 'b>(&'a mut SqliteClient<'b>);

impl Client for Checked<'_, '_> {
    type Row<'a> = SqliteRow<'a>;

    fn begin(&mut self, access: Access) -> Result<()> {
        self.0.begin(access)
    }

    fn commit(&mut self) -> Result<()> {
        self.0.commit()
    }

    fn rollback(&mut self) -> Result<()> {
        self.0.rollback()
    }

    fn execute(&mut self, sql: Sql, params: &[Param<'_>]) -> Result<()> {
        assert_eq!(sql.text().matches('?').count(), params.len(), "{sql:?}");
        self.0.execute(sql, params)
    }

    fn query(&mut self, sql: Sql, params: &[Param<'_>], each: impl FnMut(&SqliteRow<'_>) -> Result<()>) -> Result<()> {
        assert_eq!(sql.text().matches('?').count(), params.len(), "{sql:?}");
        self.0.query(sql, params, each)
    }
}

#[test]
fn statements_get_all_their_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::new(world(), 0, 1, 5, 1);
    let steps =
        |client: &mut SqliteClient<'_>| (0..200).try_for_each(|_| terminal.step(&mut Checked(client), Instant::now()));
    loaded(folder.path()).with_client(steps).unwrap();
}
