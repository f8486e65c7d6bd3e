//! The files that a statement names, read like one file with columns.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result, SqlType};

use crate::csv_dialect::CsvShape;
use crate::csv_reader::CsvPlan;
use crate::ipc_file::{IpcFile, IpcJobs};
use crate::jobs::{Batches, Jobs, ReadProgress};
use crate::json_reader::{JsonPlan, JsonShape, columns_of_keys};
use crate::location::{FileLocation, locations_of};
use crate::mapping::{TargetColumn, by_name, by_position, check_convertible, unique_names};
use crate::options::{Compression, FileFormat, ReadOptions, SampleSize};
use crate::parquet_blocks::{ParquetBlocks, ParquetJobs};
use crate::parquet_file::ParquetFile;
use crate::pattern::unreadable;
use crate::report::{RejectSink, Reporter};
use crate::source_file::SourceFile;
use crate::text_source::{Boundary, ChunkJobs, ChunkQueue};
use crate::type_guess::Guess;

mod declared;
mod rows;

/// One file, or several files with the same columns.
#[derive(Debug)]
pub struct FileSet {
    files: Vec<Arc<SourceFile>>,
    contents: LearnedFacts,
    columns: Vec<FileColumn>,
    options: ReadOptions,
    notices: Vec<String>,
}

/// A column of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileColumn {
    /// The name as the files spell it. Unique even if case is ignored.
    pub name: String,
    /// A type that keeps every value: stated by the file, or guessed from the first rows of CSV and JSON. `None` for
    /// types of Parquet and Arrow that SQL does not have.
    pub kind: Option<SqlType>,
    /// Whether the files may have NULLs in it.
    pub nullable: bool,
}

/// The facts learned from the files, by format.
#[derive(Debug)]
enum LearnedFacts {
    Parquet(Vec<Arc<ParquetFile>>),
    Arrow(Vec<Arc<IpcFile>>),
    Csv(CsvShape),
    /// The keys as the files spell them, and the kind of record boundary of each file.
    Json {
        keys: Vec<String>,
        boundaries: Vec<Boundary>,
        sampled: usize,
    },
}

impl FileSet {
    /// Finds the files of a path or pattern and learns their columns.
    pub fn open(pattern: &str, options: &ReadOptions) -> Result<FileSet> {
        FileSet::open_all(&[pattern.to_owned()], options)
    }

    /// Finds the files of several paths or patterns and learns their columns.
    pub fn open_all(patterns: &[String], options: &ReadOptions) -> Result<FileSet> {
        FileSet::of_locations(&locations_of(patterns, options)?, options)
    }

    /// Learns the columns of files that were found.
    pub(crate) fn of_locations(locations: &[FileLocation], options: &ReadOptions) -> Result<FileSet> {
        let mut files = Vec::with_capacity(locations.len());
        let mut format = None;
        // Every file is opened and examined before the statement reads a row, so that a mistake fails early.
        for location in locations {
            let (named, compression) = FileFormat::of_path(location.path());
            let mut file = SourceFile::new(location, options.compression.unwrap_or(compression), &options.cancel)?;
            file.skipped_lines = options.skipped_lines;
            // An option overrides the name, and the name overrides the content.
            let found = options.format.or(named).map_or_else(|| format_of_content(&file), Ok)?;
            if format.is_some_and(|format| format != found) {
                return Err(mixed_formats(&files, &file));
            }
            check_compression(&file, found)?;
            format = Some(found);
            files.push(Arc::new(file));
        }
        let format = format.ok_or_else(|| Error::internal("a pattern has at least one file"))?;
        check_options(format, options)?;
        let set = match format {
            FileFormat::Parquet => FileSet::open_parquet(files, options),
            FileFormat::Arrow => FileSet::open_arrow(files, options),
            FileFormat::Csv => FileSet::open_csv(files, options),
            FileFormat::Json => FileSet::open_json(files, options),
        };
        set?.declared()
    }

    /// The format of the files.
    pub fn format(&self) -> FileFormat {
        match self.contents {
            LearnedFacts::Parquet(_) => FileFormat::Parquet,
            LearnedFacts::Arrow(_) => FileFormat::Arrow,
            LearnedFacts::Csv(_) => FileFormat::Csv,
            LearnedFacts::Json { .. } => FileFormat::Json,
        }
    }

    /// The columns, as the files spell them.
    pub fn columns(&self) -> &[FileColumn] {
        &self.columns
    }

    /// Notices for the user, for example about columns that were renamed.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Describes the files briefly: the name of the only one, or the first name and the number of the others.
    pub(crate) fn describe(&self) -> String {
        match self.files.as_slice() {
            [file] => format!("'{}'", file.name),
            files => format!("'{}' and {} more", files[0].name, files.len() - 1),
        }
    }

    /// The total size of the files on disk in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The number of rows, if the format tells it without reading them.
    pub fn rows(&self) -> Option<u64> {
        match &self.contents {
            LearnedFacts::Parquet(files) => Some(files.iter().map(|file| file.rows).sum()),
            _ => None,
        }
    }

    /// The files' own columns as a target. Returns an error for a column whose type SQL does not have.
    pub fn own_columns(&self) -> Result<Vec<TargetColumn>> {
        self.columns.iter().enumerate().map(|(i, column)| self.own_column(i, column)).collect()
    }

    fn own_column(&self, index: usize, column: &FileColumn) -> Result<TargetColumn> {
        let kind = column.kind.clone().ok_or_else(|| {
            let arrow = match &self.contents {
                LearnedFacts::Parquet(files) => files[0].columns[index].arrow.to_string(),
                LearnedFacts::Arrow(files) => files[0].data_type(index).to_string(),
                _ => String::new(),
            };
            Error::new(
                ErrorKind::Unsupported,
                format!("column {} of {} has the type {arrow}, which cannot be read", column.name, self.files[0].name),
            )
            .hint("leave the column out: create the table without it and COPY WITH (ignore_unknown true)")
        })?;
        Ok(TargetColumn { name: column.name.clone(), kind, nullable: column.nullable, missing: None })
    }

    /// Reads the files into given columns, in order. Decoding runs on `threads` threads in addition to the caller's, or
    /// on the caller's own thread if that is 0. With `on_error 'skip'`, lines that cannot be read go to `rejects`.
    pub fn batches(&self, target: &[TargetColumn], threads: usize, rejects: Option<RejectSink>) -> Result<Batches> {
        let progress = ReadProgress::default();
        let jobs = self.jobs(target, rejects, &progress)?;
        // The columns of Parquet are streams. Several jobs would move them back and forth, so one thread is enough.
        let threads = if self.format() == FileFormat::Parquet { threads.min(1) } else { threads };
        Ok(Batches::new(jobs, progress, threads))
    }

    /// Reads Parquet files into given columns, block by block. `None` if the files have another format.
    pub fn parquet_blocks(&self, target: &[TargetColumn]) -> Result<Option<ParquetBlocks>> {
        let LearnedFacts::Parquet(files) = &self.contents else { return Ok(None) };
        self.open_blocks(files, target, self.options.ignore_unknown, ReadProgress::default()).map(Some)
    }

    /// The jobs that [`FileSet::batches`] runs.
    fn jobs(
        &self,
        target: &[TargetColumn],
        rejects: Option<RejectSink>,
        progress: &ReadProgress,
    ) -> Result<Arc<dyn Jobs>> {
        let ignore_unknown = self.options.ignore_unknown;
        let reporter = Reporter { on_error: self.options.on_error, rejects };
        Ok(match &self.contents {
            LearnedFacts::Parquet(files) => {
                Arc::new(ParquetJobs::new(self.open_blocks(files, target, ignore_unknown, progress.clone())?))
            }
            LearnedFacts::Arrow(files) => {
                let columns = self
                    .columns_of_files(target, ignore_unknown, |file, column| files[file].data_type(column).clone())?;
                Arc::new(IpcJobs::new(files.clone(), target, columns, progress.clone()))
            }
            LearnedFacts::Csv(shape) => {
                let (header, fields) = self.csv_columns(shape, target)?;
                self.csv_jobs(shape, header, fields, target, reporter, None, progress)
            }
            LearnedFacts::Json { keys, boundaries, .. } => {
                let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
                let columns = columns_of_keys(&self.files[0].name, keys, &names, target, &self.options)?;
                let plan = JsonPlan::new(target, columns, ignore_unknown, reporter, None)?;
                Arc::new(ChunkJobs::new(plan, self.chunks(boundaries, progress)))
            }
        })
    }

    fn guess_hint(&self, sampled: usize) -> String {
        format!(
            "the columns and their types were guessed from the first {sampled} rows; name them yourself: CREATE TABLE \
             t (...), then COPY t FROM '{}'",
            self.files[0].name
        )
    }

    fn open_blocks(
        &self,
        files: &[Arc<ParquetFile>],
        target: &[TargetColumn],
        ignore_unknown: bool,
        progress: ReadProgress,
    ) -> Result<ParquetBlocks> {
        let columns =
            self.columns_of_files(target, ignore_unknown, |file, column| files[file].columns[column].arrow.clone())?;
        Ok(ParquetBlocks::new(files.to_vec(), target, columns, progress))
    }

    /// For each target column, its column in each file of Parquet or Arrow. Checks that the types can be converted.
    fn columns_of_files(
        &self,
        target: &[TargetColumn],
        ignore_unknown: bool,
        data_type: impl Fn(usize, usize) -> arrow::datatypes::DataType,
    ) -> Result<Vec<Vec<Option<usize>>>> {
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        // Columns are matched once for the set, then translated to each file.
        let in_set = by_name(&self.files[0].name, &names, target, ignore_unknown)?;
        let mut columns = vec![Vec::with_capacity(self.files.len()); target.len()];
        for (number, file) in self.files.iter().enumerate() {
            let order = self.order_in_file(number);
            for ((target, in_set), columns) in target.iter().zip(&in_set).zip(&mut columns) {
                let column = in_set.map(|column| order[column]);
                if let Some(column) = column {
                    check_convertible(&file.name, &target.name, &data_type(number, column), target)?;
                }
                columns.push(column);
            }
        }
        Ok(columns)
    }

    /// For each column of the set, its number in one file. The columns of a file may be in another order.
    fn order_in_file(&self, number: usize) -> Vec<usize> {
        let names = |file: usize| match &self.contents {
            LearnedFacts::Parquet(files) => names_of(files[file].columns.iter().map(|column| &column.name)),
            LearnedFacts::Arrow(files) => names_of(files[file].schema.fields().iter().map(|field| field.name())),
            _ => Vec::new(),
        };
        if number == 0 {
            return (0..self.columns.len()).collect();
        }
        let (first, own) = (names(0), names(number));
        (0..first.len()).map(|i| same_column(&first, i, &own).expect("the files were checked to agree")).collect()
    }

    /// Decides whether CSV files have a header when they are read into `target`, and which field each target column
    /// takes.
    fn csv_columns(&self, shape: &CsvShape, target: &[TargetColumn]) -> Result<(bool, Vec<Option<usize>>)> {
        let file = &self.files[0].name;
        let known =
            |name: &String| target.iter().any(|column| column.name.to_lowercase() == name.trim().to_lowercase());
        let header = if shape.header_given {
            shape.header
        } else if shape.first.iter().all(known) {
            true
        } else {
            // A first line that names no target column is a header only if the types of the lines below tell so.
            let typed = shape.guesses.iter().any(|guess| !matches!(guess, Guess::Nothing | Guess::Text));
            shape.header && (typed || shape.first.iter().any(known))
        };
        let fields = if header {
            let names = shape.first.iter().map(|name| name.trim().to_owned()).collect();
            by_name(file, &unique_names(names).0, target, self.options.ignore_unknown)?
        } else {
            by_position(file, shape.first.len(), target)?
        };
        Ok((header, fields))
    }

    #[allow(clippy::too_many_arguments)]
    fn csv_jobs(
        &self,
        shape: &CsvShape,
        header: bool,
        fields: Vec<Option<usize>>,
        target: &[TargetColumn],
        reporter: Reporter,
        guess_hint: Option<String>,
        progress: &ReadProgress,
    ) -> Arc<dyn Jobs> {
        let plan = CsvPlan {
            dialect: shape.dialect.clone(),
            header,
            width: shape.first.len(),
            target: target.to_vec(),
            fields,
            reporter,
            guess_hint,
        };
        let boundaries = vec![shape.boundary(); self.files.len()];
        Arc::new(ChunkJobs::new(plan, self.chunks(&boundaries, progress)))
    }

    fn chunks(&self, boundaries: &[Boundary], progress: &ReadProgress) -> ChunkQueue {
        let files = self.files.iter().cloned().zip(boundaries.iter().copied()).collect();
        ChunkQueue::new(files, progress.clone())
    }

    fn open_parquet(files: Vec<Arc<SourceFile>>, options: &ReadOptions) -> Result<FileSet> {
        let opened: Vec<Arc<ParquetFile>> =
            files.iter().map(|file| ParquetFile::open(file).map(Arc::new)).collect::<Result<_>>()?;
        let columns = opened.iter().map(|file| {
            let columns = file.columns.iter();
            columns.map(|column| FileColumn {
                name: column.name.clone(),
                kind: column.kind.clone(),
                nullable: column.nullable,
            })
        });
        let columns = agreed(&files, columns.map(Iterator::collect).collect())?;
        Ok(FileSet::new(files, LearnedFacts::Parquet(opened), columns, options))
    }

    fn open_arrow(files: Vec<Arc<SourceFile>>, options: &ReadOptions) -> Result<FileSet> {
        let opened: Vec<Arc<IpcFile>> =
            files.iter().map(|file| IpcFile::open(file).map(Arc::new)).collect::<Result<_>>()?;
        let columns = opened.iter().map(|file| {
            let fields = file.schema.fields().iter().zip(file.kinds());
            fields.map(|(field, kind)| FileColumn { name: field.name().clone(), kind, nullable: field.is_nullable() })
        });
        let columns = agreed(&files, columns.map(Iterator::collect).collect())?;
        Ok(FileSet::new(files, LearnedFacts::Arrow(opened), columns, options))
    }

    fn open_csv(files: Vec<Arc<SourceFile>>, options: &ReadOptions) -> Result<FileSet> {
        let mut shape: Option<CsvShape> = None;
        let mut options_of_file = options.clone();
        let size = SampleSize::of_each(options, files.len());
        for file in &files {
            let learned = CsvShape::learn(file, &options_of_file, size)?;
            let Some(shape) = &mut shape else {
                // The other files most likely look like the first one, so they use its header and delimiter.
                options_of_file.header = Some(learned.header);
                options_of_file.delimiter = Some(learned.dialect.delimiter);
                shape = Some(learned);
                continue;
            };
            if let Some(error) = learned.disagreement(&file.name, shape, &files[0].name) {
                return Err(error);
            }
            shape.sampled += learned.sampled;
            for (guess, more) in shape.guesses.iter_mut().zip(learned.guesses) {
                *guess = std::mem::take(guess).widen(more);
            }
        }
        let shape = shape.ok_or_else(|| Error::internal("a set has at least one file"))?;
        let columns = shape.names().into_iter().zip(&shape.guesses);
        let columns = columns.map(|(name, guess)| FileColumn { name, kind: Some(guess.kind()), nullable: true });
        let columns = columns.collect();
        Ok(FileSet::new(files, LearnedFacts::Csv(shape), columns, options))
    }

    fn open_json(files: Vec<Arc<SourceFile>>, options: &ReadOptions) -> Result<FileSet> {
        let mut merged: Option<JsonShape> = None;
        let mut boundaries = Vec::with_capacity(files.len());
        for file in &files {
            let learned = JsonShape::learn(file, options, SampleSize::of_each(options, files.len()))?;
            boundaries.push(learned.boundary);
            match &mut merged {
                Some(merged) => merged.merge(learned),
                None => merged = Some(learned),
            }
        }
        let shape = merged.ok_or_else(|| Error::internal("a set has at least one file"))?;
        let columns = shape.keys.iter().map(|(key, guess)| FileColumn {
            name: key.clone(),
            kind: Some(guess.kind()),
            nullable: true,
        });
        let columns = columns.collect();
        let sampled = shape.sampled;
        let keys = shape.keys.into_iter().map(|(key, _)| key).collect();
        Ok(FileSet::new(files, LearnedFacts::Json { keys, boundaries, sampled }, columns, options))
    }

    fn new(
        files: Vec<Arc<SourceFile>>,
        contents: LearnedFacts,
        mut columns: Vec<FileColumn>,
        options: &ReadOptions,
    ) -> FileSet {
        let (names, notices) = unique_names(columns.iter().map(|column| column.name.clone()).collect());
        for (column, name) in columns.iter_mut().zip(names) {
            column.name = name;
        }
        FileSet { files, contents, columns, options: options.clone(), notices }
    }
}

/// The column of another file that corresponds to column `i` of the first. If a name occurs several times, the first
/// occurrences correspond, then the second ones, and so on.
fn same_column(first: &[&str], i: usize, other: &[&str]) -> Option<usize> {
    let before = first[..i].iter().filter(|name| **name == first[i]).count();
    (0..other.len()).filter(|place| other[*place] == first[i]).nth(before)
}

fn names_of<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    names.map(String::as_str).collect()
}

/// Detects the format of a file from its first bytes. Used if the name does not tell it.
fn format_of_content(file: &SourceFile) -> Result<FileFormat> {
    let mut start = [0; 6];
    let read = file.open()?.read_at(&mut start, 0).map_err(|error| unreadable(&file.name, &error))?;
    match &start[..read] {
        [b'P', b'A', b'R', b'1', ..] => Ok(FileFormat::Parquet),
        b"ARROW1" => Ok(FileFormat::Arrow),
        _ => Err(Error::new(
            ErrorKind::InvalidParameter,
            format!("the name of '{}' does not tell its format", file.name),
        )
        .hint("name it: COPY ... WITH (format csv); the formats are parquet, csv, json and arrow")),
    }
}

fn mixed_formats(files: &[Arc<SourceFile>], other: &SourceFile) -> Error {
    let first = files.first().map(|file| file.name.as_str()).unwrap_or_default();
    Error::new(
        ErrorKind::DatatypeMismatch,
        format!("the files do not agree: {first} and {} are of different formats", other.name),
    )
    .hint("narrow the pattern down to one format")
}

fn check_compression(file: &SourceFile, format: FileFormat) -> Result<()> {
    if file.compression == Compression::None || matches!(format, FileFormat::Csv | FileFormat::Json) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unsupported, format!("'{}' is compressed as a whole", file.name))
        .hint(format!("unpack it first; a {} file is compressed inside", format.name())))
}

/// Refuses options that the format does not use, because ignoring them silently could hide a mistake.
fn check_options(format: FileFormat, options: &ReadOptions) -> Result<()> {
    let unused = |name: &str| {
        Err(Error::new(ErrorKind::InvalidParameter, format!("the option {name} has no meaning for {}", format.name())))
    };
    let default = ReadOptions::default();
    let text = matches!(format, FileFormat::Csv | FileFormat::Json);
    match () {
        () if !text && options.on_error != default.on_error => unused("on_error"),
        () if !text && options.all_text => unused("all_text"),
        () if !text && options.sample_rows != default.sample_rows => unused("sample_rows"),
        () if !text && !options.types.is_empty() => unused("types"),
        () if format == FileFormat::Csv => Ok(()),
        () if options.skipped_lines > 0 => unused("skip"),
        () if options.header.is_some() => unused("header"),
        () if options.delimiter.is_some() => unused("delimiter"),
        () if options.quote != default.quote => unused("quote"),
        () if options.escape.is_some() => unused("escape"),
        () if options.null_string != default.null_string => unused("null_string"),
        () => Ok(()),
    }
}

/// The columns of files of Parquet or Arrow. All files must have the same columns with the same types.
fn agreed(files: &[Arc<SourceFile>], columns: Vec<Vec<FileColumn>>) -> Result<Vec<FileColumn>> {
    let mut all = columns.into_iter();
    let mut agreed = all.next().unwrap_or_default();
    for (file, columns) in files[1..].iter().zip(all) {
        let disagree = |message: String| {
            Error::new(ErrorKind::DatatypeMismatch, format!("the files do not agree: {message}"))
                .hint("load them one by one, or narrow the pattern down")
        };
        if columns.len() != agreed.len() {
            let (own, first) = (columns.len(), agreed.len());
            return Err(disagree(format!("{} has {own} columns and {} has {first}", file.name, files[0].name)));
        }
        let first = agreed.clone();
        let (names, own) = (names_of(first.iter().map(|c| &c.name)), names_of(columns.iter().map(|c| &c.name)));
        for (i, column) in agreed.iter_mut().enumerate() {
            let Some(place) = same_column(&names, i, &own) else {
                let (name, first) = (&column.name, &files[0].name);
                return Err(disagree(format!("{} has no column {name}, which {first} has", file.name)));
            };
            let other = &columns[place];
            if other.kind != column.kind {
                let shown = |kind: &Option<SqlType>| kind.as_ref().map_or("unknown".to_owned(), SqlType::to_string);
                return Err(disagree(format!(
                    "column {} is of the type {} in {} and of the type {} in {}",
                    column.name,
                    shown(&column.kind),
                    files[0].name,
                    shown(&other.kind),
                    file.name
                )));
            }
            // If any file may have NULL, the set may.
            column.nullable |= other.nullable;
        }
    }
    Ok(agreed)
}
