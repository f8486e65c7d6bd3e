//! Statements about roles and rights.
//!
//! ```text
//! CREATE {ROLE | USER} [IF NOT EXISTS] name [WITH] option ...      ALTER {ROLE | USER} name [WITH] option ...
//! ALTER {ROLE | USER} name RENAME TO name                          DROP {ROLE | USER} [IF EXISTS] name, ...
//! CREATE TOKEN name FOR role [VALID UNTIL 'time']                  DROP TOKEN [IF EXISTS] name FOR role
//! GRANT right [(column, ...)], ... ON object TO role, ...          REVOKE ... ON object FROM role, ...
//! GRANT role, ... TO role, ...                                     REVOKE role, ... FROM role, ...
//! ALTER {TABLE | VIEW | MATERIALIZED VIEW | SEQUENCE | SCHEMA} name OWNER TO role
//! ```

use rowmill_txn::roles::Rights;
use sqlparser::ast::{Ident, ObjectName};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::is_word;
use super::time_table::parse_word;

/// A statement about roles and rights.
#[derive(Clone, Debug)]
pub(crate) enum AccessStatement {
    /// `CREATE ROLE`
    CreateRole { name: Ident, if_not_exists: bool, options: RoleOptions },
    /// `ALTER ROLE`
    AlterRole { name: Ident, options: RoleOptions },
    /// `ALTER ROLE ... RENAME TO`
    RenameRole { name: Ident, to: Ident },
    /// `DROP ROLE`
    DropRole { names: Vec<Ident>, if_exists: bool },
    /// `CREATE TOKEN`
    CreateToken { name: Ident, role: Ident, valid_until: Option<String> },
    /// `DROP TOKEN`
    DropToken { name: Ident, role: Ident, if_exists: bool },
    /// `GRANT` and `REVOKE` of rights
    Grant(RightsStatement),
    /// `GRANT` and `REVOKE` of memberships
    GrantRole { is_revoke: bool, roles: Vec<Ident>, members: Vec<Ident> },
    /// `ALTER ... OWNER TO`
    SetOwner { is_schema: bool, name: ObjectName, role: Ident },
}

impl AccessStatement {
    /// The name of the statement, as drivers show it.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            AccessStatement::CreateRole { .. } => "CREATE ROLE",
            AccessStatement::AlterRole { .. } | AccessStatement::RenameRole { .. } => "ALTER ROLE",
            AccessStatement::DropRole { .. } => "DROP ROLE",
            AccessStatement::CreateToken { .. } => "CREATE TOKEN",
            AccessStatement::DropToken { .. } => "DROP TOKEN",
            AccessStatement::Grant(RightsStatement { is_revoke: false, .. })
            | AccessStatement::GrantRole { is_revoke: false, .. } => "GRANT",
            AccessStatement::Grant(_) | AccessStatement::GrantRole { .. } => "REVOKE",
            AccessStatement::SetOwner { .. } => "ALTER OWNER",
        }
    }
}

/// The properties of a role that a statement names.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoleOptions {
    pub(crate) can_login: Option<bool>,
    pub(crate) is_superuser: Option<bool>,
    /// `Some(None)` for `PASSWORD NULL`.
    pub(crate) password: Option<Option<String>>,
    pub(crate) valid_until: Option<String>,
    pub(crate) in_roles: Vec<Ident>,
}

/// `GRANT` and `REVOKE` of rights.
#[derive(Clone, Debug)]
pub(crate) struct RightsStatement {
    pub(crate) is_revoke: bool,
    pub(crate) rights: GrantedList,
    pub(crate) object: GrantObject,
    pub(crate) grantees: Vec<Ident>,
}

/// The rights that a statement names.
#[derive(Clone, Debug)]
pub(crate) enum GrantedList {
    /// `ALL [PRIVILEGES]`
    All,
    /// Rights, each on these columns, or on the whole object if there are none.
    Some(Vec<(Rights, Vec<Ident>)>),
}

/// The objects that a statement gives rights on.
#[derive(Clone, Debug)]
pub(crate) enum GrantObject {
    Tables(Vec<ObjectName>),
    Sequences(Vec<ObjectName>),
    Schemas(Vec<ObjectName>),
    AllTablesIn(Vec<ObjectName>),
    AllSequencesIn(Vec<ObjectName>),
}

/// Reads the statement if it is one of those above.
pub(super) fn parse_access(parser: &mut Parser<'_>) -> Result<Option<AccessStatement>, ParserError> {
    let is = |at: usize, words: &[&str]| {
        let token = &parser.peek_nth_token_ref(at).token;
        words.iter().any(|wanted| matches!(token, Token::Word(word) if is_word(word, wanted)))
    };
    if is(0, &["grant", "revoke"]) {
        return parse_grant(parser).map(Some);
    }
    let (is_role, is_token) = (is(1, &["role", "user"]), is(1, &["token"]));
    if is(0, &["create"]) && is_role {
        return create_role(parser).map(Some);
    }
    if is(0, &["alter"]) && is_role {
        return alter_role(parser).map(Some);
    }
    if is(0, &["create"]) && is_token {
        return create_token(parser).map(Some);
    }
    if is(0, &["drop"]) && (is_role || is_token) {
        return drop_role_or_token(parser, is_token).map(Some);
    }
    if is(0, &["alter"]) && changes_owner(parser) {
        return set_owner(parser).map(Some);
    }
    Ok(None)
}

/// Reads a text in quotes. The parser itself would also take a word for one, which no log would hide.
fn literal(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let token = &parser.peek_token_ref().token;
    let is_text =
        matches!(token, Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::DollarQuotedString(_));
    if !is_text {
        return parser.expected_ref("a text in quotes", parser.peek_token_ref());
    }
    parser.parse_literal_string()
}

fn skip(parser: &mut Parser<'_>, tokens: usize) {
    (0..tokens).for_each(|_| {
        parser.next_token();
    });
}

fn create_role(parser: &mut Parser<'_>) -> Result<AccessStatement, ParserError> {
    skip(parser, 1);
    let is_user = parse_word(parser, "user");
    if !is_user {
        skip(parser, 1);
    }
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = parser.parse_identifier()?;
    let mut options = role_options(parser)?;
    if is_user {
        options.can_login.get_or_insert(true);
    }
    Ok(AccessStatement::CreateRole { name, if_not_exists, options })
}

fn alter_role(parser: &mut Parser<'_>) -> Result<AccessStatement, ParserError> {
    skip(parser, 2);
    let name = parser.parse_identifier()?;
    if parse_word(parser, "rename") {
        parser.expect_keyword_is(Keyword::TO)?;
        return Ok(AccessStatement::RenameRole { name, to: parser.parse_identifier()? });
    }
    Ok(AccessStatement::AlterRole { name, options: role_options(parser)? })
}

fn role_options(parser: &mut Parser<'_>) -> Result<RoleOptions, ParserError> {
    parse_word(parser, "with");
    let mut options = RoleOptions::default();
    while let Token::Word(word) = &parser.peek_token_ref().token {
        let word = word.value.clone();
        match word.as_str() {
            "login" | "nologin" => options.can_login = Some(word == "login"),
            "superuser" | "nosuperuser" => options.is_superuser = Some(word == "superuser"),
            // These are what every role has.
            "inherit" | "nocreatedb" | "nocreaterole" | "noreplication" | "nobypassrls" => {}
            "encrypted" | "password" => {
                if word == "encrypted" {
                    skip(parser, 1);
                }
                parser.expect_keyword_is(Keyword::PASSWORD)?;
                options.password = Some(match parser.parse_keyword(Keyword::NULL) {
                    true => None,
                    false => Some(literal(parser)?),
                });
                continue;
            }
            "valid" => {
                options.valid_until = valid_until(parser)?;
                continue;
            }
            "in" => {
                skip(parser, 1);
                if !parse_word(parser, "role") {
                    return parser.expected_ref("ROLE", parser.peek_token_ref());
                }
                options.in_roles = parser.parse_comma_separated(Parser::parse_identifier)?;
                continue;
            }
            _ => {
                let known = "LOGIN, NOLOGIN, SUPERUSER, NOSUPERUSER, PASSWORD, VALID UNTIL or IN ROLE";
                return parser.expected_ref(known, parser.peek_token_ref());
            }
        }
        skip(parser, 1);
    }
    Ok(options)
}

/// Reads `VALID UNTIL 'time'`, if it comes next.
fn valid_until(parser: &mut Parser<'_>) -> Result<Option<String>, ParserError> {
    if !parse_word(parser, "valid") {
        return Ok(None);
    }
    if !parse_word(parser, "until") {
        return parser.expected_ref("UNTIL", parser.peek_token_ref());
    }
    literal(parser).map(Some)
}

fn create_token(parser: &mut Parser<'_>) -> Result<AccessStatement, ParserError> {
    skip(parser, 2);
    let name = parser.parse_identifier()?;
    parser.expect_keyword_is(Keyword::FOR)?;
    let role = parser.parse_identifier()?;
    Ok(AccessStatement::CreateToken { name, role, valid_until: valid_until(parser)? })
}

fn drop_role_or_token(parser: &mut Parser<'_>, is_token: bool) -> Result<AccessStatement, ParserError> {
    skip(parser, 2);
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    if !is_token {
        let names = parser.parse_comma_separated(Parser::parse_identifier)?;
        return Ok(AccessStatement::DropRole { names, if_exists });
    }
    let name = parser.parse_identifier()?;
    parser.expect_keyword_is(Keyword::FOR)?;
    Ok(AccessStatement::DropToken { name, role: parser.parse_identifier()?, if_exists })
}

fn parse_grant(parser: &mut Parser<'_>) -> Result<AccessStatement, ParserError> {
    let is_revoke = parse_word(parser, "revoke");
    if !is_revoke {
        skip(parser, 1);
    }
    let items = parser.parse_comma_separated(|parser| {
        let name = parser.parse_identifier()?;
        let columns = match parser.consume_token(&Token::LParen) {
            false => Vec::new(),
            true => {
                let columns = parser.parse_comma_separated(Parser::parse_identifier)?;
                parser.expect_token(&Token::RParen)?;
                columns
            }
        };
        parse_word(parser, "privileges");
        Ok((name, columns))
    })?;
    let receivers = |parser: &mut Parser<'_>| {
        parser.expect_keyword_is(if is_revoke { Keyword::FROM } else { Keyword::TO })?;
        parser.parse_comma_separated(Parser::parse_identifier)
    };
    if !parser.parse_keyword(Keyword::ON) {
        if items.iter().any(|(_, columns)| !columns.is_empty()) {
            return parser.expected_ref("ON", parser.peek_token_ref());
        }
        let (roles, members) = (items.into_iter().map(|(name, _)| name).collect(), receivers(parser)?);
        return Ok(AccessStatement::GrantRole { is_revoke, roles, members });
    }
    let rights = match items.as_slice() {
        [(all, columns)] if all.value == "all" && columns.is_empty() => GrantedList::All,
        _ => {
            let right = |(name, columns): (Ident, Vec<Ident>)| match Rights::of_name(&name.value) {
                Some(right) => Ok((right, columns)),
                None => Err(ParserError::ParserError(format!("\"{}\" is not a right{}", name.value, name.span.start))),
            };
            GrantedList::Some(items.into_iter().map(right).collect::<Result<_, _>>()?)
        }
    };
    let object = grant_object(parser)?;
    let grantees = receivers(parser)?;
    // No right can be passed on, so nothing depends on one that is taken away.
    if is_revoke && !parse_word(parser, "restrict") {
        parse_word(parser, "cascade");
    }
    Ok(AccessStatement::Grant(RightsStatement { is_revoke, rights, object, grantees }))
}

fn grant_object(parser: &mut Parser<'_>) -> Result<GrantObject, ParserError> {
    let names = |parser: &mut Parser<'_>| parser.parse_comma_separated(|parser| parser.parse_object_name(false));
    if parser.parse_keyword(Keyword::ALL) {
        let is_tables = parse_word(parser, "tables");
        if !is_tables && !parse_word(parser, "sequences") {
            return parser.expected_ref("TABLES or SEQUENCES", parser.peek_token_ref());
        }
        parser.expect_keywords(&[Keyword::IN, Keyword::SCHEMA])?;
        let schemas = names(parser)?;
        return Ok(if is_tables { GrantObject::AllTablesIn(schemas) } else { GrantObject::AllSequencesIn(schemas) });
    }
    if parse_word(parser, "schema") {
        return names(parser).map(GrantObject::Schemas);
    }
    if parse_word(parser, "sequence") {
        return names(parser).map(GrantObject::Sequences);
    }
    parse_word(parser, "table");
    names(parser).map(GrantObject::Tables)
}

/// Whether the statement is `ALTER kind name OWNER TO`.
fn changes_owner(parser: &Parser<'_>) -> bool {
    let token = |at: usize| &parser.peek_nth_token_ref(at).token;
    let is = |at: usize, wanted: &str| matches!(token(at), Token::Word(word) if is_word(word, wanted));
    let mut at = match ["table", "view", "sequence", "schema"].iter().any(|kind| is(1, kind)) {
        true => 3,
        false if is(1, "materialized") && is(2, "view") => 4,
        false => return false,
    };
    while *token(at) == Token::Period {
        at += 2;
    }
    is(at, "owner")
}

fn set_owner(parser: &mut Parser<'_>) -> Result<AccessStatement, ParserError> {
    skip(parser, 1);
    let is_schema = parse_word(parser, "schema");
    if !is_schema {
        parse_word(parser, "materialized");
        skip(parser, 1);
    }
    let name = parser.parse_object_name(false)?;
    skip(parser, 1);
    parser.expect_keyword_is(Keyword::TO)?;
    Ok(AccessStatement::SetOwner { is_schema, name, role: parser.parse_identifier()? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rowmill_base::Settings;

    use super::*;
    use crate::parse::{StatementBody, parse};

    fn read(sql: &str) -> AccessStatement {
        match parse(sql, &Settings::default()).unwrap().remove(0).body() {
            StatementBody::Access(statement) => (**statement).clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn statements_about_roles_are_read() {
        let AccessStatement::CreateRole { name, options, .. } =
            read("CREATE USER Ann WITH PASSWORD 'x' SUPERUSER VALID UNTIL '2027-01-01' IN ROLE a, b")
        else {
            panic!("a role")
        };
        assert_eq!((name.value.as_str(), options.can_login, options.is_superuser), ("ann", Some(true), Some(true)));
        assert_eq!((options.password, options.in_roles.len()), (Some(Some("x".into())), 2));
        for sql in [
            "CREATE ROLE r",
            "CREATE ROLE IF NOT EXISTS r NOLOGIN",
            "ALTER ROLE r PASSWORD NULL",
            "ALTER USER r RENAME TO s",
            "DROP ROLE IF EXISTS r, s",
            "CREATE TOKEN ci FOR r VALID UNTIL '2027-01-01'",
            "DROP TOKEN ci FOR r",
            "GRANT SELECT, UPDATE (a, b) ON TABLE s.t, u TO r, public",
            "GRANT ALL PRIVILEGES ON ALL TABLES IN SCHEMA main TO r",
            "GRANT USAGE, CREATE ON SCHEMA s TO r",
            "REVOKE ALL ON t FROM r CASCADE",
            "GRANT a, b TO r",
            "REVOKE a FROM r",
            "ALTER TABLE s.t OWNER TO r",
            "ALTER MATERIALIZED VIEW v OWNER TO r",
            "ALTER SCHEMA s OWNER TO r",
        ] {
            read(sql);
        }
    }

    #[test]
    fn wrong_statements_about_roles_are_refused() {
        for sql in [
            "CREATE ROLE",
            "CREATE ROLE r CREATEDB",
            "CREATE ROLE r PASSWORD x",
            "CREATE TOKEN ci",
            "GRANT SELECT ON t",
            "GRANT FLY ON t TO r",
            "GRANT SELECT (a) TO r",
            "GRANT SELECT ON t TO r WITH GRANT OPTION",
            "GRANT SELECT ON ALL t TO r",
            "REVOKE SELECT ON t TO r",
            "ALTER TABLE t OWNER r",
        ] {
            assert!(parse(sql, &Settings::default()).is_err(), "{sql}");
        }
    }
}
