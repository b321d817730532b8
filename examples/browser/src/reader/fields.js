/** The fields of a record: which count as empty, and how messages show them. */

const EMPTY = new Set(["", "na", "n/a", "nan", "nat", "null", "none", "-", "?"]);
const MAX_SHOWN = 40;

/** A record that cannot be read; the reader is unchanged. */
export class RecordError extends Error {}

/** @param {string|number|null|undefined} field */
export function isEmpty(field) {
  if (typeof field === "string") return EMPTY.has(field.trim().toLowerCase());
  return field === null || field === undefined || Number.isNaN(field);
}

/** Describe a field without a value: empty, nan, or as it is written. */
export function emptyText(field) {
  const text = field === null || field === undefined ? "" : String(field).trim();
  if (!text) return "empty";
  return text.toLowerCase() === "nan" ? "nan" : `${shown(field)}, which counts as empty`;
}

/** A field for a message, shortened if it is long. */
export function shown(field) {
  const text = typeof field === "string" ? `'${field}'` : String(field);
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)}…`;
}

/** Quoted names for a message, the first ones if there are many. */
export function listed(names, limit = 8) {
  const more = names.length - limit;
  return (
    names
      .slice(0, limit)
      .map((name) => `'${name}'`)
      .join(", ") + (more > 0 ? ` and ${more} more` : "")
  );
}

/** A count with its noun, in the singular or plural. */
export const counted = (count, noun) => `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;
