//! storage

pub mod strings;
