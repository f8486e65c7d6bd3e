//! Takes scalars out of documents.

use arrow::array::{Array, ArrayRef, StringViewArray, StringViewBuilder};
use rowmill_base::{Error, Result};

use super::choice::ChosenPaths;
use super::directory::{PathDirectory, StoredPath};
use super::path_tree::PathTree;
use super::scalar::PartBuilder;
use super::walk::{ValueClass, walk};
use super::{HOLE, HOLES_MAX};

/// Most paths of values in skeletons that a directory lists.
const OTHERS_MAX: usize = 1024;

/// A column of documents in two: the skeletons, and the parts by their numbers.
#[derive(Debug)]
pub(crate) struct CutDocuments {
    pub(crate) directory: PathDirectory,
    pub(crate) skeletons: StringViewArray,
    pub(crate) parts: Vec<ArrayRef>,
}

/// A path while documents are cut.
#[derive(Clone, Copy, Default)]
struct PathState {
    /// The number of the part.
    part: Option<usize>,
    /// Whether a value other than `null` stayed in a skeleton.
    has_left: bool,
}

struct Cutter {
    states: Vec<PathState>,
    builders: Vec<PartBuilder>,
    skeleton: String,
    scratch: String,
}

/// Cuts the documents whose texts are `documents`.
pub(crate) fn cut(documents: &StringViewArray) -> Result<CutDocuments> {
    let mut tree = PathTree::new();
    let chosen = ChosenPaths::of(documents, &mut tree);
    let mut cutter =
        Cutter { states: Vec::new(), builders: Vec::new(), skeleton: String::new(), scratch: String::new() };
    cutter.states.resize(tree.len(), PathState::default());
    for (part, (node, kind)) in chosen.iter().enumerate() {
        cutter.states[node as usize].part = Some(part);
        cutter.builders.push(PartBuilder::new(kind, documents.len()));
    }
    let mut skeletons = StringViewBuilder::with_capacity(documents.len());
    let mut is_known = true;
    for row in 0..documents.len() {
        if documents.is_null(row) {
            skeletons.append_null();
            continue;
        }
        is_known &= cutter.cut_one(row, documents.value(row), &mut tree);
        let failed = |error| Error::internal(format!("a document cannot be stored: {error}"));
        skeletons.try_append_value(&cutter.skeleton).map_err(failed)?;
    }
    let paths = chosen.iter().map(|(node, kind)| StoredPath {
        keys: tree.keys(node),
        kind,
        is_complete: is_known && !cutter.states[node as usize].has_left,
    });
    let left = cutter.states.iter().enumerate().filter(|(_, state)| state.has_left).map(|(node, _)| node as u32);
    let others = (is_known && !tree.is_full() && left.clone().count() <= OTHERS_MAX)
        .then(|| left.map(|node| tree.keys(node)).collect());
    let directory = PathDirectory::new(paths.collect(), others);
    let finished = cutter.builders.into_iter().map(|mut builder| {
        builder.fill(documents.len());
        builder.finish()
    });
    Ok(CutDocuments { directory, skeletons: skeletons.finish(), parts: finished.collect() })
}

impl Cutter {
    /// Writes the skeleton of a document, and appends its scalars to the parts. Returns `false` if it is no JSON.
    fn cut_one(&mut self, row: usize, text: &str, tree: &mut PathTree) -> bool {
        let Cutter { states, builders, skeleton, scratch } = self;
        skeleton.clear();
        let mut copied = 0;
        let is_json = walk(text, tree, &mut |value| {
            let node = value.node as usize;
            if states.len() <= node {
                states.resize(node + 1, PathState::default());
            }
            let state = &mut states[node];
            if let Some(part) = state.part
                && builders[part].take(row, value.class, &text[value.range.clone()], scratch)
            {
                copy(&text[copied..value.range.start], skeleton);
                push_hole(part, skeleton);
                copied = value.range.end;
            } else if value.class != ValueClass::Null {
                state.has_left = true;
            }
        });
        copy(&text[copied..], skeleton);
        is_json
    }
}

/// Appends a piece of a document to its skeleton.
fn copy(piece: &str, skeleton: &mut String) {
    let mut rest = piece;
    while let Some(at) = memchr::memchr(HOLE, rest.as_bytes()) {
        skeleton.push_str(&rest[..at]);
        push_hole(HOLES_MAX, skeleton);
        rest = &rest[at + 1..];
    }
    skeleton.push_str(rest);
}

fn push_hole(part: usize, skeleton: &mut String) {
    skeleton.push(char::from(HOLE));
    // The numbers up to 256 are characters of one or two bytes.
    skeleton.push(char::from_u32(part as u32).expect("numbers of parts are below the surrogates"));
}
