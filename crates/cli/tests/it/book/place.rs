//! The folder of a page, and the server that it may have started.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use pty_process::Size;
use pty_process::blocking::{Command, open};

use crate::SHELL;
use crate::serve::ServerProcess;
use crate::terminal::without_escapes;

/// The database of a page's SQL.
const DATABASE: &str = "mydata";
/// A block that takes longer hangs.
const SECONDS_MAX: &str = "300";
/// The addresses that pages name, where a server listens by default.
const PG_ADDRESS: &str = "127.0.0.1:5432";
const HTTP_ADDRESS: &str = "127.0.0.1:8080";

/// A block that has run.
pub(super) struct Ran {
    /// What the terminal shows.
    pub(super) printed: String,
    pub(super) succeeded: bool,
}

/// Where the examples of a page run.
pub(super) struct PagePlace {
    folder: tempfile::TempDir,
    server: Option<ServerProcess>,
}

impl PagePlace {
    pub(super) fn new() -> PagePlace {
        PagePlace { folder: tempfile::tempdir().expect("a temporary folder"), server: None }
    }

    /// Runs statements in the page's database: in the shell, or by psql if a server has it.
    pub(super) fn sql(&self, text: &str) -> Option<Ran> {
        std::fs::write(self.folder.path().join(".block.sql"), text).expect("written");
        if self.server.is_some() {
            let run = || self.run("psql -X -q -v ON_ERROR_STOP=1 -f .block.sql", self.server.as_ref());
            return is_installed("psql").then(run);
        }
        // As an argument, because an error in a file names the file, which a reader does not have.
        Some(self.run("rowmill mydata -c \"$(cat .block.sql)\"", None))
    }

    /// Runs commands. Returns nothing if they start a server, or need a program that this machine does not have.
    pub(super) fn shell(&mut self, text: &str) -> Option<Ran> {
        if let Some(arguments) = text.trim().strip_prefix("rowmill serve ") {
            self.start_server(arguments);
            return None;
        }
        for program in ["psql", "curl", "duckdb", "sqlite3"] {
            let is_called = text.split(|end: char| !end.is_alphanumeric()).any(|word| word == program);
            if is_called && !is_installed(program) {
                say_skipped(&format!("{program} is not installed:\n{text}"));
                return None;
            }
        }
        Some(self.run(text, self.server.as_ref()))
    }

    /// Runs a program in Python. Returns nothing if a module is not installed.
    pub(super) fn python(&mut self, text: &str) -> Option<Ran> {
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let imports: Vec<&str> = text.lines().filter(|line| line.starts_with("import ")).collect();
        if !self.run(&format!("{python} -c '{}'", imports.join("; ")), None).succeeded {
            say_skipped(&format!("{python} lacks a module:\n{text}"));
            return None;
        }
        std::fs::write(self.folder.path().join(".block.py"), text).expect("written");
        Some(self.run(&format!("{python} .block.py"), self.server.as_ref()))
    }

    /// Stops the server, if there is one.
    pub(super) fn stop_server(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }

    fn start_server(&mut self, arguments: &str) {
        // Comments after the command, and the addresses, because the usual ports may be taken.
        let arguments = arguments.lines().next().unwrap_or_default();
        let words: Vec<&str> = arguments.split('#').next().unwrap_or_default().split_whitespace().collect();
        let folder = self.folder.path().join(words.first().copied().unwrap_or(DATABASE));
        self.stop_server();
        self.server = Some(ServerProcess::start(&folder.to_string_lossy(), &words[1..]));
    }

    /// Runs commands in bash, in a terminal.
    fn run(&self, commands: &str, server: Option<&ServerProcess>) -> Ran {
        let commands = match server {
            Some(server) => commands.replace(HTTP_ADDRESS, &server.http).replace(PG_ADDRESS, &server.pg),
            None => commands.to_owned(),
        };
        let errors = self.folder.path().join(".errors");
        let (pty, pts) = open().expect("a pseudo-terminal");
        pty.resize(Size::new(400, 80)).expect("resized");
        let mut command = Command::new("timeout")
            .args(["--foreground", SECONDS_MAX, "bash", "-euo", "pipefail", "-c", &commands])
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env("PATH", path_with_shell())
            .env("TERM", "xterm")
            .env("PAGER", "cat")
            .env("NO_COLOR", "1")
            .env_remove("COLUMNS")
            .env_remove("LINES")
            .stdin(std::process::Stdio::null())
            // Progress bars are drawn only where errors go to a terminal.
            .stderr(File::create(&errors).expect("a file"));
        if let Some(server) = server {
            let port = server.pg.rsplit(':').next().unwrap_or_default();
            command = command.env("PGHOST", "127.0.0.1").env("PGPORT", port).env("PGUSER", "reader");
        }
        let mut child = command.spawn(pts).expect("bash starts");
        let mut bytes = read_to_end(pty);
        let status = child.wait().expect("it ends");
        File::open(&errors).and_then(|mut file| file.read_to_end(&mut bytes)).expect("the errors");
        let mut printed = without_escapes(&bytes).0;
        if let Some(server) = server {
            printed = printed.replace(&server.http, HTTP_ADDRESS).replace(&server.pg, PG_ADDRESS);
        }
        Ran { printed, succeeded: status.success() }
    }
}

impl Drop for PagePlace {
    fn drop(&mut self) {
        self.stop_server();
    }
}

/// Reads what a terminal shows until the last process has left it.
fn read_to_end(mut pty: pty_process::blocking::Pty) -> Vec<u8> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match pty.read(&mut part) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The system reports an error when the last process has left the terminal.
            Ok(0) | Err(_) => return bytes,
            Ok(read) => bytes.extend_from_slice(&part[..read]),
        }
    }
}

/// The search path, with the folder of the tested shell in front.
fn path_with_shell() -> OsString {
    let folder = Path::new(SHELL).parent().expect("a folder").to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&others))).expect("a search path")
}

#[allow(clippy::print_stderr)]
fn say_skipped(reason: &str) {
    eprintln!("skipped, because {reason}");
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
