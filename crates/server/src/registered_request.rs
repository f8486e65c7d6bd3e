//! A connection of the database for one request of a client without a session, for example of HTTP.

use rowmill::{ClientInfo, Connection, Result};

use crate::login::ClientLogin;
use crate::server::ServerShared;

/// A request whose statement can be cancelled, for example when the server stops.
pub(crate) struct RegisteredRequest<'s> {
    shared: &'s ServerShared,
    number: i32,
}

impl<'s> RegisteredRequest<'s> {
    /// Opens a connection for a request of a client, and registers the request. `what` is the text of its statement, or
    /// what it asks for in another form.
    pub(crate) fn connect(
        shared: &'s ServerShared,
        login: &ClientLogin,
        protocol: &'static str,
        what: &str,
    ) -> Result<(Connection, RegisteredRequest<'s>)> {
        let mut connection = shared.connect(login)?;
        let key = shared.cancels.register(connection.cancel_handle())?;
        let info = ClientInfo {
            protocol: Some(protocol),
            connection: u64::try_from(key.number).ok(),
            user: login.has_proof().then(|| login.name.to_string()),
            address: login.client.map(|client| client.to_string()),
        };
        if let Some(listed) = connection.set_client(info, None) {
            listed.begins(what.into(), None);
        }
        Ok((connection, RegisteredRequest { shared, number: key.number }))
    }

    /// The number of the request's connection.
    pub(crate) fn number(&self) -> i32 {
        self.number
    }
}

impl Drop for RegisteredRequest<'_> {
    fn drop(&mut self) {
        self.shared.cancels.remove(self.number);
    }
}
