//! Computes the result of a window by its definition: for each row we look at all rows of its partition.

use std::cmp::Ordering;

use arrow::array::*;
use arrow::datatypes::*;
use rowmill_base::quotient;
use rowmill_plan::logical::{FrameBound, FrameExclude, FrameRow, FrameUnit, RankFunction, WindowFrame};
use rowmill_plan::{Aggregate, Expr, FrameOffset, SortKey, WindowCall, WindowFunction};

/// A value in the model.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ModelCell {
    Null,
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<ModelCell>),
}

impl ModelCell {
    /// Whether both values are equal. Floats may differ in their last digits.
    pub(super) fn is(&self, other: &ModelCell) -> bool {
        match (self, other) {
            (ModelCell::Float(left), ModelCell::Float(right)) => {
                left == right
                    || left.is_nan() && right.is_nan()
                    || (left - right).abs() <= 1e-9 * left.abs().max(right.abs())
            }
            _ => self == other,
        }
    }

    /// Compares two values. NULL comes last.
    fn compare(&self, other: &ModelCell) -> Ordering {
        match (self, other) {
            (ModelCell::Integer(left), ModelCell::Integer(right)) => left.cmp(right),
            (ModelCell::Text(left), ModelCell::Text(right)) => left.cmp(right),
            (ModelCell::Float(left), ModelCell::Float(right)) => match (left.is_nan(), right.is_nan()) {
                (false, false) => left.partial_cmp(right).unwrap(),
                (left, right) => left.cmp(&right),
            },
            (ModelCell::Null, ModelCell::Null) => Ordering::Equal,
            (ModelCell::Null, _) => Ordering::Greater,
            (_, ModelCell::Null) => Ordering::Less,
            _ => panic!("values of one type"),
        }
    }

    fn integer(&self) -> Option<i128> {
        match self {
            ModelCell::Null => None,
            ModelCell::Integer(value) => Some(*value),
            other => panic!("{other:?} is no integer"),
        }
    }
}

/// Reads one value of a column.
pub(super) fn cell(values: &ArrayRef, row: usize) -> ModelCell {
    if values.is_null(row) {
        return ModelCell::Null;
    }
    match values.data_type() {
        DataType::Int64 => ModelCell::Integer(values.as_primitive::<Int64Type>().value(row).into()),
        DataType::Int32 => ModelCell::Integer(values.as_primitive::<Int32Type>().value(row).into()),
        DataType::Date32 => ModelCell::Integer(values.as_primitive::<Date32Type>().value(row).into()),
        DataType::Decimal128(..) => ModelCell::Integer(values.as_primitive::<Decimal128Type>().value(row)),
        DataType::Boolean => ModelCell::Integer(values.as_boolean().value(row).into()),
        DataType::Float64 => ModelCell::Float(values.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8View => ModelCell::Text(values.as_string_view().value(row).to_owned()),
        DataType::List(_) => {
            let items = values.as_list::<i32>().value(row);
            ModelCell::List((0..items.len()).map(|item| cell(&items, item)).collect())
        }
        kind => panic!("{kind} is not in the model"),
    }
}

struct Model<'a> {
    /// The values by column and row.
    cells: Vec<Vec<ModelCell>>,
    order: &'a [SortKey],
}

/// The rows of a partition in order, and for each row the number of its group of peers.
struct Partition {
    rows: Vec<usize>,
    groups: Vec<usize>,
}

/// Computes the results by call and row.
pub(super) fn expected(
    table: &RecordBatch,
    partition: &[usize],
    order: &[SortKey],
    calls: &[WindowCall],
) -> Vec<Vec<ModelCell>> {
    let cells = table.columns().iter().map(|column| (0..column.len()).map(|row| cell(column, row)).collect()).collect();
    let model = Model { cells, order };
    let mut results = vec![vec![ModelCell::Null; table.num_rows()]; calls.len()];
    let mut left: Vec<usize> = (0..table.num_rows()).collect();
    while let Some(first) = left.first().copied() {
        let is_same = |other: &usize| {
            partition.iter().all(|column| model.cells[*column][first].compare(&model.cells[*column][*other]).is_eq())
        };
        let (mut rows, others): (Vec<usize>, Vec<usize>) = left.into_iter().partition(is_same);
        left = others;
        rows.sort_by(|left, right| model.compare(*left, *right));
        let mut groups = vec![0];
        for pair in rows.windows(2) {
            groups.push(groups.last().unwrap() + usize::from(model.compare(pair[0], pair[1]).is_ne()));
        }
        let partition = Partition { rows, groups };
        for at in 0..partition.rows.len() {
            for (results, call) in results.iter_mut().zip(calls) {
                results[partition.rows[at]] = model.result(call, &partition, at);
            }
        }
    }
    results
}

impl Model<'_> {
    fn cell(&self, column: usize, row: usize) -> ModelCell {
        self.cells[column][row].clone()
    }

    fn compare(&self, left: usize, right: usize) -> Ordering {
        let by_key = |key: &SortKey| {
            let (left, right) = (&self.cells[key.column][left], &self.cells[key.column][right]);
            match (*left == ModelCell::Null, *right == ModelCell::Null) {
                (false, false) if key.descending => right.compare(left),
                (false, false) => left.compare(right),
                (left, right) if key.nulls_first => right.cmp(&left),
                (left, right) => left.cmp(&right),
            }
        };
        self.order.iter().map(by_key).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    fn offset(&self, offset: &FrameOffset, row: usize) -> Option<i128> {
        match offset {
            FrameOffset::Constant(constant) => cell(constant.array(), 0).integer(),
            FrameOffset::Column(column) => self.cell(*column, row).integer(),
        }
    }

    /// Computes the result of a call for the row at position `at` of its partition.
    fn result(&self, call: &WindowCall, partition: &Partition, at: usize) -> ModelCell {
        let Partition { rows, groups } = partition;
        let better = groups.iter().filter(|group| **group < groups[at]).count();
        match &call.function {
            WindowFunction::Rank(function) => match function {
                RankFunction::RowNumber => ModelCell::Integer(at as i128 + 1),
                RankFunction::Rank => ModelCell::Integer(better as i128 + 1),
                RankFunction::DenseRank => ModelCell::Integer(groups[at] as i128 + 1),
                RankFunction::PercentRank if rows.len() == 1 => ModelCell::Float(0.0),
                RankFunction::PercentRank => ModelCell::Float(better as f64 / (rows.len() - 1) as f64),
                RankFunction::CumulativeShare => {
                    let worse = groups.iter().filter(|group| **group > groups[at]).count();
                    ModelCell::Float((rows.len() - worse) as f64 / rows.len() as f64)
                }
            },
            WindowFunction::Ntile(parts) => {
                let Some(parts) = self.offset(parts, rows[at]) else { return ModelCell::Null };
                let (size, larger) = (rows.len() as i128 / parts, rows.len() as i128 % parts);
                let mut tile = 1;
                let mut left = at as i128;
                while left >= size + i128::from(tile <= larger) {
                    left -= size + i128::from(tile <= larger);
                    tile += 1;
                }
                ModelCell::Integer(tile)
            }
            WindowFunction::Shift { value, offset, default, forward, skips_nulls } => {
                let offset = match offset {
                    Some(offset) => self.offset(offset, rows[at]),
                    None => Some(1),
                };
                let Some(offset) = offset else { return ModelCell::Null };
                let offset = if *forward { offset } else { -offset };
                let counts = |position: &usize| !skips_nulls || self.cell(*value, rows[*position]) != ModelCell::Null;
                let found = match offset {
                    0 => Some(at),
                    1.. => (at + 1..rows.len()).filter(counts).nth(offset as usize - 1),
                    _ => (0..at).rev().filter(counts).nth((-offset) as usize - 1),
                };
                match (found, default) {
                    (Some(found), _) => self.cell(*value, rows[found]),
                    (None, Some(default)) => self.cell(*default, rows[at]),
                    (None, None) => ModelCell::Null,
                }
            }
            WindowFunction::Nth { value, nth, skips_nulls } => {
                let frame = self.frame(&call.frame, partition, at);
                let counts = |cell: &ModelCell| !skips_nulls || *cell != ModelCell::Null;
                let mut values = frame.iter().map(|row| self.cell(*value, *row)).filter(counts);
                let found = match nth {
                    FrameRow::First => values.next(),
                    FrameRow::Last => values.next_back(),
                    FrameRow::Nth(nth) => self.offset(nth, rows[at]).and_then(|nth| values.nth(nth as usize - 1)),
                };
                found.unwrap_or(ModelCell::Null)
            }
            WindowFunction::Aggregate(aggregate) => self.aggregate(aggregate, self.frame(&call.frame, partition, at)),
        }
    }

    /// Returns the rows of a frame in order.
    fn frame(&self, frame: &WindowFrame<FrameOffset>, partition: &Partition, at: usize) -> Vec<usize> {
        let Partition { rows, groups } = partition;
        let is_peer = |position: usize| groups[position] == groups[at];
        let is_in = |position: &usize| {
            let position = *position;
            let is_excluded = match frame.exclude {
                FrameExclude::NoOthers => false,
                FrameExclude::CurrentRow => position == at,
                FrameExclude::Group => is_peer(position),
                FrameExclude::Ties => position != at && is_peer(position),
            };
            !is_excluded
                && self.is_behind(frame.unit, &frame.start, partition, at, position, true)
                && self.is_behind(frame.unit, &frame.end, partition, at, position, false)
        };
        (0..rows.len()).filter(is_in).map(|position| rows[position]).collect()
    }

    /// Whether a position is on the inner side of a frame bound.
    fn is_behind(
        &self,
        unit: FrameUnit,
        bound: &FrameBound<FrameOffset>,
        Partition { rows, groups }: &Partition,
        at: usize,
        position: usize,
        is_start: bool,
    ) -> bool {
        let within = |place: i128, bound: i128| if is_start { place >= bound } else { place <= bound };
        let group = |position: usize| groups[position] as i128;
        let (offset, sign) = match bound {
            FrameBound::Unbounded => return true,
            FrameBound::CurrentRow => {
                return match unit {
                    FrameUnit::Rows => within(position as i128, at as i128),
                    FrameUnit::Groups | FrameUnit::Range => within(group(position), group(at)),
                };
            }
            FrameBound::Preceding(offset) => (offset, -1),
            FrameBound::Following(offset) => (offset, 1),
        };
        let offset = sign * self.offset(offset, rows[at]).unwrap();
        match unit {
            FrameUnit::Rows => within(position as i128, at as i128 + offset),
            FrameUnit::Groups => within(group(position), group(at) + offset),
            FrameUnit::Range => {
                let key = self.order[0];
                let sign = if key.descending { -1 } else { 1 };
                let value = |position: usize| self.cell(key.column, rows[position]).integer().map(|value| sign * value);
                match (value(position), value(at)) {
                    (Some(value), Some(own)) => within(value, own + offset),
                    // A NULL is equal only to other NULLs. Otherwise the order decides.
                    _ => within(group(position), group(at)),
                }
            }
        }
    }

    fn aggregate(&self, aggregate: &Aggregate, mut frame: Vec<usize>) -> ModelCell {
        let column = |expr: Expr| match expr {
            Expr::Column(column) => column,
            Expr::Function(_) => panic!("a column"),
        };
        if let Some(filter) = aggregate.filter {
            frame.retain(|row| self.cell(column(filter), *row) == ModelCell::Integer(1));
        }
        if let [order] = aggregate.order.as_slice() {
            frame.sort_by(|left, right| {
                let (left, right) = (self.cell(column(order.expr), *left), self.cell(column(order.expr), *right));
                if order.descending { right.compare(&left) } else { left.compare(&right) }
            });
        }
        let Some((argument, kind)) = &aggregate.argument else { return ModelCell::Integer(frame.len() as i128) };
        let mut values: Vec<ModelCell> = frame.iter().map(|row| self.cell(column(*argument), *row)).collect();
        if !aggregate.takes_nulls() {
            values.retain(|value| *value != ModelCell::Null);
        }
        if aggregate.distinct {
            values.sort_by(ModelCell::compare);
            values.dedup();
        }
        let integers = || values.iter().map(|value| value.integer().unwrap());
        let floats = || {
            values.iter().map(|value| match value {
                ModelCell::Float(value) => *value,
                other => panic!("{other:?} is no float"),
            })
        };
        match aggregate.function.name {
            "count" => ModelCell::Integer(values.len() as i128),
            _ if values.is_empty() => ModelCell::Null,
            "sum" if *kind == DataType::Float64 => ModelCell::Float(floats().sum()),
            "avg" if *kind == DataType::Float64 => ModelCell::Float(floats().sum::<f64>() / values.len() as f64),
            "sum" => ModelCell::Integer(integers().sum()),
            "avg" => {
                let scale = if let DataType::Decimal128(_, scale) = kind { *scale } else { 0 };
                ModelCell::Float(quotient::average(integers().sum(), values.len() as u64, scale))
            }
            "min" => values.into_iter().min_by(ModelCell::compare).unwrap(),
            "max" => values.into_iter().max_by(ModelCell::compare).unwrap(),
            "bit_and" => ModelCell::Integer(integers().reduce(|left, right| left & right).unwrap()),
            "bit_or" => ModelCell::Integer(integers().reduce(|left, right| left | right).unwrap()),
            "bit_xor" => ModelCell::Integer(integers().reduce(|left, right| left ^ right).unwrap()),
            "median" => {
                let mut integers: Vec<i128> = integers().collect();
                integers.sort_unstable();
                let (low, high) = (integers[(integers.len() - 1) / 2], integers[integers.len() / 2]);
                ModelCell::Integer((low + high) / 2)
            }
            "array_agg" => ModelCell::List(values),
            "string_agg" => {
                let texts: Vec<String> = values
                    .iter()
                    .map(|value| match value {
                        ModelCell::Text(text) => text.clone(),
                        other => panic!("{other:?} is no text"),
                    })
                    .collect();
                ModelCell::Text(texts.join(", "))
            }
            "last_value" => values.pop().unwrap(),
            other => panic!("{other:?} is not in the model"),
        }
    }
}
