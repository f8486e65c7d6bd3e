//! Stores the lines of one request in one transaction.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use rowmill::{Connection, ErrorKind, Result, TransactionState};

use super::applied::{APPLIED_TABLE, note_applied};
use super::point::LinePoint;
use super::precision::LinePrecision;
use super::reader::LineReader;
use super::rejected::{REJECTED_MAX, REJECTED_TABLE, RejectedLine, keep_rejected};
use super::table::{LineTable, check_name};

/// How often a request runs again after a conflict with another transaction, for example if both made the same table.
const ATTEMPTS_MAX: usize = 20;
/// The most values, with NULLs, that wait until they go to the transaction. It bounds the memory of requests whose
/// lines each have other columns.
const CELLS_MAX: usize = 1 << 22;
/// The most tables that the lines of one request may name.
const TABLES_MAX: usize = 1_000;
/// The most columns that one request may make, over all tables. It bounds the memory of short lines that each name
/// other columns of other tables.
const NEW_COLUMNS_MAX: usize = 20_000;

/// The lines of a request, and how the client wants them stored.
pub(crate) struct LineRequest<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) precision: LinePrecision,
    /// Whether the good lines are stored if others are rejected.
    pub(crate) accepts_partial: bool,
    /// Whether reading ends at the first line that is rejected.
    pub(crate) stops_at_error: bool,
    /// The key by which the request is applied once.
    pub(crate) key: Option<&'a str>,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) enum LineOutcome<'a> {
    /// All lines are stored.
    Stored,
    /// A request with the same key was applied before. Nothing was stored.
    Repeated,
    /// These lines were rejected. The others are stored.
    Partial(Vec<RejectedLine<'a>>),
    /// These lines are wrong, so nothing was stored. There may be more of them if their number is `REJECTED_MAX`.
    Refused(Vec<RejectedLine<'a>>),
}

/// Stores the lines of a request. They are committed when the function returns.
pub(crate) fn ingest<'a>(connection: &mut Connection, request: &LineRequest<'a>) -> Result<LineOutcome<'a>> {
    let mut attempt = 1;
    loop {
        match run_once(connection, request) {
            // A conflict means that another transaction has committed, so the requests together get on.
            Err(error) if attempt < ATTEMPTS_MAX && error.kind() == ErrorKind::SerializationFailure => attempt += 1,
            outcome => return outcome,
        }
    }
}

fn run_once<'a>(connection: &mut Connection, request: &LineRequest<'a>) -> Result<LineOutcome<'a>> {
    connection.begin(false)?;
    let stored = store(connection, request);
    match stored {
        Ok(outcome @ (LineOutcome::Stored | LineOutcome::Partial(_))) => {
            connection.commit()?;
            Ok(outcome)
        }
        outcome => {
            if connection.transaction_state() != TransactionState::Idle {
                connection.rollback()?;
            }
            outcome
        }
    }
}

/// Stores the lines in the open transaction.
fn store<'a>(connection: &mut Connection, request: &LineRequest<'a>) -> Result<LineOutcome<'a>> {
    if let Some(key) = request.key
        && !note_applied(connection, key)?
    {
        return Ok(LineOutcome::Repeated);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let now = i128::try_from(now).unwrap_or_default();
    let mut tables = LineTables::default();
    let mut rejected = Vec::new();
    let mut reader = LineReader::new(request.body);
    let mut point = LinePoint::default();
    while let Some(line) = reader.next_into(&mut point) {
        let added = match line.outcome {
            Ok(()) => {
                let time = point.time.map_or(now, |time| request.precision.nanoseconds(time));
                tables.add(connection, &point, line.number, time)?
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(reason) = added {
            rejected.push(RejectedLine { number: line.number, text: line.text, reason });
            if request.stops_at_error {
                break;
            }
            if rejected.len() == REJECTED_MAX {
                return Ok(LineOutcome::Refused(rejected));
            }
        }
    }
    if rejected.is_empty() {
        tables.flush(connection)?;
        return Ok(LineOutcome::Stored);
    }
    if !request.accepts_partial {
        return Ok(LineOutcome::Refused(rejected));
    }
    tables.flush(connection)?;
    keep_rejected(connection, &rejected, i64::try_from(now / 1_000).unwrap_or(i64::MAX))?;
    Ok(LineOutcome::Partial(rejected))
}

/// The tables of a request.
#[derive(Default)]
struct LineTables {
    tables: Vec<LineTable>,
    /// The tables by their names in lower case, because SQL's names ignore case.
    by_name: HashMap<String, usize>,
    /// The table of the last line, with the name that the line had for it.
    last: Option<(String, usize)>,
    /// Whether the last line that was read is stored in the table of `last`.
    has_stored_last: bool,
    /// The number of values that wait in all tables.
    cells: usize,
    /// The number of columns that the lines have made.
    new_columns: usize,
}

impl LineTables {
    /// Adds a point to its table. Returns the reason if its line is rejected.
    fn add(
        &mut self,
        connection: &mut Connection,
        point: &LinePoint<'_>,
        line: u64,
        nanoseconds: i128,
    ) -> Result<std::result::Result<(), String>> {
        let is_alike = std::mem::take(&mut self.has_stored_last) && point.repeats_names;
        let index = match &self.last {
            Some((_, index)) if is_alike => *index,
            Some((name, index)) if *name == point.measurement.text() => *index,
            _ => match self.find(connection, &point.measurement.text())? {
                Ok(index) => index,
                Err(reason) => return Ok(Err(reason)),
            },
        };
        let table = &mut self.tables[index];
        let before = table.cells();
        let added = match is_alike {
            true => table.add_alike(point, nanoseconds),
            false => {
                let added = table.add(point, line, nanoseconds, NEW_COLUMNS_MAX - self.new_columns);
                added.map(|made| self.new_columns += made)
            }
        };
        self.has_stored_last = added.is_ok();
        self.cells += table.cells().saturating_sub(before);
        if self.cells > CELLS_MAX {
            self.flush(connection)?;
        }
        Ok(added)
    }

    fn find(&mut self, connection: &mut Connection, name: &str) -> Result<std::result::Result<usize, String>> {
        let key = name.to_lowercase();
        let index = match self.by_name.get(&key) {
            Some(index) => *index,
            None => {
                if let Err(reason) = check_name(name) {
                    return Ok(Err(reason));
                }
                if [REJECTED_TABLE, APPLIED_TABLE].contains(&key.as_str()) {
                    return Ok(Err(format!("table \"{name}\" belongs to the server")));
                }
                if self.tables.len() == TABLES_MAX {
                    return Ok(Err(format!("the lines of one request name more than {TABLES_MAX} tables")));
                }
                self.tables.push(LineTable::open(connection, name)?);
                self.by_name.insert(key, self.tables.len() - 1);
                self.tables.len() - 1
            }
        };
        self.last = Some((name.to_owned(), index));
        Ok(Ok(index))
    }

    /// Hands all rows that wait to the open transaction.
    fn flush(&mut self, connection: &mut Connection) -> Result<()> {
        self.cells = 0;
        self.tables.iter_mut().try_for_each(|table| table.flush(connection))
    }
}
