/** Numbers in words. */

const NUMBER = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 5 });
const SHORT = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });
const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const numberText = (value) =>
  Number.isFinite(value) ? (Math.abs(value) >= 1e4 ? WHOLE : NUMBER).format(value) : "–";

export const shortText = (value) => (Number.isFinite(value) ? SHORT.format(value) : "–");

export const countText = (value) => (Number.isFinite(value) ? WHOLE.format(value) : "–");

export const percentText = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(0)} %` : "–");

/** A count with its noun: 1 stream, 2 streams. */
export const counted = (count, noun) => `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;

/** A short time in the unit that suits it. */
export function durationText(milliseconds) {
  if (!Number.isFinite(milliseconds)) return "–";
  if (milliseconds < 1) return `${Math.round(1000 * milliseconds)} µs`;
  return milliseconds < 1000 ? `${shortText(milliseconds)} ms` : `${shortText(milliseconds / 1000)} s`;
}

/** A long time in its two largest units: 3 d 4 h. */
export function uptimeText(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const whole = Math.floor(seconds);
  const [days, hours, minutes] = [
    Math.floor(whole / 86400),
    Math.floor(whole / 3600) % 24,
    Math.floor(whole / 60) % 60,
  ];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${whole % 60} s` : `${whole} s`;
}

/** How long ago: now, 12 s, 3 min. */
export function agoText(seconds) {
  if (seconds === null) return "–";
  if (seconds < 2) return "now";
  if (seconds < 60) return `${Math.round(seconds)} s`;
  return seconds < 3600 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

export function bytesText(bytes) {
  if (!Number.isFinite(bytes)) return "–";
  for (const [unit, size] of [
    ["GB", 1024 ** 3],
    ["MB", 1024 ** 2],
    ["KB", 1024],
  ])
    if (bytes >= size) return `${shortText(bytes / size)} ${unit}`;
  return `${bytes} bytes`;
}

/** A number of rows in words: as a time if it is known how far they are apart. */
export function rowsText(rows, seconds) {
  if (!seconds) return counted(rows, "token");
  const total = rows * seconds;
  for (const [name, size] of [
    ["week", 604800],
    ["day", 86400],
    ["hour", 3600],
    ["minute", 60],
  ])
    if (total >= size && total % size === 0) return counted(total / size, name);
  return `${shortText(total)} seconds`;
}
