//! Opening a database: recovery brings the base up to the end of the log, reads it into the first snapshot, and frees
//! space that no commit names.
//!
//! We apply the records after the base's position to the base's state and write the result to the base as one
//! checkpoint. The same write stores the position at which a new log begins. If the process is killed before the write,
//! nothing has changed. After it, everything has.
//!
//! A killed process may leave space that no commit names: extents of a load that never committed, or files of a dropped
//! table. The base does not name them, so we find them by comparing the disk with it. Doing this twice changes nothing.
//!
//! Another process may still read such space in an older state, and we no longer know which commit removed it. So we
//! treat all of it as removed by the last commit, and free it when no reader needs an older state.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use roaring::RoaringBitmap;
use rowmill_base::{BlockId, Broker, ColumnId, CommitId, Error, ErrorKind, Result, RowNumber, SchemaId, TableId};
use rowmill_io::Disk;
use rowmill_storage::spill::TempSpace;
use rowmill_storage::{Block, Extent, FreedExtents, OpenRun, ROW_NUMBERS, TableDef};

use crate::base::{BaseRead, OrderedBase, WriteBatch};
use crate::catalog::{Catalog, MAIN_SCHEMA, SchemaDef};
use crate::column_files::{ColumnFiles, Unnamed};
use crate::commit_record::{CommitRecord, open_block};
use crate::definition::DefinitionKind;
use crate::difference::DifferenceInParts;
use crate::engine::NO_COMMIT;
use crate::keyed::generation::Generation;
use crate::keyed::store::KeyedStore;
use crate::log::{Log, LogOptions, Position, Replayed};
use crate::manifest::{
    self, BLOCK, BlockEntry, DELETES, LOG_POSITION_KEY, META_KEY, Meta, NEXT_ROW, RUN, id_key, parse_row_key,
};
use crate::renumbering::RowNumbering;
use crate::replay::Replay;
use crate::snapshot::{Snapshot, TableSnapshot};

/// The commit that turns a directory into a database.
const FIRST_COMMIT: CommitId = CommitId(NO_COMMIT.0 + 1);

/// Makes the first commit of a new directory: the main schema.
pub(crate) fn initialise(base: &dyn OrderedBase) -> Result<()> {
    if base.read()?.get(META_KEY)?.is_some() {
        return Ok(());
    }
    let main = SchemaDef { id: SchemaId(0), name: MAIN_SCHEMA.to_owned() };
    let mut batch = WriteBatch::default();
    batch.put(META_KEY.to_vec(), Meta { next_schema: SchemaId(1), ..Meta::default() }.encode());
    batch.put(id_key(DefinitionKind::Schema.letter(), main.id.0), manifest::encode_schema(&main));
    base.write(&batch, FIRST_COMMIT)
}

/// Brings the base up to the end of the log and returns the position where a new log begins. The base stores that
/// position too.
pub(crate) fn replay(
    disk: &Arc<dyn Disk>,
    base: &dyn OrderedBase,
    broker: &Broker,
    temp: &TempSpace,
    options: LogOptions,
) -> Result<Replayed> {
    // We use separate files and extents here, because recovery only reads and must neither free nor write any.
    let files = ColumnFiles::new(Arc::clone(disk), broker.clone());
    let freed = Arc::new(FreedExtents::default());
    let read = base.read()?;
    let (before, meta) = load(&*read, &files, &freed, None)?;
    // If an older version made this base, we must write our format version to it. Otherwise that version could open the
    // directory and ignore the log.
    let is_of_this_version = read.get(META_KEY)?.is_some_and(|stored| stored == meta.encode());
    drop(read);
    // The rows of the log may be more than memory holds.
    let store = KeyedStore::new(Generation::unread(before.commit), broker, Some(temp.clone()));
    let before = Arc::new(before.with_keyed(store.unread_state(before.keyed.commit())));
    let mut replay = Replay::of(&before, &files, &freed);
    let replayed = Log::replay(&**disk, options, before.log_end, &mut |record| replay.record(record))?;
    if replayed.next == before.log_end && is_of_this_version {
        // The log has no records after the base's state. We leave the directory unwritten, so that merely opening it
        // changes nothing.
        return Ok(replayed);
    }
    let (state, later) = replay.finish()?;
    let mut parts = DifferenceInParts::new(&before, &state, broker)?;
    store.sync_files()?;
    // One write applies everything, so a crash before it leaves the base and the log as they were.
    parts.put(META_KEY, later.unwrap_or(meta).encode());
    parts.put(LOG_POSITION_KEY, manifest::encode_position(replayed.next));
    base.write_parts(&mut parts, state.commit)?;
    Ok(replayed)
}

/// Applies the log of the writing process to `known`, up to the position that is certainly on disk. Returns `None` if
/// the log does not go on from that state.
pub(crate) fn follow(
    disk: &dyn Disk,
    known: &Arc<Snapshot>,
    files: &ColumnFiles,
    freed: &Arc<FreedExtents>,
) -> Result<Option<Arc<Snapshot>>> {
    let mut replay = Replay::of(known, files, freed);
    // While the log was off, commits went to the base only. Then the ids in the log have a gap, and the caller must
    // load the base.
    let mut has_gap = false;
    let end = Log::follow(disk, LogOptions::default(), known.log_end, &mut |record| {
        has_gap |= CommitRecord::commit_of(record)?.0 != replay.commit().0 + 1;
        match has_gap {
            true => Ok(()),
            false => replay.record(record),
        }
    })?;
    let Some(log_end) = end.filter(|_| !has_gap) else { return Ok(None) };
    let (state, _) = replay.finish()?;
    Ok(Some(match log_end == state.log_end {
        true => state,
        false => Arc::new(Snapshot { log_end, ..(*state).clone() }),
    }))
}

/// Encoded delete vectors, by table and first row.
type Deletes = HashMap<(TableId, RowNumber), Vec<u8>>;

/// Reads the state that `reader` sees. Blocks that `known`, an older state, has too are shared with it.
pub(crate) fn load(
    reader: &dyn BaseRead,
    files: &ColumnFiles,
    freed: &Arc<FreedExtents>,
    known: Option<&Snapshot>,
) -> Result<(Snapshot, Meta)> {
    let commit = reader.commit_id()?;
    if commit < FIRST_COMMIT {
        return Err(Error::new(ErrorKind::UndefinedFile, "the database is still being created").hint("try again"));
    }
    let meta = reader.get(META_KEY)?.ok_or_else(|| Error::corrupt("the ordered base has no head entry"))?;
    let meta = Meta::decode(&meta)?;
    let log_end =
        reader.get(LOG_POSITION_KEY)?.map_or(Ok(Position::default()), |bytes| manifest::decode_position(&bytes))?;
    let catalog = load_catalog(reader)?;
    let mut deletes = load_deletes(reader)?;
    let mut blocks = load_blocks(reader, &catalog, files, freed, known, &mut deletes)?;
    let mut runs = load_runs(reader, &catalog, files.memory(), &mut deletes)?;
    let mut tables = HashMap::new();
    for def in catalog.all_tables() {
        let next_row = reader.get(&id_key(NEXT_ROW, def.id.0))?;
        let (next_row, moved_rows) =
            next_row.map_or(Ok((RowNumber(0), 0)), |bytes| manifest::decode_next_row(&bytes))?;
        let table = TableSnapshot {
            def: Arc::clone(def),
            blocks: blocks.remove(&def.id).unwrap_or_default().into(),
            runs: runs.remove(&def.id).unwrap_or_default().into(),
            next_row,
            moved_rows,
            numbering: RowNumbering::default(),
            _pin: None,
            keyed: None,
        };
        tables.insert(def.id, Arc::new(table));
    }
    // The keyed rows stay in the base: nothing was written after it.
    let keyed = KeyedStore::new(Generation::unread(commit), files.memory(), None).unread_state(commit);
    let (catalog, tables) = (Arc::new(catalog), Arc::new(tables));
    Ok((Snapshot { commit, catalog, tables, log_end, keyed, pin: None, own: None, reads: None }, meta))
}

fn id_of(key: &[u8]) -> Result<u32> {
    let id = key.get(1..).and_then(|id| id.try_into().ok());
    id.map(u32::from_be_bytes).ok_or_else(|| Error::corrupt("a key of the ordered base has the wrong length"))
}

fn load_catalog(reader: &dyn BaseRead) -> Result<Catalog> {
    let mut catalog = Catalog::default();
    for kind in DefinitionKind::ALL {
        reader.scan(&[kind.letter()], &mut |key, value| {
            kind.put(&mut catalog, id_of(key)?, value)?;
            Ok(true)
        })?;
    }
    Ok(catalog)
}

fn load_deletes(reader: &dyn BaseRead) -> Result<Deletes> {
    let mut deletes = Deletes::new();
    reader.scan(&[DELETES], &mut |key, value| {
        deletes.insert(parse_row_key(key)?, value.to_vec());
        Ok(true)
    })?;
    Ok(deletes)
}

fn take_deletes(
    deletes: &mut Deletes,
    table: &TableDef,
    first_row: RowNumber,
    rows: usize,
) -> Result<Option<RoaringBitmap>> {
    let Some(bytes) = deletes.remove(&(table.id, first_row)) else { return Ok(None) };
    let decoded = manifest::decode_deletes(&bytes, rows);
    decoded.map(Some).map_err(|error| error.context(format_args!("table {}, rows from {first_row}", table.name)))
}

fn load_blocks(
    reader: &dyn BaseRead,
    catalog: &Catalog,
    files: &ColumnFiles,
    freed: &Arc<FreedExtents>,
    known: Option<&Snapshot>,
    deletes: &mut Deletes,
) -> Result<HashMap<TableId, Vec<Arc<Block>>>> {
    let mut entries: BTreeMap<TableId, Vec<(RowNumber, BlockEntry)>> = BTreeMap::new();
    reader.scan(&[BLOCK], &mut |key, value| {
        let (table, first_row) = parse_row_key(key)?;
        entries.entry(table).or_default().push((first_row, BlockEntry::decode(first_row, value)?));
        Ok(true)
    })?;
    let mut blocks = HashMap::new();
    for (id, entries) in entries {
        let Some(table) = catalog.table_by_id(id) else {
            return Err(Error::corrupt(format!("the manifest names blocks of table {id}, which does not exist")));
        };
        open_files(table, &entries, files)?;
        let known = known.and_then(|known| known.tables.get(&id));
        let known: HashMap<BlockId, &Arc<Block>> =
            known.iter().flat_map(|known| known.blocks.iter()).map(|block| (block.id(), block)).collect();
        let mut of_table = Vec::with_capacity(entries.len());
        for (first_row, entry) in entries {
            let deleted = take_deletes(deletes, table, first_row, entry.rows as usize)?;
            of_table.push(Arc::new(match known.get(&entry.id) {
                // Block ids are never reused, and the bytes of a block never change while a commit names it. So we can
                // share it.
                Some(block) => block.with_all_deleted(deleted.map(Arc::new)),
                None => open_block(table, first_row, &entry, deleted, files, freed)?,
            }));
        }
        blocks.insert(id, of_table);
    }
    Ok(blocks)
}

/// Opens the column files of a table and marks exactly the extents of `entries` as taken.
fn open_files(table: &TableDef, entries: &[(RowNumber, BlockEntry)], files: &ColumnFiles) -> Result<()> {
    let mut named: HashMap<ColumnId, Vec<Extent>> = HashMap::new();
    for (column, extent) in entries.iter().flat_map(|(_, entry)| &entry.chunks) {
        named.entry(*column).or_default().push(*extent);
    }
    let exists = |column: ColumnId| column == ROW_NUMBERS || table.column_by_id(column).is_some();
    let named = named.into_iter().filter(|(column, _)| exists(*column));
    named.map(|(column, extents)| files.get_or_put(table.id, column, extents)).try_for_each(|file| file.map(drop))
}

fn load_runs(
    reader: &dyn BaseRead,
    catalog: &Catalog,
    memory: &Broker,
    deletes: &mut Deletes,
) -> Result<HashMap<TableId, Vec<Arc<OpenRun>>>> {
    let mut runs: HashMap<TableId, Vec<Arc<OpenRun>>> = HashMap::new();
    reader.scan(&[RUN], &mut |key, value| {
        let (id, first_row) = parse_row_key(key)?;
        let table = catalog
            .table_by_id(id)
            .ok_or_else(|| Error::corrupt(format!("the base holds rows of table {id}, which does not exist")))?;
        let mut run = OpenRun::decode(first_row, table, value)?;
        if let Some(deleted) = take_deletes(deletes, table, first_row, run.rows())? {
            run = run.with_deleted(&deleted);
        }
        runs.entry(id).or_default().push(Arc::new(run.counted(memory)));
        Ok(true)
    })?;
    Ok(runs)
}

/// Finds everything on disk that `snapshot`, the last commit, does not name. It will be freed when no reader needs an
/// older state.
pub(crate) fn note_unnamed(files: &ColumnFiles, freed: &FreedExtents, snapshot: &Snapshot) -> Result<()> {
    for (id, columns) in files.on_disk()? {
        // A dropped table loses its folder, a dropped column its file, and any other file the extents that no block
        // names.
        let Some(table) = snapshot.catalog().table_by_id(id) else {
            files.note_unnamed(Unnamed::Folder(id), snapshot.commit);
            continue;
        };
        for column in columns {
            if column != ROW_NUMBERS && table.column_by_id(column).is_none() {
                files.note_unnamed(Unnamed::File(id, column), snapshot.commit);
                continue;
            }
            let file = files.get(id, column)?;
            for extent in file.take_unnamed()? {
                freed.add(snapshot.commit, &file, extent);
            }
        }
    }
    Ok(())
}
