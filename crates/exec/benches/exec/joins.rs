//! Joins of many rows with few rows and with many rows, by numbers and by texts.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use criterion::{Criterion, Throughput};
use rowmill_base::{Broker, Cancel};
use rowmill_exec::batch::BatchSource;
use rowmill_exec::join::{HashJoin, JoinRequest};
use rowmill_plan::JoinKind;
use rowmill_storage::spill::TempSpace;

use crate::size;
use crate::table::{BATCH_ROWS, KINDS, Memory, Table, column, drain};

/// Makes a join on the first column that returns the second column of the probe side.
fn join(build: Arc<Memory>, probe: Arc<Memory>, kind: JoinKind) -> Arc<dyn BatchSource> {
    let request = JoinRequest {
        kind,
        on: vec![(0, 0)],
        nulls_equal: false,
        residual: None,
        bounds: Vec::new(),
        output: vec![3],
        schema: Arc::new(Schema::new(vec![Field::new("few", KINDS[column::FEW].arrow(), true)])),
        batch_rows: BATCH_ROWS,
        cancel: Cancel::new(),
        broker: Broker::new(8 << 30),
        temp: TempSpace::in_memory(),
        null_aware: false,
        ordered: None,
    };
    HashJoin::new(build, probe, request).unwrap()
}

pub(crate) fn benches(criterion: &mut Criterion) {
    let rows = size(1 << 18, 1 << 12);
    let table = Table::new(rows);
    let mut group = criterion.benchmark_group("joins");
    group.throughput(Throughput::Elements(rows as u64));
    for (name, key) in [("4 bytes", column::SMALL), ("8 bytes", column::WIDE), ("text", column::TEXT)] {
        let batches = table.batches(&[key, column::FEW]);
        // One batch has few duplicate keys, so the result has not many more pairs than the input has rows.
        for (how, kind) in [("inner", JoinKind::Inner), ("semi", JoinKind::ProbeSemi)] {
            group.bench_function(format!("{how}, {name}, one batch with all"), |bencher| {
                bencher.iter(|| drain(join(batches.first(1), batches.all(), kind)));
            });
        }
        group.bench_function(format!("semi, {name}, all with all"), |bencher| {
            bencher.iter(|| assert_eq!(drain(join(batches.all(), batches.all(), JoinKind::ProbeSemi)), rows));
        });
    }
    group.finish();
}
