//! Finds the queries of a measurement.

use std::fs;
use std::path::Path;

use rowmill_base::{Error, ErrorKind, Result};

use crate::run::statements;

/// Reads the queries of a file, one per line, or of `queries.sql` in a folder.
pub fn read(path: &Path) -> Result<Vec<String>> {
    let file = if path.is_dir() { path.join("queries.sql") } else { path.to_owned() };
    let text = fs::read_to_string(&file)
        .map_err(|error| Error::new(ErrorKind::UndefinedFile, format!("{}: {error}", file.display())))?;
    Ok(statements(&text).map(str::to_owned).collect())
}

/// Returns the value that a share of the sorted `values` does not exceed, or 0 if there are none.
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let at = (values.len() as f64 * share).ceil() as usize;
    values.get(at.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!([0.5, 0.95, 1.0].map(|share| percentile(&values, share)), [10.0, 19.0, 20.0]);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }
}
