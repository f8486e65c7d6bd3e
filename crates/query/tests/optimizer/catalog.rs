//! The tables of TPC-H and a few small ones. With `keyed`, they have primary keys.

use std::sync::Arc;

use arrow::array::ArrayRef;
use rowmill_base::{ColumnId, IndexId, Result, SchemaId, SqlType, TableId};
use rowmill_plan::{Constant, DynamicFunction};
use rowmill_query::catalog::{CatalogRelation, QueryCatalog, RelationName, RowSource};
use rowmill_storage::keyed::KeyRange;
use rowmill_storage::{
    Block, ColumnDef, ColumnStatistics, ForeignKeyDef, KeyBounds, KeyColumn, KeyRanges, KeyedDef, KeyedRows,
    KeyedSource, OpenRun, ReferentialAction, TableDef, TableSource, TableStatistics,
};

/// A table without rows. It may claim to have some.
#[derive(Debug)]
struct PlannedTable {
    def: Arc<TableDef>,
    statistics: Option<TableStatistics>,
}

impl TableSource for PlannedTable {
    fn table(&self) -> &Arc<TableDef> {
        &self.def
    }

    fn keyed(&self) -> Option<&dyn KeyedSource> {
        self.statistics.as_ref().map(|_| self as &dyn KeyedSource)
    }

    fn blocks(&self) -> &[Arc<Block>] {
        &[]
    }

    fn runs(&self) -> &[Arc<OpenRun>] {
        &[]
    }
}

impl KeyedSource for PlannedTable {
    fn rows_about(&self) -> u64 {
        self.statistics.as_ref().map_or(0, |statistics| statistics.rows)
    }

    fn statistics(&self) -> Option<&TableStatistics> {
        self.statistics.as_ref()
    }

    fn read(&self, _bounds: &KeyBounds<'_>) -> Result<Box<dyn KeyedRows>> {
        unreachable!("plans are not run")
    }

    fn range_of(&self, _bounds: &KeyBounds<'_>) -> Result<KeyRange> {
        unreachable!("plans are not run")
    }

    fn read_ranges(&self, _ranges: KeyRanges) -> Result<Box<dyn KeyedRows>> {
        unreachable!("plans are not run")
    }

    fn decode(&self, _keys: &[&[u8]], _rows: &[&[u8]], _columns: &[usize]) -> Result<Vec<ArrayRef>> {
        unreachable!("plans are not run")
    }
}

#[derive(Default)]
pub(crate) struct TpchCatalog {
    pub(crate) keyed: bool,
    /// Whether the tables claim the rows and distinct values of scale 1.
    pub(crate) sized: bool,
}

/// A table with its number of rows, and columns with their numbers of distinct values.
type TableSize = (&'static str, u64, &'static [(&'static str, u64)]);

/// The rows of tables at scale 1, and the distinct values of columns that have fewer values than rows.
const SIZES: &[TableSize] = &[
    ("region", 5, &[]),
    ("nation", 25, &[("n_regionkey", 5)]),
    ("supplier", 10_000, &[("s_nationkey", 25)]),
    (
        "part",
        200_000,
        &[
            ("p_mfgr", 5),
            ("p_brand", 25),
            ("p_type", 150),
            ("p_size", 50),
            ("p_container", 40),
            ("p_retailprice", 20_899),
        ],
    ),
    ("partsupp", 800_000, &[("ps_partkey", 200_000), ("ps_suppkey", 10_000), ("ps_availqty", 9_999)]),
    ("customer", 150_000, &[("c_nationkey", 25), ("c_mktsegment", 5)]),
    (
        "orders",
        1_500_000,
        &[
            ("o_custkey", 99_996),
            ("o_orderstatus", 3),
            ("o_orderdate", 2_406),
            ("o_orderpriority", 5),
            ("o_clerk", 1_000),
            ("o_shippriority", 1),
        ],
    ),
    (
        "lineitem",
        6_001_215,
        &[
            ("l_orderkey", 1_500_000),
            ("l_partkey", 200_000),
            ("l_suppkey", 10_000),
            ("l_linenumber", 7),
            ("l_quantity", 50),
            ("l_discount", 11),
            ("l_tax", 9),
            ("l_returnflag", 3),
            ("l_linestatus", 2),
            ("l_shipdate", 2_526),
            ("l_commitdate", 2_466),
            ("l_receiptdate", 2_554),
            ("l_shipinstruct", 4),
            ("l_shipmode", 7),
        ],
    ),
];

fn statistics(def: &TableDef) -> TableStatistics {
    let known = SIZES.iter().find(|(name, ..)| *name == def.name);
    let (_, rows, known) = known.copied().unwrap_or(("", 1_000, &[]));
    let columns = def.columns.iter().map(|column| ColumnStatistics {
        column: column.id,
        null_share: 0.0,
        distinct: known.iter().find(|(name, _)| *name == column.name).map_or(rows, |(_, distinct)| *distinct),
        frequent: Vec::new(),
        bounds: Vec::new(),
    });
    TableStatistics { index: IndexId(1), rows, columns: columns.collect() }
}

/// Names, key columns, and columns: `i` INTEGER, `b` BIGINT, `d` DECIMAL, `t` TEXT, `D` DATE. A `?` after it means
/// nullable.
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

/// Foreign keys: a table, its columns, the parent table, and the parent's columns.
const FOREIGN_KEYS: &[(&str, &[u32], &str, &[u32])] = &[
    ("nation", &[2], "region", &[0]),
    ("supplier", &[3], "nation", &[0]),
    ("partsupp", &[0], "part", &[0]),
    ("partsupp", &[1], "supplier", &[0]),
    ("customer", &[3], "nation", &[0]),
    ("orders", &[1], "customer", &[0]),
    ("n", &[2], "n", &[0]),
];

fn table_id(name: &str) -> TableId {
    TableId(TABLES.iter().position(|(known, ..)| *known == name).unwrap() as u32 + 1)
}

impl TpchCatalog {
    fn foreign_key(&self, (child, columns, parent, parents): &(&str, &[u32], &str, &[u32])) -> ForeignKeyDef {
        let ids = |columns: &[u32]| columns.iter().map(|column| ColumnId(*column)).collect();
        ForeignKeyDef {
            name: format!("{child}_{parent}"),
            columns: ids(columns),
            parent: table_id(parent),
            parent_columns: ids(parents),
            on_delete: ReferentialAction::Restrict,
            on_update: ReferentialAction::Restrict,
        }
    }

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
                    part: None,
                }
            })
            .collect();
        let key_columns = columns[..*key].iter().map(|column| KeyColumn { column: column.id, descending: false });
        let keyed = KeyedDef {
            index: IndexId(1),
            key: key_columns.collect(),
            key_name: None,
            stored: Vec::new(),
            indexes: Vec::new(),
            foreign_keys: FOREIGN_KEYS
                .iter()
                .filter(|(child, ..)| child == name)
                .map(|key| self.foreign_key(key))
                .collect(),
            referrers: Vec::new(),
            sequence: None,
        };
        Some(TableDef {
            id: table_id(name),
            schema: SchemaId(1),
            name: (*name).to_string(),
            version: 1,
            next_column: ColumnId(columns.len() as u32),
            columns,
            keyed: (self.keyed && *key > 0).then(|| Arc::new(keyed)),
            time: None,
            rules: Default::default(),
        })
    }
}

impl QueryCatalog for TpchCatalog {
    fn relation(&self, name: &RelationName) -> Result<Option<CatalogRelation>> {
        Ok(self.table(&name.name).map(|def| {
            let statistics = self.sized.then(|| statistics(&def));
            CatalogRelation::Table(Arc::new(PlannedTable { def: Arc::new(def), statistics }))
        }))
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
