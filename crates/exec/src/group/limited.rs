//! LIMIT without ORDER BY above a grouping: stops when enough groups are complete.
//!
//! ```text
//!   find    values of one key, until there are enough
//!   group   the rows with these values alone
//! ```
//!
//! All rows of a group have the same keys, so the groups with the found values are complete without reading any other
//! row. Each value has a row that passes the conditions, so there are enough groups. If too few values are found, all
//! rows are grouped after all.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use rowmill_base::Result;
use rowmill_plan::{Expr, Group, GroupKey, Predicate};
use rowmill_storage::TableSource;

use super::choice::group_all;
use super::frequent::these_values;
use super::rows::concat;
use super::{GroupBy, GroupRequest, GroupSource};
use crate::batch::{BatchSource, Batches};
use crate::phase::Phase;
use crate::share::share;

/// The least number of values of a key per group asked for, in one block. With fewer values, their rows would be so
/// large a share of all that finding the values first saves nothing: it costs one more pass over the key.
/// With 1, ClickBench's Q18 takes 3.1 ms instead of 1.8.
const VALUES_PER_GROUP_MIN: usize = 16;

/// A grouping that may stop at some of its groups. For example, below a LIMIT.
pub(super) struct LimitedGroups {
    table: Arc<dyn TableSource>,
    request: GroupRequest,
    /// The key whose values are found first.
    column: usize,
    enough: usize,
    /// Groups rows by that key until there are enough groups.
    values: Arc<GroupBy>,
    finding: Arc<Phase<Vec<RecordBatch>, Arc<dyn BatchSource>>>,
}

impl fmt::Debug for LimitedGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedGroups").field("request", &self.request).finish_non_exhaustive()
    }
}

impl LimitedGroups {
    /// Prepares the grouping that `request` asks for. Reads heads of chunks, but no rows. `None` unless `request` wants
    /// few groups and some key has many values.
    pub(super) fn new(table: &Arc<dyn TableSource>, request: &GroupRequest) -> Result<Option<Arc<LimitedGroups>>> {
        let Group { aggregates, always, predicates, .. } = &request.group;
        let Some(enough) = request.limit.filter(|limit| *limit > 0) else { return Ok(None) };
        // Without aggregates, a group is complete as soon as it is found.
        if aggregates.is_empty() || !always.is_empty() {
            return Ok(None);
        }
        let Some((key, column)) = key_of_most_values(&**table, request, enough)? else { return Ok(None) };
        // A found value should be one that a list of values can name.
        let not_null = Predicate::IsNull { column, negated: true };
        let predicates = predicates.iter().cloned().chain([not_null]).collect();
        let group = Group { keys: vec![key.clone()], aggregates: Vec::new(), predicates, always: Vec::new() };
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("", key.kind.clone(), true)]));
        let of_values =
            GroupRequest { group, functions: Vec::new(), schema, top: None, only_presence: false, ..request.clone() };
        let values = GroupBy::of_all(GroupSource::Table(Arc::clone(table)), of_values, None)?;
        Ok(values.recipe.enough.is_some().then(|| {
            let (table, request, values) = (Arc::clone(table), request.clone(), Arc::new(values));
            Arc::new(LimitedGroups { table, request, column, enough, values, finding: Arc::default() })
        }))
    }

    /// The grouping of the rows with the found values. `None` if another worker failed, which reports the error itself.
    fn found(&self) -> Result<Option<Arc<Arc<dyn BatchSource>>>> {
        let find = || GroupBy::worker(&self.values).collect::<Result<Vec<_>>>();
        self.finding.run(&self.request.cancel, find, |batches| {
            let columns: Vec<_> = batches.into_iter().flatten().map(|batch| Arc::clone(batch.column(0))).collect();
            let mut request = self.request.clone();
            if columns.iter().map(|values| values.len()).sum::<usize>() >= self.enough {
                request.group.predicates.push(these_values(self.column, &concat(&columns)?)?);
            }
            group_all(&self.table, request)
        })
    }
}

/// The key column with the most values, judged by one block. `None` if none has enough of them.
fn key_of_most_values<'r>(
    table: &dyn TableSource,
    request: &'r GroupRequest,
    enough: usize,
) -> Result<Option<(&'r GroupKey, usize)>> {
    let Some(block) = table.blocks().iter().find(|block| block.live_rows() > 0) else { return Ok(None) };
    let def = table.table();
    let mut most = (enough.saturating_mul(VALUES_PER_GROUP_MIN), None);
    for key in &request.group.keys {
        let Expr::Column(column) = key.expr else { continue };
        // Floats that are equal may differ in their bits.
        if !def.columns[column].kind.is_ordered() || key.kind.is_floating() {
            continue;
        }
        let values = block.chunk_head(def, column)?.and_then(|head| head.distinct()).unwrap_or_default();
        if values > most.0 {
            most = (values, Some((key, column)));
        }
    }
    Ok(most.1)
}

impl BatchSource for LimitedGroups {
    fn schema(&self) -> &SchemaRef {
        &self.request.schema
    }

    fn parallelism(&self) -> usize {
        self.values.parts().max(1)
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut groups: Option<Batches> = None;
        share(move || {
            if groups.is_none() {
                groups = self.found()?.map(|source| Arc::clone(&*source).worker());
            }
            groups.as_mut().and_then(Iterator::next).transpose()
        })
    }
}
