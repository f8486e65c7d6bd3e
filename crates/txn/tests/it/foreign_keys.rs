//! Foreign keys between transactions that overlap: who refers to a row, and who deletes it, cannot both win.

use std::sync::Arc;

use rowmill_base::{ColumnId, ErrorKind, Isolation, TableId};
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::{Engine, ForeignKeyDef, ReferentialAction, Transaction};

use crate::check::problems;
use crate::support::{create_keyed, open, settings};

const LEVELS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

/// Parents under a number, and children of which the text is another matter: each child's number is a parent's.
struct Family {
    engine: Arc<Engine>,
    parents: TableId,
    children: TableId,
}

impl Family {
    fn new(engine: Arc<Engine>, on_delete: ReferentialAction) -> Family {
        let mut transaction = engine.begin().expect("a transaction");
        let parents = create_keyed(&mut transaction, "parents").expect("a keyed table");
        let children = create_keyed(&mut transaction, "children").expect("a keyed table");
        let key = ForeignKeyDef {
            name: "of".into(),
            columns: vec![ColumnId(0)],
            parent: parents,
            parent_columns: vec![ColumnId(0)],
            on_delete,
            on_update: ReferentialAction::Restrict,
        };
        transaction.add_foreign_key(children, key, "unused").expect("a foreign key");
        (1..=3).for_each(|number| put(&mut transaction, parents, number));
        transaction.commit().expect("committed");
        Family { engine, parents, children }
    }

    fn begin(&self, level: Isolation) -> Transaction {
        let mut transaction = self.engine.begin().expect("a transaction");
        transaction.set_isolation(level);
        transaction
    }
}

fn put(transaction: &mut Transaction, table: TableId, number: i64) {
    transaction.insert_row(table, &[ValueRef::Int(number), ValueRef::Text("x")]).expect("inserted");
}

fn rename(transaction: &mut Transaction, table: TableId, number: i64) {
    let old = transaction.get(table, &[ValueRef::Int(number)]).expect("read").expect("it is there");
    transaction.update_row(table, &old, &[ValueRef::Int(number), ValueRef::Text("y")]).expect("updated");
}

fn delete(transaction: &mut Transaction, table: TableId, number: i64) {
    assert!(transaction.delete_by_key(table, &[ValueRef::Int(number)]).expect("deleted"));
}

#[test]
fn a_child_and_the_end_of_its_parent_cannot_both_be_committed() {
    for level in LEVELS {
        for child_first in [false, true] {
            let family = Family::new(Engine::memory(settings(50)).expect("in memory"), ReferentialAction::Restrict);
            let (mut child, mut parent) = (family.begin(level), family.begin(level));
            put(&mut child, family.children, 1);
            child.settle_references().expect("its parent is there");
            delete(&mut parent, family.parents, 1);
            parent.settle_references().expect("nobody refers to it");
            let (first, second) = if child_first { (child, parent) } else { (parent, child) };
            first.commit().expect("nobody was faster");
            let error = second.commit().expect_err("the other was faster");
            assert_eq!(error.kind(), ErrorKind::SerializationFailure, "{error}");
        }
    }
}

#[test]
fn a_parent_may_be_written_while_others_come_to_refer_to_it() {
    for level in LEVELS {
        let family = Family::new(Engine::memory(settings(50)).expect("in memory"), ReferentialAction::Restrict);
        let (mut child, mut parent) = (family.begin(level), family.begin(level));
        put(&mut child, family.children, 1);
        rename(&mut parent, family.parents, 1);
        parent.commit().expect("committed");
        child.commit().expect("the parent is there");
        // And one that is deleted and put again is there as well.
        let (mut child, mut parent) = (family.begin(level), family.begin(level));
        put(&mut child, family.children, 2);
        delete(&mut parent, family.parents, 2);
        put(&mut parent, family.parents, 2);
        parent.commit().expect("nobody refers to what is gone");
        child.commit().expect("the parent is there");
    }
}

#[test]
fn a_cascade_loses_to_a_child_that_it_has_not_seen() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let family = Family::new(open(folder.path(), 50), ReferentialAction::Cascade);
    let mut transaction = family.begin(Isolation::Snapshot);
    (1..=2).for_each(|number| put(&mut transaction, family.children, number));
    transaction.commit().expect("committed");

    let (mut cascade, mut child) = (family.begin(Isolation::Snapshot), family.begin(Isolation::Snapshot));
    delete(&mut cascade, family.parents, 3);
    delete(&mut cascade, family.parents, 1);
    cascade.settle_references().expect("followed");
    put(&mut child, family.children, 3);
    child.commit().expect("committed");
    let error = cascade.commit().expect_err("a child has come");
    assert_eq!(error.kind(), ErrorKind::SerializationFailure, "{error}");

    let mut cascade = family.begin(Isolation::Snapshot);
    delete(&mut cascade, family.parents, 3);
    cascade.commit().expect("a commit settles what is not settled");
    let mut rest = family.begin(Isolation::Snapshot);
    assert!(rest.get(family.children, &[ValueRef::Int(3)]).expect("read").is_none());
    assert!(rest.get(family.children, &[ValueRef::Int(2)]).expect("read").is_some());
    // A savepoint takes back what was to be settled.
    let before = rest.savepoint();
    rest.insert_row(family.children, &[ValueRef::Int(9), ValueRef::Null]).expect("settled later");
    rest.rollback_to(&before);
    rest.settle_references().expect("nothing is left");
    drop(rest);
    drop(family);

    // The definitions are there after another opening.
    let engine = open(folder.path(), 50);
    let mut late = engine.begin().expect("a transaction");
    let table = late.catalog().all_tables().find(|table| table.name == "children").expect("it is there").id;
    late.insert_row(table, &[ValueRef::Int(9), ValueRef::Null]).expect("settled later");
    let error = late.commit().expect_err("it has no parent");
    assert_eq!(error.kind(), ErrorKind::ForeignKeyViolation, "{error}");
    assert_eq!(problems(&engine.check(&rowmill_base::Cancel::new()).expect("checked")), Vec::<String>::new());
}

#[test]
fn a_definition_meets_writers_that_do_not_know_it() {
    let engine = Engine::memory(settings(50)).expect("in memory");
    let family = Family::new(Arc::clone(&engine), ReferentialAction::Restrict);
    let mut unaware = family.begin(Isolation::Snapshot);
    delete(&mut unaware, family.parents, 1);
    let mut defining = family.begin(Isolation::Snapshot);
    let others = create_keyed(&mut defining, "others").expect("a keyed table");
    let key = ForeignKeyDef {
        name: "more".into(),
        columns: vec![ColumnId(0)],
        parent: family.parents,
        parent_columns: vec![ColumnId(0)],
        on_delete: ReferentialAction::Restrict,
        on_update: ReferentialAction::Restrict,
    };
    defining.add_foreign_key(others, key, "unused").expect("a foreign key");
    put(&mut defining, others, 1);
    defining.commit().expect("committed");
    let error = unaware.commit().expect_err("rows refer to it now");
    assert_eq!(error.kind(), ErrorKind::SerializationFailure, "{error}");
}
