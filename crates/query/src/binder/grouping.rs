//! GROUP BY: keys, grouping sets, and the expressions that may appear after them.

use arrow::array::UInt64Array;
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::logical::LogicalGroup;
use rowmill_plan::{ColumnId, CompareOp, Constant, ExprOp, Logical, ScalarExpr};
use rowmill_storage::{KeyColumn, TableDef};
use sqlparser::ast::{self, GroupByExpr};
use std::ops::Range;
use std::sync::Arc;

use super::Binder;
use super::place::start_of;
use super::projection::SelectedItem;
use super::query::map;
use super::walk::{free_columns, free_columns_of_plan, plan_exprs_mut};
use crate::syntax_walk::any_expr;

/// The keys of a GROUP BY.
#[derive(Default)]
pub(super) struct GroupKeys {
    /// Whether there is a GROUP BY.
    pub(super) is_written: bool,
    exprs: Vec<ScalarExpr>,
    sets: Option<Vec<Vec<usize>>>,
}

/// A scan of a table with a primary key.
pub(super) struct KeyedScan {
    /// Its columns, whose ids follow each other.
    columns: Range<usize>,
    /// The columns of the primary key.
    key: Vec<usize>,
}

/// The select list as written, and its columns as bound.
pub(super) type SelectList<'s> = (&'s [ast::SelectItem], &'s [SelectedItem]);

/// Sets of one GROUP BY at most. Each ROLLUP, CUBE and list of sets multiplies their number.
const GROUPING_SETS_MAX: usize = 4096;

impl Binder<'_> {
    /// Binds a GROUP BY clause. `list` is the select list as written, and as bound.
    pub(super) fn group_by(&mut self, clause: &GroupByExpr, list: SelectList<'_>) -> Result<GroupKeys> {
        let mut keys = GroupKeys::default();
        match clause {
            GroupByExpr::All(_) => {
                keys.is_written = true;
                for item in list.1 {
                    // GROUP BY ALL: every item without an aggregate is a key.
                    if !self.is_computed(&item.expr) {
                        keys.add(item.expr.clone());
                    }
                }
            }
            GroupByExpr::Expressions(exprs, _) => {
                keys.is_written = !exprs.is_empty();
                let mut sets = vec![Vec::new()];
                let mut has_sets = false;
                for expr in exprs {
                    let (factor, is_plain) = self.grouping_item(expr, list, &mut keys)?;
                    has_sets |= !is_plain;
                    // Check before multiplying, because the product can be huge.
                    if sets.len().saturating_mul(factor.len()) > GROUPING_SETS_MAX {
                        let message = format!("GROUP BY makes more than {GROUPING_SETS_MAX} grouping sets");
                        return Err(Error::new(ErrorKind::StatementTooComplex, message));
                    }
                    // Several items of GROUP BY combine as a cross product of their sets.
                    sets = sets.iter().flat_map(|set| factor.iter().map(|more| union(set, more))).collect();
                }
                // `GROUP BY ()` alone makes one group and needs no sets.
                if has_sets && (sets.len() > 1 || !sets[0].is_empty()) {
                    keys.sets = Some(sets);
                }
            }
        }
        Ok(keys)
    }

    /// Whether `expr` contains aggregates or windows of this level.
    pub(super) fn is_computed(&self, expr: &ScalarExpr) -> bool {
        let level = self.levels.last().expect("a SELECT is being bound");
        free_columns(expr).iter().any(|column| level.computes(*column))
    }

    /// The sets of one item of GROUP BY, and whether the item is a plain expression.
    fn grouping_item(
        &mut self,
        expr: &ast::Expr,
        list: SelectList<'_>,
        keys: &mut GroupKeys,
    ) -> Result<(Vec<Vec<usize>>, bool)> {
        match expr {
            ast::Expr::GroupingSets(sets) => {
                let mut all = Vec::new();
                for set in sets {
                    match set.as_slice() {
                        [nested @ (ast::Expr::GroupingSets(_) | ast::Expr::Rollup(_) | ast::Expr::Cube(_))] => {
                            all.extend(self.grouping_item(nested, list, keys)?.0);
                        }
                        _ => all.push(self.grouping_set(set, list, keys)?),
                    }
                }
                Ok((all, false))
            }
            ast::Expr::Rollup(parts) => {
                let parts = self.grouping_parts(parts, list, keys)?;
                let sets = (0..=parts.len()).rev().map(|count| flat(&parts[..count])).collect();
                Ok((sets, false))
            }
            ast::Expr::Cube(parts) => {
                let parts = self.grouping_parts(parts, list, keys)?;
                if parts.len() > 12 {
                    let message = format!("CUBE of {} columns makes more than {GROUPING_SETS_MAX} sets", parts.len());
                    return Err(self.at(Error::new(ErrorKind::StatementTooComplex, message), start_of(expr)));
                }
                let sets = (0..1_usize << parts.len()).rev().map(|mask| {
                    let is_in = |place: &usize| mask >> (parts.len() - 1 - place) & 1 == 1;
                    let chosen: Vec<Vec<usize>> =
                        (0..parts.len()).filter(is_in).map(|place| parts[place].clone()).collect();
                    flat(&chosen)
                });
                Ok((sets.collect(), false))
            }
            ast::Expr::Tuple(parts) if parts.is_empty() => Ok((vec![Vec::new()], false)),
            ast::Expr::Tuple(parts) => Ok((vec![self.grouping_set(parts, list, keys)?], true)),
            expr => {
                let key = self.group_key(expr, list)?;
                Ok((vec![vec![keys.add(key)]], true))
            }
        }
    }

    fn grouping_parts(
        &mut self,
        parts: &[Vec<ast::Expr>],
        list: SelectList<'_>,
        keys: &mut GroupKeys,
    ) -> Result<Vec<Vec<usize>>> {
        parts.iter().map(|part| self.grouping_set(part, list, keys)).collect()
    }

    fn grouping_set(&mut self, exprs: &[ast::Expr], list: SelectList<'_>, keys: &mut GroupKeys) -> Result<Vec<usize>> {
        let mut set = Vec::with_capacity(exprs.len());
        for expr in exprs {
            match expr {
                ast::Expr::Tuple(parts) => set.extend(self.grouping_set(parts, list, keys)?),
                expr => {
                    let key = self.group_key(expr, list)?;
                    set.push(keys.add(key));
                }
            }
        }
        Ok(union(&[], &set))
    }

    /// Binds one key: an expression, the number of a result column, or its name.
    fn group_key(&mut self, expr: &ast::Expr, (written, items): SelectList<'_>) -> Result<ScalarExpr> {
        let place = match self.position(expr, items.len())? {
            Some(place) => Some(place),
            // With a star, an item has different places in the two lists.
            None if written.len() == items.len() => written.iter().position(|item| is_written_as(item, expr)),
            None => None,
        };
        let key = match place {
            Some(place) => items[place].expr.clone(),
            None => self.expr(expr)?,
        };
        if self.is_computed(&key) {
            let message = "aggregate functions and windows are not allowed in GROUP BY";
            let level = self.levels.last().expect("a SELECT is being bound");
            let has_window =
                free_columns(&key).iter().any(|column| level.windows.iter().any(|window| window.id.0 == *column));
            let message = if has_window { message } else { "aggregate functions are not allowed in GROUP BY" };
            return Err(self.at(Error::new(ErrorKind::Grouping, message), start_of(expr)));
        }
        Ok(key)
    }

    /// The position, from 0, of a result column that is written as its number.
    pub(super) fn position(&self, expr: &ast::Expr, columns: usize) -> Result<Option<usize>> {
        let ast::Expr::Value(value) = expr else { return Ok(None) };
        let ast::Value::Number(number, _) = &value.value else { return Ok(None) };
        let Ok(number) = number.parse::<usize>() else { return Ok(None) };
        match number {
            0 => {
                let message = "there is no column number 0: the first one is 1";
                Err(self.at(Error::new(ErrorKind::UndefinedColumn, message), value.span))
            }
            number if number > columns => {
                let message = format!("there is no column number {number}: the result has {columns}");
                Err(self.at(Error::new(ErrorKind::UndefinedColumn, message), value.span))
            }
            number => Ok(Some(number - 1)),
        }
    }

    /// Groups the rows. Returns the keys with their columns.
    pub(super) fn plan_groups(
        &mut self,
        input: Logical,
        keys: GroupKeys,
    ) -> Result<(Logical, Vec<(ColumnId, ScalarExpr)>)> {
        let mut with_ids = Vec::with_capacity(keys.exprs.len());
        for expr in keys.exprs {
            let name = match expr.as_column() {
                Some(column) => self.columns.get(ColumnId(column)).name.clone(),
                None => "key".to_string(),
            };
            // A key gets a new id even if it is a column, because it may become NULL in some sets.
            let id = self.add_column(&name, expr.kind.clone());
            self.columns.declare(id, self.declared_of(&expr));
            with_ids.push((id, expr));
        }
        let aggregates = self.level().aggregates.clone();
        let groupings = self.level().groupings.clone();
        let set =
            (keys.sets.is_some() && !groupings.is_empty()).then(|| self.add_column("grouping set", DataType::UInt64));
        let mut marks = Vec::with_capacity(groupings.len());
        for (id, arguments) in groupings {
            let places = self.places_of_keys(&arguments, &with_ids)?;
            marks.push((id, grouping_value(&places, set, keys.sets.as_deref())));
        }
        let mut plan = Logical::Group(LogicalGroup {
            input: Box::new(input),
            keys: with_ids.clone(),
            sets: keys.sets,
            set,
            aggregates,
        });
        map(&mut plan, marks);
        Ok((plan, with_ids))
    }

    fn places_of_keys(&self, arguments: &[ScalarExpr], keys: &[(ColumnId, ScalarExpr)]) -> Result<Vec<usize>> {
        let place = |argument: &ScalarExpr| keys.iter().position(|(_, key)| key == argument);
        let places: Option<Vec<usize>> = arguments.iter().map(place).collect();
        places
            .ok_or_else(|| Error::new(ErrorKind::Grouping, "the arguments of grouping must be expressions of GROUP BY"))
    }

    /// Notes a scan of a table whose first column will be the next column.
    pub(super) fn note_keyed_scan(&mut self, table: &TableDef) {
        let Some(keyed) = &table.keyed else { return };
        let first = self.columns_end();
        let place = |key: &KeyColumn| table.column_by_id(key.column).map(|place| first + place);
        let Some(key) = keyed.key.iter().map(place).collect::<Option<Vec<usize>>>() else { return };
        if !key.is_empty() {
            self.keyed_scans.push(KeyedScan { columns: first..first + table.columns.len(), key });
        }
    }

    /// Adds the columns of this level that `expr` reads and that the keys determine, because they contain the primary
    /// key of the column's table.
    pub(super) fn determined_columns(&self, expr: &ScalarExpr, keys: &GroupKeys, determined: &mut Vec<ColumnId>) {
        if keys.exprs.contains(expr) {
            return;
        }
        let level = self.levels.last().expect("a SELECT is being bound");
        let mut read: Vec<usize> = Vec::new();
        match &expr.op {
            ExprOp::Column(column) => read.push(*column),
            ExprOp::Subquery(subquery) => read.extend(free_columns_of_plan(&subquery.plan)),
            _ => {}
        }
        for column in read {
            let scan = self.keyed_scans.iter().find(|scan| scan.columns.contains(&column));
            let is_key = |key: &usize| keys.exprs.iter().any(|expr| expr.as_column() == Some(*key));
            let is_determined = level.reads(column) && scan.is_some_and(|scan| scan.key.iter().all(is_key));
            if is_determined && !determined.contains(&ColumnId(column)) {
                determined.push(ColumnId(column));
            }
        }
        expr.operands().into_iter().for_each(|operand| self.determined_columns(operand, keys, determined));
    }

    /// Replaces the keys in an expression that is computed after grouping by their columns.
    pub(super) fn regroup_expr(&self, expr: &mut ScalarExpr, keys: &[(ColumnId, ScalarExpr)]) -> Result<()> {
        if let Some((id, _)) = keys.iter().find(|(_, key)| key == expr) {
            *expr = ScalarExpr::id(*id, expr.kind.clone());
            return Ok(());
        }
        let level = self.levels.last().expect("a SELECT is being bound");
        match &mut expr.op {
            ExprOp::Column(column) if level.reads(*column) => {
                let name = level.qualified_name(*column);
                let name = name.unwrap_or_else(|| self.columns.get(ColumnId(*column)).name.clone());
                let message = format!("\"{name}\" is neither in GROUP BY nor inside an aggregate function");
                return Err(Error::new(ErrorKind::Grouping, message)
                    .hint("add it to GROUP BY, or use min, max or any other aggregate of it"));
            }
            ExprOp::Subquery(subquery) => {
                // A shared plan that was bound within this FROM makes its own columns. Their ids look like those of
                // FROM.
                let outer: Vec<usize> =
                    free_columns_of_plan(&subquery.plan).into_iter().filter(|column| level.reads(*column)).collect();
                if outer.is_empty() {
                    return expr.operands_mut().into_iter().try_for_each(|operand| self.regroup_expr(operand, keys));
                }
                let mut result = Ok(());
                plan_exprs_mut(&mut subquery.plan, &mut |inner| {
                    if result.is_ok() && free_columns(inner).iter().any(|column| outer.contains(column)) {
                        result = self.regroup_expr(inner, keys);
                    }
                });
                result?;
            }
            _ => {}
        }
        expr.operands_mut().into_iter().try_for_each(|operand| self.regroup_expr(operand, keys))
    }
}

impl GroupKeys {
    /// Whether it is a ROLLUP, a CUBE or GROUPING SETS.
    pub(super) fn has_sets(&self) -> bool {
        self.sets.is_some()
    }

    /// The position of a key. Adds the key if it is new.
    pub(super) fn add(&mut self, expr: ScalarExpr) -> usize {
        match self.exprs.iter().position(|key| *key == expr) {
            Some(place) => place,
            None => {
                self.exprs.push(expr);
                self.exprs.len() - 1
            }
        }
    }
}

/// Whether an item of the select list is written as `expr`, with a subquery in it. Subqueries that are bound from equal
/// texts make different columns, so the bound expressions are not equal.
fn is_written_as(item: &ast::SelectItem, expr: &ast::Expr) -> bool {
    let of_item = match item {
        ast::SelectItem::UnnamedExpr(of_item) | ast::SelectItem::ExprWithAlias { expr: of_item, .. } => of_item,
        _ => return false,
    };
    let is_subquery = |part: &ast::Expr| {
        matches!(part, ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. })
    };
    of_item == expr && any_expr(expr, is_subquery)
}

/// The value of `GROUPING(keys)`: one bit for each key, which is set if the set of the group does not have the key.
fn grouping_value(keys: &[usize], set: Option<ColumnId>, sets: Option<&[Vec<usize>]>) -> ScalarExpr {
    let mask = |set: &[usize]| keys.iter().fold(0_i32, |mask, key| mask << 1 | i32::from(!set.contains(key)));
    let literal =
        |value: i32| ScalarExpr::literal(Constant::new(Arc::new(arrow::array::Int32Array::from(vec![value]))));
    let (Some(set), Some(sets)) = (set, sets) else { return literal(0) };
    let number = |number: usize| ScalarExpr::literal(Constant::new(Arc::new(UInt64Array::from(vec![number as u64]))));
    let whens = sets
        .iter()
        .enumerate()
        .map(|(place, keys)| {
            let is_set = ScalarExpr::compare(ScalarExpr::id(set, DataType::UInt64), CompareOp::Equal, number(place));
            (is_set, literal(mask(keys)))
        })
        .collect();
    ScalarExpr::new(DataType::Int32, ExprOp::Case { whens, otherwise: None })
}

/// The union of both sets, without duplicates.
fn union(set: &[usize], more: &[usize]) -> Vec<usize> {
    let mut all = set.to_vec();
    for place in more {
        if !all.contains(place) {
            all.push(*place);
        }
    }
    all
}

fn flat(parts: &[Vec<usize>]) -> Vec<usize> {
    parts.iter().fold(Vec::new(), |all, part| union(&all, part))
}
