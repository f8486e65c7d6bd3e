//! Joins of two inputs by hash, in steps that any number of workers share.
//!
//! ```text
//! gather   the build side is read: its columns, and least and greatest values of its keys            gather.rs
//! prepare  each column is put into one array; keys become words, cut into partitions      prepare.rs, keys.rs
//! index    a worker takes a partition and makes its table; filters for the probe side are made       prepare.rs
//! probe    a worker takes a batch of the probe side, finds the rows of all its keys, and gives pairs   probe.rs
//! rest     of the build side, the rows that were met, or were not, where they are asked for             rest.rs
//! ```
//!
//! Whoever makes a plan chooses the smaller input as the build side: it is kept in memory, the other one flows through.
//! Rows of the probe side come out in the order of their batches, with those without a match behind the pairs of theirs
//! where a condition had to be evaluated.

mod columns;
mod emit;
mod gather;
mod index;
mod keys;
mod layout;
mod long_keys;
mod marks;
mod metrics;
mod packing;
mod prepare;
mod probe;
mod rest;
#[cfg(test)]
mod tests;
mod uncertain;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use arrow::datatypes::SchemaRef;
use rowmill_base::{Broker, Cancel, Result};
use rowmill_plan::JoinKind;

use self::gather::{BuildRows, Gathered};
use self::index::Hashing;
use self::layout::Layout;
pub use self::metrics::JoinMetrics;
use self::prepare::{Built, Indexed, Prepared, Scattered};
use self::worker::JoinWorker;
use crate::batch::{BatchSource, Batches};
use crate::function::VectorFunction;
use crate::key_filter::KeyFilter;
use crate::phase::Phase;

/// The name of the operator in errors.
const OWNER: &str = "JOIN";

/// What is to be joined, and how. Columns of pairs are those of the build side followed by those of the probe side.
#[derive(Clone, Debug)]
pub struct JoinRequest {
    /// The rows that are wanted.
    pub kind: JoinKind,
    /// The keys: columns of the build side with columns of the probe side, of the same Arrow type each. Without any,
    /// all pairs have equal keys.
    pub on: Vec<(usize, usize)>,
    /// Whether a NULL in a key equals another one (`IS NOT DISTINCT FROM`); otherwise it equals nothing.
    pub nulls_equal: bool,
    /// A further condition, which gives Booleans; NULL is not true. Its columns are positions among those of pairs. It
    /// is evaluated only for rows whose keys are equal, and under `null_aware` for those whose keys may be.
    pub residual: Option<Arc<dyn VectorFunction>>,
    /// The columns of the result as positions among those of pairs; of one side only if the kind has only those.
    pub output: Vec<usize>,
    /// The result: the types of `output`, then the mark if there is one.
    pub schema: SchemaRef,
    /// Rows of a batch at most.
    pub batch_rows: usize,
    /// Ends the work early; asked once per batch.
    pub cancel: Cancel,
    /// Grants the memory of the build side.
    pub broker: Broker,
    /// The keys are compared by `IN`: where a row has no match but may have one, with values for NULLs, a mark is NULL,
    /// and an anti join leaves the row out, which makes it `NOT IN`.
    pub null_aware: bool,
}

/// One join of two inputs, shared by its workers.
///
/// Build and index happen when the first batch is asked for. A share that is dropped before its end takes its rows of the
/// probe side along; rows of the build side that depend on all of those, such as the ones without a match, then do not
/// come from other shares either.
pub struct Join {
    request: JoinRequest,
    build: Arc<dyn BatchSource>,
    probe: Arc<dyn BatchSource>,
    layout: Layout,
    hashing: Hashing,
    gathering: Arc<Phase<BuildRows, Gathered>>,
    preparing: Arc<Phase<Scattered, Prepared>>,
    indexing: Arc<Phase<Indexed, Built>>,
    probing: Arc<Phase<(), ()>>,
    /// The next piece of the build side that is asked for rows of the rest.
    next_rest: AtomicUsize,
    metrics: Arc<JoinMetrics>,
}

impl fmt::Debug for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Join");
        debug.field("request", &self.request).field("build", &self.build).field("probe", &self.probe);
        debug.finish_non_exhaustive()
    }
}

impl Join {
    /// Prepares the join; reads no rows. An error if the request does not fit its inputs.
    pub fn new(build: Arc<dyn BatchSource>, probe: Arc<dyn BatchSource>, request: JoinRequest) -> Result<Arc<Join>> {
        Join::with_hashing(build, probe, request, Hashing::default())
    }

    fn with_hashing(
        build: Arc<dyn BatchSource>,
        probe: Arc<dyn BatchSource>,
        request: JoinRequest,
        hashing: Hashing,
    ) -> Result<Arc<Join>> {
        let layout = Layout::new(&request, build.schema(), probe.schema())?;
        Ok(Arc::new(Join {
            request,
            build,
            probe,
            layout,
            hashing,
            gathering: Arc::default(),
            preparing: Arc::default(),
            indexing: Arc::default(),
            probing: Arc::default(),
            next_rest: AtomicUsize::new(0),
            metrics: Arc::default(),
        }))
    }

    /// What was done so far.
    pub fn metrics(&self) -> &Arc<JoinMetrics> {
        &self.metrics
    }

    /// The inputs' columns that rows can be left out by if they are left out by a column of the result. Equal keys are
    /// left out by either.
    fn sources_of(&self, column: usize) -> Vec<(&Arc<dyn BatchSource>, usize)> {
        let kind = self.request.kind;
        let Some(position) = self.request.output.get(column) else { return Vec::new() };
        let builds = self.build.schema().fields().len();
        let is_build = *position < builds;
        let column = if is_build { *position } else { position - builds };
        // Rows of a side may only be left out if nobody asks of the other side's rows whether they have a match.
        let may_leave_out = match is_build {
            true => !kind.keeps_probe(),
            false => !kind.marks_build(),
        };
        if !may_leave_out {
            return Vec::new();
        }
        let mut sources = vec![if is_build { (&self.build, column) } else { (&self.probe, column) }];
        if kind == JoinKind::Inner {
            sources.extend(self.request.on.iter().filter_map(|(build, probe)| match is_build {
                true if *build == column => Some((&self.probe, *probe)),
                false if *probe == column => Some((&self.build, *build)),
                _ => None,
            }));
        }
        sources
    }
}

impl BatchSource for Join {
    fn schema(&self) -> &SchemaRef {
        &self.request.schema
    }

    fn parallelism(&self) -> usize {
        // Few rows have many pairs.
        let least = usize::from(self.request.on.is_empty());
        self.build.parallelism().max(self.probe.parallelism()).max(least)
    }

    fn worker(self: Arc<Self>) -> Batches {
        Box::new(JoinWorker::new(self))
    }

    fn accepts(&self, column: usize) -> bool {
        self.sources_of(column).into_iter().any(|(source, column)| source.accepts(column))
    }

    fn offer(&self, column: usize, filter: &Arc<KeyFilter>) {
        self.sources_of(column).into_iter().for_each(|(source, column)| source.offer(column, filter));
    }

    fn narrows(&self, column: usize) -> bool {
        self.sources_of(column).into_iter().any(|(source, column)| source.narrows(column))
    }
}
