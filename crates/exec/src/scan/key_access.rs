//! The choice of the key by which a scan of a keyed table finds its rows, and of the ranges of that key.
//!
//! ```text
//! key (a, b, c)    a = 1 AND b >= 5 AND b < 9 AND c = 3    ->    one range: (1, 5) to (1, 9); c is checked by row
//!                  a IN (1, 2) AND b = 5                   ->    two ranges: (1, 5) and (2, 5)
//! keys a and d     a = 1 OR d = 2                          ->    a range of each, and a row of both is given once
//! ```
//!
//! The primary key has the rows themselves, in their order; an index looks up each row. The scan uses the
//! cheapest key. Row counts come from the statistics of ANALYZE, or from common shares, and each range adds a fixed
//! cost. Where only the first rows of an order are asked for, reading in the order of a key until there are enough may
//! cost less than reading all.

use std::fmt::Write;
use std::ops::Bound;

use rowmill_base::{IndexId, Result};
use rowmill_plan::Predicate;
use rowmill_storage::keyed::{KeyRange, ValueRef};
use rowmill_storage::{
    EQUAL_SHARE, KeyBounds, KeyColumn, KeyOrder, KeyRanges, KeyedDef, KeyedSource, LOOKED_UP_ROWS, RANGE_SHARE,
    TableDef, TableStatistics,
};

use super::TopRequest;
use super::key_limits::{Alternative, ColumnLimit, KeyLimits, ValueSet};

/// The cost of going to a range, counted in rows that are read in order: in a table of 1.5 million orders, each of
/// 3,000 keys takes 0.25 µs, and a row in order 0.05 µs. With 1 to 16, statements with keys, ranges and joins take
/// equally long.
const SEEK_ROWS: f64 = 4.0;
/// The cost of checking whether a row was given before: to remember its key takes 0.26 µs.
const SEEN_ROWS: f64 = SEEK_ROWS;
/// The most ranges that a scan reads. Only a key prefix that gives fewer ranges should be used. This bounds the memory
/// of the ranges; their cost decides long before.
const RANGES_MAX: usize = 1 << 16;
/// The most values of a set that we look up in the statistics. We assume that the others are like them. This bounds the
/// time of planning.
const VALUES_ASKED_MAX: usize = 64;
/// The assumed share of rows that pass a condition that we cannot estimate. With 0.1 to 1, these statements read their
/// rows by the same keys.
const OTHER_SHARE: f64 = 0.5;

/// The rows and the order that a scan must give.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) predicates: &'a [Predicate],
    /// Further limits on columns, which do not come from the predicates.
    pub(super) offered: &'a [ColumnLimit],
    pub(super) top: Option<&'a TopRequest>,
    /// The number of rows after which the scan may stop.
    pub(super) limit: Option<usize>,
}

/// The ranges of keys that a scan reads.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyAccess {
    /// The plans of each key. A key must appear only once.
    keys: Vec<KeyPlans>,
    /// `Some` if the rows come in the wanted order. Its value says whether the key is read from its end.
    pub(super) backward: Option<bool>,
    /// The estimated number of rows that are read.
    pub(super) rows: f64,
    /// The cost, counted in rows that are read in order.
    pub(super) cost: f64,
}

/// Reads the rows by one key, with a plan for each alternative.
#[derive(Clone, Debug, Default)]
struct KeyPlans {
    index: Option<IndexId>,
    plans: Vec<KeyPlan>,
}

/// Finds the rows of one alternative by one key.
#[derive(Clone, Debug, Default)]
struct KeyPlan {
    /// The value sets of the first parts of the key.
    sets: Vec<ValueSet>,
    /// The range of the part after these.
    range: Option<ColumnLimit>,
    /// Whether all parts of the key have a value set.
    is_whole: bool,
    rows: f64,
}

/// A key of the table.
#[derive(Clone, Copy)]
struct ScanKey<'t> {
    index: Option<IndexId>,
    name: &'t str,
    parts: &'t [KeyColumn],
    is_unique: bool,
}

/// The inputs of estimates.
struct Estimator<'t> {
    table: &'t TableDef,
    statistics: Option<&'t TableStatistics>,
    rows: f64,
}

fn keys_of(keyed: &KeyedDef) -> impl Iterator<Item = ScanKey<'_>> {
    let primary = ScanKey { index: None, name: "primary key", parts: &keyed.key, is_unique: true };
    let others = keyed.indexes.iter().map(|index| ScanKey {
        index: Some(index.id),
        name: &index.name,
        parts: &index.parts,
        is_unique: index.unique,
    });
    std::iter::once(primary).chain(others)
}

impl KeyAccess {
    /// The cheapest access for the wanted rows of `table`, which has about `rows` rows.
    pub(super) fn choose(
        table: &TableDef,
        statistics: Option<&TableStatistics>,
        rows: &dyn Fn() -> u64,
        wanted: Wanted<'_>,
    ) -> Result<KeyAccess> {
        let Some(keyed) = &table.keyed else { return Ok(KeyAccess::default()) };
        let limits = KeyLimits::new(table, wanted.predicates, wanted.offered)?;
        if let Some(point) = point(table, keyed, &limits.base) {
            // No other access can be cheaper than one row by its whole primary key, so we stop here.
            return Ok(point);
        }
        let rows = rows().max(1) as f64;
        let estimator = Estimator { table, statistics, rows };
        let base = std::slice::from_ref(&limits.base);
        let others = limits.choices.len() + limits.others;
        let mut best: Option<KeyAccess> = None;
        let mut consider = |access: KeyAccess| {
            if best.as_ref().is_none_or(|best| access.cost < best.cost) {
                best = Some(access);
            }
        };
        for (at, alternatives) in std::iter::once(base).chain(limits.choices.iter().map(Vec::as_slice)).enumerate() {
            let others = others - usize::from(at > 0);
            let passing = estimator.passing(alternatives, others);
            // If only some of the rows that are read pass, the scan must read proportionally more to find enough of
            // them.
            let needed = |read: f64, rows: Option<usize>| match rows {
                Some(rows) if passing > 0.0 => read.min(rows as f64 * (read / passing).max(1.0)),
                _ => read,
            };
            let mut by_key: Vec<(ScanKey<'_>, Vec<KeyPlan>)> = Vec::new();
            for key in keys_of(keyed) {
                let plans: Vec<KeyPlan> = alternatives.iter().map(|one| estimator.plan(key, one)).collect();
                let read: f64 = plans.iter().map(|plan| plan.rows).sum::<f64>().min(rows);
                let ranges: f64 = plans.iter().map(KeyPlan::ranges).sum();
                let one_key = |read: f64, backward: Option<bool>, ranges: f64| KeyAccess {
                    keys: vec![KeyPlans { index: key.index, plans: plans.clone() }],
                    backward,
                    rows: read,
                    cost: ranges * SEEK_ROWS + read * key.row_cost(),
                };
                consider(one_key(needed(read, wanted.limit), None, ranges));
                if let Some(top) = wanted.top
                    && let Some(backward) = backward(table, keyed, key, &limits.base, top)
                {
                    let read = needed(read, Some(top.rows));
                    // In this order the scan stops after enough rows, so it should not reach more ranges than it reads
                    // rows.
                    consider(one_key(read, Some(backward), ranges.min(read)));
                }
                by_key.push((key, plans));
            }
            // Each alternative may use a key of its own; a row that several find is returned only once.
            if alternatives.len() > 1 {
                consider(union(&by_key, alternatives.len()));
            }
        }
        Ok(best.unwrap_or_default())
    }

    /// The ranges as bytes, by key.
    pub(super) fn ranges(&self, source: &dyn KeyedSource, keyed: &KeyedDef) -> Result<Vec<KeyRanges>> {
        let order = match self.backward {
            None => KeyOrder::Any,
            Some(false) => KeyOrder::Forward,
            Some(true) => KeyOrder::Backward,
        };
        let of_key = |key: &KeyPlans| {
            let mut ranges = Vec::new();
            let known = keys_of(keyed).find(|known| known.index == key.index);
            let parts = known.map_or(&[][..], |known| known.parts);
            for plan in &key.plans {
                plan.add_ranges((key.index, parts), source, &mut ranges)?;
            }
            let are_points =
                key.index.is_none() && key.plans.iter().all(|plan| plan.is_whole && plan.sets.len() == keyed.key.len());
            Ok(KeyRanges { index: key.index, ranges: merged(ranges), are_points, order })
        };
        self.keys.iter().map(of_key).collect()
    }

    /// Whether a row may be found more than once.
    pub(super) fn finds_twice(&self) -> bool {
        self.keys.len() > 1
    }

    /// Whether all rows of the table are read, in the order of the primary key.
    pub(super) fn reads_table(&self) -> bool {
        match &self.keys[..] {
            [KeyPlans { index: None, plans }] => {
                matches!(&plans[..], [KeyPlan { sets, range: None, .. }] if sets.is_empty())
            }
            _ => false,
        }
    }

    /// The access in words, for EXPLAIN.
    pub(super) fn text(&self, table: &TableDef) -> String {
        let Some(keyed) = &table.keyed else { return String::new() };
        let mut text = String::new();
        for of_key in &self.keys {
            let key = keys_of(keyed).find(|key| key.index == of_key.index);
            let name = key.map_or("an index", |key| key.name);
            let ranges: f64 = of_key.plans.iter().map(KeyPlan::ranges).sum();
            let is_point = of_key.plans.iter().all(|plan| plan.is_whole);
            let is_all = of_key.plans.iter().any(KeyPlan::is_all);
            text += if text.is_empty() { "" } else { " and " };
            let of_index = if of_key.index.is_some() { "index " } else { "" };
            // Writing to a string does not fail.
            let _ = match (is_all, is_point) {
                _ if of_key.plans.is_empty() => write!(text, "no rows"),
                (true, _) => write!(text, "all rows by {of_index}{name}"),
                (_, true) if ranges == 1.0 => write!(text, "one value of {of_index}{name}"),
                (_, true) => write!(text, "{ranges} values of {of_index}{name}"),
                _ if ranges == 1.0 => write!(text, "a range of {of_index}{name}"),
                _ => write!(text, "{ranges} ranges of {of_index}{name}"),
            };
        }
        match self.backward {
            None => {}
            Some(false) => text += " in order",
            Some(true) => text += " in backward order",
        }
        text
    }
}

/// The access by a whole primary key, if the conditions give one value of each part. Nothing finds a row faster.
fn point(table: &TableDef, keyed: &KeyedDef, base: &Alternative) -> Option<KeyAccess> {
    let one = |part: &KeyColumn| {
        let set = base.of(table.column_by_id(part.column)?)?.set.as_ref()?;
        (set.len() == 1 && !set.has_null()).then(|| set.clone())
    };
    let sets = keyed.key.iter().map(one).collect::<Option<Vec<_>>>()?;
    let plan = KeyPlan { sets, range: None, is_whole: true, rows: 1.0 };
    let keys = vec![KeyPlans { index: None, plans: vec![plan] }];
    Some(KeyAccess { keys, backward: None, rows: 1.0, cost: SEEK_ROWS + 1.0 })
}

/// Finds each alternative by the key that does so most cheaply.
fn union(by_key: &[(ScanKey<'_>, Vec<KeyPlan>)], alternatives: usize) -> KeyAccess {
    let mut access = KeyAccess::default();
    for alternative in 0..alternatives {
        let cost =
            |key: &ScanKey<'_>, plan: &KeyPlan| plan.ranges() * SEEK_ROWS + plan.rows * (key.row_cost() + SEEN_ROWS);
        let of_keys = by_key.iter().map(|(key, plans)| (key, &plans[alternative], cost(key, &plans[alternative])));
        let Some((key, plan, cost)) = of_keys.min_by(|one, other| one.2.total_cmp(&other.2)) else { continue };
        access.cost += cost;
        access.rows += plan.rows;
        match access.keys.iter_mut().find(|known| known.index == key.index) {
            Some(known) => known.plans.push(plan.clone()),
            None => access.keys.push(KeyPlans { index: key.index, plans: vec![plan.clone()] }),
        }
    }
    access
}

/// Whether a key has the rows in the order of `top`. If so, the result says whether the key must be read from its end.
fn backward(
    table: &TableDef,
    keyed: &KeyedDef,
    key: ScanKey<'_>,
    base: &Alternative,
    top: &TopRequest,
) -> Option<bool> {
    let is_fixed =
        |column: usize| base.of(column).and_then(|limit| limit.set.as_ref()).is_some_and(|set| set.len() == 1);
    // The parts of an index are followed by those of the primary key that it does not have.
    let own = key.parts.iter();
    let rest = keyed.key.iter().filter(|part| key.parts.iter().all(|own| own.column != part.column));
    let rest = rest.filter(|_| key.index.is_some());
    let mut parts = own.chain(rest).filter_map(|part| Some((table.column_by_id(part.column)?, part.descending)));
    let mut passed = Vec::new();
    let mut backward = None;
    for wanted in &top.keys {
        let is_passed = |column: usize| is_fixed(column) || passed.contains(&column);
        // Rows that agree in the whole primary key are the same row, so further order keys decide nothing.
        let tells_rows_apart = keyed.key.iter().all(|part| table.column_by_id(part.column).is_some_and(is_passed));
        if tells_rows_apart {
            break;
        }
        if is_passed(wanted.column) {
            continue;
        }
        let (column, descending) = parts.find(|(column, _)| !is_fixed(*column))?;
        let is_backward = wanted.descending != descending;
        let may_be_null = table.columns[column].nullable && !base.of(column).is_some_and(ColumnLimit::is_not_null);
        // A key has NULL after all values, or before all values if it is descending.
        let nulls_fit = !may_be_null || wanted.nulls_first == wanted.descending;
        if column != wanted.column || *backward.get_or_insert(is_backward) != is_backward || !nulls_fit {
            return None;
        }
        passed.push(column);
    }
    Some(backward.unwrap_or(false))
}

/// The ranges in ascending order. Overlapping ranges are merged, so that no key is in two of them.
fn merged(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by(|one, other| one.start.cmp(&other.start));
    let mut merged: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            // An empty end means no end, so the range covers all that follow.
            Some(last) if last.end.is_empty() => break,
            Some(last) if range.start < last.end => {
                if range.end.is_empty() || range.end > last.end {
                    last.end = range.end;
                }
            }
            _ => merged.push(range),
        }
    }
    merged
}

impl ScanKey<'_> {
    /// The cost of reading a row by the key.
    fn row_cost(self) -> f64 {
        if self.index.is_some() { LOOKED_UP_ROWS } else { 1.0 }
    }
}

impl KeyPlan {
    fn ranges(&self) -> f64 {
        self.sets.iter().map(|set| set.len() as f64).product()
    }

    fn is_all(&self) -> bool {
        self.sets.is_empty() && self.range.is_none()
    }

    /// Adds a range for each combination of the values.
    fn add_ranges(
        &self,
        key: (Option<IndexId>, &[KeyColumn]),
        source: &dyn KeyedSource,
        ranges: &mut Vec<KeyRange>,
    ) -> Result<()> {
        if self.sets.iter().any(|set| set.len() == 0) {
            return Ok(());
        }
        let mut places = vec![0; self.sets.len()];
        loop {
            let equal: Vec<ValueRef<'_>> = self.sets.iter().zip(&places).map(|(set, place)| set.get(*place)).collect();
            ranges.push(self.range_after(key, equal, source)?);
            // The next combination; the last place turns the fastest.
            let Some(turned) = (0..places.len()).rev().find(|part| places[*part] + 1 < self.sets[*part].len()) else {
                return Ok(());
            };
            places[turned] += 1;
            places[turned + 1..].fill(0);
        }
    }

    /// The range of keys whose first parts are `equal`.
    fn range_after(
        &self,
        (index, parts): (Option<IndexId>, &[KeyColumn]),
        equal: Vec<ValueRef<'_>>,
        source: &dyn KeyedSource,
    ) -> Result<KeyRange> {
        let mut bounds = KeyBounds { index, equal, lower: Bound::Unbounded, upper: Bound::Unbounded };
        let Some(limit) = &self.range else { return source.range_of(&bounds) };
        if limit.has_range() {
            (bounds.lower, bounds.upper) = (limit.lower(), limit.upper());
            return source.range_of(&bounds);
        }
        // All keys but NULLs. NULLs come after all values, or before them if the part is descending.
        let is_descending = parts.get(bounds.equal.len()).is_some_and(|part| part.descending);
        let mut all = source.range_of(&bounds)?;
        bounds.equal.push(ValueRef::Null);
        let nulls = source.range_of(&bounds)?;
        if is_descending {
            all.start = nulls.end;
        } else {
            all.end = nulls.start;
        }
        Ok(all)
    }
}

impl Estimator<'_> {
    /// Chooses how many parts of a key should be used to find an alternative most cheaply.
    fn plan(&self, key: ScanKey<'_>, alternative: &Alternative) -> KeyPlan {
        let mut best = KeyPlan { rows: self.rows, ..KeyPlan::default() };
        let mut best_cost = SEEK_ROWS + self.rows * key.row_cost();
        let (mut sets, mut share, mut ranges): (Vec<ValueSet>, f64, usize) = (Vec::new(), 1.0, 1);
        for (at, part) in key.parts.iter().enumerate() {
            let Some(column) = self.table.column_by_id(part.column) else { break };
            let Some(limit) = alternative.of(column) else { break };
            let mut range = None;
            match &limit.set {
                Some(set) => {
                    ranges = ranges.saturating_mul(set.len());
                    // The values of further parts are checked by row instead.
                    if ranges > RANGES_MAX {
                        break;
                    }
                    share *= self.share_of_set(column, set);
                    sets.push(set.clone());
                }
                None if limit.has_range() || limit.is_not_null() && self.table.columns[column].nullable => {
                    share *= self.share_of_range(limit);
                    range = Some(limit.clone());
                }
                None => break,
            }
            // A unique key allows several rows with NULL, so NULL does not bound the rows.
            let is_whole = sets.len() == key.parts.len() && sets.iter().all(|set| !set.has_null());
            let ends = range.is_some();
            let mut rows = self.rows * share;
            if is_whole && key.is_unique {
                rows = rows.min(ranges as f64);
            }
            // Rows may have been added after the statistics were made, so we expect at least one.
            let rows = if ranges == 0 { 0.0 } else { rows.max(1.0) };
            let cost = ranges as f64 * SEEK_ROWS + rows * key.row_cost();
            // With equal costs the whole key wins, because a point is cheaper than a range.
            if cost < best_cost || at + 1 == key.parts.len() && cost <= best_cost {
                best_cost = cost;
                best = KeyPlan { sets: sets.clone(), range, is_whole: sets.len() == key.parts.len(), rows };
            }
            if ends {
                break;
            }
        }
        best
    }

    /// The estimated number of rows that pass the conditions.
    fn passing(&self, alternatives: &[Alternative], others: usize) -> f64 {
        let of_one = |alternative: &Alternative| {
            let of_limit = |limit: &ColumnLimit| match &limit.set {
                Some(set) => self.share_of_set(limit.column, set),
                None => self.share_of_range(limit),
            };
            alternative.limits().iter().map(of_limit).product::<f64>()
        };
        let share: f64 = alternatives.iter().map(of_one).sum();
        self.rows * share.min(1.0) * OTHER_SHARE.powi(others as i32)
    }

    fn share_of_set(&self, column: usize, set: &ValueSet) -> f64 {
        let def = &self.table.columns[column];
        let share = |value: ValueRef<'_>| match (self.statistics, value) {
            (Some(statistics), ValueRef::Null) => {
                statistics.column(def.id).map_or(EQUAL_SHARE, |known| known.null_share)
            }
            (Some(statistics), value) => statistics.share_equal(def, value).unwrap_or(EQUAL_SHARE),
            (None, _) => EQUAL_SHARE,
        };
        let asked = set.len().min(VALUES_ASKED_MAX);
        let of_asked: f64 = (0..asked).map(|place| share(set.get(place))).sum();
        let of_one_key = self.is_whole_key(column).then(|| set.len() as f64 / self.rows);
        // If the column is a key of its own, each value has at most one row.
        (of_asked * set.len() as f64 / asked.max(1) as f64).min(of_one_key.unwrap_or(1.0)).min(1.0)
    }

    /// Whether no two rows have the same value in a column.
    fn is_whole_key(&self, column: usize) -> bool {
        let id = self.table.columns[column].id;
        let keyed = self.table.keyed.as_deref();
        keyed.is_some_and(|keyed| {
            keys_of(keyed).any(|key| key.is_unique && matches!(key.parts, [only] if only.column == id))
        })
    }

    fn share_of_range(&self, limit: &ColumnLimit) -> f64 {
        let def = &self.table.columns[limit.column];
        if !limit.has_range() {
            let nulls = self.statistics.and_then(|statistics| statistics.column(def.id)).map(|known| known.null_share);
            return 1.0 - nulls.unwrap_or(0.0);
        }
        let within = |statistics: &TableStatistics| statistics.share_within(def, limit.lower(), limit.upper());
        self.statistics.and_then(within).unwrap_or(RANGE_SHARE)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringViewArray};
    use rowmill_base::{ColumnId, SchemaId, SqlType, TableId};
    use rowmill_plan::CompareOp;
    use rowmill_storage::{ColumnDef, ColumnSpec, IndexDef, KeyedDef, StatisticsCollector};

    use super::*;

    /// The ids of the indexes besides the primary key.
    const BY_STATE: IndexId = IndexId(10);
    const BY_STATE_AND_TIME: IndexId = IndexId(11);
    const BY_TIME: IndexId = IndexId(12);
    const BY_CODE: IndexId = IndexId(13);
    const ID: usize = 0;
    const STATE: usize = 1;
    const TIME: usize = 2;
    const CODE: usize = 3;
    const ROWS: i64 = 20_000;

    /// Orders with a number, a state, the time at which they were made, and a code of their own.
    fn orders(indexes: &[IndexId]) -> TableDef {
        let names =
            [("id", SqlType::Int64), ("state", SqlType::TEXT), ("time", SqlType::Int64), ("code", SqlType::Int64)];
        let columns =
            (0..).zip(names).map(|(id, (name, kind))| ColumnDef::from_spec(ColumnId(id), ColumnSpec::new(name, kind)));
        let columns: Vec<ColumnDef> = columns.collect();
        let part = |column: usize| KeyColumn { column: ColumnId(column as u32), descending: false };
        let index = |id: &IndexId| {
            let parts = match *id {
                BY_STATE => vec![part(STATE)],
                BY_STATE_AND_TIME => vec![part(STATE), part(TIME)],
                BY_TIME => vec![part(TIME)],
                _ => vec![part(CODE)],
            };
            IndexDef {
                id: *id,
                name: id.to_string(),
                parts,
                unique: *id == BY_CODE,
                is_constraint: false,
                shortens: true,
            }
        };
        let keyed = KeyedDef {
            index: IndexId(1),
            key: vec![part(ID)],
            key_name: None,
            stored: columns[1..].iter().map(|column| (column.id, column.kind.clone())).collect(),
            indexes: indexes.iter().map(index).collect(),
            foreign_keys: Vec::new(),
            referrers: Vec::new(),
            sequence: None,
        };
        TableDef {
            id: TableId(1),
            schema: SchemaId(0),
            name: "orders".into(),
            version: 1,
            next_column: ColumnId(columns.len() as u32),
            columns,
            keyed: Some(Arc::new(keyed)),
            time: None,
            rules: Default::default(),
        }
    }

    /// Nine in ten orders are done, and one in a thousand is lost.
    fn statistics(table: &TableDef) -> TableStatistics {
        let mut collector = StatisticsCollector::new(&table.columns);
        for row in 0..ROWS {
            let state = match row % 1_000 {
                0 => "lost",
                1..100 => "open",
                _ => "done",
            };
            collector.push([ValueRef::Int(row), ValueRef::Text(state), ValueRef::Int(row * 10), ValueRef::Int(-row)]);
        }
        collector.finish(IndexId(1))
    }

    fn compare(column: usize, op: CompareOp, value: i64) -> Predicate {
        Predicate::Compare { column, op, value: Arc::new(Int64Array::from(vec![value])) }
    }

    fn is_state(state: &str) -> Predicate {
        let value: ArrayRef = Arc::new(StringViewArray::from(vec![state]));
        Predicate::Compare { column: STATE, op: CompareOp::Equal, value }
    }

    fn chosen(table: &TableDef, statistics: Option<&TableStatistics>, predicates: &[Predicate]) -> Option<IndexId> {
        let wanted = Wanted { predicates, offered: &[], top: None, limit: None };
        let access =
            KeyAccess::choose(table, statistics, &|| ROWS as u64, wanted).expect("values of the columns' types");
        assert_eq!(access.keys.len(), 1);
        access.keys[0].index
    }

    #[test]
    fn a_frequent_value_is_found_by_a_scan_and_a_rare_one_by_the_index() {
        let table = orders(&[BY_STATE]);
        let known = statistics(&table);
        assert_eq!(chosen(&table, Some(&known), &[is_state("done")]), None);
        assert_eq!(chosen(&table, Some(&known), &[is_state("lost")]), Some(BY_STATE));
        assert_eq!(chosen(&table, Some(&known), &[is_state("never seen")]), Some(BY_STATE));
        // Without statistics.
        assert_eq!(chosen(&table, None, &[is_state("done")]), Some(BY_STATE));
        // Reading half of the table by the primary key is cheaper than looking up a tenth of it row by row.
        let half = compare(ID, CompareOp::Less, ROWS / 2);
        assert_eq!(chosen(&table, Some(&known), &[is_state("open"), half]), None);
        assert_eq!(chosen(&table, Some(&known), &[is_state("open")]), Some(BY_STATE));
    }

    #[test]
    fn narrow_ranges_are_read_by_an_index_and_wide_ones_by_the_primary_key() {
        let table = orders(&[BY_TIME]);
        let known = statistics(&table);
        let within = |from: i64, to: i64| {
            [compare(TIME, CompareOp::GreaterOrEqual, from * 10), compare(TIME, CompareOp::Less, to * 10)]
        };
        assert_eq!(chosen(&table, Some(&known), &within(100, 200)), Some(BY_TIME));
        assert_eq!(chosen(&table, Some(&known), &within(100, ROWS / 2)), None);
        assert_eq!(chosen(&table, None, &within(100, 200)), None);
    }

    #[test]
    fn the_index_that_leaves_the_fewest_rows_is_chosen() {
        let table = orders(&[BY_STATE, BY_STATE_AND_TIME, BY_TIME, BY_CODE]);
        let known = statistics(&table);
        let at = |time: i64| compare(TIME, CompareOp::Equal, time);
        let after = |time: i64| compare(TIME, CompareOp::Greater, time);
        assert_eq!(chosen(&table, Some(&known), &[is_state("lost"), after(ROWS * 5)]), Some(BY_STATE_AND_TIME));
        assert_eq!(chosen(&table, Some(&known), &[is_state("done"), after(ROWS * 5)]), None);
        assert_eq!(
            chosen(&table, Some(&known), &[is_state("done"), compare(CODE, CompareOp::Equal, -5)]),
            Some(BY_CODE)
        );
        // Both keys give at most one row, but the primary key needs no further lookup.
        let by_id = compare(ID, CompareOp::Equal, 5);
        assert_eq!(chosen(&table, Some(&known), &[compare(CODE, CompareOp::Equal, -5), by_id, at(50)]), None);
    }

    #[test]
    fn a_column_without_statistics_uses_common_shares() {
        let table = orders(&[BY_STATE, BY_TIME]);
        let mut known = statistics(&table);
        known.columns.retain(|column| column.column != ColumnId(TIME as u32));
        assert_eq!(chosen(&table, Some(&known), &[compare(TIME, CompareOp::Equal, 5)]), Some(BY_TIME));
        assert_eq!(chosen(&table, Some(&known), &[compare(TIME, CompareOp::Greater, 5)]), None);
        assert_eq!(
            chosen(&table, Some(&known), &[compare(TIME, CompareOp::Equal, 5), is_state("lost")]),
            Some(BY_STATE)
        );
    }
}
