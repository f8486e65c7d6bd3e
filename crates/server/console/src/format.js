// Numbers, times and types as people read them.

const COUNT = new Intl.NumberFormat("en-US");

export const count = (number) => COUNT.format(number);

/** A number of things: 1 row, 2 rows. */
export const counted = (number, thing) => `${count(number)} ${thing}${number === 1 ? "" : "s"}`;

/** The time of day. */
export const clock = (date) => date.toLocaleTimeString("en-GB");

export function bytes(number) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let [value, unit] = [number, 0];
  while (value >= 1000 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${unit === 0 || value >= 99.95 ? Math.round(value) : value.toPrecision(3)} ${units[unit]}`;
}

export function duration(milliseconds) {
  if (milliseconds < 10) return `${milliseconds.toFixed(1)} ms`;
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const [minutes, rest] = [Math.floor(seconds / 60), Math.floor(seconds % 60)];
  if (minutes < 60) return `${minutes}:${String(rest).padStart(2, "0")} min`;
  const [hours, days] = [Math.floor(minutes / 60), Math.floor(minutes / 1440)];
  return days > 0 ? `${days} d ${hours % 24} h` : `${hours} h ${minutes % 60} min`;
}

/** A short form of a large number for the axis of a chart. */
export function short(number) {
  const size = Math.abs(number);
  for (const [limit, unit] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e4, "k"],
  ]) {
    if (size >= limit) return `${+(number / (unit === "k" ? 1e3 : limit)).toPrecision(4)}${unit}`;
  }
  return `${+number.toPrecision(6)}`;
}

/** The kind of a SQL type: "number", "time", "text" or "other". */
export function kindOf(type) {
  if (/\[\]$|^STRUCT|^LIST/i.test(type)) return "other";
  if (/^(TINYINT|SMALLINT|INTEGER|BIGINT|REAL|DOUBLE|FLOAT|DECIMAL|NUMERIC|HUGEINT|U?INT)/i.test(type)) return "number";
  if (/^(TIMESTAMP|DATE)/i.test(type)) return "time";
  if (/^(TEXT|VARCHAR|UUID|BOOLEAN|TIME|IPV)/i.test(type)) return "text";
  return "other";
}

/** The seconds since 1970 of a date or timestamp as the server writes it. Without a zone, it is read as UTC. */
export function secondsOf(text) {
  if (text === null) return null;
  const iso = String(text)
    .replace(" ", "T")
    .replace(/(\.\d{3})\d+/, "$1");
  const zoned = /(Z|[+-]\d\d(:?\d\d)?)$/.test(iso) && iso.includes("T") ? iso.replace(/([+-]\d\d)$/, "$1:00") : null;
  const time = Date.parse(zoned ?? (iso.includes("T") ? `${iso}Z` : `${iso}T00:00:00Z`));
  return Number.isNaN(time) ? null : time / 1000;
}

/** A value as the text of a cell. */
export function cellText(value) {
  if (value === null) return "NULL";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
