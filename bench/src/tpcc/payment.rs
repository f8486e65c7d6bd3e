//! Payment (clause 2.5): a customer pays, by number or by last name.

use std::fmt::Write as _;
use std::hint::black_box;
use std::ops::Range;

use rowmill_base::{Error, Result};

use super::client::{Access, Client, Param, Row, money};
use super::random::Random;
use super::statement::Sql;
use super::world::{Ending, Scratch, Who, World, now};

/// The most characters of the notes about a customer.
const NOTES_MAX: usize = 500;

/// The input of a Payment transaction.
#[derive(Clone, Copy, Debug)]
pub struct Payment {
    warehouse: i64,
    district: i64,
    customer_warehouse: i64,
    customer_district: i64,
    who: Who,
    amount: i64,
}

impl Payment {
    /// Draws a payment at the warehouse `home`. Fifteen customers in a hundred belong to another warehouse.
    pub fn draw(world: &World, random: &mut Random, home: i64) -> Payment {
        let district = world.district(random);
        let (customer_warehouse, customer_district) = match random.percent(15) {
            true => (world.remote(random, home), world.district(random)),
            false => (home, district),
        };
        let (who, amount) = (world.who(random), random.between(100, 500_000));
        Payment { warehouse: home, district, customer_warehouse, customer_district, who, amount }
    }

    /// Runs the payment.
    pub fn run<C: Client>(&self, client: &mut C, scratch: &mut Scratch) -> Result<Ending> {
        client.begin(Access::Write)?;
        let (w, d, amount) = (Param::Integer(self.warehouse), Param::Integer(self.district), money(self.amount));
        client.execute(Sql::PayWarehouse, &[amount, w])?;
        client.execute(Sql::PayDistrict, &[amount, w, d])?;
        let customer = find_customer(client, scratch, self.customer_warehouse, self.customer_district, self.who)?;
        self.pay(client, &mut scratch.text, customer)?;

        let note = &mut scratch.text;
        note.clear();
        client.get(Sql::WarehouseAddress, &[w], |row| name_of_address(row, note))?;
        note.push_str("    ");
        client.get(Sql::DistrictAddress, &[w, d], |row| name_of_address(row, note))?;
        let (c_w, c_d) = (self.customer_warehouse.into(), self.customer_district.into());
        let date = Param::Moment(now());
        client.execute(Sql::InsertHistory, &[customer.into(), c_d, c_w, d, w, date, amount, note.as_str().into()])?;
        client.commit()?;
        Ok(Ending::Committed)
    }

    /// Books the payment for the customer. A customer with bad credit also gets a note, which goes before the older
    /// ones.
    fn pay<C: Client>(&self, client: &mut C, notes: &mut String, customer: i64) -> Result<()> {
        let amount = money(self.amount);
        let key: [Param<'_>; 3] = [self.customer_warehouse.into(), self.customer_district.into(), customer.into()];
        let is_bad = client.get(Sql::Customer, &key, |row| {
            show_texts(row, 0..9)?;
            black_box((row.moment(9)?, row.decimal(11)?, row.decimal(12)?, row.decimal(13)?));
            Ok(row.text(10)? == "BC")
        })?;
        let [w, d, c] = key;
        if !is_bad {
            return client.execute(Sql::PayCustomer, &[amount, amount, w, d, c]);
        }
        // The newest note comes first, and the oldest text is cut at the column's length.
        notes.clear();
        write!(
            notes,
            "{customer} {} {} {} {} {}.{:02} ",
            self.customer_district,
            self.customer_warehouse,
            self.district,
            self.warehouse,
            self.amount / 100,
            self.amount % 100
        )
        .map_err(|error| Error::internal(error.to_string()))?;
        client.get(Sql::CustomerData, &key, |row| {
            let old = row.text(0)?;
            notes.push_str(&old[..old.len().min(NOTES_MAX - notes.len())]);
            Ok(())
        })?;
        client.execute(Sql::PayCustomerWithData, &[amount, amount, notes.as_str().into(), w, d, c])
    }
}

/// Reads an address, and keeps the name in front of it.
fn name_of_address(row: &impl Row, name: &mut String) -> Result<()> {
    name.push_str(row.text(0)?);
    show_texts(row, 1..6)
}

fn show_texts(row: &impl Row, mut columns: Range<usize>) -> Result<()> {
    columns.try_for_each(|column| {
        black_box(row.text(column)?);
        Ok(())
    })
}

/// Finds the number of a customer. If several have the last name, we take the middle one in the order of first names,
/// rounded up.
pub(super) fn find_customer<C: Client>(
    client: &mut C,
    scratch: &mut Scratch,
    warehouse: i64,
    district: i64,
    who: Who,
) -> Result<i64> {
    let number = match who {
        Who::Id(customer) => return Ok(customer),
        Who::Name(number) => number,
    };
    // We take the buffer out of the scratch space, because the name is borrowed from it at the same time.
    let mut found = std::mem::take(&mut scratch.customers);
    found.clear();
    let name = scratch.last_name(number);
    let params = [warehouse.into(), district.into(), name.into()];
    client.query(Sql::CustomersByName, &params, |row| {
        found.push(row.integer(0)?);
        Ok(())
    })?;
    // The specification counts from 1 and rounds n / 2 up, which is index (n - 1) / 2.
    let middle = found.get(found.len().saturating_sub(1) / 2).copied();
    scratch.customers = found;
    middle.ok_or_else(|| Error::internal(format!("no customer has the last name {}", scratch.name)))
}

#[cfg(test)]
mod tests {
    use super::super::random::Constants;
    use super::super::scale::Scale;
    use super::*;

    #[test]
    fn payments_are_as_the_clause_asks() {
        let mut random = Random::new(1, 0);
        let world = World { scale: Scale::FULL, warehouses: 3, constants: Constants::of_run(&mut random) };
        let payments: Vec<Payment> = (0..10_000).map(|_| Payment::draw(&world, &mut random, 2)).collect();
        let remote = payments.iter().filter(|payment| payment.customer_warehouse != 2).count();
        assert!((1_350..1_650).contains(&remote), "{remote}");
        assert!(payments.iter().all(|payment| (100..=500_000).contains(&payment.amount)));
        let local = payments.iter().filter(|payment| payment.customer_warehouse == 2);
        assert!(local.into_iter().all(|payment| payment.customer_district == payment.district));
    }
}
