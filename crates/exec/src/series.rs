//! Repeats each row once for each value of a series: generate_series and range.
//!
//! We make the values while batches are asked for, so a series may be arbitrarily long.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMicrosecondArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{
    DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, SchemaRef, TimeUnit,
    TimestampMicrosecondType,
};
use rowmill_base::{Cancel, Error, ErrorKind, Result};

use crate::batch::{BatchSource, Batches};
use crate::share::{batch_of, share, with_nulls};

/// A request to repeat each row for the values of a series.
#[derive(Clone, Debug)]
pub(crate) struct SeriesRequest {
    /// The columns of the input to keep.
    pub keep: Vec<usize>,
    /// The column of the first value: 64-bit numbers or timestamps in microseconds.
    pub start: usize,
    /// The column of the last value.
    pub stop: usize,
    /// The column of the difference between neighbouring values: 64-bit numbers or intervals. 1 if absent.
    pub step: Option<usize>,
    /// Whether the series includes the value in `stop`.
    pub inclusive: bool,
    /// The schema of the result: the kept columns, then the value.
    pub schema: SchemaRef,
    /// The most rows of a batch.
    pub batch_rows: usize,
    /// Ends the work early. Workers check it once per batch.
    pub cancel: Cancel,
}

/// Returns each row of its input once for each value of its series.
#[derive(Debug)]
pub(crate) struct Series {
    input: Arc<dyn BatchSource>,
    request: SeriesRequest,
    schema: SchemaRef,
    /// The time zone in which steps of months and days are added.
    zone: Tz,
}

impl Series {
    /// Makes the operator over `input`. Fails if the types of the bounds allow no series.
    pub(crate) fn new(input: Arc<dyn BatchSource>, request: SeriesRequest) -> Result<Arc<Series>> {
        let kind = |column: usize| input.schema().field(column).data_type();
        let step = match kind(request.start) {
            DataType::Int64 => DataType::Int64,
            DataType::Timestamp(TimeUnit::Microsecond, _) => DataType::Interval(IntervalUnit::MonthDayNano),
            other => return Err(Error::internal(format!("a series of values of {other} is not supported"))),
        };
        // Numbers have the default step 1. Timestamps need an interval.
        let has_step = request.step.map_or(step == DataType::Int64, |column| *kind(column) == step);
        if kind(request.start) != kind(request.stop) || !has_step {
            return Err(Error::internal("the bounds or the step of a series have other types than its values"));
        }
        let schema = with_nulls(&request.schema);
        // We calculate with timestamps without a zone as if they were in UTC. Timestamps with a zone are stored in
        // UTC.
        let zone = "+00:00".parse().map_err(|error| Error::internal(format!("the time zone UTC: {error}")))?;
        Ok(Arc::new(Series { input, request, schema, zone }))
    }
}

impl BatchSource for Series {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.input.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut input = Arc::clone(&self.input).worker();
        let mut current: Option<SeriesBatch> = None;
        share(move || {
            loop {
                self.request.cancel.check()?;
                if let Some(batch) = &mut current
                    && let Some(rows) = batch.next(&self)?
                {
                    return Ok(Some(rows));
                }
                let Some(batch) = input.next().transpose()? else { return Ok(None) };
                current = Some(SeriesBatch { batch, row: 0, of_row: None });
            }
        })
    }
}

/// A batch of the input, and the position of the next row to return.
struct SeriesBatch {
    batch: RecordBatch,
    row: usize,
    /// The rest of the current row's series, if that has begun.
    of_row: Option<SeriesRest>,
}

/// The values of a series that have not been returned yet, as numbers.
#[derive(Clone, Copy)]
struct SeriesRest {
    next: Option<i64>,
    stop: i64,
    step: SeriesStep,
    is_rising: bool,
    inclusive: bool,
}

#[derive(Clone, Copy)]
enum SeriesStep {
    Number(i64),
    Interval(IntervalMonthDayNano, Tz),
}

impl SeriesStep {
    fn after(self, value: i64) -> Option<i64> {
        match self {
            SeriesStep::Number(step) => value.checked_add(step),
            SeriesStep::Interval(step, zone) => TimestampMicrosecondType::add_month_day_nano(value, step, zone),
        }
    }
}

impl SeriesRest {
    /// Appends values of the series to `values` until `values` has `room` items.
    fn extend(&mut self, values: &mut Vec<i64>, room: usize) {
        while let Some(value) = self.next
            && values.len() < room
        {
            let is_in = match (self.is_rising, self.inclusive) {
                (true, true) => value <= self.stop,
                (true, false) => value < self.stop,
                (false, true) => value >= self.stop,
                (false, false) => value > self.stop,
            };
            if !is_in {
                self.next = None;
                return;
            }
            values.push(value);
            // A value that the type cannot hold is after the bound. The series also ends if a step leads back, which
            // can happen when its months and days have different signs. Otherwise the loop might never end.
            self.next = self.step.after(value).filter(|next| (*next > value) == self.is_rising && *next != value);
        }
    }
}

impl SeriesBatch {
    /// Returns the next rows, or `None` when all rows of the batch are done.
    fn next(&mut self, series: &Series) -> Result<Option<RecordBatch>> {
        let request = &series.request;
        let room = request.batch_rows.max(1);
        let (mut rows, mut values): (Vec<u32>, Vec<i64>) = (Vec::new(), Vec::new());
        while self.row < self.batch.num_rows() && values.len() < room {
            let mut rest = match self.of_row.take() {
                Some(rest) => Some(rest),
                None => self.begin(series)?,
            };
            // A series may be longer than the batch. Its rest then waits in `of_row` for the next call.
            if let Some(rest) = &mut rest {
                rest.extend(&mut values, room);
                rows.resize(values.len(), self.row as u32);
            }
            match rest.filter(|rest| rest.next.is_some()) {
                Some(rest) => self.of_row = Some(rest),
                None => self.row += 1,
            }
        }
        if values.is_empty() {
            return Ok(None);
        }
        let (count, rows) = (values.len(), UInt32Array::from(rows));
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(request.keep.len() + 1);
        for column in &request.keep {
            let kept = take(self.batch.column(*column), &rows, None);
            columns.push(kept.map_err(|error| Error::internal(format!("cannot copy the rows of a series: {error}")))?);
        }
        columns.push(match self.batch.column(request.start).data_type() {
            DataType::Timestamp(_, zone) => {
                Arc::new(TimestampMicrosecondArray::new(values.into(), None).with_timezone_opt(zone.clone()))
            }
            _ => Arc::new(Int64Array::from(values)),
        });
        batch_of("a series", &series.schema, columns, count).map(Some)
    }

    /// Begins the series of the current row. `None` if a bound or the step is NULL.
    fn begin(&self, series: &Series) -> Result<Option<SeriesRest>> {
        let (request, row) = (&series.request, self.row);
        let column = |column: usize| self.batch.column(column);
        let bounds = [Some(request.start), Some(request.stop), request.step].into_iter().flatten();
        if bounds.into_iter().any(|bound| column(bound).is_null(row)) {
            return Ok(None);
        }
        let is_number = *column(request.start).data_type() == DataType::Int64;
        let value = |place: usize| match is_number {
            true => column(place).as_primitive::<Int64Type>().value(row),
            false => column(place).as_primitive::<TimestampMicrosecondType>().value(row),
        };
        let step = match request.step {
            None => SeriesStep::Number(1),
            Some(step) if is_number => SeriesStep::Number(value(step)),
            Some(step) => {
                SeriesStep::Interval(column(step).as_primitive::<IntervalMonthDayNanoType>().value(row), series.zone)
            }
        };
        let start = value(request.start);
        let is_rising = match step {
            SeriesStep::Number(0) => return Err(zero_step()),
            SeriesStep::Number(step) => step > 0,
            SeriesStep::Interval(..) => match step.after(start) {
                Some(next) if next == start => return Err(zero_step()),
                Some(next) => next > start,
                // The series has at most one value, so both directions give the same result.
                None => start <= value(request.stop),
            },
        };
        let rest =
            SeriesRest { next: Some(start), stop: value(request.stop), step, is_rising, inclusive: request.inclusive };
        Ok(Some(rest))
    }
}

fn zero_step() -> Error {
    Error::new(ErrorKind::InvalidParameter, "the step of a series is zero").hint("give a step other than zero")
}

#[cfg(test)]
mod tests {
    use arrow::array::IntervalMonthDayNanoArray;
    use arrow::datatypes::{Field, Schema};

    use super::*;
    use crate::collect::collect;
    use crate::test_input::{numbers_of, second_numbers_of};
    use crate::values::ReadyBatches;

    fn source(columns: Vec<ArrayRef>, inclusive: bool, batch_rows: usize, cancel: Cancel) -> Arc<dyn BatchSource> {
        let fields = columns.iter().map(|column| Field::new("c", column.data_type().clone(), true));
        let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let value = schema.field(0).clone();
        let input = RecordBatch::try_new(Arc::clone(&schema), columns).expect("columns of one length");
        let request = SeriesRequest {
            keep: vec![0],
            start: 0,
            stop: 1,
            step: (input.num_columns() > 2).then_some(2),
            inclusive,
            schema: Arc::new(Schema::new(vec![value.clone(), value])),
            batch_rows,
            cancel,
        };
        Series::new(ReadyBatches::new(schema, vec![input]), request).expect("a series")
    }

    fn ints(values: &[Option<i64>]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    fn series(bounds: &[[i64; 3]], inclusive: bool, batch_rows: usize) -> Result<Vec<(i64, i64)>> {
        let column = |place: usize| ints(&bounds.iter().map(|bounds| Some(bounds[place])).collect::<Vec<_>>());
        let columns = (0..3).map(column).collect();
        let batches = collect(&source(columns, inclusive, batch_rows, Cancel::new()), 2)?;
        assert!(batches.iter().all(|batch| (1..=batch_rows).contains(&batch.num_rows())));
        Ok(numbers_of(&batches).into_iter().zip(second_numbers_of(&batches)).collect())
    }

    #[test]
    fn numbers_run_to_their_bound() {
        for batch_rows in [1, 3, 1024] {
            let found = series(&[[1, 5, 2], [9, 9, 1], [3, 1, 1], [2, -2, -2]], true, batch_rows).expect("series");
            assert_eq!(found, [(1, 1), (1, 3), (1, 5), (9, 9), (2, 2), (2, 0), (2, -2)]);
            let found = series(&[[1, 5, 2], [9, 9, 1], [2, -2, -2]], false, batch_rows).expect("series");
            assert_eq!(found, [(1, 1), (1, 3), (2, 2), (2, 0)]);
            let (low, high) = (i64::MIN, i64::MAX);
            let found = series(&[[high - 1, high, 1], [low + 1, low, -5]], true, batch_rows).expect("series");
            assert_eq!(found, [(high - 1, high - 1), (high - 1, high), (low + 1, low + 1)]);
        }
    }

    #[test]
    fn a_null_bound_gives_no_rows_and_a_zero_step_is_an_error() {
        let columns = vec![ints(&[None, Some(1), Some(1)]), ints(&[Some(1), None, Some(2)])];
        let found = collect(&source(columns, true, 10, Cancel::new()), 1).expect("series");
        assert_eq!(second_numbers_of(&found), [1, 2]);
        assert_eq!(series(&[[1, 2, 0]], true, 10).expect_err("no step").kind(), ErrorKind::InvalidParameter);
    }

    fn points(start: i64, stop: i64, step: (i32, i32, i64)) -> Result<Vec<i64>> {
        let point = |value| Arc::new(TimestampMicrosecondArray::from(vec![value])) as ArrayRef;
        let step = IntervalMonthDayNano::new(step.0, step.1, step.2);
        let step = Arc::new(IntervalMonthDayNanoArray::from(vec![step]));
        let batches = collect(&source(vec![point(start), point(stop), step], true, 3, Cancel::new()), 1)?;
        let values = |batch: &RecordBatch| batch.column(1).as_primitive::<TimestampMicrosecondType>().values().to_vec();
        Ok(batches.iter().flat_map(values).collect())
    }

    #[test]
    fn timestamps_take_steps_of_months_days_and_hours() {
        const DAY: i64 = 86_400_000_000;
        // 1970-01-31, -02-28, -03-28, -04-28
        assert_eq!(points(30 * DAY, 120 * DAY, (1, 0, 0)).expect("series"), [30, 58, 86, 117].map(|day| day * DAY));
        assert_eq!(points(0, DAY, (0, 0, 12 * 3_600_000_000_000)).expect("series"), [0, DAY / 2, DAY]);
        assert_eq!(points(DAY, -DAY, (0, -1, 0)).expect("series"), [DAY, 0, -DAY]);
        assert!(points(DAY, 0, (0, 1, 0)).expect("series").is_empty());
        assert_eq!(points(0, DAY, (0, 0, 0)).expect_err("no step").kind(), ErrorKind::InvalidParameter);
        // A nanosecond is below the resolution of timestamps, so the step does not move.
        assert_eq!(points(0, DAY, (0, 0, 1)).expect_err("no step").kind(), ErrorKind::InvalidParameter);
    }

    #[test]
    fn an_endless_series_is_cancelled() {
        let cancel = Cancel::new();
        let source = source(vec![ints(&[Some(0)]), ints(&[Some(i64::MAX)])], true, 10, cancel.clone());
        let mut share = source.worker();
        for _ in 0..5 {
            assert_eq!(share.next().expect("a batch").expect("no error").num_rows(), 10);
        }
        cancel.cancel();
        assert_eq!(share.next().expect("an error").expect_err("cancelled").kind(), ErrorKind::Cancelled);
    }
}
