//! `rowmill_storage('table')`: shows how each column of a table is stored.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{Field, Schema};
use rowmill_base::{Error, ErrorKind, Result, SqlType, nearest};
use rowmill_plan::Constant;
use rowmill_storage::{Block, ROW_NUMBERS, ROW_NUMBERS_NAME, TableSource, chunk::Chunk};
use rowmill_txn::TableSnapshot;
use rowmill_txn::roles::{ObjectId, Rights};

use crate::catalog::StatementContext;

const NAME: &str = "rowmill_storage";

/// Returns the rows of `rowmill_storage('table')`, or `None` if `name` is another function.
pub(crate) fn rows(context: &Arc<StatementContext>, name: &str, arguments: &[Constant]) -> Result<Option<RecordBatch>> {
    if name != NAME {
        return Ok(None);
    }
    describe(&*named_table(context, NAME, arguments)?).map(Some)
}

/// Returns the table whose name is the only argument of the function `function`.
pub(crate) fn named_table(
    context: &StatementContext,
    function: &str,
    arguments: &[Constant],
) -> Result<Arc<TableSnapshot>> {
    let takes_a_table = || {
        Error::new(ErrorKind::UndefinedFunction, format!("{function} takes the name of a table"))
            .hint(format!("SELECT * FROM {function}('table')"))
    };
    let [table] = arguments else { return Err(takes_a_table()) };
    find_table(context, table.as_text().ok_or_else(takes_a_table)?)
}

/// Returns the table with the name `name` or `schema.name`.
fn find_table(context: &StatementContext, name: &str) -> Result<Arc<TableSnapshot>> {
    let (schema, table) = context.relation_named(name);
    let (schema, table) = (schema.as_str(), table.as_str());
    let catalog = context.snapshot.catalog();
    let schema = catalog
        .schema(schema)
        .ok_or_else(|| Error::new(ErrorKind::UndefinedSchema, format!("there is no schema \"{schema}\"")))?;
    let Some(def) = catalog.table(schema.id, table) else {
        let error = Error::new(ErrorKind::UndefinedTable, format!("there is no table \"{table}\""));
        let near = nearest(table, catalog.tables(schema.id).map(|table| table.name.as_str()));
        return Err(if near.is_empty() { error } else { error.hint(format!("did you mean {}?", near.join(", "))) });
    };
    // It shows the number of values of each column, and the order of the rows.
    context.access().require(Rights::SELECT, ObjectId::Table(def.id), None)?;
    Ok(context.snapshot.table(def.id).expect("a snapshot holds every table of its catalog"))
}

/// The stored size and encodings of one column.
#[derive(Default)]
struct ColumnStorage {
    name: String,
    kind: String,
    encodings: Vec<&'static str>,
    rows: u64,
    nulls: u64,
    /// The maximum of the distinct values of one block, over the blocks that count them.
    distinct: Option<u64>,
    bytes: u64,
}

impl ColumnStorage {
    fn of_column(source: &dyn TableSource, index: usize) -> Result<Self> {
        let column = &source.table().columns[index];
        let mut storage = ColumnStorage::named(&column.name, &column.kind);
        for block in source.blocks() {
            storage.add(block, block.chunk_bytes(column.id), block.chunk_head(source.table(), index)?);
        }
        for run in source.runs() {
            storage.rows += run.rows() as u64;
            storage.nulls += run.column(column.id).map_or(run.rows(), |values| values.null_count()) as u64;
        }
        // Rows in open runs are not encoded yet.
        if !source.runs().is_empty() {
            storage.encodings.push("open");
        }
        Ok(storage)
    }

    /// Sums up the row numbers. Only blocks whose rows have no consecutive numbers store them.
    fn of_row_numbers(source: &dyn TableSource) -> Result<Option<Self>> {
        let mut storage = ColumnStorage::named(ROW_NUMBERS_NAME, &SqlType::UInt64);
        for block in source.blocks() {
            if let Some(head) = block.row_numbers_head(source.table())? {
                storage.add(block, block.chunk_bytes(ROW_NUMBERS), Some(head));
            }
        }
        Ok(Some(storage).filter(|storage| storage.rows > 0))
    }

    fn named(name: &str, kind: &SqlType) -> Self {
        ColumnStorage { name: name.to_string(), kind: kind.to_string(), ..ColumnStorage::default() }
    }

    fn add(&mut self, block: &Block, bytes: u64, head: Option<Chunk>) {
        self.rows += block.rows() as u64;
        self.bytes += bytes;
        let Some(head) = head else { return };
        self.nulls += head.null_count() as u64;
        self.distinct = self.distinct.max(head.distinct().map(|distinct| distinct as u64));
        if !self.encodings.contains(&head.encoding_name()) {
            self.encodings.push(head.encoding_name());
        }
    }
}

fn describe(source: &dyn TableSource) -> Result<RecordBatch> {
    let columns = (0..source.table().columns.len()).map(|index| ColumnStorage::of_column(source, index));
    let mut columns = columns.collect::<Result<Vec<_>>>()?;
    columns.extend(ColumnStorage::of_row_numbers(source)?);
    let text = |values: Vec<String>| Arc::new(StringArray::from(values)) as ArrayRef;
    let numbers = |values: Vec<Option<u64>>| Arc::new(UInt64Array::from(values)) as ArrayRef;
    let arrays = vec![
        ("column", text(columns.iter().map(|column| column.name.clone()).collect())),
        ("type", text(columns.iter().map(|column| column.kind.clone()).collect())),
        ("encodings", text(columns.iter().map(|column| column.encodings.join(", ")).collect())),
        ("rows", numbers(columns.iter().map(|column| Some(column.rows)).collect())),
        ("nulls", numbers(columns.iter().map(|column| Some(column.nulls)).collect())),
        ("distinct_in_block_max", numbers(columns.iter().map(|column| column.distinct).collect())),
        ("bytes", numbers(columns.iter().map(|column| Some(column.bytes)).collect())),
    ];
    let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(arrays.iter().map(field).collect::<Vec<_>>()));
    RecordBatch::try_new(schema, arrays.into_iter().map(|(_, array)| array).collect())
        .map_err(|error| Error::internal(error.to_string()))
}
