//! Lowering: turns the logical plan into operators of the engine.
//!
//! The plan is lowered from its leaves up. Each operator is told which of its columns are needed above and should give
//! no others. Expressions become functions of the engine in the operator that reads them (`relation.rs`).

mod column_groups;
mod eager_group;
mod early_functions;
mod expression;
mod fill;
mod group;
mod grouping_sets;
mod join;
mod join_graph;
mod late_columns;
mod latest;
mod operators;
mod ordered_join;
mod predicate;
mod relation;
mod repeated;
mod set_operation;
mod whole_partitions;
mod window;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill_base::{Error, Result, TableId};
use rowmill_exec::function::VectorFunction;
use rowmill_plan::logical::ColumnNames;
use rowmill_plan::{self as plan, ColumnId, Logical, Names, Node, Predicate, ScalarExpr, Volatility};
use rowmill_storage::{Block, OpenRun, TableSource};

use self::late_columns::UniqueColumn;
pub(crate) use self::predicate::translate as translate_predicate;
use self::relation::LoweredRelation;
use crate::binder::BoundQuery;
use crate::catalog::RowSource;
use crate::column_set::ColumnSet;
use crate::estimate::Estimator;
use crate::optimizer::walk::each_operator;
use crate::reuse::unread;
use crate::table_parts::like_planned;

/// A query that the engine runs.
#[derive(Clone, Debug)]
pub struct PhysicalQuery {
    /// The operators. They refer to functions, tables and sources by number in the lists below.
    pub root: Arc<Node>,
    /// The functions.
    pub functions: Vec<Arc<dyn VectorFunction>>,
    /// The functions as EXPLAIN shows them.
    pub texts: Vec<String>,
    /// The tables, in the snapshot that the query was planned for.
    pub tables: Vec<Arc<dyn TableSource>>,
    /// Whether the plan is valid for every snapshot with the same table definitions. It must then contain nothing that
    /// belongs to the statement for which it was planned.
    pub is_reusable: bool,
    /// The sources that `Node::Foreign` reads, by number.
    pub sources: Vec<SourceScan>,
    /// The names of the result's columns as spelled, and their types.
    pub schema: SchemaRef,
    /// The columns without duplicates that the plan relies on. Another snapshot may have duplicates.
    unique_columns: Vec<UniqueColumn>,
}

/// A scan of a source that is not a stored table.
#[derive(Clone, Debug)]
pub struct SourceScan {
    /// The source.
    pub source: Arc<dyn RowSource>,
    /// The columns to read.
    pub columns: Vec<usize>,
    /// Conditions that the source may use to leave out rows. Columns are positions in the source.
    pub predicates: Vec<Predicate>,
}

/// Lowers an optimized query.
pub fn lower(bound: &BoundQuery) -> Result<PhysicalQuery> {
    let mut lowerer = Lowerer {
        columns: bound.query.columns.clone(),
        tables: &bound.tables,
        all_sources: &bound.sources,
        functions: Vec::new(),
        texts: Vec::new(),
        sources: Vec::new(),
        estimator: Estimator::new(&bound.tables),
        shared_columns: shared_columns(&bound.query.root),
        shared_nodes: HashMap::new(),
        unique_columns: Vec::new(),
    };
    let output = &bound.query.output;
    let needed: ColumnSet = output.iter().map(|(id, _)| *id).collect();
    let relation = lowerer.lower(&bound.query.root, &needed)?;
    let ids: Vec<ColumnId> = output.iter().map(|(id, _)| *id).collect();
    // Joins whose order is still open must be ordered now.
    let relation = lowerer.settled(relation, &needed)?;
    let nullable: Vec<bool> = ids.iter().map(|id| lowerer.is_nullable(*id, &relation)).collect();
    let root = lowerer.exactly(relation, &ids)?;
    let fields = output.iter().zip(nullable);
    let fields =
        fields.map(|((id, name), nullable)| bound.query.columns.field(*id, name, nullable)).collect::<Vec<_>>();
    let Lowerer { functions, texts, sources, unique_columns, .. } = lowerer;
    Ok(PhysicalQuery {
        root,
        functions,
        texts,
        tables: bound.tables.clone(),
        is_reusable: bound.is_reusable(),
        sources,
        schema: Arc::new(Schema::new(fields)),
        unique_columns,
    })
}

impl Names for PhysicalQuery {
    fn table(&self, table: usize) -> &str {
        &self.tables[table].table().name
    }

    fn column(&self, table: usize, column: usize) -> &str {
        &self.tables[table].table().columns[column].name
    }

    fn size(&self, table: usize) -> (usize, u64) {
        let table = &*self.tables[table];
        (table.blocks().len(), table.row_count())
    }

    fn function(&self, function: usize) -> &str {
        &self.texts[function]
    }

    fn access(&self, scan: &plan::Scan, first: Option<(&[plan::SortKey], usize)>) -> Option<String> {
        rowmill_exec::operator::access_text(&*self.tables[scan.table], scan, first)
    }

    fn ordered_join_way(&self, join: &plan::OrderedJoin) -> Option<String> {
        rowmill_exec::operator::ordered_join_way(join, &self.tables)
    }
}

impl PhysicalQuery {
    /// The same plan over other snapshots of its tables, which `table` finds by id. Returns `None` if a table no longer
    /// exists, if a column that the plan takes for unique is not unique there, or if a plan for these snapshots would
    /// read other parts of documents.
    #[must_use]
    pub fn over(&self, table: &dyn Fn(TableId) -> Option<Arc<dyn TableSource>>) -> Option<PhysicalQuery> {
        let tables = self.tables.iter().map(|known| like_planned(&**known, table(known.table().id)?));
        let tables = tables.collect::<Option<Vec<_>>>()?;
        let still_holds = |unique: &UniqueColumn| {
            has_same_rows(&*self.tables[unique.table], &*tables[unique.table]) || unique.holds(&tables)
        };
        if !self.unique_columns.iter().all(still_holds) {
            return None;
        }
        Some(PhysicalQuery { tables, ..self.clone() })
    }

    /// The same plan without the rows of its tables, for a cache. Tables with columns that the plan takes for unique
    /// keep their rows, so that the cache can tell whether they changed. The plan must be put
    /// [over](PhysicalQuery::over) a snapshot before it runs.
    #[must_use]
    pub fn unread(&self) -> PhysicalQuery {
        let needs_rows = |table: usize| self.unique_columns.iter().any(|unique| unique.table == table);
        let tables = self.tables.iter().enumerate().map(|(number, table)| match needs_rows(number) {
            true => Arc::clone(table),
            false => unread(&**table),
        });
        PhysicalQuery { tables: tables.collect(), ..self.clone() }
    }
}

/// Whether two snapshots of a columnar table consist of the same blocks and runs.
fn has_same_rows(one: &dyn TableSource, other: &dyn TableSource) -> bool {
    let are_same_blocks = |(a, b): (&Arc<Block>, &Arc<Block>)| Arc::ptr_eq(a, b);
    let are_same_runs = |(a, b): (&Arc<OpenRun>, &Arc<OpenRun>)| Arc::ptr_eq(a, b);
    one.blocks().len() == other.blocks().len()
        && one.runs().len() == other.runs().len()
        && one.blocks().iter().zip(other.blocks()).all(are_same_blocks)
        && one.runs().iter().zip(other.runs()).all(are_same_runs)
}

/// Lowers one query.
struct Lowerer<'b> {
    columns: ColumnNames,
    tables: &'b [Arc<dyn TableSource>],
    all_sources: &'b [Arc<dyn RowSource>],
    functions: Vec<Arc<dyn VectorFunction>>,
    texts: Vec<String>,
    sources: Vec<SourceScan>,
    estimator: Estimator<'b>,
    /// For each shared plan, by number, the columns that any of its readers reads.
    shared_columns: HashMap<usize, Vec<ColumnId>>,
    /// For each shared plan, by number, its operator, which gives exactly those columns.
    shared_nodes: HashMap<usize, Arc<Node>>,
    /// The columns that were proven to be unique and that the plan relies on.
    unique_columns: Vec<UniqueColumn>,
}

/// For each shared plan, by number, the columns that any of its readers reads, each once.
fn shared_columns(root: &Logical) -> HashMap<usize, Vec<ColumnId>> {
    let mut shared: HashMap<usize, Vec<ColumnId>> = HashMap::new();
    // A shared plan may read other shared plans, so we visit the plan of every number, each once.
    let mut unread: Vec<&Logical> = vec![root];
    while let Some(plan) = unread.pop() {
        each_operator(plan, &mut |plan| {
            if let Logical::Shared { number, input, input_columns, .. } = plan {
                let known = shared.entry(*number).or_insert_with(|| {
                    unread.push(input);
                    Vec::new()
                });
                input_columns.iter().for_each(|id| {
                    if !known.contains(id) {
                        known.push(*id);
                    }
                });
            }
        });
    }
    shared
}

/// The lengths of the lists of a [`Lowerer`] before a plan is lowered for trial.
struct LoweringMark {
    functions: usize,
    sources: usize,
    shared_nodes: HashMap<usize, Arc<Node>>,
}

impl Lowerer<'_> {
    /// The state to which [`Lowerer::undo`] goes back.
    fn mark(&self) -> LoweringMark {
        debug_assert_eq!(self.functions.len(), self.texts.len(), "every function has a text");
        LoweringMark {
            functions: self.functions.len(),
            sources: self.sources.len(),
            shared_nodes: self.shared_nodes.clone(),
        }
    }

    /// Removes the functions, sources and shared operators that were added after `mark`. The operators that use them
    /// must not be used afterwards.
    fn undo(&mut self, mark: LoweringMark) {
        self.functions.truncate(mark.functions);
        self.texts.truncate(mark.functions);
        self.sources.truncate(mark.sources);
        self.shared_nodes = mark.shared_nodes;
    }

    /// Lowers `plan`. The result has the columns of `needed` that the plan makes, and possibly others.
    fn lower(&mut self, plan: &Logical, needed: &ColumnSet) -> Result<LoweredRelation> {
        match plan {
            Logical::Scan(scan) => self.scan(scan, needed),
            Logical::Source(source) => self.source(source, needed),
            Logical::Values { columns, rows } => self.values(columns, rows),
            Logical::Filter { input, conditions } => self.filter(input, conditions, needed),
            Logical::Map { input, exprs } => self.map(input, exprs, needed),
            Logical::Join(join) => self.join(join, needed),
            Logical::Group(group) => self.group(group, needed),
            Logical::Window(window) => self.window(window, needed),
            Logical::Sort { input, keys } => self.sort(input, keys, None, needed),
            Logical::Limit { input, skip, rows } => self.limit(input, skip.as_ref(), rows.as_ref(), needed),
            Logical::Distinct { input, columns, on: false } => self.distinct(input, columns),
            Logical::Distinct { input, columns, on: true } => self.first_rows(input, columns, needed),
            Logical::SetOperation(operation) => self.set_operation(operation),
            Logical::Recursive { .. } => self.recursive(plan),
            Logical::RecursiveRows { number, columns } => {
                let schema = self.schema(columns);
                Ok(LoweredRelation::new(Node::RecursiveRows { number: *number, schema }, columns.clone()))
            }
            Logical::OuterRow { .. } => Err(Error::internal("a plan of a program cannot run in the engine")),
            Logical::Shared { number, input, input_columns, columns } => {
                self.shared(*number, input, input_columns, columns)
            }
            Logical::Unnest { input, lists, ordinality, outer } => {
                self.unnest(input, lists, *ordinality, *outer, needed)
            }
            Logical::OrderedJoin(join) => self.ordered_join(join, needed),
            Logical::Fill(fill) => self.fill(fill, needed),
            Logical::SingleRow { input, by } => self.single_row(input, by, needed),
        }
    }

    fn kind(&self, id: ColumnId) -> &DataType {
        &self.columns.get(id).kind
    }

    /// The schema of an operator with these columns.
    fn schema(&self, ids: &[ColumnId]) -> SchemaRef {
        let field = |id: &ColumnId| {
            let info = self.columns.get(*id);
            Field::new(&info.name, info.kind.clone(), true)
        };
        Arc::new(Schema::new(ids.iter().map(field).collect::<Vec<_>>()))
    }

    /// An operator that gives exactly the columns `ids`, in that order.
    fn exactly(&mut self, relation: LoweredRelation, ids: &[ColumnId]) -> Result<Arc<Node>> {
        let relation = self.settled(relation, &ids.iter().copied().collect())?;
        if relation.ids == ids {
            return Ok(Arc::clone(relation.node()));
        }
        let exprs = ids.iter().map(|id| self.expr(&self.columns.expr(*id), &relation)).collect::<Result<Vec<_>>>()?;
        let input = Arc::clone(relation.node());
        Ok(Arc::new(Node::Project { input, exprs, schema: self.schema(ids) }))
    }

    /// Adds a column to the source of `relation` for every expression that is not a column yet. Returns the ids in
    /// order.
    fn with_columns(
        &mut self,
        relation: LoweredRelation,
        exprs: &[ScalarExpr],
    ) -> Result<(LoweredRelation, Vec<ColumnId>)> {
        let mut made: Vec<(ColumnId, ScalarExpr)> = Vec::new();
        let mut ids = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let resolved = relation.resolve(expr);
            let of_source = resolved.as_column().map(ColumnId).filter(|id| relation.position(*id).is_some());
            // Two calls of a volatile function have two values, even if they are written alike.
            let can_share = resolved.volatility() < Volatility::Volatile;
            let known = made.iter().find(|(_, made)| can_share && *made == resolved).map(|(id, _)| *id);
            ids.push(match of_source.or(known) {
                Some(id) => id,
                None => {
                    // A derived column must keep its id, so readers above find it.
                    let own = expr.as_column().map(ColumnId);
                    let id = own.unwrap_or_else(|| self.columns.add("", resolved.kind.clone()));
                    made.push((id, resolved));
                    id
                }
            });
        }
        if made.is_empty() {
            return Ok((relation, ids));
        }
        let mut columns: Vec<rowmill_plan::Expr> = (0..relation.ids.len()).map(rowmill_plan::Expr::Column).collect();
        for (_, expr) in &made {
            columns.push(self.resolved_expr(expr, &relation)?);
        }
        let mut all = relation.ids.clone();
        all.extend(made.iter().map(|(id, _)| *id));
        let input = Arc::clone(relation.node());
        let node = Node::Project { input, exprs: columns, schema: self.schema(&all) };
        let mut derived = relation.derived;
        derived.retain(|(id, _)| !all.contains(id));
        // The columns that wait must read the values made here, so we do not compute them twice.
        let shared = |of: &ScalarExpr| of.as_column().is_none() && of.volatility() < Volatility::Volatile;
        for (_, expr) in &mut derived {
            expr.rewrite(&mut |part| {
                if let Some((id, of)) = made.iter().find(|(_, of)| of == part && shared(of)) {
                    *part = ScalarExpr::id(*id, of.kind.clone());
                }
            });
        }
        Ok((LoweredRelation { derived, ..LoweredRelation::new(node, all) }, ids))
    }
}
