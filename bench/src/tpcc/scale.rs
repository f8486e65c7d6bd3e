//! The cardinalities of the tables.

/// The districts of a warehouse, at any scale, because stock has a text for each of them.
pub const DISTRICTS: i64 = 10;

/// The cardinalities per warehouse. Only [`Scale::FULL`] is TPC-C; smaller scales are for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Items, and rows of stock in a warehouse.
    pub items: i64,
    /// Customers of a district. Each has ordered once.
    pub customers: i64,
    /// Orders of a district that are not delivered yet. They are its last ones.
    pub new_orders: i64,
}

impl Scale {
    /// The scale that clause 4.3.3.1 requires.
    pub const FULL: Scale = Scale { items: 100_000, customers: 3_000, new_orders: 900 };
    /// A scale that loads in a moment.
    pub const TINY: Scale = Scale { items: 200, customers: 30, new_orders: 9 };

    /// The number of last names in use: all thousand, or the number of customers in a district if that is smaller.
    pub fn last_names(&self) -> i64 {
        self.customers.min(1_000)
    }

    /// The number of delivered orders of a district when the run begins.
    pub fn delivered(&self) -> i64 {
        self.customers - self.new_orders
    }

    /// The rows of all tables except order lines, which have ten rows per order on average.
    pub fn rows(&self, warehouses: i64) -> i64 {
        let of_district = 1 + 3 * self.customers + self.new_orders;
        self.items + warehouses * (1 + self.items + DISTRICTS * of_district)
    }
}
