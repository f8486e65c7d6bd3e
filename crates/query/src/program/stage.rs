//! Splits a plan into stages: a relation, its grouping, an order, and a limit.

use rowmill_plan::logical::{
    AggregateCall, LogicalSetOperation, LogicalSortKey, LogicalWindow, LogicalWindowFunction, RankFunction,
    SetOperationKind,
};
use rowmill_plan::program::LookupKind;
use rowmill_plan::{ColumnId, CompareOp, ExprOp, Logical, ScalarExpr};

use super::Definitions;
use super::relation::{JoinedSources, RelationSource, RelationStep};
use crate::optimizer::facts::{equality, is_movable, split_and};
use crate::optimizer::walk::output;

/// The operators that one read of a program executes.
#[derive(Clone, Debug)]
pub(super) struct Stage<'p> {
    pub(super) relation: JoinedSources<'p>,
    pub(super) grouping: Option<Grouping<'p>>,
    /// Conditions on groups.
    pub(super) having: Vec<ScalarExpr>,
    pub(super) order: Vec<LogicalSortKey>,
    pub(super) skip: Option<ScalarExpr>,
    pub(super) limit: Option<ScalarExpr>,
    /// If order and limit apply per partition, the columns of the partition. Conditions must give each of them one
    /// value.
    partition: Vec<usize>,
    /// If order and limit apply per partition, the window that numbers the rows, and the condition on the number.
    numbered: Option<(&'p LogicalWindow, ScalarExpr)>,
    /// Conditions on the partition that were added to the relation.
    of_partition: Vec<ScalarExpr>,
    /// Whether the rows are only a part of what the statement reads.
    pub(super) is_part: bool,
}

/// The limit per partition that a condition on the only value of a window states: `row_number() <= constant`.
pub(super) fn row_number_limit<'c>(window: &LogicalWindow, condition: &'c ScalarExpr) -> Option<&'c ScalarExpr> {
    let [(number, call)] = &window.calls[..] else { return None };
    let ExprOp::Compare(CompareOp::LessOrEqual, pair) = &condition.op else { return None };
    let LogicalWindowFunction::Rank(RankFunction::RowNumber) = call.function else { return None };
    let is_limit = pair[0].as_column() == Some(number.0) && pair[1].as_constant().is_some();
    (is_limit && !window.partition.is_empty()).then_some(&pair[1])
}

/// A grouping of a relation.
#[derive(Clone, Debug)]
pub(super) struct Grouping<'p> {
    pub(super) keys: Vec<(ColumnId, ScalarExpr)>,
    pub(super) aggregates: &'p [(ColumnId, AggregateCall)],
}

impl<'p> Stage<'p> {
    /// The stage for `plan`, or `None` if programs cannot execute it.
    pub(super) fn of(plan: &'p Logical, definitions: &Definitions) -> Option<Stage<'p>> {
        match plan {
            Logical::Limit { input, skip, rows } => {
                let stage = Stage::of(input, definitions)?;
                let stage = if stage.is_cut() { Stage::over(input) } else { stage };
                Some(Stage { skip: skip.clone(), limit: rows.clone(), ..stage })
            }
            Logical::Sort { input, keys } => {
                let stage = Stage::of(input, definitions)?;
                let stage = if stage.is_cut() { Stage::over(input) } else { stage };
                Some(Stage { order: keys.clone(), ..stage })
            }
            Logical::Map { input, exprs } => {
                definitions.add(exprs);
                Stage::of(input, definitions)
            }
            Logical::Filter { input, conditions } => {
                if let Logical::Window(window) = &**input
                    && let [condition] = &conditions[..]
                    && let Some(stage) = Stage::of_first_rows(window, condition, definitions)
                {
                    return Some(stage);
                }
                let stage = Stage::of(input, definitions)?;
                let mut stage = if stage.is_cut() { Stage::over(input) } else { stage };
                let conditions = split_and(conditions.clone());
                match stage.grouping {
                    // Conditions above a grouping are HAVING, others filter the rows.
                    Some(_) => stage.having.extend(conditions),
                    None => stage.relation.conditions.extend(conditions),
                }
                Some(stage)
            }
            Logical::Group(group) if group.sets.is_none() => {
                let stage = Stage::of(&group.input, definitions)?;
                let stage = if stage.is_final() { Stage::over(&group.input) } else { stage };
                let grouping = Grouping { keys: group.keys.clone(), aggregates: &group.aggregates };
                Some(Stage { grouping: Some(grouping), order: Vec::new(), ..stage })
            }
            Logical::Distinct { input, columns, on: false } => {
                let stage = Stage::of(input, definitions)?;
                let stage = if stage.is_final() { Stage::over(input) } else { stage };
                let keys = columns.iter().map(|id| (*id, definitions.column(*id))).collect();
                let grouping = Grouping { keys, aggregates: &[] };
                Some(Stage { grouping: Some(grouping), order: Vec::new(), ..stage })
            }
            Logical::SetOperation(of) if !of.all => Stage::of_distinct(of, definitions),
            plan => Some(Stage::on(JoinedSources::of(plan, definitions)?)),
        }
    }

    /// The distinct rows of a set operation: of all inputs, or of the first input with or without an equal row in the
    /// second.
    fn of_distinct(of: &'p LogicalSetOperation, definitions: &Definitions) -> Option<Stage<'p>> {
        let kind = match of.kind {
            SetOperationKind::Union => {
                let keys = of.columns.iter().map(|id| (*id, definitions.column(*id))).collect();
                let stage = Stage::on(JoinedSources::of_source(RelationSource::Union(of)));
                return Some(Stage { grouping: Some(Grouping { keys, aggregates: &[] }), ..stage });
            }
            SetOperationKind::Intersect => LookupKind::Semi,
            SetOperationKind::Except => LookupKind::Anti,
        };
        let [(left, left_columns), (right, right_columns)] = &of.inputs[..] else { return None };
        let pairs = left_columns.iter().zip(right_columns);
        let conditions: Vec<ScalarExpr> = pairs.map(|(left, right)| definitions.same(*left, *right)).collect();
        let mut relation = JoinedSources::of_source(RelationSource::Plan(left));
        relation.steps.push(RelationStep {
            kind,
            right,
            on: conditions.clone(),
            source: RelationSource::Plan(right),
            conditions,
            compared: Vec::new(),
            mark: None,
        });
        // INTERSECT and EXCEPT are semi and anti joins, followed by DISTINCT.
        let keys = of.columns.iter().zip(left_columns).map(|(id, left)| (*id, definitions.column(*left))).collect();
        Some(Stage { grouping: Some(Grouping { keys, aggregates: &[] }), ..Stage::on(relation) })
    }

    fn on(relation: JoinedSources<'p>) -> Stage<'p> {
        Stage {
            relation,
            grouping: None,
            having: Vec::new(),
            order: Vec::new(),
            skip: None,
            limit: None,
            partition: Vec::new(),
            numbered: None,
            of_partition: Vec::new(),
            is_part: false,
        }
    }

    /// The rows of this stage in another grouping, and no more.
    pub(super) fn of_grouping(&self, grouping: Grouping<'p>) -> Stage<'p> {
        Stage { grouping: Some(grouping), ..Stage::on(self.relation.clone()) }
    }

    /// The stage over a relation [without outer rows](JoinedSources::without_outer_rows).
    pub(super) fn without_outer_rows(&self, definitions: &Definitions) -> Option<Stage<'p>> {
        Some(Stage { relation: self.relation.without_outer_rows(definitions)?, ..self.clone() })
    }

    /// A stage that reads the rows of a nested plan.
    fn over(plan: &'p Logical) -> Stage<'p> {
        Stage::on(JoinedSources::of_source(RelationSource::Plan(plan)))
    }

    /// Groups of a plan by expressions over its rows, as new columns.
    pub(super) fn of_keys(
        plan: &'p Logical,
        keys: Vec<(ColumnId, ScalarExpr)>,
        definitions: &Definitions,
    ) -> Option<Stage<'p>> {
        let stage = Stage::of(plan, definitions)?;
        let stage = if stage.is_final() { Stage::over(plan) } else { stage };
        let grouping = Some(Grouping { keys, aggregates: &[] });
        Some(Stage { grouping, order: Vec::new(), is_part: true, ..stage })
    }

    /// The first rows of each partition of a window that numbers rows.
    fn of_first_rows(
        window: &'p LogicalWindow,
        condition: &ScalarExpr,
        definitions: &Definitions,
    ) -> Option<Stage<'p>> {
        let limit = row_number_limit(window, condition)?;
        let stage = Stage::of(&window.input, definitions)?;
        let stage = if stage.is_final() { Stage::over(&window.input) } else { stage };
        let partition = window.partition.iter().map(ScalarExpr::as_column).collect::<Option<_>>()?;
        let numbered = Some((window, condition.clone()));
        Some(Stage { order: window.order.clone(), limit: Some(limit.clone()), partition, numbered, ..stage })
    }

    /// Whether it gives only some rows.
    fn is_cut(&self) -> bool {
        self.skip.is_some() || self.limit.is_some()
    }

    /// Whether it is more than a relation, so only an order and a limit can be added.
    fn is_final(&self) -> bool {
        self.is_cut() || self.grouping.is_some()
    }

    /// The stage that gives the same rows by row numbers of the window. It is used if order and limit apply per
    /// partition and no condition selects a single partition.
    pub(super) fn by_number(&self) -> Option<Stage<'p>> {
        let (window, condition) = self.numbered.clone()?;
        let mut stage = Stage::on(JoinedSources::of_source(RelationSource::Windows(window)));
        stage.relation.conditions.push(condition);
        stage.relation.conditions.extend(self.of_partition.iter().cloned());
        Some(stage)
    }

    /// Whether order and limit apply per partition and no condition selects a single one.
    pub(super) fn is_partitioned(&self) -> bool {
        !self.partition.is_empty()
    }

    /// Adds a condition, if it can be tested on single rows of the relation, and returns whether it can. The condition
    /// may refer to columns of the stage and to columns for which `is_known` is true.
    pub(super) fn push(
        &mut self,
        condition: &ScalarExpr,
        is_known: &dyn Fn(usize) -> bool,
        definitions: &Definitions,
    ) -> bool {
        if !is_movable(condition) {
            return false;
        }
        // A limit per partition: only a condition that selects one partition may move below it.
        if self.is_partitioned() {
            return self.push_partition(condition, is_known);
        }
        if self.is_cut() {
            return false;
        }
        let Some(grouping) = &self.grouping else {
            self.relation.conditions.push(definitions.resolve(condition, is_known));
            return true;
        };
        let mut condition = condition.clone();
        let mut fits = true;
        condition.rewrite(&mut |part| {
            let Some(id) = part.as_column().filter(|id| !is_known(*id)) else { return };
            match grouping.keys.iter().find(|(key, _)| key.0 == id) {
                Some((_, key)) => *part = key.clone(),
                // An aggregate is not known for single rows, so the condition must stay.
                None => fits = false,
            }
        });
        if fits {
            self.relation.conditions.push(condition);
        }
        fits
    }

    /// Adds a condition that one column of the partition equals a known value.
    fn push_partition(&mut self, condition: &ScalarExpr, is_known: &dyn Fn(usize) -> bool) -> bool {
        let Some((left, right, _)) = equality(condition) else { return false };
        let knows = |expr: &ScalarExpr| !expr.any(&|part| part.as_column().is_some_and(|id| !is_known(id)));
        for (own, other) in [(left, right), (right, left)] {
            if let Some(id) = own.as_column()
                && let Some(at) = self.partition.iter().position(|column| *column == id)
                && knows(other)
            {
                // The rows now have a single value of this column, so the limit applies to all of them.
                self.partition.remove(at);
                self.relation.conditions.push(condition.clone());
                self.of_partition.push(condition.clone());
                return true;
            }
        }
        false
    }

    /// The stage with semi joins rewritten to joins with the distinct values of their right sides, so those values
    /// may be read first. `add_column` makes new columns.
    pub(super) fn with_semi_joins_as_sources(&self, add_column: &dyn Fn(&ScalarExpr) -> ColumnId) -> Option<Stage<'p>> {
        let mut stage = self.clone();
        let mut is_changed = false;
        for step in std::mem::take(&mut stage.relation.steps) {
            let own = output(step.right);
            let is_own = |id: usize| own.contains(ColumnId(id));
            let mut pairs = Vec::new();
            for condition in &step.on {
                let of_plan = |expr: &ScalarExpr| !expr.any(&|part| part.as_column().is_some_and(|id| !is_own(id)));
                let of_others = |expr: &ScalarExpr| !expr.any(&|part| part.as_column().is_some_and(is_own));
                let Some((left, right, false)) = equality(condition) else { break };
                match (of_others(left) && of_plan(right), of_others(right) && of_plan(left)) {
                    (true, _) => pairs.push((left, right)),
                    (_, true) => pairs.push((right, left)),
                    _ => break,
                }
            }
            // Other conditions than equalities cannot be joined by distinct values.
            if step.kind != LookupKind::Semi || pairs.is_empty() || pairs.len() < step.on.len() {
                stage.relation.steps.push(step);
                continue;
            }
            let mut keys = Vec::with_capacity(pairs.len());
            let plan = step.right;
            for (other, key) in pairs {
                let id = add_column(key);
                keys.push((id, key.clone()));
                let made = ScalarExpr::id(id, key.kind.clone());
                stage.relation.conditions.push(ScalarExpr::compare(other.clone(), CompareOp::Equal, made));
            }
            stage.relation.sources.push(RelationSource::Keys(plan, keys));
            is_changed = true;
        }
        is_changed.then_some(stage)
    }
}
