//! Batches of rows that wait until the rows of a statement are complete.

use std::borrow::Borrow;
use std::iter;

use arrow::array::RecordBatch;
use rowmill_base::{Broker, Reservation, Result};
use rowmill_storage::spill::{BatchCodec, SectionReader, SpillSection, SpillWriter, TempSpace};
use rowmill_storage::value_bytes;

/// The holder of rows that wait, in errors and in lists of holders.
pub(in crate::statement) const WAITING_ROWS: &str = "rows of the source of a change";

/// Batches with columns of the same types. They are in memory until it has no room for another one. Then all of them go
/// to a temporary file.
#[derive(Debug)]
pub(in crate::statement) struct WaitingBatches {
    held: Vec<RecordBatch>,
    memory: Reservation,
    spilled: Option<SpilledBatches>,
    broker: Broker,
    temp: TempSpace,
}

#[derive(Debug)]
struct SpilledBatches {
    codec: BatchCodec,
    writer: SpillWriter,
    /// All batches, after the last one was added.
    section: Option<SpillSection>,
}

impl WaitingBatches {
    pub(in crate::statement) fn new(broker: &Broker, temp: &TempSpace) -> WaitingBatches {
        let memory = broker.reservation(WAITING_ROWS);
        WaitingBatches { held: Vec::new(), memory, spilled: None, broker: broker.clone(), temp: temp.clone() }
    }

    /// Adds a batch.
    pub(in crate::statement) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            None if self.memory.grow(bytes_of(&batch)).is_ok() => {
                self.held.push(batch);
                return Ok(());
            }
            None => {
                let (codec, writer) = (BatchCodec::new(batch.schema()), self.temp.writer(WAITING_ROWS, &self.broker));
                let spilled = self.spilled.insert(SpilledBatches { codec, writer, section: None });
                for held in std::mem::take(&mut self.held) {
                    spilled.codec.put(&held, &mut spilled.writer)?;
                }
                self.memory.recount(0);
                spilled
            }
        };
        assert!(spilled.section.is_none(), "all batches are added before the first is read");
        spilled.codec.put(&batch, &mut spilled.writer)
    }

    /// Ends the additions. The batches can be read afterwards.
    pub(in crate::statement) fn finish(&mut self) -> Result<()> {
        let Some(spilled) = self.spilled.as_mut().filter(|spilled| spilled.section.is_none()) else { return Ok(()) };
        spilled.section = Some(spilled.writer.end_section());
        spilled.writer.finish()
    }

    /// Ends the additions, and returns the batches in the order in which they were added.
    pub(in crate::statement) fn into_batches(
        mut self,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + Send + 'static> {
        self.finish()?;
        let WaitingBatches { held, memory, spilled, .. } = self;
        let of_file = spilled.into_iter().flat_map(|spilled| {
            let reader = spilled.reader();
            batches_of(spilled.codec, reader)
        });
        // The memory is given back after the last batch was taken.
        Ok(held.into_iter().map(Ok).chain(of_file).inspect(move |_| {
            let _ = &memory;
        }))
    }

    /// The batches, in the order in which they were added. They can be read several times.
    pub(in crate::statement) fn batches(&self) -> impl Iterator<Item = Result<RecordBatch>> + '_ {
        let of_file = self.spilled.iter().flat_map(|spilled| batches_of(&spilled.codec, spilled.reader()));
        self.held.iter().cloned().map(Ok).chain(of_file)
    }
}

impl SpilledBatches {
    /// Reads all batches from the first on.
    fn reader(&self) -> SectionReader {
        self.section.as_ref().expect("batches are read after the last was added").reader()
    }
}

fn batches_of(codec: impl Borrow<BatchCodec>, mut reader: SectionReader) -> impl Iterator<Item = Result<RecordBatch>> {
    iter::from_fn(move || codec.borrow().next(&mut reader).transpose())
}

/// The bytes of the values of a batch.
pub(in crate::statement) fn bytes_of(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(value_bytes).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn numbers(from: i64) -> RecordBatch {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 1_000));
        RecordBatch::try_from_iter([("n", values)]).expect("a column")
    }

    #[test]
    fn batches_wait_in_memory_or_in_a_file_and_are_read_twice() {
        for (limit, is_spilled) in [(1 << 20, false), (100_000, true), (1_000, true)] {
            let (broker, temp) = (Broker::new(limit), TempSpace::in_memory());
            temp.set_file_bytes_min(0);
            let mut waiting = WaitingBatches::new(&broker, &temp);
            (0..20).for_each(|at| waiting.push(numbers(at * 1_000)).expect("room"));
            waiting.finish().expect("finished");
            assert_eq!((waiting.spilled.is_some(), temp.files().len()), (is_spilled, usize::from(is_spilled)));
            for _ in 0..2 {
                let batches: Vec<_> = waiting.batches().collect::<Result<_>>().expect("read");
                let values = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values());
                assert!(values.copied().eq(0..20_000));
            }
            assert!(!is_spilled || broker.used_bytes() == 0);
            drop(waiting);
            assert_eq!((broker.used_bytes(), temp.files().len()), (0, 0));
        }
    }
}
