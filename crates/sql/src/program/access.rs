//! Which key of a table the rows are read by that conditions leave over.
//!
//! A point, which is at most one row, is better than all else. Of a large table that ANALYZE has looked through the key is taken that
//! leaves the fewest rows, as far as that is known without the values: for most of the table it is the primary key, which then
//! narrows nothing. Otherwise it is the key whose first columns are equal to most, and of keys that serve alike the primary key.
//! Conditions that the key answers are not asked again.

use std::cmp::Reverse;

use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use rowmill_base::IndexId;
use rowmill_plan::CompareOp;
use rowmill_plan::program::{Access, Bound, Scalar};
use rowmill_storage::{KeyColumn, LOOKED_UP_ROWS, RANGE_SHARE, TableDef};

use super::rows::BaseColumns;
use super::scalar::{scalar, without_widening};
use super::spread::Spread;
use crate::predicate::compare_op;

/// A condition that compares a column of a table with a value that is known when the table is read.
struct Comparison {
    /// Which of the conditions it is.
    condition: usize,
    column: usize,
    op: CompareOp,
    value: Scalar,
}

/// A way to read a table.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) access: Access,
    /// Conditions that it answers.
    pub(super) answered: Vec<usize>,
    /// Columns behind the equal ones, and whether greater values come first.
    pub(super) ordered: Vec<(usize, bool)>,
    /// Columns that have one value in all rows.
    pub(super) fixed: Vec<usize>,
    /// At most one row.
    pub(super) is_point: bool,
    is_range: bool,
    /// What it costs to read the rows, as far as is known; 0 of all choices if nothing is.
    cost: u64,
}

impl Choice {
    /// Whether it reads less than the whole table.
    pub(super) fn narrows(&self) -> bool {
        self.is_range || !self.access.equal.is_empty()
    }

    fn rank(&self) -> (bool, Reverse<u64>, usize, bool, bool) {
        (self.is_point, Reverse(self.cost), self.access.equal.len(), self.is_range, self.access.index.is_none())
    }

    fn cost_by(&self, spread: &Spread) -> u64 {
        let of_equal = self.fixed.iter().map(|column| spread.of_value(*column));
        let share = of_equal.product::<f64>() * if self.is_range { RANGE_SHARE } else { 1.0 };
        let rows = (spread.rows * share).max(1.0);
        (rows * if self.access.index.is_some() { LOOKED_UP_ROWS } else { 1.0 }) as u64
    }
}

/// All ways to read table `number`, the best first, when the tables before it are known.
pub(super) fn choices(number: usize, conditions: &[Expr], columns: &BaseColumns) -> Vec<Choice> {
    let def = &columns.tables[number];
    let comparisons: Vec<Comparison> = conditions
        .iter()
        .enumerate()
        .flat_map(|(condition, expr)| comparisons(condition, expr, number, columns))
        .collect();
    let Some(keyed) = &def.keyed else { return Vec::new() };
    let indexes = keyed.indexes.iter().map(|index| (Some(index.id), &index.parts[..], index.unique));
    let mut choices: Vec<Choice> = std::iter::once((None, &keyed.key[..], true))
        .chain(indexes)
        .map(|(index, parts, unique)| choice(def, index, parts, unique, &comparisons))
        .collect();
    if let Some(spread) = &columns.spreads[number] {
        choices.iter_mut().for_each(|choice| choice.cost = choice.cost_by(spread));
    }
    choices.sort_by_key(|choice| Reverse(choice.rank()));
    choices
}

fn choice(
    def: &TableDef,
    index: Option<IndexId>,
    parts: &[KeyColumn],
    unique: bool,
    comparisons: &[Comparison],
) -> Choice {
    let access = Access { table: def.id, index, equal: Vec::new(), from: None, to: None, backward: false };
    let mut choice = Choice {
        access,
        answered: Vec::new(),
        ordered: Vec::new(),
        fixed: Vec::new(),
        is_point: false,
        is_range: false,
        cost: 0,
    };
    let places: Vec<usize> = parts.iter().map_while(|part| def.column_by_id(part.column)).collect();
    let mut next = 0;
    while let Some(column) = places.get(next) {
        let equal = comparisons.iter().find(|comparison| comparison.is(*column, &[CompareOp::Equal]));
        let Some(equal) = equal else { break };
        choice.access.equal.push(equal.value.clone());
        choice.answered.push(equal.condition);
        choice.fixed.push(*column);
        next += 1;
    }
    choice.is_point = unique && next == parts.len();
    if let Some(column) = places.get(next) {
        let of = |ops: [CompareOp; 2]| comparisons.iter().find(|comparison| comparison.is(*column, &ops));
        let lower = of([CompareOp::Greater, CompareOp::GreaterOrEqual]);
        let upper = of([CompareOp::Less, CompareOp::LessOrEqual]);
        choice.is_range = lower.is_some() || upper.is_some();
        choice.answered.extend([lower, upper].into_iter().flatten().map(|comparison| comparison.condition));
        choice.access.from = lower.map(|lower| lower.bound(CompareOp::GreaterOrEqual));
        choice.access.to = upper.map(|upper| upper.bound(CompareOp::LessOrEqual));
    }
    choice.ordered = places.iter().zip(parts).skip(next).map(|(column, part)| (*column, part.descending)).collect();
    choice
}

impl Comparison {
    fn is(&self, column: usize, ops: &[CompareOp]) -> bool {
        self.column == column && ops.contains(&self.op)
    }

    fn bound(&self, inclusive: CompareOp) -> Bound {
        Bound { value: self.value.clone(), inclusive: self.op == inclusive }
    }
}

/// The comparison that a condition is, with the column on the left. A range is two of them, of which neither is the whole.
fn comparisons(condition: usize, expr: &Expr, number: usize, columns: &BaseColumns) -> Vec<Comparison> {
    let of_pair = |left: &Expr, op: CompareOp, right: &Expr| {
        let Expr::Column(column) = without_widening(left, columns.schema()) else { return None };
        let (table, place) = columns.place(column)?;
        if table != number || !columns.tables[number].columns[place].kind.is_ordered() {
            return None;
        }
        let value = scalar(right, columns)?;
        let mut is_known = true;
        value.each_column(&mut |column| is_known &= column.row < number);
        is_known.then_some(Comparison { condition, column: place, op, value })
    };
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let Some(op) = compare_op(*op) else { return Vec::new() };
            of_pair(left, op, right).or_else(|| of_pair(right, op.flipped(), left)).into_iter().collect()
        }
        Expr::Alias(alias) => comparisons(condition, &alias.expr, number, columns),
        _ => Vec::new(),
    }
}

/// Conditions one by one, where a range is two.
pub(super) fn split_ranges(conditions: Vec<Expr>) -> Vec<Expr> {
    let split = |condition: Expr| match condition {
        Expr::Between(between) if !between.negated => {
            let side = |op, bound| Expr::BinaryExpr(BinaryExpr::new(between.expr.clone(), op, bound));
            vec![side(Operator::GtEq, between.low.clone()), side(Operator::LtEq, between.high.clone())]
        }
        other => vec![other],
    };
    conditions.into_iter().flat_map(split).collect()
}
