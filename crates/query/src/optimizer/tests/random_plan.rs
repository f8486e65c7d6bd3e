//! Generates random logical plans with every kind of correlation.

use std::sync::Arc;

use arrow::datatypes::DataType;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rowmill_exec::aggregate::named;
use rowmill_plan::logical::{
    AggregateCall, FrameBound, FrameExclude, FrameUnit, LogicalGroup, LogicalJoin, LogicalJoinKind, LogicalScan,
    LogicalSetOperation, LogicalSortKey, LogicalWindow, LogicalWindowCall, LogicalWindowFunction, RankFunction,
    SetOperationKind, Subquery, SubqueryKind, WindowFrame,
};
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{ColumnId, ColumnNames, CompareOp, ExprOp, Logical, LogicalQuery, ScalarExpr};

use super::interpreter::Datum;
use crate::optimizer::walk::renumber;

/// Generates plans over the three tables of [`super::key_tables`].
pub(super) struct PlanMaker {
    pub(super) random: StdRng,
    columns: ColumnNames,
    shared: usize,
    /// Whether expressions may fail.
    pub(super) failing: bool,
}

type Ids = Vec<ColumnId>;

impl PlanMaker {
    pub(super) fn new(seed: u64) -> PlanMaker {
        PlanMaker { random: StdRng::seed_from_u64(seed), columns: ColumnNames::default(), shared: 0, failing: false }
    }

    pub(super) fn tables(&mut self) -> Vec<Vec<Vec<Datum>>> {
        let table = |number| {
            let rows = self.random.random_range(0..6);
            let mut value = |row, column| match self.random.random_range(0..6) {
                // The primary key of the last table, and its NOT NULL column.
                _ if number == 2 && column == 0 => Datum::Int(row),
                0 if number == 2 && column == 1 => Datum::Int(0),
                0 => Datum::Null,
                other => Datum::Int(other % 4),
            };
            (0..rows).map(|row| (0..3).map(|column| value(row, column)).collect()).collect()
        };
        let mut tables: Vec<Vec<Vec<Datum>>> = (0..3).map(table).collect();
        // The second column of the second table refers to the key of the third.
        let parents = tables[2].len() as i64;
        for row in &mut tables[1] {
            row[1] = match &row[1] {
                Datum::Int(value) if parents > 0 => Datum::Int(value % parents),
                _ => Datum::Null,
            };
        }
        tables
    }

    /// A scan of all columns of a table, in random order.
    fn whole_scan(&mut self, table: usize) -> (Logical, Ids) {
        let columns: Vec<_> = (0..3).map(|at| (self.add(), at)).collect();
        let ids = columns.iter().map(|(id, _)| *id).collect();
        (Logical::Scan(LogicalScan { table, columns, conditions: Vec::new(), row_number: None }), ids)
    }

    /// A join by a foreign key, or a self-join of a table by its key.
    fn key_join(&mut self, down: usize) -> (Logical, Ids) {
        let is_self = self.chance(2);
        let (mut left, own) = self.whole_scan(if is_self { 2 } else { 1 });
        let mut ids = own.clone();
        if self.chance(2) {
            let (other, others) = self.plan(down.min(1), &[]);
            let condition = self.condition(0, &joined(&own, &others));
            ids.extend(&others);
            left = match self.random.random_range(0..3) {
                0 => Logical::join(LogicalJoinKind::Left, other, left, vec![condition]),
                1 => Logical::join(LogicalJoinKind::Left, left, other, vec![condition]),
                _ => Logical::join(LogicalJoinKind::Inner, left, other, vec![condition]),
            };
        }
        let (right, parent) = self.whole_scan(2);
        let key = if is_self { own[0] } else { own[1] };
        let mut conditions =
            vec![ScalarExpr::compare(self.columns.expr(key), CompareOp::Equal, self.columns.expr(parent[0]))];
        if self.chance(3) {
            conditions.push(self.condition(0, &joined(&own, &parent)));
        }
        let kind = match self.random.random_range(0..4) {
            0 => LogicalJoinKind::Semi,
            1 => LogicalJoinKind::Left,
            _ => LogicalJoinKind::Inner,
        };
        if kind != LogicalJoinKind::Semi {
            ids.extend(if self.chance(2) { &parent[..1] } else { &parent[..] });
        }
        match kind == LogicalJoinKind::Inner && self.chance(3) {
            true => (Logical::join(kind, right, left, conditions), ids),
            false => (Logical::join(kind, left, right, conditions), ids),
        }
    }

    pub(super) fn query(&mut self, depth: usize) -> LogicalQuery {
        let (root, ids) = self.plan(depth, &[]);
        let output = ids.into_iter().map(|id| (id, String::new())).collect();
        LogicalQuery { root, output, columns: std::mem::take(&mut self.columns) }
    }

    fn chance(&mut self, of: u32) -> bool {
        self.random.random_range(0..of) == 0
    }

    fn pick(&mut self, ids: &[ColumnId]) -> ColumnId {
        ids[self.random.random_range(0..ids.len())]
    }

    fn add(&mut self) -> ColumnId {
        self.columns.add("c", DataType::Int64)
    }

    fn scan(&mut self) -> (Logical, Ids) {
        let table = self.random.random_range(0..3);
        let count = self.random.random_range(1..4);
        let columns: Vec<_> = (0..count).map(|at| (self.add(), at)).collect();
        let ids = columns.iter().map(|(id, _)| *id).collect();
        (Logical::Scan(LogicalScan { table, columns, conditions: Vec::new(), row_number: None }), ids)
    }

    /// A plan with at least one column. It may name columns of `outer`.
    fn plan(&mut self, depth: usize, outer: &[ColumnId]) -> (Logical, Ids) {
        if depth == 0 {
            return self.scan();
        }
        let down = depth - 1;
        match self.random.random_range(0..21) {
            0 => self.scan(),
            1..=4 => {
                let (input, ids) = self.plan(down, outer);
                let count = self.random.random_range(1..3);
                let scope = joined(&ids, outer);
                let conditions = (0..count).map(|_| self.condition(down, &scope)).collect();
                (Logical::Filter { input: Box::new(input), conditions }, ids)
            }
            5 => {
                let (input, mut ids) = self.plan(down, outer);
                let expr = self.number(down, &joined(&ids, outer));
                let id = self.add();
                ids.push(id);
                (Logical::map(input, vec![(id, expr)]), ids)
            }
            6 | 7 => {
                let (left, mut ids) = self.plan(down, outer);
                let is_lateral = self.chance(2);
                let scope = if is_lateral { joined(&ids, outer) } else { outer.to_vec() };
                let (right, right_ids) = self.plan(down, &scope);
                let both = joined(&ids, &right_ids);
                let kind = match self.random.random_range(0..8) {
                    0..3 => LogicalJoinKind::Inner,
                    3 | 4 => LogicalJoinKind::Left,
                    5 => LogicalJoinKind::Semi,
                    6 => LogicalJoinKind::Anti,
                    _ if is_lateral => LogicalJoinKind::Left,
                    _ => LogicalJoinKind::Full,
                };
                let below = if kind == LogicalJoinKind::Full { 0 } else { down };
                let conditions = match self.chance(3) {
                    true => Vec::new(),
                    false => vec![self.condition(below, &joined(&both, outer))],
                };
                if !matches!(kind, LogicalJoinKind::Semi | LogicalJoinKind::Anti) {
                    ids.extend(right_ids);
                }
                let (left, right) = (Box::new(left), Box::new(right));
                (Logical::Join(LogicalJoin { kind, left, right, conditions, compared: Vec::new() }), ids)
            }
            8 => self.group(down, outer),
            9 => {
                let (input, mut ids) = self.plan(down, outer);
                let partition = match self.chance(3) {
                    true => Vec::new(),
                    false => vec![self.column_of(&ids)],
                };
                let order = self.order(&ids);
                let mut frame = WindowFrame {
                    unit: FrameUnit::Rows,
                    start: FrameBound::Unbounded,
                    end: FrameBound::CurrentRow,
                    exclude: FrameExclude::NoOthers,
                };
                let function = match self.chance(2) {
                    true => LogicalWindowFunction::Rank(RankFunction::RowNumber),
                    false => {
                        frame.end = FrameBound::Unbounded;
                        LogicalWindowFunction::Aggregate(self.aggregate(&joined(&ids, outer)))
                    }
                };
                // Rows that are equal in all columns get different numbers, but nothing else distinguishes them.
                let id = self.add();
                let calls = vec![(id, LogicalWindowCall { function, frame })];
                ids.push(id);
                (Logical::Window(LogicalWindow { input: Box::new(input), partition, order, calls, top: None }), ids)
            }
            10 => {
                let (input, ids) = self.plan(down, outer);
                let (input, ids) = self.narrowed(input, ids);
                let keys = self.order(&ids);
                let sort = Logical::Sort { input: Box::new(input), keys };
                let skip = self.chance(3).then(|| ScalarExpr::literal(1i64));
                let rows = match self.random.random_range(0..4) {
                    0 if !outer.is_empty() => self.column_of(outer),
                    1 => self.scalar(0, outer),
                    _ => ScalarExpr::literal(self.random.random_range(0..4i64)),
                };
                (Logical::Limit { input: Box::new(sort), skip, rows: Some(rows) }, ids)
            }
            11 => {
                let (input, ids) = self.plan(down, outer);
                let mut columns: Ids = ids.iter().copied().filter(|_| self.random.random_bool(0.6)).collect();
                if columns.is_empty() {
                    columns.push(ids[0]);
                }
                if self.chance(3) {
                    let (input, ids) = self.narrowed(input, ids);
                    let keys = self.order(&ids);
                    let input = Box::new(Logical::Sort { input: Box::new(input), keys });
                    let columns = vec![ids[0]];
                    return (Logical::Distinct { input, columns, on: true }, ids);
                }
                let ids = columns.clone();
                (Logical::Distinct { input: Box::new(input), columns, on: false }, ids)
            }
            12 => {
                let kind = match self.random.random_range(0..4) {
                    0 => SetOperationKind::Intersect,
                    1 => SetOperationKind::Except,
                    _ => SetOperationKind::Union,
                };
                let mut inputs = Vec::new();
                for _ in 0..2 {
                    let (input, ids) = self.plan(down, outer);
                    let scope = match self.chance(4) {
                        true => joined(&ids, outer),
                        false => ids,
                    };
                    inputs.push((input, vec![self.pick(&scope), self.pick(&scope)]));
                }
                let columns = vec![self.add(), self.add()];
                let all = self.chance(2);
                (Logical::SetOperation(LogicalSetOperation { kind, all, inputs, columns: columns.clone() }), columns)
            }
            13 => {
                let count = self.random.random_range(0..3);
                let columns = vec![self.add(), self.add()];
                let rows = (0..count).map(|_| vec![self.number(down.min(1), outer), self.number(0, outer)]).collect();
                (Logical::Values { columns: columns.clone(), rows }, columns)
            }
            14 => {
                let (input, mut ids) = match self.chance(2) {
                    true => self.plan(down, outer),
                    false => (Logical::one_row(), Vec::new()),
                };
                let list = self.array(down, &joined(&ids, outer));
                let id = self.add();
                ids.push(id);
                let ordinality = self.chance(2).then(|| self.add());
                let outer = self.chance(2);
                let lists = vec![(id, list)];
                // The items of a list are ordered by all columns, so their numbers are deterministic.
                (Logical::Unnest { input: Box::new(input), lists, ordinality, outer }, ids)
            }
            15 => {
                let (base, base_ids) = self.plan(down.min(1), outer);
                let number = self.shared;
                self.shared += 1;
                let id = self.add();
                let rows = Logical::RecursiveRows { number, columns: vec![id] };
                let next = self.add();
                let one = ScalarExpr::literal(1i64);
                let plus = self.arithmetic(ArithmeticOp::Plus, self.columns.expr(id), one);
                let bound = ScalarExpr::literal(4i64);
                let bounded = ScalarExpr::compare(self.columns.expr(id), CompareOp::Less, bound);
                let condition = self.condition(down.min(1), &joined(&[id], outer));
                let step = Logical::Filter { input: Box::new(rows), conditions: vec![bounded, condition] };
                let step = Logical::map(step, vec![(next, plus)]);
                let column = self.add();
                let plan = Logical::Recursive {
                    number,
                    base: Box::new(base),
                    base_columns: vec![base_ids[0]],
                    step: Box::new(step),
                    step_columns: vec![next],
                    distinct: self.chance(2),
                    columns: vec![column],
                };
                (plan, vec![column])
            }
            18 | 19 => self.key_join(down),
            16 | 17 => {
                // Twins; sometimes only one of them has a condition.
                let scope = if self.chance(3) { outer } else { &[] };
                let (left, left_ids) = if self.chance(2) { self.group(down, scope) } else { self.plan(down, scope) };
                let mut right = left.clone();
                let numbers = renumber(&mut right, &mut self.columns);
                let right_ids: Ids = left_ids.iter().map(|id| numbers.get(id).copied().unwrap_or(*id)).collect();
                if self.chance(3) {
                    let condition = self.condition(0, &right_ids);
                    right = Logical::filter(right, vec![condition]);
                }
                let number = |id: &ColumnId| self.columns.get(*id).kind == DataType::Int64;
                let ids: Ids = left_ids.iter().chain(&right_ids).copied().filter(number).collect();
                let kind = if self.chance(2) { LogicalJoinKind::Inner } else { LogicalJoinKind::Left };
                let condition = self.condition(0, &ids);
                (Logical::join(kind, left, right, vec![condition]), ids)
            }
            _ => {
                let scope = if self.chance(2) { outer } else { &[] };
                let (input, ids) = self.plan(down, scope);
                let number = self.shared;
                self.shared += 1;
                let input = Arc::new(input);
                let mut reader = || {
                    let columns = vec![self.add()];
                    let input_columns = vec![ids[0]];
                    (Logical::Shared { number, input: input.clone(), input_columns, columns: columns.clone() }, columns)
                };
                let (left, left_ids) = reader();
                let (right, right_ids) = reader();
                let ids = joined(&left_ids, &right_ids);
                let condition = self.condition(0, &joined(&ids, outer));
                (Logical::join(LogicalJoinKind::Inner, left, right, vec![condition]), ids)
            }
        }
    }

    fn pick_of(&mut self, ids: &[ColumnId]) -> ColumnId {
        self.pick(ids)
    }

    fn column_of(&mut self, ids: &[ColumnId]) -> ScalarExpr {
        let id = self.pick(ids);
        self.columns.expr(id)
    }

    /// A projection to a few columns, so all of them can be sort keys.
    fn narrowed(&mut self, input: Logical, ids: Ids) -> (Logical, Ids) {
        (input, ids)
    }

    fn order(&mut self, ids: &[ColumnId]) -> Vec<LogicalSortKey> {
        let key = |id: &ColumnId| LogicalSortKey {
            expr: self.columns.expr(*id),
            descending: id.0.is_multiple_of(2),
            nulls_first: id.0.is_multiple_of(3),
        };
        ids.iter().map(key).collect()
    }

    fn group(&mut self, depth: usize, outer: &[ColumnId]) -> (Logical, Ids) {
        let (input, ids) = self.plan(depth, outer);
        let scope = joined(&ids, outer);
        let count = self.random.random_range(0..3);
        let keys: Vec<_> = (0..count).map(|_| (self.add(), self.number(0, &scope))).collect();
        let aggregates: Vec<_> = (0..2).map(|_| (self.add(), self.aggregate(&scope))).collect();
        let ids = keys.iter().map(|(id, _)| *id).chain(aggregates.iter().map(|(id, _)| *id)).collect();
        let (sets, set) = match self.chance(4) && count > 0 {
            true => {
                let sets = if self.chance(2) { vec![vec![0]] } else { vec![vec![0], Vec::new()] };
                (Some(sets), Some(self.columns.add("set", DataType::UInt64)))
            }
            false => (None, None),
        };
        (Logical::Group(LogicalGroup { input: Box::new(input), keys, sets, set, aggregates }), ids)
    }

    fn aggregate(&mut self, scope: &[ColumnId]) -> AggregateCall {
        let function = match self.random.random_range(0..5) {
            0 => named("sum"),
            1 => named("min"),
            2 => named("max"),
            _ => named("count"),
        };
        let arguments = match function.is_count() && self.chance(2) {
            true => Vec::new(),
            false => vec![self.number(0, scope)],
        };
        let filter = self.chance(5).then(|| self.condition(0, scope));
        let distinct = !arguments.is_empty() && self.chance(4);
        AggregateCall {
            function,
            arguments,
            parameter: None,
            distinct,
            order: Vec::new(),
            skips_nulls: false,
            filter,
            kind: DataType::Int64,
        }
    }

    fn arithmetic(&self, op: ArithmeticOp, left: ScalarExpr, right: ScalarExpr) -> ScalarExpr {
        ScalarExpr::new(DataType::Int64, ExprOp::Arithmetic(op, Box::new([left, right])))
    }

    fn number(&mut self, depth: usize, scope: &[ColumnId]) -> ScalarExpr {
        if scope.is_empty() || self.chance(6) {
            return match self.chance(6) {
                true => ScalarExpr::null(DataType::Int64),
                false => ScalarExpr::literal(self.random.random_range(0..4i64)),
            };
        }
        let column = self.column_of(scope);
        match self.random.random_range(0..if depth == 0 { 7 } else { 11 }) {
            0 if self.failing => {
                let other = self.number(0, scope);
                let op = if self.chance(2) { ArithmeticOp::Divide } else { ArithmeticOp::Plus };
                self.arithmetic(op, column, other)
            }
            1 => {
                let other = self.column_of(scope);
                ScalarExpr::new(DataType::Int64, ExprOp::Coalesce(vec![column, other]))
            }
            2 if depth > 0 => {
                let condition = self.condition(depth - 1, scope);
                let value = self.number(depth - 1, scope);
                let whens = vec![(condition, value)];
                let case = ExprOp::Case { whens, otherwise: Some(Box::new(column)) };
                ScalarExpr::new(DataType::Int64, case)
            }
            7.. => self.scalar(depth - 1, scope),
            _ => column,
        }
    }

    /// A scalar subquery, usually with one row.
    fn scalar(&mut self, depth: usize, outer: &[ColumnId]) -> ScalarExpr {
        let (mut plan, mut ids) = self.plan(depth, outer);
        match self.random.random_range(0..6) {
            0 => {}
            1 | 2 => {
                let keys = self.order(&ids);
                plan = Logical::Sort { input: Box::new(plan), keys };
                let rows = Some(ScalarExpr::literal(1i64));
                plan = Logical::Limit { input: Box::new(plan), skip: None, rows };
            }
            _ => {
                if self.chance(2) {
                    let condition = self.condition(0, &joined(&ids, outer));
                    plan = Logical::filter(plan, vec![condition]);
                }
                let aggregates = vec![(self.add(), self.aggregate(&joined(&ids, outer)))];
                ids = vec![aggregates[0].0];
                let input = Box::new(plan);
                plan = Logical::Group(LogicalGroup { input, keys: Vec::new(), sets: None, set: None, aggregates });
                if self.chance(3) {
                    let id = self.add();
                    plan = Logical::map(plan, vec![(id, self.number(0, &joined(&ids, outer)))]);
                    ids = vec![id];
                }
                if self.chance(5) {
                    let condition = self.condition(0, &joined(&ids, outer));
                    plan = Logical::filter(plan, vec![condition]);
                }
            }
        }
        let scope = if self.chance(8) { joined(&ids, outer) } else { ids };
        let columns = vec![self.pick_of(&scope)];
        self.subquery(plan, columns, SubqueryKind::Scalar, Vec::new(), DataType::Int64)
    }

    fn array(&mut self, depth: usize, outer: &[ColumnId]) -> ScalarExpr {
        let (plan, ids) = self.plan(depth.min(1), outer);
        let keys = self.order(&ids);
        let plan = Logical::Sort { input: Box::new(plan), keys };
        let kind = DataType::new_list(DataType::Int64, true);
        self.subquery(plan, vec![ids[0]], SubqueryKind::Array, Vec::new(), kind)
    }

    fn subquery(
        &mut self,
        plan: Logical,
        columns: Ids,
        kind: SubqueryKind,
        left: Vec<ScalarExpr>,
        data: DataType,
    ) -> ScalarExpr {
        ScalarExpr::new(data, ExprOp::Subquery(Box::new(Subquery { plan, columns, kind, left })))
    }

    fn op(&mut self) -> CompareOp {
        match self.random.random_range(0..8) {
            0 => CompareOp::NotEqual,
            1 => CompareOp::Less,
            2 => CompareOp::GreaterOrEqual,
            _ => CompareOp::Equal,
        }
    }

    fn condition(&mut self, depth: usize, scope: &[ColumnId]) -> ScalarExpr {
        let down = depth.saturating_sub(1);
        match self.random.random_range(0..if depth == 0 { 9 } else { 15 }) {
            0 => {
                let parts = vec![self.condition(down, scope), self.condition(down, scope)];
                if self.chance(2) { ScalarExpr::and(parts) } else { ScalarExpr::or(parts) }
            }
            1 => self.condition(down, scope).negated(),
            2 => {
                let value = Box::new(self.number(down, scope));
                let negated = self.chance(2);
                ScalarExpr::new(DataType::Boolean, ExprOp::IsNull { value, negated })
            }
            3 if self.chance(2) => {
                let operands = Box::new([self.number(down, scope), self.number(0, scope)]);
                let negated = self.chance(2);
                ScalarExpr::new(DataType::Boolean, ExprOp::IsDistinct { operands, negated })
            }
            9 | 10 => {
                let (plan, columns) = self.plan(down, scope);
                self.subquery(plan, columns, SubqueryKind::Exists, Vec::new(), DataType::Boolean)
            }
            11.. => {
                let (plan, ids) = self.plan(down, scope);
                let count = if self.chance(3) { 2 } else { 1 };
                let (op, all) = match (count, self.op(), self.chance(2)) {
                    (2, _, true) => (CompareOp::NotEqual, self.chance(2)),
                    (2, ..) => (CompareOp::Equal, self.chance(2)),
                    (_, op, all) => (op, all),
                };
                let columns = (0..count).map(|_| self.pick_of(&ids)).collect();
                let left = (0..count).map(|_| self.number(0, scope)).collect();
                self.subquery(plan, columns, SubqueryKind::Quantified { op, all }, left, DataType::Boolean)
            }
            _ => {
                let op = self.op();
                let (left, right) = (self.number(down, scope), self.number(0, scope));
                ScalarExpr::compare(left, op, right)
            }
        }
    }
}

fn joined(a: &[ColumnId], b: &[ColumnId]) -> Ids {
    a.iter().chain(b).copied().collect()
}
