//! The log: an endless stream of records, of which we keep the part that is still needed.
//!
//! ```text
//! append    writes a record to the file system: from then on it survives the end of the process
//! sync      makes all records before it survive a power cut; one sync serves every writer that waits
//! release   gives up the records before a position: their files are used again
//! replay    reads all records from a position on, up to the first place without one
//! ```
//!
//! The stream is cut into segments ([`segment`]). Each segment is a file that was filled and synced before its first
//! use ([`spares`]), so that a sync only writes records and no metadata.
//!
//! The bytes after the end of the log can be anything: half a record, old records of a reused file, or records whose
//! predecessor was lost because no sync had reached it. So the end is the first position without a whole record
//! ([`record`]). A damaged record would look like the end too, so replay must tell a true end from a false one. Each
//! record holds the position that was synced when it was written, and the file `synced` holds the last such position.
//! If either says that the stream was on disk beyond the end that we found, the log is damaged and replay returns an
//! error. For example, a log that ends at 800 while a later record says that 900 was synced has lost acknowledged
//! commits.
//!
//! A restarted log begins with the next segment that was never used, so it never meets the bytes after an old end.

mod reader;
mod record;
mod segment;
mod spares;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_io::{Disk, DiskFile, OpenMode};

use self::reader::{LogReader, ends_too_early};
use self::record::{Frame, PAYLOAD_BYTES_MAX};
pub(crate) use self::segment::STREAM_START as SEGMENT_FILE_BYTES_MORE;
use self::segment::{FOLDER, Segment, SegmentBytes, slot_of};
use self::spares::Spares;

/// Number of looks at the published file, because another process may be writing it, and the pause between two looks.
const PUBLISHED_LOOKS: usize = 50;
/// The segments of one record that are open at the same time. A record of gigabytes has hundreds.
const OPEN_SEGMENTS: u64 = 8;
const PUBLISHED_PAUSE: Duration = Duration::from_millis(1);

/// Payloads up to this length are copied next to their head and end and written in one call. For longer payloads an
/// extra call costs nothing in comparison, and a copy would cost memory.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// The content of a record, produced as consecutive slices, so that a long payload need not be in memory at once.
pub(crate) trait Payload {
    /// The total length of all slices. It must be exact, because the head of the record is written first.
    fn bytes(&self) -> usize;

    /// Passes the slices to `each` in order, until `each` fails.
    fn write(&self, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;
}

impl<B: AsRef<[u8]> + ?Sized> Payload for B {
    fn bytes(&self) -> usize {
        self.as_ref().len()
    }

    fn write(&self, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        each(self.as_ref())
    }
}

/// A place in the stream, in bytes from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub u64);

/// Options of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Bytes of the stream in one file. Must be a multiple of 8.
    pub segment_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions { segment_bytes: 4 << 20 }
    }
}

/// The result of replaying a log.
#[derive(Debug)]
pub struct Replayed {
    /// The end of the last record.
    pub end: Position,
    /// The position at which a log that is started now begins.
    pub next: Position,
    /// The slots of all files that exist, and the slot for a new file.
    slots: Vec<u32>,
    next_slot: u32,
}

/// A log that is open for writing.
#[derive(Debug)]
pub struct Log {
    disk: Arc<dyn Disk>,
    segment_bytes: SegmentBytes,
    writing: Mutex<LogWriting>,
    syncing: Mutex<Syncing>,
    sync_ended: Condvar,
    /// A copy of [`Syncing::synced`] that can be read without the lock.
    synced: AtomicU64,
    spares: Spares,
    /// The file `synced`, which tells other processes how far the stream is on disk. Opened with the first segment.
    published: OnceLock<Box<dyn DiskFile>>,
    counts: Counts,
}

/// Counts of the work since the log was started.
#[derive(Debug, Default)]
struct Counts {
    records: AtomicU64,
    bytes: AtomicU64,
    syncs: AtomicU64,
}

/// The work of a log since it was started.
#[derive(Clone, Debug)]
pub struct LogWork {
    /// Records that were appended.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of syncs. One sync serves all records before it.
    pub syncs: u64,
    /// Number of files in use, without the ones that were made ahead.
    pub segments: usize,
    /// The error that made the log refuse writes, if there was one.
    pub failure: Option<Error>,
}

/// The files of a log that hold nothing that is needed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogFiles {
    /// Their number.
    pub(crate) spare: usize,
    /// Bytes of the stream in each of them.
    pub(crate) segment_bytes: u64,
}

#[derive(Debug)]
struct LogWriting {
    end: Position,
    /// The segments that are needed, without a gap. Records go to the last one. Empty before the first record.
    segments: VecDeque<Segment>,
    /// Buffer for the next record.
    record: Vec<u8>,
    /// The error that made the log refuse writes, if there was one.
    failure: Option<Error>,
}

#[derive(Debug)]
struct Syncing {
    synced: Position,
    is_busy: bool,
    failure: Option<Error>,
}

impl Log {
    /// Reads the log of `disk` from `from` on and passes the payload of every record to `each`. `from` must be the end
    /// of a record or the start of a log. It is no error if there is no log. Returns `Corrupt` if the end is a false
    /// one.
    pub fn replay(
        disk: &dyn Disk,
        options: LogOptions,
        from: Position,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Replayed> {
        let segment_bytes = SegmentBytes(options.segment_bytes);
        let slots = slots(disk)?;
        let segments = segments(disk, &slots, segment_bytes)?;
        let mut reader = LogReader::new(disk, &segments, segment_bytes);
        let mut end = from;
        while let Some((head, payload)) = reader.record(end)? {
            each(payload)?;
            end.0 += head.record_bytes() as u64;
        }
        // Everything up to here was readable. Now we check that nothing claims that the log was longer.
        if let Some(claim) = reader.claim_behind(end)? {
            return Err(ends_too_early(end, &format!("a record at {} says that it went further", claim.0)));
        }
        if let Some(synced) = published::read(disk)?.filter(|synced| *synced > end) {
            return Err(ends_too_early(end, &format!("it was on disk up to {}", synced.0)));
        }
        // The new log starts in a segment that no file has ever held, so that leftovers after the end can never join
        // its records.
        let used = segments.keys().next_back().map_or(0, |last| last + 1);
        let (number, at) = segment_bytes.place(end);
        let next = segment_bytes.start(used.max(number + u64::from(at > 0)));
        let next_slot = slots.iter().max().map_or(0, |last| last + 1);
        Ok(Replayed { end, next, slots, next_slot })
    }

    /// Reads the log that another process writes, from `from` up to the position that is certainly on disk, and returns
    /// that position. Returns `None` if records are missing in between, because their segments were reused or a new log
    /// was started.
    pub fn follow(
        disk: &dyn Disk,
        options: LogOptions,
        from: Position,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Option<Position>> {
        let Some(synced) = published(disk)?.filter(|synced| *synced > from) else { return Ok(Some(from)) };
        let end = Log::read(disk, options, from..synced, each)?;
        Ok((end >= synced).then_some(end))
    }

    /// Passes the payloads of all records within a range to `each`. The range must begin and end with a record. Returns
    /// the end of the last whole record, which is less than the end of the range if something is missing.
    pub fn read(
        disk: &dyn Disk,
        options: LogOptions,
        stretch: Range<Position>,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Position> {
        let mut end = stretch.start;
        if end >= stretch.end {
            return Ok(end);
        }
        let segment_bytes = SegmentBytes(options.segment_bytes);
        let segments = segments(disk, &slots(disk)?, segment_bytes)?;
        let mut reader = LogReader::new(disk, &segments, segment_bytes);
        while end < stretch.end {
            let Some((head, payload)) = reader.record(end)? else { break };
            each(payload)?;
            end.0 += head.record_bytes() as u64;
        }
        Ok(end)
    }

    /// Starts a log at `replayed.next`. The caller must have stored that position as the one to replay from. The
    /// records of the old log are no longer needed. Their files are reused, the first one by the first record.
    pub fn start(disk: &Arc<dyn Disk>, options: LogOptions, replayed: Replayed) -> Result<Log> {
        let segment_bytes = SegmentBytes(options.segment_bytes);
        if !replayed.slots.is_empty() && published::read(&**disk)?.is_none() {
            // A power cut can leave half of this file, and then no other process could follow the log. We have read the
            // log without it, so we may write it again.
            let file = published::open(&**disk)?;
            published::write(&*file, replayed.next)?;
            file.sync()?;
            disk.sync_dir(FOLDER)?;
        }
        Ok(Log {
            disk: Arc::clone(disk),
            segment_bytes,
            writing: Mutex::new(LogWriting {
                end: replayed.next,
                segments: VecDeque::new(),
                record: Vec::new(),
                failure: None,
            }),
            syncing: Mutex::new(Syncing { synced: replayed.next, is_busy: false, failure: None }),
            sync_ended: Condvar::new(),
            synced: AtomicU64::new(replayed.next.0),
            spares: Spares::start(disk, segment_bytes, replayed.slots, replayed.next_slot)?,
            published: OnceLock::new(),
            counts: Counts::default(),
        })
    }

    /// Creates the folder, the published file and the first segment.
    fn prepare(&self, writing: &mut LogWriting) -> Result<()> {
        self.disk.create_dir(FOLDER)?;
        self.disk.sync_dir("")?;
        if self.published.get().is_none() {
            let file = published::open(&*self.disk)?;
            if file.len()? < published::BYTES as u64 {
                // Later writes replace these bytes in place, so they need no space. The base already has this position.
                published::write(&*file, writing.end)?;
                file.sync()?;
            }
            let _ = self.published.set(file);
        }
        writing.segments.push_back(self.spares.take(self.segment_bytes.place(writing.end).0)?);
        Ok(())
    }

    /// Appends a record and returns its end. The record survives the end of the process, but not yet a power cut.
    ///
    /// An error while another segment is made, such as `DiskFull`, leaves the log as it was. After a failed write of a
    /// record the log refuses all further writes (`Io`), because it is unknown how much of it the file holds.
    pub fn append(&self, payload: &[u8]) -> Result<Position> {
        self.append_slices(payload)
    }

    /// Appends a record whose payload is produced while it is written. See [`Log::append`] for errors.
    pub(crate) fn append_slices(&self, payload: &(impl Payload + ?Sized)) -> Result<Position> {
        let payload_bytes = payload.bytes();
        if payload_bytes > PAYLOAD_BYTES_MAX {
            let message =
                format!("a commit of {payload_bytes} bytes is longer than the log allows ({PAYLOAD_BYTES_MAX})");
            return Err(Error::new(ErrorKind::InvalidParameter, message).hint("split the transaction"));
        }
        let mut writing = self.writing.lock();
        if let Some(failure) = &writing.failure {
            return Err(failure.clone());
        }
        if writing.segments.is_empty() {
            self.prepare(&mut writing)?;
        }
        let position = writing.end;
        let end = Position(position.0 + record::record_bytes(payload_bytes) as u64);
        let last = self.segment_bytes.place(Position(end.0 - 1)).0;
        // We take every segment that the record touches before we write a byte, so that a full disk cannot leave half a
        // record.
        while let Some(behind) = writing.segments.back().map(|segment| segment.number + 1).filter(|next| *next <= last)
        {
            let mut segment = self.spares.take(behind)?;
            if behind > self.segment_bytes.place(position).0 + OPEN_SEGMENTS {
                // A long record would hold too many files open. Making the segment has synced it.
                segment.close();
            }
            writing.segments.push_back(segment);
        }
        let mut frame = Frame::new(payload_bytes, position, Position(self.synced.load(Ordering::Acquire)));
        let written = if payload_bytes <= COPIED_BYTES_MAX {
            let mut bytes = std::mem::take(&mut writing.record);
            bytes.clear();
            bytes.extend_from_slice(&frame.head);
            let gathered = payload.write(&mut |slice| {
                frame.pass(slice);
                bytes.extend_from_slice(slice);
                Ok(())
            });
            let written = gathered.and_then(|()| {
                bytes.extend_from_slice(frame.end().bytes());
                self.write(&mut writing.segments, position, &bytes)
            });
            writing.record = bytes;
            written
        } else {
            let mut at = position;
            let mut write = |part: &[u8]| {
                let written = self.write(&mut writing.segments, at, part);
                at.0 += part.len() as u64;
                written
            };
            let head = frame.head;
            write(&head)
                .and_then(|()| {
                    payload.write(&mut |slice| {
                        frame.pass(slice);
                        write(slice)
                    })
                })
                .and_then(|()| write(frame.end().bytes()))
        };
        match written {
            Ok(()) => {
                writing.end = end;
                let half = self.segment_bytes.0 / 2;
                if self.segment_bytes.place(position).1 < half && self.segment_bytes.place(end).1 >= half {
                    self.spares.expect(0);
                }
                self.counts.records.fetch_add(1, Ordering::Relaxed);
                self.counts.bytes.fetch_add(end.0 - position.0, Ordering::Relaxed);
                Ok(end)
            }
            Err(error) => {
                // Part of the record may be in the file. A later record after it would be unreadable, so we stop here.
                let failure = refused(&error);
                writing.failure = Some(failure.clone());
                Err(failure)
            }
        }
    }

    fn write(&self, segments: &mut VecDeque<Segment>, position: Position, mut bytes: &[u8]) -> Result<()> {
        let (mut number, mut at) = self.segment_bytes.place(position);
        while !bytes.is_empty() {
            let place = segments.iter().rposition(|segment| segment.number == number);
            let place = place.ok_or_else(|| Error::internal("a record after the last segment"))?;
            let segment = &mut segments[place];
            let was_open = segment.is_open();
            let (here, behind) = bytes.split_at(bytes.len().min((self.segment_bytes.0 - at) as usize));
            segment.write(&*self.disk, here, at)?;
            if !was_open && place > 0 && segments[place - 1].is_open() && place >= OPEN_SEGMENTS as usize {
                // The record has left the segment before. Its bytes must be on disk before it is closed, because a sync
                // of the log skips closed segments.
                segments[place - 1].sync()?;
                segments[place - 1].close();
            }
            (bytes, number, at) = (behind, number + 1, 0);
        }
        Ok(())
    }

    /// Returns when the stream is on disk up to `position`. The first caller syncs for every record written so far, and
    /// the others wait for it.
    ///
    /// After an error the log refuses to write or sync.
    pub fn sync_to(&self, position: Position) -> Result<()> {
        let mut syncing = self.syncing.lock();
        loop {
            if syncing.synced >= position {
                return Ok(());
            }
            if let Some(failure) = &syncing.failure {
                return Err(failure.clone());
            }
            if !syncing.is_busy {
                break;
            }
            self.sync_ended.wait(&mut syncing);
        }
        syncing.is_busy = true;
        // The lock must not be held during the sync, so that other writers can queue up for the next one.
        let synced = syncing.synced;
        drop(syncing);
        let (end, done) = self.sync_behind(synced);
        let mut syncing = self.syncing.lock();
        syncing.is_busy = false;
        // The position must be published before the sync counts as done. Otherwise other processes would not see the
        // records, and the next opening might not notice a false end.
        let published = self.published.get().ok_or_else(|| Error::internal("a record without a log"));
        let done = done.and_then(|()| published::write(&**published?, end));
        let outcome = match done {
            Ok(()) => {
                syncing.synced = end;
                self.synced.store(end.0, Ordering::Release);
                self.counts.syncs.fetch_add(1, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                // After a failed sync the system may drop the dirty pages and report success next time, so we never
                // retry.
                let failure = refused(&error);
                syncing.failure = Some(failure.clone());
                self.writing.lock().failure = Some(failure.clone());
                Err(failure)
            }
        };
        self.sync_ended.notify_all();
        outcome
    }

    /// Syncs all segments written since `synced` and returns the end that they now reach.
    fn sync_behind(&self, synced: Position) -> (Position, Result<()>) {
        let mut writing = self.writing.lock();
        let end = writing.end;
        let (first, last) = (self.segment_bytes.place(synced).0, self.segment_bytes.place(Position(end.0 - 1)).0);
        let is_touched = |segment: &&Segment| (first..=last).contains(&segment.number);
        let touched: Vec<Segment> = writing.segments.iter().filter(is_touched).cloned().collect();
        // Segments before these are full and on disk, so no one needs their files open.
        let is_done = |segment: &&mut Segment| segment.number < first && segment.is_open();
        writing.segments.iter_mut().filter(is_done).for_each(Segment::close);
        drop(writing);
        (end, touched.iter().try_for_each(Segment::sync))
    }

    /// Returns the error that made the log refuse writes, if there was one.
    pub fn check(&self) -> Result<()> {
        self.writing.lock().failure.clone().map_or(Ok(()), Err)
    }

    /// Makes the log refuse all further writes, because of `error` elsewhere.
    pub fn refuse(&self, error: &Error) {
        self.writing.lock().failure.get_or_insert_with(|| refused(error));
    }

    /// The options of this log.
    pub fn options(&self) -> LogOptions {
        LogOptions { segment_bytes: self.segment_bytes.0 }
    }

    /// Checks the published file: it must name a position at or after the known synced one, and none after the end of
    /// the log.
    pub(crate) fn check_published(&self) -> Result<()> {
        // The file may still have a position from before this log, which is not after its beginning. It stays until the
        // first sync.
        let known = (self.counts.syncs.load(Ordering::Acquire) > 0).then(|| self.synced());
        let found = look_at_published(&*self.disk, || Ok(known.is_some()))?;
        match (known, found) {
            (Some(known), None) => Err(Error::corrupt(format!(
                "the log is on disk up to {}, but the file that records this is damaged",
                known.0
            ))),
            (Some(known), Some(found)) if found < known => {
                let message = format!("the log is on disk up to {}, but its file says {}", known.0, found.0);
                Err(Error::corrupt(message))
            }
            (_, Some(found)) if found > self.end() => {
                let end = self.end().0;
                Err(Error::corrupt(format!("the log ends at {end}, but its file says that {} is on disk", found.0)))
            }
            _ => Ok(()),
        }
    }

    /// Names in the log's folder that do not belong to the log.
    pub(crate) fn strays(disk: &dyn Disk) -> Result<Vec<String>> {
        let names = disk.list(FOLDER)?.into_iter();
        let names = names.filter(|name| slot_of(name).is_none() && *name != published::NAME);
        Ok(names.map(|name| format!("{FOLDER}/{name}")).collect())
    }

    /// The work of this log since it was started.
    pub fn work(&self) -> LogWork {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let writing = self.writing.lock();
        LogWork {
            records: count(&self.counts.records),
            bytes: count(&self.counts.bytes),
            syncs: count(&self.counts.syncs),
            segments: writing.segments.len(),
            failure: writing.failure.clone(),
        }
    }

    /// The files that hold nothing that is needed.
    pub(crate) fn files(&self) -> LogFiles {
        LogFiles { spare: self.spares.count(), segment_bytes: self.segment_bytes.0 }
    }

    /// The end of the last record.
    pub fn end(&self) -> Position {
        self.writing.lock().end
    }

    /// The position up to which the stream is on disk.
    pub(crate) fn synced(&self) -> Position {
        Position(self.synced.load(Ordering::Acquire))
    }

    /// Announces a record of about this many bytes, so that its segments can be made ahead.
    pub fn expect(&self, record_bytes: u64) {
        if record_bytes > self.segment_bytes.0 {
            self.spares.expect(record_bytes);
        }
    }

    /// Removes the files that are kept for reuse, except for the next segment.
    pub fn trim(&self) -> Result<()> {
        self.spares.trim(1)
    }

    /// Removes the files that are kept for reuse, and the next segment too. It is made again when records have filled
    /// half of the segment before it.
    pub(crate) fn rest(&self) -> Result<()> {
        self.spares.trim(0)
    }

    /// Declares that nothing before `position` is needed. Whole segments before it become free, but the last one always
    /// stays.
    pub fn release(&self, position: Position) {
        let mut writing = self.writing.lock();
        let (first, _) = self.segment_bytes.place(position);
        let mut count = 0;
        while writing.segments.len() > 1
            && let Some(segment) = writing.segments.pop_front_if(|segment| segment.number < first)
        {
            self.spares.give_back(&segment);
            count += 1;
        }
        drop(writing);
        // The next records will probably need as many.
        self.spares.keep(count.max(1));
    }
}

/// The position up to which the stream is on disk according to the writing process, or `None` before there is a log.
/// Returns `Corrupt` if a log exists but its position cannot be read: a reader that took this for an empty log would
/// miss commits.
fn published(disk: &dyn Disk) -> Result<Option<Position>> {
    // Another process may create the log at this moment. It makes the first segment after this file, so we look again
    // below.
    let has_log = || Ok(!slots(disk)?.is_empty());
    let found = look_at_published(disk, has_log)?;
    if found.is_some() || !has_log()? {
        return Ok(found);
    }
    let message = format!("{}: cannot tell how far the log is on disk", disk.describe(&published::path()));
    Err(Error::corrupt(message)
        .in_file(disk.describe(&published::path()))
        .hint("opening the directory for writing does not need this file and rewrites it"))
}

/// Reads the published file. If it should have a position and has none, we look again for a while, because a write may
/// be in progress.
fn look_at_published(disk: &dyn Disk, is_expected: impl Fn() -> Result<bool>) -> Result<Option<Position>> {
    let mut found = published::read(disk)?;
    for _ in 1..PUBLISHED_LOOKS {
        if found.is_some() || !is_expected()? {
            break;
        }
        // The other process may be in the middle of writing it.
        std::thread::sleep(PUBLISHED_PAUSE);
        found = published::read(disk)?;
    }
    Ok(found)
}

/// The slots of all files of the log.
fn slots(disk: &dyn Disk) -> Result<Vec<u32>> {
    Ok(disk.list(FOLDER)?.iter().filter_map(|name| slot_of(name)).collect())
}

/// All segments that the files hold, by segment number.
fn segments(disk: &dyn Disk, slots: &[u32], segment_bytes: SegmentBytes) -> Result<BTreeMap<u64, Segment>> {
    let mut segments = BTreeMap::new();
    for slot in slots {
        let Some(segment) = Segment::open(disk, *slot, segment_bytes)? else { continue };
        if let Some(twin) = segments.insert(segment.number, segment) {
            let (one, other) = (segment::path(*slot), segment::path(twin.slot));
            return Err(Error::corrupt(format!("{one} and {other} hold the same part of the log")));
        }
    }
    Ok(segments)
}

/// The error that every write returns after the first failure.
fn refused(error: &Error) -> Error {
    Error::new(ErrorKind::Io, format!("the log refuses writes after an error: {}", error.message()))
        .hint("reading still works; reopen the database to write again")
}

/// The file `synced`, which tells other processes and the next opening how far the stream is on disk.
mod published {
    use super::{Disk, DiskFile, FOLDER, OpenMode, Position, Result};

    pub(super) const BYTES: usize = 12;
    pub(super) const NAME: &str = "synced";

    pub(super) fn path() -> String {
        format!("{FOLDER}/{NAME}")
    }

    pub(super) fn open(disk: &dyn Disk) -> Result<Box<dyn DiskFile>> {
        disk.open(&path(), OpenMode::Create)
    }

    pub(super) fn write(file: &dyn DiskFile, synced: Position) -> Result<()> {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&synced.0.to_le_bytes());
        bytes[8..].copy_from_slice(&crc32fast::hash(&synced.0.to_le_bytes()).to_le_bytes());
        file.write_all_at(&bytes, 0)
    }

    /// Returns `None` if the file does not exist or a write of it was cut short.
    pub(super) fn read(disk: &dyn Disk) -> Result<Option<Position>> {
        if disk.len(&path())?.is_none_or(|len| len < BYTES as u64) {
            return Ok(None);
        }
        let mut bytes = [0; BYTES];
        disk.open(&path(), OpenMode::Read)?.read_exact_at(&mut bytes, 0)?;
        let (position, sum) = bytes.split_at(8);
        let is_whole = sum == crc32fast::hash(position).to_le_bytes();
        Ok(is_whole.then(|| Position(u64::from_le_bytes(position.try_into().expect("eight bytes")))))
    }
}
