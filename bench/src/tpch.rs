//! The eight tables of TPC-H as Parquet files in a folder, bit for bit the same as from the reference generator.
//!
//! Decimals are DECIMAL(15,2), dates are dates, keys are 64-bit integers. The rows come from the `tpchgen` crate.

use std::path::Path;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use rowmill_base::{Error, Result};
use tpchgen::generators as rows;
use tpchgen_arrow as batches;

use crate::parquet_file::{self, Progress, RowGroups};

/// The approximate number of rows in a row group.
const ROWS_PER_GROUP: f64 = 1_000_000.0;
const BATCH_ROWS: usize = 8_192;

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// One of the tables.
struct Table {
    name: &'static str,
    /// The rows at scale 1. For `lineitem` it is the expected number.
    rows_at_one: f64,
    /// Whether the number of rows grows with the scale.
    scales: bool,
    schema: fn() -> SchemaRef,
    /// Makes the batches of part `.1` (counted from 1) of `.2` parts at scale `.0`.
    batches: fn(f64, i32, i32) -> Batches,
}

macro_rules! table {
    ($name:literal, $rows:expr, $scales:expr, $generator:ident, $batches:ident) => {
        Table {
            name: $name,
            rows_at_one: $rows,
            scales: $scales,
            schema: batches::$batches::schema_ref,
            batches: |scale, part, parts| {
                let rows = rows::$generator::new(scale, part, parts);
                Box::new(batches::$batches::new(rows).with_batch_size(BATCH_ROWS))
            },
        }
    };
}

static TABLES: [Table; 8] = [
    table!("region", 5.0, false, RegionGenerator, RegionArrow),
    table!("nation", 25.0, false, NationGenerator, NationArrow),
    table!("supplier", 10_000.0, true, SupplierGenerator, SupplierArrow),
    table!("part", 200_000.0, true, PartGenerator, PartArrow),
    table!("partsupp", 800_000.0, true, PartSuppGenerator, PartSuppArrow),
    table!("customer", 150_000.0, true, CustomerGenerator, CustomerArrow),
    table!("orders", 1_500_000.0, true, OrderGenerator, OrderArrow),
    table!("lineitem", 6_001_215.0, true, LineItemGenerator, LineItemArrow),
];

/// Writes the tables at scale `scale` as `DIR/name.parquet`.
pub fn write(scale: f64, directory: &Path, threads: usize, progress: Progress<'_>) -> Result<()> {
    std::fs::create_dir_all(directory).map_err(|error| Error::io(directory.display(), &error))?;
    for table in &TABLES {
        let path = directory.join(format!("{}.parquet", table.name));
        parquet_file::write(&Scaled { table, scale }, &path, threads, progress)?;
    }
    Ok(())
}

/// The approximate number of rows of all tables at `scale`.
pub fn rows(scale: f64) -> u64 {
    TABLES.iter().map(|table| Scaled { table, scale }.rows()).sum()
}

struct Scaled {
    table: &'static Table,
    scale: f64,
}

impl RowGroups for Scaled {
    fn schema(&self) -> SchemaRef {
        (self.table.schema)()
    }

    fn count(&self) -> usize {
        (self.rows() as f64 / ROWS_PER_GROUP).ceil().max(1.0) as usize
    }

    fn rows(&self) -> u64 {
        (self.table.rows_at_one * if self.table.scales { self.scale } else { 1.0 }) as u64
    }

    fn generate(&self, group: usize, sink: &mut dyn FnMut(Vec<ArrayRef>) -> Result<()>) -> Result<()> {
        for batch in (self.table.batches)(self.scale, group as i32 + 1, self.count() as i32) {
            let batch = batch.map_err(|error| Error::internal(format!("TPC-H {}: {error}", self.table.name)))?;
            sink(batch.columns().to_vec())?;
        }
        Ok(())
    }
}
