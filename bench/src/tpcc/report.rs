//! The report of a run: JSON, or lines for people.

use std::fmt::Write as _;
use std::time::Duration;

use rowmill_base::{Error, Result, allocations};
use serde_json::{Map, Value, json};

use super::analyst::{Asked, Findings};
use super::deck::Kind;
use super::driver::Measured;
use super::options::{Durability, Options};
use super::questions;
use super::sizes::Sizes;
use super::terminal::Tally;
use crate::bare_log::SyncTime;
use crate::process::ThreadTimes;

/// We expect a run to reach this share of the attainable tpmC.
const BOUND_SHARE: f64 = 0.8;

/// A run and its circumstances.
#[derive(Debug)]
pub struct Report<'a> {
    /// The options of the run.
    pub options: &'a Options,
    /// The engine's name.
    pub engine: &'a str,
    /// The seconds of loading, if the run loaded.
    pub load_s: Option<f64>,
    /// The times of the bare log loop, before the run and after it.
    pub syncs: [SyncTime; 2],
    /// The sizes of the database on disk.
    pub sizes: Sizes,
    /// The run.
    pub measured: Measured,
    /// The number of rows that break each consistency condition.
    pub broken: [i64; 12],
}

impl Report<'_> {
    /// The number of new orders committed per minute.
    pub fn tpm_c(&self) -> f64 {
        self.measured.tallies[Kind::NewOrder as usize].committed as f64 * 60.0 / self.measured.seconds
    }

    /// The processor time of a transaction of the mix, in seconds. It is unknown with analysts, because we cannot
    /// separate their time from the clients'.
    fn cpu_per_transaction(&self) -> Option<f64> {
        self.measured.cpu_s.filter(|_| self.options.analysts == 0).map(|cpu| cpu / self.ended().max(1) as f64)
    }

    fn ended(&self) -> u64 {
        self.measured.tallies.iter().map(Tally::ended).sum()
    }

    /// The shares of the clients' time: on a processor, ready to run while all processors had other work, and waiting
    /// for something else, for example the disk or another client.
    fn shares(&self) -> Option<[f64; 3]> {
        let all = self.measured.seconds * f64::from(self.options.clients);
        let ThreadTimes { running_s, ready_s } = self.measured.clients?;
        let [running, ready] = [running_s / all, ready_s / all];
        Some([running, ready, (1.0 - running - ready).max(0.0)])
    }

    /// The tpmC without the time in which clients waited for a processor: what clients with a core each would reach.
    fn tpm_c_given_cores(&self) -> Option<f64> {
        self.shares().map(|[_, ready, _]| self.tpm_c() / (1.0 - ready))
    }

    /// 80 % of the tpmC at which this processor time and the bare loop's syncs, one after the other, use all time. We
    /// subtract the processor time of a sync, so that it is not counted twice. Clients wait for the disk independently
    /// and share the cores.
    fn bound(&self) -> Option<f64> {
        let cpu = self.cpu_per_transaction().filter(|&cpu| cpu > 0.0)?;
        let all = self.ended() as f64;
        let committed = |kind: Kind| self.measured.tallies[kind as usize].committed as f64;
        let written: f64 = Kind::ALL.into_iter().filter(|kind| kind.writes()).map(committed).sum();
        let syncs = match self.options.durability {
            Durability::Full => written / all,
            Durability::Relaxed => 0.0,
        };
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        let [before, after] = self.syncs;
        let waited = (before.seconds - before.cpu_s + after.seconds - after.cpu_s) / 2.0;
        let of_clients = f64::from(self.options.clients) / (cpu + syncs * waited);
        Some(BOUND_SHARE * of_clients.min(cores / cpu) * committed(Kind::NewOrder) / all * 60.0)
    }

    /// The number of heap allocations of a New-Order transaction, if the process counts them.
    fn allocations(&self) -> Option<f64> {
        let new_order = &self.measured.tallies[Kind::NewOrder as usize];
        allocations::of_thread().map(|_| new_order.allocations as f64 / new_order.ended().max(1) as f64)
    }

    /// The instructions of a transaction of the mix, outside of the kernel, if the system lets us count them.
    fn instructions(&self) -> Option<f64> {
        self.measured.instructions.as_ref().ok().map(|count| *count as f64 / self.ended().max(1) as f64)
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let kinds: Map<String, Value> =
            self.kinds().map(|(kind, tally)| (kind.name().to_owned(), tally_json(tally))).collect();
        json!({
            "engine": self.engine,
            "base": self.options.base.map(|base| base.name()),
            "warehouses": self.options.warehouses,
            "clients": self.options.clients,
            "rate": self.options.rate,
            "analysts": self.options.analysts,
            "durability": self.options.durability.name(),
            "seed": self.options.seed,
            "load_s": self.load_s.map(|seconds| rounded(seconds, 100.0)),
            "seconds": self.measured.seconds,
            "tpmC": self.tpm_c().round(),
            "tpmC_given_cores": self.tpm_c_given_cores().map(f64::round),
            "client_time_running_ready_waiting": self.shares().map(|shares| shares.map(|share| rounded(share, 1e3))),
            "tpmC_bound": self.bound().map(f64::round),
            "transactions_per_second": rounded(self.ended() as f64 / self.measured.seconds, 10.0),
            "cpu_us_per_transaction": self.cpu_per_transaction().map(|cpu| rounded(cpu * 1e6, 10.0)),
            "syncs_per_second": self.syncs.map(|sync| sync.per_second().round()),
            "instructions_per_transaction": self.instructions().map(f64::round),
            "allocations_per_new_order": self.allocations().map(|count| rounded(count, 10.0)),
            "transactions": kinds,
            "analysis": (self.options.analysts > 0).then(|| analysis_json(&self.measured.findings)),
            "directory_bytes": [self.sizes.before, self.sizes.after, self.sizes.settled],
            "directory_bytes_rested": self.sizes.rested,
            "row_bytes": [self.sizes.rows_before, self.sizes.rows_after],
            "consistency": self.broken,
        })
    }

    /// The report as text.
    pub fn text(&self) -> Result<String> {
        let mut out = String::new();
        self.write(&mut out).map_err(|error| Error::internal(error.to_string()))?;
        Ok(out)
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let Options { warehouses, clients, analysts, durability, .. } = self.options;
        let known = |number: Option<f64>| number.map_or("unknown".to_owned(), |number| format!("{number:.1}"));
        writeln!(
            out,
            "{}: {warehouses} warehouses, {clients} clients, {analysts} analysts, durability {}, {} seconds",
            self.engine,
            durability.name(),
            self.measured.seconds
        )?;
        if let Some(rate) = self.options.rate {
            writeln!(out, "at {rate} transactions a second")?;
        }
        if let Some(seconds) = self.load_s {
            writeln!(out, "loaded in {seconds:.1} s")?;
        }
        writeln!(out, "tpmC {:.0}", self.tpm_c())?;
        if let Some([running, ready, waiting]) = self.shares().map(|shares| shares.map(|share| share * 100.0)) {
            writeln!(
                out,
                "  time of clients: {running:.1} % on a processor, {ready:.1} % ready for one, \
                 {waiting:.1} % waiting for other things"
            )?;
        }
        writeln!(out, "  tpmC without the waits for a processor: {}", known(self.tpm_c_given_cores().map(f64::round)))?;
        writeln!(out, "  80 % of tpmC that CPU and bare syncs allow: {}", known(self.bound().map(f64::round)))?;
        writeln!(out, "  CPU time per transaction: {} us", known(self.cpu_per_transaction().map(|cpu| cpu * 1e6)))?;
        let [before, after] = self.syncs.map(|sync| sync.per_second());
        writeln!(out, "  syncs of a bare log per second: {before:.0} before, {after:.0} after")?;
        for (when, sync) in ["before", "after"].into_iter().zip(self.syncs) {
            let (p999, longest) = (millis(sync.p999), millis(sync.longest));
            writeln!(out, "  a sync of a bare log {when}: p99.9 {p999:.3} ms, max {longest:.3} ms")?;
        }
        match &self.measured.instructions {
            Ok(_) => writeln!(out, "  instructions per transaction: {}", known(self.instructions().map(f64::round)))?,
            Err(reason) => writeln!(out, "  instructions per transaction: not counted ({reason})")?,
        }
        writeln!(out, "  allocations per new order: {}", known(self.allocations()))?;
        writeln!(
            out,
            "{:<13}{:>10}{:>12}{:>8}{:>9}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "", "committed", "rolled back", "failed", "retries", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms"
        )?;
        for (kind, tally) in self.kinds() {
            let Tally { committed, rolled_back, failed, retries, .. } = tally;
            let [p50, p90, p99, p999, max] = micros(tally).map(|micros| micros / 1e3);
            writeln!(
                out,
                "{:<13}{committed:>10}{rolled_back:>12}{failed:>8}{retries:>9}\
                 {p50:>10.3}{p90:>10.3}{p99:>10.3}{p999:>10.3}{max:>10.3}",
                kind.name()
            )?;
        }
        if *analysts > 0 {
            write_analysis(out, &self.measured.findings)?;
        }
        let Sizes { before, after, rested, settled, rows_before, rows_after } = self.sizes;
        let mb = |bytes: u64| bytes as f64 / 1e6;
        writeln!(
            out,
            "on disk {:.1} MB before, {:.1} MB after, {:.1} MB after a rest, {:.1} MB after a checkpoint; \
             rows by their types {:.1} MB before, {:.1} MB after",
            mb(before),
            mb(after),
            mb(rested),
            mb(settled),
            mb(rows_before),
            mb(rows_after)
        )?;
        match self.verdict() {
            Ok(()) => writeln!(out, "consistency conditions 1 to 12 hold"),
            Err(error) => writeln!(out, "{error}"),
        }
    }

    /// Returns an error if a consistency condition does not hold, if an analyst saw two states in one transaction, or
    /// if a question failed.
    pub fn verdict(&self) -> Result<()> {
        let broken: Vec<String> = (1..)
            .zip(self.broken)
            .filter(|(_, rows)| *rows != 0)
            .map(|(number, rows)| format!("{number} in {rows} rows"))
            .collect();
        let Findings { questions, differences, .. } = &self.measured.findings;
        let failed: Vec<String> =
            (1..).zip(questions).filter(|(_, asked)| asked.failed > 0).map(|(number, _)| format!("{number}")).collect();
        let said: Vec<String> = [
            ("consistency conditions are broken", &broken),
            ("one transaction saw", differences),
            ("questions failed", &failed),
        ]
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(what, list)| format!("{what}: {}", list.join(", ")))
        .collect();
        match said.is_empty() {
            true => Ok(()),
            false => Err(Error::internal(said.join("; "))),
        }
    }

    fn kinds(&self) -> impl Iterator<Item = (Kind, &Tally)> {
        Kind::ALL.into_iter().zip(&self.measured.tallies)
    }
}

fn tally_json(tally: &Tally) -> Value {
    let [p50, p90, p99, p999, max] = micros(tally).map(|micros| rounded(micros, 10.0));
    json!({
        "committed": tally.committed,
        "rolled_back": tally.rolled_back,
        "failed": tally.failed,
        "retries": tally.retries,
        "p50_us": p50,
        "p90_us": p90,
        "p99_us": p99,
        "p999_us": p999,
        "max_us": max,
    })
}

fn analysis_json(findings: &Findings) -> Value {
    let of_question = |asked: &Asked| {
        json!({
            "answered": asked.latencies.count(),
            "p50_ms": (asked.latencies.count() > 0).then(|| rounded(millis(asked.latencies.percentile(0.5)), 100.0)),
            "max_ms": (asked.latencies.count() > 0).then(|| rounded(millis(asked.latencies.longest()), 100.0)),
            "failed": asked.failed,
            "error": asked.error,
        })
    };
    json!({
        "answered": findings.answered(),
        "geometric_mean_ms": findings.geometric_mean().map(|mean| rounded(millis(mean), 100.0)),
        "slowest": findings.slowest().map(|(number, median)| {
            json!({ "question": number, "p50_ms": rounded(millis(median), 100.0) })
        }),
        "failed": findings.questions.iter().map(|asked| asked.failed).sum::<u64>(),
        "checks": findings.checks,
        "differences": findings.differences,
        "questions": findings.questions.iter().map(of_question).collect::<Vec<_>>(),
    })
}

fn write_analysis(out: &mut String, findings: &Findings) -> std::fmt::Result {
    write!(out, "analysts: {} answers", findings.answered())?;
    if let Some((mean, (slowest, longest))) = findings.geometric_mean().zip(findings.slowest()) {
        let about = questions::ALL[slowest - 1].about;
        write!(
            out,
            ", geometric mean {:.1} ms, slowest question {slowest} ({about}) with {:.1} ms",
            millis(mean),
            millis(longest)
        )?;
    }
    let failed: u64 = findings.questions.iter().map(|asked| asked.failed).sum();
    writeln!(
        out,
        ", {failed} failed; {} checks of a snapshot, {} differences",
        findings.checks,
        findings.differences.len()
    )?;
    for (number, asked) in (1..).zip(&findings.questions) {
        let (count, p50) = (asked.latencies.count(), millis(asked.latencies.percentile(0.5)));
        let longest = millis(asked.latencies.longest());
        let about = questions::ALL[number - 1].about;
        writeln!(out, "  {number:>2} {about:<34}{count:>6} answers, p50 {p50:>9.2} ms, max {longest:>9.2} ms")?;
        if let Some(error) = &asked.error {
            writeln!(out, "     failed {} times: {error}", asked.failed)?;
        }
    }
    Ok(())
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Returns p50, p90, p99, p99.9 and the maximum, in microseconds.
fn micros(tally: &Tally) -> [f64; 5] {
    let latencies = &tally.latencies;
    let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|share| latencies.percentile(share));
    [p50, p90, p99, p999, latencies.longest()].map(|duration| duration.as_secs_f64() * 1e6)
}

fn rounded(number: f64, steps: f64) -> f64 {
    (number * steps).round() / steps
}
