//! What may come at the cursor of an unfinished statement.

use rowmill::text::{Lexeme, LexemeKind, lexemes};

use super::is_name;
use crate::highlight::is_keyword;

/// A table that a statement names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedTable {
    pub(super) name: String,
    alias: Option<String>,
}

impl NamedTable {
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.alias.as_deref().unwrap_or(&self.name).eq_ignore_ascii_case(name)
    }
}

/// What may come at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// The beginning of a statement.
    Start,
    Relation,
    Setting,
    /// A value: a column, a call, or a keyword before a value.
    Value,
    /// What follows a value or a name.
    Keyword,
    /// The name of a file, inside of quotes.
    File,
}

/// The place of the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StatementPlace {
    pub(super) expected: Expected,
    /// The name in front of a dot.
    pub(super) qualifier: Option<String>,
    /// The tables of the statement.
    pub(super) tables: Vec<NamedTable>,
}

/// Statements whose next word is the name of a setting.
const BEFORE_SETTING: &[&str] = &["set", "show", "reset"];

/// Words whose next word is the name of a table or view.
const BEFORE_RELATION: &[&str] = &[
    "from",
    "join",
    "into",
    "update",
    "table",
    "view",
    "describe",
    "desc",
    "copy",
    "truncate",
    "analyze",
    "references",
];

impl StatementPlace {
    /// The place at the end of `typed`, the beginning of `whole`.
    pub(super) fn of(typed: &str, whole: &str) -> StatementPlace {
        let before: Vec<Lexeme<'_>> = last_statement(typed);
        let all: Vec<Lexeme<'_>> = lexemes(whole).filter(Lexeme::is_code).collect();
        let tables = tables_of(&all);
        let is_in_quotes = before.last().is_some_and(|last| last.kind == LexemeKind::Text && !last.is_closed);
        if is_in_quotes {
            let follows_from =
                before.len() > 1 && is_one_of(before[before.len() - 2].text, &["from", "to", "database"]);
            let expected = if follows_from { Expected::File } else { Expected::Keyword };
            return StatementPlace { expected, qualifier: None, tables };
        }
        let (before, _) = without_word(&before, typed);
        let qualifier = match before {
            [.., name, dot] if dot.text == "." && is_name(name.kind) => Some(name.text.trim_matches('"').to_owned()),
            _ => None,
        };
        let is_setting = before.first().is_some_and(|first| is_one_of(first.text, BEFORE_SETTING))
            && before.iter().skip(1).all(|lexeme| lexeme.text == "." || is_name(lexeme.kind));
        // The names of some settings have dots.
        let qualifier = qualifier.filter(|_| !is_setting);
        let expected = if is_setting && before.len() < 4 { Expected::Setting } else { expected_after(before) };
        StatementPlace { expected, qualifier, tables }
    }
}

/// The lexemes of the last statement of a text, without blanks and comments.
fn last_statement(text: &str) -> Vec<Lexeme<'_>> {
    let all: Vec<Lexeme<'_>> = lexemes(text).filter(Lexeme::is_code).collect();
    let start = all.iter().rposition(|lexeme| lexeme.text == ";").map_or(0, |at| at + 1);
    all[start..].to_vec()
}

/// Takes the word that is being typed off the end.
fn without_word<'l, 't>(before: &'l [Lexeme<'t>], typed: &str) -> (&'l [Lexeme<'t>], bool) {
    match before.split_last() {
        Some((last, rest)) if last.kind == LexemeKind::Word && typed.ends_with(last.text) => (rest, true),
        _ => (before, false),
    }
}

fn expected_after(before: &[Lexeme<'_>]) -> Expected {
    let Some(last) = before.last() else { return Expected::Start };
    if is_one_of(last.text, BEFORE_RELATION) {
        return Expected::Relation;
    }
    if last.text == "," && is_in_table_list(before) {
        return Expected::Relation;
    }
    match last.kind {
        LexemeKind::Word if is_keyword(last.text) => Expected::Value,
        LexemeKind::Word | LexemeKind::QuotedName | LexemeKind::Number | LexemeKind::Text => Expected::Keyword,
        LexemeKind::Symbol if is_star_of_columns(before) => Expected::Keyword,
        LexemeKind::Symbol if !matches!(last.text, ")" | "]") => Expected::Value,
        _ => Expected::Keyword,
    }
}

/// Whether the last lexeme stands for all columns and is no multiplication.
fn is_star_of_columns(before: &[Lexeme<'_>]) -> bool {
    match before {
        [.., previous, star] if star.text == "*" => {
            matches!(previous.text, "," | "(" | ".") || is_keyword(previous.text)
        }
        _ => false,
    }
}

/// Whether a comma at the end separates tables: its clause began with FROM.
fn is_in_table_list(before: &[Lexeme<'_>]) -> bool {
    let mut depth = 0_i32;
    for lexeme in before.iter().rev() {
        match lexeme.text {
            ")" => depth += 1,
            "(" => depth -= 1,
            text if depth == 0 && is_keyword(text) && !text.eq_ignore_ascii_case("as") => {
                return is_one_of(text, &["from", "join"]);
            }
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    false
}

/// The tables that a statement names after FROM and the like, with their aliases.
fn tables_of(all: &[Lexeme<'_>]) -> Vec<NamedTable> {
    let mut tables = Vec::new();
    for place in 1..all.len() {
        let follows = is_one_of(all[place - 1].text, BEFORE_RELATION)
            || (all[place - 1].text == "," && is_in_table_list(&all[..place]));
        if !follows || !is_name(all[place].kind) {
            continue;
        }
        // A table may have a schema in front of it.
        let mut end = place;
        while all.get(end + 1).is_some_and(|lexeme| lexeme.text == ".") && end + 2 < all.len() {
            end += 2;
        }
        let name = all[end].text.trim_matches('"').to_owned();
        let mut after = all[end + 1..].iter().skip_while(|lexeme| lexeme.text.eq_ignore_ascii_case("as"));
        let alias = after.next().filter(|lexeme| is_name(lexeme.kind) && !is_keyword(lexeme.text));
        tables.push(NamedTable { name, alias: alias.map(|alias| alias.text.trim_matches('"').to_owned()) });
    }
    tables
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}
