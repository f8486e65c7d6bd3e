//! TPC-C in a process that we kill at any moment. When the directory is opened again, everything acknowledged must be
//! there, the consistency conditions must hold, and indexes must agree with their tables.
//!
//! The process that we kill is this test program itself, with its orders in environment variables. Each of its clients
//! writes the orders whose commits were acknowledged to a file of its own, with one system call per order.
//! `ROWMILL_CYCLES=200` sets the number of kills.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rowmill::arrow::array::{AsArray, RecordBatch};
use rowmill::arrow::datatypes::Int64Type;
use rowmill_base::{Error, Result};
use rowmill_bench::tpcc::client::{Access, Client, Engine, Param, RowFn};
use rowmill_bench::tpcc::consistency::check;
use rowmill_bench::tpcc::driver::{self, Run};
use rowmill_bench::tpcc::loader::Loader;
use rowmill_bench::tpcc::random::{Constants, Random};
use rowmill_bench::tpcc::rowmill_client::{Rowmill, RowmillClient};
use rowmill_bench::tpcc::scale::Scale;
use rowmill_bench::tpcc::statement::Sql;
use rowmill_bench::tpcc::table::Table;
use rowmill_bench::tpcc::world::World;

const FOLDER: &str = "ROWMILL_TPCC_FOLDER";
const SYNCED: &str = "ROWMILL_TPCC_SYNCED";
const SEED: &str = "ROWMILL_TPCC_SEED";

const SCALE: Scale = Scale::TINY;
const WAREHOUSES: i64 = 2;
const CLIENTS: usize = 4;

fn world() -> World {
    World { scale: SCALE, warehouses: WAREHOUSES, constants: Constants::of_run(&mut Random::new(1, 0)) }
}

/// A database whose clients record the acknowledged orders.
struct Noted {
    rowmill: Rowmill,
    folder: PathBuf,
}

struct NotedClient<'a> {
    client: &'a mut RowmillClient,
    orders: File,
    /// The number, district and warehouse of the order of the open transaction.
    order: Option<[i64; 3]>,
}

impl Engine for Noted {
    type Client<'a> = NotedClient<'a>;

    fn name(&self) -> &'static str {
        self.rowmill.name()
    }

    fn table_options(&self, table: &Table) -> &'static str {
        self.rowmill.table_options(table)
    }

    fn execute(&self, sql: &str) -> Result<()> {
        self.rowmill.execute(sql)
    }

    fn number(&self, sql: &str) -> Result<i64> {
        self.rowmill.number(sql)
    }

    fn fill(&self, table: &Table, rows: impl FnOnce(&mut RowFn<'_>) -> Result<()>) -> Result<()> {
        self.rowmill.fill(table, rows)
    }

    fn settle(&self) -> Result<()> {
        self.rowmill.settle()
    }

    fn with_client<T>(&self, work: impl FnOnce(&mut NotedClient<'_>) -> Result<T>) -> Result<T> {
        let name = format!("orders.{:?}", std::thread::current().id()).replace(['(', ')'], ".");
        let orders = OpenOptions::new().append(true).create(true).open(self.folder.join(name));
        let orders = orders.map_err(|error| Error::io("the file of orders", &error))?;
        self.rowmill.with_client(|client| work(&mut NotedClient { client, orders, order: None }))
    }
}

impl Client for NotedClient<'_> {
    type Row<'a> = <RowmillClient as Client>::Row<'a>;

    fn begin(&mut self, access: Access) -> Result<()> {
        self.order = None;
        self.client.begin(access)
    }

    fn commit(&mut self) -> Result<()> {
        // We write only after the commit has returned, because only then is the order acknowledged.
        self.client.commit()?;
        if let Some([order, district, warehouse]) = self.order.take() {
            let line = format!("{warehouse} {district} {order}\n");
            self.orders.write_all(line.as_bytes()).map_err(|error| Error::io("the file of orders", &error))?;
        }
        Ok(())
    }

    fn rollback(&mut self) -> Result<()> {
        self.order = None;
        self.client.rollback()
    }

    fn execute(&mut self, sql: Sql, params: &[Param<'_>]) -> Result<()> {
        if let (Sql::InsertNewOrder, [Param::Integer(order), Param::Integer(district), Param::Integer(warehouse)]) =
            (sql, params)
        {
            self.order = Some([*order, *district, *warehouse]);
        }
        self.client.execute(sql, params)
    }

    fn query(&mut self, sql: Sql, params: &[Param<'_>], each: impl FnMut(&Self::Row<'_>) -> Result<()>) -> Result<()> {
        self.client.query(sql, params, each)
    }
}

/// The process that we kill.
#[test]
fn a_process_that_is_to_be_killed() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let is_synced = std::env::var_os(SYNCED).is_some();
    let seed = std::env::var(SEED).unwrap().parse().unwrap();
    let rowmill = Rowmill::open(&folder.join("rowmill"), is_synced, None).unwrap();
    let run = Run {
        world: world(),
        clients: CLIENTS,
        rate: None,
        analysts: 0,
        warmup: Duration::ZERO,
        // The run is much longer than the test waits, so it always ends by a kill.
        time: Duration::from_secs(600),
        max_retry: 100,
        seed,
    };
    driver::run(&Noted { rowmill, folder }, &run).unwrap();
}

#[test]
fn nothing_acknowledged_is_missing_when_the_process_is_killed() {
    let cycles = std::env::var("ROWMILL_CYCLES").map_or(6, |cycles| cycles.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rowmill");
    {
        let rowmill = Rowmill::open(&path, true, None).unwrap();
        let loader =
            Loader { scale: SCALE, warehouses: WAREHOUSES, seed: 1, now: 1_700_000_000_000_000, progress: &|_| {} };
        loader.load(&rowmill).unwrap();
    }
    let (mut random, mut acknowledged) = (Random::new(7, 7), 0);
    for cycle in 0..cycles {
        // We alternate between full and relaxed durability. A killed process must lose nothing in either.
        let is_synced = cycle % 2 == 0;
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "tpcc_killed::a_process_that_is_to_be_killed"]);
        command.env(FOLDER, folder.path()).env(SEED, (cycle + 2).to_string()).stdout(Stdio::null());
        if is_synced {
            command.env(SYNCED, "1");
        }
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(random.between(100, 900) as u64));
        child.kill().unwrap();
        child.wait().unwrap();

        let rowmill = Rowmill::open(&path, is_synced, None).unwrap();
        assert_eq!(check(&rowmill, &SCALE).unwrap(), [0; 12], "cycle {cycle}");
        drop(rowmill);
        let database = rowmill::Database::open(&path).unwrap();
        let (entered, with_lines) = (keys_of(&database, "orders", "o"), keys_of(&database, "order_line", "ol"));
        let orders = take_orders(folder.path());
        acknowledged += orders.len();
        for order in orders {
            // An order must be there with its lines, because both were written by one transaction.
            let is_there = entered.contains(&order) && with_lines.contains(&order);
            assert!(is_there, "cycle {cycle}: order [warehouse, district, number] {order:?}");
        }
        for object in database.connect().unwrap().query("CHECK DATABASE").unwrap().rows().unwrap() {
            let problem = object.get::<Option<String>>("problem").unwrap();
            assert_eq!(problem, None, "cycle {cycle}: {}", object.get::<String>("object").unwrap());
        }
    }
    assert!(acknowledged > 0, "no order was acknowledged before a kill, so the test proves nothing");
}

/// Returns warehouse, district and number of the orders that a table has.
fn keys_of(database: &rowmill::Database, table: &str, prefix: &str) -> HashSet<[i64; 3]> {
    let number = if prefix == "o" { "o_id" } else { "ol_o_id" };
    let columns =
        [&format!("{prefix}_w_id"), &format!("{prefix}_d_id"), number].map(|name| format!("CAST({name} AS BIGINT)"));
    let sql = format!("SELECT DISTINCT {} FROM {table}", columns.join(", "));
    let batches = database.connect().unwrap().query(&sql).unwrap().batches().unwrap();
    let of_batch = |batch: &RecordBatch| {
        let column = |column: usize| batch.column(column).as_primitive::<Int64Type>().values().to_vec();
        let (warehouses, districts, numbers) = (column(0), column(1), column(2));
        (0..batch.num_rows()).map(|row| [warehouses[row], districts[row], numbers[row]]).collect::<Vec<_>>()
    };
    batches.iter().flat_map(of_batch).collect()
}

/// Returns the orders that were acknowledged to the clients of the last process. We ignore an incomplete line, because
/// its write was cut by the kill.
fn take_orders(folder: &Path) -> Vec<[i64; 3]> {
    let mut orders = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("orders.")) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let numbers: Vec<i64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
            orders.push(numbers.try_into().unwrap());
        }
        // The next cycle must not see these orders again.
        fs::remove_file(path).unwrap();
    }
    orders
}
