//! The pools of threads on which queries run, shared by all databases of the process: the engine's, and the one of
//! DataFusion's operators.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use rowmill_exec::workers::Workers;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::guards::{STACK_BYTES, quiet_panics};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let threads = available_parallelism().map_or(2, |cores| cores.get());
    Builder::new_multi_thread()
        .worker_threads(threads.max(2))
        .thread_name("rowmill-query")
        .thread_stack_size(STACK_BYTES)
        .on_thread_start(quiet_panics)
        .enable_time()
        .build()
        .expect("the operating system gives a process a few threads")
});

static WORKERS: Workers = Workers::new("rowmill-engine", STACK_BYTES, quiet_panics);

/// The engine's threads.
pub(crate) fn workers() -> &'static Workers {
    &WORKERS
}

/// The pool of DataFusion's operators.
pub(crate) fn handle() -> &'static Handle {
    RUNTIME.handle()
}
