//! The rows of a table with their places and the ranks of their texts: the input of a sort that leaves texts in the
//! table.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use rowmill_base::{Error, Result};

use super::OWNER;
use super::text_ranks::{OpenChunks, RanksOfColumns, TextRanks};
use crate::batch::{BatchSource, Batches};
use crate::scan::TablePlace;
use crate::share::{batch_of, share};

/// Adds columns of ranks to rows of a table. The last column of the rows must have their places.
pub(super) struct RankedRows {
    input: Arc<dyn BatchSource>,
    ranks: TextRanks,
    schema: SchemaRef,
}

impl fmt::Debug for RankedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RankedRows").field("input", &self.input).finish_non_exhaustive()
    }
}

impl RankedRows {
    /// Makes the source. The result has the columns of `input`, and then the ranks of `columns` ranked columns.
    pub(super) fn new(input: Arc<dyn BatchSource>, ranks: TextRanks, columns: usize) -> Arc<RankedRows> {
        let fields = input.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let of_ranks = (0..columns).map(|number| Field::new(format!("\u{0}rank {number}"), DataType::UInt32, true));
        let schema = Arc::new(Schema::new(fields.chain(of_ranks).collect::<Vec<_>>()));
        Arc::new(RankedRows { input, ranks, schema })
    }

    fn ranked(&self, batch: &RecordBatch, ranks: &RanksOfColumns, chunks: &mut OpenChunks) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
        let places = columns.last().ok_or_else(|| Error::internal("rows to rank have no places"))?;
        let places = places.as_primitive::<UInt64Type>().values();
        let rows: Vec<u32> = places.iter().map(|place| TablePlace::of_bits(*place).row).collect();
        if let Some(first) = places.first() {
            let part = TablePlace::of_bits(*first).part;
            self.ranks.append(ranks, (part, &rows), chunks, &mut columns)?;
        }
        batch_of(OWNER, &self.schema, columns, rows.len())
    }
}

impl BatchSource for RankedRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.input.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let (mut input, mut ranks, mut chunks) = (None, None, OpenChunks::default());
        share(move || {
            loop {
                let known: &Arc<RanksOfColumns> = match &ranks {
                    Some(ranks) => ranks,
                    None => match self.ranks.make()? {
                        Some(made) => ranks.insert(made),
                        None => return Ok(None),
                    },
                };
                let input = input.get_or_insert_with(|| Arc::clone(&self.input).worker());
                match input.next().transpose()? {
                    // The input has nothing for workers that have not asked yet, so no worker needs the ranks again.
                    None => {
                        self.ranks.free();
                        return Ok(None);
                    }
                    Some(batch) if batch.num_rows() == 0 => {}
                    Some(batch) => return self.ranked(&batch, known, &mut chunks).map(Some),
                }
            }
        })
    }
}
