/**
 * A stream of an exported model: fill the states, run the step graph, and feed each next
 * state to the next step.
 *
 *     const stream = await OnnxStream.open(bytes, card); // of model.onnx and model.json
 *     const y = await stream.push(x); // x: Float32Array [input_dim], in the user's units
 *
 * The names, shapes and initial values of the states are in the card, so this client knows
 * nothing about the model.
 */

import * as ort from "onnxruntime-web/wasm";

/** The arrays that hold a tensor's data, by its dtype. int64 counts tokens. */
const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int32: Int32Array,
  int64: BigInt64Array,
  bool: Uint8Array,
};

/** JSON has no infinity, so the card writes these as text. */
const INFINITE = { inf: Infinity, "-inf": -Infinity };

const OPTIONS = { executionProviders: ["wasm"], graphOptimizationLevel: "all" };

export class OnnxStream {
  /** The number of tokens taken in. */
  tokens = 0;

  #session;
  #card;
  #feeds = {};
  #x;

  /**
   * @param {Uint8Array} model The step graph, the contents of model.onnx.
   * @param {object} card The contents of model.json.
   */
  static async open(model, card) {
    // Several threads would need a page that is served with special headers.
    ort.env.wasm.numThreads = 1;
    return new OnnxStream(await ort.InferenceSession.create(model, OPTIONS), card);
  }

  /** @private Use `open`. */
  constructor(session, card) {
    this.#session = session;
    this.#card = card;
    this.#x = tensor(card.x, 0);
    this.reset();
  }

  /** Start a new stream. */
  reset() {
    this.tokens = 0;
    this.#feeds = { [this.#card.x.name]: this.#x };
    for (const state of this.#card.states) {
      this.#feeds[state.input] = tensor(state, state.initial);
    }
  }

  /**
   * Take in the next token, or the next `update_size` tokens one after another. Await it
   * before the next push.
   *
   * @param {Float32Array} x
   * @returns {Promise<Float32Array>} The model's output, [output_dim] for each token.
   */
  async push(x) {
    const size = this.#x.data.length;
    if (x.length !== size) throw new Error(`x has ${x.length} numbers, not ${size}`);
    this.#x.data.set(x);
    const outputs = await this.#session.run(this.#feeds);
    for (const state of this.#card.states) this.#feeds[state.input] = outputs[state.output];
    this.tokens += this.#card.update_size;
    return outputs[this.#card.y.name].data;
  }

  /** The size of the state: all that a stream remembers, however long it is. */
  get stateBytes() {
    const sizes = this.#card.states.map(({ input }) => this.#feeds[input].data.byteLength);
    return sizes.reduce((sum, size) => sum + size, 0);
  }

  /** Free the memory of the session. */
  async close() {
    await this.#session.release();
  }
}

/** A tensor of one stream, filled with a number. */
function tensor({ dtype, shape }, number) {
  const dims = shape.map((size) => (size === "streams" ? 1 : size));
  const data = new ARRAYS[dtype](dims.reduce((product, size) => product * size, 1));
  const value = INFINITE[number] ?? number;
  data.fill(dtype === "int64" ? BigInt(value) : value);
  return new ort.Tensor(dtype, data, dims);
}
