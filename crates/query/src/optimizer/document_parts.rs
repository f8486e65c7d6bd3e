//! Reads parts of documents as columns of the scan.
//!
//! Blocks store the scalars at frequent paths of documents as parts (`crates/storage/src/documents.rs`). Where all
//! blocks of a table store a path with one type, `doc->>'a'` becomes a column of the scan, and so does
//! `(doc->'a'->>'b')::BIGINT` if the type is BIGINT. From then on it is a column like any other, so conditions, zone
//! maps, value lists and groupings need no rules of their own.
//!
//! A part has the values of its path and NULL elsewhere, as `->>` has. So it may replace the expression wherever the
//! documents themselves are visible, also above an outer join, which makes both NULL.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::{Result, SqlType, is_json};
use rowmill_expr::json::path::{JsonPath, PathStep};
use rowmill_plan::{ColumnId, Constant, ExprOp, Logical, ScalarExpr};
use rowmill_storage::{
    ColumnDef, ColumnPart, FoundPart, PartForm, PartType, PlannedParts, TableDef, WantedPart, stored_part,
};

use super::context::RewriteContext;
use super::walk::{exprs_mut, inputs_mut};
use crate::table_parts::{PathReader, with_parts};

/// Replaces paths of documents by columns of the scans, where blocks store them. Gives the tables the columns.
pub(crate) fn read_parts(root: &mut Logical, context: &mut RewriteContext<'_>) -> Result<()> {
    let has_documents = |table: &Arc<dyn rowmill_storage::TableSource>| {
        table.keyed().is_none() && table.table().columns.iter().any(|column| column.kind == SqlType::Json)
    };
    if !context.tables.iter().any(has_documents) {
        return Ok(());
    }
    let mut reading = PartColumns { scans: HashMap::new(), added: Vec::new(), tables: HashMap::new() };
    context.each_plan(root, &mut |plan, context| reading.rewrite(plan, context).map(drop))?;
    context.each_plan(root, &mut |plan, _| {
        reading.add_columns(plan);
        Ok(())
    })?;
    for (table, parts) in reading.tables {
        let rows = Arc::clone(&context.tables[table]);
        context.tables[table] = with_parts(rows, Arc::new(parts));
    }
    Ok(())
}

/// A path as columns of a scan.
struct ReadPart {
    kind: PartType,
    /// The values of the type.
    values: ScalarExpr,
    /// The texts of the others, if there may be others.
    rest: Option<ScalarExpr>,
}

impl ReadPart {
    /// What `->>` gives. `None` if only the documents tell.
    fn text(self) -> Option<ScalarExpr> {
        let values = match self.kind {
            PartType::Text => self.values,
            // These are written in one way only, as in the document.
            PartType::Integer | PartType::Boolean => self.values.cast(DataType::Utf8View),
            // The text that a cast makes of a DOUBLE may differ from the one in the document.
            PartType::Double => return None,
        };
        Some(match self.rest {
            Some(rest) => ScalarExpr::new(DataType::Utf8View, ExprOp::Coalesce(vec![rest, values])),
            None => values,
        })
    }

    /// What a cast of `->>` gives. `None` if the cast must see the texts.
    fn cast(self, to: &DataType, or_null: bool) -> Option<ScalarExpr> {
        let cast = |value: ScalarExpr| ScalarExpr::new(to.clone(), ExprOp::Cast { value: Box::new(value), or_null });
        let values = match (self.kind, to) {
            (PartType::Integer, DataType::Int64)
            | (PartType::Double, DataType::Float64)
            | (PartType::Boolean, DataType::Boolean) => self.values,
            // A whole number is the same DOUBLE whether it is read as a text or as a number.
            (PartType::Integer, DataType::Float64) => cast(self.values),
            _ => return None,
        };
        let Some(rest) = self.rest else { return Some(values) };
        let is_of_type =
            ScalarExpr::new(DataType::Boolean, ExprOp::IsNull { value: Box::new(rest.clone()), negated: false });
        let otherwise = Some(Box::new(cast(rest)));
        Some(ScalarExpr::new(to.clone(), ExprOp::Case { whens: vec![(is_of_type, values)], otherwise }))
    }
}

/// What a column of documents holds: documents of a scan, or what they have at a path.
#[derive(Clone)]
struct DocumentPath {
    /// The column of the scan.
    document: ColumnId,
    keys: Vec<String>,
}

/// A column of a scan for a part.
struct AddedColumn {
    document: ColumnId,
    /// The position in the definition of the table.
    at: usize,
    id: ColumnId,
}

/// The columns that a plan gets for the parts of its documents.
struct PartColumns {
    /// The table and the position of each column of documents.
    scans: HashMap<ColumnId, (usize, usize)>,
    added: Vec<AddedColumn>,
    tables: HashMap<usize, PlannedParts>,
}

/// The columns of documents that an operator gives.
type VisibleDocuments = HashMap<ColumnId, DocumentPath>;

impl PartColumns {
    /// Rewrites a plan. Returns the columns of documents that it gives.
    fn rewrite(&mut self, plan: &mut Logical, context: &mut RewriteContext<'_>) -> Result<VisibleDocuments> {
        let mut visible = VisibleDocuments::new();
        for input in inputs_mut(plan) {
            visible.extend(self.rewrite(input, context)?);
        }
        if let Logical::Scan(scan) = plan {
            let table = &context.tables[scan.table];
            let is_columnar = table.keyed().is_none();
            let columns = &table.table().columns;
            let is_document = |at: usize| columns[at].kind == SqlType::Json && columns[at].part.is_none();
            for (id, at) in scan.columns.iter().filter(|(_, at)| is_columnar && is_document(*at)) {
                self.scans.insert(*id, (scan.table, *at));
                visible.insert(*id, DocumentPath { document: *id, keys: Vec::new() });
            }
        }
        if visible.is_empty() {
            return Ok(visible);
        }
        for expr in exprs_mut(plan) {
            self.rewrite_expr(expr, &visible, context)?;
        }
        match plan {
            Logical::Map { exprs, .. } => {
                for (id, expr) in exprs {
                    if let Some(path) = path_of(expr, &visible) {
                        visible.insert(*id, path);
                    }
                }
            }
            // These operators give only columns that they name.
            Logical::Distinct { on: false, .. } | Logical::Group(_) | Logical::SetOperation(_) => visible.clear(),
            Logical::Recursive { .. } | Logical::Fill(_) | Logical::OrderedJoin(_) => visible.clear(),
            _ => {}
        }
        Ok(visible)
    }

    fn rewrite_expr(
        &mut self,
        expr: &mut ScalarExpr,
        visible: &VisibleDocuments,
        context: &mut RewriteContext<'_>,
    ) -> Result<()> {
        if let Some(new) = self.replacement(expr, visible, context)? {
            *expr = new;
            return Ok(());
        }
        expr.operands_mut().into_iter().try_for_each(|operand| self.rewrite_expr(operand, visible, context))
    }

    /// The expression over a part that replaces `expr`.
    fn replacement(
        &mut self,
        expr: &ScalarExpr,
        visible: &VisibleDocuments,
        context: &mut RewriteContext<'_>,
    ) -> Result<Option<ScalarExpr>> {
        if let ExprOp::Cast { value, or_null } = &expr.op {
            let path = text_path_of(value, visible).map(|path| (path, true));
            let Some((path, is_text)) = path.or_else(|| Some((path_of(value, visible)?, false))) else {
                return Ok(None);
            };
            let Some(read) = self.part(&path, context)? else { return Ok(None) };
            // A document that is no text may be cast in other ways than its text.
            let has_answer = is_text || read.rest.is_none();
            return Ok(if has_answer { read.cast(&expr.kind, *or_null) } else { None });
        }
        let Some(path) = text_path_of(expr, visible) else { return Ok(None) };
        Ok(self.part(&path, context)?.and_then(ReadPart::text))
    }

    /// The columns for a path. `None` if blocks do not store it.
    fn part(&mut self, path: &DocumentPath, context: &mut RewriteContext<'_>) -> Result<Option<ReadPart>> {
        let (table, column) = self.scans[&path.document];
        let Some(FoundPart { kind, has_rest }) = self.wanted(table, column, &path.keys, context)? else {
            return Ok(None);
        };
        let values = self.column(path, PartForm::Values(kind), context);
        let rest = has_rest.then(|| self.column(path, PartForm::Rest(kind), context));
        Ok(Some(ReadPart { kind, values, rest }))
    }

    /// The column of the scan for one form of a part.
    fn column(&mut self, path: &DocumentPath, form: PartForm, context: &mut RewriteContext<'_>) -> ScalarExpr {
        let (table, column) = self.scans[&path.document];
        let parts = self.tables.get_mut(&table).expect("a wanted part belongs to its table");
        let id = parts.table.columns[column].id;
        let is_it = |part: &Arc<ColumnPart>| part.keys == path.keys && part.form == form;
        let is_it = |def: &ColumnDef| def.id == id && def.part.as_ref().is_some_and(is_it);
        let at = match parts.table.columns.iter().position(is_it) {
            Some(at) => at,
            None => {
                let mut definition = TableDef::clone(&parts.table);
                definition.columns.push(part_column(&parts.table.columns[column], &path.keys, form));
                parts.table = Arc::new(definition);
                parts.table.columns.len() - 1
            }
        };
        let known = self.added.iter().find(|added| added.document == path.document && added.at == at);
        let id = match known {
            Some(added) => added.id,
            None => {
                let id = context.columns.add(&parts.table.columns[at].name, form.sql().arrow());
                self.added.push(AddedColumn { document: path.document, at, id });
                id
            }
        };
        context.expr(id)
    }

    /// What blocks store at a path. Notes that the statement asked for it.
    fn wanted(
        &mut self,
        table: usize,
        column: usize,
        keys: &[String],
        context: &RewriteContext<'_>,
    ) -> Result<Option<FoundPart>> {
        let rows = &context.tables[table];
        let parts = self.tables.entry(table).or_insert_with(|| PlannedParts {
            table: Arc::clone(rows.table()),
            // A plan that is optimized again keeps its parts.
            wanted: rows.planned_parts().map_or_else(Vec::new, |parts| parts.wanted.clone()),
        });
        if let Some(known) = parts.wanted.iter().find(|wanted| wanted.column == column && wanted.keys == keys) {
            return Ok(known.found);
        }
        let found = stored_part(&**rows, column, keys)?;
        parts.wanted.push(WantedPart { column, keys: keys.to_vec(), found });
        Ok(found)
    }

    /// Gives the scans of a plan their new columns.
    fn add_columns(&self, plan: &mut Logical) {
        if let Logical::Scan(scan) = plan {
            let own = |added: &&AddedColumn| scan.columns.iter().any(|(id, _)| *id == added.document);
            let new: Vec<(ColumnId, usize)> = self.added.iter().filter(own).map(|new| (new.id, new.at)).collect();
            scan.columns.extend(new);
        }
        inputs_mut(plan).into_iter().for_each(|input| self.add_columns(input));
    }
}

/// The definition of a part of `document`.
fn part_column(document: &ColumnDef, keys: &[String], form: PartForm) -> ColumnDef {
    let path: String = keys.iter().map(|key| format!(".{key}")).collect();
    let other = if matches!(form, PartForm::Rest(_)) { " (of other types)" } else { "" };
    ColumnDef {
        id: document.id,
        name: format!("{}->>'${path}'{other}", document.name),
        kind: form.sql(),
        nullable: true,
        default: None,
        missing: None,
        part: Some(Arc::new(ColumnPart { keys: keys.to_vec(), form, reader: Arc::new(PathReader::new(keys, form)) })),
    }
}

/// The path whose value `expr` gives as JSON.
fn path_of(expr: &ScalarExpr, visible: &VisibleDocuments) -> Option<DocumentPath> {
    match &expr.op {
        ExprOp::Column(id) => visible.get(&ColumnId(*id)).cloned(),
        ExprOp::Call(function, arguments) if function.name == "json_extract" && is_json(&expr.kind) => {
            below(arguments, visible)
        }
        _ => None,
    }
}

/// The path whose value `expr` gives as a text.
fn text_path_of(expr: &ScalarExpr, visible: &VisibleDocuments) -> Option<DocumentPath> {
    match &expr.op {
        ExprOp::Call(function, arguments)
            if function.name == "json_extract_string" && expr.kind == DataType::Utf8View =>
        {
            below(arguments, visible)
        }
        _ => None,
    }
}

/// The path of a document and a constant path.
fn below(arguments: &[ScalarExpr], visible: &VisibleDocuments) -> Option<DocumentPath> {
    let [document, path] = arguments else { return None };
    let DocumentPath { document, mut keys } = path_of(document, visible)?;
    keys.extend(keys_of(path.as_constant()?)?);
    Some(DocumentPath { document, keys })
}

/// The keys of a path that has nothing else.
fn keys_of(path: &Constant) -> Option<Vec<String>> {
    let steps = JsonPath::read(path.as_text()?).ok()?.steps;
    let keys = steps.into_iter().map(|step| match step {
        PathStep::Key(key) => Some(key),
        // A number may also be a position in an array.
        PathStep::KeyOrIndex(word) if word.parse::<i64>().is_err() => Some(word),
        _ => None,
    });
    keys.collect()
}
