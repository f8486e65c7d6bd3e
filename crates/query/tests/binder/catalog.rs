//! A catalog of empty tables.

use std::sync::Arc;

use rowmill_base::{ColumnId, Error, ErrorKind, Result, SchemaId, SqlType, TableId, TimeUnit, ViewId};
use rowmill_plan::{Constant, DynamicFunction};
use rowmill_query::UnreadTable;
use rowmill_query::catalog::{CatalogRelation, CatalogView, QueryCatalog, RelationName, RowSource, ViewSpelling};
use rowmill_storage::{ColumnDef, TableDef};

pub(crate) struct TestCatalog;

pub(crate) fn table(name: &str, columns: &[(&str, SqlType)]) -> CatalogRelation {
    let columns = columns.iter().enumerate().map(|(place, (name, kind))| ColumnDef {
        id: ColumnId(place as u32),
        name: (*name).to_string(),
        kind: kind.clone(),
        nullable: true,
        default: None,
        missing: None,
        part: None,
    });
    let columns: Vec<ColumnDef> = columns.collect();
    CatalogRelation::Table(Arc::new(UnreadTable(Arc::new(TableDef {
        id: TableId(1),
        schema: SchemaId(1),
        name: name.to_string(),
        version: 1,
        next_column: ColumnId(columns.len() as u32),
        columns,
        keyed: None,
        time: None,
        rules: Default::default(),
    }))))
}

fn view(name: &str, sql: &str, columns: &[&str]) -> CatalogRelation {
    CatalogRelation::View(CatalogView {
        id: ViewId(1),
        name: name.to_string(),
        query: crate::parse(sql).0,
        columns: columns.iter().map(ToString::to_string).collect(),
        spelling: ViewSpelling::new(|ident| ident.value.clone()),
    })
}

impl QueryCatalog for TestCatalog {
    fn relation(&self, name: &RelationName) -> Result<Option<CatalogRelation>> {
        if let Some(schema) = &name.schema
            && schema != "main"
        {
            return Err(Error::new(ErrorKind::UndefinedSchema, format!("there is no schema \"{schema}\"")));
        }
        Ok(Some(match name.name.as_str() {
            "t" => table("t", &[("A", SqlType::Int32), ("b", SqlType::TEXT), ("D", SqlType::Date)]),
            "u" => table("u", &[("a", SqlType::Int64), ("c", SqlType::Float64)]),
            "k" => table("k", &[("id", SqlType::Int32), ("k", SqlType::Int32)]),
            "c" => table("c", &[("id", SqlType::Int32), ("x", SqlType::Int32)]),
            "o" => table("o", &[("id", SqlType::Int32), ("total", SqlType::Decimal { precision: 8, scale: 2 })]),
            "e" => table(
                "e",
                &[
                    ("ts", SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false }),
                    ("l", SqlType::List(Box::new(SqlType::Int32))),
                    ("s", SqlType::Struct(vec![("b".into(), SqlType::Int32), ("C".into(), SqlType::TEXT)])),
                ],
            ),
            "v" => view("V", "SELECT a AS x, count(*) FROM t GROUP BY a", &["Ax", "N"]),
            "loop1" => view("loop1", "SELECT * FROM loop2", &["a"]),
            "loop2" => view("loop2", "SELECT * FROM loop1", &["a"]),
            _ => return Ok(None),
        }))
    }

    fn relation_names(&self) -> Vec<String> {
        ["t", "u", "k", "Orders"].map(str::to_string).to_vec()
    }

    fn table_function(&self, _name: &str, _arguments: &[Constant]) -> Result<Option<Arc<dyn RowSource>>> {
        Ok(None)
    }

    fn dynamic_function(
        &self,
        _name: &str,
        _arguments: &[Option<Constant>],
    ) -> Result<Option<(Arc<dyn DynamicFunction>, SqlType)>> {
        Ok(None)
    }

    fn now_us(&self) -> i64 {
        1_700_000_000_000_000
    }
}
