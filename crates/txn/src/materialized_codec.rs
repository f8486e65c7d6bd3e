//! The encoding of the definition of a materialized view. The byte table is in `docs/file-format.md`, "Ordered base".

use std::sync::Arc;

use rowmill_base::{CommitId, Result, TableId};

use crate::catalog::Catalog;
use crate::codec::{RecordReader, Writer};
use crate::materialized::{MaterializedView, RefreshPoint, RefreshRule, SourcePoint};

const IMMEDIATE: u8 = 0;
const EVERY: u8 = 1;
const MANUAL: u8 = 2;

pub(crate) fn encode(view: &MaterializedView) -> Vec<u8> {
    let MaterializedView { table: _, sql, refresh, full_because, refreshed } = view;
    let mut out = Writer::new();
    out.text(sql);
    match refresh {
        RefreshRule::Immediate => out.u8(IMMEDIATE),
        RefreshRule::Every(milliseconds) => out.u8(EVERY).u64(*milliseconds),
        RefreshRule::Manual => out.u8(MANUAL),
    };
    out.option(full_because.as_deref(), |out, why| {
        out.text(why);
    });
    out.option(refreshed.as_ref(), |out, point| {
        out.u64(point.at_us.cast_unsigned()).u64(point.commit.0).u8(point.reads_more.into());
        out.u32(point.sources.len() as u32);
        for SourcePoint { table, version, next, rows, live, settled, moved } in &point.sources {
            out.u32(table.0).u32(*version).u64(*next).u64(*rows).u64(*live).u64(*settled).u64(*moved);
        }
    });
    out.finish()
}

/// Decodes the result of [`encode`]. A rule or a point that cannot be is damage.
fn decode(table: TableId, bytes: &[u8]) -> Result<MaterializedView> {
    let mut input = RecordReader::new(bytes, "the definition of a materialized view");
    let sql = input.text()?;
    let refresh = match input.u8()? {
        IMMEDIATE => RefreshRule::Immediate,
        EVERY => match input.u64()? {
            milliseconds @ 1..=RefreshRule::EVERY_MS_MAX => RefreshRule::Every(milliseconds),
            _ => return Err(input.damaged("an impossible interval between refreshes")),
        },
        MANUAL => RefreshRule::Manual,
        _ => return Err(input.damaged("an unknown rule for refreshes")),
    };
    let full_because = input.option(RecordReader::text)?;
    let refreshed = input.option(decode_point)?;
    input.end()?;
    Ok(MaterializedView { table, sql, refresh, full_because, refreshed })
}

fn decode_point(input: &mut RecordReader<'_>) -> Result<RefreshPoint> {
    let (at_us, commit) = (input.u64()?.cast_signed(), CommitId(input.u64()?));
    let reads_more = match input.u8()? {
        0 => false,
        1 => true,
        _ => return Err(input.damaged("neither yes nor no")),
    };
    let mut sources: Vec<SourcePoint> = Vec::new();
    for _ in 0..input.count(48)? {
        let (table, version) = (TableId(input.u32()?), input.u32()?);
        let (next, rows, live) = (input.u64()?, input.u64()?, input.u64()?);
        let (settled, moved) = (input.u64()?, input.u64()?);
        let point = SourcePoint { table, version, next, rows, live, settled, moved };
        if live > rows || rows > next || settled > next || moved > next {
            return Err(input.damaged("a base table with more rows than numbers of rows"));
        }
        if sources.iter().any(|other| other.table == table) {
            return Err(input.damaged("a base table that is listed twice"));
        }
        sources.push(point);
    }
    Ok(RefreshPoint { at_us, commit, reads_more, sources })
}

/// Decodes a definition and adds it. A definition without its table is damage.
pub(crate) fn put(catalog: &mut Catalog, table: TableId, bytes: &[u8]) -> Result<()> {
    catalog.put_materialized(Arc::new(decode(table, bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views() -> [MaterializedView; 3] {
        let source = |table| SourcePoint {
            table: TableId(table),
            version: 3,
            next: 100,
            rows: 90,
            live: 70,
            settled: 64,
            moved: 5,
        };
        let point =
            RefreshPoint { at_us: -5, commit: CommitId(9), reads_more: true, sources: vec![source(2), source(4)] };
        let view = |refresh, full_because: Option<&str>, refreshed| MaterializedView {
            table: TableId(7),
            sql: "SELECT 1".into(),
            refresh,
            full_because: full_because.map(str::to_owned),
            refreshed,
        };
        [
            view(RefreshRule::Immediate, None, Some(point)),
            view(RefreshRule::Every(600_000), Some("it has a LIMIT"), None),
            view(RefreshRule::Manual, None, None),
        ]
    }

    #[test]
    fn definitions_round_trip() {
        for view in views() {
            assert_eq!(decode(view.table, &encode(&view)).expect("read"), view);
        }
    }

    #[test]
    fn impossible_definitions_are_damage() {
        let [view, ..] = views();
        let change = |change: fn(&mut SourcePoint)| {
            let mut point = view.refreshed.clone().expect("a point");
            change(&mut point.sources[1]);
            MaterializedView { refreshed: Some(point), ..view.clone() }
        };
        let damaged = [
            change(|source| source.live = 91),
            change(|source| source.rows = 101),
            change(|source| source.settled = 101),
            change(|source| source.moved = 101),
            change(|source| source.table = TableId(2)),
            MaterializedView { refresh: RefreshRule::Every(0), ..view.clone() },
            MaterializedView { refresh: RefreshRule::Every(RefreshRule::EVERY_MS_MAX + 1), ..view.clone() },
        ];
        for view in damaged {
            assert!(decode(view.table, &encode(&view)).is_err(), "{view:?}");
        }
    }

    #[test]
    fn damaged_bytes_are_errors_or_other_definitions_but_never_a_panic() {
        for view in views() {
            let good = encode(&view);
            assert!((0..good.len()).all(|cut| decode(view.table, &good[..cut]).is_err()));
            for at in 0..good.len() {
                for flip in [0xff, 1, 0x80] {
                    let mut damaged = good.clone();
                    damaged[at] ^= flip;
                    let _ = decode(view.table, &damaged);
                }
            }
        }
    }

    #[test]
    fn a_definition_without_its_table_is_damage() {
        let [view, ..] = views();
        assert!(put(&mut Catalog::default(), view.table, &encode(&view)).is_err());
    }
}
