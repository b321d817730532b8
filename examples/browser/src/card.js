/** The card of an exported model: what it is called, what it takes and gives, and its states. */

const FORMAT = "nystream-onnx";
const VERSION = 1;
const DTYPES = ["float32", "float64", "int32", "int64", "bool"];
const METADATA_KEY = "nystream";

/**
 * @typedef {object} Port
 * @property {string} name
 * @property {string} dtype
 * @property {(string|number)[]} shape
 *
 * @typedef {object} State
 * @property {string} input
 * @property {string} output
 * @property {string} dtype
 * @property {(string|number)[]} shape
 * @property {number|string} initial What fills the tensor of a new stream; "-inf" for −∞, "inf" for ∞.
 *
 * @typedef {object} Card
 * @property {{step: string, chunk: string}} files
 * @property {Port} x
 * @property {Port} y
 * @property {State[]} states
 * @property {number} window
 * @property {number} update_size Tokens that are taken in together.
 * @property {object} info Names, units and the reader, as `ns.ModelInfo`.
 */

/**
 * Return the card in the metadata of an ONNX file.
 *
 * @param {Map<string, string>} metadata
 * @param {string} name Of the file, for messages.
 * @returns {Card}
 */
export function cardIn(metadata, name) {
  const text = metadata.get(METADATA_KEY);
  if (text === undefined) {
    throw new Error(`${name} has no card: it was not written by ns.export_onnx, or its metadata was removed.`);
  }
  return parseCard(text, `the card in ${name}`);
}

/**
 * Parse and check a card.
 *
 * @param {string} text
 * @param {string} name What messages call it.
 * @returns {Card}
 */
export function parseCard(text, name) {
  let card;
  try {
    card = JSON.parse(text);
  } catch {
    throw new Error(`${name} is not JSON: it is damaged or truncated.`);
  }
  if (card?.format !== FORMAT) throw new Error(`${name} is not the card of an exported nystream model.`);
  if (card.version !== VERSION) {
    const newer = card.version > VERSION ? "was written by a newer nystream" : "cannot be read";
    throw new Error(`${name} ${newer}: it has version ${shown(card.version)}, and this page reads version ${VERSION}.`);
  }
  checkPort(card.x, name, "x");
  checkPort(card.y, name, "y");
  if (!Array.isArray(card.states)) throw bad(name, "states", card.states, "a list");
  card.states.forEach((state, place) => {
    const where = `states[${place}]`;
    for (const key of ["input", "output"]) {
      if (typeof state?.[key] !== "string") throw bad(name, `${where}.${key}`, state?.[key], "a name");
    }
    checkTensor(state, name, where);
    const fillable = typeof state.initial === "number" && (state.dtype !== "int64" || Number.isInteger(state.initial));
    if (!fillable && !["inf", "-inf"].includes(state.initial)) {
      throw bad(name, `${where}.initial`, state.initial, 'a number, "inf" or "-inf"');
    }
  });
  if (!(Number.isInteger(card.update_size) && card.update_size > 0)) {
    throw bad(name, "update_size", card.update_size, "a whole number above 0");
  }
  if (typeof card.info !== "object" || card.info === null) throw bad(name, "info", card.info, "an object");
  return card;
}

/** Whether two cards are the same, value by value. */
export function sameCard(one, other) {
  if (typeof one !== "object" || one === null || typeof other !== "object" || other === null) return one === other;
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => sameCard(one[key], other[key]));
}

/** The number of values of a token. */
export const inputDim = (card) => Number(card.x.shape.at(-1));

/** The number of outputs of a token. */
export const outputDim = (card) => Number(card.y.shape.at(-1));

function checkPort(port, name, key) {
  if (typeof port?.name !== "string") throw bad(name, `${key}.name`, port?.name, "a name");
  checkTensor(port, name, key);
}

function checkTensor(tensor, name, key) {
  if (!DTYPES.includes(tensor.dtype)) throw bad(name, `${key}.dtype`, tensor.dtype, `one of ${DTYPES.join(", ")}`);
  const sized = (size) => size === "streams" || (Number.isInteger(size) && size >= 0);
  if (!Array.isArray(tensor.shape) || !tensor.shape.every(sized)) {
    throw bad(name, `${key}.shape`, tensor.shape, 'a list of sizes and "streams"');
  }
}

const bad = (name, key, value, needed) => new Error(`${name} has ${key}=${shown(value)}, but it must be ${needed}.`);

const shown = (value) => JSON.stringify(value)?.slice(0, 40) ?? "nothing";
