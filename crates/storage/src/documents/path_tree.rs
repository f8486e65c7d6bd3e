//! The paths that the documents of a column have, as a tree of keys.
//!
//! Documents of one shape have their keys in one order. So each node remembers which key followed it in the document
//! before, and most keys are found by one comparison and not by their hash.

use hashbrown::HashTable;
use rapidhash::v3::rapidhash_v3;

/// The node of the document itself.
pub(super) const ROOT: u32 = 0;
/// No node.
const NONE: u32 = u32::MAX;
/// Most nodes. Documents with more keys use keys as data, so their paths are not worth a column.
const NODES_MAX: usize = 4096;
/// Values below this depth are not looked into.
pub(super) const DEPTH_MAX: usize = 32;

/// A key below another one.
#[derive(Clone, Debug)]
struct PathNode {
    parent: u32,
    key: Box<str>,
    depth: usize,
    /// The first key of the object here in the document before.
    first: u32,
    /// The key that came after this one in the document before.
    next: u32,
    /// The last document that had this path.
    document: u32,
}

/// The paths of a column of documents.
#[derive(Clone, Debug)]
pub(super) struct PathTree {
    nodes: Vec<PathNode>,
    by_key: HashTable<u32>,
    document: u32,
    is_full: bool,
}

impl PathTree {
    pub(super) fn new() -> PathTree {
        let root = PathNode { parent: NONE, key: "".into(), depth: 0, first: NONE, next: NONE, document: 0 };
        PathTree { nodes: vec![root], by_key: HashTable::new(), document: 0, is_full: false }
    }

    /// The number of nodes. Nodes are numbered in the order in which they were found.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether some keys found no place in the tree.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Begins the next document.
    pub(super) fn begin(&mut self) {
        self.document += 1;
    }

    /// Whether objects at `node` are looked into.
    pub(super) fn is_open(&self, node: u32) -> bool {
        self.nodes[node as usize].depth < DEPTH_MAX
    }

    /// The keys from the document to `node`.
    pub(super) fn keys(&self, node: u32) -> Vec<String> {
        let mut keys = Vec::new();
        let mut at = node;
        while at != ROOT {
            let node = &self.nodes[at as usize];
            keys.push(node.key.as_ref().to_owned());
            at = node.parent;
        }
        keys.reverse();
        keys
    }

    /// The member `key` of the object at `parent`, whose member before was `before`. `None` if this document had the
    /// member already, because paths see the first member with a key, or if the tree is full.
    pub(super) fn member(&mut self, parent: u32, before: Option<u32>, key: &str) -> Option<u32> {
        let expected = match before {
            Some(before) => self.nodes[before as usize].next,
            None => self.nodes[parent as usize].first,
        };
        let node = match self.nodes.get(expected as usize) {
            Some(node) if node.parent == parent && *node.key == *key => expected,
            _ => {
                let node = self.find_or_add(parent, key)?;
                match before {
                    Some(before) => self.nodes[before as usize].next = node,
                    None => self.nodes[parent as usize].first = node,
                }
                node
            }
        };
        let document = &mut self.nodes[node as usize].document;
        let is_first = *document != self.document;
        *document = self.document;
        is_first.then_some(node)
    }

    fn find_or_add(&mut self, parent: u32, key: &str) -> Option<u32> {
        let hash = |parent: u32, key: &str| rapidhash_v3(key.as_bytes()) ^ u64::from(parent).wrapping_mul(0x9e37_79b9);
        let nodes = &self.nodes;
        let is_it = |node: &u32| nodes[*node as usize].parent == parent && *nodes[*node as usize].key == *key;
        if let Some(node) = self.by_key.find(hash(parent, key), is_it) {
            return Some(*node);
        }
        if self.nodes.len() >= NODES_MAX {
            self.is_full = true;
            return None;
        }
        let node = self.nodes.len() as u32;
        let depth = self.nodes[parent as usize].depth + 1;
        self.nodes.push(PathNode { parent, key: key.into(), depth, first: NONE, next: NONE, document: 0 });
        let nodes = &self.nodes;
        let of_node = |node: &u32| hash(nodes[*node as usize].parent, &nodes[*node as usize].key);
        self.by_key.insert_unique(hash(parent, key), node, of_node);
        Some(node)
    }
}
