//! Estimates the share of a table's rows that have one value of a column. The value is known only if it is a literal.

use rowmill_base::SqlType;
use rowmill_plan::program::{Scalar, ScalarOp, ScalarValue};
use rowmill_storage::keyed::ValueRef;
use rowmill_storage::{ColumnDef, EQUAL_SHARE, TableDef, TableSource, TableStatistics};

/// With fewer rows than this any key will do: reading all of them takes half a millisecond at 50 ns for each row, and a
/// program saves more than a better key would.
const ROWS_MIN: u64 = 10_000;

/// The share of rows with one value of a column that we assume for a table without statistics, if the column is not
/// part of the primary key. We assume that few rows have the value, because an index on the column would not have been
/// created otherwise.
const UNSEEN_SHARE: f64 = 0.001;

/// The number of rows of a table and the spread of its values, on which costs are based.
#[derive(Clone, Debug)]
pub(super) struct ValueSpread<'t> {
    pub(super) rows: f64,
    /// For each column, the average share of rows that have one of its values.
    by_column: Vec<Option<f64>>,
    analyzed: Option<(&'t TableDef, &'t TableStatistics)>,
}

impl<'t> ValueSpread<'t> {
    pub(super) fn of(source: &'t dyn TableSource) -> ValueSpread<'t> {
        let Some(statistics) = source.statistics().filter(|statistics| statistics.rows >= ROWS_MIN) else {
            let rows = ROWS_MIN as f64;
            return ValueSpread { rows, by_column: unseen_by_column(source.table(), rows), analyzed: None };
        };
        let by_column = source.table().columns.iter().map(|column| {
            let known = statistics.column(column.id)?;
            Some((1.0 - known.null_share) / known.distinct.max(1) as f64)
        });
        let analyzed = Some((&**source.table(), statistics));
        ValueSpread { rows: statistics.rows as f64, by_column: by_column.collect(), analyzed }
    }

    /// Whether the table has statistics.
    pub(super) fn is_known(&self) -> bool {
        self.analyzed.is_some()
    }

    /// The average share of rows in which the column at this position has one particular value.
    pub(super) fn of_any_value(&self, column: usize) -> f64 {
        let unknown = if self.is_known() { EQUAL_SHARE } else { UNSEEN_SHARE };
        self.by_column.get(column).copied().flatten().unwrap_or(unknown)
    }

    /// The share of rows in which the column at this position equals `value`.
    pub(super) fn of_value(&self, column: usize, value: &Scalar) -> f64 {
        let known = self.analyzed.and_then(|(def, statistics)| {
            let def = &def.columns[column];
            if value.op == ScalarOp::Literal(ScalarValue::Null) {
                return Some(statistics.column(def.id)?.null_share);
            }
            statistics.share_equal(def, literal_of(value, &def.kind)?)
        });
        known.unwrap_or_else(|| self.of_any_value(column))
    }
}

/// The shares that we assume for a table without statistics: the columns of the primary key divide the rows evenly. So
/// a part of the key finds several rows, and an index that gives one more column a value finds fewer.
///
/// ```text
/// 10,000 rows, PRIMARY KEY (region, city, street), INDEX (region, city, mayor)
/// region = ?, city = ?               21 rows by the primary key
/// region = ?, city = ?, mayor = ?    1 row by the index
/// ```
fn unseen_by_column(table: &TableDef, rows: f64) -> Vec<Option<f64>> {
    let key = table.keyed.as_ref().map_or(&[][..], |keyed| &keyed.key);
    let share = rows.powf(-1.0 / key.len().max(1) as f64);
    let is_of_key = |column: &ColumnDef| key.iter().any(|part| part.column == column.id);
    table.columns.iter().map(|column| is_of_key(column).then_some(share)).collect()
}

/// The value of a literal, if it has the form in which a column of type `kind` keeps its values.
fn literal_of<'s>(value: &'s Scalar, kind: &SqlType) -> Option<ValueRef<'s>> {
    let ScalarOp::Literal(literal) = &value.op else { return None };
    let is_integer = kind.arrow().is_signed_integer();
    let is_text = matches!(kind, SqlType::Text { .. });
    match literal {
        ScalarValue::Int(number) if is_integer || value.kind == *kind => Some(ValueRef::Int(*number)),
        ScalarValue::Text(text) if is_text => Some(ValueRef::Text(text)),
        ScalarValue::Bool(truth) if value.kind == *kind => Some(ValueRef::Bool(*truth)),
        _ => None,
    }
}
