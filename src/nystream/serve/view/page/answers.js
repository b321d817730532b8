/** The answers of one stream, as the charts need them. */

const SHOWN = 2048; // answers kept

/**
 * @typedef {object} Answer
 * @property {number} token
 * @property {number|null} time In microseconds, in the time zone of the answer.
 * @property {any} values Of a forecast [targets][horizons][quantiles], otherwise one number for each name.
 * @property {(number|undefined)[]|null} truth Of the targets.
 *
 * @typedef {object} Meaning What the values are: the model's description by the service.
 */

/** The middle one of the quantiles. */
export const middle = (levels, quantiles) => levels[Math.floor((quantiles.length || 1) / 2)];

export class History {
  /** @type {Answer[]} Oldest first; their tokens follow each other, and those that were left out have no values. */
  shown = [];
  records = 0;
  missed = 0;
  errors = 0;
  note = "";
  #absolute = []; // errors of forecasts whose truth is known

  /** @param {Meaning} meaning */
  constructor(meaning) {
    this.session = { meaning };
  }

  /** @param {{results: object[], missed: number}} message */
  add({ results, missed }) {
    this.missed += missed;
    for (const result of results) {
      this.records = Math.max(this.records, result.number);
      if (result.error) {
        this.errors += 1;
        this.note = `Record ${result.number}: ${result.error.message}`;
        continue;
      }
      if (result.note) this.note = `Record ${result.number}: ${result.note}`;
      result.answers.forEach((answer, i) =>
        this.#append(answer, i === result.answers.length - 1 ? result.truth : undefined),
      );
    }
    if (this.shown.length > 2 * SHOWN) this.shown.splice(0, this.shown.length - SHOWN);
  }

  /** The mean absolute error of the forecasts, of the first target and horizon; NaN if the truth is not known. */
  get error() {
    return this.#absolute.reduce((sum, value) => sum + value, 0) / this.#absolute.length;
  }

  #append(answer, truth) {
    const { names, kind } = this.session.meaning;
    const last = this.shown.at(-1)?.token ?? answer.token - 1;
    if (answer.token <= last) return;
    if (answer.token - last > SHOWN) this.shown = [];
    else
      for (let token = last + 1; token < answer.token; token++)
        this.shown.push({ token, time: null, values: this.#nothing(), truth: null });
    this.shown.push({
      token: answer.token,
      time: answer.time ? Date.parse(`${answer.time.slice(0, 19)}Z`) * 1000 : null,
      values: this.#values(answer[kind]),
      truth: truth ? names.map((name) => truth[name]) : null,
    });
    if (kind === "forecast") this.#score();
  }

  #values(given) {
    const { names, kind } = this.session.meaning;
    const values = Array.isArray(given) ? given : names.map((name) => given[name]);
    if (kind !== "forecast") return values.map((value) => value ?? NaN);
    return values.map((horizons) => [horizons].flat().map((level) => levelsOf(level)));
  }

  #nothing() {
    const { names, kind, horizons, quantiles } = this.session.meaning;
    const levels = () => Array(quantiles.length || 1).fill(NaN);
    return names.map(() => (kind === "forecast" ? horizons.map(levels) : NaN));
  }

  #score() {
    const { horizons, quantiles } = this.session.meaning;
    const newest = this.shown.at(-1);
    const forecast = this.shown.at(-1 - horizons[0]);
    const error = Math.abs(middle(forecast?.values[0][0] ?? [NaN], quantiles) - newest.truth?.[0]);
    if (Number.isFinite(error)) this.#absolute.push(error);
    if (this.#absolute.length > SHOWN) this.#absolute.shift();
  }
}

function levelsOf(level) {
  return (level !== null && typeof level === "object" ? Object.values(level) : [level]).map((value) => value ?? NaN);
}

/** The meaning of answers, from the description of a model. */
export function meaningOf({ kind, labels, outputs, units, horizons, quantiles, seconds, several }) {
  const isForecast = kind === "forecast";
  const each = isForecast ? Math.max(1, horizons.length) * Math.max(1, quantiles.length) : 1;
  const names = labels.length ? labels : Array.from({ length: outputs / each }, (_, i) => `output ${i + 1}`);
  return {
    kind,
    names,
    units: units.length === 1 ? names.map(() => units[0]) : units,
    horizons: isForecast ? (horizons.length ? horizons : [1]) : [],
    quantiles: isForecast ? quantiles : [],
    seconds,
    several,
  };
}
