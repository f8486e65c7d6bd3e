//! Order-Status (clause 2.6): the last order of a customer.

use std::hint::black_box;

use rowmill_base::Result;

use super::client::{Access, Client, Param, Row as _};
use super::payment::find_customer;
use super::random::Random;
use super::statement::Sql;
use super::world::{Ending, Scratch, Who, World};

/// The input of an Order-Status transaction.
#[derive(Clone, Copy, Debug)]
pub struct OrderStatus {
    warehouse: i64,
    district: i64,
    who: Who,
}

impl OrderStatus {
    /// Draws a query at the warehouse `home`.
    pub fn draw(world: &World, random: &mut Random, home: i64) -> OrderStatus {
        OrderStatus { warehouse: home, district: world.district(random), who: world.who(random) }
    }

    /// Runs the query.
    pub fn run<C: Client>(&self, client: &mut C, scratch: &mut Scratch) -> Result<Ending> {
        client.begin(Access::Read)?;
        let (w, d) = (Param::Integer(self.warehouse), Param::Integer(self.district));
        let customer = find_customer(client, scratch, self.warehouse, self.district, self.who)?.into();
        client.get(Sql::CustomerBalance, &[w, d, customer], |row| {
            black_box((row.decimal(0)?, row.text(1)?, row.text(2)?, row.text(3)?));
            Ok(())
        })?;
        let order = client.get(Sql::LastOrder, &[w, d, customer], |row| {
            let carrier = if row.is_null(2)? { 0 } else { row.integer(2)? };
            black_box((row.moment(1)?, carrier));
            row.integer(0)
        })?;
        client.query(Sql::OrderLines, &[w, d, order.into()], |row| {
            let delivered = if row.is_null(4)? { 0 } else { row.moment(4)? };
            black_box((row.integer(0)?, row.integer(1)?, row.integer(2)?, row.decimal(3)?, delivered));
            Ok(())
        })?;
        client.commit()?;
        Ok(Ending::Committed)
    }
}
