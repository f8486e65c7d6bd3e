//! Expressions: the dispatch by form, names, and common types.

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::{functions, text, typing};
use rowmill_plan::{ColumnId, ExprOp, ScalarExpr};
use sqlparser::ast::{BinaryOperator, Expr, Ident};

use super::from::DEFAULT_SCHEMA;
use super::place::{place_of, suggest, type_names, unsupported};
use super::query::is_text_literal;
use super::scope::{AliasUse, Clause, ScopeRelation};
use super::walk::is_volatile_expr;
use super::{Binder, too_deep};
use crate::catalog::EXPRESSION_DEPTH_DEFAULT;

/// Operators in a chain such as `a + b + c`, regardless of the depth that the setting allows. A chain makes a tree that
/// is as deep as the chain is long, and the tree may be dropped on the small stack of any thread.
const CHAIN_MAX: usize = 3_000;

/// The most parts of expressions that names of select lists are replaced by in a statement. A name may stand for an
/// expression with other names, so that a short text could stand for a huge expression.
const ALIAS_PARTS_MAX: usize = 1 << 20;

/// Whether an expression is `x = ANY ([1, 2])` or ALL over a list that has its items in the statement.
fn is_over_items(expr: &Expr) -> bool {
    let (Expr::AnyOp { right, .. } | Expr::AllOp { right, .. }) = expr else { return false };
    let mut list = &**right;
    while let Expr::Nested(inner) = list {
        list = inner;
    }
    matches!(list, Expr::Array(items) if !items.elem.is_empty())
}

impl Binder<'_> {
    /// Binds an expression with the names of the current levels.
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<ScalarExpr> {
        let mut expr = expr;
        while let Expr::Nested(inner) = expr {
            expr = inner;
        }
        self.deeper(1, |binder| binder.form(expr)).map_err(|error| {
            let place = place_of(&error, expr);
            self.at(error, place)
        })
    }

    fn form(&mut self, expr: &Expr) -> Result<ScalarExpr> {
        match expr {
            Expr::Identifier(ident) => self.name(ident),
            Expr::CompoundIdentifier(parts) => self.dotted_name(parts),
            Expr::Value(value) => self.literal(&value.value),
            Expr::BinaryOp { .. } => self.chain(expr),
            Expr::Function(call) => self.call(call),
            Expr::Nested(inner) => self.expr(inner),
            Expr::UnaryOp { op, expr } => self.unary(*op, expr),
            Expr::Cast { kind, expr, data_type, array, format } => {
                if *array || format.is_some() {
                    return Err(unsupported("FORMAT or ARRAY in CAST"));
                }
                self.cast(kind, expr, data_type)
            }
            Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            Expr::Subquery(_)
            | Expr::Exists { .. }
            | Expr::InSubquery { .. }
            | Expr::AnyOp { .. }
            | Expr::AllOp { .. }
            | Expr::InUnnest { .. } => {
                // Items that are written in the statement need no subquery.
                if !is_over_items(expr) {
                    self.refuse_in_lambda("a subquery")?;
                }
                self.subquery_form(expr)
            }
            Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotUnknown(_)
            | Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..) => self.is_form(expr),
            Expr::Between { expr, negated, low, high } => self.between(expr, *negated, low, high),
            Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated),
            Expr::Like { .. } | Expr::ILike { .. } | Expr::SimilarTo { .. } | Expr::RLike { .. } => {
                self.like_form(expr)
            }
            Expr::Extract { .. }
            | Expr::Ceil { .. }
            | Expr::Floor { .. }
            | Expr::Position { .. }
            | Expr::Substring { .. }
            | Expr::Trim { .. }
            | Expr::Overlay { .. }
            | Expr::AtTimeZone { .. } => self.function_form(expr),
            Expr::TypedString(typed) => self.typed_literal(&typed.data_type, &typed.value.value),
            Expr::Interval(interval) => self.interval(interval),
            Expr::Array(array) => self.array(&array.elem),
            Expr::Map(map) => self.map(map),
            Expr::Dictionary(fields) => self.dictionary(fields),
            Expr::Struct { values, fields } => self.struct_values(values, fields),
            Expr::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain),
            // A row outside of a comparison is a struct, as ROW(a, b) is.
            Expr::Tuple(values) if !values.is_empty() => {
                let values = self.exprs(values)?;
                self.row_struct(values)
            }
            Expr::Tuple(_) => Err(unsupported("an empty row")),
            Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_) => {
                Err(Error::new(ErrorKind::Grouping, "GROUPING SETS, CUBE and ROLLUP are allowed only in GROUP BY"))
            }
            other => Err(unsupported_form(other)),
        }
    }

    /// Binds a bare name: a column, or a name of the select list.
    fn name(&mut self, ident: &Ident) -> Result<ScalarExpr> {
        if let Some(item) = self.item_parameter(ident) {
            return Ok(item);
        }
        let innermost = self.levels.len();
        for place in (0..innermost).rev() {
            let level = &self.levels[place];
            if level.is_hidden {
                continue;
            }
            let level_clause = level.clause;
            let alias_use = if place + 1 == innermost { level.alias_use } else { AliasUse::Never };
            if alias_use == AliasUse::First
                && let Some(found) = self.alias(ident, true)?
            {
                return Ok(found);
            }
            if let Some(id) = self.levels[place].column(ident).map_err(|error| self.at_name(error, ident))? {
                return Ok(self.columns.expr(id));
            }
            // In the select list itself, everything else that has the name comes first.
            if alias_use == AliasUse::Fallback
                && level_clause != Clause::Select
                && let Some(found) = self.alias(ident, false)?
            {
                return Ok(found);
            }
        }
        if ident.quote_style.is_none()
            && let Some(found) = self.niladic(&ident.value)?
        {
            return Ok(found);
        }
        if let Some(row) = self.whole_row(ident)? {
            return Ok(row);
        }
        let uses_list = self
            .levels
            .last()
            .is_some_and(|level| level.clause == Clause::Select && level.alias_use == AliasUse::Fallback);
        match if uses_list { self.alias(ident, false)? } else { None } {
            Some(found) => Ok(found),
            None => Err(self.no_column(ident)),
        }
    }

    /// The row of a table or alias of FROM as a struct of its columns: `to_json(t)`.
    fn whole_row(&mut self, ident: &Ident) -> Result<Option<ScalarExpr>> {
        for level in self.levels.iter().rev().filter(|level| !level.is_hidden) {
            let Some(relation) = level.relation(None, ident)? else { continue };
            let columns = relation.columns.iter();
            let fields = columns.map(|column| (column.spelled.to_string(), self.columns.expr(column.id))).collect();
            return self.struct_of(fields).map(Some);
        }
        Ok(None)
    }

    /// An ambiguity in the text of a view has no position in the statement.
    fn at_name(&self, error: Error, ident: &Ident) -> Error {
        self.at(error, ident.span)
    }

    /// The expression that a name of the select list refers to.
    fn alias(&self, ident: &Ident, as_reference: bool) -> Result<Option<ScalarExpr>> {
        let level = self.levels.last().expect("a name is bound within a level");
        let in_list = level.clause == Clause::Select;
        let mut found = level.aliases.iter().filter(|alias| alias.is_alias && *alias.name == *ident.value);
        let Some(first) = found.next() else { return Ok(None) };
        if found.any(|other| other.expr != first.expr) {
            let message = format!("several columns of the result are called \"{}\"", ident.value);
            return Err(self.at(Error::new(ErrorKind::AmbiguousColumn, message), ident.span));
        }
        if as_reference {
            return Ok(Some(first.reference.clone()));
        }
        let mut parts = self.alias_parts.get();
        first.expr.each(&mut |_| parts += 1);
        self.alias_parts.set(parts);
        if parts > ALIAS_PARTS_MAX {
            let message =
                format!("names of the select list stand for more than {ALIAS_PARTS_MAX} parts of expressions");
            let error = Error::new(ErrorKind::StatementTooComplex, message);
            return Err(self.at(error.hint("compute them in a subquery"), ident.span));
        }
        if in_list && is_volatile_expr(&first.expr) {
            let message =
                format!("\"{}\" changes from call to call, so the select list cannot use it again", ident.value);
            return Err(self.at(unsupported(message).hint("compute it in a subquery"), ident.span));
        }
        Ok(Some(first.expr.clone()))
    }

    fn no_column(&self, ident: &Ident) -> Error {
        let error = Error::new(ErrorKind::UndefinedColumn, format!("there is no column \"{}\"", ident.value));
        let seen = self.levels.iter().rev().filter(|level| !level.is_hidden);
        let aliases = self.levels.last().map_or(&[][..], |level| &level.aliases);
        let names = seen.flat_map(|level| level.candidates()).chain(aliases.iter().map(|alias| &*alias.name));
        let error = suggest(error, &ident.value, names);
        let error = match (ident.quote_style, error.hint_text()) {
            (Some('"'), None) => error.hint("write a text in single quotes: 'text'"),
            (Some('"'), Some(hint)) => {
                let hint = format!("{hint} A text is written in single quotes: 'text'");
                error.hint(hint)
            }
            _ => error,
        };
        self.at(error, ident.span)
    }

    /// Binds `table.column` or `schema.table.column`, followed by any number of fields.
    fn dotted_name(&mut self, parts: &[Ident]) -> Result<ScalarExpr> {
        if let [first, rest @ ..] = parts
            && let Some(item) = self.item_parameter(first)
        {
            return self.fields(item, rest);
        }
        // The longest matching table name wins: catalog.schema.table.column, schema.table.column, table.column.
        for place in (0..self.levels.len()).rev() {
            if self.levels[place].is_hidden {
                continue;
            }
            let level = &self.levels[place];
            let mut found = None;
            let own = self.catalog.database_name();
            if let [database, schema, table, column, rest @ ..] = parts {
                let relation = level.relation_of(own, &database.value, &schema.value, table);
                found = relation.map(|relation| (relation, column, rest));
            }
            if let [schema, table, column, rest @ ..] = parts
                && found.is_none()
            {
                let relation = match level.relation(Some(&schema.value), table)? {
                    None => level.relation_of(own, &schema.value, DEFAULT_SCHEMA, table),
                    found => found,
                };
                found = relation.map(|relation| (relation, column, rest));
            }
            if let [table, column, rest @ ..] = parts
                && found.is_none()
            {
                found = level.relation(None, table)?.map(|relation| (relation, column, rest));
            }
            if let Some((relation, column, rest)) = found {
                let id = self.column_of(relation, column)?;
                return self.fields(self.columns.expr(id), rest);
            }
            if let [column, rest @ ..] = parts
                && let Some(id) = level.column(column)?
                && matches!(self.kind(id), DataType::Struct(_))
            {
                return self.fields(self.columns.expr(id), rest);
            }
        }
        Err(self.no_relation_in_from(&parts[parts.len().saturating_sub(2)]))
    }

    fn column_of(&self, relation: &ScopeRelation, column: &Ident) -> Result<ColumnId> {
        match relation.column(column)? {
            Some(id) => Ok(id),
            None => Err(relation.no_column(column)),
        }
    }

    /// Binds binary operators. Long chains are nested on the left, so we follow them in a loop.
    fn chain(&mut self, expr: &Expr) -> Result<ScalarExpr> {
        let mut rest = Vec::new();
        let mut at = expr;
        while let Expr::BinaryOp { left, op, right } = at {
            rest.push((op, &**right, at));
            at = left;
        }
        let is_logic = |op: &BinaryOperator| matches!(op, BinaryOperator::And | BinaryOperator::Or);
        let deep = rest.windows(2).filter(|pair| !is_logic(pair[0].0) || pair[0].0 != pair[1].0).count();
        let deep_max = self.catalog.expression_depth_max().clamp(EXPRESSION_DEPTH_DEFAULT, CHAIN_MAX);
        if deep > deep_max {
            return Err(too_deep(deep_max));
        }
        let (op, right, whole) = rest.pop().expect("the expression is a binary operator");
        let at_operator = |binder: &Self, error: Error, whole: &Expr| {
            let place = place_of(&error, whole);
            binder.at(error, place)
        };
        let mut bound = self.binary(at, op, right).map_err(|error| at_operator(self, error, whole))?;
        while let Some((op, right, whole)) = rest.pop() {
            bound = self.binary_over(bound, op, right).map_err(|error| at_operator(self, error, whole))?;
        }
        Ok(bound)
    }

    /// Casts values to their common type and returns that type.
    pub(super) fn bring_together(&mut self, mut values: Vec<&mut ScalarExpr>) -> Result<DataType> {
        let kind = self.kind_of_all(&values)?;
        for value in &mut values {
            let taken = std::mem::replace(&mut **value, ScalarExpr::null(DataType::Null));
            **value = self.typed_parameter(taken, &kind);
            let taken = std::mem::replace(&mut **value, ScalarExpr::null(DataType::Null));
            **value = self.coerce(taken, &kind)?;
        }
        Ok(kind)
    }

    fn kind_of_all(&self, values: &[&mut ScalarExpr]) -> Result<DataType> {
        let others: Vec<&DataType> =
            values.iter().filter(|value| !is_text_literal(value)).map(|value| &value.kind).collect();
        let is_mixed = others.len() < values.len() && others.iter().any(|kind| **kind != DataType::Null);
        // A literal text is read as a value of the other operands' type, if it can be.
        if is_mixed && let Some(kind) = typing::common_kind(others.iter().copied()) {
            let reads = |value: &&mut ScalarExpr| {
                let literal = value.as_constant().and_then(|constant| constant.as_text());
                literal.is_none_or(|literal| text::parse(literal, &kind).is_ok())
            };
            if kind == DataType::Utf8View || values.iter().all(reads) {
                return Ok(kind);
            }
        }
        typing::common_kind(values.iter().map(|value| &value.kind)).ok_or_else(|| {
            let mut kinds: Vec<&DataType> = Vec::new();
            for value in values {
                if !kinds.contains(&&value.kind) {
                    kinds.push(&value.kind);
                }
            }
            Error::new(ErrorKind::DatatypeMismatch, format!("values of {} have no common type", type_names(kinds)))
                .hint("CAST some of them to the type of the others")
        })
    }

    /// Gives a parameter without a known type the type that its place requires.
    pub(super) fn typed_parameter(&mut self, expr: ScalarExpr, kind: &DataType) -> ScalarExpr {
        match expr.op {
            ExprOp::Parameter(number) if expr.kind == DataType::Null && *kind != DataType::Null => {
                let known = self.parameters[number].get_or_insert_with(|| kind.clone()).clone();
                ScalarExpr::new(known, ExprOp::Parameter(number))
            }
            _ => expr,
        }
    }

    /// Both operands. A parameter without a type gets the type of the other operand.
    pub(super) fn typed_pair(&mut self, left: ScalarExpr, right: ScalarExpr) -> (ScalarExpr, ScalarExpr) {
        let (left_kind, right_kind) = (left.kind.clone(), right.kind.clone());
        (self.typed_parameter(left, &right_kind), self.typed_parameter(right, &left_kind))
    }

    /// Calls the function of the registry that an SQL form is defined by.
    pub(super) fn call_named(&mut self, name: &str, arguments: Vec<ScalarExpr>) -> Result<ScalarExpr> {
        match functions::find(name) {
            Some(function) => typing::call(function, arguments),
            None => Err(Error::internal(format!("the function {name} is missing"))),
        }
    }
}

fn unsupported_form(expr: &Expr) -> Error {
    let what = match expr {
        Expr::Collate { .. } => "COLLATE",
        Expr::JsonAccess { .. } => "a path into JSON",
        Expr::Convert { .. } => "CONVERT",
        Expr::Lambda(_) => "a function of items in this place",
        Expr::MatchAgainst { .. } => "MATCH AGAINST",
        Expr::IsNormalized { .. } => "IS NORMALIZED",
        Expr::OuterJoin(_) => "(+)",
        Expr::Prior(_) => "PRIOR",
        Expr::MemberOf(_) => "MEMBER OF",
        Expr::Wildcard(_) | Expr::QualifiedWildcard(..) => "* in this place",
        _ => return unsupported(format!("{expr}")),
    };
    unsupported(what)
}
