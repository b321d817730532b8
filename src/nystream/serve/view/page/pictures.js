/** What the charts draw, from the answers of a stream. */

import { middle } from "./answers.js";

const MAX_OUTPUTS = 6;

/**
 * @typedef {object} Choice What the visitor looks at.
 * @property {number} span Tokens.
 * @property {number} target
 * @property {number} horizon The place in the list of horizons.
 * @property {number|null} cursor
 */

/**
 * A forecast, at the token that it is for, against the truth.
 *
 * @param {import("./history.js").History} history
 * @param {Choice} choice
 * @returns {import("./chart/lines.js").Picture}
 */
export function forecastPicture(history, { span, target, horizon, cursor }) {
  const { horizons, quantiles } = history.session.meaning;
  const answers = history.shown;
  const now = answers.at(-1)?.token ?? 0;
  const [first, rows, last] = bounds(now, span, horizons);
  const central = (answer, place) => middle(answer.values[target][place], quantiles);
  const inside = answers.filter(({ token }) => token >= first - 1);
  const ahead = answers.filter(({ token }) => token + rows >= first - 1 && token + horizons[horizon] <= last);
  const forecast = ahead.map((answer) => ({ x: answer.token + horizons[horizon], y: central(answer, horizon) }));
  const band = quantiles.length > 1 ? ahead.map((answer) => bandAt(answer, target, horizon, horizons)) : [];
  const truth = inside.map((answer) => ({ x: answer.token, y: answer.truth?.[target] ?? NaN }));
  const lines = [
    { colour: "truth", points: truth, style: "wide" },
    { colour: "forecast", points: forecast },
  ];
  const actual = new Map(truth.map(({ x, y }) => [x, y]));
  const errors = forecast
    .map(({ x, y }) => ({ x, y: y - actual.get(x) }))
    .filter(({ x, y }) => x >= first && Number.isFinite(y));
  const dots = [];
  const newest = answers.at(-1);
  if (newest) {
    dots.push({ ...truth.at(-1), colour: "truth" }, { ...forecast.at(-1), colour: "forecast" });
    if (horizons.length > 1) {
      // The newest forecast for all horizons: where it goes from here.
      const path = horizons.map((step, place) => ({ x: newest.token + step, y: central(newest, place) }));
      lines.push({ colour: "forecast", points: [truth.at(-1), ...path], style: "faint" });
    }
  }
  return {
    lines,
    band,
    errors,
    dots: dots.filter(({ y }) => Number.isFinite(y)),
    now,
    first,
    last,
    timeOf: clock(answers),
    cursor,
  };
}

/** Outputs without a meaning that the page knows, as they are. */
export function outputPicture(history, { span, cursor }) {
  const answers = history.shown;
  const now = answers.at(-1)?.token ?? 0;
  const [first, , last] = bounds(now, span, []);
  const inside = answers.filter(({ token }) => token >= first - 1);
  const outputs = history.session.meaning.names.slice(0, MAX_OUTPUTS);
  const lines = outputs.map((_, i) => ({
    colour: `output-${i}`,
    points: inside.map((answer) => ({ x: answer.token, y: answer.values[i] })),
  }));
  return { lines, band: [], errors: [], dots: [], now, first, last, timeOf: clock(answers), cursor };
}

/** The first and last token of the x axis, and the largest horizon between. */
function bounds(now, span, horizons) {
  const rows = Math.max(1, ...horizons);
  const room = Math.min(rows, Math.max(2, span / 3)); // a far horizon must not push the truth out of the picture
  const first = Math.max(1, now - span);
  return [first, rows, first + span + room + 1];
}

function bandAt(answer, target, horizon, horizons) {
  const levels = answer.values[target][horizon];
  return { x: answer.token + horizons[horizon], low: levels[0], high: levels.at(-1) };
}

/** The time at a token, on a line between the tokens beside it; null without times. */
function clock(answers) {
  const [oldest, newest] = [answers[0], answers.at(-1)];
  if (!newest || newest.time === null || newest.token === oldest.token) return () => null;
  const step = (newest.time - oldest.time) / (newest.token - oldest.token);
  return (token) => {
    const answer = Number.isInteger(token) ? answers[token - oldest.token] : undefined;
    return answer?.time ?? newest.time + (token - newest.token) * step;
  };
}
