//! Functions of SQL that are written in Rust.

use std::fmt::Display;

use arrow::array::{Array, ArrayRef, RecordBatch};
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_sql::{CellBuilder, Conversion, HostFunction, Volatility};

use crate::cell::CellRef;
use crate::{Connection, Decimal, FromValue, ToParam, Value};

/// A Rust type that arguments and results of functions can have, with its SQL type.
pub trait SqlValue {
    /// Whether the type takes NULL. A function is not called for a row with a NULL for another argument; its result is
    /// NULL.
    const TAKES_NULL: bool = false;

    /// The SQL type of its values.
    fn sql_type() -> SqlType;
}

/// Gives Rust types their SQL types.
macro_rules! sql_values {
    ($($kind:ty => $sql:expr;)*) => {$(
        impl SqlValue for $kind {
            fn sql_type() -> SqlType {
                $sql
            }
        }
    )*};
}

#[cfg(feature = "chrono")]
pub(crate) use sql_values;

sql_values! {
    bool => SqlType::Boolean;
    i8 => SqlType::Int8;
    i16 => SqlType::Int16;
    i32 => SqlType::Int32;
    i64 => SqlType::Int64;
    u16 => SqlType::UInt16;
    u32 => SqlType::UInt32;
    u64 => SqlType::UInt64;
    i128 => SqlType::Decimal { precision: 38, scale: 0 };
    f32 => SqlType::Float32;
    f64 => SqlType::Float64;
    Decimal => SqlType::Decimal { precision: 38, scale: 9 };
    String => SqlType::TEXT;
    Vec<u8> => SqlType::Blob;
    Vec<i64> => SqlType::List(Box::new(SqlType::Int64));
    Vec<f64> => SqlType::List(Box::new(SqlType::Float64));
    Vec<String> => SqlType::List(Box::new(SqlType::TEXT));
}

impl<T: SqlValue> SqlValue for Option<T> {
    const TAKES_NULL: bool = true;

    fn sql_type() -> SqlType {
        T::sql_type()
    }
}

/// The result of a function in Rust: a value, or a `Result` of one whose error becomes the error of the statement.
pub trait FunctionResult {
    /// The SQL type of the result.
    fn sql_type() -> SqlType;

    #[doc(hidden)]
    fn append_to(self, values: &mut CellBuilder) -> Result<()>;
}

impl<T: SqlValue + ToParam> FunctionResult for T {
    fn sql_type() -> SqlType {
        <T as SqlValue>::sql_type()
    }

    fn append_to(self, values: &mut CellBuilder) -> Result<()> {
        values.append(self.to_param().as_param())
    }
}

impl<T: SqlValue + ToParam, E: Display> FunctionResult for Result<T, E> {
    fn sql_type() -> SqlType {
        <T as SqlValue>::sql_type()
    }

    fn append_to(self, values: &mut CellBuilder) -> Result<()> {
        match self {
            Ok(value) => value.append_to(values),
            Err(error) => Err(Error::new(ErrorKind::InvalidParameter, error.to_string())),
        }
    }
}

/// A Rust function or closure of up to six arguments that can be a scalar function of SQL.
pub trait RustFunction<Arguments>: Send + Sync + 'static {
    /// The types of the arguments, and the type of the result.
    #[doc(hidden)]
    fn kinds() -> (Vec<SqlType>, SqlType);

    /// Computes the result of one row.
    #[doc(hidden)]
    fn call(&self, arguments: &[ArrayRef], row: usize, values: &mut CellBuilder) -> Result<()>;
}

macro_rules! rust_functions {
    ($($name:ident $place:literal),*) => {
        impl<F, R, $($name),*> RustFunction<($($name,)*)> for F
        where
            F: Fn($($name),*) -> R + Send + Sync + 'static,
            R: FunctionResult,
            $($name: SqlValue + for<'r> FromValue<'r>,)*
        {
            fn kinds() -> (Vec<SqlType>, SqlType) {
                (vec![$($name::sql_type()),*], R::sql_type())
            }

            fn call(&self, _arguments: &[ArrayRef], _row: usize, values: &mut CellBuilder) -> Result<()> {
                $(
                    if !$name::TAKES_NULL && _arguments[$place].is_null(_row) {
                        return values.append_null();
                    }
                )*
                self($($name::from_value(CellRef::new(&_arguments[$place], _row))?),*).append_to(values)
            }
        }
    };
}

rust_functions! {}
rust_functions! { A 0 }
rust_functions! { A 0, B 1 }
rust_functions! { A 0, B 1, C 2 }
rust_functions! { A 0, B 1, C 2, D 3 }
rust_functions! { A 0, B 1, C 2, D 3, E 4 }
rust_functions! { A 0, B 1, C 2, D 3, E 4, G 5 }

impl Connection {
    /// Adds a scalar function to this connection: a Rust function or closure of up to six arguments. Arguments are cast
    /// to its types. A NULL for an argument that is not an `Option` gives NULL without a call. Several threads may call
    /// the function at once. It must give the same result for the same arguments. Other functions should be
    /// registered by [`Connection::register_volatile_function`]. Functions that SQL has cannot be replaced.
    ///
    /// ```
    /// # use rowmill::{Connection, Result};
    /// # fn main() -> Result<()> {
    /// let mut connection = Connection::open_in_memory()?;
    /// connection.register_function("add_tax", |price: f64, percent: i64| price * (100 + percent) as f64 / 100.0)?;
    /// connection.register_function("parsed", |text: String| text.trim().parse::<i64>())?;
    /// let found: (f64, i64) = connection.query_one("SELECT add_tax(200, 19), parsed(' 7 ')", ())?.read()?;
    /// assert_eq!(found, (238.0, 7));
    /// assert!(connection.query_as::<i64>("SELECT parsed('seven')", ()).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn register_function<A, F: RustFunction<A>>(&mut self, name: &str, function: F) -> Result<()> {
        self.register_typed(name, Volatility::Immutable, function)
    }

    /// Adds a scalar function that may give another result at each call. It is called once for each row, so functions
    /// that follow from their arguments should be registered by [`Connection::register_function`].
    pub fn register_volatile_function<A, F: RustFunction<A>>(&mut self, name: &str, function: F) -> Result<()> {
        self.register_typed(name, Volatility::Volatile, function)
    }

    fn register_typed<A, F: RustFunction<A>>(&mut self, name: &str, volatility: Volatility, function: F) -> Result<()> {
        let (arguments, result) = F::kinds();
        self.register_untyped(name, &arguments, result, volatility, move |arguments, rows, values| {
            (0..rows).try_for_each(|row| function.call(arguments, row, values))
        })
    }

    /// Adds a scalar function whose types are known only when the program runs, for example one in another language.
    /// Arguments are cast to the types `arguments`. `function` gets an array of each, the number of rows, and the
    /// column to which it must append one value for each row.
    pub fn register_untyped(
        &mut self,
        name: &str,
        arguments: &[SqlType],
        result: SqlType,
        volatility: Volatility,
        function: impl Fn(&[ArrayRef], usize, &mut CellBuilder) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        let kind = result.clone();
        let body = move |arguments: &[ArrayRef], rows: usize| {
            let mut values = CellBuilder::new("the result", &kind, true, Conversion::Exact);
            function(arguments, rows, &mut values)?;
            values.finish()
        };
        let (name, arguments) = (name.to_owned(), arguments.to_vec());
        self.session().register_function(HostFunction { name, arguments, result, volatility, body: Box::new(body) })
    }

    /// Adds a scalar function that computes whole columns. Arguments are cast to the types `arguments`. `function` gets
    /// an array of each, with the number of rows, and must return an array of the type `result` with that number of
    /// rows.
    pub fn register_vector_function(
        &mut self,
        name: &str,
        arguments: &[SqlType],
        result: SqlType,
        function: impl Fn(&[ArrayRef], usize) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Result<()> {
        self.session().register_function(HostFunction {
            name: name.to_owned(),
            arguments: arguments.to_vec(),
            result,
            volatility: Volatility::Immutable,
            body: Box::new(function),
        })
    }

    /// Adds a table function to this connection: `SELECT * FROM name(arguments)`. The arguments must be constants. The
    /// function is called when the statement is planned.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use rowmill::{Connection, Result, Value};
    /// # use rowmill::arrow::array::{Int64Array, RecordBatch};
    /// # fn main() -> Result<()> {
    /// let mut connection = Connection::open_in_memory()?;
    /// connection.register_table_function("countdown", |arguments| {
    ///     let from = if let [Value::Integer(from)] = arguments { *from } else { 3 };
    ///     let numbers = Arc::new(Int64Array::from_iter_values((1..=from).rev()));
    ///     Ok(vec![RecordBatch::try_from_iter([("n", numbers as _)]).expect("one column")])
    /// });
    /// assert_eq!(connection.query_as::<i64>("SELECT n FROM countdown(2)", ())?, [2, 1]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn register_table_function(
        &mut self,
        name: &str,
        function: impl Fn(&[Value]) -> Result<Vec<RecordBatch>> + Send + Sync + 'static,
    ) {
        let body = move |arguments: &[ArrayRef]| {
            let arguments = arguments.iter().map(|argument| Value::from_value(CellRef::new(argument, 0)));
            function(&arguments.collect::<Result<Vec<Value>>>()?)
        };
        self.session().register_table_function(name, Box::new(body));
    }
}
