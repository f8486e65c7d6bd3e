//! The initial population (clause 4.3.3). We fill one table after the other, because an engine may allow only one
//! writer at a time. Every order and customer draws from a random stream of its own, so that two tables with values of
//! the same order agree.

use rowmill_base::Result;

use super::client::{Engine, Param, RowFn, money, rate};
use super::random::{Constants, Random, last_name};
use super::scale::{DISTRICTS, Scale};
use super::table::{CUSTOMER, DISTRICT, HISTORY, ITEM, NEW_ORDER, ORDER_LINE, ORDERS, STOCK, TABLES, Table, WAREHOUSE};

/// The amount that a loaded customer has paid, in cents.
const FIRST_PAYMENT: i64 = 1_000;

/// The parameters of a load.
pub struct Loader<'a> {
    /// Cardinalities.
    pub scale: Scale,
    /// The number of warehouses.
    pub warehouses: i64,
    /// Another seed makes other rows.
    pub seed: u64,
    /// The time at which everything was ordered, in microseconds since 1970.
    pub now: i64,
    /// Gets the number of rows that were loaded since its last call.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// The kinds of things that have random streams of their own.
#[derive(Clone, Copy)]
enum Stream {
    Item = 1,
    Warehouse,
    Stock,
    District,
    Customer,
    History,
    Permutation,
    Order,
    OrderLines,
}

impl Loader<'_> {
    /// Makes the tables and fills them.
    pub fn load<E: Engine>(&self, engine: &E) -> Result<()> {
        for table in TABLES {
            engine.execute(&format!("{}{}", table.create(), engine.table_options(table)))?;
            table.create_index().map_or(Ok(()), |index| engine.execute(&index))?;
        }
        self.fill(engine, &ITEM, |into| self.items(into))?;
        for warehouse in 1..=self.warehouses {
            self.fill(engine, &WAREHOUSE, |into| self.warehouse(warehouse, into))?;
            self.fill(engine, &STOCK, |into| self.stock(warehouse, into))?;
            self.fill_districts(engine, &DISTRICT, warehouse, |district, into| self.district(district, into))?;
            self.fill_districts(engine, &CUSTOMER, warehouse, |district, into| self.customers(district, into))?;
            self.fill_districts(engine, &HISTORY, warehouse, |district, into| self.history(district, into))?;
            self.fill_districts(engine, &ORDERS, warehouse, |district, into| self.orders(district, into))?;
            self.fill_districts(engine, &ORDER_LINE, warehouse, |district, into| self.order_lines(district, into))?;
            self.fill_districts(engine, &NEW_ORDER, warehouse, |district, into| self.new_orders(district, into))?;
        }
        engine.settle()
    }

    fn fill<E: Engine>(
        &self,
        engine: &E,
        table: &Table,
        rows: impl FnOnce(&mut Counted<'_, '_>) -> Result<()>,
    ) -> Result<()> {
        engine.fill(table, |row| rows(&mut Counted { row, progress: self.progress }))
    }

    fn fill_districts<E: Engine>(
        &self,
        engine: &E,
        table: &Table,
        warehouse: i64,
        mut rows: impl FnMut(Place, &mut Counted<'_, '_>) -> Result<()>,
    ) -> Result<()> {
        self.fill(engine, table, |into| {
            (1..=DISTRICTS).try_for_each(|district| rows(Place { warehouse, district }, into))
        })
    }

    fn random(&self, stream: Stream, place: Place, number: i64) -> Random {
        let place = (place.warehouse as u64) << 36 | (place.district as u64) << 32;
        Random::new(self.seed, (stream as u64) << 56 | place | number as u64)
    }

    fn items(&self, into: &mut Counted<'_, '_>) -> Result<()> {
        for item in 1..=self.scale.items {
            let mut random = self.random(Stream::Item, Place::NONE, item);
            let (image, price) = (random.between(1, 10_000), random.between(100, 10_000));
            let (name, data) = (letters(&mut random, 14, 24), text(|out| random.data(out)));
            into.row(&[item.into(), image.into(), name.as_str().into(), money(price), data.as_str().into()])?;
        }
        Ok(())
    }

    fn warehouse(&self, warehouse: i64, into: &mut Counted<'_, '_>) -> Result<()> {
        let mut random = self.random(Stream::Warehouse, Place { warehouse, district: 0 }, 0);
        let (name, address) = (letters(&mut random, 6, 10), Address::draw(&mut random));
        let [street_1, street_2, city, state, zip] = address.params();
        let tax = rate(random.between(0, 2_000));
        let ytd = money(DISTRICTS * self.scale.customers * FIRST_PAYMENT);
        into.row(&[warehouse.into(), name.as_str().into(), street_1, street_2, city, state, zip, tax, ytd])
    }

    fn stock(&self, warehouse: i64, into: &mut Counted<'_, '_>) -> Result<()> {
        for item in 1..=self.scale.items {
            let mut random = self.random(Stream::Stock, Place { warehouse, district: 0 }, item);
            let quantity = random.between(10, 100);
            let districts: [String; DISTRICTS as usize] = std::array::from_fn(|_| letters(&mut random, 24, 24));
            let data = text(|out| random.data(out));
            let mut row = [Param::Integer(0); 17];
            row[..3].copy_from_slice(&[item.into(), warehouse.into(), quantity.into()]);
            row[3..13].iter_mut().zip(&districts).for_each(|(value, text)| *value = text.as_str().into());
            row[16] = data.as_str().into();
            into.row(&row)?;
        }
        Ok(())
    }

    fn district(&self, place: Place, into: &mut Counted<'_, '_>) -> Result<()> {
        let mut random = self.random(Stream::District, place, 0);
        let (name, address) = (letters(&mut random, 6, 10), Address::draw(&mut random));
        let [street_1, street_2, city, state, zip] = address.params();
        let (d, w, name) = (place.district.into(), place.warehouse.into(), name.as_str().into());
        let (tax, ytd) = (rate(random.between(0, 2_000)), money(self.scale.customers * FIRST_PAYMENT));
        let next_order = (self.scale.customers + 1).into();
        into.row(&[d, w, name, street_1, street_2, city, state, zip, tax, ytd, next_order])
    }

    fn customers(&self, place: Place, into: &mut Counted<'_, '_>) -> Result<()> {
        for customer in 1..=self.scale.customers {
            let mut random = self.random(Stream::Customer, place, customer);
            let last = self.last_name(customer, &mut random);
            let (first, address) = (letters(&mut random, 8, 16), Address::draw(&mut random));
            let [street_1, street_2, city, state, zip] = address.params();
            let phone = text(|out| random.digits(out, 16, 16));
            let credit = if random.percent(10) { "BC" } else { "GC" };
            let (discount, data) = (rate(random.between(0, 5_000)), letters(&mut random, 300, 500));
            into.row(&[
                customer.into(),
                place.district.into(),
                place.warehouse.into(),
                first.as_str().into(),
                "OE".into(),
                last.as_str().into(),
                street_1,
                street_2,
                city,
                state,
                zip,
                phone.as_str().into(),
                Param::Moment(self.now),
                credit.into(),
                money(5_000_000),
                discount,
                money(-FIRST_PAYMENT),
                money(FIRST_PAYMENT),
                1.into(),
                0.into(),
                data.as_str().into(),
            ])?;
        }
        Ok(())
    }

    /// Returns the last name of a customer. The first customers have all possible names; the others have each name as
    /// often as a run asks for it.
    fn last_name(&self, customer: i64, random: &mut Random) -> String {
        let names = self.scale.last_names();
        let number = match customer <= names {
            true => customer - 1,
            false => random.skewed(255, Constants::LOAD.last_name, 0, names - 1),
        };
        text(|out| last_name(out, number))
    }

    fn history(&self, place: Place, into: &mut Counted<'_, '_>) -> Result<()> {
        let (d, w) = (Param::Integer(place.district), Param::Integer(place.warehouse));
        for customer in 1..=self.scale.customers {
            let data = letters(&mut self.random(Stream::History, place, customer), 12, 24);
            let (date, amount) = (Param::Moment(self.now), money(FIRST_PAYMENT));
            into.row(&[customer.into(), d, w, d, w, date, amount, data.as_str().into()])?;
        }
        Ok(())
    }

    fn orders(&self, place: Place, into: &mut Counted<'_, '_>) -> Result<()> {
        let (d, w) = (Param::Integer(place.district), Param::Integer(place.warehouse));
        let mut customers: Vec<i64> = (1..=self.scale.customers).collect();
        self.random(Stream::Permutation, place, 0).shuffle(&mut customers);
        for (order, customer) in (1..).zip(customers) {
            let drawn = self.order(place, order);
            let carrier = if self.is_delivered(order) { drawn.carrier.into() } else { Param::Null };
            let entered = Param::Moment(self.now);
            into.row(&[order.into(), d, w, customer.into(), entered, carrier, drawn.lines.into(), 1.into()])?;
        }
        Ok(())
    }

    fn order_lines(&self, place: Place, into: &mut Counted<'_, '_>) -> Result<()> {
        let (d, w) = (Param::Integer(place.district), Param::Integer(place.warehouse));
        for order in 1..=self.scale.customers {
            let mut random = self.random(Stream::OrderLines, place, order);
            for line in 1..=self.order(place, order).lines {
                let item = random.between(1, self.scale.items).into();
                let open = (Param::Null, money(random.between(1, 999_999)));
                let delivered = (Param::Moment(self.now), money(0));
                let (delivery, amount) = if self.is_delivered(order) { delivered } else { open };
                let info = letters(&mut random, 24, 24);
                let info = info.as_str().into();
                into.row(&[order.into(), d, w, line.into(), item, w, delivery, 5.into(), amount, info])?;
            }
        }
        Ok(())
    }

    fn new_orders(&self, place: Place, into: &mut Counted<'_, '_>) -> Result<()> {
        let mut open = self.scale.delivered() + 1..=self.scale.customers;
        open.try_for_each(|order| into.row(&[order.into(), place.district.into(), place.warehouse.into()]))
    }

    fn is_delivered(&self, order: i64) -> bool {
        order <= self.scale.delivered()
    }

    fn order(&self, place: Place, order: i64) -> Order {
        let mut random = self.random(Stream::Order, place, order);
        Order { lines: random.between(5, 15), carrier: random.between(1, 10) }
    }
}

/// A district.
#[derive(Clone, Copy)]
struct Place {
    warehouse: i64,
    district: i64,
}

impl Place {
    /// The place of things that belong to no district.
    const NONE: Place = Place { warehouse: 0, district: 0 };
}

/// The values that are drawn for an order.
struct Order {
    lines: i64,
    carrier: i64,
}

struct Address {
    streets: [String; 2],
    city: String,
    state: String,
    zip: String,
}

impl Address {
    fn draw(random: &mut Random) -> Address {
        let streets = [letters(random, 10, 20), letters(random, 10, 20)];
        let (city, state) = (letters(random, 10, 20), letters(random, 2, 2));
        Address { streets, city, state, zip: text(|out| random.zip(out)) }
    }

    fn params(&self) -> [Param<'_>; 5] {
        [&self.streets[0], &self.streets[1], &self.city, &self.state, &self.zip].map(|text| text.as_str().into())
    }
}

/// Writes rows into a table and counts them.
struct Counted<'a, 'b> {
    row: &'a mut RowFn<'b>,
    progress: &'a (dyn Fn(u64) + Sync),
}

impl Counted<'_, '_> {
    fn row(&mut self, values: &[Param<'_>]) -> Result<()> {
        (self.row)(values)?;
        (self.progress)(1);
        Ok(())
    }
}

fn letters(random: &mut Random, low: i64, high: i64) -> String {
    text(|out| random.letters(out, low, high))
}

fn text(write: impl FnOnce(&mut String)) -> String {
    let mut out = String::new();
    write(&mut out);
    out
}
