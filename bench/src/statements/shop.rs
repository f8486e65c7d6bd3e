//! The tables of a shop and their rows. Both engines must get the same rows.
//!
//! Every row draws from a random stream of its own. So we can compute the e-mail address or the moment of an existing
//! row as a parameter, without asking a database for it.

use rowmill_base::Result;

use super::filled_tables::{RowsOf, fill_table, make_tables};
use crate::tpcc::client::{Engine, Param, RowFn, money};
use crate::tpcc::random::{Random, last_name};
use crate::tpcc::table::{Kind, Table, column, nullable};

/// Seconds from 1970 to the first user: 1 January 2022.
pub(super) const FIRST_USER_S: i64 = 1_640_995_200;
/// Seconds from 1970 to the first order: 1 January 2023.
pub(super) const FIRST_ORDER_S: i64 = 1_672_531_200;
/// The period in which all users are created, and after it the period of all orders: a year each.
pub(super) const YEAR_S: i64 = 365 * 86_400;
/// Microseconds in a second.
pub(super) const MICROS: i64 = 1_000_000;

const FIRST_NAMES: [&str; 40] = [
    "Ada", "Alice", "Amir", "Anna", "Ben", "Carla", "Chen", "Clara", "Daniel", "David", "Elena", "Emma", "Farid",
    "Felix", "Grace", "Hana", "Hugo", "Ines", "Ivan", "Jana", "John", "Julia", "Kofi", "Lara", "Leo", "Lucia", "Maria",
    "Mark", "Mia", "Nadia", "Noah", "Olga", "Oscar", "Paul", "Priya", "Rosa", "Sam", "Sofia", "Tomas", "Yuki",
];
const COUNTRIES: [&str; 30] = [
    "AR", "AT", "AU", "BE", "BR", "CA", "CH", "CN", "CZ", "DE", "DK", "EG", "ES", "FI", "FR", "GB", "GR", "IN", "IT",
    "JP", "KE", "MX", "NG", "NL", "NO", "PL", "PT", "SE", "TR", "US",
];
const CATEGORIES: [&str; 40] = [
    "art", "audio", "baby", "bags", "bath", "beauty", "bikes", "books", "boots", "cables", "cameras", "candles",
    "cards", "chairs", "clocks", "coats", "coffee", "desks", "fishing", "games", "garden", "glass", "hats", "jewels",
    "kitchen", "lamps", "music", "office", "paint", "pets", "phones", "rugs", "shoes", "skiing", "sofas", "spices",
    "tea", "tools", "toys", "wine",
];
const KINDS: [&str; 8] = ["view", "search", "login", "logout", "add", "remove", "buy", "rate"];

/// The users.
static USERS: Table = Table {
    name: "users",
    columns: &[
        column("id", Kind::Bigint),
        column("name", Kind::Text(40)),
        column("email", Kind::Text(60)),
        column("country", Kind::Text(2)),
        nullable("city", Kind::Text(20)),
        nullable("age", Kind::Integer),
        column("created", Kind::Timestamp),
        column("born", Kind::Date),
        column("balance", Kind::Bigint),
        column("score", Kind::Double),
    ],
    key: &["id"],
    index: None,
};

/// The products.
static PRODUCTS: Table = Table {
    name: "products",
    columns: &[
        column("id", Kind::Bigint),
        column("sku", Kind::Text(12)),
        column("name", Kind::Text(40)),
        column("category", Kind::Text(10)),
        column("price", Kind::Decimal(10, 2)),
        column("rating", Kind::Double),
        column("stock", Kind::Integer),
    ],
    key: &["id"],
    index: None,
};

/// The orders, with the latest last. Users whose number ends in 7 have no orders.
static ORDERS: Table = Table {
    name: "orders",
    columns: &[
        column("id", Kind::Bigint),
        column("user_id", Kind::Bigint),
        column("product_id", Kind::Bigint),
        column("status", Kind::Text(10)),
        column("created", Kind::Timestamp),
        column("amount", Kind::Decimal(12, 2)),
        nullable("note", Kind::Text(40)),
    ],
    key: &["id"],
    index: None,
};

/// The lines of orders: one to three each.
static ORDER_ITEMS: Table = Table {
    name: "order_items",
    columns: &[
        column("order_id", Kind::Bigint),
        column("line", Kind::Integer),
        column("product_id", Kind::Bigint),
        column("quantity", Kind::Integer),
        column("price", Kind::Decimal(10, 2)),
    ],
    key: &["order_id", "line"],
    index: None,
};

/// A log, with one event for every two orders.
static EVENTS: Table = Table {
    name: "events",
    columns: &[
        column("id", Kind::Bigint),
        column("user_id", Kind::Bigint),
        column("kind", Kind::Text(10)),
        column("moment", Kind::Timestamp),
        column("payload", Kind::Text(80)),
    ],
    key: &["id"],
    index: None,
};

/// The shopping carts: every tenth user has one or two products in it.
static CARTS: Table = Table {
    name: "carts",
    columns: &[column("user_id", Kind::Bigint), column("product_id", Kind::Bigint), column("quantity", Kind::Integer)],
    key: &["user_id", "product_id"],
    index: None,
};

/// Counters, found by their names.
static COUNTERS: Table = Table {
    name: "counters",
    columns: &[column("name", Kind::Text(20)), column("value", Kind::Bigint)],
    key: &["name"],
    index: None,
};

/// All tables.
pub static TABLES: [&Table; 7] = [&USERS, &PRODUCTS, &ORDERS, &ORDER_ITEMS, &EVENTS, &CARTS, &COUNTERS];

/// The indexes of both engines.
const INDEXES: [&str; 12] = [
    "CREATE UNIQUE INDEX users_email ON users (email)",
    "CREATE INDEX users_name ON users (name)",
    "CREATE INDEX users_country ON users (country, created)",
    "CREATE INDEX users_created ON users (created)",
    "CREATE UNIQUE INDEX products_sku ON products (sku)",
    "CREATE INDEX products_category ON products (category, price)",
    "CREATE INDEX orders_user ON orders (user_id, created)",
    "CREATE INDEX orders_product ON orders (product_id)",
    "CREATE INDEX orders_created ON orders (created, id)",
    "CREATE INDEX orders_status ON orders (status, created)",
    "CREATE INDEX order_items_product ON order_items (product_id)",
    "CREATE INDEX events_user ON events (user_id, moment)",
];

/// The number of counters.
pub const COUNTER_COUNT: i64 = 1_000;

/// The kinds of things that have random streams of their own.
#[derive(Clone, Copy)]
enum Stream {
    User = 1,
    Product,
    Order,
    Event,
    Cart,
}

/// A user.
#[derive(Clone, Debug)]
pub struct User {
    /// First and last name.
    pub name: String,
    /// The e-mail address. No other user may have it.
    pub email: String,
    /// One of thirty countries; the first ones have the most users.
    pub country: &'static str,
    city: Option<String>,
    age: Option<i64>,
    /// Microseconds since 1970. No other user may have the same value.
    pub created: i64,
    born: String,
    balance: i64,
    score: f64,
}

/// An order.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// The number of the user who made the order.
    pub user: i64,
    /// The product that the order is for.
    pub product: i64,
    status: &'static str,
    /// Microseconds since 1970. No other order may have the same value.
    pub created: i64,
    cents: i64,
    has_note: bool,
    lines: i64,
}

/// The sizes of the tables, and the seed of their contents.
#[derive(Clone, Copy, Debug)]
pub struct Shop {
    /// The number of users.
    pub users: i64,
    /// The number of orders.
    pub orders: i64,
    /// Another seed makes other rows.
    pub seed: u64,
}

impl Shop {
    /// The number of products: one for every fifty orders.
    pub fn products(&self) -> i64 {
        (self.orders / 50).max(20)
    }

    /// The number of events.
    pub fn events(&self) -> i64 {
        self.orders / 2
    }

    /// The approximate number of rows of all tables.
    pub fn rows(&self) -> i64 {
        self.users + self.users / 7 + self.products() + 3 * self.orders + self.events() + COUNTER_COUNT
    }

    fn random(&self, stream: Stream, number: i64) -> Random {
        Random::new(self.seed, (stream as u64) << 56 | number as u64)
    }

    /// Computes an existing user.
    pub fn user(&self, id: i64) -> User {
        let random = &mut self.random(Stream::User, id);
        let first = FIRST_NAMES[random.between(0, FIRST_NAMES.len() as i64 - 1) as usize];
        let mut last = String::new();
        last_name(&mut last, random.between(0, 999));
        last[1..].make_ascii_lowercase();
        let most = COUNTRIES.len() as i64 - 1;
        let country = COUNTRIES[random.between(0, most).min(random.between(0, most)) as usize];
        let city = (!random.percent(10)).then(|| format!("City {}", random.between(1, 500)));
        let age = (!random.percent(5)).then(|| random.between(18, 90));
        let (year, month, day) = (random.between(1935, 2005), random.between(1, 12), random.between(1, 28));
        User {
            name: format!("{first} {last}"),
            email: format!("{}.{}.{id}@example.com", first.to_lowercase(), last.to_lowercase()),
            country,
            city,
            age,
            created: moment(FIRST_USER_S, id, self.users, random),
            born: format!("{year}-{month:02}-{day:02}"),
            balance: random.between(-10_000, 1_000_000),
            score: random.between(0, 10_000) as f64 / 1_000.0,
        }
    }

    /// Returns the stock keeping unit of a product.
    pub fn sku(product: i64) -> String {
        format!("SKU-{product:07}")
    }

    /// Returns a category that has products.
    pub fn category(number: i64) -> &'static str {
        CATEGORIES[number as usize % CATEGORIES.len()]
    }

    /// Returns the name of a counter, from 1 to [`COUNTER_COUNT`].
    pub fn counter(number: i64) -> String {
        format!("counter-{number:05}")
    }

    /// Computes an existing order.
    pub fn order(&self, id: i64) -> Order {
        let random = &mut self.random(Stream::Order, id);
        let user = random.between(1, self.users);
        let status = match random.between(1, 1_000) {
            1..=5 => "new",
            6..=50 => "paid",
            51..=100 => "cancelled",
            101..=350 => "shipped",
            _ => "done",
        };
        Order {
            user: if user % 10 == 7 { user - 1 } else { user },
            product: random.between(1, self.products()),
            status,
            created: moment(FIRST_ORDER_S, id, self.orders, random),
            cents: random.between(100, 50_000),
            has_note: random.percent(30),
            lines: random.between(1, 3),
        }
    }

    /// Draws a moment between the first order and the last, excluding the last `seconds`.
    pub fn moment_of_orders(random: &mut Random, seconds: i64) -> i64 {
        (FIRST_ORDER_S + random.between(0, YEAR_S - seconds)) * MICROS
    }

    /// Makes the tables and fills them. In their types, each first name is replaced by the second one. `under_key` is
    /// the table option with which the engine stores rows under a key that is not a number.
    pub fn load<E: Engine>(
        &self,
        engine: &E,
        types: &[(&str, &str)],
        under_key: &str,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        make_tables(engine, &TABLES, types, under_key)?;
        let fill = |table: &Table, last: i64, rows: &RowsOf<'_>| fill_table(engine, table, last, rows, progress);
        fill(&USERS, self.users, &|id, into| self.user_row(id, into))?;
        fill(&PRODUCTS, self.products(), &|id, into| self.product_row(id, into))?;
        fill(&ORDERS, self.orders, &|id, into| self.order_row(id, into))?;
        fill(&ORDER_ITEMS, self.orders, &|id, into| self.item_rows(id, into))?;
        fill(&EVENTS, self.events(), &|id, into| self.event_row(id, into))?;
        fill(&CARTS, self.users / 10, &|id, into| self.cart_rows(id * 10, into))?;
        fill(&COUNTERS, COUNTER_COUNT, &|id, into| into(&[Self::counter(id).as_str().into(), (id * 3).into()]))?;
        INDEXES.iter().try_for_each(|index| engine.execute(index))?;
        engine.execute("ANALYZE")?;
        engine.settle()
    }

    fn user_row(&self, id: i64, into: &mut RowFn<'_>) -> Result<()> {
        let user = self.user(id);
        into(&[
            id.into(),
            user.name.as_str().into(),
            user.email.as_str().into(),
            user.country.into(),
            user.city.as_deref().map_or(Param::Null, Param::Text),
            user.age.map_or(Param::Null, Param::Integer),
            Param::Moment(user.created),
            user.born.as_str().into(),
            user.balance.into(),
            Param::Double(user.score),
        ])
    }

    fn product_row(&self, id: i64, into: &mut RowFn<'_>) -> Result<()> {
        let random = &mut self.random(Stream::Product, id);
        let category = Self::category(random.between(0, CATEGORIES.len() as i64 - 1));
        let name = format!("{category} number {id}");
        let price = money(random.between(100, 100_000));
        let rating = Param::Double(random.between(10, 50) as f64 / 10.0);
        into(&[
            id.into(),
            Self::sku(id).as_str().into(),
            name.as_str().into(),
            category.into(),
            price,
            rating,
            random.between(0, 500).into(),
        ])
    }

    fn order_row(&self, id: i64, into: &mut RowFn<'_>) -> Result<()> {
        let order = self.order(id);
        let note = format!("leave it at door {}", id % 100);
        into(&[
            id.into(),
            order.user.into(),
            order.product.into(),
            order.status.into(),
            Param::Moment(order.created),
            money(order.cents),
            if order.has_note { note.as_str().into() } else { Param::Null },
        ])
    }

    fn item_rows(&self, order: i64, into: &mut RowFn<'_>) -> Result<()> {
        let Order { product, cents, lines, .. } = self.order(order);
        (1..=lines).try_for_each(|line| {
            let product = (product + (line - 1) * 7 - 1) % self.products() + 1;
            into(&[order.into(), line.into(), product.into(), (order % 5 + line).into(), money(cents / lines)])
        })
    }

    fn event_row(&self, id: i64, into: &mut RowFn<'_>) -> Result<()> {
        let random = &mut self.random(Stream::Event, id);
        let kind = KINDS[random.between(0, KINDS.len() as i64 - 1) as usize];
        let user = random.between(1, self.users);
        let moment = moment(FIRST_ORDER_S, id, self.events(), random);
        let mut payload = format!("{{\"kind\": \"{kind}\", \"page\": \"");
        random.letters(&mut payload, 8, 30);
        payload.push_str("\"}");
        into(&[id.into(), user.into(), kind.into(), Param::Moment(moment), payload.as_str().into()])
    }

    fn cart_rows(&self, user: i64, into: &mut RowFn<'_>) -> Result<()> {
        let random = &mut self.random(Stream::Cart, user);
        let first = random.between(1, self.products() - 1);
        (0..random.between(1, 2)).try_for_each(|more| into(&[user.into(), (first + more).into(), (more + 1).into()]))
    }
}

/// Returns the moment of row `id` of `count`. The rows are spread over a year, in the order of their ids.
pub(super) fn moment(first_s: i64, id: i64, count: i64, random: &mut Random) -> i64 {
    let step = YEAR_S * MICROS / count;
    first_s * MICROS + (id - 1) * step + random.between(0, step - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_same_whenever_they_are_drawn() {
        let shop = Shop { users: 100, orders: 500, seed: 1 };
        assert_eq!(shop.user(7).email, shop.user(7).email);
        assert_ne!(shop.user(7).email, Shop { seed: 2, ..shop }.user(7).email);
        let orders: Vec<Order> = (1..=500).map(|id| shop.order(id)).collect();
        assert!(orders.windows(2).all(|pair| pair[0].created < pair[1].created));
        assert!(orders.iter().all(|order| order.user % 10 != 7 && order.product <= shop.products()));
    }
}
