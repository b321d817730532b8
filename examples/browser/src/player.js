/** Plays records at a number a second, and never longer than a part of a frame, so that the page stays responsive. */

const BUDGET = 10; // milliseconds of a frame

export class Player {
  position = 0;
  rate = 20;
  playing = false;

  #records = [];
  #due = 0;
  #last = 0;
  #running = Promise.resolve();

  /**
   * @param {(record: any, place: number) => Promise<void>} take Takes in a record.
   * @param {() => void} show Draws a frame, after some records.
   */
  constructor(take, show) {
    this.take = take;
    this.show = show;
  }

  get count() {
    return this.#records.length;
  }

  get ended() {
    return this.position >= this.#records.length;
  }

  /** Replace the records, from the first; waits until none of the old ones is being taken in. */
  async load(records) {
    await this.pause();
    this.#records = records;
    this.position = 0;
  }

  play() {
    if (this.playing || this.ended) return;
    this.playing = true;
    this.#due = 1;
    this.#last = performance.now();
    requestAnimationFrame(this.#frame);
  }

  async pause() {
    this.playing = false;
    await this.#running;
  }

  #frame = (now) => {
    if (!this.playing) return;
    this.#running = this.#some(now).then(() => {
      if (this.ended) this.playing = false;
      this.show();
      if (this.playing) requestAnimationFrame(this.#frame);
    });
  };

  async #some(now) {
    this.#due += (this.rate * Math.max(0, now - this.#last)) / 1000 || (this.rate === Infinity ? Infinity : 0);
    this.#last = now;
    const end = performance.now() + BUDGET;
    while (this.playing && !this.ended && this.#due >= 1) {
      await this.take(this.#records[this.position], this.position);
      this.position += 1;
      this.#due -= 1;
      if (performance.now() >= end) break;
    }
    this.#due = Math.min(this.#due, 1); // what the device cannot do in time is not made up for
  }
}
