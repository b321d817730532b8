/** Reading ahead in a table: what is known in advance as live records have it, in fields of their own. */

import { isEmpty } from "./fields.js";
import { initialState, placeRow } from "./rows.js";
import { aheadName } from "./settings.js";
import { joinTime } from "./times.js";

/**
 * Return the records with a field "NAME ahead" for every column that is known in advance: its value in the row that is
 * forecast or, if that one is missing in time, in the last one before it; empty after the end of the table.
 *
 * @param {Record<string, string>[]} records
 * @param {import("./table.js").TableReader} reader
 */
export function withAhead(records, { settings }) {
  const positions = positionsOf(records, settings);
  const placed = records.map((_, row) => row).filter((row) => positions[row] >= 0);
  placed.sort((one, other) => positions[one] - positions[other]);
  const newest = placed.length ? positions[placed.at(-1)] : -1;
  return records.map((record, row) => {
    const wanted = positions[row] + settings.known_rows;
    let source = null;
    if (positions[row] >= 0 && wanted <= newest) {
      let [low, high] = [0, placed.length]; // the last row that is not after the wanted one
      while (low < high) {
        const middle = (low + high) >> 1;
        if (positions[placed[middle]] <= wanted) low = middle + 1;
        else high = middle;
      }
      source = records[placed[low - 1]];
    }
    const ahead = Object.fromEntries(settings.known.map((name) => [aheadName(name), source?.[name] ?? ""]));
    return { ...record, ...ahead };
  });
}

/** The number of each row in a stream in which gaps are filled; −1 if it is dropped or has no valid time. */
function positionsOf(records, settings) {
  const positions = records.map(() => -1);
  let [count, pending, state] = [0, -1, initialState(settings)];
  records.forEach((record, row) => {
    const time = timeOf(record, settings, state.span.last);
    if (time === undefined) return;
    const verdict = placeRow(settings, "fill", state, time);
    for (const [kind] of verdict.rows) {
      if (kind !== "gap") positions[kind === "row" ? row : pending] = count;
      count += 1;
    }
    if (verdict.heldBack) pending = row;
    state = { ...state, span: verdict.span };
  });
  return positions;
}

/** The time of a record, null if there is no time column; undefined if it has no valid one. */
function timeOf(record, settings, last) {
  if (settings.time === null) return null;
  const fields = settings.timeColumns.map((name) => record[name]);
  const field = settings.clock === null ? fields[0] : joinTime(...fields);
  if (isEmpty(field)) return last === null || settings.missing !== "fill" ? undefined : settings.spacing.after(last, 1);
  try {
    return settings.parseTime(field).time;
  } catch {
    return undefined; // the reader of the stream reports it
  }
}
