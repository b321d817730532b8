/**
 * Running mean and standard deviation of the columns of a series, by which its rows are scaled.
 *
 * Row t changes them in Welford's form, with c = min(t, limit). Up to the limit these are the mean and the variance of
 * all rows so far; after it, old rows are forgotten exponentially. The row itself counts.
 */

/**
 * @typedef {object} Running
 * @property {number} seen The number of rows so far, at most the limit.
 * @property {number[]} mean Of each column.
 * @property {number[]} variance
 */

/** @returns {Running} The statistics before the first row. */
export const noRows = (columns) => ({ seen: 0, mean: Array(columns).fill(0), variance: Array(columns).fill(0) });

/**
 * The statistics after one more row.
 *
 * @param {Running} running
 * @param {number[]} values
 * @param {number} limit
 * @returns {Running}
 */
export function advance(running, values, limit) {
  const seen = Math.min(running.seen + 1, limit);
  const mean = values.map((value, i) => running.mean[i] + (value - running.mean[i]) / seen);
  const variance = values.map((value, i) => {
    const off = value - running.mean[i];
    return running.variance[i] + (off * (value - mean[i]) - running.variance[i]) / seen;
  });
  return { seen, mean, variance };
}

/** A difference in units of a standard deviation: 0 where that is 0, and infinite where it is not finite. */
export function inUnits(difference, deviation) {
  if (!Number.isFinite(deviation)) return Infinity;
  return deviation > 0 ? difference / deviation : 0;
}
