//! The tables and the writing transactions of TPC-C without SQL. They make the same calls as compiled statements.
//!
//! There is one warehouse. The caller chooses the number of items and customers. Texts are as long as in the
//! specification.

use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_base::{ColumnId, SqlType};
use rowmill_storage::keyed::ValueRef::{self, Decimal, Int, Text};
use rowmill_txn::keyed::TableCodec;
use rowmill_txn::{ColumnSpec, Engine, IndexSpec, KeyColumn, MAIN_SCHEMA, Transaction};

/// The districts of the warehouse.
const DISTRICTS: i64 = 10;
/// The lines of an order.
pub(crate) const LINES: usize = 10;
/// The most columns that a table has.
const COLUMNS_MAX: usize = 17;

const MONEY: SqlType = SqlType::Decimal { precision: 12, scale: 2 };
const INT: SqlType = SqlType::Int32;
const TEXT: SqlType = SqlType::TEXT;
const LONG: &str = "a text of some length that says nothing and is stored with each row, fifty bytes at a time; ";

/// The tables, and the buffers of a client.
pub(crate) struct World {
    pub(crate) engine: Arc<Engine>,
    warehouse: Arc<TableCodec>,
    pub(crate) district: Arc<TableCodec>,
    pub(crate) customer: Arc<TableCodec>,
    item: Arc<TableCodec>,
    pub(crate) stock: Arc<TableCodec>,
    orders: Arc<TableCodec>,
    new_order: Arc<TableCodec>,
    pub(crate) order_line: Arc<TableCodec>,
    history: Arc<TableCodec>,
    pub(crate) items: i64,
    customers: i64,
    payments: i64,
    pub(crate) random: SmallRng,
    buffers: Buffers,
}

/// The row that the last statement found.
#[derive(Default)]
struct Buffers {
    key: Vec<u8>,
    row: Vec<u8>,
    scratch: Vec<u8>,
}

impl Buffers {
    fn get(&mut self, transaction: &Transaction, codec: &TableCodec, key: &[ValueRef<'_>]) {
        codec.encode_key(None, key, &mut self.key).expect("a key");
        assert!(transaction.reader().get(&self.key, &mut self.row).expect("read"), "{key:?} of {}", codec.def().name);
    }

    fn column(&mut self, codec: &TableCodec, column: usize) -> i128 {
        match codec.column(&self.key, &self.row, column, &mut self.scratch).expect("a value") {
            Int(value) => value.into(),
            Decimal(value) => value,
            other => panic!("{other:?}"),
        }
    }

    /// Sets some columns of the row that was found last.
    fn update(&self, transaction: &mut Transaction, codec: &Arc<TableCodec>, changes: &[(usize, ValueRef<'_>)]) {
        let columns = codec.def().columns.len();
        let row = codec.row(&self.key, &self.row).expect("a row");
        let mut scratch = [const { Vec::new() }; COLUMNS_MAX];
        let mut values = [ValueRef::Null; COLUMNS_MAX];
        for ((column, value), scratch) in values.iter_mut().enumerate().take(columns).zip(&mut scratch) {
            *value = row.get(column, scratch).expect("a value");
        }
        changes.iter().for_each(|(column, value)| values[*column] = *value);
        transaction.update_values(codec, &self.key, &self.row, &values[..columns]).expect("updated");
    }
}

fn create(engine: &Arc<Engine>, name: &str, key: usize, kinds: &[SqlType]) -> Arc<TableCodec> {
    let mut transaction = engine.begin().expect("a transaction");
    let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("the main schema always exists").id;
    let columns = kinds.iter().enumerate().map(|(at, kind)| ColumnSpec::new(format!("c{at}"), kind.clone()));
    let key: Vec<_> = (0..key as u32).map(|at| KeyColumn { column: ColumnId(at), descending: false }).collect();
    let table = transaction.create_keyed_table(main, name, columns.collect(), &key).expect("a table");
    if name == "orders" {
        let parts = [0, 1, 3, 2].map(|at| KeyColumn { column: ColumnId(at), descending: false }).to_vec();
        let spec = IndexSpec { name: "by_customer".to_owned(), parts, unique: false };
        transaction.create_index(table, spec).expect("an index");
    }
    transaction.commit().expect("committed");
    engine.snapshot().expect("a snapshot").keyed_codec(table).expect("a codec")
}

impl World {
    /// Creates and loads the tables in an empty database.
    pub(crate) fn new(engine: Arc<Engine>, items: i64, customers: i64) -> World {
        let table = |name: &str, key: usize, kinds: &[SqlType]| create(&engine, name, key, kinds);
        let stock: Vec<_> = [vec![INT; 3], vec![TEXT; 10], vec![INT; 3], vec![TEXT]].concat();
        let mut world = World {
            warehouse: table("warehouse", 1, &[INT, TEXT, MONEY, MONEY]),
            district: table("district", 2, &[INT, INT, TEXT, MONEY, MONEY, INT]),
            customer: table("customer", 3, &[INT, INT, INT, TEXT, TEXT, MONEY, MONEY, MONEY, INT, TEXT]),
            item: table("item", 1, &[INT, INT, TEXT, MONEY, TEXT]),
            stock: table("stock", 2, &stock),
            orders: table("orders", 3, &[INT, INT, INT, INT, SqlType::Int64, INT, INT, INT]),
            new_order: table("new_order", 3, &[INT, INT, INT]),
            order_line: table("order_line", 4, &[INT, INT, INT, INT, INT, INT, SqlType::Int64, INT, MONEY, TEXT]),
            history: table("history", 3, &[INT, INT, SqlType::Int64, INT, SqlType::Int64, MONEY, TEXT]),
            engine,
            items,
            customers,
            payments: 0,
            random: SmallRng::seed_from_u64(7),
            buffers: Buffers::default(),
        };
        world.load();
        world
    }

    fn load(&mut self) {
        let mut transaction = self.engine.begin().expect("a transaction");
        let mut put = |codec: &Arc<TableCodec>, values: &[ValueRef<'_>]| {
            transaction.insert_values(codec, values).expect("inserted");
        };
        put(&self.warehouse, &[Int(1), Text("warehouse"), Decimal(10), Decimal(30_000_000)]);
        for d in 1..=DISTRICTS {
            put(&self.district, &[Int(1), Int(d), Text("district"), Decimal(10), Decimal(3_000_000), Int(1)]);
            for c in 1..=self.customers {
                let name = format!("CUSTOMER{:08}", c % 1000);
                let money = [Decimal(40), Decimal(-1000), Decimal(1000)];
                let row = [Int(1), Int(d), Int(c), Text("first"), Text(&name), money[0], money[1], money[2], Int(1)];
                put(&self.customer, &[&row[..], &[Text(&LONG.repeat(4))]].concat());
            }
        }
        for i in 1..=self.items {
            put(&self.item, &[Int(i), Int(i % 100), Text("an item of the list"), Decimal(i128::from(i)), Text(LONG)]);
            let dist = [Text("district of 24 characters"); 10];
            put(&self.stock, &[&[Int(1), Int(i), Int(50)][..], &dist, &[Int(0), Int(0), Int(0), Text(LONG)]].concat());
        }
        transaction.commit().expect("committed");
    }

    /// Runs a New-Order transaction: 46 point statements that write 24 keys.
    pub(crate) fn new_order(&mut self) {
        let mut transaction = self.engine.begin().expect("a transaction");
        let (district, customer) =
            (self.random.random_range(1..=DISTRICTS), self.random.random_range(1..=self.customers));
        let (w, d, c) = (Int(1), Int(district), Int(customer));
        let found = &mut self.buffers;
        found.get(&transaction, &self.warehouse, &[w]);
        let tax = found.column(&self.warehouse, 2);
        found.get(&transaction, &self.customer, &[w, d, c]);
        let discount = found.column(&self.customer, 5);
        found.get(&transaction, &self.district, &[w, d]);
        let o = Int(found.column(&self.district, 5) as i64);
        let next = Int(found.column(&self.district, 5) as i64 + 1);
        // The district is read twice, because the SELECT and the UPDATE each look it up.
        found.get(&transaction, &self.district, &[w, d]);
        found.update(&mut transaction, &self.district, &[(5, next)]);
        let order = [w, d, o, c, Int(0), ValueRef::Null, Int(LINES as i64), Int(1)];
        transaction.insert_values(&self.orders, &order).expect("inserted");
        transaction.insert_values(&self.new_order, &[w, d, o]).expect("inserted");
        for line in 1..=LINES as i64 {
            let number =
                self.random.random_range(1..=self.items / LINES as i64) + (line - 1) * (self.items / LINES as i64);
            let item = Int(number);
            found.get(&transaction, &self.item, &[item]);
            let amount = Decimal((found.column(&self.item, 3) * (100 - discount) + tax) / 100 % 1_000_000);
            found.get(&transaction, &self.stock, &[w, item]);
            let quantity = found.column(&self.stock, 2) as i64;
            // The stock row is read twice for the same reason.
            found.get(&transaction, &self.stock, &[w, item]);
            let quantity = if quantity > 20 { quantity - 5 } else { quantity + 91 };
            let count = Int(found.column(&self.stock, 14) as i64 + 1);
            found.update(&mut transaction, &self.stock, &[(2, Int(quantity)), (14, count)]);
            let row = [w, d, o, Int(line), item, w, ValueRef::Null, Int(5), amount, Text("district of 24 characters")];
            transaction.insert_values(&self.order_line, &row).expect("inserted");
        }
        transaction.commit().expect("committed");
    }

    /// Runs a Payment transaction: it reads and updates 3 rows and inserts one.
    pub(crate) fn payment(&mut self) {
        let mut transaction = self.engine.begin().expect("a transaction");
        let (district, customer) =
            (self.random.random_range(1..=DISTRICTS), self.random.random_range(1..=self.customers));
        let (w, d, c) = (Int(1), Int(district), Int(customer));
        let found = &mut self.buffers;
        found.get(&transaction, &self.warehouse, &[w]);
        let ytd = found.column(&self.warehouse, 3) % 1_000_000_000 + 100;
        found.update(&mut transaction, &self.warehouse, &[(3, Decimal(ytd))]);
        found.get(&transaction, &self.district, &[w, d]);
        let ytd = found.column(&self.district, 4) % 1_000_000_000 + 100;
        found.update(&mut transaction, &self.district, &[(4, Decimal(ytd))]);
        found.get(&transaction, &self.customer, &[w, d, c]);
        let balance = found.column(&self.customer, 6) % 1_000_000_000 - 100;
        found.update(&mut transaction, &self.customer, &[(6, Decimal(balance))]);
        self.payments += 1;
        let row = [w, d, Int(self.payments), c, Int(0), Decimal(100), Text("warehouse    district")];
        transaction.insert_values(&self.history, &row).expect("inserted");
        transaction.commit().expect("committed");
    }
}
