//! The text of a native plan for EXPLAIN.

use std::borrow::Cow;
use std::cell::OnceCell;

use arrow::datatypes::SchemaRef;

use crate::{
    Aggregate, AggregateOrder, Expand, Expr, Fill, Group, Join, JoinKind, KeySet, Latest, Node, OrderedJoin, Predicate,
    Scan, Series, SortKey, Unnest, Window,
};

/// Resolves the numbers of a plan to names.
pub trait Names {
    /// The name of the table at this position in the plan's list.
    fn table(&self, table: usize) -> &str;

    /// The name of a column of that table, by its position in the table's definition.
    fn column(&self, table: usize, column: usize) -> &str;

    /// Blocks and rows of that table.
    fn size(&self, table: usize) -> (usize, u64);

    /// Describes in words how the rows of a keyed table are found. With `first`, for a scan that needs only the first
    /// rows of an order.
    fn access(&self, _scan: &Scan, _first: Option<(&[SortKey], usize)>) -> Option<String> {
        None
    }

    /// Describes in words how the engine carries out a join along an order, if it is not the usual way.
    fn ordered_join_way(&self, _join: &OrderedJoin) -> Option<String> {
        None
    }

    /// The SQL text of the function at this position in the plan's list.
    fn function(&self, function: usize) -> &str;
}

/// The column names of an operator's input, computed at the first use. Names are built from the names of the inputs
/// below. Without the cache, each expression would compute them again, and the cost would multiply with each level of
/// the plan.
struct InputNames<'a> {
    input: &'a Node,
    names: &'a dyn Names,
    columns: OnceCell<Vec<Cow<'a, str>>>,
}

impl<'a> InputNames<'a> {
    fn new(input: &'a Node, names: &'a dyn Names) -> InputNames<'a> {
        InputNames { input, names, columns: OnceCell::new() }
    }

    fn column(&self, column: usize) -> &str {
        &self.columns.get_or_init(|| self.input.column_names(self.names))[column]
    }
}

/// Columns that a line lists. With more, it only shows their number.
const COLUMNS_SHOWN_MAX: usize = 12;

impl Node {
    /// The operator as one line, without its inputs.
    pub fn line(&self, names: &dyn Names) -> String {
        match self {
            Node::Scan(scan) => scan_line(scan, names),
            Node::Latest(latest) => latest_line(latest, names),
            Node::Filter { input, condition, .. } => {
                format!("Filter: {}", shown(*condition, &InputNames::new(input, names)))
            }
            Node::Project { input, exprs, .. } => match exprs.len() {
                few if few <= COLUMNS_SHOWN_MAX => {
                    format!("Project: [{}]", list(exprs.iter().copied(), &InputNames::new(input, names)))
                }
                many => format!("Project: {many} columns"),
            },
            Node::Group { input, group, .. } => group_line(group, &InputNames::new(input, names)),
            Node::Expand(expand) => expand_line(expand, names),
            Node::Join(join) => join_line(join, names),
            Node::OrderedJoin(join) => {
                let (left, right) = (InputNames::new(&join.left, names), InputNames::new(&join.right, names));
                let (of_left, of_right) =
                    (|column| left.column(column).to_owned(), |column| right.column(column).to_owned());
                join.text(&of_left, &of_right, names.ordered_join_way(join))
            }
            Node::Window(window) => window_line(window, names),
            Node::Sort { input, keys, skip, rows, .. } => {
                let of_input = InputNames::new(input, names);
                let order: Vec<String> = keys.iter().map(|key| key_text(key, &of_input)).collect();
                // With a limit the operator only keeps the first rows and does not sort everything.
                let verb = if rows.is_some() { "Top rows" } else { "Sort" };
                let mut line = format!("{verb}: by [{}]{}", order.join(", "), bounds(*skip, *rows));
                // A sort directly above a scan may read only the first rows in key order, which changes the access.
                if let (Node::Scan(scan), Some(rows)) = (&**input, rows)
                    && let Some(access) = names.access(scan, Some((keys, skip + rows)))
                    && Some(&access) != names.access(scan, None).as_ref()
                {
                    line += &format!(", reading {access}");
                }
                line
            }
            Node::Union { inputs, .. } => format!("Union: of {}", inputs.len()),
            Node::Foreign(_) => "Rows of another plan".to_owned(),
            Node::Limit { skip, rows, .. } => format!("Limit{}", bounds(*skip, *rows).replacen(',', ":", 1)),
            Node::SetAll(set) => if set.except { "Except all" } else { "Intersect all" }.to_owned(),
            Node::Values { rows } => format!("Values: {} rows", rows.num_rows()),
            Node::SingleRow { input, by } => format!("Single row{}", per(by, input, names)),
            Node::FirstRows { input, by } => format!("First row{}", per(by, input, names)),
            Node::Unnest(unnest) => unnest_line(unnest, names),
            Node::Series(series) => series_line(series, names),
            Node::Fill(fill) => fill_line(fill, names),
            Node::Shared { number, .. } => format!("Shared: {number}"),
            Node::Recursive(recursive) => {
                let distinct = if recursive.distinct { ", distinct rows" } else { "" };
                format!("Recursive: {}{distinct}", recursive.number)
            }
            Node::RecursiveRows { number, .. } => format!("Rows of the last round: {number}"),
        }
    }

    /// The names of the result's columns, as EXPLAIN shows them.
    pub fn column_names<'a>(&'a self, names: &'a dyn Names) -> Vec<Cow<'a, str>> {
        match self {
            Node::Scan(scan) | Node::Latest(Latest { scan, .. }) => {
                let columns = scan.columns.iter().map(|column| Cow::Borrowed(names.column(scan.table, *column)));
                columns.chain(scan.row_number.then_some(Cow::Borrowed("row number"))).collect()
            }
            Node::Project { input, exprs, .. } => {
                let of_input = InputNames::new(input, names);
                exprs.iter().map(|expr| Cow::Owned(shown(*expr, &of_input))).collect()
            }
            Node::Group { input, group, .. } => {
                let of_input = InputNames::new(input, names);
                let keys = group.keys.iter().map(|key| shown(key.expr, &of_input));
                keys.chain(aggregate_texts(group, &of_input)).map(Cow::Owned).collect()
            }
            Node::Expand(expand) => {
                let mut columns = expand.input.column_names(names);
                columns.push(Cow::Borrowed("set"));
                columns
            }
            Node::Join(join) => {
                let all = join_names(join, names);
                join.output.iter().map(|column| all[*column].clone()).collect()
            }
            Node::OrderedJoin(join) => {
                let (left, right) = (join.left.column_names(names), join.right.column_names(names));
                let names = join.names(&|column| left[column].to_string(), &|column| right[column].to_string());
                names.into_iter().map(Cow::Owned).collect()
            }
            Node::Window(window) => {
                let mut columns = window.input.column_names(names);
                let calls = window_texts(window, &|column| columns[column].to_string());
                columns.extend(calls.into_iter().map(Cow::Owned));
                columns
            }
            Node::Foreign(foreign) => field_names(&foreign.schema).collect(),
            Node::Union { inputs, schema } => match inputs.first() {
                Some(first) => first.column_names(names),
                None => field_names(schema).collect(),
            },
            Node::Filter { input, .. } | Node::Sort { input, .. } | Node::Limit { input, .. } => {
                input.column_names(names)
            }
            Node::SingleRow { input, .. } | Node::FirstRows { input, .. } | Node::Shared { input, .. } => {
                input.column_names(names)
            }
            Node::SetAll(set) => set.left.column_names(names),
            Node::Fill(fill) => {
                let of_input = fill.input.column_names(names);
                fill.keep.iter().map(|column| of_input[*column].clone()).collect()
            }
            Node::Recursive(recursive) => recursive.base.column_names(names),
            Node::Unnest(Unnest { input, keep, schema, .. }) | Node::Series(Series { input, keep, schema, .. }) => {
                let of_input = input.column_names(names);
                let kept = keep.iter().map(|column| of_input[*column].clone());
                kept.chain(field_names(schema).skip(keep.len())).collect()
            }
            Node::Values { rows } => field_names(rows.schema_ref()).collect(),
            Node::RecursiveRows { schema, .. } => field_names(schema).collect(),
        }
    }
}

fn latest_line(latest: &Latest, names: &dyn Names) -> String {
    let Latest { scan, keys, time } = latest;
    let name = |place: &usize| names.column(scan.table, scan.columns[*place]).to_owned();
    let keys: Vec<String> = keys.iter().map(name).collect();
    format!("Newest rows: by {} for each [{}], {}", name(time), keys.join(", "), scan_line(scan, names))
}

fn fill_line(fill: &Fill, names: &dyn Names) -> String {
    let of_input = fill.input.column_names(names);
    let keys: Vec<&str> = fill.keys.iter().map(|key| &*of_input[*key]).collect();
    let mut text = format!("Fill: buckets {}", of_input[fill.bucket]);
    if !keys.is_empty() {
        text.push_str(&format!(" for each {}", keys.join(", ")));
    }
    text
}

fn field_names(schema: &SchemaRef) -> impl Iterator<Item = Cow<'_, str>> {
    schema.fields().iter().map(|field| Cow::Borrowed(field.name().as_str()))
}

fn columns(columns: &[usize], input: &InputNames<'_>) -> String {
    list(columns.iter().map(|column| Expr::Column(*column)), input)
}

fn per(by: &[usize], input: &Node, names: &dyn Names) -> String {
    let input = &InputNames::new(input, names);
    if by.is_empty() { String::new() } else { format!(": per [{}]", columns(by, input)) }
}

fn unnest_line(unnest: &Unnest, names: &dyn Names) -> String {
    let ordinality = if unnest.ordinality { ", with ordinality" } else { "" };
    let outer = if unnest.outer { ", outer" } else { "" };
    format!("Unnest: [{}]{ordinality}{outer}", columns(&unnest.lists, &InputNames::new(&unnest.input, names)))
}

fn series_line(series: &Series, names: &dyn Names) -> String {
    let input = InputNames::new(&series.input, names);
    let name = |column: usize| input.column(column).to_owned();
    let step = series.step.map(|step| format!(" by {}", name(step))).unwrap_or_default();
    let bound = if series.inclusive { "to" } else { "below" };
    format!("Series: {} {bound} {}{step}", name(series.start), name(series.stop))
}

fn scan_line(scan: &Scan, names: &dyn Names) -> String {
    let (blocks, rows) = names.size(scan.table);
    let mut line = format!("Scan: {}", names.table(scan.table));
    match scan.columns.as_slice() {
        [] => {}
        few if few.len() <= COLUMNS_SHOWN_MAX => {
            let few: Vec<&str> = few.iter().map(|column| names.column(scan.table, *column)).collect();
            line += &format!(", columns [{}]", few.join(", "));
        }
        many => line += &format!(", {} columns", many.len()),
    }
    line += &where_clause(&scan.predicates, &|column| names.column(scan.table, column).to_owned());
    if let Some(access) = names.access(scan, None) {
        line += &format!(", reading {access}");
    }
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    line + &format!(", {blocks} block{}, {rows} row{}", plural(blocks as u64), plural(rows))
}

/// The conditions of a scan, as EXPLAIN shows them after the table.
fn where_clause(predicates: &[Predicate], name: &dyn Fn(usize) -> String) -> String {
    let shown: Vec<String> = predicates.iter().map(|predicate| predicate.display(name).to_string()).collect();
    if shown.is_empty() { String::new() } else { format!(", where {}", shown.join(" AND ")) }
}

fn group_line(group: &Group, input: &InputNames<'_>) -> String {
    let mut parts = Vec::new();
    if !group.keys.is_empty() {
        parts.push(format!("by [{}]", list(group.keys.iter().map(|key| key.expr), input)));
    }
    parts.extend(aggregate_texts(group, input));
    format!("Group: {}", parts.join(", "))
}

fn expand_line(expand: &Expand, names: &dyn Names) -> String {
    let columns = expand.input.column_names(names);
    let set = |set: &KeySet| {
        let of_set = columns.iter().zip(&set.columns).filter(|(_, is_in)| **is_in);
        format!("[{}]", of_set.map(|(name, _)| &**name).collect::<Vec<_>>().join(", "))
    };
    let sets = match expand.sets.len() {
        few if few <= COLUMNS_SHOWN_MAX => expand.sets.iter().map(set).collect::<Vec<_>>().join(", "),
        many => many.to_string(),
    };
    format!("Expand: sets {sets}")
}

fn aggregate_texts(group: &Group, input: &InputNames<'_>) -> impl Iterator<Item = String> {
    group.aggregates.iter().map(|aggregate| {
        let argument = match &aggregate.argument {
            Some((expr, _)) => {
                let more = aggregate.more.iter().map(|(expr, _)| *expr);
                list(std::iter::once(*expr).chain(more), input)
            }
            None => "*".to_owned(),
        };
        if let Some(count) = aggregate.of_parts {
            let count = shown(count, input);
            // A combining aggregate reads partial results, so we show those and not an argument.
            return match aggregate.function.is_count() {
                true => format!("sum({count})"),
                false => format!("{}({argument} / {count})", aggregate.function.name),
            };
        }
        aggregate.text(&|expr| shown(expr, input))
    })
}

impl Aggregate {
    /// The aggregate of whole rows as EXPLAIN shows it. `name` gives the text of an expression.
    pub(crate) fn text(&self, name: &dyn Fn(Expr) -> String) -> String {
        let arguments = self.argument.iter().chain(&self.more).map(|(expr, _)| name(*expr)).collect::<Vec<_>>();
        let argument = if arguments.is_empty() { "*".to_owned() } else { arguments.join(", ") };
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        let nulls = self.nulls_text();
        let filter = self.filter.map(|filter| format!(" FILTER (WHERE {})", name(filter))).unwrap_or_default();
        let key = |order: &AggregateOrder| name(order.expr) + order_text(order.descending, order.nulls_first);
        let keys: Vec<String> = self.order.iter().map(key).collect();
        let order = if keys.is_empty() { String::new() } else { format!(" ORDER BY {}", keys.join(", ")) };
        format!("{}({distinct}{argument}{order}){nulls}{filter}", self.function.name)
    }
}

/// The names of all columns that a join can give: build side, probe side, mark.
fn join_names<'a>(join: &'a Join, names: &'a dyn Names) -> Vec<Cow<'a, str>> {
    let mut all = join.build.column_names(names);
    all.extend(join.probe.column_names(names));
    all.push(Cow::Borrowed("mark"));
    all
}

fn join_line(join: &Join, names: &dyn Names) -> String {
    let (build, probe) = (join.build.column_names(names), join.probe.column_names(names));
    let on: Vec<String> = join.on.iter().map(|(left, right)| format!("{} = {}", build[*left], probe[*right])).collect();
    let kind = match join.kind {
        JoinKind::Inner => "inner",
        JoinKind::ProbeOuter => "outer (second)",
        JoinKind::BuildOuter => "outer (first)",
        JoinKind::FullOuter => "full outer",
        JoinKind::ProbeSemi => "semi (second)",
        JoinKind::ProbeAnti => "anti (second)",
        JoinKind::BuildSemi => "semi (first)",
        JoinKind::BuildAnti => "anti (first)",
        JoinKind::ProbeMark => "mark (second)",
        JoinKind::ProbeTruth => "truth (second)",
        JoinKind::ProbeSingle => "single (second)",
    };
    let operator = match (on.is_empty(), join.bounds.is_empty()) {
        (false, _) => "Hash join",
        (true, false) => "Range join",
        (true, true) => "Loop join",
    };
    let mut line = format!("{operator}: {kind}");
    if !on.is_empty() {
        line += &format!(", on [{}]", on.join(", "));
        if let Some(bound) = join.bounds.first() {
            line += &format!(", in order of {}", build[bound.build]);
        }
    }
    match join.condition {
        Some(Expr::Function(function)) => line += &format!(", where {}", names.function(function)),
        Some(Expr::Column(column)) => line += &format!(", where {}", join_names(join, names)[column]),
        None => {}
    }
    line
}

fn window_texts(window: &Window, name: &dyn Fn(usize) -> String) -> Vec<String> {
    window.calls.iter().map(|call| call.text(name)).collect()
}

fn window_line(window: &Window, names: &dyn Names) -> String {
    let input = &InputNames::new(&window.input, names);
    let mut line = format!("Window: {}", window_texts(window, &|column| input.column(column).to_owned()).join(", "));
    if !window.partition.is_empty() {
        let partition = window.partition.iter().map(|column| Expr::Column(*column));
        line += &format!(", by [{}]", list(partition, input));
    }
    if !window.order.is_empty() {
        let order: Vec<String> = window.order.iter().map(|key| key_text(key, input)).collect();
        line += &format!(", ordered by [{}]", order.join(", "));
    }
    if let Some(limit) = window.limit {
        line += &format!(", first {limit}");
    }
    line
}

fn key_text(key: &SortKey, input: &InputNames<'_>) -> String {
    input.column(key.column).to_owned() + order_text(key.descending, key.nulls_first)
}

/// The text after an ordered expression. NULLS FIRST or LAST is shown only if it differs from the default, in which
/// NULLs are the greatest values.
fn order_text(descending: bool, nulls_first: bool) -> &'static str {
    match (descending, nulls_first) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    }
}

fn bounds(skip: usize, rows: Option<usize>) -> String {
    let mut text = String::new();
    if skip > 0 {
        text += &format!(", skip {skip}");
    }
    if let Some(rows) = rows {
        text += &format!(", first {rows}");
    }
    text
}

fn list(exprs: impl Iterator<Item = Expr>, input: &InputNames<'_>) -> String {
    exprs.map(|expr| shown(expr, input)).collect::<Vec<_>>().join(", ")
}

/// The text of an expression over the columns of `input`.
fn shown(expr: Expr, input: &InputNames<'_>) -> String {
    match expr {
        Expr::Column(column) => input.column(column).to_owned(),
        Expr::Function(function) => input.names.function(function).to_owned(),
    }
}
