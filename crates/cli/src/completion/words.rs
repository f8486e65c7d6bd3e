//! Keywords inside of statements. The words that begin statements come from the list of statements.

/// The keywords, in upper case.
#[rustfmt::skip]
pub(crate) const KEYWORDS: &[&str] = &[
    "ADD", "ALL", "ALWAYS", "AND", "ANY", "AS", "ASC", "ASOF", "AT", "BETWEEN", "BY", "CASCADE", "CASE", "CAST",
    "CHECK", "COLLATE", "COLUMN", "CONFLICT", "CONSTRAINT", "CROSS", "CURRENT", "DEFAULT", "DELETE",
    "DESC", "DISTINCT", "DO", "DROP", "ELSE", "END", "ESCAPE", "EXCEPT", "EXISTS", "EXTRACT", "FALSE",
    "FETCH", "FILL", "FILTER", "FIRST", "FOLLOWING", "FOREIGN", "FORMAT", "FROM", "FULL", "FUNCTIONS",
    "GENERATED", "GROUP", "GROUPING", "HAVING", "IDENTITY", "IF", "ILIKE", "IN", "INDEX", "INNER",
    "INTERSECT", "INTERVAL", "INTO", "IS", "ISOLATION", "JOIN", "KEY", "LAST", "LATERAL", "LATEST",
    "LEFT", "LEVEL", "LIKE", "LIMIT", "LOCKED", "MATCHED", "MATERIALIZED", "NATURAL", "NEXT", "NOT",
    "NOTHING", "NOWAIT", "NULL", "NULLS", "OFFSET", "ON", "ONLY", "OR", "ORDER", "OVER", "PARTITION",
    "PRECEDING", "PRIMARY", "QUALIFY", "RANGE", "READ", "RECURSIVE", "REFERENCES", "RENAME", "REPLACE",
    "RETURNING", "RIGHT", "ROWS", "SAMPLE", "SCHEMA", "SEQUENCE", "SETS", "SIMILAR", "SKIP", "STORED",
    "SYMMETRIC", "TABLE", "THEN", "TIME",
    "TO", "TRANSACTION", "TRUE", "TTL", "UNBOUNDED", "UNION", "UNIQUE", "USING", "VALUES", "VIEW",
    "WHEN", "WHERE", "WINDOW", "WITH", "ZONE",
];
