// The statements that run, and what the server counts.

import uPlot from "uplot";
import { cancel, metrics, statements } from "./api.js";
import { axes, timeText } from "./chart.js";
import { button, el } from "./dom.js";
import { bytes, clock, count, duration, short } from "./format.js";

const LIST_MS = 1_000;
const METRICS_MS = 2_000;
/** Fifteen minutes. */
const POINTS_MAX = 450;
/** The least time that the charts show. */
const SPAN_SECONDS_MIN = 120;
const CSS = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Steps of bytes. */
const POWERS = Array.from({ length: 45 }, (_, power) => 2 ** power);

/** Each chart: its title, its lines, and how their values are written. A rate is a counter's change in a second. */
const CHARTS = [
  {
    title: "Memory",
    unit: bytes,
    lines: [
      ["in use", "rowmill_memory_bytes"],
      ["temporary files", "rowmill_temporary_bytes"],
    ],
    limit: "rowmill_memory_limit_bytes",
  },
  {
    title: "Statements per second",
    unit: short,
    rate: true,
    lines: [
      ["wire protocol", 'rowmill_statements_total{protocol="pg"}'],
      ["HTTP", 'rowmill_statements_total{protocol="http"}'],
      ["failed", "rowmill_errors_total"],
    ],
  },
  {
    title: "Commits and syncs per second",
    unit: short,
    rate: true,
    lines: [
      ["commits", "rowmill_commits_total"],
      ["syncs", "rowmill_log_syncs_total"],
    ],
  },
  { title: "Log written per second", unit: bytes, rate: true, lines: [["log", "rowmill_log_bytes_total"]] },
  { title: "Log that waits for a checkpoint", unit: bytes, lines: [["bytes", "rowmill_log_bytes_behind"]] },
  {
    title: "Connections",
    unit: short,
    lines: [
      ["wire protocol", "rowmill_connections"],
      ["sessions", "rowmill_sessions"],
      ["running", "rowmill_running_statements"],
    ],
  },
];

/** Progress as a text: 1.2M of 4M rows, 20 MB spilled. */
function progressText({ rows_done: done, rows_total: total, spilled_bytes: spilled }) {
  const rows = total ? `${short(done)} of ${short(total)} rows` : `${short(done)} rows`;
  return spilled ? `${rows}, ${bytes(spilled)} spilled` : rows;
}

export class Activity {
  /** `counted` is told how many statements run. */
  constructor(parent, counted) {
    this.counted = counted;
    this.samples = [];
    this.isShown = false;
    this.table = el("div", { class: "running" });
    this.tiles = el("div", { class: "tiles" });
    this.places = CHARTS.map((chart) => {
      const place = el("div", { class: "metric-plot" });
      const now = el("span", { class: "metric-now" });
      return {
        chart,
        place,
        now,
        box: el("div", { class: "metric" }, el("div", { class: "metric-title" }, chart.title, now), place),
      };
    });
    parent.append(
      el("h2", {}, "Running statements"),
      this.table,
      el("h2", {}, "Server"),
      this.tiles,
      el(
        "div",
        { class: "metrics" },
        this.places.map(({ box }) => box),
      ),
    );
    new ResizeObserver(() => this.drawCharts()).observe(parent);
    this.poll(() => this.list(), LIST_MS);
    this.poll(() => this.sample(), METRICS_MS);
  }

  /** Asks again and again while the page can be seen. A server that does not answer is asked again later. */
  async poll(ask, pause) {
    for (;;) {
      if (!document.hidden) await ask().catch((error) => this.fault(error));
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  fault(error) {
    this.table.replaceChildren(el("div", { class: "empty small" }, `The server does not answer: ${error.message}`));
  }

  show(isShown) {
    this.isShown = isShown;
    if (isShown) this.drawCharts();
  }

  async list() {
    const running = await statements();
    this.counted(running.length);
    if (this.isShown) this.drawList(running);
  }

  drawList(running) {
    if (!running.length) {
      this.table.replaceChildren(el("div", { class: "empty small" }, "Nothing runs at the moment."));
      return;
    }
    const head = ["", "statement", "user", "protocol", "time", "progress", ""];
    const lines = running.map((statement) => {
      const { progress } = statement;
      const share = progress?.rows_total ? Math.min(progress.rows_done / progress.rows_total, 1) : null;
      const facts = progress ? progressText(progress) : "";
      const stop = button("Cancel", {
        class: "small danger",
        onclick: (event) => {
          event.target.disabled = true;
          cancel(statement.id).catch((error) => this.fault(error));
        },
      });
      return el(
        "div",
        { class: "running-row" },
        el("div", { class: "dim" }, `${statement.id}`),
        el("div", { class: "running-text", title: statement.text }, statement.text.replace(/\s+/g, " ")),
        el("div", { title: statement.client ?? "" }, statement.user ?? "–"),
        el("div", {}, statement.protocol ?? "–"),
        el("div", { class: "number" }, duration(statement.seconds * 1e3)),
        el(
          "div",
          { class: "running-progress" },
          el(
            "div",
            { class: "progress" },
            el("div", { class: share === null ? "bar unknown" : "bar", style: { width: `${(share ?? 0) * 100}%` } }),
          ),
          el("span", { class: "dim" }, facts),
        ),
        stop,
      );
    });
    // A button that is pressed must not be replaced under the pointer.
    if (this.table.querySelector("button:active")) return;
    this.table.replaceChildren(
      el(
        "div",
        { class: "running-row head" },
        head.map((name) => el("div", {}, name)),
      ),
      ...lines,
    );
  }

  async sample() {
    const values = await metrics();
    this.samples.push({ at: Date.now() / 1e3, values });
    if (this.samples.length > POINTS_MAX) this.samples.shift();
    if (this.isShown) this.drawCharts();
  }

  lines(chart) {
    const times = this.samples.map((sample) => sample.at);
    const lists = chart.lines.map(([, name]) =>
      this.samples.map((sample, index) => {
        const value = sample.values[name] ?? null;
        if (!chart.rate || value === null) return value;
        const before = this.samples[index - 1];
        return before ? Math.max(value - before.values[name], 0) / (sample.at - before.at) : null;
      }),
    );
    return [times, ...lists];
  }

  drawCharts() {
    if (!this.isShown || !this.samples.length) return;
    const last = this.samples.at(-1).values;
    this.drawTiles(last);
    for (const entry of this.places) {
      const { chart, place, now } = entry;
      const data = this.lines(chart);
      now.textContent = chart.lines
        .map(([label], index) => {
          const value = data[index + 1].at(-1);
          return `${label} ${value === null || value === undefined ? "–" : chart.unit(value)}`;
        })
        .join(" · ");
      const key = `${place.clientWidth} ${document.documentElement.dataset.theme}`;
      if (!entry.plot || entry.key !== key) {
        entry.plot?.destroy();
        entry.key = key;
        entry.plot = this.makePlot(chart, place, data);
      } else entry.plot.setData(data);
    }
  }

  makePlot(chart, place, data) {
    const colors = ["--c1", "--c2", "--c3"];
    const series = chart.lines.map(([label], index) => {
      const color = CSS(colors[index]);
      return {
        label,
        stroke: color,
        width: 1.5,
        points: { show: false },
        fill: chart.lines.length === 1 ? `${color}22` : undefined,
      };
    });
    return new uPlot(
      {
        width: Math.max(place.clientWidth, 150),
        height: 140,
        legend: { show: false },
        cursor: { y: false, points: { size: 5 } },
        scales: {
          x: { range: (_, from, to) => [Math.min(from, to - SPAN_SECONDS_MIN), to] },
          y: { range: (_, low, high) => [0, Math.max(high ?? 0, chart.unit === bytes ? 1024 : 1) * 1.1] },
        },
        padding: [8, 8, 0, 0],
        axes: axes({
          x: { values: (_, ticks) => ticks.map((tick) => clock(new Date(tick * 1e3))), size: 24, space: 90 },
          y: {
            values: (_, ticks) => ticks.map(chart.unit),
            size: 60,
            ...(chart.unit === bytes ? { incrs: POWERS } : {}),
          },
        }),
        series: [{ value: (_, at) => (at ? timeText(at) : "") }, ...series],
      },
      data,
      place,
    );
  }

  drawTiles(last) {
    const tile = (name, value, more = "") =>
      el(
        "div",
        { class: "tile" },
        el("div", { class: "tile-name" }, name),
        el("div", { class: "tile-value" }, value),
        el("div", { class: "dim" }, more),
      );
    const [used, limit, peak] = ["rowmill_memory_bytes", "rowmill_memory_limit_bytes", "rowmill_memory_peak_bytes"].map(
      (name) => last[name] ?? 0,
    );
    this.tiles.replaceChildren(
      tile("Memory", bytes(used), `peak ${bytes(peak)} of ${bytes(limit)}`),
      tile(
        "Temporary files",
        bytes(last.rowmill_temporary_bytes ?? 0),
        `limit ${bytes(last.rowmill_temporary_limit_bytes ?? 0)}`,
      ),
      tile(
        "Statements",
        count(
          (last['rowmill_statements_total{protocol="pg"}'] ?? 0) +
            (last['rowmill_statements_total{protocol="http"}'] ?? 0),
        ),
        `${count(last.rowmill_errors_total ?? 0)} failed`,
      ),
      tile(
        "Commits",
        count(last.rowmill_commits_total ?? 0),
        `${count(last.rowmill_checkpoints_total ?? 0)} checkpoints`,
      ),
      tile("Connections", count(last.rowmill_connections ?? 0), `${count(last.rowmill_sessions ?? 0)} sessions`),
      tile("Up for", duration((last.rowmill_uptime_seconds ?? 0) * 1e3), ""),
    );
  }
}
