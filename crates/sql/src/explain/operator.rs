//! One operator of a plan in words.

use std::fmt;
use std::sync::{Arc, LazyLock};
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
    ("CrossJoinExec", "Cross join"),
    ("DataSourceExec", "Read"),
    ("EmptyExec", "Nothing"),
    ("FilterExec", "Filter"),
    ("GlobalLimitExec", "Limit"),
    ("HashJoinExec", "Hash join"),
    ("LazyMemoryExec", "Generate"),
    ("LocalLimitExec", "Limit each thread"),
    ("PlaceholderRowExec", "One row"),
    ("ProjectionExec", "Project"),
    ("RepartitionExec", "Redistribute"),
    ("SortMergeJoinExec", "Merge join"),
    ("SortPreservingMergeExec", "Merge sorted"),
    ("WindowAggExec", "Window"),
    ("WorkTableExec", "Rows of the last round"),
];

/// Operators that only pass batches on: they give way to other work and look at the cancel flag.
const SILENT: &[&str] = &["CooperativeExec", "GuardExec", "UnorderedExec"];

/// Details that say nothing to a reader of a plan.
const NOISE: &[&str] = &[" ASC NULLS LAST", ", preserve_partitioning=[false]", ", preserve_partitioning=[true]"];

/// The place of a column behind its name, as in `url@0`.
static COLUMN_PLACE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"@\d+\b").expect("a valid pattern"));

/// `plan`, or the first operator below it that does more than to pass batches on.
pub(super) fn telling(mut plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    while let (true, [input]) = (SILENT.contains(&plan.name()), plan.children().as_slice()) {
        plan = input;
    }
    plan
}

pub(super) fn describe(plan: &dyn ExecutionPlan, measured: bool) -> Operator {
    let any = plan as &dyn std::any::Any;
    let native = any.is::<ScanExec>();
    let written = Written(plan).to_string();
    let text = if native { written } else { in_words(&written) };
    let measures = if measured { measures(plan) } else { String::new() };
    Operator { text: text + &measures, engine: if native { "native" } else { "datafusion" } }
}

/// DataFusion's line about an operator in our words.
fn in_words(written: &str) -> String {
    let (name, details) = written.split_once(':').unwrap_or((written, ""));
    let mut details = COLUMN_PLACE.replace_all(details.trim(), "").into_owned();
    for noise in NOISE {
        details = details.replace(noise, "");
    }
    let details = without_call(&plain(&details), "checkpoint").replace("count(1)", "count(*)");
    let details = without_echo(&details);
    let (name, details) = match details.strip_prefix("TopK(") {
        Some(top) => ("Top rows".to_string(), top.replacen(')', "", 1)),
        None => (operator_name(name), details),
    };
    if details.is_empty() { name } else { format!("{name}: {details}") }
}

fn operator_name(name: &str) -> String {
    match NAMES.iter().find(|(theirs, _)| *theirs == name) {
        Some((_, ours)) => ours.to_string(),
        None => spaced(name.trim_end_matches("Exec")),
    }
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

/// `text` with every call of `name` replaced by its argument.
fn without_call(text: &str, name: &str) -> String {
    let call = format!("{name}(");
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(&call) {
        out.push_str(&rest[..start]);
        let inside = &rest[start + call.len()..];
        let mut depth = 1;
        let end = inside.find(|ch| {
            depth += i32::from(ch == '(') - i32::from(ch == ')');
            depth == 0
        });
        let Some(end) = end else { return text.to_string() };
        out.push_str(&inside[..end]);
        rest = &inside[end + 1..];
    }
    out + rest
}

/// `[url as url, a + 1 as next]` as `[url, a + 1 as next]`.
fn without_echo(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut item = String::new();
    let mut depth = 0;
    for ch in text.chars() {
        depth += i32::from("([".contains(ch)) - i32::from(")]".contains(ch));
        let ends_item = match ch {
            '[' => depth == 1,
            ']' => depth == 0,
            ',' => depth <= 1,
            _ => false,
        };
        if ends_item {
            out.push_str(&echo_free(&std::mem::take(&mut item)));
            out.push(ch);
        } else {
            item.push(ch);
        }
    }
    out + &echo_free(&item)
}

/// `x as x` as `x`; `t.x as x` and `x as t.x` too.
fn echo_free(item: &str) -> String {
    let bare = |name: &str| name.trim().rsplit('.').next().unwrap_or(name).to_string();
    match item.split_once(" as ") {
        Some((value, name)) if value.trim() == name.trim() || bare(value) == bare(name) => value.to_string(),
        _ => item.to_string(),
    }
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
    if let Some(scan) = (plan as &dyn std::any::Any).downcast_ref::<ScanExec>() {
        parts.extend(scan.measures());
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
        for (theirs, ours) in [
            ("FilterExec: a@0 > Int64(5) AND b@12 IS NOT NULL", "Filter: a > 5 AND b IS NOT NULL"),
            ("EmptyExec", "Nothing"),
            ("StreamingTableExec: x", "Streaming table: x"),
            ("ProjectionExec: expr=[t.a@0 as a, a@0 + 1 as b]", "Project: expr=[t.a, a + 1 as b]"),
            (
                "SortExec: TopK(fetch=10), expr=[c@1 ASC NULLS LAST, d@2 DESC], preserve_partitioning=[false]",
                "Top rows: fetch=10, expr=[c, d DESC]",
            ),
            (
                "HashJoinExec: on=[(a, b)], filter=checkpoint(f(a) > (b)), x",
                "Hash join: on=[(a, b)], filter=f(a) > (b), x",
            ),
        ] {
            assert_eq!(in_words(theirs), ours);
        }
    }
}
