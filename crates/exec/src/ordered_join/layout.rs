//! The columns that an ordered join reads besides its keys and its result.

use arrow::datatypes::{DataType, Schema};
use rowmill_base::{Error, Result};
use rowmill_plan::{Aggregate, Expr, OrderedChoice};

use super::distance::Distances;
use super::{OrderRules, OrderedRequest, no_distances};

/// Places of right columns among those that a join stores.
#[derive(Clone, Debug)]
pub(crate) struct OrderedLayout {
    /// The place of the position among the stored columns.
    pub(crate) position: usize,
    /// The place of the tie among the stored columns.
    pub(crate) tie: Option<usize>,
    /// The places of the columns that aggregates read among the stored columns.
    pub(crate) arguments: Vec<usize>,
}

impl OrderedRequest {
    /// The right columns that the order or an aggregate reads: the position, the tie, then the others.
    pub(crate) fn right_columns(&self) -> Vec<usize> {
        let mut columns: Vec<usize> = [self.rules.position].into_iter().chain(self.rules.tie).collect();
        columns.extend(self.argument_columns());
        columns
    }

    /// The right columns that aggregates read, each once.
    pub(crate) fn argument_columns(&self) -> Vec<usize> {
        columns_of_aggregates(self.aggregates.iter().flatten())
    }

    /// The left columns that the bounds read.
    pub(crate) fn left_columns(&self) -> Vec<usize> {
        let OrderRules { lower, upper, choice, .. } = &self.rules;
        let to = if let OrderedChoice::Nearest { to } = choice { Some(*to) } else { None };
        lower.iter().chain(upper).map(|bound| bound.column).chain(to).collect()
    }

    /// The types of the aggregates.
    pub(crate) fn aggregate_kinds(&self) -> impl Iterator<Item = &DataType> {
        self.aggregates.iter().flatten().map(|aggregate| &aggregate.kind)
    }

    /// Fails if the request does not fit the sides of the join.
    pub(crate) fn check(&self, left: &Schema, right: &Schema, returns_right: bool) -> Result<()> {
        let wrong = |what: String| Err(Error::internal(format!("an invalid ordered join: {what}")));
        let all = [(self.left_columns(), left), (self.right_columns(), right)];
        for (columns, side) in all {
            if let Some(column) = columns.iter().find(|column| **column >= side.fields().len()) {
                return wrong(format!("column {column} of {}", side.fields().len()));
            }
        }
        let kind = right.field(self.rules.position).data_type();
        for column in self.left_columns() {
            let of_bound = left.field(column).data_type();
            if of_bound != kind {
                return wrong(format!("positions of {kind} with a bound of {of_bound}"));
            }
        }
        if let Some(tie) = self.rules.tie
            && *right.field(tie).data_type() != DataType::UInt64
        {
            return wrong(format!("a tie of {}", right.field(tie).data_type()));
        }
        if matches!(self.rules.choice, OrderedChoice::Nearest { .. }) && Distances::of(kind).is_none() {
            return Err(no_distances(kind));
        }
        let Some(aggregates) = &self.aggregates else { return Ok(()) };
        let chooses_all = matches!(self.rules.choice, OrderedChoice::All | OrderedChoice::AllWithPrevailing);
        if !chooses_all || returns_right {
            return wrong(format!("aggregates over {:?}", self.rules.choice));
        }
        let is_function =
            |aggregate: &Aggregate| aggregate.clone().exprs_mut().any(|expr| matches!(expr, Expr::Function(_)));
        match aggregates.iter().find(|aggregate| is_function(aggregate)) {
            Some(aggregate) => wrong(format!("{} of an expression", aggregate.function.name)),
            None => Ok(()),
        }
    }
}

/// The right columns that aggregates read, each once.
pub(crate) fn columns_of_aggregates<'a>(aggregates: impl Iterator<Item = &'a Aggregate>) -> Vec<usize> {
    let mut columns: Vec<usize> = aggregates.flat_map(columns_of_aggregate).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// The right columns that an aggregate reads.
pub(super) fn columns_of_aggregate(aggregate: &Aggregate) -> Vec<usize> {
    let column = |expr: &mut Expr| match expr {
        Expr::Column(column) => Some(*column),
        Expr::Function(_) => None,
    };
    aggregate.clone().exprs_mut().filter_map(column).collect()
}
