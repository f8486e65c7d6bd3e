//! Reads rows into types that derive `serde::Deserialize`.

use std::fmt;

use rowmill_base::{Error, ErrorKind, Result};
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use crate::cell::{AnyNumber, CellRef};
use crate::{FromValue, Row, Rows};

/// The error of a type that does not fit a row.
#[derive(Debug)]
struct RowMisfit(Error);

impl fmt::Display for RowMisfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.message())
    }
}

impl std::error::Error for RowMisfit {}

impl serde::de::Error for RowMisfit {
    fn custom<T: fmt::Display>(message: T) -> Self {
        RowMisfit(Error::new(ErrorKind::DatatypeMismatch, message.to_string()))
    }
}

impl Row {
    /// Reads the row into a type that derives `serde::Deserialize`: a struct by the names of the columns, or a tuple by
    /// their order.
    ///
    /// ```
    /// # use rowmill::{Connection, Result};
    /// #[derive(serde::Deserialize, Debug, PartialEq)]
    /// struct Item {
    ///     name: String,
    ///     pieces: Option<u32>,
    /// }
    ///
    /// # fn main() -> Result<()> {
    /// let mut connection = Connection::open_in_memory()?;
    /// let row = connection.query_one("SELECT 7 AS pieces, 'bolt' AS name", ())?;
    /// assert_eq!(row.deserialize::<Item>()?, Item { name: "bolt".to_owned(), pieces: Some(7) });
    /// # Ok(())
    /// # }
    /// ```
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T> {
        T::deserialize(RowReader(self)).map_err(|RowMisfit(error)| error)
    }
}

impl Rows {
    /// Collects all rows in a type that derives `serde::Deserialize`.
    pub fn deserialize<T: DeserializeOwned>(self) -> Result<Vec<T>> {
        self.map_rows(Row::deserialize).collect()
    }
}

struct RowReader<'r>(&'r Row);

impl<'de> Deserializer<'de> for RowReader<'de> {
    type Error = RowMisfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowMisfit> {
        let names = self.0.column_names().enumerate();
        let cells = names.map(|(place, name)| (name, CellReader { name, cell: self.0.cell_at(place) }));
        visitor.visit_map(MapDeserializer::new(cells))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowMisfit> {
        let names = self.0.column_names().enumerate();
        let cells = names.map(|(place, name)| CellReader { name, cell: self.0.cell_at(place) });
        visitor.visit_seq(SeqDeserializer::new(cells))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _width: usize, visitor: V) -> Result<V::Value, RowMisfit> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _width: usize,
        visitor: V,
    ) -> Result<V::Value, RowMisfit> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, RowMisfit> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        map struct enum identifier ignored_any
    }
}

#[derive(Clone, Copy)]
struct CellReader<'r> {
    name: &'r str,
    cell: CellRef<'r>,
}

impl<'de> IntoDeserializer<'de, RowMisfit> for CellReader<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> CellReader<'de> {
    fn read<T: FromValue<'de>>(self) -> Result<T, RowMisfit> {
        T::from_value(self.cell).map_err(|error| self.named(error))
    }

    fn named(self, error: Error) -> RowMisfit {
        RowMisfit(error.context(format_args!("column \"{}\"", self.name)))
    }
}

/// Reads a value of exactly the type that the Rust type asks for.
macro_rules! typed {
    ($($method:ident $visit:ident $kind:ty;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowMisfit> {
            visitor.$visit(self.read::<$kind>()?)
        }
    )*};
}

impl<'de> Deserializer<'de> for CellReader<'de> {
    type Error = RowMisfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowMisfit> {
        let cell = self.cell;
        if cell.is_null() {
            return visitor.visit_unit();
        }
        if let Some(value) = cell.boolean() {
            return visitor.visit_bool(value);
        }
        match cell.number() {
            Some(AnyNumber::Whole(value)) => match i64::try_from(value) {
                Ok(value) => return visitor.visit_i64(value),
                Err(_) => return visitor.visit_i128(value),
            },
            Some(AnyNumber::Double(value)) => return visitor.visit_f64(value),
            _ => {}
        }
        if let Some(text) = cell.text() {
            return visitor.visit_borrowed_str(text);
        }
        if let Some(items) = cell.items() {
            return visitor.visit_seq(SeqDeserializer::new(items.map(|cell| CellReader { name: self.name, cell })));
        }
        if let Some(fields) = cell.fields() {
            let cells = fields.map(|(name, cell)| (name, CellReader { name, cell }));
            return visitor.visit_map(MapDeserializer::new(cells));
        }
        match cell.bytes() {
            Some(bytes) if !matches!(cell.kind(), rowmill_base::SqlType::Uuid) => visitor.visit_borrowed_bytes(bytes),
            _ => visitor.visit_string(self.read()?),
        }
    }

    typed! {
        deserialize_bool visit_bool bool;
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
        deserialize_i128 visit_i128 i128;
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
        deserialize_u128 visit_u128 u128;
        deserialize_f32 visit_f32 f32;
        deserialize_f64 visit_f64 f64;
        deserialize_string visit_string String;
        deserialize_byte_buf visit_byte_buf Vec<u8>;
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowMisfit> {
        // Types that are written as texts, such as dates, read any value that has a text.
        match self.cell.text().filter(|_| !self.cell.is_null()) {
            Some(text) => visitor.visit_borrowed_str(text),
            None => visitor.visit_string(self.read()?),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowMisfit> {
        if self.cell.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, RowMisfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, RowMisfit> {
        let text: &str = self.read()?;
        visitor.visit_enum(text.into_deserializer())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowMisfit> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { char bytes unit unit_struct seq tuple tuple_struct map struct identifier }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde::Deserialize;

    use crate::Connection;

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Color {
        Red,
        Green,
    }

    #[derive(Deserialize, Debug, PartialEq)]
    struct Inner {
        a: i32,
        b: String,
    }

    #[derive(Deserialize, Debug, PartialEq)]
    struct Record {
        n: u16,
        color: Color,
        maybe: Option<f64>,
        list: Vec<i64>,
        inner: Inner,
        day: String,
    }

    const SQL: &str = "SELECT 7 AS n, 'green' AS color, NULL AS maybe, [1, 2] AS list, {'a': 1, 'b': 'x'} AS inner,
        DATE '2024-02-29' AS day, 'not read' AS more";

    #[test]
    fn rows_are_read_into_structs_and_tuples() {
        let mut connection = Connection::open_in_memory().unwrap();
        let expected = Record {
            n: 7,
            color: Color::Green,
            maybe: None,
            list: vec![1, 2],
            inner: Inner { a: 1, b: "x".to_owned() },
            day: "2024-02-29".to_owned(),
        };
        assert_eq!(connection.query(SQL).unwrap().deserialize::<Record>().unwrap(), [expected]);
        let pair: (i64, String) = connection.query_one("SELECT 1, 'x'", ()).unwrap().deserialize().unwrap();
        assert_eq!(pair, (1, "x".to_owned()));
    }

    #[test]
    fn an_error_names_the_column() {
        let mut connection = Connection::open_in_memory().unwrap();
        let mut error = |from: &str, to: &str| {
            connection.query_one(&SQL.replace(from, to), ()).unwrap().deserialize::<Record>().unwrap_err().to_string()
        };
        assert!(error("7 AS n", "-7 AS n").contains("column \"n\": the value -7 of the type BIGINT"));
        assert!(error("'green'", "'blue'").contains("blue"));
        assert!(error(" AS maybe", " AS other, 'x' AS maybe").contains("\"maybe\""));
        assert!(error("7 AS n", "7 AS m").contains("missing field `n`"));
    }
}
