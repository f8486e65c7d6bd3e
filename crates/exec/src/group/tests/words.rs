//! Totals of arithmetic, and groupings with filters of joins.

use super::*;
use crate::key_filter::{FilterCounts, KeyFilter};

const PRICE: SqlType = SqlType::Decimal { precision: 15, scale: 2 };

/// A key with a few values, prices, and discounts in hundredths. A share of the prices and discounts is NULL.
fn sales(random: &mut StdRng, rows: usize, prices: i64, null_share: f64) -> Data {
    let columns = vec![
        RandomColumn { kind: SqlType::Int64, values: 0, nullable: true },
        RandomColumn { kind: PRICE, values: 0, nullable: true },
        RandomColumn { kind: PRICE, values: 0, nullable: true },
    ];
    let fields = columns.iter().map(|column| Field::new("c", column.kind.arrow(), true));
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut decimals = |values: std::ops::Range<i64>| -> ArrayRef {
        let values = (0..rows).map(|_| {
            let value = random.random_range(values.clone()).into();
            (!random.random_bool(null_share)).then_some(value)
        });
        Arc::new(arrow::array::Decimal128Array::from_iter(values).with_data_type(PRICE.arrow()))
    };
    let (price, discount) = (decimals(-prices..prices), decimals(0..11));
    let keys: ArrayRef = Arc::new(arrow::array::Int64Array::from_iter_values((0..rows).map(|row| (row % 7) as i64)));
    let batches = vec![RecordBatch::try_new(Arc::clone(&schema), vec![keys, price, discount]).expect("columns")];
    Data { columns, schema, batches }
}

/// The type of [`Net`].
const NET: DataType = DataType::Decimal128(38, 4);

/// `price * (1 - discount)`
#[derive(Debug)]
struct Net(Arithmetic);

impl Net {
    fn new() -> Net {
        let step = |operator, left, right| {
            let range = IntegerSpan { least: -(10_i128.pow(38) - 1), greatest: 10_i128.pow(38) - 1 };
            Arithmetic::Step(Box::new(ArithmeticStep { operator, left, right, range }))
        };
        let share = step(Operator::Minus, Arithmetic::Number(100), Arithmetic::Column(1));
        Net(step(Operator::Times, Arithmetic::Column(0), share))
    }
}

impl VectorFunction for Net {
    fn columns(&self) -> &[usize] {
        &[1, 2]
    }

    fn evaluate(&self, columns: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        let [price, discount] = [0, 1].map(|column| columns[column].as_primitive::<arrow::datatypes::Decimal128Type>());
        let values = price.iter().zip(discount).map(|(price, discount)| Some(price? * (100 - discount?)));
        Ok(Arc::new(arrow::array::Decimal128Array::from_iter(values).with_data_type(NET)))
    }

    fn arithmetic(&self) -> Option<&Arithmetic> {
        Some(&self.0)
    }
}

fn by_key(predicates: Vec<Predicate>) -> Group {
    let net = || Some((Expr::Function(0), NET));
    let price = Some((Expr::Column(1), PRICE.arrow()));
    let aggregates = vec![
        aggregate(named("sum"), net()),
        aggregate(named("avg"), net()),
        aggregate(named("sum"), price),
        aggregate(named("count"), None),
    ];
    let keys = vec![GroupKey { expr: Expr::Column(0), kind: DataType::Int64, nullable: true }];
    Group { predicates, keys, aggregates, always: Vec::new() }
}

/// The groups of rows, ordered by key.
fn expected(rows: impl Iterator<Item = Vec<ModelValue>>) -> Vec<Vec<ModelValue>> {
    let mut groups: BTreeMap<ModelValue, Vec<Vec<ModelValue>>> = BTreeMap::new();
    rows.for_each(|row| groups.entry(row[0].clone()).or_default().push(row));
    let number = |value: &ModelValue| if let ModelValue::Number(number) = value { Some(*number) } else { None };
    let of_group = |(key, rows): (ModelValue, Vec<Vec<ModelValue>>)| {
        let net = |row: &Vec<ModelValue>| Some(number(&row[1])? * (100 - number(&row[2])?));
        let nets: Vec<i128> = rows.iter().filter_map(net).collect();
        let prices: Vec<i128> = rows.iter().filter_map(|row| number(&row[1])).collect();
        let total = |numbers: &[i128]| (!numbers.is_empty()).then(|| numbers.iter().sum::<i128>());
        let average = |total: i128| ModelValue::float(crate::quotient::average(total, nets.len() as u64, 4));
        vec![
            key,
            total(&nets).map_or(ModelValue::Null, ModelValue::Number),
            total(&nets).map_or(ModelValue::Null, average),
            total(&prices).map_or(ModelValue::Null, ModelValue::Number),
            ModelValue::Number(rows.len() as i128),
        ]
    };
    groups.into_iter().map(of_group).collect()
}

#[test]
fn totals_of_products_are_exact_whether_or_not_they_fit_64_bits() {
    let mut random = StdRng::seed_from_u64(3);
    // Prices whose totals fit 64 bits, whose products fit one by one, and whose products do not fit.
    for (prices, null_share) in
        [(1_000_000, 0.0), (1_000_000, 0.1), (i64::MAX / 200, 0.0), (i64::MAX / 200, 0.1), (i64::MAX, 0.0)]
    {
        let data = sales(&mut random, 20_000, prices, null_share);
        let deleted = [3, 4, 5, 777, 15_000];
        let value: ArrayRef = Arc::new(arrow::array::Decimal128Array::from(vec![8]).with_data_type(PRICE.arrow()));
        let few = Predicate::Compare { column: 2, op: CompareOp::Less, value };
        for predicates in [vec![], vec![few]] {
            let is_in = |row: &Vec<ModelValue>| {
                predicates.is_empty() || row[2] != ModelValue::Null && row[2] < ModelValue::Number(8)
            };
            let left = data.rows().into_iter().enumerate().filter(|(row, _)| !deleted.contains(&(*row as u64)));
            let expected = expected(left.map(|(_, row)| row).filter(is_in));
            for rows_per_block in [900, 30_000] {
                let source = data.as_table(rows_per_block, &deleted);
                let request = request(by_key(predicates.clone()), vec![Arc::new(Net::new())]);
                let mut found = run(&GroupBy::new(source, request).expect("a grouping"), 2, false).expect("totals");
                found.sort();
                assert_eq!(found, expected, "{prices} {null_share} {rows_per_block}");
            }
        }
    }
}

#[test]
fn filters_leave_out_whole_groups_unless_that_hides_errors() {
    let mut random = StdRng::seed_from_u64(4);
    let kept: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![2, 5, 90]));
    // The products of the last prices may leave their type.
    for (never_fails, prices, rows_per_block) in
        [(true, 1_000_000, 900), (true, 1_000_000, 30_000), (false, i64::MAX, 900)]
    {
        let data = sales(&mut random, 20_000, prices, 0.0);
        let all = expected(data.rows().into_iter());
        let request = request(by_key(Vec::new()), vec![Arc::new(Net::new())]);
        let mut memory = request.broker.reservation("a test");
        let counts = Arc::new(FilterCounts::default());
        let filter = KeyFilter::new(&DataType::Int64, &[&kept], false, counts, &mut memory).expect("memory");
        let group_by = GroupBy::new(data.as_table(rows_per_block, &[]), request).expect("a grouping");
        assert_eq!(group_by.accepts(0), never_fails);
        assert!(!group_by.accepts(1), "a filter on a total must be refused");
        group_by.offer(0, &Arc::new(filter));
        let mut found = run(&group_by, 2, false).expect("totals");
        found.sort();
        let is_kept =
            |row: &&Vec<ModelValue>| !never_fails || [ModelValue::Number(2), ModelValue::Number(5)].contains(&row[0]);
        assert_eq!(found, all.iter().filter(is_kept).cloned().collect::<Vec<_>>());
    }
}
