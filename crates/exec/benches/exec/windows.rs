//! Windows over about a hundred thousand partitions.

use rowmill_exec::aggregate::named;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use criterion::{Criterion, Throughput};
use rowmill_base::{Broker, Cancel};
use rowmill_exec::batch::BatchSource;
use rowmill_exec::window::{WindowOperator, WindowRequest};
use rowmill_plan::logical::{FrameBound, FrameExclude, FrameUnit, RankFunction, WindowFrame};
use rowmill_plan::{Aggregate, AggregateFunction, Constant, Expr, FrameOffset, SortKey, WindowCall, WindowFunction};
use rowmill_storage::spill::TempSpace;

use crate::size;
use crate::table::{BATCH_ROWS, Memory, Table, column, drain};

/// Makes a window for `call`, partitioned by the first column and ordered by the second one.
fn window(input: Arc<Memory>, call: WindowCall, limit: Option<usize>) -> Arc<dyn BatchSource> {
    let mut fields: Vec<Field> = input.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    fields.push(Field::new("result", call.kind.clone(), true));
    let request = WindowRequest {
        partition: vec![0],
        order: vec![SortKey { column: 1, descending: limit.is_some(), nulls_first: false }],
        calls: vec![call],
        limit,
        schema: Arc::new(Schema::new(fields)),
        batch_rows: BATCH_ROWS,
        cancel: Cancel::new(),
        broker: Broker::new(8 << 30),
        temp: TempSpace::in_memory(),
    };
    WindowOperator::new(input, request)
}

fn last_three() -> WindowFrame<FrameOffset> {
    let two = Constant::new(Arc::new(arrow::array::Int64Array::from(vec![2])));
    WindowFrame {
        unit: FrameUnit::Rows,
        start: FrameBound::Preceding(FrameOffset::Constant(two)),
        end: FrameBound::CurrentRow,
        exclude: FrameExclude::NoOthers,
    }
}

fn aggregate(function: AggregateFunction, kind: DataType) -> WindowCall {
    let aggregate = Aggregate::new(function, Some((Expr::Column(1), DataType::Int64)), kind.clone());
    WindowCall { function: WindowFunction::Aggregate(Box::new(aggregate)), frame: last_three(), kind }
}

pub(crate) fn benches(criterion: &mut Criterion) {
    let rows = size(1 << 20, 1 << 12);
    let table = Table::new(rows);
    let mut group = criterion.benchmark_group("windows");
    group.throughput(Throughput::Elements(rows as u64));
    let number = || WindowCall {
        function: WindowFunction::Rank(RankFunction::RowNumber),
        frame: last_three(),
        kind: DataType::Int64,
    };
    for (name, key) in [("4 bytes", column::SMALL), ("text", column::TEXT)] {
        let batches = table.batches(&[key, column::UNIQUE]);
        group.bench_function(format!("first 2, {name}"), |bencher| {
            bencher.iter(|| assert!(drain(window(batches.all(), number(), Some(2))) <= rows));
        });
        group.bench_function(format!("row_number, {name}"), |bencher| {
            bencher.iter(|| assert_eq!(drain(window(batches.all(), number(), None)), rows));
        });
        group.bench_function(format!("sum of last 3, {name}"), |bencher| {
            let sum = || aggregate(named("sum"), DataType::Decimal128(38, 0));
            bencher.iter(|| assert_eq!(drain(window(batches.all(), sum(), None)), rows));
        });
        group.bench_function(format!("max of last 3, {name}"), |bencher| {
            let max = || aggregate(named("max"), DataType::Int64);
            bencher.iter(|| assert_eq!(drain(window(batches.all(), max(), None)), rows));
        });
    }
    group.finish();
}
