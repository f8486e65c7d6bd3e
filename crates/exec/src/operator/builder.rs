//! The builder of operators: a copy of an [`Environment`] that outlives the call, and the subplans that are built
//! once.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Result};
use rowmill_storage::TableSource;
use rowmill_storage::spill::TempSpace;

use super::measured::Operator;
use super::{Environment, Wish};
use crate::batch::BatchSource;
use crate::function::VectorFunction;
use crate::shared::SharedRows;

/// Builds the operators of a plan, or of one round of a recursive query in it.
pub(super) struct Builder {
    pub(super) tables: Vec<Arc<dyn TableSource>>,
    pub(super) column_copies: Mutex<ColumnCopies>,
    pub(super) functions: Vec<Arc<dyn VectorFunction>>,
    pub(super) foreign: BTreeMap<usize, Arc<dyn BatchSource>>,
    pub(super) batch_rows: usize,
    pub(super) threads: usize,
    pub(super) cancel: Cancel,
    pub(super) broker: Broker,
    pub(super) temp: TempSpace,
    pub(super) recursion_max: u64,
    pub(super) early_filters: bool,
    /// The shared subplans by number. In a round, also the parts of the step whose rows are the same in every round,
    /// by node.
    pub(super) built: Mutex<BTreeMap<BuiltName, BuiltRows>>,
    /// The rows of the previous round, by recursive query.
    pub(super) rounds: BTreeMap<usize, Vec<RecordBatch>>,
}

/// The column copies of keyed tables that were asked for, by table and by the columns that a scan reads.
pub(super) type ColumnCopies = BTreeMap<(usize, Vec<usize>), Option<Arc<dyn TableSource>>>;

/// Identifies a subplan that is built once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BuiltName {
    /// [`rowmill_plan::Node::Shared`]
    Shared(usize),
    /// A node in the step of a recursive query, by its address. The builder's caller must keep the plan alive.
    Node(usize),
}

/// A subplan that is built once and read by several operators.
#[derive(Clone)]
pub(super) struct BuiltRows {
    pub(super) rows: Arc<SharedRows>,
    pub(super) operator: Operator,
    /// The enclosing recursive queries whose rows the subplan reads.
    pub(super) reads_rounds: Vec<usize>,
}

impl Builder {
    pub(super) fn new(environment: &Environment<'_>) -> Builder {
        Builder {
            tables: environment.tables.to_vec(),
            column_copies: Mutex::default(),
            functions: environment.functions.to_vec(),
            foreign: environment.foreign.clone(),
            batch_rows: environment.batch_rows,
            threads: environment.threads,
            cancel: environment.cancel.clone(),
            broker: environment.broker.clone(),
            temp: environment.temp.clone(),
            recursion_max: environment.recursion_max,
            early_filters: environment.early_filters,
            built: Mutex::default(),
            rounds: BTreeMap::new(),
        }
    }

    /// Makes a builder for a round of the recursive query `number` over `rows`. It keeps the subplans with the same
    /// rows in every round.
    pub(super) fn for_round(&self, number: usize, rows: Vec<RecordBatch>) -> Builder {
        let mut rounds = self.rounds.clone();
        rounds.insert(number, rows);
        let mut built = self.built.lock().clone();
        // Subplans that read the rows of this query change with every round, so they must be built again.
        built.retain(|_, built| !built.reads_rounds.contains(&number));
        Builder {
            tables: self.tables.clone(),
            column_copies: Mutex::new(self.column_copies.lock().clone()),
            functions: self.functions.clone(),
            foreign: self.foreign.clone(),
            batch_rows: self.batch_rows,
            threads: self.threads,
            cancel: self.cancel.clone(),
            broker: self.broker.clone(),
            temp: self.temp.clone(),
            recursion_max: self.recursion_max,
            early_filters: self.early_filters,
            built: Mutex::new(built),
            rounds,
        }
    }

    /// Returns a reader of a shared subplan. The first call builds it.
    pub(super) fn shared(
        &self,
        number: usize,
        input: &rowmill_plan::Node,
        operator: &mut Operator,
        broker: Broker,
    ) -> Result<Arc<dyn BatchSource>> {
        let name = BuiltName::Shared(number);
        // The lock must not be held while we build, because building the input may need it.
        let known = self.built.lock().get(&name).cloned();
        let built = match known {
            Some(built) => built,
            None => {
                let (source, of_input) = self.build(input, Wish::All)?;
                let rows = SharedRows::new(source, self.cancel.clone(), broker);
                let built = BuiltRows { rows, operator: of_input, reads_rounds: rounds_read_by(input) };
                self.built.lock().insert(name, built.clone());
                built
            }
        };
        operator.inputs.push(built.operator);
        Ok(built.rows.reader())
    }
}

/// The enclosing recursive queries whose rows `node` reads.
pub(super) fn rounds_read_by(node: &rowmill_plan::Node) -> Vec<usize> {
    use rowmill_plan::Node;
    match node {
        Node::RecursiveRows { number, .. } => vec![*number],
        Node::Recursive(recursive) => {
            let mut of_step = rounds_read_by(&recursive.step);
            // Rows of the query itself come from inside of the node, not from around it.
            of_step.retain(|number| *number != recursive.number);
            of_step.extend(rounds_read_by(&recursive.base));
            of_step
        }
        _ => node.inputs().into_iter().flat_map(rounds_read_by).collect(),
    }
}
