//! Compares sorts that leave texts in the table with sorts of whole rows.

use arrow::array::{ArrayRef, BinaryViewArray, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::concat_batches;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use roaring::RoaringBitmap;
use rowmill_base::{Cancel, RowNumber};
use rowmill_plan::{CompareOp, Predicate};
use rowmill_storage::spill::TempSpace;
use rowmill_storage::{Block, OpenRun};

use super::*;
use crate::collect::collect;
use crate::sort::{Sort, SortRequest};
use crate::testing::{TestTable, seeds};

const KINDS: [SqlType; 5] = [SqlType::Int64, SqlType::TEXT, SqlType::TEXT, SqlType::Blob, SqlType::Int64];

/// A table with blocks and open runs.
#[derive(Debug)]
struct TableWithRuns {
    blocks: Arc<TestTable>,
    runs: Vec<Arc<OpenRun>>,
}

impl TableSource for TableWithRuns {
    fn table(&self) -> &Arc<TableDef> {
        self.blocks.table()
    }

    fn blocks(&self) -> &[Arc<Block>] {
        self.blocks.blocks()
    }

    fn runs(&self) -> &[Arc<OpenRun>] {
        &self.runs
    }
}

/// Texts with shared prefixes, zeros and NULLs. With `few`, most of them occur several times.
fn text(random: &mut SmallRng, few: bool) -> Option<String> {
    let number: u64 = if few { random.random_range(0..150) } else { random.random() };
    match number % 5 {
        0 if few => None,
        0 | 1 => Some(format!("{number}")),
        2 => Some("a".repeat(number as usize % 30) + &"\0".repeat(number as usize % 3) + &number.to_string()),
        3 => Some(format!("https://example.org/a/path/that/all/have/in/common/{number}")),
        _ => Some(format!("ä{number} and more than a view holds")),
    }
}

/// A number for each row, texts with few values, texts with few values (or unique ones), blobs, and small numbers.
fn columns(rows: std::ops::Range<i64>, unique: bool, random: &mut SmallRng) -> Vec<ArrayRef> {
    let mut texts = |few: bool| rows.clone().map(|_| text(random, few)).collect::<StringViewArray>();
    let (one, other, blobs) = (texts(true), texts(!unique), texts(true));
    let small = rows.clone().map(|row| (row % 7 != 0).then_some(row * 31 % 5)).collect::<Int64Array>();
    let blobs: BinaryViewArray = blobs.iter().map(|text| text.map(str::as_bytes)).collect();
    let numbers = Int64Array::from_iter_values(rows);
    vec![Arc::new(numbers), Arc::new(one), Arc::new(other), Arc::new(blobs), Arc::new(small)]
}

/// Three blocks, the last without its last two columns if `old`, and two open runs. Some rows are deleted.
fn table(unique: bool, old: bool, random: &mut SmallRng) -> Arc<dyn TableSource> {
    let deleted = |rows: u32| (0..rows).filter(|row| row % 10 == 3).collect::<RoaringBitmap>();
    let mut blocks: Vec<(Vec<ArrayRef>, RoaringBitmap)> =
        (0..3).map(|block| (columns(block * 700..(block + 1) * 700, unique, random), deleted(700))).collect();
    if old {
        blocks[2].0.truncate(3);
    }
    let blocks = TestTable::new(&KINDS, None, blocks);
    let run = |rows: std::ops::Range<i64>, random: &mut SmallRng| {
        let values = columns(rows.clone(), unique, random);
        let batch = RecordBatch::try_new(blocks.table().arrow_schema(), values).expect("columns of the table");
        let run = OpenRun::new(RowNumber(rows.start as u64), blocks.table(), &batch);
        Arc::new(run.with_deleted(&deleted(rows.end as u32 - rows.start as u32)))
    };
    let runs = vec![run(2_100..2_400, random), run(2_400..2_450, random)];
    Arc::new(TableWithRuns { blocks, runs })
}

fn scan_of(columns: Vec<usize>, predicates: Vec<Predicate>) -> ScanRequest {
    let cancel = Cancel::new();
    ScanRequest { columns, predicates, limit: None, top: None, batch_rows: 100, row_numbers: false, cancel }
}

struct Run<'a> {
    table: &'a Arc<dyn TableSource>,
    scanned: Vec<usize>,
    predicates: Vec<Predicate>,
    keys: Vec<SortKey>,
    bounds: (usize, Option<usize>),
    broker: Broker,
    threads: usize,
}

impl Run<'_> {
    fn request(&self, keys: &[SortKey], schema: &SchemaRef) -> SortRequest {
        SortRequest {
            keys: keys.to_vec(),
            skip: self.bounds.0,
            rows: self.bounds.1,
            schema: Arc::clone(schema),
            batch_rows: 50,
            cancel: Cancel::new(),
            broker: self.broker.clone(),
            temp: TempSpace::in_memory(),
        }
    }

    fn rows(&self, sort: Arc<Sort>) -> RecordBatch {
        let sort: Arc<dyn BatchSource> = sort;
        let batches = collect(&sort, self.threads).expect("nothing fails");
        concat_batches(sort.schema(), &batches).expect("batches of one schema")
    }

    fn whole(&self) -> RecordBatch {
        let scan = TableScan::new(Arc::clone(self.table), scan_of(self.scanned.clone(), self.predicates.clone()));
        let scan = scan.expect("a scan");
        let request = self.request(&self.keys, scan.schema());
        self.rows(Sort::new(scan, request).expect("an order"))
    }

    /// The same rows with late texts, and the number of ranked columns.
    fn late(&self) -> (RecordBatch, usize) {
        let scan = scan_of(self.scanned.clone(), self.predicates.clone());
        let whole = TableScan::new(Arc::clone(self.table), scan.clone()).expect("a scan");
        let input = SortInput {
            table: self.table,
            scan,
            columns: (0..self.scanned.len()).map(Projected::Column).collect(),
            schema: whole.schema(),
            rows: 1.0,
            shown: 1.0,
        };
        let ways = ColumnWays::of(&input, &self.keys).expect("chunks").expect("texts to read late");
        let (ranked, memory) = (ways.ranked.len(), self.broker.reservation("test"));
        let late = ways.sort(input, &self.keys, memory, &self.broker).expect("a sort");
        let request = self.request(&late.keys, whole.schema());
        (self.rows(Sort::with_late_rows(late.source, request, late.late).expect("an order")), ranked)
    }
}

#[test]
fn late_texts_come_in_the_order_of_whole_rows() {
    for seed in seeds(40, 1_000) {
        let mut random = SmallRng::seed_from_u64(seed);
        let (unique, old) = (random.random_range(0..4) == 0, random.random_range(0..4) == 0);
        let table = table(unique, old, &mut random);
        let mut keys: Vec<SortKey> = (0..random.random_range(1..4))
            .map(|_| SortKey {
                column: random.random_range(1..5),
                descending: random.random(),
                nulls_first: random.random(),
            })
            .collect();
        // The order of all rows is known if the last key is unique.
        keys.push(SortKey { column: 0, descending: random.random(), nulls_first: false });
        let above = |number: i64| Predicate::Compare {
            column: 0,
            op: CompareOp::GreaterOrEqual,
            value: Arc::new(Int64Array::from(vec![number])),
        };
        let run = Run {
            table: &table,
            scanned: (0..5).collect(),
            predicates: if random.random() { vec![above(random.random_range(0..2_500))] } else { Vec::new() },
            keys,
            bounds: *[(0, None), (0, Some(900)), (300, Some(1_000)), (5, None)]
                .get(random.random_range(0..4))
                .expect("one of four"),
            broker: Broker::new(1 << 30),
            threads: random.random_range(1..4),
        };
        run.broker.set_always_spills(random.random());
        let (late, ranked) = run.late();
        let text_keys = run.keys.iter().filter(|key| (1..4).contains(&key.column)).count();
        assert!(ranked <= text_keys, "seed {seed}");
        assert_eq!(late, run.whole(), "seed {seed}: {:?}", run.keys);
        assert_eq!(run.broker.used_bytes(), 0, "seed {seed}");
    }
}

#[test]
fn texts_that_all_blocks_list_are_ranked() {
    let mut random = SmallRng::seed_from_u64(1);
    let key = |column: usize| SortKey { column, descending: false, nulls_first: false };
    for (unique, old, ranked) in [(false, false, [1, 1, 1]), (true, false, [1, 0, 1]), (false, true, [1, 1, 0])] {
        let table = table(unique, old, &mut random);
        for (column, ranked) in (1..4).zip(ranked) {
            let run = Run {
                table: &table,
                // The columns may come in any order.
                scanned: vec![3, 1, 2, 0],
                predicates: Vec::new(),
                keys: vec![key([usize::MAX, 1, 2, 0][column]), key(3)],
                bounds: (0, None),
                broker: Broker::new(1 << 30),
                threads: 2,
            };
            let (late, found) = run.late();
            assert_eq!(found, ranked, "column {column}, unique {unique}, old {old}");
            assert_eq!(late, run.whole(), "column {column}, unique {unique}, old {old}");
        }
    }
}

#[test]
fn memory_for_ranks_that_is_refused_leaves_the_sort_to_whole_rows() {
    let table = table(false, false, &mut SmallRng::seed_from_u64(2));
    let scan = scan_of((0..5).collect(), Vec::new());
    let whole = TableScan::new(Arc::clone(&table), scan.clone()).expect("a scan");
    let keys = [SortKey { column: 1, descending: false, nulls_first: false }];
    for (limit, is_late) in [(1_000, false), (1 << 20, true)] {
        let columns = (0..5).map(Projected::Column).collect();
        // The estimate says that there are far more rows than in the table.
        let (scan, schema, rows) = (scan.clone(), whole.schema(), 1e9);
        let input = SortInput { table: &table, scan, columns, schema, rows, shown: rows };
        let broker = Broker::new(limit);
        let late = LateSort::new(input, &keys, &broker).expect("a refusal is no error");
        assert_eq!(late.is_some(), is_late);
        drop(late);
        assert_eq!(broker.used_bytes(), 0);
    }
}

#[test]
fn few_rows_and_rows_that_fit_memory_are_sorted_whole() {
    let table = table(false, false, &mut SmallRng::seed_from_u64(3));
    let scan = scan_of((0..5).collect(), Vec::new());
    let whole = TableScan::new(Arc::clone(&table), scan.clone()).expect("a scan");
    let is_late = |key: usize, rows: f64, shown: f64, limit: u64| {
        let columns = (0..5).map(Projected::Column).collect();
        let input = SortInput { table: &table, scan: scan.clone(), columns, schema: whole.schema(), rows, shown };
        let keys = [SortKey { column: key, descending: false, nulls_first: false }];
        LateSort::new(input, &keys, &Broker::new(limit)).expect("chunks").is_some()
    };
    let million = 1e6;
    assert!(!is_late(1, 1_000.0, 1_000.0, 1 << 20), "ranks of few rows");
    assert!(is_late(1, million, million, 1 << 40), "a text key");
    assert!(!is_late(0, million, million, 1 << 40), "a number, and memory for the texts");
    assert!(is_late(0, million, million, 1 << 20), "a number, and too little memory for the texts");
    assert!(is_late(0, million, 200_000.0, 1 << 40), "a number, and few rows to show");
}
