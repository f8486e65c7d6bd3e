//! Data for Rowmill's measurements, and the measurements.
//!
//! [`hits`] generates a web-analytics table of any size and [`tpch`] the tables of TPC-H; both are written as Parquet by
//! [`parquet_file`]. [`load`] and [`run`] measure Rowmill on such data and report in the form of the Python program in
//! `peers`, which measures other engines and compares; [`commits`] measures small writes and [`tpcc`] transactions, beside
//! the [`bare_log`] that bounds them. [`statements`] are those of applications, beside SQLite. [`estimates`] and [`planning`]
//! look at the planner. The binary `rowmill-bench` is the way to all of it.

pub mod bare_log;
pub mod commits;
pub mod estimates;
pub mod hits;
pub mod inserts;
pub mod load;
pub mod parquet_file;
pub mod planning;
pub mod process;
pub mod queries;
pub mod run;
pub mod statements;
pub mod tpcc;
pub mod tpch;
