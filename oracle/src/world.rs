//! A world: a few small tables with rows, which are the same in every engine.

use crate::kind::Kind;
use crate::random::Random;

/// A column of a table.
#[derive(Clone, Debug)]
pub struct TableColumn {
    pub name: &'static str,
    pub kind: Kind,
    pub type_name: &'static str,
    pub nullable: bool,
}

/// Names that tables share. A name has the same type everywhere, so that USING and NATURAL find columns to join by.
const POOL: [(&str, Kind, &str); 13] = [
    ("k", Kind::Int, "INTEGER"),
    ("g", Kind::Int, "SMALLINT"),
    ("big", Kind::Int, "BIGINT"),
    ("tiny", Kind::Int, "TINYINT"),
    ("ui", Kind::Int, "INTEGER UNSIGNED"),
    ("am", Kind::Decimal, "DECIMAL(8, 2)"),
    ("wide", Kind::Decimal, "DECIMAL(20, 4)"),
    ("x", Kind::Double, "DOUBLE"),
    ("s", Kind::Text, "TEXT"),
    ("w", Kind::Text, "VARCHAR"),
    ("dt", Kind::Date, "DATE"),
    ("ts", Kind::Timestamp, "TIMESTAMP"),
    ("f", Kind::Bool, "BOOLEAN"),
];

/// A table, and the statements that make it in each engine.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: &'static str,
    /// The columns. If `unique` is set, the first one is `id...`, unique and not NULL.
    pub columns: Vec<TableColumn>,
    pub unique: bool,
    pub keyed: bool,
    /// The columns that an index of Rowmill begins with, including the id of a keyed table.
    pub indexed: Vec<&'static str>,
    /// The statements that make the table and its rows: for all engines, only for Rowmill, or only for the others.
    pub statements: Vec<Setup>,
}

/// A statement of a table's definition.
#[derive(Clone, Debug)]
pub enum Setup {
    Both(String),
    Rowmill(String),
    Oracle(String),
}

/// The tables that belong to one seed.
#[derive(Clone, Debug)]
pub struct World {
    pub seed: u64,
    pub tables: Vec<Table>,
    /// Settings of Rowmill. Answers must not depend on them.
    pub settings: Vec<String>,
}

const NAMES: [(&str, &str); 4] = [("ta", "ida"), ("tb", "idb"), ("tc", "idc"), ("td", "idd")];

impl World {
    /// Makes the tables of `seed`.
    pub fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let mut tables: Vec<Table> = NAMES.iter().map(|(name, id)| table(&mut random, name, id)).collect();
        tables.push(bag(&mut random));
        let settings = vec![
            format!("SET rows_per_block = {}", random.pick(&[3, 10, 512, 524_288])),
            format!("SET threads = {}", 1 + random.below(3)),
            format!("SET batch_rows = {}", random.pick(&[3, 7, 100, 8192])),
        ];
        World { seed, tables, settings }
    }
}

impl World {
    /// Prints the statements that make the tables in Rowmill.
    pub fn print(&self) {
        let statements = self.tables.iter().flat_map(|table| &table.statements);
        let statements = statements.filter_map(|setup| match setup {
            Setup::Both(sql) | Setup::Rowmill(sql) => Some(sql),
            Setup::Oracle(_) => None,
        });
        for sql in self.settings.iter().chain(statements) {
            println!("{sql};");
        }
    }
}

/// Makes a table without any key. Its rows may occur twice.
fn bag(random: &mut Random) -> Table {
    let count = 2 + random.below(3);
    let columns = columns(random, count);
    let mut table =
        Table { name: "bag", columns, unique: false, keyed: false, indexed: Vec::new(), statements: Vec::new() };
    define(random, &mut table, "", 12);
    table
}

fn columns(random: &mut Random, count: usize) -> Vec<TableColumn> {
    let mut left = count;
    let mut columns = Vec::new();
    for (index, (name, kind, type_name)) in POOL.iter().enumerate() {
        if left > 0 && random.below(POOL.len() - index) < left {
            columns.push(TableColumn { name, kind: *kind, type_name, nullable: true });
            left -= 1;
        }
    }
    columns
}

fn table(random: &mut Random, name: &'static str, id: &'static str) -> Table {
    let keyed = random.chance(50);
    let type_name = random.pick(&["INTEGER", "BIGINT"]);
    let mut all = vec![TableColumn { name: id, kind: Kind::Int, type_name, nullable: false }];
    let count = 4 + random.below(7);
    all.extend(columns(random, count));
    let mut table = Table { name, columns: all, unique: true, keyed, indexed: Vec::new(), statements: Vec::new() };
    let rows = random.pick(&[0, 1, 5, 12, 12, 20, 25, 25, 25, 60]);
    define(random, &mut table, if keyed { id } else { "" }, rows);
    table
}

/// Adds the statements that make `table` with about `count` rows.
fn define(random: &mut Random, table: &mut Table, key: &str, count: usize) {
    let first = match table.keyed && random.chance(30) {
        true => Some(1 + random.below(table.columns.len() - 1)),
        false => None,
    };
    if let Some(first) = first {
        table.columns[first].nullable = false;
    }
    let definitions: Vec<String> = table
        .columns
        .iter()
        .map(|column| format!("{} {}{}", column.name, column.type_name, if column.nullable { "" } else { " NOT NULL" }))
        .collect();
    let plain = definitions.join(", ");
    let name = table.name;
    if table.keyed {
        // Rowmill's key is the id, alone or after another column. The other engines treat the id as unique in both
        // cases.
        let simple = format!("CREATE TABLE {name} ({plain}, PRIMARY KEY ({key}))");
        match first {
            Some(first) => {
                let first = table.columns[first].name;
                let composed = format!("CREATE TABLE {name} ({plain}, PRIMARY KEY ({first}, {key}), UNIQUE ({key}))");
                table.statements.push(Setup::Rowmill(composed));
                table.statements.push(Setup::Oracle(simple));
                table.indexed.push(first);
            }
            None if random.chance(20) => {
                let backward = format!("CREATE TABLE {name} ({plain}, PRIMARY KEY ({key} DESC))");
                table.statements.push(Setup::Rowmill(backward));
                table.statements.push(Setup::Oracle(simple));
            }
            None => table.statements.push(Setup::Both(simple)),
        }
        table.indexed.push(table.columns[0].name);
        for column in table.columns.clone().iter().skip(1) {
            if random.chance(25) {
                let second = match random.chance(30) {
                    true => format!(", {}{}", key, random.pick(&["", " DESC"])),
                    false => String::new(),
                };
                let index = format!("CREATE INDEX {name}_{} ON {name} ({}{second})", column.name, column.name);
                table.statements.push(Setup::Rowmill(index));
                table.indexed.push(column.name);
            }
        }
    } else {
        table.statements.push(Setup::Both(format!("CREATE TABLE {name} ({plain})")));
    }
    let mut row = 0;
    while row < count {
        let here = (1 + random.below(count)).min(count - row);
        let rows: Vec<String> = (row..row + here).map(|number| row_text(random, table, number)).collect();
        table.statements.push(Setup::Both(format!("INSERT INTO {name} VALUES {}", rows.join(", "))));
        row += here;
        match random.below(8) {
            0 => table.statements.push(Setup::Rowmill("CHECKPOINT".to_owned())),
            1 if table.keyed => table.statements.push(Setup::Rowmill(format!("ANALYZE {name}"))),
            _ => {}
        }
    }
}

/// Makes one row of `table` in the form of VALUES.
pub fn row_text(random: &mut Random, table: &Table, number: usize) -> String {
    let mut values: Vec<String> = Vec::new();
    for (place, column) in table.columns.iter().enumerate() {
        values.push(match (place, table.unique) {
            (0, true) => number.to_string(),
            _ => value_text(random, column),
        });
    }
    format!("({})", values.join(", "))
}

/// Makes a value that fits `column`.
pub fn value_text(random: &mut Random, column: &TableColumn) -> String {
    match random.below(6) {
        0 if column.nullable => "NULL".to_owned(),
        _ if column.name == "ui" => random.below(6).to_string(),
        _ if column.name == "tiny" => (random.below(9) as i64 - 3).to_string(),
        _ => column.kind.literal(random),
    }
}
