//! Statements on keyed tables as programs, which run without a planner.
//!
//! ```text
//! syntax tree -> bound, as every statement is, with parameters of the types of the values given
//!             -> analysed under our rules, so that each operator has its types
//!             -> tables, conditions and expressions over their columns
//!             -> which key is read by (access.rs), what is computed (scalar.rs): rowmill_plan::program
//! ```
//!
//! A parameter has the type of the value that it is given, as a literal in its place has, so that a program answers as the same
//! statement with literals does. There is one program for each list of types; a NULL is a literal in it.
//!
//! What a program cannot do is not an error: there is none, and the statement runs as every other one.

mod access;
mod change;
mod read;
mod rows;
mod scalar;
mod spread;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{self, Statement as Sql};
use rowmill_base::{Result, SqlType, TimeUnit};
use rowmill_plan::program::{Body, Program};
use rowmill_txn::Snapshot;

use crate::catalog::StatementContext;
use crate::guards::run_on_large_stack;
use crate::names::Spellings;
use crate::parse::Body as Parsed;
use crate::planner::Planner;
use crate::query::plan_named;
use crate::runtime;
use crate::session::Work;

/// What a parameter is given, as far as a program depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParameterKind {
    /// NULL
    Null,
    /// A truth value.
    Boolean,
    /// A BIGINT.
    Integer,
    /// A DOUBLE.
    Double,
    /// A TEXT.
    Text,
    /// A BLOB.
    Blob,
    /// A DECIMAL of any digits with so many behind the point.
    Decimal(u8),
    /// A TIMESTAMP of microseconds.
    Timestamp,
}

impl ParameterKind {
    /// The type of a value that is not NULL.
    pub(crate) fn sql_type(self) -> Option<SqlType> {
        Some(match self {
            ParameterKind::Null => return None,
            ParameterKind::Boolean => SqlType::Boolean,
            ParameterKind::Integer => SqlType::Int64,
            ParameterKind::Double => SqlType::Float64,
            ParameterKind::Text => SqlType::TEXT,
            ParameterKind::Blob => SqlType::Blob,
            ParameterKind::Decimal(scale) => SqlType::Decimal { precision: 38, scale },
            ParameterKind::Timestamp => SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false },
        })
    }
}

/// A statement as a program.
#[derive(Clone, Debug)]
pub struct StatementProgram {
    /// What it does.
    pub program: Program,
    /// The columns of its result, named as spelled; none if it gives no rows.
    pub schema: Option<SchemaRef>,
    /// What the statement is, as drivers show it: `INSERT`, `UPDATE`, `DELETE`, `SELECT`.
    pub tag: &'static str,
}

impl Work<'_> {
    /// The statement as a program for the definitions of `snapshot`, if it is one.
    pub(crate) fn program(
        &self,
        snapshot: &Arc<Snapshot>,
        parameters: &[ParameterKind],
    ) -> Result<Option<StatementProgram>> {
        let Parsed::Sql(sql) = self.statement.body() else { return Ok(None) };
        let parameters: Vec<Option<SqlType>> = parameters.iter().map(|kind| kind.sql_type()).collect();
        let compiler = Compiler { work: self, snapshot, parameters: &parameters };
        Ok(match &**sql {
            Sql::Query(query) => compiler.query(query)?,
            Sql::Insert(insert) => compiler.insert(insert)?,
            Sql::Update(update) => compiler.update(update)?,
            Sql::Delete(delete) => compiler.delete(delete)?,
            _ => None,
        })
    }

    /// An `INSERT` that this statement makes for itself as a program, with parameters of these types.
    pub(crate) fn insert_program(
        &self,
        snapshot: &Arc<Snapshot>,
        insert: &ast::Insert,
        parameters: &[Option<SqlType>],
    ) -> Result<Option<StatementProgram>> {
        Compiler { work: self, snapshot, parameters }.insert(insert)
    }
}

/// Makes the program of one statement.
struct Compiler<'a> {
    work: &'a Work<'a>,
    snapshot: &'a Arc<Snapshot>,
    /// The types of the parameters; none of one that is NULL.
    parameters: &'a [Option<SqlType>],
}

/// A query that is bound and analysed, and the names of its columns as spelled.
struct Analysed {
    plan: LogicalPlan,
    names: Vec<String>,
}

impl Compiler<'_> {
    fn program(&self, body: Body) -> Program {
        // A NULL is a literal, so that nobody asks for its type.
        let kind = |kind: &Option<SqlType>| kind.clone().unwrap_or(SqlType::TEXT);
        Program { parameters: self.parameters.iter().map(kind).collect(), body }
    }

    /// Binds and analyses a query of this statement.
    fn analysed(&self, query: &ast::Query) -> Result<Analysed> {
        let context = self.work.context(Arc::clone(self.snapshot));
        let planner = Arc::clone(self.work.planner());
        let (query, spellings) = (Box::new(query.clone()), self.work.statement.spellings().clone());
        let (parameters, patience) = (self.parameters.to_vec(), context.patience());
        run_on_large_stack(&patience, move || analyse(&planner, &context, query, &spellings, &parameters))
    }
}

fn analyse(
    planner: &Arc<Planner>,
    context: &Arc<StatementContext>,
    query: Box<ast::Query>,
    spellings: &Spellings,
    parameters: &[Option<SqlType>],
) -> Result<Analysed> {
    let state = planner.state(context);
    let analysed = runtime::handle().block_on(async {
        let (plan, names) = plan_named(&state, Sql::Query(query), spellings).await?;
        let plan = with_types(plan, parameters)?;
        Ok(Analysed { plan: analyse_plan(plan, &state)?, names })
    });
    analysed.map_err(|error| planner.translate(error, context))
}

fn analyse_plan(plan: LogicalPlan, state: &SessionState) -> PlanResult<LogicalPlan> {
    state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})
}

/// `plan` with parameters of types that are known.
fn with_types(plan: LogicalPlan, parameters: &[Option<SqlType>]) -> PlanResult<LogicalPlan> {
    let typed = |expr: Expr| {
        expr.transform_up(|expr| {
            let Expr::Placeholder(placeholder) = &expr else { return Ok(Transformed::no(expr)) };
            Ok(Transformed::yes(typed_parameter(placeholder, parameters)))
        })
    };
    plan.transform_up_with_subqueries(|plan| {
        let typed = plan.map_expressions(typed)?;
        if typed.transformed { typed.map_data(LogicalPlan::recompute_schema) } else { Ok(typed) }
    })
    .map(|typed| typed.data)
}

fn typed_parameter(placeholder: &Placeholder, parameters: &[Option<SqlType>]) -> Expr {
    let kind = scalar::parameter_number(placeholder).and_then(|number| parameters.get(number));
    let Some(Some(kind)) = kind else { return Expr::Literal(ScalarValue::Null, None) };
    let field: Field = Field::new(&placeholder.id, DataType::clone(&kind.arrow()), true);
    Expr::Placeholder(Placeholder { id: placeholder.id.clone(), field: Some(Arc::new(field)) })
}
