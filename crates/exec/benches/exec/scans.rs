//! Scans with conditions over packed codes, over value lists, by LIKE and over rows without a list, and scans of all
//! rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int16Array, Int64Array, StringViewArray};
use arrow::datatypes::{Int16Type, Int64Type};
use criterion::{Criterion, Throughput};
use rowmill_base::Cancel;
use rowmill_exec::batch::BatchSource;
use rowmill_exec::collect::collect;
use rowmill_exec::scan::{ScanRequest, TableScan};
use rowmill_plan::{CompareOp, Predicate};
use rowmill_storage::TableSource;

use crate::size;
use crate::table::{BATCH_ROWS, Table, column, drain};

fn scan(table: &Arc<Table>, columns: &[usize], predicates: &[Predicate]) -> Arc<dyn BatchSource> {
    let request = ScanRequest {
        columns: columns.to_vec(),
        predicates: predicates.to_vec(),
        limit: None,
        top: None,
        batch_rows: BATCH_ROWS,
        row_numbers: false,
        cancel: Cancel::new(),
    };
    TableScan::new(Arc::clone(table) as Arc<dyn TableSource>, request).unwrap()
}

pub(crate) fn benches(criterion: &mut Criterion) {
    let rows = size(1 << 19, 1 << 12);
    let table = Table::new(rows);
    let batches = table.batches(&[column::FEW, column::UNIQUE, column::TEXT]);
    let first = batches.first(1).worker().next().unwrap().unwrap();
    let few = first.column(0).as_primitive::<Int16Type>().value(0);
    let unique = first.column(1).as_primitive::<Int64Type>().value(0);
    let text = first.column(2).as_string_view().value(0).to_owned();
    let compare = |column, op, value: ArrayRef| Predicate::Compare { column, op, value };
    let texts = StringViewArray::from_iter_values([text.as_str(), "http://example.com/none"]);
    let cases = [
        ("equal, packed codes", compare(column::FEW, CompareOp::Equal, Arc::new(Int16Array::from_value(few, 1)))),
        ("range, packed codes", compare(column::FEW, CompareOp::Less, Arc::new(Int16Array::from_value(10, 1)))),
        ("IN, list of texts", Predicate::In { column: column::TEXT, values: Arc::new(texts), negated: false }),
        (
            "LIKE, list of texts",
            Predicate::Like { column: column::TEXT, pattern: "%section/7%".into(), negated: false, ignore_case: false },
        ),
        (
            "equal, rows without a list",
            compare(column::UNIQUE, CompareOp::Equal, Arc::new(Int64Array::from_value(unique, 1))),
        ),
    ];
    let mut group = criterion.benchmark_group("scans");
    group.throughput(Throughput::Elements(rows as u64));
    for (name, predicate) in cases {
        let predicates = [predicate];
        assert!(drain(scan(&table, &[column::SMALL], &predicates)) > 0, "{name}");
        group.bench_function(name, |bencher| bencher.iter(|| drain(scan(&table, &[column::SMALL], &predicates))));
    }
    group.bench_function("all rows of a number and a text", |bencher| {
        bencher.iter(|| drain(scan(&table, &[column::WIDE, column::TEXT], &[])));
    });
    group.bench_function("collect batches", |bencher| {
        bencher.iter(|| {
            let source: Arc<dyn BatchSource> = batches.all();
            collect(&source, 1).unwrap().len()
        });
    });
    group.finish();
}
