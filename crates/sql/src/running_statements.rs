//! The statements that run at the moment, over all connections of a database.
//!
//! A statement enters the list when the engine begins it, and leaves it when its last row has been taken or its stream
//! is dropped. Programs do not enter it: most of them take a few microseconds, and the entry would take a good part of
//! that. A program that meets many rows gives up, and the engine runs its statement.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rowmill_base::Cancel;

use crate::outcome::{Progress, ProgressFn};
use crate::redaction::without_passwords;

/// Who has opened a connection, as far as its host knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientInfo {
    /// The user who has logged in.
    pub user: Option<String>,
    /// The address of the client.
    pub address: Option<String>,
    /// The protocol of the client, for example `pg`.
    pub protocol: Option<&'static str>,
    /// The number by which the host knows the connection.
    pub connection: Option<u64>,
}

/// A statement that runs.
#[derive(Clone, Debug)]
pub struct RunningStatement {
    /// A number that no other statement of the database has had since it was opened.
    pub id: u64,
    /// The connection.
    pub client: Arc<ClientInfo>,
    /// The text of the statement, without passwords.
    pub text: Arc<str>,
    /// When it began, in microseconds since 1970-01-01 UTC.
    pub started_us: i64,
    /// How long it has run.
    pub elapsed: Duration,
    /// Its last report of progress. `None` before the first.
    pub progress: Option<Progress>,
}

/// The list of one database.
#[derive(Debug, Default)]
pub struct RunningStatements {
    list: Mutex<StatementList>,
}

#[derive(Debug, Default)]
struct StatementList {
    last_id: u64,
    by_id: BTreeMap<u64, Arc<ListedStatement>>,
}

/// An entry of the list.
#[derive(Debug)]
struct ListedStatement {
    client: Arc<ClientInfo>,
    text: Arc<str>,
    started_us: i64,
    started: Instant,
    cancel: Cancel,
    progress: Mutex<Option<Progress>>,
}

/// Keeps a statement in the list until it is dropped.
#[derive(Debug)]
pub(crate) struct ListedGuard {
    statements: Arc<RunningStatements>,
    id: u64,
    entry: Arc<ListedStatement>,
}

impl RunningStatements {
    /// The statements that run, the oldest first.
    pub fn list(&self) -> Vec<RunningStatement> {
        let list = self.list.lock();
        let running = list.by_id.iter().map(|(id, entry)| RunningStatement {
            id: *id,
            client: Arc::clone(&entry.client),
            text: match without_passwords(&entry.text) {
                Cow::Borrowed(_) => Arc::clone(&entry.text),
                Cow::Owned(shown) => shown.into(),
            },
            started_us: entry.started_us,
            elapsed: entry.started.elapsed(),
            progress: *entry.progress.lock(),
        });
        running.collect()
    }

    /// Cancels a statement. Returns `false` if no statement with this number runs.
    pub fn cancel(&self, id: u64) -> bool {
        let entry = self.list.lock().by_id.get(&id).cloned();
        if let Some(entry) = &entry {
            entry.cancel.cancel();
        }
        entry.is_some()
    }

    /// Enters a statement that begins now.
    pub(crate) fn enter(
        self: &Arc<Self>,
        client: &Arc<ClientInfo>,
        text: &Arc<str>,
        started_us: i64,
        cancel: &Cancel,
    ) -> ListedGuard {
        let entry = Arc::new(ListedStatement {
            client: Arc::clone(client),
            text: Arc::clone(text),
            started_us,
            started: Instant::now(),
            cancel: cancel.clone(),
            progress: Mutex::default(),
        });
        let mut list = self.list.lock();
        list.last_id += 1;
        let id = list.last_id;
        list.by_id.insert(id, Arc::clone(&entry));
        ListedGuard { statements: Arc::clone(self), id, entry }
    }
}

impl ListedGuard {
    /// Returns a function that notes the progress of the statement in the list and passes it on to `also`.
    pub(crate) fn progress(&self, also: Option<ProgressFn>) -> ProgressFn {
        let entry = Arc::clone(&self.entry);
        Arc::new(move |progress| {
            *entry.progress.lock() = Some(progress);
            if let Some(also) = &also {
                also(progress);
            }
        })
    }
}

impl Drop for ListedGuard {
    fn drop(&mut self) {
        self.statements.list.lock().by_id.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_listed_until_its_guard_is_dropped() {
        let (statements, cancel) = (Arc::new(RunningStatements::default()), Cancel::new());
        let client = Arc::new(ClientInfo { user: Some("ada".to_owned()), ..ClientInfo::default() });
        let first = statements.enter(&client, &Arc::from("SELECT 1"), 7, &Cancel::new());
        let second = statements.enter(&client, &Arc::from("SELECT 2"), 8, &cancel);
        let progress = Progress { rows_done: 5, ..Progress::default() };
        second.progress(None)(progress);
        let listed = statements.list();
        assert_eq!(listed.iter().map(|listed| &*listed.text).collect::<Vec<_>>(), ["SELECT 1", "SELECT 2"]);
        assert_eq!((listed[0].progress, listed[1].progress), (None, Some(progress)));
        assert_eq!(listed[1].client.user.as_deref(), Some("ada"));
        drop(first);
        assert!(!statements.cancel(listed[0].id) && statements.cancel(listed[1].id));
        assert!(cancel.is_cancelled());
        drop(second);
        assert!(statements.list().is_empty());
    }
}
