//! UUIDs of the crate `uuid`.

use rowmill_base::{Result, SqlType};
use uuid::Uuid;

use crate::cell::CellRef;
use crate::functions::SqlValue;
use crate::to_param::{ParamValue, ToParam};
use crate::{FromValue, Param};

impl FromValue<'_> for Uuid {
    fn from_value(cell: CellRef<'_>) -> Result<Self> {
        let bytes = <[u8; 16]>::from_value(cell).ok().filter(|_| cell.kind() == SqlType::Uuid);
        bytes.map(Uuid::from_bytes).ok_or_else(|| cell.refused("Uuid"))
    }
}

impl ToParam for Uuid {
    fn to_param(&self) -> ParamValue<'_> {
        Param::Uuid(self.as_bytes()).into()
    }
}

impl SqlValue for Uuid {
    fn sql_type() -> SqlType {
        SqlType::Uuid
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Connection;

    #[test]
    fn uuids_go_in_and_out() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute("CREATE TABLE t (id UUID PRIMARY KEY, n INT)", ()).unwrap();
        let id = Uuid::from_u128(0x550e8400_e29b_41d4_a716_446655440000);
        let insert = connection.prepare("INSERT INTO t VALUES (?, ?)").unwrap();
        insert.execute(&mut connection, (id, 1)).unwrap();
        insert.execute(&mut connection, (Uuid::nil(), 2)).unwrap();
        let find = connection.prepare("SELECT id, CAST(id AS TEXT) FROM t WHERE id = ?").unwrap();
        for _ in 0..2 {
            let row = find.query(&mut connection, [id]).unwrap().rows().unwrap().remove(0);
            assert_eq!((row.get::<Uuid>(0).unwrap(), row.get::<Uuid>(1).is_err()), (id, true));
            assert_eq!(row.get::<String>(1).unwrap(), id.to_string());
        }
    }
}
