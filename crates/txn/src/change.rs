//! The changes of one commit. A transaction or a background task makes them. They are applied to the state before the
//! commit, written to the log, and decoded from the log during recovery. The byte table is in `docs/file-format.md`,
//! "Log".
//!
//! Background tasks join, seal and merge runs and blocks at any time, and readers must not notice it. So the bytes of a
//! change never name a position: they name deleted rows by their row numbers, and a new block by the range of row
//! numbers that it replaces.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use roaring::{RoaringBitmap, RoaringTreemap};
use rowmill_base::{Broker, ColumnId, CommitId, Error, IndexId, Result, RowNumber, SchemaId, TableId, ViewId};
use rowmill_storage::{Block, Extent, FreedExtents, OpenRun, ROW_NUMBERS, StoredChunk, TableDef};

use crate::base::KEY_LEN_MAX;
use crate::catalog::Catalog;
use crate::codec::{RecordReader, Writer};
use crate::column_files::ColumnFiles;
use crate::deletes::{self, DeletesByHolder, Holder, RowFinder};
use crate::keyed::index_writes::{Content, IndexWrites};
use crate::keyed::write_set::WriteSet;
use crate::keyed::{HEAD_BYTES, index_head};
use crate::log::Payload;
use crate::manifest::{self, BlockEntry, Meta, SCHEMA, STATISTICS, TABLE, VIEW};
use crate::snapshot::{Snapshot, TableSnapshot, Tables};
use crate::statistics_codec;
use crate::transaction::join_tail;

/// The difference between two committed states that follow each other.
#[derive(Debug)]
pub(crate) struct CommitChange {
    /// All definitions after the commit, the unchanged ones included.
    pub(crate) catalog: Arc<Catalog>,
    /// Changes by table. Holds only tables that exist after the commit.
    pub(crate) tables: BTreeMap<TableId, TableChange>,
    /// Changed rows and index entries of keyed tables, if there are any.
    pub(crate) keyed: Option<Arc<WriteSet>>,
}

/// The changes of one table, applied in the order of the fields.
#[derive(Debug, Default)]
pub(crate) struct TableChange {
    /// All rows of the state before are deleted.
    pub(crate) truncated: bool,
    /// Deleted rows of the state before.
    pub(crate) deleted: DeletesByHolder,
    /// New blocks. Each replaces all rows within its range of row numbers.
    pub(crate) blocks: Vec<Arc<Block>>,
    /// New rows, whose numbers follow all others.
    pub(crate) runs: Vec<Arc<OpenRun>>,
    /// The number of the next row to be committed.
    pub(crate) next_row: RowNumber,
}

/// The result of applying a change.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) snapshot: Snapshot,
    /// Blocks of the state before that the next state does not name.
    pub(crate) removed: Vec<Arc<Block>>,
    /// Tables of the state before that the next state does not have.
    pub(crate) dropped: Vec<TableId>,
}

impl CommitChange {
    /// Makes a change of one table that leaves all definitions as they are.
    pub(crate) fn of_table(before: &Snapshot, table: TableId, change: TableChange) -> CommitChange {
        CommitChange { catalog: Arc::clone(&before.catalog), tables: BTreeMap::from([(table, change)]), keyed: None }
    }

    /// Makes the state that follows `before`. Keyed rows are not part of this: the caller must apply them to the
    /// versions and set [`Snapshot::keyed`] itself.
    pub(crate) fn apply(&self, before: &Snapshot, memory: &Broker) -> Result<Applied> {
        if self.tables.is_empty() && Arc::ptr_eq(&before.catalog, &self.catalog) {
            let snapshot = Snapshot { commit: CommitId(before.commit.0 + 1), pin: None, ..before.clone() };
            return Ok(Applied { snapshot, removed: Vec::new(), dropped: Vec::new() });
        }
        let mut tables: Tables = (*before.tables).clone();
        let (mut removed, mut dropped) = (Vec::new(), Vec::new());
        if !Arc::ptr_eq(&before.catalog, &self.catalog) {
            tables.retain(|id, table| {
                // A dropped table leaves the state, and its blocks become free space once no reader needs them.
                let stays = self.catalog.table_by_id(*id).is_some();
                if !stays {
                    removed.extend(table.blocks.iter().cloned());
                    dropped.push(*id);
                }
                stays
            });
            for def in self.catalog.all_tables() {
                match tables.get(&def.id) {
                    Some(table) if Arc::ptr_eq(&table.def, def) => {}
                    Some(table) => {
                        let table = TableSnapshot { def: Arc::clone(def), ..(**table).clone() };
                        tables.insert(def.id, Arc::new(table));
                    }
                    None => {
                        tables.insert(def.id, Arc::new(TableSnapshot::empty(Arc::clone(def))));
                    }
                }
            }
        }
        for (id, change) in &self.tables {
            let table =
                tables.get(id).ok_or_else(|| Error::internal(format!("a change of a table {id} that is not there")))?;
            let next = change.apply(table, memory)?;
            removed.extend(blocks_without(&table.blocks, &next.blocks));
            tables.insert(*id, Arc::new(next));
        }
        let snapshot = Snapshot {
            commit: CommitId(before.commit.0 + 1),
            catalog: Arc::clone(&self.catalog),
            tables: Arc::new(tables),
            log_end: before.log_end,
            keyed: Arc::clone(&before.keyed),
            pin: None,
            own: None,
            reads: None,
        };
        Ok(Applied { snapshot, removed, dropped })
    }

    /// The new blocks that this change names.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        self.tables.values().flat_map(|table| &table.blocks)
    }
}

/// The blocks of `before` that are not in `after`.
fn blocks_without(before: &Arc<[Arc<Block>]>, after: &Arc<[Arc<Block>]>) -> Vec<Arc<Block>> {
    if before.is_empty() || Arc::ptr_eq(before, after) {
        return Vec::new();
    }
    let stay: HashSet<_> = after.iter().map(|block| block.id()).collect();
    before.iter().filter(|block| !stay.contains(&block.id())).cloned().collect()
}

impl TableChange {
    fn apply(&self, before: &TableSnapshot, memory: &Broker) -> Result<TableSnapshot> {
        let mut next = TableSnapshot { next_row: self.next_row, ..before.clone() };
        if self.truncated {
            next.blocks = Arc::default();
            next.runs = Arc::default();
        } else if !self.deleted.is_empty() {
            let (mut blocks, mut runs) = deletes::apply(&before.blocks, &before.runs, &self.deleted);
            blocks.retain(|block| block.live_rows() > 0);
            runs.retain(|run| run.live_rows() > 0);
            (next.blocks, next.runs) = (blocks.into(), runs.into());
        }
        if !self.blocks.is_empty() {
            let (mut blocks, mut runs) = (next.blocks.to_vec(), next.runs.to_vec());
            for block in &self.blocks {
                put_block(block, &mut blocks, &mut runs, memory)?;
            }
            (next.blocks, next.runs) = (blocks.into(), runs.into());
        }
        if !self.runs.is_empty() {
            let mut runs = next.runs.to_vec();
            runs.extend(self.runs.iter().cloned());
            join_tail(&next.def, &mut runs, memory)?;
            next.runs = runs.into();
        }
        Ok(next)
    }
}

/// Inserts a block and removes the blocks and the parts of runs whose row numbers it covers.
fn put_block(
    block: &Arc<Block>,
    blocks: &mut Vec<Arc<Block>>,
    runs: &mut Vec<Arc<OpenRun>>,
    memory: &Broker,
) -> Result<()> {
    let numbers = block.first_row()..block.end_row();
    // A replaced block may begin before the new one: the rows in front were deleted, so the new block leaves them out.
    let from = blocks.partition_point(|other| other.end_row() <= numbers.start);
    let to = blocks.partition_point(|other| other.first_row() < numbers.end);
    blocks.splice(from..to, [Arc::clone(block)]);
    // A run may reach beyond the block, because recovery gathers rows of many commits into longer runs than those that
    // the block was made of. We keep the parts before and after the block.
    let mut kept = Vec::with_capacity(runs.len());
    for run in runs.drain(..) {
        let (first, rows) = (run.first_row().0, run.rows());
        let position = |row: RowNumber| (row.0.clamp(first, first + rows as u64) - first) as usize;
        let (start, end) = (position(numbers.start), position(numbers.end));
        if start == end {
            kept.push(run);
            continue;
        }
        for outside in [0..start, end..rows].into_iter().filter(|part| !part.is_empty()) {
            let part = run.part(outside)?;
            if part.live_rows() > 0 {
                kept.push(Arc::new(part.counted(memory)));
            }
        }
    }
    *runs = kept;
    Ok(())
}

// Bytes.

/// The first byte of a truncated table. It is zero for every other table.
const TRUNCATED: u8 = 1;

impl CommitChange {
    /// Encodes the log record of commit `at`, which follows `before`. The bytes are appended to `buffer`.
    pub(crate) fn encode(&self, before: &Snapshot, at: CommitId, meta: Meta, buffer: Vec<u8>) -> Result<Record<'_>> {
        let mut out = Writer::behind(buffer);
        out.u64(at.0).bytes_of(|out| meta.write(out));
        let definitions = definitions(&before.catalog, &self.catalog)?;
        out.u32(definitions.len() as u32);
        for Definition { kind, id, value } in definitions {
            out.u8(kind).u32(id);
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
        Ok(Record { bytes: out.finish(), keyed })
    }

    /// Reads the commit id of a record.
    pub(crate) fn commit_of(record: &[u8]) -> Result<CommitId> {
        RecordReader::new(record, "a record of the log").u64().map(CommitId)
    }

    /// Decodes a record that only appends rows. Returns `None` for any other record.
    pub(crate) fn appended(bytes: &[u8]) -> Result<Option<Appended<'_>>> {
        let mut input = RecordReader::new(bytes, "a record of the log");
        let (commit, meta) = (CommitId(input.u64()?), Meta::decode(input.bytes()?)?);
        let mut runs = Vec::new();
        if input.u32()? > 0 {
            return Ok(None);
        }
        for _ in 0..input.count(TABLE_BYTES_MIN)? {
            let table = TableId(input.u32()?);
            let is_truncated = input.u8()? != 0;
            let next_row = RowNumber(input.u64()?);
            // The record deletes rows of the table, or adds blocks.
            if is_truncated || input.u8()? != 0 || input.u32()? > 0 {
                return Ok(None);
            }
            let count = input.count(RUN_BYTES_MIN)?;
            if count == 0 {
                return Ok(None);
            }
            for _ in 0..count {
                let first_row = RowNumber(input.u64()?);
                let bytes = input.bytes()?;
                // The run has deleted rows.
                if input.u8()? != 0 {
                    return Ok(None);
                }
                runs.push(AppendedRun { table, first_row, next_row, bytes });
            }
        }
        if !input.is_at_end() {
            // The record goes on with keyed rows.
            return Ok(None);
        }
        Ok(Some(Appended { commit, meta, runs }))
    }

    /// Decodes the change that a record holds, which must follow `before`, and the ids to be given next.
    pub(crate) fn decode(
        bytes: &[u8],
        before: &Snapshot,
        files: &ColumnFiles,
        freed: &Arc<FreedExtents>,
    ) -> Result<(CommitChange, Meta)> {
        let mut input = RecordReader::new(bytes, "a record of the log");
        let at = CommitId(input.u64()?);
        if at.0 != before.commit.0 + 1 {
            return Err(input.damaged(&format!("commit {at} follows commit {}", before.commit)));
        }
        let meta = Meta::decode(input.bytes()?)?;
        let catalog = decode_catalog(&mut input, &before.catalog)?;
        let mut tables = BTreeMap::new();
        for _ in 0..input.count(TABLE_BYTES_MIN)? {
            let id = TableId(input.u32()?);
            let def = catalog.table_by_id(id).ok_or_else(|| input.damaged(&format!("table {id} does not exist")))?;
            let of_table = before.tables.get(&id);
            let table = TableChange::decode(&mut input, def, of_table.map(|table| &**table), files, freed)?;
            if tables.insert(id, table).is_some() {
                return Err(input.damaged("a table twice"));
            }
        }
        let keyed = match input.is_at_end() {
            true => None,
            false => {
                let mut keyed = before.keyed.store().new_write_set();
                decode_keyed(&mut input, &catalog, at, &mut keyed)?;
                Some(Arc::new(keyed))
            }
        };
        input.end()?;
        Ok((CommitChange { catalog, tables, keyed }, meta))
    }
}

/// Keyed rows of more bytes are not collected in memory. They go to the log in slices of about this length.
const SLICE_BYTES: usize = 128 << 10;

/// A record of the log, ready to be written.
#[derive(Debug)]
pub(crate) struct Record<'c> {
    bytes: Vec<u8>,
    /// Keyed rows that follow `bytes`, and the length of their encoding. `None` if `bytes` holds them already.
    keyed: Option<(&'c WriteSet, usize)>,
}

impl Payload for Record<'_> {
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

impl From<Record<'_>> for Vec<u8> {
    /// Returns the buffer, so that the next record can use its memory.
    fn from(record: Record<'_>) -> Vec<u8> {
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

/// A commit that only appends rows.
pub(crate) struct Appended<'a> {
    pub(crate) commit: CommitId,
    pub(crate) meta: Meta,
    pub(crate) runs: Vec<AppendedRun<'a>>,
}

/// One run of such a commit, and the number of the table's next row after the commit.
pub(crate) struct AppendedRun<'a> {
    pub(crate) table: TableId,
    pub(crate) first_row: RowNumber,
    pub(crate) next_row: RowNumber,
    pub(crate) bytes: &'a [u8],
}

/// Least bytes of a run: its first row, its length and a flag for deleted rows.
const RUN_BYTES_MIN: usize = 8 + 4 + 1;
/// Least bytes of a table: its id, flags, next row, a flag for deleted rows and two counts.
const TABLE_BYTES_MIN: usize = 4 + 1 + 8 + 1 + 4 + 4;
/// Least bytes of a definition: its kind, its id and a flag for the value.
const DEFINITION_BYTES_MIN: usize = 1 + 4 + 1;

/// A definition that was made, changed or removed: a schema, a table, a view or the statistics of a table.
pub(crate) struct Definition {
    /// [`SCHEMA`], [`TABLE`], [`VIEW`] or [`STATISTICS`].
    pub(crate) kind: u8,
    pub(crate) id: u32,
    /// The value in the base. `None` if the definition was removed.
    pub(crate) value: Option<Vec<u8>>,
}

/// The definitions that differ between two catalogs. Removals come first, and a schema comes before its tables, so that
/// the list can be applied from start to end.
pub(crate) fn definitions(before: &Arc<Catalog>, after: &Arc<Catalog>) -> Result<Vec<Definition>> {
    if Arc::ptr_eq(before, after) {
        return Ok(Vec::new());
    }
    let mut changed = Vec::new();
    let mut put = |kind, id, value| changed.push(Definition { kind, id, value });
    for view in before.all_views().filter(|view| after.view_by_id(view.id).is_none()) {
        put(VIEW, view.id.0, None);
    }
    for (table, _) in before.all_statistics().filter(|(table, _)| after.statistics(*table).is_none()) {
        put(STATISTICS, table.0, None);
    }
    for table in before.all_tables().filter(|table| after.table_by_id(table.id).is_none()) {
        put(TABLE, table.id.0, None);
    }
    for schema in before.schemas().filter(|schema| after.schema_by_id(schema.id).is_none()) {
        put(SCHEMA, schema.id.0, None);
    }
    for schema in after.schemas() {
        if !before.schema_by_id(schema.id).is_some_and(|old| Arc::ptr_eq(old, schema)) {
            put(SCHEMA, schema.id.0, Some(manifest::encode_schema(schema)));
        }
    }
    for table in after.all_tables() {
        if !before.table_by_id(table.id).is_some_and(|old| Arc::ptr_eq(old, table)) {
            put(TABLE, table.id.0, Some(manifest::encode_table(table)?));
        }
    }
    for (table, statistics) in after.all_statistics() {
        if !before.statistics(table).is_some_and(|old| Arc::ptr_eq(old, statistics)) {
            put(STATISTICS, table.0, Some(statistics_codec::encode(statistics)));
        }
    }
    for view in after.all_views() {
        if !before.view_by_id(view.id).is_some_and(|old| Arc::ptr_eq(old, view)) {
            put(VIEW, view.id.0, Some(manifest::encode_view(view)));
        }
    }
    Ok(changed)
}

fn decode_catalog(input: &mut RecordReader<'_>, before: &Arc<Catalog>) -> Result<Arc<Catalog>> {
    let count = input.count(DEFINITION_BYTES_MIN)?;
    if count == 0 {
        return Ok(Arc::clone(before));
    }
    let mut catalog = (**before).clone();
    let mut defined = Vec::with_capacity(count);
    for _ in 0..count {
        let (kind, id) = (input.u8()?, input.u32()?);
        let value = input.option(|input| input.bytes())?;
        // We remove every changed definition before we add any, because another object of the same commit may take its
        // name. A changed schema stays, because removing it would remove its tables.
        match kind {
            VIEW => catalog.remove_view(ViewId(id)),
            TABLE if value.is_none() => catalog.remove_table(TableId(id)),
            TABLE => catalog.withdraw_table(TableId(id)),
            STATISTICS => catalog.set_statistics(TableId(id), None),
            SCHEMA if value.is_none() => catalog.remove_schema(SchemaId(id)),
            SCHEMA => {}
            _ => return Err(input.damaged("a definition of an unknown kind")),
        }
        defined.extend(value.map(|value| (kind, id, value)));
    }
    for (kind, id, value) in defined {
        let put = match kind {
            VIEW => catalog.put_view(Arc::new(manifest::decode_view(ViewId(id), value)?)),
            TABLE => catalog.put_table(Arc::new(manifest::decode_table(TableId(id), value)?)),
            STATISTICS => {
                statistics_codec::put(&mut catalog, TableId(id), value)?;
                Ok(())
            }
            _ => catalog.put_schema(Arc::new(manifest::decode_schema(SchemaId(id), value)?)),
        };
        put.map_err(|error| input.damaged(error.message()))?;
    }
    Ok(Arc::new(catalog))
}

impl TableChange {
    fn encode(&self, before: Option<&TableSnapshot>, out: &mut Writer) -> Result<()> {
        out.u8(if self.truncated { TRUNCATED } else { 0 }).u64(self.next_row.0);
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

    fn decode(
        input: &mut RecordReader<'_>,
        def: &Arc<TableDef>,
        before: Option<&TableSnapshot>,
        files: &ColumnFiles,
        freed: &Arc<FreedExtents>,
    ) -> Result<TableChange> {
        let truncated = match input.u8()? {
            0 => false,
            TRUNCATED => true,
            _ => return Err(input.damaged("a change of an unknown kind")),
        };
        let next_row = RowNumber(input.u64()?);
        let rows = input.option(|input| input.bytes())?;
        let deleted = match (rows, before.filter(|_| !truncated)) {
            // Truncating already deletes all rows, so a truncated table must not have deletes of its own.
            (None, _) => DeletesByHolder::new(),
            (Some(rows), Some(before)) => deleted_positions(before, rows)?,
            (Some(_), None) => return Err(input.damaged("deletes of rows that do not exist")),
        };
        let mut blocks = Vec::new();
        for _ in 0..input.count(8 + 4 + 1)? {
            let first_row = RowNumber(input.u64()?);
            let entry = BlockEntry::decode(first_row, input.bytes()?)?;
            let deleted = decode_positions(input, entry.rows as usize)?;
            blocks.push(Arc::new(open_block(def, first_row, &entry, deleted, files, freed)?));
        }
        let mut runs = Vec::new();
        for _ in 0..input.count(RUN_BYTES_MIN)? {
            let first_row = RowNumber(input.u64()?);
            let run = OpenRun::decode(first_row, def, input.bytes()?)?;
            if first_row.0.checked_add(run.rows() as u64).is_none_or(|end| end > next_row.0) {
                return Err(input.damaged("rows after the last row"));
            }
            let deleted = decode_positions(input, run.rows())?;
            let run = match deleted {
                Some(deleted) => run.with_deleted(&deleted),
                None => run,
            };
            runs.push(Arc::new(run.counted(files.memory())));
        }
        Ok(TableChange { truncated, deleted, blocks, runs, next_row })
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

fn decode_positions(input: &mut RecordReader<'_>, rows: usize) -> Result<Option<RoaringBitmap>> {
    input.option(|input| manifest::decode_deletes(input.bytes()?, rows))
}

/// Encodes the deleted rows as row numbers.
fn deleted_rows(before: &TableSnapshot, deleted: &DeletesByHolder) -> Result<Vec<u8>> {
    let finder = RowFinder::new(&before.def, &before.blocks, &before.runs);
    let mut rows = RoaringTreemap::new();
    for (first_row, positions) in deleted {
        let holder =
            finder.holder_at(*first_row).ok_or_else(|| Error::internal("deletes of rows that no holder has"))?;
        let numbers = holder.row_numbers(&before.def)?;
        rows.extend(positions.iter().map(|position| numbers.at(position as usize)));
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
    use rowmill_storage::{KeyColumn, KeyedDef};

    use super::*;
    use crate::catalog::{MAIN_SCHEMA, SchemaDef};

    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        catalog.put_schema(Arc::new(SchemaDef { id: SchemaId(0), name: MAIN_SCHEMA.into() })).expect("empty");
        for id in [3, 4] {
            let key = vec![KeyColumn { column: ColumnId(0), descending: false }];
            let (stored, indexes, checks, foreign_keys, referrers, identities, sequence) = Default::default();
            let index = IndexId(id);
            let keyed = KeyedDef { index, key, stored, indexes, checks, foreign_keys, referrers, identities, sequence };
            let def = TableDef {
                id: TableId(id),
                schema: SchemaId(0),
                name: format!("t{id}"),
                version: 1,
                columns: Vec::new(),
                next_column: ColumnId(0),
                keyed: Some(Arc::new(keyed)),
            };
            catalog.put_table(Arc::new(def)).expect("new");
        }
        catalog
    }

    type Entries = Vec<(Vec<u8>, Option<Vec<u8>>)>;

    fn decode(bytes: &[u8]) -> Result<Entries> {
        let mut input = RecordReader::new(bytes, "a record of the log");
        let mut changes = WriteSet::new(RapidSecrets::random());
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
        let mut changes = WriteSet::new(RapidSecrets::random());
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
