//! Writes a column whose type has a fixed size.
//!
//! ```text
//!   values ── keys ──┬─ one key ─────────────── constant: the key is the base, no sections
//!                    └─ (key - base) / factor ── the narrowest word that holds all ─┬─ distinct ─ list + codes
//!   decimals ── keys ┘                                                              └─ frame, delta, plain
//! ```
//!
//! The base is the least key, and the factor is the greatest common divisor of the other distances from it. So the
//! width of the type does not matter for the stored size: a DECIMAL that fits into a byte is stored in bytes, and a
//! microsecond timestamp with whole seconds is stored in seconds. We measure and pack only the narrow words.

use std::ops::ControlFlow;

use arrow::array::Array;
use arrow::buffer::NullBuffer;
use rowmill_base::{Error, Result};

use super::choice::{self, Best};
use super::codes;
use super::decimals::{Decimals, find as find_decimals};
use super::distinct::Distinct;
use super::head::{Facts, NewSection, SectionKind, assemble};
use super::kinds::{FloatKind, Kind, Physical};
use super::{Encoding, nulls as null_section, zone};
use crate::encoding::{self, SequenceLayout, Word, bounds, delta_bytes, frame_bytes, plain_bytes};

/// We look for a common divisor only if the keys span at least this much, because otherwise it saves too little.
const FACTOR_SPAN_MIN: u128 = 1 << 12;

/// The parameters that all paths need.
#[derive(Clone, Copy)]
struct Task<'a> {
    nulls: Option<&'a NullBuffer>,
    null_rows: &'a [u32],
    forced: Option<Encoding>,
    ordered: bool,
}

/// Encodes `array` as a chunk. Returns `None` if the forced encoding does not suit it.
pub(super) fn encode<K: Kind>(
    array: &dyn Array,
    physical: Physical,
    decimals: Option<Decimals>,
    forced: Option<Encoding>,
) -> Result<Option<Vec<u8>>> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let rows = array.len();
    let null_count = nulls.map_or(0, NullBuffer::null_count);
    let mut keys = K::keys(array);
    if keys.len() != rows {
        return Err(Error::internal(format!("{} values in an array of {rows}", keys.len())));
    }
    // Keys of NULL rows are arbitrary. They must be replaced before anything is measured.
    let null_rows = nulls.map_or(Vec::new(), null_rows);
    fill_nulls(&mut keys, &null_rows);
    let mut facts = Facts::new(physical, rows, null_count);
    let (low, high) = if null_count == rows { Default::default() } else { bounds(&keys) };
    if null_count < rows {
        facts.zone = zone::of_keys::<K>(low, high);
    }
    // A single value with some NULLs is not constant: it needs to know which rows are NULL.
    let same = null_count == rows || (low == high && null_count == 0);
    if same && forced.is_none_or(|forced| forced == Encoding::Constant) {
        facts.distinct = Some(usize::from(null_count < rows));
        facts.base = low.widen();
        return Ok(Some(assemble(&facts, Vec::new())));
    }
    let task = Task { nulls, null_rows: &null_rows, forced, ordered: K::ORDERED };
    let floats = decimals.map(|decimals| {
        let (low, high) = bounds(&decimals.keys);
        (decimals.digits, Scaled::new(&decimals.keys, low, high), decimals.exceptions)
    });
    let scaled = Scaled::new(&keys, low, high);
    // The scaled words replace the keys. We free the keys before `store` makes copies.
    drop(keys);
    Ok(store(task, facts, scaled, floats))
}

/// Encodes a float column as a chunk.
pub(super) fn encode_floats<K: FloatKind>(
    array: &dyn Array,
    physical: Physical,
    forced: Option<Encoding>,
) -> Result<Option<Vec<u8>>> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let tried = forced.is_none_or(|forced| forced == Encoding::Decimal) && !array.is_empty();
    let decimals = if tried { find_decimals::<K>(array, nulls, forced.is_some()) } else { None };
    encode::<K>(array, physical, decimals, forced)
}

fn null_rows(nulls: &NullBuffer) -> Vec<u32> {
    (!nulls.inner()).set_indices_u32().collect()
}

/// Gives each NULL row the value of the row before it, so that it costs nothing and adds no distinct value. NULLs at
/// the front get the first value.
fn fill_nulls<W: Word>(keys: &mut [W], null_rows: &[u32]) {
    // The positions ascend. So as long as the n-th NULL row is row n, the column has only had NULLs.
    let front = null_rows.iter().enumerate().take_while(|(row, null)| *row as u32 == **null).count();
    let (first, rest) = (keys.get(front).copied().unwrap_or_default(), &null_rows[front..]);
    keys[..front].fill(first);
    rest.iter().for_each(|row| keys[*row as usize] = keys[*row as usize - 1]);
}

/// Keys, stored as `(key - base) / factor`.
struct Scaled {
    base: u128,
    factor: u64,
    words: NarrowWords,
}

/// Words of the narrowest size that holds all of them.
enum NarrowWords {
    W1(Vec<u8>),
    W2(Vec<u16>),
    W4(Vec<u32>),
    W8(Vec<u64>),
    W16(Vec<u128>),
}

impl Scaled {
    fn new<W: Word>(keys: &[W], low: W, high: W) -> Scaled {
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

fn store(
    task: Task<'_>,
    mut facts: Facts,
    scaled: Scaled,
    decimals: Option<(u8, Scaled, [NewSection; 2])>,
) -> Option<Vec<u8>> {
    let valid = task.nulls.map(null_section::encode);
    let valid_bytes = valid.as_ref().map_or(0, |section| section.bytes.len());
    let mut best = Best::default();
    if let Some((_, scaled, exceptions)) = &decimals {
        // The exceptions and the NULLs are part of the price of decimals.
        let aside: usize = exceptions.iter().map(|section| section.bytes.len()).sum();
        best.offer(Encoding::Decimal, Some(scaled.words.sequence_bytes() + aside + valid_bytes), task.forced);
    }
    scaled.words.offer(&mut best, valid_bytes, task.forced);
    // The value list comes last: it must beat the best price of the forms without a list.
    let list = if task.ordered { scaled.words.list(&task, best.price()) } else { None };
    let sections = if let Some(list) = list {
        (facts.encoding, facts.common, facts.distinct) = (list.encoding, list.common, Some(list.distinct));
        (facts.base, facts.factor) = (scaled.base, scaled.factor);
        list.sections
    } else {
        facts.encoding = best.encoding()?;
        let (scaled, aside) = match decimals {
            Some((digits, integers, exceptions)) if facts.encoding == Encoding::Decimal => {
                facts.digits = digits;
                (integers, Some(exceptions))
            }
            _ => (scaled, None),
        };
        (facts.base, facts.factor) = (scaled.base, scaled.factor);
        let rows = scaled.words.sequence(facts.encoding)?;
        std::iter::once(rows).chain(aside.into_iter().flatten()).chain(valid).collect()
    };
    Some(assemble(&facts, sections))
}

macro_rules! each_width {
    ($self:expr, $words:ident => $body:expr) => {
        match $self {
            NarrowWords::W1($words) => $body,
            NarrowWords::W2($words) => $body,
            NarrowWords::W4($words) => $body,
            NarrowWords::W8($words) => $body,
            NarrowWords::W16($words) => $body,
        }
    };
}

impl NarrowWords {
    /// Measures the encodings that have no value list.
    fn offer(&self, best: &mut Best, valid_bytes: usize, forced: Option<Encoding>) {
        each_width!(self, words => {
            best.offer(Encoding::Plain, Some(plain_in(words) + valid_bytes), forced);
            best.offer(Encoding::Frame, frame_bytes(words).map(|bytes| bytes + valid_bytes), forced);
            best.offer(Encoding::Delta, delta_bytes(words).map(|bytes| bytes + valid_bytes), forced);
        })
    }

    /// The size of the shortest layout, in bytes.
    fn sequence_bytes(&self) -> usize {
        each_width!(self, words => {
            let packed = [frame_bytes(words), delta_bytes(words)].into_iter().flatten().min();
            plain_in(words).min(packed.unwrap_or(usize::MAX))
        })
    }

    /// The rows in the layout that `encoding` asks for; otherwise in the shortest one.
    fn sequence(&self, encoding: Encoding) -> Option<NewSection> {
        each_width!(self, words => {
            let bytes = match encoding {
                Encoding::Plain => encoding::encode_as(SequenceLayout::Plain, words)?,
                Encoding::Frame => encoding::encode_as(SequenceLayout::Frame, words)?,
                Encoding::Delta => encoding::encode_as(SequenceLayout::Delta, words)?,
                _ => encoding::encode(words),
            };
            Some(NewSection { kind: SectionKind::Rows, count: words.len(), bytes })
        })
    }

    /// Encodes the rows as a value list with codes if that costs less than `price`.
    fn list(&self, task: &Task<'_>, price: usize) -> Option<PackedList> {
        each_width!(self, words => list(words, task, price))
    }
}

fn plain_in<W: Word>(words: &[W]) -> usize {
    plain_bytes::<W>(words.len())
}

/// A value list and codes, ready to be written.
struct PackedList {
    encoding: Encoding,
    common: u32,
    distinct: usize,
    sections: Vec<NewSection>,
}

fn list<W: Word>(words: &[W], task: &Task<'_>, price: usize) -> Option<PackedList> {
    if task.forced.is_some_and(|forced| !forced.has_list()) {
        return None;
    }
    // A forced list may be of any size.
    let most = if task.forced.is_some() { words.len() } else { choice::distinct_max(words.len()) };
    let high = words.iter().copied().max().unwrap_or_default();
    let mut found = Distinct::find(words, high, task.null_rows, most)?;
    if task.null_rows.len() == words.len() {
        found.forget_values();
    }
    // We count one more code than values, because NULL has a code too.
    match found.values.len() {
        0..=0xff => list_of::<W, u8>(words, &found, task, price),
        0x100..=0xffff => list_of::<W, u16>(words, &found, task, price),
        _ => list_of::<W, u32>(words, &found, task, price),
    }
}

fn list_of<W: Word, C: Word>(words: &[W], found: &Distinct<W>, task: &Task<'_>, price: usize) -> Option<PackedList> {
    let codes: Vec<C> = found.codes(words, task.null_rows);
    let values = encoding::encode(&found.values);
    let counts = encoding::encode(&found.counts);
    let mut counts_of_codes = found.counts.clone();
    // NULL's count is only needed to find the common code. It is not stored.
    counts_of_codes.push(task.null_rows.len() as u32);
    let planned = codes::plan(&codes, &counts_of_codes, task.forced)?;
    let bytes = planned.bytes + values.len() + counts.len();
    if choice::price(Encoding::ListCodes, bytes) >= price {
        return None;
    }
    let stored = planned.build(&codes);
    let distinct = found.values.len();
    let mut sections = vec![
        NewSection { kind: SectionKind::Values, count: distinct, bytes: values },
        NewSection { kind: SectionKind::Counts, count: distinct, bytes: counts },
    ];
    sections.extend(stored.sections);
    Some(PackedList { encoding: stored.encoding, common: stored.common, distinct, sections })
}
