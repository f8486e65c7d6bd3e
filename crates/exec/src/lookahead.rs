//! Reads the few rows of one side of a join before the other side. Of the other side we then read only rows that match
//! them.
//!
//! ```text
//! join, rows of the probe side kept        build: a large table with a key on the join's columns
//!                                          probe: a few rows
//! ```
//!
//! Such a join keeps all rows of its build side in memory, but a few probe rows match only few of them. Therefore we
//! read the first rows of the probe side ahead. If these are all rows, the build side gets their keys and finds its
//! matching rows by its own key. If there are more, both sides are read as usual.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use rowmill_base::{Broker, ErrorKind, Result};

use crate::batch::{BatchSource, Batches};
use crate::key_filter::KeyFilter;
use crate::share::share;

/// The holder of the filters' memory in errors.
const OWNER: &str = "JOIN";

/// The most rows that are read ahead, apart from the rest of their last batch. One thread reads them before the other
/// side starts, so this bounds a wait; a filter of more values would also keep more rows. With 250 to 4,000, a join of
/// 900 and of 3,000 rows with a table of 1.5 million takes equally long.
const ROWS_AHEAD_MAX: usize = 1_000;

/// The probe side of a join. Some of its rows may be read ahead.
#[derive(Debug)]
pub(crate) struct Lookahead {
    input: Arc<dyn BatchSource>,
    ahead: Mutex<Ahead>,
}

/// The rows that were read ahead, until a worker takes them.
#[derive(Default)]
struct Ahead {
    is_read: bool,
    batches: VecDeque<RecordBatch>,
    /// The share that the rows came from, if it has not ended.
    rest: Option<Batches>,
}

impl std::fmt::Debug for Ahead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ahead").field("is_read", &self.is_read).field("batches", &self.batches.len()).finish()
    }
}

/// The build side of the join. It is read after the look ahead.
#[derive(Debug)]
struct Narrowed {
    input: Arc<dyn BatchSource>,
    lookahead: Arc<Lookahead>,
    /// Pairs of a build column and a probe column that must be equal.
    on: Vec<(usize, usize)>,
    nulls_equal: bool,
    broker: Broker,
}

/// Prepares the two sides of a join that needs only `build` rows with a match, that is, rows equal in the columns
/// `on`. Returns the sides unchanged unless looking ahead should pay off: `build` must be able to find rows by a key,
/// and `probe` must be small as far as we know.
pub(crate) fn looking_ahead(
    build: Arc<dyn BatchSource>,
    probe: Arc<dyn BatchSource>,
    on: &[(usize, usize)],
    nulls_equal: bool,
    broker: Broker,
) -> (Arc<dyn BatchSource>, Arc<dyn BatchSource>) {
    let is_worth_it = probe.parallelism() <= 1 && on.iter().any(|(column, _)| build.narrows(*column));
    if !is_worth_it {
        return (build, probe);
    }
    let lookahead = Arc::new(Lookahead { input: probe, ahead: Mutex::default() });
    let on = on.iter().copied().filter(|(column, _)| build.accepts(*column)).collect();
    let build = Arc::new(Narrowed { input: build, lookahead: Arc::clone(&lookahead), on, nulls_equal, broker });
    (build, lookahead)
}

impl Ahead {
    /// Reads the first rows of `input`. Returns whether these are all rows.
    fn read(&mut self, input: &Arc<dyn BatchSource>) -> Result<bool> {
        let mut share = Arc::clone(input).worker();
        let mut rows = 0;
        while rows <= ROWS_AHEAD_MAX {
            let Some(batch) = share.next().transpose()? else { return Ok(true) };
            rows += batch.num_rows();
            self.batches.push_back(batch);
        }
        // Too many rows. The share stays open, so that no row is read twice or lost.
        self.rest = Some(share);
        Ok(false)
    }
}

impl Narrowed {
    /// Looks ahead, on the first call only.
    fn prepare(&self) -> Result<()> {
        let mut ahead = self.lookahead.ahead.lock();
        if std::mem::replace(&mut ahead.is_read, true) || !ahead.read(&self.lookahead.input)? {
            return Ok(());
        }
        // These are all probe rows, so no build row outside the filters can match.
        let mut memory = self.broker.reservation(OWNER);
        for (column, of_probe) in &self.on {
            let parts: Vec<&ArrayRef> = ahead.batches.iter().map(|batch| batch.column(*of_probe)).collect();
            let kind = self.input.schema().field(*column).data_type();
            match KeyFilter::new(kind, &parts, self.nulls_equal, Arc::default(), &mut memory) {
                Ok(filter) => self.input.offer(*column, &Arc::new(filter)),
                // The join needs no filter, so it can do without it if memory is short.
                Err(error) if error.kind() == ErrorKind::MemoryLimit => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl BatchSource for Narrowed {
    fn schema(&self) -> &SchemaRef {
        self.input.schema()
    }

    fn parallelism(&self) -> usize {
        self.input.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut input: Option<Batches> = None;
        share(move || {
            // Filters must be offered before the build side begins to read.
            if input.is_none() {
                self.prepare()?;
            }
            input.get_or_insert_with(|| Arc::clone(&self.input).worker()).next().transpose()
        })
    }

    fn passes(&self, column: usize) -> Option<(&dyn BatchSource, usize)> {
        Some((&*self.input, column))
    }
}

impl BatchSource for Lookahead {
    fn schema(&self) -> &SchemaRef {
        self.input.schema()
    }

    fn parallelism(&self) -> usize {
        self.input.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut taken: Option<(VecDeque<RecordBatch>, Option<Batches>)> = None;
        share(move || {
            let (batches, rest) = taken.get_or_insert_with(|| {
                let mut ahead = self.ahead.lock();
                // From now on rows are returned, so `prepare` must not look ahead and take them away.
                match std::mem::replace(&mut ahead.is_read, true) {
                    true => {
                        let batches = std::mem::take(&mut ahead.batches);
                        let rest = ahead.rest.take();
                        // Only the first worker gets the rows that were read ahead and the share that they came from.
                        // Others begin a share of their own.
                        let is_first = !batches.is_empty() || rest.is_some();
                        (batches, rest.or_else(|| (!is_first).then(|| Arc::clone(&self.input).worker())))
                    }
                    false => (VecDeque::new(), Some(Arc::clone(&self.input).worker())),
                }
            });
            match batches.pop_front() {
                Some(batch) => Ok(Some(batch)),
                None => rest.as_mut().and_then(Iterator::next).transpose(),
            }
        })
    }

    fn passes(&self, column: usize) -> Option<(&dyn BatchSource, usize)> {
        Some((&*self.input, column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::collect;
    use crate::test_input::{numbers, numbers_of};

    /// A source that finds rows by key, and records the filters that it is offered.
    #[derive(Debug)]
    struct ByKey {
        input: Arc<dyn BatchSource>,
        offered: Mutex<Vec<(ArrayRef, bool)>>,
    }

    impl BatchSource for ByKey {
        fn schema(&self) -> &SchemaRef {
            self.input.schema()
        }

        fn parallelism(&self) -> usize {
            self.input.parallelism()
        }

        fn worker(self: Arc<Self>) -> Batches {
            Arc::clone(&self.input).worker()
        }

        fn accepts(&self, _: usize) -> bool {
            true
        }

        fn offer(&self, _: usize, filter: &Arc<KeyFilter>) {
            self.offered.lock().extend(filter.few_values());
        }

        fn narrows(&self, _: usize) -> bool {
            true
        }
    }

    #[test]
    fn the_keys_of_few_rows_are_offered_and_those_of_many_are_not() {
        for (rows, is_offered) in [(0, true), (10, true), (900, true), (5000, false)] {
            let by_key = Arc::new(ByKey { input: numbers(0..100, 10), offered: Mutex::default() });
            let probe = numbers(0..rows, 5000);
            let build = Arc::clone(&by_key) as Arc<dyn BatchSource>;
            let (build, probe) = looking_ahead(build, probe, &[(0, 0)], false, Broker::new(1 << 30));
            assert_eq!(numbers_of(&collect(&build, 1).expect("numbers")).len(), 100);
            assert_eq!(numbers_of(&collect(&probe, 1).expect("numbers")).len() as i64, rows);
            let offered: Vec<usize> = by_key.offered.lock().iter().map(|(values, _)| values.len()).collect();
            let expected = if is_offered { vec![rows as usize] } else { Vec::new() };
            assert_eq!(offered, expected, "{rows}");
        }
    }
}
