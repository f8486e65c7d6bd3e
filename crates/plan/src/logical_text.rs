//! The text of a logical plan for EXPLAIN and tests: one line per operator, with its inputs indented below it.
//!
//! A column is shown by its name and its number. For example, `price#4`.

use std::fmt::Write;

use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::logical::{
    AggregateCall, FrameBound, FrameExclude, FrameRow, FrameUnit, LogicalJoinKind, LogicalOrderedChoice,
    LogicalSortKey, LogicalWindowCall, LogicalWindowFunction, RankFunction, SetOperationKind, Subquery, SubqueryKind,
    WindowFrame,
};
use crate::predicate::numbered_text;
use crate::program::ArithmeticOp;
use crate::{
    AggregateNulls, ColumnId, ColumnNames, CompareOp, Constant, ExprOp, FillMode, Logical, LogicalQuery, ScalarExpr,
};

impl LogicalQuery {
    /// The plan as text; the first line names the result's columns.
    pub fn text(&self) -> String {
        let output: Vec<String> =
            self.output.iter().map(|(id, name)| format!("{} AS {name}", column(*id, &self.columns))).collect();
        format!("Output: {}\n{}", output.join(", "), self.root.text(&self.columns))
    }
}

impl Logical {
    /// The operators as text.
    pub fn text(&self, columns: &ColumnNames) -> String {
        let mut writer = PlanWriter { columns, out: String::new(), depth: 0 };
        writer.plan(self);
        writer.out
    }
}

impl ScalarExpr {
    /// The expression of a logical plan as text, on one line. The plan of a subquery is not shown.
    pub fn text(&self, columns: &ColumnNames) -> String {
        expr(self, columns)
    }

    /// The expression as text, where column `n` is shown as text `n`.
    pub(crate) fn text_over(&self, columns: &[String]) -> String {
        expr_text(self, &|column| columns.get(column).cloned().unwrap_or_else(|| format!("#{column}")))
    }
}

struct PlanWriter<'c> {
    columns: &'c ColumnNames,
    out: String,
    depth: usize,
}

impl PlanWriter<'_> {
    fn line(&mut self, text: &str) {
        for _ in 0..self.depth {
            self.out.push_str("  ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn column(&self, id: ColumnId) -> String {
        column(id, self.columns)
    }

    fn columns(&self, ids: &[ColumnId]) -> String {
        ids.iter().map(|id| self.column(*id)).collect::<Vec<_>>().join(", ")
    }

    fn expr(&self, of: &ScalarExpr) -> String {
        expr(of, self.columns)
    }

    fn exprs(&self, all: &[ScalarExpr]) -> String {
        all.iter().map(|one| self.expr(one)).collect::<Vec<_>>().join(", ")
    }

    fn conditions(&self, all: &[ScalarExpr]) -> String {
        all.iter().map(|one| self.expr(one)).collect::<Vec<_>>().join(" AND ")
    }

    fn named(&self, all: &[(ColumnId, ScalarExpr)]) -> String {
        let one = |(id, of): &(ColumnId, ScalarExpr)| format!("{} = {}", self.column(*id), self.expr(of));
        all.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn fill_mode(&self, id: ColumnId, mode: &FillMode<ScalarExpr, ColumnId>) -> String {
        let name = self.column(id);
        match mode {
            FillMode::Null => format!("{name} null"),
            FillMode::Previous(of) if *of == id => format!("{name} previous"),
            FillMode::Previous(of) => format!("{name} previous {}", self.column(*of)),
            FillMode::Linear => format!("{name} linear"),
            FillMode::Value(value) => format!("{name} = {}", self.expr(value)),
        }
    }

    /// Writes the plans of subqueries and the inputs, indented by one more level.
    fn below(&mut self, subqueries: &[&ScalarExpr], inputs: &[&Logical]) {
        self.depth += 1;
        for of in subqueries {
            let mut found: Vec<&Subquery> = Vec::new();
            of.each(&mut |part| {
                if let ExprOp::Subquery(subquery) = &part.op {
                    found.push(subquery);
                }
            });
            // A subquery's plan is listed below the operator whose expression contains it.
            for subquery in found {
                let columns = self.columns(&subquery.columns);
                self.line(&format!("Subquery: {columns}"));
                self.depth += 1;
                self.plan(&subquery.plan);
                self.depth -= 1;
            }
        }
        for input in inputs {
            self.plan(input);
        }
        self.depth -= 1;
    }

    fn plan(&mut self, plan: &Logical) {
        match plan {
            Logical::Scan(scan) => {
                let read: Vec<ColumnId> = scan.columns.iter().map(|(id, _)| *id).collect();
                let mut text = format!("Scan: table {} [{}]", scan.table, self.columns(&read));
                if let Some(id) = scan.row_number {
                    let _ = write!(text, ", row number {}", self.column(id));
                }
                if !scan.conditions.is_empty() {
                    let _ = write!(text, " where {}", self.conditions(&scan.conditions));
                }
                self.line(&text);
                self.below(&scan.conditions.iter().collect::<Vec<_>>(), &[]);
            }
            Logical::Source(source) => {
                let read: Vec<ColumnId> = source.columns.iter().map(|(id, _)| *id).collect();
                let mut text = format!("Source: {} [{}]", source.source, self.columns(&read));
                if !source.conditions.is_empty() {
                    let _ = write!(text, " where {}", self.conditions(&source.conditions));
                }
                self.line(&text);
            }
            Logical::Values { columns, rows } => {
                let shown: Vec<String> = rows.iter().map(|row| format!("({})", self.exprs(row))).collect();
                match (columns.is_empty(), rows.len()) {
                    (true, 1) => self.line("One row"),
                    _ => self.line(&format!("Values: [{}] {}", self.columns(columns), shown.join(", "))),
                }
                self.below(&rows.iter().flatten().collect::<Vec<_>>(), &[]);
            }
            Logical::Filter { input, conditions } => {
                self.line(&format!("Filter: {}", self.conditions(conditions)));
                self.below(&conditions.iter().collect::<Vec<_>>(), &[input]);
            }
            Logical::Map { input, exprs } => {
                self.line(&format!("Map: {}", self.named(exprs)));
                self.below(&exprs.iter().map(|(_, of)| of).collect::<Vec<_>>(), &[input]);
            }
            Logical::Join(join) => {
                let kind = match join.kind {
                    LogicalJoinKind::Inner => "Inner".to_string(),
                    LogicalJoinKind::Left => "Left".into(),
                    LogicalJoinKind::Full => "Full".into(),
                    LogicalJoinKind::Semi => "Semi".into(),
                    LogicalJoinKind::Anti => "Anti".into(),
                    LogicalJoinKind::Mark(id) => format!("Mark {}", self.column(id)),
                    LogicalJoinKind::Single => "Single".into(),
                };
                let on = match join.conditions.is_empty() {
                    true => "every pair".to_string(),
                    false => self.conditions(&join.conditions),
                };
                let compared = match join.compared.is_empty() {
                    true => String::new(),
                    false => format!(", comparing {}", self.conditions(&join.compared)),
                };
                self.line(&format!("{kind} join: {on}{compared}"));
                self.below(&join.conditions.iter().collect::<Vec<_>>(), &[&join.left, &join.right]);
            }
            Logical::OrderedJoin(join) => {
                let choice = match &join.choice {
                    LogicalOrderedChoice::Last => "last".to_owned(),
                    LogicalOrderedChoice::First => "first".to_owned(),
                    LogicalOrderedChoice::Nearest(to) => format!("nearest to {}", self.expr(to)),
                    LogicalOrderedChoice::All => "all".to_owned(),
                    LogicalOrderedChoice::AllWithPrevailing => "all and the prevailing one".to_owned(),
                };
                let mut text = format!("Ordered join: {choice} by {}", self.expr(&join.position));
                for (left, right) in &join.on {
                    let _ = write!(text, ", {} = {}", self.expr(left), self.expr(right));
                }
                for (word, bound) in [("from", &join.lower), ("to", &join.upper)] {
                    if let Some(bound) = bound {
                        let end = if bound.inclusive { "" } else { " (exclusive)" };
                        let _ = write!(text, " {word} {}{end}", self.expr(&bound.expr));
                    }
                }
                if join.inner {
                    text.push_str(", inner");
                }
                for (id, call) in join.aggregates.iter().flatten() {
                    let _ = write!(text, ", {} = {}", self.column(*id), aggregate(call, self.columns));
                }
                self.line(&text);
                self.below(&[], &[&join.left, &join.right]);
            }
            Logical::Group(group) => {
                let mut text = format!("Group: by [{}]", self.named(&group.keys));
                if let Some(sets) = &group.sets {
                    let _ = write!(text, " sets {sets:?}");
                }
                if let Some(set) = group.set {
                    let _ = write!(text, " numbered {}", self.column(set));
                }
                if !group.aggregates.is_empty() {
                    let calls: Vec<String> = group
                        .aggregates
                        .iter()
                        .map(|(id, call)| format!("{} = {}", self.column(*id), aggregate(call, self.columns)))
                        .collect();
                    let _ = write!(text, ", {}", calls.join(", "));
                }
                self.line(&text);
                let keys = group.keys.iter().map(|(_, key)| key);
                let arguments = group.aggregates.iter().flat_map(|(_, call)| call.arguments.iter().chain(&call.filter));
                self.below(&keys.chain(arguments).collect::<Vec<_>>(), &[&group.input]);
            }
            Logical::Window(window) => {
                let calls: Vec<String> = window
                    .calls
                    .iter()
                    .map(|(id, call)| format!("{} = {}", self.column(*id), window_call(call, self.columns)))
                    .collect();
                let (partition, order) = (self.exprs(&window.partition), keys(&window.order, self.columns));
                let top = window.top.map(|top| format!(", up to {}", top.most)).unwrap_or_default();
                self.line(&format!("Window: {} over [{partition}] ordered by [{order}]{top}", calls.join(", ")));
                self.below(&[], &[&window.input]);
            }
            Logical::Sort { input, keys: by } => {
                self.line(&format!("Sort: by {}", keys(by, self.columns)));
                self.below(&by.iter().map(|key| &key.expr).collect::<Vec<_>>(), &[input]);
            }
            Logical::Limit { input, skip, rows } => {
                let mut parts = Vec::new();
                parts.extend(rows.as_ref().map(|rows| format!("{} rows", self.expr(rows))));
                parts.extend(skip.as_ref().map(|skip| format!("after {}", self.expr(skip))));
                self.line(&format!("Limit: {}", parts.join(" ")));
                self.below(&skip.iter().chain(rows).collect::<Vec<_>>(), &[input]);
            }
            Logical::Distinct { input, columns, on } => {
                let of = self.columns(columns);
                self.line(&format!("Distinct{}: {of}", if *on { " on" } else { "" }));
                self.below(&[], &[input]);
            }
            Logical::SetOperation(operation) => {
                let kind = match operation.kind {
                    SetOperationKind::Union => "Union",
                    SetOperationKind::Intersect => "Intersect",
                    SetOperationKind::Except => "Except",
                };
                let all = if operation.all { " all" } else { "" };
                let from: Vec<String> =
                    operation.inputs.iter().map(|(_, columns)| format!("[{}]", self.columns(columns))).collect();
                let made = self.columns(&operation.columns);
                self.line(&format!("{kind}{all}: [{made}] from {}", from.join(", ")));
                self.below(&[], &operation.inputs.iter().map(|(input, _)| input).collect::<Vec<_>>());
            }
            Logical::Recursive { number, base, base_columns, step, step_columns, distinct, columns } => {
                let all = if *distinct { "" } else { " all" };
                self.line(&format!(
                    "Recursive {number}{all}: [{}] from [{}], [{}]",
                    self.columns(columns),
                    self.columns(base_columns),
                    self.columns(step_columns)
                ));
                self.below(&[], &[base, step]);
            }
            Logical::RecursiveRows { number, columns } => {
                self.line(&format!("Rows of the last round {number}: [{}]", self.columns(columns)));
            }
            Logical::OuterRow { columns } => self.line(&format!("Outer row: [{}]", self.columns(columns))),
            Logical::Shared { number, input, input_columns, columns } => {
                let (made, from) = (self.columns(columns), self.columns(input_columns));
                self.line(&format!("Shared {number}: [{made}] from [{from}]"));
                self.below(&[], &[input]);
            }
            Logical::Unnest { input, lists, ordinality, outer } => {
                let mut text = format!("Unnest{}: {}", if *outer { " outer" } else { "" }, self.named(lists));
                if let Some(id) = ordinality {
                    let _ = write!(text, ", counted by {}", self.column(*id));
                }
                self.line(&text);
                self.below(&lists.iter().map(|(_, list)| list).collect::<Vec<_>>(), &[input]);
            }
            Logical::Fill(fill) => {
                let keys = self.columns(&fill.keys);
                let mut text = format!("Fill: buckets {}", self.column(fill.bucket));
                if !fill.keys.is_empty() {
                    let _ = write!(text, " for each {keys}");
                }
                for (word, bound) in [("from", &fill.from), ("to", &fill.to)] {
                    if let Some(bound) = bound {
                        let _ = write!(text, " {word} {}", self.expr(bound));
                    }
                }
                let modes: Vec<String> = fill.values.iter().map(|(id, mode)| self.fill_mode(*id, mode)).collect();
                if !modes.is_empty() {
                    let _ = write!(text, ", {}", modes.join(", "));
                }
                self.line(&text);
                self.below(&[], &[&fill.input]);
            }
            Logical::SingleRow { input, by } => {
                match by.is_empty() {
                    true => self.line("Single row"),
                    false => self.line(&format!("Single row: for each {}", self.columns(by))),
                }
                self.below(&[], &[input]);
            }
        }
    }
}

fn column(id: ColumnId, columns: &ColumnNames) -> String {
    format!("{}#{}", columns.get(id).name, id.0)
}

fn keys(keys: &[LogicalSortKey], columns: &ColumnNames) -> String {
    let one = |key: &LogicalSortKey| {
        let direction = if key.descending { " DESC" } else { "" };
        let nulls = match (key.descending, key.nulls_first) {
            (false, true) => " NULLS FIRST",
            (true, false) => " NULLS LAST",
            _ => "",
        };
        format!("{}{direction}{nulls}", expr(&key.expr, columns))
    };
    keys.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn aggregate(call: &AggregateCall, columns: &ColumnNames) -> String {
    let mut out = format!("{}(", call.function.name);
    if call.distinct {
        out.push_str("DISTINCT ");
    }
    let mut arguments: Vec<String> = call.arguments.iter().map(|one| expr(one, columns)).collect();
    if arguments.is_empty() {
        arguments.push("*".into());
    }
    arguments.extend(call.parameter.as_ref().map(constant));
    out.push_str(&arguments.join(", "));
    if !call.order.is_empty() {
        let _ = write!(out, " ORDER BY {}", keys(&call.order, columns));
    }
    if call.skips_nulls && call.function.nulls != AggregateNulls::TakenOnDemand {
        out.push_str(" IGNORE NULLS");
    }
    out.push(')');
    if let Some(filter) = &call.filter {
        let _ = write!(out, " FILTER (WHERE {})", expr(filter, columns));
    }
    out
}

fn window_call(call: &LogicalWindowCall, columns: &ColumnNames) -> String {
    let ignored = |skips_nulls: bool| if skips_nulls { " IGNORE NULLS" } else { "" };
    let function = match &call.function {
        LogicalWindowFunction::Aggregate(call) => aggregate(call, columns),
        LogicalWindowFunction::Rank(rank) => match rank {
            RankFunction::RowNumber => "row_number()".into(),
            RankFunction::Rank => "rank()".into(),
            RankFunction::DenseRank => "dense_rank()".into(),
            RankFunction::PercentRank => "percent_rank()".into(),
            RankFunction::CumulativeShare => "cume_dist()".into(),
        },
        LogicalWindowFunction::Ntile(parts) => format!("ntile({})", expr(parts, columns)),
        LogicalWindowFunction::Shift { value, offset, default, forward, skips_nulls } => {
            let name = if *forward { "lead" } else { "lag" };
            let all: Vec<String> =
                std::iter::once(value).chain(offset).chain(default).map(|one| expr(one, columns)).collect();
            format!("{name}({}{})", all.join(", "), ignored(*skips_nulls))
        }
        LogicalWindowFunction::Nth { value, nth, skips_nulls } => {
            let value = expr(value, columns);
            let ignored = ignored(*skips_nulls);
            match nth {
                FrameRow::First => format!("first_value({value}{ignored})"),
                FrameRow::Last => format!("last_value({value}{ignored})"),
                FrameRow::Nth(nth) => format!("nth_value({value}, {}{ignored})", expr(nth, columns)),
            }
        }
    };
    format!("{function} {}", frame(&call.frame, columns))
}

fn frame(frame: &WindowFrame<ScalarExpr>, columns: &ColumnNames) -> String {
    let unit = match frame.unit {
        FrameUnit::Rows => "ROWS",
        FrameUnit::Groups => "GROUPS",
        FrameUnit::Range => "RANGE",
    };
    let bound = |bound: &FrameBound<ScalarExpr>| match bound {
        FrameBound::Unbounded => "UNBOUNDED".to_string(),
        FrameBound::CurrentRow => "CURRENT ROW".into(),
        FrameBound::Preceding(offset) => format!("{} PRECEDING", expr(offset, columns)),
        FrameBound::Following(offset) => format!("{} FOLLOWING", expr(offset, columns)),
    };
    let exclude = match frame.exclude {
        FrameExclude::NoOthers => "",
        FrameExclude::CurrentRow => " EXCLUDE CURRENT ROW",
        FrameExclude::Group => " EXCLUDE GROUP",
        FrameExclude::Ties => " EXCLUDE TIES",
    };
    format!("{unit} {} TO {}{exclude}", bound(&frame.start), bound(&frame.end))
}

fn compare_text(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Equal => "=",
        CompareOp::NotEqual => "<>",
        CompareOp::Less => "<",
        CompareOp::LessOrEqual => "<=",
        CompareOp::Greater => ">",
        CompareOp::GreaterOrEqual => ">=",
    }
}

/// A constant as an SQL literal.
fn constant(value: &Constant) -> String {
    if value.is_null() {
        return "NULL".into();
    }
    if let Some(text) = numbered_text(value.array(), 0) {
        return format!("'{text}'");
    }
    let options = FormatOptions::default();
    let text = match ArrayFormatter::try_new(value.array(), &options) {
        Ok(formatter) => formatter.value(0).to_string(),
        Err(error) => error.to_string(),
    };
    let is_bare = value.kind().is_numeric() || matches!(value.kind(), DataType::Boolean | DataType::List(_));
    if is_bare { text } else { format!("'{text}'") }
}

fn expr(of: &ScalarExpr, columns: &ColumnNames) -> String {
    expr_text(of, &|id| column(ColumnId(id), columns))
}

fn list(all: &[ScalarExpr], name: &dyn Fn(usize) -> String) -> String {
    all.iter().map(|one| expr_text(one, name)).collect::<Vec<_>>().join(", ")
}

/// An expression as text. `name` gives the text of a column.
fn expr_text(of: &ScalarExpr, name: &dyn Fn(usize) -> String) -> String {
    let text = |one: &ScalarExpr| expr_text(one, name);
    // Writes an operand, in parentheses if it is an operator itself.
    let operand = |one: &ScalarExpr| match one.op {
        ExprOp::Arithmetic(..)
        | ExprOp::Compare(..)
        | ExprOp::And(_)
        | ExprOp::Or(_)
        | ExprOp::IsNull { .. }
        | ExprOp::IsDistinct { .. }
        | ExprOp::InList { .. }
        | ExprOp::Like { .. }
        | ExprOp::Not(_) => format!("({})", text(one)),
        _ => text(one),
    };
    let not = |negated: bool| if negated { "NOT " } else { "" };
    match &of.op {
        ExprOp::Column(id) => name(*id),
        ExprOp::Parameter(number) => format!("${}", number + 1),
        ExprOp::Literal(value) => constant(value),
        ExprOp::Arithmetic(op, pair) => {
            let sign = match op {
                ArithmeticOp::Plus => "+",
                ArithmeticOp::Minus => "-",
                ArithmeticOp::Times => "*",
                ArithmeticOp::Divide => "/",
                ArithmeticOp::Remainder => "%",
            };
            format!("{} {sign} {}", operand(&pair[0]), operand(&pair[1]))
        }
        ExprOp::Negate(value) => format!("-{}", operand(value)),
        ExprOp::Compare(op, pair) => format!("{} {} {}", operand(&pair[0]), compare_text(*op), operand(&pair[1])),
        ExprOp::IsDistinct { operands, negated } => {
            format!("{} IS {}DISTINCT FROM {}", operand(&operands[0]), not(*negated), operand(&operands[1]))
        }
        ExprOp::CompareRows(op, left, right) => {
            format!("({}) {} ({})", list(left, name), compare_text(*op), list(right, name))
        }
        ExprOp::And(all) => all.iter().map(operand).collect::<Vec<_>>().join(" AND "),
        ExprOp::Or(all) => all.iter().map(operand).collect::<Vec<_>>().join(" OR "),
        ExprOp::Not(value) => format!("NOT {}", operand(value)),
        ExprOp::IsNull { value, negated } => format!("{} IS {}NULL", operand(value), not(*negated)),
        ExprOp::Case { whens, otherwise } => {
            let mut out = "CASE".to_string();
            for (when, then) in whens {
                let _ = write!(out, " WHEN {} THEN {}", text(when), text(then));
            }
            if let Some(otherwise) = otherwise {
                let _ = write!(out, " ELSE {}", text(otherwise));
            }
            out + " END"
        }
        ExprOp::Cast { value, or_null } => {
            let name = if *or_null { "TRY_CAST" } else { "CAST" };
            format!("{name}({} AS {})", text(value), kind_text(&of.kind))
        }
        ExprOp::InList { value, list: items, negated } => {
            format!("{} {}IN ({})", operand(value), not(*negated), list(items, name))
        }
        ExprOp::Like { value, pattern, negated, ignore_case, .. } => {
            let name = if *ignore_case { "ILIKE" } else { "LIKE" };
            format!("{} {}{name} {}", operand(value), not(*negated), operand(pattern))
        }
        ExprOp::Coalesce(all) => format!("coalesce({})", list(all, name)),
        ExprOp::Call(function, all) => format!("{}({})", function.name, list(all, name)),
        ExprOp::Dynamic(function, all) => format!("{}({})", function.name(), list(all, name)),
        ExprOp::EachItem { function, list, parameters, body } => {
            let names: Vec<String> = parameters.iter().map(|number| format!("item{number}")).collect();
            format!("{}({}, ({}) -> {})", function.name(), text(list), names.join(", "), text(body))
        }
        ExprOp::ItemParameter(number) => format!("item{number}"),
        ExprOp::Subquery(subquery) => {
            let left = list(&subquery.left, name);
            match subquery.kind {
                SubqueryKind::Scalar => "subquery".into(),
                SubqueryKind::Exists => "EXISTS subquery".into(),
                SubqueryKind::Array => "ARRAY subquery".into(),
                SubqueryKind::Quantified { op, all } => {
                    format!("({left}) {} {} subquery", compare_text(op), if all { "ALL" } else { "ANY" })
                }
            }
        }
    }
}

fn kind_text(kind: &DataType) -> String {
    rowmill_base::SqlType::from_arrow(kind).map_or_else(|| kind.to_string(), |kind| kind.to_string())
}
