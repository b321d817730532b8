/** The reader of a model's records: the one that it was trained with, or one of plain numbers if it has none. */

import { inputDim } from "../card.js";
import { SoundReader } from "./sound.js";
import { TableReader } from "./table.js";
import { HopReader, VectorReader } from "./vectors.js";

/**
 * @param {import("../card.js").Card} card
 * @throws {Error} If this page cannot follow the reader; it names the setting.
 */
export function readerOf(card) {
  const fields = card.info.reader;
  const reader = fields
    ? makeReader(fields)
    : new VectorReader(inputDim(card), card.info.inputs ?? [], card.update_size);
  const width = reader.hop && reader.kind === "vectors" ? 4 * reader.width : reader.width;
  if (width !== inputDim(card)) {
    throw new Error(`The model's reader makes tokens of ${width} numbers, but the model takes ${inputDim(card)}.`);
  }
  if (card.update_size > 1 && fields) {
    throw new Error(`update_size=${card.update_size}: this page reads such models only if they have no reader.`);
  }
  return reader;
}

function makeReader(fields) {
  if (fields.kind === "table") return new TableReader(fields);
  if (fields.kind === "audio") return new SoundReader(fields);
  if (fields.kind === "frames") {
    const { width, hop = 1 } = fields;
    const names = fields.features ?? Array.from({ length: width }, (_, i) => `feature ${i}`);
    return hop === 1 ? new VectorReader(width, names) : new HopReader(width, names, hop);
  }
  throw new Error(`reader.kind='${fields.kind}' is not known; this page reads table, frames and audio.`);
}
