// Compares the page's reader with Python's: tests/export/browser_cases.py writes the cases, with Python's answers.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { forecasts, probabilities } from "../src/answers.js";
import { RecordError } from "../src/reader/fields.js";
import { readerOf } from "../src/reader/index.js";
import { withAhead } from "../src/reader/known.js";
import { timeParser } from "../src/reader/times.js";

const path = process.env.NYSTREAM_CASES;
const cases = path ? JSON.parse(readFileSync(path, "utf8")) : null;
const skip = cases ? false : "NYSTREAM_CASES names no file; run it with pytest tests/export/test_browser.py";

function close(actual, expected, tolerance, what) {
  assert.equal(actual.length, expected.length, what);
  expected.forEach((value, i) => {
    const off = Math.abs(actual[i] - value);
    assert.ok(off <= tolerance * Math.max(1, Math.abs(value)), `${what}[${i}]: ${actual[i]}, not ${value}`);
  });
}

test("tokens of records", { skip }, async (t) => {
  for (const { name, card, records, ahead, ordered, expected, tolerance } of cases?.readers ?? []) {
    await t.test(name, () => {
      const reader = readerOf(card);
      reader.ordered = ordered;
      const given = ahead ? withAhead(records, reader) : records;
      given.forEach((record, place) => {
        const what = `${name}, record ${place}`;
        const wanted = expected[place];
        if (wanted === null) {
          assert.throws(() => reader.read(record), RecordError, what);
          return;
        }
        const tokens = reader.read(
          record instanceof Array && card.info.reader?.kind === "audio" ? Float32Array.from(record) : record,
        );
        assert.equal(tokens.length, wanted.length, `${what}: number of tokens; ${reader.note}`);
        tokens.forEach((token, i) => {
          close(Array.from(token.x), wanted[i].x, tolerance, `${what}, x`);
          assert.equal(token.time, wanted[i].time, `${what}, time`);
          assert.equal(token.gap, wanted[i].gap, `${what}, gap`);
          assert.deepEqual(token.filled, wanted[i].filled, `${what}, filled`);
          for (const key of ["base", "scale"]) {
            if (wanted[i][key] === null) assert.equal(token[key], null, `${what}, ${key}`);
            else close(token[key], wanted[i][key], 1e-9, `${what}, ${key}`);
          }
          if (wanted[i].due !== null) assert.equal(reader.ahead(token.time, 3), wanted[i].due, `${what}, due`);
        });
      });
    });
  }
});

test("times", { skip }, () => {
  for (const { form, text, time, zoned } of cases?.times ?? []) {
    const what = `${form}: ${text}`;
    if (time === null) assert.throws(() => timeParser(form)(text), Error, what);
    else assert.deepEqual(timeParser(form)(text), { time, zoned }, what);
  }
});

test("forecasts", { skip }, () => {
  for (const { y, meaning, base, scale, minimum, expected } of cases?.forecasts ?? []) {
    const values = forecasts(Float32Array.from(y), meaning, base, scale, minimum);
    close(values.flat(2), expected, 1e-12, "forecasts");
  }
});

test("probabilities", { skip }, () => {
  for (const { y, several, expected } of cases?.probabilities ?? []) {
    close(probabilities(Float32Array.from(y), several), expected, 1e-6, "probabilities");
  }
});

test("settings that the page cannot follow", { skip }, () => {
  for (const { card, setting } of cases?.refused ?? []) {
    assert.throws(
      () => readerOf(card),
      (error) => error.message.includes(setting),
      setting,
    );
  }
});
