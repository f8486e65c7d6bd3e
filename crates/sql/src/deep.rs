//! Room on the stack for code that walks syntax trees on the caller's thread: copying, printing and dropping them
//! recurses once per level, and the caller's stack may be small.

use rowmill_base::Settings;

/// What one level of a tree may take, with much to spare.
const LEVEL_BYTES: usize = 16 << 10;
const ROOM_BYTES_MIN: usize = 8 << 20;
const ROOM_BYTES_MAX: usize = 1 << 30;

/// The stack that trees within the limits of `settings` need, in bytes.
pub(crate) fn room_bytes(settings: &Settings) -> usize {
    let levels = settings.number("expression_depth_max") as usize;
    levels.saturating_mul(LEVEL_BYTES).clamp(ROOM_BYTES_MIN, ROOM_BYTES_MAX)
}

/// Runs `work` with at least `room_bytes` of stack.
pub(crate) fn with_room<T>(room_bytes: usize, work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(room_bytes, room_bytes, work)
}
