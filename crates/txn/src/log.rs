//! The log: records one behind the other in a stream without end, of which the part is kept that is needed.
//!
//! ```text
//! append    a record goes to the file system: it outlives the process from then on
//! sync      it outlives a power cut; whoever waits for a later record has it synced with those before
//! release   the records before a position are not needed: their files are used again
//! replay    what is there from a position on, up to the first place without a record
//! ```
//!
//! The stream lies in segments ([`segment`]), files that are written and synced before they are used ([`spares`]), so that a
//! sync writes the records alone.
//!
//! Behind the end there may be anything: half a record, records of a reused file, records of which one before is missing because no
//! sync had reached it. So the end is the first position without a whole record ([`record`]). It is a false end, and that an error, if
//! anything says that the stream was on disk beyond it: a record behind it, each of which has the position that was synced
//! when it was written, or the file `synced`, which has the last such position. A log that is started again begins with the
//! next segment that was never used, so that it never meets what lies behind an old end.

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

use self::reader::{Reader, ends_too_early};
use self::record::{Frame, PAYLOAD_BYTES_MAX};
use self::segment::{FOLDER, Segment, SegmentBytes, slot_of};
use self::spares::Spares;

/// Looks at the file that others read, since it may be written meanwhile, and the time between them.
const PUBLISHED_LOOKS: usize = 50;
const PUBLISHED_PAUSE: Duration = Duration::from_millis(1);

/// Payloads up to so many bytes are written in one call with what stands around them; a call more costs longer ones nothing, and
/// memory for a copy of them would.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// What a record has: slices that are made one behind the other, so that a long one need not be in memory.
pub trait Payload {
    /// Bytes of all slices.
    fn bytes(&self) -> usize;

    /// Gives `each` the slices, until it fails.
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

/// How a log is kept.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Bytes of the stream in one file; a multiple of 8.
    pub segment_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions { segment_bytes: 4 << 20 }
    }
}

/// What was found of a log.
#[derive(Debug)]
pub struct Replayed {
    /// Behind the last record.
    pub end: Position,
    /// Where a log that is started now begins.
    pub next: Position,
    /// All files there are, and the number for a new one.
    slots: Vec<u32>,
    next_slot: u32,
}

/// A log that is written.
#[derive(Debug)]
pub struct Log {
    disk: Arc<dyn Disk>,
    segment_bytes: SegmentBytes,
    writing: Mutex<Writing>,
    syncing: Mutex<Syncing>,
    sync_ended: Condvar,
    /// [`Syncing::synced`], for whoever does not wait for it.
    synced: AtomicU64,
    spares: Spares,
    /// The file for others, made with the first segment.
    published: OnceLock<Box<dyn DiskFile>>,
    counts: Counts,
}

/// What was done since the log was started.
#[derive(Debug, Default)]
struct Counts {
    records: AtomicU64,
    bytes: AtomicU64,
    syncs: AtomicU64,
}

/// What a log has done since it was started.
#[derive(Clone, Debug)]
pub struct LogWork {
    /// Records that were appended.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Syncs, each of which served all records before it.
    pub syncs: u64,
    /// Files that it has, those made ahead not among them.
    pub segments: usize,
    /// Why nothing is written any more.
    pub failure: Option<Error>,
}

#[derive(Debug)]
struct Writing {
    end: Position,
    /// Those that are needed, without a gap; the last is written. There is none before the first record.
    segments: VecDeque<Segment>,
    /// Scratch for the next record.
    record: Vec<u8>,
    /// Why nothing is written any more.
    failure: Option<Error>,
}

#[derive(Debug)]
struct Syncing {
    synced: Position,
    is_busy: bool,
    failure: Option<Error>,
}

impl Log {
    /// Reads the log of `disk` from `from` on, where a record ends or a log was started, and gives `each` the payload of every record, up to
    /// the end. There need not be a log. `Corrupt` if the end is a false one.
    pub fn replay(
        disk: &dyn Disk,
        options: LogOptions,
        from: Position,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Replayed> {
        let segment_bytes = SegmentBytes(options.segment_bytes);
        let slots = slots(disk)?;
        let segments = segments(disk, &slots, segment_bytes)?;
        let mut reader = Reader::new(&segments, segment_bytes);
        let mut end = from;
        while let Some((head, payload)) = reader.record(end)? {
            each(payload)?;
            end.0 += head.record_bytes() as u64;
        }
        if let Some(claim) = reader.claim_behind(end)? {
            return Err(ends_too_early(end, &format!("a record at {} says that it went further", claim.0)));
        }
        if let Some(synced) = published::read(disk)?.filter(|synced| *synced > end) {
            return Err(ends_too_early(end, &format!("it was on disk up to {}", synced.0)));
        }
        let used = segments.keys().next_back().map_or(0, |last| last + 1);
        let (number, at) = segment_bytes.place(end);
        let next = segment_bytes.start(used.max(number + u64::from(at > 0)));
        let next_slot = slots.iter().max().map_or(0, |last| last + 1);
        Ok(Replayed { end, next, slots, next_slot })
    }

    /// Reads the log that another process writes, from `from` on up to what is on disk for certain, and says where that ends. `None`
    /// if records are missing before: their segments are used again, or a new log was begun.
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

    /// Gives `each` the payloads of the records of a stretch that begins and ends with one, and says how far there are whole
    /// ones: less than its end if something is missing.
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
        let mut reader = Reader::new(&segments, segment_bytes);
        while end < stretch.end {
            let Some((head, payload)) = reader.record(end)? else { break };
            each(payload)?;
            end.0 += head.record_bytes() as u64;
        }
        Ok(end)
    }

    /// Starts a log at `replayed.next`, from where it is to be replayed from now on: the caller has that on disk. Nothing of the old
    /// one is needed any more; its files are written over, the first of them by the first record.
    pub fn start(disk: &Arc<dyn Disk>, options: LogOptions, replayed: Replayed) -> Result<Log> {
        let segment_bytes = SegmentBytes(options.segment_bytes);
        if !replayed.slots.is_empty() && published::read(&**disk)?.is_none() {
            // A power cut can leave half of it, and nobody would follow. All that there was to be read was read without it.
            let file = published::open(&**disk)?;
            published::write(&*file, replayed.next)?;
            file.sync()?;
            disk.sync_dir(FOLDER)?;
        }
        Ok(Log {
            disk: Arc::clone(disk),
            segment_bytes,
            writing: Mutex::new(Writing {
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

    /// Makes the folder and the first segment.
    fn prepare(&self, writing: &mut Writing) -> Result<()> {
        self.disk.create_dir(FOLDER)?;
        self.disk.sync_dir("")?;
        if self.published.get().is_none() {
            let file = published::open(&*self.disk)?;
            if file.len()? < published::BYTES as u64 {
                // What is written to it later needs no space. That much is in the base.
                published::write(&*file, writing.end)?;
                file.sync()?;
            }
            let _ = self.published.set(file);
        }
        writing.segments.push_back(self.spares.take(self.segment_bytes.place(writing.end).0)?);
        Ok(())
    }

    /// Puts a record behind the last one and says where it ends. It outlives the process, but not yet a power cut.
    ///
    /// Whatever happens while another segment is made, `DiskFull` above all, leaves the log as it was. After a write that failed
    /// nothing is written any more (`Io`), since it is not known what the file holds.
    pub fn append(&self, payload: &[u8]) -> Result<Position> {
        self.append_slices(payload)
    }

    /// The same, of a payload that is made while it is written.
    pub fn append_slices(&self, payload: &(impl Payload + ?Sized)) -> Result<Position> {
        let payload_bytes = payload.bytes();
        if payload_bytes > PAYLOAD_BYTES_MAX {
            let message =
                format!("a commit of {payload_bytes} bytes is longer than the log takes ({PAYLOAD_BYTES_MAX})");
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
        while let Some(behind) = writing.segments.back().map(|segment| segment.number + 1).filter(|next| *next <= last)
        {
            let segment = self.spares.take(behind)?;
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
                self.write(&writing.segments, position, &bytes)
            });
            writing.record = bytes;
            written
        } else {
            let mut at = position;
            let mut write = |part: &[u8]| {
                let written = self.write(&writing.segments, at, part);
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
                self.counts.records.fetch_add(1, Ordering::Relaxed);
                self.counts.bytes.fetch_add(end.0 - position.0, Ordering::Relaxed);
                Ok(end)
            }
            Err(error) => {
                let failure = refused(&error);
                writing.failure = Some(failure.clone());
                Err(failure)
            }
        }
    }

    fn write(&self, segments: &VecDeque<Segment>, position: Position, mut bytes: &[u8]) -> Result<()> {
        let (mut number, mut at) = self.segment_bytes.place(position);
        while !bytes.is_empty() {
            let segment = segments.iter().rfind(|segment| segment.number == number);
            let segment = segment.ok_or_else(|| Error::internal("a record behind the last segment"))?;
            let (here, behind) = bytes.split_at(bytes.len().min((self.segment_bytes.0 - at) as usize));
            segment.write(here, at)?;
            (bytes, number, at) = (behind, number + 1, 0);
        }
        Ok(())
    }

    /// Returns when the stream is on disk up to `position`. Whoever comes first syncs for all whose records are there by then.
    ///
    /// After an error nothing is written or synced any more.
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
        let synced = syncing.synced;
        drop(syncing);
        let (end, done) = self.sync_behind(synced);
        let mut syncing = self.syncing.lock();
        syncing.is_busy = false;
        // Where it cannot be published others would not follow, and a false end might not be found.
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
                let failure = refused(&error);
                syncing.failure = Some(failure.clone());
                self.writing.lock().failure = Some(failure.clone());
                Err(failure)
            }
        };
        self.sync_ended.notify_all();
        outcome
    }

    /// Syncs what is written from `synced` on, and says how far that goes.
    fn sync_behind(&self, synced: Position) -> (Position, Result<()>) {
        let writing = self.writing.lock();
        let end = writing.end;
        let (first, last) = (self.segment_bytes.place(synced).0, self.segment_bytes.place(Position(end.0 - 1)).0);
        let is_touched = |segment: &&Segment| (first..=last).contains(&segment.number);
        let touched: Vec<Segment> = writing.segments.iter().filter(is_touched).cloned().collect();
        drop(writing);
        (end, touched.iter().try_for_each(Segment::sync))
    }

    /// An error if nothing is written any more.
    pub fn check(&self) -> Result<()> {
        self.writing.lock().failure.clone().map_or(Ok(()), Err)
    }

    /// Writes nothing any more, because of `error` elsewhere.
    pub fn refuse(&self, error: &Error) {
        self.writing.lock().failure.get_or_insert_with(|| refused(error));
    }

    /// How it is kept.
    pub fn options(&self) -> LogOptions {
        LogOptions { segment_bytes: self.segment_bytes.0 }
    }

    /// Compares the file for others with what is known: it has what is on disk for certain, and nothing that is not there.
    pub fn check_published(&self) -> Result<()> {
        // What the file has from a time before is not beyond this log's beginning, and stays until the first sync.
        let known = (self.counts.syncs.load(Ordering::Acquire) > 0).then(|| self.synced());
        let found = look_at_published(&*self.disk, || Ok(known.is_some()))?;
        match (known, found) {
            (Some(known), None) => Err(Error::corrupt(format!(
                "the log is on disk up to {}, and the file that has that is damaged",
                known.0
            ))),
            (Some(known), Some(found)) if found < known => {
                let message = format!("the log is on disk up to {}, and {} is what the file says", known.0, found.0);
                Err(Error::corrupt(message))
            }
            (_, Some(found)) if found > self.end() => {
                let end = self.end().0;
                Err(Error::corrupt(format!("the log ends at {end}, and a file says that {} is on disk", found.0)))
            }
            _ => Ok(()),
        }
    }

    /// Names in the log's folder that are none of its own.
    pub fn strays(disk: &dyn Disk) -> Result<Vec<String>> {
        let names = disk.list(FOLDER)?.into_iter();
        let names = names.filter(|name| slot_of(name).is_none() && *name != published::NAME);
        Ok(names.map(|name| format!("{FOLDER}/{name}")).collect())
    }

    /// What it has done since it was started.
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

    /// Behind the last record.
    pub fn end(&self) -> Position {
        self.writing.lock().end
    }

    /// Up to where the stream is on disk.
    pub fn synced(&self) -> Position {
        Position(self.synced.load(Ordering::Acquire))
    }

    /// Notes that a record of so many bytes is likely to come: segments for it are made meanwhile.
    pub fn expect(&self, record_bytes: u64) {
        if record_bytes > self.segment_bytes.0 {
            self.spares.expect(record_bytes);
        }
    }

    /// Removes the files that are kept to be used again.
    pub fn trim(&self) -> Result<()> {
        self.spares.trim()
    }

    /// Nothing before `position` is needed any more.
    pub fn release(&self, position: Position) {
        let mut writing = self.writing.lock();
        let (first, _) = self.segment_bytes.place(position);
        while writing.segments.len() > 1
            && let Some(segment) = writing.segments.pop_front_if(|segment| segment.number < first)
        {
            self.spares.give_back(&segment);
        }
    }
}

/// Up to where the stream is on disk, as the writing process says; `None` before there is a log. `Corrupt` if it says nothing any
/// more: who took that for no log would answer without what the log has.
fn published(disk: &dyn Disk) -> Result<Option<Position>> {
    // The first segment is made behind it.
    let has_log = || Ok(!slots(disk)?.is_empty());
    let found = look_at_published(disk, has_log)?;
    if found.is_some() || !has_log()? {
        return Ok(found);
    }
    let message = format!("{}: it does not say up to where the log is on disk", disk.describe(&published::path()));
    Err(Error::corrupt(message).hint("opening the directory for writing reads the log without it and makes it anew"))
}

/// What the file for others says; where it has to say something and does not, it is looked at again for a while.
fn look_at_published(disk: &dyn Disk, is_expected: impl Fn() -> Result<bool>) -> Result<Option<Position>> {
    let mut found = published::read(disk)?;
    for _ in 1..PUBLISHED_LOOKS {
        if found.is_some() || !is_expected()? {
            break;
        }
        // It may be written this moment.
        std::thread::sleep(PUBLISHED_PAUSE);
        found = published::read(disk)?;
    }
    Ok(found)
}

/// The numbers of the files that there are.
fn slots(disk: &dyn Disk) -> Result<Vec<u32>> {
    Ok(disk.list(FOLDER)?.iter().filter_map(|name| slot_of(name)).collect())
}

/// The segments that files hold, by number.
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

/// What is said from the first failure on.
fn refused(error: &Error) -> Error {
    Error::new(ErrorKind::Io, format!("the log cannot be written any more: {}", error.message()))
        .hint("reading goes on; writing does when the database is opened again")
}

/// The file that has up to where the stream is on disk, for other processes and for the next opening.
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

    /// `None` if there is no such file, or it was being written.
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
