// Results as charts.

import uPlot from "uplot";
import { el } from "./dom.js";
import { cellText, kindOf, secondsOf, short } from "./format.js";

const KINDS = ["line", "bar", "scatter", "candlestick"];
/** More series than this cannot be told apart. */
const SERIES_MAX = 12;
const COLORS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--c8"];
const UTC = (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC");

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const number = (value) => (value === null || typeof value === "object" ? null : Number(value));

/** The texts of times on an axis, by their distance: the usual text, and the second line where a larger unit begins. */
const DAY = "\n{MM}-{DD}";
const LONG_DAY = "\n{YYYY}-{MM}-{DD}";
const TIMES = [
  [3600 * 24 * 365, "{YYYY}", null, null, null, null, null, null, 1],
  [3600 * 24 * 28, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [3600 * 24, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", LONG_DAY, null, DAY, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", LONG_DAY, null, DAY, null, null, null, 1],
  [0.001, ":{ss}.{fff}", `${LONG_DAY} {HH}:{mm}`, null, `${DAY} {HH}:{mm}`, null, "\n{HH}:{mm}", null, 1],
];

/** The axes of all charts in the colours of the page. */
export function axes(options = {}) {
  const base = {
    stroke: css("--dim"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: css("--line"), width: 1 },
    ticks: { show: false },
  };
  return [
    { ...base, size: 30, ...options.x },
    { ...base, size: 58, values: (_, ticks) => ticks.map(short), ...options.y },
  ];
}

/** Finds columns by their names without case. */
function find(columns, ...names) {
  return columns.findIndex((column) => names.includes(column.name.toLowerCase()));
}

/** Chooses what a chart of a result shows. Returns null if the result has no numbers. */
export function choose({ columns, rows }) {
  const kinds = columns.map((column) => kindOf(column.type));
  const of = (kind) => kinds.flatMap((found, index) => (found === kind ? [index] : []));
  const [times, texts] = [of("time"), of("text")];
  // Numbers that name something come last, because their size means nothing.
  const isKey = (index) => /(^|_)id$/i.test(columns[index].name);
  const numbers = of("number").sort((one, other) => isKey(one) - isKey(other));
  if (!numbers.length || !rows.length) return null;
  const prices = [
    find(columns, "open", "o"),
    find(columns, "high", "h"),
    find(columns, "low", "l"),
    find(columns, "close", "c"),
  ];
  if (times.length && prices.every((index) => index >= 0)) {
    return { kind: "candlestick", x: times[0], y: prices, series: -1 };
  }
  if (times.length) {
    const series = texts.find((index) => new Set(rows.map((row) => row[index])).size <= SERIES_MAX) ?? -1;
    return { kind: "line", x: times[0], y: series >= 0 ? numbers.slice(0, 1) : alike(numbers, rows), series };
  }
  if (texts.length) return { kind: "bar", x: texts[0], y: alike(numbers, rows).slice(0, 4), series: -1 };
  if (numbers.length === 1) return { kind: "bar", x: -1, y: numbers, series: -1 };
  const ordered = rows.every(
    (row, index) => index === 0 || number(rows[index - 1][numbers[0]]) <= number(row[numbers[0]]),
  );
  return { kind: ordered ? "line" : "scatter", x: numbers[0], y: alike(numbers.slice(1), rows), series: -1 };
}

/** Columns that one scale can show together with the first: their largest values differ by no more than 30 times. */
function alike(indexes, rows) {
  const largest = (index) => rows.reduce((most, row) => Math.max(most, Math.abs(number(row[index]) || 0)), 0);
  const first = largest(indexes[0]);
  const isAlike = (index) => largest(index) <= first * 30 && largest(index) >= first / 30;
  return indexes.filter((index, place) => place === 0 || isAlike(index)).slice(0, SERIES_MAX);
}

/** Returns the values of a chart: x, one list for each series, and the labels of x if it has no scale. */
function values({ columns, rows }, choice) {
  const kind = choice.x < 0 ? "none" : kindOf(columns[choice.x].type);
  const isScaled = kind === "time" || kind === "number";
  const labels = isScaled
    ? null
    : rows.map((row, index) => (choice.x < 0 ? String(index + 1) : cellText(row[choice.x])));
  const xOf = kind === "time" ? (row) => secondsOf(row[choice.x]) : (row) => number(row[choice.x]);
  if (!isScaled) {
    const names = choice.y.map((index) => columns[index].name);
    return {
      x: rows.map((_, index) => index),
      lists: choice.y.map((index) => rows.map((row) => number(row[index]))),
      names,
      labels,
      isTime: false,
    };
  }
  const points = rows.map((row) => ({ x: xOf(row), row })).filter((point) => point.x !== null);
  points.sort((one, other) => one.x - other.x);
  if (choice.series < 0) {
    const lists = choice.y.map((index) => points.map(({ row }) => number(row[index])));
    return {
      x: points.map((point) => point.x),
      lists,
      names: choice.y.map((index) => columns[index].name),
      labels,
      isTime: kind === "time",
    };
  }
  // Rows of several series may share an x, so they meet at its place.
  const x = [...new Set(points.map((point) => point.x))];
  const place = new Map(x.map((value, index) => [value, index]));
  const bySeries = new Map();
  for (const point of points) {
    const name = cellText(point.row[choice.series]);
    if (!bySeries.has(name)) bySeries.set(name, new Array(x.length).fill(null));
    bySeries.get(name)[place.get(point.x)] = number(point.row[choice.y[0]]);
  }
  const kept = [...bySeries].slice(0, SERIES_MAX);
  return { x, lists: kept.map(([, list]) => list), names: kept.map(([name]) => name), labels, isTime: kind === "time" };
}

/** Draws each row as a candle: a line from low to high, a box from open to close. */
function drawCandles(plot) {
  const { ctx, data, bbox } = plot;
  const [x, open, high, low, close] = data;
  const y = (value) => plot.valToPos(value, "y", true);
  const width = Math.max(Math.min((bbox.width / Math.max(x.length, 1)) * 0.6, 18 * devicePixelRatio), 1);
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (let i = 0; i < x.length; i++) {
    if ([open[i], high[i], low[i], close[i]].some((value) => value === null)) continue;
    ctx.fillStyle = css(close[i] >= open[i] ? "--up" : "--down");
    const center = plot.valToPos(x[i], "x", true);
    ctx.fillRect(Math.round(center - devicePixelRatio / 2), y(high[i]), devicePixelRatio, y(low[i]) - y(high[i]));
    const [top, bottom] = [y(Math.max(open[i], close[i])), y(Math.min(open[i], close[i]))];
    ctx.fillRect(center - width / 2, top, width, Math.max(bottom - top, devicePixelRatio));
  }
  ctx.restore();
}

/** Bars of several series stand side by side. */
function barPaths(place, count) {
  const share = 0.72 / count;
  return (plot, series, from, to) => {
    const [x, list] = [plot.data[0], plot.data[series]];
    const step =
      x.length > 1
        ? Math.min(
            ...x
              .slice(1)
              .map((value, index) => value - x[index])
              .filter((gap) => gap > 0),
          )
        : 1;
    const path = new Path2D();
    const zero = plot.valToPos(Math.max(plot.scales.y.min, 0), "y", true);
    for (let i = from; i <= to; i++) {
      if (list[i] === null || list[i] === undefined) continue;
      const left = plot.valToPos(x[i] + step * (share * place - 0.36), "x", true);
      const right = plot.valToPos(x[i] + step * (share * (place + 1) - 0.36), "x", true);
      const top = plot.valToPos(list[i], "y", true);
      path.rect(
        left,
        Math.min(top, zero),
        Math.max(right - left - devicePixelRatio * (count > 1), 1),
        Math.max(Math.abs(zero - top), 1),
      );
    }
    return { fill: path, stroke: null };
  };
}

function seriesOf(choice, names) {
  return names.map((label, index) => {
    const color = css(COLORS[index % COLORS.length]);
    const value = (_, shown) => (shown === null || shown === undefined ? "–" : short(shown));
    const base = { label, stroke: color, value, width: 1.5, spanGaps: true };
    if (choice.kind === "bar")
      return { ...base, fill: color, width: 0, paths: barPaths(index, names.length), points: { show: false } };
    if (choice.kind === "scatter")
      return { ...base, paths: () => null, points: { show: true, size: 6, fill: color, width: 0 } };
    if (choice.kind === "candlestick") return { ...base, paths: () => null, points: { show: false } };
    return { ...base, points: { show: false } };
  });
}

export class Chart {
  constructor(parent) {
    this.controls = el("div", { class: "chart-controls" });
    this.place = el("div", { class: "chart-place" });
    parent.append(this.controls, this.place);
    new ResizeObserver(() => this.resize()).observe(this.place);
  }

  show(result) {
    this.result = result;
    this.choice = result.columns ? choose(result) : null;
    this.drawControls();
    this.draw();
  }

  drawControls() {
    const { choice, result } = this;
    if (!choice) return this.controls.replaceChildren();
    const columns = result.columns;
    const named = (wanted) =>
      columns.flatMap((column, index) => (wanted.includes(kindOf(column.type)) ? [[index, column.name]] : []));
    const change = (fields) => {
      Object.assign(choice, fields);
      this.drawControls();
      this.draw();
    };
    const select = (label, options, value, onpick) =>
      el(
        "label",
        {},
        el("span", {}, label),
        el(
          "select",
          { onchange: (event) => onpick(event.target.value) },
          options.map(([id, text]) => el("option", { value: id, selected: String(id) === String(value) }, text)),
        ),
      );
    const kinds = KINDS.filter((kind) => kind !== "candlestick" || choose(result)?.kind === "candlestick");
    const pick = (kind) => {
      const prices = choose(result);
      change(
        kind === "candlestick"
          ? { ...prices, kind }
          : { kind, y: choice.kind === "candlestick" ? choice.y.slice(3) : choice.y },
      );
    };
    const isOne = choice.series >= 0;
    const ys = named(["number"]).map(([index, name]) =>
      el(
        "label",
        { class: "check" },
        el("input", {
          type: isOne ? "radio" : "checkbox",
          name: "y",
          checked: choice.y.includes(index),
          onchange: (event) => {
            const rest = choice.y.filter((one) => one !== index);
            change({ y: isOne ? [index] : event.target.checked ? [...rest, index].sort((a, b) => a - b) : rest });
          },
        }),
        name,
      ),
    );
    this.controls.replaceChildren(
      el(
        "div",
        { class: "segments", role: "group", "aria-label": "Kind of chart" },
        kinds.map((kind) =>
          el("button", { type: "button", class: kind === choice.kind ? "on" : "", onclick: () => pick(kind) }, kind),
        ),
      ),
      ...(choice.kind === "candlestick"
        ? []
        : [
            select("x", [[-1, "row number"], ...named(["time", "number", "text"])], choice.x, (x) =>
              change({ x: Number(x) }),
            ),
            select("series", [[-1, "none"], ...named(["text"])], choice.series, (index) =>
              change({ series: Number(index), y: Number(index) >= 0 ? choice.y.slice(0, 1) : choice.y }),
            ),
            el("div", { class: "checks" }, el("span", { class: "caption" }, "y"), ys),
          ]),
    );
  }

  draw() {
    this.plot?.destroy();
    this.plot = null;
    const { choice, result } = this;
    if (!choice || !choice.y.length) {
      const why = result?.columns ? "A chart needs a column of numbers." : "Run a query to see a chart of its rows.";
      this.place.replaceChildren(el("div", { class: "empty" }, why));
      return;
    }
    this.place.replaceChildren();
    const { x, lists, names, labels, isTime } = values(result, choice);
    const padded = choice.kind === "bar" || choice.kind === "candlestick" || labels !== null;
    const gap = x.length > 1 ? (x[x.length - 1] - x[0]) / (x.length - 1) : 1;
    const series = seriesOf(choice, names);
    const isBar = choice.kind === "bar";
    const options = {
      ...this.size(),
      tzDate: UTC,
      legend: { live: true },
      cursor: { points: { size: 6 }, y: false },
      scales: {
        x: { time: isTime, range: padded ? (_, from, to) => [from - gap * 0.6, to + gap * 0.6] : undefined },
        y: {
          range: (_, from, to) => {
            if (from === null) return [0, 1];
            const space = (to - from || Math.abs(to) || 1) * 0.06;
            return [isBar && from >= 0 ? 0 : from - space, isBar && to <= 0 ? 0 : to + space];
          },
        },
      },
      padding: [12, 18, 0, 4],
      axes: axes({
        x:
          labels === null
            ? isTime
              ? { values: TIMES, size: 42 }
              : {}
            : {
                splits: (plot) => {
                  const every = Math.max(Math.ceil(x.length / Math.max(plot.width / 90, 1)), 1);
                  return x.filter((value) => value % every === 0);
                },
                values: (_, ticks) =>
                  ticks.map((tick) =>
                    labels[tick]?.length > 14 ? `${labels[tick].slice(0, 13)}…` : (labels[tick] ?? ""),
                  ),
              },
      }),
      series: [
        {
          label: choice.x < 0 ? "row" : result.columns[choice.x].name,
          value: (_, shown) =>
            shown === null ? "–" : labels ? labels[shown] : isTime ? timeText(shown) : short(shown),
        },
        ...series,
      ],
      hooks: choice.kind === "candlestick" ? { draw: [drawCandles] } : {},
    };
    this.plot = new uPlot(options, [x, ...lists], this.place);
  }

  size() {
    // The legend below the chart takes its part.
    return { width: Math.max(this.place.clientWidth, 200), height: Math.max(this.place.clientHeight - 34, 120) };
  }

  resize() {
    if (this.plot && this.place.clientWidth > 0) this.plot.setSize(this.size());
  }
}

const timeText = (seconds) =>
  new Date(seconds * 1e3)
    .toISOString()
    .replace("T", " ")
    .replace(/(\.000)?Z$/, "");
export { timeText };
