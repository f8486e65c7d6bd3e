//! Joins along an order.

use rowmill_base::{Error, Result};
use rowmill_plan::logical::LogicalOrderedJoin;

use super::Lowerer;
use super::relation::LoweredRelation;
use crate::column_set::ColumnSet;

impl Lowerer<'_> {
    pub(super) fn ordered_join(&mut self, _join: &LogicalOrderedJoin, _needed: &ColumnSet) -> Result<LoweredRelation> {
        Err(Error::internal("not yet"))
    }
}
