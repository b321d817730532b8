/** A scrolling map of the probabilities of classes: a row for each class, the newest token at the right. */

import { Canvas } from "./canvas.js";

const MARGIN = { top: 8, bottom: 22, right: 46 };
const MAX_ROWS = 16;

export class ClassChart {
  /** @param {HTMLCanvasElement} element */
  constructor(element) {
    this.canvas = new Canvas(element);
  }

  /**
   * @param {object} picture
   * @param {string[]} picture.names Of the classes.
   * @param {number[][]} picture.columns The probabilities of the tokens shown, oldest first.
   * @param {number} picture.span How many there is room for.
   * @param {number} picture.now The number of the newest token.
   * @param {number|null} picture.seconds Between two tokens.
   */
  draw({ names, columns, span, now, seconds }) {
    const { context, width, height, colour } = this.canvas.begin();
    const shown = mostProbable(names, columns);
    const texts = shown.map((place) => names[place]);
    const left = Math.min(width * 0.35, Math.max(...texts.map((text) => context.measureText(text).width)) + 16);
    const [right, bottom] = [width - MARGIN.right, height - MARGIN.bottom];
    const [cell, row] = [(right - left) / span, (bottom - MARGIN.top) / Math.max(1, shown.length)];
    const newest = columns.at(-1);
    const best = newest ? newest.indexOf(Math.max(...newest)) : -1;
    context.textBaseline = "middle";
    shown.forEach((place, i) => {
      const [top, tall] = [MARGIN.top + i * row, Math.max(1, row - 2)];
      context.fillStyle = colour("grid");
      context.globalAlpha = 0.6;
      context.fillRect(left, top, right - left, tall);
      context.fillStyle = colour("truth");
      columns.forEach((probabilities, at) => {
        const [begin, end] = [columns.length - at, columns.length - at - 1].map((back) =>
          Math.round(right - back * cell),
        );
        context.globalAlpha = Math.min(1, Math.max(0, probabilities[place]));
        context.fillRect(begin, top, end - begin, tall);
      });
      context.globalAlpha = 1;
      context.fillStyle = colour(place === best ? "text" : "muted");
      context.textAlign = "right";
      context.fillText(shortened(context, texts[i], left - 12), left - 8, top + tall / 2);
      context.textAlign = "left";
      if (newest) context.fillText(`${(100 * newest[place]).toFixed(0)} %`, right + 8, top + tall / 2);
    });
    context.fillStyle = colour("muted");
    context.textAlign = "right";
    context.fillText(
      seconds ? `${(now * seconds).toFixed(1)} s` : `token ${now.toLocaleString("en-US")}`,
      right,
      bottom + 12,
    );
    context.textAlign = "left";
    context.fillText(seconds ? `${(span * seconds).toFixed(0)} s ago` : `${span} tokens ago`, left, bottom + 12);
  }
}

/** The places of the classes to show: all, or those that were the most probable in what is shown. */
function mostProbable(names, columns) {
  const places = names.map((_, place) => place);
  if (names.length <= MAX_ROWS) return places;
  const sums = places.map((place) => columns.reduce((sum, column) => sum + column[place], 0));
  const chosen = places.toSorted((one, other) => sums[other] - sums[one]).slice(0, MAX_ROWS);
  return chosen.sort((one, other) => one - other);
}

function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > width) length--;
  return `${text.slice(0, length)}…`;
}
