//! Stock-Level (clause 2.8): counts the items of a district's last twenty orders whose stock is low.

use std::hint::black_box;

use rowmill_base::Result;

use super::client::{Access, Client, Param, Row as _};
use super::random::Random;
use super::statement::Sql;
use super::world::{Ending, World};

/// The number of last orders that we examine.
const ORDERS: i64 = 20;

/// The input of a Stock-Level transaction.
#[derive(Clone, Copy, Debug)]
pub struct StockLevel {
    warehouse: i64,
    district: i64,
    threshold: i64,
}

impl StockLevel {
    /// Draws a query at the warehouse `home`.
    pub fn draw(world: &World, random: &mut Random, home: i64) -> StockLevel {
        StockLevel { warehouse: home, district: world.district(random), threshold: random.between(10, 20) }
    }

    /// Runs the query.
    pub fn run<C: Client>(&self, client: &mut C) -> Result<Ending> {
        client.begin(Access::Read)?;
        let (w, d) = (Param::Integer(self.warehouse), Param::Integer(self.district));
        let next = client.get(Sql::NextOrder, &[w, d], |row| row.integer(0))?;
        let params = [w, d, (next - ORDERS).into(), next.into(), self.threshold.into()];
        black_box(client.get(Sql::ShortItems, &params, |row| row.integer(0))?);
        client.commit()?;
        Ok(Ending::Committed)
    }
}
