//! Keyed tables: what has been written to them since the ordered base was.

mod arena;
mod entry;
mod key_index;
mod order;
mod version_chains;
mod version_cursor;
mod version_table;
mod versions;

pub use version_cursor::{VersionBatch, VersionCursor};
pub use versions::{Found, Got, Versions};
