//! Sessions end to end: SQL in, batches out.

#![allow(clippy::unwrap_used)]

mod cancel;
mod explain;
mod names;
mod queries;
mod settings;
mod support;
mod views;
