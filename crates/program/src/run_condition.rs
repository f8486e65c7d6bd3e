//! A condition that is tested for many rows at once, by the evaluator of batches.
//!
//! A step of a program costs one dispatch per operator and row. A scan that visits many rows to find a few should not
//! pay that for each row, so its condition is also compiled for batches. Parameters and columns of the lookups before
//! do not change during a scan. They become literals when it begins:
//!
//! ```text
//! condition        id % ?1 = other.x        over one row
//! when it runs     #0 % 1000 = 7            over a batch with the column id
//! ```
//!
//! A batch tests rows that a test row by row may never reach, because the statement may need fewer rows. So a condition
//! that can fail is not tested in batches.

use arrow::buffer::BooleanBuffer;
use rowmill_base::{Result, SqlType};
use rowmill_expr::evaluator::Evaluator;
use rowmill_expr::fold::can_fail;
use rowmill_expr::functions;
use rowmill_plan::program::{Scalar, ScalarOp, TextFunction};
use rowmill_plan::{Constant, ExprOp, ScalarExpr, Volatility};
use rowmill_storage::keyed::ValueRef;

use crate::access::{CompiledAccess, RunRows};
use crate::arrays::array_of;
use crate::expr::{Env, Expr, ExprCompiler, borrowed};

/// A condition of a lookup, for many rows of its table.
#[derive(Debug)]
pub(crate) struct RunCondition {
    /// The condition. Its column `n` is the `n`th operand.
    expr: ScalarExpr,
    operands: Box<[RunOperand]>,
}

/// An operand of a condition.
#[derive(Debug)]
enum RunOperand {
    /// A column of the table.
    Column(usize),
    /// A value that does not change during a scan.
    Given(Expr, SqlType),
}

/// A condition whose given values are literals.
#[derive(Debug)]
pub(crate) struct PreparedCondition {
    evaluator: Evaluator,
    /// The columns of the table that the evaluator reads, in the order of its columns.
    columns: Vec<usize>,
}

impl RunCondition {
    /// Compiles `condition` of the lookup `row`. `compiler` must know the rows of the lookups before. Returns `None`
    /// if the evaluator has no such expression.
    pub(crate) fn new(condition: &Scalar, row: usize, compiler: &mut ExprCompiler<'_>) -> Option<RunCondition> {
        let mut operands = Vec::new();
        let expr = ConditionLowering { row, compiler, operands: &mut operands }.lowered(condition)?;
        let is_read = operands.iter().any(|operand| matches!(operand, RunOperand::Column(_)));
        is_read.then(|| RunCondition { expr, operands: operands.into() })
    }

    /// The condition with the values that `env` gives. Returns `None` if it could fail for a row.
    pub(crate) fn prepare(&self, env: Env<'_>) -> Result<Option<PreparedCondition>> {
        let mut columns = Vec::new();
        let mut replacements = Vec::with_capacity(self.operands.len());
        for operand in &self.operands {
            replacements.push(match operand {
                RunOperand::Column(column) => {
                    columns.push(*column);
                    ExprOp::Column(columns.len() - 1)
                }
                RunOperand::Given(expr, kind) => literal(kind, expr.value(env)?)?,
            });
        }
        let mut expr = self.expr.clone();
        expr.rewrite(&mut |part| {
            if let ExprOp::Column(operand) = part.op {
                part.op = replacements[operand].clone();
            }
        });
        if can_fail(&expr) || expr.volatility() == Volatility::Volatile {
            return Ok(None);
        }
        Ok(Evaluator::new(&expr).ok().map(|evaluator| PreparedCondition { evaluator, columns }))
    }
}

impl PreparedCondition {
    /// The rows for which the condition is true.
    pub(crate) fn selected(&self, access: &CompiledAccess, rows: RunRows<'_>) -> Result<BooleanBuffer> {
        self.evaluator.selected(&access.decode(rows, &self.columns)?, rows.len())
    }
}

/// Turns a scalar of a program back into an expression over operands.
struct ConditionLowering<'l, 'c> {
    row: usize,
    compiler: &'l mut ExprCompiler<'c>,
    operands: &'l mut Vec<RunOperand>,
}

impl ConditionLowering<'_, '_> {
    fn lowered(&mut self, scalar: &Scalar) -> Option<ScalarExpr> {
        let kind = scalar.kind.arrow();
        let op = match &scalar.op {
            ScalarOp::Column(column) if column.row == self.row => self.operand(RunOperand::Column(column.column)),
            ScalarOp::Column(_) | ScalarOp::Parameter(_) => {
                let given = self.compiler.expr(scalar).ok()?;
                self.operand(RunOperand::Given(given, scalar.kind.clone()))
            }
            ScalarOp::Literal(value) => literal(&scalar.kind, borrowed(value)).ok()?,
            ScalarOp::Arithmetic(op, pair) => ExprOp::Arithmetic(*op, self.pair(pair)?),
            ScalarOp::Negate(of) => ExprOp::Negate(self.boxed(of)?),
            // The steps of a program also compare values of different types.
            ScalarOp::Compare(op, pair) if pair[0].kind.arrow() == pair[1].kind.arrow() => {
                ExprOp::Compare(*op, self.pair(pair)?)
            }
            ScalarOp::Compare(..) => return None,
            ScalarOp::And(parts) => ExprOp::And(self.all(parts)?),
            ScalarOp::Or(parts) => ExprOp::Or(self.all(parts)?),
            ScalarOp::Not(of) => ExprOp::Not(self.boxed(of)?),
            ScalarOp::IsNull { value, negated } => ExprOp::IsNull { value: self.boxed(value)?, negated: *negated },
            ScalarOp::Case { whens, otherwise } => {
                let whens = whens.iter().map(|(when, then)| Some((self.lowered(when)?, self.lowered(then)?)));
                let whens = whens.collect::<Option<_>>()?;
                let otherwise = match otherwise {
                    Some(otherwise) => Some(self.boxed(otherwise)?),
                    None => None,
                };
                ExprOp::Case { whens, otherwise }
            }
            ScalarOp::Cast(of) => ExprOp::Cast { value: self.boxed(of)?, or_null: false },
            ScalarOp::Coalesce(parts) => ExprOp::Coalesce(self.all(parts)?),
            ScalarOp::Text(function, arguments) => {
                let name = match function {
                    TextFunction::Concat => "text_concat",
                    TextFunction::Lower => "lower",
                    TextFunction::Upper => "upper",
                    TextFunction::Substring | TextFunction::Length => return None,
                };
                ExprOp::Call(functions::find(name)?, self.all(arguments)?)
            }
            ScalarOp::Like { operands, escape, negated, ignore_case } => {
                let [value, pattern] = &**operands;
                let (value, pattern) = (self.boxed(value)?, self.boxed(pattern)?);
                ExprOp::Like { value, pattern, escape: *escape, negated: *negated, ignore_case: *ignore_case }
            }
            ScalarOp::Evaluate(expr, operands) => {
                let operands = self.all(operands)?;
                let mut expr = ScalarExpr::clone(expr);
                expr.rewrite(&mut |part| {
                    if let ExprOp::Column(operand) = part.op {
                        part.clone_from(&operands[operand]);
                    }
                });
                return Some(expr);
            }
        };
        Some(ScalarExpr::new(kind, op))
    }

    fn operand(&mut self, operand: RunOperand) -> ExprOp {
        let known = match &operand {
            RunOperand::Column(column) => {
                self.operands.iter().position(|known| matches!(known, RunOperand::Column(other) if other == column))
            }
            RunOperand::Given(..) => None,
        };
        ExprOp::Column(known.unwrap_or_else(|| {
            self.operands.push(operand);
            self.operands.len() - 1
        }))
    }

    fn boxed(&mut self, scalar: &Scalar) -> Option<Box<ScalarExpr>> {
        self.lowered(scalar).map(Box::new)
    }

    fn pair(&mut self, pair: &[Scalar; 2]) -> Option<Box<[ScalarExpr; 2]>> {
        Some(Box::new([self.lowered(&pair[0])?, self.lowered(&pair[1])?]))
    }

    fn all(&mut self, scalars: &[Scalar]) -> Option<Vec<ScalarExpr>> {
        scalars.iter().map(|scalar| self.lowered(scalar)).collect()
    }
}

/// A value as a literal.
fn literal(kind: &SqlType, value: ValueRef<'_>) -> Result<ExprOp> {
    Ok(ExprOp::Literal(Constant::new(array_of(kind, std::iter::once(value))?)))
}
