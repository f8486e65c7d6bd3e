//! Cases in which an oracle's answer says nothing about Rowmill's, each with its reason. The generator avoids the
//! differences of dialect that it can avoid:
//!
//! - Integer division, and the order of NULLs: we set them in DuckDB's connection (`duck.py`).
//! - Sums of narrow integers: we compute in 64 bits. We cast decimals back to few digits, because a union of
//!   DECIMAL(38, 1) and DECIMAL(3, 2) loses digits in DuckDB.
//! - Averages, deviations and quantiles: we round to six digits. Doubles are multiples of a quarter, because their sums
//!   are exact.
//! - Rows as operands, `mode`, `median`: the engines have other rules for NULL in rows, for ties, and for types.
//! - Casts that fail, division by zero, overflow: engines differ in the rows for which they evaluate an expression.
//!
//! These are wrong answers of DuckDB 2.0.0 that we have found and understood. The generator avoids the first three. We
//! recognise the others, because DuckDB gives another answer without its optimizer.
//!
//! - `WHERE nullif(w, w) LIKE '%b%'` keeps rows, although the condition is NULL.
//! - A correlated subquery with `GROUP BY CUBE (...)` over no rows gives no total.
//! - `FROM a, LATERAL (SELECT sum(k) FROM b WHERE a.x > 100 ORDER BY 1)` gives no row if no row of `b` is left.
//! - `EXISTS (SELECT 1 FROM a LEFT JOIN b ON 5 = b.g)` is false if `b` has no such row.
//! - `x NOT IN (SELECT (SELECT ...) FROM a WHERE ...)` with correlation and a subquery inside is NULL instead of true
//!   for outer rows without a row of `a`, if any of them are NULL. We recognise it, because the form with EXISTS is
//!   right.
//! - `EXISTS (SELECT 1 FROM a WHERE a.w IS DISTINCT FROM (SELECT string_agg(...) FROM b))` is false if the aggregate is
//!   NULL.

/// A known difference: the oracle, a part of its error or of Rowmill's, and the reason.
pub struct Known {
    pub oracle: &'static str,
    pub ours: &'static str,
    pub why: &'static str,
}

/// Documented failures of Rowmill for statements that the oracle answers. An entry should go when Rowmill supports the
/// statement.
pub const KNOWN: &[Known] = &[Known {
    oracle: "duckdb",
    ours: "INSERT ... ON CONFLICT with values that need more than the row is not supported",
    why: "ON CONFLICT only computes from the row itself; MERGE does the rest",
}];

/// Returns the reason why a failure of Rowmill with `message`, which `oracle` does not have, is not a finding.
pub fn known(oracle: &str, message: &str) -> Option<&'static str> {
    KNOWN.iter().find(|known| known.oracle == oracle && message.contains(known.ours)).map(|known| known.why)
}

/// Returns the reason why DataFusion's answer to `sql`, a query of the SQL suite, says nothing. The suite states our
/// rule there.
#[cfg(feature = "datafusion")]
pub fn in_suite(sql: &str) -> Option<&'static str> {
    let sql = sql.to_lowercase();
    SUITE.iter().find(|(part, _)| sql.contains(part)).map(|(_, why)| *why)
}

/// Parts of the suite's queries for which DataFusion has other rules.
#[cfg(feature = "datafusion")]
const SUITE: &[(&str, &str)] = &[];
