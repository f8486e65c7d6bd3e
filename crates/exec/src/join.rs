//! Hash joins of two inputs, in steps that any number of workers share.
//!
//! ```text
//! gather   reads the build side: its columns, and the least and greatest values of its keys            gather.rs
//! prepare  puts each column into one array; keys become words, cut into partitions        prepare.rs, keys.rs
//! index    a worker takes a partition and makes its table; filters for the probe side are made       prepare.rs
//! probe    a worker takes a batch of the probe side, finds the rows of all its keys, and returns pairs   probe.rs
//!          and remembers the rows of texts that repeat                                              text_memo.rs
//!          of many rows of a key, it finds those within the bounds of the condition              list_bounds.rs
//!          without keys, it finds the rows within the bounds of the condition, if there are any   range_rows.rs
//! rest     returns rows of the build side with a match, or without one, if the join kind asks for them     rest.rs
//! ```
//!
//! If the build side does not fit into memory, both sides go to disk, and parts of them are joined in turn (spill.rs).
//!
//! The planner should choose the smaller input as the build side, because the build side is kept in memory while the
//! probe side streams through. As long as nothing goes to disk, rows of the probe side come out in the order of their
//! batches. If a condition had to be evaluated, the rows of a batch without a match come after the pairs of that batch.

mod columns;
mod emit;
mod exact_words;
mod gather;
mod index;
mod keys;
mod layout;
mod list_bounds;
mod long_keys;
mod marks;
mod metrics;
mod packing;
mod prepare;
mod probe;
mod range_rows;
mod rest;
mod spill;
#[cfg(test)]
mod tests;
mod uncertain;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Result, SpillableMemory};
use rowmill_plan::{JoinBound, JoinKind};
use rowmill_storage::spill::TempSpace;

pub(crate) use self::columns::{own_bytes, with_own_buffers, without_unused_texts};
use self::gather::{BuildRows, GatheredBuild};
use self::index::Hashing;
pub(crate) use self::index::KeyGroups;
use self::layout::JoinLayout;
pub(crate) use self::long_keys::LongKeys;
pub use self::metrics::JoinMetrics;
pub(crate) use self::packing::NO_KEY;
use self::prepare::{Built, Indexed, PreparedBuild, Scattered};
use self::spill::{JoinPart, SpilledSide, Stages};
use self::worker::JoinWorker;
use crate::batch::{BatchSource, Batches};
use crate::function::VectorFunction;
use crate::key_filter::KeyFilter;
use crate::ordered_join::{OrderedAggregates, OrderedRequest, PreparedAggregates};
use crate::phase::Phase;
use crate::spill_buckets::SpillSizes;

/// The name of the operator in errors.
pub(crate) const OWNER: &str = "JOIN";

/// Describes a join. The columns of a pair are the columns of the build side, followed by the columns of the probe
/// side.
#[derive(Clone, Debug)]
pub struct JoinRequest {
    /// The kind of join, which decides which rows it returns.
    pub kind: JoinKind,
    /// The keys: pairs of a build column and a probe column, each of the same Arrow type or two signed integers.
    /// Without keys, all pairs match.
    pub on: Vec<(usize, usize)>,
    /// Whether NULL equals NULL in a key (`IS NOT DISTINCT FROM`). Otherwise NULL equals nothing.
    pub nulls_equal: bool,
    /// A further condition. It must return Booleans, and NULL counts as not true. Its columns are positions in the
    /// columns of a pair. It is evaluated only for pairs with equal keys, and under `null_aware` also for pairs whose
    /// keys may be equal.
    pub residual: Option<Arc<dyn VectorFunction>>,
    /// Bounds that pairs meet because of `residual`.
    pub bounds: Vec<JoinBound>,
    /// The columns of the result, as positions in the columns of a pair. They must be columns of one side only if the
    /// kind returns only that side.
    pub output: Vec<usize>,
    /// The schema of the result: the types of `output`, then the mark if there is one.
    pub schema: SchemaRef,
    /// The most rows of a batch.
    pub batch_rows: usize,
    /// Ends the work early. Workers check it once per batch.
    pub cancel: Cancel,
    /// Grants the memory for the build side.
    pub broker: Broker,
    /// The place of temporary files.
    pub temp: TempSpace,
    /// Whether keys are compared as by `IN`. A row has a possible match if it would match with some values in place of
    /// the NULLs. Without a match but with a possible match, a mark is NULL, and an anti join leaves the row out (`NOT
    /// IN`).
    pub null_aware: bool,
    /// Makes the join an ordered one: see [`crate::ordered_join`].
    pub ordered: Option<Arc<OrderedRequest>>,
}

/// A join of two inputs, shared by its workers.
///
/// The join is built when the first batch is asked for. If a share is dropped before its end, its rows of the probe
/// side are lost. Rows of the build side that depend on all probe rows, such as the rows without a match, are then not
/// returned by any other share either.
pub struct HashJoin {
    request: JoinRequest,
    build: Arc<dyn BatchSource>,
    probe: Arc<dyn BatchSource>,
    layout: JoinLayout,
    hashing: Hashing,
    sizes: SpillSizes,
    gathering: Arc<Phase<BuildRows, GatheredBuild>>,
    preparing: Arc<Phase<Scattered, PreparedBuild>>,
    indexing: Arc<Phase<Indexed, Built>>,
    /// The step that prepares the aggregates of an ordered join.
    arranging: Arc<Phase<PreparedAggregates, OrderedAggregates>>,
    probing: Arc<Phase<(), ()>>,
    /// The step that replaces the later ones if the build side does not fit into memory.
    scattering: Arc<Phase<SpilledSide, Stages>>,
    is_spilling: AtomicBool,
    memory: Mutex<Option<Arc<SpillableMemory>>>,
    part: JoinPart,
    /// The next piece of the build side to search for the rest.
    next_rest: AtomicUsize,
    metrics: Arc<JoinMetrics>,
}

impl fmt::Debug for HashJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Join");
        debug.field("request", &self.request).field("build", &self.build).field("probe", &self.probe);
        debug.finish_non_exhaustive()
    }
}

impl HashJoin {
    /// Prepares the join. Reads no rows. Fails if the request does not fit the inputs.
    pub fn new(
        build: Arc<dyn BatchSource>,
        probe: Arc<dyn BatchSource>,
        request: JoinRequest,
    ) -> Result<Arc<HashJoin>> {
        HashJoin::of_part(build, probe, request, Default::default(), JoinPart::default())
    }

    /// A join that divides even few rows into many buckets if it spills. With `all_equal`, all hashes are equal.
    #[cfg(test)]
    pub(crate) fn with_small_sizes(
        build: Arc<dyn BatchSource>,
        probe: Arc<dyn BatchSource>,
        request: JoinRequest,
        all_equal: bool,
    ) -> Result<Arc<HashJoin>> {
        let sizes = (Hashing { all_equal }, SpillSizes::small());
        HashJoin::of_part(build, probe, request, sizes, JoinPart::default())
    }

    /// Prepares the join of a part of the rows of a larger join.
    fn of_part(
        build: Arc<dyn BatchSource>,
        probe: Arc<dyn BatchSource>,
        request: JoinRequest,
        (hashing, sizes): (Hashing, SpillSizes),
        part: JoinPart,
    ) -> Result<Arc<HashJoin>> {
        let layout = JoinLayout::new(&request, build.schema(), probe.schema())?;
        Ok(Arc::new(HashJoin {
            request,
            build,
            probe,
            layout,
            hashing,
            sizes,
            gathering: Arc::default(),
            preparing: Arc::default(),
            indexing: Arc::default(),
            arranging: Arc::default(),
            probing: Arc::default(),
            scattering: Arc::default(),
            is_spilling: AtomicBool::new(false),
            memory: Mutex::default(),
            part,
            next_rest: AtomicUsize::new(0),
            metrics: Arc::default(),
        }))
    }

    /// The counters of what the join has done so far.
    pub(crate) fn metrics(&self) -> &Arc<JoinMetrics> {
        &self.metrics
    }

    /// The input columns by which rows may be left out if rows of the result are left out by result column `column`.
    /// For an inner join with equal keys, these are the key columns of both sides.
    fn sources_of(&self, column: usize) -> Vec<(&Arc<dyn BatchSource>, usize)> {
        let kind = self.request.kind;
        let Some(position) = self.request.output.get(column) else { return Vec::new() };
        let builds = self.build.schema().fields().len();
        // Positions first count the build columns, then the probe columns.
        let is_build = *position < builds;
        let column = if is_build { *position } else { position - builds };
        // Rows of a side must not be left out if the join reports whether rows of the other side have a match.
        let may_leave_out = match is_build {
            true => !kind.keeps_probe(),
            false => !kind.marks_build(),
        };
        if !may_leave_out {
            return Vec::new();
        }
        // If some rows of a key are left out, another row of it may be the last one, for example.
        let is_key = self.request.on.iter().any(|(build, _)| *build == column);
        if self.request.ordered.is_some() && is_build && !is_key {
            return Vec::new();
        }
        let mut sources = vec![if is_build { (&self.build, column) } else { (&self.probe, column) }];
        // The keys of both sides are equal in every pair, so a filter on one key also holds for the other. A filter is
        // for values of one type, but integers of different widths can be keys.
        if kind == JoinKind::Inner {
            let (of_build, of_probe) = (self.build.schema(), self.probe.schema());
            let have_same_kind = |(build, probe): &&(usize, usize)| {
                of_build.field(*build).data_type() == of_probe.field(*probe).data_type()
            };
            let pairs = self.request.on.iter().filter(have_same_kind);
            sources.extend(pairs.filter_map(|(build, probe)| match is_build {
                true if *build == column => Some((&self.probe, *probe)),
                false if *probe == column => Some((&self.build, *build)),
                _ => None,
            }));
        }
        sources
    }
}

impl BatchSource for HashJoin {
    fn schema(&self) -> &SchemaRef {
        &self.request.schema
    }

    fn parallelism(&self) -> usize {
        // Without keys, even few rows may have many pairs.
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
