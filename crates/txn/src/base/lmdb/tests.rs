//! The LMDB library writes files, and this module reads them, whole and damaged.
#![allow(clippy::unwrap_used)]

use heed::types::Bytes;
use heed::{CommitOrAbort, EnvFlags, EnvOpenOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_base::ErrorKind;

use super::super::sealed_value::seal;
use super::*;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Writes a base as an earlier version did, with the commit 7, and returns its entries.
#[allow(unsafe_code)]
pub(in crate::base) fn write_base(dir: &Path, keys: u32) -> Entries {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(1 << 30);
    // SAFETY: no flag disables a lock or a sync.
    unsafe { options.flags(EnvFlags::NO_SUB_DIR) };
    // SAFETY: the file is new, and no other code of this process opens it while the environment is open.
    let env = unsafe { options.open(dir.join(FIRST_FILE)) }.unwrap();
    let opened = env.open_databases_and_commit(env.read_txn().unwrap(), |opener, transaction| {
        Ok::<_, heed::Error>(match opener.open_database::<Bytes, Bytes>(transaction, None)? {
            Some(map) => CommitOrAbort::Commit(map),
            None => CommitOrAbort::Abort(()),
        })
    });
    let CommitOrAbort::Commit(map) = opened.unwrap() else { panic!("the main tree is missing") };
    let mut write = env.write_txn().unwrap();
    let entries: Entries = (0..keys)
        .map(|n| (format!("k{:07}", n * 7).into_bytes(), vec![n as u8; if n % 300 == 0 { 10_000 } else { 150 }]))
        .collect();
    let own: [(&[u8], &[u8]); 3] = [
        (VERSION_KEY, &LAYOUT_VERSION.to_le_bytes()),
        (LAST_COMMIT_KEY, &7_u64.to_le_bytes()),
        (b"\0h\0\0\0\0\0\0\0\x01", &7_u64.to_le_bytes()),
    ];
    let mut stored = Vec::new();
    for (key, value) in entries.iter().map(|(key, value)| (&key[..], &value[..])).chain(own) {
        seal(key, value, &mut stored);
        map.put(&mut write, key, &stored).unwrap();
    }
    write.commit().unwrap();
    entries
}

fn content(path: &Path) -> Result<Entries> {
    let mut content = Vec::new();
    LmdbFile::open(path)?.scan(&mut |key, value| {
        content.push((key.to_vec(), value.to_vec()));
        Ok(true)
    })?;
    Ok(content)
}

#[test]
fn files_are_read_as_lmdb_writes_them() {
    for keys in [0, 1, 3_000] {
        let dir = tempfile::tempdir().unwrap();
        let entries = write_base(dir.path(), keys);
        let path = LmdbFile::newest_in(dir.path()).unwrap().unwrap();
        assert_eq!(content(&path).unwrap(), entries);
        assert_eq!(LmdbFile::open(&path).unwrap().commit(), CommitId(7));
    }
}

#[test]
fn damaged_files_are_refused_and_never_crash() {
    let dir = tempfile::tempdir().unwrap();
    let entries = write_base(dir.path(), 3_000);
    let path = dir.path().join(FIRST_FILE);
    let whole = fs::read(&path).unwrap();
    let mut rng = SmallRng::seed_from_u64(11);
    let mut refused = 0;
    for round in 0..400 {
        let mut damaged = whole.clone();
        let page = |rng: &mut SmallRng| rng.random_range(0..whole.len() / 4_096) * 4_096;
        match round % 4 {
            0 => {
                let (one, other) = (page(&mut rng), page(&mut rng));
                damaged.copy_within(one..one + 4_096, other);
            }
            1 => {
                let page = page(&mut rng);
                (0..4).for_each(|_| damaged[page + rng.random_range(0..160)] = rng.random());
            }
            2 => (0..40).for_each(|_| damaged[rng.random_range(0..whole.len())] = rng.random()),
            _ => damaged.truncate(rng.random_range(0..whole.len())),
        }
        fs::write(&path, &damaged).unwrap();
        match content(&path) {
            Ok(read) => assert_eq!(read, entries, "round {round}"),
            Err(error) => {
                assert!(
                    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NewerFormat),
                    "round {round}: {error:?}"
                );
                refused += 1;
            }
        }
    }
    assert!(refused > 200, "only {refused} damages were found");
}
