//! Room on the stack for code that walks syntax trees on the caller's thread: copying, printing and dropping them
//! recurses once per level, and the caller's stack may be small.

/// What one level of a tree may take, with much to spare.
const LEVEL_BYTES: usize = 16 << 10;
const ROOM_BYTES_MIN: usize = 2 << 20;
const ROOM_BYTES_MAX: usize = 1 << 30;

/// The stack that trees of so many levels need, in bytes. The stack of most threads has that for most statements: another one
/// would have to be made for each of those.
pub(crate) fn room_bytes(levels: u64) -> usize {
    (levels as usize).saturating_mul(LEVEL_BYTES).saturating_add(ROOM_BYTES_MIN).min(ROOM_BYTES_MAX)
}

/// Runs `work` with at least `room_bytes` of stack.
pub(crate) fn with_room<T>(room_bytes: usize, work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(room_bytes, room_bytes, work)
}
