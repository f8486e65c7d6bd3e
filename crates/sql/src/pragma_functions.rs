//! `pragma_table_info('table')`, which `PRAGMA table_info('table')` calls: the columns of a table or view.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringViewArray};
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_plan::Constant;
use rowmill_storage::TableDef;
use rowmill_txn::roles::{ObjectId, Rights};

use crate::catalog::StatementContext;
use crate::engine_query;
use crate::names::Spellings;
use crate::outcome::nullable_batch;
use crate::shape::result_schema;
use crate::statement::sql_text::{self, quoted};

const TABLE_INFO: &str = "pragma_table_info";

/// A column as `table_info` shows it.
struct ColumnInfo {
    name: String,
    kind: String,
    not_null: bool,
    default: Option<String>,
    is_key: bool,
}

/// Returns the rows of the function, or `None` if `name` is another one.
pub(crate) fn rows(context: &Arc<StatementContext>, name: &str, arguments: &[Constant]) -> Result<Option<RecordBatch>> {
    if name != TABLE_INFO {
        return Ok(None);
    }
    let table = match arguments {
        [table] => table.as_text(),
        _ => None,
    };
    let table = table.ok_or_else(|| {
        Error::new(ErrorKind::UndefinedFunction, "table_info takes the name of a table")
            .hint("PRAGMA table_info('table')")
    })?;
    let (schema, table) = context.relation_named(table);
    let (schema, table) = (schema.as_str(), table.as_str());
    let catalog = context.snapshot.catalog();
    let def = catalog.schema(schema).and_then(|schema| catalog.table(schema.id, table));
    let columns = match def {
        Some(def) => {
            context.access().require(Rights::SELECT, ObjectId::Table(def.id), None)?;
            columns_of_table(def)
        }
        None => columns_of_query(context, &format!("SELECT * FROM {}.{}", quoted(schema), quoted(table)))?,
    };
    batch(&columns).map(Some)
}

fn columns_of_table(def: &TableDef) -> Vec<ColumnInfo> {
    let is_key = |id| def.keyed.as_ref().is_some_and(|keyed| keyed.key.iter().any(|part| part.column == id));
    let columns = def.columns.iter().map(|column| ColumnInfo {
        name: column.name.clone(),
        kind: column.kind.to_string(),
        not_null: !column.nullable,
        default: column.default.clone(),
        is_key: is_key(column.id),
    });
    columns.collect()
}

fn columns_of_query(context: &Arc<StatementContext>, sql: &str) -> Result<Vec<ColumnInfo>> {
    let query = sql_text::query(sql, &context.settings)?;
    let bound = engine_query::bind(context, &query, &Spellings::default(), &[])?;
    let schema = result_schema(&bound);
    let columns = schema.fields().iter().map(|field| ColumnInfo {
        name: field.name().clone(),
        kind: SqlType::from_arrow(field.data_type())
            .map_or_else(|| field.data_type().to_string(), |kind| kind.to_string()),
        not_null: false,
        default: None,
        is_key: false,
    });
    Ok(columns.collect())
}

fn batch(columns: &[ColumnInfo]) -> Result<RecordBatch> {
    let texts = |of: &dyn Fn(&ColumnInfo) -> Option<String>| {
        Arc::new(columns.iter().map(of).collect::<StringViewArray>()) as ArrayRef
    };
    let flags = |of: &dyn Fn(&ColumnInfo) -> bool| {
        Arc::new(columns.iter().map(|column| Some(of(column))).collect::<BooleanArray>()) as ArrayRef
    };
    let numbers = Int64Array::from_iter_values(0..columns.len() as i64);
    nullable_batch([
        ("cid", Arc::new(numbers) as ArrayRef),
        ("name", texts(&|column| Some(column.name.clone()))),
        ("type", texts(&|column| Some(column.kind.clone()))),
        ("notnull", flags(&|column| column.not_null)),
        ("dflt_value", texts(&|column| column.default.clone())),
        ("pk", flags(&|column| column.is_key)),
    ])
}
