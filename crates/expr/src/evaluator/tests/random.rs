//! Random expressions over random rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray, new_null_array};
use arrow::datatypes::DataType;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{CompareOp, ExprOp, ScalarExpr};

use super::interpreter::{Datum, datum, interpret};
use crate::evaluator::Evaluator;
use crate::fold::{can_fail, fold, is_nullable, rejects_nulls};
use crate::kernels::cast::cast as cast_values;
use crate::typing::{arithmetic, cast, coerce, common_kind, compare, is_distinct, negate};

const KINDS: [DataType; 12] = [
    DataType::Boolean,
    DataType::Int8,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt64,
    DataType::Decimal128(6, 2),
    DataType::Decimal128(20, 0),
    DataType::Decimal128(38, 10),
    DataType::Float64,
    DataType::Float32,
    DataType::Utf8View,
];

struct RandomExprs {
    rng: SmallRng,
    columns: Vec<ArrayRef>,
}

impl RandomExprs {
    fn new(seed: u64) -> RandomExprs {
        let mut exprs = RandomExprs { rng: SmallRng::seed_from_u64(seed), columns: Vec::new() };
        let rows = exprs.rng.random_range(1..40);
        exprs.columns = KINDS.iter().map(|kind| exprs.array(kind, rows)).collect();
        exprs
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.rng.random_range(0..of.len())].clone()
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.rng.random_range(0..one_in) == 0
    }

    fn text_of(&mut self, kind: &DataType) -> String {
        let extremes: &[&str] = match kind {
            DataType::Boolean => &["true", "false"],
            DataType::Int8 => &["-128", "127", "0", "-1"],
            DataType::Int32 => &["-2147483648", "2147483647", "0", "-1"],
            DataType::Int64 => &["-9223372036854775808", "9223372036854775807", "0", "-1"],
            DataType::UInt8 => &["255", "0", "1"],
            DataType::UInt64 => &["18446744073709551615", "0", "1"],
            DataType::Decimal128(6, 2) => &["9999.99", "-9999.99", "0", "0.01", "0.5", "-0.5", "2.5"],
            DataType::Decimal128(20, 0) => &["99999999999999999999", "0", "-1"],
            DataType::Decimal128(..) => &["9999999999999999999999999999", "0", "0.0000000001", "-1.5"],
            DataType::Float32 | DataType::Float64 => {
                &["NaN", "Infinity", "-Infinity", "0.0", "1e30", "0.5", "2.5", "-3.5"]
            }
            _ => &["", "abc", "12", "-5", "300", "a text that is longer than twelve"],
        };
        match kind {
            _ if self.chance(3) => self.one(extremes).to_owned(),
            DataType::Boolean => self.rng.random_bool(0.5).to_string(),
            DataType::UInt8 | DataType::UInt64 => self.rng.random_range(0..20).to_string(),
            _ => self.rng.random_range(-20..20).to_string(),
        }
    }

    fn array(&mut self, kind: &DataType, rows: usize) -> ArrayRef {
        let is_null_free = self.chance(4);
        let texts: Vec<Option<String>> =
            (0..rows).map(|_| (is_null_free || !self.chance(5)).then(|| self.text_of(kind))).collect();
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter(texts));
        cast_values(&texts, kind, false).expect("values of the type")
    }

    fn leaf(&mut self, kind: &DataType) -> ScalarExpr {
        let columns: Vec<usize> = (0..KINDS.len()).filter(|column| KINDS[*column] == *kind).collect();
        match columns.first() {
            Some(column) if !self.chance(3) => ScalarExpr::column(*column, kind.clone()),
            _ if self.chance(8) => ScalarExpr::null(kind.clone()),
            _ => {
                let text = match KINDS.contains(kind) {
                    true => self.text_of(kind),
                    false => "1".to_owned(),
                };
                ScalarExpr::literal(crate::text::parse(&text, kind).expect("a value"))
            }
        }
    }

    /// Makes an expression of any type.
    fn any(&mut self, depth: usize) -> ScalarExpr {
        let kind = self.one(&KINDS);
        if depth == 0 {
            return self.leaf(&kind);
        }
        match self.rng.random_range(0..10) {
            0..4 => {
                let ops = [
                    ArithmeticOp::Plus,
                    ArithmeticOp::Minus,
                    ArithmeticOp::Times,
                    ArithmeticOp::Divide,
                    ArithmeticOp::Remainder,
                ];
                let op = self.one(&ops);
                let (left, right) = (self.number(depth - 1), self.number(depth - 1));
                arithmetic(op, left, right).unwrap_or_else(|_| self.leaf(&kind))
            }
            4 => {
                let number = self.number(depth - 1);
                negate(number).expect("a number")
            }
            5 => {
                let (first, second) = (self.any(depth - 1), self.any(depth - 1));
                let condition = self.condition(depth - 1);
                match self.alike(first, second) {
                    Some((first, second)) => {
                        let kind = first.kind.clone();
                        let mut whens = vec![(condition, first)];
                        if self.chance(2) {
                            whens.push((self.condition(depth - 1), self.leaf(&kind)));
                        }
                        let otherwise = (!self.chance(4)).then(|| Box::new(second));
                        ScalarExpr::new(kind, ExprOp::Case { whens, otherwise })
                    }
                    None => condition,
                }
            }
            6 => {
                let (first, second) = (self.any(depth - 1), self.any(depth - 1));
                match self.alike(first, second) {
                    Some((first, second)) => {
                        let kind = first.kind.clone();
                        let third = self.leaf(&kind);
                        ScalarExpr::new(kind, ExprOp::Coalesce(vec![first, second, third]))
                    }
                    None => self.leaf(&kind),
                }
            }
            7 => {
                let value = self.any(depth - 1);
                let or_null = self.chance(2);
                // We make only casts that the interpreter knows.
                let is_float = |kind: &DataType| matches!(kind, DataType::Float32 | DataType::Float64);
                let is_decimal = |kind: &DataType| matches!(kind, DataType::Decimal128(..));
                let is_known = match (&value.kind, &kind) {
                    (from, to) if from == to => true,
                    (DataType::Utf8View, to) => to.is_integer(),
                    (from, to) if is_float(from) => !is_decimal(to) && *to != DataType::Utf8View,
                    (DataType::Boolean, to) => !is_float(to),
                    _ => true,
                };
                if is_known { cast(value, &kind, or_null).expect("a cast") } else { value }
            }
            _ => self.condition(depth),
        }
    }

    fn number(&mut self, depth: usize) -> ScalarExpr {
        let expr = self.any(depth);
        match expr.kind {
            DataType::Boolean | DataType::Utf8View | DataType::Null => {
                let kind = self.one(&KINDS[1..11]);
                self.leaf(&kind)
            }
            _ => expr,
        }
    }

    fn alike(&mut self, first: ScalarExpr, second: ScalarExpr) -> Option<(ScalarExpr, ScalarExpr)> {
        let kind = common_kind([&first.kind, &second.kind])?;
        // The interpreter does not cast floats to text.
        if kind == DataType::Utf8View && first.kind != second.kind {
            return None;
        }
        Some((coerce(first, &kind).ok()?, coerce(second, &kind).ok()?))
    }

    /// Makes an expression of type BOOLEAN.
    fn condition(&mut self, depth: usize) -> ScalarExpr {
        if depth == 0 {
            return self.leaf(&DataType::Boolean);
        }
        let ops = [
            CompareOp::Equal,
            CompareOp::NotEqual,
            CompareOp::Less,
            CompareOp::LessOrEqual,
            CompareOp::Greater,
            CompareOp::GreaterOrEqual,
        ];
        let op = self.one(&ops);
        let negated = self.chance(2);
        let boolean = |op| ScalarExpr::new(DataType::Boolean, op);
        match self.rng.random_range(0..10) {
            0..2 => {
                let parts: Vec<ScalarExpr> =
                    (0..self.rng.random_range(2..5)).map(|_| self.condition(depth - 1)).collect();
                if negated { ScalarExpr::and(parts) } else { ScalarExpr::or(parts) }
            }
            2 => self.condition(depth - 1).negated(),
            3 => boolean(ExprOp::IsNull { value: Box::new(self.any(depth - 1)), negated }),
            4 => {
                let (left, right) = (self.any(depth - 1), self.any(depth - 1));
                match self.alike(left, right) {
                    Some((left, right)) => is_distinct(left, right, negated).expect("one type"),
                    None => self.leaf(&DataType::Boolean),
                }
            }
            5 => {
                let value = self.any(depth - 1);
                let kind = value.kind.clone();
                let many = if self.chance(2) { 2 } else { 6 };
                let list = (0..many).map(|_| self.leaf(&kind)).collect();
                boolean(ExprOp::InList { value: Box::new(value), list, negated })
            }
            6 => {
                let pairs: Vec<(ScalarExpr, ScalarExpr)> = (0..self.rng.random_range(1..4))
                    .filter_map(|_| {
                        let (left, right) = (self.any(depth - 1), self.any(depth - 1));
                        self.alike(left, right)
                    })
                    .collect();
                if pairs.is_empty() {
                    return self.leaf(&DataType::Boolean);
                }
                let (left, right) = pairs.into_iter().unzip();
                boolean(ExprOp::CompareRows(op, left, right))
            }
            _ => {
                let (left, right) = (self.any(depth - 1), self.any(depth - 1));
                match self.alike(left, right) {
                    Some((left, right)) => compare(op, left, right).expect("one type"),
                    None => self.leaf(&DataType::Boolean),
                }
            }
        }
    }
}

/// Returns the value of every row, or `None` if a row fails.
fn interpreted(expr: &ScalarExpr, columns: &[ArrayRef]) -> Option<Vec<Datum>> {
    (0..columns[0].len()).map(|row| interpret(expr, columns, row).ok()).collect()
}

fn evaluated(expr: &ScalarExpr, columns: &[ArrayRef]) -> Option<Vec<Datum>> {
    let values = Evaluator::new(expr).expect("an expression").evaluate(columns, columns[0].len()).ok()?;
    assert_eq!(values.data_type(), &expr.kind);
    Some((0..values.len()).map(|row| datum(&values, row)).collect())
}

#[test]
fn random_expressions_agree_with_an_interpreter_of_single_rows() {
    let mut failures = 0;
    let seeds = 0..6_000;
    for seed in seeds.clone() {
        let mut exprs = RandomExprs::new(seed);
        let depth = exprs.rng.random_range(1..5);
        let expr = exprs.any(depth);
        let columns = &exprs.columns;
        let shown = || crate::display::sql_text(&expr, &|column| format!("c{column}"));
        let expected = interpreted(&expr, columns);
        assert_eq!(evaluated(&expr, columns), expected, "seed {seed}: {}", shown());
        failures += usize::from(expected.is_none());
        if expected.is_none() {
            assert!(can_fail(&expr), "seed {seed} failed: {}", shown());
        }
        let mut folded = expr.clone();
        fold(&mut folded);
        assert_eq!(folded.kind, expr.kind);
        if let Some(expected) = expected {
            assert_eq!(evaluated(&folded, columns).as_ref(), Some(&expected), "seed {seed} folded: {}", shown());
            let column_has_null = |column: usize| columns[column].null_count() > 0;
            if !is_nullable(&expr, &column_has_null) {
                assert!(!expected.contains(&Datum::Null), "seed {seed}: {} is not nullable", shown());
            }
        }
        // If some columns are NULL, a condition that rejects NULLs must never be true.
        let hidden = exprs.rng.random_range(0..1_u32 << KINDS.len());
        let is_hidden = |column: usize| hidden >> column & 1 == 1;
        if expr.kind == DataType::Boolean && rejects_nulls(&expr, &is_hidden) {
            let columns: Vec<ArrayRef> = columns
                .iter()
                .enumerate()
                .map(|(at, column)| match is_hidden(at) {
                    true => new_null_array(column.data_type(), column.len()),
                    false => Arc::clone(column),
                })
                .collect();
            for row in 0..columns[0].len() {
                let value = interpret(&expr, &columns, row);
                assert_ne!(value, Ok(Datum::Boolean(true)), "seed {seed}: {} does not reject NULLs", shown());
            }
        }
    }
    let all = seeds.count();
    assert!(failures > all / 50 && failures < all * 4 / 5, "{failures} of {all} expressions fail");
}
