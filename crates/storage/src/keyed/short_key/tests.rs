//! Compares shortened keys with whole ones.

use std::ops::Bound;

use proptest::prelude::*;
use rowmill_base::SqlType;

use super::*;
use crate::keyed::{KeyPart, ValueRef};

const HEAD: &[u8] = b"head";

/// Makes a text of up to thousands of bytes. Many of the texts begin alike.
fn texts() -> impl Strategy<Value = Option<String>> {
    let lengths = prop_oneof![Just(0), Just(1), 330..350_usize, 500..520_usize, 1010..1030_usize, Just(5000)];
    let ends = proptest::sample::select(vec!["", "a", "b", "\0", "\0\0", "\0b", "\u{10ffff}", "ab\0c"]);
    let text = (lengths, proptest::sample::select(vec!["p", "\0", "é"]), ends);
    proptest::option::weighted(0.9, text.prop_map(|(len, of, end)| of.repeat(len / of.len()) + end))
}

type Row = (Vec<Option<String>>, i64);

/// Makes the descending flags of some parts, and rows.
fn rows() -> impl Strategy<Value = (Vec<bool>, Vec<Row>)> {
    proptest::collection::vec(any::<bool>(), 1..4).prop_flat_map(|descending| {
        let row = (proptest::collection::vec(texts(), descending.len()), 0..3_i64);
        (Just(descending), proptest::collection::vec(row, 2..6))
    })
}

fn codec(descending: &[bool]) -> KeyCodec {
    let text = |descending: &bool| KeyPart { kind: SqlType::TEXT, nullable: true, descending: *descending };
    let mut parts: Vec<_> = descending.iter().map(text).collect();
    parts.push(KeyPart::new(SqlType::Int64));
    KeyCodec::new(&parts).unwrap()
}

fn values(row: &[Option<String>]) -> Vec<ValueRef<'_>> {
    row.iter().map(|value| value.as_deref().map_or(ValueRef::Null, ValueRef::Text)).collect()
}

/// The whole key of a row, and its stored key.
fn keys(codec: &KeyCodec, (row, number): &Row) -> (Vec<u8>, Vec<u8>) {
    let mut whole = HEAD.to_vec();
    codec.encode(&values(row), &mut whole).unwrap();
    let mut kept = whole.clone();
    let is_short = codec.shorten(row.len(), HEAD.len(), &mut kept).unwrap();
    assert_eq!(is_short, whole.len() > HEAD.len() + SHORT_PREFIX_BYTES);
    for key in [&mut whole, &mut kept] {
        codec.encode_part(row.len(), ValueRef::Int(*number), key).unwrap();
    }
    (whole, kept)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn stored_keys_tell_their_form_and_sort_like_whole_keys((descending, rows) in rows()) {
        let (codec, parts) = (codec(&descending), descending.len());
        let keys: Vec<_> = rows.iter().map(|row| keys(&codec, row)).collect();
        for ((row, (whole, kept)), at) in rows.iter().zip(&keys).zip(0..) {
            let key = &kept[HEAD.len()..];
            prop_assert!(key.len() <= SHORT_BYTES + 8);
            let columns = whole.len() - HEAD.len() - 8;
            let is_short = columns > SHORT_PREFIX_BYTES;
            let expected = if is_short { KeptParts::Short } else { KeptParts::Whole(columns) };
            prop_assert_eq!(codec.kept_parts(parts, key).unwrap(), expected);
            prop_assert_eq!(codec.is_short(parts, key), is_short);
            if is_short {
                prop_assert_eq!(KeyCodec::short_has_null(key), row.0.iter().any(Option::is_none));
                for cut in 0..SHORT_BYTES {
                    prop_assert!(codec.kept_parts(parts, &key[..cut]).is_err());
                }
            }
            for ((other, (other_whole, other_kept)), other_at) in rows.iter().zip(&keys).zip(0..) {
                // Stored keys may sort differently only if both are shortened and have the same first bytes.
                let beginning = HEAD.len() + SHORT_PREFIX_BYTES;
                let is_alike = is_short && other_kept.starts_with(&kept[..beginning]);
                if !is_alike {
                    prop_assert_eq!(kept.cmp(other_kept), whole.cmp(other_whole));
                }
                let columns = HEAD.len() + SHORT_BYTES;
                if is_alike {
                    prop_assert_eq!(kept[..columns] == other_kept[..columns], row.0 == other.0, "{} {}", at, other_at);
                }
            }
        }
    }

    #[test]
    fn a_stored_range_has_every_key_that_was_asked_for(
        (descending, rows, equal, how) in rows().prop_flat_map(|(descending, rows)| {
            let equal = 0..=descending.len();
            (Just(descending), Just(rows), equal, (0..3_u8, 0..3_u8))
        }),
    ) {
        let (codec, parts) = (codec(&descending), descending.len());
        let (given, other) = (values(&rows[0].0), values(&rows[1].0));
        let bound = |how, row: &[ValueRef<'static>]| match how {
            0 => Bound::Unbounded,
            1 => Bound::Included(row[equal]),
            _ => Bound::Excluded(row[equal]),
        };
        let leak = |row: &[ValueRef<'_>]| -> Vec<ValueRef<'static>> {
            row.iter().map(|value| match value {
                ValueRef::Text(text) => ValueRef::Text(Box::leak((*text).to_owned().into_boxed_str())),
                _ => ValueRef::Null,
            }).collect()
        };
        let (lower, upper) = match equal == parts {
            true => (Bound::Unbounded, Bound::Unbounded),
            false => (bound(how.0, &leak(&given)), bound(how.1, &leak(&other))),
        };
        let mut asked = KeyRange::default();
        codec.range(HEAD, &given[..equal], lower, upper, &mut asked).unwrap();
        let mut kept_range = KeyRange::default();
        let fit = codec.kept_range(parts, HEAD.len(), &asked, &mut kept_range).unwrap();
        for row in &rows {
            let (whole, kept) = keys(&codec, row);
            let (is_asked, is_kept) = (asked.contains(&whole), kept_range.contains(&kept));
            prop_assert!(is_kept || !is_asked);
            if fit != RangeFit::Wider {
                prop_assert_eq!(is_kept, is_asked);
            }
        }
        prop_assert!(fit != RangeFit::Wider || equal < parts);
    }

    #[test]
    fn the_beginning_of_a_cut_string_is_read(text in texts(), descending in any::<bool>()) {
        let codec = codec(&[descending]);
        let text = text.unwrap_or_default();
        let mut key = Vec::new();
        codec.encode(&[ValueRef::Text(&text)], &mut key).unwrap();
        key.truncate(key.len() - 2);
        let mut scratch = Vec::new();
        prop_assert_eq!(codec.reader(&key).cut_string(&mut scratch).unwrap(), text.as_bytes());
    }
}

#[test]
fn hashes_never_change() {
    // Hashes are on disk. The first one is the value of the reference implementation for a key of zeros and no bytes.
    let hex = |bytes: &[u8]| hash_of(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(b""), EMPTY_HASH);
    assert_eq!(hex(&[b'p'; 2000]), LONG_HASH);
}

const EMPTY_HASH: &str = "5049d74780a3e07d4202ab47d4cef2f4";
const LONG_HASH: &str = "c5e807bd72f7d26ae75819e244c644c0";

#[test]
fn a_range_of_one_long_value_is_the_range_of_its_hash() {
    let codec = codec(&[false]);
    let text = "p".repeat(3000);
    let mut asked = KeyRange::default();
    codec.range(HEAD, &[ValueRef::Text(&text)], Bound::Unbounded, Bound::Unbounded, &mut asked).unwrap();
    let mut kept = KeyRange::default();
    assert_eq!(codec.kept_range(1, HEAD.len(), &asked, &mut kept).unwrap(), RangeFit::OneValue);
    let (_, key) = keys(&codec, &(vec![Some(text)], 7));
    assert_eq!(kept, KeyRange::of_prefix(&key[..HEAD.len() + SHORT_BYTES]));
}

#[test]
fn texts_with_a_short_limit_are_never_shortened() {
    let codec = |chars| {
        let kind = SqlType::Text { chars_max: Some(chars) };
        KeyCodec::new(&[KeyPart { kind, nullable: true, descending: false }, KeyPart::new(SqlType::Int64)]).unwrap()
    };
    assert!(codec(256).may_be_short(1));
    assert!(!codec(255).may_be_short(1));
    for longest in ["\u{10ffff}", "\0", "é"].map(|text| text.repeat(255)) {
        let mut key = HEAD.to_vec();
        codec(255).encode(&[ValueRef::Text(&longest)], &mut key).unwrap();
        assert!(!codec(255).shorten(1, HEAD.len(), &mut key).unwrap());
    }
}
