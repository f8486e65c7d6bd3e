//! Scalars: values computed from columns, parameters and literals. Every node has its type, so no type is looked
//! up when it is computed.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::IntervalMonthDayNano;
use rowmill_base::SqlType;

use crate::{CompareOp, ScalarExpr};

/// A value and its type.
#[derive(Clone, Debug, PartialEq)]
pub struct Scalar {
    /// The type of the value.
    pub kind: SqlType,
    /// The operation that computes it.
    pub op: ScalarOp,
}

/// The operation that computes a value.
///
/// Results, rounding and errors must be those of the SQL operators: overflow of integers and decimals and division by
/// zero are errors. A NULL operand gives NULL, unless a variant says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub enum ScalarOp {
    /// A parameter, by its number; its type is that of [`Program::parameters`](super::Program::parameters).
    Parameter(usize),
    /// A column of a row.
    Column(RowColumn),
    /// A value that the statement contains.
    Literal(ScalarValue),
    /// `left op right` of integers of one type, of floats of one type, or of decimals and integers with at least one
    /// decimal. The result of the first two has the type of the operands. The result of decimals has the digits that
    /// the statement gives it; their quotient is a DOUBLE.
    Arithmetic(ArithmeticOp, Box<[Scalar; 2]>),
    /// `-x`, of a signed integer, decimal or float of the result's type.
    Negate(Box<Scalar>),
    /// `left op right` of two numbers of any types, or of two values of one type. Decimals and integers are compared
    /// with a float as floats. A text is compared with a date, time or timestamp by parsing it as one. NaN equals NaN
    /// and is greater than all numbers.
    Compare(CompareOp, Box<[Scalar; 2]>),
    /// True if all operands are true, false if one is false. They are evaluated in order, up to the first that is
    /// false.
    And(Vec<Scalar>),
    /// True if one operand is true, false if all are false. They are evaluated in order, up to the first that is true.
    Or(Vec<Scalar>),
    /// `NOT x`
    Not(Box<Scalar>),
    /// `x IS [NOT] NULL`
    IsNull {
        /// The value that is tested.
        value: Box<Scalar>,
        /// `IS NOT NULL`
        negated: bool,
    },
    /// `CASE WHEN condition THEN value ... ELSE otherwise END`. All values have the type of the result.
    Case {
        /// Conditions with their values. The first condition that is true decides.
        whens: Vec<(Scalar, Scalar)>,
        /// The value if no condition is true; NULL if absent.
        otherwise: Option<Box<Scalar>>,
    },
    /// `CAST(x AS kind)`: between numbers, between dates and timestamps, from TEXT to those and to BOOLEAN and TIME,
    /// from integers and BOOLEAN to TEXT, and between texts.
    Cast(Box<Scalar>),
    /// The first operand that is not NULL. All operands have the type of the result.
    Coalesce(Vec<Scalar>),
    /// A text function.
    Text(TextFunction, Vec<Scalar>),
    /// `value [NOT] LIKE pattern` of texts.
    Like {
        /// The text and the pattern.
        operands: Box<[Scalar; 2]>,
        /// The character that makes the next one literal.
        escape: Option<char>,
        /// `NOT LIKE`
        negated: bool,
        /// `ILIKE`
        ignore_case: bool,
    },
    /// Any other expression. It is evaluated as a batch of one row: its column `n` is the `n`th operand, which must
    /// have the type that the expression gives it. It must not contain parameters or subqueries.
    Evaluate(Arc<ScalarExpr>, Vec<Scalar>),
}

/// A column of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowColumn {
    /// The row: in reads, the number of its lookup; elsewhere as the owner of the scalar says, usually 0.
    pub row: usize,
    /// The position in the definition of the row's table.
    pub column: usize,
}

/// An operator of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithmeticOp {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
    /// `/`. The quotient of integers is truncated towards zero.
    Divide,
    /// `%`
    Remainder,
}

/// A text function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextFunction {
    /// `a || b || ...`: a TEXT.
    Concat,
    /// `lower(x)`: a TEXT.
    Lower,
    /// `upper(x)`: a TEXT.
    Upper,
    /// `substr(x, first [, chars])`, two BIGINTs: a TEXT.
    Substring,
    /// `character_length(x)`: an INTEGER or BIGINT.
    Length,
}

/// An owned value. The comment of each variant names the types whose values it holds.
#[derive(Clone, Debug, PartialEq)]
pub enum ScalarValue {
    /// NULL of any type.
    Null,
    /// `BOOLEAN`
    Bool(bool),
    /// Signed integers, `DATE` in days, `TIME` in microseconds, `TIMESTAMP` in its unit.
    Int(i64),
    /// Unsigned integers.
    UInt(u64),
    /// `REAL` and `DOUBLE`.
    Float(f64),
    /// `DECIMAL`: all digits, without the point.
    Decimal(i128),
    /// `INTERVAL`
    Interval(IntervalMonthDayNano),
    /// `TEXT`
    Text(String),
    /// `BLOB`, and the 16 bytes of a `UUID`.
    Bytes(Vec<u8>),
}

impl Scalar {
    /// A value of a type.
    pub fn new(kind: SqlType, op: ScalarOp) -> Self {
        Scalar { kind, op }
    }

    /// A column of a row.
    pub fn column(kind: SqlType, row: usize, column: usize) -> Self {
        Scalar::new(kind, ScalarOp::Column(RowColumn { row, column }))
    }

    /// A parameter.
    pub fn parameter(kind: SqlType, number: usize) -> Self {
        Scalar::new(kind, ScalarOp::Parameter(number))
    }

    /// A literal.
    pub fn literal(kind: SqlType, value: ScalarValue) -> Self {
        Scalar::new(kind, ScalarOp::Literal(value))
    }

    /// A comparison.
    pub fn compare(left: Scalar, op: CompareOp, right: Scalar) -> Self {
        Scalar::new(SqlType::Boolean, ScalarOp::Compare(op, Box::new([left, right])))
    }

    /// An arithmetic expression.
    pub fn arithmetic(kind: SqlType, left: Scalar, op: ArithmeticOp, right: Scalar) -> Self {
        Scalar::new(kind, ScalarOp::Arithmetic(op, Box::new([left, right])))
    }

    /// The conjunction of `conditions`, or `None` if there are none.
    pub fn all_of(mut conditions: Vec<Scalar>) -> Option<Scalar> {
        match conditions.len() {
            0 | 1 => conditions.pop(),
            _ => Some(Scalar::new(SqlType::Boolean, ScalarOp::And(conditions))),
        }
    }

    /// `CAST(self AS kind)`
    pub fn cast(self, kind: SqlType) -> Self {
        Scalar::new(kind, ScalarOp::Cast(Box::new(self)))
    }

    /// The operands, from left to right.
    pub fn operands(&self) -> Vec<&Scalar> {
        match &self.op {
            ScalarOp::Parameter(_) | ScalarOp::Column(_) | ScalarOp::Literal(_) => Vec::new(),
            ScalarOp::Arithmetic(_, pair) | ScalarOp::Compare(_, pair) => pair.iter().collect(),
            ScalarOp::Negate(of) | ScalarOp::Not(of) | ScalarOp::Cast(of) => vec![of],
            ScalarOp::IsNull { value, .. } => vec![value],
            ScalarOp::And(all) | ScalarOp::Or(all) | ScalarOp::Coalesce(all) => all.iter().collect(),
            ScalarOp::Text(_, all) | ScalarOp::Evaluate(_, all) => all.iter().collect(),
            ScalarOp::Like { operands, .. } => operands.iter().collect(),
            ScalarOp::Case { whens, otherwise } => {
                let whens = whens.iter().flat_map(|(when, then)| [when, then]);
                whens.chain(otherwise.as_deref()).collect()
            }
        }
    }

    /// Calls `each` with every column in the expression.
    pub fn each_column(&self, each: &mut dyn FnMut(RowColumn)) {
        match &self.op {
            ScalarOp::Column(column) => each(*column),
            _ => self.operands().into_iter().for_each(|operand| operand.each_column(each)),
        }
    }
}

impl fmt::Display for ArithmeticOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArithmeticOp::Plus => "+",
            ArithmeticOp::Minus => "-",
            ArithmeticOp::Times => "*",
            ArithmeticOp::Divide => "/",
            ArithmeticOp::Remainder => "%",
        })
    }
}
