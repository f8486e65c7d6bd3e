//! A chunk of a column file: its head, its sections and its values.

use rowmill_base::{Cancel, SqlType};
use rowmill_storage::chunk::{Chunk, ChunkBytes};

/// Opens the bytes after the first as a chunk of the type that the first names, checks it and reads it.
pub fn run(data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else { return };
    let kinds = kinds();
    let kind = &kinds[usize::from(*first) % kinds.len()];
    let Ok(chunk) = Chunk::open(ChunkBytes::memory(bytes.to_vec()), kind) else { return };
    let _ = chunk.check(&Cancel::default());
    let _ = chunk.read(0..chunk.rows());
}

/// Types of each physical form.
pub fn kinds() -> [SqlType; 6] {
    [
        SqlType::Int64,
        SqlType::Int16,
        SqlType::Float64,
        SqlType::Boolean,
        SqlType::Text { chars_max: None },
        SqlType::Decimal { precision: 18, scale: 2 },
    ]
}
