//! `SELECT`: point lookups, prefixes, ranges, index-only reads, joins, orders, aggregates.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Field, Int32Type, Schema};
use rowmill_base::{Cancel, ErrorKind, SqlType};
use rowmill_plan::CompareOp;
use rowmill_plan::program::{
    Access, ArithmeticOp, Body, GroupOutput, LookupKind, LookupSource, NestedLookup, OutputOrder, ReadOutput, ReadPlan,
    RowAggregate, RowFunction, RowOutput, Scalar, ScalarOp, ScalarValue, TextFunction,
};
use rowmill_program::{ProgramScratch, ResultRows, RunEnd};
use rowmill_storage::keyed::ValueRef;

use crate::support::{
    BIG, DOUBLE, GROUP, INT, MONEY, NAMED, NOTE, NUMBER, PRICE, World, all_of, big, bound, column, compare, int, money,
    of_row, rows, words,
};

fn parameter(kind: SqlType) -> Scalar {
    Scalar::parameter(kind, 0)
}

fn cut(mut read: ReadPlan, skip: Option<i64>, limit: Option<i64>) -> ReadPlan {
    let ReadOutput::Rows(rows) = &mut read.output else { panic!("rows") };
    (rows.skip, rows.limit) = (skip.map(big), limit.map(big));
    read
}

#[test]
fn a_row_is_found_by_its_key() {
    let world = World::new();
    let point = |group, number| world.read(all_of(world.by(vec![group, number]), vec![NAMED, PRICE, NUMBER, NOTE]));
    assert_eq!(point(int(1), int(2)), ["bee 250 2 NULL"]);
    assert_eq!(point(int(1), int(9)), [""; 0]);
    assert_eq!(point(big(1), big(1 << 20)), [""; 0]);
    assert_eq!(point(int(1), Scalar::literal(INT, ScalarValue::Null)), [""; 0]);
    // A number of another type finds the equal number of the column.
    assert_eq!(point(money(100), Scalar::literal(DOUBLE, ScalarValue::Float(2.0))), ["bee 250 2 NULL"]);
    assert_eq!(point(money(150), int(2)), [""; 0]);
    assert_eq!(point(int(1), Scalar::literal(DOUBLE, ScalarValue::Float(f64::NAN))), [""; 0]);
}

#[test]
fn ranges_are_read_in_both_directions() {
    let world = World::new();
    let range = |equal: Vec<Scalar>, from, to, backward| {
        let access = Access { from, to, backward, ..world.by(equal) };
        world.read(all_of(access, vec![GROUP, NUMBER]))
    };
    assert_eq!(range(vec![int(1)], None, None, false), ["1 1", "1 2", "1 3"]);
    assert_eq!(range(vec![int(1)], None, None, true), ["1 3", "1 2", "1 1"]);
    assert_eq!(range(vec![int(1)], bound(int(1), false), bound(int(3), false), false), ["1 2"]);
    assert_eq!(range(vec![int(1)], bound(int(1), true), bound(int(3), true), true), ["1 3", "1 2", "1 1"]);
    assert_eq!(range(vec![], bound(int(2), true), None, false), ["2 1", "2 2", "3 1"]);
    assert_eq!(range(vec![], None, bound(int(1), false), false), [""; 0]);
    // If the bound is between two numbers, the range ends at the next number inside it. Beyond all numbers it has all
    // or none.
    let half = |halves: i128| bound(Scalar::literal(MONEY, ScalarValue::Decimal(50 * halves)), false);
    assert_eq!(range(vec![int(1)], half(3), None, false), ["1 2", "1 3"]);
    assert_eq!(range(vec![int(1)], None, half(5), false), ["1 1", "1 2"]);
    assert_eq!(range(vec![int(1)], bound(big(-1 << 40), false), bound(big(1 << 40), true), false).len(), 3);
    assert_eq!(range(vec![int(1)], bound(big(1 << 40), true), None, false), [""; 0]);
    assert_eq!(range(vec![int(1)], bound(Scalar::literal(INT, ScalarValue::Null), true), None, false), [""; 0]);
    let double = |value| bound(Scalar::literal(DOUBLE, ScalarValue::Float(value)), true);
    assert_eq!(range(vec![int(1)], double(1.5), double(f64::INFINITY), false), ["1 2", "1 3"]);

    let read = || all_of(world.by(vec![int(1)]), vec![NUMBER]);
    assert_eq!(world.read(cut(read(), None, Some(2))), ["1", "2"]);
    assert_eq!(world.read(cut(read(), Some(1), Some(1))), ["2"]);
    assert_eq!(world.read(cut(read(), Some(5), None)), [""; 0]);
    assert_eq!(world.read(cut(read(), None, Some(0))), [""; 0]);
    let negative = world.read_with(cut(read(), None, Some(-1)), &[], &[]).expect_err("negative");
    assert_eq!(negative.kind(), ErrorKind::InvalidParameter);
}

#[test]
fn an_index_gives_its_order_and_its_own_columns() {
    let world = World::new();
    let by_name = |equal| Access { index: Some(world.by_name), ..world.by(equal) };
    let covered = vec![NAMED, PRICE, GROUP, NUMBER];
    assert_eq!(world.read(all_of(by_name(vec![words("ant")]), covered.clone())), ["ant 450 2 1", "ant 150 1 1"]);
    assert_eq!(world.read(all_of(by_name(vec![words("ant")]), vec![NOTE])), ["four", "first"]);
    let names = world.read(all_of(by_name(vec![]), vec![NAMED, NUMBER]));
    assert_eq!(names, ["ant 1", "ant 1", "bee 1", "bee 2", "cat 2", "NULL 3"]);
    // A bound excludes NULLs. The second column is in descending order.
    let above = Access { from: bound(words("b"), true), ..by_name(vec![]) };
    assert_eq!(world.read(all_of(above, vec![NAMED])), ["bee", "bee", "cat"]);
    let cheap = Access { to: bound(money(400), false), ..by_name(vec![words("ant")]) };
    assert_eq!(world.read(all_of(cheap, covered)), ["ant 150 1 1"]);
    let by_note = Access { index: Some(world.by_note), ..world.by(vec![words("six")]) };
    assert_eq!(world.read(all_of(by_note, vec![GROUP, PRICE])), ["3 650"]);
    let no_columns = world.read(rows(by_name(vec![words("bee")]), vec![int(7)]));
    assert_eq!(no_columns, ["7", "7"]);
}

#[test]
fn filters_and_outputs_are_computed() {
    let world = World::new();
    let mut read = rows(
        world.access(),
        vec![
            Scalar::new(SqlType::TEXT, ScalarOp::Text(TextFunction::Upper, vec![column(NAMED)])),
            Scalar::new(SqlType::TEXT, ScalarOp::Text(TextFunction::Concat, vec![column(NAMED), words("!")])),
        ],
    );
    read.filter = Some(compare(column(PRICE), CompareOp::Greater, parameter(BIG)));
    let found = world.read_with(read.clone(), &[BIG], &[ValueRef::Int(2)]).expect("rows");
    assert_eq!(found, ["BEE bee!", "NULL NULL", "ANT ant!", "BEE bee!"]);
    let missing = world.read_with(read.clone(), &[BIG], &[]).expect_err("no value");
    assert_eq!(missing.kind(), ErrorKind::CardinalityViolation);
    let wrong = world.read_with(read, &[BIG], &[ValueRef::Text("2")]).expect_err("a text");
    assert_eq!(wrong.kind(), ErrorKind::DatatypeMismatch);
}

#[test]
fn rows_are_sorted_if_no_key_has_the_order() {
    let world = World::new();
    let sorted = |orders: Vec<(usize, bool, bool)>, skip, limit| {
        let order = orders.into_iter().map(|(at, descending, nulls_first)| OutputOrder {
            value: column(at),
            descending,
            nulls_first,
        });
        let output = RowOutput {
            columns: vec![column(NUMBER), column(PRICE)],
            order: order.collect(),
            presorted: 0,
            skip: None,
            limit: None,
        };
        let read = ReadPlan { output: ReadOutput::Rows(output), ..all_of(world.access(), vec![]) };
        world.read(cut(read, skip, limit))
    };
    assert_eq!(sorted(vec![(PRICE, false, false)], None, Some(2)), ["2 -550", "1 150"]);
    assert_eq!(sorted(vec![(PRICE, true, false)], Some(1), Some(2)), ["1 450", "3 350"]);
    assert_eq!(sorted(vec![(NAMED, false, true), (PRICE, true, false)], None, Some(3)), ["3 350", "1 450", "1 150"]);
    assert_eq!(sorted(vec![(NAMED, true, false), (NUMBER, false, false)], None, Some(2)), ["2 -550", "1 650"]);
}

#[test]
fn many_rows_are_cut_while_they_are_sorted() {
    let world = World::empty();
    let mut transaction = world.engine.begin().expect("a transaction");
    for number in 0..3_000 {
        let price = (number * 7_919) % 3_001;
        let values = [
            ValueRef::Int(1),
            ValueRef::Int(number),
            ValueRef::Text("x"),
            ValueRef::Decimal(price.into()),
            ValueRef::Null,
        ];
        transaction.insert_row(world.items, &values).expect("put");
    }
    transaction.commit().expect("committed");
    let order = vec![OutputOrder { value: column(PRICE), descending: false, nulls_first: false }];
    let output =
        RowOutput { columns: vec![column(PRICE)], order, presorted: 0, skip: Some(big(2)), limit: Some(big(10)) };
    let read = ReadPlan { output: ReadOutput::Rows(output), ..all_of(world.by(vec![int(1)]), vec![]) };
    let mut prices: Vec<i64> = (0..3_000).map(|number| (number * 7_919) % 3_001).collect();
    prices.sort_unstable();
    let expected: Vec<String> = prices[2..12].iter().map(i64::to_string).collect();
    assert_eq!(world.read(read), expected);
}

#[test]
fn joins_look_up_rows_by_columns_of_earlier_lookups() {
    let world = World::new();
    let lookup = |kind, condition| NestedLookup {
        kind,
        source: LookupSource::Table(Access { index: Some(world.by_name), ..world.by(vec![of_row(0, NAMED)]) }),
        condition,
        compared: None,
    };
    let pairs = |kind| {
        let other = compare(of_row(1, GROUP), CompareOp::NotEqual, of_row(0, GROUP));
        let mut read = rows(world.by(vec![int(1)]), vec![of_row(0, NUMBER), of_row(1, GROUP), of_row(1, NOTE)]);
        read.lookups.push(lookup(kind, Some(other)));
        read
    };
    assert_eq!(world.read(pairs(LookupKind::Inner)), ["1 2 four", "2 3 six"]);
    assert_eq!(world.read(pairs(LookupKind::Left)), ["1 2 four", "2 3 six", "3 NULL NULL"]);
    let mut three = pairs(LookupKind::Inner);
    let up = of_row(1, NUMBER);
    let next = Scalar::arithmetic(SqlType::Int16, up, ArithmeticOp::Plus, small(1));
    let next = world.by(vec![of_row(1, GROUP), next]);
    three.lookups.push(NestedLookup { kind: LookupKind::Left, ..NestedLookup::inner(next, None) });
    three.filter = Some(compare(of_row(0, NUMBER), CompareOp::Equal, int(1)));
    let ReadOutput::Rows(output) = &mut three.output else { panic!("rows") };
    output.columns = vec![of_row(1, NAMED), of_row(2, NAMED), of_row(2, PRICE)];
    assert_eq!(world.read(three), ["ant cat -550"]);
}

fn aggregate(function: RowFunction, argument: Scalar) -> RowAggregate {
    RowAggregate::new(function, argument)
}

fn groups(keys: Vec<Scalar>, aggregates: Vec<RowAggregate>, columns: Vec<Scalar>) -> GroupOutput {
    GroupOutput { keys, aggregates, ends_at_value: false, filter: None, rows: RowOutput::all(columns) }
}

fn small(value: i64) -> Scalar {
    Scalar::literal(SqlType::Int16, ScalarValue::Int(value))
}

fn aggregated(access: Access, aggregates: Vec<RowAggregate>) -> ReadPlan {
    let columns = aggregates
        .iter()
        .enumerate()
        .map(|(at, aggregate)| Scalar::column(aggregate.kind().expect("it takes that"), 0, at));
    let columns = columns.collect();
    ReadPlan { output: ReadOutput::Groups(groups(vec![], aggregates, columns)), ..all_of(access, vec![]) }
}

#[test]
fn aggregates_are_one_row() {
    let world = World::new();
    let all = || {
        vec![
            aggregate(RowFunction::CountRows, int(0)),
            aggregate(RowFunction::Count, column(NAMED)),
            aggregate(RowFunction::CountDistinct, column(NAMED)),
            aggregate(RowFunction::CountDistinct, column(NUMBER)),
            aggregate(RowFunction::Sum, column(PRICE)),
            aggregate(RowFunction::Sum, column(NUMBER)),
            aggregate(RowFunction::Sum, column(PRICE).cast(DOUBLE)),
            aggregate(RowFunction::Average, column(PRICE)),
            aggregate(RowFunction::Average, column(NUMBER).cast(DOUBLE)),
            aggregate(RowFunction::Min, column(NAMED)),
            aggregate(RowFunction::Max, column(PRICE)),
        ]
    };
    assert_eq!(
        world.read(aggregated(world.access(), all())),
        ["6 5 3 3 1300 10 13 2.1666666666666665 1.6666666666666667 ant 650"]
    );
    assert_eq!(world.read(aggregated(world.by(vec![int(9)]), all())), ["0 0 0 0 NULL NULL NULL NULL NULL NULL NULL"]);
    let whole = SqlType::Decimal { precision: 38, scale: 0 };
    let huge = aggregate(RowFunction::Sum, Scalar::literal(whole, ScalarValue::Decimal(10_i128.pow(38) - 1)));
    let error = world.read_with(aggregated(world.access(), vec![huge]), &[], &[]).expect_err("too much");
    assert_eq!(error.kind(), ErrorKind::NumericOutOfRange);
    // The output may compute values from the aggregates.
    let mut more = aggregated(world.access(), vec![aggregate(RowFunction::Max, column(NUMBER))]);
    let ReadOutput::Groups(output) = &mut more.output else { panic!("groups") };
    let greatest = output.rows.columns[0].clone();
    output.rows.columns = vec![Scalar::new(SqlType::Int16, ScalarOp::Coalesce(vec![greatest, small(0)]))];
    assert_eq!(world.read(more.clone()), ["3"]);
    more.lookups = aggregated(world.by(vec![int(9)]), vec![]).lookups;
    assert_eq!(world.read(more), ["0"]);
}

#[test]
fn a_program_is_valid_only_for_the_definitions_it_was_made_for() {
    let world = World::new();
    let body = Body::Read(all_of(world.by(vec![int(1)]), vec![NUMBER]));
    let compiled = world.compiled(&[], body.clone()).expect("compiled");
    assert!(compiled.is_valid_for(world.engine.snapshot().expect("a snapshot").catalog()));
    let change = |change: &dyn Fn(&mut rowmill_txn::Transaction)| {
        let mut transaction = world.engine.begin().expect("a transaction");
        change(&mut transaction);
        transaction.commit().expect("committed");
        compiled.is_valid_for(world.engine.snapshot().expect("a snapshot").catalog())
    };
    assert!(change(&|transaction| transaction.rename_table(world.history, "other").expect("renamed")));
    assert!(!change(&|transaction| transaction.drop_index(world.items, world.by_note).expect("dropped")));
    let by_note = Access { index: Some(world.by_note), ..world.access() };
    let gone = world.compiled(&[], Body::Read(all_of(by_note, vec![NUMBER]))).expect_err("it is gone");
    assert_eq!(gone.kind(), ErrorKind::UndefinedObject);
    assert!(!change(&|transaction| transaction.drop_table(world.items).expect("dropped")));
    assert_eq!(world.compiled(&[], body).expect_err("it is gone").kind(), ErrorKind::UndefinedTable);
}

#[test]
fn rows_become_a_batch() {
    let world = World::new();
    let compiled = world.compiled(&[], Body::Read(all_of(world.by(vec![int(1)]), vec![GROUP, NAMED, PRICE])));
    let compiled = compiled.expect("compiled");
    assert!(compiled.is_read());
    let snapshot = world.engine.snapshot().expect("a snapshot");
    let (mut scratch, mut out) = (ProgramScratch::default(), ResultRows::default());
    for _ in 0..2 {
        compiled.run_read(&snapshot.reader(), &[], &mut scratch, &mut out).and_then(RunEnd::rows).expect("rows");
    }
    let fields = compiled.output().iter().map(|kind| Field::new("c", kind.arrow(), true)).collect::<Vec<_>>();
    let batch = out.to_batch(&Arc::new(Schema::new(fields))).expect("a batch");
    assert_eq!(batch.num_rows(), 3);
    assert_eq!(batch.column(0).as_primitive::<Int32Type>().values(), &[1, 1, 1]);
    assert!(batch.column(1).is_null(2));
    assert_eq!(batch.column(1).as_string_view().value(1), "bee");
    let write = compiled.run_write(&mut world.engine.begin().expect("a transaction"), &[], &mut scratch, &mut out);
    let rows = write.and_then(RunEnd::rows).expect("a read within a transaction");
    assert_eq!((rows, out.len()), (3, 3));
}

#[test]
fn long_reads_end_when_cancelled_or_when_they_hold_too_much() {
    let world = World::empty();
    let mut transaction = world.engine.begin().expect("a transaction");
    let note = "n".repeat(40_000);
    for number in 0..2_000 {
        let price = ValueRef::Decimal(number.into());
        let values = [ValueRef::Int(1), ValueRef::Int(number), ValueRef::Null, price, ValueRef::Null];
        transaction.insert_row(world.items, &values).expect("put");
    }
    transaction.commit().expect("committed");
    let run = |read: ReadPlan, scratch: &mut ProgramScratch| {
        let compiled = world.compiled(&[SqlType::TEXT], Body::Read(read)).expect("compiled");
        let snapshot = world.engine.snapshot().expect("a snapshot");
        let mut out = ResultRows::default();
        compiled.run_read(&snapshot.reader(), &[ValueRef::Text(&note)], scratch, &mut out).and_then(RunEnd::rows)
    };
    let text = Scalar::parameter(SqlType::TEXT, 0);
    let mut scratch = ProgramScratch::default();
    let held = run(rows(world.access(), vec![text.clone()]), &mut scratch).expect_err("too much");
    assert_eq!(held.kind(), ErrorKind::Unsupported);
    let found = world.by(vec![int(1), int(7)]);
    assert_eq!(run(rows(found, vec![text.clone()]), &mut scratch).expect("a row"), 1);
    // No row can have the key, so the access does not search.
    let by_note = Access { index: Some(world.by_note), ..world.by(vec![text]) };
    assert_eq!(run(all_of(by_note, vec![NUMBER]), &mut scratch).expect("no row"), 0);

    let cancel = Cancel::new();
    scratch.set_cancel(cancel.clone());
    assert_eq!(run(all_of(world.access(), vec![NUMBER]), &mut scratch).expect("rows"), 2_000);
    cancel.cancel();
    let cancelled = run(all_of(world.access(), vec![NUMBER]), &mut scratch).expect_err("cancelled");
    assert_eq!(cancelled.kind(), ErrorKind::Cancelled);
}
