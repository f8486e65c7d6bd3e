//! Columns that USING and NATURAL merge, in joins that keep rows of their right side alone.
//!
//! `a FULL JOIN b USING (k)` has a column `k` beside `a.k` and `b.k`: the one of them that is not NULL. The planner
//! takes `k` for `a.k`, which is NULL in a row of `b` without a partner. So the two are told apart:
//!
//! ```text
//! before planning   a.k (with its table)     -> as_written(a.k)
//! behind planning   a FULL JOIN b USING (k)  -> SELECT coalesce(a.k, b.k) AS a.k, ..., a.k AS hidden FROM the join
//!                   as_written(a.k)          -> hidden
//! ```
//!
//! The hidden column is only visible where the tables' own names are: no further than the first `SELECT` list above.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinConstraint, JoinType, Result as PlanResult, internal_err};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::sql::sqlparser::ast::{
    self, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, JoinOperator,
    ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind, Visitor, VisitorMut,
};
use rowmill_base::{Error, ErrorKind, Result};

use super::select_list::MARK;
use crate::errors::to_datafusion;
use crate::walk::{any_expr, walk, walk_mut};

/// No statement can write this name.
pub(super) const AS_WRITTEN: &str = "\u{1}as_written";

/// The function that the planner has to know.
pub(crate) fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(AsWritten { signature: Signature::any(1, Volatility::Immutable) })));
    Arc::clone(&FUNCTION)
}

/// Marks the columns of `statement` that are written with their table, if it merges columns in such a join.
/// [`separate`] has to follow when it does.
pub(super) fn mark(statement: &mut ast::Statement) -> Result<bool> {
    let mut merged = Merged::default();
    let _ = walk(statement, &mut merged);
    if !merged.is_any() {
        return Ok(false);
    }
    match walk_mut(statement, &mut Mark(merged)) {
        ControlFlow::Continue(()) => Ok(true),
        ControlFlow::Break(error) => Err(error),
    }
}

/// The columns that a statement merges in a RIGHT or FULL JOIN.
#[derive(Default)]
struct Merged {
    names: HashSet<String>,
    /// There is a NATURAL one, whose columns are not known yet.
    natural: bool,
    /// The tables on the right of such joins, whose columns stay what they are.
    right: Vec<String>,
}

impl Merged {
    fn is_any(&self) -> bool {
        self.natural || !self.names.is_empty()
    }

    fn has(&self, name: &str) -> bool {
        self.natural || self.names.contains(name)
    }

    fn is_right(&self, table: &ObjectName) -> bool {
        table.0.last().and_then(|part| part.as_ident()).is_some_and(|name| self.right.contains(&name.value))
    }
}

/// The name in front of the columns of a table.
pub(super) fn qualifier(table: &ast::TableFactor) -> Option<String> {
    match table {
        ast::TableFactor::Table { alias: Some(alias), .. } | ast::TableFactor::Derived { alias: Some(alias), .. } => {
            Some(alias.name.value.clone())
        }
        ast::TableFactor::Table { name, .. } => Some(name.0.last()?.as_ident()?.value.clone()),
        _ => None,
    }
}

/// What decides which rows are partners in a join that keeps rows of its right side alone.
fn constraint(join: &ast::Join) -> Option<&ast::JoinConstraint> {
    match &join.join_operator {
        JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

impl Visitor for Merged {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for from in &select.from {
            self.add(from);
        }
        ControlFlow::Continue(())
    }
}

impl Merged {
    fn add(&mut self, from: &ast::TableWithJoins) {
        let relations = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
        for relation in relations {
            if let ast::TableFactor::NestedJoin { table_with_joins, .. } = relation {
                self.add(table_with_joins);
            }
        }
        for join in &from.joins {
            let Some(constraint) = constraint(join) else { continue };
            self.right.extend(qualifier(&join.relation));
            match constraint {
                ast::JoinConstraint::Using(names) => {
                    let names = names.iter().filter_map(|name| name.0.last()?.as_ident());
                    self.names.extend(names.map(|name| name.value.clone()));
                }
                ast::JoinConstraint::Natural => self.natural = true,
                _ => {}
            }
        }
    }
}

struct Mark(Merged);

impl VisitorMut for Mark {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let mut own = Merged::default();
        select.from.iter().for_each(|from| own.add(from));
        for item in &mut select.projection {
            match item {
                // The item keeps the name that it has without the mark.
                SelectItem::UnnamedExpr(expr) => {
                    if let Some(name) = self.name_of(expr) {
                        let alias = Ident::with_quote('"', name);
                        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                    }
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), _)
                    if own.is_any() && !own.is_right(table) =>
                {
                    return ControlFlow::Break(
                        Error::new(
                            ErrorKind::Unsupported,
                            format!("{table}.* is not supported beside a RIGHT or FULL JOIN that merges columns"),
                        )
                        .hint("list the columns, or write the join with ON"),
                    );
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Error> {
        if self.is_merged(expr) {
            *expr = as_written(expr.clone());
        }
        ControlFlow::Continue(())
    }
}

impl Mark {
    fn is_merged(&self, expr: &ast::Expr) -> bool {
        matches!(expr, ast::Expr::CompoundIdentifier(parts) if parts.last().is_some_and(|name| self.0.has(&name.value)))
    }

    /// The name of a column of the result whose expression changes.
    fn name_of(&self, expr: &ast::Expr) -> Option<String> {
        if let ast::Expr::CompoundIdentifier(parts) = expr {
            return self.is_merged(expr).then(|| parts.last().map(|name| name.value.clone()))?;
        }
        any_expr(expr, |part| self.is_merged(part)).then(|| expr.to_string())
    }
}

/// `column` with the mark that says that it is written with its table.
pub(super) fn as_written(column: ast::Expr) -> ast::Expr {
    ast::Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(AS_WRITTEN)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(column))],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Gives `plan` the merged columns, and lets the marks of [`mark`] read the columns of the tables.
pub(super) fn separate(plan: LogicalPlan) -> PlanResult<LogicalPlan> {
    let mut merged = HashSet::new();
    plan.apply_with_subqueries(|node| {
        if let Some(join) = merging(node) {
            merged.extend(join.on.iter().filter_map(|(left, _)| left.try_as_col().cloned()));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    plan.transform_up_with_subqueries(|node| {
        let node = read_hidden(node, &merged)?.recompute_schema()?;
        match node {
            LogicalPlan::Join(join) if keeps_right(&join) => merge(join).map(Transformed::yes),
            other => Ok(Transformed::yes(other)),
        }
    })
    .data()
}

fn merging(node: &LogicalPlan) -> Option<&Join> {
    match node {
        LogicalPlan::Join(join) if keeps_right(join) => Some(join),
        _ => None,
    }
}

fn keeps_right(join: &Join) -> bool {
    join.join_constraint == JoinConstraint::Using && matches!(join.join_type, JoinType::Right | JoinType::Full)
}

/// The column of a table beside the merged one that has taken its name.
fn hidden(column: &Column) -> Column {
    Column::new(column.relation.clone(), format!("{MARK}{}", column.name))
}

/// `join` with merged columns in the places of its left ones, and those under hidden names behind.
fn merge(mut join: Join) -> PlanResult<LogicalPlan> {
    // It is merged now: a query around it that is looked through in the same way leaves it alone.
    join.join_constraint = JoinConstraint::On;
    let mut pairs = Vec::with_capacity(join.on.len());
    for (left, right) in &join.on {
        let (Expr::Column(left), Expr::Column(right)) = (left, right) else {
            return internal_err!("USING names columns");
        };
        pairs.push((left.clone(), right.clone()));
    }
    let schema = Arc::clone(&join.schema);
    let mut exprs = Vec::with_capacity(schema.fields().len() + pairs.len());
    for (qualifier, field) in schema.iter() {
        let column = Column::from((qualifier, field));
        exprs.push(match pairs.iter().find(|(left, _)| *left == column) {
            None => Expr::Column(column),
            Some((left, right)) => {
                let merged = coalesce(vec![Expr::Column(left.clone()), Expr::Column(right.clone())]);
                let alias = Alias::new(merged, qualifier.cloned(), field.name());
                Expr::Alias(alias.with_metadata(Some(FieldMetadata::from(field.metadata()))))
            }
        });
    }
    for (left, _) in pairs {
        let hidden = hidden(&left);
        if !schema.has_column(&hidden) {
            exprs.push(Expr::Column(left).alias_qualified(hidden.relation, hidden.name));
        }
    }
    LogicalPlanBuilder::from(LogicalPlan::Join(join)).project(exprs)?.build()
}

/// `node` with every marked column replaced by what it reads.
fn read_hidden(node: LogicalPlan, merged: &HashSet<Column>) -> PlanResult<LogicalPlan> {
    let inputs: Vec<_> = node.inputs().into_iter().map(|input| Arc::clone(input.schema())).collect();
    let names = NamePreserver::new(&node);
    let rewritten = node.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|expr| match expr {
            Expr::ScalarFunction(mut call) if call.func.name() == AS_WRITTEN => {
                let column = match call.args.pop() {
                    Some(Expr::Column(column)) => {
                        let hidden = hidden(&column);
                        let is_hidden = inputs.iter().any(|input| input.has_column(&hidden));
                        if !is_hidden && merged.contains(&column) {
                            return Err(to_datafusion(not_visible(&column)));
                        }
                        Expr::Column(if is_hidden { hidden } else { column })
                    }
                    Some(Expr::OuterReferenceColumn(field, column)) if merged.contains(&column) => {
                        Expr::OuterReferenceColumn(field, hidden(&column))
                    }
                    Some(other) => other,
                    None => return internal_err!("a mark has a column"),
                };
                Ok(Transformed::yes(column))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })?;
    Ok(rewritten.data)
}

fn not_visible(column: &Column) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("\"{}\" cannot be used here: a RIGHT or FULL JOIN merges it with another column", column.flat_name()),
    )
    .hint("select it too, or write the join with ON")
}

/// The function that marks a column. No plan that runs has one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsWritten {
    signature: Signature,
}

impl ScalarUDFImpl for AsWritten {
    fn name(&self) -> &str {
        AS_WRITTEN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> PlanResult<DataType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        match arguments.args.pop() {
            Some(argument) => Ok(argument),
            None => internal_err!("a mark has one argument"),
        }
    }
}
