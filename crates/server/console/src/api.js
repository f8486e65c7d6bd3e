// Requests to the server.

/** The most rows that the page takes of a result. More would fill the browser's memory and serve no reader. */
export const ROWS_MAX = 100_000;

export class ServerError extends Error {
  constructor(fields, status) {
    super(fields.message ?? "the server gave no reason");
    Object.assign(this, {
      sqlstate: fields.sqlstate,
      hint: fields.hint,
      line: fields.line,
      column: fields.column,
      status,
    });
  }
}

async function failed(response) {
  const text = await response.text();
  try {
    return new ServerError(JSON.parse(text), response.status);
  } catch {
    return new ServerError({ message: text || `status ${response.status}` }, response.status);
  }
}

/** Numbers that a JavaScript number cannot hold stay texts. */
function exact(line) {
  if (!/\d{16}|\.\d*0\b/.test(line)) return JSON.parse(line);
  return JSON.parse(line, (_, value, context) => {
    if (typeof value !== "number" || !context?.source) return value;
    return String(value) === context.source || /e/i.test(context.source) ? value : context.source;
  });
}

/**
 * Runs a statement. The rows come line by line, and `progress` is told how many there are. The request ends after
 * ROWS_MAX rows, which cancels the statement.
 */
export async function run(sql, { signal, progress = () => {}, rowsMax = ROWS_MAX } = {}) {
  const [started, stop] = [performance.now(), new AbortController()];
  signal?.addEventListener("abort", () => stop.abort());
  const headers = { "Content-Type": "application/json" };
  const response = await fetch("/query", {
    method: "POST",
    headers,
    body: JSON.stringify({ sql }),
    signal: stop.signal,
  });
  if (!response.ok) throw await failed(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const result = { columns: null, rows: [], isCut: false, notices: [], ms: 0 };
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    text += value ?? "";
    if (result.columns === null) {
      const head = /^\{"columns": (\[.*\]), "rows": \[\n/.exec(text);
      if (head) {
        result.columns = JSON.parse(head[1]);
        text = text.slice(head[0].length);
      }
    }
    if (result.columns !== null) {
      const lines = text.split("\n");
      text = lines.pop();
      for (const line of lines) {
        if (line.startsWith("[")) result.rows.push(exact(line.endsWith(",") ? line.slice(0, -1) : line));
        else text = `${line}\n${text}`;
      }
      progress(result.rows.length);
      if (result.rows.length >= rowsMax && !done) {
        result.rows.length = rowsMax;
        result.isCut = true;
        stop.abort();
        break;
      }
    }
    if (done) break;
  }
  result.ms = performance.now() - started;
  if (result.isCut) return result;
  if (result.columns === null) {
    // A statement without rows, or a result that has none: the answer is one object.
    const answer = JSON.parse(text);
    return {
      ...result,
      ...answer,
      columns: answer.columns ?? null,
      rows: answer.rows ?? [],
      notices: answer.notices ?? [],
    };
  }
  const tail = JSON.parse(`{${text.trim().replace(/^\],\s*/, "")}`);
  result.notices = tail.notices ?? [];
  if (tail.error) throw new ServerError(tail.error, 200);
  return result;
}

/** Runs a query of the page itself. Returns its rows as objects. */
export async function rows(sql) {
  const { columns, rows: found } = await run(sql);
  return found.map((row) => Object.fromEntries(columns.map((column, index) => [column.name, row[index]])));
}

export async function statements() {
  const response = await fetch("/statements");
  if (!response.ok) throw await failed(response);
  return (await response.json()).statements;
}

export async function cancel(id) {
  const response = await fetch(`/statements/${id}`, { method: "DELETE" });
  // A statement that has ended in the meantime needs no cancelling.
  if (!response.ok && response.status !== 404) throw await failed(response);
}

/** The counters of the server, by name; labels are part of the name. */
export async function metrics() {
  const response = await fetch("/metrics");
  if (!response.ok) throw await failed(response);
  const lines = (await response.text()).split("\n").filter((line) => line && !line.startsWith("#"));
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.split(" ").pop())]));
}

/** Sends a file to a table. `progress` is told the share that has been sent. */
export function importFile(file, table, parameters, progress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/import/${encodeURIComponent(table)}?${new URLSearchParams(parameters)}`);
    request.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    request.onerror = () => reject(new ServerError({ message: "the connection to the server broke" }, 0));
    request.onabort = () => reject(new DOMException("cancelled", "AbortError"));
    request.onload = () => {
      let answer = {};
      try {
        answer = JSON.parse(request.responseText);
      } catch {
        answer = { message: request.responseText };
      }
      if (request.status === 200) resolve(answer);
      else reject(new ServerError(answer, request.status));
    };
    signal?.addEventListener("abort", () => request.abort());
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.send(file);
  });
}

export const exportUrl = (parameters) => `/export?${new URLSearchParams(parameters)}`;
