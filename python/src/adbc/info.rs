//! The facts of the driver and the database, in the form that ADBC wants: a number and a value of several types.

use std::collections::HashSet;
use std::sync::Arc;

use adbc_core::constants::ADBC_VERSION_1_1_0;
use adbc_core::options::InfoCode;
use adbc_core::schemas::GET_INFO_SCHEMA;
use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array, UnionArray, new_empty_array,
};
use arrow_schema::{ArrowError, DataType};

use crate::adbc::errors::AdbcResult;

/// A fact.
enum Fact {
    Text(&'static str),
    Flag(bool),
    Number(i64),
}

const FACTS: &[(InfoCode, Fact)] = &[
    (InfoCode::VendorName, Fact::Text("Rowmill")),
    (InfoCode::VendorVersion, Fact::Text(env!("CARGO_PKG_VERSION"))),
    (InfoCode::VendorSql, Fact::Flag(true)),
    (InfoCode::VendorSubstrait, Fact::Flag(false)),
    (InfoCode::DriverName, Fact::Text("ADBC driver of Rowmill")),
    (InfoCode::DriverVersion, Fact::Text(env!("CARGO_PKG_VERSION"))),
    (InfoCode::DriverAdbcVersion, Fact::Number(ADBC_VERSION_1_1_0 as i64)),
];

/// The facts with these codes, or all of them. Codes without a fact are left out, by the rules of ADBC.
pub(super) fn info_batch(codes: Option<HashSet<InfoCode>>) -> AdbcResult<RecordBatch> {
    let wanted = FACTS.iter().filter(|(code, _)| codes.as_ref().is_none_or(|codes| codes.contains(code)));
    let (mut names, mut type_ids, mut offsets) = (Vec::new(), Vec::<i8>::new(), Vec::<i32>::new());
    let (mut texts, mut flags, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for (code, fact) in wanted {
        names.push(u32::from(code));
        let (type_id, offset) = match fact {
            Fact::Text(text) => (0, pushed(&mut texts, *text)),
            Fact::Flag(flag) => (1, pushed(&mut flags, *flag)),
            Fact::Number(number) => (2, pushed(&mut numbers, *number)),
        };
        type_ids.push(type_id);
        offsets.push(offset);
    }
    let DataType::Union(fields, _) = GET_INFO_SCHEMA.field(1).data_type() else {
        return Err(ArrowError::SchemaError("the values of facts are a union".to_owned()).into());
    };
    let mut children: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(texts)),
        Arc::new(BooleanArray::from(flags)),
        Arc::new(Int64Array::from(numbers)),
    ];
    children.extend(fields.iter().skip(children.len()).map(|(_, field)| new_empty_array(field.data_type())));
    let values = UnionArray::try_new(fields.clone(), type_ids.into(), Some(offsets.into()), children)?;
    Ok(RecordBatch::try_new(GET_INFO_SCHEMA.clone(), vec![Arc::new(UInt32Array::from(names)), Arc::new(values)])?)
}

/// Adds a value. Returns its place.
fn pushed<T>(values: &mut Vec<T>, value: T) -> i32 {
    values.push(value);
    values.len() as i32 - 1
}
