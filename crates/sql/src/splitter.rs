//! Cuts a text that arrives in pieces into its statements and commands of the shell, so that each can run as soon as
//! it is complete. A command begins with a backslash and ends with its line.

use crate::lexer::lexemes;

/// A statement or command of a longer text, with the place where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextStatement {
    /// The statement, without blanks and comments in front of it, with its semicolon. Or the command, without the end
    /// of its line.
    pub text: String,
    /// The line where it begins, counted from 1.
    pub line: usize,
    /// The column where it begins, in characters, counted from 1.
    pub column: usize,
}

impl TextStatement {
    /// Whether it is a command of the shell.
    pub fn is_shell_command(&self) -> bool {
        self.text.starts_with('\\')
    }
}

/// Finds the statements of a text that arrives in pieces.
///
/// Every piece is read once, except for a quote, comment or word at its end, which is read again with the next piece.
#[derive(Debug)]
pub struct SqlSplitter {
    text: String,
    /// The text before this offset was returned.
    start: usize,
    /// The text between `start` and this offset consists of whole lexemes without a semicolon.
    read: usize,
    /// Where the first lexeme of the statement begins that is neither blank nor comment.
    code: Option<usize>,
    /// The place of `start`.
    line: usize,
    column: usize,
}

impl Default for SqlSplitter {
    fn default() -> Self {
        SqlSplitter { text: String::new(), start: 0, read: 0, code: None, line: 1, column: 1 }
    }
}

impl SqlSplitter {
    /// Adds the next piece of the text.
    pub fn push(&mut self, piece: &str) {
        let start = std::mem::take(&mut self.start);
        self.text.drain(..start);
        self.read -= start;
        self.code = self.code.map(|code| code - start);
        self.text.push_str(piece);
    }

    /// Returns the next statement that is complete.
    pub fn next_complete(&mut self) -> Option<TextStatement> {
        let mut at = self.read;
        for lexeme in lexemes(&self.text[at..]) {
            let end = at + lexeme.text.len();
            if lexeme.text == ";" {
                let code = self.code.take();
                let statement = self.take(code, end);
                return statement.or_else(|| self.next_complete());
            }
            // A lexeme at the end may go on in the next piece.
            if !lexeme.is_closed || end == self.text.len() {
                break;
            }
            if lexeme.text.starts_with('\\') {
                let line_end = at + self.text[at..].find('\n')?;
                if self.code.is_none() || ends_statement(&self.text[at..line_end]) {
                    let code = self.code.take().unwrap_or(at);
                    return self.take(Some(code), line_end);
                }
            }
            if lexeme.is_code() {
                self.code.get_or_insert(at);
            }
            (at, self.read) = (end, end);
        }
        None
    }

    /// Takes the rest of the line after the last statement, with its end. `None` if the end has not arrived.
    pub fn next_line(&mut self) -> Option<String> {
        let end = self.start + self.text[self.start..].find('\n')? + 1;
        Some(self.take_raw(end))
    }

    /// Takes all text after the last statement. `None` if there is none. No more pieces follow.
    pub fn rest_of_text(&mut self) -> Option<String> {
        let end = self.text.len();
        (self.start < end).then(|| self.take_raw(end))
    }

    /// Takes the text up to `end`, which is no statement.
    fn take_raw(&mut self, end: usize) -> String {
        let text = self.text[self.start..end].to_owned();
        self.pass(end);
        self.read = end;
        self.code = None;
        text
    }

    /// Returns the text after the last complete statement, unless it has only blanks and comments. No more pieces
    /// follow.
    pub fn rest(&mut self) -> Option<TextStatement> {
        let mut at = self.read;
        for lexeme in lexemes(&self.text[at..]) {
            if lexeme.is_code() {
                self.code.get_or_insert(at);
            }
            at += lexeme.text.len();
        }
        let code = self.code.take();
        self.take(code, self.text.len())
    }

    /// Takes the text up to `end`, in which a statement begins at `code`.
    fn take(&mut self, code: Option<usize>, end: usize) -> Option<TextStatement> {
        let from = code.unwrap_or(end);
        self.pass(from);
        let (line, column) = (self.line, self.column);
        let statement = code.map(|_| TextStatement { text: self.text[from..end].to_owned(), line, column });
        self.pass(end);
        self.read = end;
        statement
    }

    /// Moves `start` to `end` and counts the lines between.
    fn pass(&mut self, end: usize) {
        let passed = &self.text[self.start..end];
        match passed.rfind('\n') {
            Some(last) => {
                self.line += passed.matches('\n').count();
                self.column = 1 + passed[last + 1..].chars().count();
            }
            None => self.column += passed.chars().count(),
        }
        self.start = end;
    }
}

/// The commands that end the statement in front of them and do something with it: `SELECT 1 \gx`.
const ENDING_COMMANDS: &[&str] = &["\\g", "\\gx", "\\watch", "\\plot"];

/// Whether the command at the beginning of `text` ends the statement in front of it.
fn ends_statement(text: &str) -> bool {
    text.split_whitespace().next().is_some_and(|word| ENDING_COMMANDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&str]) -> Vec<TextStatement> {
        let mut splitter = SqlSplitter::default();
        let mut found = Vec::new();
        for piece in pieces {
            splitter.push(piece);
            found.extend(std::iter::from_fn(|| splitter.next_complete()));
        }
        found.extend(splitter.rest());
        assert_eq!(splitter.rest(), None);
        found
    }

    #[test]
    fn a_command_begins_like_a_statement_and_ends_with_its_line() {
        let text = "\\d 't;\nSELECT 1; \\timing -- x\n/* ; */ \\q";
        let texts = |found: Vec<TextStatement>| found.into_iter().map(|found| found.text).collect::<Vec<_>>();
        let expected = ["\\d 't;", "SELECT 1;", "\\timing -- x", "\\q"];
        for cut in 0..text.len() {
            assert_eq!(texts(split(&[&text[..cut], &text[cut..]])), expected, "cut at {cut}");
        }
        // Inside of a statement, a backslash is SQL.
        assert_eq!(texts(split(&["SELECT\n\\d\n;"])), ["SELECT\n\\d\n;"]);
        // Some commands end the statement in front of them.
        assert_eq!(texts(split(&["SELECT\n1 \\gx\nSELECT 2;"])), ["SELECT\n1 \\gx", "SELECT 2;"]);
        assert_eq!(texts(split(&["SELECT 1 \\g"])), ["SELECT 1 \\g"]);
    }

    #[test]
    fn the_lines_after_a_statement_can_be_taken_as_they_are() {
        let mut splitter = SqlSplitter::default();
        splitter.push("COPY t FROM STDIN; -- x\n1\t'a\n\\.\nSELECT");
        assert_eq!(splitter.next_complete().map(|found| found.text).as_deref(), Some("COPY t FROM STDIN;"));
        let lines: Vec<String> = std::iter::from_fn(|| splitter.next_line()).collect();
        assert_eq!(lines, [" -- x\n", "1\t'a\n", "\\.\n"]);
        splitter.push(" 1;");
        let next = splitter.next_complete().expect("a statement");
        assert_eq!((next.text.as_str(), next.line), ("SELECT 1;", 4));
        splitter.push("the rest");
        assert_eq!(splitter.rest_of_text().as_deref(), Some("the rest"));
        assert_eq!(splitter.rest_of_text(), None);
    }

    const TEXT: &str = "-- a; b\n ;; SELECT 'é;''' ; /* ; /* ; */ */\nSELECT E'\\';', $a$ ; $$ ; $a$, \"x;\"\n;\n\
        SELECT 1 -- the last;\n";

    #[test]
    fn semicolons_in_quotes_and_comments_do_not_end_a_statement() {
        let place = |text: &str, line, column| TextStatement { text: text.to_owned(), line, column };
        let expected = [
            place("SELECT 'é;''' ;", 2, 5),
            place("SELECT E'\\';', $a$ ; $$ ; $a$, \"x;\"\n;", 3, 1),
            place("SELECT 1 -- the last;\n", 5, 1),
        ];
        assert_eq!(split(&[TEXT]), expected);
        // The pieces may be cut anywhere, inside of quotes, comments and operators too.
        let characters: Vec<String> = TEXT.chars().map(String::from).collect();
        let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
        assert_eq!(split(&characters), expected);
        for cut in (0..TEXT.len()).filter(|cut| TEXT.is_char_boundary(*cut)) {
            assert_eq!(split(&[&TEXT[..cut], &TEXT[cut..]]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_statement_is_complete_with_its_semicolon() {
        let mut splitter = SqlSplitter::default();
        splitter.push("SELECT 1;");
        assert_eq!(splitter.next_complete().map(|found| found.text).as_deref(), Some("SELECT 1;"));
        splitter.push("\n-- only a comment\n");
        assert_eq!(splitter.next_complete(), None);
        splitter.push("SELECT");
        assert_eq!(splitter.next_complete(), None);
        assert_eq!(splitter.rest().map(|found| (found.text, found.line)), Some(("SELECT".to_owned(), 3)));
    }
}
