//! Collects rows of a table into an Arrow batch, which Rowmill appends without conversion.

use std::sync::Arc;

use rowmill::arrow::array::{
    ArrayBuilder as _, ArrayRef, BooleanBuilder, Decimal128Builder, Float64Builder, Int32Builder, Int64Builder,
    RecordBatch, StringBuilder, TimestampMicrosecondBuilder,
};
use rowmill::arrow::datatypes::{Field, Schema};
use rowmill_base::{Error, Result};

use super::client::Param;
use super::table::{Kind, Table};

/// Rows that are not a batch yet.
pub struct BatchBuilder {
    names: Vec<&'static str>,
    columns: Vec<Column>,
}

impl BatchBuilder {
    /// Makes a builder for rows of `table`.
    pub fn new(table: &Table) -> BatchBuilder {
        let columns = table.columns.iter().map(|column| Column::of(column.kind)).collect();
        BatchBuilder { names: table.columns.iter().map(|column| column.name).collect(), columns }
    }

    /// Adds a row.
    pub fn push(&mut self, values: &[Param<'_>]) -> Result<()> {
        self.columns.iter_mut().zip(values).try_for_each(|(column, value)| column.push(value))
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, Column::len)
    }

    /// Whether the builder has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the collected rows as a batch.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let arrays: Vec<ArrayRef> = self.columns.iter_mut().map(Column::finish).collect::<Result<_>>()?;
        let field = |(name, array): (&&str, &ArrayRef)| Field::new(*name, array.data_type().clone(), true);
        let fields: Vec<Field> = self.names.iter().zip(&arrays).map(field).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|error| Error::internal(error.to_string()))
    }
}

/// The values of a column, with the type of the table's column.
enum Column {
    Integer(Int32Builder),
    Bigint(Int64Builder),
    Double(Float64Builder),
    /// Texts, and days, UUIDs and documents too, because the appender converts them.
    Text(StringBuilder),
    Boolean(BooleanBuilder),
    Decimal(Decimal128Builder, u8, u8),
    Moment(TimestampMicrosecondBuilder),
}

impl Column {
    fn of(kind: Kind) -> Column {
        match kind {
            Kind::Integer => Column::Integer(Int32Builder::new()),
            Kind::Bigint => Column::Bigint(Int64Builder::new()),
            Kind::Double => Column::Double(Float64Builder::new()),
            Kind::Text(_) | Kind::Date | Kind::Uuid | Kind::Json(_) => Column::Text(StringBuilder::new()),
            Kind::Boolean => Column::Boolean(BooleanBuilder::new()),
            Kind::Decimal(digits, scale) => Column::Decimal(Decimal128Builder::new(), digits, scale),
            Kind::Timestamp => Column::Moment(TimestampMicrosecondBuilder::new()),
        }
    }

    fn push(&mut self, value: &Param<'_>) -> Result<()> {
        match (self, value) {
            (Column::Integer(builder), Param::Integer(value)) => {
                let narrow = i32::try_from(*value);
                builder.append_value(narrow.map_err(|error| Error::internal(error.to_string()))?);
            }
            (Column::Integer(builder), Param::Null) => builder.append_null(),
            (Column::Bigint(builder), Param::Integer(value)) => builder.append_value(*value),
            (Column::Bigint(builder), Param::Null) => builder.append_null(),
            (Column::Double(builder), Param::Double(value)) => builder.append_value(*value),
            (Column::Double(builder), Param::Null) => builder.append_null(),
            (Column::Text(builder), Param::Text(text)) => builder.append_value(text),
            (Column::Text(builder), Param::Null) => builder.append_null(),
            (Column::Boolean(builder), Param::Integer(value)) => builder.append_value(*value != 0),
            (Column::Boolean(builder), Param::Null) => builder.append_null(),
            (Column::Decimal(builder, _, kept), Param::Decimal(value, scale)) if kept == scale => {
                builder.append_value(i128::from(*value));
            }
            (Column::Moment(builder), Param::Moment(micros)) => builder.append_value(*micros),
            (Column::Moment(builder), Param::Null) => builder.append_null(),
            (_, value) => return Err(Error::internal(format!("{value:?} does not fit the type of its column"))),
        }
        Ok(())
    }

    fn len(&self) -> usize {
        match self {
            Column::Integer(builder) => builder.len(),
            Column::Bigint(builder) => builder.len(),
            Column::Double(builder) => builder.len(),
            Column::Text(builder) => builder.len(),
            Column::Boolean(builder) => builder.len(),
            Column::Decimal(builder, ..) => builder.len(),
            Column::Moment(builder) => builder.len(),
        }
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        Ok(match self {
            Column::Integer(builder) => Arc::new(builder.finish()),
            Column::Bigint(builder) => Arc::new(builder.finish()),
            Column::Double(builder) => Arc::new(builder.finish()),
            Column::Text(builder) => Arc::new(builder.finish()),
            Column::Boolean(builder) => Arc::new(builder.finish()),
            Column::Decimal(builder, digits, scale) => {
                let typed = builder.finish().with_precision_and_scale(*digits, *scale as i8);
                Arc::new(typed.map_err(|error| Error::internal(error.to_string()))?)
            }
            Column::Moment(builder) => Arc::new(builder.finish()),
        })
    }
}

#[cfg(test)]
mod tests {
    use rowmill::arrow::datatypes::DataType;

    use super::super::client::money;
    use super::super::table::ORDER_LINE;
    use super::*;

    #[test]
    fn batches_have_the_types_of_the_table() {
        let mut builder = BatchBuilder::new(&ORDER_LINE);
        let row = |delivered| {
            let (one, text) = (Param::Integer(1), Param::Text("info"));
            [one, one, one, one, one, one, delivered, one, money(999_999), text]
        };
        builder.push(&row(Param::Null)).unwrap();
        builder.push(&row(Param::Moment(7))).unwrap();
        let batch = builder.finish().unwrap();
        assert_eq!((batch.num_rows(), batch.column(6).null_count()), (2, 1));
        assert_eq!(*batch.column(8).data_type(), DataType::Decimal128(6, 2));
        assert_eq!(batch.schema_ref().field(9).name(), "ol_dist_info");
        assert!(builder.is_empty() && builder.push(&[Param::Text("one")]).is_err());
    }
}
