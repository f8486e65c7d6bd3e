//! The pool of threads that run queries. All databases of the process share it.

use rowmill_exec::workers::Workers;

use crate::guards::quiet_panics;

/// The stack of a thread that runs operators, which recurse over expressions. A page of it takes memory only after its
/// first use.
const STACK_BYTES: usize = 1 << 30;

static WORKERS: Workers = Workers::new("rowmill-engine", STACK_BYTES, quiet_panics);

/// Returns the pool of the engine's threads.
pub(crate) fn workers() -> &'static Workers {
    &WORKERS
}
