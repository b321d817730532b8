/** Records a second as an area over time, and latencies as bars. */

import { Canvas, compact, ticks } from "./canvas.js";

const MARGIN = { top: 12, bottom: 24, left: 44, right: 10 };

/** The frame of a chart from zero up: its size, its scale and its horizontal lines. */
function begin(canvas, high, marks = ticks(0, high, 3)) {
  const { context, width, height, colour } = canvas.begin();
  const [right, bottom] = [width - MARGIN.right, height - MARGIN.bottom];
  const y = (value) => bottom - (value / high) * (bottom - MARGIN.top);
  context.textBaseline = "middle";
  context.textAlign = "right";
  context.lineWidth = 1;
  for (const mark of marks) {
    context.strokeStyle = colour("grid");
    context.beginPath();
    context.moveTo(MARGIN.left, y(mark));
    context.lineTo(right, y(mark));
    context.stroke();
    context.fillStyle = colour("muted");
    context.fillText(compact(mark), MARGIN.left - 8, y(mark));
  }
  return { context, colour, left: MARGIN.left, right, bottom, y };
}

export class RateChart {
  /** @param {HTMLCanvasElement} element */
  constructor(element) {
    this.canvas = new Canvas(element);
  }

  /**
   * @param {number[]} rates Oldest first.
   * @param {number} count How many there is room for.
   * @param {number} seconds Between two of them.
   */
  draw(rates, count, seconds) {
    const { context, colour, left, right, bottom, y } = begin(this.canvas, 1.1 * Math.max(4, ...rates));
    const x = (place) => right - ((rates.length - 1 - place) / (count - 1)) * (right - left);
    if (rates.length > 1) {
      const line = () => rates.forEach((rate, place) => context.lineTo(x(place), y(rate)));
      context.beginPath();
      context.moveTo(x(0), bottom);
      line();
      context.lineTo(right, bottom);
      context.globalAlpha = 0.16;
      context.fillStyle = colour("truth");
      context.fill();
      context.globalAlpha = 1;
      context.beginPath();
      line();
      context.lineWidth = 1.75;
      context.lineJoin = "round";
      context.strokeStyle = colour("truth");
      context.stroke();
    }
    context.fillStyle = colour("muted");
    const minutes = (count * seconds) / 60;
    const step = right - left < 320 ? 2 : 1; // every minute, or every other one on a phone
    for (let minute = 0; minute <= minutes; minute += step) {
      context.textAlign = minute === 0 ? "right" : minute === minutes ? "left" : "center";
      const at = right - (minute / minutes) * (right - left);
      context.fillText(minute ? `−${minute} min` : "now", at, bottom + 14);
    }
  }
}

export class LatencyChart {
  /** @param {HTMLCanvasElement} element */
  constructor(element) {
    this.canvas = new Canvas(element);
  }

  /**
   * @param {number[]} edges Of the bars, in milliseconds.
   * @param {number[]} counts One more: above the last edge.
   */
  draw(edges, counts) {
    const total = counts.reduce((sum, count) => sum + count, 0);
    const shares = counts.map((count) => (total ? (100 * count) / total : 0));
    const high = Math.max(10, 1.1 * Math.max(...shares));
    const { context, colour, left, right, bottom, y } = begin(this.canvas, high);
    const wide = (right - left) / counts.length;
    shares.forEach((share, place) => {
      const at = left + place * wide;
      context.fillStyle = colour("truth");
      context.globalAlpha = 0.85;
      const tall = share ? Math.max(2, bottom - y(share)) : 0;
      context.fillRect(at + 1.5, bottom - tall, wide - 3, tall);
      context.globalAlpha = 1;
    });
    context.fillStyle = colour("muted");
    context.textAlign = "center";
    const step = wide < 34 ? 2 : 1;
    edges.forEach((edge, place) => {
      const text = edge < 1000 ? String(edge) : `${edge / 1000} s`;
      if (place % step === 0) context.fillText(text, left + (place + 1) * wide, bottom + 14);
    });
    context.textAlign = "right";
    context.fillText("%", left - 8, bottom + 14);
  }
}
