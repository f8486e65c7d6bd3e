//! Sorts of all rows, and of only the first rows.

use std::sync::Arc;

use criterion::{Criterion, Throughput};
use rowmill_base::{Broker, Cancel};
use rowmill_exec::batch::BatchSource;
use rowmill_exec::sort::{Sort, SortRequest};
use rowmill_plan::SortKey;
use rowmill_storage::spill::TempSpace;

use crate::size;
use crate::table::{BATCH_ROWS, Memory, Table, column, drain};

/// Sorts the rows of `input` by its first `keys` columns.
fn sort(input: Arc<Memory>, keys: usize, rows: Option<usize>) -> Arc<dyn BatchSource> {
    let key = |column: usize| SortKey { column, descending: column % 2 == 1, nulls_first: false };
    let request = SortRequest {
        keys: (0..keys).map(key).collect(),
        skip: 0,
        rows,
        schema: Arc::clone(input.schema()),
        batch_rows: BATCH_ROWS,
        cancel: Cancel::new(),
        broker: Broker::new(8 << 30),
        temp: TempSpace::in_memory(),
    };
    Sort::new(input, request).unwrap()
}

pub(crate) fn benches(criterion: &mut Criterion) {
    let rows = size(1 << 18, 1 << 12);
    let table = Table::new(rows);
    let mut group = criterion.benchmark_group("sorts");
    group.throughput(Throughput::Elements(rows as u64));
    let cases: [(&str, &[usize], usize); 4] = [
        ("8 bytes", &[column::WIDE, column::FEW], 1),
        ("text", &[column::TEXT, column::FEW], 1),
        ("2 and 8 bytes", &[column::FEW, column::UNIQUE], 2),
        ("16 bytes", &[column::UUID, column::FEW], 1),
    ];
    for (name, columns, keys) in cases {
        let batches = table.batches(columns);
        group.bench_function(format!("all, {name}"), |bencher| {
            bencher.iter(|| assert_eq!(drain(sort(batches.all(), keys, None)), rows));
        });
        group.bench_function(format!("top 10, {name}"), |bencher| {
            bencher.iter(|| assert_eq!(drain(sort(batches.all(), keys, Some(10))), 10));
        });
    }
    group.finish();
}
