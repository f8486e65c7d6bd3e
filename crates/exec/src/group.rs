//! GROUP BY over one table, in two steps that any number of workers share.
//!
//! ```text
//! gather   a worker takes a block, finds the groups in it by small numbers (local.rs), adds its rows to them (state.rs)
//!          and puts the groups into its partitions, by the hash of their keys (partition.rs)
//! merge    when no block is left, a worker takes a partition and puts together what all workers gathered in it
//! ```
//!
//! So a value of a key is hashed once per block and not per row, and where everything that a query reads of a block is
//! one column, no row is touched at all: its value list says how many rows have each value (rows.rs).

mod bits;
mod local;
mod partition;
mod rows;
mod state;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use parking_lot::{Condvar, Mutex};
use rowmill_base::{Broker, Cancel, Error, Reservation, Result};
use rowmill_plan::{Expr, Group};
use rowmill_storage::TableSource;
use rowmill_storage::chunk::Verdict;

use self::partition::{KeyLayout, Partition, table_bytes};
use self::rows::{Rows, Values};
use self::state::{Grouped, States};
use crate::scan::ScanMetrics;
use crate::scan::block_state::verdict;
use crate::scan::filter::Filter;

/// The name of the operator in errors.
const OWNER: &str = "GROUP BY";

/// Partitions at most, a power of two: the groups of one should fit a core's caches.
const PARTITIONS_MAX: usize = 256;
/// Groups for which another partition is made.
const GROUPS_PER_PARTITION: usize = 1 << 14;

/// A function of columns that the engine has no operators for. It gives the same for the same values.
pub trait VectorFunction: Send + Sync + fmt::Debug {
    /// The columns that it reads, by their positions in the table's definition.
    fn columns(&self) -> &[usize];

    /// The results for `rows` rows of the columns.
    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef>;
}

/// What is to be grouped, and how.
#[derive(Clone, Debug)]
pub struct GroupRequest {
    /// The groups.
    pub group: Group,
    /// The functions that its expressions name.
    pub functions: Vec<Arc<dyn VectorFunction>>,
    /// The result: keys, then aggregates.
    pub schema: SchemaRef,
    /// Rows of a batch at most.
    pub batch_rows: usize,
    /// Ends the work early; asked once per block and partition.
    pub cancel: Cancel,
    /// Grants the memory.
    pub broker: Broker,
}

/// One grouping of one table, shared by its workers.
pub struct GroupBy {
    source: Arc<dyn TableSource>,
    request: GroupRequest,
    filter: Filter,
    layout: KeyLayout,
    states: States,
    partitions: usize,
    next_part: AtomicUsize,
    next_partition: AtomicUsize,
    progress: Mutex<Progress>,
    changed: Condvar,
    metrics: Arc<ScanMetrics>,
}

/// How far gathering is.
#[derive(Default)]
struct Progress {
    /// Workers that gather.
    gathering: usize,
    failed: bool,
    gathered: Vec<Gathered>,
    /// What all workers gathered, once they are done.
    all: Option<Arc<Vec<Gathered>>>,
}

/// What one worker gathered.
struct Gathered {
    partitions: Vec<Partition>,
    /// Given back when the last partition is merged.
    _memory: Reservation,
}

impl fmt::Debug for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupBy").field("request", &self.request).finish_non_exhaustive()
    }
}

impl GroupBy {
    /// Prepares the grouping; reads no rows.
    pub fn new(source: Arc<dyn TableSource>, request: GroupRequest) -> Arc<GroupBy> {
        let partitions = match request.group.keys.is_empty() {
            true => 1,
            // Each block may have as many groups as its rows.
            false => (source.row_count() as usize / GROUPS_PER_PARTITION).next_power_of_two().min(PARTITIONS_MAX),
        };
        Arc::new(GroupBy {
            filter: Filter::new(source.table(), request.group.predicates.clone()),
            layout: KeyLayout::new(&request.group.keys),
            states: States::new(&request.group.aggregates),
            partitions,
            next_part: AtomicUsize::new(0),
            next_partition: AtomicUsize::new(0),
            progress: Mutex::default(),
            changed: Condvar::new(),
            metrics: Arc::default(),
            source,
            request,
        })
    }

    /// What was read so far.
    pub fn metrics(&self) -> &Arc<ScanMetrics> {
        &self.metrics
    }

    /// Parts of the table that are gathered one by one; more workers than that have nothing to do.
    pub fn parts(&self) -> usize {
        self.source.blocks().len() + self.source.runs().len()
    }

    /// A worker's share of the result. All workers together give every group once.
    pub fn worker(self: &Arc<Self>) -> GroupWorker {
        GroupWorker { group_by: Arc::clone(self), gathered: None, batches: VecDeque::new() }
    }

    /// Gathers blocks as long as there are some, and waits for the other workers. Nothing comes of it if one of those
    /// fails, which says why itself.
    fn gather(&self) -> Result<Option<Arc<Vec<Gathered>>>> {
        let mut turn = Turn::new(self);
        let gathered = self.gather_parts()?;
        turn.gathered = Some(gathered);
        drop(turn);
        let mut progress = self.progress.lock();
        loop {
            if progress.failed {
                return Ok(None);
            }
            if progress.gathering == 0 && self.next_part.load(Ordering::Acquire) >= self.parts() {
                let progress = &mut *progress;
                let all = progress.all.get_or_insert_with(|| Arc::new(std::mem::take(&mut progress.gathered)));
                return Ok(Some(Arc::clone(all)));
            }
            self.request.cancel.check()?;
            self.changed.wait_for(&mut progress, Duration::from_millis(10));
        }
    }

    fn gather_parts(&self) -> Result<Gathered> {
        let mut memory = self.request.broker.reservation(OWNER);
        let mut partitions: Vec<Partition> = (0..self.partitions).map(|_| self.layout.empty_partition()).collect();
        let (blocks, runs) = (self.source.blocks(), self.source.runs());
        let columns = self.columns_read();
        let table = &**self.source.table();
        let no_filter = Filter::default();
        loop {
            self.request.cancel.check()?;
            let part = self.next_part.fetch_add(1, Ordering::AcqRel);
            let (filter, functions) = (&self.filter, &self.request.functions);
            if let Some(block) = blocks.get(part) {
                let verdict = match block.live_rows() {
                    0 => Verdict::Nothing,
                    _ => verdict(block, table, filter)?,
                };
                add(&self.metrics.rows_read, block.live_rows());
                if verdict == Verdict::Nothing {
                    add(&self.metrics.blocks_skipped, 1);
                    continue;
                }
                add(&self.metrics.blocks_read, 1);
                // What is true of every row need not be asked of any.
                let filter = if verdict == Verdict::Everything { &no_filter } else { filter };
                if self.request.group.keys.is_empty() && filter.is_empty() {
                    self.add_column_by_column(block, &mut partitions)?;
                } else {
                    let rows = Rows::of_block(table, functions, block, filter, &columns)?;
                    self.add(&rows, &mut partitions, &mut memory)?;
                }
            } else if let Some(run) = runs.get(part - blocks.len()) {
                add(&self.metrics.rows_read, run.live_rows());
                self.add(&Rows::of_run(table, functions, run, filter)?, &mut partitions, &mut memory)?;
            } else {
                return Ok(Gathered { partitions, _memory: memory });
            }
        }
    }

    /// Adds all rows of a block to the one group there is: each aggregate for itself, so that it can be computed of the
    /// value list of its own column.
    fn add_column_by_column(&self, block: &Arc<rowmill_storage::Block>, partitions: &mut [Partition]) -> Result<()> {
        let mut words = vec![0; self.states.words()];
        for state in self.states.iter() {
            let Some((argument, _)) = state.aggregate().argument else {
                let weights = [block.live_rows() as u64];
                let rows = Grouped { rows: 1, groups: None, weights: Some(&weights) };
                state.add(&rows, None, self.states.words(), &mut words)?;
                continue;
            };
            let columns = self.columns_of([argument].into_iter());
            let no_filter = Filter::default();
            let rows = Rows::of_block(self.source.table(), &self.request.functions, block, &no_filter, &columns)?;
            let values = rows.values(argument)?;
            let grouped = Grouped { rows: rows.len(), groups: None, weights: rows.weights() };
            state.add(&grouped, Some(&values), self.states.words(), &mut words)?;
        }
        self.layout.scatter(&[], &[0], &words, partitions)
    }

    fn add(&self, rows: &Rows<'_>, partitions: &mut [Partition], memory: &mut Reservation) -> Result<()> {
        if rows.len() == 0 {
            return Ok(());
        }
        add(&self.metrics.rows_selected, rows.len());
        let group = &self.request.group;
        let keys: Vec<Values> = group.keys.iter().map(|key| rows.values(key.expr)).collect::<Result<_>>()?;
        let local = (!keys.is_empty()).then(|| local::group(&keys, rows.len())).transpose()?;
        let (groups, first_rows) = match &local {
            Some(local) => (Some(&*local.groups), &*local.first_rows),
            None => (None, &[0][..]),
        };
        let stride = self.states.words();
        // The keys are counted when they are there; a text is not known before.
        let expected = first_rows.len() * (stride + 2) * size_of::<u64>();
        memory.grow(expected as u64)?;
        let mut words = vec![0; first_rows.len() * stride];
        for state in self.states.iter() {
            let values = state.aggregate().argument.as_ref().map(|(expr, _)| rows.values(*expr)).transpose()?;
            let grouped = Grouped { rows: rows.len(), groups, weights: rows.weights() };
            state.add(&grouped, values.as_ref(), stride, &mut words)?;
        }
        self.layout.scatter(&keys, first_rows, &words, partitions)?;
        let bytes: u64 = partitions.iter().map(Partition::bytes).sum();
        match bytes.checked_sub(memory.bytes()) {
            Some(more) => memory.grow(more),
            None => {
                memory.recount(bytes);
                Ok(())
            }
        }
    }

    /// All columns that keys, aggregates and predicates read.
    fn columns_read(&self) -> Vec<usize> {
        let group = &self.request.group;
        let arguments = group.aggregates.iter().filter_map(|aggregate| aggregate.argument.as_ref());
        let exprs = group.keys.iter().map(|key| key.expr).chain(arguments.map(|(expr, _)| *expr));
        let mut columns = self.columns_of(exprs);
        group.predicates.iter().for_each(|predicate| predicate.collect_columns(&mut columns));
        columns
    }

    fn columns_of(&self, exprs: impl Iterator<Item = Expr>) -> Vec<usize> {
        let mut columns = Vec::new();
        for expr in exprs {
            let read = match &expr {
                Expr::Column(column) => std::slice::from_ref(column),
                Expr::Function(function) => self.request.functions[*function].columns(),
            };
            for column in read {
                if !columns.contains(column) {
                    columns.push(*column);
                }
            }
        }
        columns
    }

    /// The groups of the next partition; `None` when there are no more.
    fn merge_next(&self, gathered: &[Gathered]) -> Result<Option<RecordBatch>> {
        self.request.cancel.check()?;
        let number = self.next_partition.fetch_add(1, Ordering::Relaxed);
        if number >= self.partitions {
            return Ok(None);
        }
        let parts: Vec<&Partition> = gathered.iter().map(|gathered| &gathered.partitions[number]).collect();
        let groups: usize = parts.iter().map(|part| part.len()).sum();
        let mut memory = self.request.broker.reservation(OWNER);
        memory.grow(table_bytes(groups) + parts.iter().map(|part| part.bytes()).sum::<u64>())?;
        let always_one = self.request.group.keys.is_empty();
        let (columns, rows) = self.layout.merge(&parts, &self.states, always_one)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.request.schema), columns, &options)
            .map(Some)
            .map_err(|error| Error::internal(format!("the groups of table {}: {error}", self.source.table().name)))
    }
}

fn add(counter: &std::sync::atomic::AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

/// A worker's time among those that gather. It ends for the others whatever happens.
struct Turn<'a> {
    group_by: &'a GroupBy,
    gathered: Option<Gathered>,
}

impl<'a> Turn<'a> {
    fn new(group_by: &'a GroupBy) -> Turn<'a> {
        group_by.progress.lock().gathering += 1;
        Turn { group_by, gathered: None }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut progress = self.group_by.progress.lock();
        progress.gathering -= 1;
        match self.gathered.take() {
            Some(gathered) => progress.gathered.push(gathered),
            None => progress.failed = true,
        }
        self.group_by.changed.notify_all();
    }
}

/// Gathers, merges, and gives the groups of its partitions in batches.
#[derive(Debug)]
pub struct GroupWorker {
    group_by: Arc<GroupBy>,
    gathered: Option<Arc<Vec<Gathered>>>,
    batches: VecDeque<RecordBatch>,
}

impl fmt::Debug for Gathered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathered").finish_non_exhaustive()
    }
}

impl GroupWorker {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let gathered = match &self.gathered {
            Some(gathered) => Arc::clone(gathered),
            None => {
                let Some(gathered) = self.group_by.gather()? else { return Ok(None) };
                Arc::clone(self.gathered.insert(gathered))
            }
        };
        loop {
            if let Some(batch) = self.batches.pop_front() {
                return Ok(Some(batch));
            }
            let Some(groups) = self.group_by.merge_next(&gathered)? else { return Ok(None) };
            let batch_rows = self.group_by.request.batch_rows.max(1);
            self.batches.extend(
                (0..groups.num_rows())
                    .step_by(batch_rows)
                    .map(|start| groups.slice(start, batch_rows.min(groups.num_rows() - start))),
            );
        }
    }
}

impl Iterator for GroupWorker {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}
