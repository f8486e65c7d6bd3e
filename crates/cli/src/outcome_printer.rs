//! Prints the outcome of a statement in the format of the user, through the pager if it is long.

use std::io::{BufWriter, Write};

use rowmill::arrow::datatypes::Schema;
use rowmill::{Outcome, Result, RowStream};

use crate::output::{Format, Printer};
use crate::pager::Pager;
use crate::plot::PlotSample;
use crate::progress::Bar;
use crate::result_target::ResultTarget;
use crate::stopwatch::Stopwatch;
use crate::terminal::{self, Output, output_error, say};

/// The way in which results are printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultView {
    pub(crate) format: Format,
    /// Whether a table on a terminal has all rows and columns.
    pub(crate) all: bool,
    /// Whether tables are printed with one value per line.
    pub(crate) expanded: bool,
    /// Whether long results are shown through a pager.
    pub(crate) paged: bool,
    /// Whether some values of each result are kept for a chart.
    pub(crate) sampled: bool,
}

impl ResultView {
    fn format(self) -> Format {
        if self.expanded && self.format == Format::Table { Format::Line } else { self.format }
    }
}

/// Prints one outcome.
pub(crate) struct OutcomePrinter<'r> {
    pub(crate) view: ResultView,
    pub(crate) target: &'r mut ResultTarget,
    pub(crate) bar: &'r Bar,
    pub(crate) last_result: &'r mut Option<PlotSample>,
}

impl OutcomePrinter<'_> {
    /// Prints `outcome`. `watch` counts the time in which the rows are computed, but not the time of printing.
    pub(crate) fn print(&mut self, outcome: Outcome, watch: &mut Stopwatch) -> Result<()> {
        let (tag, rows) = match outcome {
            Outcome::Rows(rows) => return self.print_result(rows, watch),
            Outcome::Changed { tag, rows } => (tag, Some(rows)),
            Outcome::Done { tag } => (tag, None),
        };
        self.bar.clear();
        match rows {
            _ if !self.view.format.is_for_people() => Ok(()),
            Some(rows) => say(&format!("{tag} {rows}\n")),
            None => say(&format!("{tag}\n")),
        }
    }

    fn print_result(&mut self, rows: RowStream, watch: &mut Stopwatch) -> Result<()> {
        match self.target {
            ResultTarget::Nowhere => return self.sample(rows, watch),
            ResultTarget::File(file) => {
                let mut out = file.writer()?;
                let printer = self.view.format().printer(&rows.schema());
                self.print_rows(rows, printer, &mut out, watch)?;
                return out.flush().map_err(|error| output_error(&error));
            }
            ResultTarget::Screen => {}
        }
        let printer = self.printer(&rows.schema());
        match terminal::screen_size().filter(|_| self.view.paged) {
            Some(screen) => {
                let mut pager = Pager::new(screen, self.bar);
                let printed = self.print_rows(rows, printer, &mut pager, watch);
                // Leaving the pager before the end of the result is no error.
                let result = if pager.is_left() { Ok(()) } else { printed };
                let finished = pager.finish();
                result.and(finished.map_err(|error| output_error(&error)))
            }
            None => {
                let mut out: BufWriter<Output> = Output::buffered();
                self.print_rows(rows, printer, &mut out, watch)?;
                // The reader of the output may wait for this result before it sends the next statement.
                out.flush().map_err(|error| output_error(&error))
            }
        }
    }

    fn print_rows(
        &mut self,
        mut rows: RowStream,
        mut printer: Box<dyn Printer>,
        out: &mut dyn Write,
        watch: &mut Stopwatch,
    ) -> Result<()> {
        let mut sample = self.view.sampled.then(|| PlotSample::new(&rows.schema()));
        while let Some(batch) = watch.count(|| rows.next()) {
            let batch = batch?;
            // The bar and the rows share the terminal, so we remove the bar before we print. A later report shows it
            // again.
            self.bar.clear();
            printer.batch(&batch, out)?;
            if let Some(sample) = &mut sample {
                sample.add(&batch)?;
            }
        }
        self.bar.clear();
        if sample.is_some() {
            *self.last_result = sample;
        }
        printer.finish(out)
    }

    /// Keeps some values of a result that is not printed.
    fn sample(&mut self, mut rows: RowStream, watch: &mut Stopwatch) -> Result<()> {
        let mut sample = PlotSample::new(&rows.schema());
        while let Some(batch) = watch.count(|| rows.next()) {
            sample.add(&batch?)?;
        }
        self.bar.clear();
        *self.last_result = Some(sample);
        Ok(())
    }

    fn printer(&self, schema: &Schema) -> Box<dyn Printer> {
        match terminal::screen_size() {
            Some(screen) if !self.view.all => self.view.format().screen_printer(schema, screen.columns),
            _ => self.view.format().printer(schema),
        }
    }
}
