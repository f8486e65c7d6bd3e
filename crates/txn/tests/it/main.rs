//! Transactions from the outside: a model test over directory and memory, snapshots, conflicts, space, other processes.

mod conflicts;
mod followers;
mod memory;
mod model;
mod other_process;
mod space;
mod support;
