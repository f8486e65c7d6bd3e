//! A row and a key of a keyed table, as the ordered base stores them.

use rowmill_base::{SqlType, TimeUnit};
use rowmill_storage::keyed::{KeyCodec, KeyPart, RowLayout, RowView};

/// Decodes the bytes as a row, and as a key.
pub fn run(data: &[u8]) {
    let kinds = [
        SqlType::Int64,
        SqlType::Text { chars_max: None },
        SqlType::Decimal { precision: 18, scale: 2 },
        SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false },
        SqlType::Boolean,
        SqlType::Float64,
    ];
    let layout = RowLayout::new(&kinds).expect("a layout");
    if let Ok(row) = RowView::new(&layout, data) {
        (0..row.columns()).for_each(|column| drop(row.get(column)));
    }
    let parts = kinds.map(KeyPart::new);
    let codec = KeyCodec::new(&parts).expect("a codec");
    let (mut reader, mut scratch) = (codec.reader(data), Vec::new());
    while let Ok(Some(_)) = reader.next(&mut scratch) {}
}
