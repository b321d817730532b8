/** Numbers and models in words. */

const NUMBER = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 });
const SHORT = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });

export const numberText = (value) =>
  Number.isFinite(value) ? NUMBER.format(Math.abs(value) >= 1e5 ? Math.round(value) : value) : "–";

export const shortText = (value) => (Number.isFinite(value) ? SHORT.format(value) : "–");

/** A time in the unit that suits it. */
export function durationText(milliseconds) {
  if (!Number.isFinite(milliseconds)) return "–";
  return milliseconds < 1 ? `${Math.round(1000 * milliseconds)} µs` : `${shortText(milliseconds)} ms`;
}

export function bytesText(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  return bytes < 1024 ** 2 ? `${shortText(bytes / 1024)} KB` : `${shortText(bytes / 1024 ** 2)} MB`;
}

/** A number of rows in words: as a time if it is known how far they are apart. */
export function rowsText(rows, seconds, unit = "row") {
  if (!seconds) return `${rows.toLocaleString("en-US")} ${unit}${rows === 1 ? "" : "s"}`;
  const total = rows * seconds;
  for (const [name, size] of [
    ["week", 604800],
    ["day", 86400],
    ["hour", 3600],
    ["minute", 60],
  ]) {
    if (total >= size && total % size === 0) return `${total / size} ${name}${total === size ? "" : "s"}`;
  }
  return `${shortText(total)} seconds`;
}

export const percentText = (share) => `${(100 * share).toFixed(0)} %`;

/** A model in one sentence. */
export function modelText({ card, bytes }) {
  const task = card.info.task ?? "model";
  const window = card.window ? `, a window of ${card.window.toLocaleString("en-US")} tokens` : "";
  return `${task[0].toUpperCase()}${task.slice(1)}${window}, ${bytesText(bytes)}.`;
}
