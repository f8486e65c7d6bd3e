//! Compiles patterns to programs, and finds out which choices of a program the next byte decides.
//!
//! Some patterns have no program, because the library is as fast or faster: those whose matches have no fast search for
//! their beginnings, those that repeat anything but a class, those with assertions inside, and long ones.

use std::collections::BTreeSet;

use regex_syntax::hir::{Hir, HirKind, Look, Repetition};

use super::class::Class;
use super::first::First;
use super::program::{BranchSide, ClassRun, Op, Program, RegexBranch, Start};

/// The most operations of a program.
const OPS_MAX: usize = 128;

impl Program {
    /// Compiles a pattern. The program records the positions of `groups`. Returns `None` if the pattern is too complex.
    pub(super) fn new(pattern: &Hir, groups: &BTreeSet<usize>) -> Option<Program> {
        let start = Start::of(pattern)?;
        let mut compiler = RegexCompiler { ops: Vec::new(), classes: Vec::new(), groups };
        compiler.node(pattern)?;
        compiler.push(Op::Match)?;
        let RegexCompiler { ops, classes, .. } = compiler;
        let bytes_min = pattern.properties().minimum_len().unwrap_or(0);
        let mut program = Program { ops, classes, start, bytes_min };
        program.look_ahead();
        Some(program)
    }

    /// Computes what can follow each run, and with which bytes each side of a branch can continue.
    fn look_ahead(&mut self) {
        for at in 0..self.ops.len() {
            match &self.ops[at] {
                Op::Run(run) => {
                    let follow = self.first(at + 1);
                    // If no byte of the class can follow the run, the run must take all it can.
                    let is_forced = self.classes[run.class].first_bytes().all(|byte| !follow.has(byte));
                    if let Op::Run(run) = &mut self.ops[at] {
                        (run.follow, run.is_forced) = (follow, is_forced);
                    }
                }
                Op::Branch(branch) => {
                    let (preferred, other) = (self.first(branch.preferred.op), self.first(branch.other.op));
                    if let Op::Branch(branch) = &mut self.ops[at] {
                        (branch.preferred.first, branch.other.first) = (preferred, other);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the bytes with which the program can continue from operation `from` on.
    fn first(&self, from: usize) -> First {
        let mut first = First::NOTHING;
        let mut seen = vec![false; self.ops.len()];
        // A search over the operations that consume no character. `seen` keeps the paths few.
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            match &self.ops[at] {
                Op::Literal(literal) => first.add([literal[0]]),
                Op::Char(class) => first.add(self.classes[*class].first_bytes()),
                Op::Run(run) => {
                    first.add(self.classes[run.class].first_bytes());
                    open.extend((run.min == 0).then_some(at + 1));
                }
                Op::End => first.add_end(),
                Op::Save(_) | Op::Start => open.push(at + 1),
                Op::Jump(to) => open.push(*to),
                Op::Branch(branch) => open.extend([branch.preferred.op, branch.other.op]),
                Op::Match => first.add_all(),
            }
        }
        first.settle()
    }
}

struct RegexCompiler<'g> {
    ops: Vec<Op>,
    classes: Vec<Class>,
    groups: &'g BTreeSet<usize>,
}

impl RegexCompiler<'_> {
    fn push(&mut self, op: Op) -> Option<()> {
        self.ops.push(op);
        (self.ops.len() <= OPS_MAX).then_some(())
    }

    fn class(&mut self, class: Class) -> usize {
        self.classes.push(class);
        self.classes.len() - 1
    }

    fn node(&mut self, node: &Hir) -> Option<()> {
        let node = self.bare(node);
        match node.kind() {
            HirKind::Empty => Some(()),
            HirKind::Literal(literal) => self.literal(&literal.0),
            HirKind::Class(_) => {
                let class = self.class(Class::of(node)?);
                self.push(Op::Char(class))
            }
            HirKind::Look(Look::Start) => self.push(Op::Start),
            HirKind::Look(Look::End) => self.push(Op::End),
            HirKind::Look(_) => None,
            HirKind::Repetition(repetition) => self.repetition(repetition),
            HirKind::Capture(capture) => {
                let slot = 2 * capture.index as usize;
                self.push(Op::Save(slot))?;
                self.node(&capture.sub)?;
                self.push(Op::Save(slot + 1))
            }
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| self.node(part)),
            HirKind::Alternation(parts) => self.alternation(parts),
        }
    }

    /// Strips the groups around a node whose positions are not needed.
    fn bare<'h>(&self, mut node: &'h Hir) -> &'h Hir {
        while let HirKind::Capture(capture) = node.kind() {
            if self.groups.contains(&(capture.index as usize)) {
                break;
            }
            node = &capture.sub;
        }
        node
    }

    fn literal(&mut self, bytes: &[u8]) -> Option<()> {
        // Every operation except the inside of a literal must begin at a character.
        std::str::from_utf8(bytes).ok()?;
        self.push(Op::Literal(bytes.into()))
    }

    fn alternation(&mut self, parts: &[Hir]) -> Option<()> {
        let (last, parts) = parts.split_last()?;
        let mut jumps = Vec::new();
        for part in parts {
            let branch = self.branch()?;
            self.node(part)?;
            jumps.push(self.ops.len());
            self.push(Op::Jump(0))?;
            self.lead(branch, true);
        }
        self.node(last)?;
        let end = self.ops.len();
        jumps.into_iter().for_each(|jump| self.ops[jump] = Op::Jump(end));
        Some(())
    }

    fn repetition(&mut self, repetition: &Repetition) -> Option<()> {
        let &Repetition { min, max, greedy, ref sub } = repetition;
        let sub = self.bare(sub);
        if let Some(class) = Class::of(sub) {
            let class = self.class(class);
            let run = ClassRun { class, min, max, is_greedy: greedy, follow: First::NOTHING, is_forced: false };
            return self.push(Op::Run(Box::new(run)));
        }
        if (min, max) != (0, Some(1)) {
            return None;
        }
        let branch = self.branch()?;
        self.node(sub)?;
        self.lead(branch, greedy);
        Some(())
    }

    fn branch(&mut self) -> Option<usize> {
        let at = self.ops.len();
        let side = || BranchSide { op: at + 1, first: First::NOTHING };
        self.push(Op::Branch(Box::new(RegexBranch { preferred: side(), other: side() })))?;
        Some(at)
    }

    /// Connects a branch to the operation after it and to the next operation. `prefers_inside` says whether the first
    /// is preferred.
    fn lead(&mut self, branch: usize, prefers_inside: bool) {
        let end = self.ops.len();
        if let Op::Branch(branch) = &mut self.ops[branch] {
            if prefers_inside {
                branch.other.op = end;
            } else {
                branch.preferred.op = end;
            }
        }
    }
}
