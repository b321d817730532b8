/** Labels of the time axis: at midnight, the hour or the minute, whichever leaves room between them. */

const MINUTE = 60e6; // microseconds
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  MINUTE,
  5 * MINUTE,
  15 * MINUTE,
  HOUR,
  3 * HOUR,
  6 * HOUR,
  12 * HOUR,
  DAY,
  2 * DAY,
  7 * DAY,
  14 * DAY,
  28 * DAY,
  91 * DAY,
  365 * DAY,
];

const format = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...options });
const DATE = format({ day: "numeric", month: "short" });
const MONTH = format({ month: "short", year: "numeric" });
const CLOCK = format({ hour: "2-digit", minute: "2-digit" });
const MOMENT = format({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/**
 * @param {number} low In microseconds.
 * @param {number} high
 * @param {number} count The largest number of labels.
 * @returns {{time: number, text: string}[]}
 */
export function timeTicks(low, high, count) {
  const step = STEPS.find((length) => (high - low) / length <= count) ?? STEPS.at(-1);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.max(0, Math.floor(high / step) - first + 1) }, (_, i) => {
    const time = (first + i) * step;
    const date = new Date(time / 1000);
    const text = step >= 28 * DAY ? MONTH.format(date) : time % DAY === 0 ? DATE.format(date) : CLOCK.format(date);
    return { time, text };
  });
}

/** A moment in words, such as "13 Sept 10:00". */
export const momentText = (time) => MOMENT.format(new Date(time / 1000)).replace(",", "");
