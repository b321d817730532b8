/**
 * Reads the metadata of an ONNX file without running it.
 *
 * An ONNX file is a protobuf message: a sequence of fields, each with a number, a wire type and a value. This walks
 * over the outermost ones: enough to find the metadata, and to tell a truncated file from one that is no ONNX file.
 */

const GRAPH = 7;
const METADATA = 14;
const FIELDS = new Set([1, 2, 3, 4, 5, 6, GRAPH, 8, METADATA, 20, 25, 26]); // of onnx.ModelProto

/**
 * @param {Uint8Array} bytes The contents of the file.
 * @param {string} name Its name, for messages.
 * @returns {Map<string, string>}
 */
export function readMetadata(bytes, name) {
  const metadata = new Map();
  let graph = false;
  try {
    for (const { number, value } of fields(bytes)) {
      if (!FIELDS.has(number)) throw new NotProtobuf();
      graph ||= number === GRAPH;
      if (number === METADATA) {
        const [key, text] = entry(value);
        metadata.set(key, text);
      }
    }
  } catch (error) {
    if (error instanceof Truncated && (graph || bytes[0] === 0x08)) {
      throw new Error(`${name} is truncated: ${error.message}. Copy or export it again.`);
    }
    throw new Error(`${name} is not an ONNX file.`);
  }
  if (!graph)
    throw new Error(`${name} is ${bytes.length ? "not an ONNX file, or truncated: it has no graph" : "empty"}.`);
  return metadata;
}

class Truncated extends Error {}
class NotProtobuf extends Error {}

/** The key and the value of a metadata entry. */
function entry(bytes) {
  const texts = ["", "", ""];
  for (const { number, value } of fields(bytes)) texts[number] = new TextDecoder().decode(value);
  return [texts[1], texts[2]];
}

/** Yields the fields of a message; the value of a field that is not a sequence of bytes is null. */
function* fields(bytes) {
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (at >= bytes.length) throw new Truncated("it ends in the middle of a field");
      const byte = bytes[at++];
      value += (byte & 127) * 2 ** shift;
      if (byte < 128) return value;
    }
    throw new NotProtobuf();
  };
  while (at < bytes.length) {
    const tag = varint();
    const wire = tag % 8;
    let value = null;
    if (wire === 0) varint();
    else if (wire === 1) at += 8;
    else if (wire === 5) at += 4;
    else if (wire === 2) {
      const length = varint();
      if (at + length > bytes.length)
        throw new Truncated(`${(at + length - bytes.length).toLocaleString("en-US")} bytes or more are missing`);
      value = bytes.subarray(at, at + length);
      at += length;
    } else throw new NotProtobuf();
    yield { number: Math.floor(tag / 8), value };
  }
}
