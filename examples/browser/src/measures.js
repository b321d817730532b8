/** What the page measures: the time of a step, and the error of forecasts. */

import { middle } from "./answers.js";

const GROUP = 16; // steps
const KEPT = 2048; // steps

/**
 * The time of a step.
 *
 * A page's clock is coarse (0.1 ms in most browsers, 1 ms in some), coarser than a step. It is right on average,
 * though: the median is that of means over groups of 16 steps. The 99th percentile is of single steps.
 */
export class Latency {
  #steps = [];

  add(milliseconds) {
    this.#steps.push(milliseconds);
    if (this.#steps.length > KEPT) this.#steps.splice(0, GROUP);
  }

  /** In milliseconds; NaN before there are enough steps. */
  get median() {
    const means = [];
    for (let at = 0; at + GROUP <= this.#steps.length; at += GROUP) {
      means.push(this.#steps.slice(at, at + GROUP).reduce((sum, value) => sum + value, 0) / GROUP);
    }
    return percentile(means, 0.5);
  }

  get p99() {
    return this.#steps.length < GROUP ? NaN : percentile(this.#steps, 0.99);
  }
}

function percentile(values, share) {
  const sorted = Float64Array.from(values).sort();
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] : NaN;
}

/** The mean absolute error of forecasts, and of repeating the last known value, by target and horizon. */
export class Errors {
  #waiting = []; // the last answers, newest last, as many as the largest horizon

  /** @param {import("./answers.js").Meaning} meaning */
  constructor(meaning) {
    this.meaning = meaning;
    const zeros = () => meaning.names.map(() => meaning.horizons.map(() => 0));
    [this.count, this.model, this.persistence] = [zeros(), zeros(), zeros()];
  }

  /** @param {import("./session.js").Answer} answer */
  add(answer) {
    const { horizons, quantiles } = this.meaning;
    answer.truth?.forEach((truth, target) => {
      horizons.forEach((rows, place) => {
        const earlier = this.#waiting.at(-rows);
        if (earlier === undefined || Number.isNaN(truth)) return;
        this.count[target][place] += 1;
        this.model[target][place] += Math.abs(middle(earlier.values[target][place], quantiles) - truth);
        this.persistence[target][place] += Math.abs(earlier.base[target] - truth);
      });
    });
    this.#waiting.push(answer);
    if (this.#waiting.length > Math.max(...horizons)) this.#waiting.shift();
  }

  /** The mean errors so far; NaN before there is one. */
  of(target, horizon) {
    const count = this.count[target][horizon];
    return {
      count,
      model: this.model[target][horizon] / count,
      persistence: this.persistence[target][horizon] / count,
    };
  }
}
