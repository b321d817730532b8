/** A scrolling chart of a forecast against the truth, or of plain outputs. The x axis counts tokens. */

import { Canvas, compact, ticks } from "./canvas.js";
import { timeTicks } from "./times.js";

const MARGIN = { top: 14, bottom: 26, left: 52, right: 14 };
const STRIP = 58; // pixels of the errors below the lines

/**
 * @typedef {object} Line
 * @property {string} colour The name of a colour of the theme.
 * @property {{x: number, y: number}[]} points In order of x.
 * @property {"wide"|"faint"} [style]
 *
 * @typedef {object} Picture
 * @property {Line[]} lines
 * @property {{x: number, low: number, high: number}[]} band Between the outer quantiles.
 * @property {{x: number, y: number, colour: string}[]} dots
 * @property {{x: number, y: number}[]} errors Of the forecasts whose truth is known.
 * @property {number} now The x of the newest token.
 * @property {number} first The x at the left.
 * @property {number} last The x at the right.
 * @property {(x: number) => number|null} timeOf The time at an x, in microseconds; null without times.
 * @property {number|null} cursor The x that the pointer is at.
 */

export class LineChart {
  #scale = { low: 0, high: 1 };

  /** @param {HTMLCanvasElement} element */
  constructor(element) {
    this.canvas = new Canvas(element);
  }

  /** The x at a distance in pixels from the left. */
  at(pixels, { first, last }) {
    const width = this.canvas.element.clientWidth - MARGIN.left - MARGIN.right;
    return first + ((pixels - MARGIN.left) / width) * (last - first);
  }

  /** @param {Picture} picture */
  draw(picture) {
    const { context, width, height, colour } = this.canvas.begin();
    const { first, last, now } = picture;
    const [right, floor] = [width - MARGIN.right, height - MARGIN.bottom];
    const bottom = floor - (picture.errors.length ? STRIP : 0);
    this.#fit(picture);
    const { low, high } = this.#scale;
    const x = (value) => MARGIN.left + ((value - first) / (last - first)) * (right - MARGIN.left);
    const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - MARGIN.top);

    context.lineWidth = 1;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const tick of ticks(low, high, height / 60)) {
      context.strokeStyle = colour("grid");
      line(context, [
        [MARGIN.left, y(tick)],
        [right, y(tick)],
      ]);
      context.fillStyle = colour("muted");
      context.fillText(compact(tick), MARGIN.left - 8, y(tick));
    }
    context.textAlign = "center";
    for (const { at, text } of this.#labels(picture, width / 90)) {
      context.strokeStyle = colour("grid");
      line(context, [
        [x(at), MARGIN.top],
        [x(at), floor],
      ]);
      const half = context.measureText(text).width / 2;
      context.fillStyle = colour("muted");
      if (x(at) - half > 0 && x(at) + half < width) context.fillText(text, x(at), floor + 14);
    }

    context.save();
    context.beginPath();
    context.rect(MARGIN.left, 0, right - MARGIN.left + 8, height);
    context.clip();
    context.strokeStyle = colour("muted");
    context.setLineDash([3, 4]);
    for (const at of [now, picture.cursor])
      if (at !== null)
        line(context, [
          [x(at), MARGIN.top],
          [x(at), floor],
        ]);
    context.setLineDash([]);
    if (picture.band.length) {
      const [upper, lower] = [picture.band, picture.band.toReversed()];
      context.beginPath();
      for (const point of upper) context.lineTo(x(point.x), y(point.high));
      for (const point of lower) context.lineTo(x(point.x), y(point.low));
      context.fillStyle = colour("band");
      context.fill();
    }
    context.lineJoin = context.lineCap = "round";
    for (const { points, colour: name, style } of picture.lines) {
      context.strokeStyle = colour(name);
      context.globalAlpha = { faint: 0.5, wide: 0.75 }[style] ?? 1;
      context.lineWidth = { faint: 1.5, wide: 4 }[style] ?? 1.75;
      line(
        context,
        points.map((point) => [x(point.x), y(point.y)]),
      );
    }
    context.globalAlpha = 1;
    for (const dot of picture.dots) {
      context.beginPath();
      context.arc(x(dot.x), y(dot.y), 4.5, 0, 2 * Math.PI);
      context.fillStyle = colour(dot.colour);
      context.strokeStyle = colour("card");
      context.lineWidth = 2;
      context.fill();
      context.stroke();
    }
    context.restore();
    if (picture.errors.length) this.#strip({ context, colour, x, right, floor }, picture);
  }

  /** The errors as bars around zero: lines that lie on each other do not show them. */
  #strip({ context, colour, x, right, floor }, { errors, first, last }) {
    const [middle, half] = [floor - STRIP / 2 + 4, STRIP / 2 - 8];
    const largest = Math.max(...errors.map(({ y }) => Math.abs(y)), Number.MIN_VALUE);
    const wide = Math.max(1, (0.7 * (right - MARGIN.left)) / (last - first));
    context.fillStyle = colour("forecast");
    context.globalAlpha = 0.75;
    for (const error of errors) context.fillRect(x(error.x) - wide / 2, middle, wide, (-error.y / largest) * half);
    context.globalAlpha = 1;
    context.strokeStyle = colour("line");
    line(context, [
      [MARGIN.left, middle],
      [right, middle],
    ]);
    context.fillStyle = colour("muted");
    context.textAlign = "right";
    context.fillText("error", MARGIN.left - 8, middle);
    context.fillText(`±${compact(Number(largest.toPrecision(2)))}`, MARGIN.left - 8, middle - half + 4);
  }

  /** Widen the y axis at once to what is shown, and narrow it slowly, so that it does not flicker. */
  #fit({ lines, band }) {
    let [low, high] = [Infinity, -Infinity];
    const include = (value) => {
      if (!Number.isFinite(value)) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    };
    for (const { points } of lines) for (const { y } of points) include(y);
    for (const point of band) [point.low, point.high].forEach(include);
    if (low > high) return;
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    [low, high] = [low - room, high + room];
    const before = this.#scale;
    const fresh = !(before.low < high && before.high > low) || before.high - before.low > 20 * (high - low);
    const follow = (old, wanted, wider) => (fresh || wider ? wanted : old + 0.08 * (wanted - old));
    this.#scale = {
      low: follow(before.low, low, low < before.low),
      high: follow(before.high, high, high > before.high),
    };
  }

  #labels({ first, last, timeOf }, count) {
    const [begin, end] = [timeOf(first), timeOf(last)];
    if (begin === null || end === null || !(end > begin)) {
      return ticks(first, last, count)
        .filter(Number.isInteger)
        .map((at) => ({ at, text: at.toLocaleString("en-US") }));
    }
    const at = (time) => first + ((time - begin) / (end - begin)) * (last - first);
    return timeTicks(begin, end, count).map(({ time, text }) => ({ at: at(time), text }));
  }
}

/** A line through points; it has a hole where a point is not finite. */
function line(context, points) {
  context.beginPath();
  let down = false;
  for (const [x, y] of points) {
    if (Number.isFinite(y)) context[down ? "lineTo" : "moveTo"](x, y);
    down = Number.isFinite(y);
  }
  context.stroke();
}
