//! What runs while a disk fails, a power cut comes or a process is killed: transactions over an engine, and what has to
//! be there after each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{RecordBatch, TimestampMicrosecondArray, new_null_array};
use rowmill_base::{ColumnId, Error, ErrorKind, Result, SqlType, TableId, TimeUnit};
use rowmill_io::FaultPlan;
use rowmill_storage::keyed::ValueRef;
use rowmill_txn::{ColumnSpec, Engine, TimeTableDef, Transaction};

use crate::support::{TestRow, batch, create_keyed, read, settings, specs};

/// The rows of all tables, by name.
pub(crate) type Content = BTreeMap<String, Vec<TestRow>>;

pub(crate) fn content_of(engine: &Engine) -> Content {
    try_content_of(engine).expect("the tables are read")
}

pub(crate) fn try_content_of(engine: &Engine) -> Result<Content> {
    let snapshot = engine.snapshot()?;
    let tables = snapshot.catalog().all_tables();
    tables
        .map(|table| {
            let mut rows: Vec<TestRow> = read(&snapshot, table.id)?.into_iter().map(|(_, row)| row).collect();
            rows.sort();
            Ok((table.name.clone(), rows))
        })
        .collect()
}

pub(crate) fn rows(first: i64, count: i64) -> Vec<TestRow> {
    (first..first + count).map(|n| (n, (n % 5 > 0).then(|| format!("a text that is somewhat longer {n}")))).collect()
}

/// Transactions over an engine, and what has to be there after each.
pub(crate) struct Workload {
    pub(crate) engine: Arc<Engine>,
    plan: FaultPlan,
    pub(crate) content: Content,
    pub(crate) acknowledged: Vec<Acknowledged>,
    /// Of the commits that were refused.
    pub(crate) errors: Vec<Error>,
    /// What the first commit would have led to that failed for good: it may have reached the disk.
    pub(crate) unknown: Option<Content>,
}

/// A commit that was acknowledged.
#[derive(Clone)]
pub(crate) struct Acknowledged {
    /// Calls of the disk before it began and when it was acknowledged.
    pub(crate) began: usize,
    pub(crate) ended: usize,
    /// The content after it.
    pub(crate) content: Content,
}

/// Where a workload runs.
pub(crate) struct Stage<'a> {
    pub(crate) open: &'a dyn Fn() -> Result<Arc<Engine>>,
    /// Whether what the disk does is recorded: then what runs in the background comes to rest now and then, so that
    /// there is something to record.
    pub(crate) is_recorded: bool,
}

impl Stage<'_> {
    fn rest(&self, engine: &Engine) {
        if self.is_recorded {
            wait_for_merge(engine);
        }
    }
}

impl Workload {
    pub(crate) fn new(engine: Arc<Engine>, plan: &FaultPlan) -> Workload {
        let empty = Acknowledged { began: 0, ended: 0, content: Content::new() };
        let plan = plan.clone();
        let (content, errors) = (Content::new(), Vec::new());
        Workload { engine, plan, content, acknowledged: vec![empty], errors, unknown: None }
    }

    /// Runs `change`, which does to the content what it does to the transaction, and commits. A failure changes
    /// nothing.
    pub(crate) fn commit(&mut self, change: impl FnOnce(&mut Transaction, &mut Content) -> Result<()>) {
        let mut content = self.content.clone();
        let began = self.plan.records().len();
        let run = || {
            let mut transaction = self.engine.begin()?;
            change(&mut transaction, &mut content)?;
            transaction.commit()
        };
        match run() {
            Ok(_) => {
                let changes = content != self.content;
                assert!(!changes || self.unknown.is_none(), "a commit behind one that failed for good");
                self.content = content;
                let ended = self.plan.records().len();
                self.acknowledged.push(Acknowledged { began, ended, content: self.content.clone() });
            }
            Err(error) => {
                // Reading goes on where it can.
                match try_content_of(&self.engine) {
                    Ok(found) => assert_eq!(found, self.content, "behind a commit that was refused: {error}"),
                    Err(read) => assert!(matches!(read.kind(), ErrorKind::Io | ErrorKind::DiskFull), "{read}"),
                }
                if error.message().contains("the log refuses writes after an error") {
                    self.unknown.get_or_insert(content);
                }
                self.errors.push(error);
            }
        }
    }

    /// Another engine over what this one leaves behind.
    fn reopen(&mut self, stage: &Stage<'_>) {
        stage.rest(&self.engine);
        let nothing = Engine::memory(settings(1)).expect("an engine in memory");
        let engine = std::mem::replace(&mut self.engine, nothing);
        match stage.is_recorded {
            // As if its process was killed: without the checkpoint of an orderly end.
            true => std::mem::forget(engine),
            false => drop(engine),
        }
        self.engine = (stage.open)().or_else(|_| (stage.open)()).unwrap_or_else(|_| {
            self.plan.clear();
            (stage.open)().expect("nothing fails now")
        });
        let found = try_content_of(&self.engine).unwrap_or_else(|_| {
            self.plan.clear();
            content_of(&self.engine)
        });
        let unknown = self.unknown.take();
        assert!(found == self.content || Some(&found) == unknown.as_ref(), "other rows are there when opened again");
        self.content = found;
    }

    /// A transaction that has written blocks and gives up.
    fn roll_back(&self, table: &str) {
        let Ok(mut transaction) = self.engine.begin() else { return };
        let table = id(&mut transaction, table);
        if let Ok(table) = table {
            let _ = transaction.insert(table, &batch(&rows(2_000, 130)));
        }
        transaction.rollback();
    }
}

/// A name, and the steps.
pub(crate) type Named = (&'static str, fn(&mut Workload, &Stage<'_>));

pub(crate) const WORKLOADS: [Named; 8] = [
    ("a bit of everything", a_bit_of_everything),
    ("small commits", small_commits),
    ("loads", loads),
    ("deletes", deletes),
    ("definitions", definitions),
    ("reopenings", reopenings),
    ("keyed", keyed),
    ("upserts", upserts),
];

pub(crate) fn a_bit_of_everything(work: &mut Workload, stage: &Stage<'_>) {
    work.commit(|transaction, content| create(transaction, content, "A"));
    work.commit(|transaction, content| create(transaction, content, "B"));
    work.commit(|transaction, content| insert(transaction, content, "A", 0, 100));
    work.commit(|transaction, content| insert(transaction, content, "B", 0, 3));
    work.commit(|transaction, content| {
        insert(transaction, content, "A", 1_000, 90)?;
        insert(transaction, content, "B", 1_000, 170)
    });
    work.commit(|transaction, content| delete(transaction, content, "B", |n| n % 2 == 0));
    stage.rest(&work.engine);
    work.roll_back("A");
    work.commit(|transaction, content| update(transaction, content, "A", |n| n % 3 == 0));
    let _ = work.engine.checkpoint();
    work.commit(|transaction, content| {
        create(transaction, content, "C")?;
        insert(transaction, content, "C", 0, 60)?;
        drop_table(transaction, content, "B")
    });
    work.commit(|transaction, content| truncate(transaction, content, "A"));
    work.commit(|transaction, content| insert(transaction, content, "A", 5_000, 130));
    (0..4).for_each(|part| {
        work.commit(|transaction, content| insert(transaction, content, "C", 100 + part * 20, 20));
    });
    stage.rest(&work.engine);
    work.commit(|transaction, content| delete(transaction, content, "C", |n| n < 130));
    work.commit(|transaction, content| {
        drop_table(transaction, content, "C")?;
        create(transaction, content, "C")?;
        insert(transaction, content, "C", 0, 45)
    });
    let _ = work.engine.checkpoint();
    work.commit(|transaction, content| insert(transaction, content, "C", 200, 50));
}

/// Over the border of more than one segment of the log.
fn small_commits(work: &mut Workload, _: &Stage<'_>) {
    work.commit(|transaction, content| create(transaction, content, "A"));
    for number in 0..90 {
        match number % 9 {
            8 => work.commit(|transaction, content| delete(transaction, content, "A", |n| n % 7 == 3)),
            _ => work.commit(|transaction, content| insert(transaction, content, "A", number, 1)),
        }
        if number == 50 {
            let _ = work.engine.checkpoint();
        }
    }
}

fn loads(work: &mut Workload, stage: &Stage<'_>) {
    work.commit(|transaction, content| create(transaction, content, "A"));
    for part in 0..4 {
        work.commit(|transaction, content| insert(transaction, content, "A", part * 1_000, 170 + part * 30));
        work.roll_back("A");
    }
    let _ = work.engine.checkpoint();
    stage.rest(&work.engine);
    work.commit(|transaction, content| truncate(transaction, content, "A"));
    work.commit(|transaction, content| {
        create(transaction, content, "B")?;
        insert(transaction, content, "A", 9_000, 210)?;
        insert(transaction, content, "B", 9_000, 330)
    });
}

fn deletes(work: &mut Workload, stage: &Stage<'_>) {
    work.commit(|transaction, content| create(transaction, content, "A"));
    work.commit(|transaction, content| insert(transaction, content, "A", 0, 240));
    work.commit(|transaction, content| insert(transaction, content, "A", 1_000, 15));
    work.commit(|transaction, content| delete(transaction, content, "A", |n| n % 4 == 0));
    stage.rest(&work.engine);
    work.commit(|transaction, content| delete(transaction, content, "A", |n| n % 4 == 1));
    let _ = work.engine.checkpoint();
    work.commit(|transaction, content| update(transaction, content, "A", |n| n % 8 == 3));
    work.commit(|transaction, content| delete(transaction, content, "A", |n| n < 80));
    stage.rest(&work.engine);
    work.commit(|transaction, content| delete(transaction, content, "A", |_| true));
    work.commit(|transaction, content| insert(transaction, content, "A", 0, 30));
    work.commit(|transaction, content| delete(transaction, content, "A", |n| n % 2 == 0));
}

fn definitions(work: &mut Workload, stage: &Stage<'_>) {
    let rename = |work: &mut Workload, from: &str, to: &str| {
        work.commit(|transaction, content| {
            let table = id(transaction, from)?;
            transaction.rename_table(table, to)?;
            let rows = content.remove(from).expect("the table was found");
            content.insert(to.to_owned(), rows);
            Ok(())
        });
    };
    for round in 0..3 {
        work.commit(|transaction, content| create(transaction, content, "A"));
        work.commit(|transaction, content| insert(transaction, content, "A", round * 100, 70));
        rename(work, "A", "B");
        work.commit(|transaction, _| {
            let table = id(transaction, "B")?;
            transaction.add_column(table, ColumnSpec::new("More", SqlType::Int64)).map(drop)
        });
        work.commit(|transaction, content| delete(transaction, content, "B", |n| n % 5 == 0));
        if round == 1 {
            let _ = work.engine.checkpoint();
            stage.rest(&work.engine);
        }
        work.commit(|transaction, _| {
            let table = id(transaction, "B")?;
            let view = transaction.view()?;
            let def = view.catalog().table_by_id(table).expect("it was found");
            let more = def.columns.get(2).ok_or_else(|| Error::internal("the column was not made"))?;
            transaction.drop_column(table, more.id)
        });
        work.commit(|transaction, content| insert(transaction, content, "B", 10_000 + round * 100, 45));
        work.commit(|transaction, content| drop_table(transaction, content, "B"));
    }
}

/// Each time the log is read again, and the workload continues from the rows that are there.
fn reopenings(work: &mut Workload, stage: &Stage<'_>) {
    work.commit(|transaction, content| create(transaction, content, "A"));
    for round in 0..4 {
        work.commit(|transaction, content| insert(transaction, content, "A", round * 100, 55));
        work.commit(|transaction, content| insert(transaction, content, "A", round * 100 + 70, 2));
        work.reopen(stage);
        work.commit(|transaction, content| delete(transaction, content, "A", |n| n % 6 == 1));
        if round == 2 {
            let _ = work.engine.checkpoint();
        }
        work.reopen(stage);
    }
}

/// Keyed and columnar tables that change together.
fn keyed(work: &mut Workload, stage: &Stage<'_>) {
    work.commit(|transaction, content| create(transaction, content, "K1"));
    work.commit(|transaction, content| insert(transaction, content, "K1", 0, 30));
    work.commit(|transaction, content| {
        create(transaction, content, "A")?;
        create(transaction, content, "K2")?;
        insert(transaction, content, "K2", 0, 10)?;
        insert(transaction, content, "A", 0, 60)
    });
    work.commit(|transaction, content| delete(transaction, content, "K1", |n| n % 3 == 1));
    let _ = work.engine.checkpoint();
    work.commit(|transaction, content| {
        update(transaction, content, "K1", |n| n % 4 == 0)?;
        delete(transaction, content, "A", |n| n % 2 == 0)
    });
    work.reopen(stage);
    for round in 0..6 {
        work.commit(|transaction, content| insert(transaction, content, "K2", 100 + round * 3, 3));
        work.commit(|transaction, content| delete(transaction, content, "K1", |n| n % 5 == 2));
    }
    work.commit(|transaction, content| {
        truncate(transaction, content, "K2")?;
        insert(transaction, content, "K2", 0, 5)
    });
    let _ = work.engine.checkpoint();
    work.commit(|transaction, content| drop_table(transaction, content, "K1"));
    work.commit(|transaction, content| insert(transaction, content, "K2", 50, 5));
    work.reopen(stage);
    work.commit(|transaction, content| {
        create(transaction, content, "K1")?;
        insert(transaction, content, "K1", 7, 9)
    });
}

/// Rows of a time table that come in any order of time and replace others.
fn upserts(work: &mut Workload, stage: &Stage<'_>) {
    work.commit(|transaction, content| create(transaction, content, "U"));
    for part in 0..6 {
        work.commit(|transaction, content| insert(transaction, content, "U", part * 40, 70));
    }
    stage.rest(&work.engine);
    work.commit(|transaction, content| insert(transaction, content, "U", 100, 130));
    work.commit(|transaction, content| delete(transaction, content, "U", |n| n % 3 == 0));
    let _ = work.engine.checkpoint();
    work.commit(|transaction, content| {
        insert(transaction, content, "U", 0, 20)?;
        insert(transaction, content, "U", 10, 20)
    });
    work.reopen(stage);
    work.commit(|transaction, content| insert(transaction, content, "U", 200, 15));
    work.roll_back("U");
    stage.rest(&work.engine);
    work.commit(|transaction, content| insert(transaction, content, "U", 0, 300));
}

fn id(transaction: &mut Transaction, name: &str) -> Result<TableId> {
    let view = transaction.view()?;
    let missing = || Error::internal(format!("{name} was not made"));
    view.catalog().all_tables().find(|table| table.name == name).map(|table| table.id).ok_or_else(missing)
}

pub(crate) fn create(transaction: &mut Transaction, content: &mut Content, name: &str) -> Result<()> {
    let main = transaction.base().catalog().schema(rowmill_txn::MAIN_SCHEMA).expect("always there").id;
    match name.as_bytes() {
        [b'K', ..] => create_keyed(transaction, name)?,
        [b'U', ..] => {
            let at = ColumnSpec::new("At", SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false });
            let table = transaction.create_table(main, name, [specs(), vec![at]].concat())?;
            let dedup_keys = vec![ColumnId(0), ColumnId(2)];
            transaction.set_time_table(table, TimeTableDef { dedup_keys, ..TimeTableDef::new(ColumnId(2)) })?;
            table
        }
        _ => transaction.create_table(main, name, specs())?,
    };
    content.insert(name.to_owned(), Vec::new());
    Ok(())
}

pub(crate) fn drop_table(transaction: &mut Transaction, content: &mut Content, name: &str) -> Result<()> {
    let table = id(transaction, name)?;
    transaction.drop_table(table)?;
    content.remove(name);
    Ok(())
}

pub(crate) fn insert(
    transaction: &mut Transaction,
    content: &mut Content,
    name: &str,
    first: i64,
    count: i64,
) -> Result<()> {
    let table = id(transaction, name)?;
    let view = transaction.view()?;
    let def = view.catalog().table_by_id(table).expect("it was found");
    let mut columns = batch(&rows(first, count)).columns().to_vec();
    columns.extend(def.columns[2..].iter().map(|column| match column.nullable {
        true => new_null_array(&column.kind.arrow(), count as usize),
        // The time is the same each time that a number is inserted.
        false => Arc::new(TimestampMicrosecondArray::from_iter_values((first..first + count).map(|n| n * 7919 % 997))),
    }));
    let batch = RecordBatch::try_new(def.arrow_schema(), columns).expect("columns of the table");
    transaction.insert(table, &batch)?;
    let all = content.get_mut(name).expect("the table was found");
    if name.starts_with('U') {
        all.retain(|row| !(first..first + count).contains(&row.0));
    }
    all.extend(rows(first, count));
    all.sort();
    Ok(())
}

pub(crate) fn delete(
    transaction: &mut Transaction,
    content: &mut Content,
    name: &str,
    doomed: fn(i64) -> bool,
) -> Result<()> {
    let table = id(transaction, name)?;
    let found = read(&*transaction.view()?, table)?;
    let numbers: Vec<u64> = found.iter().filter(|(_, row)| doomed(row.0)).map(|(number, _)| *number).collect();
    match name.starts_with('K') {
        true => {
            for (_, row) in found.iter().filter(|(_, row)| doomed(row.0)) {
                transaction.delete_by_key(table, &[ValueRef::Int(row.0)])?;
            }
        }
        false => drop(transaction.delete(table, &numbers)?),
    }
    content.get_mut(name).expect("the table was found").retain(|row| !doomed(row.0));
    Ok(())
}

pub(crate) fn update(
    transaction: &mut Transaction,
    content: &mut Content,
    name: &str,
    chosen: fn(i64) -> bool,
) -> Result<()> {
    let all = content.get(name).cloned().unwrap_or_default();
    delete(transaction, content, name, chosen)?;
    let new: Vec<TestRow> = all.into_iter().filter(|row| chosen(row.0)).map(|(n, text)| (n + 100_000, text)).collect();
    let table = id(transaction, name)?;
    transaction.insert(table, &batch(&new))?;
    let all = content.get_mut(name).expect("the table was found");
    all.extend(new);
    all.sort();
    Ok(())
}

pub(crate) fn truncate(transaction: &mut Transaction, content: &mut Content, name: &str) -> Result<()> {
    let table = id(transaction, name)?;
    transaction.truncate(table)?;
    content.insert(name.to_owned(), Vec::new());
    Ok(())
}

/// Waits for the background merge to come to rest.
pub(crate) fn wait_for_merge(engine: &Engine) {
    let commit = || engine.snapshot().expect("a snapshot").commit();
    let (mut last, mut since) = (commit(), Instant::now());
    while since.elapsed() < Duration::from_millis(400) {
        std::thread::sleep(Duration::from_millis(10));
        if commit() != last {
            (last, since) = (commit(), Instant::now());
        }
    }
}
