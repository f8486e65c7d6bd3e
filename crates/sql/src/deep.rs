//! Stack space for code that walks syntax trees on the caller's thread. Copying, printing and dropping a tree
//! recurse once per level, and the caller's stack may be small.

use rowmill_base::Settings;

/// The stack that one level of a tree may take, with a wide margin. Frames are several times larger without
/// optimization.
const LEVEL_BYTES: usize = if cfg!(debug_assertions) { 128 << 10 } else { 32 << 10 };
/// The least stack for code that only walks a tree.
const WALK_BYTES_MIN: usize = 512 << 10;
/// The least stack for planning, which also reaches the defaults of columns and the queries of views. The first thread
/// of a process has that.
const ROOM_BYTES_MIN: usize = 4 << 20;
const ROOM_BYTES_MAX: usize = 1 << 30;
/// The least size of a new stack.
const STACK_BYTES_MIN: usize = 16 << 20;

/// Returns the bytes of stack that a statement with `levels` levels needs, including the views and defaults that it
/// reaches. If the setting allows more levels than usual, views and defaults may have them, so we then plan for the
/// setting's limit.
pub(crate) fn room_bytes(levels: u64, settings: &Settings) -> usize {
    let levels_max = |settings: &Settings| settings.number("expression_depth_max");
    // A view may be as deep as the setting allows, whatever the depth of the statement that names it.
    let is_raised = levels_max(settings) > levels_max(&Settings::default());
    let levels = if is_raised { levels_max(settings) } else { levels };
    (levels as usize).saturating_mul(LEVEL_BYTES).saturating_add(ROOM_BYTES_MIN).min(ROOM_BYTES_MAX)
}

/// Returns the bytes of stack that walking a tree with `levels` levels takes when nothing is planned.
pub(crate) fn walk_bytes(levels: u64) -> usize {
    (levels as usize).saturating_mul(LEVEL_BYTES).saturating_add(WALK_BYTES_MIN).min(ROOM_BYTES_MAX)
}

/// Runs `work` with at least `room_bytes` of stack. Stays on the thread's own stack if that is large enough, because
/// mapping and unmapping another one takes as long as a small query. Short work should not call it.
pub(crate) fn with_room<T>(room_bytes: usize, work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(room_bytes, room_bytes.max(STACK_BYTES_MIN), work)
}
