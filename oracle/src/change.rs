//! Statements that change rows. Each gives one state of the table, whatever the order in which an engine meets the rows.

use crate::from::table_scope;
use crate::generator::Generator;
use crate::kind::Kind;
use crate::world::{Table, row_text, value_text};

/// A statement that changes the rows of one table.
pub struct Change {
    pub table: &'static str,
    pub text: String,
}

/// Ids of rows that changes insert begin here, so that they are new.
const FRESH: u64 = 1_000;

impl Generator<'_> {
    /// Change number `number` of a world.
    pub fn change(&mut self, number: u64) -> Change {
        let table = self.random.pick(&self.world.tables);
        let fresh = FRESH * (number + 1);
        let text = match self.random.below(10) {
            0 => self.insert_values(&table, fresh),
            1 => self.insert_select(&table, fresh),
            2 | 3 if table.keyed => self.upsert(&table, fresh),
            2..4 => self.update_from(&table),
            4..7 => self.update(&table),
            7 | 8 => self.delete(&table),
            _ => self.delete_using(&table),
        };
        let returning = match self.random.chance(30) {
            // Names of the table alone: both engines take them unqualified.
            true => {
                let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
                let is_joined = text.contains(" USING ") || text.contains(" AS changes");
                if is_joined { String::new() } else { format!(" RETURNING {}", names.join(", ")) }
            }
            false => String::new(),
        };
        Change { table: table.name, text: format!("{text}{returning}") }
    }

    fn insert_values(&mut self, table: &Table, fresh: u64) -> String {
        let rows: Vec<String> =
            (0..1 + self.random.below(4)).map(|row| row_text(&mut self.random, table, fresh as usize + row)).collect();
        format!("INSERT INTO {} VALUES {}", table.name, rows.join(", "))
    }

    fn insert_select(&mut self, table: &Table, fresh: u64) -> String {
        let source = self.random.pick(&self.world.tables);
        if !source.unique && table.unique {
            return self.insert_values(table, fresh);
        }
        let scope = table_scope(&source, "o");
        let mut items = Vec::new();
        let mut names = Vec::new();
        for (place, column) in table.columns.iter().enumerate() {
            if place == 0 && table.unique {
                items.push(format!("o.{} + {fresh}", source.columns[0].name));
            } else if self.random.chance(80) {
                items.push(self.assignable(column.kind, column.type_name, &scope));
            } else {
                continue;
            }
            names.push(column.name);
        }
        if names.is_empty() {
            return self.insert_values(table, fresh);
        }
        let condition = self.where_clause(&scope, 70);
        // Ids of rows that earlier changes inserted could meet again.
        let small = if table.unique { format!("o.{} < {FRESH}", source.columns[0].name) } else { "TRUE".to_owned() };
        let condition = match condition.strip_prefix(" WHERE ") {
            Some(condition) => format!("{small} AND ({condition})"),
            None => small,
        };
        format!(
            "INSERT INTO {} ({}) SELECT {} FROM {} AS o WHERE {condition}",
            table.name,
            names.join(", "),
            items.join(", "),
            source.name
        )
    }

    /// An expression of `kind` that a column of `type_name` mostly takes.
    fn assignable(&mut self, kind: Kind, type_name: &str, scope: &crate::scope::Scope) -> String {
        let value = self.expression(kind, scope, 2);
        match type_name {
            "TINYINT" | "SMALLINT" | "INTEGER" => format!("({value}) % 100"),
            "INTEGER UNSIGNED" => format!("abs(({value}) % 100)"),
            "DECIMAL(8, 2)" => format!("CAST({value} AS DECIMAL(18, 4))"),
            _ => value,
        }
    }

    fn upsert(&mut self, table: &Table, fresh: u64) -> String {
        let id = table.columns[0].name;
        let mut rows = Vec::new();
        let first = self.random.below(20);
        for row in 0..1 + self.random.below(4) {
            let number = if self.random.chance(60) { first + row } else { fresh as usize + row };
            rows.push(row_text(&mut self.random, table, number));
        }
        let rows = rows.join(", ");
        if self.random.chance(25) || table.columns.len() < 2 {
            return format!("INSERT INTO {} VALUES {rows} ON CONFLICT ({id}) DO NOTHING", table.name);
        }
        let mut sets = Vec::new();
        for column in table.columns.iter().skip(1) {
            if self.random.chance(50) {
                let name = column.name;
                sets.push(match self.random.below(3) {
                    0 => format!("{name} = {}", value_text(&mut self.random, column)),
                    1 => format!("{name} = excluded.{name}"),
                    _ => format!("{name} = coalesce({}.{name}, excluded.{name})", table.name),
                });
            }
        }
        if sets.is_empty() {
            let name = table.columns[1].name;
            sets.push(format!("{name} = excluded.{name}"));
        }
        let condition = match self.random.chance(30) {
            true => {
                let column = self.random.pick(&table.columns);
                format!(" WHERE {}.{} IS DISTINCT FROM excluded.{}", table.name, column.name, column.name)
            }
            false => String::new(),
        };
        format!(
            "INSERT INTO {} VALUES {rows} ON CONFLICT ({id}) DO UPDATE SET {}{condition}",
            table.name,
            sets.join(", ")
        )
    }

    /// `a = ..., b = ...` with expressions over `scope`.
    fn assignments(&mut self, table: &Table, scope: &crate::scope::Scope) -> String {
        let first = usize::from(table.unique);
        let mut sets: Vec<String> = Vec::new();
        for column in table.columns.iter().skip(first) {
            if self.random.chance(30) || sets.is_empty() {
                let value = self.assignable(column.kind, column.type_name, scope);
                sets.push(format!("{} = {value}", column.name));
            }
        }
        sets.join(", ")
    }

    fn update(&mut self, table: &Table) -> String {
        let scope = table_scope(table, table.name);
        let sets = self.assignments(table, &scope);
        let condition = self.where_clause(&scope, 85);
        format!("UPDATE {} SET {sets}{condition}", table.name)
    }

    /// UPDATE FROM a query with one row for each key.
    fn update_from(&mut self, table: &Table) -> String {
        let kind = self.random.pick(&table.columns).kind;
        let source = self.random.pick(&self.world.tables);
        let source_scope = table_scope(&source, "o");
        let Some(key) = source_scope.of_kind(kind).first().map(|term| term.text.clone()) else {
            return self.update(table);
        };
        let scope = table_scope(table, table.name);
        let target = self.random.pick(&scope.of_kind(kind)).text.clone();
        let extra = Kind::random(&mut self.random);
        let aggregate = self.aggregate(extra, &source_scope);
        let mut both = scope.clone();
        let term = |text: &str, kind| crate::scope::Term { text: text.to_owned(), kind, plain: true };
        both.own.push(term("changes.of", extra));
        both.own.push(term("changes.key", kind));
        both.unique = None;
        let sets = self.assignments(table, &both);
        let condition = match self.random.chance(40) {
            true => format!(" AND {}", self.condition(&both, 1)),
            false => String::new(),
        };
        format!(
            "UPDATE {} SET {sets} FROM (SELECT {key} AS key, {aggregate} AS of FROM {} AS o GROUP BY {key}) AS changes WHERE {target} = \
             changes.key{condition}",
            table.name, source.name
        )
    }

    fn delete(&mut self, table: &Table) -> String {
        let scope = table_scope(table, table.name);
        let condition = self.condition(&scope, 2);
        // A table that lost all its rows has little left to show.
        let share = match table.unique {
            true => format!("{}.{} % 3 = {}", table.name, table.columns[0].name, self.random.below(3)),
            false => "TRUE".to_owned(),
        };
        format!("DELETE FROM {} WHERE {share} AND ({condition})", table.name)
    }

    fn delete_using(&mut self, table: &Table) -> String {
        let source = self.random.pick(&self.world.tables);
        let mut both = table_scope(table, table.name);
        both.own.extend(table_scope(&source, "o").own);
        both.unique = None;
        let kind = self.random.pick(&table.columns).kind;
        let (a, b) = (self.leaf(kind, &table_scope(table, table.name)), self.leaf(kind, &table_scope(&source, "o")));
        let condition = self.condition(&both, 1);
        format!("DELETE FROM {} USING {} AS o WHERE {a} = {b} AND {condition}", table.name, source.name)
    }
}
