//! The stages of a join that was spilled: joins of buckets or of pieces of buckets, one after the other.
//!
//! All workers go through the stages in one order and share the join of each. A worker that finds nothing left in a
//! stage goes on to the next one at once, except between the pieces of a bucket: a piece must know what the pieces
//! before it found.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use rowmill_base::{Error, ErrorKind, Result};

use super::super::index::ROWS_MAX;
use super::super::{HashJoin, JoinKind, OWNER};
use super::match_notes::{MatchNotes, PieceNotes};
use super::side_writer::SpilledSide;
use super::{JoinPart, WholeJoin, index_bytes};
use crate::batch::Batches;
use crate::numbers;
use crate::spill_buckets::{BucketRows, SpilledBatch, SpilledRows, SpilledRowsForm, row_count, spilled_schema};

/// All stages of a join.
#[derive(Debug)]
pub(in super::super) struct Stages {
    build_schema: SchemaRef,
    probe_schema: SchemaRef,
    stages: Vec<Mutex<StageState>>,
    /// Whether no worker needs to begin a stage.
    is_over: AtomicBool,
    /// Whether a worker went away within a stage, so that its rows of the probe side are lost.
    is_incomplete: AtomicBool,
}

#[derive(Debug)]
enum StageState {
    Planned(PlannedStage),
    Running(Arc<HashJoin>),
    Over,
}

/// A stage that has not begun.
#[derive(Debug)]
struct PlannedStage {
    build: Vec<SpilledBatch>,
    probe: Vec<SpilledBatch>,
    part: JoinPart,
}

/// The size of build rows that are to be joined in one stage.
#[derive(Clone, Copy, Debug, Default)]
struct StageSize {
    rows: u64,
    bytes: u64,
}

impl StageSize {
    fn of(batches: &[SpilledBatch]) -> StageSize {
        StageSize { rows: row_count(batches), bytes: batches.iter().map(|batch| batch.bytes).sum() }
    }

    fn plus(self, other: StageSize) -> StageSize {
        StageSize { rows: self.rows + other.rows, bytes: self.bytes + other.bytes }
    }
}

/// Plans the stages of a join.
struct StagePlanner<'a> {
    join: &'a HashJoin,
    bytes_max: u64,
    /// The number of key columns that may be kept as long keys.
    long_columns: usize,
    /// The part of the stages.
    part: JoinPart,
    stages: Vec<PlannedStage>,
}

impl HashJoin {
    /// Plans the stages that join the buckets of both sides.
    pub(super) fn plan_stages(&self, build: &SpilledSide, probe: &SpilledSide) -> Result<Stages> {
        // A bucket has not all rows of the whole join, so only the first division knows the facts.
        let whole = self.part.whole.unwrap_or(WholeJoin {
            build_has_null: build.rows.has_null,
            probe_has_rows: probe.rows.rows > 0,
            probe_has_null: probe.rows.has_null,
        });
        let are_numbers = self.layout.key_kinds.iter().all(|kind| numbers::width_of(kind).is_some());
        let is_packed = are_numbers && !self.compares_uncertain_keys();
        let mut planner = StagePlanner {
            join: self,
            bytes_max: self.request.broker.step_share_bytes().min(self.sizes.stage_bytes_max),
            long_columns: if is_packed { 0 } else { self.layout.key_kinds.len() },
            part: JoinPart {
                depth: self.part.depth + 1,
                stays_in_memory: true,
                whole: Some(whole),
                notes: self.part.notes.clone(),
            },
            stages: Vec::new(),
        };
        planner.plan(&build.rows, &probe.rows)?;
        Ok(Stages {
            build_schema: spilled_schema(self.build.schema(), &self.layout.gathered),
            probe_schema: spilled_schema(self.probe.schema(), &self.layout.probe_used),
            stages: planner.stages.into_iter().map(|stage| Mutex::new(StageState::Planned(stage))).collect(),
            is_over: AtomicBool::new(false),
            is_incomplete: AtomicBool::new(false),
        })
    }
}

impl StagePlanner<'_> {
    fn fits(&self, size: StageSize) -> bool {
        let index = match self.join.layout.key_kinds.is_empty() {
            true => size.bytes / 2,
            false => index_bytes(size.rows, size.bytes, true, self.long_columns),
        };
        let all = size.bytes + index + self.join.ordered_bytes(size.rows, size.bytes);
        all <= self.bytes_max && size.rows <= ROWS_MAX as u64
    }

    fn plan(&mut self, build: &BucketRows, probe: &BucketRows) -> Result<()> {
        let kind = self.join.request.kind;
        let (mut size, mut of_build, mut of_probe) = (StageSize::default(), Vec::new(), Vec::new());
        for (bucket, probe) in build.buckets.iter().zip(&probe.buckets) {
            let needs_match = |is_empty: bool, keeps: bool| is_empty && !keeps;
            if needs_match(bucket.is_empty(), kind.keeps_probe()) || needs_match(probe.is_empty(), kind.marks_build()) {
                continue;
            }
            let of_bucket = StageSize::of(bucket);
            if !self.fits(of_bucket) {
                self.plan_large(bucket, probe, of_bucket, build.rows)?;
                continue;
            }
            if !self.fits(size.plus(of_bucket)) {
                self.push(std::mem::take(&mut of_build), std::mem::take(&mut of_probe));
                size = StageSize::default();
            }
            size = size.plus(of_bucket);
            of_build.extend_from_slice(bucket);
            of_probe.extend_from_slice(probe);
        }
        self.push(of_build, of_probe);
        Ok(())
    }

    /// Adds a stage, unless it has no rows.
    fn push(&mut self, build: Vec<SpilledBatch>, probe: Vec<SpilledBatch>) {
        if !build.is_empty() || !probe.is_empty() {
            self.stages.push(PlannedStage { build, probe, part: self.part.clone() });
        }
    }

    /// Adds stages for a bucket that does not fit. `rows` is the number of rows of all buckets.
    fn plan_large(&mut self, build: &[SpilledBatch], probe: &[SpilledBatch], size: StageSize, rows: u64) -> Result<()> {
        if self.join.sizes.can_be_divided(size.rows, rows, self.part.depth) {
            self.push(build.to_vec(), probe.to_vec());
            self.stages.last_mut().expect("a stage was added").part.stays_in_memory = false;
            return Ok(());
        }
        if self.join.request.ordered.is_some() {
            return self.plan_undivided(build, probe, size);
        }
        let pieces = self.pieces(build);
        let kind = self.join.request.kind;
        let asks = kind.keeps_probe() || kind == JoinKind::ProbeSemi;
        let notes = (asks && pieces.len() > 1).then(|| {
            let memory = self.join.broker().reservation(OWNER);
            MatchNotes::new(row_count(probe), memory).map(Arc::new)
        });
        let notes = notes.transpose()?;
        let count = pieces.len();
        for (number, piece) in pieces.into_iter().enumerate() {
            let notes = notes.clone().map(|notes| PieceNotes { notes, is_last: number + 1 == count });
            let part = JoinPart { notes, ..self.part.clone() };
            self.stages.push(PlannedStage { build: piece, probe: probe.to_vec(), part });
        }
        Ok(())
    }

    /// Adds a stage for a bucket of an ordered join that cannot be divided: its rows have one key, or nearly all of
    /// them. They may take all memory that there is.
    fn plan_undivided(&mut self, build: &[SpilledBatch], probe: &[SpilledBatch], size: StageSize) -> Result<()> {
        let (limit, needed) = (self.join.request.broker.limit_bytes(), size.bytes);
        if needed > limit || size.rows > ROWS_MAX as u64 {
            let rows = size.rows;
            let message = format!(
                "{OWNER} has {rows} rows with one key that take {needed} bytes, but a key of an ordered join can have \
                 at most {ROWS_MAX} rows, and they must fit the memory limit of {limit} bytes"
            );
            return Err(Error::new(ErrorKind::MemoryLimit, message).hint("raise it with SET memory_limit = '...'"));
        }
        self.push(build.to_vec(), probe.to_vec());
        Ok(())
    }

    fn pieces(&self, batches: &[SpilledBatch]) -> Vec<Vec<SpilledBatch>> {
        let mut pieces: Vec<Vec<SpilledBatch>> = Vec::new();
        let mut size = StageSize::default();
        for batch in batches {
            size = size.plus(StageSize::of(std::slice::from_ref(batch)));
            match pieces.last_mut().filter(|_| self.fits(size)) {
                Some(piece) => piece.push(batch.clone()),
                None => {
                    size = StageSize::of(std::slice::from_ref(batch));
                    pieces.push(vec![batch.clone()]);
                }
            }
        }
        pieces
    }
}

impl Stages {
    /// Tells all workers to begin no further stage.
    pub(in super::super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Begins a stage, or joins in if it has begun. `None` if it is over.
    fn enter(&self, stage: usize, join: &HashJoin) -> Result<Option<Arc<HashJoin>>> {
        let mut state = self.stages[stage].lock();
        if let StageState::Running(running) = &*state {
            return Ok(Some(Arc::clone(running)));
        }
        let StageState::Planned(PlannedStage { build, probe, part }) = std::mem::replace(&mut *state, StageState::Over)
        else {
            return Ok(None);
        };
        // Without the lost rows, it is not known which rows have no match.
        if part.notes.is_some() && self.is_incomplete.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let form = if part.notes.is_some() { SpilledRowsForm::Numbered } else { SpilledRowsForm::Passing };
        let build = SpilledRows::new(OWNER, &self.build_schema, build, SpilledRowsForm::Kept);
        let probe = SpilledRows::new(OWNER, &self.probe_schema, probe, form);
        let stage = HashJoin::of_part(build, probe, join.request.clone(), (join.hashing, join.sizes), part)?;
        *state = StageState::Running(Arc::clone(&stage));
        Ok(Some(stage))
    }

    fn leave(&self, stage: usize) {
        *self.stages[stage].lock() = StageState::Over;
    }
}

/// A worker's share of all stages.
pub(in super::super) struct StageShare {
    stages: Arc<Stages>,
    next: usize,
    running: Option<(Arc<HashJoin>, Batches)>,
}

impl StageShare {
    pub(in super::super) fn new(stages: Arc<Stages>) -> StageShare {
        StageShare { stages, next: 0, running: None }
    }

    /// The next batch of the result. `None` if no stage is left or another worker failed.
    pub(in super::super) fn next_batch(&mut self, join: &HashJoin) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((stage, share)) = &mut self.running {
                if let Some(batch) = share.next() {
                    return batch.map(Some);
                }
                let of_stage = stage.metrics.build_bytes.load(Ordering::Relaxed);
                join.metrics.build_bytes.fetch_max(of_stage, Ordering::Relaxed);
                self.running = None;
                self.stages.leave(self.next);
                self.next += 1;
            }
            join.request.cancel.check()?;
            if self.next == self.stages.stages.len() || self.stages.is_over.load(Ordering::Relaxed) {
                return Ok(None);
            }
            match self.stages.enter(self.next, join)? {
                Some(stage) => self.running = Some((Arc::clone(&stage), crate::batch::BatchSource::worker(stage))),
                None => self.next += 1,
            }
        }
    }
}

impl Drop for StageShare {
    fn drop(&mut self) {
        // The flag must be set before the share is dropped, because that wakes other workers.
        if self.running.is_some() {
            self.stages.is_incomplete.store(true, Ordering::Relaxed);
        }
    }
}
