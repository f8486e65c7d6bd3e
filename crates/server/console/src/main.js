// The page: its parts, and how they work together.

import "./console.css";
import { ROWS_MAX, exportUrl, run, rows, statements } from "./api.js";
import { Activity } from "./activity.js";
import { loadCatalog, plainName } from "./catalog.js";
import { Chart } from "./chart.js";
import { el, icon, stored } from "./dom.js";
import { Editor } from "./editor.js";
import { count, counted, duration } from "./format.js";
import { Grid } from "./grid.js";
import { ImportDialog } from "./import.js";
import { makeLayout } from "./layout.js";
import { drawPlan } from "./plan.js";
import { Sidebar } from "./sidebar.js";
import { drawAll, drawTable } from "./storage.js";

const THEMES = ["auto", "light", "dark"];
const CHANGES_TABLES = /^\s*(CREATE|DROP|ALTER|INSERT|DELETE|UPDATE|COPY|MERGE|TRUNCATE|RENAME|REFRESH)\b/i;

const DARK = matchMedia("(prefers-color-scheme: dark)");
/** Statements about a transaction of several statements. */
const CONTROLS = /^\s*(BEGIN|START\s+TRANSACTION|COMMIT|END|ROLLBACK|ABORT|SAVEPOINT|RELEASE)\b/i;
/** The most tables whose sizes are asked for. */
const TABLES_MAX = 300;
/** Statements with secrets must not stay in the browser. */
const HAS_SECRET = /\b(PASSWORD|TOKEN|SECRET)\b/i;

const theme = stored("theme", "auto");
const text = stored("text", "");
const sizes = stored("sizes", { side: 250, editor: 210 });

class Console {
  constructor(parent) {
    // Each part is a field: this.status, this.panels and so on.
    Object.assign(this, makeLayout(parent, this));
    this.editor = new Editor(this.editorPlace, text.get(), {
      run: () => this.runCurrent(),
      runAll: () => this.runAll(),
      explain: () => this.explain(),
      cancel: () => this.cancel(),
      changed: (changed) => HAS_SECRET.test(changed) || text.set(changed),
    });
    this.grid = new Grid(this.panels.Table);
    this.chart = new Chart(this.panels.Chart);
    this.sidebar = new Sidebar(this.side, {
      run: (sql) => (this.editor.append(sql), this.runCurrent()),
      insert: (name) => this.editor.insert(name),
      open: (sql) => this.editor.append(sql),
      storage: (table) => this.storage(table),
      refresh: () => this.refresh(),
    });
    this.activity = new Activity(this.activityPlace, (running) => {
      // The statement of this page counts among them.
      this.badge.textContent = running ? String(running) : "";
    });
    this.imports = new ImportDialog(() => this.refresh());
    this.setTheme(theme.get());
    this.setSizes(sizes.get());
    this.view("Query");
    this.pick("Table");
    this.say("Ready.");
    addEventListener("keydown", (event) => this.key(event));
    DARK.addEventListener("change", () => this.setTheme(theme.get()));
    this.refresh();
    this.editor.focus();
  }

  /** Gives the list on the left a width and the editor a height; what is not given stays. */
  setSizes(changed) {
    const { side, editor } = { ...sizes.get(), ...changed };
    const kept = {
      side: Math.min(Math.max(side, 140), innerWidth / 2),
      editor: Math.min(Math.max(editor, 60), innerHeight - 220),
    };
    sizes.set(kept);
    this.side.style.width = `${kept.side}px`;
    this.editorPlace.style.height = `${kept.editor}px`;
  }

  setTheme(name) {
    theme.set(name);
    const isDark = name === "dark" || (name === "auto" && DARK.matches);
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
    const picture = { auto: "auto", light: "sun", dark: "moon" }[name];
    this.themeButton.replaceChildren(icon(picture));
    this.themeButton.title = `Colours: ${name}`;
    this.chart.draw();
    this.activity.drawCharts();
  }

  nextTheme() {
    this.setTheme(THEMES[(THEMES.indexOf(theme.get()) + 1) % THEMES.length]);
  }

  view(name) {
    this.queryPlace.hidden = name !== "Query";
    this.activityPlace.hidden = name !== "Activity";
    for (const view of this.views) view.classList.toggle("on", view.firstChild.textContent === name);
    this.activity.show(name === "Activity");
  }

  pick(name) {
    this.tab = name;
    for (const tab of this.tabs) tab.setAttribute("aria-selected", tab.textContent === name);
    for (const [panel, node] of Object.entries(this.panels)) node.hidden = panel !== name;
    if (name === "Chart") this.chart.resize();
  }

  key(event) {
    const isFree = !event.defaultPrevented && !document.querySelector("dialog[open]");
    if (event.key === "Escape" && isFree) this.cancel();
    if (
      (event.ctrlKey || event.metaKey) &&
      event.key === "Enter" &&
      !event.defaultPrevented &&
      !event.target.closest("dialog")
    ) {
      if (event.target.shadowRoot) return;
      this.runCurrent();
    }
    if (!event.altKey || event.ctrlKey || event.metaKey) return;
    const places = {
      Digit1: () => (this.view("Query"), this.editor.focus()),
      Digit2: () => (this.view("Query"), this.grid.scroll.focus()),
      Digit3: () => this.sidebar.filter.focus(),
      Digit4: () => this.view("Activity"),
    };
    if (places[event.code]) {
      event.preventDefault();
      places[event.code]();
    }
  }

  say(message) {
    this.status.textContent = message;
  }

  async refresh() {
    try {
      const catalog = await loadCatalog();
      this.catalog = catalog;
      this.sidebar.setCatalog(catalog);
      this.editor.setCatalog(catalog);
    } catch (error) {
      this.say(`The tables cannot be read: ${error.message}`);
    }
  }

  cancel() {
    this.running?.abort();
  }

  runCurrent() {
    const statement = this.editor.current();
    if (statement) this.runEach([statement]);
  }

  runAll() {
    this.runEach(this.editor.all());
  }

  explain() {
    const statement = this.editor.current();
    if (!statement) return;
    const isExplained = /^\s*EXPLAIN\b/i.test(statement.text);
    const isQuery = /^\s*(\(|SELECT|WITH|VALUES|FROM|TABLE)/i.test(statement.text);
    const prefix = isExplained ? "" : isQuery ? "EXPLAIN ANALYZE " : "EXPLAIN ";
    this.runEach([{ ...statement, text: prefix + statement.text, prefix: prefix.length }]);
  }

  /** Runs statements one after the other, up to the first that fails. */
  async runEach(list) {
    if (this.running || !list.length) return;
    this.view("Query");
    const control = list.find((statement) => CONTROLS.test(statement.text));
    if (control) {
      const word = control.text.trim().split(/[\s;]/)[0].toUpperCase();
      const why = "Each statement of the console is a transaction of its own, which commits if it succeeds.";
      return this.tell(`${word} has no effect here, so nothing was run.`, "failed", why);
    }
    const stop = new AbortController();
    this.running = stop;
    this.runButton.disabled = true;
    this.stopButton.hidden = false;
    this.message.hidden = true;
    this.editor.showError(null);
    const started = performance.now();
    const clock = setInterval(() => this.watch(started), 250);
    let [sql, changes] = ["", false];
    let current = null;
    try {
      for (current of list) {
        sql = current.text;
        this.taken = 0;
        this.sql = sql;
        const before = performance.now();
        const result = await run(sql, { signal: stop.signal, progress: (taken) => (this.taken = taken) });
        changes ||= CHANGES_TABLES.test(sql);
        this.remember(current, performance.now() - before, result);
        this.show(sql, result);
      }
    } catch (error) {
      this.remember(current, performance.now() - started, null, stop.signal.aborted ? "cancelled" : "failed");
      this.fail(error, current, stop.signal.aborted);
    } finally {
      clearInterval(clock);
      this.running = null;
      this.runButton.disabled = false;
      this.stopButton.hidden = true;
      this.runProgress.hidden = true;
      if (changes) this.refresh();
    }
  }

  remember(statement, ms, result, failed = null) {
    if (statement.prefix || HAS_SECRET.test(statement.text)) return;
    const found = result?.columns ? result.rows.length : (result?.rows_changed ?? null);
    this.sidebar.remember({ sql: statement.text, at: Date.now(), ms, rows: found, failed });
  }

  /** Shows the time and the progress of the statement that runs. */
  async watch(started) {
    const elapsed = performance.now() - started;
    this.say(`Running … ${duration(elapsed)}${this.taken ? ` · ${counted(this.taken, "row")}` : ""}`);
    if (elapsed < 400 || this.isWatching) return;
    this.isWatching = true;
    const own = await statements().then(
      (all) => all.find((one) => one.text === this.sql.slice(0, one.text.length)),
      () => null,
    );
    this.isWatching = false;
    const bar = this.runProgress.firstChild;
    const share = own?.progress?.rows_total ? Math.min(own.progress.rows_done / own.progress.rows_total, 1) : null;
    bar.classList.toggle("unknown", share === null || share === 1);
    bar.style.width = share === null || share === 1 ? "" : `${share * 100}%`;
    this.runProgress.hidden = !this.running;
  }

  show(sql, result) {
    this.setStale(false);
    this.exports.disabled = !result.columns || sql.length > 30_000;
    const notices = result.notices.length ? ` · ${result.notices.join(" · ")}` : "";
    if (!result.columns) {
      const changed = result.rows_changed === undefined ? "" : ` · ${counted(result.rows_changed, "row")}`;
      this.say(`${result.tag}${changed} · ${duration(result.ms)}${notices}`);
      this.tell(`${result.tag}${changed}`, "done");
      // Rows of an earlier statement would look like those of this one.
      this.grid.clear();
      this.chart.show({ columns: null });
      return;
    }
    const rowCount = result.isCut ? `the first ${count(ROWS_MAX)} rows` : counted(result.rows.length, "row");
    this.say(`${rowCount} · ${duration(result.ms)}${notices}`);
    this.message.hidden = true;
    this.grid.show(result);
    this.chart.show(result);
    if (result.columns.length === 1 && result.columns[0].name === "plan") {
      drawPlan(
        this.panels.Plan,
        result.rows.map((row) => row[0]),
      );
      this.pick("Plan");
    } else if (this.tab !== "Chart") this.pick("Table");
  }

  tell(message, kind, hint = "") {
    this.message.className = `message ${kind}`;
    this.message.replaceChildren(el("span", {}, message), hint ? el("span", { class: "hint" }, hint) : "");
    this.message.hidden = false;
  }

  /** Shows rows of an earlier statement faintly after one that has failed. */
  setStale(isStale) {
    for (const panel of Object.values(this.panels)) panel.classList.toggle("stale", isStale);
  }

  fail(error, statement, isCancelled) {
    this.setStale(true);
    if (isCancelled) {
      this.say("Cancelled.");
      return this.tell("The statement was cancelled.", "done");
    }
    this.say("Failed.");
    this.tell(
      error.message,
      "failed",
      [error.hint, error.sqlstate ? `SQLSTATE ${error.sqlstate}` : ""].filter(Boolean).join("  ·  "),
    );
    // The place of an error counts from the begin of what was sent.
    const column = error.line === 1 ? error.column - (statement.prefix ?? 0) : error.column;
    const sent = { ...statement, text: statement.text.slice(statement.prefix ?? 0) };
    this.editor.showError({ line: error.line, column, message: error.message, hint: error.hint }, sent);
  }

  export() {
    const format = this.exports.value;
    this.exports.value = "";
    if (!format || !this.sql) return;
    const link = el("a", { href: exportUrl({ query: this.sql, format }), download: "" });
    document.body.append(link);
    link.click();
    link.remove();
  }

  /** Shows how a table is stored, or all tables if it is null. */
  async storage(table) {
    this.view("Query");
    this.message.hidden = true;
    const call = (wanted) => `rowmill_storage('${plainName(wanted).replaceAll("'", "''")}')`;
    try {
      if (table) {
        drawTable(this.panels.Storage, table, await rows(`SELECT * FROM ${call(table)}`), () => this.storage(null));
      } else {
        const tables = this.catalog.tables.filter((one) => one.kind === "TABLE").slice(0, TABLES_MAX);
        // A role may lack the right to ask for a table or for the directory.
        const sizeOf = (one) => rows(`SELECT sum(bytes) AS bytes FROM ${call(one)}`).catch(() => null);
        const sizes = await Promise.all(tables.map(sizeOf));
        const sized = tables.map((one, index) => ({ ...one, bytes: sizes[index] && Number(sizes[index][0].bytes) }));
        const parts = await rows("SELECT * FROM rowmill_space()").catch(() => []);
        drawAll(
          this.panels.Storage,
          sized.filter((one) => one.bytes !== null),
          parts,
          (one) => this.storage(one),
        );
      }
      this.stored = true;
      this.setStale(false);
      this.pick("Storage");
      this.say(table ? `Storage of ${plainName(table)}` : "Storage of all tables");
    } catch (error) {
      this.tell(error.message, "failed", error.hint);
    }
  }
}

new Console(document.getElementById("app"));
