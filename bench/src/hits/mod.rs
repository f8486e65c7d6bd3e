//! A web-analytics table: one row per event that counted sites saw in a month.
//!
//! The table has the columns of the ClickBench benchmark and the shape of its data. It comes from a model of the things
//! that produce such data: sites with pages, visitors with browsers, sessions that walk through pages. We store nothing
//! that can be computed. For example, the address of a page is a function of the seed and the page's number. So the
//! table can have any number of rows, every part of it can be made on its own, and the bytes depend only on (rows,
//! seed).
//!
//! ```text
//! sessions  which visitor on which site, when, for how many rows     planned and sorted, a million rows at a time
//!    |
//! page_views  each session's rows: pages, referers, searches          filled in batches; strings side by side
//!    |
//! columns  the 105 columns, one line each                             Arrow arrays of a batch
//!    |
//! parquet_file  row groups encoded by all threads, written in order
//! ```
//!
//! The shares of distinct values (17.6 % for `UserID`, 18.3 % for `URL` and so on) must not depend on the size of the
//! table. So values come from pools whose size is in proportion to the rows, and we draw from a pool by a power law,
//! for which the share of distinct values depends only on that proportion. `tests/bench/hits_facts.rs` holds the facts
//! and their bounds.

mod campaigns;
mod columns;
mod page_views;
mod pages;
mod random;
mod searches;
mod sessions;
mod sites;
mod table;
mod visitors;
mod words;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use rowmill_base::Result;

use crate::parquet_file::RowGroups;
use page_views::Batch;
use sessions::Runs;
use sites::Sites;
use visitors::Visitors;
use words::Words;

pub use table::{CREATE, schema};

/// The rows that we turn into columns at a time. Their rows and text should stay in a core's cache.
const BATCH_ROWS: usize = 2_048;

/// The row groups of a run. A run of about a million rows makes groups of about 2^19.
const GROUPS_PER_RUN: usize = 2;

/// Everything from which we make rows.
pub struct World {
    seed: u64,
    rows: u64,
    words: Words,
    sites: Sites,
    visitors: Visitors,
    runs: Runs,
}

impl World {
    /// Makes the world of a table with `rows` rows. Each seed gives another one.
    pub fn new(rows: u64, seed: u64) -> World {
        let words = Words::new();
        World {
            seed,
            rows,
            sites: Sites::new(seed, rows, &words),
            visitors: Visitors::new(seed, rows),
            runs: Runs::new(seed, rows),
            words,
        }
    }
}

impl RowGroups for World {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn count(&self) -> usize {
        self.runs.count() * GROUPS_PER_RUN
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    /// Makes one half of a run.
    fn generate(&self, group: usize, sink: &mut dyn FnMut(Vec<ArrayRef>) -> Result<()>) -> Result<()> {
        let run = self.plan(group / GROUPS_PER_RUN);
        let range = self.runs.range(group / GROUPS_PER_RUN);
        let part = (group % GROUPS_PER_RUN) as u64;
        let border = |part: u64| (range.end - range.start) * part / GROUPS_PER_RUN as u64;
        let wanted = border(part)..border(part + 1);
        let mut batch = Batch::default();
        let mut at = 0;
        for session in &run.sessions {
            let end = at + u64::from(session.rows);
            if end > wanted.start && at < wanted.end {
                let rows = wanted.start.saturating_sub(at) as u32..(wanted.end.min(end) - at) as u32;
                self.fill(session, run.first_row + at, rows, &mut batch);
            }
            if batch.hits.len() >= BATCH_ROWS {
                sink(columns::arrays(self, &batch))?;
                batch.clear();
            }
            at = end;
        }
        if !batch.hits.is_empty() {
            sink(columns::arrays(self, &batch))?;
        }
        Ok(())
    }
}
