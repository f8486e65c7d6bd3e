//! The names that an expression may use at its place.

use crate::kind::Kind;

/// A thing that an expression may name, by its text: a column, or after grouping a key or an aggregate.
#[derive(Clone, Debug)]
pub struct Term {
    pub text: String,
    pub kind: Kind,
    /// Whether it is a plain column, which a subquery may name too.
    pub plain: bool,
}

/// The terms of one SELECT.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub own: Vec<Term>,
    /// The columns of the enclosing queries.
    pub outer: Vec<Term>,
    /// Columns that together differ in any two rows, if the generator knows such columns.
    pub unique: Option<Vec<String>>,
    /// Columns of keyed tables by which rows can be found.
    pub indexed: Vec<Term>,
    /// Whether this is a scope after grouping, in which only terms may be named.
    pub grouped: bool,
}

impl Scope {
    /// Returns the columns that a subquery within this scope sees around it.
    pub fn around(&self) -> Vec<Term> {
        let mut terms = self.outer.clone();
        terms.extend(self.own.iter().filter(|term| term.plain).cloned());
        terms
    }

    /// Returns this scope without the enclosing queries.
    pub fn alone(&self) -> Scope {
        Scope { outer: Vec::new(), ..self.clone() }
    }

    /// Returns the plain columns of `kind` in the scope itself.
    pub fn of_kind(&self, kind: Kind) -> Vec<&Term> {
        self.own.iter().filter(|term| term.kind == kind).collect()
    }
}
