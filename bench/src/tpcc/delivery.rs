//! Delivery (clause 2.7): delivers the oldest new order of each district of a warehouse. It runs at once, in one
//! transaction, and not from a queue.

use rowmill_base::Result;

use super::client::{Access, Client, Param, Row as _, money};
use super::random::Random;
use super::scale::DISTRICTS;
use super::statement::Sql;
use super::world::{Ending, now};

/// The input of a Delivery transaction.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    warehouse: i64,
    carrier: i64,
}

impl Delivery {
    /// Draws a delivery of the warehouse `home`.
    pub fn draw(random: &mut Random, home: i64) -> Delivery {
        Delivery { warehouse: home, carrier: random.between(1, 10) }
    }

    /// Runs the delivery.
    pub fn run<C: Client>(&self, client: &mut C) -> Result<Ending> {
        client.begin(Access::Write)?;
        let now = now();
        (1..=DISTRICTS).try_for_each(|district| self.deliver(client, district, now))?;
        client.commit()?;
        Ok(Ending::Committed)
    }

    /// Delivers the oldest new order of a district. A district without new orders is skipped.
    fn deliver<C: Client>(&self, client: &mut C, district: i64, now: i64) -> Result<()> {
        let (w, d) = (Param::Integer(self.warehouse), Param::Integer(district));
        let Some(order) = client.find(Sql::OldestNewOrder, &[w, d], |row| row.integer(0))? else { return Ok(()) };
        let key = [w, d, order.into()];
        client.execute(Sql::DeleteNewOrder, &key)?;
        let customer = client.get(Sql::OrderCustomer, &key, |row| row.integer(0))?;
        client.execute(Sql::SetCarrier, &[self.carrier.into(), w, d, order.into()])?;
        client.execute(Sql::SetDelivered, &[Param::Moment(now), w, d, order.into()])?;
        let amount = client.get(Sql::OrderAmount, &key, |row| row.decimal(0))?;
        client.execute(Sql::ChargeCustomer, &[money(amount), w, d, customer.into()])
    }
}
