//! Joins of random rows, compared with a nested loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Decimal256Array, FixedSizeBinaryBuilder, Float64Array,
    Int8Array, Int32Array, Int64Array, ListArray, RecordBatch, StringViewArray,
};
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type, Schema, SchemaRef, i256};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_base::{Broker, Cancel, ErrorKind, Result};
use rowmill_io::{Call, Fault, FaultyDisk, MemoryDisk};
use rowmill_plan::{CompareOp, JoinBound};
use rowmill_storage::spill::{SpillMeter, TempSpace};

use super::source::TestSource;
use crate::batch::BatchSource;
use crate::function::VectorFunction;
use crate::join::index::Hashing;
use crate::join::spill::JoinPart;
use crate::join::{HashJoin, JoinKind, JoinRequest};
use crate::spill_buckets::SpillSizes;
use crate::testing::seeds;

const KINDS: [JoinKind; 10] = [
    JoinKind::Inner,
    JoinKind::ProbeOuter,
    JoinKind::BuildOuter,
    JoinKind::FullOuter,
    JoinKind::ProbeSemi,
    JoinKind::ProbeAnti,
    JoinKind::BuildSemi,
    JoinKind::BuildAnti,
    JoinKind::ProbeMark,
    JoinKind::ProbeTruth,
];

/// The way in which numbers become values of a key column. Equal numbers become equal values, but not always equal
/// bits.
#[derive(Clone, Copy, Debug)]
enum KeyKind {
    Tiny,
    Dense,
    Sparse,
    Float,
    Decimal,
    WideDecimal,
    Text,
    Id,
    List,
}

const KEY_KINDS: [KeyKind; 9] = [
    KeyKind::Tiny,
    KeyKind::Dense,
    KeyKind::Sparse,
    KeyKind::Float,
    KeyKind::Decimal,
    KeyKind::WideDecimal,
    KeyKind::Text,
    KeyKind::Id,
    KeyKind::List,
];

impl KeyKind {
    fn array(self, numbers: &[Option<i64>], random: &mut SmallRng) -> ArrayRef {
        let mut float = |number: i64| match number {
            0 => [0.0, -0.0][random.random_range(0..2)],
            1 => [f64::NAN, -f64::NAN][random.random_range(0..2)],
            number => number as f64 / 8.0,
        };
        let values = numbers.iter().copied();
        match self {
            KeyKind::Tiny => Arc::new(values.map(|value| value.map(|value| value as i8)).collect::<Int8Array>()),
            KeyKind::Dense => Arc::new(values.map(|value| value.map(|value| value - 3)).collect::<Int64Array>()),
            KeyKind::Sparse => {
                let far = |value: i64| value.wrapping_mul(0x5851_f42d_4c95_7f2d);
                Arc::new(values.map(|value| value.map(far)).collect::<Int64Array>())
            }
            KeyKind::Float => Arc::new(values.map(|value| value.map(&mut float)).collect::<Float64Array>()),
            KeyKind::Decimal => {
                let far = |value: i64| i128::from(value) * 10_i128.pow(30);
                Arc::new(values.map(|value| value.map(far)).collect::<Decimal128Array>())
            }
            KeyKind::WideDecimal => {
                let far = |value: i64| i256::from_i128(value.into()) << 200;
                Arc::new(values.map(|value| value.map(far)).collect::<Decimal256Array>())
            }
            KeyKind::Text => {
                let text = |value: i64| format!("{value}{}", " and so on, for long".repeat(value as usize % 3));
                Arc::new(values.map(|value| value.map(text)).collect::<StringViewArray>())
            }
            KeyKind::Id => {
                let mut ids = FixedSizeBinaryBuilder::new(16);
                values.for_each(|value| match value {
                    Some(value) => ids.append_value([value as u8; 16]).expect("sixteen bytes"),
                    None => ids.append_null(),
                });
                Arc::new(ids.finish())
            }
            KeyKind::List => {
                let list = |value: Option<i64>| value.map(|value| vec![Some(float(value)), None]);
                Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(values.map(list).collect::<Vec<_>>()))
            }
        }
    }
}

/// A row of an input.
#[derive(Clone, Debug)]
struct Row {
    id: i32,
    keys: Vec<Option<i64>>,
    /// The value that the condition reads.
    value: Option<i32>,
}

fn text(id: i32) -> String {
    format!("the text of row number {id}")
}

/// The columns of an input: its keys, then the id, the value and the text of each row.
fn batch(rows: &[Row], kinds: &[KeyKind], random: &mut SmallRng) -> RecordBatch {
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (index, kind) in kinds.iter().enumerate() {
        let numbers: Vec<Option<i64>> = rows.iter().map(|row| row.keys[index]).collect();
        columns.push(kind.array(&numbers, random));
    }
    columns.push(Arc::new(rows.iter().map(|row| Some(row.id)).collect::<Int32Array>()));
    columns.push(Arc::new(rows.iter().map(|row| row.value).collect::<Int32Array>()));
    columns.push(Arc::new(rows.iter().map(|row| Some(text(row.id))).collect::<StringViewArray>()));
    let fields = columns.iter().enumerate();
    let fields = fields.map(|(index, column)| Field::new(format!("c{index}"), column.data_type().clone(), true));
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns).expect("columns of one length")
}

/// A column of a side that a condition reads.
#[derive(Clone, Copy, Debug)]
enum Compared {
    Id,
    Value,
}

/// What a condition demands of a pair of rows.
#[derive(Clone, Debug)]
enum Demand {
    /// The sum of the values is no multiple of three.
    Sum,
    /// All comparisons of a build column with a probe column are true.
    Bounds(Vec<(Compared, CompareOp, Compared)>),
}

/// The id and the value of a row.
type IdAndValue = (Option<i32>, Option<i32>);

impl Demand {
    fn random(random: &mut SmallRng) -> Demand {
        const OPS: [CompareOp; 4] =
            [CompareOp::Less, CompareOp::LessOrEqual, CompareOp::Greater, CompareOp::GreaterOrEqual];
        if random.random_bool(0.3) {
            return Demand::Sum;
        }
        let column = |random: &mut SmallRng| [Compared::Id, Compared::Value][random.random_range(0..2)];
        let bound = |random: &mut SmallRng| (column(random), OPS[random.random_range(0..OPS.len())], column(random));
        Demand::Bounds((0..random.random_range(1..4)).map(|_| bound(random)).collect())
    }

    /// Whether a pair meets the demand; `None` if that is unknown.
    fn holds(&self, build: IdAndValue, probe: IdAndValue) -> Option<bool> {
        let Demand::Bounds(bounds) = self else { return Some((build.1? + probe.1?) % 3 != 0) };
        let column = |row: IdAndValue, column: Compared| match column {
            Compared::Id => row.0,
            Compared::Value => row.1,
        };
        let mut all = Some(true);
        for (of_build, op, of_probe) in bounds {
            let truth = column(build, *of_build).zip(column(probe, *of_probe)).map(|(left, right)| match op {
                CompareOp::Less => left < right,
                CompareOp::LessOrEqual => left <= right,
                CompareOp::Greater => left > right,
                _ => left >= right,
            });
            all = match (all, truth) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            };
        }
        all
    }
}

/// A condition over the ids and the values of both sides.
#[derive(Debug)]
struct Condition {
    columns: Vec<usize>,
    demand: Demand,
}

impl VectorFunction for Condition {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let values =
            |column: usize| -> Vec<Option<i32>> { columns[column].as_primitive::<Int32Type>().iter().collect() };
        let [build_ids, build_values, probe_ids, probe_values] = [0, 1, 2, 3].map(values);
        assert_eq!(build_ids.len(), rows);
        let holds =
            |row: usize| self.demand.holds((build_ids[row], build_values[row]), (probe_ids[row], probe_values[row]));
        Ok(Arc::new((0..rows).map(holds).collect::<BooleanArray>()))
    }
}

/// The ids of both sides, and the mark.
type Joined = (Option<i32>, Option<i32>, Option<Option<bool>>);

/// A join and its inputs.
#[derive(Clone, Debug)]
struct JoinCase {
    kind: JoinKind,
    keys: Vec<KeyKind>,
    nulls_equal: bool,
    null_aware: bool,
    residual: Option<Demand>,
    build: Vec<Vec<Row>>,
    probe: Vec<Vec<Row>>,
    batch_rows: usize,
    workers: usize,
    hashes_equal: bool,
    filters: bool,
    /// How often the join spilled.
    spilled: Arc<AtomicU64>,
}

impl JoinCase {
    fn random(random: &mut SmallRng) -> JoinCase {
        let kind = KINDS[random.random_range(0..KINDS.len())];
        let keys = 0..[0, 1, 1, 1, 2, 3][random.random_range(0..6)];
        let keys: Vec<KeyKind> = keys.map(|_| KEY_KINDS[random.random_range(0..KEY_KINDS.len())]).collect();
        let domain = [2, 7, 30, 100][random.random_range(0..4)];
        let nulls = [0.0, 0.1, 0.5][random.random_range(0..3)];
        let side = |random: &mut SmallRng| {
            let batches = random.random_range(0..6);
            let mut next_id = 0;
            let mut row = |random: &mut SmallRng| {
                next_id += 1;
                let mut key = |_: &KeyKind| (!random.random_bool(nulls)).then(|| random.random_range(0..domain));
                let keys = keys.iter().map(&mut key).collect();
                let value = (!random.random_bool(0.1)).then(|| random.random_range(0..10));
                Row { id: next_id, keys, value }
            };
            (0..batches).map(|_| (0..random.random_range(0..20)).map(|_| row(random)).collect()).collect()
        };
        let (build, probe) = (side(random), side(random));
        JoinCase {
            kind,
            keys,
            nulls_equal: random.random_bool(0.2),
            null_aware: random.random_bool(0.5),
            residual: random.random_bool(0.5).then(|| Demand::random(random)),
            build,
            probe,
            batch_rows: [1, 3, 1_000][random.random_range(0..3)],
            workers: random.random_range(1..=4),
            hashes_equal: random.random_bool(0.2),
            filters: random.random_bool(0.5),
            spilled: Arc::default(),
        }
    }

    fn input(&self, rows: &[Vec<Row>], random: &mut SmallRng) -> Arc<TestSource> {
        let schema = batch(&[], &self.keys, random).schema();
        let batches = rows.iter().map(|rows| Ok(batch(rows, &self.keys, random))).collect();
        TestSource::new(schema, batches, self.filters)
    }

    /// The columns of the result: the text and then the id of each side.
    fn output(&self) -> Vec<usize> {
        let width = self.keys.len() + 3;
        let of = |side: usize| [side * width + width - 1, side * width + width - 3];
        let sides = [self.kind.has_build_columns(), self.kind.has_probe_columns()];
        (0..2).filter(|side| sides[*side]).flat_map(of).collect()
    }

    fn schema(&self) -> SchemaRef {
        let texts_and_ids = [DataType::Utf8View, DataType::Int32].into_iter().cycle().take(self.output().len());
        let mark = self.kind.has_mark().then_some(DataType::Boolean);
        let fields = texts_and_ids.chain(mark).map(|kind| Field::new("x", kind, true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// The rows of the join, sorted.
    fn joined(&self, random: &mut SmallRng, spills: bool) -> Vec<Joined> {
        let temp = TempSpace::in_memory();
        let rows = self.try_joined(random, spills, &temp);
        assert!(temp.files().is_empty());
        assert_eq!(temp.quota().used_bytes(), 0);
        rows.expect("nothing fails")
    }

    /// The rows of the join, sorted, or its first error. With `spills` the join must spill what it can.
    fn try_joined(&self, random: &mut SmallRng, spills: bool, temp: &TempSpace) -> Result<Vec<Joined>> {
        temp.set_file_bytes_min(0);
        let (build, probe) = (self.input(&self.build, random), self.input(&self.probe, random));
        let width = self.keys.len() + 3;
        let columns = vec![width - 3, width - 2, 2 * width - 3, 2 * width - 2];
        let residual = self.residual.clone().map(|demand| Condition { columns, demand });
        let place = |column: Compared| match column {
            Compared::Id => width - 3,
            Compared::Value => width - 2,
        };
        let bounds = match &self.residual {
            Some(Demand::Bounds(bounds)) => {
                let bound = |(build, op, probe): &(Compared, CompareOp, Compared)| JoinBound {
                    build: place(*build),
                    op: *op,
                    probe: place(*probe),
                };
                bounds.iter().map(bound).collect()
            }
            _ => Vec::new(),
        };
        let (broker, meter) = (Broker::new(1 << 30), Arc::<SpillMeter>::default());
        broker.set_always_spills(spills);
        let request = JoinRequest {
            kind: self.kind,
            on: (0..self.keys.len()).map(|key| (key, key)).collect(),
            nulls_equal: self.nulls_equal,
            residual: residual.map(|residual| Arc::new(residual) as Arc<dyn VectorFunction>),
            bounds,
            output: self.output(),
            schema: self.schema(),
            batch_rows: self.batch_rows,
            cancel: Cancel::new(),
            broker: broker.clone(),
            temp: temp.metered(&meter),
            null_aware: self.null_aware,
            ordered: None,
        };
        let hashing = Hashing { all_equal: self.hashes_equal };
        let part = JoinPart::default();
        let join = HashJoin::of_part(build, probe, request, (hashing, SpillSizes::small()), part);
        let join = join.expect("a request that fits");
        let (mut rows, mut failure) = (Vec::new(), None);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.workers)
                .map(|_| {
                    let share = Arc::clone(&join).worker();
                    scope.spawn(|| share.collect::<Result<Vec<RecordBatch>>>())
                })
                .collect();
            for worker in workers {
                match worker.join().expect("no panic") {
                    Ok(batches) => batches.iter().for_each(|batch| {
                        assert!((1..=self.batch_rows).contains(&batch.num_rows()), "{} rows", batch.num_rows());
                        self.read(batch, &mut rows);
                    }),
                    Err(error) => failure = Some(error),
                }
            }
        });
        if let Some(error) = failure {
            drop(join);
            assert_eq!(broker.used_bytes(), 0);
            return Err(error);
        }
        let has_spilled = meter.bytes() > 0;
        assert!(spills || !has_spilled);
        if has_spilled {
            self.spilled.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(join.metrics().output_rows.load(Ordering::Relaxed), rows.len() as u64);
        drop(join);
        assert_eq!(broker.used_bytes(), 0);
        rows.sort();
        Ok(rows)
    }

    fn read(&self, batch: &RecordBatch, rows: &mut Vec<Joined>) {
        let columns = &mut batch.columns().iter();
        let mut side = |is_there: bool| {
            let (texts, ids) = is_there.then(|| (columns.next().expect("texts"), columns.next().expect("ids")))?;
            let (texts, ids) = (texts.as_string_view(), ids.as_primitive::<Int32Type>());
            assert!(ids.iter().map(|id| id.map(text)).eq(texts.iter().map(|text| text.map(str::to_string))));
            Some(ids)
        };
        let (build, probe) = (side(self.kind.has_build_columns()), side(self.kind.has_probe_columns()));
        let mark = columns.next().map(|mark| mark.as_boolean());
        let id = |ids: Option<&Int32Array>, row: usize| ids.filter(|ids| ids.is_valid(row)).map(|ids| ids.value(row));
        rows.extend((0..batch.num_rows()).map(|row| {
            let mark = mark.map(|mark| mark.is_valid(row).then(|| mark.value(row)));
            (id(build, row), id(probe, row), mark)
        }));
    }

    /// Whether two rows match; `None` if that is unknown.
    fn matches(&self, build: &Row, probe: &Row) -> Option<bool> {
        let is_truth = self.kind == JoinKind::ProbeTruth;
        let holds = |demand: &Demand| demand.holds((Some(build.id), build.value), (Some(probe.id), probe.value));
        let mut all = match self.residual.as_ref().map(holds) {
            None => Some(true),
            Some(None) if is_truth => None,
            Some(holds) => Some(holds == Some(true)),
        };
        for (build, probe) in build.keys.iter().zip(&probe.keys) {
            let equal = match (build, probe) {
                (Some(build), Some(probe)) => Some(build == probe),
                (build, probe) if self.nulls_equal => Some(build == probe),
                _ => None,
            };
            all = match (all, equal) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            };
        }
        if self.null_aware || is_truth { all } else { Some(all == Some(true)) }
    }

    /// Whether any row matches. False only if that is certain.
    fn any(&self, matches: impl Iterator<Item = Option<bool>>) -> Option<bool> {
        let mut any = Some(false);
        for is_match in matches {
            match is_match {
                Some(true) => return Some(true),
                Some(false) => {}
                None => any = None,
            }
        }
        any
    }

    /// The rows that the join must return, sorted.
    fn expected(&self) -> Vec<Joined> {
        let (build, probe) = (self.build.concat(), self.probe.concat());
        let of_build = |row: &Row| self.any(probe.iter().map(|probe| self.matches(row, probe)));
        let of_probe = |row: &Row| self.any(build.iter().map(|build| self.matches(build, row)));
        let mut rows: Vec<Joined> = Vec::new();
        if self.kind.gives_pairs() {
            let matches = |build: &&Row, probe: &Row| self.matches(build, probe) == Some(true);
            for probe in &probe {
                rows.extend(
                    build
                        .iter()
                        .filter(|build| matches(build, probe))
                        .map(|build| (Some(build.id), Some(probe.id), None)),
                );
            }
        }
        let mut of_one_side = |rows_of: &[Row], is_in: &dyn Fn(&Row) -> bool, is_build: bool| {
            rows.extend(rows_of.iter().filter(|row| is_in(row)).map(|row| match is_build {
                true => (Some(row.id), None, None),
                false => (None, Some(row.id), None),
            }));
        };
        match self.kind {
            JoinKind::Inner => {}
            JoinKind::ProbeOuter => of_one_side(&probe, &|row| of_probe(row) != Some(true), false),
            JoinKind::BuildOuter => of_one_side(&build, &|row| of_build(row) != Some(true), true),
            JoinKind::FullOuter => {
                of_one_side(&probe, &|row| of_probe(row) != Some(true), false);
                of_one_side(&build, &|row| of_build(row) != Some(true), true);
            }
            JoinKind::ProbeSemi => of_one_side(&probe, &|row| of_probe(row) == Some(true), false),
            JoinKind::ProbeAnti => of_one_side(&probe, &|row| of_probe(row) == Some(false), false),
            JoinKind::BuildSemi => of_one_side(&build, &|row| of_build(row) == Some(true), true),
            JoinKind::BuildAnti => of_one_side(&build, &|row| of_build(row) == Some(false), true),
            JoinKind::ProbeMark | JoinKind::ProbeTruth => {
                rows.extend(probe.iter().map(|row| (None, Some(row.id), Some(of_probe(row)))));
            }
            JoinKind::ProbeSingle => unreachable!("single joins have a test of their own"),
        }
        rows.sort();
        rows
    }
}

#[test]
fn random_joins_return_the_rows_of_a_nested_loop() {
    for seed in seeds(1_000, 3_000) {
        let mut random = SmallRng::seed_from_u64(seed);
        let case = JoinCase::random(&mut random);
        for spills in [false, true] {
            assert_eq!(case.joined(&mut random, spills), case.expected(), "seed {seed}, {spills}: {case:#?}");
        }
    }
}

/// More rows than in the other cases, so that buckets are divided again, and some keys with most of the rows.
#[test]
fn large_joins_that_spill_return_the_rows_of_a_nested_loop() {
    let mut spilled = 0;
    for seed in 0..300_u64 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut case = JoinCase::random(&mut random);
        let is_skewed = random.random_bool(0.5);
        for side in [&mut case.build, &mut case.probe] {
            let mut rows = side.concat();
            for copy in 1..6 {
                let key = |key: Option<i64>| match is_skewed {
                    true if random.random_bool(0.5) => key.map(|_| 1),
                    _ => key.map(|key| (key * copy) % 100),
                };
                let mut key = key;
                let more: Vec<Row> = side
                    .iter()
                    .flatten()
                    .map(|row| Row {
                        id: row.id + copy as i32 * 1_000,
                        keys: row.keys.iter().map(|value| key(*value)).collect(),
                        value: row.value,
                    })
                    .collect();
                rows.extend(more);
            }
            *side = rows.chunks(30).map(<[Row]>::to_vec).collect();
        }
        assert_eq!(case.joined(&mut random, true), case.expected(), "seed {seed}: {case:#?}");
        spilled += case.spilled.load(Ordering::Relaxed);
    }
    // A few cases have no build rows, or keep none of their columns.
    assert!(spilled > 200, "{spilled} of 300 joins");
}

/// A disk that fails at some call must give an error or the right rows, and leave no file.
#[test]
fn joins_that_spill_to_a_disk_that_fails_leave_no_file() {
    let mut failures = 0;
    for seed in 0..600_u64 {
        let mut random = SmallRng::seed_from_u64(seed);
        let case = JoinCase::random(&mut random);
        let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
        let plan = disk.plan().clone();
        let has_quota = random.random_bool(0.5);
        let limit = if has_quota { random.random_range(0..60_000) } else { u64::MAX };
        let temp = TempSpace::on_disk(disk, limit);
        if !has_quota {
            let call = [Call::Open, Call::Read, Call::Write][random.random_range(0..3)];
            plan.fail(call, random.random_range(1..8), [Fault::Io, Fault::NoSpace][random.random_range(0..2)]);
        }
        match case.try_joined(&mut random, true, &temp) {
            Ok(rows) => assert_eq!(rows, case.expected(), "seed {seed}: {case:#?}"),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::DiskFull | ErrorKind::Io), "seed {seed}: {error}");
                failures += 1;
            }
        }
        assert!(temp.files().is_empty(), "seed {seed}");
        assert_eq!(temp.quota().used_bytes(), 0, "seed {seed}");
    }
    assert!((100..600).contains(&failures), "{failures}");
}

/// A single join must return the rows of the outer join, or fail if that has a row of the probe side twice.
#[test]
fn single_joins_are_outer_joins_without_second_matches() {
    let mut failures = 0;
    for seed in 0..1_000 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut case = JoinCase { kind: JoinKind::ProbeOuter, null_aware: false, ..JoinCase::random(&mut random) };
        if seed % 2 == 0 {
            // Fewer rows, so that some of the cases have no second match.
            case.build.truncate(1);
            case.build.iter_mut().for_each(|rows| rows.truncate(3));
        }
        let expected = case.expected();
        let mut probe: Vec<_> = expected.iter().map(|(_, probe, _)| *probe).collect();
        probe.sort_unstable();
        // Without two pairs of the same probe row, the single join must succeed.
        let is_single = probe.windows(2).all(|pair| pair[0] != pair[1]);
        case.kind = JoinKind::ProbeSingle;
        match case.try_joined(&mut random, seed % 3 == 0, &TempSpace::in_memory()) {
            Ok(joined) => {
                assert!(is_single, "seed {seed}: {case:#?}");
                assert_eq!(joined, expected, "seed {seed}: {case:#?}");
            }
            Err(error) => {
                assert!(!is_single, "seed {seed}: {case:#?}");
                assert_eq!(error.kind(), ErrorKind::CardinalityViolation);
                failures += 1;
            }
        }
    }
    assert!((100..900).contains(&failures), "{failures}");
}
