use std::sync::Arc;

use rowmill::arrow::array::{ArrayRef, Float64Array, Int32Array, StringViewArray};

use super::*;

#[test]
fn a_batch_becomes_messages_of_its_rows() {
    let columns: [(&str, ArrayRef); 2] = [
        ("a", Arc::new(Int32Array::from(vec![Some(7), None]))),
        ("b", Arc::new(StringViewArray::from(vec![None, Some("x")]))),
    ];
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).expect("a batch");
    let mut encoded =
        EncodedBatch::new(&batch, &batch.schema(), &[WireFormat::Binary, WireFormat::Text]).expect("known types");
    let mut out = BytesMut::new();
    assert_eq!(encoded.encode_rows(0..2, &mut out, usize::MAX), 2);
    let expected = b"D\0\0\0\x12\0\x02\0\0\0\x04\0\0\0\x07\xff\xff\xff\xffD\0\0\0\x0f\0\x02\xff\xff\xff\xff\0\0\0\x01x";
    assert_eq!(&out[..], expected);
    out.clear();
    // The limit ends the encoding after the row that reaches it.
    assert_eq!(encoded.encode_rows(0..2, &mut out, 1), 1);
}

#[test]
fn formats_are_given_for_all_or_for_each() {
    assert_eq!(formats(&[], 2, "columns"), Ok(vec![WireFormat::Text; 2]));
    assert_eq!(formats(&[1], 2, "columns"), Ok(vec![WireFormat::Binary; 2]));
    assert_eq!(formats(&[1, 0], 2, "columns"), Ok(vec![WireFormat::Binary, WireFormat::Text]));
    assert!(formats(&[1, 0], 3, "columns").is_err() && formats(&[2], 1, "columns").is_err());
}

#[test]
fn values_of_copy_are_escaped() {
    let format = CopyTextFormat { delimiter: b'|', null: "\\N".to_owned() };
    let mut out = b"|".to_vec();
    CopyEscapes::new(&format).put(b"a|b\\c\n", &mut out);
    assert_eq!(out, b"|a\\|b\\\\c\\n");
}

#[test]
fn a_line_of_copy_escapes_texts_and_what_looks_like_the_delimiter() {
    let columns: [(&str, ArrayRef); 3] = [
        ("a", Arc::new(Int32Array::from(vec![Some(-75), None]))),
        ("b", Arc::new(StringViewArray::from(vec![Some("tab\t7"), Some("")]))),
        ("c", Arc::new(Float64Array::from(vec![1e300, 0.5]))),
    ];
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).expect("a batch");
    let mut encoded = EncodedBatch::new(&batch, &batch.schema(), &[WireFormat::Text; 3]).expect("known types");
    let mut lines = |delimiter| {
        let format = CopyTextFormat { delimiter, null: "\\N".to_owned() };
        let (escapes, mut out) = (CopyEscapes::new(&format), Vec::new());
        (0..2).for_each(|row| encoded.copy_text_row(row, &escapes, &mut out));
        String::from_utf8(out).expect("UTF-8")
    };
    assert_eq!(lines(b'\t'), "-75\ttab\\t7\t1e300\n\\N\t\t0.5\n");
    assert_eq!(lines(b'7'), "-\\757tab\\t\\771e300\n\\N770.5\n");
}
