//! Tests of the generators' files and of TPC-C, at sizes that take a second or two.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // A test that skips says so.

mod answers;
mod appends;
mod files;
mod hits_facts;
mod planner;
mod statements;
mod table;
mod tpcc;
mod tpcc_analysts;
mod tpcc_base;
mod tpcc_killed;
