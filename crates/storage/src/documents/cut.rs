//! Takes scalars out of documents.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use arrow::compute::concat;
use rowmill_base::{Error, Result};

use super::choice::ChosenPaths;
use super::directory::{PathDirectory, StoredPath};
use super::path_tree::PathTree;
use super::scalar::PartBuilder;
use super::walk::{ValueClass, walk};
use super::{HOLE, HOLES_MAX};
use crate::shared_work::each_piece;

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

/// Takes the scalars out of the documents of a piece, one after the other.
struct Cutter {
    tree: PathTree,
    states: Vec<PathState>,
    builders: Vec<PartBuilder>,
    skeleton: String,
    scratch: String,
}

/// Documents are cut in pieces of this many rows, which several threads share: a full block has 16 of them. The bytes
/// of a chunk must not depend on the number of threads.
const PIECE_ROWS: usize = 1 << 15;

/// A piece of the documents after it was cut.
struct CutPiece {
    skeletons: ArrayRef,
    parts: Vec<ArrayRef>,
    /// For each part whether another value than `null` stayed in a skeleton.
    has_left: Vec<bool>,
    /// The paths of the values that stayed in skeletons. `None` if they are not known.
    others: Option<Vec<Vec<String>>>,
    /// Whether all documents are JSON.
    is_known: bool,
}

/// Cuts the documents whose texts are `documents`, on `threads` threads.
pub(crate) fn cut(documents: &StringViewArray, threads: usize) -> Result<CutDocuments> {
    cut_in_pieces(documents, threads, PIECE_ROWS)
}

pub(super) fn cut_in_pieces(documents: &StringViewArray, threads: usize, piece_rows: usize) -> Result<CutDocuments> {
    let mut tree = PathTree::new();
    let chosen = ChosenPaths::of(documents, &mut tree);
    // Even a column without rows has a piece, so that it has skeletons.
    let pieces = documents.len().div_ceil(piece_rows).max(1);
    let pieces = each_piece(pieces, threads, "taking scalars out of documents", |number| {
        let start = number * piece_rows;
        let piece = documents.slice(start, piece_rows.min(documents.len() - start));
        Cutter::new(&chosen, &tree, piece.len()).cut_all(&piece)
    })?;
    let is_known = pieces.iter().all(|piece| piece.is_known);
    let paths = chosen.iter().enumerate().map(|(part, (node, kind))| StoredPath {
        keys: tree.keys(node),
        kind,
        is_complete: is_known && !pieces.iter().any(|piece| piece.has_left[part]),
    });
    let paths: Vec<StoredPath> = paths.collect();
    let others: Option<Vec<_>> = pieces.iter().map(|piece| piece.others.as_ref().filter(|_| is_known)).collect();
    let others = others.map(|others| others.into_iter().flatten().cloned().collect::<HashSet<_>>());
    let others = others.filter(|others| others.len() <= OTHERS_MAX);
    let joined = |of: &dyn Fn(&CutPiece) -> &ArrayRef| {
        let arrays: Vec<&dyn Array> = pieces.iter().map(|piece| of(piece).as_ref()).collect();
        concat(&arrays).map_err(|error| Error::internal(format!("documents cannot be stored: {error}")))
    };
    let skeletons = joined(&|piece| &piece.skeletons)?.as_string_view().clone();
    let parts = (0..paths.len()).map(|part| joined(&|piece| &piece.parts[part])).collect::<Result<_>>()?;
    Ok(CutDocuments { directory: PathDirectory::new(paths, others), skeletons, parts })
}

impl Cutter {
    /// Prepares for `rows` documents. `tree` has the chosen paths.
    fn new(chosen: &ChosenPaths, tree: &PathTree, rows: usize) -> Cutter {
        let mut states = vec![PathState::default(); tree.len()];
        let mut builders = Vec::new();
        for (part, (node, kind)) in chosen.iter().enumerate() {
            states[node as usize].part = Some(part);
            builders.push(PartBuilder::new(kind, rows));
        }
        Cutter { tree: tree.clone(), states, builders, skeleton: String::new(), scratch: String::new() }
    }

    fn cut_all(mut self, documents: &StringViewArray) -> Result<CutPiece> {
        let mut skeletons = StringViewBuilder::with_capacity(documents.len());
        let mut is_known = true;
        for row in 0..documents.len() {
            if documents.is_null(row) {
                skeletons.append_null();
                continue;
            }
            is_known &= self.cut_one(row, documents.value(row));
            let failed = |error| Error::internal(format!("a document cannot be stored: {error}"));
            skeletons.try_append_value(&self.skeleton).map_err(failed)?;
        }
        let Cutter { tree, states, builders, .. } = self;
        let mut has_left = vec![false; builders.len()];
        let mut others = Vec::new();
        for (node, PathState { part, .. }) in states.iter().enumerate().filter(|(_, state)| state.has_left) {
            if let Some(part) = part {
                has_left[*part] = true;
            }
            // More paths than a directory lists need not be known.
            if others.len() <= OTHERS_MAX {
                others.push(tree.keys(node as u32));
            }
        }
        let finished = builders.into_iter().map(|mut builder| {
            builder.fill(documents.len());
            builder.finish()
        });
        Ok(CutPiece {
            skeletons: Arc::new(skeletons.finish()),
            parts: finished.collect(),
            has_left,
            others: (!tree.is_full()).then_some(others),
            is_known,
        })
    }

    /// Writes the skeleton of a document, and appends its scalars to the parts. Returns `false` if it is no JSON.
    fn cut_one(&mut self, row: usize, text: &str) -> bool {
        let Cutter { tree, states, builders, skeleton, scratch } = self;
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
