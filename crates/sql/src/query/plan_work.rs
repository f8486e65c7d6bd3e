//! How much of the work of a plan is done: for the progress of a statement.
//!
//! The work of an operator is the number of rows that it is expected to give; the work of a scan is the rows of its
//! table. The part that is done is the rows given so far, at most the expected ones. Estimates are often wrong, so we
//! use a fact where we have one: when a sort, a grouping or a window gives its first row, everything below it is done,
//! and when a join reads its probe side, everything below its build side is done.

use std::sync::atomic::Ordering;

use rowmill_exec::operator::Operator;
use rowmill_plan::Node;
use rowmill_query::{PhysicalQuery, estimate};

/// What the operators of a statement have done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WorkDone {
    /// The rows of all operators, done and expected.
    done: f64,
    total: f64,
    /// Whether a file is still read whose rows are not known before.
    is_unknown: bool,
    /// The bytes that scans have read.
    pub(super) bytes_read: u64,
    /// The rows that files and other sources have given.
    pub(super) foreign_rows: u64,
}

impl WorkDone {
    /// The share of the work that is done, from 0 to 1. `None` if nothing is expected, or the work is not known.
    pub(super) fn share(&self) -> Option<f64> {
        (self.total > 0.0 && !self.is_unknown).then(|| (self.done / self.total).clamp(0.0, 1.0))
    }
}

/// The rows that each operator is expected to give, in the shape of the plan.
#[derive(Debug)]
pub(super) struct PlanWork {
    rows: f64,
    /// Whether it reads a file or another source, and whether the rows of that are known.
    foreign: Option<bool>,
    /// Whether the operator gives no row before it has read all of its input.
    gathers: bool,
    is_join: bool,
    inputs: Vec<PlanWork>,
}

impl PlanWork {
    /// Estimates the work of a plan.
    pub(super) fn of(query: &PhysicalQuery) -> PlanWork {
        PlanWork::of_node(&query.root, query)
    }

    fn of_node(node: &Node, query: &PhysicalQuery) -> PlanWork {
        let rows = match node {
            Node::Scan(scan) => query.tables[scan.table].row_count() as f64,
            node => estimate::row_count(node, &query.tables),
        };
        let gathers = matches!(
            node,
            Node::Sort { .. }
                | Node::Group { .. }
                | Node::Window(_)
                | Node::SetAll(_)
                | Node::SingleRow { .. }
                | Node::FirstRows { .. }
                | Node::Latest(_)
        );
        let foreign = match node {
            Node::Foreign(foreign) => Some(query.sources[foreign.plan].source.row_count().is_some()),
            _ => None,
        };
        let inputs = node.inputs().into_iter().map(|input| PlanWork::of_node(input, query)).collect();
        PlanWork { rows, foreign, gathers, is_join: matches!(node, Node::Join(_)), inputs }
    }

    /// Adds up what `operator`, whose shape is that of this plan, and the operators below it have done.
    pub(super) fn done(&self, operator: &Operator) -> WorkDone {
        let mut done = WorkDone::default();
        self.add(operator, false, &mut done);
        done
    }

    fn add(&self, operator: &Operator, is_complete: bool, all: &mut WorkDone) {
        let given = operator.measured.as_ref().map_or(0, |measured| measured.rows());
        let read = operator.scan.as_ref().map_or(0, |scan| scan.rows_read.load(Ordering::Relaxed));
        all.bytes_read += operator.scan.as_ref().map_or(0, |scan| scan.reads.bytes());
        if let Some(is_known) = self.foreign {
            all.foreign_rows += given;
            all.is_unknown |= !is_known && !is_complete;
        }
        let done = if is_complete { self.rows } else { (given.max(read) as f64).min(self.rows) };
        all.done += done;
        all.total += self.rows;
        let probe_rows = operator.join.as_ref().map_or(0, |join| join.probe_rows.load(Ordering::Relaxed));
        for (place, (input, below)) in self.inputs.iter().zip(&operator.inputs).enumerate() {
            // The first input of a join is its build side.
            let is_built = self.is_join && place == 0 && probe_rows > 0;
            input.add(below, is_complete || is_built || (self.gathers && given > 0), all);
        }
    }
}
