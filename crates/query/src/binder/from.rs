//! FROM: tables, subqueries, and joins.

use std::rc::Rc;

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result, map_kinds};
use rowmill_expr::typing;
use rowmill_plan::logical::{LogicalJoinKind, LogicalScan, LogicalSource, declared_type};
use rowmill_plan::{ColumnId, CompareOp, ExprOp, Logical, ScalarExpr};
use sqlparser::ast::{
    self, Ident, Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Spanned, TableAlias, TableFactor,
    TableWithJoins,
};

use super::ordered_join::{SharedHorizon, ordered_join_call};
use super::place::{suggest, unsupported};
use super::query::{conjuncts, map};
use super::scope::{FromNames, NamedColumn, ScopeRelation};
use super::walk::free_columns_of_plan;
use super::{Binder, BoundRows, KnownRelation};
use crate::catalog::{CatalogRelation, CatalogView, RelationName};
use crate::optimizer::walk::output;

/// The schema of a table whose name is written without one.
pub(super) const DEFAULT_SCHEMA: &str = "main";

/// The catalog that may qualify a schema.
const CATALOG: &str = "rowmill";

/// Views that a statement may read. A view that is read twice counts twice.
const VIEWS_MAX: usize = 10_000;

/// The endings by which a name that is no table may be that of a file.
const FILE_ENDINGS: &[&str] = &["parquet", "csv", "tsv", "json", "ndjson", "jsonl", "arrow", "gz"];

/// The rows of a part of FROM, with their names.
pub(super) struct FromPart {
    pub(super) plan: Logical,
    pub(super) names: FromNames,
}

/// The rows that an SQL join gives.
#[derive(Clone, Copy, PartialEq)]
enum JoinSides {
    Inner,
    Cross,
    Left,
    Right,
    Full,
    LeftSemi,
    LeftAnti,
    RightSemi,
    RightAnti,
}

impl Binder<'_> {
    /// Binds a FROM clause. Afterwards, its names are visible in the current level.
    pub(super) fn tables_of_from(&mut self, items: &[TableWithJoins]) -> Result<Logical> {
        let mut all: Option<FromPart> = None;
        for item in items {
            let part = self.table_with_joins(item)?;
            // The names of the items so far are visible to LATERAL ones after them.
            let joined = match all.take() {
                None => part,
                Some(left) => FromPart { plan: cross(left.plan, part.plan), names: left.names.and(part.names) },
            };
            self.level().names = vec![joined.names.clone()];
            all = Some(joined);
        }
        Ok(match all {
            Some(part) => part.plan,
            None => Logical::one_row(),
        })
    }

    pub(super) fn table_with_joins(&mut self, item: &TableWithJoins) -> Result<FromPart> {
        let mut left = self.table_factor(&item.relation)?;
        let mut horizon = None;
        for (number, join) in item.joins.iter().enumerate() {
            let later = &item.joins[number + 1..];
            left = self.deeper(1, |binder| binder.join(left, join, (&mut horizon, later)))?;
            // Each join is one level of the plan.
            self.depth += 1;
        }
        self.depth -= item.joins.len();
        Ok(left)
    }

    /// Binds a join. `later` has the joins after it, and `horizon` the horizon that several joins share.
    fn join(
        &mut self,
        left: FromPart,
        join: &Join,
        (horizon, later): (&mut Option<SharedHorizon>, &[Join]),
    ) -> Result<FromPart> {
        if join.global {
            return Err(unsupported("GLOBAL before JOIN"));
        }
        if let JoinOperator::Join(JoinConstraint::On(condition)) = &join.join_operator
            && let Some(call) = ordered_join_call(condition)
        {
            return self.ordered_join(left, (join, call), (horizon, later));
        }
        let (sides, constraint) = sides_of(&join.join_operator)?;
        // A LATERAL right side can see the names of the left side.
        self.level().names.push(left.names.clone());
        let right = self.table_factor(&join.relation);
        self.level().names.pop();
        let right = right?;
        // A right side that refers to the left one would have to run for each of its rows.
        if matches!(sides, JoinSides::Right | JoinSides::Full | JoinSides::RightSemi | JoinSides::RightAnti) {
            self.refuse_lateral(&left, &right)?;
        }
        let missing = matches!(constraint, JoinConstraint::None) && sides != JoinSides::Cross;
        if missing {
            let error = Error::new(ErrorKind::Syntax, "a JOIN needs a join condition");
            return Err(self.at(error.hint("write ON condition or USING (columns), or CROSS JOIN"), join.span()));
        }
        if sides == JoinSides::Cross && !matches!(constraint, JoinConstraint::None) {
            let error = Error::new(ErrorKind::Syntax, "CROSS JOIN takes no join condition");
            return Err(self.at(error.hint("write JOIN ... ON"), join.span()));
        }
        match constraint {
            JoinConstraint::None => {
                Ok(FromPart { plan: cross(left.plan, right.plan), names: left.names.and(right.names) })
            }
            JoinConstraint::On(condition) => self.join_on(left, right, sides, condition),
            JoinConstraint::Using(columns) => {
                let mut names = Vec::with_capacity(columns.len());
                for column in columns {
                    match column.0.as_slice() {
                        [ObjectNamePart::Identifier(ident)] => names.push(ident.clone()),
                        _ => return Err(Error::new(ErrorKind::Syntax, format!("USING takes columns, not {column}"))),
                    }
                }
                self.join_using(left, right, sides, &names)
            }
            JoinConstraint::Natural => {
                let is_right = |name: &str| right.names.visible.iter().any(|column| *column.name == *name);
                let mut names: Vec<Ident> = Vec::new();
                for column in &left.names.visible {
                    if is_right(&column.name) && !names.iter().any(|name| *name.value == *column.name) {
                        names.push(Ident::new(&*column.name));
                    }
                }
                self.join_using(left, right, sides, &names)
            }
        }
    }

    /// Returns an error if the right side refers to the left side in a join that cannot compute it row by row.
    fn refuse_lateral(&self, left: &FromPart, right: &FromPart) -> Result<()> {
        let free = free_columns_of_plan(&right.plan);
        match left.names.relations.iter().flat_map(|one| &one.columns).find(|column| free.contains(&column.id.0)) {
            None => Ok(()),
            Some(column) => Err(Error::new(
                ErrorKind::UndefinedColumn,
                format!("the right side of a RIGHT or FULL JOIN cannot name \"{}\" of its left side", column.spelled),
            )),
        }
    }

    fn join_on(
        &mut self,
        left: FromPart,
        right: FromPart,
        sides: JoinSides,
        condition: &ast::Expr,
    ) -> Result<FromPart> {
        let (left_names, right_names) = (left.names.clone(), right.names.clone());
        let both = left.names.and(right.names);
        // ON sees only the two sides of its join, not the items of FROM before them.
        let outside = std::mem::replace(&mut self.level().names, vec![both.clone()]);
        let bound = self.condition(condition);
        self.level().names = outside;
        let conditions = conjuncts(bound?);
        // ON true means every pair, so we drop the condition.
        let conditions = if is_true(&conditions) { Vec::new() } else { conditions };
        let names = match sides {
            JoinSides::LeftSemi | JoinSides::LeftAnti => left_names,
            JoinSides::RightSemi | JoinSides::RightAnti => right_names,
            _ => both,
        };
        Ok(FromPart { plan: join_plan(left.plan, right.plan, sides, conditions), names })
    }

    fn join_using(&mut self, left: FromPart, right: FromPart, sides: JoinSides, columns: &[Ident]) -> Result<FromPart> {
        let mut conditions = Vec::with_capacity(columns.len());
        let mut merged = Vec::with_capacity(columns.len());
        let mut computed = Vec::new();
        for (place, ident) in columns.iter().enumerate() {
            if columns[..place].iter().any(|other| other.value == ident.value) {
                let message = format!("USING names \"{}\" twice", ident.value);
                return Err(self.at(Error::new(ErrorKind::DuplicateColumn, message), ident.span));
            }
            let one = self.using_column(&left.names, ident)?;
            let other = self.using_column(&right.names, ident)?;
            let (one_expr, other_expr) = (self.columns.expr(one.id), self.columns.expr(other.id));
            let condition = self.placed(ident.span, |_| typing::compare(CompareOp::Equal, one_expr, other_expr))?;
            conditions.push(condition);
            merged.push(match sides {
                JoinSides::Right | JoinSides::RightSemi | JoinSides::RightAnti => NamedColumn { id: other.id, ..one },
                JoinSides::Full => {
                    let mut values = vec![self.columns.expr(one.id), self.columns.expr(other.id)];
                    let kind = self.bring_together(values.iter_mut().collect())?;
                    let id = self.add_column(&one.spelled, kind.clone());
                    computed.push((id, ScalarExpr::new(kind, ExprOp::Coalesce(values))));
                    NamedColumn { id, ..one }
                }
                _ => one,
            });
        }
        let is_other = |column: &&NamedColumn| !columns.iter().any(|ident| *ident.value == *column.name);
        let mut names = FromNames { visible: merged, relations: Vec::new() };
        // A semi or anti join gives the columns of only one side.
        let keeps_left = !matches!(sides, JoinSides::RightSemi | JoinSides::RightAnti);
        let keeps_right = !matches!(sides, JoinSides::LeftSemi | JoinSides::LeftAnti);
        for (side, is_kept) in [(left.names, keeps_left), (right.names, keeps_right)] {
            if is_kept {
                names.visible.extend(side.visible.iter().filter(is_other).cloned());
                names.relations.extend(side.relations);
            }
        }
        let mut plan = join_plan(left.plan, right.plan, sides, conditions);
        map(&mut plan, computed);
        Ok(FromPart { plan, names })
    }

    pub(super) fn using_column(&self, names: &FromNames, ident: &Ident) -> Result<NamedColumn> {
        let mut found = names.visible.iter().filter(|column| *column.name == *ident.value);
        match (found.next(), found.next()) {
            (Some(column), None) => Ok(column.clone()),
            (Some(_), Some(_)) => {
                let message = format!("column \"{}\" of USING is in more than one table of one side", ident.value);
                Err(self.at(Error::new(ErrorKind::AmbiguousColumn, message).hint("write the join with ON"), ident.span))
            }
            (None, _) => {
                let message = format!("there is no column \"{}\" in both sides of the JOIN", ident.value);
                let error = Error::new(ErrorKind::UndefinedColumn, message);
                let candidates = names.visible.iter().map(|column| &*column.spelled);
                Err(self.at(suggest(error, &ident.value, candidates), ident.span))
            }
        }
    }

    pub(super) fn table_factor(&mut self, factor: &TableFactor) -> Result<FromPart> {
        refuse_clauses(factor)?;
        let part = self.whole_table(factor)?;
        self.sampled(part, factor)
    }

    /// The rows of an item of FROM without its sample clause.
    fn whole_table(&mut self, factor: &TableFactor) -> Result<FromPart> {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let (plan, relation) = self.relation(name)?;
                self.aliased(plan, relation, alias.as_ref())
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                if args.settings.is_some() {
                    return Err(unsupported("SETTINGS of a table function"));
                }
                self.table_function(name, &args.args, *with_ordinality, alias.as_ref())
            }
            TableFactor::Function { name, args, with_ordinality, alias, .. } => {
                self.table_function(name, args, *with_ordinality, alias.as_ref())
            }
            TableFactor::UNNEST { alias, array_exprs, with_offset, with_offset_alias, with_ordinality } => {
                if *with_offset || with_offset_alias.is_some() {
                    return Err(unsupported("WITH OFFSET").hint("WITH ORDINALITY counts from 1"));
                }
                self.unnest(array_exprs, *with_ordinality, alias.as_ref())
            }
            TableFactor::TableFunction { expr, alias } => match expr {
                ast::Expr::Function(call) => match &call.args {
                    ast::FunctionArguments::List(list) => {
                        self.table_function(&call.name, &list.args, false, alias.as_ref())
                    }
                    _ => self.table_function(&call.name, &[], false, alias.as_ref()),
                },
                _ => Err(unsupported(format!("TABLE({expr})"))),
            },
            TableFactor::Derived { lateral, subquery, alias, .. } => self.derived(*lateral, subquery, alias.as_ref()),
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let part = self.deeper(1, |binder| binder.table_with_joins(table_with_joins))?;
                match alias {
                    None => Ok(part),
                    Some(_) => {
                        let relation = ScopeRelation::new(None, part.names.visible);
                        self.aliased(part.plan, relation, alias.as_ref())
                    }
                }
            }
            TableFactor::Pivot { .. } => self.deeper(1, |binder| binder.pivot(factor)),
            TableFactor::Unpivot { .. } => self.unpivot(factor),
            other => Err(unsupported(format!("{other} in FROM"))),
        }
    }

    pub(super) fn derived(
        &mut self,
        lateral: bool,
        query: &ast::Query,
        alias: Option<&TableAlias>,
    ) -> Result<FromPart> {
        // Without LATERAL, a subquery must not see the FROM items before it.
        let was_hidden = std::mem::replace(&mut self.level().is_hidden, !lateral);
        let rows = self.query(query);
        self.level().is_hidden = was_hidden;
        let rows = self.with_own_columns(rows?);
        let relation = ScopeRelation::new(None, rows.columns);
        self.aliased(rows.plan, relation, alias)
    }

    /// Gives every column of a query in FROM its own id. A query may give one column under two names, or give a column
    /// of an enclosing query. GROUPING SETS above must tell such columns apart, because `NULL` may replace one but not
    /// the other.
    pub(super) fn with_own_columns(&mut self, mut rows: BoundRows) -> BoundRows {
        let mut own = output(&rows.plan);
        let mut copies = Vec::new();
        for column in &mut rows.columns {
            // The first name keeps the id; further names of the column get a copy.
            let is_own = own.contains(column.id);
            own.remove(column.id);
            if !is_own {
                let value = self.columns.expr(column.id);
                let is_time = self.time_columns.contains(&column.id);
                *column = self.copy_of(column, value.kind.clone());
                if is_time {
                    self.time_columns.insert(column.id);
                }
                copies.push((column.id, value));
            }
        }
        map(&mut rows.plan, copies);
        rows
    }

    /// Gives a relation the names of its alias.
    pub(super) fn aliased(
        &mut self,
        plan: Logical,
        mut relation: ScopeRelation,
        alias: Option<&TableAlias>,
    ) -> Result<FromPart> {
        if let Some(alias) = alias {
            if alias.at.is_some() {
                return Err(unsupported("AT after an alias"));
            }
            let names: Vec<Ident> = alias.columns.iter().map(|column| column.name.clone()).collect();
            if let Some(column) = alias.columns.iter().find(|column| column.data_type.is_some()) {
                return Err(unsupported(format!("a type for the column {} of an alias", column.name)));
            }
            self.rename_columns(&mut relation.columns, &names)?;
            relation.name = Some(alias.name.value.as_str().into());
            relation.schema = None;
            relation.database = None;
        }
        if let Some(name) = &relation.name {
            let taken = self.level().names.iter().flat_map(|names| &names.relations);
            let place = |relation: &ScopeRelation| (relation.database.clone(), relation.schema.clone());
            let is_twice =
                taken.into_iter().any(|other| other.name == relation.name && place(other) == place(&relation));
            if is_twice {
                let message = format!("the FROM clause has \"{name}\" twice");
                let error =
                    Error::new(ErrorKind::DuplicateTable, message).hint("give one of them another name with AS");
                return Err(alias.map_or(error.clone(), |alias| self.at(error, alias.name.span)));
            }
        }
        Ok(FromPart { plan, names: FromNames::of(relation) })
    }

    /// The rows of a table, a view, a file, or a query of WITH.
    pub(super) fn relation(&mut self, name: &ObjectName) -> Result<(Logical, ScopeRelation)> {
        let relation_name = self.relation_name(name)?;
        if relation_name.schema.is_none()
            && relation_name.database.is_none()
            && let Some(with) = self.find_with(&relation_name.name)
        {
            let rows = self.use_with(&with)?;
            let rows = self.with_own_columns(rows);
            return Ok((rows.plan, ScopeRelation::new(Some(&relation_name.name), rows.columns)));
        }
        let known = match self.relations.get(&relation_name) {
            Some(known) => known.clone(),
            None => self.look_up(&relation_name, name)?,
        };
        let (plan, columns) = match known {
            KnownRelation::Table(number) => self.scan(number),
            KnownRelation::Source(number) => self.source(number),
            KnownRelation::View(view) => {
                let rows = self.view(&view, &relation_name)?;
                let rows = self.with_own_columns(rows);
                (rows.plan, rows.columns)
            }
        };
        let schema = relation_name.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
        let mut relation = ScopeRelation::new(Some(&relation_name.name), columns);
        relation.schema = Some(schema.into());
        relation.database = relation_name.database.as_deref().map(Into::into);
        Ok((plan, relation))
    }

    fn relation_name(&self, name: &ObjectName) -> Result<RelationName> {
        let mut parts = Vec::with_capacity(name.0.len());
        for part in &name.0 {
            match part {
                ObjectNamePart::Identifier(ident) => parts.push(ident.value.as_str()),
                ObjectNamePart::Function(function) => {
                    return Err(Error::new(ErrorKind::Syntax, format!("\"{function}\" is not a name")));
                }
            }
        }
        // Names in a view mean the database that has the view.
        let inside = self.databases.last().cloned().flatten();
        match parts.as_slice() {
            // A query of WITH within a view hides the tables of its database.
            [name] if self.find_with(name).is_some() => {
                Ok(RelationName { database: None, schema: None, name: (*name).to_string() })
            }
            [name] => Ok(RelationName { database: inside, schema: None, name: (*name).to_string() }),
            [schema, name] => {
                Ok(RelationName { database: inside, schema: Some((*schema).to_string()), name: (*name).to_string() })
            }
            [database, schema, name] => {
                let own = if inside.is_some() { CATALOG } else { self.catalog.database_name() };
                let database = if *database == own { inside } else { Some((*database).to_string()) };
                Ok(RelationName { database, schema: Some((*schema).to_string()), name: (*name).to_string() })
            }
            _ => {
                let error = Error::new(ErrorKind::UndefinedSchema, format!("\"{name}\" is not the name of a table"));
                Err(self.at(error.hint("a table is named table or schema.table"), name.span()))
            }
        }
    }

    fn look_up(&mut self, name: &RelationName, written: &ObjectName) -> Result<KnownRelation> {
        let catalog = self.catalog;
        let found = catalog.relation(name).map_err(|error| self.at(error, written.span()))?;
        let known = match found {
            None => return Err(self.at(self.no_relation(name), written.span())),
            Some(CatalogRelation::Table(table)) => {
                self.tables.push(table);
                KnownRelation::Table(self.tables.len() - 1)
            }
            Some(CatalogRelation::Source(source)) => {
                self.sources.push(source);
                KnownRelation::Source(self.sources.len() - 1)
            }
            Some(CatalogRelation::View(view)) => KnownRelation::View(Rc::new(view)),
        };
        // Look each name up only once, so all uses of a table share one number.
        self.relations.insert(name.clone(), known.clone());
        Ok(known)
    }

    fn no_relation(&self, name: &RelationName) -> Error {
        let extension = name.name.rsplit_once('.').map_or("", |(_, extension)| extension).to_ascii_lowercase();
        let is_ending = |ending: &str| FILE_ENDINGS.contains(&ending);
        let is_file = name.name.contains('/') || is_ending(&extension);
        if name.schema.is_none() && is_file {
            return Error::new(ErrorKind::UndefinedFile, format!("there is no file \"{}\"", name.name));
        }
        let shown = match &name.schema {
            Some(schema) if schema != DEFAULT_SCHEMA => format!("{schema}.{}", name.name),
            _ => name.name.clone(),
        };
        let shown = match &name.database {
            Some(database) => format!("{database}.{shown}"),
            None => shown,
        };
        let error = Error::new(ErrorKind::UndefinedTable, format!("there is no table or view \"{shown}\""));
        if name.schema.is_some() && is_ending(&name.name) {
            return error.hint(format!("the name of a file is written in quotes: FROM '{shown}'"));
        }
        let names = self.catalog.relation_names();
        let withs = self.with_names();
        suggest(error, &name.name, names.iter().chain(&withs).map(String::as_str))
    }

    fn scan(&mut self, number: usize) -> (Logical, Vec<NamedColumn>) {
        let table = std::sync::Arc::clone(self.tables[number].table());
        self.note_scan(table.id, table.columns.len());
        self.note_keyed_scan(&table);
        let mut columns = Vec::with_capacity(table.columns.len());
        let mut read = Vec::with_capacity(table.columns.len());
        for (place, column) in table.columns.iter().enumerate() {
            let id = self.add_column(&column.name, column.kind.arrow());
            if table.time_column() == Some(place) {
                self.time_columns.insert(id);
            }
            columns.push(NamedColumn::new(id, &column.name));
            read.push((id, place));
        }
        let scan = LogicalScan { table: number, columns: read, conditions: Vec::new(), row_number: None };
        (Logical::Scan(scan), columns)
    }

    pub(super) fn source(&mut self, number: usize) -> (Logical, Vec<NamedColumn>) {
        let schema = std::sync::Arc::clone(self.sources[number].schema());
        let mut columns = Vec::with_capacity(schema.fields().len());
        let mut read = Vec::with_capacity(schema.fields().len());
        for (place, field) in schema.fields().iter().enumerate() {
            let id = self.add_column(field.name(), field.data_type().clone());
            self.columns.declare(id, declared_type(field));
            columns.push(NamedColumn::new(id, field.name()));
            read.push((id, place));
        }
        (Logical::Source(LogicalSource { source: number, columns: read, conditions: Vec::new() }), columns)
    }

    /// Binds the query of a view. It must not see the names of the statement around it.
    fn view(&mut self, view: &CatalogView, name: &RelationName) -> Result<BoundRows> {
        let database = name.database.as_deref().unwrap_or_default();
        let full_name = format!("{database}.{}.{}", name.schema.as_deref().unwrap_or(DEFAULT_SCHEMA), name.name);
        if self.views.iter().any(|(name, _)| *name == full_name) {
            let message = format!("the view \"{}\" refers to itself through other views", view.name);
            return Err(Error::new(ErrorKind::InvalidDefinition, message));
        }
        self.expansions += 1;
        if self.expansions > VIEWS_MAX {
            let message = format!("the statement reads more than {VIEWS_MAX} views in total");
            return Err(Error::new(ErrorKind::StatementTooComplex, message));
        }
        self.views.push((full_name, view.spelling.clone()));
        self.enter_view(view.id);
        self.databases.push(name.database.clone());
        // The view's query must not see names of the statement, so we hide them while it is bound.
        let levels = std::mem::take(&mut self.levels);
        let withs = std::mem::take(&mut self.withs);
        let mut rows = self.query(&view.query).map_err(|error| {
            // The error of a view that refers to itself already names the view.
            if error.kind() == ErrorKind::InvalidDefinition {
                return error;
            }
            let wrapped =
                Error::new(error.kind(), format!("the view \"{}\" cannot be planned: {}", view.name, error.message()));
            match error.hint_text() {
                Some(hint) => wrapped.hint(hint),
                None => wrapped,
            }
        })?;
        self.levels = levels;
        self.withs = withs;
        self.leave_view();
        self.databases.pop();
        self.views.pop();
        if view.columns.len() > rows.columns.len() {
            let message = format!(
                "view \"{}\" has {} columns, but its query gives {}",
                view.name,
                view.columns.len(),
                rows.columns.len()
            );
            return Err(Error::new(ErrorKind::CardinalityViolation, message));
        }
        for (column, name) in rows.columns.iter_mut().zip(&view.columns) {
            *column = NamedColumn::new(column.id, name);
        }
        Ok(rows)
    }
}

/// The cross product of both sides. If the right side unnests lists of the left side, they are unnested directly.
pub(super) fn cross(left: Logical, right: Logical) -> Logical {
    if only_unnests(&right) {
        return unnest_over(left, right, false);
    }
    Logical::join(LogicalJoinKind::Inner, left, right, Vec::new())
}

/// Whether a side of a join is just an UNNEST, whose lists may be columns of the other side.
fn only_unnests(plan: &Logical) -> bool {
    match plan {
        Logical::Unnest { input, outer: false, .. } => is_one_row(input),
        // The columns that a function in FROM makes of an item.
        Logical::Map { input, .. } => only_unnests(input),
        _ => false,
    }
}

/// Unnests the lists of `right` over the rows of `left`.
fn unnest_over(left: Logical, right: Logical, outer: bool) -> Logical {
    match right {
        Logical::Unnest { lists, ordinality, .. } => {
            Logical::Unnest { input: Box::new(left), lists, ordinality, outer }
        }
        Logical::Map { input, exprs } => Logical::Map { input: Box::new(unnest_over(left, *input, outer)), exprs },
        other => other,
    }
}

fn is_one_row(plan: &Logical) -> bool {
    matches!(plan, Logical::Values { columns, rows } if columns.is_empty() && rows.len() == 1)
}

fn is_true(conditions: &[ScalarExpr]) -> bool {
    conditions.iter().all(|one| one.as_constant().and_then(|value| value.as_bool()) == Some(true))
}

fn join_plan(left: Logical, right: Logical, sides: JoinSides, conditions: Vec<ScalarExpr>) -> Logical {
    match sides {
        JoinSides::Inner if conditions.is_empty() => return cross(left, right),
        JoinSides::Left if conditions.is_empty() && only_unnests(&right) => return unnest_over(left, right, true),
        _ => {}
    }
    let (kind, left, right) = match sides {
        JoinSides::Inner | JoinSides::Cross => (LogicalJoinKind::Inner, left, right),
        JoinSides::Left => (LogicalJoinKind::Left, left, right),
        JoinSides::Right => (LogicalJoinKind::Left, right, left),
        JoinSides::Full => (LogicalJoinKind::Full, left, right),
        JoinSides::LeftSemi => (LogicalJoinKind::Semi, left, right),
        JoinSides::LeftAnti => (LogicalJoinKind::Anti, left, right),
        JoinSides::RightSemi => (LogicalJoinKind::Semi, right, left),
        JoinSides::RightAnti => (LogicalJoinKind::Anti, right, left),
    };
    Logical::join(kind, left, right, conditions)
}

fn sides_of(operator: &JoinOperator) -> Result<(JoinSides, &JoinConstraint)> {
    Ok(match operator {
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (JoinSides::Inner, constraint),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (JoinSides::Left, constraint),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => (JoinSides::Right, constraint),
        JoinOperator::FullOuter(constraint) => (JoinSides::Full, constraint),
        JoinOperator::CrossJoin(constraint) => (JoinSides::Cross, constraint),
        JoinOperator::Semi(constraint) | JoinOperator::LeftSemi(constraint) => (JoinSides::LeftSemi, constraint),
        JoinOperator::Anti(constraint) | JoinOperator::LeftAnti(constraint) => (JoinSides::LeftAnti, constraint),
        JoinOperator::RightSemi(constraint) => (JoinSides::RightSemi, constraint),
        JoinOperator::RightAnti(constraint) => (JoinSides::RightAnti, constraint),
        JoinOperator::AsOf { .. } => return Err(unsupported("ASOF JOIN")),
        JoinOperator::CrossApply | JoinOperator::OuterApply => {
            return Err(unsupported("APPLY").hint("JOIN LATERAL (...) ON true does the same"));
        }
        JoinOperator::StraightJoin(_) => return Err(unsupported("STRAIGHT_JOIN")),
        JoinOperator::ArrayJoin | JoinOperator::LeftArrayJoin | JoinOperator::InnerArrayJoin => {
            return Err(unsupported("ARRAY JOIN").hint("CROSS JOIN UNNEST(list) does the same"));
        }
    })
}

fn refuse_clauses(factor: &TableFactor) -> Result<()> {
    let refused = match factor {
        TableFactor::Table {
            with_hints, version, partitions, json_path, index_hints, with_ordinality, args, ..
        } => [
            (!with_hints.is_empty() || !index_hints.is_empty(), "a hint on a table"),
            (version.is_some(), "a version of a table"),
            (!partitions.is_empty(), "PARTITION of a table"),
            (json_path.is_some(), "a path after a table"),
            (*with_ordinality && args.is_none(), "WITH ORDINALITY of a table"),
        ]
        .into_iter()
        .find(|(is_there, _)| *is_there),
        _ => None,
    };
    match refused {
        Some((true, what)) => Err(unsupported(what)),
        _ => Ok(()),
    }
}

/// The type of the items of a list.
pub(super) fn item_kind(kind: &DataType) -> Option<DataType> {
    match kind {
        // A map is no list of entries, except as `map_entries(map)`.
        DataType::List(item) if map_kinds(kind).is_none() => Some(item.data_type().clone()),
        _ => None,
    }
}

/// The ids of columns.
pub(super) fn ids(columns: &[NamedColumn]) -> Vec<ColumnId> {
    columns.iter().map(|column| column.id).collect()
}
