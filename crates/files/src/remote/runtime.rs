//! The threads that requests run on, and how the engine waits for them.

use std::future::Future;
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use rowmill_base::{Cancel, Error, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// They move and decrypt bytes; the engine needs the processors.
const THREADS: usize = 2;
/// How often a thread that waits looks at the cancel flag.
pub(super) const CANCEL_CHECK: Duration = Duration::from_millis(20);

/// The runtime of the process. It starts with the first request and is never stopped.
fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let started = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread().worker_threads(THREADS).thread_name("rowmill-remote").enable_all().build()
    });
    started.as_ref().map_err(|error| Error::io("starting the threads for files over the network", error))
}

/// Runs `future` beside the caller.
pub(super) fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Result<JoinHandle<T>> {
    Ok(runtime()?.spawn(future))
}

/// Runs `future` and waits for its result. When `cancel` is set, drops the future and returns the error of the flag.
///
/// Any thread may call this, also one of another runtime, because it parks the thread in the usual way.
pub(super) fn wait<T: Send + 'static>(cancel: &Cancel, future: impl Future<Output = T> + Send + 'static) -> Result<T> {
    cancel.check()?;
    let (sender, receiver) = sync_channel(1);
    let task = spawn(async move {
        // The channel has room for the only value, so this does not block.
        let _ = sender.send(future.await);
    })?;
    loop {
        match receiver.recv_timeout(CANCEL_CHECK) {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(error) = cancel.check() {
                    task.abort();
                    return Err(error);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Err(Error::internal("a request panicked")),
        }
    }
}

#[cfg(test)]
mod tests {
    use rowmill_base::ErrorKind;

    use super::*;

    #[test]
    fn waiting_ends_with_the_result_or_the_flag() {
        let cancel = Cancel::new();
        assert_eq!(wait(&cancel, async { 7 }).expect("a result"), 7);
        cancel.set_deadline(Duration::from_millis(30));
        let error = wait(&cancel, async { tokio::time::sleep(Duration::from_secs(60)).await })
            .expect_err("the deadline passes");
        assert_eq!(error.kind(), ErrorKind::Deadline);
        let panics = wait(&Cancel::new(), async { panic!("asked to") });
        assert_eq!(panics.map(|(): ()| ()).expect_err("it panics").kind(), ErrorKind::Internal);
    }
}
