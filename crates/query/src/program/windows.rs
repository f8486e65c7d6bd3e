//! Windows over few rows.

use arrow::datatypes::{DataType, TimeUnit};
use rowmill_plan::logical::{
    FrameBound, FrameRow, FrameUnit, LogicalSortKey, LogicalWindow, LogicalWindowFunction, WindowFrame,
};
use rowmill_plan::program::{
    ColumnOrder, FrameEnd, LookupSource, RowFrame, RowFunction, ScalarOp, ScalarValue, WindowRows, WindowValue,
};
use rowmill_plan::{ColumnId, ScalarExpr};

use super::ProgramBuilder;
use super::lookups::RowsInMemory;
use super::output::row_aggregate;
use super::scalar::{Scope, literal, sql_type};
use super::stage::Stage;
use crate::optimizer::walk::output;

/// The cost of sorting a row and computing its window values. The unit is a row that is read.
const WINDOW_COST: f64 = 0.5;

impl<'p> ProgramBuilder<'p> {
    /// The rows of a window, with the columns of its input and those of its calls. Its read is numbered from `row` and
    /// can refer to the columns of `known`. Returns `None` if programs cannot compute a call.
    pub(super) fn windows(&self, window: &'p LogicalWindow, known: &Scope, row: usize) -> Option<RowsInMemory> {
        let mut ids: Vec<ColumnId> = output(&window.input).iter().collect();
        let own = ids.len();
        let mut place = |expr: &ScalarExpr| {
            let id = match expr.as_column().map(ColumnId).filter(|id| ids.contains(id)) {
                Some(id) => id,
                None => {
                    let id = self.definitions.add_column(expr);
                    self.definitions.add(&[(id, expr.clone())]);
                    id
                }
            };
            ids.iter().position(|known| *known == id).unwrap_or_else(|| {
                ids.push(id);
                ids.len() - 1
            })
        };
        let partition: Vec<usize> = window.partition.iter().map(&mut place).collect();
        let order: Vec<ColumnOrder> = window
            .order
            .iter()
            .map(|key| ColumnOrder {
                column: place(&key.expr),
                descending: key.descending,
                nulls_first: key.nulls_first,
            })
            .collect();
        // Keys and arguments that are not columns get new columns after those of the input. The result does not have
        // them.
        let calls = window.calls.iter().map(|(_, call)| match &call.function {
            LogicalWindowFunction::Shift { value, offset, default, forward, skips_nulls: false } => {
                let rows = match offset {
                    None => 1,
                    Some(offset) => number(offset)?,
                };
                let rows = if *forward { rows } else { rows.checked_neg()? };
                let (value, default) = (place(value), default.as_ref().map(&mut place));
                Some(Some(WindowValue::Shift { value, rows, default }))
            }
            LogicalWindowFunction::Nth { value, nth, skips_nulls: false } => {
                let nth = match nth {
                    FrameRow::First => FrameRow::First,
                    FrameRow::Last => FrameRow::Last,
                    FrameRow::Nth(row) => FrameRow::Nth(number(row).filter(|row| *row > 0)?),
                };
                Some(Some(WindowValue::Nth { value: place(value), nth, frame: frame(&call.frame, &window.order)? }))
            }
            LogicalWindowFunction::Shift { .. } | LogicalWindowFunction::Nth { .. } => None,
            _ => Some(None),
        });
        let of_rows: Vec<Option<WindowValue>> = calls.collect::<Option<_>>()?;
        let read = self.read(&Stage::of(&window.input, &self.definitions)?, known, row, &ids)?;
        let mut scope = Scope::default();
        for (at, id) in ids.iter().enumerate() {
            scope.add(id.0, sql_type(&self.definitions.kind(*id))?, 0, at);
        }
        let is_of_read = |id: usize| ids.contains(&ColumnId(id));
        let resolved = |expr: &ScalarExpr| self.definitions.resolve(expr, &is_of_read);
        let values = window.calls.iter().zip(of_rows).map(|((_, call), of_row)| match (&call.function, of_row) {
            (_, Some(value)) => Some(value),
            (LogicalWindowFunction::Rank(function), None) => Some(WindowValue::Rank(*function)),
            // The engine reports a number of parts that is not positive.
            (LogicalWindowFunction::Ntile(parts), None) => {
                number(parts).filter(|parts| *parts > 0).map(WindowValue::Ntile)
            }
            (LogicalWindowFunction::Aggregate(aggregate), None) => {
                let aggregate = row_aggregate(aggregate, &scope, &resolved)?;
                // The set of distinct values and a joined text cannot be continued from row to row.
                let is_running = !matches!(aggregate.function, RowFunction::CountDistinct | RowFunction::Join);
                let frame = frame(&call.frame, &window.order)?;
                is_running.then_some(WindowValue::Aggregate(Box::new(aggregate), frame))
            }
            _ => None,
        });
        let values: Vec<WindowValue> = values.collect::<Option<_>>()?;
        let rows = read.rows;
        let windows = WindowRows { read: read.read, columns: own, partition, order, values };
        // Partition and order keys must have an ordered type, because programs sort by them.
        let kinds = windows.read.output();
        let keys = windows.partition.iter().chain(windows.order.iter().map(|by| &by.column));
        if !keys.into_iter().all(|column| kinds[*column].is_ordered()) || windows.output().is_none() {
            return None;
        }
        let source = LookupSource::Windows(Box::new(windows));
        Some(RowsInMemory { source, rows, cost: read.cost + rows * WINDOW_COST })
    }
}

/// A number of rows that is written as a literal.
fn number(expr: &ScalarExpr) -> Option<i64> {
    match literal(expr.as_constant()?)?.op {
        ScalarOp::Literal(ScalarValue::Int(rows)) => Some(rows),
        _ => None,
    }
}

/// The frame of a window in this order. Returns `None` if the distances of a RANGE frame are not whole numbers of the
/// units of the ordered values.
fn frame(frame: &WindowFrame<ScalarExpr>, order: &[LogicalSortKey]) -> Option<RowFrame> {
    let not_negative = |rows: &ScalarExpr| number(rows).filter(|rows| *rows >= 0);
    let end = |bound: &FrameBound<ScalarExpr>| {
        let (offset, is_before) = match bound {
            FrameBound::Unbounded => return Some(FrameEnd::Partition),
            FrameBound::CurrentRow => {
                return Some(if frame.unit == FrameUnit::Rows { FrameEnd::Row(0) } else { FrameEnd::Peers });
            }
            FrameBound::Preceding(offset) => (offset, true),
            FrameBound::Following(offset) => (offset, false),
        };
        Some(match frame.unit {
            FrameUnit::Rows if is_before => FrameEnd::Row(-not_negative(offset)?),
            FrameUnit::Rows => FrameEnd::Row(not_negative(offset)?),
            FrameUnit::Groups if is_before => FrameEnd::Group(-not_negative(offset)?),
            FrameUnit::Groups => FrameEnd::Group(not_negative(offset)?),
            FrameUnit::Range => {
                let [key] = order else { return None };
                let distance = distance(&key.expr.kind, offset).filter(|distance| *distance >= 0)?;
                FrameEnd::Distance(if is_before { -distance } else { distance })
            }
        })
    };
    Some(RowFrame { start: end(&frame.start)?, end: end(&frame.end)?, exclude: frame.exclude })
}

/// The distance that is written as a literal, in the units of values of type `kind`.
fn distance(kind: &DataType, offset: &ScalarExpr) -> Option<i128> {
    let ScalarOp::Literal(value) = literal(offset.as_constant()?)?.op else { return None };
    match (kind, value) {
        (kind, ScalarValue::Int(value)) if kind.is_integer() => Some(value.into()),
        (DataType::Decimal128(_, scale), ScalarValue::Decimal(value)) => {
            matches!(offset.kind, DataType::Decimal128(_, other) if other == *scale).then_some(value)
        }
        // A month has no fixed length.
        (DataType::Timestamp(TimeUnit::Microsecond, None), ScalarValue::Interval(value)) if value.months == 0 => {
            let is_whole = value.nanoseconds % 1_000 == 0;
            let micros = i128::from(value.days) * 86_400_000_000 + i128::from(value.nanoseconds / 1_000);
            is_whole.then_some(micros)
        }
        _ => None,
    }
}
