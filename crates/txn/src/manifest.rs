//! The keys and values of the ordered base: the catalog and the manifest. The byte tables are in `docs/file-format.md`,
//! "Ordered base".
//!
//! A key is one letter for the kind, followed by ids in big endian, so that a prefix scan visits one table in row
//! order.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::ArrayRef;
use roaring::RoaringBitmap;
use rowmill_base::{
    BlockId, ColumnId, EnumLabels, Error, IndexId, NARROW_DIGITS_MAX, NumberedType, Result, RowNumber, SchemaId,
    SqlType, TableId, TimeUnit, ViewId, WIDE_DIGITS_MAX,
};
use rowmill_storage::{
    Block, CheckDef, ColumnDef, Extent, ForeignKeyDef, GeneratedDef, IdentityDef, IndexDef, KeyColumn, KeyedDef,
    PAGE_BYTES, ROWS_PER_BLOCK_MAX, ReferentialAction, Referrer, RowRules, SequenceDef, TableDef, run_codec,
};

use crate::base::BASE_FILE;
use crate::catalog::{SchemaDef, ViewDef};
use crate::codec::{RecordReader, Writer};
use crate::log::Position;
use crate::{comments, time_table_codec, types};

/// The version of all formats in the directory. We refuse a directory of a newer version.
pub(crate) const FORMAT_VERSION: u32 = 12;
/// The first version with keyed tables.
const VERSION_WITH_KEYS: u32 = 3;

pub(crate) const META_KEY: &[u8] = b"m";
/// The log position that the base has reached.
pub(crate) const LOG_POSITION_KEY: &[u8] = b"l";

// The letters of definitions are in `definition.rs`.
/// A table's next row number.
pub(crate) const NEXT_ROW: u8 = b'N';
pub(crate) const BLOCK: u8 = b'B';
pub(crate) const DELETES: u8 = b'D';
pub(crate) const RUN: u8 = b'R';
/// A row or index entry of a keyed table.
pub(crate) const KEYED: u8 = b'K';

/// Flags of an index: whether no two rows may have the same values, whether long keys are shortened (new in version
/// 4), and whether a unique index is no constraint (new in version 11; all unique indexes before are constraints).
const UNIQUE: u8 = 1;
const SHORTENS: u8 = 2;
const UNCONSTRAINED: u8 = 4;

/// The key of a catalog object, or the prefix of all keys of one kind and table.
pub(crate) fn id_key(kind: u8, id: u32) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend(id.to_be_bytes());
    key
}

/// The key of an object that starts at a row of a table.
pub(crate) fn row_key(kind: u8, table: TableId, first_row: RowNumber) -> Vec<u8> {
    let mut key = id_key(kind, table.0);
    key.extend(first_row.0.to_be_bytes());
    key
}

/// Decodes the table and the row from a key of [`row_key`].
pub(crate) fn parse_row_key(key: &[u8]) -> Result<(TableId, RowNumber)> {
    let (table, row) = key
        .get(1..)
        .and_then(|rest| rest.split_at_checked(4))
        .ok_or_else(|| Error::corrupt("a key of the ordered base is too short"))?;
    match (table.try_into(), row.try_into()) {
        (Ok(table), Ok(row)) => Ok((TableId(u32::from_be_bytes(table)), RowNumber(u64::from_be_bytes(row)))),
        _ => Err(Error::corrupt("a key of the ordered base has the wrong length")),
    }
}

/// The next ids to be given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) next_schema: SchemaId,
    pub(crate) next_table: TableId,
    pub(crate) next_view: ViewId,
    pub(crate) next_block: BlockId,
    pub(crate) next_index: IndexId,
}

impl Meta {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        self.write(&mut out);
        out.finish()
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u32(FORMAT_VERSION).u32(self.next_schema.0).u32(self.next_table.0).u32(self.next_view.0);
        out.u64(self.next_block.0).u32(self.next_index.0);
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut input = RecordReader::new(bytes, "the database's head");
        let version = input.u32()?;
        if version > FORMAT_VERSION {
            return Err(Error::newer_format(format!(
                "{BASE_FILE}: format {version} of the directory, and we read up to {FORMAT_VERSION}"
            )));
        }
        let meta = Meta {
            next_schema: SchemaId(input.u32()?),
            next_table: TableId(input.u32()?),
            next_view: ViewId(input.u32()?),
            next_block: BlockId(input.u64()?),
            next_index: match version >= VERSION_WITH_KEYS {
                true => IndexId(input.u32()?),
                false => IndexId(0),
            },
        };
        input.end()?;
        Ok(meta)
    }
}

pub(crate) fn encode_position(position: Position) -> Vec<u8> {
    position.0.to_le_bytes().to_vec()
}

pub(crate) fn decode_position(bytes: &[u8]) -> Result<Position> {
    let bytes = bytes.try_into().map_err(|_| Error::corrupt("the position of the log has the wrong length"))?;
    Ok(Position(u64::from_le_bytes(bytes)))
}

/// Encodes the number of the next row of a table. `moved` of the numbers before it were given to rows that moved.
pub(crate) fn encode_next_row(next: RowNumber, moved: u64) -> Vec<u8> {
    let moved = (moved > 0).then(|| moved.to_le_bytes());
    [&next.0.to_le_bytes()[..], moved.as_ref().map_or(&[], |moved| &moved[..])].concat()
}

/// Decodes the result of [`encode_next_row`].
pub(crate) fn decode_next_row(bytes: &[u8]) -> Result<(RowNumber, u64)> {
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes);
    let wrong = |_| Error::corrupt("a next row number has the wrong length");
    let (next, moved) = bytes.split_at(bytes.len().min(8));
    let next = number(next).map_err(wrong)?;
    match if moved.is_empty() { 0 } else { number(moved).map_err(wrong)? } {
        moved if moved > next => Err(Error::corrupt("more rows have moved than there are numbers of rows")),
        moved => Ok((RowNumber(next), moved)),
    }
}

pub(crate) fn encode_schema(def: &SchemaDef) -> Vec<u8> {
    let mut out = Writer::new();
    out.text(&def.name);
    out.finish()
}

pub(crate) fn decode_schema(id: SchemaId, bytes: &[u8]) -> Result<SchemaDef> {
    let mut input = RecordReader::new(bytes, "a schema's definition");
    let name = input.text()?;
    input.end()?;
    Ok(SchemaDef { id, name })
}

pub(crate) fn encode_view(def: &ViewDef) -> Vec<u8> {
    let mut out = Writer::new();
    out.u32(def.schema.0).text(&def.name).text(&def.sql).u32(def.column_names.len() as u32);
    for name in &def.column_names {
        out.text(name);
    }
    comments::encode_last(def.comment.as_deref(), &mut out);
    out.finish()
}

pub(crate) fn decode_view(id: ViewId, bytes: &[u8]) -> Result<ViewDef> {
    let mut input = RecordReader::new(bytes, "a view's definition");
    let schema = SchemaId(input.u32()?);
    let (name, sql) = (input.text()?, input.text()?);
    let column_names = (0..input.count(4)?).map(|_| input.text()).collect::<Result<_>>()?;
    let comment = comments::decode_last(&mut input)?;
    Ok(ViewDef { id, schema, name, sql, column_names, comment })
}

pub(crate) fn encode_table(def: &TableDef) -> Result<Vec<u8>> {
    let mut out = Writer::new();
    out.u32(def.schema.0).text(&def.name).u32(def.version).u32(def.next_column.0).u32(def.columns.len() as u32);
    for column in &def.columns {
        out.u32(column.id.0).text(&column.name);
        encode_type(&column.kind, &mut out);
        out.u8(column.nullable.into());
        out.option(column.default.as_deref(), |out, default| {
            out.text(default);
        });
        let missing = column.missing.as_ref().map(|value| run_codec::encode(1, &[(column.id, Arc::clone(value))]));
        out.option(missing.transpose()?, |out, value| {
            out.bytes(&value);
        });
    }
    if let Some(keyed) = &def.keyed {
        encode_keyed(keyed, &def.rules, &mut out);
        return Ok(out.finish());
    }
    if let Some(time) = &def.time {
        time_table_codec::encode(time, &mut out);
    }
    if !def.rules.is_empty() {
        out.u32(COLUMNAR_RULES);
        encode_checks(&def.rules.checks, &mut out);
        encode_identities(&def.rules.identities, &mut out);
        // Generated columns can only be read after the indexes, so they need these even if there are none.
        if !def.rules.listed_indexes.is_empty() || !def.rules.generated.is_empty() {
            encode_indexes(&def.rules.listed_indexes, &mut out);
        }
        encode_generated(&def.rules.generated, &mut out);
    }
    Ok(out.finish())
}

/// Begins the rules of a columnar table, at a place where a keyed table has the id of its index.
const COLUMNAR_RULES: u32 = u32::MAX - 1;

fn encode_checks(checks: &[CheckDef], out: &mut Writer) {
    out.u32(checks.len() as u32);
    for check in checks {
        out.text(&check.name).text(&check.sql);
    }
}

/// Marks a sequence that belongs to a column and does not fill it.
const OWNED_ONLY: u8 = 2;

fn encode_identities(identities: &[IdentityDef], out: &mut Writer) {
    out.u32(identities.len() as u32);
    for identity in identities {
        let use_of = if identity.fills { u8::from(identity.always) } else { OWNED_ONLY };
        out.u32(identity.column.0).u32(identity.sequence.0).u8(use_of);
    }
}

/// Encodes the generated columns of a table. They are its last part, and a table without any has no such part.
fn encode_generated(generated: &[GeneratedDef], out: &mut Writer) {
    if generated.is_empty() {
        return;
    }
    out.u32(generated.len() as u32);
    for def in generated {
        out.u32(def.column.0).text(&def.sql);
    }
}

/// Encodes the definition of a keyed table, which follows the columns.
fn encode_keyed(def: &KeyedDef, rules: &RowRules, out: &mut Writer) {
    out.u32(def.index.0);
    encode_parts(&def.key, out);
    out.u32(def.stored.len() as u32);
    for (column, kind) in &def.stored {
        out.u32(column.0);
        encode_type(kind, out);
    }
    encode_indexes(&def.indexes, out);
    encode_checks(&rules.checks, out);
    let is_named = def.key_name.is_some() || !rules.generated.is_empty();
    let is_counted = !rules.identities.is_empty() || def.sequence.is_some() || is_named;
    // Later parts can only be read after the earlier ones, so sequences need the references even if those are empty.
    if !(def.foreign_keys.is_empty() && def.referrers.is_empty()) || is_counted {
        encode_references(def, out);
    }
    if is_counted {
        encode_sequences(def, &rules.identities, out);
    }
    // An empty name stands for a key without one before the generated columns.
    if is_named {
        out.text(def.key_name.as_deref().unwrap_or_default());
    }
    encode_generated(&rules.generated, out);
}

fn encode_indexes(indexes: &[IndexDef], out: &mut Writer) {
    out.u32(indexes.len() as u32);
    for index in indexes {
        let is_unconstrained = index.unique && !index.is_constraint;
        out.u32(index.id.0).text(&index.name);
        out.u8((u8::from(index.unique) * UNIQUE)
            | (u8::from(index.shortens) * SHORTENS)
            | (u8::from(is_unconstrained) * UNCONSTRAINED));
        encode_parts(&index.parts, out);
    }
}

fn decode_indexes(input: &mut RecordReader<'_>, columns: &[ColumnDef]) -> Result<Vec<IndexDef>> {
    let indexes = (0..input.count(13)?).map(|_| {
        let (id, name, flags) = (IndexId(input.u32()?), input.text()?, input.u8()?);
        let (unique, shortens) = (flags & UNIQUE != 0, flags & SHORTENS != 0);
        let is_constraint = unique && flags & UNCONSTRAINED == 0;
        Ok(IndexDef { id, name, parts: decode_parts(input, columns)?, unique, is_constraint, shortens })
    });
    indexes.collect()
}

/// Encodes the foreign keys of a table and the tables that refer to it. Follows the check constraints.
fn encode_references(def: &KeyedDef, out: &mut Writer) {
    out.u32(def.foreign_keys.len() as u32);
    for key in &def.foreign_keys {
        out.text(&key.name).u32(key.parent.0).u8(action_code(key.on_delete)).u8(action_code(key.on_update));
        encode_columns(&key.columns, out);
        encode_columns(&key.parent_columns, out);
    }
    out.u32(def.referrers.len() as u32);
    for referrer in &def.referrers {
        out.u32(referrer.table.0);
        encode_columns(&referrer.columns, out);
    }
}

fn encode_columns(columns: &[ColumnId], out: &mut Writer) {
    out.u32(columns.len() as u32);
    for column in columns {
        out.u32(column.0);
    }
}

fn action_code(action: ReferentialAction) -> u8 {
    match action {
        ReferentialAction::Restrict => 0,
        ReferentialAction::Cascade => 1,
        ReferentialAction::SetNull => 2,
    }
}

fn encode_parts(parts: &[KeyColumn], out: &mut Writer) {
    out.u32(parts.len() as u32);
    for part in parts {
        out.u32(part.column.0).u8(part.descending.into());
    }
}

/// Decodes the result of [`encode_keyed`]. Unknown columns and columns of another type are damage.
fn decode_keyed(input: &mut RecordReader<'_>, columns: &[ColumnDef], rules: &mut RowRules) -> Result<KeyedDef> {
    let of_id = |id: ColumnId| columns.iter().find(|column| column.id == id);
    let index = IndexId(input.u32()?);
    let key = decode_parts(input, columns)?;
    if key.iter().any(|part| of_id(part.column).is_none_or(|column| column.nullable)) {
        return Err(input.damaged("a primary key with a column that may be NULL"));
    }
    let stored = (0..input.count(5)?).map(|_| Ok((ColumnId(input.u32()?), decode_type(input, 0)?)));
    let stored = stored.collect::<Result<Vec<_>>>()?;
    if stored.iter().any(|(id, kind)| of_id(*id).is_some_and(|column| column.kind != *kind)) {
        return Err(input.damaged("a column that is stored with another type"));
    }
    // Each column must be in the key or in the stored row, but not in both.
    let is_known = |id| key.iter().any(|part| part.column == id) != stored.iter().any(|(column, _)| *column == id);
    if !columns.iter().all(|column| is_known(column.id)) {
        return Err(input.damaged("a column that is not in exactly one of the key and the row"));
    }
    let indexes = decode_indexes(input, columns)?;
    rules.checks = decode_checks(input)?;
    let (key_name, foreign_keys, referrers, sequence) = Default::default();
    let mut def = KeyedDef { index, key, key_name, stored, indexes, foreign_keys, referrers, sequence };
    if !input.is_at_end() {
        decode_references(input, columns, &mut def)?;
    }
    if !input.is_at_end() {
        rules.identities = decode_identities(input, columns)?;
        def.sequence = decode_sequence(input)?;
    }
    if !input.is_at_end() {
        def.key_name = Some(input.text()?).filter(|name| !name.is_empty());
    }
    rules.generated = decode_generated(input, columns)?;
    Ok(def)
}

fn decode_checks(input: &mut RecordReader<'_>) -> Result<Vec<CheckDef>> {
    (0..input.count(8)?).map(|_| Ok(CheckDef { name: input.text()?, sql: input.text()? })).collect()
}

/// Decodes the result of [`encode_generated`]. Columns that the table does not have are damage.
fn decode_generated(input: &mut RecordReader<'_>, columns: &[ColumnDef]) -> Result<Vec<GeneratedDef>> {
    if input.is_at_end() {
        return Ok(Vec::new());
    }
    let mut generated: Vec<GeneratedDef> = Vec::new();
    for _ in 0..input.count(8)? {
        let def = GeneratedDef { column: ColumnId(input.u32()?), sql: input.text()? };
        let is_known = columns.iter().any(|column| column.id == def.column);
        if !is_known || generated.iter().any(|other| other.column == def.column) {
            return Err(input.damaged("a generated column that does not exist or that is listed twice"));
        }
        generated.push(def);
    }
    Ok(generated)
}

/// Encodes the identity columns of a table and the definition of a sequence. Follows the references.
fn encode_sequences(def: &KeyedDef, identities: &[IdentityDef], out: &mut Writer) {
    encode_identities(identities, out);
    out.option(def.sequence.as_ref(), |out, sequence| {
        for number in [sequence.start, sequence.increment, sequence.min, sequence.max] {
            out.u64(number.cast_unsigned());
        }
        out.u8(sequence.cycle.into());
    });
}

/// Decodes the result of [`encode_identities`]. Columns that the table does not have are damage.
fn decode_identities(input: &mut RecordReader<'_>, columns: &[ColumnDef]) -> Result<Vec<IdentityDef>> {
    let mut identities = Vec::new();
    for _ in 0..input.count(9)? {
        let (column, sequence, use_of) = (ColumnId(input.u32()?), TableId(input.u32()?), input.u8()?);
        let (always, fills) = (use_of == 1, use_of != OWNED_ONLY);
        if !columns.iter().any(|other| other.id == column) {
            return Err(input.damaged("an identity column that does not exist"));
        }
        identities.push(IdentityDef { column, sequence, always, fills });
    }
    Ok(identities)
}

/// Decodes the definition of a sequence, which follows the identity columns.
fn decode_sequence(input: &mut RecordReader<'_>) -> Result<Option<SequenceDef>> {
    input.option(|input| {
        let mut numbers = [0; 4];
        for number in &mut numbers {
            *number = input.u64()?.cast_signed();
        }
        let [start, increment, min, max] = numbers;
        if increment == 0 || !(min..=max).contains(&start) {
            return Err(input.damaged("a sequence with impossible bounds"));
        }
        Ok(SequenceDef { start, increment, min, max, cycle: input.u8()? != 0 })
    })
}

/// Decodes the result of [`encode_references`]. Keys of columns that the table does not have are damage.
fn decode_references(input: &mut RecordReader<'_>, columns: &[ColumnDef], def: &mut KeyedDef) -> Result<()> {
    for _ in 0..input.count(18)? {
        let (name, parent) = (input.text()?, TableId(input.u32()?));
        let (on_delete, on_update) = (decode_action(input)?, decode_action(input)?);
        let own = decode_columns(input)?;
        let parent_columns = decode_columns(input)?;
        if own.len() != parent_columns.len() || !own.iter().all(|id| columns.iter().any(|column| column.id == *id)) {
            return Err(input.damaged("a foreign key with impossible columns"));
        }
        def.foreign_keys.push(ForeignKeyDef { name, columns: own, parent, parent_columns, on_delete, on_update });
    }
    for _ in 0..input.count(8)? {
        let referrer = Referrer { table: TableId(input.u32()?), columns: decode_columns(input)? };
        if !referrer.columns.iter().all(|id| columns.iter().any(|column| column.id == *id)) {
            return Err(input.damaged("a foreign key refers to a column that does not exist"));
        }
        def.referrers.push(referrer);
    }
    Ok(())
}

fn decode_columns(input: &mut RecordReader<'_>) -> Result<Vec<ColumnId>> {
    (0..input.count(4)?).map(|_| Ok(ColumnId(input.u32()?))).collect()
}

fn decode_action(input: &mut RecordReader<'_>) -> Result<ReferentialAction> {
    match input.u8()? {
        0 => Ok(ReferentialAction::Restrict),
        1 => Ok(ReferentialAction::Cascade),
        2 => Ok(ReferentialAction::SetNull),
        _ => Err(input.damaged("an unknown action of a foreign key")),
    }
}

fn decode_parts(input: &mut RecordReader<'_>, columns: &[ColumnDef]) -> Result<Vec<KeyColumn>> {
    let mut parts: Vec<KeyColumn> = Vec::new();
    for _ in 0..input.count(5)? {
        let part = KeyColumn { column: ColumnId(input.u32()?), descending: input.u8()? != 0 };
        let kind = columns.iter().find(|column| column.id == part.column).map(|column| &column.kind);
        if !kind.is_some_and(SqlType::is_ordered) || parts.iter().any(|other| other.column == part.column) {
            return Err(input.damaged("a key of columns that it cannot have"));
        }
        parts.push(part);
    }
    match parts.is_empty() {
        true => Err(input.damaged("a key without columns")),
        false => Ok(parts),
    }
}

pub(crate) fn decode_table(id: TableId, bytes: &[u8]) -> Result<TableDef> {
    let mut input = RecordReader::new(bytes, "a table's definition");
    let schema = SchemaId(input.u32()?);
    let name = input.text()?;
    let version = input.u32()?;
    let next_column = ColumnId(input.u32()?);
    let columns = (0..input.count(12)?).map(|_| decode_column(&mut input)).collect::<Result<Vec<_>>>()?;
    let (mut keyed, mut time, mut rules) = (None, None, RowRules::default());
    if time_table_codec::is_next(&input) {
        time = Some(Arc::new(time_table_codec::decode(&mut input, &columns)?));
    }
    if input.peek_u32() == Some(COLUMNAR_RULES) {
        input.u32()?;
        rules.checks = decode_checks(&mut input)?;
        rules.identities = decode_identities(&mut input, &columns)?;
        if !input.is_at_end() {
            rules.listed_indexes = decode_indexes(&mut input, &columns)?;
        }
        rules.generated = decode_generated(&mut input, &columns)?;
    } else if !input.is_at_end() && time.is_none() {
        keyed = Some(Arc::new(decode_keyed(&mut input, &columns, &mut rules)?));
    }
    input.end()?;
    Ok(TableDef { id, schema, name, version, columns, next_column, keyed, time, rules })
}

fn decode_column(input: &mut RecordReader<'_>) -> Result<ColumnDef> {
    let id = ColumnId(input.u32()?);
    let name = input.text()?;
    let kind = decode_type(input, 0)?;
    let nullable = input.u8()? != 0;
    let default = input.option(RecordReader::text)?;
    let missing = input.option(|input| {
        let (rows, columns) = run_codec::decode(input.bytes()?, |_| Some(kind.clone()))?;
        match (rows, columns.into_iter().next()) {
            (1, Some((_, value))) => Ok::<ArrayRef, Error>(value),
            _ => Err(input.damaged("the value of a column for older rows is not one value")),
        }
    })?;
    Ok(ColumnDef { id, name, kind, nullable, default, missing, part: None })
}

fn encode_type(kind: &SqlType, out: &mut Writer) {
    if let Some(code) = kind.plain_code() {
        out.u8(code);
        return;
    }
    match kind {
        SqlType::Decimal { precision, scale } => {
            let code = if *precision > NARROW_DIGITS_MAX { WIDE_DECIMAL } else { DECIMAL };
            out.u8(code).u8(*precision).u8(*scale)
        }
        SqlType::Timestamp { unit, zoned } => out.u8(TIMESTAMP).u8(unit.digits() as u8).u8((*zoned).into()),
        SqlType::Text { chars_max: Some(chars) } => out.u8(VARCHAR).u32(*chars),
        SqlType::List(item) => {
            out.u8(LIST);
            encode_type(item, out);
            out
        }
        SqlType::Struct(fields) => {
            out.u8(STRUCT).u32(fields.len() as u32);
            for (name, kind) in fields {
                out.text(name);
                encode_type(kind, out);
            }
            out
        }
        SqlType::Numbered(kind) => match kind.labels() {
            Some(labels) => {
                out.u8(ENUM).u32(labels.id());
                types::encode_labels(labels, out);
                out
            }
            None => out.u8(NUMBERED).u8(kind.code),
        },
        plain => unreachable!("{plain} has a code of its own"),
    };
}

/// The codes of the types with parameters. The other types have theirs in `PLAIN_TYPES`.
const DECIMAL: u8 = 12;
const TIMESTAMP: u8 = 15;
const VARCHAR: u8 = 18;
const LIST: u8 = 21;
const STRUCT: u8 = 22;
/// One of `NUMBERED_TYPES`; its own code follows.
const NUMBERED: u8 = 23;
/// A decimal of more than 38 digits. Versions that do not have such decimals do not know the code.
const WIDE_DECIMAL: u8 = 24;
/// An ENUM: its id and its labels follow.
const ENUM: u8 = 26;

/// Types must not nest deeper than this.
const TYPE_DEPTH_MAX: usize = 64;

fn decode_type(input: &mut RecordReader<'_>, depth: usize) -> Result<SqlType> {
    if depth > TYPE_DEPTH_MAX {
        return Err(input.damaged("a type is nested too deeply"));
    }
    let code = input.u8()?;
    if let Some(kind) = SqlType::of_plain_code(code) {
        return Ok(kind);
    }
    Ok(match code {
        DECIMAL => decode_decimal(input, 1..=NARROW_DIGITS_MAX)?,
        WIDE_DECIMAL => decode_decimal(input, NARROW_DIGITS_MAX + 1..=WIDE_DIGITS_MAX)?,
        TIMESTAMP => {
            let unit =
                TimeUnit::from_digits(input.u8()?.into()).ok_or_else(|| input.damaged("an unknown unit of time"))?;
            SqlType::Timestamp { unit, zoned: input.u8()? != 0 }
        }
        VARCHAR => SqlType::Text { chars_max: Some(input.u32()?) },
        LIST => SqlType::List(Box::new(decode_type(input, depth + 1)?)),
        STRUCT => {
            let fields = (0..input.count(5)?).map(|_| Ok((input.text()?, decode_type(input, depth + 1)?)));
            SqlType::Struct(fields.collect::<Result<_>>()?)
        }
        NUMBERED => {
            let code = input.u8()?;
            SqlType::Numbered(NumberedType::of_code(code).ok_or_else(|| newer_type(NUMBERED, code))?)
        }
        ENUM => {
            let id = input.u32()?;
            let (name, labels) = types::decode_labels(input)?;
            EnumLabels::sql_type(id, &name, labels).map_err(|error| input.damaged(error.message()))?
        }
        _ => return Err(newer_type(code, 0)),
    })
}

fn decode_decimal(input: &mut RecordReader<'_>, digits: RangeInclusive<u8>) -> Result<SqlType> {
    let (precision, scale) = (input.u8()?, input.u8()?);
    match digits.contains(&precision) && scale <= precision {
        true => Ok(SqlType::Decimal { precision, scale }),
        false => Err(input.damaged("a decimal with impossible digits")),
    }
}

/// The error for a type that this version does not know. Definitions have a checksum, so it is no damage: a newer
/// version has added the type.
fn newer_type(code: u8, of_numbered: u8) -> Error {
    Error::newer_format(format!("{BASE_FILE}: a column of a type that we do not know (code {code}.{of_numbered})"))
}

/// A block as the manifest names it. Its table and first row are in the key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BlockEntry {
    pub(crate) id: BlockId,
    pub(crate) end_row: RowNumber,
    pub(crate) rows: u32,
    pub(crate) chunks: Vec<(ColumnId, Extent)>,
}

/// Bytes of one chunk in a block entry: column, first page, number of pages.
const CHUNK_ENTRY_BYTES: usize = 16;

impl BlockEntry {
    pub(crate) fn of(block: &Block) -> Self {
        BlockEntry {
            id: block.id(),
            end_row: block.end_row(),
            rows: block.rows() as u32,
            chunks: block.chunks().iter().map(|chunk| (chunk.column(), chunk.extent())).collect(),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.u64(self.id.0).u64(self.end_row.0).u32(self.rows).u32(self.chunks.len() as u32);
        for (column, extent) in &self.chunks {
            let pages = u32::try_from(extent.len / PAGE_BYTES).expect("a chunk is shorter than 16 TiB");
            out.u32(column.0).u64(extent.offset / PAGE_BYTES).u32(pages);
        }
        out.finish()
    }

    pub(crate) fn decode(first_row: RowNumber, bytes: &[u8]) -> Result<Self> {
        let mut input = RecordReader::new(bytes, "a block's entry");
        let id = BlockId(input.u64()?);
        let end_row = RowNumber(input.u64()?);
        let rows = input.u32()?;
        let numbers = end_row.0.checked_sub(first_row.0);
        if rows == 0 || rows as usize > ROWS_PER_BLOCK_MAX || numbers.is_none_or(|numbers| numbers < u64::from(rows)) {
            // Row numbers may have gaps, so a block can span more numbers than it has rows, but never fewer.
            return Err(input.damaged("a block with an impossible number of rows"));
        }
        let mut chunks = Vec::with_capacity(input.count(CHUNK_ENTRY_BYTES)?);
        for _ in 0..chunks.capacity() {
            let column = ColumnId(input.u32()?);
            let (page, pages) = (input.u64()?, u64::from(input.u32()?));
            if pages == 0 || page > u64::MAX / PAGE_BYTES - pages {
                return Err(input.damaged("an impossible extent"));
            }
            chunks.push((column, Extent { offset: page * PAGE_BYTES, len: pages * PAGE_BYTES }));
        }
        input.end()?;
        Ok(BlockEntry { id, end_row, rows, chunks })
    }
}

pub(crate) fn encode_deletes(deletes: &RoaringBitmap) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(deletes.serialized_size());
    deletes.serialize_into(&mut out).map_err(|error| Error::io("a delete vector", &error))?;
    Ok(out)
}

pub(crate) fn decode_deletes(bytes: &[u8], rows: usize) -> Result<RoaringBitmap> {
    let damaged = |problem: String| Error::corrupt(format!("a delete vector: {problem}"));
    let deletes = RoaringBitmap::deserialize_from(bytes).map_err(|error| damaged(error.to_string()))?;
    match deletes.max() {
        Some(last) if last as usize >= rows => Err(damaged(format!("row {last} of {rows} is deleted"))),
        _ => Ok(deletes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringViewArray;
    use rowmill_base::{ErrorKind, NUMBERED_TYPES, PLAIN_TYPES};
    use rowmill_storage::{CalendarUnit, TimeTableDef, TimeToLive};

    #[test]
    fn next_rows_round_trip_and_impossible_ones_are_damage() {
        for (next, moved) in [(0, 0), (7, 0), (7, 7), (u64::MAX, 1 << 40)] {
            let bytes = encode_next_row(RowNumber(next), moved);
            assert_eq!(decode_next_row(&bytes).expect("read"), (RowNumber(next), moved));
            for cut in (0..bytes.len()).filter(|cut| *cut != 8) {
                assert!(decode_next_row(&bytes[..cut]).is_err(), "{cut} bytes of {bytes:?}");
            }
            assert!(decode_next_row(&[&bytes[..], &[1]].concat()).is_err());
        }
        assert!(decode_next_row(&encode_next_row(RowNumber(7), 8)).is_err());
    }

    fn table() -> TableDef {
        let kinds = vec![
            SqlType::Decimal { precision: 18, scale: 3 },
            SqlType::Timestamp { unit: TimeUnit::Nanosecond, zoned: true },
            SqlType::Text { chars_max: Some(12) },
            SqlType::Json,
            SqlType::List(Box::new(SqlType::Struct(vec![("a".into(), SqlType::Int8), ("b".into(), SqlType::Uuid)]))),
        ];
        let column = |(index, kind): (usize, SqlType)| ColumnDef {
            id: ColumnId(index as u32),
            name: format!("C{index}"),
            nullable: index % 2 == 0,
            default: (index == 2).then(|| "'x'".into()),
            missing: (index == 2).then(|| Arc::new(StringViewArray::from(vec!["x"])) as ArrayRef),
            part: None,
            kind,
        };
        TableDef {
            id: TableId(7),
            schema: SchemaId(1),
            name: "Ünïque".into(),
            version: 3,
            columns: kinds.into_iter().enumerate().map(column).collect(),
            next_column: ColumnId(9),
            keyed: None,
            time: None,
            rules: Default::default(),
        }
    }

    /// The table of [`table`] under a key of two columns, with an index and a dropped column.
    fn keyed_table() -> TableDef {
        let mut table = table();
        table.columns[1].nullable = false;
        table.columns[2].nullable = false;
        let part = |column, descending| KeyColumn { column: ColumnId(column), descending };
        let kind = |column: usize| table.columns[column].kind.clone();
        let stored = [(0, kind(0)), (7, SqlType::Interval), (3, kind(3)), (4, kind(4))];
        table.keyed = Some(Arc::new(KeyedDef {
            index: IndexId(4),
            key: vec![part(2, false), part(1, true)],
            key_name: Some("the key".into()),
            stored: stored.into_iter().map(|(id, kind)| (ColumnId(id), kind)).collect(),
            indexes: vec![IndexDef {
                id: IndexId(5),
                name: "by".into(),
                parts: vec![part(0, true)],
                unique: true,
                is_constraint: false,
                shortens: true,
            }],
            foreign_keys: vec![ForeignKeyDef {
                name: "parent".into(),
                columns: vec![ColumnId(1)],
                parent: TableId(2),
                parent_columns: vec![ColumnId(5)],
                on_delete: ReferentialAction::Cascade,
                on_update: ReferentialAction::SetNull,
            }],
            referrers: vec![Referrer { table: TableId(3), columns: vec![ColumnId(2)] }],
            sequence: Some(SequenceDef { start: -1, increment: -2, min: -9, max: -1, cycle: true }),
        }));
        table.rules = rules();
        table
    }

    fn rules() -> RowRules {
        RowRules {
            checks: vec![CheckDef { name: "some".into(), sql: "a > 0".into() }],
            identities: vec![
                IdentityDef { column: ColumnId(3), sequence: TableId(9), always: true, fills: true },
                IdentityDef { column: ColumnId(3), sequence: TableId(10), always: false, fills: false },
            ],
            generated: Vec::new(),
            listed_indexes: Vec::new(),
        }
    }

    /// Tables of both kinds with generated columns, the keyed one without a name of its key.
    fn tables_with_generated_columns() -> [TableDef; 2] {
        [table(), keyed_table()].map(|mut table| {
            table.rules.generated = vec![GeneratedDef { column: ColumnId(3), sql: "c0 + 1".into() }];
            if let Some(keyed) = &mut table.keyed {
                Arc::make_mut(keyed).key_name = None;
            }
            table
        })
    }

    /// The columnar tables with rules, one of them with a time column.
    fn columnar_tables_with_rules() -> [TableDef; 2] {
        [table(), time_table()].map(|table| TableDef { rules: rules(), ..table })
    }

    /// A columnar table that lists an index.
    fn table_with_listed_index() -> TableDef {
        let mut table = table();
        table.rules.listed_indexes = vec![IndexDef {
            id: IndexId(8),
            name: "by".into(),
            parts: vec![KeyColumn { column: ColumnId(1), descending: true }],
            unique: false,
            is_constraint: false,
            shortens: false,
        }];
        table
    }

    /// The table of [`table`] with a time column.
    fn time_table() -> TableDef {
        let mut table = table();
        table.time = Some(Arc::new(TimeTableDef {
            partition: Some(CalendarUnit::Day),
            time_to_live: Some(TimeToLive { count: 3, unit: CalendarUnit::Month }),
            dedup_keys: vec![ColumnId(1), ColumnId(2)],
            ..TimeTableDef::new(ColumnId(1))
        }));
        table
    }

    #[test]
    fn definitions_round_trip() {
        let all = [table(), keyed_table(), time_table(), table_with_listed_index()];
        for table in all.into_iter().chain(columnar_tables_with_rules()).chain(tables_with_generated_columns()) {
            let read = decode_table(table.id, &encode_table(&table).expect("written")).expect("read");
            assert_eq!(format!("{table:?}"), format!("{read:?}"));
        }
        let view = ViewDef {
            id: ViewId(2),
            schema: SchemaId(1),
            name: "v".into(),
            sql: "SELECT 1".into(),
            column_names: vec!["a".into()],
            comment: None,
        };
        for view in [ViewDef { comment: Some("one".into()), ..view.clone() }, view] {
            assert_eq!(decode_view(ViewId(2), &encode_view(&view)).expect("read"), view);
        }
    }

    #[test]
    fn damaged_values_are_errors_or_other_values_but_never_a_panic() {
        let extent = Extent { offset: 8 * PAGE_BYTES, len: 3 * PAGE_BYTES };
        let entry =
            BlockEntry { id: BlockId(3), end_row: RowNumber(30), rows: 20, chunks: vec![(ColumnId(0), extent); 3] };
        let block = entry.encode();
        assert_eq!(BlockEntry::decode(RowNumber(10), &block).expect("read"), entry);
        // The last parts of a definition are optional, so cutting exactly there leaves a valid table.
        let without = |change: fn(&mut KeyedDef)| {
            let mut table = keyed_table();
            table.rules.identities.clear();
            Arc::make_mut(table.keyed.as_mut().expect("it has keys")).key_name = None;
            change(Arc::make_mut(table.keyed.as_mut().expect("it has keys")));
            encode_table(&table).expect("written").len()
        };
        let plain = without(|keyed| {
            (keyed.foreign_keys, keyed.referrers, keyed.sequence) = Default::default();
        });
        let uncounted = without(|keyed| keyed.sequence = None);
        let unnamed = {
            let mut table = keyed_table();
            Arc::make_mut(table.keyed.as_mut().expect("it has keys")).key_name = None;
            encode_table(&table).expect("written").len()
        };
        let unlisted = {
            let mut table = table_with_listed_index();
            // The rules of a table that lists no index have two empty lists.
            table.rules.listed_indexes.clear();
            encode_table(&table).expect("written").len() + 12
        };
        let [ungenerated, ungenerated_keyed] = tables_with_generated_columns().map(|table| {
            let generated = 4 + 4 + 4 + table.rules.generated[0].sql.len();
            encode_table(&table).expect("written").len() - generated
        });
        let [columnar, timed] = [table(), time_table()].map(|table| encode_table(&table).expect("written").len());
        let all = [table(), keyed_table(), time_table(), table_with_listed_index()];
        let all = all.into_iter().chain(columnar_tables_with_rules()).chain(tables_with_generated_columns());
        for table in all.map(|table| encode_table(&table).expect("written")) {
            // A table without the bytes after its columns is columnar.
            let whole = [columnar, timed, plain, uncounted, unnamed, unlisted, ungenerated, ungenerated_keyed];
            for cut in (0..table.len()).filter(|cut| !whole.contains(cut)) {
                assert!(decode_table(TableId(1), &table[..cut]).is_err());
            }
            for at in 0..table.len() {
                for flip in [0xff, 1] {
                    let mut damaged = table.clone();
                    damaged[at] ^= flip;
                    let _ = decode_table(TableId(1), &damaged);
                }
            }
        }
        for at in 0..block.len() {
            let mut damaged = block.clone();
            damaged[at] ^= 0xff;
            let _ = BlockEntry::decode(RowNumber(10), &damaged);
        }
    }

    #[test]
    fn heads_of_older_versions_are_readable() {
        let meta = Meta { next_table: TableId(3), next_block: BlockId(9), next_index: IndexId(7), ..Meta::default() };
        let bytes = meta.encode();
        assert_eq!(Meta::decode(&bytes).expect("read"), meta);
        for version in [1_u32, 2] {
            let mut older = bytes[..bytes.len() - 4].to_vec();
            older[..4].copy_from_slice(&version.to_le_bytes());
            assert_eq!(Meta::decode(&older).expect("read"), Meta { next_index: IndexId(0), ..meta });
        }
        assert!((0..bytes.len()).all(|cut| Meta::decode(&bytes[..cut]).is_err()));
    }

    #[test]
    fn a_newer_format_is_refused_with_its_own_error_kind() {
        let mut bytes = Meta::default().encode();
        bytes[0] = 200;
        assert_eq!(Meta::decode(&bytes).unwrap_err().kind(), ErrorKind::NewerFormat);
    }

    #[test]
    fn types_survive_and_unknown_ones_are_of_a_newer_version() {
        let plain = PLAIN_TYPES.iter().map(|plain| plain.kind.clone());
        let decimals =
            [(1, 0), (38, 38), (39, 0), (76, 76)].map(|(precision, scale)| SqlType::Decimal { precision, scale });
        for kind in plain.chain(NUMBERED_TYPES.iter().map(|kind| SqlType::Numbered(kind))).chain(decimals) {
            let mut out = Writer::new();
            encode_type(&kind, &mut out);
            let bytes = out.finish();
            assert_eq!(decode_type(&mut RecordReader::new(&bytes, "a type"), 0).unwrap(), kind);
        }
        for unknown in [&[77][..], &[NUMBERED, 77]] {
            let error = decode_type(&mut RecordReader::new(unknown, "a type"), 0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NewerFormat);
        }
        for damaged in
            [&[NUMBERED][..], &[DECIMAL, 39, 0], &[DECIMAL, 5, 6], &[WIDE_DECIMAL, 38, 0], &[WIDE_DECIMAL, 77, 0]]
        {
            let error = decode_type(&mut RecordReader::new(damaged, "a type"), 0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{damaged:?}");
        }
    }
}
