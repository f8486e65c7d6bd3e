//! Joins: which side is kept in memory, and what each kind gives.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::{Expr, ExprSchemable};
use rowmill_plan::{self as plan, JoinKind, Node};

use super::estimate::row_count;
use super::lowering::Lowerer;
use super::rows::Rows;

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

impl Lowerer<'_> {
    pub(super) fn join(&mut self, join: &Join, left: Rows, right: Rows) -> Result<Result<Rows, Vec<Rows>>> {
        // What stands on NULLs is NULL as a whole, so that an expression has to be worked out below the join.
        let (mut sides, schemas) = ([left, right], [join.left.schema(), join.right.schema()]);
        let mut keys = [Vec::new(), Vec::new()];
        for (left, right) in &join.on {
            for (place, key) in [left, right].into_iter().enumerate() {
                keys[place].push(sides[place].resolve(key.clone(), schemas[place])?);
            }
        }
        for (place, side) in [Side::Left, Side::Right].into_iter().enumerate() {
            let rows = &sides[place];
            let is_plain = !is_filled(join.join_type, side) || rows.exprs.iter().all(|expr| rows.place(expr).is_some());
            if is_plain && keys[place].iter().all(|key| rows.place(key).is_some()) {
                continue;
            }
            let rows = std::mem::replace(&mut sides[place], Rows::nothing());
            match self.with_columns(rows, keys[place].iter_mut())? {
                Ok(rows) => sides[place] = rows,
                Err(rows) => {
                    sides[place] = rows;
                    return Ok(Err(sides.into()));
                }
            }
        }
        let kinds = |place: usize| {
            keys[place].iter().map(|key| key.get_type(&*sides[place].schema)).collect::<Result<Vec<DataType>>>()
        };
        if kinds(0)? != kinds(1)? || kinds(0)?.iter().any(DataType::is_nested) {
            return Ok(Err(sides.into()));
        }
        let [left, right] = sides;
        let [left_keys, right_keys] = keys;
        // The rows of the larger side only pass by.
        let first = if self.rows_of(&left) <= self.rows_of(&right) { Side::Left } else { Side::Right };
        let other = if first == Side::Left { Side::Right } else { Side::Left };
        let Some((side, kind)) = [first, other].into_iter().find_map(|side| Some((side, kind(join.join_type, side)?)))
        else {
            return Ok(Err(vec![left, right]));
        };
        let on = left_keys.iter().zip(&right_keys).map(|(key, other)| {
            let (left, right) = (left.place(key)?, right.place(other)?);
            Some(if side == Side::Left { (left, right) } else { (right, left) })
        });
        let Some(on) = on.collect::<Option<Vec<(usize, usize)>>>() else { return Ok(Err(vec![left, right])) };
        // Both sides as one row, for the condition and for what is given.
        let both = |build: &Rows, probe: &Rows| build.schema.join(&probe.schema).map(Arc::new);
        let pairs = if side == Side::Left { both(&left, &right)? } else { both(&right, &left)? };
        let condition = match &join.filter {
            None => None,
            Some(filter) => {
                let filter = filter.clone().transform_up(|expr| {
                    let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
                    let resolved = match schemas[0].maybe_index_of_column(column) {
                        Some(place) => left.exprs[place].clone(),
                        None => right.exprs[schemas[1].index_of_column(column)?].clone(),
                    };
                    Ok(Transformed::yes(resolved))
                });
                match self.expr_over(filter.data()?, &DataType::Boolean, &pairs, &[&left, &right])? {
                    Some(condition) => Some(condition),
                    None => return Ok(Err(vec![left, right])),
                }
            }
        };
        let (mut exprs, mut given): (Vec<Expr>, Vec<Arc<Field>>) = (Vec::new(), pairs.fields().to_vec());
        let gives = |side: Side| match join.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => side == Side::Left,
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => side == Side::Right,
            _ => true,
        };
        [(Side::Left, &left), (Side::Right, &right)].into_iter().filter(|(side, _)| gives(*side)).for_each(
            |(_, rows)| {
                exprs.extend(rows.exprs.iter().cloned());
            },
        );
        if kind == JoinKind::ProbeMark {
            let mark = self.named(&[Arc::new(Field::new("mark", DataType::Boolean, true))])?;
            given.push(Arc::clone(mark.field(0)));
            exprs.extend(mark.columns().into_iter().map(Expr::Column));
        }
        let (build, probe) = if side == Side::Left { (left, right) } else { (right, left) };
        let node = plan::Join {
            build: Box::new(build.node),
            probe: Box::new(probe.node),
            kind,
            on,
            nulls_equal: join.null_equality == NullEquality::NullEqualsNull,
            null_aware: join.null_aware,
            condition,
            output: Vec::new(),
            schema: Arc::clone(pairs.inner()),
        };
        joined(node, &given, exprs).map(Ok)
    }

    fn rows_of(&self, rows: &Rows) -> f64 {
        row_count(&rows.node, self.tables())
    }
}

/// The rows of a join that gives only what `exprs`, over all of its columns, need.
fn joined(mut join: plan::Join, given: &[Arc<Field>], exprs: Vec<Expr>) -> Result<Rows> {
    let needed: BTreeSet<&str> = exprs.iter().flat_map(Expr::column_refs).map(|column| column.name.as_str()).collect();
    join.output = (0..given.len()).filter(|place| needed.contains(given[*place].name().as_str())).collect();
    let fields: Vec<_> = join.output.iter().map(|place| (None, Arc::clone(&given[*place]))).collect();
    let schema = Arc::new(datafusion::common::DFSchema::new_with_metadata(fields, Default::default())?);
    join.schema = Arc::clone(schema.inner());
    Ok(Rows { exprs, ..Rows::new(Node::Join(join), schema, true) })
}

/// `rows` without the columns that none of its expressions needs, if a join makes them.
pub(super) fn narrowed(rows: Rows) -> Result<Rows> {
    match rows.node {
        Node::Join(join) => {
            let places = join.output.clone();
            let known: Vec<Arc<Field>> = rows.schema.fields().to_vec();
            let narrow = joined(join, &known, rows.exprs)?;
            let Node::Join(mut join) = narrow.node else { unreachable!("a join stays one") };
            join.output.iter_mut().for_each(|place| *place = places[*place]);
            Ok(Rows { node: Node::Join(join), ..narrow })
        }
        node => Ok(Rows { node, ..rows }),
    }
}
