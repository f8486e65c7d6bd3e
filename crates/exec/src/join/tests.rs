//! Joins compared with a nested loop, and joins that end early.

mod ends;
mod model;
mod source;
