//! Creates and opens the files of a base, and reports their errors.
//!
//! ```text
//! base.lmdb         the data; after compactions base-1.lmdb and so on (`lmdb_numbers.rs`)
//! base.lmdb-lock    LMDB's locks and its table of readers; not part of a backup
//! base.lmdb-new     a base that is being created; must not be used
//! base.lmdb-probe   written to find out whether the disk is full; must not be used
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use heed::types::Bytes;
use heed::{CommitOrAbort, Env, EnvFlags, EnvOpenOptions, FlagSetMode, MdbError, WithoutTls};
use rowmill_base::{Error, ErrorKind, Result};

use super::KEY_LEN_MAX;
use super::lmdb::{LAST_COMMIT_KEY, LAYOUT_VERSION, VERSION_KEY};
use super::lmdb_readers::ReaderTable;
use super::sealed_value::seal;

pub(super) const LOCK_SUFFIX: &str = "-lock";
pub(super) const NEW_SUFFIX: &str = "-new";
const PROBE_SUFFIX: &str = "-probe";
const PROBE_BYTES: usize = 1 << 20;

/// The most reads that all processes together may hold.
const READERS_MAX: u32 = 1_024;

/// The length of a lock file in bytes: a line of 64 bytes per reader, and up to four lines for LMDB's own fields.
const LOCK_FILE_LEN: u64 = (READERS_MAX as u64 + 4) * 64;

/// The least address space that we try to map.
const MAP_BYTES_MIN: usize = 1 << 30;

/// The only map of an environment.
pub(super) type Map = heed::Database<'static, Bytes, Bytes>;

/// The path of `file` with `suffix` appended to its name.
pub(super) fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Whether the disk of `file` is full. Finds out by writing a probe file.
pub(super) fn is_full(file: &Path) -> bool {
    let probe = with_suffix(file, PROBE_SUFFIX);
    let written = fs::write(&probe, vec![1; PROBE_BYTES]);
    // If the probe cannot be removed, the next one overwrites it. It is not part of the database.
    drop(fs::remove_file(&probe));
    written.is_err_and(|e| e.kind() == io::ErrorKind::StorageFull)
}

/// Whether `path` exists. Returns an error if the system does not tell.
pub(super) fn is_there(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|e| Error::io(format_args!("look for {}", path.display()), &e))
}

/// Returns an error if `file` existed before. A lock file without its base means that the base was lost. An empty base
/// in its place would make the rest of the database unusable too.
pub(super) fn check_never_made(file: &Path) -> Result<()> {
    if is_there(&with_suffix(file, LOCK_SUFFIX))? {
        return Err(Error::corrupt(format!("{} is missing, and it was there before", file.display()))
            .hint("restore the directory from a backup; its column files cannot be read without this file"));
    }
    Ok(())
}

/// Creates an empty base, completely or not at all.
pub(super) fn make(file: &Path) -> Result<()> {
    let new = with_suffix(file, NEW_SUFFIX);
    let failed = |e: &io::Error| Error::io(format_args!("make {}", file.display()), e);
    let remove_new = || -> io::Result<()> {
        for path in [new.clone(), with_suffix(&new, LOCK_SUFFIX)] {
            if path.try_exists()? {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    };
    remove_new().map_err(|e| failed(&e))?;
    // The rename makes the base exist, and by then the file is complete and synced. The sync of the directory keeps the
    // name after a power cut.
    fill(&new)?;
    fs::rename(&new, file).and_then(|()| remove_new()).map_err(|e| failed(&e))?;
    let dir = file.parent().expect("a file in a directory has a parent");
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|e| failed(&e))
}

fn fill(new: &Path) -> Result<()> {
    let env = open_env(new, false, MAP_BYTES_MIN)?;
    let (map, _readers) = attach(&env, new, false)?;
    let fill = || -> heed::Result<()> {
        let mut transaction = env.write_txn()?;
        let mut stored = Vec::new();
        for (key, value) in [(VERSION_KEY, &LAYOUT_VERSION.to_le_bytes()[..]), (LAST_COMMIT_KEY, &0_u64.to_le_bytes())]
        {
            seal(key, value, &mut stored);
            map.put(&mut transaction, key, &stored)?;
        }
        transaction.commit()
    };
    fill().map_err(|e| error_of("make", new, e))
}

/// Allocates the disk blocks of the lock file. LMDB only sets its length and writes to a mapping of it, which raises
/// SIGBUS on a full disk.
///
/// We open only a file that is too short, and therefore none that an environment of this process uses. Closing such a
/// file would release that environment's locks.
fn reserve_lock_file(file: &Path) -> Result<()> {
    let path = with_suffix(file, LOCK_SUFFIX);
    if fs::metadata(&path).is_ok_and(|metadata| metadata.len() >= LOCK_FILE_LEN) {
        return Ok(());
    }
    let opened = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    match opened.and_then(|lock_file| rowmill_io::reserve_file(&lock_file, LOCK_FILE_LEN)) {
        Err(e) if e.kind() == io::ErrorKind::StorageFull => Err(Error::io(format_args!("make {}", path.display()), &e)),
        // LMDB meets any other error too. It can read a directory that does not allow writes.
        _ => Ok(()),
    }
}

/// Opens LMDB's environment over `map_bytes` of address space, or over less if the system does not grant that much.
// LMDB's contract cannot be checked by the compiler.
#[allow(unsafe_code)]
pub(super) fn open_env(file: &Path, read_only: bool, map_bytes: usize) -> Result<Env<WithoutTls>> {
    let len = fs::metadata(file).map_or(0, |metadata| metadata.len() as usize);
    // Leave room to grow. If the system refuses this much address space, the loop below halves it.
    let mut map_bytes = map_bytes.max(len.saturating_mul(2)).next_power_of_two();
    reserve_lock_file(file)?;
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    let mut flags = EnvFlags::NO_SUB_DIR | if read_only { EnvFlags::READ_ONLY } else { EnvFlags::empty() };
    options.max_readers(READERS_MAX);
    loop {
        // SAFETY: no flag disables a sync. The flag that disables locks is set only by a process that keeps writers
        // out.
        unsafe { options.flags(flags) };
        options.map_size(map_bytes);
        // SAFETY: 1. The file belongs to LMDB: no other code writes or truncates it, in this process or another. It is
        // new, or its heads and length were checked. 2. It is not open in this process: heed keeps a table of canonical
        // paths and refuses a second open. 3. Only LMDB opens the lock file, and `ReaderTable` once, which closes it
        // after LMDB.
        match unsafe { options.open(file) } {
            Ok(env) => return Ok(env),
            Err(heed::Error::Io(e)) if e.kind() == io::ErrorKind::OutOfMemory && map_bytes > MAP_BYTES_MIN => {
                map_bytes /= 2;
            }
            // The base file could be read before, so it is the lock file that cannot be written. LMDB works without one
            // only if the whole file system is read-only. Here we tell it to.
            Err(heed::Error::Io(e))
                if e.kind() == io::ErrorKind::PermissionDenied && read_only && !flags.contains(EnvFlags::NO_LOCK) =>
            {
                flags |= EnvFlags::NO_LOCK;
            }
            // The heads of the base were checked before, so it is the lock file that is invalid.
            Err(heed::Error::Mdb(MdbError::Invalid)) => return Err(lock_file_unusable(file)),
            Err(e) => return Err(error_of("open", file, e)),
        }
    }
}

/// Disables syncs from now on, except explicit ones. Only for a file that must not be used before it is complete.
// LMDB's contract cannot be checked by the compiler.
#[allow(unsafe_code)]
pub(super) fn without_syncs(env: &Env<WithoutTls>, file: &Path) -> Result<()> {
    // SAFETY: no process opens a file that a crash left incomplete, and the flag changes nothing else.
    unsafe { env.set_flags(EnvFlags::NO_SYNC, FlagSetMode::Enable) }.map_err(|e| error_of("open", file, e))
}

/// The error for an invalid lock file. LMDB recreates the file unless another process has it open, or it cannot tell.
fn lock_file_unusable(file: &Path) -> Error {
    let lock_file = with_suffix(file, LOCK_SUFFIX);
    Error::new(ErrorKind::Io, format!("open {}: it is no lock file of LMDB, and was not replaced", lock_file.display()))
        .hint("open the database again; if no process has the database open, you can remove this file")
}

/// Opens the only map of an environment, and its table of readers.
pub(super) fn attach(env: &Env<WithoutTls>, file: &Path, read_only: bool) -> Result<(Map, Option<ReaderTable>)> {
    let failed = |e| error_of("open", file, e);
    if env.max_key_size() < KEY_LEN_MAX {
        return Err(Error::internal(format!("LMDB takes keys of at most {} bytes", env.max_key_size())));
    }
    let opened = env.open_databases_and_commit(env.read_txn().map_err(failed)?, |opener, transaction| {
        let map = opener.open_database::<Bytes, Bytes>(transaction, None)?;
        Ok(CommitOrAbort::<_, ()>::Commit(map))
    });
    let map = opened.map_err(failed)?.commit().flatten();
    let map = map.ok_or_else(|| Error::corrupt(format!("{}: the main tree is missing", file.display())))?;
    // This read proves the layout of the table: `ReaderTable::open` must find it there.
    let lock_file = with_suffix(file, LOCK_SUFFIX);
    let known = env.read_txn().map_err(failed)?;
    // In a directory that cannot be written LMDB reads without a table.
    if read_only && env.info().number_of_readers == 0 {
        return Ok((map, None));
    }
    Ok((map, Some(ReaderTable::open(&lock_file, env.max_readers(), known.id() as u64)?)))
}

/// Converts an error of LMDB to one of ours.
pub(super) fn error_of(call: &str, file: &Path, cause: heed::Error) -> Error {
    let what = format!("{call} {}", file.display());
    let new = |kind: ErrorKind, text: &str| Error::new(kind, format!("{what}: {text}"));
    match cause {
        heed::Error::Io(e) => Error::io(what, &e),
        heed::Error::EnvAlreadyOpened => new(ErrorKind::Locked, "the file is open in this process already")
            .hint("open the database once and share it between threads"),
        heed::Error::Mdb(MdbError::ReadersFull) => {
            new(ErrorKind::Locked, &format!("{READERS_MAX} statements read at once, which is the limit"))
                .hint("run it again when some of them have ended")
        }
        heed::Error::Mdb(MdbError::VersionMismatch) => {
            new(ErrorKind::NewerFormat, "the file, or a process that has it open, uses another version of LMDB")
        }
        heed::Error::Mdb(MdbError::Panic) => new(ErrorKind::Io, "an earlier write could not be completed")
            .hint("open the database again to continue from the last commit that reached the disk"),
        heed::Error::Mdb(e @ (MdbError::Corrupted | MdbError::PageNotFound | MdbError::Invalid)) => {
            new(ErrorKind::Corrupt, &e.to_string())
                .hint("the ordered base of this database is damaged; restore the directory from a backup")
        }
        e => new(ErrorKind::Internal, &e.to_string()),
    }
}
