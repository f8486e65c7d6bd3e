//! Scans a range of keys in order and merges three sources: the transaction's own writes, the versions in memory, and
//! the base.
//!
//! Each source delivers its next keys in batches. The first batch is small if the caller wants few keys. The next key
//! of the scan is the smallest of the sources' next keys, or the greatest if the scan goes backward. If several sources
//! have that key, the one that was written last hides the others.

use rowmill_base::{CommitId, Result};
use rowmill_storage::RowRunTaker;
use rowmill_storage::keyed::KeyRange;

use super::dead_ranges::DEAD_KEYS_MIN;
use super::read_set::NotedRange;
use super::reader::KeyedReader;
use super::recent_keys::RecentKeys;
use super::version_cursor::{VersionBatch, VersionWindow, go_past};

/// The most keys that a source copies in one batch. With keys and rows of 100 bytes it takes 50 KiB, a part of the
/// second-level cache.
const KEYS_AT_ONCE: usize = 256;

/// The factor by which each batch of a source is larger than the one before. A scan that stops early has copied less
/// than five times the keys that it needed, and one of many keys has full batches after at most four small ones.
const GROWTH: usize = 4;

/// The most rows that a test gets in one call. With 1,024 the lists of their columns fit into the first-level cache.
const RUN_ROWS_MAX: usize = 1024;

/// Tells which rows are wanted, by their keys and their bytes. It must not read the table.
pub trait RowTest {
    /// Whether a row is wanted.
    fn test(&mut self, key: &[u8], row: &[u8]) -> Result<bool>;

    /// Tests many rows at once: appends the places of the wanted ones to `wanted`, ascending. `keys` and `rows` have
    /// the same length. Returns `false` if each row must be tested by itself, and then has done nothing.
    fn test_run(&mut self, _keys: &[&[u8]], _rows: &[&[u8]], _wanted: &mut Vec<u32>) -> Result<bool> {
        Ok(false)
    }
}

impl<F: FnMut(&[u8], &[u8]) -> Result<bool>> RowTest for F {
    fn test(&mut self, key: &[u8], row: &[u8]) -> Result<bool> {
        self(key, row)
    }
}

/// A position in a range of keys. It holds no lock and no read between calls: the caller that started it continues with
/// it, and sees what the transaction wrote in the meantime to keys that are still to come. A scan should be started
/// again and again, because it keeps its memory.
#[derive(Debug, Default)]
pub struct RangeScan {
    /// The transaction's own writes, the versions of commits, the base. An earlier feed hides later ones.
    feeds: [Feed; 3],
    backward: bool,
    whole: KeyRange,
    /// Under SERIALIZABLE, the part of the range that was recorded as read.
    noted: Option<NotedRange>,
    dead: DeadKeys,
    /// Whether only the base has keys left and reads are not recorded.
    is_of_base: bool,
    /// Number of rows at the beginning of the base's batch that come before the next key of the other feeds.
    undisputed: usize,
    /// The number of rows of the next run that is tested.
    run_rows: usize,
    /// The memory of rows that passed a test.
    passing: VersionBatch,
    /// The feed of the last returned key.
    newest: usize,
    /// A buffer that becomes a bound of the rest of the versions.
    next: Vec<u8>,
}

/// Deleted keys at the beginning of a range that is read forward.
#[derive(Debug, Default)]
struct DeadKeys {
    /// Where to start if all keys before it are known to be dead.
    from: Vec<u8>,
    has_from: bool,
    keys: usize,
    /// Whether counting has ended: the first live key was found, or the scan passed one of the transaction's own
    /// deletions, which other transactions do not see.
    is_over: bool,
    is_started: bool,
}

/// One of the three sources: its last batch and the rest of its range.
#[derive(Debug, Default)]
struct Feed {
    batch: VersionBatch,
    at: usize,
    /// The rest of the range, which is not in `batch` yet.
    rest: RestOfRange,
    is_done: bool,
    /// The number of keys of the next batch.
    keys_at_once: usize,
    /// Whether its next key is the one that was returned last.
    is_given: bool,
    /// Whether the batch has only rows that passed the caller's test. `rest` then begins after the last tested row.
    is_tested: bool,
}

/// The start of the keys that are not in a batch yet, or backward their end.
#[derive(Debug, Default)]
struct RestOfRange {
    bound: Vec<u8>,
    /// Whether `bound` replaces the start or end of the whole range.
    is_set: bool,
}

impl RestOfRange {
    /// The start and the end of the remaining keys.
    fn of<'a>(&'a self, whole: &'a KeyRange, backward: bool) -> (&'a [u8], &'a [u8]) {
        match (self.is_set, backward) {
            (false, _) => (&whole.start, &whole.end),
            (true, false) => (&self.bound, &whole.end),
            (true, true) => (&whole.start, &self.bound),
        }
    }

    /// Leaves only the keys after `last`, or backward the keys before it.
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
    /// Whether the feed has no more keys.
    fn is_at_end(&self) -> bool {
        self.is_done && self.at >= self.batch.len()
    }
}

const OWN: usize = 0;
const VERSIONS: usize = 1;
const BASE: usize = 2;

impl RangeScan {
    /// Starts a scan of the keys from `start` up to `end` (exclusive), or backward from the last of them. All keys must
    /// belong to one index. `first` is the expected number of keys that the caller will ask for. If it asks for more,
    /// the scan reads another batch.
    pub fn start(&mut self, start: &[u8], end: &[u8], backward: bool, first: usize) {
        (self.backward, self.noted, self.is_of_base, self.undisputed) = (backward, None, false, 0);
        self.whole.start.clear();
        self.whole.start.extend_from_slice(start);
        self.whole.end.clear();
        self.whole.end.extend_from_slice(end);
        self.run_rows = first.clamp(1, KEYS_AT_ONCE);
        let is_empty = self.whole.is_empty();
        for feed in &mut self.feeds {
            feed.start(first.clamp(1, KEYS_AT_ONCE), is_empty);
        }
        // Dead keys are counted only for forward scans.
        (self.dead.keys, self.dead.is_over, self.dead.is_started) = (0, backward, false);
    }

    /// The range for which the scan was started.
    pub(super) fn whole(&self) -> &KeyRange {
        &self.whole
    }

    /// Returns the next key and its row, or `None` at the end of the range. All calls of one scan must pass a reader of
    /// the same snapshot.
    #[inline]
    pub fn next(&mut self, reader: &KeyedReader<'_>) -> Result<Option<(&[u8], &[u8])>> {
        Ok(self.advance(reader)?.then(|| self.current()))
    }

    /// Goes to the next key. Returns whether there is one.
    #[inline]
    pub(super) fn advance(&mut self, reader: &KeyedReader<'_>) -> Result<bool> {
        Ok(self.next_of_base() || self.next_of_all(reader)?)
    }

    /// Returns the next key whose row passes `test`, and the row. Calls `test` once for each row up to there, in order,
    /// except that it may already have called it for later rows. Rows of the base are tested where they are stored, so
    /// rows that fail are not copied. All calls of one scan must pass the same test.
    pub fn next_passing(&mut self, reader: &KeyedReader<'_>, test: &mut dyn RowTest) -> Result<Option<(&[u8], &[u8])>> {
        loop {
            let is_there = self.next_of_base()
                || match self.next_tested(reader, test)? {
                    Some(is_there) => is_there,
                    None => self.next_of_all(reader)?,
                };
            if !is_there {
                return Ok(None);
            }
            let (key, row) = self.current();
            if self.feeds[self.newest].is_tested || test.test(key, row)? {
                return Ok(Some(self.current()));
            }
        }
    }

    /// Goes to the next row that passes `test`. Returns whether there is one, or `None` if the scan must look at each
    /// key by itself.
    fn next_tested(&mut self, reader: &KeyedReader<'_>, test: &mut dyn RowTest) -> Result<Option<bool>> {
        let mut passing = std::mem::take(&mut self.passing);
        let mut wanted = Vec::new();
        passing.clear();
        let mut has_run = None;
        while passing.is_empty() {
            let tested = self.take_run(reader, self.run_rows, &mut |keys, rows| {
                wanted.clear();
                if !test.test_run(keys, rows, &mut wanted)? {
                    for (at, (key, row)) in keys.iter().zip(rows).enumerate() {
                        if test.test(key, row)? {
                            wanted.push(at as u32);
                        }
                    }
                }
                wanted.iter().for_each(|at| passing.push(keys[*at as usize], Some(rows[*at as usize])));
                Ok(())
            })?;
            has_run = tested.map(|tested| tested > 0);
            if has_run != Some(true) {
                break;
            }
            // A run that may end the scan should be small. A scan whose rows fail goes on with larger runs.
            self.run_rows = (self.run_rows * GROWTH).min(RUN_ROWS_MAX);
        }
        if passing.is_empty() {
            self.passing = passing;
            return Ok(has_run);
        }
        // The rows that passed become the batch of the base: they come before all keys that are left.
        let base = &mut self.feeds[BASE];
        self.passing = std::mem::replace(&mut base.batch, passing);
        (base.at, base.is_given, base.is_tested) = (0, true, true);
        (self.newest, self.undisputed) = (BASE, base.batch.len());
        Ok(Some(true))
    }

    /// The key to which the scan went last, and its row.
    #[inline]
    pub(super) fn current(&self) -> (&[u8], &[u8]) {
        let feed = &self.feeds[self.newest];
        let (key, row) = feed.batch.get(feed.at);
        (key, row.unwrap_or_default())
    }

    /// Goes to the next key in the base's batch if no other feed has keys before it and reads are not recorded. Returns
    /// whether there is one. This is the fast path: it compares no keys.
    #[inline]
    fn next_of_base(&mut self) -> bool {
        let base = &mut self.feeds[BASE];
        let next = base.at + usize::from(base.is_given);
        let end = if self.is_of_base { base.batch.len() } else { self.undisputed };
        if next >= end {
            return false;
        }
        (base.at, base.is_given) = (next, true);
        true
    }

    /// Goes to the first key of the base's next batch, when only the base has keys left and reads are not recorded.
    /// Returns whether there is one.
    fn next_batch_of_base(&mut self, reader: &KeyedReader<'_>) -> Result<bool> {
        let base = &mut self.feeds[BASE];
        base.at += usize::from(std::mem::take(&mut base.is_given));
        self.fill_base(reader)?;
        let base = &mut self.feeds[BASE];
        base.is_given = !base.is_at_end();
        self.newest = BASE;
        Ok(base.is_given)
    }

    /// Goes to the next key of all three feeds. Returns whether there is one.
    fn next_of_all(&mut self, reader: &KeyedReader<'_>) -> Result<bool> {
        // Most scans meet no recent write, so they have no keys to compare.
        if self.is_of_base || self.begin_in_base(reader) {
            return self.next_batch_of_base(reader);
        }
        self.undisputed = 0;
        // Each round takes the next key of all feeds. Deleted keys are counted and skipped.
        loop {
            self.pass_given();
            self.fill(reader)?;
            let newest = self.choose();
            // Under SERIALIZABLE we must record a deleted key too: a commit that writes it again is a conflict.
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
                if newest == BASE && !is_alone && reader.reads().is_none() {
                    self.undisputed = self.rows_before_recent();
                }
                return Ok(true);
            }
            self.dead.keys += 1;
            self.dead.is_over |= newest == OWN;
        }
    }

    /// The number of rows at the beginning of the base's batch that come before the next key of the other feeds.
    fn rows_before_recent(&self) -> usize {
        let backward = self.backward;
        let base = &self.feeds[BASE];
        let recent = self.feeds[..BASE].iter().filter_map(Feed::key);
        let Some(next) = (if backward { recent.max() } else { recent.min() }) else { return 0 };
        let is_before = |at: usize| {
            let key = base.batch.get(at).0;
            if backward { key > next } else { key < next }
        };
        // The rows are in order, so we search for the first one that is not before.
        let (mut from, mut to) = (base.at, base.batch.len());
        while from < to {
            let middle = from.midpoint(to);
            match is_before(middle) {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        from
    }

    /// Hands the next rows, at most `rows_max`, to `take`, in order: those of the base where they are stored, and
    /// between them the recent ones. Returns the number of keys that it has passed, with deleted ones; 0 means that
    /// there are no more. Returns `None` if the scan must look at each key by itself, or has rows in the batch of the
    /// base.
    pub(super) fn take_run(
        &mut self,
        reader: &KeyedReader<'_>,
        rows_max: usize,
        take: &mut RowRunTaker<'_>,
    ) -> Result<Option<usize>> {
        let base = &self.feeds[BASE];
        if reader.reads().is_some() || base.at + usize::from(base.is_given) < base.batch.len() {
            return Ok(None);
        }
        if !self.is_of_base && !self.begin_in_base(reader) {
            // Deleted keys at the beginning of the range are counted one by one.
            if !self.dead.is_over {
                return Ok(None);
            }
            self.undisputed = 0;
            self.pass_given();
            self.fill_recent(reader);
        }
        let (whole, backward) = (&self.whole, self.backward);
        let (recent, base) = self.feeds.split_at_mut(BASE);
        let base = &mut base[0];
        base.at += usize::from(std::mem::take(&mut base.is_given));
        base.leave_batch(whole, backward);
        // The other feeds know their keys up to the last one of their batches, so the run must end there.
        let is_before = |left: &[u8], right: &[u8]| if backward { left > right } else { left < right };
        let known = recent.iter().filter(|feed| !feed.is_done).map(|feed| feed.batch.get(feed.batch.len() - 1).0);
        let horizon = known.reduce(|one, other| if is_before(one, other) { one } else { other });
        let feeds = [OWN, VERSIONS].map(|feed| (recent[feed].at, &recent[feed].batch));
        let mut recent_keys = RecentKeys::new(feeds, horizon, backward);
        let mut run = None;
        let (start, end) = base.rest.of(whole, backward);
        let mut beyond = Vec::new();
        let (start, end) = match horizon {
            None => (start, end),
            Some(horizon) if backward => (start.max(horizon), end),
            Some(horizon) => {
                go_past(horizon, false, &mut beyond);
                (start, if end.is_empty() { &beyond[..] } else { end.min(&beyond[..]) })
            }
        };
        if !base.is_done && (end.is_empty() || start < end) {
            reader.base().read((), |tree| {
                tree.range_in_runs(start, end, backward, rows_max, &mut |keys, rows| {
                    run = Some(recent_keys.merge(keys, rows, rows_max, take)?);
                    Ok(0)
                })
            })?;
        }
        let run = match run {
            Some(run) => run,
            None => recent_keys.merge(&[], &[], rows_max, take)?,
        };
        if !base.is_done {
            match horizon {
                _ if run.is_full => base.rest.go_past(&run.last, backward),
                None => base.is_done = true,
                Some(horizon) => base.rest.go_past(horizon, backward),
            }
            base.is_done |= base.rest.is_empty(whole, backward);
        }
        let at = recent_keys.places();
        for (feed, at) in recent.iter_mut().zip(at) {
            feed.at = at;
        }
        Ok(Some(run.keys))
    }

    /// Skips the next rows, at most `rows_max`, as if the caller had asked for each, and returns how many it skipped.
    /// This may be fewer than `rows_max` although more rows follow, but 0 only at the end of the range.
    pub fn pass(&mut self, reader: &KeyedReader<'_>, rows_max: usize) -> Result<usize> {
        if rows_max == 0 {
            return Ok(0);
        }
        if !self.is_of_base && !self.begin_in_base(reader) {
            return self.pass_between(reader, rows_max);
        }
        let (whole, backward) = (&self.whole, self.backward);
        let base = &mut self.feeds[BASE];
        // First skip the rest of the base's batch, then skip in the tree without copying keys.
        let next = base.at + usize::from(base.is_given);
        let left = base.batch.len().saturating_sub(next);
        if left > 0 {
            let passed = left.min(rows_max);
            (base.at, base.is_given) = (next + passed - 1, true);
            return Ok(passed);
        }
        (base.at, base.is_given) = (next, false);
        base.leave_batch(whole, backward);
        if base.is_done {
            return Ok(usize::from(self.next_of_all(reader)?));
        }
        // The batch is used up, so skip keys in the tree of the base and remember only the last one.
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

    /// Skips rows like [`pass`](Self::pass) if other feeds than the base have keys. The rows of the base before the
    /// next key of those feeds are skipped in the tree.
    fn pass_between(&mut self, reader: &KeyedReader<'_>, rows_max: usize) -> Result<usize> {
        // Under SERIALIZABLE each key is recorded, so we must look at each.
        if reader.reads().is_some() {
            return Ok(usize::from(self.next_of_all(reader)?));
        }
        self.undisputed = 0;
        self.pass_given();
        self.fill_recent(reader);
        let passed = self.pass_base(reader, rows_max)?;
        if passed == 0 {
            return Ok(usize::from(self.next_of_all(reader)?));
        }
        // The base has a live key before the first key of the versions.
        self.dead.is_over = true;
        Ok(passed)
    }

    /// Skips rows of the base that come before the next key of the other feeds, at most `rows_max`, and returns how
    /// many it skipped. For example, if the next recent version has key 900 and the base goes on with key 5, the rows 5
    /// to 899 are skipped in the tree.
    fn pass_base(&mut self, reader: &KeyedReader<'_>, rows_max: usize) -> Result<usize> {
        let (whole, backward) = (&self.whole, self.backward);
        let (recent, base) = self.feeds.split_at_mut(BASE);
        let (recent, base) = (recent.iter().filter_map(Feed::key), &mut base[0]);
        let next = if backward { recent.max() } else { recent.min() };
        base.leave_batch(whole, backward);
        if base.at < base.batch.len() {
            let is_before = |key: &[u8]| next.is_none_or(|next| if backward { key > next } else { key < next });
            let left = (base.at..base.batch.len()).take(rows_max);
            let passed = left.take_while(|at| is_before(base.batch.get(*at).0)).count();
            base.at += passed;
            return Ok(passed);
        }
        // The scan comes back to the base after each key of the other feeds, so its batches must stay small.
        base.keys_at_once = 1;
        let (start, end) = base.rest.of(whole, backward);
        let mut after = Vec::new();
        let (start, end) = match next {
            Some(next) if backward => {
                go_past(next, false, &mut after);
                (start.max(&after[..]), end)
            }
            Some(next) => (start, if end.is_empty() { next } else { end.min(next) }),
            None => (start, end),
        };
        if base.is_done || !end.is_empty() && start >= end {
            return Ok(0);
        }
        let mut last = Vec::new();
        let passed = reader.base().read(0, |tree| tree.pass(start, end, backward, rows_max, &mut last))?;
        if passed == rows_max {
            base.rest.go_past(&last, backward);
        } else {
            // All rows up to the next key of the other feeds were skipped.
            let edge = if backward { start } else { end }.to_vec();
            base.rest = RestOfRange { bound: edge, is_set: true };
        }
        // Without an edge, the range had no upper end and was skipped as a whole.
        base.is_done = base.rest.bound.is_empty() || base.rest.is_empty(whole, backward);
        Ok(passed)
    }

    /// Begins the scan if no key was read yet. Returns whether only the base has keys of the range and reads are not
    /// recorded: then keys of the base need no comparison with others.
    fn begin_in_base(&mut self, reader: &KeyedReader<'_>) -> bool {
        if std::mem::replace(&mut self.dead.is_started, true) {
            return false;
        }
        self.pass_dead(reader);
        if reader.reads().is_some() {
            return false;
        }
        self.fill_recent(reader);
        self.is_of_base = self.feeds[..BASE].iter().all(Feed::is_at_end);
        self.dead.is_over |= self.is_of_base;
        self.is_of_base
    }

    /// Starts the scan after keys that are known to be dead.
    fn pass_dead(&mut self, reader: &KeyedReader<'_>) {
        let (store, commit) = (reader.state().store(), reader.state().commit());
        self.dead.has_from = !self.backward && store.dead().end_of(&self.whole.start, commit, &mut self.dead.from);
        // The transaction may have written rows into the dead range, so only the other two sources skip it.
        if self.dead.has_from {
            for feed in &mut self.feeds[VERSIONS..] {
                feed.rest.bound.clone_from(&self.dead.from);
                feed.rest.is_set = true;
                feed.is_done = feed.rest.is_empty(&self.whole, false);
            }
        }
    }

    /// Records dead keys at the beginning of the range: all keys before the first live one, which is the next key of
    /// the feed `first`, or the end of the range.
    fn note_dead(&mut self, reader: &KeyedReader<'_>, first: Option<usize>) {
        // The first live key must not be an own write, because other transactions would not see it there.
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

    /// Under SERIALIZABLE, records that the range was read up to the next key of a feed, or up to its end.
    fn note_read(&mut self, reader: &KeyedReader<'_>, feed: Option<usize>) {
        let Some(reads) = reader.reads() else { return };
        if self.whole.is_empty() {
            return;
        }
        let last = feed.and_then(|feed| self.feeds[feed].key());
        let snapshot = reader.state().commit();
        self.noted = Some(reads.note_passed(self.noted, &self.whole, last, self.backward, snapshot));
    }

    /// Moves each feed past the key that was returned last.
    fn pass_given(&mut self) {
        for feed in &mut self.feeds {
            feed.at += usize::from(std::mem::take(&mut feed.is_given));
        }
    }

    /// Finds the next key of all feeds, marks the feeds that have it, and returns the first of them: it was written
    /// last.
    fn choose(&mut self) -> Option<usize> {
        let keys = self.feeds.iter().filter_map(Feed::key);
        let next = if self.backward { keys.max() } else { keys.min() }?;
        let has_it = [OWN, VERSIONS, BASE].map(|feed| self.feeds[feed].key() == Some(next));
        for (feed, has_it) in self.feeds.iter_mut().zip(has_it) {
            feed.is_given = has_it;
        }
        has_it.iter().position(|has_it| *has_it)
    }

    fn fill(&mut self, reader: &KeyedReader<'_>) -> Result<()> {
        self.fill_recent(reader);
        self.fill_base(reader)
    }

    /// Fills the batches of the transaction's own writes and of the versions.
    fn fill_recent(&mut self, reader: &KeyedReader<'_>) {
        let (whole, backward) = (&self.whole, self.backward);
        let [own, versions, _] = &mut self.feeds;
        match reader.own() {
            None => own.is_done = own.at >= own.batch.len(),
            Some(written) => {
                own.leave_batch(whole, backward);
                if let Some(keys_max) = own.start_batch() {
                    let (start, end) = own.rest.of(whole, backward);
                    written.fill(start, end, backward, keys_max, &mut own.batch);
                    own.is_done = own.batch.len() < keys_max;
                }
            }
        }
        if let Some(keys_max) = versions.start_batch() {
            let state = reader.state();
            let of_range = state.store().versions().of_range(whole);
            versions.is_done |= of_range.is_unused();
            let window = VersionWindow { after: CommitId(0), at: state.commit(), backward };
            // A look at the versions ends after some entries, so that the lock is held only briefly. Thus it may find
            // no key although more follow.
            while versions.batch.is_empty() && !versions.is_done {
                let (start, end) = versions.rest.of(whole, backward);
                let batch = &mut versions.batch;
                versions.is_done = !window.read(of_range, start, end, keys_max, batch, &mut self.next);
                std::mem::swap(&mut versions.rest.bound, &mut self.next);
                versions.rest.is_set = true;
            }
        }
    }

    /// Fills the batch of the base if it is used up.
    fn fill_base(&mut self, reader: &KeyedReader<'_>) -> Result<()> {
        let (whole, backward) = (&self.whole, self.backward);
        let feed = &mut self.feeds[BASE];
        feed.leave_batch(whole, backward);
        let Some(keys_max) = feed.start_batch() else { return Ok(()) };
        feed.is_tested = false;
        let batch = &mut feed.batch;
        let (start, end) = feed.rest.of(whole, backward);
        reader.base().read((), |base| {
            base.range_in_runs(start, end, backward, keys_max, &mut |keys, rows| {
                keys.iter().zip(rows).for_each(|(key, row)| batch.push(key, Some(row)));
                Ok(0)
            })
        })?;
        feed.is_done = feed.batch.len() < keys_max;
        Ok(())
    }
}

impl Feed {
    fn start(&mut self, first: usize, is_done: bool) {
        self.batch.clear();
        (self.at, self.is_given, self.keys_at_once) = (0, false, first);
        (self.rest.is_set, self.is_done, self.is_tested) = (false, is_done, false);
    }

    fn key(&self) -> Option<&[u8]> {
        (self.at < self.batch.len()).then(|| self.batch.get(self.at).0)
    }

    /// If the whole batch was passed and more keys may follow, lets the rest of the range begin after the last key of
    /// the batch. Most scans end before that, so they need no copy of that key.
    fn leave_batch(&mut self, whole: &KeyRange, backward: bool) {
        if self.is_done || self.batch.is_empty() || self.at < self.batch.len() {
            return;
        }
        // After a batch of tested rows the rest begins after the last row that was tested.
        if !std::mem::take(&mut self.is_tested) {
            self.rest.go_past(self.batch.get(self.batch.len() - 1).0, backward);
            self.is_done = self.rest.is_empty(whole, backward);
        }
        self.batch.clear();
        self.at = 0;
    }

    /// If the whole batch was passed and more keys may follow, empties it and returns the number of keys for the next
    /// one.
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
}
