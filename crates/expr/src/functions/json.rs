//! Functions of JSON documents.
//!
//! A function takes a document as JSON or as a text, which is checked like a cast. Paths are described in
//! [`crate::json::path`].

mod build;
mod by_sql_path;
mod change;
mod change_at_path;
mod compare;
mod describe;
mod documents;
mod extract;
mod rows;
mod structure;

use rowmill_plan::FunctionSpec;

/// The functions of the family `json`.
pub(super) static JSON: &[FunctionSpec] = &[
    extract::JSON_EXTRACT,
    extract::JSON_EXTRACT_STRING,
    extract::JSON_EXTRACT_PATH,
    extract::JSON_EXTRACT_PATH_TEXT,
    extract::JSON_VALUE,
    extract::JSON_EXISTS,
    by_sql_path::JSONB_PATH_EXISTS,
    by_sql_path::JSONB_PATH_MATCH,
    by_sql_path::JSONB_PATH_QUERY_ARRAY,
    by_sql_path::JSONB_PATH_QUERY_FIRST,
    by_sql_path::JSONB_PATH_ITEMS,
    describe::JSON_TYPE,
    describe::JSON_TYPEOF,
    describe::JSON_VALID,
    describe::JSON_KEYS,
    describe::JSON_ARRAY_LENGTH,
    structure::JSON_STRUCTURE,
    structure::JSON_TRANSFORM,
    structure::JSON_TRANSFORM_STRICT,
    compare::JSONB_CONTAINS,
    compare::JSON_CONTAINS,
    compare::JSONB_EXISTS,
    compare::JSONB_EXISTS_ANY,
    compare::JSONB_EXISTS_ALL,
    build::TO_JSON,
    build::JSON_OBJECT,
    build::JSON_ARRAY,
    build::JSON_OBJECT_OF_ENTRIES,
    change::JSON_MERGE_PATCH,
    change::JSON_CONCAT,
    change::JSON_REMOVE,
    change::JSON_REMOVE_PATH,
    change::JSONB_SET,
    change_at_path::JSONB_SET_LAX,
    change_at_path::JSONB_INSERT,
    change_at_path::JSON_INSERT,
    change_at_path::JSON_REPLACE,
    change_at_path::JSON_REMOVE,
    change::JSON_STRIP_NULLS,
    change::JSON_PRETTY,
    change::JSON_COMPACT,
    rows::JSON_ITEMS,
    rows::JSON_ITEM_TEXTS,
    rows::JSON_MEMBERS,
    rows::JSON_MEMBER_TEXTS,
    rows::JSON_EACH,
    rows::JSON_TREE,
];
