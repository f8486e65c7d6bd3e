//! Converts rows of a keyed table to keys and bytes, and makes the keys of its indexes.
//!
//! ```text
//! row           'K' index (4, big endian) primary key           -> the columns outside of it
//! index entry   'K' index (4, big endian) columns, primary key  -> nothing
//! ```
//!
//! Entries of unique indexes also end with the primary key. Because of that, the entries of rows with NULL differ, and
//! each entry tells where its row is. `index_codec.rs` describes how entries of long values are made.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use rowmill_base::{ColumnId, Error, ErrorKind, IndexId, Result, SqlType};
use rowmill_storage::keyed::{ColumnValues, KeyCodec, KeyPart, RowLayout, RowView, SHORT_PREFIX_BYTES, ValueRef};
use rowmill_storage::{ColumnDef, KeyColumn, TableDef};

use super::cursor::RowBatch;
use super::index_codec::IndexCodec;
use super::row_reader::RowReader;
use crate::base::KEY_LEN_MAX;
use crate::manifest::KEYED;

/// The number of bytes before the columns of a key: the table marker and the id of the index.
pub(crate) const HEAD_BYTES: usize = 5;

/// The first bytes of all keys of an index: the head of the index.
pub(crate) fn index_head(index: IndexId) -> [u8; HEAD_BYTES] {
    let [a, b, c, d] = index.0.to_be_bytes();
    [KEYED, a, b, c, d]
}

/// The index to which a key belongs.
pub(crate) fn index_of(key: &[u8]) -> Result<IndexId> {
    match key.first_chunk() {
        Some([KEYED, a, b, c, d]) => Ok(IndexId(u32::from_be_bytes([*a, *b, *c, *d]))),
        _ => Err(Error::corrupt("a key of a keyed table does not begin with the id of its index")),
    }
}

/// Encodes and decodes keys and rows for one version of a table's definition.
#[derive(Debug)]
pub struct TableCodec {
    def: Arc<TableDef>,
    head: [u8; HEAD_BYTES],
    key: KeyCodec,
    layout: RowLayout,
    /// Where each column of the table is stored.
    fields: Vec<StoredField>,
    /// For each column of a stored row, the column of the table; `None` for a dropped column.
    stored: Vec<Option<usize>>,
    /// The columns of the primary key, in the order of the key.
    key_columns: Vec<usize>,
    /// For each column, the value that it has in rows older than the column.
    missing: Vec<Option<ColumnValues>>,
    indexes: Vec<IndexCodec>,
    /// For each column, the limits of its values.
    limits: Vec<ColumnRule>,
    /// Columns that foreign keys of any table refer to.
    referred: Vec<ColumnId>,
}

/// Limits of a column's values beyond those of its type.
#[derive(Clone, Copy, Debug)]
struct ColumnRule {
    nullable: bool,
    chars_max: Option<u32>,
}

impl ColumnRule {
    fn of(column: &ColumnDef) -> ColumnRule {
        let chars_max = if let SqlType::Text { chars_max } = column.kind { chars_max } else { None };
        ColumnRule { nullable: column.nullable, chars_max }
    }
}

/// Where a column of the table is stored.
#[derive(Clone, Copy, Debug)]
pub(super) enum StoredField {
    /// A part of the primary key.
    Key(usize),
    /// A column of the row.
    Row(usize),
}

impl TableCodec {
    /// Makes the codec for the rows of `def`, which must be a keyed table.
    pub fn new(def: &Arc<TableDef>) -> Result<TableCodec> {
        let keyed = def.keyed.as_ref().ok_or_else(|| not_keyed(def))?;
        let position = |id: ColumnId| {
            def.column_by_id(id).ok_or_else(|| Error::internal(format!("a key has the unknown column {id}")))
        };
        let part = |column: &KeyColumn| {
            let of_table = &def.columns[position(column.column)?];
            let KeyColumn { descending, .. } = *column;
            Ok(KeyPart { kind: of_table.kind.clone(), nullable: of_table.nullable, descending })
        };
        let key_parts = keyed.key.iter().map(part).collect::<Result<Vec<_>>>()?;
        let indexes = keyed.indexes.iter().map(|index| {
            let mut parts = index.parts.iter().map(part).collect::<Result<Vec<_>>>()?;
            // A column may gain or lose NOT NULL, but its index entries stay as they are. So entries always allow NULL.
            parts.iter_mut().for_each(|part| part.nullable = true);
            parts.extend_from_slice(&key_parts);
            let columns = index.parts.iter().map(|part| position(part.column)).collect::<Result<_>>()?;
            Ok(IndexCodec::new(index.clone(), KeyCodec::new(&parts)?, columns))
        });
        let key_columns = keyed.key.iter().map(|part| position(part.column)).collect::<Result<Vec<_>>>()?;
        let field = |(position, column): (usize, &ColumnDef)| {
            if let Some(part) = key_columns.iter().position(|key| *key == position) {
                return Ok(StoredField::Key(part));
            }
            let stored = keyed.stored.iter().position(|(id, _)| *id == column.id);
            stored.map(StoredField::Row).ok_or_else(|| Error::internal(format!("column {} is not stored", column.name)))
        };
        let missing = def
            .columns
            .iter()
            .map(|column| column.missing.as_ref().map(|value| ColumnValues::new(value, &column.kind)).transpose());
        let kinds: Vec<SqlType> = keyed.stored.iter().map(|(_, kind)| kind.clone()).collect();
        Ok(TableCodec {
            def: Arc::clone(def),
            head: index_head(keyed.index),
            key: KeyCodec::new(&key_parts)?,
            layout: RowLayout::new(&kinds)?,
            fields: def.columns.iter().enumerate().map(field).collect::<Result<_>>()?,
            stored: keyed.stored.iter().map(|(id, _)| def.column_by_id(*id)).collect(),
            missing: missing.collect::<Result<_>>()?,
            indexes: indexes.collect::<Result<_>>()?,
            limits: def.columns.iter().map(ColumnRule::of).collect(),
            referred: keyed.referrers.iter().flat_map(|referrer| referrer.columns.iter().copied()).collect(),
            key_columns,
        })
    }

    /// The definition for which the codec was made.
    pub fn def(&self) -> &Arc<TableDef> {
        &self.def
    }

    /// Returns the head and the key codec of the rows, or of an index, to make ranges with ([`KeyCodec::range`]). For
    /// an index the codec makes complete keys. The entries themselves may be shortened, so an
    /// [`IndexScan`](super::IndexScan) must read them. Returns `UndefinedObject` if the table has no such index.
    pub fn keys(&self, index: Option<IndexId>) -> Result<(&[u8], &KeyCodec)> {
        match index {
            None => Ok((&self.head, &self.key)),
            Some(id) => self.index(id).map(|index| (&index.head()[..], index.key())),
        }
    }

    /// The codec of an index of the table. Returns `UndefinedObject` if the table has no such index.
    #[inline]
    pub(crate) fn index(&self, id: IndexId) -> Result<&IndexCodec> {
        let unknown = || Error::new(ErrorKind::UndefinedObject, format!("table {} has no index {id}", self.def.name));
        self.find_index(id).ok_or_else(unknown)
    }

    /// The codec of an index of the table; `None` if `id` is another index or names the rows.
    #[inline]
    pub(crate) fn find_index(&self, id: IndexId) -> Option<&IndexCodec> {
        self.indexes.iter().find(|index| index.def.id == id)
    }

    pub(crate) fn indexes(&self) -> &[IndexCodec] {
        &self.indexes
    }

    /// Whether the table has foreign keys.
    pub(crate) fn has_foreign_keys(&self) -> bool {
        self.def.keyed.as_ref().is_some_and(|keyed| !keyed.foreign_keys.is_empty())
    }

    /// Columns that foreign keys of any table refer to.
    pub(crate) fn referred(&self) -> &[ColumnId] {
        &self.referred
    }

    pub(super) fn primary(&self) -> &KeyCodec {
        &self.key
    }

    pub(super) fn layout(&self) -> &RowLayout {
        &self.layout
    }

    #[inline]
    pub(super) fn field(&self, column: usize) -> StoredField {
        self.fields[column]
    }

    /// The id of the primary index, under which the rows are stored.
    pub fn row_index(&self) -> IndexId {
        self.def.keyed.as_ref().map_or(IndexId(0), |keyed| keyed.index)
    }

    /// Whether this codec makes the keys of `index`, which may be the index of the rows.
    pub(crate) fn has_index(&self, index: IndexId) -> bool {
        self.head == index_head(index) || self.indexes.iter().any(|own| own.def.id == index)
    }

    /// The key of the row whose primary key has these values.
    pub(crate) fn key_of(&self, values: &[ValueRef<'_>]) -> Result<Vec<u8>> {
        if values.len() != self.key.parts().len() {
            let (parts, given) = (self.key.parts().len(), values.len());
            let what = format!("the primary key of table {} has {parts} columns, not {given}", self.def.name);
            return Err(Error::new(ErrorKind::CardinalityViolation, what));
        }
        let mut key = Vec::new();
        self.encode_key(None, values, &mut key)?;
        Ok(key)
    }

    /// Sets `key` to the key of the row whose primary key has the values `parts`. With `index`, sets it to the prefix
    /// of the entries of that index whose columns have those values. Fewer values than columns give a shorter prefix.
    /// If the values are long, entries of other values may have the same prefix.
    ///
    /// Errors: `KeyTooLong` if the base cannot store such a key, or if an index shortens long keys and not all of its
    /// columns are given (then only an [`IndexScan`](super::IndexScan) finds the entries); `UndefinedObject` if the
    /// table has no such index; `NumericOutOfRange` for values that the columns cannot have.
    pub fn encode_key(&self, index: Option<IndexId>, parts: &[ValueRef<'_>], key: &mut Vec<u8>) -> Result<()> {
        let (head, codec) = self.keys(index)?;
        key.clear();
        key.extend_from_slice(head);
        match index {
            None => {
                codec.encode(parts, key)?;
                self.check_key_length(key)
            }
            Some(index) => self.encode_entry_prefix(self.index(index)?, parts, key),
        }
    }

    /// Sets `key` and `row` to those of `values`, which must be the values of all columns in the order of the table.
    ///
    /// Errors: `NotNullViolation`, `StringTooLong`, `NumericOutOfRange`, `KeyTooLong`, and `CardinalityViolation` if
    /// the number of values is wrong.
    pub(crate) fn encode_row(&self, values: &[ValueRef<'_>], key: &mut Vec<u8>, row: &mut Vec<u8>) -> Result<()> {
        self.check(values)?;
        row.clear();
        // Columns that the table has dropped are stored as NULL.
        let of_row = |at: usize| Ok(self.stored[at].map_or(ValueRef::Null, |column| values[column]));
        self.layout.encode_by(self.stored.len(), of_row, row)?;
        key.clear();
        key.extend_from_slice(&self.head);
        self.key.encode_by(self.key_columns.len(), |part| values[self.key_columns[part]], key)?;
        self.check_key_length(key)
    }

    /// Whether a row with new values in `columns` keeps its key and all references: none of them is part of the primary
    /// key, of a foreign key, or of the columns that foreign keys refer to.
    pub fn stays_in_place(&self, columns: &[usize]) -> bool {
        let foreign = self.def.keyed.iter().flat_map(|keyed| &keyed.foreign_keys).flat_map(|key| &key.columns);
        let mut linked = foreign.chain(&self.referred).filter_map(|column| self.def.column_by_id(*column));
        let of_key = |column: &usize| matches!(self.fields[*column], StoredField::Key(_));
        !columns.iter().any(of_key) && !linked.any(|column| columns.contains(&column))
    }

    /// Sets `row` to `old` with new values in `columns`, which must [stay in place](Self::stays_in_place). `values` has
    /// all columns of the table, but only those of `columns` are read. Errors are those of [`TableCodec::encode_row`].
    pub(crate) fn encode_changes(
        &self,
        old: &[u8],
        columns: &[usize],
        values: &[ValueRef<'_>],
        row: &mut Vec<u8>,
    ) -> Result<()> {
        columns.iter().try_for_each(|column| self.check_value(*column, values[*column]))?;
        let changes = columns.iter().map(|column| match self.fields[*column] {
            StoredField::Row(at) => (at, values[*column]),
            StoredField::Key(_) => unreachable!("a column of the key does not stay in place"),
        });
        let missing = |at: usize| self.stored[at].map_or(ValueRef::Null, |column| self.missing(column));
        row.clear();
        self.layout.update(&RowView::new(&self.layout, old)?, changes, missing, row)
    }

    /// Opens a row to read single columns. Returns `Corrupt` if the row differs from the one written.
    #[inline]
    pub fn row<'a>(&'a self, key: &'a [u8], row: &'a [u8]) -> Result<RowReader<'a>> {
        RowReader::new(self, key, row)
    }

    /// Whether a column is part of the primary key, so that rows are read without their bytes.
    pub fn is_of_key(&self, column: usize) -> bool {
        matches!(self.fields[column], StoredField::Key(_))
    }

    /// The value of a column of the primary key. The bytes of the row are not needed for it. See [`RowReader::get`] for
    /// the use of `scratch`.
    #[inline]
    pub fn key_column<'s, 'a: 's>(
        &'a self,
        key: &'a [u8],
        column: usize,
        scratch: &'s mut Vec<u8>,
    ) -> Result<ValueRef<'s>> {
        match self.fields[column] {
            StoredField::Key(part) => self.key.value(key.get(HEAD_BYTES..).unwrap_or_default(), part, scratch),
            StoredField::Row(_) => Err(Error::internal("the column is not part of the primary key")),
        }
    }

    /// The value of one column of a row. See [`RowReader::get`] for the use of `scratch`.
    pub fn column<'s, 'a: 's>(
        &'a self,
        key: &'a [u8],
        row: &'a [u8],
        column: usize,
        scratch: &'s mut Vec<u8>,
    ) -> Result<ValueRef<'s>> {
        self.row(key, row)?.get(column, scratch)
    }

    /// Sets `key` to the key of the row that an index entry names.
    #[inline]
    pub fn row_key(&self, index: IndexId, entry: &[u8], key: &mut Vec<u8>) -> Result<()> {
        let (columns, _) = self.index(index)?.columns_of(entry)?;
        key.clear();
        key.extend_from_slice(&self.head);
        key.extend_from_slice(&entry[columns..]);
        Ok(())
    }

    /// Checks the number of values and their limits.
    #[inline]
    fn check(&self, values: &[ValueRef<'_>]) -> Result<()> {
        if values.len() != self.limits.len() {
            let (table, columns, given) = (&self.def.name, self.limits.len(), values.len());
            let what = format!("table {table} has {columns} columns, the row has {given}");
            return Err(Error::new(ErrorKind::CardinalityViolation, what));
        }
        values.iter().enumerate().try_for_each(|(column, value)| self.check_value(column, *value))
    }

    /// Checks the limits of a value of a column.
    #[inline]
    fn check_value(&self, column: usize, value: ValueRef<'_>) -> Result<()> {
        let limit = &self.limits[column];
        let may_exceed = match value {
            ValueRef::Null => !limit.nullable,
            // A character has at least one byte, so a text of few bytes needs no count of its characters.
            ValueRef::Text(text) => limit.chars_max.is_some_and(|most| text.len() > most as usize),
            _ => false,
        };
        if may_exceed { self.check_exactly(column, value) } else { Ok(()) }
    }

    /// Checks the limits of a value exactly, and returns the error if it exceeds one.
    #[cold]
    fn check_exactly(&self, column: usize, value: ValueRef<'_>) -> Result<()> {
        let (limit, name, table) = (&self.limits[column], &self.def.columns[column].name, &self.def.name);
        if value.is_null() && !limit.nullable {
            let what = format!("NULL in column {name} of table {table}, which is NOT NULL");
            return Err(Error::new(ErrorKind::NotNullViolation, what).breaks_not_null(table, name));
        }
        if let (Some(most), ValueRef::Text(text)) = (limit.chars_max, value) {
            let chars = text.chars().count();
            if chars > most as usize {
                let what =
                    format!("a text of {chars} characters for column {name} of table {table}, which takes {most}");
                return Err(Error::new(ErrorKind::StringTooLong, what));
            }
        }
        Ok(())
    }

    fn check_key_length(&self, key: &[u8]) -> Result<()> {
        if key.len() <= KEY_LEN_MAX {
            return Ok(());
        }
        let (table, bytes) = (&self.def.name, key.len());
        let what = format!("the primary key of table {table} would have {bytes} bytes, and {KEY_LEN_MAX} is the limit");
        Err(Error::new(ErrorKind::KeyTooLong, what)
            .hint("shorten the values, or choose other columns as the primary key and create a UNIQUE index on these"))
    }

    /// Returns the values of all columns of a row, in the order of the table. `scratch` holds the bytes of some of
    /// them. Returns `Corrupt` if the bytes differ from those written.
    pub fn values<'a>(
        &'a self,
        key: &'a [u8],
        row: &'a [u8],
        scratch: &'a mut Vec<Vec<u8>>,
    ) -> Result<Vec<ValueRef<'a>>> {
        let parts = self.key_columns.len();
        scratch.resize(parts + 1, Vec::new());
        let mut reader = self.key.reader(key.get(HEAD_BYTES..).unwrap_or_default());
        let mut of_key = Vec::with_capacity(parts);
        let (end, scratch) = scratch.split_last_mut().expect("`scratch` has at least one element");
        for scratch in scratch {
            of_key.push(reader.next(scratch)?.ok_or_else(|| Error::corrupt("a key ends too early"))?);
        }
        // Read past the last part, to check that the key has no further bytes.
        reader.next(end)?;
        let view = RowView::new(&self.layout, row)?;
        let values = self.fields.iter().enumerate().map(|(column, field)| match field {
            StoredField::Key(part) => Ok(of_key[*part]),
            StoredField::Row(at) => Ok(view.get(*at)?.unwrap_or_else(|| self.missing(column))),
        });
        values.collect()
    }

    #[inline]
    pub(super) fn missing(&self, column: usize) -> ValueRef<'_> {
        self.missing[column].as_ref().map_or(ValueRef::Null, |value| value.get(0))
    }

    /// Decodes all columns of rows to an Arrow batch.
    pub fn record_batch(&self, rows: &RowBatch) -> Result<RecordBatch> {
        let all: Vec<usize> = (0..self.fields.len()).collect();
        let (keys, bytes): (Vec<_>, Vec<_>) = (rows.keys().iter().collect(), rows.rows().iter().collect());
        let columns = self.decode(&keys, &bytes, &all)?;
        RecordBatch::try_new(self.def.arrow_schema(), columns).map_err(|error| Error::corrupt(error.to_string()))
    }

    /// Decodes the columns at `columns` of rows. Returns `Corrupt` if the bytes differ from those written.
    pub fn decode(&self, keys: &[&[u8]], rows: &[&[u8]], columns: &[usize]) -> Result<Vec<ArrayRef>> {
        // Keys and rows are decoded separately, each for all wanted columns at once.
        let mut wanted_parts = vec![false; self.key_columns.len()];
        let mut wanted_fields: Vec<(usize, ValueRef<'_>)> = Vec::new();
        for column in columns {
            match self.fields[*column] {
                StoredField::Key(part) => wanted_parts[part] = true,
                StoredField::Row(at) => wanted_fields.push((at, self.missing(*column))),
            }
        }
        let of_keys = match wanted_parts.contains(&true) {
            true => self.key.decode_columns(keys, HEAD_BYTES, &wanted_parts)?,
            false => Vec::new(),
        };
        let mut of_rows = match wanted_fields.is_empty() {
            true => Vec::new(),
            false => self.layout.decode_columns(rows, &wanted_fields)?,
        }
        .into_iter();
        // Put the two results together in the requested order.
        let columns = columns.iter().map(|column| match self.fields[*column] {
            StoredField::Key(part) => of_keys[part].clone(),
            StoredField::Row(_) => of_rows.next(),
        });
        columns.collect::<Option<_>>().ok_or_else(|| Error::internal("a column was not decoded"))
    }

    /// The values of a key or an index entry as text for an error message.
    pub(crate) fn say(&self, key: &[u8]) -> String {
        let own = self.indexes.iter().find(|index| key.starts_with(index.head()));
        let (codec, parts) = own.map_or((&self.key, self.key_columns.len()), |own| (own.key(), own.columns.len()));
        // In a shortened key the bytes after the prefix are a hash and not values.
        let is_short = own.is_some_and(|own| own.is_short(key));
        let end = if is_short { HEAD_BYTES + SHORT_PREFIX_BYTES } else { key.len() };
        let mut reader = codec.reader(key.get(HEAD_BYTES..end).unwrap_or_default());
        let mut said = String::from("(");
        let mut scratch = Vec::new();
        for part in 0..parts {
            let comma = if part > 0 { ", " } else { "" };
            let Ok(Some(value)) = reader.next(&mut scratch) else {
                if let Some(beginning) = reader.cut_string(&mut scratch).filter(|_| is_short) {
                    let beginning: String = String::from_utf8_lossy(beginning).chars().take(40).collect();
                    said.push_str(&format!("{comma}'{beginning}', cut"));
                }
                break;
            };
            said.push_str(comma);
            said.push_str(&say_value(value));
        }
        said + ")"
    }
}

/// A value as text for an error message.
pub(crate) fn say_value(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Bool(value) => value.to_string(),
        ValueRef::Int(value) => value.to_string(),
        ValueRef::UInt(value) => value.to_string(),
        ValueRef::Float(value) => value.to_string(),
        ValueRef::Decimal(value) => value.to_string(),
        ValueRef::Interval(value) => format!("{value:?}"),
        ValueRef::Text(value) => format!("'{}'", value.chars().take(40).collect::<String>()),
        ValueRef::Bytes(value) => format!("a value of {} bytes", value.len()),
    }
}

/// The error for a table that is not a keyed table.
#[cold]
pub(crate) fn not_keyed(def: &TableDef) -> Error {
    Error::new(ErrorKind::WrongObject, format!("table {} has no primary key", def.name))
}

/// The values of the columns of a batch, for access by row.
pub(crate) fn column_values(def: &TableDef, batch: &RecordBatch) -> Result<Vec<ColumnValues>> {
    let columns = def.columns.iter().zip(batch.columns());
    let values = columns.map(|(column, array)| {
        let wanted = column.kind.arrow();
        match *array.data_type() == wanted {
            true => ColumnValues::new(array, &column.kind),
            false => {
                let cast = arrow::compute::cast(array, &wanted).map_err(|error| Error::internal(error.to_string()))?;
                ColumnValues::new(&cast, &column.kind)
            }
        }
    });
    values.collect()
}
