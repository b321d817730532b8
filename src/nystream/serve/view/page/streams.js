/** The list of streams. */

import { agoText, counted, countText, numberText, percentText } from "./words.js";

/**
 * @typedef {object} Stream
 * @property {string} key
 * @property {number} records
 * @property {boolean} in_memory
 * @property {number|null} seen_seconds
 * @property {{name: string, value: number|null, unit?: string, share?: boolean}|null} last
 */

export class StreamList {
  #rows = new Map(); // by key

  /**
   * @param {HTMLTableSectionElement} body
   * @param {{count: HTMLElement, none: HTMLElement}} texts
   * @param {(key: string) => void} onSelect
   */
  constructor(body, { count, none }, onSelect) {
    [this.body, this.count, this.none, this.onSelect] = [body, count, none, onSelect];
  }

  /**
   * @param {{streams: Stream[], owned: number, more: boolean, search: string}} list
   * @param {Set<string>} selected
   */
  show({ streams, owned, more, search }, selected) {
    const keys = new Set(streams.map(({ key }) => key));
    for (const [key, row] of this.#rows)
      if (!keys.has(key)) {
        row.remove();
        this.#rows.delete(key);
      }
    streams.forEach((stream, place) => {
      const row = this.#rows.get(stream.key) ?? this.#row(stream.key);
      // Moving a row that is in its place would take the focus away from it.
      if (this.body.children[place] !== row) this.body.insertBefore(row, this.body.children[place] ?? null);
      this.#fill(row, stream, selected.has(stream.key));
    });
    this.count.textContent = more
      ? `${countText(streams.length)} of ${counted(owned, "stream")}`
      : counted(owned, "stream");
    this.none.hidden = streams.length > 0;
    this.none.textContent = search
      ? `No key begins with “${search}”, and no stream in memory has it.`
      : "No streams yet.";
    this.body.parentElement.hidden = !streams.length;
  }

  /** Mark the selected ones, before the service has sent the list again. */
  mark(selected) {
    for (const [key, row] of this.#rows) this.#select(row, selected.has(key));
  }

  #row(key) {
    const row = document.createElement("tr");
    const [name, answer, records, seen] = ["th", "td", "td", "td"].map((tag) =>
      row.appendChild(document.createElement(tag)),
    );
    name.scope = "row";
    answer.className = "answer";
    records.className = seen.className = "number";
    const button = name.appendChild(document.createElement("button"));
    button.type = "button";
    button.append(document.createElement("i"), document.createElement("span"));
    button.lastChild.textContent = key;
    button.title = key;
    row.addEventListener("click", () => this.onSelect(key));
    this.#rows.set(key, row);
    return row;
  }

  #fill(row, { records, in_memory: inMemory, seen_seconds: seen, last }, isSelected) {
    const [name, answer, number, ago] = row.children;
    const where = inMemory ? "in memory" : "in the store";
    name.firstChild.firstChild.className = inMemory ? "dot" : "dot stored";
    name.firstChild.firstChild.title = where;
    set(answer, answerText(last, records, where));
    set(number, countText(records));
    set(ago, agoText(seen));
    row.firstChild.firstChild.setAttribute("aria-description", where);
    this.#select(row, isSelected);
  }

  #select(row, isSelected) {
    row.firstChild.firstChild.setAttribute("aria-pressed", String(isSelected));
    row.classList.toggle("selected", isSelected);
  }
}

/** An unchanged text is not set again, so that it can be marked and copied. */
function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function answerText(last, records, where) {
  if (last === null) return where === "in the store" && records ? where : "–";
  if (last.share) return `${last.name} ${percentText(last.value ?? NaN)}`;
  return `${numberText(last.value ?? NaN)}${last.unit ? ` ${last.unit}` : ""}`;
}
