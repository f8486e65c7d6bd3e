//! Deep expressions in pieces, so that the passes over a plan take time in proportion to its size.
//!
//! A pass asks for the types of a node's operands, and the type of an operand is worked out from everything below it,
//! names included. Asked at each level of a thousand calls in one another, that is work of the fourth power of their
//! number. So before the passes a deep expression is cut into pieces of a few levels:
//!
//! ```text
//! x+1+1+1+1+1+1   =>   p1 = x+1+1    p2 = p1+1+1    p2+1+1
//! ```
//!
//! From the bottom up each piece goes through all passes on its own, as the one column of a projection, and in the piece
//! above it a stand-in that knows its type takes its place. What is left on top goes through the passes with the plan.
//! Then the pieces come back where they were.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, Projection};
use datafusion::optimizer::AnalyzerRule;

/// Levels of a piece: few enough for the fourth power, enough that next to no statement is cut at all.
const LEVELS: usize = 16;

/// The first part of a stand-in's name, which no statement can write.
const MARK: &str = "\u{1}piece";

/// A rule that does what `rules` do, one after the other, on deep expressions piece by piece.
pub(super) fn in_pieces(rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>>) -> Arc<dyn AnalyzerRule + Send + Sync> {
    Arc::new(InPieces { rules })
}

#[derive(Debug)]
struct InPieces {
    rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>>,
}

impl AnalyzerRule for InPieces {
    fn name(&self) -> &str {
        "rowmill_analysis"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut cutter = Cutter { rules: self, config, pieces: Vec::new() };
        let plan = plan.transform_up_with_subqueries(|node| cutter.cut_node(node))?.data;
        let pieces = cutter.pieces;
        let plan = self.apply(plan, config)?;
        if pieces.is_empty() {
            return Ok(plan);
        }
        Ok(plan.transform_down_with_subqueries(|node| node.map_expressions(|expr| put_back(expr, &pieces)))?.data)
    }
}

impl InPieces {
    fn apply(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        self.rules.iter().try_fold(plan, |plan, rule| rule.analyze(plan, config))
    }
}

struct Cutter<'a> {
    rules: &'a InPieces,
    config: &'a ConfigOptions,
    /// What the stand-ins stand for, after all passes. A piece holds stand-ins of earlier ones only.
    pieces: Vec<Expr>,
}

impl Cutter<'_> {
    fn cut_node(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let mut deep = false;
        node.apply_expressions(|expr| {
            deep = is_deep(expr, LEVELS);
            Ok(if deep { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !deep {
            return Ok(Transformed::no(node));
        }
        let mut schema = merge_schema(&node.inputs());
        if let LogicalPlan::TableScan(scan) = &node {
            schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
        }
        let schema = Arc::new(schema);
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            if !is_deep(&expr, LEVELS) {
                return Ok(Transformed::no(expr));
            }
            let name = names.save(&expr);
            let (cut, _) = self.cut(expr, &schema)?;
            Ok(Transformed::yes(name.restore(cut)))
        })
    }

    /// `expr` with at most [`LEVELS`] levels below it left, and how many there are with itself.
    fn cut(&mut self, expr: Expr, schema: &DFSchemaRef) -> Result<(Expr, usize)> {
        if !has_typed_parts(&expr) {
            return Ok((expr, 1));
        }
        let mut levels = 0;
        let expr = expr.map_children(|part| {
            let (mut part, mut below) = self.cut(part, schema)?;
            if below >= LEVELS && has_type(&part) {
                part = self.stand_in(part, schema)?;
                below = 1;
            }
            levels = levels.max(below);
            Ok(Transformed::yes(part))
        })?;
        Ok((expr.data, levels + 1))
    }

    /// Takes `part` through the passes and gives what stands for it.
    fn stand_in(&mut self, part: Expr, schema: &DFSchemaRef) -> Result<Expr> {
        let input = EmptyRelation { produce_one_row: false, schema: Arc::clone(schema) };
        let input = Arc::new(LogicalPlan::EmptyRelation(input));
        let alone = Projection::try_new(vec![part.alias(MARK)], input)?;
        let LogicalPlan::Projection(alone) = self.rules.apply(LogicalPlan::Projection(alone), self.config)? else {
            return internal_err!("the passes made another node of a projection");
        };
        let field = Arc::clone(alone.schema.field(0));
        self.pieces.extend(alone.expr.into_iter().map(Expr::unalias));
        Ok(stand_in(field, self.pieces.len() - 1))
    }
}

/// Whether `expr` has more than `levels` levels.
fn is_deep(expr: &Expr, levels: usize) -> bool {
    if levels == 0 {
        return true;
    }
    let mut deep = false;
    expr.apply_children(|part| {
        deep = is_deep(part, levels - 1);
        Ok(if deep { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })
    .expect("nothing here fails");
    deep
}

/// Whether what lies below `expr` can be typed without it. The variables of a lambda cannot.
fn has_typed_parts(expr: &Expr) -> bool {
    !matches!(expr, Expr::Lambda(_))
}

/// Whether `expr` is a value of one type wherever it stands.
fn has_type(expr: &Expr) -> bool {
    !matches!(
        expr,
        Expr::Alias(_)
            | Expr::AggregateFunction(_)
            | Expr::WindowFunction(_)
            | Expr::GroupingSet(_)
            | Expr::Unnest(_)
            | Expr::Lambda(_)
    )
}

/// A value of the type of `field` that no statement has: variables with two-part names do not exist here.
fn stand_in(field: FieldRef, piece: usize) -> Expr {
    Expr::ScalarVariable(field, vec![MARK.to_string(), piece.to_string()])
}

fn piece_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::ScalarVariable(_, names) if names.first().is_some_and(|name| name == MARK) => {
            Some(names[1].parse().expect("a stand-in is named after its piece"))
        }
        _ => None,
    }
}

/// `expr` with the pieces in the place of their stand-ins.
fn put_back(expr: Expr, pieces: &[Expr]) -> Result<Transformed<Expr>> {
    expr.transform_down(|mut expr| {
        let mut changed = false;
        while let Some(piece) = piece_of(&expr) {
            expr = pieces[piece].clone();
            changed = true;
        }
        Ok(Transformed::new_transformed(expr, changed))
    })
}
