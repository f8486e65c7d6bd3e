//! Values whose type is only known when the program runs.

use rowmill_sql::Param;

use crate::Decimal;
use crate::to_param::{ParamValue, ToParam};

/// One value. As a parameter or in an appended row, it is converted to the type of its place if it fits.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// NULL
    Null,
    /// A boolean.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Double(f64),
    /// A decimal number.
    Decimal(Decimal),
    /// A text. Values of types that have no variant of their own are given as texts too, for example dates.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
    /// A UUID.
    Uuid([u8; 16]),
    /// A list.
    List(Vec<Value>),
}

macro_rules! from {
    ($($kind:ty => $variant:ident($convert:expr);)*) => {$(
        impl From<$kind> for Value {
            fn from(value: $kind) -> Self {
                Value::$variant($convert(value))
            }
        }
    )*};
}

from! {
    bool => Boolean(std::convert::identity);
    i8 => Integer(i64::from);
    i16 => Integer(i64::from);
    i32 => Integer(i64::from);
    i64 => Integer(std::convert::identity);
    u8 => Integer(i64::from);
    u16 => Integer(i64::from);
    u32 => Integer(i64::from);
    f32 => Double(f64::from);
    f64 => Double(std::convert::identity);
    Decimal => Decimal(std::convert::identity);
    &str => Text(str::to_owned);
    String => Text(std::convert::identity);
    &[u8] => Blob(<[u8]>::to_vec);
    Vec<u8> => Blob(std::convert::identity);
    Vec<Value> => List(std::convert::identity);
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

impl ToParam for Value {
    fn to_param(&self) -> ParamValue<'_> {
        match self {
            Value::Null => Param::Null.into(),
            Value::Boolean(value) => Param::Boolean(*value).into(),
            Value::Integer(value) => Param::Integer(*value).into(),
            Value::Double(value) => Param::Double(*value).into(),
            Value::Decimal(value) => value.to_param(),
            Value::Text(value) => Param::Text(value).into(),
            Value::Blob(value) => Param::Blob(value).into(),
            Value::Uuid(value) => Param::Uuid(value).into(),
            Value::List(values) => values.to_param(),
        }
    }
}
