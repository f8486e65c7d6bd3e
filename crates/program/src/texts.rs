//! Texts and bytes that expressions make, each kept until the row that it was made of is done with.

use std::cell::{OnceCell, RefCell};

/// A place for each text or bytes that an expression can make, by its number. They hold one each, which may be read while
/// others are made.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    places: Vec<Place>,
}

#[derive(Debug, Default)]
struct Place {
    text: OnceCell<String>,
    bytes: OnceCell<Vec<u8>>,
    /// What the text before was kept in.
    spare: RefCell<String>,
}

impl Texts {
    /// Empties `places` places.
    pub(crate) fn clear(&mut self, places: usize) {
        if self.places.len() < places {
            self.places.resize_with(places, Place::default);
        }
        for place in &mut self.places[..places] {
            if let Some(text) = place.text.take() {
                place.spare.replace(text);
            }
            place.bytes.take();
        }
    }

    /// The text that `write` appends, in an empty place.
    pub(crate) fn make(&self, place: usize, write: impl FnOnce(&mut String)) -> &str {
        let place = &self.places[place];
        let mut text = place.spare.take();
        text.clear();
        write(&mut text);
        place.text.set(text).expect("an expression is computed once for a row");
        place.text.get().expect("it was set")
    }

    /// These bytes, in an empty place.
    pub(crate) fn keep(&self, place: usize, bytes: &[u8]) -> &[u8] {
        let place = &self.places[place];
        place.bytes.set(bytes.to_vec()).expect("an expression is computed once for a row");
        place.bytes.get().expect("they were set")
    }
}
