//! Files with different columns as rows of a query: `union_by_name`, `filename` and `hive_partitioning`.
//!
//! Every file is a set of its own. Its columns go to the columns of the union by their names:
//!
//! ```text
//! year=2025/a.csv (id, name)       year, a column of the path ─┐
//! year=2026/b.csv (id, city)  ─►   id, name, city ─────────────┴─► rows of the union
//! ```
//!
//! A file without a column gives NULL there. If files have different types for a column, the union has their common
//! type, and TEXT if they have none.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill_base::{Cancel, Error, ErrorKind, Result};
use rowmill_exec::batch::{BatchSource, Batches};
use rowmill_exec::share::share;
use rowmill_expr::kernels::cast::cast;
use rowmill_expr::typing::common_kind;
use rowmill_plan::Predicate;
use rowmill_query::catalog::RowSource;

use crate::location::locations_of;
use crate::mapping::{batch_of, listed};
use crate::rows::RowsRequest;
use crate::union_predicates::{UnionPlace, predicates_for};
use crate::{FileSet, ReadOptions};

/// How files become one table.
#[derive(Clone, Debug, Default)]
pub struct UnionOptions {
    /// Whether files may lack columns that others have.
    pub by_name: bool,
    /// The name of the column with the path of each row's file.
    pub filename: Option<String>,
    /// Whether parts of the path such as `year=2026` are columns.
    pub hive_partitioning: bool,
}

impl UnionOptions {
    /// Whether the files must be read one by one.
    pub fn is_needed(&self) -> bool {
        self.by_name || self.filename.is_some() || self.hive_partitioning
    }
}

/// Files as rows of a query.
#[derive(Debug)]
pub struct FileUnion {
    parts: Vec<UnionPart>,
    schema: SchemaRef,
    name: String,
}

#[derive(Debug)]
struct UnionPart {
    files: FileSet,
    /// For each column of the union, where its values come from.
    columns: Vec<PartColumn>,
}

#[derive(Clone, Debug)]
enum PartColumn {
    /// A column of the file, by its number.
    Read(usize),
    /// A value that the path tells, as an array of one row.
    Value(ArrayRef),
    /// The file does not have the column.
    Missing,
}

/// A column of the union while it is put together.
struct UnionColumn {
    name: String,
    kinds: Vec<DataType>,
    parts: Vec<PartColumn>,
}

impl FileUnion {
    /// Opens the files of paths or patterns. Also returns the notices about their columns.
    pub fn open(
        patterns: &[String],
        options: &ReadOptions,
        union: &UnionOptions,
    ) -> Result<(Arc<FileUnion>, Vec<String>)> {
        let locations = locations_of(patterns, options)?;
        let mut sets = Vec::with_capacity(locations.len());
        for location in &locations {
            sets.push(FileSet::of_locations(std::slice::from_ref(location), options)?);
        }
        if !union.by_name {
            same_columns(&sets)?;
        }
        let mut columns = file_columns(&sets)?;
        if union.hive_partitioning {
            let parts = locations.iter().map(|location| partitions(location.path())).collect::<Vec<_>>();
            add_path_columns(&mut columns, &parts)?;
        }
        if let Some(name) = &union.filename {
            let names = locations.iter().map(|location| Some(location.name())).collect();
            add_values(&mut columns, name, names)?;
        }
        let mut notices = sets.iter().flat_map(|set| set.notices().iter().cloned()).collect::<Vec<_>>();
        notices.dedup();
        let name = match sets.as_slice() {
            [set] => set.describe(),
            sets => format!("{} and {} more", sets[0].describe(), sets.len() - 1),
        };
        Ok((Arc::new(FileUnion::of_columns(sets, columns, name)), notices))
    }

    fn of_columns(sets: Vec<FileSet>, columns: Vec<UnionColumn>, name: String) -> FileUnion {
        let fields: Vec<Field> = columns
            .iter()
            .map(|column| Field::new(&column.name, common_kind(&column.kinds).unwrap_or(DataType::Utf8View), true))
            .collect();
        let parts = sets.into_iter().enumerate().map(|(number, files)| UnionPart {
            files,
            columns: columns.iter().map(|column| column.parts[number].clone()).collect(),
        });
        FileUnion { parts: parts.collect(), schema: Arc::new(Schema::new(fields)), name }
    }
}

impl RowSource for FileUnion {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn row_count(&self) -> Option<u64> {
        self.parts.iter().map(|part| part.files.rows()).sum()
    }

    fn open(
        &self,
        columns: &[usize],
        predicates: &[Predicate],
        batch_rows: usize,
        threads: usize,
        cancel: &Cancel,
    ) -> Result<Arc<dyn BatchSource>> {
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let own = part.files.own_columns()?;
            let place = |column: usize| match &part.columns[column] {
                PartColumn::Read(number) if own[*number].kind.arrow() == *self.schema.field(column).data_type() => {
                    UnionPlace::Column(*number)
                }
                PartColumn::Value(value) => UnionPlace::Value(value),
                PartColumn::Read(_) | PartColumn::Missing => UnionPlace::Unknown,
            };
            let Some(predicates) = predicates_for(predicates, &place) else { continue };
            let mut read = Vec::new();
            let mut places = Vec::with_capacity(columns.len());
            for column in columns {
                places.push(match &part.columns[*column] {
                    PartColumn::Read(number) => {
                        read.push(*number);
                        PartColumn::Read(read.len() - 1)
                    }
                    other => other.clone(),
                });
            }
            let request = RowsRequest { columns: &read, predicates: &predicates, batch_rows, threads, cancel };
            parts.push((part.files.own_rows(&request)?, places));
        }
        let fields: Vec<Field> = columns.iter().map(|column| self.schema.field(*column).clone()).collect();
        Ok(Arc::new(UnionScan { parts, schema: Arc::new(Schema::new(fields)) }))
    }
}

/// The rows of the files, one file after another.
struct UnionScan {
    parts: Vec<(Arc<dyn BatchSource>, Vec<PartColumn>)>,
    schema: SchemaRef,
}

impl UnionScan {
    fn batch(&self, part: usize, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let columns = self.parts[part].1.iter().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| match column {
            PartColumn::Read(place) => cast(batch.column(*place), field.data_type(), false),
            PartColumn::Missing => Ok(new_null_array(field.data_type(), rows)),
            PartColumn::Value(value) => {
                let zeros = UInt32Array::from(vec![0; rows]);
                let values = take(value, &zeros, None).map_err(|error| Error::internal(error.to_string()))?;
                cast(&values, field.data_type(), false)
            }
        });
        batch_of(&self.schema, columns.collect::<Result<_>>()?, rows)
    }
}

impl fmt::Debug for UnionScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnionScan").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl BatchSource for UnionScan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.parts.iter().map(|(source, _)| source.parallelism()).max().unwrap_or(1)
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut part = 0;
        let mut batches: Option<Batches> = None;
        share(move || {
            loop {
                let Some((source, _)) = self.parts.get(part) else { return Ok(None) };
                let open = batches.get_or_insert_with(|| Arc::clone(source).worker());
                match open.next() {
                    Some(batch) => return self.batch(part, &batch?).map(Some),
                    None => {
                        batches = None;
                        part += 1;
                    }
                }
            }
        })
    }
}

/// Checks that all files have columns of the same names.
fn same_columns(sets: &[FileSet]) -> Result<()> {
    let names = |set: &FileSet| {
        let mut names: Vec<String> = set.columns().iter().map(|column| column.name.to_lowercase()).collect();
        names.sort();
        names
    };
    let Some((first, others)) = sets.split_first() else { return Ok(()) };
    match others.iter().find(|set| names(set) != names(first)) {
        None => Ok(()),
        Some(other) => {
            let shown = |set: &FileSet| listed(set.columns().iter().map(|column| column.name.as_str()));
            let message = format!(
                "the files do not agree: {} has the columns {}, and {} has {}",
                first.describe(),
                shown(first),
                other.describe(),
                shown(other)
            );
            Err(Error::new(ErrorKind::DatatypeMismatch, message).hint("the option union_by_name = true reads both"))
        }
    }
}

/// The columns of all files in the order of their first occurrence.
fn file_columns(sets: &[FileSet]) -> Result<Vec<UnionColumn>> {
    let mut columns: Vec<UnionColumn> = Vec::new();
    for (number, set) in sets.iter().enumerate() {
        for (place, target) in set.own_columns()?.into_iter().enumerate() {
            let lower = target.name.to_lowercase();
            let known = columns.iter().position(|column| column.name.to_lowercase() == lower);
            let known = known.unwrap_or_else(|| {
                let parts = vec![PartColumn::Missing; sets.len()];
                columns.push(UnionColumn { name: target.name.clone(), kinds: Vec::new(), parts });
                columns.len() - 1
            });
            columns[known].kinds.push(target.kind.arrow());
            columns[known].parts[number] = PartColumn::Read(place);
        }
    }
    Ok(columns)
}

/// The parts `key=value` of a path's folders.
fn partitions(path: &Path) -> Vec<(String, String)> {
    let folders = path.parent().map(|folder| folder.components().collect::<Vec<_>>()).unwrap_or_default();
    let parts = folders.iter().filter_map(|part| part.as_os_str().to_str()?.split_once('='));
    parts.filter(|(key, _)| !key.is_empty()).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn add_path_columns(columns: &mut Vec<UnionColumn>, partitions: &[Vec<(String, String)>]) -> Result<()> {
    let keys: Vec<String> = partitions.first().into_iter().flatten().map(|(key, _)| key.clone()).collect();
    let differs = |file: &&Vec<(String, String)>| !file.iter().map(|(key, _)| key).eq(&keys);
    if partitions.iter().any(|file| differs(&file)) {
        let message = "the paths of the files have different parts of the form key=value";
        return Err(Error::new(ErrorKind::InvalidParameter, message).hint("leave out hive_partitioning"));
    }
    for (place, key) in keys.iter().enumerate() {
        // Hive writes this name for NULL.
        let value = |text: &str| (text != "__HIVE_DEFAULT_PARTITION__").then(|| text.to_owned());
        let values = partitions.iter().map(|file| value(&file[place].1)).collect();
        // The value of the path replaces a column of the file, as the file may repeat it.
        columns.retain(|column| column.name.to_lowercase() != key.to_lowercase());
        add_values(columns, key, values)?;
    }
    Ok(())
}

/// Adds a column with one value for each file: BIGINT or DATE if all values are, else TEXT.
fn add_values(columns: &mut Vec<UnionColumn>, name: &str, values: Vec<Option<String>>) -> Result<()> {
    if columns.iter().any(|column| column.name.to_lowercase() == name.to_lowercase()) {
        let message = format!("the files have a column {name}, so no column for their names can be called so");
        return Err(Error::new(ErrorKind::DuplicateColumn, message).hint("give it another name: filename = 'file'"));
    }
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter(values.iter().map(Option::as_deref)));
    let has_value = values.iter().any(Option::is_some);
    let kinds = [DataType::Int64, DataType::Date32].into_iter().filter(|_| has_value);
    let typed = kinds.filter_map(|kind| cast(&texts, &kind, false).ok()).find(|typed| {
        // A number such as 01 must keep its zero.
        cast(typed, &DataType::Utf8View, false).is_ok_and(|again| again.to_data() == texts.to_data())
    });
    let array = typed.unwrap_or(texts);
    let parts = (0..values.len()).map(|row| PartColumn::Value(array.slice(row, 1))).collect();
    columns.push(UnionColumn { name: name.to_owned(), kinds: vec![array.data_type().clone()], parts });
    Ok(())
}
