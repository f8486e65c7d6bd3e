//! The typed scalar expression. There is only this one: the binder makes it, the optimizer rewrites it, the engine
//! evaluates it over batches, and programs evaluate it over single rows.
//!
//! Every node has the type of its value, and its operands must have the types that the node requires. The binder
//! inserts the casts. Evaluators therefore never look for a common type. NULL follows SQL's three-valued logic.
//!
//! A column is a number. In a logical plan it is a [`ColumnId`], unique within the statement. In a physical plan it is
//! the position in the input of the operator. Lowering translates one into the other.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringViewArray, new_null_array};
use arrow::datatypes::{DataType, Int64Type};
use rowmill_base::Result;

use crate::function::{FunctionSpec, Volatility};
use crate::item_function::ItemFunction;
use crate::logical::Subquery;
use crate::program::ArithmeticOp;
use crate::{ColumnId, CompareOp};

/// A value for each row, and its type.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalarExpr {
    /// The type of the value.
    pub kind: DataType,
    /// How the value is made.
    pub op: ExprOp,
}

/// How a value is made.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprOp {
    /// A column: a [`ColumnId`] in a logical plan, a position of the input in a physical one.
    Column(usize),
    /// A parameter of the statement, by its number from 0.
    Parameter(usize),
    /// A value that the statement contains.
    Literal(Constant),
    /// `left op right` of two numbers. The operands must be one of:
    ///
    /// - integers of one type, which is the type of the result;
    /// - floats of one type, which is the type of the result;
    /// - decimals and integers with at least one decimal; the result has the digits of `kind`. The quotient of decimals
    ///   is computed as a DOUBLE, so `kind` is DOUBLE while the operands stay decimals; a division by zero is
    ///   still an error. For example, BIGINT UNSIGNED by a signed integer is the quotient of two `DECIMAL(20,0)`; its
    ///   `kind` is a decimal without a fraction.
    ///
    /// Everything else that SQL writes with these operators (dates, intervals, lists) is a function call.
    Arithmetic(ArithmeticOp, Box<[ScalarExpr; 2]>),
    /// `-x` of a signed integer, a decimal or a float.
    Negate(Box<ScalarExpr>),
    /// `left op right`, both of one type. NaN equals NaN and is greater than every number.
    Compare(CompareOp, Box<[ScalarExpr; 2]>),
    /// `left IS [NOT] DISTINCT FROM right`, both of one type. Never NULL.
    IsDistinct {
        /// The operands.
        operands: Box<[ScalarExpr; 2]>,
        /// `IS NOT DISTINCT FROM`
        negated: bool,
    },
    /// `(a, b, ...) op (x, y, ...)`: both sides must have the same number of values, of the same types in pairs. The
    /// comparison is lexicographic, as in the SQL standard.
    CompareRows(CompareOp, Vec<ScalarExpr>, Vec<ScalarExpr>),
    /// True if all operands are true, false if one is false. Operands are evaluated in order. An operand that can fail
    /// is evaluated only for the rows that no earlier operand has decided.
    And(Vec<ScalarExpr>),
    /// True if one operand is true, false if all are false. Operands are evaluated in the order of [`ExprOp::And`].
    Or(Vec<ScalarExpr>),
    /// `NOT x`
    Not(Box<ScalarExpr>),
    /// `x IS [NOT] NULL`
    IsNull {
        /// The value.
        value: Box<ScalarExpr>,
        /// `IS NOT NULL`
        negated: bool,
    },
    /// `CASE WHEN condition THEN value ... ELSE otherwise END`: all values have the type of the expression. A branch is
    /// evaluated only for the rows that take it.
    Case {
        /// Conditions with their values, in order.
        whens: Vec<(ScalarExpr, ScalarExpr)>,
        /// The value where no condition is true; NULL if absent.
        otherwise: Option<Box<ScalarExpr>>,
    },
    /// `CAST(x AS kind)`, or `TRY_CAST`, which gives NULL where the cast would fail.
    Cast {
        /// The value.
        value: Box<ScalarExpr>,
        /// Whether a value that cannot be cast is NULL rather than an error.
        or_null: bool,
    },
    /// `value [NOT] IN (list)`, all of one type.
    InList {
        /// The value that is looked for.
        value: Box<ScalarExpr>,
        /// The values that it is compared with; never empty.
        list: Vec<ScalarExpr>,
        /// `NOT IN`
        negated: bool,
    },
    /// `value [NOT] LIKE pattern [ESCAPE escape]` of texts.
    Like {
        /// The text.
        value: Box<ScalarExpr>,
        /// The pattern.
        pattern: Box<ScalarExpr>,
        /// The character that makes the next one literal; absent with `ESCAPE ''`.
        escape: Option<char>,
        /// `NOT LIKE`
        negated: bool,
        /// `ILIKE`
        ignore_case: bool,
    },
    /// The first value that is not NULL. A later operand is evaluated only for the rows that need it.
    Coalesce(Vec<ScalarExpr>),
    /// A function of the registry. Its arguments must have the types of its signature.
    Call(&'static FunctionSpec, Vec<ScalarExpr>),
    /// A function that belongs to the statement or its database, such as `nextval`.
    Dynamic(Arc<dyn DynamicFunction>, Vec<ScalarExpr>),
    /// An expression for each item of a list.
    EachItem {
        /// The function that is applied to the values of `body`.
        function: ItemFunction,
        /// The list.
        list: Box<ScalarExpr>,
        /// The parameter numbers that `body` uses: the item, and, if there are two, its position from 1.
        parameters: Vec<usize>,
        /// The expression, over the columns around it and the parameters.
        body: Box<ScalarExpr>,
    },
    /// A parameter of an enclosing [`ExprOp::EachItem`], by a number that is unique within the statement.
    ItemParameter(usize),
    /// A subquery. Allowed only in logical plans before unnesting.
    Subquery(Box<Subquery>),
}

/// A value of one type, as an array of one row.
#[derive(Clone, Debug)]
pub struct Constant(ArrayRef);

/// A function that belongs to one statement.
pub trait DynamicFunction: Send + Sync + fmt::Debug {
    /// The name that EXPLAIN shows.
    fn name(&self) -> &str;

    /// For how long the function gives the same value for the same arguments.
    fn volatility(&self) -> Volatility;

    /// Computes the values for `rows` rows.
    fn evaluate(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef>;
}

impl PartialEq for dyn DynamicFunction {
    fn eq(&self, other: &Self) -> bool {
        // Only the address matters: the vtable of one type may differ between code units.
        std::ptr::addr_eq(self, other)
    }
}

impl Constant {
    /// The one value of `array`, which must have exactly one row.
    pub fn new(array: ArrayRef) -> Constant {
        assert_eq!(array.len(), 1, "a constant is an array of one row");
        Constant(array)
    }

    /// The NULL of a type.
    pub fn null(kind: &DataType) -> Constant {
        Constant(new_null_array(kind, 1))
    }

    /// The value as an array of one row.
    pub fn array(&self) -> &ArrayRef {
        &self.0
    }

    /// The type of the value.
    pub fn kind(&self) -> &DataType {
        self.0.data_type()
    }

    /// Whether the value is NULL. The type NULL has no other value, and Arrow gives its arrays no validity bitmap.
    pub fn is_null(&self) -> bool {
        self.0.is_null(0) || *self.0.data_type() == DataType::Null
    }

    /// The value of a TEXT that is not NULL.
    pub fn as_text(&self) -> Option<&str> {
        match self.0.data_type() {
            DataType::Utf8View if !self.is_null() => Some(self.0.as_string_view().value(0)),
            _ => None,
        }
    }

    /// The value of a BIGINT that is not NULL.
    pub fn as_bigint(&self) -> Option<i64> {
        match self.0.data_type() {
            DataType::Int64 if !self.is_null() => Some(self.0.as_primitive::<Int64Type>().value(0)),
            _ => None,
        }
    }

    /// The value of a BOOLEAN that is not NULL.
    pub fn as_bool(&self) -> Option<bool> {
        match self.0.data_type() {
            DataType::Boolean if !self.is_null() => Some(self.0.as_boolean().value(0)),
            _ => None,
        }
    }
}

impl PartialEq for Constant {
    fn eq(&self, other: &Constant) -> bool {
        self.0.data_type() == other.0.data_type() && self.0.to_data() == other.0.to_data()
    }
}

impl From<bool> for Constant {
    fn from(value: bool) -> Constant {
        Constant(Arc::new(BooleanArray::from(vec![value])))
    }
}

impl From<i64> for Constant {
    fn from(value: i64) -> Constant {
        Constant(Arc::new(Int64Array::from(vec![value])))
    }
}

impl From<&str> for Constant {
    fn from(value: &str) -> Constant {
        Constant(Arc::new(StringViewArray::from(vec![value])))
    }
}

impl ScalarExpr {
    /// An expression of a type.
    pub fn new(kind: DataType, op: ExprOp) -> ScalarExpr {
        ScalarExpr { kind, op }
    }

    /// A column of a logical plan.
    pub fn id(id: ColumnId, kind: DataType) -> ScalarExpr {
        ScalarExpr::new(kind, ExprOp::Column(id.0))
    }

    /// A column of a physical plan's input.
    pub fn column(position: usize, kind: DataType) -> ScalarExpr {
        ScalarExpr::new(kind, ExprOp::Column(position))
    }

    /// A literal.
    pub fn literal(value: impl Into<Constant>) -> ScalarExpr {
        let value = value.into();
        ScalarExpr::new(value.kind().clone(), ExprOp::Literal(value))
    }

    /// The NULL literal of a type.
    pub fn null(kind: DataType) -> ScalarExpr {
        let value = Constant::null(&kind);
        ScalarExpr::new(kind, ExprOp::Literal(value))
    }

    /// `left op right`, both of one type.
    pub fn compare(left: ScalarExpr, op: CompareOp, right: ScalarExpr) -> ScalarExpr {
        debug_assert_eq!(left.kind, right.kind, "operands of a comparison have one type");
        ScalarExpr::new(DataType::Boolean, ExprOp::Compare(op, Box::new([left, right])))
    }

    /// The conjunction of `parts`; true if it is empty.
    pub fn and(mut parts: Vec<ScalarExpr>) -> ScalarExpr {
        match parts.len() {
            0 => ScalarExpr::literal(true),
            1 => parts.remove(0),
            _ => ScalarExpr::new(DataType::Boolean, ExprOp::And(parts)),
        }
    }

    /// The disjunction of `parts`; false if it is empty.
    pub fn or(mut parts: Vec<ScalarExpr>) -> ScalarExpr {
        match parts.len() {
            0 => ScalarExpr::literal(false),
            1 => parts.remove(0),
            _ => ScalarExpr::new(DataType::Boolean, ExprOp::Or(parts)),
        }
    }

    /// `NOT self`
    #[must_use]
    pub fn negated(self) -> ScalarExpr {
        ScalarExpr::new(DataType::Boolean, ExprOp::Not(Box::new(self)))
    }

    /// `CAST(self AS kind)`, or `self` if it has that type already.
    #[must_use]
    pub fn cast(self, kind: DataType) -> ScalarExpr {
        match self.kind == kind {
            true => self,
            false => ScalarExpr::new(kind, ExprOp::Cast { value: Box::new(self), or_null: false }),
        }
    }

    /// The column, if the expression is just a column.
    pub fn as_column(&self) -> Option<usize> {
        match self.op {
            ExprOp::Column(column) => Some(column),
            _ => None,
        }
    }

    /// The value, if the expression is a literal.
    pub fn as_constant(&self) -> Option<&Constant> {
        match &self.op {
            ExprOp::Literal(value) => Some(value),
            _ => None,
        }
    }

    /// The operands from left to right. The plan of a subquery is not an operand.
    pub fn operands(&self) -> Vec<&ScalarExpr> {
        match &self.op {
            ExprOp::Column(_) | ExprOp::Parameter(_) | ExprOp::Literal(_) | ExprOp::ItemParameter(_) => Vec::new(),
            ExprOp::EachItem { list, body, .. } => vec![list, body],
            ExprOp::Arithmetic(_, pair) | ExprOp::Compare(_, pair) => pair.iter().collect(),
            ExprOp::IsDistinct { operands, .. } => operands.iter().collect(),
            ExprOp::CompareRows(_, left, right) => left.iter().chain(right).collect(),
            ExprOp::Negate(of) | ExprOp::Not(of) => vec![of],
            ExprOp::IsNull { value, .. } | ExprOp::Cast { value, .. } => vec![value],
            ExprOp::And(all) | ExprOp::Or(all) | ExprOp::Coalesce(all) => all.iter().collect(),
            ExprOp::Call(_, all) | ExprOp::Dynamic(_, all) => all.iter().collect(),
            ExprOp::InList { value, list, .. } => std::iter::once(&**value).chain(list).collect(),
            ExprOp::Like { value, pattern, .. } => vec![value, pattern],
            ExprOp::Case { whens, otherwise } => {
                let whens = whens.iter().flat_map(|(when, then)| [when, then]);
                whens.chain(otherwise.as_deref()).collect()
            }
            ExprOp::Subquery(subquery) => subquery.left.iter().collect(),
        }
    }

    /// The operands from left to right, as mutable references.
    pub fn operands_mut(&mut self) -> Vec<&mut ScalarExpr> {
        match &mut self.op {
            ExprOp::Column(_) | ExprOp::Parameter(_) | ExprOp::Literal(_) | ExprOp::ItemParameter(_) => Vec::new(),
            ExprOp::EachItem { list, body, .. } => vec![list, body],
            ExprOp::Arithmetic(_, pair) | ExprOp::Compare(_, pair) => pair.iter_mut().collect(),
            ExprOp::IsDistinct { operands, .. } => operands.iter_mut().collect(),
            ExprOp::CompareRows(_, left, right) => left.iter_mut().chain(right).collect(),
            ExprOp::Negate(of) | ExprOp::Not(of) => vec![of],
            ExprOp::IsNull { value, .. } | ExprOp::Cast { value, .. } => vec![value],
            ExprOp::And(all) | ExprOp::Or(all) | ExprOp::Coalesce(all) => all.iter_mut().collect(),
            ExprOp::Call(_, all) | ExprOp::Dynamic(_, all) => all.iter_mut().collect(),
            ExprOp::InList { value, list, .. } => std::iter::once(&mut **value).chain(list).collect(),
            ExprOp::Like { value, pattern, .. } => vec![value, pattern],
            ExprOp::Case { whens, otherwise } => {
                let whens = whens.iter_mut().flat_map(|(when, then)| [when, then]);
                whens.chain(otherwise.as_deref_mut()).collect()
            }
            ExprOp::Subquery(subquery) => subquery.left.iter_mut().collect(),
        }
    }

    /// Calls `each` with this expression and everything in it, an expression before its operands. Does not enter the
    /// plans of subqueries.
    pub fn each<'a>(&'a self, each: &mut dyn FnMut(&'a ScalarExpr)) {
        each(self);
        self.operands().into_iter().for_each(|operand| operand.each(each));
    }

    /// Whether `test` is true for this expression or for any expression in it.
    pub fn any(&self, test: &dyn Fn(&ScalarExpr) -> bool) -> bool {
        test(self) || self.operands().into_iter().any(|operand| operand.any(test))
    }

    /// Replaces the expression bottom-up: `each` sees every expression after its operands.
    pub fn rewrite(&mut self, each: &mut dyn FnMut(&mut ScalarExpr)) {
        self.operands_mut().into_iter().for_each(|operand| operand.rewrite(each));
        each(self);
    }

    /// For how long the expression gives the same value for the same columns: as long as its least stable function.
    pub fn volatility(&self) -> Volatility {
        let own = match &self.op {
            ExprOp::Call(function, _) => function.volatility,
            ExprOp::Dynamic(function, _) => function.volatility(),
            _ => Volatility::Immutable,
        };
        self.operands().into_iter().map(ScalarExpr::volatility).fold(own, Volatility::max)
    }
}
