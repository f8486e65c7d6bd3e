//! The index from keys to the rows of the build side.
//!
//! A key is one word: the whole key, or its hash if the key is too long ([`super::keys`]). The words are cut into
//! partitions. One worker indexes each partition in a table that fits its caches:
//!
//! ```text
//! direct   few possible keys: an array with an entry for each (direct.rs)
//! ranked   more possible keys: a bit for each, and entries for the keys that occur (ranked.rs)
//! hashed   open addressing; a slot holds the word, so that one memory access finds a key (hashed.rs)
//! ```
//!
//! A lookup finds an entry. The entry is a row or, if several rows have the key, the place of their list (lists.rs). So
//! unique keys need no lists, and for other keys the list has the number of rows as well. An ordered join numbers the
//! keys instead and orders the rows of each key: see [`Index::of_groups`].

mod direct;
mod hashed;
mod lists;
mod ranked;

use std::ops::Range;

use rowmill_base::{Reservation, Result};

use self::direct::Direct;
pub(super) use self::hashed::Hashing;
use self::hashed::{HashTable, Hashed};
pub(crate) use self::lists::KeyGroups;
use self::lists::{EntryForm, EntryRows, Keys, LIST};
use self::ranked::{Ranked, RankedKeys};
use super::packing::NO_KEY;
use crate::cache::{L1_BYTES, L2_BYTES, PARTITIONS_MAX, ROWS_PARTITIONED_AT_ONCE};
use crate::forced::{JoinWay, forced, rows_per_partition};

/// The entry of a key that no row has.
pub(super) const NONE: u32 = u32::MAX;

/// Most rows of the build side. The places of their lists must fit an entry.
pub(super) const ROWS_MAX: usize = lists::ROWS_MAX;

/// Rows per partition, so that the table of a partition fits the second-level cache: a key has up to two slots of a
/// word and a place.
const ROWS_PER_PARTITION: usize = if cfg!(test) { 1 << 3 } else { L2_BYTES / (2 * size_of::<(u64, u32)>()) };

/// Up to this number of possible keys per row, each key has an entry. A hash table has up to two slots of four times
/// the size for each row, so the entries take no more memory. With 32, Q9 of TPC-H takes 36 ms instead of 33.
const DIRECT_KEYS_PER_ROW: u64 = 4;
/// Up to this number of possible keys, each key has an entry, however few rows there are: the entries fit half of the
/// first-level cache.
const DIRECT_KEYS_ALWAYS: u64 = if cfg!(test) { 1 << 3 } else { (L1_BYTES / 2 / size_of::<u32>()) as u64 };
/// Up to this number of possible keys per row, each key has a bit. A key itself takes as many bits. With 4
/// instead of 64, TPC-H's Q3, Q9 and Q21 take 16, 40 and 40 ms instead of 14, 33 and 35.
const RANKED_KEYS_PER_ROW: u64 = 64;
/// Up to this number of possible keys, a test can force an entry or a bit for each.
const KEYS_FORCED_MAX: u64 = 1 << 24;

/// Says how words are cut into partitions.
#[derive(Clone, Copy, Debug)]
pub(super) enum Partitioning {
    /// By ranges of `1 << shift` keys out of `keys` keys, with an entry for each key.
    Direct { keys: u64, shift: u32 },
    /// By ranges of `1 << shift` keys out of `keys` keys, with a bit for each key.
    Ranked { keys: u64, shift: u32 },
    /// By the highest bits of the words' hashes.
    Hashed { bits: u32, hashing: Hashing },
}

/// Rows that one worker put into a partition.
#[derive(Clone, Debug, Default)]
pub(super) struct PartitionPart {
    words: Vec<u64>,
    rows: Vec<u32>,
}

/// The index of one partition.
#[derive(Debug)]
pub(super) struct PartitionIndex {
    slots: Slots,
    lists: Vec<u32>,
}

#[derive(Debug)]
enum Slots {
    Direct(Vec<u32>),
    Ranked(RankedKeys),
    Hashed(HashTable),
}

impl Partitioning {
    /// Chooses the partitioning for `rows` rows. `keys` is the number of possible words; `None` if the words are
    /// hashes.
    pub(super) fn new(rows: usize, keys: Option<u64>, hashing: Hashing) -> Partitioning {
        let partitions = rows.div_ceil(rows_per_partition(ROWS_PER_PARTITION)).clamp(1, PARTITIONS_MAX);
        let (direct_max, ranked_max) = match forced().join {
            None => (DIRECT_KEYS_ALWAYS.max(rows as u64 * DIRECT_KEYS_PER_ROW), rows as u64 * RANKED_KEYS_PER_ROW),
            Some(JoinWay::Direct) => (KEYS_FORCED_MAX, 0),
            Some(JoinWay::Ranked) => (0, KEYS_FORCED_MAX),
            Some(JoinWay::Hashed) => (0, 0),
        };
        let shift = |keys: u64| keys.div_ceil(partitions as u64).max(1).next_power_of_two().ilog2();
        match keys {
            Some(keys) if keys <= direct_max => Partitioning::Direct { keys, shift: shift(keys) },
            Some(keys) if keys <= ranked_max => Partitioning::Ranked { keys, shift: shift(keys) },
            _ => Partitioning::Hashed { bits: partitions.next_power_of_two().ilog2(), hashing },
        }
    }

    /// Whether the keys of a partition are in a hash table.
    pub(super) fn is_hashed(&self) -> bool {
        matches!(self, Partitioning::Hashed { .. })
    }

    /// The number of partitions.
    pub(super) fn count(&self) -> usize {
        match self {
            Partitioning::Direct { keys, shift } | Partitioning::Ranked { keys, shift } => {
                keys.div_ceil(1 << shift).max(1) as usize
            }
            Partitioning::Hashed { bits, .. } => 1 << bits,
        }
    }

    /// Puts the rows that have a key into `parts`, one part per partition. Rows are numbered from `first_row`.
    pub(super) fn scatter(&self, words: &[u64], first_row: u32, parts: &mut [PartitionPart]) {
        match *self {
            _ if parts.len() == 1 => parts[0].extend_with_keys(words, first_row),
            Partitioning::Direct { shift, .. } | Partitioning::Ranked { shift, .. } => {
                scatter(words, first_row, parts, |word| (word >> shift) as usize);
            }
            Partitioning::Hashed { bits, hashing } => {
                scatter(words, first_row, parts, |word| hashed::partition(hashing.of(word), bits));
            }
        }
    }

    /// Indexes a partition. `parts` must be all of its parts. Rows with equal words have the same key if `is_same` says
    /// so. The first list gets the place `lists_start`.
    pub(super) fn table(
        &self,
        partition: usize,
        parts: &[&PartitionPart],
        lists_start: u32,
        is_same: impl Fn(u32, u32) -> bool,
        memory: &mut Reservation,
    ) -> Result<PartitionIndex> {
        let form = EntryForm::Lists { start: lists_start };
        Ok(self.table_of(partition, parts, form, is_same, memory)?.0)
    }

    /// Indexes a partition as [`Partitioning::table`] does, but with the numbers of keys as entries. Returns the rows
    /// of each key too.
    pub(super) fn groups(
        &self,
        partition: usize,
        parts: &[&PartitionPart],
        is_same: impl Fn(u32, u32) -> bool,
        memory: &mut Reservation,
    ) -> Result<(PartitionIndex, KeyGroups)> {
        self.table_of(partition, parts, EntryForm::Groups, is_same, memory)
    }

    fn table_of(
        &self,
        partition: usize,
        parts: &[&PartitionPart],
        form: EntryForm,
        is_same: impl Fn(u32, u32) -> bool,
        memory: &mut Reservation,
    ) -> Result<(PartitionIndex, KeyGroups)> {
        let rows = parts.iter().map(|part| part.rows.len()).sum();
        let before = memory.bytes();
        // We reserve for the worst case, because the number of distinct keys is not known yet.
        memory.grow((Keys::bytes_max(rows) + lists::bytes_max(rows, form)) as u64)?;
        let (slots, EntryRows { lists, groups }) = match *self {
            Partitioning::Direct { keys, shift } => {
                let keys = keys_of(partition, keys, shift);
                memory.grow((keys.end - keys.start) * size_of::<u32>() as u64)?;
                let (entries, rows) = direct::build(parts, keys, form);
                (Slots::Direct(entries), rows)
            }
            Partitioning::Ranked { keys, shift } => {
                let keys = keys_of(partition, keys, shift);
                memory.grow(RankedKeys::bytes_max((keys.end - keys.start) as usize, rows) as u64)?;
                let (keys, rows) = ranked::build(parts, keys, form);
                (Slots::Ranked(keys), rows)
            }
            Partitioning::Hashed { hashing, .. } => {
                let (table, rows) = hashed::build(parts, hashing, form, is_same, memory)?;
                (Slots::Hashed(table), rows)
            }
        };
        let table = PartitionIndex { slots, lists };
        // The estimate was for the worst case. Return the memory that was not needed.
        memory.recount(before + table.bytes() + groups.bytes());
        Ok((table, groups))
    }
}

/// The possible keys of a partition of `1 << shift` keys, out of `keys` keys.
fn keys_of(partition: usize, keys: u64, shift: u32) -> Range<u64> {
    let start = (partition as u64) << shift;
    start..keys.min(start + (1 << shift))
}

/// The words that are put into partitions at once.
const WORDS_PER_CHUNK: usize = if cfg!(test) { 1 << 2 } else { ROWS_PARTITIONED_AT_ONCE };

fn scatter(words: &[u64], first_row: u32, parts: &mut [PartitionPart], partition: impl Fn(u64) -> usize) {
    let mut of_rows = [0_u16; WORDS_PER_CHUNK];
    let mut rows = [0_u32; WORDS_PER_CHUNK];
    let mut ends = vec![0_u32; parts.len() + 1];
    for (number, chunk) in words.chunks(WORDS_PER_CHUNK).enumerate() {
        // Rows without a key go into an extra partition after the others, which is dropped.
        let of_rows = &mut of_rows[..chunk.len()];
        // A counting sort of the chunk by partition: count, turn counts into starts, place the rows.
        ends.fill(0);
        for (word, of_row) in chunk.iter().zip(&mut *of_rows) {
            let partition = if *word == NO_KEY { parts.len() } else { partition(*word) };
            *of_row = partition as u16;
            ends[partition] += 1;
        }
        let mut start = 0;
        for end in &mut ends {
            // Until the rows are placed, this is the index of the partition's next row.
            start += std::mem::replace(end, start);
        }
        for (row, of_row) in of_rows.iter().enumerate() {
            let place = &mut ends[*of_row as usize];
            rows[*place as usize] = row as u32;
            *place += 1;
        }
        let first_row = first_row + (number * WORDS_PER_CHUNK) as u32;
        let mut start = 0;
        for (part, end) in parts.iter_mut().zip(&ends) {
            part.extend(chunk, first_row, &rows[start as usize..*end as usize]);
            start = *end;
        }
    }
}

impl PartitionPart {
    /// Adds the rows that have a key.
    fn extend_with_keys(&mut self, words: &[u64], first_row: u32) {
        for (row, word) in (first_row..).zip(words).filter(|(_, word)| **word != NO_KEY) {
            self.words.push(*word);
            self.rows.push(row);
        }
    }

    /// Adds some of the rows.
    fn extend(&mut self, words: &[u64], first_row: u32, rows: &[u32]) {
        self.words.extend(rows.iter().map(|row| words[*row as usize]));
        self.rows.extend(rows.iter().map(|row| first_row + row));
    }

    /// Bytes per row in vectors that double.
    pub(super) const ROW_BYTES_MAX: usize = 2 * (size_of::<u64>() + size_of::<u32>());

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        (self.words.capacity() * size_of::<u64>() + self.rows.capacity() * size_of::<u32>()) as u64
    }
}

impl PartitionIndex {
    /// The lists of the partition, and the places of the rows of each list with at least `rows_min` rows.
    pub(super) fn long_lists(&mut self, rows_min: usize) -> (&mut [u32], Vec<Range<usize>>) {
        let mut long_lists = Vec::new();
        let mut place = 0;
        while let Some(rows) = self.lists.get(place) {
            let list = place + 1..place + 1 + *rows as usize;
            place = list.end;
            if list.len() >= rows_min {
                long_lists.push(list);
            }
        }
        (&mut self.lists, long_lists)
    }

    fn bytes(&self) -> u64 {
        let slots = match &self.slots {
            Slots::Direct(entries) => entries.len() * size_of::<u32>(),
            Slots::Ranked(keys) => keys.bytes(),
            Slots::Hashed(table) => table.bytes(),
        };
        (slots + self.lists.capacity() * size_of::<u32>()) as u64
    }
}

/// The index of all keys.
#[derive(Debug)]
pub(super) struct Index {
    tables: Tables,
    lists: Vec<u32>,
    /// Whether entries are the numbers of keys.
    has_groups: bool,
}

#[derive(Debug)]
enum Tables {
    Direct(Direct),
    Ranked(Ranked),
    Hashed(Hashed),
}

impl Tables {
    fn new(partitioning: Partitioning, slots: impl Iterator<Item = Slots>) -> Tables {
        match partitioning {
            Partitioning::Direct { shift, .. } => {
                Tables::Direct(Direct::new(slots.map(Slots::direct).collect(), shift))
            }
            Partitioning::Ranked { shift, .. } => {
                Tables::Ranked(Ranked::new(slots.map(Slots::ranked).collect(), shift))
            }
            Partitioning::Hashed { bits, hashing } => {
                Tables::Hashed(Hashed::new(slots.map(Slots::hashed).collect(), bits, hashing))
            }
        }
    }
}

/// Where the lists of each partition start; `rows` has the number of rows per partition. Leaves room for the longest
/// possible lists, because partitions are built at the same time.
pub(super) fn list_starts(rows: impl Iterator<Item = usize>) -> Vec<u32> {
    let mut next = 0;
    let start = |rows: usize| {
        let start = next as u32;
        next += lists::words_max(rows);
        start
    };
    rows.map(start).collect()
}

impl Index {
    /// Joins the tables of all partitions. Grows `memory` by the copied bytes.
    pub(super) fn new(
        partitioning: Partitioning,
        tables: Vec<PartitionIndex>,
        list_starts: &[u32],
        memory: &mut Reservation,
    ) -> Result<Index> {
        let with_lists = tables.iter().zip(list_starts).filter(|(table, _)| !table.lists.is_empty());
        let words = with_lists.clone().next_back().map_or(0, |(table, start)| *start as usize + table.lists.len());
        memory.grow((words * size_of::<u32>()) as u64)?;
        let mut lists = Vec::with_capacity(words);
        for (table, start) in with_lists {
            // Entries already name their lists by these places, so gaps that shorter lists left must be kept.
            lists.resize(*start as usize, 0);
            lists.extend_from_slice(&table.lists);
        }
        let tables = Tables::new(partitioning, tables.into_iter().map(|table| table.slots));
        Ok(Index { tables, lists, has_groups: false })
    }

    /// Joins the tables of all partitions, whose entries are the numbers of keys. The keys of a partition get the
    /// numbers after those of the partitions before it. Returns the first row of each key too.
    pub(super) fn of_groups(partitioning: Partitioning, mut tables: Vec<PartitionIndex>) -> (Index, Vec<u32>) {
        let mut firsts = Vec::with_capacity(tables.iter().map(|table| table.lists.len()).sum());
        for table in &mut tables {
            table.slots.renumber(firsts.len() as u32);
            firsts.append(&mut table.lists);
        }
        let tables = Tables::new(partitioning, tables.into_iter().map(|table| table.slots));
        (Index { tables, lists: Vec::new(), has_groups: true }, firsts)
    }

    /// Whether no two rows have the same key.
    pub(super) fn is_unique(&self) -> bool {
        self.lists.is_empty()
    }

    /// Looks up words and puts their entries into `entries`.
    pub(super) fn find(&self, words: &[u64], entries: &mut Vec<u32>) {
        entries.clear();
        entries.reserve(words.len());
        match &self.tables {
            Tables::Direct(direct) => direct.find(words, entries),
            Tables::Ranked(ranked) => ranked.find(words, entries),
            Tables::Hashed(hashed) => hashed.find(words, entries),
        }
    }

    /// The entry of the key that has this word and a row for which `is_it` is true.
    pub(super) fn find_one(&self, word: u64, is_it: impl Fn(u32) -> bool) -> u32 {
        match &self.tables {
            Tables::Direct(_) | Tables::Ranked(_) => unreachable!("only hashed words need a comparison of keys"),
            Tables::Hashed(hashed) => hashed.find_one(word, |entry| is_it(self.first(entry))),
        }
    }

    /// One row of an entry. If entries are the numbers of keys, the entry itself.
    #[inline]
    pub(super) fn first(&self, entry: u32) -> u32 {
        let is_list = entry & LIST != 0 && !self.has_groups;
        if is_list { self.lists[(entry ^ LIST) as usize + 1] } else { entry }
    }

    /// Puts the number of rows of each entry into `counts`. Reading one list after the other here lets the processor
    /// fetch many at once, so that they are in a cache when their rows are needed.
    pub(super) fn count(&self, entries: &[u32], counts: &mut Vec<u32>) {
        counts.clear();
        counts.extend(entries.iter().map(|entry| match *entry {
            NONE => 0,
            row if row & LIST == 0 => 1,
            list => self.lists[(list ^ LIST) as usize],
        }));
    }

    /// Puts the places of the rows of each entry with at least `rows_min` rows into `ranges`. The ranges of other
    /// entries are empty. `counts` are the numbers of rows of the entries.
    pub(super) fn long_ranges(&self, entries: &[u32], counts: &[u32], rows_min: usize, ranges: &mut Vec<Range<u32>>) {
        ranges.clear();
        ranges.extend(entries.iter().zip(counts).map(|(entry, count)| match *count as usize >= rows_min {
            true => (entry ^ LIST) + 1..(entry ^ LIST) + 1 + count,
            false => 0..0,
        }));
    }

    /// The rows at places of the lists.
    #[inline]
    pub(super) fn listed(&self, places: &Range<u32>) -> &[u32] {
        &self.lists[places.start as usize..places.end as usize]
    }

    /// The rows of an entry; `count` is their number.
    #[inline]
    pub(super) fn rows<'a>(&'a self, entry: &'a u32, count: u32) -> &'a [u32] {
        match count {
            // A single row is the entry itself.
            0 | 1 => &std::slice::from_ref(entry)[..count as usize],
            _ => &self.lists[(*entry ^ LIST) as usize + 1..][..count as usize],
        }
    }
}

/// The reason why a table always has the form that is asked for.
const ONE_FORM: &str = "all partitions have the same form";

impl Slots {
    /// Adds `base` to the entries of all keys.
    fn renumber(&mut self, base: u32) {
        match self {
            Slots::Direct(entries) => {
                entries.iter_mut().filter(|entry| **entry != NONE).for_each(|entry| *entry += base);
            }
            Slots::Ranked(keys) => keys.renumber(base),
            Slots::Hashed(table) => table.renumber(base),
        }
    }

    fn direct(self) -> Vec<u32> {
        match self {
            Slots::Direct(entries) => entries,
            _ => unreachable!("{ONE_FORM}"),
        }
    }

    fn ranked(self) -> RankedKeys {
        match self {
            Slots::Ranked(keys) => keys,
            _ => unreachable!("{ONE_FORM}"),
        }
    }

    fn hashed(self) -> HashTable {
        match self {
            Slots::Hashed(table) => table,
            _ => unreachable!("{ONE_FORM}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use rowmill_base::Broker;

    use super::*;

    /// The index of words in two parts. Each word is a key.
    fn index(partitioning: Partitioning, words: &[u64]) -> Index {
        let mut memory = Broker::new(1 << 30).reservation("test");
        let half = words.len() / 2;
        let mut parts = vec![vec![PartitionPart::default(); partitioning.count()]; 2];
        partitioning.scatter(&words[..half], 0, &mut parts[0]);
        partitioning.scatter(&words[half..], half as u32, &mut parts[1]);
        let of = |partition: usize| [&parts[0][partition], &parts[1][partition]];
        let starts =
            list_starts((0..partitioning.count()).map(|partition| of(partition).map(PartitionPart::len).iter().sum()));
        let table = |partition: usize| {
            partitioning.table(partition, &of(partition), starts[partition], |_, _| true, &mut memory).expect("memory")
        };
        let tables = (0..partitioning.count()).map(table).collect();
        Index::new(partitioning, tables, &starts, &mut memory).expect("memory")
    }

    #[test]
    fn every_row_is_found_by_its_key() {
        let random = &mut SmallRng::seed_from_u64(1);
        for keys in [1, 5, 100, 3_000, u64::MAX] {
            for rows in [0, 1, 10, 1_000] {
                for all_equal in [false, true] {
                    let mut word = |_| if random.random_bool(0.1) { NO_KEY } else { random.random_range(0..keys) };
                    let words: Vec<u64> = (0..rows).map(&mut word).collect();
                    // Ask for the words of the rows and for others that may be missing.
                    let asked: Vec<u64> = words.iter().copied().chain((0..100).map(&mut word)).collect();
                    let partitioning = Partitioning::new(rows, Some(keys), Hashing { all_equal });
                    let index = index(partitioning, &words);
                    let (mut entries, mut counts) = (Vec::new(), Vec::new());
                    index.find(&asked, &mut entries);
                    index.count(&entries, &mut counts);
                    for ((word, entry), count) in asked.iter().zip(&entries).zip(counts) {
                        let mut found = index.rows(entry, count).to_vec();
                        found.sort_unstable();
                        let is_it = |row: &u32| *word != NO_KEY && words[*row as usize] == *word;
                        let expected: Vec<u32> = (0..rows as u32).filter(is_it).collect();
                        assert_eq!(found, expected, "{word} of {rows} below {keys}, {partitioning:?}");
                        assert!(*entry == NONE || found.contains(&index.first(*entry)));
                    }
                    let mut all: Vec<u64> = words.iter().copied().filter(|word| *word != NO_KEY).collect();
                    let some = all.len();
                    all.sort_unstable();
                    all.dedup();
                    assert_eq!(index.is_unique(), all.len() == some);
                }
            }
        }
    }
}
