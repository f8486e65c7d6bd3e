//! Operators with one input, and the leaves.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_exec::computed_condition::ExpressionCondition;
use rowmill_expr::evaluator::Evaluator;
use rowmill_expr::fold::can_fail;
use rowmill_plan::logical::{LogicalScan, LogicalSortKey, LogicalSource};
use rowmill_plan::{self as plan, ColumnId, ExprOp, Logical, Node, Predicate, ScalarExpr, SortKey, Volatility};

use super::relation::{LoweredRelation, RelationSource};
use super::{Lowerer, SourceScan, predicate};
use crate::column_set::{ColumnSet, columns_of};

/// The rows that we assume for a source that does not know its number of rows.
const ROWS_OF_A_SOURCE: u64 = 100_000;

/// The share of rows from which a condition on several columns is left to a filter, if other columns are read and all
/// of them are numbers. With `l_commitdate < l_receiptdate`, true for 63 % of the rows, queries 4, 12 and 21 of TPC-H
/// take 7 to 13 % longer if the scan computes it.
const DENSE_SHARE: f64 = 0.4;

/// Terms at most of an expression that waits for its readers.
const WAITING_TERMS_MAX: usize = 2_000;

/// Number of operators and operands of an expression.
fn term_count(expr: &ScalarExpr) -> usize {
    let mut count = 0;
    expr.each(&mut |_| count += 1);
    count
}

impl Lowerer<'_> {
    pub(super) fn scan(&mut self, scan: &LogicalScan, needed: &ColumnSet) -> Result<LoweredRelation> {
        let table = Arc::clone(&self.tables[scan.table]);
        let definition = table.table();
        let column = |id: usize| {
            let (_, column) = scan.columns.iter().find(|(own, _)| own.0 == id)?;
            Some((*column, definition.columns[*column].kind.clone()))
        };
        let (mut predicates, mut others) = (Vec::new(), Vec::new());
        for condition in &scan.conditions {
            match predicate::translate(condition, &column) {
                Some(predicate) => predicates.push(predicate),
                None => others.push(condition.clone()),
            }
        }
        let computed = self.computed_conditions(scan, needed, &predicates, &mut others)?;
        predicates.extend(computed);
        let mut read = needed.clone();
        others.iter().for_each(|condition| read.add_columns_of(condition));
        let kept: Vec<(ColumnId, usize)> = scan.columns.iter().copied().filter(|(id, _)| read.contains(*id)).collect();
        let row_number = scan.row_number.filter(|id| read.contains(*id));
        let ids: Vec<ColumnId> = kept.iter().map(|(id, _)| *id).chain(row_number).collect();
        let fields = kept.iter().map(|(id, column)| {
            let info = self.columns.get(*id);
            Field::new(&info.name, info.kind.clone(), definition.columns[*column].nullable)
        });
        let of_number = row_number.map(|id| {
            let info = self.columns.get(id);
            Field::new(&info.name, info.kind.clone(), false)
        });
        let fields = fields.chain(of_number);
        let scan = plan::Scan {
            table: scan.table,
            columns: kept.iter().map(|(_, column)| *column).collect(),
            predicates,
            row_number: row_number.is_some(),
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        };
        self.filtered(LoweredRelation::new(Node::Scan(scan), ids), others)
    }

    /// Takes the conditions from `others` that the scan can compute itself. It then reads the other columns only for
    /// the rows that pass.
    fn computed_conditions(
        &self,
        scan: &LogicalScan,
        needed: &ColumnSet,
        predicates: &[Predicate],
        others: &mut Vec<ScalarExpr>,
    ) -> Result<Vec<Predicate>> {
        let position = |id: usize| scan.columns.iter().position(|(own, _)| own.0 == id);
        let is_computed = |condition: &ScalarExpr| predicate::is_computable(condition, &|id| position(id).is_some());
        let (computable, rest): (Vec<_>, Vec<_>) = std::mem::take(others).into_iter().partition(is_computed);
        *others = rest;
        if computable.is_empty() {
            return Ok(Vec::new());
        }
        // The share of rows is estimated over a scan that gives all columns, and never runs.
        let columns: Vec<usize> = scan.columns.iter().map(|(_, column)| *column).collect();
        let all = Node::Scan(plan::Scan {
            table: scan.table,
            columns: columns.clone(),
            predicates: predicates.to_vec(),
            row_number: false,
            schema: Arc::new(Schema::empty()),
        });
        // Numbers of most rows are read and filtered as a whole faster than row by row.
        let are_dear = |id: &ColumnId| !self.kind(*id).is_primitive();
        let reads_dear_columns = scan.columns.iter().any(|(id, _)| needed.contains(*id) && are_dear(id));
        let reads_columns = scan.columns.iter().any(|(id, _)| needed.contains(*id));
        let mut computed = Vec::with_capacity(computable.len());
        // A condition that can fail comes last, because the others leave out rows for which it must not be computed.
        let (fallible, safe): (Vec<_>, Vec<_>) = computable.into_iter().partition(can_fail);
        for mut condition in safe.into_iter().chain(fallible) {
            let share = self.estimator.share_of_rows(&all, &condition, &position);
            let is_of_several = columns_of([&condition]).iter().nth(1).is_some();
            let is_dense = is_of_several && share >= DENSE_SHARE && reads_columns && !reads_dear_columns;
            if is_dense || !others.is_empty() && can_fail(&condition) {
                others.push(condition);
                continue;
            }
            condition.rewrite(&mut |part| {
                if let ExprOp::Column(id) = &mut part.op {
                    *id = columns[position(*id).expect("a condition that is computed reads columns of the table")];
                }
            });
            computed.push(Predicate::Computed(Arc::new(ExpressionCondition::new(condition, share)?)));
        }
        Ok(computed)
    }

    pub(super) fn source(&mut self, source: &LogicalSource, needed: &ColumnSet) -> Result<LoweredRelation> {
        let rows = Arc::clone(&self.all_sources[source.source]);
        let column = |id: usize| {
            let (_, column) = source.columns.iter().find(|(own, _)| own.0 == id)?;
            let kind = rowmill_base::SqlType::from_arrow(rows.schema().field(*column).data_type())?;
            Some((*column, kind))
        };
        // A source may ignore its predicates, so all conditions must be checked again.
        let predicates = source.conditions.iter().filter_map(|condition| predicate::translate(condition, &column));
        let predicates = predicates.collect();
        let mut read = needed.clone();
        source.conditions.iter().for_each(|condition| read.add_columns_of(condition));
        let kept: Vec<(ColumnId, usize)> =
            source.columns.iter().copied().filter(|(id, _)| read.contains(*id)).collect();
        let ids: Vec<ColumnId> = kept.iter().map(|(id, _)| *id).collect();
        let columns = kept.iter().map(|(_, column)| *column).collect();
        let rows_about = rows.row_count().unwrap_or(ROWS_OF_A_SOURCE);
        let fields = kept.iter().map(|(id, column)| {
            let info = self.columns.get(*id);
            Field::new(&info.name, info.kind.clone(), rows.schema().field(*column).is_nullable())
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        self.sources.push(SourceScan { source: rows, columns, predicates });
        let node = plan::Foreign { plan: self.sources.len() - 1, rows: rows_about, schema };
        let node = Node::Foreign(node);
        self.filtered(LoweredRelation::new(node, ids), source.conditions.clone())
    }

    /// Lowers rows that the statement contains.
    pub(super) fn values(&mut self, ids: &[ColumnId], rows: &[Vec<ScalarExpr>]) -> Result<LoweredRelation> {
        let schema = self.schema(ids);
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(ids.len());
        for (place, id) in ids.iter().enumerate() {
            let mut values = Vec::with_capacity(rows.len());
            for row in rows {
                values.push(match row[place].as_constant() {
                    Some(value) => Arc::clone(value.array()),
                    None => Evaluator::new(&row[place])?.evaluate(&[], 1)?,
                });
            }
            columns.push(match values.is_empty() {
                true => new_empty_array(self.kind(*id)),
                false => concat(&values.iter().map(AsRef::as_ref).collect::<Vec<_>>())
                    .map_err(|error| Error::internal(format!("VALUES of several types: {error}")))?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)
            .map_err(|error| Error::internal(format!("VALUES: {error}")))?;
        Ok(LoweredRelation::new(Node::Values { rows: batch }, ids.to_vec()))
    }

    pub(super) fn filter(
        &mut self,
        input: &Logical,
        conditions: &[ScalarExpr],
        needed: &ColumnSet,
    ) -> Result<LoweredRelation> {
        let mut read = needed.clone();
        conditions.iter().for_each(|condition| read.add_columns_of(condition));
        let input = self.lower(input, &read)?;
        self.filtered(input, conditions.to_vec())
    }

    /// Keeps the rows for which all conditions are true.
    pub(super) fn filtered(
        &mut self,
        mut input: LoweredRelation,
        conditions: Vec<ScalarExpr>,
    ) -> Result<LoweredRelation> {
        if conditions.is_empty() {
            return Ok(input);
        }
        let resolved: Vec<ScalarExpr> = conditions.iter().map(|condition| input.resolve(condition)).collect();
        // Conditions above joins without an order join the graph, which may use them as join keys.
        if let RelationSource::Joins(graph) = &mut input.source
            && resolved.iter().all(|condition| condition.volatility() < Volatility::Volatile)
        {
            graph.add_conditions(resolved);
            return Ok(input);
        }
        // A later operator may read any column, and settled joins give only columns that are asked for.
        let mut read: ColumnSet = input.all_ids().collect();
        resolved.iter().for_each(|condition| read.add_columns_of(condition));
        let input = self.settled(input, &read)?;
        self.with_filter(input, resolved)
    }

    pub(super) fn map(
        &mut self,
        input: &Logical,
        exprs: &[(ColumnId, ScalarExpr)],
        needed: &ColumnSet,
    ) -> Result<LoweredRelation> {
        let used: Vec<&(ColumnId, ScalarExpr)> = exprs.iter().filter(|(id, _)| needed.contains(*id)).collect();
        let mut read = needed.clone();
        used.iter().for_each(|(_, expr)| read.add_columns_of(expr));
        let mut relation = self.lower(input, &read)?;
        let mut made_here = Vec::new();
        for (id, expr) in used {
            let resolved = relation.resolve(expr);
            if resolved.volatility() == Volatility::Volatile || term_count(&resolved) > WAITING_TERMS_MAX {
                made_here.push(ScalarExpr::id(*id, resolved.kind.clone()));
            }
            relation.derived.push((*id, resolved));
        }
        if made_here.is_empty() {
            return Ok(relation);
        }
        // A volatile value must be computed here, once per row, because all readers above must see the same value. We
        // also compute a large expression here, because otherwise each reader has a copy of it: `x + x` over `x + x`
        // doubles with every level.
        let all: ColumnSet = relation.all_ids().collect();
        let relation = self.settled(relation, &all)?;
        Ok(self.with_columns(relation, &made_here)?.0)
    }

    pub(super) fn sort(
        &mut self,
        input: &Logical,
        keys: &[LogicalSortKey],
        bounds: Option<(usize, Option<usize>)>,
        needed: &ColumnSet,
    ) -> Result<LoweredRelation> {
        let mut read = needed.clone();
        keys.iter().for_each(|key| read.add_columns_of(&key.expr));
        let input = self.lower(input, &read)?;
        let input = self.settled(input, &read)?;
        self.sorted(input, keys, bounds.unwrap_or((0, None)))
    }

    /// Orders the rows of `input`, and keeps some rows after the first `skip` ones.
    pub(super) fn sorted(
        &mut self,
        input: LoweredRelation,
        keys: &[LogicalSortKey],
        (skip, rows): (usize, Option<usize>),
    ) -> Result<LoweredRelation> {
        let exprs: Vec<ScalarExpr> = keys.iter().map(|key| key.expr.clone()).collect();
        let (input, ids) = self.with_columns(input, &exprs)?;
        let mut sorted: Vec<SortKey> = Vec::with_capacity(keys.len());
        for (key, id) in keys.iter().zip(ids) {
            let column = input.position(id).expect("the column exists");
            if !sorted.iter().any(|known| known.column == column) {
                sorted.push(SortKey { column, descending: key.descending, nulls_first: key.nulls_first });
            }
        }
        let below = Arc::clone(input.node());
        let rows_below = has_conditions(&below).then(|| self.estimator.row_count(&below));
        Ok(input.over(Node::Sort { input: below, keys: sorted, skip, rows, rows_below }))
    }

    pub(super) fn limit(
        &mut self,
        input: &Logical,
        skip: Option<&ScalarExpr>,
        rows: Option<&ScalarExpr>,
        needed: &ColumnSet,
    ) -> Result<LoweredRelation> {
        let skip = skip.map_or(Ok(None), |expr| bound("OFFSET", expr))?.unwrap_or(0);
        let rows = rows.map_or(Ok(None), |expr| bound("LIMIT", expr))?;
        if let Logical::Sort { input, keys } = input {
            if let Some(rows) = rows
                && let Some(late) = self.late_columns(input, keys, (skip, rows), needed)?
            {
                return Ok(late);
            }
            return self.sort(input, keys, Some((skip, rows)), needed);
        }
        let input = self.lower(input, needed)?;
        let input = self.settled(input, needed)?;
        let below = Arc::clone(input.node());
        Ok(input.over(Node::Limit { input: below, skip, rows }))
    }

    /// One row for each combination of values in `columns`.
    pub(super) fn distinct(&mut self, input: &Logical, columns: &[ColumnId]) -> Result<LoweredRelation> {
        let read: ColumnSet = columns.iter().copied().collect();
        let input = self.lower(input, &read)?;
        let input = self.settled(input, &read)?;
        let keys: Vec<(ColumnId, ScalarExpr)> = columns.iter().map(|id| (*id, self.columns.expr(*id))).collect();
        self.grouped_rows(input, &keys, &[])
    }
}

/// Whether a node gives the rows of a scan that has conditions.
fn has_conditions(node: &Node) -> bool {
    match node {
        Node::Scan(scan) => !scan.predicates.is_empty(),
        Node::Project { input, .. } => has_conditions(input),
        _ => false,
    }
}

/// The number of rows of a LIMIT or OFFSET. NULL means that there is none.
fn bound(clause: &str, expr: &ScalarExpr) -> Result<Option<usize>> {
    let Some(value) = expr.as_constant() else {
        return Err(Error::new(ErrorKind::InvalidParameter, format!("{clause} takes a number of rows"))
            .hint("write a literal, a parameter, or an expression of these"));
    };
    if value.is_null() {
        return Ok(None);
    }
    let number = match value.kind() {
        DataType::Int64 => value.as_bigint(),
        _ => None,
    };
    match number {
        Some(rows) if rows >= 0 => Ok(Some(usize::try_from(rows).unwrap_or(usize::MAX))),
        Some(rows) => {
            Err(Error::new(ErrorKind::InvalidParameter, format!("{clause} must not be negative, but is {rows}")))
        }
        None => Err(Error::internal(format!("{clause} must be bound as a BIGINT"))),
    }
}
