/**
 * Numbers as people write them: 1013.5 or 1013,5, and 1,013.5 or 1.013,5 with a thousands separator.
 *
 * The marks are the decimal mark, followed by the thousands separator if there is one: ".", ",", ".," or ",.".
 */

import { RecordError, isEmpty, shown } from "./fields.js";

const GROUPED = {
  ".,": /^[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]*)?$/,
  ",.": /^[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+(,[0-9]*)?$/,
};
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const INFINITE = /^[+-]?inf(inity)?$/i;

/**
 * Return the number in a field; NaN if it is empty.
 *
 * @param {string|number|null|undefined} field
 * @param {string} name What an error calls the field.
 * @param {string} marks
 * @throws {RecordError} If it is not a finite number.
 */
export function readNumber(field, name, marks = ".") {
  if (isEmpty(field)) return NaN;
  const value = typeof field === "number" ? field : parseNumber(field, marks);
  if (Number.isFinite(value)) return value;
  throw new RecordError(`${name} is ${shown(field)}, which is not ${Number.isNaN(value) ? "a number" : "finite"}`);
}

/** Parse text as Python's float does; NaN if it is not a number. */
export function parseNumber(text, marks = ".") {
  text = text.trim();
  if (GROUPED[marks]?.test(text)) text = text.replaceAll(marks[1], "");
  if (marks[0] === ",") {
    if (text.includes(".")) return NaN;
    text = text.replaceAll(",", ".");
  }
  if (NUMBER.test(text)) return Number(text);
  return INFINITE.test(text) ? (text.startsWith("-") ? -Infinity : Infinity) : NaN;
}
