// Makes elements. Text is always set as text, so no value of a table can become markup.

export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(node.style, value);
    else if (name in node && name !== "list") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const button = (label, props = {}) => el("button", { type: "button", ...props }, label);

const PATHS = {
  play: "M5 3.5v9l8-4.5z",
  stop: "M4 4h8v8H4z",
  tree: "M3 3h4v3H3zM9 7h4v3H9zM9 12h4v3H9zM5 6v7.5h4M5 8.5h4",
  table: "M2.5 3.5h11v9h-11zM2.5 6.5h11M6 6.5v6",
  view: "M1.5 8s2.5-4.5 6.5-4.5S14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8zM8 6a2 2 0 1 0 0 4 2 2 0 0 0 0-4z",
  refresh: "M13 8a5 5 0 1 1-1.5-3.6M13 2.5v3h-3",
  upload: "M8 11V3M4.8 6 8 2.8 11.2 6M3 13.2h10",
  download: "M8 3v8M4.8 8 8 11.2 11.2 8M3 13.2h10",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5z",
  auto: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 1 1 0 11",
  chevron: "M6 4l4 4-4 4",
  close: "M4 4l8 8M12 4l-8 8",
};
const FILLED = new Set(["play", "stop"]);

/** A small picture of 16 by 16 pixels. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", FILLED.has(name) ? "icon filled" : "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** A value that stays in the browser from one visit to the next. */
export function stored(name, fallback) {
  const key = `rowmill.${name}`;
  return {
    get() {
      try {
        const text = localStorage.getItem(key);
        return text === null ? fallback : JSON.parse(text);
      } catch {
        return fallback;
      }
    },
    set(value) {
      try {
        localStorage.setItem(key, JSON.stringify(value));
      } catch {
        // The store is full or forbidden; the value lives as long as the page.
      }
    },
  };
}
