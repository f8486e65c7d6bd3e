//! Helpers that read arguments and write results row by row.
//!
//! The kernel of a strict function is a closure over the row index. The helpers here call it for the rows in which no
//! argument is NULL, collect its results, and mark the other rows NULL. The closures are generic, so that the compiler
//! fuses the loop over the rows with the work of one row.

use std::sync::Arc;

use arrow::array::GenericByteViewArray;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryViewBuilder, BooleanArray, PrimitiveArray, StringViewArray,
    StringViewBuilder, new_null_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, BinaryViewType, DataType, Int64Type, StringViewType};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Operand;

use super::result_limit::ResultLimit;

/// An argument of type TEXT.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextArgument<'a> {
    values: &'a StringViewArray,
    is_constant: bool,
}

impl<'a> TextArgument<'a> {
    pub(super) fn new(operand: &'a Operand) -> TextArgument<'a> {
        TextArgument { values: operand.values.as_string_view(), is_constant: operand.is_constant }
    }

    /// Returns the text of a row, which must not be NULL.
    #[inline]
    pub(super) fn at(&self, row: usize) -> &'a str {
        self.values.value(if self.is_constant { 0 } else { row })
    }

    /// Returns the text of a row, or `None` for NULL.
    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<&'a str> {
        let row = if self.is_constant { 0 } else { row };
        (!self.values.is_null(row)).then(|| self.values.value(row))
    }

    /// Returns the text that is the same in all rows, if the argument is constant.
    pub(super) fn constant(&self) -> Option<&'a str> {
        if self.is_constant { self.get(0) } else { None }
    }
}

/// An argument of type TEXT or BLOB that is read as bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum BytesArgument<'a> {
    Text(&'a GenericByteViewArray<StringViewType>, bool),
    Blob(&'a GenericByteViewArray<BinaryViewType>, bool),
}

impl<'a> BytesArgument<'a> {
    pub(super) fn new(operand: &'a Operand) -> BytesArgument<'a> {
        match operand.values.data_type() {
            DataType::Utf8View => BytesArgument::Text(operand.values.as_string_view(), operand.is_constant),
            _ => BytesArgument::Blob(operand.values.as_binary_view(), operand.is_constant),
        }
    }

    /// Returns the bytes of a row, which must not be NULL.
    #[inline]
    pub(super) fn at(&self, row: usize) -> &'a [u8] {
        match self {
            BytesArgument::Text(values, is_constant) => values.value(if *is_constant { 0 } else { row }).as_bytes(),
            BytesArgument::Blob(values, is_constant) => values.value(if *is_constant { 0 } else { row }),
        }
    }
}

/// An argument of numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberArgument<'a, N> {
    values: &'a [N],
    is_constant: bool,
}

impl<'a, N: ArrowNativeType> NumberArgument<'a, N> {
    pub(super) fn new<T: ArrowPrimitiveType<Native = N>>(operand: &'a Operand) -> NumberArgument<'a, N> {
        NumberArgument { values: operand.values.as_primitive::<T>().values(), is_constant: operand.is_constant }
    }

    /// Returns the number of a row, which must not be NULL.
    #[inline]
    pub(super) fn at(&self, row: usize) -> N {
        self.values[if self.is_constant { 0 } else { row }]
    }
}

/// Reads an argument of type BIGINT.
pub(super) fn bigints(operand: &Operand) -> NumberArgument<'_, i64> {
    NumberArgument::new::<Int64Type>(operand)
}

/// Returns the rows in which no argument is NULL: `Some(None)` if these are all rows, `None` if there is no such row.
pub(super) fn valid_rows(arguments: &[Operand]) -> Option<Option<NullBuffer>> {
    let mut valid: Option<NullBuffer> = None;
    for argument in arguments {
        if !argument.is_constant {
            valid = NullBuffer::union(valid.as_ref(), argument.values.nulls());
        } else if argument.values.is_null(0) {
            return None;
        }
    }
    Some(valid)
}

/// Calls `each` for every row. The flag says whether no argument is NULL in that row.
fn for_each_row(
    valid: &Option<NullBuffer>,
    rows: usize,
    mut each: impl FnMut(usize, bool) -> Result<()>,
) -> Result<()> {
    match valid {
        None => (0..rows).try_for_each(|row| each(row, true)),
        Some(valid) => (0..rows).try_for_each(|row| each(row, valid.is_valid(row))),
    }
}

/// Computes the numbers of a strict function that can fail.
pub(super) fn numbers<T: ArrowPrimitiveType>(
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    mut value: impl FnMut(usize) -> Result<T::Native>,
) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(kind, rows)) };
    let mut values = Vec::with_capacity(rows);
    for_each_row(&valid, rows, |row, is_valid| {
        // A row with a NULL must not be computed, because it could fail.
        values.push(if is_valid { value(row)? } else { T::Native::default() });
        Ok(())
    })?;
    Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), valid).with_data_type(kind.clone())))
}

/// Computes the truth values of a strict function. `value` is also called for rows with NULLs, where the texts are
/// arbitrary.
pub(super) fn booleans(arguments: &[Operand], rows: usize, value: impl FnMut(usize) -> bool) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(&DataType::Boolean, rows)) };
    Ok(Arc::new(BooleanArray::new(BooleanBuffer::collect_bool(rows, value), valid)))
}

/// Computes the truth values of a strict function that can fail.
pub(super) fn fallible_booleans(
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    mut value: impl FnMut(usize) -> Result<bool>,
) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(kind, rows)) };
    let mut values = Vec::with_capacity(rows);
    for_each_row(&valid, rows, |row, is_valid| {
        values.push(is_valid && value(row)?);
        Ok(())
    })?;
    Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(values), valid)))
}

/// Computes the texts of a strict function. Each text must be a piece of an argument or static. Functions
/// that only cut texts should use it, because their results need no check of the limit.
pub(super) fn pieces<'a>(
    arguments: &'a [Operand],
    rows: usize,
    mut piece: impl FnMut(usize) -> Result<&'a str>,
) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(&DataType::Utf8View, rows)) };
    let mut made = StringViewBuilder::with_capacity(rows);
    for_each_row(&valid, rows, |row, is_valid| match is_valid {
        true => made.try_append_value(piece(row)?).map_err(too_long),
        false => {
            made.append_null();
            Ok(())
        }
    })?;
    Ok(Arc::new(made.finish()))
}

/// Computes the texts of a strict function that writes them, within the limit on results. Functions whose result can be
/// long should use it.
pub(super) fn texts(
    function: &'static str,
    arguments: &[Operand],
    rows: usize,
    write: impl FnMut(usize, &mut RowText) -> Result<()>,
) -> Result<ArrayRef> {
    match valid_rows(arguments) {
        Some(valid) => texts_where(function, &valid, rows, write),
        None => Ok(new_null_array(&DataType::Utf8View, rows)),
    }
}

/// Computes the texts of a function that writes them in the rows that are `valid`, within the limit on results.
pub(super) fn texts_where(
    function: &'static str,
    valid: &Option<NullBuffer>,
    rows: usize,
    mut write: impl FnMut(usize, &mut RowText) -> Result<()>,
) -> Result<ArrayRef> {
    let mut made = StringViewBuilder::with_capacity(rows);
    let mut text = RowText { text: String::new(), bytes_before: 0, limit: ResultLimit::of(function) };
    for_each_row(valid, rows, |row, is_valid| {
        if !is_valid {
            made.append_null();
            return Ok(());
        }
        text.text.clear();
        write(row, &mut text)?;
        text.bytes_before += text.text.len();
        made.try_append_value(&text.text).map_err(too_long)
    })?;
    Ok(Arc::new(made.finish()))
}

/// Computes the BLOBs of a strict function. `write` appends to an empty buffer.
pub(super) fn blobs(
    arguments: &[Operand],
    rows: usize,
    mut write: impl FnMut(usize, &mut Vec<u8>) -> Result<()>,
) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(&DataType::BinaryView, rows)) };
    let mut made = BinaryViewBuilder::with_capacity(rows);
    let mut bytes = Vec::new();
    for_each_row(&valid, rows, |row, is_valid| {
        if !is_valid {
            made.append_null();
            return Ok(());
        }
        bytes.clear();
        write(row, &mut bytes)?;
        made.try_append_value(&bytes).map_err(too_long)
    })?;
    Ok(Arc::new(made.finish()))
}

/// The text of the current row.
#[derive(Debug)]
pub(super) struct RowText {
    text: String,
    /// The bytes of all earlier rows.
    bytes_before: usize,
    limit: ResultLimit,
}

impl RowText {
    /// Appends `more`.
    #[inline]
    pub(super) fn push(&mut self, more: &str) -> Result<()> {
        self.reserve(more.len() as u128)?;
        self.text.push_str(more);
        Ok(())
    }

    /// Appends one character.
    #[inline]
    pub(super) fn push_char(&mut self, more: char) -> Result<()> {
        self.reserve(more.len_utf8() as u128)?;
        self.text.push(more);
        Ok(())
    }

    /// Returns an error if `bytes` further bytes would exceed the limit.
    #[inline]
    pub(super) fn reserve(&self, bytes: u128) -> Result<()> {
        self.limit.check(((self.bytes_before + self.text.len()) as u128).saturating_add(bytes))
    }

    /// Returns the text so far. The caller must not add more bytes than the arguments have.
    #[inline]
    pub(super) fn text(&mut self) -> &mut String {
        &mut self.text
    }
}

/// Returns the error for a text that no column can hold.
pub(crate) fn too_long(error: arrow::error::ArrowError) -> Error {
    Error::new(ErrorKind::ResultTooLarge, format!("a value is too large: {error}"))
}
