//! Another process that has the directory of a test open for reading, and does as it is told line by line.

#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use rowmill_base::{Cancel, TableId};
use rowmill_txn::{Engine, OpenOptions, Snapshot};

use crate::support::{TestRow, settings, values};

/// Names the directory to the process that [`Reader::start`] starts.
const CHILD_DIR: &str = "ROWMILL_TEST_DATABASE_DIR";

pub(crate) struct Reader {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Reader {
    pub(crate) fn start(dir: &Path) -> Reader {
        let (_, module) = module_path!().split_once("::").expect("a module of the test binary");
        let mut process = Command::new(std::env::current_exe().expect("the test binary"))
            .args([&format!("{module}::another_process"), "--exact", "--nocapture"])
            .env(CHILD_DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let orders = process.stdin.take().expect("piped");
        let answers = BufReader::new(process.stdout.take().expect("piped"));
        let mut reader = Reader { process, orders, answers };
        assert_eq!(reader.answer(), "open");
        reader
    }

    /// Takes a snapshot and holds it under a name. Nothing of it is read yet.
    pub(crate) fn hold(&mut self, name: &str) {
        assert_eq!(self.order(&format!("hold {name}")), "held");
    }

    /// The digest of a table in the snapshot of that name.
    pub(crate) fn held(&mut self, name: &str, table: TableId) -> String {
        self.order(&format!("held {name} {table}"))
    }

    /// The digest of a table now.
    pub(crate) fn now(&mut self, table: TableId) -> String {
        self.order(&format!("now {table}"))
    }

    /// What a check finds wrong.
    pub(crate) fn check(&mut self) -> String {
        self.order("check")
    }

    /// Lets go of the snapshot of that name.
    pub(crate) fn release(&mut self, name: &str) {
        assert_eq!(self.order(&format!("release {name}")), "released");
    }

    /// Opens the directory again.
    pub(crate) fn reopen(&mut self) {
        assert_eq!(self.order("reopen"), "open");
    }

    pub(crate) fn kill(mut self) {
        self.process.kill().expect("the process is there");
        self.process.wait().expect("the process has ended");
    }

    fn order(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").expect("the process listens");
        self.answer()
    }

    /// The next line of the process that is an answer and none of the test harness.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        while self.answers.read_line(&mut line).expect("the process answers") > 0 {
            if let Some((_, answer)) = line.split_once("> ") {
                return answer.trim().to_owned();
            }
            line.clear();
        }
        panic!("the process has ended");
    }
}

/// What tells rows from all others.
pub(crate) fn digest(rows: &[TestRow]) -> String {
    let mut hasher = DefaultHasher::new();
    rows.hash(&mut hasher);
    format!("{} rows, {:016x}", rows.len(), hasher.finish())
}

fn digest_of(snapshot: &Snapshot, table: TableId) -> String {
    match snapshot.table(table) {
        Some(_) => digest(&values(snapshot, table)),
        None => "no table".to_owned(),
    }
}

/// The other side of [`Reader`]. Does nothing when it is run as a test.
#[test]
fn another_process() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let open = || {
        let options = OpenOptions { read_only: true, settings: settings(100), ..OpenOptions::default() };
        Engine::open(Path::new(&dir), options).expect("the directory opens for reading")
    };
    let answer = |text: &str| {
        println!("> {text}");
        std::io::stdout().flush().expect("the parent listens");
    };
    let mut engine = Some(open());
    let mut held: HashMap<String, Arc<Snapshot>> = HashMap::new();
    answer("open");
    for order in std::io::stdin().lines().map(|line| line.expect("text")) {
        let now = || engine.as_ref().expect("open").snapshot().expect("a snapshot");
        let table = |text: &str| TableId(text.parse().expect("a table's id"));
        match order.split(' ').collect::<Vec<_>>()[..] {
            ["hold", name] => {
                held.insert(name.to_owned(), now());
                answer("held");
            }
            ["held", name, id] => answer(&digest_of(&held[name], table(id))),
            ["release", name] => {
                held.remove(name);
                answer("released");
            }
            ["check"] => {
                let checked = engine.as_ref().expect("open").check(&Cancel::new()).expect("a check");
                let problems =
                    checked.into_iter().filter_map(|found| Some(format!("{}: {}", found.object, found.problem?)));
                answer(&problems.collect::<Vec<_>>().join("; "));
            }
            ["now", id] => answer(&digest_of(&now(), table(id))),
            ["reopen"] => {
                engine = None;
                engine = engine.or_else(|| Some(open()));
                answer("open");
            }
            _ => panic!("unknown order {order}"),
        }
    }
    // No process reads the output of the test harness.
    std::process::exit(0);
}
