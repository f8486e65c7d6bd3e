//! From a syntax tree to a logical plan: names, types, scopes.

use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::LogicalQuery;
use rowmill_storage::TableSource;
use sqlparser::ast;

use crate::catalog::{QueryCatalog, RowSource};

/// A query whose names and types are settled.
#[derive(Clone, Debug)]
pub struct BoundQuery {
    /// The plan.
    pub query: LogicalQuery,
    /// The tables that it names by number.
    pub tables: Vec<Arc<dyn TableSource>>,
    /// The other sources that it names by number.
    pub sources: Vec<Arc<dyn RowSource>>,
    /// The types of the parameters, by number; none where nothing says.
    pub parameters: Vec<Option<DataType>>,
}

/// Binds `query`. `parameters` are the types of the parameters, by number, where they are known.
pub fn bind(
    _query: &ast::Query,
    _catalog: &dyn QueryCatalog,
    _spelling: &dyn Fn(&ast::Ident) -> String,
    _parameters: &[DataType],
) -> Result<BoundQuery> {
    todo!()
}
