//! Compares the order of keys with the order of their values, and reads damaged keys.

use std::cmp::Ordering;
use std::ops::Bound;

use arrow::array::{Array, ArrayRef};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;
use crate::keyed::samples::{SampleValue, nullable_values, ordered_kinds, values};
use crate::keyed::{ByteRows, ColumnValues, KeyRange};

fn parts() -> impl Strategy<Value = Vec<KeyPart>> {
    let kind = proptest::sample::select(ordered_kinds());
    let part = (kind, any::<bool>(), any::<bool>());
    let part = part.prop_map(|(kind, nullable, descending)| KeyPart { kind, nullable, descending });
    proptest::collection::vec(part, 1..4)
}

fn rows_of(parts: &[KeyPart]) -> BoxedStrategy<Vec<SampleValue>> {
    parts
        .iter()
        .map(|part| if part.nullable { nullable_values(&part.kind) } else { values(&part.kind) })
        .collect::<Vec<_>>()
        .boxed()
}

/// Makes parts, and some rows for them. One row often shares its first values with another.
fn keys() -> impl Strategy<Value = (Vec<KeyPart>, Vec<Vec<SampleValue>>)> {
    parts().prop_flat_map(|parts| {
        let rows = (rows_of(&parts), rows_of(&parts), 0..=parts.len());
        let rows = rows.prop_map(|(first, second, alike)| {
            let mixed = first[..alike].iter().chain(&second[alike..]).cloned().collect();
            vec![first, second, mixed]
        });
        (Just(parts), rows)
    })
}

fn compare(parts: &[KeyPart], a: &[SampleValue], b: &[SampleValue]) -> Ordering {
    let compared = parts.iter().zip(a.iter().zip(b)).map(|(part, (a, b))| {
        let ascending = a.compare(b);
        if part.descending { ascending.reverse() } else { ascending }
    });
    compared.fold(Ordering::Equal, Ordering::then)
}

fn encode(codec: &KeyCodec, row: &[SampleValue]) -> Vec<u8> {
    let mut key = Vec::new();
    codec.encode(&row.iter().map(SampleValue::as_ref).collect::<Vec<_>>(), &mut key).expect("values of their types");
    key
}

/// Reads all parts of a key, in every possible way.
fn decode(codec: &KeyCodec, key: &[u8]) -> Result<Vec<SampleValue>> {
    let (mut reader, mut scratch, mut row) = (codec.reader(key), Vec::new(), Vec::new());
    while let Some(value) = reader.next(&mut scratch)? {
        row.push(SampleValue::of(value));
    }
    for (part, value) in row.iter().enumerate() {
        assert_eq!(SampleValue::of(codec.value(key, part, &mut scratch)?), *value);
    }
    Ok(row)
}

fn decode_column(codec: &KeyCodec, keys: &[&[u8]], part: usize) -> Result<Vec<SampleValue>> {
    let mut wanted = vec![false; codec.parts().len()];
    wanted[part] = true;
    let array = codec.decode_columns(keys, 0, &wanted)?[part].clone().expect("a wanted part");
    let values = ColumnValues::new(&array, &codec.parts()[part].kind)?;
    Ok((0..array.len()).map(|row| SampleValue::of(values.get(row))).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn keys_sort_like_their_values((parts, rows) in keys()) {
        let codec = KeyCodec::new(&parts).unwrap();
        let encoded: Vec<_> = rows.iter().map(|row| encode(&codec, row)).collect();
        for (a, key_a) in rows.iter().zip(&encoded) {
            for (b, key_b) in rows.iter().zip(&encoded) {
                prop_assert_eq!(key_a.cmp(key_b), compare(&parts, a, b));
            }
        }
    }

    #[test]
    fn keys_give_their_values_back((parts, rows) in keys()) {
        let codec = KeyCodec::new(&parts).unwrap();
        let encoded: Vec<_> = rows.iter().map(|row| encode(&codec, row)).collect();
        for (row, key) in rows.iter().zip(&encoded) {
            prop_assert_eq!(&decode(&codec, key).unwrap(), row);
            for len in 0..=parts.len() {
                let prefix = encode(&codec, &row[..len]);
                prop_assert_eq!(codec.prefix_bytes(key, len).unwrap(), prefix.len());
                prop_assert!(KeyRange::of_prefix(&prefix).contains(key));
            }
        }
        let keys: Vec<_> = encoded.iter().map(|key| &key[..]).collect();
        for part in 0..parts.len() {
            let column: Vec<_> = rows.iter().map(|row| row[part].clone()).collect();
            prop_assert_eq!(decode_column(&codec, &keys, part).unwrap(), column);
        }
        // Decode all columns together, and encode them to the same keys again.
        let columns = codec.decode_columns(&keys, 0, &vec![true; parts.len()]).unwrap();
        let columns: Vec<ArrayRef> = columns.into_iter().map(Option::unwrap).collect();
        let mut again = ByteRows::new();
        codec.encode_rows(b"head", &columns, &mut again).unwrap();
        for (key, again) in keys.iter().zip(again.iter()) {
            prop_assert_eq!(*key, again.strip_prefix(b"head").unwrap());
        }
    }

    #[test]
    fn a_range_has_exactly_the_keys_that_meet_the_condition(
        (parts, rows, bounds, equal) in keys().prop_flat_map(|(parts, rows)| {
            let equal = 0..parts.len();
            let bounds = (rows_of(&parts), rows_of(&parts), 0..3_u8, 0..3_u8);
            (Just(parts), Just(rows), bounds, equal)
        }),
        with_head in any::<bool>(),
    ) {
        let codec = KeyCodec::new(&parts).unwrap();
        let head: &[u8] = if with_head { &[0, 0, 0, 255] } else { &[] };
        let bound = |how: u8, row: &[SampleValue]| match how {
            0 => Bound::Unbounded,
            1 => Bound::Included(row[equal].clone()),
            _ => Bound::Excluded(row[equal].clone()),
        };
        let (lower, upper) = (bound(bounds.2, &bounds.0), bound(bounds.3, &bounds.1));
        let is_in = |row: &[SampleValue]| {
            let unbounded = matches!((&lower, &upper), (Bound::Unbounded, Bound::Unbounded));
            let above = |value: &SampleValue| match &lower {
                Bound::Unbounded => true,
                Bound::Included(bound) => value.compare(bound).is_ge() && !bound.as_ref().is_null(),
                Bound::Excluded(bound) => value.compare(bound).is_gt() && !bound.as_ref().is_null(),
            };
            let below = |value: &SampleValue| match &upper {
                Bound::Unbounded => true,
                Bound::Included(bound) => value.compare(bound).is_le() && !bound.as_ref().is_null(),
                Bound::Excluded(bound) => value.compare(bound).is_lt() && !bound.as_ref().is_null(),
            };
            let value = &row[equal];
            row[..equal] == rows[0][..equal]
                && (unbounded || !value.as_ref().is_null() && above(value) && below(value))
        };
        let mut range = KeyRange::default();
        let first: Vec<_> = rows[0][..equal].iter().map(SampleValue::as_ref).collect();
        let by_ref = |bound: &Bound<SampleValue>| match bound {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(value) => Bound::Included(value.clone()),
            Bound::Excluded(value) => Bound::Excluded(value.clone()),
        };
        let (lower_value, upper_value) = (by_ref(&lower), by_ref(&upper));
        let [lower, upper] = [&lower_value, &upper_value].map(|value| value.as_ref().map(SampleValue::as_ref));
        codec.range(head, &first, lower, upper, &mut range)
            .unwrap();
        for row in rows.iter().chain([&bounds.0, &bounds.1]) {
            let key = [head, &encode(&codec, row)].concat();
            prop_assert_eq!(range.contains(&key) && !range.is_empty(), is_in(row), "{:?} in {:?}", row, range);
        }
    }

    #[test]
    fn damaged_keys_are_errors_or_other_values(
        (parts, rows) in keys(), place in any::<proptest::sample::Index>(), flip in 1..=255_u8,
    ) {
        let codec = KeyCodec::new(&parts).unwrap();
        let key = encode(&codec, &rows[0]);
        for cut in 0..key.len() {
            prop_assert!(decode(&codec, &key[..cut]).is_err(), "cut at {}", cut);
            prop_assert!(codec.prefix_bytes(&key[..cut], parts.len()).is_err());
            prop_assert!(codec.decode_columns(&[&key, &key[..cut]], 0, &vec![true; parts.len()]).is_err());
        }
        let longer = [&key[..], &[0]].concat();
        prop_assert!(decode(&codec, &longer).is_err());
        prop_assert!(codec.decode_columns(&[&longer], 0, &vec![true; parts.len()]).is_err());
        let mut damaged = key;
        let place = place.index(damaged.len());
        damaged[place] ^= flip;
        let columns = codec.decode_columns(&[&damaged], 0, &vec![true; parts.len()]);
        prop_assert_eq!(decode(&codec, &damaged).is_ok(), columns.is_ok());
        let _ = codec.prefix_bytes(&damaged, parts.len());
    }
}

/// Compares pairs of values of each type alone, because the mixed keys above meet each type too rarely.
#[test]
fn keys_of_every_single_type_sort_like_its_values() {
    for kind in ordered_kinds() {
        for (nullable, descending) in [(false, false), (true, false), (false, true), (true, true)] {
            let part = KeyPart { kind: kind.clone(), nullable, descending };
            let codec = KeyCodec::new(std::slice::from_ref(&part)).unwrap();
            let pair = (rows_of(std::slice::from_ref(&part)), rows_of(std::slice::from_ref(&part)));
            let mut runner = TestRunner::new(ProptestConfig::with_cases(200));
            runner
                .run(&pair, |(a, b)| {
                    let expected = compare(std::slice::from_ref(&part), &a, &b);
                    prop_assert_eq!(encode(&codec, &a).cmp(&encode(&codec, &b)), expected);
                    Ok(())
                })
                .unwrap();
        }
    }
}

#[test]
fn types_without_an_order_are_refused() {
    for kind in [SqlType::Interval, SqlType::List(Box::new(SqlType::Int32)), SqlType::Struct(Vec::new())] {
        let error = KeyCodec::new(&[KeyPart::new(SqlType::Int32), KeyPart::new(kind)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}

#[test]
fn a_failed_encode_appends_nothing() {
    let parts = [KeyPart::new(SqlType::TEXT), KeyPart::new(SqlType::Int8)];
    let codec = KeyCodec::new(&parts).unwrap();
    let mut key = b"head".to_vec();
    let cases = [
        (ValueRef::Int(128), ErrorKind::NumericOutOfRange),
        (ValueRef::Null, ErrorKind::NotNullViolation),
        (ValueRef::Text("1"), ErrorKind::Internal),
    ];
    for (value, kind) in cases {
        let error = codec.encode(&[ValueRef::Text("a"), value], &mut key).unwrap_err();
        assert_eq!((error.kind(), &key[..]), (kind, &b"head"[..]));
    }
    let decimal = KeyCodec::new(&[KeyPart::new(SqlType::Decimal { precision: 3, scale: 1 })]).unwrap();
    assert!(decimal.encode(&[ValueRef::Decimal(-1000)], &mut key).is_err());
    decimal.encode(&[ValueRef::Decimal(-999)], &mut key).unwrap();
}

/// Checks the exact bytes, because they are on disk and must not change.
#[test]
fn keys_have_the_documented_bytes() {
    let parts = [
        KeyPart::new(SqlType::Int32),
        KeyPart { kind: SqlType::TEXT, nullable: true, descending: false },
        KeyPart { kind: SqlType::UInt16, nullable: true, descending: true },
    ];
    let codec = KeyCodec::new(&parts).unwrap();
    let mut key = Vec::new();
    codec.encode(&[ValueRef::Int(-2), ValueRef::Text("a\0b"), ValueRef::Null], &mut key).unwrap();
    assert_eq!(key, [0x7f, 255, 255, 254, 1, b'a', 0, 255, b'b', 0, 0, 253]);
    key.clear();
    codec.encode(&[ValueRef::Int(1), ValueRef::Null, ValueRef::UInt(3)], &mut key).unwrap();
    assert_eq!(key, [0x80, 0, 0, 1, 2, 254, 255, 252]);
}
