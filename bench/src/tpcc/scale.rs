//! How many rows the tables get.

/// Districts of a warehouse at any scale: stock has a text for each.
pub const DISTRICTS: i64 = 10;

/// The cardinalities that a warehouse multiplies. Only [`Scale::FULL`] is TPC-C; smaller ones are for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Items, and rows of stock in a warehouse.
    pub items: i64,
    /// Customers of a district, each of which has ordered once.
    pub customers: i64,
    /// Orders of a district that are not delivered yet: its last ones.
    pub new_orders: i64,
}

impl Scale {
    /// What clause 4.3.3.1 asks for.
    pub const FULL: Scale = Scale { items: 100_000, customers: 3_000, new_orders: 900 };
    /// Loaded in a moment.
    pub const TINY: Scale = Scale { items: 200, customers: 30, new_orders: 9 };

    /// Last names in use: all thousand, or as many as there are customers in a district.
    pub fn last_names(&self) -> i64 {
        self.customers.min(1_000)
    }

    /// Orders of a district that are delivered when the run begins.
    pub fn delivered(&self) -> i64 {
        self.customers - self.new_orders
    }

    /// Rows of all tables, but for order lines, of which there are ten an order on average.
    pub fn rows(&self, warehouses: i64) -> i64 {
        let of_district = 1 + 3 * self.customers + self.new_orders;
        self.items + warehouses * (1 + self.items + DISTRICTS * of_district)
    }
}
