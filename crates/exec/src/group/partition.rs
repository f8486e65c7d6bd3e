//! Groups of all blocks, in partitions by the hash of their keys.
//!
//! Each worker gathers the groups of its blocks in partitions of its own; then the partitions of one number, of all
//! workers, are put together in one hash table, small enough for the caches. A key is 64 or 128 bits where the key
//! columns fit, and otherwise bytes and text that stay where they were gathered.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};
use rowmill_plan::Key;

use super::bits::{Bits, array_of, bits_of, hash_of_bytes, mix, width_of};
use super::rows::Values;
use super::state::States;

/// A key column's place in a key.
#[derive(Debug)]
struct KeyColumn {
    kind: DataType,
    nullable: bool,
    /// Bits of its values; `None` for texts.
    width: Option<u32>,
    /// Bits of a key before it.
    shift: u32,
}

/// How the values of all key columns make one key.
#[derive(Debug)]
pub(super) struct KeyLayout {
    columns: Vec<KeyColumn>,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Narrow,
    Wide,
    Long,
}

/// Keys one behind the other.
#[derive(Debug)]
enum Keys {
    Narrow(Vec<u64>),
    Wide(Vec<u128>),
    Long(LongKeys),
}

/// Keys of any length: in one place the columns of fixed size and the lengths of the texts, in another the texts.
#[derive(Debug, Default)]
struct LongKeys {
    /// As many bytes of each key.
    fixed: Vec<u8>,
    texts: String,
    /// Where each key's texts end.
    ends: Vec<usize>,
    hashes: Vec<u64>,
}

/// One of [`LongKeys`].
#[derive(Clone, Copy, PartialEq)]
struct LongKey<'a> {
    hash: u64,
    fixed: &'a [u8],
    texts: &'a str,
}

/// Groups that were gathered: their keys, and the words of their aggregates.
#[derive(Debug)]
pub(super) struct Partition {
    keys: Keys,
    words: Vec<u64>,
}

/// The bits of the values of a key column, with a bit above them for NULL where they can be that.
struct ColumnBits {
    bits: Bits,
    nulls: Option<NullBuffer>,
}

impl KeyLayout {
    pub(super) fn new(keys: &[Key]) -> KeyLayout {
        let mut shift = 0;
        let columns: Vec<KeyColumn> = keys
            .iter()
            .map(|key| {
                let width = width_of(&key.kind);
                let column = KeyColumn { kind: key.kind.clone(), nullable: key.nullable, width, shift };
                shift += width.unwrap_or_default() + u32::from(key.nullable);
                column
            })
            .collect();
        let form = match shift {
            _ if columns.iter().any(|column| column.width.is_none()) => Form::Long,
            0..=64 => Form::Narrow,
            65..=128 => Form::Wide,
            _ => Form::Long,
        };
        KeyLayout { columns, form }
    }

    pub(super) fn empty_partition(&self) -> Partition {
        let keys = match self.form {
            Form::Narrow => Keys::Narrow(Vec::new()),
            Form::Wide => Keys::Wide(Vec::new()),
            Form::Long => Keys::Long(LongKeys::default()),
        };
        Partition { keys, words: Vec::new() }
    }

    /// Puts groups into partitions by the highest bits of the hashes of their keys. The key of a group is that of its
    /// first row.
    pub(super) fn scatter(
        &self,
        keys: &[Values],
        first_rows: &[u32],
        words: &[u64],
        partitions: &mut [Partition],
    ) -> Result<()> {
        let stride = words.len() / first_rows.len().max(1);
        let words = |group: usize| &words[group * stride..][..stride];
        match self.form {
            Form::Narrow => self.scatter_fixed::<u64>(keys, first_rows, words, partitions),
            Form::Wide => self.scatter_fixed::<u128>(keys, first_rows, words, partitions),
            Form::Long => {
                let writers: Vec<Writer<'_>> = self
                    .columns
                    .iter()
                    .zip(keys)
                    .map(|(column, key)| Writer::new(column, key))
                    .collect::<Result<_>>()?;
                let mut chunk = LongKeys::default();
                let mut order = Order::default();
                for (number, rows) in first_rows.chunks(GROUPS_PER_CHUNK).enumerate() {
                    chunk.clear();
                    for row in rows {
                        let (fixed, texts) = (chunk.fixed.len(), chunk.texts.len());
                        writers.iter().for_each(|writer| {
                            writer.write(*row as usize, &mut chunk.fixed, &mut chunk.texts);
                        });
                        let of_fixed = hash_of_bytes(&chunk.fixed[fixed..], 0);
                        chunk.hashes.push(hash_of_bytes(&chunk.texts.as_bytes()[texts..], of_fixed));
                        chunk.ends.push(chunk.texts.len());
                    }
                    order.sort(&chunk.hashes, partitions.len());
                    for (partition, groups) in order.runs(partitions) {
                        let Keys::Long(keys) = &mut partition.keys else { unreachable!("partitions are of one form") };
                        for group in groups {
                            keys.push(chunk.get(*group as usize));
                            partition.words.extend_from_slice(words(number * GROUPS_PER_CHUNK + *group as usize));
                        }
                    }
                }
                Ok(())
            }
        }
    }

    fn scatter_fixed<'w, K: FixedKey>(
        &self,
        keys: &[Values],
        first_rows: &[u32],
        words: impl Fn(usize) -> &'w [u64],
        partitions: &mut [Partition],
    ) -> Result<()> {
        let keys = self.fixed::<K>(keys, first_rows)?;
        let (mut hashes, mut order) = (Vec::new(), Order::default());
        for (number, chunk) in keys.chunks(GROUPS_PER_CHUNK).enumerate() {
            hashes.clear();
            hashes.extend(chunk.iter().map(|key| key.hash()));
            order.sort(&hashes, partitions.len());
            for (partition, groups) in order.runs(partitions) {
                K::of_mut(&mut partition.keys).extend(groups.iter().map(|group| chunk[*group as usize]));
                for group in groups {
                    partition.words.extend_from_slice(words(number * GROUPS_PER_CHUNK + *group as usize));
                }
            }
        }
        Ok(())
    }

    fn fixed<K: FixedKey>(&self, keys: &[Values], first_rows: &[u32]) -> Result<Vec<K>> {
        let mut packed = vec![K::default(); first_rows.len()];
        for (column, key) in self.columns.iter().zip(keys) {
            let ColumnBits { bits, nulls } = ColumnBits::new(key)?;
            let null_bit = column.shift + column.width.unwrap_or_default();
            let place = |row: u32| key.codes.as_ref().map_or(row as usize, |codes| codes[row as usize] as usize);
            match bits {
                Bits::Narrow { numbers, .. } => packed.iter_mut().zip(first_rows).for_each(|(packed, row)| {
                    packed.put(u128::from(numbers[place(*row)]), column.shift);
                }),
                Bits::Wide(numbers) => packed.iter_mut().zip(first_rows).for_each(|(packed, row)| {
                    packed.put(numbers[place(*row)], column.shift);
                }),
            }
            if let Some(nulls) = nulls {
                if !column.nullable {
                    return Err(Error::internal("a key that is never NULL is NULL"));
                }
                packed.iter_mut().zip(first_rows).filter(|(_, row)| nulls.is_null(place(**row))).for_each(
                    |(packed, _)| {
                        packed.put(1, null_bit);
                    },
                );
            }
        }
        Ok(packed)
    }

    /// Puts the groups of partitions together; their key columns and aggregates. There is a group without rows if
    /// `always_one` and no other.
    pub(super) fn merge(
        &self,
        partitions: &[&Partition],
        states: &States,
        always_one: bool,
    ) -> Result<(Vec<ArrayRef>, usize)> {
        match self.form {
            Form::Narrow => self.merge_fixed::<u64>(partitions, states, always_one),
            Form::Wide => self.merge_fixed::<u128>(partitions, states, always_one),
            Form::Long => self.merge_long(partitions, states),
        }
    }

    fn merge_fixed<K: FixedKey>(
        &self,
        partitions: &[&Partition],
        states: &States,
        always_one: bool,
    ) -> Result<(Vec<ArrayRef>, usize)> {
        let mut table = Table::new(partitions);
        let mut groups: Vec<K> = Vec::new();
        let mut words: Vec<u64> = Vec::new();
        for partition in partitions {
            let keys = K::of(&partition.keys);
            let into = keys.iter().enumerate().map(|(entry, key)| {
                let found = table.find(key.hash(), |group| groups[group as usize] == *key);
                if found.is_none() {
                    groups.push(*key);
                    words.extend_from_slice(partition.words_of(entry, states));
                }
                found
            });
            let into: Vec<Option<u32>> = into.collect();
            states.merge(&into, &partition.words, &mut words)?;
        }
        if always_one && groups.is_empty() {
            groups.push(K::default());
            words.resize(states.words(), 0);
        }
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let width = column.width.unwrap_or_default();
            let null_bit = column.shift + width;
            let is_valid = |key: &K| key.part(null_bit, 1) == 0;
            let nulls = column.nullable.then(|| NullBuffer::from_iter(groups.iter().map(is_valid)));
            let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
            columns.push(array_of(&column.kind, groups.iter().map(|key| key.part(column.shift, width)), nulls)?);
        }
        columns.extend(states.finish(&words, groups.len())?);
        Ok((columns, groups.len()))
    }

    fn merge_long(&self, partitions: &[&Partition], states: &States) -> Result<(Vec<ArrayRef>, usize)> {
        let mut table = Table::new(partitions);
        let mut groups: Vec<LongKey<'_>> = Vec::new();
        let mut words: Vec<u64> = Vec::new();
        for partition in partitions {
            let Keys::Long(keys) = &partition.keys else { unreachable!("partitions are of one form") };
            let into = (0..keys.ends.len()).map(|entry| {
                let key = keys.get(entry);
                let found = table.find(key.hash, |group| groups[group as usize] == key);
                if found.is_none() {
                    groups.push(key);
                    words.extend_from_slice(partition.words_of(entry, states));
                }
                found
            });
            let into: Vec<Option<u32>> = into.collect();
            states.merge(&into, &partition.words, &mut words)?;
        }
        let mut readers: Vec<Reader> = self.columns.iter().map(|column| Reader::new(column, groups.len())).collect();
        for LongKey { fixed, texts, .. } in &groups {
            let (mut fixed, mut texts) = (*fixed, *texts);
            for reader in &mut readers {
                reader.read(&mut fixed, &mut texts)?;
            }
        }
        let mut columns: Vec<ArrayRef> = readers.into_iter().map(Reader::finish).collect::<Result<_>>()?;
        columns.extend(states.finish(&words, groups.len())?);
        Ok((columns, groups.len()))
    }
}

impl Partition {
    /// Groups.
    pub(super) fn len(&self) -> usize {
        match &self.keys {
            Keys::Narrow(keys) => keys.len(),
            Keys::Wide(keys) => keys.len(),
            Keys::Long(keys) => keys.ends.len(),
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        let keys = match &self.keys {
            Keys::Narrow(keys) => keys.capacity() * 8,
            Keys::Wide(keys) => keys.capacity() * 16,
            Keys::Long(LongKeys { fixed, texts, ends, hashes }) => {
                fixed.capacity() + texts.capacity() + (ends.capacity() + hashes.capacity()) * 8
            }
        };
        (keys + self.words.capacity() * 8) as u64
    }

    fn words_of(&self, entry: usize, states: &States) -> &[u64] {
        &self.words[entry * states.words()..][..states.words()]
    }
}

impl LongKeys {
    fn clear(&mut self) {
        self.fixed.clear();
        self.texts.clear();
        self.ends.clear();
        self.hashes.clear();
    }

    fn get(&self, place: usize) -> LongKey<'_> {
        let bytes = self.fixed.len() / self.ends.len().max(1);
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        LongKey {
            hash: self.hashes[place],
            fixed: &self.fixed[place * bytes..][..bytes],
            texts: &self.texts[start..self.ends[place]],
        }
    }

    fn push(&mut self, key: LongKey<'_>) {
        self.hashes.push(key.hash);
        self.fixed.extend_from_slice(key.fixed);
        self.texts.push_str(key.texts);
        self.ends.push(self.texts.len());
    }
}

impl ColumnBits {
    fn new(key: &Values) -> Result<ColumnBits> {
        let nulls = key.values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        Ok(ColumnBits { bits: bits_of(&key.values)?, nulls })
    }
}

/// Groups that are put into partitions at once: so many that each partition gets several in a row, because writing to
/// hundreds of places in turn misses the caches and their page tables, and so few that their keys are in a cache.
const GROUPS_PER_CHUNK: usize = 1 << 12;

/// Groups in the order of their partitions.
#[derive(Default)]
struct Order {
    groups: Vec<u32>,
    /// Where each partition's groups end.
    ends: Vec<u32>,
}

impl Order {
    /// Sorts groups by the highest bits of their hashes.
    fn sort(&mut self, hashes: &[u64], partitions: usize) {
        // A shift by all 64 bits is none for the processor.
        let shift = 63 - partitions.ilog2();
        let of = |hash: &u64| (*hash >> shift >> 1) as usize;
        self.ends.clear();
        self.ends.resize(partitions, 0);
        hashes.iter().for_each(|hash| self.ends[of(hash)] += 1);
        let mut start = 0;
        for end in &mut self.ends {
            // For now the place of the partition's next group.
            start += std::mem::replace(end, start);
        }
        self.groups.resize(hashes.len(), 0);
        for (group, hash) in hashes.iter().enumerate() {
            let place = &mut self.ends[of(hash)];
            self.groups[*place as usize] = group as u32;
            *place += 1;
        }
    }

    /// Each partition with its groups.
    fn runs<'a>(&'a self, partitions: &'a mut [Partition]) -> impl Iterator<Item = (&'a mut Partition, &'a [u32])> {
        let mut start = 0;
        partitions.iter_mut().zip(&self.ends).map(move |(partition, end)| {
            let groups = &self.groups[start as usize..*end as usize];
            start = *end;
            (partition, groups)
        })
    }
}

/// Bytes in the hash table of a merge for so many groups.
pub(super) fn table_bytes(groups: usize) -> u64 {
    (Table::slots(groups) * size_of::<u32>()) as u64
}

/// A hash table from keys, which are kept elsewhere, to their number.
struct Table {
    /// One more than a number; 0 is free.
    slots: Vec<u32>,
    found: u32,
}

impl Table {
    fn new(partitions: &[&Partition]) -> Table {
        let groups = partitions.iter().map(|partition| partition.len()).sum();
        Table { slots: vec![0; Table::slots(groups)], found: 0 }
    }

    fn slots(groups: usize) -> usize {
        (groups * 2).next_power_of_two().max(2)
    }

    /// The number of a key; `None` if it is new, and gets the next.
    #[inline]
    fn find(&mut self, hash: u64, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 {
            let group = self.slots[slot] - 1;
            if is_same(group) {
                return Some(group);
            }
            slot = (slot + 1) & mask;
        }
        self.found += 1;
        self.slots[slot] = self.found;
        None
    }
}

/// A key of a fixed number of bits.
trait FixedKey: Copy + Default + PartialEq {
    fn put(&mut self, bits: u128, shift: u32);
    fn part(self, shift: u32, width: u32) -> u128;
    fn hash(self) -> u64;
    fn of(keys: &Keys) -> &[Self];
    fn of_mut(keys: &mut Keys) -> &mut Vec<Self>;
}

impl FixedKey for u64 {
    #[inline]
    fn put(&mut self, bits: u128, shift: u32) {
        *self |= (bits as u64) << shift;
    }

    #[inline]
    fn part(self, shift: u32, width: u32) -> u128 {
        u128::from(self).part(shift, width)
    }

    #[inline]
    fn hash(self) -> u64 {
        mix(self)
    }

    fn of(keys: &Keys) -> &[u64] {
        let Keys::Narrow(keys) = keys else { unreachable!("partitions are of one form") };
        keys
    }

    fn of_mut(keys: &mut Keys) -> &mut Vec<u64> {
        let Keys::Narrow(keys) = keys else { unreachable!("partitions are of one form") };
        keys
    }
}

impl FixedKey for u128 {
    #[inline]
    fn put(&mut self, bits: u128, shift: u32) {
        *self |= bits << shift;
    }

    #[inline]
    fn part(self, shift: u32, width: u32) -> u128 {
        self >> shift & (u128::MAX >> (128 - width))
    }

    #[inline]
    fn hash(self) -> u64 {
        mix(self as u64 ^ mix((self >> 64) as u64))
    }

    fn of(keys: &Keys) -> &[u128] {
        let Keys::Wide(keys) = keys else { unreachable!("partitions are of one form") };
        keys
    }

    fn of_mut(keys: &mut Keys) -> &mut Vec<u128> {
        let Keys::Wide(keys) = keys else { unreachable!("partitions are of one form") };
        keys
    }
}

/// The length of a text that is NULL.
const NULL_LEN: u32 = u32::MAX;

/// Writes the values of a column into long keys: `1` and zeros for NULL, or `0` and the value; a text's length, and the
/// text to the others.
enum Writer<'a> {
    Fixed { key: &'a Values, column: ColumnBits, bytes: usize },
    Text { key: &'a Values },
}

impl<'a> Writer<'a> {
    fn new(column: &KeyColumn, key: &'a Values) -> Result<Writer<'a>> {
        Ok(match column.width {
            Some(width) => Writer::Fixed { key, column: ColumnBits::new(key)?, bytes: width.div_ceil(8) as usize },
            None if key.values.as_string_view_opt().is_some() => Writer::Text { key },
            None => return Err(Error::internal(format!("a key of {} is no text", key.values.data_type()))),
        })
    }

    #[inline]
    fn write(&self, row: usize, fixed: &mut Vec<u8>, texts: &mut String) {
        let place = |key: &Values| key.codes.as_ref().map_or(row, |codes| codes[row] as usize);
        match self {
            Writer::Fixed { key, column, bytes } => {
                let place = place(key);
                // The bits of NULL are zeros.
                fixed.push(u8::from(column.nulls.as_ref().is_some_and(|nulls| nulls.is_null(place))));
                match &column.bits {
                    Bits::Narrow { numbers, .. } => fixed.extend_from_slice(&numbers[place].to_le_bytes()[..*bytes]),
                    Bits::Wide(numbers) => fixed.extend_from_slice(&numbers[place].to_le_bytes()),
                }
            }
            Writer::Text { key } => {
                let (values, place) = (key.values.as_string_view(), place(key));
                if values.is_null(place) {
                    fixed.extend_from_slice(&NULL_LEN.to_le_bytes());
                    return;
                }
                let text = values.value(place);
                fixed.extend_from_slice(&(text.len() as u32).to_le_bytes());
                texts.push_str(text);
            }
        }
    }
}

/// Reads what a [`Writer`] wrote.
enum Reader {
    Fixed { kind: DataType, bytes: usize, values: Vec<u128>, valid: Vec<bool> },
    Text(StringViewBuilder),
}

impl Reader {
    fn new(column: &KeyColumn, rows: usize) -> Reader {
        match column.width {
            Some(width) => Reader::Fixed {
                kind: column.kind.clone(),
                bytes: width.div_ceil(8) as usize,
                values: Vec::with_capacity(rows),
                valid: Vec::with_capacity(rows),
            },
            None => Reader::Text(StringViewBuilder::with_capacity(rows)),
        }
    }

    /// Takes the column's part from the front of a key.
    fn read(&mut self, fixed: &mut &[u8], texts: &mut &str) -> Result<()> {
        let cut = || Error::internal("a key ends within a column");
        match self {
            Reader::Fixed { bytes, values, valid, .. } => {
                valid.push(*fixed.split_off_first().ok_or_else(cut)? == 0);
                let mut value = [0; 16];
                value[..*bytes].copy_from_slice(fixed.split_off(..*bytes).ok_or_else(cut)?);
                values.push(u128::from_le_bytes(value));
            }
            Reader::Text(builder) => {
                let len = fixed.split_off(..4).and_then(|len| <[u8; 4]>::try_from(len).ok()).ok_or_else(cut)?;
                match u32::from_le_bytes(len) {
                    NULL_LEN => builder.append_null(),
                    len => {
                        let (text, rest) = texts.split_at_checked(len as usize).ok_or_else(cut)?;
                        builder.append_value(text);
                        *texts = rest;
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<ArrayRef> {
        match self {
            Reader::Fixed { kind, values, valid, .. } => {
                let nulls = NullBuffer::new(BooleanBuffer::from(valid));
                array_of(&kind, values.into_iter(), Some(nulls).filter(|nulls| nulls.null_count() > 0))
            }
            Reader::Text(mut texts) => Ok(Arc::new(texts.finish())),
        }
    }
}
