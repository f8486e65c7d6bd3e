//! Reads whole rows: a tuple takes the columns in order, and a single value takes the only column.

use rowmill_base::{Error, ErrorKind, Result};

use crate::{FromValue, Row};

/// A type into which a row of a result can be read: a tuple of values, or one value.
pub trait FromRow<'r>: Sized {
    /// Reads a row.
    fn from_row(row: &'r Row) -> Result<Self>;
}

fn check_width(row: &Row, wanted: usize) -> Result<()> {
    if row.len() == wanted {
        return Ok(());
    }
    let names: Vec<&str> = row.column_names().collect();
    let what = format!("a row of {} columns is read as {wanted} values", row.len());
    Err(Error::new(ErrorKind::CardinalityViolation, what).hint(format!("the columns are {}", names.join(", "))))
}

impl<'r, T: FromValue<'r>> FromRow<'r> for T {
    fn from_row(row: &'r Row) -> Result<Self> {
        check_width(row, 1)?;
        row.get(0)
    }
}

macro_rules! tuples {
    ($width:literal: $($name:ident $place:literal),+) => {
        impl<'r, $($name: FromValue<'r>),+> FromRow<'r> for ($($name,)+) {
            fn from_row(row: &'r Row) -> Result<Self> {
                check_width(row, $width)?;
                Ok(($(row.get::<$name>($place)?,)+))
            }
        }
    };
}

tuples! { 1: A 0 }
tuples! { 2: A 0, B 1 }
tuples! { 3: A 0, B 1, C 2 }
tuples! { 4: A 0, B 1, C 2, D 3 }
tuples! { 5: A 0, B 1, C 2, D 3, E 4 }
tuples! { 6: A 0, B 1, C 2, D 3, E 4, F 5 }
tuples! { 7: A 0, B 1, C 2, D 3, E 4, F 5, G 6 }
tuples! { 8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7 }
tuples! { 9: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8 }
tuples! { 10: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9 }
tuples! { 11: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10 }
tuples! { 12: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11 }
