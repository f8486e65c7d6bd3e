//! Keys as bytes whose order is the order of SQL.
//!
//! A key is the bytes of its parts, one behind the other. Comparing two keys byte by byte compares the values of their
//! first parts, where those are equal the second ones, and so on: no part's bytes are the beginning of other bytes of
//! that part, and each part's bytes are ordered as its values.
//!
//! Numbers are big-endian with their sign flipped, so that bytes are compared as values are; a string ends in two zeros,
//! and zeros in it are told apart by what follows them; a nullable part begins with a byte that puts NULL last; a descending
//! part has every bit inverted. The byte table is in `docs/file-format.md`, "Keys and rows of keyed tables".
//!
//! The end of a string is two bytes also in the last part, which could do without: an index is then often a key's prefix
//! plus other parts, and the same bytes serve both.
//!
//! Intervals, lists and structs have no order and cannot be parts.

use memchr::memchr;
use rowmill_base::{Error, ErrorKind, Result, SqlType};

use super::ValueRef;
use super::form::{Form, canonical_float};

/// What a nullable part begins with.
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

/// Makes keys of values and values of keys. See the module for the bytes.
#[derive(Clone, Debug)]
pub struct KeyCodec {
    pub(super) parts: Vec<KeyPart>,
    pub(super) forms: Vec<Form>,
}

impl KeyCodec {
    /// For keys of these parts. [`Unsupported`](ErrorKind::Unsupported) if a type has no order.
    pub fn new(parts: &[KeyPart]) -> Result<Self> {
        for KeyPart { kind, .. } in parts {
            if !kind.is_ordered() {
                let what = format!("a column of type {kind} cannot be part of a key: its values have no order");
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
        }
        let forms = parts.iter().map(|part| Form::of(&part.kind)).collect();
        Ok(KeyCodec { parts: parts.to_vec(), forms })
    }

    /// The parts of a whole key.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// Appends the key of `values` to `out`: of all parts or of as many first ones as there are values. Appends nothing
    /// if a value is outside of its part's range ([`NumericOutOfRange`](ErrorKind::NumericOutOfRange)), or NULL where
    /// there is none ([`NotNullViolation`](ErrorKind::NotNullViolation)).
    pub fn encode(&self, values: &[ValueRef<'_>], out: &mut Vec<u8>) -> Result<()> {
        self.encode_by(values.len(), |part| values[part], out)
    }

    /// As [`KeyCodec::encode`], of the first `parts` parts, each asked for once.
    #[inline]
    pub fn encode_by<'v>(&self, parts: usize, value: impl Fn(usize) -> ValueRef<'v>, out: &mut Vec<u8>) -> Result<()> {
        assert!(parts <= self.parts.len(), "a key has no more values than parts");
        let start = out.len();
        for part in 0..parts {
            if let Err(error) = self.encode_part(part, value(part), out) {
                out.truncate(start);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Appends one part, behind those before it. Errors are those of [`KeyCodec::encode`]; of a part that fails anything may
    /// be appended.
    #[inline]
    pub fn encode_part(&self, part: usize, value: ValueRef<'_>, out: &mut Vec<u8>) -> Result<()> {
        let KeyPart { nullable, descending, .. } = self.parts[part];
        let start = out.len();
        match (nullable, value.is_null()) {
            (true, true) => out.push(NULL),
            (false, true) => {
                let what = format!("NULL in part {} of a key, which is NOT NULL", part + 1);
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

    /// Reads the parts of `key` one after the other.
    pub fn reader<'a>(&'a self, key: &'a [u8]) -> KeyReader<'a> {
        KeyReader { codec: self, part: 0, key, at: 0 }
    }

    /// The value of one part of `key`; those before are passed over, those behind are not looked at. `scratch` as in
    /// [`KeyReader::next`].
    pub fn value<'s, 'a: 's>(&'a self, key: &'a [u8], part: usize, scratch: &'s mut Vec<u8>) -> Result<ValueRef<'s>> {
        let mut reader = self.reader(key);
        for _ in 0..part {
            reader.skip()?;
        }
        reader.next(scratch)?.ok_or_else(|| damaged(part, key.len(), "the key ends too early"))
    }

    /// The bytes of the first `parts` parts of `key`.
    pub fn prefix_bytes(&self, key: &[u8], parts: usize) -> Result<usize> {
        let mut reader = self.reader(key);
        for _ in 0..parts {
            reader.skip()?;
        }
        Ok(reader.at)
    }
}

#[inline]
fn push_value(form: Form, value: ValueRef<'_>, out: &mut Vec<u8>) -> Result<()> {
    form.check(value)?;
    match (form, value) {
        (Form::Bool, ValueRef::Bool(value)) => out.push(value.into()),
        (Form::Int { width }, ValueRef::Int(value)) => push_low_bytes(value as u64 ^ sign_bit(width), width, out),
        (Form::UInt { width }, ValueRef::UInt(value)) => push_low_bytes(value, width, out),
        (Form::Float32, ValueRef::Float(value)) => {
            let bits = (canonical_float(value) as f32).to_bits();
            out.extend(if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }.to_be_bytes());
        }
        (Form::Float64, ValueRef::Float(value)) => {
            let bits = canonical_float(value).to_bits();
            out.extend(if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }.to_be_bytes());
        }
        // In range, so that the lower half says it all.
        (Form::Decimal { width: 8, .. }, ValueRef::Decimal(value)) => {
            push_low_bytes(value as u64 ^ sign_bit(8), 8, out);
        }
        (Form::Decimal { .. }, ValueRef::Decimal(value)) => out.extend((value as u128 ^ 1 << 127).to_be_bytes()),
        (Form::Uuid, ValueRef::Bytes(value)) => out.extend_from_slice(value),
        (Form::Text, ValueRef::Text(value)) => push_string(value.as_bytes(), out),
        (Form::Blob, ValueRef::Bytes(value)) => push_string(value, out),
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
    while let Some(zero) = memchr(0, value) {
        out.extend_from_slice(&value[..zero]);
        out.extend_from_slice(&[0, 255]);
        value = &value[zero + 1..];
    }
    out.extend_from_slice(value);
    out.extend_from_slice(&[0, 0]);
}

/// The parts of one key, from the first on.
#[derive(Clone, Debug)]
pub struct KeyReader<'a> {
    codec: &'a KeyCodec,
    /// The part that is next.
    part: usize,
    key: &'a [u8],
    /// Where it begins.
    at: usize,
}

impl<'a> KeyReader<'a> {
    /// The next part, or `None` behind the last. `scratch` holds the value's bytes if the key has them otherwise: of
    /// descending parts, and of strings with zeros in them.
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
            Form::Bool => match self.fixed::<1>(descending)?[0] {
                0 => ValueRef::Bool(false),
                1 => ValueRef::Bool(true),
                _ => return Err(self.damaged("neither true nor false")),
            },
            Form::Int { width } => {
                let unused = 64 - 8 * width as u32;
                let value = self.number(width, descending)? ^ sign_bit(width);
                ValueRef::Int((value << unused) as i64 >> unused)
            }
            Form::UInt { width } => ValueRef::UInt(self.number(width, descending)?),
            Form::Float32 => ValueRef::Float(float32(self.fixed(descending)?).into()),
            Form::Float64 => ValueRef::Float(float64(self.fixed(descending)?)),
            Form::Decimal { width: 8, .. } => {
                ValueRef::Decimal(((self.number(8, descending)? ^ sign_bit(8)) as i64).into())
            }
            Form::Decimal { .. } => ValueRef::Decimal(decimal16(self.fixed(descending)?)),
            Form::Uuid => {
                scratch.clear();
                scratch.extend(self.fixed::<16>(descending)?);
                ValueRef::Bytes(scratch)
            }
            Form::Text | Form::Blob => {
                let (stored, len) = stored_string(&self.key[self.at..], descending)
                    .ok_or_else(|| self.damaged("a string without its end"))?;
                let bytes = stored.value(scratch);
                let value = match form {
                    Form::Text => {
                        ValueRef::Text(std::str::from_utf8(bytes).map_err(|_| self.damaged("a text is not UTF-8"))?)
                    }
                    _ => ValueRef::Bytes(bytes),
                };
                self.at += len;
                value
            }
            Form::Interval | Form::Nested => unreachable!("types without an order are not in keys"),
        };
        self.part += 1;
        Ok(Some(value))
    }

    /// Where the next part begins, or the last one ends.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Whether the next part, of which there has to be one, is NULL.
    pub fn is_next_null(&self) -> Result<bool> {
        match self.codec.parts[self.part].nullable {
            true => self.clone().is_null(),
            false => Ok(false),
        }
    }

    /// Passes over the next part, of which there has to be one; nothing but its length is checked.
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

    /// As [`KeyReader::skip`], of a key that may end before the part does: `None` then, or if it is no part.
    pub(super) fn pass(&mut self) -> Option<()> {
        let part = &self.codec.parts[self.part];
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

    /// The beginning of the next part, which the key does not have to its end, if it is a string: bytes of it, in `scratch`
    /// where the key has them otherwise.
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
        let mut before = 1;
        // Of a zero and what tells it from an end only the zero.
        scratch.retain(|byte| std::mem::replace(&mut before, *byte) != 0);
        Some(scratch)
    }

    /// Nothing may follow the last part.
    fn end(&self) -> Result<()> {
        match self.at == self.key.len() {
            true => Ok(()),
            false => Err(self.damaged("bytes are left over")),
        }
    }

    fn is_null(&mut self) -> Result<bool> {
        match self.fixed::<1>(self.codec.parts[self.part].descending)?[0] {
            VALUE => Ok(false),
            NULL => Ok(true),
            _ => Err(self.damaged("neither a value nor NULL")),
        }
    }

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

/// Says where a key is not one.
#[cold]
pub(super) fn damaged(part: usize, at: usize, what: &str) -> Error {
    Error::corrupt(format!("key, part {}, offset {at}: {what}", part + 1))
}

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

/// A string as it is stored, without its end.
pub(super) struct StoredString<'a> {
    bytes: &'a [u8],
    escapes: usize,
    descending: bool,
}

/// The string at the beginning of `bytes` and how long it is with its end; `None` if there is no end or a zero that is
/// neither the end nor a zero of the string.
pub(super) fn stored_string(bytes: &[u8], descending: bool) -> Option<(StoredString<'_>, usize)> {
    let zero = if descending { 255 } else { 0 };
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
    /// The string: in place where it is stored as it is, else in `scratch`.
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
            let end = memchr(zero, rest).expect("as many zeros as were counted") + 1;
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
