//! `INSERT`, `UPDATE`, `DELETE`: their changes and results, their errors, and that a statement does not see its own
//! changes.

use rowmill_base::{ErrorKind, SqlType};
use rowmill_plan::CompareOp;
use rowmill_plan::program::{
    Access, ArithmeticOp, Body, ChangeTarget, ConflictAction, ConflictTarget, Delete, Insert, OnConflict, ReadPlan,
    Scalar, ScalarOp, ScalarValue, TableCheck, TextFunction, Update,
};
use rowmill_program::{ProgramScratch, ResultRows};
use rowmill_txn::TableSource;

use crate::support::{
    BIG, DOUBLE, GROUP, MONEY, NAMED, NOTE, NUMBER, PRICE, SMALL, World, all_of, big, bound, column, compare, int,
    money, null, of_row, words,
};

fn insert(world: &World, rows: Vec<[Scalar; 5]>) -> Insert {
    let rows = rows.into_iter().map(|row| row.to_vec()).collect();
    Insert {
        table: world.items,
        rows,
        source: None,
        sequences: vec![],
        generated: vec![],
        on_conflict: None,
        checks: vec![],
        returning: vec![],
    }
}

fn item(group: i64, number: i64, name: Scalar, price: i128, note: Scalar) -> [Scalar; 5] {
    [big(group), big(number), name, money(price), note]
}

fn delete(access: Access, returning: Vec<Scalar>) -> Delete {
    Delete { target: ChangeTarget::new(access, None), returning }
}

fn update(access: Access, assignments: Vec<(usize, Scalar)>) -> Update {
    Update {
        target: ChangeTarget::new(access, None),
        assignments,
        generated: vec![],
        checks: vec![],
        returning: vec![],
    }
}

fn small(value: i64) -> Scalar {
    Scalar::literal(SMALL, ScalarValue::Int(value))
}

fn plus(column_at: usize, by: Scalar) -> Scalar {
    let kind = by.kind.clone();
    Scalar::arithmetic(kind, column(column_at), ArithmeticOp::Plus, by)
}

fn positive() -> Vec<TableCheck> {
    vec![TableCheck { name: "positive".into(), condition: compare(column(PRICE), CompareOp::Greater, int(0)) }]
}

#[test]
fn rows_are_inserted_with_their_index_entries() {
    let world = World::new();
    let mut new = insert(&world, vec![item(4, 1, words("dog"), 100, null()), item(4, 2, null(), 200, words("n"))]);
    new.returning = vec![column(NUMBER), column(PRICE)];
    assert_eq!(world.write(Body::Insert(new)).expect("inserted"), (2, vec!["1 100".to_owned(), "2 200".to_owned()]));
    let by_name = Access { index: Some(world.by_name), ..world.by(vec![words("dog")]) };
    assert_eq!(world.read(all_of(by_name, vec![GROUP, NUMBER])), ["4 1"]);
    // A value is converted to the type of its column.
    let mut assigned = item(5, 1, words("x"), 0, null());
    assigned[NUMBER] = Scalar::literal(DOUBLE, ScalarValue::Float(2.5));
    assigned[PRICE] = Scalar::literal(DOUBLE, ScalarValue::Float(0.125));
    assigned[NOTE] = int(17);
    world.write(Body::Insert(insert(&world, vec![assigned]))).expect("inserted");
    assert_eq!(world.read(all_of(world.by(vec![int(5)]), vec![NUMBER, PRICE, NOTE])), ["2 13 17"]);
}

#[test]
fn a_row_that_the_table_refuses_changes_nothing() {
    let world = World::new();
    let refused = |row: [Scalar; 5]| {
        let rows = vec![item(7, 7, words("fine"), 100, null()), row];
        let checks = positive();
        world.refused(Body::Insert(Insert { checks, ..insert(&world, rows) }))
    };
    assert_eq!(refused(item(1, 1, words("x"), 100, null())).sqlstate(), "23505");
    assert_eq!(refused(item(8, 8, words("x"), 100, words("six"))).sqlstate(), "23505");
    assert_eq!(refused(item(8, 8, words("toolong"), 100, null())).kind(), ErrorKind::StringTooLong);
    let mut no_price = item(8, 8, words("x"), 100, null());
    no_price[PRICE] = null();
    assert_eq!(refused(no_price).kind(), ErrorKind::NotNullViolation);
    let broken = refused(item(8, 8, words("x"), -5, null()));
    assert_eq!(broken.sqlstate(), "23514");
    assert!(broken.message().contains("items") && broken.message().contains("positive"), "{broken}");
    let large = refused(item(8, 1 << 20, words("x"), 100, null()));
    assert_eq!(large.message(), "column \"number\": '1048576' is out of range for the type SMALLINT");
    // A constraint that is NULL is met.
    let mut check = positive();
    check[0].condition = compare(column(NAMED), CompareOp::Equal, null());
    let unknown = Insert { checks: check, ..insert(&world, vec![item(7, 7, words("x"), 100, null())]) };
    assert_eq!(world.write(Body::Insert(unknown)).expect("inserted").0, 1);
}

#[test]
fn on_conflict_skips_or_updates_the_existing_row() {
    let world = World::new();
    let put = |target, action, rows| {
        let on_conflict = Some(OnConflict { target, action });
        let returning = vec![column(GROUP), column(PRICE)];
        Body::Insert(Insert { on_conflict, returning, checks: positive(), ..insert(&world, rows) })
    };
    let rows = vec![
        item(1, 1, words("x"), 1, null()),
        item(8, 1, words("x"), 2, words("six")),
        item(8, 2, words("x"), 3, null()),
    ];
    let (changed, given) =
        world.write(put(ConflictTarget::Any, ConflictAction::Nothing, rows.clone())).expect("inserted");
    assert_eq!((changed, given), (1, vec!["8 3".to_owned()]));
    // A conflict with another key is an error.
    let error = world.refused(put(ConflictTarget::PrimaryKey, ConflictAction::Nothing, rows));
    assert_eq!(error.kind(), ErrorKind::UniqueViolation);

    let add = |filter| ConflictAction::Update {
        assignments: vec![(
            PRICE,
            Scalar::arithmetic(
                SqlType::Decimal { precision: 9, scale: 2 },
                of_row(0, PRICE),
                ArithmeticOp::Plus,
                of_row(1, PRICE),
            ),
        )],
        filter,
    };
    let by_key = |filter, rows| put(ConflictTarget::PrimaryKey, add(filter), rows);
    let taken = || item(1, 1, words("x"), 1_000, null());
    let (changed, given) = world.write(by_key(None, vec![taken(), item(9, 9, null(), 5, null())])).expect("put");
    assert_eq!((changed, given), (2, vec!["1 1150".to_owned(), "9 5".to_owned()]));
    let cheap = compare(of_row(0, PRICE), CompareOp::Less, int(1));
    assert_eq!(world.write(by_key(Some(cheap), vec![taken()])).expect("left"), (0, vec![]));
    for rows in [vec![taken(), taken()], vec![item(9, 8, null(), 5, null()), item(9, 8, null(), 5, null())]] {
        assert_eq!(world.refused(by_key(None, rows)).kind(), ErrorKind::CardinalityViolation);
    }
    let by_note = put(ConflictTarget::Index(world.by_note), add(None), vec![item(8, 8, null(), 1, words("six"))]);
    assert_eq!(world.write(by_note).expect("put"), (1, vec!["3 651".to_owned()]));
    let checked = by_key(None, vec![item(2, 2, null(), 5, null())]);
    assert_eq!(world.refused(checked).kind(), ErrorKind::CheckViolation);
    let no_index = world.compiled(&[], put(ConflictTarget::Index(world.by_name), ConflictAction::Nothing, vec![]));
    assert_eq!(no_index.expect_err("not unique").kind(), ErrorKind::UndefinedObject);
}

#[test]
fn an_update_changes_rows_in_place_or_moves_them() {
    let world = World::new();
    let one = update(world.by(vec![int(1), int(2)]), vec![(PRICE, money(9)), (NAMED, words("dog"))]);
    let one = Update { returning: vec![column(NAMED), column(PRICE)], ..one };
    assert_eq!(world.write(Body::Update(one)).expect("updated"), (1, vec!["dog 9".to_owned()]));
    let by_name = |name| Access { index: Some(world.by_name), ..world.by(vec![words(name)]) };
    assert_eq!(world.read(all_of(by_name("bee"), vec![GROUP])), ["3"]);
    assert_eq!(world.read(all_of(by_name("dog"), vec![GROUP])), ["1"]);
    // All new values are computed from the old row.
    let swapped = vec![(GROUP, column(NUMBER)), (NUMBER, column(GROUP))];
    let access = world.by(vec![int(3), int(1)]);
    let error = world.refused(Body::Update(update(access.clone(), swapped.clone())));
    assert_eq!(error.kind(), ErrorKind::UniqueViolation);
    world.write(Body::Update(update(world.by(vec![int(1), int(3)]), vec![(NUMBER, small(30))]))).expect("moved");
    world.write(Body::Update(update(access, swapped))).expect("swapped");
    assert_eq!(world.read(all_of(world.by(vec![int(1)]), vec![NUMBER, PRICE])), ["1 150", "2 9", "3 650", "30 350"]);
    assert_eq!(world.write(Body::Update(update(world.by(vec![int(77)]), vec![]))).expect("none"), (0, vec![]));
}

#[test]
fn a_statement_does_not_see_its_own_changes() {
    let world = World::new();
    // Each row moves up, into the range that the statement reads.
    let up = update(world.by(vec![int(1)]), vec![(NUMBER, plus(NUMBER, small(10)))]);
    assert_eq!(world.write(Body::Update(up)).expect("updated").0, 3);
    assert_eq!(world.read(all_of(world.by(vec![int(1)]), vec![NUMBER])), ["11", "12", "13"]);
    // Rows also move up in an index.
    let from = Access { index: Some(world.by_name), from: bound(words("a"), true), ..world.access() };
    let longer = Scalar::new(SqlType::TEXT, ScalarOp::Text(TextFunction::Concat, vec![column(NAMED), words("z")]));
    let (changed, _) = world.write(Body::Update(update(from, vec![(NAMED, longer)]))).expect("updated");
    assert_eq!(changed, 5);
    let names = world.read(all_of(Access { index: Some(world.by_name), ..world.access() }, vec![NAMED]));
    assert_eq!(names, ["antz", "antz", "beez", "beez", "catz", "NULL"]);
}

#[test]
fn an_update_that_fails_in_the_middle_changes_nothing() {
    let world = World::new();
    let halved = Scalar::arithmetic(DOUBLE, column(PRICE), ArithmeticOp::Divide, column(NUMBER).cast(MONEY));
    let mut all = update(world.access(), vec![(PRICE, halved)]);
    all.checks = positive();
    let mut transaction = world.engine.begin().expect("a transaction");
    let note = update(world.by(vec![int(1), int(1)]), vec![(NOTE, words("new"))]);
    world.write_in(&mut transaction, Body::Update(note)).expect("updated");
    let error = world.write_in(&mut transaction, Body::Update(all)).expect_err("one is negative");
    assert_eq!(error.kind(), ErrorKind::CheckViolation);
    transaction.commit().expect("committed");
    assert_eq!(world.read(all_of(world.by(vec![int(1)]), vec![PRICE, NOTE])), ["150 new", "250 NULL", "350 third"]);
}

#[test]
fn rows_are_deleted_with_their_index_entries() {
    let world = World::new();
    let mut gone = delete(world.by(vec![int(1)]), vec![column(NAMED)]);
    gone.target.filter = Some(compare(column(NUMBER), CompareOp::LessOrEqual, int(2)));
    let (changed, given) = world.write(Body::Delete(gone)).expect("deleted");
    assert_eq!((changed, given), (2, vec!["ant".to_owned(), "bee".to_owned()]));
    let ants = Access { index: Some(world.by_name), ..world.by(vec![words("ant")]) };
    assert_eq!(world.read(all_of(ants, vec![GROUP])), ["2"]);
    let all = delete(world.access(), vec![]);
    assert_eq!(world.write(Body::Delete(all)).expect("deleted"), (4, vec![]));
    assert_eq!(world.all(), [""; 0]);
}

#[test]
fn a_transaction_sees_its_own_statements() {
    let world = World::new();
    let mut transaction = world.engine.begin().expect("a transaction");
    let mut run = |body| world.write_in(&mut transaction, body).expect("done");
    run(Body::Insert(insert(&world, vec![item(1, 9, words("new"), 1, null())])));
    run(Body::Update(update(world.by(vec![int(1), int(1)]), vec![(PRICE, money(7))])));
    run(Body::Delete(delete(world.by(vec![int(1), int(2)]), vec![])));
    let read = || all_of(world.by(vec![int(1)]), vec![NUMBER, PRICE]);
    assert_eq!(run(Body::Read(read())), (3, ["1 7", "3 350", "9 1"].map(str::to_owned).to_vec()));
    assert_eq!(world.read(read()), ["1 150", "2 250", "3 350"]);
    transaction.commit().expect("committed");
    assert_eq!(world.read(read()), ["1 7", "3 350", "9 1"]);
}

#[test]
fn commit_fails_if_a_row_read_for_update_has_changed() {
    let world = World::new();
    let read = |by| Body::Read(ReadPlan { for_update: true, ..all_of(by, vec![PRICE]) });
    let change =
        |number| Body::Update(update(world.by(vec![int(1), int(number)]), vec![(PRICE, money(number.into()))]));
    for (number, is_lost) in [(3, false), (2, true)] {
        let mut transaction = world.engine.begin().expect("a transaction");
        let mut by_name = Access { index: Some(world.by_name), ..world.by(vec![words("bee")]) };
        by_name.backward = true;
        let (given, _) = world.write_in(&mut transaction, read(by_name)).expect("rows");
        assert_eq!(given, 2);
        world.write_in(&mut transaction, change(1)).expect("updated");
        world.write(change(number)).expect("updated by another");
        let committed = transaction.commit().map_err(|error| error.kind());
        assert_eq!(committed.err(), is_lost.then_some(ErrorKind::SerializationFailure));
    }
    let compiled = world.compiled(&[], read(world.access())).expect("compiled");
    assert!(!compiled.is_read());
    let snapshot = world.engine.snapshot().expect("a snapshot");
    let (mut scratch, mut out) = (ProgramScratch::default(), ResultRows::default());
    let error = compiled.run_read(&snapshot.reader(), &[], &mut scratch, &mut out).expect_err("no transaction");
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_program_for_other_definitions_writes_nothing() {
    let world = World::new();
    let compiled = world.compiled(&[], Body::Insert(insert(&world, vec![item(9, 9, null(), 1, null())])));
    let compiled = compiled.expect("compiled");
    let mut transaction = world.engine.begin().expect("a transaction");
    transaction.drop_index(world.items, world.by_note).expect("dropped");
    let (mut scratch, mut out) = (ProgramScratch::default(), ResultRows::default());
    let error = compiled.run_write(&mut transaction, &[], &mut scratch, &mut out).expect_err("it was changed");
    assert_eq!(error.kind(), ErrorKind::SerializationFailure);
    assert!(!compiled.is_valid_for(transaction.catalog()));
    let reader = world.engine.snapshot().expect("a snapshot");
    let error = compiled.run_read(&reader.reader(), &[], &mut scratch, &mut out).expect_err("it writes");
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
}

#[test]
fn rows_of_a_table_without_keys_are_appended() {
    let world = World::new();
    let line = |number: Scalar, line: &str| vec![number, words(line)];
    let insert = |rows| Insert {
        table: world.history,
        rows,
        source: None,
        sequences: vec![],
        generated: vec![],
        on_conflict: None,
        checks: vec![TableCheck {
            name: "positive".into(),
            condition: compare(Scalar::column(BIG, 0, 0), CompareOp::Greater, int(0)),
        }],
        returning: vec![Scalar::column(BIG, 0, 0)],
    };
    let rows = vec![line(int(1), "one"), line(int(2), "a longer text than a view has room for")];
    let (changed, given) = world.write(Body::Insert(insert(rows))).expect("appended");
    assert_eq!((changed, given), (2, vec!["1".to_owned(), "2".to_owned()]));
    let rows = || world.engine.snapshot().expect("a snapshot").table(world.history).expect("there").runs()[0].rows();
    assert_eq!(rows(), 2);
    let refused = |row| world.write(Body::Insert(insert(vec![row]))).expect_err("refused").kind();
    assert_eq!(refused(line(null(), "x")), ErrorKind::NotNullViolation);
    assert_eq!(refused(line(int(-1), "x")), ErrorKind::CheckViolation);
    assert_eq!(rows(), 2);
    let on_conflict = Some(OnConflict { target: ConflictTarget::Any, action: ConflictAction::Nothing });
    let conflict = world.compiled(&[], Body::Insert(Insert { on_conflict, ..insert(vec![]) }));
    assert_eq!(conflict.expect_err("no key").kind(), ErrorKind::WrongObject);
}

#[test]
fn long_texts_are_read_in_index_order_and_are_unique() {
    let world = World::empty();
    let long = |end: &str| words(&("p".repeat(3_000) + end));
    let rows = [(1, long("c")), (2, long("a")), (3, words("o")), (4, long("b")), (5, words("q")), (6, null())];
    let rows: Vec<_> = rows.into_iter().map(|(number, note)| item(1, number, null(), 0, note)).collect();
    world.write(Body::Insert(insert(&world, rows))).expect("inserted");
    let by_note = |equal| Access { index: Some(world.by_note), ..world.by(equal) };
    let numbers = |access| world.read(all_of(access, vec![NUMBER]));
    // The columns come from the index entries, or from the rows if an entry has a short key.
    let notes = |access| {
        let read = world.read(all_of(access, vec![NOTE]));
        read.iter().map(|note| note.chars().rev().take(2).collect::<String>()).collect::<Vec<_>>()
    };
    assert_eq!(numbers(by_note(vec![])), ["3", "2", "4", "1", "5", "6"]);
    assert_eq!(numbers(Access { backward: true, ..by_note(vec![]) }), ["6", "5", "1", "4", "2", "3"]);
    assert_eq!(notes(by_note(vec![])), ["o", "ap", "bp", "cp", "q", "LL"]);
    assert_eq!(numbers(by_note(vec![long("b")])), ["4"]);
    assert_eq!(notes(by_note(vec![long("b")])), ["bp"]);
    assert_eq!(numbers(by_note(vec![long("")])), [""; 0]);
    let range = |from, to| Access { from: bound(from, true), to: bound(to, false), ..by_note(vec![]) };
    assert_eq!(numbers(range(long("a"), long("c"))), ["2", "4"]);
    assert_eq!(numbers(range(long("aa"), words("z"))), ["4", "1", "5"]);
    assert_eq!(numbers(range(words("a"), long("a"))), ["3"]);

    assert_eq!(world.refused(Body::Insert(insert(&world, vec![item(2, 1, null(), 0, long("b"))]))).sqlstate(), "23505");
    let new = insert(&world, vec![item(2, 1, null(), 0, long("b")), item(2, 2, null(), 0, long("d"))]);
    let on_conflict = Some(OnConflict {
        target: ConflictTarget::Index(world.by_note),
        action: ConflictAction::Update { assignments: vec![(PRICE, money(700))], filter: None },
    });
    assert_eq!(world.write(Body::Insert(Insert { on_conflict, ..new })).expect("inserted").0, 2);
    assert_eq!(world.read(all_of(by_note(vec![long("b")]), vec![NUMBER, PRICE])), ["4 700"]);
    let moved = update(by_note(vec![long("d")]), vec![(NOTE, long("0"))]);
    assert_eq!(world.write(Body::Update(moved)).expect("updated").0, 1);
    assert_eq!(numbers(by_note(vec![])), ["3", "2", "2", "4", "1", "5", "6"]);
    let gone = delete(range(long(""), long("b")), vec![]);
    assert_eq!(world.write(Body::Delete(gone)).expect("deleted").0, 2);
    assert_eq!(numbers(by_note(vec![])), ["3", "4", "1", "5", "6"]);
}
