//! The bytes that each holder of memory has. Holders are operators and other parts of the engine, known by name.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// More than the parts of the engine that hold memory. Later names share the last slot.
const SLOTS: usize = 64;

/// The name of the last slot.
const OTHERS: &str = "others";

/// A table of holders that threads change at the same time without locks.
#[derive(Debug)]
pub(crate) struct MemoryHolders {
    slots: [MemoryHolder; SLOTS],
}

#[derive(Debug, Default)]
struct MemoryHolder {
    name: OnceLock<&'static str>,
    used_bytes: AtomicU64,
    peak_bytes: AtomicU64,
}

/// The memory of a holder, as [`crate::Broker::holders`] shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldMemory {
    /// The operator or the part of the engine.
    pub holder: &'static str,
    /// The bytes that it holds now.
    pub used_bytes: u64,
    /// The most bytes that it held at once.
    pub peak_bytes: u64,
}

impl MemoryHolders {
    pub(crate) fn new() -> MemoryHolders {
        MemoryHolders { slots: std::array::from_fn(|_| MemoryHolder::default()) }
    }

    /// Adds `bytes` to those of `name`.
    pub(crate) fn take(&self, name: &'static str, bytes: u64) {
        let holder = self.holder(name);
        let used = holder.used_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // Most calls do not raise the peak, and a read costs less than a write.
        if used > holder.peak_bytes.load(Ordering::Relaxed) {
            holder.peak_bytes.fetch_max(used, Ordering::Relaxed);
        }
    }

    /// Removes `bytes` from those of `name`.
    pub(crate) fn give_back(&self, name: &'static str, bytes: u64) {
        self.holder(name).used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The bytes that `name` holds now.
    pub(crate) fn used_bytes(&self, name: &'static str) -> u64 {
        self.holder(name).used_bytes.load(Ordering::Relaxed)
    }

    /// The slot of `name`, which is searched from a slot that its content decides.
    fn holder(&self, name: &'static str) -> &MemoryHolder {
        let first = name.len() + name.as_bytes().last().map_or(0, |byte| usize::from(*byte));
        let of_name = (0..SLOTS - 1).map(|step| &self.slots[(first + step) % (SLOTS - 1)]);
        let is_of_name = |slot: &&MemoryHolder| *slot.name.get_or_init(|| name) == name;
        of_name.into_iter().find(is_of_name).unwrap_or_else(|| {
            let last = &self.slots[SLOTS - 1];
            last.name.get_or_init(|| OTHERS);
            last
        })
    }

    /// All holders that ever held memory, the largest first.
    pub(crate) fn all(&self) -> Vec<HeldMemory> {
        let of = |slot: &MemoryHolder| {
            Some(HeldMemory {
                holder: slot.name.get()?,
                used_bytes: slot.used_bytes.load(Ordering::Relaxed),
                peak_bytes: slot.peak_bytes.load(Ordering::Relaxed),
            })
        };
        let mut all: Vec<HeldMemory> = self.slots.iter().filter_map(of).collect();
        all.sort_by_key(|held| (std::cmp::Reverse(held.used_bytes), held.holder));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_own_bytes_until_the_table_is_full() {
        let holders = MemoryHolders::new();
        let names: Vec<&'static str> =
            (0..100).map(|number| &*Box::leak(format!("operator {number}").into_boxed_str())).collect();
        for (bytes, name) in (1..).zip(&names) {
            holders.take(name, bytes);
            holders.take(name, 1000);
            holders.give_back(name, 1000);
        }
        let all = holders.all();
        assert_eq!(all.len(), SLOTS);
        assert_eq!(all.iter().map(|held| held.used_bytes).sum::<u64>(), 5050);
        assert_eq!(holders.used_bytes(names[9]), 10);
        assert_eq!(all[0], HeldMemory { holder: OTHERS, used_bytes: (64..=100).sum(), ..all[0] });
        let ninth = all.iter().find(|held| held.holder == names[8]).expect("listed");
        assert_eq!((ninth.used_bytes, ninth.peak_bytes), (9, 1009));
    }
}
