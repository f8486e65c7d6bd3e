// Files that are dropped onto the page.

import { importFile, statements } from "./api.js";
import { button, el, icon } from "./dom.js";
import { bytes, counted } from "./format.js";

const ENDINGS = {
  csv: "csv",
  tsv: "csv",
  txt: "csv",
  json: "json",
  jsonl: "json",
  ndjson: "json",
  parquet: "parquet",
  pq: "parquet",
  arrow: "arrow",
  arrows: "arrow",
  feather: "arrow",
  ipc: "arrow",
};

/** What the name of a file tells: the format, the compression and a name for its table. */
export function guess(name) {
  const packed = /\.(gz|zst)$/i.exec(name)?.[1].toLowerCase();
  const plain = name.replace(/\.(gz|zst)$/i, "");
  const ending = /\.([^.]+)$/.exec(plain)?.[1].toLowerCase() ?? "";
  const table = plain
    .replace(/\.[^.]+$/, "")
    .toLowerCase()
    .replace(/[^a-z0-9_]+/g, "_")
    .replace(/^_+|_+$/g, "");
  return {
    format: ENDINGS[ending] ?? "csv",
    compression: packed === "gz" ? "gzip" : packed === "zst" ? "zstd" : "none",
    delimiter: ending === "tsv" ? "\\t" : "",
    table: /^[a-z_]/.test(table) ? table : `t_${table}`,
  };
}

export class ImportDialog {
  /** `done` is told the table after an import. */
  constructor(done) {
    this.done = done;
    this.dialog = el("dialog", { class: "import" });
    this.veil = el("div", { class: "veil", hidden: true }, el("div", {}, icon("upload"), "Drop files to import them"));
    this.picker = el("input", {
      type: "file",
      multiple: true,
      hidden: true,
      onchange: () => this.take([...this.picker.files]),
    });
    document.body.append(this.dialog, this.veil, this.picker);
    this.dialog.addEventListener("close", () => this.stop?.abort());
    let depth = 0;
    const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    addEventListener("dragenter", (event) => hasFiles(event) && (depth++, (this.veil.hidden = false)));
    addEventListener("dragleave", () => (depth = Math.max(depth - 1, 0)) || (this.veil.hidden = true));
    addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
    addEventListener("drop", (event) => {
      depth = 0;
      this.veil.hidden = true;
      if (!hasFiles(event)) return;
      event.preventDefault();
      this.take([...event.dataTransfer.files]);
    });
  }

  pick() {
    this.picker.value = "";
    this.picker.click();
  }

  /** Asks for the options of each file, one after the other. */
  async take(files) {
    for (const file of files) await this.ask(file);
  }

  ask(file) {
    const guessed = guess(file.name);
    const field = (label, input) => el("label", {}, el("span", {}, label), input);
    const select = (name, options, value) =>
      el(
        "select",
        { name },
        options.map((option) => el("option", { value: option, selected: option === value }, option)),
      );
    const message = el("div", { class: "import-message", role: "status" });
    const bar = el("div", { class: "bar" });
    const progress = el("div", { class: "progress", hidden: true }, bar);
    const start = el("button", { type: "submit", class: "primary" }, "Import");
    const close = button("Close", { onclick: () => this.dialog.close() });
    const onlyText = el(
      "div",
      { class: "import-text" },
      field(
        "Delimiter",
        el("input", { name: "delimiter", value: guessed.delimiter, placeholder: "found by itself", size: 12 }),
      ),
      field("First line has names", select("header", ["auto", "true", "false"], "auto")),
      field("Text of NULL", el("input", { name: "null_string", placeholder: "empty", size: 12 })),
    );
    const form = el(
      "form",
      {
        method: "dialog",
        onsubmit: (event) => {
          event.preventDefault();
          this.send(file, form, { message, bar, progress, start, close });
        },
      },
      el("h2", {}, "Import ", el("span", { class: "dim" }, `${file.name} · ${bytes(file.size)}`)),
      el(
        "div",
        { class: "fields" },
        field(
          "Table",
          el("input", { name: "table", value: guessed.table, required: true, autofocus: true, spellcheck: false }),
        ),
        field("Format", select("format", ["csv", "json", "parquet", "arrow"], guessed.format)),
        field("Compression", select("compression", ["none", "gzip", "zstd"], guessed.compression)),
        onlyText,
        el(
          "label",
          { class: "check" },
          el("input", { type: "checkbox", name: "create", checked: true }),
          "Make the table if there is none",
        ),
        el(
          "label",
          { class: "check" },
          el("input", { type: "checkbox", name: "skip" }),
          "Keep bad lines in a table instead of stopping",
        ),
      ),
      progress,
      message,
      el("div", { class: "buttons" }, close, start),
    );
    const format = form.elements.format;
    const adapt = () => {
      onlyText.hidden = format.value !== "csv";
      form.elements.skip.closest("label").hidden = !["csv", "json"].includes(format.value);
      form.elements.compression.closest("label").hidden = !["csv", "json"].includes(format.value);
    };
    format.addEventListener("change", adapt);
    adapt();
    this.dialog.replaceChildren(form);
    this.dialog.showModal();
    return new Promise((resolve) => this.dialog.addEventListener("close", resolve, { once: true }));
  }

  async send(file, form, { message, bar, progress, start, close }) {
    const fields = Object.fromEntries(new FormData(form));
    const isText = ["csv", "json"].includes(fields.format);
    const parameters = { format: fields.format };
    if (fields.create) parameters.create = "true";
    if (isText && fields.compression !== "none") parameters.compression = fields.compression;
    if (fields.format === "csv" && fields.delimiter) parameters.delimiter = fields.delimiter;
    if (fields.format === "csv" && fields.header !== "auto") parameters.header = fields.header;
    if (fields.format === "csv" && fields.null_string) parameters.null_string = fields.null_string;
    const rejects = `${fields.table}_rejects`;
    if (isText && fields.skip) Object.assign(parameters, { on_error: "skip", reject_table: rejects });
    this.stop = new AbortController();
    this.isSent = false;
    const watch = setInterval(() => this.watch(fields.table, bar, message), 400);
    [start.disabled, progress.hidden, message.textContent] = [true, false, "Sending …"];
    message.classList.remove("failed");
    try {
      const told = (share) => {
        bar.style.width = `${share * 100}%`;
        this.isSent = share === 1;
      };
      const sent = importFile(file, fields.table, parameters, told, this.stop.signal);
      const { rows, created, notices } = await sent.finally(() => (this.isSent = false));
      const where = created ? `${fields.table}, which is new` : fields.table;
      message.textContent = [`${counted(rows, "row")} went into ${where}.`, ...(notices ?? [])].join(" ");
      this.done(fields.table);
      start.hidden = true;
      close.classList.add("primary");
      close.focus();
    } catch (error) {
      message.textContent = error.hint ? `${error.message} ${error.hint}` : error.message;
      message.classList.add("failed");
    }
    clearInterval(watch);
    [start.disabled, progress.hidden] = [false, true];
  }

  /** Shows how far the server is with a file that has been sent. */
  async watch(table, bar, message) {
    if (!this.isSent) return;
    const all = await statements().catch(() => []);
    const copy = all.find((one) => one.text.startsWith("COPY ") && one.text.includes(`"${table}"`));
    // The import may have ended while the server answered.
    if (!copy?.progress || !this.isSent) return;
    const { rows_done: done, rows_total: total } = copy.progress;
    message.textContent = `Loading … ${counted(done, "row")}`;
    if (total) bar.style.width = `${Math.min(done / total, 1) * 100}%`;
  }
}
