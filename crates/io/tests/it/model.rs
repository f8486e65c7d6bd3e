//! Runs random calls on files of every disk and compares them with a model that keeps each file in a `Vec<u8>`.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use rowmill_io::{Disk, DiskFile, FaultyDisk, Mapping, MemoryDisk, OpenMode, RealDisk};

use crate::copy_of;

/// The files of the model. There are only a few, so that calls often hit the same file.
const FILES: [&str; 3] = ["a", "d/b", "d/e/c"];

/// The longest file. It has several pages, so that the tests hit edges inside pages and across them.
const LEN_MAX: u64 = 40_000;

#[derive(Clone, Debug)]
enum Step {
    Write { file: usize, offset: u64, len: usize, fill: u8 },
    Read { file: usize, offset: u64, len: usize },
    SetLen { file: usize, len: u64 },
    Punch { file: usize, offset: u64, len: u64 },
    Sync { file: usize },
    Remove { file: usize },
    Remap { file: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let (file, offset) = (0..FILES.len(), 0..LEN_MAX);
    let len = prop_oneof![0..64_u64, 4_000..4_200_u64, 0..LEN_MAX / 2];
    prop_oneof![
        4 => (file.clone(), offset.clone(), len.clone(), 1_u8..)
            .prop_map(|(file, offset, len, fill)| Step::Write { file, offset, len: len as usize, fill }),
        4 => (file.clone(), offset.clone(), len.clone())
            .prop_map(|(file, offset, len)| Step::Read { file, offset, len: len as usize }),
        1 => (file.clone(), offset.clone()).prop_map(|(file, len)| Step::SetLen { file, len }),
        2 => (file.clone(), offset, len).prop_map(|(file, offset, len)| Step::Punch { file, offset, len }),
        1 => file.clone().prop_map(|file| Step::Sync { file }),
        1 => file.clone().prop_map(|file| Step::Remove { file }),
        1 => file.prop_map(|file| Step::Remap { file }),
    ]
}

/// A disk, a handle and a mapping for each open file, and the expected contents.
struct Run {
    disk: Arc<dyn Disk>,
    open: BTreeMap<usize, (Box<dyn DiskFile>, Arc<Mapping>)>,
    model: BTreeMap<usize, Vec<u8>>,
}

impl Run {
    fn new(disk: Arc<dyn Disk>) -> Run {
        disk.create_dir("d/e").unwrap();
        Run { disk, open: BTreeMap::new(), model: BTreeMap::new() }
    }

    fn file(&mut self, file: usize) -> (&dyn DiskFile, &Mapping, &mut Vec<u8>) {
        let disk = &self.disk;
        let (handle, mapping) = self.open.entry(file).or_insert_with(|| {
            let handle = disk.open(FILES[file], OpenMode::Create).unwrap();
            (handle, disk.map(FILES[file], 0).unwrap())
        });
        (&**handle, mapping, self.model.entry(file).or_default())
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Write { file, offset, len, fill } => {
                let (handle, _, model) = self.file(file);
                let bytes: Vec<u8> = (0..len).map(|i| fill ^ i as u8).collect();
                handle.write_all_at(&bytes, offset).unwrap();
                let end = offset as usize + len;
                if len > 0 {
                    model.resize(model.len().max(end), 0);
                    model[offset as usize..end].copy_from_slice(&bytes);
                }
            }
            Step::Read { file, offset, len } => {
                let (handle, mapping, model) = self.file(file);
                let expected = model.get(offset as usize..offset as usize + len);
                let mut buf = vec![0xAA; len];
                assert_eq!(handle.read_exact_at(&mut buf, offset).ok().map(|()| buf.as_slice()), expected);
                assert_eq!(
                    mapping.populate(offset, len).ok().and_then(|()| copy_of(mapping, offset, len).ok()).as_deref(),
                    expected
                );
            }
            Step::SetLen { file, len } => {
                let (handle, _, model) = self.file(file);
                handle.set_len(len).unwrap();
                model.resize(len as usize, 0);
            }
            Step::Punch { file, offset, len } => {
                let (handle, _, model) = self.file(file);
                handle.punch(offset, len).unwrap();
                let end = model.len().min((offset + len) as usize);
                model[(offset as usize).min(end)..end].fill(0);
            }
            Step::Sync { file } => self.file(file).0.sync().unwrap(),
            Step::Remove { file } => {
                self.disk.remove(FILES[file]).unwrap();
                self.open.remove(&file);
                self.model.remove(&file);
            }
            Step::Remap { file } => drop(self.open.remove(&file)),
        }
    }

    /// Compares all files byte by byte, in three ways: by length, by a read, and through the mapping.
    fn check(&mut self) {
        for (file, path) in FILES.into_iter().enumerate() {
            let expected = self.model.get(&file).cloned();
            assert_eq!(self.disk.len(path).unwrap(), expected.as_ref().map(|bytes| bytes.len() as u64));
            if let Some(expected) = expected {
                let (handle, mapping, _) = self.file(file);
                let mut buf = vec![0; expected.len()];
                handle.read_exact_at(&mut buf, 0).unwrap();
                assert_eq!(buf, expected);
                assert_eq!(copy_of(mapping, 0, expected.len()).unwrap(), expected);
                assert!(copy_of(mapping, 0, expected.len() + 1).is_err());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn disks_behave_like_vectors(steps in prop::collection::vec(step(), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        let disks: [Arc<dyn Disk>; 3] = [
            Arc::new(RealDisk::new(dir.path())),
            Arc::new(MemoryDisk::new()),
            Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new()))),
        ];
        for disk in disks {
            let mut run = Run::new(disk);
            for step in &steps {
                run.step(step);
            }
            run.check();
        }
    }
}
