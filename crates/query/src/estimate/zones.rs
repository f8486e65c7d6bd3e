//! What zone maps and value lists of a columnar table say about a column.

use arrow::array::{ArrayRef, AsArray, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Float64Type};
use rowmill_storage::chunk::Zone;
use rowmill_storage::{Block, OpenRun, TableSource};

/// Rows of an open run that are looked at.
const SAMPLE_ROWS: usize = 1 << 10;

/// The statistics of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ZoneStatistics {
    /// The least and the greatest value as numbers, of types that are numbers.
    pub(super) bounds: Option<(f64, f64)>,
    /// Rows that are NULL.
    pub(super) nulls: Option<f64>,
    /// Distinct values.
    pub(super) distinct: Option<f64>,
}

/// The statistics of a column, gathered block by block.
struct Gathered {
    bounds: Option<(f64, f64)>,
    bounds_known: bool,
    nulls: usize,
    distinct_sum: usize,
    distinct_max: usize,
    distinct_known: bool,
    /// Whether some block repeats hardly any value, so that other blocks probably hold others.
    near_unique: bool,
}

/// The statistics of the column at `column`.
pub(super) fn column_statistics(source: &dyn TableSource, column: usize) -> ZoneStatistics {
    if source.keyed().is_some() {
        return ZoneStatistics::default();
    }
    let mut gathered = Gathered {
        bounds: None,
        bounds_known: true,
        nulls: 0,
        distinct_sum: 0,
        distinct_max: 0,
        distinct_known: true,
        near_unique: false,
    };
    for block in source.blocks() {
        if gathered.add(source, block, column).is_none() {
            return ZoneStatistics::default();
        }
    }
    for run in source.runs() {
        if gathered.add_run(source, run, column).is_none() {
            return ZoneStatistics::default();
        }
    }
    gathered.finish(source.row_count() as usize)
}

/// A value as a number, if its type is one that is ordered as numbers are.
pub(super) fn number(value: &ArrayRef) -> Option<f64> {
    let of_integer = |kind: &DataType| cast(value, kind).ok();
    let integers = match value.data_type() {
        kind if kind.is_numeric() => Some(std::sync::Arc::clone(value)),
        DataType::Date32 => of_integer(&DataType::Int32),
        DataType::Time64(_) | DataType::Timestamp(..) => of_integer(&DataType::Int64),
        _ => None,
    }?;
    let floats = cast(&integers, &DataType::Float64).ok()?;
    let floats = floats.as_primitive::<Float64Type>();
    floats.iter().next().flatten()
}

/// Estimates the number of distinct values in `rows` rows from a sample: it counts the values that the sample has
/// several times, and multiplies the number of the others by the root of the inverse share (Charikar et al., "Towards
/// Estimation Error Guarantees for Distinct Values", 2000).
fn distinct_of_sample(sample: &ArrayRef, rows: usize) -> Option<usize> {
    let converter = arrow::row::RowConverter::new(vec![arrow::row::SortField::new(sample.data_type().clone())]).ok()?;
    let sorted = converter.convert_columns(std::slice::from_ref(sample)).ok()?;
    let mut values: Vec<&[u8]> = (0..sorted.num_rows()).map(|row| sorted.row(row).data()).collect();
    values.sort_unstable();
    let (distinct, single) = values
        .chunk_by(|one, other| one == other)
        .fold((0, 0), |(distinct, single), same| (distinct + 1, single + usize::from(same.len() == 1)));
    // Where hardly any value is repeated, it is unlikely that the rest repeats them.
    if single * 10 >= sample.len() * 9 {
        return Some(rows * distinct / sample.len().max(1));
    }
    let more = (rows as f64 / sample.len().max(1) as f64).sqrt();
    Some((distinct - single + (single as f64 * more) as usize).min(rows))
}

impl Gathered {
    /// Adds a block; `None` if it cannot be read, which the scan will report better.
    fn add(&mut self, source: &dyn TableSource, block: &Block, column: usize) -> Option<()> {
        let Some(chunk) = block.chunk_head(source.table(), column).ok()? else {
            self.add_missing(source, block, column);
            return Some(());
        };
        self.nulls += chunk.null_count();
        if chunk.null_count() < chunk.rows() {
            match chunk.zone() {
                Some(Zone { min, max: Some(max) }) => self.widen(number(&min.value), number(&max.value)),
                _ => self.bounds_known = false,
            }
        }
        match chunk.distinct() {
            Some(distinct) => {
                self.distinct_sum += distinct;
                self.distinct_max = self.distinct_max.max(distinct);
                self.near_unique |= distinct * 10 >= chunk.rows() * 9;
            }
            None => self.distinct_known = false,
        }
        Some(())
    }

    /// Adds rows that are in no block. We look at some of them. They say nothing about bounds.
    fn add_run(&mut self, source: &dyn TableSource, run: &OpenRun, column: usize) -> Option<()> {
        let rows = run.rows();
        let sample = UInt32Array::from_iter_values((0..rows as u32).step_by(rows.div_ceil(SAMPLE_ROWS).max(1)));
        let values = take(&run.values(source.table(), column).ok()?, &sample, None).ok()?;
        let distinct = distinct_of_sample(&values, rows)?;
        self.distinct_sum += distinct;
        self.distinct_max = self.distinct_max.max(distinct);
        self.near_unique |= rows > 1 && distinct * 10 >= rows * 9;
        Some(())
    }

    /// Adds a block that is older than the column.
    fn add_missing(&mut self, source: &dyn TableSource, block: &Block, column: usize) {
        match &source.table().columns[column].missing {
            Some(value) if value.null_count() == 0 => {
                self.distinct_max = self.distinct_max.max(1);
                self.widen(number(value), number(value));
            }
            _ => self.nulls += block.rows(),
        }
    }

    fn widen(&mut self, min: Option<f64>, max: Option<f64>) {
        let (Some(min), Some(max)) = (min, max) else {
            self.bounds_known = false;
            return;
        };
        self.bounds = Some(self.bounds.map_or((min, max), |(least, greatest)| (least.min(min), greatest.max(max))));
    }

    fn finish(self, rows: usize) -> ZoneStatistics {
        let distinct = if self.near_unique { self.distinct_sum } else { self.distinct_max }.min(rows);
        ZoneStatistics {
            bounds: self.bounds.filter(|_| self.bounds_known),
            nulls: Some(self.nulls.min(rows) as f64),
            distinct: (self.distinct_known && distinct > 0).then_some(distinct as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;

    use super::*;

    #[test]
    fn distinct_values_are_guessed_from_a_sample() {
        let guess =
            |values: Vec<i64>, rows| distinct_of_sample(&(Arc::new(Int64Array::from(values)) as ArrayRef), rows);
        assert_eq!(guess((0..25).collect(), 25), Some(25), "all of them");
        assert_eq!(guess((0..1000).collect(), 10_000), Some(10_000), "a key");
        assert_eq!(guess((0..1000).map(|row| row % 25).collect(), 10_000), Some(25), "few values");
        let some = guess((0..1000).map(|row| if row < 500 { row } else { row % 10 + 9_000 }).collect(), 4_000);
        assert_eq!(some, Some(10 + 1_000), "some only once");
        assert_eq!(guess(Vec::new(), 0), Some(0));
    }
}
