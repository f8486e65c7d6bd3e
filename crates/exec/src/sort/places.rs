//! Sorts the places of rows whose columns are in memory as a whole.

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema};
use rowmill_base::{Reservation, Result};

use super::SortKey;
use super::entry::{Entry, PART_ROWS_MAX, Wide};
use super::key::KeyLayout;
use super::long::LongKeys;
use super::order::EntryOrder;

/// Returns the places of the rows of `columns` in the order of `keys`, which must have at least one key. Rows with
/// equal keys keep their order. The memory that the sort needs until it returns is taken from `memory`.
pub(crate) fn places_in_order(columns: &[ArrayRef], keys: &[SortKey], memory: &mut Reservation) -> Result<Vec<u32>> {
    places_in_groups(columns, keys, &[0, columns[0].len()], memory)
}

/// Returns the places of rows as [`places_in_order`] does, but sorts the rows of each group alone. `starts` says where
/// each group begins, and ends with the number of rows. The rows of a group often fit a cache, and its values are
/// nearer each other than those of all groups.
pub(crate) fn places_in_groups(
    columns: &[ArrayRef],
    keys: &[SortKey],
    starts: &[usize],
    memory: &mut Reservation,
) -> Result<Vec<u32>> {
    let fields = columns.iter().map(|column| Field::new("", column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let layout = KeyLayout::new(keys.to_vec(), &schema)?;
    let before = memory.bytes();
    let places = match layout.is_narrow() {
        true => places::<u128>(&layout, columns, starts, memory),
        false => places::<Wide>(&layout, columns, starts, memory),
    };
    // All temporary memory is free again, even after an error.
    memory.recount(before);
    places
}

fn places<E: Entry>(
    layout: &KeyLayout,
    columns: &[ArrayRef],
    starts: &[usize],
    memory: &mut Reservation,
) -> Result<Vec<u32>> {
    let rows = columns[0].len();
    let largest = starts.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0);
    // Entries need room twice, because sorting moves them. Those of a group among several are copied first.
    let moved = if largest == rows { rows } else { 2 * largest };
    memory.grow(((rows + moved) * size_of::<E>() + rows * size_of::<u32>()) as u64)?;
    let (mut entries, mut long): (Vec<E>, Vec<LongKeys>) = (Vec::with_capacity(rows), Vec::new());
    for (part, start) in (0..rows).step_by(PART_ROWS_MAX).enumerate() {
        let keys = layout.keys.iter().map(|key| columns[key.column].slice(start, PART_ROWS_MAX.min(rows - start)));
        let keys = layout.add_entries(&keys.collect::<Vec<_>>(), part, &mut entries)?;
        memory.grow(keys.as_ref().map_or(0, LongKeys::bytes) as u64)?;
        long.extend(keys);
    }
    let order = match layout.long() {
        None => EntryOrder::of_entries(),
        Some(layout) => EntryOrder::of_long(long.iter().collect(), layout.is_descending()),
    };
    let (mut of_group, mut scratch) = (Vec::new(), Vec::new());
    match starts {
        [_, _] => order.sort(&mut entries, &mut scratch),
        _ => starts.windows(2).filter(|ends| ends[1] - ends[0] > 1).for_each(|ends| {
            of_group.clear();
            of_group.extend_from_slice(&entries[ends[0]..ends[1]]);
            order.sort(&mut of_group, &mut scratch);
            entries[ends[0]..ends[1]].copy_from_slice(&of_group);
        }),
    }
    let place = |entry: &E| {
        let place = entry.place();
        (place.part * PART_ROWS_MAX + place.row) as u32
    };
    Ok(entries.iter().map(place).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray, UInt32Array};
    use arrow::compute::{SortColumn, lexsort_to_indices};
    use rowmill_base::{Broker, ErrorKind};

    #[test]
    fn places_match_a_stable_sort() {
        let rows = PART_ROWS_MAX as i64 + 5_000;
        let numbers = (0..rows).map(|row| (row % 5 != 0).then_some(row * 7_919 % 1_003));
        let texts = (0..rows).map(|row| (row % 3 != 0).then(|| format!("{} and something", row * 31 % 97)));
        let columns: [ArrayRef; 3] = [
            Arc::new(UInt32Array::from_iter_values((0..rows).map(|row| (row % 4) as u32))),
            Arc::new(Int64Array::from_iter(numbers)),
            Arc::new(StringViewArray::from_iter(texts)),
        ];
        let key = |column, descending, nulls_first| SortKey { column, descending, nulls_first };
        let orders = [
            vec![key(0, false, false), key(1, true, true)],
            vec![key(2, true, false)],
            vec![key(0, false, false), key(2, false, true), key(1, true, false)],
        ];
        let mut memory = Broker::new(1 << 30).reservation("test");
        for keys in orders {
            let found = places_in_order(&columns, &keys, &mut memory).expect("in order");
            let place: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..rows as u32));
            let of = |key: &SortKey| SortColumn {
                values: Arc::clone(&columns[key.column]),
                options: Some(super::super::options(key)),
            };
            let by: Vec<SortColumn> =
                keys.iter().map(of).chain([SortColumn { values: place, options: None }]).collect();
            assert_eq!(found, lexsort_to_indices(&by, None).expect("sorted").values().to_vec(), "{keys:?}");

            let starts = [0, 0, 1, 700, 1_000, 30_000, rows as usize];
            let grouped = places_in_groups(&columns, &keys, &starts, &mut memory).expect("in order");
            let in_group = |ends: &[usize]| {
                let range = ends[0] as u32..ends[1] as u32;
                found.iter().copied().filter(|place| range.contains(place)).collect::<Vec<u32>>()
            };
            assert_eq!(grouped, starts.windows(2).flat_map(in_group).collect::<Vec<u32>>(), "{keys:?}");
            assert_eq!(memory.bytes(), 0);
        }
        let mut little = Broker::new(1 << 20).reservation("test");
        let failed = places_in_order(&columns, &[key(1, false, false)], &mut little).expect_err("too little");
        assert_eq!(failed.kind(), ErrorKind::MemoryLimit);
    }
}
