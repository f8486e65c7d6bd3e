//! The tables of TPC-H, with primary keys where `keyed` says so, and a few small ones.

use std::sync::Arc;

use rowmill_base::{ColumnId, IndexId, Result, SchemaId, SqlType, TableId};
use rowmill_plan::{Constant, DynamicFunction};
use rowmill_query::catalog::{CatalogRelation, QueryCatalog, RelationName, RowSource};
use rowmill_storage::{Block, ColumnDef, KeyColumn, KeyedDef, OpenRun, TableDef, TableSource};

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
}

pub(crate) struct TpchCatalog {
    pub(crate) keyed: bool,
}

/// Names, key columns, and columns: `i` INTEGER, `b` BIGINT, `d` DECIMAL, `t` TEXT, `D` DATE; `?` after it for NULL.
const TABLES: &[(&str, usize, &str)] = &[
    ("region", 1, "r_regionkey:i r_name:t r_comment:t"),
    ("nation", 1, "n_nationkey:i n_name:t n_regionkey:i n_comment:t"),
    ("supplier", 1, "s_suppkey:i s_name:t s_address:t s_nationkey:i s_phone:t s_acctbal:d s_comment:t"),
    ("part", 1, "p_partkey:i p_name:t p_mfgr:t p_brand:t p_type:t p_size:i p_container:t p_retailprice:d p_comment:t"),
    ("partsupp", 2, "ps_partkey:i ps_suppkey:i ps_availqty:i ps_supplycost:d ps_comment:t"),
    ("customer", 1, "c_custkey:i c_name:t c_address:t c_nationkey:i c_phone:t c_acctbal:d c_mktsegment:t c_comment:t"),
    (
        "orders",
        1,
        "o_orderkey:i o_custkey:i o_orderstatus:t o_totalprice:d o_orderdate:D o_orderpriority:t o_clerk:t \
         o_shippriority:i o_comment:t",
    ),
    (
        "lineitem",
        0,
        "l_orderkey:i l_partkey:i l_suppkey:i l_linenumber:i l_quantity:d l_extendedprice:d l_discount:d l_tax:d \
         l_returnflag:t l_linestatus:t l_shipdate:D l_commitdate:D l_receiptdate:D l_shipinstruct:t l_shipmode:t \
         l_comment:t",
    ),
    ("x", 0, "a:b? b:b? c:b?"),
    ("y", 0, "a:b? b:b? c:b?"),
    ("z", 0, "a:b? b:b? c:b?"),
    ("n", 1, "a:b b:b c:b?"),
];

impl TpchCatalog {
    fn table(&self, name: &str) -> Option<TableDef> {
        let (name, key, columns) = TABLES.iter().find(|(known, ..)| *known == name)?;
        let columns: Vec<ColumnDef> = columns
            .split_whitespace()
            .enumerate()
            .map(|(at, column)| {
                let (name, kind) = column.split_once(':').unwrap();
                ColumnDef {
                    id: ColumnId(at as u32),
                    name: name.to_string(),
                    kind: match &kind[..1] {
                        "i" => SqlType::Int32,
                        "b" => SqlType::Int64,
                        "d" => SqlType::Decimal { precision: 15, scale: 2 },
                        "t" => SqlType::TEXT,
                        _ => SqlType::Date,
                    },
                    nullable: kind.ends_with('?'),
                    default: None,
                    missing: None,
                }
            })
            .collect();
        let key_columns = columns[..*key].iter().map(|column| KeyColumn { column: column.id, descending: false });
        let keyed = KeyedDef {
            index: IndexId(1),
            key: key_columns.collect(),
            stored: Vec::new(),
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            referrers: Vec::new(),
            identities: Vec::new(),
            sequence: None,
        };
        Some(TableDef {
            id: TableId(1),
            schema: SchemaId(1),
            name: (*name).to_string(),
            version: 1,
            next_column: ColumnId(columns.len() as u32),
            columns,
            keyed: (self.keyed && *key > 0).then(|| Arc::new(keyed)),
        })
    }
}

impl QueryCatalog for TpchCatalog {
    fn relation(&self, name: &RelationName) -> Result<Option<CatalogRelation>> {
        Ok(self.table(&name.name).map(|table| CatalogRelation::Table(Arc::new(EmptyTable(Arc::new(table))))))
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
