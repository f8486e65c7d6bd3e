//! Storing a sequence of integers.
//!
//! ```text
//!   head      layout (1), bytes of a word (1), zero (2), count (4)
//!   plain     the values
//!   frame     a base per vector, packed bits up to the end of each vector, the packed values
//!   delta     a base per vector, the least step per vector, packed bits up to the end of each, the packed steps
//! ```
//!
//! Everything is relative to its vector, so any vector is unpacked without the ones before it. A *frame* stores each
//! value's distance from the vector's least. A *delta* starts at the vector's first value and stores each step's
//! distance from the vector's least step (wrapping, so that falling values work too); it wins where values rise
//! steadily, as sorted values and times do, and then evenly spaced values take no bits at all.
//!
//! The packed ends are a prefix sum of the vectors' widths, 4 bytes each: with them the place of any vector is known
//! without a look at the others. A full vector of width `w` takes `128 * w` bytes.

use super::VECTOR;
use super::kernels::{WIDTH_MAX, pack, packed_bytes};
use super::word::{Word, append};

/// How a sequence is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Layout {
    /// The values as they are.
    Plain = 0,
    /// Offsets from a base per vector, bit-packed.
    Frame = 1,
    /// Steps from value to value, bit-packed.
    Delta = 2,
}

/// Bytes before the values.
pub(crate) const HEAD_BYTES: usize = 8;

const _: () = assert!(HEAD_BYTES == 1 + 1 + 2 + 4);

/// What one vector needs: where it starts, what its packed values are relative to, how wide they are.
#[derive(Clone, Copy)]
struct Shape<W> {
    base: W,
    step: W,
    width: u32,
}

fn frame_shape<W: Word>(values: &[W]) -> Shape<W> {
    let (low, high) = bounds(values);
    Shape { base: low, step: W::default(), width: high.minus(low).bits() }
}

/// The least and the greatest of at least one value.
pub(crate) fn bounds<W: Word>(values: &[W]) -> (W, W) {
    values.iter().fold((W::MAX, W::default()), |(low, high), &value| (low.min(value), high.max(value)))
}

fn delta_shape<W: Word>(values: &[W]) -> Shape<W> {
    // The order of steps is that of signed integers.
    let (low, high) = values
        .iter()
        .zip(&values[1..])
        .map(|(before, value)| value.minus(*before).flip_sign())
        .fold((W::MAX, W::default()), |(low, high), step| (low.min(step), high.max(step)));
    match values.len() {
        1 => Shape { base: values[0], step: W::default(), width: 0 },
        _ => Shape { base: values[0], step: low.flip_sign(), width: high.minus(low).bits() },
    }
}

/// Bytes of the sequence as plain values.
pub(crate) fn plain_bytes<W: Word>(count: usize) -> usize {
    HEAD_BYTES + count * W::BYTES
}

fn shaped_bytes<W: Word>(values: &[W], head_per_vector: usize, shape: impl Fn(&[W]) -> Shape<W>) -> Option<usize> {
    values.chunks(VECTOR).try_fold(HEAD_BYTES, |bytes, vector| {
        let width = shape(vector).width;
        (width <= WIDTH_MAX).then(|| bytes + head_per_vector + packed_bytes(vector.len(), width))
    })
}

/// Bytes of the sequence as frames; `None` if a vector spans more than 64 bits.
pub(crate) fn frame_bytes<W: Word>(values: &[W]) -> Option<usize> {
    shaped_bytes(values, W::BYTES + 4, frame_shape)
}

/// Bytes of the sequence as deltas; `None` if the steps of a vector span more than 64 bits.
pub(crate) fn delta_bytes<W: Word>(values: &[W]) -> Option<usize> {
    shaped_bytes(values, 2 * W::BYTES + 4, delta_shape)
}

/// Stores `values` in the layout that takes the fewest bytes.
pub(crate) fn encode<W: Word>(values: &[W]) -> Vec<u8> {
    let sizes = [
        (Layout::Plain, Some(plain_bytes::<W>(values.len()))),
        (Layout::Frame, frame_bytes(values)),
        (Layout::Delta, delta_bytes(values)),
    ];
    let (layout, _) = sizes
        .into_iter()
        .filter_map(|(layout, bytes)| Some((layout, bytes?)))
        .min_by_key(|(_, bytes)| *bytes)
        .expect("plain values have a size");
    encode_as(layout, values).expect("this layout has a size")
}

/// Stores `values` in one layout; `None` if a vector spans more than 64 bits.
pub(crate) fn encode_as<W: Word>(layout: Layout, values: &[W]) -> Option<Vec<u8>> {
    let mut out = vec![layout as u8, W::BYTES as u8, 0, 0];
    out.extend_from_slice(&(values.len() as u32).to_le_bytes());
    match layout {
        Layout::Plain => append(&mut out, values),
        Layout::Frame => {
            let shapes = shapes(values, frame_shape)?;
            write_heads(&mut out, &shapes, false);
            for (vector, shape) in values.chunks(VECTOR).zip(&shapes) {
                pack(vector, shape.base, shape.width, &mut out);
            }
        }
        Layout::Delta => {
            let shapes = shapes(values, delta_shape)?;
            write_heads(&mut out, &shapes, true);
            for (vector, shape) in values.chunks(VECTOR).zip(&shapes) {
                pack_steps(vector, shape, &mut out);
            }
        }
    }
    Some(out)
}

fn shapes<W: Word>(values: &[W], shape: impl Fn(&[W]) -> Shape<W>) -> Option<Vec<Shape<W>>> {
    values.chunks(VECTOR).map(shape).map(|shape| (shape.width <= WIDTH_MAX).then_some(shape)).collect()
}

fn write_heads<W: Word>(out: &mut Vec<u8>, shapes: &[Shape<W>], with_steps: bool) {
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

/// The first value is the base, so that its own step is stored as nothing (zero over the least step).
fn pack_steps<W: Word>(vector: &[W], shape: &Shape<W>, out: &mut Vec<u8>) {
    let mut steps = [W::default(); VECTOR];
    steps[0] = shape.step;
    for (step, pair) in steps[1..].iter_mut().zip(vector.windows(2)) {
        *step = pair[1].minus(pair[0]);
    }
    pack(&steps[..vector.len()], shape.step, shape.width, out);
}
