//! Programs over a database in memory: what each body gives and changes, and what it refuses.

mod key_types;
mod lookups;
mod reads;
mod support;
mod versus_filter;
mod writes;
