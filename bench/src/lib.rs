//! Data for Rowmill's measurements, and the measurements.
//!
//! [`hits`] generates a web-analytics table of any size and [`tpch`] the tables of TPC-H; both are written as Parquet by
//! [`parquet_file`]. The binary `rowmill-bench` is the way to all of it.

pub mod arguments;
pub mod hits;
pub mod parquet_file;
pub mod tpch;
