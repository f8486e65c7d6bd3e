//! `rowmill serve DIR`: the database as a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;
use rowmill::arrow::array::{ArrayRef, TimestampMillisecondArray};
use rowmill::text::format_value;
use rowmill::{Database, Result};
use rowmill_server::{DEFAULT_SETTINGS, Server, ServerEvent, ServerOptions};

use crate::args::database_options;
use crate::terminal::complain;

/// Serves a database over PostgreSQL's wire protocol and over HTTP, until SIGINT or SIGTERM.
#[derive(Debug, Parser)]
#[command(name = "rowmill serve", version, about)]
pub(crate) struct ServeArgs {
    /// The directory of the database, created if it does not exist.
    dir: PathBuf,

    /// The address of PostgreSQL's wire protocol, or off. There are no users yet, so it must be one of this machine.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5432", value_parser = address)]
    pg: ListenAddress,

    /// The address of HTTP, or off. It must be one of this machine, too.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080", value_parser = address)]
    http: ListenAddress,

    /// Opens the database only for reading; another process may write it at the same time.
    #[arg(long)]
    read_only: bool,

    /// Gives a setting its initial value; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
}

/// An address, or `None` for `off`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ListenAddress(Option<SocketAddr>);

fn address(text: &str) -> Result<ListenAddress, String> {
    if text == "off" {
        return Ok(ListenAddress(None));
    }
    let address =
        text.parse().map_err(|_| "write an address and a port: 127.0.0.1:5432, [::1]:5432, or off".to_owned());
    address.map(|address| ListenAddress(Some(address)))
}

impl ServeArgs {
    /// Reads the arguments of the process if they begin with `serve`. To open a database in a directory called `serve`,
    /// write `./serve`.
    pub(crate) fn of_process() -> Option<ServeArgs> {
        let mut words = std::env::args_os().skip(1);
        (words.next()? == "serve").then(|| ServeArgs::parse_from(std::iter::once("rowmill serve".into()).chain(words)))
    }
}

/// Serves until the process is told to stop.
pub(crate) fn run(args: &ServeArgs) -> Result<()> {
    let (pg, http) = (args.pg.0, args.http.0);
    let options = ServerOptions { pg, http, events: Some(Arc::new(log)), ..ServerOptions::default() };
    // Before the database is opened, so that a wrong address does not create one.
    options.check()?;
    // Those of the user come last, so that they count.
    let settings = DEFAULT_SETTINGS.iter().map(|setting| (*setting).to_owned()).chain(args.settings.iter().cloned());
    let settings: Vec<String> = settings.collect();
    let database = Database::open_with(&args.dir, database_options(&settings, args.read_only)?)?;
    Server::start(database, options)?.run_until_signal()
}

fn log(event: &ServerEvent) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let now: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![since as i64]));
    let now = format_value(&now, 0).ok().flatten().unwrap_or_default();
    complain(&format!("{now} {event}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_protocol_has_an_address_or_is_off() {
        let args = ServeArgs::try_parse_from(["serve", "db", "--http", "off"]).expect("valid arguments");
        assert_eq!(args.pg, ListenAddress("127.0.0.1:5432".parse().ok()));
        assert_eq!(args.http, ListenAddress(None));
        assert!(ServeArgs::try_parse_from(["serve", "db", "--pg", "5432"]).is_err());
    }

    #[test]
    fn the_definition_of_the_arguments_is_consistent() {
        use clap::CommandFactory;
        ServeArgs::command().debug_assert();
    }
}
