//! Groupings of random rows, compared with a model that uses nothing but maps.

mod distinct;
mod frequent;
mod parts;
mod sketches;
mod words;

use crate::aggregate::named;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, Int64Array, RecordBatch,
    RecordBatchOptions, StringViewArray,
};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, SchemaRef, UInt64Type};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rowmill_base::{Broker, Cancel, Error, ErrorKind, Result, Settings, SqlType};
use rowmill_io::{Call, Disk, Fault, FaultyDisk, MemoryDisk};
use rowmill_plan::{
    Aggregate, AggregateFunction, AggregateOrder, CompareOp, Expr, Group, GroupKey, Predicate, SortKey,
};
use rowmill_storage::spill::TempSpace;
use rowmill_txn::{ColumnSpec, Engine, MAIN_SCHEMA};

use super::choice::group_table;
use super::gather::Policy;
use super::*;
use crate::arithmetic::{Arithmetic, ArithmeticStep, IntegerSpan, Operator};
use crate::hash::tests::let_all_hashes_meet;
use crate::testing::TestTable;

/// A value as the model sees it. NaN is the greatest float, and both zeros are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ModelValue {
    Null,
    Number(i128),
    Float(i64),
    Bytes(Vec<u8>),
    List(Vec<ModelValue>),
}

impl ModelValue {
    fn of(array: &ArrayRef, row: usize) -> ModelValue {
        if array.is_null(row) {
            return ModelValue::Null;
        }
        let slice = array.slice(row, 1);
        match array.data_type() {
            DataType::Utf8View => ModelValue::Bytes(array.as_string_view().value(row).into()),
            DataType::BinaryView => ModelValue::Bytes(array.as_binary_view().value(row).into()),
            DataType::FixedSizeBinary(_) => ModelValue::Bytes(array.as_fixed_size_binary().value(row).into()),
            DataType::List(_) => {
                let list = array.as_list::<i32>().value(row);
                ModelValue::List((0..list.len()).map(|place| ModelValue::of(&list, place)).collect())
            }
            DataType::Boolean => ModelValue::Number(array.as_boolean().value(row).into()),
            DataType::Float64 => ModelValue::float(array.as_primitive::<Float64Type>().value(row)),
            DataType::UInt64 => ModelValue::Number(array.as_primitive::<UInt64Type>().value(row).into()),
            DataType::Decimal128(..) => {
                ModelValue::Number(array.as_primitive::<arrow::datatypes::Decimal128Type>().value(row))
            }
            _ => {
                let number = arrow::compute::cast(&slice, &DataType::Int64).expect("a number");
                ModelValue::Number(number.as_primitive::<arrow::datatypes::Int64Type>().value(0).into())
            }
        }
    }

    fn float(value: f64) -> ModelValue {
        let bits = if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() } as i64;
        ModelValue::Float(bits ^ (bits >> 63 & i64::MAX))
    }

    fn as_float(&self) -> f64 {
        let ModelValue::Float(bits) = self else { panic!("{self:?} is not a float") };
        f64::from_bits((bits ^ (bits >> 63 & i64::MAX)) as u64)
    }
}

/// A random column: its type, the number of distinct values, and whether some are NULL.
#[derive(Clone, Debug)]
struct RandomColumn {
    kind: SqlType,
    values: u64,
    nullable: bool,
}

impl RandomColumn {
    fn random(random: &mut StdRng) -> RandomColumn {
        let kinds = [
            SqlType::Int8,
            SqlType::Int32,
            SqlType::Int64,
            SqlType::UInt64,
            SqlType::Boolean,
            SqlType::Date,
            SqlType::Decimal { precision: 20, scale: 2 },
            SqlType::Float64,
            SqlType::TEXT,
            SqlType::TEXT,
            SqlType::Blob,
            SqlType::Uuid,
        ];
        let kind = kinds[random.random_range(0..kinds.len())].clone();
        RandomColumn { kind, values: [1, 3, 40, 1_000_000][random.random_range(0..4)], nullable: random.random() }
    }

    fn array(&self, random: &mut StdRng, rows: usize) -> ArrayRef {
        let numbers: Vec<Option<u64>> = (0..rows)
            .map(|_| {
                let is_null = self.nullable && random.random_range(0..5) == 0;
                (!is_null).then(|| random.random_range(0..self.values).wrapping_mul(0x9e37_79b9_7f4a_7c15))
            })
            .collect();
        let texts = || {
            numbers.iter().map(|number| number.map(|number| "x".repeat((number % 40) as usize) + &number.to_string()))
        };
        let short = |bits: u32| {
            arrow::array::Int64Array::from_iter(
                numbers.iter().map(|number| number.map(|number| (number as i64) >> (64 - bits))),
            )
        };
        match &self.kind {
            SqlType::Boolean => {
                Arc::new(BooleanArray::from_iter(numbers.iter().map(|number| number.map(|n| n % 3 == 0))))
            }
            SqlType::Text { .. } => Arc::new(StringViewArray::from_iter(texts())),
            SqlType::Blob => Arc::new(BinaryViewArray::from_iter(texts())),
            SqlType::Uuid => {
                let bytes = numbers.iter().map(|number| number.map(|number| u128::from(number).pow(2).to_le_bytes()));
                Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, 16).expect("16 bytes each"))
            }
            // Sums of multiples of 1/4 are exact, so the order of rows does not matter.
            SqlType::Float64 => Arc::new(arrow::array::Float64Array::from_iter(numbers.iter().map(|number| {
                number.map(|number| match number % 50 {
                    7 => f64::NAN,
                    8 => -0.0,
                    9 => 0.0,
                    10 => f64::INFINITY,
                    _ => ((number as i64) >> 50) as f64 / 4.0,
                })
            }))),
            SqlType::UInt64 => Arc::new(arrow::array::UInt64Array::from(numbers)),
            SqlType::Int8 => cast(&short(8), &DataType::Int8),
            SqlType::Int32 | SqlType::Date => cast(&cast(&short(32), &DataType::Int32), &self.kind.arrow()),
            SqlType::Decimal { .. } => {
                let numbers = numbers.iter().map(|number| number.map(|number| i128::from(number as i64)));
                let decimals = arrow::array::Decimal128Array::from_iter(numbers);
                Arc::new(decimals.with_data_type(self.kind.arrow()))
            }
            _ => Arc::new(short(64)),
        }
    }
}

fn cast(values: &dyn Array, kind: &DataType) -> ArrayRef {
    arrow::compute::cast(values, kind).expect("values of the type")
}

/// A function of columns that gives different results for some values and equal results for others.
#[derive(Debug)]
struct Alike(Vec<usize>);

impl VectorFunction for Alike {
    fn columns(&self) -> &[usize] {
        &self.0
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let of_row = |row: usize| {
            columns.iter().map(|column| format!("{:?}", ModelValue::of(column, row)).len() as i64).sum::<i64>()
        };
        Ok(Arc::new(arrow::array::Int64Array::from_iter_values((0..rows).map(of_row))))
    }
}

/// A condition on columns that is true, false or NULL.
#[derive(Debug)]
struct Perhaps(Alike);

impl Perhaps {
    fn of(number: i128) -> Option<bool> {
        [Some(true), Some(false), None, Some(true)][(number % 4) as usize]
    }
}

impl VectorFunction for Perhaps {
    fn columns(&self) -> &[usize] {
        self.0.columns()
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let numbers = self.0.evaluate(columns, rows)?;
        let numbers = numbers.as_primitive::<arrow::datatypes::Int64Type>().values();
        Ok(Arc::new(BooleanArray::from_iter(numbers.iter().map(|number| Perhaps::of((*number).into())))))
    }
}

/// Batches that are given in advance, with an error among them where a test needs one.
#[derive(Debug)]
struct Given {
    schema: SchemaRef,
    batches: Mutex<VecDeque<Result<RecordBatch>>>,
}

impl BatchSource for Given {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        4
    }

    fn worker(self: Arc<Self>) -> Batches {
        Box::new(std::iter::from_fn(move || self.batches.lock().pop_front()))
    }
}

/// Random rows.
struct Data {
    columns: Vec<RandomColumn>,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Data {
    fn random(random: &mut StdRng) -> Data {
        let columns: Vec<RandomColumn> = (0..random.random_range(1..6)).map(|_| RandomColumn::random(random)).collect();
        let fields = columns
            .iter()
            .enumerate()
            .map(|(place, column)| Field::new(format!("c{place}"), column.kind.arrow(), column.nullable));
        let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batches = (0..random.random_range(0..6)).map(|_| {
            let rows = [0, 1, 30, 400, 3_000][random.random_range(0..5)];
            let arrays = columns.iter().map(|column| column.array(random, rows)).collect();
            RecordBatch::try_new(Arc::clone(&schema), arrays).expect("columns as in the schema")
        });
        let batches = batches.collect();
        Data { columns, schema, batches }
    }

    fn rows(&self) -> Vec<Vec<ModelValue>> {
        let of_batch = |batch: &RecordBatch| {
            let rows =
                (0..batch.num_rows()).map(|row| batch.columns().iter().map(|c| ModelValue::of(c, row)).collect());
            rows.collect::<Vec<Vec<ModelValue>>>()
        };
        self.batches.iter().flat_map(of_batch).collect()
    }

    fn as_batches(&self) -> GroupSource {
        let batches = Mutex::new(self.batches.iter().cloned().map(Ok).collect());
        let source: Arc<dyn BatchSource> = Arc::new(Given { schema: Arc::clone(&self.schema), batches });
        source.into()
    }

    /// The rows as a table of blocks and runs. The rows with numbers in `deleted` are deleted again.
    fn as_table(&self, rows_per_block: usize, deleted: &[u64]) -> GroupSource {
        let mut settings = Settings::default();
        settings.set("rows_per_block", &rows_per_block.to_string()).expect("a setting");
        let engine = Engine::memory(settings).expect("memory");
        let mut transaction = engine.begin().expect("open");
        let schema = transaction.view().expect("open").catalog().schema(MAIN_SCHEMA).expect("there").id;
        let columns = self.columns.iter().enumerate().map(|(place, column)| ColumnSpec {
            nullable: column.nullable,
            ..ColumnSpec::new(format!("c{place}"), column.kind.clone())
        });
        let table = transaction.create_table(schema, "t", columns.collect()).expect("a table");
        for batch in &self.batches {
            transaction.insert(table, batch).expect("rows");
        }
        transaction.commit().expect("no conflict");
        let mut transaction = engine.begin().expect("open");
        transaction.delete(table, deleted).expect("rows of the table");
        transaction.commit().expect("no conflict");
        let table: Arc<dyn rowmill_storage::TableSource> =
            engine.snapshot().expect("open").table(table).expect("a table");
        table.into()
    }

    fn kind(&self, expr: Expr) -> DataType {
        match expr {
            Expr::Column(column) => self.columns[column].kind.arrow(),
            Expr::Function(_) => DataType::Int64,
        }
    }
}

/// The type of a sum.
fn total_kind(kind: &DataType) -> DataType {
    match kind {
        DataType::Float64 => DataType::Float64,
        DataType::Decimal128(_, scale) => DataType::Decimal128(38, *scale),
        DataType::Int64 | DataType::UInt64 => DataType::Decimal128(38, 0),
        _ => DataType::Int64,
    }
}

fn aggregate(function: AggregateFunction, argument: Option<(Expr, DataType)>) -> Aggregate {
    let (kind, parameter): (_, Option<ArrayRef>) = match (function.name, &argument) {
        ("count", _) | (_, None) => (DataType::Int64, None),
        ("sum", Some((_, kind))) => (total_kind(kind), None),
        ("array_agg", Some((_, kind))) => (DataType::List(Arc::new(Field::new("item", kind.clone(), true))), None),
        ("percentile_cont" | "percentile_disc", Some((_, kind))) => {
            (kind.clone(), Some(Arc::new(arrow::array::Float64Array::from(vec![0.3]))))
        }
        ("string_agg", Some((_, kind))) => (kind.clone(), Some(Arc::new(StringViewArray::from_iter_values(["|"])))),
        ("nth_value", Some((_, kind))) => (kind.clone(), Some(Arc::new(arrow::array::Int64Array::from(vec![NTH])))),
        ("avg" | "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp", _) => (DataType::Float64, None),
        (_, Some((_, kind))) => (kind.clone(), None),
    };
    Aggregate { parameter, ..Aggregate::new(function, argument, kind) }
}

/// Whether `function` takes values of `kind` without a cast.
fn takes(function: AggregateFunction, kind: &DataType) -> bool {
    function.kinds(std::slice::from_ref(kind)).is_some_and(|(casts, _)| casts == [kind.clone()])
}

/// The place that `nth_value` asks for.
const NTH: i64 = -3;

/// An order that decides the place of each value, except among equal values.
fn random_order(
    data: &Data,
    random: &mut StdRng,
    (expr, kind): (Expr, &DataType),
    distinct: bool,
) -> Vec<AggregateOrder> {
    let others = if distinct { 0 } else { random.random_range(0..3) };
    let others: Vec<Expr> = (0..others).map(|_| Expr::Column(random.random_range(0..data.columns.len()))).collect();
    let all = others.into_iter().map(|expr| (expr, data.kind(expr))).chain([(expr, kind.clone())]);
    all.map(|(expr, kind)| AggregateOrder { expr, kind, descending: random.random(), nulls_first: random.random() })
        .collect()
}

fn random_group(data: &Data, random: &mut StdRng) -> Group {
    let mut expr = || match random.random_range(0..4) {
        0 => Expr::Function(random.random_range(0..FILTER)),
        _ => Expr::Column(random.random_range(0..data.columns.len())),
    };
    let keys: Vec<Expr> = (0..[0, 1, 1, 2, 3, 5][expr_count(&mut expr) % 6]).map(|_| expr()).collect();
    let arguments: Vec<Expr> = (0..4).map(|_| expr()).collect();
    let keys = keys.into_iter().map(|expr| {
        let nullable = match expr {
            Expr::Column(column) => data.columns[column].nullable,
            Expr::Function(_) => true,
        };
        GroupKey { expr, kind: data.kind(expr), nullable }
    });
    let keys = keys.collect();
    let functions = [
        named("count"),
        named("sum"),
        named("avg"),
        named("min"),
        named("max"),
        named("bit_and"),
        named("bit_or"),
        named("bit_xor"),
        named("var_pop"),
        named("var_samp"),
        named("stddev_pop"),
        named("stddev_samp"),
        named("median"),
        named("percentile_cont"),
        named("percentile_disc"),
        named("mode"),
        named("array_agg"),
        named("string_agg"),
        named("first_value"),
        named("last_value"),
        named("nth_value"),
    ];
    let mut aggregates: Vec<Aggregate> = Vec::new();
    for expr in arguments {
        let (function, kind) = (functions[random.random_range(0..functions.len())], data.kind(expr));
        aggregates.push(Aggregate {
            filter: (random.random_range(0..4) == 0).then_some(Expr::Function(FILTER)),
            distinct: random.random_range(0..3) == 0,
            ..match function {
                function if function.is_count() && random.random() => aggregate(function, None),
                function if !takes(function, &kind) => aggregate(named("max"), Some((expr, kind.clone()))),
                function => aggregate(function, Some((expr, kind.clone()))),
            }
        });
        let Some(aggregate) = aggregates.last_mut() else { continue };
        aggregate.distinct &= aggregate.argument.is_some();
        let always = matches!(aggregate.function.name, "first_value" | "last_value" | "nth_value");
        if always || matches!(aggregate.function.name, "array_agg" | "string_agg") && random.random() {
            aggregate.order = random_order(data, random, (expr, &kind), aggregate.distinct);
        }
        aggregate.skips_nulls = aggregate.function.takes_nulls() && random.random();
    }
    aggregates.truncate(random.random_range(0..5));
    Group { predicates: Vec::new(), keys, aggregates, always: Vec::new() }
}

fn expr_count(expr: &mut impl FnMut() -> Expr) -> usize {
    match expr() {
        Expr::Column(column) => column,
        Expr::Function(function) => function + 3,
    }
}

/// The groups that the model finds: for each key its aggregates.
fn model(rows: &[Vec<ModelValue>], data: &Data, functions: &[Arc<Alike>], group: &Group) -> Vec<Vec<ModelValue>> {
    let value = |row: &[ModelValue], expr: Expr| match expr {
        Expr::Column(column) => row[column].clone(),
        Expr::Function(function) => {
            let function = if function == FILTER { 0 } else { function };
            let lengths = functions[function].0.iter().map(|column| format!("{:?}", row[*column]).len() as i128);
            ModelValue::Number(lengths.sum())
        }
    };
    let mut groups: BTreeMap<Vec<ModelValue>, Vec<&Vec<ModelValue>>> = BTreeMap::new();
    if group.keys.is_empty() {
        groups.insert(Vec::new(), Vec::new());
    }
    for row in rows {
        groups.entry(group.keys.iter().map(|key| value(row, key.expr)).collect()).or_default().push(row);
    }
    let aggregated = |aggregate: &Aggregate, rows: &[&Vec<ModelValue>]| {
        let is_in = |row: &&&Vec<ModelValue>| match aggregate.filter {
            Some(filter) => {
                let ModelValue::Number(number) = value(row, filter) else { panic!("a number") };
                Perhaps::of(number) == Some(true)
            }
            None => true,
        };
        let rows: Vec<&Vec<ModelValue>> = rows.iter().filter(is_in).copied().collect();
        let Some((expr, _)) = aggregate.argument else { return ModelValue::Number(rows.len() as i128) };
        let takes_nulls = aggregate.function.takes_nulls() && !aggregate.skips_nulls;
        let mut rows: Vec<&Vec<ModelValue>> =
            rows.into_iter().filter(|row| takes_nulls || value(row, expr) != ModelValue::Null).collect();
        // Sort by the aggregate's order, then by the value, so that the aggregates can read off the sorted values.
        rows.sort_by(|left, right| {
            let by = |order: &AggregateOrder| {
                let (left, right) = (value(left, order.expr), value(right, order.expr));
                let nulls = (left == ModelValue::Null).cmp(&(right == ModelValue::Null));
                let nulls = if order.nulls_first { nulls.reverse() } else { nulls };
                nulls.then_with(|| if order.descending { right.cmp(&left) } else { left.cmp(&right) })
            };
            let order = aggregate.order.iter().map(by).find(|order| order.is_ne());
            order.unwrap_or_else(|| value(left, expr).cmp(&value(right, expr)))
        });
        // The values are sorted, so equal ones are neighbours.
        let mut values: Vec<ModelValue> = rows.into_iter().map(|row| value(row, expr)).collect();
        if aggregate.distinct {
            values.dedup();
        }
        computed(aggregate.function, values, &data.kind(expr))
    };
    let all = groups.into_iter().map(|(mut key, rows)| {
        key.extend(group.aggregates.iter().map(|aggregate| aggregated(aggregate, &rows)));
        key
    });
    normal(all.collect(), group)
}

/// Computes an aggregate of ordered values.
fn computed(function: AggregateFunction, values: Vec<ModelValue>, kind: &DataType) -> ModelValue {
    let count = values.len();
    if count == 0 && function != named("count") {
        return ModelValue::Null;
    }
    let number =
        |value: &ModelValue| if let ModelValue::Number(number) = value { *number } else { panic!("{value:?}") };
    let is_float = *kind == DataType::Float64;
    let total = || values.iter().map(number).sum::<i128>();
    let float_total = || values.iter().map(ModelValue::as_float).sum::<f64>();
    let squares = || {
        let mean = float_total() / count as f64;
        values.iter().map(|value| (value.as_float() - mean).powi(2)).sum::<f64>()
    };
    match function.name {
        "count" => ModelValue::Number(count as i128),
        "min" => values[0].clone(),
        "max" => values[count - 1].clone(),
        "sum" if is_float => ModelValue::float(float_total()),
        "sum" => ModelValue::Number(total()),
        "avg" if is_float => ModelValue::float(float_total() / count as f64),
        "avg" => {
            let scale = if let DataType::Decimal128(_, scale) = kind { *scale } else { 0 };
            ModelValue::float(crate::quotient::average(total(), count as u64, scale))
        }
        "bit_and" => ModelValue::Number(values.iter().map(number).fold(bits_of_all(kind), |all, bits| all & bits)),
        "bit_or" => ModelValue::Number(values.iter().map(number).fold(0, |all, bits| all | bits)),
        "bit_xor" => ModelValue::Number(values.iter().map(number).fold(0, |all, bits| all ^ bits)),
        "var_pop" => ModelValue::float(squares() / count as f64),
        "stddev_pop" => ModelValue::float((squares() / count as f64).sqrt()),
        "var_samp" | "stddev_samp" if count == 1 => ModelValue::Null,
        "var_samp" => ModelValue::float(squares() / (count - 1) as f64),
        "stddev_samp" => ModelValue::float((squares() / (count - 1) as f64).sqrt()),
        "median" => match (&values[(count - 1) / 2], &values[count / 2]) {
            (low, high) if low == high => low.clone(),
            (ModelValue::Number(low), ModelValue::Number(high)) => ModelValue::Number((low + high) / 2),
            (low, high) => ModelValue::float((low.as_float() + high.as_float()) / 2.0),
        },
        "percentile_cont" => {
            let place = 0.3 * (count - 1) as f64;
            let part = ((place - place.floor()) * 1e6).floor() / 1e6;
            let (low, high) = (&values[place.floor() as usize], &values[place.ceil() as usize]);
            let between = |low: f64, high: f64| low + (high - low) * part;
            match (low, high) {
                (low, _) if part == 0.0 => low.clone(),
                (ModelValue::Number(low), ModelValue::Number(high)) => {
                    ModelValue::Number(between(*low as f64, *high as f64) as i128)
                }
                (low, high) => ModelValue::float(between(low.as_float(), high.as_float())),
            }
        }
        "percentile_disc" => values[((0.3 * count as f64).ceil() as usize).max(1) - 1].clone(),
        "mode" => {
            let often = |value: &ModelValue| values.iter().filter(|other| *other == value).count();
            let most = values.iter().map(often).max();
            values.iter().find(|value| Some(often(value)) == most).expect("a value").clone()
        }
        "array_agg" => ModelValue::List(values),
        "string_agg" => {
            let texts = values
                .iter()
                .map(|value| if let ModelValue::Bytes(bytes) = value { &**bytes } else { panic!("{value:?}") });
            ModelValue::Bytes(texts.collect::<Vec<&[u8]>>().join(&b'|'))
        }
        "approx_distinct" => panic!("an estimate has a test of its own"),
        "first_value" => values[0].clone(),
        "last_value" => values[count - 1].clone(),
        "nth_value" => count.checked_add_signed(NTH as isize).map_or(ModelValue::Null, |place| values[place].clone()),
        function => panic!("{function:?} has a test of its own"),
    }
}

fn bits_of_all(kind: &DataType) -> i128 {
    if *kind == DataType::UInt64 { u64::MAX.into() } else { -1 }
}

/// Makes results comparable: sorts joined texts that have no order, and rounds floats that depend on the order of rows.
fn normal(mut rows: Vec<Vec<ModelValue>>, group: &Group) -> Vec<Vec<ModelValue>> {
    for row in &mut rows {
        for (value, aggregate) in row[group.keys.len()..].iter_mut().zip(&group.aggregates) {
            match (aggregate.function.name, &mut *value) {
                ("array_agg", ModelValue::List(values)) if aggregate.order.is_empty() => values.sort(),
                ("string_agg", ModelValue::Bytes(bytes)) if aggregate.order.is_empty() => {
                    let mut parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'|').collect();
                    parts.sort();
                    *value = ModelValue::Bytes(parts.join(&b'|'));
                }
                ("var_pop" | "var_samp" | "stddev_pop" | "stddev_samp", ModelValue::Float(_)) => {
                    let float = value.as_float();
                    let rounded =
                        if float.abs() < 1e-3 { 0.0 } else { format!("{float:.6e}").parse().expect("a float") };
                    *value = ModelValue::float(rounded);
                }
                _ => {}
            }
        }
    }
    rows.sort();
    rows
}

fn request(group: Group, functions: Vec<Arc<dyn VectorFunction>>) -> GroupRequest {
    let kinds = group.keys.iter().map(|key| &key.kind).chain(group.aggregates.iter().map(|aggregate| &aggregate.kind));
    let fields = kinds.enumerate().map(|(place, kind)| Field::new(format!("r{place}"), kind.clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let (cancel, broker) = (Cancel::new(), Broker::new(1 << 30));
    GroupRequest {
        group,
        functions,
        schema,
        top: None,
        limit: None,
        only_presence: false,
        batch_rows: 3,
        // Often more threads than blocks.
        threads: 7,
        cancel,
        broker,
        temp: TempSpace::in_memory(),
        metrics: Arc::default(),
        counts_workers: true,
    }
}

/// Runs several workers and returns all rows, or an error if one of them fails.
fn run(group_by: &Arc<GroupBy>, workers: usize, hashes_meet: bool) -> Result<Vec<Vec<ModelValue>>> {
    let source: Arc<dyn BatchSource> = Arc::clone(group_by) as _;
    run_source(&source, &group_by.request, workers, hashes_meet)
}

fn run_source(
    source: &Arc<dyn BatchSource>,
    request: &GroupRequest,
    workers: usize,
    hashes_meet: bool,
) -> Result<Vec<Vec<ModelValue>>> {
    let shares = std::thread::scope(|scope| {
        let spawn = |_| {
            scope.spawn(|| {
                let_all_hashes_meet(hashes_meet);
                Arc::clone(source).worker().collect::<Vec<Result<RecordBatch>>>()
            })
        };
        let threads: Vec<_> = (0..workers).map(spawn).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    let mut rows = Vec::new();
    let mut failed = None;
    for batch in shares {
        match batch {
            Ok(batch) => {
                assert!(batch.num_rows() <= request.batch_rows);
                rows.extend(
                    (0..batch.num_rows()).map(|row| batch.columns().iter().map(|c| ModelValue::of(c, row)).collect()),
                );
            }
            Err(error) => failed = Some(error),
        }
    }
    let rows = normal(rows, &request.group);
    failed.map_or(Ok(rows), Err)
}

/// Policies whose table is of no use, of little use, and of great use.
fn policies() -> [Option<Policy>; 4] {
    let policy = |groups_max, rows_per_group_min, range_bytes| {
        Some(Policy { groups_max, rows_per_group_min, rows_past_table: 5_000, slice_rows_min: 1, range_bytes })
    };
    [None, policy(0, 2, Some(100)), policy(100, 2, Some(5_000)), policy(usize::MAX, 0, None)]
}

/// The number of the function that says which rows count.
const FILTER: usize = 2;

fn functions_of(data: &Data, random: &mut StdRng) -> Vec<Arc<Alike>> {
    let mut column = || random.random_range(0..data.columns.len());
    let mut two = vec![column(), column()];
    two.dedup();
    vec![Arc::new(Alike(vec![column()])), Arc::new(Alike(two))]
}

fn as_dyn(functions: &[Arc<Alike>]) -> Vec<Arc<dyn VectorFunction>> {
    let filter: Arc<dyn VectorFunction> = Arc::new(Perhaps(Alike(functions[0].0.clone())));
    functions.iter().map(|function| Arc::clone(function) as Arc<dyn VectorFunction>).chain([filter]).collect()
}

/// Makes some requests spill after each batch, and some of these merge each partition in several passes.
fn spill_sometimes(request: &GroupRequest, random: &mut StdRng) -> bool {
    let is_spilled = random.random();
    request.broker.set_always_spills(is_spilled);
    if is_spilled && random.random() {
        request.broker.set_limit_bytes(1 << 20);
    }
    request.temp.set_file_bytes_min([0, 1 << 12, 1 << 20][random.random_range(0..3)]);
    is_spilled
}

#[test]
fn random_batches_have_the_groups_of_the_model() {
    for seed in 0..60 {
        let mut random = StdRng::seed_from_u64(seed);
        let data = Data::random(&mut random);
        let functions = functions_of(&data, &mut random);
        let group = random_group(&data, &mut random);
        let rows = data.rows();
        let expected = model(&rows, &data, &functions, &group);
        for policy in policies() {
            let hashes_meet = rows.len() < 500 && random.random();
            let request = request(group.clone(), as_dyn(&functions));
            let (broker, temp) = (request.broker.clone(), request.temp.clone());
            let is_spilled = spill_sometimes(&request, &mut random);
            let group_by = GroupBy::with_policy(data.as_batches(), request, policy).expect("a grouping");
            let workers = random.random_range(1..5);
            let found = run(&group_by, workers, hashes_meet).expect("groups");
            assert_eq!(found, expected, "seed {seed}, {policy:?}, {workers} workers, {is_spilled}: {group:?}");
            drop(group_by);
            assert_eq!((broker.used_bytes(), temp.files().len()), (0, 0), "seed {seed}");
        }
    }
}

#[test]
fn random_tables_have_the_groups_of_the_model() {
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed + 1_000);
        let data = Data::random(&mut random);
        let functions = functions_of(&data, &mut random);
        let mut group = random_group(&data, &mut random);
        let mut rows = data.rows();
        let deleted: std::collections::BTreeSet<u64> =
            (0..rows.len() as u64).filter(|_| seed % 3 == 0 && random.random_range(0..4) == 0).collect();
        let mut number = 0;
        rows.retain(|_| {
            number += 1;
            !deleted.contains(&(number - 1))
        });
        if seed % 2 == 0
            && let Some(first) = rows.first()
            && let column = random.random_range(0..data.columns.len())
            && data.columns[column].kind == SqlType::TEXT
            && let ModelValue::Bytes(text) = &first[column]
        {
            let least = first[column].clone();
            let value = StringViewArray::from_iter_values([String::from_utf8(text.clone()).expect("a text")]);
            let op = CompareOp::GreaterOrEqual;
            group.predicates.push(Predicate::Compare { column, op, value: Arc::new(value) });
            rows.retain(|row| row[column] != ModelValue::Null && row[column] >= least);
        }
        let expected = model(&rows, &data, &functions, &group);
        let rows_per_block = [50, 700, 100_000][random.random_range(0..3)];
        let source = data.as_table(rows_per_block, &deleted.into_iter().collect::<Vec<_>>());
        for policy in policies() {
            let hashes_meet = rows.len() < 500 && random.random();
            let request = request(group.clone(), as_dyn(&functions));
            let is_spilled = spill_sometimes(&request, &mut random);
            let group_by = GroupBy::with_policy(source.clone(), request, policy).expect("a grouping");
            let workers = random.random_range(1..5);
            let found = run(&group_by, workers, hashes_meet).expect("groups");
            assert_eq!(found, expected, "seed {seed}, {policy:?}, {workers} workers, {is_spilled}: {group:?}");
        }
    }
}

/// Compares two rows in an order.
fn compare(left: &[ModelValue], right: &[ModelValue], top: &GroupTop) -> std::cmp::Ordering {
    let of = |key: &SortKey| {
        let (left, right) = (&left[key.column], &right[key.column]);
        match (*left == ModelValue::Null, *right == ModelValue::Null) {
            (false, false) if key.descending => right.cmp(left),
            (false, false) => left.cmp(right),
            (left, right) if key.nulls_first => right.cmp(&left),
            (left, right) => left.cmp(&right),
        }
    };
    top.keys.iter().map(of).find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
}

#[test]
fn a_top_grouping_returns_the_first_groups_of_the_order() {
    for seed in 0..60 {
        let mut random = StdRng::seed_from_u64(seed + 2_000);
        let data = Data::random(&mut random);
        let functions = functions_of(&data, &mut random);
        let group = random_group(&data, &mut random);
        let columns = group.keys.len() + group.aggregates.len();
        if columns == 0 {
            continue;
        }
        let mut all = model(&data.rows(), &data, &functions, &group);
        for policy in policies() {
            let keys = (0..random.random_range(1..4)).map(|_| SortKey {
                column: random.random_range(0..columns),
                descending: random.random(),
                nulls_first: random.random(),
            });
            let keys = keys.collect();
            let top = GroupTop { keys, rows: [0, 1, 10, 1_000][random.random_range(0..4)] };
            let request = GroupRequest { top: Some(top.clone()), ..request(group.clone(), as_dyn(&functions)) };
            let group_by = GroupBy::with_policy(data.as_batches(), request, policy).expect("a grouping");
            let mut found = run(&group_by, random.random_range(1..4), false).expect("groups");
            assert!(found.iter().all(|row| all.binary_search(row).is_ok()), "seed {seed}: an unknown group");
            assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "seed {seed}: a group twice");
            check_first(&mut found, &mut all, &top, seed);
        }
    }
}

/// Checks that `found` begins in the order of `top` like `all`.
fn check_first(found: &mut [Vec<ModelValue>], all: &mut [Vec<ModelValue>], top: &GroupTop, seed: u64) {
    all.sort_by(|left, right| compare(left, right, top));
    found.sort_by(|left, right| compare(left, right, top));
    assert!(found.len() >= top.rows.min(all.len()), "seed {seed}: too few");
    for (place, (found, expected)) in found.iter().zip(all.iter()).take(top.rows).enumerate() {
        assert!(compare(found, expected, top).is_eq(), "seed {seed}, place {place}: {found:?}, {expected:?}");
    }
    all.sort();
}

#[test]
fn a_top_grouping_returns_few_groups() {
    let (data, mut group) = many();
    group.aggregates.push(aggregate(named("count"), None));
    let key = |column| SortKey { column, descending: true, nulls_first: false };
    // Nearly all groups have the same count, and many texts have the same first bytes.
    for (keys, most) in [(vec![key(1)], 100), (vec![key(1), key(1)], 100), (vec![key(1), key(0)], 60_000)] {
        let top = Some(GroupTop { keys, rows: 10 });
        let request = GroupRequest { top, ..request(group.clone(), Vec::new()) };
        let group_by = GroupBy::new(data.as_batches(), request).expect("a grouping");
        let found = run(&group_by, 2, false).expect("groups").len();
        assert!((10..=most).contains(&found), "{found}");
    }
}

#[test]
fn a_limit_returns_exactly_as_many_groups_as_asked_for() {
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed + 3_000);
        let data = Data::random(&mut random);
        let functions = functions_of(&data, &mut random);
        let mut group = random_group(&data, &mut random);
        if seed % 2 == 0 {
            group.aggregates.clear();
        }
        let all = model(&data.rows(), &data, &functions, &group);
        for policy in policies() {
            let limit = [0, 1, 10, 1_000][random.random_range(0..4)];
            let request = GroupRequest { limit: Some(limit), ..request(group.clone(), as_dyn(&functions)) };
            let source = if random.random() { data.as_batches() } else { data.as_table(500, &[]) };
            let group_by = GroupBy::with_policy(source, request, policy).expect("a grouping");
            let found = run(&group_by, random.random_range(1..4), false).expect("groups");
            assert_eq!(found.len(), limit.min(all.len()), "seed {seed}");
            assert!(found.iter().all(|row| all.binary_search(row).is_ok()), "seed {seed}: an unknown group");
            assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "seed {seed}: a group twice");
        }
    }
}

#[test]
fn a_limit_reads_only_the_rows_of_some_groups() {
    let (data, mut group) = many();
    group.aggregates.push(aggregate(named("count"), None));
    let GroupSource::Table(table) = data.as_table(20_000, &[]) else { unreachable!("a table was made") };
    for least in ["", "xxx", "y"] {
        let value = Arc::new(StringViewArray::from_iter_values([least]));
        let op = CompareOp::GreaterOrEqual;
        group.predicates = vec![Predicate::Compare { column: 0, op, value }];
        let all = GroupBy::new(Arc::clone(&table), request(group.clone(), Vec::new())).expect("a grouping");
        let all = run(&all, 2, false).expect("groups");
        let request = GroupRequest { limit: Some(7), ..request(group.clone(), Vec::new()) };
        let limited = group_table(&table, request.clone()).expect("a grouping");
        let found = run_source(&limited, &request, 1, false).expect("groups");
        assert_eq!(found.len(), all.len().min(7), "from {least:?} on");
        assert!(found.iter().all(|group| all.contains(group)), "from {least:?} on: a group is not complete");
        // One block gives the values; the other blocks have hardly any of them.
        let selected = request.metrics.rows_selected.load(std::sync::atomic::Ordering::Relaxed);
        assert!(!least.is_empty() || selected < 21_000, "{selected} rows");
    }
}

#[test]
fn the_blocks_that_zone_maps_leave_are_cut_for_all_workers() {
    const ROWS: i64 = 200_000;
    let numbers = |block: i64| (block * ROWS..(block + 1) * ROWS).collect::<Vec<i64>>();
    let blocks = (0..6).map(|block| {
        let values: ArrayRef = Arc::new(Int64Array::from(numbers(block)));
        let keys: ArrayRef = Arc::new(numbers(block).iter().map(|number| Some(number % 100)).collect::<Int64Array>());
        (vec![values, keys], Default::default())
    });
    let kinds = [SqlType::Int64, SqlType::Int64];
    let table: Arc<dyn TableSource> = TestTable::new(&kinds, None, blocks.collect());
    let from = |least: i64| {
        let value = Arc::new(Int64Array::from(vec![least]));
        let key = GroupKey { expr: Expr::Column(1), kind: DataType::Int64, nullable: true };
        let aggregates = vec![aggregate(named("count"), Some((Expr::Column(0), DataType::Int64)))];
        let predicates = vec![Predicate::Compare { column: 0, op: CompareOp::GreaterOrEqual, value }];
        let group = Group { predicates, keys: vec![key], aggregates, always: Vec::new() };
        let request = GroupRequest { threads: 2, ..request(group, Vec::new()) };
        let group_by = GroupBy::new(Arc::clone(&table), request).expect("a grouping");
        let counts = run(&group_by, 2, false).expect("groups").into_iter().map(|row| match row[1] {
            ModelValue::Number(count) => count as i64,
            _ => panic!("a count is a number"),
        });
        (group_by.parts(), counts.sum::<i64>())
    };
    // Of six blocks none is left out, or five, or all.
    assert_eq!(from(0), (6, 6 * ROWS));
    let (parts, rows) = from(5 * ROWS + 1_000);
    assert_eq!(rows, ROWS - 1_000);
    assert!((7..=5 + 4).contains(&parts), "{parts}");
    assert_eq!(from(6 * ROWS).1, 0);
}

#[test]
fn logs_of_groups_in_the_table_are_not_mixed_with_those_of_others() {
    let columns = [4, 1 << 40].map(|values| RandomColumn { kind: SqlType::Int64, values, nullable: true });
    let fields = ["k", "v"].map(|name| Field::new(name, DataType::Int64, true));
    let schema: SchemaRef = Arc::new(Schema::new(fields.to_vec()));
    let mut random = StdRng::seed_from_u64(7);
    // Blocks with few groups alternate with blocks with many.
    let batches = [0, 1, 0, 1, 0].map(|keys| {
        let arrays = vec![columns[keys].array(&mut random, 2_000), columns[1].array(&mut random, 2_000)];
        RecordBatch::try_new(Arc::clone(&schema), arrays).expect("columns as in the schema")
    });
    let data = Data { columns: columns.to_vec(), schema, batches: batches.to_vec() };
    let key = GroupKey { expr: Expr::Column(0), kind: DataType::Int64, nullable: true };
    let of_values = Some((Expr::Column(1), DataType::Int64));
    let aggregates = vec![
        Aggregate { distinct: true, ..aggregate(named("count"), of_values.clone()) },
        aggregate(named("max"), of_values),
    ];
    let group = Group { predicates: Vec::new(), keys: vec![key], aggregates, always: Vec::new() };
    let expected = model(&data.rows(), &data, &[], &group);
    for policy in policies() {
        let group_by = GroupBy::with_policy(data.as_table(2_000, &[]), request(group.clone(), Vec::new()), policy);
        let found = run(&group_by.expect("a grouping"), 1, false).expect("groups");
        assert!(found == expected, "{policy:?}");
    }
}

/// Many groups of long texts.
fn many() -> (Data, Group) {
    let column = RandomColumn { kind: SqlType::TEXT, values: 1 << 40, nullable: false };
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("c0", DataType::Utf8View, false)]));
    let mut random = StdRng::seed_from_u64(1);
    let batch =
        |_| RecordBatch::try_new(Arc::clone(&schema), vec![column.array(&mut random, 8_000)]).expect("a column");
    let batches = (0..10).map(batch).collect();
    let key = GroupKey { expr: Expr::Column(0), kind: DataType::Utf8View, nullable: false };
    let group = Group { predicates: Vec::new(), keys: vec![key], aggregates: Vec::new(), always: Vec::new() };
    (Data { columns: vec![column], schema, batches }, group)
}

#[test]
fn groups_that_do_not_fit_memory_are_written_to_disk() {
    let (data, group) = many();
    let expected = data.rows().len();
    for limit in [100_000, 1_000_000, 5_000_000] {
        let request = GroupRequest { broker: Broker::new(limit), ..request(group.clone(), Vec::new()) };
        let (broker, temp) = (request.broker.clone(), request.temp.clone());
        let group_by = GroupBy::new(data.as_batches(), request).expect("a grouping");
        assert_eq!(run(&group_by, 2, false).expect("groups").len(), expected);
        assert!(temp.quota().peak_bytes() > 0, "with {limit} bytes of memory");
        drop(group_by);
        assert_eq!((broker.used_bytes(), temp.quota().used_bytes(), temp.files().len()), (0, 0, 0));
    }
}

#[test]
fn an_exhausted_disk_is_an_error_that_names_the_operator() {
    let (data, group) = many();
    let temp = TempSpace::on_disk(MemoryDisk::new(), 1 << 20);
    let request = GroupRequest { broker: Broker::new(1_000_000), temp: temp.clone(), ..request(group, Vec::new()) };
    let broker = request.broker.clone();
    let group_by = GroupBy::new(data.as_batches(), request).expect("a grouping");
    let error = run(&group_by, 2, false).expect_err("too many");
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    assert!(error.message().contains(OWNER), "{error}");
    drop(group_by);
    assert_eq!((broker.used_bytes(), temp.quota().used_bytes(), temp.files().len()), (0, 0, 0));
}

#[test]
fn a_failure_of_the_disk_is_an_error_and_leaves_no_file() {
    let (data, mut group) = many();
    group.aggregates.push(aggregate(named("count"), None));
    for nth in 1..60 {
        let (memory, broker) = (MemoryDisk::new(), Broker::new(2_000_000));
        let disk = FaultyDisk::new(Arc::new(memory.clone()));
        disk.plan().fail(None::<Call>, nth, Fault::Io);
        let temp = TempSpace::on_disk(disk, 1 << 30);
        let request = GroupRequest { broker: broker.clone(), temp: temp.clone(), ..request(group.clone(), Vec::new()) };
        let group_by = GroupBy::new(data.as_batches(), request).expect("a grouping");
        if let Ok(groups) = run(&group_by, 2, false) {
            assert_eq!(groups.len(), data.rows().len(), "call {nth} failed");
        }
        drop(group_by);
        let left = memory.list("").expect("a list").len() as u64;
        assert_eq!((broker.used_bytes(), temp.files().len()), (0, 0), "call {nth} failed");
        assert!(left <= 1 && (temp.quota().used_bytes() > 0) == (left > 0), "only a file that cannot be removed stays");
    }
}

#[test]
fn listed_values_are_grouped_in_the_memory_of_one_range() {
    let (data, mut group) = many();
    group.aggregates.push(aggregate(named("count"), None));
    let request = GroupRequest { broker: Broker::new(1_000_000), ..request(group, Vec::new()) };
    let (broker, policy) =
        (request.broker.clone(), Policy { range_bytes: Some(100_000), ..policies()[1].expect("a policy") });
    let group_by = GroupBy::with_policy(data.as_table(20_000, &[]), request, Some(policy)).expect("a grouping");
    let mut expected = data.rows();
    expected.iter_mut().for_each(|row| row.push(ModelValue::Number(1)));
    expected.sort();
    assert!(run(&group_by, 2, false).expect("groups") == expected, "the groups differ");
    drop(group_by);
    assert_eq!(broker.used_bytes(), 0);
}

#[test]
fn a_cancelled_grouping_ends_with_an_error_for_every_worker_that_gathers() {
    let (data, group) = many();
    let request = request(group, Vec::new());
    request.cancel.cancel();
    let group_by = GroupBy::new(data.as_batches(), request).expect("a grouping");
    assert_eq!(run(&group_by, 3, false).expect_err("cancelled").kind(), ErrorKind::Cancelled);
}

#[test]
fn an_error_of_the_input_fails_the_grouping() {
    let (data, group) = many();
    for place in [0, 5, 10] {
        let mut batches: VecDeque<Result<RecordBatch>> = data.batches.iter().cloned().map(Ok).collect();
        batches.insert(place, Err(Error::new(ErrorKind::DivisionByZero, "in between")));
        let source = Given { schema: Arc::clone(&data.schema), batches: Mutex::new(batches) };
        let source: Arc<dyn BatchSource> = Arc::new(source);
        let group_by = GroupBy::new(source, request(group.clone(), Vec::new())).expect("a grouping");
        assert_eq!(run(&group_by, 2, false).expect_err("an error").kind(), ErrorKind::DivisionByZero);
    }
}

#[test]
fn a_grouping_can_read_another_grouping() {
    let (data, mut group) = many();
    group.aggregates.push(aggregate(named("count"), None));
    let inner: Arc<dyn BatchSource> =
        GroupBy::new(data.as_batches(), request(group.clone(), Vec::new())).expect("a grouping");
    let key = GroupKey { expr: Expr::Column(1), kind: DataType::Int64, nullable: true };
    let texts = aggregate(named("count"), Some((Expr::Column(0), DataType::Utf8View)));
    let outer = Group { predicates: Vec::new(), keys: vec![key], aggregates: vec![texts], always: Vec::new() };
    let outer = GroupBy::new(inner, request(outer, Vec::new())).expect("a grouping");
    let mut expected: BTreeMap<usize, i128> = BTreeMap::new();
    let mut rows: BTreeMap<Vec<ModelValue>, usize> = BTreeMap::new();
    data.rows().into_iter().for_each(|row| *rows.entry(row).or_default() += 1);
    rows.values().for_each(|count| *expected.entry(*count).or_default() += 1);
    let expected: Vec<Vec<ModelValue>> = expected
        .into_iter()
        .map(|(count, texts)| vec![ModelValue::Number(count as i128), ModelValue::Number(texts)])
        .collect();
    assert_eq!(run(&outer, 3, false).expect("groups"), expected);
}

#[test]
fn keys_of_counted_groups_are_null_where_expected() {
    for seed in 0..20 {
        let mut random = StdRng::seed_from_u64(seed + 4_000);
        let data = Data::random(&mut random);
        let functions = functions_of(&data, &mut random);
        let group = random_group(&data, &mut random);
        let expected = model(&data.rows(), &data, &functions, &group);
        if group.keys.iter().any(|key| matches!(key.expr, Expr::Function(_))) {
            continue;
        }
        let request = GroupRequest { only_presence: true, ..request(group.clone(), as_dyn(&functions)) };
        let group_by = GroupBy::new(data.as_table(500, &[]), request).expect("a grouping");
        let is_null =
            |row: &Vec<ModelValue>| row[..group.keys.len()].iter().map(|key| *key == ModelValue::Null).collect();
        let nulls = |rows: &[Vec<ModelValue>]| {
            let mut nulls: Vec<Vec<bool>> = rows.iter().map(is_null).collect();
            nulls.sort();
            nulls
        };
        assert_eq!(nulls(&run(&group_by, 2, false).expect("groups")), nulls(&expected), "seed {seed}");
    }
}

#[test]
fn a_total_never_wraps() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("c0", DataType::Decimal128(38, 0), false)]));
    // The two largest decimals, whose sum fits no decimal.
    let most = arrow::array::Decimal128Array::from(vec![10_i128.pow(38) - 1; 2]);
    let most = Arc::new(most.with_data_type(DataType::Decimal128(38, 0)));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![most]).expect("a column");
    for function in [named("sum"), named("avg")] {
        let batches = Mutex::new(VecDeque::from([Ok(batch.clone())]));
        let source: Arc<dyn BatchSource> = Arc::new(Given { schema: Arc::clone(&schema), batches });
        let sum = aggregate(function, Some((Expr::Column(0), DataType::Decimal128(38, 0))));
        let group = Group { predicates: Vec::new(), keys: Vec::new(), aggregates: vec![sum], always: Vec::new() };
        let group_by = GroupBy::new(source, request(group, Vec::new())).expect("a grouping");
        assert_eq!(run(&group_by, 1, false).expect_err("too large").kind(), ErrorKind::NumericOutOfRange);
    }
}

/// A column of 16 bits plus a number, of the same type.
#[derive(Debug)]
struct Plus(i16, Arithmetic);

impl Plus {
    fn new(by: i16) -> Plus {
        let range = IntegerSpan { least: i16::MIN.into(), greatest: i16::MAX.into() };
        let (left, right) = (Arithmetic::Column(0), Arithmetic::Number(by.into()));
        Plus(by, Arithmetic::Step(Box::new(ArithmeticStep { operator: Operator::Plus, left, right, range })))
    }
}

impl VectorFunction for Plus {
    fn columns(&self) -> &[usize] {
        &[0]
    }

    fn evaluate(&self, columns: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        let values = columns[0].as_primitive::<arrow::datatypes::Int16Type>();
        let too_large = || Error::new(ErrorKind::NumericOutOfRange, "too large");
        let sums = values.iter().map(|value| value.map(|value| value.checked_add(self.0).ok_or_else(too_large)));
        Ok(Arc::new(sums.map(Option::transpose).collect::<Result<arrow::array::Int16Array>>()?))
    }

    fn arithmetic(&self) -> Option<&Arithmetic> {
        Some(&self.1)
    }
}

#[test]
fn totals_of_a_column_plus_numbers_share_one_total_unless_a_value_overflows() {
    let column = RandomColumn { kind: SqlType::Int16, values: 0, nullable: true };
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("c0", DataType::Int16, true)]));
    let values = (0..200_i16).map(|row| (row % 7 != 0).then_some(row * 100 - 9_000));
    let values: ArrayRef = Arc::new(arrow::array::Int16Array::from_iter(values));
    let batches = vec![RecordBatch::try_new(Arc::clone(&schema), vec![values]).expect("a column")];
    let data = Data { columns: vec![column], schema, batches };
    let shifts = [0, 1, -30, 20_000, -23_000];
    let functions = || shifts.iter().map(|by| Arc::new(Plus::new(*by)) as Arc<dyn VectorFunction>).collect::<Vec<_>>();
    let group_of = |function| {
        let of = |by| aggregate(function, Some((Expr::Function(by), DataType::Int16)));
        let count = aggregate(named("count"), Some((Expr::Column(0), DataType::Int16)));
        let aggregates = (0..shifts.len()).map(of).chain([count]).collect();
        Group { predicates: Vec::new(), keys: Vec::new(), aggregates, always: Vec::new() }
    };
    let numbers: Vec<i128> =
        data.rows().iter().filter_map(|row| if let ModelValue::Number(n) = row[0] { Some(n) } else { None }).collect();
    let (total, count) = (numbers.iter().sum::<i128>(), numbers.len() as i128);
    for function in [named("sum"), named("avg")] {
        for rows_per_block in [30, 1_000] {
            let source = data.as_table(rows_per_block, &[]);
            let group_by = GroupBy::new(source, request(group_of(function), functions())).expect("a grouping");
            // One total and one count serve all aggregates.
            assert_eq!(group_by.recipe.states.parts(), 2);
            let found = run(&group_by, 2, false).expect("totals").swap_remove(0);
            for (by, found) in shifts.iter().zip(&found) {
                let total = total + i128::from(*by) * count;
                let average = ModelValue::float(crate::quotient::average(total, count as u64, 0));
                let expected = if function == named("sum") { ModelValue::Number(total) } else { average };
                assert_eq!(*found, expected, "plus {by}");
            }
        }
    }
    // The greatest value of the column plus 21,867 is the greatest number of 16 bits.
    for (by, fits) in [(21_867, true), (21_868, false), (-23_868, true), (-23_869, false)] {
        let sum = aggregate(named("sum"), Some((Expr::Function(0), DataType::Int16)));
        let group = Group { predicates: Vec::new(), keys: Vec::new(), aggregates: vec![sum], always: Vec::new() };
        for source in [data.as_table(50, &[]), data.as_batches()] {
            let group_by =
                GroupBy::new(source, request(group.clone(), vec![Arc::new(Plus::new(by))])).expect("a grouping");
            let found = run(&group_by, 1, false);
            match fits {
                true => assert_eq!(found.expect("a total"), [[ModelValue::Number(total + i128::from(by) * count)]]),
                false => assert_eq!(found.expect_err("too large").kind(), ErrorKind::NumericOutOfRange, "plus {by}"),
            }
        }
    }
}

#[test]
fn a_total_that_fits_64_bits_takes_one_word() {
    let words = |number: i64, rows: usize| {
        let column = RandomColumn { kind: SqlType::Int64, values: 0, nullable: false };
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("c0", DataType::Int64, false)]));
        let values: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![number; rows]));
        let batches = vec![RecordBatch::try_new(Arc::clone(&schema), vec![values]).expect("a column")];
        let data = Data { columns: vec![column], schema, batches };
        let key = GroupKey { expr: Expr::Column(0), kind: DataType::Int64, nullable: false };
        let sum = aggregate(named("sum"), Some((Expr::Column(0), DataType::Int64)));
        let group = Group { predicates: Vec::new(), keys: vec![key], aggregates: vec![sum], always: Vec::new() };
        let group_by = GroupBy::new(data.as_table(60, &[]), request(group, Vec::new())).expect("a grouping");
        let total = i128::from(number) * rows as i128;
        let expected = vec![ModelValue::Number(number.into()), ModelValue::Number(total)];
        assert_eq!(run(&group_by, 2, false).expect("a group"), [expected]);
        group_by.recipe.states.initial().len()
    };
    // Blocks know the bounds of their values, so the bound of the total is known before rows are read.
    assert_eq!(words(1_000_000, 100), 1);
    assert_eq!(words(i64::MAX / 100, 100), 1);
    assert_eq!(words(i64::MAX / 100 + 1, 100), 2);
    assert_eq!(words(i64::MIN, 1), 2);
}

#[test]
fn a_failing_function_of_keys_fails_the_grouping() {
    #[derive(Debug)]
    struct Failing;
    impl VectorFunction for Failing {
        fn columns(&self) -> &[usize] {
            &[0]
        }

        fn evaluate(&self, _: &[ArrayRef], _: usize) -> Result<ArrayRef> {
            Err(Error::new(ErrorKind::NumericOutOfRange, "too large"))
        }
    }
    let (data, mut group) = many();
    group.keys.push(GroupKey { expr: Expr::Function(0), kind: DataType::Int64, nullable: true });
    let group_by = GroupBy::new(data.as_batches(), request(group, vec![Arc::new(Failing)])).expect("a grouping");
    assert_eq!(run(&group_by, 2, false).expect_err("an error").kind(), ErrorKind::NumericOutOfRange);
}

#[test]
fn rows_without_columns_are_counted() {
    let schema: SchemaRef = Arc::new(Schema::empty());
    let options = RecordBatchOptions::new().with_row_count(Some(7));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), Vec::new(), &options).expect("7 rows");
    let batches = Mutex::new(VecDeque::from([Ok(batch.clone()), Ok(batch)]));
    let source: Arc<dyn BatchSource> = Arc::new(Given { schema, batches });
    let count = aggregate(named("count"), None);
    let group = Group { predicates: Vec::new(), keys: Vec::new(), aggregates: vec![count], always: Vec::new() };
    let group_by = GroupBy::new(source, request(group, Vec::new())).expect("a grouping");
    assert_eq!(run(&group_by, 2, false).expect("a count"), [[ModelValue::Number(14)]]);
}

#[test]
fn estimates_are_near_the_count_with_every_policy() {
    for seed in 0..20 {
        let mut random = StdRng::seed_from_u64(seed + 9_000);
        let data = Data::random(&mut random);
        let functions = functions_of(&data, &mut random);
        let column = |column: usize| (Expr::Column(column), data.kind(Expr::Column(column)));
        let places = 0..data.columns.len();
        let key = (random.random_range(0..4) > 0).then(|| column(random.random_range(places.clone())));
        let keys: Vec<GroupKey> = key.into_iter().map(|(expr, kind)| GroupKey { expr, kind, nullable: true }).collect();
        let mut aggregates = Vec::new();
        for argument in places.map(column) {
            let filter = random.random::<bool>().then_some(Expr::Function(FILTER));
            let count = Aggregate { distinct: true, ..aggregate(named("count"), Some(argument.clone())) };
            let estimate = Aggregate::new(named("approx_distinct"), Some(argument), DataType::UInt64);
            aggregates.extend([Aggregate { filter, ..count }, Aggregate { filter, ..estimate }]);
        }
        let group = Group { predicates: Vec::new(), keys, aggregates, always: Vec::new() };
        let mut first: Option<Vec<Vec<ModelValue>>> = None;
        for (number, policy) in policies().into_iter().enumerate() {
            let source = if number % 2 == 0 { data.as_batches() } else { data.as_table(700, &[]) };
            let group_by = GroupBy::with_policy(source, request(group.clone(), as_dyn(&functions)), policy);
            let found = run(&group_by.expect("a grouping"), random.random_range(1..4), false).expect("groups");
            for row in &found {
                for pair in row[group.keys.len()..].as_chunks::<2>().0 {
                    let [ModelValue::Number(count), ModelValue::Number(estimate)] = pair else { panic!("{pair:?}") };
                    assert!((count - estimate).abs() <= 1 + count / 20, "seed {seed}: {estimate} of {count}");
                }
            }
            // All policies and workers must give the same estimate.
            assert_eq!(*first.get_or_insert_with(|| found.clone()), found, "seed {seed}, {policy:?}");
        }
    }
}
