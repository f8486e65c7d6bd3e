// The plan of EXPLAIN ANALYZE as a tree with times.

import { el } from "./dom.js";
import { count, duration } from "./format.js";

/** Reads the lines of a plan. Returns its head lines and its operators with their depths. */
export function readPlan(lines) {
  const [heads, operators] = [[], []];
  for (const line of lines.flatMap((line) => line.split("\n"))) {
    const [stem] = /^[│├└─ ]*/.exec(line);
    const text = line.slice(stem.length);
    if (!text) continue;
    const isHead = operators.length === 0 && stem === "" && (/^Executor:/.test(text) || /rows, planned in/.test(text));
    if (isHead) {
      heads.push(text);
      continue;
    }
    operators.push({ depth: Math.round(stem.length / 3), ...readOperator(text) });
  }
  // The time of an operator includes that of its inputs.
  operators.forEach((operator, index) => {
    if (operator.ms === null) return;
    let inputs = 0;
    for (let at = index + 1; at < operators.length && operators[at].depth > operator.depth; at++) {
      if (operators[at].depth === operator.depth + 1) inputs += operators[at].ms ?? 0;
    }
    operator.own = Math.max(operator.ms - inputs, 0);
  });
  return { heads, operators };
}

function readOperator(text) {
  // The measurements are the last parentheses of the line.
  const match = /^(.*?)\s\s\(([^()]*(?:\([^()]*\)[^()]*)*)\)$/.exec(text);
  const [what, facts] = match ? [match[1], match[2]] : [text, ""];
  const [, name, rest] = /^([^:]+?)(?::\s*(.*))?$/s.exec(what) ?? [null, what, ""];
  const parts = facts.split(/, /);
  const rows = /^([\d]+) (?:of ~([\d]+) )?rows/.exec(facts);
  const expected = rows?.[2] ?? /^~(\d+) rows/.exec(facts)?.[1];
  const ms = parts.map((part) => /^([\d.]+) ms$/.exec(part)?.[1]).find(Boolean);
  const others = parts.filter((part) => part && !/ ms$/.test(part) && !/rows$/.test(part.replace(/rows read$/, "")));
  return {
    name,
    rest: rest ?? "",
    others,
    own: null,
    rows: rows ? Number(rows[1]) : null,
    expected: expected ? Number(expected) : null,
    ms: ms ? Number(ms) : null,
  };
}

const OFF = 10;

export function drawPlan(parent, lines) {
  const { heads, operators } = readPlan(lines);
  const whole = Math.max(...operators.map((operator) => operator.own ?? 0), 0.001);
  const measured = operators.some((operator) => operator.ms !== null);
  const rows = operators.map((operator) => {
    const { rows: found, expected, own } = operator;
    const isOff =
      (found !== null && expected !== null && Math.max(found, 1) / Math.max(expected, 1) > OFF) ||
      (found !== null && expected !== null && Math.max(expected, 1) / Math.max(found, 1) > OFF);
    const title = isOff ? "The planner expected another number of rows" : "";
    return el(
      "div",
      { class: "plan-row" },
      el(
        "div",
        { class: "plan-name", style: { paddingLeft: `${operator.depth * 18}px` } },
        operator.depth ? el("span", { class: "plan-stem" }, "└") : null,
        el("b", {}, operator.name),
        el("span", { class: "plan-rest", title: operator.rest }, operator.rest),
      ),
      el(
        "div",
        { class: isOff ? "plan-rows off" : "plan-rows", title },
        found === null ? "" : count(found),
        expected === null ? null : el("span", { class: "dim" }, ` / ~${count(expected)}`),
      ),
      measured
        ? el(
            "div",
            { class: "plan-time" },
            el("div", { class: "bar", style: { width: `${((own ?? 0) / whole) * 100}%` } }),
            el("span", {}, own === null ? "" : duration(own)),
          )
        : null,
      el("div", { class: "plan-facts", title: operator.others.join("\n") }, operator.others.join(" · ")),
    );
  });
  const head = el(
    "div",
    { class: "plan-row head" },
    el("div", {}, "operator"),
    el("div", { class: "plan-rows" }, "rows / expected"),
    measured ? el("div", {}, "own time") : null,
    el("div", {}, "measurements"),
  );
  parent.replaceChildren(
    el("div", { class: "plan-heads" }, heads.join("  ·  ")),
    el("div", { class: measured ? "plan" : "plan unmeasured" }, head, ...rows),
  );
}
