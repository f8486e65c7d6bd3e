// The parts of the page.

import { button, el, icon } from "./dom.js";

/** Makes the parts below `parent`. `page` has what they do. Returns the parts that change later, by name. */
export function makeLayout(parent, page) {
  const parts = {};
  parts.side = el("aside", { class: "side", "aria-label": "Tables and history" });
  parts.editorPlace = el("div", { class: "editor" });
  parts.status = el("div", { class: "status", role: "status" });
  parts.runButton = el(
    "button",
    {
      type: "button",
      class: "primary",
      title: "Run the statement at the cursor (Ctrl-Enter)",
      onclick: () => page.runCurrent(),
    },
    icon("play"),
    "Run",
  );
  parts.stopButton = el(
    "button",
    { type: "button", class: "danger", title: "Cancel (Escape)", hidden: true, onclick: () => page.cancel() },
    icon("stop"),
    "Cancel",
  );
  parts.exports = el(
    "select",
    {
      class: "export",
      title: "Save the result of the last query as a file",
      disabled: true,
      onchange: () => page.export(),
    },
    el("option", { value: "" }, "Export"),
    [
      ["csv", "CSV"],
      ["ndjson", "Lines of JSON"],
      ["parquet", "Parquet"],
      ["arrow", "Arrow"],
    ].map(([value, name]) => el("option", { value }, name)),
  );
  const toolbar = el(
    "div",
    { class: "toolbar" },
    parts.runButton,
    parts.stopButton,
    button("Run all", { title: "Run all statements in order (Ctrl-Shift-Enter)", onclick: () => page.runAll() }),
    button("Explain", {
      title: "Run the query and show its plan with times (Ctrl-Alt-Enter)",
      onclick: () => page.explain(),
    }),
    el("span", { class: "grow" }),
    el(
      "button",
      {
        type: "button",
        title: "Import a file; files can also be dropped onto the page",
        onclick: () => page.imports.pick(),
      },
      icon("upload"),
      "Import",
    ),
    parts.exports,
  );
  parts.panels = Object.fromEntries(
    ["Table", "Chart", "Plan", "Storage"].map((name) => [
      name,
      el("div", { class: `panel ${name.toLowerCase()}-panel` }),
    ]),
  );
  const pick = (name) => (name === "Storage" && !page.stored ? page.storage(null) : page.pick(name));
  parts.tabs = Object.keys(parts.panels).map((name) =>
    el("button", { type: "button", role: "tab", onclick: () => pick(name) }, name),
  );
  parts.runProgress = el("div", { class: "run-progress", hidden: true }, el("div", { class: "bar unknown" }));
  parts.message = el("div", { class: "message", hidden: true });
  const results = el(
    "section",
    { class: "results", "aria-label": "Result" },
    el("div", { class: "result-head" }, el("div", { class: "tabs", role: "tablist" }, parts.tabs), parts.status),
    parts.runProgress,
    parts.message,
    Object.values(parts.panels),
  );
  const split = el("div", { class: "split", role: "separator", "aria-label": "Height of the editor" });
  const sideSplit = el("div", { class: "side-split", role: "separator", "aria-label": "Width of the list" });
  parts.queryPlace = el("main", { class: "query" }, toolbar, parts.editorPlace, split, results);
  parts.activityPlace = el("main", { class: "activity" });
  parts.badge = el("span", { class: "badge" });
  parts.views = ["Query", "Activity"].map((name) =>
    el(
      "button",
      { type: "button", class: "view", onclick: () => page.view(name) },
      name,
      name === "Activity" ? parts.badge : null,
    ),
  );
  parts.themeButton = el("button", { type: "button", class: "icon-button", onclick: () => page.nextTheme() });
  const header = el(
    "header",
    {},
    el("div", { class: "brand" }, el("img", { src: "/console/icon.svg", alt: "", width: 18, height: 18 }), "Rowmill"),
    el("nav", {}, parts.views),
    el("span", { class: "grow" }),
    el("a", { href: "/openapi.json", target: "_blank", class: "dim-link" }, "API"),
    el("a", { href: "/console/licenses.txt", target: "_blank", class: "dim-link" }, "Licences"),
    parts.themeButton,
  );
  parent.append(header, el("div", { class: "body" }, parts.side, sideSplit, parts.queryPlace, parts.activityPlace));
  drag(split, (event) => page.setSizes({ editor: event.clientY - parts.editorPlace.getBoundingClientRect().top }));
  drag(sideSplit, (event) => page.setSizes({ side: event.clientX }));
  return parts;
}

/** Calls `move` while the pointer drags `handle`. */
function drag(handle, move) {
  handle.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    handle.setPointerCapture(event.pointerId);
    handle.addEventListener("pointermove", move);
    handle.addEventListener("pointerup", () => handle.removeEventListener("pointermove", move), { once: true });
  });
}
