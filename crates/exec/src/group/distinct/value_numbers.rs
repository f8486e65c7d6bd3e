//! Numbers for the values of one range: equal values get equal numbers.
//!
//! The bits of a short value are its number. Longer values and texts are looked up in a hash table that fits a cache,
//! because a range has few of them. Each is hashed once per block and not once per row.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use rowmill_base::{Broker, Result};
use rowmill_plan::{Expr, GroupKey};

use crate::cache::ROWS_PARTITIONED_AT_ONCE;
use crate::group::OWNER;
use crate::group::bits::{Bits, bits_of, width_of};
use crate::group::key_values::KeyValues;
use crate::group::layout::GroupLayout;
use crate::group::rows::PartValues;
use crate::group::table::GroupTable;
use crate::group::texts::TextStore;

/// Gives numbers to the values of one range after the other.
pub(super) enum ValueNumbers {
    Bits,
    /// Values get numbers in the order in which they are met.
    Met(Box<MetValues>),
}

/// The values that were met in a range.
pub(super) struct MetValues {
    layout: GroupLayout,
    table: GroupTable,
    texts: TextStore,
    rows: Vec<u64>,
    numbers: Vec<u32>,
    broker: Broker,
}

impl ValueNumbers {
    /// Prepares for values of `kind`. Takes memory from `broker`.
    pub(super) fn new(kind: &DataType, broker: &Broker) -> Result<ValueNumbers> {
        if width_of(kind).is_some_and(|width| width <= u64::BITS) {
            return Ok(ValueNumbers::Bits);
        }
        let key = GroupKey { expr: Expr::Column(0), kind: kind.clone(), nullable: false };
        Ok(ValueNumbers::Met(Box::new(MetValues {
            layout: GroupLayout::new(&[key], |_| &[], 0)?,
            table: GroupTable::new(broker.reservation(OWNER)),
            texts: TextStore::new(broker.reservation(OWNER)),
            rows: Vec::new(),
            numbers: Vec::new(),
            broker: broker.clone(),
        })))
    }

    /// Forgets all values.
    pub(super) fn begin(&mut self) {
        if let ValueNumbers::Met(met) = self {
            met.table.clear();
            met.texts = TextStore::new(met.broker.reservation(OWNER));
        }
    }

    /// The number of values that were met since the beginning of the range, if numbers are below it.
    pub(super) fn met(&self) -> Option<usize> {
        match self {
            ValueNumbers::Bits => None,
            ValueNumbers::Met(met) => Some(met.table.len()),
        }
    }

    /// Replaces `numbers` by the numbers of values, none of them NULL.
    pub(super) fn number(&mut self, values: ArrayRef, numbers: &mut Vec<u64>) -> Result<()> {
        numbers.clear();
        match self {
            ValueNumbers::Bits => match bits_of(&values)? {
                Bits::Narrow { numbers: bits, .. } => numbers.extend_from_slice(&bits),
                Bits::Wide(_) => return Err(rowmill_base::Error::internal("a short value has 128 bits")),
            },
            ValueNumbers::Met(met) => {
                met.find(values)?;
                numbers.extend(met.numbers.iter().map(|number| u64::from(*number)));
            }
        }
        Ok(())
    }
}

impl MetValues {
    fn find(&mut self, values: ArrayRef) -> Result<()> {
        self.numbers.clear();
        let count = values.len();
        let values = PartValues { values, codes: None, is_list: true };
        let mut keys = KeyValues::new(&self.layout, &[values], count)?;
        keys.adopt(0..count, &mut self.texts)?;
        for start in (0..count).step_by(ROWS_PARTITIONED_AT_ONCE) {
            let places = start..(start + ROWS_PARTITIONED_AT_ONCE).min(count);
            self.rows.clear();
            self.rows.resize(places.len() * self.layout.stride, 0);
            keys.write(places, &mut self.rows);
            self.table.find(&self.layout, &self.rows, &keys, &mut self.texts, &mut self.numbers)?;
        }
        Ok(())
    }
}
