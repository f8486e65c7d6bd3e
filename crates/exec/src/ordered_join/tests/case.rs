//! Random inputs of ordered joins, and the ways to run them.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, Float32Array, Float64Array, Int32Array,
    Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, i256};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rowmill_base::{Broker, Cancel, Result};
use rowmill_plan::{OrderBound, OrderedChoice, OrderedResult};
use rowmill_storage::spill::TempSpace;

use crate::batch::BatchSource;
use crate::collect::collect;
use crate::join::HashJoin;
use crate::ordered_join::{OrderRules, OrderedJoinRequest, join_request};
use crate::values::ReadyBatches;

/// The way in which numbers become positions. Greater numbers become greater positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PositionKind {
    Integer,
    Date,
    Timestamp,
    Float,
    Small,
    Decimal,
    WideDecimal,
    Text,
}

pub(super) const POSITION_KINDS: [PositionKind; 8] = [
    PositionKind::Integer,
    PositionKind::Date,
    PositionKind::Timestamp,
    PositionKind::Float,
    PositionKind::Small,
    PositionKind::Decimal,
    PositionKind::WideDecimal,
    PositionKind::Text,
];

/// The number of infinity, and that of NaN, among floats.
const INFINITY: i64 = 18;
const NAN: i64 = 19;

impl PositionKind {
    pub(super) fn has_distances(self) -> bool {
        !matches!(self, PositionKind::Text | PositionKind::WideDecimal)
    }

    fn is_float(self) -> bool {
        matches!(self, PositionKind::Float | PositionKind::Small)
    }

    /// The float of a number.
    pub(super) fn float(number: i64) -> f64 {
        match number {
            NAN => f64::NAN,
            INFINITY => f64::INFINITY,
            number => number as f64 * 0.75 - 4.5,
        }
    }

    /// The distance between two numbers.
    pub(super) fn distance(self, left: i64, right: i64) -> f64 {
        match self.is_float() {
            true if left == right => 0.0,
            true if left == NAN || right == NAN => f64::INFINITY,
            true => (PositionKind::float(left) - PositionKind::float(right)).abs(),
            false => (left - right).abs() as f64,
        }
    }

    fn array(self, numbers: impl Iterator<Item = Option<i64>>, random: &mut SmallRng) -> ArrayRef {
        let mut float = |number: i64| match number {
            // Both zeros and all NaNs are one value each.
            6 => [0.0, -0.0][random.random_range(0..2)],
            NAN => [f64::NAN, -f64::NAN][random.random_range(0..2)],
            number => PositionKind::float(number),
        };
        match self {
            PositionKind::Integer => {
                Arc::new(numbers.map(|number| number.map(|number| number - 5)).collect::<Int64Array>())
            }
            PositionKind::Date => {
                Arc::new(numbers.map(|number| number.map(|number| number as i32 - 3)).collect::<Date32Array>())
            }
            PositionKind::Timestamp => {
                Arc::new(numbers.map(|number| number.map(|n| n * 1_000_000)).collect::<TimestampMicrosecondArray>())
            }
            PositionKind::Float => Arc::new(numbers.map(|number| number.map(&mut float)).collect::<Float64Array>()),
            PositionKind::Small => {
                Arc::new(numbers.map(|number| number.map(|number| float(number) as f32)).collect::<Float32Array>())
            }
            PositionKind::Decimal => {
                let far = |number: i64| (i128::from(number) - 4) * 10_i128.pow(30);
                Arc::new(numbers.map(|number| number.map(far)).collect::<Decimal128Array>())
            }
            PositionKind::WideDecimal => {
                let far = |number: i64| i256::from_i128(i128::from(number) - 4) << 200;
                Arc::new(numbers.map(|number| number.map(far)).collect::<Decimal256Array>())
            }
            PositionKind::Text => {
                let text = |number: i64| format!("a text that is longer than a view {number:03}");
                Arc::new(numbers.map(|number| number.map(text)).collect::<StringViewArray>())
            }
        }
    }
}

/// The way in which numbers become keys.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyKind {
    Dense,
    Sparse,
    Text,
}

impl KeyKind {
    fn array(self, numbers: impl Iterator<Item = Option<i64>>) -> ArrayRef {
        match self {
            KeyKind::Dense => Arc::new(numbers.map(|key| key.map(|key| key as i32)).collect::<Int32Array>()),
            KeyKind::Sparse => {
                let far = |key: i64| key.wrapping_mul(0x5851_f42d_4c95_7f2d);
                Arc::new(numbers.map(|key| key.map(far)).collect::<Int64Array>())
            }
            KeyKind::Text => {
                let text = |key: i64| format!("{key}{}", " and so on, for long".repeat(key as usize % 2));
                Arc::new(numbers.map(|key| key.map(text)).collect::<StringViewArray>())
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct LeftRow {
    pub(super) id: i32,
    pub(super) keys: Vec<Option<i64>>,
    pub(super) lower: Option<i64>,
    pub(super) upper: Option<i64>,
    pub(super) to: Option<i64>,
}

#[derive(Clone, Debug)]
pub(super) struct RightRow {
    pub(super) id: i32,
    pub(super) keys: Vec<Option<i64>>,
    pub(super) position: Option<i64>,
    pub(super) tie: u64,
    pub(super) value: Option<i64>,
    pub(super) flag: Option<bool>,
}

/// An ordered join and its inputs.
#[derive(Clone, Debug)]
pub(super) struct OrderedCase {
    pub(super) keys: Vec<KeyKind>,
    pub(super) nulls_equal: bool,
    pub(super) position: PositionKind,
    pub(super) has_tie: bool,
    /// Whether each bound is inclusive, if there is one.
    pub(super) lower: Option<bool>,
    pub(super) upper: Option<bool>,
    pub(super) choice: OrderedChoice,
    pub(super) inner: bool,
    pub(super) left: Vec<Vec<LeftRow>>,
    pub(super) right: Vec<Vec<RightRow>>,
    pub(super) batch_rows: usize,
    pub(super) workers: usize,
    pub(super) hashes_equal: bool,
}

/// The columns of each side after its keys.
pub(super) mod column {
    pub(in super::super) const LEFT_ID: usize = 0;
    pub(in super::super) const LOWER: usize = 1;
    pub(in super::super) const UPPER: usize = 2;
    pub(in super::super) const TO: usize = 3;
    pub(in super::super) const LEFT: usize = 4;
    pub(in super::super) const RIGHT_ID: usize = 0;
    pub(in super::super) const POSITION: usize = 1;
    pub(in super::super) const TIE: usize = 2;
    pub(in super::super) const VALUE: usize = 3;
    pub(in super::super) const FLAG: usize = 4;
    pub(in super::super) const TEXT: usize = 5;
    pub(in super::super) const FLOAT: usize = 6;
}

/// How a case is run.
pub(super) struct Run<'a> {
    pub(super) broker: Broker,
    pub(super) temp: &'a TempSpace,
    pub(super) cancel: Cancel,
}

impl<'a> Run<'a> {
    pub(super) fn new(temp: &'a TempSpace, spills: bool) -> Run<'a> {
        temp.set_file_bytes_min(0);
        let broker = Broker::new(1 << 30);
        broker.set_always_spills(spills);
        Run { broker, temp, cancel: Cancel::new() }
    }
}

pub(super) fn text(id: i32) -> String {
    format!("the text of right row number {id}")
}

impl OrderedCase {
    /// A case whose rows and rules depend on `seed`. `scale` multiplies the number of rows.
    pub(super) fn random(seed: u64, scale: usize) -> OrderedCase {
        let random = &mut SmallRng::seed_from_u64(seed);
        let keys = 0..[0, 1, 1, 1, 2, 3][random.random_range(0..6)];
        let kinds = [KeyKind::Dense, KeyKind::Sparse, KeyKind::Text];
        let keys: Vec<KeyKind> = keys.map(|_| kinds[random.random_range(0..3)]).collect();
        let position = POSITION_KINDS[random.random_range(0..POSITION_KINDS.len())];
        let domain = [1, 3, 12][random.random_range(0..3)] * if scale > 1 { 3 } else { 1 };
        let (key_nulls, nulls) = ([0.0, 0.1, 0.4][random.random_range(0..3)], [0.0, 0.15][random.random_range(0..2)]);
        let key = |random: &mut SmallRng| -> Vec<Option<i64>> {
            keys.iter().map(|_| (!random.random_bool(key_nulls)).then(|| random.random_range(0..domain))).collect()
        };
        let number = |random: &mut SmallRng| (!random.random_bool(nulls)).then(|| random.random_range(0..20_i64));
        let most = [1, 20, 90][random.random_range(0..3)];
        let right_rows = random.random_range(0..most) * scale;
        let mut ties: Vec<u64> = (0..right_rows as u64).collect();
        ties.shuffle(random);
        let mut right: Vec<RightRow> = (0..right_rows)
            .map(|row| RightRow {
                id: row as i32,
                keys: key(random),
                position: number(random),
                tie: ties[row],
                value: (!random.random_bool(0.2)).then(|| random.random_range(-9..10)),
                flag: (!random.random_bool(0.1)).then(|| random.random()),
            })
            .collect();
        let left_rows = random.random_range(0..60) * scale;
        let mut left: Vec<LeftRow> = (0..left_rows)
            .map(|row| {
                let (lower, width) = (number(random), random.random_range(-1..8));
                let upper = lower.filter(|_| !random.random_bool(0.1)).map(|lower| (lower + width).clamp(0, 19));
                LeftRow { id: row as i32, keys: key(random), lower, upper, to: number(random) }
            })
            .collect();
        if random.random_bool(0.5) {
            right.sort_by_key(|row| row.position);
        }
        if random.random_bool(0.5) {
            left.sort_by_key(|row| row.upper);
        }
        let bound = |random: &mut SmallRng| (random.random_bool(0.7)).then(|| random.random());
        let choices = [
            OrderedChoice::Last,
            OrderedChoice::First,
            OrderedChoice::Nearest { to: keys.len() + column::TO },
            OrderedChoice::All,
            OrderedChoice::AllWithPrevailing,
        ];
        let mut choice = choices[random.random_range(0..5)];
        if matches!(choice, OrderedChoice::Nearest { .. }) && !position.has_distances() {
            choice = OrderedChoice::Last;
        }
        let batches = |random: &mut SmallRng| [1, 3, 17, 1_000][random.random_range(0..4)];
        let (of_left, of_right) = (batches(random), batches(random));
        OrderedCase {
            keys,
            nulls_equal: random.random_bool(0.25),
            position,
            has_tie: random.random_bool(0.6),
            lower: bound(random),
            upper: bound(random),
            choice,
            inner: random.random(),
            left: left.chunks(of_left).map(<[LeftRow]>::to_vec).collect(),
            right: right.chunks(of_right).map(<[RightRow]>::to_vec).collect(),
            batch_rows: [1, 3, 1_000][random.random_range(0..3)],
            workers: random.random_range(1..=4),
            hashes_equal: random.random_bool(0.2),
        }
    }

    fn key_columns(&self, keys: &[&[Option<i64>]]) -> Vec<ArrayRef> {
        let column = |(number, kind): (usize, &KeyKind)| kind.array(keys.iter().map(|keys| keys[number]));
        self.keys.iter().enumerate().map(column).collect()
    }

    fn left_batch(&self, rows: &[LeftRow], random: &mut SmallRng) -> RecordBatch {
        let mut columns = self.key_columns(&rows.iter().map(|row| &row.keys[..]).collect::<Vec<_>>());
        columns.push(Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.id))));
        columns.push(self.position.array(rows.iter().map(|row| row.lower), random));
        columns.push(self.position.array(rows.iter().map(|row| row.upper), random));
        columns.push(self.position.array(rows.iter().map(|row| row.to), random));
        batch(columns)
    }

    fn right_batch(&self, rows: &[RightRow], random: &mut SmallRng) -> RecordBatch {
        let mut columns = self.key_columns(&rows.iter().map(|row| &row.keys[..]).collect::<Vec<_>>());
        columns.push(Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.id))));
        columns.push(self.position.array(rows.iter().map(|row| row.position), random));
        columns.push(Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.tie))));
        columns.push(Arc::new(rows.iter().map(|row| row.value).collect::<Int64Array>()));
        columns.push(Arc::new(rows.iter().map(|row| row.flag).collect::<BooleanArray>()));
        columns.push(Arc::new(rows.iter().map(|row| Some(text(row.id))).collect::<StringViewArray>()));
        let float = |row: &RightRow| row.value.map(|value| value as f64 / 2.0);
        columns.push(Arc::new(rows.iter().map(float).collect::<Float64Array>()));
        batch(columns)
    }

    /// The number of a right column for pairs.
    pub(super) fn in_pair(&self, right_column: usize) -> usize {
        self.keys.len() + column::LEFT + self.keys.len() + right_column
    }

    /// The join over the inputs of the case.
    pub(super) fn join(
        &self,
        result: OrderedResult,
        output: Vec<usize>,
        kinds: Vec<DataType>,
        run: &Run<'_>,
    ) -> Result<Arc<HashJoin>> {
        let random = &mut SmallRng::seed_from_u64(7);
        let left: Vec<RecordBatch> = self.left.iter().map(|rows| self.left_batch(rows, random)).collect();
        let right: Vec<RecordBatch> = self.right.iter().map(|rows| self.right_batch(rows, random)).collect();
        let left = ReadyBatches::new(self.left_batch(&[], random).schema(), left);
        let right = ReadyBatches::new(self.right_batch(&[], random).schema(), right);
        let width = self.keys.len();
        let bound = |inclusive: Option<bool>, column: usize| {
            inclusive.map(|inclusive| OrderBound { column: width + column, inclusive, origin: None })
        };
        let request = OrderedJoinRequest {
            on: (0..width).map(|key| (key, key)).collect(),
            nulls_equal: self.nulls_equal,
            order: OrderRules {
                position: width + column::POSITION,
                tie: self.has_tie.then_some(width + column::TIE),
                lower: bound(self.lower, column::LOWER),
                upper: bound(self.upper, column::UPPER),
                choice: self.choice,
            },
            result,
            output,
            schema: schema(kinds),
            batch_rows: self.batch_rows,
            cancel: run.cancel.clone(),
            broker: run.broker.clone(),
            temp: run.temp.clone(),
        };
        let request = join_request(left.schema(), right.schema(), request)?;
        HashJoin::with_small_sizes(right, left, request, self.hashes_equal)
    }

    /// Runs the join to its end.
    pub(super) fn collect(&self, join: Arc<HashJoin>, run: &Run<'_>) -> Result<Vec<RecordBatch>> {
        let join: Arc<dyn BatchSource> = join;
        let batches = collect(&join, self.workers);
        drop(join);
        assert_eq!(run.broker.used_bytes(), 0, "all memory is given back");
        assert_eq!((run.temp.quota().used_bytes(), run.temp.files().len()), (0, 0), "all files are gone");
        for batch in batches.iter().flatten() {
            assert!((1..=self.batch_rows).contains(&batch.num_rows()), "{} rows", batch.num_rows());
        }
        batches
    }
}

fn schema(kinds: Vec<DataType>) -> SchemaRef {
    Arc::new(Schema::new(kinds.into_iter().map(|kind| Field::new("x", kind, true)).collect::<Vec<_>>()))
}

fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let schema = schema(columns.iter().map(|column| column.data_type().clone()).collect());
    RecordBatch::try_new(schema, columns).expect("columns of one length")
}
