//! The server, driven by real clients: tokio-postgres, psql, drivers of other languages, and raw sockets.

#![allow(clippy::unwrap_used)]

mod activity;
mod backups;
mod browser;
mod cancelling;
mod catalog;
mod clients;
mod console;
mod copying;
mod extended;
mod hostile;
mod http;
mod http_files;
mod lanes;
mod line_kills;
mod line_protocol;
mod line_tcp;
mod logins;
mod mutated;
mod pgbench;
mod psql;
mod running_statements;
mod simple;
mod stopping;
mod support;
mod tools;
mod transactions;
mod values;
