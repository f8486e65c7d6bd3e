//! The execution engine. It reads [`rowmill_storage::TableSource`]s by page frames, and evaluates expressions once per
//! distinct value where possible.
//!
//! The modules, in the order in which a query passes them:
//!
//! - `operator`: makes operators of a plan. `batch`: the interface between operators. `collect`: runs them to the end.
//! - `workers`, `share`, `phase`, `spin`: threads, and the work that they share.
//! - `scan`: rows of tables by page frames. `predicate`, `computed_condition`, `like`, `key_filter`, `lookahead`: the
//!   rows that need not be read.
//! - `expression`, `function`, `arithmetic`, `case`, `column_parts`: values of expressions. `filter`, `project`:
//!   batches of them.
//! - `values`, `series`, `unnest`, `shared`, `recursive`: other sources of rows.
//! - `group`, `sliced_group`, `aggregate`, `expand`, `first_rows`: groupings. `window`: windows. `numbered_rows`: those
//!   that only number all rows.
//! - `latest`: the newest row of each key. `fill`: rows for buckets of time without rows.
//! - `join`, `ordered_join`, `sliced_join`, `single_row`: joins, and the check of scalar subqueries. `union`,
//!   `set_all`: set operations.
//! - `sort`, `late_sort`, `limit`: orders and limits.
//! - `time_slices`: slices of time, in which groupings, fills and joins of the operators above work.
//! - `text_memo`: numbers of texts that a join or a grouping has looked up before.
//! - `spill_buckets`: rows in temporary files, by the hash of their keys.
//! - `hash`, `numbers`, `row_keys`, `row_set`: keys of rows, which the operators above share. `radix`: sorts entries.
//!   `partition_order`: sorts rows by partition. `cache`: sizes of caches.
//! - `column_bounds`: the least and the greatest values of columns.
//! - `forced`: makes operators take a certain way, for tests.

pub mod aggregate;
mod arithmetic;
pub mod batch;
mod cache;
mod case;
pub mod collect;
mod column_bounds;
mod column_parts;
pub mod computed_condition;
mod expand;
pub mod expression;
mod fill;
mod filter;
mod first_rows;
pub mod forced;
pub mod function;
pub mod group;
mod hash;
pub mod join;
mod key_filter;
mod late_sort;
mod latest;
mod like;
mod limit;
mod lookahead;
mod numbered_rows;
mod numbers;
pub mod operator;
pub mod ordered_join;
mod partition_order;
mod phase;
pub mod predicate;
mod project;
mod radix;
mod recursive;
mod row_keys;
mod row_set;
pub mod scan;
mod series;
mod set_all;
pub mod share;
mod shared;
mod single_row;
mod sliced_group;
mod sliced_join;
pub mod sort;
mod spill_buckets;
mod spin;
#[cfg(test)]
mod test_input;
#[cfg(test)]
mod testing;
mod text_memo;
mod time_slices;
mod union;
mod unnest;
pub mod values;
pub mod window;
pub mod workers;

// Re-exported for code that computes averages.
pub use rowmill_base::quotient;
