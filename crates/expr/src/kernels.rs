//! Kernels of operators, for batches and for single values.
//!
//! Each kernel takes a whole batch, decides once by the types, and runs one loop over slices. The few rows that fail are
//! looked for only after the loop has seen that there is one, so that the check costs next to nothing and NULL rows,
//! whose values are arbitrary, cannot raise it.

pub mod arithmetic;
pub mod cast;
pub mod compare;
pub mod like;
mod sides;
pub mod truth;
