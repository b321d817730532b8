/** Times of records, as microseconds since 1970. */

import { isEmpty } from "./fields.js";

const EPOCHS = { seconds: 1e6, milliseconds: 1e3, microseconds: 1, nanoseconds: 1e-3 };
const [MIN_EPOCH, MAX_EPOCH] = [3.2e14, 4.2e15]; // 1980 and 2103: other numbers are not times
const DIGITS = { "%Y%m%d": 8, "%Y%m%d%H": 10, "%Y%m%d%H%M": 12, "%Y%m%d%H%M%S": 14 };
const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const LONG_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december";

/** What matches each directive of a format, as in Python's strptime. */
const DIRECTIVES = {
  d: "(?<day>3[01]|[12]\\d|0?[1-9]| [1-9])",
  m: "(?<month>1[0-2]|0?[1-9])",
  Y: "(?<year>\\d{4})",
  y: "(?<short>\\d{2})",
  H: "(?<hour>2[0-3]|[01]\\d|\\d)",
  I: "(?<half>1[0-2]|0?[1-9]| [1-9])",
  M: "(?<minute>[0-5]\\d|\\d)",
  S: "(?<second>6[01]|[0-5]\\d|\\d)",
  f: "(?<fraction>\\d{1,6})",
  p: "(?<noon>am|pm)",
  b: `(?<name>${MONTHS.join("|")})`,
  B: `(?<name>${LONG_MONTHS})`,
  "%": "%",
};

const DATE = "(\\d{4})(?:-(\\d{2})-(\\d{2})|(\\d{2})(\\d{2}))";
const CLOCK = "(\\d{2})(?::?(\\d{2})(?::?(\\d{2})(?:[.,](\\d+))?)?)?";
const OFFSET = "(Z|[+-]\\d{2}(?::?\\d{2}(?::?\\d{2})?)?)";
const ISO = new RegExp(`^${DATE}(?:.${CLOCK}${OFFSET}?)?$`, "s");

/**
 * Return a function that parses times in a format: "iso", "seconds" since 1970 and the like, or that of strptime.
 *
 * @param {string} form
 * @returns {(text: string) => {time: number, zoned: boolean}} It throws if text does not match the format.
 */
export function timeParser(form) {
  if (form === "iso") return (text) => withMidnight(text.trim(), parseIso);
  if (form in EPOCHS) return (text) => parseEpoch(text, form);
  const pattern = formatPattern(form);
  return (text) => withMidnight(text.trim(), (trimmed) => parseFormat(trimmed, form, pattern));
}

/** A date and a time of day as one text; null if one of them is empty. */
export function joinTime(day, clock) {
  if (isEmpty(day) || isEmpty(clock)) return null;
  return `${day.trim().replace(/[T ]0?0:00(:00(\.0+)?)?$/, "")} ${clockText(clock.trim())}`;
}

/** A time for a message or a record, such as 2024-09-13T10:00:00; the fraction is left out if it is zero. */
export function isoTime(time, zoned = false) {
  const text = new Date(Math.floor(time / 1e6) * 1000).toISOString().slice(0, 19);
  const rest = time - Math.floor(time / 1e6) * 1e6;
  return text + (rest ? `.${String(rest).padStart(6, "0")}` : "") + (zoned ? "Z" : "");
}

/** Some write midnight as 24:00 of the day that ends. */
function withMidnight(text, parse) {
  try {
    return parse(text);
  } catch (error) {
    if (!/[T ]24:00(:00)?/.test(text)) throw error;
    const { time, zoned } = parse(text.replace(/([T ])24:00/, "$100:00"));
    return { time: time + 86_400e6, zoned };
  }
}

function parseIso(text) {
  if (/^\d+$/.test(text)) throw new Error(`${text} is a number`);
  const normal = text.replace(/ ?(UTC|GMT)$/, "+00:00").replace(/ ([+-]\d{2}:?\d{2})$/, "$1");
  const match = ISO.exec(text) ?? ISO.exec(normal);
  if (!match) throw new Error("it is not in ISO 8601");
  const [, year, month, day, month2, day2, hour = "0", minute = "0", second = "0", fraction = "", offset] = match;
  const time = microseconds(year, month ?? month2, day ?? day2, hour, minute, second, fraction);
  return { time: time - offsetOf(offset), zoned: offset !== undefined };
}

function parseEpoch(text, form) {
  const number = text.trim() === "" ? NaN : Number(text) * EPOCHS[form];
  if (!(number >= MIN_EPOCH && number < MAX_EPOCH))
    throw new Error(`it is not a plausible number of ${form} since 1970`);
  return { time: Math.round(number), zoned: true };
}

function formatPattern(form) {
  const source = form.replace(/%(.?)|\s+|[.*+?^${}()|[\]\\]/g, (part, directive) => {
    if (directive === undefined) return part.trim() === "" ? "\\s+" : `\\${part}`;
    if (!(directive in DIRECTIVES)) {
      throw new Error(`reader.form='${form}' has %${directive}, which this page cannot read.`);
    }
    return DIRECTIVES[directive];
  });
  if (!form.includes("%")) throw new Error(`reader.form='${form}' is a format of times that this page cannot read.`);
  return new RegExp(`^${source}$`, "i");
}

function parseFormat(text, form, pattern) {
  const digits = DIGITS[form];
  const match = pattern.exec(text)?.groups;
  if (!match || (digits && text.length !== digits)) throw new Error(`it does not match the format ${form}`);
  const { day = "1", hour, half, minute = "0", second = "0", fraction = "" } = match;
  const month = match.name ? MONTHS.indexOf(match.name.slice(0, 3).toLowerCase()) + 1 : (match.month ?? 1);
  const year = match.short ? Number(match.short) + (Number(match.short) < 69 ? 2000 : 1900) : (match.year ?? 1900);
  const noon = match.noon?.toLowerCase() === "pm" ? 12 : 0;
  const hours = half === undefined ? (hour ?? 0) : (Number(half) % 12) + noon;
  return { time: microseconds(year, month, day, hours, minute, second, fraction), zoned: false };
}

/** Microseconds since 1970, checked: Date would take the 31st of February for the 2nd of March. */
function microseconds(year, month, day, hour, minute, second, fraction) {
  const date = new Date(0);
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  if (date.getUTCMonth() !== Number(month) - 1 || date.getUTCDate() !== Number(day)) {
    throw new Error("there is no such day");
  }
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) throw new Error("there is no such time of day");
  const seconds = Number(hour) * 3600 + Number(minute) * 60 + Number(second);
  return date.getTime() * 1000 + seconds * 1e6 + Number(fraction.slice(0, 6).padEnd(6, "0"));
}

function offsetOf(offset) {
  if (offset === undefined || offset === "Z") return 0;
  const [hours, minutes = "0", seconds = "0"] = offset.slice(1).match(/\d{2}/g);
  return (offset[0] === "-" ? -1 : 1) * (Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)) * 1e6;
}

function clockText(text) {
  if (/^\d{1,2}$/.test(text)) return `${text.padStart(2, "0")}:00`;
  if (/^\d{4}(\d{2})?$/.test(text)) return text.match(/../g).join(":");
  return text.replace(/^(\d:)/, "0$1");
}
