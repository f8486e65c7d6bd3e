//! Requests to cancel a statement. A client sends them on a connection of their own, with the number of the connection
//! to cancel and the secret key that this connection was given at its start.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use parking_lot::Mutex;
use pgwire::messages::startup::SecretKey;
use rowmill::{CancelHandle, Error, Result};

/// The open connections of the wire protocol, by number.
#[derive(Default)]
pub(crate) struct CancelRegistry {
    connections: Mutex<RegisteredConnections>,
}

#[derive(Default)]
struct RegisteredConnections {
    last_number: i32,
    by_number: HashMap<i32, (SecretKey, CancelHandle)>,
}

/// The number and the key by which a connection's statements can be cancelled.
pub(crate) struct CancelKey {
    pub(crate) number: i32,
    pub(crate) key: SecretKey,
}

impl CancelRegistry {
    /// Registers a connection under a new number and a random key.
    pub(crate) fn register(&self, handle: CancelHandle) -> Result<CancelKey> {
        let mut bytes = [0; 4];
        getrandom::fill(&mut bytes).map_err(|error| Error::internal(format!("no random bytes: {error}")))?;
        let key = SecretKey::I32(i32::from_be_bytes(bytes));
        let mut connections = self.connections.lock();
        loop {
            // Numbers start again at 1 after the last one; a number that is in use must not be given twice.
            connections.last_number = connections.last_number.checked_add(1).unwrap_or(1);
            let number = connections.last_number;
            if let Entry::Vacant(free) = connections.by_number.entry(number) {
                free.insert((key.clone(), handle));
                return Ok(CancelKey { number, key });
            }
        }
    }

    /// Forgets a connection.
    pub(crate) fn remove(&self, number: i32) {
        self.connections.lock().by_number.remove(&number);
    }

    /// Cancels the statement of a connection. Returns `false`, and does nothing, if the key is not the connection's.
    pub(crate) fn cancel(&self, number: i32, key: &SecretKey) -> bool {
        let handle = match self.connections.lock().by_number.get(&number) {
            Some((own, handle)) if own.eq_value(key) => handle.clone(),
            _ => return false,
        };
        handle.cancel();
        true
    }

    /// Cancels the statements of all connections. Returns the number of connections.
    pub(crate) fn cancel_all(&self) -> usize {
        let handles: Vec<CancelHandle> =
            self.connections.lock().by_number.values().map(|(_, handle)| handle.clone()).collect();
        handles.iter().for_each(CancelHandle::cancel);
        handles.len()
    }

    /// The number of open connections.
    pub(crate) fn len(&self) -> usize {
        self.connections.lock().by_number.len()
    }
}
