//! Completion of commands, keywords, settings, tables and columns.

use clap::ValueEnum;
use rowmill::{Database, SETTINGS, STATEMENTS};
use rustyline::completion::{Completer, Pair};
use rustyline::{Context, Helper, Highlighter, Hinter, Result, Validator};

use crate::commands::COMMANDS;
use crate::output::Format;

/// Keywords inside of statements. The words that begin statements come from the list of statements.
const KEYWORDS: &[&str] = &[
    "ALL",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASCADE",
    "CASE",
    "CAST",
    "COLUMN",
    "CONFLICT",
    "COUNT",
    "CROSS",
    "DEFAULT",
    "DESC",
    "DISTINCT",
    "DO",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXTRACT",
    "FILTER",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IF",
    "IN",
    "INNER",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "KEY",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "ONLY",
    "OR",
    "ORDER",
    "OVER",
    "PARTITION",
    "PRIMARY",
    "RANGE",
    "READ",
    "RECURSIVE",
    "REFERENCES",
    "RENAME",
    "REPLACE",
    "RETURNING",
    "RIGHT",
    "ROWS",
    "THEN",
    "TO",
    "UNION",
    "UNIQUE",
    "USING",
    "VALUES",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
];

/// Statements whose next word is the name of a setting.
const BEFORE_SETTING: &[&str] = &["set", "show", "reset"];

/// Completes the word at the cursor.
#[derive(Helper, Highlighter, Hinter, Validator)]
pub(crate) struct CompletionWords {
    database: Database,
}

impl CompletionWords {
    pub(crate) fn new(database: &Database) -> Self {
        CompletionWords { database: database.clone() }
    }

    /// Returns the current names of tables and columns, or none if they cannot be read.
    fn names(&self) -> Vec<String> {
        let read = || -> rowmill::Result<Vec<String>> {
            let mut connection = self.database.connect()?;
            let rows = connection
                .query(
                    "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema <> \
                    'information_schema'",
                )?
                .rows()?;
            let mut names = Vec::new();
            for row in rows {
                names.push(row.get::<String>(0)?);
                names.push(row.get::<String>(1)?);
            }
            Ok(names)
        };
        read().unwrap_or_default()
    }

    /// Returns the words that may come after `before`.
    fn candidates(&self, before: &str) -> Vec<String> {
        let mut words = before.split_whitespace().map(str::to_lowercase);
        match (words.next().as_deref(), words.next()) {
            (None, _) => commands().chain(keywords()).collect(),
            (Some("\\mode"), None) => formats(),
            (Some("\\h"), _) => keywords().collect(),
            (Some("\\d"), None) => self.names(),
            (Some(first), None) if BEFORE_SETTING.contains(&first) => {
                SETTINGS.iter().map(|setting| setting.name.to_owned()).chain(keywords()).collect()
            }
            _ => keywords().chain(self.names()).collect(),
        }
    }
}

fn commands() -> impl Iterator<Item = String> {
    COMMANDS.iter().flat_map(|command| command.names).map(|name| (*name).to_owned())
}

fn keywords() -> impl Iterator<Item = String> {
    let of_statements = STATEMENTS.iter().flat_map(|info| info.name.split(' '));
    of_statements.chain(KEYWORDS.iter().copied()).map(str::to_owned)
}

fn formats() -> Vec<String> {
    let values = Format::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    values.map(|value| value.get_name().to_owned()).collect()
}

/// Where the word that ends `line` starts. The names of commands and some settings have other signs than letters.
fn word_start(line: &str) -> usize {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '\\' | '?');
    let is_setting = || {
        let first = line.split_whitespace().next().unwrap_or_default().to_lowercase();
        BEFORE_SETTING.contains(&first.as_str())
    };
    line.rfind(|c: char| !is_part(c) && (c != '.' || !is_setting()))
        .map_or(0, |at| at + line[at..].chars().next().map_or(0, char::len_utf8))
}

impl Completer for CompletionWords {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let before = &line[..position];
        let start = word_start(before);
        let typed = &before[start..];
        if typed.is_empty() {
            return Ok((position, Vec::new()));
        }
        let lower = typed.to_lowercase();
        // We complete keywords in the case in which the user types.
        let is_lower = typed.chars().all(|c| !c.is_uppercase());
        let in_case = |word: String| match is_lower && word.chars().all(|c| c.is_ascii_uppercase()) {
            true => word.to_lowercase(),
            false => word,
        };
        let candidates = self.candidates(&before[..start]).into_iter().map(in_case);
        let mut words: Vec<String> = candidates.filter(|word| word.to_lowercase().starts_with(&lower)).collect();
        words.sort();
        words.dedup();
        Ok((start, words.into_iter().map(|word| Pair { display: word.clone(), replacement: word }).collect()))
    }
}

#[cfg(test)]
mod tests {
    use rustyline::history::DefaultHistory;

    use super::*;

    /// Completes the end of `line` in a database with a table. Returns the words.
    fn completed(line: &str) -> Vec<String> {
        let database = Database::memory().expect("a database");
        let mut connection = database.connect().expect("connected");
        connection.execute_batch("CREATE TABLE Größen (länge INTEGER)").expect("made");
        let (history, words) = (DefaultHistory::new(), CompletionWords::new(&database));
        let (start, found) = words.complete(line, line.len(), &Context::new(&history)).expect("completed");
        found.into_iter().map(|pair| format!("{}{}", &line[..start], pair.replacement)).collect()
    }

    #[test]
    fn every_statement_is_completed_word_by_word() {
        for info in STATEMENTS {
            let mut typed = String::new();
            for word in info.name.split(' ') {
                let whole = format!("{typed}{word}");
                assert!(completed(&whole[..whole.len() - 1]).contains(&whole), "{whole}");
                typed = format!("{whole} ");
            }
        }
    }

    #[test]
    fn every_setting_is_completed_after_set_show_and_reset() {
        for setting in SETTINGS {
            for first in ["SET", "show", "RESET"] {
                let whole = format!("{first} {}", setting.name);
                assert!(completed(&whole[..whole.len() - 1]).contains(&whole), "{whole}");
            }
        }
    }

    #[test]
    fn every_command_and_every_format_is_completed() {
        for name in COMMANDS.iter().flat_map(|command| command.names) {
            assert!(completed(name).contains(&(*name).to_owned()), "{name}");
        }
        for format in formats() {
            assert!(completed(&format!("\\mode {}", &format[..2])).contains(&format!("\\mode {format}")), "{format}");
        }
    }

    #[test]
    fn names_and_keywords_are_completed_in_the_case_that_is_typed() {
        assert_eq!(completed("SELECT (lä"), ["SELECT (länge"]);
        assert_eq!(completed("select * from grö"), ["select * from Größen"]);
        assert_eq!(completed("select * fro"), ["select * from"]);
        assert_eq!(completed("SELECT * FRO"), ["SELECT * FROM"]);
        assert_eq!(completed("SELECT "), Vec::<String>::new());
        assert_eq!(completed("SELECT 1é—fro"), ["SELECT 1é—from"]);
    }
}
