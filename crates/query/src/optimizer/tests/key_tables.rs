//! Three tables with three BIGINT columns each. The last table has its primary key in the first column, and its second
//! column is NOT NULL. The second column of the second table refers to that key.

use std::sync::Arc;

use rowmill_base::{ColumnId, IndexId, SchemaId, SqlType, TableId};
use rowmill_storage::{ColumnDef, ForeignKeyDef, KeyColumn, KeyedDef, ReferentialAction, TableDef, TableSource};

use crate::reuse::UnreadTable;

/// The definitions of the tables.
pub(super) fn key_tables() -> Vec<Arc<dyn TableSource>> {
    (0..3).map(|number| Arc::new(UnreadTable(Arc::new(table(number)))) as Arc<dyn TableSource>).collect()
}

fn table(number: u32) -> TableDef {
    let columns = (0..3).map(|at| ColumnDef {
        id: ColumnId(at),
        name: format!("c{at}"),
        kind: SqlType::Int64,
        nullable: number != 2 || at == 2,
        default: None,
        missing: None,
        part: None,
    });
    let parents = ForeignKeyDef {
        name: "parents".to_owned(),
        columns: vec![ColumnId(1)],
        parent: TableId(2),
        parent_columns: vec![ColumnId(0)],
        on_delete: ReferentialAction::Restrict,
        on_update: ReferentialAction::Restrict,
    };
    let keyed = KeyedDef {
        index: IndexId(1),
        key: match number {
            2 => vec![KeyColumn { column: ColumnId(0), descending: false }],
            _ => Vec::new(),
        },
        key_name: None,
        stored: Vec::new(),
        indexes: Vec::new(),
        foreign_keys: if number == 1 { vec![parents] } else { Vec::new() },
        referrers: Vec::new(),
        sequence: None,
    };
    TableDef {
        id: TableId(number),
        schema: SchemaId(1),
        name: format!("t{number}"),
        version: 1,
        columns: columns.collect(),
        next_column: ColumnId(3),
        keyed: (number > 0).then(|| Arc::new(keyed)),
        time: None,
        rules: Default::default(),
    }
}
