/** The live feed, which connects again by itself. */

import { ask, openSocket, Refusal } from "./access.js";

const FIRST_PAUSE = 500; // milliseconds before it connects again
const LONGEST_PAUSE = 5000;
const SILENCE = 6000; // the service sends something every second
const HIDDEN = 60_000; // a page that nobody sees does not look

/**
 * @typedef {object} Handlers
 * @property {(status: object) => void} status The description of the service, whenever it is connected.
 * @property {(message: object) => void} message
 * @property {(state: "connecting"|"live"|"waiting"|"paused"|"refused", reason?: Error) => void} state
 * @property {(error: Refusal) => void} refused It will not try again by itself.
 */

export class Feed {
  #socket = null;
  #timer = 0;
  #silence = 0;
  #hidden = 0;
  #pause = FIRST_PAUSE;
  #watch = { type: "watch", keys: [], search: "" };

  /** @param {Handlers} handlers */
  constructor(handlers) {
    this.handlers = handlers;
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.#hidden);
      if (document.hidden) this.#hidden = setTimeout(() => this.#end("paused"), HIDDEN);
      else if (this.#socket === null) this.connect();
    });
    addEventListener("online", () => this.#socket === null && this.connect());
  }

  /** Say which streams to send, and which to list. */
  watch(keys, search) {
    this.#watch = { type: "watch", keys, search };
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(this.#watch));
  }

  /** Connect now. */
  async connect() {
    this.#end("connecting");
    const mine = (this.#socket = {}); // another call takes its place
    try {
      const status = await ask("v1/status");
      if (this.#socket !== mine) return;
      this.handlers.status(status);
      this.#open(openSocket("v1/live"));
    } catch (error) {
      if (this.#socket !== mine) return;
      if (error instanceof Refusal && ["unauthorized", "forbidden"].includes(error.code)) {
        this.#end("refused");
        this.handlers.refused(error);
      } else this.#wait(error);
    }
  }

  #open(socket) {
    this.#socket = socket;
    const alive = () => {
      clearTimeout(this.#silence);
      this.#silence = setTimeout(() => socket === this.#socket && this.#wait(new Error("it is silent")), SILENCE);
    };
    alive();
    socket.onopen = () => socket.send(JSON.stringify(this.#watch));
    socket.onmessage = ({ data }) => {
      if (socket !== this.#socket) return;
      alive();
      this.#pause = FIRST_PAUSE;
      this.handlers.state("live");
      for (const message of [JSON.parse(data)].flat()) this.handlers.message(message);
    };
    socket.onclose = ({ reason }) =>
      socket === this.#socket && this.#wait(new Error(reason || "it has closed the connection"));
  }

  #wait(error) {
    const pause = this.#pause * (0.5 + Math.random() / 2); // so that pages do not come all at once
    this.#end("waiting", error);
    this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE);
    this.#timer = setTimeout(() => this.connect(), pause);
  }

  #end(state, error) {
    clearTimeout(this.#timer);
    clearTimeout(this.#silence);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close?.();
    this.handlers.state(state, error);
  }
}
