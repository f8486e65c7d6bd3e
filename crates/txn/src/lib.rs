//! Transactions over column files: catalog, snapshots, private write sets, the commit, recovery and background merges.
//!
//! The life of a commit: a [`Transaction`] collects private changes over a [`Snapshot`]. `commit.rs` validates them and
//! appends them to the log as a [`change`]. `journal.rs` syncs the log and then shows the next snapshot to readers.
//! `seal.rs` and `merge.rs` later turn recent rows and small blocks into larger blocks, in commits of their own.
//! `checkpoint.rs` brings the ordered base up to the log. `recovery.rs` reads everything back when the database is
//! opened.
//!
//! The modules, in the order in which work flows:
//!
//! - `engine`, `directory`: an open database, and the directory that it may be made in. `snapshot`, `catalog`: one
//!   committed state, and its definitions.
//! - `roles`, `roles_codec`: users, roles and rights, and their bytes.
//! - `transaction`: private changes. `deletes`: deleted rows. `upsert_keys`: rows that new rows replace. `sequences`:
//!   numbers that sequences give.
//! - `keyed_tables`, `keyed_writes`, `keyed_rows`, `keyed_batches`, `key_bytes`, `keyed`: tables with a primary key:
//!   their definitions, writes and rows, the bytes of their keys, and their versions in memory.
//! - `foreign_keys`, `references`, `parents`: foreign keys, and the rows on both sides of them.
//! - `isolation`, `keyed_validation`: what a transaction must validate before it commits. `row_claims`: rows of open
//!   transactions, for which others wait.
//! - `commit`, `change`: the commit, and its difference between two states.
//! - `materialized`, `changed_rows`, `refreshes`: materialized views, the rows that have changed since a refresh, and
//!   the refreshes of this process.
//! - `commit_record`, `definition`, `manifest`, `statistics_codec`, `time_table_codec`, `materialized_codec`,
//!   `comments`, `macros`, `types`, `codec`: a change and a state as bytes, for the log and for the base.
//! - `log`, `journal`: the log, and when its commits are synced and shown.
//! - `job`, `bell`: the list of background jobs, and their threads. `seal`, `merge`, `time_merge`: blocks of recent
//!   rows, of the rows of small blocks, and of rows in the order of time. `renumbering`: the numbers of rows that move
//!   then. `expire`: deletes rows that are too old. `column_files`: the files of blocks.
//! - `checkpoint`, `checkpoint_schedule`, `difference`, `base`: from the log to the ordered base, and when.
//!   `background_pace`: its rests.
//!   `back_pressure`: writers that wait for checkpoints. `space_return`: space that is given back.
//! - `recovery`, `replay`: from base and log to a state.
//! - `analyze`, `auto_analyze`: statistics of keyed tables, on request and by themselves.
//! - `column_copies`: copies of keyed tables in columns, for queries that read all rows.
//! - `backup`, `vacuum`, `check`, `held_back`, `disk_use`, `status`, `table_order`: copies of a database, its free
//!   space, its consistency, its readers, the use of its bytes, its log, and the order of its time tables.

mod analyze;
mod auto_analyze;
mod back_pressure;
mod background_pace;
mod backup;
pub mod base;
mod bell;
mod catalog;
mod change;
mod changed_rows;
mod check;
mod checkpoint;
mod checkpoint_schedule;
mod codec;
mod column_copies;
mod column_files;
mod comments;
mod commit;
mod commit_record;
mod definition;
mod deletes;
mod difference;
mod directory;
mod disk_use;
mod engine;
mod expire;
mod foreign_keys;
mod held_back;
mod isolation;
mod job;
mod journal;
mod key_bytes;
pub mod keyed;
mod keyed_batches;
mod keyed_rows;
mod keyed_tables;
mod keyed_validation;
mod keyed_writes;
pub mod log;
mod macros;
mod manifest;
mod materialized;
mod materialized_codec;
mod merge;
mod parents;
mod recovery;
mod references;
mod refreshes;
mod renumbering;
mod replay;
pub mod roles;
mod roles_codec;
mod row_claims;
mod seal;
mod sequences;
mod snapshot;
mod space_return;
mod statistics_codec;
mod status;
mod table_order;
mod time_merge;
mod time_table_codec;
mod transaction;
mod types;
mod upsert_keys;
mod vacuum;

pub use auto_analyze::AnalyzeJob;
pub use backup::{BackedUp, Restored, backup_at, restore, restore_over};
pub use catalog::{Catalog, MAIN_SCHEMA, SchemaDef, ViewDef};
pub use changed_rows::ChangedRows;
pub use check::Checked;
pub use checkpoint::CheckpointTimes;
pub use comments::TableComments;
pub use disk_use::DiskPart;
pub use engine::{Core, Engine, OpenOptions, RefreshJob};
pub use expire::ExpiredRows;
pub use held_back::{HeldBack, SnapshotInfo};
pub use keyed_batches::RowsByKey;
pub use keyed_tables::IndexSpec;
pub use keyed_writes::KeyedMark;
pub use macros::{MacroDef, MacroParameter};
pub use materialized::{MaterializedView, RefreshPoint, RefreshRule, SourceLag, SourcePoint};
pub use refreshes::{RefreshTurn, Refreshes};
pub use row_claims::{LostRow, RowClaimInfo, RowClaimant};
pub use rowmill_storage::{
    Block, BlockSource, CalendarUnit, CheckDef, ColumnDef, ColumnSpec, ForeignKeyDef, GeneratedDef, IdentityDef,
    IndexDef, KeyColumn, KeyedDef, OpenRun, ReferentialAction, Referrer, SequenceDef, TableDef, TableSource,
    TimeTableDef, TimeToLive,
};
pub use sequences::TakenNumbers;
pub use snapshot::{Snapshot, TableSnapshot};
pub use status::LogStatus;
pub use table_order::TableOrder;
pub use transaction::{ReplacedRows, Savepoint, Transaction};
pub use types::TypeDef;
pub use vacuum::Vacuumed;
