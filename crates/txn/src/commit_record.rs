//! The log record of a commit: the bytes of a [`CommitChange`]. The byte table is in `docs/file-format.md`, "Log".
//!
//! Background jobs join, seal and merge runs and blocks at any time, and readers must not notice it. So a record never
//! names a position: it names deleted rows by their row numbers, and a new block by the range of row numbers that it
//! replaces.
//!
//! One decoder reads a record, in two steps. [`CommitRecord::read`] cuts the bytes into parts and compares them with
//! nothing. [`CommitRecord::change`] compares the parts with the state before and makes a change of them. Replay takes
//! the rows of a record that only appends directly from its parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use roaring::{RoaringBitmap, RoaringTreemap};
use rowmill_base::{ColumnId, CommitId, Error, IndexId, Result, RowNumber, TableId};
use rowmill_storage::{Block, Extent, FreedExtents, OpenRun, ROW_NUMBERS, RowNumbers, StoredChunk, TableDef};

use crate::base::KEY_LEN_MAX;
use crate::catalog::Catalog;
use crate::change::{CommitChange, TableChange};
use crate::codec::{RecordReader, Writer};
use crate::column_files::ColumnFiles;
use crate::definition::{Definition, DefinitionKind, definitions};
use crate::deletes::{DeletesByHolder, Holder, RowFinder};
use crate::keyed::index_writes::{Content, IndexWrites};
use crate::keyed::write_set::WriteSet;
use crate::keyed::{HEAD_BYTES, index_head};
use crate::log::Payload;
use crate::manifest::{self, BlockEntry, Meta};
use crate::snapshot::{Snapshot, TableSnapshot};

/// The first byte of a truncated table. It is zero for a table that keeps its rows and their numbers.
const TRUNCATED: u8 = 1;
/// The first byte of a table whose new rows were there before, and only moved.
const MOVED: u8 = 2;
/// Least bytes of a block or a run: its first row, its length and a flag for deleted rows.
const ROWS_BYTES_MIN: usize = 8 + 4 + 1;
/// Least bytes of a table: its id, flags, next row, a flag for deleted rows and two counts.
const TABLE_BYTES_MIN: usize = 4 + 1 + 8 + 1 + 4 + 4;
/// Least bytes of a definition: its kind, its id and a flag for the value.
const DEFINITION_BYTES_MIN: usize = 1 + 4 + 1;
/// A list gets room for at most this many items at once, because a damaged count may be large.
const ITEMS_EXPECTED_MAX: usize = 64;

impl CommitChange {
    /// Encodes the log record of commit `at`, which follows `before`. The bytes are appended to `buffer`.
    pub(crate) fn encode(&self, before: &Snapshot, at: CommitId, meta: Meta, buffer: Vec<u8>) -> Result<LogRecord<'_>> {
        let mut out = Writer::behind(buffer);
        out.u64(at.0).bytes_of(|out| meta.write(out));
        let definitions = definitions(&before.catalog, &self.catalog)?;
        out.u32(definitions.len() as u32);
        for Definition { kind, id, value } in definitions {
            out.u8(kind.letter()).u32(id);
            out.option(value, |out, value| {
                out.bytes(&value);
            });
        }
        out.u32(self.tables.len() as u32);
        for (id, table) in &self.tables {
            out.u32(id.0);
            table.encode(before.tables.get(id).map(|table| &**table), &mut out)?;
        }
        let mut keyed = self.keyed.as_deref().map(|keyed| (keyed, keyed_bytes(keyed)));
        // A small set of keyed rows is part of the buffer. A large one is encoded while the log writes it, see
        // [`SLICE_BYTES`].
        if let Some((few, _)) = keyed.take_if(|(_, bytes)| *bytes <= SLICE_BYTES) {
            encode_keyed(few, &mut out, |_| Ok(()))?;
        }
        Ok(LogRecord { bytes: out.finish(), keyed })
    }
}

/// A record of the log, cut into its parts. They have not been compared with any state yet.
#[derive(Debug)]
pub(crate) struct CommitRecord<'a> {
    pub(crate) commit: CommitId,
    pub(crate) meta: Meta,
    definitions: Vec<DefinitionRecord<'a>>,
    pub(crate) tables: Vec<TableRecord<'a>>,
    /// Reads the changed rows of keyed tables. At its end if there are none.
    keyed: RecordReader<'a>,
}

/// The kind and id of a definition, and its value in the base. `None` if the definition was removed.
type DefinitionRecord<'a> = (DefinitionKind, u32, Option<&'a [u8]>);

/// The part of a record about one table.
#[derive(Debug)]
pub(crate) struct TableRecord<'a> {
    pub(crate) table: TableId,
    truncated: bool,
    moved: bool,
    pub(crate) next_row: RowNumber,
    deleted: Option<&'a [u8]>,
    blocks: Vec<RowsRecord<'a>>,
    pub(crate) runs: Vec<RowsRecord<'a>>,
}

/// A block or a run in a record: its first row, its bytes, and the encoded positions of its deleted rows.
#[derive(Debug)]
pub(crate) struct RowsRecord<'a> {
    pub(crate) first_row: RowNumber,
    pub(crate) bytes: &'a [u8],
    deleted: Option<&'a [u8]>,
}

/// The error for a record that does not fit the state before it.
pub(crate) fn damaged(problem: &str) -> Error {
    Error::corrupt(format!("a record of the log: {problem}"))
}

impl<'a> CommitRecord<'a> {
    /// Reads the commit id of a record.
    pub(crate) fn commit_of(record: &[u8]) -> Result<CommitId> {
        RecordReader::new(record, "a record of the log").u64().map(CommitId)
    }

    /// Cuts a record into its parts.
    pub(crate) fn read(record: &'a [u8]) -> Result<CommitRecord<'a>> {
        let mut input = RecordReader::new(record, "a record of the log");
        let (commit, meta) = (CommitId(input.u64()?), Meta::decode(input.bytes()?)?);
        let definitions = read_all(&mut input, DEFINITION_BYTES_MIN, |input| {
            let letter = input.u8()?;
            let kind = DefinitionKind::of_letter(letter);
            let kind = kind.ok_or_else(|| input.damaged("a definition of an unknown kind"))?;
            Ok((kind, input.u32()?, input.option(|input| input.bytes())?))
        })?;
        let tables = read_all(&mut input, TABLE_BYTES_MIN, TableRecord::read)?;
        Ok(CommitRecord { commit, meta, definitions, tables, keyed: input })
    }

    /// Whether the commit only appends rows to tables without a key.
    pub(crate) fn only_appends(&self) -> bool {
        self.definitions.is_empty() && self.keyed.is_at_end() && self.tables.iter().all(TableRecord::only_appends)
    }

    /// Makes the change that the record holds. The record must follow `before`.
    pub(crate) fn change(
        self,
        before: &Snapshot,
        files: &ColumnFiles,
        freed: &Arc<FreedExtents>,
    ) -> Result<(CommitChange, Meta)> {
        let CommitRecord { commit, meta, definitions, tables, keyed } = self;
        if commit.0 != before.commit.0 + 1 {
            return Err(damaged(&format!("commit {commit} follows commit {}", before.commit)));
        }
        let catalog = change_catalog(&definitions, &before.catalog)?;
        let mut changes = BTreeMap::new();
        for table in tables {
            let id = table.table;
            let def = catalog.table_by_id(id).ok_or_else(|| damaged(&format!("table {id} does not exist")))?;
            let change = table.change(def, before.tables.get(&id).map(|table| &**table), files, freed)?;
            if changes.insert(id, change).is_some() {
                return Err(damaged("a table twice"));
            }
        }
        let keyed = change_keyed(keyed, &catalog, before, commit)?;
        Ok((CommitChange { catalog, tables: changes, keyed }, meta))
    }
}

/// Reads a count of items and the items, each of at least `bytes_each` bytes.
fn read_all<'a, T>(
    input: &mut RecordReader<'a>,
    bytes_each: usize,
    mut read: impl FnMut(&mut RecordReader<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = input.count(bytes_each)?;
    let mut items = Vec::with_capacity(count.min(ITEMS_EXPECTED_MAX));
    for _ in 0..count {
        items.push(read(input)?);
    }
    Ok(items)
}

impl<'a> TableRecord<'a> {
    fn read(input: &mut RecordReader<'a>) -> Result<TableRecord<'a>> {
        let table = TableId(input.u32()?);
        let (truncated, moved) = match input.u8()? {
            0 => (false, false),
            TRUNCATED => (true, false),
            MOVED => (false, true),
            _ => return Err(input.damaged("a change of an unknown kind")),
        };
        Ok(TableRecord {
            table,
            truncated,
            moved,
            next_row: RowNumber(input.u64()?),
            deleted: input.option(|input| input.bytes())?,
            blocks: read_all(input, ROWS_BYTES_MIN, RowsRecord::read)?,
            runs: read_all(input, ROWS_BYTES_MIN, RowsRecord::read)?,
        })
    }

    fn only_appends(&self) -> bool {
        let is_kept = !self.truncated && !self.moved && self.deleted.is_none() && self.blocks.is_empty();
        is_kept && !self.runs.is_empty() && self.runs.iter().all(|run| run.deleted.is_none())
    }

    /// Makes the change of the table `def`, whose state was `before`. `None` if it is new.
    fn change(
        self,
        def: &Arc<TableDef>,
        before: Option<&TableSnapshot>,
        files: &ColumnFiles,
        freed: &Arc<FreedExtents>,
    ) -> Result<TableChange> {
        let TableRecord { table: _, truncated, moved, next_row, deleted, blocks, runs } = self;
        let moved_rows = match moved {
            true => before.and_then(|before| next_row.0.checked_sub(before.next_row.0)),
            false => Some(0),
        };
        let moved_rows = moved_rows.ok_or_else(|| damaged("moved rows of a table that has none"))?;
        let deleted = match (deleted, before.filter(|_| !truncated)) {
            // Truncating already deletes all rows, so a truncated table must not have deletes of its own.
            (None, _) => DeletesByHolder::new(),
            (Some(rows), Some(before)) => deleted_positions(before, rows)?,
            (Some(_), None) => return Err(damaged("deletes of rows that do not exist")),
        };
        let block = |block: &RowsRecord<'_>| {
            let entry = BlockEntry::decode(block.first_row, block.bytes)?;
            let deleted = block.deleted_positions(entry.rows as usize)?;
            Ok(Arc::new(open_block(def, block.first_row, &entry, deleted, files, freed)?))
        };
        let run = |run: &RowsRecord<'_>| {
            let rows = OpenRun::decode(run.first_row, def, run.bytes)?;
            if run.first_row.0.checked_add(rows.rows() as u64).is_none_or(|end| end > next_row.0) {
                return Err(damaged("rows after the last row"));
            }
            let rows = match run.deleted_positions(rows.rows())? {
                Some(deleted) => rows.with_deleted(&deleted),
                None => rows,
            };
            Ok(Arc::new(rows.counted(files.memory())))
        };
        Ok(TableChange {
            truncated,
            deleted,
            blocks: blocks.iter().map(block).collect::<Result<_>>()?,
            runs: runs.iter().map(run).collect::<Result<_>>()?,
            next_row,
            moved_rows,
            renumbered: None,
        })
    }
}

impl<'a> RowsRecord<'a> {
    fn read(input: &mut RecordReader<'a>) -> Result<RowsRecord<'a>> {
        let first_row = RowNumber(input.u64()?);
        Ok(RowsRecord { first_row, bytes: input.bytes()?, deleted: input.option(|input| input.bytes())? })
    }

    fn deleted_positions(&self, rows: usize) -> Result<Option<RoaringBitmap>> {
        self.deleted.map(|bytes| manifest::decode_deletes(bytes, rows)).transpose()
    }
}

fn change_catalog(definitions: &[DefinitionRecord<'_>], before: &Arc<Catalog>) -> Result<Arc<Catalog>> {
    if definitions.is_empty() {
        return Ok(Arc::clone(before));
    }
    let mut catalog = (**before).clone();
    // We remove every changed definition before we add any, because another object of the same commit may take its
    // name.
    for (kind, id, value) in definitions {
        match value {
            Some(_) => kind.withdraw(&mut catalog, *id),
            None => kind.remove(&mut catalog, *id),
        }
    }
    for (kind, id, value) in definitions {
        if let Some(value) = value {
            kind.put(&mut catalog, *id, value).map_err(|error| damaged(error.message()))?;
        }
    }
    Ok(Arc::new(catalog))
}

fn change_keyed(
    mut input: RecordReader<'_>,
    catalog: &Catalog,
    before: &Snapshot,
    at: CommitId,
) -> Result<Option<Arc<WriteSet>>> {
    if input.is_at_end() {
        return Ok(None);
    }
    let mut keyed = before.keyed.store().new_write_set();
    decode_keyed(&mut input, catalog, at, &mut keyed)?;
    input.end()?;
    Ok(Some(Arc::new(keyed)))
}

/// Keyed rows of more bytes are not collected in memory. They go to the log in slices of about this length.
const SLICE_BYTES: usize = 128 << 10;

/// A record of the log, ready to be written.
#[derive(Debug)]
pub(crate) struct LogRecord<'c> {
    bytes: Vec<u8>,
    /// Keyed rows that follow `bytes`, and the length of their encoding. `None` if `bytes` holds them already.
    keyed: Option<(&'c WriteSet, usize)>,
}

impl Payload for LogRecord<'_> {
    fn bytes(&self) -> usize {
        self.bytes.len() + self.keyed.map_or(0, |(_, bytes)| bytes)
    }

    fn write(&self, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        each(&self.bytes)?;
        let Some((keyed, _)) = self.keyed else { return Ok(()) };
        let mut out = Writer::behind(Vec::with_capacity(SLICE_BYTES + SLICE_BYTES / 2));
        encode_keyed(keyed, &mut out, |out| {
            if out.as_bytes().len() >= SLICE_BYTES {
                each(out.as_bytes())?;
                out.clear();
            }
            Ok(())
        })?;
        each(out.as_bytes())
    }
}

impl From<LogRecord<'_>> for Vec<u8> {
    /// Returns the buffer, so that the next record can use its memory.
    fn from(record: LogRecord<'_>) -> Vec<u8> {
        record.bytes
    }
}

/// The writes of each index that has any.
fn written(changes: &WriteSet) -> impl Iterator<Item = &IndexWrites> {
    changes.indexes().filter(|writes| !writes.is_empty())
}

/// The number of bytes that [`encode_keyed`] makes. The log needs it before the bytes exist, so both must agree
/// exactly.
fn keyed_bytes(changes: &WriteSet) -> usize {
    let of_index = |writes: &IndexWrites| {
        let Content { keys, key_bytes, rows, row_bytes } = writes.content();
        // Per index: an id and a count. Per key: its length and a flag for the row. Per row: its length.
        8 + keys * 5 + key_bytes - keys * HEAD_BYTES + rows * 4 + row_bytes
    };
    4 + written(changes).map(of_index).sum::<usize>()
}

/// Encodes rows and index entries by index. After each entry, `pause` may take the bytes written so far.
fn encode_keyed(changes: &WriteSet, out: &mut Writer, mut pause: impl FnMut(&mut Writer) -> Result<()>) -> Result<()> {
    out.u32(written(changes).count() as u32);
    for writes in written(changes) {
        out.u32(writes.index().0).u32(writes.content().keys as u32);
        for (key, row) in writes.iter() {
            out.bytes(&key[HEAD_BYTES..]);
            out.option(row, |out, row| {
                out.bytes(row);
            });
            pause(out)?;
        }
    }
    Ok(())
}

fn decode_keyed(input: &mut RecordReader<'_>, catalog: &Catalog, at: CommitId, changes: &mut WriteSet) -> Result<()> {
    let is_known = |id| {
        let mut keyed = catalog.all_tables().filter_map(|table| table.keyed.as_ref());
        keyed.any(|keyed| keyed.index_ids().any(|known| known == id))
    };
    let (mut key, mut last) = (Vec::new(), Vec::new());
    for _ in 0..input.count(4 + 4)? {
        let index = IndexId(input.u32()?);
        if !is_known(index) {
            return Err(input.damaged(&format!("keys of index {index}, which does not exist")));
        }
        for _ in 0..input.count(4 + 1)? {
            key.clear();
            key.extend_from_slice(&index_head(index));
            key.extend_from_slice(input.bytes()?);
            let row = input.option(|input| input.bytes())?;
            if key.len() > KEY_LEN_MAX || last >= key {
                // Encoding goes in key order, so any other order shows damage.
                return Err(input.damaged("a key that is too long, or does not follow the previous one"));
            }
            changes.put_uncounted(&key, row, at);
            std::mem::swap(&mut key, &mut last);
        }
    }
    Ok(())
}

impl TableChange {
    fn encode(&self, before: Option<&TableSnapshot>, out: &mut Writer) -> Result<()> {
        let kind = match (self.truncated, self.moved_rows) {
            (true, _) => TRUNCATED,
            (false, 0) => 0,
            (false, moved) => {
                assert_eq!(before.map(|before| before.next_row.0 + moved), Some(self.next_row.0), "all new rows moved");
                MOVED
            }
        };
        out.u8(kind).u64(self.next_row.0);
        let deleted = match before.filter(|_| !self.deleted.is_empty()) {
            Some(before) => Some(deleted_rows(before, &self.deleted)?),
            None => None,
        };
        out.option(deleted, |out, deleted| {
            out.bytes(&deleted);
        });
        out.u32(self.blocks.len() as u32);
        for block in &self.blocks {
            out.u64(block.first_row().0).bytes(&BlockEntry::of(block).encode());
            encode_positions(block.deleted(), out)?;
        }
        out.u32(self.runs.len() as u32);
        for run in &self.runs {
            out.u64(run.first_row().0).bytes(&run.encode()?);
            encode_positions(run.deleted(), out)?;
        }
        Ok(())
    }
}

/// Opens the block of an entry in the log or the base.
pub(crate) fn open_block(
    table: &TableDef,
    first_row: RowNumber,
    entry: &BlockEntry,
    deleted: Option<RoaringBitmap>,
    files: &ColumnFiles,
    freed: &Arc<FreedExtents>,
) -> Result<Block> {
    // A dropped column's chunks stay in the entries, but its file is gone, so we skip them.
    let exists = |column: ColumnId| column == ROW_NUMBERS || table.column_by_id(column).is_some();
    let open = |(column, extent): &(ColumnId, Extent)| {
        let file = files.get(table.id, *column)?;
        Ok(StoredChunk::kept(*column, file, *extent, Arc::clone(freed)))
    };
    let has_gaps = entry.end_row.0 - first_row.0 != u64::from(entry.rows);
    if has_gaps != entry.chunks.iter().any(|(column, _)| *column == ROW_NUMBERS) {
        return Err(Error::corrupt(format!("a block of table {} with row numbers that do not fit it", table.name)));
    }
    let chunks = entry.chunks.iter().filter(|(column, _)| exists(*column)).map(open).collect::<Result<Vec<_>>>()?;
    Ok(Block::new(entry.id, first_row..entry.end_row, entry.rows as usize, chunks, deleted.map(Arc::new)))
}

fn encode_positions(deleted: Option<&RoaringBitmap>, out: &mut Writer) -> Result<()> {
    let deleted = deleted.map(manifest::encode_deletes).transpose()?;
    out.option(deleted, |out, deleted| {
        out.bytes(&deleted);
    });
    Ok(())
}

/// Encodes the deleted rows as row numbers.
fn deleted_rows(before: &TableSnapshot, deleted: &DeletesByHolder) -> Result<Vec<u8>> {
    let finder = RowFinder::new(&before.def, &before.blocks, &before.runs);
    let mut rows = RoaringTreemap::new();
    for (first_row, positions) in deleted {
        let holder =
            finder.holder_at(*first_row).ok_or_else(|| Error::internal("deletes of rows that no holder has"))?;
        let numbers = holder.row_numbers(&before.def)?;
        if let (RowNumbers::Dense(first), true) = (&numbers, positions.len() == holder.rows() as u64) {
            rows.insert_range(first.0..first.0 + positions.len());
            continue;
        }
        // The numbers of holders do not overlap, and those of a holder ascend.
        rows.append(positions.iter().map(|position| numbers.at(position as usize)))
            .map_err(|error| Error::internal(format!("deleted rows that do not ascend: {error}")))?;
    }
    let mut bytes = Vec::with_capacity(rows.serialized_size());
    rows.serialize_into(&mut bytes).map_err(|error| Error::io("deleted rows", &error))?;
    Ok(bytes)
}

/// Decodes [`deleted_rows`] into positions. Returns an error if a row does not exist or is already deleted.
fn deleted_positions(before: &TableSnapshot, bytes: &[u8]) -> Result<DeletesByHolder> {
    let damaged = |problem: String| Error::corrupt(format!("deleted rows of a record of the log: {problem}"));
    let rows = RoaringTreemap::deserialize_from(bytes).map_err(|error| damaged(error.to_string()))?;
    let mut finder = RowFinder::new(&before.def, &before.blocks, &before.runs);
    let mut deleted = DeletesByHolder::new();
    for row in rows {
        let found =
            finder.find(row)?.map(|(holder, position)| (holder.first_row(), position, is_gone(holder, position)));
        match found {
            Some((first_row, position, false)) => deleted.entry(first_row).or_default().insert(position),
            Some(_) => return Err(damaged(format!("row {row} is already deleted"))),
            None => return Err(damaged(format!("row {row} does not exist"))),
        };
    }
    Ok(deleted)
}

fn is_gone(holder: &Holder, position: u32) -> bool {
    holder.deleted().is_some_and(|deleted| deleted.contains(position))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rapidhash::v3::RapidSecrets;
    use rowmill_base::SchemaId;
    use rowmill_io::OverflowMemory;
    use rowmill_storage::{KeyColumn, KeyedDef};

    use super::*;
    use crate::catalog::{MAIN_SCHEMA, SchemaDef};

    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        catalog.put_schema(Arc::new(SchemaDef { id: SchemaId(0), name: MAIN_SCHEMA.into() })).expect("empty");
        for id in [3, 4] {
            let key = vec![KeyColumn { column: ColumnId(0), descending: false }];
            let (key_name, stored, indexes, foreign_keys, referrers, sequence) = Default::default();
            let index = IndexId(id);
            let keyed = KeyedDef { index, key, key_name, stored, indexes, foreign_keys, referrers, sequence };
            let def = TableDef {
                id: TableId(id),
                schema: SchemaId(0),
                name: format!("t{id}"),
                version: 1,
                columns: Vec::new(),
                next_column: ColumnId(0),
                keyed: Some(Arc::new(keyed)),
                time: None,
                rules: Default::default(),
            };
            catalog.put_table(Arc::new(def)).expect("new");
        }
        catalog
    }

    type Entries = Vec<(Vec<u8>, Option<Vec<u8>>)>;

    fn decode(bytes: &[u8]) -> Result<Entries> {
        let mut input = RecordReader::new(bytes, "a record of the log");
        let mut changes = WriteSet::new(RapidSecrets::random(), OverflowMemory::default());
        decode_keyed(&mut input, &catalog(), CommitId(1), &mut changes)?;
        input.end()?;
        Ok(changes.iter().map(|(key, row)| (key.to_vec(), row.map(<[u8]>::to_vec))).collect())
    }

    #[test]
    fn keyed_rows_round_trip_and_damaged_bytes_give_errors_or_other_rows() {
        let key = |index, key: &[u8]| [&index_head(IndexId(index))[..], key].concat();
        let rows = [(3, &b"a"[..], Some(&b"row"[..])), (3, b"b", None), (4, b"", Some(b"")), (4, b"\0", Some(b"x"))];
        let expected: Entries =
            rows.into_iter().map(|(index, bytes, row)| (key(index, bytes), row.map(<[u8]>::to_vec))).collect();
        let mut changes = WriteSet::new(RapidSecrets::random(), OverflowMemory::default());
        expected.iter().rev().for_each(|(key, row)| changes.put(key, row.as_deref(), CommitId(1), 0));
        let mut out = Writer::new();
        let mut slices = 0;
        let pause = |_: &mut Writer| {
            slices += 1;
            Ok(())
        };
        encode_keyed(&changes, &mut out, pause).expect("written");
        let bytes = out.finish();
        assert_eq!((slices, bytes.len()), (expected.len(), keyed_bytes(&changes)));
        assert_eq!(decode(&bytes).expect("read"), expected);
        assert!((0..bytes.len()).all(|cut| decode(&bytes[..cut]).is_err()));
        let mut problems = BTreeSet::new();
        for at in 0..bytes.len() {
            for flip in [1, 4, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                problems.extend(decode(&damaged).err().map(|error| error.message().to_owned()));
            }
        }
        for problem in ["which does not exist", "follow the previous one", "ends too early", "neither there nor absent"]
        {
            assert!(problems.iter().any(|found| found.contains(problem)), "{problem}: {problems:?}");
        }
    }
}
