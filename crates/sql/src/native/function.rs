//! Expressions of DataFusion as functions of the engine.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use datafusion::physical_expr::PhysicalExpr;
use rowmill_base::{Error, Result};
use rowmill_exec::arithmetic::Arithmetic;
use rowmill_exec::case::Case;
use rowmill_exec::function::{LengthUnit, VectorFunction};

use super::arithmetic::arithmetic;
use super::case::case;
use super::regexp::prepared;
use crate::errors::{NoCandidates, from_datafusion};

/// An expression over columns of one table.
#[derive(Debug)]
pub(super) struct ExprFunction {
    expr: Arc<dyn PhysicalExpr>,
    /// The columns that it reads, as the expression knows them and as the table does.
    schema: SchemaRef,
    columns: Vec<usize>,
    kind: DataType,
    never_fails: bool,
    length: Option<LengthUnit>,
    arithmetic: Option<Arithmetic>,
    case: Option<Case>,
}

impl ExprFunction {
    /// `expr` over the columns of `schema`, which are those at `columns` of the table, with results of type `kind`.
    pub(super) fn new(
        expr: &Expr,
        schema: &DFSchema,
        columns: Vec<usize>,
        kind: DataType,
        state: &SessionState,
    ) -> PlanResult<ExprFunction> {
        let (never_fails, length) = (never_fails(expr, schema), length(expr));
        let is_of_kind = expr.get_type(schema)? == kind;
        let arithmetic = arithmetic(expr, schema).filter(|_| is_of_kind);
        let case = case(expr, schema, state)?.filter(|_| is_of_kind);
        let expr = state.create_physical_expr(prepared(expr.clone())?, schema)?;
        // What the planner believes of NULLs is not relied on.
        let fields = schema.fields().iter().map(|field| Field::clone(field).with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(ExprFunction { expr, schema, columns, kind, never_fails, length, arithmetic, case })
    }
}

impl VectorFunction for ExprFunction {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if let Some(arithmetic) = &self.arithmetic
            && let Some(values) = arithmetic.of_arrays(columns, rows, &self.kind)
        {
            return Ok(values);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns.to_vec(), &options)
            .map_err(|error| Error::internal(error.to_string()))?;
        let values = self
            .expr
            .evaluate(&batch)
            .and_then(|values| values.into_array(rows))
            .map_err(|error| from_datafusion(error, &NoCandidates))?;
        match *values.data_type() == self.kind {
            true => Ok(values),
            false => cast(&values, &self.kind).map_err(|error| Error::internal(error.to_string())),
        }
    }

    fn never_fails(&self) -> bool {
        self.never_fails
    }

    fn length(&self) -> Option<(LengthUnit, &DataType)> {
        self.length.map(|unit| (unit, &self.kind))
    }

    fn arithmetic(&self) -> Option<&Arithmetic> {
        self.arithmetic.as_ref()
    }

    fn case(&self) -> Option<&Case> {
        self.case.as_ref()
    }
}

/// What an expression counts of a column, if it is the length of its values.
fn length(expr: &Expr) -> Option<LengthUnit> {
    match expr {
        Expr::Cast(cast) if cast.field.data_type().is_integer() => length(&cast.expr),
        Expr::ScalarFunction(call) if matches!(*call.args, [Expr::Column(_)]) => match call.name() {
            "character_length" => Some(LengthUnit::Characters),
            "octet_length" => Some(LengthUnit::Bytes),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an expression has a value whatever its columns hold. What is not known here may fail.
pub(super) fn never_fails(expr: &Expr, schema: &DFSchema) -> bool {
    let kind_of = |expr: &Expr| expr.get_type(schema).ok();
    let all = |exprs: &[&Expr]| exprs.iter().all(|expr| never_fails(expr, schema));
    match expr {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::Alias(alias) => never_fails(&alias.expr, schema),
        Expr::Case(case) => {
            let arms = case.when_then_expr.iter().flat_map(|(when, then)| [&**when, &**then]);
            let mut parts = case.expr.iter().chain(&case.else_expr).map(|part| &**part).chain(arms);
            parts.all(|part| never_fails(part, schema))
        }
        Expr::IsNull(of) | Expr::IsNotNull(of) | Expr::Not(of) => never_fails(of, schema),
        Expr::Cast(cast) => {
            let from = kind_of(&cast.expr).and_then(|kind| integer_bits(&kind));
            let to = integer_bits(cast.field.data_type());
            from.zip(to).is_some_and(|(from, to)| from <= to) && never_fails(&cast.expr, schema)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let is_safe = match op {
                Operator::Plus | Operator::Minus => has_room(left, right, schema),
                Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => true,
                op => op.is_logic_operator(),
            };
            is_safe && all(&[left, right])
        }
        Expr::ScalarFunction(call) => {
            let is_safe = match call.name() {
                "date_part" => call.args.get(1).and_then(&kind_of).is_some_and(|kind| has_part(&kind, &call.args[0])),
                "character_length" | "octet_length" => true,
                _ => false,
            };
            is_safe && call.args.iter().all(|argument| never_fails(argument, schema))
        }
        _ => false,
    }
}

/// Whether values of type `kind` have the part of a date or time that `part` names.
fn has_part(kind: &DataType, part: &Expr) -> bool {
    let Expr::Literal(part, _) = part else { return false };
    let Some(Some(part)) = part.try_as_str() else { return false };
    let part = part.to_ascii_lowercase();
    let is_of_day = ["year", "quarter", "month", "week", "day", "dow", "doy"].contains(&&*part);
    let is_of_time = ["hour", "minute", "second"].contains(&&*part);
    match kind {
        DataType::Timestamp(..) => is_of_day || is_of_time,
        DataType::Date32 => is_of_day,
        DataType::Time64(_) => is_of_time,
        _ => false,
    }
}

/// Whether the sum and the difference of two 64-bit integers fit 64 bits because they come from narrower ones.
fn has_room(left: &Expr, right: &Expr, schema: &DFSchema) -> bool {
    let narrow = |expr: &Expr| match expr {
        Expr::Cast(cast) => {
            let from = cast.expr.get_type(schema).ok().and_then(|kind| integer_bits(&kind));
            from.is_some_and(|bits| bits < 63) && *cast.field.data_type() == DataType::Int64
        }
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => number.unsigned_abs() < 1 << 62,
        _ => false,
    };
    narrow(left) && narrow(right)
}

/// The bits that the values of an integer type have, and one for the sign that those without one would need.
fn integer_bits(kind: &DataType) -> Option<usize> {
    let bits = kind.primitive_width().map(|bytes| 8 * bytes)?;
    match kind {
        kind if kind.is_signed_integer() => Some(bits),
        kind if kind.is_unsigned_integer() => Some(bits + 1),
        _ => None,
    }
}
