/** The time between two rows: a fixed time, or months of the calendar. Times are in microseconds. */

const TOLERANCE = 0.1; // of a step
const JITTER = 0.25; // of a step: how early or late the next row may be
const UNITS = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];

export class Spacing {
  /**
   * @param {number} seconds The step; the average one if rows follow the calendar.
   * @param {number} months Months between two rows; 0 if rows do not follow the calendar.
   * @param {number} day The day of the month that rows fall on, or its last day if the month is shorter.
   */
  constructor(seconds, months = 0, day = 0) {
    this.microseconds = Math.round(seconds * 1e6);
    this.months = months;
    this.day = day;
  }

  /** The time of a row, given the time of the one that many rows before. */
  after(time, rows) {
    if (!this.months) return time + this.microseconds * rows;
    const date = new Date(Math.floor(time / 1000));
    const [year, month] = [date.getUTCFullYear(), date.getUTCMonth() + this.months * rows];
    const days = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
    const midnight = Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()) * 1000;
    return Date.UTC(year, month, Math.min(this.day, days)) * 1000 + (time - midnight);
  }

  /** The time of the i-th missing row between two rows that are `steps` apart. */
  between(before, after, i, steps) {
    if (this.months) return this.after(before, i);
    return before + Number((BigInt(after - before) * BigInt(i)) / BigInt(steps)); // the product can pass 2⁵³
  }

  /**
   * Count the steps from one time to another.
   *
   * @returns {{steps: number, regular: boolean}} 1 step if nothing is missing, 0 if the row is too early; and whether
   *   the time is close to a whole number of steps.
   */
  distance(last, now) {
    const exact = (now - last) / this.microseconds;
    const steps = Math.max(0, roundHalfEven(exact));
    const allowed = Math.max(TOLERANCE * steps, steps === 1 ? JITTER : 0);
    return { steps, regular: steps > 0 && Math.abs(exact - steps) <= allowed };
  }

  toString() {
    if (this.months) {
      const [count, unit] = this.months % 12 ? [this.months, "month"] : [this.months / 12, "year"];
      return `${count} ${unit}${count === 1 ? "" : "s"}`;
    }
    const seconds = this.microseconds / 1e6;
    const [unit, size] = UNITS.find(([, length]) => seconds >= length && seconds % length === 0) ?? ["second", 1];
    return `${seconds / size} ${unit}${seconds === size ? "" : "s"}`;
  }
}

/** As Python rounds. */
function roundHalfEven(value) {
  const rounded = Math.round(value);
  return Math.abs(value % 1) === 0.5 && rounded % 2 ? rounded - 1 : rounded;
}
