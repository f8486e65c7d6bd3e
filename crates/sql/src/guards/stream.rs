//! A result stream that ends at once when the statement is cancelled.
//!
//! The plan runs in a task of its own and hands its batches over one by one. Whoever waits for them looks at the cancel
//! flag every few milliseconds and leaves with the error even while an operator is busy inside one batch (a hash table
//! being built, a large sort); the task is aborted and ends at that operator's next step.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use futures::{Stream, StreamExt};
use rowmill_base::Cancel;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::{Sleep, sleep};

use crate::errors::to_datafusion;

/// How often a stream that waits for its input looks at the cancel flag.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Batches that the plan may be ahead of its reader.
const BATCHES_AHEAD: usize = 2;

/// `stream`, ended by an error once `cancel` says so: looked at on every poll, and while waiting every 10 ms.
///
/// Needs a runtime with its clock enabled. On one with several threads the plan runs in a task of its own.
pub fn guarded_stream(stream: SendableRecordBatchStream, cancel: Cancel) -> SendableRecordBatchStream {
    let schema = stream.schema();
    let stream = match Handle::try_current() {
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => run_apart(stream),
        _ => stream,
    };
    Box::pin(GuardedStream { stream: Some(stream), schema, cancel, alarm: None })
}

fn run_apart(mut stream: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let mut builder = RecordBatchReceiverStreamBuilder::new(stream.schema(), BATCHES_AHEAD);
    let batches = builder.tx();
    builder.spawn(async move {
        while let Some(batch) = stream.next().await {
            let failed = batch.is_err();
            if batches.send(batch).await.is_err() || failed {
                break;
            }
        }
        Ok(())
    });
    builder.build()
}

struct GuardedStream {
    /// Gone after the end and after an error, so that the operators stop at once.
    stream: Option<SendableRecordBatchStream>,
    schema: SchemaRef,
    cancel: Cancel,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl GuardedStream {
    fn end(&mut self) {
        self.stream = None;
        self.alarm = None;
    }

    /// Wakes this task again soon, so that a cancelled statement does not wait for its input.
    fn set_alarm(&mut self, context: &mut Context<'_>) {
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(LOOK_INTERVAL)));
        while alarm.as_mut().poll(context).is_ready() {
            alarm.set(sleep(LOOK_INTERVAL));
        }
    }
}

impl Stream for GuardedStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(stream) = self.stream.as_mut() else {
            return Poll::Ready(None);
        };
        let polled = stream.poll_next_unpin(context);
        if let Err(error) = self.cancel.check() {
            self.end();
            return Poll::Ready(Some(Err(to_datafusion(error))));
        }
        match polled {
            Poll::Ready(Some(Ok(batch))) => Poll::Ready(Some(Ok(batch))),
            Poll::Ready(end) => {
                self.end();
                Poll::Ready(end)
            }
            Poll::Pending => {
                self.set_alarm(context);
                Poll::Pending
            }
        }
    }
}

impl RecordBatchStream for GuardedStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
