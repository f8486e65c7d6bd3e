//! Alternatives and row bounds of keys, nested reads, groups, and expressions that are evaluated as batches of one row.

use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::{ErrorKind, SqlType};
use rowmill_plan::program::{
    Access, AccessBound, Body, ChangeTarget, Delete, GroupOutput, LookupKind, LookupSource, NestedLookup, OutputOrder,
    ReadOutput, ReadPlan, RowAggregate, RowFunction, RowOutput, Scalar, ScalarOp, ScalarValue, TextPrefix, Update,
};
use rowmill_plan::{CompareOp, ExprOp, ScalarExpr};

use crate::support::{
    BIG, GROUP, INT, NAMED, NOTE, NUMBER, PRICE, SMALL, World, all_of, big, bound, column, compare, int, money, null,
    of_row, rows, words,
};

fn by_name(world: &World) -> Access {
    Access { index: Some(world.by_name), ..world.access() }
}

fn pairs(world: &World, access: Access) -> Vec<String> {
    world.read(all_of(access, vec![GROUP, NUMBER]))
}

#[test]
fn alternatives_are_read_once_and_in_the_order_of_the_key() {
    let world = World::new();
    let among = |equal: Vec<Scalar>, alternatives: Vec<Vec<Scalar>>| Access { alternatives, ..world.by(equal) };
    let numbers = |values: &[i64]| values.iter().map(|value| vec![int(*value)]).collect::<Vec<_>>();
    assert_eq!(pairs(&world, among(vec![int(1)], numbers(&[3, 1, 3, 9]))), ["1 1", "1 3"]);
    assert_eq!(pairs(&world, among(vec![], numbers(&[3, 2, 3]))), ["2 1", "2 2", "3 1"]);
    let backward = Access { backward: true, ..among(vec![], numbers(&[3, 2])) };
    assert_eq!(pairs(&world, backward), ["3 1", "2 2", "2 1"]);
    let points = vec![vec![int(2), int(1)], vec![int(1), int(2)], vec![int(2), int(1)], vec![int(1), null_int()]];
    assert_eq!(pairs(&world, among(vec![], points)), ["1 2", "2 1"]);
    let ranged = Access { from: bound(int(2), true), ..among(vec![], numbers(&[1, 2])) };
    assert_eq!(pairs(&world, ranged), ["1 2", "1 3", "2 2"]);
    let names = Access { alternatives: vec![vec![words("bee")], vec![words("ant")]], ..by_name(&world) };
    assert_eq!(world.read(all_of(names, vec![NAMED, PRICE])), ["ant 450", "ant 150", "bee 650", "bee 250"]);
    assert_eq!(pairs(&world, among(vec![null_int()], numbers(&[1]))), [""; 0]);
}

fn null_int() -> Scalar {
    Scalar::literal(INT, ScalarValue::Null)
}

#[test]
fn rows_are_compared_with_the_columns_of_a_key_together() {
    let world = World::new();
    let end = |values: Vec<Scalar>, inclusive| Some(AccessBound { values, inclusive });
    let range = |from, to| pairs(&world, Access { from, to, ..world.access() });
    let pair = |group, number| vec![int(group), number];
    assert_eq!(range(end(pair(1, int(2)), false), None), ["1 3", "2 1", "2 2", "3 1"]);
    assert_eq!(range(end(pair(1, int(2)), true), end(pair(2, int(1)), true)), ["1 2", "1 3", "2 1"]);
    assert_eq!(range(None, end(pair(2, int(2)), false)), ["1 1", "1 2", "1 3", "2 1"]);
    let backward = Access { to: end(pair(2, int(1)), false), backward: true, ..world.access() };
    assert_eq!(pairs(&world, backward), ["1 3", "1 2", "1 1"]);
    // If the value is between two numbers, beyond all of them, or NULL, the columns before it decide.
    assert_eq!(range(end(pair(1, money(150)), false), end(pair(2, money(150)), true)), ["1 2", "1 3", "2 1"]);
    assert_eq!(range(end(pair(1, big(1 << 40)), true), None), ["2 1", "2 2", "3 1"]);
    assert_eq!(range(None, end(pair(2, big(-1 << 40)), true)), ["1 1", "1 2", "1 3"]);
    assert_eq!(range(end(vec![money(150), int(2)], true), None), ["2 1", "2 2", "3 1"]);
    assert_eq!(range(end(pair(1, Scalar::literal(SMALL, ScalarValue::Null)), true), None), ["2 1", "2 2", "3 1"]);
    assert_eq!(range(end(vec![null_int(), int(1)], true), None), [""; 0]);
}

#[test]
fn texts_are_found_by_prefix() {
    let world = World::new();
    let names = |pattern: Scalar| {
        let prefix = Some(TextPrefix { pattern, escape: Some('\\') });
        world.read(all_of(Access { prefix, ..by_name(&world) }, vec![NAMED]))
    };
    assert_eq!(names(words("b%")), ["bee", "bee"]);
    assert_eq!(names(words("an_%x")), ["ant", "ant"]);
    assert_eq!(names(words("ant")), ["ant", "ant"]);
    assert_eq!(names(words("\\c%")), ["cat"]);
    assert_eq!(names(words("%t")), ["ant", "ant", "bee", "bee", "cat"]);
    assert_eq!(names(words("x%")), [""; 0]);
    assert_eq!(names(null()), [""; 0]);
    let whole = Access { not_null: true, backward: true, ..by_name(&world) };
    assert_eq!(world.read(all_of(whole, vec![NAMED])), ["cat", "bee", "bee", "ant", "ant"]);
}

#[test]
fn a_minimum_in_key_order_reads_one_value() {
    let world = World::new();
    let extreme = |function, access: Access| {
        let aggregates = vec![RowAggregate::new(function, column(NAMED))];
        let rows = RowOutput::all(vec![Scalar::column(SqlType::TEXT, 0, 0)]);
        let groups = GroupOutput { keys: vec![], aggregates, ends_at_value: true, filter: None, rows };
        let mut read = ReadPlan::of_table(access, None, ReadOutput::Groups(groups));
        read.rows_max = Some(1);
        world.read(read)
    };
    assert_eq!(extreme(RowFunction::Min, by_name(&world)), ["ant"]);
    let last = Access { backward: true, not_null: true, ..by_name(&world) };
    assert_eq!(extreme(RowFunction::Max, last), ["cat"]);
    assert_eq!(extreme(RowFunction::Max, Access { equal: vec![words("dog")], ..by_name(&world) }), ["NULL"]);
}

#[test]
fn rows_are_grouped_by_keys() {
    let world = World::new();
    let output = |at: usize, kind: &SqlType| Scalar::column(kind.clone(), 0, at);
    let total = SqlType::Decimal { precision: 38, scale: 2 };
    let by_names = |filter, order, limit: Option<i64>| {
        let aggregates =
            vec![RowAggregate::new(RowFunction::CountRows, int(0)), RowAggregate::new(RowFunction::Sum, column(PRICE))];
        let columns = vec![output(0, &SqlType::TEXT), output(1, &BIG), output(2, &total)];
        let rows = RowOutput { columns, order, presorted: 0, skip: None, limit: limit.map(big) };
        let groups = GroupOutput { keys: vec![column(NAMED)], aggregates, ends_at_value: false, filter, rows };
        world.read(ReadPlan::of_table(world.access(), None, ReadOutput::Groups(groups)))
    };
    let mut found = by_names(None, vec![], None);
    found.sort();
    assert_eq!(found, ["NULL 1 350", "ant 2 600", "bee 2 900", "cat 1 -550"]);
    let two = compare(output(1, &BIG), CompareOp::Equal, big(2));
    let by_total = vec![OutputOrder { value: output(2, &total), descending: true, nulls_first: false }];
    assert_eq!(by_names(Some(two), by_total.clone(), None), ["bee 2 900", "ant 2 600"]);
    assert_eq!(by_names(None, by_total, Some(1)), ["bee 2 900"]);
    let cheap = compare(column(PRICE), CompareOp::Less, money(300));
    let filtered = RowAggregate { filter: Some(cheap), ..RowAggregate::new(RowFunction::CountRows, int(0)) };
    let rows = RowOutput::all(vec![output(0, &BIG)]);
    let groups = GroupOutput { keys: vec![], aggregates: vec![filtered], ends_at_value: false, filter: None, rows };
    assert_eq!(world.read(ReadPlan::of_table(world.access(), None, ReadOutput::Groups(groups))), ["3"]);
}

/// A lookup of the items that have the name of row 0, except that row itself.
fn others(world: &World, kind: LookupKind) -> NestedLookup {
    let same_name = Access { equal: vec![of_row(0, NAMED)], ..by_name(world) };
    let other = compare(of_row(1, PRICE), CompareOp::NotEqual, of_row(0, PRICE));
    NestedLookup { kind, ..NestedLookup::inner(same_name, Some(other)) }
}

#[test]
fn semi_anti_and_mark_lookups_test_for_a_match() {
    let world = World::new();
    let ask = |lookup: NestedLookup, columns: Vec<Scalar>| {
        let mut read = rows(world.access(), columns);
        read.lookups.push(lookup);
        world.read_with(read, &[], &[])
    };
    let names = || vec![of_row(0, NAMED), of_row(0, NUMBER)];
    assert_eq!(ask(others(&world, LookupKind::Semi), names()).expect("rows"), ["ant 1", "bee 2", "ant 1", "bee 1"]);
    assert_eq!(ask(others(&world, LookupKind::Anti), names()).expect("rows"), ["NULL 3", "cat 2"]);
    let marked = vec![of_row(0, NUMBER), Scalar::column(SqlType::Boolean, 1, 5)];
    let marks = ["1 true", "2 true", "3 false", "1 true", "2 false", "1 true"];
    assert_eq!(ask(others(&world, LookupKind::Mark), marked.clone()).expect("rows"), marks);
    // If a comparison is NULL, the row may be a match.
    let all = |kind| {
        let compared = Some(compare(of_row(1, NAMED), CompareOp::Equal, words("bee")));
        NestedLookup { kind, compared, ..NestedLookup::inner(world.by(vec![of_row(0, GROUP)]), None) }
    };
    assert_eq!(ask(all(LookupKind::Anti), names()).expect("rows"), ["ant 1", "cat 2"]);
    let marks = ["1 true", "2 true", "3 true", "1 false", "2 false", "1 true"];
    assert_eq!(ask(all(LookupKind::Mark), marked.clone()).expect("rows"), marks);
    let mut unsure = all(LookupKind::Mark);
    unsure.compared = Some(compare(of_row(1, NAMED), CompareOp::Equal, words("cat")));
    let marks = ["1 NULL", "2 NULL", "3 NULL", "1 true", "2 true", "1 false"];
    assert_eq!(ask(unsure, marked).expect("rows"), marks);
    let found = ask(others(&world, LookupKind::Single), vec![of_row(0, NUMBER), of_row(1, PRICE)]).expect("rows");
    assert_eq!(found, ["1 450", "2 650", "3 NULL", "1 150", "2 NULL", "1 250"]);
    let many = NestedLookup { kind: LookupKind::Single, ..NestedLookup::inner(world.by(vec![int(1)]), None) };
    assert_eq!(ask(many, names()).expect_err("three rows").kind(), ErrorKind::CardinalityViolation);
}

#[test]
fn rows_of_a_nested_read_are_found_by_an_equal_value() {
    let world = World::new();
    let paid = || compare(of_row(1, PRICE), CompareOp::Greater, int(0));
    let named = || compare(of_row(1, NAMED), CompareOp::GreaterOrEqual, words(""));
    let both = || Scalar::all_of(vec![paid(), named()]);
    let ask = |kind, filter: Option<Scalar>, is_compared: bool, columns: Vec<Scalar>| {
        let output = ReadOutput::Rows(RowOutput::all(vec![of_row(1, NAMED), of_row(1, PRICE)]));
        let source = LookupSource::Reads(vec![ReadPlan::of_table(world.access(), filter, output)]);
        let equal = compare(of_row(0, NAMED), CompareOp::Equal, Scalar::column(SqlType::TEXT, 1, 0));
        let (condition, compared) = if is_compared { (None, Some(equal)) } else { (Some(equal), None) };
        let mut read = rows(world.access(), columns);
        read.lookups.push(NestedLookup { kind, source, condition, compared });
        world.read(read)
    };
    let name = || vec![of_row(0, NAMED), of_row(0, NUMBER)];
    assert_eq!(ask(LookupKind::Semi, both(), false, name()), ["ant 1", "bee 2", "ant 1", "bee 1"]);
    assert_eq!(ask(LookupKind::Anti, both(), false, name()), ["NULL 3", "cat 2"]);
    assert_eq!(ask(LookupKind::Anti, both(), true, name()), ["cat 2"]);
    assert_eq!(ask(LookupKind::Anti, Some(paid()), true, name()), [""; 0]);
    let marked = || vec![of_row(0, NUMBER), Scalar::column(SqlType::Boolean, 1, 2)];
    let marks = ["1 true", "2 true", "3 NULL", "1 true", "2 false", "1 true"];
    assert_eq!(ask(LookupKind::Mark, both(), true, marked()), marks);
    let marks = ["1 true", "2 true", "3 NULL", "1 true", "2 NULL", "1 true"];
    assert_eq!(ask(LookupKind::Mark, Some(paid()), true, marked()), marks);
    let pairs = || vec![of_row(0, NUMBER), Scalar::column(crate::support::kinds()[PRICE].clone(), 1, 1)];
    let joined = ["1 150", "1 450", "2 250", "2 650", "1 150", "1 450", "1 250", "1 650"];
    assert_eq!(ask(LookupKind::Inner, both(), false, pairs()), joined);
    let outer = ["1 150", "1 450", "2 250", "2 650", "3 NULL", "1 150", "1 450", "2 NULL", "1 250", "1 650"];
    assert_eq!(ask(LookupKind::Left, both(), false, pairs()), outer);
}

/// A lookup of the number of items in the group of row 0, and the sum of their prices: the columns of row 1.
fn of_group(world: &World) -> NestedLookup {
    let aggregates =
        vec![RowAggregate::new(RowFunction::CountRows, int(0)), RowAggregate::new(RowFunction::Max, of_row(1, PRICE))];
    let columns = vec![Scalar::column(crate::support::kinds()[PRICE].clone(), 0, 2), Scalar::column(BIG, 0, 1)];
    let keys = vec![of_row(1, GROUP)];
    let groups = GroupOutput { keys, aggregates, ends_at_value: false, filter: None, rows: RowOutput::all(columns) };
    let cheap = compare(of_row(1, PRICE), CompareOp::Less, of_row(0, PRICE));
    let read = ReadPlan::of_table(world.by(vec![of_row(0, GROUP)]), Some(cheap), ReadOutput::Groups(groups));
    let source = LookupSource::Reads(vec![read]);
    NestedLookup { kind: LookupKind::Left, source, condition: None, compared: None }
}

#[test]
fn a_lookup_has_the_rows_of_another_read() {
    let world = World::new();
    let columns =
        vec![of_row(0, PRICE), Scalar::column(BIG, 1, 1), Scalar::column(crate::support::kinds()[PRICE].clone(), 1, 0)];
    let mut read = rows(world.access(), columns);
    read.lookups.push(of_group(&world));
    assert_eq!(
        world.read(read),
        ["150 NULL NULL", "250 1 150", "350 2 250", "450 1 -550", "-550 NULL NULL", "650 NULL NULL"]
    );
    // First the distinct names of a group, then all items with these names.
    let names = GroupOutput {
        keys: vec![column(NAMED)],
        aggregates: vec![],
        ends_at_value: false,
        filter: None,
        rows: RowOutput::all(vec![Scalar::column(SqlType::TEXT, 0, 0)]),
    };
    let names = ReadPlan::of_table(world.by(vec![int(1)]), None, ReadOutput::Groups(names));
    let first = NestedLookup {
        kind: LookupKind::Inner,
        source: LookupSource::Reads(vec![names]),
        condition: None,
        compared: None,
    };
    let of_name = Access { equal: vec![Scalar::column(SqlType::TEXT, 0, 0)], ..by_name(&world) };
    let lookups = vec![first, NestedLookup::inner(of_name, None)];
    let output = ReadOutput::Rows(RowOutput::all(vec![of_row(1, NAMED), of_row(1, PRICE)]));
    let read =
        ReadPlan { lookups: lookups.clone(), filter: None, output, for_update: false, rows_max: None, few: None };
    let mut found = world.read(read);
    found.sort();
    assert_eq!(found, ["ant 150", "ant 450", "bee 250", "bee 650"]);
    // The same rows are changed, with values of both lookups.
    let half = Scalar::literal(SqlType::Decimal { precision: 3, scale: 2 }, ScalarValue::Decimal(100));
    let less = Scalar::arithmetic(
        SqlType::Decimal { precision: 9, scale: 2 },
        of_row(1, PRICE),
        rowmill_plan::program::ArithmeticOp::Minus,
        half,
    );
    let target = ChangeTarget {
        lookups,
        row: 1,
        filter: Some(compare(of_row(1, GROUP), CompareOp::Greater, int(1))),
        may_repeat: false,
    };
    let update = Update {
        target: target.clone(),
        assignments: vec![(PRICE, less), (NOTE, Scalar::column(SqlType::TEXT, 0, 0))],
        generated: vec![],
        checks: vec![],
        returning: vec![column(NAMED), column(PRICE), column(NOTE)],
    };
    let (changed, mut given) = world.write(Body::Update(update)).expect("updated");
    given.sort();
    assert_eq!((changed, given), (2, vec!["ant 350 ant".to_owned(), "bee 550 bee".to_owned()]));
    let (changed, _) = world.write(Body::Delete(Delete { target, returning: vec![] })).expect("deleted");
    assert_eq!((changed, world.all().len()), (2, 4));
}

#[test]
fn a_read_without_lookups_is_one_row() {
    let world = World::new();
    let output = |limit: Option<i64>| {
        let columns = vec![int(7), Scalar::parameter(SqlType::TEXT, 0)];
        ReadOutput::Rows(RowOutput { columns, order: vec![], presorted: 0, skip: None, limit: limit.map(big) })
    };
    let read = |limit| ReadPlan {
        lookups: vec![],
        filter: None,
        output: output(limit),
        for_update: false,
        rows_max: None,
        few: None,
    };
    let run = |limit| {
        let value = [rowmill_storage::keyed::ValueRef::Text("x")];
        world.read_with(read(limit), &[SqlType::TEXT], &value).expect("rows")
    };
    assert_eq!(run(None), ["7 x"]);
    assert_eq!(run(Some(0)), [""; 0]);
}

#[test]
fn any_expression_is_evaluated() {
    let world = World::new();
    let function = rowmill_expr::functions::find("repeat").expect("a function of the registry");
    let text = |position| ScalarExpr::column(position, DataType::Utf8View);
    let twice = ScalarExpr::new(DataType::Utf8View, ExprOp::Call(function, vec![text(0), ScalarExpr::literal(2_i64)]));
    let twice = |of| Scalar::new(SqlType::TEXT, ScalarOp::Evaluate(Arc::new(twice.clone()), vec![of]));
    let like = |pattern: &str, negated, ignore_case| {
        let operands = Box::new([column(NAMED), words(pattern)]);
        Scalar::new(SqlType::Boolean, ScalarOp::Like { operands, escape: Some('\\'), negated, ignore_case })
    };
    let mut read = rows(
        world.by(vec![int(1)]),
        vec![twice(column(NAMED)), like("_e%", false, false), like("BE%", true, true), twice(twice(column(NOTE)))],
    );
    assert_eq!(
        world.read(read.clone()),
        ["antant false true firstfirstfirstfirst", "beebee true false NULL", "NULL NULL NULL thirdthirdthirdthird"]
    );
    read.filter = Some(compare(twice(column(NAMED)), CompareOp::Equal, words("beebee")));
    assert_eq!(world.read(read).len(), 1);
}

#[test]
fn an_assigned_text_is_parsed_as_a_file_import_parses_it() {
    let world = World::new();
    let assign = |column: usize, value: Scalar| {
        let target = ChangeTarget::new(world.by(vec![int(1), int(1)]), None);
        let returning = vec![crate::support::column(column)];
        world.write(Body::Update(Update {
            target,
            assignments: vec![(column, value)],
            generated: vec![],
            checks: vec![],
            returning,
        }))
    };
    assert_eq!(assign(PRICE, words("12.5")).expect("read").1, ["1250"]);
    assert_eq!(assign(NAMED, Scalar::literal(SqlType::Boolean, ScalarValue::Bool(true))).expect("shown").1, ["true"]);
    let error = assign(PRICE, words("much")).expect_err("no number");
    assert_eq!(error.kind(), ErrorKind::InvalidText);
    assert!(error.message().contains("\"price\""), "{error}");
}

#[test]
fn a_table_that_has_grown_is_left_to_the_general_engine() {
    let world = World::new();
    let read = |rows_max| ReadPlan { rows_max: Some(rows_max), ..all_of(world.access(), vec![NUMBER]) };
    assert_eq!(world.read(read(6)).len(), 6);
    assert_eq!(world.read_with(read(5), &[], &[]).expect_err("six rows").kind(), ErrorKind::Unsupported);
}

#[test]
fn small_numbers_are_found_in_wider_columns() {
    let world = World::new();
    let small = Scalar::literal(SMALL, ScalarValue::Int(2));
    assert_eq!(pairs(&world, Access { alternatives: vec![vec![small]], ..world.access() }), ["2 1", "2 2"]);
}
