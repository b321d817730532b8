/** From files that a visitor supplies to a model that runs; a message says what is wrong with files that do not. */

import { cardIn, parseCard, sameCard } from "./card.js";
import { readMetadata } from "./onnx.js";
import { readerOf } from "./reader/index.js";
import { OnnxStream } from "./stream.js";

/**
 * @typedef {object} Model
 * @property {string} name
 * @property {import("./card.js").Card} card
 * @property {object} reader Turns records into tokens.
 * @property {OnnxStream} stream
 * @property {number} bytes The size of the step graph, with its weights.
 */

/**
 * Open a model from model.onnx, with or without model.json and model.chunk.onnx beside it.
 *
 * @param {File[]} files
 * @returns {Promise<Model>}
 */
export async function openModel(files) {
  const graphs = files.filter(({ name }) => name.endsWith(".onnx"));
  const cards = files.filter(({ name }) => name.endsWith(".json"));
  if (!graphs.length) throw new Error(`${cards[0].name} is the card of a model: drop its model.onnx, too.`);
  const read = await Promise.all(graphs.map(async (file) => readGraph(file)));
  const steps = read.filter(({ name, card }) => name !== card.files?.chunk);
  if (!steps.length) {
    const { name, card } = read[0];
    throw new Error(
      `${name} is the chunk graph, for many tokens a call: this page runs the step graph, ${card.files.step}.`,
    );
  }
  const { name, card, bytes } = steps.find((graph) => graph.name === graph.card.files?.step) ?? steps[0];
  // Of the files of a folder, only the one of the same name must be the card.
  for (const file of cards.filter((each) => cards.length === 1 || each.name === name.replace(/onnx$/, "json"))) {
    const beside = parseCard(await file.text(), file.name);
    if (sameCard(beside, card)) continue;
    const edited = beside.sha256 === card.sha256;
    throw new Error(
      edited
        ? `${file.name} was edited after the export: it differs from the card inside ${name}.`
        : `${file.name} is the card of another model than ${name}.`,
    );
  }
  const reader = readerOf(card);
  return { name, card, reader, stream: await openStream(bytes, card, name), bytes: bytes.length };
}

async function readGraph(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  return { name: file.name, bytes, card: cardIn(readMetadata(bytes, file.name), file.name) };
}

const WARM_UP = { steps: 200, milliseconds: 250 }; // a browser compiles code well only after it has run for a while

/** Open a stream and try some steps: a graph that cannot run fails here, and not in the middle of a stream. */
async function openStream(bytes, card, name) {
  let stream;
  try {
    stream = await OnnxStream.open(bytes, card);
    const [zeros, end] = [
      new Float32Array(card.update_size * card.x.shape.at(-1)),
      performance.now() + WARM_UP.milliseconds,
    ];
    for (let i = 0; i < WARM_UP.steps && performance.now() < end; i++) await stream.push(zeros);
    stream.reset();
    return stream;
  } catch (error) {
    await stream?.close();
    throw new Error(`${name} cannot be run: ${String(error.message ?? error).split("\n")[0]}`);
  }
}
