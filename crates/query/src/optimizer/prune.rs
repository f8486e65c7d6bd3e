//! Removes columns that no operator reads.
//!
//! One pass from the top knows which columns are read above an operator. A shared subplan must be pruned after all of
//! its readers. Volatile expressions must stay, because they are evaluated exactly once per row.

use rowmill_plan::function::Volatility;
use rowmill_plan::logical::{LogicalJoinKind, SetOperationKind};
use rowmill_plan::{ColumnId, Logical};

use super::anti_join::filter_to_anti_join;
use super::context::RewriteContext;
use super::unique::matches_at_most_once;
use super::walk::{add_named, add_read, each_operator, inputs_mut, take};
use crate::column_set::ColumnSet;

/// Removes the columns that are neither in `read` nor needed to compute those.
pub(crate) fn prune_columns(root: &mut Logical, read: &ColumnSet, context: &mut RewriteContext<'_>) {
    let mut shared = SharedReads::new(root, context);
    prune(root, read, &mut shared, context);
    // A subplan can be pruned when all of its readers are.
    while let Some((number, read)) = shared.next() {
        let mut plan = context.shared.take(number);
        prune(&mut plan, &read, &mut shared, context);
        context.shared.put(number, plan);
    }
}

/// The columns that the readers of shared subplans read.
struct SharedReads {
    plans: Vec<SharedRead>,
}

struct SharedRead {
    number: usize,
    /// Readers that still must be pruned.
    readers: usize,
    read: ColumnSet,
    is_done: bool,
}

impl SharedReads {
    fn new(root: &Logical, context: &RewriteContext<'_>) -> SharedReads {
        let plans = context.shared.numbers().into_iter();
        let plans = plans.map(|number| SharedRead { number, readers: 0, read: ColumnSet::default(), is_done: false });
        let mut reads = SharedReads { plans: plans.collect() };
        reads.count(root);
        for number in context.shared.numbers() {
            if let Some(plan) = context.shared.get(number) {
                reads.count(plan);
            }
        }
        reads
    }

    fn count(&mut self, plan: &Logical) {
        each_operator(plan, &mut |operator| {
            if let Logical::Shared { number, .. } = operator
                && let Some(shared) = self.plans.iter_mut().find(|shared| shared.number == *number)
            {
                // Every reader must report its columns before the subplan can be pruned.
                shared.readers += 1;
            }
        });
    }

    fn note(&mut self, number: usize, columns: &[ColumnId]) {
        if let Some(shared) = self.plans.iter_mut().find(|shared| shared.number == number) {
            shared.readers = shared.readers.saturating_sub(1);
            columns.iter().for_each(|id| {
                shared.read.insert(*id);
            });
        }
    }

    /// Takes note that a plan and its reads of shared subplans were removed.
    fn forget(&mut self, plan: &Logical) {
        each_operator(plan, &mut |operator| {
            if let Logical::Shared { number, .. } = operator {
                self.note(*number, &[]);
            }
        });
    }

    fn next(&mut self) -> Option<(usize, ColumnSet)> {
        let shared = self.plans.iter_mut().find(|shared| shared.readers == 0 && !shared.is_done)?;
        shared.is_done = true;
        Some((shared.number, std::mem::take(&mut shared.read)))
    }
}

fn prune(plan: &mut Logical, read: &ColumnSet, shared: &mut SharedReads, context: &RewriteContext<'_>) {
    // Only here we know which columns are read above a filter.
    filter_to_anti_join(plan, read, context);
    match plan {
        Logical::Map { exprs, input } => {
            exprs.retain(|(id, expr)| read.contains(*id) || expr.volatility() == Volatility::Volatile);
            // A map without expressions does nothing, so its input replaces it.
            if exprs.is_empty() {
                *plan = take(input);
                return prune(plan, read, shared, context);
            }
        }
        Logical::Window(window) => {
            window.calls.retain(|(id, _)| read.contains(*id));
            if window.calls.is_empty() {
                *plan = take(&mut window.input);
                return prune(plan, read, shared, context);
            }
        }
        Logical::Join(join) => {
            let is_unread = match join.kind {
                LogicalJoinKind::Mark(mark) => !read.contains(mark),
                LogicalJoinKind::Single => !super::walk::output(&join.right).intersects(read),
                LogicalJoinKind::Left => {
                    !super::walk::output(&join.right).intersects(read) && matches_at_most_once(join, false, context)
                }
                _ => false,
            };
            if is_unread {
                shared.forget(&join.right);
                *plan = take(&mut join.left);
                return prune(plan, read, shared, context);
            }
        }
        Logical::Group(group) => {
            group.aggregates.retain(|(id, _)| read.contains(*id));
            group.set = group.set.filter(|id| read.contains(*id));
        }
        Logical::Scan(scan) => {
            let mut own = ColumnSet::default();
            scan.conditions.iter().for_each(|condition| add_named(condition, &mut own));
            scan.columns.retain(|(id, _)| read.contains(*id) || own.contains(*id));
            scan.row_number = scan.row_number.filter(|id| read.contains(*id));
        }
        Logical::Source(source) => {
            let mut own = ColumnSet::default();
            source.conditions.iter().for_each(|condition| add_named(condition, &mut own));
            source.columns.retain(|(id, _)| read.contains(*id) || own.contains(*id));
        }
        Logical::Values { columns, rows } => {
            let keep: Vec<bool> = columns.iter().map(|id| read.contains(*id)).collect();
            let is_kept = |at: &mut usize| {
                *at += 1;
                keep[*at - 1]
            };
            if rows.iter().flatten().all(|expr| expr.volatility() != Volatility::Volatile) {
                let mut at = 0;
                columns.retain(|_| is_kept(&mut at));
                for row in rows {
                    let mut at = 0;
                    row.retain(|_| is_kept(&mut at));
                }
            }
        }
        Logical::Shared { number, input_columns, columns, .. } => {
            let mut at = 0;
            input_columns.retain(|_| {
                at += 1;
                read.contains(columns[at - 1])
            });
            columns.retain(|id| read.contains(*id));
            let (number, input_columns) = (*number, input_columns.clone());
            shared.note(number, &input_columns);
            return;
        }
        Logical::SetOperation(operation) if operation.kind == SetOperationKind::Union && operation.all => {
            let keep: Vec<bool> = operation.columns.iter().map(|id| read.contains(*id)).collect();
            operation.columns.retain(|id| read.contains(*id));
            for (_, columns) in &mut operation.inputs {
                let mut at = 0;
                columns.retain(|_| {
                    at += 1;
                    keep[at - 1]
                });
            }
        }
        Logical::OrderedJoin(join) => {
            join.aggregates.iter_mut().for_each(|calls| calls.retain(|(id, _)| read.contains(*id)));
        }
        Logical::Fill(fill) => fill.values.retain(|(id, _)| read.contains(*id)),
        Logical::Unnest { ordinality, .. } => *ordinality = ordinality.filter(|id| read.contains(*id)),
        _ => {}
    }
    // These operators give only the columns that they name, so their inputs may lose the others.
    let is_closed = match plan {
        Logical::Distinct { on, .. } => !*on,
        Logical::Group(_) | Logical::SetOperation(_) | Logical::Recursive { .. } => true,
        _ => false,
    };
    let mut below = if is_closed { ColumnSet::default() } else { read.clone() };
    add_read(plan, &mut below);
    inputs_mut(plan).into_iter().for_each(|input| prune(input, &below, shared, context));
}
