//! The shape of a statement: everything that a client may ask about it before it runs.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill_base::{Error, Result, SqlType};
use rowmill_query::binder::BoundQuery;
use sqlparser::ast::{DescribeAlias, Statement as Sql};

use crate::engine_query;
use crate::explain;
use crate::outcome::Outcome;
use crate::outside::outside_schema;
use crate::parse::{AccessStatement, Statement, StatementBody};
use crate::pg_catalog::table_oid;
use crate::session::{Session, Work};
use crate::statement::role;
use crate::statement::write::ChangeSyntax;
use crate::statement::write::binder::WriteBinder;
use crate::statement::write::changing_with::{self, ChangingWith};

/// The types of a statement's parameters and the columns of its result.
#[derive(Clone, Debug)]
pub struct StatementShape {
    /// The types that the statement gives its parameters, by number. `None` where it does not determine one.
    pub parameters: Vec<Option<SqlType>>,
    /// The parameters that the statement casts to a type that only PostgreSQL has, such as `oid`: their numbers from 0,
    /// and the names of these types.
    pub declared: Vec<(usize, &'static str)>,
    /// The columns of the result. `None` if the statement returns no rows.
    pub columns: Option<SchemaRef>,
}

impl StatementShape {
    fn of_rows(columns: Option<SchemaRef>, parameters: &[Option<DataType>]) -> StatementShape {
        let kind = |kind: &Option<DataType>| kind.as_ref().and_then(SqlType::from_arrow);
        let columns = columns.map(|schema| outside_schema(&schema, None).unwrap_or(schema));
        StatementShape { parameters: parameters.iter().map(kind).collect(), declared: Vec::new(), columns }
    }
}

impl Session {
    /// Returns the shape of a statement. `known` are the types that the caller gives to parameters, by number. Changes
    /// nothing; but to learn the columns of a `SHOW` or `DESCRIBE`, it runs that statement.
    pub fn shape(&mut self, statement: &Statement, known: &[Option<SqlType>]) -> Result<StatementShape> {
        let mut kinds = vec![DataType::Null; statement.parameter_count()];
        for (kind, known) in kinds.iter_mut().zip(known) {
            if let Some(known) = known {
                *kind = known.arrow();
            }
        }
        if let StatementBody::Access(access) = statement.body()
            && matches!(**access, AccessStatement::CreateToken { .. })
        {
            let columns = Some(role::token_schema());
            return Ok(StatementShape { parameters: vec![None; kinds.len()], declared: Vec::new(), columns });
        }
        let StatementBody::Sql(sql) = statement.body() else {
            return self.shape_by_run(statement, matches!(statement.body(), StatementBody::CheckDatabase));
        };
        match &**sql {
            Sql::Query(_) | Sql::Insert(_) | Sql::Update(_) | Sql::Delete(_) | Sql::Merge(_) => {
                let shape = self.work_on(statement, &[], |work| work.shape(&kinds))?;
                Ok(StatementShape { declared: statement.declared_parameters().to_vec(), ..shape })
            }
            Sql::Explain { describe_alias: DescribeAlias::Explain, .. } => {
                let columns = explain::plan_schema();
                Ok(StatementShape { parameters: vec![None; kinds.len()], declared: Vec::new(), columns: Some(columns) })
            }
            Sql::Explain { .. }
            | Sql::ExplainTable { .. }
            | Sql::ShowVariable { .. }
            | Sql::ShowTables { .. }
            | Sql::ShowViews { .. }
            | Sql::ShowSchemas { .. }
            | Sql::ShowDatabases { .. }
            | Sql::ShowColumns { .. }
            | Sql::ShowFunctions { .. }
            | Sql::ShowCreate { .. } => self.shape_by_run(statement, true),
            _ => self.shape_by_run(statement, false),
        }
    }

    /// Returns the shape of a statement without parameters. Only running it tells its columns, if it has any.
    fn shape_by_run(&mut self, statement: &Statement, has_columns: bool) -> Result<StatementShape> {
        let columns = match has_columns {
            true => match self.run_in_engine(statement, &[])?.outside(self.zone()) {
                Outcome::Rows(rows) => Some(rows.schema()),
                Outcome::Changed { .. } | Outcome::Done { .. } => None,
            },
            false => None,
        };
        Ok(StatementShape { parameters: vec![None; statement.parameter_count()], declared: Vec::new(), columns })
    }
}

impl Work<'_> {
    /// Returns the shape of a query or of a change of rows, for parameters of `kinds`: the type NULL lets the binder
    /// infer the type of a parameter from its place.
    fn shape(&mut self, kinds: &[DataType]) -> Result<StatementShape> {
        let StatementBody::Sql(sql) = self.statement.body() else {
            return Err(Error::internal("only queries and changes of rows are bound"));
        };
        let view = self.view()?;
        if let Some(parts) = ChangingWith::of(sql) {
            let (result, parameters) = changing_with::shape(self, &view, &parts, kinds)?;
            return Ok(StatementShape::of_rows(result.as_ref().map(result_schema), &parameters));
        }
        self.with_planning_room(|| match (ChangeSyntax::of(sql), &**sql) {
            (Some(change), _) => {
                let binder = WriteBinder::new(self, &view, kinds);
                let bound = binder.bind(change)?;
                if let Some(values) = &bound.values {
                    binder.bind_values(&bound.table, values)?;
                }
                let columns = bound.plan.returning.as_ref().map(result_schema);
                Ok(StatementShape::of_rows(columns, &binder.parameters()))
            }
            (None, Sql::Query(query)) => {
                let context = self.context(view.clone());
                let bound = engine_query::bind(&context, query, self.statement.spellings(), kinds)?;
                let mut parameters = bound.parameters.clone();
                parameters.resize(kinds.len(), None);
                Ok(StatementShape::of_rows(Some(schema_with_origins(&bound)), &parameters))
            }
            _ => Err(Error::internal("only queries and changes of rows are bound")),
        })
    }
}

/// Returns the columns of the result: names as spelled, and types.
pub(crate) fn result_schema(bound: &BoundQuery) -> SchemaRef {
    let fields = bound.query.output.iter().map(|(id, name)| bound.query.columns.field(*id, name, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The key of the stored column that a column of a result shows, in the metadata of its field: the number of the table
/// as `pg_class` has it, and the place of the column, counted from 1. For a VARCHAR, its length in characters follows.
pub const ORIGIN: &str = "origin";

/// Returns the columns of the result, with the stored columns that they show.
fn schema_with_origins(bound: &BoundQuery) -> SchemaRef {
    let schema = result_schema(bound);
    let fields = schema.fields().iter().zip(bound.origins()).map(|(field, origin)| {
        let Some((table, place)) = origin else { return Field::clone(field) };
        let mut metadata = field.metadata().clone();
        let def = bound.tables.iter().map(|source| source.table()).find(|def| def.id == table);
        let mut origin = format!("{} {}", table_oid(table), place + 1);
        if let Some(SqlType::Text { chars_max: Some(chars) }) = def.map(|def| &def.columns[place].kind) {
            origin.push_str(&format!(" {chars}"));
        }
        metadata.insert(ORIGIN.to_owned(), origin);
        Field::clone(field).with_metadata(metadata)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
