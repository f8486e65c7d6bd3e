//! Lists by their kernels.
