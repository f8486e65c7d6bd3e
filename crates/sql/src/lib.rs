//! sql

pub mod errors;
pub mod guards;
