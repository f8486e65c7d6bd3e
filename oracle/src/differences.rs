//! Where an oracle's answer says nothing about Rowmill's, each with its reason. Differences of dialect that the generator can avoid are
//! avoided there instead:
//!
//! - Integer division, the order of NULLs: settings of DuckDB's connection (`duck.py`).
//! - Sums of narrow integers: arithmetic is in 64 bits. Decimals are cast back to few digits, because a union of DECIMAL(38, 1) and
//!   DECIMAL(3, 2) loses digits in DuckDB.
//! - Averages, deviations and quantiles are rounded to six digits; doubles are multiples of a quarter, whose sums are exact.
//! - Rows as operands, `mode`, `median`: the engines have other rules for NULL in rows, for ties, for types.
//! - Casts that fail, division by zero, overflow: engines differ in which rows they evaluate an expression for.
//!
//! Wrong answers of DuckDB 2.0.0 that were found and understood. The first three are avoided; the others are recognised, because
//! DuckDB answers otherwise without its optimizer.
//!
//! - `WHERE nullif(w, w) LIKE '%b%'` keeps rows, although the condition is NULL.
//! - A correlated subquery with `GROUP BY CUBE (...)` over no rows gives no total.
//! - `FROM a, LATERAL (SELECT sum(k) FROM b WHERE a.x > 100 ORDER BY 1)` gives no row where no row of `b` is left.
//! - `EXISTS (SELECT 1 FROM a LEFT JOIN b ON 5 = b.g)` is false where `b` has no such row.
//! - `x NOT IN (SELECT (SELECT ...) FROM a WHERE ...)` with correlation and a subquery within it is NULL instead of true where the
//!   rows of the outer query have none of `a`, if any of those are NULL. Recognised, because the same with EXISTS is right.
//! - `EXISTS (SELECT 1 FROM a WHERE a.w IS DISTINCT FROM (SELECT string_agg(...) FROM b))` is false where the aggregate is NULL.

/// A difference that is known: the oracle, a text of its error or of Rowmill's, and why.
pub struct Known {
    pub oracle: &'static str,
    pub ours: &'static str,
    pub why: &'static str,
}

/// Failures of Rowmill that are documented, where the oracle answers.
pub const KNOWN: &[Known] = &[Known {
    oracle: "duckdb",
    ours: "INSERT ... ON CONFLICT with values that need more than the row is not supported",
    why: "ON CONFLICT computes from the row alone; MERGE is for the rest",
}];

/// Why `message`, with which Rowmill failed where `oracle` answered, is no finding.
pub fn known(oracle: &str, message: &str) -> Option<&'static str> {
    KNOWN.iter().find(|known| known.oracle == oracle && message.contains(known.ours)).map(|known| known.why)
}

/// Why DataFusion's answer to `sql`, a query of the SQL suite, says nothing: the suite states our rule there.
#[cfg(feature = "datafusion")]
pub fn in_suite(sql: &str) -> Option<&'static str> {
    let sql = sql.to_lowercase();
    SUITE.iter().find(|(part, _)| sql.contains(part)).map(|(_, why)| *why)
}

/// Parts of queries of the suite for which DataFusion has other rules.
#[cfg(feature = "datafusion")]
const SUITE: &[(&str, &str)] = &[];
