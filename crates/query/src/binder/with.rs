//! WITH: queries that have a name.
//!
//! A query of WITH is bound again at each use, so each use is optimized on its own. In three cases it must be
//! computed once and shared: if it is MATERIALIZED, if it calls a volatile function, and if nested uses multiply until
//! binding itself would become expensive.
//! were bound so often that binding itself becomes expensive.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, NARROW_DIGITS_MAX, Result, WIDE_DIGITS_MAX};
use rowmill_expr::typing;
use rowmill_plan::{ColumnId, Logical};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{self, CteAsMaterialized, Query, SetExpr, SetOperator, SetQuantifier, Visitor};

use super::place::unsupported;
use super::scope::NamedColumn;
use super::walk::{free_columns_of_plan, is_volatile};
use super::{Binder, BoundRows};
use crate::syntax_walk::SyntaxTree;

/// Uses of WITH queries and views that we bind separately. After that, further uses share one plan.
const EXPANSIONS_MAX: usize = 100;

/// How often we bind the step of a recursive query at most, to find its types.
const ROUNDS_BOUND_MAX: usize = 4;

/// A name of a WITH clause.
pub(super) struct WithQuery {
    name: String,
    columns: Vec<ast::Ident>,
    body: WithBody,
    materialized: Option<CteAsMaterialized>,
    /// How many names of WITH, and how many enclosing SELECTs, the query can see.
    visible: usize,
    levels: usize,
    /// The plan, once it is shared.
    shared: RefCell<Option<SharedQuery>>,
    is_used: Cell<bool>,
}

enum WithBody {
    /// A query that cannot refer to itself.
    Query(Rc<Query>),
    /// A query that may refer to itself.
    Recursive(Rc<Query>),
    /// The rows of the previous round, inside of a recursive query.
    Round { number: usize, columns: Vec<(NamedColumn, DataType)> },
}

#[derive(Clone)]
struct SharedQuery {
    number: usize,
    plan: Arc<Logical>,
    columns: Vec<NamedColumn>,
}

impl Binder<'_> {
    /// Adds the names of a WITH clause.
    pub(super) fn with_clause(&mut self, with: &ast::With) -> Result<()> {
        let first = self.withs.len();
        for table in &with.cte_tables {
            let name = &table.alias.name;
            if self.withs[first..].iter().any(|other| other.name == name.value) {
                let message = format!("the WITH clause names \"{}\" twice", name.value);
                return Err(self.at(Error::new(ErrorKind::DuplicateTable, message), name.span));
            }
            if table.from.is_some() {
                return Err(unsupported("FROM after WITH"));
            }
            let query = Rc::new((*table.query).clone());
            let is_recursive = with.recursive && mentions(&*query, &name.value);
            self.withs.push(Rc::new(WithQuery {
                name: name.value.clone(),
                columns: table.alias.columns.iter().map(|column| column.name.clone()).collect(),
                body: if is_recursive { WithBody::Recursive(query) } else { WithBody::Query(query) },
                materialized: table.materialized,
                visible: self.withs.len(),
                levels: self.levels.len(),
                shared: RefCell::new(None),
                is_used: Cell::new(false),
            }));
        }
        Ok(())
    }

    /// Finds the query of WITH that a bare name refers to.
    pub(super) fn find_with(&self, name: &str) -> Option<Rc<WithQuery>> {
        self.withs.iter().rev().find(|with| with.name == name).cloned()
    }

    /// The visible queries as a WITH clause, for a query that runs while this one is bound. `None` if there are none.
    pub(super) fn visible_withs(&self) -> Result<Option<ast::With>> {
        let mut cte_tables = Vec::with_capacity(self.withs.len());
        let mut recursive = false;
        for with in &self.withs {
            let query = match &with.body {
                WithBody::Query(query) => query,
                WithBody::Recursive(query) => {
                    recursive = true;
                    query
                }
                WithBody::Round { .. } => {
                    return Err(unsupported("PIVOT without IN in a recursive query").hint("list the values with IN"));
                }
            };
            let columns =
                with.columns.iter().map(|name| ast::TableAliasColumnDef { name: name.clone(), data_type: None });
            let alias = ast::TableAlias {
                explicit: true,
                name: ast::Ident::new(with.name.clone()),
                columns: columns.collect(),
                at: None,
            };
            cte_tables.push(ast::Cte {
                alias,
                query: Box::new((**query).clone()),
                from: None,
                materialized: with.materialized,
                closing_paren_token: AttachedToken::empty(),
            });
        }
        let with_token = AttachedToken::empty();
        Ok((!cte_tables.is_empty()).then_some(ast::With { with_token, recursive, cte_tables }))
    }

    /// The names that an error message may suggest.
    pub(super) fn with_names(&self) -> Vec<String> {
        self.withs.iter().map(|with| with.name.clone()).collect()
    }

    /// Binds the WITH queries from `first` on that were never used, because their errors must be reported as well.
    pub(super) fn check_unused_withs(&mut self, first: usize) -> Result<()> {
        for at in first..self.withs.len() {
            let with = Rc::clone(&self.withs[at]);
            if !with.is_used.get() {
                self.use_with(&with)?;
            }
        }
        Ok(())
    }

    /// The rows of a query of WITH, with new columns.
    pub(super) fn use_with(&mut self, with: &Rc<WithQuery>) -> Result<BoundRows> {
        with.is_used.set(true);
        if let WithBody::Round { number, columns } = &with.body {
            return Ok(self.round(*number, columns));
        }
        if let Some(shared) = with.shared.borrow().clone() {
            return Ok(self.read_shared(shared));
        }
        // The counter limits the total work of binding, whatever the nesting is.
        self.expansions += 1;
        let rows = self.bind_with(with)?;
        let is_inline = with.materialized == Some(CteAsMaterialized::NotMaterialized);
        let is_shared = with.materialized == Some(CteAsMaterialized::Materialized)
            || self.expansions > EXPANSIONS_MAX
            || !is_inline && is_volatile(&rows.plan);
        // A plan that names outer columns has different rows for each outer row, so it must not be shared.
        if !is_shared || !free_columns_of_plan(&rows.plan).is_empty() {
            return Ok(rows);
        }
        let shared = SharedQuery { number: self.next_plan(), plan: Arc::new(rows.plan), columns: rows.columns };
        *with.shared.borrow_mut() = Some(shared.clone());
        Ok(self.read_shared(shared))
    }

    fn round(&mut self, number: usize, columns: &[(NamedColumn, DataType)]) -> BoundRows {
        let columns: Vec<NamedColumn> =
            columns.iter().map(|(column, kind)| self.copy_of(column, kind.clone())).collect();
        let plan = Logical::RecursiveRows { number, columns: columns.iter().map(|column| column.id).collect() };
        BoundRows { plan, columns }
    }

    fn read_shared(&mut self, shared: SharedQuery) -> BoundRows {
        let columns: Vec<NamedColumn> = shared
            .columns
            .iter()
            .map(|column| {
                let kind = self.kind(column.id).clone();
                self.copy_of(column, kind)
            })
            .collect();
        let plan = Logical::Shared {
            number: shared.number,
            input: shared.plan,
            input_columns: shared.columns.iter().map(|column| column.id).collect(),
            columns: columns.iter().map(|column| column.id).collect(),
        };
        BoundRows { plan, columns }
    }

    /// Binds the query. It sees only the names that were visible at its definition.
    fn bind_with(&mut self, with: &Rc<WithQuery>) -> Result<BoundRows> {
        let hidden_withs = self.withs.split_off(with.visible);
        let hidden_levels = self.levels.split_off(with.levels);
        let mut rows = match &with.body {
            WithBody::Query(query) => self.query(query)?,
            WithBody::Recursive(query) => self.recursive_query(with, query)?,
            WithBody::Round { .. } => unreachable!("the rows of a round are not bound"),
        };
        self.levels.extend(hidden_levels);
        self.withs.extend(hidden_withs);
        self.rename_columns(&mut rows.columns, &with.columns)?;
        Ok(rows)
    }

    /// Renames the first columns by the column list of an alias.
    pub(super) fn rename_columns(&mut self, columns: &mut [NamedColumn], names: &[ast::Ident]) -> Result<()> {
        if names.len() > columns.len() {
            let message = format!("{} columns are named, but the query or table has {}", names.len(), columns.len());
            return Err(self.at(Error::new(ErrorKind::CardinalityViolation, message), names[0].span));
        }
        for (column, name) in columns.iter_mut().zip(names) {
            *column = NamedColumn::new(column.id, &self.spelled(name));
        }
        Ok(())
    }

    /// Binds a query that refers to itself: `base UNION [ALL] step`.
    fn recursive_query(&mut self, with: &WithQuery, query: &Query) -> Result<BoundRows> {
        let SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier, right } = &*query.body else {
            return Err(not_recursive(&with.name));
        };
        if mentions(&**left, &with.name) {
            return Err(not_recursive(&with.name));
        }
        let distinct = match set_quantifier {
            SetQuantifier::All => false,
            SetQuantifier::None | SetQuantifier::Distinct => true,
            _ => return Err(unsupported("UNION BY NAME in WITH RECURSIVE")),
        };
        let visible = self.withs.len();
        if let Some(inner) = &query.with {
            self.with_clause(inner)?;
        }
        let rows = self.recursion(with, left, right, distinct)?;
        self.withs.truncate(visible);
        self.order_and_limit(rows, query)
    }

    fn recursion(&mut self, with: &WithQuery, left: &SetExpr, right: &SetExpr, distinct: bool) -> Result<BoundRows> {
        let mut base = self.set_expr(left)?;
        self.rename_columns(&mut base.columns, &with.columns)?;
        let mut kinds: Vec<DataType> = base.columns.iter().map(|column| self.kind(column.id).clone()).collect();
        // A later round may have wider types than the first one. We then bind it again over the wider types. Decimals
        // can grow with each round, so the number of rounds must be limited.
        let mut rounds = 0;
        loop {
            rounds += 1;
            let number = self.next_plan();
            let mut step = self.step(with, number, &base.columns, &kinds, right)?;
            if step.columns.len() != kinds.len() {
                let message = format!(
                    "the queries of a UNION must have the same number of columns: {} and {}",
                    kinds.len(),
                    step.columns.len()
                );
                return Err(Error::new(ErrorKind::CardinalityViolation, message));
            }
            // Bind again if the step has wider types than its input.
            let common: Option<Vec<DataType>> = step
                .columns
                .iter()
                .zip(&kinds)
                .map(|(column, kind)| typing::common_kind([kind, self.kind(column.id)]))
                .collect();
            match common {
                Some(wider) if wider != kinds && rounds < ROUNDS_BOUND_MAX => {
                    kinds = wider.into_iter().zip(&kinds).map(|(wider, kind)| roomy(wider, kind)).collect();
                }
                _ => {
                    self.cast_columns(&mut base, &kinds)?;
                    self.cast_columns(&mut step, &kinds)?;
                    return Ok(self.recursive_plan(number, base, step, &kinds, distinct));
                }
            }
        }
    }

    /// Binds the query of the later rounds.
    fn step(
        &mut self,
        with: &WithQuery,
        number: usize,
        columns: &[NamedColumn],
        kinds: &[DataType],
        right: &SetExpr,
    ) -> Result<BoundRows> {
        let columns = columns.iter().cloned().zip(kinds.iter().cloned()).collect();
        self.withs.push(Rc::new(WithQuery {
            name: with.name.clone(),
            columns: Vec::new(),
            body: WithBody::Round { number, columns },
            materialized: None,
            visible: self.withs.len(),
            levels: self.levels.len(),
            shared: RefCell::new(None),
            is_used: Cell::new(true),
        }));
        let step = self.set_expr(right)?;
        self.withs.pop();
        Ok(step)
    }

    fn recursive_plan(
        &mut self,
        number: usize,
        base: BoundRows,
        step: BoundRows,
        kinds: &[DataType],
        distinct: bool,
    ) -> BoundRows {
        let ids = |rows: &BoundRows| rows.columns.iter().map(|column| column.id).collect::<Vec<ColumnId>>();
        let (base_columns, step_columns) = (ids(&base), ids(&step));
        let columns: Vec<NamedColumn> =
            base.columns.into_iter().zip(kinds).map(|(column, kind)| self.copy_of(&column, kind.clone())).collect();
        let plan = Logical::Recursive {
            number,
            base: Box::new(base.plan),
            base_columns,
            step: Box::new(step.plan),
            step_columns,
            distinct,
            columns: columns.iter().map(|column| column.id).collect(),
        };
        BoundRows { plan, columns }
    }
}

/// Gives a decimal that grows all digits at once, so it stops growing.
fn roomy(wider: DataType, kind: &DataType) -> DataType {
    match wider {
        DataType::Decimal128(_, scale) if wider != *kind => DataType::Decimal128(NARROW_DIGITS_MAX, scale),
        DataType::Decimal256(_, scale) if wider != *kind => DataType::Decimal256(WIDE_DIGITS_MAX, scale),
        _ => wider,
    }
}

fn not_recursive(name: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("the query \"{name}\" of WITH RECURSIVE names itself in an unsupported form"),
    )
    .hint("write first query UNION [ALL] query that names itself")
}

/// Whether `tree` reads a table with this name anywhere.
fn mentions(tree: &impl SyntaxTree, name: &str) -> bool {
    struct ReferenceSearch<'n>(&'n str);
    impl Visitor for ReferenceSearch<'_> {
        type Break = ();

        fn pre_visit_relation(&mut self, relation: &ast::ObjectName) -> ControlFlow<()> {
            match relation.0.as_slice() {
                [ast::ObjectNamePart::Identifier(ident)] if ident.value == self.0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    tree.walk(&mut ReferenceSearch(name)).is_break()
}
