/** The demo stream: this page is the client that pushes it, record by record, over the WebSocket that others use. */

import { ask, openSocket } from "./access.js";

export const KEY = "nystream-demo";
const FETCHED = 64; // records at a time
const MAX_IN_FLIGHT = 16;
const TICK = 50; // milliseconds between two looks at the clock
const AGAIN = 1000; // milliseconds before it connects again

export class Demo {
  #socket = null;
  #timer = 0;
  #records = new Map(); // by number
  #fetching = false;
  #next = 0; // number of the next record; 0 until the stream is open
  #answered = 0;
  #due = 0; // records that should have been sent, in fractions
  #length = Infinity;
  #paused = 0; // until when, because the service said so
  #fresh = false; // delete the stream first

  /** @param {(state: "running"|"stopped"|"ended", note: string) => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    this.speed = 10;
    this.state = "stopped";
    this.source = "";
  }

  start() {
    this.#fresh = this.state === "ended";
    this.#change("running", "");
    this.#connect();
    let before = performance.now();
    clearInterval(this.#timer);
    this.#timer = setInterval(() => {
      const now = performance.now();
      // A tab in the background wakes rarely: it does not catch up.
      this.#due = Math.min(this.#due + ((now - before) / 1000) * this.speed, this.speed / 4 + 1);
      before = now;
      this.#push();
    }, TICK);
  }

  stop(state = "stopped", note = "") {
    clearInterval(this.#timer);
    const socket = this.#socket;
    [this.#socket, this.#next] = [null, 0];
    socket?.close();
    this.#change(state, note);
  }

  #connect() {
    const socket = (this.#socket = openSocket("v1/stream"));
    this.#next = 0;
    socket.onopen = () => {
      if (this.#fresh) this.#send({ type: "close", key: KEY });
      this.#fresh = false;
      this.#send({ type: "open", key: KEY });
    };
    socket.onmessage = ({ data }) => {
      if (socket === this.#socket) for (const message of [JSON.parse(data)].flat()) this.#receive(message);
    };
    socket.onclose = () => {
      if (socket !== this.#socket) return;
      this.#change("running", "The connection was lost; the stream goes on when the service is back.");
      setTimeout(() => socket === this.#socket && this.#connect(), AGAIN);
    };
  }

  #send(message) {
    this.#socket.send(JSON.stringify(message));
  }

  #receive(message) {
    if (message.type === "opened") {
      [this.#next, this.#answered] = [message.next, message.next - 1];
      this.#change("running", "");
    } else if (message.type === "answer") {
      this.#answered = message.number;
      if (message.number >= this.#length)
        this.stop("ended", "The end of the sample. Start it again from the first record.");
    } else if (message.type === "error") {
      if (message.code === "unknown_stream" && !message.number) return; // it was to be deleted, and there was none
      this.#paused = performance.now() + 1000 * (message.retry_after ?? 0.2);
      this.#next = 0;
      this.#change("running", message.message);
      const socket = this.#socket;
      // Asking for the number that is expected covers whatever went wrong.
      setTimeout(
        () => socket === this.#socket && socket.readyState === 1 && this.#send({ type: "open", key: KEY }),
        1000,
      );
    }
  }

  #push() {
    if (!this.#next || performance.now() < this.#paused || this.#socket?.readyState !== WebSocket.OPEN) return;
    this.#fetch();
    while (this.#due >= 1 && this.#next - 1 - this.#answered < MAX_IN_FLIGHT && this.#records.has(this.#next)) {
      const number = this.#next++;
      this.#send({ type: "push", key: KEY, number, record: this.#records.get(number) });
      this.#records.delete(number - FETCHED);
      this.#due -= 1;
    }
  }

  async #fetch() {
    let first = this.#next;
    while (this.#records.has(first)) first++;
    if (this.#fetching || first > this.#length || first - this.#next > FETCHED / 2) return;
    this.#fetching = true;
    try {
      const { source, length, records } = await ask(`v1/demo?after=${first - 1}&limit=${FETCHED}`);
      [this.source, this.#length] = [source, length];
      records.forEach((record, i) => this.#records.set(first + i, record));
      if (first > length) this.stop("ended", "The end of the sample. Start it again from the first record.");
    } catch (error) {
      if (error.code === "not_found") this.stop("stopped", error.message);
      else this.#paused = performance.now() + AGAIN;
    } finally {
      this.#fetching = false;
    }
  }

  #change(state, note) {
    this.state = state;
    this.onChange(state, note);
  }
}
