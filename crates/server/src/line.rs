//! Line protocol, over HTTP and over TCP: the rows of a request, from its bytes to one transaction.
//!
//! ```text
//! body ──► reader ──► point ──► table ──► column      (one line at a time; nothing is copied before the last step)
//!                       │         └──► batches ──► CREATE TABLE, ADD COLUMN, rows ──┐
//!                       └──► rejected lines ──► rowmill_rejected_lines ─────────────┼──► one commit
//!           key of the request ──► rowmill_applied_requests ────────────────────────┘
//! ```
//!
//! - `reader`, `point`: the grammar, and the contents of one line.
//! - `precision`: units of timestamps.
//! - `table`, `column`: rows gathered by table, as columns of Arrow.
//! - `ingest`: the transaction.
//! - `tcp`, `splitter`: lines that come without requests.
//! - `rejected`, `applied`: the tables of rejected lines and of applied requests.
//!
//! We append columns of Arrow and not statements of SQL, because parsing and planning would cost more than a row. The
//! other way that we rejected, one batch for each line's set of columns, makes many short batches where lines differ.

mod applied;
mod column;
mod ingest;
mod point;
mod precision;
mod reader;
mod rejected;
mod splitter;
mod table;
pub(crate) mod tcp;

pub(crate) use self::ingest::{LineOutcome, LineRequest, ingest};
pub(crate) use self::precision::LinePrecision;
pub(crate) use self::rejected::{REJECTED_MAX, RejectedLine};
