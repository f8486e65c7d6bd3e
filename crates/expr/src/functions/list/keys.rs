//! Keys of items, which compare, sort and hash as the SQL values do.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, UInt64Type,
};
use arrow::row::{RowConverter, Rows, SortField};
use rowmill_base::Result;

use crate::functions::time::columns::failed;

/// Returns the keys of each of `sources`, which must have one type. Keys of different sources can be compared. NULL is
/// less than every value and equal to NULL. All arguments should be converted in one call, because keys of different
/// calls are not comparable.
pub(crate) fn keys_of<const N: usize>(sources: [&ArrayRef; N]) -> Result<[Rows; N]> {
    let kind = sources[0].data_type().clone();
    let converter = RowConverter::new(vec![SortField::new(kind)]).map_err(failed)?;
    let mut keys = Vec::with_capacity(N);
    for source in sources {
        keys.push(converter.convert_columns(&[with_one_zero(source)?]).map_err(failed)?);
    }
    keys.try_into().map_err(|_| failed("each source has keys"))
}

/// Whether an item equals a value, both given by their index. NULL equals NULL.
pub(in crate::functions) type ItemEquality<'a> = Box<dyn Fn(usize, usize) -> bool + 'a>;

/// Returns a comparison of `items` with `values`, which must have one type.
pub(in crate::functions) fn equality_of<'a>(items: &'a ArrayRef, values: &'a ArrayRef) -> Result<ItemEquality<'a>> {
    macro_rules! of_numbers {
        ($($kind:ty),*) => {
            $(
                if let (Some(items), Some(values)) =
                    (items.as_primitive_opt::<$kind>(), values.as_primitive_opt::<$kind>())
                {
                    return Ok(Box::new(move |item, value| match (items.is_valid(item), values.is_valid(value)) {
                        (true, true) => items.value(item) == values.value(value),
                        (first, second) => first == second,
                    }));
                }
            )*
        };
    }
    // Frequent types are compared directly, because making keys copies all values.
    of_numbers!(Int64Type, Int32Type, Date32Type, TimestampMicrosecondType, Decimal128Type, Int16Type, UInt64Type);
    of_numbers!(Decimal256Type);
    if let (Some(items), Some(values)) = (items.as_string_view_opt(), values.as_string_view_opt()) {
        return Ok(Box::new(move |item, value| match (items.is_valid(item), values.is_valid(value)) {
            (true, true) => items.value(item) == values.value(value),
            (first, second) => first == second,
        }));
    }
    let [items, values] = keys_of([items, values])?;
    Ok(Box::new(move |item, value| items.row(item) == values.row(value)))
}

/// Returns the values with one zero and one NaN: -0.0 becomes 0.0, and all NaNs become equal.
fn with_one_zero(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float32 => Arc::new(
            values
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|value| if value.is_nan() { f32::NAN } else { value + 0.0 }),
        ),
        DataType::Float64 => Arc::new(
            values
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|value| if value.is_nan() { f64::NAN } else { value + 0.0 }),
        ),
        DataType::List(field) => {
            let lists = values.as_list::<i32>();
            let items = with_one_zero(lists.values())?;
            let lists = ListArray::try_new(field.clone(), lists.offsets().clone(), items, lists.nulls().cloned());
            Arc::new(lists.map_err(failed)?)
        }
        DataType::Struct(fields) if !fields.is_empty() => {
            let of = values.as_struct();
            let columns: Vec<ArrayRef> = of.columns().iter().map(with_one_zero).collect::<Result<_>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, of.nulls().cloned()).map_err(failed)?)
        }
        _ => values.clone(),
    })
}
