//! The standard output and the terminal.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use console::Term;
use rowmill::{Error, Result};

/// Columns and lines of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScreenSize {
    pub(crate) columns: usize,
    pub(crate) lines: usize,
}

/// The size of a terminal that does not tell.
const USUAL_SIZE: ScreenSize = ScreenSize { columns: 80, lines: 24 };

/// Whether a write found that the reader of the output has left, as in `rowmill db -c ... | head`.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Returns the size of the terminal that shows the output. `None` if the output goes elsewhere.
pub(crate) fn screen_size() -> Option<ScreenSize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    // A terminal without a size reports zeros.
    let told = Term::stdout().size_checked().filter(|(lines, columns)| *lines > 0 && *columns > 0);
    Some(match told {
        Some((lines, columns)) => ScreenSize { columns: columns.into(), lines: lines.into() },
        None => ScreenSize {
            columns: from_environment("COLUMNS").unwrap_or(USUAL_SIZE.columns),
            lines: from_environment("LINES").unwrap_or(USUAL_SIZE.lines),
        },
    })
}

fn from_environment(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok().filter(|size| *size > 0)
}

/// Whether the reader of the output has left. The program should then end without an error.
pub(crate) fn is_output_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

/// The standard output, which remembers that its reader has left.
#[derive(Debug)]
pub(crate) struct Output(Stdout);

impl Output {
    /// A buffered writer of the output. Its owner must flush it, because dropping it would hide an error.
    pub(crate) fn buffered() -> BufWriter<Output> {
        BufWriter::new(Output(io::stdout()))
    }
}

fn noted<T>(result: io::Result<T>) -> io::Result<T> {
    if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        IS_CLOSED.store(true, Ordering::Relaxed);
    }
    result
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        noted(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        noted(self.0.flush())
    }
}

/// Writes `text` to the output at once.
pub(crate) fn say(text: &str) -> Result<()> {
    let mut out = Output(io::stdout());
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| output_error(&error))
}

/// Writes a line to the error output. If that fails, there is no place to report it to.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// The error for an output that cannot be written.
pub(crate) fn output_error(error: &io::Error) -> Error {
    Error::io("writing the output", error)
}
