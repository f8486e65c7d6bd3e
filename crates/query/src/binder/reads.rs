//! What a statement reads: its tables with the columns that it names, and its views.
//!
//! The catalog checks this list as soon as a statement is bound ([`QueryCatalog::check_reads`]), before the optimizer
//! changes the plan. A table inside of a view is read through that view, because a view reads with the rights of its
//! owner and not with those of its reader.
//!
//! A column counts as read if any expression names it, also one whose value is not used. This may demand more than
//! necessary, but never less.
//!
//! [`QueryCatalog::check_reads`]: crate::catalog::QueryCatalog::check_reads

use std::collections::HashSet;

use rowmill_base::{Result, TableId, ViewId};
use rowmill_plan::logical::LogicalSetOperation;
use rowmill_plan::{ColumnId, ExprOp, Logical, ScalarExpr};

use super::Binder;
use super::walk::{inputs, own_exprs};

/// A relation that a statement reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationRead {
    /// The relation.
    pub relation: ReadRelation,
    /// The innermost view whose query reads it; `None` if the statement itself does.
    pub through: Option<ViewId>,
}

/// A table or a view that a statement reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadRelation {
    /// A table, and the positions of the columns that are read.
    Table {
        /// The table.
        id: TableId,
        /// The positions of the columns, in order.
        columns: Vec<usize>,
    },
    /// A view.
    View(ViewId),
}

/// The reads that a binder has met so far. Empty if its catalog checks none.
#[derive(Default)]
pub(super) struct BinderReads {
    scans: Vec<BoundScan>,
    views: Vec<RelationRead>,
    /// The views around the current position, innermost last.
    around: Vec<ViewId>,
    /// Columns that a result reads without an expression.
    results: Vec<ColumnId>,
}

/// A scan of a table, whose columns have ids that follow each other.
struct BoundScan {
    table: TableId,
    through: Option<ViewId>,
    first_column: usize,
    columns: usize,
    /// Whether its rows are those that the statement changes. Without a column, nothing of them is read.
    is_target: bool,
}

impl Binder<'_> {
    /// Notes a scan of a table whose first column will be the next column.
    pub(super) fn note_scan(&mut self, table: TableId, columns: usize) {
        if self.catalog.checks_reads() {
            let through = self.reads.around.last().copied();
            let first_column = self.columns_end();
            self.reads.scans.push(BoundScan { table, through, first_column, columns, is_target: false });
        }
    }

    /// Notes that the last scan is of the rows that the statement changes.
    pub(super) fn note_target(&mut self) {
        if let Some(scan) = self.reads.scans.last_mut() {
            scan.is_target = true;
        }
    }

    /// Notes that the query of a view is bound from now on.
    pub(super) fn enter_view(&mut self, id: ViewId) {
        if self.catalog.checks_reads() {
            let through = self.reads.around.last().copied();
            self.reads.views.push(RelationRead { relation: ReadRelation::View(id), through });
        }
        self.reads.around.push(id);
    }

    pub(super) fn leave_view(&mut self) {
        self.reads.around.pop();
    }

    /// Notes columns that a result reads without an expression.
    pub(super) fn note_results(&mut self, columns: impl IntoIterator<Item = ColumnId>) {
        self.reads.results.extend(columns);
    }

    /// Lets the catalog check what `plan`, `exprs` and the results read.
    pub(super) fn check_reads(&self, plan: Option<&Logical>, exprs: &[ScalarExpr]) -> Result<()> {
        if !self.catalog.checks_reads() {
            return Ok(());
        }
        let mut named = NamedColumns::default();
        named.ids(&self.reads.results);
        plan.into_iter().for_each(|plan| named.plan(plan));
        exprs.iter().for_each(|expr| named.expr(expr));
        let tables = self.reads.scans.iter().filter_map(|scan| {
            let columns = (0..scan.columns).filter(|place| named.ids.contains(&(scan.first_column + place)));
            let columns: Vec<usize> = columns.collect();
            let is_read = !columns.is_empty() || !scan.is_target;
            let relation = ReadRelation::Table { id: scan.table, columns };
            is_read.then_some(RelationRead { relation, through: scan.through })
        });
        let reads: Vec<RelationRead> = tables.chain(self.reads.views.iter().cloned()).collect();
        self.catalog.check_reads(&reads)
    }
}

/// The columns that a plan or its result names anywhere.
pub(super) fn named_columns(plan: &Logical, results: impl Iterator<Item = ColumnId>) -> HashSet<usize> {
    let mut named = NamedColumns::default();
    named.ids.extend(results.map(|id| id.0));
    named.plan(plan);
    named.ids
}

/// The columns that a plan names anywhere.
#[derive(Default)]
struct NamedColumns {
    ids: HashSet<usize>,
    /// The shared plans that were walked, by number. Without this, plans that share plans would take exponential time.
    shared: HashSet<usize>,
}

impl NamedColumns {
    fn ids(&mut self, ids: &[ColumnId]) {
        self.ids.extend(ids.iter().map(|id| id.0));
    }

    fn expr(&mut self, expr: &ScalarExpr) {
        expr.each(&mut |part| match &part.op {
            ExprOp::Column(column) => {
                self.ids.insert(*column);
            }
            ExprOp::Subquery(subquery) => {
                self.plan(&subquery.plan);
                self.ids(&subquery.columns);
            }
            _ => {}
        });
    }

    fn plan(&mut self, plan: &Logical) {
        own_exprs(plan, &mut |expr| self.expr(expr));
        match plan {
            Logical::Distinct { columns, .. } => self.ids(columns),
            Logical::SetOperation(LogicalSetOperation { inputs, .. }) => {
                inputs.iter().for_each(|(_, columns)| self.ids(columns));
            }
            Logical::Recursive { base_columns, step_columns, .. } => {
                self.ids(base_columns);
                self.ids(step_columns);
            }
            Logical::Shared { number, input_columns, .. } => {
                self.ids(input_columns);
                if !self.shared.insert(*number) {
                    return;
                }
            }
            Logical::Fill(fill) => self.ids(&fill.read_columns()),
            _ => {}
        }
        inputs(plan).into_iter().for_each(|input| self.plan(input));
    }
}
