//! Builds recursive queries.
//!
//! We build the operators of the step again for every round, over the rows of the previous round. Parts of the step
//! that do not depend on these rows are built once and kept in memory, if computing them again would cost more than
//! reading a table, or if they can be read only once.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use rowmill_base::{Broker, Error, Result};
use rowmill_plan::{Node, Recursive};

use super::Wish;
use super::builder::{Builder, BuiltName, BuiltRows, rounds_read_by};
use super::measured::Operator;
use crate::batch::BatchSource;
use crate::recursive::{BuildStep, RecursiveQuery, RecursiveRequest};
use crate::shared::SharedRows;
use crate::values::ReadyBatches;

impl Builder {
    pub(super) fn recursive(
        &self,
        recursive: &Recursive,
        operator: &mut Operator,
        broker: Broker,
    ) -> Result<Arc<dyn BatchSource>> {
        let base = self.build_below(&recursive.base, Wish::All, operator)?;
        let number = recursive.number;
        let every_round = self.for_round(number, Vec::new());
        every_round.keep_constant(&recursive.step, number, &broker)?;
        // Build the step once without rows, so that errors in the plan are found before it runs, and EXPLAIN has its
        // shape.
        let (_, of_step) = every_round.build(&recursive.step, Wish::All)?;
        operator.inputs.push(of_step.unmeasured());
        // Subplans that the step shares with the plan around it must be known there, too.
        let of_all = every_round.built.lock().clone();
        let of_all = of_all.into_iter().filter(|(_, built)| !built.reads_rounds.contains(&number));
        self.built.lock().extend(of_all.filter(|(name, _)| matches!(name, BuiltName::Shared(_))));
        let plan = Arc::clone(&recursive.step);
        let step: BuildStep = Box::new(move |rows| {
            let (source, _) = every_round.for_round(number, rows).build(&plan, Wish::All)?;
            Ok(source)
        });
        let query = RecursiveQuery::new(RecursiveRequest {
            base,
            step,
            distinct: recursive.distinct,
            schema: Arc::clone(&recursive.schema),
            rounds_max: self.recursion_max,
            threads: self.threads,
            batch_rows: self.batch_rows,
            cancel: self.cancel.clone(),
            broker,
        })?;
        Ok(query)
    }

    /// The rows of the previous round.
    pub(super) fn recursive_rows(&self, number: usize, schema: &SchemaRef) -> Result<Arc<ReadyBatches>> {
        match self.rounds.get(&number) {
            Some(batches) => Ok(ReadyBatches::new(crate::share::with_nulls(schema), batches.clone())),
            None => Err(Error::internal(format!("the rows of the recursive query {number} are read outside of it"))),
        }
    }

    /// Returns a reader of `node` if it was built once for all rounds of the recursive query around it.
    pub(super) fn kept(&self, node: &Node) -> Result<Option<(Arc<dyn BatchSource>, Operator)>> {
        // Outside of rounds, every node is built as it comes.
        if self.rounds.is_empty() {
            return Ok(None);
        }
        let built = self.built.lock().get(&name_of(node)).cloned();
        Ok(built.map(|built| (built.rows.reader(), built.operator)))
    }

    /// Builds the largest parts of a step that have the same rows in every round and are worth keeping.
    fn keep_constant(&self, node: &Node, number: usize, broker: &Broker) -> Result<()> {
        let reads_rounds = rounds_read_by(node);
        // The rows of a recursive query inside the step are not known here.
        let is_known = |query: &usize| *query != number && self.rounds.contains_key(query);
        // This node changes with every round, but its inputs may not.
        if !reads_rounds.iter().all(is_known) {
            let mut inputs = node.inputs().into_iter();
            return inputs.try_for_each(|input| self.keep_constant(input, number, broker));
        }
        // A shared subplan already keeps its rows.
        if matches!(node, Node::Shared { .. }) || is_cheap(node) {
            return Ok(());
        }
        let (source, operator) = self.build(node, Wish::All)?;
        let rows = SharedRows::new(source, self.cancel.clone(), broker.clone());
        let built = BuiltRows { rows, operator, reads_rounds };
        self.built.lock().insert(name_of(node), built);
        Ok(())
    }
}

fn name_of(node: &Node) -> BuiltName {
    BuiltName::Node(std::ptr::from_ref(node) as usize)
}

/// Whether computing the rows again costs no more than keeping them. A table that is read again can also leave out
/// rows that the join of the round does not need.
fn is_cheap(node: &Node) -> bool {
    match node {
        Node::Scan(_) | Node::Latest(_) | Node::Values { .. } | Node::RecursiveRows { .. } | Node::Shared { .. } => {
            true
        }
        Node::Filter { input, .. } | Node::Project { input, .. } | Node::Limit { input, .. } => is_cheap(input),
        Node::Union { inputs, .. } => inputs.iter().all(|input| is_cheap(input)),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
