//! One operator of a plan in words.

use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use regex::Regex;

use crate::errors::plain;
use crate::table_scan::ScanExec;

/// An operator as EXPLAIN shows it.
pub(super) struct Operator {
    /// What it does.
    pub(super) text: String,
    /// Who runs it.
    pub(super) engine: &'static str,
}

/// The operators by what they do.
const NAMES: &[(&str, &str)] = &[
    ("AggregateExec", "Group"),
    ("BoundedWindowAggExec", "Window"),
    ("CoalesceBatchesExec", "Join batches"),
    ("CoalescePartitionsExec", "Gather"),
    ("CooperativeExec", "Yield"),
    ("CrossJoinExec", "Cross join"),
    ("DataSourceExec", "Read"),
    ("EmptyExec", "Nothing"),
    ("FilterExec", "Filter"),
    ("GlobalLimitExec", "Limit"),
    ("HashJoinExec", "Hash join"),
    ("InterleaveExec", "Interleave"),
    ("LocalLimitExec", "Limit each thread"),
    ("NestedLoopJoinExec", "Nested loop join"),
    ("PlaceholderRowExec", "One row"),
    ("ProjectionExec", "Project"),
    ("RecursiveQueryExec", "Recursive query"),
    ("RepartitionExec", "Redistribute"),
    ("SortExec", "Sort"),
    ("SortMergeJoinExec", "Merge join"),
    ("SortPreservingMergeExec", "Merge sorted"),
    ("UnionExec", "Union"),
    ("UnnestExec", "Unnest"),
    ("WindowAggExec", "Window"),
    ("WorkTableExec", "Rows of the last round"),
];

/// The place of a column behind its name, as in `url@0`.
static COLUMN_PLACE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"@\d+\b").expect("a valid pattern"));

pub(super) fn describe(plan: &dyn ExecutionPlan, measured: bool) -> Operator {
    let native = (plan as &dyn std::any::Any).is::<ScanExec>();
    let written = Written(plan).to_string();
    let text = if native { written } else { in_words(plan.name(), &written) };
    let measures = if measured { measures(plan) } else { String::new() };
    Operator { text: text + &measures, engine: if native { "native" } else { "datafusion" } }
}

/// DataFusion's line about an operator in our words.
fn in_words(name: &str, written: &str) -> String {
    let details = written.strip_prefix(name).unwrap_or(written).trim_start_matches(':').trim();
    let details = plain(&COLUMN_PLACE.replace_all(details, ""));
    let known = NAMES.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| ours.to_string());
    let name = known.unwrap_or_else(|| spaced(name.trim_end_matches("Exec")));
    if details.is_empty() { name } else { format!("{name}: {details}") }
}

/// `SymmetricHashJoin` as `Symmetric hash join`.
fn spaced(name: &str) -> String {
    let mut out = String::new();
    for (index, ch) in name.chars().enumerate() {
        if index > 0 && ch.is_uppercase() {
            out.push(' ');
            out.extend(ch.to_lowercase());
        } else {
            out.push(ch);
        }
    }
    out
}

/// What was measured while the operator ran.
fn measures(plan: &dyn ExecutionPlan) -> String {
    let Some(metrics) = plan.metrics() else { return String::new() };
    let mut parts = Vec::new();
    if let Some(rows) = metrics.output_rows() {
        parts.push(format!("{rows} rows"));
    }
    if let Some(nanoseconds) = metrics.elapsed_compute() {
        parts.push(format!("{:.1} ms", Duration::from_nanos(nanoseconds as u64).as_secs_f64() * 1e3));
    }
    if let Some(bytes) = metrics.spilled_bytes().filter(|bytes| *bytes > 0) {
        parts.push(format!("{bytes} bytes spilled"));
    }
    if parts.is_empty() { String::new() } else { format!("  ({})", parts.join(", ")) }
}

/// An operator's own line.
struct Written<'a>(&'a dyn ExecutionPlan);

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(DisplayFormatType::Default, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lose_the_jargon() {
        assert_eq!(
            in_words("FilterExec", "FilterExec: a@0 > Int64(5) AND b@12 IS NOT NULL"),
            "Filter: a > 5 AND b IS NOT NULL"
        );
        assert_eq!(in_words("EmptyExec", "EmptyExec"), "Nothing");
        assert_eq!(in_words("StreamingTableExec", "StreamingTableExec: x"), "Streaming table: x");
    }
}
