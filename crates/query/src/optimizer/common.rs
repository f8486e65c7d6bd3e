//! Computes equal subplans only once.
//!
//! Two subplans are equal if they are the same tree of operators, apart from the ids of the columns that they make.
//! Such twins come from views that are used twice, from scalar subqueries that are written twice, and from unnesting.
//! The first twin becomes a shared subplan, and all twins become its readers.
//!
//! We share only subplans whose rows cost more to compute than to keep: groupings, DISTINCT, windows, limits, set
//! operations, and a whole tree of joins that has no join above it. A part of such a tree must stay where it is,
//! because the order of its joins is not chosen yet. Conditions must have been pushed down before, because twins with
//! different filters read fewer rows when each of them is computed on its own.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

use rowmill_base::Result;
use rowmill_plan::function::Volatility;
use rowmill_plan::logical::LogicalSetOperation;
use rowmill_plan::{ColumnId, Logical};

use super::context::RewriteContext;
use super::walk::{each_operator, exprs, free, inputs, inputs_mut, output, own_columns, rename, renumber};

/// A subplan that is worth sharing.
struct Candidate {
    /// The shared subplan that contains it; absent for the query itself.
    plan: Option<usize>,
    /// The path to it from there: positions among the inputs.
    path: Vec<usize>,
    /// A hash that equal subplans share.
    hash: u64,
    operators: usize,
}

/// Shares the equal subplans of a query, the largest ones first.
pub(crate) fn share_equal_plans(root: &mut Logical, context: &mut RewriteContext<'_>) -> Result<()> {
    loop {
        (context.check)()?;
        let mut candidates = Vec::new();
        gather(root, None, &mut Vec::new(), false, &mut candidates);
        for number in context.shared.numbers() {
            if let Some(plan) = context.shared.get(number) {
                gather(plan, Some(number), &mut Vec::new(), false, &mut candidates);
            }
        }
        // Comparing hashes first is cheap, and nearly all queries have no pair with equal hashes.
        candidates.sort_by_key(|candidate| (std::cmp::Reverse(candidate.operators), candidate.hash));
        let equal = candidates.chunk_by(|one, other| one.hash == other.hash);
        let Some(twins) = equal.filter(|same| same.len() > 1).find_map(|same| twins(same, root, context)) else {
            return Ok(());
        };
        // Sharing changes the paths of other candidates, so we collect them again.
        share(twins, root, context);
    }
}

/// Adds the candidates of a plan. Returns its number of operators and its hash.
fn gather(
    plan: &Logical,
    within: Option<usize>,
    path: &mut Vec<usize>,
    is_below_join: bool,
    candidates: &mut Vec<Candidate>,
) -> (usize, u64) {
    let is_join = matches!(plan, Logical::Join(_));
    let is_same_tree = matches!(plan, Logical::Filter { .. } | Logical::Map { .. });
    let mut hasher = DefaultHasher::new();
    hash_operator(plan, &mut hasher);
    let mut operators = 1;
    for (place, input) in inputs(plan).into_iter().enumerate() {
        path.push(place);
        let below = is_join || (is_same_tree && is_below_join);
        let (count, hash) = gather(input, within, path, below, candidates);
        path.pop();
        operators += count;
        hash.hash(&mut hasher);
    }
    let hash = hasher.finish();
    let is_wanted = match plan {
        Logical::Group(_) | Logical::Window(_) | Logical::Distinct { .. } | Logical::Limit { .. } => true,
        Logical::SetOperation(LogicalSetOperation { all, .. }) => !all,
        Logical::Join(_) => !is_below_join && is_filtered(plan),
        _ => false,
    };
    // The root of a shared subplan is already shared.
    if is_wanted && !(path.is_empty() && within.is_some()) {
        candidates.push(Candidate { plan: within, path: path.clone(), hash, operators });
    }
    (operators, hash)
}

/// Whether a scan in a tree of joins has conditions, so the joins should leave few rows.
fn is_filtered(plan: &Logical) -> bool {
    let mut found = false;
    each_operator(plan, &mut |operator| {
        found |= matches!(operator, Logical::Scan(scan) if !scan.conditions.is_empty())
    });
    found
}

fn hash_operator(plan: &Logical, hasher: &mut DefaultHasher) {
    discriminant(plan).hash(hasher);
    exprs(plan).len().hash(hasher);
    match plan {
        Logical::Scan(scan) => {
            scan.table.hash(hasher);
            scan.columns.len().hash(hasher);
        }
        Logical::Source(source) => source.source.hash(hasher),
        Logical::Join(join) => discriminant(&join.kind).hash(hasher),
        Logical::Group(group) => {
            group.keys.len().hash(hasher);
            group.aggregates.iter().for_each(|(_, call)| call.function.name.hash(hasher));
        }
        Logical::Shared { number, .. } => number.hash(hasher),
        _ => {}
    }
}

/// A subplan and its twins. Each twin maps its columns to those of the first.
struct Twins<'c> {
    first: &'c Candidate,
    others: Vec<(&'c Candidate, HashMap<ColumnId, ColumnId>)>,
}

fn twins<'c>(same: &'c [Candidate], root: &Logical, context: &RewriteContext<'_>) -> Option<Twins<'c>> {
    for (place, first) in same.iter().enumerate() {
        let plan = at(first, root, context);
        if !may_be_shared(plan) {
            continue;
        }
        let others = same[place + 1..].iter().filter_map(|other| {
            let columns = equal_columns(plan, at(other, root, context), context)?;
            Some((other, columns))
        });
        let others: Vec<_> = others.collect();
        if !others.is_empty() {
            return Some(Twins { first, others });
        }
    }
    None
}

fn may_be_shared(plan: &Logical) -> bool {
    let mut is_constant = true;
    each_operator(plan, &mut |operator| {
        is_constant &= !matches!(operator, Logical::RecursiveRows { .. } | Logical::Recursive { .. });
        is_constant &= exprs(operator).into_iter().all(|expr| expr.volatility() < Volatility::Volatile);
        is_constant &= !matches!(operator, Logical::Scan(scan) if scan.row_number.is_some());
    });
    is_constant && free(plan).is_empty()
}

fn at<'p>(candidate: &Candidate, root: &'p Logical, context: &'p RewriteContext<'_>) -> &'p Logical {
    let mut plan = match candidate.plan {
        None => root,
        Some(number) => context.shared.get(number).expect("a candidate is in a known plan"),
    };
    for place in &candidate.path {
        plan = inputs(plan)[*place];
    }
    plan
}

/// For each column that `other` makes, the column of `plan`, if both plans are equal.
fn equal_columns(plan: &Logical, other: &Logical, context: &RewriteContext<'_>) -> Option<HashMap<ColumnId, ColumnId>> {
    let mut by = HashMap::new();
    pair_columns(plan, other, &mut by)?;
    let mut renamed = other.clone();
    rename(&mut renamed, context.columns, &by);
    are_equal(plan, &renamed).then_some(by)
}

/// Pairs the columns that equal operators make, in order.
fn pair_columns(one: &Logical, other: &Logical, by: &mut HashMap<ColumnId, ColumnId>) -> Option<()> {
    let (own, others) = (own_columns(one), own_columns(other));
    let (below, others_below) = (inputs(one), inputs(other));
    let is_alike =
        discriminant(one) == discriminant(other) && own.len() == others.len() && below.len() == others_below.len();
    if !is_alike {
        return None;
    }
    by.extend(others.into_iter().zip(own));
    below.into_iter().zip(others_below).try_for_each(|(one, other)| pair_columns(one, other, by))
}

/// Whether two plans are identical, including their columns.
fn are_equal(one: &Logical, other: &Logical) -> bool {
    let is_same = match (one, other) {
        (Logical::Scan(one), Logical::Scan(other)) => {
            one.table == other.table
                && one.columns == other.columns
                && one.conditions == other.conditions
                && one.row_number == other.row_number
        }
        (Logical::Source(one), Logical::Source(other)) => {
            one.source == other.source && one.columns == other.columns && one.conditions == other.conditions
        }
        (Logical::Values { columns, rows }, Logical::Values { columns: others, rows: other_rows }) => {
            columns == others && rows == other_rows
        }
        (Logical::Filter { conditions, .. }, Logical::Filter { conditions: others, .. }) => conditions == others,
        (Logical::Map { exprs, .. }, Logical::Map { exprs: others, .. }) => exprs == others,
        (Logical::Join(one), Logical::Join(other)) => {
            one.kind == other.kind && one.conditions == other.conditions && one.compared == other.compared
        }
        (Logical::Group(one), Logical::Group(other)) => {
            one.keys == other.keys
                && one.sets == other.sets
                && one.set == other.set
                && one.aggregates == other.aggregates
        }
        (Logical::Window(one), Logical::Window(other)) => {
            one.partition == other.partition
                && one.order == other.order
                && one.calls == other.calls
                && one.top == other.top
        }
        (Logical::Sort { keys, .. }, Logical::Sort { keys: others, .. }) => keys == others,
        (Logical::Limit { skip, rows, .. }, Logical::Limit { skip: other_skip, rows: other_rows, .. }) => {
            skip == other_skip && rows == other_rows
        }
        (Logical::Distinct { columns, on, .. }, Logical::Distinct { columns: others, on: other_on, .. }) => {
            columns == others && on == other_on
        }
        (Logical::SetOperation(one), Logical::SetOperation(other)) => {
            let columns = |operation: &LogicalSetOperation| {
                operation.inputs.iter().map(|(_, columns)| columns.clone()).collect::<Vec<_>>()
            };
            one.kind == other.kind
                && one.all == other.all
                && one.columns == other.columns
                && columns(one) == columns(other)
        }
        (Logical::SingleRow { by, .. }, Logical::SingleRow { by: others, .. }) => by == others,
        (
            Logical::Shared { number, input_columns, columns, .. },
            Logical::Shared { number: other_number, input_columns: other_inputs, columns: others, .. },
        ) => number == other_number && input_columns == other_inputs && columns == others,
        (
            Logical::Unnest { lists, ordinality, outer, .. },
            Logical::Unnest { lists: other_lists, ordinality: other_ordinality, outer: other_outer, .. },
        ) => lists == other_lists && ordinality == other_ordinality && outer == other_outer,
        _ => false,
    };
    is_same && inputs(one).into_iter().zip(inputs(other)).all(|(one, other)| are_equal(one, other))
}

/// Turns twins into readers of one shared subplan.
fn share(twins: Twins<'_>, root: &mut Logical, context: &mut RewriteContext<'_>) {
    // Take the first twin out; its place gets a reader at the end.
    let mut plan = replace(twins.first, root, context, Logical::no_rows(Vec::new()));
    let own: Vec<ColumnId> = output(&plan).iter().collect();
    // The readers keep the column ids that the operators above them use, so the shared plan needs new ones.
    let numbers = renumber(&mut plan, context.columns);
    let input_columns: Vec<ColumnId> = own.iter().map(|id| numbers.get(id).copied().unwrap_or(*id)).collect();
    let number = context.shared.add(plan);
    let reader = |columns: Vec<ColumnId>| {
        let input = std::sync::Arc::new(Logical::no_rows(Vec::new()));
        Logical::Shared { number, input, input_columns: input_columns.clone(), columns }
    };
    for (other, columns) in &twins.others {
        // A reader must give the columns under the ids of the twin that it replaces.
        let back: HashMap<ColumnId, ColumnId> = columns.iter().map(|(theirs, ours)| (*ours, *theirs)).collect();
        let columns = own.iter().map(|id| back[id]).collect();
        replace(other, root, context, reader(columns));
    }
    replace(twins.first, root, context, reader(own));
}

/// Replaces a candidate by another plan and returns the candidate.
fn replace(candidate: &Candidate, root: &mut Logical, context: &mut RewriteContext<'_>, by: Logical) -> Logical {
    let put = |mut plan: &mut Logical, by: Logical| {
        for place in &candidate.path {
            plan = inputs_mut(plan).swap_remove(*place);
        }
        std::mem::replace(plan, by)
    };
    match candidate.plan {
        None => put(root, by),
        Some(number) => {
            let mut plan = context.shared.take(number);
            let taken = put(&mut plan, by);
            context.shared.put(number, plan);
            taken
        }
    }
}
