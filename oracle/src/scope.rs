//! What an expression may name where it stands.

use crate::kind::Kind;

/// Something that an expression may name: a column, or after grouping a key or an aggregate, by its text.
#[derive(Clone, Debug)]
pub struct Term {
    pub text: String,
    pub kind: Kind,
    /// A column alone, which a subquery may name too.
    pub plain: bool,
}

/// The terms of one SELECT.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub own: Vec<Term>,
    /// Columns of the queries around this one.
    pub outer: Vec<Term>,
    /// Columns whose values differ in any two rows, where the generator knows some.
    pub unique: Option<Vec<String>>,
    /// Columns of keyed tables by which rows are found.
    pub indexed: Vec<Term>,
    /// Whether this is a scope after grouping, in which only terms may be named.
    pub grouped: bool,
}

impl Scope {
    /// The columns that a subquery within this scope sees around it.
    pub fn around(&self) -> Vec<Term> {
        let mut terms = self.outer.clone();
        terms.extend(self.own.iter().filter(|term| term.plain).cloned());
        terms
    }

    /// This scope without the queries around it.
    pub fn alone(&self) -> Scope {
        Scope { outer: Vec::new(), ..self.clone() }
    }

    /// The plain columns of the scope itself, of `kind`.
    pub fn of_kind(&self, kind: Kind) -> Vec<&Term> {
        self.own.iter().filter(|term| term.kind == kind).collect()
    }
}
