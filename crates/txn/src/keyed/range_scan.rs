//! A range of keys in order, read from what a transaction has written, from the versions in memory and from the base, as one.
//!
//! Each of the three gives a batch of its next keys, a small one at first where few are wanted; the least of the first ones
//! is next, or the greatest downwards, and what has been written later hides what has been written before.

use rowmill_base::Result;
use rowmill_storage::keyed::KeyRange;

use super::dead_ranges::DEAD_KEYS_MIN;
use super::read_set::NotedRange;
use super::reader::Reader;
use super::version_cursor::{VersionBatch, VersionCursor};

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
    version_cursor: VersionCursor,
    backward: bool,
    whole: KeyRange,
    /// What is noted of it, where reads are.
    noted: Option<NotedRange>,
    dead: Passed,
    /// Whether all keys that follow are the base's, and no read is noted.
    is_of_base: bool,
    /// The feed of the key that was given last.
    newest: usize,
}

/// Deleted keys at the beginning of a range that is read upwards.
#[derive(Debug, Default)]
struct Passed {
    /// Where to begin to look: what is before is known to be dead.
    from: Vec<u8>,
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
    range: KeyRange,
    is_done: bool,
    /// Keys of the next batch.
    keys_at_once: usize,
    /// Whether its next key is the one that was given last.
    is_given: bool,
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
        for feed in &mut self.feeds {
            feed.start(start, end, first.clamp(1, KEYS_AT_ONCE));
        }
        self.version_cursor.restart(start, end, backward);
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
        let Feed { batch, at, range, is_done, is_given, .. } = &mut self.feeds[BASE];
        let next = *at + usize::from(*is_given);
        let left = batch.len().saturating_sub(next);
        if left > 0 {
            let passed = left.min(rows_max);
            (*at, *is_given) = (next + passed - 1, true);
            return Ok(passed);
        }
        if *is_done {
            return Ok(usize::from(self.next_of_all(reader)?));
        }
        let (backward, mut last) = (self.backward, Vec::new());
        let passed =
            reader.base().read(0, |base| base.pass(&range.start, &range.end, backward, rows_max, &mut last))?;
        (*at, *is_given, *is_done) = (0, false, passed < rows_max);
        batch.clear();
        if !*is_done {
            leave(range, &last, backward);
            *is_done = range.is_empty();
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

    /// Begins behind keys that are known to be deleted.
    fn pass_dead(&mut self, reader: &Reader<'_>) {
        self.dead.from.clear();
        self.dead.from.extend_from_slice(&self.whole.start);
        let (store, commit) = (reader.state().store(), reader.state().commit());
        if self.backward || !store.dead().end_of(&self.whole.start, commit, &mut self.dead.from) {
            return;
        }
        let (from, end) = (&self.dead.from, &self.whole.end);
        for feed in [VERSIONS, BASE] {
            let keys = self.feeds[feed].keys_at_once;
            self.feeds[feed].start(from, end, keys);
        }
        self.version_cursor.restart(from, end, false);
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
        store.dead().note(range, &self.dead.from, commit, versions);
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
        let backward = self.backward;
        if let Some(keys_max) = self.feeds[OWN].start_batch() {
            let feed = &mut self.feeds[OWN];
            if let Some(own) = reader.own() {
                own.fill(&feed.range, backward, keys_max, &mut feed.batch);
            }
            feed.note(keys_max, backward);
        }
        if let Some(keys_max) = self.feeds[VERSIONS].start_batch() {
            let feed = &mut self.feeds[VERSIONS];
            let state = reader.state();
            let versions = state.store().versions().of_range(&feed.range);
            self.version_cursor.next_batch_at(versions, state.commit(), keys_max, &mut feed.batch);
            feed.is_done = feed.batch.is_empty();
        }
    }

    fn fill_base(&mut self, reader: &Reader<'_>) -> Result<()> {
        let backward = self.backward;
        if let Some(keys_max) = self.feeds[BASE].start_batch() {
            let Feed { batch, range, .. } = &mut self.feeds[BASE];
            reader.base().read((), |base| {
                base.range(&range.start, &range.end, backward, &mut |key, row| {
                    batch.push(key, Some(row));
                    Ok(batch.len() < keys_max)
                })
            })?;
            self.feeds[BASE].note(keys_max, backward);
        }
        Ok(())
    }
}

impl Feed {
    fn start(&mut self, start: &[u8], end: &[u8], first: usize) {
        self.batch.clear();
        (self.at, self.is_given, self.keys_at_once) = (0, false, first);
        self.range.start.clear();
        self.range.start.extend_from_slice(start);
        self.range.end.clear();
        self.range.end.extend_from_slice(end);
        self.is_done = self.range.is_empty();
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
    fn note(&mut self, filled: usize, backward: bool) {
        if self.batch.len() < filled {
            self.is_done = true;
            return;
        }
        let last = self.batch.get(self.batch.len() - 1).0;
        leave(&mut self.range, last, backward);
        self.is_done = self.range.is_empty();
    }
}

/// Cuts `range` to the part after the key `last`, or before it.
fn leave(range: &mut KeyRange, last: &[u8], backward: bool) {
    let bound = if backward { &mut range.end } else { &mut range.start };
    bound.clear();
    bound.extend_from_slice(last);
    if !backward {
        // The least key above.
        bound.push(0);
    }
}
