//! The text of a program for EXPLAIN and tests.
//!
//! A column is shown with the number of its lookup. For example, `1.price`. Columns of groups and of nested reads have
//! no names, so they are shown by number. For example, `0.2`.

use std::fmt::{self, Write};

use arrow::datatypes::i256;
use rowmill_base::{IndexId, NumberedNative, SqlType, TableId};

use super::{
    Access, AccessBound, Body, ChangeTarget, ColumnOrder, ConflictAction, GroupOutput, LookupKind, LookupSource,
    NestedLookup, OutputOrder, Program, ReadOutput, ReadPlan, RowAggregate, RowColumn, RowFrame, RowFunction,
    RowOutput, Scalar, ScalarOp, ScalarValue, TextFunction, WindowRows, WindowValue,
};
use crate::logical::FrameExclude;

/// Resolves the ids and numbers of a program to names.
pub trait ProgramNames {
    /// The name of a table.
    fn table(&self, id: TableId) -> String;

    /// The name of a column, by its position in the definition of its table.
    fn column(&self, table: TableId, column: usize) -> String;

    /// The name of a key, and its columns by their positions in the table. An index is followed by the primary key.
    fn key(&self, table: TableId, index: Option<IndexId>) -> (String, Vec<usize>);
}

/// Shows numbers in place of names.
struct NumbersOnly;

impl ProgramNames for NumbersOnly {
    fn table(&self, id: TableId) -> String {
        format!("table {}", id.0)
    }

    fn column(&self, _table: TableId, column: usize) -> String {
        column.to_string()
    }

    fn key(&self, _table: TableId, index: Option<IndexId>) -> (String, Vec<usize>) {
        (index.map_or_else(|| "primary key".to_owned(), |index| format!("index {}", index.0)), Vec::new())
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.body.text(&NumbersOnly))
    }
}

impl Body {
    /// The steps as text, one per line.
    pub fn text(&self, names: &dyn ProgramNames) -> String {
        let mut writer = ProgramWriter { names, rows: Vec::new(), out: String::new(), depth: 0 };
        writer.body(self);
        writer.out
    }
}

struct ProgramWriter<'n> {
    names: &'n dyn ProgramNames,
    /// The table of each lookup, or `None` if the lookup has its rows from another read.
    rows: Vec<Option<TableId>>,
    out: String,
    depth: usize,
}

impl ProgramWriter<'_> {
    fn line(&mut self, text: &str) {
        (0..self.depth).for_each(|_| self.out.push_str("  "));
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn body(&mut self, body: &Body) {
        match body {
            Body::Read(read) => self.read(read),
            Body::Insert(insert) => {
                self.line(&format!("Insert into {}", self.names.table(insert.table)));
                if let Some(source) = &insert.source {
                    self.line("Rows of");
                    self.depth += 1;
                    self.rows.clear();
                    self.read(source);
                    self.depth -= 1;
                    self.rows = vec![None];
                }
                for row in &insert.rows {
                    self.line(&format!("Row {}", self.list(row)));
                }
                self.rows = vec![Some(insert.table), Some(insert.table)];
                for (row, column, sequence) in &insert.sequences {
                    let column = self.names.column(insert.table, *column);
                    self.line(&format!("Sequence {} for {column} of row {row}", sequence.0));
                }
                if let Some(on_conflict) = &insert.on_conflict {
                    let key = on_conflict.target.name(insert.table, self.names);
                    match &on_conflict.action {
                        ConflictAction::Nothing => self.line(&format!("On conflict of {key}: nothing")),
                        ConflictAction::Update { assignments, filter } => {
                            self.line(&format!("On conflict of {key}"));
                            self.assignments(Some(insert.table), assignments);
                            self.filter("Where", filter);
                        }
                    }
                }
                self.assignments(Some(insert.table), &insert.generated);
                self.after(insert.checks.iter().map(|check| &check.condition), &insert.returning);
            }
            Body::Update(update) => {
                let table = self.target("Update", &update.target);
                self.assignments(table, &update.assignments);
                self.rows = vec![table];
                self.assignments(table, &update.generated);
                self.after(update.checks.iter().map(|check| &check.condition), &update.returning);
            }
            Body::Delete(delete) => {
                let table = self.target("Delete", &delete.target);
                self.rows = vec![table];
                self.after(std::iter::empty(), &delete.returning);
            }
        }
    }

    fn target(&mut self, verb: &str, target: &ChangeTarget) -> Option<TableId> {
        self.line(&format!("{verb} rows of lookup {}", target.row));
        self.lookups(&target.lookups);
        self.filter("Where", &target.filter);
        self.rows.get(target.row).copied().flatten()
    }

    fn assignments(&mut self, table: Option<TableId>, assignments: &[(usize, Scalar)]) {
        for (column, value) in assignments {
            let column = table.map_or_else(|| column.to_string(), |table| self.names.column(table, *column));
            let value = self.scalar(value);
            self.line(&format!("Set {column} = {value}"));
        }
    }

    fn after<'s>(&mut self, checks: impl Iterator<Item = &'s Scalar>, returning: &[Scalar]) {
        for check in checks {
            self.line(&format!("Check {}", self.scalar(check)));
        }
        if !returning.is_empty() {
            self.line(&format!("Return {}", self.list(returning)));
        }
    }

    fn read(&mut self, read: &ReadPlan) {
        self.lookups(&read.lookups);
        self.filter("Where", &read.filter);
        match &read.output {
            ReadOutput::Rows(rows) => self.rows(rows),
            ReadOutput::Groups(groups) => self.groups(groups),
        }
        if read.for_update {
            self.line("For update");
        }
        if let Some(rows) = read.rows_max {
            self.line(&format!("Up to {rows} rows"));
        }
        if let Some(few) = &read.few {
            let counted: Vec<String> = few.counted.iter().map(|counted| self.access(counted)).collect();
            let line = format!("With few rows in {}", counted.join(" and "));
            let outer = read.lookups.len();
            let own = self.rows.split_off(self.rows.len() - outer);
            self.nested(&line, &few.read);
            self.rows.extend(own);
        }
    }

    fn lookups(&mut self, lookups: &[NestedLookup]) {
        for lookup in lookups {
            let kind = match lookup.kind {
                LookupKind::Inner => "Read",
                LookupKind::Left => "Left",
                LookupKind::Single => "Single",
                LookupKind::Semi => "Semi",
                LookupKind::Anti => "Anti",
                LookupKind::Mark => "Mark",
            };
            match &lookup.source {
                LookupSource::Table(access) => {
                    let text = format!("{kind} {}", self.access(access));
                    self.line(&text);
                    self.rows.push(Some(access.table));
                }
                LookupSource::Reads(reads) => {
                    for (at, read) in reads.iter().enumerate() {
                        self.nested(&if at == 0 { format!("{kind} rows of") } else { "and of".to_owned() }, read);
                    }
                    self.rows.push(None);
                }
                LookupSource::Windows(windows) => {
                    self.nested(&format!("{kind} rows with {} over", self.window_values(windows)), &windows.read);
                    self.rows.push(None);
                }
                LookupSource::Recursion(recursion) => {
                    for (at, read) in recursion.base.iter().enumerate() {
                        self.nested(&if at == 0 { format!("{kind} rounds from") } else { "and from".to_owned() }, read);
                    }
                    let distinct = if recursion.distinct { ", new rows only" } else { "" };
                    self.nested(&format!("then{distinct}"), &recursion.step);
                    self.rows.push(None);
                }
                LookupSource::LastRound(outwards, _) => {
                    let of = if *outwards == 0 { String::new() } else { format!(" {outwards} out") };
                    self.line(&format!("{kind} rows of the last round{of}"));
                    self.rows.push(None);
                }
            }
            self.depth += 1;
            self.filter("if", &lookup.condition);
            self.filter("comparing", &lookup.compared);
            self.depth -= 1;
        }
    }

    /// Writes a nested read, indented below `line`.
    fn nested(&mut self, line: &str, read: &ReadPlan) {
        self.line(line);
        // The lookups of the nested read are visible only inside of it.
        let (outer, depth) = (self.rows.clone(), self.depth);
        self.depth += 1;
        self.read(read);
        (self.rows, self.depth) = (outer, depth);
    }

    /// The window values, their partition and their order. Columns are numbers of the columns of the read.
    fn window_values(&self, windows: &WindowRows) -> String {
        let values = windows.values.iter().map(|value| match value {
            WindowValue::Rank(function) => format!("{function:?}"),
            WindowValue::Ntile(parts) => format!("{parts} parts"),
            WindowValue::Shift { value, rows, .. } => format!("{value} of {rows:+} rows"),
            WindowValue::Aggregate(aggregate, frame) => format!("{} {}", aggregate.function, frame_text(frame)),
            WindowValue::Nth { value, nth, frame } => format!("{nth:?} of {value} {}", frame_text(frame)),
        });
        let mut text = values.collect::<Vec<_>>().join(", ");
        if !windows.partition.is_empty() {
            let _ = write!(text, " by {:?}", windows.partition);
        }
        if !windows.order.is_empty() {
            let down = |by: &ColumnOrder| format!("{}{}", by.column, if by.descending { " DESC" } else { "" });
            let _ = write!(text, " ordered by {}", windows.order.iter().map(down).collect::<Vec<_>>().join(", "));
        }
        text
    }

    fn access(&self, access: &Access) -> String {
        let (key, columns) = self.names.key(access.table, access.index);
        let column = |at: usize| match columns.get(at) {
            Some(column) => self.names.column(access.table, *column),
            None => format!("part {at}"),
        };
        let mut parts: Vec<String> = Vec::new();
        parts.extend(access.equal.iter().enumerate().map(|(at, value)| match access.nulls.contains(&at) {
            true => format!("{} is {}", column(at), self.scalar(value)),
            false => format!("{} = {}", column(at), self.scalar(value)),
        }));
        let first = access.equal.len();
        let count = access.alternatives.first().map_or(0, Vec::len);
        if count > 0 {
            let names: Vec<String> = (first..first + count).map(&column).collect();
            let lists: Vec<String> = access.alternatives.iter().map(|list| self.row(list)).collect();
            parts.push(format!("{} in [{}]", parenthesized(&names), lists.join(", ")));
        }
        let next = first + count;
        let bound = |bound: &AccessBound, closed: &str, open: &str| {
            let names: Vec<String> = (next..next + bound.values.len()).map(&column).collect();
            let op = if bound.inclusive { closed } else { open };
            format!("{} {op} {}", parenthesized(&names), self.row(&bound.values))
        };
        parts.extend(access.from.iter().map(|from| bound(from, ">=", ">")));
        parts.extend(access.to.iter().map(|to| bound(to, "<=", "<")));
        if let Some(prefix) = &access.prefix {
            parts.push(format!("{} begins as {}", column(next), self.scalar(&prefix.pattern)));
        }
        if access.not_null {
            parts.push(format!("{} is not NULL", column(next)));
        }
        let table = self.names.table(access.table);
        let backward = if access.backward { " backward" } else { "" };
        let distinct = access.distinct.map_or_else(String::new, |distinct| {
            let names: Vec<String> = (0..distinct.columns).map(&column).collect();
            let counted = if distinct.counts { "counted, " } else { "" };
            format!(" {counted}one row for each {}", parenthesized(&names))
        });
        match parts.is_empty() {
            true => format!("{table} by {key}{backward}{distinct}"),
            false => format!("{table} by {key}{backward}{distinct}: {}", parts.join(", ")),
        }
    }

    fn row(&self, values: &[Scalar]) -> String {
        parenthesized(&values.iter().map(|value| self.scalar(value)).collect::<Vec<_>>())
    }

    fn filter(&mut self, word: &str, filter: &Option<Scalar>) {
        if let Some(filter) = filter {
            self.line(&format!("{word} {}", self.scalar(filter)));
        }
    }

    fn rows(&mut self, rows: &RowOutput) {
        if !rows.order.is_empty() {
            let presorted = match rows.presorted {
                0 => String::new(),
                presorted => format!(" within equal {}", self.order(&rows.order[..presorted])),
            };
            let text = format!("Sort by {}{presorted}", self.order(&rows.order));
            self.line(&text);
        }
        if let Some(skip) = &rows.skip {
            self.line(&format!("Skip {}", self.scalar(skip)));
        }
        if let Some(limit) = &rows.limit {
            self.line(&format!("Limit {}", self.scalar(limit)));
        }
        self.line(&format!("Give {}", self.list(&rows.columns)));
    }

    fn groups(&mut self, groups: &GroupOutput) {
        let aggregates: Vec<String> = groups.aggregates.iter().map(|one| self.aggregate(one)).collect();
        let ends = if groups.ends_at_value { ", up to a value" } else { "" };
        let text = match groups.keys.is_empty() {
            true => format!("Aggregate {}{ends}", aggregates.join(", ")),
            false if aggregates.is_empty() => format!("Group by {}", self.list(&groups.keys)),
            false => format!("Group by {}: {}{ends}", self.list(&groups.keys), aggregates.join(", ")),
        };
        self.line(&text);
        // HAVING and the output see the group as row 0, which has no table.
        let rows = std::mem::replace(&mut self.rows, vec![None]);
        self.filter("Having", &groups.filter);
        self.rows(&groups.rows);
        self.rows = rows;
    }

    fn aggregate(&self, of: &RowAggregate) -> String {
        let argument = match of.function {
            RowFunction::CountRows => "*".to_owned(),
            RowFunction::CountDistinct => format!("DISTINCT {}", self.scalar(&of.argument)),
            RowFunction::Join => format!("{}, '{}'", self.scalar(&of.argument), of.separator),
            _ => self.scalar(&of.argument),
        };
        let argument = match of.order.is_empty() {
            true => argument,
            false => format!("{argument} ORDER BY {}", self.order(&of.order)),
        };
        let filter = of.filter.as_ref().map(|filter| format!(" where {}", self.scalar(filter))).unwrap_or_default();
        format!("{}({argument}{filter})", of.function)
    }

    fn order(&self, order: &[OutputOrder]) -> String {
        let order = order.iter().map(|order| {
            let down = if order.descending { " DESC" } else { "" };
            let nulls = match (order.descending, order.nulls_first) {
                (false, true) => " NULLS FIRST",
                (true, false) => " NULLS LAST",
                _ => "",
            };
            format!("{}{down}{nulls}", self.scalar(&order.value))
        });
        order.collect::<Vec<_>>().join(", ")
    }

    fn list(&self, scalars: &[Scalar]) -> String {
        scalars.iter().map(|scalar| self.scalar(scalar)).collect::<Vec<_>>().join(", ")
    }

    fn column(&self, RowColumn { row, column }: RowColumn) -> String {
        match self.rows.get(row).copied().flatten() {
            Some(table) => format!("{row}.{}", self.names.column(table, column)),
            None => format!("{row}.{column}"),
        }
    }

    fn scalar(&self, scalar: &Scalar) -> String {
        let operand = |one: &Scalar| match one.op {
            ScalarOp::Arithmetic(..) | ScalarOp::Compare(..) | ScalarOp::And(_) | ScalarOp::Or(_) => {
                format!("({})", self.scalar(one))
            }
            ScalarOp::IsNull { .. } | ScalarOp::Like { .. } | ScalarOp::Not(_) => format!("({})", self.scalar(one)),
            _ => self.scalar(one),
        };
        let joined = |all: &[Scalar], word: &str| all.iter().map(operand).collect::<Vec<_>>().join(word);
        match &scalar.op {
            ScalarOp::Parameter(number) => format!("${}", number + 1),
            ScalarOp::Column(column) => self.column(*column),
            ScalarOp::Literal(value) => literal(value, &scalar.kind),
            ScalarOp::Arithmetic(op, pair) => format!("{} {op} {}", operand(&pair[0]), operand(&pair[1])),
            ScalarOp::Negate(of) => format!("-{}", operand(of)),
            ScalarOp::Compare(op, pair) => format!("{} {op} {}", operand(&pair[0]), operand(&pair[1])),
            ScalarOp::And(all) => joined(all, " AND "),
            ScalarOp::Or(all) => joined(all, " OR "),
            ScalarOp::Not(of) => format!("NOT {}", operand(of)),
            ScalarOp::IsNull { value, negated } => {
                format!("{} IS {}NULL", operand(value), if *negated { "NOT " } else { "" })
            }
            ScalarOp::Case { whens, otherwise } => {
                let mut out = "CASE".to_owned();
                for (when, then) in whens {
                    let _ = write!(out, " WHEN {} THEN {}", self.scalar(when), self.scalar(then));
                }
                if let Some(otherwise) = otherwise {
                    let _ = write!(out, " ELSE {}", self.scalar(otherwise));
                }
                out + " END"
            }
            ScalarOp::Cast(of) => format!("CAST({} AS {})", self.scalar(of), scalar.kind),
            ScalarOp::Coalesce(all) => format!("coalesce({})", self.list(all)),
            ScalarOp::Text(function, all) => format!("{function}({})", self.list(all)),
            ScalarOp::Like { operands, negated, ignore_case, .. } => {
                let word = if *ignore_case { "ILIKE" } else { "LIKE" };
                let not = if *negated { "NOT " } else { "" };
                format!("{} {not}{word} {}", operand(&operands[0]), operand(&operands[1]))
            }
            ScalarOp::Evaluate(expr, all) => {
                let operands: Vec<String> = all.iter().map(|one| self.scalar(one)).collect();
                expr.text_over(&operands)
            }
        }
    }
}

fn parenthesized(parts: &[String]) -> String {
    match parts {
        [part] => part.clone(),
        parts => format!("({})", parts.join(", ")),
    }
}

/// The number of 256 bits that has these bytes in keys.
fn wide_number(bytes: &[u8]) -> Option<i256> {
    let mut bytes: [u8; 32] = bytes.try_into().ok()?;
    bytes[0] ^= 1 << 7;
    Some(i256::from_be_bytes(bytes))
}

/// A value as a literal. Decimals are shown without their point, and dates and times as numbers.
fn literal(value: &ScalarValue, kind: &SqlType) -> String {
    match value {
        ScalarValue::Null => "NULL".into(),
        ScalarValue::Bool(value) => value.to_string(),
        ScalarValue::Int(value) => value.to_string(),
        ScalarValue::UInt(value) => value.to_string(),
        ScalarValue::Float(value) => value.to_string(),
        ScalarValue::Decimal(value) => match kind {
            SqlType::Numbered(kind) => {
                let mut text = String::new();
                kind.write(value.to_number(), &mut text);
                format!("'{text}'")
            }
            _ => value.to_string(),
        },
        ScalarValue::Interval(value) => format!("{value:?}"),
        ScalarValue::Text(value) => format!("'{value}'"),
        ScalarValue::Bytes(value) => match (kind, wide_number(value)) {
            (SqlType::Numbered(kind), Some(number)) if kind.is_wide() => {
                let mut text = String::new();
                kind.write(number.to_number(), &mut text);
                format!("'{text}'")
            }
            (SqlType::Decimal { .. }, Some(number)) => number.to_string(),
            _ => format!("{value:?}"),
        },
    }
}

impl fmt::Display for TextFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TextFunction::Concat => "concat",
            TextFunction::Lower => "lower",
            TextFunction::Upper => "upper",
            TextFunction::Substring => "substring",
            TextFunction::Length => "length",
        })
    }
}

fn frame_text(RowFrame { start, end, exclude }: &RowFrame) -> String {
    match exclude {
        FrameExclude::NoOthers => format!("from {start:?} to {end:?}"),
        exclude => format!("from {start:?} to {end:?} without {exclude:?}"),
    }
}
