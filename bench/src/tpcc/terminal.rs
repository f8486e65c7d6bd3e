//! The state of one client: what it draws, its buffers, and the outcomes of its transactions.

use std::time::Instant;

use rowmill_base::{ErrorKind, Result, allocations};

use super::client::Client;
use super::deck::{Deck, Kind};
use super::delivery::Delivery;
use super::histogram::Histogram;
use super::new_order::NewOrder;
use super::order_status::OrderStatus;
use super::payment::Payment;
use super::random::Random;
use super::stock_level::StockLevel;
use super::world::{Ending, Scratch, World};

/// The outcomes of the transactions of one kind.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The latencies of the transactions that ended, from their first attempt on.
    pub latencies: Histogram,
    /// Transactions that were committed.
    pub committed: u64,
    /// Transactions that were rolled back because their input asked for it.
    pub rolled_back: u64,
    /// Transactions that we gave up after the last attempt.
    pub failed: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// The heap allocations of the client's thread, if the process counts them.
    pub allocations: u64,
}

impl Tally {
    /// The number of transactions that ended: committed or rolled back.
    pub fn ended(&self) -> u64 {
        self.committed + self.rolled_back
    }

    /// Adds the tally of another client.
    pub fn add(&mut self, other: &Tally) {
        self.latencies.add(&other.latencies);
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.failed += other.failed;
        self.retries += other.retries;
        self.allocations += other.allocations;
    }
}

/// The tallies of all kinds, in the order of [`Kind::ALL`].
pub type Tallies = [Tally; Kind::ALL.len()];

/// A transaction with its input. A client has only one at a time, and a box would be one more allocation.
#[allow(clippy::large_enum_variant)]
enum Input {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

/// A client of the driver.
pub struct Terminal {
    world: World,
    /// The warehouses for which it works. Each client has its own, as far as there are enough.
    homes: Vec<i64>,
    max_retry: u32,
    random: Random,
    deck: Deck,
    scratch: Scratch,
    tallies: Tallies,
}

impl Terminal {
    /// Makes client number `number`, counted from 0, of `clients`.
    pub fn new(world: World, number: usize, clients: usize, max_retry: u32, seed: u64) -> Terminal {
        let of_this = |warehouse: &i64| (*warehouse - 1) as usize % clients == number;
        let mut homes: Vec<i64> = (1..=world.warehouses).filter(of_this).collect();
        // If we have more clients than warehouses, clients share warehouses.
        if homes.is_empty() {
            homes.push(number as i64 % world.warehouses + 1);
        }
        let random = Random::new(seed, number as u64 + 1);
        let (deck, scratch, tallies) = (Deck::new(), Scratch::default(), Tallies::default());
        Terminal { world, homes, max_retry, random, deck, scratch, tallies }
    }

    /// Resets the tallies when the warm-up ends.
    pub fn restart(&mut self) {
        self.tallies = Tallies::default();
    }

    /// Returns the tallies.
    pub fn into_tallies(self) -> Tallies {
        self.tallies
    }

    /// Runs the next transaction. Its latency counts from `begun`. It is not an error if another transaction committed
    /// first.
    pub fn step<C: Client>(&mut self, client: &mut C, begun: Instant) -> Result<()> {
        let kind = self.deck.deal(&mut self.random);
        let input = self.draw(kind);
        let allocated = allocations::of_thread();
        let ending = self.attempt(client, kind, &input)?;
        let (taken, now) = (begun.elapsed(), allocations::of_thread());
        let tally = &mut self.tallies[kind as usize];
        tally.allocations += now.zip(allocated).map_or(0, |(now, before)| now - before);
        match ending {
            Some(Ending::Committed) => tally.committed += 1,
            Some(Ending::RolledBack) => tally.rolled_back += 1,
            None => {
                tally.failed += 1;
                // A transaction that was given up has no latency, because it did not end.
                return Ok(());
            }
        }
        tally.latencies.record(taken);
        Ok(())
    }

    fn draw(&mut self, kind: Kind) -> Input {
        let (world, random) = (&self.world, &mut self.random);
        let home = self.homes[random.between(0, self.homes.len() as i64 - 1) as usize];
        match kind {
            Kind::NewOrder => Input::NewOrder(NewOrder::draw(world, random, home)),
            Kind::Payment => Input::Payment(Payment::draw(world, random, home)),
            Kind::OrderStatus => Input::OrderStatus(OrderStatus::draw(world, random, home)),
            Kind::Delivery => Input::Delivery(Delivery::draw(random, home)),
            Kind::StockLevel => Input::StockLevel(StockLevel::draw(world, random, home)),
        }
    }

    /// Runs a transaction until it ends. Returns `None` if others committed first at every attempt.
    fn attempt<C: Client>(&mut self, client: &mut C, kind: Kind, input: &Input) -> Result<Option<Ending>> {
        for attempt in 0..=self.max_retry {
            self.tallies[kind as usize].retries += u64::from(attempt > 0);
            match input.run(client, &mut self.scratch) {
                Ok(ending) => return Ok(Some(ending)),
                // Another transaction committed first. The same input must run again from the beginning, over a new
                // snapshot.
                Err(error) if error.kind() == ErrorKind::SerializationFailure => client.rollback()?,
                Err(error) => return Err(error.context(kind.name())),
            }
        }
        Ok(None)
    }
}

impl Input {
    fn run<C: Client>(&self, client: &mut C, scratch: &mut Scratch) -> Result<Ending> {
        match self {
            Input::NewOrder(order) => order.run(client, scratch),
            Input::Payment(payment) => payment.run(client, scratch),
            Input::OrderStatus(status) => status.run(client, scratch),
            Input::Delivery(delivery) => delivery.run(client),
            Input::StockLevel(level) => level.run(client),
        }
    }
}

#[cfg(test)]
mod tests {
    use rowmill_base::Error;

    use super::super::client::{Access, Param};
    use super::super::random::Constants;
    use super::super::scale::Scale;
    use super::super::sqlite_client::SqliteRow;
    use super::super::statement::Sql;
    use super::*;

    /// A client for which another transaction always commits first.
    #[derive(Default)]
    struct Loser {
        rollbacks: u64,
    }

    impl Client for Loser {
        type Row<'a> = SqliteRow<'a>;

        fn begin(&mut self, _: Access) -> Result<()> {
            Err(Error::new(ErrorKind::SerializationFailure, "too late"))
        }

        fn commit(&mut self) -> Result<()> {
            Ok(())
        }

        fn rollback(&mut self) -> Result<()> {
            self.rollbacks += 1;
            Ok(())
        }

        fn execute(&mut self, _: Sql, _: &[Param<'_>]) -> Result<()> {
            Ok(())
        }

        fn query(&mut self, _: Sql, _: &[Param<'_>], _: impl FnMut(&SqliteRow<'_>) -> Result<()>) -> Result<()> {
            Ok(())
        }
    }

    fn terminal(warehouses: i64, number: usize, clients: usize) -> Terminal {
        let world = World { scale: Scale::FULL, warehouses, constants: Constants::LOAD };
        Terminal::new(world, number, clients, 2, 1)
    }

    #[test]
    fn a_client_that_always_loses_gives_up_after_the_last_attempt() {
        let (mut terminal, mut client) = (terminal(1, 0, 1), Loser::default());
        (0..100).for_each(|_| terminal.step(&mut client, Instant::now()).unwrap());
        let tallies = terminal.into_tallies();
        assert_eq!(client.rollbacks, 300);
        assert_eq!(tallies.iter().map(|tally| tally.failed).sum::<u64>(), 100);
        assert_eq!(tallies.iter().map(|tally| tally.retries).sum::<u64>(), 200);
        assert!(tallies.iter().all(|tally| tally.ended() == 0 && tally.latencies.count() == 0));
    }

    #[test]
    fn clients_share_the_warehouses() {
        assert_eq!(terminal(5, 0, 2).homes, [1, 3, 5]);
        assert_eq!(terminal(5, 1, 2).homes, [2, 4]);
        assert_eq!(terminal(2, 3, 4).homes, [2]);
    }
}
