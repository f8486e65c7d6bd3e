//! Long keys: keys that do not fit their entries.
//!
//! ```text
//! entry   rank of NULL 8 | first 24 bytes of the key, filled up with zeros 192 | bytes left 8 | place 48
//! ```
//!
//! A key is a sequence of bytes that sorts like the rows: a single text or blob itself, or several columns in Arrow's
//! row format. The entry has the first bytes of the key, and their number, at most one more than it has room for. If
//! two keys are equal so far, the shorter one comes first. Only if both go on do we compare their remaining bytes
//! (order.rs). For descending texts all these bits are inverted, except for the rank of NULL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, make_array};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, Rows, SortField};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::kernels::truth;

use super::entry::{Entry, PLACE_BITS};
use super::{SortKey, options};

/// The number of bytes of a key that an entry holds.
pub(super) const ENTRY_BYTES: usize = 24;
/// The number of bytes that an entry states for a key that goes on.
const GOES_ON: u8 = ENTRY_BYTES as u8 + 1;

/// The way in which keys become bytes.
#[derive(Debug)]
pub(super) enum LongLayout {
    /// A single text or blob.
    Text { descending: bool, nulls_first: bool },
    /// Columns in Arrow's row format, which includes the order. For each column: whether an extra Boolean column in
    /// front of it says which values are NULL.
    Rows(RowConverter, Vec<bool>),
}

/// The bytes of the keys of some rows.
#[derive(Debug)]
pub(super) enum LongKeys {
    Texts(BinaryViewArray),
    Rows(Rows),
}

impl LongKeys {
    /// The key of a row. Meaningless if the key is NULL.
    pub(super) fn get(&self, row: usize) -> &[u8] {
        match self {
            LongKeys::Texts(texts) => texts.value(row),
            LongKeys::Rows(rows) => rows.row(row).data(),
        }
    }

    /// The bytes of memory beyond the memory of the key columns.
    pub(super) fn bytes(&self) -> usize {
        match self {
            LongKeys::Texts(_) => 0,
            LongKeys::Rows(rows) => rows.size(),
        }
    }
}

impl LongLayout {
    /// Chooses a layout for `keys` with the types `kinds`. Fails for a type that has no order.
    pub(super) fn new(keys: &[SortKey], kinds: &[&DataType]) -> Result<LongLayout> {
        if let ([key], [DataType::Utf8View | DataType::BinaryView]) = (keys, kinds) {
            return Ok(LongLayout::Text { descending: key.descending, nulls_first: key.nulls_first });
        }
        // Arrow sorts NULLs inside a list like NULL itself. SQL wants them above every item, whatever NULLS FIRST
        // says. If the two differ, a Boolean column in front takes care of NULL itself.
        let is_apart = |key: &SortKey, kind: &DataType| kind.is_nested() && key.nulls_first != key.descending;
        let (mut fields, mut apart) = (Vec::new(), Vec::new());
        for (key, kind) in keys.iter().zip(kinds) {
            apart.push(is_apart(key, kind));
            let mut own = options(key);
            if is_apart(key, kind) {
                let nulls = SortOptions { descending: key.nulls_first, nulls_first: false };
                // The Boolean is never NULL. Its direction puts NULLs where the key wants them.
                fields.push(SortField::new_with_options(DataType::Boolean, nulls));
                own.nulls_first = key.descending;
            }
            fields.push(SortField::new_with_options((*kind).clone(), own));
        }
        RowConverter::new(fields)
            .map(|converter| LongLayout::Rows(converter, apart))
            .map_err(|error| Error::new(ErrorKind::Unsupported, format!("ORDER BY: {error}")))
    }

    /// Computes the keys of rows.
    pub(super) fn keys(&self, columns: &[ArrayRef]) -> Result<LongKeys> {
        match self {
            LongLayout::Text { .. } => Ok(LongKeys::Texts(match columns[0].data_type() {
                DataType::Utf8View => columns[0].as_string_view().clone().to_binary_view(),
                _ => columns[0].as_binary_view().clone(),
            })),
            LongLayout::Rows(converter, apart) => {
                let mut of_keys = Vec::with_capacity(columns.len());
                for (column, is_apart) in columns.iter().zip(apart) {
                    if *is_apart {
                        of_keys.push(Arc::new(truth::is_null(column)) as ArrayRef);
                    }
                    of_keys.push(canonical(column)?);
                }
                converter.convert_columns(&of_keys).map(LongKeys::Rows).map_err(failed)
            }
        }
    }

    /// Adds the first bytes of keys to the entries of their rows.
    pub(super) fn add<E: Entry>(&self, keys: &LongKeys, entries: &mut [E]) {
        for (row, entry) in entries.iter_mut().enumerate() {
            *entry |= self.first_bits(keys, row);
        }
    }

    fn first_bits<E: Entry>(&self, keys: &LongKeys, row: usize) -> E {
        match (self, keys) {
            (LongLayout::Text { nulls_first, .. }, LongKeys::Texts(texts)) if texts.is_null(row) => {
                E::of_key(u128::from(!nulls_first), 8 * (ENTRY_BYTES as u32 + 1))
            }
            (LongLayout::Text { descending, nulls_first }, _) => {
                bits_of(u8::from(*nulls_first), keys.get(row), *descending)
            }
            (LongLayout::Rows(..), _) => bits_of(0, keys.get(row), false),
        }
    }

    /// Whether the remaining bytes of keys must be compared in reverse.
    pub(super) fn is_descending(&self) -> bool {
        matches!(self, LongLayout::Text { descending: true, .. })
    }
}

/// The bits of an entry for a key with these bytes.
pub(super) fn bits_of<E: Entry>(rank: u8, bytes: &[u8], descending: bool) -> E {
    // Two words of 128 bits. The key takes the last bytes, and the rank of NULL the byte before them.
    let mut words = [0; 32];
    let (first, key) = words.split_at_mut(32 - ENTRY_BYTES - 1);
    let bytes_here = bytes.len().min(ENTRY_BYTES);
    key[..bytes_here].copy_from_slice(&bytes[..bytes_here]);
    key[ENTRY_BYTES] = bytes.len().min(GOES_ON.into()) as u8;
    if descending {
        // This also inverts the zeros after a short key and its length, so shorter texts come later.
        key.iter_mut().for_each(|byte| *byte = !*byte);
    }
    first[first.len() - 1] = rank;
    let ([high, low], []) = words.as_chunks::<16>() else { unreachable!("32 bytes are two words of 16") };
    let mut entry = E::of_key(u128::from_be_bytes(*low), 0);
    entry |= E::of_key(u128::from_be_bytes(*high), u128::BITS);
    entry
}

/// Whether the key of an entry goes on after it.
pub(super) fn goes_on<E: Entry>(entry: E, descending: bool) -> bool {
    let left = (entry.tail() >> PLACE_BITS) as u8;
    GOES_ON == if descending { !left } else { left }
}

/// Replaces zeros by 0.0 and NaNs by one NaN, at any depth of nesting.
pub(crate) fn canonical(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float32 => Arc::new(
            values
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|v| if v.is_nan() { f32::NAN } else { v + 0.0 }),
        ),
        DataType::Float64 => Arc::new(
            values
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|v| if v.is_nan() { f64::NAN } else { v + 0.0 }),
        ),
        kind if kind.is_nested() => {
            let data = values.to_data();
            let parts = data.child_data().iter().map(|part| Ok(canonical(&make_array(part.clone()))?.to_data()));
            let parts = parts.collect::<Result<_>>()?;
            make_array(data.into_builder().child_data(parts).build().map_err(failed)?)
        }
        _ => Arc::clone(values),
    })
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("cannot make keys to sort by: {error}"))
}
