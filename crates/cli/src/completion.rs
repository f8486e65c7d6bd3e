//! Completion of keywords, tables and columns.

use rowmill::Database;
use rustyline::completion::{Completer, Pair};
use rustyline::{Context, Helper, Highlighter, Hinter, Result, Validator};

const KEYWORDS: &[&str] = &[
    "ALTER",
    "ANALYZE",
    "AND",
    "AS",
    "ASC",
    "BEGIN",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "CHECK",
    "CHECKPOINT",
    "COLUMN",
    "COMMIT",
    "COPY",
    "COUNT",
    "CREATE",
    "CROSS",
    "DATABASE",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXTRACT",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OVER",
    "PARTITION",
    "RENAME",
    "REPLACE",
    "RIGHT",
    "ROLLBACK",
    "SCHEMA",
    "SELECT",
    "SET",
    "SHOW",
    "TABLE",
    "THEN",
    "TO",
    "TRUNCATE",
    "UNION",
    "UPDATE",
    "USING",
    "VALUES",
    "VIEW",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
];

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
}

impl Completer for CompletionWords {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let before = &line[..position];
        let start = before.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
        let typed = &before[start..];
        if typed.is_empty() {
            return Ok((position, Vec::new()));
        }
        let lower = typed.to_lowercase();
        // We complete keywords in the case in which the user types.
        let small = typed.chars().all(|c| !c.is_uppercase());
        let keywords = KEYWORDS.iter().map(|word| if small { word.to_lowercase() } else { (*word).to_owned() });
        let mut words: Vec<String> =
            keywords.chain(self.names()).filter(|word| word.to_lowercase().starts_with(&lower)).collect();
        words.sort();
        words.dedup();
        Ok((start, words.into_iter().map(|word| Pair { display: word.clone(), replacement: word }).collect()))
    }
}
