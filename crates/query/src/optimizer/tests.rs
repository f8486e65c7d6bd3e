//! Tests of the rewrites: random plans keep their meaning, and small plans come out as expected.

mod interpreter;
mod key_tables;
mod random_plan;
mod random_queries;
mod text;
