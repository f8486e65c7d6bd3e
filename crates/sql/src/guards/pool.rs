//! DataFusion's memory pool over the one broker, so that its operators and ours share one limit.
//!
//! An operator that can spill gets at most its share of what the ones that cannot have left over. Without shares the
//! first sort of a plan takes everything and the join behind it fails although the sort could have spilled.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use rowmill_base::Broker;

/// The broker as DataFusion's operators see it.
#[derive(Debug)]
pub struct BrokerPool {
    broker: Broker,
    /// Operators that can spill, and what they hold.
    spillers: AtomicU64,
    spillable_bytes: AtomicU64,
}

impl BrokerPool {
    /// A pool that takes from `broker`.
    pub fn new(broker: Broker) -> BrokerPool {
        BrokerPool { broker, spillers: AtomicU64::new(0), spillable_bytes: AtomicU64::new(0) }
    }

    /// What one operator that can spill may hold.
    fn share_bytes(&self) -> u64 {
        let held = self.spillable_bytes.load(Ordering::Relaxed);
        let unspillable = self.broker.used_bytes().saturating_sub(held);
        let left = self.broker.limit_bytes().saturating_sub(unspillable);
        left / self.spillers.load(Ordering::Relaxed).max(1)
    }
}

impl fmt::Display for BrokerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.broker.used_bytes(), self.broker.limit_bytes())
    }
}

impl MemoryPool for BrokerPool {
    fn name(&self) -> &str {
        "broker"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        if consumer.can_spill() {
            self.spillers.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if consumer.can_spill() {
            self.spillers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.broker.take_always(additional as u64);
        if reservation.consumer().can_spill() {
            self.spillable_bytes.fetch_add(additional as u64, Ordering::Relaxed);
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.broker.give_back(shrink as u64);
        if reservation.consumer().can_spill() {
            self.spillable_bytes.fetch_sub(shrink as u64, Ordering::Relaxed);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> datafusion::common::Result<()> {
        let owner = operator_name(reservation.consumer().name());
        // Operators spill on exactly this variant; its text becomes an error of kind MemoryLimit at the border.
        let refused = DataFusionError::ResourcesExhausted;
        if reservation.consumer().can_spill() {
            let share = self.share_bytes();
            let wanted = (reservation.size() + additional) as u64;
            if wanted > share {
                return Err(refused(format!(
                    "{owner} asked for {wanted} bytes, but its share of the memory limit of {} bytes is {share}",
                    self.broker.limit_bytes()
                )));
            }
        }
        self.broker.take(owner, additional as u64).map_err(|error| refused(error.message().to_string()))?;
        if reservation.consumer().can_spill() {
            self.spillable_bytes.fetch_add(additional as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.broker.used_bytes() as usize
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.broker.limit_bytes() as usize)
    }
}

/// What a reader of EXPLAIN calls the consumer `GroupedHashAggregateStream[3] (count(1))`.
fn operator_name(consumer: &str) -> &str {
    const NAMES: &[(&str, &str)] = &[
        ("AggregateStream", "GROUP BY"),
        ("HashJoin", "hash join"),
        ("CrossJoin", "cross join"),
        ("NestedLoopJoin", "nested loop join"),
        ("PiecewiseMergeJoin", "merge join"),
        ("SMJStream", "merge join"),
        ("SymmetricHashJoin", "hash join"),
        ("Sorter", "sort"),
        ("SortPreserving", "sort"),
        ("TopK", "ORDER BY with LIMIT"),
        ("RecursiveQuery", "recursive query"),
        ("Window", "window function"),
        ("Repartition", "exchange between threads"),
    ];
    NAMES.iter().find(|(part, _)| consumer.contains(part)).map_or(consumer, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use super::*;

    #[test]
    fn refusals_name_operator_and_limit_and_everything_comes_back() {
        let broker = Broker::new(1000);
        let pool: Arc<dyn MemoryPool> = Arc::new(BrokerPool::new(broker.clone()));
        let join = MemoryConsumer::new("HashJoinInput[0]").register(&pool);
        join.try_grow(600).unwrap();
        let error = join.try_grow(500).unwrap_err();
        assert!(matches!(error, DataFusionError::ResourcesExhausted(_)));
        assert!(error.to_string().contains("hash join asked for 500 bytes"), "{error}");
        let sort = MemoryConsumer::new("ExternalSorter[0]").with_can_spill(true).register(&pool);
        let other = MemoryConsumer::new("ExternalSorter[1]").with_can_spill(true).register(&pool);
        sort.try_grow(200).unwrap();
        assert!(sort.try_grow(1).is_err(), "half of what the join left over");
        other.try_grow(200).unwrap();
        drop((sort, other, join));
        assert_eq!(broker.used_bytes(), 0);
    }
}
