//! The bytes of a time table's clauses, which follow the columns in a table's definition.
//!
//! A keyed table has its keys there, beginning with the id of its index. A time table has a marker in place of that id,
//! which is the id of no index.

use rowmill_base::{ColumnId, Result};
use rowmill_storage::{CalendarUnit, ColumnDef, TimeTableDef, TimeToLive};

use crate::codec::{RecordReader, Writer};

/// Begins the clauses of a time table.
const TIME_TABLE: u32 = u32::MAX;

pub(crate) fn encode(def: &TimeTableDef, out: &mut Writer) {
    out.u32(TIME_TABLE).u32(def.column.0);
    out.option(def.partition, |out, unit| {
        out.u8(unit_code(unit));
    });
    out.option(def.time_to_live, |out, life| {
        out.u32(life.count).u8(unit_code(life.unit));
    });
    out.u32(def.dedup_keys.len() as u32);
    for column in &def.dedup_keys {
        out.u32(column.0);
    }
}

/// Whether the clauses of a time table come next.
pub(crate) fn is_next(input: &RecordReader<'_>) -> bool {
    input.peek_u32() == Some(TIME_TABLE)
}

/// Decodes the result of [`encode`]. Columns that the table does not have, or that cannot have their part, are damage.
pub(crate) fn decode(input: &mut RecordReader<'_>, columns: &[ColumnDef]) -> Result<TimeTableDef> {
    if input.u32()? != TIME_TABLE {
        return Err(input.damaged("the clauses of a time table do not begin with their marker"));
    }
    let of_id = |id: ColumnId| columns.iter().find(|column| column.id == id);
    let column = ColumnId(input.u32()?);
    if !of_id(column).is_some_and(|column| TimeTableDef::is_time(&column.kind) && !column.nullable) {
        return Err(input.damaged("a time column that has no times"));
    }
    let partition = input.option(decode_unit)?;
    let time_to_live = input.option(|input| {
        let life = TimeToLive { count: input.u32()?, unit: decode_unit(input)? };
        match (1..=TimeToLive::COUNT_MAX).contains(&life.count) {
            true => Ok(life),
            false => Err(input.damaged("rows with an impossible time to live")),
        }
    })?;
    let mut dedup_keys: Vec<ColumnId> = Vec::new();
    for _ in 0..input.count(4)? {
        let key = ColumnId(input.u32()?);
        if !of_id(key).is_some_and(|column| column.kind.is_ordered()) || dedup_keys.contains(&key) {
            return Err(input.damaged("rows are replaced by columns that cannot be keys"));
        }
        dedup_keys.push(key);
    }
    match dedup_keys.is_empty() || dedup_keys.contains(&column) {
        true => Ok(TimeTableDef { column, partition, time_to_live, dedup_keys }),
        false => Err(input.damaged("rows are replaced by keys without the time column")),
    }
}

fn unit_code(unit: CalendarUnit) -> u8 {
    CalendarUnit::ALL.iter().position(|other| *other == unit).expect("the list has all units") as u8
}

fn decode_unit(input: &mut RecordReader<'_>) -> Result<CalendarUnit> {
    let code = usize::from(input.u8()?);
    CalendarUnit::ALL.get(code).copied().ok_or_else(|| input.damaged("an unknown unit of the calendar"))
}

#[cfg(test)]
mod tests {
    use rowmill_base::{SqlType, TimeUnit};

    use super::*;

    fn columns() -> Vec<ColumnDef> {
        let kinds = [SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false }, SqlType::Int64, SqlType::Date];
        let column = |(id, kind): (u32, SqlType)| ColumnDef {
            id: ColumnId(id),
            name: format!("c{id}"),
            nullable: id == 2,
            kind,
            default: None,
            missing: None,
            part: None,
        };
        (0..).zip(kinds).map(column).collect()
    }

    fn clauses() -> TimeTableDef {
        TimeTableDef {
            partition: Some(CalendarUnit::Week),
            time_to_live: Some(TimeToLive { count: 90, unit: CalendarUnit::Day }),
            dedup_keys: vec![ColumnId(1), ColumnId(0)],
            ..TimeTableDef::new(ColumnId(0))
        }
    }

    fn bytes(def: &TimeTableDef) -> Vec<u8> {
        let mut out = Writer::new();
        encode(def, &mut out);
        out.finish()
    }

    fn read(bytes: &[u8]) -> Result<TimeTableDef> {
        let mut input = RecordReader::new(bytes, "a time table");
        let def = decode(&mut input, &columns())?;
        input.end()?;
        Ok(def)
    }

    #[test]
    fn clauses_round_trip() {
        for def in [clauses(), TimeTableDef::new(ColumnId(0))] {
            assert_eq!(read(&bytes(&def)).expect("read"), def);
        }
    }

    #[test]
    fn impossible_clauses_are_damage() {
        let life = |count| Some(TimeToLive { count, unit: CalendarUnit::Hour });
        let damaged = [
            TimeTableDef::new(ColumnId(1)),
            TimeTableDef::new(ColumnId(2)),
            TimeTableDef::new(ColumnId(3)),
            TimeTableDef { time_to_live: life(0), ..clauses() },
            TimeTableDef { time_to_live: life(TimeToLive::COUNT_MAX + 1), ..clauses() },
            TimeTableDef { dedup_keys: vec![ColumnId(1)], ..clauses() },
            TimeTableDef { dedup_keys: vec![ColumnId(0), ColumnId(0)], ..clauses() },
            TimeTableDef { dedup_keys: vec![ColumnId(0), ColumnId(7)], ..clauses() },
        ];
        for def in damaged {
            assert!(read(&bytes(&def)).is_err(), "{def:?}");
        }
    }

    #[test]
    fn damaged_bytes_are_errors_or_other_clauses_but_never_a_panic() {
        let good = bytes(&clauses());
        assert!((0..good.len()).all(|cut| read(&good[..cut]).is_err()));
        for at in 0..good.len() {
            for flip in [0xff, 1, 0x80] {
                let mut damaged = good.clone();
                damaged[at] ^= flip;
                let _ = read(&damaged);
            }
        }
    }
}
