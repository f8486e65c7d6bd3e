//! The data of a `COPY ... FROM STDIN`: from the standard input, from the script that holds the statement, or from the
//! prompt.

use std::io::{self, BufRead};

use rowmill::{Error, Result};

/// The bytes taken from the standard input at a time, at most.
const PIECE_BYTES: usize = 64 << 10;

/// The line that ends data which statements follow.
pub(crate) const END_OF_DATA: &str = "\\.";

/// A source of the data.
pub(crate) trait DataLines {
    /// Is called before the data is read.
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns the next bytes, or `None` at the end of the data.
    fn next_lines(&mut self) -> Result<Option<Vec<u8>>>;
}

/// The whole standard input.
#[derive(Debug, Default)]
pub(crate) struct StandardLines {
    is_over: bool,
}

impl DataLines for StandardLines {
    fn next_lines(&mut self) -> Result<Option<Vec<u8>>> {
        if self.is_over {
            return Ok(None);
        }
        let mut input = io::stdin().lock();
        let bytes = loop {
            match input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                filled => {
                    let filled = filled.map_err(|error| Error::io("reading the standard input", &error))?;
                    break filled[..filled.len().min(PIECE_BYTES)].to_vec();
                }
            }
        };
        input.consume(bytes.len());
        self.is_over = bytes.is_empty();
        Ok((!bytes.is_empty()).then_some(bytes))
    }
}
