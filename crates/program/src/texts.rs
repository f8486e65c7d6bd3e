//! Texts and bytes that expressions make. Each of them lives until the statement is done with the row.

use std::cell::{OnceCell, RefCell};

/// One place for each text or byte string that an expression can make, found by number. A place is written at most once
/// per row, through a shared reference, so earlier texts can be read while later ones are made.
#[derive(Debug, Default)]
pub(crate) struct ComputedTexts {
    places: Vec<TextPlace>,
}

#[derive(Debug, Default)]
struct TextPlace {
    text: OnceCell<String>,
    bytes: OnceCell<Vec<u8>>,
    /// The memory of the previous text, which the next one reuses.
    spare: RefCell<String>,
}

impl ComputedTexts {
    /// Empties the first `places` places. The caller must do this before each row.
    pub(crate) fn clear(&mut self, places: usize) {
        if self.places.len() < places {
            self.places.resize_with(places, TextPlace::default);
        }
        for place in &mut self.places[..places] {
            if let Some(text) = place.text.take() {
                place.spare.replace(text);
            }
            place.bytes.take();
        }
    }

    /// Lets `write` append a text to an empty place and returns it.
    pub(crate) fn make(&self, place: usize, write: impl FnOnce(&mut String)) -> &str {
        let place = &self.places[place];
        let mut text = place.spare.take();
        text.clear();
        write(&mut text);
        place.text.set(text).expect("an expression is computed at most once per row");
        place.text.get().expect("the text was just set")
    }

    /// Copies bytes to an empty place and returns the copy.
    pub(crate) fn keep(&self, place: usize, bytes: &[u8]) -> &[u8] {
        let place = &self.places[place];
        place.bytes.set(bytes.to_vec()).expect("an expression is computed at most once per row");
        place.bytes.get().expect("the bytes were just set")
    }
}
