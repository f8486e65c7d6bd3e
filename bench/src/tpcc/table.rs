//! The nine tables as data. Their DDL, their INSERT statements and the types of the loaded values follow from it.
//!
//! Every engine must understand the SQL. If an engine lacks a type, its adapter substitutes another one. For example,
//! in SQLite decimals are integers in units of their last digit, timestamps are integers in microseconds, truth values
//! are 0 or 1, and days, UUIDs and documents are texts.

use Kind::{Bigint, Boolean, Date, Decimal, Double, Integer, Json, Text, Timestamp, Uuid};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number of 32 bits.
    Integer,
    /// A whole number of 64 bits.
    Bigint,
    /// A floating-point number.
    Double,
    /// A text with at most this number of characters.
    Text(u16),
    /// A decimal number: the number of digits, and how many of them are after the point.
    Decimal(u8, u8),
    /// A timestamp in microseconds.
    Timestamp,
    /// A day.
    Date,
    /// True or false.
    Boolean,
    /// A UUID.
    Uuid,
    /// A JSON document with at most this number of characters.
    Json(u16),
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The name.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// Whether the column can be NULL.
    pub nullable: bool,
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// The name.
    pub name: &'static str,
    /// The columns, in order.
    pub columns: &'static [Column],
    /// The columns of the primary key. The table `history` has none.
    pub key: &'static [&'static str],
    /// The name and the columns of a second index, if the table has one.
    pub index: Option<(&'static str, &'static [&'static str])>,
}

impl Table {
    /// Returns the CREATE TABLE statement.
    pub fn create(&self) -> String {
        let columns = self.columns.iter().map(|column| {
            let not_null = if column.nullable { "" } else { " NOT NULL" };
            format!("{} {}{not_null}", column.name, column.kind.sql())
        });
        let key = (!self.key.is_empty()).then(|| format!("PRIMARY KEY ({})", self.key.join(", ")));
        format!("CREATE TABLE {} ({})", self.name, columns.chain(key).collect::<Vec<_>>().join(", "))
    }

    /// Whether the primary key is one column of 64-bit numbers.
    pub fn has_number_key(&self) -> bool {
        let is_number = |name: &str| self.columns.iter().any(|column| column.name == name && column.kind == Bigint);
        matches!(self.key, [name] if is_number(name))
    }

    /// Returns the CREATE INDEX statement, if the table has an index.
    pub fn create_index(&self) -> Option<String> {
        self.index.map(|(name, columns)| format!("CREATE INDEX {name} ON {} ({})", self.name, columns.join(", ")))
    }

    /// The bytes of the values of a row, with texts of maximum length.
    pub fn row_bytes(&self) -> i64 {
        self.columns.iter().map(|column| column.kind.bytes()).sum()
    }

    /// Returns an INSERT statement with a parameter for each column.
    pub fn insert(&self) -> String {
        format!("INSERT INTO {} VALUES ({})", self.name, vec!["?"; self.columns.len()].join(", "))
    }
}

impl Kind {
    /// The bytes of a value: decimals take 4 or 8 bytes as their digits need, and texts their maximum length.
    fn bytes(self) -> i64 {
        match self {
            Integer | Date => 4,
            Bigint | Double => 8,
            Boolean => 1,
            Uuid => 16,
            Text(length) | Json(length) => i64::from(length),
            Decimal(digits, _) => {
                if digits <= 9 {
                    4
                } else {
                    8
                }
            }
            Timestamp => 8,
        }
    }

    fn sql(self) -> String {
        match self {
            Integer => "INTEGER".to_owned(),
            Bigint => "BIGINT".to_owned(),
            Double => "DOUBLE".to_owned(),
            Date => "DATE".to_owned(),
            Boolean => "BOOLEAN".to_owned(),
            Uuid => "UUID".to_owned(),
            Json(_) => "JSON".to_owned(),
            Text(length) => format!("VARCHAR({length})"),
            Decimal(digits, scale) => format!("DECIMAL({digits}, {scale})"),
            Timestamp => "TIMESTAMP".to_owned(),
        }
    }
}

pub(crate) const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, nullable: false }
}

pub(crate) const fn nullable(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, nullable: true }
}

/// Amounts of money that grow.
const MONEY: Kind = Decimal(12, 2);
/// Taxes and discounts: a share with four decimal places.
const RATE: Kind = Decimal(4, 4);

/// Warehouses.
pub static WAREHOUSE: Table = Table {
    name: "warehouse",
    columns: &[
        column("w_id", Integer),
        column("w_name", Text(10)),
        column("w_street_1", Text(20)),
        column("w_street_2", Text(20)),
        column("w_city", Text(20)),
        column("w_state", Text(2)),
        column("w_zip", Text(9)),
        column("w_tax", RATE),
        column("w_ytd", MONEY),
    ],
    key: &["w_id"],
    index: None,
};

/// Districts: ten per warehouse.
pub static DISTRICT: Table = Table {
    name: "district",
    columns: &[
        column("d_id", Integer),
        column("d_w_id", Integer),
        column("d_name", Text(10)),
        column("d_street_1", Text(20)),
        column("d_street_2", Text(20)),
        column("d_city", Text(20)),
        column("d_state", Text(2)),
        column("d_zip", Text(9)),
        column("d_tax", RATE),
        column("d_ytd", MONEY),
        column("d_next_o_id", Integer),
    ],
    key: &["d_w_id", "d_id"],
    index: None,
};

/// Customers of a district.
pub static CUSTOMER: Table = Table {
    name: "customer",
    columns: &[
        column("c_id", Integer),
        column("c_d_id", Integer),
        column("c_w_id", Integer),
        column("c_first", Text(16)),
        column("c_middle", Text(2)),
        column("c_last", Text(16)),
        column("c_street_1", Text(20)),
        column("c_street_2", Text(20)),
        column("c_city", Text(20)),
        column("c_state", Text(2)),
        column("c_zip", Text(9)),
        column("c_phone", Text(16)),
        column("c_since", Timestamp),
        column("c_credit", Text(2)),
        column("c_credit_lim", MONEY),
        column("c_discount", RATE),
        column("c_balance", MONEY),
        column("c_ytd_payment", MONEY),
        column("c_payment_cnt", Integer),
        column("c_delivery_cnt", Integer),
        column("c_data", Text(500)),
    ],
    key: &["c_w_id", "c_d_id", "c_id"],
    index: Some(("customer_name", &["c_w_id", "c_d_id", "c_last", "c_first"])),
};

/// Payments.
pub static HISTORY: Table = Table {
    name: "history",
    columns: &[
        column("h_c_id", Integer),
        column("h_c_d_id", Integer),
        column("h_c_w_id", Integer),
        column("h_d_id", Integer),
        column("h_w_id", Integer),
        column("h_date", Timestamp),
        column("h_amount", Decimal(6, 2)),
        column("h_data", Text(24)),
    ],
    key: &[],
    index: None,
};

/// Orders that are not delivered.
pub static NEW_ORDER: Table = Table {
    name: "new_order",
    columns: &[column("no_o_id", Integer), column("no_d_id", Integer), column("no_w_id", Integer)],
    key: &["no_w_id", "no_d_id", "no_o_id"],
    index: None,
};

/// Orders.
pub static ORDERS: Table = Table {
    name: "orders",
    columns: &[
        column("o_id", Integer),
        column("o_d_id", Integer),
        column("o_w_id", Integer),
        column("o_c_id", Integer),
        column("o_entry_d", Timestamp),
        nullable("o_carrier_id", Integer),
        column("o_ol_cnt", Integer),
        column("o_all_local", Integer),
    ],
    key: &["o_w_id", "o_d_id", "o_id"],
    index: Some(("orders_customer", &["o_w_id", "o_d_id", "o_c_id", "o_id"])),
};

/// Lines of orders.
pub static ORDER_LINE: Table = Table {
    name: "order_line",
    columns: &[
        column("ol_o_id", Integer),
        column("ol_d_id", Integer),
        column("ol_w_id", Integer),
        column("ol_number", Integer),
        column("ol_i_id", Integer),
        column("ol_supply_w_id", Integer),
        nullable("ol_delivery_d", Timestamp),
        column("ol_quantity", Integer),
        column("ol_amount", Decimal(6, 2)),
        column("ol_dist_info", Text(24)),
    ],
    key: &["ol_w_id", "ol_d_id", "ol_o_id", "ol_number"],
    index: None,
};

/// The items that are sold.
pub static ITEM: Table = Table {
    name: "item",
    columns: &[
        column("i_id", Integer),
        column("i_im_id", Integer),
        column("i_name", Text(24)),
        column("i_price", Decimal(5, 2)),
        column("i_data", Text(50)),
    ],
    key: &["i_id"],
    index: None,
};

/// The stock of each item in a warehouse.
pub static STOCK: Table = Table {
    name: "stock",
    columns: &[
        column("s_i_id", Integer),
        column("s_w_id", Integer),
        column("s_quantity", Integer),
        column("s_dist_01", Text(24)),
        column("s_dist_02", Text(24)),
        column("s_dist_03", Text(24)),
        column("s_dist_04", Text(24)),
        column("s_dist_05", Text(24)),
        column("s_dist_06", Text(24)),
        column("s_dist_07", Text(24)),
        column("s_dist_08", Text(24)),
        column("s_dist_09", Text(24)),
        column("s_dist_10", Text(24)),
        column("s_ytd", Integer),
        column("s_order_cnt", Integer),
        column("s_remote_cnt", Integer),
        column("s_data", Text(50)),
    ],
    key: &["s_w_id", "s_i_id"],
    index: None,
};

/// All tables.
pub static TABLES: [&Table; 9] =
    [&WAREHOUSE, &DISTRICT, &CUSTOMER, &HISTORY, &NEW_ORDER, &ORDERS, &ORDER_LINE, &ITEM, &STOCK];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_follow_from_the_columns() {
        let create = "CREATE TABLE new_order (no_o_id INTEGER NOT NULL, no_d_id INTEGER NOT NULL, \
                      no_w_id INTEGER NOT NULL, PRIMARY KEY (no_w_id, no_d_id, no_o_id))";
        assert_eq!(NEW_ORDER.create(), create);
        assert_eq!(NEW_ORDER.insert(), "INSERT INTO new_order VALUES (?, ?, ?)");
        assert!(ORDER_LINE.create().contains("ol_delivery_d TIMESTAMP, ol_quantity INTEGER NOT NULL"));
        assert_eq!((NEW_ORDER.row_bytes(), ORDER_LINE.row_bytes(), HISTORY.row_bytes()), (12, 64, 56));
        for table in TABLES {
            let indexed = table.index.map_or(&[][..], |(_, columns)| columns);
            for name in table.key.iter().chain(indexed) {
                assert!(table.columns.iter().any(|column| column.name == *name), "{name} of {}", table.name);
            }
        }
    }
}
