//! A keyed table with indexes, and helpers that run programs on it.

use std::sync::Arc;

use rowmill_base::{ColumnId, Error, IndexId, Result, Settings, SqlType, TableId};
use rowmill_plan::CompareOp;
use rowmill_plan::program::{Access, AccessBound, Body, Program, ReadOutput, ReadPlan, RowOutput, Scalar, ScalarValue};
use rowmill_program::{Compiled, ProgramScratch, ResultRows};
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::{ColumnSpec, Engine, IndexSpec, KeyColumn, MAIN_SCHEMA, Transaction};

pub(crate) const INT: SqlType = SqlType::Int32;
pub(crate) const BIG: SqlType = SqlType::Int64;
pub(crate) const SMALL: SqlType = SqlType::Int16;
pub(crate) const DOUBLE: SqlType = SqlType::Float64;
pub(crate) const MONEY: SqlType = SqlType::Decimal { precision: 8, scale: 2 };
pub(crate) const NAME: SqlType = SqlType::Text { chars_max: Some(5) };

/// The columns of the table.
pub(crate) const GROUP: usize = 0;
pub(crate) const NUMBER: usize = 1;
pub(crate) const NAMED: usize = 2;
pub(crate) const PRICE: usize = 3;
pub(crate) const NOTE: usize = 4;

/// The database of a test.
pub(crate) struct World {
    pub(crate) engine: Arc<Engine>,
    /// The table `items (grp INTEGER, number SMALLINT, name VARCHAR(5), price DECIMAL(8,2) NOT NULL, note TEXT)`, with
    /// the primary key `(grp, number)`.
    pub(crate) items: TableId,
    /// The index on `(name, price DESC)`.
    pub(crate) by_name: IndexId,
    /// The unique index on `note`.
    pub(crate) by_note: IndexId,
    /// The table `history (number BIGINT NOT NULL, line TEXT)`, without a key.
    pub(crate) history: TableId,
}

pub(crate) fn kinds() -> [SqlType; 5] {
    [INT, SMALL, NAME, MONEY, SqlType::TEXT]
}

fn ascending(column: usize) -> KeyColumn {
    KeyColumn { column: ColumnId(column as u32), descending: false }
}

/// A row of the table, in the form that tests write.
pub(crate) type Item = (i64, i64, Option<&'static str>, i128, Option<&'static str>);

pub(crate) const ITEMS: [Item; 6] = [
    (1, 1, Some("ant"), 150, Some("first")),
    (1, 2, Some("bee"), 250, None),
    (1, 3, None, 350, Some("third")),
    (2, 1, Some("ant"), 450, Some("four")),
    (2, 2, Some("cat"), -550, None),
    (3, 1, Some("bee"), 650, Some("six")),
];

fn text(text: Option<&'static str>) -> ValueRef<'static> {
    text.map_or(ValueRef::Null, ValueRef::Text)
}

pub(crate) fn values((group, number, name, price, note): Item) -> [ValueRef<'static>; 5] {
    [ValueRef::Int(group), ValueRef::Int(number), text(name), ValueRef::Decimal(price), text(note)]
}

impl World {
    /// A database whose table holds [`ITEMS`].
    pub(crate) fn new() -> World {
        let world = World::empty();
        let mut transaction = world.engine.begin().expect("a transaction");
        ITEMS.into_iter().for_each(|item| transaction.insert_row(world.items, &values(item)).expect("put"));
        transaction.commit().expect("committed");
        world
    }

    pub(crate) fn empty() -> World {
        let engine = Engine::memory(Settings::default()).expect("a database in memory");
        let mut transaction = engine.begin().expect("a transaction");
        let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
        let names = ["grp", "number", "name", "price", "note"];
        let mut columns: Vec<ColumnSpec> =
            names.into_iter().zip(kinds()).map(|(name, kind)| ColumnSpec::new(name, kind)).collect();
        columns[PRICE].nullable = false;
        let key = [ascending(GROUP), ascending(NUMBER)];
        let items = transaction.create_keyed_table(main, "items", columns, &key).expect("a table");
        let parts = vec![ascending(NAMED), KeyColumn { descending: true, ..ascending(PRICE) }];
        let spec = IndexSpec { name: "by_name".into(), parts, unique: false };
        let by_name = transaction.create_index(items, spec).expect("an index");
        let spec = IndexSpec { name: "by_note".into(), parts: vec![ascending(NOTE)], unique: true };
        let by_note = transaction.create_index(items, spec).expect("an index");
        let mut number = ColumnSpec::new("number", BIG);
        number.nullable = false;
        let columns = vec![number, ColumnSpec::new("line", SqlType::TEXT)];
        let history = transaction.create_table(main, "history", columns).expect("a table");
        transaction.commit().expect("committed");
        World { engine, items, by_name, by_note, history }
    }

    pub(crate) fn compiled(&self, parameters: &[SqlType], body: Body) -> Result<Compiled> {
        let program = Program { parameters: parameters.to_vec(), body };
        Compiled::new(&program, self.engine.snapshot()?.catalog())
    }

    /// The rows of a read as text.
    pub(crate) fn read(&self, read: ReadPlan) -> Vec<String> {
        self.read_with(read, &[], &[]).expect("rows")
    }

    pub(crate) fn read_with(&self, read: ReadPlan, kinds: &[SqlType], values: &[ValueRef<'_>]) -> Result<Vec<String>> {
        let compiled = self.compiled(kinds, Body::Read(read))?;
        let mut out = ResultRows::default();
        let snapshot = self.engine.snapshot()?;
        compiled.run_read(&snapshot.reader(), values, &mut ProgramScratch::default(), &mut out)?.rows()?;
        Ok(shown(&out))
    }

    /// Runs a program in its own transaction. Returns how many rows it changed, and its result rows as text.
    pub(crate) fn write(&self, body: Body) -> Result<(u64, Vec<String>)> {
        let mut transaction = self.engine.begin()?;
        let done = self.write_in(&mut transaction, body)?;
        transaction.commit()?;
        Ok(done)
    }

    pub(crate) fn write_in(&self, transaction: &mut Transaction, body: Body) -> Result<(u64, Vec<String>)> {
        let compiled = self.compiled(&[], body)?;
        let mut out = ResultRows::default();
        let changed = compiled.run_write(transaction, &[], &mut ProgramScratch::default(), &mut out)?.rows()?;
        Ok((changed, shown(&out)))
    }

    pub(crate) fn refused(&self, body: Body) -> Error {
        let before = self.all();
        let error = self.write(body).expect_err("refused");
        assert_eq!(self.all(), before);
        error
    }

    /// All rows of the table in key order, as text.
    pub(crate) fn all(&self) -> Vec<String> {
        self.read(all_of(self.access(), (0..5).collect()))
    }

    /// An access to the whole table.
    pub(crate) fn access(&self) -> Access {
        Access::all(self.items)
    }

    pub(crate) fn by(&self, equal: Vec<Scalar>) -> Access {
        Access { equal, ..self.access() }
    }
}

pub(crate) fn all_of(access: Access, columns: Vec<usize>) -> ReadPlan {
    rows(access, columns.into_iter().map(column).collect())
}

pub(crate) fn rows(access: Access, columns: Vec<Scalar>) -> ReadPlan {
    ReadPlan::of_table(access, None, ReadOutput::Rows(RowOutput::all(columns)))
}

pub(crate) fn column(column: usize) -> Scalar {
    of_row(0, column)
}

pub(crate) fn of_row(row: usize, column: usize) -> Scalar {
    Scalar::column(kinds()[column].clone(), row, column)
}

pub(crate) fn int(value: i64) -> Scalar {
    Scalar::literal(INT, ScalarValue::Int(value))
}

pub(crate) fn big(value: i64) -> Scalar {
    Scalar::literal(BIG, ScalarValue::Int(value))
}

pub(crate) fn money(value: i128) -> Scalar {
    Scalar::literal(MONEY, ScalarValue::Decimal(value))
}

pub(crate) fn words(value: &str) -> Scalar {
    Scalar::literal(SqlType::TEXT, ScalarValue::Text(value.into()))
}

pub(crate) fn null() -> Scalar {
    Scalar::literal(SqlType::TEXT, ScalarValue::Null)
}

pub(crate) fn compare(left: Scalar, op: CompareOp, right: Scalar) -> Scalar {
    Scalar::compare(left, op, right)
}

pub(crate) fn bound(value: Scalar, inclusive: bool) -> Option<AccessBound> {
    Some(AccessBound::new(value, inclusive))
}

pub(crate) fn shown(rows: &ResultRows) -> Vec<String> {
    let value = |value| match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Bool(value) => value.to_string(),
        ValueRef::Int(value) => value.to_string(),
        ValueRef::Float(value) => value.to_string(),
        ValueRef::Decimal(value) => value.to_string(),
        ValueRef::Text(value) => value.to_owned(),
        other => format!("{other:?}"),
    };
    let columns = 0..rows.kinds().len();
    let row = |row| columns.clone().map(|column| value(rows.get(row, column))).collect::<Vec<_>>().join(" ");
    (0..rows.len()).map(row).collect()
}
