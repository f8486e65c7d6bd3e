// The browser of tables and the history of statements.

import { plainName, quoted, sqlName } from "./catalog.js";
import { el, icon, stored } from "./dom.js";
import { clock, counted, duration, short } from "./format.js";

const HISTORY_MAX = 200;

export class Sidebar {
  /** `actions` has run(sql), insert(text), open(sql), storage(table) and refresh(). */
  constructor(parent, actions) {
    this.actions = actions;
    this.open = new Set();
    this.history = stored("history", []);
    this.filter = el("input", {
      type: "search",
      class: "filter",
      placeholder: "Filter",
      "aria-label": "Filter",
      oninput: () => this.draw(),
    });
    this.list = el("div", { class: "side-list" });
    this.tabs = ["Tables", "History"].map((name) =>
      el("button", { type: "button", role: "tab", onclick: () => this.pick(name) }, name),
    );
    const refresh = el(
      "button",
      { type: "button", class: "icon-button", title: "Read the tables again", onclick: () => actions.refresh() },
      icon("refresh"),
    );
    parent.append(el("div", { class: "side-tabs", role: "tablist" }, this.tabs, refresh), this.filter, this.list);
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.catalog = { tables: [] };
    this.pick("Tables");
  }

  pick(name) {
    this.tab = name;
    for (const tab of this.tabs) tab.setAttribute("aria-selected", tab.textContent === name);
    this.draw();
  }

  setCatalog(catalog) {
    this.catalog = catalog;
    this.draw();
  }

  draw() {
    this.list.replaceChildren(...(this.tab === "Tables" ? this.tables() : this.entries()));
  }

  tables() {
    const wanted = this.filter.value.trim().toLowerCase();
    const is = (name) => name.toLowerCase().includes(wanted);
    const shown = this.catalog.tables.filter(
      (table) => is(table.name) || table.columns.some((column) => is(column.name)),
    );
    if (!shown.length) {
      const text = this.catalog.tables.length
        ? "No table or column has this name."
        : "No tables yet. Drop a CSV, JSON, Parquet or Arrow file here to make one.";
      return [el("div", { class: "side-empty" }, text)];
    }
    let schema = "main";
    return shown.flatMap((table) => {
      const head = table.schema === schema ? [] : [el("div", { class: "side-schema" }, table.schema)];
      schema = table.schema;
      const isOpen = this.open.has(plainName(table)) || (wanted !== "" && !is(table.name));
      const columns = isOpen
        ? table.columns.filter((column) => is(table.name) || is(column.name)).map((column) => this.column(column))
        : [];
      return [...head, this.table(table, isOpen), ...columns];
    });
  }

  table(table, isOpen) {
    const toggle = () => {
      const name = plainName(table);
      if (!this.open.delete(name)) this.open.add(name);
      this.draw();
      this.list.querySelector(`[data-table="${CSS.escape(name)}"]`)?.focus();
    };
    const act = (label, picture, action) =>
      el(
        "button",
        {
          type: "button",
          class: "icon-button",
          title: label,
          tabIndex: -1,
          onclick: (event) => (event.stopPropagation(), action()),
        },
        icon(picture),
      );
    const facts = table.rows === null ? [] : [counted(table.rows, "row")];
    const node = el(
      "div",
      {
        class: "side-row table",
        tabIndex: 0,
        role: "treeitem",
        "aria-expanded": String(isOpen),
        onclick: toggle,
        title: [`${table.kind.toLowerCase()} ${plainName(table)}`, ...facts, "Enter opens, Space shows rows"].join(
          "\n",
        ),
      },
      el("span", { class: isOpen ? "turn open" : "turn" }, icon("chevron")),
      icon(table.kind === "VIEW" ? "view" : "table"),
      el("span", { class: "name" }, table.name),
      el("span", { class: "side-count" }, table.rows === null ? "" : short(table.rows)),
      el(
        "span",
        { class: "side-actions" },
        act("Show rows", "play", () => this.actions.run(`SELECT * FROM ${sqlName(table)} LIMIT 1000`)),
        table.kind === "TABLE" ? act("Show storage", "tree", () => this.actions.storage(table)) : null,
      ),
    );
    node.dataset.table = plainName(table);
    node.action = toggle;
    node.second = () => this.actions.run(`SELECT * FROM ${sqlName(table)} LIMIT 1000`);
    return node;
  }

  column(column) {
    const insert = () => this.actions.insert(quoted(column.name));
    const kind = column.nullable ? column.type : `${column.type} NOT NULL`;
    const node = el(
      "div",
      {
        class: "side-row column",
        tabIndex: 0,
        role: "treeitem",
        ondblclick: insert,
        title: `${column.name} ${kind}\nEnter or a double click puts the name into the editor`,
      },
      el("span", { class: "name" }, column.name),
      el("span", { class: "type" }, column.type.toLowerCase()),
    );
    node.action = insert;
    return node;
  }

  entries() {
    const wanted = this.filter.value.trim().toLowerCase();
    const all = this.history.get().filter((entry) => entry.sql.toLowerCase().includes(wanted));
    if (!all.length)
      return [el("div", { class: "side-empty" }, "Statements that you run appear here. They stay in this browser.")];
    const clear = el(
      "button",
      { type: "button", class: "link", onclick: () => (this.history.set([]), this.draw()) },
      "Clear the history",
    );
    const entries = all.map((entry) => {
      const open = () => this.actions.open(entry.sql);
      const when = new Date(entry.at);
      const today = when.toDateString() === new Date().toDateString();
      const node = el(
        "div",
        {
          class: entry.failed ? "history failed" : "history",
          tabIndex: 0,
          title: `${entry.sql}\n\nEnter puts it into the editor`,
          onclick: open,
        },
        el("div", { class: "history-sql" }, entry.sql.replace(/\s+/g, " ").slice(0, 160)),
        el(
          "div",
          { class: "history-facts" },
          today ? clock(when) : `${when.toLocaleDateString("en-CA")} ${clock(when)}`,
          entry.failed
            ? ` · ${entry.failed}`
            : ` · ${duration(entry.ms)}${entry.rows === null ? "" : ` · ${counted(entry.rows, "row")}`}`,
        ),
      );
      node.action = open;
      return node;
    });
    return [...entries, el("div", { class: "side-foot" }, clear)];
  }

  /** Remembers a statement. One that was run before moves to the top. */
  remember(entry) {
    const others = this.history.get().filter((other) => other.sql !== entry.sql);
    this.history.set([entry, ...others].slice(0, HISTORY_MAX));
    if (this.tab === "History") this.draw();
  }

  key(event) {
    const row = event.target.closest("[tabindex='0']");
    const rows = [...this.list.querySelectorAll("[tabindex='0']")];
    const at = rows.indexOf(row);
    if (at < 0) return;
    if (event.key === "ArrowDown") rows[at + 1]?.focus();
    else if (event.key === "ArrowUp") rows[at - 1]?.focus();
    else if (event.key === "Enter") row.action?.();
    else if (event.key === " ") (row.second ?? row.action)?.();
    else if (event.key === "ArrowRight" && row.getAttribute("aria-expanded") === "false") row.action();
    else if (event.key === "ArrowLeft" && row.getAttribute("aria-expanded") === "true") row.action();
    else return;
    event.preventDefault();
  }
}
