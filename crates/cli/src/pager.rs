//! Shows output that is longer than the screen through the user's pager.
//!
//! The pager starts as soon as the output no longer fits the screen. From then on it gets the output as it is made, so
//! that even a long result takes little memory.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

use crate::progress::Bar;
use crate::terminal::{Output, ScreenSize};

/// A writer to the screen, through a pager if the output is long.
pub(crate) struct Pager {
    screen: ScreenSize,
    bar: Bar,
    /// The output so far, until it is longer than the screen.
    text: Vec<u8>,
    lines: usize,
    /// Columns of the last line.
    columns: usize,
    /// Whether the output is inside of the sequence of a colour, which takes no column.
    in_escape: bool,
    stage: PagerStage,
}

enum PagerStage {
    /// The output still fits the screen.
    Gathering,
    /// The pager runs.
    Paging(Child),
    /// There is no pager.
    Direct,
    /// The user has left the pager.
    Left,
}

impl Pager {
    /// Makes a pager for one result. While it runs, `bar` must not be drawn.
    pub(crate) fn new(screen: ScreenSize, bar: &Bar) -> Pager {
        let (text, stage) = (Vec::new(), PagerStage::Gathering);
        Pager { screen, bar: bar.clone(), text, lines: 0, columns: 0, in_escape: false, stage }
    }

    /// Whether the user has left the pager before the end of the output.
    pub(crate) fn is_left(&self) -> bool {
        matches!(self.stage, PagerStage::Left)
    }

    /// Shows the rest, and waits until the user leaves the pager.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let result = match &mut self.stage {
            PagerStage::Gathering | PagerStage::Direct => {
                let mut out = Output::buffered();
                out.write_all(&std::mem::take(&mut self.text))?;
                out.flush()
            }
            PagerStage::Paging(child) => {
                // Closing its input tells the pager that this is all.
                drop(child.stdin.take());
                child.wait().map(drop)
            }
            PagerStage::Left => Ok(()),
        };
        self.bar.hush(false);
        result
    }

    /// Counts lines and columns, and returns whether the output still fits the screen.
    fn fits(&mut self, bytes: &[u8]) -> bool {
        let mut is_wide = false;
        for byte in bytes {
            match byte {
                0x1b => self.in_escape = true,
                _ if self.in_escape => self.in_escape = !byte.is_ascii_alphabetic(),
                b'\n' => (self.lines, self.columns) = (self.lines + 1, 0),
                // The later bytes of a character.
                0x80..=0xbf => {}
                _ => self.columns += 1,
            }
            is_wide |= self.columns > self.screen.columns;
        }
        // The prompt needs a line too.
        !is_wide && self.lines < self.screen.lines
    }

    fn start(&mut self) -> io::Result<()> {
        self.stage = match start_pager() {
            Ok(child) => {
                self.bar.hush(true);
                PagerStage::Paging(child)
            }
            Err(_) => PagerStage::Direct,
        };
        let text = std::mem::take(&mut self.text);
        self.write_all(&text)
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.stage {
            PagerStage::Gathering => {
                self.text.extend_from_slice(bytes);
                if !self.fits(bytes) {
                    self.start()?;
                }
                Ok(bytes.len())
            }
            PagerStage::Paging(child) => {
                let input = child.stdin.as_mut().expect("the input is open until the end");
                let written = input.write(bytes);
                if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
                    let _ = child.wait();
                    self.stage = PagerStage::Left;
                }
                written
            }
            PagerStage::Direct => {
                let mut out = Output::buffered();
                out.write_all(bytes)?;
                out.flush()?;
                Ok(bytes.len())
            }
            PagerStage::Left => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts `$PAGER`, by default `less`.
fn start_pager() -> io::Result<Child> {
    let pager = std::env::var("PAGER").unwrap_or_else(|_| "less -SFRX".to_owned());
    let mut words = pager.split_whitespace();
    let program = words.next().ok_or(io::ErrorKind::NotFound)?;
    Command::new(program).args(words).stdin(Stdio::piped()).spawn()
}
