//! The encoding of roles and of the rights on objects. The byte tables are in `docs/file-format.md`, "Ordered base".

use std::collections::{BTreeMap, BTreeSet};

use rowmill_base::{ColumnId, Result, RoleId};

use crate::codec::{RecordReader, Writer};
use crate::roles::{GrantedRights, ObjectAccess, ObjectId, Rights, RoleDef, TokenDef};

const CAN_LOGIN: u8 = 1;
const IS_SUPERUSER: u8 = 2;

pub(crate) fn encode_role(role: &RoleDef) -> Vec<u8> {
    let RoleDef { id: _, name, can_login, is_superuser, verifier, valid_until_us, member_of, tokens } = role;
    let mut out = Writer::new();
    out.text(name);
    out.u8((u8::from(*can_login) * CAN_LOGIN) | (u8::from(*is_superuser) * IS_SUPERUSER));
    out.option(verifier.as_deref(), |out, verifier| {
        out.text(verifier);
    });
    write_time(&mut out, *valid_until_us);
    out.u32(member_of.len() as u32);
    member_of.iter().for_each(|role| {
        out.u32(role.0);
    });
    out.u32(tokens.len() as u32);
    for (name, token) in tokens {
        out.text(name).bytes(&token.hash);
        write_time(&mut out, token.valid_until_us);
    }
    out.finish()
}

fn write_time(out: &mut Writer, time_us: Option<i64>) {
    out.option(time_us, |out, time| {
        out.u64(time.cast_unsigned());
    });
}

fn read_time(input: &mut RecordReader<'_>) -> Result<Option<i64>> {
    input.option(|input| Ok(input.u64()?.cast_signed()))
}

pub(crate) fn decode_role(id: RoleId, bytes: &[u8]) -> Result<RoleDef> {
    let mut input = RecordReader::new(bytes, "the definition of a role");
    let name = input.text()?;
    let flags = input.u8()?;
    if flags & !(CAN_LOGIN | IS_SUPERUSER) != 0 {
        return Err(input.damaged("an unknown property"));
    }
    let verifier = input.option(RecordReader::text)?;
    let valid_until_us = read_time(&mut input)?;
    let mut member_of = BTreeSet::new();
    for _ in 0..input.count(4)? {
        if !member_of.insert(RoleId(input.u32()?)) {
            return Err(input.damaged("a role that is listed twice"));
        }
    }
    let mut tokens = BTreeMap::new();
    for _ in 0..input.count(37)? {
        let name = input.text()?;
        let hash = input.bytes()?.try_into().map_err(|_| input.damaged("a hash without 32 bytes"))?;
        let token = TokenDef { hash, valid_until_us: read_time(&mut input)? };
        if tokens.insert(name, token).is_some() {
            return Err(input.damaged("a token that is listed twice"));
        }
    }
    input.end()?;
    let (can_login, is_superuser) = (flags & CAN_LOGIN != 0, flags & IS_SUPERUSER != 0);
    Ok(RoleDef { id, name, can_login, is_superuser, verifier, valid_until_us, member_of, tokens })
}

pub(crate) fn encode_access(access: &ObjectAccess) -> Vec<u8> {
    let mut out = Writer::new();
    out.option(access.owner, |out, owner| {
        out.u32(owner.0);
    });
    out.u32(access.grants.len() as u32);
    for (role, GrantedRights { whole, columns }) in &access.grants {
        out.u32(role.0).u32(whole.bits()).u32(columns.len() as u32);
        for (column, rights) in columns {
            out.u32(column.0).u32(rights.bits());
        }
    }
    out.finish()
}

/// Decodes the result of [`encode_access`]. `number` is that of the object.
pub(crate) fn decode_access(number: u32, bytes: &[u8]) -> Result<ObjectAccess> {
    let mut input = RecordReader::new(bytes, "the rights of an object");
    let object = ObjectId::of_number(number).ok_or_else(|| input.damaged("an unknown kind of object"))?;
    let owner = input.option(|input| Ok(RoleId(input.u32()?)))?;
    let mut grants = BTreeMap::new();
    for _ in 0..input.count(12)? {
        let role = RoleId(input.u32()?);
        let whole = read_rights(&mut input)?;
        let mut columns = BTreeMap::new();
        for _ in 0..input.count(8)? {
            let column = ColumnId(input.u32()?);
            if columns.insert(column, read_rights(&mut input)?).is_some() {
                return Err(input.damaged("a column that is listed twice"));
            }
        }
        if grants.insert(role, GrantedRights { whole, columns }).is_some() {
            return Err(input.damaged("a role that is listed twice"));
        }
    }
    input.end()?;
    Ok(ObjectAccess { object, owner, grants })
}

fn read_rights(input: &mut RecordReader<'_>) -> Result<Rights> {
    let bits = input.u32()?;
    Rights::of_bits(bits).ok_or_else(|| input.damaged("an unknown right"))
}

#[cfg(test)]
mod tests {
    use rowmill_base::TableId;

    use super::*;

    fn role() -> RoleDef {
        RoleDef {
            id: RoleId(9),
            name: "Clerk".into(),
            can_login: true,
            is_superuser: false,
            verifier: Some("SCRAM-SHA-256$4096:c2FsdA==$a$b".into()),
            valid_until_us: Some(-3),
            member_of: BTreeSet::from([RoleId(1), RoleId(4)]),
            tokens: BTreeMap::from([("ci".into(), TokenDef { hash: [7; 32], valid_until_us: None })]),
        }
    }

    fn access() -> ObjectAccess {
        let mut access = ObjectAccess::none(ObjectId::Table(TableId(3)));
        access.owner = Some(RoleId(9));
        access.grant(RoleId(1), Rights::SELECT, &[ColumnId(0), ColumnId(2)]);
        access.grant(RoleId(4), Rights::OF_TABLE, &[]);
        access
    }

    #[test]
    fn definitions_round_trip() {
        assert_eq!(decode_role(RoleId(9), &encode_role(&role())).expect("read"), role());
        let number = access().object.number().expect("a small id");
        assert_eq!(decode_access(number, &encode_access(&access())).expect("read"), access());
    }

    #[test]
    fn damaged_bytes_are_errors_or_other_definitions_but_never_a_panic() {
        for (good, decode) in [
            (encode_role(&role()), (|bytes| decode_role(RoleId(1), bytes).is_ok()) as fn(&[u8]) -> bool),
            (encode_access(&access()), |bytes| decode_access(4, bytes).is_ok()),
        ] {
            assert!((0..good.len()).all(|cut| !decode(&good[..cut])));
            for at in 0..good.len() {
                for flip in [0xff, 1, 0x80] {
                    let mut damaged = good.clone();
                    damaged[at] ^= flip;
                    decode(&damaged);
                }
            }
        }
        assert!(decode_access(3, &encode_access(&access())).is_err());
    }
}
