//! Ordered joins, compared with a nested loop.

mod aggregates;
mod case;
mod ends;
mod model;
mod rows;
