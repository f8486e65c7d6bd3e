//! The steps of a join, as one worker goes through them.

use std::sync::Arc;

use arrow::array::RecordBatch;
use rowmill_base::Result;

use super::Join;
use super::metrics::add;
use super::prepare::Built;
use super::probe::Prober;
use super::rest::Rest;

/// A worker's share of the result.
pub(super) struct JoinWorker {
    join: Arc<Join>,
    step: Step,
}

enum Step {
    Build,
    Probe(Box<Prober>),
    Rest(Rest),
    Over,
}

impl JoinWorker {
    pub(super) fn new(join: Arc<Join>) -> JoinWorker {
        JoinWorker { join, step: Step::Build }
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let next = match &mut self.step {
                Step::Build => self.build()?,
                Step::Probe(prober) => match prober.next_batch()? {
                    Some(batch) => return Ok(Some(batch)),
                    None => self.end_probing()?,
                },
                Step::Rest(rest) => match rest.next_batch(&self.join)? {
                    Some(batch) => return Ok(Some(batch)),
                    None => Step::Over,
                },
                Step::Over => return Ok(None),
            };
            self.step = next;
        }
    }

    fn build(&self) -> Result<Step> {
        let join = &self.join;
        let Some(built) = join.built()? else { return Ok(Step::Over) };
        // Nothing can match, so the probe side need not be read at all.
        if built.stored.rows == 0 && !join.request.kind.keeps_probe() {
            return Ok(Step::Over);
        }
        Ok(match join.probing.enter() {
            Some(turn) => Step::Probe(Box::new(Prober::new(Arc::clone(join), built, turn))),
            // All rows of the probe side were taken.
            None => self.rest(built)?,
        })
    }

    fn end_probing(&mut self) -> Result<Step> {
        let Step::Probe(prober) = std::mem::replace(&mut self.step, Step::Over) else {
            unreachable!("only the probe step ends probing")
        };
        let built = prober.leave();
        self.rest(built)
    }

    fn rest(&self, built: Arc<Built>) -> Result<Step> {
        let join = &self.join;
        if !join.request.kind.marks_build() {
            return Ok(Step::Over);
        }
        // A row of the build side has no match only if no worker found one, so all workers must finish probing first.
        Ok(match join.probing.wait(&join.request.cancel, |_| Ok(()))? {
            Some(_) => Step::Rest(Rest::new(built)),
            None => Step::Over,
        })
    }
}

impl Iterator for JoinWorker {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch();
        match &next {
            Ok(Some(batch)) => add(&self.join.metrics.output_rows, batch.num_rows()),
            end => {
                self.step = Step::Over;
                if end.is_err() {
                    self.join.probing.end();
                }
                // This worker needs the build side no longer. An error ends probing too, so that no other worker waits
                // for this one.
                self.join.let_go();
            }
        }
        next.transpose()
    }
}
