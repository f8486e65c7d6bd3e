//! A read by key must give the same rows as a filter over all rows.

use proptest::prelude::*;
use rowmill_base::SqlType;
use rowmill_plan::CompareOp;
use rowmill_plan::program::{Access, AccessBound, ReadOutput, ReadPlan, Scalar, ScalarOp, ScalarValue};
use rowmill_storage::keyed::ValueRef;

use crate::support::{DOUBLE, GROUP, INT, NAMED, NUMBER, PRICE, World, all_of, column};

/// A row: group, number, name, price.
type Row = (i64, i64, Option<String>, i64);

fn scalar() -> impl Strategy<Value = Scalar> {
    let decimal = SqlType::Decimal { precision: 6, scale: 1 };
    prop_oneof![
        6 => (-3_i64..6).prop_map(|value| Scalar::literal(INT, ScalarValue::Int(value))),
        2 => (-30_i128..60).prop_map(move |value| Scalar::literal(decimal.clone(), ScalarValue::Decimal(value))),
        2 => (-6_i64..12).prop_map(|halves| Scalar::literal(DOUBLE, ScalarValue::Float(halves as f64 / 2.0))),
        1 => any::<i64>().prop_map(|value| Scalar::literal(SqlType::Int64, ScalarValue::Int(value))),
        1 => Just(Scalar::literal(INT, ScalarValue::Null)),
        1 => Just(Scalar::literal(DOUBLE, ScalarValue::Float(f64::NAN))),
    ]
}

fn name() -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(0.8, "[a\u{0}\u{1}b]{0,3}")
}

fn name_scalar() -> impl Strategy<Value = Scalar> {
    name().prop_map(|name| Scalar::literal(SqlType::TEXT, name.map_or(ScalarValue::Null, ScalarValue::Text)))
}

fn end(value: impl Strategy<Value = Scalar>) -> impl Strategy<Value = Option<AccessBound>> {
    prop::option::of((value, any::<bool>()).prop_map(|(value, inclusive)| AccessBound::new(value, inclusive)))
}

/// The conditions that a range implies.
fn conditions(columns: &[usize], access: &Access) -> Vec<Scalar> {
    let of = |at: usize, op, value: &Scalar| Scalar::compare(column(columns[at]), op, value.clone());
    let mut all: Vec<_> = access.equal.iter().enumerate().map(|(at, value)| of(at, CompareOp::Equal, value)).collect();
    let next = access.equal.len();
    let mut bound = |bound: &Option<AccessBound>, open, closed| {
        all.extend(bound.iter().map(|bound| of(next, if bound.inclusive { closed } else { open }, &bound.values[0])));
    };
    bound(&access.from, CompareOp::Greater, CompareOp::GreaterOrEqual);
    bound(&access.to, CompareOp::Less, CompareOp::LessOrEqual);
    all
}

fn ranged(
    mut equal: Vec<Scalar>,
    ends: (Option<AccessBound>, Option<AccessBound>),
    backward: bool,
    access: Access,
) -> Access {
    let (from, to) = ends;
    // Either all columns have values, or one is left for the bounds.
    let is_range = from.is_some() || to.is_some();
    equal.truncate(if is_range { 1 } else { 2 });
    Access { equal, from, to, backward, ..access }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn keys_find_what_a_filter_finds(
        rows in prop::collection::btree_map((-3_i64..5, -3_i64..5), (name(), -50_i64..50), 0..30),
        committed in any::<prop::sample::Index>(),
        equal in prop::collection::vec(scalar(), 0..=2),
        ends in (end(scalar()), end(scalar())),
        names in prop::collection::vec(name_scalar(), 0..=1),
        name_ends in (end(name_scalar()), end(name_scalar())),
        backward in any::<bool>(),
    ) {
        let world = World::empty();
        let row = |((group, number), (name, price))| (group, number, name, price);
        let rows: Vec<Row> = rows.into_iter().map(row).collect();
        let mut transaction = world.engine.begin().expect("a transaction");
        let committed = if rows.is_empty() { 0 } else { committed.index(rows.len()) };
        for (at, (group, number, name, price)) in rows.iter().enumerate() {
            if at == committed {
                transaction.commit().expect("committed");
                transaction = world.engine.begin().expect("a transaction");
            }
            let name = name.as_deref().map_or(ValueRef::Null, ValueRef::Text);
            let price = ValueRef::Decimal((*price).into());
            let values = [ValueRef::Int(*group), ValueRef::Int(*number), name, price, ValueRef::Null];
            transaction.insert_row(world.items, &values).expect("put");
        }
        let mut check = |access: Access, columns: &[usize], wanted: Vec<usize>| {
            let conditions = conditions(columns, &access);
            let filter = Scalar::new(SqlType::Boolean, ScalarOp::And(conditions));
            let whole = Access { equal: vec![], from: None, to: None, ..access.clone() };
            let naive = ReadPlan { filter: Some(filter), ..all_of(whole, wanted.clone()) };
            let run = |read: ReadPlan, transaction: &mut rowmill_txn::Transaction| {
                let body = rowmill_plan::program::Body::Read(read);
                world.write_in(transaction, body).expect("rows").1
            };
            let found = run(all_of(access.clone(), wanted.clone()), &mut transaction);
            assert_eq!(found, run(naive, &mut transaction), "{access:?}");
            // The same must hold with a limit.
            let mut cut = all_of(access, wanted);
            let ReadOutput::Rows(output) = &mut cut.output else { panic!("rows") };
            output.limit = Some(Scalar::literal(SqlType::Int64, ScalarValue::Int(2)));
            assert_eq!(run(cut, &mut transaction), found[..found.len().min(2)]);
        };
        let by_key = ranged(equal, ends, backward, world.access());
        check(by_key, &[GROUP, NUMBER], vec![NUMBER, GROUP, NAMED, PRICE]);
        let by_name = ranged(names, (None, None), backward, Access { index: Some(world.by_name), ..world.access() });
        check(by_name.clone(), &[NAMED], vec![PRICE, NUMBER, NAMED, GROUP]);
        let (from, to) = name_ends;
        let ranged = Access { equal: vec![], from, to, ..by_name };
        check(ranged.clone(), &[NAMED], vec![NAMED, NUMBER]);
        check(ranged, &[NAMED], vec![NAMED, crate::support::NOTE]);
    }
}
