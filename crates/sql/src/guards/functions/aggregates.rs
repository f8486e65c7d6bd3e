//! Aggregates that gather values into one: lists and joined texts.
//!
//! What they hold while they gather is counted by the operator around them. As a window function they also give a
//! value per row, each as long as its frame, and nobody counts those: a list of all rows before, for a million rows,
//! is half a billion items. So what one of them gives out in all is bounded.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, GroupsAccumulator, Operator, ReversedUDAF,
    Signature,
};

use super::too_large;
use crate::errors::to_datafusion;
use crate::guards::options::GuardOptions;

const GATHERING: &[&str] = &["array_agg", "string_agg"];

pub(super) fn bound(functions: &mut [Arc<AggregateUDF>]) {
    for function in functions.iter_mut() {
        if GATHERING.contains(&function.name()) {
            *function = Arc::new(AggregateUDF::from(Gathering { inner: function.clone() }));
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Gathering {
    inner: Arc<AggregateUDF>,
}

impl Gathering {
    fn bounded(&self, inner: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
        Box::new(Bounded { name: self.inner.name().to_string(), inner, given_bytes: 0 })
    }
}

impl AggregateUDFImpl for Gathering {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.schema_name(params)
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.human_display(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.display_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(self.bounded(self.inner.accumulator(arguments)?))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(self.bounded(self.inner.create_sliding_accumulator(arguments)?))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(arguments)
    }

    fn with_beneficial_ordering(self: Arc<Self>, is_beneficial: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let inner = self.inner.as_ref().clone().with_beneficial_ordering(is_beneficial)?;
        Ok(inner.map(|inner| Arc::new(Gathering { inner: Arc::new(inner) }) as _))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.inner.simplify()
    }

    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        value: &Expr,
        op: Operator,
        literal: &Expr,
        value_is_left: bool,
    ) -> Result<Option<Expr>> {
        self.inner.simplify_expr_op_literal(function, value, op, literal, value_is_left)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Reversed(inner) => ReversedUDAF::Reversed(Arc::new(AggregateUDF::from(Gathering { inner }))),
            other => other,
        }
    }

    fn default_value(&self, kind: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(kind)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// Counts the bytes of what it gives out.
#[derive(Debug)]
struct Bounded {
    name: String,
    inner: Box<dyn Accumulator>,
    given_bytes: u64,
}

impl Accumulator for Bounded {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.inner.evaluate()?;
        self.given_bytes += value.size() as u64;
        // An accumulator does not see the connection's settings.
        let limit = GuardOptions::default().result_value_max_bytes;
        if self.given_bytes > limit {
            return Err(to_datafusion(too_large(&self.name, u128::from(self.given_bytes), limit)));
        }
        Ok(value)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}
