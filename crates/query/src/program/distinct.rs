//! Groups by the first columns of a key: the key is read with one row for each group.
//!
//! ```text
//! GROUP BY country, min(created), count(*)   by the index (country, created): its first entry of each country
//! GROUP BY user_id, max(created)             by (user_id, created) backward
//! GROUP BY country, min(created), max(created)   its first entry of each country, and for each of these the last one
//! count(DISTINCT country)                    over one entry of each country
//! ```
//!
//! All conditions must be answered by the key or concern its grouped columns. The aggregates must be counts of rows, or
//! the minimum and maximum of the next column of the key.

use rowmill_base::SqlType;
use rowmill_plan::logical::{AggregateCall, LogicalScan, LogicalSortKey};
use rowmill_plan::program::{
    Access, DistinctKeys, LookupKind, LookupSource, NestedLookup, ReadOutput, ReadPlan, RowOutput, Scalar, ScalarValue,
};
use rowmill_plan::{AggregateRole, ColumnId, ScalarExpr};
use rowmill_storage::TableDef;

use super::ProgramBuilder;
use super::access::{KeyChoice, choices};
use super::key_condition::OwnColumns;
use super::late_rows::key_columns;
use super::output::{StageRead, counts_rows};
use super::relation::RelationSource;
use super::scalar::Scope;
use super::spread::ValueSpread;
use super::stage::{Grouping, Stage};

/// The cost of seeking the next group after many rows of one. The unit is an entry that is read in order.
const SEEK_COST: f64 = 40.0;

/// A read visits at least this number of groups before it gives up, and `GROWTH` times the estimated number.
const GROUPS_MIN: f64 = 1_000.0;
const GROWTH: f64 = 4.0;

/// The values that a read with one row per group gives.
struct GroupedColumns {
    /// The grouped columns, by their positions in the table.
    keys: Vec<usize>,
    /// Whether the rows of a group are counted.
    counts: bool,
    /// The column whose least value, or with `true` greatest value, is wanted.
    extreme: Option<(usize, bool)>,
    /// Whether the value at the other end of that column is wanted too.
    has_other_end: bool,
}

/// A key that is read with one row per group. For example, the index on (country, created) for the groups by country.
struct GroupedKey {
    choice: KeyChoice,
    /// Number of columns of the key that form a group.
    columns: usize,
    groups: f64,
    cost: f64,
}

impl<'p> ProgramBuilder<'p> {
    /// The read of a stage whose groups are found by a key, if there is such a key.
    pub(super) fn read_distinct(
        &self,
        stage: &Stage<'p>,
        outer: &Scope,
        first_row: usize,
        ids: &[ColumnId],
    ) -> Option<StageRead> {
        let (grouping, scan) = (stage.grouping.as_ref()?, stage.only_scan()?);
        let known = |id: usize| scan.columns.iter().any(|(own, _)| own.0 == id) || outer.has(id);
        let resolved = |expr: &ScalarExpr| self.definitions.resolve(expr, &known);
        let column = |expr: &ScalarExpr| {
            let id = resolved(expr).as_column()?;
            scan.columns.iter().find(|(own, _)| own.0 == id).map(|(_, column)| *column)
        };
        let distinct_value = grouping.distinct_value();
        let mut values = GroupedColumns { keys: Vec::new(), counts: false, extreme: None, has_other_end: false };
        let keys = grouping.keys.iter().map(|(_, key)| key).chain(distinct_value);
        values.keys = keys.map(column).collect::<Option<_>>()?;
        if values.keys.is_empty() {
            return None;
        }
        if distinct_value.is_none() {
            grouping.aggregates.iter().try_for_each(|(_, call)| values.add(call, &column))?;
        }
        let conditions: Vec<ScalarExpr> = stage.conditions_of(scan).map(resolved).collect();
        let order = stage.order.iter().map(|key| grouping.order_of_rows(key, &resolved)).collect::<Option<Vec<_>>>();
        let key = self.grouped_key(scan, &conditions, &values, order.as_deref().unwrap_or_default(), outer)?;
        let source = &*self.tables[scan.table];
        let own = OwnColumns { def: source.table(), columns: &scan.columns, known: outer };
        let backward = order.as_deref().and_then(|order| key.choice.gives(order, &own));
        let is_ordered = distinct_value.is_none() && backward == Some(key.choice.access.backward);

        // With many groups of a whole table, the engine is faster.
        let rows_of_group = 1.0 + f64::from(values.has_other_end);
        let groups_max = (key.groups * GROWTH).max(GROUPS_MIN);
        let rows_max = (!key.choice.narrows()).then_some((groups_max * rows_of_group) as u64);
        let GroupedKey { mut choice, columns, groups, cost } = key;
        choice.access.distinct = Some(DistinctKeys { columns, counts: values.counts });
        let mut scope = outer.clone();
        let other_end = match values.has_other_end {
            true => Some(values.other_end(&choice.access, source.table(), columns, first_row)?),
            false => None,
        };
        let lookup = self.lookup_by(choice, scan, &conditions, first_row, &mut scope)?;
        let lookups: Vec<NestedLookup> = std::iter::once(lookup).chain(other_end).collect();
        let read = |filter, output| ReadPlan { lookups, filter, output, for_update: false, rows_max, few: None };
        if distinct_value.is_some() {
            let groups = self.group_output(stage, grouping, &scope, ids, false)?;
            return Some(StageRead::of_all(read(None, ReadOutput::Groups(groups)), 1.0, cost));
        }
        values.add_columns(grouping, source.table(), first_row, &mut scope)?;
        let filter = self.all_of(&stage.having, &scope)?;
        let (rows, limit) = self.rows(stage, &scope, ids, is_ordered)?;
        let groups = limit.map_or(groups, |limit| groups.min(limit));
        Some(StageRead::of_all(read(filter, ReadOutput::Rows(rows)), groups, cost))
    }

    /// The cheapest key that has the grouped columns first. If it can, it also gives `order`.
    fn grouped_key(
        &self,
        scan: &LogicalScan,
        conditions: &[ScalarExpr],
        values: &GroupedColumns,
        order: &[LogicalSortKey],
        outer: &Scope,
    ) -> Option<GroupedKey> {
        let source = &*self.tables[scan.table];
        let own = OwnColumns { def: source.table(), columns: &scan.columns, known: outer };
        let facts = ValueSpread::of(source);
        let borrowed: Vec<&ScalarExpr> = conditions.iter().collect();
        let keys = choices(&own, &borrowed, &facts).into_iter().filter_map(|mut choice| {
            let columns = values.prefix(&mut choice, &own)?;
            if values.extreme.is_none() {
                choice.access.backward = choice.gives(order, &own).unwrap_or(false);
            }
            // All rows of a group must agree on a condition, because we test it on one of them.
            let is_of_group = |condition: &ScalarExpr| {
                !condition.any(&|part| {
                    let id = part.as_column();
                    let column = id.and_then(|id| own.columns.iter().find(|(own, _)| own.0 == id));
                    column.is_some_and(|(_, at)| !values.keys.contains(at) && !choice.fixed.contains(at))
                })
            };
            let mut others = conditions.iter().enumerate().filter(|(at, _)| !choice.answered.contains(at));
            if !others.all(|(_, condition)| is_of_group(condition)) {
                return None;
            }
            let given = choice.access.equal.len();
            let among: f64 =
                choice.ordered[..columns - given].iter().map(|(at, _)| 1.0 / facts.of_any_value(*at)).product();
            let lists = choice.access.alternatives.len();
            let groups = if lists > 0 { among.min(lists as f64) } else { among };
            let groups = groups.clamp(1.0, choice.rows.max(1.0));
            let of_other_end = if values.has_other_end { SEEK_COST } else { 0.0 };
            let cost = groups * ((choice.rows / groups).clamp(1.0, SEEK_COST) + of_other_end);
            Some(GroupedKey { choice, columns, groups, cost })
        });
        keys.min_by(|left, right| left.cost.total_cmp(&right.cost))
    }
}

impl GroupedColumns {
    /// Adds an aggregate. Returns `None` if one row of a group does not give its value.
    fn add(&mut self, call: &AggregateCall, column: &dyn Fn(&ScalarExpr) -> Option<usize>) -> Option<()> {
        if call.filter.is_some() || !call.order.is_empty() {
            return None;
        }
        if counts_rows(call) {
            self.counts = true;
            return Some(());
        }
        let [argument] = &call.arguments[..] else { return None };
        let extreme = (column(argument)?, is_greatest(call)?);
        let first = *self.extreme.get_or_insert(extreme);
        self.has_other_end |= first.1 != extreme.1;
        (first.0 == extreme.0).then_some(())
    }

    /// The lookup of the value at the other end, for each group that `access` gives by the first `columns` columns of
    /// its key. It is the lookup after `row`.
    fn other_end(&self, access: &Access, def: &TableDef, columns: usize, row: usize) -> Option<NestedLookup> {
        let (column, _) = self.extreme?;
        let kind = |column: usize| def.columns[column].kind.clone();
        let group = key_columns(def, access.index)?.into_iter().take(columns);
        let equal = group.map(|column| Scalar::column(kind(column), row, column)).collect();
        let given = access.equal.len() + access.alternatives.first().map_or(0, Vec::len);
        // If the group is all that is given, the bounds are those of the column whose ends are wanted.
        let bounds = if given == columns { access.clone() } else { Access::all(access.table) };
        let (index, backward, alternatives) = (access.index, !access.backward, Vec::new());
        let access = Access { index, backward, equal, alternatives, distinct: None, ..bounds };
        let output = RowOutput {
            limit: Some(Scalar::literal(SqlType::Int64, ScalarValue::Int(1))),
            ..RowOutput::all(vec![Scalar::column(kind(column), row + 1, column)])
        };
        let source = LookupSource::Reads(vec![ReadPlan::of_table(access, None, ReadOutput::Rows(output))]);
        Some(NestedLookup { kind: LookupKind::Inner, source, condition: None, compared: None })
    }

    /// Adds the columns of a grouping to `scope`: those of the first row of a group, and the number of its rows.
    fn add_columns(&self, grouping: &Grouping<'_>, def: &TableDef, row: usize, scope: &mut Scope) -> Option<()> {
        for ((id, _), column) in grouping.keys.iter().zip(&self.keys) {
            scope.add(id.0, def.columns[*column].kind.clone(), row, *column);
        }
        for (id, call) in grouping.aggregates {
            if counts_rows(call) {
                scope.add(id.0, SqlType::Int64, row, def.columns.len());
                continue;
            }
            let (column, is_first_greatest) = self.extreme?;
            let kind = &def.columns[column].kind;
            if kind.arrow() != call.kind {
                return None;
            }
            let is_first = is_greatest(call)? == is_first_greatest;
            let (row, column) = if is_first { (row, column) } else { (row + 1, 0) };
            scope.add(id.0, kind.clone(), row, column);
        }
        Some(())
    }

    /// The number of columns of a key that form a group, if these are the grouped columns. Chooses the direction in
    /// which the first row of a group has the wanted value.
    fn prefix(&self, choice: &mut KeyChoice, own: &OwnColumns<'_>) -> Option<usize> {
        let given = choice.access.equal.len();
        let mut left: Vec<usize> = self.keys.iter().copied().filter(|key| !choice.fixed.contains(key)).collect();
        left.sort_unstable();
        left.dedup();
        let count = left.len();
        let grouped = choice.ordered.get(..count)?;
        if !grouped.iter().all(|(column, _)| left.contains(column)) {
            return None;
        }
        // Each list of values must belong to groups of its own.
        if choice.access.alternatives.first().is_some_and(|list| list.len() > count) {
            return None;
        }
        if let Some((column, is_greatest)) = self.extreme {
            let (next, descending) = *choice.ordered.get(count)?;
            // NULLs sort as the greatest values, so the first row of a group could be one.
            let reads_greatest = is_greatest || self.has_other_end;
            if next != column || reads_greatest && own.def.columns[column].nullable {
                return None;
            }
            // The other end is found by the values of the group, and no key finds NULL.
            if self.has_other_end && self.keys.iter().any(|key| own.def.columns[*key].nullable) {
                return None;
            }
            choice.access.backward = is_greatest != descending;
        }
        Some(given + count)
    }
}

/// Whether an aggregate is a maximum. Returns `None` if it is no minimum either.
fn is_greatest(call: &AggregateCall) -> Option<bool> {
    match call.function.role {
        AggregateRole::Min => Some(false),
        AggregateRole::Max => Some(true),
        _ => None,
    }
}

impl Grouping<'_> {
    /// The argument of `count(DISTINCT x)`, if that is all that a grouping without keys computes.
    fn distinct_value(&self) -> Option<&ScalarExpr> {
        let (true, [(_, call)]) = (self.keys.is_empty(), self.aggregates) else { return None };
        let is_plain = call.distinct && call.filter.is_none() && call.order.is_empty();
        match &call.arguments[..] {
            [argument] if is_plain && call.function.is_count() => Some(argument),
            _ => None,
        }
    }

    /// An order of groups as an order of the rows that they consist of.
    fn order_of_rows(
        &self,
        key: &LogicalSortKey,
        resolved: &dyn Fn(&ScalarExpr) -> ScalarExpr,
    ) -> Option<LogicalSortKey> {
        let id = key.expr.as_column()?;
        let (_, of_rows) = self.keys.iter().find(|(own, _)| own.0 == id)?;
        Some(LogicalSortKey { expr: resolved(of_rows), ..key.clone() })
    }
}

impl<'p> Stage<'p> {
    /// The only source of the stage, if it is a table that the stage does not change.
    pub(super) fn only_scan(&self) -> Option<&'p LogicalScan> {
        match &self.relation.sources[..] {
            [RelationSource::Scan(scan)] if self.relation.steps.is_empty() && scan.row_number.is_none() => Some(scan),
            _ => None,
        }
    }

    /// The conditions on the rows of its only source.
    pub(super) fn conditions_of<'s>(&'s self, scan: &'s LogicalScan) -> impl Iterator<Item = &'s ScalarExpr> {
        scan.conditions.iter().chain(&self.relation.conditions)
    }
}
