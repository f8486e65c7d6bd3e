//! Generates SELECT: plain, grouped, with windows, QUALIFY and DISTINCT.

use crate::generator::Generator;
use crate::kind::Kind;
use crate::scope::{Scope, Term};

impl Generator<'_> {
    /// Makes a SELECT with columns of `kinds` over up to `most` relations.
    pub fn select(&mut self, kinds: &[Kind], outer: &[Term], most: usize) -> String {
        if self.random.chance(2) {
            let scope = Scope { outer: outer.to_vec(), ..Scope::default() };
            return format!("SELECT {}", self.items(kinds, &scope));
        }
        let (from, rows) = self.from(outer, most);
        let condition = self.where_clause(&rows, 60);
        let (scope, group) = match self.random.below(10) {
            0..3 => self.grouped(&rows),
            3 => self.grouped_to_one(&rows, kinds),
            _ => (rows, String::new()),
        };
        let having = match scope.grouped && self.random.chance(30) {
            true => format!(" HAVING {}", self.condition(&scope, 1)),
            false => String::new(),
        };
        let (scope, windows, qualify) = match self.random.chance(18) {
            true => self.windowed(scope, kinds),
            false => (scope, String::new(), String::new()),
        };
        let distinct = if self.random.chance(12) { "DISTINCT " } else { "" };
        let items = self.items(kinds, &scope);
        format!("SELECT {distinct}{items} FROM {from}{condition}{group}{having}{windows}{qualify}")
    }

    /// Groups the rows of `rows` by one to three keys.
    fn grouped(&mut self, rows: &Scope) -> (Scope, String) {
        let mut keys: Vec<Term> = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let key = self.group_key(rows);
            if keys.iter().all(|other| other.text != key.text) {
                keys.push(key);
            }
        }
        let texts: Vec<String> = keys.iter().map(|key| key.text.clone()).collect();
        let all = texts.join(", ");
        // We avoid grouping sets in correlated subqueries, because DuckDB 2.0.0 gives no total over no rows there.
        let kinds = if rows.outer.is_empty() { 0 } else { 3 };
        let (group, is_plain) = match kinds + self.random.below(10 - kinds) {
            0 => (format!("ROLLUP ({all})"), false),
            1 => (format!("CUBE ({all})"), false),
            2 => (format!("GROUPING SETS (({all}), ({}), ())", texts[0]), false),
            3 => (format!("GROUPING SETS (({all}), ({}))", texts[texts.len() - 1]), false),
            _ => (all, true),
        };
        let mut own = keys;
        if !is_plain && self.random.chance(50) {
            own.push(Term { text: format!("grouping({})", texts[0]), kind: Kind::Int, plain: false });
        }
        let kinds = [Kind::Int, Kind::random(&mut self.random), Kind::random(&mut self.random)];
        self.add_aggregates(&mut own, &kinds, rows);
        let unique = is_plain.then(|| texts.clone());
        (
            Scope { own, outer: rows.outer.clone(), unique, indexed: Vec::new(), grouped: true },
            format!(" GROUP BY {group}"),
        )
    }

    /// Makes aggregates without GROUP BY.
    fn grouped_to_one(&mut self, rows: &Scope, kinds: &[Kind]) -> (Scope, String) {
        let mut own = Vec::new();
        let mut all = kinds.to_vec();
        all.push(Kind::Int);
        self.add_aggregates(&mut own, &all, rows);
        // The clause makes sure that the SELECT is grouped, even if no item is an aggregate.
        let group = if self.random.chance(20) { " GROUP BY ()" } else { " HAVING count(*) >= 0" };
        let scope = Scope { own, outer: rows.outer.clone(), ..Scope::default() };
        (scope, group.to_owned())
    }

    fn add_aggregates(&mut self, own: &mut Vec<Term>, kinds: &[Kind], rows: &Scope) {
        for kind in kinds {
            let text = self.aggregate(*kind, &rows.alone());
            own.push(Term { text, kind: *kind, plain: false });
        }
    }

    /// Makes a column of the SELECT, or an expression that names one, because a bare number would be a position.
    fn group_key(&mut self, rows: &Scope) -> Term {
        let column = self.random.pick(&rows.own);
        if self.random.chance(70) {
            return column;
        }
        let kind = column.kind;
        let scope = Scope { own: vec![column.clone()], ..Scope::default() };
        let text = self.flat(|this| this.expression(kind, &scope, 1));
        match text.contains(&column.text) && text != column.text {
            true => Term { text: format!("({text})"), kind, plain: false },
            false => column,
        }
    }

    /// Adds window calls to the terms of the items, and sometimes a condition on one of them.
    fn windowed(&mut self, scope: Scope, kinds: &[Kind]) -> (Scope, String, String) {
        let named = self.random.chance(25).then(|| self.name("n"));
        let windows = match &named {
            Some(name) => {
                let term = self.random.pick(&scope.own).text;
                format!(" WINDOW {name} AS (PARTITION BY {term})")
            }
            None => String::new(),
        };
        let mut calls = Vec::new();
        for _ in 0..1 + self.random.below(2) {
            let kind = self.random.pick(kinds);
            let text = self.window_call(kind, &scope, named.as_deref());
            calls.push(Term { text, kind, plain: false });
        }
        let qualify = match self.random.chance(30) {
            true => {
                let with = Scope { own: scope.own.iter().chain(&calls).cloned().collect(), ..scope.clone() };
                let call = self.random.pick(&calls);
                let other = self.flat(|this| this.leaf(call.kind, &with));
                let operator = self.random.pick(&["<=", ">", "=", "IS DISTINCT FROM"]);
                format!(" QUALIFY {} {operator} {other}", call.text)
            }
            false => String::new(),
        };
        // We add the calls twice, so that they are drawn more often than columns.
        let own = scope.own.iter().chain(&calls).chain(&calls).cloned().collect();
        (Scope { own, unique: None, ..scope }, windows, qualify)
    }
}
