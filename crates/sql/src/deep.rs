//! Room on the stack for code that walks syntax trees on the caller's thread: copying, printing and dropping them
//! recurses once per level, and the caller's stack may be small.

use rowmill_base::Settings;

/// What one level of a tree may take of the stack, with much to spare. Without optimization frames are several times
/// larger.
const LEVEL_BYTES: usize = if cfg!(debug_assertions) { 128 << 10 } else { 32 << 10 };
/// For what walks a tree.
const WALK_BYTES_MIN: usize = 512 << 10;
/// For what a statement leads to beside its own tree: defaults of columns, views. The stack of a program's first thread has that.
const ROOM_BYTES_MIN: usize = 4 << 20;
const ROOM_BYTES_MAX: usize = 1 << 30;
/// A stack that is made, at least.
const STACK_BYTES_MIN: usize = 16 << 20;

/// The stack that a statement of so many levels needs, in bytes, and what it leads to: that may have more levels than usual where
/// the setting allows more.
pub(crate) fn room_bytes(levels: u64, settings: &Settings) -> usize {
    let levels_max = |settings: &Settings| settings.number("expression_depth_max");
    let is_raised = levels_max(settings) > levels_max(&Settings::default());
    let levels = if is_raised { levels_max(settings) } else { levels };
    (levels as usize).saturating_mul(LEVEL_BYTES).saturating_add(ROOM_BYTES_MIN).min(ROOM_BYTES_MAX)
}

/// The stack that walking a tree of so many levels takes, in bytes, if nothing is planned.
pub(crate) fn walk_bytes(levels: u64) -> usize {
    (levels as usize).saturating_mul(LEVEL_BYTES).saturating_add(WALK_BYTES_MIN).min(ROOM_BYTES_MAX)
}

/// Runs `work` with at least `room_bytes` of stack: on that of the thread if it is large enough, since to make another one and to
/// unmap it takes as long as a small query.
pub(crate) fn with_room<T>(room_bytes: usize, work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(room_bytes, room_bytes.max(STACK_BYTES_MIN), work)
}
