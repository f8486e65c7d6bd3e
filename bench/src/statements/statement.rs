//! A statement of an application.

use super::draw::Draw;

/// How a statement is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Prepared, by itself.
    Read,
    /// Prepared, a few times in a transaction that is rolled back. Beginning it and rolling it back are not measured.
    RolledBack,
    /// Prepared, by itself: it changes rows, and every run is a commit.
    Committed,
    /// As a text with literals, that is parsed each time.
    Text,
}

/// A statement with a way to run it and values for its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    /// What it is, in a few words.
    pub name: &'static str,
    /// Its text; `?*10` stands for ten parameters with commas between them.
    sql: &'static str,
    /// Its text for SQLite, where that has other words.
    sqlite: Option<&'static str>,
    /// What its parameters are given.
    pub draws: &'static [Draw],
    /// How it is run.
    pub way: Way,
}

/// A query.
pub(super) const fn read(name: &'static str, sql: &'static str, draws: &'static [Draw]) -> Statement {
    Statement { name, sql, sqlite: None, draws, way: Way::Read }
}

/// A change that is rolled back.
pub(super) const fn change(name: &'static str, sql: &'static str, draws: &'static [Draw]) -> Statement {
    Statement { name, sql, sqlite: None, draws, way: Way::RolledBack }
}

/// A change that is committed.
pub(super) const fn commit(name: &'static str, sql: &'static str, draws: &'static [Draw]) -> Statement {
    Statement { name, sql, sqlite: None, draws, way: Way::Committed }
}

/// A query that is not prepared.
pub(super) const fn text(name: &'static str, sql: &'static str, draws: &'static [Draw]) -> Statement {
    Statement { name, sql, sqlite: None, draws, way: Way::Text }
}

impl Statement {
    /// With other words for SQLite.
    pub(super) const fn sqlite(self, sql: &'static str) -> Statement {
        Statement { sqlite: Some(sql), ..self }
    }

    /// The text for Rowmill.
    pub fn rowmill_text(&self) -> String {
        expanded(self.sql)
    }

    /// The text for SQLite.
    pub fn sqlite_text(&self) -> String {
        expanded(self.sqlite.unwrap_or(self.sql))
    }

    /// Whether the name or the text has `part` in it.
    pub fn has(&self, part: &str) -> bool {
        self.name.contains(part) || self.sql.contains(part)
    }

    /// Whether the order of its rows is asked for: an ORDER BY that is in no parentheses.
    pub fn is_ordered(&self) -> bool {
        let mut depth = 0;
        self.sql.char_indices().any(|(at, letter)| {
            match letter {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            depth == 0 && self.sql[at..].starts_with("ORDER BY")
        })
    }

    /// The table that it changes.
    pub fn changed_table(&self) -> Option<&'static str> {
        let after = |word| self.sql.split_once(word).map(|(_, rest)| rest);
        let rest = match self.way {
            Way::Read | Way::Text => None,
            Way::RolledBack | Way::Committed => {
                after("INSERT INTO ").or_else(|| after("UPDATE ")).or_else(|| after("DELETE FROM "))
            }
        }?;
        rest.split([' ', '(']).next()
    }
}

/// With the parameters that `?*10` stands for.
fn expanded(sql: &str) -> String {
    let mut out = String::new();
    let mut rest = sql;
    while let Some((before, after)) = rest.split_once("?*") {
        let digits = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        let times = after[..digits].parse().unwrap_or(1);
        out.push_str(before);
        out.push_str(&vec!["?"; times].join(", "));
        rest = &after[digits..];
    }
    out.push_str(rest);
    out
}

/// The text with `literals` in the place of its parameters.
pub(super) fn with_literals(sql: &str, literals: impl Iterator<Item = String>) -> String {
    let mut literals = literals;
    let mut parts = sql.split('?');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(&literals.next().unwrap_or_else(|| "NULL".to_owned()));
        out.push_str(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_parameters_are_written_out() {
        assert_eq!(
            expanded("SELECT a FROM t WHERE id IN (?*3) AND b = ?"),
            "SELECT a FROM t WHERE id IN (?, ?, ?) AND b = ?"
        );
        let texts = ["1".to_owned(), "'x'".to_owned()];
        assert_eq!(with_literals("a = ? OR b = ?", texts.into_iter()), "a = 1 OR b = 'x'");
    }

    #[test]
    fn an_order_in_parentheses_is_none_of_the_rows() {
        assert!(read("", "SELECT a FROM t ORDER BY a", &[]).is_ordered());
        assert!(!read("", "SELECT row_number() OVER (ORDER BY a) FROM t", &[]).is_ordered());
    }

    #[test]
    fn the_changed_table_stands_after_the_verb() {
        assert_eq!(change("", "UPDATE orders SET a = 1", &[]).changed_table(), Some("orders"));
        assert_eq!(commit("", "INSERT INTO carts(a) VALUES (1)", &[]).changed_table(), Some("carts"));
        assert_eq!(read("", "SELECT 1", &[]).changed_table(), None);
    }
}
