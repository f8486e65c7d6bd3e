//! The pool of threads on which queries run, shared by all databases of the process.

use rowmill_exec::workers::Workers;

use crate::guards::quiet_panics;

/// Stack of a thread that runs operators, which recurse over expressions. A page of it is memory only once it was used.
const STACK_BYTES: usize = 1 << 30;

static WORKERS: Workers = Workers::new("rowmill-engine", STACK_BYTES, quiet_panics);

/// The engine's threads.
pub(crate) fn workers() -> &'static Workers {
    &WORKERS
}
