// How tables and their columns are stored.

import { plainName } from "./catalog.js";
import { el } from "./dom.js";
import { bytes, count } from "./format.js";

/** The bytes of a value of a type with a fixed width, as programs hold it. */
function plainBytes(type) {
  const widths = {
    BOOLEAN: 1,
    TINYINT: 1,
    SMALLINT: 2,
    INTEGER: 4,
    BIGINT: 8,
    REAL: 4,
    DOUBLE: 8,
    DATE: 4,
    TIME: 8,
    TIMESTAMP: 8,
    UUID: 16,
    INTERVAL: 16,
  };
  return widths[type.split(/[ (]/)[0].toUpperCase()] ?? (/^DECIMAL/i.test(type) ? 16 : null);
}

const cell = (text, kind = "") => el("div", { class: kind }, text);
const meter = (value, most) =>
  el(
    "div",
    { class: "storage-bytes" },
    el("div", { class: "bar", style: { width: `${(value / Math.max(most, 1)) * 100}%` } }),
    el("span", {}, bytes(value)),
  );
const perRow = (stored, rows) => (rows && stored ? (stored / rows).toPrecision(3) : "");

/** Returns rows below a head; the columns from `numbers` on are numbers. */
function list(kind, head, numbers, lines) {
  return el(
    "div",
    { class: "storage" },
    el(
      "div",
      { class: `storage-row ${kind} head` },
      head.map((name, index) => cell(name, index >= numbers ? "number" : "")),
    ),
    lines,
  );
}

/** Shows how the columns of a table are stored, from the rows of `rowmill_storage`. `back` leads to all tables. */
export function drawTable(parent, table, columns, back) {
  const all = columns.map((column) => ({ ...column, bytes: Number(column.bytes), rows: Number(column.rows) }));
  const total = all.reduce((sum, column) => sum + column.bytes, 0);
  const [rows, largest] = [all[0]?.rows ?? 0, Math.max(...all.map((column) => column.bytes))];
  const lines = all.map((column) => {
    const plain = plainBytes(column.type);
    const ratio = plain && column.bytes ? (plain * column.rows) / column.bytes : null;
    return el(
      "div",
      { class: "storage-row" },
      cell(column.column, "name"),
      cell(column.type.toLowerCase(), "type"),
      cell(column.encodings, "dim"),
      meter(column.bytes, largest),
      cell(perRow(column.bytes, column.rows), "number"),
      cell(ratio ? `${ratio >= 100 ? Math.round(ratio) : ratio.toPrecision(2)}×` : "", "number"),
      cell(column.nulls ? count(Number(column.nulls)) : "", "number"),
      cell(column.distinct_in_block_max === null ? "" : count(Number(column.distinct_in_block_max)), "number"),
    );
  });
  const isKeyed = rows === 0 && table.rows > 0;
  const facts = isKeyed
    ? [`${count(table.rows)} rows`]
    : [`${count(rows)} rows`, `${bytes(total)} stored`, rows ? `${perRow(total, rows)} bytes per row` : ""];
  const head = ["column", "type", "encodings", "stored", "bytes per row", "compressed", "nulls", "distinct"];
  parent.replaceChildren(
    el(
      "div",
      { class: "storage-head" },
      el("button", { type: "button", class: "link", onclick: back }, "All tables"),
      el("b", {}, plainName(table)),
      facts.map((fact) => el("span", {}, fact)),
    ),
    isKeyed
      ? el(
          "p",
          { class: "dim" },
          "The rows of this table are stored by their key, not by columns. They are part of the base of the database.",
        )
      : list("", head, 4, lines),
    isKeyed
      ? ""
      : el(
          "p",
          { class: "dim" },
          "Compressed: how many times smaller than the values of a type with a fixed width. " +
            "Distinct: the most distinct values in one block, where blocks count them.",
        ),
  );
}

/**
 * Shows the bytes of all tables, and what the directory is used for. `tables` are those of the catalog with their
 * stored bytes; `parts` are the rows of `rowmill_space`. `choose` shows one table.
 */
export function drawAll(parent, tables, parts, choose) {
  const largest = Math.max(...tables.map((table) => table.bytes), 0);
  const lines = tables.map((table) =>
    el(
      "div",
      { class: "storage-row tables" },
      el(
        "div",
        { class: "name" },
        el("button", { type: "button", class: "link", onclick: () => choose(table) }, plainName(table)),
      ),
      meter(table.bytes, largest),
      cell(count(table.rows ?? 0), "number"),
      cell(perRow(table.bytes, table.rows), "number"),
      cell(table.bytes === 0 && table.rows > 0 ? "stored by key, in the base" : "", "dim"),
    ),
  );
  const total = parts.reduce((sum, part) => sum + Number(part.bytes), 0);
  const most = Math.max(...parts.map((part) => Number(part.bytes)), 0);
  const used = parts.map((part) =>
    el(
      "div",
      { class: "storage-row parts" },
      cell(part.part, "name"),
      meter(Number(part.bytes), most),
      cell(part.about, "dim"),
    ),
  );
  const directory =
    parts.length === 0
      ? []
      : [
          el(
            "div",
            { class: "storage-head second" },
            el("b", {}, "The directory"),
            el("span", {}, `${bytes(total)} on disk`),
          ),
          list("parts", ["part", "bytes", "what it is"], 9, used),
        ];
  parent.replaceChildren(
    el("div", { class: "storage-head" }, el("b", {}, "All tables")),
    tables.length
      ? list("tables", ["table", "columns stored", "rows", "bytes per row", ""], 2, lines)
      : el("p", { class: "dim" }, "No tables yet."),
    ...directory,
  );
}
