//! Codes: keys as numbers that are only as wide as the values in the input need.
//!
//! The code of a value is its distance from the least value of its column, or from the greatest one if the order
//! descends. NULL gets one more code, before or after all others. Codes therefore sort like the keys.
//!
//! ```text
//! entry   | partition code | code of the 1st ORDER BY key | code of the 2nd key | ... | place of the row |
//!          high bits                                                                            low bits
//! ```

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::SortKey;

use super::entry::WindowEntry;
use super::failed;
use crate::hash::{hash_of_bytes, mix};
use crate::sort::{SortNumbers, canonical, numbers_of, width_of};

/// The bits of a hash that represents a partition.
const HASH_BITS: u32 = u64::BITS;

/// Multiplying by this spreads the codes of partitions over their bits. It must be odd, so that different codes have
/// different products.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The least and the greatest number of a key column whose type has numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyNumberRange {
    least: u128,
    most: u128,
    has_null: bool,
}

impl KeyNumberRange {
    /// A range without values.
    pub(super) fn empty() -> KeyNumberRange {
        KeyNumberRange { least: u128::MAX, most: 0, has_null: false }
    }

    /// Adds the values of a column. Its type must have numbers.
    pub(super) fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        self.has_null |= nulls.is_some();
        match (numbers_of(values)?, nulls) {
            (SortNumbers::Narrow(numbers), None) => {
                let ends =
                    numbers.iter().fold((u64::MAX, 0), |(least, most), number| (least.min(*number), most.max(*number)));
                self.join(KeyNumberRange { least: ends.0.into(), most: ends.1.into(), has_null: false });
            }
            (SortNumbers::Narrow(numbers), Some(nulls)) => {
                nulls.valid_indices().for_each(|row| self.add_number(numbers[row].into()));
            }
            (SortNumbers::Wide(numbers), None) => numbers.into_iter().for_each(|number| self.add_number(number)),
            (SortNumbers::Wide(numbers), Some(nulls)) => {
                nulls.valid_indices().for_each(|row| self.add_number(numbers[row]));
            }
        }
        Ok(())
    }

    fn add_number(&mut self, number: u128) {
        (self.least, self.most) = (self.least.min(number), self.most.max(number));
    }

    /// Adds the values of another range.
    pub(super) fn join(&mut self, other: KeyNumberRange) {
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.has_null |= other.has_null;
    }

    /// The number of bits of the codes. `None` if codes need more than 128 bits.
    fn bits(&self) -> Option<u32> {
        let span = self.most.saturating_sub(self.least).checked_add(u128::from(self.has_null))?;
        Some(u128::BITS - span.leading_zeros())
    }
}

/// A key column that is turned into codes.
#[derive(Debug)]
struct CodedColumn {
    column: usize,
    range: KeyNumberRange,
    bits: u32,
    /// The number of bits in the entry below this column.
    shift: u32,
    descending: bool,
    nulls_first: bool,
}

impl CodedColumn {
    /// Adds the codes of a batch's rows to their entries.
    fn add<E: WindowEntry>(&self, batch: &RecordBatch, entries: &mut [E]) -> Result<()> {
        let values = batch.column(self.column);
        if self.bits == 0 {
            return Ok(());
        }
        // With NULLs first, code 0 is NULL and values start at 1. With NULLs last, NULL is one above the greatest
        // value.
        let KeyNumberRange { least, most, has_null } = self.range;
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        let first = u128::from(has_null && self.nulls_first);
        let null = if self.nulls_first { 0 } else { most.saturating_sub(least) + u128::from(least <= most) };
        let null = E::of_wide(null, self.shift);
        let numbers = numbers_of(values)?;
        match numbers {
            SortNumbers::Narrow(numbers) if self.bits <= u64::BITS => {
                // The codes fit 64 bits, so we compute with words. Wrapping is correct, because only the low bits
                // count.
                let (least, most, first) = (least as u64, most as u64, first as u64);
                let code = |number: u64| {
                    let rank = if self.descending { most.wrapping_sub(number) } else { number.wrapping_sub(least) };
                    E::of(rank.wrapping_add(first), self.shift)
                };
                let rows = entries.iter_mut().zip(numbers);
                match nulls {
                    None => rows.for_each(|(entry, number)| *entry = entry.with(code(number))),
                    Some(nulls) => rows.zip(nulls).for_each(|((entry, number), is_valid)| {
                        *entry = entry.with(if is_valid { code(number) } else { null });
                    }),
                }
            }
            numbers => {
                let numbers = match numbers {
                    SortNumbers::Narrow(numbers) => numbers.into_iter().map(u128::from).collect(),
                    SortNumbers::Wide(numbers) => numbers,
                };
                for (row, (entry, number)) in entries.iter_mut().zip(numbers).enumerate() {
                    let rank = if self.descending { most.wrapping_sub(number) } else { number.wrapping_sub(least) };
                    let code = match nulls.is_some_and(|nulls| nulls.is_null(row)) {
                        true => null,
                        false => E::of_wide(rank.wrapping_add(first), self.shift),
                    };
                    *entry = entry.with(code);
                }
            }
        }
        Ok(())
    }
}

/// How entries distinguish partitions.
#[derive(Debug)]
enum PartitionCode {
    /// By the key values themselves.
    Exact(Vec<CodedColumn>),
    /// By hashes of these columns. Rows with equal hashes may be in different partitions.
    Hashed(Vec<HashedColumn>),
}

/// A column that is hashed.
#[derive(Debug)]
struct HashedColumn {
    column: usize,
    /// Converts values that are neither numbers nor texts to bytes.
    converter: Option<RowConverter>,
}

/// The layout of an entry: the bits of partition, order and place.
#[derive(Debug)]
pub(super) struct EntryLayout {
    partition: PartitionCode,
    /// The columns of the order. `None` if their codes do not fit or their types have no numbers. The rows are then
    /// sorted by other means.
    order: Option<Vec<CodedColumn>>,
    pub(super) partition_bits: u32,
    pub(super) order_bits: u32,
    pub(super) place_bits: u32,
}

impl EntryLayout {
    /// Chooses a layout for keys and for places of `place_bits`. `ranges` has the ranges of the partition columns,
    /// followed by the ranges of the ORDER BY columns. A range is `None` if the type has no numbers.
    pub(super) fn new(
        partition: &[usize],
        order: &[SortKey],
        ranges: &[Option<KeyNumberRange>],
        schema: &arrow::datatypes::Schema,
        place_bits: u32,
    ) -> Result<EntryLayout> {
        let (of_partition, of_order) = ranges.split_at(partition.len());
        let keys = partition.iter().map(|column| SortKey { column: *column, descending: false, nulls_first: true });
        // Codes of partitions must fit 64 bits. If they do not, we use hashes and check equality of neighbours later.
        let exact = coded(&keys.collect::<Vec<_>>(), of_partition).filter(|(_, bits)| *bits <= HASH_BITS);
        let (partition, partition_bits) = match exact {
            Some((columns, bits)) => (PartitionCode::Exact(columns), bits),
            None => {
                let hashed =
                    partition.iter().map(|column| HashedColumn::new(*column, schema.field(*column).data_type()));
                (PartitionCode::Hashed(hashed.collect::<Result<_>>()?), HASH_BITS)
            }
        };
        // The partition and the place must be in the entry. The order gets the remaining bits if it fits.
        let room = u128::BITS - partition_bits - place_bits;
        let order = coded(order, of_order).filter(|(_, bits)| *bits <= room);
        let order_bits = order.as_ref().map_or(0, |(_, bits)| *bits);
        let order = order.map(|(mut columns, _)| {
            // The order takes the bits between the place and the partition.
            columns.iter_mut().for_each(|column| column.shift += place_bits);
            columns
        });
        Ok(EntryLayout { partition, order, partition_bits, order_bits, place_bits })
    }

    /// Whether an entry fits 64 bits.
    pub(super) fn is_narrow(&self) -> bool {
        self.bits() <= u64::BITS
    }

    /// The number of bits of an entry.
    pub(super) fn bits(&self) -> u32 {
        self.partition_bits + self.order_bits + self.place_bits
    }

    /// The number of bits below the partition.
    pub(super) fn partition_shift(&self) -> u32 {
        self.order_bits + self.place_bits
    }

    /// Whether rows with equal codes may be in different partitions.
    pub(super) fn is_hashed(&self) -> bool {
        matches!(self.partition, PartitionCode::Hashed(_))
    }

    /// Whether the entries contain the order.
    pub(super) fn has_order(&self) -> bool {
        self.order.is_some()
    }

    /// Writes the entries of a batch's rows to `entries`. `first` is the place of the batch's first row.
    pub(super) fn entries<E: WindowEntry>(&self, batch: &RecordBatch, first: u64, entries: &mut Vec<E>) -> Result<()> {
        let codes = self.partition_codes(batch)?;
        let shift = self.partition_shift();
        entries.clear();
        entries.extend(codes.iter().zip(first..).map(|(code, place)| E::of(*code, shift).with(E::of(place, 0))));
        for column in self.order.iter().flatten() {
            column.add(batch, entries)?;
        }
        Ok(())
    }

    /// Computes the codes of the rows' partitions, spread over the available bits.
    fn partition_codes(&self, batch: &RecordBatch) -> Result<Vec<u64>> {
        let mut codes = vec![0_u64; batch.num_rows()];
        match &self.partition {
            PartitionCode::Exact(columns) => {
                columns.iter().try_for_each(|column| column.add(batch, &mut codes))?;
                let bits = self.partition_bits;
                codes.iter_mut().for_each(|code| *code = code.wrapping_mul(ODD).below(bits));
            }
            PartitionCode::Hashed(columns) => {
                columns.iter().try_for_each(|column| column.add(batch.column(column.column), &mut codes))?;
            }
        }
        Ok(codes)
    }
}

/// Lays out key columns as codes, with the last key in the lowest bits. Returns the columns and their total bits.
/// `None` if a column has no numbers or the codes need more than 128 bits.
fn coded(keys: &[SortKey], ranges: &[Option<KeyNumberRange>]) -> Option<(Vec<CodedColumn>, u32)> {
    let mut shift = 0_u32;
    let mut columns = Vec::new();
    // The last key gets the lowest bits, so that the first key decides first.
    for (key, range) in keys.iter().zip(ranges).rev() {
        let range = (*range)?;
        let bits = range.bits()?;
        let SortKey { column, descending, nulls_first } = *key;
        columns.push(CodedColumn { column, range, bits, shift, descending, nulls_first });
        shift = shift.checked_add(bits).filter(|bits| *bits <= u128::BITS)?;
    }
    Some((columns, shift))
}

impl HashedColumn {
    fn new(column: usize, kind: &DataType) -> Result<HashedColumn> {
        let has_hash = width_of(kind).is_some() || matches!(kind, DataType::Utf8View | DataType::BinaryView);
        let converter = || {
            RowConverter::new(vec![SortField::new(kind.clone())])
                .map_err(|error| Error::new(ErrorKind::Unsupported, format!("PARTITION BY: {error}")))
        };
        Ok(HashedColumn { column, converter: if has_hash { None } else { Some(converter()?) } })
    }

    /// Mixes the values of a column into the hashes of their rows. NULL hashes like one more value.
    fn add(&self, values: &ArrayRef, hashes: &mut [u64]) -> Result<()> {
        const NULL: u64 = 0x51_7c_c1_b7;
        let is_null = |row: usize| values.is_null(row);
        let mut each = |hash: &dyn Fn(usize, u64) -> u64| {
            hashes.iter_mut().enumerate().for_each(|(row, of_row)| {
                *of_row = if is_null(row) { mix(*of_row ^ NULL) } else { hash(row, *of_row) };
            });
        };
        match (&self.converter, values.data_type()) {
            (Some(converter), _) => {
                let rows = converter.convert_columns(&[canonical(values)?]).map_err(failed)?;
                each(&|row, hash| hash_of_bytes(rows.row(row).data(), hash));
            }
            (None, DataType::Utf8View) => {
                let texts = values.as_string_view();
                each(&|row, hash| hash_of_bytes(texts.value(row).as_bytes(), hash));
            }
            (None, DataType::BinaryView) => {
                let texts = values.as_binary_view();
                each(&|row, hash| hash_of_bytes(texts.value(row), hash));
            }
            (None, _) => match numbers_of(values)? {
                SortNumbers::Narrow(numbers) => each(&|row, hash| mix(mix(hash).wrapping_add(numbers[row]))),
                SortNumbers::Wide(numbers) => each(&|row, hash| {
                    let number = numbers[row];
                    mix(mix(mix(hash).wrapping_add(number as u64)).wrapping_add((number >> 64) as u64))
                }),
            },
        }
        Ok(())
    }
}
