//! Values of parameters and of appended rows.

use rowmill_sql::Param;

/// One value. It is converted to the type of its column or parameter if it fits.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL
    Null,
    /// A boolean.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Double(f64),
    /// A text. Dates, timestamps, decimals and UUIDs are given as texts too.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
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
    &str => Text(str::to_owned);
    String => Text(std::convert::identity);
    &[u8] => Blob(<[u8]>::to_vec);
    Vec<u8> => Blob(std::convert::identity);
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

impl<'a> From<&'a Value> for Param<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Param::Null,
            Value::Boolean(value) => Param::Boolean(*value),
            Value::Integer(value) => Param::Integer(*value),
            Value::Double(value) => Param::Double(*value),
            Value::Text(value) => Param::Text(value),
            Value::Blob(value) => Param::Blob(value),
        }
    }
}
