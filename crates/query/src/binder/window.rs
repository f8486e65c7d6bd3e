//! Window functions: calls with OVER, named windows, frames.

use arrow::datatypes::{DataType, IntervalUnit};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_exec::aggregate;
use rowmill_expr::kinds::is_number;
use rowmill_expr::typing;
use rowmill_plan::ScalarExpr;
use rowmill_plan::logical::{
    FrameBound, FrameExclude, FrameRow, FrameUnit, LogicalSortKey, LogicalWindowCall, LogicalWindowFunction,
    RankFunction, WindowFrame,
};
use sqlparser::ast::{
    self, Expr, Function, FunctionArgumentClause, NamedWindowDefinition, NamedWindowExpr, NullTreatment, OrderByExpr,
    WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};

use super::Binder;
use super::built_query::{arguments, as_call};
use super::call::{argument_list, arguments_of, no_function};
use super::place::{start_of, suggest, type_name, type_names, unsupported};
use super::query::is_text_literal;
use super::scope::{AliasUse, Clause, PendingWindow};
use super::total_of_parts::TotalOfParts;
use super::walk::{free_columns, is_volatile_expr, window_exprs};

/// Functions that are allowed only with OVER. `first_value`, `last_value` and `nth_value` are also aggregates.
pub(super) const WINDOW_FUNCTIONS: &[&str] =
    &["row_number", "rank", "dense_rank", "rank_dense", "percent_rank", "cume_dist", "ntile", "lag", "lead"];

/// A window, including the parts that it inherits from a named window.
#[derive(Clone, Default)]
struct WindowParts {
    partition: Vec<Expr>,
    order: Vec<OrderByExpr>,
    frame: Option<ast::WindowFrame>,
    /// The rows of the frame that are left out.
    exclude: Option<FrameExclude>,
}

impl Binder<'_> {
    /// Records the windows of a WINDOW clause.
    pub(super) fn define_windows(&mut self, windows: &[NamedWindowDefinition]) -> Result<()> {
        for NamedWindowDefinition(name, window) in windows {
            let level = self.level();
            if level.named_windows.iter().any(|(known, _)| *known == name.value) {
                let message = format!("window \"{}\" is named twice", name.value);
                return Err(self.at(Error::new(ErrorKind::DuplicateObject, message), name.span));
            }
            level.named_windows.push((name.value.clone(), window.clone()));
        }
        Ok(())
    }

    /// Binds a call with OVER. A new column represents its value.
    pub(super) fn window_call(&mut self, name: &str, call: &Function) -> Result<ScalarExpr> {
        match self.clause() {
            Clause::Select | Clause::OrderBy | Clause::Qualify => {}
            Clause::Where | Clause::Having => {
                return Err(Error::new(ErrorKind::Grouping, "window functions are not allowed in WHERE and HAVING")
                    .hint("write a condition on one in QUALIFY, or around a subquery that computes it"));
            }
            clause => {
                let message = format!("window functions are not allowed in {}", clause.name());
                return Err(Error::new(ErrorKind::Grouping, message));
            }
        }
        // Window functions are computed before the select list, so its names must not be used here.
        let before = self.level().alias_use;
        if before == AliasUse::First {
            self.level().alias_use = AliasUse::Fallback;
        }
        let window = self.pending_window(name, call);
        self.level().alias_use = before;
        let (kind, window) = window?;
        let total = match &window.call.function {
            LogicalWindowFunction::Aggregate(call) => TotalOfParts::of(call)?,
            _ => None,
        };
        let Some(total) = total else { return self.window_column(name, kind, window) };
        let mut results = Vec::with_capacity(total.calls().len());
        for call in total.calls() {
            let (name, kind) = (call.function.name, call.kind.clone());
            let function = LogicalWindowFunction::Aggregate(call.clone());
            let call = LogicalWindowCall { function, frame: window.call.frame.clone() };
            let (partition, order) = (window.partition.clone(), window.order.clone());
            results.push(self.window_column(name, kind, PendingWindow { id: window.id, partition, order, call })?);
        }
        total.result(results)
    }

    /// The column of a call with OVER. Equal calls share one.
    fn window_column(&mut self, name: &str, kind: DataType, mut window: PendingWindow) -> Result<ScalarExpr> {
        let level = self.level();
        let mut is_nested = false;
        let mut is_volatile = false;
        let mut each = |expr: &ScalarExpr| {
            let named = free_columns(expr);
            is_nested |= level.windows.iter().any(|other| named.contains(&other.id.0));
            is_volatile |= is_volatile_expr(expr);
        };
        window.partition.iter().for_each(&mut each);
        window.order.iter().for_each(|key| each(&key.expr));
        window_exprs(&window.call, &mut |expr| each(expr));
        if is_nested {
            return Err(Error::new(ErrorKind::Grouping, "window functions cannot be nested")
                .hint("compute the inner one in a subquery"));
        }
        let same = |other: &&PendingWindow| {
            other.partition == window.partition && other.order == window.order && other.call == window.call
        };
        if !is_volatile && let Some(known) = level.windows.iter().find(same) {
            return Ok(ScalarExpr::id(known.id, kind));
        }
        window.id = self.add_column(name, kind.clone());
        let id = window.id;
        self.level().windows.push(window);
        Ok(ScalarExpr::id(id, kind))
    }

    fn pending_window(&mut self, name: &str, call: &Function) -> Result<(DataType, PendingWindow)> {
        let (kind, function) = self.window_function(name, call)?;
        let parts = match call.over.as_ref().expect("the call has OVER") {
            WindowType::NamedWindow(ident) => self.named_window(ident, usize::MAX)?,
            WindowType::WindowSpec(spec) => self.window_parts(spec, usize::MAX)?,
        };
        let mut partition = Vec::with_capacity(parts.partition.len());
        for expr in &parts.partition {
            let value = self.expr(expr)?;
            // A constant puts all rows into one partition, so we drop it.
            if value.as_constant().is_none() && !partition.contains(&value) {
                partition.push(value);
            }
        }
        let mut order = self.inner_order(&parts.order)?;
        let frame = WindowFrame {
            exclude: parts.exclude.unwrap_or(FrameExclude::NoOthers),
            ..self.frame(parts.frame.as_ref(), &order)?
        };
        // A constant does not order rows, but a RANGE with an offset counts its distances from it.
        let is_distance = |bound: &FrameBound<_>| matches!(bound, FrameBound::Preceding(_) | FrameBound::Following(_));
        if frame.unit != FrameUnit::Range || !(is_distance(&frame.start) || is_distance(&frame.end)) {
            order.retain(|key| key.expr.as_constant().is_none());
        }
        let call = LogicalWindowCall { function, frame };
        // The caller sets the id when it knows that no equal call exists.
        Ok((kind, PendingWindow { id: rowmill_plan::ColumnId(usize::MAX), partition, order, call }))
    }

    /// Finds a named window. Only the first `known` windows of the clause can be used.
    fn named_window(&mut self, ident: &ast::Ident, known: usize) -> Result<WindowParts> {
        let windows = &self.level().named_windows;
        let found = windows.iter().take(known).position(|(name, _)| *name == ident.value);
        let Some(place) = found else {
            let names: Vec<String> = windows.iter().map(|(name, _)| name.clone()).collect();
            let message = format!("the window \"{}\" is not defined", ident.value);
            let error = suggest(
                Error::new(ErrorKind::UndefinedObject, message),
                &ident.value,
                names.iter().map(String::as_str),
            );
            let error = match error.hint_text() {
                None => error.hint("define it with WINDOW name AS (...)"),
                Some(_) => error,
            };
            return Err(self.at(error, ident.span));
        };
        match windows[place].1.clone() {
            NamedWindowExpr::NamedWindow(other) => self.deeper(1, |binder| binder.named_window(&other, place)),
            NamedWindowExpr::WindowSpec(spec) => self.deeper(1, |binder| binder.window_parts(&spec, place)),
        }
    }

    fn window_parts(&mut self, spec: &WindowSpec, known: usize) -> Result<WindowParts> {
        let mut parts = WindowParts::default();
        // The parser puts EXCLUDE in front of the keys of PARTITION BY.
        let exclude = spec.partition_by.first().and_then(|first| as_call(first, "frame exclude"));
        let partition_by = &spec.partition_by[usize::from(exclude.is_some())..];
        if let Some(base) = &spec.window_name {
            parts = self.named_window(base, known)?;
            let refused = if parts.frame.is_some() {
                Some("it has a frame")
            } else if !partition_by.is_empty() {
                Some("it settles PARTITION BY")
            } else if !parts.order.is_empty() && !spec.order_by.is_empty() {
                Some("it has an ORDER BY")
            } else {
                None
            };
            if let Some(why) = refused {
                let message = format!("the window \"{}\" cannot be changed in this way: {why}", base.value);
                return Err(self.at(Error::new(ErrorKind::Grouping, message), base.span));
            }
        }
        if !partition_by.is_empty() {
            parts.partition = partition_by.to_vec();
        }
        if !spec.order_by.is_empty() {
            parts.order = spec.order_by.clone();
        }
        parts.frame = spec.window_frame.clone();
        parts.exclude = exclude.map(excluded_rows);
        Ok(parts)
    }

    fn window_function(&mut self, name: &str, call: &Function) -> Result<(DataType, LogicalWindowFunction)> {
        let rank = match name {
            "row_number" => Some((RankFunction::RowNumber, DataType::Int64)),
            "rank" => Some((RankFunction::Rank, DataType::Int64)),
            "dense_rank" | "rank_dense" => Some((RankFunction::DenseRank, DataType::Int64)),
            "percent_rank" => Some((RankFunction::PercentRank, DataType::Float64)),
            "cume_dist" => Some((RankFunction::CumulativeShare, DataType::Float64)),
            _ => None,
        };
        let is_neighbour = matches!(name, "lag" | "lead" | "first_value" | "last_value" | "nth_value");
        if rank.is_some() || is_neighbour || name == "ntile" {
            refuse_clauses(name, call, is_neighbour)?;
            let mut arguments = Vec::new();
            for argument in arguments_of(call)? {
                arguments.push(self.expr(argument)?);
            }
            return match rank {
                Some((rank, kind)) if arguments.is_empty() => Ok((kind, LogicalWindowFunction::Rank(rank))),
                Some(_) => Err(no_window_call(name, &arguments)),
                None if name == "ntile" => self.ntile(arguments),
                None => self.neighbour(name, skips_nulls(call), arguments),
            };
        }
        if aggregate::find(name).is_some() {
            let aggregate = self.aggregate(name, call)?;
            return Ok((aggregate.kind.clone(), LogicalWindowFunction::Aggregate(aggregate)));
        }
        if rowmill_expr::functions::find(name).is_some() {
            let message = format!("{name} is not a window function, and takes no OVER");
            return Err(Error::new(ErrorKind::UndefinedFunction, message));
        }
        Err(no_function(name))
    }

    fn ntile(&mut self, mut arguments: Vec<ScalarExpr>) -> Result<(DataType, LogicalWindowFunction)> {
        if arguments.len() != 1 {
            return Err(no_window_call("ntile", &arguments));
        }
        let parts = arguments.remove(0);
        let parts = self.whole_number(parts, "ntile")?;
        Ok((DataType::Int64, LogicalWindowFunction::Ntile(parts)))
    }

    /// Binds a BIGINT.
    fn whole_number(&mut self, value: ScalarExpr, what: &str) -> Result<ScalarExpr> {
        let value = self.typed_parameter(value, &DataType::Int64);
        if !value.kind.is_integer() && value.kind != DataType::Null && !is_text_literal(&value) {
            let message = format!("{what} takes a whole number, not {}", type_name(&value.kind));
            return Err(Error::new(ErrorKind::DatatypeMismatch, message));
        }
        self.coerce(value, &DataType::Int64)
    }

    fn neighbour(
        &mut self,
        name: &str,
        skips_nulls: bool,
        arguments: Vec<ScalarExpr>,
    ) -> Result<(DataType, LogicalWindowFunction)> {
        let counts = match name {
            "lag" | "lead" => 1..=3,
            "nth_value" => 2..=2,
            _ => 1..=1,
        };
        if !counts.contains(&arguments.len()) {
            return Err(no_window_call(name, &arguments));
        }
        let mut arguments = arguments.into_iter();
        let mut value = arguments.next().expect("the call has at least one argument");
        if value.kind == DataType::Null {
            let text = DataType::Utf8View;
            value = self.typed_parameter(value, &text);
            value = self.coerce(value, &text)?;
        }
        if !matches!(name, "lag" | "lead") {
            let nth = match (name, arguments.next()) {
                ("first_value", _) => FrameRow::First,
                ("last_value", _) => FrameRow::Last,
                (_, Some(nth)) => FrameRow::Nth(self.whole_number(nth, name)?),
                (_, None) => unreachable!("nth_value has two arguments"),
            };
            return Ok((value.kind.clone(), LogicalWindowFunction::Nth { value, nth, skips_nulls }));
        }
        let offset = arguments.next().map(|offset| self.whole_number(offset, name)).transpose()?;
        let default = match arguments.next() {
            None => None,
            Some(default) if default.as_constant().is_some() => {
                // A literal takes the type of the value, if it can be read as one.
                let kind = typing::comparison_kind(&[&value, &default]).unwrap_or_else(|| value.kind.clone());
                value = self.coerce(value, &kind)?;
                Some(self.coerce(default, &kind)?)
            }
            Some(mut default) => {
                self.bring_together(vec![&mut value, &mut default])?;
                Some(default)
            }
        };
        let forward = name == "lead";
        let kind = value.kind.clone();
        Ok((kind, LogicalWindowFunction::Shift { value, offset, default, forward, skips_nulls }))
    }

    fn frame(&mut self, frame: Option<&ast::WindowFrame>, order: &[LogicalSortKey]) -> Result<WindowFrame<ScalarExpr>> {
        let exclude = FrameExclude::NoOthers;
        let Some(frame) = frame else {
            // The default frame ends at the last peer of the row. Without an order, all rows are peers.
            let end = if order.is_empty() { FrameBound::Unbounded } else { FrameBound::CurrentRow };
            return Ok(WindowFrame { unit: FrameUnit::Range, start: FrameBound::Unbounded, end, exclude });
        };
        let unit = match frame.units {
            WindowFrameUnits::Rows => FrameUnit::Rows,
            WindowFrameUnits::Range => FrameUnit::Range,
            WindowFrameUnits::Groups => FrameUnit::Groups,
        };
        let wrong = |message: String| Err(Error::new(ErrorKind::InvalidDefinition, message));
        if unit == FrameUnit::Groups && order.is_empty() {
            return wrong("a frame of GROUPS needs an ORDER BY in its window".into());
        }
        let last = frame.end_bound.as_ref().unwrap_or(&WindowFrameBound::CurrentRow);
        if matches!(frame.start_bound, WindowFrameBound::Following(None)) {
            return wrong("a frame cannot start with UNBOUNDED FOLLOWING".into());
        }
        if matches!(last, WindowFrameBound::Preceding(None)) {
            return wrong("a frame cannot end with UNBOUNDED PRECEDING".into());
        }
        let is_backwards = matches!(
            (&frame.start_bound, last),
            (WindowFrameBound::CurrentRow, WindowFrameBound::Preceding(_))
                | (WindowFrameBound::Following(_), WindowFrameBound::Preceding(_) | WindowFrameBound::CurrentRow)
        );
        if is_backwards {
            return wrong(format!("a frame cannot start with {} and end with {last}", frame.start_bound));
        }
        let start = self.frame_bound(&frame.start_bound, unit, order)?;
        let end = self.frame_bound(last, unit, order)?;
        Ok(WindowFrame { unit, start, end, exclude })
    }

    fn frame_bound(
        &mut self,
        bound: &WindowFrameBound,
        unit: FrameUnit,
        order: &[LogicalSortKey],
    ) -> Result<FrameBound<ScalarExpr>> {
        Ok(match bound {
            WindowFrameBound::CurrentRow => FrameBound::CurrentRow,
            WindowFrameBound::Preceding(None) | WindowFrameBound::Following(None) => FrameBound::Unbounded,
            WindowFrameBound::Preceding(Some(offset)) => FrameBound::Preceding(self.frame_offset(offset, unit, order)?),
            WindowFrameBound::Following(Some(offset)) => FrameBound::Following(self.frame_offset(offset, unit, order)?),
        })
    }

    fn frame_offset(&mut self, offset: &Expr, unit: FrameUnit, order: &[LogicalSortKey]) -> Result<ScalarExpr> {
        let value = self.expr(offset)?;
        let is_negative = |value: &ScalarExpr| {
            value.as_constant().and_then(|constant| constant.as_bigint()).is_some_and(|offset| offset < 0)
        };
        if is_negative(&value) {
            let message = format!("the offset of a frame cannot be negative, but it is {offset}");
            return Err(self.at(Error::new(ErrorKind::InvalidParameter, message), start_of(offset)));
        }
        let bound = match unit {
            FrameUnit::Rows | FrameUnit::Groups => self.whole_number(value, "the offset of a frame"),
            FrameUnit::Range => self.range_offset(value, order),
        };
        bound.map_err(|error| self.at(error, start_of(offset)))
    }

    fn range_offset(&mut self, value: ScalarExpr, order: &[LogicalSortKey]) -> Result<ScalarExpr> {
        let [key] = order else {
            let message = "RANGE with an offset needs one ORDER BY expression in its window";
            return Err(Error::new(ErrorKind::InvalidDefinition, message));
        };
        let interval = DataType::Interval(IntervalUnit::MonthDayNano);
        let wanted = match &key.expr.kind {
            DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_) => interval,
            kind if is_number(kind) => kind.clone(),
            kind => {
                let message = format!("RANGE with an offset cannot count in {}", type_name(kind));
                return Err(Error::new(ErrorKind::DatatypeMismatch, message));
            }
        };
        let value = self.typed_parameter(value, &wanted);
        let fits = value.kind == wanted
            || is_text_literal(&value)
            || value.kind == DataType::Null
            || is_number(&wanted) && is_number(&value.kind);
        if !fits {
            let message = format!(
                "a RANGE over {} takes an offset of type {}, not {}",
                type_name(&key.expr.kind),
                type_name(&wanted),
                type_name(&value.kind)
            );
            return Err(Error::new(ErrorKind::DatatypeMismatch, message));
        }
        self.coerce(value, &wanted)
    }
}

/// The rows that `"frame exclude"('ties')` leaves out.
fn excluded_rows(call: &Function) -> FrameExclude {
    let what = arguments(call).unwrap_or_default().first().map(|what| what.to_string()).unwrap_or_default();
    match what.trim_matches('\'') {
        "current row" => FrameExclude::CurrentRow,
        "group" => FrameExclude::Group,
        "ties" => FrameExclude::Ties,
        _ => FrameExclude::NoOthers,
    }
}

fn skips_nulls(call: &Function) -> bool {
    let within = argument_list(call).and_then(|list| {
        list.clauses.iter().find_map(|clause| match clause {
            FunctionArgumentClause::IgnoreOrRespectNulls(treatment) => Some(*treatment),
            _ => None,
        })
    });
    call.null_treatment.or(within) == Some(NullTreatment::IgnoreNulls)
}

fn refuse_clauses(name: &str, call: &Function, takes_null_treatment: bool) -> Result<()> {
    let list = argument_list(call);
    let has_order = super::call::order_clause(call).is_some();
    let clauses = [
        (call.filter.is_some(), "FILTER"),
        (list.is_some_and(|list| list.duplicate_treatment.is_some()), "DISTINCT"),
        (has_order, "ORDER BY"),
        (!call.within_group.is_empty(), "WITHIN GROUP"),
        (!takes_null_treatment && call.null_treatment.is_some(), "IGNORE NULLS and RESPECT NULLS"),
    ];
    match clauses.iter().find(|(is_there, _)| *is_there) {
        Some((_, clause)) => Err(unsupported(format!("{clause} with the window function {name}"))),
        None => Ok(()),
    }
}

fn no_window_call(name: &str, arguments: &[ScalarExpr]) -> Error {
    let kinds = type_names(arguments.iter().map(|argument| &argument.kind));
    Error::new(ErrorKind::UndefinedFunction, format!("there is no {name}({kinds})"))
}
