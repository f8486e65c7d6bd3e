//! Objects of the catalog as one nested row of Arrow.
//!
//! ADBC fixes the schema: a list of schemas, each with a list of tables, and so on. The arrays are made from the
//! innermost list outwards: all columns of all tables are one array, which the list of each table divides. Fields that
//! this database has no value for are NULL.

use std::collections::HashMap;
use std::sync::Arc;

use adbc_core::schemas::{
    COLUMN_SCHEMA, CONSTRAINT_SCHEMA, GET_OBJECTS_SCHEMA, OBJECTS_DB_SCHEMA_SCHEMA, TABLE_SCHEMA, USAGE_SCHEMA,
};
use arrow_array::{ArrayRef, Int32Array, ListArray, RecordBatch, StringArray, StructArray, new_null_array};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field};

use crate::adbc::errors::AdbcResult;
use crate::adbc::objects::{CatalogEntry, ColumnEntry, ConstraintEntry, ReferredColumn, SchemaEntry, TableEntry};

type Columns<'c> = HashMap<&'c str, ArrayRef>;

/// Makes the batch of the catalogs.
pub(super) fn batch_of(catalogs: &[CatalogEntry]) -> AdbcResult<RecordBatch> {
    let schemas: Vec<&SchemaEntry> = catalogs.iter().filter_map(|catalog| catalog.schemas.as_ref()).flatten().collect();
    let lengths = catalogs.iter().map(|catalog| catalog.schemas.as_ref().map(Vec::len));
    let columns: Vec<ArrayRef> =
        vec![texts(catalogs.iter().map(|catalog| catalog.name.as_str())), list(lengths, schemas_array(&schemas)?)?];
    Ok(RecordBatch::try_new(GET_OBJECTS_SCHEMA.clone(), columns)?)
}

fn schemas_array(schemas: &[&SchemaEntry]) -> AdbcResult<ArrayRef> {
    let tables: Vec<&TableEntry> = schemas.iter().filter_map(|schema| schema.tables.as_ref()).flatten().collect();
    let lengths = schemas.iter().map(|schema| schema.tables.as_ref().map(Vec::len));
    let known = HashMap::from([
        ("db_schema_name", texts(schemas.iter().map(|schema| schema.name.as_str()))),
        ("db_schema_tables", list(lengths, tables_array(&tables)?)?),
    ]);
    structs(&OBJECTS_DB_SCHEMA_SCHEMA, known, schemas.len())
}

fn tables_array(tables: &[&TableEntry]) -> AdbcResult<ArrayRef> {
    let columns: Vec<&ColumnEntry> = tables.iter().filter_map(|table| table.columns.as_ref()).flatten().collect();
    let constraints: Vec<&ConstraintEntry> = tables.iter().flat_map(|table| &table.constraints).collect();
    let column_lengths = tables.iter().map(|table| table.columns.as_ref().map(Vec::len));
    let constraint_lengths = tables.iter().map(|table| table.columns.as_ref().map(|_| table.constraints.len()));
    let known = HashMap::from([
        ("table_name", texts(tables.iter().map(|table| table.name.as_str()))),
        ("table_type", texts(tables.iter().map(|table| table.kind.as_str()))),
        ("table_columns", list(column_lengths, columns_array(&columns)?)?),
        ("table_constraints", list(constraint_lengths, constraints_array(&constraints)?)?),
    ]);
    structs(&TABLE_SCHEMA, known, tables.len())
}

fn columns_array(columns: &[&ColumnEntry]) -> AdbcResult<ArrayRef> {
    let places: Int32Array = columns.iter().map(|column| Some(column.place)).collect();
    let defaults: StringArray = columns.iter().map(|column| column.default.as_deref()).collect();
    let known = HashMap::from([
        ("column_name", texts(columns.iter().map(|column| column.name.as_str()))),
        ("ordinal_position", Arc::new(places) as ArrayRef),
        ("xdbc_type_name", texts(columns.iter().map(|column| column.kind.as_str()))),
        ("xdbc_is_nullable", texts(columns.iter().map(|column| column.is_nullable.as_str()))),
        ("xdbc_column_def", Arc::new(defaults) as ArrayRef),
    ]);
    structs(&COLUMN_SCHEMA, known, columns.len())
}

fn constraints_array(constraints: &[&ConstraintEntry]) -> AdbcResult<ArrayRef> {
    let names = texts(constraints.iter().flat_map(|constraint| &constraint.columns).map(String::as_str));
    let referred: Vec<&ReferredColumn> = constraints.iter().flat_map(|constraint| &constraint.referred).collect();
    let name_lengths = constraints.iter().map(|constraint| Some(constraint.columns.len()));
    let referred_lengths = constraints.iter().map(|constraint| {
        let referred = constraint.referred.len();
        (referred > 0).then_some(referred)
    });
    let known = HashMap::from([
        ("constraint_name", texts(constraints.iter().map(|constraint| constraint.name.as_str()))),
        ("constraint_type", texts(constraints.iter().map(|constraint| constraint.kind.as_str()))),
        ("constraint_column_names", list(name_lengths, names)?),
        ("constraint_column_usage", list(referred_lengths, referred_array(&referred)?)?),
    ]);
    structs(&CONSTRAINT_SCHEMA, known, constraints.len())
}

fn referred_array(referred: &[&ReferredColumn]) -> AdbcResult<ArrayRef> {
    let known = HashMap::from([
        ("fk_db_schema", texts(referred.iter().map(|column| column.schema.as_str()))),
        ("fk_table", texts(referred.iter().map(|column| column.table.as_str()))),
        ("fk_column_name", texts(referred.iter().map(|column| column.column.as_str()))),
    ]);
    structs(&USAGE_SCHEMA, known, referred.len())
}

fn texts<'t>(values: impl Iterator<Item = &'t str>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<StringArray>())
}

/// Divides an array into lists of these lengths. A list without a length is NULL.
fn list(lengths: impl Iterator<Item = Option<usize>>, items: ArrayRef) -> AdbcResult<ArrayRef> {
    let lengths: Vec<Option<usize>> = lengths.collect();
    let nulls = NullBuffer::from_iter(lengths.iter().map(Option::is_some));
    let offsets = OffsetBuffer::from_lengths(lengths.iter().map(|length| length.unwrap_or(0)));
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    Ok(Arc::new(ListArray::try_new(field, offsets, items, Some(nulls))?))
}

/// Makes structs of a type. Fields without values are NULL.
fn structs(kind: &DataType, mut known: Columns<'_>, rows: usize) -> AdbcResult<ArrayRef> {
    let DataType::Struct(fields) = kind else {
        return Err(ArrowError::SchemaError(format!("{kind} is no struct")).into());
    };
    let columns = fields
        .iter()
        .map(|field| known.remove(field.name().as_str()).unwrap_or_else(|| new_null_array(field.data_type(), rows)));
    Ok(Arc::new(StructArray::try_new(fields.clone(), columns.collect(), None)?))
}
