//! Turns the sources of a relation into nested lookups: in the cheapest order, and each source by its best key.

use std::borrow::Cow;

use arrow::datatypes::DataType;
use rowmill_base::SqlType;
use rowmill_plan::logical::{LogicalScan, LogicalSetOperation, LogicalSortKey};
use rowmill_plan::program::{Access, LookupKind, LookupSource, NestedLookup, ReadOutput, ReadPlan, RowOutput, Scalar};
use rowmill_plan::{ColumnId, CompareOp, ExprOp, Logical, ScalarExpr};

use super::ProgramBuilder;
use super::access::{KeyChoice, SEEK_ROWS, choices};
use super::key_condition::{KeyCondition, OwnColumns};
use super::late_rows::key_columns;
use super::output::page_rows;
use super::relation::{JoinedSources, RelationSource, RelationStep};
use super::scalar::Scope;
use super::spread::ValueSpread;
use super::stage::Stage;
use crate::estimate::cyclic_values;
use crate::optimizer::facts::{is_movable, is_true_of, split_and};
use crate::optimizer::pushdown::inferred;
use crate::optimizer::unique::gives_at_most_one_row;

/// Sources up to which we try all orders. Five sources have 120 orders, six have 720. With more sources, we always add
/// the one that costs least next.
const ORDERED_MAX: usize = 5;

/// The share of rows that we assume to meet a condition that no key answers.
const OTHER_SHARE: f64 = 0.3;

/// A table with at most this number of rows is read without a key, in about 50 µs at 50 ns for each row. The program
/// gives up if the table has become `GROWTH` times as large.
const SMALL_ROWS: u64 = 1_000;
const GROWTH: u64 = 4;

/// A table with at most this number of rows is read without a key if its rows are only values that other tables are
/// looked up by. The engine would have to read those tables too. The rows take 2.5 ms.
const PART_ROWS: u64 = 50_000;

/// Parts of an OR up to which we read each part by its own key.
pub(super) const WAYS_MAX: usize = 16;

/// The cost of comparing two rows in memory. The unit is a row that is read.
const COMPARED_COST: f64 = 0.1;

/// Rows that a search for a few matching rows may visit, in about 2.5 ms. With more, another way of reading should be
/// faster. It is half of the cost from which on the engine runs a statement (`output.rs`).
pub(super) const SEARCHED_ROWS: u64 = 50_000;

/// The requirements of a stage on its first lookup.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted<'a> {
    /// The order of the rows, over the columns of the sources.
    pub(super) order: &'a [LogicalSortKey],
    /// Whether a limit cuts the rows, so not all of them are read.
    pub(super) is_cut: bool,
    /// Number of rows that are given, plus the rows skipped before them, if no condition comes after the lookups.
    pub(super) cut: Option<&'a Scalar>,
    /// Whether the stage only counts the rows and reads none of their columns.
    pub(super) is_count: bool,
    /// Whether the lookup is the first one, so it reads its table only once.
    pub(super) may_read_all: bool,
    /// Whether the rows are only a part of what the statement reads.
    pub(super) is_part: bool,
    /// Whether only a plan whose rows come in the wanted order, or in a part of it, will do.
    pub(super) needs_order: bool,
}

/// The lookups that were added so far.
#[derive(Clone, Debug)]
pub(super) struct Lookups {
    pub(super) lookups: Vec<NestedLookup>,
    /// The columns that are known after these lookups.
    pub(super) scope: Scope,
    pending: Vec<Option<PendingCondition>>,
    /// Conditions that are true for all rows.
    held: Vec<ScalarExpr>,
    /// Estimated number of rows: of all lookups, and of the first one.
    pub(super) rows: f64,
    pub(super) first_rows: f64,
    pub(super) cost: f64,
    /// Whether the rows come in the order that the stage wants.
    pub(super) is_ordered: bool,
    /// The part of that order in which the rows come, if they do not come in all of it.
    pub(super) presorted: Presorted,
    /// Whether each lookup gives at most one row.
    pub(super) is_point: bool,
    pub(super) rows_max: Option<u64>,
    /// The lookup that gives the rows of the table that the statement changes.
    pub(super) target: Option<usize>,
}

/// A condition that no lookup tests yet.
#[derive(Clone, Debug)]
struct PendingCondition {
    expr: ScalarExpr,
    /// The source that the condition was written for. If absent, the condition must be tested after all sources, unless
    /// it cannot fail.
    source: Option<usize>,
}

impl Lookups {
    /// The positions of the conditions that a lookup must still test, after a key has answered those in `answered`.
    /// Leaves out conditions that follow from these and from the rows before. For example, after `user.id =
    /// order.user`, `order.user < 9` follows from `user.id < 9`.
    fn others(&self, conditions: &[ScalarExpr], answered: &[usize]) -> Vec<usize> {
        let by: Vec<ScalarExpr> = answered.iter().map(|at| conditions[*at].clone()).collect();
        let implied = inferred(&by, &self.held, None);
        let others = conditions.iter().enumerate();
        let others = others.filter(|(at, condition)| !answered.contains(at) && !implied.contains(condition));
        others.map(|(at, _)| at).collect()
    }
}

/// The share of rows that we assume to meet several conditions, given the shares of each of them. Only shares that are
/// known from statistics make the product less than that of three unknown ones.
fn share_of_all(shares: impl Iterator<Item = Option<f64>>) -> f64 {
    let (mut known, mut unknown) = (1.0, 0);
    for share in shares {
        match share {
            Some(share) => known *= share,
            None => unknown += 1,
        }
    }
    known * OTHER_SHARE.powi(unknown.min(3))
}

impl<'p> ProgramBuilder<'p> {
    /// Plans the lookups of a relation, and the condition that is tested after all of them. The lookups are numbered
    /// from `first_row` and can refer to the columns of `outer`.
    pub(super) fn lookups(
        &self,
        relation: &JoinedSources<'p>,
        outer: &Scope,
        first_row: usize,
        wanted: Wanted<'_>,
    ) -> Option<(Lookups, Option<Scalar>)> {
        let made: Vec<ColumnId> = relation.sources.iter().flat_map(RelationSource::columns).collect();
        let of_steps: Vec<ColumnId> = relation.steps.iter().flat_map(|step| step.columns()).collect();
        let is_known = |id: usize| made.contains(&ColumnId(id)) || of_steps.contains(&ColumnId(id)) || outer.has(id);
        let resolved = |expr: &ScalarExpr| self.definitions.resolve(expr, &is_known);
        let of_relation =
            relation.conditions.iter().map(|expr| PendingCondition { expr: resolved(expr), source: None });
        let of_scans = relation.sources.iter().enumerate().flat_map(|(at, source)| {
            let conditions = match source {
                RelationSource::Scan(scan) => scan.conditions.as_slice(),
                _ => &[],
            };
            conditions.iter().map(move |expr| (at, expr))
        });
        let of_scans = of_scans.map(|(at, expr)| PendingCondition { expr: resolved(expr), source: Some(at) });
        let start = Lookups {
            lookups: Vec::new(),
            scope: outer.clone(),
            pending: of_scans.chain(of_relation).map(Some).collect(),
            held: Vec::new(),
            rows: 1.0,
            first_rows: 1.0,
            cost: 0.0,
            is_ordered: true,
            presorted: Presorted::default(),
            is_point: true,
            rows_max: None,
            target: None,
        };
        let left: Vec<usize> = (0..relation.sources.len()).collect();
        let mut best = None;
        self.order(relation, start, &left, first_row, wanted, &mut best);
        let mut lookups = best?;
        for step in &relation.steps {
            lookups = self.with_step(lookups, step, first_row, &resolved)?;
        }
        let filter: Vec<Scalar> = lookups
            .pending
            .iter()
            .flatten()
            .map(|condition| lookups.scope.scalar(&condition.expr))
            .collect::<Option<_>>()?;
        Some((lookups, Scalar::all_of(filter)))
    }

    /// Adds the sources in `left` in the cheapest order. `best` holds the cheapest complete plan so far.
    fn order(
        &self,
        relation: &JoinedSources<'p>,
        before: Lookups,
        left: &[usize],
        first_row: usize,
        wanted: Wanted<'_>,
        best: &mut Option<Lookups>,
    ) {
        if left.is_empty() {
            *best = Some(before);
            return;
        }
        let more = left.iter().filter_map(|at| {
            let lookups = self.with_source(before.clone(), relation, *at, first_row, wanted)?;
            let has_order = lookups.is_ordered || lookups.presorted.keys > 0;
            (has_order || !wanted.needs_order).then_some((*at, lookups))
        });
        let mut more: Vec<(usize, Lookups)> = more.collect();
        // Trying the cheapest source first should give a good bound early.
        more.sort_by(|(_, left), (_, right)| left.cost.total_cmp(&right.cost));
        if relation.sources.len() > ORDERED_MAX {
            more.truncate(1);
        }
        for (at, lookups) in more {
            // Adding a source never makes a plan cheaper, so we can drop a partial plan that already costs more.
            if best.as_ref().is_none_or(|best| lookups.cost < best.cost) {
                let left: Vec<usize> = left.iter().copied().filter(|other| *other != at).collect();
                self.order(relation, lookups, &left, first_row, wanted, best);
            }
        }
    }

    /// Adds one source. Returns `None` if it cannot be read at this point.
    fn with_source(
        &self,
        mut lookups: Lookups,
        relation: &JoinedSources<'p>,
        at: usize,
        first_row: usize,
        wanted: Wanted<'_>,
    ) -> Option<Lookups> {
        let source = &relation.sources[at];
        let row = first_row + lookups.lookups.len();
        let columns = source.columns();
        let is_usable = |scope: &Scope, expr: &ScalarExpr| {
            !expr.any(&|part| part.as_column().is_some_and(|id| !scope.has(id) && !columns.contains(&ColumnId(id))))
        };
        let is_last = lookups.lookups.len() + 1 == relation.sources.len();
        let places: Vec<usize> = (0..lookups.pending.len())
            .filter(|place| {
                let condition = lookups.pending[*place].as_ref();
                condition.is_some_and(|condition| {
                    // A condition that can fail must see only the rows of its own source, or of all sources.
                    let is_due = condition.source == Some(at) || is_last || is_movable(&condition.expr);
                    is_due && is_usable(&lookups.scope, &condition.expr)
                })
            })
            .collect();
        let usable: Vec<ScalarExpr> =
            places.iter().flat_map(|place| &lookups.pending[*place]).map(|condition| condition.expr.clone()).collect();
        let mut shares = vec![None; usable.len()];
        let answered: Vec<usize>;
        let found: LookupSource;
        let (rows, cost);
        match source {
            RelationSource::Scan(scan) => {
                shares = self.known_shares(scan, &usable, &lookups.scope);
                // If all lookups before give one row each, this lookup still decides the order of the rows.
                let is_first = lookups.is_point;
                let wanted = Wanted { may_read_all: lookups.lookups.is_empty(), ..wanted };
                let choice = self.choice(scan, &usable, &lookups.scope, is_first.then_some(wanted));
                let is_alone = relation.sources.len() == 1 && usable.len() == lookups.pending.iter().flatten().count();
                let cut = wanted.cut.filter(|_| is_alone && relation.steps.is_empty());
                if is_alone
                    && wanted.is_count
                    && let Some(listed) = self.keys_of_any(scan, &usable, &lookups.scope, row, true)
                    && choice.as_ref().is_none_or(|choice| listed.cost < choice.cost)
                {
                    (lookups.is_ordered, lookups.is_point) = (wanted.order.is_empty(), false);
                    (rows, cost, answered) = (listed.rows, listed.cost, (0..usable.len()).collect());
                    found = LookupSource::Reads(listed.reads);
                    return self.with_found(lookups, (places, usable, shares), (found, answered), (rows, cost));
                }
                let wanted_parts = Wanted { cut, ..wanted };
                let is_cheaper = |listed: &ListedReads| choice.as_ref().is_none_or(|choice| listed.cost < choice.cost);
                let by_null = self.nulls_and_values(scan, &usable, &lookups.scope, row, wanted_parts);
                if let Some(listed) = by_null.filter(is_cheaper) {
                    self.add_in_memory(&columns, row, wanted, &mut lookups)?;
                    lookups.is_ordered = true;
                    (rows, cost, answered) = (listed.rows, listed.cost, (0..usable.len()).collect());
                    found = LookupSource::Reads(listed.reads);
                    return self.with_found(lookups, (places, usable, shares), (found, answered), (rows, cost));
                }
                let any_of = self.any_of(scan, &usable, &lookups.scope, row, wanted_parts);
                if let Some((listed, condition)) = any_of.filter(|(listed, _)| is_cheaper(listed)) {
                    self.add_in_memory(&columns, row, wanted, &mut lookups)?;
                    (rows, cost, answered) = (listed.rows, listed.cost, vec![condition]);
                    found = LookupSource::Reads(listed.reads);
                    return self.with_found(lookups, (places, usable, shares), (found, answered), (rows, cost));
                }
                if scan.row_number.is_some()
                    && relation.sources.len() == 1
                    && let Some(listed) = self.keys_of_any(scan, &usable, &lookups.scope, row, false)
                    && choice.as_ref().is_none_or(|choice| listed.cost < choice.cost)
                {
                    // The parts find the primary keys of the rows that change, and those find the rows.
                    let def = self.tables[scan.table].table();
                    let key = key_columns(def, None)?.into_iter().enumerate();
                    let equal = key.map(|(at, column)| Scalar::column(def.columns[column].kind.clone(), row, at));
                    found = LookupSource::Table(Access { equal: equal.collect(), ..Access::all(def.id) });
                    let keys = LookupSource::Reads(listed.reads);
                    let kind = LookupKind::Inner;
                    lookups.lookups.push(NestedLookup { kind, source: keys, condition: None, compared: None });
                    lookups.target = Some(row + 1 - first_row);
                    self.add_columns(scan, row + 1, &mut lookups.scope);
                    (lookups.is_ordered, lookups.is_point) = (wanted.order.is_empty(), false);
                    (rows, cost) = (listed.rows, listed.cost + listed.rows * SEEK_ROWS);
                    answered = (0..usable.len()).collect();
                    return self.with_found(lookups, (places, usable, shares), (found, answered), (rows, cost));
                }
                let choice = choice?;
                if is_first {
                    lookups.is_ordered = choice.is_ordered;
                    lookups.presorted = choice.presorted;
                    lookups.is_point = choice.key.is_point && choice.key.access.alternatives.len() <= 1;
                    let has_others = choice.key.answered.len() < usable.len() || relation.sources.len() > 1;
                    lookups.rows_max = choice.rows_max.filter(|_| has_others || choice.is_small);
                }
                if scan.row_number.is_some() {
                    lookups.target = Some(row - first_row);
                }
                self.add_columns(scan, row, &mut lookups.scope);
                (rows, cost) = (choice.key.rows, choice.key.cost);
                answered = choice.key.answered;
                found = LookupSource::Table(choice.key.access);
            }
            RelationSource::Plan(plan) => {
                let nested = self.nested(plan, &lookups.scope, row, &usable)?;
                nested.add_columns(row, &mut lookups.scope);
                (rows, cost, answered, found) = (nested.rows, nested.cost, nested.answered, nested.source);
                // A single row does not affect the order of the rows after it.
                lookups.is_ordered &= wanted.order.is_empty() || nested.is_single;
                lookups.is_point &= nested.is_single;
            }
            RelationSource::Keys(plan, keys) => {
                let stage = Stage::of_keys(plan, keys.clone(), &self.definitions)?;
                let ids: Vec<ColumnId> = keys.iter().map(|(id, _)| *id).collect();
                // The values are read once and must therefore not refer to columns of the lookups before.
                let read = self.read(&stage, &Scope::default(), row, &ids)?;
                self.add_in_memory(&columns, row, wanted, &mut lookups)?;
                (rows, cost, answered) = (read.rows, read.cost, Vec::new());
                found = LookupSource::Reads(vec![read.read]);
            }
            _ => {
                let of_rows = match source {
                    RelationSource::Union(of) => self.union(of, &lookups.scope, row)?.into(),
                    RelationSource::Windows(window) => self.windows(window, &lookups.scope, row)?,
                    RelationSource::Recursion(plan, _) => self.recursion(plan, &lookups.scope, row)?,
                    RelationSource::LastRound(number, columns) => self.last_round(*number, columns)?,
                    _ => self.values(source, &lookups.scope)?.into(),
                };
                self.add_in_memory(&columns, row, wanted, &mut lookups)?;
                (rows, cost, answered) = (of_rows.rows, of_rows.cost, Vec::new());
                found = of_rows.source;
            }
        }
        self.with_found(lookups, (places, usable, shares), (found, answered), (rows, cost))
    }

    /// Adds the columns of rows in memory. No key gives them an order.
    fn add_in_memory(&self, columns: &[ColumnId], row: usize, wanted: Wanted<'_>, lookups: &mut Lookups) -> Option<()> {
        for (at, id) in columns.iter().enumerate() {
            lookups.scope.add(id.0, super::scalar::sql_type(&self.definitions.kind(*id))?, row, at);
        }
        lookups.is_ordered &= wanted.order.is_empty();
        lookups.is_point = false;
        Some(())
    }

    /// Adds a source with its access. `usable` are the conditions that can be tested now, at `places` of the pending
    /// ones, and `shares` are the shares of rows that meet them, if they are known.
    fn with_found(
        &self,
        mut lookups: Lookups,
        (places, usable, shares): (Vec<usize>, Vec<ScalarExpr>, Vec<Option<f64>>),
        (found, answered): (LookupSource, Vec<usize>),
        (rows, cost): (f64, f64),
    ) -> Option<Lookups> {
        places.into_iter().for_each(|place| lookups.pending[place] = None);
        // Conditions that the key answers, or that follow from earlier ones, need no test.
        let others = lookups.others(&usable, &answered);
        let conditions = lookups.scope.scalars(others.iter().map(|at| &usable[*at]))?;
        lookups.held.extend(usable);
        lookups.cost += lookups.rows * cost;
        lookups.rows = (lookups.rows * rows * share_of_all(others.iter().map(|at| shares[*at]))).max(1.0);
        if lookups.lookups.is_empty() {
            lookups.first_rows = lookups.rows;
        }
        let condition = Scalar::all_of(conditions);
        lookups.lookups.push(NestedLookup { kind: LookupKind::Inner, source: found, condition, compared: None });
        Some(lookups)
    }

    /// Adds a step: a join of another kind that runs for each row of all sources.
    fn with_step(
        &self,
        mut lookups: Lookups,
        step: &RelationStep<'p>,
        first_row: usize,
        resolved: &dyn Fn(&ScalarExpr) -> ScalarExpr,
    ) -> Option<Lookups> {
        let row = first_row + lookups.lookups.len();
        let mut scope = lookups.scope.clone();
        let mut conditions: Vec<ScalarExpr> = step.conditions.iter().map(resolved).collect();
        let answered: Vec<usize>;
        let source: LookupSource;
        let cost;
        let width;
        match &step.source {
            RelationSource::Scan(scan) => {
                conditions.extend(scan.conditions.iter().map(resolved));
                let asks_for_any = conditions.is_empty() && step.kind != LookupKind::Left;
                let key = match asks_for_any {
                    true => self.whole(scan)?,
                    false => self.choice(scan, &conditions, &scope, None)?.key,
                };
                // With many outer rows, reading the right side once may be cheaper than a lookup for each row.
                let once = (!lookups.is_point && !names_rows_from(&key.access, first_row))
                    .then(|| self.read_once(scan, &conditions, &scope.before(first_row), row))
                    .flatten();
                if let Some(nested) = once {
                    nested.add_columns(row, &mut scope);
                    width = nested.columns.len();
                    cost = nested.cost_once(lookups.rows);
                    (answered, source) = (nested.answered, nested.source);
                } else {
                    self.add_columns(scan, row, &mut scope);
                    width = self.tables[scan.table].table().columns.len();
                    let others = lookups.others(&conditions, &key.answered);
                    cost = match step.kind {
                        // One match is enough.
                        LookupKind::Semi | LookupKind::Anti | LookupKind::Mark => {
                            key.cost_of_first(1.0, key.rows * share_of_all(others.iter().map(|_| None)))
                        }
                        _ => key.cost,
                    };
                    answered = key.answered;
                    source = LookupSource::Table(key.access);
                }
            }
            RelationSource::Plan(plan) => {
                let for_each = self.nested(plan, &scope, row, &conditions);
                let once = (!lookups.is_point).then(|| self.nested(plan, &scope.before(first_row), row, &[])).flatten();
                let once = once.map(|nested| (nested.cost_once(lookups.rows), nested));
                let for_each = for_each.map(|nested| (nested.cost, nested));
                let (of_row, nested) = match (for_each, once) {
                    (Some(for_each), Some(once)) if for_each.0 <= once.0 => for_each,
                    (for_each, once) => once.or(for_each)?,
                };
                nested.add_columns(row, &mut scope);
                width = nested.columns.len();
                (cost, answered, source) = (of_row, nested.answered, nested.source);
            }
            // The right side of such a join must be a table or a plan.
            _ => return None,
        }
        let others = lookups.others(&conditions, &answered);
        let condition = Scalar::all_of(scope.scalars(others.iter().map(|at| &conditions[*at]))?);
        let compared: Vec<ScalarExpr> = step.compared.iter().map(resolved).collect();
        let compared = Scalar::all_of(scope.scalars(&compared)?);
        lookups.lookups.push(NestedLookup { kind: step.kind, source, condition, compared });
        lookups.cost += lookups.rows * cost;
        if matches!(step.kind, LookupKind::Left | LookupKind::Single) {
            lookups.scope = scope;
        }
        if let Some(mark) = step.mark {
            lookups.scope.add(mark.0, SqlType::Boolean, row, width);
        }
        Some(lookups)
    }

    pub(super) fn add_columns(&self, scan: &LogicalScan, row: usize, scope: &mut Scope) {
        let def = self.tables[scan.table].table();
        for (id, column) in &scan.columns {
            scope.add(id.0, def.columns[*column].kind.clone(), row, *column);
        }
    }

    /// Reads all rows of a table. Returns `None` if the table has no key.
    fn whole(&self, scan: &LogicalScan) -> Option<KeyChoice> {
        let source = &*self.tables[scan.table];
        let own = OwnColumns { def: source.table(), columns: &scan.columns, known: &Scope::default() };
        let spread = ValueSpread::of(source);
        choices(&own, &[], &spread).pop()
    }

    /// The share of a table's rows that meet each condition, if statistics tell it.
    pub(super) fn known_shares(
        &self,
        scan: &LogicalScan,
        conditions: &[ScalarExpr],
        known: &Scope,
    ) -> Vec<Option<f64>> {
        let source = &*self.tables[scan.table];
        let own = OwnColumns { def: source.table(), columns: &scan.columns, known };
        let spread = ValueSpread::of(source);
        let share = |condition: &ScalarExpr| match (&condition.op, own.fact(condition)) {
            // Most rows meet a negated condition.
            (ExprOp::Not(_), _) => Some(1.0),
            (_, Some(KeyCondition::Same { column, value })) if spread.is_known() => {
                Some(spread.of_value(column, &value))
            }
            (_, Some(KeyCondition::Among { columns, lists })) if columns.len() == 1 && spread.is_known() => {
                Some(lists.iter().map(|list| spread.of_value(columns[0], &list[0])).sum::<f64>().min(1.0))
            }
            (ExprOp::Compare(CompareOp::Equal, pair), None) => cyclic_values(&pair[0]).map(|values| 1.0 / values),
            _ => None,
        };
        conditions.iter().map(share).collect()
    }

    /// Chooses how a table is read, given the columns that are known. `wanted` is set for the first lookup.
    pub(super) fn choice(
        &self,
        scan: &LogicalScan,
        conditions: &[ScalarExpr],
        known: &Scope,
        wanted: Option<Wanted<'_>>,
    ) -> Option<TableChoice> {
        let source = &*self.tables[scan.table];
        let own = OwnColumns { def: source.table(), columns: &scan.columns, known };
        let shares = self.known_shares(scan, conditions, known);
        let conditions: Vec<&ScalarExpr> = conditions.iter().collect();
        let spread = ValueSpread::of(source);
        let choices = choices(&own, &conditions, &spread);
        let best = choices.first()?;
        let Some(wanted) = wanted else { return best.narrows().then(|| TableChoice::new(best.clone())) };
        let may_read_all = wanted.may_read_all;
        let backward = |choice: &KeyChoice| choice.gives(wanted.order, &own);
        // A part of the order is of use only if reading stops at a limit.
        let in_part = |choice: &KeyChoice| match wanted.is_cut {
            true => choice.gives_part(wanted.order, &own, &spread),
            false => Presorted::default(),
        };
        let page = page_rows(wanted.cut);
        let other_share = |choice: &KeyChoice| {
            let others = (0..conditions.len()).filter(|at| !choice.answered.contains(at));
            share_of_all(others.map(|at| shares[at]))
        };
        let matches = choices.iter().map(|choice| choice.rows * other_share(choice)).fold(f64::INFINITY, f64::min);
        let cost = |choice: &KeyChoice| match wanted.is_cut && backward(choice).is_some() {
            true => choice.cost_of_first(page, matches),
            false => match in_part(choice) {
                Presorted { keys: 0, .. } => choice.cost,
                // All rows that share the values of the last wanted row are read, too.
                part => choice.cost_of_first(page + part.alike * other_share(choice), matches),
            },
        };
        let mut chosen = if best.is_point {
            best
        } else if wanted.needs_order {
            let in_order = choices.iter().find(|choice| backward(choice).is_some());
            // Of keys that give as much of the order, the first one is the best.
            let with_part = || choices.iter().rev().max_by_key(|choice| in_part(choice).keys);
            in_order.or_else(with_part).filter(|choice| backward(choice).is_some() || in_part(choice).keys > 0)?
        } else if wanted.is_cut {
            // A key in the wanted order stops at the limit. Any other key must answer a condition.
            let gives_order = |choice: &KeyChoice| backward(choice).is_some() || in_part(choice).keys > 0;
            let useful = choices.iter().filter(|choice| choice.narrows() || gives_order(choice));
            useful.min_by(|left, right| cost(left).total_cmp(&cost(right))).unwrap_or(best)
        } else {
            // The order saves a sort, so we prefer it among keys that narrow equally well.
            let is_alike =
                |choice: &&KeyChoice| choice.given() == best.given() && (choice.narrows() || !best.narrows());
            choices.iter().filter(is_alike).find(|choice| backward(choice).is_some()).unwrap_or(best)
        };
        let mut is_searched = false;
        let mut is_small = false;
        let small_rows = if wanted.is_part { PART_ROWS } else { SMALL_ROWS };
        // No condition helps. Programs should not read large tables, so only a few cases are allowed.
        if !chosen.narrows() {
            if !may_read_all {
                return None;
            } else if wanted.is_cut {
                let in_order = choices.iter().find(|choice| backward(choice).is_some());
                chosen = in_order.or_else(|| choices.iter().max_by_key(|choice| in_part(choice).keys))?;
                if in_order.is_none() && in_part(chosen).keys == 0 {
                    return None;
                }
                is_searched = true;
            } else if wanted.is_count && conditions.is_empty() {
                chosen = choices.iter().find(|choice| choice.access.index.is_some()).unwrap_or(chosen);
            } else if source.row_count() <= small_rows {
                is_small = true;
            } else {
                return None;
            }
        }
        let (backward, part, cost) = (backward(chosen), in_part(chosen), cost(chosen));
        let mut choice = TableChoice { cost, ..TableChoice::new(chosen.clone()) };
        choice.key.access.backward = backward.unwrap_or(part.backward);
        choice.is_ordered = backward.is_some();
        choice.presorted = if choice.is_ordered { Presorted::default() } else { part };
        choice.is_small = is_small;
        choice.rows_max = match (is_small, is_searched) {
            (true, _) => Some(small_rows * GROWTH),
            (_, true) => Some(SEARCHED_ROWS),
            _ => None,
        };
        Some(choice)
    }

    /// Plans a nested read of `plan`. It runs again for each row of the lookups before if `conditions` compare its
    /// columns with theirs.
    fn nested(&self, plan: &'p Logical, known: &Scope, row: usize, conditions: &[ScalarExpr]) -> Option<NestedPlan> {
        let mut stage = Stage::of(plan, &self.definitions)?;
        let mut answered = Vec::new();
        for (at, condition) in conditions.iter().enumerate() {
            if stage.push(condition, &|id| known.has(id), &self.definitions) {
                answered.push(at);
            }
        }
        let mut ids = RelationSource::Plan(plan).columns();
        if let Logical::Filter { input, .. } = plan
            && let Logical::Window(window) = &**input
            && !stage.is_partitioned()
        {
            // Only the filter reads the row number, so we do not give it.
            ids.retain(|id| window.calls.iter().all(|(call, _)| call != id));
        }
        let columns: Vec<(ColumnId, SqlType)> = ids
            .iter()
            .map(|id| Some((*id, super::scalar::sql_type(&self.definitions.kind(*id))?)))
            .collect::<Option<_>>()?;
        let read = self.read(&stage, known, row, &ids)?;
        let (rows, cost) = (read.rows, read.cost);
        let is_single = gives_at_most_one_row(plan);
        Some(NestedPlan { source: LookupSource::Reads(vec![read.read]), columns, answered, rows, cost, is_single })
    }

    /// Plans a nested read of a table that runs once. It tests only the conditions that refer to its own columns and to
    /// `known`.
    fn read_once(
        &self,
        scan: &LogicalScan,
        conditions: &[ScalarExpr],
        known: &Scope,
        row: usize,
    ) -> Option<NestedPlan> {
        let is_own = |id: usize| scan.columns.iter().any(|(own, _)| own.0 == id);
        let is_known =
            |expr: &ScalarExpr| !expr.any(&|part| part.as_column().is_some_and(|id| !is_own(id) && !known.has(id)));
        let answered: Vec<usize> = (0..conditions.len()).filter(|at| is_known(&conditions[*at])).collect();
        let own: Vec<ScalarExpr> = answered.iter().map(|at| conditions[*at].clone()).collect();
        let (read, rows, cost) = self.rows_of_scan(scan, &own, known, row, None)?;
        let kinds = read.output();
        let columns = scan.columns.iter().zip(kinds).map(|((id, _), kind)| (*id, kind)).collect();
        let source = LookupSource::Reads(vec![read]);
        Some(NestedPlan { source, columns, answered, rows, cost, is_single: false })
    }

    /// Plans a read of all columns of a table: a key answers some of `conditions`, and the read tests the others.
    /// Returns the read, its estimated rows, and its cost.
    fn rows_of_scan(
        &self,
        scan: &LogicalScan,
        conditions: &[ScalarExpr],
        known: &Scope,
        row: usize,
        wanted: Option<Wanted<'_>>,
    ) -> Option<(ReadPlan, f64, f64)> {
        let choice = self.choice(scan, conditions, known, wanted)?;
        // If the rows come in order, the read needs no more rows than the stage gives.
        let presorted = choice.presorted.keys;
        let limit = wanted.and_then(|wanted| wanted.cut).filter(|_| choice.is_ordered || presorted > 0).cloned();
        let order = wanted.map_or(&[][..], |wanted| wanted.order);
        let order = if limit.is_some() && presorted > 0 { order } else { &[] };
        let cost = if limit.is_some() { choice.cost } else { choice.key.cost };
        // A search among all rows must end if too few of them meet the conditions.
        let has_others = choice.key.answered.len() < conditions.len();
        let rows_max = choice.rows_max.filter(|_| has_others || choice.is_small);
        let (rows, mut scope) = (choice.key.rows, known.clone());
        let lookup = self.lookup_by(choice.key, scan, conditions, row, &mut scope)?;
        let def = self.tables[scan.table].table();
        let column = |(_, column): &(ColumnId, usize)| Scalar::column(def.columns[*column].kind.clone(), row, *column);
        let columns = scan.columns.iter().map(column).collect();
        let order = order.iter().map(|key| self.output_order(key, &scope)).collect::<Option<_>>()?;
        let output = ReadOutput::Rows(RowOutput { order, presorted, limit, ..RowOutput::all(columns) });
        let lookups = vec![lookup];
        Some((ReadPlan { lookups, filter: None, output, for_update: false, rows_max, few: None }, rows, cost))
    }

    /// The lookup of a table by `key`, which tests the conditions that the key does not answer. Adds the columns of the
    /// table to `scope`.
    pub(super) fn lookup_by(
        &self,
        key: KeyChoice,
        scan: &LogicalScan,
        conditions: &[ScalarExpr],
        row: usize,
        scope: &mut Scope,
    ) -> Option<NestedLookup> {
        self.add_columns(scan, row, scope);
        let others = conditions.iter().enumerate().filter(|(at, _)| !key.answered.contains(at)).map(|(_, expr)| expr);
        let condition = Scalar::all_of(scope.scalars(others)?);
        Some(NestedLookup::inner(key.access, condition))
    }

    /// Plans a read for a condition such as `a = 1 OR b = 2`, where each part has its own key. Returns the reads and
    /// the position of the condition that they answer.
    fn any_of(
        &self,
        scan: &LogicalScan,
        conditions: &[ScalarExpr],
        known: &Scope,
        row: usize,
        wanted: Wanted<'_>,
    ) -> Option<(ListedReads, usize)> {
        if scan.row_number.is_some() {
            return None;
        }
        conditions.iter().enumerate().find_map(|(at, condition)| {
            let parts = match &condition.op {
                ExprOp::Or(parts) => Cow::Borrowed(&parts[..]),
                // A key with a list gives its rows value by value. If the rows are wanted in another order and only the
                // first of them, each value is read by itself in that order.
                ExprOp::InList { value, list, negated: false } if wanted.cut.is_some() && !wanted.order.is_empty() => {
                    let part = |one: &ScalarExpr| ScalarExpr::compare((**value).clone(), CompareOp::Equal, one.clone());
                    list.iter().map(part).collect()
                }
                _ => return None,
            };
            // Each part becomes a read, and the parts are evaluated more than once.
            if parts.len() > WAYS_MAX || !is_movable(condition) {
                return None;
            }
            let mut listed = ListedReads::default();
            for (number, part) in parts.iter().enumerate() {
                // Each part excludes the rows that an earlier part has found, so no row is given twice.
                let before = parts[..number].iter().map(|part| is_true_of(part.clone()).negated());
                let others = conditions.iter().enumerate().filter(|(other, _)| *other != at);
                let own: Vec<ScalarExpr> = split_and(vec![part.clone()])
                    .into_iter()
                    .chain(others.map(|(_, other)| other.clone()))
                    .chain(before)
                    .collect();
                let wanted = Wanted { may_read_all: false, ..wanted };
                let (read, rows, cost) = self.rows_of_scan(scan, &own, known, row, Some(wanted))?;
                let is_cut = matches!(&read.output, ReadOutput::Rows(output) if output.limit.is_some());
                if matches!(condition.op, ExprOp::InList { .. }) && !is_cut {
                    return None;
                }
                listed.add(read, rows, cost);
            }
            Some((listed, at))
        })
    }

    /// Plans two reads for a page whose order begins with a column that may be NULL: one of the rows with a value, and
    /// one of those without, in the order in which the page has them. A key may have the NULLs at the other end.
    fn nulls_and_values(
        &self,
        scan: &LogicalScan,
        conditions: &[ScalarExpr],
        known: &Scope,
        row: usize,
        wanted: Wanted<'_>,
    ) -> Option<ListedReads> {
        let first = wanted.order.first().filter(|_| wanted.cut.is_some() && scan.row_number.is_none())?;
        let (_, column) = scan.columns.iter().find(|(id, _)| first.expr.as_column() == Some(id.0))?;
        if !self.tables[scan.table].table().columns[*column].nullable {
            return None;
        }
        let mut listed = ListedReads::default();
        for negated in [!first.nulls_first, first.nulls_first] {
            let value = Box::new(first.expr.clone());
            let part = ScalarExpr::new(DataType::Boolean, ExprOp::IsNull { value, negated });
            let own: Vec<ScalarExpr> = std::iter::once(part).chain(conditions.iter().cloned()).collect();
            let (read, rows, cost) = self.rows_of_scan(scan, &own, known, row, Some(wanted))?;
            if !matches!(&read.output, ReadOutput::Rows(output) if output.limit.is_some()) {
                return None;
            }
            listed.add(read, rows, cost);
        }
        Some(listed)
    }

    /// Plans reads of all inputs of a `UNION ALL`.
    fn union(&self, of: &'p LogicalSetOperation, known: &Scope, row: usize) -> Option<ListedReads> {
        let mut listed = ListedReads::default();
        for (plan, columns) in &of.inputs {
            let read = self.read(&Stage::of(plan, &self.definitions)?, known, row, columns)?;
            listed.add(read.read, read.rows, read.cost);
        }
        let kinds = |read: &ReadPlan| read.output().iter().map(SqlType::arrow).collect::<Vec<_>>();
        let columns: Vec<_> = of.columns.iter().map(|id| self.definitions.kind(*id)).collect();
        listed.reads.iter().all(|read| kinds(read) == columns).then_some(listed)
    }

    /// Plans reads of rows that the statement contains.
    fn values(&self, source: &RelationSource<'p>, known: &Scope) -> Option<ListedReads> {
        let RelationSource::Values(columns, rows) = source else { return None };
        let kinds: Vec<_> = columns.iter().map(|id| self.definitions.kind(*id)).collect();
        let reads = rows.iter().map(|row| {
            let scalars = known.scalars(row)?;
            let is_same = scalars.iter().zip(&kinds).all(|(scalar, kind)| scalar.kind.arrow() == *kind);
            is_same.then(|| ReadPlan::of_values(scalars))
        });
        let reads: Vec<ReadPlan> = reads.collect::<Option<_>>()?;
        let rows = reads.len() as f64;
        (!reads.is_empty()).then_some(ListedReads { reads, rows, cost: rows })
    }
}

/// Several reads whose rows are given one read after another.
#[derive(Default)]
pub(super) struct ListedReads {
    pub(super) reads: Vec<ReadPlan>,
    pub(super) rows: f64,
    pub(super) cost: f64,
}

impl ListedReads {
    fn add(&mut self, read: ReadPlan, rows: f64, cost: f64) {
        self.rows += rows;
        self.cost += cost;
        self.reads.push(read);
    }
}

/// The rows of a lookup whose source is not a table.
pub(super) struct RowsInMemory {
    pub(super) source: LookupSource,
    pub(super) rows: f64,
    pub(super) cost: f64,
}

impl From<ListedReads> for RowsInMemory {
    fn from(ListedReads { reads, rows, cost }: ListedReads) -> RowsInMemory {
        RowsInMemory { source: LookupSource::Reads(reads), rows, cost }
    }
}

/// The chosen access to a table.
pub(super) struct TableChoice {
    pub(super) key: KeyChoice,
    /// The cost of reading the rows that the stage needs.
    cost: f64,
    is_ordered: bool,
    presorted: Presorted,
    is_small: bool,
    rows_max: Option<u64>,
}

/// The part of a wanted order in which rows come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Presorted {
    /// The number of its leading keys.
    pub(super) keys: usize,
    /// Whether the key of the table is read backward.
    backward: bool,
    /// The estimated number of rows that have the same values of these keys.
    pub(super) alike: f64,
}

/// The plan of a nested read.
struct NestedPlan {
    source: LookupSource,
    columns: Vec<(ColumnId, SqlType)>,
    answered: Vec<usize>,
    rows: f64,
    cost: f64,
    /// Whether it gives at most one row, because it groups all rows.
    is_single: bool,
}

impl NestedPlan {
    fn add_columns(&self, row: usize, scope: &mut Scope) {
        let columns = self.columns.iter().enumerate();
        columns.for_each(|(at, (id, kind))| scope.add(id.0, kind.clone(), row, at));
    }

    /// The cost per row of the lookups before, if the nested read runs once and its rows are compared with all of them.
    fn cost_once(&self, rows: f64) -> f64 {
        self.cost / rows + self.rows * COMPARED_COST
    }
}

/// Whether an access refers to columns of lookups from `row` on.
fn names_rows_from(access: &Access, row: usize) -> bool {
    let mut names = false;
    access.scalars().for_each(|scalar| scalar.each_column(&mut |column| names |= column.row >= row));
    names
}

impl TableChoice {
    fn new(key: KeyChoice) -> TableChoice {
        TableChoice {
            cost: key.cost,
            key,
            is_ordered: false,
            presorted: Presorted::default(),
            is_small: false,
            rows_max: None,
        }
    }
}

impl RelationStep<'_> {
    /// The columns that the step makes.
    fn columns(&self) -> Vec<ColumnId> {
        self.source.columns().into_iter().chain(self.mark).collect()
    }
}

impl KeyChoice {
    /// Whether the key gives the rows in this order. If so, returns whether the key must be read backward.
    pub(super) fn gives(&self, order: &[LogicalSortKey], own: &OwnColumns<'_>) -> Option<bool> {
        if order.is_empty() {
            return Some(false);
        }
        let (given, _, backward) = self.leading(order, own);
        (given == order.len()).then_some(backward.unwrap_or(false))
    }

    /// The leading keys of `order` in whose order the key gives the rows: their number, the columns of the key that
    /// order rows by them, and whether the key must be read backward. The direction is absent if it does not matter.
    fn leading(&self, order: &[LogicalSortKey], own: &OwnColumns<'_>) -> (usize, usize, Option<bool>) {
        let (mut backward, mut columns) = (None, 0);
        let has_lists = !self.access.alternatives.is_empty();
        for (given, key) in order.iter().enumerate() {
            let ExprOp::Column(id) = key.expr.op else { return (given, columns, backward) };
            if own.known.has(id) {
                // All rows that are read together have the same value, so the column does not affect the order.
                continue;
            }
            let place = own.columns.iter().find(|(own, _)| own.0 == id);
            let Some((_, position)) = place else { return (given, columns, backward) };
            let is_one_row = self.is_point && !has_lists;
            if is_one_row || self.fixed.contains(position) {
                continue;
            }
            let Some((column, descending)) = self.ordered.get(columns) else { return (given, columns, backward) };
            let is_backward = *descending != key.descending;
            // A key sorts NULL after all values, and before them in a descending column.
            let is_limited = columns == 0 && self.leaves_out_nulls();
            let nulls_fit = !own.def.columns[*position].nullable || is_limited || key.nulls_first == key.descending;
            if *column != *position || backward.unwrap_or(is_backward) != is_backward || !nulls_fit {
                return (given, columns, backward);
            }
            (backward, columns) = (Some(is_backward), columns + 1);
        }
        (order.len(), columns, backward)
    }

    /// The part of `order` in which the key gives the rows, if it does not give all of it.
    fn gives_part(&self, order: &[LogicalSortKey], own: &OwnColumns<'_>, spread: &ValueSpread<'_>) -> Presorted {
        let (keys, columns, backward) = self.leading(order, own);
        let Some(backward) = backward.filter(|_| keys < order.len()) else { return Presorted::default() };
        let shares = self.ordered[..columns].iter().map(|(column, _)| spread.of_any_value(*column));
        Presorted { keys, backward, alike: (self.rows * shares.product::<f64>()).max(1.0) }
    }

    /// Whether no row has NULL in the first column that orders the rows.
    fn leaves_out_nulls(&self) -> bool {
        let Access { alternatives, from, to, prefix, not_null, .. } = &self.access;
        !alternatives.is_empty() || from.is_some() || to.is_some() || prefix.is_some() || *not_null
    }
}
