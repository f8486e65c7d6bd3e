//! The only interface between the engine and the disk.
//!
//! Every byte of a column file passes through [`Disk`]. [`RealDisk`] is a directory of the file system, and
//! [`MemoryDisk`] is a directory in memory. [`FaultyDisk`] wraps either of them and fails on demand, so that tests can
//! cover the engine's reaction to failures. One conformance suite runs over all three.
//!
//! Bytes are read in two ways. A [`DiskFile`] reads and writes ranges by calls. A [`Mapping`] is an address range
//! longer than the file, in which pages appear as the file grows. The kernel's page cache is therefore the buffer
//! pool, and a chunk is a slice. [`OverflowMemory`] is memory of the process that goes on in a file. Unsafe code is
//! only in `mapping`, in `overflow`, which is an allocator, and in `machine`, which asks for the limits of the machine.
//!
//! Three things bypass this interface because they concern real processes: the names of the ordered base's files and
//! its table of readers, the folders of temporary files, and [`DirectoryLock`].

mod crash;
mod disk;
mod faulty;
mod file_memory;
mod lock;
mod machine;
mod mapping;
mod memory;
mod overflow;
mod real;

pub use crash::{DiskChange, Fate, crash_state};
pub use disk::{Disk, DiskFile, OpenMode};
pub use faulty::{Call, Fault, FaultPlan, FaultyDisk};
pub use file_memory::FileMemory;
pub use lock::DirectoryLock;
pub use machine::{free_disk_bytes, memory_bytes};
pub use mapping::{Mapping, page_len};
pub use memory::MemoryDisk;
pub use overflow::{OverflowFile, OverflowFiles, OverflowMemory};
pub use real::RealDisk;
