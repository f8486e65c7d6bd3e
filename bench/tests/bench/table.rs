//! Reads a whole Parquet file, for tests.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Int64Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

pub(crate) struct Table {
    batch: RecordBatch,
}

impl Table {
    pub(crate) fn read(path: &Path) -> Table {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
        let schema = reader.schema().clone();
        let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
        Table { batch: concat_batches(&schema, &batches).unwrap() }
    }

    pub(crate) fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    pub(crate) fn column(&self, name: &str) -> &ArrayRef {
        self.batch.column_by_name(name).unwrap()
    }

    pub(crate) fn text(&self, name: &str) -> Vec<String> {
        let column = cast(self.column(name), &DataType::Utf8).unwrap();
        column.as_string::<i32>().iter().map(|value| value.unwrap().to_owned()).collect()
    }

    pub(crate) fn numbers(&self, name: &str) -> Vec<i64> {
        let column = self.column(name);
        let column = match column.data_type() {
            DataType::Date32 => cast(column, &DataType::Int32).unwrap(),
            _ => column.clone(),
        };
        let column = cast(&column, &DataType::Int64).unwrap();
        column.as_primitive::<Int64Type>().values().to_vec()
    }

    /// The number of distinct values of a column.
    pub(crate) fn distinct(&self, name: &str) -> usize {
        match self.column(name).data_type() {
            DataType::Utf8 | DataType::Utf8View => self.text(name).into_iter().collect::<HashSet<_>>().len(),
            _ => self.numbers(name).into_iter().collect::<HashSet<_>>().len(),
        }
    }

    pub(crate) fn nulls(&self) -> usize {
        self.batch.columns().iter().map(|column| column.null_count()).sum()
    }
}
