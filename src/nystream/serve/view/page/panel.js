/** The chart of one stream. */

import { History, meaningOf, middle } from "./answers.js";
import { ClassChart } from "./chart/classes.js";
import { LineChart } from "./chart/lines.js";
import { momentText } from "./chart/times.js";
import { forecastPicture, outputPicture } from "./pictures.js";
import { counted, countText, numberText, percentText, rowsText, shortText } from "./words.js";

const SPANS = [48, 96, 192, 480, 960];
const MAX_OUTPUTS = 6;

export class Panel {
  #choice = { span: 96, target: 0, horizon: 0, cursor: null };

  /**
   * @param {HTMLTemplateElement} template
   * @param {string} key
   * @param {object} model As the service describes it.
   * @param {() => void} onClose
   */
  constructor(template, key, model, onClose) {
    this.element = template.content.cloneNode(true).firstElementChild;
    this.key = key;
    const part = (selector) => this.element.querySelector(selector);
    part("h2").textContent = key;
    this.element.setAttribute("aria-label", `Stream ${key}`);
    part(".close").setAttribute("aria-label", `Close ${key}`);
    part(".close").addEventListener("click", onClose);
    this.parts = Object.fromEntries(
      ["subtitle", "legend", "waiting", "notes", "span", "target", "horizon"].map((name) => [name, part(`.${name}`)]),
    );
    this.canvas = part("canvas");
    this.setModel(model);
    this.canvas.addEventListener("pointermove", ({ offsetX }) => this.#point(offsetX));
    this.canvas.addEventListener("pointerleave", () => this.#point(null));
    for (const name of ["span", "target", "horizon"])
      this.parts[name].addEventListener("change", ({ target }) => {
        this.#choice[name] = Number(target.value);
        this.draw();
      });
  }

  /** Begin anew, with the meaning of a model's answers. */
  setModel(model) {
    const meaning = meaningOf(model);
    this.meaning = meaning;
    this.history = new History(meaning);
    this.chart = new (meaning.kind === "probabilities" ? ClassChart : LineChart)(this.canvas);
    const { span, target, horizon } = this.parts;
    Object.assign(this.#choice, { target: 0, horizon: 0 });
    fill(
      span,
      SPANS.map((rows) => [rows, rowsText(rows, meaning.seconds)]),
      this.#choice.span,
    );
    fill(target, meaning.kind === "forecast" ? meaning.names.map((name, i) => [i, name]) : []);
    fill(
      horizon,
      meaning.horizons.map((rows, i) => [i, rowsText(rows, meaning.seconds)]),
    );
    this.draw();
  }

  add(message) {
    this.history.add(message);
  }

  /** The stream was deleted. */
  clear() {
    this.history = new History(this.meaning);
  }

  draw() {
    const { history, meaning } = this;
    const newest = history.shown.at(-1);
    this.parts.waiting.hidden = Boolean(newest);
    if (meaning.kind === "probabilities") this.#drawClasses();
    else {
      const picture = (meaning.kind === "forecast" ? forecastPicture : outputPicture)(history, this.#choice);
      this.picture = picture;
      this.chart.draw(picture);
    }
    this.#legend(newest);
    const time = newest?.time ? `, ${momentText(newest.time)}` : "";
    this.parts.subtitle.textContent = history.records ? `${counted(history.records, "record")}${time}` : "";
    const notes = [
      history.missed ? `${counted(history.missed, "record")} came too fast to be shown.` : "",
      history.errors ? `${counted(history.errors, "record")} could not be read.` : "",
      history.note,
    ];
    const text = notes.filter(Boolean).join(" ");
    if (this.parts.notes.textContent !== text) this.parts.notes.textContent = text;
  }

  #drawClasses() {
    const { span } = this.#choice;
    const shown = this.history.shown.slice(-span);
    this.chart.draw({
      names: this.meaning.names,
      columns: shown.map(({ values }) => values.map((value) => (Number.isFinite(value) ? value : 0))),
      span,
      now: shown.at(-1)?.token ?? 0,
      seconds: this.meaning.seconds,
    });
  }

  #legend(newest) {
    const entries = newest ? this.#entries(newest) : [];
    const { legend } = this.parts;
    while (legend.children.length > entries.length) legend.lastChild.remove();
    entries.forEach(([name, value, unit, colour], i) => {
      const entry = legend.children[i] ?? legend.appendChild(document.createElement("div"));
      if (!entry.firstChild) entry.append(...["dt", "dd"].map((tag) => document.createElement(tag)));
      entry.style.setProperty("--dot", colour ? `var(--${colour})` : "transparent");
      entry.classList.toggle("plain", !colour);
      entry.children[0].textContent = name;
      entry.children[1].textContent = unit ? `${value} ${unit}` : value;
    });
    const said = entries.map(([name, value, unit]) => `${name} ${value}${unit ? ` ${unit}` : ""}`).join(", ");
    this.canvas.setAttribute("aria-label", newest ? `Token ${countText(newest.token)}: ${said}` : "No answers yet.");
  }

  /** What the legend says: names, values, units and colours. */
  #entries(newest) {
    const { names, units, kind, quantiles, horizons, seconds } = this.meaning;
    const { target, horizon, cursor } = this.#choice;
    const at =
      cursor === null ? newest : (this.history.shown.find(({ token }) => token === Math.round(cursor)) ?? newest);
    if (kind === "probabilities") {
      const best = at.values.indexOf(Math.max(...at.values));
      return [[names[best] ?? "–", percentText(at.values[best]), "", "truth"]];
    }
    if (kind === "output")
      return names.slice(0, MAX_OUTPUTS).map((name, i) => [name, numberText(at.values[i]), units[i], `output-${i}`]);
    const levels = at.values[target][horizon];
    const entries = [
      ["Truth", numberText(at.truth?.[target]), units[target], "truth"],
      [`In ${rowsText(horizons[horizon], seconds)}`, numberText(middle(levels, quantiles)), units[target], "forecast"],
    ];
    if (quantiles.length > 1)
      entries.push([
        `${percentText(quantiles[0])} to ${percentText(quantiles.at(-1))}`,
        `${numberText(levels[0])} – ${numberText(levels.at(-1))}`,
        "",
        "band",
      ]);
    if (target === 0 && horizon === 0 && Number.isFinite(this.history.error))
      entries.push(["Mean error", shortText(this.history.error), units[target], ""]);
    return entries;
  }

  #point(pixels) {
    if (this.meaning.kind === "probabilities" || !this.picture) return;
    const at = pixels === null ? null : Math.round(this.chart.at(pixels, this.picture));
    this.#choice.cursor = at !== null && at >= this.picture.first && at <= this.picture.now ? at : null;
    this.draw();
  }
}

/** The choices of a select, which is shown if there are several. */
function fill(select, choices, chosen = choices[0]?.[0]) {
  select.replaceChildren(...choices.map(([value, text]) => new Option(text, value, false, value === chosen)));
  select.parentElement.hidden = choices.length < 2;
  select.setAttribute("aria-label", select.previousElementSibling.textContent);
}
