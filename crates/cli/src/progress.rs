//! The progress bar of slow statements.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use rowmill::{Progress, ProgressFn};

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
        let seconds = progress.elapsed.as_secs_f64();
        let template = match progress.rows_total.filter(|total| *total > 0) {
            Some(total) => {
                bar.set_length(total);
                "{bar:30} {percent:>3} %  {human_pos} rows  {msg}"
            }
            None => "{spinner} {human_pos} rows  {msg}",
        };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is well formed"));
        let spilled = match progress.spilled_bytes {
            0 => String::new(),
            bytes => format!(", {} spilled", HumanBytes(bytes)),
        };
        bar.set_message(format!("{seconds:.0} s{spilled}"));
        bar.set_position(progress.rows_done);
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
