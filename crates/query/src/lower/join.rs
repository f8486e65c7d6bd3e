//! Joins: the choice of the build side, and the rows that each kind of join gives.

use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_expr::fold::can_fail;
use rowmill_plan::logical::{LogicalJoin, LogicalJoinKind};
use rowmill_plan::{self as plan, ColumnId, CompareOp, ExprOp, JoinKind, Node, ScalarExpr, Volatility};

use super::Lowerer;
use super::relation::{LoweredRelation, RelationSource};
use crate::column_set::ColumnSet;
use crate::optimizer::facts::{can_only_overflow, widened_integer};

/// With fewer rows of the build side for each key, a search by a computed bound saves little.
const COMPUTED_BOUNDS_ROWS_MIN: f64 = 4.0;

/// A join whose build side is chosen.
pub(super) struct JoinSpec {
    pub(super) kind: JoinKind,
    /// Pairs of key columns: one of the build side and one of the probe side.
    pub(super) on: Vec<(ColumnId, ColumnId)>,
    pub(super) nulls_equal: bool,
    pub(super) null_aware: bool,
    /// Further conditions that must be true, over the columns of both sources.
    pub(super) conditions: Vec<ScalarExpr>,
    /// The columns that the join must give.
    pub(super) kept: ColumnSet,
    /// The mark of a mark join.
    pub(super) mark: Option<ColumnId>,
    /// Estimated rows of the result, if the join order was chosen by it.
    pub(super) rows: Option<f64>,
}

impl JoinSpec {
    /// An inner join.
    pub(super) fn inner(on: Vec<(ColumnId, ColumnId)>, kept: ColumnSet) -> JoinSpec {
        JoinSpec {
            kind: JoinKind::Inner,
            on,
            nulls_equal: false,
            null_aware: false,
            conditions: Vec::new(),
            kept,
            mark: None,
            rows: None,
        }
    }
}

/// A join that is not inner, before its build side is chosen.
#[derive(Clone, Debug)]
pub(super) struct OperatorSpec {
    pub(super) kind: LogicalJoinKind,
    /// Conditions that must be true for a pair, over the columns of both sources.
    pub(super) conditions: Vec<ScalarExpr>,
    /// Whether it computes `NOT IN`.
    pub(super) null_aware: bool,
    /// Whether the mark is NULL if a condition is NULL for a pair and true for none.
    pub(super) is_truth: bool,
}

/// The conditions of a join, split by their use.
pub(super) struct SplitConditions {
    /// Equal expressions of the left and of the right side.
    pub(super) equal: Vec<(ScalarExpr, ScalarExpr)>,
    /// Whether NULL equals NULL in `equal`.
    pub(super) nulls_equal: bool,
    pub(super) others: Vec<ScalarExpr>,
}

impl Lowerer<'_> {
    pub(super) fn join(&mut self, join: &LogicalJoin, needed: &ColumnSet) -> Result<LoweredRelation> {
        let mut read = needed.clone();
        join.conditions.iter().chain(&join.compared).for_each(|condition| read.add_columns_of(condition));
        let left = self.lower(&join.left, &read)?;
        let right = self.lower(&join.right, &read)?;
        if join.kind == LogicalJoinKind::Inner {
            return self.inner_join(left, right, &join.conditions, &read);
        }
        let left_filled = join.kind == LogicalJoinKind::Full;
        let right_filled = matches!(join.kind, LogicalJoinKind::Left | LogicalJoinKind::Full | LogicalJoinKind::Single);
        let mut right = self.own_columns(right, right_filled, &read, needed)?;
        // If the join may be reordered, its left side stays a graph.
        let may_move = is_operator(join);
        let mut left = match may_move {
            true => left,
            false => self.own_columns(left, left_filled, &read, needed)?,
        };
        let resolve = |exprs: &[ScalarExpr]| -> Vec<ScalarExpr> {
            exprs.iter().map(|expr| right.resolve(&left.resolve(expr))).collect()
        };
        let (mut conditions, compared) = (resolve(&join.conditions), resolve(&join.compared));
        // The conditions read the columns of the source now.
        right.keep_derived(needed);
        if !may_move {
            left.keep_derived(needed);
        }
        if let (LogicalJoinKind::Mark(mark), false, false) = (join.kind, conditions.is_empty(), compared.is_empty()) {
            return self.compared_mark(mark, left, right, conditions, compared, read);
        }
        let mut null_aware = false;
        match join.kind {
            _ if compared.is_empty() => {}
            LogicalJoinKind::Anti => match &compared[..] {
                [only] if conditions.is_empty() && is_key(only, &left, &right) => {
                    null_aware = true;
                    conditions.push(only.clone());
                }
                _ => conditions.push(not_false(compared.clone())),
            },
            _ => conditions.extend(compared.iter().cloned()),
        }
        let is_truth = !compared.is_empty() && matches!(join.kind, LogicalJoinKind::Mark(_));
        let spec = OperatorSpec { kind: join.kind, conditions, null_aware, is_truth };
        if may_move {
            return self.operator(left, right, spec, &read);
        }
        self.operator_join(spec, left, right, read, None)
    }

    /// Lowers a join that is not inner. `rows` are its estimated rows, if they are known.
    pub(super) fn operator_join(
        &mut self,
        spec: OperatorSpec,
        left: LoweredRelation,
        right: LoweredRelation,
        kept: ColumnSet,
        rows: Option<f64>,
    ) -> Result<LoweredRelation> {
        let OperatorSpec { kind: of_rows, conditions, null_aware, is_truth } = spec;
        let SplitConditions { equal, nulls_equal, others } = split(conditions, &left, &right);
        let (of_left, of_right): (Vec<ScalarExpr>, Vec<ScalarExpr>) = equal.into_iter().unzip();
        let (left, of_left) = self.with_columns(left, &of_left)?;
        let (right, of_right) = self.with_columns(right, &of_right)?;
        let left_is_smaller = self.rows_of(&left) <= self.rows_of(&right);
        // With `nulls_equal`, a unique key may match several rows, because it may hold NULL more than once.
        let has_one_match = !nulls_equal && self.is_unique(&right, &of_right);
        let (build_left, kind) = match of_rows {
            LogicalJoinKind::Inner => unreachable!("inner joins were handled"),
            // A single join on the build side cannot detect a second match, so the key must be unique.
            LogicalJoinKind::Single if left_is_smaller && has_one_match => (true, JoinKind::BuildOuter),
            LogicalJoinKind::Left if left_is_smaller => (true, JoinKind::BuildOuter),
            LogicalJoinKind::Left => (false, JoinKind::ProbeOuter),
            LogicalJoinKind::Full => (left_is_smaller, JoinKind::FullOuter),
            LogicalJoinKind::Semi if left_is_smaller => (true, JoinKind::BuildSemi),
            LogicalJoinKind::Semi => (false, JoinKind::ProbeSemi),
            LogicalJoinKind::Anti if left_is_smaller && !null_aware => (true, JoinKind::BuildAnti),
            LogicalJoinKind::Anti => (false, JoinKind::ProbeAnti),
            LogicalJoinKind::Mark(_) if is_truth => (false, JoinKind::ProbeTruth),
            LogicalJoinKind::Mark(_) => (false, JoinKind::ProbeMark),
            LogicalJoinKind::Single => (false, JoinKind::ProbeSingle),
        };
        let mark = match of_rows {
            LogicalJoinKind::Mark(id) => Some(id),
            _ => None,
        };
        let gives_right = !matches!(of_rows, LogicalJoinKind::Semi | LogicalJoinKind::Anti | LogicalJoinKind::Mark(_));
        let mut derived = left.derived.clone();
        if gives_right {
            derived.extend(right.derived.iter().cloned());
        }
        let mut kept = kept;
        derived.iter().for_each(|(_, expr)| kept.add_columns_of(expr));
        let on: Vec<(ColumnId, ColumnId)> = match build_left {
            true => of_left.into_iter().zip(of_right).collect(),
            false => of_right.into_iter().zip(of_left).collect(),
        };
        // The smaller side should be the build side, because it is kept in memory.
        let (build, probe) = if build_left { (left, right) } else { (right, left) };
        let spec =
            JoinSpec { kind, nulls_equal, null_aware, conditions: others, mark, rows, ..JoinSpec::inner(on, kept) };
        let joined = self.join_node(spec, build, probe)?;
        Ok(LoweredRelation { derived, ..joined })
    }

    /// Whether `columns` are unique in the relation.
    fn is_unique(&self, relation: &LoweredRelation, columns: &[ColumnId]) -> bool {
        let known: Vec<usize> = columns.iter().filter_map(|column| relation.position(*column)).collect();
        self.estimator.is_unique(relation.node(), &known)
    }

    /// Lowers a mark join that has both two-valued and three-valued conditions. One join finds whether a pair matches,
    /// and another one finds whether a pair may match.
    fn compared_mark(
        &mut self,
        mark: ColumnId,
        left: LoweredRelation,
        right: LoweredRelation,
        conditions: Vec<ScalarExpr>,
        compared: Vec<ScalarExpr>,
        kept: ColumnSet,
    ) -> Result<LoweredRelation> {
        let mut matches = conditions.clone();
        matches.extend(compared.iter().cloned());
        let mut may_match = conditions;
        may_match.push(not_false(compared));
        let is_match = self.columns.add("matches", DataType::Boolean);
        let may_be = self.columns.add("may match", DataType::Boolean);
        let mut kept = kept;
        kept.insert(is_match);
        left.derived.iter().for_each(|(_, expr)| kept.add_columns_of(expr));
        may_match.iter().for_each(|condition| kept.add_columns_of(condition));
        let rows = self.mark_join(is_match, left, right.clone(), matches, &kept)?;
        let mut rows = self.mark_join(may_be, rows, right, may_match, &kept)?;
        let column = |id: ColumnId| ScalarExpr::id(id, DataType::Boolean);
        let whens =
            vec![(column(is_match), ScalarExpr::literal(true)), (column(may_be), ScalarExpr::null(DataType::Boolean))];
        let otherwise = Some(Box::new(ScalarExpr::literal(false)));
        rows.derived.push((mark, ScalarExpr::new(DataType::Boolean, ExprOp::Case { whens, otherwise })));
        Ok(rows)
    }

    /// The rows of `left` with a mark that says whether all conditions are true for some pair.
    fn mark_join(
        &mut self,
        mark: ColumnId,
        left: LoweredRelation,
        right: LoweredRelation,
        conditions: Vec<ScalarExpr>,
        kept: &ColumnSet,
    ) -> Result<LoweredRelation> {
        let SplitConditions { equal, nulls_equal, others } = split(conditions, &left, &right);
        let (of_left, of_right): (Vec<ScalarExpr>, Vec<ScalarExpr>) = equal.into_iter().unzip();
        let (left, of_left) = self.with_columns(left, &of_left)?;
        let (right, of_right) = self.with_columns(right, &of_right)?;
        let on = of_right.into_iter().zip(of_left).collect();
        let derived = left.derived.clone();
        // The columns that wait read the keys that were just made, so the join must keep those.
        let mut kept = kept.clone();
        derived.iter().for_each(|(_, expr)| kept.add_columns_of(expr));
        let spec = JoinSpec {
            kind: JoinKind::ProbeMark,
            nulls_equal,
            conditions: others,
            mark: Some(mark),
            ..JoinSpec::inner(on, kept)
        };
        Ok(LoweredRelation { derived, ..self.join_node(spec, right, left)? })
    }

    /// Settles a side of a join that reads the columns `read`. If the join fills the side with NULLs, every column of
    /// `given` must be stored in its source, because a waiting expression would be computed over the NULLs.
    fn own_columns(
        &mut self,
        side: LoweredRelation,
        is_filled: bool,
        read: &ColumnSet,
        given: &ColumnSet,
    ) -> Result<LoweredRelation> {
        let mut side = self.settled(side, read)?;
        side.keep_derived(read);
        let stored = side.derived.iter().filter(|(id, _)| is_filled && given.contains(*id));
        let stored: Vec<ScalarExpr> = stored.map(|(id, expr)| ScalarExpr::id(*id, expr.kind.clone())).collect();
        if stored.is_empty() { Ok(side) } else { self.with_derived_columns(side, &stored) }
    }

    /// Adds every derived column of `exprs` to the source of `relation`, under its own id.
    fn with_derived_columns(&mut self, relation: LoweredRelation, exprs: &[ScalarExpr]) -> Result<LoweredRelation> {
        let mut ids = relation.ids.clone();
        let mut columns: Vec<plan::Expr> = (0..ids.len()).map(plan::Expr::Column).collect();
        for expr in exprs {
            columns.push(self.expr(expr, &relation)?);
            ids.push(ColumnId(expr.as_column().expect("a derived column is a column")));
        }
        let input = Arc::clone(relation.node());
        let node = Node::Project { input, exprs: columns, schema: self.schema(&ids) };
        let derived = relation.derived.into_iter().filter(|(id, _)| !ids.contains(id)).collect();
        Ok(LoweredRelation { derived, ..LoweredRelation::new(node, ids) })
    }

    /// Builds the node of a join whose details are all decided.
    pub(super) fn join_node(
        &mut self,
        spec: JoinSpec,
        build: LoweredRelation,
        probe: LoweredRelation,
    ) -> Result<LoweredRelation> {
        let (build, probe, bounds) = self.with_bounds(&spec, build, probe)?;
        let position =
            |relation: &LoweredRelation, id: ColumnId| relation.position(id).expect("a key is a column of its side");
        let on: Vec<(usize, usize)> = spec
            .on
            .iter()
            .map(|(of_build, of_probe)| (position(&build, *of_build), position(&probe, *of_probe)))
            .collect();
        let pairs: Vec<ColumnId> = build.ids.iter().chain(&probe.ids).copied().collect();
        let condition = match spec.conditions.is_empty() {
            true => None,
            false => Some(self.positioned(&ScalarExpr::and(spec.conditions), &pairs, &[&build, &probe])?),
        };
        let of_build = build.ids.len();
        // Semi, anti and mark joins give the columns of one side only.
        let given = match spec.kind {
            kind if kind.asks_of_probe() => of_build..pairs.len(),
            JoinKind::BuildSemi | JoinKind::BuildAnti => 0..of_build,
            _ => 0..pairs.len(),
        };
        let mut output: Vec<usize> = given.filter(|place| spec.kept.contains(pairs[*place])).collect();
        let mut ids: Vec<ColumnId> = output.iter().map(|place| pairs[*place]).collect();
        if let Some(mark) = spec.mark {
            output.push(pairs.len());
            ids.push(mark);
        }
        let node = plan::Join {
            build: Arc::clone(build.node()),
            probe: Arc::clone(probe.node()),
            kind: spec.kind,
            on,
            nulls_equal: spec.nulls_equal,
            null_aware: spec.null_aware,
            condition,
            bounds,
            output,
            rows: spec.rows,
            schema: self.schema(&ids),
        };
        Ok(LoweredRelation::new(Node::Join(node), ids))
    }

    /// Finds the bounds of a join, and adds the columns that they compare to its sides. The first bound is of the
    /// column of the build side that has a lower and an upper bound, if there is one.
    fn with_bounds(
        &mut self,
        spec: &JoinSpec,
        build: LoweredRelation,
        probe: LoweredRelation,
    ) -> Result<(LoweredRelation, LoweredRelation, Vec<plan::JoinBound>)> {
        let mut compared: Vec<(ScalarExpr, CompareOp, ScalarExpr)> = Vec::new();
        let has_long_lists = spec.on.is_empty() || self.rows_per_key(spec, &build) >= COMPUTED_BOUNDS_ROWS_MIN;
        for condition in &spec.conditions {
            let ExprOp::Compare(op, pair) = &condition.op else { continue };
            // We must project a computed bound, and filters on keys do not pass a projection that may fail.
            if !has_long_lists && pair.iter().any(|side| side.as_column().is_none()) {
                continue;
            }
            let is_bound = !matches!(op, CompareOp::Equal | CompareOp::NotEqual);
            // The bound is computed for each row of a side, and the condition once more for each pair.
            if !is_bound || !can_only_overflow(condition) || condition.volatility() == Volatility::Volatile {
                continue;
            }
            let Some(of_sides) = sides(&pair[0], &pair[1], &build, &probe) else { continue };
            let op = if of_sides.0 == pair[0] { *op } else { op.flipped() };
            let (of_build, of_probe) = without_widening(of_sides);
            compared.push((of_build, op, of_probe));
        }
        let is_double = |of_build: &ScalarExpr| compared.iter().filter(|(other, ..)| other == of_build).count() > 1;
        if let Some(first) = compared.iter().position(|(of_build, ..)| is_double(of_build)) {
            compared.swap(0, first);
        }
        let of_build: Vec<ScalarExpr> = compared.iter().map(|(expr, ..)| expr.clone()).collect();
        let of_probe: Vec<ScalarExpr> = compared.iter().map(|(.., expr)| expr.clone()).collect();
        let (build, of_build) = self.with_columns(build, &of_build)?;
        let (probe, of_probe) = self.with_columns(probe, &of_probe)?;
        let place = |relation: &LoweredRelation, id: ColumnId| relation.position(id).expect("a column was added");
        let bound =
            |((of_build, of_probe), (_, op, _)): ((&ColumnId, &ColumnId), &(ScalarExpr, CompareOp, ScalarExpr))| {
                plan::JoinBound { build: place(&build, *of_build), op: *op, probe: place(&probe, *of_probe) }
            };
        let bounds = of_build.iter().zip(&of_probe).zip(&compared).map(bound).collect();
        Ok((build, probe, bounds))
    }

    /// The estimated rows of the build side for each of its keys.
    fn rows_per_key(&self, spec: &JoinSpec, build: &LoweredRelation) -> f64 {
        let rows = self.rows_of(build);
        let distinct = |(key, _): &(ColumnId, ColumnId)| match build.position(*key) {
            Some(position) => self.estimator.distinct_count(build.node(), position),
            None => rows,
        };
        rows / spec.on.iter().map(distinct).product::<f64>().clamp(1.0, rows.max(1.0))
    }

    /// Removes the columns of a join that are not needed.
    pub(super) fn narrowed(&mut self, relation: LoweredRelation, needed: &ColumnSet) -> LoweredRelation {
        let RelationSource::Operator(node) = &relation.source else { return relation };
        let Node::Join(join) = &**node else { return relation };
        let mut read = needed.clone();
        relation.derived.iter().for_each(|(_, expr)| read.add_columns_of(expr));
        // A join that makes a mark must always give it.
        let is_mark = |place: usize| join.output[place] >= join.columns();
        let kept: Vec<usize> =
            (0..relation.ids.len()).filter(|place| is_mark(*place) || read.contains(relation.ids[*place])).collect();
        let ids: Vec<ColumnId> = kept.iter().map(|place| relation.ids[*place]).collect();
        let output = kept.iter().map(|place| join.output[*place]).collect();
        let node = Node::Join(plan::Join { output, schema: self.schema(&ids), ..join.clone() });
        LoweredRelation { derived: relation.derived.clone(), ..LoweredRelation::new(node, ids) }
    }
}

/// Whether a join may be ordered together with others. A join that fails on a second match, or whose conditions can
/// fail, must see exactly the rows for which it was written.
fn is_operator(join: &LogicalJoin) -> bool {
    let is_of_left = match join.kind {
        LogicalJoinKind::Left | LogicalJoinKind::Semi | LogicalJoinKind::Anti => true,
        LogicalJoinKind::Mark(_) => join.conditions.is_empty() || join.compared.is_empty(),
        LogicalJoinKind::Inner | LogicalJoinKind::Full | LogicalJoinKind::Single => false,
    };
    let mut conditions = join.conditions.iter().chain(&join.compared);
    is_of_left && conditions.all(|condition| condition.volatility() < Volatility::Volatile && !can_fail(condition))
}

/// Builds `(all of compared) IS DISTINCT FROM false`: true if the comparison is true or NULL.
fn not_false(compared: Vec<ScalarExpr>) -> ScalarExpr {
    let operands = Box::new([ScalarExpr::and(compared), ScalarExpr::literal(false)]);
    ScalarExpr::new(DataType::Boolean, ExprOp::IsDistinct { operands, negated: false })
}

/// Whether a comparison is an equality of the two sides that a hash table can look up.
fn is_key(compared: &ScalarExpr, left: &LoweredRelation, right: &LoweredRelation) -> bool {
    match &compared.op {
        ExprOp::Compare(CompareOp::Equal, pair) => {
            !pair[0].kind.is_nested() && sides(&pair[0], &pair[1], left, right).is_some()
        }
        _ => false,
    }
}

/// Splits the conditions of a join into keys and others.
pub(super) fn split(conditions: Vec<ScalarExpr>, left: &LoweredRelation, right: &LoweredRelation) -> SplitConditions {
    let (mut equal, mut null_safe, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for condition in conditions {
        let (pair, is_null_safe) = match &condition.op {
            ExprOp::Compare(CompareOp::Equal, pair) => (pair, false),
            ExprOp::IsDistinct { operands, negated: true } => (operands, true),
            _ => {
                others.push(condition);
                continue;
            }
        };
        match sides(&pair[0], &pair[1], left, right) {
            None => others.push(condition),
            Some(_) if pair[0].kind.is_nested() => others.push(condition),
            Some(sides) if is_null_safe => null_safe.push((without_widening(sides), condition)),
            Some(sides) => equal.push(without_widening(sides)),
        }
    }
    if equal.is_empty() {
        let equal = null_safe.into_iter().map(|(sides, _)| sides).collect::<Vec<_>>();
        return SplitConditions { nulls_equal: !equal.is_empty(), equal, others };
    }
    // A hash table has only one rule for NULL. Next to plain keys, NULL-safe equalities must be checked per pair.
    others.extend(null_safe.into_iter().map(|(_, condition)| condition));
    SplitConditions { equal, nulls_equal: false, others }
}

/// Two equal integers without the casts that make them as wide as each other. A hash table compares integers of all
/// widths, and a column can be read by keys and filters, but a cast of it cannot.
pub(super) fn without_widening((left, right): (ScalarExpr, ScalarExpr)) -> (ScalarExpr, ScalarExpr) {
    let narrow = |expr: ScalarExpr| widened_integer(&expr).cloned().unwrap_or(expr);
    (narrow(left), narrow(right))
}

/// Assigns the two expressions to the left and the right side. Returns `None` if they do not fit.
fn sides(
    one: &ScalarExpr,
    other: &ScalarExpr,
    left: &LoweredRelation,
    right: &LoweredRelation,
) -> Option<(ScalarExpr, ScalarExpr)> {
    let is_of = |expr: &ScalarExpr, side: &LoweredRelation| side.reads(expr) && side.has_all(expr);
    if is_of(one, left) && is_of(other, right) {
        return Some((one.clone(), other.clone()));
    }
    (is_of(other, left) && is_of(one, right)).then(|| (other.clone(), one.clone()))
}
