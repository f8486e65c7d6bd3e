//! Tests of the rewrites: random plans mean the same before and after, and small plans come out as they should.

mod interpreter;
mod key_tables;
mod random_plan;
mod random_queries;
mod text;
