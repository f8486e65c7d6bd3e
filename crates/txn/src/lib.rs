//! Transactions over column files: catalog, snapshots, private write sets, the commit, recovery and background merges.
//!
//! The life of a commit: a [`Transaction`] collects private changes over a [`Snapshot`]. `commit.rs` validates them and
//! appends them to the log as a [`change`]. `journal.rs` syncs the log and then shows the next snapshot to readers.
//! `seal.rs` and `merge.rs` later turn recent rows and small blocks into larger blocks, in commits of their own.
//! `checkpoint.rs` brings the ordered base up to the log. `recovery.rs` reads everything back when the database is
//! opened.

mod analyze;
mod backup;
pub mod base;
mod bell;
mod catalog;
mod change;
mod check;
mod checkpoint;
mod codec;
mod column_files;
mod commit;
mod deletes;
mod engine;
mod foreign_keys;
mod held_back;
mod isolation;
mod journal;
mod key_bytes;
pub mod keyed;
mod keyed_batches;
mod keyed_rows;
mod keyed_tables;
mod keyed_validation;
mod keyed_writes;
pub mod log;
mod manifest;
mod merge;
mod parents;
mod recovery;
mod references;
mod replay;
mod seal;
mod sequences;
mod snapshot;
mod statistics_codec;
mod status;
mod transaction;
mod vacuum;

pub use backup::{BackedUp, Restored, backup_at, restore, restore_over};
pub use catalog::{Catalog, MAIN_SCHEMA, SchemaDef, ViewDef};
pub use check::Checked;
pub use checkpoint::CheckpointTimes;
pub use engine::{Core, Engine, OpenOptions};
pub use held_back::{HeldBack, SnapshotInfo};
pub use keyed_tables::IndexSpec;
pub use keyed_writes::KeyedMark;
pub use rowmill_storage::{
    Block, BlockSource, CheckDef, ColumnDef, ColumnSpec, ForeignKeyDef, IdentityDef, IndexDef, KeyColumn, KeyedDef,
    OpenRun, ReferentialAction, Referrer, SequenceDef, TableDef, TableSource,
};
pub use snapshot::{Snapshot, TableSnapshot};
pub use status::LogStatus;
pub use transaction::{Savepoint, Transaction};
pub use vacuum::Vacuumed;
