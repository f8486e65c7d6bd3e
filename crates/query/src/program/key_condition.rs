//! Facts that conditions state about columns of a table and that a key can use.

use arrow::datatypes::DataType;
use rowmill_base::{Physical, SqlType};
use rowmill_plan::program::{Scalar, ScalarOp, ScalarValue};
use rowmill_plan::{CompareOp, ExprOp, ScalarExpr};
use rowmill_storage::TableDef;

use super::scalar::Scope;
use crate::widening::without_widening;

/// Lists of values at most by which rows are looked up.
pub(super) const ALTERNATIVES_MAX: usize = 1024;

/// A table whose rows are looked up, and the columns that are known at that time.
pub(super) struct OwnColumns<'t> {
    pub(super) def: &'t TableDef,
    /// The columns of the plan, with their positions in the table.
    pub(super) columns: &'t [(rowmill_plan::ColumnId, usize)],
    pub(super) known: &'t Scope,
}

/// A fact about columns, by their positions in the table.
#[derive(Debug)]
pub(super) enum KeyCondition {
    /// The columns have the values of one of the lists.
    Among { columns: Vec<usize>, lists: Vec<Vec<Scalar>> },
    /// The columns, compared as a row by `<`, `<=`, `>` or `>=`.
    Range { columns: Vec<usize>, op: CompareOp, values: Vec<Scalar> },
    /// A text begins with the literal prefix of a pattern. The condition itself may ask for more than that.
    Prefix { column: usize, pattern: Scalar, escape: Option<char> },
    /// The column is not NULL.
    NotNull { column: usize },
    /// The column is not distinct from a value: NULL is as good as any other value.
    Same { column: usize, value: Scalar },
}

impl OwnColumns<'_> {
    /// The fact that `condition` states, if a key can use it.
    pub(super) fn fact(&self, condition: &ScalarExpr) -> Option<KeyCondition> {
        match &condition.op {
            ExprOp::Compare(op, pair) => {
                let [left, right] = &**pair;
                self.comparison(left, *op, right).or_else(|| self.comparison(right, op.flipped(), left))
            }
            ExprOp::CompareRows(op, left, right) => {
                self.row_comparison(left, *op, right).or_else(|| self.row_comparison(right, op.flipped(), left))
            }
            ExprOp::InList { value, list, negated: false } if list.len() <= ALTERNATIVES_MAX => {
                let column = self.column(value)?;
                let lists = list.iter().map(|item| Some(vec![self.value(item, column)?])).collect::<Option<_>>()?;
                Some(KeyCondition::Among { columns: vec![column], lists })
            }
            ExprOp::Or(parts) if parts.len() <= ALTERNATIVES_MAX => {
                self.alternatives(parts).or_else(|| self.written_out_row(parts))
            }
            ExprOp::Like { value, pattern, escape, negated: false, ignore_case: false } => {
                let column = self.column(value)?;
                let pattern = self.value(pattern, column)?;
                let is_text = matches!(self.def.columns[column].kind, SqlType::Text { .. });
                (is_text && !has_no_prefix(&pattern)).then_some(KeyCondition::Prefix {
                    column,
                    pattern,
                    escape: *escape,
                })
            }
            ExprOp::IsNull { value, negated: true } => Some(KeyCondition::NotNull { column: self.column(value)? }),
            ExprOp::IsNull { value, negated: false } => {
                let column = self.column(value)?;
                let def = &self.def.columns[column];
                let null = Scalar::literal(def.kind.clone(), ScalarValue::Null);
                def.nullable.then_some(KeyCondition::Same { column, value: null })
            }
            ExprOp::IsDistinct { operands, negated: true } => {
                let [left, right] = &**operands;
                self.same(left, right).or_else(|| self.same(right, left))
            }
            ExprOp::Column(_) if condition.kind == DataType::Boolean => self.truth(condition, true),
            ExprOp::Not(value) if value.as_column().is_some() => self.truth(value, false),
            _ => None,
        }
    }

    fn truth(&self, column: &ScalarExpr, value: bool) -> Option<KeyCondition> {
        let column = self.column(column)?;
        let value = self.known.scalar(&ScalarExpr::literal(value))?;
        Some(KeyCondition::Among { columns: vec![column], lists: vec![vec![value]] })
    }

    fn comparison(&self, side: &ScalarExpr, op: CompareOp, other: &ScalarExpr) -> Option<KeyCondition> {
        let column = self.column(side)?;
        let value = self.value(other, column)?;
        match op {
            CompareOp::Equal => Some(KeyCondition::Among { columns: vec![column], lists: vec![vec![value]] }),
            CompareOp::NotEqual => None,
            op => Some(KeyCondition::Range { columns: vec![column], op, values: vec![value] }),
        }
    }

    fn same(&self, side: &ScalarExpr, other: &ScalarExpr) -> Option<KeyCondition> {
        let column = self.column(side)?;
        let value = self.value(other, column)?;
        Some(match self.def.columns[column].nullable {
            true => KeyCondition::Same { column, value },
            false => KeyCondition::Among { columns: vec![column], lists: vec![vec![value]] },
        })
    }

    fn row_comparison(&self, side: &[ScalarExpr], op: CompareOp, other: &[ScalarExpr]) -> Option<KeyCondition> {
        let columns = side.iter().map(|value| self.column(value)).collect::<Option<Vec<_>>>()?;
        let values = other.iter().zip(&columns).map(|(value, column)| self.value(value, *column));
        let values = values.collect::<Option<Vec<_>>>()?;
        match op {
            CompareOp::Equal => Some(KeyCondition::Among { columns, lists: vec![values] }),
            CompareOp::NotEqual => None,
            op => Some(KeyCondition::Range { columns, op, values }),
        }
    }

    /// `(a = 1 AND b = 2) OR (a = 3 AND b = 4)`: each part must give values to the same columns.
    fn alternatives(&self, parts: &[ScalarExpr]) -> Option<KeyCondition> {
        let mut known: Option<Vec<usize>> = None;
        let mut lists = Vec::with_capacity(parts.len());
        for part in parts {
            let conditions = match &part.op {
                ExprOp::And(all) => all.as_slice(),
                _ => std::slice::from_ref(part),
            };
            let mut given: Vec<(usize, Scalar)> = Vec::new();
            for condition in conditions {
                match self.fact(condition)? {
                    KeyCondition::Among { columns, mut lists } if lists.len() == 1 => {
                        given.extend(columns.into_iter().zip(lists.remove(0)));
                    }
                    _ => return None,
                }
            }
            given.sort_by_key(|(column, _)| *column);
            let (columns, values): (Vec<usize>, Vec<Scalar>) = given.into_iter().unzip();
            let is_repeated = columns.windows(2).any(|pair| pair[0] == pair[1]);
            if is_repeated || known.as_ref().is_some_and(|known| *known != columns) {
                return None;
            }
            known = Some(columns);
            lists.push(values);
        }
        Some(KeyCondition::Among { columns: known?, lists })
    }

    /// `a < 1 OR (a = 1 AND b < 2)`: a comparison of rows that was written out by its parts.
    fn written_out_row(&self, parts: &[ScalarExpr]) -> Option<KeyCondition> {
        let mut parts: Vec<&[ScalarExpr]> = parts
            .iter()
            .map(|part| match &part.op {
                ExprOp::And(all) => all.as_slice(),
                _ => std::slice::from_ref(part),
            })
            .collect();
        parts.sort_by_key(|part| part.len());
        let (mut columns, mut values, mut strict) = (Vec::new(), Vec::new(), None);
        for (at, part) in parts.iter().enumerate() {
            let (mut equal, mut last) = (Vec::new(), None);
            for condition in *part {
                match self.fact(condition)? {
                    KeyCondition::Among { columns, lists } if columns.len() == 1 && lists.len() == 1 => {
                        equal.push((columns[0], lists.into_iter().next()?.pop()?));
                    }
                    KeyCondition::Range { columns, op, mut values } if columns.len() == 1 && last.is_none() => {
                        last = Some((columns[0], op, values.pop()?));
                    }
                    _ => return None,
                }
            }
            let (column, op, value) = last?;
            let is_last = at + 1 == parts.len();
            let direction = match op {
                CompareOp::Less | CompareOp::LessOrEqual => CompareOp::Less,
                _ => CompareOp::Greater,
            };
            let fits = (op == direction || is_last) && *strict.get_or_insert(direction) == direction;
            // The part must repeat the equalities of all columns before it, with the same values.
            let is_known = |(column, value): &(usize, Scalar)| {
                columns.iter().zip(&values).any(|(own, known)| own == column && known == value)
            };
            if !fits || equal.len() != at || !equal.iter().all(is_known) || columns.contains(&column) {
                return None;
            }
            columns.push(column);
            values.push(value);
            if is_last {
                return (columns.len() > 1).then_some(KeyCondition::Range { columns, op, values });
            }
        }
        None
    }

    /// The column of an expression, possibly below casts that do not change how values compare.
    fn column(&self, expr: &ScalarExpr) -> Option<usize> {
        let id = without_widening(expr).as_column()?;
        let (_, column) = self.columns.iter().find(|(own, _)| own.0 == id)?;
        self.def.columns[*column].kind.is_ordered().then_some(*column)
    }

    /// A known value that a key can compare with the values of a column.
    fn value(&self, expr: &ScalarExpr, column: usize) -> Option<Scalar> {
        let value = self.known.scalar(expr)?;
        is_compared(&value.kind, &self.def.columns[column].kind).then_some(value)
    }
}

/// Whether a pattern that is a literal begins with a wildcard, so that it says nothing about the beginning of a text.
fn has_no_prefix(pattern: &Scalar) -> bool {
    matches!(&pattern.op, ScalarOp::Literal(ScalarValue::Text(pattern)) if pattern.starts_with(['%', '_']))
}

/// Whether a key can look up values of this type in a column of another type.
fn is_compared(value: &SqlType, column: &SqlType) -> bool {
    use SqlType::{Int64, UInt64};
    let is_text = |kind: &SqlType| matches!(kind, SqlType::Text { .. });
    let is_float = |kind: &SqlType| matches!(kind, SqlType::Float32 | SqlType::Float64);
    let is_number = |kind: &SqlType| rowmill_expr::kinds::is_number(&kind.arrow());
    if value == column || is_text(value) && is_text(column) {
        return true;
    }
    let is_wide = |kind: &SqlType| Physical::of(kind) == Physical::Wide;
    if !is_number(value) || !is_number(column) || is_wide(value) || is_wide(column) {
        return false;
    }
    match (is_float(value), is_float(column)) {
        (false, false) => true,
        (_, true) => *column == SqlType::Float64,
        (true, false) => *value == SqlType::Float64 && column.arrow().is_integer() && !matches!(column, Int64 | UInt64),
    }
}
