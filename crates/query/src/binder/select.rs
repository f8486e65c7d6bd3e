//! One SELECT.
//!
//! ```text
//! FROM -> WHERE -> GROUP BY -> HAVING -> windows -> QUALIFY -> select list -> DISTINCT -> ORDER BY
//! ```
//!
//! All expressions are bound first, because only they show which aggregates and windows are needed. Then we build the
//! operators from the bottom up.

use std::collections::{HashMap, HashSet};

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::logical::{LogicalSortKey, LogicalWindow};
use rowmill_plan::{ColumnId, ExprOp, Logical, ScalarExpr};
use sqlparser::ast::{self, Distinct, GroupByExpr, Select, SelectFlavor, SelectItem};

use super::grouping::GroupKeys;
use super::place::unsupported;
use super::projection::SelectedItem;
use super::query::{filter, map};
use super::sample::{FilledUses, Sample, bucket_order};
use super::scope::{AliasUse, Clause, NamedColumn, PendingWindow, SelectLevel};
use super::walk::{rewrite_deep, window_exprs, window_exprs_mut};
use super::{Binder, BoundRows};

/// The expressions of a SELECT that are computed after its groups.
struct SelectExprs {
    items: Vec<SelectedItem>,
    having: Option<ScalarExpr>,
    qualify: Option<ScalarExpr>,
    distinct_on: Option<Vec<ScalarExpr>>,
    order: Vec<LogicalSortKey>,
}

impl SelectExprs {
    /// The expressions other than the items.
    fn others(&self) -> impl Iterator<Item = &ScalarExpr> {
        let order = self.order.iter().map(|key| &key.expr);
        self.having.iter().chain(&self.qualify).chain(self.distinct_on.iter().flatten()).chain(order)
    }

    fn filled_uses<'s>(&'s mut self, windows: &'s mut [PendingWindow]) -> FilledUses<'s> {
        let mut others: Vec<&mut ScalarExpr> = Vec::new();
        others.extend(&mut self.having);
        others.extend(&mut self.qualify);
        others.extend(self.distinct_on.iter_mut().flatten());
        others.extend(self.order.iter_mut().map(|key| &mut key.expr));
        FilledUses { items: &mut self.items, others, windows }
    }
}

impl Binder<'_> {
    /// Binds a SELECT with the ORDER BY of its query.
    pub(super) fn select(&mut self, select: &Select, order: Option<&ast::OrderBy>) -> Result<BoundRows> {
        refuse_clauses(select)?;
        self.levels.push(SelectLevel::new(self.columns_end()));
        let mut plan = self.tables_of_from(&select.from)?;
        let end = self.columns_end();
        self.level().end = Some(end);

        self.level().clause = Clause::Where;
        if let Some(condition) = &select.selection {
            let condition = self.with_names_of_list(condition, &select.projection);
            let condition = self.where_condition(&condition)?;
            self.level().conditions.push(condition.clone());
            filter(&mut plan, condition);
        }
        plan = self.latest_on(plan, &select.distribute_by)?;
        let sample = self.sample_clause(&select.cluster_by)?;
        self.level().sampled_time = sample.as_ref().map(|sample| sample.time.clone());
        // Named windows must be known before the select list, which may use them.
        self.define_windows(&select.named_window)?;

        self.level().clause = Clause::Select;
        // An item may use the names of those before it.
        self.level().alias_use = AliasUse::Fallback;
        let items = match select.flavor {
            SelectFlavor::FromFirstNoSelect => self.projection(&[SelectItem::Wildcard(Default::default())])?,
            _ => self.projection(&select.projection)?,
        };
        // The clauses after the select list may use its names.
        self.level().aliases = items.iter().map(SelectedItem::alias).collect();

        self.level().clause = Clause::GroupBy;
        self.level().alias_use = AliasUse::Fallback;
        let keys = self.group_by(&select.group_by, (&select.projection, &items))?;

        self.level().clause = Clause::Having;
        let having = select.having.as_ref().map(|condition| self.condition(condition)).transpose()?;
        self.level().clause = Clause::Qualify;
        let qualify = select.qualify.as_ref().map(|condition| self.condition(condition)).transpose()?;

        self.level().clause = Clause::OrderBy;
        let distinct_on = match &select.distinct {
            Some(Distinct::On(exprs)) => Some(self.distinct_on(exprs, &items)?),
            _ => None,
        };
        let order = match order {
            Some(order) => self.order_keys(order, &items)?,
            None => Vec::new(),
        };
        let is_distinct = matches!(select.distinct, Some(Distinct::Distinct));
        if is_distinct {
            self.check_distinct_order(&order, &items)?;
        }
        let exprs = SelectExprs { items, having, qualify, distinct_on, order };
        self.plan_select(plan, (keys, sample), exprs, is_distinct)
    }

    /// Builds the operators above WHERE.
    fn plan_select(
        &mut self,
        mut plan: Logical,
        (mut keys, sample): (GroupKeys, Option<Sample>),
        mut exprs: SelectExprs,
        is_distinct: bool,
    ) -> Result<BoundRows> {
        let conditions = std::mem::take(&mut self.level().conditions);
        // HAVING or an aggregate groups the rows even without GROUP BY.
        let sampled = match &sample {
            Some(sample) => {
                let sampled = self.sampled_rows(&mut plan, sample)?;
                self.sampled_keys(&mut keys, sample, &sampled, &exprs.items)?;
                Some((sample, sampled))
            }
            None => None,
        };
        let mut windows = std::mem::take(&mut self.level().windows);
        if !keys.is_written && exprs.having.is_none() {
            let gone: HashSet<usize> =
                self.level().window_joins.iter().flat_map(|join| join.right_columns.iter().copied()).collect();
            if self.aggregates_of_windows(&mut plan)? {
                self.refuse_window_columns(&exprs.items, &gone)?;
                for expr in exprs.others() {
                    self.refuse_columns(expr, &gone)?;
                }
            }
        }
        let is_grouped = keys.is_written || exprs.having.is_some() || !self.level().aggregates.is_empty();
        if is_grouped {
            self.add_determined_keys(&mut keys, &exprs, &windows);
            let (groups, mut keys) = self.plan_groups(plan, keys)?;
            plan = groups;
            let key_columns = keys.clone();
            if let Some((sample, sampled)) = &sampled {
                sample.note_bucket(sampled, &mut keys);
            }
            self.regroup(&keys, &mut exprs, &mut windows)?;
            let mut filled = std::mem::take(&mut self.level().filled_calls);
            filled.iter_mut().try_for_each(|call| self.regroup_expr(&mut call.value, &keys))?;
            self.level().filled_calls = filled;
            plan = self.fill_gaps(plan, &key_columns, &conditions)?;
            if let Some((sample, sampled)) = &sampled {
                plan = self.fill_sample(plan, sample, sampled, &key_columns, exprs.filled_uses(&mut windows))?;
                let bucket = sampled.bucket_column(&key_columns);
                self.time_columns.insert(bucket);
                // Rows come in the order of time unless the query says another one. Only the outermost order is seen.
                if exprs.order.is_empty() && exprs.distinct_on.is_none() && !is_distinct && self.levels.len() == 1 {
                    exprs.order.push(bucket_order(self.columns.expr(bucket)));
                }
            }
        } else if let Some((_, arguments)) = self.level().groupings.first() {
            let shown = arguments.len();
            return Err(Error::new(ErrorKind::Grouping, format!("grouping of {shown} columns needs GROUP BY")));
        }
        if !is_grouped && (self.level().gapfill.is_some() || !self.level().filled_calls.is_empty()) {
            let message = "time_bucket_gapfill, locf and interpolate need a GROUP BY";
            return Err(Error::new(ErrorKind::Grouping, message));
        }
        if let Some(condition) = exprs.having.take() {
            filter(&mut plan, condition);
        }
        plan = plan_windows(plan, windows);
        if let Some(condition) = exprs.qualify.take() {
            filter(&mut plan, condition);
        }
        let unnests = std::mem::take(&mut self.level().unnests);
        if !unnests.is_empty() {
            plan = Logical::Unnest { input: Box::new(plan), lists: unnests, ordinality: None, outer: false };
        }
        // Everything is computed except the select list itself. DISTINCT and ORDER BY read its columns.
        self.forward_references(&mut exprs);
        let SelectExprs { items, distinct_on, order, .. } = exprs;
        let (mut computed, columns) = self.output(items);
        // DISTINCT ON compares columns, so its expressions are computed together with the select list.
        let distinct_on = distinct_on.map(|on| self.columns_of(on, &mut computed));
        map(&mut plan, computed);
        self.levels.pop();
        if is_distinct {
            let columns = distinct_ids(columns.iter().map(|column| column.id));
            plan = Logical::Distinct { input: Box::new(plan), columns, on: false };
        }
        if !order.is_empty() {
            plan = Logical::Sort { input: Box::new(plan), keys: order };
        }
        // DISTINCT ON keeps the first row in the order, so it must come after the sort.
        if let Some(columns) = distinct_on {
            plan = Logical::Distinct { input: Box::new(plan), columns: distinct_ids(columns.into_iter()), on: true };
        }
        Ok(BoundRows { plan, columns })
    }

    /// Adds the columns that the keys determine and that an expression after the grouping reads.
    fn add_determined_keys(&self, keys: &mut GroupKeys, exprs: &SelectExprs, windows: &[PendingWindow]) {
        // A set without the primary key does not determine the other columns of its table.
        if !keys.is_written || keys.has_sets() {
            return;
        }
        let mut determined = Vec::new();
        let mut add = |expr: &ScalarExpr| self.determined_columns(expr, keys, &mut determined);
        exprs.items.iter().for_each(|item| add(&item.expr));
        exprs.others().for_each(&mut add);
        for window in windows {
            window.partition.iter().for_each(&mut add);
            window.order.iter().for_each(|key| add(&key.expr));
            window_exprs(&window.call, &mut add);
        }
        determined.into_iter().for_each(|column| {
            keys.add(self.columns.expr(column));
        });
    }

    /// Replaces the group keys in every expression that is computed after grouping.
    fn regroup(
        &self,
        keys: &[(ColumnId, ScalarExpr)],
        exprs: &mut SelectExprs,
        windows: &mut [PendingWindow],
    ) -> Result<()> {
        for item in &mut exprs.items {
            self.regroup_expr(&mut item.expr, keys).map_err(|error| self.at(error, item.span))?;
        }
        let mut all: Vec<&mut ScalarExpr> = Vec::new();
        all.extend(&mut exprs.having);
        all.extend(&mut exprs.qualify);
        all.extend(exprs.distinct_on.iter_mut().flatten());
        all.extend(exprs.order.iter_mut().map(|key| &mut key.expr));
        for expr in all {
            self.regroup_expr(expr, keys)?;
        }
        for window in windows {
            let mut result = Ok(());
            let mut each = |expr: &mut ScalarExpr| {
                if result.is_ok() {
                    result = self.regroup_expr(expr, keys);
                }
            };
            window.partition.iter_mut().for_each(&mut each);
            window.order.iter_mut().for_each(|key| each(&mut key.expr));
            window_exprs_mut(&mut window.call, &mut each);
            result?;
        }
        Ok(())
    }

    /// If an item turns out to be a plain column, references to it are replaced by that column.
    fn forward_references(&self, exprs: &mut SelectExprs) {
        let mut forwards: HashMap<usize, ScalarExpr> = HashMap::new();
        for item in &mut exprs.items {
            let Some(made) = item.made else { continue };
            if item.expr.as_column().is_some_and(|column| self.is_own(column)) {
                forwards.insert(made.0, item.expr.clone());
                item.made = None;
            }
        }
        if forwards.is_empty() {
            return;
        }
        let uses = exprs.distinct_on.iter_mut().flatten().chain(exprs.order.iter_mut().map(|key| &mut key.expr));
        for expr in uses {
            rewrite_deep(expr, &mut |part| {
                if let ExprOp::Column(column) = part.op
                    && let Some(target) = forwards.get(&column)
                {
                    *part = target.clone();
                }
            });
        }
    }

    /// Whether the current level makes the column, and not an enclosing query.
    pub(super) fn is_own(&self, column: usize) -> bool {
        let (level, outer) = self.levels.split_last().expect("a SELECT is being bound");
        column >= level.first && !outer.iter().any(|level| level.computes(column))
    }

    /// The expressions that the select list computes, and the columns of the result.
    pub(super) fn output(&mut self, items: Vec<SelectedItem>) -> (Vec<(ColumnId, ScalarExpr)>, Vec<NamedColumn>) {
        let mut computed = Vec::new();
        let mut columns = Vec::with_capacity(items.len());
        for item in items {
            let id = match (item.made, item.expr.as_column()) {
                (None, Some(column)) => ColumnId(column),
                (made, _) => {
                    let id = made.unwrap_or_else(|| self.add_column(&item.spelled, item.expr.kind.clone()));
                    computed.push((id, item.expr));
                    id
                }
            };
            columns.push(NamedColumn { id, name: item.name, spelled: item.spelled });
        }
        (computed, columns)
    }

    /// The columns that hold `exprs`. Expressions that are not columns yet are added to `computed`.
    fn columns_of(&mut self, exprs: Vec<ScalarExpr>, computed: &mut Vec<(ColumnId, ScalarExpr)>) -> Vec<ColumnId> {
        exprs
            .into_iter()
            .map(|expr| match expr.as_column() {
                Some(column) => ColumnId(column),
                None => {
                    let id = self.add_column("distinct", expr.kind.clone());
                    computed.push((id, expr));
                    id
                }
            })
            .collect()
    }
}

/// Adds the window calls above `plan`, with one operator for all calls of the same partition and order.
fn plan_windows(mut plan: Logical, windows: Vec<PendingWindow>) -> Logical {
    let mut operators: Vec<LogicalWindow> = Vec::new();
    for window in windows {
        let same =
            |operator: &&mut LogicalWindow| operator.partition == window.partition && operator.order == window.order;
        match operators.iter_mut().find(same) {
            Some(operator) => operator.calls.push((window.id, window.call)),
            None => operators.push(LogicalWindow {
                input: Box::new(Logical::one_row()),
                partition: window.partition,
                order: window.order,
                calls: vec![(window.id, window.call)],
                top: None,
            }),
        }
    }
    for mut operator in operators {
        operator.input = Box::new(plan);
        plan = Logical::Window(operator);
    }
    plan
}

fn distinct_ids(ids: impl Iterator<Item = ColumnId>) -> Vec<ColumnId> {
    let mut distinct: Vec<ColumnId> = Vec::new();
    for id in ids {
        if !distinct.contains(&id) {
            distinct.push(id);
        }
    }
    distinct
}

fn refuse_clauses(select: &Select) -> Result<()> {
    let modifiers = match &select.group_by {
        GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) => modifiers,
    };
    if !modifiers.is_empty() {
        return Err(unsupported("WITH ROLLUP, CUBE or TOTALS after GROUP BY")
            .hint("write GROUP BY ROLLUP (...), CUBE (...) or GROUPING SETS (...)"));
    }
    if select.into.is_some() {
        return Err(unsupported("SELECT INTO").hint("CREATE TABLE name AS SELECT ... does the same"));
    }
    if select.top.is_some() {
        return Err(Error::new(ErrorKind::Unsupported, "not supported: TOP").hint("LIMIT at the end does the same"));
    }
    let clauses = [
        (!select.optimizer_hints.is_empty(), "an optimizer hint"),
        (select.select_modifiers.is_some(), "a modifier after SELECT"),
        (select.exclude.is_some(), "EXCLUDE after the select list"),
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (!select.sort_by.is_empty(), "SORT BY"),
        (select.value_table_mode.is_some(), "SELECT AS STRUCT or AS VALUE"),
    ];
    match clauses.iter().find(|(is_there, _)| *is_there) {
        Some((_, clause)) => Err(unsupported(clause)),
        None => Ok(()),
    }
}
