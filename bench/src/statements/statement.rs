//! A statement of an application.

use super::draw::Draw;

/// The way in which a statement is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Prepared and run by itself.
    Read,
    /// Prepared and run a few times in a transaction that is rolled back. The time excludes the beginning and the
    /// rollback.
    RolledBack,
    /// Prepared and run by itself. It changes rows, and every run is a commit.
    Committed,
    /// Given as a text with literals, which must be parsed in each run.
    Text,
}

/// A statement with the way to run it and the values for its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    /// A short description.
    pub name: &'static str,
    /// The text. `?*10` stands for ten parameters with commas between them.
    sql: &'static str,
    /// The text for SQLite, if it must differ.
    sqlite: Option<&'static str>,
    /// The values of the parameters.
    pub draws: &'static [Draw],
    /// The way in which it is run.
    pub way: Way,
}

/// Makes a query.
pub(super) const fn read(name: &'static str, sql: &'static str, draws: &'static [Draw]) -> Statement {
    Statement { name, sql, sqlite: None, draws, way: Way::Read }
}

/// Makes a change that is rolled back.
pub(super) const fn change(name: &'static str, sql: &'static str, draws: &'static [Draw]) -> Statement {
    Statement { name, sql, sqlite: None, draws, way: Way::RolledBack }
}

/// Makes a change that is committed.
pub(super) const fn commit(name: &'static str, sql: &'static str, draws: &'static [Draw]) -> Statement {
    Statement { name, sql, sqlite: None, draws, way: Way::Committed }
}

/// Makes a query that is not prepared.
pub(super) const fn text(name: &'static str, sql: &'static str, draws: &'static [Draw]) -> Statement {
    Statement { name, sql, sqlite: None, draws, way: Way::Text }
}

impl Statement {
    /// Sets a different text for SQLite.
    pub(super) const fn sqlite(self, sql: &'static str) -> Statement {
        Statement { sqlite: Some(sql), ..self }
    }

    /// Returns the text for Rowmill.
    pub fn rowmill_text(&self) -> String {
        expanded(self.sql)
    }

    /// Returns the text for SQLite.
    pub fn sqlite_text(&self) -> String {
        expanded(self.sqlite.unwrap_or(self.sql))
    }

    /// Whether the name or the text contains `part`.
    pub fn has(&self, part: &str) -> bool {
        self.name.contains(part) || self.sql.contains(part)
    }

    /// Whether the rows have an order: the text has an ORDER BY outside of all parentheses.
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

    /// Returns the table that the statement changes.
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

/// Replaces `?*10` by ten parameters.
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

/// Replaces the parameters of a text by `literals`.
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
    fn an_order_in_parentheses_does_not_order_the_rows() {
        assert!(read("", "SELECT a FROM t ORDER BY a", &[]).is_ordered());
        assert!(!read("", "SELECT row_number() OVER (ORDER BY a) FROM t", &[]).is_ordered());
    }

    #[test]
    fn the_changed_table_is_the_word_after_the_verb() {
        assert_eq!(change("", "UPDATE orders SET a = 1", &[]).changed_table(), Some("orders"));
        assert_eq!(commit("", "INSERT INTO carts(a) VALUES (1)", &[]).changed_table(), Some("carts"));
        assert_eq!(read("", "SELECT 1", &[]).changed_table(), None);
    }
}
