//! Chooses the encoding of a column: the smallest of the fast ones.
//!
//! We measure every encoding that suits the data instead of guessing: the packed sizes follow from the least and the
//! greatest value of each vector, and runs and row lists are only built if they may be short. We compare the size times
//! a price, which reflects the cost or gain for readers. A frame of reference, which unpacks at memory speed, has the
//! price 1. Each encoding gives its price and the reason in its own file.
//!
//! A column with one value, or with only NULLs, is constant, which costs nothing. The encodings with a value list share
//! the list and differ in their codes. So they first compete by the price of their codes, and then the best of them
//! competes with the others.

use rowmill_base::Result;

use super::{ENCODINGS, EncodingRef, NewColumn};
use crate::chunk::{Facts, NewSection, assemble};

/// A column in the encoding that it was analysed for.
pub(crate) struct EncodedColumn {
    pub(crate) facts: Facts,
    pub(crate) sections: Vec<NewSection>,
}

/// Encodes the column that was analysed. Owns what the analysis has already built.
type EncodeAnalysed = Box<dyn FnOnce(NewColumn<'_>) -> Result<EncodedColumn>>;

/// What an encoding says about a column.
pub(crate) struct Analysis {
    price: usize,
    /// For encodings with a value list, the price by which they compete with each other.
    codes_price: Option<usize>,
    encode: EncodeAnalysed,
}

impl Analysis {
    /// The column takes `bytes`, each at `hundredths` of the price of a byte. `encode` gets the column that was
    /// analysed.
    pub(crate) fn of(
        bytes: usize,
        hundredths: usize,
        encode: impl FnOnce(NewColumn<'_>) -> Result<EncodedColumn> + 'static,
    ) -> Analysis {
        Analysis { price: bytes * hundredths / 100, codes_price: None, encode: Box::new(encode) }
    }

    /// The column has a value list, and codes of this price.
    #[must_use]
    pub(crate) fn with_codes(self, codes_price: usize) -> Analysis {
        Analysis { codes_price: Some(codes_price), ..self }
    }
}

/// The cheapest of the encodings that were offered so far.
#[derive(Default)]
pub(crate) struct Cheapest {
    without_list: Option<(EncodingRef, Analysis)>,
    with_list: Option<(EncodingRef, Analysis)>,
}

impl Cheapest {
    fn offer(&mut self, encoding: EncodingRef, analysis: Analysis) {
        let (best, price): (_, fn(&Analysis) -> usize) = match analysis.codes_price {
            Some(_) => (&mut self.with_list, |analysis| analysis.codes_price.unwrap_or(usize::MAX)),
            None => (&mut self.without_list, |analysis| analysis.price),
        };
        if best.as_ref().is_none_or(|(_, best)| price(&analysis) < price(best)) {
            *best = Some((encoding, analysis));
        }
    }

    /// The price of the cheapest codes.
    pub(crate) fn codes_price(&self) -> usize {
        self.with_list.as_ref().and_then(|(_, analysis)| analysis.codes_price).unwrap_or(usize::MAX)
    }

    /// The price of the cheapest encoding so far. `None` if it has a value list.
    pub(crate) fn price_without_list(&self) -> Option<usize> {
        let rows = self.without_list.as_ref().map(|(_, analysis)| analysis.price)?;
        let list = self.with_list.as_ref().map(|(_, analysis)| analysis.price);
        (list.is_none_or(|list| list >= rows)).then_some(rows)
    }

    /// Whether nothing can be cheaper.
    fn is_free(&self) -> bool {
        self.without_list.as_ref().is_some_and(|(_, analysis)| analysis.price == 0)
    }

    fn chosen(self) -> Option<(EncodingRef, Analysis)> {
        match self.price_without_list() {
            Some(_) => self.without_list,
            None => self.with_list,
        }
    }
}

/// Encodes `column` as a chunk in the cheapest encoding. With `forced`, only that encoding is allowed, and `None` means
/// that it does not suit the column.
pub(crate) fn encode_cheapest(column: NewColumn<'_>, forced: Option<EncodingRef>) -> Result<Option<Vec<u8>>> {
    let mut cheapest = Cheapest::default();
    for encoding in ENCODINGS.into_iter().filter(|encoding| forced.is_none_or(|forced| forced == *encoding)) {
        if let Some(analysis) = encoding.analyse(&column, &cheapest)? {
            cheapest.offer(encoding, analysis);
        }
        if cheapest.is_free() {
            break;
        }
    }
    let Some((encoding, analysis)) = cheapest.chosen() else { return Ok(None) };
    let EncodedColumn { mut facts, sections } = (analysis.encode)(column)?;
    facts.encoding = encoding;
    Ok(Some(assemble(&facts, sections)))
}
