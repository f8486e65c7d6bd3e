//! The order of time: brings the rows of a time table's block into it.

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{
    DataType, Date32Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use rowmill_base::{Error, Result};

use crate::block_writer::BlockSource;

/// The times of a time column as numbers: days of a DATE, units of a TIMESTAMP.
pub fn times_of(values: &ArrayRef) -> Result<Vec<i64>> {
    Ok(match values.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => values.as_primitive::<TimestampSecondType>().values().to_vec(),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            values.as_primitive::<TimestampMillisecondType>().values().to_vec()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            values.as_primitive::<TimestampMicrosecondType>().values().to_vec()
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            values.as_primitive::<TimestampNanosecondType>().values().to_vec()
        }
        DataType::Date32 => values.as_primitive::<Date32Type>().values().iter().map(|day| i64::from(*day)).collect(),
        DataType::Dictionary(_, value) => {
            let plain = cast(values, value).map_err(|error| Error::internal(error.to_string()))?;
            return times_of(&plain);
        }
        other => return Err(Error::internal(format!("a time column has values of the type {other}"))),
    })
}

/// The positions of rows in the order of their times, those of equal times in their own order. `None` if the rows are
/// in that order already.
///
/// Most rows come in order, so only the late ones are sorted, and then merged into the others:
///
/// ```text
/// times             1 2 5 3 6 4 7
/// in order          1 2 5   6   7      each is at least as new as all before it
/// late                    3   4        sorted
/// ```
pub fn time_order(times: &[i64]) -> Option<Vec<u32>> {
    let first_late = times.windows(2).position(|pair| pair[1] < pair[0])? + 1;
    let mut order: Vec<u32> = Vec::with_capacity(times.len());
    order.extend(0..first_late as u32);
    // Pairs keep the comparisons in consecutive memory.
    let mut late: Vec<(i64, u32)> = Vec::new();
    let mut newest = times[first_late - 1];
    for (row, time) in (first_late as u32..).zip(&times[first_late..]) {
        if *time < newest {
            late.push((*time, row));
        } else {
            newest = *time;
            order.push(row);
        }
    }
    // The sort is stable and finds runs that are in order already.
    late.sort_by_key(|(time, _)| *time);
    merge_late(times, &mut order, &late);
    Some(order)
}

/// Merges the rows `late`, which are sorted, into `order`, the rows that are in order.
fn merge_late(times: &[i64], order: &mut Vec<u32>, late: &[(i64, u32)]) {
    // From the end, so that no row of `order` is overwritten before it is moved.
    let mut rest = order.len();
    let mut end = rest + late.len();
    order.resize(end, 0);
    for (time, row) in late.iter().rev() {
        while let Some(last) = rest.checked_sub(1).map(|last| order[last]) {
            if (times[last as usize], last) < (*time, *row) {
                break;
            }
            (rest, end) = (rest - 1, end - 1);
            order[end] = last;
        }
        end -= 1;
        order[end] = *row;
    }
}

/// A source whose rows are in the order of their times.
pub struct TimeOrdered<'a> {
    source: &'a dyn BlockSource,
    /// The position of the time column, and its values in the order of `source`.
    times: (usize, ArrayRef),
    /// The position in `source` of each row. `None` if the order is the same.
    order: Option<UInt32Array>,
}

impl<'a> TimeOrdered<'a> {
    /// Reads the column at `time_column`, which decides about the order.
    pub fn new(source: &'a dyn BlockSource, time_column: usize) -> Result<Self> {
        let values = source.column(time_column)?;
        let order = time_order(&times_of(&values)?).map(UInt32Array::from);
        Ok(TimeOrdered { source, times: (time_column, values), order })
    }

    /// The position in the source of each row. `None` if the order is the same.
    pub fn order(&self) -> Option<&[u32]> {
        self.order.as_ref().map(|order| &order.values()[..])
    }
}

impl BlockSource for TimeOrdered<'_> {
    fn rows(&self) -> usize {
        self.source.rows()
    }

    fn column(&self, index: usize) -> Result<ArrayRef> {
        // The source may decode a column whenever it is asked, so the times that were read are used again.
        let values = match index == self.times.0 {
            true => self.times.1.clone(),
            false => self.source.column(index)?,
        };
        match &self.order {
            Some(order) if order.len() == values.len() => {
                take(&values, order, None).map_err(|error| Error::internal(error.to_string()))
            }
            // A column of another length is an error of the caller that writes the block.
            _ => Ok(values),
        }
    }

    fn encoded(&self, index: usize) -> Result<Option<Vec<u8>>> {
        if self.order.is_some() { Ok(None) } else { self.source.encoded(index) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Date32Array, StringViewArray, TimestampMillisecondArray};

    use super::*;

    struct Columns(Vec<ArrayRef>);

    impl BlockSource for Columns {
        fn rows(&self) -> usize {
            self.0[0].len()
        }

        fn column(&self, index: usize) -> Result<ArrayRef> {
            Ok(Arc::clone(&self.0[index]))
        }
    }

    #[test]
    fn rows_come_in_the_order_of_time_and_equal_times_stay_in_theirs() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b", "c", "d"]));
        let times: [ArrayRef; 2] = [
            Arc::new(Date32Array::from(vec![3, -1, 3, 2])),
            Arc::new(TimestampMillisecondArray::from(vec![3, -1, 3, 2]).with_timezone("UTC")),
        ];
        for times in times {
            let source = Columns(vec![Arc::clone(&texts), times]);
            let ordered = TimeOrdered::new(&source, 1).expect("times");
            assert_eq!(ordered.order(), Some(&[1, 3, 0, 2][..]));
            let sorted = ordered.column(0).expect("read");
            assert_eq!(sorted.as_string_view().iter().flatten().collect::<String>(), "bdac");
            assert_eq!(times_of(&ordered.column(1).expect("read")).expect("times"), [-1, 2, 3, 3]);
        }
        let source = Columns(vec![Arc::new(Date32Array::from(vec![1, 1, 2]))]);
        assert_eq!(TimeOrdered::new(&source, 0).expect("times").order(), None);
    }

    #[test]
    fn late_rows_are_merged_as_a_stable_sort_would_put_them() {
        let noise = |row: i64| (row * 7919 + 13).rem_euclid(1_009);
        let (few, late) = (0..500_i64, |row: i64| if row % 10 == 3 { row - noise(row) % 60 } else { row });
        let cases: [Vec<i64>; 9] = [
            vec![],
            vec![2, 1],
            vec![i64::MAX, 1, 2, i64::MIN, 2, 1],
            few.clone().map(late).collect(),
            few.clone().map(|row| late(row) / 7).collect(),
            few.clone().map(noise).collect(),
            few.clone().map(|row| -row).collect(),
            few.clone().map(|row| row + row % 2 * 1_000).collect(),
            few.map(|row| if row == 499 { -1 } else { row }).collect(),
        ];
        for times in cases {
            let mut sorted: Vec<u32> = (0..times.len() as u32).collect();
            sorted.sort_by_key(|row| times[*row as usize]);
            let wanted = (!times.is_sorted()).then_some(sorted);
            assert_eq!(time_order(&times), wanted, "{times:?}");
        }
    }
}
