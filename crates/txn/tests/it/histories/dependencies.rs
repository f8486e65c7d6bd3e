//! Which transaction of a history has to come before which, and the circles in that, which no level allows or only some
//! do.
//!
//! The dependencies are Adya's: `ww` to the writer of the next version of a key, `wr` to the reader of a version, `rw`
//! from a reader to the writer of the next version, and in time from one that was over to those that began later. A
//! condition that was asked depends on the write that made it so, and its reader comes before the first write that
//! makes it otherwise.
//!
//! What each level promises, in numbers: let s(T) be the commit that T reads, and c(T) its own, where T writes nothing
//! s(T).
//!
//! * `ww`, `wr` and time from T to U: c(T) <= s(U); at read committed, which reads many commits, c(T) < c(U) or they
//!   are one.
//! * `rw` from T to U: c(U) > s(T), and c(U) > c(T) where T is serializable or has locked what it read: the dependency
//!   is firm. At read committed it promises nothing.
//!
//! So in a circle some `rw` that is not firm comes behind another `rw`: each that does not would only lead to later
//! commits. That is what snapshot isolation allows, and without firm ones and others it is what serializable and read
//! committed do. The search goes through pairs of a transaction and whether a `rw` has led to it, and serves all
//! levels, and histories of several.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

use rowmill_base::Isolation;

use super::record::{Record, Row, Sight, say};

/// What a transaction has left at a key.
#[derive(Debug)]
pub(super) struct Version<'h> {
    /// Of the history; `None` of what was there before.
    pub(super) writer: Option<usize>,
    pub(super) commit: u64,
    pub(super) row: Option<&'h Row>,
}

/// Versions of each key in the order of their commits.
#[derive(Debug)]
pub(super) struct Versions<'h>(BTreeMap<i64, Vec<Version<'h>>>);

const BEFORE: [Version<'static>; 1] = [Version { writer: None, commit: 0, row: None }];

impl<'h> Versions<'h> {
    pub(super) fn of(history: &'h [Record]) -> Versions<'h> {
        let mut versions: BTreeMap<i64, Vec<Version<'h>>> = BTreeMap::new();
        for (writer, record) in history.iter().enumerate() {
            for (key, written) in record.commit.iter().flat_map(|_| &record.written) {
                let commit = record.commit.expect("it has committed");
                let version = Version { writer: Some(writer), commit, row: written.row.as_ref() };
                versions.entry(*key).or_insert_with(|| Vec::from(BEFORE)).push(version);
            }
        }
        versions.values_mut().for_each(|versions| versions.sort_by_key(|version| version.commit));
        Versions(versions)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = i64> {
        self.0.keys().copied()
    }

    pub(super) fn of_key(&self, key: i64) -> &[Version<'h>] {
        self.0.get(&key).map_or(&BEFORE, Vec::as_slice)
    }

    /// The place of what a key has in the snapshot of a commit.
    pub(super) fn place_at(&self, key: i64, snapshot: u64) -> usize {
        self.of_key(key).partition_point(|version| version.commit <= snapshot) - 1
    }

    /// Where the version is that was seen. A row tells itself; otherwise it is that of the snapshot. `None` if it is
    /// none.
    pub(super) fn place_of(&self, key: i64, sight: &Sight, snapshot: u64) -> Option<usize> {
        let versions = self.of_key(key);
        match sight {
            Sight::Row(_) => versions.iter().position(|version| sight.is_of(version.row)),
            _ => Some(self.place_at(key, snapshot)).filter(|place| sight.is_of(versions[*place].row)),
        }
    }

    /// The key that has a slot in a snapshot, but for some.
    pub(super) fn key_in_slot(&self, slot: i64, snapshot: u64, but: &[i64]) -> Option<i64> {
        let has_it = |key: &i64| {
            let row = self.of_key(*key)[self.place_at(*key, snapshot)].row;
            !but.contains(key) && row.is_some_and(|row| row.slot == Some(slot))
        };
        self.keys().find(has_it)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Write,
    Read,
    /// From a reader to the next writer.
    Anti {
        is_firm: bool,
        of_condition: bool,
    },
    /// One was over when the other began. Moments have nodes of their own, so that there are few of these.
    Time,
}

/// That one node of the graph comes before another.
#[derive(Clone, Copy, Debug)]
struct Edge {
    from: usize,
    to: usize,
    kind: Kind,
    key: i64,
    /// The version that is written or read at the end of the edge, of the key's.
    place: usize,
}

/// Transactions that come before each other.
#[derive(Debug)]
pub(super) struct Circle {
    pub(super) name: &'static str,
    pub(super) said: String,
}

struct Graph<'h> {
    history: &'h [Record],
    versions: &'h Versions<'h>,
    edges: Vec<Edge>,
    /// Transactions, and moments behind them.
    nodes: usize,
}

/// A circle that the levels of its transactions do not allow; the plainest that there is.
pub(super) fn find_circle(history: &[Record], versions: &Versions<'_>) -> Option<Circle> {
    let mut graph = Graph { history, versions, edges: Vec::new(), nodes: history.len() };
    graph.add_writes();
    graph.add_reads();
    graph.add_time();
    let kinds: [fn(Kind) -> bool; 4] = [
        |kind| kind == Kind::Write,
        |kind| matches!(kind, Kind::Write | Kind::Read),
        |kind| kind != Kind::Time,
        |_| true,
    ];
    kinds.into_iter().find_map(|is_meant| graph.shortest_circle(is_meant)).map(|circle| graph.say(&circle))
}

impl Graph<'_> {
    /// Who wrote a version comes behind the one before it by its commit, and behind the one that it was written over,
    /// which is the same if all is well.
    fn add_writes(&mut self) {
        for key in self.versions.keys() {
            let versions = self.versions.of_key(key);
            for (place, pair) in (1..).zip(versions.windows(2)) {
                let Some(to) = pair[1].writer else { continue };
                let over = self.history[to].written[&key].over.as_ref();
                let found = versions.iter().find(|version| over.is_some() && version.row == over);
                for from in [Some(&pair[0]), found].into_iter().flatten().filter_map(|before| before.writer) {
                    if from != to {
                        self.edges.push(Edge { from, to, kind: Kind::Write, key, place });
                    }
                }
            }
        }
    }

    fn add_reads(&mut self) {
        for (reader, record) in self.history.iter().enumerate().filter(|(_, record)| record.commit.is_some()) {
            for operation in &record.operations {
                let taken = operation.taken.iter().filter_map(|(slot, but)| {
                    let key = self.versions.key_in_slot(*slot, operation.snapshot, but)?;
                    Some((key, Sight::InSlot(*slot)))
                });
                for (key, sight) in operation.sights.iter().cloned().chain(taken) {
                    let is_firm = operation.is_locking || record.level == Isolation::Serializable;
                    self.add_read(reader, key, &sight, operation.snapshot, is_firm);
                }
            }
        }
    }

    fn add_read(&mut self, reader: usize, key: i64, sight: &Sight, snapshot: u64, is_firm: bool) {
        let versions = self.versions.of_key(key);
        let Some(place) = self.versions.place_of(key, sight, snapshot) else { return };
        let is_other = |place: &usize| !sight.is_of(versions[*place].row);
        let first = (0..place).rev().find(is_other).map_or(0, |other| other + 1);
        if let Some(writer) = versions[first].writer.filter(|writer| *writer != reader) {
            self.edges.push(Edge { from: writer, to: reader, kind: Kind::Read, key, place: first });
        }
        let is_weak = self.history[reader].level == Isolation::ReadCommitted && !is_firm;
        let next = (place + 1..versions.len()).find(is_other).filter(|_| !is_weak);
        if let Some(next) = next
            && let Some(writer) = versions[next].writer.filter(|writer| *writer != reader)
        {
            let kind = Kind::Anti { is_firm, of_condition: sight.is_condition() };
            self.edges.push(Edge { from: reader, to: writer, kind, key, place: next });
        }
    }

    fn add_time(&mut self) {
        let committed = || self.history.iter().enumerate().filter(|(_, record)| record.commit.is_some());
        let mut ends: Vec<(u64, usize)> = committed().map(|(at, record)| (record.ended, at)).collect();
        ends.sort_unstable();
        let mut edges = Vec::new();
        let mut add = |from, to| edges.push(Edge { from, to, kind: Kind::Time, key: 0, place: 0 });
        for (moment, (_, ended)) in ends.iter().enumerate() {
            add(*ended, self.nodes + moment);
            if moment > 0 {
                add(self.nodes + moment - 1, self.nodes + moment);
            }
        }
        for (begun, record) in committed() {
            let before = ends.partition_point(|(end, _)| *end < record.began);
            if before > 0 {
                add(self.nodes + before - 1, begun);
            }
        }
        self.nodes += ends.len();
        self.edges.extend(edges);
    }

    /// What follows what: nodes twice, the second time where a `rw` has led to them.
    fn successors(&self, is_meant: fn(Kind) -> bool) -> Vec<Vec<(usize, usize)>> {
        let mut successors = vec![Vec::new(); 2 * self.nodes];
        for (at, edge) in self.edges.iter().enumerate().filter(|(_, edge)| is_meant(edge.kind)) {
            let (from, to) = (2 * edge.from, 2 * edge.to);
            match edge.kind {
                Kind::Anti { is_firm, .. } => {
                    successors[from].push((to + 1, at));
                    if is_firm {
                        successors[from + 1].push((to + 1, at));
                    }
                }
                _ => [from, from + 1].into_iter().for_each(|from| successors[from].push((to, at))),
            }
        }
        successors
    }

    fn shortest_circle(&self, is_meant: fn(Kind) -> bool) -> Option<Vec<Edge>> {
        let successors = self.successors(is_meant);
        let starts = nodes_around(&successors);
        let circles = starts.into_iter().filter_map(|start| shortest_way_back(&successors, start));
        // Moments make a way longer without adding to it.
        let weight = |circle: &Vec<usize>| circle.iter().filter(|at| self.edges[**at].to < self.history.len()).count();
        let circle = circles.min_by_key(weight)?;
        Some(circle.into_iter().map(|at| self.edges[at]).collect())
    }

    fn say(&self, circle: &[Edge]) -> Circle {
        let antis: Vec<bool> = circle.iter().map(|edge| matches!(edge.kind, Kind::Anti { .. })).collect();
        let has = |kind: fn(Kind) -> bool| circle.iter().any(|edge| kind(edge.kind));
        let follow = (0..antis.len()).any(|at| antis[at] && antis[(at + 1) % antis.len()]);
        let name = match antis.iter().filter(|is_anti| **is_anti).count() {
            _ if has(|kind| kind == Kind::Time) => "against real time",
            0 if has(|kind| kind == Kind::Read) => "G1c",
            0 => "G0",
            1 => "G-single",
            _ if has(|kind| matches!(kind, Kind::Anti { of_condition: true, .. })) => "G2",
            _ if follow => "G2-item",
            _ => "G-nonadjacent",
        };
        let mut said = format!("{name}: each of these comes before the next, and the last before the first\n");
        let mut told = Vec::new();
        for edge in circle {
            let _ = writeln!(said, "  {}", self.say_edge(edge));
            told.extend([edge.from, edge.to].into_iter().filter(|node| *node < self.history.len()));
        }
        told.sort_unstable();
        told.dedup();
        said.extend(told.into_iter().map(|node| self.history[node].to_string()));
        Circle { name, said }
    }

    fn say_edge(&self, edge: &Edge) -> String {
        let name = |node: usize| self.history.get(node).map_or("a moment", |record| &record.name);
        let (from, to, key) = (name(edge.from), name(edge.to), edge.key);
        let row = || say(self.versions.of_key(key)[edge.place].row);
        match edge.kind {
            Kind::Write => format!("{from} -ww-> {to}, which has written {key} next: {}", row()),
            Kind::Read => format!("{from} -wr-> {to}, which has read what that wrote to {key}: {}", row()),
            Kind::Anti { of_condition: false, .. } => {
                format!("{from} -rw-> {to}, which has written {key} behind what was read: {}", row())
            }
            Kind::Anti { .. } => format!("{from} -rw-> {to}, which has changed what was asked of {key}: {}", row()),
            Kind::Time => format!("{from} --> {to} in time"),
        }
    }
}

/// Nodes that are on circles or between them.
fn nodes_around(successors: &[Vec<(usize, usize)>]) -> Vec<usize> {
    let mut predecessors = vec![Vec::new(); successors.len()];
    for (from, followers) in successors.iter().enumerate() {
        followers.iter().for_each(|(to, _)| predecessors[*to].push(from));
    }
    let mut is_gone = vec![false; successors.len()];
    let followers: Vec<Vec<usize>> =
        successors.iter().map(|followers| followers.iter().map(|(to, _)| *to).collect()).collect();
    // What nothing leads to, and then what leads nowhere, with all that is so without them.
    for (before, behind) in [(&predecessors, &followers), (&followers, &predecessors)] {
        let mut counts: Vec<usize> = before.iter().map(Vec::len).collect();
        for (node, others) in before.iter().enumerate() {
            counts[node] -= others.iter().filter(|other| is_gone[**other]).count();
        }
        let mut free: Vec<usize> = (0..counts.len()).filter(|node| counts[*node] == 0 && !is_gone[*node]).collect();
        while let Some(node) = free.pop() {
            is_gone[node] = true;
            for other in behind[node].iter().filter(|other| !is_gone[**other]) {
                counts[*other] -= 1;
                if counts[*other] == 0 {
                    free.push(*other);
                }
            }
        }
    }
    (0..is_gone.len()).filter(|node| !is_gone[*node]).collect()
}

/// The edges of the shortest way from a node to itself.
fn shortest_way_back(successors: &[Vec<(usize, usize)>], start: usize) -> Option<Vec<usize>> {
    let mut reached: Vec<Option<(usize, usize)>> = vec![None; successors.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for (to, edge) in &successors[node] {
            if reached[*to].is_none() {
                reached[*to] = Some((node, *edge));
                queue.push_back(*to);
            }
            if *to == start {
                queue.clear();
                break;
            }
        }
    }
    let mut way = Vec::new();
    let (mut node, mut edge) = reached[start]?;
    way.push(edge);
    while node != start {
        (node, edge) = reached[node].expect("it was reached");
        way.push(edge);
    }
    way.reverse();
    Some(way)
}
