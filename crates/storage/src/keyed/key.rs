//! Keys as bytes that sort like SQL sorts their values.
//!
//! A key is the bytes of its parts, one after another. Comparing two keys byte by byte compares the values of their
//! first parts, then of their second parts if the first are equal, and so on. This works because the bytes of each part
//! sort like its values, and no value's bytes are a prefix of the bytes of another value of that part.
//!
//! Numbers are big-endian with their sign bit flipped, so that their bytes compare like their values. A string ends in
//! two zeros. A zero within it is followed by 255, so it differs from the end. For example, `a\0b` is stored as `a`, 0,
//! 255, `b`, 0, 0. A nullable part begins with a byte that sorts NULL last. A descending part has every bit inverted.
//! The byte table is in `docs/file-format.md`, "Keys and rows of keyed tables".
//!
//! A string in the last part has its end too, although it could do without. An index key is often a prefix of another
//! key with further parts, and so the same bytes serve both.
//!
//! Intervals, lists and structs have no order and cannot be parts.

use memchr::memchr;
use rowmill_base::{Error, ErrorKind, Result, SqlType};

use super::ValueRef;
use super::form::{ValueForm, canonical_float};
use crate::wide::WIDE_BYTES;

/// The first byte of a nullable part.
pub(super) const VALUE: u8 = 1;
pub(super) const NULL: u8 = 2;

/// A column of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPart {
    /// The type of the column.
    pub kind: SqlType,
    /// Whether the column may be NULL.
    pub nullable: bool,
    /// Whether greater values come first, and NULL before them.
    pub descending: bool,
}

impl KeyPart {
    /// An ascending part that is never NULL.
    pub fn new(kind: SqlType) -> Self {
        KeyPart { kind, nullable: false, descending: false }
    }
}

/// Encodes values as keys and decodes keys to values. The module describes the bytes.
#[derive(Clone, Debug)]
pub struct KeyCodec {
    pub(super) parts: Vec<KeyPart>,
    pub(super) forms: Vec<ValueForm>,
    /// The offset of each part that only parts of fixed widths precede, none of them nullable.
    offsets: Vec<Option<usize>>,
}

impl KeyCodec {
    /// Makes a codec for keys of these parts. Returns [`Unsupported`](ErrorKind::Unsupported) if the values of a type
    /// have no order.
    pub fn new(parts: &[KeyPart]) -> Result<Self> {
        for KeyPart { kind, .. } in parts {
            if !kind.is_ordered() {
                let what = format!("a column of type {kind} cannot be part of a key: its values have no order");
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
        }
        let forms: Vec<ValueForm> = parts.iter().map(|part| ValueForm::of(&part.kind)).collect();
        let mut next = Some(0);
        let offsets = parts.iter().zip(&forms).map(|(part, form)| {
            let width = form.width().filter(|_| !part.nullable);
            let offset = next;
            next = next.zip(width).map(|(offset, width)| offset + width);
            offset
        });
        let offsets = offsets.collect();
        Ok(KeyCodec { parts: parts.to_vec(), forms, offsets })
    }

    /// The parts of a whole key.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// Appends the key of `values` to `out`. With fewer values than parts, the key has only the first parts. Appends
    /// nothing on error: a value is outside of the range of its part
    /// ([`NumericOutOfRange`](ErrorKind::NumericOutOfRange)), or NULL in a part that is NOT NULL
    /// ([`NotNullViolation`](ErrorKind::NotNullViolation)).
    pub fn encode(&self, values: &[ValueRef<'_>], out: &mut Vec<u8>) -> Result<()> {
        self.encode_by(values.len(), |part| values[part], out)
    }

    /// Appends the key of the first `parts` parts, whose values `value` returns. Calls it once per part. Errors are
    /// those of [`KeyCodec::encode`].
    #[inline]
    pub fn encode_by<'v>(&self, parts: usize, value: impl Fn(usize) -> ValueRef<'v>, out: &mut Vec<u8>) -> Result<()> {
        assert!(parts <= self.parts.len(), "a key must not have more values than parts");
        let start = out.len();
        for part in 0..parts {
            if let Err(error) = self.encode_part(part, value(part), out) {
                out.truncate(start);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Appends one part after the parts before it. Errors are those of [`KeyCodec::encode`], but some bytes may have
    /// been appended then, so the caller must truncate `out`.
    #[inline]
    pub fn encode_part(&self, part: usize, value: ValueRef<'_>, out: &mut Vec<u8>) -> Result<()> {
        // The first byte of a nullable part is inverted too, so that NULL comes first in descending order.
        let KeyPart { nullable, descending, .. } = self.parts[part];
        let start = out.len();
        match (nullable, value.is_null()) {
            (true, true) => out.push(NULL),
            (false, true) => {
                let what = format!("NULL is not allowed in part {} of a key, which is NOT NULL", part + 1);
                return Err(Error::new(ErrorKind::NotNullViolation, what));
            }
            (nullable, false) => {
                if nullable {
                    out.push(VALUE);
                }
                push_value(self.forms[part], value, out)?;
            }
        }
        if descending {
            out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
        Ok(())
    }

    /// Reads the parts of `key` one after another.
    pub fn reader<'a>(&'a self, key: &'a [u8]) -> KeyReader<'a> {
        KeyReader { codec: self, part: 0, key, at: 0 }
    }

    /// Reads the value of one part of `key`. Skips the parts before and ignores the parts after it. For `scratch`, see
    /// [`KeyReader::next`].
    pub fn value<'s, 'a: 's>(&'a self, key: &'a [u8], part: usize, scratch: &'s mut Vec<u8>) -> Result<ValueRef<'s>> {
        let mut reader = self.reader(key);
        match self.offsets[part] {
            Some(at) if at <= key.len() => {
                if let Some(value) = self.plain_integer(part, &key[at..]) {
                    return Ok(ValueRef::Int(value));
                }
                (reader.part, reader.at) = (part, at);
            }
            _ => {
                for _ in 0..part {
                    reader.skip()?;
                }
            }
        }
        reader.next(scratch)?.ok_or_else(|| damaged(part, key.len(), "the key ends too early"))
    }

    /// The value of a part at the start of `bytes`, if it is an ascending `BIGINT` that cannot be NULL. This is the
    /// commonest key, and one that scans read for each row.
    #[inline]
    fn plain_integer(&self, part: usize, bytes: &[u8]) -> Option<i64> {
        let KeyPart { nullable: false, descending: false, .. } = self.parts[part] else { return None };
        match self.forms[part] {
            ValueForm::Int { width: 8 } => Some((u64::from_be_bytes(*bytes.first_chunk()?) ^ sign_bit(8)) as i64),
            _ => None,
        }
    }

    /// The length of the first `parts` parts of `key` in bytes.
    pub fn prefix_bytes(&self, key: &[u8], parts: usize) -> Result<usize> {
        // Parts of fixed widths that cannot be NULL have the same length in each key.
        if let Some(at) = self.offsets.get(parts).copied().flatten()
            && at <= key.len()
        {
            return Ok(at);
        }
        let mut reader = self.reader(key);
        for _ in 0..parts {
            reader.skip()?;
        }
        Ok(reader.at)
    }
}

#[inline]
fn push_value(form: ValueForm, value: ValueRef<'_>, out: &mut Vec<u8>) -> Result<()> {
    form.check(value)?;
    match (form, value) {
        (ValueForm::Bool, ValueRef::Bool(value)) => out.push(value.into()),
        (ValueForm::Int { width }, ValueRef::Int(value)) => push_low_bytes(value as u64 ^ sign_bit(width), width, out),
        (ValueForm::UInt { width }, ValueRef::UInt(value)) => push_low_bytes(value, width, out),
        (ValueForm::Float32, ValueRef::Float(value)) => {
            let bits = (canonical_float(value) as f32).to_bits();
            out.extend(if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }.to_be_bytes());
        }
        (ValueForm::Float64, ValueRef::Float(value)) => {
            let bits = canonical_float(value).to_bits();
            out.extend(if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }.to_be_bytes());
        }
        // The value is in range, so its lower half is the whole value.
        (ValueForm::Decimal { width: 8, .. }, ValueRef::Decimal(value)) => {
            push_low_bytes(value as u64 ^ sign_bit(8), 8, out);
        }
        (ValueForm::Decimal { .. }, ValueRef::Decimal(value)) => out.extend((value as u128 ^ 1 << 127).to_be_bytes()),
        (ValueForm::Uuid | ValueForm::Wide { .. }, ValueRef::Bytes(value)) => out.extend_from_slice(value),
        (ValueForm::Text, ValueRef::Text(value)) => push_string(value.as_bytes(), out),
        (ValueForm::Blob, ValueRef::Bytes(value)) => push_string(value, out),
        _ => return Err(form.refuse(value)),
    }
    Ok(())
}

pub(super) fn sign_bit(width: usize) -> u64 {
    1 << (8 * width - 1)
}

#[inline]
fn push_low_bytes(value: u64, width: usize, out: &mut Vec<u8>) {
    match width {
        1 => out.push(value as u8),
        2 => out.extend_from_slice(&(value as u16).to_be_bytes()),
        4 => out.extend_from_slice(&(value as u32).to_be_bytes()),
        _ => out.extend_from_slice(&value.to_be_bytes()),
    }
}

fn push_string(mut value: &[u8], out: &mut Vec<u8>) {
    // A zero of the value becomes 0 255, which sorts after the end 0 0. So a string sorts after its own prefixes.
    while let Some(zero) = memchr(0, value) {
        out.extend_from_slice(&value[..zero]);
        out.extend_from_slice(&[0, 255]);
        value = &value[zero + 1..];
    }
    out.extend_from_slice(value);
    out.extend_from_slice(&[0, 0]);
}

/// Reads the parts of one key from the first on.
#[derive(Clone, Debug)]
pub struct KeyReader<'a> {
    codec: &'a KeyCodec,
    /// The index of the next part.
    part: usize,
    key: &'a [u8],
    /// The offset of the next part.
    at: usize,
}

impl<'a> KeyReader<'a> {
    /// Reads the next part. Returns `None` after the last one. If the key does not have the value's bytes as they are
    /// (in descending parts, and in strings with zeros), they are put into `scratch`.
    pub fn next<'s>(&mut self, scratch: &'s mut Vec<u8>) -> Result<Option<ValueRef<'s>>>
    where
        'a: 's,
    {
        let Some(part) = self.codec.parts.get(self.part) else { return self.end().map(|()| None) };
        let (form, descending) = (self.codec.forms[self.part], part.descending);
        if part.nullable && self.is_null()? {
            self.part += 1;
            return Ok(Some(ValueRef::Null));
        }
        let value = match form {
            ValueForm::Bool => match self.fixed::<1>(descending)?[0] {
                0 => ValueRef::Bool(false),
                1 => ValueRef::Bool(true),
                _ => return Err(self.damaged("neither true nor false")),
            },
            ValueForm::Int { width } => {
                // Extend the sign of a narrow integer.
                let unused = 64 - 8 * width as u32;
                let value = self.number(width, descending)? ^ sign_bit(width);
                ValueRef::Int((value << unused) as i64 >> unused)
            }
            ValueForm::UInt { width } => ValueRef::UInt(self.number(width, descending)?),
            ValueForm::Float32 => ValueRef::Float(float32(self.fixed(descending)?).into()),
            ValueForm::Float64 => ValueRef::Float(float64(self.fixed(descending)?)),
            ValueForm::Decimal { width: 8, .. } => {
                ValueRef::Decimal(((self.number(8, descending)? ^ sign_bit(8)) as i64).into())
            }
            ValueForm::Decimal { .. } => ValueRef::Decimal(decimal16(self.fixed(descending)?)),
            ValueForm::Uuid => {
                scratch.clear();
                // A descending UUID is stored inverted, so it cannot be borrowed from the key.
                scratch.extend(self.fixed::<16>(descending)?);
                ValueRef::Bytes(scratch)
            }
            ValueForm::Wide { .. } => {
                scratch.clear();
                scratch.extend(self.fixed::<WIDE_BYTES>(descending)?);
                ValueRef::Bytes(scratch)
            }
            ValueForm::Text | ValueForm::Blob => {
                let (stored, len) = stored_string(&self.key[self.at..], descending)
                    .ok_or_else(|| self.damaged("a string has no end"))?;
                let bytes = stored.value(scratch);
                let value = match form {
                    ValueForm::Text => {
                        ValueRef::Text(std::str::from_utf8(bytes).map_err(|_| self.damaged("a text is not UTF-8"))?)
                    }
                    _ => ValueRef::Bytes(bytes),
                };
                self.at += len;
                value
            }
            ValueForm::Interval | ValueForm::Nested => unreachable!("a key cannot have types without an order"),
        };
        self.part += 1;
        Ok(Some(value))
    }

    /// The offset of the next part, or of the end after the last part.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Whether the next part is NULL. The key must have a next part.
    pub fn is_next_null(&self) -> Result<bool> {
        match self.codec.parts[self.part].nullable {
            true => self.clone().is_null(),
            false => Ok(false),
        }
    }

    /// Skips the next part, which the key must have. Checks only its length.
    #[inline]
    pub fn skip(&mut self) -> Result<()> {
        let part = &self.codec.parts[self.part];
        if !(part.nullable && self.is_null()?) {
            let rest = &self.key[self.at..];
            let len = match self.codec.forms[self.part].width() {
                Some(width) => (width <= rest.len()).then_some(width),
                None => stored_string(rest, part.descending).map(|(_, len)| len),
            };
            self.at += len.ok_or_else(|| self.damaged("the key ends too early"))?;
        }
        self.part += 1;
        Ok(())
    }

    /// Skips the next part of a key that may end before the part does. Returns `None` in that case, or if the bytes are
    /// not a part, and then the reader does not move.
    pub(super) fn pass(&mut self) -> Option<()> {
        let part = &self.codec.parts[self.part];
        // Work on copies, so that the reader does not move if the part is incomplete.
        let mut at = self.at;
        let mut is_null = false;
        if part.nullable {
            is_null = match inverted([*self.key.get(at)?], part.descending)[0] {
                VALUE => false,
                NULL => true,
                _ => return None,
            };
            at += 1;
        }
        if !is_null {
            let rest = &self.key[at..];
            at += match self.codec.forms[self.part].width() {
                Some(width) => (width <= rest.len()).then_some(width)?,
                None => stored_string(rest, part.descending)?.1,
            };
        }
        (self.at, self.part) = (at, self.part + 1);
        Some(())
    }

    /// If the key was cut within the next part and that part is a string, returns the bytes of the string that the key
    /// still has. They are put into `scratch`.
    pub fn cut_string<'s>(&self, scratch: &'s mut Vec<u8>) -> Option<&'s [u8]>
    where
        'a: 's,
    {
        let part = self.codec.parts.get(self.part)?;
        let bytes = self.key.get(self.at + usize::from(part.nullable)..)?;
        if self.codec.forms[self.part].width().is_some() {
            return None;
        }
        scratch.clear();
        scratch.extend(bytes.iter().map(|byte| inverted([*byte], part.descending)[0]));
        // The bytes were inverted back, so zeros are zeros here also in descending parts.
        let mut before = 1;
        // We drop the byte after each zero: it only says that the zero belongs to the string.
        scratch.retain(|byte| std::mem::replace(&mut before, *byte) != 0);
        Some(scratch)
    }

    /// Checks that no bytes follow the last part.
    fn end(&self) -> Result<()> {
        match self.at == self.key.len() {
            true => Ok(()),
            false => Err(self.damaged("bytes are left over")),
        }
    }

    #[inline]
    fn is_null(&mut self) -> Result<bool> {
        match self.fixed::<1>(self.codec.parts[self.part].descending)?[0] {
            VALUE => Ok(false),
            NULL => Ok(true),
            _ => Err(self.damaged("neither a value nor NULL")),
        }
    }

    #[inline]
    fn fixed<const N: usize>(&mut self, descending: bool) -> Result<[u8; N]> {
        match self.key[self.at..].first_chunk::<N>() {
            Some(bytes) => {
                self.at += N;
                Ok(inverted(*bytes, descending))
            }
            None => Err(self.damaged("the key ends too early")),
        }
    }

    fn number(&mut self, width: usize, descending: bool) -> Result<u64> {
        Ok(match width {
            1 => self.fixed::<1>(descending)?[0].into(),
            2 => u16::from_be_bytes(self.fixed(descending)?).into(),
            4 => u32::from_be_bytes(self.fixed(descending)?).into(),
            _ => u64::from_be_bytes(self.fixed(descending)?),
        })
    }

    #[cold]
    fn damaged(&self, what: &str) -> Error {
        damaged(self.part, self.at, what)
    }
}

/// Makes an error for a damaged key, with the part and the offset.
#[cold]
pub(super) fn damaged(part: usize, at: usize, what: &str) -> Error {
    Error::corrupt(format!("key, part {}, offset {at}: {what}", part + 1))
}

#[inline]
pub(super) fn inverted<const N: usize>(bytes: [u8; N], descending: bool) -> [u8; N] {
    if descending { bytes.map(|byte| !byte) } else { bytes }
}

pub(super) fn float32(bytes: [u8; 4]) -> f32 {
    let bits = u32::from_be_bytes(bytes);
    f32::from_bits(if bits >> 31 == 1 { bits ^ 1 << 31 } else { !bits })
}

pub(super) fn float64(bytes: [u8; 8]) -> f64 {
    let bits = u64::from_be_bytes(bytes);
    f64::from_bits(if bits >> 63 == 1 { bits ^ 1 << 63 } else { !bits })
}

pub(super) fn decimal16(bytes: [u8; 16]) -> i128 {
    (u128::from_be_bytes(bytes) ^ 1 << 127) as i128
}

/// A stored string, without the two zeros at its end.
pub(super) struct StoredString<'a> {
    bytes: &'a [u8],
    escapes: usize,
    descending: bool,
}

/// Finds the string at the start of `bytes`, and its stored length including the end. `None` if there is no end, or if
/// a zero is followed by a byte that is neither part of the end nor 255.
pub(super) fn stored_string(bytes: &[u8], descending: bool) -> Option<(StoredString<'_>, usize)> {
    let zero = if descending { 255 } else { 0 };
    // Descending strings are stored inverted, so their zeros are 255 and the byte after a zero of the string is 0.
    let (mut at, mut escapes) = (0, 0);
    loop {
        at += memchr(zero, &bytes[at..])?;
        let next = *bytes.get(at + 1)?;
        if next == zero {
            return Some((StoredString { bytes: &bytes[..at], escapes, descending }, at + 2));
        } else if next == !zero {
            escapes += 1;
            at += 2;
        } else {
            return None;
        }
    }
}

impl<'a> StoredString<'a> {
    /// The value of the string: in place if it is stored unchanged, otherwise in `scratch`.
    pub(super) fn value<'s>(&self, scratch: &'s mut Vec<u8>) -> &'s [u8]
    where
        'a: 's,
    {
        if self.escapes == 0 && !self.descending {
            return self.bytes;
        }
        scratch.clear();
        let zero = if self.descending { 255 } else { 0 };
        let mut rest = self.bytes;
        for _ in 0..self.escapes {
            let end = memchr(zero, rest).expect("the escapes were counted before") + 1;
            scratch.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
        }
        scratch.extend_from_slice(rest);
        if self.descending {
            scratch.iter_mut().for_each(|byte| *byte = !*byte);
        }
        scratch
    }
}

#[cfg(test)]
mod tests;
