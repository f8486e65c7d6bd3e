//! Counts the instructions of a thread with the counters of the processor.
//!
//! Unlike times, instructions hardly depend on other work of the machine. Many virtual machines and containers have no
//! such counters, or do not permit them. Then the reason is part of the report.

/// Counts the instructions that the thread that made it runs outside of the kernel.
#[derive(Debug)]
pub struct InstructionCounter {
    #[cfg(target_os = "linux")]
    counter: std::io::Result<perf_event::Counter>,
}

#[cfg(target_os = "linux")]
impl InstructionCounter {
    /// Begins to count.
    pub fn start() -> InstructionCounter {
        use perf_event::Builder;
        use perf_event::events::Hardware;
        let counter = Builder::new(Hardware::INSTRUCTIONS).build();
        let started = counter.and_then(|mut counter| counter.enable().map(|()| counter));
        InstructionCounter { counter: started }
    }

    /// The instructions so far, or why they are unknown.
    pub fn count(&mut self) -> Result<u64, String> {
        let counter = self.counter.as_mut().map_err(|error| error.to_string())?;
        counter.read().map_err(|error| error.to_string())
    }
}

#[cfg(not(target_os = "linux"))]
impl InstructionCounter {
    /// Counts nothing, because only Linux has the call that we use.
    pub fn start() -> InstructionCounter {
        InstructionCounter {}
    }

    /// Why the instructions are unknown.
    pub fn count(&mut self) -> Result<u64, String> {
        Err("this system has no perf_event_open".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_counted_or_a_reason_is_given() {
        let mut counter = InstructionCounter::start();
        let sum = (0..std::hint::black_box(10_000_u64)).fold(0, |sum, n| std::hint::black_box(sum + n));
        assert!(sum > 0);
        match counter.count() {
            Ok(count) => assert!(count > 10_000, "{count}"),
            Err(reason) => assert!(!reason.is_empty()),
        }
    }
}
