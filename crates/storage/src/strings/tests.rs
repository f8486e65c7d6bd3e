//! Tests round trips through every layout, and reading damaged bytes.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, LargeBinaryArray, LargeStringArray, StringArray,
    StringViewArray,
};
use arrow::buffer::NullBuffer;
use proptest::prelude::*;
use rowmill_base::{ErrorKind, LengthUnit};

use super::*;

/// Values of few letters, so that they share prefixes. Zeros and the escape byte occur too.
fn values() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let letter = prop_oneof![8 => 97u8..100, 1 => Just(0u8), 1 => Just(255u8), 1 => any::<u8>()];
    let value = prop_oneof![
        20 => prop::collection::vec(letter, 0..40),
        1 => prop::collection::vec(Just(b'x'), 200..600),
    ];
    prop::collection::vec(value, 0..200)
}

fn sorted(mut values: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    values.sort();
    values.dedup();
    values
}

fn slices(values: &[Vec<u8>]) -> Vec<&[u8]> {
    values.iter().map(|value| &value[..]).collect()
}

fn bytes_of(strings: Vec<String>) -> Vec<Vec<u8>> {
    strings.into_iter().map(String::into_bytes).collect()
}

/// Checks that every way to read the list gives back `values`.
fn reads_back(stored: &[u8], values: &[&[u8]]) {
    let list = StringList::open(stored, values.len()).unwrap();
    assert_eq!(list.len(), values.len());
    assert_eq!(list.decoded_bytes(), values.iter().map(|value| value.len()).sum::<usize>());
    let decoded = list.decode(StringKind::Binary).unwrap();
    assert_eq!((0..decoded.len()).map(|index| decoded.value(index)).collect::<Vec<_>>(), values);
    assert_eq!(decoded.array().as_binary_view(), &BinaryViewArray::from_iter_values(values));
    let lengths = |count: fn(&[u8]) -> usize| values.iter().map(|value| count(value) as u32).collect::<Vec<_>>();
    let characters = |value: &[u8]| value.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
    for (unit, expected) in [(LengthUnit::Bytes, lengths(<[u8]>::len)), (LengthUnit::Characters, lengths(characters))] {
        assert_eq!(list.lengths(unit).unwrap(), expected);
        assert_eq!(decoded.lengths(unit), expected);
    }
    for (index, &value) in values.iter().enumerate() {
        let mut one = vec![1];
        list.get(index, &mut one).unwrap();
        assert_eq!(&one[1..], value);
    }
    let (from, to) = (values.len() / 3, values.len() - values.len() / 4);
    let range = list.decode_range(from..to, StringKind::Binary).unwrap();
    assert_eq!((0..range.len()).map(|index| range.value(index)).collect::<Vec<_>>(), &values[from..to]);
    for (numerator, denominator) in [(0, 1), (1, 1), (1, 2), (1, 9), (1, 40), (39, 40)] {
        let wanted: Vec<u32> = (0..values.len() as u32).filter(|value| value * 7 % denominator < numerator).collect();
        let picked = list.decode_wanted(&wanted, StringKind::Binary).unwrap();
        let expected: Vec<&[u8]> = wanted.iter().map(|&value| values[value as usize]).collect();
        assert_eq!((0..picked.len()).map(|index| picked.value(index)).collect::<Vec<_>>(), expected);
    }
}

/// Checks that `probe` is found at its position among ascending `values`.
fn finds(stored: &[u8], values: &[&[u8]], probe: &[u8]) {
    let list = StringList::open(stored, values.len()).unwrap();
    assert_eq!(list.lower_bound(probe).unwrap(), values.partition_point(|value| *value < probe), "{probe:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_layout_reads_back(values in values(), probe in prop::collection::vec(96u8..101, 0..6)) {
        let values = sorted(values);
        let values = slices(&values);
        for layout in ListLayout::ALL {
            let stored = encode_list_as(&values, layout).unwrap();
            reads_back(&stored, &values);
            finds(&stored, &values, &probe);
            if let Some(middle) = values.get(values.len() / 2) {
                finds(&stored, &values, middle);
            }
        }
        reads_back(&encode_list(&values).unwrap(), &values);
    }

    #[test]
    fn unordered_values_read_back(values in values()) {
        let values = slices(&values);
        for layout in ListLayout::ALL {
            reads_back(&encode_list_as(&values, layout).unwrap(), &values);
        }
    }

    #[test]
    fn rows_read_back(
        rows in prop::collection::vec(prop::option::of("[a-c]{0,20}|[а-в]{0,9}"), 0..150),
        part in 1usize..400,
    ) {
        let array: ArrayRef = Arc::new(StringViewArray::from_iter(&rows));
        let strings = ByteStrings::new(&array).unwrap();
        let one_part = encode_rows(&strings).unwrap();
        let parts = rows::encode_parts(&strings.rows(), part).unwrap();
        for stored in [one_part, parts] {
            let stored = StringRows::open(&stored, rows.len()).unwrap();
            let (from, to) = (rows.len() / 4, rows.len() - rows.len() / 5);
            let nulls = array.nulls().map(|nulls| nulls.slice(from, to - from));
            let read = stored.read(from..to, StringKind::Text, nulls.as_ref()).unwrap();
            prop_assert_eq!(&read, &array.slice(from, to - from));
            let numbers: Vec<u32> = (0..rows.len() as u32).filter(|row| row % 3 != 1).collect();
            let wanted = StringViewArray::from_iter(numbers.iter().map(|&row| rows[row as usize].as_deref()));
            let taken = stored.take(&numbers, StringKind::Text, wanted.nulls()).unwrap();
            prop_assert_eq!(taken.as_string_view(), &wanted);
        }
    }

    #[test]
    fn a_dictionary_agrees_with_its_rows(
        rows in prop::collection::vec(prop::option::of("[ab]{0,3}|[ab]{20,24}"), 0..300),
    ) {
        let array = StringViewArray::from_iter(&rows);
        let strings = ByteStrings::new(&array).unwrap();
        let dictionary = Dictionary::build(&strings);
        let mut expected: Vec<&[u8]> = rows.iter().flatten().map(|row| row.as_bytes()).collect();
        expected.sort_unstable();
        expected.dedup();
        prop_assert_eq!(&dictionary.values, &expected);
        for (index, value) in expected.iter().enumerate() {
            let rows = rows.iter().flatten().filter(|row| row.as_bytes() == *value).count();
            prop_assert_eq!(dictionary.counts[index] as usize, rows);
        }
        let list = encode_list(&dictionary.values).unwrap();
        let list = StringList::open(&list, expected.len()).unwrap().decode(StringKind::Text).unwrap();
        let views = list.views(&dictionary.codes).unwrap();
        prop_assert_eq!(views.as_string_view(), &array);
    }

    #[test]
    fn random_bytes_never_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), values in 0usize..70) {
        survives_list(&bytes, values);
        survives_rows(&bytes, values);
    }

    /// Puts random bytes after a valid header and a valid symbol table, because random bytes seldom get past these.
    #[test]
    fn random_bytes_after_a_valid_header_never_cause_a_panic(
        payload in prop::collection::vec(prop_oneof![3 => 0u8..3, 1 => any::<u8>()], 0..200),
        behind in prop::collection::vec(prop_oneof![1 => Just(0u8), 1 => 0u8..40, 1 => any::<u8>()], 100..400),
        tag in 0u8..4,
        decoded in 0u32..1000,
        values in 0usize..70,
        width in 0u8..6,
    ) {
        let mut bytes = vec![tag, 5, 0, 0];
        for number in [values as u32, decoded, payload.len() as u32] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&payload);
        if tag >= 2 {
            bytes.extend_from_slice(&[2, 1, 8, b'a', b'b', b'c', b'd', b'e', b'f', b'g', b'h', b'i']);
        }
        let low_bits = (values * usize::from(width)).div_ceil(8);
        for _ in 0..1 + usize::from(tag % 2) {
            bytes.extend_from_slice(&[width, 0, 0, 0, 0, 0, 0, 0, 0]);
            bytes.extend_from_slice(&behind[..low_bits]);
        }
        let groups = values.div_ceil(32);
        (1..groups).for_each(|group| bytes.extend_from_slice(&u32::from(behind[group]).to_le_bytes()));
        if groups > 0 {
            bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        }
        survives_list(&bytes, values);
    }
}

/// Reads everything that can be read. Errors and wrong values are allowed, but a panic is not.
fn survives_list(bytes: &[u8], values: usize) {
    let Ok(list) = StringList::open(bytes, values) else { return };
    let _ = list.decode(StringKind::Text);
    let _ = list.lengths(LengthUnit::Characters);
    let _ = list.decode(StringKind::Binary).map(|decoded| decoded.array().len());
    let _ = list.decode_range(values / 2..values, StringKind::Text);
    for step in [2, 3, 11, 50] {
        let wanted: Vec<u32> = (0..values as u32).step_by(step).collect();
        let _ = list.decode_wanted(&wanted, StringKind::Text);
    }
    let _ = list.lower_bound(b"abc");
    for index in 0..values.min(70) {
        let _ = list.get(index, &mut Vec::new());
    }
}

fn survives_rows(bytes: &[u8], values: usize) {
    let Ok(rows) = StringRows::open(bytes, values) else { return };
    let _ = rows.read(0..values, StringKind::Text, None);
    let _ = rows.take(&(0..values as u32).collect::<Vec<u32>>(), StringKind::Text, None);
}

#[test]
fn a_damaged_byte_never_causes_a_panic() {
    let values = sorted(bytes_of(samples::urls(150)));
    for layout in ListLayout::ALL {
        let stored = encode_list_as(&slices(&values), layout).unwrap();
        for position in 0..stored.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = stored.clone();
                damaged[position] ^= flip;
                survives_list(&damaged, values.len());
            }
        }
    }
}

#[test]
fn a_list_that_is_too_short_or_too_long_is_corrupt() {
    let values = sorted(bytes_of(samples::titles(100)));
    for layout in ListLayout::ALL {
        let stored = encode_list_as(&slices(&values), layout).unwrap();
        for len in 0..stored.len() {
            let error = StringList::open(&stored[..len], values.len()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        let longer = [&stored[..], &[0]].concat();
        assert_eq!(StringList::open(&longer, values.len()).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(StringList::open(&stored, values.len() + 1).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn damaged_rows_never_cause_a_panic() {
    let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(samples::tokens(150)));
    let stored = encode_rows(&ByteStrings::new(&array).unwrap()).unwrap();
    for position in 0..stored.len() {
        let mut damaged = stored.clone();
        damaged[position] ^= 0xff;
        survives_rows(&damaged, 150);
        survives_rows(&stored[..position], 150);
    }
}

#[test]
fn empty_and_single_value_lists_read_back() {
    for layout in ListLayout::ALL {
        for values in [vec![], vec![&b""[..]], vec![&b"x"[..]], vec![&b""[..], b"\0", b"\0\0"]] {
            let stored = encode_list_as(&values, layout).unwrap();
            reads_back(&stored, &values);
            for probe in [&b""[..], b"\0", b"z"] {
                finds(&stored, &values, probe);
            }
        }
    }
    let array: ArrayRef = Arc::new(StringArray::from(Vec::<&str>::new()));
    let stored = encode_rows(&ByteStrings::new(&array).unwrap()).unwrap();
    let rows = StringRows::open(&stored, 0).unwrap();
    assert!(rows.read(0..0, StringKind::Binary, None).unwrap().is_empty());
    assert!(rows.take(&[], StringKind::Text, None).unwrap().is_empty());
}

#[test]
fn long_values_read_back() {
    let prefix = "все счастливые семьи похожи друг на друга ".repeat(15_000);
    let values: Vec<Vec<u8>> = ["а", "б", "в"]
        .iter()
        .flat_map(|end| [format!("{prefix}{end}").into_bytes(), end.as_bytes().to_vec()])
        .collect();
    let values = sorted(values);
    assert!(values[5].len() > 1 << 20);
    for layout in ListLayout::ALL {
        reads_back(&encode_list_as(&slices(&values), layout).unwrap(), &slices(&values));
    }
}

#[test]
fn long_lists_of_real_strings_read_back() {
    for values in [samples::urls(20_000), samples::titles(20_000), samples::search_phrases(20_000)] {
        let values = sorted(bytes_of(values));
        for layout in ListLayout::ALL {
            reads_back(&encode_list_as(&slices(&values), layout).unwrap(), &slices(&values));
        }
    }
}

#[test]
fn characters_of_mixed_texts_are_counted() {
    let mut texts = samples::titles(3000);
    texts.extend(samples::urls(3000));
    texts.extend((0..300).map(|number| format!("http://example.org/{number}/\u{1f600}é{number}")));
    let values = sorted(bytes_of(texts));
    let expected: Vec<u32> =
        values.iter().map(|value| std::str::from_utf8(value).unwrap().chars().count() as u32).collect();
    for layout in ListLayout::ALL {
        let stored = encode_list_as(&slices(&values), layout).unwrap();
        let list = StringList::open(&stored, values.len()).unwrap();
        assert_eq!(list.lengths(LengthUnit::Characters).unwrap(), expected);
    }
}

/// Wants few values of some groups and many of others, so that both ways to decode a group alternate.
#[test]
fn wanted_values_are_found_in_sparse_and_dense_groups() {
    let values = bytes_of(samples::urls(20_000));
    let values = sorted(values);
    let values = slices(&values);
    let wanted = (0..values.len() as u32).filter(|value| match value / 500 % 3 {
        0 => value % 41 == 0,
        1 => value % 3 != 0,
        _ => value % 700 < 9,
    });
    let wanted: Vec<u32> = wanted.collect();
    for layout in ListLayout::ALL {
        let stored = encode_list_as(&values, layout).unwrap();
        let list = StringList::open(&stored, values.len()).unwrap();
        let (mut seen, mut windows) = (0, 0);
        list.for_each_wanted(&wanted, |window| {
            assert_eq!(window.first(), seen);
            for index in 0..window.len() {
                assert_eq!(window.value(index), values[wanted[seen + index] as usize]);
            }
            seen += window.len();
            windows += 1;
            Ok(())
        })
        .unwrap();
        assert!(seen == wanted.len() && windows < 1000, "{seen} values in {windows} windows");
    }
}

/// Values that symbol tables could get wrong: zeros within and after symbols, the escape code, nothing that repeats.
#[test]
fn binary_values_read_back() {
    let orders: [fn(u32) -> u32; 2] = [|number| number, |number| number.wrapping_mul(0x9e37_79b9) >> 8];
    let kinds: [fn(u32) -> Vec<u8>; 6] = [
        |number| number.to_be_bytes().to_vec(),
        |number| u128::from(number).to_le_bytes().to_vec(),
        |number| [&[0; 9][..], &number.wrapping_mul(256).to_be_bytes()].concat(),
        |number| [&[255; 5][..], &(!number).to_be_bytes(), &[255; 3]].concat(),
        |number| vec![0; number as usize % 700],
        |number| (0..20).map(|bit| (number >> bit & 1) as u8).collect(),
    ];
    for kind in kinds {
        for numbers in orders {
            let values = sorted((0..10_000).map(|number| kind(numbers(number))).collect());
            for layout in ListLayout::ALL {
                reads_back(&encode_list_as(&slices(&values), layout).unwrap(), &slices(&values));
            }
        }
    }
}

#[test]
fn text_that_is_not_utf8_is_corrupt() {
    // The second value continues a character of the first: all bytes together are valid UTF-8, but no value is by
    // itself.
    for values in [[&b"\xd0"[..], b"\xb0"], [b"a", b"\xff"]] {
        for layout in ListLayout::ALL {
            let stored = encode_list_as(&values, layout).unwrap();
            let list = StringList::open(&stored, 2).unwrap();
            assert!(list.decode(StringKind::Binary).is_ok());
            assert_eq!(list.decode(StringKind::Text).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}

#[test]
fn codes_beyond_the_list_are_corrupt() {
    let stored = encode_list(&[b"a", b"b"]).unwrap();
    let list = StringList::open(&stored, 2).unwrap().decode(StringKind::Text).unwrap();
    let views = list.views(&[1, 2, 0]).unwrap();
    assert_eq!(views.as_string_view(), &StringViewArray::from(vec![Some("b"), None, Some("a")]));
    assert_eq!(list.views(&[1, 3]).unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(list.views(&[]).unwrap().is_empty());
}

#[test]
fn views_share_the_bytes() {
    let values = sorted(bytes_of(samples::urls(100)));
    let stored = encode_list(&slices(&values)).unwrap();
    let list = StringList::open(&stored, values.len()).unwrap().decode(StringKind::Text).unwrap();
    let views = list.views(&[3, 2, 1]).unwrap();
    assert_eq!(views.as_string_view().data_buffers()[0].as_ptr(), list.bytes().as_ptr());
}

#[test]
fn every_kind_of_string_array_can_be_read() {
    let text = vec![Some("short"), None, Some("long enough to be no inline view"), Some("")];
    let nulls = NullBuffer::from(vec![true, false, true, true]);
    let bytes: Vec<Option<&[u8]>> = text.iter().map(|text| text.map(str::as_bytes)).collect();
    let arrays: [ArrayRef; 6] = [
        Arc::new(StringArray::from(text.clone())),
        Arc::new(LargeStringArray::from(text.clone())),
        Arc::new(StringViewArray::from(text)),
        Arc::new(BinaryArray::from(bytes.clone())),
        Arc::new(LargeBinaryArray::from(bytes.clone())),
        Arc::new(BinaryViewArray::from(bytes.clone())),
    ];
    for array in arrays {
        let strings = ByteStrings::new(&array).unwrap();
        assert_eq!(strings.nulls(), Some(&nulls));
        assert_eq!(strings.rows(), [&b"short"[..], b"", b"long enough to be no inline view", b""]);
        assert_eq!(Dictionary::build(&strings).codes, [2, 3, 1, 0]);
    }
    let numbers: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![1]));
    assert_eq!(ByteStrings::new(&numbers).unwrap_err().kind(), ErrorKind::Internal);
}

/// Symbol tables and front coding should keep paying off for the strings that they are made for.
#[test]
fn addresses_and_titles_shrink_to_a_third() {
    for (strings, times) in [(samples::urls(30_000), 3), (samples::titles(30_000), 3)] {
        let values = sorted(bytes_of(strings));
        let stored = encode_list(&slices(&values)).unwrap();
        let raw: usize = values.iter().map(Vec::len).sum();
        assert_eq!(StringList::open(&stored, values.len()).unwrap().layout(), ListLayout::FrontCodedFsst);
        assert!(stored.len() * times < raw, "{raw} bytes became {}", stored.len());
    }
}

#[test]
fn unique_tokens_are_stored_in_row_order() {
    let plan_of = |strings: Vec<String>| {
        let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(strings));
        matches!(plan(&ByteStrings::new(&array).unwrap()), StringPlan::Rows)
    };
    assert!(plan_of(samples::tokens(30_000)));
    assert!(!plan_of(samples::urls(30_000)));
    assert!(!plan_of((0..30_000).map(|number| format!("http://a.ru/page/number/{number}")).collect()));
}
