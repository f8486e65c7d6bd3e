//! HyperLogLog sketches, which estimate the number of distinct values.
//!
//! A value becomes a coupon: 26 bits of its hash, and the number of leading zeros of other bits. Few coupons are kept
//! as they are; many become registers, one byte for each of 2^lg_k. The library takes care of both. It takes coupons
//! only as parts of a sketch, so we collect some and write the image of a sketch that has them.
//!
//! The bytes depend on the values alone, however rows were divided among workers: coupons are written in order, and
//! registers are written as those of a union, whose estimate does not depend on the order of the values.
//!
//! ```text
//!   image of a sketch with coupons in a hash table, as Java's toUpdatableByteArray writes it
//!   ┌───┬───┬───┬──────┬────────┬───┬───┬──────┬───────┬─────────────────────────────┐
//!   │ 3 │ 1 │ 7 │ lg_k │ lg_arr │ 0 │ 0 │ mode │ count │ 2^lg_arr coupons, 0 if none │
//!   └───┴───┴───┴──────┴────────┴───┴───┴──────┴───────┴─────────────────────────────┘
//! ```

use arrow::array::{ArrayRef, BinaryViewArray};
use datasketches::hll::{HllSketch, HllType, HllUnion};
use rowmill_base::Result;

use super::hashing::{for_each_value, hash_of};
use super::{ShortItems, Sketch, SketchFunction, damaged, failed, fixed};

/// The aggregate `hll_sketch_agg`.
pub static HLL_SKETCH: SketchFunction = SketchFunction {
    name: "hll_sketch_agg",
    items: Some(coupons),
    ignores_duplicates: true,
    start: |lg_k| Ok(Box::new(HllState::new(lg_k as u8))),
};

/// The aggregate `hll_union_agg`. The result has the least lg_k of all sketches.
pub static HLL_UNION: SketchFunction = SketchFunction {
    name: "hll_union_agg",
    items: None,
    ignores_duplicates: true,
    start: |_| Ok(Box::new(HllState::new(LG_K_MAX))),
};

const LG_K_MAX: u8 = 21;

/// Coupons that are collected before the library gets them. One less than a power of two fills an image best.
const PENDING_MAX: usize = (1 << 9) - 1;

/// Low bits of a coupon that choose a register.
const SLOT_BITS: u32 = 26;

/// Bytes before the coupons of a list.
const LIST_HEAD_BYTES: usize = 8;
/// Bytes before the coupons of a hash table.
const SET_HEAD_BYTES: usize = 12;
/// Bytes before the registers.
const REGISTER_HEAD_BYTES: usize = 40;

/// The low bits of the mode: a list, a hash table, or registers.
const MODE_MASK: u8 = 3;
const SET_MODE: u8 = 1;
const REGISTER_MODE: u8 = 2;
/// The bits of the mode for registers of 8 bits, which updates and merges of other libraries expect to be fast.
const EIGHT_BITS: u8 = 2 << 2;

/// The flag of a sketch without values.
const EMPTY_FLAG: u8 = 4;
/// The flag of a list or hash table without free slots.
const COMPACT_FLAG: u8 = 8;

/// The coupons that make a list a hash table.
const LIST_COUPONS_MAX: usize = 8;

/// The greatest rank that a register can have.
const RANK_MAX: u8 = 63;

/// The coupons of values.
fn coupons(values: &ArrayRef) -> Result<BinaryViewArray> {
    let mut items = ShortItems::default();
    for_each_value(values, |bytes| match bytes.is_empty() {
        true => items.push_nothing(),
        false => items.push(coupon(hash_of(bytes)).into(), u32::BITS / 8),
    })?;
    items.finish()
}

/// The coupon of a hash.
fn coupon((low, high): (u64, u64)) -> u32 {
    let rank = high.leading_zeros().min(u32::from(RANK_MAX) - 1) + 1;
    rank << SLOT_BITS | low as u32 & ((1 << SLOT_BITS) - 1)
}

/// A sketch that is being made.
#[derive(Debug)]
struct HllState {
    lg_k: u8,
    pending: Vec<u32>,
    union: Option<HllUnion>,
}

impl HllState {
    fn new(lg_k: u8) -> HllState {
        HllState { lg_k, pending: Vec::new(), union: None }
    }

    /// Makes the sketch one of at most `lg_k`.
    fn lower_to(&mut self, lg_k: u8) -> Result<()> {
        if lg_k >= self.lg_k {
            return Ok(());
        }
        self.lg_k = lg_k;
        if let Some(union) = self.union.take() {
            self.union()?.update(&union.to_sketch(HllType::Hll8));
        }
        Ok(())
    }

    fn union(&mut self) -> Result<&mut HllUnion> {
        match &mut self.union {
            Some(union) => Ok(union),
            none => Ok(none.insert(HllUnion::new(self.lg_k).map_err(failed)?)),
        }
    }

    fn push(&mut self, coupon: u32) -> Result<()> {
        self.pending.push(coupon);
        if self.pending.len() < PENDING_MAX { Ok(()) } else { self.flush() }
    }

    /// Gives the collected coupons to the library.
    fn flush(&mut self) -> Result<()> {
        // If both have one lg_k, the library takes over the table of coupons as it is, although ours is in no order.
        let lg_k = if self.lg_k == LG_K_MAX { LG_K_MAX - 1 } else { LG_K_MAX };
        let image = image_of(lg_k, &self.pending);
        self.pending.clear();
        let sketch = HllSketch::deserialize(&image).map_err(failed)?;
        self.union()?.update(&sketch);
        Ok(())
    }
}

impl Sketch for HllState {
    fn add(&mut self, item: &[u8], _times: u64) -> Result<()> {
        if item.is_empty() { Ok(()) } else { self.push(u32::from_le_bytes(fixed(item)?)) }
    }

    fn merge(&mut self, sketch: &[u8]) -> Result<()> {
        let decoded = decode_registers(sketch)?;
        self.lower_to(decoded.lg_config_k())?;
        match coupons_of(sketch) {
            Some(mut coupons) => coupons.try_for_each(|coupon| self.push(coupon)),
            None => {
                self.union()?.update(&decoded);
                Ok(())
            }
        }
    }

    fn to_bytes(&mut self) -> Result<Vec<u8>> {
        self.pending.sort_unstable();
        self.pending.dedup();
        // Small groups need no union, which would take several times as long.
        if self.union.is_none() && self.pending.len() < LIST_COUPONS_MAX {
            return Ok(list_of(self.lg_k, &self.pending));
        }
        self.flush()?;
        let union = self.union()?;
        let sketch = union.to_sketch(HllType::Hll8);
        let mut bytes = sketch.serialize();
        if bytes[7] & MODE_MASK == REGISTER_MODE {
            // Merging the registers with themselves changes none, and ends the estimate that depends on their history.
            union.update(&sketch);
            return Ok(union.to_sketch(HllType::Hll8).serialize());
        }
        let head = if bytes[7] & MODE_MASK == SET_MODE { SET_HEAD_BYTES } else { LIST_HEAD_BYTES };
        let mut coupons: Vec<u32> = words(&bytes[head..]).collect();
        coupons.sort_unstable();
        bytes.truncate(head);
        coupons.iter().for_each(|coupon| bytes.extend(coupon.to_le_bytes()));
        Ok(bytes)
    }

    fn memory_bytes(&self) -> u64 {
        let pending = self.pending.capacity() * size_of::<u32>();
        (size_of::<HllState>() + pending + self.union.as_ref().map_or(0, HllUnion::estimated_size)) as u64
    }
}

/// The bytes of a sketch of a few coupons, which must be in order.
fn list_of(lg_k: u8, coupons: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LIST_HEAD_BYTES + size_of_val(coupons));
    let flags = if coupons.is_empty() { COMPACT_FLAG | EMPTY_FLAG } else { COMPACT_FLAG };
    bytes.extend([2, 1, 7, lg_k, LIST_COUPONS_MAX.ilog2() as u8, flags, coupons.len() as u8, EIGHT_BITS]);
    coupons.iter().for_each(|coupon| bytes.extend(coupon.to_le_bytes()));
    bytes
}

/// The image of a sketch of `coupons`, which may repeat.
fn image_of(lg_k: u8, coupons: &[u32]) -> Vec<u8> {
    /// The least size of a hash table that the format knows.
    const LG_SLOTS_MIN: u32 = 5;
    // At least one slot must be free.
    let lg_slots = (coupons.len() + 1).next_power_of_two().ilog2().max(LG_SLOTS_MIN);
    let mut image = Vec::with_capacity(SET_HEAD_BYTES + (size_of::<u32>() << lg_slots));
    image.extend([3, 1, 7, lg_k, lg_slots as u8, 0, 0, SET_MODE | EIGHT_BITS]);
    image.extend((coupons.len() as u32).to_le_bytes());
    coupons.iter().for_each(|coupon| image.extend(coupon.to_le_bytes()));
    image.resize(image.capacity(), 0);
    image
}

/// The coupons of a sketch that was decoded; `None` if it has registers.
fn coupons_of(sketch: &[u8]) -> Option<impl Iterator<Item = u32>> {
    let is_compact = sketch[5] & COMPACT_FLAG != 0;
    let (head, count) = match sketch[7] & MODE_MASK {
        REGISTER_MODE => return None,
        SET_MODE if is_compact => (SET_HEAD_BYTES, u32::from_le_bytes([8, 9, 10, 11].map(|at| sketch[at])) as usize),
        SET_MODE => (SET_HEAD_BYTES, 1 << sketch[4]),
        _ if is_compact => (LIST_HEAD_BYTES, sketch[6].into()),
        _ => (LIST_HEAD_BYTES, 1 << sketch[4]),
    };
    Some(words(&sketch[head..]).take(count).filter(|coupon| *coupon != 0))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
}

/// Reads a sketch, whose estimate is then right for its registers.
pub(crate) fn decode(bytes: &[u8]) -> Result<HllSketch> {
    let mut sketch = decode_registers(bytes)?;
    if coupons_of(bytes).is_none() {
        sketch = counted(&sketch)?;
    }
    match (0.0..f64::INFINITY).contains(&sketch.estimate()) {
        true => Ok(sketch),
        false => Err(damaged("an HLL sketch", "its estimate is no number")),
    }
}

/// Reads a sketch for a merge. Its coupons or registers are possible, but what was computed from them may be wrong.
fn decode_registers(bytes: &[u8]) -> Result<HllSketch> {
    let sketch = HllSketch::deserialize(bytes).map_err(|error| damaged("an HLL sketch", error.message()))?;
    if let Some(mut coupons) = coupons_of(bytes) {
        return match coupons.all(|coupon| coupon >> SLOT_BITS > 0) {
            true => Ok(sketch),
            false => Err(damaged("an HLL sketch", "a coupon has no rank")),
        };
    }
    if sketch.target_type() == HllType::Hll8 {
        let registers = 1 << sketch.lg_config_k();
        return check_ranks(&bytes[REGISTER_HEAD_BYTES..][..registers]).map(|()| sketch);
    }
    // Other registers are packed, so they are checked as registers of 8 bits.
    let sketch = counted(&sketch)?;
    let image = sketch.serialize();
    if image[7] & MODE_MASK == REGISTER_MODE {
        check_ranks(&image[REGISTER_HEAD_BYTES..])?;
    }
    Ok(sketch)
}

/// The sketch with registers of 8 bits, whose sums and counts are computed again.
fn counted(sketch: &HllSketch) -> Result<HllSketch> {
    let mut union = HllUnion::new(sketch.lg_config_k()).map_err(failed)?;
    union.update(sketch);
    Ok(union.to_sketch(HllType::Hll8))
}

/// Refuses ranks that no value has. 0 is an empty register.
fn check_ranks(ranks: &[u8]) -> Result<()> {
    match ranks.iter().all(|rank| *rank <= RANK_MAX) {
        true => Ok(()),
        false => Err(damaged("an HLL sketch", "a rank is out of range")),
    }
}
