//! A random history against a list of rows: transactions that commit or not, deletes, savepoints, truncation, merges
//! in the background, old snapshots and reopening.

use std::path::Path;
use std::sync::Arc;

use rowmill_base::TableId;
use rowmill_txn::{Engine, Snapshot};

use crate::history::{World, live, of_seeds};
use crate::support::{Dice, TestRow, create, insert, open_at, read, values};

struct Rows {
    engine: Arc<Engine>,
    table: TableId,
    model: Vec<TestRow>,
    next: i64,
}

impl Rows {
    fn rows(&mut self, count: u64, dice: &mut Dice) -> Vec<TestRow> {
        (0..count)
            .map(|_| {
                self.next += 1;
                (self.next, (dice.roll(4) > 0).then(|| format!("text {}", dice.roll(20))))
            })
            .collect()
    }
}

impl World for Rows {
    type State = Vec<TestRow>;

    fn step(&mut self, dice: &mut Dice) {
        let mut transaction = self.engine.begin().expect("a transaction");
        let mut model = self.model.clone();
        // Now and then so many that a transaction's own runs are joined.
        for _ in 0..[1, 2, 3, 15][dice.roll(4) as usize] {
            let before = model.clone();
            let savepoint = transaction.savepoint();
            match dice.roll(10) {
                0..=5 => {
                    let count = [1, 1, 2, 7, 40, 130][dice.roll(6) as usize];
                    let rows = self.rows(count, dice);
                    insert(&mut transaction, self.table, &rows);
                    model.extend(rows);
                }
                6..=8 => {
                    let view = transaction.view().expect("a view");
                    let share = dice.roll(5) + 1;
                    let offset = dice.roll(7);
                    let doomed: Vec<(u64, TestRow)> = read(&view, self.table)
                        .expect("the table is read")
                        .into_iter()
                        .filter(|(row, _)| (row + offset).is_multiple_of(share))
                        .collect();
                    let numbers: Vec<u64> = doomed.iter().map(|(row, _)| *row).collect();
                    let deleted = transaction.delete(self.table, &numbers).expect("deleted");
                    assert_eq!(deleted as usize, numbers.len());
                    assert_eq!(transaction.delete(self.table, &numbers).expect("deleted again"), 0);
                    model.retain(|row| !doomed.iter().any(|(_, gone)| gone.0 == row.0));
                }
                _ => {
                    let deleted = transaction.truncate(self.table).expect("truncated");
                    assert_eq!(deleted as usize, model.len());
                    model.clear();
                }
            }
            if dice.roll(5) == 0 {
                transaction.rollback_to(&savepoint);
                model = before;
            }
            // A transaction sees its own changes.
            self.check(&transaction.view().expect("a view"), &model);
        }
        if dice.roll(4) == 0 {
            transaction.rollback();
        } else {
            transaction.commit().expect("committed");
            self.model = model;
        }
    }

    fn model(&self) -> &Vec<TestRow> {
        &self.model
    }

    fn check(&self, snapshot: &Snapshot, expected: &Vec<TestRow>) {
        let mut rows = values(snapshot, self.table);
        rows.sort();
        assert_eq!(&rows, expected);
    }

    fn engine(&mut self) -> &mut Arc<Engine> {
        &mut self.engine
    }
}

pub(crate) fn history(seed: u64, steps: usize, rows_per_block: usize, path: Option<&Path>) {
    let mut dice = Dice(seed);
    let engine = open_at(path, rows_per_block);
    let table = create(&engine, "T");
    let mut world = Rows { engine, table, model: Vec::new(), next: 0 };
    live(&mut world, &mut dice, steps, rows_per_block, path);
}

#[test]
fn histories_in_memory_agree_with_the_model() {
    for (seed, rows_per_block) in [(1, 3), (2, 50), (3, 50), (4, 1000)] {
        history(seed, 60, rows_per_block, None);
    }
}

#[test]
fn histories_on_disk_agree_with_the_model_through_reopenings() {
    of_seeds(5, 3, |seed, rows_per_block, path| history(seed, 50, rows_per_block, Some(path)));
}
