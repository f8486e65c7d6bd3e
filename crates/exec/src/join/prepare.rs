//! The second and third step of a join: the gathered rows are brought into order and indexed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::ArrayRef;
use rowmill_base::{Reservation, Result};

use super::columns::PartColumn;
use super::gather::{BuildBatch, BuildBatches, GatheredBuild};
use super::index::{Index, PartitionIndex, PartitionPart, list_starts};
use super::keys::KeyForm;
use super::long_keys::LongKeys;
use super::marks::Marks;
use super::packing::{NO_KEY, PackScratch};
use super::spill::Stages;
use super::{HashJoin, OWNER};
use crate::key_filter::KeyFilter;

/// The rows that one worker brought into order.
#[derive(Debug)]
pub(super) struct Scattered {
    /// Stored columns, with their positions.
    columns: Vec<(usize, PartColumn)>,
    /// One part per partition.
    parts: Vec<PartitionPart>,
    /// The long keys of batches, with the positions of the batches.
    keys: Vec<(usize, LongKeys)>,
    null_rows: Vec<u32>,
    memory: Reservation,
}

/// The build side in order.
#[derive(Debug)]
pub(super) struct PreparedBuild {
    stored: Arc<StoredBuild>,
    /// The parts of each worker, by partition.
    parts: Vec<Vec<PartitionPart>>,
    list_starts: Vec<u32>,
    /// The next piece of work.
    next: AtomicUsize,
    _memory: Vec<Reservation>,
}

/// The rows of the build side.
#[derive(Debug)]
pub(super) struct StoredBuild {
    pub(super) rows: usize,
    /// By [`super::layout::JoinLayout::stored`].
    pub(super) columns: Vec<PartColumn>,
    pub(super) form: KeyForm,
    /// The keys, if a word is only the hash of a key.
    pub(super) keys: Option<LongKeys>,
    /// Rows with a NULL in their key; only if the join needs them.
    pub(super) null_rows: Vec<u32>,
    memory: Reservation,
}

/// The tables and filters that one worker made.
#[derive(Debug)]
pub(super) struct Indexed {
    /// Tables with the numbers of their partitions.
    tables: Vec<(usize, PartitionIndex)>,
    /// Filters with the columns of the probe side.
    filters: Vec<(usize, Arc<KeyFilter>)>,
    memory: Reservation,
}

/// The build side, ready to be probed.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) stored: Arc<StoredBuild>,
    /// `None` if all rows match by their keys.
    pub(super) index: Option<Index>,
    /// The marks of rows with a match, if the kind of the join needs them.
    pub(super) marks: Option<Marks>,
    /// Whether [`StoredBuild::null_rows`] are marked.
    pub(super) null_rows_marked: AtomicBool,
    _memory: Vec<Reservation>,
}

/// The build side of a join that can be probed.
pub(super) enum FinishedBuild {
    InMemory(Arc<Built>),
    /// Both sides are on disk, and are joined in stages.
    OnDisk(Arc<Stages>),
}

impl HashJoin {
    /// The finished build side, after each worker has done its share. `None` if another worker failed or the join is
    /// done.
    pub(super) fn built(self: &Arc<Self>) -> Result<Option<FinishedBuild>> {
        // Another worker may have finished all steps already.
        if let Some(finished) = self.finished() {
            return Ok(Some(finished));
        }
        let cancel = &self.request.cancel;
        let gathered = self.gathering.run(cancel, || self.gather(), |read| self.gathered(read))?;
        let gathered = match gathered.as_deref() {
            Some(GatheredBuild::InMemory(gathered)) => gathered,
            Some(GatheredBuild::OnDisk(build)) => return Ok(self.scattered(build)?.map(FinishedBuild::OnDisk)),
            None => return Ok(self.finished()),
        };
        let work = || self.prepare(gathered);
        let prepared = self.preparing.run(cancel, work, |scattered| self.prepared(gathered, scattered))?;
        let Some(prepared) = prepared else { return Ok(self.finished()) };
        let work = || self.index(gathered, &prepared);
        let built = self.indexing.run(cancel, work, |indexed| self.indexed(gathered, &prepared, indexed))?;
        // The index is finished, so we free the data that it was made from.
        self.gathering.end();
        self.preparing.end();
        Ok(built.map(FinishedBuild::InMemory))
    }

    /// The build side, if it is finished and the join is not done.
    fn finished(&self) -> Option<FinishedBuild> {
        let in_memory = self.indexing.whole().map(FinishedBuild::InMemory);
        in_memory.or_else(|| self.scattering.whole().map(FinishedBuild::OnDisk))
    }

    /// Drops the shared build side. Workers that still use it keep it alive; a worker that asks from now on gets
    /// nothing.
    pub(super) fn let_go(&self) {
        self.gathering.end();
        self.preparing.end();
        self.indexing.end();
        self.scattering.end();
        self.memory.lock().take();
    }

    /// Joins columns into one array each, and puts the words of batches into partitions, until no work is left.
    fn prepare(&self, gathered: &BuildBatches) -> Result<Scattered> {
        let mut scattered = Scattered {
            columns: Vec::new(),
            parts: vec![PartitionPart::default(); gathered.partitioning.count()],
            keys: Vec::new(),
            null_rows: Vec::new(),
            memory: self.broker().reservation(OWNER),
        };
        let (mut words, mut scratch) = (Vec::new(), PackScratch::default());
        while !self.preparing.is_over() {
            self.request.cancel.check()?;
            // Tasks are numbered: first the stored columns, then the batches.
            let task = gathered.next.fetch_add(1, Ordering::Relaxed);
            if task < self.layout.stored.len() {
                scattered.columns.push((task, self.join_column(gathered, task)?));
                continue;
            }
            let batch = task - self.layout.stored.len();
            let Some(rows) = gathered.batches.get(batch).filter(|_| !matches!(gathered.form, KeyForm::Every)) else {
                break;
            };
            self.scatter(gathered, batch, rows, &mut words, &mut scratch, &mut scattered)?;
        }
        Ok(scattered)
    }

    fn join_column(&self, gathered: &BuildBatches, stored: usize) -> Result<PartColumn> {
        let column = self.layout.stored[stored];
        let mut parts = gathered.columns[column].lock();
        let mut joined = PartColumn::join(&parts, &self.layout.stored_kinds[stored], &self.broker())?;
        // The parts of key columns must stay, because filters are made from them.
        if !self.layout.build_keys.contains(&column) {
            parts.clear();
            joined.recount();
        }
        Ok(joined)
    }

    fn scatter(
        &self,
        gathered: &BuildBatches,
        number: usize,
        batch: &BuildBatch,
        words: &mut Vec<u64>,
        scratch: &mut PackScratch,
        scattered: &mut Scattered,
    ) -> Result<()> {
        const LONG_COLUMN_BYTES_MAX: usize = size_of::<u128>();
        // Reserve for the worst case first, so that too little memory fails before anything is allocated.
        let needed = batch.rows * (PartitionPart::ROW_BYTES_MAX + batch.keys.len() * LONG_COLUMN_BYTES_MAX);
        scattered.memory.grow(needed as u64)?;
        let keys = gathered.form.words(&batch.keys, batch.rows, scratch, words)?;
        scattered.keys.extend(keys.map(|keys| (number, keys)));
        gathered.partitioning.scatter(words, batch.first_row, &mut scattered.parts);
        if self.request.is_uncertain() {
            // A value of the build side always has a word, so `NO_KEY` can only be a NULL.
            let nulls = (batch.first_row..).zip(&*words).filter(|(_, word)| **word == NO_KEY);
            scattered.null_rows.extend(nulls.map(|(row, _)| row));
        }
        let parts: u64 = scattered.parts.iter().map(PartitionPart::bytes).sum();
        let keys: u64 = scattered.keys.iter().map(|(_, keys)| keys.bytes()).sum();
        scattered.memory.recount(parts + keys + (scattered.null_rows.capacity() * size_of::<u32>()) as u64);
        Ok(())
    }

    fn prepared(&self, gathered: &BuildBatches, scattered: Vec<Scattered>) -> Result<PreparedBuild> {
        let (mut columns, mut keys, mut null_rows) = (Vec::new(), Vec::new(), Vec::new());
        let (mut parts, mut memory) = (Vec::new(), Vec::new());
        for worker in scattered {
            columns.extend(worker.columns);
            keys.extend(worker.keys);
            null_rows.extend(worker.null_rows);
            parts.push(worker.parts);
            memory.push(worker.memory);
        }
        // Workers took columns and batches in any order; restore their order.
        columns.sort_unstable_by_key(|(position, _)| *position);
        keys.sort_unstable_by_key(|(batch, _)| *batch);
        let mut of_stored = self.broker().reservation(OWNER);
        of_stored.grow((null_rows.capacity() * size_of::<u32>()) as u64)?;
        let keys: Vec<LongKeys> = keys.into_iter().map(|(_, keys)| keys).collect();
        let keys = match gathered.form {
            KeyForm::Long { nulls_equal } => Some(LongKeys::join(&keys, nulls_equal, &mut of_stored)?),
            KeyForm::Every | KeyForm::Packed(_) => None,
        };
        let stored = StoredBuild {
            rows: gathered.rows,
            columns: columns.into_iter().map(|(_, column)| column).collect(),
            form: gathered.form.clone(),
            keys,
            null_rows,
            memory: of_stored,
        };
        let rows_of = |partition: usize| parts.iter().map(|parts: &Vec<PartitionPart>| parts[partition].len()).sum();
        Ok(PreparedBuild {
            stored: Arc::new(stored),
            // All partitions must know where their lists start before any is built.
            list_starts: list_starts((0..gathered.partitioning.count()).map(rows_of)),
            parts,
            next: AtomicUsize::new(0),
            _memory: memory,
        })
    }

    /// Makes filters and the tables of partitions until no work is left.
    fn index(&self, gathered: &BuildBatches, prepared: &PreparedBuild) -> Result<Indexed> {
        let memory = self.broker().reservation(OWNER);
        let mut indexed = Indexed { tables: Vec::new(), filters: Vec::new(), memory };
        let keys = prepared.stored.keys.as_ref();
        let is_same = |row: u32, other: u32| keys.is_none_or(|keys| keys.is_same(row as usize, keys, other as usize));
        while !self.indexing.is_over() {
            self.request.cancel.check()?;
            // Tasks are numbered: first the filters, then the partitions.
            let task = prepared.next.fetch_add(1, Ordering::Relaxed);
            if let Some(key) = gathered.filtered.get(task) {
                let values: Vec<&ArrayRef> = gathered.batches.iter().map(|batch| &batch.keys[*key]).collect();
                let counts = Arc::clone(&self.metrics.filters);
                let filter = KeyFilter::new(
                    &self.layout.key_kinds[*key],
                    &values,
                    self.request.nulls_equal,
                    counts,
                    &mut indexed.memory,
                )?;
                indexed.filters.push((self.layout.probe_keys[*key], Arc::new(filter)));
                continue;
            }
            let partition = task - gathered.filtered.len();
            let Some(lists_start) = prepared.list_starts.get(partition) else { break };
            let parts: Vec<&PartitionPart> = prepared.parts.iter().map(|parts| &parts[partition]).collect();
            let partitioning = &gathered.partitioning;
            let table = partitioning.table(partition, &parts, *lists_start, is_same, &mut indexed.memory)?;
            indexed.tables.push((partition, table));
        }
        Ok(indexed)
    }

    /// Joins the tables into the index and offers the filters to the probe side.
    fn indexed(&self, gathered: &BuildBatches, prepared: &PreparedBuild, indexed: Vec<Indexed>) -> Result<Built> {
        let (mut tables, mut memory) = (Vec::new(), Vec::new());
        for worker in indexed {
            worker.filters.iter().for_each(|(column, filter)| self.probe.offer(*column, filter));
            tables.extend(worker.tables);
            memory.push(worker.memory);
        }
        tables.sort_unstable_by_key(|(partition, _)| *partition);
        let tables: Vec<PartitionIndex> = tables.into_iter().map(|(_, table)| table).collect();
        let mut rest = self.broker().reservation(OWNER);
        let index = match gathered.form {
            KeyForm::Every => None,
            _ => Some(Index::new(gathered.partitioning, tables, &prepared.list_starts, &mut rest)?),
        };
        let marks = self.request.kind.marks_build().then(|| Marks::new(gathered.rows, &mut rest)).transpose()?;
        memory.push(rest);
        let stored = Arc::clone(&prepared.stored);
        self.mark_by_whole(&stored, marks.as_ref());
        let columns: u64 = stored.columns.iter().map(PartColumn::bytes).sum();
        let tables: u64 = memory.iter().map(Reservation::bytes).sum();
        // We count only memory that stays: the gathered parts are dropped after this step.
        self.metrics.build_bytes.store(columns + stored.memory.bytes() + tables, Ordering::Relaxed);
        Ok(Built { stored, index, marks, null_rows_marked: AtomicBool::new(false), _memory: memory })
    }
}
