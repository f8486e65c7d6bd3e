//! Choices by NULL, and facts that are the same in every row.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Datum, Int32Array, Scalar, StringViewArray, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Operand;

use crate::kernels::truth;
use crate::kinds::{arrow_failed, type_name};

pub(super) fn nvl2(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let [tested, known, unknown] = arguments else { return Err(Error::internal("nvl2 takes three values")) };
    // An array of the type NULL has no validity bitmap, so it needs its own case.
    let is_known = match tested.values.data_type() {
        DataType::Null => BooleanArray::from(vec![false; tested.values.len()]),
        _ => truth::is_not_null(&tested.values),
    };
    let is_known = match tested.is_constant {
        true => BooleanArray::from(vec![is_known.value(0); rows]),
        false => is_known,
    };
    let values = |operand: &Operand| -> Box<dyn Datum> {
        match operand.is_constant {
            true => Box::new(Scalar::new(operand.values.clone())),
            false => Box::new(operand.values.clone()),
        }
    };
    zip(&is_known, &*values(known), &*values(unknown)).map_err(arrow_failed)
}

pub(super) fn type_of(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    Ok(everywhere(&type_name(arguments[0].values.data_type()), rows))
}

pub(super) fn arrow_type_of(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    Ok(everywhere(&arguments[0].values.data_type().to_string(), rows))
}

pub(super) fn collation(_arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    Ok(everywhere("\"default\"", rows))
}

pub(super) fn version(_arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    Ok(everywhere(concat!("Rowmill ", env!("CARGO_PKG_VERSION")), rows))
}

/// Returns the number of arguments that are NULL, or of those that are not.
pub(super) fn count(arguments: &[Operand], rows: usize, of_values: bool) -> ArrayRef {
    let nulls: Vec<_> = arguments.iter().map(|argument| argument.values.logical_nulls()).collect();
    let counts = (0..rows).map(|row| {
        let is_counted = |(argument, nulls): &(&Operand, &Option<NullBuffer>)| {
            nulls.as_ref().is_none_or(|nulls| nulls.is_valid(argument.at(row))) == of_values
        };
        arguments.iter().zip(&nulls).filter(is_counted).count() as i32
    });
    Arc::new(counts.collect::<Int32Array>())
}

pub(super) fn error(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let texts = arguments[0].values.as_string_view();
    match (0..rows).map(|row| arguments[0].at(row)).find(|row| texts.is_valid(*row)) {
        Some(row) => Err(Error::new(ErrorKind::InvalidParameter, texts.value(row))),
        None => Ok(new_null_array(kind, rows)),
    }
}

pub(super) fn column_size(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let values = &arguments[0].values;
    let nulls = values.logical_nulls();
    let sizes = (0..rows).map(|row| {
        let at = arguments[0].at(row);
        let is_valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at));
        is_valid.then(|| value_bytes(values, at))
    });
    Ok(Arc::new(sizes.collect::<Int32Array>()))
}

fn value_bytes(values: &ArrayRef, at: usize) -> i32 {
    let bytes = match values.data_type() {
        DataType::Boolean => 1,
        DataType::Utf8View => values.as_string_view().value(at).len(),
        DataType::BinaryView => values.as_binary_view().value(at).len(),
        kind => match kind.primitive_width() {
            Some(bytes) => bytes,
            None => values.slice(at, 1).to_data().get_slice_memory_size().unwrap_or(0),
        },
    };
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

/// Returns a column with the same text in every row.
fn everywhere(text: &str, rows: usize) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(text, rows)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, ArrayRef, Decimal128Array, Float64Array, Int64Array, ListArray, StringViewArray};
    use arrow::datatypes::{DataType, Int64Type};
    use rowmill_plan::Operand;

    use crate::functions::find;
    use crate::functions::signatures::{BIGINT, TEXT};
    use crate::functions::test_call::*;

    /// Calls the kernel for three rows, with arguments that already have one type.
    fn three(name: &str, kind: &DataType, arguments: &[Operand]) -> Vec<String> {
        let made = (find(name).unwrap().kernel)(arguments, kind, 3).unwrap();
        assert_eq!((made.data_type(), made.len()), (kind, 3));
        show(&made)
    }

    #[test]
    fn extremes_ignore_null() {
        let (a, b) = (bigint([Some(1), None, None]), bigint([Some(2), Some(3), None]));
        assert_eq!(three("greatest", &BIGINT, &[a.clone(), b.clone()]), ["2", "3", "NULL"]);
        assert_eq!(three("least", &BIGINT, &[a.clone(), b.clone()]), ["1", "3", "NULL"]);
        assert_eq!(three("greatest", &BIGINT, &[b.clone(), a.clone()]), ["2", "3", "NULL"]);
        assert_eq!(three("greatest", &BIGINT, &[a.clone(), constant(2), b.clone()]), ["2", "3", "2"]);
        assert_eq!(three("least", &BIGINT, &[constant(2), a.clone(), null(&BIGINT)]), ["1", "2", "2"]);
        assert_eq!(three("least", &BIGINT, &[null(&BIGINT), a]), ["1", "NULL", "NULL"]);
        assert_eq!(three("greatest", &BIGINT, &[constant(1), constant(4)]), ["4"; 3]);
        assert_eq!(three("greatest", &BIGINT, &[b]), ["2", "3", "NULL"]);
    }

    #[test]
    fn extremes_order_values_as_comparisons_do() {
        let texts = |values: [Option<&str>; 3]| Operand::rows(Arc::new(StringViewArray::from_iter(values)));
        let words = texts([Some("b"), Some("я"), None]);
        assert_eq!(three("greatest", &TEXT, &[words.clone(), constant("B")]), ["b", "я", "B"]);
        assert_eq!(three("least", &TEXT, &[words, constant("B")]), ["B", "B", "B"]);
        let numbers = Operand::rows(Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(-1.0), None])));
        assert_eq!(three("greatest", &DataType::Float64, &[numbers.clone(), number(1.0)]), ["NaN", "1.0", "1.0"]);
        assert_eq!(three("least", &DataType::Float64, &[numbers, number(1.0)]), ["1.0", "-1.0", "1.0"]);
        let decimals = Decimal128Array::from(vec![Some(150), Some(-5), None]).with_precision_and_scale(5, 2).unwrap();
        let kind = decimals.data_type().clone();
        let decimals: ArrayRef = Arc::new(decimals);
        assert_eq!(three("greatest", &kind, &[Operand::rows(decimals)]), ["1.50", "-0.05", "NULL"]);
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1)]), None, Some(vec![Some(9)])]);
        let other = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), Some(0)])]);
        let kind = lists.data_type().clone();
        let made = three("greatest", &kind, &[column(lists), Operand::constant(Arc::new(other))]);
        assert_eq!(made, ["[1, 0]", "[1, 0]", "[9]"]);
    }

    #[test]
    fn choices_by_null_and_facts_about_values() {
        let tested = bigint([Some(1), None, Some(3)]);
        assert_eq!(three("nvl2", &TEXT, &[tested.clone(), constant("known"), constant("-")]), ["known", "-", "known"]);
        let words = Operand::rows(Arc::new(StringViewArray::from(vec!["a", "b", "c"])));
        assert_eq!(three("nvl2", &TEXT, &[tested, words.clone(), null(&TEXT)]), ["a", "NULL", "c"]);
        assert_eq!(three("nvl2", &TEXT, &[null(&DataType::Null), constant("x"), words]), ["a", "b", "c"]);
        assert_eq!(shown("typeof", &[column(Int64Array::from(vec![1, 2]))]), ["BIGINT", "BIGINT"]);
        assert_eq!(shown("typeof", &[null(&DataType::Null)]), ["NULL"]);
        assert_eq!(shown("arrow_typeof", &[text([None])]), ["Utf8View"]);
        assert!(shown("version", &[])[0].starts_with("Rowmill "));
    }
}
