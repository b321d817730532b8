/**
 * Which rows are accepted, given their times.
 *
 * A row follows the last one if it is at most MAX_STEPS steps later. Rows from times already seen are dropped. A row
 * that is much later, or earlier than the first one, is held back: it is accepted together with the next row if that
 * one follows it. So a single wrong time costs one row, while a changed clock or a long gap does not end the stream.
 */

import { isoTime } from "./times.js";

const MAX_STEPS = 100; // after the last row; a later row is held back
const MAX_FILLED = 10_000; // rows of a gap

/**
 * @typedef {object} Span The times that have been seen.
 * @property {number|null} first Since when rows have followed each other.
 * @property {number|null} last
 * @property {number|null} pending The time of a row that is held back.
 *
 * @typedef {object} Verdict What happens to a row.
 * @property {Span} span Afterwards.
 * @property {[("gap"|"pending"|"row"), number][]} rows Accepted now, with their times.
 * @property {string} note Why it was dropped, or how time has jumped.
 * @property {string} error Why it must be rejected.
 * @property {boolean} heldBack
 */

/** @type {Span} */
export const NOTHING_SEEN = { first: null, last: null, pending: null };

/**
 * Decide what happens to a row.
 *
 * @param {import("./spacing.js").Spacing} spacing
 * @param {"fail"|"fill"|"skip"} gaps What happens to missing rows.
 * @param {Span} span
 * @param {number} now When the row was measured.
 * @returns {Verdict}
 */
export function judge(spacing, gaps, span, now) {
  const { first, last, pending } = span;
  if (first === null || last === null) return verdict({ first: now, last: now, pending: null }, [["row", now]]);
  const gap = spacing.distance(last, now);
  if (gaps === "fail" && !(gap.steps === 1 && gap.regular)) {
    return { ...verdict(span), error: gapError(spacing, last, now, gap) };
  }
  if (gap.steps >= 1 && gap.steps <= MAX_STEPS) {
    return verdict({ first, last: now, pending: null }, accepted(spacing, gaps, last, now, gap.steps, "row"));
  }
  if (pending !== null) {
    const { steps } = spacing.distance(pending, now);
    if (steps >= 1 && steps <= MAX_STEPS) return confirmed(spacing, gaps, last, pending, now, steps);
  }
  if (gap.steps === 0 && now >= first) {
    return {
      ...verdict(span),
      note: `${text(now)} is before the next row is due; the last row was at ${text(last)}`,
    };
  }
  const problem =
    now < first
      ? `${text(now)} is earlier than ${text(first)}, where these rows began`
      : `${text(now)} is ${gap.steps.toLocaleString("en-US")} rows after ${text(last)}`;
  const note = `${problem}; it is accepted with the next row, if that one follows it`;
  return { ...verdict({ first, last, pending: now }), note, heldBack: true };
}

const verdict = (span, rows = []) => ({ span, rows, note: "", error: "", heldBack: false });

/** A row with the missing ones before it, if they are filled. */
function accepted(spacing, gaps, last, now, steps, kind) {
  if (steps === 1 || gaps !== "fill" || steps - 1 > MAX_FILLED) return [[kind, now]];
  const missing = Array.from({ length: steps - 1 }, (_, i) => ["gap", spacing.between(last, now, i + 1, steps)]);
  return [...missing, [kind, now]];
}

/** A row that follows the one held back before it. */
function confirmed(spacing, gaps, last, pending, now, steps) {
  const jump = Math.max(1, spacing.distance(last, pending).steps); // there is no gap if time went back
  const before = accepted(spacing, gaps, last, pending, jump, "pending");
  const after = accepted(spacing, gaps, pending, now, steps, "row");
  const note = `time jumped from ${text(last)} to ${text(pending)}`;
  return { ...verdict({ first: pending, last: now, pending: null }, [...before, ...after]), note };
}

function gapError(spacing, last, now, gap) {
  if (gap.steps === 0) return `${text(now)} comes after ${text(last)}, less than one step of ${spacing} later`;
  if (!gap.regular) return `${text(now)} comes after ${text(last)}, not a whole number of steps of ${spacing} later`;
  const count = gap.steps - 1;
  return `${count} ${count === 1 ? "row is" : "rows are"} missing between ${text(last)} and ${text(now)}`;
}

const text = (time) => isoTime(Math.floor(time / 1e6) * 1e6).replace("T", " ");
