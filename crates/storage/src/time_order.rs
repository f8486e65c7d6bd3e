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
pub fn time_order(times: &[i64]) -> Option<Vec<u32>> {
    if times.is_sorted() {
        return None;
    }
    // Pairs keep the comparisons in consecutive memory. The stable sort finds the runs that are in order already.
    let mut rows: Vec<(i64, u32)> = times.iter().copied().zip(0..).collect();
    rows.sort_by_key(|(time, _)| *time);
    Some(rows.into_iter().map(|(_, row)| row).collect())
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
}
