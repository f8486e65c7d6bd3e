//! Kernels of operators, for batches and for single values.
//!
//! Each kernel takes a whole batch, decides by the types once, and runs one loop over slices. We look for the failing
//! row only after the loop has seen that one exists. So the check costs next to nothing, and NULL rows, whose values
//! are arbitrary, cannot cause an error.

pub mod arithmetic;
pub mod cast;
pub(crate) mod choose;
pub mod compare;
pub(crate) mod letter_case;
pub mod like;
mod sides;
pub mod truth;
