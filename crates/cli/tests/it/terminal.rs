//! The shell in a pseudo-terminal.

use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};

use crate::SHELL;

/// A text that does not come within this time does not come at all. The machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_D: &str = "\x04";
pub(crate) const ENTER: &str = "\r";
pub(crate) const TAB: &str = "\t";
pub(crate) const UP: &str = "\x1b[A";

/// The shell in a terminal that has shown everything up to a certain text.
pub(crate) struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    arriving: Receiver<Vec<u8>>,
    /// Bytes whose escape sequence or character is not complete yet.
    partial: Vec<u8>,
    /// What was shown after the text that was last waited for, without escape sequences.
    shown: String,
    /// All bytes that have come.
    raw: Vec<u8>,
}

/// How the shell is started.
pub(crate) struct TerminalOptions<'a> {
    pub(crate) home: &'a Path,
    pub(crate) args: &'a [&'a str],
    pub(crate) lines: u16,
    pub(crate) columns: u16,
    pub(crate) pager: &'a str,
    pub(crate) env: &'a [(&'a str, &'a str)],
}

impl<'a> TerminalOptions<'a> {
    pub(crate) fn new(home: &'a Path) -> Self {
        TerminalOptions { home, args: &[], lines: 60, columns: 240, pager: "cat", env: &[] }
    }

    pub(crate) fn open(&self) -> Terminal {
        let (pty, pts) = open().expect("a pseudo-terminal");
        pty.resize(Size::new(self.lines, self.columns)).expect("resized");
        // At Ctrl-C the system first sends the signal and then discards the output, unless `noflsh` is set. The answer
        // of the shell would be lost now and then.
        let command = Command::new("sh")
            .args(["-c", "stty noflsh; exec \"$0\" \"$@\"", SHELL])
            .args(self.args)
            .current_dir(self.home)
            .env("HOME", self.home)
            .env("TERM", "xterm")
            .env("PAGER", self.pager)
            .env_remove("COLUMNS")
            .env_remove("LINES")
            .env_remove("NO_COLOR")
            .envs(self.env.iter().copied());
        let child = command.spawn(pts).expect("the shell starts");
        let pty = Arc::new(pty);
        let (sender, arriving) = channel();
        let reader = Arc::clone(&pty);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                match (&*reader).read(&mut bytes) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // The system reports an error when the last process has left the terminal.
                    Ok(0) | Err(_) => break,
                    Ok(read) => {
                        if sender.send(bytes[..read].to_vec()).is_err() {
                            break;
                        }
                    }
                }
            }
        });
        Terminal { pty, child, arriving, partial: Vec::new(), shown: String::new(), raw: Vec::new() }
    }

    /// Opens the shell and waits for its first prompt.
    pub(crate) fn open_at_prompt(&self) -> Terminal {
        let mut terminal = self.open();
        terminal.wait_for("rowmill> ");
        terminal
    }
}

impl Terminal {
    pub(crate) fn type_text(&mut self, text: &str) {
        (&*self.pty).write_all(text.as_bytes()).expect("typed");
    }

    /// Types a line, and waits for the end of its output and the next prompt. Returns the output.
    pub(crate) fn run(&mut self, line: &str) -> String {
        self.run_to(line, "rowmill> ")
    }

    /// Types a line, and waits for the end of its output and this prompt. Returns the output.
    pub(crate) fn run_to(&mut self, line: &str, prompt: &str) -> String {
        self.type_text(line);
        self.wait_for(line);
        self.type_text(ENTER);
        self.wait_for("\n");
        self.wait_for(prompt)
    }

    pub(crate) fn resize(&self, lines: u16, columns: u16) {
        self.pty.resize(Size::new(lines, columns)).expect("resized");
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `text` is shown. Returns what was shown before it.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.shown.find(text) {
                let rest = self.shown.split_off(at + text.len());
                let mut before = std::mem::replace(&mut self.shown, rest);
                before.truncate(at);
                return before;
            }
            match self.arriving.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.show(&bytes),
                Err(error) => panic!("{text:?} was not shown ({error}), but {:?}", self.shown),
            }
        }
    }

    /// Waits for the end of the shell. Returns how it ended and what it has shown.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        while let Ok(bytes) = self.arriving.recv_timeout(PATIENCE) {
            self.show(&bytes);
        }
        (self.child.wait().expect("the shell has ended"), std::mem::take(&mut self.shown))
    }

    /// Waits for the end of the shell. Returns all bytes that it has sent to the terminal.
    pub(crate) fn raw_to_end(mut self) -> Vec<u8> {
        while let Ok(bytes) = self.arriving.recv_timeout(PATIENCE) {
            self.show(&bytes);
        }
        std::mem::take(&mut self.raw)
    }

    fn show(&mut self, bytes: &[u8]) {
        self.raw.extend_from_slice(bytes);
        self.partial.extend_from_slice(bytes);
        let (shown, used) = without_escapes(&self.partial);
        self.partial.drain(..used);
        self.shown.push_str(&shown);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Removes escape sequences and carriage returns. Returns the text and the number of bytes that it was made of.
pub(crate) fn without_escapes(bytes: &[u8]) -> (String, usize) {
    let (mut text, mut at) = (Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            0x1b => match bytes.get(at + 1) {
                Some(b'[') => match bytes[at + 2..].iter().position(|byte| (0x40..=0x7e).contains(byte)) {
                    Some(end) => at += 2 + end + 1,
                    None => break,
                },
                Some(_) => at += 2,
                None => break,
            },
            b'\r' => at += 1,
            _ => {
                text.push(*byte);
                at += 1;
            }
        }
    }
    match String::from_utf8(text) {
        Ok(text) => (text, at),
        Err(error) => {
            // The last character may not be complete.
            let missing = error.as_bytes().len() - error.utf8_error().valid_up_to();
            let mut text = error.into_bytes();
            text.truncate(text.len() - missing);
            (String::from_utf8(text).expect("it was checked"), at - missing)
        }
    }
}

#[test]
fn escape_sequences_and_cut_characters_are_kept_until_they_are_complete() {
    assert_eq!(without_escapes(b"a\x1b[?2004hb\r\n\x1b="), ("ab\n".to_owned(), 14));
    assert_eq!(without_escapes(b"a\x1b[3"), ("a".to_owned(), 1));
    assert_eq!(without_escapes(&"aé".as_bytes()[..2]), ("a".to_owned(), 1));
}
