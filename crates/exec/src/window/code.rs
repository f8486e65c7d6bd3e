//! Codes: keys as numbers that are no wider than the values that occur need.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::SortKey;

use super::entry::WindowEntry;
use super::failed;
use crate::hash::{hash_of_bytes, mix};
use crate::sort::{Numbers, canonical, numbers_of, width_of};

/// Bits of a hash that stands for a partition.
const HASH_BITS: u32 = u64::BITS;

/// Spreads codes of partitions over their bits. It must be odd, so that different codes have different products.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The least and the greatest number of a key column, if it has numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyRange {
    least: u128,
    most: u128,
    has_null: bool,
}

impl KeyRange {
    /// No values.
    pub(super) fn empty() -> KeyRange {
        KeyRange { least: u128::MAX, most: 0, has_null: false }
    }

    /// Adds the values of a column of a type that has numbers.
    pub(super) fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        self.has_null |= nulls.is_some();
        match (numbers_of(values)?, nulls) {
            (Numbers::Narrow(numbers), None) => {
                let ends =
                    numbers.iter().fold((u64::MAX, 0), |(least, most), number| (least.min(*number), most.max(*number)));
                self.join(KeyRange { least: ends.0.into(), most: ends.1.into(), has_null: false });
            }
            (Numbers::Narrow(numbers), Some(nulls)) => {
                nulls.valid_indices().for_each(|row| self.add_number(numbers[row].into()));
            }
            (Numbers::Wide(numbers), None) => numbers.into_iter().for_each(|number| self.add_number(number)),
            (Numbers::Wide(numbers), Some(nulls)) => {
                nulls.valid_indices().for_each(|row| self.add_number(numbers[row]));
            }
        }
        Ok(())
    }

    fn add_number(&mut self, number: u128) {
        (self.least, self.most) = (self.least.min(number), self.most.max(number));
    }

    /// Adds the values of another range.
    pub(super) fn join(&mut self, other: KeyRange) {
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.has_null |= other.has_null;
    }

    /// Bits of the codes; `None` if there are more than 128.
    fn bits(&self) -> Option<u32> {
        let span = self.most.saturating_sub(self.least).checked_add(u128::from(self.has_null))?;
        Some(u128::BITS - span.leading_zeros())
    }
}

/// A key column as codes.
#[derive(Debug)]
struct CodedColumn {
    column: usize,
    range: KeyRange,
    bits: u32,
    /// Bits below it.
    shift: u32,
    descending: bool,
    nulls_first: bool,
}

impl CodedColumn {
    /// Adds the codes of a batch to entries.
    fn add<E: WindowEntry>(&self, batch: &RecordBatch, entries: &mut [E]) -> Result<()> {
        let values = batch.column(self.column);
        if self.bits == 0 {
            return Ok(());
        }
        let KeyRange { least, most, has_null } = self.range;
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        let first = u128::from(has_null && self.nulls_first);
        let null = if self.nulls_first { 0 } else { most.saturating_sub(least) + u128::from(least <= most) };
        let null = E::of_wide(null, self.shift);
        let numbers = numbers_of(values)?;
        match numbers {
            Numbers::Narrow(numbers) if self.bits <= u64::BITS => {
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
                    Numbers::Narrow(numbers) => numbers.into_iter().map(u128::from).collect(),
                    Numbers::Wide(numbers) => numbers,
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

/// How partitions are told apart in entries.
#[derive(Debug)]
enum PartitionCode {
    /// By the values of their keys.
    Exact(Vec<CodedColumn>),
    /// By hashes of these columns: rows of equal hashes may be of different partitions.
    Hashed(Vec<HashedColumn>),
}

/// A column that is hashed.
#[derive(Debug)]
struct HashedColumn {
    column: usize,
    /// Makes bytes of values that are neither numbers nor texts.
    converter: Option<RowConverter>,
}

/// Where the parts of an entry are.
#[derive(Debug)]
pub(super) struct EntryLayout {
    partition: PartitionCode,
    /// The codes of the order; `None` if they have no room or no numbers, so that rows are put in order otherwise.
    order: Option<Vec<CodedColumn>>,
    pub(super) partition_bits: u32,
    pub(super) order_bits: u32,
    pub(super) place_bits: u32,
}

impl EntryLayout {
    /// A layout for keys and places of `place_bits`. `ranges` has the ranges of the columns of the partition and then
    /// of the order; `None` for types without numbers.
    pub(super) fn new(
        partition: &[usize],
        order: &[SortKey],
        ranges: &[Option<KeyRange>],
        schema: &arrow::datatypes::Schema,
        place_bits: u32,
    ) -> Result<EntryLayout> {
        let (of_partition, of_order) = ranges.split_at(partition.len());
        let keys = partition.iter().map(|column| SortKey { column: *column, descending: false, nulls_first: true });
        let exact = coded(&keys.collect::<Vec<_>>(), of_partition).filter(|(_, bits)| *bits <= HASH_BITS);
        let (partition, partition_bits) = match exact {
            Some((columns, bits)) => (PartitionCode::Exact(columns), bits),
            None => {
                let hashed =
                    partition.iter().map(|column| HashedColumn::new(*column, schema.field(*column).data_type()));
                (PartitionCode::Hashed(hashed.collect::<Result<_>>()?), HASH_BITS)
            }
        };
        let room = u128::BITS - partition_bits - place_bits;
        let order = coded(order, of_order).filter(|(_, bits)| *bits <= room);
        let order_bits = order.as_ref().map_or(0, |(_, bits)| *bits);
        let order = order.map(|(mut columns, _)| {
            columns.iter_mut().for_each(|column| column.shift += place_bits);
            columns
        });
        Ok(EntryLayout { partition, order, partition_bits, order_bits, place_bits })
    }

    /// Whether entries fit 64 bits.
    pub(super) fn is_narrow(&self) -> bool {
        self.bits() <= u64::BITS
    }

    /// Bits of an entry.
    pub(super) fn bits(&self) -> u32 {
        self.partition_bits + self.order_bits + self.place_bits
    }

    /// Bits below those of the partition.
    pub(super) fn partition_shift(&self) -> u32 {
        self.order_bits + self.place_bits
    }

    /// Whether rows of equal codes may be of different partitions.
    pub(super) fn is_hashed(&self) -> bool {
        matches!(self.partition, PartitionCode::Hashed(_))
    }

    /// Whether the order is in the entries.
    pub(super) fn has_order(&self) -> bool {
        self.order.is_some()
    }

    /// The entries of the rows of a batch, whose first row has the place `first`.
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

    /// The codes of the rows' partitions, spread over the bits that they have.
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

/// The columns as codes, the last one lowest, and their bits. `None` if a column has no numbers or they have no room.
fn coded(keys: &[SortKey], ranges: &[Option<KeyRange>]) -> Option<(Vec<CodedColumn>, u32)> {
    let mut shift = 0_u32;
    let mut columns = Vec::new();
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

    /// Adds values to the hashes of their rows. NULL is one more value.
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
                Numbers::Narrow(numbers) => each(&|row, hash| mix(mix(hash).wrapping_add(numbers[row]))),
                Numbers::Wide(numbers) => each(&|row, hash| {
                    let number = numbers[row];
                    mix(mix(mix(hash).wrapping_add(number as u64)).wrapping_add((number >> 64) as u64))
                }),
            },
        }
        Ok(())
    }
}
