//! A range of keys in order, read from what a transaction has written, from the versions in memory and from the base, as one.
//!
//! Each of the three gives a batch of its next keys, a small one at first where few are wanted; the least of the first ones
//! is next, or the greatest downwards, and what has been written later hides what has been written before.

use rowmill_base::{CommitId, Result};
use rowmill_storage::keyed::KeyRange;

use super::dead_ranges::DEAD_KEYS_MIN;
use super::read_set::NotedRange;
use super::reader::Reader;
use super::version_cursor::{VersionBatch, Window, go_past};

/// Keys that are copied at a time of each of the three.
const KEYS_AT_ONCE: usize = 256;

/// How many times as many the next batch has.
const GROWTH: usize = 4;

/// A place in a range of keys. It holds nothing: who has started it reads on with it, and sees what was written meanwhile to
/// keys that are yet to come. Made to be started again and again: what it has allocated stays.
#[derive(Debug, Default)]
pub struct RangeScan {
    /// What the transaction has written, what commits have, what the base has: what is earlier hides what is later.
    feeds: [Feed; 3],
    backward: bool,
    whole: KeyRange,
    /// What is noted of it, where reads are.
    noted: Option<NotedRange>,
    dead: Passed,
    /// Whether all keys that follow are the base's, and no read is noted.
    is_of_base: bool,
    /// The feed of the key that was given last.
    newest: usize,
    /// Becomes a bound of what is left of versions.
    next: Vec<u8>,
}

/// Deleted keys at the beginning of a range that is read upwards.
#[derive(Debug, Default)]
struct Passed {
    /// Where to begin to look if keys before it are known to be dead.
    from: Vec<u8>,
    has_from: bool,
    keys: usize,
    /// Whether the first key was found, or something of the transaction's own has been passed, of which others know nothing.
    is_over: bool,
    is_started: bool,
}

/// One of the three: the keys that it gave last, and what is left of the range.
#[derive(Debug, Default)]
struct Feed {
    batch: VersionBatch,
    at: usize,
    rest: Rest,
    is_done: bool,
    /// Keys of the next batch.
    keys_at_once: usize,
    /// Whether its next key is the one that was given last.
    is_given: bool,
}

/// Where the keys start that are in no batch yet, or backward where they end.
#[derive(Debug, Default)]
struct Rest {
    bound: Vec<u8>,
    /// Whether it is not where the whole range starts or ends.
    is_set: bool,
}

impl Rest {
    /// The start and the end of the keys that are left.
    fn of<'a>(&'a self, whole: &'a KeyRange, backward: bool) -> (&'a [u8], &'a [u8]) {
        match (self.is_set, backward) {
            (false, _) => (&whole.start, &whole.end),
            (true, false) => (&self.bound, &whole.end),
            (true, true) => (&whole.start, &self.bound),
        }
    }

    /// Leaves the keys after `last`, or backward those before it.
    fn go_past(&mut self, last: &[u8], backward: bool) {
        go_past(last, backward, &mut self.bound);
        self.is_set = true;
    }

    fn is_empty(&self, whole: &KeyRange, backward: bool) -> bool {
        let (start, end) = self.of(whole, backward);
        !end.is_empty() && start >= end
    }
}

impl Feed {
    /// Whether it has no more keys.
    fn is_at_end(&self) -> bool {
        self.is_done && self.at >= self.batch.len()
    }
}

const OWN: usize = 0;
const VERSIONS: usize = 1;
const BASE: usize = 2;

impl RangeScan {
    /// Goes to the first of the keys from `start` on that are below `end`, or to the last, to be read downwards; all of them are of
    /// one index. `first` is how many entries will be asked for, as far as is known; more cost another batch.
    pub fn start(&mut self, start: &[u8], end: &[u8], backward: bool, first: usize) {
        (self.backward, self.noted, self.is_of_base) = (backward, None, false);
        self.whole.start.clear();
        self.whole.start.extend_from_slice(start);
        self.whole.end.clear();
        self.whole.end.extend_from_slice(end);
        let is_empty = self.whole.is_empty();
        for feed in &mut self.feeds {
            feed.start(first.clamp(1, KEYS_AT_ONCE), is_empty);
        }
        (self.dead.keys, self.dead.is_over, self.dead.is_started) = (0, backward, false);
    }

    /// The next key and its row; `None` at the end of the range. Every call of one scan gets a reader of the same snapshot.
    #[inline]
    pub fn next(&mut self, reader: &Reader<'_>) -> Result<Option<(&[u8], &[u8])>> {
        Ok(self.advance(reader)?.then(|| self.current()))
    }

    /// Goes to the next key; whether there is one.
    #[inline]
    pub(super) fn advance(&mut self, reader: &Reader<'_>) -> Result<bool> {
        Ok(self.next_of_base() || self.next_of_all(reader)?)
    }

    /// The key that was gone to last, and its row.
    #[inline]
    pub(super) fn current(&self) -> (&[u8], &[u8]) {
        let feed = &self.feeds[self.newest];
        let (key, row) = feed.batch.get(feed.at);
        (key, row.unwrap_or_default())
    }

    /// Goes to the next key of the base in the batch that is there, where nothing else is left to be chosen from or noted;
    /// whether there is one.
    #[inline]
    fn next_of_base(&mut self) -> bool {
        let base = &mut self.feeds[BASE];
        let next = base.at + usize::from(base.is_given);
        if !self.is_of_base || next >= base.batch.len() {
            return false;
        }
        (base.at, base.is_given) = (next, true);
        true
    }

    fn next_of_all(&mut self, reader: &Reader<'_>) -> Result<bool> {
        if !std::mem::replace(&mut self.dead.is_started, true) {
            self.pass_dead(reader);
        }
        loop {
            self.pass_given();
            self.fill(reader)?;
            let newest = self.choose();
            self.note_read(reader, newest);
            let Some(newest) = newest else {
                self.note_dead(reader, None);
                return Ok(false);
            };
            let feed = &self.feeds[newest];
            if feed.batch.get(feed.at).1.is_some() {
                self.note_dead(reader, Some(newest));
                let is_alone = newest == BASE && self.feeds[..BASE].iter().all(Feed::is_at_end);
                self.is_of_base = is_alone && reader.reads().is_none();
                self.newest = newest;
                return Ok(true);
            }
            self.dead.keys += 1;
            self.dead.is_over |= newest == OWN;
        }
    }

    /// Passes over the next rows, `rows_max` at most, as if each had been asked for; how many there were. Fewer than
    /// `rows_max` may be passed while more follow, none only at the end of the range.
    pub fn pass(&mut self, reader: &Reader<'_>, rows_max: usize) -> Result<usize> {
        if rows_max == 0 {
            return Ok(0);
        }
        if !self.is_of_base && !self.begin_in_base(reader)? {
            return Ok(usize::from(self.next_of_all(reader)?));
        }
        let (whole, backward) = (&self.whole, self.backward);
        let base = &mut self.feeds[BASE];
        let next = base.at + usize::from(base.is_given);
        let left = base.batch.len().saturating_sub(next);
        if left > 0 {
            let passed = left.min(rows_max);
            (base.at, base.is_given) = (next + passed - 1, true);
            return Ok(passed);
        }
        if base.is_done {
            return Ok(usize::from(self.next_of_all(reader)?));
        }
        let mut last = Vec::new();
        let (start, end) = base.rest.of(whole, backward);
        let passed = reader.base().read(0, |tree| tree.pass(start, end, backward, rows_max, &mut last))?;
        (base.at, base.is_given, base.is_done) = (0, false, passed < rows_max);
        base.batch.clear();
        if !base.is_done {
            base.rest.go_past(&last, backward);
            base.is_done = base.rest.is_empty(whole, backward);
        }
        Ok(passed)
    }

    /// Goes to the beginning of the range in the base if no key was read yet, no other feed has keys of the range, and no read
    /// must be noted; whether it did. The caller may then pass over keys that are in no batch.
    fn begin_in_base(&mut self, reader: &Reader<'_>) -> Result<bool> {
        if reader.reads().is_some() || std::mem::replace(&mut self.dead.is_started, true) {
            return Ok(false);
        }
        self.pass_dead(reader);
        self.fill_recent(reader);
        self.is_of_base = self.feeds[..BASE].iter().all(Feed::is_at_end);
        self.dead.is_over |= self.is_of_base;
        Ok(self.is_of_base)
    }

    /// Begins after keys that are known to be deleted.
    fn pass_dead(&mut self, reader: &Reader<'_>) {
        let (store, commit) = (reader.state().store(), reader.state().commit());
        self.dead.has_from = !self.backward && store.dead().end_of(&self.whole.start, commit, &mut self.dead.from);
        if self.dead.has_from {
            for feed in &mut self.feeds[VERSIONS..] {
                feed.rest.bound.clone_from(&self.dead.from);
                feed.rest.is_set = true;
                feed.is_done = feed.rest.is_empty(&self.whole, false);
            }
        }
    }

    /// Notes what was deleted before the first key that is there: of a feed, or the end of the range.
    fn note_dead(&mut self, reader: &Reader<'_>, first: Option<usize>) {
        if std::mem::replace(&mut self.dead.is_over, true) || self.dead.keys < DEAD_KEYS_MIN || first == Some(OWN) {
            return;
        }
        let key = first.and_then(|feed| self.feeds[feed].key()).unwrap_or(&self.whole.end);
        let range = KeyRange { start: self.whole.start.clone(), end: key.to_vec() };
        let (store, commit) = (reader.state().store(), reader.state().commit());
        let versions = store.versions().of_range(&self.whole);
        let from = if self.dead.has_from { &self.dead.from } else { &self.whole.start };
        store.dead().note(range, from, commit, versions);
    }

    /// Notes that the range was read up to the next key of a feed, or to its end.
    fn note_read(&mut self, reader: &Reader<'_>, feed: Option<usize>) {
        let Some(reads) = reader.reads() else { return };
        if self.whole.is_empty() {
            return;
        }
        let last = feed.and_then(|feed| self.feeds[feed].key());
        let snapshot = reader.state().commit();
        self.noted = Some(reads.note_passed(self.noted, &self.whole, last, self.backward, snapshot));
    }

    fn pass_given(&mut self) {
        for feed in &mut self.feeds {
            feed.at += usize::from(std::mem::take(&mut feed.is_given));
        }
    }

    /// Marks the feeds that have the next key, and says which of them has what was written last.
    fn choose(&mut self) -> Option<usize> {
        let keys = self.feeds.iter().filter_map(Feed::key);
        let next = if self.backward { keys.max() } else { keys.min() }?;
        let has_it = [OWN, VERSIONS, BASE].map(|feed| self.feeds[feed].key() == Some(next));
        for (feed, has_it) in self.feeds.iter_mut().zip(has_it) {
            feed.is_given = has_it;
        }
        has_it.iter().position(|has_it| *has_it)
    }

    fn fill(&mut self, reader: &Reader<'_>) -> Result<()> {
        self.fill_recent(reader);
        self.fill_base(reader)
    }

    /// Fills what the transaction and commits have written.
    fn fill_recent(&mut self, reader: &Reader<'_>) {
        let (whole, backward) = (&self.whole, self.backward);
        let [own, versions, _] = &mut self.feeds;
        match reader.own() {
            None => own.is_done = own.at >= own.batch.len(),
            Some(written) => {
                if let Some(keys_max) = own.start_batch() {
                    let (start, end) = own.rest.of(whole, backward);
                    written.fill(start, end, backward, keys_max, &mut own.batch);
                    own.note(keys_max, whole, backward);
                }
            }
        }
        if let Some(keys_max) = versions.start_batch() {
            let state = reader.state();
            let of_range = state.store().versions().of_range(whole);
            let window = Window { after: CommitId(0), at: state.commit(), backward };
            while versions.batch.is_empty() && !versions.is_done {
                let (start, end) = versions.rest.of(whole, backward);
                let batch = &mut versions.batch;
                versions.is_done = !window.read(of_range, start, end, keys_max, batch, &mut self.next);
                std::mem::swap(&mut versions.rest.bound, &mut self.next);
                versions.rest.is_set = true;
            }
        }
    }

    fn fill_base(&mut self, reader: &Reader<'_>) -> Result<()> {
        let (whole, backward) = (&self.whole, self.backward);
        let feed = &mut self.feeds[BASE];
        if let Some(keys_max) = feed.start_batch() {
            let batch = &mut feed.batch;
            let (start, end) = feed.rest.of(whole, backward);
            reader.base().read((), |base| {
                base.range(start, end, backward, &mut |key, row| {
                    batch.push(key, Some(row));
                    Ok(batch.len() < keys_max)
                })
            })?;
            feed.note(keys_max, whole, backward);
        }
        Ok(())
    }
}

impl Feed {
    fn start(&mut self, first: usize, is_done: bool) {
        self.batch.clear();
        (self.at, self.is_given, self.keys_at_once) = (0, false, first);
        (self.rest.is_set, self.is_done) = (false, is_done);
    }

    fn key(&self) -> Option<&[u8]> {
        (self.at < self.batch.len()).then(|| self.batch.get(self.at).0)
    }

    /// Empties the batch if all of it is passed and there may be more; how many keys the next one is to have.
    fn start_batch(&mut self) -> Option<usize> {
        if self.is_done || self.at < self.batch.len() {
            return None;
        }
        self.batch.clear();
        self.at = 0;
        let keys_max = self.keys_at_once;
        self.keys_at_once = (keys_max * GROWTH).min(KEYS_AT_ONCE);
        Some(keys_max)
    }

    /// Notes that `filled` keys were asked for, which the batch has unless the range is at its end.
    fn note(&mut self, filled: usize, whole: &KeyRange, backward: bool) {
        if self.batch.len() < filled {
            self.is_done = true;
            return;
        }
        self.rest.go_past(self.batch.get(self.batch.len() - 1).0, backward);
        self.is_done = self.rest.is_empty(whole, backward);
    }
}
