//! The state that the rewrites of one statement share: its columns, its tables, and its shared subplans.
//!
//! While a plan is rewritten, its `Shared` operators have no input. The inputs are kept in [`SharedPlans`], so that
//! each of them is rewritten once. A subplan that names columns of an enclosing query cannot be computed once; we copy
//! it into each of its uses. We also inline a subplan with a single use.

use std::collections::HashMap;
use std::sync::Arc;

use rowmill_base::Result;
use rowmill_plan::{ColumnId, ColumnNames, ExprOp, Logical, ScalarExpr};
use rowmill_storage::TableSource;

use super::Executor;
use super::walk::{add_named, copy_column, each_operator, exprs, exprs_mut, free, inputs_mut, renumber, substitute};
use crate::column_set::ColumnSet;

/// The state that the rewrites of one statement share.
pub(crate) struct RewriteContext<'a> {
    /// The columns of the statement.
    pub(crate) columns: &'a mut ColumnNames,
    /// Its tables.
    pub(crate) tables: Vec<Arc<dyn TableSource>>,
    /// Its shared subplans.
    pub(crate) shared: SharedPlans,
    /// The executor that the plan is for.
    pub(crate) executor: Executor,
    /// Returns an error if the rewrites must stop.
    pub(crate) check: &'a dyn Fn() -> Result<()>,
}

/// The shared subplans of a statement, by their numbers.
#[derive(Default)]
pub(crate) struct SharedPlans {
    plans: Vec<SharedPlan>,
    next: usize,
}

struct SharedPlan {
    number: usize,
    plan: Logical,
    is_correlated: bool,
}

impl SharedPlans {
    /// Adds a subplan and returns its number.
    pub(crate) fn add(&mut self, plan: Logical) -> usize {
        let number = self.next;
        self.next += 1;
        self.plans.push(SharedPlan { number, plan, is_correlated: false });
        number
    }

    /// The subplan of a number.
    pub(crate) fn get(&self, number: usize) -> Option<&Logical> {
        self.plans.iter().find(|shared| shared.number == number).map(|shared| &shared.plan)
    }

    /// The numbers of all subplans, in the order in which they were added.
    pub(crate) fn numbers(&self) -> Vec<usize> {
        self.plans.iter().map(|shared| shared.number).collect()
    }

    /// Takes a subplan out. The caller must put it back.
    pub(crate) fn take(&mut self, number: usize) -> Logical {
        let shared = self.plans.iter_mut().find(|shared| shared.number == number);
        super::walk::take(&mut shared.expect("the number of a shared plan must exist").plan)
    }

    /// Puts a subplan back.
    pub(crate) fn put(&mut self, number: usize, plan: Logical) {
        let shared = self.plans.iter_mut().find(|shared| shared.number == number);
        shared.expect("the number of a shared plan must exist").plan = plan;
    }
}

impl RewriteContext<'_> {
    /// A column as an expression.
    pub(crate) fn expr(&self, id: ColumnId) -> ScalarExpr {
        self.columns.expr(id)
    }

    /// A new column for the value of an expression.
    pub(crate) fn add_column(&mut self, name: &str, expr: &ScalarExpr) -> ColumnId {
        self.columns.add(name, expr.kind.clone())
    }

    /// Applies a rewrite to the plan and to every shared subplan.
    pub(crate) fn each_plan(&mut self, root: &mut Logical, rewrite: &mut PlanRewrite<'_>) -> Result<()> {
        (self.check)()?;
        rewrite(root, self)?;
        // A rewrite may add subplans. Those are already rewritten.
        for number in self.shared.numbers() {
            (self.check)()?;
            let mut plan = self.shared.take(number);
            rewrite(&mut plan, self)?;
            self.shared.put(number, plan);
        }
        Ok(())
    }

    /// Moves the inputs of all `Shared` operators into the table.
    pub(crate) fn detach_shared(&mut self, plan: &mut Logical) {
        let mut any = false;
        each_with_subqueries(plan, &mut |operator| {
            if let Logical::Shared { number, .. } = operator {
                any = true;
                self.shared.next = self.shared.next.max(number + 1);
            }
        });
        if any {
            self.detach(plan);
        }
    }

    fn detach(&mut self, plan: &mut Logical) {
        for expr in exprs_mut(plan) {
            expr.rewrite(&mut |expr| {
                if let ExprOp::Subquery(subquery) = &mut expr.op {
                    self.detach(&mut subquery.plan);
                }
            });
        }
        inputs_mut(plan).into_iter().for_each(|input| self.detach(input));
        let Logical::Shared { number, input, input_columns, columns } = plan else { return };
        let input = std::mem::replace(input, Arc::new(Logical::no_rows(Vec::new())));
        let number = *number;
        if self.shared.get(number).is_none() {
            let mut input = Arc::unwrap_or_clone(input);
            self.shared.next = self.shared.next.max(number + 1);
            self.detach(&mut input);
            let is_correlated = !free(&input).is_empty() || reads_outer_round(&input);
            self.shared.plans.push(SharedPlan { number, plan: input, is_correlated });
        }
        let shared = self.shared.plans.iter().find(|shared| shared.number == number);
        let shared = shared.expect("the subplan has just been added");
        if shared.is_correlated {
            let mut copy = shared.plan.clone();
            let numbers = renumber(&mut copy, self.columns);
            let from = input_columns.iter().map(|id| numbers.get(id).copied().unwrap_or(*id));
            let exprs = columns.iter().zip(from).map(|(to, from)| (*to, self.columns.expr(from))).collect();
            *plan = Logical::map(copy, exprs);
        }
    }

    /// Inlines the subplans with a single reader, and drops those without a reader.
    pub(crate) fn inline_shared(&mut self, root: &mut Logical) {
        if self.shared.plans.is_empty() {
            return;
        }
        loop {
            let mut uses = vec![0; self.shared.next];
            let mut count = |plan: &Logical| {
                each_with_subqueries(plan, &mut |operator| {
                    if let Logical::Shared { number, .. } = operator {
                        uses[*number] += 1;
                    }
                });
            };
            count(root);
            // Shared subplans may read other shared subplans.
            self.shared.plans.iter().for_each(|shared| count(&shared.plan));
            let before = self.shared.plans.len();
            self.shared.plans.retain(|shared| uses[shared.number] > 0);
            if self.shared.plans.len() < before {
                // The subplans that this unread subplan reads now have fewer uses.
                continue;
            }
            // Inline one subplan per round, because that changes the number of uses of others.
            let Some(at) = self.shared.plans.iter().position(|shared| uses[shared.number] == 1) else { return };
            let shared = self.shared.plans.remove(at);
            let mut plan = Some(shared.plan);
            self.inline(root, shared.number, &mut plan);
            for number in self.shared.numbers() {
                let mut other = self.shared.take(number);
                self.inline(&mut other, shared.number, &mut plan);
                self.shared.put(number, other);
            }
        }
    }

    fn inline(&self, into: &mut Logical, wanted: usize, plan: &mut Option<Logical>) {
        if plan.is_none() {
            return;
        }
        if let Logical::Shared { number, input_columns, columns, .. } = into
            && *number == wanted
            && let Some(plan) = plan.take()
        {
            let from = input_columns.iter().map(|id| self.columns.expr(*id));
            *into = Logical::map(plan, columns.iter().copied().zip(from).collect());
            return;
        }
        for expr in exprs_mut(into) {
            expr.rewrite(&mut |expr| {
                if let ExprOp::Subquery(subquery) = &mut expr.op {
                    self.inline(&mut subquery.plan, wanted, plan);
                }
            });
        }
        inputs_mut(into).into_iter().for_each(|input| self.inline(input, wanted, plan));
    }

    /// Copies the subplans that only scan a table into their readers. Each reader then reads only its own columns,
    /// which is cheaper than keeping the rows. The plans must be pruned.
    pub(crate) fn copy_shared_scans(&mut self, plan: &mut Logical) {
        if self.shared.plans.is_empty() {
            return;
        }
        inputs_mut(plan).into_iter().for_each(|input| self.copy_shared_scans(input));
        let Logical::Shared { number, input_columns, columns, .. } = plan else { return };
        let Some(Logical::Scan(scan)) = self.shared.get(*number) else { return };
        if scan.row_number.is_some() {
            return;
        }
        let mut scan = scan.clone();
        let mut new = Vec::with_capacity(scan.columns.len());
        let mut by = HashMap::new();
        for (id, at) in &scan.columns {
            let read = input_columns.iter().zip(&*columns).filter(|(from, _)| *from == id);
            let first = new.len();
            new.extend(read.map(|(_, to)| (*to, *at)));
            if new.len() == first {
                new.push((copy_column(self.columns, *id), *at));
            }
            by.insert(*id, self.columns.expr(new[first].0));
        }
        scan.conditions.iter_mut().for_each(|condition| substitute(condition, &by));
        let mut read = ColumnSet::from_iter(columns.iter().copied());
        scan.conditions.iter().for_each(|condition| add_named(condition, &mut read));
        new.retain(|(id, _)| read.contains(*id));
        scan.columns = new;
        *plan = Logical::Scan(scan);
    }

    /// Gives every `Shared` operator its input back.
    pub(crate) fn attach_shared(&mut self, root: &mut Logical) {
        let mut done: Vec<Option<Arc<Logical>>> = vec![None; self.shared.next];
        self.attach(root, &mut done);
    }

    fn attach(&mut self, plan: &mut Logical, done: &mut Vec<Option<Arc<Logical>>>) {
        if let Logical::Shared { number, input, .. } = plan {
            if done[*number].is_none() {
                let mut shared = self.shared.take(*number);
                self.attach(&mut shared, done);
                done[*number] = Some(Arc::new(shared));
            }
            *input = done[*number].clone().expect("the subplan has just been attached");
        }
        inputs_mut(plan).into_iter().for_each(|input| self.attach(input, done));
    }
}

/// A rewrite of one plan.
pub(crate) type PlanRewrite<'r> = dyn FnMut(&mut Logical, &mut RewriteContext<'_>) -> Result<()> + 'r;

/// Calls `each` with every operator, including those of subqueries and of attached shared plans.
fn each_with_subqueries(plan: &Logical, each: &mut dyn FnMut(&Logical)) {
    each_operator(plan, &mut |operator| {
        each(operator);
        for expr in exprs(operator) {
            expr.each(&mut |expr| {
                if let ExprOp::Subquery(subquery) = &expr.op {
                    each_with_subqueries(&subquery.plan, each);
                }
            });
        }
    });
}

/// Whether a plan reads the rows of an enclosing recursive query, so each round must compute it again.
fn reads_outer_round(plan: &Logical) -> bool {
    let (mut read, mut own) = (Vec::new(), Vec::new());
    each_with_subqueries(plan, &mut |operator| match operator {
        Logical::RecursiveRows { number, .. } => read.push(*number),
        Logical::Recursive { number, .. } => own.push(*number),
        _ => {}
    });
    read.iter().any(|number| !own.contains(number))
}
