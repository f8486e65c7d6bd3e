//! Texts and blobs outside of arrays: views of 128 bits, and the bytes of those that are too long for their view.
//!
//! A view has Arrow's format: the length, followed either by all bytes, or by the first four bytes, a buffer number and
//! an offset. A marked view of a long text has a part of its hash instead of the first four bytes. We use the hash
//! because keys often begin alike, so that their first bytes seldom tell them apart.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryViewArray, ByteView, StringViewArray, make_view};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use rowmill_base::{Error, Reservation, Result};

/// Bytes that fit a view.
const INLINE_BYTES_MAX: usize = 12;

/// Bytes of the first page, and of the largest page that is not made for a single text. Pages double in between, so at
/// most half of the memory is unused.
const PAGE_BYTES: std::ops::Range<usize> = 1 << 12..1 << 20;

/// Most bytes of a buffer of a result, because offsets in it have 32 bits.
const RESULT_BYTES_MAX: usize = 1 << 30;

/// Whether values of `kind` are texts or blobs.
pub(super) fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8View | DataType::BinaryView)
}

/// Texts or blobs of an array as bytes.
pub(super) fn texts_of(values: &ArrayRef) -> Option<BinaryViewArray> {
    match values.as_string_view_opt() {
        Some(texts) => Some(texts.clone().to_binary_view()),
        None => values.as_binary_view_opt().cloned(),
    }
}

/// The number of bytes of a view's text.
#[inline]
pub(crate) fn len_of(view: u128) -> usize {
    view as u32 as usize
}

/// Whether a text is too long for its view.
#[inline]
pub(super) fn is_long(view: u128) -> bool {
    len_of(view) > INLINE_BYTES_MAX
}

/// Marks the view of a long text: puts a part of the text's hash in place of the first bytes.
#[inline]
pub(super) fn marked(view: u128, hash: impl FnOnce() -> u64) -> u128 {
    /// The first bytes of a long text.
    const MARK: u128 = 0xffff_ffff << 32;
    if is_long(view) { view & !MARK | u128::from(hash() >> 32) << 32 } else { view }
}

/// The view of the same text in a buffer whose number is higher by `more`.
#[inline]
pub(super) fn moved(view: u128, more: u32) -> u128 {
    if is_long(view) { view + (u128::from(more) << 64) } else { view }
}

/// Compares two texts as far as their views tell.
#[inline]
pub(super) fn order_of_views(left: u128, right: u128) -> Ordering {
    let first_bytes = |view: u128| ((view >> 32) as u32).swap_bytes();
    first_bytes(left).cmp(&first_bytes(right))
}

/// The view of the same text in the first of several buffers. `copy` must copy the bytes of a long text there, and
/// return their offset. Short texts are in their views.
#[inline]
pub(super) fn copied_to(view: u128, copy: impl FnOnce(ByteView) -> usize) -> u128 {
    match is_long(view) {
        true => u128::from(view as u64) | (copy(ByteView::from(view)) as u128) << 96,
        false => view,
    }
}

/// The bytes of a text. The bytes of a short text are put into `inline`.
#[inline]
fn bytes_of<'a>(view: u128, inline: &'a mut [u8; 16], buffer: impl FnOnce(usize) -> &'a [u8]) -> &'a [u8] {
    let len = len_of(view);
    if is_long(view) {
        let view = ByteView::from(view);
        return &buffer(view.buffer_index as usize)[view.offset as usize..][..len];
    }
    *inline = (view >> 32).to_le_bytes();
    &inline[..len]
}

/// The bytes of a view that belongs to an array.
#[inline]
pub(super) fn bytes_in<'a>(array: &'a BinaryViewArray, view: u128, inline: &'a mut [u8; 16]) -> &'a [u8] {
    bytes_of(view, inline, |buffer| &array.data_buffers()[buffer])
}

/// Bytes that views refer to.
#[derive(Debug)]
enum ViewBytes {
    /// Copied texts, until the page is full.
    Page(Vec<u8>),
    /// The buffer of an array.
    Adopted(Buffer),
}

impl ViewBytes {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        match self {
            ViewBytes::Page(bytes) => bytes,
            ViewBytes::Adopted(buffer) => buffer,
        }
    }
}

/// Texts that outlive the arrays that they come from.
#[derive(Debug)]
pub(super) struct TextStore {
    buffers: Vec<ViewBytes>,
    /// The page that is being filled.
    page: Option<usize>,
    memory: Vec<Reservation>,
}

impl TextStore {
    /// An empty store that takes its memory from `memory`.
    pub(super) fn new(memory: Reservation) -> TextStore {
        TextStore { buffers: Vec::new(), page: None, memory: vec![memory] }
    }

    /// The bytes of a text.
    #[inline]
    pub(super) fn bytes<'a>(&'a self, view: u128, inline: &'a mut [u8; 16]) -> &'a [u8] {
        bytes_of(view, inline, |buffer| self.buffers[buffer].as_slice())
    }

    /// Whether the texts of two marked views are the same.
    #[inline]
    pub(super) fn is_same(&self, left: u128, right: u128) -> bool {
        let halves_differ = left as u64 != right as u64;
        if halves_differ || !is_long(left) {
            return left == right;
        }
        self.bytes(left, &mut [0; 16]) == self.bytes(right, &mut [0; 16])
    }

    /// A byte of a long text. Reading one byte of many texts before comparing any lets the processor fetch them at the
    /// same time.
    #[inline]
    pub(super) fn glance(&self, view: u128) -> u8 {
        let view = ByteView::from(view);
        self.buffers[view.buffer_index as usize].as_slice()[view.offset as usize]
    }

    /// Compares two texts. The views must not be marked.
    #[inline]
    pub(super) fn compare(&self, left: u128, right: u128) -> Ordering {
        order_of_views(left, right).then_with(|| self.bytes(left, &mut [0; 16]).cmp(self.bytes(right, &mut [0; 16])))
    }

    /// Copies a text into the store.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<u128> {
        if bytes.len() <= INLINE_BYTES_MAX {
            return Ok(make_view(bytes, 0, 0));
        }
        let number = self.page_for(bytes.len())?;
        let ViewBytes::Page(page) = &mut self.buffers[number] else { unreachable!("only pages are filled") };
        let offset = page.len();
        page.extend_from_slice(bytes);
        Ok(make_view(bytes, number as u32, offset as u32))
    }

    /// Replaces a text that is no longer needed. Overwrites its bytes if the new text fits.
    pub(super) fn replace(&mut self, old: u128, bytes: &[u8]) -> Result<u128> {
        // The old bytes are reused only if the new text fits them and they are in a page of this store.
        if is_long(old) && bytes.len() > INLINE_BYTES_MAX && bytes.len() <= len_of(old) {
            let old = ByteView::from(old);
            if let ViewBytes::Page(page) = &mut self.buffers[old.buffer_index as usize] {
                page[old.offset as usize..][..bytes.len()].copy_from_slice(bytes);
                return Ok(make_view(bytes, old.buffer_index, old.offset));
            }
        }
        self.push(bytes)
    }

    /// The page that has room for `len` more bytes.
    fn page_for(&mut self, len: usize) -> Result<usize> {
        if let Some(number) = self.page
            && let ViewBytes::Page(page) = &self.buffers[number]
            && page.capacity() - page.len() >= len
        {
            return Ok(number);
        }
        // Pages double, so that few groups take little memory and many groups need few pages.
        let before = self.page.map_or(0, |page| self.buffers[page].as_slice().len());
        let bytes = (before * 2).clamp(PAGE_BYTES.start, PAGE_BYTES.end).max(len);
        self.memory[0].grow(bytes as u64)?;
        self.buffers.push(ViewBytes::Page(Vec::with_capacity(bytes)));
        self.page = Some(self.buffers.len() - 1);
        Ok(self.buffers.len() - 1)
    }

    /// Keeps the buffers of `array` if its wanted texts, of `wanted` bytes, make up most of them. The views of the
    /// array must then be [`moved`] by the result. Without a result, the caller must copy the texts.
    pub(super) fn adopt(&mut self, array: &BinaryViewArray, wanted: usize) -> Result<Option<u32>> {
        let held: usize = array.data_buffers().iter().map(Buffer::capacity).sum();
        // Keeping the whole buffer for a few texts would waste memory; the caller copies these.
        if wanted * 2 < held {
            return Ok(None);
        }
        self.memory[0].grow(held as u64)?;
        let base = self.buffers.len() as u32;
        self.buffers.extend(array.data_buffers().iter().cloned().map(ViewBytes::Adopted));
        Ok(Some(base))
    }

    /// Copies a long text to the end of `bytes`. Returns its view there, as the only buffer. Short texts stay in their
    /// views.
    pub(super) fn copy_to(&self, view: u128, bytes: &mut Vec<u8>) -> u128 {
        copied_to(view, |of| {
            let offset = bytes.len();
            let text = &self.buffers[of.buffer_index as usize].as_slice()[of.offset as usize..][..of.length as usize];
            bytes.extend_from_slice(text);
            offset
        })
    }

    /// Keeps a buffer, and returns its number.
    pub(super) fn keep(&mut self, buffer: Buffer) -> Result<u32> {
        self.memory[0].grow(buffer.capacity() as u64)?;
        self.buffers.push(ViewBytes::Adopted(buffer));
        Ok(self.buffers.len() as u32 - 1)
    }

    /// Joins stores into one. Also returns by how much the views of each must be [`moved`].
    pub(super) fn join(stores: impl IntoIterator<Item = TextStore>) -> (TextStore, Vec<u32>) {
        let mut joined = TextStore { buffers: Vec::new(), page: None, memory: Vec::new() };
        let mut bases = Vec::new();
        for store in stores {
            bases.push(joined.buffers.len() as u32);
            // Buffers are moved, not copied, so views need only a new buffer number.
            joined.buffers.extend(store.buffers);
            joined.memory.extend(store.memory);
        }
        (joined, bases)
    }

    /// Makes an array of `kind` from texts or blobs. It shares no bytes with the store. Views may be marked; the view
    /// of a NULL must be zero.
    pub(super) fn array(
        &self,
        kind: &DataType,
        views: impl Iterator<Item = u128>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let mut views: Vec<u128> = views.collect();
        let mut left: usize = views.iter().filter(|view| is_long(**view)).map(|view| len_of(*view)).sum();
        let (mut buffers, mut bytes) = (Vec::new(), Vec::with_capacity(left.min(RESULT_BYTES_MAX)));
        for view in views.iter_mut().filter(|view| is_long(**view)) {
            let len = len_of(*view);
            // Offsets have 32 bits, so start a new buffer before they run out.
            if bytes.len() + len > RESULT_BYTES_MAX && !bytes.is_empty() {
                buffers.push(Buffer::from_vec(std::mem::replace(
                    &mut bytes,
                    Vec::with_capacity(left.min(RESULT_BYTES_MAX)),
                )));
            }
            left -= len;
            let of = ByteView::from(*view);
            let source = &self.buffers[of.buffer_index as usize].as_slice()[of.offset as usize..][..len];
            let (buffer, offset) = (buffers.len() as u32, bytes.len() as u32);
            bytes.extend_from_slice(source);
            // A marked view must get its first bytes back, because Arrow compares by them.
            *view = make_view(source, buffer, offset);
        }
        if !bytes.is_empty() {
            buffers.push(Buffer::from_vec(bytes));
        }
        let views = ScalarBuffer::from(views);
        let failed = |error: arrow::error::ArrowError| Error::internal(format!("texts of groups: {error}"));
        Ok(match kind {
            DataType::Utf8View => Arc::new(StringViewArray::try_new(views, buffers, nulls).map_err(failed)?),
            _ => Arc::new(BinaryViewArray::try_new(views, buffers, nulls).map_err(failed)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rowmill_base::Broker;

    fn samples() -> Vec<String> {
        let mut texts: Vec<String> = (0..40).map(|len| "abc".chars().cycle().take(len).collect()).collect();
        texts.extend(["abcd", "abcdefghijklmnop", "abcdefghijklmnoq", "ä", "b\0", "b"].map(str::to_owned));
        texts
    }

    #[test]
    fn views_compare_as_their_texts() {
        let mut store = TextStore::new(Broker::new(1 << 20).reservation("test"));
        let texts = samples();
        let views: Vec<u128> = texts.iter().map(|text| store.push(text.as_bytes()).expect("room")).collect();
        for (left, left_view) in texts.iter().zip(&views) {
            for (right, right_view) in texts.iter().zip(&views) {
                assert_eq!(store.compare(*left_view, *right_view), left.cmp(right), "{left:?} {right:?}");
                let mark = |view, text: &String| marked(view, || crate::hash::hash_of_bytes(text.as_bytes(), 0));
                let (left_view, right_view) = (mark(*left_view, left), mark(*right_view, right));
                assert_eq!(store.is_same(left_view, right_view), left == right, "{left:?} {right:?}");
            }
        }
        let array = store.array(&DataType::Utf8View, views.into_iter(), None).expect("texts");
        assert_eq!(*array.as_string_view(), StringViewArray::from_iter_values(&texts));
    }

    #[test]
    fn joined_stores_keep_their_texts() {
        let broker = Broker::new(1 << 20);
        let (mut copied, mut adopted) =
            (TextStore::new(broker.reservation("test")), TextStore::new(broker.reservation("test")));
        let texts = samples();
        let array = BinaryViewArray::from_iter_values(&texts);
        let base = adopted.adopt(&array, 1 << 20).expect("room").expect("all are wanted");
        assert!(adopted.adopt(&array, 10).expect("room").is_none());
        let views: Vec<u128> = texts.iter().map(|text| copied.push(text.as_bytes()).expect("room")).collect();
        let (joined, bases) = TextStore::join([copied, adopted]);
        for ((text, copied), adopted) in texts.iter().zip(views).zip(array.views()) {
            let (copied, adopted) = (moved(copied, bases[0]), moved(*adopted, base + bases[1]));
            assert_eq!(joined.bytes(copied, &mut [0; 16]), text.as_bytes());
            assert!(joined.is_same(copied, adopted), "{text}");
        }
        drop(joined);
        assert_eq!(broker.used_bytes(), 0);
    }

    #[test]
    fn a_text_takes_the_place_of_a_longer_one() {
        let broker = Broker::new(1 << 20);
        let mut store = TextStore::new(broker.reservation("test"));
        let mut view = store.push(&[b'z'; 100]).expect("room");
        let used = broker.used_bytes();
        for len in (1..100).rev() {
            let text = vec![b'a'; len];
            view = store.replace(view, &text).expect("room");
            assert_eq!(store.bytes(view, &mut [0; 16]), text);
        }
        assert_eq!(broker.used_bytes(), used);
    }
}
