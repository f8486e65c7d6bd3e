use std::sync::Arc;

use proptest::prelude::*;
use rowmill::arrow::array::{Array, Decimal128Array, Float64Array, Int64Array, StringViewArray};

use super::*;
use crate::encode::{CellBytes, cell_bytes};

fn text(kind: PgScalar, value: &str) -> Result<BoundValue, WireError> {
    decode(PgType::scalar(kind), WireFormat::Text, &Bytes::copy_from_slice(value.as_bytes()))
}

#[test]
fn texts_are_read_by_their_type() {
    assert_eq!(text(PgScalar::Bool, " tr "), Ok(BoundValue::Boolean(true)));
    assert_eq!(text(PgScalar::Bool, "OFF"), Ok(BoundValue::Boolean(false)));
    assert!(text(PgScalar::Bool, "").is_err() && text(PgScalar::Bool, "o").is_err());
    assert_eq!(text(PgScalar::Int4, " +7 "), Ok(BoundValue::Integer(7)));
    assert_eq!(text(PgScalar::Int2, "40000").expect_err("too large").sqlstate, "22003");
    assert_eq!(text(PgScalar::Int8, "1.0").expect_err("no integer").sqlstate, "22P02");
    assert_eq!(text(PgScalar::Float8, "-Infinity"), Ok(BoundValue::Double(f64::NEG_INFINITY)));
    assert_eq!(text(PgScalar::Numeric, "-12.50"), Ok(BoundValue::Decimal(-1250, 2)));
    assert_eq!(text(PgScalar::Numeric, "12e-1"), Ok(BoundValue::Decimal(12, 1)));
    assert_eq!(text(PgScalar::Numeric, "1e30"), Ok(BoundValue::Text("1e30".to_owned())));
    assert!(text(PgScalar::Numeric, "NaN").is_err() && text(PgScalar::Numeric, ".").is_err());
    assert_eq!(text(PgScalar::Bytea, "\\x00Ff"), Ok(BoundValue::Blob(Bytes::from_static(b"\0\xff"))));
    assert_eq!(text(PgScalar::Bytea, "a\\\\\\101"), Ok(BoundValue::Blob(Bytes::from_static(b"a\\A"))));
    assert!(text(PgScalar::Bytea, "\\x0").is_err() && text(PgScalar::Bytea, "\\9").is_err());
    assert!(text(PgScalar::Text, "a\0").is_err());
}

#[test]
fn array_literals_become_json() {
    let list = |value: &'static str| {
        let kind = PgType { scalar: PgScalar::Text, is_array: true };
        decode(kind, WireFormat::Text, &Bytes::from_static(value.as_bytes()))
    };
    let json = |value: &str| Ok(BoundValue::Text(value.to_owned()));
    assert_eq!(list("{}"), json("[]"));
    assert_eq!(list(" {a, \"b,\\\"c\" ,NULL,\"NULL\"} "), json(r#"["a","b,\"c",null,"NULL"]"#));
    assert_eq!(list("{{1},{}}"), json(r#"[["1"],[]]"#));
    assert_eq!(list("[2:3]={x,y}"), json(r#"["x","y"]"#));
    for wrong in ["", "{", "{a", "{a,}", "{,}", "{a}b", "{{{{{{{{a}}}}}}}}", "{\"a}"] {
        assert!(list(wrong).is_err(), "{wrong}");
    }
}

/// Encodes the only value of an array in binary and decodes it again.
fn there_and_back(array: Arc<dyn Array>, kind: PgScalar, format: WireFormat) -> BoundValue {
    let CellBytes(bytes) = cell_bytes(&array, format);
    let bytes = Bytes::from(bytes.expect("not NULL"));
    decode(PgType::scalar(kind), format, &bytes).expect("what we write can be read")
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_without_a_panic(
        scalar in prop::sample::select(vec![
            PgScalar::Bool, PgScalar::Bytea, PgScalar::Int8, PgScalar::Int2, PgScalar::Int4, PgScalar::Text,
            PgScalar::Json, PgScalar::Float4, PgScalar::Float8, PgScalar::Date, PgScalar::Time, PgScalar::Timestamp,
            PgScalar::Timestamptz, PgScalar::Interval, PgScalar::Numeric, PgScalar::Uuid,
        ]),
        is_array: bool,
        is_binary: bool,
        bytes in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(b'{'), Just(b','), any::<u8>()], 0..64),
    ) {
        let format = if is_binary { WireFormat::Binary } else { WireFormat::Text };
        let _ = decode(PgType { scalar, is_array }, format, &Bytes::from(bytes));
    }

    #[test]
    fn any_array_is_decoded_without_a_panic(
        dimensions in 0..8_u8,
        item in prop::sample::select(vec![16_u32, 23, 25, 1082, 1186, 1700, 1007, 0]),
        bytes in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(255), any::<u8>()], 0..64),
    ) {
        let mut value = vec![0, 0, 0, dimensions, 0, 0, 0, 1];
        value.extend(item.to_be_bytes());
        value.extend(bytes);
        let kind = PgType { scalar: PgScalar::Text, is_array: true };
        let _ = decode(kind, WireFormat::Binary, &Bytes::from(value));
    }

    #[test]
    fn decimals_go_there_and_back(digits: i128, scale in 0..=38_u8, is_binary: bool) {
        let digits = digits % 10_i128.pow(38);
        let array = Decimal128Array::from(vec![digits]).with_precision_and_scale(38, scale as i8).expect("38 digits");
        let format = if is_binary { WireFormat::Binary } else { WireFormat::Text };
        let back = there_and_back(Arc::new(array), PgScalar::Numeric, format);
        prop_assert_eq!(back, BoundValue::Decimal(digits, scale));
    }

    #[test]
    fn numbers_and_texts_go_there_and_back(number: i64, double: f64, text in "[^\0]{0,30}", is_binary: bool) {
        let format = if is_binary { WireFormat::Binary } else { WireFormat::Text };
        let back = there_and_back(Arc::new(Int64Array::from(vec![number])), PgScalar::Int8, format);
        prop_assert_eq!(back, BoundValue::Integer(number));
        let back = there_and_back(Arc::new(Float64Array::from(vec![double])), PgScalar::Float8, format);
        prop_assert_eq!(back, BoundValue::Double(double));
        let back = there_and_back(Arc::new(StringViewArray::from(vec![text.as_str()])), PgScalar::Text, format);
        prop_assert_eq!(back, BoundValue::Text(text));
    }
}
