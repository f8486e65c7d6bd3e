//! A random history of tables and columns that come and go, with their rows, against a model in memory: transactions
//! that commit or not, loaded blocks, deletes, truncation, savepoints, merges in the background, checkpoints, old
//! snapshots and reopening.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Int64Type};
use rowmill_base::{ColumnId, Result, SqlType, TableId};
use rowmill_storage::BlockSource;
use rowmill_txn::{ColumnSpec, Engine, MAIN_SCHEMA, Snapshot, TableSource, Transaction};

use crate::history::{World, live, of_seeds};
use crate::support::{Dice, LiveRow, open, walk};

/// A value as text.
type Value = Option<String>;

/// The columns after the first, and the rows by the number in the first.
#[derive(Clone, Debug, Default, PartialEq)]
struct TableModel {
    name: String,
    columns: Vec<(ColumnId, SqlType)>,
    rows: BTreeMap<i64, Vec<Value>>,
}

type Model = BTreeMap<TableId, TableModel>;

const TABLES_MAX: usize = 4;
const COLUMNS_MAX: usize = 5;

struct Tables {
    engine: Arc<Engine>,
    model: Model,
    /// For names and numbers that were never used.
    next: i64,
}

fn array(kind: &SqlType, values: &[Value]) -> ArrayRef {
    match kind {
        SqlType::Int64 => {
            let number = |text: &String| text.parse::<i64>().expect("a number");
            Arc::new(values.iter().map(|value| value.as_ref().map(number)).collect::<Int64Array>())
        }
        _ => Arc::new(values.iter().cloned().collect::<StringViewArray>()),
    }
}

fn texts(values: &ArrayRef) -> Vec<Value> {
    let at = |row: usize| {
        values.is_valid(row).then(|| match values.data_type() {
            DataType::Int64 => values.as_primitive::<Int64Type>().value(row).to_string(),
            _ => values.as_string_view().value(row).to_owned(),
        })
    };
    (0..values.len()).map(at).collect()
}

/// One of a few names, so that those of tables that are gone are taken again.
fn free_name(model: &Model, number: i64, dice: &mut Dice) -> String {
    let name = format!("T{}", dice.roll(8));
    match model.values().any(|table| table.name == name) {
        true => format!("T{}", number + 8),
        false => name,
    }
}

struct Load(Vec<ArrayRef>);

impl BlockSource for Load {
    fn rows(&self) -> usize {
        self.0[0].len()
    }

    fn column(&self, index: usize) -> Result<ArrayRef> {
        Ok(Arc::clone(&self.0[index]))
    }
}

impl Tables {
    fn new_number(&mut self) -> i64 {
        self.next += 1;
        self.next
    }

    fn kind(dice: &mut Dice) -> SqlType {
        if dice.roll(2) == 0 { SqlType::Int64 } else { SqlType::TEXT }
    }

    fn value(dice: &mut Dice) -> Value {
        (dice.roll(4) > 0).then(|| dice.roll(30).to_string())
    }

    /// One change, by the transaction and by the model.
    fn change(&mut self, transaction: &mut Transaction, model: &mut Model, dice: &mut Dice) {
        if model.is_empty() || (model.len() < TABLES_MAX && dice.roll(12) == 0) {
            let name = free_name(model, self.new_number(), dice);
            let mut table = TableModel { name, ..TableModel::default() };
            let mut specs = vec![ColumnSpec::new("Key", SqlType::Int64)];
            specs[0].nullable = false;
            for id in 1..=dice.roll(3) as u32 {
                let kind = Tables::kind(dice);
                specs.push(ColumnSpec::new(format!("First{id}"), kind.clone()));
                table.columns.push((ColumnId(id), kind));
            }
            let main = transaction.base().catalog().schema(MAIN_SCHEMA).expect("always there").id;
            let id = transaction.create_table(main, &table.name, specs).expect("a new table");
            model.insert(id, table);
            return;
        }
        let id = *model.keys().nth(dice.roll(model.len() as u64) as usize).expect("one of them");
        let number = self.new_number();
        let name = free_name(model, number, dice);
        let table = model.get_mut(&id).expect("one of them");
        match dice.roll(24) {
            0 => {
                transaction.drop_table(id).expect("dropped");
                model.remove(&id);
            }
            1 => {
                transaction.rename_table(id, &name).expect("renamed");
                table.name = name;
            }
            2 | 3 if table.columns.len() < COLUMNS_MAX => {
                let (kind, missing) = (Tables::kind(dice), Tables::value(dice));
                let mut spec = ColumnSpec::new(format!("C{number}"), kind.clone());
                spec.missing = missing.is_some().then(|| array(&kind, std::slice::from_ref(&missing)));
                table.columns.push((transaction.add_column(id, spec).expect("added"), kind));
                table.rows.values_mut().for_each(|row| row.push(missing.clone()));
            }
            4 if !table.columns.is_empty() => {
                let place = dice.roll(table.columns.len() as u64) as usize;
                transaction.drop_column(id, table.columns.remove(place).0).expect("dropped");
                table.rows.values_mut().for_each(|row| drop(row.remove(place)));
            }
            5 if !table.columns.is_empty() => {
                let (column, _) = table.columns[dice.roll(table.columns.len() as u64) as usize];
                transaction.rename_column(id, column, &format!("C{number}")).expect("renamed");
            }
            6 => {
                let rows = transaction.truncate(id).expect("truncated");
                assert_eq!(rows as usize, table.rows.len());
                table.rows.clear();
            }
            7..=11 => {
                let share = dice.roll(6) as i64 + 1;
                let view = transaction.view().expect("a view");
                let gone = |key: i64| (key + number) % share == 0;
                let numbers: Vec<u64> =
                    read(&view, id).into_iter().filter(|(_, key, _)| gone(*key)).map(|(number, ..)| number).collect();
                let deleted = transaction.delete(id, &numbers).expect("deleted");
                table.rows.retain(|key, _| !gone(*key));
                assert_eq!(deleted as usize, numbers.len());
            }
            kind => {
                let count = [1, 1, 3, 20, 90, 200][dice.roll(6) as usize];
                self.next += count;
                let rows: BTreeMap<i64, Vec<Value>> = (number..number + count)
                    .map(|key| (key, table.columns.iter().map(|_| Tables::value(dice)).collect()))
                    .collect();
                let mut columns: Vec<ArrayRef> = vec![Arc::new(rows.keys().copied().collect::<Int64Array>())];
                for (place, (_, kind)) in table.columns.iter().enumerate() {
                    let values: Vec<Value> = rows.values().map(|row| row[place].clone()).collect();
                    columns.push(array(kind, &values));
                }
                table.rows.extend(rows);
                if kind == 12 {
                    transaction.insert_block(id, &Load(columns)).expect("loaded");
                    return;
                }
                let def = transaction.view().expect("a view").table(id).expect("the table").table().arrow_schema();
                let batch = RecordBatch::try_new(def, columns).expect("columns of the table");
                transaction.insert(id, &batch).expect("inserted");
            }
        }
    }
}

impl World for Tables {
    type State = Model;

    fn step(&mut self, dice: &mut Dice) {
        let mut transaction = self.engine.begin().expect("a transaction");
        let mut model = self.model.clone();
        for _ in 0..=dice.roll(4) {
            let (before, savepoint) = (model.clone(), transaction.savepoint());
            self.change(&mut transaction, &mut model, dice);
            if dice.roll(6) == 0 {
                transaction.rollback_to(&savepoint);
                model = before;
            }
            assert_eq!(state(&transaction.view().expect("a view")), model, "a transaction sees its own changes");
        }
        if dice.roll(4) == 0 {
            transaction.rollback();
        } else {
            transaction.commit().expect("committed");
            self.model = model;
        }
    }

    fn model(&self) -> &Model {
        &self.model
    }

    fn check(&self, snapshot: &Snapshot, expected: &Model) {
        assert_eq!(&state(snapshot), expected);
    }

    fn engine(&mut self) -> &mut Arc<Engine> {
        &mut self.engine
    }
}

/// The live rows of a table with their numbers: the key and the other values.
fn read(snapshot: &Snapshot, id: TableId) -> Vec<(u64, i64, Vec<Value>)> {
    let mut rows = Vec::new();
    let read = walk(snapshot, id, &mut |columns, live| {
        let keys = plain(&columns[0]);
        let keys = keys.as_primitive::<Int64Type>();
        let values: Vec<Vec<Value>> = columns[1..].iter().map(|values| texts(&plain(values))).collect();
        let row =
            |(row, number): &LiveRow| (*number, keys.value(*row), values.iter().map(|of| of[*row].clone()).collect());
        rows.extend(live.iter().map(row));
    });
    read.expect("the table is read");
    rows
}

/// Values that are no dictionary.
fn plain(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Dictionary(_, kind) => arrow::compute::cast(values, kind).expect("its values"),
        _ => concat(&[&**values]).expect("one part"),
    }
}

/// All that a snapshot has.
fn state(snapshot: &Snapshot) -> Model {
    let tables = snapshot.catalog().all_tables().map(|def| {
        let rows = read(snapshot, def.id);
        let numbers = rows.len();
        let rows: BTreeMap<i64, Vec<Value>> = rows.into_iter().map(|(_, key, values)| (key, values)).collect();
        assert_eq!(rows.len(), numbers, "each row is there once");
        let columns = def.columns[1..].iter().map(|column| (column.id, column.kind.clone())).collect();
        (def.id, TableModel { name: def.name.clone(), columns, rows })
    });
    tables.collect()
}

#[test]
fn histories_of_definitions_agree_with_the_model_through_reopenings() {
    of_seeds(1, 4, |seed, rows_per_block, path| {
        let engine = open(path, rows_per_block);
        let mut world = Tables { engine, model: Model::new(), next: 0 };
        live(&mut world, &mut Dice(seed), 60, rows_per_block, Some(path));
    });
}
