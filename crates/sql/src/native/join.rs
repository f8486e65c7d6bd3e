//! Joins: which side is kept in memory, and what each kind gives.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, DFSchemaRef, JoinType, NullEquality, Result};
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, ExprSchemable};
use rowmill_plan::{self as plan, JoinKind, Node};

use super::estimate::{distinct_count, distinct_of_expression, row_count, unique_keys, whole_count};
use super::join_graph::inner_join;
use super::lowering::Lowerer;
use super::rows::{Rows, Source};

/// A join of two sides of which it is settled which is kept in memory.
pub(super) struct JoinSpec {
    pub(super) kind: JoinKind,
    /// Expressions of the side that is kept and of the other.
    pub(super) on: Vec<(Expr, Expr)>,
    pub(super) nulls_equal: bool,
    pub(super) null_aware: bool,
    /// What has to be true besides.
    pub(super) conditions: Vec<Expr>,
    pub(super) kept: Kept,
    /// Rows of the result, about, where its place in an order of joins was chosen by it.
    pub(super) rows: Option<f64>,
}

/// The columns that are asked of a join.
pub(super) enum Kept {
    All,
    /// Those with these names.
    Only(HashSet<String>),
}

impl JoinSpec {
    pub(super) fn inner() -> JoinSpec {
        JoinSpec {
            kind: JoinKind::Inner,
            on: Vec::new(),
            nulls_equal: false,
            null_aware: false,
            conditions: Vec::new(),
            kept: Kept::All,
            rows: None,
        }
    }
}

/// The sides of a join, as the statement has them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// What a join gives if `build` is kept in memory; `None` if it cannot be that side.
fn kind(join_type: JoinType, build: Side) -> Option<JoinKind> {
    Some(match (join_type, build) {
        (JoinType::Inner, _) => JoinKind::Inner,
        (JoinType::Full, _) => JoinKind::FullOuter,
        (JoinType::Left, Side::Left) | (JoinType::Right, Side::Right) => JoinKind::BuildOuter,
        (JoinType::Left, Side::Right) | (JoinType::Right, Side::Left) => JoinKind::ProbeOuter,
        (JoinType::LeftSemi, Side::Left) | (JoinType::RightSemi, Side::Right) => JoinKind::BuildSemi,
        (JoinType::LeftSemi, Side::Right) | (JoinType::RightSemi, Side::Left) => JoinKind::ProbeSemi,
        (JoinType::LeftAnti, Side::Left) | (JoinType::RightAnti, Side::Right) => JoinKind::BuildAnti,
        (JoinType::LeftAnti, Side::Right) | (JoinType::RightAnti, Side::Left) => JoinKind::ProbeAnti,
        (JoinType::LeftMark, Side::Right) | (JoinType::RightMark, Side::Left) => JoinKind::ProbeMark,
        (JoinType::LeftMark, Side::Left) | (JoinType::RightMark, Side::Right) => return None,
    })
}

/// Whether the rows of a side can be filled up with NULLs.
fn is_filled(join_type: JoinType, side: Side) -> bool {
    match side {
        Side::Left => matches!(join_type, JoinType::Right | JoinType::Full),
        Side::Right => matches!(join_type, JoinType::Left | JoinType::Full),
    }
}

/// Whether a join gives the columns of a side.
fn is_given(join_type: JoinType, side: Side) -> bool {
    match join_type {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => side == Side::Left,
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => side == Side::Right,
        _ => true,
    }
}

impl Lowerer<'_> {
    pub(super) fn join(&mut self, join: &Join, left: Rows, right: Rows) -> Result<Option<Rows>> {
        let Some(left) = self.with_own_columns(join.join_type, Side::Left, left)? else { return Ok(None) };
        let Some(right) = self.with_own_columns(join.join_type, Side::Right, right)? else { return Ok(None) };
        let schemas = [join.left.schema(), join.right.schema()];
        let mut on = Vec::with_capacity(join.on.len());
        for (of_left, of_right) in &join.on {
            on.push((left.resolve(of_left.clone(), schemas[0])?, right.resolve(of_right.clone(), schemas[1])?));
        }
        let resolve = |filter: &Expr| {
            let resolved = filter.clone().transform_up(|expr| {
                let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
                Ok(Transformed::yes(match schemas[0].maybe_index_of_column(column) {
                    Some(place) => left.exprs[place].clone(),
                    None => right.exprs[schemas[1].index_of_column(column)?].clone(),
                }))
            });
            resolved.data()
        };
        let conditions = join.filter.iter().map(resolve).collect::<Result<Vec<Expr>>>()?;
        let nulls_equal = join.null_equality == NullEquality::NullEqualsNull;
        if join.join_type == JoinType::Inner && !nulls_equal {
            let exprs = left.exprs.iter().chain(&right.exprs).cloned().collect();
            return inner_join(&left, &right, &on, conditions, exprs);
        }
        let asked: Vec<Expr> = on.iter().flat_map(|(left, right)| [left, right]).chain(&conditions).cloned().collect();
        let Some(left) = self.settled(left, &asked)? else { return Ok(None) };
        let Some(right) = self.settled(right, &asked)? else { return Ok(None) };
        // The rows of the larger side only pass by.
        let first = if self.rows_of(&left) <= self.rows_of(&right) { Side::Left } else { Side::Right };
        let other = if first == Side::Left { Side::Right } else { Side::Left };
        let chosen = [first, other].into_iter().find_map(|side| Some((side, kind(join.join_type, side)?)));
        let Some((side, kind)) = chosen else { return Ok(None) };
        let mut exprs = Vec::new();
        for (side, rows) in [(Side::Left, &left), (Side::Right, &right)] {
            if is_given(join.join_type, side) {
                exprs.extend(rows.exprs.iter().cloned());
            }
        }
        let (build, probe) = match side {
            Side::Left => (left, right),
            Side::Right => {
                on.iter_mut().for_each(|(left, right)| std::mem::swap(left, right));
                (right, left)
            }
        };
        let spec = JoinSpec { kind, on, nulls_equal, null_aware: join.null_aware, conditions, ..JoinSpec::inner() };
        let Some(rows) = self.join_rows(spec, build, probe)? else { return Ok(None) };
        if kind == JoinKind::ProbeMark {
            exprs.extend(rows.exprs.last().cloned());
        }
        Ok(Some(Rows { exprs, ..rows }))
    }

    /// The rows of a side, with everything that they give as columns if they can be filled up with NULLs: a constant of
    /// theirs is NULL then as well.
    fn with_own_columns(&mut self, join_type: JoinType, side: Side, rows: Rows) -> Result<Option<Rows>> {
        if !is_filled(join_type, side) || rows.exprs.iter().all(|expr| rows.place(expr).is_some()) {
            return Ok(Some(rows));
        }
        let Some(rows) = self.settled(rows, &[])? else { return Ok(None) };
        let mut exprs = rows.exprs.clone();
        let rows = self.with_columns(rows, &mut exprs)?;
        Ok(rows.map(|rows| Rows { exprs, ..rows }))
    }

    /// A join of which all is settled; its columns are those of the source.
    pub(super) fn join_rows(&mut self, spec: JoinSpec, build: Rows, probe: Rows) -> Result<Option<Rows>> {
        let (mut of_build, mut of_probe): (Vec<Expr>, Vec<Expr>) = spec.on.into_iter().unzip();
        let Some(build) = self.with_columns(build, &mut of_build)? else { return Ok(None) };
        let Some(probe) = self.with_columns(probe, &mut of_probe)? else { return Ok(None) };
        let mut on = Vec::with_capacity(of_build.len());
        for (of_build, of_probe) in of_build.iter().zip(&of_probe) {
            let kind = of_build.get_type(&*build.schema)?;
            if kind != of_probe.get_type(&*probe.schema)? || kind.is_nested() {
                return Ok(None);
            }
            let (Some(of_build), Some(of_probe)) = (build.place(of_build), probe.place(of_probe)) else {
                return Ok(None);
            };
            on.push((of_build, of_probe));
        }
        let pairs = build.schema.join(&probe.schema)?;
        let condition = match conjunction(spec.conditions) {
            None => None,
            Some(condition) => match self.expr_over(condition, &DataType::Boolean, &pairs, &[&build, &probe])? {
                Some(condition) => Some(condition),
                None => return Ok(None),
            },
        };
        let mut fields: Vec<FieldRef> = pairs.fields().to_vec();
        if spec.kind == JoinKind::ProbeMark {
            fields
                .extend(self.named(&[Arc::new(Field::new("mark", DataType::Boolean, true))])?.fields().iter().cloned());
        }
        let of_build = build.schema.fields().len();
        let given = match spec.kind {
            kind if kind.asks_of_probe() => of_build..fields.len(),
            JoinKind::BuildSemi | JoinKind::BuildAnti => 0..of_build,
            _ => 0..fields.len(),
        };
        let is_kept = |place: &usize| match &spec.kept {
            Kept::All => true,
            Kept::Only(names) => names.contains(fields[*place].name()),
        };
        let output: Vec<usize> = given.filter(is_kept).collect();
        let schema = schema_of(output.iter().map(|place| &fields[*place]))?;
        let node = plan::Join {
            build: Arc::clone(build.node()),
            probe: Arc::clone(probe.node()),
            kind: spec.kind,
            on,
            nulls_equal: spec.nulls_equal,
            null_aware: spec.null_aware,
            condition,
            output,
            rows: spec.rows,
            schema: Arc::clone(schema.inner()),
        };
        Ok(Some(Rows::new(Node::Join(node), schema, true)))
    }

    pub(super) fn rows_of(&self, rows: &Rows) -> f64 {
        row_count(rows.node(), self.tables())
    }

    /// How many rows there would be if no condition left any out.
    pub(super) fn rows_unfiltered(&self, rows: &Rows) -> f64 {
        whole_count(rows.node(), self.tables())
    }

    /// How many values `expr` would have then.
    pub(super) fn distinct_count(&self, rows: &Rows, expr: &Expr) -> f64 {
        match stored_column(rows, expr) {
            Some(column) => distinct_count(rows.node(), column, self.tables()),
            None => distinct_of_expression(rows.node(), self.tables()),
        }
    }

    /// The columns that are keys of `rows`, by their places.
    pub(super) fn unique_keys(&self, rows: &Rows) -> Vec<Vec<usize>> {
        unique_keys(rows.node(), self.tables())
    }
}

/// The column of `rows` whose values `expr` has, be it as another type.
pub(super) fn stored_column(rows: &Rows, expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Cast(cast) => stored_column(rows, &cast.expr),
        _ => rows.place(expr),
    }
}

/// The rows of a join without the columns that nothing of the logical plan needs.
pub(super) fn narrowed(rows: Rows) -> Result<Rows> {
    let Source::Operator(node) = &rows.source else { return Ok(rows) };
    let Node::Join(join) = &**node else { return Ok(rows) };
    let needed: HashSet<&str> =
        rows.exprs.iter().flat_map(Expr::column_refs).map(|column| column.name.as_str()).collect();
    let fields = rows.schema.fields().iter();
    let kept: Vec<usize> = fields
        .enumerate()
        .filter(|(_, field)| needed.contains(field.name().as_str()))
        .map(|(place, _)| place)
        .collect();
    let schema = schema_of(kept.iter().map(|place| &rows.schema.fields()[*place]))?;
    let output = kept.iter().map(|place| join.output[*place]).collect();
    let node = Node::Join(plan::Join { output, schema: Arc::clone(schema.inner()), ..join.clone() });
    Ok(Rows { source: Source::Operator(Arc::new(node)), schema, ..rows })
}

/// Columns of a join, each of which may be filled up with NULL.
fn schema_of<'f>(fields: impl Iterator<Item = &'f FieldRef>) -> Result<DFSchemaRef> {
    let fields = fields.map(|field| (None, Arc::new(Field::clone(field).with_nullable(true)))).collect();
    DFSchema::new_with_metadata(fields, Default::default()).map(Arc::new)
}
