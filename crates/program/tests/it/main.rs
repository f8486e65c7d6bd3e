//! Tests of programs over a database in memory: the results, changes and errors of each kind of statement.

mod key_types;
mod lookups;
mod reads;
mod support;
mod versus_filter;
mod writes;
