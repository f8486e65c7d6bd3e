//! Values of a fixed size with rare outliers: most values as bit-packed distances from a base, the others beside them.
//!
//! ```text
//!   values    980 1020 995 60123456 1003 ...
//!   rows      980 1020 995 980 1003 ...        a frame: 6 bits each, and an outlier has the least value of its vector
//!   outliers  row 3, value 60123456
//! ```
//!
//! A frame needs the bits of the largest distance for all 1,024 values of a vector, so that one outlier in a vector
//! makes all of its rows long. Here each vector leaves out those of its least and greatest values that cost more bits
//! in the frame than beside it, at most one in 32. The idea is that of PFOR (Zukowski et al., "Super-Scalar RAM-CPU
//! Cache Compression", ICDE 2006). We keep the outliers of a chunk together and not in their vectors, so that the rows
//! are an ordinary frame.
//!
//! Reading unpacks the frame and then overwrites the outliers. So the price is [`HUNDREDTHS`]: this encoding is chosen
//! only if it saves a fifth of the bytes of every encoding without a value list. With at most one outlier in 32 rows,
//! reading all rows or comparing them takes about as long as with a frame (0.9 to 1.15 times), and reading single rows
//! at most 1.8 times as long. It never replaces a value list, which answers conditions and groupings per value.

use arrow::array::ArrayRef;
use arrow::buffer::Buffer;
use arrow::datatypes::ArrowNativeType;
use rowmill_base::Result;

use super::exceptions::{self, Exceptions};
use super::scaled::each_width;
use super::{Analysis, Cheapest, Encoding, NewColumn};
use crate::chunk::stored_keys::Scale;
use crate::chunk::{
    Borders, Chunk, DecodedRows, Kind, NewSection, SectionKind, append_integers, read_stored, retain_stored, with_kind,
};
use crate::row_mask::RowMask;
use crate::sequence::{self, SequenceLayout, VECTOR, Word};

pub(super) struct FrameWithOutliers;

/// The price, in hundredths. With 125 the encoding must save a fifth. Of four columns with outliers it leaves 68, 67,
/// 55 and 63 % of the bytes, and decoding all rows takes 0.98, 1.08, 0.81 and 1.7 times as long as in the encoding that
/// each has otherwise.
const HUNDREDTHS: usize = 125;
/// At most one value of a vector in this many is an outlier.
const OUTLIERS_ONE_IN: usize = 32;
/// The bits that the row of an outlier takes.
const ROW_BITS: usize = 12;
/// The number of vectors that are measured before all others are.
const SAMPLED_VECTORS: usize = 16;

impl Encoding for FrameWithOutliers {
    fn number(&self) -> u8 {
        10
    }

    fn name(&self) -> &'static str {
        "frame+outliers"
    }

    fn since(&self) -> u16 {
        3
    }

    fn analyse(&self, column: &NewColumn<'_>, offered: &Cheapest) -> Result<Option<Analysis>> {
        let NewColumn::Fixed(column) = column else { return Ok(None) };
        let price_max = match column.is_forced {
            true => usize::MAX,
            // A value list is better than rows.
            false => offered.price_without_list().unwrap_or_default(),
        };
        Ok(each_width!(&column.scaled.words, words => {
            let suits = column.is_forced || estimated_bytes(words) * HUNDREDTHS / 100 < price_max;
            suits.then(|| split(words, &column.null_rows)).flatten().map(|(rows, outliers)| {
                let aside: usize = outliers.iter().map(|section| section.bytes.len()).sum();
                let bytes = rows.bytes.len() + aside + column.valid_bytes();
                Analysis::of(bytes, HUNDREDTHS, move |column| {
                    let column = column.into_fixed();
                    let scale = (column.scaled.base, column.scaled.factor);
                    Ok(column.in_row_order(rows, scale, outliers))
                })
            })
        }))
    }

    fn read(&self, chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
        with_kind!(chunk.physical(), K => read::<K>(chunk, rows), else Err(chunk.unsuited()))
    }

    fn integers(&self, chunk: &Chunk, rows: DecodedRows<'_>, out: &mut Vec<i64>) -> Result<()> {
        with_kind!(chunk.physical(), K => integers::<K>(chunk, rows, out), else Err(chunk.unsuited()))
    }

    fn check(&self, chunk: &Chunk) -> Result<()> {
        Exceptions::open(chunk)?.check(chunk.rows())
    }

    fn retain_keys(&self, chunk: &Chunk, keys: &Borders<u128>, mask: &mut RowMask) -> Result<()> {
        with_kind!(chunk.physical(), K => retain::<K>(chunk, keys, mask), else Err(chunk.unsuited()))
    }

    #[cfg(test)]
    fn example(&self) -> Option<(rowmill_base::SqlType, ArrayRef)> {
        // Latencies: nearly all of them differ, and one in a hundred is huge.
        let latency = |row: i64| 40_000_000 + row * 7_919 % 1_000_003 * if row % 97 == 5 { 1_000_003 } else { 1 };
        let latencies = arrow::array::Int64Array::from_iter_values((0..5_000).map(latency));
        Some((rowmill_base::SqlType::Int64, std::sync::Arc::new(latencies)))
    }
}

fn read<K: Kind>(chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
    let natives = match rows {
        DecodedRows::Range(_) => {
            let mut natives = read_stored::<K, _>(chunk, rows, K::native)?;
            let scale = Scale::<K::Key>::of(chunk);
            Exceptions::open(chunk)?
                .for_each_of(rows, |place, stored| natives[place] = K::native(scale.key(stored)))?;
            natives
        }
        DecodedRows::List(list) => take_keys::<K>(chunk, list)?.into_iter().map(K::native).collect(),
    };
    K::array(Buffer::from_vec(natives), chunk.nulls(rows)?, &chunk.stored_kind().arrow())
}

fn integers<K: Kind>(chunk: &Chunk, rows: DecodedRows<'_>, out: &mut Vec<i64>) -> Result<()> {
    let integer = |key: K::Key| K::native(key).as_usize() as i64;
    match rows {
        DecodedRows::Range(_) => {
            let first = out.len();
            append_integers::<K>(chunk, rows, out)?;
            let scale = Scale::<K::Key>::of(chunk);
            Exceptions::open(chunk)?.for_each_of(rows, |place, stored| out[first + place] = integer(scale.key(stored)))
        }
        DecodedRows::List(list) => {
            out.extend(take_keys::<K>(chunk, list)?.into_iter().map(integer));
            Ok(())
        }
    }
}

/// Reads the keys of single rows.
///
/// A search among the outliers takes longer than everything else. So we look up only the rows that have the least value
/// of their vector: all outliers have it, and few other rows do.
fn take_keys<K: Kind>(chunk: &Chunk, rows: &[u32]) -> Result<Vec<K::Key>> {
    let mut keys = read_stored::<K, _>(chunk, DecodedRows::List(rows), |key| key)?;
    let (ints, scale) = (chunk.ints(SectionKind::Rows)?, Scale::<K::Key>::of(chunk));
    let (mut places, mut suspects) = (Vec::new(), Vec::new());
    let (mut vector, mut least) = (usize::MAX, K::Key::default());
    for (place, (row, key)) in rows.iter().zip(&keys).enumerate() {
        if *row as usize / VECTOR != vector {
            vector = *row as usize / VECTOR;
            least = scale.key(ints.base(vector));
        }
        if *key == least {
            places.push(place);
            suspects.push(*row);
        }
    }
    if !suspects.is_empty() {
        Exceptions::open(chunk)?.look_up(&suspects, |index, stored| keys[places[index]] = scale.key(stored))?;
    }
    Ok(keys)
}

fn retain<K: Kind>(chunk: &Chunk, keys: &Borders<u128>, mask: &mut RowMask) -> Result<()> {
    let before = mask.clone();
    // This also decides the outliers, by values that have no meaning. They are corrected below.
    retain_stored::<K>(chunk, keys, mask)?;
    let scale = Scale::<K::Key>::of(chunk);
    Exceptions::open(chunk)?.correct(&before, mask, |stored| keys.contains(&scale.key(stored).widen()))
}

/// The least and the greatest value of a vector that are no outliers, and the bits that the vector then takes.
struct Inliers<W> {
    low: W,
    high: W,
    bits: usize,
}

impl<W: Word> Inliers<W> {
    /// Chooses the inliers of `values`, which must not be empty. Reorders them. An outlier takes `outlier_bits`.
    fn of(values: &mut [W], outlier_bits: usize) -> Inliers<W> {
        let last = values.len() - 1;
        let most = values.len() / OUTLIERS_ONE_IN;
        // Only the values at both ends can be bounds, so only they are sorted.
        values.select_nth_unstable(last - most);
        values[last - most..].sort_unstable();
        let rest = &mut values[..last - most];
        if most < rest.len() {
            rest.select_nth_unstable(most);
            rest[..=most].sort_unstable();
        }
        let windows = (0..=most).flat_map(|left_out| (0..=left_out).map(move |low| (left_out, low)));
        let measured = windows.map(|(left_out, low)| {
            let (low, high) = (values[low], values[last - (left_out - low)]);
            let bits = values.len() * high.minus(low).bits() as usize + left_out * outlier_bits;
            Inliers { low, high, bits }
        });
        // Of equally good bounds the first leaves out the fewest values.
        measured.min_by_key(|inliers| inliers.bits).expect("no value may be left out")
    }
}

/// The bits that an outlier of `words` takes.
fn outlier_bits<W: Word>(words: &[W]) -> usize {
    ROW_BITS + words.iter().copied().max().unwrap_or_default().bits() as usize
}

/// Estimates the bytes of a column by some of its vectors.
fn estimated_bytes<W: Word>(words: &[W]) -> usize {
    let outlier_bits = outlier_bits(words);
    let step = words.len().div_ceil(VECTOR).div_ceil(SAMPLED_VECTORS).max(1);
    let (mut bits, mut rows, mut buffer) = (0, 0, [W::default(); VECTOR]);
    for vector in words.chunks(VECTOR).step_by(step) {
        let values = &mut buffer[..vector.len()];
        values.copy_from_slice(vector);
        bits += Inliers::of(values, outlier_bits).bits;
        rows += vector.len();
    }
    (bits as u64 * words.len() as u64 / (8 * rows as u64).max(1)) as usize
}

/// Encodes `words` as a section of rows and the sections of outliers. `None` if a vector spans more than 64 bits.
fn split<W: Word>(words: &[W], null_rows: &[u32]) -> Option<(NewSection, [NewSection; 2])> {
    let outlier_bits = outlier_bits(words);
    let (mut rows, mut outlier_rows, mut outliers) = (words.to_vec(), Vec::new(), Vec::new());
    let (mut nulls, mut buffer) = (null_rows.iter().copied().peekable(), [W::default(); VECTOR]);
    for (vector, first) in rows.chunks_mut(VECTOR).zip((0_u32..).step_by(VECTOR)) {
        let values = &mut buffer[..vector.len()];
        values.copy_from_slice(vector);
        let Inliers { low, high, .. } = Inliers::of(values, outlier_bits);
        for (row, value) in (first..).zip(vector) {
            if low <= *value && *value <= high {
                continue;
            }
            // A NULL row repeats the row before. Its value has no meaning, so it need not be an outlier.
            while nulls.next_if(|null| *null < row).is_some() {}
            if nulls.peek() != Some(&row) {
                outlier_rows.push(row);
                outliers.push(*value);
            }
            *value = low;
        }
    }
    let bytes = sequence::encode_as(SequenceLayout::Frame, &rows)?;
    let rows = NewSection { kind: SectionKind::Rows, count: words.len(), bytes };
    Some((rows, exceptions::encode(&outlier_rows, sequence::encode(&outliers))))
}
