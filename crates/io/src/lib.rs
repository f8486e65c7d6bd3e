//! The one seam between the engine and the disk.
//!
//! Every byte of a column file passes through [`Disk`]: [`RealDisk`] is a directory of the file system, [`MemoryDisk`]
//! the same in memory, and [`FaultyDisk`] stands in front of either and fails on demand, so that what the engine does
//! when the world breaks is a test like any other. One conformance suite runs over all three.
//!
//! Bytes are read in two ways. A [`DiskFile`] reads and writes ranges through calls. A [`Mapping`] is the long one: an
//! address range longer than the file, in which the pages appear as the file grows, so that the kernel's page cache is
//! the buffer pool and a chunk is a slice. Unsafe code lives in the mapping's file only.
//!
//! The only thing that bypasses the seam is the ordered base, which maps its own file, and [`DirectoryLock`], which
//! must name a real process.

mod crash;
mod disk;
mod faulty;
mod lock;
mod mapping;
mod memory;
mod real;

pub use crash::{Fate, Record, crash_state};
pub use disk::{Disk, DiskFile, OpenMode};
pub use faulty::{Call, Fault, FaultPlan, FaultyDisk};
pub use lock::DirectoryLock;
pub use mapping::{Mapping, reserve_file};
pub use memory::MemoryDisk;
pub use real::RealDisk;
