//! Lowers optimized plans to programs: statements on keyed tables that run without a planner.
//!
//! ```text
//! logical plan -> stages: a relation, its groups, an order, a limit (stage.rs, relation.rs)
//!              -> lookups within lookups (lookups.rs), each by a key of its table (access.rs), or over rows in memory:
//!                 of other stages, of unions, of windows (windows.rs), of recursions (recursion.rs)
//!              -> groups by one row each, if a key has their columns first (distinct.rs)
//!              -> distinct primary keys of several keys, if rows are only counted (counted_union.rs)
//!              -> a second read if few rows match (few_rows.rs)
//!              -> rows that are looked up after their index entries are sorted and cut (late_rows.rs)
//!              -> the output that is made of their rows (output.rs, scalar.rs): rowmill_plan::program
//! ```
//!
//! A program should read few rows. If it would have to read a table without a key, or if programs lack a feature, that
//! is not an error: the statement then has no program and runs in the general engine. Parameters stay in the program,
//! with the types with which they were bound.

mod access;
mod change;
mod counted_union;
mod definitions;
mod distinct;
mod few_rows;
mod key_condition;
mod late_rows;
mod lookups;
mod names;
mod output;
mod recursion;
mod relation;
mod scalar;
mod spread;
mod stage;
mod windows;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use rowmill_plan::program::ReadPlan;
use rowmill_plan::{ColumnId, ExprOp, Logical, ScalarExpr, Volatility};
use rowmill_storage::TableSource;

use crate::binder::BoundQuery;
use crate::optimizer::walk::{exprs, inputs};
use definitions::Definitions;
use scalar::Scope;
use stage::Stage;

pub use change::{ChangedRowsQuery, changed_rows, computed_values, row_values};
pub use names::DefinitionNames;
pub use scalar::literal as constant;
pub(crate) use scalar::sql_type;

/// The program of a bound and optimized query that still contains its parameters. Returns `None` if it has no program.
pub fn read(bound: &BoundQuery) -> Option<ReadPlan> {
    if bound.reads_clock || !bound.sources.is_empty() || is_unrepeatable(bound) {
        return None;
    }
    let builder = ProgramBuilder::new(bound);
    let stage = Stage::of(&bound.query.root, &builder.definitions)?;
    let ids: Vec<ColumnId> = bound.query.output.iter().map(|(id, _)| *id).collect();
    let read = builder.read(&stage, &Scope::default(), 0, &ids)?.read;
    let kinds = bound.query.output.iter().map(|(id, _)| &bound.query.columns.get(*id).kind);
    read.output().iter().zip(kinds).all(|(kind, wanted)| kind.arrow() == *wanted).then_some(read)
}

/// Reads that we try per statement, including nested ones. A statement with more alternatives should run in
/// the general engine, so it has no program.
const READS_MAX: usize = 200;

/// Builds the program of one statement.
struct ProgramBuilder<'p> {
    tables: &'p [Arc<dyn TableSource>],
    definitions: Definitions,
    /// Number of reads that were tried so far.
    reads: Cell<usize>,
    /// The recursions whose steps are being built, innermost last.
    rounds: RefCell<Vec<usize>>,
}

impl<'p> ProgramBuilder<'p> {
    fn new(bound: &'p BoundQuery) -> ProgramBuilder<'p> {
        ProgramBuilder {
            tables: &bound.tables,
            definitions: Definitions::new(&bound.query.columns),
            reads: Cell::new(0),
            rounds: RefCell::default(),
        }
    }
}

/// Whether a plan computes a value that differs from call to call, other than as a result column. A program may compute
/// the expressions of a plan in other places, and more than once, so it must not contain such a value.
fn is_unrepeatable(bound: &BoundQuery) -> bool {
    let (made, input): (&[(ColumnId, ScalarExpr)], &Logical) = match &bound.query.root {
        Logical::Map { input, exprs } => (exprs, input),
        root => (&[], root),
    };
    let is_volatile = |expr: &ScalarExpr| expr.volatility() == Volatility::Volatile;
    // A volatile result column is fine if nothing else reads it, because it is then computed once.
    let is_named_once = |id: &ColumnId| {
        let within = |expr: &ScalarExpr| expr.any(&|part| matches!(part.op, ExprOp::Column(own) if own == id.0));
        bound.query.output.iter().filter(|(own, _)| own == id).count() == 1
            && !made.iter().any(|(_, expr)| within(expr))
    };
    any_expr(input, &is_volatile) || made.iter().any(|(id, expr)| is_volatile(expr) && !is_named_once(id))
}

/// Whether `test` is true for any expression of a plan.
fn any_expr(plan: &Logical, test: &dyn Fn(&ScalarExpr) -> bool) -> bool {
    exprs(plan).into_iter().any(test) || inputs(plan).into_iter().any(|input| any_expr(input, test))
}
