//! Clients at work, each on a thread, without think times, and analysts beside them: first to warm up, then measured.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rowmill_base::Result;

use super::analyst::{Analyst, Findings};
use super::client::Engine;
use super::terminal::{Tallies, Terminal};
use super::world::World;
use crate::process::{ThreadTimes, cpu_s};

/// How often it is looked whether a client has failed.
const GLANCE: Duration = Duration::from_millis(20);

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The database.
    pub world: World,
    /// Clients at the same time.
    pub clients: usize,
    /// Analysts at the same time. Their tables are made if they are not there.
    pub analysts: usize,
    /// Before it counts.
    pub warmup: Duration,
    /// While it counts.
    pub time: Duration,
    /// Attempts after the first, where others commit first.
    pub max_retry: u32,
    /// Another seed makes other transactions.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug)]
pub struct Measured {
    /// By kind of transaction.
    pub tallies: Tallies,
    /// How long it took.
    pub seconds: f64,
    /// The process's processor time in that time, where it is known.
    pub cpu_s: Option<f64>,
    /// What became of the time of all clients together, where that is known.
    pub clients: Option<ThreadTimes>,
    /// What the analysts have found.
    pub findings: Findings,
}

/// When it counts.
#[derive(Clone, Copy)]
struct Phase {
    from: Instant,
    until: Instant,
}

impl Phase {
    /// Takes steps until it is over, or somebody has failed. `step` is told once that the phase has begun.
    fn repeat(self, stop: &AtomicBool, mut step: impl FnMut(bool) -> Result<()>) -> Result<()> {
        let mut is_warm = false;
        while !stop.load(Relaxed) {
            let now = Instant::now();
            if now >= self.until {
                break;
            }
            let begins = !is_warm && now >= self.from;
            is_warm |= begins;
            step(begins)?;
        }
        Ok(())
    }
}

/// Runs it.
pub fn run<E: Engine>(engine: &E, run: &Run) -> Result<Measured> {
    let from = Instant::now() + run.warmup;
    let (phase, stop) = (Phase { from, until: from + run.time }, AtomicBool::new(false));
    thread::scope(|scope| {
        let client = |number| {
            let stop = &stop;
            scope.spawn(move || {
                let done = work(engine, run, number, phase, stop);
                stop.fetch_or(done.is_err(), Relaxed);
                done
            })
        };
        let analyst = |number| {
            let stop = &stop;
            scope.spawn(move || {
                let done = analyse(engine, run, number, phase, stop);
                stop.fetch_or(done.is_err(), Relaxed);
                done
            })
        };
        let clients: Vec<_> = (0..run.clients).map(client).collect();
        let analysts: Vec<_> = (0..run.analysts).map(analyst).collect();
        let before = wait(phase.from, &stop).and_then(|()| cpu_s());
        let after = wait(phase.until, &stop).and_then(|()| cpu_s());

        let (mut tallies, mut times) = (Tallies::default(), Some(ThreadTimes::default()));
        for client in clients {
            let (of_client, taken) = client.join().expect("a client panicked")?;
            tallies.iter_mut().zip(&of_client).for_each(|(tally, more)| tally.add(more));
            times = times.zip(taken).map(|(times, taken)| times + taken);
        }
        let mut findings = Findings::default();
        for analyst in analysts {
            findings.add(&analyst.join().expect("an analyst panicked")?);
        }
        let cpu_s = after.zip(before).map(|(after, before)| after - before);
        Ok(Measured { tallies, seconds: run.time.as_secs_f64(), cpu_s, clients: times, findings })
    })
}

/// Sleeps until then; not to the end if a client has failed.
fn wait(until: Instant, stop: &AtomicBool) -> Option<()> {
    loop {
        if stop.load(Relaxed) {
            return None;
        }
        match until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => return Some(()),
            left => thread::sleep(left.min(GLANCE)),
        }
    }
}

fn work<E: Engine>(
    engine: &E,
    run: &Run,
    number: usize,
    phase: Phase,
    stop: &AtomicBool,
) -> Result<(Tallies, Option<ThreadTimes>)> {
    let mut terminal = Terminal::new(run.world, number, run.clients, run.max_retry, run.seed);
    let mut from = ThreadTimes::of_this();
    engine.with_client(|client| {
        phase.repeat(stop, |begins| {
            if begins {
                terminal.restart();
                from = ThreadTimes::of_this();
            }
            terminal.step(client)
        })
    })?;
    let taken = ThreadTimes::of_this().zip(from).map(|(until, from)| until - from);
    Ok((terminal.into_tallies(), taken))
}

fn analyse<E: Engine>(engine: &E, run: &Run, number: usize, phase: Phase, stop: &AtomicBool) -> Result<Findings> {
    let mut analyst = Analyst::new(engine.reader()?, number, run.analysts);
    phase.repeat(stop, |begins| {
        if begins {
            analyst.restart();
        }
        analyst.step()
    })?;
    Ok(analyst.into_findings())
}
