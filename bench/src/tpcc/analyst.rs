//! An analyst: a connection that asks one question after the other while the clients work. From time to time it checks
//! that everything it reads in one transaction comes from one state.

use std::time::{Duration, Instant};

use rowmill_base::Result;

use super::client::Reader;
use super::histogram::Histogram;
use super::one_snapshot;
use super::questions::{ALL, QUESTIONS};

/// The number of questions between two checks of the snapshot.
const QUESTIONS_PER_CHECK: usize = 4;
/// The most differences of an analyst that we keep for the report.
const DIFFERENCES_MAX: usize = 10;

/// The outcomes of a question.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The latencies of the answers.
    pub latencies: Histogram,
    /// The number of times that the question failed.
    pub failed: u64,
    /// The last error.
    pub error: Option<String>,
}

/// The results of one or more analysts.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The outcomes of each question.
    pub questions: [Asked; QUESTIONS],
    /// The number of checks of the snapshot.
    pub checks: u64,
    /// The first few differences: statements that did not see the state of their transaction, and checks that failed.
    pub differences: Vec<String>,
}

impl Findings {
    /// Adds the findings of another analyst.
    pub fn add(&mut self, other: &Findings) {
        for (asked, more) in self.questions.iter_mut().zip(&other.questions) {
            asked.latencies.add(&more.latencies);
            asked.failed += more.failed;
            asked.error = asked.error.take().or_else(|| more.error.clone());
        }
        self.checks += other.checks;
        self.differences.extend(other.differences.iter().cloned());
    }

    /// The number of answers.
    pub fn answered(&self) -> u64 {
        self.questions.iter().map(|asked| asked.latencies.count()).sum()
    }

    /// The geometric mean of the medians of all answered questions.
    pub fn geometric_mean(&self) -> Option<Duration> {
        let medians: Vec<f64> = self.medians().map(|(_, median)| median.as_secs_f64().ln()).collect();
        let mean = medians.iter().sum::<f64>() / medians.len() as f64;
        (!medians.is_empty()).then(|| Duration::from_secs_f64(mean.exp()))
    }

    /// The question with the longest median: its number, counted from 1, and the median.
    pub fn slowest(&self) -> Option<(usize, Duration)> {
        self.medians().max_by_key(|(_, median)| *median)
    }

    fn medians(&self) -> impl Iterator<Item = (usize, Duration)> {
        let answered = (1..).zip(&self.questions).filter(|(_, asked)| asked.latencies.count() > 0);
        answered.map(|(number, asked)| (number, asked.latencies.percentile(0.5)))
    }
}

/// A running analyst.
pub struct Analyst<'a> {
    reader: Box<dyn Reader + 'a>,
    /// The number of questions asked. It starts at a different value for each analyst, so that they begin with
    /// different questions.
    step: usize,
    findings: Findings,
}

impl Analyst<'_> {
    /// Makes analyst number `number`, counted from 0, of `analysts`.
    pub fn new(reader: Box<dyn Reader + '_>, number: usize, analysts: usize) -> Analyst<'_> {
        Analyst { reader, step: number * QUESTIONS / analysts, findings: Findings::default() }
    }

    /// Resets the findings when the warm-up ends.
    pub fn restart(&mut self) {
        self.findings = Findings::default();
    }

    /// Returns the findings.
    pub fn into_findings(self) -> Findings {
        self.findings
    }

    /// Asks the next question. Before some questions it also checks the snapshot.
    pub fn step(&mut self) -> Result<()> {
        if self.step.is_multiple_of(QUESTIONS_PER_CHECK) {
            self.check();
        }
        let number = self.step % QUESTIONS;
        self.step += 1;
        let begun = Instant::now();
        let answer = self.reader.ask(ALL[number].sql);
        let asked = &mut self.findings.questions[number];
        match answer {
            Ok(_) => asked.latencies.record(begun.elapsed()),
            Err(error) => {
                asked.failed += 1;
                asked.error = Some(error.to_string());
                // The failed statement may have left a transaction open.
                self.reader.end()?;
            }
        }
        Ok(())
    }

    fn check(&mut self) {
        self.findings.checks += 1;
        let found = one_snapshot::differences(&mut *self.reader)
            .unwrap_or_else(|error| vec![format!("a check of the snapshot failed: {error}")]);
        // Many differences usually have one cause, so we keep only the first ones.
        let left = DIFFERENCES_MAX.saturating_sub(self.findings.differences.len());
        self.findings.differences.extend(found.into_iter().take(left));
    }
}

#[cfg(test)]
mod tests {
    use rowmill_base::Error;

    use super::*;

    /// Answers some questions, and returns a different state each time.
    #[derive(Default)]
    struct Unsteady {
        asked: usize,
    }

    impl Reader for Unsteady {
        fn begin(&mut self) -> Result<()> {
            Ok(())
        }

        fn end(&mut self) -> Result<()> {
            Ok(())
        }

        fn ask(&mut self, sql: &str) -> Result<usize> {
            if sql == ALL[2].sql { Err(Error::internal("no answer")) } else { Ok(1) }
        }

        fn rows(&mut self, _: &str) -> Result<Vec<String>> {
            self.asked += 1;
            Ok(vec![self.asked.to_string()])
        }
    }

    #[test]
    fn failures_and_differences_are_kept() {
        let mut analyst = Analyst::new(Box::new(Unsteady::default()), 0, 1);
        (0..QUESTIONS).for_each(|_| analyst.step().unwrap());
        let mut findings = Findings::default();
        findings.add(&analyst.into_findings());
        assert_eq!((findings.answered(), findings.questions[2].failed, findings.checks), (21, 1, 6));
        assert_eq!(findings.questions[2].error.as_deref(), Some("no answer"));
        assert_eq!(findings.differences.len(), DIFFERENCES_MAX);
        assert!(findings.geometric_mean().is_some() && findings.slowest().is_some_and(|(number, _)| number != 3));
    }
}
