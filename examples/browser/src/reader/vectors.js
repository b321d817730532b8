/** Records that are plain numbers, in order or by name, as `nystream.data.vectors` reads them. */

import { RecordError, counted, emptyText, listed } from "./fields.js";
import { readNumber } from "./numbers.js";

const NO_TIMES = { time: null, filled: [], gap: false, base: null, scale: null, known: null };

export class VectorReader {
  kind = "vectors";
  note = "";
  zoned = false;

  /**
   * @param {number} width Numbers per token.
   * @param {string[]} names Their names; empty if they have none.
   * @param {number} together Tokens per record.
   */
  constructor(width, names = [], together = 1) {
    this.width = width;
    this.names = names;
    this.together = together;
  }

  reset() {}

  check(columns, count) {
    const size = this.width * this.together;
    if (this.#byName(columns)) {
      const missing = this.names.filter((name) => !columns.includes(name));
      // Names are a help, not a must: a file with as many columns as there are inputs has them in order.
      if (missing.length && !(missing.length === this.names.length && count === size)) {
        throw new Error(
          `${listed(missing)} ${missing.length === 1 ? "is" : "are"} missing from the columns of the CSV.`,
        );
      }
    } else if (count !== size) {
      throw new Error(`The CSV has ${counted(count, "column")}, but the model takes ${counted(size, "number")} a row.`);
    }
    /** Whether records are lists of fields, in order. */
    this.ordered = !this.#byName(columns) || !columns.includes(this.names[0]);
  }

  #byName = (columns) => columns !== null && this.names.length > 0 && this.together === 1;

  /**
   * @param {Record<string, string>|(string|number)[]} record
   * @returns {import("./table.js").Token[]}
   */
  read(record) {
    const fields = Array.isArray(record) ? record : this.names.map((name) => record[name]);
    const name = (place) => (this.names.length ? `'${this.names[place % this.width]}'` : `number ${place + 1}`);
    const numbers = fields.map((field, place) => readNumber(field, name(place)));
    const missing = numbers.findIndex(Number.isNaN);
    if (missing >= 0) throw new RecordError(`${name(missing)} is ${emptyText(fields[missing])}`);
    return Array.from({ length: this.together }, (_, i) => ({
      ...NO_TIMES,
      x: Float32Array.from(numbers.slice(i * this.width, (i + 1) * this.width)),
    }));
  }

  ahead() {
    return null;
  }
}

/** Frames of which several make a token: their mean, standard deviation, minimum and maximum. */
export class HopReader extends VectorReader {
  /** @param {number} hop Frames per token. */
  constructor(width, names, hop) {
    super(width, names);
    this.hop = hop;
    this.reset();
  }

  reset() {
    this.state = [];
  }

  read(record) {
    const [token] = super.read(record);
    const frames = [...this.state, token.x];
    this.state = frames.length < this.hop ? frames : [];
    return frames.length < this.hop ? [] : [{ ...token, x: statistics(frames) }];
  }
}

/** @param {Float32Array[]} frames */
function statistics(frames) {
  const width = frames[0].length;
  const x = new Float32Array(4 * width);
  for (let i = 0; i < width; i++) {
    const values = frames.map((frame) => frame[i]);
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
    x.set([mean], i);
    x.set([Math.sqrt(variance)], width + i);
    x.set([Math.min(...values)], 2 * width + i);
    x.set([Math.max(...values)], 3 * width + i);
  }
  return x;
}
