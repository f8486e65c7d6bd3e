//! Compiles scalars to expressions: finds the places of columns and texts, and checks the types that the program
//! promises.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Physical, Result, SqlType};
use rowmill_expr::typing;
use rowmill_plan::ScalarExpr;
use rowmill_plan::program::{RowColumn, Scalar, ScalarOp};

use super::compare::are_alike;
use super::{CaseExpr, Cast, Comparison, Evaluated, Expr, LikeTest, NumberStep, TextCall};
use crate::number::Number;

/// Levels of nested operands at most, because an expression is computed recursively on the stack of the calling thread.
const DEPTH_MAX: usize = 200;

/// The places of columns when an expression is computed: first the needed columns of the first row, then those of the
/// second row, and so on.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowsLayout {
    rows: Vec<RowLayout>,
}

#[derive(Clone, Debug)]
struct RowLayout {
    /// The types of all columns of the row.
    kinds: Vec<SqlType>,
    /// The columns that the statement needs, in ascending order.
    wanted: Vec<usize>,
}

impl RowsLayout {
    /// A layout of rows with columns of these types. No column is needed so far.
    pub(crate) fn new(rows: impl IntoIterator<Item = Vec<SqlType>>) -> RowsLayout {
        RowsLayout { rows: rows.into_iter().map(|kinds| RowLayout { kinds, wanted: Vec::new() }).collect() }
    }

    /// A layout of rows whose columns are all needed.
    pub(crate) fn of_all(rows: impl IntoIterator<Item = Vec<SqlType>>) -> RowsLayout {
        let mut layout = RowsLayout::new(rows);
        for row in &mut layout.rows {
            row.wanted = (0..row.kinds.len()).collect();
        }
        layout
    }

    /// Marks all columns of `scalar` as needed. The caller must do this for all scalars before it compiles the first
    /// one, because every added column moves the places of the columns after it.
    pub(crate) fn want(&mut self, scalar: &Scalar) -> Result<()> {
        self.want_within(scalar, usize::MAX)
    }

    /// Marks the columns of `scalar` that belong to the first `rows` rows as needed.
    pub(crate) fn want_within(&mut self, scalar: &Scalar, rows: usize) -> Result<()> {
        let mut unknown = false;
        scalar.each_column(&mut |RowColumn { row, column }| match self.rows.get_mut(row) {
            _ if row >= rows => {}
            Some(row) if column < row.kinds.len() => {
                // Keep the list sorted, so a column's place is its position in it.
                if let Err(at) = row.wanted.binary_search(&column) {
                    row.wanted.insert(at, column);
                }
            }
            _ => unknown = true,
        });
        if unknown { Err(Error::internal("the program refers to a column that its rows do not have")) } else { Ok(()) }
    }

    /// Adds a row with columns of these types.
    pub(crate) fn add_row(&mut self, kinds: Vec<SqlType>) {
        self.rows.push(RowLayout { kinds, wanted: Vec::new() });
    }

    /// The layout of the first rows, with the same needed columns.
    pub(crate) fn first_rows(&self, rows: usize) -> RowsLayout {
        RowsLayout { rows: self.rows[..rows].to_vec() }
    }

    /// The types of the needed columns of all rows, in the order of their places.
    pub(crate) fn wanted_kinds(&self) -> Arc<[SqlType]> {
        let kinds = self.rows.iter().flat_map(|row| row.wanted.iter().map(|column| row.kinds[*column].clone()));
        kinds.collect()
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The needed columns of a row, in the order of their places.
    pub(crate) fn wanted(&self, row: usize) -> &[usize] {
        &self.rows[row].wanted
    }

    /// The place of a needed column in the list of values of the rows, and its type.
    pub(crate) fn place(&self, RowColumn { row, column }: RowColumn) -> Option<(usize, &SqlType)> {
        // A place is the number of needed columns of earlier rows, plus the position within this row.
        let before: usize = self.rows[..row].iter().map(|row| row.wanted.len()).sum();
        let row = &self.rows[row];
        Some((before + row.wanted.binary_search(&column).ok()?, row.kinds.get(column)?))
    }
}

/// Compiles expressions that are computed for the same rows, and counts the texts that they make.
#[derive(Debug)]
pub(crate) struct ExprCompiler<'a> {
    parameters: &'a [SqlType],
    layout: &'a RowsLayout,
    /// How many of the rows are known when the expressions are computed.
    rows: usize,
    texts: usize,
}

impl<'a> ExprCompiler<'a> {
    /// A compiler for expressions over the first `rows` rows of `layout`.
    pub(crate) fn new(parameters: &'a [SqlType], layout: &'a RowsLayout, rows: usize) -> Self {
        ExprCompiler { parameters, layout, rows, texts: 0 }
    }

    /// A compiler for expressions over other rows, with the same parameters.
    pub(crate) fn beside<'b>(&self, layout: &'b RowsLayout, rows: usize) -> ExprCompiler<'b>
    where
        'a: 'b,
    {
        ExprCompiler::new(self.parameters, layout, rows)
    }

    /// How many places for texts the expressions need.
    pub(crate) fn texts(&self) -> usize {
        self.texts
    }

    /// Compiles `scalar`.
    ///
    /// Returns `Unsupported` if a program cannot compute a part of it. The general engine must then run the statement.
    pub(crate) fn expr(&mut self, scalar: &Scalar) -> Result<Expr> {
        self.at_depth(scalar, 0)
    }

    /// Compiles several scalars.
    pub(crate) fn exprs(&mut self, scalars: &[Scalar]) -> Result<Box<[Expr]>> {
        scalars.iter().map(|scalar| self.expr(scalar)).collect()
    }

    /// Compiles a condition, which must be a boolean.
    pub(crate) fn condition(&mut self, scalar: &Scalar) -> Result<Expr> {
        self.checked(scalar, 0)
    }

    /// Compiles `scalar` as a value that is assigned to a column of the type `kind`.
    pub(crate) fn assigned(&mut self, scalar: &Scalar, kind: &SqlType, column: &str) -> Result<Expr> {
        let expr = self.expr(scalar)?;
        if is_null(&expr) {
            return Ok(expr);
        }
        let is_in_steps = Cast::is_assigned(&scalar.kind, kind);
        let place = next(&mut self.texts);
        // Numbers and dates are converted in place. Other types go through the evaluator, by the rules of file imports.
        if is_in_steps {
            return Cast::of(expr, &scalar.kind, kind, || place, Some(column))
                .ok_or_else(|| unsupported(format_args!("assigning {} to {kind}", scalar.kind)));
        }
        if !is_read_or_shown(&scalar.kind, kind) {
            return Err(unsupported(format_args!("assigning {} to {kind}", scalar.kind)));
        }
        let value = ScalarExpr::column(0, scalar.kind.arrow());
        let target = if matches!(kind, SqlType::Text { .. }) { &SqlType::TEXT } else { kind };
        let cast = typing::cast(value, &target.arrow(), false)
            .map_err(|_| unsupported(format_args!("assigning {} to {kind}", scalar.kind)))?;
        let operands = Box::new([(expr, scalar.kind.clone())]);
        Ok(Expr::Evaluated(Box::new(Evaluated::assigned(&cast, operands, target, place, column)?)))
    }

    /// Compiles `scalar`, cast to another type.
    pub(crate) fn cast(&mut self, scalar: &Scalar, kind: &SqlType) -> Result<Expr> {
        let expr = self.expr(scalar)?;
        self.cast_expr(expr, &scalar.kind, kind)
    }

    fn cast_expr(&mut self, expr: Expr, from: &SqlType, to: &SqlType) -> Result<Expr> {
        if is_null(&expr) {
            return Ok(expr);
        }
        let place = || next(&mut self.texts);
        Cast::of(expr, from, to, place, None).ok_or_else(|| unsupported(format_args!("a cast from {from} to {to}")))
    }

    fn at_depth(&mut self, scalar: &Scalar, depth: usize) -> Result<Expr> {
        // Computing an expression recurses once per level, so the depth must be limited here.
        if depth > DEPTH_MAX {
            return Err(unsupported(format_args!("an expression with more than {DEPTH_MAX} levels")));
        }
        let of = |compiler: &mut Self, operand: &Scalar| compiler.at_depth(operand, depth + 1);
        let kind = &scalar.kind;
        Ok(match &scalar.op {
            ScalarOp::Parameter(number) => self.parameter(*number, kind)?,
            ScalarOp::Column(column) => self.column(*column, kind)?,
            ScalarOp::Literal(value) => {
                if !super::is_of(super::borrowed(value), kind) {
                    return Err(Error::internal(format!("the program has the literal {value:?} with the type {kind}")));
                }
                Expr::Literal(value.clone())
            }
            ScalarOp::Arithmetic(op, pair) => {
                let operands = [of(self, &pair[0])?, of(self, &pair[1])?];
                let step = NumberStep::new(*op, [&pair[0].kind, &pair[1].kind], kind, operands);
                let what = || unsupported(format_args!("{} {op} {} as {kind}", pair[0].kind, pair[1].kind));
                Expr::Arithmetic(Box::new(step.ok_or_else(what)?))
            }
            ScalarOp::Negate(operand) => {
                if operand.kind != *kind || Number::of(kind).is_none() {
                    return Err(unsupported(format_args!("-{} as {kind}", operand.kind)));
                }
                Expr::Negate(Box::new(of(self, operand)?), kind.clone())
            }
            ScalarOp::Compare(op, pair) => {
                // Programs have no implicit casts, so both operands must be brought to one type.
                let kinds = compared_as(&pair[0].kind, &pair[1].kind);
                let operands = [of(self, &pair[0])?, of(self, &pair[1])?];
                let [left, right] = operands;
                let left = self.cast_expr(left, &pair[0].kind, &kinds[0])?;
                let right = self.cast_expr(right, &pair[1].kind, &kinds[1])?;
                let comparison = Comparison::new(*op, [&kinds[0], &kinds[1]], [left, right]);
                let what = || unsupported(format_args!("{} {op} {}", pair[0].kind, pair[1].kind));
                Expr::Compare(Box::new(comparison.ok_or_else(what)?))
            }
            ScalarOp::And(all) => Expr::And(all.iter().map(|one| self.checked(one, depth + 1)).collect::<Result<_>>()?),
            ScalarOp::Or(all) => Expr::Or(all.iter().map(|one| self.checked(one, depth + 1)).collect::<Result<_>>()?),
            ScalarOp::Not(one) => Expr::Not(Box::new(self.checked(one, depth + 1)?)),
            ScalarOp::IsNull { value, negated: false } => Expr::IsNull(Box::new(of(self, value)?)),
            ScalarOp::IsNull { value, negated: true } => Expr::IsNotNull(Box::new(of(self, value)?)),
            ScalarOp::Case { whens, otherwise } => {
                let whens = whens
                    .iter()
                    .map(|(when, then)| Ok((self.checked(when, depth + 1)?, self.alike(then, kind, depth + 1)?)));
                let whens = whens.collect::<Result<_>>()?;
                let otherwise = match otherwise {
                    Some(otherwise) => self.alike(otherwise, kind, depth + 1)?,
                    None => Expr::Literal(rowmill_plan::program::ScalarValue::Null),
                };
                Expr::Case(Box::new(CaseExpr { whens, otherwise }))
            }
            ScalarOp::Cast(operand) => {
                let expr = of(self, operand)?;
                self.cast_expr(expr, &operand.kind, kind)?
            }
            ScalarOp::Coalesce(all) => {
                Expr::Coalesce(all.iter().map(|one| self.alike(one, kind, depth + 1)).collect::<Result<_>>()?)
            }
            ScalarOp::Text(function, arguments) => {
                let kinds: Vec<&SqlType> = arguments.iter().map(|argument| &argument.kind).collect();
                let exprs = arguments.iter().map(|argument| of(self, argument)).collect::<Result<_>>()?;
                let call = TextCall::new(*function, &kinds, kind, exprs, next(&mut self.texts));
                Expr::Text(Box::new(call.ok_or_else(|| unsupported(format_args!("{function:?} of {kinds:?}")))?))
            }
            ScalarOp::Like { operands, escape, negated, ignore_case } => {
                let is_text = |operand: &Scalar| matches!(operand.kind, SqlType::Text { .. });
                if !operands.iter().all(is_text) || *kind != SqlType::Boolean {
                    return Err(Error::internal("the program has a LIKE whose operands are not texts"));
                }
                let operands = [of(self, &operands[0])?, of(self, &operands[1])?];
                Expr::Like(Box::new(LikeTest::new(operands, *escape, *ignore_case, *negated)))
            }
            ScalarOp::Evaluate(expr, operands) => {
                let operands = operands.iter().map(|operand| Ok((of(self, operand)?, operand.kind.clone())));
                let operands = operands.collect::<Result<_>>()?;
                Expr::Evaluated(Box::new(Evaluated::new(expr, operands, kind, next(&mut self.texts))?))
            }
        })
    }

    fn parameter(&self, number: usize, kind: &SqlType) -> Result<Expr> {
        match self.parameters.get(number) {
            Some(declared) if declared == kind => Ok(Expr::Parameter(number)),
            declared => {
                let what = format!("the program uses parameter {number} as {kind}, but declares it as {declared:?}");
                Err(Error::internal(what))
            }
        }
    }

    fn column(&self, column: RowColumn, kind: &SqlType) -> Result<Expr> {
        // Rows of later lookups are not known yet when this expression runs.
        let is_there = column.row < self.rows;
        match is_there.then(|| self.layout.place(column)).flatten() {
            Some((place, declared)) if is_kept_alike(declared, kind) => Ok(Expr::Column(place)),
            found => {
                let found = found.map(|(_, declared)| declared);
                Err(Error::internal(format!("the program uses {column:?} as {kind}, but finds {found:?}")))
            }
        }
    }

    /// Compiles a scalar that must be a boolean.
    fn checked(&mut self, scalar: &Scalar, depth: usize) -> Result<Expr> {
        match scalar.kind == SqlType::Boolean {
            true => self.at_depth(scalar, depth),
            false => Err(Error::internal(format!("the program has a condition of type {}", scalar.kind))),
        }
    }

    /// Compiles one of several alternatives that must all have the type `kind`, such as the branches of a CASE.
    fn alike(&mut self, scalar: &Scalar, kind: &SqlType, depth: usize) -> Result<Expr> {
        let expr = self.at_depth(scalar, depth)?;
        match is_kept_alike(&scalar.kind, kind) || is_null(&expr) {
            true => Ok(expr),
            false => Err(unsupported(format_args!("{} among values of the type {kind}", scalar.kind))),
        }
    }
}

fn next(count: &mut usize) -> usize {
    *count += 1;
    *count - 1
}

/// Whether an assignment between the types parses or shows a text as a cast does, or converts a number of 256 bits,
/// which only the evaluator does.
fn is_read_or_shown(from: &SqlType, to: &SqlType) -> bool {
    if Physical::of(from) == Physical::Wide || Physical::of(to) == Physical::Wide {
        return true;
    }
    let is_text = |kind: &SqlType| matches!(kind, SqlType::Text { .. });
    let is_flat = |kind: &SqlType| !matches!(kind, SqlType::List(_) | SqlType::Struct(_));
    is_text(from) && is_flat(to) || is_text(to) && is_flat(from)
}

/// Whether values of both types are represented in the same way.
fn is_kept_alike(left: &SqlType, right: &SqlType) -> bool {
    left == right || matches!((left, right), (SqlType::Text { .. }, SqlType::Text { .. }))
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(rowmill_plan::program::ScalarValue::Null))
}

/// The types to which two operands are cast before they are compared. An exact number beside a float becomes a float,
/// and a text beside a date or time becomes a date or time.
fn compared_as(left: &SqlType, right: &SqlType) -> [SqlType; 2] {
    let is_text = |kind: &SqlType| matches!(kind, SqlType::Text { .. });
    let is_read = |kind: &SqlType| matches!(kind, SqlType::Date | SqlType::Time | SqlType::Timestamp { .. });
    let is_float = |kind: &SqlType| Number::of(kind).is_some_and(Number::is_float);
    match (left, right) {
        _ if are_alike(left, right) => [left.clone(), right.clone()],
        (left, right) if is_text(left) && is_read(right) => [right.clone(), right.clone()],
        (left, right) if is_read(left) && is_text(right) => [left.clone(), left.clone()],
        (left, right) if is_float(left) || is_float(right) => {
            let has_double = [left, right].contains(&&SqlType::Float64);
            let float = if has_double { SqlType::Float64 } else { SqlType::Float32 };
            [float.clone(), float]
        }
        _ => [left.clone(), right.clone()],
    }
}

/// The error for a feature that programs do not have. The caller should run the statement with the general engine.
#[cold]
pub(crate) fn unsupported(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what} is not compiled"))
}
