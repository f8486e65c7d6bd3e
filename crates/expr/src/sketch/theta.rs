//! Theta sketches, which estimate the number of distinct values and of those that several sketches share.
//!
//! A sketch keeps the least hashes of its values, about 2^lg_k, and a bound, called theta, below which it has every
//! hash. The library takes hashes only as parts of a sketch, so we collect some and write the image of a sketch that
//! has them. A union then keeps the 2^lg_k least hashes, so that the bytes depend on the values alone.
//!
//! ```text
//!   image of a sketch that has all hashes of its values
//!   ┌───┬───┬───┬───┬───┬───────┬───────────────┬───────┬───────┬────────┐
//!   │ 2 │ 3 │ 3 │ 0 │ 0 │ flags │ hash of seed  │ count │ 0 (4) │ hashes │
//!   └───┴───┴───┴───┴───┴───────┴───────────────┴───────┴───────┴────────┘
//! ```

use std::fmt;
use std::ops::RangeInclusive;

use arrow::array::{ArrayRef, BinaryViewArray};
use datasketches::common::ResizeFactor;
use datasketches::theta::{CompactThetaSketch, ThetaIntersection, ThetaUnion, ThetaUnionBuilder};
use rowmill_base::{Error, ErrorKind, Result};

use super::hashing::{for_each_value, hash_of};
use super::{ShortItems, Sketch, SketchFunction, damaged, failed, fixed};

/// The aggregate `theta_sketch_agg`.
pub static THETA_SKETCH: SketchFunction = SketchFunction {
    name: "theta_sketch_agg",
    items: Some(hashes),
    ignores_duplicates: true,
    start: |lg_k| Ok(Box::new(ThetaState::new(lg_k as u8))),
};

/// The aggregate `theta_union_agg`.
pub static THETA_UNION: SketchFunction = SketchFunction {
    name: "theta_union_agg",
    items: None,
    ignores_duplicates: true,
    start: |lg_k| Ok(Box::new(ThetaState::new(lg_k as u8))),
};

/// The aggregate `theta_intersection_agg`.
pub static THETA_INTERSECTION: SketchFunction = SketchFunction {
    name: "theta_intersection_agg",
    items: None,
    ignores_duplicates: true,
    start: |_| Ok(Box::new(IntersectionState(ThetaIntersection::default()))),
};

/// Hashes that are collected before the library gets them.
const PENDING_MAX: usize = 1 << 9;

/// The hash of the seed of all sketches, by which the library refuses sketches of other seeds.
const SEED_HASH: u16 = 0x93cc;

/// The flags of a compact sketch that is only read.
const FLAGS: u8 = 1 << 1 | 1 << 3;
/// The flag of a sketch whose hashes are in order.
const ORDERED_FLAG: u8 = 1 << 4;

/// The hashes of values.
fn hashes(values: &ArrayRef) -> Result<BinaryViewArray> {
    let mut items = ShortItems::default();
    for_each_value(values, |bytes| match bytes.is_empty() {
        true => items.push_nothing(),
        // Hashes have 63 bits, because those of Java are never negative.
        false => items.push(hash_of(bytes).0 >> 1, u64::BITS / 8),
    })?;
    items.finish()
}

/// A sketch or a union that is being made.
struct ThetaState {
    lg_k: u8,
    pending: Vec<u64>,
    union: Option<ThetaUnion>,
}

impl fmt::Debug for ThetaState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ThetaState").field("lg_k", &self.lg_k).finish_non_exhaustive()
    }
}

impl ThetaState {
    fn new(lg_k: u8) -> ThetaState {
        ThetaState { lg_k, pending: Vec::new(), union: None }
    }

    fn push(&mut self, hash: u64) -> Result<()> {
        // No sketch can hold 0, the mark of a free slot.
        if hash == 0 {
            return Ok(());
        }
        self.pending.push(hash);
        if self.pending.len() < PENDING_MAX { Ok(()) } else { self.flush() }
    }

    fn union(&mut self) -> Result<&mut ThetaUnion> {
        match &mut self.union {
            Some(union) => Ok(union),
            none => {
                // A table that only doubles never has four times the room that its hashes need.
                let union = ThetaUnionBuilder::default().lg_k(self.lg_k).resize_factor(ResizeFactor::X2).build();
                Ok(none.insert(union.map_err(failed)?))
            }
        }
    }

    /// Gives the collected hashes to the library.
    fn flush(&mut self) -> Result<()> {
        let sketch = CompactThetaSketch::deserialize(&image_of(&self.pending, 0)).map_err(failed)?;
        self.pending.clear();
        if sketch.num_retained() > 0 { self.union()?.update(&sketch).map_err(failed) } else { Ok(()) }
    }
}

impl Sketch for ThetaState {
    fn add(&mut self, item: &[u8], _times: u64) -> Result<()> {
        if item.is_empty() { Ok(()) } else { self.push(u64::from_le_bytes(fixed(item)?)) }
    }

    fn merge(&mut self, sketch: &[u8]) -> Result<()> {
        let sketch = decode(sketch)?;
        match sketch.is_estimation_mode() {
            true => self.union()?.update(&sketch).map_err(failed),
            false => sketch.iter().try_for_each(|entry| self.push(entry.hash())),
        }
    }

    fn to_bytes(&mut self) -> Result<Vec<u8>> {
        self.pending.sort_unstable();
        self.pending.dedup();
        // Small groups need no union, which would take much longer.
        if self.union.is_none() && !self.pending.is_empty() && self.pending.len() <= 1 << self.lg_k {
            let image = image_of(&self.pending, ORDERED_FLAG);
            return Ok(CompactThetaSketch::deserialize(&image).map_err(failed)?.serialize());
        }
        self.flush()?;
        Ok(self.union()?.to_sketch(true).serialize())
    }

    fn memory_bytes(&self) -> u64 {
        let pending = self.pending.capacity() * size_of::<u64>();
        let table = self.union.as_ref().map_or(0, ThetaUnion::estimated_size);
        // While the table grows, a new one of twice the size is beside it.
        (size_of::<ThetaState>() + pending + 3 * table) as u64
    }
}

/// The image of a sketch of `hashes`. They may repeat if `more_flags` does not say that they are in order.
fn image_of(hashes: &[u64], more_flags: u8) -> Vec<u8> {
    let mut image = Vec::with_capacity((2 + hashes.len()) * size_of::<u64>());
    image.extend([2, 3, 3, 0, 0, FLAGS | more_flags]);
    image.extend(SEED_HASH.to_le_bytes());
    image.extend((hashes.len() as u64).to_le_bytes());
    hashes.iter().for_each(|hash| image.extend(hash.to_le_bytes()));
    image
}

/// An intersection that is being made.
struct IntersectionState(ThetaIntersection);

impl fmt::Debug for IntersectionState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("IntersectionState")
    }
}

impl Sketch for IntersectionState {
    fn add(&mut self, _item: &[u8], _times: u64) -> Result<()> {
        Err(Error::internal("an intersection of sketches got a value"))
    }

    fn merge(&mut self, sketch: &[u8]) -> Result<()> {
        self.0.update(&decode(sketch)?).map_err(|error| damaged("a theta sketch", error.message()))
    }

    fn to_bytes(&mut self) -> Result<Vec<u8>> {
        let sketch = self.0.to_sketch(true);
        Ok(sketch.ok_or_else(|| Error::internal("an intersection of no sketches"))?.serialize())
    }

    fn memory_bytes(&self) -> u64 {
        (size_of::<IntersectionState>() + 2 * self.0.estimated_size()) as u64
    }
}

/// Reads a sketch.
pub(crate) fn decode(bytes: &[u8]) -> Result<CompactThetaSketch> {
    CompactThetaSketch::deserialize(bytes).map_err(|error| damaged("a theta sketch", error.message()))
}

/// The values of lg_k that a theta sketch can have.
pub const LG_K_OF_THETA: RangeInclusive<i64> = 5..=26;
/// The lg_k of a theta sketch if a call gives none.
pub const LG_K_OF_THETA_DEFAULT: i64 = 12;

/// The lg_k that a call of a function gives, or the default.
pub(crate) fn in_lg_k_of_theta(lg_k: Option<i64>) -> Result<i64> {
    let lg_k = lg_k.unwrap_or(LG_K_OF_THETA_DEFAULT);
    if LG_K_OF_THETA.contains(&lg_k) {
        return Ok(lg_k);
    }
    let (least, most) = (LG_K_OF_THETA.start(), LG_K_OF_THETA.end());
    let message = format!("lg_k of a theta sketch must be from {least} to {most}, not {lg_k}");
    Err(Error::new(ErrorKind::InvalidParameter, message))
}
