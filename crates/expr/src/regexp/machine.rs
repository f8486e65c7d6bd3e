//! Runs programs. At a choice, the machine takes one side and pushes the other on a stack, and tries it if the first
//! fails.
//!
//! Backtracking can take exponential time, so we count steps. After a few steps per byte of the text the machine gives
//! up. Then the library must answer, whose time is linear.

use super::program::{ClassRun, Op, Program, RegexBranch};

/// The steps per byte of a text, and per text. Each byte that a run passes is a step, and so is each choice. Ordinary
/// patterns should need far fewer.
const STEPS_PER_BYTE: usize = 16;
const STEPS_PER_TEXT: usize = 256;

/// The most choices that are kept.
const FRAMES_MAX: usize = 1 << 14;

/// A slot whose group is not part of the match.
const UNSET: usize = usize::MAX;

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchOutcome {
    Found,
    NotFound,
    /// The machine ran out of steps.
    GaveUp,
}

/// The state of a matcher, reused from text to text.
#[derive(Debug)]
pub(super) struct Machine {
    frames: Vec<Frame>,
    /// The positions of groups: group g begins at slot 2g and ends at slot 2g + 1. Group 0 is the match.
    slots: Vec<usize>,
    steps_left: usize,
}

/// An action for when the current path fails. The last one is done first.
#[derive(Clone, Copy, Debug)]
enum Frame {
    /// Continue with another operation.
    Branch { op: usize, at: usize },
    /// End the run of an operation at another position of a range.
    Run { op: usize, from: usize, end: usize },
    /// Restore the value of a slot.
    Slot { slot: usize, position: usize },
}

impl Machine {
    /// Creates a machine for groups up to `group_last`.
    pub(super) fn new(group_last: usize) -> Machine {
        Machine { frames: Vec::new(), slots: vec![UNSET; 2 * group_last + 2], steps_left: 0 }
    }

    /// Returns the positions of a group in the last match.
    pub(super) fn group(&self, group: usize) -> Option<(usize, usize)> {
        let (start, end) = (self.slots[2 * group], self.slots[2 * group + 1]);
        (start != UNSET && end != UNSET).then_some((start, end))
    }

    /// Sets the positions of a group that another search found.
    pub(super) fn set_group(&mut self, group: usize, positions: Option<(usize, usize)>) {
        (self.slots[2 * group], self.slots[2 * group + 1]) = positions.unwrap_or((UNSET, UNSET));
    }

    /// Begins with a text. All searches in it share its steps.
    pub(super) fn begin(&mut self, text: &str) {
        self.steps_left = text.len().saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS_PER_TEXT);
    }

    /// Searches the first match that begins at `from` or later. `from` may be inside of a character.
    pub(super) fn find(&mut self, program: &Program, text: &str, from: usize) -> SearchOutcome {
        // A match that begins later would not fit into the text.
        let Some(last) = text.len().checked_sub(program.bytes_min) else { return SearchOutcome::NotFound };
        let mut from = from;
        while from <= last
            && let Some(start) = program.start.find(text, from)
        {
            self.spend(1);
            if let Some(end) = self.attempt(program, text, start) {
                self.set_group(0, Some((start, end)));
                return SearchOutcome::Found;
            }
            if self.steps_left == 0 {
                return SearchOutcome::GaveUp;
            }
            from = start + 1;
        }
        SearchOutcome::NotFound
    }

    fn spend(&mut self, steps: usize) {
        self.steps_left = self.steps_left.saturating_sub(steps);
    }

    /// Returns the end of the match that begins at `start`.
    fn attempt(&mut self, program: &Program, text: &str, start: usize) -> Option<usize> {
        self.frames.clear();
        // Groups of an earlier attempt must not leak into this one.
        self.slots.fill(UNSET);
        let bytes = text.as_bytes();
        let (mut op, mut at) = (0, start);
        loop {
            let next = match &program.ops[op] {
                Op::Literal(literal) => bytes[at..].starts_with(literal).then(|| (op + 1, at + literal.len())),
                Op::Char(class) => program.classes[*class].step(text, at).map(|at| (op + 1, at)),
                Op::Run(run) => self.run(program, run, text, op, at).map(|at| (op + 1, at)),
                Op::Save(slot) => {
                    self.save(*slot, at);
                    Some((op + 1, at))
                }
                Op::Start => (at == 0).then_some((op + 1, at)),
                Op::End => (at == bytes.len()).then_some((op + 1, at)),
                Op::Branch(branch) => self.branch(branch, bytes, at).map(|op| (op, at)),
                Op::Jump(to) => Some((*to, at)),
                Op::Match => return Some(at),
            };
            (op, at) = match next {
                Some(next) => next,
                // Backtrack: the operation failed, so take the last choice that was kept.
                None => self.resume(program, bytes)?,
            };
        }
    }

    fn keep(&mut self, frame: Frame) {
        if self.frames.len() == FRAMES_MAX {
            // Too many choices. The current path may still succeed, but no other will be tried.
            self.steps_left = 0;
            self.frames.clear();
        }
        self.frames.push(frame);
    }

    fn save(&mut self, slot: usize, at: usize) {
        let position = std::mem::replace(&mut self.slots[slot], at);
        // Without a kept choice, no backtracking can need the old value.
        if !self.frames.is_empty() {
            self.keep(Frame::Slot { slot, position });
        }
    }

    /// Returns the operation to continue with.
    fn branch(&mut self, branch: &RegexBranch, text: &[u8], at: usize) -> Option<usize> {
        self.spend(1);
        let RegexBranch { preferred, other } = branch;
        match (preferred.first.is_at(text, at), other.first.is_at(text, at)) {
            (false, false) => None,
            (true, false) => Some(preferred.op),
            (false, true) => Some(other.op),
            (true, true) => {
                self.keep(Frame::Branch { op: other.op, at });
                Some(preferred.op)
            }
        }
    }

    /// Returns the end of the run of operation `op` that begins at `at`.
    fn run(&mut self, program: &Program, run: &ClassRun, text: &str, op: usize, at: usize) -> Option<usize> {
        let (first, last) = program.classes[run.class].ends(text, at, run.min, run.max)?;
        self.spend(last - at);
        // Only one end is possible, so nothing needs to be kept.
        if run.is_forced || first == last {
            return Some(last);
        }
        self.choose(run, text.as_bytes(), op, first, last + 1)
    }

    /// Returns the best position of `from..end` at which a run can end, and keeps the others.
    fn choose(&mut self, run: &ClassRun, text: &[u8], op: usize, from: usize, end: usize) -> Option<usize> {
        let (chosen, from, end) = if run.is_greedy {
            let chosen = run.follow.rfind(text, from, end)?;
            (chosen, from, chosen)
        } else {
            let chosen = run.follow.find(text, from, end)?;
            (chosen, chosen + 1, end)
        };
        if from < end {
            self.keep(Frame::Run { op, from, end });
        }
        Some(chosen)
    }

    /// Takes the last kept choice after a failure.
    fn resume(&mut self, program: &Program, text: &[u8]) -> Option<(usize, usize)> {
        self.spend(1);
        while self.steps_left > 0 {
            match self.frames.pop()? {
                Frame::Branch { op, at } => return Some((op, at)),
                Frame::Slot { slot, position } => self.slots[slot] = position,
                Frame::Run { op, from, end } => {
                    let Op::Run(run) = &program.ops[op] else { unreachable!("runs are kept by runs") };
                    if let Some(at) = self.choose(run, text, op, from, end) {
                        return Some((op + 1, at));
                    }
                }
            }
        }
        None
    }
}
