//! stub
use rowmill_base::*;
use std::fmt::Debug;
use std::path::Path;
pub trait OrderedBase: Send + Sync + Debug {
    fn read(&self) -> Result<Box<dyn BaseRead + '_>>;
    fn write(&self, b: &WriteBatch, at: CommitId) -> Result<()>;
    fn commit_id(&self) -> Result<CommitId>;
    fn oldest_reader(&self) -> Result<Option<CommitId>>;
}
pub trait BaseRead {
    fn get(&self, k: &[u8]) -> Result<Option<Vec<u8>>>;
    fn scan(&self, p: &[u8], v: &mut dyn FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<()>;
    fn commit_id(&self) -> Result<CommitId>;
}
#[derive(Default)]
pub struct WriteBatch;
impl WriteBatch {
    pub fn put(&mut self, _k: Vec<u8>, _v: Vec<u8>) {}
    pub fn delete(&mut self, _k: Vec<u8>) {}
    pub fn delete_prefix(&mut self, _k: Vec<u8>) {}
    pub fn puts(&self, _k: &[u8]) -> bool {
        false
    }
}
#[derive(Debug)]
pub struct LmdbBase;
impl LmdbBase {
    pub fn exists(_: &Path) -> bool {
        false
    }
    pub fn open(_: &Path, _: bool) -> Result<MemoryBase> {
        unimplemented!()
    }
}
#[derive(Debug)]
pub struct MemoryBase;
impl MemoryBase {
    pub fn new() -> Self {
        MemoryBase
    }
}
impl OrderedBase for MemoryBase {
    fn read(&self) -> Result<Box<dyn BaseRead + '_>> {
        unimplemented!()
    }
    fn write(&self, _: &WriteBatch, _: CommitId) -> Result<()> {
        unimplemented!()
    }
    fn commit_id(&self) -> Result<CommitId> {
        unimplemented!()
    }
    fn oldest_reader(&self) -> Result<Option<CommitId>> {
        unimplemented!()
    }
}
