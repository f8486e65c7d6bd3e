//! Joins against a nested loop, and what happens when they end early.

mod ends;
mod model;
mod source;
