//! `rowmill serve DIR`: the database as a server.

use std::path::PathBuf;

use clap::error::ErrorKind as ClapKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Parser};
use rowmill::{Database, Options, Result};
use rowmill_server::Server;
use rowmill_server::config::{ENVIRONMENT_PREFIX, SERVE_SETTINGS, ServeConfig};

use crate::args::assignment;
use crate::terminal::say;

/// Serves a database over PostgreSQL's wire protocol and over HTTP, until SIGINT or SIGTERM.
#[derive(Debug, Parser)]
#[command(name = "rowmill serve", version, about)]
pub(crate) struct ServeArgs {
    /// The directory of the database, created if it does not exist.
    dir: PathBuf,

    /// A file with settings, in TOML. Variables such as ROWMILL_SERVE_CONNECTIONS and flags override it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Shows all settings and where each comes from, and ends.
    #[arg(long)]
    check: bool,

    /// Opens the database only for reading; another process may write it at the same time.
    #[arg(long)]
    read_only: bool,

    /// Gives a setting of the engine its initial value; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,

    #[command(flatten)]
    flags: ServeFlags,
}

/// The flags of the settings in [`SERVE_SETTINGS`]: the values by the name of the setting.
#[derive(Clone, Debug, Default)]
struct ServeFlags(Vec<(String, Vec<String>)>);

impl Args for ServeFlags {
    fn augment_args(command: Command) -> Command {
        SERVE_SETTINGS.iter().fold(command, |command, setting| {
            let arg = Arg::new(setting.name).long(setting.name).value_name(setting.value);
            let arg = arg.help(setting.doc).action(if setting.is_list { ArgAction::Append } else { ArgAction::Set });
            command.arg(match setting.is_switch {
                true => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
                false => arg,
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        ServeFlags::augment_args(command)
    }
}

impl FromArgMatches for ServeFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ServeFlags, clap::Error> {
        let values = |name: &str| matches.get_many::<String>(name).map(|values| values.cloned().collect());
        let given = SERVE_SETTINGS.iter().filter_map(|setting| Some((setting.name.to_owned(), values(setting.name)?)));
        Ok(ServeFlags(given.collect()))
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Err(clap::Error::new(ClapKind::InvalidValue))
    }
}

impl ServeArgs {
    /// Reads the arguments of the process if they begin with `serve`. To open a database in a directory called `serve`,
    /// write `./serve`.
    pub(crate) fn of_process() -> Option<ServeArgs> {
        let mut words = std::env::args_os().skip(1);
        (words.next()? == "serve").then(|| ServeArgs::parse_from(std::iter::once("rowmill serve".into()).chain(words)))
    }

    fn config(&self) -> Result<ServeConfig> {
        let named = std::env::var_os(format!("{ENVIRONMENT_PREFIX}CONFIG")).map(PathBuf::from);
        let file = self.config.clone().or(named);
        // A variable that is not UTF-8 is none of ours.
        let environment =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let engine = self.settings.iter().map(|text| assignment(text)).collect::<Result<Vec<_>>>()?;
        ServeConfig::read(file.as_deref(), environment, self.flags.0.clone(), engine)
    }
}

/// Serves until the process is told to stop.
pub(crate) fn run(args: &ServeArgs) -> Result<()> {
    let config = args.config()?;
    if args.check {
        return say(&format!("{}\n", config.lines().join("\n")));
    }
    // Before the database is opened, so that a wrong address does not create one.
    if !args.dir.exists() {
        config.options.check_reach(false)?;
    }
    let options = Options::new().read_only(args.read_only);
    let options = config.engine.iter().try_fold(options, |options, (name, value)| options.set(name, value))?;
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let database = Database::open_with(&args.dir, options)?;
    Server::start(database, config.options)?.run_until_signal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_values_of_settings() {
        let args =
            ["serve", "db", "--http", "off", "--files", "/a", "--files", "/b", "--tls-required", "--log-queries=off"];
        let ServeFlags(flags) = ServeArgs::try_parse_from(args).expect("valid arguments").flags;
        let value = |name: &str| flags.iter().find(|(own, _)| own == name).map(|(_, values)| values.join(","));
        assert_eq!(value("http").as_deref(), Some("off"));
        assert_eq!(value("files").as_deref(), Some("/a,/b"));
        assert_eq!(value("tls-required").as_deref(), Some("true"));
        assert_eq!(value("log-queries").as_deref(), Some("off"));
        assert_eq!(value("pg"), None);
    }

    #[test]
    fn the_definition_of_the_arguments_is_consistent() {
        use clap::CommandFactory;
        ServeArgs::command().debug_assert();
    }
}
