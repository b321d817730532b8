/**
 * Reads rows of a table as tokens, as `nystream.data.live_table` does: numbers, categories as zeros and ones, what each
 * target was some rows ago, and the time of day and of the week.
 */

import { RecordError, counted, emptyText, isEmpty, listed, shown } from "./fields.js";
import { readNumber } from "./numbers.js";
import { initialState, placeRow, takeRow } from "./rows.js";
import { advance, inUnits, noRows } from "./running.js";
import { aheadName, categoryName, tableSettings } from "./settings.js";
import { joinTime } from "./times.js";

/**
 * @typedef {object} Token One token of a stream.
 * @property {Float32Array} x [input_dim], in the user's units.
 * @property {number|null} time In microseconds since 1970.
 * @property {string[]} filled Columns that were missing and were filled in.
 * @property {boolean} gap The whole row was missing: the token fills a gap in time.
 * @property {number[]|null} base The targets' last known values: what a predicted change is added to.
 * @property {number[]|null} scale The unit of a predicted change; null for the user's.
 * @property {boolean[]|null} known Whether `base` is from the row itself.
 */

export class TableReader {
  kind = "table";
  /** A remark about the last record: why it was dropped, or how its time jumped. */
  note = "";

  /** @param {object} fields `info.reader` of the card. */
  constructor(fields) {
    const settings = (this.settings = tableSettings(fields));
    this.zoned = Boolean(settings.zoned);
    const { columns, targets, lags, periods } = settings;
    const width = columns.reduce((sum, { categories }) => sum + (categories.length || 1), 0);
    this.width = width + targets.length * (lags.length || 1) + 2 * periods.length;
    this.reset();
  }

  /** Forget all rows. */
  reset() {
    const { settings } = this;
    this.state = {
      row: initialState(settings),
      past: Array.from({ length: settings.history }, () => settings.targets.map(() => NaN)),
      running: settings.series === null ? null : noRows(settings.scaledPlaces.length),
    };
  }

  /** Throw if every record of a file would be rejected. `columns` is null if it has no header. */
  check(columns) {
    const { settings } = this;
    const needed = [...settings.timeColumns, ...settings.columnNames];
    if (columns === null) throw new Error(`The CSV has no header, but the model needs the columns ${listed(needed)}.`);
    let missing = needed.filter((name) => !columns.includes(name));
    if (missing.length === needed.length) {
      throw new Error(`None of ${listed(columns)} is a column of the model; it needs ${listed(needed)}.`);
    }
    const ahead = settings.known.map(aheadName);
    if (settings.missing === "fill") {
      missing = missing.filter((name) => [...settings.timeColumns, ...settings.targets, ...ahead].includes(name));
    }
    if (missing.length) {
      throw new Error(`${listed(missing)} ${missing.length === 1 ? "is" : "are"} missing from the columns of the CSV.`);
    }
  }

  /**
   * Return the tokens of a record: none if it is dropped, several if a gap is filled.
   *
   * @param {Record<string, string>} record A field for each column.
   * @returns {Token[]}
   * @throws {RecordError} If it cannot be read; the state is then unchanged.
   */
  read(record) {
    const { settings, state } = this;
    const [time, missing] = this.#time(record);
    const values = settings.columns.map((column) => valueOf(column, record[column.name], settings.decimal));
    missing.push(...settings.columnNames.filter((_, place) => Number.isNaN(values[place])));
    const verdict = placeRow(settings, settings.gaps, state.row, time);
    if (verdict.error) throw new RecordError(`${verdict.error} (reader.gaps='fail')`);
    const early = time !== null && !verdict.rows.length && !verdict.heldBack;
    if (missing.length && settings.missing === "fail" && !early) {
      throw new RecordError(`${missingReason(record, missing)} (reader.missing='fail')`);
    }
    const usable = missing.length && settings.missing === "skip" ? null : values;
    const { rows, state: row } = takeRow(settings, state.row, verdict, usable);
    let { past, running } = state;
    const tokens = rows.map((complete) => {
      const scaled = settings.scaledPlaces.map((place) => complete.values[place]);
      running = running && advance(running, scaled, settings.series_rows);
      const token = this.#token(complete, past, missing, running);
      past = [...past.slice(1), token.base];
      return token;
    });
    this.state = { row, past, running };
    this.note = verdict.note;
    if (!rows.length && !verdict.heldBack && !this.note) {
      this.note =
        missing.length && settings.missing === "skip" ? missingReason(record, missing) : "no target has a value yet";
    }
    return tokens;
  }

  /** When the row that many rows after `time` is due; null if that is unknown. */
  ahead(time, rows) {
    const { gaps, spacing } = this.settings;
    return gaps === "skip" || time === null ? null : spacing.after(time, rows);
  }

  /** The time of a record, one step after the last if it has none, and the empty column's name in that case. */
  #time(record) {
    const { settings, state } = this;
    const last = state.row.span.last;
    if (settings.time === null) return [null, []];
    const fields = settings.timeColumns.map((name) => record[name]);
    const field = settings.clock === null ? fields[0] : joinTime(...fields);
    const name = settings.timeColumns.map((column) => `'${column}'`).join(" and ");
    if (isEmpty(field)) {
      const empty = settings.timeColumns.find((column) => isEmpty(record[column]));
      if (settings.missing === "fill" && last === null) {
        throw new RecordError(`the first row has no '${empty}', and no earlier one to count from`);
      }
      return [last === null ? null : settings.spacing.after(last, 1), [empty]];
    }
    let parsed;
    try {
      parsed = settings.parseTime(field);
    } catch (error) {
      throw new RecordError(`${name} is ${shown(field)}, which is not a time: ${error.message}`);
    }
    if (settings.zoned !== null && parsed.zoned !== settings.zoned) {
      const rule = settings.zoned ? "must have a time zone, such as Z or +02:00" : "must not have a time zone";
      throw new RecordError(`${name} is ${shown(field)}, but times ${rule}, as in training`);
    }
    return [parsed.time, []];
  }

  /** @returns {Token} */
  #token(row, past, missing, running) {
    const { settings } = this;
    const { targetPlaces, scaledTargets } = settings;
    const filled =
      row.kind === "row" ? missing : settings.columnNames.filter((_, place) => Number.isNaN(row.given[place]));
    return {
      x: this.#encode(row, past, running),
      time: settings.time === null ? null : row.time,
      filled,
      gap: row.kind === "gap",
      base: targetPlaces.map((place) => row.values[place]),
      scale: running && scaledTargets.map((place) => Math.sqrt(running.variance[place])),
      known: targetPlaces.map((place) => !Number.isNaN(row.given[place])),
    };
  }

  #encode({ values, time }, past, running) {
    const { columns, targetPlaces, scaledPlaces, scaledTargets, lags, history, centred, periods } = this.settings;
    const x = new Float32Array(this.width);
    let at = 0;
    columns.forEach(({ categories, usual }, place) => {
      const value = values[place];
      const scaled = running ? scaledPlaces.indexOf(place) : -1;
      if (categories.length) {
        x[at + value] = 1;
        at += categories.length;
      } else if (scaled >= 0) {
        x[at++] = inUnits(value - running.mean[scaled], Math.sqrt(running.variance[scaled]));
      } else {
        x[at++] = value - (centred ? usual : 0);
      }
    });
    targetPlaces.forEach((place, target) => {
      const now = values[place];
      const unit = (difference) =>
        running ? inUnits(difference, Math.sqrt(running.variance[scaledTargets[target]])) : difference;
      const differences = lags.length
        ? lags.map((lag) => past[history - lag][target] - now)
        : [now - past[history - 1][target]];
      for (const difference of differences) x[at++] = unit(difference) || 0; // NaN: there was no such row
    });
    const seconds = Math.floor((time + this.#phaseShift) / 1e6);
    for (const period of periods) {
      const length = period * 3600;
      const angle = (2 * Math.PI * (((seconds % length) + length) % length)) / length;
      x[at++] = Math.sin(angle);
      x[at++] = Math.cos(angle);
    }
    return x;
  }

  /** The time from a row to the one that is forecast, whose phases a token has. */
  get #phaseShift() {
    return Math.round(this.settings.ahead * (this.settings.step ?? 0) * 1e6);
  }
}

/** A field as a number, or the number of its category; NaN if it is empty or a new category. */
function valueOf({ name, categories, numbers }, field, decimal) {
  if (!categories.length) return readNumber(field, `column '${name}'`, decimal);
  return isEmpty(field) ? NaN : (numbers.get(categoryName(field)) ?? NaN);
}

/** Why fields of a record count as missing. */
function missingReason(record, missing) {
  const [name] = missing;
  const field = record[name];
  const reason = isEmpty(field)
    ? `column '${name}' is ${name in record ? emptyText(field) : "missing"}`
    : `column '${name}' has ${shown(field)}, a category that is not in the training data`;
  const others = missing.length - 1;
  return reason + (others ? `, and ${counted(others, "other field")} ${others === 1 ? "is" : "are"} missing` : "");
}
