//! Transactions from the outside: a model test over directory and memory, snapshots, conflicts, space, memory, other
//! processes, power cuts.

mod conflicts;
mod crash;
mod followers;
mod group_commit;
mod killed;
mod memory;
mod model;
mod other_process;
mod space;
mod support;
