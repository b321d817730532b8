// What files are: ONNX with a card or not, CSV, numbers.

import assert from "node:assert/strict";
import test from "node:test";

import { cardIn, parseCard, sameCard } from "../src/card.js";
import { parseCsv, recordsOf } from "../src/csv.js";
import { Errors, Latency } from "../src/measures.js";
import { readMetadata } from "../src/onnx.js";
import { parseNumber } from "../src/reader/numbers.js";

const CARD = {
  format: "nystream-onnx",
  version: 1,
  files: { step: "model.onnx", chunk: "model.chunk.onnx" },
  x: { name: "x", dtype: "float32", shape: ["streams", 2] },
  y: { name: "y", dtype: "float32", shape: ["streams", 1] },
  states: [{ input: "state_time", output: "next_state_time", dtype: "int64", shape: ["streams"], initial: 0 }],
  update_size: 1,
  info: {},
};

/** A field of a protobuf message: its number, and bytes. */
const field = (number, bytes) => [number * 8 + 2, bytes.length, ...bytes];
const text = (word) => [...new TextEncoder().encode(word)];
const onnx = (key, value) =>
  Uint8Array.from([8, 8, ...field(7, [1, 2, 3]), ...field(14, [...field(1, text(key)), ...field(2, text(value))])]);

test("metadata of ONNX files", () => {
  const file = onnx("nystream", '{"a": 1}');
  assert.equal(readMetadata(file, "m.onnx").get("nystream"), '{"a": 1}');
  assert.throws(() => readMetadata(file.slice(0, -3), "m.onnx"), /m\.onnx is truncated/);
  assert.throws(() => readMetadata(file.slice(0, 5), "m.onnx"), /truncated/);
  assert.throws(() => readMetadata(Uint8Array.from(text("a,b\n1,2\n")), "m.onnx"), /not an ONNX file/);
  assert.throws(() => readMetadata(new Uint8Array(), "m.onnx"), /empty/);
  assert.throws(() => cardIn(readMetadata(onnx("other", ""), "m.onnx"), "m.onnx"), /no card/);
});

test("cards", () => {
  const check = (change) => parseCard(JSON.stringify({ ...CARD, ...change }), "model.json");
  assert.ok(check({}));
  assert.throws(() => parseCard("{", "model.json"), /not JSON/);
  assert.throws(() => check({ format: "other" }), /not the card/);
  assert.throws(() => check({ version: 2 }), /newer nystream: it has version 2/);
  assert.throws(() => check({ x: { ...CARD.x, dtype: "float16" } }), /x\.dtype="float16"/);
  assert.throws(() => check({ states: [{ ...CARD.states[0], initial: null }] }), /states\[0\]\.initial=null/);
  assert.throws(() => check({ update_size: 0 }), /update_size=0/);
  assert.ok(sameCard(CARD, structuredClone(CARD)));
  assert.ok(!sameCard(CARD, { ...CARD, info: { task: "forecasting" } }));
});

test("CSV", () => {
  const table = parseCsv('\uFEFFa;"b;c";d\n1;"say ""hi""";3\n\n4;5\n6;7;8\n', "t.csv");
  assert.deepEqual(table.columns, ["a", "b;c", "d"]);
  assert.deepEqual(table.rows, [
    ["1", 'say "hi"', "3"],
    ["6", "7", "8"],
  ]);
  assert.equal(table.bad[0].line, 4);
  assert.equal(recordsOf(table)[1].d, "8");
  assert.equal(parseCsv("1,2\n3,4\n", "t.csv").columns, null);
  assert.throws(() => parseCsv(" \n", "t.csv"), /t\.csv is empty/);
  assert.throws(() => parseCsv("a,a\n1,2\n", "t.csv"), /several columns named 'a'/);
  assert.throws(() => parseCsv("a,b\n", "t.csv"), /no rows/);
});

test("numbers", () => {
  assert.equal(parseNumber(" 1e3 "), 1000);
  assert.equal(parseNumber("1,013.5", ".,"), 1013.5);
  assert.equal(parseNumber("1.013,5", ",."), 1013.5);
  assert.equal(parseNumber("-Inf"), -Infinity);
  for (const word of ["0x10", "1_000", "", "1,5", "one"]) assert.ok(Number.isNaN(parseNumber(word)), word);
});

test("measures", () => {
  const latency = new Latency();
  assert.ok(Number.isNaN(latency.median));
  for (let i = 0; i < 160; i++) latency.add(i % 2 ? 0.1 : 0.3); // a coarse clock
  assert.ok(Math.abs(latency.median - 0.2) < 1e-12);
  assert.equal(latency.p99, 0.3);
  const errors = new Errors({ names: ["a"], horizons: [1, 2], quantiles: [] });
  for (const value of [10, 12, 15]) errors.add({ truth: [value], base: [value], values: [[[value + 1], [value + 2]]] });
  assert.deepEqual(errors.of(0, 0), { count: 2, model: 1.5, persistence: 2.5 });
  assert.deepEqual(errors.of(0, 1), { count: 1, model: 3, persistence: 5 });
});
