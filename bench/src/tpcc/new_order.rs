//! New-Order (clause 2.4): a customer orders five to fifteen items.

use std::hint::black_box;

use rowmill_base::Result;

use super::client::{Access, Client, Param, Row as _, money};
use super::random::{ORIGINAL, Random};
use super::statement::Sql;
use super::world::{Ending, Scratch, World, now};

/// The most lines of an order.
const LINES_MAX: usize = 15;

/// The input of a New-Order transaction.
#[derive(Clone, Copy, Debug)]
pub struct NewOrder {
    warehouse: i64,
    district: i64,
    customer: i64,
    lines: [Line; LINES_MAX],
    count: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    item: i64,
    supplier: i64,
    quantity: i64,
}

/// The values of the order's head that its lines need.
struct Head {
    order: i64,
    /// The factor by which we multiply the total.
    factor: f64,
}

impl NewOrder {
    /// Draws an order at the warehouse `home`. One line in a hundred comes from another warehouse. In one order of a
    /// hundred the last line asks for an item that does not exist.
    pub fn draw(world: &World, random: &mut Random, home: i64) -> NewOrder {
        let (district, customer) = (world.district(random), world.customer(random));
        let count = random.between(5, LINES_MAX as i64) as usize;
        let mut lines = [Line::default(); LINES_MAX];
        // Every supplier is drawn on its own, so that an order can have lines from several warehouses.
        for line in &mut lines[..count] {
            let supplier = if random.percent(1) { world.remote(random, home) } else { home };
            *line = Line { item: world.item(random), supplier, quantity: random.between(1, 10) };
        }
        if random.percent(1) {
            lines[count - 1].item = world.scale.items + 1;
        }
        NewOrder { warehouse: home, district, customer, lines, count }
    }

    /// Enters the order.
    pub fn run<C: Client>(&self, client: &mut C, scratch: &mut Scratch) -> Result<Ending> {
        client.begin(Access::Write)?;
        let head = self.enter(client)?;
        let mut total = 0;
        for (number, line) in (1..).zip(&self.lines[..self.count]) {
            match self.enter_line(client, scratch, &head, number, line)? {
                Some(amount) => total += amount,
                // The specification requires that such an order is entered up to this line and then rolled back.
                None => {
                    client.rollback()?;
                    return Ok(Ending::RolledBack);
                }
            }
        }
        // black_box keeps the compiler from removing values that a terminal would show.
        black_box(total as f64 * head.factor);
        client.commit()?;
        Ok(Ending::Committed)
    }

    fn enter<C: Client>(&self, client: &mut C) -> Result<Head> {
        let (w, d, c) = (Param::Integer(self.warehouse), Param::Integer(self.district), self.customer.into());
        let warehouse_tax = client.get(Sql::WarehouseTax, &[w], |row| row.decimal(0))?;
        let (district_tax, order) =
            client.get(Sql::DistrictTax, &[w, d], |row| Ok((row.decimal(0)?, row.integer(1)?)))?;
        // The next transaction of the district takes the following number. This update makes concurrent orders of a
        // district conflict.
        client.execute(Sql::DistrictNextOrder, &[(order + 1).into(), w, d])?;
        let discount = client.get(Sql::CustomerDiscount, &[w, d, c], |row| {
            black_box((row.text(1)?, row.text(2)?));
            row.decimal(0)
        })?;
        let (lines, is_local) = (self.count as i64, i64::from(self.is_local()));
        let entered = Param::Moment(now());
        client.execute(Sql::InsertOrder, &[order.into(), d, w, c, entered, lines.into(), is_local.into()])?;
        client.execute(Sql::InsertNewOrder, &[order.into(), d, w])?;
        let factor = (1.0 - discount as f64 / 1e4) * (1.0 + (warehouse_tax + district_tax) as f64 / 1e4);
        Ok(Head { order, factor })
    }

    fn is_local(&self) -> bool {
        self.lines[..self.count].iter().all(|line| line.supplier == self.warehouse)
    }

    /// Enters a line and returns its amount in cents, or `None` if the item does not exist.
    fn enter_line<C: Client>(
        &self,
        client: &mut C,
        scratch: &mut Scratch,
        head: &Head,
        number: i64,
        line: &Line,
    ) -> Result<Option<i64>> {
        let (item, supplier) = (Param::Integer(line.item), Param::Integer(line.supplier));
        let found = client.find(Sql::Item, &[item], |row| {
            black_box(row.text(1)?);
            Ok((row.decimal(0)?, row.text(2)?.contains(ORIGINAL)))
        })?;
        let Some((price, item_is_original)) = found else { return Ok(None) };

        let info = &mut scratch.text;
        let quantity = client.get(Sql::stock_of_district(self.district), &[supplier, item], |row| {
            // The terminal would show the brand, so we must compute it, but the result is not stored.
            black_box(item_is_original && row.text(1)?.contains(ORIGINAL));
            info.clear();
            info.push_str(row.text(2)?);
            row.integer(0)
        })?;
        let left = stock_left(quantity, line.quantity);
        let remote = i64::from(line.supplier != self.warehouse);
        client.execute(Sql::UpdateStock, &[left.into(), line.quantity.into(), remote.into(), supplier, item])?;

        let amount = line.quantity * price;
        let (d, w) = (self.district.into(), self.warehouse.into());
        let (order, quantity, info) = (head.order.into(), line.quantity.into(), info.as_str().into());
        let values = [order, d, w, number.into(), item, supplier, quantity, money(amount), info];
        client.execute(Sql::InsertOrderLine, &values)?;
        Ok(Some(amount))
    }
}

/// Returns the remaining stock. Stock that would fall below ten is refilled with 91.
fn stock_left(stock: i64, ordered: i64) -> i64 {
    if stock >= ordered + 10 { stock - ordered } else { stock - ordered + 91 }
}

#[cfg(test)]
mod tests {
    use super::super::random::Constants;
    use super::super::scale::Scale;
    use super::*;

    #[test]
    fn orders_are_as_the_clause_asks() {
        let mut random = Random::new(1, 0);
        let world = World { scale: Scale::FULL, warehouses: 3, constants: Constants::of_run(&mut random) };
        let (mut lines, mut remote, mut unused) = (0, 0, 0);
        for _ in 0..10_000 {
            let order = NewOrder::draw(&world, &mut random, 2);
            let of_order = &order.lines[..order.count];
            assert!((5..=15).contains(&order.count));
            assert!(of_order.iter().all(|line| (1..=10).contains(&line.quantity)));
            lines += order.count;
            remote += of_order.iter().filter(|line| line.supplier != 2).count();
            unused += of_order.iter().filter(|line| line.item > 100_000).count();
            assert!(of_order[..order.count - 1].iter().all(|line| line.item <= 100_000));
        }
        assert!((95_000..105_000).contains(&lines), "{lines}");
        assert!((800..1_200).contains(&remote), "{remote}");
        assert!((60..140).contains(&unused), "{unused}");
    }

    #[test]
    fn stock_is_filled_up() {
        assert_eq!((stock_left(20, 10), stock_left(19, 10), stock_left(10, 10)), (10, 100, 91));
    }
}
