/** One stream of records through a model: the reader makes tokens, the step graph runs, answers come out in words. */

import { forecasts, meaningOf, probabilities } from "./answers.js";
import { RecordError } from "./reader/fields.js";
import { isoTime } from "./reader/times.js";

/**
 * @typedef {object} Answer The answer to one token.
 * @property {number} token Its number in the stream, from 1.
 * @property {number|null} time In microseconds.
 * @property {(number|null)[]} due The times that are forecast, one for each horizon; null if unknown.
 * @property {number[][][]|number[]} values Forecasts [targets][horizons][quantiles], or one number for each name.
 * @property {number[]|null} truth The targets in the record, NaN where they were missing; null if there are none.
 * @property {number[]|null} base The last known targets.
 * @property {number} milliseconds What the step took, as the browser's clock has it.
 */

export class Session {
  /**
   * @param {import("./stream.js").OnnxStream} stream
   * @param {import("./card.js").Card} card
   * @param {object} reader
   */
  constructor(stream, card, reader) {
    this.stream = stream;
    this.card = card;
    this.reader = reader;
    this.meaning = meaningOf(card);
  }

  /** Start a new stream. */
  reset() {
    this.stream.reset();
    this.reader.reset();
  }

  /**
   * Return the answers to a record: none if its reader drops it, several if it fills a gap.
   *
   * @returns {Promise<Answer[]>}
   * @throws {RecordError} If it cannot be read; the session is then unchanged.
   */
  async take(record) {
    const before = this.reader.state;
    const tokens = this.reader.read(record);
    const bad = tokens.find(({ x }) => !x.every(Number.isFinite));
    if (bad) {
      this.reader.state = before;
      const place = bad.x.findIndex((value) => !Number.isFinite(value));
      throw new RecordError(
        `'${this.card.info.inputs?.[place] ?? `number ${place + 1}`}' is NaN, Inf or too large for float32`,
      );
    }
    const [answers, together] = [[], this.card.update_size];
    for (let at = 0; at < tokens.length; at += together)
      answers.push(...(await this.#push(tokens.slice(at, at + together))));
    return answers;
  }

  async #push(tokens) {
    const [{ length }, first] = [tokens[0].x, this.stream.tokens + 1];
    const x = new Float32Array(length * tokens.length);
    tokens.forEach((token, i) => x.set(token.x, i * length));
    const began = performance.now();
    const y = await this.stream.push(x);
    const milliseconds = (performance.now() - began) / tokens.length;
    const size = y.length / tokens.length;
    return tokens.map((token, i) => this.#answer(first + i, token, y.subarray(i * size, (i + 1) * size), milliseconds));
  }

  /** @returns {Answer} */
  #answer(number, token, y, milliseconds) {
    const { meaning, reader, card } = this;
    let values = Array.from(y);
    if (meaning.kind === "forecast") values = forecasts(y, meaning, token.base, token.scale, card.info.minimum);
    if (meaning.kind === "probabilities") values = probabilities(y, meaning.several);
    return {
      token: number,
      time: token.time,
      due: meaning.horizons.map((rows) => (token.time === null ? null : reader.ahead(token.time, rows))),
      values,
      truth: token.base && token.base.map((value, i) => (token.known[i] ? value : NaN)),
      base: token.base,
      filled: token.filled,
      gap: token.gap,
      milliseconds,
    };
  }

  /** An answer as a line of JSON, with the keys of `nystream stream`. */
  toLine({ token, time, due, values, filled, gap }) {
    const { kind, names, horizons, quantiles } = this.meaning;
    const fields = { token };
    if (time !== null) fields.time = isoTime(time, this.reader.zoned);
    const times = due.map((moment) => (moment === null ? null : isoTime(moment, this.reader.zoned)));
    if (kind === "forecast") {
      if (times.includes(null)) fields.ahead = horizons.length > 1 ? horizons : horizons[0];
      else fields.for = times.length > 1 ? times : times[0];
    }
    const leveled = (levels) =>
      quantiles.length ? Object.fromEntries(quantiles.map((q, i) => [q, levels[i]])) : levels[0];
    const plain = (each) => (kind !== "forecast" ? each : each.length > 1 ? each.map(leveled) : leveled(each[0]));
    fields[kind] = Object.fromEntries(names.map((name, i) => [name, plain(values[i])]));
    return JSON.stringify({ ...fields, filled, gap });
  }
}
