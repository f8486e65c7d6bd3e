//! ENUM: types whose values are the labels that a statement lists, in their order.
//!
//! A label has a rank, and arrays and files hold the rank. Ranks ascend in the order of the labels, so values compare
//! as numbers. Between the ranks of neighbours is a gap of 2^32, so that a label added later gets a rank between two
//! others and no stored value changes. A label keeps its rank when it is renamed.
//!
//! A type is immutable. The process keeps each list of labels that it has seen and gives it a number, and the Arrow
//! type of the values names the number: see [`EnumLabels::arrow`]. A changed type is another list with another number.
//! Files never hold these numbers. They hold the list itself.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::sync::{LazyLock, RwLock};

use arrow_schema::DataType;

use super::{DIGITS, NumberedTexts, NumberedType, SIGN, UnsignedNumber};
use crate::{Error, ErrorKind, Result, SqlType};

/// The longest label in bytes.
const LABEL_BYTES_MAX: usize = 255;

/// The most labels of one type.
const LABELS_MAX: usize = 1 << 16;

/// The distance between the ranks of neighbours in a new type.
const RANK_GAP: u64 = 1 << 32;

/// The types with one number of digits. A scale tells them apart.
const TYPES_PER_DIGITS: usize = 128;

/// The most lists of labels that one process can have seen: every number of digits above those of the other numbered
/// types, with every negative scale.
const TYPES_MAX: usize = (u8::MAX - DIGITS) as usize * TYPES_PER_DIGITS;

/// The most labels that a hint lists.
const HINTED_MAX: usize = 20;

/// A label of an ENUM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EnumLabel {
    /// Its place in the order: labels with higher ranks are greater.
    pub rank: u64,
    /// Its text.
    pub text: String,
}

/// The labels of an ENUM and its place in the catalog.
pub struct EnumLabels {
    number: u16,
    id: u32,
    name: String,
    labels: Vec<EnumLabel>,
    places: HashMap<String, usize>,
}

/// What makes two types the same.
type Identity = (u32, String, Vec<EnumLabel>);

/// The types that this process has seen. They stay for its life, because Arrow types name them by number.
#[derive(Default)]
struct KnownTypes {
    types: Vec<&'static NumberedType>,
    numbers: HashMap<Identity, usize>,
}

static KNOWN: LazyLock<RwLock<KnownTypes>> = LazyLock::new(RwLock::default);

impl EnumLabels {
    /// The ENUM with these labels in ascending order. `id` is its number in the catalog, and 0 if it has none.
    ///
    /// Returns `InvalidDefinition` if a label occurs twice or is too long, or if the process has seen
    /// too many types.
    pub fn sql_type(id: u32, name: &str, labels: Vec<EnumLabel>) -> Result<SqlType> {
        let identity = (id, name.to_owned(), labels);
        if let Some(number) = read_known().numbers.get(&identity) {
            return Ok(SqlType::Numbered(read_known().types[*number]));
        }
        check(&identity.2)?;
        let mut known = KNOWN.write().expect("no holder of this lock panics");
        if let Some(number) = known.numbers.get(&identity) {
            return Ok(SqlType::Numbered(known.types[*number]));
        }
        let number = known.types.len();
        if number == TYPES_MAX {
            let message =
                format!("the process has seen {TYPES_MAX} different ENUM types, and there is no room for more");
            return Err(Error::new(ErrorKind::InvalidDefinition, message)
                .hint("CREATE TYPE makes one that all statements share"));
        }
        let made = new_type(number, &identity);
        known.types.push(made);
        known.numbers.insert(identity, number);
        Ok(SqlType::Numbered(made))
    }

    /// The ENUM of labels that a statement lists without a type of the catalog.
    pub fn unnamed(texts: Vec<String>) -> Result<SqlType> {
        let mut name = String::from("ENUM(");
        for (place, text) in texts.iter().enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            write!(name, "{comma}'{}'", text.replace('\'', "''")).expect("a String takes every text");
        }
        name.push(')');
        EnumLabels::sql_type(0, &name, EnumLabels::ranked(texts))
    }

    /// Gives new labels ranks in this order.
    pub fn ranked(texts: Vec<String>) -> Vec<EnumLabel> {
        let ranks = (1..).map(|place| place * RANK_GAP);
        ranks.zip(texts).map(|(rank, text)| EnumLabel { rank, text }).collect()
    }

    /// The labels with one more before the label at `place`, or after all of them.
    ///
    /// Returns `InvalidDefinition` if there is no rank between the neighbours, which takes 32 labels added at one
    /// place.
    pub fn with_label(&self, place: usize, text: &str) -> Result<Vec<EnumLabel>> {
        let below = place.checked_sub(1).map_or(0, |place| self.labels[place].rank);
        let above = self.labels.get(place).map_or(below + 2 * RANK_GAP, |label| label.rank);
        let rank = below + (above - below) / 2;
        if rank == below {
            let message = format!("the type {} has no room for another label at this place", self.name);
            return Err(Error::new(ErrorKind::InvalidDefinition, message)
                .hint("make another type and change the columns with ALTER TABLE ... ALTER COLUMN ... TYPE"));
        }
        let mut labels = self.labels.clone();
        labels.insert(place, EnumLabel { rank, text: text.to_owned() });
        Ok(labels)
    }

    /// The number of this list of labels in this process.
    #[inline]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The number of the type in the catalog, 0 if it has none.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The name as spelled.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The labels in order.
    pub fn labels(&self) -> &[EnumLabel] {
        &self.labels
    }

    /// The place of a label, from 0.
    pub fn place(&self, text: &str) -> Option<usize> {
        self.places.get(text).copied()
    }

    /// The place of the label with this rank, from 0.
    fn place_of_rank(&self, rank: u64) -> Option<usize> {
        self.labels.binary_search_by_key(&rank, |label| label.rank).ok()
    }

    /// The value of the label at `place`, as arrays hold it.
    pub fn native(&self, place: usize) -> i128 {
        self.labels[place].rank.into()
    }

    /// The place of the label that arrays hold as `native`, from 0.
    pub fn place_of_native(&self, native: i128) -> Option<usize> {
        self.place_of_rank(u64::try_from(native).ok()?)
    }

    /// The Arrow type that carries the values: the number of this list as digits, above those of the other numbered
    /// types, and as a negative scale.
    pub fn arrow(&self) -> DataType {
        let (digits, scale) =
            (usize::from(self.number) / TYPES_PER_DIGITS, usize::from(self.number) % TYPES_PER_DIGITS);
        DataType::Decimal128(DIGITS + 1 + digits as u8, -(scale as i16 + 1) as i8)
    }

    /// The type whose values a decimal type carries.
    pub(super) fn type_of_arrow(digits: u8, scale: i8) -> Option<&'static NumberedType> {
        let digits = usize::from(digits.checked_sub(DIGITS + 1)?);
        let number = digits * TYPES_PER_DIGITS + usize::from(scale.unsigned_abs()) - 1;
        read_known().types.get(number).copied()
    }

    pub(super) fn read(&self, text: &str) -> Option<UnsignedNumber> {
        // Arrays hold numbers with the highest bit flipped, so that they hold the rank itself.
        self.place(text).map(|place| (SIGN | u128::from(self.labels[place].rank)).into())
    }

    pub(super) fn write(&self, number: UnsignedNumber, out: &mut String) {
        let label = self.place_of_rank(number.low as u64).map(|place| &self.labels[place]);
        out.push_str(&label.expect("arrays of an ENUM hold ranks of its labels").text);
    }
}

fn read_known() -> std::sync::RwLockReadGuard<'static, KnownTypes> {
    KNOWN.read().expect("no holder of this lock panics")
}

fn check(labels: &[EnumLabel]) -> Result<()> {
    let invalid = |message: String| Err(Error::new(ErrorKind::InvalidDefinition, message));
    if labels.len() > LABELS_MAX {
        return invalid(format!("an ENUM has at most {LABELS_MAX} labels, not {}", labels.len()));
    }
    let mut texts = HashSet::new();
    for (place, label) in labels.iter().enumerate() {
        if label.text.len() > LABEL_BYTES_MAX {
            let bytes = label.text.len();
            return invalid(format!("a label of an ENUM has at most {LABEL_BYTES_MAX} bytes, not {bytes}"));
        }
        if !texts.insert(&label.text) {
            return invalid(format!("the ENUM has the label '{}' twice", label.text));
        }
        if place > 0 && labels[place - 1].rank >= label.rank {
            return Err(Error::internal("the labels of an ENUM must be in the order of their ranks"));
        }
    }
    Ok(())
}

fn new_type(number: usize, (id, name, labels): &Identity) -> &'static NumberedType {
    let places = labels.iter().enumerate().map(|(place, label)| (label.text.clone(), place)).collect();
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    let shown = match *id == 0 || is_word {
        true => name.clone(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    };
    let listed: Vec<String> = labels.iter().take(HINTED_MAX).map(|label| format!("'{}'", label.text)).collect();
    let more = if labels.len() > HINTED_MAX { ", ..." } else { "" };
    let hint = match labels.is_empty() {
        true => "the type has no labels: ALTER TYPE ... ADD VALUE adds one".to_owned(),
        false => format!("its labels are {}{more}", listed.join(", ")),
    };
    let own = EnumLabels { number: number as u16, id: *id, name: name.clone(), labels: labels.clone(), places };
    Box::leak(Box::new(NumberedType {
        code: 0,
        name: shown.leak(),
        aliases: &[],
        bytes: 16,
        texts: NumberedTexts::Labels(Box::leak(Box::new(own))),
        hint: hint.leak(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels_of(kind: &SqlType) -> &'static EnumLabels {
        let SqlType::Numbered(kind) = kind else { panic!("{kind} is no ENUM") };
        kind.labels().expect("an ENUM")
    }

    fn texts(labels: &[EnumLabel]) -> Vec<&str> {
        labels.iter().map(|label| label.text.as_str()).collect()
    }

    #[test]
    fn equal_lists_are_one_type_and_arrow_names_it() {
        let make = || EnumLabels::unnamed(vec!["low".into(), "hi'gh".into()]).expect("an ENUM");
        let kind = make();
        assert_eq!(kind, make());
        assert_eq!(kind.to_string(), "ENUM('low', 'hi''gh')");
        assert_eq!(SqlType::from_arrow(&kind.arrow()), Some(kind.clone()));
        let other = EnumLabels::unnamed(vec!["hi'gh".into(), "low".into()]).expect("an ENUM");
        assert_ne!(kind, other);
        assert_ne!(kind.arrow(), other.arrow());
    }

    #[test]
    fn labels_are_read_and_written_in_their_order() {
        let SqlType::Numbered(kind) = EnumLabels::unnamed(vec!["z".into(), "a".into()]).expect("an ENUM") else {
            panic!("an ENUM is a numbered type");
        };
        let native = |text: &str| kind.read(text).map(|number| NumberedType::native(number.low));
        assert!(native("z") < native("a"));
        assert_eq!(native("b"), None);
        let mut out = String::new();
        kind.write(kind.read("a").expect("a label"), &mut out);
        assert_eq!(out, "a");
    }

    #[test]
    fn labels_are_added_anywhere_until_there_is_no_room() {
        let mut labels = labels_of(&EnumLabels::unnamed(vec!["b".into()]).expect("an ENUM"));
        let add = |labels: &EnumLabels, place, text: &str| {
            Ok::<_, Error>(labels_of(&EnumLabels::sql_type(7, "t", labels.with_label(place, text)?)?))
        };
        for (place, text) in [(0, "a"), (2, "d"), (2, "c")] {
            labels = add(labels, place, text).expect("room");
        }
        assert_eq!(texts(labels.labels()), ["a", "b", "c", "d"]);
        let refused = (0..40).find_map(|number| match add(labels, 1, &number.to_string()) {
            Ok(more) => {
                labels = more;
                None
            }
            Err(error) => Some((number, error.kind())),
        });
        assert!(matches!(refused, Some((25.., ErrorKind::InvalidDefinition))), "{refused:?}");
    }

    #[test]
    fn wrong_lists_are_refused() {
        let kind = |texts: &[&str]| EnumLabels::unnamed(texts.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(kind(&["a", "a"]).unwrap_err().kind(), ErrorKind::InvalidDefinition);
        assert_eq!(kind(&[&"x".repeat(256)]).unwrap_err().kind(), ErrorKind::InvalidDefinition);
    }
}
