//! JSON: one array of objects, or one object per line.

use std::io::Write;

use rowmill::Result;
use rowmill::arrow::array::RecordBatch;
use rowmill::arrow::datatypes::Schema;
use rowmill::text::{TextColumn, write_json_string};

use super::{Printer, names, put};

pub(super) struct JsonPrinter {
    keys: Vec<String>,
    array: bool,
    rows: u64,
}

impl JsonPrinter {
    pub(super) fn new(schema: &Schema, array: bool) -> Self {
        let key = |name: String| {
            let mut key = String::new();
            write_json_string(&name, &mut key);
            key.push(':');
            key
        };
        JsonPrinter { keys: names(schema).into_iter().map(key).collect(), array, rows: 0 }
    }
}

impl Printer for JsonPrinter {
    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> Result<()> {
        let columns = batch.schema_ref().fields().iter().zip(batch.columns());
        let columns = columns.map(|(field, values)| TextColumn::of_field(field, values)).collect::<Result<Vec<_>>>()?;
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            text.push_str(match (self.array, self.rows) {
                (true, 0) => "[\n",
                (true, _) => ",\n",
                (false, _) => "",
            });
            self.rows += 1;
            text.push('{');
            for (index, (key, column)) in self.keys.iter().zip(&columns).enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(key);
                column.write_json(row, &mut text);
            }
            text.push_str(if self.array { "}" } else { "}\n" });
        }
        put(out, &text)
    }

    fn finish(&mut self, out: &mut dyn Write) -> Result<()> {
        put(
            out,
            match (self.array, self.rows) {
                (true, 0) => "[]\n",
                (true, _) => "\n]\n",
                (false, _) => "",
            },
        )
    }
}
