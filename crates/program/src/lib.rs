//! Compiled statements on keyed tables.
