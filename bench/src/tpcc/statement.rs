//! The statements of the transactions. Each is a read by key, a range of an index, an aggregate over such a range, or a
//! change by key. Their texts are the same for every engine. A client prepares all of them before it starts.

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $text:expr;)*) => {
        /// A statement by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Sql { $($(#[$doc])* $name,)* }

        impl Sql {
            /// All statements, in the order of their numbers.
            pub const ALL: &[Sql] = &[$(Sql::$name),*];

            /// The text, with a `?` for each parameter.
            pub fn text(self) -> &'static str {
                match self { $(Sql::$name => $text,)* }
            }
        }
    };
}

/// The stock of an item, with the text of one district. Each district needs a statement of its own, because a column
/// cannot be a parameter.
macro_rules! stock_of_district {
    ($district:literal) => {
        concat!("SELECT s_quantity, s_data, s_dist_", $district, " FROM stock WHERE s_w_id = ? AND s_i_id = ?")
    };
}

statements! {
    /// The tax of a warehouse.
    WarehouseTax = "SELECT w_tax FROM warehouse WHERE w_id = ?";
    /// The tax and the next order of a district.
    DistrictTax = "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?";
    /// Takes the next order's number.
    DistrictNextOrder = "UPDATE district SET d_next_o_id = ? WHERE d_w_id = ? AND d_id = ?";
    /// The discount, last name and credit of a customer.
    CustomerDiscount =
        "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    /// A new order. Its carrier is not known yet.
    InsertOrder = "INSERT INTO orders VALUES (?, ?, ?, ?, ?, NULL, ?, ?)";
    /// The order's entry among the orders to be delivered.
    InsertNewOrder = "INSERT INTO new_order VALUES (?, ?, ?)";
    /// An item.
    Item = "SELECT i_price, i_name, i_data FROM item WHERE i_id = ?";
    /// Stock with the text of district 1.
    Stock01 = stock_of_district!("01");
    /// Stock with the text of district 2.
    Stock02 = stock_of_district!("02");
    /// Stock with the text of district 3.
    Stock03 = stock_of_district!("03");
    /// Stock with the text of district 4.
    Stock04 = stock_of_district!("04");
    /// Stock with the text of district 5.
    Stock05 = stock_of_district!("05");
    /// Stock with the text of district 6.
    Stock06 = stock_of_district!("06");
    /// Stock with the text of district 7.
    Stock07 = stock_of_district!("07");
    /// Stock with the text of district 8.
    Stock08 = stock_of_district!("08");
    /// Stock with the text of district 9.
    Stock09 = stock_of_district!("09");
    /// Stock with the text of district 10.
    Stock10 = stock_of_district!("10");
    /// Updates the stock for an order line.
    UpdateStock = "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, \
                   s_remote_cnt = s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?";
    /// An order line that is not delivered yet.
    InsertOrderLine = "INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)";

    /// Adds a payment to the warehouse.
    PayWarehouse = "UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?";
    /// The address of a warehouse.
    WarehouseAddress =
        "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = ?";
    /// Adds a payment to the district.
    PayDistrict = "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?";
    /// The address of a district.
    DistrictAddress = "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district \
                       WHERE d_w_id = ? AND d_id = ?";
    /// Customers of one last name, by first name.
    CustomersByName = "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first";
    /// The columns of a customer that Payment shows.
    Customer = "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, \
                c_credit, c_credit_lim, c_discount, c_balance FROM customer \
                WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    /// The notes on a customer with bad credit.
    CustomerData = "SELECT c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    /// Books the payment of a customer.
    PayCustomer = "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, \
                   c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    /// Books the payment of a customer with bad credit.
    PayCustomerWithData = "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, \
                           c_payment_cnt = c_payment_cnt + 1, c_data = ? \
                           WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    /// A payment.
    InsertHistory = "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?)";

    /// The columns of a customer that Order-Status shows.
    CustomerBalance =
        "SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    /// A customer's last order.
    LastOrder = "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? \
                 ORDER BY o_id DESC LIMIT 1";
    /// The lines of an order.
    OrderLines = "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
                  WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?";

    /// The oldest undelivered order of a district.
    OldestNewOrder = "SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ? ORDER BY no_o_id LIMIT 1";
    /// Removes a delivered order from the orders to be delivered.
    DeleteNewOrder = "DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?";
    /// The customer of an order.
    OrderCustomer = "SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?";
    /// Sets the carrier of an order.
    SetCarrier = "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?";
    /// Sets the delivery time of an order's lines.
    SetDelivered = "UPDATE order_line SET ol_delivery_d = ? WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?";
    /// The amount of an order.
    OrderAmount = "SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?";
    /// Charges the amount to the order's customer.
    ChargeCustomer = "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1 \
                      WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";

    /// The next order of a district.
    NextOrder = "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?";
    /// The number of items of the last orders whose stock is low.
    ShortItems = "SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id \
                  WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id >= ? AND ol_o_id < ? AND s_quantity < ?";
}

impl Sql {
    /// Returns the statement that reads stock with the text of a district from 1 to 10.
    pub fn stock_of_district(district: i64) -> Sql {
        const FIRST: usize = Sql::Stock01 as usize;
        Sql::ALL[FIRST + district as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_statement_is_its_index_in_the_list() {
        assert!(Sql::ALL.iter().enumerate().all(|(at, sql)| *sql as usize == at));
        assert_eq!(Sql::stock_of_district(1), Sql::Stock01);
        assert_eq!(Sql::stock_of_district(10), Sql::Stock10);
        assert!(Sql::Stock10.text().contains("s_dist_10 FROM"));
    }
}
