/** Everything the page shows about a stream, but the choice of what to follow. */

import { middle } from "./answers.js";
import { ClassChart } from "./chart/classes.js";
import { LineChart } from "./chart/lines.js";
import { momentText } from "./chart/times.js";
import { forecastPicture, outputPicture } from "./pictures.js";
import { listed } from "./reader/fields.js";
import { bytesText, durationText, modelText, numberText, percentText, rowsText, shortText } from "./words.js";

const SPANS = { row: [48, 168, 672, 2016], token: [50, 100, 300, 600] };
const PLAY = "M7 5v14l12-7z";
const PAUSE = "M6 5h4v14H6zM14 5h4v14h-4z";
const CHARTS = {
  forecast: "Forecast against the actual values over time",
  probabilities: "Probabilities of the classes over time",
  output: "Outputs of the model over time",
};

export const $ = (id) => document.getElementById(id);

/**
 * @typedef {object} Source What is followed.
 * @property {string} title
 * @property {string} subtitle
 * @property {import("./csv.js").Table} [table]
 * @property {Float32Array[]} [chunks] Of an audio file.
 * @property {boolean} [microphone]
 * @property {boolean} [sample]
 * @property {string[]} [names] Of the series in the table.
 * @property {string} [series] The one that is followed.
 */

export class Panel {
  #charts = { lines: new LineChart($("chart")), classes: new ClassChart($("chart")) };
  #choice = { span: 0, target: 0, horizon: 0, cursor: null };
  #stream = null;

  constructor() {
    $("chart").addEventListener("pointermove", ({ offsetX }) => this.#point(offsetX));
    $("chart").addEventListener("pointerleave", () => this.#point(null));
    $("alert")
      .querySelector("button")
      .addEventListener("click", () => this.dismiss());
    addEventListener("resize", () => this.show());
  }

  /**
   * Show another stream, with the choices that it has.
   *
   * @param {object} stream
   * @param {import("./model.js").Model} stream.model
   * @param {import("./history.js").History} stream.history
   * @param {Source} stream.source
   * @param {import("./player.js").Player} stream.player
   * @param {(series: string) => void} onSeries
   */
  follow(stream, onSeries) {
    this.#stream = stream;
    const { model, history, source } = stream;
    const { kind, names, horizons } = history.session.meaning;
    const [choice, unit] = [this.#choice, source.table ? "row" : "token"];
    const { seconds } = model.card.info;
    $("title").textContent = source.title;
    $("subtitle").textContent = source.subtitle;
    $("loaded").hidden = true;
    $("listen").hidden = model.reader.kind !== "audio" || Boolean(source.microphone);
    $("sample").hidden = Boolean(source.sample);
    $("progress").hidden = Boolean(source.microphone);
    choice.target = choice.horizon = 0;
    choice.cursor = null;
    if (!SPANS[unit].includes(choice.span)) choice.span = SPANS[unit][innerWidth < 640 ? 0 : 1];
    const spans = SPANS[unit];
    this.#offer(
      "span",
      spans.map((span) => rowsText(span, seconds, unit)),
      spans.indexOf(choice.span),
      (i) => (choice.span = spans[i]),
    );
    this.#offer("target", kind === "forecast" ? names : [], 0, (i) => (choice.target = i));
    this.#offer(
      "horizon",
      horizons.map((rows) => rowsText(rows, seconds)),
      0,
      (i) => (choice.horizon = i),
    );
    const series = source.names ?? [];
    this.#offer("series", series, series.indexOf(source.series), (i) => onSeries(series[i]));
    this.show();
  }

  /** Say that a model is ready, and what it needs. */
  announce(model) {
    const { reader, card, name } = model;
    const [text, strong] = ["p", "strong"].map((tag) => document.createElement(tag));
    strong.textContent = name;
    text.append(strong, ` is ready: ${modelText(model)} ${needText(reader, card)}`);
    $("loaded").replaceChildren(text);
    $("loaded").hidden = false;
    $("listen").hidden = reader.kind !== "audio";
    $(reader.kind === "audio" ? "listen" : "pick").focus();
  }

  /** Show a message; what runs goes on. */
  complain(error) {
    console.warn(error);
    $("alert").querySelector("p").textContent = error.message ?? String(error);
    $("alert").hidden = false;
    $("alert").scrollIntoView({ block: "nearest" });
  }

  dismiss() {
    $("alert").hidden = true;
  }

  /** Draw the newest state of everything. */
  show() {
    if (!this.#stream) return;
    const { model, history, source, player } = this.#stream;
    const { playing, ended, position, count } = player;
    const live = Boolean(source.microphone);
    const active = live ? source.listening : playing;
    this.#legend(this.#draw());
    $("play").disabled = !live && !playing && ended;
    $("play").querySelector("span").textContent = live ? (active ? "Stop" : "Listen") : active ? "Pause" : "Play";
    $("play")
      .querySelector("path")
      .setAttribute("d", active ? PAUSE : PLAY);
    $("restart").disabled = live;
    $("save").disabled = !history.lines.length;
    $("progress").value = count ? position / count : 0;
    const notes = this.#notes();
    if ($("notes").textContent !== notes) $("notes").textContent = notes;

    $("median").textContent = durationText(history.latency.median);
    $("p99").textContent = `p99 ${durationText(history.latency.p99)}`;
    const bytes = model.stream.stateBytes;
    $("state").textContent = bytesText(bytes);
    $("state-note").textContent = `${bytes.toLocaleString("en-US")} bytes, however long it runs`;
    $("tokens").textContent = model.stream.tokens.toLocaleString("en-US");
    $("tokens-note").textContent = live
      ? "as they come"
      : `${(count - position).toLocaleString("en-US")} of ${count.toLocaleString("en-US")} records left`;
    if (history.errors) this.#error();
    else this.#newest();
  }

  #point(pixels) {
    if (!this.#stream || this.#stream.history.session.meaning.kind === "probabilities") return;
    const picture = this.#draw();
    const token = pixels === null ? 0 : Math.round(this.#charts.lines.at(pixels, picture));
    this.#choice.cursor = token >= picture.first && token <= picture.now ? token : null;
    this.show();
  }

  #offer(id, texts, chosen, onChoice) {
    const select = $(id);
    if (id !== "span") select.parentElement.hidden = texts.length < 2;
    select.replaceChildren(...texts.map((text, i) => new Option(text, String(i), false, i === chosen)));
    select.onchange = () => {
      onChoice(select.selectedIndex);
      this.show();
    };
  }

  #draw() {
    const { model, history } = this.#stream;
    const { kind, names } = history.session.meaning;
    const { span } = this.#choice;
    if (kind === "probabilities") {
      const columns = history.shown.slice(-span).map(({ values }) => values);
      this.#charts.classes.draw({
        names,
        columns,
        span,
        now: model.stream.tokens,
        seconds: model.card.info.seconds,
      });
      return null;
    }
    const picture = kind === "forecast" ? forecastPicture(history, this.#choice) : outputPicture(history, this.#choice);
    this.#charts.lines.draw(picture);
    return picture;
  }

  /** The values at the pointer, or the newest ones. */
  #legend(picture) {
    const { history } = this.#stream;
    const { meaning } = history.session;
    const entries = [];
    if (history.shown.length && meaning.kind === "forecast") entries.push(...this.#forecastEntries());
    if (history.shown.length && meaning.kind === "output") {
      const answer = this.#at(this.#choice.cursor) ?? history.shown.at(-1);
      picture.lines.forEach(({ colour }, i) =>
        entries.push([colour, meaning.names[i], answer.values[i], meaning.units[i] ?? ""]),
      );
    }
    $("legend").hidden = !entries.length;
    $("legend").replaceChildren(...entries.map(legendEntry));
    const summary = entries.map(([, name, value, unit]) => `${name}: ${numberText(value)} ${unit}`).join("; ");
    $("chart").setAttribute("aria-label", `${CHARTS[meaning.kind]}. ${summary}`);
  }

  #forecastEntries() {
    const { shown, session } = this.#stream.history;
    const { meaning, reader } = session;
    const { target, horizon, cursor } = this.#choice;
    const [rows, unit] = [meaning.horizons[horizon], meaning.units[target] ?? ""];
    const here = this.#at(cursor) ?? shown.at(-1);
    const made = cursor === null ? here : this.#at(cursor - rows); // when the forecast for the pointer was made
    const due = cursor === null ? (here.time === null ? null : reader.ahead(here.time, rows)) : here.time;
    const [now, then] = [
      here.time === null ? `row ${here.token}` : momentText(here.time),
      due === null ? `${rowsText(rows)} ahead` : momentText(due),
    ];
    return [
      ["truth", `Actual, ${now}`, here.truth?.[target], unit],
      ["forecast", `Forecast, ${then}`, made && middle(made.values[target][horizon], meaning.quantiles), unit],
    ];
  }

  /** The answer to a token, if it is still known. */
  #at(token) {
    const { shown } = this.#stream.history;
    return token === null ? undefined : shown[token - shown[0].token];
  }

  #notes() {
    const { history, source, player } = this.#stream;
    const parts = [];
    if (source.microphone)
      parts.push(source.listening ? "Listening; the sound stays in this page." : "Stopped listening.");
    else if (player.ended && player.count) parts.push("The end of the file: Restart plays it again.");
    const [broken] = source.table?.bad ?? [];
    if (broken)
      parts.push(`${source.table.bad.length} lines of the file cannot be read; line ${broken.line}: ${broken.reason}.`);
    if (history.skipped) parts.push(`${history.skipped.toLocaleString("en-US")} skipped; ${history.reason}.`);
    return parts.join(" ");
  }

  #error() {
    const { history } = this.#stream;
    const { target, horizon } = this.#choice;
    const { count, model, persistence } = history.errors.of(target, horizon);
    const unit = history.session.meaning.units[target] ?? "";
    $("error-name").textContent = "Mean absolute error";
    $("error").textContent = count ? `${shortText(model)} ${unit}` : "–";
    $("error-note").textContent = count
      ? `repeating the last value: ${shortText(persistence)} ${unit}`
      : "known when the truth is";
  }

  #newest() {
    const { history } = this.#stream;
    const { kind, names, several } = history.session.meaning;
    const values = history.shown.at(-1)?.values;
    if (kind === "output") {
      $("error-name").textContent = "Outputs of a token";
      $("error").textContent = String(names.length);
      $("error-note").textContent = "without units";
      return;
    }
    const best = values ? values.indexOf(Math.max(...values)) : -1;
    const present = names.filter((_, place) => values?.[place] >= 0.5);
    $("error-name").textContent = several ? "Present now" : "Most probable now";
    $("error").textContent = several ? present.join(", ") || "nothing" : (names[best] ?? "–");
    $("error-note").textContent = values ? `${names[best]}: ${percentText(values[best])}` : "no token yet";
  }
}

function needText(reader, card) {
  if (reader.kind === "audio") return "Let it listen to the microphone, or drop an audio file.";
  const names = reader.settings
    ? [...reader.settings.timeColumns, ...reader.settings.columnNames]
    : (card.info.inputs ?? []);
  return names.length
    ? `Now drop a CSV with the columns ${listed(names, 12)}.`
    : `Now drop a CSV with ${reader.width} numbers a row.`;
}

function legendEntry([colour, name, value, unit]) {
  const [entry, term, text, small] = ["div", "dt", "dd", "small"].map((tag) => document.createElement(tag));
  term.style.setProperty("--dot", `var(--${colour})`);
  term.textContent = name;
  small.textContent = ` ${unit}`;
  text.append(numberText(value), small);
  entry.append(term, text);
  return entry;
}
