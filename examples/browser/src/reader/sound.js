/** Reads chunks of mono samples, of any length: a token has the mean and deviation of each mel band of some frames. */

import { RecordError } from "./fields.js";
import { BANDS, FRAME, HOP, RATE, logMel } from "./mel.js";

export class SoundReader {
  kind = "audio";
  note = "";
  zoned = false;
  width = 2 * BANDS;

  /** @param {{frames?: number, rate?: number}} fields `info.reader` of the card. */
  constructor({ frames = 10, rate = RATE }) {
    if (rate !== RATE)
      throw new Error(`reader.rate=${rate}: this page reads ${RATE.toLocaleString("en-US")} samples per second.`);
    this.rate = rate;
    this.frames = frames;
    this.hop = frames * HOP; // samples from one token to the next
    this.length = (frames - 1) * HOP + FRAME; // samples of a token
    this.reset();
  }

  reset() {
    this.state = new Float32Array(0); // samples that are not part of a complete token yet
  }

  check() {
    throw new Error("The model reads audio, not tables: let it listen to the microphone, or drop an audio file.");
  }

  /**
   * @param {Float32Array} samples
   * @returns {import("./table.js").Token[]}
   */
  read(samples) {
    const bad = samples.findIndex((sample) => !Number.isFinite(sample));
    if (bad >= 0) throw new RecordError(`sample ${bad + 1} of a chunk is not finite`);
    const all = new Float32Array(this.state.length + samples.length);
    all.set(this.state);
    all.set(samples, this.state.length);
    const tokens = [];
    let start = 0;
    for (; start + this.length <= all.length; start += this.hop) {
      tokens.push({
        x: this.#token(all, start),
        time: null,
        filled: [],
        gap: false,
        base: null,
        scale: null,
        known: null,
      });
    }
    this.state = all.slice(start);
    return tokens;
  }

  ahead() {
    return null;
  }

  #token(samples, start) {
    const x = new Float32Array(this.width);
    const frames = Array.from({ length: this.frames }, (_, i) => logMel(samples, start + i * HOP));
    for (let band = 0; band < BANDS; band++) {
      const mean = frames.reduce((sum, frame) => sum + frame[band], 0) / frames.length;
      const variance = frames.reduce((sum, frame) => sum + (frame[band] - mean) ** 2, 0) / frames.length;
      x[band] = mean;
      x[BANDS + band] = Math.sqrt(variance);
    }
    return x;
  }
}
