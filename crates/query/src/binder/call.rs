//! Function calls: functions of the registry, of the database and of the clock, and SQL forms that are calls.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::TimestampMicrosecondArray;
use arrow::datatypes::{DataType, TimeUnit};
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_exec::aggregate;
use rowmill_expr::fold::fold;
use rowmill_expr::{functions, typing};
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{Constant, ExprOp, FunctionSpec, ScalarExpr, item_function};
use sqlparser::ast::{
    self, CeilFloorKind, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, Ident, ObjectNamePart, TrimWhereField,
};

use super::Binder;
use super::access::with_receiver;
use super::aggregate::takes_extreme;
use super::expanded_call::positional;
use super::place::{suggest, type_name, unsupported};
use super::rows_of_list::is_rows_of_list;
use super::scope::Clause;
use super::target::MERGE_ACTION;
use super::window::WINDOW_FUNCTIONS;

/// Functions that are not in the registry.
const SPECIAL: &[&str] = &[
    "coalesce",
    "ifnull",
    "nvl",
    "nvl2",
    "nullif",
    "if",
    "iff",
    "grouping",
    "now",
    "current_timestamp",
    "current_date",
    "current_time",
    "localtimestamp",
    "localtime",
    "today",
    "get_current_timestamp",
    "get_current_time",
    "current_localtimestamp",
    "current_localtime",
    "trim_scale",
    "alias",
    MERGE_ACTION,
    "regexp_matches",
    "regexp_split_to_table",
    "string_to_table",
    "unnest",
    "struct",
    "row",
    "array_lower",
    "generate_subscripts",
    "_pg_expandarray",
    "json_array_elements",
    "json_array_elements_text",
    "json_object_keys",
    "jsonb_array_elements",
    "jsonb_array_elements_text",
    "jsonb_object_keys",
    "jsonb_path_query",
];

impl Binder<'_> {
    /// Binds a call.
    pub(super) fn call(&mut self, call: &Function) -> Result<ScalarExpr> {
        // The parser may attach IGNORE NULLS to the last argument, so fix that first.
        let call = &*with_null_treatment(call);
        if let Some(of_column) = self.method_of_column(call)? {
            return self.call(&of_column);
        }
        let ident = function_name(call)?;
        let name = ident.value.as_str();
        refuse_forms(call)?;
        if let Some(value) = self.placed(ident.span, |binder| binder.expanded_call(name, call))? {
            return Ok(value);
        }
        if let Some(value) = self.document_aggregate_call(name, call)? {
            return Ok(value);
        }
        if call.over.is_some() {
            self.refuse_in_lambda("a window function")?;
            return self.placed(ident.span, |binder| binder.window_call(name, call));
        }
        if let FunctionArguments::Subquery(query) = &call.args {
            return match name {
                "array" => self.array_subquery(query),
                "exists" => self.exists(query),
                _ => Err(unsupported(format!("a query as the argument of {name}"))),
            };
        }
        if let Some(spec) = item_function::find(name)
            && !is_first_item(name, call)
        {
            refuse_clauses_of_rows(name, call)?;
            return self.item_function_call(spec, &arguments_of(call)?);
        }
        match name {
            "time_bucket_gapfill" => return self.gapfill_call(call),
            "locf" | "interpolate" => return self.filled_call(name, call),
            _ => {}
        }
        if aggregate::find(name).is_some() || takes_extreme(name).is_some() {
            self.refuse_in_lambda("an aggregate")?;
            return self.aggregate_call(name, call);
        }
        if WINDOW_FUNCTIONS.contains(&name) {
            let message = format!("{name} is a window function and needs OVER (...)");
            return Err(Error::new(ErrorKind::UndefinedFunction, message));
        }
        if functions::find(name).is_none()
            && !SPECIAL.contains(&name)
            && let Some(found) = self.catalog.macro_named(name)?
        {
            return self.macro_call(&found, ident, call);
        }
        self.scalar_call(ident, call)
    }

    /// The call that `column.f(a)` stands for, which is `f(column, a)`, if the name before the dot is one of FROM.
    fn method_of_column(&self, call: &Function) -> Result<Option<Function>> {
        let [of @ .., name] = call.name.0.as_slice() else { return Ok(None) };
        let of: Option<Vec<Ident>> = of.iter().map(|part| part.as_ident().cloned()).collect();
        let Some(of) = of.filter(|of| !of.is_empty()) else { return Ok(None) };
        let is_known = self.item_parameter(&of[0]).is_some()
            || self.levels.iter().any(|level| {
                !level.is_hidden
                    && (matches!(level.column(&of[0]), Ok(Some(_)))
                        || matches!(level.relation(None, &of[0]), Ok(Some(_))))
            });
        if !is_known {
            return Ok(None);
        }
        let receiver = match of.as_slice() {
            [one] => Expr::Identifier(one.clone()),
            _ => Expr::CompoundIdentifier(of),
        };
        let mut method = with_receiver(call, receiver)?;
        method.name = ast::ObjectName(vec![name.clone()]);
        Ok(Some(method))
    }

    fn scalar_call(&mut self, ident: &Ident, call: &Function) -> Result<ScalarExpr> {
        let name = ident.value.as_str();
        if is_first_item(name, call) {
            let list = self.expr(arguments_of(call)?[0])?;
            return self.form_call("array_element", name, vec![list, ScalarExpr::literal(1_i64)]);
        }
        if has_named_arguments(call) {
            if let ("unnest", FunctionArguments::List(list)) = (name, &call.args) {
                let list = self.deep_list(&list.args)?;
                return self.unnest_call(name, list);
            }
            if let Some(arguments) = positional(name, call)? {
                let values = arguments.iter().map(|value| self.expr(value)).collect::<Result<Vec<_>>>()?;
                return self.form_call(name, name, values);
            }
            if matches!(name, "struct_update" | "struct_insert") {
                return self.changed_struct(name, call);
            }
        }
        let known = functions::find(name);
        let arguments = match arguments_of(call) {
            Ok(arguments) => arguments,
            Err(_)
                // Only the struct constructors have named arguments.
                if has_named_arguments(call) && matches!(name, "struct" | "row" | "struct_pack" | "named_struct") =>
            {
                return self.named_struct(call);
            }
            Err(_) if known.is_none() && !SPECIAL.contains(&name) && !has_named_arguments(call) => {
                return Err(no_function(name));
            }
            Err(error) => return Err(error),
        };
        if known.is_some() || SPECIAL.contains(&name) {
            refuse_clauses_of_rows(name, call)?;
        }
        if let Some(value) = self.conditional_call(name, &arguments)? {
            return Ok(value);
        }
        match (name, arguments.as_slice()) {
            ("grouping", arguments) => return self.grouping_call(arguments),
            ("unnest", [list]) => {
                let list = self.expr(list)?;
                let list = self.list_value(list)?;
                return self.unnest_call(name, list);
            }
            ("trim_scale", [value]) => {
                let value = self.expr(value)?;
                return self.trim_scale(value);
            }
            ("alias", [value]) => {
                let bound = self.expr(value)?;
                let name = self.name_of(value, &bound);
                return Ok(ScalarExpr::literal(name.as_str()));
            }
            // What happened to a row of MERGE is a column for RETURNING, and a function in PostgreSQL.
            (MERGE_ACTION, []) => return self.expr(&Expr::Identifier(ident.clone())),
            ("array_lower", [list, dimension]) => return self.first_subscript(list, dimension),
            (_, arguments) if is_rows_of_list(name) => {
                let list = self.rows_of_list(name, arguments)?;
                return self.unnest_call(name, list);
            }
            ("struct" | "row", values) => {
                let values = values.iter().map(|value| self.expr(value)).collect::<Result<_>>()?;
                return self.row_struct(values);
            }
            (_, []) => {
                if let Some(value) = self.clock(name)? {
                    return Ok(value);
                }
            }
            _ => {}
        }
        let mut values = Vec::with_capacity(arguments.len());
        for argument in &arguments {
            values.push(match argument {
                // The form of Unicode is a word: normalize(text, NFC).
                Expr::Identifier(form)
                    if matches!(name, "normalize" | "is_normalized")
                        && values.len() == 1
                        && matches!(form.value.to_ascii_lowercase().as_str(), "nfc" | "nfd" | "nfkc" | "nfkd") =>
                {
                    ScalarExpr::literal(form.value.as_str())
                }
                Expr::Lambda(_) => return Err(unsupported(format!("a function of items as an argument of {name}"))),
                argument => self.expr(argument)?,
            });
        }
        match known {
            // The length of a list is the number of its items.
            Some(function)
                if function.name == "length"
                    && matches!(values.as_slice(), [list] if matches!(list.kind, DataType::List(_))) =>
            {
                self.form_call("array_length", name, values)
            }
            Some(function) => self.registered_call(name, function, values),
            None => self.database_call(ident, values),
        }
    }

    fn registered_call(
        &mut self,
        name: &str,
        function: &'static FunctionSpec,
        values: Vec<ScalarExpr>,
    ) -> Result<ScalarExpr> {
        // The random numbers of a session may have a seed, so the session computes them if there is one.
        if function.name == "random"
            && values.is_empty()
            && let Some((random, kind)) = self.catalog.dynamic_function(function.name, &[])?
        {
            return Ok(ScalarExpr::new(kind.arrow(), ExprOp::Dynamic(random, values)));
        }
        let kinds: Vec<DataType> = values.iter().map(|value| value.kind.clone()).collect();
        let shown: Vec<String> = values.iter().map(shown_argument).collect();
        // Arguments that do not fit should name the function as the statement spells it.
        let called = typing::call(function, values);
        called.map_err(|error| match error.kind() {
            ErrorKind::UndefinedFunction => no_call(name, &kinds, &shown.join(", "), error),
            _ => error,
        })
    }

    /// A function that belongs to the statement or its database.
    fn database_call(&mut self, ident: &Ident, values: Vec<ScalarExpr>) -> Result<ScalarExpr> {
        let constants: Vec<Option<Constant>> = values.iter().map(|value| value.as_constant().cloned()).collect();
        let found = self.catalog.dynamic_function(&ident.value, &constants);
        match found.map_err(|error| self.at(error, ident.span))? {
            Some((function, kind)) => Ok(ScalarExpr::new(kind.arrow(), ExprOp::Dynamic(function, values))),
            None => Err(self.at(no_function(&ident.value), ident.span)),
        }
    }

    /// `struct(a := 1)`
    fn named_struct(&mut self, call: &Function) -> Result<ScalarExpr> {
        let FunctionArguments::List(list) = &call.args else {
            return Err(unsupported(format!("{call}")));
        };
        let mut fields = Vec::with_capacity(list.args.len());
        for (place, arg) in list.args.iter().enumerate() {
            fields.push(match arg {
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => {
                    (self.spelled(name), self.expr(expr)?)
                }
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => (format!("c{place}"), self.expr(expr)?),
                other => return Err(unsupported(format!("the argument {other} of a struct"))),
            });
        }
        self.struct_of(fields)
    }

    /// `struct_update(s, a := 1)`
    fn changed_struct(&mut self, name: &str, call: &Function) -> Result<ScalarExpr> {
        let mut values = Vec::new();
        for arg in argument_list(call).map_or(&[][..], |list| &list.args) {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) if values.is_empty() => {
                    values.push(self.expr(value)?);
                }
                FunctionArg::Named { name: field, arg: FunctionArgExpr::Expr(value), .. } if !values.is_empty() => {
                    values.push(ScalarExpr::literal(self.spelled(field).as_str()));
                    values.push(self.expr(value)?);
                }
                other => return Err(unsupported(format!("the argument {other} of {name}"))),
            }
        }
        self.form_call("struct_update", name, values)
    }

    /// `GROUPING(a, b)`
    fn grouping_call(&mut self, arguments: &[&Expr]) -> Result<ScalarExpr> {
        let message = match self.clause() {
            Clause::Select | Clause::Having | Clause::OrderBy | Clause::Qualify => None,
            clause => Some(format!("grouping is not allowed in {}", clause.name())),
        };
        if let Some(message) = message {
            return Err(Error::new(ErrorKind::Grouping, message));
        }
        if arguments.is_empty() || arguments.len() > 31 {
            return Err(Error::new(ErrorKind::UndefinedFunction, "grouping takes 1 to 31 expressions of GROUP BY"));
        }
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(self.expr(argument)?);
        }
        // Equal calls share one column.
        let known = self.level().groupings.iter().find(|(_, other)| *other == values).map(|(id, _)| *id);
        let id = match known {
            Some(id) => id,
            None => {
                let id = self.add_column("grouping", DataType::Int32);
                self.level().groupings.push((id, values));
                id
            }
        };
        Ok(ScalarExpr::id(id, DataType::Int32))
    }

    /// `trim_scale(number)`: the number without zeros at the end. A type has one number of digits after the point, so
    /// only the type of a constant can lose some.
    fn trim_scale(&mut self, mut value: ScalarExpr) -> Result<ScalarExpr> {
        fold(&mut value);
        let mut digits = self.form_call("min_scale", "trim_scale", vec![value.clone()])?;
        if value.kind.is_integer() || value.kind == DataType::Null {
            return Ok(value);
        }
        fold(&mut digits);
        let Some(constant) = digits.as_constant() else {
            let message = "trim_scale of a value that is no constant: all values of a column have the digits after the \
                           point of its type";
            return Err(unsupported(message)
                .hint("min_scale(x) is the number of digits that a value needs, and round(x, 2) keeps two of them"));
        };
        if constant.is_null() {
            return Ok(value);
        }
        let mut digits = typing::cast(digits, &DataType::Int64, false)?;
        fold(&mut digits);
        self.call_named("round", vec![value, digits])
    }

    /// `unnest(list)` in a select list: a row for each item. `name` is the name of the function.
    fn unnest_call(&mut self, name: &str, list: ScalarExpr) -> Result<ScalarExpr> {
        if self.clause() != Clause::Select {
            let clause = self.clause().name();
            return Err(unsupported(format!("{name} in {clause}")).hint("CROSS JOIN UNNEST(list) gives rows in FROM"));
        }
        let kind = super::from::item_kind(&list.kind).expect("the value is a list");
        let id = self.add_column(name, kind.clone());
        self.level().unnests.push((id, list));
        Ok(ScalarExpr::id(id, kind))
    }

    /// Binds a function of the clock or of the session that is written without parentheses.
    pub(super) fn niladic(&mut self, name: &str) -> Result<Option<ScalarExpr>> {
        Ok(match name {
            "current_timestamp" | "current_date" | "current_time" | "localtimestamp" | "localtime" => {
                self.clock(name)?
            }
            "user" | "current_role" => {
                let found = self.catalog.dynamic_function(name, &[])?;
                found.map(|(function, kind)| ScalarExpr::new(kind.arrow(), ExprOp::Dynamic(function, Vec::new())))
            }
            _ => None,
        })
    }

    /// The time of the transaction.
    fn clock(&mut self, name: &str) -> Result<Option<ScalarExpr>> {
        let zoned = || DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let kind = match name {
            "now" | "current_timestamp" | "transaction_timestamp" | "statement_timestamp" | "get_current_timestamp" => {
                zoned()
            }
            "localtimestamp" | "current_localtimestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
            "current_date" | "today" => DataType::Date32,
            "current_time" | "localtime" | "get_current_time" | "current_localtime" => {
                DataType::Time64(TimeUnit::Microsecond)
            }
            _ => return Ok(None),
        };
        let now = match self.catalog.clock_parameter() {
            Some(number) => ScalarExpr::new(zoned(), ExprOp::Parameter(number)),
            None => {
                // The plan now contains the time, so it must not be reused by a later transaction.
                self.reads_clock = true;
                let stamp = TimestampMicrosecondArray::from(vec![self.catalog.now_us()]);
                ScalarExpr::literal(Constant::new(Arc::new(stamp.with_timezone("UTC"))))
            }
        };
        let mut value = typing::cast(now, &kind, false)?;
        fold(&mut value);
        Ok(Some(value))
    }

    /// The time that a literal of a date or timestamp names by a word of PostgreSQL: `now`, `today`, `tomorrow` or
    /// `yesterday`. A text that is no literal has no such words.
    pub(super) fn word_of_clock(&mut self, text: &str, kind: &SqlType) -> Result<Option<ScalarExpr>> {
        let days = match text.trim().to_ascii_lowercase().as_str() {
            "now" => None,
            "today" => Some(0_i64),
            "tomorrow" => Some(1),
            "yesterday" => Some(-1),
            _ => return Ok(None),
        };
        if !matches!(kind, SqlType::Date | SqlType::Timestamp { .. }) {
            return Ok(None);
        }
        let Some(days) = days else {
            let now = self.clock("now")?;
            return now.map(|now| typing::cast_to_sql_type(now, kind, false)).transpose();
        };
        let Some(today) = self.clock("current_date")? else { return Ok(None) };
        let mut day = typing::arithmetic(ArithmeticOp::Plus, today, ScalarExpr::literal(days))?;
        fold(&mut day);
        typing::cast_to_sql_type(day, kind, false).map(Some)
    }

    /// Binds EXTRACT, POSITION, SUBSTRING and other SQL forms that are calls.
    pub(super) fn function_form(&mut self, expr: &Expr) -> Result<ScalarExpr> {
        match expr {
            Expr::Extract { field, expr, .. } => {
                let field = ScalarExpr::literal(field_name(field).as_str());
                let value = self.expr(expr)?;
                self.form_call("date_part", "extract", vec![field, value])
            }
            Expr::Ceil { expr, field } | Expr::Floor { expr, field } if !is_plain(field) => {
                Err(unsupported(format!("a unit or scale in ceil and floor of {expr}"))
                    .hint("date_trunc('day', t) and round(x, digits) do the same"))
            }
            Expr::Ceil { expr, .. } => {
                let value = self.expr(expr)?;
                self.form_call("ceil", "ceil", vec![value])
            }
            Expr::Floor { expr, .. } => {
                let value = self.expr(expr)?;
                self.form_call("floor", "floor", vec![value])
            }
            Expr::Position { expr, r#in } => {
                let (part, whole) = (self.expr(expr)?, self.expr(r#in)?);
                self.form_call("strpos", "position", vec![whole, part])
            }
            Expr::Substring { expr, substring_from, substring_for, .. } => {
                let mut arguments = vec![self.expr(expr)?];
                arguments.push(match substring_from {
                    Some(from) => self.expr(from)?,
                    None => ScalarExpr::literal(1_i64),
                });
                if arguments[1].kind == DataType::Utf8View && substring_for.is_none() {
                    // A text is a pattern, as in PostgreSQL: the first group of its match, or the whole match.
                    let groups = self.form_call("regexp_match", "substring", arguments)?;
                    return self.call_named("array_element", vec![groups, ScalarExpr::literal(1_i64)]);
                }
                if let Some(length) = substring_for {
                    arguments.push(self.expr(length)?);
                }
                self.form_call("substring", "substring", arguments)
            }
            Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    None | Some(TrimWhereField::Both) => "btrim",
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                };
                let mut arguments = vec![self.expr(expr)?];
                if let Some(what) = trim_what {
                    arguments.push(self.expr(what)?);
                }
                for characters in trim_characters.iter().flatten() {
                    arguments.push(self.expr(characters)?);
                }
                self.form_call(name, "trim", arguments)
            }
            Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut arguments = vec![self.expr(expr)?, self.expr(overlay_what)?, self.expr(overlay_from)?];
                if let Some(length) = overlay_for {
                    arguments.push(self.expr(length)?);
                }
                self.form_call("overlay", "overlay", arguments)
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                let (value, zone) = (self.expr(timestamp)?, self.expr(time_zone)?);
                self.at_time_zone(value, zone)
            }
            other => Err(unsupported(format!("{other}"))),
        }
    }

    /// Calls the function `name`, which error messages show as `shown`.
    pub(super) fn form_call(&mut self, name: &str, shown: &str, arguments: Vec<ScalarExpr>) -> Result<ScalarExpr> {
        match functions::find(name) {
            Some(function) => self.registered_call(shown, function, arguments),
            None => Err(Error::internal(format!("the function {name} is missing"))),
        }
    }

    /// Binds `t AT TIME ZONE zone`. An instant becomes the local time in that zone, and a local time becomes the
    /// instant.
    fn at_time_zone(&mut self, value: ScalarExpr, zone: ScalarExpr) -> Result<ScalarExpr> {
        let zone = self.typed_parameter(zone, &DataType::Utf8View);
        let name = match &value.kind {
            DataType::Timestamp(_, Some(_)) => "instant_at_zone",
            _ => "timestamp_at_zone",
        };
        let value = match &value.kind {
            DataType::Timestamp(..) => value,
            DataType::Date32 | DataType::Utf8View | DataType::Null => {
                let stamp = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None);
                self.coerce(value, &stamp)?
            }
            other => {
                let message = format!("AT TIME ZONE takes a timestamp, not {}", type_name(other));
                return Err(Error::new(ErrorKind::DatatypeMismatch, message));
            }
        };
        self.form_call(name, "AT TIME ZONE", vec![value, zone])
    }
}

/// Whether a call is `list_first(list)`, without a condition.
fn is_first_item(name: &str, call: &Function) -> bool {
    matches!(name, "array_first" | "list_first") && argument_list(call).is_some_and(|list| list.args.len() == 1)
}

fn is_plain(field: &CeilFloorKind) -> bool {
    matches!(field, CeilFloorKind::DateTimeField(DateTimeField::NoDateTime))
}

/// The name of a part of a date in lower case.
fn field_name(field: &DateTimeField) -> String {
    match field {
        DateTimeField::Custom(name) => name.value.to_lowercase(),
        other => other.to_string().to_lowercase(),
    }
}

/// The name of the called function, which must be a single identifier.
pub(super) fn function_name(call: &Function) -> Result<&Ident> {
    match call.name.0.as_slice() {
        [ObjectNamePart::Identifier(ident)] => Ok(ident),
        // PostgreSQL's own functions may be written with its schema.
        [ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(ident)]
            if matches!(schema.value.as_str(), "pg_catalog" | "main" | "information_schema") =>
        {
            Ok(ident)
        }
        _ => Err(Error::new(ErrorKind::UndefinedFunction, format!("there is no function \"{}\"", call.name))),
    }
}

/// The arguments of a call. All of them must be plain expressions.
pub(super) fn arguments_of(call: &Function) -> Result<Vec<&Expr>> {
    let FunctionArguments::List(list) = &call.args else { return Ok(Vec::new()) };
    list.args
        .iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
            FunctionArg::Unnamed(_) => {
                let message = format!("{} does not take *", call.name);
                Err(Error::new(ErrorKind::UndefinedFunction, message))
            }
            other => Err(unsupported(format!("the named argument {other} of {}", call.name))),
        })
        .collect()
}

fn has_named_arguments(call: &Function) -> bool {
    let FunctionArguments::List(list) = &call.args else { return false };
    list.args.iter().any(|arg| matches!(arg, FunctionArg::Named { .. }))
}

/// The list of arguments, if there is one.
pub(super) fn argument_list(call: &Function) -> Option<&FunctionArgumentList> {
    match &call.args {
        FunctionArguments::List(list) => Some(list),
        _ => None,
    }
}

/// Moves a null treatment from the last argument to the call itself. In `lag(f(x) IGNORE NULLS)` the parser gives it to
/// `f(x)`, because it may also be written after a closing parenthesis.
fn with_null_treatment(call: &Function) -> Cow<'_, Function> {
    let is_taken = |inner: &Function| inner.null_treatment.is_some() && inner.over.is_none();
    let has = argument_list(call).is_some_and(|list| match list.args.last() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(inner)))) => is_taken(inner),
        _ => false,
    });
    if !has || call.null_treatment.is_some() {
        return Cow::Borrowed(call);
    }
    let mut call = call.clone();
    if let FunctionArguments::List(list) = &mut call.args
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(inner)))) = list.args.last_mut()
    {
        call.null_treatment = inner.null_treatment.take();
    }
    Cow::Owned(call)
}

fn refuse_forms(call: &Function) -> Result<()> {
    if call.uses_odbc_syntax {
        return Err(unsupported("{fn ...}"));
    }
    if !matches!(call.parameters, FunctionArguments::None) {
        return Err(unsupported("a second list of arguments after a function"));
    }
    Ok(())
}

/// Returns an error for clauses that only aggregates and window functions have.
pub(super) fn refuse_clauses_of_rows(name: &str, call: &Function) -> Result<()> {
    let list = argument_list(call);
    let has = |test: &dyn Fn(&FunctionArgumentClause) -> bool| list.is_some_and(|list| list.clauses.iter().any(test));
    let clauses = [
        (call.filter.is_some(), "FILTER"),
        (list.is_some_and(|list| list.duplicate_treatment.is_some()), "DISTINCT"),
        (has(&|clause| matches!(clause, FunctionArgumentClause::OrderBy(_))), "ORDER BY"),
        (!call.within_group.is_empty(), "WITHIN GROUP"),
        (call.null_treatment.is_some(), "IGNORE NULLS and RESPECT NULLS"),
        (list.is_some_and(|list| !list.clauses.is_empty()), "a clause among the arguments"),
    ];
    match clauses.iter().find(|(is_there, _)| *is_there) {
        Some((_, clause)) => Err(unsupported(format!("{name} is a function of single rows: {clause} with it"))),
        None => Ok(()),
    }
}

/// The error for an unknown function, with similar names as a hint.
pub(super) fn no_function(name: &str) -> Error {
    let error = Error::new(ErrorKind::UndefinedFunction, format!("there is no function \"{name}\""));
    let registered = functions::all().flat_map(|function| std::iter::once(&function.name).chain(function.aliases));
    let names = registered.copied().chain(aggregate::names());
    suggest(error, name, names.chain(WINDOW_FUNCTIONS.iter().copied()).chain(SPECIAL.iter().copied()))
}

/// The error for a function that does not take the given arguments.
pub(super) fn no_call(name: &str, kinds: &[DataType], shown: &str, error: Error) -> Error {
    let Some(function) = functions::find(name) else { return error };
    let takes = taken_counts(function);
    // If the number of arguments is wrong, say so; otherwise list their types.
    if !takes.is_empty() && !takes.contains(&kinds.len()) {
        let shown = match takes.as_slice() {
            [one] => format!("{one} argument{}", if *one == 1 { "" } else { "s" }),
            [first, .., last] => format!("{first} to {last} arguments"),
            [] => unreachable!("the list is not empty"),
        };
        let message = format!("{name} takes {shown}, but {} were given", kinds.len());
        return Error::new(ErrorKind::UndefinedFunction, message);
    }
    let message = format!("there is no {name}({shown})");
    let example = format!("an example is {}", function.example.0);
    let placed = Error::new(ErrorKind::UndefinedFunction, message);
    match error.hint_text() {
        Some(hint) => placed.hint(format!("{hint}; {example}")),
        None => placed.hint(example),
    }
}

/// Shows an argument in a message: a short text as it is, because some functions only know certain words, and other
/// values by their type.
fn shown_argument(value: &ScalarExpr) -> String {
    const CHARS_MAX: usize = 32;
    match value.as_constant().and_then(|constant| constant.as_text()) {
        Some(text) if text.chars().count() <= CHARS_MAX => format!("'{text}'"),
        _ => type_name(&value.kind),
    }
}

/// The numbers of arguments that a function takes. We find them by asking its signature with NULLs.
fn taken_counts(function: &'static FunctionSpec) -> Vec<usize> {
    let null = rowmill_plan::function::ArgumentKind { kind: &DataType::Null, constant: None };
    (0..6).filter(|count| (function.signature)(&vec![null; *count]).is_some()).collect()
}

/// The ORDER BY clause among the arguments of a call.
pub(super) fn order_clause(call: &Function) -> Option<&[ast::OrderByExpr]> {
    argument_list(call)?.clauses.iter().find_map(|clause| match clause {
        FunctionArgumentClause::OrderBy(order) => Some(order.as_slice()),
        _ => None,
    })
}
