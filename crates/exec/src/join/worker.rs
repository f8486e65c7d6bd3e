//! The steps of a join, as one worker goes through them.

use std::sync::Arc;

use arrow::array::RecordBatch;
use rowmill_base::Result;

use super::HashJoin;
use super::metrics::add;
use super::prepare::{Built, FinishedBuild};
use super::probe::Prober;
use super::rest::BuildRest;
use super::spill::StageShare;

/// A worker's share of the result.
pub(super) struct JoinWorker {
    join: Arc<HashJoin>,
    step: JoinStep,
}

enum JoinStep {
    Build,
    Probe(Box<Prober>),
    Rest(BuildRest),
    Stages(StageShare),
    Over,
}

impl JoinWorker {
    pub(super) fn new(join: Arc<HashJoin>) -> JoinWorker {
        JoinWorker { join, step: JoinStep::Build }
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let next = match &mut self.step {
                JoinStep::Build => self.build()?,
                JoinStep::Probe(prober) => match prober.next_batch()? {
                    Some(batch) => return Ok(Some(batch)),
                    None => self.end_probing()?,
                },
                JoinStep::Rest(rest) => match rest.next_batch(&self.join)? {
                    Some(batch) => return Ok(Some(batch)),
                    None => JoinStep::Over,
                },
                JoinStep::Stages(stages) => match stages.next_batch(&self.join)? {
                    Some(batch) => return Ok(Some(batch)),
                    None => JoinStep::Over,
                },
                JoinStep::Over => return Ok(None),
            };
            self.step = next;
        }
    }

    fn build(&self) -> Result<JoinStep> {
        let join = &self.join;
        let ready = match join.built()? {
            Some(FinishedBuild::InMemory(ready)) => ready,
            Some(FinishedBuild::OnDisk(stages)) => return Ok(JoinStep::Stages(StageShare::new(stages))),
            None => return Ok(JoinStep::Over),
        };
        // Nothing can match, so the probe side need not be read at all.
        if ready.built.stored.rows == 0 && !join.request.kind.keeps_probe() {
            return Ok(JoinStep::Over);
        }
        Ok(match join.probing.enter() {
            Some(turn) => JoinStep::Probe(Box::new(Prober::new(Arc::clone(join), ready, turn)?)),
            // All rows of the probe side were taken.
            None => self.rest(ready.built)?,
        })
    }

    fn end_probing(&mut self) -> Result<JoinStep> {
        let JoinStep::Probe(prober) = std::mem::replace(&mut self.step, JoinStep::Over) else {
            unreachable!("only the probe step ends probing")
        };
        let built = prober.leave();
        self.rest(built)
    }

    fn rest(&self, built: Arc<Built>) -> Result<JoinStep> {
        let join = &self.join;
        let marks_build = join.request.kind.marks_build();
        // The next piece must know all that this one finds about the probe rows.
        if !marks_build && join.part.notes.is_none() {
            return Ok(JoinStep::Over);
        }
        // A row of the build side has no match only if no worker found one, so all workers must finish probing first.
        Ok(match join.probing.wait(&join.request.cancel, |_| Ok(()))? {
            Some(_) if marks_build => JoinStep::Rest(BuildRest::new(built)),
            _ => JoinStep::Over,
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
                self.step = JoinStep::Over;
                if end.is_err() {
                    self.join.probing.end();
                    self.join.scattering.whole().inspect(|stages| stages.end());
                }
                // This worker needs the build side no longer. An error ends probing too, so that no other worker waits
                // for this one.
                self.join.let_go();
            }
        }
        next.transpose()
    }
}
