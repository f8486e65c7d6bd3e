//! Sequences of unsigned integers as bytes. Every chunk is built from them.
//!
//! Codes, value lists, counts, run ends, row numbers and the columns themselves are all sequences of integers. So they
//! share one stored form ([`Ints`]): vectors of 1,024 values, bit-packed as offsets or deltas over a base per vector,
//! or the plain values if these are not longer. A vector is the unit of work: we unpack it into a buffer on the stack
//! and never make anything larger on the way.

mod bits;
mod ints;
mod kernels;
mod reader;
mod search;
mod word;

pub(crate) use bits::pack_bits;
pub(crate) use ints::{SequenceLayout, bounds, delta_bytes, encode, encode_as, frame_bytes, plain_bytes};
pub(crate) use kernels::pack_in_order;
pub(crate) use reader::{Ints, SortedCursor};
pub(crate) use search::Span;
pub(crate) use word::Word;

/// The number of values of a vector.
pub(crate) const VECTOR: usize = 1024;
