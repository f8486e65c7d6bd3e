//! Groupings by keys of every width, over blocks of a table and over batches. The difference shows what codes save.

use rowmill_exec::aggregate::named;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use criterion::{Criterion, Throughput};
use rowmill_base::{Broker, Cancel};
use rowmill_exec::batch::BatchSource;
use rowmill_exec::group::{GroupBy, GroupRequest, GroupSource};
use rowmill_plan::{Aggregate, Expr, Group, GroupKey};
use rowmill_storage::TableSource;
use rowmill_storage::spill::TempSpace;

use crate::size;
use crate::table::{BATCH_ROWS, KINDS, Table, column, drain};

/// Makes `SELECT keys, count(*), sum(summed)`. A key is a column of the source and the table column that has its type.
fn group(source: impl Into<GroupSource>, keys: &[(usize, usize)], summed: usize) -> Arc<dyn BatchSource> {
    let key = |(place, column): &(usize, usize)| GroupKey {
        expr: Expr::Column(*place),
        kind: KINDS[*column].arrow(),
        nullable: false,
    };
    let keys: Vec<GroupKey> = keys.iter().map(key).collect();
    let sum = Some((Expr::Column(summed), DataType::Int16));
    let aggregates =
        vec![Aggregate::new(named("count"), None, DataType::Int64), Aggregate::new(named("sum"), sum, DataType::Int64)];
    let fields = keys.iter().map(|key| key.kind.clone()).chain([DataType::Int64, DataType::Int64]);
    let fields: Vec<Field> =
        fields.enumerate().map(|(place, kind)| Field::new(format!("{place}"), kind, true)).collect();
    let request = GroupRequest {
        group: Group { predicates: Vec::new(), keys, aggregates, always: Vec::new() },
        functions: Vec::new(),
        schema: Arc::new(Schema::new(fields)),
        top: None,
        limit: None,
        only_presence: false,
        batch_rows: BATCH_ROWS,
        threads: 2,
        cancel: Cancel::new(),
        broker: Broker::new(8 << 30),
        temp: TempSpace::in_memory(),
        metrics: Arc::default(),
        counts_workers: true,
    };
    GroupBy::new(source, request).unwrap()
}

pub(crate) fn benches(criterion: &mut Criterion) {
    let rows = size(1 << 19, 1 << 12);
    let table = Table::new(rows);
    let cases: [(&str, &[usize]); 7] = [
        ("dense key", &[column::FEW]),
        ("two packed keys", &[column::FEW, column::SMALL]),
        ("key of 4 bytes", &[column::SMALL]),
        ("key of 8 bytes", &[column::WIDE]),
        ("key of 16 bytes", &[column::UUID]),
        ("text key", &[column::TEXT]),
        ("nearly unique key", &[column::UNIQUE]),
    ];
    let mut benches = criterion.benchmark_group("groups");
    benches.throughput(Throughput::Elements(rows as u64));
    for (name, columns) in cases {
        let in_table: Vec<(usize, usize)> = columns.iter().map(|column| (*column, *column)).collect();
        let of_table = || group(Arc::clone(&table) as Arc<dyn TableSource>, &in_table, column::FEW);
        // The sum is over the last column of the batches.
        let batches = table.batches(&[columns, &[column::FEW]].concat());
        let in_batches: Vec<(usize, usize)> = columns.iter().copied().enumerate().collect();
        let of_batches = || group(batches.all() as Arc<dyn BatchSource>, &in_batches, columns.len());
        assert_eq!(drain(of_table()), drain(of_batches()), "{name}");
        benches.bench_function(format!("{name}, blocks"), |bencher| bencher.iter(|| drain(of_table())));
        benches.bench_function(format!("{name}, batches"), |bencher| bencher.iter(|| drain(of_batches())));
    }
    benches.finish();
}
