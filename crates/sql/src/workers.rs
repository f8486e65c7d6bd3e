//! The threads that run the queries of one database.

use std::sync::Arc;

use rowmill_exec::workers::Workers;

/// The stack of a thread that runs operators, which recurse over expressions. A page of it takes memory only after its
/// first use.
const STACK_BYTES: usize = 1 << 30;

/// Makes the threads for a database. Its connections should share them. The threads end when the last owner drops them.
pub fn query_threads() -> Arc<Workers> {
    Arc::new(Workers::new("rowmill-engine", STACK_BYTES))
}
