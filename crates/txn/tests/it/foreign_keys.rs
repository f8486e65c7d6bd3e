//! Foreign keys between transactions that overlap: who refers to a row, and who deletes it, cannot both win.

use std::sync::Arc;

use rowmill_base::{Cancel, ColumnId, ErrorKind, Isolation, SqlType, TableId};
use rowmill_io::MemoryDisk;
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::base::{MemoryBase, OrderedBase, WriteBatch};
use rowmill_txn::{
    ColumnSpec, Engine, ForeignKeyDef, IndexSpec, KeyColumn, MAIN_SCHEMA, ReferentialAction, Transaction,
};

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
            parent.settle_references().expect("no row refers to it");
            let (first, second) = if child_first { (child, parent) } else { (parent, child) };
            first.commit().expect("no other commit was first");
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
        parent.commit().expect("no row refers to the removed row");
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
    cascade.commit().expect("a commit settles the open checks");
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

/// A text of thousands of bytes that others begin as.
fn long(end: &str) -> String {
    "p".repeat(2_500) + end
}

/// Pages and the links to them, by addresses that are too long to be kept in an index.
struct Pages {
    engine: Arc<Engine>,
    pages: TableId,
    links: TableId,
}

impl Pages {
    /// With `beside` links have an index of their addresses and notes, which the foreign key then goes by.
    fn new(engine: Arc<Engine>, action: ReferentialAction, beside: bool) -> Pages {
        let mut transaction = engine.begin().expect("a transaction");
        let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
        let columns = || {
            vec![
                ColumnSpec::new("number", SqlType::Int64),
                ColumnSpec::new("address", SqlType::TEXT),
                ColumnSpec::new("note", SqlType::TEXT),
            ]
        };
        let part = |column| KeyColumn { column: ColumnId(column), descending: column == 2 };
        let pages = transaction.create_keyed_table(main, "pages", columns(), &[part(0)]).expect("a keyed table");
        let links = transaction.create_keyed_table(main, "links", columns(), &[part(0)]).expect("a keyed table");
        let spec = IndexSpec { name: "addresses".into(), parts: vec![part(1)], unique: true };
        transaction.create_index(pages, spec).expect("an index");
        if beside {
            let spec = IndexSpec { name: "beside".into(), parts: vec![part(1), part(2)], unique: false };
            transaction.create_index(links, spec).expect("an index");
        }
        let key = ForeignKeyDef {
            name: "to".into(),
            columns: vec![ColumnId(1)],
            parent: pages,
            parent_columns: vec![ColumnId(1)],
            on_delete: action,
            on_update: action,
        };
        transaction.add_foreign_key(links, key, "links by address").expect("a foreign key");
        transaction.commit().expect("committed");
        Pages { engine, pages, links }
    }

    fn begin(&self, level: Isolation) -> Transaction {
        let mut transaction = self.engine.begin().expect("a transaction");
        transaction.set_isolation(level);
        transaction
    }

    /// Pages "a" and "b", a short one, and links to all of them, of which three go to "b".
    fn fill(&self) {
        let mut transaction = self.begin(Isolation::Snapshot);
        for (number, end) in [(1, "a"), (2, "b")] {
            put_text(&mut transaction, self.pages, number, Some(&long(end)));
        }
        put_text(&mut transaction, self.pages, 3, Some("p"));
        for (number, end) in [(10, "a"), (11, "b"), (12, "b"), (13, "b")] {
            put_text(&mut transaction, self.links, number, Some(&long(end)));
        }
        put_text(&mut transaction, self.links, 14, Some("p"));
        put_text(&mut transaction, self.links, 15, None);
        transaction.commit().expect("all have pages");
    }

    /// The links by what the end of their addresses is.
    fn links(&self) -> Vec<(i64, Option<String>)> {
        let mut found = Vec::new();
        let transaction = self.begin(Isolation::Snapshot);
        let codec = transaction.keyed_codec(self.links).expect("a codec");
        let mut scratch = Vec::new();
        for number in 10..20 {
            let Some(row) = transaction.get(self.links, &[ValueRef::Int(number)]).expect("read") else { continue };
            let end = match codec.column(&row.key, &row.row, 1, &mut scratch).expect("a value") {
                ValueRef::Text(text) => Some(text[text.len() - 1..].to_owned()),
                _ => None,
            };
            found.push((number, end));
        }
        found
    }

    fn assert_sound(&self) {
        assert_eq!(problems(&self.engine.check(&Cancel::new()).expect("checked")), Vec::<String>::new());
    }
}

fn put_text(transaction: &mut Transaction, table: TableId, number: i64, text: Option<&str>) {
    let address = text.map_or(ValueRef::Null, ValueRef::Text);
    transaction.insert_row(table, &[ValueRef::Int(number), address, ValueRef::Text("n")]).expect("inserted");
}

fn set_text(transaction: &mut Transaction, table: TableId, number: i64, text: &str, note: &str) {
    let old = transaction.get(table, &[ValueRef::Int(number)]).expect("read").expect("it is there");
    let row = [ValueRef::Int(number), ValueRef::Text(text), ValueRef::Text(note)];
    transaction.update_row(table, &old, &row).expect("updated");
}

#[test]
fn long_values_are_referred_to_as_short_ones_are() {
    use ReferentialAction::{Cascade, Restrict, SetNull};
    let some = |end: &str| Some(end.to_owned());
    for (action, beside) in
        [Restrict, Cascade, SetNull].into_iter().flat_map(|action| [(action, false), (action, true)])
    {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut pages = Pages::new(open(folder.path(), 50), action, beside);
        pages.fill();
        pages.engine.checkpoint().expect("a checkpoint");
        let begin = |pages: &Pages| pages.begin(Isolation::Snapshot);
        let refused = |mut transaction: Transaction| {
            let error = transaction.settle_references().expect_err("refused");
            assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::ForeignKeyViolation, "23503"), "{error}");
            assert!(error.message().len() < 500, "{error}");
        };

        // To a row that is not there, and to a row that comes later in the same statement.
        let mut transaction = begin(&pages);
        put_text(&mut transaction, pages.links, 16, Some(&long("c")));
        refused(transaction);
        let mut transaction = begin(&pages);
        put_text(&mut transaction, pages.links, 16, Some(&long("c")));
        put_text(&mut transaction, pages.pages, 4, Some(&long("c")));
        transaction.commit().expect("its page is there");

        // The page of one link gets another address, that of three goes.
        let update = || {
            let mut transaction = begin(&pages);
            set_text(&mut transaction, pages.pages, 1, &long("d"), "n");
            transaction
        };
        let removal = || {
            let mut transaction = begin(&pages);
            delete(&mut transaction, pages.pages, 2);
            transaction
        };
        let others = [(14, some("p")), (15, None), (16, some("c"))];
        let expected = match action {
            Restrict => {
                refused(update());
                refused(removal());
                let mut transaction = begin(&pages);
                for number in 11..14 {
                    delete(&mut transaction, pages.links, number);
                }
                delete(&mut transaction, pages.pages, 2);
                transaction.commit().expect("no row refers to it");
                vec![(10, some("a"))]
            }
            Cascade => {
                update().commit().expect("they follow");
                removal().commit().expect("they follow");
                vec![(10, some("d"))]
            }
            SetNull => {
                update().commit().expect("they follow");
                removal().commit().expect("they follow");
                vec![(10, None), (11, None), (12, None), (13, None)]
            }
        };
        let expected: Vec<_> = expected.into_iter().chain(others).collect();
        assert_eq!(pages.links(), expected, "{action:?} {beside}");
        pages.assert_sound();
        let Pages { engine, pages: of_pages, links } = pages;
        drop(engine);
        pages = Pages { engine: open(folder.path(), 50), pages: of_pages, links };
        assert_eq!(pages.links(), expected, "{action:?} {beside}");
        pages.assert_sound();
    }
}

#[test]
fn a_link_and_the_end_of_its_page_cannot_both_be_committed() {
    for (level, beside) in LEVELS.into_iter().flat_map(|level| [(level, false), (level, true)]) {
        for link_first in [false, true] {
            let engine = Engine::memory(settings(50)).expect("in memory");
            let pages = Pages::new(engine, ReferentialAction::Restrict, beside);
            let mut transaction = pages.begin(level);
            put_text(&mut transaction, pages.pages, 1, Some(&long("a")));
            put_text(&mut transaction, pages.pages, 2, Some(&long("b")));
            transaction.commit().expect("committed");

            // Columns outside of the address may change, even if rows refer to it.
            let (mut link, mut page) = (pages.begin(level), pages.begin(level));
            put_text(&mut link, pages.links, 10, Some(&long("a")));
            set_text(&mut page, pages.pages, 1, &long("a"), "other");
            page.commit().expect("committed");
            link.commit().expect("its page is there");

            for goes in [true, false] {
                let (mut link, mut page) = (pages.begin(level), pages.begin(level));
                put_text(&mut link, pages.links, 11, Some(&long("b")));
                link.settle_references().expect("its page is there");
                match goes {
                    true => delete(&mut page, pages.pages, 2),
                    false => set_text(&mut page, pages.pages, 2, &long("c"), "n"),
                }
                page.settle_references().expect("no row refers to it");
                let (first, second) = if link_first { (link, page) } else { (page, link) };
                first.commit().expect("no other commit was first");
                let error = second.commit().expect_err("the other was faster");
                assert_eq!(error.kind(), ErrorKind::SerializationFailure, "{error}");
                let mut again = pages.begin(level);
                let is_left = again.delete_by_key(pages.links, &[ValueRef::Int(11)]).expect("deleted");
                assert_eq!(is_left, link_first);
                again.delete_by_key(pages.pages, &[ValueRef::Int(2)]).expect("deleted, if it was there");
                put_text(&mut again, pages.pages, 2, Some(&long("b")));
                again.commit().expect("committed");
            }
            pages.assert_sound();
        }
    }
}

#[test]
fn a_key_that_takes_no_long_values_has_no_such_parent_and_no_such_child() {
    let engine = Engine::memory(settings(50)).expect("in memory");
    let mut transaction = engine.begin().expect("a transaction");
    let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
    let part = |column| KeyColumn { column: ColumnId(column), descending: false };
    let columns = || vec![ColumnSpec::new("name", SqlType::TEXT), ColumnSpec::new("other", SqlType::TEXT)];
    let named = transaction.create_keyed_table(main, "named", columns(), &[part(0)]).expect("a keyed table");
    let others = transaction.create_keyed_table(main, "others", columns(), &[part(0)]).expect("a keyed table");
    let spec = IndexSpec { name: "other names".into(), parts: vec![part(1)], unique: true };
    transaction.create_index(others, spec).expect("an index");
    // Other names of the others are names of the named, and names of the named are other names of the others.
    let key = |name: &str, column, parent, parent_column| ForeignKeyDef {
        name: name.into(),
        columns: vec![ColumnId(column)],
        parent,
        parent_columns: vec![ColumnId(parent_column)],
        on_delete: ReferentialAction::Restrict,
        on_update: ReferentialAction::Restrict,
    };
    let before = transaction.savepoint();
    transaction.add_foreign_key(others, key("to", 1, named, 0), "unused").expect("a foreign key");
    transaction.insert_row(others, &[ValueRef::Text("x"), ValueRef::Text(&long("a"))]).expect("put");
    let error = transaction.settle_references().expect_err("no row has such a name");
    assert_eq!(error.sqlstate(), "23503", "{error}");
    transaction.rollback_to(&before);

    transaction.add_foreign_key(named, key("back", 0, others, 1), "unused").expect("a foreign key");
    transaction.insert_row(others, &[ValueRef::Text("x"), ValueRef::Text(&long("a"))]).expect("put");
    transaction.insert_row(others, &[ValueRef::Text("y"), ValueRef::Text("short")]).expect("put");
    transaction.insert_row(named, &[ValueRef::Text("short"), ValueRef::Null]).expect("put");
    assert!(transaction.delete_by_key(others, &[ValueRef::Text("x")]).expect("deleted"));
    transaction.settle_references().expect("no row can refer to it");
    assert!(transaction.delete_by_key(others, &[ValueRef::Text("y")]).expect("deleted"));
    assert_eq!(transaction.settle_references().expect_err("referred to").sqlstate(), "23503");
}

#[test]
fn a_row_whose_parent_is_not_there_is_found_by_the_check() {
    let base = Arc::new(MemoryBase::new());
    let engine = Engine::over(Arc::new(MemoryDisk::new()), Arc::clone(&base) as _, settings(50)).expect("opened");
    let family = Family::new(engine, ReferentialAction::Restrict);
    let mut transaction = family.begin(Isolation::Snapshot);
    put(&mut transaction, family.children, 2);
    let parent = transaction.get(family.parents, &[ValueRef::Int(2)]).expect("read").expect("it is there");
    transaction.commit().expect("committed");
    family.engine.checkpoint().expect("a checkpoint");
    let check = || problems(&family.engine.check(&Cancel::new()).expect("a check"));
    assert_eq!(check(), Vec::<String>::new());
    let mut damage = WriteBatch::new();
    damage.delete(parent.key);
    let now = base.read().expect("a read").commit_id().expect("its commit");
    base.write(&damage, now).expect("written");
    let found = check();
    let is_found = |found: &String| found.contains("children") && found.contains("violates foreign key of");
    assert!(found.iter().any(is_found), "{found:?}");
}
