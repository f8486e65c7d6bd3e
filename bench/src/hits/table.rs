//! The definition of the table. We read it from the only place that has it: `hits/create.sql`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// The statement that creates the table.
pub const CREATE: &str = include_str!("../../hits/create.sql");

/// Returns the Arrow schema of the statement's columns, with names in their original spelling.
pub fn schema() -> SchemaRef {
    let open = CREATE.find('(').expect("create.sql opens its list of columns");
    let close = CREATE.rfind(')').expect("create.sql closes its list of columns");
    let fields = CREATE[open + 1..close].lines().map(str::trim).filter(|line| !line.is_empty()).map(field);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Parses a line of the form `Name TYPE [NOT NULL][,]`.
fn field(line: &str) -> Field {
    let line = line.trim_end_matches(',');
    let (definition, nullable) = match line.strip_suffix("NOT NULL") {
        Some(definition) => (definition, false),
        None => (line, true),
    };
    let (name, kind) = definition.trim().split_once(' ').expect("a column has a name and a type");
    let kind = match kind.split('(').next().unwrap_or(kind).to_ascii_uppercase().as_str() {
        "SMALLINT" => DataType::Int16,
        "INTEGER" => DataType::Int32,
        "BIGINT" => DataType::Int64,
        "DATE" => DataType::Date32,
        "TIMESTAMP" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "TEXT" | "VARCHAR" | "CHAR" => DataType::Utf8,
        other => panic!("create.sql has a type without an Arrow twin: {other}"),
    };
    Field::new(name, kind, nullable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_all_columns() {
        let schema = schema();
        assert_eq!(schema.fields().len(), 105);
        assert_eq!(schema.field(2), &Field::new("Title", DataType::Utf8, true));
        assert_eq!(schema.field(29), &Field::new("UserAgentMinor", DataType::Utf8, false));
        assert_eq!(schema.field(104).name(), "CLID");
    }
}
