//! Runs programs. Where a program leaves a choice, the other way is kept on a stack and tried when the first one fails.
//!
//! Trying one way after another can take exponential time, so steps are counted: after a few for every byte of the text the
//! machine gives up, and the library has to answer, whose time is linear.

use regex_syntax::hir::Look;
use regex_syntax::is_word_character;

use super::program::{Branch, Op, Program, Run, Sides};

/// Steps for every byte of a text, and for the text itself. A byte that a run walks over is a step, a choice is one.
const STEPS_PER_BYTE: usize = 16;
const STEPS_PER_TEXT: usize = 256;

/// Choices that are kept at most.
const FRAMES_MAX: usize = 1 << 14;

/// A slot whose group is not part of the match.
const UNSET: usize = usize::MAX;

/// What a search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Found,
    NotFound,
    /// The steps did not suffice.
    GaveUp,
}

/// The state of a matcher, kept from text to text.
#[derive(Debug)]
pub(super) struct Machine {
    frames: Vec<Frame>,
    /// The positions of groups: where group g begins and ends at 2g and 2g + 1. Group 0 is the match.
    slots: Vec<usize>,
    steps_left: usize,
}

/// What is done when a way fails, the last one first.
#[derive(Clone, Copy, Debug)]
enum Frame {
    /// Goes on with another operation.
    Branch { op: usize, at: usize },
    /// Ends the run of an operation at another position of a range.
    Run { op: usize, from: usize, end: usize },
    /// Gives a slot back what it had.
    Slot { slot: usize, position: usize },
}

impl Machine {
    /// A machine for groups up to `group_last`.
    pub(super) fn new(group_last: usize) -> Machine {
        Machine { frames: Vec::new(), slots: vec![UNSET; 2 * group_last + 2], steps_left: 0 }
    }

    /// The positions of a group in the last match.
    pub(super) fn group(&self, group: usize) -> Option<(usize, usize)> {
        let (start, end) = (self.slots[2 * group], self.slots[2 * group + 1]);
        (start != UNSET && end != UNSET).then_some((start, end))
    }

    /// Sets the positions of a group as somebody else found them.
    pub(super) fn set_group(&mut self, group: usize, positions: Option<(usize, usize)>) {
        (self.slots[2 * group], self.slots[2 * group + 1]) = positions.unwrap_or((UNSET, UNSET));
    }

    /// Begins with a text: all searches in it share its steps.
    pub(super) fn begin(&mut self, text: &str) {
        self.steps_left = text.len().saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS_PER_TEXT);
    }

    /// Looks for the first match that begins at `from` or later, which is the border of a character or lies inside one.
    pub(super) fn find(&mut self, program: &Program, text: &str, from: usize) -> Outcome {
        let Some(last) = text.len().checked_sub(program.bytes_min) else { return Outcome::NotFound };
        let mut from = from;
        while from <= last
            && let Some(start) = program.start.find(text, from)
        {
            self.spend(1);
            if let Some(end) = self.attempt(program, text, start) {
                self.set_group(0, Some((start, end)));
                return Outcome::Found;
            }
            if self.steps_left == 0 {
                return Outcome::GaveUp;
            }
            from = start + 1;
        }
        Outcome::NotFound
    }

    fn spend(&mut self, steps: usize) {
        self.steps_left = self.steps_left.saturating_sub(steps);
    }

    /// The end of the match that begins at `start`.
    fn attempt(&mut self, program: &Program, text: &str, start: usize) -> Option<usize> {
        self.frames.clear();
        self.slots.fill(UNSET);
        let bytes = text.as_bytes();
        let (mut op, mut at) = (0, start);
        loop {
            let next = match &program.ops[op] {
                Op::Literal(literal) => literal.behind(bytes, at).map(|at| (op + 1, at)),
                Op::Char(class) => program.classes[*class].step(text, at).map(|at| (op + 1, at)),
                Op::Run(run) => self.run(program, run, text, op, at).map(|at| (op + 1, at)),
                Op::Save(slot) => {
                    self.save(*slot, at);
                    Some((op + 1, at))
                }
                Op::Look(look) => holds(*look, text, at).then_some((op + 1, at)),
                Op::Branch(branch) => self.branch(branch, bytes, at).map(|op| (op, at)),
                Op::Jump(to) => Some((*to, at)),
                Op::Match => return Some(at),
            };
            (op, at) = match next {
                Some(next) => next,
                None => self.resume(program, bytes)?,
            };
        }
    }

    fn keep(&mut self, frame: Frame) {
        if self.frames.len() == FRAMES_MAX {
            // The way that is being tried may still succeed, but it is the last one.
            self.steps_left = 0;
            self.frames.clear();
        }
        self.frames.push(frame);
    }

    fn save(&mut self, slot: usize, at: usize) {
        let position = std::mem::replace(&mut self.slots[slot], at);
        if !self.frames.is_empty() {
            self.keep(Frame::Slot { slot, position });
        }
    }

    /// The operation to go on with.
    fn branch(&mut self, branch: &Branch, text: &[u8], at: usize) -> Option<usize> {
        self.spend(1);
        match branch.sides(text, at) {
            Sides::Neither => None,
            Sides::Preferred => Some(branch.preferred),
            Sides::Other => Some(branch.other),
            Sides::Both => {
                self.keep(Frame::Branch { op: branch.other, at });
                Some(branch.preferred)
            }
        }
    }

    /// Where the run of operation `op` ends that begins at `at`.
    fn run(&mut self, program: &Program, run: &Run, text: &str, op: usize, at: usize) -> Option<usize> {
        let (first, last) = program.classes[run.class].ends(text, at, run.min, run.max)?;
        self.spend(last - at);
        if run.is_forced || first == last {
            return Some(last);
        }
        self.choose(run, text.as_bytes(), op, first, last + 1)
    }

    /// The best position of `from..end` for a run to end at; the others are kept.
    fn choose(&mut self, run: &Run, text: &[u8], op: usize, from: usize, end: usize) -> Option<usize> {
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

    /// The next way, after one has failed.
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

/// Whether what a pattern looks for is there at `at`.
fn holds(look: Look, text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    match look {
        Look::Start => at == 0,
        Look::End => at == bytes.len(),
        Look::StartLF => at == 0 || bytes[at - 1] == b'\n',
        Look::EndLF => bytes.get(at).is_none_or(|&byte| byte == b'\n'),
        Look::WordUnicode => is_word_border(text, at),
        Look::WordUnicodeNegate => !is_word_border(text, at),
        _ => unreachable!("the compiler takes no other"),
    }
}

fn is_word_border(text: &str, at: usize) -> bool {
    let before = text[..at].chars().next_back().is_some_and(is_word_character);
    let behind = text[at..].chars().next().is_some_and(is_word_character);
    before != behind
}
