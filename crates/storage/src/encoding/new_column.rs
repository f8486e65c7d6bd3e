//! A column to be encoded, prepared for the analyses of all encodings.
//!
//! ```text
//!   fixed size   values ── keys ── (key - base) / factor in narrow words ─┬─ distinct values and codes
//!                                                                         └─ rows
//!   strings      values ───────────────────────────────────────────────────┬─ distinct values and codes, or
//!                                                                         └─ rows
//! ```
//!
//! Finding the distinct values takes long, so it is done once for all encodings with a value list.

use std::cell::OnceCell;

use arrow::array::Array;
use arrow::buffer::NullBuffer;
use rowmill_base::{Error, Result, SqlType};

use super::EncodingRef;
use super::ListPlace;
use super::choice::EncodedColumn;
use super::list::{NewCodes, NewList};
use super::scaled::Scaled;
use crate::chunk::{Facts, Kind, NewSection, Physical, SectionKind, StoredZone, null_section, zone};
use crate::sequence::{self, Word, bounds};
use crate::strings::{ByteStrings, Dictionary, StringPlan, encode_grams, encode_list, encode_rows, plan};

/// A column to be encoded.
pub(crate) enum NewColumn<'a> {
    Fixed(Box<FixedColumn<'a>>),
    Strings(Box<StringColumn<'a>>),
    /// Lists or structs.
    Nested {
        array: &'a dyn Array,
        kind: &'a SqlType,
    },
}

/// Values of a fixed size.
pub(crate) struct FixedColumn<'a> {
    pub(super) array: &'a dyn Array,
    /// The facts that do not depend on the encoding.
    pub(super) facts: Facts,
    pub(super) nulls: Option<&'a NullBuffer>,
    pub(super) null_rows: Vec<u32>,
    /// The section that says which rows are NULL, for encodings without codes.
    pub(super) valid: Option<NewSection>,
    /// Whether the order of the keys is the order of the values.
    pub(super) ordered: bool,
    /// The values. A NULL row has the value of another row.
    pub(super) scaled: Scaled,
    /// Whether only one encoding is allowed, so that it must encode the column even if it is a bad choice.
    pub(super) is_forced: bool,
    /// Whether all rows are the same value, or all are NULL.
    is_constant: bool,
    list: OnceCell<Option<NewList>>,
}

/// Strings, in a value list or in the order of rows.
pub(crate) struct StringColumn<'a> {
    pub(super) strings: &'a ByteStrings,
    pub(super) facts: Facts,
    is_forced: bool,
    /// The distinct values and the codes. `None` if the column is to be stored in the order of rows.
    list: Option<(Dictionary<'a>, NewCodes)>,
}

impl<'a> NewColumn<'a> {
    /// Whether all rows are the same value, or all are NULL.
    pub(super) fn is_constant(&self) -> bool {
        match self {
            NewColumn::Fixed(column) => column.is_constant,
            NewColumn::Strings(column) => column
                .list
                .as_ref()
                .is_some_and(|(found, _)| found.values.len() + usize::from(column.facts.null_count > 0) <= 1),
            NewColumn::Nested { .. } => false,
        }
    }

    /// The column, whose values must have a fixed size.
    pub(super) fn into_fixed(self) -> FixedColumn<'a> {
        match self {
            NewColumn::Fixed(column) => *column,
            _ => unreachable!("values of a fixed size were analysed"),
        }
    }

    /// Whether only one encoding is allowed, so that it must encode the column even if it is a bad choice.
    pub(super) fn is_forced(&self) -> bool {
        match self {
            NewColumn::Fixed(column) => column.is_forced,
            NewColumn::Strings(column) => column.is_forced,
            NewColumn::Nested { .. } => false,
        }
    }

    /// The codes of the rows. `None` if a value list does not suit the column.
    pub(super) fn codes(&self) -> Option<&NewCodes> {
        match self {
            NewColumn::Fixed(column) => column.list().map(|list| &list.codes),
            NewColumn::Strings(column) => column.list.as_ref().map(|(_, codes)| codes),
            NewColumn::Nested { .. } => None,
        }
    }

    /// The column as a value list whose codes are in `codes`.
    pub(super) fn listed(self, common: u32, codes: Vec<NewSection>) -> Result<EncodedColumn> {
        match self {
            NewColumn::Fixed(column) => Ok(column.listed(common, codes)),
            NewColumn::Strings(column) => column.listed(common, codes),
            NewColumn::Nested { .. } => Err(Error::internal("lists and structs have no value list")),
        }
    }
}

impl<'a> FixedColumn<'a> {
    /// Prepares `array`, whose values are of the kind `K`.
    pub(crate) fn new<K: Kind>(array: &'a dyn Array, physical: Physical, is_forced: bool) -> Result<FixedColumn<'a>> {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let rows = array.len();
        let null_count = nulls.map_or(0, NullBuffer::null_count);
        let mut keys = K::keys(array);
        if keys.len() != rows {
            return Err(Error::internal(format!("{} values in an array of {rows}", keys.len())));
        }
        // Keys of NULL rows are arbitrary. They must be replaced before anything is measured.
        let null_rows = nulls.map_or(Vec::new(), null_rows);
        fill_nulls(&mut keys, &null_rows);
        let mut facts = Facts::new(physical, rows, null_count);
        let (low, high) = if null_count == rows { Default::default() } else { bounds(&keys) };
        if null_count < rows {
            facts.zone = zone::of_keys::<K>(low, high);
        }
        Ok(FixedColumn {
            array,
            facts,
            nulls,
            valid: nulls.map(null_section::encode),
            ordered: K::ORDERED,
            scaled: Scaled::new(&keys, low, high),
            is_forced,
            // A single value with some NULLs is not constant: it needs to know which rows are NULL.
            is_constant: null_count == rows || (low == high && null_count == 0),
            list: OnceCell::new(),
            null_rows,
        })
    }

    /// The bytes of the section that says which rows are NULL.
    pub(super) fn valid_bytes(&self) -> usize {
        self.valid.as_ref().map_or(0, |section| section.bytes.len())
    }

    fn list(&self) -> Option<&NewList> {
        let list = || if self.ordered { NewList::of_fixed(self) } else { None };
        self.list.get_or_init(list).as_ref()
    }

    /// The column as one value, which is the base.
    pub(super) fn constant(self) -> EncodedColumn {
        let mut facts = self.facts;
        facts.distinct = Some(usize::from(facts.null_count < facts.rows));
        facts.base = self.scaled.base;
        EncodedColumn { facts, sections: Vec::new() }
    }

    /// The column as a row section, with sections `aside` of the same encoding. The rows are `(key - base) / factor`.
    pub(super) fn in_row_order(
        self,
        rows: NewSection,
        (base, factor): (u128, u64),
        aside: impl IntoIterator<Item = NewSection>,
    ) -> EncodedColumn {
        let mut facts = self.facts;
        (facts.base, facts.factor) = (base, factor);
        let sections = std::iter::once(rows).chain(aside).chain(self.valid).collect();
        EncodedColumn { facts, sections }
    }

    fn listed(self, common: u32, codes: Vec<NewSection>) -> EncodedColumn {
        let mut facts = self.facts;
        let list = self.list.into_inner().flatten().expect("codes belong to a list");
        (facts.base, facts.factor) = (self.scaled.base, self.scaled.factor);
        (facts.common, facts.distinct) = (common, Some(list.distinct));
        let mut sections = vec![
            NewSection { kind: SectionKind::Values, count: list.distinct, bytes: list.values },
            NewSection { kind: SectionKind::Counts, count: list.distinct, bytes: list.counts },
        ];
        sections.extend(codes);
        EncodedColumn { facts, sections }
    }
}

fn null_rows(nulls: &NullBuffer) -> Vec<u32> {
    (!nulls.inner()).set_indices_u32().collect()
}

/// Gives each NULL row the value of the row before it, so that it costs nothing and adds no distinct value. NULLs at
/// the front get the first value.
fn fill_nulls<W: Word>(keys: &mut [W], null_rows: &[u32]) {
    // The positions ascend. So as long as the n-th NULL row is row n, the column has only had NULLs.
    let front = null_rows.iter().enumerate().take_while(|(row, null)| *row as u32 == **null).count();
    let (first, rest) = (keys.get(front).copied().unwrap_or_default(), &null_rows[front..]);
    keys[..front].fill(first);
    rest.iter().for_each(|row| keys[*row as usize] = keys[*row as usize - 1]);
}

impl<'a> StringColumn<'a> {
    /// Prepares `strings`. Finds the distinct values unless `forced` stores strings in the order of rows.
    pub(crate) fn new(strings: &'a ByteStrings, physical: Physical, forced: Option<EncodingRef>) -> StringColumn<'a> {
        let null_count = strings.nulls().map_or(0, |nulls| nulls.null_count());
        let planned = match forced {
            None => plan(strings),
            Some(encoding) if encoding.list_place(physical) == ListPlace::Missing => StringPlan::Rows,
            Some(_) => StringPlan::List(Dictionary::build(strings)),
        };
        let list = match planned {
            StringPlan::Rows => None,
            StringPlan::List(mut found) => {
                let codes = NewCodes::of_strings(&mut found, null_count);
                Some((found, codes))
            }
        };
        StringColumn {
            strings,
            facts: Facts::new(physical, strings.len(), null_count),
            is_forced: forced.is_some(),
            list,
        }
    }

    /// Whether the column has a value list.
    pub(super) fn has_list(&self) -> bool {
        self.list.is_some()
    }

    /// The column as strings in the order of rows.
    pub(super) fn in_row_order(self) -> Result<EncodedColumn> {
        let mut facts = self.facts;
        let nulls = self.strings.nulls();
        let valid = |row: &usize| nulls.is_none_or(|nulls| nulls.is_valid(*row));
        let values = || (0..self.strings.len()).filter(valid).map(|row| self.strings.value(row));
        facts.zone = values().min().zip(values().max()).map(|bounds| zone_of(bounds, facts.physical));
        let bytes = encode_rows(self.strings)?;
        let mut sections = vec![NewSection { kind: SectionKind::Rows, count: self.strings.len(), bytes }];
        sections.extend(nulls.map(null_section::encode));
        Ok(EncodedColumn { facts, sections })
    }

    /// The column as a list of one value, or of none.
    pub(super) fn constant(self) -> Result<EncodedColumn> {
        let (facts, found) = self.ordered();
        Ok(EncodedColumn { facts, sections: vec![list_of(&found)?] })
    }

    fn listed(self, common: u32, codes: Vec<NewSection>) -> Result<EncodedColumn> {
        let (mut facts, found) = self.ordered();
        facts.common = common;
        let counts = sequence::encode(&found.counts);
        let counts = NewSection { kind: SectionKind::Counts, count: found.counts.len(), bytes: counts };
        let mut sections = vec![list_of(&found)?, counts];
        sections.extend(codes);
        // Binary strings are rarely searched for parts, so they get no grams.
        if facts.physical == Physical::Text {
            let grams = encode_grams(&found.values);
            sections.extend(grams.map(|grams| NewSection {
                kind: SectionKind::Grams,
                count: grams.bits,
                bytes: grams.bytes,
            }));
        }
        Ok(EncodedColumn { facts, sections })
    }

    /// The distinct values, and the facts with what they say.
    fn ordered(self) -> (Facts, Dictionary<'a>) {
        let (found, _) = self.list.expect("codes belong to a list");
        let mut facts = self.facts;
        facts.distinct = Some(found.values.len());
        // The dictionary is sorted, so its ends are the bounds.
        if let [low, .., high] | [low @ high] = found.values[..] {
            facts.zone = Some(zone_of((low, high), facts.physical));
        }
        (facts, found)
    }
}

fn zone_of((low, high): (&[u8], &[u8]), physical: Physical) -> StoredZone {
    zone::of_strings(low, high, physical == Physical::Text)
}

fn list_of(found: &Dictionary<'_>) -> Result<NewSection> {
    Ok(NewSection { kind: SectionKind::Values, count: found.values.len(), bytes: encode_list(&found.values)? })
}
