/** The answers of a stream: the last ones for the chart, all of them (up to a limit) to save, and what was measured. */

import { Errors, Latency } from "./measures.js";

const SHOWN = 4096;
const SAVED = 200_000;

export class History {
  /** @type {import("./session.js").Answer[]} The last ones, oldest first. */
  shown = [];
  /** Lines of JSON. */
  lines = [];
  latency = new Latency();
  skipped = 0;
  reason = "";

  /** @param {import("./session.js").Session} session */
  constructor(session) {
    this.session = session;
    this.errors = session.meaning.kind === "forecast" ? new Errors(session.meaning) : null;
  }

  /** @param {import("./session.js").Answer} answer */
  add(answer) {
    this.shown.push(answer);
    if (this.shown.length > 2 * SHOWN) this.shown.splice(0, SHOWN);
    if (this.lines.length < SAVED) this.lines.push(this.session.toLine(answer));
    this.latency.add(answer.milliseconds);
    this.errors?.add(answer);
  }

  /** Count a record that could not be read, or was dropped; the first reason is kept. */
  skip(reason) {
    this.skipped += 1;
    this.reason ||= reason;
  }
}
