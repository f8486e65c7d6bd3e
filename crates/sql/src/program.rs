//! Statements on keyed tables as programs, which run without a planner.
//!
//! ```text
//! syntax tree -> bound and optimized, as every statement is, with parameters of the types of the values given
//!             -> lowered by rowmill_query::program: rowmill_plan::program
//! ```
//!
//! A parameter has the type of the value that it is given, as a literal in its place has, so that a program answers as the same
//! statement with literals does. There is one program for each list of types; a NULL is a literal in it.
//!
//! What a program cannot do is not an error: there is none, and the statement runs as every other one.

mod change;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill_base::{Result, SqlType, TimeUnit};
use rowmill_plan::program::{Body, Program};
use rowmill_plan::{ColumnId, Constant};
use rowmill_program::{Compiled, ROUNDS_MAX};
use rowmill_query::binder::BoundQuery;
use rowmill_query::program;
use rowmill_txn::Snapshot;
use sqlparser::ast::{self, Statement as Sql};

use crate::catalog::StatementContext;
use crate::engine_query::PlannedQuery;
use crate::parse::Body as Parsed;
use crate::session::Work;

/// What a parameter is given, as far as a program depends on it.
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
pub(crate) struct StatementProgram {
    /// What it does.
    pub(crate) program: Program,
    /// The columns of its result, named as spelled; none if it gives no rows.
    pub(crate) schema: Option<SchemaRef>,
    /// What the statement is, as drivers show it: `INSERT`, `UPDATE`, `DELETE`, `SELECT`.
    pub(crate) tag: &'static str,
}

/// A program that is ready to run.
#[derive(Debug)]
pub(crate) struct CompiledStatement {
    pub(crate) compiled: Compiled,
    /// The columns of its result, named as spelled; none if it gives no rows.
    pub(crate) schema: Option<SchemaRef>,
    /// What the statement is, as drivers show it.
    pub(crate) tag: &'static str,
}

impl Work<'_> {
    /// The program of the statement for the definitions of `snapshot` and parameters of these types, ready to run; none if it
    /// has none. An error where the statement itself is wrong, or its program does not compile.
    pub(crate) fn compiled_statement(
        &self,
        snapshot: &Arc<Snapshot>,
        parameters: &[ParameterKind],
    ) -> Result<Option<CompiledStatement>> {
        let Parsed::Sql(sql) = self.statement.body() else { return Ok(None) };
        let parameters: Vec<Option<SqlType>> = parameters.iter().map(|kind| kind.sql_type()).collect();
        let compiler = Compiler { work: self, snapshot, parameters: &parameters };
        let made = self.with_planning_room(|| match &**sql {
            Sql::Query(query) => compiler.query(query),
            change => compiler.change(change),
        })?;
        let Some(StatementProgram { program, schema, tag }) = self.within_rounds(made) else { return Ok(None) };
        let compiled = Compiled::new(&program, snapshot.catalog())?;
        Ok(Some(CompiledStatement { compiled, schema, tag }))
    }

    /// The program of a query that was planned over `snapshot` with this statement's values, if it has one that compiles.
    pub(crate) fn query_program(&self, snapshot: &Arc<Snapshot>, planned: PlannedQuery) -> Option<Program> {
        let parameters = self.value_types();
        let compiler = Compiler { work: self, snapshot, parameters: &parameters };
        let made = self.within_rounds(self.with_planning_room(|| compiler.planned_query(planned)))?;
        Compiled::new(&made.program, snapshot.catalog()).is_ok().then_some(made.program)
    }

    /// The program of an `INSERT`, `UPDATE` or `DELETE` with this statement's values, if it has one that compiles.
    pub(crate) fn change_program(&self, snapshot: &Arc<Snapshot>, change: &Sql) -> Result<Option<Program>> {
        let parameters = self.value_types();
        let compiler = Compiler { work: self, snapshot, parameters: &parameters };
        let made = self.with_planning_room(|| compiler.change(change))?;
        let Some(made) = self.within_rounds(made) else { return Ok(None) };
        Ok(Compiled::new(&made.program, snapshot.catalog()).is_ok().then_some(made.program))
    }

    /// The program, unless it may go on for more rounds of a recursion than the session allows: programs have a bound of their
    /// own, after which the statement runs in another way.
    fn within_rounds(&self, made: Option<StatementProgram>) -> Option<StatementProgram> {
        let is_bounded = self.settings().number("recursion_max") >= ROUNDS_MAX;
        made.filter(|made| is_bounded || !made.program.body.is_recursive())
    }

    /// The types of the values that this statement was given for its parameters; none of NULL.
    fn value_types(&self) -> Vec<Option<SqlType>> {
        let kind = |value: &Constant| match value.kind() {
            DataType::Null => None,
            kind => SqlType::from_arrow(kind),
        };
        self.params.iter().map(kind).collect()
    }

    /// An `INSERT` that this statement makes for itself as a program, with parameters of these types.
    pub(crate) fn insert_program(
        &self,
        snapshot: &Arc<Snapshot>,
        insert: &ast::Insert,
        parameters: &[Option<SqlType>],
    ) -> Result<Option<StatementProgram>> {
        let compiler = Compiler { work: self, snapshot, parameters };
        self.with_planning_room(|| compiler.insert(insert))
    }
}

/// Makes the program of one statement.
struct Compiler<'a> {
    work: &'a Work<'a>,
    snapshot: &'a Arc<Snapshot>,
    /// The types of the parameters; none of one that is NULL.
    parameters: &'a [Option<SqlType>],
}

impl Compiler<'_> {
    fn program(&self, body: Body) -> Program {
        // A NULL is a literal, so that its type is of no interest.
        let kind = |kind: &Option<SqlType>| kind.clone().unwrap_or(SqlType::TEXT);
        Program { parameters: self.parameters.iter().map(kind).collect(), body }
    }

    fn context(&self) -> Arc<StatementContext> {
        self.work.context(Arc::clone(self.snapshot))
    }

    /// The types of the parameters, NULL where one is NULL.
    fn kinds(&self) -> Vec<DataType> {
        let kind = |kind: &Option<SqlType>| kind.as_ref().map_or(DataType::Null, SqlType::arrow);
        self.parameters.iter().map(kind).collect()
    }

    fn is_null(&self, parameter: usize) -> bool {
        self.parameters.get(parameter).is_some_and(Option::is_none)
    }

    /// Binds and optimizes a query of this statement.
    fn planned(&self, query: &ast::Query) -> Result<BoundQuery> {
        let (context, kinds) = (self.context(), self.kinds());
        let planned = PlannedQuery::new(&context, query, self.work.statement.spellings(), &kinds)?;
        Ok(self.with_nulls(planned))
    }

    /// A plan in which the parameters that are NULL are literals.
    fn with_nulls(&self, planned: PlannedQuery) -> BoundQuery {
        let mut bound = planned.into_bound();
        bound.set_null_parameters(&|parameter| self.is_null(parameter));
        bound
    }

    /// The program of a query, if it is one.
    fn query(&self, query: &ast::Query) -> Result<Option<StatementProgram>> {
        let (context, kinds) = (self.context(), self.kinds());
        let planned = PlannedQuery::new(&context, query, self.work.statement.spellings(), &kinds)?;
        Ok(self.planned_query(planned))
    }

    /// The program of a query that is planned, if it is one.
    fn planned_query(&self, planned: PlannedQuery) -> Option<StatementProgram> {
        let bound = self.with_nulls(planned);
        let mut read = program::read(&bound)?;
        read.for_update = self.work.statement.locks_rows();
        let schema = Some(schema_of(&bound));
        Some(StatementProgram { program: self.program(Body::Read(read)), schema, tag: "SELECT" })
    }

    /// The program of a change of rows, if it is one.
    fn change(&self, change: &Sql) -> Result<Option<StatementProgram>> {
        match change {
            Sql::Insert(insert) => self.insert(insert),
            Sql::Update(update) => self.update(update),
            Sql::Delete(delete) => self.delete(delete),
            _ => Ok(None),
        }
    }
}

/// The columns of a result, named as spelled.
fn schema_of(bound: &BoundQuery) -> SchemaRef {
    let query = &bound.query;
    let field = |(id, name): &(ColumnId, String)| Field::new(name, query.columns.get(*id).kind.clone(), true);
    Arc::new(Schema::new(query.output.iter().map(field).collect::<Vec<_>>()))
}
