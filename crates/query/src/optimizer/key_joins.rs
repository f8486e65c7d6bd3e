//! Removes joins that are redundant because of declared keys.
//!
//! * A join to the parents of a foreign key that reads only the key: each row has exactly one parent, unless its own
//!   columns are NULL. The same holds for a semi join.
//! * A join of a table with itself by a unique key: both sides have the same row. One scan then reads the columns of
//!   both.
//!
//! What remains of a join: its other conditions, and a condition that the key is not NULL. Columns that no operator
//! reads must have been removed before.

use std::collections::HashMap;

use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::logical::{LogicalJoin, LogicalJoinKind, LogicalScan};
use rowmill_plan::{ColumnId, ExprOp, Logical, ScalarExpr};
use rowmill_storage::TableDef;

use super::context::RewriteContext;
use super::facts::equality;
use super::nulls::columns_with_values;
use super::walk::{each_operator, inputs_mut, named, output, substitute, take};
use crate::column_set::ColumnSet;

/// Removes the redundant joins of a plan. Returns whether it removed any.
pub(crate) fn remove_key_joins(plan: &mut Logical, context: &RewriteContext<'_>) -> Result<bool> {
    let mut found = false;
    for input in inputs_mut(plan) {
        found |= remove_key_joins(input, context)?;
    }
    let Logical::Join(join) = plan else { return Ok(found) };
    // Only an inner join is symmetric; for other kinds just the right side may go.
    let flips: &[bool] = match join.kind {
        LogicalJoinKind::Inner => &[false, true],
        LogicalJoinKind::Semi | LogicalJoinKind::Left => &[false],
        _ => return Ok(found),
    };
    for flipped in flips {
        if let Some(without) =
            without_parents(join, *flipped, context).or_else(|| without_self(join, *flipped, context))
        {
            *plan = without;
            return Ok(true);
        }
    }
    Ok(found)
}

/// Splits a join into the other side and the scan that may be removed.
fn sides(join: &LogicalJoin, flipped: bool) -> Option<(&Logical, &LogicalScan)> {
    let (other, own) = if flipped { (&join.right, &join.left) } else { (&join.left, &join.right) };
    match &**own {
        Logical::Scan(scan) if scan.row_number.is_none() && join.compared.is_empty() => Some((other, scan)),
        _ => None,
    }
}

/// An equality between a column of the other side and a column of the scan.
struct KeyPair {
    other: ColumnId,
    own: ColumnId,
}

/// Splits the conditions into equalities of plain columns of both sides, and others.
fn key_pairs(join: &LogicalJoin, scan: &LogicalScan) -> (Vec<KeyPair>, Vec<ScalarExpr>) {
    let is_own = |id: ColumnId| scan.columns.iter().any(|(own, _)| *own == id);
    let (mut pairs, mut others) = (Vec::new(), Vec::new());
    for condition in &join.conditions {
        let columns = equality(condition).and_then(|(one, other, is_null_safe)| {
            let (one, other) = (ColumnId(one.as_column()?), ColumnId(other.as_column()?));
            (!is_null_safe).then_some((one, other))
        });
        match columns {
            Some((other, own)) if is_own(own) && !is_own(other) => pairs.push(KeyPair { other, own }),
            Some((own, other)) if is_own(own) && !is_own(other) => pairs.push(KeyPair { other, own }),
            _ => others.push(condition.clone()),
        }
    }
    (pairs, others)
}

/// Finds the scan in a plan that makes a column, and the position of the column in the table.
fn scan_of(plan: &Logical, id: ColumnId) -> Option<(&LogicalScan, usize)> {
    let mut found = None;
    each_operator(plan, &mut |operator| {
        if let Logical::Scan(scan) = operator
            && let Some((_, at)) = scan.columns.iter().find(|(own, _)| *own == id)
        {
            found = Some((scan, *at));
        }
    });
    found
}

fn column_of(def: &TableDef, at: usize) -> rowmill_base::ColumnId {
    def.columns[at].id
}

/// The join without the parents of a foreign key, if it joins those.
fn without_parents(join: &mut LogicalJoin, flipped: bool, context: &RewriteContext<'_>) -> Option<Logical> {
    let (other, scan) = sides(join, flipped)?;
    let (pairs, others) = key_pairs(join, scan);
    // Any further condition could drop rows, so the join must stay.
    if pairs.is_empty() || !others.is_empty() || join.kind == LogicalJoinKind::Left {
        return None;
    }
    let parent = context.tables.get(scan.table)?.table();
    let (child, _) = scan_of(other, pairs[0].other)?;
    let child_def = context.tables.get(child.table)?.table();
    // Foreign keys use column ids, so we pair each column id with the parent's column that it equals.
    let mut columns = Vec::with_capacity(pairs.len());
    for pair in &pairs {
        let (of, at) = scan_of(other, pair.other)?;
        // All columns of the foreign key must come from one row of one scan.
        if !std::ptr::eq(of, child) {
            return None;
        }
        let (_, own) = scan.columns.iter().find(|(id, _)| *id == pair.own)?;
        columns.push((column_of(child_def, at), column_of(parent, *own)));
    }
    let keys = &child_def.keyed.as_deref()?.foreign_keys;
    keys.iter().find(|key| {
        let declared: Vec<_> = key.columns.iter().copied().zip(key.parent_columns.iter().copied()).collect();
        let is_same =
            declared.iter().all(|pair| columns.contains(pair)) && columns.iter().all(|pair| declared.contains(pair));
        // The equalities must cover the foreign key exactly.
        key.parent == parent.id && is_same
    })?;
    // The operators above may read only parent columns that the conditions equate with ours.
    if !scan.columns.iter().all(|(id, _)| pairs.iter().any(|pair| pair.own == *id)) {
        return None;
    }
    let by: HashMap<ColumnId, ScalarExpr> = pairs.iter().map(|pair| (pair.own, context.expr(pair.other))).collect();
    let kept = scan.conditions.clone();
    let keys = pairs.iter().map(|pair| pair.other).collect();
    let given = scan.columns.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    Some(remainder(join, flipped, keys, kept, by, &given, context))
}

/// The self-join by a unique key without its second scan, if it is one.
fn without_self(join: &mut LogicalJoin, flipped: bool, context: &RewriteContext<'_>) -> Option<Logical> {
    let (other, scan) = sides(join, flipped)?;
    let (pairs, others) = key_pairs(join, scan);
    let (twin, _) = scan_of(other, pairs.first()?.other)?;
    if twin.table != scan.table {
        return None;
    }
    let def = context.tables.get(scan.table)?.table();
    let keyed = def.keyed.as_deref()?;
    let mut equal = Vec::new();
    let mut kept = others;
    for pair in &pairs {
        let (_, own) = scan.columns.iter().find(|(id, _)| *id == pair.own)?;
        match scan_of(other, pair.other) {
            Some((of, at)) if std::ptr::eq(of, twin) && at == *own => equal.push((column_of(def, at), pair.other)),
            _ => kept.push(ScalarExpr::compare(
                context.expr(pair.other),
                rowmill_plan::CompareOp::Equal,
                context.expr(pair.own),
            )),
        }
    }
    let unique = keyed.indexes.iter().filter(|index| index.unique).map(|index| &index.parts);
    let is_covered = |parts: &Vec<rowmill_storage::KeyColumn>| {
        !parts.is_empty() && parts.iter().all(|part| equal.iter().any(|(column, _)| *column == part.column))
    };
    std::iter::once(&keyed.key).chain(unique).find(|parts| is_covered(parts))?;
    kept.extend(scan.conditions.iter().cloned());
    let keys: Vec<ColumnId> = equal.iter().map(|(_, id)| *id).collect();
    if join.kind == LogicalJoinKind::Left {
        // In an outer join, a row without a match must have NULL in the columns of the second scan.
        let mut other = other.clone();
        let full = columns_with_values(&mut other, context);
        if !kept.is_empty() || !keys.iter().all(|key| full.contains(*key)) {
            return None;
        }
    }
    // The first scan reads the columns of both. Its own column replaces the same column of the second scan.
    let mut by = HashMap::new();
    let mut added = Vec::new();
    for (id, at) in &scan.columns {
        match twin.columns.iter().find(|(_, own)| own == at) {
            Some((own, _)) => {
                by.insert(*id, context.expr(*own));
            }
            None => added.push((*id, *at)),
        }
    }
    let first = twin.columns.first()?.0;
    let given = scan.columns.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    let side = if flipped { &mut join.right } else { &mut join.left };
    let mut widened = (**side).clone();
    widen(&mut widened, first, &added);
    // An operator between the scan and the join may not pass the new columns on.
    let all = output(&widened);
    let is_given = |id: &ColumnId| all.contains(*id);
    if !added.iter().all(|(id, _)| is_given(id))
        || !by.values().filter_map(ScalarExpr::as_column).all(|id| is_given(&ColumnId(id)))
    {
        return None;
    }
    **side = widened;
    Some(remainder(join, flipped, keys, kept, by, &given, context))
}

/// Adds columns to the scan that makes the column `of`.
fn widen(plan: &mut Logical, of: ColumnId, added: &[(ColumnId, usize)]) {
    if let Logical::Scan(scan) = plan
        && scan.columns.iter().any(|(id, _)| *id == of)
    {
        scan.columns.extend_from_slice(added);
    }
    inputs_mut(plan).into_iter().for_each(|input| widen(input, of, added));
}

/// The other side of a join, filtered by the remaining conditions, with the columns of the removed scan.
fn remainder(
    join: &mut LogicalJoin,
    flipped: bool,
    keys: Vec<ColumnId>,
    mut conditions: Vec<ScalarExpr>,
    by: HashMap<ColumnId, ScalarExpr>,
    given: &[ColumnId],
    context: &RewriteContext<'_>,
) -> Logical {
    let mut other = take(if flipped { &mut join.right } else { &mut join.left });
    let full: ColumnSet = columns_with_values(&mut other, context);
    conditions.iter_mut().for_each(|condition| substitute(condition, &by));
    if join.kind != LogicalJoinKind::Left {
        let nullable = keys.into_iter().filter(|key| !full.contains(*key));
        conditions.extend(nullable.map(|key| {
            let value = Box::new(context.expr(key));
            ScalarExpr::new(DataType::Boolean, ExprOp::IsNull { value, negated: true })
        }));
    }
    debug_assert!(conditions.iter().all(|condition| named(condition).is_subset(&output(&other))));
    let other = Logical::filter(other, conditions);
    if join.kind == LogicalJoinKind::Semi {
        return other;
    }
    let exprs = given.iter().filter_map(|id| Some((*id, by.get(id)?.clone()))).collect();
    Logical::map(other, exprs)
}
