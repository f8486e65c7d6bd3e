//! The lines of one table: finds or makes the column of each value, and hands batches to the database.
//!
//! We check a line as a whole before we gather any of its values, so that a refused line leaves nothing: no value and
//! no column.

use std::collections::HashMap;
use std::sync::Arc;

use rowmill::arrow::array::RecordBatch;
use rowmill::arrow::datatypes::{Field, Schema};
use rowmill::{Connection, Error, ErrorKind, Result, SqlType, TimeUnit};

use super::column::LineColumn;
use super::point::{LinePoint, LineText, LineValue};
use crate::sql_words::quoted_name;

/// The most columns that lines may give a table. Clients that put a value into the name of a field by mistake should
/// get an error before the table cannot be used.
const COLUMNS_MAX: usize = 2_000;
/// The most bytes of the name of a new table or column.
const NAME_BYTES_MAX: usize = 255;
/// The name of the time column of a new table, as in QuestDB.
const TIME_COLUMN: &str = "timestamp";

/// A table and the rows that wait for it.
pub(super) struct LineTable {
    name: String,
    /// Whether the table must be made before the first batch.
    is_new: bool,
    columns: Vec<LineColumn>,
    /// The most columns that the table may have after the current line.
    columns_max: usize,
    /// The columns by their names in lower case, because SQL's names ignore case.
    by_name: HashMap<String, usize>,
    /// The column that gets the time of a line.
    time: Option<usize>,
    /// Columns that must not be NULL, without the one of the time.
    required: Vec<usize>,
    /// The columns of the last line, in its order. Most lines have the columns of the line before them, which saves
    /// looking up their names.
    order: Vec<usize>,
    /// The number of rows that wait.
    rows: usize,
}

impl LineTable {
    /// Reads the columns of a table, or begins a table that does not exist yet.
    pub(super) fn open(connection: &mut Connection, name: &str) -> Result<LineTable> {
        let (found, is_new) = match connection.columns(name) {
            Ok(found) => (Some(found), false),
            Err(error) if error.kind() == ErrorKind::UndefinedTable => (None, true),
            Err(error) => return Err(error),
        };
        let time_kind = SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false };
        let mut time = found.as_ref().and_then(|found| found.iter().position(|column| column.is_time));
        let columns: Vec<LineColumn> = match found {
            Some(found) => found.into_iter().map(LineColumn::existing).collect(),
            None => vec![LineColumn::new(TIME_COLUMN.to_owned(), time_kind)],
        };
        let by_name: HashMap<String, usize> =
            columns.iter().enumerate().map(|(index, column)| (column.name.to_lowercase(), index)).collect();
        if time.is_none() {
            time = by_name.get(TIME_COLUMN).copied().filter(|index| columns[*index].is_timestamp());
        }
        let required = (0..columns.len()).filter(|index| columns[*index].is_required() && time != Some(*index));
        let required = required.collect();
        Ok(LineTable {
            name: name.to_owned(),
            is_new,
            columns,
            columns_max: COLUMNS_MAX,
            by_name,
            time,
            required,
            order: Vec::new(),
            rows: 0,
        })
    }

    /// The number of values, with NULLs, that wait.
    pub(super) fn cells(&self) -> usize {
        self.rows * self.columns.len()
    }

    /// Gathers the values of a point. `line` is the number of its line, which must be greater than that of the line
    /// before. The line may make at most `room` columns. Returns the number of columns that it made, or the reason if
    /// the line is refused.
    pub(super) fn add(
        &mut self,
        point: &LinePoint<'_>,
        line: u64,
        nanoseconds: i128,
        room: usize,
    ) -> Result<usize, String> {
        let columns_before = self.columns.len();
        self.columns_max = COLUMNS_MAX.min(columns_before + room);
        let checked = self.check(point, line, nanoseconds);
        let (time_column, time) = match checked {
            Ok(time) => time,
            Err(reason) => {
                // Columns that only a refused line has must not be made.
                for column in self.columns.drain(columns_before..) {
                    self.by_name.remove(&column.name.to_lowercase());
                }
                self.order.retain(|index| *index < columns_before);
                return Err(reason);
            }
        };
        self.push(point, time_column, time);
        Ok(self.columns.len() - columns_before)
    }

    /// Gathers the values of a point that has the names of the point before it, which this table has taken. So each
    /// name has its column, none comes twice and none is missing. Returns the reason if the line is refused.
    pub(super) fn add_alike(&mut self, point: &LinePoint<'_>, nanoseconds: i128) -> Result<(), String> {
        let (time_column, time) = self.time(nanoseconds)?;
        let (of_tags, of_fields) = self.order.split_at(point.tags.len());
        for ((_, value), index) in point.tags.iter().zip(of_tags) {
            self.columns[*index].check_tag(*value)?;
        }
        for ((_, value), index) in point.fields.iter().zip(of_fields) {
            self.columns[*index].check(value)?;
        }
        self.push(point, time_column, time);
        Ok(())
    }

    /// Adds the values of a point that was checked, and whose columns `order` has.
    fn push(&mut self, point: &LinePoint<'_>, time_column: usize, time: i64) {
        let (of_tags, of_fields) = self.order.split_at(point.tags.len());
        for ((_, value), index) in point.tags.iter().zip(of_tags) {
            self.columns[*index].push_tag(self.rows, *value);
        }
        for ((_, value), index) in point.fields.iter().zip(of_fields) {
            self.columns[*index].push(self.rows, value);
        }
        self.columns[time_column].push_time(self.rows, time);
        self.rows += 1;
    }

    /// Returns the column of the time, and a time in its unit.
    fn time(&self, nanoseconds: i128) -> Result<(usize, i64), String> {
        let Some(time_column) = self.time else {
            return Err(format!("table \"{}\" has no time column", self.name));
        };
        let time = self.columns[time_column].time(nanoseconds).ok_or("the timestamp is out of range")?;
        Ok((time_column, time))
    }

    /// Checks all values of a line, and sets `order` to its columns. Returns the column of the time, and the time.
    fn check(&mut self, point: &LinePoint<'_>, line: u64, nanoseconds: i128) -> Result<(usize, i64), String> {
        let time = self.time(nanoseconds)?;
        self.order.truncate(point.tags.len() + point.fields.len());
        for (place, (name, value)) in point.tags.iter().enumerate() {
            let index = self.column(place, *name, || SqlType::TEXT)?;
            self.mark(index, line)?;
            self.columns[index].check_tag(*value)?;
        }
        for (place, (name, value)) in point.fields.iter().enumerate() {
            let index = self.column(point.tags.len() + place, *name, || kind_of(value))?;
            self.mark(index, line)?;
            self.columns[index].check(value)?;
        }
        match self.required.iter().find(|index| self.columns[**index].last_line != line) {
            Some(missing) => Err(format!("column \"{}\" is NOT NULL and needs a value", self.columns[*missing].name)),
            None => Ok(time),
        }
    }

    /// Finds or makes the column of a name, and sets it as the one at `place` of a line.
    fn column(&mut self, place: usize, name: LineText<'_>, kind: impl FnOnce() -> SqlType) -> Result<usize, String> {
        let name = &*name.text();
        if let Some(index) = self.order.get(place)
            && self.columns[*index].name == name
        {
            return Ok(*index);
        }
        let key = name.to_lowercase();
        let index = match self.by_name.get(&key) {
            Some(index) => *index,
            None => {
                check_name(name)?;
                if self.columns.len() >= COLUMNS_MAX {
                    return Err(format!("table \"{}\" would get more than {COLUMNS_MAX} columns", self.name));
                }
                if self.columns.len() >= self.columns_max {
                    return Err("the request makes too many columns".to_owned());
                }
                let index = self.columns.len();
                self.columns.push(LineColumn::new(name.to_owned(), kind()));
                self.by_name.insert(key, index);
                index
            }
        };
        match self.order.get_mut(place) {
            Some(known) => *known = index,
            None => self.order.push(index),
        }
        Ok(index)
    }

    /// Notes that a line has a value for a column. A line may have only one.
    fn mark(&mut self, index: usize, line: u64) -> Result<(), String> {
        let column = &mut self.columns[index];
        if self.time == Some(index) {
            return Err(format!("\"{}\" is the time column, whose value comes at the end of a line", column.name));
        }
        if column.last_line == line {
            return Err(format!("the line has two values for column \"{}\"", column.name));
        }
        column.last_line = line;
        Ok(())
    }

    /// Makes the table and its new columns, and appends the rows that wait, in the open transaction.
    pub(super) fn flush(&mut self, connection: &mut Connection) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        if self.is_new {
            let columns: Vec<String> = self.columns.iter().map(LineColumn::definition).collect();
            let (name, time) = (quoted_name(&self.name), quoted_name(TIME_COLUMN));
            let columns = columns.join(", ");
            connection.execute_batch(&format!("CREATE TABLE {name} ({columns}) TIMESTAMP({time}) PARTITION BY DAY"))?;
        } else {
            for column in self.columns.iter().filter(|column| column.is_new) {
                let (name, column) = (quoted_name(&self.name), column.definition());
                connection.execute_batch(&format!("ALTER TABLE {name} ADD COLUMN {column}"))?;
            }
        }
        self.is_new = false;
        let rows = std::mem::take(&mut self.rows);
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for column in &mut self.columns {
            column.is_new = false;
            let array = column.take(rows)?;
            fields.push(Field::new(&column.name, array.data_type().clone(), true));
            arrays.push(array);
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
            .map_err(|error| Error::internal(format!("rows of lines: {error}")))?;
        connection.append(&self.name, &batch)?;
        Ok(())
    }
}

/// The type of a new column for a value.
fn kind_of(value: &LineValue<'_>) -> SqlType {
    match value {
        LineValue::Float(_) => SqlType::Float64,
        LineValue::Integer(_) => SqlType::Int64,
        LineValue::Unsigned(_) => SqlType::UInt64,
        LineValue::Micros(_) => SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false },
        LineValue::Text(_) => SqlType::TEXT,
        LineValue::Boolean(_) => SqlType::Boolean,
    }
}

/// Checks that a name can be that of a new table or column.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("a name is longer than {NAME_BYTES_MAX} bytes"));
    }
    match name.chars().any(char::is_control) {
        true => Err("a name has a control character".to_owned()),
        false => Ok(()),
    }
}
