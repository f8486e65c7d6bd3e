// Tables, columns and functions of the database.

import { rows } from "./api.js";

const HIDDEN = new Set(["information_schema", "pg_catalog"]);

export async function loadCatalog() {
  const [tables, columns, functions] = await Promise.all([
    rows("SELECT table_schema, table_name, table_type, table_rows FROM information_schema.tables"),
    rows(
      `SELECT table_schema, table_name, column_name, is_nullable, data_type
       FROM information_schema.columns ORDER BY ordinal_position`,
    ),
    rows("SELECT name, family, description, example FROM rowmill_functions()"),
  ]);
  const found = tables
    .filter((table) => !HIDDEN.has(table.table_schema))
    .map((table) => ({
      schema: table.table_schema,
      name: table.table_name,
      kind: table.table_type === "BASE TABLE" ? "TABLE" : table.table_type,
      rows: table.table_rows === null ? null : Number(table.table_rows),
      columns: columns
        .filter((column) => column.table_schema === table.table_schema && column.table_name === table.table_name)
        .map((column) => ({
          name: column.column_name,
          type: column.data_type,
          nullable: column.is_nullable === "YES",
        })),
    }));
  found.sort(
    (one, other) =>
      (one.schema === "main" ? -1 : 0) - (other.schema === "main" ? -1 : 0) ||
      one.schema.localeCompare(other.schema) ||
      one.name.localeCompare(other.name),
  );
  return { tables: found, functions };
}

/** A name as SQL needs it. */
export const quoted = (name) => (/^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);

/** The name of a table as SQL needs it. */
export const sqlName = (table) =>
  table.schema === "main" ? quoted(table.name) : `${quoted(table.schema)}.${quoted(table.name)}`;

/** The name of a table for URLs and table functions. */
export const plainName = (table) => (table.schema === "main" ? table.name : `${table.schema}.${table.name}`);
