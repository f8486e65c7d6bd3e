//! Generates FROM: tables, derived tables, common table expressions, VALUES, and joins of these.

use crate::generator::Generator;
use crate::kind::Kind;
use crate::scope::{Scope, Term};

impl Generator<'_> {
    /// Makes a FROM clause of up to `most` relations, and the scope of its columns. `outer` are the columns of
    /// enclosing queries.
    pub fn from(&mut self, outer: &[Term], most: usize) -> (String, Scope) {
        let count = match most {
            1 if self.random.chance(85) => 1,
            1 => 2,
            most => 1 + self.random.below(most),
        };
        if count >= 2
            && self.random.chance(20)
            && let Some((mut text, mut scope)) = self.join_by_names(outer)
        {
            for place in 2..count {
                (text, scope) = match self.joined_by_merged(&text, &scope) {
                    Some(joined) => joined,
                    None => {
                        // We may use only qualified names from now on, because another relation may have a column of
                        // the same name.
                        scope.own.retain(|term| term.text.contains('.'));
                        self.joined(text, scope, place + 1 == count)
                    }
                };
            }
            return (text, scope);
        }
        let (mut text, mut scope) = self.relation(outer);
        for place in 1..count {
            (text, scope) = self.joined(text, scope, place + 1 == count);
        }
        (text, scope)
    }

    /// Joins `text` to one more relation.
    fn joined(&mut self, text: String, scope: Scope, last: bool) -> (String, Scope) {
        let outer = scope.outer.clone();
        if self.random.chance(12) {
            return self.joined_laterally(text, scope);
        }
        if self.random.chance(5) {
            return self.unnested(text, scope);
        }
        let (right_text, right) = match self.random.chance(8) {
            true => {
                let (first, one) = self.relation(&outer);
                let (pair, scope) = self.joined_plainly(first, one);
                (format!("({pair})"), scope)
            }
            false => self.relation(&outer),
        };
        self.joined_to(text, scope, right_text, right, last)
    }

    /// Joins `text` to one more relation by a join with a keyword.
    fn joined_plainly(&mut self, text: String, scope: Scope) -> (String, Scope) {
        let (right_text, right) = self.relation(&scope.outer.clone());
        self.joined_to(text, scope, right_text, right, false)
    }

    /// Joins `text` to a given relation.
    fn joined_to(
        &mut self,
        text: String,
        scope: Scope,
        right_text: String,
        right: Scope,
        last: bool,
    ) -> (String, Scope) {
        let kind =
            self.random.pick(&["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"]);
        let both = both(&scope, &right);
        if kind == "CROSS JOIN" {
            let link = if last && self.random.chance(50) { ", " } else { " CROSS JOIN " };
            return (format!("{text}{link}{right_text}"), both);
        }
        let on = self.join_condition(&scope, &right, &both);
        (format!("{text} {kind} {right_text} ON {on}"), both)
    }

    /// Joins `text` to the items of a list of its columns.
    fn unnested(&mut self, text: String, scope: Scope) -> (String, Scope) {
        let kind = self.kind_of(&scope);
        let items: Vec<String> =
            (0..1 + self.random.below(3)).map(|_| self.flat(|this| this.leaf(kind, &scope))).collect();
        let alias = self.name("u");
        let right = columns_scope(&alias, &[kind]);
        let list = format!("CAST([{}] AS {}[])", items.join(", "), kind.type_name());
        (format!("{text} CROSS JOIN UNNEST({list}) AS {alias} (c1)"), both(&scope, &right))
    }

    fn joined_laterally(&mut self, text: String, scope: Scope) -> (String, Scope) {
        let (right_text, right) = self.derived(&scope.around(), "LATERAL ");
        let scope = both(&scope, &Scope { outer: scope.outer.clone(), ..right });
        let text = match self.random.below(3) {
            0 => format!("{text} CROSS JOIN {right_text}"),
            1 => format!("{text} JOIN {right_text} ON TRUE"),
            _ => format!("{text} LEFT JOIN {right_text} ON TRUE"),
        };
        (text, scope)
    }

    /// Makes the condition of ON: usually an equality, sometimes with another condition.
    fn join_condition(&mut self, left: &Scope, right: &Scope, both: &Scope) -> String {
        if self.random.chance(10) {
            return self.condition(both, 1);
        }
        if self.by_key && !right.indexed.is_empty() && self.random.chance(70) {
            let key = self.random.pick(&right.indexed);
            let a = self.flat(|this| this.leaf(key.kind, &left.alone()));
            return match self.random.chance(20) {
                true => format!("{} = {a} AND {}", key.text, self.condition(both, 0)),
                false => format!("{} = {a}", key.text),
            };
        }
        let kind = self.kind_of(left);
        let (a, b) = self.flat(|this| (this.leaf(kind, &left.alone()), this.leaf(kind, &right.alone())));
        let operator = self.random.pick(&["=", "=", "=", "=", "=", "=", "<", ">=", "<>", "IS NOT DISTINCT FROM"]);
        let first = format!("{a} {operator} {b}");
        match self.random.below(6) {
            0 => format!("{first} AND {}", self.condition(both, 0)),
            1 => format!("({first} OR {})", self.condition(both, 0)),
            2 => {
                let kind = Kind::random(&mut self.random);
                let (a, b) = self.flat(|this| (this.leaf(kind, &left.alone()), this.leaf(kind, &right.alone())));
                format!("{first} AND {a} = {b}")
            }
            _ => first,
        }
    }

    /// Joins two tables by USING or NATURAL.
    fn join_by_names(&mut self, outer: &[Term]) -> Option<(String, Scope)> {
        let (first, second) = (self.random.pick(&self.world.tables), self.random.pick(&self.world.tables));
        let has = |name: &str| second.columns.iter().find(|column| column.name == name);
        let common: Vec<_> = first.columns.iter().filter(|column| has(column.name).is_some()).collect();
        if common.is_empty() {
            return None;
        }
        let (a, b) = (self.name("t"), self.name("t"));
        let kind = self.random.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
        let (left, right) = (table_scope(&first, &a), table_scope(&second, &b));
        let mut scope = both(&left, &right);
        scope.outer = outer.to_vec();
        let merged = |name: &str, kind| Term { text: name.to_owned(), kind, plain: true };
        if self.random.chance(40) {
            scope.own = common.iter().map(|column| merged(column.name, column.kind)).chain(scope.own).collect();
            return Some((format!("{} AS {a} NATURAL {kind} {} AS {b}", first.name, second.name), scope));
        }
        let mut using = vec![self.random.pick(&common)];
        if let Some(other) =
            common.iter().find(|column| column.name != using[0].name).filter(|_| self.random.chance(30))
        {
            using.push(other);
        }
        let names: Vec<&str> = using.iter().map(|column| column.name).collect();
        let terms = using.iter().map(|column| merged(column.name, column.kind));
        scope.own = terms.chain(scope.own).collect();
        Some((format!("{} AS {a} {kind} {} AS {b} USING ({})", first.name, second.name, names.join(", ")), scope))
    }

    /// Joins `text`, which has a merged column, to one more table by that column alone.
    fn joined_by_merged(&mut self, text: &str, scope: &Scope) -> Option<(String, Scope)> {
        let merged: Vec<&Term> = scope.own.iter().filter(|term| !term.text.contains('.')).collect();
        let [name] = merged[..] else { return None };
        let has_it = |table: &&crate::world::Table| table.columns.iter().any(|column| column.name == name.text);
        let tables: Vec<_> = self.world.tables.iter().filter(has_it).cloned().collect();
        if tables.is_empty() || self.random.chance(40) {
            return None;
        }
        let (table, alias) = (self.random.pick(&tables), self.name("t"));
        let kind = self.random.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
        let text = format!("{text} {kind} {} AS {alias} USING ({})", table.name, name.text);
        Some((text, both(scope, &table_scope(&table, &alias))))
    }

    /// Makes one relation of FROM.
    fn relation(&mut self, outer: &[Term]) -> (String, Scope) {
        if self.by_key && self.random.chance(85) {
            let keyed: Vec<_> = self.world.tables.iter().filter(|table| table.keyed).cloned().collect();
            let (table, alias) = (self.random.pick(&keyed), self.name("t"));
            let scope = Scope { outer: outer.to_vec(), ..table_scope(&table, &alias) };
            return (format!("{} AS {alias}", table.name), scope);
        }
        let (text, mut scope) = match self.random.below(20) {
            0..3 if self.may_nest() => self.derived(&[], ""),
            3 => self.values(),
            4 => self.series(),
            5..9 if !self.ctes.is_empty() => {
                let (name, kinds) = self.random.pick(&self.ctes);
                let alias = self.name("r");
                (format!("{name} AS {alias}"), columns_scope(&alias, &kinds))
            }
            _ => {
                let table = self.random.pick(&self.world.tables);
                let alias = self.name("t");
                (format!("{} AS {alias}", table.name), table_scope(&table, &alias))
            }
        };
        scope.outer = outer.to_vec();
        (text, scope)
    }

    /// Makes a query as a relation.
    fn derived(&mut self, outer: &[Term], lateral: &str) -> (String, Scope) {
        let kinds = self.kinds(3);
        let query = self.nested(|this| this.query(&kinds, outer, 1));
        let alias = self.name("q");
        (format!("{lateral}({}) AS {alias}", query.text), columns_scope(&alias, &kinds))
    }

    fn values(&mut self) -> (String, Scope) {
        let kinds = self.kinds(3);
        let alias = self.name("v");
        let rows = 1 + self.random.below(4);
        let mut texts = Vec::new();
        for row in 0..rows {
            let cells: Vec<String> = kinds
                .iter()
                .map(|kind| match row {
                    // The first row must fix the types.
                    0 => format!("CAST({} AS {})", kind.literal(&mut self.random), kind.type_name()),
                    _ if self.random.chance(15) => "NULL".to_owned(),
                    _ => kind.literal(&mut self.random),
                })
                .collect();
            texts.push(format!("({})", cells.join(", ")));
        }
        let names: Vec<String> = (1..=kinds.len()).map(|place| format!("c{place}")).collect();
        let text = format!("(VALUES {}) AS {alias} ({})", texts.join(", "), names.join(", "));
        (text, columns_scope(&alias, &kinds))
    }

    fn series(&mut self) -> (String, Scope) {
        let alias = self.name("s");
        let low = self.random.below(3);
        let text = format!("generate_series({low}, {}) AS {alias} (c1)", low + self.random.below(6));
        let mut scope = columns_scope(&alias, &[Kind::Int]);
        scope.unique = Some(vec![format!("{alias}.c1")]);
        (text, scope)
    }

    /// Draws the kinds of one to `most` columns.
    pub fn kinds(&mut self, most: usize) -> Vec<Kind> {
        (0..1 + self.random.below(most)).map(|_| Kind::random(&mut self.random)).collect()
    }
}

/// Returns the scope of a table under `alias`.
pub fn table_scope(table: &crate::world::Table, alias: &str) -> Scope {
    let term = |column: &crate::world::TableColumn| Term {
        text: format!("{alias}.{}", column.name),
        kind: column.kind,
        plain: true,
    };
    let unique = table.unique.then(|| vec![format!("{alias}.{}", table.columns[0].name)]);
    let is_indexed = |column: &&crate::world::TableColumn| table.indexed.contains(&column.name);
    let indexed = table.columns.iter().filter(is_indexed).map(term).collect();
    Scope { own: table.columns.iter().map(term).collect(), unique, indexed, ..Scope::default() }
}

/// Returns the scope of columns `c1`, `c2` and so on under `alias`.
fn columns_scope(alias: &str, kinds: &[Kind]) -> Scope {
    let term =
        |(place, kind): (usize, &Kind)| Term { text: format!("{alias}.c{}", place + 1), kind: *kind, plain: true };
    Scope { own: kinds.iter().enumerate().map(term).collect(), ..Scope::default() }
}

/// Returns the scope of two joined relations. Pairs of unique values are unique, even with the NULLs of an outer join.
fn both(left: &Scope, right: &Scope) -> Scope {
    let unique = match (&left.unique, &right.unique) {
        (Some(left), Some(right)) => Some(left.iter().chain(right).cloned().collect()),
        _ => None,
    };
    let own = left.own.iter().chain(&right.own).cloned().collect();
    let indexed = left.indexed.iter().chain(&right.indexed).cloned().collect();
    Scope { own, outer: left.outer.clone(), unique, indexed, grouped: false }
}
