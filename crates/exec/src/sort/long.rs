//! Keys that go on behind their entries.
//!
//! ```text
//! entry   rank of NULL 8 | first 24 bytes of the key, filled up with zeros 192 | bytes left 8 | place 48
//! ```
//!
//! A key is bytes whose order is that of the rows: a single text or blob itself, or what Arrow's row format makes of
//! several columns. The entry has the first of them and how many there are, at most one more than it has room for; where
//! two keys are equal so far, the shorter one comes first, and only if both go on are their bytes looked at (order.rs).
//! Descending texts have all these bits the other way round, but for the rank of NULL.

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

/// Bytes of a key that an entry has.
pub(super) const ENTRY_BYTES: usize = 24;
/// What an entry says of keys that go on.
const GOES_ON: u8 = ENTRY_BYTES as u8 + 1;

/// How keys become bytes.
#[derive(Debug)]
pub(super) enum LongLayout {
    /// A text or a blob.
    Text { descending: bool, nulls_first: bool },
    /// Columns in Arrow's row format, which has the order in it, and of each whether what is NULL is told by a column
    /// before it.
    Rows(RowConverter, Vec<bool>),
}

/// The bytes of the keys of some rows.
#[derive(Debug)]
pub(super) enum LongKeys {
    Texts(BinaryViewArray),
    Rows(Rows),
}

impl LongKeys {
    /// The key of a row; nothing that is meant if it is NULL.
    pub(super) fn get(&self, row: usize) -> &[u8] {
        match self {
            LongKeys::Texts(texts) => texts.value(row),
            LongKeys::Rows(rows) => rows.row(row).data(),
        }
    }

    /// Bytes of memory that are not those of the key columns.
    pub(super) fn bytes(&self) -> usize {
        match self {
            LongKeys::Texts(_) => 0,
            LongKeys::Rows(rows) => rows.size(),
        }
    }
}

impl LongLayout {
    /// A layout for `keys`, of the types `kinds`. Fails for a type that has no order.
    pub(super) fn new(keys: &[SortKey], kinds: &[&DataType]) -> Result<LongLayout> {
        if let ([key], [DataType::Utf8View | DataType::BinaryView]) = (keys, kinds) {
            return Ok(LongLayout::Text { descending: key.descending, nulls_first: key.nulls_first });
        }
        // NULL is greater than every item within a list wherever it is asked to stand by itself.
        let is_apart = |key: &SortKey, kind: &DataType| kind.is_nested() && key.nulls_first != key.descending;
        let (mut fields, mut apart) = (Vec::new(), Vec::new());
        for (key, kind) in keys.iter().zip(kinds) {
            apart.push(is_apart(key, kind));
            let mut own = options(key);
            if is_apart(key, kind) {
                let nulls = SortOptions { descending: key.nulls_first, nulls_first: false };
                fields.push(SortField::new_with_options(DataType::Boolean, nulls));
                own.nulls_first = key.descending;
            }
            fields.push(SortField::new_with_options((*kind).clone(), own));
        }
        RowConverter::new(fields)
            .map(|converter| LongLayout::Rows(converter, apart))
            .map_err(|error| Error::new(ErrorKind::Unsupported, format!("ORDER BY: {error}")))
    }

    /// The keys of rows.
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

    /// Whether the bytes of keys compare the other way round.
    pub(super) fn is_descending(&self) -> bool {
        matches!(self, LongLayout::Text { descending: true, .. })
    }
}

/// The key of an entry of which `bytes` are left.
pub(super) fn bits_of<E: Entry>(rank: u8, bytes: &[u8], descending: bool) -> E {
    // Both words of 128 bits; the key takes the last bytes.
    let mut words = [0; 32];
    let (first, key) = words.split_at_mut(32 - ENTRY_BYTES - 1);
    let bytes_here = bytes.len().min(ENTRY_BYTES);
    key[..bytes_here].copy_from_slice(&bytes[..bytes_here]);
    key[ENTRY_BYTES] = bytes.len().min(GOES_ON.into()) as u8;
    if descending {
        key.iter_mut().for_each(|byte| *byte = !*byte);
    }
    first[first.len() - 1] = rank;
    let ([high, low], []) = words.as_chunks::<16>() else { unreachable!("two words are two words") };
    let mut entry = E::of_key(u128::from_be_bytes(*low), 0);
    entry |= E::of_key(u128::from_be_bytes(*high), u128::BITS);
    entry
}

/// Whether the key of an entry goes on behind it.
pub(super) fn goes_on<E: Entry>(entry: E, descending: bool) -> bool {
    let left = (entry.tail() >> PLACE_BITS) as u8;
    GOES_ON == if descending { !left } else { left }
}

/// The same values with one zero and one NaN, at any depth.
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
    Error::internal(format!("keys to sort by: {error}"))
}
