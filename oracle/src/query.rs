//! Generates queries: WITH, set operations, ORDER BY and LIMIT around SELECT.

use crate::generator::{Generator, Query};
use crate::kind::Kind;
use crate::scope::{Scope, Term};

impl Generator<'_> {
    /// Makes the query of a whole statement.
    pub fn statement(&mut self) -> Query {
        let kinds = self.kinds(4);
        self.query(&kinds, &[], 3)
    }

    /// Makes a query with columns `c1`, `c2` and so on of `kinds`. Each SELECT joins up to `most` relations.
    pub fn query(&mut self, kinds: &[Kind], outer: &[Term], most: usize) -> Query {
        let before = self.ctes.len();
        let with = match self.random.chance(12) && self.may_nest() {
            true => self.with(outer),
            false => String::new(),
        };
        let (body, is_select) = match self.random.below(12) {
            0 | 1 => (self.set_operation(kinds, outer, most), false),
            2 if kinds.len() > 1 => (self.distinct_on(kinds, outer), false),
            _ => (self.select(kinds, outer, most), true),
        };
        self.ctes.truncate(before);
        // DISTINCT ON needs an order of its own.
        let may_order = is_select || !body.contains("DISTINCT ON");
        // We avoid an order here, because DuckDB 2.0.0 gives no total over no rows in a correlated query with an order.
        let is_total = body.contains(" GROUP BY ()") || body.contains(" HAVING count(*) >= 0");
        let may_order = may_order && (outer.is_empty() || !is_total);
        if !may_order || !self.random.chance(45) {
            return Query { text: format!("{with}{body}"), ordered: false };
        }
        let mut places: Vec<usize> = (1..=kinds.len()).collect();
        if self.random.chance(50) {
            places.reverse();
        }
        let keys: Vec<String> = places.iter().map(|place| format!("{place}{}", self.direction())).collect();
        let limit = match self.random.below(6) {
            0 => format!(" LIMIT {}", self.random.below(6)),
            1 => format!(" LIMIT {} OFFSET {}", 1 + self.random.below(10), self.random.below(4)),
            2 => format!(" OFFSET {}", self.random.below(4)),
            _ => String::new(),
        };
        Query { text: format!("{with}{body} ORDER BY {}{limit}", keys.join(", ")), ordered: true }
    }

    fn set_operation(&mut self, kinds: &[Kind], outer: &[Term], most: usize) -> String {
        let mut text = self.select(kinds, outer, most.min(2));
        for _ in 0..1 + self.random.below(2) {
            let all = ["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"];
            let operator = self.random.pick(&all);
            let next = self.select(kinds, outer, most.min(2));
            text = match self.random.chance(30) && text.starts_with("SELECT") {
                true => format!("({text}) {operator} ({next})"),
                false => format!("{text} {operator} {next}"),
            };
        }
        text
    }

    /// Makes the definitions of WITH. The rest of the query may name them.
    fn with(&mut self, outer: &[Term]) -> String {
        let mut texts = Vec::new();
        let mut recursive = "";
        for _ in 0..1 + self.random.below(2) {
            let name = self.name("w");
            if self.random.chance(25) {
                recursive = "RECURSIVE ";
                texts.push(self.recursive(&name));
                self.ctes.push((name, vec![Kind::Int, Kind::Int]));
                continue;
            }
            let kinds = self.kinds(3);
            let query = self.nested(|this| {
                let outer = if this.random.chance(40) { outer } else { &[] };
                this.query(&kinds, outer, 2)
            });
            let materialized = self.random.pick(&["", "", "", "MATERIALIZED ", "NOT MATERIALIZED "]);
            texts.push(format!("{name} AS {materialized}({})", query.text));
            self.ctes.push((name, kinds));
        }
        format!("WITH {recursive}{} ", texts.join(", "))
    }

    /// Makes a recursive definition. A bound on its second column ends the recursion.
    fn recursive(&mut self, name: &str) -> String {
        let union = self.random.pick(&["UNION", "UNION ALL"]);
        let bound = 1 + self.random.below(3);
        let (from, scope) = self.flat(|this| this.from(&[], 1));
        let start = self.flat(|this| this.leaf(Kind::Int, &scope));
        let condition = self.flat(|this| this.where_clause(&scope, 60));
        let table = self.random.pick(&self.world.tables);
        let alias = self.name("t");
        let inner = crate::from::table_scope(&table, &alias);
        let next = self.flat(|this| this.leaf(Kind::Int, &inner));
        let step = match self.random.below(3) {
            0 => format!("SELECT r.c1 + 1, r.c2 + 1 FROM {name} AS r WHERE r.c2 < {bound}"),
            1 => format!(
                "SELECT {next}, r.c2 + 1 FROM {name} AS r JOIN {} AS {alias} ON {} = r.c1 WHERE r.c2 < {bound}",
                table.name,
                self.flat(|this| this.leaf(Kind::Int, &inner)),
            ),
            _ => format!(
                "SELECT r.c1 - 1, r.c2 + 1 FROM {name} AS r WHERE r.c2 < {bound} AND EXISTS (SELECT 1 FROM {} AS \
                 {alias} WHERE \
                 {next} >= r.c1)",
                table.name
            ),
        };
        format!(
            "{name} (c1, c2) AS (SELECT CAST({start} AS BIGINT) AS c1, CAST(0 AS BIGINT) AS c2 FROM {from}{condition} \
             {union} {step})"
        )
    }

    /// Makes a DISTINCT ON in a total order, so that the chosen rows are defined.
    fn distinct_on(&mut self, kinds: &[Kind], outer: &[Term]) -> String {
        let (from, scope) = self.from(outer, 1);
        let Some(unique) = scope.unique.clone() else { return self.select(kinds, outer, 1) };
        let condition = self.where_clause(&scope, 50);
        let term = self.random.pick(&scope.own).text;
        let order = format!("{term}{}, {}", self.direction(), self.total_order(&scope, &unique));
        let items = self.items(kinds, &scope);
        format!("SELECT DISTINCT ON ({term}) {items} FROM {from}{condition} ORDER BY {order}")
    }

    /// Makes items of `kinds`, named `c1`, `c2` and so on.
    pub fn items(&mut self, kinds: &[Kind], scope: &Scope) -> String {
        let mut texts: Vec<String> = Vec::new();
        for (place, kind) in kinds.iter().enumerate() {
            let depth = self.random.below(3);
            // Sometimes we give one value two names.
            let again = kinds[..place].iter().position(|other| other == kind).filter(|_| self.random.chance(12));
            texts.push(match again {
                Some(other) => texts[other].clone(),
                None => self.expression(*kind, scope, depth),
            });
        }
        let named = texts.iter().enumerate().map(|(place, text)| format!("{text} AS c{}", place + 1));
        named.collect::<Vec<_>>().join(", ")
    }
}
