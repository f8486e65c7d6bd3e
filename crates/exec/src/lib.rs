//! The execution engine. It reads [`rowmill_storage::TableSource`]s by page frames, and evaluates expressions once per
//! distinct value where possible.
//!
//! The modules, in the order in which a query passes them:
//!
//! - `operator`: makes operators of a plan. `batch`: the interface between operators. `collect`: runs them to the end.
//! - `workers`, `share`, `phase`, `spin`: threads, and the work that they share.
//! - `scan`: rows of tables by page frames. `predicate`, `like`, `key_filter`, `lookahead`: the rows that need not be
//!   read.
//! - `expression`, `function`, `arithmetic`, `case`: values of expressions. `filter`, `project`: batches of them.
//! - `values`, `series`, `unnest`, `shared`, `recursive`: other sources of rows.
//! - `group`, `aggregate`, `expand`, `first_rows`: groupings. `window`: windows.
//! - `join`, `single_row`: joins, and the check of scalar subqueries. `union`, `set_all`: set operations.
//! - `sort`, `limit`: orders and limits.
//! - `hash`, `numbers`, `row_keys`, `row_set`: keys of rows, which the operators above share. `radix`: sorts entries.
//!   `cache`: sizes of caches.
//! - `forced`: makes operators take a certain way, for tests.

pub mod aggregate;
pub mod arithmetic;
pub mod batch;
mod cache;
pub mod case;
pub mod collect;
pub mod expand;
pub mod expression;
pub mod filter;
pub mod first_rows;
pub mod forced;
pub mod function;
pub mod group;
mod hash;
pub mod join;
pub mod key_filter;
mod like;
pub mod limit;
mod lookahead;
mod numbers;
pub mod operator;
mod phase;
pub mod predicate;
pub mod project;
mod radix;
pub mod recursive;
mod row_keys;
mod row_set;
pub mod scan;
pub mod series;
mod set_all;
pub mod share;
pub mod shared;
pub mod single_row;
pub mod sort;
mod spin;
#[cfg(test)]
mod test_input;
#[cfg(test)]
mod testing;
pub mod union;
pub mod unnest;
pub mod values;
pub mod window;
pub mod workers;

// Re-exported for code that computes averages.
pub use rowmill_base::quotient;
