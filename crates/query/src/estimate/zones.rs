//! Column statistics of a columnar table, from zone maps and value lists.

use arrow::array::{ArrayRef, AsArray, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Float64Type};
use rowmill_base::SqlType;
use rowmill_storage::chunk::Zone;
use rowmill_storage::{Block, OpenRun, TableSource};

/// Rows of an open run that we sample.
const SAMPLE_ROWS: usize = 1 << 10;

/// The room between the bounds of a chunk, per row, up to which many values are numbers in a row. If as many values
/// were drawn at random from this room, a third of the rows would repeat a value, and the chunk would have listed its
/// values.
const NUMBERED_ROOM_MAX: f64 = 1.25;

/// The statistics of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ZoneStatistics {
    /// The least and the greatest value as numbers, if the type is ordered like numbers.
    pub(super) bounds: Option<(f64, f64)>,
    /// Number of NULLs.
    pub(super) nulls: Option<f64>,
    /// Number of distinct values.
    pub(super) distinct: Option<f64>,
    /// The sum of the numbers of distinct values of all blocks and runs.
    pub(super) distinct_by_block: Option<f64>,
}

/// The statistics of a column while they are gathered, block by block.
struct ZoneSums {
    bounds: Option<(f64, f64)>,
    bounds_known: bool,
    nulls: usize,
    distinct_sum: usize,
    distinct_known: bool,
    /// The number of values in each part of the table, with their bounds.
    parts: Vec<ZoneValues>,
    /// Whether values are whole numbers, so there are at most `greatest - least + 1` of them.
    is_whole: bool,
    /// Whether a block has hardly any duplicates, so other blocks should hold other values.
    near_unique: bool,
}

/// The values of a part of a table.
#[derive(Clone, Copy, Debug)]
struct ZoneValues {
    bounds: Option<(f64, f64)>,
    /// The estimated number of distinct values from which the rows of the part are a sample.
    distinct: f64,
}

/// Estimates from how many distinct values `rows` rows were drawn, if they have `distinct` different ones. We assume
/// that all values are equally frequent: of `d` values, `rows` rows are expected to have `d (1 - e^(-rows / d))`. We
/// solve this for `d` by bisection.
fn drawn_from(distinct: f64, rows: f64) -> f64 {
    if distinct * 50.0 < rows {
        return distinct;
    }
    let seen = |from: f64| from * -(-rows / from).exp_m1();
    let (mut least, mut most) = (distinct, distinct * 100.0);
    for _ in 0..40 {
        let middle = (least * most).sqrt();
        if seen(middle) < distinct { least = middle } else { most = middle }
    }
    most
}

/// The number of distinct values of all parts together. Where the bounds of parts overlap, we assume that the parts
/// share their values, and count those of the part that has the most. Without bounds we assume that all parts share
/// their values.
fn distinct_of_parts(parts: &[ZoneValues]) -> f64 {
    let most = parts.iter().map(|part| part.distinct).fold(0.0, f64::max);
    let bounds: Option<Vec<(f64, f64)>> = parts.iter().map(|part| part.bounds).collect();
    let Some(bounds) = bounds else { return most };
    let mut ends: Vec<f64> = bounds.iter().flat_map(|(least, greatest)| [*least, *greatest + 1.0]).collect();
    ends.sort_by(f64::total_cmp);
    ends.dedup();
    // The same parts overlap everywhere between two neighbouring ends. With many parts this would take too long, and
    // the largest part is then a good estimate.
    if ends.len() > 2_000 {
        return most;
    }
    let density = |at: f64| {
        let here = parts.iter().zip(&bounds).filter(|(_, (least, greatest))| *least <= at && at <= *greatest);
        here.map(|(part, (least, greatest))| part.distinct / (greatest - least + 1.0)).fold(0.0, f64::max)
    };
    let sum: f64 = ends.windows(2).map(|ends| (ends[1] - ends[0]) * density(ends[0])).sum();
    sum.max(most)
}

/// The statistics of the column at position `column`.
pub(super) fn column_statistics(source: &dyn TableSource, column: usize) -> ZoneStatistics {
    // Keyed tables have no zone maps.
    if source.keyed().is_some() {
        return ZoneStatistics::default();
    }
    let mut gathered = ZoneSums {
        bounds: None,
        bounds_known: true,
        nulls: 0,
        distinct_sum: 0,
        distinct_known: true,
        parts: Vec::new(),
        is_whole: is_whole(&source.table().columns[column].kind),
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

/// Whether the values of a type are whole numbers in the representation of [`number`].
fn is_whole(kind: &SqlType) -> bool {
    let kind = kind.arrow();
    kind.is_integer() || kind == DataType::Date32
}

/// A value as a number, if its type is ordered like numbers.
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

/// Estimates the number of distinct values in `rows` rows from a sample. Values that the sample has several times count
/// once. The number of the other values is multiplied by the square root of the inverse share of the sample (Charikar
/// et al., "Towards Estimation Error Guarantees for Distinct Values", 2000).
fn distinct_of_sample(sample: &ArrayRef, rows: usize) -> Option<usize> {
    let converter = arrow::row::RowConverter::new(vec![arrow::row::SortField::new(sample.data_type().clone())]).ok()?;
    let sorted = converter.convert_columns(std::slice::from_ref(sample)).ok()?;
    let mut values: Vec<&[u8]> = (0..sorted.num_rows()).map(|row| sorted.row(row).data()).collect();
    values.sort_unstable();
    let (distinct, single) = values
        .chunk_by(|one, other| one == other)
        .fold((0, 0), |(distinct, single), same| (distinct + 1, single + usize::from(same.len() == 1)));
    // If the sample has hardly any duplicates, the other rows should have few as well.
    if single * 10 >= sample.len() * 9 {
        return Some(rows * distinct / sample.len().max(1));
    }
    let more = (rows as f64 / sample.len().max(1) as f64).sqrt();
    Some((distinct - single + (single as f64 * more) as usize).min(rows))
}

impl ZoneSums {
    /// Adds a block. Returns `None` if the block cannot be read; the scan will report that error.
    fn add(&mut self, source: &dyn TableSource, block: &Block, column: usize) -> Option<()> {
        let Some(chunk) = block.chunk_head(source.table(), column).ok()? else {
            self.add_missing(source, block, column);
            return Some(());
        };
        self.nulls += chunk.null_count();
        let mut bounds = None;
        if chunk.null_count() < chunk.rows() {
            match chunk.zone() {
                Some(Zone { min, max: Some(max) }) => {
                    let (min, max) = (number(&min.value), number(&max.value));
                    bounds = min.zip(max);
                    self.widen(min, max);
                }
                _ => self.bounds_known = false,
            }
        }
        match chunk.distinct() {
            Some(distinct) => {
                let rows = chunk.rows() - chunk.null_count();
                self.distinct_sum += distinct;
                self.parts.push(ZoneValues { bounds, distinct: drawn_from(distinct as f64, rows as f64) });
                self.near_unique |= distinct * 10 >= chunk.rows() * 9;
            }
            // A chunk with many values does not count them. Their number is at most the room between its bounds. If the
            // room is hardly larger than the chunk, the values are numbers that were given one after the other.
            None => match bounds.filter(|_| self.is_whole).map(|(least, greatest)| greatest - least + 1.0) {
                Some(room) if room < NUMBERED_ROOM_MAX * chunk.rows() as f64 => {
                    let rows = (chunk.rows() - chunk.null_count()) as f64;
                    self.near_unique |= room >= chunk.rows() as f64;
                    self.distinct_sum += room.min(rows) as usize;
                    self.parts.push(ZoneValues { bounds, distinct: room.min(rows) });
                }
                _ => self.distinct_known = false,
            },
        }
        Some(())
    }

    /// Adds rows that no block holds, from a sample. They give no bounds.
    fn add_run(&mut self, source: &dyn TableSource, run: &OpenRun, column: usize) -> Option<()> {
        let rows = run.rows();
        let sample = UInt32Array::from_iter_values((0..rows as u32).step_by(rows.div_ceil(SAMPLE_ROWS).max(1)));
        let values = take(&run.values(source.table(), column).ok()?, &sample, None).ok()?;
        let distinct = distinct_of_sample(&values, rows)?;
        self.distinct_sum += distinct;
        self.parts.push(ZoneValues { bounds: None, distinct: distinct as f64 });
        self.near_unique |= rows > 1 && distinct * 10 >= rows * 9;
        Some(())
    }

    /// Adds a block that is older than the column, so all its rows have the column's default.
    fn add_missing(&mut self, source: &dyn TableSource, block: &Block, column: usize) {
        match &source.table().columns[column].missing {
            Some(value) if value.null_count() == 0 => {
                let value = number(value);
                self.parts.push(ZoneValues { bounds: value.zip(value), distinct: 1.0 });
                self.widen(value, value);
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
        // Blocks of a nearly unique column should have different values, so the sum is better than the overlap.
        let distinct = if self.near_unique { self.distinct_sum as f64 } else { distinct_of_parts(&self.parts) };
        let bounds = self.bounds.filter(|_| self.bounds_known);
        let room = bounds.filter(|_| self.is_whole).map_or(f64::INFINITY, |(least, greatest)| greatest - least + 1.0);
        let distinct = distinct.min(rows as f64).min(room);
        ZoneStatistics {
            bounds,
            nulls: Some(self.nulls.min(rows) as f64),
            distinct: (self.distinct_known && distinct >= 1.0).then_some(distinct),
            distinct_by_block: self.distinct_known.then_some(self.distinct_sum as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;

    use super::*;

    #[test]
    fn parts_of_a_table_share_values_if_their_bounds_overlap() {
        let part = |least: f64, greatest: f64, distinct: f64| ZoneValues { bounds: Some((least, greatest)), distinct };
        let sorted: Vec<ZoneValues> =
            (0..10).map(|at| part(at as f64 * 100.0, at as f64 * 100.0 + 99.0, 25.0)).collect();
        assert!((distinct_of_parts(&sorted) - 250.0).abs() < 1.0);
        let mixed = vec![part(0.0, 999.0, 300.0); 10];
        assert!((distinct_of_parts(&mixed) - 300.0).abs() < 1.0);
        let unknown = vec![ZoneValues { bounds: None, distinct: 7.0 }; 10];
        assert!((distinct_of_parts(&unknown) - 7.0).abs() < 1e-9);
    }

    #[test]
    fn a_part_does_not_have_all_values_of_the_table() {
        // 1,000 rows that are drawn from 1,000 values have 632 different ones.
        assert!((drawn_from(632.0, 1_000.0) - 1_000.0).abs() < 5.0);
        assert!((drawn_from(10.0, 1_000.0) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn distinct_values_are_estimated_from_a_sample() {
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
