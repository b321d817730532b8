/** From rows of values to complete rows in order of time: missing values and missing rows are filled here. */

import { NOTHING_SEEN, judge } from "./timeline.js";

/**
 * @typedef {object} RowState What is remembered between rows.
 * @property {import("./timeline.js").Span} span
 * @property {number[]} values The last known ones.
 * @property {number[]|null} pending The values of a row that is held back.
 *
 * @typedef {object} Row A complete row: one token.
 * @property {"gap"|"pending"|"row"} kind
 * @property {number} time In microseconds; 0 if rows have no time.
 * @property {number[]} given As they came, NaN where missing.
 * @property {number[]} values Without missing values.
 */

/** @returns {RowState} */
export const initialState = (settings) => ({
  span: NOTHING_SEEN,
  values: settings.columns.map(() => NaN),
  pending: null,
});

/** Decide what happens to a row; without a time column every row is accepted, without a time none is. */
export function placeRow(settings, gaps, state, time) {
  const nothing = { span: state.span, rows: [], note: "", error: "", heldBack: false };
  if (settings.time === null) return { ...nothing, rows: [["row", 0]] };
  return time === null ? nothing : judge(settings.spacing, gaps, state.span, time);
}

/**
 * Take in a row.
 *
 * @param {object} settings
 * @param {RowState} state
 * @param {import("./timeline.js").Verdict} verdict
 * @param {number[]|null} values The values of the row; null if it is dropped because it lacks some.
 * @returns {{rows: Row[], state: RowState}}
 */
export function takeRow(settings, state, verdict, values) {
  const rows = [];
  let last = state.values;
  for (const [kind, time] of verdict.rows) {
    const given = kind === "row" ? values : kind === "pending" ? state.pending : last.map(() => NaN);
    if (given === null) continue;
    last = filled(given, last);
    // Without a value of a target, there is nothing yet that a change could be added to.
    if (settings.targetPlaces.some((place) => Number.isNaN(last[place]))) continue;
    const usual = settings.columns.map((column) => column.usual);
    rows.push({ kind, time, given, values: filled(last, usual) });
  }
  const pending = verdict.heldBack ? values : verdict.span.pending === null ? null : state.pending;
  return { rows, state: { span: verdict.span, values: last, pending } };
}

const filled = (values, others) => values.map((value, place) => (Number.isNaN(value) ? others[place] : value));
