//! Removes correlation that cannot be pulled up, with a domain: the distinct values of the outer columns.
//!
//! ```text
//! Join(l, r(l.a))  ->  Join(l, r') on l.a IS NOT DISTINCT FROM d.a     where r' = r over each row of Distinct(l.a)
//! ```
//!
//! The right side is evaluated for every row of the domain at once. We push the domain down to the place where the
//! outer columns are read. Every operator on the way must keep the rows of different domain values apart. This is the
//! method of Neumann and Kemper, "Unnesting Arbitrary Queries" (2015). Dependent joins are removed from the outside
//! inwards, as in Neumann, "Improving Unnesting of Complex Queries" (2025): when a domain reaches a dependent join, it
//! goes only into the left side, and the right side finds the outer columns there.
//!
//! A program evaluates the right side for each row of the left side anyway, so its domain is the row of the left side:
//! [`Logical::OuterRow`].
//!
//! Values that cannot be compared, for example lists, cannot be grouped. In that case we number the rows of the left
//! side, and the number represents the values.

use std::collections::HashMap;

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::logical::{
    LogicalJoin, LogicalJoinKind, LogicalSetOperation, LogicalWindow, LogicalWindowCall, SetOperationKind,
};
use rowmill_plan::{ColumnId, ExprOp, Logical, ScalarExpr, is_key_kind};

use super::Executor;
use super::context::RewriteContext;
use super::facts::{is_movable, is_volatile, same};
use super::pull_up::empty_group_values;
use super::subquery::{numbered_limit, without_order};
use super::walk::{
    add_named, copy_column, each_operator, free, inputs_mut, named, output, renumber, substitute, substitute_operator,
    substitute_plan, take,
};
use crate::column_set::ColumnSet;

/// Removes the remaining dependent joins from a plan.
pub(crate) fn remove_dependent_joins(plan: &mut Logical, context: &mut RewriteContext<'_>) -> Result<()> {
    DomainPush { context }.flatten(plan)
}

struct DomainPush<'a, 'b> {
    context: &'a mut RewriteContext<'b>,
}

/// The outer rows for which a plan is evaluated.
struct OuterDomain {
    /// The outer columns, as the plan names them.
    outer: Vec<ColumnId>,
    /// The columns that identify a row of the domain: all outer columns, or only the row number.
    keys: Vec<ColumnId>,
    /// The rows of the domain.
    rows: DomainRows,
    /// The columns of `rows`, in the order of `outer`; none of an outer row.
    columns: Vec<ColumnId>,
    /// The recursive queries whose rows include the columns of the domain.
    recursive: Vec<usize>,
}

/// The source of the rows of a domain.
enum DomainRows {
    /// A shared plan.
    Shared(usize),
    /// A plan that is copied for each use, because a plan within a recursive query must not be shared.
    Copied(Box<Logical>),
    /// The row of the left side.
    OuterRow,
}

/// The names of the outer columns in a plan.
type DomainColumns = HashMap<ColumnId, ColumnId>;

impl DomainPush<'_, '_> {
    /// Removes the dependent joins of a plan that is not correlated itself, or whose own correlation was already
    /// removed.
    fn flatten(&mut self, plan: &mut Logical) -> Result<()> {
        if let Logical::Join(join) = plan {
            self.flatten(&mut join.left)?;
            let mut outer = free(&join.right);
            let left = output(&join.left);
            outer = outer.iter().filter(|id| left.contains(*id)).collect();
            if outer.is_empty() {
                return self.flatten(&mut join.right);
            }
            let Logical::Join(join) = take(plan) else { unreachable!("the plan is a join") };
            *plan = self.dependent(join, &outer)?;
            return Ok(());
        }
        for input in inputs_mut(plan) {
            self.flatten(input)?;
        }
        Ok(())
    }

    /// Removes a dependent join. Its right side names the columns `outer` of the left side, which must be flat.
    fn dependent(&mut self, mut join: LogicalJoin, outer: &ColumnSet) -> Result<Logical> {
        if join.kind == LogicalJoinKind::Full {
            let message = "a FULL JOIN cannot have a lateral right side";
            return Err(Error::new(ErrorKind::Unsupported, message).hint("use LEFT JOIN LATERAL"));
        }
        let mut left = take(&mut join.left);
        let mut outer: Vec<ColumnId> = outer.iter().collect();
        // The outer columns themselves are the keys if they can be grouped.
        let has_keys = outer.iter().all(|id| is_key_kind(&self.context.columns.get(*id).kind));
        let keys = match has_keys {
            true => outer.clone(),
            false => {
                let (numbered, number) = self.numbered(left);
                left = numbered;
                outer.push(number);
                vec![number]
            }
        };
        // Only rows of the left side that can match need the right side, so the domain takes those.
        let left_columns = output(&left);
        // Only joins of subqueries may evaluate a condition that can fail for every row of the left side.
        let for_all = matches!(join.kind, LogicalJoinKind::Single | LogicalJoinKind::Mark(_));
        let is_needed = |condition: &&ScalarExpr| {
            let is_usable = if for_all { !is_volatile(condition) } else { is_movable(condition) };
            is_usable && named(condition).is_subset(&left_columns)
        };
        let needed = join.conditions.iter().filter(is_needed).cloned().collect();
        let mut domain = self.domain(&mut left, outer, keys, has_keys, needed);
        let (right, columns) = self.push(take(&mut join.right), &mut domain)?;
        // The keys must be compared first, so no other condition sees rows of another domain value.
        let same = |key: &ColumnId| same(self.context.columns, *key, columns[key]);
        join.conditions.splice(0..0, domain.keys.iter().map(same));
        *join.left = left;
        *join.right = right;
        Ok(Logical::Join(join))
    }

    /// Adds a unique row number to the rows of a plan.
    fn numbered(&mut self, input: Logical) -> (Logical, ColumnId) {
        let number = self.context.columns.add("row", DataType::Int64);
        let (input, calls) = (Box::new(input), vec![(number, LogicalWindowCall::row_number())]);
        let window = LogicalWindow { input, partition: Vec::new(), order: Vec::new(), calls, top: None };
        (Logical::Window(window), number)
    }

    /// The domain of the rows of `left` that meet `needed`. Changes `left` so that both read the same shared rows.
    fn domain(
        &mut self,
        left: &mut Logical,
        outer: Vec<ColumnId>,
        keys: Vec<ColumnId>,
        is_distinct: bool,
        mut needed: Vec<ScalarExpr>,
    ) -> OuterDomain {
        if self.context.executor == Executor::Program && is_distinct && needed.is_empty() {
            return OuterDomain { outer, keys, rows: DomainRows::OuterRow, columns: Vec::new(), recursive: Vec::new() };
        }
        let mut is_recursive = false;
        each_operator(left, &mut |plan| is_recursive |= matches!(plan, Logical::RecursiveRows { .. }));
        let mut copy = left.clone();
        let numbers = renumber(&mut copy, self.context.columns);
        let input_columns: Vec<_> = output(left).iter().map(|id| (id, numbers[&id])).collect();
        let read = |number, ids: Vec<(ColumnId, ColumnId)>| {
            let (columns, input_columns) = ids.into_iter().unzip();
            let input = std::sync::Arc::new(Logical::no_rows(Vec::new()));
            Logical::Shared { number, input, input_columns, columns }
        };
        let (rows, names): (Logical, HashMap<ColumnId, ColumnId>) = match is_recursive {
            true => (copy, numbers),
            false => {
                // The left side is read twice, by the join and by the domain, so it is computed once and shared.
                let number = self.context.shared.add(copy);
                *left = read(number, input_columns);
                let mut read_columns: ColumnSet = outer.iter().copied().collect();
                needed.iter().for_each(|condition| add_named(condition, &mut read_columns));
                let names: HashMap<_, _> =
                    read_columns.iter().map(|id| (id, copy_column(self.context.columns, id))).collect();
                let ids = read_columns.iter().map(|id| (names[&id], numbers[&id])).collect();
                (read(number, ids), names)
            }
        };
        let columns: Vec<ColumnId> = outer.iter().map(|id| names[id]).collect();
        let by = self.replacements(&names);
        needed.iter_mut().for_each(|condition| substitute(condition, &by));
        let rows = Logical::filter(rows, needed);
        let rows = match is_distinct {
            true => Logical::Distinct { input: Box::new(rows), columns: columns.clone(), on: false },
            false => rows,
        };
        let rows = match is_recursive {
            true => DomainRows::Copied(Box::new(rows)),
            false => DomainRows::Shared(self.context.shared.add(rows)),
        };
        OuterDomain { outer, keys, rows, columns, recursive: Vec::new() }
    }

    /// The rows of the domain, with new columns.
    fn read(&mut self, domain: &OuterDomain) -> (Logical, DomainColumns) {
        match &domain.rows {
            DomainRows::Shared(number) => {
                let columns: Vec<_> = domain.outer.iter().map(|id| copy_column(self.context.columns, *id)).collect();
                let names = domain.outer.iter().copied().zip(columns.iter().copied()).collect();
                let input = std::sync::Arc::new(Logical::no_rows(Vec::new()));
                let input_columns = domain.columns.clone();
                (Logical::Shared { number: *number, input, input_columns, columns }, names)
            }
            DomainRows::OuterRow => {
                let columns: Vec<_> = domain.outer.iter().map(|id| copy_column(self.context.columns, *id)).collect();
                let names = domain.outer.iter().copied().zip(columns.iter().copied()).collect();
                (Logical::OuterRow { columns }, names)
            }
            DomainRows::Copied(rows) => {
                let mut rows = (**rows).clone();
                let numbers = renumber(&mut rows, self.context.columns);
                let names = domain.outer.iter().zip(&domain.columns).map(|(id, column)| (*id, numbers[column]));
                (rows, names.collect())
            }
        }
    }

    /// The expressions that replace the outer columns.
    fn replacements(&self, names: &DomainColumns) -> HashMap<ColumnId, ScalarExpr> {
        names.iter().map(|(outer, own)| (*outer, self.context.expr(*own))).collect()
    }

    /// Conditions that all keys of the domain are equal under two names.
    fn same_keys(&self, domain: &OuterDomain, left: &DomainColumns, right: &DomainColumns) -> Vec<ScalarExpr> {
        domain.keys.iter().map(|key| same(self.context.columns, left[key], right[key])).collect()
    }

    /// Adds the remaining columns of the domain to rows that have only its keys.
    fn with_all_columns(
        &mut self,
        plan: Logical,
        keys: DomainColumns,
        domain: &OuterDomain,
    ) -> (Logical, DomainColumns) {
        if domain.keys.len() == domain.outer.len() {
            return (plan, keys);
        }
        let (rows, names) = self.read(domain);
        let conditions = self.same_keys(domain, &names, &keys);
        (Logical::join(LogicalJoinKind::Inner, rows, plan, conditions), names)
    }

    fn is_dependent(&self, plan: &Logical, domain: &OuterDomain) -> bool {
        let free = free(plan);
        if domain.outer.iter().any(|id| free.contains(*id)) {
            return true;
        }
        let mut reads = false;
        if !domain.recursive.is_empty() {
            each_operator(plan, &mut |plan| {
                if let Logical::RecursiveRows { number, .. } = plan {
                    reads |= domain.recursive.contains(number);
                }
            });
        }
        reads
    }

    /// Evaluates `plan` for each row of the domain. The result also has the columns of the domain.
    fn push(&mut self, mut plan: Logical, domain: &mut OuterDomain) -> Result<(Logical, DomainColumns)> {
        // Nothing below reads the domain: a cross product is enough from here on.
        if !self.is_dependent(&plan, domain) {
            self.flatten(&mut plan)?;
            let (rows, names) = self.read(domain);
            let is_one_row =
                matches!(&plan, Logical::Values { columns, rows } if columns.is_empty() && rows.len() == 1);
            return Ok(match is_one_row {
                true => (rows, names),
                false => (Logical::join(LogicalJoinKind::Inner, rows, plan, Vec::new()), names),
            });
        }
        match plan {
            Logical::Join(join) => self.push_join(join, domain),
            Logical::Limit { input, skip, rows } => {
                let (input, order) = without_order(*input);
                let (input, names) = self.push(input, domain)?;
                let by = self.replacements(&names);
                let mut order = order.unwrap_or_default();
                order.iter_mut().for_each(|key| substitute(&mut key.expr, &by));
                let partition = domain.keys.iter().map(|key| by[key].clone()).collect();
                let (plan, mut conditions) = numbered_limit(self.context, input, order, partition, skip, rows);
                conditions.iter_mut().for_each(|condition| substitute(condition, &by));
                Ok((Logical::filter(plan, conditions), names))
            }
            Logical::SetOperation(operation) => self.push_set_operation(operation, domain),
            Logical::Values { columns, rows } => self.push_values(columns, rows, domain),
            Logical::Recursive { .. } => self.push_recursive(plan, domain),
            Logical::RecursiveRows { number, mut columns } => {
                let names: DomainColumns =
                    domain.keys.iter().map(|id| (*id, copy_column(self.context.columns, *id))).collect();
                columns.extend(domain.keys.iter().map(|id| names[id]));
                Ok(self.with_all_columns(Logical::RecursiveRows { number, columns }, names, domain))
            }
            Logical::Scan(_) | Logical::Source(_) | Logical::Shared { .. } => {
                Err(Error::internal("a scan names a column of an outer query"))
            }
            _ => self.push_through(plan, domain),
        }
    }

    /// Pushes the domain through an operator with one input.
    fn push_through(&mut self, mut plan: Logical, domain: &mut OuterDomain) -> Result<(Logical, DomainColumns)> {
        let input = take(inputs_mut(&mut plan).remove(0));
        let (input, names) = self.push(input, domain)?;
        *inputs_mut(&mut plan).remove(0) = input;
        let by = self.replacements(&names);
        substitute_operator(&mut plan, &by);
        let keys = domain.keys.iter().map(|key| names[key]);
        match &mut plan {
            Logical::Filter { .. } | Logical::Map { .. } | Logical::Sort { .. } | Logical::Unnest { .. } => {}
            Logical::Window(window) => window.partition.extend(domain.keys.iter().map(|key| by[key].clone())),
            Logical::SingleRow { by, .. } => by.extend(keys),
            // Rows of the domain come from the left side, and all of them meet the same right side.
            Logical::OrderedJoin(join) if super::walk::free(&join.right).is_empty() => {}
            Logical::OrderedJoin(_) => return Err(no_correlated_side()),
            // Without keys, the range has rows for a domain value without any row, which a key cannot give.
            Logical::Fill(fill) if fill.keys.is_empty() && fill.from.is_some() && fill.to.is_some() => {
                return Err(no_correlated_range());
            }
            Logical::Fill(fill) => fill.keys.extend(keys),
            Logical::Distinct { columns, on, .. } => {
                columns.extend(keys);
                if !*on {
                    let names = domain.keys.iter().map(|key| (*key, names[key])).collect();
                    return Ok(self.with_all_columns(plan, names, domain));
                }
            }
            Logical::Group(_) => return self.push_group(plan, names, domain),
            _ => return Err(Error::internal("an operator has no rule for unnesting")),
        }
        Ok((plan, names))
    }

    /// Groups the rows of each domain value separately. `plan` must already read the rows of the domain.
    fn push_group(
        &mut self,
        plan: Logical,
        names: DomainColumns,
        domain: &OuterDomain,
    ) -> Result<(Logical, DomainColumns)> {
        let Logical::Group(mut group) = plan else { unreachable!("the plan is a group") };
        let first = group.keys.len();
        let has_total = match &group.sets {
            None => group.keys.is_empty(),
            Some(sets) => sets.iter().any(Vec::is_empty),
        };
        let totals: Vec<usize> = match &group.sets {
            Some(sets) => (0..sets.len()).filter(|at| sets[*at].is_empty()).collect(),
            None => Vec::new(),
        };
        let mut own = DomainColumns::new();
        for key in &domain.keys {
            let id = copy_column(self.context.columns, *key);
            group.keys.push((id, self.context.expr(names[key])));
            own.insert(*key, id);
        }
        // Each set must keep domain values apart.
        for set in group.sets.iter_mut().flatten() {
            set.extend(first..group.keys.len());
        }
        if !has_total {
            return Ok(self.with_all_columns(Logical::Group(group), own, domain));
        }
        if totals.len() > 1 {
            let message = "a correlated subquery has GROUPING SETS with several empty sets";
            return Err(Error::new(ErrorKind::Unsupported, message).hint("keep one of them"));
        }
        // A total has a row even without input, so we need a left join that keeps every row of the domain.
        let mut defaults = empty_group_values(&mut group, self.context);
        if let (Some(id), Some(total)) = (&mut group.set, totals.first()) {
            let given = copy_column(self.context.columns, *id);
            let kind = self.context.columns.get(*id).kind.clone();
            let total = ScalarExpr::literal(*total as i64).cast(kind.clone());
            let value = ExprOp::Coalesce(vec![self.context.expr(given), total]);
            defaults.push((*id, ScalarExpr::new(kind, value)));
            *id = given;
        }
        let (rows, names) = self.read(domain);
        let conditions = self.same_keys(domain, &names, &own);
        let join = Logical::join(LogicalJoinKind::Left, rows, Logical::Group(group), conditions);
        Ok((Logical::map(join, defaults), names))
    }

    fn push_join(&mut self, mut join: LogicalJoin, domain: &mut OuterDomain) -> Result<(Logical, DomainColumns)> {
        let (mut left, mut right) = (take(&mut join.left), take(&mut join.right));
        if free(&right).intersects(&output(&left)) {
            // The right side depends on the left one and finds the outer columns there, so the domain goes only into
            // the left side.
            let (left, names) = self.push(left, domain)?;
            let by = self.replacements(&names);
            substitute_plan(&mut right, &by);
            join.conditions.iter_mut().chain(&mut join.compared).for_each(|expr| substitute(expr, &by));
            let left_output = output(&left);
            let outer = free(&right).iter().filter(|id| left_output.contains(*id)).collect();
            (*join.left, *join.right) = (left, right);
            return Ok((self.dependent(join, &outer)?, names));
        }
        let (from_left, from_right) = (self.is_dependent(&left, domain), self.is_dependent(&right, domain));
        let is_full = join.kind == LogicalJoinKind::Full;
        // Only one side needs the domain. For other kinds the left side must have it, because unmatched rows stay.
        if join.kind == LogicalJoinKind::Inner && from_right && !from_left {
            self.flatten(&mut left)?;
            let (right, names) = self.push(right, domain)?;
            let by = self.replacements(&names);
            join.conditions.iter_mut().for_each(|expr| substitute(expr, &by));
            (*join.left, *join.right) = (left, right);
            return Ok((Logical::Join(join), names));
        }
        let (left, mut names) = self.push(left, domain)?;
        let by = self.replacements(&names);
        join.conditions.iter_mut().chain(&mut join.compared).for_each(|expr| substitute(expr, &by));
        let mut both = Vec::new();
        if from_right || is_full {
            let (pushed, right_names) = self.push(right, domain)?;
            // Rows of different domain values must not match.
            join.conditions.splice(0..0, self.same_keys(domain, &names, &right_names));
            if is_full {
                for id in domain.outer.clone() {
                    let own = copy_column(self.context.columns, id);
                    let operands = vec![self.context.expr(names[&id]), self.context.expr(right_names[&id])];
                    let kind = self.context.columns.get(id).kind.clone();
                    both.push((own, ScalarExpr::new(kind, ExprOp::Coalesce(operands))));
                    names.insert(id, own);
                }
            }
            right = pushed;
        } else {
            self.flatten(&mut right)?;
        }
        (*join.left, *join.right) = (left, right);
        Ok((Logical::map(Logical::Join(join), both), names))
    }

    fn push_set_operation(
        &mut self,
        mut operation: LogicalSetOperation,
        domain: &mut OuterDomain,
    ) -> Result<(Logical, DomainColumns)> {
        let mut inputs = Vec::with_capacity(operation.inputs.len());
        for (input, mut columns) in operation.inputs {
            let (mut input, names) = self.push(input, domain)?;
            // An input may give a column of an outer query unchanged.
            for id in &mut columns {
                *id = names.get(id).copied().unwrap_or(*id);
            }
            columns.extend(domain.keys.iter().map(|key| names[key]));
            let mut seen = ColumnSet::default();
            for id in &mut columns {
                if !seen.insert(*id) {
                    let copy = copy_column(self.context.columns, *id);
                    input = Logical::map(input, vec![(copy, self.context.expr(*id))]);
                    *id = copy;
                }
            }
            inputs.push((input, columns));
        }
        operation.inputs = inputs;
        let own: DomainColumns =
            domain.keys.iter().map(|key| (*key, copy_column(self.context.columns, *key))).collect();
        operation.columns.extend(domain.keys.iter().map(|key| own[key]));
        Ok(self.with_all_columns(Logical::SetOperation(operation), own, domain))
    }

    /// Turns each row of VALUES into a map over the domain.
    fn push_values(
        &mut self,
        columns: Vec<ColumnId>,
        rows: Vec<Vec<ScalarExpr>>,
        domain: &mut OuterDomain,
    ) -> Result<(Logical, DomainColumns)> {
        let mut inputs = Vec::with_capacity(rows.len());
        let is_single = rows.len() == 1;
        for mut row in rows {
            let (input, names) = self.read(domain);
            let by = self.replacements(&names);
            row.iter_mut().for_each(|expr| substitute(expr, &by));
            if is_single {
                return Ok((Logical::map(input, columns.into_iter().zip(row).collect()), names));
            }
            let mut own: Vec<_> = columns.iter().map(|id| copy_column(self.context.columns, *id)).collect();
            let input = Logical::map(input, own.iter().copied().zip(row).collect());
            own.extend(domain.keys.iter().map(|key| names[key]));
            inputs.push((input, own));
        }
        let own: DomainColumns =
            domain.keys.iter().map(|key| (*key, copy_column(self.context.columns, *key))).collect();
        let mut columns = columns;
        columns.extend(domain.keys.iter().map(|key| own[key]));
        let kind = SetOperationKind::Union;
        let plan = Logical::SetOperation(LogicalSetOperation { kind, all: true, inputs, columns });
        Ok(self.with_all_columns(plan, own, domain))
    }

    /// Adds the domain to the rows of every round.
    fn push_recursive(&mut self, plan: Logical, domain: &mut OuterDomain) -> Result<(Logical, DomainColumns)> {
        let Logical::Recursive { number, base, mut base_columns, step, mut step_columns, distinct, mut columns } = plan
        else {
            unreachable!("the plan is a recursive query")
        };
        let (base, base_names) = self.push(*base, domain)?;
        // While the step is rewritten, its recursive rows carry the domain columns as well.
        domain.recursive.push(number);
        let pushed = self.push(*step, domain);
        domain.recursive.pop();
        let (step, step_names) = pushed?;
        for (ids, names) in [(&mut base_columns, &base_names), (&mut step_columns, &step_names)] {
            for id in ids.iter_mut() {
                *id = names.get(id).copied().unwrap_or(*id);
            }
            ids.extend(domain.keys.iter().map(|key| names[key]));
        }
        let own: DomainColumns =
            domain.keys.iter().map(|key| (*key, copy_column(self.context.columns, *key))).collect();
        columns.extend(domain.keys.iter().map(|key| own[key]));
        let (base, step) = (Box::new(base), Box::new(step));
        let plan = Logical::Recursive { number, base, base_columns, step, step_columns, distinct, columns };
        Ok(self.with_all_columns(plan, own, domain))
    }
}

/// The error for a join along an order whose right side is correlated.
fn no_correlated_side() -> Error {
    let message = "the right side of an ASOF, WINDOW or other ordered JOIN must not name columns of an outer query";
    Error::new(ErrorKind::Unsupported, message).hint("put the condition into WHERE if it is on a key of the join")
}

/// The error for a FILL over a range without keys in a correlated subquery.
fn no_correlated_range() -> Error {
    let message = "FILL from ... to ... without keys is not supported in a subquery that names outer columns";
    Error::new(ErrorKind::Unsupported, message).hint("give the SAMPLE BY a key")
}
