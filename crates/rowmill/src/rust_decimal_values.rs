//! Decimal numbers of the crate `rust_decimal`.

use rowmill_base::Result;

use crate::cell::CellRef;
use crate::to_param::{ParamValue, ToParam};
use crate::{Decimal, FromValue, Param};

impl FromValue<'_> for rust_decimal::Decimal {
    fn from_value(cell: CellRef<'_>) -> Result<Self> {
        let own = Decimal::from_value(cell).map_err(|_| cell.refused("rust_decimal::Decimal"))?;
        rust_decimal::Decimal::try_from_i128_with_scale(own.digits(), own.scale().into())
            .map_err(|_| cell.refused("rust_decimal::Decimal"))
    }
}

impl ToParam for rust_decimal::Decimal {
    fn to_param(&self) -> ParamValue<'_> {
        // The crate allows at most 28 digits after the point.
        Param::Decimal(self.mantissa(), self.scale() as u8).into()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rust_decimal::Decimal;

    use crate::Connection;

    #[test]
    fn decimals_go_in_and_out() {
        let mut connection = Connection::open_in_memory().unwrap();
        let price: Decimal = "-12.50".parse().unwrap();
        let row = connection.query_one("SELECT ?, 99999999999999999999999999999999999999", [price]).unwrap();
        assert_eq!(row.get::<Decimal>(0).unwrap().to_string(), "-12.50");
        assert!(row.get::<Decimal>(1).is_err());
    }
}
