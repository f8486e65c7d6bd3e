//! Transactions from the outside: a model test over directory and memory, snapshots, conflicts, space.

mod conflicts;
mod model;
mod space;
mod support;
