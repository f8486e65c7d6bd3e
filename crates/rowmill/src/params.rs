//! The values for the parameters of a statement, in all the forms that programs write.
//!
//! ```
//! # use rowmill::{Database, Result, named_params, params, params_from_iter};
//! # fn main() -> Result<()> {
//! # let mut connection = Database::memory()?.connect()?;
//! connection.execute("CREATE TABLE stock (item TEXT, pieces BIGINT)", ())?;
//! let insert = "INSERT INTO stock VALUES (?, ?)";
//! connection.execute(insert, ("bolt", 200))?; // a tuple
//! connection.execute(insert, params!["nut", 350])?; // values of any types
//! connection.execute(insert, params_from_iter(["pin", "40"]))?; // an iterator
//! let named = "UPDATE stock SET pieces = pieces + :more WHERE item = :item";
//! connection.execute(named, named_params! { ":item": "bolt", ":more": 5 })?;
//! connection.execute(named, &[(":item", "bolt"), (":more", "5")])?;
//! let pieces: i64 = connection.query_row("SELECT pieces FROM stock WHERE item = ?", ["bolt"], |row| row.get(0))?;
//! assert_eq!(pieces, 210);
//! # Ok(())
//! # }
//! ```

use rowmill_base::{Error, ErrorKind, Result, nearest};
use rowmill_sql::RowWriter;
use smallvec::{SmallVec, smallvec};

use crate::to_param::{ParamValue, ToParam};
use crate::{Param, Value};

/// Nearly all statements have at most this number of parameters. Their values are kept on the stack.
const FEW_PARAMETERS: usize = 8;

/// Values for the parameters of a statement, in the order of the parameters.
pub type ParamValues<'p> = SmallVec<[ParamValue<'p>; FEW_PARAMETERS]>;

/// The values for the parameters of a statement: an array, a slice, a tuple, [`params!`](crate::params),
/// [`named_params!`](crate::named_params), [`params_from_iter`] or `()`.
pub trait Params {
    /// Whether the values are given by name.
    #[doc(hidden)]
    const IS_NAMED: bool = false;

    /// The values, in the order of the parameters, which have these names.
    #[doc(hidden)]
    fn values(&self, names: &[String]) -> Result<ParamValues<'_>>;

    /// Writes the values as a row, without memory of its own where the form allows it.
    #[doc(hidden)]
    fn write_row(&self, row: &mut RowWriter<'_>) -> Result<()> {
        self.values(&[])?.iter().try_for_each(|value| row.push(value.as_param()))
    }
}

/// Runs `run` with the values of `params` for a statement whose parameters have these names.
pub(crate) fn with_values<P: Params, T>(
    params: &P,
    names: &[String],
    run: impl FnOnce(&[Param<'_>]) -> Result<T>,
) -> Result<T> {
    let values = params.values(names)?;
    let values: SmallVec<[Param<'_>; FEW_PARAMETERS]> = values.iter().map(ParamValue::as_param).collect();
    run(&values)
}

fn positional<'p, T: ToParam + 'p>(values: impl IntoIterator<Item = &'p T>) -> Result<ParamValues<'p>> {
    Ok(values.into_iter().map(ToParam::to_param).collect())
}

fn named<'p, N: AsRef<str>, T: ToParam + ?Sized + 'p>(
    values: impl IntoIterator<Item = (N, &'p T)>,
    names: &[String],
) -> Result<ParamValues<'p>> {
    let mut found: Vec<Option<ParamValue<'p>>> = vec![None; names.len()];
    for (name, value) in values {
        let bare = name.as_ref().trim_start_matches([':', '$', '@']);
        let Some(place) = names.iter().position(|known| known == bare) else {
            let error =
                Error::new(ErrorKind::UndefinedObject, format!("the statement has no parameter \"{}\"", name.as_ref()));
            let near = nearest(bare, names.iter().map(String::as_str));
            return Err(match names {
                [] => error.hint("its parameters have no names: write them as :name, or give the values in order"),
                _ if near.is_empty() => error.hint(format!("its parameters are :{}", names.join(", :"))),
                _ => error.hint(format!("did you mean :{}?", near.join(", :"))),
            });
        };
        found[place] = Some(value.to_param());
    }
    let values = found.into_iter().zip(names).map(|(value, name)| {
        value.ok_or_else(|| Error::new(ErrorKind::CardinalityViolation, format!("the parameter :{name} has no value")))
    });
    values.collect()
}

impl Params for () {
    fn values(&self, _names: &[String]) -> Result<ParamValues<'_>> {
        Ok(ParamValues::new())
    }
}

/// `[]`. This must be the only implementation for an empty array, so that its type is known.
impl Params for [&dyn ToParam; 0] {
    fn values(&self, _names: &[String]) -> Result<ParamValues<'_>> {
        Ok(ParamValues::new())
    }
}

macro_rules! arrays {
    ($($length:literal)*) => {$(
        impl<T: ToParam> Params for [T; $length] {
            fn values(&self, _names: &[String]) -> Result<ParamValues<'_>> {
                positional(self)
            }

            #[inline]
            fn write_row(&self, row: &mut RowWriter<'_>) -> Result<()> {
                self.iter().try_for_each(|value| row.push(value.to_param().as_param()))
            }
        }
    )*};
}

arrays! { 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 }

impl<T: ToParam, const N: usize> Params for &[T; N] {
    fn values(&self, _names: &[String]) -> Result<ParamValues<'_>> {
        positional(*self)
    }
}

impl<T: ToParam> Params for &[T] {
    fn values(&self, _names: &[String]) -> Result<ParamValues<'_>> {
        positional(*self)
    }

    #[inline]
    fn write_row(&self, row: &mut RowWriter<'_>) -> Result<()> {
        self.iter().try_for_each(|value| row.push(value.to_param().as_param()))
    }
}

impl<T: ToParam> Params for Vec<T> {
    fn values(&self, _names: &[String]) -> Result<ParamValues<'_>> {
        positional(self)
    }
}

impl<T: ToParam> Params for &Vec<T> {
    fn values(&self, _names: &[String]) -> Result<ParamValues<'_>> {
        positional(*self)
    }
}

impl<T: ToParam + ?Sized> Params for &[(&str, &T)] {
    const IS_NAMED: bool = true;

    fn values(&self, names: &[String]) -> Result<ParamValues<'_>> {
        named(self.iter().map(|(name, value)| (*name, *value)), names)
    }
}

impl<T: ToParam + ?Sized, const N: usize> Params for &[(&str, &T); N] {
    const IS_NAMED: bool = true;

    fn values(&self, names: &[String]) -> Result<ParamValues<'_>> {
        named(self.iter().map(|(name, value)| (*name, *value)), names)
    }
}

macro_rules! tuples {
    ($($name:ident),+) => {
        impl<$($name: ToParam),+> Params for ($($name,)+) {
            #[expect(non_snake_case, reason = "a variable has the name of its type")]
            fn values(&self, _names: &[String]) -> Result<ParamValues<'_>> {
                let ($($name,)+) = self;
                Ok(smallvec![$($name.to_param()),+])
            }

            #[expect(non_snake_case, reason = "a variable has the name of its type")]
            #[inline]
            fn write_row(&self, row: &mut RowWriter<'_>) -> Result<()> {
                let ($($name,)+) = self;
                $(row.push($name.to_param().as_param())?;)+
                Ok(())
            }
        }
    };
}

tuples! { A }
tuples! { A, B }
tuples! { A, B, C }
tuples! { A, B, C, D }
tuples! { A, B, C, D, E }
tuples! { A, B, C, D, E, F }
tuples! { A, B, C, D, E, F, G }
tuples! { A, B, C, D, E, F, G, H }
tuples! { A, B, C, D, E, F, G, H, I }
tuples! { A, B, C, D, E, F, G, H, I, J }
tuples! { A, B, C, D, E, F, G, H, I, J, K }
tuples! { A, B, C, D, E, F, G, H, I, J, K, L }
tuples! { A, B, C, D, E, F, G, H, I, J, K, L, M }
tuples! { A, B, C, D, E, F, G, H, I, J, K, L, M, N }
tuples! { A, B, C, D, E, F, G, H, I, J, K, L, M, N, O }
tuples! { A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P }

/// The values of an iterator, made by [`params_from_iter`].
#[derive(Clone, Debug)]
pub struct ParamsFromIter<T>(Vec<T>);

/// Takes the values of an iterator as parameters, in order.
pub fn params_from_iter<T: ToParam>(values: impl IntoIterator<Item = T>) -> ParamsFromIter<T> {
    ParamsFromIter(values.into_iter().collect())
}

impl<T: ToParam> Params for ParamsFromIter<T> {
    fn values(&self, _names: &[String]) -> Result<ParamValues<'_>> {
        positional(&self.0)
    }
}

/// Values by name that are only known when the program runs.
impl Params for &std::collections::HashMap<String, Value> {
    const IS_NAMED: bool = true;

    fn values(&self, names: &[String]) -> Result<ParamValues<'_>> {
        named(self.iter(), names)
    }
}

/// Values of any types for the parameters of a statement, in order: `params![1, "two", None::<i64>]`.
#[macro_export]
macro_rules! params {
    () => {
        &[] as &[&dyn $crate::ToParam]
    };
    ($($value:expr),+ $(,)?) => {
        &[$(&$value as &dyn $crate::ToParam),+] as &[&dyn $crate::ToParam]
    };
}

/// Values of any types for the parameters of a statement, by name: `named_params! { ":id": 1, ":name": "two" }`.
#[macro_export]
macro_rules! named_params {
    () => {
        &[] as &[(&str, &dyn $crate::ToParam)]
    };
    ($($name:literal : $value:expr),+ $(,)?) => {
        &[$(($name, &$value as &dyn $crate::ToParam)),+] as &[(&str, &dyn $crate::ToParam)]
    };
}
