//! Rows of keyed tables: compact bytes whose fields are read without decoding the row.
//!
//! The columns of a table are a list that only grows: `ALTER TABLE` appends columns, and a dropped column stays in the
//! list and is NULL in new rows. A row has the first `n` columns of the list: those that existed when it was written.
//! It is not rewritten when columns are added later; these read as absent. Columns of the primary key are only in the
//! key, so a layout has only the other columns.
//!
//! ```text
//! | head: u16 | NULLs: 1 bit x n | slots of n columns | bytes of strings |
//!   n, and bit 15: wide           fixed width each     one after another
//! ```
//!
//! The slot of a fixed-width type is the value. The slot of a string, a list or a struct is the end of its bytes, in 2
//! bytes, or in 4 in a wide row: a row with more than 65,535 bytes of strings. The bytes begin where those of the
//! string column before end. So the offset of a slot depends only on the head, and reading a field takes one or two
//! loads. For example, the third string is between the second and the third end. A NULL has a slot of zeros or an empty
//! string, so it does not move other fields. The byte table is in `docs/file-format.md`, "Keys and rows of keyed
//! tables".
//!
//! Nothing is aligned or compressed. Rows are read one at a time in the pages of the base, and numbers of varying width
//! would destroy the constant offsets.

use arrow::datatypes::IntervalMonthDayNano;
use rowmill_base::{Error, ErrorKind, Result, SqlType};

use super::ValueRef;
use super::form::ValueForm;
use crate::wide::WIDE_BYTES;

/// The size of the head.
const HEAD_BYTES: usize = 2;
/// The maximum size of a row. Callers that store a row have 4 bytes for its length.
const ROW_BYTES_MAX: usize = u32::MAX as usize - 1;
/// The bit of the head that marks a wide row, whose strings have ends of 4 bytes.
const WIDE: u16 = 1 << 15;

/// The offsets of a table's columns in its rows. Made once per version of the table's definition.
#[derive(Clone, Debug)]
pub struct RowLayout {
    pub(super) columns: Vec<StoredRowColumn>,
    /// At index `n`, the bytes of the slots of the first `n` columns, in narrow and in wide rows.
    slot_bytes: Vec<[u32; 2]>,
    /// At index `n`, the last string column among the first `n`.
    last_string: Vec<Option<u16>>,
}

#[derive(Clone, Debug)]
pub(super) struct StoredRowColumn {
    pub(super) kind: SqlType,
    pub(super) form: ValueForm,
}

/// The location of a column in all rows with the same head.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnInRow {
    slot: SlotInRow,
    /// The offset of the slot of the string column before.
    string_before: Option<usize>,
    /// The offset of the first byte of the strings.
    strings: usize,
    wide: bool,
}

/// The location of a column's slot and of its NULL bit in all rows with the same head.
#[derive(Clone, Copy, Debug)]
struct SlotInRow {
    /// The offset of the slot from the first byte of the row.
    at: usize,
    null_byte: usize,
    null_bit: u8,
}

impl RowLayout {
    /// Makes the layout for columns of these types, in the order in which they were added, including dropped ones.
    /// Returns [`StatementTooComplex`](ErrorKind::StatementTooComplex) for more than 32,767 columns.
    pub fn new(kinds: &[SqlType]) -> Result<Self> {
        if kinds.len() >= usize::from(WIDE) {
            let what = format!("a table of {} columns is too wide: a row has at most {}", kinds.len(), WIDE - 1);
            return Err(Error::new(ErrorKind::StatementTooComplex, what));
        }
        let columns: Vec<_> =
            kinds.iter().map(|kind| StoredRowColumn { kind: kind.clone(), form: ValueForm::of(kind) }).collect();
        let (mut slot_bytes, mut last_string) = (vec![[0, 0]], vec![None]);
        for (i, column) in columns.iter().enumerate() {
            let [narrow, wide] = slot_bytes[i];
            let [more_narrow, more_wide] = column.form.width().map_or([2, 4], |width| [width as u32; 2]);
            slot_bytes.push([narrow + more_narrow, wide + more_wide]);
            last_string.push(if column.form.width().is_none() { Some(i as u16) } else { last_string[i] });
        }
        Ok(RowLayout { columns, slot_bytes, last_string })
    }

    /// The number of columns of a new row.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Appends a row of `values`. With fewer values than columns, the row has only the first columns. Appends nothing
    /// on error: a value is outside of the range of its type ([`NumericOutOfRange`](ErrorKind::NumericOutOfRange)), or
    /// the row is longer than 4 GiB ([`ResultTooLarge`](ErrorKind::ResultTooLarge)).
    pub fn encode(&self, values: &[ValueRef<'_>], out: &mut Vec<u8>) -> Result<()> {
        self.encode_by(values.len(), |column| Ok(values[column]), out)
    }

    /// Appends a row of the first `columns` columns, whose values `value` returns. Calls `value` at most three times
    /// per column. Errors are those of [`RowLayout::encode`].
    pub fn encode_by<'v>(
        &self,
        columns: usize,
        value: impl Fn(usize) -> Result<ValueRef<'v>>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        assert!(columns <= self.columns.len(), "a row must not have more columns than its table");
        let start = out.len();
        let result = self.try_encode(columns, value, out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    fn try_encode<'v>(
        &self,
        columns: usize,
        value: impl Fn(usize) -> Result<ValueRef<'v>>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let start = out.len();
        // We try a narrow row first, because nearly all rows are narrow and we only know after appending the strings.
        if self.put(columns, &value, false, out)? {
            return Ok(());
        }
        out.truncate(start);
        let fixed_bytes = HEAD_BYTES + columns.div_ceil(8) + self.slot_bytes[columns][1] as usize;
        let row_bytes = (0..columns).try_fold(fixed_bytes, |sum, column| Ok(sum + string(value(column)?).len()))?;
        if row_bytes > ROW_BYTES_MAX {
            let what = format!("a row of {row_bytes} bytes is too long: it may have at most {ROW_BYTES_MAX}");
            return Err(Error::new(ErrorKind::ResultTooLarge, what));
        }
        out.reserve(row_bytes);
        let is_put = self.put(columns, &value, true, out)?;
        assert!(is_put, "the length was checked, so the ends of a wide row should fit");
        Ok(())
    }

    /// Appends a narrow or a wide row. Returns `false` if the strings are too long for the ends of a narrow row. The
    /// bytes appended so far are then useless.
    fn put<'v>(
        &self,
        columns: usize,
        value: &impl Fn(usize) -> Result<ValueRef<'v>>,
        wide: bool,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let (end_bytes, end_max) = if wide { (4, u32::MAX as usize) } else { (2, usize::from(u16::MAX)) };
        let nulls_at = out.len() + HEAD_BYTES;
        let mut slot = nulls_at + columns.div_ceil(8);
        let strings_at = slot + self.slot_bytes[columns][usize::from(wide)] as usize;
        let head = columns as u16 | if wide { WIDE } else { 0 };
        out.extend_from_slice(&head.to_le_bytes());
        // Zeros for all NULL bits and slots, so that a NULL needs no writing.
        out.resize(strings_at, 0);
        for (i, column) in self.columns[..columns].iter().enumerate() {
            let value = value(i)?;
            // BIGINT is the commonest type, and all of its values are in range.
            if let (ValueForm::Int { width: 8 }, ValueRef::Int(value)) = (column.form, value) {
                out[slot..slot + 8].copy_from_slice(&value.to_le_bytes());
                slot += 8;
                continue;
            }
            column.form.check(value)?;
            if value.is_null() {
                out[nulls_at + i / 8] |= 1 << (i % 8);
            }
            match column.form.width() {
                Some(width) => {
                    put_fixed(column.form, value, &mut out[slot..slot + width]);
                    slot += width;
                }
                None => {
                    let string = string(value);
                    let end = out.len() - strings_at + string.len();
                    if end > end_max {
                        return Ok(false);
                    }
                    out.extend_from_slice(string);
                    out[slot..slot + end_bytes].copy_from_slice(&(end as u32).to_le_bytes()[..end_bytes]);
                    slot += end_bytes;
                }
            }
        }
        Ok(true)
    }

    /// Appends the row of `view` with the columns in `changes` replaced. If the row gets columns that it did not have,
    /// the other new columns take their values from `missing`, which is called for them. If only fixed-width values
    /// change, the row is copied once and they are overwritten in the copy. Errors are those of [`RowLayout::encode`]
    /// and of damaged rows.
    pub fn update<'v>(
        &self,
        view: &RowView<'v>,
        changes: impl Iterator<Item = (usize, ValueRef<'v>)> + Clone,
        missing: impl Fn(usize) -> ValueRef<'v>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        // A change of a string, or of a column that the row lacks, moves other fields. Then the row is encoded again.
        let stays = |column: usize| column < view.columns() && self.columns[column].form.width().is_some();
        if !changes.clone().all(|(column, _)| stays(column)) {
            let grows = changes.clone().any(|(column, _)| column >= view.columns());
            let columns = if grows { self.columns.len() } else { view.columns() };
            let value = |column: usize| match changes.clone().find(|(changed, _)| *changed == column) {
                Some((_, value)) => Ok(value),
                None => view.get(column).map(|value| value.unwrap_or_else(|| missing(column))),
            };
            return self.encode_by(columns, value, out);
        }
        // All checks come before the first byte is appended, so that an error leaves nothing.
        for (column, value) in changes.clone() {
            self.columns[column].form.check(value)?;
        }
        let start = out.len();
        out.extend_from_slice(view.bytes);
        let row = &mut out[start..];
        for (column, value) in changes {
            let slot = self.slot(view.head, column).expect("the row should have the column");
            let form = self.columns[column].form;
            let width = form.width().expect("the column should have a fixed width");
            if value.is_null() {
                row[slot.null_byte] |= slot.null_bit;
            } else {
                row[slot.null_byte] &= !slot.null_bit;
            }
            put_fixed(form, value, &mut row[slot.at..slot.at + width]);
        }
        Ok(())
    }

    /// The location of a column in rows with `head`. `None` if they do not have the column.
    #[inline]
    pub(super) fn place(&self, head: u16, column: usize) -> Option<ColumnInRow> {
        let slot = self.slot(head, column)?;
        let slot_of = |column: usize| self.slot_at(head, column);
        Some(ColumnInRow {
            slot,
            string_before: self.last_string[column].map(|before| slot_of(usize::from(before))),
            strings: slot_of(usize::from(head & !WIDE)),
            wide: head & WIDE != 0,
        })
    }

    /// The location of a column's slot in rows with `head`. `None` if they do not have the column.
    #[inline]
    fn slot(&self, head: u16, column: usize) -> Option<SlotInRow> {
        if column >= usize::from(head & !WIDE) {
            return None;
        }
        let at = self.slot_at(head, column);
        Some(SlotInRow { at, null_byte: HEAD_BYTES + column / 8, null_bit: 1 << (column % 8) })
    }

    /// The offset of the slot of a column in rows with `head`, or of the strings for the number of their columns.
    #[inline]
    fn slot_at(&self, head: u16, column: usize) -> usize {
        let columns = usize::from(head & !WIDE);
        HEAD_BYTES + columns.div_ceil(8) + self.slot_bytes[column][usize::from(head & WIDE != 0)] as usize
    }
}

#[inline]
fn string(value: ValueRef<'_>) -> &[u8] {
    match value {
        ValueRef::Text(value) => value.as_bytes(),
        ValueRef::Bytes(value) => value,
        _ => &[],
    }
}

/// Writes a checked value into its slot, or zeros for NULL.
#[inline]
fn put_fixed(form: ValueForm, value: ValueRef<'_>, slot: &mut [u8]) {
    match (form, value) {
        (ValueForm::Bool, ValueRef::Bool(value)) => slot[0] = value.into(),
        (_, ValueRef::Int(value)) => put_low_bytes(value as u64, slot),
        (_, ValueRef::UInt(value)) => put_low_bytes(value, slot),
        (ValueForm::Float32, ValueRef::Float(value)) => slot.copy_from_slice(&(value as f32).to_le_bytes()),
        (_, ValueRef::Float(value)) => slot.copy_from_slice(&value.to_le_bytes()),
        // The value is in range, so its lower half is the whole value.
        (ValueForm::Decimal { width: 8, .. }, ValueRef::Decimal(value)) => {
            slot.copy_from_slice(&(value as i64).to_le_bytes())
        }
        (_, ValueRef::Decimal(value)) => slot.copy_from_slice(&value.to_le_bytes()),
        (_, ValueRef::Interval(value)) => {
            slot[..4].copy_from_slice(&value.months.to_le_bytes());
            slot[4..8].copy_from_slice(&value.days.to_le_bytes());
            slot[8..].copy_from_slice(&value.nanoseconds.to_le_bytes());
        }
        (_, ValueRef::Bytes(value)) => slot.copy_from_slice(value),
        _ => slot.fill(0),
    }
}

#[inline]
fn put_low_bytes(value: u64, slot: &mut [u8]) {
    match slot.len() {
        1 => slot[0] = value as u8,
        2 => slot.copy_from_slice(&(value as u16).to_le_bytes()),
        4 => slot.copy_from_slice(&(value as u32).to_le_bytes()),
        _ => slot.copy_from_slice(&value.to_le_bytes()),
    }
}

/// A view of a row whose bytes are checked: its slots are there, and its last string ends at its end. [`RowView::get`]
/// checks the other ends.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    layout: &'a RowLayout,
    head: u16,
    bytes: &'a [u8],
}

impl<'a> RowView<'a> {
    /// Makes a view of the row in `bytes`. Checks that the layout has its columns and that all slots and strings are
    /// present.
    #[inline]
    pub fn new(layout: &'a RowLayout, bytes: &'a [u8]) -> Result<Self> {
        let head = u16::from_le_bytes(*bytes.first_chunk().ok_or_else(|| damaged("a row has no head"))?);
        let columns = usize::from(head & !WIDE);
        if columns > layout.columns.len() {
            return Err(damaged("a row has more columns than its table"));
        }
        // After this check, no slot of the row is beyond its end.
        let strings = layout.slot_at(head, columns);
        if bytes.len() < strings {
            return Err(damaged("a row ends too early"));
        }
        // The end of the last string must be the end of the row, otherwise the row was cut or has extra bytes.
        let end = match layout.last_string[columns] {
            None => 0,
            Some(last) => end_in(bytes, layout.slot_at(head, usize::from(last)), head & WIDE != 0),
        };
        match bytes.len() - strings == end {
            true => Ok(RowView { layout, head, bytes }),
            false => Err(damaged("the strings of a row do not end where the row ends")),
        }
    }

    /// The number of columns that the row has: the first ones of its layout.
    pub fn columns(&self) -> usize {
        usize::from(self.head & !WIDE)
    }

    /// The bytes of the whole row.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The value of a column. `None` if the row is older than the column. Returns an error only for damaged bytes.
    #[inline]
    pub fn get(&self, column: usize) -> Result<Option<ValueRef<'a>>> {
        let Some(slot) = self.layout.slot(self.head, column) else { return Ok(None) };
        if slot.is_null(self.bytes) {
            return Ok(Some(ValueRef::Null));
        }
        let string = || {
            let place = self.layout.place(self.head, column);
            place.expect("a column with a slot has a place").string(self.bytes)
        };
        let form = self.layout.columns[column].form;
        Ok(Some(match form {
            ValueForm::Bool => ValueRef::Bool(bool_of(slot.fixed(self.bytes))?),
            ValueForm::Int { width: 1 } => ValueRef::Int(i8::from_le_bytes(slot.fixed(self.bytes)).into()),
            ValueForm::Int { width: 2 } => ValueRef::Int(i16::from_le_bytes(slot.fixed(self.bytes)).into()),
            ValueForm::Int { width: 4 } => ValueRef::Int(i32::from_le_bytes(slot.fixed(self.bytes)).into()),
            ValueForm::Int { .. } => ValueRef::Int(i64::from_le_bytes(slot.fixed(self.bytes))),
            ValueForm::UInt { width: 1 } => ValueRef::UInt(u8::from_le_bytes(slot.fixed(self.bytes)).into()),
            ValueForm::UInt { width: 2 } => ValueRef::UInt(u16::from_le_bytes(slot.fixed(self.bytes)).into()),
            ValueForm::UInt { width: 4 } => ValueRef::UInt(u32::from_le_bytes(slot.fixed(self.bytes)).into()),
            ValueForm::UInt { .. } => ValueRef::UInt(u64::from_le_bytes(slot.fixed(self.bytes))),
            ValueForm::Float32 => ValueRef::Float(f32::from_le_bytes(slot.fixed(self.bytes)).into()),
            ValueForm::Float64 => ValueRef::Float(f64::from_le_bytes(slot.fixed(self.bytes))),
            ValueForm::Decimal { width: 8, .. } => ValueRef::Decimal(i64::from_le_bytes(slot.fixed(self.bytes)).into()),
            ValueForm::Decimal { .. } => ValueRef::Decimal(i128::from_le_bytes(slot.fixed(self.bytes))),
            ValueForm::Interval => ValueRef::Interval(interval_of(slot.fixed(self.bytes))),
            ValueForm::Uuid => ValueRef::Bytes(&self.bytes[slot.at..slot.at + 16]),
            ValueForm::Wide { .. } => ValueRef::Bytes(&self.bytes[slot.at..slot.at + WIDE_BYTES]),
            ValueForm::Text => ValueRef::Text(text_of(string()?)?),
            ValueForm::Blob | ValueForm::Nested => ValueRef::Bytes(string()?),
        }))
    }
}

impl SlotInRow {
    #[inline]
    fn is_null(&self, row: &[u8]) -> bool {
        row[self.null_byte] & self.null_bit != 0
    }

    #[inline]
    fn fixed<const N: usize>(&self, row: &[u8]) -> [u8; N] {
        *row[self.at..].first_chunk().expect("a checked row should have its slots")
    }
}

impl ColumnInRow {
    #[inline]
    pub(super) fn is_null(&self, row: &[u8]) -> bool {
        self.slot.is_null(row)
    }

    #[inline]
    pub(super) fn fixed<const N: usize>(&self, row: &[u8]) -> [u8; N] {
        self.slot.fixed(row)
    }

    #[inline]
    pub(super) fn string<'r>(&self, row: &'r [u8]) -> Result<&'r [u8]> {
        let start = self.string_before.map_or(0, |slot| end_in(row, slot, self.wide));
        let string = row[self.strings..].get(start..end_in(row, self.slot.at, self.wide));
        string.ok_or_else(|| damaged("a string is outside of the row"))
    }
}

/// The end of a string, from its slot.
#[inline]
fn end_in(row: &[u8], slot: usize, wide: bool) -> usize {
    if wide {
        u32::from_le_bytes(*row[slot..].first_chunk().expect("a checked row should have its slots")) as usize
    } else {
        u16::from_le_bytes(*row[slot..].first_chunk().expect("a checked row should have its slots")).into()
    }
}

pub(super) fn bool_of(bytes: [u8; 1]) -> Result<bool> {
    match bytes {
        [0] => Ok(false),
        [1] => Ok(true),
        _ => Err(damaged("a boolean is neither true nor false")),
    }
}

pub(super) fn interval_of(bytes: [u8; 16]) -> IntervalMonthDayNano {
    let part = |at: usize| *bytes[at..].first_chunk().expect("16 bytes");
    IntervalMonthDayNano {
        months: i32::from_le_bytes(part(0)),
        days: i32::from_le_bytes(part(4)),
        nanoseconds: i64::from_le_bytes(*bytes[8..].first_chunk().expect("16 bytes")),
    }
}

fn text_of(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| not_text())
}

#[cold]
pub(super) fn not_text() -> Error {
    damaged("a text is not UTF-8")
}

/// Makes an error without a location. Callers that read the row from somewhere should add where that is.
#[cold]
fn damaged(what: &str) -> Error {
    Error::corrupt(format!("keyed table: {what}"))
}

#[cfg(test)]
mod tests;
