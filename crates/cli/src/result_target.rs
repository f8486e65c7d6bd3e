//! Where results go: to the screen, or to a file (`\o`, `\g`).

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use rowmill::{Error, Result};

use crate::terminal::{Output, output_error};

/// Where results go.
#[derive(Debug)]
pub(crate) enum ResultTarget {
    /// The standard output.
    Screen,
    File(ResultFile),
    /// Results are not printed.
    Nowhere,
}

impl ResultTarget {
    /// Empties or creates a file for results.
    pub(crate) fn file(path: &Path) -> Result<ResultTarget> {
        File::create(path).map_err(|error| failed(path, &error))?;
        Ok(ResultTarget::File(ResultFile { path: path.to_owned() }))
    }

    /// Calls `work` with a writer of the target.
    pub(crate) fn write<T>(&mut self, work: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
        let mut screen;
        let mut file;
        let mut nowhere = std::io::sink();
        let out: &mut dyn Write = match self {
            ResultTarget::Screen => {
                screen = Output::buffered();
                &mut screen
            }
            ResultTarget::File(target) => {
                file = target.writer()?;
                &mut file
            }
            ResultTarget::Nowhere => &mut nowhere,
        };
        let result = work(out)?;
        out.flush().map_err(|error| output_error(&error))?;
        Ok(result)
    }
}

/// A file that takes the results of several statements.
#[derive(Debug)]
pub(crate) struct ResultFile {
    path: PathBuf,
}

impl ResultFile {
    /// A writer at the end of the file. The file is closed between statements, so that the user finds all results in
    /// it.
    pub(crate) fn writer(&self) -> Result<BufWriter<File>> {
        let file = OpenOptions::new().append(true).create(true).open(&self.path);
        file.map(BufWriter::new).map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format!("writing the file {}", path.display()), error)
}
