//! UNION, INTERSECT and EXCEPT.

use std::sync::Arc;

use rowmill_base::{Error, Result};
use rowmill_plan::logical::{LogicalSetOperation, SetOperationKind};
use rowmill_plan::{self as plan, ColumnId, JoinKind, Node, ScalarExpr};

use super::Lowerer;
use super::join::JoinSpec;
use super::relation::LoweredRelation;

impl Lowerer<'_> {
    pub(super) fn set_operation(&mut self, operation: &LogicalSetOperation) -> Result<LoweredRelation> {
        let mut inputs = Vec::with_capacity(operation.inputs.len());
        for (input, columns) in &operation.inputs {
            let rows = self.lower(input, &columns.iter().copied().collect())?;
            inputs.push((self.exactly(rows, columns)?, columns));
        }
        match (operation.kind, operation.all) {
            (SetOperationKind::Union, all) => {
                let ids = operation.columns.clone();
                let nodes = inputs.into_iter().map(|(node, _)| node).collect();
                let rows = LoweredRelation::new(Node::Union { inputs: nodes, schema: self.schema(&ids) }, ids);
                if all {
                    return Ok(rows);
                }
                let keys: Vec<(ColumnId, ScalarExpr)> =
                    operation.columns.iter().map(|id| (*id, self.columns.expr(*id))).collect();
                self.grouped_rows(rows, &keys, &[])
            }
            (kind, false) => {
                let [(left, of_left), (right, of_right)] = &inputs[..] else {
                    return Err(Error::internal("INTERSECT and EXCEPT must have two inputs"));
                };
                let relation = |node: &Arc<Node>, ids: &[ColumnId]| LoweredRelation {
                    derived: Vec::new(),
                    ..LoweredRelation::new(Node::clone(node), ids.to_vec())
                };
                let left = relation(left, of_left);
                let right = relation(right, of_right);
                let keys: Vec<(ColumnId, ScalarExpr)> =
                    operation.columns.iter().zip(*of_left).map(|(id, of)| (*id, self.columns.expr(*of))).collect();
                // Remove duplicates first: the join then has fewer rows, and each result row is distinct.
                let distinct = self.grouped_rows(left, &keys, &[])?;
                let join = match kind {
                    SetOperationKind::Except => JoinKind::ProbeAnti,
                    _ => JoinKind::ProbeSemi,
                };
                let on = of_right.iter().copied().zip(operation.columns.iter().copied()).collect();
                let kept = operation.columns.iter().copied().collect();
                let spec = JoinSpec { kind: join, nulls_equal: true, ..JoinSpec::inner(on, kept) };
                self.join_node(spec, right, distinct)
            }
            (kind, true) => {
                let [(left, _), (right, _)] = &inputs[..] else {
                    return Err(Error::internal("INTERSECT and EXCEPT must have two inputs"));
                };
                let (left, right) = (Arc::clone(left), Arc::clone(right));
                let set = plan::SetAll { left, right, except: kind == SetOperationKind::Except };
                Ok(LoweredRelation::new(Node::SetAll(set), operation.columns.clone()))
            }
        }
    }
}
