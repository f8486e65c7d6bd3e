//! The progress bar of slow statements.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use rowmill::{Progress, ProgressFn};

/// The parts of the whole work that the bar counts.
const PARTS: u64 = 1000;

/// A progress bar on the terminal's error output.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
    /// Whether the bar must not be drawn, because something else has the terminal.
    is_hushed: Arc<AtomicBool>,
}

impl Bar {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Bar { bar, is_hushed: Arc::default() }
    }

    /// Returns the function to which a connection reports progress. The bar appears once a statement has run for
    /// `after`.
    pub(crate) fn reporter(&self, after: Duration) -> Option<ProgressFn> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let bar = self.clone();
        Some(Arc::new(move |progress| {
            if progress.elapsed >= after && !bar.is_hushed.load(Ordering::Relaxed) {
                bar.show(progress);
            }
        }))
    }

    fn show(&self, progress: Progress) {
        let bar = &self.bar;
        if bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        let template = match progress.share {
            Some(share) => {
                bar.set_length(PARTS);
                bar.set_position((share * PARTS as f64) as u64);
                "{bar:30} {percent:>3} %  {msg}"
            }
            None => "{spinner} {msg}",
        };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is well formed"));
        bar.set_message(message(&progress));
        bar.tick();
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
        self.bar.set_draw_target(ProgressDrawTarget::hidden());
        self.bar.reset();
    }

    /// Removes the bar and keeps it away until it may be drawn again.
    pub(crate) fn hush(&self, is_hushed: bool) {
        self.is_hushed.store(is_hushed, Ordering::Relaxed);
        self.clear();
    }
}

/// What the bar says besides the share.
fn message(progress: &Progress) -> String {
    let mut parts = vec![format!("{} rows", HumanCount(progress.rows_done))];
    let bytes = [(progress.bytes_read, "read"), (progress.memory_bytes, "memory"), (progress.spilled_bytes, "spilled")];
    parts.extend(
        bytes.iter().filter(|(bytes, _)| *bytes > 0).map(|(bytes, what)| format!("{} {what}", HumanBytes(*bytes))),
    );
    parts.push(format!("{:.0} s", progress.elapsed.as_secs_f64()));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_tells_what_a_statement_has_used() {
        let progress = Progress { rows_done: 12_345, elapsed: Duration::from_secs(7), ..Progress::default() };
        assert_eq!(message(&progress), "12,345 rows, 7 s");
        let progress = Progress { bytes_read: 1 << 20, memory_bytes: 3 << 10, spilled_bytes: 5 << 30, ..progress };
        assert_eq!(message(&progress), "12,345 rows, 1.00 MiB read, 3.00 KiB memory, 5.00 GiB spilled, 7 s");
    }
}
