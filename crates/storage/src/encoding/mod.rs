//! Sequences of unsigned integers as bytes: the one building block of every chunk.
//!
//! Codes, value lists, counts, run ends, row numbers and the columns themselves are all sequences of integers, so they
//! share one stored form ([`Ints`]): vectors of 1,024 values, each bit-packed over a base of its own, as offsets or as
//! deltas, or the plain values where that is no longer. A vector is the unit of work: it is unpacked into a buffer on
//! the stack, and nothing larger than it is ever made on the way.

mod bits;
mod ints;
mod kernels;
mod reader;
mod search;
mod word;

pub(crate) use bits::pack_bits;
pub(crate) use ints::{Layout, bounds, delta_bytes, encode, encode_as, frame_bytes, plain_bytes};
pub(crate) use kernels::pack_in_order;
pub(crate) use reader::{Ints, SortedCursor};
pub(crate) use search::Span;
pub(crate) use word::Word;

/// Values of a vector.
pub(crate) const VECTOR: usize = 1024;
