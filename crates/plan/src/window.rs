//! The window operator: values computed over other rows of the same partition.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};

use crate::logical::{FrameBound, FrameExclude, FrameRow, FrameUnit, RankFunction, WindowFrame};
use crate::{Aggregate, Constant, Expr, Node, SortKey};

/// Rows with values computed over other rows: the columns of the input, then one column for each call.
///
/// Keys, arguments, filters and offsets are columns of the input. A projection below must have computed them. The rows
/// come in any order.
#[derive(Clone, Debug)]
pub struct Window {
    /// The rows.
    pub input: Arc<Node>,
    /// The columns that are equal within a partition. NULL equals NULL. Without any, all rows are one partition.
    pub partition: Vec<usize>,
    /// The order of the rows of a partition. Rows that are equal in it are peers.
    pub order: Vec<SortKey>,
    /// The calls to compute. All of them share the partitions and the order.
    pub calls: Vec<WindowCall>,
    /// If set, the operator gives only rows whose result of the first call is at most this. That call must then be a
    /// [`WindowFunction::Rank`] with an integer result.
    pub limit: Option<usize>,
    /// The result.
    pub schema: SchemaRef,
}

/// A value computed over a frame of rows.
#[derive(Clone, Debug)]
pub struct WindowCall {
    /// The function to compute.
    pub function: WindowFunction,
    /// The frame. Functions that look at the whole partition, such as ranks and shifts, do not read it.
    pub frame: WindowFrame<FrameOffset>,
    /// The type of the result.
    pub kind: DataType,
}

/// The function of a window call.
#[derive(Clone, Debug)]
pub enum WindowFunction {
    /// An aggregate over the frame. Its expressions must be columns. Without an order of its own, values come in the
    /// order of the window.
    Aggregate(Box<Aggregate>),
    /// The position of the row in its partition.
    Rank(RankFunction),
    /// `ntile(parts)`: a BIGINT from 1. The number of parts must be positive; NULL gives NULL.
    Ntile(FrameOffset),
    /// `lag` and `lead`: the value some rows before or after.
    Shift {
        /// The column of the value.
        value: usize,
        /// How far, a BIGINT; absent for one row. NULL gives NULL, and a negative number goes the other way.
        offset: Option<FrameOffset>,
        /// The column with the value for rows without such a row, of the type of `value`; NULL if absent.
        default: Option<usize>,
        /// `lead`
        forward: bool,
        /// `IGNORE NULLS`: only rows with a value are counted.
        skips_nulls: bool,
    },
    /// `first_value`, `last_value` and `nth_value` over the frame.
    Nth {
        /// The column of the value.
        value: usize,
        /// Which row of the frame. A number must be positive; NULL gives NULL.
        nth: FrameRow<FrameOffset>,
        /// `IGNORE NULLS`: only rows with a value are counted.
        skips_nulls: bool,
    },
}

/// A number of rows, or for RANGE a distance.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameOffset {
    /// One offset for all rows.
    Constant(Constant),
    /// A column of the input.
    Column(usize),
}

impl Window {
    /// Whether a column of the result can be NULL.
    pub(crate) fn is_nullable(&self, column: usize) -> bool {
        let Some(call) = column.checked_sub(self.input.schema().fields().len()) else {
            return self.input.is_nullable(column);
        };
        match &self.calls[call].function {
            WindowFunction::Rank(_) => false,
            WindowFunction::Aggregate(aggregate) => !aggregate.function.is_zero_of_nothing,
            WindowFunction::Ntile(_) | WindowFunction::Shift { .. } | WindowFunction::Nth { .. } => true,
        }
    }
}

impl WindowCall {
    /// The columns of the input that the call reads. A column that it reads twice is listed twice.
    pub fn columns(&self) -> Vec<usize> {
        let mut columns = Vec::new();
        let mut offset = |offset: &FrameOffset| {
            if let FrameOffset::Column(column) = offset {
                columns.push(*column);
            }
        };
        for bound in [&self.frame.start, &self.frame.end] {
            if let FrameBound::Preceding(distance) | FrameBound::Following(distance) = bound {
                offset(distance);
            }
        }
        match &self.function {
            WindowFunction::Rank(_) => {}
            WindowFunction::Ntile(parts) => offset(parts),
            WindowFunction::Shift { value, offset: distance, default, .. } => {
                distance.iter().for_each(offset);
                columns.push(*value);
                columns.extend(default);
            }
            WindowFunction::Nth { value, nth, .. } => {
                if let FrameRow::Nth(place) = nth {
                    offset(place);
                }
                columns.push(*value);
            }
            WindowFunction::Aggregate(aggregate) => {
                let mut aggregate = aggregate.clone();
                columns.extend(aggregate.exprs_mut().filter_map(|expr| match expr {
                    Expr::Column(column) => Some(*column),
                    Expr::Function(_) => None,
                }));
            }
        }
        columns
    }

    /// The call as EXPLAIN shows it. `name` gives the name of an input column.
    pub(crate) fn text(&self, name: &dyn Fn(usize) -> String) -> String {
        let offset = |offset: &FrameOffset| offset.text(name);
        let nulls = |skips: bool| if skips { " IGNORE NULLS" } else { "" };
        match &self.function {
            WindowFunction::Rank(function) => format!("{}()", rank_name(*function)),
            WindowFunction::Ntile(parts) => format!("ntile({})", offset(parts)),
            WindowFunction::Shift { value, offset: distance, default, forward, skips_nulls } => {
                let function = if *forward { "lead" } else { "lag" };
                let mut arguments = vec![name(*value)];
                match (distance, default) {
                    (Some(distance), _) => arguments.push(offset(distance)),
                    // A default can only be written after an offset, so we show the default offset.
                    (None, Some(_)) => arguments.push("1".to_owned()),
                    (None, None) => {}
                }
                arguments.extend(default.map(name));
                format!("{function}({}){}", arguments.join(", "), nulls(*skips_nulls))
            }
            WindowFunction::Nth { value, nth, skips_nulls } => {
                let text = match nth {
                    FrameRow::First => format!("first_value({})", name(*value)),
                    FrameRow::Last => format!("last_value({})", name(*value)),
                    FrameRow::Nth(place) => format!("nth_value({}, {})", name(*value), offset(place)),
                };
                format!("{text}{}{}", nulls(*skips_nulls), frame_text(&self.frame, name))
            }
            WindowFunction::Aggregate(aggregate) => {
                let column = |expr: Expr| match expr {
                    Expr::Column(column) => name(column),
                    Expr::Function(_) => "?".to_owned(),
                };
                let argument = aggregate.argument.as_ref().map_or("*".to_owned(), |(expr, _)| column(*expr));
                let distinct = if aggregate.distinct { "DISTINCT " } else { "" };
                let filter = aggregate.filter.map(|filter| format!(" FILTER (WHERE {})", column(filter)));
                let (function, nulls) = (aggregate.function.name, aggregate.nulls_text());
                let frame = frame_text(&self.frame, name);
                format!("{function}({distinct}{argument}){nulls}{}{frame}", filter.unwrap_or_default())
            }
        }
    }
}

impl FrameOffset {
    fn text(&self, name: &dyn Fn(usize) -> String) -> String {
        match self {
            FrameOffset::Column(column) => name(*column),
            FrameOffset::Constant(constant) => {
                arrow::util::display::array_value_to_string(constant.array(), 0).unwrap_or_else(|_| "?".to_owned())
            }
        }
    }
}

fn rank_name(function: RankFunction) -> &'static str {
    match function {
        RankFunction::RowNumber => "row_number",
        RankFunction::Rank => "rank",
        RankFunction::DenseRank => "dense_rank",
        RankFunction::PercentRank => "percent_rank",
        RankFunction::CumulativeShare => "cume_dist",
    }
}

/// The default frame: from the start of the partition to the last peer of the row.
const USUAL_FRAME: WindowFrame<FrameOffset> = WindowFrame::up_to_current(FrameUnit::Range);

/// The text of the frame after a call; empty for the default frame.
fn frame_text(frame: &WindowFrame<FrameOffset>, name: &dyn Fn(usize) -> String) -> String {
    if *frame == USUAL_FRAME {
        return String::new();
    }
    let unit = match frame.unit {
        FrameUnit::Rows => "ROWS",
        FrameUnit::Groups => "GROUPS",
        FrameUnit::Range => "RANGE",
    };
    let bound = |bound: &FrameBound<FrameOffset>, unbounded: &str| match bound {
        FrameBound::Unbounded => format!("UNBOUNDED {unbounded}"),
        FrameBound::Preceding(offset) => format!("{} PRECEDING", offset.text(name)),
        FrameBound::CurrentRow => "CURRENT ROW".to_owned(),
        FrameBound::Following(offset) => format!("{} FOLLOWING", offset.text(name)),
    };
    let exclude = match frame.exclude {
        FrameExclude::NoOthers => "",
        FrameExclude::CurrentRow => " EXCLUDE CURRENT ROW",
        FrameExclude::Group => " EXCLUDE GROUP",
        FrameExclude::Ties => " EXCLUDE TIES",
    };
    let (start, end) = (bound(&frame.start, "PRECEDING"), bound(&frame.end, "FOLLOWING"));
    format!(" {unit} BETWEEN {start} AND {end}{exclude}")
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{Field, Schema};

    use super::*;
    use crate::AggregateSpec;
    use crate::{Foreign, Names};

    struct NoNames;

    impl Names for NoNames {
        fn table(&self, _: usize) -> &str {
            ""
        }

        fn column(&self, _: usize, _: usize) -> &str {
            ""
        }

        fn size(&self, _: usize) -> (usize, u64) {
            (0, 0)
        }

        fn function(&self, _: usize) -> &str {
            ""
        }
    }

    fn schema(names: &[&str]) -> SchemaRef {
        let field = |name: &&str| Field::new(*name, DataType::Int64, false);
        Arc::new(Schema::new(names.iter().map(field).collect::<Vec<_>>()))
    }

    #[test]
    fn explain_shows_calls_keys_and_limit() {
        let two = FrameOffset::Constant(Constant::new(Arc::new(Int64Array::from(vec![2]))));
        let frame = WindowFrame { unit: FrameUnit::Rows, start: FrameBound::Preceding(two), ..USUAL_FRAME };
        static SUM: AggregateSpec = AggregateSpec::new("sum", |_| None);
        let sum = Aggregate::new(&SUM, Some((Expr::Column(1), DataType::Int64)), DataType::Int64);
        let shift =
            WindowFunction::Shift { value: 1, offset: None, default: Some(0), forward: true, skips_nulls: true };
        let call = |function, frame| WindowCall { function, frame, kind: DataType::Int64 };
        let window = Node::Window(Window {
            input: Arc::new(Node::Foreign(Foreign { plan: 0, rows: 1, schema: schema(&["g", "v"]) })),
            partition: vec![0],
            order: vec![SortKey { column: 1, descending: true, nulls_first: true }],
            calls: vec![
                call(WindowFunction::Rank(RankFunction::RowNumber), USUAL_FRAME),
                call(WindowFunction::Aggregate(Box::new(sum)), frame),
                call(shift, USUAL_FRAME),
            ],
            limit: Some(2),
            schema: schema(&["g", "v", "a", "b", "c"]),
        });
        assert_eq!(
            window.line(&NoNames),
            "Window: row_number(), sum(v) ROWS BETWEEN 2 PRECEDING AND CURRENT ROW, lead(v, 1, g) IGNORE NULLS, by \
             [g], \
             ordered by [v DESC], first 2"
        );
        assert_eq!(
            window.column_names(&NoNames)[2..],
            ["row_number()", "sum(v) ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", "lead(v, 1, g) IGNORE NULLS"]
        );
        assert_eq!([2, 3, 4].map(|column| window.is_nullable(column)), [false, true, true]);
        let Node::Window(window) = window else { unreachable!("it is a window") };
        assert_eq!(window.calls.iter().map(WindowCall::columns).collect::<Vec<_>>(), [vec![], vec![1], vec![1, 0]]);
    }
}
