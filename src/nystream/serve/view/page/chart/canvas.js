/** A canvas that is sharp on every screen, in the colours of the page's theme. */

export class Canvas {
  /** @param {HTMLCanvasElement} element */
  constructor(element) {
    this.element = element;
    this.context = element.getContext("2d");
  }

  /** Clear the canvas and return its size in CSS pixels and its colours. */
  begin() {
    const { element, context } = this;
    const [width, height, ratio] = [element.clientWidth, element.clientHeight, globalThis.devicePixelRatio || 1];
    if (element.width !== Math.round(width * ratio) || element.height !== Math.round(height * ratio)) {
      [element.width, element.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const style = getComputedStyle(element);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    context.font = `12px ${style.fontFamily}`;
    return { context, width, height, colour };
  }
}

/** Round numbers that divide a range into about `count` parts. */
export function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  if (!(rough > 0) || !Number.isFinite(rough)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.max(0, Math.floor(high / step) - first + 1) }, (_, i) => (first + i) * step);
}

/** A number for an axis: 250k, 1.5M. */
const COMPACT = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 4 });
export const compact = (value) => COMPACT.format(value);
