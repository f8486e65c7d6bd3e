//! Rust values as parameters of statements and as values of appended rows.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, new_empty_array, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field};
use rowmill_sql::Param;

use crate::Decimal;

/// The value of a parameter, borrowed where the Rust value has the form that the database takes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ParamValue<'a> {
    /// A borrowed or small value.
    Borrowed(Param<'a>),
    /// A text that was made for this call.
    Text(String),
    /// A UUID.
    Uuid([u8; 16]),
    /// A value of any other type: an array of one row.
    Array(ArrayRef),
}

impl ParamValue<'_> {
    /// The value as statements take it.
    pub fn as_param(&self) -> Param<'_> {
        match self {
            ParamValue::Borrowed(value) => *value,
            ParamValue::Text(value) => Param::Text(value),
            ParamValue::Uuid(value) => Param::Uuid(value),
            ParamValue::Array(value) => Param::Array(value),
        }
    }
}

impl<'a> From<Param<'a>> for ParamValue<'a> {
    fn from(value: Param<'a>) -> Self {
        ParamValue::Borrowed(value)
    }
}

/// A Rust type whose values can be parameters.
pub trait ToParam {
    /// The value as a parameter.
    fn to_param(&self) -> ParamValue<'_>;

    /// Several values as one parameter: a list. Only bytes do this in another way.
    #[doc(hidden)]
    fn list_to_param(values: &[Self]) -> ParamValue<'_>
    where
        Self: Sized,
    {
        ParamValue::Array(list(values))
    }
}

/// Makes a list of one row.
fn list<T: ToParam>(values: &[T]) -> ArrayRef {
    let items: Vec<ArrayRef> =
        values.iter().map(|value| Arc::clone(value.to_param().as_param().to_constant().array())).collect();
    let kind = items.iter().map(|item| item.data_type()).find(|kind| !kind.is_null()).cloned();
    let kind = kind.unwrap_or(DataType::Null);
    let items: Vec<ArrayRef> = items
        .into_iter()
        .map(|item| if item.data_type().is_null() { new_null_array(&kind, 1) } else { item })
        .collect();
    let parts: Vec<&dyn Array> = items.iter().map(AsRef::as_ref).collect();
    // Values of different types have no common list: they become texts, which are read as the type of their place.
    let items =
        if parts.is_empty() { new_empty_array(&kind) } else { concat(&parts).unwrap_or_else(|_| texts(&items)) };
    let field = Arc::new(Field::new("item", items.data_type().clone(), true));
    Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([items.len()]), items, None))
}

fn texts(items: &[ArrayRef]) -> ArrayRef {
    let text = |item: &ArrayRef| rowmill_expr::text::writer::format_value(item, 0).ok().flatten();
    Arc::new(arrow::array::StringViewArray::from_iter(items.iter().map(text)))
}

macro_rules! plain {
    ($($kind:ty => $variant:ident($convert:expr);)*) => {$(
        impl ToParam for $kind {
            fn to_param(&self) -> ParamValue<'_> {
                Param::$variant($convert(*self)).into()
            }
        }
    )*};
}

plain! {
    bool => Boolean(std::convert::identity);
    i8 => Integer(i64::from);
    i16 => Integer(i64::from);
    i32 => Integer(i64::from);
    i64 => Integer(std::convert::identity);
    u16 => Integer(i64::from);
    u32 => Integer(i64::from);
    f32 => Double(f64::from);
    f64 => Double(std::convert::identity);
}

impl ToParam for u8 {
    fn to_param(&self) -> ParamValue<'_> {
        Param::Integer((*self).into()).into()
    }

    fn list_to_param(values: &[u8]) -> ParamValue<'_> {
        Param::Blob(values).into()
    }
}

/// Numbers beyond the range of BIGINT are decimals without digits after the point; beyond 38 digits, texts.
fn large(value: i128) -> ParamValue<'static> {
    match (i64::try_from(value), Decimal::new(value, 0)) {
        (Ok(value), _) => Param::Integer(value).into(),
        (Err(_), Ok(value)) => Param::Decimal(value.digits(), 0).into(),
        (Err(_), Err(_)) => ParamValue::Text(value.to_string()),
    }
}

impl ToParam for i128 {
    fn to_param(&self) -> ParamValue<'_> {
        large(*self)
    }
}

impl ToParam for u64 {
    fn to_param(&self) -> ParamValue<'_> {
        large((*self).into())
    }
}

impl ToParam for u128 {
    fn to_param(&self) -> ParamValue<'_> {
        i128::try_from(*self).map_or_else(|_| ParamValue::Text(self.to_string()), large)
    }
}

impl ToParam for usize {
    fn to_param(&self) -> ParamValue<'_> {
        large(*self as i128)
    }
}

impl ToParam for isize {
    fn to_param(&self) -> ParamValue<'_> {
        large(*self as i128)
    }
}

impl ToParam for Decimal {
    fn to_param(&self) -> ParamValue<'_> {
        Param::Decimal(self.digits(), self.scale()).into()
    }
}

impl ToParam for str {
    fn to_param(&self) -> ParamValue<'_> {
        Param::Text(self).into()
    }
}

impl ToParam for String {
    fn to_param(&self) -> ParamValue<'_> {
        Param::Text(self).into()
    }
}

impl ToParam for Cow<'_, str> {
    fn to_param(&self) -> ParamValue<'_> {
        Param::Text(self).into()
    }
}

impl ToParam for Param<'_> {
    fn to_param(&self) -> ParamValue<'_> {
        (*self).into()
    }
}

impl<T: ToParam> ToParam for [T] {
    fn to_param(&self) -> ParamValue<'_> {
        T::list_to_param(self)
    }
}

impl<T: ToParam, const N: usize> ToParam for [T; N] {
    fn to_param(&self) -> ParamValue<'_> {
        T::list_to_param(self)
    }
}

impl<T: ToParam> ToParam for Vec<T> {
    fn to_param(&self) -> ParamValue<'_> {
        T::list_to_param(self)
    }
}

impl<T: ToParam> ToParam for Option<T> {
    fn to_param(&self) -> ParamValue<'_> {
        self.as_ref().map_or(ParamValue::Borrowed(Param::Null), ToParam::to_param)
    }
}

macro_rules! pointers {
    ($($kind:ty)*) => {$(
        impl<T: ToParam + ?Sized> ToParam for $kind {
            fn to_param(&self) -> ParamValue<'_> {
                (**self).to_param()
            }
        }
    )*};
}

pointers! { &T Box<T> Rc<T> Arc<T> }
