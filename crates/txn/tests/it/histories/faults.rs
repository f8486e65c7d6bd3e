//! What a single transaction of a history shows to be wrong, without a circle: reads of what was never committed, or
//! not as it was committed, or not in the snapshot; updates that are lost; values that two rows have.

use std::collections::BTreeMap;

use rowmill_base::Isolation;

use super::dependencies::Versions;
use super::record::{Entries, Entry, Record, Row, Sight, Touched, say};

/// What has become of a write.
enum Fate {
    Installed,
    Aborted,
    TakenBack,
    /// The same transaction has written over it.
    Intermediate,
}

/// All that is wrong, in the order of the history.
pub(super) fn find_faults(history: &[Record], versions: &Versions<'_>) -> Vec<String> {
    let mut fates: BTreeMap<u64, (&Record, &Row, Fate)> = BTreeMap::new();
    for record in history {
        for (id, (row, is_undone)) in &record.ids {
            let is_last = record.written.values().any(|left| left.row.as_ref().is_some_and(|left| left.id() == *id));
            let fate = match (record.commit, is_undone) {
                (None, _) => Fate::Aborted,
                (_, true) => Fate::TakenBack,
                _ if is_last => Fate::Installed,
                _ => Fate::Intermediate,
            };
            fates.insert(*id, (record, row, fate));
        }
    }
    let mut faults = Vec::new();
    for record in history {
        let mut add = |fault: String| faults.push(format!("{fault}\n{record}"));
        record.complaints.iter().for_each(|complaint| add(complaint.clone()));
        for operation in &record.operations {
            for (key, sight) in &operation.sights {
                if let Sight::Row(row) = sight
                    && let Some(fault) = fault_of_row(&fates, row)
                {
                    add(format!("{}: {key} is {row}, {fault}", operation.said));
                }
                let (at, row) = state(versions, *key, operation.snapshot);
                if !sight.is_of(row) {
                    let should = say(row);
                    add(format!("{}: {key} is {sight}, and {should} since commit {at}", operation.said));
                }
            }
            if let Some((slot, but)) = &operation.taken
                && versions.key_in_slot(*slot, operation.snapshot, but).is_none()
            {
                add(format!("{}: slot {slot} is said to be taken, and is not", operation.said));
            }
        }
        let ends = wrong_ends(history, record);
        stale_snapshots(history, record).into_iter().chain(ends).for_each(&mut add);
        for (key, written) in record.commit.iter().flat_map(|_| &record.written) {
            let commit = record.commit.expect("it has committed");
            let (at, before) = state(versions, *key, commit - 1);
            if written.over.as_ref() != before {
                let (over, before) = (say(written.over.as_ref()), say(before));
                add(format!("an update is lost: {key} was written over {over}, and was {before} since commit {at}"));
            }
        }
    }
    faults.extend(shared_slots(history, versions));
    faults
}

/// What a key has in the snapshot of a commit, and since when.
fn state<'h>(versions: &Versions<'h>, key: i64, snapshot: u64) -> (u64, Option<&'h Row>) {
    let version = &versions.of_key(key)[versions.place_at(key, snapshot)];
    (version.commit, version.row)
}

fn fault_of_row(fates: &BTreeMap<u64, (&Record, &Row, Fate)>, row: &Row) -> Option<String> {
    for id in &row.ids {
        let is_last = *id == row.id();
        match fates.get(id) {
            None => return Some(format!("and no transaction has written {id}")),
            Some((writer, _, Fate::Aborted)) => {
                return Some(format!("G1a: {} wrote {id} and did not commit", writer.name));
            }
            Some((writer, _, Fate::TakenBack)) => {
                return Some(format!("G1a: {} wrote {id} and took it back", writer.name));
            }
            Some((writer, _, Fate::Intermediate)) if is_last => {
                return Some(format!("G1b: {} wrote {id} and then over it", writer.name));
            }
            Some((writer, written, _)) if is_last && *written != row => {
                return Some(format!("and {} wrote {written}", writer.name));
            }
            _ => {}
        }
    }
    None
}

/// Snapshots without a commit that was acknowledged before, or that change where they must not.
///
/// At read committed a transaction that has lost stays with the snapshot that it has, since it cannot commit: no other
/// one does. To have lost, another transaction must have committed what it has written ([`find_rival`]), and to have
/// begun with that before the statement had its snapshot, since the engine knows commits before they are acknowledged.
fn stale_snapshots(history: &[Record], record: &Record) -> Vec<String> {
    let each_statement = record.level == Isolation::ReadCommitted;
    let acknowledged = |at: u64| {
        let writers = history.iter().filter(|other| !other.written.is_empty() && other.ended < at);
        writers.filter_map(|other| Some((other.commit?, &other.name))).max()
    };
    let mut faults = Vec::new();
    for operation in &record.operations {
        let stays = each_statement && operation.snapshot == operation.before;
        let at = if each_statement { operation.at } else { record.began };
        let missed = acknowledged(at).filter(|(commit, _)| *commit > operation.snapshot);
        let has_lost = || find_rival(history, &operation.own, |other| other.asked < Some(operation.stood_at)).is_some();
        if let Some((commit, name)) = missed.filter(|_| !(stays && has_lost())) {
            faults.push(format!("{}: {name} was acknowledged before with commit {commit}", operation.said));
        }
        if !each_statement && operation.snapshot != record.operations[0].snapshot {
            faults.push(format!("{}: another snapshot than at the beginning", operation.said));
        }
        if each_statement
            && !stays
            && let Some((rival, entry)) = find_rival(history, &operation.own, |other| other.ended < operation.at)
        {
            let said = &operation.said;
            faults.push(format!("{said}: another snapshot than before, though {rival} was faster at {entry:?}"));
        }
    }
    faults
}

/// Who has committed, of those that may have, what one has written too, behind the snapshot over which it has. A slot
/// that was taken and given up again has been written.
fn find_rival<'h>(history: &'h [Record], own: &Entries, may_be: impl Fn(&Record) -> bool) -> Option<(&'h str, Entry)> {
    let is_met = |other: &Record, (entry, touched): (&Entry, &Touched)| match *entry {
        _ if other.commit <= Some(touched.since) => false,
        Entry::Key(_) => other.entries.contains_key(entry),
        Entry::Slot(slot, _) => {
            let all = Entry::Slot(slot, i64::MIN)..=Entry::Slot(slot, i64::MAX);
            touched.is_there && other.entries.range(all).next().is_some()
        }
    };
    history.iter().filter(|other| other.commit.is_some() && may_be(other)).find_map(|other| {
        let (entry, _) = own.iter().find(|own| is_met(other, *own))?;
        Some((&*other.name, *entry))
    })
}

/// Commits of transactions that have lost, and failures of such that have not.
fn wrong_ends(history: &[Record], record: &Record) -> Vec<String> {
    let is_before = |other: &Record| other.commit < record.commit;
    let rival = record.commit.and_then(|_| find_rival(history, &record.entries, is_before));
    let lost = rival.map(|(rival, entry)| format!("it has committed, and {rival} was faster at {entry:?}"));
    // Of who has lost by what it has read the circles tell.
    let is_by_writes = record.level != Isolation::Serializable && !record.operations.iter().any(|o| o.is_locking);
    let has_failed = record.commit.is_none() && record.asked.is_some() && is_by_writes;
    let may_be = |other: &Record| other.asked < Some(record.ended);
    let failed = (has_failed && find_rival(history, &record.entries, may_be).is_none())
        .then(|| "it could not commit, and no other commit was first".to_owned());
    lost.into_iter().chain(failed).collect()
}

/// Commits behind which two rows have one slot, or that are two.
fn shared_slots(history: &[Record], versions: &Versions<'_>) -> Vec<String> {
    let mut commits: Vec<(u64, &Record)> =
        history.iter().filter(|record| !record.written.is_empty()).filter_map(|r| Some((r.commit?, r))).collect();
    commits.sort_unstable_by_key(|(commit, _)| *commit);
    let mut faults = Vec::new();
    for pair in commits.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        faults.push(format!("two transactions are one commit\n{}{}", pair[0].1, pair[1].1));
    }
    for (commit, record) in commits {
        for (key, slot) in record.written.iter().filter_map(|(key, left)| Some((*key, left.row.as_ref()?.slot?))) {
            if let Some(other) = versions.key_in_slot(slot, commit, &[key]) {
                faults.push(format!("behind commit {commit} both {key} and {other} have slot {slot}\n{record}"));
            }
        }
    }
    faults
}
