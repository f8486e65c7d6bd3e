//! Tests of what the generators write, at sizes that take a second or two.
#![allow(clippy::unwrap_used)]

mod files;
mod hits_answers;
mod hits_facts;
mod table;
