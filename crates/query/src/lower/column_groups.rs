//! Groups by columns, before a grouping by keys that are made of several of these columns.
//!
//! ```text
//!   group by a || 'x' || b            ->        group by a || 'x' || b
//!   └─ rows                                     └─ group by a, b
//!                                                  └─ rows
//!
//!   group by strftime(t, '%F %H')     ->        group by strftime(h, '%F %H')
//!   └─ rows                                     └─ group by date_trunc('hour', t) AS h
//!                                                  └─ rows
//! ```
//!
//! A key of several columns must be made for each row and hashed as a whole. Grouping by the columns themselves is
//! cheaper, and the keys are then made once for each combination of their values. All times of the smallest unit that
//! a format writes have one text. We should do this only if the combinations are far fewer than the rows, and we can do
//! it only if the aggregates can be combined from parts.

use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_expr::functions::{find, written_unit};
use rowmill_expr::typing;
use rowmill_plan::logical::LogicalGroup;
use rowmill_plan::{ColumnId, ExprOp, ScalarExpr, Volatility};

use super::Lowerer;
use super::grouping_sets::is_of_parts;
use super::relation::LoweredRelation;
use crate::column_set::columns_of;

/// Combinations of columns per row, up to which the rows are grouped by columns first, if a key is a text.
const COMBINATIONS_MAX: f64 = 0.2;
/// The same if no key is a text. Numbers are made in little time, so the groups should be found by small arrays.
const COMBINATIONS_OF_NUMBERS_MAX: f64 = 0.01;

impl Lowerer<'_> {
    /// Groups the rows of `input` by the columns of the keys and then by the keys, if that is cheaper. Otherwise
    /// returns `input` unchanged.
    pub(super) fn column_groups(
        &mut self,
        group: &LogicalGroup,
        input: LoweredRelation,
    ) -> Result<std::result::Result<LoweredRelation, LoweredRelation>> {
        if !group.aggregates.iter().all(|(_, call)| is_of_parts(call) && call.order.is_empty()) {
            return Ok(Err(input));
        }
        let mut group = group.clone();
        let mut with_units = input.clone();
        let mut units = Vec::new();
        for (_, key) in &mut group.keys {
            *key = input.resolve(key);
            key.rewrite(&mut |part| self.write_unit(part, &mut units));
        }
        with_units.derived.extend(units.iter().cloned());
        let Some(keys) = self.columns_of_keys(&group, &with_units, &units) else { return Ok(Err(input)) };
        let own = &with_units;
        let (grouped, aggregates) = self.first_group(&group, own, own, &keys)?;
        self.last_group(&group, &grouped, aggregates).map(Ok)
    }

    /// Makes the call `part`, if it writes a timestamp by a format, write the beginning of a unit of time. The
    /// beginning is a new column, which is added to `units`.
    fn write_unit(&mut self, part: &mut ScalarExpr, units: &mut Vec<(ColumnId, ScalarExpr)>) {
        let ExprOp::Call(function, arguments) = &mut part.op else { return };
        let is_char = function.name == "to_char";
        if !is_char && function.name != "strftime" {
            return;
        }
        let Some(pattern) = arguments.iter().find_map(|argument| argument.as_constant()?.as_text()) else { return };
        let Some(unit) = written_unit(pattern, is_char) else { return };
        let is_time = |argument: &&mut ScalarExpr| matches!(argument.kind, DataType::Timestamp(_, None));
        let Some(time) = arguments.iter_mut().find(is_time).filter(|time| time.as_constant().is_none()) else { return };
        let trunc = find("date_trunc").expect("the registry has date_trunc");
        let Ok(begin) = typing::call(trunc, vec![ScalarExpr::literal(unit), time.clone()]) else { return };
        if begin.kind != time.kind {
            return;
        }
        let known = units.iter().find(|(_, known)| *known == begin).map(|(id, _)| *id);
        let id = known.unwrap_or_else(|| {
            let id = self.columns.add("", begin.kind.clone());
            units.push((id, begin));
            id
        });
        *time = self.columns.expr(id);
    }

    /// The columns and the `units` that the keys read, if one of the keys is made of several of them or of a unit,
    /// and if they have few combinations.
    fn columns_of_keys(
        &self,
        group: &LogicalGroup,
        input: &LoweredRelation,
        units: &[(ColumnId, ScalarExpr)],
    ) -> Option<Vec<ColumnId>> {
        let is_made = |key: &&ScalarExpr| {
            let read = columns_of([*key]);
            let of_unit = units.iter().any(|(id, _)| read.contains(*id));
            of_unit || read.iter().nth(1).is_some()
        };
        let keys = || group.keys.iter().map(|(_, key)| key);
        let made: Vec<&ScalarExpr> = keys().filter(is_made).collect();
        if made.is_empty() || keys().any(|key| key.volatility() == Volatility::Volatile) {
            return None;
        }
        let read = columns_of(keys());
        let stored = input.ids.iter().chain(units.iter().map(|(id, _)| id));
        let columns: Vec<ColumnId> = stored.copied().filter(|id| read.contains(*id)).collect();
        if columns.len() != read.iter().count() || !columns.iter().all(|id| rowmill_plan::is_key_kind(self.kind(*id))) {
            return None;
        }
        let exprs: Vec<ScalarExpr> = columns.iter().map(|id| input.resolve(&self.columns.expr(*id))).collect();
        let combinations = self.estimator.group_count(input.node(), &exprs, &|id| input.position(ColumnId(id)));
        let has_text = made.iter().any(|key| key.kind == DataType::Utf8View);
        let most = if has_text { COMBINATIONS_MAX } else { COMBINATIONS_OF_NUMBERS_MAX };
        (combinations <= self.rows_of(input) * most).then_some(columns)
    }
}
