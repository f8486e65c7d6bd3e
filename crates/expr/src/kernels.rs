//! Kernels of operators, for batches and for single values.
