//! Types of operators and calls: the common type of operands, implicit casts, and typed expressions.

use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{CompareOp, FunctionSpec, ScalarExpr};

/// The type that values of all `kinds` are implicitly cast to where they stand beside each other; `None` if there is
/// none. The type NULL goes with every type.
pub fn common_kind<'a>(_kinds: impl IntoIterator<Item = &'a DataType>) -> Option<DataType> {
    todo!()
}

/// `expr` as a value of type `kind`, where SQL casts implicitly: in operators, arguments, CASE, and set operations. A literal
/// text is read as a value of the type.
pub fn coerce(_expr: ScalarExpr, _kind: &DataType) -> Result<ScalarExpr> {
    todo!()
}

/// `CAST(expr AS kind)` or `TRY_CAST(expr AS kind)`.
pub fn cast(_expr: ScalarExpr, _kind: &DataType, _or_null: bool) -> Result<ScalarExpr> {
    todo!()
}

/// `left op right`, of numbers, dates, times, timestamps and intervals.
pub fn arithmetic(_op: ArithmeticOp, _left: ScalarExpr, _right: ScalarExpr) -> Result<ScalarExpr> {
    todo!()
}

/// `-expr`
pub fn negate(_expr: ScalarExpr) -> Result<ScalarExpr> {
    todo!()
}

/// `left op right`, brought to their common type.
pub fn compare(_op: CompareOp, _left: ScalarExpr, _right: ScalarExpr) -> Result<ScalarExpr> {
    todo!()
}

/// `left IS [NOT] DISTINCT FROM right`
pub fn is_distinct(_left: ScalarExpr, _right: ScalarExpr, _negated: bool) -> Result<ScalarExpr> {
    todo!()
}

/// `left || right`, of texts, blobs or lists.
pub fn concat(_left: ScalarExpr, _right: ScalarExpr) -> Result<ScalarExpr> {
    todo!()
}

/// A call of a function, with its arguments cast to the types of the signature. The error names the types that were given.
pub fn call(_function: &'static FunctionSpec, _arguments: Vec<ScalarExpr>) -> Result<ScalarExpr> {
    todo!()
}
