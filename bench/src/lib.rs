//! Data for Rowmill's measurements, and the measurements.
//!
//! [`hits`] generates a web-analytics table of any size and [`tpch`] the tables of TPC-H; [`parquet_file`] writes both
//! as Parquet. [`load`] and [`run`] measure Rowmill on such data. They report in the form of the Python program in
//! `peers`, which measures other engines and compares. [`wire`] asks a server the same statements. [`commits`] measures
//! small writes, [`appends`] rows that come one by one, and [`tpcc`] transactions, next to the [`bare_log`] that bounds
//! them. [`statements`] compares statements of applications with SQLite. [`estimates`] and [`planning`] examine the
//! planner. The binary `rowmill-bench` runs all of them.

pub mod appends;
pub mod bare_log;
pub mod commits;
pub mod estimates;
pub mod hits;
pub mod inserts;
pub mod instructions;
pub mod load;
pub mod parquet_file;
pub mod planning;
pub mod process;
pub mod queries;
pub mod run;
pub mod statements;
pub mod tpcc;
pub mod tpch;
pub mod wire;
