//! The encoding of statistics. The byte table is in `docs/file-format.md`, "Ordered base".

use std::sync::Arc;

use rowmill_base::{ColumnId, IndexId, Result, TableId};
use rowmill_storage::{BUCKETS_MAX, ColumnStatistics, FREQUENT_MAX, TableStatistics, VALUE_KEY_BYTES_MAX};

use crate::catalog::Catalog;
use crate::codec::{RecordReader, Writer};

pub(crate) fn encode(statistics: &TableStatistics) -> Vec<u8> {
    let mut out = Writer::new();
    out.u32(statistics.index.0).u64(statistics.rows).u32(statistics.columns.len() as u32);
    for ColumnStatistics { column, null_share, distinct, frequent, bounds } in &statistics.columns {
        out.u32(column.0).u64(null_share.to_bits()).u64(*distinct).u32(frequent.len() as u32);
        for (key, share) in frequent {
            out.bytes(key).u64(share.to_bits());
        }
        out.u32(bounds.len() as u32);
        for key in bounds {
            out.bytes(key);
        }
    }
    out.finish()
}

/// Decodes the result of [`encode`]. Impossible statistics are damage, so that estimates stay within bounds for any
/// bytes.
fn decode(bytes: &[u8]) -> Result<TableStatistics> {
    let mut input = RecordReader::new(bytes, "the statistics of a table");
    let (index, rows) = (IndexId(input.u32()?), input.u64()?);
    let columns = (0..input.count(28)?).map(|_| decode_column(&mut input)).collect::<Result<Vec<_>>>()?;
    input.end()?;
    if !columns.is_sorted_by(|one, other| one.column < other.column) {
        return Err(input.damaged("columns that are out of order"));
    }
    Ok(TableStatistics { index, rows, columns })
}

fn decode_column(input: &mut RecordReader<'_>) -> Result<ColumnStatistics> {
    let (column, null_share, distinct) = (ColumnId(input.u32()?), decode_share(input)?, input.u64()?);
    let frequent = (0..input.count(12)?).map(|_| Ok((decode_key(input)?, decode_share(input)?)));
    let frequent = frequent.collect::<Result<Vec<_>>>()?;
    let bounds = (0..input.count(4)?).map(|_| decode_key(input)).collect::<Result<Vec<_>>>()?;
    if frequent.len() > FREQUENT_MAX || bounds.len() > BUCKETS_MAX + 1 {
        return Err(input.damaged("more values than statistics can have"));
    }
    if !frequent.is_sorted_by(|(one, _), (other, _)| one < other) || !bounds.is_sorted() {
        return Err(input.damaged("values that are out of order"));
    }
    Ok(ColumnStatistics { column, null_share, distinct, frequent, bounds })
}

fn decode_key(input: &mut RecordReader<'_>) -> Result<Vec<u8>> {
    match input.bytes()? {
        key if key.len() <= VALUE_KEY_BYTES_MAX => Ok(key.to_vec()),
        _ => Err(input.damaged("a value that is too long")),
    }
}

fn decode_share(input: &mut RecordReader<'_>) -> Result<f64> {
    let share = f64::from_bits(input.u64()?);
    // NaN is in no range, so it is rejected too.
    match (0.0..=1.0).contains(&share) {
        true => Ok(share),
        false => Err(input.damaged("a share that is not between 0 and 1")),
    }
}

/// Adds statistics to a catalog. The catalog must have their table with the rows that they describe.
pub(crate) fn put(catalog: &mut Catalog, table: TableId, bytes: &[u8]) -> Result<()> {
    let statistics = Arc::new(decode(bytes)?);
    catalog.set_statistics(table, Some(&statistics));
    match catalog.statistics(table).is_some_and(|known| Arc::ptr_eq(known, &statistics)) {
        true => Ok(()),
        false => {
            let input = RecordReader::new(bytes, "the statistics of a table");
            Err(input.damaged(&format!("they describe rows that table {table} does not have")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn statistics() -> TableStatistics {
        let column = |id, null_share, distinct| ColumnStatistics {
            column: ColumnId(id),
            null_share,
            distinct,
            frequent: vec![(b"a".to_vec(), 0.25), (b"b".to_vec(), 0.125)],
            bounds: vec![b"aa".to_vec(), b"aa".to_vec(), vec![0xf7; VALUE_KEY_BYTES_MAX]],
        };
        let nothing = ColumnStatistics {
            column: ColumnId(2),
            null_share: 1.0,
            distinct: 0,
            frequent: Vec::new(),
            bounds: Vec::new(),
        };
        TableStatistics {
            index: IndexId(7),
            rows: 1 << 40,
            columns: vec![column(0, 0.0, 12), nothing, column(5, 0.5, u64::MAX)],
        }
    }

    #[test]
    fn statistics_round_trip_and_damaged_bytes_give_errors_or_other_statistics() {
        let bytes = encode(&statistics());
        assert_eq!(decode(&bytes).expect("read"), statistics());
        assert!((0..bytes.len()).all(|cut| decode(&bytes[..cut]).is_err()));
        let mut problems = BTreeSet::new();
        for at in 0..bytes.len() {
            for flip in [1, 4, 0x40, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                match decode(&damaged) {
                    Ok(other) => assert!(other.columns.iter().all(|column| column.share_below(b"ab", true) >= 0.0)),
                    Err(error) => {
                        problems.insert(error.message().to_owned());
                    }
                }
            }
        }
        for problem in
            ["a share that is not between", "columns that are out of order", "values that are out of", "ends"]
        {
            assert!(problems.iter().any(|found| found.contains(problem)), "{problem}: {problems:?}");
        }
        let changed = |change: &dyn Fn(&mut ColumnStatistics)| {
            let mut statistics = statistics();
            change(&mut statistics.columns[0]);
            decode(&encode(&statistics)).expect_err("damage").message().to_owned()
        };
        assert!(changed(&|column| column.bounds = vec![Vec::new(); BUCKETS_MAX + 2]).contains("more values"));
        assert!(changed(&|column| column.bounds[2].push(7)).contains("too long"));
        assert!(changed(&|column| column.frequent[0].1 = f64::NAN).contains("a share"));
    }
}
