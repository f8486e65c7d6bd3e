//! The tables of a shop, with keys and indexes. They have no rows but claim to have many.

use std::sync::Arc;

use rowmill_base::{ColumnId, IndexId, Result, SchemaId, SqlType, TableId, TimeUnit};
use rowmill_plan::{Constant, DynamicFunction};
use rowmill_query::catalog::{CatalogRelation, QueryCatalog, RelationName, RowSource};
use rowmill_storage::{Block, ColumnDef, IndexDef, KeyColumn, KeyedDef, OpenRun, TableDef, TableSource};

#[derive(Debug)]
struct EmptyTable(Arc<TableDef>);

impl TableSource for EmptyTable {
    fn table(&self) -> &Arc<TableDef> {
        &self.0
    }

    fn blocks(&self) -> &[Arc<Block>] {
        &[]
    }

    fn runs(&self) -> &[Arc<OpenRun>] {
        &[]
    }

    fn row_count(&self) -> u64 {
        if self.0.name == "settings" { 20 } else { 1_000_000 }
    }
}

pub(crate) struct ShopCatalog;

/// Name, columns, primary key, and indexes. Columns: `i` INTEGER, `b` BIGINT, `f` DOUBLE, `d` DECIMAL(10,2), `t` TEXT,
/// `T` TIMESTAMP, `B` BOOLEAN. A `?` after it means nullable. A `-` before a column of a key means descending order. A
/// `!` before an index makes it unique.
const TABLES: &[(&str, &str, &str, &str)] = &[
    ("users", "id:i name:t email:t? age:i? city:t? balance:d created:T active:B", "id", "!email name age created,id"),
    ("orders", "id:i user_id:i status:t total:d created:T note:t?", "id", "user_id,created status"),
    ("lines", "order_id:i line:i product_id:i quantity:i price:d", "order_id,line", "product_id"),
    ("products", "id:i name:t price:d weight:f?", "id", ""),
    ("posts", "forum:i created:T id:i text:t", "forum,-created,-id", ""),
    ("seats", "hall:i row:i seat:i guest:i? sold:T?", "hall,row,seat", "hall,row,guest row,hall"),
    ("settings", "name:t value:t", "name", ""),
    ("events", "id:b kind:t?", "", ""),
];

fn key(columns: &[ColumnDef], text: &str) -> Vec<KeyColumn> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    let part = |part: &str| {
        let (name, descending) = part.strip_prefix('-').map_or((part, false), |name| (name, true));
        let column = columns.iter().find(|column| column.name == name).unwrap();
        KeyColumn { column: column.id, descending }
    };
    parts.map(part).collect()
}

/// The definition of a table.
pub(crate) fn table(name: &str) -> Option<TableDef> {
    let number = TABLES.iter().position(|(known, ..)| *known == name)?;
    let (name, columns, primary, indexes) = TABLES[number];
    let column = |(at, text): (usize, &str)| {
        let (name, kind) = text.split_once(':').unwrap();
        ColumnDef {
            id: ColumnId(at as u32),
            name: name.to_string(),
            kind: match &kind[..1] {
                "i" => SqlType::Int32,
                "b" => SqlType::Int64,
                "f" => SqlType::Float64,
                "d" => SqlType::Decimal { precision: 10, scale: 2 },
                "t" => SqlType::TEXT,
                "B" => SqlType::Boolean,
                _ => SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false },
            },
            nullable: kind.ends_with('?'),
            default: None,
            missing: None,
            part: None,
        }
    };
    let columns: Vec<ColumnDef> = columns.split_whitespace().enumerate().map(column).collect();
    let indexes = indexes.split_whitespace().enumerate().map(|(at, text)| {
        let (text, unique) = text.strip_prefix('!').map_or((text, false), |text| (text, true));
        IndexDef {
            id: IndexId(at as u32 + 1),
            name: format!("by_{text}"),
            parts: key(&columns, text),
            unique,
            is_constraint: false,
            shortens: true,
        }
    });
    let keyed = KeyedDef {
        index: IndexId(0),
        key: key(&columns, primary),
        key_name: None,
        stored: Vec::new(),
        indexes: indexes.collect(),
        foreign_keys: Vec::new(),
        referrers: Vec::new(),
        sequence: None,
    };
    Some(TableDef {
        id: TableId(number as u32),
        schema: SchemaId(1),
        name: name.to_string(),
        version: 1,
        next_column: ColumnId(columns.len() as u32),
        columns,
        keyed: (!primary.is_empty()).then(|| Arc::new(keyed)),
        time: None,
        rules: Default::default(),
    })
}

/// The definitions of all tables.
pub(crate) fn tables() -> Vec<Arc<TableDef>> {
    TABLES.iter().filter_map(|(name, ..)| table(name)).map(Arc::new).collect()
}

impl QueryCatalog for ShopCatalog {
    fn relation(&self, name: &RelationName) -> Result<Option<CatalogRelation>> {
        Ok(table(&name.name).map(|table| CatalogRelation::Table(Arc::new(EmptyTable(Arc::new(table))))))
    }

    fn relation_names(&self) -> Vec<String> {
        TABLES.iter().map(|(name, ..)| (*name).to_string()).collect()
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
        0
    }
}
