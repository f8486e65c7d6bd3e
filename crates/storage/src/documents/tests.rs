use arrow::array::{Array, StringViewArray};
use proptest::prelude::*;

use super::cut::{CutDocuments, cut, cut_in_pieces};
use super::directory::{PartAnswer, PathDirectory};
use super::restore::DocumentParts;
use super::scalar::PartType;

fn restored(cut: &CutDocuments) -> StringViewArray {
    let kinds = cut.directory.paths().iter().map(|path| path.kind);
    DocumentParts::new(kinds.zip(&cut.parts)).unwrap().restore(&cut.skeletons).unwrap()
}

fn check(documents: &[Option<&str>]) -> CutDocuments {
    let documents = StringViewArray::from_iter(documents.iter().copied());
    let cut = cut(&documents, 1).unwrap();
    assert_eq!(restored(&cut), documents);
    for (threads, rows) in [(1, 1), (2, 3), (4, 2)] {
        let in_pieces = cut_in_pieces(&documents, threads, rows).unwrap();
        assert_eq!((&in_pieces.directory, &in_pieces.skeletons), (&cut.directory, &cut.skeletons));
        assert_eq!(in_pieces.parts, cut.parts);
    }
    let bytes = cut.directory.encode();
    assert_eq!(PathDirectory::read(&bytes, cut.directory.paths().len()).unwrap(), cut.directory);
    cut
}

fn answer(cut: &CutDocuments, keys: &[&str]) -> PartAnswer {
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    cut.directory.answer(&keys)
}

/// The type of the part at a path, if it is complete.
fn kind(cut: &CutDocuments, keys: &[&str]) -> Option<PartType> {
    match answer(cut, keys) {
        PartAnswer::Stored(_, kind) => Some(kind),
        _ => None,
    }
}

#[test]
fn documents_of_one_shape_have_one_skeleton_and_complete_parts() {
    let cut = check(&[
        Some(r#"{"kind": "commit", "seq": 7, "at": {"x": 1.5, "ok": true}, "tags": ["a"]}"#),
        Some(r#"{"kind": "other \"one\"", "seq": -9, "at": {"x": 2, "ok": false}, "tags": ["a"]}"#),
        None,
        Some(r#"{"kind": "", "seq": 0, "at": {"x": 1e2, "ok": true}, "tags": ["a"]}"#),
    ]);
    assert_eq!(cut.skeletons.value(0), cut.skeletons.value(1));
    assert_eq!(kind(&cut, &["kind"]), Some(PartType::Text));
    assert_eq!(kind(&cut, &["seq"]), Some(PartType::Integer));
    assert_eq!(kind(&cut, &["at", "ok"]), Some(PartType::Boolean));
    // 1e2 is not written as we would write it.
    assert_eq!(answer(&cut, &["at", "x"]), PartAnswer::Unknown);
    assert_eq!(answer(&cut, &["at"]), PartAnswer::Unknown);
    assert_eq!(answer(&cut, &["tags"]), PartAnswer::Unknown);
    assert_eq!(answer(&cut, &["tags", "a"]), PartAnswer::Missing);
    assert_eq!(answer(&cut, &["seq", "x"]), PartAnswer::Missing);
    assert_eq!(answer(&cut, &["no"]), PartAnswer::Missing);
}

#[test]
fn only_the_first_member_with_a_key_belongs_to_a_path() {
    let cut = check(&[Some(r#"{"a": 1, "a": 2, "\u0061": 3}"#), Some(r#"{"a": {"b": 1}, "a": {"b": 2, "c": 3}}"#)]);
    assert_eq!(answer(&cut, &["a", "c"]), PartAnswer::Missing);
    assert_eq!(kind(&cut, &["a", "b"]), Some(PartType::Integer));
    let cut = check(&[Some(r#"{"\u0061": 1, "a": 2}"#)]);
    assert_eq!(kind(&cut, &["a"]), Some(PartType::Integer));
    assert_eq!(restored(&cut).value(0), r#"{"\u0061": 1, "a": 2}"#);
}

#[test]
fn null_counts_as_no_value() {
    let cut = check(&[Some(r#"{"a": null, "b": null}"#), Some(r#"{"a": 1}"#), Some("{}")]);
    assert_eq!(kind(&cut, &["a"]), Some(PartType::Integer));
    assert_eq!(answer(&cut, &["b"]), PartAnswer::Missing);
}

#[test]
fn values_of_another_type_stay_in_the_skeleton() {
    let cut = check(&[Some(r#"{"a": 1}"#), Some(r#"{"a": 2}"#), Some(r#"{"a": "x"}"#)]);
    assert_eq!(answer(&cut, &["a"]), PartAnswer::Unknown);
    assert!(!cut.parts[0].is_valid(2));
}

#[test]
fn numbers_and_strings_that_we_would_write_differently_stay() {
    for other in ["-0", "1.50", "1E5", "1e400", "12345678901234567890123", "0.1e1", "9007199254740993.5"] {
        let cut = check(&[Some(&format!(r#"{{"a": {other}}}"#))]);
        assert_ne!(kind(&cut, &["a"]), Some(PartType::Integer), "{other}");
    }
    for other in [r"\u0061", r"\/", r"\ud800", r"\u00E9", r"\u000A"] {
        let cut = check(&[Some(&format!(r#"{{"a": "{other}"}}"#))]);
        assert_eq!(answer(&cut, &["a"]), PartAnswer::Unknown, "{other}");
    }
    for same in [r"\n\t\r\b\f\\\u0000\u001f", "\u{1f600} é", r#"\""#] {
        let cut = check(&[Some(&format!(r#"{{"a": "{same}"}}"#))]);
        assert_eq!(kind(&cut, &["a"]), Some(PartType::Text), "{same}");
    }
}

#[test]
fn bytes_that_are_no_json_come_back_too() {
    for text in
        ["", "{", "{\"a\": 1", "{\"a\": 1}x", "\0", "{\"a\": \"\0\u{100}\"}", "{\"a\" 1}", "[1", "\"", "{\"a\": \"\\"]
    {
        check(&[Some(text), Some(r#"{"a": 1}"#), None]);
    }
    let cut = check(&[Some("{\"a\": 1, \"b\" 2}"), Some(r#"{"a": 1}"#)]);
    assert_eq!(answer(&cut, &["a"]), PartAnswer::Unknown);
    assert_eq!(answer(&cut, &["c"]), PartAnswer::Unknown);
}

#[test]
fn documents_with_keys_as_data_or_deep_objects_come_back() {
    let many: Vec<String> = (0..6000).map(|key| format!(r#"{{"same": {key}, "key {key}": {key}}}"#)).collect();
    let cut = check(&many.iter().map(|text| Some(text.as_str())).collect::<Vec<_>>());
    assert_eq!(kind(&cut, &["same"]), Some(PartType::Integer));
    assert_eq!(answer(&cut, &["key 5999"]), PartAnswer::Unknown);
    let deep = format!("{}1{}", r#"{"a":"#.repeat(400), "}".repeat(400));
    let cut = check(&[Some(&deep)]);
    assert_eq!(answer(&cut, &vec!["a"; 400]), PartAnswer::Unknown);
}

#[test]
fn damaged_directories_are_refused() {
    let cut = check(&[Some(r#"{"kind": "commit", "seq": 7, "tags": ["a"]}"#)]);
    let bytes = cut.directory.encode();
    let count = cut.directory.paths().len();
    for at in 0..bytes.len() {
        for flip in [1, 0x80] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            PathDirectory::read(&damaged, count).unwrap_err();
            // A writer of hostile bytes fits the checksum.
            let end = damaged.len() - 4;
            let checksum = crc32fast::hash(&damaged[..end]);
            damaged[end..].copy_from_slice(&checksum.to_le_bytes());
            let _ = PathDirectory::read(&damaged, count);
        }
    }
    for len in 0..bytes.len() {
        PathDirectory::read(&bytes[..len], count).unwrap_err();
    }
    PathDirectory::read(&bytes, count + 1).unwrap_err();
}

#[test]
fn damaged_skeletons_are_refused() {
    let mut cut = check(&[Some(r#"{"kind": "commit", "seq": 7}"#)]);
    for damaged in ["\0", "\0\u{2}", "\0\0\0\0\0\0", "{\0\u{1}"] {
        cut.skeletons = StringViewArray::from_iter_values([damaged]);
        let kinds = cut.directory.paths().iter().map(|path| path.kind);
        let result = DocumentParts::new(kinds.zip(&cut.parts)).unwrap().restore(&cut.skeletons);
        assert_eq!(result.is_err(), damaged != "{\0\u{1}", "{damaged:?}");
    }
}

/// Texts of scalars. For some of them, we would write other bytes for the same value.
fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        (-20_i64..20).prop_map(|number| number.to_string()),
        any::<f64>().prop_filter("JSON has no NaN", |number| number.is_finite()).prop_map(|number| number.to_string()),
        (-99_i64..99, 0_u32..30).prop_map(|(digits, power)| format!("{digits}e{power}")),
        "[1-9][0-9]{15,40}(\\.[0-9]{1,3})?",
        Just("-0".to_owned()),
        Just("-0.0".to_owned()),
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        string(),
    ]
}

fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-c 0-9]{0,3}",
        Just("\\\"".to_owned()),
        Just("\\\\".to_owned()),
        Just("\\n".to_owned()),
        Just("\\/".to_owned()),
        Just("\\u0061".to_owned()),
        Just("\\u0000".to_owned()),
        Just("\\ud83d\\ude00".to_owned()),
        Just("\\ud83d".to_owned()),
        Just("\u{1f600}".to_owned()),
        Just("é".to_owned()),
    ];
    proptest::collection::vec(piece, 0..4).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("\"a\"".to_owned()),
        Just("\"b\"".to_owned()),
        Just("\"\"".to_owned()),
        Just("\"\\u0061\"".to_owned()),
        string(),
    ]
}

fn space() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just(""), 1 => Just(" "), 1 => Just("\n\t "), 1 => Just("\r\n")]
}

fn document() -> impl Strategy<Value = String> {
    scalar().prop_recursive(6, 40, 5, |inner| {
        let member = (space(), key(), space(), space(), inner.clone(), space());
        let member = member.prop_map(|(a, key, b, c, value, d)| format!("{a}{key}{b}:{c}{value}{d}"));
        let object = (space(), proptest::collection::vec(member, 0..5));
        let item = (space(), inner, space()).prop_map(|(a, value, b)| format!("{a}{value}{b}"));
        let array = (space(), proptest::collection::vec(item, 0..4));
        prop_oneof![
            3 => object.prop_map(|(a, members)| format!("{{{a}{}}}", members.join(","))),
            1 => array.prop_map(|(a, items)| format!("[{a}{}]", items.join(","))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn random_documents_come_back_byte_for_byte(
        documents in proptest::collection::vec(proptest::option::weighted(0.9, document()), 1..40)
    ) {
        check(&documents.iter().map(Option::as_deref).collect::<Vec<_>>());
    }

    #[test]
    fn random_texts_come_back_byte_for_byte(
        documents in proptest::collection::vec("[{}\\[\\],:\"\\\\a0 1en\0\u{100}]{0,12}", 1..10)
    ) {
        check(&documents.iter().map(|text| Some(text.as_str())).collect::<Vec<_>>());
    }
}
