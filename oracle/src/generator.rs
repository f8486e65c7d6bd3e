//! What a generated query is made with: numbers, the world, names in use, and bounds on nesting.

use crate::kind::Kind;
use crate::random::Random;
use crate::scope::Scope;
use crate::world::World;

/// Subqueries within each other.
const NESTING_MAX: usize = 2;
/// Subqueries of one statement.
const SUBQUERIES_MAX: usize = 6;

/// Makes queries over one world.
pub struct Generator<'a> {
    pub random: Random,
    pub world: &'a World,
    /// Common table expressions that may be named here: names and kinds of columns.
    pub ctes: Vec<(String, Vec<Kind>)>,
    names: usize,
    nesting: usize,
    subqueries: usize,
    flat: bool,
}

/// A generated statement.
#[derive(Clone, Debug)]
pub struct Query {
    pub text: String,
    /// Whether the rows have a total order.
    pub ordered: bool,
}

impl<'a> Generator<'a> {
    /// A generator for statement `number` of `world`.
    pub fn new(world: &'a World, number: u64) -> Self {
        Generator {
            random: Random::new(world.seed.wrapping_mul(1_000_003).wrapping_add(number)),
            world,
            ctes: Vec::new(),
            names: 0,
            nesting: 0,
            subqueries: 0,
            flat: false,
        }
    }

    /// A name that no other relation of the statement has.
    pub fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// Whether an expression here may hold a subquery.
    pub fn may_nest(&self) -> bool {
        !self.flat && self.nesting < NESTING_MAX && self.subqueries < SUBQUERIES_MAX
    }

    /// Makes something one subquery further in.
    pub fn nested<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        self.nesting += 1;
        self.subqueries += 1;
        let made = make(self);
        self.nesting -= 1;
        made
    }

    /// Makes something without subqueries.
    pub fn flat<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.flat, true);
        let made = make(self);
        self.flat = before;
        made
    }

    /// How one key of an order goes.
    pub fn direction(&mut self) -> &'static str {
        self.random.pick(&["", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"])
    }

    /// An order in which no two rows of `scope` are equal: perhaps something, then its unique columns.
    pub fn total_order(&mut self, scope: &Scope, unique: &[String]) -> String {
        let mut keys = Vec::new();
        if self.random.chance(60) {
            let kind = Kind::random(&mut self.random);
            if let Some(term) = scope.of_kind(kind).first().map(|term| term.text.clone()) {
                keys.push(format!("{term}{}", self.direction()));
            }
        }
        for column in unique {
            keys.push(format!("{column}{}", self.direction()));
        }
        keys.join(", ")
    }

    /// ` WHERE ...` in `percent` of all calls.
    pub fn where_clause(&mut self, scope: &Scope, percent: usize) -> String {
        match self.random.chance(percent) {
            true => format!(" WHERE {}", self.condition(scope, 2)),
            false => String::new(),
        }
    }
}
