//! Batches of keys: encodes Arrow arrays as keys, and decodes keys to arrays column by column.
//!
//! Keys are encoded row by row, in the order of their bytes. They are decoded part by part for all keys. So the type of
//! a part is examined once for a batch, and the loop only loads values.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewBuilder, BooleanBufferBuilder, FixedSizeBinaryBuilder};
use arrow::array::{BooleanArray, NullBufferBuilder};
use arrow::datatypes::ArrowNativeType;
use rowmill_base::Result;

use super::form::ValueForm;
use super::key::{KeyCodec, NULL, VALUE, damaged, decimal16, float32, float64, inverted, sign_bit, stored_string};
use super::natives::native_array;
use super::unchecked_texts::TextViews;
use super::{ByteRows, ColumnValues};
use crate::wide::{WIDE_BYTES, of_ordered_bytes};

impl KeyCodec {
    /// Adds the key of each row of `columns`, each after a copy of `head`. `columns` must have one array per part.
    /// Fewer arrays are the first parts.
    pub fn encode_rows(&self, head: &[u8], columns: &[ArrayRef], out: &mut ByteRows) -> Result<()> {
        let rows = columns.first().map_or(0, |column| column.len());
        let values = columns.iter().zip(&self.parts).map(|(column, part)| ColumnValues::new(column, &part.kind));
        let values = values.collect::<Result<Vec<_>>>()?;
        for row in 0..rows {
            out.push_with(|bytes| {
                bytes.extend_from_slice(head);
                values.iter().enumerate().try_for_each(|(part, values)| self.encode_part(part, values.get(row), bytes))
            })?;
        }
        Ok(())
    }

    /// Decodes the parts of `keys` that are `wanted` (one flag per part) into one array each. The parts of a key begin
    /// after a head of `head_bytes`.
    pub fn decode_columns(&self, keys: &[&[u8]], head_bytes: usize, wanted: &[bool]) -> Result<Vec<Option<ArrayRef>>> {
        assert_eq!(wanted.len(), self.parts.len(), "there must be a flag for every part");
        // Parts after the last wanted one need not be read. Parts before it must be skipped, because they have no fixed
        // length.
        let parts = wanted.iter().rposition(|wanted| *wanted).map_or(0, |last| last + 1);
        let mut columns = vec![None; wanted.len()];
        // The offset of each key's next part.
        let mut places = vec![head_bytes; keys.len()];
        for part in 0..parts {
            let cursor = PartCursor { codec: self, part, keys, places: &mut places };
            match wanted[part] {
                true => columns[part] = Some(cursor.read()?),
                false => cursor.pass()?,
            }
        }
        // All parts were read, so nothing may follow.
        if parts == self.parts.len() {
            for (key, place) in keys.iter().zip(places) {
                if place != key.len() {
                    return Err(damaged(parts - 1, place, "bytes are left over"));
                }
            }
        }
        Ok(columns)
    }
}

/// A cursor at one part of many keys. Reading or skipping the part moves the offset of each key to the next part.
struct PartCursor<'a> {
    codec: &'a KeyCodec,
    part: usize,
    keys: &'a [&'a [u8]],
    places: &'a mut [usize],
}

impl PartCursor<'_> {
    fn read(self) -> Result<ArrayRef> {
        let part = self.part;
        let form = self.codec.forms[part];
        match form {
            ValueForm::Bool => self.bools(),
            ValueForm::Int { width: 1 } => self.natives(|[byte]: [u8; 1]| (byte ^ 1 << 7) as i8),
            ValueForm::Int { width: 2 } => self.natives(|bytes| (u16::from_be_bytes(bytes) ^ 1 << 15) as i16),
            ValueForm::Int { width: 4 } => self.natives(|bytes| (u32::from_be_bytes(bytes) ^ 1 << 31) as i32),
            ValueForm::Int { .. } => self.natives(|bytes| (u64::from_be_bytes(bytes) ^ sign_bit(8)) as i64),
            ValueForm::UInt { width: 1 } => self.natives(|[byte]: [u8; 1]| byte),
            ValueForm::UInt { width: 2 } => self.natives(u16::from_be_bytes),
            ValueForm::UInt { width: 4 } => self.natives(u32::from_be_bytes),
            ValueForm::UInt { .. } => self.natives(u64::from_be_bytes),
            ValueForm::Float32 => self.natives(float32),
            ValueForm::Float64 => self.natives(float64),
            ValueForm::Decimal { width: 8, .. } => {
                self.natives(|bytes| i128::from((u64::from_be_bytes(bytes) ^ sign_bit(8)) as i64))
            }
            ValueForm::Decimal { .. } => self.natives(decimal16),
            ValueForm::Uuid => {
                let mut builder = FixedSizeBinaryBuilder::with_capacity(self.keys.len(), 16);
                self.each_fixed(|_, value: Option<[u8; 16]>| {
                    match value {
                        Some(value) => builder.append_value(value).expect("the builder takes 16 bytes"),
                        None => builder.append_null(),
                    }
                    Ok(())
                })?;
                Ok(Arc::new(builder.finish()))
            }
            ValueForm::Wide { .. } => self.natives(of_ordered_bytes),
            ValueForm::Text => {
                let mut texts = TextViews::with_capacity(self.keys.len());
                self.each_string(|place, value| {
                    match value {
                        None => texts.push_null(),
                        Some(text) if texts.push(text) => {}
                        Some(_) => return Err(damaged(part, place, "a text is not UTF-8")),
                    }
                    Ok(())
                })?;
                Ok(Arc::new(texts.finish()))
            }
            ValueForm::Blob => {
                let mut builder = BinaryViewBuilder::with_capacity(self.keys.len());
                self.each_string(|_, value| {
                    builder.append_option(value);
                    Ok(())
                })?;
                Ok(Arc::new(builder.finish()))
            }
            ValueForm::Interval | ValueForm::Nested => unreachable!("a key cannot have types without an order"),
        }
    }

    fn pass(self) -> Result<()> {
        match self.codec.forms[self.part].width() {
            Some(1) => self.each_fixed(|_, _: Option<[u8; 1]>| Ok(())),
            Some(2) => self.each_fixed(|_, _: Option<[u8; 2]>| Ok(())),
            Some(4) => self.each_fixed(|_, _: Option<[u8; 4]>| Ok(())),
            Some(8) => self.each_fixed(|_, _: Option<[u8; 8]>| Ok(())),
            Some(16) => self.each_fixed(|_, _: Option<[u8; 16]>| Ok(())),
            Some(WIDE_BYTES) => self.each_fixed(|_, _: Option<[u8; WIDE_BYTES]>| Ok(())),
            Some(width) => unreachable!("no type has {width} bytes"),
            None => self.each_string(|_, _| Ok(())),
        }
    }

    fn natives<T: ArrowNativeType, const N: usize>(self, value: impl Fn([u8; N]) -> T) -> Result<ArrayRef> {
        let kind = self.codec.parts[self.part].kind.arrow();
        let mut values = Vec::with_capacity(self.keys.len());
        let mut nulls = NullBufferBuilder::new(self.keys.len());
        self.each_fixed(|_, bytes: Option<[u8; N]>| {
            values.push(bytes.map_or(T::default(), &value));
            nulls.append(bytes.is_some());
            Ok(())
        })?;
        native_array(kind, values, nulls.finish())
    }

    fn bools(self) -> Result<ArrayRef> {
        let part = self.part;
        let mut values = BooleanBufferBuilder::new(self.keys.len());
        let mut nulls = NullBufferBuilder::new(self.keys.len());
        self.each_fixed(|place, value| {
            match value {
                Some([value @ 0..=1]) => values.append(value == 1),
                None => values.append(false),
                Some(_) => return Err(damaged(part, place, "neither true nor false")),
            }
            nulls.append(value.is_some());
            Ok(())
        })?;
        Ok(Arc::new(BooleanArray::new(values.finish(), nulls.finish())))
    }

    /// Calls `each` with the offset and the bytes of every key's part, or `None` for NULL. For parts of fixed width.
    fn each_fixed<const N: usize>(self, mut each: impl FnMut(usize, Option<[u8; N]>) -> Result<()>) -> Result<()> {
        let part = &self.codec.parts[self.part];
        for (key, place) in self.keys.iter().zip(self.places) {
            if part.nullable && is_null(self.part, key, place, part.descending)? {
                each(*place, None)?;
                continue;
            }
            let bytes = key.get(*place..).and_then(|rest| rest.first_chunk::<N>());
            let bytes = bytes.ok_or_else(|| damaged(self.part, *place, "the key ends too early"))?;
            each(*place, Some(inverted(*bytes, part.descending)))?;
            *place += N;
        }
        Ok(())
    }

    /// Calls `each` with the offset and the value of every key's part, or `None` for NULL. For strings.
    fn each_string(self, mut each: impl FnMut(usize, Option<&[u8]>) -> Result<()>) -> Result<()> {
        let part = &self.codec.parts[self.part];
        let mut scratch = Vec::new();
        for (key, place) in self.keys.iter().zip(self.places) {
            if part.nullable && is_null(self.part, key, place, part.descending)? {
                each(*place, None)?;
                continue;
            }
            let found = stored_string(key.get(*place..).unwrap_or_default(), part.descending);
            let (stored, len) = found.ok_or_else(|| damaged(self.part, *place, "a string has no end"))?;
            each(*place, Some(stored.value(&mut scratch)))?;
            *place += len;
        }
        Ok(())
    }
}

fn is_null(part: usize, key: &[u8], place: &mut usize, descending: bool) -> Result<bool> {
    let first = key.get(*place).map(|byte| inverted([*byte], descending)[0]);
    *place += 1;
    match first {
        Some(VALUE) => Ok(false),
        Some(NULL) => Ok(true),
        _ => Err(damaged(part, *place - 1, "neither a value nor NULL")),
    }
}
