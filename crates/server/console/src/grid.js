// A table that makes elements only for the rows that are seen.

import { el } from "./dom.js";
import { cellText, count, kindOf } from "./format.js";

const ROW_PX = 24;
const HEAD_PX = 40;
const SHOWN_CHARS = 300;
const SAMPLED_ROWS = 400;
/** Rows that are made above and below those that are seen. */
const EXTRA_ROWS = 12;

export class Grid {
  constructor(parent) {
    this.body = el("div", { class: "grid-body" });
    this.head = el("div", { class: "grid-head", role: "row" });
    this.scroll = el(
      "div",
      { class: "grid", tabIndex: 0, role: "grid", onscroll: () => this.draw() },
      this.head,
      this.body,
    );
    this.scroll.addEventListener("keydown", (event) => this.key(event));
    this.scroll.addEventListener("copy", (event) => this.copy(event));
    this.body.addEventListener("mousedown", (event) => this.point(event));
    this.body.addEventListener("dblclick", () => this.open());
    this.detail = el("div", { class: "cell-detail", hidden: true });
    this.empty = el("div", { class: "empty" }, "The rows of a query appear here.");
    parent.append(this.empty, this.scroll, this.detail);
    this.clear();
    new ResizeObserver(() => this.draw()).observe(this.scroll);
  }

  /** Shows nothing. */
  clear() {
    this.scroll.hidden = true;
    this.detail.hidden = true;
    this.empty.hidden = false;
  }

  show({ columns, rows }) {
    this.empty.hidden = true;
    this.scroll.hidden = false;
    this.body.classList.toggle("none", rows.length === 0);
    this.columns = columns;
    this.rows = rows;
    this.order = null;
    this.sorted = null;
    this.at = null;
    this.selectAll(false);
    this.detail.hidden = true;
    this.numeric = columns.map((column) => kindOf(column.type) === "number");
    this.widths = columns.map((column, index) => {
      let longest = Math.max(column.name.length + 2, Math.min(column.type.length, 14));
      for (let row = 0; row < Math.min(rows.length, SAMPLED_ROWS); row++) {
        longest = Math.max(longest, cellText(rows[row][index]).length);
      }
      return Math.round(Math.min(Math.max(longest, 4), 46) * (this.numeric[index] ? 7.9 : 7.3) + 24);
    });
    this.scroll.scrollTop = 0;
    this.scroll.scrollLeft = 0;
    this.drawHead();
    this.body.style.height = `${rows.length * ROW_PX}px`;
    this.drawn = null;
    this.draw();
  }

  drawHead() {
    this.template = `${this.numberWidth()}px ${this.widths.map((width) => `${width}px`).join(" ")} 1fr`;
    const cells = this.columns.map((column, index) => {
      const mark = this.sorted?.index === index ? (this.sorted.down ? " ↓" : " ↑") : "";
      const grip = el("span", { class: "grip", onmousedown: (event) => this.resize(event, index) });
      return el(
        "div",
        {
          class: this.numeric[index] ? "cell head number" : "cell head",
          role: "columnheader",
          title: `${column.name}: ${column.type}\nClick to sort these rows`,
          onclick: (event) => event.target !== grip && this.sort(index),
        },
        el("span", { class: "name" }, column.name + mark),
        el("span", { class: "type" }, column.type.toLowerCase()),
        grip,
      );
    });
    this.head.replaceChildren(
      el("div", { class: "cell head corner" }),
      ...cells,
      el("div", { class: "cell head rest" }),
    );
    this.head.style.gridTemplateColumns = this.template;
    const width = this.numberWidth() + this.widths.reduce((sum, one) => sum + one, 0);
    for (const part of [this.head, this.body]) part.style.minWidth = `${width}px`;
  }

  numberWidth() {
    return Math.max(String(this.rows.length).length * 7 + 20, 34);
  }

  row(place) {
    return this.rows[this.order ? this.order[place] : place];
  }

  draw() {
    if (!this.columns) return;
    const first = Math.max(Math.floor(this.scroll.scrollTop / ROW_PX) - EXTRA_ROWS, 0);
    const shown = Math.ceil(this.scroll.clientHeight / ROW_PX) + 2 * EXTRA_ROWS;
    const last = Math.min(first + shown, this.rows.length);
    const key = `${first} ${last} ${this.at?.row} ${this.at?.column} ${this.template}`;
    if (this.drawn === key) return;
    this.drawn = key;
    const lines = [];
    for (let place = first; place < last; place++) lines.push(this.line(place));
    this.body.replaceChildren(...lines);
  }

  line(place) {
    const cells = this.row(place).map((value, index) => {
      const text = cellText(value);
      const kind = value === null ? " null" : this.numeric[index] ? " number" : "";
      const is = this.at?.row === place && this.at?.column === index ? " at" : "";
      const cell = el(
        "div",
        { class: `cell${kind}${is}` },
        text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text,
      );
      cell.dataset.column = index;
      return cell;
    });
    const line = el(
      "div",
      { class: "grid-row", role: "row" },
      el("div", { class: "cell row-number" }, count(place + 1)),
      ...cells,
    );
    line.dataset.row = place;
    line.style.top = `${place * ROW_PX}px`;
    line.style.gridTemplateColumns = this.template;
    return line;
  }

  sort(index) {
    const down = this.sorted?.index === index && !this.sorted.down;
    if (this.sorted?.index === index && this.sorted.down) {
      this.sorted = null;
      this.order = null;
    } else {
      this.sorted = { index, down };
      const [sign, numeric] = [down ? -1 : 1, this.numeric[index]];
      const compare = (one, other) => {
        const [a, b] = [this.rows[one][index], this.rows[other][index]];
        // NULL comes last in both directions.
        if (a === null || b === null) return (a === null) - (b === null);
        const by = numeric ? Number(a) - Number(b) : cellText(a) < cellText(b) ? -1 : cellText(a) > cellText(b) ? 1 : 0;
        return sign * by || one - other;
      };
      this.order = Uint32Array.from(this.rows, (_, place) => place).sort(compare);
    }
    this.drawHead();
    this.drawn = null;
    this.draw();
  }

  resize(event, index) {
    event.preventDefault();
    const [start, width] = [event.clientX, this.widths[index]];
    const move = (next) => {
      this.widths[index] = Math.max(width + next.clientX - start, 36);
      this.drawHead();
      this.draw();
    };
    const end = () => {
      removeEventListener("mousemove", move);
      removeEventListener("mouseup", end);
    };
    addEventListener("mousemove", move);
    addEventListener("mouseup", end);
  }

  point(event) {
    const cell = event.target.closest(".cell");
    const row = event.target.closest(".grid-row");
    if (!cell || !row || cell.dataset.column === undefined) return;
    this.select(Number(row.dataset.row), Number(cell.dataset.column));
  }

  select(row, column) {
    this.at = {
      row: Math.min(Math.max(row, 0), this.rows.length - 1),
      column: Math.min(Math.max(column, 0), this.columns.length - 1),
    };
    const top = this.at.row * ROW_PX;
    const height = this.scroll.clientHeight - HEAD_PX;
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    if (top + ROW_PX > this.scroll.scrollTop + height) this.scroll.scrollTop = top + ROW_PX - height;
    const left = this.widths.slice(0, this.at.column).reduce((sum, width) => sum + width, 0);
    const right = left + this.widths[this.at.column] + this.numberWidth();
    if (left < this.scroll.scrollLeft) this.scroll.scrollLeft = left;
    if (right > this.scroll.scrollLeft + this.scroll.clientWidth)
      this.scroll.scrollLeft = right - this.scroll.clientWidth;
    if (!this.detail.hidden) this.open();
    this.selectAll(false);
    this.draw();
  }

  selectAll(isAll) {
    this.isAll = isAll;
    this.scroll.classList.toggle("all", isAll);
  }

  key(event) {
    if (!this.rows?.length) return;
    if (event.key === "a" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      return this.selectAll(true);
    }
    const { row, column } = this.at ?? { row: 0, column: 0 };
    const page = Math.max(Math.floor(this.scroll.clientHeight / ROW_PX) - 2, 1);
    const steps = {
      ArrowDown: [row + 1, column],
      ArrowUp: [row - 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      PageDown: [row + page, column],
      PageUp: [row - page, column],
      Home: event.ctrlKey ? [0, column] : [row, 0],
      End: event.ctrlKey ? [this.rows.length - 1, column] : [row, this.columns.length - 1],
    };
    if (steps[event.key]) {
      event.preventDefault();
      this.select(...(this.at ? steps[event.key] : [0, 0]));
    } else if (event.key === "Enter" && this.at) {
      event.preventDefault();
      this.open();
    } else if (event.key === "Escape" && !this.detail.hidden) {
      event.stopPropagation();
      this.detail.hidden = true;
    }
  }

  /** Shows the whole value of the cell. */
  open() {
    if (!this.at) return;
    const value = this.row(this.at.row)[this.at.column];
    const column = this.columns[this.at.column];
    const text = value !== null && typeof value === "object" ? JSON.stringify(value, null, 2) : cellText(value);
    this.detail.replaceChildren(
      el(
        "div",
        { class: "cell-detail-head" },
        `${column.name} `,
        el("span", { class: "type" }, column.type.toLowerCase()),
        el("button", { type: "button", class: "link", onclick: () => (this.detail.hidden = true) }, "close"),
      ),
      el("pre", {}, text),
    );
    this.detail.hidden = false;
  }

  /** Copies the value of the cell, or all rows after Ctrl-A. */
  copy(event) {
    if (this.isAll) {
      const lines = this.rows.map((_, place) =>
        this.row(place).map((value) => (value === null ? "" : cellText(value).replace(/[\t\n\r]/g, " "))),
      );
      event.clipboardData.setData(
        "text/plain",
        [this.columns.map((column) => column.name), ...lines].map((line) => line.join("\t")).join("\n"),
      );
      event.preventDefault();
      return;
    }
    if (!this.at || !getSelection().isCollapsed) return;
    const value = this.row(this.at.row)[this.at.column];
    event.clipboardData.setData("text/plain", value === null ? "" : cellText(value));
    event.preventDefault();
  }
}
