//! Chooses the paths whose scalars are taken out of a column of documents.

use arrow::array::{Array, StringViewArray};

use super::HOLES_MAX;
use super::path_tree::PathTree;
use super::scalar::PartType;
use super::walk::walk;

/// The documents that the choice is made by, spread evenly over the rows. A path at the limit of [`SHARE`] is expected
/// 64 times among them, with a standard deviation of 8, so its share is known to about an eighth.
const SAMPLE_ROWS: usize = 4096;

/// A path is chosen if at least one in this many documents has a scalar there.
const SHARE: usize = 64;

/// The type of each chosen path, by its node.
pub(super) struct ChosenPaths {
    types: Vec<Option<PartType>>,
}

/// How many documents of the sample have a scalar of each type at a path.
#[derive(Clone, Copy, Default)]
struct TypeCounts([usize; PartType::ALL.len()]);

impl TypeCounts {
    fn add(&mut self, kind: PartType) {
        self.0[kind as usize - 1] += 1;
    }

    /// The most frequent type and its number of documents.
    fn most(&self) -> (PartType, usize) {
        let [boolean, integer, double, text] = self.0;
        // A DOUBLE takes small whole numbers too.
        let numbers = if double > 0 { (PartType::Double, integer + double) } else { (PartType::Integer, integer) };
        let others = [(PartType::Boolean, boolean), (PartType::Text, text)];
        others.into_iter().fold(numbers, |most, other| if other.1 > most.1 { other } else { most })
    }
}

impl ChosenPaths {
    /// Chooses among the paths of `documents`. Adds the paths to `tree`.
    pub(super) fn of(documents: &StringViewArray, tree: &mut PathTree) -> ChosenPaths {
        let step = documents.len().div_ceil(SAMPLE_ROWS).max(1);
        let mut counts: Vec<TypeCounts> = Vec::new();
        let (mut scratch, mut sampled) = (String::new(), 0);
        for row in (0..documents.len()).step_by(step).filter(|row| documents.is_valid(*row)) {
            sampled += 1;
            let text = documents.value(row);
            walk(text, tree, &mut |value| {
                let Some(kind) = PartType::of(value.class, &text[value.range], &mut scratch) else { return };
                let node = value.node as usize;
                if counts.len() <= node {
                    counts.resize(node + 1, TypeCounts::default());
                }
                counts[node].add(kind);
            });
        }
        let mut frequent: Vec<(usize, usize, PartType)> = Vec::new();
        for (node, counts) in counts.iter().enumerate() {
            let (kind, documents) = counts.most();
            if documents > 0 && documents * SHARE >= sampled {
                frequent.push((documents, node, kind));
            }
        }
        // The most frequent come first, and of equal ones those that were found first.
        frequent.sort_by_key(|(documents, node, _)| (usize::MAX - documents, *node));
        frequent.truncate(HOLES_MAX);
        let mut types = vec![None; tree.len()];
        frequent.iter().for_each(|(_, node, kind)| types[*node] = Some(*kind));
        ChosenPaths { types }
    }

    /// The chosen paths with their types, by their nodes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, PartType)> {
        self.types.iter().enumerate().filter_map(|(node, kind)| Some((node as u32, (*kind)?)))
    }
}
