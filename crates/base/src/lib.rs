//! The base of all other crates: errors that a caller can act on, ids as types, the SQL types, the table of settings,
//! the broker that grants memory, the flag that cancels a statement, exact averages that all engines share, lists that
//! keep their memory, and the count of allocations, if there is one.
//!
//! - `error`, `cancel`: what ends a statement early.
//! - `ids`, `sql_type`, `length_unit`, `durability`, `isolation`: types that all crates share.
//! - `settings`, `suggest`: the table of settings, and the name that a wrong one may mean.
//! - `broker`, `memory_account`, `memory_holders`: grants of memory, the limits, and the bytes by holder. `disk_quota`:
//!   the space of temporary files. `limited_bytes`: the count below both. [`allocations`]: the allocator, if it counts.
//! - [`quotient`], `recycled`: exact averages, and lists that keep their memory.

pub mod allocations;
mod broker;
mod cancel;
mod disk_quota;
mod durability;
mod error;
mod ids;
mod isolation;
mod length_unit;
mod limited_bytes;
mod memory_account;
mod memory_holders;
pub mod quotient;
mod recycled;
mod settings;
mod sql_type;
mod suggest;

pub use broker::{Broker, Meter, Reservation, SpillableMemory, StepMemory};
pub use cancel::Cancel;
pub use disk_quota::{DiskCharge, DiskQuota};
pub use durability::Durability;
pub use error::{BrokenRule, DamagePlace, Error, ErrorKind, Result, TextPosition};
pub use ids::{BlockId, ColumnId, CommitId, IndexId, RoleId, RowNumber, SchemaId, TableId, ViewId};
pub use isolation::Isolation;
pub use length_unit::LengthUnit;
pub use memory_holders::HeldMemory;
pub use recycled::recycled;
pub use settings::{SETTINGS, Setting, SettingKind, SettingScope, SettingValue, Settings, parse_bytes};
pub use sql_type::{
    EXTENSION_NAME_KEY, EnumLabel, EnumLabels, JSON_EXTENSION, NARROW_DIGITS_MAX, NUMBERED_TYPES, NumberedNative,
    NumberedTexts, NumberedType, PLAIN_TYPES, Physical, PlainType, SqlType, TimeUnit, UnsignedNumber, WIDE_DIGITS_MAX,
    decimal_arrow, is_json, is_json_field, json_arrow, map_arrow, map_entry_arrow, map_entry_kinds, map_kinds,
    with_arrow_maps,
};
pub use suggest::nearest;
