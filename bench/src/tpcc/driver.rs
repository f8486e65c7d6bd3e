//! Runs clients, each on a thread of its own and without think times or at a steady rate, and analysts at the same
//! time. A warm-up comes first; after it we measure.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rowmill_base::Result;

use super::analyst::{Analyst, Findings};
use super::client::Engine;
use super::terminal::{Tallies, Terminal};
use super::world::World;
use crate::instructions::InstructionCounter;
use crate::process::{ThreadTimes, cpu_s};

/// The interval at which we check whether a client has failed.
const GLANCE: Duration = Duration::from_millis(20);

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The database.
    pub world: World,
    /// The number of concurrent clients.
    pub clients: usize,
    /// The transactions that all clients together begin in a second. Without a rate, each client begins one when the
    /// one before has ended.
    pub rate: Option<f64>,
    /// The number of concurrent analysts. Their tables are made if they are missing.
    pub analysts: usize,
    /// The time before we measure.
    pub warmup: Duration,
    /// The time for which we measure.
    pub time: Duration,
    /// The most further attempts of a transaction for which others committed first.
    pub max_retry: u32,
    /// Another seed makes other transactions.
    pub seed: u64,
}

/// The results of a run.
#[derive(Debug)]
pub struct Measured {
    /// The outcomes by kind of transaction.
    pub tallies: Tallies,
    /// The measured seconds.
    pub seconds: f64,
    /// The process's processor time in these seconds, if known.
    pub cpu_s: Option<f64>,
    /// How all clients together spent their time, if known.
    pub clients: Option<ThreadTimes>,
    /// The instructions of all clients outside of the kernel, or why they are unknown.
    pub instructions: std::result::Result<u64, String>,
    /// The findings of the analysts.
    pub findings: Findings,
}

/// The start and the end of the measurement.
#[derive(Clone, Copy)]
struct Phase {
    from: Instant,
    until: Instant,
}

impl Phase {
    /// Takes steps until the phase is over, or until any thread has failed. Tells `step` once when the measurement
    /// begins.
    fn repeat(self, stop: &AtomicBool, mut step: impl FnMut(bool) -> Result<()>) -> Result<()> {
        // A client starts to count at the first step after `from`, because a step cannot be interrupted.
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

/// The moments at which a client begins its transactions.
enum Pace {
    /// When the one before has ended.
    AtOnce,
    /// At regular moments.
    Steady { next: Instant, gap: Duration },
}

impl Pace {
    fn new(run: &Run, number: usize) -> Pace {
        match run.rate {
            None => Pace::AtOnce,
            Some(rate) => {
                let gap = Duration::from_secs_f64(run.clients as f64 / rate);
                // Clients take turns.
                let share = gap.mul_f64(number as f64 / run.clients as f64);
                Pace::Steady { next: Instant::now() + share, gap }
            }
        }
    }

    /// Waits until the next transaction is due. Returns the moment from which its latency must count: if the one before
    /// took too long, this one has waited for it since it was due. Returns `None` if the phase ends before, or if a
    /// client has failed.
    fn wait(&mut self, phase: Phase, stop: &AtomicBool) -> Option<Instant> {
        let Pace::Steady { next, gap } = self else { return Some(Instant::now()) };
        let due = *next;
        *next += *gap;
        if due <= Instant::now() {
            return Some(due);
        }
        wait(due.min(phase.until), stop)?;
        (due < phase.until).then(Instant::now)
    }
}

/// Runs clients and analysts, and collects their results.
pub fn run<E: Engine>(engine: &E, run: &Run) -> Result<Measured> {
    let from = Instant::now() + run.warmup;
    let (phase, stop) = (Phase { from, until: from + run.time }, AtomicBool::new(false));
    thread::scope(|scope| {
        let client = |number| {
            let stop = &stop;
            scope.spawn(move || {
                let done = work(engine, run, number, phase, stop);
                // One failure must end the whole run; otherwise the other threads would work until the end of the
                // phase.
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
        // We read the processor time at both ends of the phase, while the threads go on.
        let before = wait(phase.from, &stop).and_then(|()| cpu_s());
        let after = wait(phase.until, &stop).and_then(|()| cpu_s());

        // Clients that are in a transaction at the end finish it, so joining waits for the slowest.
        let (mut tallies, mut times, mut instructions) = (Tallies::default(), Some(ThreadTimes::default()), Ok(0));
        for client in clients {
            let work = client.join().expect("a client panicked")?;
            tallies.iter_mut().zip(&work.tallies).for_each(|(tally, more)| tally.add(more));
            times = times.zip(work.times).map(|(times, taken)| times + taken);
            instructions = instructions.and_then(|count: u64| work.instructions.map(|more| count + more));
        }
        let mut findings = Findings::default();
        for analyst in analysts {
            findings.add(&analyst.join().expect("an analyst panicked")?);
        }
        let cpu_s = after.zip(before).map(|(after, before)| after - before);
        Ok(Measured { tallies, seconds: run.time.as_secs_f64(), cpu_s, clients: times, instructions, findings })
    })
}

/// Sleeps until `until`. Returns early if a client has failed.
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

/// The work of one client.
struct ClientWork {
    tallies: Tallies,
    times: Option<ThreadTimes>,
    instructions: std::result::Result<u64, String>,
}

fn work<E: Engine>(engine: &E, run: &Run, number: usize, phase: Phase, stop: &AtomicBool) -> Result<ClientWork> {
    let mut terminal = Terminal::new(run.world, number, run.clients, run.max_retry, run.seed);
    let (mut from, mut counter) = (ThreadTimes::of_this(), InstructionCounter::start());
    let mut pace = Pace::new(run, number);
    engine.with_client(|client| {
        phase.repeat(stop, |begins| {
            if begins {
                // The warm-up fills caches and must not count.
                terminal.restart();
                (from, counter) = (ThreadTimes::of_this(), InstructionCounter::start());
            }
            pace.wait(phase, stop).map_or(Ok(()), |begun| terminal.step(client, begun))
        })
    })?;
    let instructions = counter.count();
    let times = ThreadTimes::of_this().zip(from).map(|(until, from)| until - from);
    Ok(ClientWork { tallies: terminal.into_tallies(), times, instructions })
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
