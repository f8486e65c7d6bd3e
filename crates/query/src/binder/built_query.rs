//! Parts of syntax trees that the binder puts together itself, for clauses that stand for a longer query.

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, GroupByExpr,
    Ident, ObjectName, Query, Select, SelectFlavor, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor,
    TableWithJoins, Value,
};

/// `SELECT projection FROM table`
pub(super) fn select(projection: Vec<SelectItem>, table: TableFactor) -> Select {
    Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from: vec![TableWithJoins { relation: table, joins: Vec::new() }],
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    }
}

/// The query of a SELECT without ORDER BY and LIMIT.
pub(super) fn query(select: Select) -> Query {
    Query {
        with: None,
        body: Box::new(SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// `SELECT * FROM table`
pub(super) fn all_of(table: TableFactor) -> Query {
    query(select(vec![SelectItem::Wildcard(Default::default())], table))
}

/// `(query) AS name(columns)`
pub(super) fn derived(query: Query, name: &str, columns: Vec<String>) -> TableFactor {
    let columns =
        columns.into_iter().map(|name| TableAliasColumnDef { name: Ident::with_quote('"', name), data_type: None });
    let alias = TableAlias { explicit: true, name: Ident::new(name), columns: columns.collect(), at: None };
    TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(alias), sample: None }
}

/// `name(arguments)`
pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args = arguments.into_iter().map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A text literal.
pub(super) fn text(value: impl Into<String>) -> Expr {
    Expr::value(Value::SingleQuotedString(value.into()))
}

/// A column by its name in lower case.
pub(super) fn column(name: &str) -> Expr {
    Expr::Identifier(Ident::with_quote('"', name))
}

/// `left op right`
pub(super) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// `expr AS name`
pub(super) fn named(expr: Expr, name: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) }
}

/// The arguments of a call that are expressions without names. `None` if it has others.
pub(super) fn arguments(call: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    args.collect()
}

/// Whether `expr` is a call of the function `name`, which has no schema.
pub(super) fn as_call<'e>(expr: &'e Expr, name: &str) -> Option<&'e Function> {
    match expr {
        Expr::Function(call) => match call.name.0.as_slice() {
            [part] if part.as_ident().is_some_and(|ident| ident.value == name) => Some(call),
            _ => None,
        },
        _ => None,
    }
}
