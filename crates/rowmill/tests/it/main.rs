//! The database from the outside: the SQL suite plainly and under hostile settings, damage, hostile statements, the
//! benchmark queries, and whether the project's pages tell the truth.

#![allow(clippy::unwrap_used)]

mod damage;
mod hostile_settings;
mod library;
mod pages;
mod sql_suite;
