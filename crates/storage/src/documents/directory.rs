//! The paths of a chunk of documents, as a section of the chunk.
//!
//! | bytes | contents |
//! | --- | --- |
//! | | for each part its path, its type (1), and 1 if it is complete (1) |
//! | 1 | 1 if the paths of other values are known |
//! | 4 | number of these paths |
//! | | the paths |
//! | 4 | CRC-32 of all bytes before |
//!
//! A path is its number of keys (4), and each: length (4), bytes. Numbers are little-endian.

use std::collections::{HashMap, HashSet};

use rowmill_base::{Error, Result};

use super::HOLES_MAX;
use super::path_tree::DEPTH_MAX;
use super::scalar::PartType;

/// A path whose scalars are stored as a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredPath {
    /// The keys from the document inwards.
    pub(crate) keys: Vec<String>,
    /// The type of the values.
    pub(crate) kind: PartType,
    /// Whether the part has every value other than `null` that a document has at the path.
    pub(crate) is_complete: bool,
}

/// The paths of a chunk of documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathDirectory {
    /// The parts by their numbers.
    paths: Vec<StoredPath>,
    by_keys: HashMap<Vec<String>, usize>,
    /// The paths of all values in skeletons, other than `null`. `None` if they are not known.
    others: Option<HashSet<Vec<String>>>,
}

/// What a chunk can say about a path without its documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartAnswer {
    /// No document has a value other than `null` at the path.
    Missing,
    /// The part with this number and type has the values of all documents.
    Stored(usize, PartType),
    /// Only the documents tell.
    Unknown,
}

impl PathDirectory {
    pub(super) fn new(paths: Vec<StoredPath>, others: Option<HashSet<Vec<String>>>) -> PathDirectory {
        let by_keys = paths.iter().enumerate().map(|(part, path)| (path.keys.clone(), part)).collect();
        PathDirectory { paths, by_keys, others }
    }

    /// The parts by their numbers.
    pub(crate) fn paths(&self) -> &[StoredPath] {
        &self.paths
    }

    /// What the chunk can say about the path of `keys`.
    pub(crate) fn answer(&self, keys: &[String]) -> PartAnswer {
        match self.by_keys.get(keys).map(|part| (*part, &self.paths[*part])) {
            Some((part, path)) if path.is_complete => PartAnswer::Stored(part, path.kind),
            Some(_) => PartAnswer::Unknown,
            None => match &self.others {
                Some(others) if keys.len() <= DEPTH_MAX && !others.contains(keys) => PartAnswer::Missing,
                _ => PartAnswer::Unknown,
            },
        }
    }

    /// The bytes of the section.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for path in &self.paths {
            put_path(&path.keys, &mut out);
            out.extend([path.kind as u8, u8::from(path.is_complete)]);
        }
        out.push(u8::from(self.others.is_some()));
        let mut others: Vec<&Vec<String>> = self.others.iter().flatten().collect();
        // Equal documents must give equal bytes.
        others.sort();
        put_number(others.len(), &mut out);
        others.iter().for_each(|keys| put_path(keys, &mut out));
        let checksum = crc32fast::hash(&out);
        out.extend(checksum.to_le_bytes());
        out
    }

    /// Reads the bytes of a section with `count` parts. They have a checksum of their own, so that one part can be read
    /// without the checksums of the others.
    pub(crate) fn read(bytes: &[u8], count: usize) -> Result<PathDirectory> {
        let (bytes, checksum) = bytes.split_last_chunk::<4>().ok_or_else(|| damaged("it is too short"))?;
        if crc32fast::hash(bytes) != u32::from_le_bytes(*checksum) {
            return Err(damaged("its checksum does not fit"));
        }
        if count > HOLES_MAX {
            return Err(damaged(&format!("it has {count} parts")));
        }
        let mut reader = PathListReader { bytes };
        let mut paths = Vec::with_capacity(count);
        for _ in 0..count {
            let keys = reader.path()?;
            let [kind, is_complete] = *reader.bytes(2)? else { unreachable!("two bytes were read") };
            let kind = PartType::from_number(kind).ok_or_else(|| damaged(&format!("a part has the type {kind}")))?;
            paths.push(StoredPath { keys, kind, is_complete: flag(is_complete)? });
        }
        let are_known = flag(reader.bytes(1)?[0])?;
        let mut others = HashSet::new();
        for _ in 0..reader.number()? {
            others.insert(reader.path()?);
        }
        match reader.bytes.is_empty() {
            true => Ok(PathDirectory::new(paths, are_known.then_some(others))),
            false => Err(damaged("it is too long")),
        }
    }
}

fn put_number(number: usize, out: &mut Vec<u8>) {
    out.extend((number as u32).to_le_bytes());
}

fn put_path(keys: &[String], out: &mut Vec<u8>) {
    put_number(keys.len(), out);
    for key in keys {
        put_number(key.len(), out);
        out.extend(key.as_bytes());
    }
}

fn flag(byte: u8) -> Result<bool> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(damaged(&format!("a flag is {other}"))),
    }
}

struct PathListReader<'a> {
    bytes: &'a [u8],
}

impl<'a> PathListReader<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or_else(|| damaged("it ends too early"))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<usize> {
        let bytes = self.bytes(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes were read")) as usize)
    }

    fn path(&mut self) -> Result<Vec<String>> {
        let mut keys = Vec::new();
        for _ in 0..self.number()? {
            let len = self.number()?;
            let key = std::str::from_utf8(self.bytes(len)?).map_err(|_| damaged("a key is not UTF-8"))?;
            keys.push(key.to_owned());
        }
        Ok(keys)
    }
}

fn damaged(what: &str) -> Error {
    Error::corrupt(format!("the paths of the documents in the chunk are damaged: {what}"))
}
