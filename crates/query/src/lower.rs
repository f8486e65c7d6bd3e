//! From the logical plan to the operators of the engine.
