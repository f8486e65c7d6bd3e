//! The three tables that the analysts' questions need in addition to the tables of TPC-C: regions, nations and
//! suppliers. They always have the same rows. We make them on first use, so that they can be added to warehouses that
//! were loaded without them.

use rowmill_base::Result;

use super::client::{Engine, Param, money};
use super::random::{ALPHANUMERIC, Random};
use super::table::{Column, Kind, Table, column};

/// The number of suppliers. The supplier of stock is a number below this.
const SUPPLIERS: i64 = 10_000;
/// The streams of suppliers must differ from the loader's streams, whose highest byte is small.
const STREAM: u64 = 1 << 63;

/// Regions.
pub static REGION: Table = Table {
    name: "region",
    columns: &[column("r_regionkey", Kind::Integer), column("r_name", Kind::Text(25))],
    key: &["r_regionkey"],
    index: None,
};

/// Nations. The key is the first character of a customer's state.
pub static NATION: Table = Table {
    name: "nation",
    columns: &[
        column("n_nationkey", Kind::Integer),
        column("n_name", Kind::Text(25)),
        column("n_regionkey", Kind::Integer),
    ],
    key: &["n_nationkey"],
    index: None,
};

const SUPPLIER_COLUMNS: &[Column] = &[
    column("su_suppkey", Kind::Integer),
    column("su_name", Kind::Text(25)),
    column("su_address", Kind::Text(40)),
    column("su_nationkey", Kind::Integer),
    column("su_phone", Kind::Text(15)),
    column("su_acctbal", Kind::Decimal(12, 2)),
    column("su_comment", Kind::Text(100)),
];

/// Suppliers.
pub static SUPPLIER: Table = Table { name: "supplier", columns: SUPPLIER_COLUMNS, key: &["su_suppkey"], index: None };

/// The names of regions, and the nations in each. There must be one nation for each character with which a state may
/// begin.
const REGIONS: [(&str, &[&str]); 5] = [
    (
        "AFRICA",
        &[
            "Algeria",
            "Angola",
            "Egypt",
            "Ethiopia",
            "Ghana",
            "Kenya",
            "Morocco",
            "Nigeria",
            "Senegal",
            "South Africa",
            "Tunisia",
            "Uganda",
        ],
    ),
    (
        "AMERICA",
        &[
            "Argentina",
            "Bolivia",
            "Brazil",
            "Canada",
            "Chile",
            "Colombia",
            "Cuba",
            "Ecuador",
            "Mexico",
            "Panama",
            "Peru",
            "United States",
            "Uruguay",
        ],
    ),
    (
        "ASIA",
        &[
            "Cambodia",
            "China",
            "India",
            "Indonesia",
            "Japan",
            "Malaysia",
            "Mongolia",
            "Nepal",
            "Pakistan",
            "Philippines",
            "South Korea",
            "Thailand",
            "Vietnam",
        ],
    ),
    (
        "EUROPE",
        &[
            "Austria",
            "Belgium",
            "Denmark",
            "Finland",
            "France",
            "Germany",
            "Greece",
            "Italy",
            "Netherlands",
            "Norway",
            "Poland",
            "Portugal",
            "Spain",
            "Sweden",
            "Switzerland",
        ],
    ),
    ("MIDDLE EAST", &["Bahrain", "Iran", "Iraq", "Israel", "Jordan", "Kuwait", "Lebanon", "Oman", "Qatar"]),
];

/// Makes the tables, unless they exist already.
pub fn load<E: Engine>(engine: &E) -> Result<()> {
    // This table is filled last, so if it is complete, the others are too.
    if engine.number("SELECT COUNT(*) FROM supplier").is_ok_and(|rows| rows == SUPPLIERS) {
        return Ok(());
    }
    for table in [&REGION, &NATION, &SUPPLIER] {
        engine.execute(&format!("{}{}", table.create(), engine.table_options(table)))?;
    }
    let of_region = (0..).zip(REGIONS);
    engine.fill(&REGION, |row| {
        of_region.clone().try_for_each(|(key, (name, _))| row(&[Param::Integer(key), name.into()]))
    })?;
    let nations = of_region.flat_map(|(region, (_, names))| names.iter().map(move |name| (region, *name)));
    engine.fill(&NATION, |row| {
        let mut keyed = ALPHANUMERIC.iter().zip(nations);
        keyed.try_for_each(|(key, (region, name))| row(&[i64::from(*key).into(), name.into(), region.into()]))
    })?;
    engine.fill(&SUPPLIER, |row| {
        (0..SUPPLIERS).try_for_each(|key| {
            let supplier = Supplier::draw(key);
            row(&[
                key.into(),
                supplier.name.as_str().into(),
                supplier.address.as_str().into(),
                supplier.nation.into(),
                supplier.phone.as_str().into(),
                money(supplier.balance),
                supplier.comment.as_str().into(),
            ])
        })
    })?;
    engine.settle()
}

struct Supplier {
    name: String,
    address: String,
    nation: i64,
    phone: String,
    balance: i64,
    comment: String,
}

impl Supplier {
    fn draw(key: i64) -> Supplier {
        let mut random = Random::new(STREAM, key as u64);
        let (mut address, mut phone, mut comment) = (String::new(), String::new(), String::new());
        random.letters(&mut address, 10, 40);
        random.digits(&mut phone, 15, 15);
        random.letters(&mut comment, 25, 60);
        if random.percent(1) {
            comment.push_str(" Customer Complaints");
        }
        let nation = ALPHANUMERIC[random.between(0, ALPHANUMERIC.len() as i64 - 1) as usize];
        let balance = random.between(-99_999, 999_999);
        Supplier { name: format!("Supplier#{key:09}"), address, nation: nation.into(), phone, balance, comment }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_nation() {
        let nations: usize = REGIONS.iter().map(|(_, nations)| nations.len()).sum();
        assert_eq!(nations, ALPHANUMERIC.len());
    }
}
