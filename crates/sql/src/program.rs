//! Programs of statements on keyed tables, which run without a planner.
//!
//! ```text
//! syntax tree -> bound and optimized, as every statement is, with parameters of the types of the values given
//!             -> lowered by rowmill_query::program: rowmill_plan::program
//! ```
//!
//! A parameter has the type of the value that it is given, as a literal in its place would have. So a program answers
//! exactly as the same statement with literals does. Each list of types has its own program, in which a NULL is a
//! literal.
//!
//! If a program cannot do what a statement asks, that is not an error: the statement then has no program and runs in
//! the engine.

mod change;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill_base::{Result, SqlType, TimeUnit};
use rowmill_plan::program::{Body, Program};
use rowmill_plan::{ColumnId, Constant};
use rowmill_program::{Compiled, ROUNDS_MAX};
use rowmill_query::binder::BoundQuery;
use rowmill_query::optimizer::Executor;
use rowmill_query::program;
use rowmill_txn::Snapshot;
use sqlparser::ast::{self, Statement as Sql};

use crate::catalog::{ClockParameter, StatementContext};
use crate::engine_query::{PlannedQuery, bind};
use crate::parse::{RowLock, StatementBody as Parsed};
use crate::session::Work;
use crate::statement::write::binder::WriteBinder;
use crate::statement::write::changing_with::last_change;
use crate::statement::write::{BoundWrite, ChangeSyntax};

pub(crate) use change::insert_of_row;

/// The kind of a parameter's value, as far as a program depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ParameterKind {
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
    /// A DECIMAL with any number of digits, of which this number come after the point.
    Decimal(u8),
    /// A TIMESTAMP of microseconds.
    Timestamp,
    /// A TIMESTAMP WITH TIME ZONE of microseconds.
    Instant,
    /// A DATE.
    Date,
    /// A TIME.
    Time,
    /// A UUID.
    Uuid,
    /// Any other type, for which no statement has a program.
    Array,
}

impl ParameterKind {
    /// Returns the SQL type of the kind, or `None` for NULL and for types without a program.
    pub(crate) fn sql_type(self) -> Option<SqlType> {
        Some(match self {
            ParameterKind::Null | ParameterKind::Array => return None,
            ParameterKind::Boolean => SqlType::Boolean,
            ParameterKind::Integer => SqlType::Int64,
            ParameterKind::Double => SqlType::Float64,
            ParameterKind::Text => SqlType::TEXT,
            ParameterKind::Blob => SqlType::Blob,
            ParameterKind::Decimal(scale) => SqlType::Decimal { precision: 38, scale },
            ParameterKind::Timestamp => SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false },
            ParameterKind::Instant => SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: true },
            ParameterKind::Date => SqlType::Date,
            ParameterKind::Time => SqlType::Time,
            ParameterKind::Uuid => SqlType::Uuid,
        })
    }
}

/// A statement as a program.
#[derive(Clone, Debug)]
pub(crate) struct StatementProgram {
    /// The program itself.
    pub(crate) program: Program,
    /// The columns of its result, named as spelled; `None` if it returns no rows.
    pub(crate) schema: Option<SchemaRef>,
    /// The kind of the statement, as drivers show it: `INSERT`, `UPDATE`, `DELETE`, `SELECT`.
    pub(crate) tag: &'static str,
}

/// A program that is ready to run.
#[derive(Debug)]
pub(crate) struct CompiledStatement {
    pub(crate) compiled: Compiled,
    /// The columns of its result, named as spelled; `None` if it returns no rows.
    pub(crate) schema: Option<SchemaRef>,
    /// The kind of the statement, as drivers show it.
    pub(crate) tag: &'static str,
    /// Whether the program has the value of `now()` as one more parameter.
    pub(crate) reads_clock: bool,
}

impl Work<'_> {
    /// Compiles the statement's program for the definitions of `snapshot` and for parameters of these types. Returns
    /// `None` if the statement has no program, and an error if the statement is wrong or its program does not compile.
    pub(crate) fn compiled_statement(
        &mut self,
        snapshot: &Arc<Snapshot>,
        parameters: &[ParameterKind],
    ) -> Result<Option<CompiledStatement>> {
        let Parsed::Sql(sql) = self.statement.body() else { return Ok(None) };
        // A program is one change or one query, without parts that run before it.
        let has_parts = last_change(sql).is_some() || self.statement.locks_parts();
        if parameters.contains(&ParameterKind::Array) || has_parts {
            return Ok(None);
        }
        let clock = Arc::new(ClockParameter::new(parameters.len()));
        self.clock = Some(Arc::clone(&clock));
        let mut parameters: Vec<Option<SqlType>> = parameters.iter().map(|kind| kind.sql_type()).collect();
        parameters.push(ParameterKind::Instant.sql_type());
        let compiler = ProgramCompiler { work: self, snapshot, parameters: &parameters };
        let made = self.with_planning_room(|| match (ChangeSyntax::of(sql), &**sql) {
            (Some(change), _) => compiler.bound_change(change),
            (None, Sql::Query(query)) => compiler.query(query),
            (None, _) => Ok(None),
        })?;
        // A statement without a program is not an error: the engine runs it.
        let Some(StatementProgram { mut program, schema, tag }) = self.within_rounds(made) else { return Ok(None) };
        let reads_clock = clock.is_read();
        if !reads_clock {
            program.parameters.truncate(clock.number);
        }
        let compiled = Compiled::new(&program, snapshot.catalog())?;
        Ok(Some(CompiledStatement { compiled, schema, tag, reads_clock }))
    }

    /// Returns the program of a query that was bound over `snapshot` with this statement's values, if it has one that
    /// compiles.
    pub(crate) fn query_program(&self, snapshot: &Arc<Snapshot>, bound: BoundQuery) -> Result<Option<Program>> {
        let parameters = self.value_types();
        let compiler = ProgramCompiler { work: self, snapshot, parameters: &parameters };
        let made = self.with_planning_room(|| Ok(compiler.bound_query(compiler.optimized(bound)?)))?;
        let made = self.within_rounds(made).filter(|made| Compiled::new(&made.program, snapshot.catalog()).is_ok());
        Ok(made.map(|made| made.program))
    }

    /// Returns the program of a change of rows with this statement's values, if it has one that compiles.
    pub(crate) fn change_program(
        &self,
        snapshot: &Arc<Snapshot>,
        binder: &WriteBinder<'_>,
        write: BoundWrite<'_>,
    ) -> Result<Option<Program>> {
        let parameters = self.value_types();
        let compiler = ProgramCompiler { work: self, snapshot, parameters: &parameters };
        let Some(made) = self.within_rounds(compiler.change(binder, write)?) else { return Ok(None) };
        Ok(Compiled::new(&made.program, snapshot.catalog()).is_ok().then_some(made.program))
    }

    /// Drops a recursive program if the session allows fewer rounds of recursion than programs do. Programs have a
    /// fixed limit of rounds; after it, the statement runs in the engine, which respects the setting.
    fn within_rounds(&self, made: Option<StatementProgram>) -> Option<StatementProgram> {
        // If the setting is at least as large as the programs' own limit, programs cannot exceed it.
        let is_bounded = self.settings().number("recursion_max") >= ROUNDS_MAX;
        made.filter(|made| is_bounded || !made.program.body.is_recursive())
    }

    /// Returns the types of this statement's parameter values, `None` for NULL.
    fn value_types(&self) -> Vec<Option<SqlType>> {
        let kind = |value: &Constant| match value.kind() {
            DataType::Null => None,
            kind => SqlType::from_arrow(kind),
        };
        self.params.iter().map(kind).collect()
    }
}

/// Makes the program of one statement.
struct ProgramCompiler<'a> {
    work: &'a Work<'a>,
    snapshot: &'a Arc<Snapshot>,
    /// The types of the parameters, `None` for NULL.
    parameters: &'a [Option<SqlType>],
}

impl ProgramCompiler<'_> {
    fn program(&self, body: Body) -> Program {
        // A NULL parameter is a literal in the program, so its type does not matter.
        let kind = |kind: &Option<SqlType>| kind.clone().unwrap_or(SqlType::TEXT);
        Program { parameters: self.parameters.iter().map(kind).collect(), body }
    }

    fn context(&self) -> Arc<StatementContext> {
        self.work.context(Arc::clone(self.snapshot))
    }

    /// Returns the types of the parameters, the type NULL for a parameter that is NULL.
    fn kinds(&self) -> Vec<DataType> {
        let kind = |kind: &Option<SqlType>| kind.as_ref().map_or(DataType::Null, SqlType::arrow);
        self.parameters.iter().map(kind).collect()
    }

    fn is_null(&self, parameter: usize) -> bool {
        self.parameters.get(parameter).is_some_and(Option::is_none)
    }

    /// Optimizes a bound query of this statement for a program. Literals replace the parameters that are NULL.
    fn optimized(&self, query: BoundQuery) -> Result<BoundQuery> {
        let mut bound = PlannedQuery::of_bound(&self.context(), query, Executor::Program)?.into_bound();
        bound.set_null_parameters(&|parameter| self.is_null(parameter));
        Ok(bound)
    }

    /// Returns the program of a query, if it has one.
    fn query(&self, query: &ast::Query) -> Result<Option<StatementProgram>> {
        let (context, kinds) = (self.context(), self.kinds());
        let bound = bind(&context, query, self.work.statement.spellings(), &kinds)?;
        Ok(self.bound_query(self.optimized(bound)?))
    }

    /// Returns the program of a bound and [optimized](ProgramCompiler::optimized) query, if it has one.
    fn bound_query(&self, bound: BoundQuery) -> Option<StatementProgram> {
        let mut read = program::read(&bound)?;
        // The lock clause was taken out of the tree, so the program must be told.
        read.for_update = match self.work.statement.row_lock() {
            None => false,
            Some(RowLock::Wait) => true,
            // Only the engine finds out at once who has locked a row.
            Some(RowLock::Refuse | RowLock::Skip) => return None,
        };
        let schema = Some(schema_of(&bound));
        Some(StatementProgram { program: self.program(Body::Read(read)), schema, tag: "SELECT" })
    }

    /// Returns the program of a change of rows that is not bound yet, if it has one.
    fn bound_change(&self, change: ChangeSyntax<'_>) -> Result<Option<StatementProgram>> {
        let kinds = self.kinds();
        let binder = WriteBinder::new(self.work, self.snapshot, &kinds);
        self.change(&binder, binder.bind(change)?)
    }
}

/// Returns the columns of a result, named as spelled.
fn schema_of(bound: &BoundQuery) -> SchemaRef {
    let query = &bound.query;
    let field = |(id, name): &(ColumnId, String)| Field::new(name, query.columns.get(*id).kind.clone(), true);
    Arc::new(Schema::new(query.output.iter().map(field).collect::<Vec<_>>()))
}
