//! The names of a result's columns, as spelled.
//!
//! In this order: the alias that the outermost `SELECT` gives; the spelling of the table that the column comes from; the
//! spelling of an alias further inside; and for a computed column its text, with the columns in it as their tables
//! spell them.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::arrow::datatypes::Fields;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{
    Ident, Query, Select, SelectItem, SetExpr, Statement as SqlStatement, TableFactor, Visitor,
};

use super::select_list::shown;
use crate::errors::plain;
use crate::names::{Spellings, lower};
use crate::walk::walk;

/// Spellings by planned name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aliases {
    outermost: HashMap<String, String>,
    inner: HashMap<String, String>,
}

impl Aliases {
    /// The aliases that `statement`, which was parsed with `spellings`, gives.
    pub(crate) fn of(statement: &SqlStatement, spellings: &Spellings) -> Aliases {
        let mut aliases = Aliases::default();
        if let SqlStatement::Query(query) = statement
            && let Some(select) = first_select(&query.body)
        {
            for alias in select.projection.iter().filter_map(alias_of) {
                aliases.outermost.insert(alias.value.clone(), spelled(alias, spellings));
            }
        }
        let _ = walk(statement, &mut Collect { aliases: &mut aliases.inner, spellings });
        aliases
    }
}

/// The alias that the user wrote, which is one with a place in the text.
fn alias_of(item: &SelectItem) -> Option<&Ident> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } if alias.span.start.line > 0 => Some(alias),
        _ => None,
    }
}

/// The spelling of `alias`, whose value may carry the mark that tells it apart.
fn spelled(alias: &Ident, spellings: &Spellings) -> String {
    let plain = Ident { value: shown(&alias.value).to_string(), ..alias.clone() };
    spellings.of(&plain).to_string()
}

/// The `SELECT` that names the columns of a query.
fn first_select(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first_select(&query.body),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

struct Collect<'a> {
    aliases: &'a mut HashMap<String, String>,
    spellings: &'a Spellings,
}

impl Collect<'_> {
    fn add(&mut self, alias: &Ident) {
        let name = shown(&alias.value).to_string();
        self.aliases.entry(name).or_insert_with(|| spelled(alias, self.spellings));
    }
}

impl Visitor for Collect<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        tables.flat_map(|table| &table.alias.columns).for_each(|column| self.add(&column.name));
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        select.projection.iter().filter_map(alias_of).for_each(|alias| self.add(alias));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let alias = match factor {
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::UNNEST { alias, .. } => alias.as_ref(),
            _ => None,
        };
        alias.iter().flat_map(|alias| &alias.columns).for_each(|column| self.add(&column.name));
        ControlFlow::Continue(())
    }
}

/// The names of the columns of `plan`, which was planned from a statement with `aliases`.
pub(super) fn result_names(plan: &LogicalPlan, aliases: &Aliases) -> Vec<String> {
    let stored = stored_spellings(plan);
    let name_of = |name: &str, metadata: Option<&String>| {
        if let Some(alias) = aliases.outermost.get(name) {
            return alias.clone();
        }
        let name = shown(name);
        if let Some(stored) = metadata.filter(|spelling| lower(spelling) == name) {
            return stored.clone();
        }
        match aliases.inner.get(name) {
            Some(alias) => alias.clone(),
            None => respell(&plain(name), &stored),
        }
    };
    plan.schema()
        .fields()
        .iter()
        .map(|field| name_of(field.name(), field.metadata().get(crate::names::SPELLING_KEY)))
        .collect()
}

/// The spellings of the columns of all tables below `plan`.
fn stored_spellings(plan: &LogicalPlan) -> HashMap<String, String> {
    let mut found = HashMap::new();
    let mut add = |fields: &Fields| {
        for field in fields {
            if let Some(spelling) = crate::names::carried_spelling(field) {
                found.insert(field.name().clone(), spelling.to_string());
            }
        }
    };
    let mut open = vec![plan];
    // Views and names of WITH share what they stand for.
    let mut seen = HashSet::new();
    while let Some(plan) = open.pop() {
        if !seen.insert(std::ptr::from_ref(plan)) {
            continue;
        }
        if let LogicalPlan::TableScan(scan) = plan {
            add(scan.source.schema().fields());
        }
        open.extend(plan.inputs());
    }
    found
}

/// `text` with the tables in front of its columns left out and its words as `spellings` spell them, outside of quotes.
fn respell(text: &str, spellings: &HashMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut quoted = false;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|ch: char| !ch.is_alphanumeric() && ch != '_').unwrap_or(rest.len());
        let (piece, after) = rest.split_at(word.max(first.len_utf8()));
        rest = after;
        quoted ^= first == '\'';
        let is_name = !quoted && (first.is_alphabetic() || first == '_');
        // A table function stands in front of its columns with its parentheses.
        match after.strip_prefix("().").or(after.strip_prefix('.')) {
            Some(column) if is_name && column.starts_with(|ch: char| ch.is_alphabetic() || ch == '_') => rest = column,
            _ if is_name && !after.starts_with('(') => out.push_str(spellings.get(piece).map_or(piece, String::as_str)),
            _ => out.push_str(piece),
        }
    }
    let of_several_words = |name: &&String| name.contains(|ch: char| !ch.is_alphanumeric() && ch != '_');
    for name in spellings.keys().filter(of_several_words) {
        out = out.replace(name.as_str(), &spellings[name]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_respelled_outside_of_quotes_and_calls() {
        let spellings = HashMap::from([("userid".into(), "UserID".into()), ("sum".into(), "Sum".into())]);
        assert_eq!(
            respell("sum(t.userid + sum * 1.5) || 't.userid é'", &spellings),
            "sum(UserID + Sum * 1.5) || 't.userid é'"
        );
    }
}
