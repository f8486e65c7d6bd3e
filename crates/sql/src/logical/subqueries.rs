//! Subqueries in expressions, and LATERAL ones in FROM, as joins.
//!
//! DataFusion's optimizer makes joins of the common forms, at the top of a WHERE: `EXISTS`, `IN`, and a comparison with
//! an aggregate over equal keys. Those are left to it ([`forms`]), and so are subqueries that refer to nothing and stand
//! for a value, which are run once. All others become joins here:
//!
//! ```text
//! SELECT name, (SELECT count(*) FROM o WHERE o.total < c.credit) FROM c
//!
//! domain    SELECT DISTINCT credit FROM c
//! per row   SELECT domain.credit, count(*) FROM domain, o WHERE o.total < domain.credit GROUP BY domain.credit
//! answer    SELECT name, count FROM c LEFT JOIN per row ON c.credit IS NOT DISTINCT FROM domain.credit
//! ```
//!
//! The [`domain`] holds the values that the subquery refers to; [`dependent`] runs the subquery for all of them at once;
//! [`value`] makes the answer of the expression of what that gives, with NULL where SQL says so.

mod dependent;
mod domain;
mod forms;
mod one_row;
mod references;
mod value;

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, JoinConstraint, JoinType, NullEquality, Result, ScalarValue};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Filter, Join, Projection};
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan};
use rowmill_base::{Error, ErrorKind};

use crate::errors::to_datafusion;
use domain::Domain;
use references::{holds_subquery, references};

pub(crate) use references::subquery_of;

/// Makes joins of the subqueries of `plan` that DataFusion does not answer rightly itself.
pub(super) fn unnest(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_any = false;
    plan.apply(|node| {
        has_any |= matches!(node, LogicalPlan::Subquery(_));
        node.apply_expressions(|expr| {
            has_any |= holds_subquery(expr);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if !has_any {
        return Ok(plan);
    }
    let mut unnester = Unnester::default();
    plan.transform_up_with_subqueries(|node| unnester.unnest_here(node).map(Transformed::yes)).data()
}

/// Gives the tables that it makes names.
#[derive(Default)]
struct Unnester {
    names: usize,
}

impl Unnester {
    fn next_name(&mut self) -> String {
        self.names += 1;
        format!("__outer_{}", self.names)
    }

    /// Makes joins of the subqueries of `node` itself.
    fn unnest_here(&mut self, node: LogicalPlan) -> Result<LogicalPlan> {
        match node {
            LogicalPlan::Join(join) if has_lateral(&join) => self.lateral(join),
            node if !holds_open(&node) => Ok(node),
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Join(join) if join.join_type == JoinType::Inner => self.inner_join(join),
            LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => self.over_input(node),
            LogicalPlan::Sort(_) | LogicalPlan::Window(_) => {
                let columns = node.schema().columns();
                select(self.over_input(node)?, columns)
            }
            LogicalPlan::Join(_) => Err(to_datafusion(
                Error::new(ErrorKind::Unsupported, "this subquery is not supported in ON of an outer join")
                    .hint("compute it in a subquery of FROM, and join that"),
            )),
            other => Ok(other),
        }
    }

    /// Conditions without open subqueries come first, so that the others are asked for fewer rows.
    fn filter(&mut self, filter: Filter) -> Result<LogicalPlan> {
        let columns = filter.input.schema().columns();
        let own = Arc::clone(filter.input.schema());
        let (open, settled): (Vec<Expr>, Vec<Expr>) = split_conjunction_owned(filter.predicate)
            .into_iter()
            .map(forms::as_in)
            .partition(|term| forms::is_open_condition(term, &own));
        let mut input = Arc::unwrap_or_clone(filter.input);
        if let Some(settled) = conjunction(settled) {
            input = LogicalPlan::Filter(Filter::try_new(settled, Arc::new(input))?);
        }
        let mut terms = Vec::with_capacity(open.len());
        for term in open {
            terms.push(self.replaced(term, &mut input)?);
        }
        if let Some(terms) = conjunction(terms) {
            input = LogicalPlan::Filter(Filter::try_new(terms, Arc::new(input))?);
        }
        select(input, columns)
    }

    /// The condition of an inner join can as well stand behind it.
    fn inner_join(&mut self, mut join: Join) -> Result<LogicalPlan> {
        let Some(filter) = join.filter.take() else { return Ok(LogicalPlan::Join(join)) };
        let (behind, inside): (Vec<Expr>, Vec<Expr>) =
            split_conjunction_owned(filter).into_iter().partition(holds_subquery);
        join.filter = conjunction(inside);
        match conjunction(behind) {
            Some(behind) => {
                self.unnest_here(LogicalPlan::Filter(Filter::try_new(behind, Arc::new(LogicalPlan::Join(join)))?))
            }
            None => Ok(LogicalPlan::Join(join)),
        }
    }

    /// `node` over an input that has the answers of its subqueries.
    fn over_input(&mut self, node: LogicalPlan) -> Result<LogicalPlan> {
        let Some(input) = node.inputs().first().copied().cloned() else { return Ok(node) };
        let mut input = input;
        let names = NamePreserver::new(&node);
        let exprs = node.expressions().into_iter().map(|expr| {
            let name = names.save(&expr);
            Ok(name.restore(self.replaced(expr, &mut input)?))
        });
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        node.with_new_exprs(exprs, vec![input])
    }

    /// `expr` over `input`, which gets a column for each open subquery in it.
    fn replaced(&mut self, expr: Expr, input: &mut LogicalPlan) -> Result<Expr> {
        let own = Arc::clone(input.schema());
        expr.transform_up(|part| {
            if forms::is_open(&part, &own) {
                self.answer(part, input).map(Transformed::yes)
            } else {
                Ok(Transformed::no(part))
            }
        })
        .data()
    }

    /// The rows of `subquery` for each row of the columns of `input` that it refers to.
    fn rows_of(&mut self, subquery: &LogicalPlan, input: &LogicalPlan, name: &str) -> Result<PerRow> {
        let mut columns = references(subquery);
        columns.retain(|column| input.schema().has_column(column));
        if columns.is_empty() {
            return Ok(PerRow { plan: subquery.clone(), keys: Vec::new() });
        }
        let domain = Domain::new(input, &columns, name)?;
        let plan = self.depend(subquery, &domain)?;
        Ok(PerRow { plan, keys: domain.bindings })
    }

    /// `FROM a, LATERAL (SELECT ... a.x ...) AS b`
    fn lateral(&mut self, join: Join) -> Result<LogicalPlan> {
        let columns = join.schema.columns();
        let mut wanted = references(&join.right);
        wanted.retain(|column| join.left.schema().has_column(column));
        if wanted.is_empty() {
            let right = without_wrapper(join.right.as_ref().clone())?;
            return Ok(LogicalPlan::Join(Join { right: Arc::new(right), ..join }));
        }
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
            let error = Error::new(ErrorKind::Unsupported, "LATERAL is not supported in a RIGHT or FULL JOIN");
            return Err(to_datafusion(error.hint("put its tables the other way round, with LEFT JOIN LATERAL")));
        }
        let name = self.next_name();
        let rows = self.rows_of(&join.right, &join.left, &name)?;
        let on = join.on.into_iter().map(|(left, right)| left.eq(right));
        let condition = conjunction(on.chain(join.filter));
        let left = Arc::unwrap_or_clone(join.left);
        select(rows.joined_to(left, join.join_type, condition)?, columns)
    }
}

/// The rows of a subquery, with keys: columns around it, and those that hold their values here.
struct PerRow {
    plan: LogicalPlan,
    keys: Vec<(Column, Column)>,
}

impl PerRow {
    /// `left` with the rows that its own have here. Keys of which both are NULL are equal.
    fn joined_to(self, left: LogicalPlan, kind: JoinType, condition: Option<Expr>) -> Result<LogicalPlan> {
        let mut conditions = Vec::with_capacity(self.keys.len() + 1);
        for (outside, inside) in self.keys {
            let kind = left.schema().field_from_column(&outside)?.data_type().clone();
            conditions.push(same(Expr::Column(outside), Expr::Column(inside), &kind)?);
        }
        conditions.extend(condition);
        let (left, right, equality) = (Arc::new(left), Arc::new(self.plan), NullEquality::NullEqualsNothing);
        let filter = conjunction(conditions);
        let join = Join::try_new(left, right, Vec::new(), filter, kind, JoinConstraint::On, equality, false)?;
        Ok(LogicalPlan::Join(join))
    }
}

/// Whether `left` and `right`, of the type `kind`, are equal or both NULL, in comparisons that are never NULL.
///
/// A join has one rule for NULL in all of its keys, and the optimizer makes keys of plain comparisons that it finds
/// above, so keys that let NULL equal NULL would let it in those too.
fn same(left: Expr, right: Expr, kind: &DataType) -> Result<Expr> {
    let stand_in = Expr::Literal(ScalarValue::new_default(kind)?, None);
    let filled = |expr: Expr| coalesce(vec![expr, stand_in.clone()]);
    let nulls = left.clone().is_null().eq(right.clone().is_null());
    Ok(nulls.and(filled(left).eq(filled(right))))
}

fn select(plan: LogicalPlan, columns: Vec<Column>) -> Result<LogicalPlan> {
    let exprs = columns.into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?))
}

/// Whether an expression of `node` has a subquery that DataFusion is not to be left with.
fn holds_open(node: &LogicalPlan) -> bool {
    if !node.expressions().iter().any(holds_subquery) {
        return false;
    }
    let own = merge_schema(&node.inputs());
    node.expressions().iter().any(|expr| holds_open_part(expr, &own, matches!(node, LogicalPlan::Filter(_))))
}

fn holds_open_part(expr: &Expr, own: &DFSchema, is_condition: bool) -> bool {
    if is_condition {
        return split_conjunction_owned(expr.clone()).iter().any(|term| forms::is_open_condition(term, own));
    }
    expr.exists(|part| Ok(forms::is_open(part, own))).expect("nothing here fails")
}

fn has_lateral(join: &Join) -> bool {
    let mut plan = join.right.as_ref();
    loop {
        match plan {
            LogicalPlan::Subquery(_) => return true,
            LogicalPlan::SubqueryAlias(alias) => plan = &alias.input,
            LogicalPlan::Projection(projection) => plan = &projection.input,
            _ => return false,
        }
    }
}

/// `plan` without the node that marks it as LATERAL.
fn without_wrapper(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_down(|node| match node {
        LogicalPlan::Subquery(subquery) => {
            Ok(Transformed::new(subquery.subquery.as_ref().clone(), true, TreeNodeRecursion::Stop))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}
