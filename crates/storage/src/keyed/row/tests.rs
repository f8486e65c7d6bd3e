//! Tests round trips of rows of every type, older rows, updates, and damaged rows.

use arrow::array::{Array, ArrayRef};
use proptest::prelude::*;

use super::*;
use crate::keyed::samples::{SampleValue, nullable_values, ordered_kinds};
use crate::keyed::{ByteRows, ColumnValues, decode_nested};

fn kinds() -> impl Strategy<Value = Vec<SqlType>> {
    let mut kinds = ordered_kinds();
    kinds.extend([SqlType::Interval, SqlType::List(Box::new(SqlType::Int32)), SqlType::TEXT, SqlType::TEXT]);
    proptest::collection::vec(proptest::sample::select(kinds), 1..12)
}

fn rows_of(kinds: &[SqlType]) -> BoxedStrategy<Vec<SampleValue>> {
    kinds.iter().map(nullable_values).collect::<Vec<_>>().boxed()
}

/// Makes types, three rows of them, and the number of columns that each row has.
fn rows() -> impl Strategy<Value = (Vec<SqlType>, Vec<Vec<SampleValue>>, Vec<usize>)> {
    kinds().prop_flat_map(|kinds| {
        let rows = proptest::collection::vec(rows_of(&kinds), 3);
        let columns = proptest::collection::vec(0..=kinds.len(), 3);
        (Just(kinds), rows, columns)
    })
}

fn has_list(kinds: &[SqlType]) -> bool {
    kinds.iter().any(|kind| matches!(kind, SqlType::List(_)))
}

/// Converts a list to a printed form, because its bytes depend on the array that it was cut from.
fn plain(value: ValueRef<'_>, kind: &SqlType) -> SampleValue {
    match (value, kind) {
        (ValueRef::Bytes(bytes), SqlType::List(_)) => {
            let array = decode_nested(bytes, kind).expect("a list is read");
            SampleValue::Text(format!("{array:?}"))
        }
        _ => SampleValue::of(value),
    }
}

fn refs(row: &[SampleValue]) -> Vec<ValueRef<'_>> {
    row.iter().map(SampleValue::as_ref).collect()
}

fn encode(layout: &RowLayout, row: &[SampleValue]) -> Vec<u8> {
    let mut bytes = Vec::new();
    layout.encode(&refs(row), &mut bytes).expect("values of their types");
    bytes
}

fn read(layout: &RowLayout, bytes: &[u8]) -> Result<Vec<SampleValue>> {
    let view = RowView::new(layout, bytes)?;
    (0..view.columns()).map(|column| Ok(SampleValue::of(view.get(column)?.expect("the row has it")))).collect()
}

/// Completes a row that is older than some columns with the missing values.
fn completed(row: &[SampleValue], missing: &[SampleValue]) -> Vec<SampleValue> {
    row.iter().chain(&missing[row.len()..]).cloned().collect()
}

/// Reads all columns of `rows` as arrays.
fn decode(layout: &RowLayout, rows: &[&[u8]], missing: &[SampleValue]) -> Result<Vec<Vec<SampleValue>>> {
    let wanted: Vec<_> = missing.iter().map(SampleValue::as_ref).enumerate().collect();
    let columns = layout.decode_columns(rows, &wanted)?;
    let columns = columns.iter().zip(&layout.columns).map(|(array, column)| ColumnValues::new(array, &column.kind));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let row = |row: usize| {
        columns.iter().zip(&layout.columns).map(move |(values, column)| plain(values.get(row), &column.kind))
    };
    Ok((0..rows.len()).map(|at| row(at).collect()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn rows_give_their_values_back((kinds, rows, lens) in rows()) {
        let layout = RowLayout::new(&kinds).unwrap();
        let rows_had: Vec<_> = rows.iter().zip(&lens).map(|(row, len)| &row[..*len]).collect();
        let encoded: Vec<_> = rows_had.iter().map(|row| encode(&layout, row)).collect();
        for (row, bytes) in rows_had.iter().zip(&encoded) {
            prop_assert_eq!(&read(&layout, bytes).unwrap()[..], *row);
            let view = RowView::new(&layout, bytes).unwrap();
            prop_assert!((row.len()..kinds.len()).all(|column| view.get(column).unwrap().is_none()));
        }
        // Decode to arrays, with the first row as the missing values. Whole rows should encode to the same bytes again.
        let slices: Vec<_> = encoded.iter().map(|bytes| &bytes[..]).collect();
        let as_arrays_do = |row: Vec<SampleValue>| {
            row.iter().zip(&kinds).map(|(value, kind)| plain(value.as_ref(), kind)).collect()
        };
        let expected: Vec<Vec<_>> = rows_had.iter().map(|row| as_arrays_do(completed(row, &rows[0]))).collect();
        prop_assert_eq!(decode(&layout, &slices, &rows[0]).unwrap(), expected);
        let whole: Vec<_> = rows.iter().map(|row| encode(&layout, row)).collect();
        let slices: Vec<_> = whole.iter().map(|bytes| &bytes[..]).collect();
        let wanted: Vec<_> = (0..kinds.len()).map(|column| (column, ValueRef::Null)).collect();
        let arrays = layout.decode_columns(&slices, &wanted).unwrap();
        let mut again = ByteRows::new();
        layout.encode_rows(rows.len(), &arrays, &mut again).unwrap();
        // The bytes of a list depend on the array that it was cut from.
        let again: Vec<_> = again.iter().collect();
        prop_assert!(has_list(&kinds) || again == slices);
        prop_assert_eq!(layout.decode_columns(&again, &wanted).unwrap(), arrays);
    }

    #[test]
    fn an_updated_row_equals_a_row_of_the_new_values((kinds, rows, lens) in rows(), changed in any::<u16>()) {
        let layout = RowLayout::new(&kinds).unwrap();
        let (old, new, missing) = (&rows[0][..lens[0]], &rows[1], &rows[2]);
        let is_changed = |column: usize| changed >> (column % 16) & 1 == 1;
        let changes: Vec<_> =
            (0..kinds.len()).filter(|at| is_changed(*at)).map(|at| (at, new[at].as_ref())).collect();
        let bytes = encode(&layout, old);
        let mut updated = b"before".to_vec();
        let view = RowView::new(&layout, &bytes).unwrap();
        layout.update(&view, changes.iter().copied(), |at| missing[at].as_ref(), &mut updated).unwrap();
        let grows = changes.iter().any(|(column, _)| *column >= old.len());
        let expected: Vec<_> = completed(old, missing)
            .into_iter()
            .enumerate()
            .map(|(column, value)| if is_changed(column) { new[column].clone() } else { value })
            .take(if grows { kinds.len() } else { old.len() })
            .collect();
        prop_assert_eq!(updated.strip_prefix(b"before").unwrap(), &encode(&layout, &expected)[..]);
    }

    #[test]
    fn damaged_rows_are_errors_or_other_values((kinds, rows, lens) in rows()) {
        let layout = RowLayout::new(&kinds).unwrap();
        let bytes = encode(&layout, &rows[0][..lens[0]]);
        for cut in 0..bytes.len() {
            prop_assert!(RowView::new(&layout, &bytes[..cut]).is_err(), "cut at {}", cut);
            prop_assert!(decode(&layout, &[&bytes, &bytes[..cut]], &rows[1]).is_err());
        }
        prop_assert!(RowView::new(&layout, &[&bytes[..], &[0]].concat()).is_err());
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                // Both ways to read should agree on whether the bytes are a row.
                let by_fields = read(&layout, &damaged);
                let by_columns = decode(&layout, &[&damaged], &rows[1]);
                prop_assert!(has_list(&kinds) || by_fields.is_ok() == by_columns.is_ok());
                if let Ok(view) = RowView::new(&layout, &damaged) {
                    let changes = rows[2].iter().map(SampleValue::as_ref).enumerate().take(1);
                    let _ = layout.update(&view, changes, |at| rows[1][at].as_ref(), &mut Vec::new());
                }
            }
        }
    }
}

#[test]
fn long_strings_make_a_wide_row() {
    let layout = RowLayout::new(&[SqlType::TEXT, SqlType::Int32, SqlType::Blob, SqlType::TEXT]).unwrap();
    for len in [65_530, 65_535, 65_536, 200_000] {
        let long = "x".repeat(len - 5);
        let row = [ValueRef::Text("ab"), ValueRef::Int(-7), ValueRef::Bytes(long.as_bytes()), ValueRef::Text("end")];
        let mut bytes = Vec::new();
        layout.encode(&row, &mut bytes).unwrap();
        let view = RowView::new(&layout, &bytes).unwrap();
        for (column, value) in row.into_iter().enumerate() {
            assert_eq!(view.get(column).unwrap(), Some(value));
        }
        // A narrow row may become wide, and a wide row narrow.
        for text in ["", &long] {
            let mut updated = Vec::new();
            let changes = [(0, ValueRef::Text(text)), (2, ValueRef::Null)];
            layout.update(&view, changes.into_iter(), |at| row[at], &mut updated).unwrap();
            let updated = RowView::new(&layout, &updated).unwrap();
            let expected = [ValueRef::Text(text), row[1], ValueRef::Null, row[3]];
            for (column, value) in expected.into_iter().enumerate() {
                assert_eq!(updated.get(column).unwrap(), Some(value));
            }
        }
    }
}

#[test]
fn a_failed_encode_or_update_appends_nothing() {
    let layout = RowLayout::new(&[SqlType::TEXT, SqlType::Int8]).unwrap();
    let mut bytes = b"before".to_vec();
    // In narrow rows and in wide rows.
    for text in ["a", &"x".repeat(70_000)] {
        for value in [ValueRef::Int(-129), ValueRef::Text("1")] {
            assert!(layout.encode(&[ValueRef::Text(text), value], &mut bytes).is_err());
            assert_eq!(bytes, b"before");
        }
    }
    let mut row = Vec::new();
    layout.encode(&[ValueRef::Text("a"), ValueRef::Int(1)], &mut row).unwrap();
    let view = RowView::new(&layout, &row).unwrap();
    let changes = [(1, ValueRef::Int(300))].into_iter();
    let error = layout.update(&view, changes, |_| ValueRef::Null, &mut bytes).unwrap_err();
    assert_eq!((error.kind(), &bytes[..]), (ErrorKind::NumericOutOfRange, &b"before"[..]));
    assert_eq!(RowLayout::new(&vec![SqlType::Boolean; 1 << 15]).unwrap_err().kind(), ErrorKind::StatementTooComplex);
}

/// Checks the exact bytes, because they are on disk and must not change.
#[test]
fn rows_have_the_documented_bytes() {
    let layout = RowLayout::new(&[SqlType::TEXT, SqlType::Int32, SqlType::Boolean, SqlType::TEXT]).unwrap();
    let mut bytes = Vec::new();
    layout.encode(&[ValueRef::Text("ab"), ValueRef::Int(-2), ValueRef::Null, ValueRef::Text("c")], &mut bytes).unwrap();
    assert_eq!(bytes, [4, 0, 0b0100, 2, 0, 254, 255, 255, 255, 0, 3, 0, b'a', b'b', b'c']);
    let array: ArrayRef = layout.decode_columns(&[&bytes], &[(3, ValueRef::Null)]).unwrap().remove(0);
    assert_eq!((array.len(), array.null_count()), (1, 0));
}
