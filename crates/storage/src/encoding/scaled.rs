//! Keys in the narrowest words that hold them.
//!
//! The base is the least key, and the factor is the greatest common divisor of the other distances from it. So the
//! width of the type does not matter for the stored size: a DECIMAL that fits into a byte is stored in bytes, and a
//! microsecond timestamp with whole seconds is stored in seconds. We measure and pack only the narrow words.

use std::ops::ControlFlow;

use crate::chunk::{NewSection, SectionKind};
use crate::sequence::{self, SequenceLayout, Word, delta_bytes, frame_bytes, plain_bytes};

/// We look for a common divisor only if the keys span at least this much, because otherwise it saves too little.
const FACTOR_SPAN_MIN: u128 = 1 << 12;

/// Keys, stored as `(key - base) / factor`.
pub(super) struct Scaled {
    pub(super) base: u128,
    pub(super) factor: u64,
    pub(super) words: NarrowWords,
}

/// Words of the narrowest size that holds all of them.
pub(super) enum NarrowWords {
    W1(Vec<u8>),
    W2(Vec<u16>),
    W4(Vec<u32>),
    W8(Vec<u64>),
    W16(Vec<u128>),
}

/// Runs `$body` with `$words` as the words of `$narrow`, whatever their size.
macro_rules! each_width {
    ($narrow:expr, $words:ident => $body:expr) => {{
        use $crate::encoding::scaled::NarrowWords;
        match $narrow {
            NarrowWords::W1($words) => $body,
            NarrowWords::W2($words) => $body,
            NarrowWords::W4($words) => $body,
            NarrowWords::W8($words) => $body,
            NarrowWords::W16($words) => $body,
        }
    }};
}

pub(super) use each_width;

impl Scaled {
    pub(super) fn new<W: Word>(keys: &[W], low: W, high: W) -> Scaled {
        let span = high.minus(low).widen();
        // The width of the words follows from the scaled span, so the factor must be known first.
        let factor = if span < FACTOR_SPAN_MIN { 1 } else { common_divisor(keys, low, span) };
        fn scale<W: Word, N: Word>(keys: &[W], low: W, factor: u64) -> Vec<N> {
            let narrow = |key: W| N::from_u64(key.low());
            match factor {
                1 if N::BYTES <= 8 => keys.iter().map(|key| narrow(key.minus(low))).collect(),
                1 => keys.iter().map(|key| N::truncate(key.minus(low).widen())).collect(),
                _ => keys.iter().map(|key| N::from_u64(key.minus(low).low() / factor)).collect(),
            }
        }
        let words = match (span / u128::from(factor)).bits() {
            0..=8 => NarrowWords::W1(scale(keys, low, factor)),
            9..=16 => NarrowWords::W2(scale(keys, low, factor)),
            17..=32 => NarrowWords::W4(scale(keys, low, factor)),
            33..=64 => NarrowWords::W8(scale(keys, low, factor)),
            _ => NarrowWords::W16(scale(keys, low, factor)),
        };
        Scaled { base: low.widen(), factor, words }
    }
}

/// The greatest common divisor of all `key - low`; 1 if they span more than 64 bits.
fn common_divisor<W: Word>(keys: &[W], low: W, span: u128) -> u64 {
    let Ok(span) = u64::try_from(span) else { return 1 };
    // Starting with the span is right: it is one of the distances. We stop at 1, because no further key can change
    // that.
    let found = keys.iter().try_fold(span, |divisor, key| {
        let (mut a, mut b) = (divisor, key.minus(low).low() % divisor);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        if a == 1 { ControlFlow::Break(1) } else { ControlFlow::Continue(a) }
    });
    match found {
        ControlFlow::Break(divisor) | ControlFlow::Continue(divisor) => divisor,
    }
}

impl NarrowWords {
    /// The size in bytes of a sequence in `layout`. `None` if it is not possible.
    pub(super) fn bytes_as(&self, layout: SequenceLayout) -> Option<usize> {
        each_width!(self, words => match layout {
            SequenceLayout::Plain => Some(plain_in(words)),
            SequenceLayout::Frame => frame_bytes(words),
            SequenceLayout::Delta => delta_bytes(words),
        })
    }

    /// The size in bytes of a sequence in the shortest layout.
    pub(super) fn bytes(&self) -> usize {
        let layouts = [SequenceLayout::Plain, SequenceLayout::Frame, SequenceLayout::Delta];
        layouts.into_iter().filter_map(|layout| self.bytes_as(layout)).min().expect("plain values have a size")
    }

    /// The words as a section of rows in `layout`, which must be possible.
    pub(super) fn rows_as(&self, layout: SequenceLayout) -> NewSection {
        each_width!(self, words => NewSection {
            kind: SectionKind::Rows,
            count: words.len(),
            bytes: sequence::encode_as(layout, words).expect("the layout was measured"),
        })
    }

    /// The words as a section of rows in the shortest layout.
    pub(super) fn rows(&self) -> NewSection {
        each_width!(self, words => {
            NewSection { kind: SectionKind::Rows, count: words.len(), bytes: sequence::encode(words) }
        })
    }
}

fn plain_in<W: Word>(words: &[W]) -> usize {
    plain_bytes::<W>(words.len())
}
