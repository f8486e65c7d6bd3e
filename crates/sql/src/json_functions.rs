//! `json_build_object(key, value, ...)` and `json_build_array(value, ...)`: JSON texts of values, as
//! `jsonb_build_object` and `jsonb_build_array` too.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_expr::text::TextColumn;
use rowmill_expr::text::writer::write_json_string;
use rowmill_plan::{DynamicFunction, Volatility};

/// Returns the function `name` with this number of arguments and the type of its values, or `None` if it is none of
/// these.
pub(crate) fn function(name: &str, arguments: usize) -> Option<(Arc<dyn DynamicFunction>, SqlType)> {
    let (name, is_object) = match name {
        "json_build_object" => ("json_build_object", true),
        "jsonb_build_object" => ("jsonb_build_object", true),
        "json_build_array" => ("json_build_array", false),
        "jsonb_build_array" => ("jsonb_build_array", false),
        _ => return None,
    };
    let takes = !is_object || arguments.is_multiple_of(2);
    takes.then(|| (Arc::new(JsonFunction { name, is_object }) as Arc<dyn DynamicFunction>, SqlType::TEXT))
}

#[derive(Debug)]
struct JsonFunction {
    name: &'static str,
    is_object: bool,
}

impl JsonFunction {
    fn refused(&self, error: &dyn std::fmt::Display) -> Error {
        Error::new(ErrorKind::InvalidParameter, format!("{}: {error}", self.name))
    }

    /// The argument at `place` as values, each as JSON.
    fn values(&self, argument: &ArrayRef) -> Result<JsonValues> {
        // Lists of one item each are written as JSON in brackets, whatever the type of the item.
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(1, argument.len()));
        let item = Arc::new(Field::new("item", argument.data_type().clone(), true));
        let lists = ListArray::try_new(item, offsets, Arc::clone(argument), None);
        lists.map(JsonValues).map_err(|error| self.refused(&error))
    }
}

/// Values as lists of one item each.
struct JsonValues(ListArray);

impl JsonValues {
    fn writer(&self) -> Result<TextColumn<'_>> {
        TextColumn::new(&self.0)
    }
}

fn push_value(writer: &TextColumn<'_>, row: usize, out: &mut String) {
    let mut list = String::new();
    writer.write(row, &mut list);
    out.push_str(list.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or("null"));
}

impl DynamicFunction for JsonFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn volatility(&self) -> Volatility {
        Volatility::Immutable
    }

    fn evaluate(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let (keys, values): (Vec<&ArrayRef>, Vec<&ArrayRef>) = match self.is_object {
            true => (arguments.iter().step_by(2).collect(), arguments.iter().skip(1).step_by(2).collect()),
            false => (Vec::new(), arguments.iter().collect()),
        };
        let keys = keys.into_iter().map(|key| cast(key, &DataType::Utf8View)).collect::<Result<Vec<_>, _>>();
        let keys = keys.map_err(|error| self.refused(&error))?;
        let values = values.into_iter().map(|value| self.values(value)).collect::<Result<Vec<_>>>()?;
        let writers = values.iter().map(JsonValues::writer).collect::<Result<Vec<_>>>()?;
        let mut texts = Vec::with_capacity(rows);
        for row in 0..rows {
            let mut text = String::from(if self.is_object { "{" } else { "[" });
            for (place, writer) in writers.iter().enumerate() {
                if place > 0 {
                    text.push_str(", ");
                }
                if let Some(key) = keys.get(place) {
                    if key.is_null(row) {
                        return Err(self.refused(&"a key must not be NULL"));
                    }
                    write_json_string(key.as_string_view().value(row), &mut text);
                    text.push_str(": ");
                }
                push_value(writer, row, &mut text);
            }
            text.push(if self.is_object { '}' } else { ']' });
            texts.push(text);
        }
        Ok(Arc::new(StringViewArray::from_iter_values(texts)))
    }
}
