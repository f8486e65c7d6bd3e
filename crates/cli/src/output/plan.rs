//! Plans for a terminal: the lines of EXPLAIN as they are. A cut line would hide what a plan is read for.

use std::io::Write;

use rowmill::Result;
use rowmill::arrow::array::RecordBatch;
use rowmill::arrow::datatypes::{DataType, Schema};
use rowmill::text::TextColumn;

use super::{Printer, put};

pub(super) struct PlanPrinter;

/// Whether a result with this schema is a plan. Columns of tables have texts of another Arrow type.
pub(super) fn is_plan(schema: &Schema) -> bool {
    let [field] = &schema.fields()[..] else { return false };
    field.name() == "plan" && *field.data_type() == DataType::Utf8 && !field.is_nullable()
}

impl Printer for PlanPrinter {
    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> Result<()> {
        let lines = TextColumn::new(batch.column(0))?;
        for row in 0..batch.num_rows() {
            let mut line = String::new();
            lines.write(row, &mut line);
            line.push('\n');
            put(out, &line)?;
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut dyn Write) -> Result<()> {
        Ok(())
    }
}
