/** The model's outputs in the user's terms: forecasts in their units, classes by name. */

import { outputDim } from "./card.js";

const CLASS_TASKS = ["classification", "detection"];

/**
 * @typedef {object} Meaning What the outputs of a model are.
 * @property {"forecast"|"probabilities"|"output"} kind
 * @property {string[]} names Of the targets, classes or outputs.
 * @property {string[]} units One for each name; empty if there are none.
 * @property {number[]} horizons Numbers of rows ahead that are forecast.
 * @property {number[]} quantiles Levels; empty if a forecast is one number.
 * @property {boolean} several Whether several classes can be present at once.
 */

/**
 * @param {import("./card.js").Card} card
 * @returns {Meaning}
 */
export function meaningOf(card) {
  const { task, labels = [], units = [], horizon, horizons = [], quantiles = [], several = false } = card.info;
  const forecast = task === "forecasting";
  const each = forecast ? Math.max(1, horizons.length) * Math.max(1, quantiles.length) : 1;
  const count = outputDim(card) / each;
  const names = labels.length
    ? labels
    : Array.from({ length: count }, (_, i) => (forecast ? `target ${i + 1}` : String(i)));
  return {
    kind: CLASS_TASKS.includes(task) ? "probabilities" : forecast ? "forecast" : "output",
    names,
    units: units.length === 1 ? names.map(() => units[0]) : units,
    horizons: forecast ? (horizons.length ? horizons : [horizon ?? 1]) : [],
    quantiles: forecast ? quantiles : [],
    several,
  };
}

/**
 * Return forecasts: the predicted change added to the last known values. Quantiles are sorted, so that they never
 * cross, and no value is below the minimum.
 *
 * @param {Float32Array} y The model's output: target after target, of each its horizons, of each its quantiles.
 * @param {Meaning} meaning
 * @param {number[]|null} base The last known values of the targets.
 * @param {number[]|null} scale The unit of changes; null for the user's.
 * @param {number|null|undefined} minimum
 * @returns {number[][][]} [targets][horizons][quantiles]
 */
export function forecasts(y, { names, horizons, quantiles }, base, scale, minimum) {
  const levels = Math.max(1, quantiles.length);
  return names.map((_, target) =>
    horizons.map((_, horizon) => {
      const start = (target * horizons.length + horizon) * levels;
      const changes = Array.from(y.subarray(start, start + levels), (change) => change * (scale?.[target] ?? 1));
      if (levels > 1) changes.sort((one, other) => one - other);
      return changes.map((change) => Math.max((base?.[target] ?? 0) + change, minimum ?? -Infinity));
    }),
  );
}

/** Probabilities of classes: shares of one or, if several can be present at once, independent. */
export function probabilities(y, several) {
  if (several) return Array.from(y, (logit) => 1 / (1 + Math.exp(-logit)));
  const largest = Math.max(...y);
  const weights = Array.from(y, (logit) => Math.exp(logit - largest));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}

/** The one number that stands for quantiles: the median or, without one, what is in the middle. */
export function middle(values, quantiles) {
  const median = quantiles.indexOf(0.5);
  if (median >= 0) return values[median];
  const [first, second] = [values[Math.floor((values.length - 1) / 2)], values[Math.floor(values.length / 2)]];
  return (first + second) / 2;
}
