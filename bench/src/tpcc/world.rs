//! The domain from which transactions draw their inputs (clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1 and 2.8.1).

use std::time::{SystemTime, UNIX_EPOCH};

use super::random::{Constants, Random, last_name};
use super::scale::{DISTRICTS, Scale};

/// The sizes and constants of the database in a run.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// Cardinalities.
    pub scale: Scale,
    /// The number of warehouses.
    pub warehouses: i64,
    /// The run's constants.
    pub constants: Constants,
}

/// The way in which a terminal identifies a customer.
#[derive(Clone, Copy, Debug)]
pub enum Who {
    /// By number.
    Id(i64),
    /// By the number of the last name.
    Name(i64),
}

impl World {
    /// Draws the number of any district.
    pub fn district(&self, random: &mut Random) -> i64 {
        random.between(1, DISTRICTS)
    }

    /// Draws the number of a customer, by NURand.
    pub fn customer(&self, random: &mut Random) -> i64 {
        random.skewed(1_023, self.constants.customer, 1, self.scale.customers)
    }

    /// Draws the number of an item, by NURand.
    pub fn item(&self, random: &mut Random) -> i64 {
        random.skewed(8_191, self.constants.item, 1, self.scale.items)
    }

    /// Draws a customer. Sixty in a hundred are identified by last name.
    pub fn who(&self, random: &mut Random) -> Who {
        match random.percent(60) {
            true => Who::Name(random.skewed(255, self.constants.last_name, 0, self.scale.last_names() - 1)),
            false => Who::Id(self.customer(random)),
        }
    }

    /// Draws another warehouse than `home`, if one exists.
    pub fn remote(&self, random: &mut Random, home: i64) -> i64 {
        if self.warehouses == 1 {
            return home;
        }
        let other = random.between(1, self.warehouses - 1);
        if other < home { other } else { other + 1 }
    }
}

/// Buffers that a client uses again and again, so that its transactions allocate nothing.
#[derive(Debug, Default)]
pub struct Scratch {
    /// A text that is being written.
    pub text: String,
    /// A last name, or another text.
    pub name: String,
    /// The customers with a last name.
    pub customers: Vec<i64>,
}

impl Scratch {
    /// Writes the last name with a number.
    pub fn last_name(&mut self, number: i64) -> &str {
        self.name.clear();
        last_name(&mut self.name, number);
        &self.name
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was committed.
    Committed,
    /// It was rolled back, because its input asked for it.
    RolledBack,
}

/// Returns the current time, in microseconds since 1970.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_warehouses_are_others() {
        let constants = Constants::of_run(&mut Random::new(1, 0));
        let mut random = Random::new(1, 1);
        let world = |warehouses| World { scale: Scale::FULL, warehouses, constants };
        assert_eq!(world(1).remote(&mut random, 1), 1);
        let mut seen = [0; 5];
        (0..300).for_each(|_| seen[world(4).remote(&mut random, 3) as usize] += 1);
        assert!(seen[0] == 0 && seen[3] == 0 && seen[1] > 50 && seen[2] > 50 && seen[4] > 50, "{seen:?}");
    }

    #[test]
    fn six_customers_of_ten_are_identified_by_name() {
        let world = World { scale: Scale::FULL, warehouses: 1, constants: Constants::LOAD };
        let mut random = Random::new(1, 2);
        let named = (0..10_000).filter(|_| matches!(world.who(&mut random), Who::Name(_))).count();
        assert!((5_700..6_300).contains(&named), "{named}");
    }
}
