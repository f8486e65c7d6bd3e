#![allow(clippy::unwrap_used)]

use super::*;

fn batch(key: &[u8], value: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key, value);
    batch
}

/// The files of the base whose names end in `end`.
fn files(dir: &Path, end: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(dir.join(ROCKS_DIR)).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.to_str().unwrap().ends_with(end)).collect()
}

#[test]
fn reopening_finds_all_entries() {
    let dir = tempfile::tempdir().unwrap();
    assert!(!RocksBase::exists(dir.path()).unwrap());
    for commit in 1..5 {
        let base = RocksBase::open(dir.path()).unwrap();
        assert_eq!(base.commit_id().unwrap(), CommitId(commit - 1));
        base.write(&batch(b"a", &commit.to_le_bytes()), CommitId(commit)).unwrap();
        let read = base.read().unwrap();
        // The read should keep the base open.
        drop(base);
        assert_eq!(RocksBase::open(dir.path()).unwrap_err().kind(), ErrorKind::Locked);
        assert_eq!(read.get(b"a").unwrap().unwrap(), commit.to_le_bytes());
    }
    let base = RocksBase::open(dir.path()).unwrap();
    assert!(base.check(&Cancel::new()).unwrap().is_whole());
    // Two reserved keys and one other key.
    assert_eq!(base.check(&Cancel::new()).unwrap().entries, 3);
}

#[test]
fn an_unfinished_base_is_replaced_and_a_lost_base_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let new = tree::with_suffix(&dir.path().join(ROCKS_DIR), NEW_SUFFIX);
    fs::create_dir(&new).unwrap();
    fs::write(new.join("MANIFEST-000001"), b"nothing").unwrap();
    drop(RocksBase::open(dir.path()).unwrap());
    assert!(!new.exists());
    fs::remove_file(dir.path().join(ROCKS_DIR).join(CURRENT_FILE)).unwrap();
    assert_eq!(RocksBase::open(dir.path()).unwrap_err().kind(), ErrorKind::Corrupt);

    let dir = tempfile::tempdir().unwrap();
    drop(crate::base::TreeBase::open(dir.path(), false).unwrap());
    fs::remove_file(dir.path().join(crate::base::BASE_FILE)).unwrap();
    assert_eq!(RocksBase::open(dir.path()).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn damage_is_an_error_but_a_torn_end_of_the_log_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let base = RocksBase::open(dir.path()).unwrap();
    for commit in 1..20_u64 {
        base.write(&batch(&commit.to_be_bytes().map(|byte| byte | 1), &[7; 500]), CommitId(commit)).unwrap();
    }
    drop(base);
    let logs = files(dir.path(), ".log");
    let log = logs.iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let whole = fs::read(log).unwrap();
    assert!(whole.len() > 9_000, "the log should hold the writes");
    // Tear the last write as a crash would.
    fs::write(log, &whole[..whole.len() - 100]).unwrap();
    let torn = RocksBase::open(dir.path()).unwrap();
    assert_eq!(torn.commit_id().unwrap(), CommitId(18));
    drop(torn);
    // Opening has written the content of the log to a table. Damage that table.
    let tables = files(dir.path(), ".sst");
    let table = tables.first().expect("the log was written to a table");
    let mut bytes = fs::read(table).unwrap();
    bytes[2_000] ^= 1;
    fs::write(table, bytes).unwrap();
    let found = RocksBase::open(dir.path()).and_then(|base| base.verify());
    assert_eq!(found.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn values_are_checked_by_our_own_checksums() {
    let dir = tempfile::tempdir().unwrap();
    let base = RocksBase::open(dir.path()).unwrap();
    base.write(&batch(b"a", b"1"), CommitId(1)).unwrap();
    // RocksDB considers this value intact, but it has no checksum of ours.
    base.database.put(b"b", b"not sealed").unwrap();
    assert_eq!(base.read().unwrap().get(b"b").unwrap_err().kind(), ErrorKind::Corrupt);
    let checked = base.check(&Cancel::new()).unwrap();
    assert_eq!((checked.entry_problems.len(), checked.page_problems.len()), (1, 0));
}
