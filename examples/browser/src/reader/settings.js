/** The settings of a table reader, as the card has them, checked and with their defaults. */

import { Spacing } from "./spacing.js";
import { timeParser } from "./times.js";

const POLICIES = ["fail", "fill", "skip"];
const DEFAULTS = {
  time: null,
  form: "iso",
  step: null,
  periods: [24, 168],
  decimal: ".",
  months: 0,
  day: 0,
  zoned: null,
  centred: false,
  missing: "fail",
  gaps: "fail",
  lags: [],
  ahead: 0,
  clock: null,
  timezone: "",
  known: [],
  known_rows: 0,
  series: null,
  static: [],
  series_rows: 0,
};

/**
 * @typedef {object} Column
 * @property {string} name
 * @property {string[]} categories Its values, if it has categories; empty for numbers.
 * @property {number} usual What fills a missing field if there is no earlier value.
 */

/**
 * Return the settings with what follows from them.
 *
 * @param {object} given `info.reader` of the card.
 * @throws {Error} If a setting is unknown, or one that this page cannot follow; it names the setting.
 */
export function tableSettings(given) {
  for (const name of Object.keys(given)) {
    if (!["kind", "columns", "targets"].includes(name) && !(name in DEFAULTS)) {
      throw new Error(
        `reader.${name} is a setting that this page does not know; the model may be from a newer nystream.`,
      );
    }
  }
  const settings = { ...DEFAULTS, ...given };
  if (settings.timezone) {
    throw new Error(
      `reader.timezone='${settings.timezone}': this page does not convert local times. ` +
        "Use nystream in Python, or train with times in UTC.",
    );
  }
  for (const name of ["missing", "gaps"]) {
    if (!POLICIES.includes(settings[name])) throw new Error(`reader.${name}='${settings[name]}' is not known.`);
  }
  const { columns, targets, known, time } = settings;
  const names = columns.map((column) => column.name);
  const targetPlaces = targets.map((target) => names.indexOf(target));
  if (targetPlaces.some((place) => place < 0 || columns[place].categories?.length)) {
    throw new Error(`reader.targets must be columns of numbers, and '${targets.join("', '")}' are not all.`);
  }
  // A live record has what is known in advance in a field of its own.
  const liveColumns = columns.map(({ name, categories = [], usual = 0 }) => ({
    name: known.includes(name) ? aheadName(name) : name,
    categories,
    usual,
    numbers: new Map(categories.map((category, number) => [categoryName(category), number])),
  }));
  const scaledPlaces = columns.flatMap((column, place) =>
    settings.series === null || column.categories?.length || settings.static.includes(column.name) ? [] : [place],
  );
  return {
    ...settings,
    columns: liveColumns,
    columnNames: liveColumns.map((column) => column.name),
    targetPlaces,
    scaledPlaces,
    scaledTargets: targetPlaces.map((place) => scaledPlaces.indexOf(place)),
    history: Math.max(1, ...settings.lags),
    periods: time === null ? [] : settings.periods,
    timeColumns: [time, settings.clock].filter((name) => name !== null),
    spacing: time === null ? null : new Spacing(settings.step, settings.months, settings.day),
    parseTime: time === null ? null : timeParser(settings.form),
  };
}

/** The field of a live record with the value of a column at the time that is forecast. */
export const aheadName = (name) => `${name} ahead`;

/** The name of a category; booleans are written in several ways. */
export function categoryName(field) {
  const text = String(field).trim();
  const lower = text.toLowerCase();
  return lower === "true" || lower === "false" ? lower : text;
}
