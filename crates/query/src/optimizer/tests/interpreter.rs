//! Interprets logical plans as directly as possible, with nested loops and with correlated subqueries that are
//! evaluated for each row. It is the oracle for all rewrites.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::optimizer::walk::{each_operator, free, output};
use rowmill_plan::logical::{
    AggregateCall, FrameBound, LogicalJoin, LogicalJoinKind, LogicalSortKey, LogicalWindow, LogicalWindowFunction,
    RankFunction, SetOperationKind, Subquery, SubqueryKind,
};
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{AggregateRole, ColumnId, CompareOp, Constant, ExprOp, Logical, LogicalQuery, ScalarExpr};

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Datum {
    Null,
    Bool(bool),
    Int(i64),
    List(Vec<Datum>),
}

/// The reason why a plan has no result.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PlanFailure {
    /// The statement fails with an error.
    Error(&'static str),
    /// The plan takes too long to interpret.
    Budget,
}

type Row = BTreeMap<usize, Datum>;
type Outcome<T> = Result<T, PlanFailure>;

/// Interprets plans over tables.
pub(super) struct Interpreter<'a> {
    tables: &'a [Vec<Vec<Datum>>],
    steps: Cell<usize>,
    rounds: std::cell::RefCell<BTreeMap<usize, Vec<Vec<Datum>>>>,
}

impl<'a> Interpreter<'a> {
    pub(super) fn new(tables: &'a [Vec<Vec<Datum>>]) -> Interpreter<'a> {
        Interpreter { tables, steps: Cell::new(0), rounds: Default::default() }
    }

    /// The rows of a query, sorted.
    pub(super) fn run(&self, query: &LogicalQuery) -> Outcome<Vec<Vec<Datum>>> {
        let rows = self.rows(&query.root, &Row::new())?;
        let value = |row: &Row, id: &ColumnId| row.get(&id.0).cloned().unwrap_or_else(|| panic!("no column {id:?}"));
        let mut rows: Vec<Vec<Datum>> =
            rows.iter().map(|row| query.output.iter().map(|(id, _)| value(row, id)).collect()).collect();
        rows.sort();
        Ok(rows)
    }

    fn step(&self) -> Outcome<()> {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > 400_000 { Err(PlanFailure::Budget) } else { Ok(()) }
    }

    fn rows(&self, plan: &Logical, outer: &Row) -> Outcome<Vec<Row>> {
        self.step()?;
        match plan {
            Logical::Scan(scan) => {
                let mut rows = Vec::new();
                for values in &self.tables[scan.table] {
                    let row: Row = scan.columns.iter().map(|(id, at)| (id.0, values[*at].clone())).collect();
                    if self.all_true(&scan.conditions, &row, outer)? {
                        rows.push(row);
                    }
                }
                Ok(rows)
            }
            Logical::Source(_) => panic!("no sources"),
            Logical::Values { columns, rows } => {
                let row = |exprs: &Vec<ScalarExpr>| {
                    columns.iter().zip(exprs).map(|(id, expr)| Ok((id.0, self.value(expr, outer)?))).collect()
                };
                rows.iter().map(row).collect()
            }
            Logical::Filter { input, conditions } => {
                let mut rows = Vec::new();
                for row in self.rows(input, outer)? {
                    if self.all_true(conditions, &row, outer)? {
                        rows.push(row);
                    }
                }
                Ok(rows)
            }
            Logical::Map { input, exprs } => {
                let mut rows = self.rows(input, outer)?;
                for row in &mut rows {
                    let scope = merged(outer, row);
                    for (id, expr) in exprs {
                        row.insert(id.0, self.value(expr, &scope)?);
                    }
                }
                Ok(rows)
            }
            Logical::Join(join) => self.join(join, outer),
            Logical::Group(group) => {
                let input = self.rows(&group.input, outer)?;
                let all: Vec<usize> = (0..group.keys.len()).collect();
                let sets = group.sets.clone().unwrap_or_else(|| vec![all]);
                let mut result = Vec::new();
                for (number, set) in sets.iter().enumerate() {
                    let mut groups: BTreeMap<Vec<Datum>, Vec<Row>> = BTreeMap::new();
                    if set.is_empty() {
                        groups.insert(vec![Datum::Null; group.keys.len()], Vec::new());
                    }
                    for row in &input {
                        let scope = merged(outer, row);
                        let key = group.keys.iter().enumerate().map(|(at, (_, key))| match set.contains(&at) {
                            true => self.value(key, &scope),
                            false => Ok(Datum::Null),
                        });
                        groups.entry(key.collect::<Outcome<_>>()?).or_default().push(row.clone());
                    }
                    for (key, rows) in groups {
                        let mut row: Row = group.keys.iter().map(|(id, _)| id.0).zip(key).collect();
                        for (id, call) in &group.aggregates {
                            row.insert(id.0, self.aggregate(call, &rows, outer)?);
                        }
                        if let Some(id) = group.set {
                            row.insert(id.0, Datum::Int(number as i64));
                        }
                        result.push(row);
                    }
                }
                Ok(result)
            }
            Logical::Window(window) => self.window(window, outer),
            Logical::Sort { input, keys } => {
                let rows = self.rows(input, outer)?;
                self.sorted(rows, keys, outer)
            }
            Logical::Limit { input, skip, rows } => {
                let number = |expr: &Option<ScalarExpr>, otherwise| match expr {
                    Some(expr) => match self.value(expr, outer)? {
                        Datum::Int(value) => Ok(value as usize),
                        _ => Ok(otherwise),
                    },
                    None => Ok(otherwise),
                };
                let (skip, most) = (number(skip, 0)?, number(rows, usize::MAX)?);
                Ok(self.rows(input, outer)?.into_iter().skip(skip).take(most).collect())
            }
            Logical::Distinct { input, columns, on } => {
                let mut seen = std::collections::BTreeSet::new();
                let mut result = Vec::new();
                for row in self.rows(input, outer)? {
                    let scope = merged(outer, &row);
                    let key: Vec<_> = columns.iter().map(|id| scope[&id.0].clone()).collect();
                    if seen.insert(key) {
                        let kept = columns.iter().map(|id| (id.0, scope[&id.0].clone())).collect();
                        result.push(if *on { row } else { kept });
                    }
                }
                Ok(result)
            }
            Logical::SetOperation(operation) => {
                let mut inputs = Vec::new();
                for (input, columns) in &operation.inputs {
                    inputs.push(self.tuples(input, columns, outer)?);
                }
                let mut tuples = inputs.remove(0);
                for other in inputs {
                    tuples = set_operation(operation.kind, operation.all, tuples, other);
                }
                if !operation.all {
                    tuples.sort();
                    tuples.dedup();
                }
                Ok(named(&operation.columns, tuples))
            }
            Logical::Recursive { number, base, base_columns, step, step_columns, distinct, columns } => {
                let mut all = self.tuples(base, base_columns, outer)?;
                if *distinct {
                    all.sort();
                    all.dedup();
                }
                let mut last = all.clone();
                let before = self.rounds.borrow_mut().remove(number);
                for round in 0.. {
                    if last.is_empty() {
                        break;
                    }
                    if round > 20 {
                        return Err(PlanFailure::Budget);
                    }
                    self.rounds.borrow_mut().insert(*number, last);
                    let mut next = self.tuples(step, step_columns, outer)?;
                    if *distinct {
                        next.sort();
                        next.dedup();
                        next.retain(|row| !all.contains(row));
                    }
                    all.extend(next.iter().cloned());
                    last = next;
                }
                self.rounds.borrow_mut().remove(number);
                if let Some(before) = before {
                    self.rounds.borrow_mut().insert(*number, before);
                }
                Ok(named(columns, all))
            }
            Logical::RecursiveRows { number, columns } => {
                let rows = self.rounds.borrow()[number].clone();
                Ok(named(columns, rows))
            }
            Logical::OuterRow { .. } => unreachable!("only plans of programs have outer rows"),
            Logical::Shared { input, input_columns, columns, .. } => {
                Ok(named(columns, self.tuples(input, input_columns, outer)?))
            }
            Logical::Unnest { input, lists, ordinality, outer: keeps } => {
                let mut result = Vec::new();
                for row in self.rows(input, outer)? {
                    let scope = merged(outer, &row);
                    let mut items = Vec::new();
                    for (_, list) in lists {
                        items.push(match self.value(list, &scope)? {
                            Datum::List(items) => items,
                            _ => Vec::new(),
                        });
                    }
                    let count = items.iter().map(Vec::len).max().unwrap_or(0);
                    for at in 0..count.max(usize::from(*keeps)) {
                        self.step()?;
                        let mut row = row.clone();
                        for ((id, _), items) in lists.iter().zip(&items) {
                            row.insert(id.0, items.get(at).cloned().unwrap_or(Datum::Null));
                        }
                        if let Some(id) = ordinality {
                            let number = if count == 0 { Datum::Null } else { Datum::Int(at as i64 + 1) };
                            row.insert(id.0, number);
                        }
                        result.push(row);
                    }
                }
                Ok(result)
            }
            Logical::SingleRow { input, by } => {
                let rows = self.rows(input, outer)?;
                let mut seen = std::collections::BTreeSet::new();
                for row in &rows {
                    if !seen.insert(by.iter().map(|id| row[&id.0].clone()).collect::<Vec<_>>()) {
                        return Err(PlanFailure::Error("more than one row"));
                    }
                }
                Ok(rows)
            }
            Logical::OrderedJoin(_) | Logical::Fill(_) => unreachable!("random plans have no time clauses"),
        }
    }

    fn tuples(&self, plan: &Logical, columns: &[ColumnId], outer: &Row) -> Outcome<Vec<Vec<Datum>>> {
        let rows = self.rows(plan, outer)?;
        let value = |row: &Row, id: &ColumnId| {
            let value = row.get(&id.0).or_else(|| outer.get(&id.0));
            value.cloned().unwrap_or_else(|| panic!("no column {id:?} in {plan:?}"))
        };
        Ok(rows.iter().map(|row| columns.iter().map(|id| value(row, id)).collect()).collect())
    }

    fn all_true(&self, conditions: &[ScalarExpr], row: &Row, outer: &Row) -> Outcome<bool> {
        let scope = merged(outer, row);
        for condition in conditions {
            self.step()?;
            if self.value(condition, &scope)? != Datum::Bool(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn join(&self, join: &LogicalJoin, outer: &Row) -> Outcome<Vec<Row>> {
        let lefts = self.rows(&join.left, outer)?;
        if lefts.is_empty() && join.kind != LogicalJoinKind::Full {
            // The right side must not be computed if the left side is empty.
            return Ok(Vec::new());
        }
        let mut is_dependent = free(&join.right).intersects(&output(&join.left));
        // The plan that reads a shared plan does not show which columns the shared plan names.
        each_operator(&join.right, &mut |plan| {
            if let Logical::Shared { input, .. } = plan {
                is_dependent |= !free(input).is_empty();
            }
        });
        let fixed = match is_dependent {
            true => None,
            false => Some(self.rows(&join.right, outer)?),
        };
        let nulls: Row = output(&join.right).iter().map(|id| (id.0, Datum::Null)).collect();
        let mut used = vec![false; fixed.as_ref().map_or(0, Vec::len)];
        let mut result = Vec::new();
        for left in &lefts {
            let scope = merged(outer, left);
            let rights = match &fixed {
                Some(rights) => rights.clone(),
                None => self.rows(&join.right, &scope)?,
            };
            let (mut matches, mut unknown) = (Vec::new(), false);
            for (at, right) in rights.iter().enumerate() {
                if !self.all_true(&join.conditions, right, &scope)? {
                    continue;
                }
                let scope = merged(&scope, right);
                let mut met = Datum::Bool(true);
                for condition in &join.compared {
                    match self.value(condition, &scope)? {
                        Datum::Bool(true) => {}
                        Datum::Null if met == Datum::Bool(true) => met = Datum::Null,
                        Datum::Null => {}
                        _ => met = Datum::Bool(false),
                    }
                }
                unknown |= met == Datum::Null;
                if met == Datum::Bool(true) {
                    matches.push(right.clone());
                    if let Some(used) = used.get_mut(at) {
                        *used = true;
                    }
                }
            }
            match join.kind {
                LogicalJoinKind::Inner => result.extend(matches.iter().map(|right| merged(left, right))),
                LogicalJoinKind::Left | LogicalJoinKind::Full | LogicalJoinKind::Single => {
                    if matches.len() > 1 && join.kind == LogicalJoinKind::Single {
                        return Err(PlanFailure::Error("more than one row"));
                    }
                    if matches.is_empty() {
                        matches.push(nulls.clone());
                    }
                    result.extend(matches.iter().map(|right| merged(left, right)));
                }
                LogicalJoinKind::Semi if !matches.is_empty() => result.push(left.clone()),
                LogicalJoinKind::Anti if matches.is_empty() && !unknown => result.push(left.clone()),
                LogicalJoinKind::Semi | LogicalJoinKind::Anti => {}
                LogicalJoinKind::Mark(id) => {
                    let mark = match (matches.is_empty(), unknown) {
                        (false, _) => Datum::Bool(true),
                        (true, true) => Datum::Null,
                        (true, false) => Datum::Bool(false),
                    };
                    let mut row = left.clone();
                    row.insert(id.0, mark);
                    result.push(row);
                }
            }
        }
        if join.kind == LogicalJoinKind::Full {
            let nulls: Row = output(&join.left).iter().map(|id| (id.0, Datum::Null)).collect();
            let unused = fixed.iter().flatten().zip(&used).filter(|(_, used)| !**used);
            result.extend(unused.map(|(right, _)| merged(&nulls, right)));
        }
        Ok(result)
    }

    fn sorted(&self, rows: Vec<Row>, keys: &[LogicalSortKey], outer: &Row) -> Outcome<Vec<Row>> {
        let mut keyed = Vec::new();
        for row in rows {
            let scope = merged(outer, &row);
            let values = keys.iter().map(|key| self.value(&key.expr, &scope)).collect::<Outcome<Vec<_>>>()?;
            keyed.push((values, row));
        }
        keyed.sort_by(|(a, _), (b, _)| compare_keys(a, b, keys));
        Ok(keyed.into_iter().map(|(_, row)| row).collect())
    }

    fn aggregate(&self, call: &AggregateCall, rows: &[Row], outer: &Row) -> Outcome<Datum> {
        let rows = self.sorted(rows.to_vec(), &call.order, outer)?;
        let mut values = Vec::new();
        for row in &rows {
            let scope = merged(outer, row);
            if let Some(filter) = &call.filter
                && self.value(filter, &scope)? != Datum::Bool(true)
            {
                continue;
            }
            values.push(match call.arguments.first() {
                Some(argument) => self.value(argument, &scope)?,
                None => Datum::Int(1),
            });
        }
        if call.function.role == AggregateRole::List {
            return Ok(if values.is_empty() { Datum::Null } else { Datum::List(values) });
        }
        values.retain(|value| *value != Datum::Null);
        if call.distinct {
            values.sort();
            values.dedup();
        }
        Ok(match call.function.role {
            AggregateRole::Count => Datum::Int(values.len() as i64),
            AggregateRole::Min => values.into_iter().min().unwrap_or(Datum::Null),
            AggregateRole::Max => values.into_iter().max().unwrap_or(Datum::Null),
            AggregateRole::Sum if values.is_empty() => Datum::Null,
            AggregateRole::Sum => Datum::Int(values.iter().map(int).sum()),
            other => panic!("no aggregate {other:?}"),
        })
    }

    fn window(&self, window: &LogicalWindow, outer: &Row) -> Outcome<Vec<Row>> {
        let mut partitions: BTreeMap<Vec<Datum>, Vec<Row>> = BTreeMap::new();
        for row in self.rows(&window.input, outer)? {
            let scope = merged(outer, &row);
            let key = window.partition.iter().map(|expr| self.value(expr, &scope)).collect::<Outcome<_>>()?;
            partitions.entry(key).or_default().push(row);
        }
        let mut result = Vec::new();
        for rows in partitions.into_values() {
            let rows = self.sorted(rows, &window.order, outer)?;
            for (at, row) in rows.iter().enumerate() {
                let mut row = row.clone();
                for (id, call) in &window.calls {
                    let value = match &call.function {
                        LogicalWindowFunction::Rank(RankFunction::RowNumber) => Datum::Int(at as i64 + 1),
                        LogicalWindowFunction::Aggregate(aggregate) => {
                            assert_eq!(call.frame.end, FrameBound::Unbounded, "only whole partitions");
                            self.aggregate(aggregate, &rows, outer)?
                        }
                        other => panic!("no window function {other:?}"),
                    };
                    row.insert(id.0, value);
                }
                let is_beyond = window.top.is_some_and(|top| int(&row[&top.call.0]) > top.most as i64);
                if !is_beyond {
                    result.push(row);
                }
            }
        }
        Ok(result)
    }

    fn value(&self, expr: &ScalarExpr, scope: &Row) -> Outcome<Datum> {
        let value = |expr: &ScalarExpr| self.value(expr, scope);
        let operands = || expr.operands().into_iter().map(value).collect::<Outcome<Vec<_>>>();
        Ok(match &expr.op {
            ExprOp::Column(id) => match scope.get(id) {
                Some(value) => value.clone(),
                None => panic!("no column {id} in {scope:?}"),
            },
            ExprOp::Literal(constant) => datum(constant),
            ExprOp::Arithmetic(op, _) => match operands()?.as_slice() {
                [Datum::Int(a), Datum::Int(b)] => match op {
                    ArithmeticOp::Plus => Datum::Int(a + b),
                    ArithmeticOp::Minus => Datum::Int(a - b),
                    ArithmeticOp::Times => Datum::Int(a.wrapping_mul(*b)),
                    ArithmeticOp::Divide if *b == 0 => return Err(PlanFailure::Error("division by zero")),
                    ArithmeticOp::Divide => Datum::Int(a / b),
                    _ => panic!("no operator"),
                },
                _ => Datum::Null,
            },
            ExprOp::Compare(op, _) => {
                let operands = operands()?;
                compared(*op, &operands[0], &operands[1])
            }
            ExprOp::IsDistinct { negated, .. } => {
                let operands = operands()?;
                Datum::Bool((operands[0] != operands[1]) != *negated)
            }
            ExprOp::CompareRows(op, left, right) => {
                let left = left.iter().map(value).collect::<Outcome<Vec<_>>>()?;
                let right = right.iter().map(value).collect::<Outcome<Vec<_>>>()?;
                for (a, b) in left.iter().zip(&right) {
                    if a == &Datum::Null || b == &Datum::Null {
                        return Ok(Datum::Null);
                    }
                    if a != b {
                        return Ok(compared(*op, a, b));
                    }
                }
                compared(*op, &Datum::Int(0), &Datum::Int(0))
            }
            ExprOp::And(all) => {
                let mut result = Datum::Bool(true);
                for part in all {
                    match value(part)? {
                        Datum::Bool(false) => return Ok(Datum::Bool(false)),
                        Datum::Null => result = Datum::Null,
                        _ => {}
                    }
                }
                result
            }
            ExprOp::Or(all) => {
                let mut result = Datum::Bool(false);
                for part in all {
                    match value(part)? {
                        Datum::Bool(true) => return Ok(Datum::Bool(true)),
                        Datum::Null => result = Datum::Null,
                        _ => {}
                    }
                }
                result
            }
            ExprOp::Not(of) => not(value(of)?),
            ExprOp::IsNull { value: of, negated } => Datum::Bool((value(of)? == Datum::Null) != *negated),
            ExprOp::Case { whens, otherwise } => {
                for (when, then) in whens {
                    if value(when)? == Datum::Bool(true) {
                        return value(then);
                    }
                }
                otherwise.as_ref().map_or(Ok(Datum::Null), |otherwise| value(otherwise))?
            }
            ExprOp::InList { value: of, list, negated } => {
                let of = value(of)?;
                let mut result = Datum::Bool(false);
                for item in list {
                    match compared(CompareOp::Equal, &of, &value(item)?) {
                        Datum::Bool(true) => result = Datum::Bool(true),
                        Datum::Null if result == Datum::Bool(false) => result = Datum::Null,
                        _ => {}
                    }
                }
                if *negated { not(result) } else { result }
            }
            ExprOp::Coalesce(all) => {
                for part in all {
                    match value(part)? {
                        Datum::Null => {}
                        found => return Ok(found),
                    }
                }
                Datum::Null
            }
            ExprOp::Cast { value: of, .. } => value(of)?,
            ExprOp::Subquery(subquery) => self.subquery(subquery, scope)?,
            other => panic!("no expression {other:?}"),
        })
    }

    fn subquery(&self, subquery: &Subquery, scope: &Row) -> Outcome<Datum> {
        let rows = self.tuples(&subquery.plan, &subquery.columns, scope)?;
        Ok(match subquery.kind {
            SubqueryKind::Scalar => match rows.len() {
                0 => Datum::Null,
                1 => rows[0][0].clone(),
                _ => return Err(PlanFailure::Error("more than one row")),
            },
            SubqueryKind::Exists => Datum::Bool(!rows.is_empty()),
            SubqueryKind::Array => Datum::List(rows.into_iter().map(|mut row| row.remove(0)).collect()),
            SubqueryKind::Quantified { op, all } => {
                let left = subquery.left.iter().map(|expr| self.value(expr, scope)).collect::<Outcome<Vec<_>>>()?;
                let mut result = Datum::Bool(all);
                for row in rows {
                    let mut is_equal = Datum::Bool(true);
                    for (a, b) in left.iter().zip(&row) {
                        is_equal = match (compared(CompareOp::Equal, a, b), is_equal) {
                            (Datum::Bool(false), _) | (_, Datum::Bool(false)) => Datum::Bool(false),
                            (Datum::Null, _) | (_, Datum::Null) => Datum::Null,
                            (met, _) => met,
                        };
                    }
                    let met = match op {
                        _ if left.len() == 1 => compared(op, &left[0], &row[0]),
                        CompareOp::Equal => is_equal,
                        CompareOp::NotEqual => not(is_equal),
                        _ => panic!("no comparison of rows"),
                    };
                    match met {
                        Datum::Bool(met) if met != all => result = Datum::Bool(!all),
                        Datum::Null if result == Datum::Bool(all) => result = Datum::Null,
                        _ => {}
                    }
                }
                result
            }
        })
    }
}

fn int(value: &Datum) -> i64 {
    match value {
        Datum::Int(value) => *value,
        other => panic!("{other:?} is no number"),
    }
}

fn not(value: Datum) -> Datum {
    match value {
        Datum::Bool(value) => Datum::Bool(!value),
        _ => Datum::Null,
    }
}

fn merged(outer: &Row, row: &Row) -> Row {
    let mut all = outer.clone();
    all.extend(row.iter().map(|(id, value)| (*id, value.clone())));
    all
}

fn named(columns: &[ColumnId], tuples: Vec<Vec<Datum>>) -> Vec<Row> {
    tuples.into_iter().map(|tuple| columns.iter().map(|id| id.0).zip(tuple).collect()).collect()
}

fn datum(constant: &Constant) -> Datum {
    use arrow::array::{Array, AsArray};
    match constant.kind() {
        _ if constant.is_null() => Datum::Null,
        arrow::datatypes::DataType::List(_) => {
            assert_eq!(constant.array().as_list::<i32>().value(0).len(), 0, "only empty lists");
            Datum::List(Vec::new())
        }
        arrow::datatypes::DataType::UInt64 => {
            Datum::Int(constant.array().as_primitive::<arrow::datatypes::UInt64Type>().value(0) as i64)
        }
        _ => match (constant.as_bool(), constant.as_bigint()) {
            (Some(value), _) => Datum::Bool(value),
            (_, Some(value)) => Datum::Int(value),
            _ => panic!("no constant {constant:?}"),
        },
    }
}

fn compared(op: CompareOp, left: &Datum, right: &Datum) -> Datum {
    if *left == Datum::Null || *right == Datum::Null {
        return Datum::Null;
    }
    let order = left.cmp(right);
    Datum::Bool(match op {
        CompareOp::Equal => order == Ordering::Equal,
        CompareOp::NotEqual => order != Ordering::Equal,
        CompareOp::Less => order == Ordering::Less,
        CompareOp::LessOrEqual => order != Ordering::Greater,
        CompareOp::Greater => order == Ordering::Greater,
        CompareOp::GreaterOrEqual => order != Ordering::Less,
    })
}

fn compare_keys(a: &[Datum], b: &[Datum], keys: &[LogicalSortKey]) -> Ordering {
    for ((a, b), key) in a.iter().zip(b).zip(keys) {
        let order = match (a, b) {
            (Datum::Null, Datum::Null) => Ordering::Equal,
            (Datum::Null, _) if key.nulls_first => Ordering::Less,
            (Datum::Null, _) => Ordering::Greater,
            (_, Datum::Null) if key.nulls_first => Ordering::Greater,
            (_, Datum::Null) => Ordering::Less,
            _ if key.descending => b.cmp(a),
            _ => a.cmp(b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

fn set_operation(
    kind: SetOperationKind,
    all: bool,
    mut left: Vec<Vec<Datum>>,
    mut right: Vec<Vec<Datum>>,
) -> Vec<Vec<Datum>> {
    if kind == SetOperationKind::Union {
        left.extend(right);
        return left;
    }
    let mut result = Vec::new();
    for row in left {
        let at = right.iter().position(|other| *other == row);
        if at.is_some() == (kind == SetOperationKind::Intersect) {
            result.push(row);
        }
        if let (Some(at), true) = (at, all) {
            right.remove(at);
        }
    }
    result
}
