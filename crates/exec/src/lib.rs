//! The execution engine. It reads [`rowmill_storage::TableSource`]s by page frames, and evaluates expressions once per
//! distinct value where possible.

pub mod aggregate;
pub mod arithmetic;
pub mod batch;
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
pub use rowmill_expr::regexp;
pub mod recursive;
mod row_keys;
mod row_set;
pub mod scan;
pub mod series;
pub mod set_all;
pub mod share;
pub mod shared;
pub mod single_row;
pub mod sort;
pub mod spin;
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
