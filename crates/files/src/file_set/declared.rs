//! The columns and types that a statement states for text files, in place of those that were guessed.

use rowmill_base::{Error, ErrorKind, Result, SqlType};

use super::{FileColumn, FileSet, LearnedFacts};
use crate::mapping::listed;

impl FileSet {
    /// Applies the options `columns` and `types`.
    pub(super) fn declared(mut self) -> Result<FileSet> {
        let (columns, types) = (self.options.columns.clone(), self.options.types.clone());
        if !columns.is_empty() {
            self.declare_columns(columns)?;
        }
        for (name, kind) in types {
            let lower = name.to_lowercase();
            match self.columns.iter_mut().find(|column| column.name.to_lowercase() == lower) {
                Some(column) => column.kind = Some(kind),
                None => {
                    let known = listed(self.columns.iter().map(|column| column.name.as_str()));
                    let message = format!("{} has no column {name}, which the option types names", self.describe());
                    return Err(
                        Error::new(ErrorKind::UndefinedColumn, message).hint(format!("its columns are {known}"))
                    );
                }
            }
        }
        Ok(self)
    }

    fn declare_columns(&mut self, columns: Vec<(String, SqlType)>) -> Result<()> {
        let (file, found) = (self.describe(), self.columns.len());
        match &mut self.contents {
            LearnedFacts::Csv(shape) => {
                if columns.len() != found {
                    let message = format!("the option columns has {}, but {file} has {found}", columns.len());
                    return Err(Error::new(ErrorKind::CardinalityViolation, message)
                        .hint("name every column of the file, or give some of them a type with the option types"));
                }
                let is_named = |(text, (name, _)): (&String, &(String, SqlType))| {
                    text.trim().to_lowercase() == name.to_lowercase()
                };
                // A guess by types fails if all columns are text, but the names tell a header then.
                if !shape.header_given && shape.first.iter().zip(&columns).all(is_named) {
                    shape.header = true;
                }
            }
            LearnedFacts::Json { keys, .. } => {
                // Column `i` is read from key `i`, so the declared keys come first. The others are left out.
                let is_declared =
                    |key: &String| columns.iter().any(|(name, _)| name.to_lowercase() == key.to_lowercase());
                let spelled =
                    |name: &String| keys.iter().find(|key| key.to_lowercase() == name.to_lowercase()).cloned();
                let mut ordered: Vec<String> =
                    columns.iter().map(|(name, _)| spelled(name).unwrap_or_else(|| name.clone())).collect();
                ordered.extend(keys.iter().filter(|key| !is_declared(key)).cloned());
                *keys = ordered;
                self.options.ignore_unknown = true;
            }
            LearnedFacts::Parquet(_) | LearnedFacts::Arrow(_) => {
                let message = format!("the option columns has no meaning for {}", self.format().name());
                return Err(Error::new(ErrorKind::InvalidParameter, message)
                    .hint("the file states its columns and types; CAST changes a type"));
            }
        }
        let column = |(name, kind)| FileColumn { name, kind: Some(kind), nullable: true };
        self.columns = columns.into_iter().map(column).collect();
        Ok(())
    }
}
