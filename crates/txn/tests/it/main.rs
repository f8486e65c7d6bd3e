//! Transactions from the outside: a model test over directory and memory, snapshots, conflicts, space, memory, other
//! processes, power cuts.

mod backup;
mod check;
mod column_copies;
mod conflicts;
mod crash;
mod damage;
mod definitions;
mod durability;
mod expiry;
mod faults;
mod followers;
mod foreign_keys;
mod held_back;
mod histories;
mod history;
mod isolation;
mod keyed;
mod keyed_model;
mod killed;
mod large_commits;
mod ledger;
mod log_speed;
mod long_check;
mod long_keys;
mod memory;
mod model;
mod newer;
mod open_files;
mod other_process;
mod power_cut;
mod read_only;
mod refresh_job;
mod refusals;
#[cfg(feature = "rocksdb")]
mod rocks;
mod space;
mod statistics;
mod support;
mod time_load;
mod time_tables;
mod upserts;
mod vacuum;
mod workload;
