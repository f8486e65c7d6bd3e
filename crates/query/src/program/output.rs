//! Turns a stage into a read: its lookups, and the output that is made of their rows.

use rowmill_base::SqlType;
use rowmill_plan::logical::{AggregateCall, LogicalSortKey};
use rowmill_plan::program::{
    ArithmeticOp, GroupOutput, LookupKind, LookupSource, NestedLookup, OutputOrder, ReadOutput, ReadPlan, RowAggregate,
    RowFunction, RowOutput, Scalar, ScalarOp, ScalarValue,
};
use rowmill_plan::{AggregateParameter, AggregateRole, ColumnId, CompareOp, ExprOp, ScalarExpr};

use super::lookups::{Lookups, SEARCHED_ROWS, Wanted};
use super::relation::{JoinedSources, RelationSource};
use super::scalar::Scope;
use super::stage::{Grouping, Stage};
use super::{ProgramBuilder, READS_MAX};
use crate::optimizer::facts::equality;

/// The cost from which on a statement should run in the engine, which has several threads. The unit is a row that is
/// read in order, about 50 ns, so this is 5 ms.
const ENGINE_COST: f64 = 100_000.0;

/// Aggregates at most that are each computed by a read of their own.
const ENDS_MAX: usize = 8;

/// The number of groups per row that we assume.
const GROUP_SHARE: f64 = 0.1;

/// A read and its estimated cost.
pub(super) struct StageRead {
    pub(super) read: ReadPlan,
    pub(super) rows: f64,
    pub(super) cost: f64,
    /// The rows and the cost without the limit.
    all: (f64, f64),
}

impl StageRead {
    /// A read without a limit.
    pub(super) fn of_all(read: ReadPlan, rows: f64, cost: f64) -> StageRead {
        StageRead { read, rows, cost, all: (rows, cost) }
    }

    /// The cost if there are `matches` rows without the limit. A read that stops at its limit visits the fewer rows the
    /// more of them match.
    fn cost_among(&self, matches: f64) -> f64 {
        let share = (self.rows / matches.max(1.0)).min(1.0);
        self.cost.max(self.all.1 * share)
    }
}

impl<'p> ProgramBuilder<'p> {
    /// The read of a stage that gives the columns `ids`. Its lookups are numbered from `first_row` and can refer to the
    /// columns of `outer`.
    pub(super) fn read(
        &self,
        stage: &Stage<'p>,
        outer: &Scope,
        first_row: usize,
        ids: &[ColumnId],
    ) -> Option<StageRead> {
        // Alternatives multiply with nesting, so planning should give up early.
        self.reads.set(self.reads.get() + 1);
        if self.reads.get() > READS_MAX {
            return None;
        }
        if stage.relation.has_outer_row() {
            return self.read(&stage.without_outer_rows(&self.definitions)?, outer, first_row, ids);
        }
        // No condition selects a partition, so the rows are numbered instead.
        if stage.is_partitioned() {
            return self.read(&stage.by_number()?, outer, first_row, ids);
        }
        // We plan the semi joins both as tests and as sources, and take the cheaper plan.
        let plain = self.read_in_order(stage, outer, first_row, ids);
        let add_column = |of: &ScalarExpr| self.definitions.add_column(of);
        let turned = stage
            .with_semi_joins_as_sources(&add_column)
            .and_then(|stage| self.read_in_order(&stage, outer, first_row, ids));
        match (plain, turned) {
            // Only the values of the right side tell how many rows match.
            (Some(plain), Some(turned)) => {
                if let Some(read) = self.with_few_values(stage, &plain.read, &turned.read) {
                    return Some(StageRead { read, cost: plain.cost.min(turned.cost), ..plain });
                }
                let is_cheaper = turned.cost < plain.cost_among(turned.all.0);
                Some(if is_cheaper { turned } else { plain })
            }
            (plain, turned) => plain.or(turned),
        }
    }

    fn read_in_order(&self, stage: &Stage<'p>, outer: &Scope, first_row: usize, ids: &[ColumnId]) -> Option<StageRead> {
        let Some(grouping) = &stage.grouping else { return self.read_rows(stage, outer, first_row, ids) };
        let plain = self.read_groups(stage, grouping, outer, first_row, ids);
        let by_key = self.read_distinct(stage, outer, first_row, ids);
        let by_ends = self.read_ends(stage, grouping, outer, first_row, ids);
        [by_key, by_ends].into_iter().flatten().fold(plain, |best, other| {
            let is_cheaper = other.cost < best.as_ref().map_or(ENGINE_COST, |best| best.cost);
            if is_cheaper { Some(other) } else { best }
        })
    }

    /// Groups all rows.
    fn read_groups(
        &self,
        stage: &Stage<'p>,
        grouping: &Grouping<'p>,
        outer: &Scope,
        first_row: usize,
        ids: &[ColumnId],
    ) -> Option<StageRead> {
        let mut relation = stage.relation.clone();
        let known = relation.known(outer);
        // MIN and MAX over all rows can stop at the first value if a key gives the order.
        let has_one_group = self.has_one_group(&relation, grouping, outer);
        let extreme = extreme_order(grouping).filter(|_| has_one_group && !relation.sources.is_empty());
        let mut order: Vec<LogicalSortKey> = extreme.into_iter().map(|key| self.resolved_key(&key, &known)).collect();
        if !grouping.keys.is_empty() {
            // The group must be found even if it has only NULLs, so they come last.
            order.iter_mut().for_each(|key| key.nulls_first = false);
        } else if let [key] = &order[..] {
            // A minimum or maximum ignores NULLs, so the first row must not be one.
            let of = Box::new(key.expr.clone());
            relation.conditions.push(ScalarExpr::new(
                arrow::datatypes::DataType::Boolean,
                ExprOp::IsNull { value: of, negated: true },
            ));
        }
        let is_count = grouping.counts_rows() && relation.sources.len() == 1 && relation.steps.is_empty();
        let unordered = Wanted { is_count, is_part: stage.is_part, ..Wanted::default() };
        let extreme = Wanted { order: &order, is_cut: !order.is_empty(), ..unordered };
        let (lookups, filter) = match self.lookups(&relation, outer, first_row, extreme) {
            Some((lookups, filter)) if order.is_empty() || lookups.is_ordered => (lookups, filter),
            _ => {
                // No key gives the order: aggregate all rows, with the original conditions.
                let relation = if order.is_empty() { &relation } else { &stage.relation };
                let mut found = self.lookups(relation, outer, first_row, unordered)?;
                found.0.is_ordered = false;
                found
            }
        };
        let ends_at_value = !order.is_empty() && lookups.is_ordered;
        let groups = self.group_output(stage, grouping, &lookups.scope, ids, ends_at_value)?;
        let rows = if groups.keys.is_empty() { 1.0 } else { (lookups.rows * GROUP_SHARE).max(1.0) };
        // Rows that a key answers alone are counted by pages.
        let is_counted =
            is_count && filter.is_none() && lookups.lookups.iter().all(|lookup| lookup.condition.is_none());
        let cost = match ends_at_value || is_counted {
            true => lookups.cost.min(SOUGHT_COST),
            false => lookups.cost,
        };
        let few = ends_at_value.then(|| self.few_matches(stage, grouping, outer, first_row, ids, &lookups)).flatten();
        let rows_max = if few.is_some() { Some(SEARCHED_ROWS) } else { lookups.rows_max };
        let (few, all) = (few.map(Box::new), (rows, lookups.cost));
        let (lookups, output) = (lookups.lookups, ReadOutput::Groups(groups));
        let read = ReadPlan { lookups, filter, output, for_update: false, rows_max, few };
        Some(StageRead { read, rows, cost, all })
    }

    /// Whether all rows of a relation are in one group, because the values of all keys are known before the rows are
    /// read.
    fn has_one_group(&self, relation: &JoinedSources<'p>, grouping: &Grouping<'p>, outer: &Scope) -> bool {
        let known = relation.known(outer);
        let is_given = |expr: &ScalarExpr| !expr.any(&|part| part.as_column().is_some_and(|id| !outer.has(id)));
        let conditions = relation.conditions.iter().map(|condition| self.definitions.resolve(condition, &known));
        let conditions: Vec<ScalarExpr> = conditions.collect();
        let has_given_value = |key: &ScalarExpr| {
            conditions
                .iter()
                .filter_map(equality)
                .any(|(left, right, _)| left == key && is_given(right) || right == key && is_given(left))
        };
        grouping.keys.iter().all(|(_, key)| {
            let key = self.definitions.resolve(key, &known);
            is_given(&key) || has_given_value(&key)
        })
    }

    /// The groups of a stage over rows whose columns are in `scope`.
    pub(super) fn group_output(
        &self,
        stage: &Stage<'p>,
        grouping: &Grouping<'p>,
        scope: &Scope,
        ids: &[ColumnId],
        ends_at_value: bool,
    ) -> Option<GroupOutput> {
        let resolved = |expr: &ScalarExpr| self.definitions.resolve(expr, &|id| scope.has(id));
        let keys: Vec<Scalar> =
            grouping.keys.iter().map(|(_, key)| scope.scalar(&resolved(key))).collect::<Option<_>>()?;
        // Programs find groups by their key bytes, which only ordered types have.
        if keys.iter().any(|key| !key.kind.is_ordered()) {
            return None;
        }
        let aggregates = grouping.aggregates.iter().map(|(_, call)| row_aggregate(call, scope, &resolved));
        let aggregates: Vec<RowAggregate> = aggregates.collect::<Option<_>>()?;
        let mut of_groups = Scope::default();
        for (at, ((id, _), key)) in grouping.keys.iter().zip(&keys).enumerate() {
            of_groups.add(id.0, key.kind.clone(), 0, at);
        }
        for (at, ((id, _), aggregate)) in grouping.aggregates.iter().zip(&aggregates).enumerate() {
            of_groups.add(id.0, aggregate.kind()?, 0, keys.len() + at);
        }
        let filter = self.all_of(&stage.having, &of_groups)?;
        let (rows, _) = self.rows(stage, &of_groups, ids, false)?;
        Some(GroupOutput { keys, aggregates, ends_at_value, filter, rows })
    }

    /// Minima, maxima and counts of all rows, each by a read of its own that needs few rows.
    fn read_ends(
        &self,
        stage: &Stage<'p>,
        grouping: &Grouping<'p>,
        outer: &Scope,
        first_row: usize,
        ids: &[ColumnId],
    ) -> Option<StageRead> {
        let aggregates = grouping.aggregates;
        if !grouping.keys.is_empty() || !(2..=ENDS_MAX).contains(&aggregates.len()) {
            return None;
        }
        let (mut scope, mut lookups, mut cost) = (outer.clone(), Vec::with_capacity(aggregates.len()), 0.0);
        for (at, (id, _)) in aggregates.iter().enumerate() {
            let own = Grouping { keys: Vec::new(), aggregates: &aggregates[at..=at] };
            let row = first_row + at;
            let read = self.read_groups(&stage.of_grouping(own.clone()), &own, outer, row, &[*id])?;
            let is_short = match &read.read.output {
                ReadOutput::Groups(groups) => groups.ends_at_value || own.counts_rows(),
                ReadOutput::Rows(_) => false,
            };
            if !is_short {
                return None;
            }
            scope.add(id.0, read.read.output().pop()?, row, 0);
            cost += read.cost;
            let source = LookupSource::Reads(vec![read.read]);
            lookups.push(NestedLookup { kind: LookupKind::Inner, source, condition: None, compared: None });
        }
        let filter = self.all_of(&stage.having, &scope)?;
        let (rows, _) = self.rows(stage, &scope, ids, true)?;
        let output = ReadOutput::Rows(rows);
        let read = ReadPlan { lookups, filter, output, for_update: false, rows_max: None, few: None };
        Some(StageRead::of_all(read, 1.0, cost))
    }

    fn read_rows(&self, stage: &Stage<'p>, outer: &Scope, first_row: usize, ids: &[ColumnId]) -> Option<StageRead> {
        let known = stage.relation.known(outer);
        let order: Vec<LogicalSortKey> = stage.order.iter().map(|key| self.resolved_key(key, &known)).collect();
        let cut = stage.cut();
        let cut = cut.as_ref();
        let is_cut = stage.limit.is_some();
        let wanted = Wanted { order: &order, is_cut, cut, is_part: stage.is_part, ..Wanted::default() };
        let (lookups, filter) = self.lookups(&stage.relation, outer, first_row, wanted)?;
        let Lookups { lookups, scope, rows, first_rows, cost, is_ordered, presorted, rows_max, .. } = lookups;
        let (mut output, limit) = self.rows(stage, &scope, ids, is_ordered)?;
        output.presorted = presorted.keys.min(output.order.len());
        let all = (rows, cost);
        let rows = limit.map_or(rows, |limit| rows.min(limit));
        let cost = match is_ordered || output.presorted > 0 {
            true => limit.map_or(cost, |limit| cost.min((limit + presorted.alike) * SOUGHT_COST)),
            false => cost,
        };
        let output = ReadOutput::Rows(output);
        let read = ReadPlan { lookups, filter, output, for_update: false, rows_max, few: None };
        let both = match stage.only_scan() {
            Some(_) => self
                .with_few_rows(stage, (&order, is_ordered), outer, first_row, ids, &read)
                .or_else(|| self.with_few_parts(stage, outer, first_row, ids, &read)),
            None if is_ordered => None,
            None => self.with_few_joined(stage, wanted, outer, first_row, ids, (&read, all.0 / first_rows)),
        };
        let read = both.unwrap_or(read);
        // If all rows are given, each of them is looked up anyway.
        let is_page = limit.is_some_and(|limit| all.0 > limit);
        let late = is_page.then(|| self.with_late_rows(stage, outer, first_row, ids, &read)).flatten();
        Some(StageRead { read: late.unwrap_or(read), rows, cost, all })
    }

    /// The output of a stage over rows whose columns are in `scope`, and its limit, if it is known.
    pub(super) fn rows(
        &self,
        stage: &Stage<'p>,
        scope: &Scope,
        ids: &[ColumnId],
        is_ordered: bool,
    ) -> Option<(RowOutput, Option<f64>)> {
        let columns = ids.iter().map(|id| self.scalar(&self.definitions.column(*id), scope)).collect::<Option<_>>()?;
        let order = stage.order.iter().filter(|_| !is_ordered).map(|key| self.output_order(key, scope));
        let order = order.collect::<Option<_>>()?;
        let number = |expr: &Option<ScalarExpr>| match expr {
            None => Some(None),
            Some(expr) => row_number(expr).map(Some),
        };
        let (skip, limit) = (number(&stage.skip)?, number(&stage.limit)?);
        let known = limit.as_ref().map(|limit| page_rows(Some(limit)));
        Some((RowOutput { columns, order, presorted: 0, skip, limit }, known))
    }

    /// A key of an order over the columns of `scope`.
    pub(super) fn output_order(&self, key: &LogicalSortKey, scope: &Scope) -> Option<OutputOrder> {
        let value = self.scalar(&key.expr, scope)?;
        let (descending, nulls_first) = (key.descending, key.nulls_first);
        value.kind.is_ordered().then_some(OutputOrder { value, descending, nulls_first })
    }

    /// All of `conditions` as one scalar. The inner `None` says that there are none.
    pub(super) fn all_of(&self, conditions: &[ScalarExpr], scope: &Scope) -> Option<Option<Scalar>> {
        let conditions =
            conditions.iter().map(|condition| self.scalar(condition, scope)).collect::<Option<Vec<_>>>()?;
        Some(Scalar::all_of(conditions))
    }

    fn scalar(&self, expr: &ScalarExpr, scope: &Scope) -> Option<Scalar> {
        scope.scalar(&self.definitions.resolve(expr, &|id| scope.has(id)))
    }

    fn resolved_key(&self, key: &LogicalSortKey, is_known: &dyn Fn(usize) -> bool) -> LogicalSortKey {
        LogicalSortKey { expr: self.definitions.resolve(&key.expr, is_known), ..key.clone() }
    }
}

/// The rows that we assume for a page whose size is a parameter.
pub(super) const ROWS_OF_A_PAGE: f64 = 100.0;

/// The number of rows that are read until a limit, as far as it is known.
pub(super) fn page_rows(cut: Option<&Scalar>) -> f64 {
    match cut.map(|cut| &cut.op) {
        Some(ScalarOp::Literal(ScalarValue::Int(rows))) => (*rows as f64).max(1.0),
        _ => ROWS_OF_A_PAGE,
    }
}

/// The cost of finding the next row that is given, if the rows come in order.
pub(super) const SOUGHT_COST: f64 = 10.0;

impl JoinedSources<'_> {
    /// Returns a predicate for the columns that its sources and steps make, and for those of `outer`.
    fn known(&self, outer: &Scope) -> impl Fn(usize) -> bool + use<> {
        let of_steps = self.steps.iter().flat_map(|step| step.source.columns().into_iter().chain(step.mark));
        let made: Vec<ColumnId> = self.sources.iter().flat_map(RelationSource::columns).chain(of_steps).collect();
        let outer = outer.clone();
        move |id| made.contains(&ColumnId(id)) || outer.has(id)
    }
}

impl Grouping<'_> {
    /// Whether the only result is the number of all rows.
    fn counts_rows(&self) -> bool {
        let is_count = |call: &AggregateCall| call.filter.is_none() && counts_rows(call);
        self.keys.is_empty() && self.aggregates.iter().all(|(_, call)| is_count(call))
    }
}

/// Whether an aggregate is `count(*)`, or the count of a constant.
pub(super) fn counts_rows(call: &AggregateCall) -> bool {
    let is_value = |argument: &ScalarExpr| argument.as_constant().is_some_and(|value| !value.is_null());
    call.function.is_count() && !call.distinct && call.arguments.iter().all(is_value)
}

/// If the only aggregate is a minimum or maximum, the order in which the first value of a group is the result.
fn extreme_order(grouping: &Grouping<'_>) -> Option<LogicalSortKey> {
    let [(_, call)] = grouping.aggregates else { return None };
    let descending = match call.function.role {
        AggregateRole::Min => false,
        AggregateRole::Max => true,
        _ => return None,
    };
    let [argument] = &call.arguments[..] else { return None };
    let is_plain = call.filter.is_none() && call.order.is_empty();
    is_plain.then(|| LogicalSortKey { expr: argument.clone(), descending, nulls_first: descending })
}

/// An aggregate of a plan as one of a program. Returns `None` if programs do not have it.
pub(super) fn row_aggregate(
    call: &AggregateCall,
    scope: &Scope,
    resolved: &dyn Fn(&ScalarExpr) -> ScalarExpr,
) -> Option<RowAggregate> {
    // The only constant that programs know is the text between joined texts, and only those have an order.
    let joins = call.function.parameter == AggregateParameter::Separator && !call.distinct;
    if call.skips_nulls || !joins && (!call.order.is_empty() || call.parameter.is_some()) {
        return None;
    }
    let filter = match &call.filter {
        Some(filter) => Some(scope.scalar(&resolved(filter))?),
        None => None,
    };
    let function = match (call.function.role, call.distinct) {
        (AggregateRole::Count, false) if counts_rows(call) => {
            let argument = Scalar::literal(SqlType::Int64, ScalarValue::Int(0));
            return Some(RowAggregate { filter, ..RowAggregate::new(RowFunction::CountRows, argument) });
        }
        (AggregateRole::Count, false) => RowFunction::Count,
        (AggregateRole::Count, true) => RowFunction::CountDistinct,
        (AggregateRole::Sum, false) => RowFunction::Sum,
        (AggregateRole::Average, false) => RowFunction::Average,
        (AggregateRole::Min, _) => RowFunction::Min,
        (AggregateRole::Max, _) => RowFunction::Max,
        _ if joins => RowFunction::Join,
        _ => return None,
    };
    let [argument] = &call.arguments[..] else { return None };
    let argument = scope.scalar(&resolved(argument))?;
    let order = call.order.iter().map(|key| {
        let value = scope.scalar(&resolved(&key.expr))?;
        let (descending, nulls_first) = (key.descending, key.nulls_first);
        value.kind.is_ordered().then_some(OutputOrder { value, descending, nulls_first })
    });
    let order = order.collect::<Option<_>>()?;
    let separator = match &call.parameter {
        Some(separator) if !separator.is_null() => separator.as_text()?.to_owned(),
        _ => String::new(),
    };
    let aggregate = RowAggregate { function, argument, filter, order, separator };
    (aggregate.kind()?.arrow() == call.kind).then_some(aggregate)
}

impl Stage<'_> {
    /// The number of rows that are given, plus the rows skipped before them. Returns `None` if all rows are read.
    pub(super) fn cut(&self) -> Option<Scalar> {
        // The lookup must read the skipped rows as well.
        let limit = row_number(self.limit.as_ref()?)?;
        let Some(skip) = &self.skip else { return Some(limit) };
        let skip = row_number(skip)?;
        let is_small = |rows: &Scalar| {
            let most = Scalar::literal(SqlType::Int64, ScalarValue::Int(CUT_ROWS_MAX));
            Scalar::compare(rows.clone(), CompareOp::LessOrEqual, most)
        };
        // If the sum would overflow, that must not be an error, so there is no limit then.
        let are_small = Scalar::all_of(vec![is_small(&skip), is_small(&limit)])?;
        let sum = Scalar::arithmetic(SqlType::Int64, skip, ArithmeticOp::Plus, limit);
        Some(Scalar::new(SqlType::Int64, ScalarOp::Case { whens: vec![(are_small, sum)], otherwise: None }))
    }
}

/// The largest OFFSET and LIMIT with which we stop reading early. With larger numbers we read all rows.
const CUT_ROWS_MAX: i64 = 1 << 40;

/// A number of rows, which must be a literal or a parameter.
fn row_number(expr: &ScalarExpr) -> Option<Scalar> {
    let number = Scope::default().scalar(expr)?;
    match &number.op {
        ScalarOp::Literal(ScalarValue::Int(rows)) if *rows < 0 => None,
        _ if number.kind == SqlType::Int64 => Some(number),
        _ => None,
    }
}
