//! Statements that change rows. Each must give one defined state of the table, in whatever order an engine processes
//! the rows.

use crate::from::table_scope;
use crate::generator::Generator;
use crate::kind::Kind;
use crate::world::{Table, row_text, value_text};

/// A statement that changes the rows of one table.
pub struct Change {
    pub table: &'static str,
    pub text: String,
}

/// The ids of rows that changes insert begin here, so that they are new.
const FRESH: u64 = 1_000;

impl Generator<'_> {
    /// Makes change number `number` of a world.
    pub fn change(&mut self, number: u64) -> Change {
        let table = self.random.pick(&self.world.tables);
        let fresh = FRESH * (number + 1);
        let text = match self.random.below(11) {
            0 => self.insert_values(&table, fresh),
            1 => self.insert_select(&table, fresh),
            2 if table.keyed => self.upsert(&table, fresh),
            3 if table.keyed => self.upsert_select(&table, fresh),
            2 | 3 => self.update_from(&table),
            4 if table.unique => self.merge(&table, fresh),
            4 => self.update_from(&table),
            5 if self.random.chance(50) => self.update_joined(&table),
            5..8 => self.update(&table),
            8 => self.delete(&table),
            _ => self.delete_using(&table),
        };
        let returning = match self.random.chance(30) {
            // We use only unqualified names of the table itself, because both engines accept them.
            true => {
                let mut names: Vec<String> = table.columns.iter().map(|column| column.name.to_owned()).collect();
                let is_joined = text.contains(" USING ") || text.contains(" AS changes") || text.contains(" FROM ");
                if self.random.chance(50) {
                    let term = |column: &crate::world::TableColumn| crate::scope::Term {
                        text: column.name.to_owned(),
                        kind: column.kind,
                        plain: true,
                    };
                    let own = table.columns.iter().map(term).collect();
                    let scope = crate::scope::Scope { own, ..Default::default() };
                    let kind = Kind::random(&mut self.random);
                    names.push(self.flat(|this| this.expression(kind, &scope, 2)));
                }
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
        // Rows that earlier changes inserted could give the same new ids again, so we read only the rows with original
        // ids.
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

    /// Makes an INSERT from a query with ON CONFLICT. The query's ids must all be different, so that no row conflicts
    /// twice.
    fn upsert_select(&mut self, table: &Table, fresh: u64) -> String {
        let source = self.random.pick(&self.world.tables);
        if !source.unique {
            return self.upsert(table, fresh);
        }
        let id = table.columns[0].name;
        let scope = table_scope(&source, "o");
        let of_source = source.columns[0].name;
        let mut items = vec![match self.random.chance(70) {
            true => format!("o.{of_source}"),
            false => format!("CASE WHEN o.{of_source} % 2 = 0 THEN o.{of_source} ELSE o.{of_source} + {fresh} END"),
        }];
        for column in &table.columns[1..] {
            items.push(self.assignable(column.kind, column.type_name, &scope));
        }
        let small = format!("o.{of_source} < {FRESH}");
        let condition = match self.random.chance(60) {
            true => format!("{small} AND ({})", self.condition(&scope, 1)),
            false => small,
        };
        let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        let action = self.conflict_action(table);
        format!(
            "INSERT INTO {} ({}) SELECT {} FROM {} AS o WHERE {condition} ON CONFLICT ({id}) {action}",
            table.name,
            names.join(", "),
            items.join(", "),
            source.name
        )
    }

    /// Makes a MERGE whose source has each id once.
    fn merge(&mut self, table: &Table, fresh: u64) -> String {
        let unique: Vec<_> = self.world.tables.iter().filter(|table| table.unique).cloned().collect();
        let source = self.random.pick(&unique);
        let (id, of_source) = (table.columns[0].name, source.columns[0].name);
        let target = table_scope(table, table.name);
        let rows = table_scope(&source, "o");
        let mut both = target.clone();
        both.own.extend(rows.own.clone());
        both.unique = None;
        let mut clauses = Vec::new();
        let extra = |this: &mut Self, scope: &crate::scope::Scope| match this.random.chance(60) {
            true => format!(" AND {}", this.flat(|this| this.condition(scope, 1))),
            false => String::new(),
        };
        for _ in 0..self.random.below(3) {
            let condition = extra(self, &both);
            let action = match self.random.below(3) {
                0 => "DELETE".to_owned(),
                _ => format!("UPDATE SET {}", self.flat(|this| this.assignments(table, &both))),
            };
            clauses.push(format!("WHEN MATCHED{condition} THEN {action}"));
        }
        if clauses.is_empty() || self.random.chance(60) {
            let condition = extra(self, &rows);
            let values: Vec<String> = table.columns[1..]
                .iter()
                .map(|column| self.flat(|this| this.assignable(column.kind, column.type_name, &rows)))
                .collect();
            let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
            let comma = if values.is_empty() { "" } else { ", " };
            clauses.push(format!(
                "WHEN NOT MATCHED AND o.{of_source} < {FRESH}{condition} THEN INSERT ({}) VALUES (o.{of_source} + \
                 {fresh}{comma}{})",
                names.join(", "),
                values.join(", ")
            ));
        }
        if self.random.chance(30) {
            let condition = extra(self, &target);
            let action = match self.random.below(2) {
                0 => "DELETE".to_owned(),
                _ => format!("UPDATE SET {}", self.flat(|this| this.assignments(table, &target))),
            };
            clauses.push(format!("WHEN NOT MATCHED BY SOURCE{condition} THEN {action}"));
        }
        let more = match self.random.chance(25) {
            true => format!(" AND {}", self.flat(|this| this.condition(&both, 0))),
            false => String::new(),
        };
        format!(
            "MERGE INTO {} USING {} AS o ON {}.{id} = o.{of_source}{more} {}",
            table.name,
            source.name,
            table.name,
            clauses.join(" ")
        )
    }

    /// Makes an UPDATE ... FROM in which each row meets at most one row of the other table.
    fn update_joined(&mut self, table: &Table) -> String {
        let unique: Vec<_> = self.world.tables.iter().filter(|table| table.unique).cloned().collect();
        let source = self.random.pick(&unique);
        let of_source = source.columns[0].name;
        let scope = table_scope(table, table.name);
        let key = self.flat(|this| this.leaf(Kind::Int, &scope));
        let mut both = scope.clone();
        both.own.extend(table_scope(&source, "o").own);
        both.unique = None;
        let sets = self.assignments(table, &both);
        let condition = match self.random.chance(50) {
            true => format!(" AND {}", self.condition(&both, 1)),
            false => String::new(),
        };
        format!("UPDATE {} SET {sets} FROM {} AS o WHERE o.{of_source} = {key}{condition}", table.name, source.name)
    }

    /// Makes an expression of `kind` that usually fits a column of `type_name`.
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
        format!("INSERT INTO {} VALUES {rows} ON CONFLICT ({id}) {}", table.name, self.conflict_action(table))
    }

    /// Makes the action for a row that exists already.
    fn conflict_action(&mut self, table: &Table) -> String {
        if self.random.chance(25) || table.columns.len() < 2 {
            return "DO NOTHING".to_owned();
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
        format!("DO UPDATE SET {}{condition}", sets.join(", "))
    }

    /// Makes assignments `a = ..., b = ...` with expressions over `scope`.
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

    /// Makes an UPDATE FROM a query with one row for each key, so that each row meets at most one.
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
            "UPDATE {} SET {sets} FROM (SELECT {key} AS key, {aggregate} AS of FROM {} AS o GROUP BY {key}) AS \
             changes WHERE {target} = \
             changes.key{condition}",
            table.name, source.name
        )
    }

    fn delete(&mut self, table: &Table) -> String {
        let scope = table_scope(table, table.name);
        if self.by_key && table.keyed {
            let condition = self.where_clause(&scope, 60);
            return format!("DELETE FROM {}{condition}", table.name);
        }
        let condition = self.condition(&scope, 2);
        // We delete at most a third of the rows, because an empty table would show no differences.
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
