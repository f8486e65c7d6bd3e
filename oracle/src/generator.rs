//! The state of a query generator: random numbers, the world, the names in use, and bounds on nesting.

use crate::kind::Kind;
use crate::random::Random;
use crate::scope::Scope;
use crate::world::World;

/// The most levels of nested subqueries: for most statements, and for some.
const NESTING_MAX: usize = 2;
const DEEP_NESTING_MAX: usize = 4;
/// The most subqueries of one statement.
const SUBQUERIES_MAX: usize = 6;

/// Generates queries over one world.
pub struct Generator<'a> {
    pub random: Random,
    pub world: &'a World,
    /// The common table expressions in scope: their names, and the kinds of their columns.
    pub ctes: Vec<(String, Vec<Kind>)>,
    /// Whether relations are keyed tables and conditions name keys, so that statements become programs.
    pub by_key: bool,
    names: usize,
    nesting: usize,
    nesting_max: usize,
    subqueries: usize,
    flat: bool,
}

/// A generated statement.
#[derive(Clone, Debug)]
pub struct Query {
    pub text: String,
    /// Whether the rows have a total order, so that their order can be compared.
    pub ordered: bool,
}

impl<'a> Generator<'a> {
    /// Makes the generator for statement `number` of `world`.
    pub fn new(world: &'a World, number: u64) -> Self {
        // Each statement has a random stream of its own, so that it can be repeated without the statements before it.
        let mut random = Random::new(world.seed.wrapping_mul(1_000_003).wrapping_add(number));
        let has_keyed = world.tables.iter().any(|table| table.keyed);
        let by_key = has_keyed && random.chance(25);
        let nesting_max = if random.chance(20) { DEEP_NESTING_MAX } else { NESTING_MAX };
        Generator {
            random,
            world,
            ctes: Vec::new(),
            by_key,
            nesting_max,
            names: 0,
            nesting: 0,
            subqueries: 0,
            flat: false,
        }
    }

    /// Makes a name that no other relation of the statement has.
    pub fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// Whether an expression may contain a subquery here.
    pub fn may_nest(&self) -> bool {
        !self.flat && self.nesting < self.nesting_max && self.subqueries < SUBQUERIES_MAX
    }

    /// Calls `make` one subquery level deeper.
    pub fn nested<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        // The level goes back down, but the count of subqueries never does: it bounds the whole statement.
        self.nesting += 1;
        self.subqueries += 1;
        let made = make(self);
        self.nesting -= 1;
        made
    }

    /// Calls `make` with subqueries forbidden.
    pub fn flat<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.flat, true);
        let made = make(self);
        self.flat = before;
        made
    }

    /// Draws the direction of one key of an order.
    pub fn direction(&mut self) -> &'static str {
        self.random.pick(&["", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"])
    }

    /// Makes an order in which no two rows of `scope` are equal: sometimes another key, and then its unique columns.
    pub fn total_order(&mut self, scope: &Scope, unique: &[String]) -> String {
        let mut keys = Vec::new();
        if self.random.chance(60) {
            let kind = Kind::random(&mut self.random);
            if let Some(term) = scope.of_kind(kind).first().map(|term| term.text.clone()) {
                keys.push(format!("{term}{}", self.direction()));
            }
        }
        // The unique columns must come last: they decide between rows that are equal in the key before them.
        for column in unique {
            keys.push(format!("{column}{}", self.direction()));
        }
        keys.join(", ")
    }

    /// Makes ` WHERE ...` in `percent` percent of the calls.
    pub fn where_clause(&mut self, scope: &Scope, percent: usize) -> String {
        if let Some(key) = self.key_condition(scope) {
            return match self.random.chance(percent / 2) {
                true => format!(" WHERE {key} AND {}", self.condition(scope, 1)),
                false => format!(" WHERE {key}"),
            };
        }
        match self.random.chance(percent) {
            true => format!(" WHERE {}", self.condition(scope, 2)),
            false => String::new(),
        }
    }

    /// Makes a literal that may become a parameter of a prepared statement. It is in marks, which
    /// [`Prepared`](crate::prepared::Prepared) removes.
    fn parameter(&mut self, kind: Kind) -> String {
        if self.random.chance(6) {
            return "«NULL»".to_owned();
        }
        let literal = kind.literal(&mut self.random);
        match kind {
            Kind::Int | Kind::Text => format!("«{literal}»"),
            _ => literal,
        }
    }

    /// Makes a condition that finds rows of a keyed table by key, if the statement should become a program.
    fn key_condition(&mut self, scope: &Scope) -> Option<String> {
        if !self.by_key || scope.indexed.is_empty() || self.random.chance(10) {
            return None;
        }
        let term = self.random.pick(&scope.indexed);
        let kind = term.kind;
        let of_outer: Vec<String> =
            scope.outer.iter().filter(|other| other.kind == kind).map(|other| other.text.clone()).collect();
        // A column of an enclosing query makes the lookup a correlated one.
        let value = match !of_outer.is_empty() && self.random.chance(70) {
            true => self.random.pick(&of_outer),
            false => self.parameter(kind),
        };
        let text = term.text;
        let more = self.parameter(kind);
        Some(match self.random.below(9) {
            0..4 => format!("{text} = {value}"),
            4 => format!("{text} IN ({value}, {more})"),
            5 => format!("{text} BETWEEN {value} AND {more}"),
            6 => format!("{text} {} {value}", self.random.pick(&["<", "<=", ">", ">="])),
            7 => format!("{text} IN (NULL, {value})"),
            _ => format!("{text} IS NOT DISTINCT FROM {value}"),
        })
    }
}
