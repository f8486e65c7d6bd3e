//! Completion by place: statements at the beginning, tables after FROM, columns of the tables that the statement names,
//! functions, settings, formats, names of files, and keywords.
//!
//! - `place`: what may come at the cursor.
//! - `names`: tables, columns and functions of the database.
//! - `words`: keywords.

mod names;
mod place;
mod words;

use clap::ValueEnum;
use rowmill::text::LexemeKind;
use rowmill::{Database, SETTINGS, STATEMENTS};
use rustyline::Result;
use rustyline::completion::{FilenameCompleter, Pair};

use self::names::CatalogNames;
use self::place::{Expected, StatementPlace};
pub(crate) use self::words::KEYWORDS;
use crate::commands::{ArgumentKind, COMMANDS, argument_kind};
use crate::output::Format;

/// Finds the words that may come at the cursor.
pub(crate) struct Completion {
    names: CatalogNames,
    files: FilenameCompleter,
}

impl Completion {
    pub(crate) fn new(database: &Database) -> Completion {
        Completion { names: CatalogNames::new(database), files: FilenameCompleter::new() }
    }

    /// Completes the word in `line` at the byte `cursor`. `before` are the earlier lines of the statement. Returns
    /// where the word starts and what may take its place.
    pub(crate) fn complete(&self, before: &str, line: &str, cursor: usize) -> Result<(usize, Vec<Pair>)> {
        let typed_line = &line[..cursor];
        if before.trim().is_empty() && typed_line.trim_start().starts_with('\\') {
            return self.complete_command(typed_line);
        }
        let (typed_text, whole) = (format!("{before}{typed_line}"), format!("{before}{line}"));
        let place = StatementPlace::of(&typed_text, &whole);
        if place.expected == Expected::File {
            return self.files.complete_path(line, cursor);
        }
        let start = word_start(typed_line, place.expected == Expected::Setting);
        let typed = &typed_line[start..];
        if typed.is_empty() && place.qualifier.is_none() {
            return Ok((cursor, Vec::new()));
        }
        Ok((start, matching(typed, self.candidates(&place))))
    }

    /// The words that may come at a place, whatever the user has typed of the word.
    fn candidates(&self, place: &StatementPlace) -> Vec<String> {
        if let Some(qualifier) = &place.qualifier {
            return self.names.columns_of(&place.tables, Some(qualifier));
        }
        match place.expected {
            Expected::Start => keywords().chain(commands()).collect(),
            Expected::Relation => self.names.relations().into_iter().chain(keywords()).collect(),
            Expected::Setting => SETTINGS.iter().map(|setting| setting.name.to_owned()).chain(keywords()).collect(),
            Expected::Value => {
                let columns = self.names.columns_of(&place.tables, None);
                columns.into_iter().chain(self.names.functions()).chain(keywords()).collect()
            }
            Expected::Keyword => keywords().collect(),
            Expected::File => Vec::new(),
        }
    }

    /// Completes the name of a command, or its argument.
    fn complete_command(&self, typed: &str) -> Result<(usize, Vec<Pair>)> {
        let start =
            typed.rfind(char::is_whitespace).map_or(0, |at| at + typed[at..].chars().next().map_or(0, char::len_utf8));
        let word = &typed[start..];
        let Some((name, argument)) = typed.trim_start().split_once(char::is_whitespace) else {
            return Ok((start, matching(word, commands().collect())));
        };
        let candidates = match argument_kind(name) {
            ArgumentKind::None => Vec::new(),
            ArgumentKind::File => return self.files.complete_path(typed, typed.len()),
            ArgumentKind::Format => formats(),
            ArgumentKind::Relation => self.names.relations(),
            ArgumentKind::Statement => keywords().collect(),
            ArgumentKind::Copy => {
                let is_file =
                    argument.split_whitespace().any(|word| ["from", "to"].contains(&word.to_lowercase().as_str()));
                if is_file {
                    return self.files.complete_path(typed, typed.len());
                }
                self.names.relations().into_iter().chain(keywords()).collect()
            }
        };
        Ok((start, matching(word, candidates)))
    }
}

/// Returns the candidates that begin with `typed`. Keywords get the case in which the user types.
fn matching(typed: &str, candidates: Vec<String>) -> Vec<Pair> {
    let lower = typed.to_lowercase();
    let is_lower = typed.chars().all(|c| !c.is_uppercase());
    let in_case = |word: String| match is_lower && word.chars().all(|c| c.is_ascii_uppercase()) {
        true => word.to_lowercase(),
        false => word,
    };
    let begins = |word: &String| word.trim_start_matches('"').to_lowercase().starts_with(lower.trim_start_matches('"'));
    let mut words: Vec<String> = candidates.into_iter().map(in_case).filter(begins).collect();
    words.sort();
    words.dedup();
    words.into_iter().map(|word| Pair { display: word.clone(), replacement: word }).collect()
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

/// Where the word that ends `line` starts. The names of some settings have other signs than letters.
fn word_start(line: &str, is_setting: bool) -> usize {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.rfind(|c: char| !is_part(c) && (c != '.' || !is_setting))
        .map_or(0, |at| at + line[at..].chars().next().map_or(0, char::len_utf8))
}

/// Whether a lexeme is a name.
fn is_name(kind: LexemeKind) -> bool {
    matches!(kind, LexemeKind::Word | LexemeKind::QuotedName)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Completes the end of `line` in a database with two tables. Returns the lines.
    fn completed(line: &str) -> Vec<String> {
        completed_at(line, "")
    }

    /// Completes the end of `line`, which `after` follows.
    fn completed_at(line: &str, after: &str) -> Vec<String> {
        let database = Database::memory().expect("a database");
        let mut connection = database.connect().expect("connected");
        let sql =
            "CREATE TABLE Größen (länge INTEGER); CREATE TABLE towns (name TEXT, people INTEGER, \"a b\" INTEGER)";
        connection.execute_batch(sql).expect("made");
        let completion = Completion::new(&database);
        let (start, found) = completion.complete("", &format!("{line}{after}"), line.len()).expect("completed");
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

    #[test]
    fn tables_come_after_from_and_columns_elsewhere() {
        assert_eq!(completed("SELECT * FROM tow"), ["SELECT * FROM towns"]);
        assert_eq!(completed("SELECT * FROM Größen, tow"), ["SELECT * FROM Größen, towns"]);
        assert_eq!(completed("INSERT INTO tow"), ["INSERT INTO towns"]);
        // Only the columns of the tables in the statement, also if those come later.
        assert_eq!(completed("SELECT * FROM Größen WHERE peo"), Vec::<String>::new());
        assert_eq!(completed_at("SELECT peo", " FROM towns"), ["SELECT people"]);
        assert_eq!(
            completed_at("SELECT t.", " FROM towns AS t"),
            ["SELECT t.\"a b\"", "SELECT t.name", "SELECT t.people"]
        );
        assert_eq!(completed("UPDATE towns SET peo"), ["UPDATE towns SET people"]);
    }

    #[test]
    fn functions_come_where_a_value_is_expected() {
        assert_eq!(completed("SELECT date_tr"), ["SELECT date_trunc("]);
        assert_eq!(completed("SELECT name date_tr"), Vec::<String>::new());
        assert_eq!(completed("select sum(people), medi"), ["select sum(people), median("]);
    }

    #[test]
    fn files_come_in_quotes_and_after_commands() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("visits.csv"), "").expect("written");
        let path = folder.path().display();
        for begin in ["SELECT * FROM '", "COPY towns FROM '", "\\i ", "\\copy towns FROM "] {
            let found = completed(&format!("{begin}{path}/vis"));
            assert_eq!(found, [format!("{begin}{path}/visits.csv")], "{begin}");
        }
    }
}
