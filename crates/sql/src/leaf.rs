//! What all leaves of DataFusion's plans that are ours have in common.

use std::fmt;

use parking_lot::Mutex;
use rowmill_base::Result;

/// What the partitions of a leaf work on together. A plan that is executed a second time (the recursive part of a `WITH
/// RECURSIVE`) asks again for a partition that it has had, which starts the next pass.
pub(crate) struct Passes<T>(Mutex<Pass<T>>);

struct Pass<T> {
    work: Option<T>,
    started: Vec<usize>,
}

impl<T: Clone> Passes<T> {
    /// The pass that `partition` takes part in, made by `start` if it is the first to do so.
    pub(crate) fn enter(&self, partition: usize, start: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut pass = self.0.lock();
        if pass.started.contains(&partition) {
            *pass = Pass::default();
        }
        pass.started.push(partition);
        if let Some(work) = &pass.work {
            return Ok(work.clone());
        }
        let work = start()?;
        pass.work = Some(work.clone());
        Ok(work)
    }

    /// What the last pass worked on.
    pub(crate) fn last(&self) -> Option<T> {
        self.0.lock().work.clone()
    }
}

impl<T> Default for Passes<T> {
    fn default() -> Self {
        Passes(Mutex::default())
    }
}

impl<T> Default for Pass<T> {
    fn default() -> Self {
        Pass { work: None, started: Vec::new() }
    }
}

impl<T> fmt::Debug for Passes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passes")
    }
}

/// The methods of `ExecutionPlan` that say that there is nothing below: for an implementation with a field `properties`
/// that is called `$name`.
macro_rules! leaf_methods {
    ($name:literal) => {
        fn name(&self) -> &str {
            $name
        }

        fn properties(&self) -> &std::sync::Arc<datafusion::physical_plan::PlanProperties> {
            &self.properties
        }

        fn children(&self) -> Vec<&std::sync::Arc<dyn ExecutionPlan>> {
            Vec::new()
        }

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }

        fn replace_children(
            self: std::sync::Arc<Self>,
            _: Vec<std::sync::Arc<dyn ExecutionPlan>>,
            _: datafusion::physical_plan::execution_plan::ReplaceChildrenOptions,
        ) -> datafusion::common::Result<std::sync::Arc<dyn ExecutionPlan>> {
            Ok(self)
        }

        fn with_new_children(
            self: std::sync::Arc<Self>,
            _: Vec<std::sync::Arc<dyn ExecutionPlan>>,
        ) -> datafusion::common::Result<std::sync::Arc<dyn ExecutionPlan>> {
            Ok(self)
        }
    };
}

pub(crate) use leaf_methods;
