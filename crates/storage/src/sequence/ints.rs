//! Writes a sequence of integers.
//!
//! ```text
//!   head      layout (1), bytes of a word (1), zero (2), count (4)
//!   plain     the values
//!   frame     a base per vector, packed bits up to the end of each vector, the packed values
//!   delta     a base per vector, the least step per vector, packed bits up to the end of each, the packed steps
//! ```
//!
//! Everything is relative to its vector, so any vector can be unpacked without the vectors before it. A *frame* stores
//! the distance of each value from the least value of the vector. A *delta* starts at the first value of the vector and
//! stores the distance of each step from the least step. Steps wrap, so falling values work too. Deltas are smaller
//! when values rise steadily, like sorted values and times. For example, evenly spaced values take no bits at all.
//!
//! The packed ends are a prefix sum of the widths of the vectors, 4 bytes each. They give the offset of any vector
//! without reading the others. A full vector of width `w` takes `128 * w` bytes.

use super::VECTOR;
use super::kernels::{WIDTH_MAX, pack, packed_bytes};
use super::word::{Word, append};

/// The stored form of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SequenceLayout {
    /// The values without packing.
    Plain = 0,
    /// Offsets from a base per vector, bit-packed.
    Frame = 1,
    /// Steps from value to value, bit-packed.
    Delta = 2,
}

/// The bytes before the values.
pub(crate) const HEAD_BYTES: usize = 8;

const _: () = assert!(HEAD_BYTES == 1 + 1 + 2 + 4);

/// The parameters of one vector: its first or least value, the least step, and the width of its packed values.
#[derive(Clone, Copy)]
struct VectorShape<W> {
    base: W,
    step: W,
    width: u32,
}

fn frame_shape<W: Word>(values: &[W]) -> VectorShape<W> {
    let (low, high) = bounds(values);
    VectorShape { base: low, step: W::default(), width: high.minus(low).bits() }
}

/// The least and the greatest value. `values` must not be empty.
pub(crate) fn bounds<W: Word>(values: &[W]) -> (W, W) {
    values.iter().fold((W::MAX, W::default()), |(low, high), &value| (low.min(value), high.max(value)))
}

fn delta_shape<W: Word>(values: &[W]) -> VectorShape<W> {
    // Steps are compared as signed integers, so we flip the sign bit for the comparison.
    let (low, high) = values
        .iter()
        .zip(&values[1..])
        .map(|(before, value)| value.minus(*before).flip_sign())
        .fold((W::MAX, W::default()), |(low, high), step| (low.min(step), high.max(step)));
    match values.len() {
        1 => VectorShape { base: values[0], step: W::default(), width: 0 },
        _ => VectorShape { base: values[0], step: low.flip_sign(), width: high.minus(low).bits() },
    }
}

/// The size of the plain layout in bytes.
pub(crate) fn plain_bytes<W: Word>(count: usize) -> usize {
    HEAD_BYTES + count * W::BYTES
}

fn shaped_bytes<W: Word>(
    values: &[W],
    head_per_vector: usize,
    shape: impl Fn(&[W]) -> VectorShape<W>,
) -> Option<usize> {
    values.chunks(VECTOR).try_fold(HEAD_BYTES, |bytes, vector| {
        let width = shape(vector).width;
        (width <= WIDTH_MAX).then(|| bytes + head_per_vector + packed_bytes(vector.len(), width))
    })
}

/// The size of the frame layout in bytes. `None` if a vector spans more than 64 bits.
pub(crate) fn frame_bytes<W: Word>(values: &[W]) -> Option<usize> {
    shaped_bytes(values, W::BYTES + 4, frame_shape)
}

/// The size of the delta layout in bytes. `None` if the steps of a vector span more than 64 bits.
pub(crate) fn delta_bytes<W: Word>(values: &[W]) -> Option<usize> {
    shaped_bytes(values, 2 * W::BYTES + 4, delta_shape)
}

/// Encodes `values` in the smallest layout.
pub(crate) fn encode<W: Word>(values: &[W]) -> Vec<u8> {
    let sizes = [
        (SequenceLayout::Plain, Some(plain_bytes::<W>(values.len()))),
        (SequenceLayout::Frame, frame_bytes(values)),
        (SequenceLayout::Delta, delta_bytes(values)),
    ];
    // The plain layout always has a size, so a minimum exists. On a tie the simpler layout wins.
    let (layout, _) = sizes
        .into_iter()
        .filter_map(|(layout, bytes)| Some((layout, bytes?)))
        .min_by_key(|(_, bytes)| *bytes)
        .expect("plain values have a size");
    encode_as(layout, values).expect("this layout has a size")
}

/// Encodes `values` in one layout. `None` if a vector spans more than 64 bits.
pub(crate) fn encode_as<W: Word>(layout: SequenceLayout, values: &[W]) -> Option<Vec<u8>> {
    let mut out = vec![layout as u8, W::BYTES as u8, 0, 0];
    out.extend_from_slice(&(values.len() as u32).to_le_bytes());
    match layout {
        SequenceLayout::Plain => append(&mut out, values),
        SequenceLayout::Frame => {
            let shapes = shapes(values, frame_shape)?;
            write_heads(&mut out, &shapes, false);
            for (vector, shape) in values.chunks(VECTOR).zip(&shapes) {
                pack(vector, shape.base, shape.width, &mut out);
            }
        }
        SequenceLayout::Delta => {
            let shapes = shapes(values, delta_shape)?;
            write_heads(&mut out, &shapes, true);
            for (vector, shape) in values.chunks(VECTOR).zip(&shapes) {
                pack_steps(vector, shape, &mut out);
            }
        }
    }
    Some(out)
}

fn shapes<W: Word>(values: &[W], shape: impl Fn(&[W]) -> VectorShape<W>) -> Option<Vec<VectorShape<W>>> {
    values.chunks(VECTOR).map(shape).map(|shape| (shape.width <= WIDTH_MAX).then_some(shape)).collect()
}

fn write_heads<W: Word>(out: &mut Vec<u8>, shapes: &[VectorShape<W>], with_steps: bool) {
    append(out, &shapes.iter().map(|shape| shape.base).collect::<Vec<_>>());
    if with_steps {
        append(out, &shapes.iter().map(|shape| shape.step).collect::<Vec<_>>());
    }
    let mut end = 0;
    for shape in shapes {
        end += shape.width;
        out.extend_from_slice(&end.to_le_bytes());
    }
}

/// Packs the steps of a vector. The first value is the base, so we store the least step in its place, which packs to 0.
fn pack_steps<W: Word>(vector: &[W], shape: &VectorShape<W>, out: &mut Vec<u8>) {
    let mut steps = [W::default(); VECTOR];
    steps[0] = shape.step;
    for (step, pair) in steps[1..].iter_mut().zip(vector.windows(2)) {
        *step = pair[1].minus(pair[0]);
    }
    pack(&steps[..vector.len()], shape.step, shape.width, out);
}
