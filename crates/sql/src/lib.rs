//! sql

pub mod errors;
