//! The part of a plan below a grouping and a limit: sources that can be joined in any order, conditions, and lookups
//! for each of their rows.

use std::collections::HashMap;

use rowmill_plan::logical::{
    LogicalJoin, LogicalJoinKind, LogicalScan, LogicalSetOperation, LogicalWindow, SetOperationKind,
};
use rowmill_plan::program::LookupKind;
use rowmill_plan::{ColumnId, Logical, ScalarExpr};

use super::Definitions;
use super::stage::row_number_limit;
use crate::optimizer::facts::{equality, split_and};
use crate::optimizer::unique::gives_at_most_one_row;
use crate::optimizer::walk::{output, substitute};

/// The joined rows of some sources.
#[derive(Clone, Debug, Default)]
pub(super) struct JoinedSources<'p> {
    /// The sources. The rows are all combinations of their rows that meet the conditions.
    pub(super) sources: Vec<RelationSource<'p>>,
    pub(super) conditions: Vec<ScalarExpr>,
    /// Lookups for each of these rows, in order.
    pub(super) steps: Vec<RelationStep<'p>>,
}

/// A source of rows.
#[derive(Clone, Debug)]
pub(super) enum RelationSource<'p> {
    /// A table.
    Scan(&'p LogicalScan),
    /// A plan that is read by a nested read.
    Plan(&'p Logical),
    /// The distinct values of expressions over the rows of a plan, in new columns.
    Keys(&'p Logical, Vec<(ColumnId, ScalarExpr)>),
    /// The rows of several plans, one plan after another.
    Union(&'p LogicalSetOperation),
    /// Rows that the statement contains.
    Values(&'p [ColumnId], &'p [Vec<ScalarExpr>]),
    /// Rows with window values.
    Windows(&'p LogicalWindow),
    /// A `Logical::Recursive`, and the columns of its result.
    Recursion(&'p Logical, &'p [ColumnId]),
    /// The row for which a nested read runs.
    OuterRow(&'p [ColumnId]),
    /// The rows of the previous round of the recursion with this number.
    LastRound(usize, &'p [ColumnId]),
}

/// A lookup for each row of the sources.
#[derive(Clone, Debug)]
pub(super) struct RelationStep<'p> {
    pub(super) kind: LookupKind,
    /// The right side of the join, and its conditions on pairs.
    pub(super) right: &'p Logical,
    pub(super) on: Vec<ScalarExpr>,
    /// The source of the lookup. Conditions on the right side alone are moved to the conditions on pairs.
    pub(super) source: RelationSource<'p>,
    pub(super) conditions: Vec<ScalarExpr>,
    pub(super) compared: Vec<ScalarExpr>,
    /// The column of [`LookupKind::Mark`].
    pub(super) mark: Option<ColumnId>,
}

impl<'p> JoinedSources<'p> {
    /// The relation of a plan, or `None` if programs cannot read it.
    pub(super) fn of(plan: &'p Logical, definitions: &Definitions) -> Option<JoinedSources<'p>> {
        match plan {
            Logical::Values { columns, rows } if columns.is_empty() && rows.len() == 1 => {
                Some(JoinedSources::default())
            }
            Logical::Values { columns, rows } => Some(JoinedSources::of_source(RelationSource::Values(columns, rows))),
            Logical::SetOperation(of) if of.kind == SetOperationKind::Union && of.all => {
                Some(JoinedSources::of_source(RelationSource::Union(of)))
            }
            Logical::Window(window) => Some(JoinedSources::of_source(RelationSource::Windows(window))),
            Logical::Recursive { columns, .. } => {
                Some(JoinedSources::of_source(RelationSource::Recursion(plan, columns)))
            }
            Logical::RecursiveRows { number, columns } => {
                Some(JoinedSources::of_source(RelationSource::LastRound(*number, columns)))
            }
            Logical::OuterRow { columns } => Some(JoinedSources::of_source(RelationSource::OuterRow(columns))),
            Logical::Filter { input, conditions } => {
                // The first rows of each partition need a stage of their own.
                if let (Logical::Window(window), [condition]) = (&**input, &conditions[..])
                    && row_number_limit(window, condition).is_some()
                {
                    return Some(JoinedSources::of_source(RelationSource::Plan(plan)));
                }
                let mut relation = JoinedSources::of(input, definitions)?;
                relation.conditions.extend(split_and(conditions.clone()));
                Some(relation)
            }
            Logical::Map { input, exprs } => {
                definitions.add(exprs);
                JoinedSources::of(input, definitions)
            }
            Logical::Join(join) => JoinedSources::of_join(join, definitions),
            Logical::Scan(scan) => Some(JoinedSources::of_source(RelationSource::Scan(scan))),
            // Rows that are never more than one need no check.
            Logical::SingleRow { input, by } if by.is_empty() && gives_at_most_one_row(input) => {
                JoinedSources::of(input, definitions)
            }
            // These operators need a stage of their own.
            Logical::Group(group) if group.sets.is_none() => Some(JoinedSources::of_source(RelationSource::Plan(plan))),
            Logical::Distinct { on: false, .. }
            | Logical::Limit { .. }
            | Logical::Sort { .. }
            | Logical::SetOperation(_) => Some(JoinedSources::of_source(RelationSource::Plan(plan))),
            _ => None,
        }
    }

    /// A relation of one source without conditions.
    pub(super) fn of_source(source: RelationSource<'p>) -> JoinedSources<'p> {
        JoinedSources { sources: vec![source], ..JoinedSources::default() }
    }

    /// Whether it reads the row of an enclosing join.
    pub(super) fn has_outer_row(&self) -> bool {
        self.sources.iter().any(|source| matches!(source, RelationSource::OuterRow(_)))
    }

    /// The relation without its [`RelationSource::OuterRow`]s: conditions say which known columns equal their columns,
    /// which become other names of those. Returns `None` if a column is not given in this way.
    pub(super) fn without_outer_rows(&self, definitions: &Definitions) -> Option<JoinedSources<'p>> {
        let mut relation = self.clone();
        for source in &self.sources {
            let RelationSource::OuterRow(columns) = source else { continue };
            let is_own = |id: usize| columns.contains(&ColumnId(id));
            for column in *columns {
                let known = |condition: &ScalarExpr, is_null_safe: bool| {
                    let (left, right, _) = equality(condition).filter(|(.., safe)| *safe == is_null_safe)?;
                    let (left, right) = (left.as_column()?, right.as_column()?);
                    let other = if left == column.0 { right } else { left };
                    let names = [left, right].contains(&column.0) && !is_own(other);
                    let is_alike = definitions.kind(ColumnId(other)) == definitions.kind(*column);
                    (names && is_alike).then_some(ColumnId(other))
                };
                let find = |is_null_safe: bool| {
                    let mut conditions = relation.conditions.iter().enumerate();
                    conditions.find_map(|(at, condition)| Some((at, known(condition, is_null_safe)?)))
                };
                // A plain equality beside a NULL-safe one leaves out NULL, so it must stay.
                let (at, other) = find(true).or_else(|| find(false))?;
                relation.conditions.remove(at);
                let other = definitions.column(other);
                let by = HashMap::from([(*column, other.clone())]);
                relation.conditions.iter_mut().for_each(|condition| substitute(condition, &by));
                definitions.add(&[(*column, other)]);
            }
        }
        relation.sources.retain(|source| !matches!(source, RelationSource::OuterRow(_)));
        Some(relation)
    }

    fn of_join(join: &'p LogicalJoin, definitions: &Definitions) -> Option<JoinedSources<'p>> {
        let mut relation = JoinedSources::of(&join.left, definitions)?;
        let (kind, mark) = match join.kind {
            LogicalJoinKind::Inner => {
                let right = JoinedSources::of(&join.right, definitions)?;
                relation.sources.extend(right.sources);
                relation.conditions.extend(right.conditions);
                relation.conditions.extend(split_and(join.conditions.clone()));
                relation.steps.extend(right.steps);
                return Some(relation);
            }
            LogicalJoinKind::Left => (LookupKind::Left, None),
            LogicalJoinKind::Single => (LookupKind::Single, None),
            LogicalJoinKind::Semi => (LookupKind::Semi, None),
            LogicalJoinKind::Anti => (LookupKind::Anti, None),
            LogicalJoinKind::Mark(mark) => (LookupKind::Mark, Some(mark)),
            LogicalJoinKind::Full => return None,
        };
        let (mut kind, mut right) = (kind, &*join.right);
        // A left join with a single row is a scalar subquery, for which programs have a kind of lookup.
        if let (LookupKind::Left, Logical::SingleRow { input, by }) = (kind, right)
            && by.is_empty()
            && join.conditions.is_empty()
        {
            (kind, right) = (LookupKind::Single, input);
        }
        // Nothing above sees the right side, so its computed columns need not be made.
        let hides = matches!(kind, LookupKind::Semi | LookupKind::Anti | LookupKind::Mark);
        let on = split_and(join.conditions.clone());
        let mut conditions = on.clone();
        let source = step_source(right, hides, definitions, &mut conditions);
        let compared = join.compared.clone();
        relation.steps.push(RelationStep { kind, right, on, source, conditions, compared, mark });
        Some(relation)
    }
}

/// Splits the right side of a join into a source and conditions, which are added to `conditions`. With `hides`, no
/// column of the right side is visible above the join.
fn step_source<'p>(
    right: &'p Logical,
    hides: bool,
    definitions: &Definitions,
    conditions: &mut Vec<ScalarExpr>,
) -> RelationSource<'p> {
    let mut own = Vec::new();
    let mut plan = right;
    loop {
        match plan {
            Logical::Scan(scan) => {
                conditions.extend(own);
                return RelationSource::Scan(scan);
            }
            Logical::Filter { input, conditions } => {
                own.extend(split_and(conditions.clone()));
                plan = input;
            }
            Logical::Map { input, exprs } if hides => {
                definitions.add(exprs);
                plan = input;
            }
            _ => return RelationSource::Plan(right),
        }
    }
}

impl RelationSource<'_> {
    /// Whether its rows are distinct join keys, so a row of the other sources matches at most one of them.
    pub(super) fn is_of_keys(&self) -> bool {
        matches!(self, RelationSource::Keys(..))
    }

    /// The columns that it makes.
    pub(super) fn columns(&self) -> Vec<ColumnId> {
        match self {
            RelationSource::Scan(scan) => scan.columns.iter().map(|(id, _)| *id).collect(),
            RelationSource::Plan(plan) => output(plan).iter().collect(),
            RelationSource::Keys(_, keys) => keys.iter().map(|(id, _)| *id).collect(),
            RelationSource::Union(of) => of.columns.clone(),
            RelationSource::Values(columns, _)
            | RelationSource::Recursion(_, columns)
            | RelationSource::OuterRow(columns)
            | RelationSource::LastRound(_, columns) => columns.to_vec(),
            RelationSource::Windows(window) => {
                output(&window.input).iter().chain(window.calls.iter().map(|(id, _)| *id)).collect()
            }
        }
    }
}
