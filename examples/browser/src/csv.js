/** CSV: a header, unless the first line is all numbers, then one row a line. Fields stay text for the reader. */

const SEPARATORS = [",", ";", "\t", "|"];

/**
 * @typedef {object} Table
 * @property {string[]|null} columns The names in the header; null if there is none.
 * @property {number} width The number of columns.
 * @property {string[][]} rows
 * @property {{line: number, reason: string}[]} bad Lines that cannot be read.
 */

/**
 * @param {string} text
 * @param {string} name Of the file, for messages.
 * @returns {Table}
 */
export function parseCsv(text, name) {
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/);
  const first = lines.findIndex((line) => line.trim());
  if (first < 0) throw new Error(`${name} is empty.`);
  if (text.includes("\0")) throw new Error(`${name} is not a text file.`);
  const separator = mostFrequent(lines[first]);
  const head = splitLine(lines[first], separator)?.map((cell) => cell.trim());
  if (!head) throw new Error(`${name} is not CSV: the quotes in its first line do not match.`);
  const numbers = head.every((cell) => cell === "" || Number.isFinite(Number(cell)));
  const repeated = head.find((cell, place) => head.indexOf(cell) < place);
  if (!numbers && repeated !== undefined) throw new Error(`${name} has several columns named '${repeated}'.`);
  const table = { columns: numbers ? null : head, width: head.length, rows: [], bad: [] };
  lines.forEach((line, place) => {
    if (place < first + (numbers ? 0 : 1) || !line.trim()) return;
    const cells = splitLine(line, separator);
    if (cells?.length === head.length) table.rows.push(cells);
    else {
      const reason = cells
        ? `it has ${cells.length} fields, but the first line has ${head.length}`
        : "its quotes do not match";
      table.bad.push({ line: place + 1, reason });
    }
  });
  if (!table.rows.length)
    throw new Error(`${name} has no rows${table.bad.length ? ` that can be read: ${table.bad[0].reason}` : ""}.`);
  return table;
}

/** The rows as records, with a field for each column; as lists of fields if there is no header. */
export function recordsOf({ columns, rows }) {
  if (columns === null) return rows;
  return rows.map((cells) => {
    const record = Object.create(null);
    columns.forEach((column, place) => (record[column] = cells[place]));
    return record;
  });
}

function mostFrequent(header) {
  const counts = SEPARATORS.map((separator) => header.replace(/"[^"]*"/g, "").split(separator).length);
  return SEPARATORS[counts.indexOf(Math.max(...counts))];
}

/** The fields of a line; null if its quotes do not match. */
function splitLine(line, separator) {
  if (!line.includes('"')) return line.split(separator);
  const cells = [];
  let at = 0;
  for (;;) {
    if (line[at] === '"') {
      let cell = "";
      for (at++; ; at++) {
        if (at >= line.length) return null;
        if (line[at] !== '"') cell += line[at];
        else if (line[at + 1] === '"') cell += line[at++];
        else break;
      }
      cells.push(cell);
      at++;
      if (at < line.length && line[at] !== separator) return null;
    } else {
      const end = line.indexOf(separator, at);
      cells.push(line.slice(at, end < 0 ? line.length : end));
      at = end < 0 ? line.length : end;
    }
    if (at >= line.length) return cells;
    at++;
  }
}
